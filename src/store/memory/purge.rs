//! Retention.

use std::ops::Bound;
use std::sync::Arc;

use super::rows::{App, Execution, Schedule};
use super::tables::Tables;
use crate::domain::{ExecutionId, ExecutionState, ScheduleState, Timestamp};
use crate::store::columns::NO_TIME;
use crate::store::when::HIGHEST_FENCE_MARK;
use crate::store::{OrphanWalk, Purge, Purged, PurgedOrphans};

impl Tables {
    pub(super) fn purge(&mut self, purge: &Purge) -> Purged {
        let before = self.now.saturating_sub(purge.keep);
        let after = (Bound::Excluded(purge.after.as_str()), Bound::Unbounded);
        let schedules = self.index(&purge.application).map(|index| index.schedules.range::<str, _>(after));
        let schedules: Vec<(Arc<str>, i64)> =
            schedules.into_iter().flatten().map(|(name, id)| (Arc::clone(name), *id)).collect();
        let mut purged = Purged { next: Some(purge.after.clone()), ..Purged::default() };
        if purge.after.is_empty() {
            purged.nodes = self.purge_nodes(&purge.application, before);
            self.purge_audit(&purge.application, before);
            self.forget_triggers(&purge.application, before);
            let gone: Vec<i64> =
                self.cancels.keys().copied().filter(|id| self.run(ExecutionId(*id)).is_none()).collect();
            gone.iter().for_each(|id| self.cancels.remove(id));
        }
        let (mark, mut fence) =
            (self.apps.get(purge.application.as_str()).map_or(0, |app| app.fence_from), 0);
        let is_queue = |id: i64| self.schedule(id).is_some_and(Schedule::is_queue);
        let schedules: Vec<_> = schedules.into_iter().filter(|(_, id)| !is_queue(*id)).collect();
        for (name, schedule) in schedules {
            let over = self.schedule(schedule).filter(|row| is_over(row, before));
            if let Some(over) = over.map(|row| row.fence.min(HIGHEST_FENCE_MARK)) {
                fence = fence.max(over);
                if over <= mark && self.ledger(schedule).next().is_none() {
                    self.remove_schedule(schedule);
                    purged.schedules += 1;
                }
            }
            purged.occurrences += self.purge_schedule(schedule, before, purge.limit - purged.occurrences);
            if purged.occurrences == purge.limit {
                break;
            }
            purged.next = Some(name.to_string());
        }
        if purged.occurrences < purge.limit {
            purged.next = None;
        }
        self.forget_said(before);
        if purge.after.is_empty() {
            self.purge_outcomes(&purge.application, before);
        }
        if purged.occurrences + purged.schedules > 0 {
            let application = self.application(&purge.application);
            let app = self.apps.row(application, App::default);
            app.ledger_from = app.ledger_from.max(before);
        }
        if let Some(app) = self.apps.get_mut(purge.application.as_str()) {
            app.fence_from = app.fence_from.max(fence);
        }
        purged
    }

    pub(super) fn purge_orphans(&mut self, walk: &OrphanWalk) -> PurgedOrphans {
        let before = self.now.saturating_sub(walk.keep);
        let is_old = |run: &Execution| match run.state.parse() {
            Ok(ExecutionState::Pending) => run.due < before,
            Ok(ExecutionState::Claimed | ExecutionState::Running) => false,
            _ => run.finished.is_some_and(|finished| finished < before),
        };
        let is_orphan = |run: &Execution| {
            run.schedule > walk.after.0
                && *run.application == *walk.application
                && self.schedule(run.schedule).is_none()
        };
        let old = self.runs().filter(|(_, run)| is_orphan(run) && is_old(run)).map(|(id, _)| id);
        let old: Vec<i64> = old.take(walk.limit).collect();
        old.iter().for_each(|id| self.remove_run(ExecutionId(*id)));
        self.forget_said(before);
        PurgedOrphans { executions: old.len(), next: (old.len() == walk.limit).then_some(walk.after) }
    }

    fn purge_nodes(&mut self, application: &str, before: Timestamp) -> usize {
        let known = self.nodes.len();
        let owned: Vec<_> = self.owned().keys().copied().collect();
        self.nodes.retain(|id, node| {
            let is_old = node.ended.is_some_and(|at| at < before);
            &*node.application != application || !is_old || owned.contains(&Some(*id))
        });
        known - self.nodes.len()
    }

    /// Removes the first occurrences of each generation, up to the first that stays; how many.
    fn purge_schedule(&mut self, schedule: i64, before: Timestamp, limit: usize) -> usize {
        let is_old = |first: &Execution| first.finished.unwrap_or(first.scheduled) < before;
        if !self.ledger(schedule).next().is_some_and(|(_, first)| is_old(first)) {
            return 0;
        }
        let rows: Vec<(ExecutionId, &Execution)> = self.ledger(schedule).collect();
        let mut old: Vec<Vec<ExecutionId>> = Vec::new();
        for generation in rows.chunk_by(|(_, one), (_, other)| one.generation == other.generation) {
            for planned in [true, false] {
                let chain: Vec<_> =
                    generation.iter().filter(|(_, run)| (run.origin == 0) == planned).copied().collect();
                let whole = chain.chunk_by(|(_, one), (_, other)| occurrence(one) == occurrence(other));
                let ended = whole.take_while(|rows| rows.iter().all(|(_, run)| has_ended(run, before)));
                old.extend(ended.map(|rows| rows.iter().map(|(id, _)| *id).collect()));
            }
        }
        old.truncate(limit);
        old.iter().flatten().for_each(|id| self.remove_run(*id));
        old.len()
    }
}

/// A COMPLETE one-shot of long ago, or a removed schedule.
fn is_over(row: &Schedule, before: Timestamp) -> bool {
    if row.is(ScheduleState::Removed) {
        return true;
    }
    let when = &row.shape.columns;
    let is_one_shot =
        when.job_type == "SIMPLE" && when.repeat_count == Some(0) && when.repeat_interval == Some(0);
    let is_complete = row.is(ScheduleState::Complete) && row.next == Some(NO_TIME);
    is_one_shot && is_complete && row.prev.is_some_and(|prev| (Timestamp::EPOCH..before).contains(&prev))
}

fn occurrence(run: &Execution) -> (i64, Timestamp) {
    (run.origin, run.scheduled)
}

pub(super) fn has_ended(run: &Execution, before: Timestamp) -> bool {
    run.state.parse().is_ok_and(ExecutionState::is_terminal)
        && run.scheduled < before
        && run.finished.is_some_and(|finished| finished < before)
}
