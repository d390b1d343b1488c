//! The audit: who changed what through a client, and why. A row is written in the transaction of its change.

use crate::domain::text::shortened;
use crate::domain::{FieldSet, Timestamp};
use crate::store::news::News;

/// The most characters kept of what was, and of what became of it.
const LONGEST: usize = 1_000;

/// The verb under which a cancel is recorded.
pub(crate) const CANCEL: &str = "cancel";
/// Whether a schedule is defined by a change that is recorded under this verb: for itself, by its owner's
/// code, or by hand.
pub(crate) fn defines(verb: &str) -> bool {
    DEFINITIONS.contains(&verb)
}

/// The verbs of definitions.
const DEFINITIONS: [&str; 3] = [ENSURE, SYNC, EDIT];
pub(crate) const ENSURE: &str = "ensure";
pub(crate) const SYNC: &str = "sync";
pub(crate) const EDIT: &str = "edit";

/// The recorded new state of a running execution that was cancelled: its node has yet to hear of it.
pub(crate) const ASKED_TO_CANCEL: &str = "asked to cancel";

/// The verb under which it is recorded that an occurrence has not succeeded in time, and that of its end.
/// Nodes need not hear of them.
pub(crate) const UNMET: &str = "unmet";
pub(crate) const MET: &str = "met";

/// Who orders a change, and why: for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attribution {
    pub actor: String,
    pub reason: String,
}

/// What a change of a client's is recorded as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditEntry {
    pub application: String,
    pub verb: &'static str,
    /// What kind of thing was changed, and which.
    pub target_type: &'static str,
    pub target: String,
    pub was: String,
    pub became: String,
    /// Which fields of a schedule it changed, if it edited one.
    pub fields: FieldSet,
    pub by: Attribution,
}

impl AuditEntry {
    /// A change of a schedule from one state or setting to another.
    pub(crate) fn of_schedule(
        verb: &'static str,
        (application, name): (&str, &str),
        (was, became): (&str, &str),
        by: &Attribution,
    ) -> Self {
        Self {
            application: application.to_owned(),
            verb,
            target_type: "schedule",
            target: name.to_owned(),
            was: shortened(was, LONGEST),
            became: shortened(became, LONGEST),
            fields: FieldSet::default(),
            by: by.clone(),
        }
    }
}

/// What nodes have to hear of a change that is recorded so: nothing of an execution that was cancelled before
/// it began.
pub(crate) fn news_of(verb: &str, became: &str) -> News {
    let work = ![CANCEL, UNMET, MET].contains(&verb);
    let cancel = verb == CANCEL && became == ASKED_TO_CANCEL;
    News { work, cancel, ..News::default() }
}

/// Which rows of the audit; newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditQuery {
    pub application: String,
    pub target: Option<String>,
    pub actor: Option<String>,
    pub verb: Option<String>,
    pub since: Option<Timestamp>,
    /// Only those behind the row that was made then, of this id.
    pub after: Option<(Timestamp, i64)>,
    pub limit: usize,
}

/// A row of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditRow {
    pub id: i64,
    pub application: String,
    pub made: Timestamp,
    pub actor: String,
    pub verb: String,
    pub target_type: String,
    pub target: String,
    pub was: String,
    pub became: String,
    pub fields: FieldSet,
    pub reason: String,
}
