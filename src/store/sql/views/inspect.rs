//! Views for people: read loosely, so that a row written by hand is shown with the others.

use std::collections::BTreeMap;

use crate::domain::{Activity, ExecutionId, ScheduleId};
use crate::store::columns::{JobColumn, Ownership, Settings, When};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::rows::policy::{settings, settings_columns};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, listed, sql};
use crate::store::sql::verbs::{named, node};
use crate::store::{ApplicationRow, JobRow, NodeRow, PauseRow, ScheduleRow};

/// The most rows that one statement of a view brings, so that its time does not grow with the table.
pub(crate) const PAGE: usize = 10_000;

pub(crate) fn of_application(statement: Statement, alias: &str, application: Option<&str>) -> Statement {
    statement.given(&format!(" AND {alias}.application = ?"), application)
}

answer! {
    PauseRow(alias: &str) {
        by = format!("{alias}.paused_by"), Row::loose_text;
        reason = format!("{alias}.reason"), Row::loose_text;
        since = format!("{alias}.paused_time"), Row::time;
        until = format!("{alias}.paused_until"), Row::time;
    }
}

answer! {
    ApplicationRow() {
        name = "p.application", Row::loose_text;
        switch = "COALESCE(a.state, 'Y') AS state", |row| Ok(Activity::read(&row.loose_text()?, false));
        pause = PauseRow::columns("a"), PauseRow::read;
    }
}

pub(crate) fn applications(session: &mut dyn Session) -> Step<Vec<ApplicationRow>> {
    let question = sql(format!(
        "SELECT {} FROM (SELECT application FROM QRTZ_APP UNION SELECT application FROM QRTZ_JOB) AS p \
         LEFT JOIN QRTZ_APP a ON a.application = p.application ORDER BY 1",
        ApplicationRow::columns()
    ));
    session.all(&question, ApplicationRow::read)
}

answer! {
    JobRow() {
        name = "j.job_class", Row::loose_text;
        switch = "j.state", |row| Ok(Activity::read(&row.loose_text()?, true));
        pause = PauseRow::columns("j"), PauseRow::read;
        settings = settings_columns("j", JobColumn::ALL), |row| settings(row, JobColumn::ALL);
        nobody = "j.nobody_time", Row::time;
    }
}

pub(crate) fn jobs(session: &mut dyn Session, application: &str) -> Step<Vec<JobRow>> {
    let columns = JobRow::columns();
    let question =
        sql(format!("SELECT {columns} FROM QRTZ_JOB j WHERE j.application = ? ORDER BY j.job_class"));
    session.all(&question.bind(application), JobRow::read)
}

answer! {
    NodeRow() {
        id = "n.uuid", Row::loose_text;
        application = "n.application", Row::loose_text;
        host_ip = "n.host_ip", Row::loose_text;
        host_name = "n.host_name", Row::loose_text;
        pid = "n.pid", Row::loose_int;
        silent_after = "n.silent_after", Row::loose_int;
        switch = "n.state", |row| Ok(Activity::read(&row.loose_text()?, false));
        pause = PauseRow::columns("n"), PauseRow::read;
        beat = "n.beat", Row::loose_int;
        jobs = "n.jobs", node::list;
        lanes = "n.lanes", node::list;
        left_alone = "n.left_alone", node::list;
        started = "n.started_time", Row::loose_instant;
        last_beat = "n.beat_time", Row::loose_instant;
        ended = "n.ended_time, n.end_reason", |row| {
            let (time, reason) = (row.time()?, row.loose_text()?);
            Ok(time.map(|time| (time, reason)))
        };
    }
}

/// A page by key.
pub(crate) fn nodes(
    session: &mut dyn Session,
    application: Option<&str>,
    after: Option<&NodeRow>,
    limit: usize,
) -> Step<Vec<NodeRow>> {
    let question = sql(format!("SELECT {} FROM QRTZ_NODE n WHERE 1 = 1", NodeRow::columns()));
    let question = of_application(question, "n", application)
        .given(" AND n.uuid > ?", after.map(|after| after.id.as_str()))
        .push(" ORDER BY n.uuid LIMIT ?")
        .bind(limit);
    session.all(&question, NodeRow::read)
}

/// A page by application and name.
pub(crate) fn schedules(
    session: &mut dyn Session,
    application: Option<&str>,
    after: Option<&ScheduleRow>,
    limit: usize,
) -> Step<Vec<ScheduleRow>> {
    session.all(&schedules_page(session.dialect(), application, after, limit), ScheduleRow::read)
}

