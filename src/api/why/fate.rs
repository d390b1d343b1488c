//! What an answer says in one word.

use serde::Serialize;

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
