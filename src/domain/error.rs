//! One opaque error with a kind inside.

use std::fmt;

/// What went wrong, in a form that code can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration or an argument cannot work; nothing was done.
    Config,
    /// The database cannot be reached, or did not answer in time.
    Unavailable,
    /// The database refused; nothing was changed.
    Refused,
    /// The database refused what the row itself holds (a broken constraint, a value out of range); nothing
    /// was changed, and trying again would end the same way.
    Data,
    /// The database's answer was lost: the change may or may not have been made.
    Unknown,
    /// The schema is missing, incomplete, or newer than this version of firetime.
    Schema,
    /// Another writer changed the same row first.
    Conflict,
    /// What was asked for does not exist.
    NotFound,
    /// A thread or another resource of the process could not be had.
    System,
}

/// The error of every fallible call: says what was attempted, on what, and what follows.
///
/// ```
/// use firetime::{ErrorKind, Trigger};
/// let error = Trigger::cron("* * * * *", "UTC").unwrap_err();
/// assert!(error.to_string().contains("seconds"));
/// # let _ = ErrorKind::Config;
/// ```
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The same error, with the attempted operation in front, unless it is there already.
    pub(crate) fn during(self, operation: &str) -> Self {
        let message = format!("{operation}: {}", self.without(operation));
        Self { message, ..self }
    }

    /// The message behind the operation's name.
    pub(crate) fn without(&self, operation: &str) -> &str {
        let behind = self.message.strip_prefix(operation).and_then(|message| message.strip_prefix(": "));
        behind.unwrap_or(&self.message)
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the change may have been made although an error came back.
    pub(crate) fn is_unknown(&self) -> bool {
        self.kind == ErrorKind::Unknown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_named_once() {
        let error = Error::new(ErrorKind::Unavailable, "no connection").during("poll").during("poll");
        assert_eq!(error.to_string(), "poll: no connection");
        assert_eq!(error.during("storing").to_string(), "storing: poll: no connection");
    }
}
