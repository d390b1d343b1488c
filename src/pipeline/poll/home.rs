//! The schedules that a node polls: those of its home shards, and those changed in its own process, whatever
//! their shard.

use std::collections::{BTreeSet, VecDeque};

use crate::domain::shards::{self, Member, SHARDS, Share};
use crate::domain::{Boot, Entry, NodeId, Timestamp};
use crate::time::Now;

/// The most changed schedules one poll asks for by name.
pub(super) const CHANGED: usize = 64;

pub(super) struct Home {
    /// This node's jobs.
    own: Vec<String>,
    pub(super) members: Vec<Member>,
    /// The home shards: all, while no other node is known.
    pub(super) shares: Vec<Share>,
    /// Schedules changed here, and until when polls ask for them: their owner polls by then.
    changed: VecDeque<(String, Boot)>,
    /// Other nodes' schedules whose slots became free here, likewise: only their PENDING executions and late
    /// occurrences are claimed.
    freed: VecDeque<(String, Boot)>,
}

impl Home {
    pub(super) fn new(jobs: Vec<String>) -> Self {
        let shares = vec![Share::whole(jobs.clone())];
        Self { own: jobs, members: Vec::new(), shares, changed: VecDeque::new(), freed: VecDeque::new() }
    }

    /// The names of the schedules changed here that a poll asks for: none if all shards are at home.
    pub(super) fn names(&mut self, now: Now) -> Vec<String> {
        self.changed.retain(|(_, ends)| now.boot < *ends);
        self.freed.retain(|(_, ends)| now.boot < *ends);
        if is_whole(&self.shares) {
            return Vec::new();
        }
        self.changed.iter().chain(&self.freed).map(|(name, _)| name.clone()).collect()
    }

    /// The schedule of this name was changed here: polls ask for it until `ends`.
    pub(super) fn changed(&mut self, name: String, ends: Boot) {
        remember(&mut self.changed, name, ends);
    }

    /// An execution that ended here has freed the slot of this schedule: if it is another node's, polls ask
    /// for what waits until `ends`. True if so.
    pub(super) fn freed(&mut self, name: &str, ends: Boot) -> bool {
        let is_others = !self.is_home(name);
        if is_others {
            remember(&mut self.freed, name.to_owned(), ends);
        }
        is_others
    }

    /// Whether a poll leaves the planned occurrences of this schedule to the schedule's owner. It plans those
    /// due before `late` itself: the owner may be dead.
    pub(super) fn leaves_planned(&self, entry: &Entry, late: Timestamp) -> bool {
        let name = &*entry.name;
        let is_late = entry.is_due_before(late);
        let is_in = |list: &VecDeque<(String, Boot)>| list.iter().any(|(known, _)| known == name);
        !is_late && is_in(&self.freed) && !is_in(&self.changed) && !self.is_home(name)
    }

    fn is_home(&self, name: &str) -> bool {
        let shard = shards::of(name);
        self.shares.iter().any(|share| share.shards.contains(&shard))
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

fn remember(list: &mut VecDeque<(String, Boot)>, name: String, ends: Boot) {
    list.retain(|(known, _)| *known != name);
    list.push_back((name, ends));
    if list.len() > CHANGED {
        list.pop_front();
    }
}

/// Whether these are all shards of their jobs.
pub(super) fn is_whole(home: &[Share]) -> bool {
    home.iter().all(|share| share.shards.len() == SHARDS)
}

#[cfg(test)]
mod tests;
