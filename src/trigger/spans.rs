//! The engine's milliseconds as instants and spans.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// The instant of so many epoch milliseconds, if the calendar reaches so far.
pub(super) fn utc(millis: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(millis)
}

/// A span, which is never negative.
pub(super) fn span(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}
