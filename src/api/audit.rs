//! The audit as people see it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::place::AuditPlace;
use crate::api::views::view;
use crate::domain::{ScheduleField, Timestamp};
use crate::store::audit::AuditRow;

/// Which changes to show. Default: all, the newest 1,000.
///
/// End a literal with `..Default::default()`: releases may add fields.
#[derive(Clone, Debug)]
pub struct AuditFilter {
    /// Only of the schedule, job or node of this name.
    pub target: Option<String>,
    /// Only by this actor.
    pub actor: Option<String>,
    /// Only of this [verb](AuditView::verb).
    pub verb: Option<String>,
    /// Only at or after this, by the database's clock.
    pub since: Option<DateTime<Utc>>,
    /// Only what follows this in the list: [`AuditView::place`] of the last that was shown.
    pub after: Option<AuditPlace>,
    /// At most so many.
    pub limit: usize,
}

impl Default for AuditFilter {
    fn default() -> Self {
        Self { target: None, actor: None, verb: None, since: None, after: None, limit: 1_000 }
    }
}

view! {
    /// A change that somebody made through a client or the program. It is written in the transaction of the
    /// change: a change that is missing here was not made. As JSON, instants are epoch milliseconds.
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
        /// The verb: `ensure`, `sync`, `edit`, `pause`, `resume`, `drain`, `trigger`, `rerun`, `backfill`,
        /// `skip`, `cancel`, `retry`, `remove`; and `unmet` and `met`, by which firetime notes that a
        /// schedule has not succeeded in the time in which it was
        /// [expected](crate::Schedule::expected_by), and that it has again.
        verb: String = row.verb,
        /// The kind of its target: `schedule`, `execution`, `job`, `node`, `application`.
        target_type: String = row.target_type,
        /// The name of its target; of an execution, `ID of SCHEDULE`.
        target: String = row.target,
        /// The state or value before the change, up to 1,000 characters.
        was: String = row.was,
        /// The state or value after it, up to 1,000 characters.
        became: String = row.became,
        /// Which fields of a schedule an `ensure`, a `sync` or an `edit` changed; none of one that it made.
        fields: Vec<ScheduleField> = row.fields.iter().collect(),
        /// Why, as far as it was said.
        reason: String = row.reason,
    }
    keeps stored_made: Timestamp = row.made;
}

impl AuditView {
    /// Where it stands in the list: the next page begins behind it.
    #[must_use]
    pub fn place(&self) -> AuditPlace {
        AuditPlace { at: self.stored_made, id: self.id }
    }
}
