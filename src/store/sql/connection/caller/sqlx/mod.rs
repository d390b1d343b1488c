//! Connections of SQLx.

#[cfg(feature = "mysql")]
mod mariadb;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers;
#[cfg(feature = "sqlite")]
mod sqlite;

use sqlx::error::{DatabaseError, Error as SqlxError};

use super::driver::DriverError;

/// How statements run on one of SQLx's connections: `$bound` makes a statement of a query, `$value` reads a
/// column, and `$code` is an error's code.
macro_rules! statements {
    ($bound:path, $value:path, $code:path) => {
        async fn execute(&mut self, query: Query) -> Result<u64, DriverError> {
            let done = $bound(query)?.execute(self.connection()).await;
            done.map(|done| done.rows_affected()).map_err(|error| told(error, $code))
        }

        async fn rows(&mut self, query: Query) -> Result<Vec<Vec<Value>>, DriverError> {
            let rows = $bound(query)?.fetch_all(self.connection()).await;
            let rows = rows.map_err(|error| told(error, $code))?;
            let mut all = Vec::with_capacity(rows.len());
            for row in rows {
                let value = |column| row.try_get_raw(column).map_err(DriverError::unreadable);
                let read =
                    |column| value(column).map(|it| if it.is_null() { Value::Null } else { $value(it) });
                all.push((0..row.len()).map(read).collect::<Result<_, _>>()?);
            }
            Ok(all)
        }
    };
}

use statements;

/// Transactions of SQLx are used as the connections they hold.
macro_rules! transactions {
    ($Db:ty, $database:ident) => {
        impl AsyncConnection for sqlx::Transaction<'_, $Db> {
            type Savepoint<'s>
                = <<$Db as sqlx::Database>::Connection as AsyncConnection>::Savepoint<'s>
            where
                Self: 's;

            fn dialect(&self) -> Dialect {
                Dialect::$database
            }

            async fn save(&mut self) -> Result<Self::Savepoint<'_>, DriverError> {
                (**self).save().await
            }
        }
    };
}

use transactions;

fn begun(is_in_transaction: bool) -> Result<(), DriverError> {
    let none = || DriverError::no_transaction("pool.begin() or connection.begin()");
    if is_in_transaction { Ok(()) } else { Err(none()) }
}

fn told(error: SqlxError, code: fn(&dyn DatabaseError) -> Option<String>) -> DriverError {
    match &error {
        SqlxError::Database(refused) => {
            let (code, constraint) = (code(refused.as_ref()), refused.constraint().map(str::to_owned));
            DriverError::database(code.unwrap_or_default(), constraint.as_deref(), error)
        }
        SqlxError::BeginFailed => DriverError::ended(error),
        SqlxError::ColumnDecode { .. } | SqlxError::Decode(_) | SqlxError::Encode(_) => {
            DriverError::unreadable(error)
        }
        _ => DriverError::lost(error),
    }
}

/// PostgreSQL's SQLSTATE; SQLite's extended result code.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn code(error: &dyn DatabaseError) -> Option<String> {
    error.code().map(std::borrow::Cow::into_owned)
}
