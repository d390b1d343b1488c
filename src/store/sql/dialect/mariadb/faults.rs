//! The faults of MariaDB's sessions, by the server's numbers where diesel tells them.

#[cfg(feature = "tokio")]
use crate::domain::Source;
use crate::store::sql::session::fault::{Fault, FaultKind, Recognition};

/// Of a prepared statement diesel reads the numbers of broken constraints, deadlocks and read-only
/// transactions, of a text with several statements none. The texts are in English in sessions of ours, and
/// always those of the client library.
const ERRORS: Recognition = Recognition {
    serialization: FaultKind::Deadlock,
    #[cfg(feature = "tokio")]
    codes: &[
        (FaultKind::Duplicate, &["1062", "1586", "1859"]),
        (FaultKind::Row, &["1048", "1153", "1264", "1364", "1366", "1406", "1451", "1452", "4025"]),
        (FaultKind::Conflict, &["1020"]),
        (FaultKind::Deadlock, &["1213"]),
        (FaultKind::Busy, &["1205", "1467"]),
        (FaultKind::ReadOnly, &["1792"]),
        (FaultKind::Lost, &["1927", "2006", "2013", "2014"]),
    ],
    texts: &[
        // 2006, 2013, 2014, 1927
        (
            FaultKind::Lost,
            &["server has gone away", "lost connection", "commands out of sync", "connection was killed"],
        ),
        // A commit of Galera's that failed without a verdict: an autocommitted statement may have been made.
        (FaultKind::Unknown, &["during commit", "provider status: not connected"]),
        (FaultKind::NotReady, &["wsrep has not yet prepared node"]),
        // 1020
        (FaultKind::Conflict, &["record has changed since last read"]),
        // 1213, of a text with several statements
        (FaultKind::Deadlock, &["deadlock"]),
        // 1205, 1467: it waited too long for a row, or for the lock of a table's counter.
        (FaultKind::Busy, &["lock wait timeout", "failed to read auto-increment value"]),
        // 1264, 1406, 1366, 1153
        (FaultKind::Row, &["out of range", "data too long", "incorrect string value", "max_allowed_packet"]),
    ],
};

/// The fault of an error that another driver tells of.
#[cfg(feature = "tokio")]
pub(crate) fn coded(code: &str, constraint: Option<&str>, cause: Source) -> Fault {
    ERRORS.coded(code, constraint, cause)
}

pub(crate) fn fault(error: diesel::result::Error) -> Fault {
    ERRORS.fault(error)
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "tokio")]
    use std::sync::Arc;

    use super::*;

    /// A member that loses its cluster in a commit cannot tell what the others made of it.
    #[test]
    fn a_commit_without_a_verdict_is_unknown() {
        for message in [
            "Got error 6 \"No such device or address\" during COMMIT",
            "Error while appending streaming replication fragment(provider status: Not connected to Primary \
             Component)",
        ] {
            assert_eq!(ERRORS.kind_of(message), FaultKind::Unknown, "{message}");
        }
    }

    #[test]
    fn a_deadlock_is_known_by_its_number() {
        use diesel::result::{DatabaseErrorKind::SerializationFailure, Error::DatabaseError};
        let error = DatabaseError(SerializationFailure, Box::new("Verklemmung".to_owned()));
        assert_eq!(fault(error).kind, FaultKind::Deadlock);
    }

    #[test]
    fn hidden_codes_are_told_by_their_texts() {
        for (text, kind) in [
            ("Lost connection to server during query", FaultKind::Lost),
            ("Lost connection to MySQL server during query", FaultKind::Lost),
            ("WSREP has not yet prepared node for application use", FaultKind::NotReady),
            ("Record has changed since last read in table 'QRTZ_RUN'", FaultKind::Conflict),
            ("Deadlock found when trying to get lock; try restarting transaction", FaultKind::Deadlock),
            ("Lock wait timeout exceeded; try restarting transaction", FaultKind::Busy),
            ("Out of range value for column 'x'", FaultKind::Row),
            ("Got a packet bigger than 'max_allowed_packet' bytes", FaultKind::Row),
            ("Query execution was interrupted", FaultKind::Refused),
            (
                "The MariaDB server is running with the --read-only option \
                 so it cannot execute this statement",
                FaultKind::Refused,
            ),
        ] {
            assert_eq!(ERRORS.kind_of(text), kind, "{text}");
        }
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn other_drivers_tell_their_numbers() {
        let kind = |number: &str| coded(number, None, Arc::from(Box::from("in any words"))).kind;
        let kinds = ["1062", "1213", "1205", "1020", "1792", "1142"].map(kind);
        use FaultKind::{Busy, Conflict, Deadlock, Duplicate, ReadOnly, Refused};
        assert_eq!(kinds, [Duplicate, Deadlock, Busy, Conflict, ReadOnly, Refused]);
    }
}
