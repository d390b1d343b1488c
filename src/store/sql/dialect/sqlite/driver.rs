//! SQLite behind [`Session`].

use diesel::deserialize::{self, QueryableByName};
use diesel::row::NamedRow;
use diesel::{RunQueryDsl, SqliteConnection};

use super::faults::fault;
use crate::store::columns::Cell;
use crate::store::sql::connection::hosts::Pickiness;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement};
use crate::store::sql::session::{Columns, Session, Sql, cells, session};

pub(super) fn open(target: &Target, address: &str, _: Pickiness) -> Step<Opened> {
    Ok(Box::new(target.establish::<SqliteConnection>(address)?))
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
