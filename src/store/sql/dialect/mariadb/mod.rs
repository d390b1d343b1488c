//! MariaDB: a client that may wait for ever, DDL without transactions, claims of one compound statement.

pub(crate) mod claims;
#[cfg(feature = "mysql")]
mod driver;
#[cfg(feature = "mysql")]
pub(crate) mod faults;
#[cfg(feature = "mysql")]
pub(crate) mod galera;
#[cfg(feature = "mysql")]
mod packets;
#[cfg(feature = "mysql")]
mod tls;

#[cfg(feature = "mysql")]
use driver::{open, open_first};

use super::Dialect;
use super::database::{Database, LOCK_WAIT, QuickClaim, SCHEMA_WAIT, schema_is_locked};
#[cfg(not(feature = "mysql"))]
use super::database::{switched_off as open, switched_off as open_first};
#[cfg(all(feature = "mysql", feature = "tokio"))]
use crate::domain::Source;
use crate::store::columns::Cell;
use crate::store::sql::claim::planned::{Found, PlannedRequest};
use crate::store::sql::connection::hosts::Pickiness;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::session::Session;
#[cfg(all(feature = "mysql", feature = "tokio"))]
use crate::store::sql::session::Work;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Statement, single, sql};
use crate::store::{ExecutionQuery, StoreLimits};
use crate::time::span;

/// The migrating node's lock: one for each database of a server.
const SCHEMA_LOCK: &str = "CONCAT('firetime.', MD5(DATABASE()))";

pub(crate) struct Mariadb;

impl Database for Mariadb {
    fn dialect(&self) -> Dialect {
        Dialect::Mysql
    }

    /// The index that has the states is named.
    fn open_states(&self, _: &ExecutionQuery) -> Statement {
        sql("")
    }

    fn connect(&self, target: &Target, limits: StoreLimits) -> Step<Opened> {
        within_reach(target, limits, open, |_| Ok(()))
    }

    fn connect_first(&self, target: &Target, limits: StoreLimits) -> Step<Opened> {
        within_reach(target, limits, open_first, self_check)
    }

    fn limit(&self, session: &mut dyn Session, limits: StoreLimits) -> Step<()> {
        let call = limits.call.max(1);
        let (seconds, lock_wait) = ((call / 1_000).max(1), LOCK_WAIT / 1_000);
        session.batch(&format!(
            "SET SESSION autocommit = 1; SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin; \
             SET SESSION time_zone = '+00:00', lc_messages = 'en_US', \
             sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', \
             sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, \
             completion_type = 0, innodb_lock_wait_timeout = {lock_wait}, \
             idle_transaction_timeout = {seconds}, max_statement_time = {seconds}; \
             SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
        ))?;
        if session.certifies() {
            // A client sees what others have committed. A node's calls wait for that where they need it.
            let waits = i32::from(!limits.is_of_node());
            session.batch(&format!("SET SESSION wsrep_sync_wait = {waits}"))?;
        }
        Ok(())
    }

    /// As a prepared statement: one of diesel's batches takes three round trips.
    fn control(&self, session: &mut dyn Session, text: &str) -> Step<()> {
        session.execute(&sql(text)).map(|_| ())
    }

    fn lift_limits(&self, session: &mut dyn Session) -> Step<()> {
        session.batch(&format!(
            "SET SESSION max_statement_time = 0, lock_wait_timeout = {SCHEMA_WAIT}, \
             innodb_lock_wait_timeout = {SCHEMA_WAIT}"
        ))
    }

    /// DDL commits what is open, so the lock is a named one of the server.
    fn lock_schema(&self, session: &mut dyn Session) -> Step<()> {
        let lock = format!("SELECT COALESCE(GET_LOCK({SCHEMA_LOCK}, {SCHEMA_WAIT}), 0)");
        if single(session.rows(&sql(lock))?)? == 1 { Ok(()) } else { Err(schema_is_locked()) }
    }

    fn unlock_schema(&self, session: &mut dyn Session, _: bool) -> Step<()> {
        session.rows(&sql(format!("SELECT RELEASE_LOCK({SCHEMA_LOCK})"))).map(|_| ())
    }

    #[cfg(all(feature = "mysql", feature = "tokio"))]
    fn within(&self, session: &mut dyn Session, work: Work<'_>) -> Step<()> {
        galera::within(session, work)
    }

