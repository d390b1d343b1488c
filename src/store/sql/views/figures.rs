//! A cluster's figures: a handful of statements, and one for each job that has enqueued executions waiting.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{Activity, ExecutionState, Timestamp};
use crate::store::NodeRow;
use crate::store::figures::{
    DEATHS_SHOWN, Figures, FiguresQuery, LONGEST_LOOK, LastSuccess, MOST_INTERVALS, MOST_JOBS,
    MOST_SCHEDULES, MOST_WAITING, REPAIRED, SchedulesAlike,
};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, single, sql};
use crate::trigger::AWAITED;

pub(crate) fn figures(session: &mut dyn Session, query: &FiguresQuery) -> Step<Figures> {
    let application = query.application.as_str();
    let app = sql("SELECT a.state FROM QRTZ_APP a WHERE a.application = ?").bind(application);
    let app = session.one(&app, Row::loose_text)?;
    let nodes = sql(format!(
        "SELECT {} FROM QRTZ_NODE n WHERE n.application = ? AND n.ended_time = -1",
        NodeRow::columns()
    ));
    let troubles = session.one(&troubles(query), |row| Ok((row.int()?, row.int()?)))?;
    let (died, unmet) = troubles.unwrap_or_default();
    let successes = session.all(&successes(query), LastSuccess::read)?;
    let mut figures = Figures {
        at: query.now,
        app_is_paused: app.is_some_and(|state| Activity::read(&state, false) != Activity::Active),
        nodes: session.all(&nodes.bind(application), NodeRow::read)?,
        died,
        unmet,
        schedules: session.all(&schedules(query), SchedulesAlike::read)?,
        waiting: BTreeMap::new(),
        jobs_left_out: 0,
        successes,
        left_out: 0,
    };
    let active = figures.schedules.iter().filter(|it| it.state == "EXECUTING").map(|it| it.schedules);
    figures.left_out = active.sum::<i64>() - i64::try_from(figures.successes.len()).unwrap_or(i64::MAX);
    wait(session, query, &mut figures)?;
    Ok(figures)
}

/// How many nodes have died lately, and how many schedules have an occurrence that has not succeeded in time.
fn troubles(query: &FiguresQuery) -> Statement {
    let application = query.application.as_str();
    sql("SELECT COUNT(*) AS died, (SELECT COUNT(*) FROM QRTZ_EXPECTED x WHERE x.application = ? \
         AND x.unmet_time <> -1) AS unmet FROM QRTZ_NODE n WHERE n.application = ? AND n.ended_time >= ? \
         AND n.end_reason = 'dead'")
    .bind_all((application, application, query.now - DEATHS_SHOWN))
}

/// Adds the due executions that wait.
fn wait(session: &mut dyn Session, query: &FiguresQuery, figures: &mut Figures) -> Step<()> {
    let dialect = session.dialect();
    let jobs: Vec<JobQueue> = session.all(&queues(dialect, query), JobQueue::read)?;
    if jobs.len() == MOST_JOBS {
        let all = sql("SELECT COUNT(*) FROM QRTZ_JOB j WHERE j.application = ?");
        let all: i64 = single(session.rows(&all.bind(query.application.as_str()))?)?;
        figures.jobs_left_out = (all - MOST_JOBS as i64).max(0);
    }
    let known: BTreeSet<&str> = jobs.iter().map(|it| it.job.as_str()).collect();
    let planned: Vec<Planned> = session.all(&planned(dialect, query), Planned::read)?;
    for Planned { job, executions, oldest } in planned {
        // Without a name: somebody deleted the job's row.
        if job.is_empty() || known.contains(job.as_str()) {
            figures.add_waiting(job, executions, oldest);
        }
    }
    for JobQueue { job, queue, oldest } in jobs {
        let (Some(queue), Some(oldest)) = (queue, oldest) else { continue };
        let executions = single(session.rows(&enqueued(dialect, query, queue))?)?;
        figures.add_waiting(job, executions, oldest);
    }
    Ok(())
}

answer! {
    SchedulesAlike() {
        job = "j.job_class", Row::loose_text;
        job_is_paused = "j.state AS job_state", |row| {
            Ok(Activity::read(&row.loose_text()?, true) == Activity::Paused)
        };
        state = "e.state", Row::loose_text;
        contained = "CASE WHEN e.paused_by = 'firetime' THEN 1 ELSE 0 END AS contained", Row::flag;
        schedules = "COUNT(*) AS schedules", Row::int;
        overdue = format!("COUNT(CASE WHEN e.next_fire_time >= 0 AND e.next_fire_time < ? - {} \
            THEN 1 END) AS overdue", bounded("e.threshold")), Row::int;
    }
}

