//! The pools of a node, one for each lane, and their seats as dispatch reserves them.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{Boot, LaneHealth, LaneReport};
use crate::pipeline::complete::time_limits::Stuck;
use crate::pipeline::dispatch::Seats;
use crate::pipeline::lanes::{LaneId, LaneSettings};
use crate::pipeline::pool::{Permit, Pool, Seat};
use crate::store::Claimed;

/// A lane's pool.
struct Lane {
    settings: LaneSettings,
    pool: Pool<Claimed>,
    stuck: Stuck,
}

/// The pools, in the order of the lanes.
pub(crate) struct Pools(Vec<Lane>);

impl Pools {
    /// The lanes, the default one first; `pool` makes the pool of each, which counts its stuck handlers.
    pub(super) fn new(
        lanes: &[LaneSettings],
        pool: impl Fn(LaneId, &LaneSettings, Stuck) -> Pool<Claimed>,
    ) -> Self {
        let lane = |(id, lane): (LaneId, &LaneSettings)| {
            let stuck = Stuck::default();
            Lane { settings: lane.clone(), pool: pool(id, lane, stuck.clone()), stuck }
        };
        Self(LaneId::all().zip(lanes).map(lane).collect())
    }

    /// The beginning of the names of a lane's threads.
    pub(super) fn threads_of(id: LaneId, lane: &LaneSettings) -> String {
        format!("firetime-{}", if id == LaneId::DEFAULT { "job" } else { &*lane.name })
    }

    /// The figures of each lane, the default one first. The pool of a lane's tasks adds to those of its
    /// threads.
    pub(super) fn lanes(&self) -> Vec<LaneHealth> {
        let mut lanes: Vec<LaneHealth> = Vec::new();
        for Lane { settings, pool, stuck } in &self.0 {
            let (figures, stuck) = (pool.figures(), stuck.count());
            let (busy, queued) = (figures.busy, figures.queued);
            let (name, most) = (&*settings.name, settings.limits.max);
            match lanes.iter_mut().find(|lane| lane.name == name) {
                Some(lane) => {
                    (lane.concurrency, lane.tasks, lane.stuck_tasks) = (most, busy, stuck);
                    lane.is_blocked = pool.is_blocked();
                }
                None => {
                    let name = name.to_owned();
                    let none = LaneHealth::default();
                    lanes.push(LaneHealth { name, threads: most, busy, queued, stuck, ..none });
                }
            }
        }
        lanes
    }

    /// What the node publishes; `async_jobs` are those that its runtime may block, each with its lane's name.
    pub(super) fn report(&self, async_jobs: &[(String, String)]) -> LaneReport {
        let lanes = self.lanes();
        let is_blocked = |name: &str| lanes.iter().any(|lane| lane.is_blocked && lane.name == name);
        let blocked = async_jobs.iter().filter(|(_, lane)| is_blocked(lane));
        LaneReport { blocked: blocked.map(|(job, _)| job.clone()).collect(), lanes }
    }

    /// Gives out no more seats; the executions that wait.
    pub(super) fn close(&self) -> Vec<Claimed> {
        self.0.iter().flat_map(|lane| lane.pool.close()).collect()
    }

    /// Waits until nothing runs or is queued in any lane, for `turn` at most; says whether it came to that.
    pub(super) fn wait_idle(&self, turn: Duration) -> bool {
        let is_idle = |lane: &Lane| lane.pool.wait_idle(Duration::ZERO);
        match self.0.iter().find(|lane| !is_idle(lane)) {
            Some(busy) => busy.pool.wait_idle(turn) && self.0.iter().all(is_idle),
            None => true,
        }
    }
}

impl Seats for Arc<Pools> {
    type Permit = Permit<Claimed>;

    fn reserve(&mut self, lane: LaneId) -> Option<Self::Permit> {
        self.0.get(lane.place())?.pool.reserve()
    }

    fn seat(permit: &Self::Permit) -> Seat {
        permit.seat()
    }

    fn tick(&mut self, boot: Boot) -> Vec<Claimed> {
        self.0.iter().flat_map(|lane| lane.pool.tick(boot)).collect()
    }

    fn empty(&mut self) -> Vec<Claimed> {
        self.0.iter().flat_map(|lane| lane.pool.empty()).collect()
    }

