//! The application or a node switched off by hand, and since when its nodes must know.

use std::collections::BTreeMap;

use super::database::Database;
use super::jobs::APPLICATION;
use super::judge::Switch;
use crate::domain::{Millis, NodeId};

/// How long something stays switched off.
const OFF: Millis = 240_000;
/// A node learns with its next poll that it is switched off: if all goes well, within a poll interval and the
/// poll itself.
pub(super) const ONE_POLL: Millis = 5_100;
/// Under fire a node knows once it has been able to learn of it for so long, in all: it may be stopped or cut
/// off again and again, and a call in five fails.
const LEARNS_WITHIN: Millis = 60_000;

/// Everything that was switched off; what still is has no end yet.
#[derive(Default)]
pub(super) struct Switches(Vec<Off>);

struct Off {
    from: Millis,
    switch: Switch,
    /// How long each process concerned, by its first name, has been able to learn of it.
    able: BTreeMap<NodeId, Millis>,
}

impl Switches {
    fn open(&mut self) -> impl Iterator<Item = &mut Off> {
        self.0.iter_mut().filter(|off| off.switch.until == Millis::MAX)
    }

    /// Whether this node, or the whole application, is switched off by a switch of its own.
    pub(super) fn are_off(&self, node: Option<NodeId>) -> bool {
        let name = node.map(|id| id.to_string());
        self.0.iter().any(|off| off.switch.until == Millis::MAX && off.switch.node == name)
    }

    /// Switches a node off, or the whole application; those concerned must know at `known`.
    pub(super) fn turn_off(
        &mut self,
        node: Option<NodeId>,
        (now, known): (Millis, Millis),
        concerned: impl Iterator<Item = NodeId>,
        database: &Database,
    ) {
        database.switch(APPLICATION, node, false);
        let switch = Switch { node: node.map(|id| id.to_string()), known, until: Millis::MAX };
        self.0.push(Off { from: now, switch, able: concerned.map(|process| (process, 0)).collect() });
    }

    /// Switches on again what has been off for long enough, or everything.
    pub(super) fn turn_on(&mut self, now: Millis, everything: bool, database: &Database) {
        for Off { from, switch, .. } in self.open() {
            if now >= *from + OFF || everything {
                switch.until = now;
                let node = switch.node.as_deref().map(|id| id.parse().unwrap());
                database.switch(APPLICATION, node, true);
            }
        }
    }

    /// Once a second: until a process has been able to learn of a switch for long enough, it may not know.
    pub(super) fn tell(&mut self, now: Millis, process: NodeId, is_able: bool) {
        for off in self.open() {
            let Some(so_far) = off.able.get_mut(&process) else { continue };
            *so_far += if is_able { 1_000 } else { 0 };
            if *so_far < LEARNS_WITHIN {
                off.switch.known = now + 1_000;
            }
        }
    }

    /// For the judge.
    pub(super) fn history(self) -> Vec<Switch> {
        self.0.into_iter().map(|off| off.switch).collect()
    }
}
