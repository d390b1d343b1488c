//! Values in the binary form of their database.

use super::driver::{Value, text};

/// A value as PostgreSQL sends it in binary form, by the number of its type.
pub(in crate::store::sql::connection::caller) fn postgres_value(type_number: u32, bytes: &[u8]) -> Value {
    let int = match type_number {
        20 => bytes.try_into().ok().map(i64::from_be_bytes),
        23 => bytes.try_into().ok().map(|it| i32::from_be_bytes(it).into()),
        21 => bytes.try_into().ok().map(|it| i16::from_be_bytes(it).into()),
        19 | 25 | 1042 | 1043 => return text(bytes),
        _ => None,
    };
    int.map_or(Value::Null, Value::Int)
}
