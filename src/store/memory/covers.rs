//! The span and the occurrences that an execution covers.

use super::hooks::CoversFault;
use super::tables::Tables;
use crate::domain::{Covers, ExecutionId, ExecutionState, LastAttempt, LeftOut};

impl Tables {
    pub(super) fn covers(&self, execution: ExecutionId, most: usize) -> Option<Covers> {
        let fails = |fault| self.hooks.covers_fault == Some(fault);
        let own = self.run(execution)?;
        if self.is_rerun(own) && !fails(CoversFault::OrdersToo) {
            return Some(Covers::new(own.prev, own.scheduled, LeftOut::default()));
        }
        let is_planned = own.origin == 0;
        let (mut generation, mut before) =
            (if is_planned { own.generation } else { i64::MAX }, own.scheduled);
        let (mut first, mut left_out) = (own.scheduled, LeftOut::default());
        let (mut seen, mut room) = (None, most);
        for (_, run) in self.ledger(own.schedule).rev() {
            let counts = run.origin == 0 || fails(CoversFault::OrdersToo);
            if !counts || run.generation > generation {
                continue;
            }
            if run.generation < generation {
                if fails(CoversFault::OneGeneration) && is_planned {
                    break;
                }
                (generation, before) = (run.generation, first);
            }
            let occurrence = (run.generation, run.origin, run.scheduled);
            if run.scheduled >= before {
                continue;
            }
            // The first of them from behind is the last attempt.
            if seen.replace(occurrence) == Some(occurrence) {
                // It has a row, too.
                room = room.saturating_sub(1);
                continue;
            }
            let has_ended = run.state.parse().is_ok_and(ExecutionState::is_terminal);
            if run.is(ExecutionState::Succeeded) || has_ended && fails(CoversFault::AnyEnd) {
                let left_out = if room == 0 { left_out.cut() } else { left_out };
                return Some(Covers::new(Some(run.scheduled), own.scheduled, left_out));
            }
            first = first.min(run.scheduled);
            if room == 0 {
                continue;
            }
            room -= 1;
            let (state, reason, has_finished) = (&*run.state, &*run.reason, run.finished.is_some());
            let count =
                if fails(CoversFault::SpansAsOne) { 1 } else { u64::try_from(run.count).unwrap_or(0) };
            left_out.count(&LastAttempt { state, reason, has_finished }, count);
        }
        let left_out = if room == 0 { left_out.cut() } else { left_out };
        Some(Covers::new(None, own.scheduled, left_out))
    }
}
