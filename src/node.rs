//! Registration, heartbeat, lease and death.
//!
//! A lease is what the last confirmed heartbeat allows: until `sent + d - q - 1 s` on the boot clock this
//! node may start what it claims. The boot clock does not count how long a hypervisor pauses the machine.
//! Whoever set the wall clock right afterwards drives the two apart; no lease from before that holds, and
//! what was claimed under it goes back.
//!
//! A node is dead when an observer saw its beat unchanged for `d` of *covered* time. Two heartbeats of the
//! observer's own cover the time between them if both were confirmed and none failed in between, and one
//! interval `h` at most.
//! * Leases stay safe: covered time is never more than the time that has passed, and it is counted from the
//!   arrival of the answer that first showed the beat to the sending of a later heartbeat. When `d` of it has
//!   passed, so has `d` since the node sent the last heartbeat that can have given it a lease.
//! * A stopped or slow database kills nobody: while it answers no heartbeats no time is covered. Covered time
//!   is time in which it answered the observer. In `d` of it a node that lives has sent several heartbeats of
//!   its own: it sends the next within `h + q` of the one before.
//! * What was seen is kept when an observer's heartbeat fails. It costs the time up to the next confirmed
//!   one, not more.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashSet;

use crate::clock::{Lease, Now};
use crate::error::Error;
use crate::event::Event;
use crate::machine::{Machine, Operation, Step};
use crate::misfire;
use crate::model::{JobSpec, Millis, NodeId, Token};
use crate::shards::Member;
use crate::store::{Beat, Figures, NewNode, Peer, Pulse, Revocation, Store, Stranded};
use crate::window::Window;

/// The tokens this process answers for: from before the claim's transaction until its outcome is stored.
#[derive(Debug, Default)]
pub(crate) struct Held {
    tokens: Mutex<Tokens>,
}

#[derive(Debug, Default)]
struct Tokens {
    held: FxHashSet<Token>,
    /// Let go while the database is being asked what it has in our name: it may have looked before.
    let_go: Option<FxHashSet<Token>>,
}

impl Held {
    pub(crate) fn add(&self, token: Token) {
        self.lock().held.insert(token);
    }

    pub(crate) fn remove(&self, token: Token) {
        let mut tokens = self.lock();
        tokens.held.remove(&token);
        if let Some(let_go) = &mut tokens.let_go {
            let_go.insert(token);
        }
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, token: Token) -> bool {
        self.lock().held.contains(&token)
    }

    /// The incarnation is over: it answers for nothing any more.
    pub(crate) fn clear(&self) {
        *self.lock() = Tokens::default();
    }

    /// The database is about to be asked what it has in our name.
    fn asking(&self) {
        self.lock().let_go = Some(FxHashSet::default());
    }

