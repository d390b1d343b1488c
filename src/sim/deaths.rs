//! Nodes that die in a simulation: which deaths were just, and how long others took to notice them.
//!
//! A process may have several names, one after the other. Here it goes by its first one.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{Millis, NodeId};
use crate::time::Window;

/// A process that could beat again may still be about to for this long.
const AWAKE: Millis = 15_000;

#[derive(Default)]
pub(super) struct Deaths {
    /// Which process could not beat, from when to when.
    doomed: Vec<(NodeId, Millis, Millis)>,
    /// When the database refused all writes, from when to when: nobody could beat.
    refused: Vec<(Millis, Millis)>,
    /// The killed nodes that nobody has declared dead yet.
    kills: Vec<Kill>,
    /// How long each death went unnoticed that has been declared.
    noticed: Vec<Unnoticed>,
    /// How much time the heartbeats of each process have covered.
    covered: BTreeMap<NodeId, Millis>,
    /// The process of each name.
    borne: BTreeMap<NodeId, NodeId>,
}

/// A killed node that nobody has declared dead yet.
struct Kill {
    node: NodeId,
    /// For how long each of the others has been able to observe since.
    observed: BTreeMap<NodeId, Millis>,
    /// How much time the heartbeats of each had covered before.
    before: BTreeMap<NodeId, Millis>,
}

/// How long a death went unnoticed, by the observer that could have noticed it for longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unnoticed {
    /// While it ran, and the database was not away for it.
    pub able: Millis,
    /// Of time that its heartbeats covered.
    pub covered: Millis,
}

impl Kill {
    fn unnoticed(&self, covered: &BTreeMap<NodeId, Millis>) -> Unnoticed {
        let since = covered.iter().map(|(node, now)| now - self.before.get(node).unwrap_or(&0));
        Unnoticed {
            able: self.observed.values().copied().max().unwrap_or(0),
            covered: since.max().unwrap_or(0),
        }
    }
}

impl Deaths {
    /// `process` goes by the name of `node`, and its heartbeats have covered so much time.
    pub(super) fn saw(&mut self, process: NodeId, node: NodeId, covered: Millis) {
        self.borne.insert(node, process);
        self.covered.insert(process, covered);
    }

    /// `process` cannot beat in this span.
    pub(super) fn doom(&mut self, process: NodeId, from: Millis, until: Millis) {
        self.doomed.push((process, from, until));
    }

    /// The database refuses all writes in this span.
    pub(super) fn refuse(&mut self, from: Millis, until: Millis) {
        self.refused.push((from, until));
    }

    /// Counts from here how long others take to notice.
    pub(super) fn killed(&mut self, node: NodeId) {
        let (observed, before) = (BTreeMap::new(), self.covered.clone());
        self.kills.push(Kill { node, observed, before });
    }

    /// Whether somebody was killed and not declared dead yet.
    pub(super) fn are_awaited(&self) -> bool {
        !self.kills.is_empty()
    }

    /// All but these nodes have been declared dead. One may have been killed just as it had left.
    pub(super) fn only_live(&mut self, live: &BTreeSet<String>) {
        let is_over = |kill: &mut Kill| !live.contains(&kill.node.to_string());
        self.noticed.extend(self.kills.extract_if(.., is_over).map(|kill| kill.unnoticed(&self.covered)));
    }

    /// `process` could observe the others for so long.
    pub(super) fn observed(&mut self, process: NodeId, span: Millis) {
        for kill in &mut self.kills {
            *kill.observed.entry(process).or_default() += span;
        }
    }

    /// How long each death went unnoticed, or has been by now.
    pub(super) fn unnoticed(&self) -> Vec<Unnoticed> {
        let yet = self.kills.iter().map(|kill| kill.unnoticed(&self.covered));
        self.noticed.iter().copied().chain(yet).collect()
    }

    /// Whether `node`, declared dead at `at`, had not beaten for `death_after` because it could not. A name
    /// of no process is always just: the answer to its registration was lost. A process may be stopped before
    /// it hears that its new name is registered.
    pub(super) fn is_just(&self, &(node, at, still): &(NodeId, Millis, Millis)) -> bool {
        let Some(process) = self.borne.get(&node) else { return true };
        // One that could run again may still not have been able to beat.
        let later = |until: Millis| {
            let goes_on = |until: Millis, (from, end): &(Millis, Millis)| {
                if *from <= until.saturating_add(AWAKE) { until.max(*end) } else { until }
            };
            self.refused.iter().fold(until, goes_on)
        };
        let could_not = |(doomed, from, until): &(NodeId, Millis, Millis)| {
            doomed == process && *from < at && at < later(*until).saturating_add(AWAKE)
        };
        still >= Window::default().death && self.doomed.iter().any(could_not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frozen until 100 s, it could not beat before 350 s: the second refusal began before the first ended.
    #[test]
    fn refusals_that_follow_each_other_excuse_a_node_together() {
        let (node, mut deaths) = (NodeId::fresh(), Deaths::default());
        deaths.saw(node, node, 0);
        deaths.doom(node, 0, 100_000);
        deaths.refuse(20_000, 200_000);
        deaths.refuse(190_000, 350_000);
        let is_just = |at| deaths.is_just(&(node, at, 340_000));
        assert!(is_just(350_000 + AWAKE - 1) && !is_just(350_000 + AWAKE));
    }
}
