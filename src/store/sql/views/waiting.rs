//! The payloads that handlers have yet to decode, page by page.

use crate::domain::{ExecutionId, Timestamp};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, answer, sql};
use crate::store::sql::views::inspect::{behind_name, page_of};
use crate::store::waiting::{PayloadOf, PayloadPage, PayloadPlace, PayloadWalk, WaitingPayload};

answer! {
    struct ScheduleSeen() {
        name: String = "e.name", Row::loose_text;
        job: Option<String> = "j.job_class", Row::maybe_text;
        /// None if it does not wait.
        payload: Option<String> =
            "CASE WHEN e.state IN ('EXECUTING', 'PAUSED') THEN e.payload END AS payload", Row::maybe_text;
    }
}

answer! {
    struct ExecutionSeen() {
        key: (Timestamp, i64) = "r.due_time, r.id", |row| Ok((row.instant()?, row.int()?));
        job: Option<String> = "j.job_class", Row::maybe_text;
        /// None if that of its schedule stands for it, or if it is to be cancelled.
        payload: Option<String> = "CASE WHEN e.state = 'REMOVED' THEN NULL \
            WHEN r.payload IS NOT NULL THEN r.payload \
            WHEN e.state NOT IN ('EXECUTING', 'PAUSED') THEN e.payload END AS payload", Row::maybe_text;
    }
}

pub(crate) fn waiting(session: &mut dyn Session, walk: &PayloadWalk) -> Step<PayloadPage> {
    match &walk.after {
        PayloadPlace::Schedule(name) => schedules(session, walk, name),
        PayloadPlace::Execution { queue, key } => executions(session, walk, *queue, *key),
    }
}

fn schedules(session: &mut dyn Session, walk: &PayloadWalk, after: &str) -> Step<PayloadPage> {
    let question = schedules_page(session.dialect(), &walk.application, after, walk.limit);
    let rows: Vec<ScheduleSeen> = session.all(&question, ScheduleSeen::read)?;
    // Behind a name that is no text SQLite has no other.
    let last = rows.last().map(|row| row.name.clone()).filter(|name| !name.is_empty());
    let last = last.filter(|_| rows.len() == walk.limit);
    let payload = |row: ScheduleSeen| waiting_payload(PayloadOf::Schedule(row.name), row.job, row.payload);
    Ok(PayloadPage {
        payloads: rows.into_iter().filter_map(payload).collect(),
        next: Some(last.map_or_else(|| PayloadPlace::queue(0), PayloadPlace::Schedule)),
    })
}

fn executions(
    session: &mut dyn Session,
    walk: &PayloadWalk,
    queue: i64,
    after: (Timestamp, i64),
) -> Step<PayloadPage> {
    let question = executions_page(session.dialect(), &walk.application, queue, after, walk.limit);
    let rows: Vec<ExecutionSeen> = session.all(&question, ExecutionSeen::read)?;
    let last = rows.last().map(|row| row.key).filter(|_| rows.len() == walk.limit);
    let next = match last {
        Some(key) => Some(PayloadPlace::Execution { queue, key }),
        None => next_queue(session, &walk.application, queue)?.map(PayloadPlace::queue),
    };
    let payload = |row: ExecutionSeen| {
        waiting_payload(PayloadOf::Execution(ExecutionId(row.key.1)), row.job, row.payload)
    };
    Ok(PayloadPage { payloads: rows.into_iter().filter_map(payload).collect(), next })
}

fn waiting_payload(of: PayloadOf, job: Option<String>, payload: Option<String>) -> Option<WaitingPayload> {
    Some(WaitingPayload { of, job: job?, payload: payload? })
}

/// The queue behind another; each is found by its job.
fn next_queue(session: &mut dyn Session, application: &str, queue: i64) -> Step<Option<i64>> {
    let dialect = session.dialect();
    let question = format!(
        "SELECT e.id FROM QRTZ_JOB j {} QRTZ_EXECUTE e ON e.application = j.application AND e.name = {} \
         WHERE j.application = ? AND e.id > ? ORDER BY e.id LIMIT 1",
        dialect.join(),
        dialect.queue_of("j.job_class")
    );
    session.one(&sql(question).bind(application).bind(queue), Row::int)
}

/// Schedules behind a name, also those that do not wait, so that a page reads a bounded number of rows.
pub(crate) fn schedules_page(dialect: Dialect, application: &str, after: &str, limit: usize) -> Statement {
    let question = sql(format!(
        "SELECT {} FROM QRTZ_EXECUTE e LEFT JOIN QRTZ_JOB j ON j.id = e.pid WHERE 1 = 1",
        ScheduleSeen::columns()
    ));
    behind_name(question, dialect, application, after)
        .push(" ORDER BY e.application, e.name LIMIT ?")
        .bind(limit)
}

/// The PENDING executions of a queue behind a key.
pub(crate) fn executions_page(
    dialect: Dialect,
    application: &str,
    queue: i64,
    (due, id): (Timestamp, i64),
    limit: usize,
) -> Statement {
    let question = sql(format!(
        "SELECT {} FROM QRTZ_RUN r LEFT JOIN QRTZ_EXECUTE e ON e.id = r.execute_id \
         LEFT JOIN QRTZ_JOB j ON j.id = e.pid WHERE r.state = 'PENDING'{}",
        ExecutionSeen::columns(),
        dialect.pending()
    ));
    page_of(question, dialect, "r", application)
        .push(
            " AND r.queue = ? AND r.due_time >= ? AND (r.due_time > ? OR r.id > ?) \
             ORDER BY r.application, r.due_time, r.id LIMIT ?",
        )
        .bind_all((queue, due, due, id, limit))
}
