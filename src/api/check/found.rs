//! What a check looks at, and what it finds.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::failures::Failures;
use super::outage::Outage;
use crate::api::{ApplicationView, ExecutionView, JobView, NodeView, ScheduleView, Standing};

/// So many schedules of one standing are told.
pub(super) const MOST_SCHEDULES: usize = 100;

/// Something that needs people, or that they should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// `problem`, or `note` where somebody wanted it so, or where it is over.
    pub level: FindingLevel,
    /// What kind of thing it is.
    pub kind: FindingKind,
    /// What it is about: `application`, `node`, `job` or `schedule`.
    pub target_type: &'static str,
    /// The name of that, of a node its id.
    pub target: String,
    /// What is the matter with it.
    pub problem: String,
    /// What helps, or where more is told.
    pub action: String,
}

/// How grave a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FindingLevel {
    /// Something does not do what it is there for.
    Problem,
    /// Somebody wanted it so, or it is over.
    Note,
}

/// What a finding tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// The application is paused.
    ApplicationPaused,
    /// No live node claims anything.
    NothingClaims,
    /// A node that has not ended has not been heard of for too long.
    NodeSilent,
    /// Handlers of a node run on beyond their time limits.
    NodeStuck,
    /// A node is paused, or drained.
    NodeHeld,
    /// A job is paused.
    JobPaused,
    /// No live node that claims has a handler for a job that has something to run.
    JobUnclaimed,
    /// Schedules of a job are overdue, or its executions wait for too long.
    JobBehind,
    /// A schedule is in error.
    ScheduleError,
    /// A schedule has paused itself.
    ScheduleContained,
    /// An occurrence of a schedule has not succeeded in the time in which it was expected.
    ScheduleUnmet,
    /// Live nodes leave a schedule alone, as they cannot decode its payload.
    ScheduleLeftAlone,
    /// Somebody has paused a schedule.
    SchedulePaused,
    /// Executions of a schedule, or of a job without one, have failed for good within the last hour.
    Failing,
    /// A node died within the last hour.
    NodeDied,
    /// For some time of the last day no node lived.
    Outage,
    /// A list was too long to be looked at whole: it may hide more.
    Unseen,
}

/// An application as it is, and what was found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// When that was, by the database's clock.
    pub now: DateTime<Utc>,
    /// None if nothing is known of it: it has never had a node or a schedule.
    pub application: Option<ApplicationView>,
    /// Its nodes, newest first, ended ones included.
    pub nodes: Vec<NodeView>,
    /// Its jobs by name.
    pub jobs: Vec<JobView>,
    /// The executions that have waited longest for a node, of those that were due a minute ago and wait
    /// neither for their schedule's slot nor for the end of its pause: 1,000 at most.
    pub late: Vec<ExecutionView>,
    /// What failed for good within the last hour.
    pub failures: Failures,
    /// When no node lived within the last day, the latest first.
    pub outages: Vec<Outage>,
    /// The gravest first.
    pub findings: Vec<Finding>,
    /// The first schedules that are paused, by themselves or by somebody.
    pub(super) paused: Vec<ScheduleView>,
    pub(super) in_error: Vec<ScheduleView>,
    pub(super) unmet: Vec<ScheduleView>,
    pub(super) overdue: Vec<ScheduleView>,
    pub(super) left_alone: Vec<ScheduleView>,
    /// Whether there may be more late executions.
    pub(super) is_late_cut: bool,
}

impl Check {
    /// Whether nothing is the matter but what somebody wanted so, or what is over.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.level == FindingLevel::Note)
    }

    /// The nodes that nobody has found to have ended.
    pub fn live(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| node.ended.is_none())
    }

    /// The first schedules that somebody has paused, and whether there may be more.
    #[must_use]
    pub fn paused(&self) -> (Vec<&ScheduleView>, bool) {
        let by_hand = self.paused.iter().filter(|it| !Standing::Contained.is_of(it, self.now));
        (by_hand.collect(), self.paused.len() >= MOST_SCHEDULES)
    }
}
