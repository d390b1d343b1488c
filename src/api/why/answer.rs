//! The answer, for people and programs.

use serde::Serialize;

use super::because::Because;
use super::late::Late;

/// What became of an occurrence or an execution, or what will.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fate {
    /// It ran, and its handler returned `Ok`.
    Succeeded,
    /// A node has claimed it, and its handler runs or is about to.
    Running,
    /// Its last attempt failed, and none follows.
    Failed,
    /// Its node died while it ran, and nobody tries it again.
    Abandoned,
    /// Its time limit passed, and no attempt follows.
    TimedOut,
    /// Somebody cancelled it, or it went with its schedule.
    Cancelled,
    /// It was not run, on purpose.
    Skipped,
    /// It was due and not claimed as its schedule's trigger was changed, or its schedule removed.
    Withdrawn,
    /// It is due, and no node has claimed it yet.
    Waiting,
    /// It is not due yet.
    Planned,
    /// It has not run, and will be skipped as things stand: its pause lasts longer, or it was missed.
    WillBeSkipped,
    /// The schedule's trigger has no fire time there, or the schedule does not fire any more.
    NotDue,
    /// Neither the ledger nor the audit tells.
    Unknown,
}

/// Something that an answer rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Evidence {
    /// What it is: `attempt 1`, `paused`, `trigger`.
    pub what: String,
    /// The fact, in words.
    pub known: String,
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
    /// That the last attempt began a second late or more, and what it waited for.
    pub late: Option<Late>,
    /// The answer in one sentence, for people.
    pub sentence: String,
    /// The attempts at it, the first first: ids for [`Client::execution`]. Empty if the ledger has none.
    ///
    /// [`Client::execution`]: crate::Client::execution
    pub executions: Vec<i64>,
    /// What the sentence rests on.
    pub evidence: Vec<Evidence>,
}
