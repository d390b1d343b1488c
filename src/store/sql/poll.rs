//! What the pipeline and the misfire handler look at.

use std::collections::HashMap;
use std::sync::Arc;

use super::connection::Dialect;
use super::entry::{self, Raw, SHARDS};
use super::session::{Fault, Session};
use super::statement::{Row, Statement, join, sql};
use crate::clock::TimeSample;
use crate::model::{Entry, ExecutionId, Millis, Pending, ScheduleId, Token};
use crate::store::when;
use crate::store::{Page, PollQuery, Polled, Stalled, StalledQuery};

pub(super) fn poll(
    session: &mut dyn Session,
    query: &PollQuery,
    host: impl Fn() -> Millis,
) -> Result<Polled, Fault> {
    let (time, app_enabled, node_enabled) = switches(session, query, host)?;
    let dialect = session.dialect();
    let (mut schedules, mut pendings) = (Vec::new(), Vec::new());
    if !query.jobs.is_empty() {
        schedules = entry::raw(session.rows(&due(dialect, query))?)?;
        pendings = session.rows(&pending(dialect, query))?;
    }
    let full = pendings.len() == query.limit;
    // A row that cannot be read was written by hand: it is left alone.
    let pendings: Vec<Waiting> = pendings.into_iter().filter_map(|row| Waiting::read(row).ok()).collect();
    let next = Page::behind(
        schedules.last().filter(|_| schedules.len() == query.limit).map(Raw::key),
        pendings.last().filter(|_| full).map(|last| (last.due, last.id.0)),
    );
    Ok(Polled {
        time,
        app_enabled,
        node_enabled,
        entries: schedules.into_iter().filter_map(|raw| raw.understand().ok()).map(Arc::new).collect(),
        pendings: waiting(pendings),
        next,
    })
}

/// The database's time, and whether the application and the node are in state Y.
fn switches(
    session: &mut dyn Session,
    query: &PollQuery,
    host: impl Fn() -> Millis,
) -> Result<(TimeSample, bool, bool), Fault> {
    let question = sql(format!(
        "SELECT {} AS now, (SELECT state FROM QRTZ_APP WHERE application = ?) AS app, \
         (SELECT state FROM QRTZ_NODE WHERE uuid = ? AND ended_time = -1) AS node",
        session.dialect().clock()
    ));
    let question = question.bind(query.application.as_str()).bind(query.node.to_string());
    let asked = host();
    let row = session.rows(&question)?.pop();
    let answered = host();
    let mut row = row.ok_or_else(|| Fault::undecodable("a poll without an answer".to_owned()))?;
    let time = TimeSample { asked, database: row.int()?, answered };
    Ok((time, row.text()? == "Y", row.text()? == "Y"))
}

pub(super) fn due(dialect: Dialect, query: &PollQuery) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e {} QRTZ_JOB j ON j.id = e.pid \
         WHERE e.application = ? AND e.state = 'EXECUTING' AND e.shard IN {SHARDS} \
         AND e.next_fire_time < ? AND (e.next_fire_time > ? OR (e.next_fire_time = ? AND e.id > ?)) \
         AND j.state = 'EXECUTING' AND j.job_class IN ",
        entry::COLUMNS,
        join(dialect)
    ))
    .bind(query.application.as_str())
    .bind(query.until)
    .bind(query.page.schedules.0)
    .bind(query.page.schedules.0)
    .bind(query.page.schedules.1)
    .list(query.jobs.iter().map(String::as_str))
    .push(" ORDER BY e.next_fire_time, e.id LIMIT ?")
    .bind(query.limit)
}

