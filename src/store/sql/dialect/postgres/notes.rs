//! Claims noted in QRTZ_CLAIM: how PostgreSQL finds executions under way without an index on their state.

use crate::domain::ExecutionState;
use crate::store::ExecutionQuery;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::rows::open_executions::{self, Whose};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{FaultKind, Step};
use crate::store::sql::session::statement::{Statement, sql};

/// The most claims that one statement clears away, more than a node makes between two heartbeats. Each is a
/// look at its executions.
const SWEPT: usize = 2_000;
/// Ids no further apart than this are noted together: to pass over what lies between is cheaper than another
/// claim.
const NEAR: i64 = 1_000;

/// Followed by the first and last id of a claim's executions, their application and node.
pub(super) const NOTE: &str = "INSERT INTO QRTZ_CLAIM (first_run, last_run, application, node) SELECT";

/// Notes executions whose ids lie anywhere, as one claim where they are near each other.
pub(super) fn note(session: &mut dyn Session, mut executions: Vec<i64>) -> Step<()> {
    executions.sort_unstable();
    for near in executions.chunk_by(|one, next| next - one <= NEAR) {
        let noted = sql(format!("{NOTE} MIN(id), MAX(id), application, node FROM QRTZ_RUN WHERE id IN "));
        session.execute(&noted.list(near.iter().copied()).push(" GROUP BY application, node"))?;
    }
    Ok(())
}

/// The executions of a claim `c` that are under way. OFFSET keeps PostgreSQL from reading the ledger first
/// and the claims for each of its rows, which a plan made over empty tables would do.
const OF_CLAIM: &str = "(SELECT o.id FROM QRTZ_RUN o WHERE o.id BETWEEN c.first_run AND c.last_run \
     AND o.node = c.node AND o.state IN ('CLAIMED', 'RUNNING') OFFSET 0)";

/// The ids of all that is under way.
fn by_claim() -> String {
    format!("SELECT o.id FROM QRTZ_CLAIM c CROSS JOIN LATERAL {OF_CLAIM} AS o")
}

/// The executions under way, by id, found by the claims they lie within.
pub(super) fn open_executions(application: &str, whose: Whose) -> Statement {
    let question = open_executions::begun(Dialect::Postgres, application);
    let question = question.push(&format!(
        " AND r.state IN ('CLAIMED', 'RUNNING') AND r.id = ANY (ARRAY({} WHERE c.application = ?",
        by_claim()
    ));
    whose.of(question.bind(application), "c.node").push("))").push(open_executions::BY_ID)
}

/// Clears away the claims nothing of which is under way. If this fails, the next sweep removes
/// them.
pub(super) fn sweep(session: &mut dyn Session, application: &str, whose: Whose) -> Step<()> {
    match session.execute(&ended(application, whose)) {
        Err(fault) if matches!(fault.kind, FaultKind::Lost | FaultKind::Unknown) => Err(fault),
        _ => Ok(()),
    }
}

pub(crate) fn ended(application: &str, whose: Whose) -> Statement {
    let claims =
        sql("DELETE FROM QRTZ_CLAIM WHERE id IN (SELECT c.id FROM QRTZ_CLAIM c WHERE c.application = ?")
            .bind(application);
    whose.of(claims, "c.node").push(&format!(" AND NOT EXISTS {OF_CLAIM} ORDER BY c.id LIMIT ?)")).bind(SWEPT)
}

/// Executions that have not ended are found by claims and by what PENDING ones have in an index, each where
/// it is asked for. Adding nothing to the ids of schedules keeps PostgreSQL from reading all executions of
/// these instead.
pub(super) fn open_states(query: &ExecutionQuery) -> Statement {
    let application = query.application.as_deref();
    let mut found = Vec::new();
    if query.states.iter().any(|state| *state != ExecutionState::Pending) {
        found.push(sql(by_claim()).given(" WHERE c.application = ?", application));
    }
    if query.states.contains(&ExecutionState::Pending) {
        let pending = sql(format!("SELECT p.id FROM QRTZ_RUN p WHERE TRUE{}", Dialect::Postgres.pending()))
            .given(" AND p.application = ?", application);
        let queues = " AND p.queue = ANY (ARRAY(SELECT CAST(0 AS BIGINT) UNION ALL SELECT s.id \
                      FROM QRTZ_EXECUTE s WHERE s.name = ?))";
        let schedules =
            " AND p.execute_id + 0 = ANY (ARRAY(SELECT s.id FROM QRTZ_EXECUTE s WHERE s.name = ?))";
        let schedule = query.schedule.as_deref();
        found.push(pending.given(queues, schedule).given(schedules, schedule));
    }
    let found = found.into_iter().reduce(|found, next| found.push(" UNION ALL ").and(next));
    found.map_or(sql(""), |found| sql(" AND r.id = ANY (ARRAY(").and(found).push("))"))
}
