//! Jobs with bounds: so many of their executions run at once, or begin within a span of time, on all nodes.
//!
//! A claim of such a job locks its row in QRTZ_JOB, so that claims of one job come one after the other, and
//! counts. A row that somebody holds is not waited for: other jobs' claims would wait, too. QRTZ_BOUNDED
//! names the executions that may count; their own states say which are under way. So an outcome writes
//! nothing more than without a bound, and nothing is left behind by a death. Where only groups have bounds, a
//! claim reads and writes nothing of other groups than its own. The time by which rates count is the
//! database's, read under the lock.

use std::collections::BTreeSet;

use crate::domain::{Entry, JobId, Noted, Room, Timestamp};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::rows::policy;
use crate::store::sql::session::Session;
use crate::store::sql::session::batch::{BatchRows, delete};
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, sql};

/// What became of the attempt to lock a job's row.
pub(crate) enum Lock {
    Locked(Locked),
    Held,
    /// None of the schedules is the job's any more.
    Gone,
}

/// A job's row, locked by this transaction.
pub(crate) struct Locked {
    job: JobId,
    /// What may be claimed; none if the job has no bounds any more.
    pub room: Option<Room>,
}

/// Locks the job of these schedules, which all were of this one when they were read, and counts for
/// executions of these groups.
pub(crate) fn lock(session: &mut dyn Session, entries: &[&Entry], groups: &[Option<&str>]) -> Step<Lock> {
    let dialect = session.dialect();
    let Some(name) = entries.first().map(|entry| &*entry.job) else { return Ok(Lock::Gone) };
    let row = sql("SELECT j.id FROM QRTZ_JOB j WHERE j.job_class = ?").bind(name);
    let row = row.push(" AND j.id IN (SELECT e.pid FROM QRTZ_EXECUTE e WHERE e.id IN ");
    let row = row.list(entries.iter().map(|entry| entry.id.0)).push(")");
    let Some(job) = session.one(&row, |row| row.int().map(JobId))? else { return Ok(Lock::Gone) };
    let (bounds, clock) = (policy::bounds_columns("j"), dialect.clock());
    let row = sql(format!("SELECT {bounds}, {clock} AS now FROM QRTZ_JOB j WHERE j.id = ?")).bind(job);
    let row = row.push(&dialect.lock_free("j"));
    let seen = session.one(&row, |row| Ok((policy::bounds(row)?, row.instant()?)))?;
    let Some((bounds, now)) = seen else { return Ok(Lock::Held) };
    if bounds.is_none() {
        return Ok(Lock::Locked(Locked { job, room: None }));
    }
    if let Some(touch) = dialect.touch().filter(|_| session.certifies()) {
        // A claim on another member must see this one, or be refused.
        let touch = sql(format!("UPDATE QRTZ_JOB SET {touch} WHERE id = ? AND job_class = ?"));
        session.execute(&touch.bind(job).bind(name))?;
    }
    let read = |row: &mut Row| {
        let (id, runs, begins, group) = (row.int()?, row.int()? == 1, row.instant()?, row.text()?);
        Ok((id, Noted { group: Some(group).filter(|group| !group.is_empty()), begins, runs }))
    };
    let of_groups_alone = !bounds.apply_to(None);
    let only = of_groups_alone.then(|| groups.iter().flatten().copied().collect::<BTreeSet<&str>>());
    let noted: Vec<(i64, Noted)> = match only {
        Some(groups) if groups.is_empty() => Vec::new(),
        only => session.all(&noted(dialect, job, only), read)?,
    };
    let (room, over) = Room::of_noted(bounds, now, noted);
    let over: Vec<(i64, &str)> =
        over.iter().map(|(id, it)| (*id, it.group.as_deref().unwrap_or_default())).collect();
    forget(session, job, &over)?;
    Ok(Lock::Locked(Locked { job, room: Some(room) }))
}

/// An execution that was claimed, when it is due, and its group.
pub(crate) type Won<'a> = (i64, Timestamp, Option<&'a str>);

/// Notes the executions that were claimed, where they count. One that was handed back and is claimed again
/// counts from now on.
pub(crate) fn note(session: &mut dyn Session, locked: &Locked, executions: &[Won<'_>]) -> Step<()> {
    let Some(room) = &locked.room else { return Ok(()) };
    let counted = executions.iter().filter(|(.., group)| room.bounds().apply_to(*group));
    let executions: Vec<&Won<'_>> = counted.collect();
    let dialect = session.dialect();
    let again = dialect.or_set("job_id, group_key, execution_id", &["begin_time"]);
    for some in executions.chunks(dialect.batch()) {
        let want = BatchRows::new(some.iter().map(|(id, ..)| *id))
            .texts("group_key", some.iter().map(|(.., group)| group.unwrap_or("").to_owned()))
            .same("job", locked.job)
            .times("begins", some.iter().map(|(_, due, _)| room.begins(*due)));
        let insert = sql("INSERT INTO QRTZ_BOUNDED (job_id, execution_id, begin_time, group_key) \
                          SELECT w.job, w.id, w.begins, w.group_key FROM ");
        session.execute(&insert.want(dialect, &want).push(" WHERE w.id <> -1").push(&again))?;
    }
    Ok(())
}

/// The executions of a job that may count, or those of some groups: whether each is under way (claimed, or
/// beyond its time limit), when it was to begin, and its group.
pub(crate) fn noted(dialect: Dialect, job: JobId, groups: Option<BTreeSet<&str>>) -> Statement {
    let noted = sql(format!(
        "SELECT c.execution_id, CASE WHEN r.state IN ('CLAIMED', 'RUNNING') \
         OR (r.state = 'TIMED_OUT' AND r.finished_time = -1) THEN 1 ELSE 0 END AS runs, c.begin_time, \
         c.group_key FROM QRTZ_BOUNDED c LEFT JOIN QRTZ_RUN r ON {} WHERE c.job_id = ?",
        dialect.seek("r.id", "c.execution_id")
    ))
    .bind(job);
    match groups {
        Some(groups) => noted.push(" AND c.group_key IN ").list(groups),
        None => noted,
    }
}

/// Forgets executions of a job, each with its group.
pub(crate) fn forget(session: &mut dyn Session, job: JobId, executions: &[(i64, &str)]) -> Step<()> {
    let dialect = session.dialect();
    for some in executions.chunks(dialect.batch()) {
        let want = BatchRows::new(some.iter().map(|(id, _)| *id))
            .texts("group_key", some.iter().map(|(_, group)| (*group).to_owned()))
            .same("job", job);
        let condition = "c.job_id = w.job AND c.group_key = w.group_key AND c.execution_id = w.id";
        session.execute(&delete(dialect, ("QRTZ_BOUNDED", "c"), &want, condition))?;
    }
    Ok(())
}
