//! Clusters in a situation of their own, for one test each: what is planned, and what happens when.

use super::{CUT, Cluster, STEPPED};
use crate::domain::{Millis, MisfirePolicy, Overlap, Timestamp};
use crate::sim::actor::Pace;
use crate::sim::database::Database;
use crate::sim::faults::Faults;
use crate::sim::jobs::{self, APPLICATION};
use crate::sim::judge::Effect;
use crate::sim::sabotage::Sabotage;
use crate::sim::scenario::Scenario;
use crate::sim::wire::Wire;
use crate::store::Definition;
use crate::store::enqueue::DueAt;
use crate::time::{Window, span};
use crate::trigger::Trigger;

/// How late something may begin beside another lane without a seat.
const BESIDE_A_FULL_LANE: Millis = 200;

/// One-shots that come due together.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sim) struct Neighbours {
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
    /// `rows` schedules that fire on every whole second for `seconds`, and polls whose edges lie on them too.
    pub(in crate::sim) fn on_every_second(nodes: usize, rows: usize, seconds: Millis) -> Self {
        let span = 10_000 + 1_000 * (seconds - 1);
        let scenario = Scenario { seed: 0, nodes, schedules: 0, span, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), &[]);
        cluster.script.aligned = true;
        for n in 0..rows {
            cluster.plans.add_every_second(n, cluster.now + 10_000, cluster.database.store());
        }
        cluster
    }

    /// A schedule of a job that no node runs, and nodes of which each dies now and then.
    pub(in crate::sim) fn beside_a_job_of_nobody(seed: u64, span: Millis) -> Self {
        let faults = Faults { kills: 200, ..Faults::NONE };
        let scenario = Scenario { seed, nodes: 3, schedules: 0, span, faults };
        let cluster = Self::new(&scenario, Database::memory(), &[]);
        cluster.plans.add_hourly_of_nobody(cluster.database.store());
        cluster
    }

    /// A schedule whose handler takes longer than it is expected to, and nodes of which each dies now and
    /// then. The fire times, and until when each occurrence is to have succeeded.
    pub(in crate::sim) fn of_an_expectation(seed: u64, kills: Millis) -> (Self, Vec<(Millis, Millis)>) {
        const EVERY: Millis = 300_000;
        let faults = Faults { kills, ..Faults::NONE };
        let scenario = Scenario { seed, nodes: 3, schedules: 0, span: 10 * EVERY, faults };
        let cluster = Self::new(&scenario, Database::memory(), &[]);
        let (start, ends) = (cluster.now + 60_000, cluster.ends - EVERY / 2);
        let trigger = Trigger::every(span(EVERY)).unwrap().anchored_ms(start).unwrap();
        let definition = Definition {
            application: APPLICATION.to_owned(),
            job: jobs::all()[0].clone(),
            payload: jobs::exactly(60_000),
            end: Some(Timestamp::at(ends)),
            misfire: MisfirePolicy::FireAll,
            expected_by: Some(25_000),
            ..Definition::new("slow", "", trigger)
        };
        cluster.database.store().ensure(&definition).unwrap();
        let times = (start..=ends).step_by(usize::try_from(EVERY).unwrap_or(1));
        (cluster, times.map(|at| (at, at + 25_000)).collect())
    }

    /// `rows` schedules that come due together while the database is away for longer than any misfire
    /// threshold. What it is asked costs it time: each call, and each row.
    pub(in crate::sim) fn after_an_outage(nodes: usize, rows: usize, sabotages: &[Sabotage]) -> Self {
        let scenario = Scenario { seed: 0, nodes, schedules: 0, span: 120_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        cluster.script.outage_at = cluster.now + 20_000;
        cluster.script.pace = Pace { call: 20, row: 1 };
        for n in 0..rows {
            cluster.plans.add_once(n, cluster.now + 30_000, cluster.database.store());
        }
        cluster
    }

    /// Nodes with nothing to do, which glance at the database so often, or are told of nothing.
    #[cfg(feature = "sqlite")]
    pub(in crate::sim) fn idle(nodes: usize, span: Millis, glance: Option<Millis>) -> Self {
        let scenario = Scenario { seed: 1, nodes, schedules: 0, span, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::sqlite(), &[]);
        cluster.script.glance = Some(glance);
        cluster
    }

    /// Executions enqueued one by one, and nodes that glance at the database so often, or are told of them.
    pub(in crate::sim) fn enqueued_one_by_one(glance: Option<Millis>, sabotages: &[Sabotage]) -> Self {
        let scenario = Scenario { seed: 0, nodes: 2, schedules: 0, span: 120_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        (cluster.script.glance, cluster.script.enqueue_at) = (Some(glance), cluster.now + 20_000);
        cluster
    }

    /// Schedules that fire every second, and a node that stops in order at this instant, just before a fire
    /// time: it has claimed some occurrences. Nodes glance at the database so often, or are told of that.
    pub(in crate::sim) fn beside_a_stop(glance: Option<Millis>, sabotages: &[Sabotage]) -> (Self, Millis) {
        let scenario = Scenario { seed: 0, nodes: 2, schedules: 0, span: 60_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        let start = cluster.now + 10_000;
        (cluster.script.glance, cluster.script.leave_at) = (Some(glance), start + 10_990);
        for n in 0..6 {
            cluster.plans.add_steady(n, (start, 1), 10, Overlap::Skip, cluster.database.store());
        }
        let leaves_at = cluster.script.leave_at;
        (cluster, leaves_at)
    }

    /// The same as [`Cluster::enqueued_one_by_one`], behind a group with a backlog that takes all the time;
    /// nodes are told.
    pub(in crate::sim) fn behind_anothers_backlog(sabotages: &[Sabotage]) -> Self {
        const MANY: usize = 12_000;
        let mut cluster = Self::enqueued_one_by_one(None, sabotages);
        let wire = Wire::new(cluster.database.store(), &cluster.wires, 0);
        let due = DueAt::After(0);
        cluster.plans.enqueue_of_group((0, "many", MANY), "\"many\"".to_owned(), due, &wire);
        cluster
    }

    /// Executions that come due together, one more than may run at once: two of a group, or four of a job.
    pub(in crate::sim) fn one_too_many(of_groups: bool, sabotages: &[Sabotage]) -> Self {
        let scenario = Scenario { seed: 0, nodes: 2, schedules: 0, span: 120_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        // News would cause more polls, and each poll tries the held executions again.
        cluster.script.glance = Some(None);
        let wire = Wire::new(cluster.database.store(), &cluster.wires, 0);
        for n in 0..60 {
            let due = DueAt::Instant(Timestamp::at(cluster.now + 20_000 + 1_731 * n));
            let (group, count) = if of_groups { (format!("pair {n}"), 2) } else { (String::new(), 4) };
            cluster.plans.enqueue_of_group((2, &group, count), jobs::exactly(300), due, &wire);
        }
        cluster
    }

    /// A job of 90 s each minute, and an outage of ten minutes.
    pub(in crate::sim) fn long_runs_in_an_outage(rule: Overlap) -> Self {
        let scenario = Scenario { seed: 0, nodes: 3, schedules: 0, span: 900_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), &[]);
        cluster.script.outage_at = cluster.now + 300_000;
        let start = cluster.now + 10_000;
        cluster.plans.add_steady(0, (start, 60), 90_000, rule, cluster.database.store());
        cluster
    }

    /// Schedules that fire every second, and a node that dies half a second after a fire time, while it runs
    /// nothing.
    pub(in crate::sim) fn after_a_death(seed: u64, rule: Overlap) -> Self {
        let scenario = Scenario { seed, nodes: 3, schedules: 0, span: 60_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), &[]);
        cluster.script.death_at = cluster.now + 20_000;
        let start = cluster.now + 10_500;
        for n in 0..16 {
            cluster.plans.add_steady(n, (start, 1), 10, rule, cluster.database.store());
        }
        cluster
    }

    /// `rows` schedules made as the server goes down, due within the last poll's window: no node has seen
    /// them.
    pub(in crate::sim) fn before_an_outage(nodes: usize, rows: usize, sabotages: &[Sabotage]) -> Self {
        let mut cluster = Self::after_an_outage(nodes, 0, sabotages);
        cluster.script.made_last = rows;
        // News would bring them, too.
        cluster.script.glance = Some(None);
        cluster
    }

    /// `nodes` that all but one die at once, with all they run. From then on no poll ends, and calls cost
    /// time.
    pub(in crate::sim) fn after_a_mass_death(nodes: usize) -> Self {
        let scenario = Scenario {
            seed: 0,
            nodes,
            schedules: 60,
            span: 120_000,
            faults: Faults { long_jobs: 1_000_000, ..Faults::NONE },
        };
        let mut cluster = Self::new(&scenario, Database::memory(), &[]);
        cluster.script.mass_death_at = cluster.now + 40_000;
        cluster.script.pace = Pace { call: 20, row: 1 };
        cluster
    }

    /// `rows` schedules that fire every second, of each misfire policy, on a database whose clock is set
    /// forward or back for a while.
    pub(in crate::sim) fn beside_a_step_of_the_clock(
        rows: usize,
        step: Millis,
        sabotages: &[Sabotage],
    ) -> Self {
        let scenario = Scenario { seed: 0, nodes: 3, schedules: 0, span: 900_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        cluster.script.step_at = (cluster.now + 60_000, step);
        let policies = MisfirePolicy::ALL.iter().copied().cycle().take(rows);
        for (n, misfire) in policies.enumerate() {
            let trigger = Trigger::cron("* * * * * ?", "UTC").unwrap();
            let (application, job) = (APPLICATION.to_owned(), jobs::all()[0].clone());
            let plain = Definition::new(&format!("schedule-{n}"), "", trigger);
            let definition = Definition { application, job, misfire, ..plain };
            cluster.database.store().ensure(&definition).unwrap();
        }
        cluster
    }

    /// Schedules of a job that is never given up, whose misfire threshold is a minute. Now and then a copy of
    /// the database takes over. If they `overlap`, none has to wait for another.
    pub(in crate::sim) fn beside_promotions(
        seed: u64,
        overlap: bool,
        faults: Faults,
        sabotages: &[Sabotage],
    ) -> Self {
        let scenario = Scenario { seed, nodes: 3, schedules: 0, span: 600_000, faults };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        // The rule of overlaps is every fifth's, the job every third's, the threshold every fourth's.
        let step = if overlap { 60 } else { 12 };
        (0..10).for_each(|n| cluster.plans.add(step * n, cluster.now, cluster.database.store()));
        cluster
    }

    /// How many copies have taken over, and how many executions began by commits that these lacked.
    pub(in crate::sim) fn taken_over(&self) -> (usize, usize) {
        let is_lost = |it: &&Effect| self.lost.claims.contains(&(it.execution, it.fence));
        (self.lost.at.len(), self.effects.iter().filter(is_lost).count())
    }

    /// When the step of the database's clock was undone.
    pub(in crate::sim) fn stepped_back(&self) -> Millis {
        self.script.step_at.0 + STEPPED
    }

    /// A schedule that fires every second, beside neighbours that are all overdue or due at once.
    pub(in crate::sim) fn beside_neighbours(neighbours: Neighbours, sabotages: &[Sabotage]) -> Self {
        let Neighbours { nobodys, large, slow, long, snapshot } = neighbours;
        let scenario = Scenario { seed: 0, nodes: 2, schedules: 0, span: 60_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        cluster.script.laned = Some(false);
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

    /// A schedule that fires every second, beside so many one-shots of a job with a lane of its own: more
    /// than it has seats.
    pub(in crate::sim) fn beside_a_full_lane(rows: usize, sabotages: &[Sabotage]) -> Self {
        let scenario = Scenario { seed: 0, nodes: 2, schedules: 0, span: 60_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        cluster.script.laned = Some(true);
        let (now, store) = (cluster.now, cluster.database.store());
        cluster.plans.add_every_second(0, now + 10_000, store);
        cluster.plans.keep_punctual(BESIDE_A_FULL_LANE);
        (1..=rows).for_each(|n| cluster.plans.add_of_a_lane(n, now + 20_000, store));
        cluster
    }

    /// A schedule whose handler kills its node, one whose handler always fails, and one that does no harm.
    pub(in crate::sim) fn beside_a_killer(seed: u64, sabotages: &[Sabotage]) -> Self {
        let scenario = Scenario { seed, nodes: 6, schedules: 0, span: 900_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        let (start, store) = (cluster.now + 10_000, cluster.database.store());
        cluster.plans.add_harmful(0, (start, 7), (None, jobs::KILLS), store);
        cluster.plans.add_harmful(1, (start, 2), (Some(3), jobs::FAILS), store);
        cluster.plans.add_every_second(2, start, store);
        cluster
    }

    /// Two schedules that fire every second, claimed together by one node. It is cut off while it claims, and
    /// somebody holds the row of the second for long. If it is to be switched off, the application is as soon
    /// as the node is back.
    pub(in crate::sim) fn beside_a_held_row(
        seed: u64,
        is_switched_off: bool,
        sabotages: &[Sabotage],
    ) -> Self {
        let scenario = Scenario { seed, nodes: 1, schedules: 0, span: 120_000, faults: Faults::NONE };
        let mut cluster = Self::new(&scenario, Database::memory(), sabotages);
        let (now, store, window) = (cluster.now, cluster.database.store(), Window::default());
        cluster.plans.add_every_second(0, now + 10_000, store);
        if is_switched_off {
            cluster.script.off_at = now + 20_000 + CUT + 1_000;
        } else {
            cluster.plans.keep_punctual(window.poll + window.call);
        }
        cluster.plans.add_every_second(1, now + 10_000, store);
        cluster.script.hold_at = (now + 20_000, store.find(APPLICATION, "schedule-3").unwrap().unwrap().id);
        cluster
    }
}
