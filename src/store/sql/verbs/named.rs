//! Rows that are sought by their names to be locked. On MariaDB at REPEATABLE READ a lock by a name also
//! locks the gap before it, where others insert theirs: there the id is read first, without a lock.

use crate::store::sql::session::Session;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, sql};

/// The condition that names the schedule `e`, whose row these words lock; none if it is known that there is
/// no such schedule. One that is younger than a caller's snapshot counts as missing, as on PostgreSQL.
pub(crate) fn schedule(
    session: &mut dyn Session,
    (application, name): (&str, &str),
    lock: &str,
) -> Step<Option<Statement>> {
    let of_name = sql("e.application = ? AND e.name = ?").bind_all((application, name));
    by_id(session, ("QRTZ_EXECUTE", "e"), of_name, lock)
}

/// The same of the job `j`.
pub(crate) fn job(
    session: &mut dyn Session,
    (application, name): (&str, &str),
    lock: &str,
) -> Step<Option<Statement>> {
    let of_name = sql("j.application = ? AND j.job_class = ?").bind_all((application, name));
    by_id(session, ("QRTZ_JOB", "j"), of_name, lock)
}

fn by_id(
    session: &mut dyn Session,
    (table, alias): (&str, &str),
    of_name: Statement,
    lock: &str,
) -> Step<Option<Statement>> {
    if lock.is_empty() || !session.dialect().locks_gaps() {
        return Ok(Some(of_name));
    }
    let question = sql(format!("SELECT {alias}.id FROM {table} {alias} WHERE ")).and(of_name);
    let id = session.one(&question, Row::int)?;
    Ok(id.map(|id| sql(format!("{alias}.id = ?")).bind(id)))
}
