//! A cluster in virtual time: its database, its processes, its schedules, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};

use super::actor::{Away, Pace};
use super::database::Database;
use super::dice::Dice;
use super::faults::{Faults, RETENTION};
use super::jobs::APPLICATION;
use super::judge::{Effect, History, Pause, Switch};
use super::plans::Plans;
use super::process::{Process, Surroundings};
use super::sabotage::Sabotage;
use super::scenario::Scenario;
use super::wire::{Wire, Wires};
use crate::domain::{ExecutionId, Millis, NodeId, ScheduleId};
use crate::store::NodeRow;
use crate::time::Window;

/// After the last occurrence faults stop, and this long the cluster may settle what is left.
const SETTLE: Millis = 180_000;
/// Who is stopped or cut off for longer may be declared dead.
const DOOM: Millis = 5_000;
/// So long after it could beat again it may still be about to.
const AWAKE: Millis = 15_000;

/// The most bytes of texts that a node may keep for its retries: as many as its pool takes, each escaped
/// once.
const KEPT: usize = 2_000;
/// So many one-shots come due at once: the database would tell of them for longer than a call may take.
const CROWD: usize = 4_000;
/// What is switched off stays so for this long.
const OFF: Millis = 240_000;
/// A node learns with its next poll that it is switched off: if all goes well, within a poll interval and the
/// poll itself.
const ONE_POLL: Millis = 5_100;
/// Under fire, once it has been able to for so long, in all: it may be stopped or cut off again and again, and
/// a call in five fails.
const LEARNS_WITHIN: Millis = 60_000;

/// Somebody holds a schedule's row for this long at most.
const HELD: Millis = 60_000;
/// The node that claims it is cut off for this long: a claim of each second is under way then.
const CUT: Millis = 2_000;

/// The most the database's clock is wrong by.
const CLOCK_ERROR: Millis = 900;

/// Something was switched off by hand.
struct Off {
    from: Millis,
    switch: Switch,
    /// How long each node of then, by its first name, has been able to learn of it.
    able: BTreeMap<NodeId, Millis>,
}

/// A killed node that nobody has declared dead yet.
struct Kill {
    node: NodeId,
    /// For how long each of the others, by its first name, has been able to observe since.
    observed: BTreeMap<NodeId, Millis>,
    /// How much time each had covered before.
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

/// A place for a process: there is one, or there will be one again.
struct Slot {
    process: Option<Process>,
    restart_at: Millis,
    dice: Dice,
}

pub(super) struct Cluster {
    database: Database,
    wires: Wires,
    plans: Plans,
    slots: Vec<Slot>,
    /// Dead processes with calls that reach the database yet.
    graves: Vec<Process>,
    effects: Vec<Effect>,
    pauses: Vec<Pause>,
    /// When the application, or a node, was switched off and on again; what is off now has no end yet.
    switches: Vec<Off>,
    /// Who could not beat, by its first name, from when to when.
    doomed: Vec<(NodeId, Millis, Millis)>,
    kills: Vec<Kill>,
    /// How long that took for those declared dead since.
    noticed: Vec<Unnoticed>,
    /// How much time the heartbeats of each process have covered, by its first name.
    covered: BTreeMap<NodeId, Millis>,
    /// The names processes have had, each with the first name of its process.
    borne: BTreeMap<NodeId, NodeId>,
    names: Dice,
    orders: Dice,
    fate: Dice,
    faults: Faults,
    now: Millis,
    ends: Millis,
    outage_until: Millis,
    refused_until: Millis,
    /// The most bytes of texts that a process kept.
    kept: usize,
    /// An outage that begins then lasts until the faults stop.
    outage_at: Millis,
    /// So many one-shots are made as it begins; the server is down then.
    made_last: usize,
    /// Nodes are cut off for a moment then, and somebody takes hold of this row.
    hold_at: (Millis, ScheduleId),
    /// When the application is switched off.
    off_at: Millis,
    /// The rows that somebody holds, and until when.
    held: Vec<(ScheduleId, Millis)>,
    holders: Dice,
    /// All nodes but one die then, and polls end no more.
    mass_death_at: Millis,
    stranded: (usize, Millis),
    pace: Pace,
    /// The database's clock against true time, and since when it was how far ahead.
    clock_error: Millis,
    clock_errors: Vec<(Millis, Millis)>,
    /// Every node polls on whole multiples of the poll period.
    aligned: bool,
}

/// One-shots that come due together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Neighbours {
    /// Of a job that no node runs.
    pub nobodys: usize,
    /// With large payloads.
    pub large: usize,
    /// How long decoding each of these takes.
    pub slow: &'static [Millis],
    /// With handlers that take long, more than there are threads.
    pub long: usize,
    /// Somebody holds an old snapshot open.
    pub snapshot: bool,
}

