//! Schedules made on the application's own connection share the fate of its transaction.

use std::sync::Arc;
use std::time::Duration;

use diesel::Connection;
use diesel::connection::SimpleConnection;

use super::fixture::{self, Database, LIMITS};
use crate::domain::{Error, ErrorKind, JobSpec, NodeId};
use crate::fixtures::new_node;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::{CallerConnection, joined, open};
use crate::store::{Applied, Change, Claim, Definition, Ensured, ExecutionQuery, RemoveChange, Store};
use crate::time::Clock;
use crate::trigger::{Simple, Trigger};

/// Every five seconds from whenever it is made.
fn definition(application: &str, name: &str) -> Definition {
    let trigger = Trigger::Simple(Simple::every(Duration::from_secs(5)).unwrap());
    Definition { trigger, ..fixture::definition(application, name) }
}

/// A connection on which a request blocks.
pub(super) trait Blocking: CallerConnection {
    fn answered<T>(outcome: Self::Outcome<'_, T>) -> Result<T, Error>;
}

macro_rules! blocking {
    ($connection:ty) => {
        impl Blocking for $connection {
            fn answered<T>(outcome: Result<T, Error>) -> Result<T, Error> {
                outcome
            }
        }
    };
}

struct Case {
    store: Arc<dyn Store>,
    application: String,
}

impl Case {
    fn new(database: &Database) -> Self {
        let store = open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
        Self { store, application: super::application() }
    }

    fn exists(&self, name: &str) -> bool {
        self.store.find(&self.application, name).unwrap().is_some()
    }

    fn ensure(&self, connection: &mut impl Blocking, name: &str) -> Ensured {
        self.ensure_in(connection, &definition(&self.application, name)).unwrap()
    }

