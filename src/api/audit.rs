//! The audit as people see it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::store::audit::AuditRow;

/// Which changes to show. Default: all, the newest 1,000.
#[derive(Clone, Debug)]
pub struct AuditFilter {
    /// Only of the schedule, job or node of this name.
    pub target: Option<String>,
    /// Only by this actor.
    pub actor: Option<String>,
    /// Only of this verb: `ensure`, `pause`, `resume`, `trigger`, `skip`, `cancel`, `retry`,
    /// `remove`.
    pub verb: Option<String>,
    /// Only at or after this, by the database's clock.
    pub since: Option<DateTime<Utc>>,
    /// At most so many.
    pub limit: usize,
}

impl Default for AuditFilter {
    fn default() -> Self {
        Self { target: None, actor: None, verb: None, since: None, limit: 1_000 }
    }
}

/// A change that somebody made through a client or the program. It was written in the transaction of the
/// change: what is not here was not made. As JSON, instants are epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditView {
    /// Its row id.
    pub id: i64,
    /// The application it belongs to.
    pub application: String,
    /// When it was made, by the database's clock.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub made: Option<DateTime<Utc>>,
    /// Who made it: the name that the client or the request gave, else `host/process id`.
    pub actor: String,
    /// What was done: `ensure`, `pause`, `resume`, `drain`, `trigger`, `skip`, `cancel`, `retry`, `remove`.
    pub verb: String,
    /// What kind of thing it was done to: `schedule`, `execution`, `job`, `node`, `application`.
    pub target_type: String,
    /// The name of that thing; of an execution, `ID of SCHEDULE`.
    pub target: String,
    /// What was there before, up to 1,000 characters.
    pub was: String,
    /// What it became, up to 1,000 characters.
    pub became: String,
    /// Why, as far as it was said.
    pub reason: String,
}

impl From<AuditRow> for AuditView {
    fn from(row: AuditRow) -> Self {
        let AuditRow { id, application, made, actor, verb, target_type, target, was, became, reason } = row;
        let made = made.utc();
        Self { id, application, made, actor, verb, target_type, target, was, became, reason }
    }
}
