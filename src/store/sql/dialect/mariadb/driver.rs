//! MariaDB's client behind [`Session`].

use diesel::deserialize::{self, QueryableByName};
use diesel::row::NamedRow;
use diesel::sql_types::BigInt;
use diesel::{MysqlConnection, RunQueryDsl};

use super::faults::fault;
use super::galera::GaleraSession;
use super::tls;
use crate::store::columns::Cell;
use crate::store::sql::connection::hosts::Pickiness;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Row, Statement, sql};
use crate::store::sql::session::{Columns, Session, Sql, cells, session, text_or_null};

/// A session; on a member of a Galera cluster only if that takes statements.
pub(super) fn open(target: &Target, address: &str, pickiness: Pickiness) -> Step<Opened> {
    let mut connection = target.establish::<MysqlConnection>(&tls::address(address)?.text)?;
    let clean = |fault| target.clean(fault);
    if !is_member(&mut connection).map_err(clean)? {
        return Ok(Box::new(connection));
    }
    is_ready(&mut connection, pickiness).map_err(clean)?;
    Ok(Box::new(GaleraSession::new(connection)))
}

/// As [`open`]; refuses a client library that does without TLS where it is to insist on it.
pub(super) fn open_first(target: &Target, address: &str, pickiness: Pickiness) -> Step<Opened> {
    let mut session = open(target, address, pickiness)?;
    if tls::address(address)?.needs_tls {
        tls::prove(session.as_mut()).map_err(|fault| target.clean(fault))?;
    }
    Ok(session)
}

/// Whether the server is a member of a Galera cluster. One that was built without Galera lacks the variable.
fn is_member(connection: &mut MysqlConnection) -> Step<bool> {
    let Some(mut variable) = connection.rows(&sql("SHOW VARIABLES LIKE 'wsrep_on'"))?.pop() else {
        return Ok(false);
    };
    let _name = variable.text()?;
    Ok(variable.text()? == "ON")
}

/// Refuses a member outside the cluster's primary component, or one that is joining it; and where others may
/// do, one that gives its data to a member that joins.
fn is_ready(connection: &mut MysqlConnection, pickiness: Pickiness) -> Step<()> {
    const SYNCED: &str = "4";
    const DONOR: &str = "2";
    let state = "SELECT s.VARIABLE_VALUE FROM information_schema.SESSION_STATUS s \
                 WHERE s.VARIABLE_NAME = 'WSREP_LOCAL_STATE'";
    let state = connection.rows(&sql(state))?.pop().map(|mut row| row.text()).transpose()?;
    match state.as_deref() {
        Some(SYNCED) => Ok(()),
        Some(DONOR) if pickiness == Pickiness::AnyThatWorks => Ok(()),
        Some(DONOR) => Err(Fault::new(FaultKind::Busy, "the member gives its data to another")),
        _ => Err(Fault::new(FaultKind::NotReady, "the member is not in its cluster")),
    }
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
