//! Rows that are held or refused, and changes that are noted, as tests have asked for them.

use std::sync::{MutexGuard, PoisonError};

use super::MemoryStore;
use super::hooks::{HeldKey, NotedChange};
use super::rows::Execution;
use super::tables::Tables;
use crate::domain::{Error, ErrorKind, ExecutionId, JobId, ScheduleId, Timestamp};
use crate::store::{Change, Result};

impl MemoryStore {
    /// Stands for a database that is away.
    pub(super) fn refuse_read_if_asked(&self) -> Result<()> {
        let refused = &mut self.tables().hooks.reads_refused;
        match refused.checked_sub(1) {
            Some(left) => {
                *refused = left;
                Err(Error::new(ErrorKind::Unavailable, "as the test asked"))
            }
            None => Ok(()),
        }
    }

    pub(super) fn until_free(
        &self,
        rows: impl Iterator<Item = ScheduleId> + Clone,
    ) -> MutexGuard<'_, Tables> {
        let held = |tables: &mut Tables| rows.clone().any(|id| tables.is_held(id));
        self.shared.released.wait_while(self.tables(), held).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    pub(super) fn is_held(&self, id: ScheduleId) -> bool {
        self.hooks.held.contains(&HeldKey::Schedule(id))
    }

    pub(super) fn has_held_execution(&self, change: &Change) -> bool {
        change.execution().is_some_and(|id| self.is_execution_held(id))
    }

    pub(super) fn is_execution_held(&self, id: ExecutionId) -> bool {
        self.hooks.held.contains(&HeldKey::Execution(id))
    }

    pub(super) fn is_job_held(&self, id: JobId) -> bool {
        self.hooks.held.contains(&HeldKey::Job(id))
    }

    /// Stands for an INSERT the database refuses for one row of a batch.
    pub(super) fn refuse_if_asked(&self, schedule: i64) -> Result<()> {
        if self.hooks.refused.contains(&schedule) {
            return Err(Error::new(ErrorKind::Data, "refused as the test asked"));
        }
        Ok(())
    }

    /// Notes a change of an execution's row, which was `before`.
    pub(super) fn note(&mut self, id: i64, before: Option<&Execution>) {
        if self.hooks.noted {
            let state = |run: &Execution| run.state.to_string();
            let (from, to) = (before.map(state), self.run(ExecutionId(id)).map(state));
            if let (None, Some(before)) = (&to, before) {
                self.hooks.removed.push((id, before.clone()));
            }
            self.hooks.changes.push(NotedChange {
                at: (self.now - self.hooks.clock_error).millis(),
                apart: self.hooks.clock_error,
                execution: id,
                from,
                to,
            });
        }
    }

    /// A member has these tables: what becomes of them is noted where all agree on it.
    pub(super) fn become_a_copy(&mut self) {
        self.hooks.noted = false;
        self.commits = None;
    }

    pub(super) fn true_time(&self) -> Timestamp {
        self.now - self.hooks.clock_error
    }
}
