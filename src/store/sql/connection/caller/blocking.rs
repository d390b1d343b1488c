//! Connections of diesel's that block: a request runs on them under a savepoint.

use super::{CallerConnection, answered};
use crate::domain::Error;
use crate::store::sql::dialect;
#[cfg(feature = "sqlite")]
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::store::sql::session::statement::{single, sql};
use crate::store::sql::session::{Session, Work};

/// The fault of an end that failed. `commits`: a transaction of our own was to be committed, which it may be
/// although the answer is lost. Changes under a savepoint wait for the caller's commit instead.
fn at_end(fault: Fault, commits: bool) -> Fault {
    match commits && !fault.kind.undoes_commit() {
        true => Fault { kind: FaultKind::Unknown, ..fault },
        false => fault,
    }
}

fn begun_as_text() -> Fault {
    let message = "the connection has a transaction that diesel does not know of, as BEGIN in a text or \
                   autocommit = 0 make one, and this request would commit it: begin it with \
                   connection.transaction(..)";
    Fault::new(FaultKind::Senseless, message)
}

/// Runs statements inside the connection's transaction, under a savepoint.
trait Joins {
    fn joined(&mut self, body: Work<'_>) -> Step<()>;
}

macro_rules! caller_connection {
    ($connection:ty, $database:ident, $begin:expr, $within_own:expr, $within:expr) => {
        impl Joins for $connection {
            fn joined(&mut self, body: Work<'_>) -> Step<()> {
                use dialect::$database::faults::fault;
                use diesel::connection::{Connection, TransactionManager};
                type Manager = <$connection as Connection>::TransactionManager;
                let depth = |session: &mut Self| {
                    let status = Manager::transaction_manager_status_mut(session);
                    status.transaction_depth().ok().flatten().map_or(0, |depth| depth.get())
                };
                let before = depth(self);
                match before {
                    0 => $begin(self)?,
                    _ => Manager::begin_transaction(self).map_err(fault)?,
                }
                let done = match before {
                    0 => $within_own(self, body),
                    _ => $within(self, body),
                };
                let ended = match done {
                    Ok(()) => Manager::commit_transaction(self),
                    Err(_) => Manager::rollback_transaction(self),
                };
                // diesel still counts a savepoint that it could not release: the caller's rollback would undo
                // that savepoint alone.
                if depth(self) > before {
                    Manager::rollback_transaction(self).ok();
                }
                // The rollback may fail, too: the transaction is gone.
                done?;
                ended.map_err(|error| at_end(fault(error), before == 0))
            }
        }

        impl CallerConnection for $connection {
            type Outcome<'c, T>
                = Result<T, Error>
            where
                T: 'c;

            fn join<T: Send + 'static>(
                &mut self,
                work: impl FnOnce(&mut dyn Session) -> Result<T, Error> + Send + 'static,
            ) -> Result<T, Error> {
                answered(|body| self.joined(body), work)
            }
        }
    };
}

/// Begins a transaction of our own, one that writes: another that has read first fails at once where somebody
/// writes meanwhile, however long the connection would wait. SQLite itself refuses to where one is open.
#[cfg(feature = "sqlite")]
fn begin_sqlite(connection: &mut diesel::SqliteConnection) -> Step<()> {
    use diesel::connection::AnsiTransactionManager;
    let begin = Dialect::Sqlite.begin();
    AnsiTransactionManager::begin_transaction_sql(connection, begin).map_err(|error| {
        match error.to_string().contains("within a transaction") {
            true => begun_as_text(),
            false => dialect::sqlite::faults::fault(error),
        }
    })
}

/// Begins a transaction of our own. In one that is open already a second BEGIN does nothing. Several
/// statements sent as one text have one statement's time, and it is that of the transaction they begin.
#[cfg(feature = "postgres")]
fn begin_postgres(connection: &mut diesel::PgConnection) -> Step<()> {
    use diesel::connection::{AnsiTransactionManager, TransactionManager};
    let begin = "SELECT set_config('firetime.is_begun', \
                 CAST(CAST(now() <> statement_timestamp() AS INTEGER) AS TEXT), true); BEGIN";
    AnsiTransactionManager::begin_transaction_sql(connection, begin)
        .map_err(dialect::postgres::faults::fault)?;
    let is_begun = sql("SELECT CAST(current_setting('firetime.is_begun') AS BIGINT)");
    if single(connection.rows(&is_begun)?)? == 0 {
        return Ok(());
    }
    // The transaction stays as it was: for diesel, too, nothing has begun.
    std::mem::take(AnsiTransactionManager::transaction_manager_status_mut(connection));
    Err(begun_as_text())
}

