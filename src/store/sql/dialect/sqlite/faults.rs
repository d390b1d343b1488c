//! The faults of SQLite's sessions, by its codes where diesel tells them.

#[cfg(feature = "tokio")]
use crate::domain::Source;
use crate::store::sql::session::fault::{Fault, FaultKind, Recognition};

/// Diesel reads the codes of broken constraints. The texts are constants of the library that is built in.
const ERRORS: Recognition = Recognition {
    serialization: FaultKind::Conflict,
    #[cfg(feature = "tokio")]
    codes: &[
        // SQLITE_CONSTRAINT_UNIQUE, _PRIMARYKEY
        (FaultKind::Duplicate, &["2067", "1555"]),
        // SQLITE_CONSTRAINT_FOREIGNKEY, _NOTNULL, _CHECK
        (FaultKind::Row, &["787", "1299", "275"]),
    ],
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

    #[cfg(feature = "tokio")]
    #[test]
    fn other_drivers_tell_their_codes_and_texts() {
        let kind = |code: &str, text: &str| coded(code, None, Arc::from(Box::from(text))).kind;
        assert_eq!(kind("2067", "UNIQUE constraint failed"), FaultKind::Duplicate);
        assert_eq!(kind("5", "(code: 5) database is locked"), FaultKind::Busy);
    }
}
