//! Nodes made of production machines, their jobs, and what happens to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam::channel::{Receiver, bounded};

use super::actor::{Actor, Fate};
use crate::clock::Now;
use crate::misfire::{MisfireInput, MisfireMachine, MisfireOutput};
use crate::model::{ExecutionId, JobPolicy, JobSpec, Millis, MisfirePolicy, NodeId, Outcome};
use crate::node::{Held, Identity, NodeMachine, NodeOutput};
use crate::pipeline::complete::{CompleteInput, CompleteMachine};
use crate::pipeline::dispatch::{DispatchInput, DispatchMachine, DispatchOutput, Seats};
use crate::pipeline::poll::{Catalog, PollInput, PollMachine, PollOutput};
use crate::schedule::Trigger;
use crate::store::memory::MemoryStore;
use crate::store::{Beat, Claimed, Definition, Figures, Settled, Store};
use crate::window::Window;

pub(super) const APPLICATION: &str = "sim";
/// Virtual time begins here: 2026-01-01T00:00:00Z.
pub(super) const BEGIN: Millis = 1_767_225_600_000;
/// After the last occurrence faults stop, and this long the cluster may settle what is left.
const SETTLE: Millis = 180_000;

/// A small deterministic generator (SplitMix64): a seed must replay the same on every machine and version.
#[derive(Clone, Debug)]
pub(super) struct Dice {
    state: u64,
    faults: Faults,
    /// Faults thrown so far.
    pub thrown: u64,
}

impl Dice {
    fn new(seed: u64, faults: Faults) -> Self {
        Self { state: seed, faults, thrown: 0 }
    }

    fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, bound: Millis) -> Millis {
        i64::try_from(self.roll() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn happens(&mut self, per_million: Millis) -> bool {
        let happens = self.below(1_000_000) < per_million;
        self.thrown += u64::from(happens);
        happens
    }

    pub(super) fn fate(&mut self) -> Fate {
        let quick = (1 + self.below(4), 1 + self.below(3));
        if !self.happens(self.faults.calls) {
            return Fate::Answered(quick.0, quick.1);
        }
        match self.below(5) {
            0 => Fate::Unavailable,
            1 => Fate::Lost,
            2 => Fate::AnswerLost(quick.0),
            3 => Fate::Overrun(self.below(3_900)),
            _ => Fate::Answered(self.below(1_500), self.below(1_400)),
        }
    }
}

/// How often things go wrong, per million.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// Per store call.
    calls: Millis,
    /// Per node and second: killed, to be restarted later.
    kills: Millis,
    /// Per node and second: stopped for up to 90 s.
    stops: Millis,
    /// Per node and second: its wall clock set up to 2 s off.
    clocks: Millis,
    /// Per second: a schedule paused, or a paused one resumed.
    pauses: Millis,
}

impl Faults {
    pub(super) fn none() -> Self {
        Self { calls: 0, kills: 0, stops: 0, clocks: 0, pauses: 0 }
    }

    pub(super) fn many() -> Self {
        Self { calls: 20_000, kills: 4_000, stops: 4_000, clocks: 2_000, pauses: 10_000 }
    }
}

/// A handler's first instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub execution: ExecutionId,
    pub schedule: String,
    pub scheduled: Millis,
    pub attempt: u32,
    pub at: Millis,
}

/// A schedule with what it must come to, worked out without the engine.
pub(super) struct Expected {
    pub name: String,
    pub times: Vec<Millis>,
}

pub(super) struct Cluster {
    pub store: Arc<MemoryStore>,
    pub expected: Vec<Expected>,
    pub effects: Vec<Effect>,
    pub dice: Dice,
    now: Millis,
    ends: Millis,
    nodes: Vec<Option<Node>>,
    restarts: BTreeMap<usize, Millis>,
    /// Operations of killed processes that reach the database yet.
    graveyard: Vec<Node>,
    paused: Vec<String>,
    jobs: JobSpec,
    /// Every node polls on whole multiples of the poll period.
    aligned: bool,
}

