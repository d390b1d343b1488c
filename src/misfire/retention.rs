//! Retention: ended occurrences leave the ledger once they are old enough.
//!
//! A walk over the schedules by name, then over the enqueued executions, and then over those whose schedules
//! somebody deleted, removes a bounded number with each step. It goes on, step by step, at the end of a pass,
//! over several passes if it must, and then rests for a part of the retention.

use super::calls::{Asked, Call};
use crate::domain::{Boot, Event, Millis, ScheduleId};
use crate::store::{OrphanWalk, Purge, Purged, PurgedOrphans, PurgedQueues, QueuePlace, QueueWalk};
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

#[derive(Clone, Copy)]
enum Walk {
    /// The next walk begins with the first pass after this instant.
    Rests { until: Boot },
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

    pub(super) fn step(&mut self, application: &str) -> Option<Call> {
        if !self.has_step() {
            return None;
        }
        self.walk = Walk::Waits;
        let (application, keep, limit) = (application.to_owned(), self.keep?, STEP);
        Some(match &self.place {
            Place::Schedules(after) => {
                Asked::purge(Purge { application, after: after.clone(), keep, limit }, ())
            }
            Place::Queues(after) => {
                Asked::purge_queues(QueueWalk { application, after: *after, keep, limit }, ())
            }
            Place::Orphans(after) => {
                Asked::purge_orphans(OrphanWalk { application, after: *after, keep, limit }, ())
            }
        })
    }

    /// Goes on behind a step over the schedules; the event of one that removed something.
    pub(super) fn purged(&mut self, purged: Purged) -> Option<Event> {
        let Purged { occurrences, schedules, nodes, next } = purged;
        self.go_on(next.map_or(Place::Queues(QueuePlace::FIRST), Place::Schedules));
        removed(occurrences, schedules, nodes)
    }

    /// The same of a step over the enqueued executions.
    pub(super) fn purged_queues(&mut self, purged: &PurgedQueues) -> Option<Event> {
        self.go_on(purged.next.map_or(Place::Orphans(ScheduleId(i64::MIN)), Place::Queues));
        removed(purged.executions, 0, 0)
    }

    /// The same of a step over the executions of deleted schedules, the last of which ends the walk.
    pub(super) fn purged_orphans(&mut self, purged: &PurgedOrphans, now: Now) -> Option<Event> {
        match purged.next {
            Some(next) => self.go_on(Place::Orphans(next)),
            None => {
                self.walk = Walk::Rests { until: now.boot.saturating_add(self.rest()) };
                self.place = Place::Schedules(String::new());
            }
        }
        removed(purged.executions, 0, 0)
    }

    fn go_on(&mut self, place: Place) {
        (self.walk, self.place) = (Walk::Steps, place);
    }

    fn rest(&self) -> Millis {
        self.keep.map_or(LONGEST_REST, |keep| (keep / WALKS).min(LONGEST_REST))
    }
}

fn removed(occurrences: usize, schedules: usize, nodes: usize) -> Option<Event> {
    (occurrences + schedules + nodes > 0).then_some(Event::Purged { occurrences, schedules, nodes })
}

#[cfg(test)]
mod tests;
