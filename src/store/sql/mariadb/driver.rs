//! MariaDB's client behind [`Session`].

use diesel::deserialize::{self, QueryableByName};
use diesel::row::NamedRow;
use diesel::sql_types::BigInt;
use diesel::{MysqlConnection, RunQueryDsl};

use super::galera::GaleraSession;
use super::tls;
use crate::store::columns::Cell;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::fault::{Fault, FaultKind, Recognition, Step};
use crate::store::sql::hosts::Pickiness;
use crate::store::sql::session::{Columns, Session, Sql, cells, session, text_or_null};
use crate::store::sql::statement::{Row, Statement, sql};
use crate::store::sql::target::{Opened, Target};

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

/// Of a prepared statement diesel reads the numbers of broken constraints, deadlocks and read-only
/// transactions, of a text with several statements none. The texts are in English in sessions of ours, and
/// always those of the client library.
const ERRORS: Recognition = Recognition {
    serialization: FaultKind::Deadlock,
    texts: &[
        // 2006, 2013, 2014, 1927
        (
            FaultKind::Lost,
            &["server has gone away", "lost connection", "commands out of sync", "connection was killed"],
        ),
        // A commit of Galera's that failed without a verdict: an autocommitted statement may have been made.
        (FaultKind::Unknown, &["during commit", "provider status: not connected"]),
        (FaultKind::NotReady, &["wsrep has not yet prepared node"]),
        // 1020
        (FaultKind::Conflict, &["record has changed since last read"]),
        // 1213, of a text with several statements
        (FaultKind::Deadlock, &["deadlock"]),
        // 1205, 1467: it waited too long for a row, or for the lock of a table's counter.
        (FaultKind::Busy, &["lock wait timeout", "failed to read auto-increment value"]),
        // 1264, 1406, 1366
        (FaultKind::Row, &["out of range", "data too long", "incorrect string value"]),
    ],
};

pub(in crate::store::sql) fn fault(error: diesel::result::Error) -> Fault {
    ERRORS.fault(error)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A member that loses its cluster in a commit cannot tell what the others made of it.
    #[test]
    fn a_commit_without_a_verdict_is_unknown() {
        for message in [
            "Got error 6 \"No such device or address\" during COMMIT",
            "Error while appending streaming replication fragment(provider status: Not connected to Primary Component)",
        ] {
            assert_eq!(ERRORS.kind_of(message), FaultKind::Unknown, "{message}");
        }
    }

    #[test]
    fn hidden_codes_are_told_by_their_texts() {
        for (text, kind) in [
            ("Lost connection to server during query", FaultKind::Lost),
            ("WSREP has not yet prepared node for application use", FaultKind::NotReady),
            ("Record has changed since last read in table 'QRTZ_RUN'", FaultKind::Conflict),
            ("Deadlock found when trying to get lock; try restarting transaction", FaultKind::Deadlock),
            ("Lock wait timeout exceeded; try restarting transaction", FaultKind::Busy),
            ("Out of range value for column 'x'", FaultKind::Row),
            ("Query execution was interrupted", FaultKind::Refused),
            (
                "The MariaDB server is running with the --read-only option so it cannot execute this statement",
                FaultKind::Refused,
            ),
        ] {
            assert_eq!(ERRORS.kind_of(text), kind, "{text}");
        }
    }
}