    /// As a client's request does.
    fn ensure_in<C: Blocking>(&self, connection: &mut C, definition: &Definition) -> Result<Ensured, Error> {
        let definition = definition.clone();
        C::answered(joined(Arc::clone(&self.store), connection, move |verbs| verbs.ensure(&definition)))
    }
}

fn a_schedule_shares_the_fate_of_the_transaction<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    let case = Case::new(database);
    let rolled_back = connection.transaction(|connection| {
        assert_eq!(case.ensure(connection, "gone"), Ensured::Created);
        assert_eq!(case.ensure(connection, "gone"), Ensured::Unchanged);
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    assert!(rolled_back.is_err());
    assert!(!case.exists("gone"));

    let committed = connection.transaction(|connection| {
        assert_eq!(case.ensure(connection, "kept"), Ensured::Created);
        if database.dialect() != crate::store::sql::dialect::Dialect::Sqlite {
            assert!(!case.exists("kept"), "nobody sees it before the commit");
        }
        Ok::<_, diesel::result::Error>(())
    });
    assert!(committed.is_ok());
    assert!(case.exists("kept"));

    assert_eq!(case.ensure(connection, "alone"), Ensured::Created, "without a transaction");
    assert!(case.exists("alone"));
}

fn a_refused_definition_leaves_the_transaction_usable<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    let case = Case::new(database);
    let committed = connection.transaction(|connection| {
        let senseless = definition(&case.application, &"x".repeat(201));
        let error = case.ensure_in(connection, &senseless).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(case.ensure(connection, "after"), Ensured::Created);
        Ok::<_, diesel::result::Error>(())
    });
    assert!(committed.is_ok());
    assert!(case.exists("after"));
}

/// Such a request committed the caller's transaction, which diesel knows nothing of.
fn a_transaction_begun_as_text_is_refused_and_left_open<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    let case = Case::new(database);
    let begins = match database.dialect() {
        Dialect::Mysql => ["START TRANSACTION", "SET autocommit = 0"],
        Dialect::Sqlite | Dialect::Postgres => ["BEGIN", "BEGIN"],
    };
    for (turn, begin) in begins.into_iter().enumerate() {
        connection.batch_execute(begin).unwrap();
        let job =
            format!("INSERT INTO QRTZ_JOB (application, job_class) VALUES ('{}', 'own')", case.application);
        for _ in 0..2 {
            let refused = case.ensure_in(connection, &definition(&case.application, "s")).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
            assert!(refused.to_string().contains("connection.transaction(..)"), "{refused}");
        }
        connection.batch_execute(&job).unwrap();
        let refused = case.ensure_in(connection, &definition(&case.application, "s")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
        connection.batch_execute("ROLLBACK").unwrap();
        // If the first one had been committed, the job's unique key would refuse this.
        connection.batch_execute(&format!("{begin}; {job}; ROLLBACK")).unwrap();
        if turn == 1 && database.dialect() == Dialect::Mysql {
            connection.batch_execute("SET autocommit = 1").unwrap();
        }
        assert_eq!(case.ensure(connection, &format!("after-{turn}")), Ensured::Created);
    }
}

/// A job that nobody had before.
fn of_a_new_job(case: &Case, name: &str) -> Definition {
    let definition = definition(&case.application, name);
    let job = JobSpec { name: "new".to_owned(), ..definition.job.clone() };
    Definition { job, ..definition }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
fn an_open_transaction_with_a_new_job_holds_up_no_other<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    let case = Case::new(database);
    let committed = connection.transaction(|connection| {
        assert_eq!(case.ensure_in(connection, &of_a_new_job(&case, "mine"))?, Ensured::Created);
        assert_eq!(case.store.ensure(&of_a_new_job(&case, "other"))?, Ensured::Created);
        let jobs = vec![of_a_new_job(&case, "").job];
        case.store.register(&new_node(NodeId::fresh(), &case.application, jobs, fixture::AT))?;
        let held = case.store.ensure(&of_a_new_job(&case, "mine")).unwrap_err();
        assert_eq!(held.kind(), ErrorKind::Unavailable);
        assert!(held.to_string().contains("holds the row of schedule \"mine\""), "{held}");
        Ok::<_, Box<dyn std::error::Error>>(())
    });
    committed.unwrap();
    assert!(case.exists("mine"));
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn repeat_reads(database: &Database, connection: &mut impl Connection) {
    connection
        .batch_execute(match database.dialect() {
            Dialect::Postgres => "SET default_transaction_isolation = 'repeatable read'",
            _ => "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        })
        .unwrap();
}

/// The transaction's snapshot still shows the schedule as it was ensured before.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn a_schedule_removed_since_the_snapshot_is_not_unchanged<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    let case = Case::new(database);
    repeat_reads(database, connection);
    let wanted = definition(&case.application, "s");
    assert_eq!(case.store.ensure(&wanted).unwrap(), Ensured::Created);
    let rolled_back = connection.transaction(|connection| {
        connection.batch_execute("SELECT * FROM QRTZ_EXECUTE LIMIT 1")?;
        let seen = case.store.seen(&case.application, "s").unwrap().unwrap();
        let (application, reason) = (case.application.clone(), "why".to_owned());
        let removal = Change::Remove(RemoveChange { application, seen, reason, now: fixture::AT });
        assert!(case.store.apply(&[removal]).unwrap()[0].is_done());
        match case.ensure_in(connection, &wanted) {
            Ok(ensured) => assert_eq!(ensured, Ensured::Created),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(error.to_string().contains("roll back and try again"), "{error}");
            }
        }
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    assert_eq!(rolled_back, Err(diesel::result::Error::RollbackTransaction));
    assert_eq!(case.ensure_in(connection, &wanted).unwrap(), Ensured::Created);
}

/// The transaction's snapshot is older than the schedule, and on PostgreSQL than the job too.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn an_older_snapshot_is_told_or_seen_through<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    let case = Case::new(database);
    repeat_reads(database, connection);
    let wanted = of_a_new_job(&case, "s");
    let changed = Definition { priority: 7, ..wanted.clone() };
    let rolled_back = connection.transaction(|connection| {
        connection.batch_execute("SELECT * FROM QRTZ_EXECUTE LIMIT 1")?;
        assert_eq!(case.store.ensure(&wanted).unwrap(), Ensured::Created);
        match case.ensure_in(connection, &changed) {
            Ok(ensured) => assert_eq!(ensured, Ensured::Changed),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(error.to_string().contains("roll back and try again"), "{error}");
            }
        }
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    assert_eq!(rolled_back, Err(diesel::result::Error::RollbackTransaction));
    assert_eq!(case.ensure_in(connection, &changed).unwrap(), Ensured::Changed);
}

/// It ran when its schedule was removed, and was handed back since the transaction's snapshot.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn what_was_handed_back_since_the_snapshot_is_not_run_anew<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    let case = Case::new(database);
    repeat_reads(database, connection);
    let [entry] = <[_; 1]>::try_from(fixture::schedules(&*case.store, &case.application, 1)).unwrap();
    let Claim::Won(claimed) = fixture::claim(&*case.store, &entry).unwrap() else { panic!("not won") };
    let seen = case.store.seen(&case.application, &entry.name).unwrap().unwrap();
    let (application, reason) = (case.application.clone(), "why".to_owned());
    let removal = Change::Remove(RemoveChange { application, seen, reason, now: fixture::AT });
    assert!(case.store.apply(&[removal]).unwrap()[0].is_done());
    let wanted = fixture::definition(&case.application, &entry.name);
    let ended = connection.transaction(|connection| {
        connection.batch_execute("SELECT * FROM QRTZ_EXECUTE LIMIT 1")?;
        let back = case.store.apply(&[claimed.give_back(fixture::AT).into()]).unwrap();
        assert_eq!(back, [Applied::Done]);
        match case.ensure_in(connection, &wanted) {
            Ok(ensured) => assert_eq!(ensured, Ensured::Created),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                return Err(diesel::result::Error::RollbackTransaction);
            }
        }
        Ok(())
    });
    if ended.is_err() {
        assert_eq!(case.ensure_in(connection, &wanted).unwrap(), Ensured::Created);
    }
    let query =
        ExecutionQuery { application: Some(case.application.clone()), limit: 9, ..Default::default() };
    let states = case.store.executions(&query).unwrap().into_iter().map(|row| row.state);
    assert_eq!(states.collect::<Vec<_>>(), ["CANCELLED"]);
}

macro_rules! caller {
    ($database:ident, $feature:literal, $make:expr, $connection:ty) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            blocking!($connection);
            blocking!(diesel::r2d2::PooledConnection<diesel::r2d2::ConnectionManager<$connection>>);

            fn connect(database: &Database) -> $connection {
                let address = database.url.strip_prefix("sqlite:").unwrap_or(&database.url);
                let mut connection = <$connection>::establish(address).unwrap();
                if stringify!($database) == "sqlite" {
                    connection.batch_execute("PRAGMA busy_timeout = 5000").unwrap();
                }
                connection
            }

            #[test]
            fn a_schedule_shares_the_fate_of_the_transaction() {
                let database = $make;
                super::a_schedule_shares_the_fate_of_the_transaction(&database, &mut connect(&database));
            }

            #[test]
            fn a_connection_of_a_pool_is_one() {
                use diesel::r2d2::{ConnectionManager, Pool};
                let database = $make;
                let address = database.url.strip_prefix("sqlite:").unwrap_or(&database.url);
                let manager = ConnectionManager::<$connection>::new(address);
                let pool = Pool::builder().max_size(1).build(manager).unwrap();
                super::a_schedule_shares_the_fate_of_the_transaction(&database, &mut pool.get().unwrap());
            }

            #[test]
            fn a_transaction_begun_as_text_is_refused_and_left_open() {
                let database = $make;
                super::a_transaction_begun_as_text_is_refused_and_left_open(
                    &database,
                    &mut connect(&database),
                );
            }

            #[test]
            fn a_refused_definition_leaves_the_transaction_usable() {
                let database = $make;
                super::a_refused_definition_leaves_the_transaction_usable(&database, &mut connect(&database));
            }
        }
    };
}

