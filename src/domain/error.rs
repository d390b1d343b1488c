//! One opaque error with a kind inside.

use std::fmt;
use std::sync::Arc;

use super::states::UnknownWord;
use super::user_code::with_causes;
use crate::trigger::TriggerError;

/// What went wrong, in a form that code can act on.
///
/// | kind | was anything changed? | does the same call help, made again? |
/// | --- | --- | --- |
/// | [`Config`](Self::Config) | no | no |
/// | [`Unavailable`](Self::Unavailable) | no | yes, after a pause |
/// | [`Refused`](Self::Refused) | no | perhaps: once the reason has passed |
/// | [`Data`](Self::Data) | no | no |
/// | [`Unknown`](Self::Unknown) | perhaps | look first, unless a second time does no harm |
/// | [`Schema`](Self::Schema) | no | no: bring the schema up to date |
/// | [`Conflict`](Self::Conflict) | no | yes: it decides on the rows as they are then |
/// | [`NotFound`](Self::NotFound) | no | no |
/// | [`System`](Self::System) | no | yes, after a pause |
///
/// [`Error::is_unknown`] and [`Error::is_retryable`] say the same. A call that takes several transactions
/// keeps those it has committed before an error, whatever the kind: the end of a long pause, a removal that
/// also cancels, `migrate`, the start of a scheduler. Made again, it goes on from there.
///
/// ```
/// use firetime::{Client, Error, Job};
/// use std::time::Duration;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
///
/// /// Makes a call up to three times.
/// fn persistent<T>(mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
///     for _ in 0..2 {
///         match call() {
///             Err(error) if error.is_retryable() => std::thread::sleep(Duration::from_secs(1)),
///             ended => return ended,
///         }
///     }
///     call()
/// }
///
/// const RESIZE: Job<u64> = Job::new("resize");
/// let client = Client::connect("shop", &url)?;
/// match persistent(|| client.enqueue(RESIZE, &7).run()) {
///     Ok(enqueued) => println!("execution {} will run", enqueued.id()),
///     Err(error) if error.is_unknown() => eprintln!("it may run, look for it: {error:#}"),
///     Err(error) => eprintln!("nothing was enqueued: {error:#}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The configuration or an argument cannot work.
    Config,
    /// The database cannot be reached, is too busy, or did not answer in time.
    Unavailable,
    /// The database refused, for a reason that may pass: a right that is missing, a full disk, a server that
    /// may only be read.
    Refused,
    /// The database refused what the row itself holds (a broken constraint, a value out of range), or a row
    /// cannot be understood.
    Data,
    /// The database's answer was lost: the change may or may not have been made.
    Unknown,
    /// The schema is missing, incomplete, or newer than this version of firetime.
    Schema,
    /// Another writer changed the same row first, or another execution has the unique key. In a transaction
    /// of yours: roll back, and begin the whole transaction anew.
    Conflict,
    /// What was asked for does not exist.
    NotFound,
    /// A thread or another resource of the process could not be had.
    System,
}

/// What an error was caused by.
pub(crate) type Source = Arc<dyn std::error::Error + Send + Sync>;

/// The error of every fallible call: says what was attempted, on what, and what follows. Its
/// [`source`](std::error::Error::source) is the database's own error, where one was the cause.
///
/// `{}` shows the error alone, `{:#}` the causes behind it, too, in one line.
///
/// ```
/// use firetime::{Client, ErrorKind};
/// use std::error::Error;
/// let error = Client::connect("shop", "sqlite:/nowhere/shop.db").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Schema);
/// assert!(!error.is_unknown() && !error.is_retryable());
/// assert!(error.to_string().contains("no database file"));
/// assert!(error.source().is_none(), "the database was not asked");
/// ```
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    /// The attempted operation, where it is known.
    operation: Option<String>,
    message: String,
    source: Option<Source>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, operation: None, message: message.into(), source: None }
    }

    /// The same error, with its cause.
    pub(crate) fn because(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }

    /// The same error, of a change that may have been made in spite of it.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database loses answers"))]
    pub(crate) fn unknown(self) -> Self {
        Self { kind: ErrorKind::Unknown, ..self }
    }

    /// The same error, met in this operation. One that was attempted within it is named behind it.
    pub(crate) fn during(self, operation: &str) -> Self {
        if self.operation.as_deref() == Some(operation) {
            return self;
        }
        let message = self.to_string();
        Self { operation: Some(operation.to_owned()), message, ..self }
    }

    /// The error with its causes, where the operation has been named.
    pub(crate) fn behind(&self, operation: &str) -> String {
        let is_named = self.operation.as_deref() == Some(operation);
        let operation = self.operation.clone().filter(|_| !is_named);
        format!("{:#}", Self { operation, ..self.clone() })
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the change may have been made although an error came back: only if the kind is
    /// [`ErrorKind::Unknown`].
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.kind == ErrorKind::Unknown
    }

    /// Whether the same call, made again after a pause, may succeed and does no harm. `false` if the error
    /// [`is_unknown`](Error::is_unknown): only the caller knows whether a second time does harm. Within a
    /// transaction of the caller's (`run_in`) it is the whole transaction that is made again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use ErrorKind::{Conflict, Refused, System, Unavailable};
        matches!(self.kind, Unavailable | Refused | Conflict | System)
    }
}

