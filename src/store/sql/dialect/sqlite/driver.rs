//! SQLite behind [`Session`]: callers' connections, and ours, which wait for other writers.

use diesel::deserialize::{self, QueryableByName};
use diesel::row::NamedRow;
use diesel::{RunQueryDsl, SqliteConnection};

use super::faults::fault;
use crate::store::columns::Cell;
use crate::store::sql::connection::hosts::Pickiness;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::dialect::database::LOCK_WAIT;
use crate::store::sql::session::fault::{FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement};
use crate::store::sql::session::{Columns, Session, Sql, cells, session};
use crate::time;

pub(super) fn open(target: &Target, address: &str, _: Pickiness) -> Step<Opened> {
    Ok(Box::new(Patient(target.establish(address)?)))
}

session!(SqliteConnection, Dialect::Sqlite, diesel::connection::DefaultLoadingMode);

/// A session that tries a statement again and again while others write. By itself SQLite waits ever longer
/// between two tries, and would hardly ever find the file free beside a process that writes in a loop. How
/// long it is to wait after each is the session's `busy_timeout`.
struct Patient(SqliteConnection);

impl Patient {
    fn patiently<T>(&mut self, mut attempt: impl FnMut(&mut SqliteConnection) -> Step<T>) -> Step<T> {
        let began = time::boot();
        let has_time = || (time::boot() - began).millis() < LOCK_WAIT;
        loop {
            match attempt(&mut self.0) {
                Err(fault) if fault.kind == FaultKind::Busy && has_time() => {}
                ended => return ended,
            }
        }
    }
}

/// What met a busy file has done nothing. It stands at the beginning of a transaction, or is one.
impl Session for Patient {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, statement: &Statement) -> Step<usize> {
        self.patiently(|connection| connection.execute(statement))
    }

    fn rows(&mut self, statement: &Statement) -> Step<Vec<Row>> {
        self.patiently(|connection| connection.rows(statement))
    }

    /// The file can be busy before the first row alone.
    fn each(&mut self, question: &Statement, see: &mut dyn FnMut(Row) -> Step<()>) -> Step<()> {
        self.patiently(|connection| connection.each(question, &mut *see))
    }

    fn batch(&mut self, text: &str) -> Step<()> {
        self.patiently(|connection| connection.batch(text))
    }
}

impl Columns for diesel::sqlite::Sqlite {}

impl QueryableByName<diesel::sqlite::Sqlite> for Row {
    fn build<'a>(row: &impl NamedRow<'a, diesel::sqlite::Sqlite>) -> deserialize::Result<Self> {
        use diesel::sqlite::SqliteType;
        cells(row, |mut value| match value.value_type() {
            None => Ok(Cell::Null),
            Some(SqliteType::SmallInt | SqliteType::Integer | SqliteType::Long) => {
                Ok(Cell::Int(value.read_long()))
            }
            Some(SqliteType::Text) => {
                let text = value.read_text().to_owned();
                // What is no UTF-8 comes with this character in its place.
                let replaced = text.contains('\u{fffd}') && str::from_utf8(value.read_blob()).is_err();
                Ok(if replaced { Cell::Null } else { Cell::Text(text) })
            }
            Some(_) => Ok(Cell::Null),
        })
    }
}
