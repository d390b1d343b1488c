//! A cluster in virtual time: its database, its processes and its schedules, instant by instant.

mod misfortune;
pub(super) mod situations;

use std::collections::{BTreeMap, BTreeSet};

use super::actor::{Away, Pace};
use super::database::Database;
use super::deaths::{Deaths, Unnoticed};
use super::faults::{Faults, MEMBERS, RETENTION, any_member};
use super::jobs::{self, APPLICATION};
use super::judge::{Bounds, COUNTED, Cancel, Covering, Effect, Execution, History, Pause, Unserved};
use super::plans::Plans;
use super::process::{HAS_LANES, Process, Surroundings};
use super::sabotage::Sabotage;
use super::scenario::Scenario;
use super::switches::Switches;
use super::wire::{Completions, Wire, Wires};
use crate::api::verify;
use crate::domain::{Event, ExecutionState, Millis, NodeId, ScheduleId, Timestamp};
use crate::store::Store;
use crate::store::audit::AuditQuery;
use crate::store::news::News;
use crate::store::outcomes::{OutcomeCounts, OutcomeQuery};
use crate::store::{ExecutionQuery, ExecutionRow, NodeRow};
use crate::testing::dice::Dice;

/// After the last occurrence faults stop, and this long the cluster may settle what is left.
const SETTLE: Millis = 180_000;
/// The most bytes of texts that a node may keep for its retries, each escaped once: of some 200 outcomes. So
/// many may end while the database refuses some, as they are then stored one by one. A pool of tasks has no
/// queue, so what it takes has begun by its claim.
const KEPT: usize = 5_000;
/// How many one-shots come due at once: to bring them all in one call would take longer than a call may.
const CROWD: usize = 4_000;
/// How long the database's clock is wrong by a step.
pub(super) const STEPPED: Millis = 25_000;
/// One node in so many glances at the database for news,
const GLANCES: Millis = 4;
/// so often. Others are told.
const GLANCE: Millis = 1_000;
/// Where executions are enqueued one by one, one follows another so much later,
const ENQUEUES: Millis = 1_731;
/// and nodes that are told are told so soon.
const TOLD: Millis = 10;
/// The clock of a copy that takes over is wrong by so much at most.
pub(super) const OTHER_CLOCK: Millis = 15_000;
/// How long nodes are cut off for as somebody takes hold of a row: a claim of each second is under way then.
const CUT: Millis = 2_000;

/// A place for a process: there is one, or there will be one again.
struct NodeSlot {
    process: Option<Process>,
    restart_at: Millis,
    dice: Dice,
}

pub(super) struct Cluster {
    database: Database,
    wires: Wires,
    plans: Plans,
    slots: Vec<NodeSlot>,
    /// Dead processes with calls that reach the database yet.
    graves: Vec<Process>,
    effects: Vec<Effect>,
    coverings: Vec<Covering>,
    alarms: Vec<(Millis, Event)>,
    pauses: Vec<Pause>,
    switches: Switches,
    deaths: Deaths,
    /// For each node that starts: its id, its clocks, and what it knows of others.
    names: Dice,
    /// For refused writes, orderly stops and the restarts after them.
    orders: Dice,
    /// For what operators do beside pauses and edits.
    verbs: Dice,
    /// For all other faults but the rows that somebody holds.
    fate: Dice,
    faults: Faults,
    now: Millis,
    ends: Millis,
    outage_until: Millis,
    refused_until: Millis,
    /// The most bytes of texts that a process kept.
    kept: usize,
    /// The rows that somebody holds, and until when.
    held: Vec<(ScheduleId, Millis)>,
    holders: Dice,
    /// For what nodes are told of others' changes.
    rumours: Dice,
    /// For the members of the database and the copies that take over.
    members: Dice,
    /// When, whom.
    told: Vec<(Millis, usize)>,
    /// See [`Cluster::stranded`].
    stranded: (usize, Millis),
    script: Script,
    /// After how many more occurrences than it allows a schedule is paused at the latest.
    slack: u32,
    /// How far the database's clock is ahead of true time; and how far it was, each time with the instant.
    clock_error: Millis,
    clock_errors: Vec<(Millis, Millis)>,
    lost: Lost,
}

/// What commits brought about that a copy lacked which took over.
#[derive(Default)]
struct Lost {
    /// When copies took over.
    at: Vec<Millis>,
    /// The executions that were claimed, or went on, each with its fence.
    claims: BTreeSet<(i64, i64)>,
    /// The cancels of executions that their schedules' next occurrences replaced.
    cancels: Vec<Cancel>,
    /// Their clocks differed from the one before.
    has_other_clocks: bool,
}

