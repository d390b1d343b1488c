//! PostgreSQL through SQLx.

use std::sync::Arc;

use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgArguments, PgValueRef};
use sqlx::{Connection, Row, ValueRef};

use super::servers::{Client, Whole, client};
use super::{begun, code, statements, told, transactions};
use crate::store::sql::connection::caller::binary::postgres_value;
use crate::store::sql::connection::caller::driver::{
    AsyncConnection, Dialect, DriverError, Query, Savepoint, Value,
};

client!(sqlx::PgConnection, sqlx::Postgres, Postgres, bound, value, code);

fn bound(query: Query) -> Result<sqlx::query::Query<'static, sqlx::Postgres, PgArguments>, DriverError> {
    let statement = sqlx::query(AssertSqlSafe(query.text().into_owned()));
    Ok(query.into_values().into_iter().fold(statement, |statement, value| match value {
        Value::Int(value) => statement.bind(value),
        Value::Text(text) => statement.bind(text),
        Value::Null => statement.bind(None::<String>),
        Value::NoNumber => statement.bind(None::<i64>),
        Value::Ints(values) => statement.bind(Arc::unwrap_or_clone(values)),
        Value::Texts(values) => statement.bind(Arc::unwrap_or_clone(values)),
    }))
}

fn value(value: PgValueRef<'_>) -> Value {
    let number = value.type_info().oid().map_or(0, |oid| oid.0);
    value.as_bytes().map_or(Value::Null, |bytes| postgres_value(number, bytes))
}
