//! Retention.

use std::ops::Bound;
use std::sync::Arc;

use super::rows::Run;
use super::tables::Tables;
use crate::model::{ExecutionId, ExecutionState, Millis};
use crate::store::{Purge, Purged};

impl Tables {
    pub(super) fn purge(&mut self, purge: &Purge) -> Purged {
        let before = self.now.saturating_sub(purge.keep);
        let after = (Bound::Excluded(purge.after.as_str()), Bound::Unbounded);
        let schedules = self.index(&purge.application).map(|index| index.schedules.range::<str, _>(after));
        let schedules: Vec<(Arc<str>, i64)> =
            schedules.into_iter().flatten().map(|(name, id)| (Arc::clone(name), *id)).collect();
        let mut purged = Purged { occurrences: 0, next: Some(purge.after.clone()) };
        for (name, schedule) in schedules {
            purged.occurrences += self.purge_schedule(schedule, before, purge.limit - purged.occurrences);
            if purged.occurrences == purge.limit {
                break;
            }
            purged.next = Some(name.to_string());
        }
        if purged.occurrences < purge.limit {
            purged.next = None;
        }
        if purged.occurrences > 0 {
            let application = self.application(&purge.application);
            let app = self.apps.entry(application).or_default();
            app.ledger_from = app.ledger_from.max(before);
        }
        purged
    }

    /// Removes the first occurrences of the oldest generation, up to the first that stays; how many.
    fn purge_schedule(&mut self, schedule: i64, before: Millis, limit: usize) -> usize {
        let oldest = self.ledger(schedule).next().map(|(_, run)| run.generation);
        let rows: Vec<(ExecutionId, &Run)> =
            self.ledger(schedule).take_while(|(_, run)| Some(run.generation) == oldest).collect();
        let mut old: Vec<Vec<ExecutionId>> = Vec::new();
        for planned in [true, false] {
            let chain: Vec<_> =
                rows.iter().filter(|(_, run)| (run.origin == 0) == planned).copied().collect();
            let whole = chain.chunk_by(|(_, one), (_, other)| occurrence(one) == occurrence(other));
            let ended = whole.take_while(|rows| rows.iter().all(|(_, run)| has_ended(run, before)));
            old.extend(ended.map(|rows| rows.iter().map(|(id, _)| *id).collect()));
        }
        old.truncate(limit);
        old.iter().flatten().for_each(|id| self.remove_run(*id));
        old.len()
    }
}

fn occurrence(run: &Run) -> (i64, Millis) {
    (run.origin, run.scheduled)
}

fn has_ended(run: &Run, before: Millis) -> bool {
    run.state.parse().is_ok_and(ExecutionState::is_terminal)
        && run.scheduled < before
        && run.finished.is_some_and(|finished| finished < before)
}
