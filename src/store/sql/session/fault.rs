//! What an error of a statement means, as far as diesel and the database's text tell.

use std::fmt;
use std::sync::Arc;

use diesel::result::DatabaseErrorKind;

use crate::domain::{Error, ErrorKind, Source};

/// What a statement, or several of them, end with.
pub(crate) type Step<T> = Result<T, Fault>;

/// What an error means for the statement that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(dead_code, reason = "each database has some of these")
)]
pub(crate) enum FaultKind {
    /// A lock or statement timeout, a busy database: the same may work a moment later.
    Busy,
    /// The transaction was rolled back, because it and another waited for each other: the same may work at
    /// once.
    Deadlock,
    /// A row changed after we read it and before our guarded change, or after the transaction's snapshot.
    Conflict,
    /// The server has ended the transaction, and nothing of it is stored: the same may work at once.
    Ended,
    /// What was asked for cannot be; the database was not needed to say so.
    Senseless,
    /// A row with the same unique key is there already.
    Duplicate,
    /// An id that the database drew is taken: its sequence lags behind the table, and no row is at fault.
    TakenId,
    /// The database refused what the row holds: the same would be refused again.
    Row,
    /// The database understood and said no, for a reason that may pass: read-only, cancelled, disk full.
    Refused,
    /// The transaction was to tell of its changes, and PostgreSQL's queue of notifications is full: nothing
    /// of it is kept. The same may work without telling.
    Unheard,
    /// SQLite's disk had no room for a statement or a commit, and nothing of the transaction is kept.
    Full,
    /// This session may not write: its server is a standby, or was made read-only. Another session may.
    ReadOnly,
    /// This session's server is outside its cluster: it takes no statements for now. Another may.
    NotReady,
    /// The connection is gone or cannot be trusted.
    Lost,
    /// The commit's answer is missing.
    Unknown,
    /// A value came back that cannot be understood.
    Undecodable,
}

impl FaultKind {
    /// Whether this session's server is the wrong one: another of its cluster may do.
    pub(crate) fn is_of_server(self) -> bool {
        matches!(self, Self::ReadOnly | Self::NotReady)
    }

    /// Whether another try may go better.
    pub(crate) fn passes(self) -> bool {
        self.is_busy() || matches!(self, Self::Conflict | Self::Ended)
    }

    /// Whether nothing is kept of a transaction whose COMMIT ends so.
    pub(crate) fn undoes_commit(self) -> bool {
        self.passes() || matches!(self, Self::Full | Self::Unheard)
    }

    /// Whether another transaction is in the way.
    pub(crate) fn is_busy(self) -> bool {
        matches!(self, Self::Busy | Self::Deadlock)
    }

    /// The kind of the error that a caller is given.
    pub(crate) fn error_kind(self) -> ErrorKind {
        match self {
            Self::Unknown => ErrorKind::Unknown,
            Self::Lost | Self::Busy | Self::Deadlock | Self::Ended | Self::NotReady | Self::TakenId => {
                ErrorKind::Unavailable
            }
            Self::Conflict => ErrorKind::Conflict,
            Self::Senseless => ErrorKind::Config,
            Self::Refused | Self::Full | Self::Unheard | Self::ReadOnly => ErrorKind::Refused,
            Self::Row | Self::Duplicate | Self::Undecodable => ErrorKind::Data,
        }
    }

    /// What follows from it for the caller.
    pub(crate) fn follows(self) -> &'static str {
        match self {
            Self::Unknown => "the answer was lost and the change may have been made",
            Self::Lost => "the database cannot be reached; nothing was changed",
            Self::Busy | Self::Deadlock | Self::Ended => {
                "another transaction is in the way, or the database is too busy; nothing was changed"
            }
            Self::Conflict => "another writer was first; nothing was changed",
            Self::Duplicate => {
                "the ledger has this occurrence already, as after its cursor was set back by hand; nothing \
                 was changed"
            }
            Self::Refused | Self::Full | Self::ReadOnly => "the database refused; nothing was changed",
            Self::Unheard => {
                "nothing was changed: PostgreSQL's queue of notifications is full, because a session that \
                 has LISTENed stays in a transaction"
            }
            Self::NotReady => "the server is outside its cluster for now; nothing was changed",
            Self::Row => "the database refused what the row holds; nothing was changed",
            Self::Senseless | Self::TakenId | Self::Undecodable => "nothing was changed",
        }
    }
}

/// An error of one statement, before anybody knows what it means for the call.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) kind: FaultKind,
    /// Our own words about it; none where the database's say it all.
    pub(crate) message: String,
    pub(crate) cause: Option<Source>,
}

