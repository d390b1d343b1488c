//! MariaDB through SQLx.

use std::fmt::Write;

use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlDatabaseError, MySqlValueRef};
use sqlx::{AssertSqlSafe, Decode, TypeInfo};
use sqlx::{Connection, Row, ValueRef};

use super::servers::{Client, Whole, client};
use super::{begun, statements, told, transactions};
use crate::store::sql::connection::caller::driver::{
    AsyncConnection, Dialect, DriverError, Query, Savepoint, Value, text,
};

client!(sqlx::MySqlConnection, sqlx::MySql, Mysql, bound, value, number);

fn number(error: &dyn DatabaseError) -> Option<String> {
    error.try_downcast_ref::<MySqlDatabaseError>().map(|error| error.number().to_string())
}

/// A text without placeholders: SQLx prepares a statement in steps that must not be dropped halfway, for it
/// loses count of the server's answers and waits for ever. Texts are written in hexadecimal, which means the
/// same in every SQL mode.
fn bound(query: Query) -> Result<sqlx::RawSql, DriverError> {
    let text = query.text();
    let mut pieces = text.split('?');
    let mut written = pieces.next().unwrap_or_default().to_owned();
    let mut values = query.values().iter();
    for piece in pieces {
        match values.next() {
            Some(Value::Int(value)) => written.push_str(&value.to_string()),
            Some(Value::Text(text)) => {
                written.push_str("_utf8mb4 X'");
                text.bytes()
                    .try_for_each(|byte| write!(written, "{byte:02X}"))
                    .map_err(DriverError::unreadable)?;
                written.push('\'');
            }
            Some(Value::Null | Value::NoNumber) => written.push_str("NULL"),
            Some(Value::Ints(_) | Value::Texts(_)) | None => {
                return Err(DriverError::unreadable(
                    "a statement's values are not those of its placeholders",
                ));
            }
        }
        written.push_str(piece);
    }
    Ok(sqlx::raw_sql(AssertSqlSafe(written)))
}

fn value(value: MySqlValueRef<'_>) -> Value {
    let is_number = matches!(value.type_info().name(), name if name.contains("INT") || name == "BOOLEAN");
    if is_number {
        return <i64 as Decode<sqlx::MySql>>::decode(value).map_or(Value::Null, Value::Int);
    }
    <&[u8] as Decode<sqlx::MySql>>::decode(value).map_or(Value::Null, text)
}
