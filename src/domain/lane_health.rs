//! The figures of a lane, as its node shows them itself and publishes them with its heartbeats.

use serde::{Deserialize, Serialize};

/// What a node publishes of its lanes.
#[derive(Debug, Default)]
pub(crate) struct LaneReport {
    pub lanes: Vec<LaneHealth>,
    /// The jobs whose lanes are blocked, in the order of their names.
    pub blocked: Vec<String>,
}

/// The figures of one [`Lane`](crate::Lane) of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LaneHealth {
    /// Its name.
    pub name: String,
    /// The most threads that it may have.
    pub threads: usize,
    /// Threads with a handler.
    pub busy: usize,
    /// Claimed executions that wait for a thread.
    pub queued: usize,
    /// Handlers on threads that run on beyond their time limits.
    pub stuck: usize,
    /// The most async handlers that it may run at once; 0 if it has none.
    pub concurrency: usize,
    /// Async handlers that run.
    pub tasks: usize,
    /// Those of them that go on beyond their time limits: within their grace, or because they do not let go
    /// of the runtime's thread.
    pub stuck_tasks: usize,
    /// Whether the runtime has begun no async handler for 5 s: nothing more is claimed for them until it
    /// does.
    pub is_blocked: bool,
}
