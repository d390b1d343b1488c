//! Views for people: read loosely, so that a row written by hand is shown with the others.

use std::collections::BTreeMap;

use crate::domain::{Cause, ScheduleId};
use crate::store::columns::{JobColumn, Settings, When};
use crate::store::enqueue::read_tags;
use crate::store::order::CancelRow;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::rows::open_executions;
use crate::store::sql::rows::policy::{settings, settings_columns};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, listed, sql};
use crate::store::sql::verbs::node;
use crate::store::switch::Switch;
use crate::store::{
    ApplicationRow, ExecutionQuery, ExecutionRow, Figures, JobRow, NodeRow, PauseRow, ScheduleRow,
};

/// The most rows that one statement of a view brings, so that its time does not grow with the table.
pub(crate) const PAGE: usize = 10_000;

pub(crate) fn of_application(statement: Statement, alias: &str, application: Option<&str>) -> Statement {
    match application {
        Some(application) => statement.push(&format!(" AND {alias}.application = ?")).bind(application),
        None => statement,
    }
}

/// What [`pause`] reads, of the row `alias`.
fn pause_columns(alias: &str) -> String {
    format!("{alias}.paused_by, {alias}.reason, {alias}.paused_time, {alias}.paused_until")
}

fn pause(row: &mut Row) -> Step<PauseRow> {
    Ok(PauseRow { by: row.loose_text()?, reason: row.loose_text()?, since: row.time()?, until: row.time()? })
}

pub(crate) fn applications(session: &mut dyn Session) -> Step<Vec<ApplicationRow>> {
    let question = sql(format!(
        "SELECT p.application, COALESCE(a.state, 'Y') AS state, {} \
         FROM (SELECT application FROM QRTZ_APP UNION SELECT application FROM QRTZ_JOB) AS p \
         LEFT JOIN QRTZ_APP a ON a.application = p.application ORDER BY 1",
        pause_columns("a")
    ));
    let read = |mut row: Row| {
        let (name, state) = (row.loose_text()?, row.loose_text()?);
        Ok(ApplicationRow { name, switch: Switch::read(&state, false), pause: pause(&mut row)? })
    };
    session.rows(&question)?.into_iter().map(read).collect()
}

pub(crate) fn jobs(session: &mut dyn Session, application: &str) -> Step<Vec<JobRow>> {
    let question = sql(format!(
        "SELECT j.job_class, j.state, {}, {}, \
         (SELECT COUNT(*) FROM QRTZ_EXECUTE e WHERE e.application = j.application AND e.pid = j.id \
         AND (e.state IS NULL OR e.state <> 'REMOVED') \
         AND (e.job_type IS NULL OR e.job_type <> 'QUEUE')) AS schedules \
         FROM QRTZ_JOB j WHERE j.application = ? ORDER BY j.job_class",
        pause_columns("j"),
        settings_columns("j", JobColumn::ALL)
    ));
    let read = |mut row: Row| {
        let (name, state) = (row.loose_text()?, row.loose_text()?);
        Ok(JobRow {
            name,
            switch: Switch::read(&state, true),
            pause: pause(&mut row)?,
            settings: settings(&mut row, JobColumn::ALL)?,
            schedules: row.int()?,
        })
    };
    session.rows(&question.bind(application))?.into_iter().map(read).collect()
}

/// A page by key.
pub(crate) fn nodes(
    session: &mut dyn Session,
    application: Option<&str>,
    after: Option<&NodeRow>,
    limit: usize,
) -> Step<Vec<NodeRow>> {
    let question = sql(format!(
        "SELECT n.uuid, n.application, n.host_ip, n.host_name, n.pid, n.state, {}, n.beat, n.jobs, n.threads, \
         n.busy, n.queued, n.stuck, n.started_time, n.beat_time, n.ended_time, n.end_reason FROM QRTZ_NODE n WHERE 1 = 1",
        pause_columns("n")
    ));
    let mut question = of_application(question, "n", application);
    if let Some(after) = after {
        question = question.push(" AND n.uuid > ?").bind(after.id.as_str());
    }
    let question = question.push(" ORDER BY n.uuid LIMIT ?").bind(limit);
    session.rows(&question)?.into_iter().map(|mut row| node_row(&mut row)).collect()
}

