//! Whether PostgreSQL gives each of our sessions a backend of its own.
//!
//! A pooler in transaction mode gives each transaction of a session to another backend: prepared statements
//! are missing, or are there twice, and the settings of a session reach the other users of the pool. In
//! session mode a pooler is invisible.

use diesel::dsl::sql;
use diesel::sql_types::Integer;
use diesel::{Connection, PgConnection, RunQueryDsl};

use super::faults::fault;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};

/// Whose transaction comes next. A pool at rest gives both sessions the backend used last or, if it takes
/// turns, one session another backend each time; in a busy one each turn may show it.
const TURNS: [usize; 6] = [0, 1, 1, 0, 0, 1];

/// Refuses two sessions that do not keep their backends, before anything is set or prepared on these.
pub(super) fn refuse(mut sessions: [&mut PgConnection; 2]) -> Step<()> {
    let mut backends = [None, None];
    for turn in TURNS {
        let (Some(session), Some(backend)) = (sessions.get_mut(turn), backends.get_mut(turn)) else {
            continue;
        };
        let now = Some(backend_of(session)?);
        if backend.is_some() && *backend != now {
            return Err(shared());
        }
        *backend = now;
        if backends[0] == backends[1] {
            return Err(shared());
        }
    }
    Ok(())
}

/// The number of the backend at work. The statement this prepares has no name, and is used within its
/// transaction only.
fn backend_of(session: &mut PgConnection) -> Step<i32> {
    let pid =
        |session: &mut PgConnection| diesel::select(sql::<Integer>("pg_backend_pid()")).get_result(session);
    session.transaction(pid).map_err(fault)
}

fn shared() -> Fault {
    let message = "the database is reached through a pooler whose clients share sessions (PgBouncer's \
                   transaction mode), but firetime needs sessions of its own: use session mode, or the \
                   database's own address";
    Fault::new(FaultKind::Senseless, message)
}
