//! Removes executions that were enqueued, with their keys and tags, once they have ended long enough ago.

use std::collections::HashMap;

use super::purge;
use crate::domain::{JobId, Millis, ScheduleId, Timestamp};
use crate::store::columns::NONE;
use crate::store::enqueue::{origins_before, queue_of};
use crate::store::sql::claim::bounds;
use crate::store::sql::rows::policy;
use crate::store::sql::session::batch::{BatchRows, delete};
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, answer, sql};
use crate::store::sql::session::{Session, now};
use crate::store::sql::verbs::queue::{remove_tags, tags};
use crate::store::sql::verbs::{requests, said};
use crate::store::{PurgedQueues, QueuePlace, QueueWalk};

answer! {
    /// An attempt at an enqueued execution.
    struct Attempt() {
        origin: i64 = "r.origin", Row::int;
        /// None while it has not ended.
        ended: Option<Timestamp> = "CASE WHEN r.state IN ('PENDING', 'CLAIMED', 'RUNNING') \
            OR r.scheduled_time >= ? THEN 0 ELSE 1 END AS is_over, r.finished_time",
            |row| { let is_over = row.flag()?; Ok(row.time()?.filter(|_| is_over)) };
        /// Its key and the key's period.
        key: Option<(String, Millis)> = "r.unique_key, r.key_period",
            |row| { let key = row.maybe_text()?; Ok(key.zip(Some(row.maybe_int()?.unwrap_or(NONE)))) };
        tags: Vec<String> = "r.tags", tags;
        id: i64 = "r.id", Row::int;
        group: Option<String> = "r.group_key", Row::maybe_text;
    }
}

/// A step also removes as many requests of other programs.
pub(crate) fn purge(session: &mut dyn Session, walk: &QueueWalk) -> Step<PurgedQueues> {
    let now = now(session)?;
    requests::purge(session, &walk.application, walk.before(now, 0), walk.limit)?;
    let (job, queue, span) = match next_queue(session, walk)? {
        NextQueue::Of { job, queue, span } => (job, queue, span),
        NextQueue::NoneUpTo(job) => {
            return Ok(PurgedQueues { executions: 0, next: job.map(QueuePlace::behind) });
        }
    };
    let after = if job == walk.after.job { walk.after.origin } else { i64::MIN };
    let before = walk.before(now, span);
    let (attempts, is_last) = page(session, queue, after, before, walk.limit)?;
    let reached = attempts.last().map_or(i64::MAX, |attempt| attempt.origin);
    let of_one = attempts.chunk_by(|one, other| one.origin == other.origin);
    let is_old = |attempt: &Attempt| attempt.ended.is_some_and(|ended| ended < before);
    let old: Vec<&[Attempt]> = of_one.filter(|attempts| attempts.iter().all(is_old)).collect();
    let firsts: Vec<&Attempt> = old.iter().filter_map(|attempts| attempts.first()).collect();
    remove_keys(session, queue, &firsts)?;
    let tags: Vec<(i64, &Vec<String>)> =
        old.iter().copied().flatten().map(|it| (it.origin, &it.tags)).collect();
    remove_tags(session, queue, &tags)?;
    let grouped = old.iter().copied().flatten().filter_map(|it| Some((it.id, it.group.as_deref()?)));
    bounds::forget(session, job, &grouped.collect::<Vec<_>>())?;
    let origins: Vec<i64> = firsts.iter().map(|attempt| attempt.origin).collect();
    let removed = purge::remove(session, &origins, |dialect, origins| {
        let want = BatchRows::new(origins.iter().copied()).same("queue", queue.0);
        let condition = dialect.seek("r.execute_id", "w.queue") + " AND r.generation = 0 AND r.origin = w.id";
        delete(dialect, ("QRTZ_RUN", "r"), &want, &condition)
    })?;
    if removed != old.iter().map(|attempts| attempts.len()).sum::<usize>() {
        return Err(Fault::new(FaultKind::Conflict, "rows to be purged are no longer as they were seen"));
    }
    said::forget(session, &walk.application, walk.before(now, 0), 2 * walk.limit)?;
    let next = if is_last { QueuePlace::behind(job) } else { QueuePlace { job, origin: reached } };
    Ok(PurgedQueues { executions: origins.len(), next: Some(next) })
}

