//! MariaDB's client behind [`Session`].

use std::collections::HashMap;

use diesel::deserialize::{self, QueryableByName};
use diesel::row::NamedRow;
use diesel::sql_types::BigInt;
use diesel::{MysqlConnection, RunQueryDsl};

use super::faults::fault;
use super::galera::GaleraSession;
use super::packets::PacketSession;
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
    let variables = variables(&mut connection).map_err(clean)?;
    let most = variables.get("max_allowed_packet").and_then(|most| most.parse().ok()).unwrap_or(usize::MAX);
    // One that was built without Galera lacks the variable.
    if variables.get("wsrep_on").is_none_or(|on| on != "ON") {
        return Ok(Box::new(PacketSession { session: connection, most }));
    }
    is_ready(&mut connection, pickiness).map_err(clean)?;
    Ok(Box::new(GaleraSession::new(PacketSession { session: connection, most })))
}

/// As [`open`]; refuses a client library that does without TLS where it is to insist on it.
pub(super) fn open_first(target: &Target, address: &str, pickiness: Pickiness) -> Step<Opened> {
    let mut session = open(target, address, pickiness)?;
    if tls::address(address)?.needs_tls {
        tls::prove(session.as_mut()).map_err(|fault| target.clean(fault))?;
    }
    Ok(session)
}

/// The variables of the server that a session depends on.
fn variables(connection: &mut dyn Session) -> Step<HashMap<String, String>> {
    let question = sql("SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'max_allowed_packet')");
    connection.all(&question, |row| Ok((row.text()?, row.text()?)))
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
