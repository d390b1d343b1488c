//! Occurrences in a row that failed.

use super::rows::Execution;
use super::tables::Tables;
use crate::domain::{ExecutionId, ExecutionState, ScheduleState};
use crate::store::columns::NO_TIME;
use crate::store::repairs::called;
use crate::store::streak::{AttemptRow, Count, Streak, StreakQuery, count};
use crate::store::{Applied, Result, when};

impl Tables {
    pub(super) fn streak(&self, query: &StreakQuery) -> Option<Streak> {
        let id = query.schedule;
        let row = self.schedule(id.0).filter(|row| row.is(ScheduleState::Active))?;
        let pause_after = when::pause_after(row.settings.pause_after).ok()?;
        let after = row.resumed.filter(|_| !self.hooks.forgets_resumes).unwrap_or(NO_TIME);
        let is_meant =
            |run: &Execution| run.generation == row.generation && run.origin == 0 && run.scheduled > after;
        // What was never run counts as nothing.
        let was_run = |run: &Execution| {
            run.attempt > 1 || !(run.is(ExecutionState::Skipped) || run.is(ExecutionState::Cancelled))
        };
        let newest = self.ledger(id.0).rev().filter(|(_, run)| is_meant(run)).take(query.reach.scanned);
        let rows: Vec<AttemptRow> = newest
            .filter(|(_, run)| was_run(run))
            .take(query.reach.rows)
            .map(|(id, run)| self.attempt_row(id, run))
            .collect();
        let Count::Due(reason) = count(&rows, &query.dying, pause_after) else { return None };
        let (application, name) = (row.application.to_string(), called(&row.name, id));
        Some(Streak { schedule: id, version: row.version, application, name, reason })
    }

    pub(super) fn contain(&mut self, query: &StreakQuery, counted: &Streak) -> Result<Applied> {
        if self.streak(query).as_ref() != Some(counted) {
            return Ok(Applied::Lost);
        }
        let (change, audit) = counted.pause();
        self.apply_audited(&change, &audit)
    }

    fn attempt_row(&self, id: ExecutionId, run: &Execution) -> AttemptRow {
        AttemptRow {
            id,
            scheduled: run.scheduled,
            state: run.state.parse().ok(),
            reason: run.reason.to_string(),
            node: run.node.map(|node| node.to_string()).unwrap_or_default(),
            is_over: run.finished.is_some(),
            is_cancelled: self.cancels.contains_key(&id.0),
        }
    }
}
