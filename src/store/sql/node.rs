//! Registration, heartbeat, death.

use std::collections::HashMap;

use super::connection::Dialect;
use super::repair::guarded_by;
use super::session::{Fault, Session};
use super::statement::{Row, Statement, Value, Want, batch, seek, sql, update};
use super::under_way::{Whose, owns, sweep, under_way};
use crate::domain::{ExecutionId, JobPolicy, JobSpec, Millis, NodeId, ScheduleId, Token};
use crate::store::guard::{self, Column};
use crate::store::{Beat, NewNode, Peer, Pulse, Stranded, called};
use crate::time::{millis, span};

pub(super) fn register(session: &mut dyn Session, node: &NewNode) -> Result<(), Fault> {
    app(session, &node.application)?;
    own_jobs(session, &node.application, &node.jobs, node.now)?;
    let names: Vec<&str> = node.jobs.iter().map(|job| job.name.as_str()).collect();
    let names = serde_json::to_string(&names).map_err(|error| Fault::undecodable(error.to_string()))?;
    session.execute(
        &sql("INSERT INTO QRTZ_NODE (uuid, application, host_ip, host_name, pid, jobs, started_time, beat_time) \
              VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(node.id.to_string())
        .bind(node.application.as_str())
        .bind(node.host_ip.as_str())
        .bind(node.host_name.as_str())
        .bind(i64::from(node.pid))
        .bind(names)
        .bind(node.now)
        .bind(node.now),
    )?;
    Ok(())
}

/// The application's row, made if missing; true if it was.
pub(super) fn app(session: &mut dyn Session, application: &str) -> Result<bool, Fault> {
    let known = sql("SELECT COUNT(*) FROM QRTZ_APP WHERE application = ?").bind(application);
    let missing = super::statement::single(session.rows(&known)?)? == 0;
    if missing {
        let insert = sql("INSERT INTO QRTZ_APP (application) VALUES (?)").bind(application);
        session.execute(&insert.push(&session.dialect().or_leave("QRTZ_APP", "application")))?;
    }
    Ok(missing)
}

/// The rows of the jobs this node has handlers for, with their policies; a few statements, however many.
fn own_jobs(
    session: &mut dyn Session,
    application: &str,
    specs: &[JobSpec],
    now: Millis,
) -> Result<(), Fault> {
    let mut specs: Vec<&JobSpec> = specs.iter().collect();
    specs.sort_by(|one, other| one.name.cmp(&other.name));
    for specs in specs.chunks(batch(session.dialect())) {
        let rows = jobs_there(session, application, specs, now)?;
        let changed = specs.iter().filter_map(|spec| {
            let (id, policy) = *rows.get(&spec.name)?;
            (policy != spec.policy).then_some((id, policy, spec.policy))
        });
        let changed: Vec<(i64, JobPolicy, JobPolicy)> = changed.collect();
        // Where another node has just written its own policy nothing is changed: the last to start wins anyway.
        if !changed.is_empty() {
            session.execute(&policies(session.dialect(), &changed, now))?;
        }
    }
    Ok(())
}

/// Gives jobs, each with its id and the policy its row had when it was read, another policy.
fn policies(dialect: Dialect, changed: &[(i64, JobPolicy, JobPolicy)], now: Millis) -> Statement {
    const SETS: &[(&str, &str)] = &[
        ("recover", "w.recover"),
        ("max_attempts", "w.max_attempts"),
        ("max_tries", "w.max_tries"),
        ("retry_delay", "w.retry_delay"),
        ("update_time", "w.now"),
    ];
    let old = || changed.iter().map(|(_, old, _)| *old);
    let new = || changed.iter().map(|(_, _, new)| *new);
    let want = Want::new(changed.iter().map(|(id, ..)| *id))
        .ints("recover", new().map(|it| i64::from(it.recover)))
        .ints("max_attempts", new().map(|it| i64::from(it.max_attempts)))
        .ints("max_tries", new().map(|it| i64::from(it.max_tries)))
        .ints("retry_delay", new().map(|it| millis(it.retry_delay)))
        .ints("was_recover", old().map(|it| i64::from(it.recover)))
        .ints("was_attempts", old().map(|it| i64::from(it.max_attempts)))
        .ints("was_tries", old().map(|it| i64::from(it.max_tries)))
        .ints("was_delay", old().map(|it| millis(it.retry_delay)))
        .same("now", now);
    let guard = " AND j.recover = w.was_recover AND j.max_attempts = w.was_attempts \
                 AND j.max_tries = w.was_tries AND j.retry_delay = w.was_delay";
    update(dialect, ("QRTZ_JOB", "j"), SETS, &want, &(seek(dialect, "j.id", "w.id") + guard))
}

/// The job's row: its id and its policy, which is that of `spec` if the row was missing.
pub(super) fn job(
    session: &mut dyn Session,
    application: &str,
    spec: &JobSpec,
    now: Millis,
) -> Result<(i64, JobPolicy), Fault> {
    let found = jobs_there(session, application, &[spec], now)?.remove(&spec.name);
    found.ok_or_else(|| Fault::undecodable(format!("job {:?} is not there after its INSERT", spec.name)))
}

/// The ids and policies of jobs by their names; the missing rows are made.
fn jobs_there(
    session: &mut dyn Session,
    application: &str,
    specs: &[&JobSpec],
    now: Millis,
) -> Result<HashMap<String, (i64, JobPolicy)>, Fault> {
    let rows = job_rows(session, application, specs)?;
    let missing: Vec<&&JobSpec> = specs.iter().filter(|spec| !rows.contains_key(&spec.name)).collect();
    if missing.is_empty() {
        return Ok(rows);
    }
    let mut insert = sql("INSERT INTO QRTZ_JOB (application, job_class, recover, max_attempts, max_tries, \
                          retry_delay, update_time) VALUES ");
    for (n, spec) in missing.into_iter().enumerate() {
        insert = insert.push(if n == 0 { "(" } else { ", (" });
        let values: [Value; 7] = [
            application.into(),
            spec.name.as_str().into(),
            i64::from(spec.policy.recover).into(),
            i64::from(spec.policy.max_attempts).into(),
            i64::from(spec.policy.max_tries).into(),
            millis(spec.policy.retry_delay).into(),
            now.into(),
        ];
        insert = insert.push("?, ?, ?, ?, ?, ?, ?)");
        insert = values.into_iter().fold(insert, Statement::bind);
    }
    session.execute(&insert.push(&session.dialect().or_leave("QRTZ_JOB", "job_class")))?;
    job_rows(session, application, specs)
}

fn job_rows(
    session: &mut dyn Session,
    application: &str,
    specs: &[&JobSpec],
) -> Result<HashMap<String, (i64, JobPolicy)>, Fault> {
    let question = sql("SELECT j.job_class, j.id, j.recover, j.max_attempts, j.max_tries, j.retry_delay \
                        FROM QRTZ_JOB j WHERE j.application = ? AND j.job_class IN ");
    let question = question.bind(application).list(specs.iter().map(|spec| spec.name.as_str()));
    let read = |mut row: Row| Ok((row.text()?, (row.int()?, policy(&mut row)?)));
    session.rows(&question)?.into_iter().map(read).collect()
}

/// Reads `recover, max_attempts, max_tries, retry_delay`.
fn policy(row: &mut Row) -> Result<JobPolicy, Fault> {
    let count = |value: i64| u32::try_from(value.max(1)).unwrap_or(u32::MAX);
    Ok(JobPolicy {
        recover: row.maybe_int()? != Some(0),
        max_attempts: count(row.loose_int()?),
        max_tries: count(row.loose_int()?),
        retry_delay: span(row.loose_int()?),
    })
}

/// Adds one to the node's beat, and may switch it off; false if its row is ended or gone, or its beat can
/// grow no more.
pub(super) fn beat(session: &mut dyn Session, beat: &Beat) -> Result<bool, Fault> {
    let update =
        sql("UPDATE QRTZ_NODE SET beat = beat + 1, beat_time = ?, threads = ?, busy = ?, queued = ?, \
                      state = CASE WHEN ? = 1 THEN 'N' ELSE state END \
                      WHERE uuid = ? AND ended_time = -1 AND beat < ?");
    let figures = beat.figures;
    let update = update.bind(beat.now).bind(figures.threads).bind(figures.busy).bind(figures.queued);
    let update = update.bind(i64::from(beat.withdraw));
    Ok(session.execute(&update.bind(beat.node.to_string()).bind(i64::MAX))? == 1)
}

pub(super) fn pulse(session: &mut dyn Session, beat: &Beat) -> Result<Pulse, Fault> {
    let (mut peers, mut owns) = (Vec::new(), false);
    for mut row in session.rows(&live(session.dialect(), &beat.application, beat.node))? {
        let (id, count, jobs) = (row.loose_text()?.parse(), row.maybe_int()?, row.loose_text()?);
        owns |= row.int()? == 1;
        // A row somebody wrote by hand is nobody's peer.
        if let (Ok(id), Some(beat)) = (id, count) {
            peers.push(Peer { id, beat, jobs: self::jobs(&jobs) });
        }
    }
    let owned = if owns { owned(session, beat)? } else { Vec::new() };
    Ok(Pulse::Alive { peers, owned })
}

/// The nodes not ended, and whether this one owns anything: mostly nothing else needs to be asked.
pub(super) fn live(dialect: Dialect, application: &str, node: NodeId) -> Statement {
    let question = sql("SELECT uuid, beat, CASE WHEN state = 'Y' THEN jobs ELSE '' END AS jobs, CASE WHEN ");
    owns(dialect, question, application, node)
        .push(" THEN 1 ELSE 0 END AS owns FROM QRTZ_NODE WHERE application = ? AND ended_time = -1 ORDER BY uuid")
        .bind(application)
}

fn owned(session: &mut dyn Session, beat: &Beat) -> Result<Vec<Stranded>, Fault> {
    let own = Whose::Node(beat.node);
    sweep(session, &beat.application, own)?;
    let question = under_way(session.dialect(), &beat.application, own);
    Ok(session.rows(&question)?.into_iter().filter_map(|mut row| stranded(&mut row).ok()).collect())
}

/// Reads a row of [`under_way`]; one that cannot be read was written by hand and is nobody's.
pub(super) fn stranded(row: &mut Row) -> Result<Stranded, Fault> {
    let (id, schedule, state) = (ExecutionId(row.int()?), ScheduleId(row.int()?), row.word()?);
    // A row without a readable token was written by hand; the nil token never matches, so it is left alone.
    let token = Token(uuid::Uuid::parse_str(&row.loose_text()?).unwrap_or_default());
    let attempt = u32::try_from(row.loose_int()?).unwrap_or(u32::MAX);
    let deaths = u32::try_from(row.int()?).unwrap_or(u32::MAX);
    let name = called(&row.loose_text()?, schedule);
    Ok(Stranded { id, schedule, name, state, token, attempt, deaths, policy: policy(row)? })
}

pub(super) fn declare_dead(
    session: &mut dyn Session,
    node: NodeId,
    beat: i64,
    now: Millis,
) -> Result<bool, Fault> {
    let update = sql("UPDATE QRTZ_NODE SET ended_time = ?, end_reason = 'dead'").bind(now);
    let update = guarded_by(update, &guard::BEAT, |column| match column {
        Column::Uuid => node.to_string().into(),
        Column::Beat => beat.into(),
        _ => column.absent(Value::Null),
    });
    Ok(session.execute(&update.push(" AND ended_time = -1"))? == 1)
}

pub(super) fn leave(session: &mut dyn Session, node: NodeId, now: Millis) -> Result<(), Fault> {
    let update =
        sql("UPDATE QRTZ_NODE SET ended_time = ?, end_reason = 'stopped' WHERE uuid = ? AND ended_time = -1");
    session.execute(&update.bind(now).bind(node.to_string()))?;
    Ok(())
}

/// The names in a node's `jobs` column; none if somebody wrote something else there.
pub(super) fn jobs(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_default()
}
