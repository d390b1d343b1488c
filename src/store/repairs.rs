//! Searches of the misfire handler: overdue, stranded, withdrawn and unreadable rows.

use std::sync::Arc;

use super::change::{UnreadableRow, Unstarted};
use super::poll::Section;
use super::transition::{ExecutionChange, RunEnd, Transition};
use crate::domain::{
    Attempt, Entry, ExecutionId, ExecutionState, JobPolicy, Millis, Reason, ScheduleId, ScheduleState,
    Timestamp, Token,
};
use crate::time::CURSOR_AHEAD;

#[derive(Clone, Debug)]
pub(crate) struct OverdueQuery {
    pub application: String,
    /// Schedules due before this are not looked for.
    pub from: Timestamp,
    pub before: Timestamp,
    /// What the page before this one left; `None` of the first page.
    pub sections: Option<Vec<Section>>,
    pub limit: usize,
}

/// One page of what fell behind: an equal share of each job and shard, earliest first.
#[derive(Clone, Debug)]
pub(crate) struct OverduePage {
    /// Rows that cannot be understood are left out, so a full page may bring fewer than asked for.
    pub entries: Vec<Entry>,
    /// The unstarted executions that repairs of these schedules left earlier, if their policy lets them give
    /// way.
    pub unstarted: Vec<Unstarted>,
    /// Where more may come after this page.
    pub next: Vec<Section>,
}

/// What people are told of a schedule: its name, or its id if its row is gone or has no name that can be
/// read.
#[cfg(any(feature = "sql", feature = "testing", test))]
pub(crate) fn called(name: &str, id: ScheduleId) -> Arc<str> {
    if name.is_empty() { format!("id {id}").into() } else { name.into() }
}

/// A CLAIMED or RUNNING execution nobody answers for, or one whose handler ran on beyond its time limit
/// there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stranded {
    pub id: ExecutionId,
    pub schedule: ScheduleId,
    /// What its schedule is [`called`].
    pub name: Arc<str>,
    /// Empty if its schedule's row is gone.
    pub job: Arc<str>,
    pub state: ExecutionState,
    pub token: Token,
    pub attempt: u32,
    /// How many earlier attempts at its occurrence failed, or ran out of time.
    pub failures: u32,
    /// How many earlier attempts at its occurrence were ABANDONED.
    pub deaths: u32,
    /// Somebody asked to cancel it.
    pub is_cancelled: bool,
    /// If its schedule fires again some time after its end: how long, milliseconds.
    pub delay: Option<Millis>,
    pub policy: JobPolicy,
}

impl Stranded {
    /// The schedule that its end plans.
    pub(crate) fn plans(&self) -> Option<RunEnd> {
        self.delay.map(|delay| RunEnd { schedule: self.schedule, delay })
    }

    /// What events call it.
    pub(crate) fn named(&self) -> Attempt {
        let (schedule, job) = (Arc::clone(&self.name), Arc::clone(&self.job));
        Attempt { execution: self.id, schedule, job, number: self.attempt }
    }
}

/// A PENDING execution that is not to be run: of a removed schedule, or asked to cancel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Withdrawn {
    pub attempt: Attempt,
    pub token: Token,
    pub reason: Reason,
    /// The schedule that its end plans.
    pub plans: Option<RunEnd>,
}

impl Withdrawn {
    pub(crate) fn cancel(&self, now: Timestamp) -> ExecutionChange {
        let cancel = Transition::Cancel(self.reason);
        let change = ExecutionChange::of(self.attempt.execution, self.token, cancel, now);
        ExecutionChange { run_end: self.plans, ..change }
    }
}

/// One page of stranded executions.
#[derive(Clone, Debug)]
pub(crate) struct StrandedPage {
    /// Rows that cannot be read are left out, so a full page may bring fewer than asked for.
    pub stranded: Vec<Stranded>,
    /// The page was full: more may come after this one.
    pub next: Option<ExecutionId>,
}

/// One step of a walk over the schedules, by id, for rows that cannot be understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnreadableQuery {
    pub application: String,
    pub after: ScheduleId,
    /// How many rows of all applications the step walks over: its cost does not grow with the table.
    pub step: usize,
    /// Rows due from `from` on and before `before` whose job a live node lists are looked at with every step;
    /// none are if `before` is the earliest instant.
    pub from: Timestamp,
    pub before: Timestamp,
    /// The most rows brought of the step, and of those that are overdue; at most a step.
    pub limit: usize,
    /// The step also brings active schedules that have passed this instant, if they are as far
    /// [ahead](CURSOR_AHEAD) of the database's clock, too, and it was no skip by hand that passed it.
    pub ahead: Option<Timestamp>,
}

impl UnreadableQuery {
    /// Whether a readable schedule is asked for: `now` is by the database's clock.
    pub(crate) fn wants(&self, entry: &Entry, now: Timestamp) -> bool {
        let limit = self.ahead.map(|ahead| ahead.max(now + CURSOR_AHEAD));
        entry.state == ScheduleState::Active && limit.is_some_and(|limit| entry.is_ahead(limit))
    }
}

/// A schedule whose cursor is ahead of the database's clock, which was `seen` to be at that instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CursorAhead {
    pub entry: Entry,
    pub seen: Timestamp,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnreadablePage {
    pub broken: Vec<UnreadableRow>,
    pub ahead: Vec<CursorAhead>,
    /// Schedules of which something is expected, and that are not in QRTZ_EXPECTED yet.
    pub expecting: Vec<ScheduleId>,
    /// The next step's `after`; `None` at the walk's end.
    pub next: Option<ScheduleId>,
}
