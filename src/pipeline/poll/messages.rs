//! The inputs and outputs of the poll machine.

use std::sync::Arc;

use crate::domain::shards::{Member, Share};
use crate::domain::{Boot, Event, NodeId, Occurrence, Pending, Timestamp};
use crate::misfire::PollReport;
use crate::store::{LeftAlone, Page};
use crate::time::Micros;

pub(crate) enum PollInput {
    /// Poll between two ticks.
    Wake,
    /// The database has told of others' changes.
    News,
    /// Whether the database tells this node of others' changes from now on.
    Told(bool),
    /// This process changed the schedule of this name: poll it, whatever its shard.
    Changed(String),
    /// The slot of the schedule of this name is free by this process: what waits for it may be another node's
    /// to claim, which learns of that with its next poll.
    Freed(Arc<str>),
    /// This node stored a retry that is due at this instant.
    Retry(Timestamp),
    /// A run that ended here has planned the next occurrence of the schedule of this name, about then:
    /// a poll brings it, whatever its shard.
    Planned(Arc<str>, Timestamp),
    /// The live nodes and the jobs each lists.
    Members(Vec<Member>),
    /// The node joined again under a new name.
    Reborn(NodeId),
    Stop,
}

pub(crate) enum PollOutput {
    /// For dispatch: what to do next.
    Planned(PollPlan),
    /// For the misfire handler.
    Seen(PollReport),
    /// The node drains, said with each poll; or it does so no more.
    Drain(bool),
    /// Somebody asked for the end of an execution, perhaps of this node's.
    CancelAsked,
    /// Another node has told that it leaves, has handed back executions, or can run other jobs.
    MemberTold,
    /// Other programs' requests wait.
    Requested,
    /// Some of the schedules that are left to other nodes now.
    LeftAlone(Vec<LeftAlone>),
    /// From now on database time is the host's time plus this.
    Offset(Micros),
    /// The home shards have changed.
    Home(Vec<Share>),
    /// Drop the plan: the clock it was made by has stepped.
    Jumped,
    Event(Event),
}

/// A poll's result, expanded.
#[derive(Debug)]
pub(crate) struct PollPlan {
    pub occurrences: Vec<Occurrence>,
    pub pendings: Vec<Pending>,
    /// False when rows were cut off.
    pub complete: bool,
    pub covered: Covered,
    /// False when the application or the node is switched off: then nothing may be claimed.
    pub enabled: bool,
    /// When the poll was sent: later changes are not in it.
    pub sent: Boot,
}

impl PollPlan {
    /// Whether a short poll brought it: a row that it lacks may exist, and it tells nothing of
    /// the executions that wait for others.
    pub(crate) fn is_short(&self) -> bool {
        self.covered == Covered::NOTHING
    }
}

/// The part of the table that a poll covered: rows there that it did not bring are gone, or are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    /// Some due schedules of every job and shard.
    pub schedules: bool,
    /// PENDING executions behind the first of these keys of (due time, id), up to and including the second.
    pub pendings: ((Timestamp, i64), (Timestamp, i64)),
    /// PENDING executions behind this key, besides.
    pub newest: (Timestamp, i64),
}

impl Covered {
    /// No part of it: a short poll's.
    pub(crate) const NOTHING: Self =
        Self { schedules: false, pendings: (Page::FIRST.pendings, Page::FIRST.pendings), newest: Page::END };
    #[cfg(any(test, feature = "bench"))]
    pub(crate) const ALL: Self =
        Self { schedules: true, pendings: (Page::FIRST.pendings, Page::END), newest: Page::END };

    pub(crate) fn has(&self, pending: &Pending) -> bool {
        let key = (pending.due, pending.id.0);
        self.pendings.0 < key && key <= self.pendings.1 || self.newest < key
    }
}
