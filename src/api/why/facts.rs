//! What an answer rests on, as it is read.

use chrono::{DateTime, Utc};

use crate::api::{
    ApplicationView, AuditFilter, AuditView, Client, ExecutionFilter, ExecutionView, JobView, NodeView,
    ScheduleView, config,
};
use crate::domain::{Error, ErrorKind, ExecutionId, ExecutionState, Timestamp};
use crate::trigger::Timing;

/// Of the audit of a schedule, a job or the application so much is looked at, the newest first.
const CHANGES: usize = 1_000;
/// So many executions of a job that run are looked at.
const UNDER_WAY: usize = 1_000;

/// A schedule as it is now.
#[derive(Debug)]
pub(super) struct Plan {
    pub view: ScheduleView,
    /// None if its columns mean none.
    pub timing: Option<Timing>,
    pub misfire: String,
}

/// Everything that an answer may rest on.
#[derive(Debug)]
pub(super) struct Facts {
    /// By the database's clock.
    pub now: DateTime<Utc>,
    /// The schedule's name; the queue's, of an enqueued execution.
    pub name: String,
    /// The fire time that was asked for.
    pub at: Option<DateTime<Utc>>,
    /// None of what was enqueued, and if it was removed.
    pub plan: Option<Plan>,
    /// All attempts, the first first; none if the ledger has no such occurrence.
    pub attempts: Vec<ExecutionView>,
    /// All nodes whose rows are there.
    pub nodes: Vec<NodeView>,
    pub job: Option<JobView>,
    pub application: Option<ApplicationView>,
    /// The execution that the last attempt gave way to.
    pub holder: Option<ExecutionView>,
    /// What runs of its job, if something waits.
    pub under_way: Vec<ExecutionView>,
    /// Changes of the schedule, its executions, its job and the application, the newest first.
    pub changes: Vec<AuditView>,
}

impl Client {
    pub(super) fn facts_at(&self, name: &str, at: DateTime<Utc>) -> Result<Facts, Error> {
        config::check_schedule_name(name)?;
        let seen = self.store.seen(&self.application, name)?.ok_or_else(|| self.unknown(name))?;
        match self.store.execution_at(seen.id, Timestamp::from(at))? {
            Some(id) => self.facts_of(id, Some(at)),
            None => self.facts(name.to_owned(), Some(at), Vec::new()),
        }
    }

    pub(super) fn facts_of(&self, id: ExecutionId, at: Option<DateTime<Utc>>) -> Result<Facts, Error> {
        let attempts = self.execution(id)?.attempts;
        let name = attempts.first().map(|it| it.schedule.clone()).unwrap_or_default();
        self.facts(name, at, attempts)
    }

    fn facts(
        &self,
        name: String,
        at: Option<DateTime<Utc>>,
        attempts: Vec<ExecutionView>,
    ) -> Result<Facts, Error> {
        let row = self.store.schedule(&self.application, &name)?;
        let above = self.above()?;
        let plan = row.map(|row| {
            let (timing, misfire) = (row.when.timing().ok(), row.settings.misfire.to_string());
            Plan { view: above.view(row), timing, misfire }
        });
        let last = attempts.last();
        let job = last.map(|it| &it.job).or_else(|| plan.as_ref().map(|plan| &plan.view.job)).cloned();
        let job = self.jobs()?.into_iter().find(|it| Some(&it.name) == job.as_ref());
        let waits = last.is_none_or(|it| it.state == ExecutionState::Pending.as_str());
        let under_way = match &job {
            Some(job) if waits => self.executions(&ExecutionFilter {
                job: Some(job.name.clone()),
                states: vec![ExecutionState::Claimed, ExecutionState::Running],
                limit: UNDER_WAY,
                ..ExecutionFilter::default()
            })?,
            _ => Vec::new(),
        };
        // Of what was withdrawn it is an entry of the audit.
        let withdrawn = ExecutionState::Withdrawn.as_str();
        let holder = match last.filter(|it| it.state != withdrawn).and_then(|it| it.holder) {
            Some(holder) => match self.execution(holder) {
                Ok(found) => Some(found.last().clone()),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let changes = self.changes(&name, job.as_ref(), last)?;
        let application = self.applications()?.into_iter().find(|it| it.name == self.application);
        let (now, nodes) = (self.now()?, self.nodes()?);
        Ok(Facts { now, name, at, plan, attempts, nodes, job, application, holder, under_way, changes })
    }

    /// What the audit has of everything that may have held, changed or ended it.
    fn changes(
        &self,
        name: &str,
        job: Option<&JobView>,
        last: Option<&ExecutionView>,
    ) -> Result<Vec<AuditView>, Error> {
        let execution = last.map(|it| format!("{} of {}", it.id, it.schedule));
        let targets = [
            (Some(name.to_owned()), "schedule"),
            (execution, "execution"),
            (job.map(|job| job.name.clone()), "job"),
            (Some(self.application.clone()), "application"),
        ];
        let mut changes = Vec::new();
        for (target, target_type) in targets {
            let Some(target) = target else { continue };
            let filter = AuditFilter { target: Some(target), limit: CHANGES, ..AuditFilter::default() };
            changes.extend(self.audit(&filter)?.into_iter().filter(|it| it.target_type == target_type));
        }
        changes.sort_by_key(|it| std::cmp::Reverse(it.id));
        Ok(changes)
    }
}

impl Facts {
    pub(super) fn timing(&self) -> Option<&Timing> {
        self.plan.as_ref()?.timing.as_ref()
    }

    /// Whether the trigger of now has a fire time there; none if only the end of a run says, or nobody.
    pub(super) fn fires_at(&self, at: DateTime<Utc>) -> Option<bool> {
        let timing = self.timing().filter(|timing| timing.delay_ms().is_none())?;
        let at = at.timestamp_millis();
        Some(timing.after(at - 1) == Some(at))
    }

    /// The newest change by this verb that fits.
    pub(super) fn change(&self, verb: &str, fits: impl Fn(&AuditView) -> bool) -> Option<&AuditView> {
        self.changes.iter().find(|it| it.verb == verb && fits(it))
    }

    /// The newest edit of the schedule after an instant. Its creation is none.
    pub(super) fn edited_since(&self, at: DateTime<Utc>) -> Option<&AuditView> {
        self.change("ensure", |it| !it.was.is_empty() && it.made.is_some_and(|made| made > at))
    }

    /// When the schedule of this name was made, if the audit still has that: its first, or after a removal.
    pub(super) fn creation(&self) -> Option<&AuditView> {
        self.changes.iter().rev().find(|it| it.verb == "ensure" && it.was.is_empty())
    }

    pub(super) fn live_nodes(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| node.ended.is_none())
    }
}