/// What a situation adds to a scenario: what happens at fixed instants, whatever the dice say, and what is
/// different throughout.
struct Script {
    /// An outage that begins then lasts until the faults stop.
    outage_at: Millis,
    /// How many one-shots are made as that outage begins; if any, the server is down and refuses each call.
    made_last: usize,
    /// Nodes are cut off for a moment then, and somebody takes hold of this row.
    hold_at: (Millis, ScheduleId),
    /// When the application is switched off.
    off_at: Millis,
    /// The database's clock is set that far then, and set right after a while.
    step_at: (Millis, Millis),
    /// A node dies then, and is not started anew before the faults stop.
    death_at: Millis,
    /// All nodes but one die then, and polls end no more.
    mass_death_at: Millis,
    pace: Pace,
    /// Every node polls on whole multiples of the poll period.
    aligned: bool,
    /// Whether every node has two lanes, or none has; otherwise some have.
    laned: Option<bool>,
    /// How often every node glances at the database, or none if it is told of others' changes; otherwise some
    /// do, now and then.
    glance: Option<Option<Millis>>,
    /// When somebody enqueues the next execution.
    enqueue_at: Millis,
    /// The first node stops in order then.
    leave_at: Millis,
}

impl Script {
    const EMPTY: Self = Self {
        outage_at: Millis::MAX,
        made_last: 0,
        hold_at: (Millis::MAX, ScheduleId(0)),
        off_at: Millis::MAX,
        step_at: (Millis::MAX, 0),
        death_at: Millis::MAX,
        mass_death_at: Millis::MAX,
        pace: Pace { call: 0, row: 0 },
        aligned: false,
        laned: None,
        glance: None,
        enqueue_at: Millis::MAX,
        leave_at: Millis::MAX,
    };
}

impl Cluster {
    pub(super) fn new(scenario: &Scenario, database: Database, sabotages: &[Sabotage]) -> Self {
        let stream = |n| Dice::new(scenario.seed, n);
        let (now, ends) = (database.begin(), database.begin() + scenario.span);
        let slot = |n| NodeSlot { process: None, restart_at: now, dice: stream(100 + n) };
        let wires = Wires::new(stream(3), sabotages);
        let mut cluster = Self {
            wires: if database.keeps_virtual_time() { wires } else { wires.without_rates() },
            plans: Plans::new(stream(0), ends, scenario.faults),
            slots: (0..scenario.nodes as u64).map(slot).collect(),
            graves: Vec::new(),
            effects: Vec::new(),
            coverings: Vec::new(),
            alarms: Vec::new(),
            pauses: Vec::new(),
            switches: Switches::default(),
            deaths: Deaths::default(),
            names: stream(1),
            orders: stream(4),
            fate: stream(2),
            verbs: stream(7),
            faults: scenario.faults,
            now,
            ends,
            outage_until: now,
            held: Vec::new(),
            holders: stream(6),
            rumours: stream(8),
            members: stream(9),
            lost: Lost::default(),
            told: Vec::new(),
            stranded: (0, 0),
            script: Script::EMPTY,
            refused_until: now,
            kept: 0,
            slack: if scenario.faults == Faults::NONE { 1 } else { 20 },
            clock_error: 0,
            clock_errors: Vec::new(),
            database,
        };
        if let Database::Memory(store, _) = &cluster.database {
            sabotages.iter().for_each(|sabotage| sabotage.break_store(store));
        }
        if scenario.faults.lags > 0 {
            cluster.database.split(MEMBERS);
        } else if scenario.faults.losses > 0 {
            cluster.database.keep_commits();
        }
        for n in 0..scenario.schedules {
            cluster.plans.add(n, now, cluster.database.store());
        }
        if cluster.plans.expects() {
            cluster.plans.add_hourly_of_nobody(cluster.database.store());
        }
        if stream(5).happens(scenario.faults.crowds) {
            for n in scenario.schedules..scenario.schedules + CROWD {
                cluster.plans.add_once(n, now + 30_000, cluster.database.store());
            }
        }
        cluster
    }

    /// How many executions of dead nodes there were at once, and for how long after the deaths there were
    /// any.
    pub(super) fn stranded(&self) -> (usize, Millis) {
        self.stranded
    }