/// The oldest executions of a queue behind an origin, each with all its attempts; and whether no more follow.
fn page(
    session: &mut dyn Session,
    queue: ScheduleId,
    after: i64,
    before: Timestamp,
    limit: usize,
) -> Step<(Vec<Attempt>, bool)> {
    let mut read = |after: i64, until: i64, limit: usize| -> Step<Vec<Attempt>> {
        session.all(&oldest(queue, after, until, before, limit), Attempt::read)
    };
    let mut attempts = read(after, origins_before(before), limit)?;
    let Some(last) = attempts.last().map(|attempt| attempt.origin).filter(|_| attempts.len() >= limit) else {
        return Ok((attempts, true));
    };
    // More attempts of the last one may follow: the next page begins with it. One that fills a page is read
    // whole.
    if attempts.iter().any(|attempt| attempt.origin != last) {
        attempts.retain(|attempt| attempt.origin != last);
    } else {
        attempts = read(last - 1, last + 1, usize::MAX / 2)?;
    }
    Ok((attempts, false))
}

/// Removes the rows of these executions' keys, unless they name others by now.
fn remove_keys(session: &mut dyn Session, queue: ScheduleId, executions: &[&Attempt]) -> Step<()> {
    let key = |it: &&Attempt| it.key.as_ref().map(|(key, period)| (it.origin, key.clone(), *period));
    let keys: Vec<(i64, String, Millis)> = executions.iter().filter_map(key).collect();
    purge::remove(session, &keys, |dialect, keys| {
        let want = BatchRows::new(keys.iter().map(|(origin, ..)| *origin))
            .texts("unique_key", keys.iter().map(|(_, key, _)| key.clone()))
            .ints("key_period", keys.iter().map(|(.., period)| *period))
            .same("queue", queue.0);
        let condition = "k.unique_key = w.unique_key AND k.execute_id = w.queue \
                         AND k.key_period = w.key_period AND k.origin = w.id";
        delete(dialect, ("QRTZ_KEY", "k"), &want, condition)
    })?;
    Ok(())
}

/// Where a walk goes on.
enum NextQueue {
    Of {
        job: JobId,
        queue: ScheduleId,
        /// In which its executions count towards a rate of the job or its groups.
        span: Millis,
    },
    /// The jobs up to this one have none; all that are left if it is none.
    NoneUpTo(Option<JobId>),
}

fn next_queue(session: &mut dyn Session, walk: &QueueWalk) -> Step<NextQueue> {
    /// How many jobs are looked at.
    const PAGE: usize = 256;
    let QueuePlace { job, origin } = walk.after;
    let from = job.0.saturating_add(i64::from(origin == i64::MAX));
    let jobs = sql(format!(
        "SELECT j.id, j.job_class, {} FROM QRTZ_JOB j WHERE j.application = ? AND j.id >= ? ORDER BY j.id \
         LIMIT ?",
        policy::bounds_columns("j")
    ));
    let jobs = jobs.bind(walk.application.as_str()).bind(from).bind(PAGE);
    let jobs: Vec<(JobId, String, Millis)> = session.all(&jobs, |row| {
        Ok((JobId(row.int()?), queue_of(&row.loose_text()?), policy::bounds(row)?.span()))
    })?;
    let Some((last, ..)) = jobs.last() else {
        return Ok(NextQueue::NoneUpTo(None));
    };
    let queues =
        sql("SELECT e.name, e.id FROM QRTZ_EXECUTE e WHERE e.job_type = 'QUEUE' AND e.application = ? \
                      AND e.name IN ");
    let queues = queues.bind(walk.application.as_str()).list(jobs.iter().map(|(_, name, _)| name.as_str()));
    let queues: HashMap<String, ScheduleId> =
        session.all(&queues, |row| Ok((row.loose_text()?, ScheduleId(row.int()?))))?;
    let mut of_jobs = jobs.iter().filter_map(|(job, name, span)| Some((*job, *queues.get(name)?, *span)));
    Ok(match of_jobs.next() {
        Some((job, queue, span)) => NextQueue::Of { job, queue, span },
        None => NextQueue::NoneUpTo((jobs.len() == PAGE).then_some(*last)),
    })
}

/// The attempts at executions whose origins lie behind one and before another, the oldest first.
pub(crate) fn oldest(
    queue: ScheduleId,
    after: i64,
    until: i64,
    before: Timestamp,
    limit: usize,
) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_RUN r WHERE r.execute_id = ? AND r.generation = 0 \
         AND r.origin > ? AND r.origin < ? \
         ORDER BY r.execute_id, r.generation, r.origin, r.scheduled_time, r.attempt LIMIT ?",
        Attempt::columns()
    ))
    .bind_all((before, queue, after, until, limit))
}