    /// Of what it has in our name, what this process has answered for at no time since it was asked.
    fn orphans(&self, owned: Vec<Stranded>) -> Vec<Stranded> {
        let mut tokens = self.lock();
        let let_go = tokens.let_go.take().unwrap_or_default();
        let is_ours = |token: &Token| tokens.held.contains(token) || let_go.contains(token);
        owned.into_iter().filter(|it| !is_ours(&it.token)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tokens> {
        // Sets of plain values are whole whatever panicked beside them.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches every node's beat on the observer's own boot clock. Pure.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// Each node's beat, and how much time has been covered since it was first seen.
    seen: HashMap<NodeId, (i64, Millis)>,
    /// When the last heartbeat was sent, if it was confirmed.
    confirmed: Option<Millis>,
}

impl Observer {
    /// Takes in the other nodes as a confirmed heartbeat, sent at `sent` and answered at `now` (boot clock),
    /// saw them; gives those whose beat has not moved for `death_after` of covered time.
    pub(crate) fn observe(
        &mut self,
        peers: &[Peer],
        sent: Millis,
        now: Millis,
        window: &Window,
    ) -> Vec<Peer> {
        let before = self.confirmed.replace(sent);
        let covered = before.map_or(0, |before| (sent - before).min(window.beat));
        self.seen.retain(|id, _| peers.iter().any(|peer| peer.id == *id));
        // A beat may have been written until the answer's arrival: the time before that does not count.
        let first = sent - now;
        // Later than any call may take: this process was stopped. The next heartbeat looks sooner than that
        // counts.
        let is_late = now - sent > window.call;
        let is_dead = |peer: &&Peer| {
            if is_late && self.seen.get(&peer.id).is_none_or(|(beat, _)| *beat != peer.beat) {
                self.seen.remove(&peer.id);
                return false;
            }
            let (beat, unchanged) = self.seen.entry(peer.id).or_insert((peer.beat, first - covered));
            *unchanged = if *beat == peer.beat { *unchanged + covered } else { first };
            *beat = peer.beat;
            *unchanged >= window.death
        };
        peers.iter().filter(is_dead).cloned().collect()
    }

    /// An own heartbeat failed: the time from the last confirmed one to the next is not covered.
    pub(crate) fn failed(&mut self) {
        self.confirmed = None;
    }
}

/// What a node says of itself when it joins.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub application: String,
    pub host_ip: String,
    pub host_name: String,
    pub pid: u32,
    pub jobs: Vec<JobSpec>,
}

impl Identity {
    pub(crate) fn new_node(&self, id: NodeId, now: Millis) -> NewNode {
        NewNode {
            id,
            application: self.application.clone(),
            host_ip: self.host_ip.clone(),
            host_name: self.host_name.clone(),
            pid: self.pid,
            jobs: self.jobs.clone(),
            now,
        }
    }
}

#[derive(Clone)]
pub(crate) enum NodeOp {
    Register(NewNode),
    Beat(Beat),
    DeclareDead(Peer, Millis),
    Revoke(Revocation),
    Leave(NodeId, Millis),
}

pub(crate) enum NodeAnswer {
    Registered,
    Pulse(Pulse),
    Declared(Peer, bool),
    Revoked,
    Left,
}

impl Operation for NodeOp {
    type Answer = NodeAnswer;

    fn name(&self) -> &'static str {
        match self {
            Self::Register(_) => "joining",
            Self::Beat(_) => "heartbeat",
            Self::DeclareDead(..) => "declaring a node dead",
            Self::Revoke(_) => "settling an execution nobody holds",
            Self::Leave(..) => "leaving",
        }
    }

    fn perform(self, store: &dyn Store) -> Result<NodeAnswer, Error> {
        match self {
            Self::Register(node) => store.register(&node).map(|_| NodeAnswer::Registered),
            Self::Beat(beat) => store.beat(&beat).map(NodeAnswer::Pulse),
            Self::DeclareDead(peer, now) => {
                store.declare_dead(peer.id, peer.beat, now).map(|won| NodeAnswer::Declared(peer, won))
            }
            Self::Revoke(revocation) => store.revoke(&[revocation]).map(|_| NodeAnswer::Revoked),
            Self::Leave(node, now) => store.leave(node, now).map(|()| NodeAnswer::Left),
        }
    }
}

pub(crate) enum NodeInput {
    /// A heartbeat at once: the lease is in doubt.
    Beat,
    /// Nothing more will be claimed: the others are told with a heartbeat at once.
    Withdraw,
    /// Stop beating; with `leave`, end the node's row: nothing of it runs any more.
    Stop { leave: bool },
}

pub(crate) enum NodeOutput {
    Lease(Lease),
    /// This node goes on under a new name.
    Reborn(NodeId),
    /// Who lives, this node included, and what each claims.
    Members(Vec<Member>),
    /// This node's row says that it has left.
    Left,
    Event(Event),
}

/// Whether the node's name is in the database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Membership {
    Joined,
    NotYet,
    /// Its registration failed, and the row may exist after all: it is ended, and the node joins under
    /// another name.
    InDoubt,
}

/// What is asked of the database right now.
enum Asked {
    Register,
    /// To end the row of a registration in doubt.
    Retract,
    Beat {
        sent: Now,
    },
    Other(&'static str),
    Leave,
}

/// The live nodes as shards are shared out among them.
pub(crate) fn members(peers: &[Peer]) -> Vec<Member> {
    peers.iter().map(|peer| Member { id: peer.id, jobs: peer.jobs.clone() }).collect()
}

pub(crate) struct NodeMachine<F> {
    id: NodeId,
    identity: Identity,
    window: Window,
    held: Arc<Held>,
    figures: F,
    membership: Membership,
    observer: Observer,
    next_beat: Millis,
    hold: Millis,
    asked: Option<Asked>,
    todo: VecDeque<NodeOp>,
    outbox: VecDeque<NodeOutput>,
    withdrawn: bool,
    stopping: bool,
    left: bool,
}

impl<F: Fn() -> Figures + Send + 'static> NodeMachine<F> {
    /// A node that has registered and whose first heartbeat was confirmed.
    pub(crate) fn new(
        id: NodeId,
        identity: Identity,
        window: Window,
        held: Arc<Held>,
        figures: F,
        now: Now,
    ) -> Self {
        Self {
            id,
            identity,
            window,
            held,
            figures,
            membership: Membership::Joined,
            observer: Observer::default(),
            next_beat: now.boot + window.beat,
            hold: Millis::MIN,
            asked: None,
            todo: VecDeque::new(),
            outbox: VecDeque::new(),
            withdrawn: false,
            stopping: false,
            left: false,
        }
    }

