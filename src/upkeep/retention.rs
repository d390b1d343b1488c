//! Retention: ended occurrences leave the ledger once they are old enough.
//!
//! A walk over the schedules by name removes a bounded number with each step. It goes on, step by step, at
//! the end of a pass, over several passes if it must, and then rests for a part of the retention.

use super::operation::MisfireOp;
use crate::domain::{Event, Millis};
use crate::store::{Purge, Purged};
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
    /// The walk goes on behind the schedule of this name; it begins with the empty one.
    after: String,
    walk: Walk,
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
        Self { keep, after: String::new(), walk: Walk::Waits }
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
        let (application, after) = (application.to_owned(), self.after.clone());
        self.keep.map(|keep| MisfireOp::Purge(Purge { application, after, keep, limit: STEP }))
    }

    /// The event of a step that removed something.
    pub(super) fn purged(&mut self, purged: Purged, now: Now) -> Option<Event> {
        let Purged { occurrences, schedules, nodes, next } = purged;
        self.walk = match next {
            Some(_) => Walk::Steps,
            None => Walk::Rests { until: now.boot.saturating_add(self.rest()) },
        };
        self.after = next.unwrap_or_default();
        (occurrences + schedules + nodes > 0).then_some(Event::Purged { occurrences, schedules, nodes })
    }

    fn rest(&self) -> Millis {
        self.keep.map_or(LONGEST_REST, |keep| (keep / WALKS).min(LONGEST_REST))
    }
}

#[cfg(test)]
mod tests;
