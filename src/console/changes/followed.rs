//! Attempts that others have followed, and occurrences that have been run again.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use crate::ExecutionView;

/// The ids of the executions whose occurrence has a later attempt in the same list.
pub(crate) fn followed(list: &[ExecutionView]) -> BTreeSet<i64> {
    let occurrence = |it: &ExecutionView| (it.schedule.clone(), it.generation, it.origin, it.fire_time_ms);
    let mut sorted: Vec<&ExecutionView> = list.iter().collect();
    sorted.sort_by_cached_key(|it| (occurrence(it), it.attempt));
    let pairs = sorted.windows(2).filter(|pair| occurrence(pair[0]) == occurrence(pair[1]));
    pairs.filter(|pair| pair[0].attempt < pair[1].attempt).map(|pair| pair[0].id).collect()
}

/// The schedules and fire times of a list whose rerun has succeeded, or has yet to end.
pub(crate) fn mended(list: &[ExecutionView]) -> BTreeSet<(&str, DateTime<Utc>)> {
    let is_open = |state: &str| ["SUCCEEDED", "PENDING", "CLAIMED", "RUNNING"].contains(&state);
    let reruns = list.iter().filter(|it| it.origin != 0 && it.cause != "by hand" && is_open(&it.state));
    reruns.filter_map(|it| Some((it.schedule.as_str(), it.fire_time?))).collect()
}
