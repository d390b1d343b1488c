//! The application, its jobs and its nodes, switched off by hand or paused and drained by a client's verbs,
//! and since when the nodes concerned must know.

use std::collections::BTreeMap;

use super::database::Database;
use super::jobs::APPLICATION;
use super::judge::Switch;
use super::wire::Wire;
use crate::domain::{Activity, Millis, NodeId};
use crate::repair::pass_paused;
use crate::store::audit::Attribution;
use crate::store::switch::{PassedQuery, Scope, SwitchOrder, SwitchVerb, Switched};
use crate::store::{Change, Result, Store, Verbs};

/// How long something stays switched off.
const OFF: Millis = 240_000;
/// A node learns with its next poll that it is switched off: if all goes well, within a poll interval and the
/// poll itself.
pub(super) const ONE_POLL: Millis = 5_100;
/// Under fire a node knows once it has been able to learn of it for so long, in all: it may be stopped or cut
/// off again and again, and a call in five fails.
const LEARNS_WITHIN: Millis = 60_000;
/// If nothing else goes wrong, a pause ends by itself, and a node has drained, within so long.
const ENDS_WITHIN: Millis = 40_000;
const DRAINS_WITHIN: Millis = 90_000;

/// Everything that was switched off; what still is has no end yet.
#[derive(Default)]
pub(super) struct Switches {
    all: Vec<Off>,
    /// Pauses that did not end by themselves, and nodes that did not drain, in time.
    overdue: Vec<String>,
}

struct Off {
    from: Millis,
    switch: Switch,
    /// How long each process concerned, by its first name, has been able to learn of it.
    able: BTreeMap<NodeId, Millis>,
    /// By a client's verb; nothing if by hand.
    verb: Option<SwitchVerb>,
}

impl Off {
    fn is_open(&self) -> bool {
        self.switch.until == Millis::MAX
    }

    fn node(&self) -> Option<NodeId> {
        self.switch.node.as_deref().map(|id| id.parse().unwrap())
    }

    fn scope(&self) -> Scope {
        match (self.node(), &self.switch.job) {
            (Some(node), _) => Scope::Node(node),
            (None, Some(job)) => Scope::Job(job.clone()),
            (None, None) => Scope::Application,
        }
    }

    /// A client resumes it: whether it was still off.
    fn resume(&self, wire: &Wire<'_>) -> bool {
        if self.node().is_none() {
            pass_held_back(self.switch.job.clone(), wire);
        }
        matches!(switched(self.scope(), SwitchVerb::Resume, wire).unwrap(), Switched::Done)
    }
}

fn switched(scope: Scope, verb: SwitchVerb, wire: &Wire<'_>) -> Result<Switched> {
    let (application, by) =
        (APPLICATION.to_owned(), Attribution { actor: "sim".to_owned(), reason: String::new() });
    wire.switch(&SwitchOrder { application, scope, verb, by })
}

/// As the client's request does, by the database's clock.
fn pass_held_back(job: Option<String>, wire: &Wire<'_>) {
    let now = wire.now().unwrap();
    let query = PassedQuery { application: APPLICATION.to_owned(), job, before: now + 1, limit: 100 };
    loop {
        let entries = wire.passed(&query).unwrap();
        if entries.is_empty() {
            return;
        }
        let repairs: Vec<Change> =
            entries.iter().filter_map(|entry| pass_paused(entry, now)).map(Change::Repair).collect();
        // The store itself: an operator's call is whole, and waits for rows that somebody holds.
        wire.store.apply(&repairs).unwrap();
    }
}

impl Switches {
    fn open(&mut self) -> impl Iterator<Item = &mut Off> {
        self.all.iter_mut().filter(|off| off.is_open())
    }

    /// Whether this node or this job, or the whole application, is switched off by a switch of its own.
    pub(super) fn are_off(&self, node: Option<NodeId>, job: Option<&str>) -> bool {
        let is_same = |off: &&Off| off.node() == node && off.switch.job.as_deref() == job;
        self.all.iter().filter(|off| off.is_open()).any(|off| is_same(&off))
    }

