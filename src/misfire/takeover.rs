//! Takeover: executions whose node is dead go back to PENDING, or end and are followed by their next attempt;
//! those of removed schedules are cancelled.
//!
//! [`recover_apart`](crate::repair::recover_apart) decides what becomes of each.

use super::calls::{Asked, Call};
use crate::domain::{Event, ExecutionId};
use crate::repair::Revocation;
use crate::store::Transition;

/// Before the id of every execution.
pub(super) const FIRST: ExecutionId = ExecutionId(i64::MIN);
/// Executions per search.
const PER_SEARCH: usize = 4_000;

/// The search for stranded executions by id, behind `after`.
pub(super) fn search(application: &str, after: ExecutionId) -> Call {
    Asked::find_stranded(application.to_owned(), after, PER_SEARCH, ())
}

/// The search for PENDING executions of removed schedules. More than one search brings are left to the next
/// pass: nobody claims them.
pub(super) fn withdrawn(application: &str) -> Call {
    Asked::find_withdrawn(application.to_owned(), PER_SEARCH, ())
}

/// The event of an execution that was taken back for the last time.
pub(super) fn exhausted(Revocation { stranded, transition, .. }: &Revocation) -> Option<Event> {
    let deaths = stranded.deaths.saturating_add(1);
    (*transition == Transition::Exhaust).then(|| Event::Exhausted { attempt: stranded.named(), deaths })
}

#[cfg(test)]
mod tests;