impl Cluster {
    pub(super) fn new(seed: u64, nodes: usize, schedules: usize, span: Millis, faults: Faults) -> Self {
        let mut cluster = Self::empty(seed, span, faults);
        for n in 0..schedules {
            cluster.add_schedule(n);
        }
        cluster.start_nodes(nodes);
        cluster
    }

    /// `rows` schedules that fire on every whole second for `seconds`, and polls whose edges lie on them too.
    pub(super) fn on_every_second(nodes: usize, rows: usize, seconds: Millis) -> Self {
        let start = BEGIN + 10_000;
        let last = start + 1_000 * (seconds - 1);
        let mut cluster = Self::empty(0, last - BEGIN, Faults::none());
        cluster.aligned = true;
        for n in 0..rows {
            let times = (0..seconds).map(|second| start + 1_000 * second).collect();
            let trigger = Trigger::cron("* * * * * ?", "UTC").unwrap();
            cluster.add(format!("second-{n}"), MisfirePolicy::FireOnce, start, trigger, times);
        }
        cluster.start_nodes(nodes);
        cluster
    }

    fn empty(seed: u64, span: Millis, faults: Faults) -> Self {
        let jobs = JobSpec {
            name: "job".to_owned(),
            policy: JobPolicy {
                recover: true,
                max_attempts: 1_000,
                max_tries: 1,
                retry_delay: Duration::ZERO,
            },
        };
        Self {
            store: Arc::new(MemoryStore::new(BEGIN)),
            expected: Vec::new(),
            effects: Vec::new(),
            dice: Dice::new(seed, faults),
            now: BEGIN,
            ends: BEGIN + span,
            nodes: Vec::new(),
            restarts: BTreeMap::new(),
            graveyard: Vec::new(),
            paused: Vec::new(),
            jobs,
            aligned: false,
        }
    }

    fn start_nodes(&mut self, nodes: usize) {
        for _ in 0..nodes {
            let node = self.start_node();
            self.nodes.push(Some(node));
        }
    }

    /// Simple and cron schedules, finite by count or by end, under each misfire policy.
    fn add_schedule(&mut self, n: usize) {
        let policy = MisfirePolicy::ALL[n % MisfirePolicy::ALL.len()];
        let name = format!("schedule-{n}");
        let seconds = 1 + self.dice.below(7);
        let interval = 1_000 * seconds;
        let start = BEGIN + 1_000 + self.dice.below(5_000);
        let (trigger, times) = match n % 2 {
            0 => {
                let most = (self.ends - start) / interval + 1;
                let times: Vec<Millis> = (0..most).map(|k| start + k * interval).collect();
                let trigger = Trigger::every(Duration::from_millis(interval as u64))
                    .and_then(|it| it.anchored(start))
                    .and_then(|it| it.times(most as u64))
                    .unwrap();
                (trigger, times)
            }
            _ => {
                // Seconds of the minute divisible by `seconds`: BEGIN is a whole minute.
                let times = (start..=self.ends)
                    .filter(|at| at % 1_000 == 0 && (at / 1_000 % 60) % seconds == 0)
                    .collect();
                (Trigger::cron(&format!("0/{seconds} * * * * ?"), "UTC").unwrap(), times)
            }
        };
        self.add(name, policy, start, trigger, times);
    }

    fn add(
        &mut self,
        name: String,
        misfire: MisfirePolicy,
        start: Millis,
        trigger: Trigger,
        times: Vec<Millis>,
    ) {
        self.expected.push(Expected { name: name.clone(), times });
        let definition = Definition {
            application: APPLICATION.to_owned(),
            name,
            job: self.jobs.clone(),
            payload: "null".to_owned(),
            trigger,
            start: Some(start),
            end: Some(self.ends),
            priority: 5,
            misfire,
            threshold: 60_000,
        };
        self.store.ensure(&definition).unwrap();
    }

