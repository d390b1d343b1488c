//! Connections of diesel-async, with the statements and the errors of diesel.

use diesel_async::{
    AsyncConnection as DieselConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager,
};

use super::driver::{AsyncConnection, Dialect, DriverError, Query, Savepoint, Value};
use crate::store::sql::dialect;
use crate::store::sql::session::Sql;
use crate::store::sql::session::statement::Row;

/// A savepoint. Diesel-async cannot roll back to one that is dropped: it is told that its transaction is
/// broken, and neither commits it nor gives the connection back to a pool.
pub struct Saved<'s, C: DieselConnection> {
    connection: &'s mut C,
    is_open: bool,
}

impl<C: DieselConnection> Drop for Saved<'_, C> {
    fn drop(&mut self) {
        if self.is_open {
            C::TransactionManager::transaction_manager_status_mut(self.connection).set_in_error();
        }
    }
}

macro_rules! connection {
    ($Connection:ty, $Database:ident, $database:ident) => {
        impl AsyncConnection for $Connection {
            type Savepoint<'s> = Saved<'s, $Connection>;

            fn dialect(&self) -> Dialect {
                Dialect::$Database
            }

            async fn save(&mut self) -> Result<Saved<'_, $Connection>, DriverError> {
                type Manager = <$Connection as DieselConnection>::TransactionManager;
                let status = Manager::transaction_manager_status_mut(self);
                if status.transaction_depth().is_ok_and(|depth| depth.is_none()) {
                    return Err(DriverError::no_transaction("connection.transaction(..)"));
                }
                self.batch_execute("SAVEPOINT firetime").await.map_err(told::$database)?;
                Ok(Saved { connection: self, is_open: true })
            }
        }

        impl Savepoint for Saved<'_, $Connection> {
            async fn execute(&mut self, query: Query) -> Result<u64, DriverError> {
                let statement = Sql::of(&query.statement).map_err(DriverError::from)?;
                let matched = RunQueryDsl::execute(statement, self.connection).await;
                matched.map(|matched| u64::try_from(matched).unwrap_or(u64::MAX)).map_err(told::$database)
            }

            async fn rows(&mut self, query: Query) -> Result<Vec<Vec<Value>>, DriverError> {
                let statement = Sql::of(&query.statement).map_err(DriverError::from)?;
                let rows: Vec<Row> =
                    RunQueryDsl::load(statement, self.connection).await.map_err(told::$database)?;
                Ok(rows.into_iter().map(Row::into_values).collect())
            }

            async fn release(mut self) -> Result<(), DriverError> {
                self.connection.batch_execute("RELEASE SAVEPOINT firetime").await.map_err(told::$database)?;
                self.is_open = false;
                Ok(())
            }

            async fn roll_back(mut self) -> Result<(), DriverError> {
                let end = "ROLLBACK TO SAVEPOINT firetime";
                self.connection.batch_execute(end).await.map_err(told::$database)?;
                self.is_open = false;
                Ok(())
            }
        }
    };
}

mod told {
    use super::{DriverError, dialect};

    #[cfg(feature = "postgres")]
    pub(super) fn postgres(error: diesel::result::Error) -> DriverError {
        dialect::postgres::faults::fault(error).into()
    }

    #[cfg(feature = "mysql")]
    pub(super) fn mariadb(error: diesel::result::Error) -> DriverError {
        dialect::mariadb::faults::fault(error).into()
    }
}

#[cfg(feature = "postgres")]
connection!(diesel_async::AsyncPgConnection, Postgres, postgres);
#[cfg(feature = "mysql")]
connection!(diesel_async::AsyncMysqlConnection, Mysql, mariadb);