impl Cluster {
    pub(super) fn new(scenario: &Scenario, database: Database, sabotages: &[Sabotage]) -> Self {
        let stream = |n| Dice::new(scenario.seed, n);
        let (now, ends) = (database.begin(), database.begin() + scenario.span);
        let slot = |n| Slot { process: None, restart_at: now, dice: stream(100 + n) };
        let mut cluster = Self {
            wires: Wires::new(stream(3), sabotages),
            plans: Plans::new(stream(0), ends, scenario.faults.forgets == 0),
            slots: (0..scenario.nodes as u64).map(slot).collect(),
            graves: Vec::new(),
            effects: Vec::new(),
            pauses: Vec::new(),
            switches: Vec::new(),
            doomed: Vec::new(),
            kills: Vec::new(),
            noticed: Vec::new(),
            covered: BTreeMap::new(),
            borne: BTreeMap::new(),
            names: stream(1),
            orders: stream(4),
            fate: stream(2),
            faults: scenario.faults,
            now,
            ends,
            outage_until: now,
            outage_at: Millis::MAX,
            made_last: 0,
            hold_at: (Millis::MAX, ScheduleId(0)),
            off_at: Millis::MAX,
            held: Vec::new(),
            holders: stream(6),
            mass_death_at: Millis::MAX,
            stranded: (0, 0),
            pace: Pace::default(),
            refused_until: now,
            kept: 0,
            clock_error: 0,
            clock_errors: Vec::new(),
            aligned: false,
            database,
        };
        for n in 0..scenario.schedules {
            cluster.plans.add(n, now, cluster.database.store());
        }
        if stream(5).happens(scenario.faults.crowds) {
            for n in scenario.schedules..scenario.schedules + CROWD {
                cluster.plans.add_once(n, now + 30_000, cluster.database.store());
            }
        }
        cluster
    }

