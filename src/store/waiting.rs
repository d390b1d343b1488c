//! A walk over the payloads that handlers have yet to decode: those of schedules, and of PENDING executions.

use crate::domain::{ExecutionId, Timestamp};

/// One step of the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PayloadWalk {
    pub application: String,
    pub after: PayloadPlace,
    /// The most rows to look at.
    pub limit: usize,
}

/// Where a step begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PayloadPlace {
    /// Behind the schedule of this name.
    Schedule(String),
    /// Behind this key of (due time, id) in a queue; the executions of schedules are in queue 0.
    Execution { queue: i64, key: (Timestamp, i64) },
}

impl PayloadPlace {
    /// Before all schedules, behind which the executions come.
    pub(crate) const FIRST: Self = Self::Schedule(String::new());

    /// Before all executions of a queue.
    pub(crate) fn queue(queue: i64) -> Self {
        Self::Execution { queue, key: (Timestamp::MIN, i64::MAX) }
    }
}

/// The payload of an active or paused schedule, of an execution of its own, or of an execution whose schedule
/// is neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitingPayload {
    pub of: PayloadOf,
    pub job: String,
    pub payload: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PayloadOf {
    Schedule(String),
    Execution(ExecutionId),
}

/// What a step came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PayloadPage {
    pub payloads: Vec<WaitingPayload>,
    /// The next step's `after`; `None` at the walk's end.
    pub next: Option<PayloadPlace>,
}
