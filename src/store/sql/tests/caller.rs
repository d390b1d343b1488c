//! Schedules made on the application's own connection share the fate of its transaction.

use std::sync::Arc;
use std::time::Duration;

use diesel::Connection;
use diesel::connection::SimpleConnection;

use super::fixture::{self, Database, LIMITS};
use crate::domain::ErrorKind;
use crate::store::sql::ensure::{CallerConnection, ensure_in};
use crate::store::sql::open;
use crate::store::{Definition, Ensured, Store};
use crate::time::Clock;
use crate::trigger::{Simple, Trigger};

/// Every five seconds from whenever it is made.
fn definition(application: &str, name: &str) -> Definition {
    let trigger = Trigger::Simple(Simple::every(Duration::from_secs(5)).unwrap());
    Definition { trigger, ..fixture::definition(application, name) }
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

    fn ensure(&self, connection: &mut dyn CallerConnection, name: &str) -> Ensured {
        ensure_in(connection, &definition(&self.application, name)).unwrap()
    }
}

fn a_schedule_shares_the_fate_of_the_transaction<C>(database: &Database, connection: &mut C)
where
    C: Connection + CallerConnection,
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
    C: Connection + CallerConnection,
{
    let case = Case::new(database);
    let committed = connection.transaction(|connection| {
        let error = ensure_in(connection, &definition(&case.application, &"x".repeat(201))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_eq!(case.ensure(connection, "after"), Ensured::Created);
        Ok::<_, diesel::result::Error>(())
    });
    assert!(committed.is_ok());
    assert!(case.exists("after"));
}

macro_rules! caller {
    ($database:ident, $feature:literal, $make:expr, $connection:ty) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

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
            fn a_refused_definition_leaves_the_transaction_usable() {
                let database = $make;
                super::a_refused_definition_leaves_the_transaction_usable(&database, &mut connect(&database));
            }
        }
    };
}

caller!(sqlite, "sqlite", Database::sqlite(), diesel::SqliteConnection);
caller!(postgres, "postgres", Database::postgres(), diesel::PgConnection);
caller!(mariadb, "mysql", Database::mariadb(), diesel::MysqlConnection);
