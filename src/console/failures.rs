//! The executions that ended without success lately, and that no later attempt has followed.

use chrono::{DateTime, TimeDelta, Utc};

use super::followed::followed;
use super::query::Query;
use super::trouble::Trouble;
use crate::{Client, ErrorKind, ExecutionFilter, ExecutionState, ExecutionView};

/// So long failures are shown after their end.
pub(super) const RECENT: TimeDelta = TimeDelta::hours(1);
/// How long before its end an execution may have been due: it may have run for long, or waited.
const DUE_BEFORE: TimeDelta = TimeDelta::days(2);
/// So many failures are read.
pub(super) const MOST_READ: usize = 1_000;
/// Of so many the later attempts are looked for: each is a statement or two.
const MOST_FOLLOWED: usize = 100;

/// The failures of the last hour.
pub(super) struct Failures {
    /// Those that no later attempt has followed, the one that was due last first.
    pub(super) last: Vec<ExecutionView>,
    /// Of how many others nobody knows whether a later attempt has followed.
    pub(super) unknown: usize,
    /// Whether there may be more than were read.
    pub(super) is_cut: bool,
}

impl Failures {
    /// Those of an application, or of one of its schedules.
    pub(super) fn of(client: &Client, schedule: Option<String>, now: DateTime<Utc>) -> Result<Self, Trouble> {
        use ExecutionState::{Abandoned, Failed, TimedOut};
        let since = now - RECENT;
        let read = client.executions(&ExecutionFilter {
            schedule,
            states: vec![Failed, TimedOut, Abandoned],
            since: Some(since - DUE_BEFORE),
            limit: MOST_READ,
            ..ExecutionFilter::default()
        })?;
        let is_cut = read.len() == MOST_READ;
        let followed = followed(&read);
        // Of one that timed out, the end is that of its handler, which may run on.
        let is_recent = |it: &ExecutionView| it.stuck || it.finished.or(it.fire_time) > Some(since);
        let mut recent: Vec<ExecutionView> =
            read.into_iter().filter(|it| is_recent(it) && !followed.contains(&it.id)).collect();
        let unknown = recent.len().saturating_sub(MOST_FOLLOWED);
        recent.truncate(MOST_FOLLOWED);
        let mut last = Vec::new();
        for failure in recent {
            if is_last(client, &failure)? {
                last.push(failure);
            }
        }
        Ok(Self { last, unknown, is_cut })
    }

    /// How many there are at least, and whether there may be more.
    pub(super) fn count(&self) -> (usize, bool) {
        (self.last.len(), self.is_cut || self.unknown > 0)
    }

    /// The address of the list of them, of one schedule if it is named.
    pub(super) fn address(schedule: Option<&str>) -> String {
        let query = Query::default().with("failed", "lately");
        schedule.map_or_else(|| query.clone(), |name| query.clone().with("schedule", name)).of("executions")
    }
}

/// Whether it is the last attempt at its occurrence. One that the ledger has lost meanwhile is none.
fn is_last(client: &Client, failure: &ExecutionView) -> Result<bool, Trouble> {
    match client.execution(failure.id) {
        Ok(details) => Ok(details.last().attempt == failure.attempt),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}
