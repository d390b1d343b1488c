//! Misfortunes that may strike a cluster once a second: its database, its nodes and its schedules.

use std::collections::BTreeSet;

use super::{CUT, Cluster, NodeSlot, OTHER_CLOCK, STEPPED};
use crate::domain::{ExecutionId, ExecutionState, Millis, NodeId, ScheduleId, Timestamp};
use crate::sim::faults::{Faults, MEMBERS, any_member};
use crate::sim::jobs::{self, APPLICATION};
use crate::sim::operations::row;
use crate::sim::process::Process;
use crate::sim::switches::ONE_POLL;
use crate::sim::wire::Wire;
use crate::store::ExecutionQuery;
use crate::store::switch::SwitchVerb;
use crate::time::Window;

/// A process that is stopped or cut off for longer may be declared dead.
const DOOM: Millis = 5_000;
/// Somebody holds a row for this long at most.
const HELD: Millis = 60_000;
/// After so long somebody resumes a schedule that has paused itself.
const CONTAINED: Millis = 20_000;
/// The most the database's clock is wrong by.
const CLOCK_ERROR: Millis = 900;
/// A member of the database that has fallen behind takes no commits for so long at most; others' take so long
/// to it at most.
const MOST_BEHIND: Millis = 4_000;
const PASSED_ON: Millis = 30;
/// Copies take over no sooner one after another: what the first held up has been caught up with.
const ONE_AFTER_ANOTHER: Millis = 60_000;

impl Cluster {
    /// A second of it. The order matters: each step takes the next throws of the dice.
    pub(super) fn misfortune(&mut self) {
        self.count_unnoticed();
        self.hold();
        self.script_deaths();
        self.strike_database();
        for n in 0..self.slots.len() {
            self.strike_or_start(n);
        }
        self.spread_rumours();
        self.set_clock_wrong();
        self.fall_behind();
        self.promote();
        self.change_schedules();
        // The rest is written behind the store's back.
        if self.database.is_scratch() {
            self.edit_schedules();
            self.switch();
        }
    }

    /// Counts how long deaths have gone unnoticed by those who could have noticed them.
    fn count_unnoticed(&mut self) {
        if !self.deaths.are_awaited() {
            return;
        }
        let nodes = self.database.store().nodes(None).unwrap().into_iter();
        let live: BTreeSet<String> = nodes.filter(|node| node.ended.is_none()).map(|node| node.id).collect();
        self.deaths.only_live(&live);
        if self.is_reachable() {
            let processes = self.slots.iter().filter_map(|slot| slot.process.as_ref());
            let able = processes.filter(|process| process.is_able(self.now));
            able.for_each(|process| self.deaths.observed(process.first_id, 1_000));
        }
    }

    /// Whether the database is there for all, and takes writes.
    fn is_reachable(&self) -> bool {
        self.outage_until.max(self.refused_until) <= self.now
    }

