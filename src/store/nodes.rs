//! A node's own row: its registration, its heartbeats, and their replies.

use serde::{Deserialize, Serialize};

use super::repairs::Stranded;
use crate::domain::{JobSpec, LaneHealth, Millis, NodeId, Timestamp};

/// A node about to join.
#[derive(Clone, Debug)]
pub(crate) struct NewNode {
    pub id: NodeId,
    pub application: String,
    pub host_ip: String,
    pub host_name: String,
    pub pid: u32,
    /// After how long without a heartbeat others are told that nobody hears of it.
    pub silent_after: Millis,
    pub jobs: Vec<JobSpec>,
    pub now: Timestamp,
}

impl NewNode {
    /// A heartbeat of this node while nothing runs on it.
    pub(crate) fn beat(&self, now: Timestamp) -> Heartbeat {
        let (node, application, lanes) = (self.id, self.application.clone(), Vec::new());
        let left_alone = Vec::new();
        let (withdraw, drained, tells, blocked) = (false, false, false, Vec::new());
        Heartbeat { node, application, lanes, left_alone, withdraw, drained, tells, blocked, now }
    }
}

/// One heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    pub node: NodeId,
    pub application: String,
    /// What each of its lanes is doing.
    pub lanes: Vec<LaneHealth>,
    /// Some of the schedules that it leaves to other nodes.
    pub left_alone: Vec<LeftAlone>,
    /// The node claims nothing more: it is switched off.
    pub withdraw: bool,
    /// The node was to drain, and has nothing left.
    pub drained: bool,
    /// The other nodes are to hear at once that it leaves, has handed back executions, or can run other jobs
    /// than before.
    pub tells: bool,
    /// The jobs that it cannot run now; written if it tells.
    pub blocked: Vec<String>,
    pub now: Timestamp,
}

/// A schedule that a node leaves to others, because no handler of it can decode the payload that the schedule
/// has in this version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftAlone {
    pub schedule: i64,
    pub version: i64,
    pub reason: String,
}

/// A heartbeat's answer.
#[derive(Clone, Debug)]
pub(crate) enum HeartbeatReply {
    /// Confirmed.
    Alive {
        /// The application's nodes not ended, this one included.
        peers: Vec<Peer>,
        /// This node's CLAIMED and RUNNING executions.
        owned: Vec<Stranded>,
    },
    /// The row is ended or missing: this incarnation is over.
    Ended,
    /// Another SQLite file, or none, is at this path by now: nothing was written.
    DatabaseReplaced(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub id: NodeId,
    pub beat: i64,
    /// The jobs it has handlers for; none while it is switched off.
    pub jobs: Vec<String>,
    /// Those that it cannot run now.
    pub blocked: Vec<String>,
}
