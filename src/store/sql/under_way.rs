//! Executions under way, CLAIMED or RUNNING, and how they are found.
//!
//! MariaDB and SQLite find them by an index that holds the state. On PostgreSQL an index on what an outcome
//! changes would cost each outcome an entry in every index. There each claim leaves a row in QRTZ_CLAIM, in
//! its own transaction: which ids its executions lie between, and whose they are. A row goes when none of
//! them is under way any more. So one rule holds:
//!
//! > **Each execution under way lies within a claim of its node.**

use super::connection::Dialect;
use super::session::{Fault, Nature, Session};
use super::statement::{Statement, seek, sql};
use crate::domain::{ExecutionState, NodeId};

/// The most claims that one statement clears away, more than a node makes between two heartbeats. Each is a
/// look at its executions.
const SWEPT: usize = 2_000;
/// Ids no further apart than this are noted together: to pass over what lies between is cheaper than another
/// claim.
const NEAR: i64 = 1_000;

/// Followed by the first and last id of a claim's executions, their application and node.
pub(super) const NOTE: &str = "INSERT INTO QRTZ_CLAIM (first_run, last_run, application, node) SELECT";

/// Notes executions whose ids lie anywhere, as one claim where they are near each other.
pub(super) fn note(session: &mut dyn Session, mut executions: Vec<i64>) -> Result<(), Fault> {
    if session.dialect() != Dialect::Postgres {
        return Ok(());
    }
    executions.sort_unstable();
    for near in executions.chunk_by(|one, next| next - one <= NEAR) {
        let noted = sql(format!("{NOTE} MIN(id), MAX(id), application, node FROM QRTZ_RUN WHERE id IN "));
        session.execute(&noted.list(near.iter().copied()).push(" GROUP BY application, node"))?;
    }
    Ok(())
}

/// What PENDING executions are found by, where their state is in no index.
pub(super) fn no_one_has(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => " AND node = '' AND claim_token <> ''",
        Dialect::Mysql | Dialect::Sqlite => "",
    }
}

/// Whose executions are meant.
#[derive(Clone, Copy)]
pub(super) enum Whose {
    Node(NodeId),
    /// Of nodes that have ended, or are not there.
    Nobody,
}

impl Whose {
    /// Appends that the node `column` is one that is meant.
    fn of(self, question: Statement, column: &str) -> Statement {
        match self {
            Self::Node(node) => question.push(&format!(" AND {column} = ?")).bind(node),
            Self::Nobody => question.push(&format!(
                " AND NOT EXISTS (SELECT 1 FROM QRTZ_NODE n WHERE n.uuid = {column} AND n.ended_time = -1)"
            )),
        }
    }
}

/// The executions of a claim `c` that are under way. OFFSET keeps PostgreSQL from reading the ledger first
/// and the claims for each of its rows, which a plan made over empty tables would do.
const OF_CLAIM: &str = "(SELECT o.id FROM QRTZ_RUN o WHERE o.id BETWEEN c.first_run AND c.last_run AND o.node = c.node \
     AND o.state IN ('CLAIMED', 'RUNNING') OFFSET 0)";

/// The ids of all that is under way.
fn by_claim() -> String {
    format!("SELECT o.id FROM QRTZ_CLAIM c CROSS JOIN LATERAL {OF_CLAIM} AS o")
}

/// Appends whether a node may have anything under way, as a condition.
pub(super) fn owns(dialect: Dialect, question: Statement, application: &str, node: NodeId) -> Statement {
    let one = |question: Statement, table: &str| {
        question
            .push(&format!("EXISTS (SELECT 1 FROM {table} application = ? AND node = ?)"))
            .bind(application)
            .bind(node)
    };
    if dialect == Dialect::Postgres {
        return one(question, "QRTZ_CLAIM WHERE");
    }
    let question = one(question, "QRTZ_RUN WHERE state = 'CLAIMED' AND");
    one(question.push(" OR "), "QRTZ_RUN WHERE state = 'RUNNING' AND")
}

