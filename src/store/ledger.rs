//! The ledger as it is verified: the schedules with their triggers, and the rows that account for these.

use super::columns::When;
use crate::domain::{ExecutionId, ScheduleId, Timestamp};

/// A page of an application's schedules by id, removed ones included; or the one of this name.
#[derive(Clone, Debug)]
pub(crate) struct LedgerPage {
    pub application: String,
    pub name: Option<String>,
    /// Only schedules behind this one.
    pub after: ScheduleId,
    pub limit: usize,
}

/// A schedule, with the triggers it has had.
#[derive(Clone, Debug)]
pub(crate) struct LedgerSchedule {
    pub id: ScheduleId,
    pub name: String,
    pub state: String,
    pub generation: i64,
    pub next: Option<Timestamp>,
    pub when: When,
    /// By generation; none of a row that was written by hand.
    pub triggers: Vec<TriggerPeriod>,
}

/// The trigger of one generation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TriggerPeriod {
    pub generation: i64,
    pub begun: Timestamp,
    /// The first fire time that was planned; none if there was none.
    pub first: Option<Timestamp>,
    pub when: When,
    pub end: Option<TriggerEnd>,
}

/// The end of a generation: by another trigger, by a removal, or by a cursor that was planned anew.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TriggerEnd {
    pub at: Timestamp,
    /// The last fire time that had been claimed or passed by then.
    pub last: Option<Timestamp>,
    /// The schedule's state until then.
    pub state: String,
}

/// Fire times from here on, before an instant, whose rows are read in pages of so many.
#[derive(Clone, Debug)]
pub(crate) struct LedgerRange {
    pub application: String,
    pub from: Timestamp,
    pub before: Timestamp,
    pub page: usize,
}

/// By what the rows of a range are found. The order is the key's either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinesBy {
    /// All rows of the ledger are looked at in their order.
    Key,
    /// Those of the range are gathered and sorted for each page.
    FireTime,
}

/// A page of the rows of some schedules, in the order of their key.
#[derive(Clone, Debug)]
pub(crate) struct LineQuery {
    pub by: LinesBy,
    pub application: String,
    pub after: LinePlace,
    /// Only schedules up to this one.
    pub through: ScheduleId,
    /// Occurrences from here on, and spans that reach here.
    pub from: Timestamp,
    pub before: Timestamp,
    pub limit: usize,
}

impl LineQuery {
    /// The schedule, if the page is of one alone.
    pub(crate) fn of_one(&self) -> Option<ScheduleId> {
        let LinePlace { schedule, .. } = self.after;
        let is_next =
            self.after == LinePlace::behind(schedule) && schedule.0.checked_add(1) == Some(self.through.0);
        let is_begun = schedule == self.through && self.after.generation < i64::MAX;
        Some(self.through).filter(|_| is_next || is_begun)
    }
}

/// Behind this row: the place of an execution in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinePlace {
    pub schedule: ScheduleId,
    pub generation: i64,
    pub origin: i64,
    pub scheduled: Timestamp,
    pub attempt: i64,
}

impl LinePlace {
    /// Behind all rows of a schedule.
    pub(crate) fn behind(schedule: ScheduleId) -> Self {
        let scheduled = Timestamp::MAX;
        Self { schedule, generation: i64::MAX, origin: i64::MAX, scheduled, attempt: i64::MAX }
    }
}

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LedgerLine {
    pub id: ExecutionId,
    pub place: LinePlace,
    /// The last occurrence that it stands for, if these are several.
    pub until: Option<Timestamp>,
    pub occurrences: i64,
    pub state: String,
    pub reason: String,
    pub cause: Option<String>,
    pub due: Timestamp,
    pub fence: i64,
    pub node: String,
    pub claimed: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    pub prev: Option<Timestamp>,
    pub following: Option<Timestamp>,
    pub holder: Option<i64>,
    pub error: String,
    pub result: Option<String>,
}
