//! Containment: pauses schedules whose occurrences fail for good, or kill their nodes, again and again.
//!
//! After each such end the ledger is asked how many there were in a row. After a failure the node that stored
//! it asks, elected or not. After a death the elected node asks before the revocation that ends the
//! occurrence for good: if it dies in between, the execution stays stranded, and its successor asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::calls::{Asked, Call};
use super::pass::FAILURE_PAUSE;
use crate::domain::{Boot, ExecutionId, Millis, ScheduleId};
use crate::repair::Revocation;
use crate::store::streak::{Reach, Streak, StreakQuery};
use crate::time::Now;

/// A schedule is counted again so long after its pause was lost, and after twice the time with each loss.
const FIRST_DELAY: Millis = 100;
const LONGEST_DELAY: Millis = 60_000;
/// The same after the database did not answer.
const FAILURE_DELAY: Millis = 2_000;
/// The most revocations that wait for a count. The others are left to the next takeover.
const MOST_DYING: usize = 16_000;

pub(super) struct Containment {
    /// The pause that follows the last count.
    next: Option<(StreakQuery, Streak)>,
    /// Schedules of which an occurrence has failed for good here.
    failed: BTreeSet<ScheduleId>,
    /// The revocations that wait for the count of their schedule.
    dying: BTreeMap<ScheduleId, Vec<Revocation>>,
    /// Schedules that are not counted for deaths before the next takeover, as a count of theirs has failed.
    withheld: BTreeSet<ScheduleId>,
    delays: BTreeMap<ScheduleId, Delay>,
    /// The schedule counted last; counting goes on behind it, so that one that keeps failing starves none.
    last: ScheduleId,
    /// Nothing is counted before this.
    hold: Boot,
}

/// A schedule that is to be counted again.
#[derive(Clone, Copy)]
struct Delay {
    until: Boot,
    length: Millis,
}

impl Containment {
    pub(super) fn new() -> Self {
        Self {
            next: None,
            failed: BTreeSet::new(),
            dying: BTreeMap::new(),
            withheld: BTreeSet::new(),
            delays: BTreeMap::new(),
            last: ScheduleId(i64::MIN),
            hold: Boot::MIN,
        }
    }

    pub(super) fn failed_here(&mut self, schedule: ScheduleId) {
        self.failed.insert(schedule);
    }

    /// Forgets the last takeover: the next search brings what is left of it.
    pub(super) fn begin_takeover(&mut self, now: Now) {
        self.drop_dying();
        self.withheld.clear();
        let failed = &self.failed;
        self.delays.retain(|schedule, delay| {
            failed.contains(schedule) || now.boot < delay.until.saturating_add(LONGEST_DELAY)
        });
    }

    /// The executions that are about to end for good stay with their dead nodes until the next takeover.
    pub(super) fn drop_dying(&mut self) {
        self.dying.clear();
        self.next.take_if(|(query, _)| !query.dying.is_empty());
    }

    /// Whether revocations wait for a count.
    pub(super) fn has_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    /// These executions are about to end for good.
    pub(super) fn found_dying(&mut self, last: impl Iterator<Item = Revocation>) {
        let room = MOST_DYING.saturating_sub(self.dying.values().map(Vec::len).sum());
        let withheld = &self.withheld;
        for it in last.filter(|it| !withheld.contains(&it.stranded.schedule)).take(room) {
            self.dying.entry(it.stranded.schedule).or_default().push(it);
        }
    }

    /// The pause of the schedule that was counted last.
    pub(super) fn pause(&mut self) -> Option<Call> {
        self.next.take().map(|(query, streak)| Asked::contain(query.clone(), streak.clone(), (query, streak)))
    }

    /// The next count; without `with_dying` only of a schedule that has failed here.
    pub(super) fn step(&mut self, now: Now, with_dying: bool) -> Option<Call> {
        if now.boot < self.hold {
            return None;
        }
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let up_to = (Bound::Unbounded, Bound::Included(self.last));
        let next = |range| {
            let is_due = |it: &ScheduleId| self.delays.get(it).is_none_or(|delay| now.boot >= delay.until);
            let failed = self.failed.range(range).copied().find(is_due);
            let dying = self.dying.range(range).map(|(schedule, _)| *schedule).find(is_due);
            failed.into_iter().chain(dying.filter(|_| with_dying)).min()
        };
        let schedule = next(behind).or_else(|| next(up_to))?;
        self.last = schedule;
        let dying: Vec<ExecutionId> =
            self.dying.get(&schedule).into_iter().flatten().map(|it| it.stranded.id).collect();
        let query = StreakQuery { schedule, dying, reach: Reach::MOST };
        Some(Asked::count(query.clone(), query))
    }

    /// When it has something to do.
    pub(super) fn wakes_at(&self) -> Boot {
        let all = self.failed.iter().chain(self.dying.keys());
        let due = all.map(|it| self.delays.get(it).map_or(Boot::MIN, |delay| delay.until)).min();
        due.map_or(Boot::MAX, |due| due.max(self.hold))
    }

    /// Without a streak its schedule's revocations can be written: these.
    pub(super) fn counted(&mut self, query: StreakQuery, streak: Option<Streak>) -> Vec<Revocation> {
        let Some(streak) = streak else { return self.settled(&query) };
        self.next = Some((query, streak));
        Vec::new()
    }

    /// The schedule is paused, or has no streak: the revocations that waited for it.
    pub(super) fn settled(&mut self, query: &StreakQuery) -> Vec<Revocation> {
        self.failed.remove(&query.schedule);
        self.delays.remove(&query.schedule);
        self.take(query)
    }

    /// The schedule has changed since it was counted, or somebody holds its row.
    pub(super) fn lost(&mut self, query: &StreakQuery, now: Now) {
        self.delay(query.schedule, FIRST_DELAY, now);
    }

    /// A count, or a pause, has failed. That of a death is left to the next takeover, and one that the row
    /// itself makes fail to the next failure.
    pub(super) fn failed(&mut self, query: &StreakQuery, is_rows_own: bool, now: Now) {
        if !query.dying.is_empty() {
            self.dying.remove(&query.schedule);
            self.withheld.insert(query.schedule);
        }
        if is_rows_own {
            self.failed.remove(&query.schedule);
            return;
        }
        self.hold = now.boot + FAILURE_PAUSE;
        if self.failed.contains(&query.schedule) {
            self.delay(query.schedule, FAILURE_DELAY, now);
        }
    }

    fn take(&mut self, query: &StreakQuery) -> Vec<Revocation> {
        let Some(all) = self.dying.remove(&query.schedule) else { return Vec::new() };
        let (counted, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| query.dying.contains(&it.stranded.id));
        if !others.is_empty() {
            self.dying.insert(query.schedule, others);
        }
        counted
    }

    fn delay(&mut self, schedule: ScheduleId, least: Millis, now: Now) {
        let delay = self.delays.entry(schedule).or_insert(Delay { until: now.boot, length: 0 });
        delay.length = (2 * delay.length).clamp(least, LONGEST_DELAY);
        delay.until = now.boot + delay.length;
    }
}

#[cfg(test)]
mod tests;
