//! The executions that ended without success lately, and that no later attempt has followed.

use chrono::{DateTime, TimeDelta, Utc};

use crate::api::client::Client;
use crate::api::{ExecutionFilter, ExecutionView};
use crate::domain::{Error, ExecutionState};

/// So long failures are told after their end.
const RECENT: TimeDelta = TimeDelta::hours(1);
/// How long before its end an execution may have been due: it may have run for long, or waited.
const DUE_BEFORE: TimeDelta = TimeDelta::days(2);
/// So many failures are read.
const MOST_READ: usize = 1_000;

/// What failed for good within the last hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failures {
    /// The one that was due last first.
    pub executions: Vec<ExecutionView>,
    /// Whether there may be more: 1,000 that were due within the last two days are looked at.
    pub is_cut: bool,
}

impl Client {
    /// The executions of the application, or of one of its schedules, that failed, ran out of time or lost
    /// their node within the last hour, were due within two days before, and that no later attempt has
    /// followed. One that ran out of time and runs on counts too.
    ///
    /// # Errors
    /// As [`Client::executions`].
    pub fn failures(&self, schedule: Option<&str>) -> Result<Failures, Error> {
        use ExecutionState::{Abandoned, Failed, TimedOut};
        let since = self.now()? - RECENT;
        let mut executions = self.executions(&ExecutionFilter {
            schedule: schedule.map(str::to_owned),
            states: vec![Failed, TimedOut, Abandoned],
            last: true,
            since: Some(since - DUE_BEFORE),
            limit: MOST_READ,
            ..ExecutionFilter::default()
        })?;
        let is_cut = executions.len() == MOST_READ;
        executions.retain(|it| is_recent(it, since));
        Ok(Failures { executions, is_cut })
    }
}

/// Of one that timed out, the end is that of its handler, which may run on.
fn is_recent(it: &ExecutionView, since: DateTime<Utc>) -> bool {
    it.stuck || it.finished.or(it.fire_time) > Some(since)
}
