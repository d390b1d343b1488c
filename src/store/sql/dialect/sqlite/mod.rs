//! SQLite: a file, one writer at a time.

#[cfg(feature = "sqlite")]
mod driver;
#[cfg(feature = "sqlite")]
pub(crate) mod faults;

#[cfg(feature = "sqlite")]
use driver::open;

use super::Dialect;
#[cfg(not(feature = "sqlite"))]
use super::database::switched_off as open;
use super::database::{Database, LOCK_WAIT, SCHEMA_WAIT, schema_is_locked};
#[cfg(all(feature = "sqlite", feature = "tokio"))]
use crate::domain::Source;
use crate::store::StoreLimits;
use crate::store::sql::claim::planned::{
    Found, PlannedRequest, all_of, by_first_column, have_slots, insert_moved, move_cursors,
    move_cursors_and_slots, planned_want,
};
use crate::store::sql::connection::hosts::Pickiness;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::Row;

pub(crate) struct Sqlite;

impl Database for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn connect(&self, target: &Target, limits: StoreLimits) -> Step<Opened> {
        // Opening a path without a file would make one.
        target.check_file()?;
        let mut session = open(target, &target.address, Pickiness::AnyThatWorks)
            .map_err(|fault| unopened(target, fault))?;
        target.note_file();
        target.check_file()?;
        self.limit(session.as_mut(), limits).map_err(|fault| unopened(target, fault))?;
        Ok(session)
    }

    fn limit(&self, session: &mut dyn Session, _: StoreLimits) -> Step<()> {
        session.batch(&format!("PRAGMA busy_timeout = {LOCK_WAIT}"))?;
        write_ahead(session)?;
        session.batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 1")
    }

    fn lift_limits(&self, session: &mut dyn Session) -> Step<()> {
        session.batch(&format!("PRAGMA busy_timeout = {SCHEMA_WAIT}000"))
    }

    /// The transaction that writes is alone.
    fn lock_schema(&self, session: &mut dyn Session) -> Step<()> {
        session.batch(Dialect::Sqlite.begin()).map_err(|fault| match fault.kind {
            FaultKind::Busy => Fault { cause: fault.cause, ..schema_is_locked() },
            _ => fault,
        })
    }

    #[cfg(all(feature = "sqlite", feature = "tokio"))]
    fn coded(&self, code: &str, constraint: Option<&str>, cause: Source) -> Fault {
        faults::coded(code, constraint, cause)
    }

    fn claim(&self, session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
        let want = planned_want(planned);
        let moves = if have_slots(planned) { move_cursors_and_slots } else { move_cursors };
        let moves = moves(Dialect::Sqlite, &want).push(" RETURNING id");
        let want = want.only(&session.all::<_, Vec<i64>>(&moves, Row::int)?);
        if want.len() == 0 {
            return Ok(Found::default());
        }
        let insert = insert_moved(Dialect::Sqlite, &want).push(" RETURNING execute_id, id, fence");
        all_of(&want, by_first_column(session.rows(&insert)?)?)
    }
}

/// Switches a file to WAL. SQLite does not wait for a file that is busy here, so a transaction, for which it
/// does, waits in its place.
fn write_ahead(session: &mut dyn Session) -> Step<()> {
    let mut switched = session.batch("PRAGMA journal_mode = WAL");
    for _ in 0..8 {
        match &switched {
            Err(fault) if fault.kind == FaultKind::Busy => {
                session.batch("BEGIN IMMEDIATE; COMMIT")?;
                switched = session.batch("PRAGMA journal_mode = WAL");
            }
            _ => break,
        }
    }
    switched
}

/// Why there is no session, and what of the file to look at.
fn unopened(target: &Target, fault: Fault) -> Fault {
    let is_busy = fault.kind == FaultKind::Busy;
    target.clean(if is_busy { fault } else { fault.with(&advice(&target.address)) })
}

/// What to look at when a file cannot be opened. One whose name looks like a login is not shown.
fn advice(file: &str) -> String {
    let name = if file.contains('@') { String::new() } else { format!(" {file}") };
    format!("the file{name} is not usable (is it a database, does its folder exist, may both be written?)")
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "sqlite")]
    use super::*;

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_file_that_cannot_be_opened_is_named_unless_it_looks_like_a_login() {
        let opened = |url: &str| {
            let limits = StoreLimits { call: 1_000, connections: 1, spare: 0 };
            Target::parse(url).unwrap().connect(limits).err().expect("no such folder").to_string()
        };
        let said = opened("sqlite:/nowhere/at/all/x.db");
        assert!(said.contains("/nowhere/at/all/x.db") && said.contains("folder"), "{said}");
        let said = opened("sqlite:Cargo.toml");
        assert!(said.contains("Cargo.toml") && said.contains("is it a database"), "{said}");
        assert!(!opened("sqlite:/nowhere/me:hunter2@host.db").contains("hunter2"));
    }
}