    /// `rows` schedules that fire on every whole second for `seconds`, and polls whose edges lie on them too.
    pub(super) fn on_every_second(nodes: usize, rows: usize, seconds: Millis) -> Self {
        let span = 10_000 + 1_000 * (seconds - 1);
        let scenario = Scenario { seed: 0, nodes, schedules: 0, span, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), &[]);
        cluster.aligned = true;
        for n in 0..rows {
            cluster.plans.add_every_second(n, cluster.now + 10_000, cluster.database.store());
        }
        cluster
    }

    /// `rows` schedules that come due together while the database is away for longer than any misfire
    /// threshold. What it is asked costs it time: each call, and each row.
    pub(super) fn after_an_outage(nodes: usize, rows: usize, sabotages: &[Sabotage]) -> Self {
        let scenario = Scenario { seed: 0, nodes, schedules: 0, span: 120_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        cluster.outage_at = cluster.now + 20_000;
        cluster.pace = Pace { call: 20, row: 1 };
        for n in 0..rows {
            cluster.plans.add_once(n, cluster.now + 30_000, cluster.database.store());
        }
        cluster
    }

    /// `rows` schedules made as the server goes down, due within the last poll's window: no node has seen them.
    pub(super) fn before_an_outage(nodes: usize, rows: usize, sabotages: &[Sabotage]) -> Self {
        let mut cluster = Self::after_an_outage(nodes, 0, sabotages);
        cluster.made_last = rows;
        cluster
    }

    /// `nodes` that all but one die at once, with all they run. From then on no poll ends, and calls cost
    /// time.
    pub(super) fn after_a_mass_death(nodes: usize) -> Self {
        let scenario = Scenario {
            seed: 0,
            nodes,
            schedules: 60,
            span: 120_000,
            faults: Faults { long_jobs: 1_000_000, ..Faults::NONE },
        };
        let mut cluster = Self::new(&scenario, Database::memory(), &[]);
        cluster.mass_death_at = cluster.now + 40_000;
        cluster.pace = Pace { call: 20, row: 1 };
        cluster
    }

    fn kill_all_but_one(&mut self) {
        self.wires.stop_polls();
        for slot in &mut self.slots[1..] {
            if let Some(mut process) = slot.process.take() {
                self.doomed.push((process.first_id, self.now, Millis::MAX));
                process.die(&mut self.fate);
                slot.restart_at = Millis::MAX;
                self.graves.push(process);
            }
        }
    }

    /// How many executions of dead nodes there were at once, and for how long after the deaths there were
    /// any.
    pub(super) fn stranded(&self) -> (usize, Millis) {
        self.stranded
    }

    fn count_stranded(&mut self) {
        let page = self.database.store().stranded(APPLICATION, ExecutionId(0), usize::MAX).unwrap();
        let (most, _) = self.stranded;
        if !page.stranded.is_empty() {
            self.stranded = (most.max(page.stranded.len()), self.now + 1_000 - self.mass_death_at);
        }
    }

    /// When the faults stopped.
    pub(super) fn healed(&self) -> Millis {
        self.ends
    }

    /// A schedule that fires every second, beside neighbours that are all overdue or due at once.
    pub(super) fn beside_neighbours(neighbours: Neighbours, sabotages: &[Sabotage]) -> Self {
        let Neighbours { nobodys, large, slow, long, snapshot } = neighbours;
        let scenario = Scenario { seed: 0, nodes: 2, schedules: 0, span: 60_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        let (now, store) = (cluster.now, cluster.database.store());
        cluster.plans.add_every_second(0, now + 10_000, store);
        cluster.plans.keep_punctual(Window::default().poll);
        cluster.plans.add_nobodys(nobodys, now + 20_000, store);
        (1..=large).for_each(|n| cluster.plans.add_large(n, now + 20_000, 200_000, store));
        for (n, takes) in (1..).zip(slow) {
            cluster.plans.add_slow(n, now + 20_000, *takes, store);
        }
        (1..=long).for_each(|n| cluster.plans.add_long(n, now + 20_000, store));
        if snapshot {
            cluster.wires.keep_a_snapshot();
        }
        cluster
    }

    /// Two schedules that fire every second, claimed together by one node. It is cut off while it claims, and
    /// somebody holds the row of the second for long. If it is to be switched off, the application is as soon
    /// as the node is back.
    pub(super) fn beside_a_held_row(seed: u64, is_switched_off: bool, sabotages: &[Sabotage]) -> Self {
        let scenario = Scenario { seed, nodes: 1, schedules: 0, span: 120_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        let (now, store, window) = (cluster.now, cluster.database.store(), Window::default());
        cluster.plans.add_every_second(0, now + 10_000, store);
        if is_switched_off {
            cluster.off_at = now + 20_000 + CUT + 1_000;
        } else {
            cluster.plans.keep_punctual(window.poll + window.call);
        }
        cluster.plans.add_every_second(1, now + 10_000, store);
        cluster.hold_at = (now + 20_000, store.find(APPLICATION, "schedule-3").unwrap().unwrap().id);
        cluster
    }

    /// Lets go of rows that were held for long enough, and takes hold of others.
    fn hold(&mut self) {
        let (now, is_over) = (self.now, self.now >= self.ends);
        let over: Vec<_> = self.held.extract_if(.., |(_, until)| *until <= now || is_over).collect();
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        wire.unlock(&over.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
        let (at, row) = self.hold_at;
        let taken = if now == at {
            for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
                process.cut_until = now + CUT;
            }
            Some((row, now + HELD))
        } else if !is_over && self.holders.strikes(self.faults.holds) {
            let rows = self.database.store().schedules(Some(APPLICATION)).unwrap();
            let chosen = usize::try_from(self.holders.below(rows.len() as Millis)).unwrap();
            Some((ScheduleId(rows[chosen].id), now + self.holders.below(HELD)))
        } else {
            None
        };
        if let Some((id, until)) = taken {
            self.held.extend(wire.lock(&[id]).into_iter().map(|id| (id, until)));
        }
    }

    /// How long each death went unnoticed, or has been by now.
    pub(super) fn unnoticed(&self) -> Vec<Unnoticed> {
        let yet = self.kills.iter().map(|kill| kill.unnoticed(&self.covered));
        self.noticed.iter().copied().chain(yet).collect()
    }

    /// Claims won, and claims lost.
    pub(super) fn claims(&self) -> (u64, u64) {
        self.wires.claims()
    }

    /// Faults that happened: to the cluster, and to single calls.
    pub(super) fn faults(&self) -> u64 {
        let shared = self.fate.struck + self.orders.struck + self.holders.struck;
        shared + self.slots.iter().map(|slot| slot.dice.struck).sum::<u64>()
    }

    /// What is wrong beside what the history shows.
    pub(super) fn violations(&self) -> Vec<String> {
        let kept = (self.kept > KEPT).then(|| format!("a node keeps {} bytes of texts to store", self.kept));
        let left = self.wires.left_behind().into_iter();
        kept.into_iter().chain(left.map(|it| format!("its node left before its outcome: {it:?}"))).collect()
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
            for n in 0..self.slots.len() {
                self.turn(n);
            }
            let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
            next = processes
                .map(Process::next_at)
                .chain(self.graves.iter().map(Process::sent_at))
                .fold(next, Millis::min);
            self.now = next.max(self.now + 1);
        }
    }

    /// One process, at this instant.
    fn turn(&mut self, n: usize) {
        let slot = &mut self.slots[n];
        let Some(process) = &mut slot.process else { return };
        let wire = Wire::new(self.database.store(), &self.wires, process.ahead());
        let away = match self.now < self.outage_until {
            true if self.made_last > 0 => Away::Down,
            false if self.now >= process.cut_until => Away::No,
            _ => Away::Silent,
        };
        process.run(&mut Surroundings {
            time: self.now,
            wire: &wire,
            dice: &mut slot.dice,
            faults: &self.faults,
            away,
            pace: self.pace,
            refuses: self.now < self.refused_until,
            effects: &mut self.effects,
        });
        self.borne.insert(process.id, process.first_id);
        self.covered.insert(process.first_id, process.covered);
        self.kept = self.kept.max(process.kept());
        if process.has_left() {
            // Who could not say that it left may be declared dead.
            let is_on_record = |node: &NodeRow| node.id == process.id.to_string() && node.ended.is_none();
            if self.database.store().nodes(None).unwrap().iter().any(is_on_record) {
                self.doomed.push((process.first_id, self.now, Millis::MAX));
            }
            slot.restart_at = self.now + self.orders.below(90_000);
            self.graves.extend(slot.process.take());
        }
    }

    fn bury(&mut self) {
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        for grave in &mut self.graves {
            grave.perform_sent(self.now, &wire);
        }
        self.graves.retain(|grave| grave.sent_at() < Millis::MAX);
    }

    /// Counts how long deaths have gone unnoticed by those who could have noticed them.
    fn count_unnoticed(&mut self) {
        if self.kills.is_empty() {
            return;
        }
        // One may have been killed just as it had left.
        let nodes = self.database.store().nodes(None).unwrap().into_iter();
        let live: BTreeSet<String> = nodes.filter(|node| node.ended.is_none()).map(|node| node.id).collect();
        let is_over = |kill: &mut Kill| !live.contains(&kill.node.to_string());
        self.noticed.extend(self.kills.extract_if(.., is_over).map(|kill| kill.unnoticed(&self.covered)));
        if self.now < self.outage_until.max(self.refused_until) {
            return;
        }
        let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        for process in processes.filter(|process| process.is_able(self.now)) {
            for kill in &mut self.kills {
                *kill.observed.entry(process.first_id).or_default() += 1_000;
            }
        }
    }

    /// Once a second: what may happen to the database, the nodes and the schedules.
    fn misfortune(&mut self) {
        self.count_unnoticed();
        self.hold();
        if self.now == self.mass_death_at {
            self.kill_all_but_one();
        } else if self.now > self.mass_death_at {
            self.count_stranded();
        }
        if self.now >= self.ends {
            self.heal();
        } else if self.now >= self.outage_at {
            if self.outage_until < self.ends {
                (0..self.made_last)
                    .for_each(|n| self.plans.add_once(n, self.now + 1_000, self.database.store()));
            }
            self.outage_until = self.ends;
        } else if self.fate.strikes(self.faults.outages) {
            self.outage_until = self.now + self.fate.below(60_000);
        }
        if self.now < self.ends && self.orders.strikes(self.faults.refusals) {
            self.refused_until = self.now + 60_000 + self.orders.below(180_000);
        }
        for n in 0..self.slots.len() {
            if self.slots[n].process.is_some() {
                self.strike(n);
                if self.orders.strikes(self.faults.leaves)
                    && let Some(process) = &mut self.slots[n].process
                {
                    process.leave(self.now);
                }
            } else if self.slots[n].restart_at <= self.now
                && self.outage_until.max(self.refused_until) <= self.now
            {
                self.start(n);
            }
        }
        if self.fate.strikes(self.faults.clocks) {
            self.clock_error = self.fate.below(2 * CLOCK_ERROR) - CLOCK_ERROR;
            self.clock_errors.push((self.now, self.clock_error));
        }
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        if self.fate.strikes(self.faults.pauses) {
            self.pauses.extend(self.plans.pause_or_resume(self.now, &wire));
        }
        if !self.database.is_scratch() {
            return;
        }
        if self.fate.strikes(self.faults.edits) {
            self.pauses.extend(self.plans.edit(self.now, &wire));
        }
        if self.fate.strikes(self.faults.arrears) {
            self.pauses.extend(self.plans.edit_belatedly(self.now, &wire));
        }
        if self.fate.strikes(self.faults.hands) {
            self.plans.pause_by_hand(self.now, &wire, |id| self.database.write_paused(id));
        }
        self.switch();
    }

    /// Somebody switches the application or a node off by hand, or on again what has been off for long
    /// enough.
    fn switch(&mut self) {
        let now = self.now;
        self.tell_of_switches();
        for Off { from, switch, .. } in self.switches.iter_mut().filter(|off| off.switch.until == Millis::MAX)
        {
            if now >= *from + OFF || now >= self.ends {
                switch.until = now;
                let node = switch.node.as_deref().map(|id| id.parse().unwrap());
                self.database.switch(APPLICATION, node, true);
            }
        }
        if now == self.off_at {
            self.database.switch(APPLICATION, None, false);
            let known = now + ONE_POLL + Window::default().call;
            let switch = Switch { node: None, known, until: Millis::MAX };
            self.switches.push(Off { from: now, switch, able: BTreeMap::new() });
        }
        if now >= self.ends || !self.fate.strikes(self.faults.switches) {
            return;
        }
        let chosen = usize::try_from(self.fate.below(1 + self.slots.len() as Millis)).unwrap();
        let node = match self.slots.get(chosen).map(|slot| &slot.process) {
            Some(Some(process)) => Some(process.id),
            Some(None) => return,
            None => None,
        };
        let name = node.map(|id| id.to_string());
        if self.switches.iter().all(|off| off.switch.until < Millis::MAX || off.switch.node != name) {
            self.database.switch(APPLICATION, node, false);
            let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
            let concerned = processes.filter(|process| node.is_none_or(|id| id == process.id));
            let able = concerned.map(|process| (process.first_id, 0)).collect();
            let known = now + if self.faults == Faults::SWITCHED { ONE_POLL } else { 1_000 };
            let switch = Switch { node: name, known, until: Millis::MAX };
            self.switches.push(Off { from: now, switch, able });
        }
    }

    /// Once a second: as long as a node has not been able to learn of a switch, it may not know of it.
    fn tell_of_switches(&mut self) {
        if self.faults == Faults::SWITCHED {
            return;
        }
        let reachable = self.outage_until.max(self.refused_until) <= self.now;
        let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
        for process in processes {
            let able = reachable && process.is_able(self.now);
            for off in self.switches.iter_mut().filter(|off| off.switch.until == Millis::MAX) {
                let Some(so_far) = off.able.get_mut(&process.first_id) else { continue };
                *so_far += if able { 1_000 } else { 0 };
                if *so_far < LEARNS_WITHIN {
                    off.switch.known = self.now + 1_000;
                }
            }
        }
    }

    fn strike(&mut self, n: usize) {
        let Some(process) = &mut self.slots[n].process else { return };
        let (fate, faults) = (&mut self.fate, &self.faults);
        let mut doom = |process: &Process, until: Millis| {
            self.doomed.push((process.first_id, self.now, until));
        };
        if fate.strikes(faults.kills) {
            doom(process, Millis::MAX);
            let (observed, before) = (BTreeMap::new(), self.covered.clone());
            self.kills.push(Kill { node: process.id, observed, before });
            process.die(fate);
            self.slots[n].restart_at = self.now + self.fate.below(90_000);
            self.graves.extend(self.slots[n].process.take());
            return;
        }
        let freezes = fate.strikes(faults.freezes);
        if freezes || fate.strikes(faults.stops) {
            let span = fate.below(90_000);
            let machine = fate.one_in(4);
            let all = self.slots.iter_mut().enumerate().filter(|(other, _)| machine || *other == n);
            for process in all.filter_map(|(_, slot)| slot.process.as_mut()) {
                process.stopped_until = process.stopped_until.max(self.now + span);
                if freezes {
                    process.frozen_since.get_or_insert(self.now);
                }
                if process.stopped_until > self.now + DOOM {
                    doom(process, process.stopped_until);
                }
            }
        } else if fate.strikes(faults.cuts) {
            process.cut_until = self.now + fate.below(60_000);
            if process.cut_until > self.now + DOOM {
                doom(process, process.cut_until);
            }
        }
    }

    fn start(&mut self, n: usize) {
        let roll = u128::from(self.names.roll()) << 64 | u128::from(self.names.roll());
        // A node's place on the grid comes from its id.
        let roll = if self.aligned { roll - roll % 1_000_000 } else { roll };
        let id = NodeId(uuid::Uuid::from_u128(roll));
        let skew = self.names.below(7_200_000) - 3_600_000;
        let wire = Wire::new(self.database.store(), &self.wires, skew);
        let stranger = self.names.strikes(self.faults.strangers);
        // Only where what is removed is remembered for the judge.
        let may_forget = self.faults.forgets > 0 && self.database.is_scratch();
        let retention = (may_forget && self.names.strikes(self.faults.forgets)).then_some(RETENTION);
        let process = Process::start(id, self.now, skew, &wire, stranger, retention);
        self.slots[n].process = Some(process);
    }

    /// Faults have ended: everybody is up again, nothing is paused.
    fn heal(&mut self) {
        self.faults = Faults::NONE;
        self.outage_until = self.now;
        self.refused_until = self.now;
        for slot in &mut self.slots {
            slot.restart_at = self.now;
            if let Some(process) = &mut slot.process {
                process.stopped_until = self.now;
                process.cut_until = self.now;
            }
        }
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        self.pauses.extend(self.plans.resume_all(self.now, &wire));
    }

    /// A death is just if the node had not beaten for `d` because it could not; or if it never was anybody's
    /// name: a registration whose answer was lost. A process may be stopped before it hears that its new name
    /// is registered.
    fn is_just(&self, &(node, at, still): &(NodeId, Millis, Millis)) -> bool {
        let Some(first) = self.borne.get(&node) else { return true };
        let could_not = |(doomed, from, until): &(NodeId, Millis, Millis)| {
            doomed == first && *from < at && at < until.saturating_add(AWAKE)
        };
        still >= Window::default().death && self.doomed.iter().any(could_not)
    }

    /// What it left behind, for the judge.
    pub(super) fn history(self) -> History {
        let unnoticed = self.unnoticed().iter().map(|it| it.covered).collect();
        let store = self.database.store();
        let nodes = store.nodes(None).unwrap();
        let deaths = self.wires.deaths();
        let just = deaths.iter().filter(|death| self.is_just(death));
        let doomed = just.map(|(node, ..)| node.to_string()).collect();
        let (executions, changes) = self.database.ledger();
        History {
            plans: self.plans.outcome(store),
            executions,
            effects: self.effects,
            changes,
            pauses: self.pauses,
            switches: self.switches.into_iter().map(|off| off.switch).collect(),
            live: nodes.iter().filter(|node| node.ended.is_none()).map(|node| node.id.clone()).collect(),
            dead: deaths.iter().map(|(node, ..)| node.to_string()).collect(),
            doomed,
            unnoticed,
            clock: self.clock_errors,
            kept: RETENTION,
            healed: self.ends,
            read: self.now,
            ..History::default()
        }
    }
}
