//! Retention: ended occurrences leave the ledger once they are old enough.
//!
//! A walk over the schedules by name, then over the enqueued executions, and then over those whose schedules
//! somebody deleted, removes a bounded number with each step. It goes on, step by step, at the end of a pass,
//! over several passes if it must, and then rests for a part of the retention.

use super::operation::MisfireOp;
use crate::domain::{Error, Event, Millis, ScheduleId};
use crate::store::{OrphanWalk, Purge, Purged, PurgedOrphans, PurgedQueues, QueuePlace, QueueWalk, Store};
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
    /// With the enqueued executions behind this.
    Queues(QueuePlace),
    /// With the executions of deleted schedules behind this.
    Orphans(ScheduleId),
}

/// One step of the walk.
#[derive(Clone)]
pub(crate) enum PurgeStep {
    Schedules(Purge),
    Queues(QueueWalk),
    Orphans(OrphanWalk),
}

/// What a step came to.
pub(crate) enum PurgedStep {
    Schedules(Purged),
    Queues(PurgedQueues),
    Orphans(PurgedOrphans),
}

impl PurgeStep {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Schedules(_) => "purging the ledger",
            Self::Queues(_) => "purging enqueued executions",
            Self::Orphans(_) => "purging executions without a schedule",
        }
    }

    pub(super) fn perform(self, store: &dyn Store) -> Result<PurgedStep, Error> {
        match self {
            Self::Schedules(purge) => store.purge(&purge).map(PurgedStep::Schedules),
            Self::Queues(walk) => store.purge_queues(&walk).map(PurgedStep::Queues),
            Self::Orphans(walk) => store.purge_orphans(&walk).map(PurgedStep::Orphans),
        }
    }
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
        Some(MisfireOp::Purge(match &self.place {
            Place::Schedules(after) => {
                PurgeStep::Schedules(Purge { application, after: after.clone(), keep, limit })
            }
            Place::Queues(after) => PurgeStep::Queues(QueueWalk { application, after: *after, keep, limit }),
            Place::Orphans(after) => {
                PurgeStep::Orphans(OrphanWalk { application, after: *after, keep, limit })
            }
        }))
    }

    /// The event of a step that removed something.
    pub(super) fn purged(&mut self, purged: PurgedStep, now: Now) -> Option<Event> {
        self.walk = Walk::Steps;
        let (occurrences, schedules, nodes) = match purged {
            PurgedStep::Schedules(Purged { occurrences, schedules, nodes, next }) => {
                self.place = next.map_or(Place::Queues(QueuePlace::FIRST), Place::Schedules);
                (occurrences, schedules, nodes)
            }
            PurgedStep::Queues(PurgedQueues { executions, next }) => {
                self.place = next.map_or(Place::Orphans(ScheduleId(i64::MIN)), Place::Queues);
                (executions, 0, 0)
            }
            PurgedStep::Orphans(PurgedOrphans { executions, next: Some(next) }) => {
                self.place = Place::Orphans(next);
                (executions, 0, 0)
            }
            PurgedStep::Orphans(PurgedOrphans { executions, next: None }) => {
                self.walk = Walk::Rests { until: now.boot.saturating_add(self.rest()) };
                self.place = Place::Schedules(String::new());
                (executions, 0, 0)
            }
        };
        (occurrences + schedules + nodes > 0).then_some(Event::Purged { occurrences, schedules, nodes })
    }

    fn rest(&self) -> Millis {
        self.keep.map_or(LONGEST_REST, |keep| (keep / WALKS).min(LONGEST_REST))
    }
}

#[cfg(test)]
mod tests;
