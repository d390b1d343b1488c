//! Jobs that have something to run, and no node that can run them.

use std::sync::Arc;

use crate::domain::{JobId, Timestamp};

/// The most jobs that one search brings, the first by name.
pub(crate) const MOST_JOBS: usize = 1_000;
/// The most schedules of a job that are counted, and the most of its executions of each kind.
pub(crate) const MOST_COUNTED: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct NobodyQuery {
    pub application: String,
    /// Database time: executions due by then wait.
    pub now: Timestamp,
}

/// An active job that has something to run although no live node that claims lists it, or one whose row still
/// says so.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnservedJob {
    pub id: JobId,
    pub name: Arc<str>,
    /// How many active schedules nobody can run; 0 if somebody can.
    pub schedules: i64,
    /// How many executions wait, of schedules and enqueued ones; 0 if somebody can run them.
    pub waiting: i64,
    /// What its row says.
    pub seen: NobodyMark,
}

/// What a job's row says of the time in which nobody can run it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NobodyMark {
    /// Since when.
    pub since: Option<Timestamp>,
    /// When a node told of that last.
    pub told: Option<Timestamp>,
}

/// A job's row notes that nobody can run it, that this was told, or that somebody can.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NobodyChange {
    pub job: JobId,
    /// The guard: what its row says.
    pub seen: NobodyMark,
    pub becomes: NobodyMark,
}
