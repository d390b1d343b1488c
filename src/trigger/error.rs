use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use thiserror::Error;

/// Why a trigger was refused: what is wrong, where, and what to write instead.
///
/// Its `Debug` text is the same: a test that ends with it tells what to do.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TriggerError {
    /// The expression has neither six nor seven fields and is no known nickname.
    #[error("cron expression `{expression}`: {problem}")]
    #[non_exhaustive]
    Shape {
        /// The whole expression.
        expression: String,
        /// What is wrong and what to write.
        problem: String,
    },
    /// One field cannot be understood.
    #[error("cron expression `{expression}`: {field} `{text}`: {problem}")]
    #[non_exhaustive]
    Field {
        /// The whole expression.
        expression: String,
        /// The field's name, such as `day-of-month`.
        field: &'static str,
        /// The part of the field that is wrong.
        text: String,
        /// What is wrong and what to write.
        problem: String,
    },
    /// Each field is right, but no instant matches all of them.
    #[error("cron expression `{expression}` never fires: {reason}")]
    #[non_exhaustive]
    NeverFires {
        /// The whole expression.
        expression: String,
        /// Why no instant matches.
        reason: String,
    },
    /// No such time zone. Nothing is assumed in its place.
    #[error(
        "unknown time zone `{name}`: write an IANA name in its own spelling, \
         such as `Europe/Berlin` or `UTC`"
    )]
    #[non_exhaustive]
    UnknownZone {
        /// The name as given.
        name: String,
    },
    /// A number of a simple trigger or a fixed delay is out of range.
    #[error("trigger: {field} is {value}: {problem}")]
    #[non_exhaustive]
    Simple {
        /// `start`, `interval`, `repeat count` or `delay`.
        field: &'static str,
        /// The value as given (milliseconds for start, interval and delay).
        value: i64,
        /// The rule it breaks.
        problem: &'static str,
    },
    /// Something that only a simple trigger has was asked of another.
    #[error("{trigger} has no `{asked}`: bound it with the schedule's start and end time")]
    #[non_exhaustive]
    NotSimple {
        /// The method called.
        asked: &'static str,
        /// The trigger in words.
        trigger: String,
    },
    /// A simple trigger or a fixed delay was to be timed before anything said when it starts.
    #[error("trigger: it has no start yet: anchor it at the time its schedule is created")]
    NotAnchored,
    /// A schedule's window ends before it begins.
    #[error("end time {} is before start time {}", date(end), date(start))]
    #[non_exhaustive]
    EndBeforeStart {
        /// Start of the window.
        start: DateTime<Utc>,
        /// End of the window.
        end: DateTime<Utc>,
    },
}

impl fmt::Debug for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TriggerError: {self}")
    }
}

/// The instant as people write it.
fn date(at: &DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
