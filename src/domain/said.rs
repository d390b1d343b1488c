//! What handlers say while they run: lines, and how far they have come.

use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::{Timestamp, UnknownWord};

/// How many lines of an execution are kept: the newest.
pub(crate) const MOST_LINES: usize = 200;
/// The most characters of a line; the rest of a longer one is cut off.
pub(crate) const LONGEST_LINE: usize = 500;

/// How much a line of a handler matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// Something went wrong.
    Error,
    /// Something may go wrong.
    Warn,
    /// What people want to know: the level of [`Context::log`](crate::Context::log).
    #[default]
    Info,
    /// For those who look for a fault.
    Debug,
    /// For those who look closely.
    Trace,
}

impl LogLevel {
    /// All of them, the weightiest first.
    pub const ALL: &'static [Self] = &[Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// Its name, in capitals.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        }
    }
}

impl FromStr for LogLevel {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let level = Self::ALL.iter().copied().find(|level| level.as_str() == text);
        level.ok_or_else(|| UnknownWord::new("LogLevel", text))
    }
}

impl Serialize for LogLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// How far a handler has come, by its own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// Of how much.
    pub total: u64,
}

impl Progress {
    /// More than a column holds is as much as that.
    pub(crate) fn new(done: u64, total: u64) -> Self {
        const MOST: u64 = i64::MAX.unsigned_abs();
        Self { done: done.min(MOST), total: total.min(MOST) }
    }
}

/// A line of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its number within the run, from 0 on.
    pub number: u64,
    pub at: Timestamp,
    pub level: LogLevel,
    pub text: String,
}
