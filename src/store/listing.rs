//! Rows as people see them: as loose as the tables, so that what was written by hand is shown, too.

use std::cmp::Ordering;

use super::columns::{Ownership, Settings, When};
use super::nodes::LeftAlone;
use super::order::CancelRow;
use crate::domain::headers::Headers;
use crate::domain::{Activity, Cause, ExecutionId, ExecutionState, JobSettings, LaneHealth, Timestamp};

/// A node as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub id: String,
    pub application: String,
    pub host_ip: String,
    pub host_name: String,
    pub pid: i64,
    /// After how long without a heartbeat it counts as silent; -1 of a row that was written by hand.
    pub silent_after: i64,
    pub switch: Activity,
    pub pause: PauseRow,
    pub beat: i64,
    pub jobs: Vec<String>,
    pub lanes: Vec<LaneHealth>,
    pub left_alone: Vec<LeftAlone>,
    pub started: Timestamp,
    pub last_beat: Timestamp,
    /// When and why it ended: `stopped` or `dead`.
    pub ended: Option<(Timestamp, String)>,
}

/// A schedule as people see it; as loose as its row, so that a broken one can be shown too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleRow {
    pub id: i64,
    pub application: String,
    pub name: String,
    pub job: String,
    pub state: String,
    pub settings: Settings,
    pub when: When,
    pub prev: Option<Timestamp>,
    pub next: Option<Timestamp>,
    pub triggered: i64,
    pub version: i64,
    pub pause: PauseRow,
    pub ownership: Ownership,
    /// The first occurrence that has not succeeded in time, as was noted.
    pub unmet: Option<Timestamp>,
    /// Since when nobody can run its job, as was noted.
    pub nobody: Option<Timestamp>,
}

/// A pause as people see it, or why a schedule is in error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PauseRow {
    pub by: String,
    pub reason: String,
    /// Since when it is paused; none if that was done by hand.
    pub since: Option<Timestamp>,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

/// A job as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobRow {
    pub name: String,
    pub switch: Activity,
    pub pause: PauseRow,
    pub settings: JobSettings,
    /// Since when nobody can run it, as was noted.
    pub nobody: Option<Timestamp>,
}

/// An application as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApplicationRow {
    pub name: String,
    pub switch: Activity,
    pub pause: PauseRow,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ExecutionQuery {
    pub application: Option<String>,
    /// Of the schedule of this name.
    pub schedule: Option<String>,
    /// Of the job of this name.
    pub job: Option<String>,
    /// The execution of each job and period that was enqueued last with this unique key.
    pub key: Option<String>,
    pub group: Option<String>,
    pub tag: Option<String>,
    /// Empty: every state.
    pub states: Vec<ExecutionState>,
    /// With this word as the reason of their state.
    pub reason: Option<String>,
    /// Run for this cause, as [`Cause::as_str`] writes it.
    pub cause: Option<String>,
    pub node: Option<String>,
    /// The last attempt at each occurrence.
    pub last: bool,
    /// All attempts at the occurrence of this one, with their payloads.
    pub of: Option<ExecutionId>,
    /// Scheduled at or after.
    pub since: Option<Timestamp>,
    /// Scheduled before.
    pub until: Option<Timestamp>,
    /// Ended at or after.
    pub ended_since: Option<Timestamp>,
    /// Ended before.
    pub ended_until: Option<Timestamp>,
    /// What follows this in the list.
    pub after: Option<ListPlace>,
    /// The oldest first.
    pub oldest: bool,
    /// PENDING and due before this: the longest due first, in one page.
    pub late: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
}

/// Where an execution stands in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    pub scheduled: Timestamp,
    pub id: i64,
}

impl ExecutionQuery {
    /// Whether the list is in the order of fire times, and of those of one fire time in that of ids.
    /// Otherwise it is in the order of ids, in which rows were made.
    pub fn by_fire_time(&self) -> bool {
        let has_times = self.since.is_some() || self.until.is_some();
        let is_named = self.schedule.is_some() || self.group.is_some();
        has_times || is_named || self.ends_rarely() || self.has_rare_cause()
    }

    /// Whether only executions are meant that run neither as planned nor as enqueued.
    pub fn has_rare_cause(&self) -> bool {
        let is_often =
            |word: &str| [Cause::Planned, Cause::Enqueued].iter().any(|cause| cause.as_str() == word);
        self.cause.as_deref().is_some_and(|word| !is_often(word))
    }

    /// Whether only executions that ended in another way than well are meant.
    pub fn ends_rarely(&self) -> bool {
        let rare = |state: &ExecutionState| state.is_terminal() && *state != ExecutionState::Succeeded;
        !self.states.is_empty() && self.states.iter().all(rare)
    }

    /// Which of two comes first.
    pub fn order(&self, one: ListPlace, other: ListPlace) -> Ordering {
        let key = |it: ListPlace| (it.scheduled.millis() * i64::from(self.by_fire_time()), it.id);
        let order = key(one).cmp(&key(other));
        if self.oldest { order } else { order.reverse() }
    }
}

/// An execution as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionRow {
    pub id: i64,
    pub application: String,
    pub schedule: String,
    pub job: String,
    pub state: String,
    pub reason: String,
    pub generation: i64,
    pub origin: i64,
    pub scheduled: Timestamp,
    /// For a skipped run of occurrences: the last of them, and how many.
    pub until: Option<Timestamp>,
    pub count: i64,
    pub attempt: i64,
    pub node: String,
    pub claimed: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    pub error: String,
    pub cancel: Option<CancelRow>,
    pub cause: Cause,
    pub fence: i64,
    pub due: Timestamp,
    /// Its own, where all attempts at one occurrence are asked for.
    pub payload: Option<String>,
    /// Where all attempts at one occurrence are asked for.
    pub headers: Headers,
    /// How far its handlers have come, as JSON, where all attempts at one occurrence are asked for.
    pub checkpoint: Option<String>,
    /// What its handler left, as JSON, where all attempts at one occurrence are asked for.
    pub result: Option<String>,
    pub failures: i64,
    pub snoozes: i64,
    /// Its time limit has passed, and its handler has not returned.
    pub stuck: bool,
    /// Of one that was skipped because it would have overlapped: which other.
    pub holder: Option<i64>,
    /// Of one that was claimed late for want of a seat: which, and how long it waited for that.
    pub waited_for: Option<String>,
    /// Of one that was enqueued with a unique key.
    pub key: Option<String>,
    /// Of one that was enqueued in a group.
    pub group: Option<String>,
    /// Of one that was enqueued in another lane than its job's.
    pub lane: Option<String>,
    /// Of one that was enqueued with some.
    pub tags: Vec<String>,
    /// Of one that waits: since when nobody can run its job, as was noted.
    pub nobody: Option<Timestamp>,
    /// Of one that waits, and was planned: its schedule is paused.
    pub held: bool,
}

impl ExecutionRow {
    pub fn place(&self) -> ListPlace {
        ListPlace { scheduled: self.scheduled, id: self.id }
    }
}
