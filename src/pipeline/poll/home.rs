//! Whose schedules a node polls: those of its home shards, and those changed in its process, whatever their
//! shard.

use std::collections::{BTreeSet, VecDeque};

use crate::domain::shards::{self, Member, SHARDS, Share};
use crate::domain::{Millis, NodeId};
use crate::time::Now;

/// The most changed schedules one poll asks for by name.
pub(super) const CHANGED: usize = 64;

pub(super) struct Home {
    /// This node's jobs.
    own: Vec<String>,
    pub(super) members: Vec<Member>,
    /// The home shards: all, while no other node is known.
    pub(super) shares: Vec<Share>,
    /// Schedules changed here.
    changed: VecDeque<Changed>,
}

/// A schedule that polls ask for whatever its shard.
struct Changed {
    name: String,
    /// Until when, boot clock: its owner polls by then.
    ends: Millis,
    /// Of it only what is PENDING is this node's to claim.
    pending_alone: bool,
}

impl Home {
    pub(super) fn new(jobs: Vec<String>) -> Self {
        let shares = vec![Share::whole(jobs.clone())];
        Self { own: jobs, members: Vec::new(), shares, changed: VecDeque::new() }
    }

    /// The names of the schedules changed here that a poll asks for: none if all shards are at home.
    pub(super) fn names(&mut self, now: Now) -> Vec<String> {
        self.changed.retain(|it| now.boot < it.ends);
        if is_whole(&self.shares) {
            return Vec::new();
        }
        self.changed.iter().map(|it| it.name.clone()).collect()
    }

    /// The schedule of this name was changed here: polls ask for it until `ends`, boot clock.
    pub(super) fn changed(&mut self, name: String, ends: Millis) {
        self.ask_for(Changed { name, ends, pending_alone: false });
    }

    /// The slot of this schedule is free by an execution that ended here: polls ask until `ends` for what waits
    /// for it, if the schedule is another node's. True if they do.
    pub(super) fn freed(&mut self, name: &str, ends: Millis) -> bool {
        let shard = shards::of(name);
        let is_home = self.shares.iter().any(|share| share.shards.contains(&shard));
        let is_asked_for = self.changed.iter().any(|it| it.name == name && !it.pending_alone);
        if !is_home && !is_asked_for {
            self.ask_for(Changed { name: name.to_owned(), ends, pending_alone: true });
        }
        !is_home
    }

    /// Whether the planned occurrences of a schedule that a poll has brought are left to its owner.
    pub(super) fn leaves_planned(&self, name: &str) -> bool {
        self.changed.iter().any(|it| it.pending_alone && it.name == name)
    }

    fn ask_for(&mut self, changed: Changed) {
        self.changed.retain(|it| it.name != changed.name);
        self.changed.push_back(changed);
        if self.changed.len() > CHANGED {
            self.changed.pop_front();
        }
    }

    /// The jobs that live nodes list.
    pub(super) fn listed(&self) -> Vec<String> {
        let others = self.members.iter().flat_map(|member| &member.jobs);
        others.chain(&self.own).cloned().collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// The members have changed, or this node's name: so may its home shards, and true if they did.
    pub(super) fn resettle(&mut self, node: NodeId) -> bool {
        let shares = shards::home(node, &self.own, &self.members);
        let moved = shares != self.shares;
        self.shares = shares;
        moved
    }
}

/// Whether these are all shards of their jobs.
pub(super) fn is_whole(home: &[Share]) -> bool {
    home.iter().all(|share| share.shards.len() == SHARDS)
}

#[cfg(test)]
mod tests;
