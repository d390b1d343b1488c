//! Registration, heartbeat, election, and the executions of nodes that are dead or missing.

use std::collections::HashMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::change;
use crate::domain::{ExecutionId, JobId, JobSettings, JobSpec, Millis, NodeId, Timestamp};
use crate::store::change::PolicyChange;
use crate::store::columns::{Column, JobColumn};
use crate::store::news::News;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::poll::news;
use crate::store::sql::rows::open_executions::{Whose, open_execution, owns, stuck_nowhere};
use crate::store::sql::rows::policy::{settings, settings_columns};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, guarded_by, single, sql};
use crate::store::{
    Applied, Change, Heartbeat, HeartbeatReply, NewNode, Peer, Stranded, StrandedPage, guard,
};
use crate::time::far_election;

pub(crate) fn register(session: &mut dyn Session, node: &NewNode) -> Step<()> {
    app(session, &node.application)?;
    own_jobs(session, &node.application, &node.jobs, node.now)?;
    let names: Vec<&str> = node.jobs.iter().map(|job| job.name.as_str()).collect();
    session.execute(
        &sql("INSERT INTO QRTZ_NODE (uuid, application, host_ip, host_name, pid, silent_after, jobs, \
              started_time, beat_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind_all((node.id.to_string(), node.application.as_str(), node.host_ip.as_str()))
        .bind_all((node.host_name.as_str(), i64::from(node.pid), node.silent_after))
        .bind_all((json(&names)?, node.now, node.now)),
    )?;
    Ok(())
}

/// The application's row, made if missing; true if it was.
pub(crate) fn app(session: &mut dyn Session, application: &str) -> Step<bool> {
    let known = sql("SELECT COUNT(*) FROM QRTZ_APP WHERE application = ?").bind(application);
    let missing = single(session.rows(&known)?)? == 0;
    if missing {
        let insert = sql("INSERT INTO QRTZ_APP (application) VALUES (?)").bind(application);
        session.execute(&insert.push(&session.dialect().or_leave("QRTZ_APP", "application")))?;
    }
    Ok(missing)
}

/// The mark above which the fences of an application's new schedules begin.
pub(crate) fn fence_mark(session: &mut dyn Session, application: &str) -> Step<i64> {
    let mark = sql("SELECT COALESCE(MAX(fence_from), 0) FROM QRTZ_APP WHERE application = ?");
    single(session.rows(&mark.bind(application))?)
}

/// The rows of the jobs this node has handlers for, with their settings; a few statements, however many.
fn own_jobs(session: &mut dyn Session, application: &str, specs: &[JobSpec], now: Timestamp) -> Step<()> {
    let mut specs: Vec<&JobSpec> = specs.iter().collect();
    specs.sort_by(|one, other| one.name.cmp(&other.name));
    for specs in specs.chunks(session.dialect().batch()) {
        let rows = jobs_there(session, application, specs, now)?;
        let changed = specs.iter().filter_map(|spec| {
            let (job, seen) = rows.get(&spec.name).filter(|(_, seen)| *seen != spec.settings)?;
            let (seen, becomes) = (seen.clone(), spec.settings.clone());
            Some(Change::Policy(PolicyChange { job: *job, seen, becomes, now }))
        });
        let changed: Vec<Change> = changed.collect();
        // Where another node has just written its own policy nothing is changed: the last to start wins
        // anyway.
        change::make(session, &changed)?;
    }
    Ok(())
}

/// The id of the job's row, which is made if it is missing.
pub(crate) fn job(
    session: &mut dyn Session,
    application: &str,
    spec: &JobSpec,
    now: Timestamp,
) -> Step<JobId> {
    let found = jobs_there(session, application, &[spec], now)?.remove(&spec.name).map(|(id, _)| id);
    let problem = || format!("job {:?} is not there after its INSERT", spec.name);
    found.ok_or_else(|| Fault::new(FaultKind::Conflict, problem()))
}

/// The id of a job that is there.
pub(crate) fn known_job(session: &mut dyn Session, application: &str, spec: &JobSpec) -> Step<Option<JobId>> {
    Ok(job_rows(session, application, &[spec])?.remove(&spec.name).map(|(id, _)| id))
}

/// The ids and settings of jobs by their names; the missing rows are made.
pub(super) fn jobs_there(
    session: &mut dyn Session,
    application: &str,
    specs: &[&JobSpec],
    now: Timestamp,
) -> Step<HashMap<String, (JobId, JobSettings)>> {
    let rows = job_rows(session, application, specs)?;
    let missing: Vec<&&JobSpec> = specs.iter().filter(|spec| !rows.contains_key(&spec.name)).collect();
    if missing.is_empty() {
        return Ok(rows);
    }
    let names = JobColumn::ALL.map(JobColumn::name).join(", ");
    let mut insert =
        sql(format!("INSERT INTO QRTZ_JOB (application, job_class, update_time, {names}) VALUES "));
    for (n, spec) in missing.into_iter().enumerate() {
        insert = insert.push(if n == 0 { "(" } else { ", (" }).push("?, ?, ?");
        insert = insert.bind_all((application, spec.name.as_str(), now));
        let values = JobColumn::ALL.map(|column| column.value(&spec.settings));
        insert = values.into_iter().fold(insert, |insert, value| insert.push(", ?").bind(value)).push(")");
    }
    session.execute(&insert.push(&session.dialect().or_leave("QRTZ_JOB", "job_class")))?;
    job_rows(session, application, specs)
}

fn job_rows(
    session: &mut dyn Session,
    application: &str,
    specs: &[&JobSpec],
) -> Step<HashMap<String, (JobId, JobSettings)>> {
    let question = sql(format!(
        "SELECT j.job_class, j.id, {} FROM QRTZ_JOB j WHERE j.application = ? AND j.job_class IN ",
        settings_columns("j", JobColumn::ALL)
    ));
    let question = question.bind(application).list(specs.iter().map(|spec| spec.name.as_str()));
    session.all(&question, |row| Ok((row.text()?, (JobId(row.int()?), settings(row, JobColumn::ALL)?))))
}

/// As [`is_election_due`](crate::time::is_election_due) says, in one statement.
pub(crate) fn elect(
    session: &mut dyn Session,
    application: &str,
    now: Timestamp,
    interval: Millis,
) -> Step<Applied> {
    let update = sql("UPDATE QRTZ_APP SET time_pre = ?, time_next = ?, time_interval = ?");
    let update = update.bind_all((now, now.saturating_add(interval), interval));
    let update = guarded_by(update, &guard::ELECT, |statement, column| match column {
        Column::Application => statement.equals(column, application),
        // SQLite keeps a text if it is given one: it is larger than any number.
        Column::TimeNext => statement
            .push("(time_next IS NULL OR time_next <= ? OR time_next > ?)")
            .bind_all((now, far_election(now, interval))),
        _ => column.absent(statement),
    });
    Ok((session.execute(&update)? == 1).into())
}

/// Adds one to the node's beat, and may switch it off, say that it has drained, or tell the other nodes of
/// something; lost if its row is ended or gone, or its beat can grow no more.
pub(crate) fn beat(session: &mut dyn Session, beat: &Heartbeat) -> Step<Applied> {
    let update = sql("UPDATE QRTZ_NODE SET beat = beat + 1, beat_time = ?, lanes = ?, left_alone = ?, \
             state = CASE WHEN ? = 1 THEN 'N' WHEN ? = 1 AND state = 'D' THEN 'E' ELSE state END");
    let update = update.bind_all((beat.now, json(&beat.lanes)?, json(&beat.left_alone)?));
    let mut update = update.bind(i64::from(beat.withdraw)).bind(i64::from(beat.drained));
    if beat.tells {
        update = update.push(", told_time = ?, blocked = ?").bind_all((beat.now, json(&beat.blocked)?));
    }
    let update = guarded_by(update, &guard::HEARTBEAT, |statement, column| match column {
        Column::Uuid => statement.equals(column, beat.node),
        Column::EndedTime => statement.push("ended_time = -1"),
        _ => column.absent(statement),
    });
    let update = update.push(" AND beat < ?").bind(i64::MAX);
    let beaten = if beat.tells && session.tells() {
        let members = News { members: true, ..News::default() };
        let telling = news::tell(true, members, update.push(" RETURNING beat"), &beat.application);
        session.rows(&telling)?.len()
    } else {
        session.execute(&update)?
    };
    Ok((beaten == 1).into())
}

pub(crate) fn reply(session: &mut dyn Session, beat: &Heartbeat) -> Step<HeartbeatReply> {
    let (mut peers, mut owns) = (Vec::new(), false);
    for mut row in session.rows(&live(session.dialect(), &beat.application, beat.node))? {
        let (id, count) = (row.loose_text()?.parse(), row.maybe_int()?);
        let (jobs, blocked) = (list(&mut row)?, list(&mut row)?);
        owns |= row.flag()?;
        // A row somebody wrote by hand is nobody's peer.
        if let (Ok(id), Some(beat)) = (id, count) {
            peers.push(Peer { id, beat, jobs, blocked });
        }
    }
    let owned = if owns { owned(session, beat)? } else { Vec::new() };
    Ok(HeartbeatReply::Alive { peers, owned })
}

/// The nodes not ended, and whether this one owns anything: mostly nothing else needs to be asked.
pub(crate) fn live(dialect: Dialect, application: &str, node: NodeId) -> Statement {
    let question =
        sql("SELECT uuid, beat, CASE WHEN state = 'Y' THEN jobs ELSE '' END AS jobs, blocked, CASE WHEN ");
    owns(dialect, question, application, node)
        .push(
            " THEN 1 ELSE 0 END AS owns FROM QRTZ_NODE WHERE application = ? AND ended_time = -1 \
               ORDER BY uuid",
        )
        .bind(application)
}

fn owned(session: &mut dyn Session, beat: &Heartbeat) -> Step<Vec<Stranded>> {
    let own = Whose::Node(beat.node);
    let database = session.dialect().database();
    database.sweep(session, &beat.application, own)?;
    let question = database.open_executions(&beat.application, own);
    Ok(session.rows(&question)?.into_iter().filter_map(|mut row| open_execution(&mut row).ok()).collect())
}

/// Executions of nodes that are dead or missing.
pub(crate) fn stranded(
    session: &mut dyn Session,
    application: &str,
    after: ExecutionId,
    limit: usize,
) -> Step<StrandedPage> {
    session.dialect().database().sweep(session, application, Whose::Nobody)?;
    let (mut stranded, mut brought, mut last) = (Vec::new(), 0, None);
    for mut row in session.rows(&stranded_page(session.dialect(), application, after, limit))? {
        (brought, last) = (brought + 1, Some(ExecutionId(row.int()?)));
        stranded.extend(open_execution(&mut row).ok());
    }
    Ok(StrandedPage { stranded, next: last.filter(|_| brought == limit) })
}

/// The id leads the row, so that the page goes on even behind one that cannot be read.
pub(crate) fn stranded_page(
    dialect: Dialect,
    application: &str,
    after: ExecutionId,
    limit: usize,
) -> Statement {
    let open = dialect.database().open_executions(application, Whose::Nobody);
    let all = Statement { text: format!("SELECT * FROM ({}) AS u UNION ALL ", open.text), ..open };
    let all = all.and(stuck_nowhere(dialect, application));
    let text = format!(
        "SELECT o.id AS place, o.* FROM ({}) AS o WHERE o.id + 0 > ? ORDER BY o.id + 0 LIMIT ?",
        all.text
    );
    Statement { text, ..all }.bind(after.0).bind(limit)
}

fn json<T: Serialize>(list: &[T]) -> Step<String> {
    serde_json::to_string(list).map_err(|error| Fault::undecodable(error.to_string()))
}

/// The list in a node's column, such as `jobs` or `lanes`; empty if somebody wrote something else there.
pub(crate) fn list<T: DeserializeOwned>(row: &mut Row) -> Step<Vec<T>> {
    Ok(serde_json::from_str(&row.loose_text()?).unwrap_or_default())
}
