//! Counts of outcomes are added up: the elected node does it every two minutes, in bounded steps.

use super::calls::{Asked, Call};
use crate::domain::{Boot, Millis};
use crate::store::outcomes::OutcomeFold;
use crate::time::Now;

const EVERY: Millis = 120_000;
/// The most rows of a step.
const STEP: usize = 2_000;

/// When it is time again: at first a while after the first pass.
#[derive(Default)]
pub(super) struct Outcomes {
    next: Option<Boot>,
}

impl Outcomes {
    /// The first step of a pass, if it is time.
    pub(super) fn begin(&mut self, application: &str, now: Now) -> Option<Call> {
        let next = *self.next.get_or_insert(now.boot.saturating_add(EVERY));
        if now.boot < next {
            return None;
        }
        self.next = Some(now.boot.saturating_add(EVERY));
        Some(step(application, now))
    }
}

/// The step behind one that had as many rows as it may have.
pub(super) fn step(application: &str, now: Now) -> Call {
    let fold = OutcomeFold { application: application.to_owned(), now: now.db, limit: STEP };
    Asked::fold_outcomes(fold, ())
}

#[cfg(test)]
mod tests {
    use super::super::tests::at;
    use super::*;

    #[test]
    fn they_are_added_up_every_two_minutes() {
        let mut outcomes = Outcomes::default();
        let times = [0, EVERY - 1, EVERY, EVERY + 1, 2 * EVERY];
        let steps = times.map(|boot| outcomes.begin("app", at(boot)).is_some());
        assert_eq!(steps, [false, false, true, false, true]);
    }
}
