//! Quarantine: rows that cannot be understood go to ERROR, one by one.
//!
//! Each pass takes one step of a walk over all schedules by id, and looks besides at all that are overdue.

use std::ops::Range;

use super::operation::MisfireOp;
use crate::domain::{Millis, ScheduleId};
use crate::store::{UnreadablePage, UnreadableQuery};

/// Before the id of every schedule.
const FIRST: ScheduleId = ScheduleId(i64::MIN);
/// Rows that one step walks over. A walk over more takes more passes.
const STEP: usize = 50_000;
/// The most unreadable rows that one search brings.
const PER_SEARCH: usize = 200;

/// The walk over all schedules.
pub(super) struct Quarantine {
    /// The last step began behind this schedule,
    stepped_from: ScheduleId,
    /// and the next one begins behind this.
    next_step: ScheduleId,
}

impl Quarantine {
    pub(super) fn new() -> Self {
        Self { stepped_from: FIRST, next_step: FIRST }
    }

    /// The walk's next step, together with the schedules due in this span of database time.
    pub(super) fn search(&mut self, application: &str, due: Range<Millis>) -> MisfireOp {
        self.stepped_from = self.next_step;
        MisfireOp::FindUnreadable(UnreadableQuery {
            application: application.to_owned(),
            after: self.stepped_from,
            step: STEP,
            from: due.start,
            before: due.end,
            limit: PER_SEARCH,
        })
    }

    pub(super) fn found(&mut self, page: UnreadablePage) -> impl Iterator<Item = MisfireOp> + use<> {
        self.next_step = page.next.unwrap_or(FIRST);
        page.broken.into_iter().map(MisfireOp::Quarantine)
    }

    /// Not all found rows were quarantined: the next pass takes the step again.
    pub(super) fn repeat_step(&mut self) {
        self.next_step = self.stepped_from;
    }
}

#[cfg(test)]
mod tests;
