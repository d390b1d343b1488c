//! What an answer rests on, as it is read.

use chrono::{DateTime, TimeDelta, Utc};

use super::because::Because;
use crate::api::{
    ApplicationView, AuditFilter, AuditView, Client, ExecutionFilter, ExecutionView, JobView, NodeView,
    ScheduleView, config,
};
use crate::domain::{
    Error, ErrorKind, ExecutionId, ExecutionState, MisfirePolicy, ScheduleField, ScheduleId, Timestamp,
};
use crate::store::audit::defines;
use crate::store::ledger::{LedgerPage, TriggerPeriod};
use crate::store::order::audit_target;
use crate::trigger::Timing;

/// Of the audit of a schedule, a job or the application so much is looked at, the newest first.
const CHANGES: usize = 1_000;
/// The actor of changes that firetime makes by itself, such as the pause of a schedule for its streak.
pub(super) const FIRETIME: &str = "firetime";

/// So many executions of a job that run are looked at.
const UNDER_WAY: usize = 1_000;

/// The audit's row of a change and the rows that the change writes differ by less, by the database's clock.
const SAME_CHANGE: TimeDelta = TimeDelta::seconds(5);

/// A schedule as it is now.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub view: ScheduleView,
    /// None if its columns mean none.
    pub timing: Option<Timing>,
    /// None if its column means none.
    pub misfire: Option<MisfirePolicy>,
    /// The live nodes that have a handler and cannot decode its payload.
    pub left_by: Vec<String>,
}

/// What all occurrences of a schedule have in common.
#[derive(Clone, Debug)]
pub(super) struct Around {
    pub schedule: ScheduleId,
    pub now: DateTime<Utc>,
    pub plan: Option<Plan>,
    pub nodes: Vec<NodeView>,
    pub job: Option<JobView>,
    pub application: Option<ApplicationView>,
    pub triggers: Vec<TriggerPeriod>,
    /// Changes of the schedule, its job and the application.
    pub changes: Vec<AuditView>,
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
    /// None for an enqueued execution, and for a schedule that was removed.
    pub plan: Option<Plan>,
    /// All attempts, the first first; none if the ledger has no such occurrence.
    pub attempts: Vec<ExecutionView>,
    /// All nodes whose rows are there.
    pub nodes: Vec<NodeView>,
    pub job: Option<JobView>,
    pub application: Option<ApplicationView>,
    /// The execution that the last attempt gave way to.
    pub holder: Option<ExecutionView>,
    /// The last attempt of the last rerun of the occurrence.
    pub rerun: Option<ExecutionView>,
    /// The triggers that the schedule has had, the first first; none of a row that was written by hand.
    pub triggers: Vec<TriggerPeriod>,
    /// The executions of its job that are under way; read only if something waits.
    pub under_way: Vec<ExecutionView>,
    /// Changes of the schedule, its executions, its job and the application, the newest first.
    pub changes: Vec<AuditView>,
}

impl Client {
    pub(super) fn facts_at(&self, name: &str, at: DateTime<Utc>) -> Result<Facts, Error> {
        config::check_schedule_name(name)?;
        let seen = self.store.seen(&self.application, name)?.ok_or_else(|| self.unknown(name))?;
        let rerun = self.store.rerun_at(seen.id, Timestamp::from(at))?;
        let facts = self.facts_of_plan((seen.id, name), at)?;
        let rerun = rerun.map(|id| self.found(id)).transpose()?.flatten();
        Ok(Facts { rerun, ..facts })
    }

    fn facts_of_plan(&self, (schedule, name): (ScheduleId, &str), at: DateTime<Utc>) -> Result<Facts, Error> {
        match self.store.execution_at(schedule, Timestamp::from(at))? {
            Some(id) => self.facts_of(id, Some(at)),
            None => {
                let facts = self.facts(name.to_owned(), Some(at), Vec::new())?;
                // A node may have claimed it between the two reads.
                let plan = facts.plan.as_ref().filter(|plan| plan.view.next.is_none_or(|next| next > at));
                match plan
                    .map(|_| self.store.execution_at(schedule, Timestamp::from(at)))
                    .transpose()?
                    .flatten()
                {
                    Some(id) => self.facts_of(id, Some(at)),
                    None => Ok(facts),
                }
            }
        }
    }

