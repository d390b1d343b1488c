//! MariaDB's client behind [`Session`].

use diesel::deserialize::{self, QueryableByName};
use diesel::row::NamedRow;
use diesel::sql_types::BigInt;
use diesel::{MysqlConnection, RunQueryDsl};

use super::tls;
use crate::store::columns::Cell;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::fault::{Step, fault};
use crate::store::sql::session::{Columns, Session, Sql, cells, session, text_or_null};
use crate::store::sql::statement::{Row, Statement};
use crate::store::sql::target::{Opened, Target};

pub(super) fn open(target: &Target) -> Step<Opened> {
    Ok(Box::new(target.establish::<MysqlConnection>(&tls::address(&target.address)?.text)?))
}

/// As [`open`]; refuses a client library that does without TLS where it is to insist on it.
pub(super) fn open_first(target: &Target) -> Step<Opened> {
    let mut session = open(target)?;
    if tls::address(&target.address)?.needs_tls {
        tls::prove(session.as_mut()).map_err(|fault| target.clean(fault))?;
    }
    Ok(session)
}

session!(MysqlConnection, Dialect::Mysql, diesel::connection::DefaultLoadingMode);

impl Columns for diesel::mysql::Mysql {}

impl QueryableByName<diesel::mysql::Mysql> for Row {
    fn build<'a>(row: &impl NamedRow<'a, diesel::mysql::Mysql>) -> deserialize::Result<Self> {
        use diesel::deserialize::FromSql;
        use diesel::mysql::{Mysql, MysqlType};
        cells(row, |value| match value.value_type() {
            MysqlType::String | MysqlType::Blob | MysqlType::Enum => Ok(text_or_null(value.as_bytes())),
            _ => FromSql::<BigInt, Mysql>::from_sql(value).map(Cell::Int),
        })
    }
}