    /// Of each execution that was asked to end, and not handed back: how long it went on at least, or had
    /// until its time limit, and after how long its node heard of it.
    pub(super) fn asked_to_end(&self) -> Vec<(Millis, Option<Millis>)> {
        let all = ExecutionQuery { limit: usize::MAX, ..ExecutionQuery::default() };
        let rows = self.database.store().executions(&all).unwrap().into_iter();
        let rows = rows.filter(|row| !["cancelled", "given back"].contains(&row.reason.as_str()));
        // The limit tells the handler by itself; the row ends when that returns.
        let until = |row: &ExecutionRow| match row.state == ExecutionState::TimedOut.as_str() {
            true => row
                .started
                .zip(jobs::limit(&row.job))
                .map_or(Timestamp::at(self.now), |(started, limit)| started + limit),
            false => row.finished.unwrap_or(Timestamp::at(self.now)),
        };
        let asked = rows.filter_map(|row| Some((until(&row), row.cancel?)));
        asked.map(|(end, it)| (end - it.asked, it.seen.map(|seen| seen - it.asked))).collect()
    }

    /// When the faults stopped.
    pub(super) fn healed(&self) -> Millis {
        self.ends
    }

    /// How long each death went unnoticed, or has been by now.
    pub(super) fn unnoticed(&self) -> Vec<Unnoticed> {
        self.deaths.unnoticed()
    }

    /// Claims won, and claims lost.
    pub(super) fn claims(&self) -> (u64, u64) {
        self.wires.claims()
    }

    /// Faults that happened: to the cluster, and to single calls.
    pub(super) fn faults(&self) -> u64 {
        let shared = self.fate.struck + self.verbs.struck + self.orders.struck + self.holders.struck;
        let shared = shared + self.members.struck;
        shared + self.slots.iter().map(|slot| slot.dice.struck).sum::<u64>()
    }

    /// What is wrong beside what the history shows.
    pub(super) fn violations(&self) -> Vec<String> {
        let kept = (self.kept > KEPT).then(|| format!("a node keeps {} bytes of texts to store", self.kept));
        let left = self.wires.left_behind().into_iter();
        let overdue = self.switches.overdue().iter().cloned().chain(self.wires.misdrained());
        let flaws = verify::flaws(self.database.store(), APPLICATION).into_iter();
        kept.into_iter()
            .chain(overdue)
            .chain(flaws.map(|flaw| format!("the ledger is not whole: {flaw}")))
            .chain(left.map(|it| format!("its node left before its outcome: {it:?}")))
            .collect()
    }

    /// Schedules that paused themselves, and when.
    pub(super) fn contained(&self) -> &[(String, Millis)] {
        self.plans.contained()
    }

    /// What misfire handlers have told for operators, and when.
    pub(super) fn alarms(&self) -> &[(Millis, Event)] {
        &self.alarms
    }

    /// The verbs that the audit has, and of what, the oldest first.
    pub(super) fn audited(&self) -> Vec<(String, String)> {
        let application = jobs::APPLICATION.to_owned();
        let query = AuditQuery { application, limit: usize::MAX, ..AuditQuery::default() };
        let rows = self.database.store().audit(&query).unwrap().into_iter().rev();
        rows.map(|row| (row.verb, row.target)).collect()
    }

    pub(super) fn begins(&self) -> Millis {
        self.database.begin()
    }

    pub(super) fn effects(&self) -> &[Effect] {
        &self.effects
    }

    pub(super) fn run(&mut self) {
        let mut next_second = self.now;
        while self.now < self.ends + SETTLE && self.kept <= KEPT {
            self.database.set_clock(self.now, self.clock_error);
            self.wires.set_clock(self.now, self.clock_error);
            if self.now >= next_second {
                next_second += 1_000;
                self.misfortune();
            }
            let mut next = next_second;
            self.bury();
            self.enqueue();
            self.leave();
            self.tell();
            for n in 0..self.slots.len() {
                self.turn(n);
            }
            if self.wires.take_told() {
                self.tell_soon();
            }
            let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
            next = processes
                .map(Process::next_at)
                .chain(self.graves.iter().map(Process::sent_at))
                .chain(self.told.iter().map(|(at, _)| *at))
                .fold(next.min(self.script.enqueue_at).min(self.script.leave_at), Millis::min);
            self.now = next.max(self.now + 1);
        }
    }

    /// Once a second nodes are told of changes, late, twice or never, whether or not there were any.
    pub(super) fn spread_rumours(&mut self) {
        if self.script.glance.is_some() {
            return;
        }
        for n in 0..self.slots.len() {
            // Mostly none, else one or two.
            let tellings = (self.rumours.below(8) - 5).max(0);
            let told = (0..tellings).map(|_| (self.now + 1 + self.rumours.below(2_000), n));
            self.told.extend(told);
        }
    }

