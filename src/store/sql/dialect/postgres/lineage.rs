//! The copy of a database that a session leads to, and the fences of its claims.

use crate::domain::Lineage;
use crate::store::StoreLimits;
use crate::store::sql::connection::target::Target;
use crate::store::sql::dialect::FENCE_FROM;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::sql;

/// The part of a WAL file's name that is its timeline, as a number; NULL on a standby.
const QUESTION: &str = "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE \
     CAST(CAST(('x' || LEFT(pg_walfile_name(pg_current_wal_lsn()), 8)) AS bit(32)) AS BIGINT) END \
     AS timeline, (SELECT c.system_identifier FROM pg_control_system() c) AS system";

/// Notes where a node's session leads to, and lets its fences begin there. Refuses a standby, and a server
/// that was replaced by one that this process has seen.
pub(super) fn follow(session: &mut dyn Session, target: &Target, limits: StoreLimits) -> Step<()> {
    let rows = match session.rows(&sql(QUESTION)) {
        // Some services have no such functions, and keep their fences without them.
        Err(fault) if fault.kind == FaultKind::Refused => return Ok(()),
        rows => rows?,
    };
    let Some(mut row) = rows.into_iter().next() else { return Ok(()) };
    let (Some(timeline), system) = (row.maybe_int()?, row.int()?) else {
        // Clients may look at a standby.
        return if limits.is_of_node() { Err(standby()) } else { Ok(()) };
    };
    let lineage = Lineage::new(system, timeline);
    target.follow(lineage)?;
    session.batch(&format!("SET {FENCE_FROM} = {}", lineage.fence_from()))
}

fn standby() -> Fault {
    Fault::new(FaultKind::ReadOnly, "the server is a standby: nodes need the primary")
}
