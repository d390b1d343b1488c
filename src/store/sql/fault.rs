//! What an error of a statement means, as far as diesel and the database's text tell.

use diesel::result::DatabaseErrorKind;

use crate::domain::ErrorKind;

/// What a statement, or several of them, end with.
pub(super) type Step<T> = Result<T, Fault>;

/// What an error means for the statement that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// A deadlock, a lock or statement timeout, a busy database: the same may work a moment later.
    Busy,
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
    pub(super) fn is_of_server(self) -> bool {
        matches!(self, Self::ReadOnly | Self::NotReady)
    }

    /// Whether another try may go better.
    pub(super) fn passes(self) -> bool {
        matches!(self, Self::Busy | Self::Conflict | Self::Ended)
    }

    /// The kind of the error that a caller is given.
    pub(super) fn error_kind(self) -> ErrorKind {
        match self {
            Self::Unknown => ErrorKind::Unknown,
            Self::Lost | Self::Busy | Self::Ended | Self::NotReady | Self::TakenId => ErrorKind::Unavailable,
            Self::Conflict => ErrorKind::Conflict,
            Self::Senseless => ErrorKind::Config,
            Self::Refused | Self::ReadOnly => ErrorKind::Refused,
            Self::Row | Self::Duplicate | Self::Undecodable => ErrorKind::Data,
        }
    }
}

/// An error of one statement, before anybody knows what it means for the call.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub(super) kind: FaultKind,
    pub(super) message: String,
}

impl Fault {
    /// Drivers break their messages into lines, and logs would show the breaks as escapes: the message
    /// becomes one line.
    pub(super) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
        Self { kind, message: lines.collect::<Vec<_>>().join("; ") }
    }

    pub(super) fn undecodable(message: String) -> Self {
        Self::new(FaultKind::Undecodable, message)
    }
}

/// PostgreSQL's constraints of ids that it draws itself.
const KEYS_OF_IDS: [&str; 5] =
    ["qrtz_job_pkey", "qrtz_execute_pkey", "qrtz_run_pkey", "qrtz_claim_pkey", "qrtz_audit_pkey"];

/// Classifies an error by everything diesel tells: its kind, and the text where that is not enough. Texts
/// of PostgreSQL may be in any language, so what is not recognised counts as refused here, and the caller
/// asks the connection whether it still lives before it believes that.
pub(super) fn fault(error: diesel::result::Error) -> Fault {
    use diesel::result::Error::{BrokenTransactionManager, DatabaseError, DeserializationError};
    let kind = match &error {
        // MariaDB's deadlocks are among these: unlike a conflict they may leave a result half read.
        DatabaseError(DatabaseErrorKind::SerializationFailure, information) => {
            let is_deadlock = information.message().to_lowercase().contains("deadlock");
            if is_deadlock { FaultKind::Busy } else { FaultKind::Conflict }
        }
        DatabaseError(DatabaseErrorKind::UniqueViolation, information)
            if information.constraint_name().is_some_and(|name| KEYS_OF_IDS.contains(&name)) =>
        {
            FaultKind::TakenId
        }
        DatabaseError(DatabaseErrorKind::UniqueViolation, _) => FaultKind::Duplicate,
        DatabaseError(DatabaseErrorKind::ReadOnlyTransaction, _) => FaultKind::ReadOnly,
        DatabaseError(
            DatabaseErrorKind::NotNullViolation
            | DatabaseErrorKind::CheckViolation
            | DatabaseErrorKind::ForeignKeyViolation
            | DatabaseErrorKind::ExclusionViolation,
            _,
        ) => FaultKind::Row,
        DatabaseError(DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand, _)
        | BrokenTransactionManager => FaultKind::Lost,
        DatabaseError(DatabaseErrorKind::Unknown, information) => by_text(information.message()),
        DeserializationError(_) => FaultKind::Undecodable,
        _ => FaultKind::Refused,
    };
    Fault::new(kind, explained(error.to_string()))
}

/// A driver's message, with its likely reason where a prepared statement of PostgreSQL is missing or there
/// already: the names are the driver's, in any language.
pub(super) fn explained(message: String) -> String {
    if !message.contains("__diesel_stmt_") && !message.contains("unnamed prepared statement") {
        return message;
    }
    format!(
        "{message} (is this a pooler that shares its sessions between clients? firetime needs session mode)"
    )
}

fn by_text(message: &str) -> FaultKind {
    const CONFLICT: [&str; 2] = ["could not serialize access", "record has changed since last read"];
    const BUSY: [&str; 9] = [
        "database is locked",
        "database table is locked",
        "database schema is locked",
        // SQLite lost the race for its WAL too often.
        "locking protocol",
        "deadlock",
        "lock timeout",
        "lock wait timeout",
        "statement timeout",
        // MariaDB waited too long for the lock of a table's counter.
        "failed to read auto-increment value",
    ];
    const LOST: [&str; 8] = [
        "server has gone away",
        "lost connection",
        "server closed the connection",
        "no connection to the server",
        "could not receive data",
        "could not send data",
        "commands out of sync",
        "connection was killed",
    ];
    const ROW: [&str; 7] = [
        "out of range",
        "value too long",
        "data too long",
        "incorrect string value",
        "invalid byte sequence",
        "no equivalent in encoding",
        "datatype mismatch",
    ];
    // A commit of Galera's that failed without a verdict: an autocommitted statement may have been made.
    const UNKNOWN: [&str; 2] = ["during commit", "provider status: not connected"];
    const NOT_READY: [&str; 1] = ["wsrep has not yet prepared node"];
    let message = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if says(&LOST) {
        FaultKind::Lost
    } else if says(&UNKNOWN) {
        FaultKind::Unknown
    } else if says(&NOT_READY) {
        FaultKind::NotReady
    } else if says(&CONFLICT) {
        FaultKind::Conflict
    } else if says(&BUSY) {
        FaultKind::Busy
    } else if says(&ROW) {
        FaultKind::Row
    } else {
        FaultKind::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member that loses its cluster in a commit cannot tell what the others made of it.
    #[test]
    fn a_commit_without_a_verdict_is_unknown() {
        for message in [
            "Got error 6 \"No such device or address\" during COMMIT",
            "Error while appending streaming replication fragment(provider status: Not connected to Primary Component)",
        ] {
            assert_eq!(by_text(message), FaultKind::Unknown, "{message}");
        }
        for message in ["Deadlock found when trying to get lock", "locking protocol"] {
            assert_eq!(by_text(message), FaultKind::Busy, "{message}");
        }
    }

    #[test]
    fn a_refusal_that_may_pass_is_not_taken_for_the_rows_fault() {
        let passing = [
            "canceling statement due to user request",
            "cannot execute UPDATE in a read-only transaction",
            "Query execution was interrupted",
            "The MariaDB server is running with the --read-only option so it cannot execute this statement",
            "could not extend file: No space left on device",
            "database or disk is full",
            "attempt to write a readonly database",
            "permission denied for table qrtz_run",
        ];
        for message in passing {
            assert_eq!(by_text(message), FaultKind::Refused, "{message}");
        }
        let unavailable = "WSREP has not yet prepared node for application use";
        assert_eq!(by_text(unavailable), FaultKind::NotReady);
        for message in ["Out of range value for column 'x'", "value too long for type character varying(20)"]
        {
            assert_eq!(by_text(message), FaultKind::Row, "{message}");
        }
    }
}