answer! {
    ScheduleRow() {
        id = "e.id", Row::int;
        application = "e.application", Row::loose_text;
        name = "e.name", Row::loose_text;
        job = "j.job_class", Row::loose_text;
        state = "e.state", Row::loose_text;
        settings = listed("e.", Settings::COLUMNS), |row| Settings::read(|| row.next());
        when = listed("e.", When::COLUMNS), |row| When::read(|| row.next());
        prev = "e.prev_fire_time", Row::time;
        next = "e.next_fire_time", Row::time;
        triggered = "e.time_triggered", Row::loose_int;
        version = "e.version", Row::loose_int;
        pause = PauseRow::columns("e"), PauseRow::read;
        ownership = listed("e.", Ownership::COLUMNS), |row| Ownership::read(|| row.next());
        unmet = "x.unmet_time", Row::time;
        nobody = "j.nobody_time", Row::time;
    }
}

/// That a row is a schedule, and neither a job's queue nor one that was removed.
pub(crate) const SHOWN: &str =
    "(e.state IS NULL OR e.state <> 'REMOVED') AND (e.job_type IS NULL OR e.job_type <> 'QUEUE')";

/// Schedules that were not removed, without queues, whole: conditions may follow.
pub(crate) fn all_schedules(dialect: Dialect, job: &str) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e LEFT JOIN {job} ON j.id = e.pid LEFT JOIN {} \
         ON x.application = e.application AND x.id = e.id WHERE {SHOWN}",
        ScheduleRow::columns(),
        dialect.unlocked("QRTZ_EXPECTED", "x")
    ))
}

/// The row `e` is locked by these words.
pub(crate) fn schedule_named(
    session: &mut dyn Session,
    application: &str,
    name: &str,
    lock: &str,
) -> Step<Option<ScheduleRow>> {
    let Some(named) = named::schedule(session, (application, name), lock)? else { return Ok(None) };
    let dialect = session.dialect();
    let question = |job: &str| all_schedules(dialect, job).push(" AND ").and(named.clone()).push(lock);
    match session.one(&question(&dialect.unlocked("QRTZ_JOB", "j")), ScheduleRow::read)? {
        // A job that is younger than a caller's snapshot is seen under a lock alone.
        Some(row) if row.job.is_empty() && dialect.locks_gaps() => {
            session.one(&question("QRTZ_JOB AS j"), ScheduleRow::read)
        }
        row => Ok(row),
    }
}

pub(crate) fn counts(
    session: &mut dyn Session,
    schedule: ScheduleId,
    most: usize,
) -> Step<Vec<(String, i64)>> {
    let newest = "SELECT r.state, r.occurrences FROM QRTZ_RUN r WHERE r.execute_id = ? \
                  ORDER BY r.execute_id DESC, r.generation DESC, r.origin DESC, r.scheduled_time DESC, \
                  r.attempt DESC LIMIT ?";
    let question = sql(format!(
        "SELECT c.state, c.occurrences, COUNT(*) AS attempts FROM ({newest}) AS c \
         GROUP BY c.state, c.occurrences"
    ));
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for mut row in session.rows(&question.bind_all((schedule, most)))? {
        let (state, occurrences, attempts) = (row.loose_text()?, row.loose_int()?, row.int()?);
        let count = counts.entry(state).or_default();
        *count = count.saturating_add(occurrences.saturating_mul(attempts));
    }
    Ok(counts.into_iter().collect())
}

pub(crate) fn schedules_page(
    dialect: Dialect,
    application: Option<&str>,
    after: Option<&ScheduleRow>,
    limit: usize,
) -> Statement {
    let question = all_schedules(dialect, "QRTZ_JOB AS j");
    let question = match (application, after) {
        (Some(application), Some(after)) => behind_name(question, dialect, application, &after.name),
        (None, Some(after)) if dialect.pages_by_ranges() => question
            .push(" AND ((e.application = ? AND e.name > ?) OR e.application > ?)")
            .bind_all((after.application.as_str(), after.name.as_str(), after.application.as_str())),
        (None, Some(after)) => question
            .push(" AND (e.application, e.name) > (?, ?)")
            .bind_all((after.application.as_str(), after.name.as_str())),
        (_, None) => of_application(question, "e", application),
    };
    question.push(" ORDER BY e.application, e.name LIMIT ?").bind(limit)
}

/// Appends that a row is of an application, in a question for a page behind a key.
pub(crate) fn page_of(question: Statement, dialect: Dialect, alias: &str, application: &str) -> Statement {
    match dialect.pages_by_ranges() {
        true => question
            .push(&format!(" AND {alias}.application >= ? AND {alias}.application <= ?"))
            .bind_all((application, application)),
        false => of_application(question, alias, Some(application)),
    }
}

/// Appends that a schedule of an application stands behind a name.
pub(crate) fn behind_name(question: Statement, dialect: Dialect, application: &str, name: &str) -> Statement {
    page_of(question, dialect, "e", application).push(" AND e.name > ?").bind(name)
}

/// How far the handlers of an execution have come, if one has said so.
pub(crate) fn checkpoint(session: &mut dyn Session, execution: ExecutionId) -> Step<Option<String>> {
    let question = sql("SELECT r.checkpoint FROM QRTZ_RUN r WHERE r.id = ?").bind(execution.0);
    Ok(session.one(&question, Row::maybe_text)?.flatten())
}
