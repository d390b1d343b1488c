//! Parts of the pipeline one at a time, for `benches/` alone: it comes and goes with the feature `bench` and
//! is no part of the library's interface.

use std::sync::Arc;

use crate::domain::{Boot, Cursor, Entry, Millis, NextFire, Occurrence, Timestamp};
use crate::pipeline::expand::expand;
use crate::pipeline::lanes::Lanes;
use crate::pipeline::plan::Plan;
use crate::pipeline::poll::{Covered, PollPlan};
pub use crate::pipeline::wheel::{Due, Handle, Refused, Wheel};
use crate::sample::entry;
use crate::trigger::{Timing, Trigger, TriggerError};

/// Schedules' rows as a poll brings them.
pub struct Rows(Vec<Arc<Entry>>);

impl Rows {
    /// One active row per trigger, its cursor before the trigger's first occurrence at or after `now`.
    ///
    /// # Errors
    /// A trigger that has no start.
    pub fn new(triggers: Vec<Trigger>, now: Millis) -> Result<Self, TriggerError> {
        let row = |(trigger, id)| {
            let timing = Timing::new(trigger, None, None)?;
            let cursor =
                Cursor { prev: None, next: NextFire::planned(timing.next_after(Timestamp::at(now - 1))) };
            Ok(Arc::new(entry(id, timing, cursor)))
        };
        triggers.into_iter().zip(1..).map(row).collect::<Result<_, _>>().map(Self)
    }

    /// All occurrences before `until`.
    #[must_use]
    pub fn expand(&self, now: Millis, until: Millis) -> Links {
        Links(expand(&self.0, Timestamp::at(now), Timestamp::at(until), 0).occurrences)
    }
}

/// Expanded occurrences.
pub struct Links(Vec<Occurrence>);

impl Links {
    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Lets them wait in a plan at `now`.
    #[must_use]
    pub fn plan(self, now: Millis) -> Waiting {
        let mut plan = Plan::new(Timestamp::at(now), self.0.len(), Lanes::default());
        let planned = PollPlan {
            occurrences: self.0,
            pendings: Vec::new(),
            complete: true,
            covered: Covered::ALL,
            enabled: true,
            sent: Boot::MIN,
        };
        plan.take(planned, Boot::MIN);
        Waiting(plan)
    }
}

/// A plan in which occurrences wait to become due.
pub struct Waiting(Plan);

impl Waiting {
    /// When the first becomes due.
    #[must_use]
    pub fn next_due(&self) -> Option<Millis> {
        self.0.next_due().map(Timestamp::millis)
    }
}
