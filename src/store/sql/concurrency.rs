//! Jobs of which so many executions may run at once, on all nodes.
//!
//! A claim of such a job locks its row in QRTZ_JOB, so that claims of one job come one after the other, and
//! counts what is under way. A row that somebody holds is not waited for: other jobs' claims would wait,
//! too. QRTZ_CONCURRENT names what may be; the executions' own states say what is. So an outcome writes
//! nothing more than without a limit, and nothing is left behind by a death.

use super::dialect::Dialect;
use super::fault::Step;
use super::session::Session;
use super::statement::{Row, Statement, sql};
use crate::domain::Entry;

/// What became of the attempt to lock a job's row.
pub(super) enum Lock {
    Locked(Locked),
    Held,
    /// None of the schedules is the job's any more.
    Gone,
}

/// A job's row, locked by this transaction.
pub(super) struct Locked {
    job: i64,
    /// How many more may be claimed.
    pub free: usize,
}

/// Locks the job of these schedules, which all were of this one when they were read, and counts.
pub(super) fn lock(session: &mut dyn Session, entries: &[&Entry]) -> Step<Lock> {
    let dialect = session.dialect();
    let Some(job) = entries.first().map(|entry| &*entry.job) else { return Ok(Lock::Gone) };
    let row = sql("SELECT j.id FROM QRTZ_JOB j WHERE j.job_class = ?").bind(job);
    let row = row.push(" AND j.id IN (SELECT e.pid FROM QRTZ_EXECUTE e WHERE e.id IN ");
    let row = row.list(entries.iter().map(|entry| entry.id.0)).push(")");
    let Some(job) = session.rows(&row)?.pop().map(|mut row| row.int()).transpose()? else {
        return Ok(Lock::Gone);
    };
    let row = sql("SELECT j.concurrency FROM QRTZ_JOB j WHERE j.id = ?").bind(job);
    let Some(mut row) = session.rows(&row.push(&dialect.lock_free("j")))?.pop() else {
        return Ok(Lock::Held);
    };
    let Some(most) = usize::try_from(row.loose_int()?).ok().filter(|most| *most > 0) else {
        return Ok(Lock::Locked(Locked { job, free: usize::MAX }));
    };
    let read = |mut row: Row| Ok((row.int()?, row.int()? == 1));
    let noted: Vec<(i64, bool)> =
        session.rows(&noted(dialect, job))?.into_iter().map(read).collect::<Step<_>>()?;
    let ended: Vec<i64> = noted.iter().filter(|(_, runs)| !runs).map(|(id, _)| *id).collect();
    for some in ended.chunks(dialect.batch()) {
        let delete = sql("DELETE FROM QRTZ_CONCURRENT WHERE job_id = ?").bind(job);
        session.execute(&delete.push(" AND execution_id IN ").list(some.iter().copied()))?;
    }
    Ok(Lock::Locked(Locked { job, free: most.saturating_sub(noted.len() - ended.len()) }))
}

/// Notes the executions that were claimed.
pub(super) fn note(session: &mut dyn Session, locked: &Locked, executions: &[i64]) -> Step<()> {
    let leave = session.dialect().or_leave("QRTZ_CONCURRENT", "job_id");
    for some in executions.chunks(session.dialect().batch()) {
        let rows = vec!["(?, ?)"; some.len()].join(", ");
        let insert = sql(format!("INSERT INTO QRTZ_CONCURRENT (job_id, execution_id) VALUES {rows}{leave}"));
        session.execute(&some.iter().fold(insert, |insert, id| insert.bind(locked.job).bind(*id)))?;
    }
    Ok(())
}

/// The executions of a job that may be under way, and whether they are: claimed, or beyond their time limits.
pub(super) fn noted(dialect: Dialect, job: i64) -> Statement {
    sql(format!(
        "SELECT c.execution_id, CASE WHEN r.state IN ('CLAIMED', 'RUNNING') \
         OR (r.state = 'TIMED_OUT' AND r.finished_time = -1) THEN 1 ELSE 0 END AS runs \
         FROM QRTZ_CONCURRENT c LEFT JOIN QRTZ_RUN r ON {} WHERE c.job_id = ?",
        dialect.seek("r.id", "c.execution_id")
    ))
    .bind(job)
}