/// A column as somebody may have written it by hand, as a number that can be reckoned with.
fn bounded(column: &str) -> String {
    format!("CASE WHEN {column} >= 0 AND {column} < {AWAITED} THEN {column} ELSE 0 END")
}

pub(crate) fn schedules(query: &FiguresQuery) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e LEFT JOIN QRTZ_JOB j ON j.id = e.pid WHERE e.application = ? \
         AND (e.state IS NULL OR e.state <> 'REMOVED') AND (e.job_type IS NULL OR e.job_type <> 'QUEUE') \
         GROUP BY j.job_class, j.state, e.state, CASE WHEN e.paused_by = 'firetime' THEN 1 ELSE 0 END",
        SchedulesAlike::columns()
    ))
    .bind_all((query.now - REPAIRED, query.application.as_str()))
}

answer! {
    LastSuccess() {
        schedule = "e.name", Row::loose_text;
        ended = format!("(SELECT r.finished_time FROM QRTZ_RUN r WHERE r.execute_id = e.id \
            AND r.generation = e.generation AND r.origin = 0 AND r.state = 'SUCCEEDED' \
            AND r.scheduled_time >= {prev} - CASE WHEN e.next_fire_time > {prev} \
            AND e.next_fire_time < {AWAITED} THEN ? * (e.next_fire_time - {prev}) ELSE ? END \
            ORDER BY r.generation DESC, r.origin DESC, r.scheduled_time DESC, r.attempt DESC \
            LIMIT 1) AS ended", prev = bounded("e.prev_fire_time")),
            Row::time;
    }
}

/// By the ledger's unique key, from each schedule's newest occurrence backwards.
pub(crate) fn successes(query: &FiguresQuery) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e WHERE e.application = ? AND e.state = 'EXECUTING' \
         ORDER BY e.application, e.name LIMIT ?",
        LastSuccess::columns()
    ))
    .bind_all((MOST_INTERVALS, LONGEST_LOOK, query.application.as_str(), MOST_SCHEDULES))
}

answer! {
    struct Planned() {
        job: String = "j.job_class", Row::loose_text;
        executions: i64 = "COUNT(*) AS executions", Row::int;
        oldest: Timestamp = "MIN(w.due_time) AS oldest", Row::instant;
    }
}

/// That an execution of an application waits in a queue and is due.
pub(crate) fn is_due(dialect: Dialect) -> String {
    let (pending, waits) = (ExecutionState::Pending.as_str(), dialect.pending());
    format!("r.application = ? AND r.state = '{pending}'{waits} AND r.due_time <= ?")
}

/// Executions of schedules, which lie in queue 0.
pub(crate) fn planned(dialect: Dialect, query: &FiguresQuery) -> Statement {
    sql(format!(
        "SELECT {} FROM (SELECT r.execute_id, r.due_time FROM QRTZ_RUN r WHERE {} AND r.queue = 0 \
         ORDER BY r.application, r.queue, r.due_time, r.id LIMIT ?) w \
         JOIN QRTZ_EXECUTE e ON e.id = w.execute_id LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
         GROUP BY j.job_class",
        Planned::columns(),
        is_due(dialect)
    ))
    .bind_all((query.application.as_str(), query.now, MOST_WAITING))
}

answer! {
    struct JobQueue(dialect: Dialect) {
        job: String = "j.job_class", Row::loose_text;
        queue: Option<i64> = "e.id", Row::maybe_int;
        oldest: Option<Timestamp> = format!(
            "(SELECT r.due_time FROM QRTZ_RUN r WHERE {} AND r.queue = e.id \
             ORDER BY r.application, r.queue, r.due_time, r.id LIMIT 1) AS oldest",
            is_due(dialect)
        ), Row::time;
    }
}

/// An application's jobs, each with its queue, if it has one, and the due time of the first that waits there.
pub(crate) fn queues(dialect: Dialect, query: &FiguresQuery) -> Statement {
    sql(format!(
        "SELECT {} FROM QRTZ_JOB j LEFT JOIN QRTZ_EXECUTE e \
         ON e.application = j.application AND e.name = {} WHERE j.application = ? \
         ORDER BY j.job_class LIMIT ?",
        JobQueue::columns(dialect),
        dialect.queue_of("j.job_class")
    ))
    .bind_all((query.application.as_str(), query.now, query.application.as_str(), MOST_JOBS))
}

pub(crate) fn enqueued(dialect: Dialect, query: &FiguresQuery, queue: i64) -> Statement {
    sql(format!(
        "SELECT COUNT(*) AS executions FROM (SELECT r.id FROM QRTZ_RUN r WHERE {} AND r.queue = ? LIMIT ?) w",
        is_due(dialect)
    ))
    .bind_all((query.application.as_str(), query.now, queue, MOST_WAITING))
}
