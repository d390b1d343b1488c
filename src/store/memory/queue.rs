//! Executions that are enqueued.

use std::sync::Arc;

use super::rows::{Execution, Schedule, Text};
use super::tables::Tables;
use crate::domain::headers;
use crate::domain::{Error, ErrorKind, ExecutionId, ExecutionState, JobId, JobSpec, Millis, Reason};
use crate::store::enqueue::{
    EnqueueOrder, Keyed, OnConflict, QueueRow, first_origin, origins_before, queue_of,
};
use crate::store::{Change, PurgedQueues, QueuePlace, QueueWalk, Result};

impl Tables {
    pub(super) fn enqueue(&mut self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>> {
        let chance = self.fresh_id();
        self.enqueue_from(order, first_origin(self.now, u128::from(chance.unsigned_abs())), None)
    }

    /// One execution with a key, unless another keeps that.
    pub(super) fn enqueue_unique(&mut self, order: &EnqueueOrder) -> Result<Keyed> {
        let missing = || Error::new(ErrorKind::Data, "an execution without a key").during("enqueue");
        let unique = order.key.as_ref().ok_or_else(missing)?;
        let queue = self.queue(&order.application, &order.job)?;
        let (due, chance) = (order.due(self.now), self.fresh_id());
        let key = (queue, Arc::<str>::from(unique.key.as_str()), unique.period(due));
        if let Some(open) = self.keeper(&key) {
            let is_as_enqueued =
                |run: &Execution| run.is(ExecutionState::Pending) && run.reason == Reason::Enqueued.as_str();
            let waits = self.run(open).filter(|run| is_as_enqueued(run));
            let token = waits.filter(|_| unique.on_conflict == OnConflict::Replace).and_then(|run| run.token);
            let change = token.map(|token| Change::Replace(order.replacing(open, token, due)));
            let is_replaced = change.is_some_and(|change| self.change_run(&change, open));
            return Ok(if is_replaced { Keyed::Replaced(open) } else { Keyed::Existing(open) });
        }
        let origin = first_origin(self.now, u128::from(chance.unsigned_abs()));
        let ids = self.enqueue_from(order, origin, Some((Arc::clone(&key.1), key.2)))?;
        self.keys.insert(key, origin);
        ids.first().copied().map(Keyed::Created).ok_or_else(missing)
    }

    /// The last attempt at the execution that was enqueued last with a key, if it has not ended.
    pub(super) fn keeper(&self, key: &(i64, Arc<str>, Millis)) -> Option<ExecutionId> {
        let origin = *self.keys.get(key)?;
        let has_key = |run: &Execution| run.key.as_ref().is_some_and(|it| (&it.0, it.1) == (&key.1, key.2));
        let own = self.ledger(key.0).filter(|(_, run)| run.origin == origin && has_key(run));
        let (id, last) = own.max_by_key(|(_, run)| run.attempt)?;
        let runs_on = last.is(ExecutionState::TimedOut) && last.finished.is_none();
        let is_over = last.state.parse().is_ok_and(ExecutionState::is_terminal);
        (!is_over || runs_on).then_some(id).filter(|_| !self.hooks.forgets_keys)
    }

    fn enqueue_from(
        &mut self,
        order: &EnqueueOrder,
        origin: i64,
        key: Option<(Arc<str>, Millis)>,
    ) -> Result<Vec<ExecutionId>> {
        let queue = self.queue(&order.application, &order.job)?;
        let (application, due) = (self.application(&order.application), order.due(self.now));
        let headers: Option<Arc<str>> = headers::column(&order.headers).map(Into::into);
        let run = |(place, (payload, origin)): (usize, (&String, i64))| Execution {
            payload: Some(payload.as_str().into()),
            group: order.group(place),
            lane: order.lane(),
            tags: order.tags.clone(),
            headers: headers.clone(),
            priority: order.priority,
            key: key.clone(),
            ..Execution::asked(queue, &application, due, (origin, Reason::Enqueued))
        };
        let taken =
            |_| Error::new(ErrorKind::Conflict, "others have drawn the same origins").during("enqueue");
        let runs: Vec<Execution> = order.payloads.iter().zip(origin..).enumerate().map(run).collect();
        runs.into_iter().map(|run| self.insert_run(run).map_err(taken)).collect()
    }

    /// The job's queue, made if it is missing.
    fn queue(&mut self, application: &str, job: &JobSpec) -> Result<i64> {
        if let Some(queue) = self.schedule_named(application, &queue_of(&job.name)) {
            return Ok(queue);
        }
        let job_id = self.put_job(application, job);
        let row = QueueRow::new(job, job_id)
            .map_err(|error| Error::new(ErrorKind::Data, error.to_string()).during("enqueue"))?;
        let (name, state) = ((self.application(application), &*row.name), QueueRow::STATE.stored());
        let schedule = Schedule::new(name, Text::Borrowed(state), row.settings, row.when.into());
        let id = self.fresh_id();
        self.put_schedule(id, schedule);
        Ok(id)
    }

    pub(super) fn purge_queues(&mut self, walk: &QueueWalk) -> PurgedQueues {
        self.purge_requests(&walk.application, walk.before(self.now, 0));
        let QueuePlace { job: from, origin: behind } = walk.after;
        let queues = self.index(&walk.application).into_iter().flat_map(|index| index.schedules.values());
        let queues = queues.filter_map(|id| Some((self.schedule(*id)?.job(), *id)));
        let is_queue = |id: i64| self.schedule(id).is_some_and(Schedule::is_queue);
        let is_left = |job: JobId| job > from || job == from && behind < i64::MAX;
        let next = queues.filter(|(job, id)| is_queue(*id) && is_left(*job)).min();
        let Some((job, queue)) = next else { return PurgedQueues::default() };
        let after = if job == from { behind } else { i64::MIN };
        let span = self.jobs.get(&job).map_or(0, |job| job.settings.policy.bounds.span());
        let before = walk.before(self.now, span);
        let rows = self.ledger(queue).filter(|(_, run)| run.origin > after);
        let rows: Vec<(ExecutionId, i64, bool)> = rows
            .take_while(|(_, run)| run.origin < origins_before(before))
            .map(|(id, run)| (id, run.origin, super::purge::has_ended(run, before)))
            .collect();
        let of_one: Vec<_> = rows.chunk_by(|one, other| one.1 == other.1).take(walk.limit).collect();
        let old: Vec<_> = of_one.iter().filter(|rows| rows.iter().all(|row| row.2)).collect();
        let reached = of_one.last().and_then(|rows| rows.first()).map_or(i64::MAX, |row| row.1);
        let is_last = of_one.len() < walk.limit;
        for row in old.iter().flat_map(|rows| rows.iter()) {
            let key = self.run(row.0).and_then(|run| run.key.clone());
            if let Some(key) = key.map(|(key, period)| (queue, key, period))
                && self.keys.get(&key) == Some(&row.1)
            {
                self.keys.remove(&key);
            }
            self.bounded.remove(&(job, row.0.0));
            self.remove_run(row.0);
        }
        self.forget_said(walk.before(self.now, 0));
        let next = if is_last { QueuePlace::behind(job) } else { QueuePlace { job, origin: reached } };
        PurgedQueues { executions: old.len(), next: Some(next) }
    }
}
