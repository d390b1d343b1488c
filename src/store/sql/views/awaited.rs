//! Executions whose ends somebody waits for.

use crate::domain::ExecutionId;
use crate::store::awaited::OpenOrEnded;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::batch::BatchRows;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Statement, sql};
use crate::store::sql::session::{Session, catch_up};

/// How the occurrences of these executions stand, as far as the application has them.
pub(crate) fn open_or_ended(
    session: &mut dyn Session,
    application: &str,
    executions: &[ExecutionId],
) -> Step<Vec<(ExecutionId, OpenOrEnded)>> {
    let known = ask(session, application, executions)?;
    if known.len() < executions.len() && session.certifies() {
        catch_up(session)?;
        return ask(session, application, executions);
    }
    Ok(known)
}

fn ask(
    session: &mut dyn Session,
    application: &str,
    executions: &[ExecutionId],
) -> Step<Vec<(ExecutionId, OpenOrEnded)>> {
    let dialect = session.dialect();
    let mut known = Vec::with_capacity(executions.len());
    for some in executions.chunks(dialect.batch()) {
        let rows: Vec<_> = session.all(&question(dialect, application, some), |row| {
            let (id, open) = (ExecutionId(row.int()?), row.maybe_int()?);
            Ok((id, open.map_or(OpenOrEnded::Ended, |open| OpenOrEnded::Open(ExecutionId(open)))))
        })?;
        known.extend(rows);
    }
    Ok(known)
}

/// One that ran out of time goes on while its handler runs: a retry may follow its return.
pub(crate) fn question(dialect: Dialect, application: &str, executions: &[ExecutionId]) -> Statement {
    let want = BatchRows::new(executions.iter().map(|id| id.0)).same("application", application.to_owned());
    let open = "(SELECT MAX(h.id) FROM QRTZ_RUN h WHERE h.execute_id = r.execute_id \
                   AND h.generation = r.generation AND h.origin = r.origin \
                   AND h.scheduled_time = r.scheduled_time AND (h.state IN ('PENDING', 'CLAIMED', 'RUNNING') \
                   OR (h.state = 'TIMED_OUT' AND h.finished_time = -1)))";
    sql(format!("SELECT r.id, {open} AS open_attempt FROM ")).want(dialect, &want).push(&format!(
        " {} QRTZ_RUN r ON {} AND r.application = w.application",
        dialect.join(),
        dialect.seek("r.id", "w.id")
    ))
}