/// Begins a transaction of our own. BEGIN would commit one that is open.
#[cfg(feature = "mysql")]
fn begin_mariadb(connection: &mut diesel::MysqlConnection) -> Step<()> {
    use diesel::connection::{Connection, TransactionManager};
    type Manager = <diesel::MysqlConnection as Connection>::TransactionManager;
    let is_begun = sql("SELECT @@in_transaction OR NOT @@autocommit AS begun");
    match single(connection.rows(&is_begun)?)? {
        0 => Manager::begin_transaction(connection).map_err(dialect::mariadb::faults::fault),
        _ => Err(begun_as_text()),
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn within(session: &mut dyn Session, work: Work<'_>) -> Step<()> {
    work(session)
}

#[cfg(feature = "sqlite")]
caller_connection!(diesel::SqliteConnection, sqlite, begin_sqlite, within, within);
#[cfg(feature = "postgres")]
caller_connection!(diesel::PgConnection, postgres, begin_postgres, within, within);
#[cfg(feature = "mysql")]
caller_connection!(
    diesel::MysqlConnection,
    mariadb,
    begin_mariadb,
    dialect::mariadb::galera::within_own,
    dialect::mariadb::galera::within
);

#[cfg(test)]
mod tests {
    use diesel::result::Error as DieselError;

    use super::*;
    use crate::domain::ErrorKind;
    use crate::store::sql::connection::caller::told;

    /// The kind of the error that a caller is told of, whose savepoint or transaction ended with this.
    fn kind(kind: FaultKind, is_own: bool) -> ErrorKind {
        let told = told(at_end(Fault::caused(kind, DieselError::RollbackTransaction), is_own));
        let cause = std::error::Error::source(&told).and_then(|cause| cause.downcast_ref());
        assert_eq!(cause, Some(&DieselError::RollbackTransaction));
        told.kind()
    }

    #[test]
    fn only_a_commit_of_our_own_leaves_open_what_was_done() {
        let lost = [true, false].map(|is_own| kind(FaultKind::Lost, is_own));
        assert_eq!(lost, [ErrorKind::Unknown, ErrorKind::Unavailable]);
    }

    /// A transaction that is gone is not rolled back once more.
    #[cfg(feature = "sqlite")]
    #[test]
    fn a_refusal_is_told_although_the_rollback_fails() {
        use diesel::Connection;
        let mut connection = diesel::SqliteConnection::establish(":memory:").unwrap();
        let ended = Joins::joined(&mut connection, &mut |session| {
            session.batch("ROLLBACK")?;
            Err(Fault::new(FaultKind::Conflict, "it is gone"))
        });
        assert_eq!(ended.unwrap_err().kind, FaultKind::Conflict);
    }

    /// Beside a node's writes every second such request failed.
    #[cfg(feature = "sqlite")]
    #[test]
    fn a_transaction_of_our_own_writes_from_its_begin() {
        use diesel::Connection;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("test.db").display().to_string();
        let open = || diesel::SqliteConnection::establish(&file).unwrap();
        let mut other = open();
        let mut begins_elsewhere = |_: &mut dyn Session| other.batch("BEGIN IMMEDIATE");
        let refused = Joins::joined(&mut open(), &mut begins_elsewhere).unwrap_err();
        assert_eq!(refused.kind, FaultKind::Busy);
    }

    /// The retry would have been one savepoint too deep, in no transaction: stored statement by statement.
    #[cfg(feature = "sqlite")]
    #[test]
    fn a_savepoint_that_cannot_be_released_leaves_the_caller_where_they_were() {
        use diesel::Connection;
        use diesel::connection::{AnsiTransactionManager, TransactionManager};
        let mut connection = diesel::SqliteConnection::establish(":memory:").unwrap();
        let depth = |connection: &mut diesel::SqliteConnection| {
            let status = AnsiTransactionManager::transaction_manager_status_mut(connection);
            status.transaction_depth().unwrap().map_or(0, |depth| depth.get())
        };
        let ended = connection.transaction(|connection| {
            let mut release = |session: &mut dyn Session| session.batch("RELEASE diesel_savepoint_1");
            Joins::joined(connection, &mut release).unwrap_err();
            assert_eq!(depth(connection), 1);
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert_eq!(ended, Err(diesel::result::Error::RollbackTransaction));
        assert_eq!(depth(&mut connection), 0);
    }

    #[test]
    fn a_callers_transaction_that_a_deadlock_ended_is_to_be_made_again() {
        for is_own in [true, false] {
            assert_eq!(kind(FaultKind::Deadlock, is_own), ErrorKind::Conflict);
        }
        assert_eq!(kind(FaultKind::Busy, false), ErrorKind::Unavailable);
    }
}
