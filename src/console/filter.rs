//! Executions as an address asks for them.

use chrono::{DateTime, Utc};

use super::instant::instant;
use super::query::Query;
use super::trouble::Trouble;
use crate::{ExecutionFilter, ExecutionPlace, ExecutionState};

pub(super) fn filter(query: &Query, now: DateTime<Utc>) -> Result<ExecutionFilter, Trouble> {
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
        after: query.get("after").map(place).transpose()?,
        oldest_first: query.get("oldest").is_some(),
        ..ExecutionFilter::default()
    })
}

/// The place of the last one shown.
fn place(text: &str) -> Result<ExecutionPlace, Trouble> {
    let numbers = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
    let (fire_time, id) = numbers.ok_or_else(|| Trouble::wrong("The page does not say what it follows."))?;
    Ok(ExecutionPlace { fire_time, id })
}
