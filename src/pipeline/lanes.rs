//! The lanes of a node, each with a pool of its own, and the lane of each job. Pure.
//!
//! A lane with async handlers has two [`LaneId`]s of the same name: one for its threads, one for its tasks.
//!
//! One lane may be automatic. It takes over a job that names no lane after [`MANY`] of the job's runs within
//! [`WITHIN`] were slow. It gives the job back with the first quick run that ends [`WITHIN`] after the last
//! slow one. A job without a run that ends stays: its lane may be too full for it.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::pool::PoolLimits;
use crate::domain::{Boot, Millis};

/// The lane of all jobs that name no other.
pub(crate) const DEFAULT_LANE: &str = "default";
/// The most lanes of a node: as many as a [`LaneSet`] holds.
pub(crate) const MOST_LANES: usize = 64;
/// A run that takes longer is slow.
const SLOW: Millis = 500;
/// The slow runs within [`WITHIN`] that move a job to the automatic lane.
const MANY: usize = 10;
const WITHIN: Millis = 60_000;

/// A lane's name and its pool.
#[derive(Clone, Debug)]
pub(crate) struct LaneSettings {
    pub name: Arc<str>,
    pub limits: PoolLimits,
    /// How many async handlers run in it at once.
    pub tasks: usize,
    pub is_automatic: bool,
    /// Whether it runs the async handlers of the lane of its name, in seats without threads.
    pub is_of_tasks: bool,
}

impl LaneSettings {
    /// The default of the async handlers that run in a lane at once.
    pub(crate) const TASKS: usize = 100;

    /// A lane for handlers that have a thread each.
    pub(crate) fn new(name: &str, limits: PoolLimits) -> Self {
        let name = Arc::from(name);
        Self { name, limits, tasks: Self::TASKS, is_automatic: false, is_of_tasks: false }
    }

    /// The lane of the same name for async handlers.
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn of_tasks(&self) -> Self {
        let limits = PoolLimits::new(self.tasks, self.tasks, 0);
        Self { limits, is_automatic: false, is_of_tasks: true, ..self.clone() }
    }
}

/// A job that names its lane, or whose handler is async.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobLane<'j> {
    pub job: &'j str,
    pub lane: &'j str,
    pub is_async: bool,
}

/// A lane of this node, by its place among them; the default lane is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LaneId(u8);

impl LaneId {
    pub(crate) const DEFAULT: Self = Self(0);

    /// The lanes in their order, [`MOST_LANES`] at most.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..).map(Self).take(MOST_LANES)
    }

    pub(crate) fn place(self) -> usize {
        usize::from(self.0)
    }
}

/// Some of a node's lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneSet(u64);

impl LaneSet {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    pub(crate) fn contains(self, lane: LaneId) -> bool {
        self.0 & 1 << lane.0 != 0
    }

    pub(crate) fn insert(&mut self, lane: LaneId) {
        self.0 |= 1 << lane.0;
    }

    pub(crate) fn remove(&mut self, lane: LaneId) {
        self.0 &= !(1 << lane.0);
    }

    /// Adds those of `lanes` that are not among `others`.
    pub(crate) fn add(&mut self, lanes: Self, others: Self) {
        self.0 |= lanes.0 & !others.0;
    }
}

/// The runs of a lane whose ends are told, so that jobs change lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Watch {
    #[default]
    Nothing,
    /// In the default lane, if another is automatic.
    SlowRuns,
    /// In the automatic lane: it gives jobs back that are quick again.
    AllRuns,
}

impl Watch {
    pub(crate) fn is_told(self, took: Millis) -> bool {
        match self {
            Self::Nothing => false,
            Self::SlowRuns => took > SLOW,
            Self::AllRuns => true,
        }
    }
}

/// The lane of each job.
pub(crate) struct Lanes {
    /// Their names, and whether they run async handlers.
    names: Vec<(Arc<str>, bool)>,
    /// The jobs whose handlers are async.
    async_jobs: FxHashSet<Arc<str>>,
    /// Those of jobs that name one, or were moved; others are of the default lane.
    of_jobs: FxHashMap<Arc<str>, LaneId>,
    automatic: Option<Automatic>,
}

struct Automatic {
    lane: LaneId,
    jobs: FxHashMap<Arc<str>, SlowRuns>,
}

