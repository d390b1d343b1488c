//! Which execution stands for the occurrence that was planned at an instant.

use super::tables::Tables;
use crate::domain::{ExecutionId, ScheduleId, Timestamp};

impl Tables {
    pub(super) fn execution_at(&self, schedule: ScheduleId, at: Timestamp) -> Option<ExecutionId> {
        let mut planned = self.ledger(schedule.0).rev().filter(|(_, run)| run.origin == 0);
        let found = planned.find(|(_, run)| run.scheduled <= at && run.until.unwrap_or(run.scheduled) >= at);
        found.map(|(id, _)| id)
    }
}