fn node_row(row: &mut Row) -> Step<NodeRow> {
    Ok(NodeRow {
        id: row.loose_text()?,
        application: row.loose_text()?,
        host_ip: row.loose_text()?,
        host_name: row.loose_text()?,
        pid: row.loose_int()?,
        switch: Switch::read(&row.loose_text()?, false),
        pause: pause(row)?,
        beat: row.loose_int()?,
        jobs: node::jobs(&row.loose_text()?),
        figures: Figures { threads: count(row)?, busy: count(row)?, queued: count(row)?, stuck: count(row)? },
        started: row.instant()?,
        last_beat: row.instant()?,
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
pub(crate) fn schedules(
    session: &mut dyn Session,
    application: Option<&str>,
    after: Option<&ScheduleRow>,
    limit: usize,
) -> Step<Vec<ScheduleRow>> {
    let rows = session.rows(&schedules_page(session.dialect(), application, after, limit))?;
    rows.into_iter().map(|mut row| schedule(&mut row)).collect()
}

/// Schedules that were not removed, without queues, whole: conditions may follow.
fn all_schedules() -> Statement {
    sql(format!(
        "SELECT e.id, e.application, e.name, j.job_class, e.state, {}, {}, e.prev_fire_time, e.next_fire_time, \
         e.time_triggered, e.version, {} \
         FROM QRTZ_EXECUTE e LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
         WHERE (e.state IS NULL OR e.state <> 'REMOVED') AND (e.job_type IS NULL OR e.job_type <> 'QUEUE')",
        listed("e.", Settings::COLUMNS),
        listed("e.", When::COLUMNS),
        pause_columns("e")
    ))
}

pub(crate) fn schedule_named(
    session: &mut dyn Session,
    application: &str,
    name: &str,
) -> Step<Option<ScheduleRow>> {
    let question = of_application(all_schedules(), "e", Some(application)).push(" AND e.name = ?").bind(name);
    session.rows(&question)?.pop().map(|mut row| schedule(&mut row)).transpose()
}

pub(crate) fn counts(session: &mut dyn Session, schedule: ScheduleId) -> Step<Vec<(String, i64)>> {
    let question = sql("SELECT r.state, r.occurrences, COUNT(*) AS attempts FROM QRTZ_RUN r \
                        WHERE r.execute_id = ? GROUP BY r.state, r.occurrences");
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for mut row in session.rows(&question.bind(schedule.0))? {
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
    let question = all_schedules();
    let question = match (application, after) {
        (Some(application), Some(after)) if dialect.pages_by_ranges() => question
            .push(" AND e.application >= ? AND e.application <= ? AND e.name > ?")
            .bind_all((application, application, after.name.as_str())),
        (Some(_), Some(after)) => {
            of_application(question, "e", application).push(" AND e.name > ?").bind(after.name.as_str())
        }
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
        pause: pause(row)?,
    })
}

pub(crate) fn executions(session: &mut dyn Session, filter: &ExecutionQuery) -> Step<Vec<ExecutionRow>> {
    let question = executions_of(session.dialect(), filter);
    session.rows(&question)?.into_iter().map(|mut row| execution(&mut row)).collect()
}

pub(crate) fn executions_of(dialect: Dialect, filter: &ExecutionQuery) -> Statement {
    let payload = if filter.of.is_some() { "r.payload" } else { "NULL" };
    let question = sql(format!(
        "SELECT r.id, r.application, e.name, j.job_class, r.state, r.reason, r.generation, r.origin, \
         r.scheduled_time, r.until_time, r.occurrences, r.attempt, r.node, r.claimed_time, r.started_time, \
         r.finished_time, r.error, c.asked_time, c.actor, c.reason AS cancel_reason, c.seen_time, r.cause, \
         a.actor AS ordered_by, a.reason AS ordered_why, r.fence, r.due_time, {payload} AS own_payload, \
         COALESCE(r.failures, 0) AS failed, COALESCE(r.snoozes, 0) AS snoozed, \
         CASE WHEN r.state = 'TIMED_OUT' AND EXISTS (SELECT 1 FROM QRTZ_STUCK k WHERE k.execution_id = r.id) \
         THEN 1 ELSE 0 END AS stuck, r.holder, r.unique_key, r.group_key, r.lane, r.tags \
         FROM QRTZ_RUN r LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id \
         LEFT JOIN QRTZ_CANCEL c ON c.execution_id = r.id LEFT JOIN QRTZ_AUDIT a ON a.id = r.origin \
         LEFT JOIN QRTZ_JOB j ON j.id = e.pid WHERE 1 = 1"
    ));
    let question = filter.of.iter().fold(question, |question, id| {
        // By the whole unique key: a queue may have a million others.
        ["execute_id", "generation", "origin", "scheduled_time"].iter().fold(question, |question, column| {
            let same = format!(" AND r.{column} = (SELECT x.{column} FROM QRTZ_RUN x WHERE x.id = ?)");
            question.push(&same).bind(id.0)
        })
    });
    let mut question = of_application(question, "r", filter.application.as_deref());
    if let Some(schedule) = &filter.schedule {
        let of_name = " AND r.execute_id IN (SELECT s.id FROM QRTZ_EXECUTE s WHERE s.name = ?";
        question = question.push(of_name).bind(schedule.as_str());
        question = of_application(question, "s", filter.application.as_deref()).push(")");
    }
    for (column, value) in [("j.job_class", &filter.job), ("r.group_key", &filter.group)] {
        if let Some(value) = value {
            question = question.push(&format!(" AND {column} = ?")).bind(value.as_str());
        }
    }
    // These tables name an execution by its queue and its origin.
    for (table, column, value) in [("QRTZ_KEY", "unique_key", &filter.key), ("QRTZ_TAG", "tag", &filter.tag)]
    {
        if let Some(value) = value {
            let named = format!(
                " AND r.id IN (SELECT x.id FROM {table} n JOIN QRTZ_RUN x ON x.execute_id = n.execute_id \
                 AND x.generation = 0 AND x.origin = n.origin WHERE n.{column} = ?)"
            );
            question = question.push(&named).bind(value.as_str());
        }
    }
    // A key, a tag or an occurrence names few executions: their states are compared, not searched by.
    let is_named = filter.key.is_some() || filter.tag.is_some() || filter.of.is_some();
    question = match filter.states.as_slice() {
        [] => question,
        states if is_named => open_executions::in_states(question, states),
        states => dialect.database().in_states(question, states),
    };
    if let Some(node) = &filter.node {
        let start = node.replace('!', "!!").replace('%', "!%").replace('_', "!_");
        question = question.push(" AND r.node LIKE ? ESCAPE '!'").bind(format!("{start}%"));
    }
    if let Some(since) = filter.since {
        question = question.push(" AND r.scheduled_time >= ?").bind(since);
    }
    if let Some(before) = filter.before {
        question = question.push(" AND r.id < ?").bind(before.0);
    }
    question.push(" ORDER BY r.id DESC LIMIT ?").bind(filter.limit)
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
        scheduled: row.instant()?,
        until: row.time()?,
        count: row.loose_int()?,
        attempt: row.loose_int()?,
        node: row.loose_text()?,
        claimed: row.time()?,
        started: row.time()?,
        finished: row.time()?,
        error: row.loose_text()?,
        cancel: {
            let (asked, actor, reason) = (row.maybe_instant()?, row.loose_text()?, row.loose_text()?);
            let seen = row.time()?;
            asked.map(|asked| CancelRow { asked, actor, reason, seen })
        },
        cause: {
            let (word, actor, why) = (row.maybe_text()?, row.maybe_text()?, row.maybe_text()?);
            Cause::read(word.as_deref(), actor.zip(why))
        },
        fence: row.loose_int()?,
        due: row.instant()?,
        payload: row.maybe_text()?,
        failures: row.loose_int()?,
        snoozes: row.loose_int()?,
        stuck: row.int()? == 1,
        holder: row.maybe_int()?,
        key: row.maybe_text()?,
        group: row.maybe_text()?,
        lane: row.maybe_text()?,
        tags: read_tags(row.maybe_text()?.as_deref()),
    })
}
