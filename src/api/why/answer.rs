//! The answer, for people and programs.

use crate::domain::ExecutionId;
use chrono::{DateTime, Utc};
use serde::Serialize;

use super::because::Because;
use super::expected::Expected;
use super::fate::Fate;
use super::late::Late;

/// Something that an answer rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Evidence {
    /// What it is: `attempt 1`, `paused`, `trigger`.
    pub what: String,
    /// The fact, in words.
    pub known: String,
    /// Whether it is a change that tells a schedule's payload.
    #[serde(skip)]
    pub(crate) tells_payload: bool,
}

/// Why an occurrence, or an execution, ran or did not. Made by [`Client::why`] and [`Client::why_at`].
///
/// It is told from the ledger, the audit and the rows as they are now. As far as retention has removed them,
/// or nobody wrote them, the answer says that it does not know.
///
/// [`Client::why`]: crate::Client::why
/// [`Client::why_at`]: crate::Client::why_at
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// What became of it, or will.
    pub fate: Fate,
    /// Why, in one or two words of the ledger's or of what holds it: `paused`, `overlap`, `misfire`,
    /// `no node`, `full`, `retry`. Empty where there is nothing to explain.
    pub reason: String,
    /// The same with what it is known from: who, until when, which execution, which bound.
    pub because: Because,
    /// The fire time that was asked for, or that of the execution. As JSON epoch milliseconds.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub at: Option<DateTime<Utc>>,
    /// That the last attempt began a second late or more, and what it waited for.
    pub late: Option<Late>,
    /// By when it is to have succeeded, and whether it has; none if nobody waits for it.
    pub expected: Option<Expected>,
    /// The answer in one sentence, for people.
    pub sentence: String,
    /// The attempts at it, the first first: ids for [`Client::execution`]. Empty if the ledger has none.
    ///
    /// [`Client::execution`]: crate::Client::execution
    pub executions: Vec<ExecutionId>,
    /// What the sentence rests on.
    pub evidence: Vec<Evidence>,
}