    /// Those of an execution's occurrence, with what became of that since.
    pub(super) fn facts_of_execution(&self, id: ExecutionId) -> Result<Facts, Error> {
        let facts = self.facts_of(id, None)?;
        // A rerun, and what was asked for by hand or enqueued, is nobody's planned occurrence.
        let planned = facts.attempts.last().filter(|last| last.origin == 0 && last.count == 1);
        let Some(at) = planned.and_then(|last| last.fire_time) else { return Ok(facts) };
        let Some(seen) = self.store.seen(&self.application, &facts.name)? else { return Ok(facts) };
        let rerun = self.store.rerun_at(seen.id, Timestamp::from(at))?;
        let rerun = rerun.map(|id| self.found(id)).transpose()?.flatten();
        Ok(Facts { rerun, ..facts })
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
        let job = attempts.last().map(|it| it.job.clone());
        let around = self.around_job(&name, job)?;
        self.facts_with(around, name, (at, attempts))
    }

    /// What the answers about several occurrences of a schedule rest on together.
    pub(super) fn around(&self, name: &str) -> Result<Around, Error> {
        config::check_schedule_name(name)?;
        let seen = self.store.seen(&self.application, name)?.ok_or_else(|| self.unknown(name))?;
        Ok(Around { schedule: seen.id, ..self.around_job(name, None)? })
    }

    /// One of these occurrences.
    pub(super) fn facts_near(&self, around: &Around, name: &str, at: DateTime<Utc>) -> Result<Facts, Error> {
        let found = self.store.execution_at(around.schedule, Timestamp::from(at))?;
        let attempts = found.map(|id| self.execution(id)).transpose()?.map(|it| it.attempts);
        let attempts = attempts.unwrap_or_default();
        // It may have had another job then.
        let is_other = |it: &ExecutionView| around.job.as_ref().is_none_or(|job| job.name != it.job);
        if attempts.last().is_some_and(is_other) {
            return self.facts_at(name, at);
        }
        let rerun = self.store.rerun_at(around.schedule, Timestamp::from(at))?;
        let facts = self.facts_with(around.clone(), name.to_owned(), (Some(at), attempts))?;
        let rerun = rerun.map(|id| self.found(id)).transpose()?.flatten();
        Ok(Facts { rerun, ..facts })
    }

    /// By the name of the job, or else that of the schedule.
    fn around_job(&self, name: &str, job: Option<String>) -> Result<Around, Error> {
        let row = self.store.schedule(&self.application, name)?;
        let above = self.above()?;
        let plan = row.map(|row| {
            let (timing, misfire) = (row.when.timing().ok(), row.settings.misfire.parse().ok());
            Plan { left_by: above.left_by(&row), view: above.view(row), timing, misfire }
        });
        let job = job.or_else(|| plan.as_ref().map(|plan| plan.view.job.clone()));
        let job = self.jobs()?.into_iter().find(|it| Some(&it.name) == job.as_ref());
        let targets = [
            (Some(name.to_owned()), "schedule"),
            (job.as_ref().map(|job| job.name.clone()), "job"),
            (Some(self.application.clone()), "application"),
        ];
        let mut changes = Vec::new();
        for (target, target_type) in targets {
            changes.extend(self.changes_of(target, target_type)?);
        }
        let application = self.applications()?.into_iter().find(|it| it.name == self.application);
        let (now, nodes, triggers) = (self.now()?, self.nodes()?, self.triggers(name)?);
        let schedule = ScheduleId(0);
        Ok(Around { schedule, now, plan, nodes, job, application, triggers, changes })
    }