    #[cfg(all(feature = "mysql", feature = "tokio"))]
    fn coded(&self, code: &str, constraint: Option<&str>, cause: Source) -> Fault {
        faults::coded(code, constraint, cause)
    }

    fn quick_claim(&self) -> Option<QuickClaim> {
        Some(QuickClaim {
            begins: true,
            expecting_free: claims::all_free,
            skipping_held: claims::begin_and_skip,
        })
    }

    fn claim(&self, session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found> {
        claims::skipping(session, planned)
    }
}

/// Opens a session on a thread that can be left behind: MariaDB's client gives no connect up by itself.
fn within_reach(
    target: &Target,
    limits: StoreLimits,
    open: fn(&Target, &str, Pickiness) -> Step<Opened>,
    check: fn(&mut dyn Session) -> Step<()>,
) -> Step<Opened> {
    target.hosts.first(span(limits.call), |address, wait, pickiness| {
        let (there, address) = (target.clone(), address.to_owned());
        target.reach.open(server(&address).as_deref(), wait, move || {
            let mut session = there.watched(open(&there, &address, pickiness)?, limits)?;
            Mariadb.limit(session.as_mut(), limits).map_err(|fault| there.clean(fault))?;
            check(session.as_mut()).map_err(|fault| there.clean(fault))?;
            Ok(session)
        })
    })
}

/// Host and port of a MariaDB URL, if it is reached over TCP.
fn server(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // The client takes its name for the local socket.
    if host.is_empty() || host.starts_with("localhost") || rest.contains("unix_socket=") {
        return None;
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { host.to_owned() } else { format!("{host}:3306") })
}

/// Refuses servers that lack what claims need, and client libraries that do not read back what was sent.
fn self_check(session: &mut dyn Session) -> Step<()> {
    let version = reads_back(session)?;
    if is_supported(&version) {
        return Ok(());
    }
    let message = format!("firetime needs MariaDB 10.6 or later; this server says it is {version:?}");
    Err(Fault::new(FaultKind::Refused, message))
}

/// The server's version, if a long string, a NULL and a count come back as they were sent: a client that
/// misreads these would misread the version too.
fn reads_back(session: &mut dyn Session) -> Step<String> {
    let long = "firetime".repeat(2_000);
    let echo = sql("SELECT CAST(? AS CHAR) AS a, CAST(NULL AS CHAR) AS b, COUNT(*) AS c, VERSION() AS d \
         FROM (SELECT 1 AS x UNION ALL SELECT 2) AS t");
    if let Some(mut row) = session.rows(&echo.bind(long.as_str()))?.pop() {
        let echoed = (row.next().ok(), row.next().ok(), row.next().ok());
        if echoed == (Some(Cell::Text(long)), Some(Cell::Null), Some(Cell::Int(2))) {
            return row.text();
        }
    }
    let message = "the MariaDB client library misreads what the server sends (libmariadb of MariaDB 10.11.18 \
                   does, 10.11.19 does not; or it is another one than firetime was built with): install \
                   another release of it and build again";
    Err(Fault::new(FaultKind::Refused, message))
}

fn is_supported(version: &str) -> bool {
    let mut numbers =
        version.trim_start_matches("5.5.5-").split(['.', '-']).map_while(|part| part.parse().ok());
    let version_number = (numbers.next().unwrap_or(0u32), numbers.next().unwrap_or(0u32));
    version.contains("MariaDB") && version_number >= (10, 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_server() {
        assert_eq!(server("mysql://me:a%40b@db:3307/x").as_deref(), Some("db:3307"));
        assert_eq!(server("mysql://db/x").as_deref(), Some("db:3306"));
        assert_eq!(server("mysql://me@[::1]:3306/x?a=b").as_deref(), Some("[::1]:3306"));
        assert_eq!(server("mysql://[::1]/x").as_deref(), Some("[::1]:3306"));
        assert_eq!(server("mysql://localhost/x"), None);
        assert_eq!(server("mysql://db/x?unix_socket=/run/s"), None);
    }

    #[test]
    fn only_mariadb_from_10_6_on_is_taken() {
        for good in ["10.6.1-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB", "5.5.5-10.6.0-MariaDB"]
        {
            assert!(is_supported(good), "{good}");
        }
        for bad in ["8.0.36", "10.5.9-MariaDB", "5.7.1-log", "9.1.0", ""] {
            assert!(!is_supported(bad), "{bad}");
        }
    }
}
