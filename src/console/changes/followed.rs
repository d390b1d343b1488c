//! Attempts that others have followed, and occurrences that have been run again.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use crate::{Cause, Client, Error, ExecutionFilter, ExecutionId, ExecutionState, ExecutionView};

/// The states of an attempt after which its occurrence needs no further one, or not yet.
const MENDS: [ExecutionState; 4] =
    [ExecutionState::Succeeded, ExecutionState::Pending, ExecutionState::Claimed, ExecutionState::Running];
/// So many reruns are looked at, and so many further attempts.
const LOOKED_AT: usize = 500;

/// The ids of the executions whose occurrence has a later attempt in the same list.
pub(crate) fn followed(list: &[ExecutionView]) -> BTreeSet<ExecutionId> {
    let occurrence =
        |it: &ExecutionView| (it.schedule.clone(), it.generation, it.origin, it.stored_fire_time);
    let mut sorted: Vec<&ExecutionView> = list.iter().collect();
    sorted.sort_by_cached_key(|it| (occurrence(it), it.attempt));
    let pairs = sorted.windows(2).filter(|pair| occurrence(pair[0]) == occurrence(pair[1]));
    pairs.filter(|pair| pair[0].attempt < pair[1].attempt).map(|pair| pair[0].id).collect()
}

/// The schedules and fire times of a list whose rerun has succeeded, or has yet to end.
pub(crate) fn mended<'a>(
    list: impl IntoIterator<Item = &'a ExecutionView>,
) -> BTreeSet<(&'a str, DateTime<Utc>)> {
    let mends = |it: &&ExecutionView| it.state.known().is_some_and(|state| MENDS.contains(&state));
    let is_rerun = |it: &&ExecutionView| it.origin != 0 && !matches!(it.cause, Cause::ByHand { .. });
    let reruns = list.into_iter().filter(is_rerun).filter(mends);
    reruns.filter_map(|it| Some((it.schedule.as_str(), it.fire_time?))).collect()
}

/// Whether it was skipped, or withdrawn, and is one of these.
pub(crate) fn is_mended(it: &ExecutionView, mended: &BTreeSet<(&str, DateTime<Utc>)>) -> bool {
    left_out(it).is_some_and(|at| mended.contains(&(&it.schedule, at)))
}

/// The fire time of an occurrence that was skipped or withdrawn.
fn left_out(it: &ExecutionView) -> Option<DateTime<Utc>> {
    let is_left = [ExecutionState::Skipped, ExecutionState::Withdrawn].iter().any(|state| it.state == *state);
    it.fire_time.filter(|_| is_left && it.count == 1)
}

/// What mends those of a list that were skipped or withdrawn, as far as so many tell: a list of these alone
/// has no reruns.
pub(crate) fn menders(client: &Client, list: &[ExecutionView]) -> Result<Vec<ExecutionView>, Error> {
    let times = || list.iter().filter_map(left_out);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Ok(Vec::new()) };
    let of = |cause: &str| {
        client.executions(&ExecutionFilter {
            cause: Some(cause.to_owned()),
            states: MENDS.to_vec(),
            since: Some(first),
            until: last.checked_add_signed(TimeDelta::milliseconds(1)),
            limit: LOOKED_AT,
            ..ExecutionFilter::default()
        })
    };
    // A rerun may have been tried again.
    Ok([of("rerun")?, of("retry")?].concat())
}
