//! PostgreSQL's client behind [`Session`].

use diesel::deserialize::{self, QueryableByName};
use diesel::query_builder::AstPass;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Text};
use diesel::{PgConnection, QueryResult, RunQueryDsl};

use super::pooler;
use crate::store::columns::Cell;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::fault::{Step, fault};
use crate::store::sql::session::{Columns, Session, Sql, cells, session, text_or_null};
use crate::store::sql::statement::{Row, Statement, Value};
use crate::store::sql::target::{Opened, Target};

pub(super) fn open(target: &Target) -> Step<Opened> {
    Ok(Box::new(establish(target)?))
}

/// As [`open`]; refuses a pooler that others' sessions share.
pub(super) fn open_unshared(target: &Target) -> Step<Opened> {
    let mut session = establish(target)?;
    pooler::refuse([&mut session, &mut establish(target)?]).map_err(|fault| target.clean(fault))?;
    Ok(Box::new(session))
}

pub(super) fn establish(target: &Target) -> Step<PgConnection> {
    target.establish(&impatient(&target.address))
}

/// A PostgreSQL URL whose connections notice a silent network within seconds, unless the URL says otherwise.
fn impatient(url: &str) -> String {
    const OPTIONS: [(&str, &str); 5] = [
        ("connect_timeout", "2"),
        ("tcp_user_timeout", "5000"),
        ("keepalives_idle", "10"),
        ("keepalives_interval", "3"),
        ("keepalives_count", "3"),
    ];
    OPTIONS.iter().fold(url.to_owned(), |url, (name, value)| {
        let mark = if url.contains('?') { '&' } else { '?' };
        if url.contains(&format!("{name}=")) { url } else { format!("{url}{mark}{name}={value}") }
    })
}

session!(PgConnection, Dialect::Postgres, diesel::pg::PgRowByRowLoadingMode);

impl Columns for diesel::pg::Pg {
    fn push<'b>(column: &'b Value, out: &mut AstPass<'_, 'b, Self>) -> QueryResult<()> {
        use diesel::sql_types::Array;
        match column {
            Value::Ints(values) => out.push_bind_param::<Array<BigInt>, _>(&**values),
            Value::Texts(values) => out.push_bind_param::<Array<Text>, _>(&**values),
            Value::Int(_) | Value::Text(_) | Value::Null | Value::NoNumber => Ok(()),
        }
    }
}

impl QueryableByName<diesel::pg::Pg> for Row {
    fn build<'a>(row: &impl NamedRow<'a, diesel::pg::Pg>) -> deserialize::Result<Self> {
        use diesel::deserialize::FromSql;
        use diesel::pg::Pg;
        use diesel::sql_types::{Integer, SmallInt};
        cells(row, |value| match value.get_oid().get() {
            20 => FromSql::<BigInt, Pg>::from_sql(value).map(Cell::Int),
            23 => <i32 as FromSql<Integer, Pg>>::from_sql(value).map(|value| Cell::Int(value.into())),
            21 => <i16 as FromSql<SmallInt, Pg>>::from_sql(value).map(|value| Cell::Int(value.into())),
            19 | 25 | 1042 | 1043 => Ok(text_or_null(value.as_bytes())),
            other => Err(format!("a column has the type number {other}").into()),
        })
    }
}
