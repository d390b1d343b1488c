//! `replay`: its options as clap reads them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;

use crate::replay::Changes;
use crate::when::{self, When};

/// The span of the past that is played, and the changes to it.
#[derive(Debug, Args)]
pub(super) struct RawReplay {
    /// From then on: 2025-01-31T09:00:00Z (RFC 3339), or 90s, 15m, 2h, 7d ago
    #[arg(
        long, value_name = "WHEN", default_value = "7d", allow_hyphen_values = true, value_parser = when::parse
    )]
    since: When,
    /// Until then; default: now
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true, value_parser = when::parse)]
    until: Option<When>,
    /// As if there had been so many nodes; default: as many as there are
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=100))]
    nodes: Option<u8>,
    /// As if this schedule had had this cron expression, in its time zone; may be repeated
    #[arg(long, value_name = "SCHEDULE=EXPRESSION", value_parser = named)]
    cron: Vec<(String, String)>,
    /// As if this schedule had fired once in so long, such as 15m; may be repeated
    #[arg(long, value_name = "SCHEDULE=SPAN", value_parser = spanned)]
    every: Vec<(String, Duration)>,
    /// As if this job's handlers had had so long; may be repeated
    #[arg(long, value_name = "JOB=SPAN", value_parser = spanned)]
    time_limit: Vec<(String, Duration)>,
    /// As if the database had been away: two instants such as 2025-01-31T02:00:00Z..2025-01-31T04:00:00Z; may
    /// be repeated
    #[arg(long, value_name = "FROM..UNTIL", value_parser = outage)]
    outage: Vec<(DateTime<Utc>, DateTime<Utc>)>,
}

impl RawReplay {
    pub(super) fn resolve(self, now: DateTime<Utc>) -> Changes {
        let until = self.until.map_or(now, |until| until.from(now));
        Changes {
            span: self.since.from(now)..until,
            nodes: self.nodes.map(usize::from),
            crons: self.cron,
            intervals: self.every,
            time_limits: self.time_limit,
            outages: self.outage.into_iter().map(|(from, until)| from..until).collect(),
        }
    }
}

fn named(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("write a name, =, and what it would have had".to_owned()),
    }
}

fn spanned(text: &str) -> Result<(String, Duration), String> {
    let (name, span) = named(text)?;
    Ok((name, when::parse_span(&span)?))
}

fn outage(text: &str) -> Result<(DateTime<Utc>, DateTime<Utc>), String> {
    let ends = text.split_once("..").ok_or("write two instants with .. between them")?;
    let (from, until) = (when::parse_fire_time(ends.0)?, when::parse_fire_time(ends.1)?);
    if from < until { Ok((from, until)) } else { Err("it ends before it begins".to_owned()) }
}
