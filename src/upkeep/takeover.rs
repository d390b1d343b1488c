//! Takeover: executions whose node is dead go back to PENDING, or end and are followed by their next attempt.
//!
//! [`recover_apart`](crate::repair::recover_apart) decides what becomes of each.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{Batch, WriteList};
use super::operation::MisfireOp;
use crate::domain::{Event, ExecutionId, Millis, Reason};
use crate::repair::Revocation;

/// Before the id of every execution.
pub(super) const FIRST: ExecutionId = ExecutionId(i64::MIN);
/// Executions per search.
const PER_SEARCH: usize = 4_000;
/// The execution's row, and mostly another that follows it.
const ROWS_EACH: usize = 2;

/// The search for stranded executions by id, behind `after`.
pub(super) fn search(application: &str, after: ExecutionId) -> MisfireOp {
    MisfireOp::FindStranded { application: application.to_owned(), after, limit: PER_SEARCH }
}

/// Takes the next batch off the list: as many revocations as write at most so many rows, but at least one.
pub(super) fn next_batch(
    list: &mut VecDeque<Revocation>,
    most_rows: usize,
    sent: Millis,
) -> Option<(MisfireOp, Batch)> {
    let count = list.len().min((most_rows / ROWS_EACH).max(1));
    if count == 0 {
        return None;
    }
    let batch: VecDeque<_> = list.drain(..count).collect();
    let op = MisfireOp::Revoke(batch.iter().cloned().collect());
    let (list, rows) = (WriteList::Revocations(batch), ROWS_EACH * count);
    Some((op, Batch { list, rows, sent, still_behind: Vec::new() }))
}

/// The events of an execution that was taken back.
pub(super) fn events(revocation: &Revocation) -> impl Iterator<Item = Event> {
    let stranded = &revocation.stranded;
    let schedule = || Arc::clone(&stranded.name);
    let what = "execution taken back from a dead node";
    let exhausted = (revocation.reason == Reason::AttemptsExhausted).then(|| Event::Exhausted {
        schedule: schedule(),
        execution: stranded.id,
        deaths: stranded.deaths.saturating_add(1),
    });
    [Event::Repaired { schedule: schedule(), what }].into_iter().chain(exhausted)
}

#[cfg(test)]
mod tests;