/// Of the databases whose transactions write beside each other.
macro_rules! beside {
    ($database:ident, $feature:literal, $connection:ty) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn an_open_transaction_with_a_new_job_holds_up_no_other() {
                let database = Database::$database();
                let mut connection = <$connection>::establish(&database.url).unwrap();
                super::an_open_transaction_with_a_new_job_holds_up_no_other(&database, &mut connection);
            }

            #[test]
            fn an_older_snapshot_is_told_or_seen_through() {
                let database = Database::$database();
                let mut connection = <$connection>::establish(&database.url).unwrap();
                super::an_older_snapshot_is_told_or_seen_through(&database, &mut connection);
            }

            #[test]
            fn what_was_handed_back_since_the_snapshot_is_not_run_anew() {
                let database = Database::$database();
                let mut connection = <$connection>::establish(&database.url).unwrap();
                super::what_was_handed_back_since_the_snapshot_is_not_run_anew(&database, &mut connection);
            }

            #[test]
            fn a_schedule_removed_since_the_snapshot_is_not_unchanged() {
                let database = Database::$database();
                let mut connection = <$connection>::establish(&database.url).unwrap();
                super::a_schedule_removed_since_the_snapshot_is_not_unchanged(&database, &mut connection);
            }
        }
    };
}

/// Such a request was stored at once, and what it joined was not.
#[cfg(feature = "mysql")]
#[test]
fn a_transaction_that_the_server_has_ended_is_told() {
    let database = Database::mariadb();
    let mut connection = diesel::MysqlConnection::establish(&database.url).unwrap();
    let case = Case::new(&database);
    for ends in ["CREATE TABLE ends (id INT)", "ROLLBACK"] {
        let rolled_back = connection.transaction(|connection| {
            connection.batch_execute(ends)?;
            let refused = case.ensure_in(connection, &definition(&case.application, "s")).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
            assert!(refused.to_string().contains("has ended the transaction"), "{refused}");
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert_eq!(rolled_back, Err(diesel::result::Error::RollbackTransaction));
        assert!(!case.exists("s"));
    }
}

mod beside {
    use super::*;

    beside!(postgres, "postgres", diesel::PgConnection);
    beside!(mariadb, "mysql", diesel::MysqlConnection);
}

caller!(sqlite, "sqlite", Database::sqlite(), diesel::SqliteConnection);
caller!(postgres, "postgres", Database::postgres(), diesel::PgConnection);
caller!(mariadb, "mysql", Database::mariadb(), diesel::MysqlConnection);