/// Appends that a row of QRTZ_NODE is one that owns nothing under way.
pub(super) fn owned_by_none(dialect: Dialect, statement: Statement, application: &str) -> Statement {
    let none = |statement: Statement, table: &str| {
        let text =
            format!(" AND NOT EXISTS (SELECT 1 FROM {table} o.application = ? AND o.node = QRTZ_NODE.uuid)");
        statement.push(&text).bind(application)
    };
    if dialect == Dialect::Postgres {
        return none(statement, "QRTZ_CLAIM o WHERE");
    }
    let statement = none(statement, "QRTZ_RUN o WHERE o.state = 'CLAIMED' AND");
    none(statement, "QRTZ_RUN o WHERE o.state = 'RUNNING' AND")
}

/// What is under way, by id, as [`stranded`](super::node::stranded) reads it.
pub(super) fn under_way(dialect: Dialect, application: &str, whose: Whose) -> Statement {
    let what = WHAT.replace("{schedule}", &seek(dialect, "e.id", "r.execute_id"));
    let question = sql(format!("SELECT o.* FROM ({what}")).bind(application);
    let question = if dialect == Dialect::Postgres {
        let states = " AND r.state IN ('CLAIMED', 'RUNNING')";
        let question =
            question.push(&format!("{states} AND r.id = ANY (ARRAY({} WHERE c.application = ?", by_claim()));
        whose.of(question.bind(application), "c.node").push("))")
    } else {
        // Two questions in one: SQLite matches its index to a single state only.
        let claimed = whose.of(question.push(" AND r.state = 'CLAIMED'"), "r.node");
        let both = claimed.push(&format!(" UNION ALL {what} AND r.state = 'RUNNING'")).bind(application);
        whose.of(both, "r.node")
    };
    question.push(") AS o ORDER BY o.id + 0")
}

/// Of an application.
const WHAT: &str = "SELECT r.id, r.execute_id, r.state, r.claim_token, r.attempt, \
     (SELECT COUNT(*) FROM QRTZ_RUN d WHERE d.execute_id = r.execute_id AND d.generation = r.generation \
     AND d.origin = r.origin AND d.scheduled_time = r.scheduled_time AND d.attempt < r.attempt \
     AND d.state = 'ABANDONED') AS deaths, e.name, \
     COALESCE(j.recover, 0) AS recover, COALESCE(j.max_attempts, 1) AS max_attempts, \
     COALESCE(j.max_tries, 1) AS max_tries, COALESCE(j.retry_delay, 0) AS retry_delay \
     FROM QRTZ_RUN r LEFT JOIN QRTZ_EXECUTE e ON {schedule} LEFT JOIN QRTZ_JOB j ON j.id = e.pid \
     WHERE r.application = ?";

/// Clears away the claims nothing of which is under way. Should it be refused, they only stay until the next
/// time.
pub(super) fn sweep(session: &mut dyn Session, application: &str, whose: Whose) -> Result<(), Fault> {
    if session.dialect() != Dialect::Postgres {
        return Ok(());
    }
    match session.execute(&ended(application, whose)) {
        Err(fault) if matches!(fault.nature, Nature::Lost | Nature::Unknown) => Err(fault),
        _ => Ok(()),
    }
}

pub(super) fn ended(application: &str, whose: Whose) -> Statement {
    let claims =
        sql("DELETE FROM QRTZ_CLAIM WHERE id IN (SELECT c.id FROM QRTZ_CLAIM c WHERE c.application = ?")
            .bind(application);
    whose.of(claims, "c.node").push(&format!(" AND NOT EXISTS {OF_CLAIM} ORDER BY c.id LIMIT ?)")).bind(SWEPT)
}

/// Appends that `r` is in one of these states, and how that is found.
pub(super) fn in_states(dialect: Dialect, question: Statement, states: &[ExecutionState]) -> Statement {
    let question = question.push(" AND r.state IN ").list(states.iter().map(|state| state.as_str()));
    if dialect != Dialect::Postgres || states.iter().any(|state| state.is_terminal()) {
        return question;
    }
    question.push(&format!(
        " AND r.id = ANY (ARRAY({} UNION ALL SELECT id FROM QRTZ_RUN WHERE TRUE{}))",
        by_claim(),
        no_one_has(dialect)
    ))
}