    /// An execution to be run at once, of which nodes are told soon if they do not glance.
    fn enqueue(&mut self) {
        if self.now < self.script.enqueue_at {
            return;
        }
        if self.now >= self.ends {
            self.script.enqueue_at = Millis::MAX;
            return;
        }
        self.script.enqueue_at = self.now + ENQUEUES;
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        self.plans.enqueue_at_once(&wire);
        self.tell_soon();
    }

    /// Nodes that do not glance are told soon.
    fn tell_soon(&mut self) {
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        if self.script.glance == Some(None) && !wire.is(Sabotage::DeafToNews) {
            self.told.extend((0..self.slots.len()).map(|n| (self.now + TOLD, n)));
        }
    }

    fn leave(&mut self) {
        if self.now >= self.script.leave_at {
            self.script.leave_at = Millis::MAX;
            self.slots[0].process.as_mut().unwrap().leave(self.now);
        }
    }

    fn tell(&mut self) {
        let now = self.now;
        for (_, n) in self.told.extract_if(.., |(at, _)| *at <= now) {
            if let Some(process) = &mut self.slots[n].process {
                // Of requests the polls tell.
                process.hear(now, News { request: false, ..News::ANY });
            }
        }
    }

    /// One process, at this instant.
    fn turn(&mut self, n: usize) {
        let slot = &mut self.slots[n];
        let Some(process) = &mut slot.process else { return };
        let wire = Wire::new(self.database.store(), &self.wires, process.ahead());
        let wire = wire.through(self.database.at(process.place));
        let away = match self.now < self.outage_until {
            true if self.script.made_last > 0 => Away::Down,
            false if self.now >= process.cut_until => Away::No,
            _ => Away::Silent,
        };
        process.run(&mut Surroundings {
            time: self.now,
            wire: &wire,
            dice: &mut slot.dice,
            faults: &self.faults,
            away,
            pace: self.script.pace,
            refuses: self.now < self.refused_until,
            effects: &mut self.effects,
            coverings: &mut self.coverings,
            alarms: &mut self.alarms,
            database: &self.database,
        });
        let is_killed = process.is_killed;
        self.deaths.saw(process.first_id, process.id, process.covered);
        self.kept = self.kept.max(process.kept());
        if process.has_left() {
            // Who could not say that it left may be declared dead.
            let is_on_record = |node: &NodeRow| node.id == process.id.to_string() && node.ended.is_none();
            if self.database.store().nodes(None).unwrap().iter().any(is_on_record) {
                self.deaths.doom(process.first_id, self.now, Millis::MAX);
            }
            slot.restart_at = self.now + self.orders.below(90_000);
            self.graves.extend(slot.process.take());
        } else if is_killed {
            self.kill(n);
        }
    }

    fn bury(&mut self) {
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        for grave in &mut self.graves {
            grave.perform_sent(self.now, &wire.through(self.database.at(grave.place)));
        }
        self.graves.retain(|grave| grave.sent_at() < Millis::MAX);
    }

    fn start(&mut self, n: usize) {
        let roll = u128::from(self.names.roll()) << 64 | u128::from(self.names.roll());
        // A node's place on the grid comes from its id.
        let roll = if self.script.aligned { roll - roll % 1_000_000 } else { roll };
        let laned = |has: bool| roll - roll % HAS_LANES + u128::from(!has);
        let roll = self.script.laned.map_or(roll, laned);
        let id = NodeId(uuid::Uuid::from_u128(roll));
        let skew = self.names.below(7_200_000) - 3_600_000;
        let place = any_member(&mut self.members);
        let wire = Wire::new(self.database.store(), &self.wires, skew).through(self.database.at(place));
        let stranger = self.names.strikes(self.faults.strangers);
        // Only where what is removed is remembered for the judge.
        let may_forget = self.faults.forgets > 0 && self.database.is_scratch();
        let retention = (may_forget && self.names.strikes(self.faults.forgets)).then_some(RETENTION);
        let glances = (self.rumours.below(GLANCES) == 0).then_some(GLANCE);
        let glance = self.script.glance.unwrap_or(glances);
        let mut process = Process::start(id, self.now, skew, &wire, stranger, retention, glance);
        process.place = place;
        self.slots[n].process = Some(process);
    }

    pub(super) fn completions(&self) -> Completions {
        self.wires.completions().clone()
    }

