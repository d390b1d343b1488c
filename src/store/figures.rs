//! A cluster's figures for dashboards and alarms: waiting executions, and schedules and nodes by state.

use std::collections::{BTreeMap, BTreeSet};

use super::NodeRow;
use crate::domain::{Activity, Millis, ScheduleState, Timestamp};

/// Of so many active schedules, the first by name, the last success is looked for.
pub(crate) const MOST_SCHEDULES: usize = 1_000;
/// Of so many jobs, the first by name, waiting executions are counted, and at most so many of each.
pub(crate) const MOST_JOBS: usize = 1_000;
pub(crate) const MOST_WAITING: usize = 10_000;
/// A schedule that nobody has moved on for so long beyond its misfire threshold is overdue: the misfire
/// handler has had its turn.
pub(crate) const REPAIRED: Millis = 30_000;
/// A success is looked for among so many of a schedule's newest occurrences, by its present interval.
pub(crate) const MOST_INTERVALS: Millis = 1_000;
/// Where that has no interval: for so long before its last occurrence.
pub(crate) const LONGEST_LOOK: Millis = 31 * 86_400_000;
/// A live node has beaten within this span.
const SILENT: Millis = 30_000;
/// Deaths are counted for so long.
pub(crate) const DEATHS_SHOWN: Millis = 3_600_000;

#[derive(Clone, Debug)]
pub(crate) struct FiguresQuery {
    pub application: String,
    /// Database time.
    pub now: Timestamp,
}

/// Schedules of a job that stand alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SchedulesAlike {
    pub job: String,
    pub job_is_paused: bool,
    /// As it is stored.
    pub state: String,
    /// They have paused themselves.
    pub contained: bool,
    pub schedules: i64,
    /// How many of them should have been moved on.
    pub overdue: i64,
}

/// Due PENDING executions of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// At most [`MOST_WAITING`], of those by schedules and of those that are enqueued.
    pub executions: i64,
    pub oldest: Timestamp,
}

/// When an active schedule last ended well, if its newest occurrences say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastSuccess {
    pub schedule: String,
    pub ended: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    /// When they were read, by the database's clock.
    pub at: Timestamp,
    pub app_is_paused: bool,
    /// Those that have not ended.
    pub nodes: Vec<NodeRow>,
    /// Nodes that were declared dead a short time ago.
    pub died: i64,
    /// Schedules of which an occurrence has not succeeded in time.
    pub unmet: i64,
    pub schedules: Vec<SchedulesAlike>,
    /// By job.
    pub waiting: BTreeMap<String, Waiting>,
    /// How many jobs are not looked at for it.
    pub jobs_left_out: i64,
    pub successes: Vec<LastSuccess>,
    /// How many active schedules are not among these.
    pub left_out: i64,
}

impl Figures {
    /// Notes executions of a job that wait.
    pub(crate) fn add_waiting(&mut self, job: String, executions: i64, oldest: Timestamp) {
        let of = self.waiting.entry(job).or_insert(Waiting { executions: 0, oldest });
        *of = Waiting { executions: of.executions + executions, oldest: of.oldest.min(oldest) };
    }

    /// A word for a node's state: `active`, `paused`, `draining`, `drained`, or `silent` if it does not beat.
    fn state_of(&self, node: &NodeRow) -> &'static str {
        if self.at - node.last_beat > SILENT { "silent" } else { node.switch.as_str() }
    }

    /// How many nodes that have not ended are in each state.
    pub(crate) fn nodes_by_state(&self) -> BTreeMap<&'static str, usize> {
        // An alarm compares this one with 0.
        let mut states = BTreeMap::from([(Activity::Active.as_str(), 0)]);
        for node in &self.nodes {
            *states.entry(self.state_of(node)).or_default() += 1;
        }
        states
    }

    /// Handlers that run, and claimed executions that wait for one, as of the last heartbeats.
    pub(crate) fn running(&self) -> (usize, usize) {
        let lanes = self.nodes.iter().flat_map(|node| &node.lanes);
        lanes.fold((0, 0), |(busy, queued), lane| (busy + lane.busy + lane.tasks, queued + lane.queued))
    }

    /// How many schedules are in each state, as people call it; those that paused themselves are `contained`.
    pub(crate) fn schedules_by_state(&self) -> BTreeMap<&'static str, i64> {
        let mut states = BTreeMap::new();
        for alike in &self.schedules {
            let state = match ScheduleState::read(&alike.state) {
                Ok(ScheduleState::Paused) if alike.contained => "contained",
                Ok(state) => state.as_str(),
                Err(_) => "unreadable",
            };
            *states.entry(state).or_default() += alike.schedules;
        }
        states
    }

    /// Active schedules that nothing holds back.
    fn firing(&self) -> impl Iterator<Item = &SchedulesAlike> {
        let is_active =
            |it: &&SchedulesAlike| it.state == ScheduleState::Active.stored() && !it.job_is_paused;
        self.schedules.iter().filter(is_active).filter(|_| !self.app_is_paused)
    }

    /// How many of these should have been moved on and were not.
    pub(crate) fn overdue(&self) -> i64 {
        self.firing().map(|alike| alike.overdue).sum()
    }

    /// How many of these have a job for which no node that claims has a handler.
    pub(crate) fn unrunnable(&self) -> i64 {
        let claims = |node: &&NodeRow| self.state_of(node) == Activity::Active.as_str();
        let handled: BTreeSet<&str> =
            self.nodes.iter().filter(claims).flat_map(|node| &node.jobs).map(String::as_str).collect();
        self.firing().filter(|alike| !handled.contains(&*alike.job)).map(|alike| alike.schedules).sum()
    }
}
