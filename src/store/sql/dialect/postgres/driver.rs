//! PostgreSQL's client behind [`Session`].

use diesel::deserialize::{self, QueryableByName};
use diesel::query_builder::AstPass;
use diesel::row::NamedRow;
use diesel::sql_types::{BigInt, Text};
use diesel::{PgConnection, QueryResult, RunQueryDsl};

use super::faults::{explained, fault};
use super::pooler;
use crate::store::columns::Cell;
use crate::store::sql::connection::hosts::Pickiness;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::fault::Step;
use crate::store::sql::session::statement::{Row, Statement, Value};
use crate::store::sql::session::{Columns, Session, Sql, cells, session, text_or_null};

pub(super) fn open(target: &Target, address: &str, _: Pickiness) -> Step<Opened> {
    Ok(Box::new(establish(target, address)?))
}

/// As [`open`]; refuses a pooler that others' sessions share.
pub(super) fn open_unshared(target: &Target, address: &str, _: Pickiness) -> Step<Opened> {
    let mut session = establish(target, address)?;
    pooler::refuse([&mut session, &mut establish(target, address)?]).map_err(|fault| target.clean(fault))?;
    Ok(Box::new(session))
}

/// A session at one of the target's hosts.
pub(super) fn establish(target: &Target, address: &str) -> Step<PgConnection> {
    target.establish(&impatient(address, target.hosts.are_several())).map_err(explained)
}

/// A PostgreSQL URL whose connections notice a silent network within seconds, and of several hosts lead to
/// the primary, unless the URL says otherwise. `has_others`: it is one of several that were taken apart.
fn impatient(url: &str, has_others: bool) -> String {
    const OPTIONS: [(&str, &str); 6] = [
        ("target_session_attrs", "read-write"),
        ("connect_timeout", "2"),
        ("tcp_user_timeout", "5000"),
        ("keepalives_idle", "10"),
        ("keepalives_interval", "3"),
        ("keepalives_count", "3"),
    ];
    let mut given = url.split(['?', '&']).filter_map(|option| option.split_once('='));
    let has_others = has_others || given.any(|(name, value)| name == "host" && are_several(value));
    OPTIONS[usize::from(!has_others)..].iter().fold(url.to_owned(), |url, (name, value)| {
        let mark = if url.contains('?') { '&' } else { '?' };
        if url.contains(&format!("{name}=")) { url } else { format!("{url}{mark}{name}={value}") }
    })
}

/// Whether libpq's option `host` names several.
fn are_several(hosts: &str) -> bool {
    hosts.contains(',') || hosts.to_ascii_lowercase().contains("%2c")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_hosts_the_primary_is_asked_for() {
        let asks = |url, has_others| impatient(url, has_others).contains("target_session_attrs=read-write");
        assert!(asks("postgres://one/db", true));
        for several in ["postgres:///db?host=one,two", "postgres://me@/db?port=1&host=one%2Ctwo"] {
            assert!(asks(several, false), "{several}");
        }
        for one in ["postgres://one/db", "postgres:///db?host=one&options=a,b"] {
            assert!(!asks(one, false), "{one}");
        }
        assert!(!asks("postgres:///db?host=one,two&target_session_attrs=any", false));
    }
}