    /// Switches a node off by hand, or the whole application; those concerned must know at `known`.
    pub(super) fn turn_off(
        &mut self,
        node: Option<NodeId>,
        (now, known): (Millis, Millis),
        concerned: impl Iterator<Item = NodeId>,
        database: &Database,
    ) {
        database.switch(APPLICATION, node, false);
        let node = node.map(|id| id.to_string());
        let switch = Switch { node, from: now, known, until: Millis::MAX, ..Switch::default() };
        let able = concerned.map(|process| (process, 0)).collect();
        self.all.push(Off { from: now, switch, able, verb: None });
    }

    /// The same by a client's verb, also for a job.
    pub(super) fn order(
        &mut self,
        (node, job): (Option<NodeId>, Option<&str>),
        verb: SwitchVerb,
        (now, known): (Millis, Millis),
        concerned: impl Iterator<Item = NodeId>,
        wire: &Wire<'_>,
    ) {
        let (node, job) = (node.map(|id| id.to_string()), job.map(str::to_owned));
        let drains = verb == SwitchVerb::Drain;
        let switch = Switch { node, job, from: now, known, until: Millis::MAX, drains, ..Switch::default() };
        let able = concerned.map(|process| (process, 0)).collect();
        let off = Off { from: now, switch, able, verb: Some(verb) };
        match switched(off.scope(), verb, wire) {
            Ok(Switched::Done) => self.all.push(off),
            // A node's row may have ended by now.
            Ok(_) => {}
            Err(error) => assert!(wire.is_behind(), "{error}"),
        }
    }

    /// Switches on again what has been off for long enough, or everything; sees which pauses have ended by
    /// themselves. If `is_quiet`, nothing else goes wrong, and nobody changes a trigger.
    pub(super) fn turn_on(
        &mut self,
        now: Millis,
        (everything, is_quiet): (bool, bool),
        database: &Database,
        wire: &Wire<'_>,
    ) {
        for off in self.all.iter_mut().filter(|off| off.is_open()) {
            let (from, ends) = (off.from, off.verb.and_then(SwitchVerb::until));
            let state = off.verb.and_then(|_| state(&off.scope(), wire));
            let is_over = now >= from + OFF || everything;
            match off.verb {
                None if is_over => {
                    database.switch(APPLICATION, off.node(), true);
                    off.switch.until = now;
                }
                None => {}
                // It has ended by itself since the last look.
                Some(_) if state == Some(Activity::Active) => {
                    off.switch.until = (now - 1_000).max(from);
                    off.switch.passes =
                        ends.filter(|_| is_quiet).map(|ends| (off.switch.known, ends.millis()));
                }
                Some(_) if is_over => {
                    if off.resume(wire) {
                        off.switch.passes = is_quiet.then_some((off.switch.known, now));
                    }
                    off.switch.until = now;
                }
                Some(_) => {}
            }
            let is_late = is_quiet && off.is_open();
            if is_late && ends.is_some_and(|ends| now > (ends + ENDS_WITHIN).millis()) && state.is_some() {
                self.overdue
                    .push(format!("goes on at {now}, though its time was up at {ends:?}: {:?}", off.switch));
            }
            let has_drained = state.is_none_or(|state| state == Activity::Drained);
            if is_late && off.switch.drains && now > from + DRAINS_WITHIN && !has_drained {
                self.overdue.push(format!("has not drained by {now}: {:?}", off.switch));
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

    /// What is wrong beside what the history shows.
    pub(super) fn overdue(&self) -> &[String] {
        &self.overdue
    }

    /// For the judge.
    pub(super) fn history(self) -> Vec<Switch> {
        self.all.into_iter().map(|off| off.switch).collect()
    }
}

/// The state of a job, a live node or the application; nothing if there is no such node any more.
fn state(scope: &Scope, wire: &Wire<'_>) -> Option<Activity> {
    match scope {
        Scope::Job(name) => {
            let jobs = wire.jobs(APPLICATION).unwrap();
            jobs.iter().find(|job| job.name == *name).map(|job| job.switch)
        }
        Scope::Node(id) => {
            let nodes = wire.nodes(Some(APPLICATION)).unwrap();
            let live = nodes.iter().filter(|node| node.ended.is_none());
            live.into_iter().find(|node| node.id == id.to_string()).map(|node| node.switch)
        }
        Scope::Application => {
            let all = wire.applications().unwrap();
            all.iter().find(|it| it.name == APPLICATION).map(|it| it.switch)
        }
    }
}