    /// As the scheduler's start: register and beat once, then run the machines.
    fn start_node(&mut self) -> Node {
        let roll = u128::from(self.dice.roll()) << 64 | u128::from(self.dice.roll());
        // A node's place on the grid comes from its id.
        let roll = if self.aligned { roll - roll % 1_000_000 } else { roll };
        let id = NodeId(uuid::Uuid::from_u128(roll));
        let identity = Identity {
            application: APPLICATION.to_owned(),
            host_ip: String::new(),
            host_name: String::new(),
            pid: 0,
            jobs: vec![self.jobs.clone()],
        };
        let window = Window::default();
        let now = Now { db: self.now, boot: self.now };
        self.store.register(&identity.new_node(id, self.now)).unwrap();
        let beat = Beat {
            node: id,
            application: APPLICATION.to_owned(),
            figures: Figures::default(),
            now: self.now,
        };
        self.store.beat(&beat).unwrap();
        let held = Arc::new(Held::default());
        let seats = SimSeats { taken: Arc::default(), threads: 4, places: 4 };
        let lease = self.now + window.lease();
        let figures: fn() -> Figures = Figures::default;
        Node {
            skew: 0,
            offset: 0,
            stopped_until: Millis::MIN,
            poll: Actor::new(PollMachine::new(
                id,
                APPLICATION.to_owned(),
                Arc::new(Anything),
                window,
                0,
                now,
            )),
            dispatch: Actor::new(DispatchMachine::new(id, Arc::clone(&held), lease, seats, now)),
            complete: Actor::new(CompleteMachine::new(Arc::clone(&held))),
            misfire: Actor::new(MisfireMachine::new(APPLICATION.to_owned(), window)),
            heart: Actor::new(NodeMachine::new(id, identity, window, held, figures, now)),
            starting: Vec::new(),
            running: Vec::new(),
        }
    }

    pub(super) fn run(&mut self) {
        let mut next_second = self.now;
        let over = self.ends + SETTLE;
        while self.now < over {
            if self.now >= next_second {
                next_second += 1_000;
                self.misfortune();
            }
            self.store.set_time(self.now);
            for grave in &mut self.graveyard {
                grave.perform_late(self.now, self.store.as_ref());
            }
            for n in 0..self.nodes.len() {
                if let Some(node) = &mut self.nodes[n] {
                    node.run(self.now, self.store.as_ref(), &mut self.dice, &mut self.effects);
                }
            }
            let next = self.nodes.iter().flatten().map(Node::next_at).min().unwrap_or(Millis::MAX);
            self.now = next.min(next_second).max(self.now + 1);
        }
    }

    /// Once a second: what may happen to nodes and schedules.
    fn misfortune(&mut self) {
        if self.now >= self.ends {
            self.heal();
            return;
        }
        let faults = self.dice.faults;
        for n in 0..self.nodes.len() {
            if self.nodes[n].is_none() {
                if self.restarts.get(&n).is_some_and(|at| *at <= self.now) {
                    self.nodes[n] = Some(self.start_node());
                }
                continue;
            }
            if self.dice.happens(faults.kills) {
                self.graveyard.extend(self.nodes[n].take());
                self.restarts.insert(n, self.now + self.dice.below(90_000));
            } else if self.dice.happens(faults.stops) {
                let until = self.now + self.dice.below(90_000);
                self.nodes[n].iter_mut().for_each(|node| node.stopped_until = until);
            } else if self.dice.happens(faults.clocks) {
                let skew = self.dice.below(4_000) - 2_000;
                self.nodes[n].iter_mut().for_each(|node| node.skew = skew);
            }
        }
        if self.dice.happens(faults.pauses) {
            self.pause_or_resume();
        }
    }

    fn pause_or_resume(&mut self) {
        match self.paused.pop() {
            Some(name) => self.resume(&name),
            None => {
                let n = usize::try_from(self.dice.below(self.expected.len() as Millis)).unwrap();
                let name = self.expected[n].name.clone();
                let entry = self.store.find(APPLICATION, &name).unwrap().unwrap();
                if self.store.pause(entry.id, entry.version, "sim", "sim").unwrap() {
                    self.paused.push(name);
                }
            }
        }
    }

    fn resume(&mut self, name: &str) {
        while let Some(repair) =
            crate::misfire::resume(&self.store.find(APPLICATION, name).unwrap().unwrap(), self.now)
        {
            self.store.repair(&repair).unwrap();
        }
    }