    /// What it left behind, for the judge.
    pub(super) fn history(mut self) -> History {
        let unnoticed = self.unnoticed().iter().map(|it| it.covered).collect();
        let store = self.database.store();
        let nodes = store.nodes(None).unwrap();
        let deaths = self.wires.deaths();
        let just = deaths.iter().filter(|death| self.deaths.is_just(death));
        let doomed = just.map(|(node, ..)| node.to_string()).collect();
        let (executions, changes) = self.database.ledger();
        let committed = self.wires.committed();
        let (checkpoints, resumes) = self.wires.checkpoints();
        let mut begun: BTreeMap<(i64, i64), &mut Effect> =
            self.effects.iter_mut().map(|it| ((it.execution, it.fence), it)).collect();
        for (execution, fence, at) in committed {
            begun.get_mut(&(execution, fence)).into_iter().for_each(|it| it.committed.push(at));
        }
        // Its node may have stored its outcome once more.
        let has_outcome = |row: &&Execution| matches!(row.state.as_str(), "SUCCEEDED" | "FAILED");
        let stored: BTreeSet<(i64, i64)> =
            executions.iter().filter(has_outcome).map(|row| (row.id, row.fence)).collect();
        let is_lost = |it: &Effect| {
            let claim = (it.execution, it.fence);
            self.lost.claims.contains(&claim) && !stored.contains(&claim)
        };
        let (lost, effects): (Vec<Effect>, Vec<Effect>) = self.effects.into_iter().partition(is_lost);
        let is_kept = |it: &Covering| !lost.iter().any(|lost: &Effect| lost.execution == it.execution);
        let coverings = self.coverings.into_iter().filter(is_kept).collect();
        let early = if self.lost.has_other_clocks { OTHER_CLOCK } else { 0 };
        let unserved = self.plans.expects().then(|| Unserved {
            job: jobs::NOBODYS.to_owned(),
            since: self.database.begin(),
            told: self.wires.nobodys(),
        });
        let unserved = unserved.into_iter().collect();
        let requests = self.plans.end_requests(&self.database);
        let mut plans = self.plans.outcome(store);
        if !self.database.keeps_virtual_time() {
            plans.iter_mut().for_each(|plan| {
                (plan.concurrency.rate, plan.group_concurrency.rate) = (None, None);
            });
        }
        History {
            plans,
            executions,
            effects,
            coverings,
            checkpoints,
            resumes,
            changes,
            pauses: self.pauses,
            orders: Some(self.plans.orders()),
            keyed: self.plans.keyed(),
            reruns: self.plans.reruns(),
            requests,
            syncs: self.plans.syncs(),
            cancels: self.plans.cancels().into_iter().chain(self.wires.replaced()).collect(),
            retries: self.plans.retries(),
            skips: self.plans.skips(),
            contained: self.plans.contained().to_vec(),
            expectations: self.wires.expectations(),
            told: told(&self.alarms),
            unserved,
            removals: self.plans.removals(),
            promotions: self.lost.at,
            lost,
            lost_cancels: self.lost.cancels,
            switches: self.switches.history(),
            live: nodes.iter().filter(|node| node.ended.is_none()).map(|node| node.id.clone()).collect(),
            dead: deaths.iter().map(|(node, ..)| node.to_string()).collect(),
            doomed,
            unnoticed,
            clock: self.clock_errors,
            counted: Some(counted(store)),
            kept: RETENTION,
            healed: self.ends,
            read: self.now,
            bounds: Bounds {
                contained: self.slack,
                early: Bounds::default().early + early,
                ..Bounds::default()
            },
            ..History::default()
        }
    }
}

/// How many outcomes are counted in each of the states that the judge asks for.
fn counted(store: &dyn Store) -> [i64; 4] {
    let counts = store
        .outcomes(&OutcomeQuery::all(APPLICATION))
        .unwrap()
        .pop()
        .map(|(_, counts)| counts)
        .unwrap_or_default();
    let place = |state: &str| OutcomeCounts::STATES.iter().position(|it| it.as_str() == state);
    COUNTED.map(|state| counts.sums[place(state).unwrap()])
}

/// What operators heard of expected occurrences: the schedule, the fire time, and whether it was met.
fn told(alarms: &[(Millis, Event)]) -> Vec<(String, Millis, bool)> {
    let told = |event: &Event| match event {
        Event::ExpectationUnmet { schedule, fire_time, .. } => {
            Some((schedule.to_string(), fire_time.timestamp_millis(), false))
        }
        Event::ExpectationMet { schedule, fire_time } => {
            Some((schedule.to_string(), fire_time.timestamp_millis(), true))
        }
        _ => None,
    };
    alarms.iter().filter_map(|(_, event)| told(event)).collect()
}