/// A trigger that was refused is an argument that cannot work: [`ErrorKind::Config`].
///
/// ```
/// use firetime::{ErrorKind, Trigger};
///
/// fn nightly(expression: &str) -> Result<Trigger, firetime::Error> {
///     Ok(Trigger::cron(expression, "UTC")?)
/// }
/// let error = nightly("0 30 2 * *").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Config);
/// assert!(error.to_string().contains("seconds come first"));
/// ```
impl From<TriggerError> for Error {
    fn from(error: TriggerError) -> Self {
        Self::new(ErrorKind::Config, error.to_string())
    }
}

/// A word that is none, in an argument.
impl From<UnknownWord> for Error {
    fn from(error: UnknownWord) -> Self {
        Self::new(ErrorKind::Config, error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            let operation = self.operation.iter().try_for_each(|operation| write!(f, "{operation}: "));
            return operation.and_then(|()| f.write_str(&self.message));
        }
        // Drivers break their messages into lines, and logs would show the breaks as escapes.
        let text = with_causes(self);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        f.write_str(&lines.collect::<Vec<_>>().join("; "))
    }
}

/// For people, too: `main` and `unwrap` show errors so.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self:#}", self.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_named_once() {
        let error = Error::new(ErrorKind::Unavailable, "no connection").during("poll").during("poll");
        assert_eq!(error.to_string(), "poll: no connection");
        assert_eq!(error.during("storing").to_string(), "storing: poll: no connection");
    }

    #[test]
    fn causes_are_kept_and_shown_once_and_in_one_line() {
        use std::error::Error as _;
        let refused = std::io::Error::other("refused\n\tby the server\n");
        let error = Error::new(ErrorKind::Unavailable, "no connection").because(Arc::new(refused));
        let error = error.during("poll").clone().unknown();
        assert!(error.source().is_some_and(|source| source.is::<std::io::Error>()));
        assert_eq!(error.to_string(), "poll: no connection");
        assert_eq!(format!("{error:#}"), "poll: no connection: refused; by the server");
        assert_eq!(error.behind("poll"), "no connection: refused; by the server");
        let said = Error::new(ErrorKind::Refused, "no: disk full")
            .because(Arc::new(Error::new(ErrorKind::Refused, "disk full")));
        assert_eq!(format!("{said:#}"), "no: disk full");
    }

    /// As the table says that the documentation of [`ErrorKind`] has.
    #[test]
    fn each_kind_says_whether_anything_was_changed_and_whether_to_try_again() {
        let kinds = [
            (ErrorKind::Config, false, false),
            (ErrorKind::Unavailable, false, true),
            (ErrorKind::Refused, false, true),
            (ErrorKind::Data, false, false),
            (ErrorKind::Unknown, true, false),
            (ErrorKind::Schema, false, false),
            (ErrorKind::Conflict, false, true),
            (ErrorKind::NotFound, false, false),
            (ErrorKind::System, false, true),
        ];
        let source = include_str!("error.rs");
        for (kind, unknown, retryable) in kinds {
            let error = Error::new(kind, "");
            assert_eq!((error.is_unknown(), error.is_retryable()), (unknown, retryable), "{kind:?}");
            let changed = if unknown { "perhaps" } else { "no" };
            let row = format!("/// | [`{kind:?}`](Self::{kind:?}) | {changed} | ");
            let again = source.lines().find_map(|line| line.strip_prefix(&row)).unwrap();
            assert_eq!(again.starts_with("yes") || again.starts_with("perhaps"), retryable, "{kind:?}");
        }
    }
}
