//! What a test expects of a cluster's ledger, and the whole picture where it is not so.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::TestCluster;
use super::picture::{listed, overdue, picture};
use crate::api::{Client, ExecutionFilter, ExecutionView, Job};
use crate::domain::ExecutionState;

/// So many executions are looked at.
const MOST: usize = 1_000_000;

/// Some executions of a cluster's ledger, to say what is expected of them.
#[must_use = "say how many there are to be"]
pub struct Seen {
    client: Client,
    /// What is looked for, for people.
    what: String,
    found: Vec<ExecutionView>,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("what", &self.what).field("found", &self.found).finish_non_exhaustive()
    }
}

impl TestCluster {
    /// The executions of a schedule that have succeeded; those of an enqueued job are of `queue:JOB`.
    ///
    /// # Panics
    /// If nothing is known that was called so, neither a schedule, nor the queue of a job that has had a
    /// handler, a schedule or an execution: a retention that the test sets may have removed it.
    #[track_caller]
    pub fn ran(&self, schedule: &str) -> Seen {
        self.check_name(schedule);
        self.seen(format!("successes of {schedule}"), schedule, &[ExecutionState::Succeeded])
    }

    /// The attempts of a schedule that have failed, or run out of time, or whose node died.
    ///
    /// # Panics
    /// As [`ran`](Self::ran).
    #[track_caller]
    pub fn failed(&self, schedule: &str) -> Seen {
        self.check_name(schedule);
        let states = [ExecutionState::Failed, ExecutionState::TimedOut, ExecutionState::Abandoned];
        self.seen(format!("failures of {schedule}"), schedule, &states)
    }

    /// The occurrences of a schedule that were skipped; a span of them is one.
    ///
    /// # Panics
    /// As [`ran`](Self::ran).
    #[track_caller]
    pub fn skipped(&self, schedule: &str) -> Seen {
        self.check_name(schedule);
        self.seen(format!("skips of {schedule}"), schedule, &[ExecutionState::Skipped])
    }

    /// The executions that were enqueued for a job, first attempts alone, whatever became of them.
    pub fn enqueued<P>(&self, job: Job<P>) -> Seen {
        let name = job.name();
        let seen = self.seen(format!("executions enqueued for {name}"), &format!("queue:{name}"), &[]);
        seen.keep(|it| it.attempt == 1)
    }

    /// Expects that no execution waits or runs, and that no active schedule is overdue.
    ///
    /// # Panics
    /// If one does or is, with the ledger and why nothing runs.
    #[track_caller]
    pub fn nothing_waits(&self) {
        let what = "executions that wait or run".to_owned();
        let seen = Seen { client: self.client(), what, found: self.open() };
        let overdue = overdue(&seen.client).join(", ");
        assert!(overdue.is_empty(), "expected nothing to wait, but overdue: {overdue}{}", seen.picture());
        seen.never();
    }

    pub(super) fn nothing_is_open(&self) -> bool {
        self.open().is_empty()
    }

    fn open(&self) -> Vec<ExecutionView> {
        let open = [ExecutionState::Pending, ExecutionState::Claimed, ExecutionState::Running];
        let filter = ExecutionFilter { states: open.to_vec(), limit: MOST, ..ExecutionFilter::default() };
        listed(&self.client(), &filter)
    }

    fn seen(&self, what: String, schedule: &str, states: &[ExecutionState]) -> Seen {
        let filter = ExecutionFilter {
            schedule: Some(schedule.to_owned()),
            states: states.to_vec(),
            oldest_first: true,
            limit: MOST,
            ..ExecutionFilter::default()
        };
        let client = self.client();
        let found = listed(&client, &filter);
        Seen { client, what, found }
    }
}

impl Seen {
    fn keep(mut self, is_meant: impl Fn(&ExecutionView) -> bool) -> Self {
        self.found.retain(is_meant);
        self
    }

    /// Only those for this reason, as the ledger has it: `misfire`, `overlap`, `paused`, `by hand`.
    pub fn because(mut self, reason: &str) -> Self {
        self.what += &format!(" because of {reason}");
        self.keep(|it| it.reason == reason)
    }

    /// Only those with this payload.
    pub fn with<P: Serialize>(mut self, payload: &P) -> Self {
        let wanted = serde_json::to_value(payload).unwrap_or_default();
        self.what += &format!(" with {wanted}");
        let client = self.client.clone();
        self.keep(|it| {
            let text = client.execution(it.id).ok().and_then(|details| details.payload);
            text.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
                == Some(wanted.clone())
        })
    }

    /// Expects so many.
    ///
    /// # Panics
    /// If there are more or fewer, with the ledger.
    #[track_caller]
    pub fn times(self, count: usize) {
        let found = self.found.len();
        assert!(found == count, "expected {count} {}, found {found}{}", self.what, self.picture());
    }

    /// Expects none.
    ///
    /// # Panics
    /// If there is one, with the ledger.
    #[track_caller]
    pub fn never(self) {
        self.times(0);
    }

    /// Expects them at these fire times, in order.
    ///
    /// # Panics
    /// If they are others, with the ledger.
    #[track_caller]
    pub fn at(self, fire_times: &[DateTime<Utc>]) {
        let found: Vec<_> = self.found.iter().filter_map(|it| it.fire_time).collect();
        assert!(
            found == fire_times,
            "expected {} at {fire_times:?}, found {found:?}{}",
            self.what,
            self.picture()
        );
    }

    /// Their number, for other expectations.
    #[must_use]
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// The executions themselves, by fire time.
    #[must_use]
    pub fn executions(&self) -> &[ExecutionView] {
        &self.found
    }

    fn picture(&self) -> String {
        format!("; the ledger:\n{}", picture(&self.client, &[]))
    }
}
