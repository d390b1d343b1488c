//! Containment: schedules are paused whose occurrences fail for good, or kill their nodes, again and again.
//!
//! The ledger is asked after each such end. For what has failed that is done on the node that stored the
//! failure, elected or not. For a death it is done before the revocation with which the occurrence ends for
//! good: a handler that dies in between leaves the execution stranded, and its successor asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::operation::MisfireOp;
use crate::domain::{ExecutionId, Millis, ScheduleId};
use crate::repair::Revocation;
use crate::store::streak::{Streak, StreakQuery};
use crate::time::Now;

/// The pause after a count that failed, in which the pass goes on.
const PAUSE: Millis = 2_000;

pub(super) struct Containment {
    /// Comes before everything else.
    next: Option<MisfireOp>,
    /// Schedules of which an occurrence has failed for good here, to be counted in turn.
    failed: BTreeSet<ScheduleId>,
    last: ScheduleId,
    /// None of these is counted before this (boot clock).
    hold: Millis,
}

impl Containment {
    pub(super) fn new() -> Self {
        Self { next: None, failed: BTreeSet::new(), last: ScheduleId(i64::MIN), hold: Millis::MIN }
    }

    pub(super) fn failed_here(&mut self, schedule: ScheduleId) {
        self.failed.insert(schedule);
    }

    pub(super) fn step(&mut self, now: Now) -> Option<MisfireOp> {
        if let Some(op) = self.next.take() {
            return Some(op);
        }
        if now.boot < self.hold {
            return None;
        }
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let schedule = self.failed.range(behind).next().or(self.failed.first()).copied()?;
        self.failed.remove(&schedule);
        self.last = schedule;
        Some(MisfireOp::Count(StreakQuery { schedule, dying: Vec::new() }))
    }

    /// When (boot clock) it has something to do.
    pub(super) fn wakes_at(&self) -> Millis {
        if self.failed.is_empty() { Millis::MAX } else { self.hold }
    }

    pub(super) fn counted(&mut self, query: StreakQuery, streak: Option<Streak>) {
        self.next = streak.map(|streak| MisfireOp::Contain(query, streak));
    }

    /// The schedule has changed since it was counted.
    pub(super) fn lost(&mut self, query: StreakQuery) {
        self.next = Some(MisfireOp::Count(query));
    }

    /// A count, or a pause, has failed. That of a death is left to the next pass, and one that the row itself
    /// makes fail to the next failure.
    pub(super) fn failed(&mut self, query: &StreakQuery, is_rows_own: bool, now: Now) {
        if query.dying.is_empty() && !is_rows_own {
            self.failed.insert(query.schedule);
            self.hold = now.boot + PAUSE;
        }
    }
}

/// The counts that come before these revocations, one for each schedule.
pub(super) fn counts(last: &[Revocation]) -> impl Iterator<Item = MisfireOp> + use<> {
    let mut dying: BTreeMap<ScheduleId, Vec<ExecutionId>> = BTreeMap::new();
    for it in last {
        dying.entry(it.stranded.schedule).or_default().push(it.stranded.id);
    }
    dying.into_iter().map(|(schedule, dying)| MisfireOp::Count(StreakQuery { schedule, dying }))
}

#[cfg(test)]
mod tests;
