//! What a handler has come to with a transaction of its own, and such a transaction.

use crate::domain::{Millis, ScheduleId};
use crate::sim::jobs::Completes;
use crate::store::{Claimed, ExecutionChange};

/// How far a handler has come with its transaction.
pub(super) struct Own {
    pub how: Completes,
    pub step: OwnStep,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnStep {
    /// It has not begun.
    Ahead,
    /// It has begun, and the handler has heard nothing good of it.
    Begun,
    /// It has ended well, as far as the handler knows.
    Done,
}

impl Own {
    pub(super) fn new(how: Completes) -> Self {
        Self { how, step: OwnStep::Ahead }
    }

    /// Whether the handler waits for an answer.
    pub(super) fn is_waiting(&self) -> bool {
        self.step != OwnStep::Ahead
    }
}

/// A transaction in which a handler has completed. It holds the rows until it ends, or reaches the database
/// then as a whole.
pub(super) struct Transaction {
    pub complete: ExecutionChange,
    pub fence: i64,
    pub locked: Vec<ScheduleId>,
    pub ends: Millis,
    pub rolls_back: bool,
    /// Its handler hears how it ends.
    pub is_heard: bool,
}

impl Transaction {
    pub(super) fn is_of(&self, claimed: &Claimed) -> bool {
        (self.complete.execution, self.fence) == (claimed.execution(), claimed.fence())
    }
}