/// The slow runs of a job without a lane of its own.
#[derive(Default)]
struct SlowRuns {
    /// When the last [`MANY`] of them ended.
    ended: VecDeque<Boot>,
    is_moved: bool,
}

impl SlowRuns {
    /// Whether there were [`MANY`] within a minute, with the one that has just ended.
    fn are_many(&mut self, boot: Boot) -> bool {
        if self.ended.len() == MANY {
            self.ended.pop_front();
        }
        self.ended.push_back(boot);
        self.ended.len() == MANY && self.ended.front().is_some_and(|first| boot - *first < WITHIN)
    }

    fn is_long_ago(&self, boot: Boot) -> bool {
        self.ended.back().is_none_or(|last| boot - *last >= WITHIN)
    }
}

/// One lane alone.
impl Default for Lanes {
    fn default() -> Self {
        Self::new(&[LaneSettings::new(DEFAULT_LANE, PoolLimits::new(1, 1, 0))], [])
    }
}

impl Lanes {
    /// The lanes, the default one first, and those jobs that name one of them or whose handlers are async.
    pub(crate) fn new<'j>(lanes: &[LaneSettings], jobs: impl IntoIterator<Item = JobLane<'j>>) -> Self {
        let jobs: Vec<JobLane<'_>> = jobs.into_iter().collect();
        let names: Vec<_> = lanes.iter().map(|lane| (Arc::clone(&lane.name), lane.is_of_tasks)).collect();
        let lane_of = |it: &JobLane<'_>| Some((Arc::from(it.job), named(&names, it.lane, it.is_async)?));
        let of_jobs = jobs.iter().filter_map(lane_of).collect();
        let automatic = LaneId::all().zip(lanes).find(|(_, lane)| lane.is_automatic);
        Self {
            names,
            of_jobs,
            async_jobs: jobs.iter().filter(|it| it.is_async).map(|it| Arc::from(it.job)).collect(),
            automatic: automatic.map(|(lane, _)| Automatic { lane, jobs: FxHashMap::default() }),
        }
    }

    pub(crate) fn of(&self, job: &str) -> LaneId {
        self.of_jobs.get(job).copied().unwrap_or_default()
    }

    /// The lane of this name in which a job can run, if the node has one and it is not the job's anyway.
    pub(crate) fn other(&self, lane: &str, job: &str) -> Option<LaneId> {
        let found = named(&self.names, lane, self.async_jobs.contains(job));
        found.filter(|lane| self.of(job) != *lane || self.may_change(job))
    }

    /// Whether the automatic lane takes the job over when its runs are slow.
    fn may_change(&self, job: &str) -> bool {
        self.automatic.as_ref().is_some_and(|automatic| {
            let is_moved = automatic.jobs.get(job).is_some_and(|runs| runs.is_moved);
            is_moved || !self.of_jobs.contains_key(job)
        })
    }

    /// The name of a lane.
    pub(crate) fn name(&self, lane: LaneId) -> Arc<str> {
        self.names.get(lane.place()).map_or_else(|| DEFAULT_LANE.into(), |(name, ..)| Arc::clone(name))
    }

    /// Whether these are all lanes there are.
    pub(crate) fn are_all(&self, lanes: LaneSet) -> bool {
        LaneId::all().take(self.names.len()).all(|lane| lanes.contains(lane))
    }

    pub(crate) fn watch(&self, lane: LaneId) -> Watch {
        match &self.automatic {
            Some(automatic) if automatic.lane == lane => Watch::AllRuns,
            Some(_) if lane == LaneId::DEFAULT => Watch::SlowRuns,
            _ => Watch::Nothing,
        }
    }

    /// A run has ended at this instant: the name of the lane to which its job changes, if
    /// it does.
    pub(crate) fn ran(&mut self, job: &Arc<str>, took: Millis, boot: Boot) -> Option<Arc<str>> {
        if !self.may_change(job) {
            return None;
        }
        let automatic = self.automatic.as_mut()?;
        let is_moved = automatic.jobs.get(job).is_some_and(|runs| runs.is_moved);
        let lane = if took > SLOW {
            let runs = automatic.jobs.entry(Arc::clone(job)).or_default();
            if !runs.are_many(boot) || is_moved {
                return None;
            }
            runs.is_moved = true;
            self.of_jobs.insert(Arc::clone(job), automatic.lane);
            automatic.lane
        } else {
            automatic.jobs.get(job).filter(|runs| is_moved && runs.is_long_ago(boot))?;
            automatic.jobs.remove(job);
            self.of_jobs.remove(job);
            LaneId::DEFAULT
        };
        self.names.get(lane.place()).map(|(name, _)| Arc::clone(name))
    }
}

