//! Executions under way, CLAIMED or RUNNING, and how they are found.
//!
//! MariaDB and SQLite find them by an index that holds the state. On PostgreSQL an index on what an outcome
//! changes would cost each outcome an entry in every index. There each claim leaves a row in QRTZ_CLAIM, in
//! its own transaction: which ids its executions lie between, and whose they are. A row goes when none of
//! them is under way any more. So one rule holds:
//!
//! > **Each execution under way lies within a claim of its node.**

use std::sync::Arc;

use uuid::Uuid;

use super::policy::{settings, settings_columns};
use crate::domain::{ExecutionId, ExecutionState, NodeId, ScheduleId, Token, UnknownWord};
use crate::store::Stranded;
use crate::store::columns::JobColumn;
use crate::store::repairs::called;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::fault::{Fault, Step};
use crate::store::sql::session::statement::{Row, Statement, answer, sql};

/// Whose executions are meant.
#[derive(Clone, Copy)]
pub(crate) enum Whose {
    Node(NodeId),
    /// Of nodes that have ended, or are not there.
    Nobody,
}

impl Whose {
    /// Appends that the node `column` is one that is meant.
    pub(crate) fn of(self, question: Statement, column: &str) -> Statement {
        match self {
            Self::Node(node) => question.push(&format!(" AND {column} = ?")).bind(node),
            Self::Nobody => question.push(&format!(
                " AND NOT EXISTS (SELECT 1 FROM QRTZ_NODE n WHERE n.uuid = {column} AND n.ended_time = -1)"
            )),
        }
    }
}

/// Appends whether a node may have anything under way, as a condition.
pub(crate) fn owns(dialect: Dialect, question: Statement, application: &str, node: NodeId) -> Statement {
    let places = dialect.open_places().iter().enumerate();
    places.fold(question, |question, (place, (table, state))| {
        let or = if place == 0 { "" } else { " OR " };
        let open = state.map_or(String::new(), |state| format!("state = '{state}' AND "));
        let one = format!("{or}EXISTS (SELECT 1 FROM {table} WHERE {open}application = ? AND node = ?)");
        question.push(&one).bind(application).bind(node)
    })
}

/// Appends that a row of QRTZ_NODE is one that owns nothing under way.
pub(crate) fn owned_by_none(dialect: Dialect, statement: Statement, application: &str) -> Statement {
    dialect.open_places().iter().fold(statement, |statement, (table, state)| {
        let open = state.map_or(String::new(), |state| format!("o.state = '{state}' AND "));
        let none = format!(
            " AND NOT EXISTS (SELECT 1 FROM {table} o WHERE {open}o.application = ? \
             AND o.node = QRTZ_NODE.uuid)"
        );
        statement.push(&none).bind(application)
    })
}

/// The executions under way, by id, as [`open_execution`] reads them; found by their state.
pub(crate) fn by_state(dialect: Dialect, application: &str, whose: Whose) -> Statement {
    // Two questions in one: SQLite matches its index to a single state only.
    let claimed = whose.of(begun(dialect, application).push(" AND r.state = 'CLAIMED'"), "r.node");
    let both =
        claimed.push(&format!(" UNION ALL {} AND r.state = 'RUNNING'", rows(dialect))).bind(application);
    whose.of(both, "r.node").push(BY_ID)
}

/// Begins a question for executions of an application: a condition on `r` follows, and then [`BY_ID`].
pub(crate) fn begun(dialect: Dialect, application: &str) -> Statement {
    sql(format!("SELECT o.* FROM ({}", rows(dialect))).bind(application)
}

pub(crate) const BY_ID: &str = ") AS o ORDER BY o.id + 0";

/// Those whose handlers ran on beyond their time limits on nodes that have ended, or are not there.
pub(crate) fn stuck_nowhere(dialect: Dialect, application: &str) -> Statement {
    let text = rows(dialect).replace(
        "FROM QRTZ_RUN r ",
        &format!(
            "FROM QRTZ_STUCK s {} QRTZ_RUN r ON {} ",
            dialect.join(),
            dialect.seek("r.id", "s.execution_id")
        ),
    );
    let question = sql(text).bind(application).push(" AND s.application = ?").bind(application);
    Whose::Nobody.of(question, "s.node")
}

/// The executions `r` of an application.
fn rows(dialect: Dialect) -> String {
    format!(
        "SELECT {} FROM QRTZ_RUN r LEFT JOIN QRTZ_EXECUTE e ON {} LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
         WHERE r.application = ?",
        Stranded::columns(),
        dialect.seek("e.id", "r.execute_id")
    )
}

answer! {
    Stranded() {
        id = "r.id", |row| row.int().map(ExecutionId);
        schedule = "r.execute_id", |row| row.int().map(ScheduleId);
        state = "r.state", |row| row.text()?.parse().map_err(|unknown: UnknownWord| undecodable(&unknown));
        // A row without a readable token was written by hand; the nil token never matches: it is left alone.
        token = "r.claim_token", |row| Ok(row.token()?.unwrap_or(Token(Uuid::nil())));
        attempt = "r.attempt", |row| row.loose_int().map(clamped);
        failures = "COALESCE(r.failures, 0) AS failed", |row| row.int().map(clamped);
        deaths = "(SELECT COUNT(*) FROM QRTZ_RUN d WHERE d.execute_id = r.execute_id \
            AND d.generation = r.generation AND d.origin = r.origin AND d.scheduled_time = r.scheduled_time \
            AND d.attempt < r.attempt AND d.state = 'ABANDONED') AS deaths", |row| row.int().map(clamped);
        is_cancelled = "CASE WHEN EXISTS (SELECT 1 FROM QRTZ_CANCEL c WHERE c.execution_id = r.id) \
            THEN 1 ELSE 0 END AS cancelled", Row::flag;
        name = "e.name", |row| row.loose_text().map(Arc::from);
        job = "COALESCE(j.job_class, '') AS job", |row| row.loose_text().map(Arc::from);
        delay = "CASE WHEN e.job_type = 'DELAY' THEN e.repeat_interval END AS delay", Row::maybe_int;
        policy = settings_columns("j", JobColumn::policy()),
            |row| settings(row, JobColumn::policy()).map(|it| it.policy);
    }
}

fn undecodable(unknown: &UnknownWord) -> Fault {
    Fault::undecodable(unknown.to_string())
}

fn clamped(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Reads an execution under way; one that cannot be read was written by hand and is nobody's.
pub(crate) fn open_execution(row: &mut Row) -> Step<Stranded> {
    let read = Stranded::read(row)?;
    Ok(Stranded { name: called(&read.name, read.schedule), ..read })
}

/// Appends that `r` is in one of these states.
pub(crate) fn in_states(question: Statement, states: &[ExecutionState]) -> Statement {
    question.push(" AND r.state IN ").list(states.iter().map(|state| state.as_str()))
}
