//! What became of executions, counted by schedule.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::record::Record;
use crate::api::ExecutionView;
use crate::api::spans::as_millis;
use crate::domain::ExecutionState;

/// Who begins later than this after its fire time is late.
const LATE: Duration = Duration::from_secs(5);

/// What a replay came to. As JSON, instants are epoch milliseconds, spans milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Replayed {
    /// Whose past it is.
    pub application: String,
    /// Where it begins.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub since: DateTime<Utc>,
    /// Where it ends.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub until: DateTime<Utc>,
    /// How many nodes there were without a change.
    pub nodes: usize,
    /// By name; `queue:JOB` has what was enqueued for a job.
    pub schedules: Vec<ReplayedSchedule>,
}

/// One schedule, as it was and as it would have been.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReplayedSchedule {
    /// Its name.
    pub name: String,
    /// What the ledger says.
    pub recorded: Tally,
    /// What it came to without a change.
    pub unchanged: Tally,
    /// What it came to with the change.
    pub changed: Tally,
}

/// What became of a schedule's occurrences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tally {
    /// Successes.
    pub ran: u64,
    /// Attempts that failed, ran out of time, or died with their node.
    pub failed: u64,
    /// Occurrences that were skipped, by reason: `overlap` where they collided with one that still ran.
    pub skipped: BTreeMap<String, u64>,
    /// First attempts that began more than five seconds after their fire times.
    pub late: u64,
    /// How late the latest of all first attempts began.
    #[serde(serialize_with = "as_millis")]
    pub longest_late: Duration,
    /// Executions that waited or ran at the end.
    pub open: u64,
}

impl Tally {
    fn add(&mut self, it: &ExecutionView) {
        match it.state.known() {
            Some(ExecutionState::Succeeded) => self.ran += 1,
            Some(ExecutionState::Failed | ExecutionState::TimedOut | ExecutionState::Abandoned) => {
                self.failed += 1
            }
            Some(ExecutionState::Skipped) => {
                *self.skipped.entry(it.reason.clone()).or_default() += it.count.max(1);
            }
            Some(ExecutionState::Pending | ExecutionState::Claimed | ExecutionState::Running) => {
                self.open += 1
            }
            _ => {}
        }
        if let (Some(fire_time), Some(started), 1) = (it.fire_time, it.started, it.attempt) {
            let late = (started - fire_time).to_std().unwrap_or_default();
            self.late += u64::from(late > LATE);
            self.longest_late = self.longest_late.max(late);
        }
    }
}

impl Replayed {
    pub(super) fn of(record: &Record, unchanged: &[ExecutionView], changed: &[ExecutionView]) -> Self {
        let mut schedules: BTreeMap<&str, [Tally; 3]> = BTreeMap::new();
        for (n, executions) in [&record.executions[..], unchanged, changed].into_iter().enumerate() {
            for it in executions {
                schedules.entry(&it.schedule).or_default()[n].add(it);
            }
        }
        let schedules = schedules.into_iter().map(|(name, [recorded, unchanged, changed])| {
            ReplayedSchedule { name: name.to_owned(), recorded, unchanged, changed }
        });
        Self {
            application: record.application.clone(),
            since: record.from.utc().unwrap_or_default(),
            until: record.until.utc().unwrap_or_default(),
            nodes: record.nodes,
            schedules: schedules.collect(),
        }
    }

    /// The schedules of which the change makes another tally.
    pub fn differing(&self) -> impl Iterator<Item = &ReplayedSchedule> {
        self.schedules.iter().filter(|it| it.unchanged != it.changed)
    }
}
