//! One schedule, or one execution, whole.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::{ExecutionView, NodeView, ScheduleView};
use crate::trigger::Trigger;

/// One schedule whole: what was asked of it, what comes next, and what became of it. As JSON, instants are
/// epoch milliseconds, and spans are milliseconds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ScheduleDetails {
    /// What a listing shows of it.
    #[serde(flatten)]
    pub schedule: ScheduleView,
    /// What its handler is given: JSON, as it is stored.
    pub payload: String,
    /// Its trigger; none if its columns mean none.
    #[serde(skip)]
    pub rule: Option<Trigger>,
    /// It fires at or after this.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub starts: Option<DateTime<Utc>>,
    /// It fires at or before this.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub ends: Option<DateTime<Utc>>,
    /// What is due at one instant starts in the order of this, highest first.
    pub priority: i64,
    /// What becomes of missed occurrences: `FIRE_ONCE`, `DO_NOTHING` or `FIRE_ALL`.
    pub misfire: String,
    /// From how late on an occurrence counts as missed, milliseconds.
    pub misfire_threshold: i64,
    /// How long its handler may take, milliseconds; none: as its job says.
    pub time_limit: Option<i64>,
    /// What becomes of an occurrence that is due while another execution has not ended: `SKIP`, `QUEUE 3`
    /// (three may wait), `REPLACE` or `ALLOW`.
    pub overlap: String,
    /// After how many occurrences in a row that failed for good or killed their nodes it pauses itself, or
    /// else after two in a row that killed their nodes; 0: never; none: only after those two, without a
    /// failure between them.
    pub pause_after: Option<i64>,
    /// Its next fire times, five at most; none unless it is active.
    #[serde(serialize_with = "millis")]
    pub next_five: Vec<DateTime<Utc>>,
    /// How many occurrences the ledger holds, by the states of their attempts.
    pub counts: BTreeMap<String, i64>,
    /// Its newest executions, five at most.
    pub last: Vec<ExecutionView>,
}

/// One execution whole: the attempts at its occurrence, and where they ran. As JSON, instants are epoch
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecutionDetails {
    /// The attempt that was asked for.
    #[serde(flatten)]
    pub execution: ExecutionView,
    /// A payload of its own, as JSON; none if it is given its schedule's.
    pub payload: Option<String>,
    /// All attempts at its occurrence, the first first.
    pub attempts: Vec<ExecutionView>,
    /// The nodes that ran them, as far as their rows are still there.
    pub nodes: Vec<NodeView>,
}

impl ExecutionDetails {
    /// The last attempt. Its state is that of the whole execution: it is `PENDING` while a retry waits.
    #[must_use]
    pub fn last(&self) -> &ExecutionView {
        self.attempts.last().unwrap_or(&self.execution)
    }
}

fn millis<S: serde::Serializer>(instants: &[DateTime<Utc>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(instants.iter().map(DateTime::timestamp_millis))
}