/// PENDING executions: of active or complete schedules, and of paused ones if asked for by hand.
pub(super) fn pending(dialect: Dialect, query: &PollQuery) -> Statement {
    sql(format!(
        "SELECT r.id, r.scheduled_time, r.due_time, r.attempt, r.origin, r.claim_token, {} \
         FROM QRTZ_RUN r {join} QRTZ_EXECUTE e ON e.id = r.execute_id {join} QRTZ_JOB j ON j.id = e.pid \
         WHERE r.application = ? AND r.state = 'PENDING' AND r.due_time < ? \
         AND (r.due_time > ? OR (r.due_time = ? AND r.id > ?)) \
         AND (e.state IN ('EXECUTING', 'COMPLETE') OR (e.state = 'PAUSED' AND r.origin <> 0)) \
         AND j.state = 'EXECUTING' AND j.job_class IN ",
        entry::COLUMNS,
        join = join(dialect)
    ))
    .bind(query.application.as_str())
    .bind(query.until)
    .bind(query.page.pendings.0)
    .bind(query.page.pendings.0)
    .bind(query.page.pendings.1)
    .list(query.jobs.iter().map(String::as_str))
    .push(" ORDER BY r.due_time, r.id LIMIT ?")
    .bind(query.limit)
}

/// A PENDING execution's row before anybody has tried to understand its schedule.
struct Waiting {
    id: ExecutionId,
    scheduled: Millis,
    due: Millis,
    attempt: i64,
    origin: i64,
    token: String,
    schedule: Raw,
}

impl Waiting {
    fn read(mut row: Row) -> Result<Self, Fault> {
        Ok(Self {
            id: ExecutionId(row.int()?),
            scheduled: row.int()?,
            due: row.int()?,
            attempt: row.int()?,
            origin: row.int()?,
            token: row.text()?,
            schedule: Raw::read(&mut row)?,
        })
    }
}

/// Those that can be understood; executions of one schedule share its entry.
fn waiting(rows: Vec<Waiting>) -> Vec<Pending> {
    let mut known: HashMap<i64, Arc<Entry>> = HashMap::new();
    let mut pendings = Vec::with_capacity(rows.len());
    for row in rows {
        let Waiting { id, scheduled, due, attempt, origin, token, schedule } = row;
        let key = schedule.id;
        let entry = match known.get(&key) {
            Some(entry) => Arc::clone(entry),
            None => match schedule.understand() {
                Ok(entry) => Arc::clone(known.entry(key).or_insert(Arc::new(entry))),
                Err(_) => continue,
            },
        };
        let (Ok(token), Ok(attempt)) = (uuid::Uuid::parse_str(&token), u32::try_from(attempt)) else {
            continue;
        };
        if !when::is_instant(scheduled) {
            continue;
        }
        pendings.push(Pending { id, entry, scheduled, due, attempt, origin, token: Token(token) });
    }
    pendings
}

/// Rows fallen behind whose job some live node lists, while the application is switched on.
pub(super) fn stalled(session: &mut dyn Session, query: &StalledQuery) -> Result<Stalled, Fault> {
    let listed = listed_jobs(session, &query.application)?;
    if listed.is_empty() {
        return Ok(Stalled { entries: Vec::new(), next: None });
    }
    let question = sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e {} QRTZ_JOB j ON j.id = e.pid \
         WHERE e.application = ? AND e.state = 'EXECUTING' AND e.shard IN {SHARDS} \
         AND e.next_fire_time >= 0 AND e.next_fire_time < ? AND e.id > ? AND j.state = 'EXECUTING' \
         AND (SELECT a.state FROM QRTZ_APP a WHERE a.application = e.application) = 'Y' AND j.job_class IN ",
        entry::COLUMNS,
        join(session.dialect())
    ));
    let question = question
        .bind(query.application.as_str())
        .bind(query.before)
        .bind(query.after.0)
        .list(listed)
        .push(" ORDER BY e.id LIMIT ?")
        .bind(query.limit);
    let rows = entry::raw(session.rows(&question)?)?;
    let next = rows.last().filter(|_| rows.len() == query.limit).map(|last| ScheduleId(last.id));
    Ok(Stalled { entries: entry::understood(rows), next })
}

/// The jobs that nodes not ended say they have handlers for.
fn listed_jobs(session: &mut dyn Session, application: &str) -> Result<Vec<String>, Fault> {
    let question = sql("SELECT DISTINCT jobs FROM QRTZ_NODE WHERE application = ? AND ended_time = -1");
    let mut jobs = Vec::new();
    for mut row in session.rows(&question.bind(application))? {
        jobs.extend(super::node::jobs(&row.loose_text()?));
    }
    jobs.sort();
    jobs.dedup();
    Ok(jobs)
}