    /// What it has seen of the others is gone.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        self.observer = Observer::default();
    }

    fn ask(&mut self, now: Now) -> Option<NodeOp> {
        if self.stopping {
            self.asked = Some(Asked::Leave);
            return Some(NodeOp::Leave(self.id, now.db));
        }
        match self.membership {
            Membership::Joined => {}
            Membership::NotYet => {
                self.asked = Some(Asked::Register);
                return Some(NodeOp::Register(self.identity.new_node(self.id, now.db)));
            }
            Membership::InDoubt => {
                self.asked = Some(Asked::Retract);
                return Some(NodeOp::Leave(self.id, now.db));
            }
        }
        if now.boot >= self.next_beat {
            // Beats keep their own rhythm; one that came late does not pull the next ones closer together.
            self.next_beat = now.boot + self.window.beat;
            self.asked = Some(Asked::Beat { sent: now });
            self.held.asking();
            return Some(NodeOp::Beat(Beat {
                node: self.id,
                application: self.identity.application.clone(),
                figures: (self.figures)(),
                withdraw: self.withdrawn,
                now: now.db,
            }));
        }
        let op = self.todo.pop_front()?;
        self.asked = Some(Asked::Other(op.name()));
        Some(op)
    }

    fn pulse(&mut self, pulse: Pulse, sent: Now, now: Now) {
        match pulse {
            Pulse::Alive { peers, owned } => {
                self.outbox.push_back(NodeOutput::Lease(Lease::new(sent, self.window.lease())));
                self.outbox.push_back(NodeOutput::Members(members(&peers)));
                let others: Vec<Peer> = peers.into_iter().filter(|peer| peer.id != self.id).collect();
                let dead = self.observer.observe(&others, sent.boot, now.boot, &self.window);
                // The answer is the whole truth: tasks of earlier ones that failed are in it again.
                self.todo.clear();
                self.todo.extend(dead.into_iter().map(|peer| NodeOp::DeclareDead(peer, now.db)));
                let orphans = self.held.orphans(owned).into_iter();
                self.todo.extend(orphans.map(|it| NodeOp::Revoke(misfire::recover(it, now.db, now.db))));
            }
            Pulse::Ended => self.rebirth(),
        }
    }

    /// Others ended this incarnation: it holds nothing any more and joins again as another.
    fn rebirth(&mut self) {
        self.outbox.push_back(NodeOutput::Lease(Lease::NONE));
        let old = self.id;
        self.id = old.next_incarnation();
        self.membership = Membership::NotYet;
        self.held.clear();
        self.todo.clear();
        self.observer.failed();
        self.outbox.push_back(NodeOutput::Event(Event::Fenced { old, new: self.id }));
    }

    fn failed(&mut self, asked: Asked, error: Error, now: Now) {
        self.hold = now.boot + (self.window.beat / 5).min(1_000);
        if !matches!(asked, Asked::Other(_)) {
            self.next_beat = self.next_beat.min(self.hold);
        }
        let operation = match asked {
            Asked::Register => {
                self.membership = Membership::InDoubt;
                "joining"
            }
            Asked::Retract => "joining",
            Asked::Beat { .. } => {
                self.observer.failed();
                "heartbeat"
            }
            Asked::Other(name) => name,
            // Tried once: a node that could not say that it left is found dead.
            Asked::Leave => {
                self.left = true;
                "leaving"
            }
        };
        self.outbox.push_back(NodeOutput::Event(Event::StoreFailed { operation, error }));
    }
}

