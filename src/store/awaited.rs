//! Executions whose ends somebody waits for.

use crate::domain::ExecutionId;

/// How the occurrence of an execution stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenOrEnded {
    /// This attempt at it has not ended, or goes on beyond its time limit: another may follow.
    Open(ExecutionId),
    /// All attempts at it have ended, and none follows.
    Ended,
}
