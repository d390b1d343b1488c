//! Quarantine: rows that cannot be understood go to ERROR, one by one.
//!
//! Each pass searches all overdue schedules, and takes one step of a walk over all schedules by id.
//!
//! The walk also finds schedules whose cursor is ahead of the clock: the database's clock was set too far,
//! and back again, and they would not fire before it gets there. They are planned anew once the clock has run
//! steadily for a while. Until then it may be the clock that is wrong: planned anew, they would be overdue
//! with all that they have fired, as soon as it is set right. A cursor that somebody's skip has moved ahead
//! stays where it is.

use std::ops::Range;

use super::calls::{Asked, Call};
use crate::domain::{Boot, Millis, ScheduleId, Timestamp};
use crate::store::{UnreadableQuery, UnreadableRow};
use crate::time::{CURSOR_AHEAD, Now, OFFSET_JUMP};

/// Before the id of every schedule.
const FIRST: ScheduleId = ScheduleId(i64::MIN);
/// Rows that one step walks over. A walk over more takes more passes.
const STEP: usize = 50_000;
/// The most unreadable rows that one search brings.
const PER_SEARCH: usize = 200;
/// How long the database's clock runs without a step before it is believed.
const STEADY: Millis = 300_000;

/// The walk over all schedules.
pub(super) struct Quarantine {
    /// The last step began behind this schedule.
    stepped_from: ScheduleId,
    /// The next step begins behind this schedule.
    next_step: ScheduleId,
    pub(super) clock: SteadyClock,
}

/// Since when the database's clock has run without a step, as far as this node has seen.
#[derive(Default)]
pub(super) struct SteadyClock {
    /// How far database time is ahead of the boot clock, and the first instant at which it was so.
    seen: Option<(Millis, Boot)>,
    /// A sabotage: it is believed however briefly it has run.
    #[cfg(test)]
    pub(super) is_trusted: bool,
}

impl SteadyClock {
    /// Notes the time.
    pub(super) fn saw(&mut self, now: Now) {
        let ahead = now.ahead();
        let steady = self.seen.filter(|(before, _)| (ahead - before).abs() <= OFFSET_JUMP);
        self.seen = Some((ahead, steady.map_or(now.boot, |(_, since)| since)));
    }

    /// Whether it has run steadily for long enough.
    pub(super) fn is_believed(&self, now: Now) -> bool {
        #[cfg(test)]
        if self.is_trusted {
            return true;
        }
        self.seen.is_some_and(|(_, since)| now.boot - since >= STEADY)
    }
}

impl Quarantine {
    pub(super) fn new() -> Self {
        Self { stepped_from: FIRST, next_step: FIRST, clock: SteadyClock::default() }
    }

    /// The walk's next step, together with the schedules due in this span of database time, if there is one.
    pub(super) fn search(&mut self, application: &str, due: Option<Range<Timestamp>>, now: Now) -> Call {
        self.clock.saw(now);
        self.stepped_from = self.next_step;
        let (from, before) = due.map_or((Timestamp::MIN, Timestamp::MIN), |due| (due.start, due.end));
        let query = UnreadableQuery {
            application: application.to_owned(),
            after: self.stepped_from,
            step: STEP,
            from,
            before,
            limit: PER_SEARCH,
            ahead: self.clock.is_believed(now).then_some(now.db + CURSOR_AHEAD),
        };
        Asked::find_unreadable(query, ())
    }

    pub(super) fn found(
        &mut self,
        broken: Vec<UnreadableRow>,
        next: Option<ScheduleId>,
    ) -> impl Iterator<Item = Call> + use<> {
        self.next_step = next.unwrap_or(FIRST);
        broken.into_iter().map(|row| Asked::quarantine(row.clone(), row))
    }

    /// Not all found rows were quarantined: the next pass takes the step again.
    pub(super) fn repeat_step(&mut self) {
        self.next_step = self.stepped_from;
    }
}

#[cfg(test)]
mod tests;
