//! Transactions of tokio-postgres. A dropped one sends its rollback at once, behind what is under way.

use std::error::Error as StdError;

use tokio_postgres::Transaction;
use tokio_postgres::types::{FromSql, ToSql, Type};

use super::binary::postgres_value;
use super::driver::{AsyncConnection, Dialect, DriverError, Query, Savepoint, Value};

type Boxed = Box<dyn StdError + Send + Sync>;

impl AsyncConnection for Transaction<'_> {
    type Savepoint<'s>
        = Transaction<'s>
    where
        Self: 's;

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn save(&mut self) -> Result<Transaction<'_>, DriverError> {
        self.savepoint("firetime").await.map_err(told)
    }
}

impl Savepoint for Transaction<'_> {
    async fn execute(&mut self, query: Query) -> Result<u64, DriverError> {
        self.execute_typed(&query.text(), &typed(query.values())).await.map_err(told)
    }

    async fn rows(&mut self, query: Query) -> Result<Vec<Vec<Value>>, DriverError> {
        let rows = self.query_typed(&query.text(), &typed(query.values())).await.map_err(told)?;
        let value = |it: Result<Read, _>| it.map(|it| it.0).map_err(told);
        rows.iter().map(|row| (0..row.len()).map(|column| value(row.try_get(column))).collect()).collect()
    }

    async fn release(self) -> Result<(), DriverError> {
        self.commit().await.map_err(told)
    }

    async fn roll_back(self) -> Result<(), DriverError> {
        self.rollback().await.map_err(told)
    }
}

fn told(error: tokio_postgres::Error) -> DriverError {
    match error.as_db_error() {
        Some(refused) => {
            let (code, constraint) =
                (refused.code().code().to_owned(), refused.constraint().map(str::to_owned));
            DriverError::database(code, constraint.as_deref(), error)
        }
        None => DriverError::lost(error),
    }
}

fn typed(values: &[Value]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    values.iter().map(bound).collect()
}

fn bound(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Int(number) => (number, Type::INT8),
        Value::NoNumber => (&None::<i64>, Type::INT8),
        Value::Text(text) => (text, Type::TEXT),
        Value::Null => (&None::<&str>, Type::TEXT),
        Value::Ints(numbers) => (&**numbers, Type::INT8_ARRAY),
        Value::Texts(texts) => (&**texts, Type::TEXT_ARRAY),
    }
}

/// A column of an answer, of whatever type.
struct Read(Value);

impl FromSql<'_> for Read {
    fn from_sql(of: &Type, bytes: &[u8]) -> Result<Self, Boxed> {
        Ok(Self(postgres_value(of.oid(), bytes)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Boxed> {
        Ok(Self(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
