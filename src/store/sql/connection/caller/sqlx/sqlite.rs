//! SQLite through SQLx.

use std::task::{Context, Waker};

use sqlx::sqlite::{SqliteArguments, SqliteValueRef};
use sqlx::{AssertSqlSafe, Connection, Decode, Executor, Row, TypeInfo, ValueRef};

use super::{begun, code, statements, told, transactions};
use crate::store::sql::connection::caller::driver::{
    AsyncConnection, Dialect, DriverError, Query, Savepoint, Value, text,
};

/// A savepoint in a file. SQLx's worker does what it is sent one after the other, whether anybody waits for
/// that or not.
pub struct InFile<'s> {
    connection: &'s mut sqlx::SqliteConnection,
    is_open: bool,
}

impl InFile<'_> {
    fn connection(&mut self) -> &mut sqlx::SqliteConnection {
        self.connection
    }

    async fn end(&mut self, text: &'static str) -> Result<(), DriverError> {
        self.connection.execute(text).await.map(|_| ()).map_err(|error| told(error, code))
    }
}

impl AsyncConnection for sqlx::SqliteConnection {
    type Savepoint<'s> = InFile<'s>;

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn save(&mut self) -> Result<InFile<'_>, DriverError> {
        begun(self.is_in_transaction())?;
        self.execute("SAVEPOINT firetime").await.map_err(|error| told(error, code))?;
        Ok(InFile { connection: self, is_open: true })
    }
}

transactions!(sqlx::Sqlite, Sqlite);

impl Savepoint for InFile<'_> {
    statements!(bound, value, code);

    async fn release(mut self) -> Result<(), DriverError> {
        // Whatever becomes of it, all of the request is the transaction's.
        self.is_open = false;
        self.end("RELEASE firetime").await
    }

    async fn roll_back(mut self) -> Result<(), DriverError> {
        self.end("ROLLBACK TO firetime").await?;
        self.is_open = false;
        self.end("RELEASE firetime").await
    }
}

impl Drop for InFile<'_> {
    fn drop(&mut self) {
        if self.is_open {
            // Polled once, it is sent to the worker.
            let mut sent = self.connection.execute("ROLLBACK TO firetime");
            drop(sent.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        }
    }
}

fn bound(query: Query) -> Result<sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>, DriverError> {
    let statement = sqlx::query(AssertSqlSafe(query.text().into_owned()));
    Ok(query.into_values().into_iter().fold(statement, |statement, value| match value {
        Value::Int(value) => statement.bind(value),
        Value::Text(text) => statement.bind(text),
        Value::NoNumber | Value::Null | Value::Ints(_) | Value::Texts(_) => statement.bind(None::<String>),
    }))
}

fn value(value: SqliteValueRef<'_>) -> Value {
    let kind = value.type_info().name().to_owned();
    match kind.as_str() {
        "INTEGER" => <i64 as Decode<sqlx::Sqlite>>::decode(value).map_or(Value::Null, Value::Int),
        "TEXT" => <&[u8] as Decode<sqlx::Sqlite>>::decode(value).map_or(Value::Null, text),
        _ => Value::Null,
    }
}
