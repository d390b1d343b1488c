//! The faults of PostgreSQL's sessions, by the server's codes where diesel tells them.

#[cfg(feature = "tokio")]
use crate::domain::Source;
use crate::store::sql::session::fault::{Fault, FaultKind, Recognition};

/// Diesel reads the SQLSTATEs of broken constraints, of transactions that cannot be serialized or are
/// read-only, and of lost connections. The texts of the server, unless the role may set `lc_messages`, and of
/// libpq, which has no codes, may be in any language. Where these say nothing to us, the time that a lock was
/// waited for, and a question to the connection, must do.
const ERRORS: Recognition = Recognition {
    serialization: FaultKind::Conflict,
    #[cfg(feature = "tokio")]
    codes: &[
        (FaultKind::Duplicate, &["23505"]),
        (FaultKind::Row, &["23502", "23503", "23514", "23P01", "22001", "22003", "22021", "22P05"]),
        (FaultKind::Conflict, &["40001"]),
        (FaultKind::Deadlock, &["40P01"]),
        (FaultKind::Busy, &["55P03"]),
        (FaultKind::ReadOnly, &["25006"]),
        (FaultKind::Ended, &["25P01"]),
        (FaultKind::Lost, &["08000", "08001", "08003", "08004", "08006", "57P01", "57P02", "57P03"]),
    ],
    texts: &[
        (
            FaultKind::Lost,
            &[
                "server closed the connection",
                "no connection to the server",
                "could not receive data",
                "could not send data",
            ],
        ),
        // 54000
        (FaultKind::Unheard, &["too many notifications in the notify queue"]),
        // 40P01
        (FaultKind::Deadlock, &["deadlock"]),
        // 55P03, 57014
        (FaultKind::Busy, &["lock timeout", "statement timeout"]),
        // 22003, 22001, 22021, 22P05
        (
            FaultKind::Row,
            &["out of range", "value too long", "invalid byte sequence", "no equivalent in encoding"],
        ),
    ],
};

/// The fault of an error that another driver tells of.
#[cfg(feature = "tokio")]
pub(crate) fn coded(code: &str, constraint: Option<&str>, cause: Source) -> Fault {
    explained(ERRORS.coded(code, constraint, cause))
}

pub(crate) fn fault(error: diesel::result::Error) -> Fault {
    explained(ERRORS.fault(error))
}

/// A fault with its likely reason where a prepared statement is missing or there already: the names are the
/// driver's, in any language.
pub(super) fn explained(fault: Fault) -> Fault {
    let said = fault.to_string();
    if !said.contains("__diesel_stmt_") && !said.contains("unnamed prepared statement") {
        return fault;
    }
    fault.with("a pooler may share its sessions between clients, and firetime needs session mode")
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "tokio")]
    use std::sync::Arc;

    use super::*;

    #[test]
    fn hidden_codes_are_told_by_their_texts() {
        for (text, kind) in [
            ("server closed the connection unexpectedly", FaultKind::Lost),
            ("deadlock detected", FaultKind::Deadlock),
            ("canceling statement due to lock timeout", FaultKind::Busy),
            ("canceling statement due to statement timeout", FaultKind::Busy),
            ("value too long for type character varying(20)", FaultKind::Row),
            ("canceling statement due to user request", FaultKind::Refused),
            ("cannot execute UPDATE in a read-only transaction", FaultKind::Refused),
            ("could not extend file: No space left on device", FaultKind::Refused),
            ("permission denied for table qrtz_run", FaultKind::Refused),
        ] {
            assert_eq!(ERRORS.kind_of(text), kind, "{text}");
        }
    }

    #[test]
    fn a_pooler_is_suspected_where_a_prepared_statement_is_missing() {
        let fault = |text: &str| explained(Fault::caused(FaultKind::Refused, text));
        let suspected = fault("prepared statement \"__diesel_stmt_3\" does not exist");
        assert!(suspected.message.contains("session mode"), "{suspected}");
        assert_eq!(fault("permission denied").message, "");
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn other_drivers_tell_their_codes() {
        let kind =
            |code: &str, constraint| coded(code, constraint, Arc::from(Box::from("in any words"))).kind;
        assert_eq!(kind("40001", None), FaultKind::Conflict);
        assert_eq!(kind("55P03", None), FaultKind::Busy);
        assert_eq!(kind("23505", Some("qrtz_run_unique")), FaultKind::Duplicate);
        assert_eq!(kind("23505", Some("qrtz_run_pkey")), FaultKind::TakenId);
        assert_eq!(kind("42501", None), FaultKind::Refused);
    }
}
