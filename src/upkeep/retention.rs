//! Retention: ended occurrences leave the ledger once they are old enough.
//!
//! A walk over the schedules by name, and then over the executions without a schedule, removes a bounded
//! number with each step. It goes on, step by step, at the end of a pass, over several passes if it must, and
//! then rests for a part of the retention.

use super::operation::MisfireOp;
use crate::domain::{Event, Millis, ScheduleId};
use crate::store::{OrphanWalk, Purge, Purged, PurgedOrphans};
use crate::time::Now;

/// Occurrences per step.
const STEP: usize = 1_000;
/// A walk is followed by another after this part of the retention,
const WALKS: Millis = 100;
/// and after this at the latest.
const LONGEST_REST: Millis = 3_600_000;

pub(super) struct Retention {
    /// How long the ledger keeps an ended occurrence; `None` is for ever.
    keep: Option<Millis>,
    place: Place,
    walk: Walk,
}

/// Where the walk goes on.
enum Place {
    /// Behind the schedule of this name; it begins with the empty one.
    Schedules(String),
    /// With the executions of deleted schedules behind this.
    Orphans(ScheduleId),
}

#[derive(Clone, Copy)]
enum Walk {
    /// The next walk begins with the first pass after this instant (boot clock).
    Rests { until: Millis },
    /// It goes on with the next pass, or once the step under way has ended.
    Waits,
    /// It goes on in this pass.
    Steps,
}

impl Retention {
    pub(super) fn new(keep: Option<Millis>) -> Self {
        Self { keep, place: Place::Schedules(String::new()), walk: Walk::Waits }
    }

    /// Whether this pass has a step to take.
    pub(super) fn has_step(&self) -> bool {
        matches!(self.walk, Walk::Steps)
    }

    pub(super) fn begin_pass(&mut self, now: Now) {
        let rests = matches!(self.walk, Walk::Rests { until } if now.boot < until);
        if self.keep.is_some() && !rests {
            self.walk = Walk::Steps;
        }
    }

    pub(super) fn end_pass(&mut self) {
        if self.has_step() {
            self.walk = Walk::Waits;
        }
    }

    pub(super) fn step(&mut self, application: &str) -> Option<MisfireOp> {
        if !self.has_step() {
            return None;
        }
        self.walk = Walk::Waits;
        let (application, keep, limit) = (application.to_owned(), self.keep?, STEP);
        Some(match &self.place {
            Place::Schedules(after) => {
                MisfireOp::Purge(Purge { application, after: after.clone(), keep, limit })
            }
            Place::Orphans(after) => {
                MisfireOp::PurgeOrphans(OrphanWalk { application, after: *after, keep, limit })
            }
        })
    }

    /// The event of a step that removed something.
    pub(super) fn purged(&mut self, purged: Purged) -> Option<Event> {
        let Purged { occurrences, schedules, nodes, next } = purged;
        self.walk = Walk::Steps;
        self.place = next.map_or(Place::Orphans(ScheduleId(i64::MIN)), Place::Schedules);
        (occurrences + schedules + nodes > 0).then_some(Event::Purged { occurrences, schedules, nodes })
    }

    /// As [`Retention::purged`]; the walk's last steps.
    pub(super) fn purged_orphans(&mut self, purged: PurgedOrphans, now: Now) -> Option<Event> {
        (self.walk, self.place) = match purged.next {
            Some(next) => (Walk::Steps, Place::Orphans(next)),
            None => {
                let until = now.boot.saturating_add(self.rest());
                (Walk::Rests { until }, Place::Schedules(String::new()))
            }
        };
        let occurrences = purged.executions;
        (occurrences > 0).then_some(Event::Purged { occurrences, schedules: 0, nodes: 0 })
    }

    fn rest(&self) -> Millis {
        self.keep.map_or(LONGEST_REST, |keep| (keep / WALKS).min(LONGEST_REST))
    }
}

#[cfg(test)]
mod tests;