    fn facts_with(
        &self,
        around: Around,
        name: String,
        (at, attempts): (Option<DateTime<Utc>>, Vec<ExecutionView>),
    ) -> Result<Facts, Error> {
        let Around { now, plan, nodes, job, application, triggers, mut changes, .. } = around;
        let last = attempts.last();
        let waits = last.is_none_or(|it| it.state == ExecutionState::Pending);
        let under_way = match &job {
            Some(job) if waits => self.executions(&ExecutionFilter {
                job: Some(job.name.clone()),
                states: vec![ExecutionState::Claimed, ExecutionState::Running],
                limit: UNDER_WAY,
                ..ExecutionFilter::default()
            })?,
            _ => Vec::new(),
        };
        let holder = last.and_then(|it| it.holder);
        let holder = holder.map(|id| self.found(id)).transpose()?.flatten();
        let execution = last.map(|it| audit_target(it.id, &it.schedule));
        changes.extend(self.changes_of(execution, "execution")?);
        changes.sort_by_key(|it| std::cmp::Reverse(it.id));
        let rerun = None;
        Ok(Facts {
            now,
            name,
            at,
            plan,
            attempts,
            nodes,
            job,
            application,
            holder,
            rerun,
            triggers,
            under_way,
            changes,
        })
    }

    pub(super) fn triggers(&self, name: &str) -> Result<Vec<TriggerPeriod>, Error> {
        let (application, name, after) =
            (self.application.clone(), Some(name.to_owned()), ScheduleId(i64::MIN));
        let page = self.store.ledger_schedules(&LedgerPage { application, name, after, limit: 1 })?;
        Ok(page.into_iter().next().map(|schedule| schedule.triggers).unwrap_or_default())
    }