    /// Lets go of rows that were held for long enough, and takes hold of others.
    fn hold(&mut self) {
        let (now, is_over) = (self.now, self.now >= self.ends);
        let over: Vec<_> = self.held.extract_if(.., |(_, until)| *until <= now || is_over).collect();
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        wire.unlock(&over.into_iter().map(|(row, _)| row).collect::<Vec<_>>());
        let (at, row) = self.script.hold_at;
        let taken = if now == at {
            for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
                process.cut_until = now + CUT;
            }
            Some((row, now + HELD))
        } else if !is_over && self.holders.strikes(self.faults.holds) {
            self.row_to_hold().map(|row| (row, now + self.holders.below(HELD)))
        } else {
            None
        };
        if let Some((id, until)) = taken {
            let wire = Wire::new(self.database.store(), &self.wires, 0);
            self.held.extend(wire.lock(&[id]).into_iter().map(|id| (id, until)));
        }
    }

    /// A schedule's row, or that of an execution under way.
    fn row_to_hold(&mut self) -> Option<ScheduleId> {
        let store = self.database.store();
        let rows: Vec<ScheduleId> = if self.holders.one_in(2) {
            let query = ExecutionQuery {
                application: Some(APPLICATION.to_owned()),
                states: vec![ExecutionState::Claimed, ExecutionState::Running],
                limit: 1_000,
                ..ExecutionQuery::default()
            };
            store.executions(&query).unwrap().iter().map(|it| row(ExecutionId(it.id))).collect()
        } else {
            store.schedules(Some(APPLICATION)).unwrap().iter().map(|it| ScheduleId(it.id)).collect()
        };
        let chosen = (!rows.is_empty()).then(|| self.holders.below(rows.len() as Millis))?;
        Some(rows[usize::try_from(chosen).unwrap()])
    }

    fn script_deaths(&mut self) {
        if self.now == self.script.death_at {
            self.kill(1);
            self.slots[1].restart_at = Millis::MAX;
        }
        if self.now == self.script.mass_death_at {
            self.kill_all_but_one();
        } else if self.now > self.script.mass_death_at {
            self.count_stranded();
        }
    }

    fn kill_all_but_one(&mut self) {
        self.wires.stop_polls();
        for slot in &mut self.slots[1..] {
            if let Some(mut process) = slot.process.take() {
                self.deaths.doom(process.first_id, self.now, Millis::MAX);
                process.die(&mut self.fate);
                slot.restart_at = Millis::MAX;
                self.graves.push(process);
            }
        }
    }

    fn count_stranded(&mut self) {
        let page = self.database.store().stranded(APPLICATION, ExecutionId(0), usize::MAX).unwrap();
        let (most, _) = self.stranded;
        if !page.stranded.is_empty() {
            self.stranded = (most.max(page.stranded.len()), self.now + 1_000 - self.script.mass_death_at);
        }
    }

    /// Outages, and writes refused; at the end the database is well again.
    fn strike_database(&mut self) {
        if self.now >= self.ends {
            self.heal();
        } else if self.now >= self.script.outage_at {
            if self.outage_until < self.ends {
                (0..self.script.made_last)
                    .for_each(|n| self.plans.add_once(n, self.now + 1_000, self.database.store()));
            }
            self.outage_until = self.ends;
        } else if self.fate.strikes(self.faults.outages) {
            self.outage_until = self.now + self.fate.below(60_000);
        }
        if self.now < self.ends && self.orders.strikes(self.faults.refusals) {
            self.refused_until = self.now + 60_000 + self.orders.below(180_000);
            self.deaths.refuse(self.now, self.refused_until);
        }
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

    fn strike_or_start(&mut self, n: usize) {
        if self.slots[n].process.is_some() {
            self.strike(n);
            if self.orders.strikes(self.faults.leaves)
                && let Some(process) = &mut self.slots[n].process
            {
                process.leave(self.now);
            }
        } else if self.slots[n].restart_at <= self.now && self.is_reachable() {
            self.start(n);
        }
    }

    /// Kills, freezes, stops or cuts off a process.
    fn strike(&mut self, n: usize) {
        let Some(process) = &mut self.slots[n].process else { return };
        let (fate, faults) = (&mut self.fate, &self.faults);
        if fate.strikes(faults.kills) {
            return self.kill(n);
        }
        let mut doom = |process: &Process, until: Millis| {
            self.deaths.doom(process.first_id, self.now, until);
        };
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

    /// A process dies, and is started anew in a while.
    pub(super) fn kill(&mut self, n: usize) {
        let Some(mut process) = self.slots[n].process.take() else { return };
        self.deaths.doom(process.first_id, self.now, Millis::MAX);
        self.deaths.killed(process.id);
        process.die(&mut self.fate);
        self.slots[n].restart_at = self.now + self.fate.below(90_000);
        self.graves.push(process);
    }

    fn set_clock_wrong(&mut self) {
        let (at, step) = self.script.step_at;
        if self.now == at || self.now == at.saturating_add(STEPPED) {
            self.clock_error = if self.now == at { step } else { 0 };
        }
        if self.fate.strikes(self.faults.clocks) {
            self.clock_error = self.fate.below(2 * CLOCK_ERROR) - CLOCK_ERROR;
            self.clock_errors.push((self.now, self.clock_error));
        }
    }

    /// Members of the database fall behind, and nodes go to others.
    fn fall_behind(&mut self) {
        if self.faults.lags == 0 {
            (0..MEMBERS).for_each(|member| self.database.hold_back(member, 0, Some(self.now)));
            return;
        }
        for member in 0..MEMBERS {
            let delay = 1 + self.members.below(PASSED_ON);
            let is_held = self.members.strikes(self.faults.lags);
            let until = is_held.then(|| self.now + self.members.below(MOST_BEHIND));
            self.database.hold_back(member, delay, until);
        }
        for process in self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()) {
            if self.members.strikes(self.faults.moves) {
                process.place = any_member(&mut self.members);
            }
        }
    }

    /// Copies take over.
    fn promote(&mut self) {
        let last = self.lost.at.last().copied().unwrap_or(self.database.begin());
        let is_over = self.now >= self.ends - 2 * OTHER_CLOCK || self.now < last + ONE_AFTER_ANOTHER;
        if !is_over && self.members.strikes(self.faults.promotions) {
            self.outage_until = self.now + self.members.below(OTHER_CLOCK);
            self.clock_error = self.members.below(2 * OTHER_CLOCK) - OTHER_CLOCK;
            self.clock_errors.push((self.now, self.clock_error));
            self.lost.has_other_clocks = true;
            self.lost.at.push(self.now);
        }
        if !is_over && self.members.strikes(self.faults.losses) {
            self.outage_until = self.now + 1_000 + self.members.below(OTHER_CLOCK);
            let lost = self.database.lose_behind(self.now - 1 - self.members.below(MOST_BEHIND));
            self.lost.at.push(self.now);
            let changes = self.database.changes();
            self.coverings.retain(|it| it.changes <= changes);
            self.wires.forget_committed(&lost.claims.iter().copied().collect());
            self.lost.claims.extend(lost.claims);
            self.lost.cancels.extend(self.wires.forget_replaced(&lost.cancels));
        }
    }

    fn change_schedules(&mut self) {
        let place = any_member(&mut self.members);
        let wire = Wire::new(self.database.store(), &self.wires, 0).through(self.database.at(place));
        self.plans.note_contained(self.wires.take_contained());
        let rest = if self.now < self.ends { CONTAINED } else { 0 };
        self.pauses.extend(self.plans.resume_contained(self.now, rest, &wire));
        if self.fate.strikes(self.faults.pauses) {
            self.pauses.extend(self.plans.pause_or_resume(self.now, &wire));
        }
    }

    fn edit_schedules(&mut self) {
        let [ordering, cancelling, retrying] = [(); 3].map(|()| any_member(&mut self.members));
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        if self.fate.strikes(self.faults.edits) {
            self.pauses.extend(self.plans.edit(self.now, &wire));
        }
        if self.fate.strikes(self.faults.arrears) {
            self.pauses.extend(self.plans.edit_belatedly(self.now, &wire));
        }
        // Each client is connected to some member.
        if self.now < self.ends && self.verbs.strikes(self.faults.orders) {
            self.plans.order(self.now, &wire.through(self.database.at(ordering)));
        }
        if self.now < self.ends && self.faults.requests > 0 && self.verbs.strikes(self.faults.requests) {
            self.plans.write_request(&self.database);
        }
        if self.now < self.ends && self.faults.releases > 0 && self.verbs.strikes(self.faults.releases) {
            let releasing = any_member(&mut self.members);
            self.plans.start_release(&wire.through(self.database.at(releasing)));
        }
        if self.now < self.ends && self.faults.reruns > 0 && self.verbs.strikes(self.faults.reruns) {
            self.plans.rerun(self.now, self.database.changes(), &wire);
        }
        if self.verbs.strikes(self.faults.cancels) {
            self.plans.cancel(self.now, &wire.through(self.database.at(cancelling)));
        }
        if self.verbs.strikes(self.faults.skips) {
            self.pauses.extend(self.plans.skip(self.now, &wire));
        }
        if self.now < self.ends && self.verbs.strikes(self.faults.retries) {
            self.plans.retry(&wire.through(self.database.at(retrying)));
        }
        if self.verbs.strikes(self.faults.removes) {
            self.pauses.extend(self.plans.remove(self.now, &wire));
        }
        if self.fate.strikes(self.faults.hands) {
            self.plans.pause_by_hand(self.now, &wire, |id| self.database.write_paused(id));
        }
    }

    /// Somebody switches the application or a node off by hand, or on again what has been off for long
    /// enough.
    fn switch(&mut self) {
        let (now, is_over) = (self.now, self.now >= self.ends);
        self.tell_of_switches();
        let wire = Wire::new(self.database.store(), &self.wires, 0);
        self.switches.turn_on(
            now,
            (is_over, [Faults::LEVELLED, Faults::PAUSED].contains(&self.faults)),
            &self.database,
            &wire,
        );
        if !is_over && self.verbs.strikes(self.faults.levels) {
            self.order_switch();
        }
        if now == self.script.off_at {
            let known = now + ONE_POLL + Window::default().call;
            self.switches.turn_off(None, (now, known), std::iter::empty(), &self.database);
        }
        if is_over || !self.fate.strikes(self.faults.switches) {
            return;
        }
        let chosen = usize::try_from(self.fate.below(1 + self.slots.len() as Millis)).unwrap();
        let node = match self.slots.get(chosen).map(|slot| &slot.process) {
            Some(Some(process)) => Some(process.id),
            Some(None) => return,
            None => None,
        };
        if !self.switches.are_off(node, None) {
            let concerned = concerned(&self.slots, node);
            self.switches.turn_off(node, (now, self.known()), concerned, &self.database);
        }
    }

    /// Somebody pauses the application, a job or a node, now and then for a while, or drains a node.
    fn order_switch(&mut self) {
        let chosen = usize::try_from(self.verbs.below(2 + self.slots.len() as Millis)).unwrap();
        let jobs = jobs::all();
        let node = chosen.checked_sub(2).map(|n| self.slots[n].process.as_ref().map(|process| process.id));
        let job = (chosen == 1).then(|| &*jobs[usize::try_from(self.verbs.below(3)).unwrap()].name);
        if node == Some(None) || self.switches.are_off(node.flatten(), job) {
            return;
        }
        let until = self.verbs.one_in(2).then(|| self.now + 20_000 + self.verbs.below(120_000));
        let drains = node.is_some() && self.verbs.one_in(2);
        let verb =
            if drains { SwitchVerb::Drain } else { SwitchVerb::Pause { until: until.map(Timestamp::at) } };
        let (node, times) = (node.flatten(), (self.now, self.known()));
        let place = any_member(&mut self.members);
        let wire = Wire::new(self.database.store(), &self.wires, 0).through(self.database.at(place));
        self.switches.order((node, job), verb, times, concerned(&self.slots, node), &wire);
    }

    /// When whoever is switched off now must know.
    fn known(&self) -> Millis {
        let behind = if self.faults.lags > 0 { MOST_BEHIND + PASSED_ON } else { 0 };
        self.now + if self.is_quiet() { ONE_POLL + behind } else { 1_000 }
    }

    /// Nothing goes wrong but switches.
    fn is_quiet(&self) -> bool {
        [Faults::SWITCHED, Faults::LEVELLED, Faults::PAUSED].contains(&self.faults)
    }

    fn tell_of_switches(&mut self) {
        if self.is_quiet() {
            return;
        }
        let is_reachable = self.is_reachable();
        for process in self.slots.iter().filter_map(|slot| slot.process.as_ref()) {
            let is_able = is_reachable && process.is_able(self.now);
            self.switches.tell(self.now, process.first_id, is_able);
        }
    }
}

/// The processes that a switch concerns, by their first names.
fn concerned(slots: &[NodeSlot], node: Option<NodeId>) -> impl Iterator<Item = NodeId> {
    let processes = slots.iter().filter_map(|slot| slot.process.as_ref());
    processes.filter(move |process| node.is_none_or(|id| id == process.id)).map(|process| process.first_id)
}
