//! `replay`: an application's past, played again in memory with a change.

use std::io::Write;
use std::ops::Range;
use std::time::Duration;

use chrono::{DateTime, Utc};
use firetime::testing::{Replay, Replayed, ReplayedSchedule, Tally};
use firetime::{Client, Cron, ErrorKind, Trigger};

use crate::failure::{Failure, Result};
use crate::inspect::{Kind, connect, find_application, names};
use crate::output::{self, Output};
use crate::target::Target;
use crate::when::utc;

/// The span of the past that is played, and the changes to it.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) span: Range<DateTime<Utc>>,
    pub(crate) nodes: Option<usize>,
    pub(crate) crons: Vec<(String, String)>,
    pub(crate) intervals: Vec<(String, Duration)>,
    pub(crate) time_limits: Vec<(String, Duration)>,
    pub(crate) outages: Vec<Range<DateTime<Utc>>>,
}

impl Changes {
    fn are_none(&self) -> bool {
        let Self { span: _, nodes, crons, intervals, time_limits, outages } = self;
        nodes.is_none()
            && crons.is_empty()
            && intervals.is_empty()
            && time_limits.is_empty()
            && outages.is_empty()
    }
}

pub(crate) fn replay(target: &Target, changes: &Changes, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    find_application(&client, target)?;
    let mut replay = Replay::of(&client, changes.span.clone())?;
    for (name, expression) in &changes.crons {
        replay = replay.trigger(name, cron(&client, name, expression)?);
    }
    for (name, span) in &changes.intervals {
        replay = replay.trigger(known(&client, name)?, Trigger::every(*span)?);
    }
    for (job, limit) in &changes.time_limits {
        replay = replay.time_limit(job, *limit);
    }
    for outage in &changes.outages {
        replay = replay.outage(outage.clone());
    }
    if let Some(count) = changes.nodes {
        replay = replay.nodes(count);
    }
    let replayed = replay.run()?;
    match output {
        Output::Json => output::json(out, &replayed),
        Output::Table => tell(&replayed, changes, out),
    }
}

/// The expression in the time zone of the schedule; of another trigger than cron, in UTC.
fn cron(client: &Client, name: &str, expression: &str) -> Result<Trigger> {
    let rule = client.schedule(known(client, name)?)?.rule;
    let zone = if let Some(Trigger::Cron(cron)) = &rule { cron.zone() } else { "UTC" };
    Ok(Trigger::Cron(Cron::parse(expression, zone)?))
}

fn known<'a>(client: &Client, name: &'a str) -> Result<&'a str> {
    match client.schedule(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Failure::not_found("schedule", name, names(client, Kind::Schedule)?))
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(name),
    }
}

fn tell(replayed: &Replayed, changes: &Changes, out: &mut dyn Write) -> Result {
    let (since, until) = (utc(Some(replayed.since)), utc(Some(replayed.until)));
    let application = &replayed.application;
    let nodes = match changes.nodes.unwrap_or(replayed.nodes) {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    };
    writeln!(out, "{application} from {since} until {until} UTC, on {nodes}")?;
    let (then, again) = agreement(replayed);
    writeln!(out, "without a change {again} of the {then} runs of then succeed again")?;
    if !changes.are_none() {
        let count = replayed.differing().count();
        writeln!(out, "the change makes a difference to {count} of {} schedules", replayed.schedules.len())?;
    }
    writeln!(out)?;
    let headings =
        ["SCHEDULE", "RAN THEN", "RAN", "FAILED", "COLLIDED", "SKIPPED", "LATE", "LATEST MS", "OPEN"];
    output::table(out, headings, replayed.schedules.iter().map(row))
}

/// How many successes there were, and how many of them a replay without a change has.
fn agreement(replayed: &Replayed) -> (u64, u64) {
    let then = replayed.schedules.iter().map(|it| it.recorded.ran).sum();
    let again = replayed.schedules.iter().map(|it| it.recorded.ran.min(it.unchanged.ran)).sum();
    (then, again)
}

fn row(it: &ReplayedSchedule) -> Vec<String> {
    let of = |count: fn(&Tally) -> u64| change(count(&it.unchanged), count(&it.changed));
    let latest = |tally: &Tally| u64::try_from(tally.longest_late.as_millis()).unwrap_or(u64::MAX);
    vec![
        it.name.clone(),
        it.recorded.ran.to_string(),
        of(|tally| tally.ran),
        of(|tally| tally.failed),
        of(collided),
        of(|tally| tally.skipped.values().sum::<u64>() - collided(tally)),
        of(|tally| tally.late),
        change(latest(&it.unchanged), latest(&it.changed)),
        of(|tally| tally.open),
    ]
}

fn collided(tally: &Tally) -> u64 {
    tally.skipped.get("overlap").copied().unwrap_or_default()
}

/// What it is without the change, and with it.
fn change(was: u64, is: u64) -> String {
    if was == is { was.to_string() } else { format!("{was} -> {is}") }
}