    /// The last attempt at the occurrence of this execution, if it is still there.
    fn found(&self, execution: ExecutionId) -> Result<Option<ExecutionView>, Error> {
        match self.execution(execution) {
            Ok(found) => Ok(Some(found.last().clone())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the audit has of something that may have held, changed or ended it.
    fn changes_of(&self, target: Option<String>, target_type: &str) -> Result<Vec<AuditView>, Error> {
        let Some(target) = target else { return Ok(Vec::new()) };
        let filter = AuditFilter { target: Some(target), limit: CHANGES, ..AuditFilter::default() };
        Ok(self.audit(&filter)?.into_iter().filter(|it| it.target_type == target_type).collect())
    }
}

impl Facts {
    pub(super) fn timing(&self) -> Option<&Timing> {
        self.plan.as_ref()?.timing.as_ref()
    }

    /// Whether the trigger of now has a fire time there; none if only the end of a run says, or nobody.
    pub(super) fn fires_at(&self, at: DateTime<Utc>) -> Option<bool> {
        has_fire_time(self.timing()?, at)
    }

    /// Whether the trigger of this generation has a fire time there; none if that is not known.
    pub(super) fn fired_at(&self, generation: i64, at: DateTime<Utc>) -> Option<bool> {
        let period = self.triggers.iter().find(|period| period.generation == generation)?;
        has_fire_time(&period.when.timing().ok()?, at)
    }

    /// The trigger that the schedule had at an instant, if it has another one by now.
    pub(super) fn trigger_then(&self, at: DateTime<Utc>) -> Option<&TriggerPeriod> {
        let set = self.triggers.iter().rev().find(|period| period.begun <= at.into());
        set.filter(|period| period.end.is_some())
    }

    /// The newest definition that fits.
    pub(super) fn definition(&self, fits: impl Fn(&AuditView) -> bool) -> Option<&AuditView> {
        self.changes.iter().find(|it| defines(&it.verb) && fits(it))
    }

    /// The newest change by this verb that fits.
    pub(super) fn change(&self, verb: &str, fits: impl Fn(&AuditView) -> bool) -> Option<&AuditView> {
        self.changes.iter().find(|it| it.verb == verb && fits(it))
    }

    /// The first change of the trigger after an instant: what it was then.
    pub(super) fn retimed_since(&self, at: DateTime<Utc>) -> Option<&AuditView> {
        let is_later = |it: &&AuditView| it.made.is_some_and(|made| made > at);
        self.changes.iter().rev().filter(|it| it.fields.contains(&ScheduleField::Trigger)).find(is_later)
    }

    /// When the schedule of this name was made, if the audit still has that.
    pub(super) fn creation(&self) -> Option<&AuditView> {
        let is_one = |it: &&AuditView| defines(&it.verb) && it.was.is_empty() && !it.became.is_empty();
        self.changes.iter().rev().find(is_one)
    }

    /// The removal after which the schedule was not there at an instant, and what made it again since.
    pub(super) fn removal_before(&self, at: DateTime<Utc>) -> Option<(&AuditView, Option<&AuditView>)> {
        let removal = self.change("remove", |it| it.made.is_some_and(|made| made <= at))?;
        let again = self.changes.iter().rev().find(|it| defines(&it.verb) && it.id > removal.id);
        let is_back = again.is_some_and(|it| it.made.is_some_and(|made| made <= at));
        (!is_back).then_some((removal, again))
    }

    /// The pause that held a fire time until a change at `ended`, and the change that ended that pause. One
    /// that had begun by the fire time comes first.
    pub(super) fn pause_at(
        &self,
        at: Option<DateTime<Utc>>,
        ended: Option<DateTime<Utc>>,
    ) -> Option<(&AuditView, Option<&AuditView>)> {
        let ended = ended?;
        let lasted = |end: Option<&AuditView>| {
            end.is_none_or(|end| end.made.is_some_and(|made| made >= ended - SAME_CHANGE))
        };
        let pauses = self.changes.iter().filter(|it| it.verb == "pause" && it.target_type != "node");
        let held = pauses.filter(|it| it.made <= Some(ended)).map(|it| (it, self.end_of_pause(it)));
        let held: Vec<_> = held.filter(|(_, end)| lasted(*end)).collect();
        held.iter().find(|(begin, _)| begin.made <= at).or(held.first()).copied()
    }

    /// The change that ended a pause.
    pub(super) fn end_of_pause(&self, pause: &AuditView) -> Option<&AuditView> {
        let is_its = |it: &&AuditView| (&it.target_type, &it.target) == (&pause.target_type, &pause.target);
        let ends = |it: &&AuditView| matches!(&*it.verb, "resume" | "remove") && it.id > pause.id;
        self.changes.iter().rev().filter(is_its).find(ends)
    }

    /// That it was missed until `found`. The policy is that of now, unless it was another then.
    pub(super) fn misfire(&self, at: Option<DateTime<Utc>>, found: Option<DateTime<Utc>>) -> Because {
        let is_later = |it: &AuditView| it.made > found && it.fields.contains(&ScheduleField::Misfire);
        let plan = self.plan.as_ref().filter(|_| self.definition(is_later).is_none());
        let late = at.zip(found).map(|(at, found)| (found - at).to_std().unwrap_or_default());
        Because::Misfire { late, policy: plan.and_then(|plan| plan.misfire) }
    }

    /// Whether a live node has failed to send heartbeats; of a row that was written by hand nobody knows.
    pub(super) fn is_silent(&self, node: &NodeView) -> bool {
        let quiet = node.last_beat.map(|heard| (self.now - heard).to_std().unwrap_or_default());
        node.ended.is_none() && quiet.zip(node.silent_after).is_some_and(|(quiet, most)| quiet > most)
    }

    pub(super) fn live_nodes(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| node.ended.is_none())
    }
}

fn has_fire_time(timing: &Timing, at: DateTime<Utc>) -> Option<bool> {
    let at = at.timestamp_millis();
    timing.delay_ms().is_none().then(|| timing.after(at - 1) == Some(at))
}
