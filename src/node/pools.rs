//! The pools of a node, one for each lane, and their seats as dispatch reserves them.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::Boot;
use crate::pipeline::complete::time_limits::Stuck;
use crate::pipeline::dispatch::Seats;
use crate::pipeline::lanes::{LaneId, LaneSettings};
use crate::pipeline::pool::{Permit, Pool, Seat};
use crate::store::{Claimed, Figures};

/// The figures of a lane at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneFigures {
    pub name: Arc<str>,
    /// How many threads it may have; of tasks, how many may run.
    pub max: usize,
    pub is_of_tasks: bool,
    /// Tasks that run count as a thread each.
    pub threads: usize,
    pub busy: usize,
    pub queued: usize,
    /// Handlers that run on beyond their time limits.
    pub stuck: usize,
    /// Whether the runtime begins no task.
    pub is_blocked: bool,
}

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

    pub(super) fn figures(&self) -> impl Iterator<Item = LaneFigures> {
        self.0.iter().map(|Lane { settings, pool, stuck }| {
            let (figures, stuck) = (pool.figures(), stuck.count());
            let (busy, queued) = (figures.busy, figures.queued);
            let (max, is_of_tasks) = (settings.limits.max, settings.is_of_tasks);
            let threads = if is_of_tasks { busy } else { figures.threads };
            let (name, is_blocked) = (Arc::clone(&settings.name), pool.is_blocked());
            LaneFigures { name, max, is_of_tasks, threads, busy, queued, stuck, is_blocked }
        })
    }

    /// Adds up all lanes, each time a heartbeat shows its node's figures.
    pub(super) fn sums(self: &Arc<Self>) -> impl Fn() -> Figures + Send + use<> {
        let pools = Arc::clone(self);
        let add = |sums: Figures, lane: LaneFigures| Figures {
            threads: sums.threads + lane.threads,
            busy: sums.busy + lane.busy,
            queued: sums.queued + lane.queued,
            stuck: sums.stuck + lane.stuck,
        };
        move || pools.figures().fold(Figures::default(), add)
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
    use crate::pipeline::pool::PoolLimits;

    const SOON: Duration = Duration::from_secs(20);
    const DEFAULT: LaneId = LaneId::DEFAULT;

    fn lane(place: usize) -> LaneId {
        LaneId::all().nth(place).unwrap()
    }

    /// Two lanes of one thread, the second with a place in its queue.
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
            let pools = Arc::new(Pools::new(&[named("default", 0), named("slow", 1)], pool));
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
        assert!(bench.pools.reserve(lane(1)).is_none() && bench.pools.reserve(lane(2)).is_none());
        bench.submit(DEFAULT);
        assert_eq!(bench.began.recv_timeout(SOON).unwrap(), "firetime-job-1");
        let figures: Vec<_> =
            bench.pools.figures().map(|it| (it.name.to_string(), it.busy, it.queued)).collect();
        assert_eq!(figures, [("default".to_owned(), 1, 0), ("slow".to_owned(), 1, 1)]);
        assert_eq!(bench.pools.sums()(), Figures { threads: 2, busy: 2, queued: 1, stuck: 0 });
        assert!(bench.pools.is_awaited());
        [(); 3].iter().for_each(|()| bench.gate.send(()).unwrap());
        assert_eq!(bench.freed.recv_timeout(SOON).unwrap(), lane(1));
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
