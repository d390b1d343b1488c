//! Connections of the application's own, whose transaction a request joins.

use crate::domain::{Error, ErrorKind};
use crate::store::sql::dialect;
use crate::store::sql::session::Work;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};

/// A database connection of the application's own.
///
/// What a request changes on it, such as an execution that it enqueues, belongs to the transaction open on
/// it: it appears with everything else the transaction does, or not at all. Without an open transaction the
/// request has one of its own. The connection must lead to the database firetime uses, with firetime's tables
/// found without a prefix.
///
/// Implemented for diesel's `SqliteConnection`, `PgConnection` and `MysqlConnection`, and for these in
/// diesel's own pool (`diesel::r2d2`); not for connections of diesel-async or SQLx.
pub trait CallerConnection: joined::Joins {}

pub(crate) mod joined {
    use super::{Fault, FaultKind, Step, Work};

    /// Runs statements inside the connection's transaction, under a savepoint.
    pub trait Joins {
        #[doc(hidden)]
        fn joined(&mut self, body: Work<'_>) -> Step<()>;
    }

    /// How a diesel transaction of ours ends early.
    pub(crate) enum Abort {
        Fault(Fault),
        Diesel(diesel::result::Error),
    }

    impl Abort {
        /// `commits`: a transaction of our own was to be committed, which it may be although the answer is
        /// lost. Changes under a savepoint wait for the caller's commit instead.
        pub(crate) fn fault(self, recognised: fn(diesel::result::Error) -> Fault, commits: bool) -> Fault {
            let fault = match self {
                Self::Fault(fault) => return fault,
                Self::Diesel(error) => recognised(error),
            };
            match commits && !fault.kind.passes() {
                true => Fault { kind: FaultKind::Unknown, ..fault },
                false => fault,
            }
        }
    }

    impl From<diesel::result::Error> for Abort {
        fn from(error: diesel::result::Error) -> Self {
            Self::Diesel(error)
        }
    }
}

macro_rules! caller_connection {
    ($connection:ty, $database:ident, $within:expr) => {
        impl CallerConnection for $connection {}

        impl joined::Joins for $connection {
            fn joined(&mut self, body: Work<'_>) -> Step<()> {
                use diesel::connection::{Connection, TransactionManager};
                use joined::Abort;
                type Manager = <$connection as Connection>::TransactionManager;
                let depth = |session: &mut Self| {
                    let status = Manager::transaction_manager_status_mut(session);
                    status.transaction_depth().ok().flatten().map_or(0, |depth| depth.get())
                };
                let before = depth(self);
                let mut answer = None;
                let ended = Connection::transaction(self, |session: &mut Self| {
                    let done = $within(session, &mut *body);
                    answer = Some(done.clone());
                    done.map_err(Abort::Fault)
                });
                let Err(abort) = ended else { return Ok(()) };
                // diesel still counts a savepoint that it could not release: the caller's rollback would undo
                // that savepoint alone.
                if depth(self) > before {
                    Manager::rollback_transaction(self).ok();
                }
                match answer {
                    // The rollback may fail, too: the transaction is gone.
                    Some(Err(fault)) => Err(fault),
                    done => {
                        Err(abort.fault(dialect::$database::faults::fault, done.is_some() && before == 0))
                    }
                }
            }
        }
    };
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn within(session: &mut dyn crate::store::sql::session::Session, work: Work<'_>) -> Step<()> {
    work(session)
}

#[cfg(feature = "sqlite")]
caller_connection!(diesel::SqliteConnection, sqlite, within);
#[cfg(feature = "postgres")]
caller_connection!(diesel::PgConnection, postgres, within);
#[cfg(feature = "mysql")]
caller_connection!(diesel::MysqlConnection, mariadb, dialect::mariadb::galera::within);

type Pooled<C> = diesel::r2d2::PooledConnection<diesel::r2d2::ConnectionManager<C>>;

impl<C: CallerConnection + diesel::r2d2::R2D2Connection + 'static> CallerConnection for Pooled<C> {}

impl<C: joined::Joins + diesel::r2d2::R2D2Connection + 'static> joined::Joins for Pooled<C> {
    fn joined(&mut self, body: Work<'_>) -> Step<()> {
        (**self).joined(body)
    }
}

/// What a caller is told of a fault in a transaction of theirs. A deadlock has rolled all of it back: the
/// request alone, made again, would be committed without what came before it.
pub(crate) fn told(fault: Fault) -> Error {
    let (kind, follows) = match fault.kind {
        FaultKind::Conflict | FaultKind::Deadlock | FaultKind::Ended => {
            (ErrorKind::Conflict, "a row has changed since your transaction began; roll back and try again")
        }
        FaultKind::TakenId => {
            let advice =
                "an id that the database drew is taken; set the table's sequence above its highest id";
            (FaultKind::TakenId.error_kind(), advice)
        }
        kind => (kind.error_kind(), kind.follows()),
    };
    fault.error(kind, &format!("in your transaction: {follows}"))
}

#[cfg(test)]
mod tests {
    use diesel::result::Error as DieselError;

    use super::joined::Abort;
    use super::*;

    /// The kind of the error that a caller is told of, whose savepoint or transaction ended with this.
    fn kind(recognised: fn(DieselError) -> Fault, is_own: bool) -> ErrorKind {
        let told = told(Abort::Diesel(DieselError::RollbackTransaction).fault(recognised, is_own));
        let cause = std::error::Error::source(&told).and_then(|cause| cause.downcast_ref());
        assert_eq!(cause, Some(&DieselError::RollbackTransaction));
        told.kind()
    }

    #[test]
    fn only_a_commit_of_our_own_leaves_open_what_was_done() {
        let lost = |error| Fault::caused(FaultKind::Lost, error);
        assert_eq!((kind(lost, true), kind(lost, false)), (ErrorKind::Unknown, ErrorKind::Unavailable));
    }

    /// A transaction that is gone is not rolled back once more.
    #[cfg(feature = "sqlite")]
    #[test]
    fn a_refusal_is_told_although_the_rollback_fails() {
        use diesel::Connection;
        let mut connection = diesel::SqliteConnection::establish(":memory:").unwrap();
        let ended = joined::Joins::joined(&mut connection, &mut |session| {
            session.batch("ROLLBACK")?;
            Err(Fault::new(FaultKind::Conflict, "it is gone"))
        });
        assert_eq!(ended.unwrap_err().kind, FaultKind::Conflict);
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
            let mut release = |session: &mut dyn crate::store::sql::session::Session| {
                session.batch("RELEASE diesel_savepoint_1")
            };
            joined::Joins::joined(connection, &mut release).unwrap_err();
            assert_eq!(depth(connection), 1);
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert_eq!(ended, Err(diesel::result::Error::RollbackTransaction));
        assert_eq!(depth(&mut connection), 0);
    }

    #[test]
    fn a_callers_transaction_that_a_deadlock_ended_is_to_be_made_again() {
        for is_own in [true, false] {
            assert_eq!(kind(|it| Fault::caused(FaultKind::Deadlock, it), is_own), ErrorKind::Conflict);
        }
        assert_eq!(kind(|it| Fault::caused(FaultKind::Busy, it), false), ErrorKind::Unavailable);
    }
}
