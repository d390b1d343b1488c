//! What people look at: read loosely, so that a row written by hand is shown with the others.

use super::dialect::Dialect;
use super::fault::Step;
use super::session::Session;
use super::statement::{Row, Statement, listed, sql};
use crate::store::columns::{Settings, When};
use crate::store::order::CancelRow;
use crate::store::{ExecutionQuery, ExecutionRow, Figures, NodeRow, ScheduleRow};

/// The most rows that one statement of a view brings, so that its time does not grow with the table.
pub(super) const PAGE: usize = 10_000;

pub(super) fn of_application(statement: Statement, alias: &str, application: Option<&str>) -> Statement {
    match application {
        Some(application) => statement.push(&format!(" AND {alias}.application = ?")).bind(application),
        None => statement,
    }
}

pub(super) fn applications(session: &mut dyn Session) -> Step<Vec<String>> {
    let question = sql("SELECT application FROM QRTZ_APP UNION SELECT application FROM QRTZ_JOB ORDER BY 1");
    session.rows(&question)?.into_iter().map(|mut row| row.loose_text()).collect()
}

/// A page by key.
pub(super) fn nodes(
    session: &mut dyn Session,
    application: Option<&str>,
    after: Option<&NodeRow>,
    limit: usize,
) -> Step<Vec<NodeRow>> {
    let question = sql(
        "SELECT n.uuid, n.application, n.host_ip, n.host_name, n.pid, n.state, n.beat, n.jobs, n.threads, \
                        n.busy, n.queued, n.started_time, n.beat_time, n.ended_time, n.end_reason \
                        FROM QRTZ_NODE n WHERE 1 = 1",
    );
    let mut question = of_application(question, "n", application);
    if let Some(after) = after {
        question = question.push(" AND n.uuid > ?").bind(after.id.as_str());
    }
    let question = question.push(" ORDER BY n.uuid LIMIT ?").bind(limit);
    session.rows(&question)?.into_iter().map(|mut row| node(&mut row)).collect()
}

fn node(row: &mut Row) -> Step<NodeRow> {
    Ok(NodeRow {
        id: row.loose_text()?,
        application: row.loose_text()?,
        host_ip: row.loose_text()?,
        host_name: row.loose_text()?,
        pid: row.loose_int()?,
        enabled: row.loose_text()? == "Y",
        beat: row.loose_int()?,
        jobs: super::node::jobs(&row.loose_text()?),
        figures: Figures { threads: count(row)?, busy: count(row)?, queued: count(row)? },
        started: row.loose_int()?,
        last_beat: row.loose_int()?,
        ended: {
            let (time, reason) = (row.time()?, row.loose_text()?);
            time.map(|time| (time, reason))
        },
    })
}

fn count(row: &mut Row) -> Step<usize> {
    Ok(usize::try_from(row.loose_int()?).unwrap_or(0))
}

/// A page by application and name.
pub(super) fn schedules(
    session: &mut dyn Session,
    application: Option<&str>,
    after: Option<&ScheduleRow>,
    limit: usize,
) -> Step<Vec<ScheduleRow>> {
    let rows = session.rows(&schedules_page(session.dialect(), application, after, limit))?;
    rows.into_iter().map(|mut row| schedule(&mut row)).collect()
}