impl Fault {
    pub(crate) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None }
    }

    /// A fault that a driver told of.
    pub(crate) fn caused(
        kind: FaultKind,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { kind, message: String::new(), cause: Some(Arc::from(cause.into())) }
    }

    pub(crate) fn undecodable(message: String) -> Self {
        Self::new(FaultKind::Undecodable, message)
    }

    /// The same fault, with these words in front.
    pub(crate) fn with(self, words: &str) -> Self {
        let message = match self.message.as_str() {
            "" => words.to_owned(),
            message => format!("{words}: {message}"),
        };
        Self { message, ..self }
    }

    /// What a caller is told, with these words in front.
    pub(crate) fn error(self, kind: ErrorKind, words: &str) -> Error {
        let Self { message, cause, .. } = self.with(words);
        let error = Error::new(kind, message);
        match cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            None => f.write_str(&self.message),
            Some(cause) if self.message.is_empty() => cause.fmt(f),
            Some(cause) => write!(f, "{}: {cause}", self.message),
        }
    }
}

impl std::error::Error for Fault {}

/// PostgreSQL's constraints of ids that it draws itself.
const KEYS_OF_IDS: [&str; 5] =
    ["qrtz_job_pkey", "qrtz_execute_pkey", "qrtz_run_pkey", "qrtz_claim_pkey", "qrtz_audit_pkey"];

fn is_drawn(constraint: &str) -> bool {
    KEYS_OF_IDS.contains(&constraint)
}

/// How the errors of one database are recognised. Diesel reads a few of their codes (SQLSTATE, error number,
/// extended result code) into a kind. All others it hides behind the kind `Unknown`, and of these nothing is
/// left but the text.
pub(crate) struct Recognition {
    /// What diesel's `SerializationFailure` is.
    pub serialization: FaultKind,
    /// The codes that other drivers tell, and what these errors are.
    #[cfg(feature = "tokio")]
    pub codes: &'static [(FaultKind, &'static [&'static str])],
    /// Parts of texts, in lower case, and what these errors are: the first that occurs counts. Everything
    /// else counts as refused, and the caller asks the connection whether it still lives before it believes
    /// that.
    pub texts: &'static [(FaultKind, &'static [&'static str])],
}

impl Recognition {
    pub(crate) fn fault(&self, error: diesel::result::Error) -> Fault {
        use diesel::result::Error::{BrokenTransactionManager, DatabaseError, DeserializationError};
        let kind = match &error {
            DatabaseError(kind, told) => self.kind(kind, told.constraint_name(), told.message()),
            BrokenTransactionManager => FaultKind::Lost,
            DeserializationError(_) => FaultKind::Undecodable,
            _ => FaultKind::Refused,
        };
        Fault::caused(kind, error)
    }

    fn kind(&self, kind: &DatabaseErrorKind, constraint: Option<&str>, message: &str) -> FaultKind {
        use DatabaseErrorKind::{
            CheckViolation, ClosedConnection, ExclusionViolation, ForeignKeyViolation, NotNullViolation,
            ReadOnlyTransaction, SerializationFailure, UnableToSendCommand, UniqueViolation, Unknown,
        };
        match kind {
            SerializationFailure => self.serialization,
            UniqueViolation if constraint.is_some_and(is_drawn) => FaultKind::TakenId,
            UniqueViolation => FaultKind::Duplicate,
            ReadOnlyTransaction => FaultKind::ReadOnly,
            NotNullViolation | CheckViolation | ForeignKeyViolation | ExclusionViolation => FaultKind::Row,
            ClosedConnection | UnableToSendCommand => FaultKind::Lost,
            Unknown => self.by_text(message),
            _ => FaultKind::Refused,
        }
    }

    /// The fault of an error that another driver than diesel's tells of, with its code.
    #[cfg(feature = "tokio")]
    pub(crate) fn coded(&self, code: &str, constraint: Option<&str>, cause: Source) -> Fault {
        let known = self.codes.iter().find(|(_, codes)| codes.contains(&code)).map(|(kind, _)| *kind);
        let kind = match known.unwrap_or_else(|| self.by_text(&cause.to_string())) {
            FaultKind::Duplicate if constraint.is_some_and(is_drawn) => FaultKind::TakenId,
            kind => kind,
        };
        Fault { kind, message: String::new(), cause: Some(cause) }
    }

    fn by_text(&self, message: &str) -> FaultKind {
        let message = message.to_lowercase();
        let says = |texts: &[&str]| texts.iter().any(|text| message.contains(text));
        self.texts.iter().find(|(_, texts)| says(texts)).map_or(FaultKind::Refused, |(kind, _)| *kind)
    }

    /// What an error with this text and no code is.
    #[cfg(test)]
    pub(crate) fn kind_of(&self, text: &str) -> FaultKind {
        let text = Box::new(text.to_owned());
        self.fault(diesel::result::Error::DatabaseError(DatabaseErrorKind::Unknown, text)).kind
    }
}
