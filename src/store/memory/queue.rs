//! Executions that are enqueued.

use std::sync::Arc;

use super::rows::{Run, Schedule, Shape, Text};
use super::tables::Tables;
use crate::domain::{Error, ErrorKind, ExecutionId, ExecutionState, JobSpec, Reason, Token};
use crate::store::enqueue::{EnqueueOrder, QueueRow, first_origin, origins_before, queue_of};
use crate::store::when::NONE;
use crate::store::{PurgedQueues, QueuePlace, QueueWalk, Result};

impl Tables {
    pub(super) fn enqueue(&mut self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>> {
        let queue = self.queue(&order.application, &order.job)?;
        let (application, due) = (self.application(&order.application), order.due(self.now));
        let run = |(payload, origin): (&String, i64)| Run {
            schedule: queue,
            application: Arc::clone(&application),
            generation: 0,
            origin,
            scheduled: due,
            until: None,
            count: 1,
            attempt: 1,
            state: ExecutionState::Pending.as_str().into(),
            reason: Reason::Enqueued.as_str().into(),
            cause: Some(Reason::Enqueued.as_str()),
            payload: Some(payload.as_str().into()),
            priority: order.priority,
            due,
            token: Some(Token::fresh()),
            fence: 0,
            node: None,
            claimed: None,
            started: None,
            finished: None,
            prev: None,
            following: None,
            holder: None,
            error: String::new(),
            failures: 0,
            snoozes: 0,
        };
        let taken = |_| Error::new(ErrorKind::Conflict, "enqueue: others have drawn the same origins");
        let chance = self.fresh_id();
        let origins = first_origin(self.now, u128::from(chance.unsigned_abs()))..;
        let runs: Vec<Run> = order.payloads.iter().zip(origins).map(run).collect();
        runs.into_iter().map(|run| self.insert_run(run).map_err(taken)).collect()
    }

    /// The job's queue, made if it is missing.
    fn queue(&mut self, application: &str, job: &JobSpec) -> Result<i64> {
        if let Some(queue) = self.schedule_named(application, &queue_of(&job.name)) {
            return Ok(queue);
        }
        let job_id = self.put_job(application, job);
        let row = QueueRow::new(job, job_id)
            .map_err(|error| Error::new(ErrorKind::Data, format!("enqueue: {error}")))?;
        let schedule = Schedule {
            application: self.application(application),
            name: row.name.into(),
            shard: 0,
            state: Text::Borrowed(QueueRow::STATE.as_str()),
            settings: row.settings,
            shape: Arc::new(Shape::from(row.when)),
            prev: Some(NONE),
            next: Some(NONE),
            triggered: 0,
            version: 0,
            generation: 0,
            fence: 0,
            reason: "".into(),
            paused_by: "".into(),
            paused: None,
            paused_until: None,
            resumed: None,
            slot: None,
        };
        let id = self.fresh_id();
        self.put_schedule(id, schedule);
        Ok(id)
    }

    pub(super) fn purge_queues(&mut self, walk: &QueueWalk) -> PurgedQueues {
        let before = self.now.saturating_sub(walk.keep);
        let QueuePlace { job: from, origin: behind } = walk.after;
        let queues = self.index(&walk.application).into_iter().flat_map(|index| index.schedules.values());
        let queues = queues.filter_map(|id| Some((self.schedule(*id)?.job(), *id)));
        let is_queue = |id: i64| self.schedule(id).is_some_and(Schedule::is_queue);
        let is_left = |job: i64| job > from || job == from && behind < i64::MAX;
        let next = queues.filter(|(job, id)| is_queue(*id) && is_left(*job)).min();
        let Some((job, queue)) = next else { return PurgedQueues::default() };
        let after = if job == from { behind } else { i64::MIN };
        let rows = self.ledger(queue).filter(|(_, run)| run.origin > after);
        let rows: Vec<(ExecutionId, i64, bool)> = rows
            .take_while(|(_, run)| run.origin < origins_before(before))
            .map(|(id, run)| (id, run.origin, super::purge::has_ended(run, before)))
            .collect();
        let of_one: Vec<_> = rows.chunk_by(|one, other| one.1 == other.1).take(walk.limit).collect();
        let old: Vec<_> = of_one.iter().filter(|rows| rows.iter().all(|row| row.2)).collect();
        let reached = of_one.last().and_then(|rows| rows.first()).map_or(i64::MAX, |row| row.1);
        let is_last = of_one.len() < walk.limit;
        old.iter().for_each(|rows| rows.iter().for_each(|row| self.remove_run(row.0)));
        let next = if is_last { QueuePlace::behind(job) } else { QueuePlace { job, origin: reached } };
        PurgedQueues { executions: old.len(), next: Some(next) }
    }
}
