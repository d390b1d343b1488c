//! The faults of SQLite's sessions, by its codes where diesel tells them.

use crate::store::sql::session::fault::{Fault, FaultKind, Recognition};

/// Diesel reads the codes of broken constraints. The texts are constants of the library that is built in.
const ERRORS: Recognition = Recognition {
    serialization: FaultKind::Conflict,
    texts: &[
        (
            FaultKind::Busy,
            &[
                // SQLITE_BUSY, SQLITE_LOCKED
                "database is locked",
                "database table is locked",
                "database schema is locked",
                // SQLITE_PROTOCOL: it lost the race for its WAL too often.
                "locking protocol",
            ],
        ),
        // SQLITE_FULL
        (FaultKind::Full, &["database or disk is full"]),
        // SQLITE_MISMATCH
        (FaultKind::Row, &["datatype mismatch"]),
    ],
};

pub(crate) fn fault(error: diesel::result::Error) -> Fault {
    ERRORS.fault(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_codes_are_told_by_their_texts() {
        for text in ["database is locked", "database schema is locked: main", "locking protocol"] {
            assert_eq!(ERRORS.kind_of(text), FaultKind::Busy, "{text}");
        }
        assert_eq!(ERRORS.kind_of("datatype mismatch"), FaultKind::Row);
        assert_eq!(ERRORS.kind_of("database or disk is full"), FaultKind::Full);
        // After an I/O error the log may still hold the commit.
        for passing in ["disk I/O error", "attempt to write a readonly database"] {
            assert_eq!(ERRORS.kind_of(passing), FaultKind::Refused, "{passing}");
        }
    }
}