impl<F: Fn() -> Figures + Send + 'static> Machine for NodeMachine<F> {
    type Op = NodeOp;
    type Input = NodeInput;
    type Output = NodeOutput;

    fn next(&mut self, now: Now) -> Step<NodeOp, NodeOutput> {
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.left {
            return Step::Stop;
        }
        if now.boot < self.hold {
            return Step::Wait(self.hold);
        }
        match self.ask(now) {
            Some(op) => Step::Do(op),
            None => Step::Wait(self.next_beat),
        }
    }

    fn done(&mut self, now: Now, answer: Result<NodeAnswer, Error>) {
        let Some(asked) = self.asked.take() else { return };
        match answer {
            Ok(NodeAnswer::Registered) => {
                self.membership = Membership::Joined;
                self.next_beat = now.boot;
                self.outbox.push_back(NodeOutput::Reborn(self.id));
                self.outbox.push_back(NodeOutput::Event(Event::Joined { node: self.id }));
            }
            Ok(NodeAnswer::Pulse(pulse)) => {
                if let Asked::Beat { sent } = asked {
                    self.pulse(pulse, sent, now);
                }
            }
            Ok(NodeAnswer::Declared(peer, true)) => {
                self.outbox.push_back(NodeOutput::Event(Event::NodeDied { node: peer.id }));
            }
            Ok(NodeAnswer::Declared(_, false) | NodeAnswer::Revoked) => {}
            Ok(NodeAnswer::Left) if matches!(asked, Asked::Retract) => {
                self.id = self.id.next_incarnation();
                self.membership = Membership::NotYet;
            }
            Ok(NodeAnswer::Left) => {
                self.left = true;
                self.outbox.push_back(NodeOutput::Left);
            }
            Err(error) => self.failed(asked, error, now),
        }
    }

    fn receive(&mut self, now: Now, input: NodeInput) {
        match input {
            NodeInput::Beat => self.next_beat = self.next_beat.min(now.boot),
            NodeInput::Withdraw => {
                self.withdrawn = true;
                self.next_beat = self.next_beat.min(now.boot);
            }
            NodeInput::Stop { leave } => {
                self.stopping = true;
                self.left = !leave;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::error::Kind;
    use crate::model::{ExecutionId, ExecutionState, ScheduleId};
    use crate::pipeline::fixtures::calls_while_down;

    mod machine;

    const DEATH: Millis = 25_000;

    fn peer(beat: i64) -> Peer {
        Peer { id: NodeId::fresh(), beat, jobs: Vec::new() }
    }

    fn watch(observer: &mut Observer, peer: &Peer, at: Millis) -> bool {
        !observer.observe(std::slice::from_ref(peer), at, at + 10, &Window::default()).is_empty()
    }

    #[test]
    fn a_beat_unchanged_for_d_of_covered_time_is_death() {
        let mut observer = Observer::default();
        let peer = peer(7);
        let seen: Vec<bool> = (0..7).map(|n| watch(&mut observer, &peer, n * 5_000)).collect();
        assert_eq!(seen, [false, false, false, false, false, false, true]);
    }

    /// The observer was stopped for an hour while its heartbeat was answered: it would have watched for an
    /// hour more.
    #[test]
    fn a_beat_first_seen_in_a_late_answer_counts_from_the_next_heartbeat() {
        const HOUR: Millis = 3_600_000;
        let (mut observer, window) = (Observer::default(), Window::default());
        let (known, moved) = (peer(7), Peer { beat: 8, ..peer(0) });
        assert!(!watch(&mut observer, &Peer { beat: 7, ..moved.clone() }, 0));
        let late = observer.observe(&[known.clone(), moved.clone()], 5_000, HOUR, &window);
        assert_eq!(late, []);
        let dead = |n| observer.observe(&[known.clone(), moved.clone()], n, n + 10, &window).len();
        let dead: Vec<usize> = (0..7).map(|n| HOUR + n * 5_000).map(dead).collect();
        assert_eq!(dead, [0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn a_beat_that_moves_starts_the_count_again() {
        let mut observer = Observer::default();
        let mut peer = peer(0);
        for n in 0..50 {
            peer.beat = n / 5;
            assert!(!watch(&mut observer, &peer, n * 5_000), "at {n}");
        }
    }

    #[test]
    fn a_gap_in_the_observers_own_heartbeats_kills_nobody() {
        let mut observer = Observer::default();
        let peer = peer(7);
        assert!(!watch(&mut observer, &peer, 0));
        assert!(!watch(&mut observer, &peer, 60_000));
        assert!(!watch(&mut observer, &peer, 65_000));
    }

    #[test]
    fn a_failed_own_heartbeat_kills_nobody() {
        let mut observer = Observer::default();
        let peer = peer(7);
        for n in 0..20 {
            assert!(!watch(&mut observer, &peer, n * 5_000), "after {n}");
            observer.failed();
        }
    }

    /// It costs the time from the last confirmed heartbeat to the next, and nothing that was seen before.
    #[test]
    fn failed_own_heartbeats_do_not_put_a_death_off_for_good() {
        let mut observer = Observer::default();
        let peer = peer(7);
        let mut dead = Vec::new();
        for n in 0..10 {
            if n % 3 == 1 {
                observer.failed();
            }
            dead.extend(watch(&mut observer, &peer, n * 5_000).then_some(n));
        }
        assert_eq!(dead, [9], "two intervals in three are covered, and six are needed");
    }

    /// Neither while it beats nor while it tries to join again.
    #[test]
    fn no_hot_loop_while_the_database_is_down() {
        let now = Now { db: 1_000_000, boot: 1_000_000, apart: 0 };
        for (kind, registered) in
            [(Kind::Unavailable, true), (Kind::Unknown, true), (Kind::Refused, true), (Kind::Unknown, false)]
        {
            let mut machine = machine(now);
            if !registered {
                machine.rebirth();
            }
            let calls = calls_while_down(&mut machine, now.boot, kind, || None);
            assert!((20..=70).contains(&calls), "{calls} calls in a minute");
        }
    }

    fn machine(now: Now) -> NodeMachine<fn() -> Figures> {
        let (application, host) = ("app".to_owned(), String::new());
        let identity =
            Identity { application, host_ip: host.clone(), host_name: host, pid: 0, jobs: Vec::new() };
        NodeMachine::new(NodeId::fresh(), identity, Window::default(), Arc::default(), Figures::default, now)
    }

    #[test]
    fn a_node_that_stops_claiming_says_so_at_once() {
        let now = Now { db: 1_000_000, boot: 1_000_000, apart: 0 };
        let mut machine = machine(now);
        assert!(matches!(machine.next(now), Step::Wait(_)));
        machine.receive(now, NodeInput::Withdraw);
        let mut now = now;
        for _ in 0..2 {
            let Step::Do(NodeOp::Beat(beat)) = machine.next(now) else { panic!("it has something to say") };
            assert!(beat.withdraw);
            machine.done(now, Err(Error::new(Kind::Unavailable, "down")));
            assert!(matches!(machine.next(now), Step::Tell(_)));
            now.boot = machine.hold;
        }
    }

    #[test]
    fn revocations_that_are_refused_do_not_pile_up() {
        let mut now = Now { db: 1_000_000, boot: 1_000_000, apart: 0 };
        let mut machine = machine(now);
        let policy = crate::job::Job::<()>::new("job").spec().policy;
        let stranded = |n| Stranded {
            id: ExecutionId(n),
            schedule: ScheduleId(n),
            name: "nightly".into(),
            state: ExecutionState::Running,
            token: Token::fresh(),
            attempt: 1,
            deaths: 0,
            policy,
        };
        let owned: Vec<Stranded> = (0..100).map(stranded).collect();
        let mut heartbeats = 0;
        let until = now.boot + 600_000;
        while now.boot < until {
            match machine.next(now) {
                Step::Do(NodeOp::Beat(_)) => {
                    heartbeats += 1;
                    let pulse = Pulse::Alive { peers: Vec::new(), owned: owned.clone() };
                    machine.done(now, Ok(NodeAnswer::Pulse(pulse)));
                }
                Step::Do(_) => machine.done(now, Err(Error::new(Kind::Refused, "disk full"))),
                Step::Tell(_) => {}
                Step::Wait(at) => now.boot = at,
                Step::Stop => panic!("stopped"),
            }
        }
        assert!(
            machine.todo.len() <= owned.len(),
            "{} tasks for {} executions",
            machine.todo.len(),
            owned.len()
        );
        assert!(heartbeats <= 121, "{heartbeats} heartbeats in ten minutes");
    }

    #[test]
    fn who_lives_is_told_with_every_confirmed_heartbeat() {
        let now = Now { db: 1_000_000, boot: 1_000_000, apart: 0 };
        let mut machine = machine(now);
        let other = Peer { jobs: vec!["work".to_owned()], ..peer(7) };
        machine.pulse(Pulse::Alive { peers: vec![other.clone()], owned: Vec::new() }, now, now);
        let members = machine.outbox.iter().find_map(|output| match output {
            NodeOutput::Members(members) => Some(members.clone()),
            _ => None,
        });
        assert_eq!(members, Some(vec![Member { id: other.id, jobs: other.jobs }]));
    }
}