    /// Faults have ended: everybody is up again, nothing is paused.
    fn heal(&mut self) {
        self.dice.faults = Faults::none();
        while let Some(name) = self.paused.pop() {
            self.resume(&name);
        }
        for n in 0..self.nodes.len() {
            if self.nodes[n].is_none() {
                self.nodes[n] = Some(self.start_node());
            }
        }
        for node in self.nodes.iter_mut().flatten() {
            node.stopped_until = Millis::MIN;
            node.skew = 0;
        }
    }
}

/// A handler for everything.
struct Anything;

impl Catalog for Anything {
    fn jobs(&self) -> Vec<String> {
        vec!["job".to_owned()]
    }

    fn decodes(&self, _job: &str, _payload: &str) -> Result<(), String> {
        Ok(())
    }
}

struct SimSeats {
    taken: Arc<AtomicUsize>,
    threads: usize,
    places: usize,
}

pub(super) struct SimPermit {
    taken: Arc<AtomicUsize>,
    at_once: bool,
}

impl Drop for SimPermit {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Seats for SimSeats {
    type Permit = SimPermit;

    fn reserve(&mut self) -> Option<SimPermit> {
        let taken = self.taken.load(Ordering::Relaxed);
        (taken < self.threads + self.places).then(|| {
            self.taken.fetch_add(1, Ordering::Relaxed);
            SimPermit { taken: Arc::clone(&self.taken), at_once: taken < self.threads }
        })
    }

    fn starts_at_once(permit: &SimPermit) -> bool {
        permit.at_once
    }

    fn tick(&mut self, _boot: Millis) -> (Vec<Claimed>, Option<Millis>) {
        (Vec::new(), None)
    }
}

/// A job that waits for its row to say RUNNING.
struct Starting {
    claimed: Claimed,
    permit: SimPermit,
    settled: Receiver<Settled>,
}

struct Running {
    claimed: Claimed,
    _permit: SimPermit,
    ends: Millis,
}

/// One process.
struct Node {
    /// The host's wall clock against true time.
    skew: Millis,
    /// What the process believes its wall clock lacks.
    offset: Millis,
    stopped_until: Millis,
    poll: Actor<PollMachine>,
    dispatch: Actor<DispatchMachine<SimSeats>>,
    complete: Actor<CompleteMachine>,
    misfire: Actor<MisfireMachine>,
    heart: Actor<NodeMachine<fn() -> Figures>>,
    starting: Vec<Starting>,
    running: Vec<Running>,
}

impl Node {
    fn next_at(&self) -> Millis {
        let jobs = self.running.iter().map(|it| it.ends).min().unwrap_or(Millis::MAX);
        [self.poll.next_at(), self.dispatch.next_at(), self.complete.next_at(), self.misfire.next_at()]
            .into_iter()
            .chain([self.heart.next_at(), jobs])
            .min()
            .unwrap_or(Millis::MAX)
            .max(self.stopped_until)
    }

    fn perform_late(&mut self, boot: Millis, store: &dyn Store) {
        self.poll.perform_late(boot, store);
        self.dispatch.perform_late(boot, store);
        self.complete.perform_late(boot, store);
        self.misfire.perform_late(boot, store);
        self.heart.perform_late(boot, store);
    }

    fn run(&mut self, time: Millis, store: &dyn Store, dice: &mut Dice, effects: &mut Vec<Effect>) {
        if time < self.stopped_until {
            self.perform_late(time, store);
            return;
        }
        while self.round(time, store, dice, effects) {}
    }

    fn now(&self, time: Millis) -> Now {
        Now { db: time + self.skew + self.offset, boot: time }
    }

