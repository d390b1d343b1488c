//! SQLite behind [`Session`].

use diesel::deserialize::{self, QueryableByName};
use diesel::row::NamedRow;
use diesel::{RunQueryDsl, SqliteConnection};

use crate::store::columns::Cell;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::fault::{Fault, FaultKind, Recognition, Step};
use crate::store::sql::hosts::Pickiness;
use crate::store::sql::session::{Columns, Session, Sql, cells, session};
use crate::store::sql::statement::{Row, Statement};
use crate::store::sql::target::{Opened, Target};

pub(super) fn open(target: &Target, address: &str, _: Pickiness) -> Step<Opened> {
    Ok(Box::new(target.establish::<SqliteConnection>(address)?))
}

/// Diesel reads the codes of broken constraints. The texts are constants of the library that is built in.
const ERRORS: Recognition = Recognition {
    serialization: FaultKind::Conflict,
    texts: &[
        (
            FaultKind::Busy,
            &[
                // SQLITE_BUSY, SQLITE_LOCKED
                "database is locked",
                "database table is locked",
                "database schema is locked",
                // SQLITE_PROTOCOL: it lost the race for its WAL too often.
                "locking protocol",
            ],
        ),
        // SQLITE_MISMATCH
        (FaultKind::Row, &["datatype mismatch"]),
    ],
};

pub(in crate::store::sql) fn fault(error: diesel::result::Error) -> Fault {
    ERRORS.fault(error)
}

session!(SqliteConnection, Dialect::Sqlite, diesel::connection::DefaultLoadingMode);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_codes_are_told_by_their_texts() {
        for text in ["database is locked", "database schema is locked: main", "locking protocol"] {
            assert_eq!(ERRORS.kind_of(text), FaultKind::Busy, "{text}");
        }
        assert_eq!(ERRORS.kind_of("datatype mismatch"), FaultKind::Row);
        for passing in ["database or disk is full", "attempt to write a readonly database"] {
            assert_eq!(ERRORS.kind_of(passing), FaultKind::Refused, "{passing}");
        }
    }
}