    fn is_awaited(&self) -> bool {
        self.0.iter().any(|lane| lane.pool.is_awaited())
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::Timestamp;
    use crossbeam::channel::{Receiver, Sender, unbounded};

    use super::*;
    use crate::fixtures::claimed;
    use crate::pipeline::pool::{Occupied, PoolLimits};

    const SOON: Duration = Duration::from_secs(20);
    const DEFAULT: LaneId = LaneId::DEFAULT;

    fn lane(place: usize) -> LaneId {
        LaneId::all().nth(place).unwrap()
    }

    /// Two lanes of one thread, the second with a place in its queue, and with tasks beside it.
    struct Bench {
        pools: Arc<Pools>,
        /// Lets one execution end.
        gate: Sender<()>,
        /// The threads on which executions begin.
        began: Receiver<String>,
        freed: Receiver<LaneId>,
    }

    impl Bench {
        fn new() -> Self {
            let ((gate, go), (begin, began), (free, freed)) = (unbounded::<()>(), unbounded(), unbounded());
            let named = |name: &str, queue| LaneSettings::new(name, PoolLimits::new(1, 1, queue));
            let pool = |lane, settings: &LaneSettings, _| {
                let (go, begin, free) = (go.clone(), begin.clone(), free.clone());
                let run = move |_| {
                    begin.send(std::thread::current().name().unwrap_or_default().to_owned()).unwrap();
                    go.recv().ok();
                };
                let notify = move |_| {
                    free.send(lane).ok();
                };
                Pool::new(&Pools::threads_of(lane, settings), settings.limits, run, notify)
            };
            let slow = named("slow", 1);
            let pools = Arc::new(Pools::new(&[named("default", 0), slow.clone(), slow.of_tasks()], pool));
            Self { pools, gate, began, freed }
        }

        fn submit(&mut self, lane: LaneId) {
            let permit = self.pools.reserve(lane).expect("a seat");
            Permit::submit(vec![(permit, claimed(Timestamp::at(1_767_225_600_000), i64::MAX))], Boot::at(0));
        }
    }

    #[test]
    fn each_lane_has_seats_and_threads_of_its_own() {
        let mut bench = Bench::new();
        bench.submit(lane(1));
        assert_eq!(bench.began.recv_timeout(SOON).unwrap(), "firetime-slow-1");
        bench.submit(lane(1));
        assert!(bench.pools.reserve(lane(1)).is_none() && bench.pools.reserve(lane(3)).is_none());
        bench.submit(lane(2));
        assert_eq!(bench.began.recv_timeout(SOON).unwrap(), "firetime-slow-1");
        bench.submit(DEFAULT);
        assert_eq!(bench.began.recv_timeout(SOON).unwrap(), "firetime-job-1");
        let lanes = bench.pools.lanes();
        let figures: Vec<_> = lanes.iter().map(|it| (it.name.as_str(), it.busy, it.queued)).collect();
        assert_eq!(figures, [("default", 1, 0), ("slow", 1, 1)]);
        let tasks = lanes.iter().map(|it| (it.tasks, it.concurrency)).collect::<Vec<_>>();
        assert_eq!(
            tasks,
            [(0, 0), (1, LaneSettings::TASKS)],
            "they are shown with the threads of their lane"
        );
        assert!(bench.pools.is_awaited());
        [(); 4].iter().for_each(|()| bench.gate.send(()).unwrap());
        assert_eq!(bench.freed.recv_timeout(SOON).unwrap(), lane(1));
    }

    /// The lane's threads go on.
    #[test]
    fn the_async_jobs_of_a_blocked_lane_are_published() {
        let lanes = ["default", "slow"].map(|name| LaneSettings::new(name, PoolLimits::new(1, 1, 0)));
        let lanes = [lanes[0].clone(), lanes[1].clone(), lanes[0].of_tasks(), lanes[1].of_tasks()];
        let waits = |item, mut occupied: Occupied<Claimed>| {
            occupied.await_poll(item, Boot::at(0));
            drop(occupied);
        };
        let pool = |_, settings: &LaneSettings, _| match settings.is_of_tasks {
            true => Pool::of_tasks(1, waits, |_| {}),
            false => Pool::new("thread", settings.limits, drop, |_| {}),
        };
        let mut pools = Arc::new(Pools::new(&lanes, pool));
        let jobs = [("a", "default"), ("b", "slow"), ("c", "slow")];
        let jobs = jobs.map(|(job, lane)| (job.to_owned(), lane.to_owned()));
        assert_eq!(pools.report(&jobs).blocked, [""; 0]);
        let permit = pools.reserve(lane(3)).unwrap();
        Permit::submit(vec![(permit, claimed(Timestamp::at(1_767_225_600_000), i64::MAX))], Boot::at(0));
        assert_eq!(pools.tick(Boot::at(5_001)).len(), 1);
        let report = pools.report(&jobs);
        assert_eq!(
            (report.blocked, report.lanes[1].is_blocked),
            (vec!["b".to_owned(), "c".to_owned()], true)
        );
    }

    #[test]
    fn an_end_waits_for_all_lanes_and_takes_what_waits_in_any() {
        let mut bench = Bench::new();
        bench.submit(lane(1));
        bench.submit(lane(1));
        bench.began.recv_timeout(SOON).unwrap();
        assert_eq!(bench.pools.empty().len(), 1);
        bench.submit(lane(1));
        assert_eq!(bench.pools.tick(Boot::at(5_001)).len(), 1, "it has waited for too long");
        bench.submit(lane(1));
        assert_eq!(bench.pools.close().len(), 1);
        assert!(bench.pools.reserve(DEFAULT).is_none() && bench.pools.reserve(lane(1)).is_none());
        assert!(!bench.pools.wait_idle(Duration::ZERO), "only the second lane runs something");
        bench.gate.send(()).unwrap();
        assert!(bench.pools.wait_idle(SOON));
        assert!(!bench.pools.is_awaited());
    }
}
