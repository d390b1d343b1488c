//! The audit as people see it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::views::view;
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

view! {
    /// A change that somebody made through a client or the program. It was written in the transaction of the
    /// change: what is not here was not made. As JSON, instants are epoch milliseconds.
    AuditView of AuditRow as row {
        /// Its row id.
        id: i64 = row.id,
        /// The application it belongs to.
        application: String = row.application,
        /// When it was made, by the database's clock.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        made: Option<DateTime<Utc>> = row.made.utc(),
        /// Who made it: the name that the client or the request gave, else `host/process id`.
        actor: String = row.actor,
        /// What was done: `ensure`, `pause`, `resume`, `drain`, `trigger`, `skip`, `cancel`, `retry`,
        /// `remove`.
        verb: String = row.verb,
        /// What kind of thing it was done to: `schedule`, `execution`, `job`, `node`, `application`.
        target_type: String = row.target_type,
        /// The name of that thing; of an execution, `ID of SCHEDULE`.
        target: String = row.target,
        /// What was there before, up to 1,000 characters.
        was: String = row.was,
        /// What it became, up to 1,000 characters.
        became: String = row.became,
        /// Why, as far as it was said.
        reason: String = row.reason,
    }
}