/// The lane of this name that runs async handlers, or of this name that runs others.
fn named(names: &[(Arc<str>, bool)], name: &str, is_of_tasks: bool) -> Option<LaneId> {
    let is_it = |it: &(Arc<str>, bool)| &*it.0 == name && it.1 == is_of_tasks;
    LaneId::all().zip(names).find(|(_, it)| is_it(it)).map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;

    fn lane(name: &str, is_automatic: bool) -> LaneSettings {
        LaneSettings { is_automatic, ..LaneSettings::new(name, PoolLimits::new(1, 1, 0)) }
    }

    /// A default lane and one that is automatic; one job names it, one the default lane.
    fn lanes() -> Lanes {
        let lanes = [lane(DEFAULT_LANE, false), lane("other", false), lane("slow", true)];
        let jobs = [("its own", "slow"), ("pinned", DEFAULT_LANE), ("other", "other")];
        Lanes::new(&lanes, jobs.map(|(job, lane)| JobLane { job, lane, is_async: false }))
    }

    const SLOW_LANE: LaneId = LaneId(2);

    /// Where a job goes after runs that took so long and ended at these instants.
    fn moves(
        lanes: &mut Lanes,
        job: &str,
        took: Millis,
        ends: impl IntoIterator<Item = Millis>,
    ) -> Vec<String> {
        let job = Arc::from(job);
        ends.into_iter()
            .filter_map(|at| lanes.ran(&job, took, Boot::at(at)))
            .map(|lane| lane.to_string())
            .collect()
    }

    #[test]
    fn a_job_is_of_the_lane_that_it_names_or_of_the_default_one() {
        let lanes = lanes();
        let places = ["its own", "pinned", "other", "any"].map(|job| lanes.of(job).place());
        assert_eq!(places, [2, 0, 1, 0]);
        let watched = [LaneId::DEFAULT, LaneId(1), SLOW_LANE].map(|lane| lanes.watch(lane));
        assert_eq!(watched, [Watch::SlowRuns, Watch::Nothing, Watch::AllRuns]);
        assert_eq!(Lanes::default().watch(LaneId::DEFAULT), Watch::Nothing);
        let told = watched.map(|watch| (watch.is_told(SLOW), watch.is_told(SLOW + 1)));
        assert_eq!(told, [(false, true), (false, false), (true, true)]);
    }

    #[test]
    fn ten_slow_runs_within_a_minute_move_a_job() {
        let step = (MINUTE - 1) / 9;
        let cases = [
            (SLOW + 1, 10, step, true),
            (SLOW + 1, 9, step, false),
            (SLOW, 10, step, false),
            (SLOW + 1, 99, MINUTE / 9 + 1, false),
        ];
        for (took, count, step, is_moved) in cases {
            let mut lanes = lanes();
            let moved = moves(&mut lanes, "any", took, (0..count).map(|n| n * step));
            let expected: &[&str] = if is_moved { &["slow"] } else { &[] };
            assert_eq!(moved, expected, "{count} runs of {took} ms, one in {step} ms");
            assert_eq!(lanes.of("any") == SLOW_LANE, is_moved);
            assert_eq!(lanes.of("another"), LaneId::DEFAULT);
        }
    }

    #[test]
    fn a_job_goes_back_with_a_quick_run_a_minute_after_its_last_slow_one() {
        let mut lanes = lanes();
        assert_eq!(moves(&mut lanes, "any", SLOW + 1, 0..10), ["slow"]);
        assert_eq!(moves(&mut lanes, "any", SLOW, [10, MINUTE + 8]), [""; 0], "too soon");
        assert_eq!(moves(&mut lanes, "any", SLOW + 1, [MINUTE + 8]), [""; 0], "it is still slow");
        assert_eq!(moves(&mut lanes, "any", SLOW, [2 * MINUTE + 7]), [""; 0], "too soon again");
        assert_eq!(lanes.of("any"), SLOW_LANE);
        assert_eq!(moves(&mut lanes, "any", SLOW, [2 * MINUTE + 8, 2 * MINUTE + 9]), ["default"]);
        assert_eq!(lanes.of("any"), LaneId::DEFAULT);
        assert_eq!(moves(&mut lanes, "any", SLOW + 1, (0..10).map(|n| 2 * MINUTE + 10 + n)), ["slow"]);
    }

    /// One run in six seconds is slow, the others are quick: neither does it count as quick at once, nor do
    /// its slow runs of before count twice.
    #[test]
    fn a_job_that_is_slow_now_and_then_does_not_go_to_and_fro() {
        let mut lanes = lanes();
        let mut changes = Vec::new();
        for at in (0..20 * MINUTE).step_by(1_000) {
            let took = if at % 6_000 == 0 { SLOW + 1 } else { 1 };
            changes.extend(moves(&mut lanes, "any", took, [at]));
        }
        assert_eq!(changes, ["slow"]);
    }

    #[test]
    fn a_job_that_names_its_lane_stays_in_it() {
        let mut lanes = lanes();
        for job in ["its own", "pinned", "other"] {
            let before = lanes.of(job);
            assert_eq!(moves(&mut lanes, job, SLOW + 1, 0..99), [""; 0]);
            assert_eq!(moves(&mut lanes, job, 1, [2 * MINUTE]), [""; 0]);
            assert_eq!(lanes.of(job), before);
        }
        let mut plain = Lanes::default();
        assert_eq!(moves(&mut plain, "any", SLOW + 1, 0..99), [""; 0], "no lane is automatic");
    }

    /// The async handlers of a lane have another pool than its threads' jobs, and stay in it however slow.
    #[test]
    fn async_jobs_have_seats_of_their_own_in_their_lane() {
        let mut settings = vec![lane(DEFAULT_LANE, false), lane("slow", true)];
        settings.extend([settings[1].of_tasks(), settings[0].of_tasks()]);
        let jobs = [("a", DEFAULT_LANE, true), ("b", "slow", true), ("c", "slow", false)];
        let jobs = jobs.map(|(job, lane, is_async)| JobLane { job, lane, is_async });
        let mut lanes = Lanes::new(&settings, jobs);
        assert_eq!(["a", "b", "c", "any"].map(|job| lanes.of(job).place()), [3, 2, 1, 0]);
        let other = |lane: &str| ["a", "b", "c", "any"].map(|job| lanes.other(lane, job).map(LaneId::place));
        assert_eq!(other("slow"), [Some(2), None, None, Some(1)], "none for those that are there anyway");
        assert_eq!(other(DEFAULT_LANE), [None, Some(3), Some(0), Some(0)], "the last may be moved");
        assert_eq!(other("nowhere"), [None; 4]);
        assert_eq!([2, 3].map(|place| lanes.watch(LaneId(place))), [Watch::Nothing; 2]);
        assert_eq!(moves(&mut lanes, "a", SLOW + 1, 0..99), [""; 0]);
        let LaneSettings { limits, is_automatic, .. } = &settings[2];
        assert_eq!((limits.core, limits.max, limits.queue, is_automatic), (100, 100, 0, &false));
    }

    #[test]
    fn a_set_holds_each_lane_of_a_node() {
        let mut set = LaneSet::NONE;
        LaneId::all().for_each(|lane| {
            assert!(!set.contains(lane));
            set.insert(lane);
        });
        assert_eq!((LaneId::all().count(), set), (MOST_LANES, LaneSet(u64::MAX)));
        set.remove(LaneId(63));
        assert!(!set.contains(LaneId(63)) && set.contains(LaneId(62)) && !set.is_empty());
        let mut some = LaneSet::NONE;
        some.add(LaneSet(0b0110), LaneSet(0b0100));
        assert_eq!(some, LaneSet(0b0010));
        assert!(Lanes::default().are_all(LaneSet(1)) && !lanes().are_all(LaneSet(0b101)));
        assert!(lanes().are_all(LaneSet(0b111)) && !Lanes::default().are_all(LaneSet::NONE));
    }
}
