//! Executions, schedules and the audit as an address asks for them.

use chrono::{DateTime, Utc};

use super::web::query::Query;
use super::web::trouble::Trouble;
use super::words::instant::instant;
use crate::{AuditFilter, ExecutionFilter, ExecutionState, ScheduleFilter, Standing};

pub(super) fn executions(query: &Query, now: DateTime<Utc>) -> Result<ExecutionFilter, Trouble> {
    let state = |word: &str| {
        word.parse::<ExecutionState>()
            .map_err(|_| Trouble::wrong(format!("No execution's state is {word:?}.")))
    };
    Ok(ExecutionFilter {
        schedule: query.text("schedule"),
        job: query.text("job"),
        key: query.text("key"),
        group: query.text("group"),
        tag: query.text("tag"),
        states: query.all("state").map(state).collect::<Result<_, _>>()?,
        reason: query.text("reason"),
        cause: query.text("cause"),
        node: query.text("node"),
        since: query.get("since").map(|text| instant(text, now)).transpose()?,
        until: query.get("until").map(|text| instant(text, now)).transpose()?,
        after: query.get("after").map(str::parse).transpose()?,
        oldest_first: query.get("oldest").is_some(),
        ..ExecutionFilter::default()
    })
}

pub(super) fn schedules(query: &Query) -> Result<ScheduleFilter, Trouble> {
    let standing = |word: &str| {
        word.parse().map_err(|_| {
            let words: Vec<&str> = Standing::ALL.iter().map(|it| it.as_str()).collect();
            Trouble::wrong(format!("Schedules do not stand {word:?}: write one of {}.", words.join(", ")))
        })
    };
    Ok(ScheduleFilter {
        text: query.typed("q").map(str::to_owned),
        job: query.text("job"),
        owner: query.text("owner"),
        standing: query.get("state").map(standing).transpose()?,
        neglected_first: query.get("first").is_some(),
        after: query.get("after").map(str::parse).transpose()?,
        ..ScheduleFilter::default()
    })
}

/// The audit, without a limit of its own; of an instant `since` tells.
pub(super) fn audit(query: &Query, since: Option<DateTime<Utc>>) -> Result<AuditFilter, Trouble> {
    Ok(AuditFilter {
        target: query.text("target"),
        actor: query.text("actor"),
        verb: query.text("verb"),
        since,
        after: query.get("after").map(str::parse).transpose()?,
        ..AuditFilter::default()
    })
}