pub(super) fn schedules_page(
    dialect: Dialect,
    application: Option<&str>,
    after: Option<&ScheduleRow>,
    limit: usize,
) -> Statement {
    let question = sql(format!(
        "SELECT e.id, e.application, e.name, j.job_class, e.state, {}, {}, e.prev_fire_time, e.next_fire_time, \
         e.time_triggered, e.version, e.reason, e.paused_by, e.paused_time \
         FROM QRTZ_EXECUTE e LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
         WHERE (e.state IS NULL OR e.state <> 'REMOVED')",
        listed("e.", Settings::COLUMNS),
        listed("e.", When::COLUMNS)
    ));
    let question = match (application, after) {
        (Some(application), Some(after)) if dialect.pages_by_ranges() => question
            .push(" AND e.application >= ? AND e.application <= ? AND e.name > ?")
            .bind(application)
            .bind(application)
            .bind(after.name.as_str()),
        (Some(_), Some(after)) => {
            of_application(question, "e", application).push(" AND e.name > ?").bind(after.name.as_str())
        }
        (None, Some(after)) => question
            .push(" AND e.application >= ? AND (e.application > ? OR e.name > ?)")
            .bind(after.application.as_str())
            .bind(after.application.as_str())
            .bind(after.name.as_str()),
        (_, None) => of_application(question, "e", application),
    };
    question.push(" ORDER BY e.application, e.name LIMIT ?").bind(limit)
}

fn schedule(row: &mut Row) -> Step<ScheduleRow> {
    Ok(ScheduleRow {
        id: row.int()?,
        application: row.loose_text()?,
        name: row.loose_text()?,
        job: row.loose_text()?,
        state: row.loose_text()?,
        settings: Settings::read(|| row.next())?,
        when: When::read(|| row.next())?,
        prev: row.time()?,
        next: row.time()?,
        triggered: row.loose_int()?,
        version: row.loose_int()?,
        reason: row.loose_text()?,
        paused_by: row.loose_text()?,
        paused: row.time()?,
    })
}

pub(super) fn executions(session: &mut dyn Session, filter: &ExecutionQuery) -> Step<Vec<ExecutionRow>> {
    let question =
        sql("SELECT r.id, r.application, e.name, j.job_class, r.state, r.reason, r.generation, r.origin, \
                        r.scheduled_time, r.until_time, r.occurrences, r.attempt, r.node, r.claimed_time, \
                        r.started_time, r.finished_time, r.error, c.asked_time, c.actor, c.seen_time \
                        FROM QRTZ_RUN r LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id \
                        LEFT JOIN QRTZ_CANCEL c ON c.execution_id = r.id \
                        LEFT JOIN QRTZ_JOB j ON j.id = e.pid WHERE 1 = 1");
    let mut question = of_application(question, "r", filter.application.as_deref());
    if let Some(schedule) = &filter.schedule {
        let of_name = " AND r.execute_id IN (SELECT s.id FROM QRTZ_EXECUTE s WHERE s.name = ?";
        question = question.push(of_name).bind(schedule.as_str());
        question = of_application(question, "s", filter.application.as_deref()).push(")");
    }
    if !filter.states.is_empty() {
        question = session.dialect().database().in_states(question, &filter.states);
    }
    if let Some(node) = &filter.node {
        let start = node.replace('!', "!!").replace('%', "!%").replace('_', "!_");
        question = question.push(" AND r.node LIKE ? ESCAPE '!'").bind(format!("{start}%"));
    }
    if let Some(since) = filter.since {
        question = question.push(" AND r.scheduled_time >= ?").bind(since);
    }
    let question = question.push(" ORDER BY r.id DESC LIMIT ?").bind(filter.limit);
    session.rows(&question)?.into_iter().map(|mut row| execution(&mut row)).collect()
}

fn execution(row: &mut Row) -> Step<ExecutionRow> {
    Ok(ExecutionRow {
        id: row.int()?,
        application: row.loose_text()?,
        schedule: row.loose_text()?,
        job: row.loose_text()?,
        state: row.loose_text()?,
        reason: row.loose_text()?,
        generation: row.loose_int()?,
        origin: row.loose_int()?,
        scheduled: row.loose_int()?,
        until: row.time()?,
        count: row.loose_int()?,
        attempt: row.loose_int()?,
        node: row.loose_text()?,
        claimed: row.time()?,
        started: row.time()?,
        finished: row.time()?,
        error: row.loose_text()?,
        cancel: {
            let (asked, actor, seen) = (row.maybe_int()?, row.loose_text()?, row.time()?);
            asked.map(|asked| CancelRow { asked, actor, seen })
        },
    })
}
