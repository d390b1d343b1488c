//! Which execution stands for the occurrence that was planned at an instant.

use std::collections::BTreeSet;
use std::ops::Range;

use super::tables::Tables;
use crate::domain::{ExecutionId, ScheduleId, Timestamp};

impl Tables {
    pub(super) fn execution_at(&self, schedule: ScheduleId, at: Timestamp) -> Option<ExecutionId> {
        let mut planned = self.ledger(schedule.0).rev().filter(|(_, run)| run.origin == 0);
        let found = planned.find(|(_, run)| run.scheduled <= at && run.until.unwrap_or(run.scheduled) >= at);
        found.map(|(id, _)| id)
    }

    pub(super) fn fire_times(
        &self,
        schedule: ScheduleId,
        span: &Range<Timestamp>,
        limit: usize,
    ) -> Vec<Timestamp> {
        let planned = self.ledger(schedule.0).filter(|(_, run)| run.origin == 0);
        let times: BTreeSet<_> =
            planned.map(|(_, run)| run.scheduled).filter(|at| span.contains(at)).collect();
        times.into_iter().take(limit).collect()
    }
}