    /// One turn of every machine; true if anything was said that others may act on.
    fn round(&mut self, time: Millis, store: &dyn Store, dice: &mut Dice, effects: &mut Vec<Effect>) -> bool {
        let now = self.now(time);
        let mut said = self.run_jobs(now, dice, effects);

        let mut told = Vec::new();
        self.heart.run(now, store, dice, &mut told);
        said |= !told.is_empty();
        for output in told {
            match output {
                NodeOutput::Lease(deadline) => self.dispatch.receive(now, DispatchInput::Lease(deadline)),
                NodeOutput::Reborn(node) => {
                    self.poll.receive(now, PollInput::Reborn(node));
                    self.dispatch.receive(now, DispatchInput::Reborn(node));
                }
                NodeOutput::Event(_) => {}
            }
        }

        let mut told = Vec::new();
        self.poll.run(now, store, dice, &mut told);
        said |= !told.is_empty();
        for output in told {
            match output {
                PollOutput::Planned(planned) => self.dispatch.receive(now, DispatchInput::Planned(planned)),
                PollOutput::Enabled { app, node } => {
                    self.misfire.receive(now, MisfireInput::Polled { app, node })
                }
                // The store's samples compare true time with true time: the host's own error is the skew.
                PollOutput::Offset(_) => {}
                PollOutput::Jumped => self.dispatch.receive(now, DispatchInput::Jumped),
                PollOutput::Event(_) => {}
            }
        }

        let mut told = Vec::new();
        self.misfire.run(now, store, dice, &mut told);
        said |= !told.is_empty();
        for output in told {
            if let MisfireOutput::WakePoll = output {
                self.poll.receive(now, PollInput::Wake);
            }
        }

        let mut told = Vec::new();
        self.dispatch.run(now, store, dice, &mut told);
        said |= !told.is_empty();
        for output in told {
            match output {
                DispatchOutput::Run(permit, claimed) => self.accept(permit, claimed, now, dice, effects),
                DispatchOutput::GiveBack(settlement) => {
                    self.complete.receive(now, CompleteInput::Settle(settlement, None));
                }
                DispatchOutput::WakePoll => self.poll.receive(now, PollInput::Wake),
                DispatchOutput::Event(_) => {}
            }
        }

        let mut told = Vec::new();
        self.complete.run(now, store, dice, &mut told);
        said | !told.is_empty()
    }

    fn accept(
        &mut self,
        permit: SimPermit,
        claimed: Claimed,
        now: Now,
        dice: &mut Dice,
        effects: &mut Vec<Effect>,
    ) {
        if claimed.is_started() {
            return self.begin(permit, claimed, now, dice, effects);
        }
        let (reply, settled) = bounded(1);
        self.complete.receive(now, CompleteInput::Settle(claimed.start(now.db), Some(reply)));
        self.starting.push(Starting { claimed, permit, settled });
    }

    fn begin(
        &mut self,
        permit: SimPermit,
        claimed: Claimed,
        now: Now,
        dice: &mut Dice,
        effects: &mut Vec<Effect>,
    ) {
        if !claimed.may_start(now.boot) {
            return self.complete.receive(now, CompleteInput::Settle(claimed.give_back(now.db), None));
        }
        effects.push(Effect {
            execution: claimed.execution(),
            schedule: claimed.entry().name.to_string(),
            scheduled: claimed.scheduled(),
            attempt: claimed.attempt(),
            at: now.boot,
        });
        let ends = now.boot + dice.below(200);
        self.running.push(Running { claimed, _permit: permit, ends });
    }

    fn run_jobs(&mut self, now: Now, dice: &mut Dice, effects: &mut Vec<Effect>) -> bool {
        let mut said = false;
        for mut it in std::mem::take(&mut self.starting) {
            match it.settled.try_recv() {
                Ok(Settled::Done) => {
                    it.claimed.mark_started();
                    self.begin(it.permit, it.claimed, now, dice, effects);
                    said = true;
                }
                Ok(Settled::Revoked) => said = true,
                Err(_) => self.starting.push(it),
            }
        }
        for it in std::mem::take(&mut self.running) {
            if it.ends > now.boot {
                self.running.push(it);
                continue;
            }
            let settlement = it.claimed.finish(Outcome::Succeeded, None, now.db);
            self.complete.receive(now, CompleteInput::Settle(settlement, None));
            said = true;
        }
        if said {
            self.dispatch.receive(now, DispatchInput::SeatFreed);
        }
        said
    }
}
