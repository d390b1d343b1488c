//! Spans as JSON has them: milliseconds.

use std::time::Duration;

use serde::Serializer;

use crate::time::millis;

pub(crate) fn as_millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(millis(*span))
}

pub(crate) fn some_as_millis<S: Serializer>(
    span: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => as_millis(span, serializer),
        None => serializer.serialize_none(),
    }
}
