//! When a handler stores checkpoints, and one that is on its way.

use crate::domain::Millis;
use crate::store::{Claimed, ExecutionChange};

/// When a handler stores its next checkpoint, and how long after that the one behind it.
pub(super) struct Saves {
    pub at: Millis,
    pub every: Millis,
}

/// A checkpoint on its way to the database.
pub(super) struct Saving {
    pub change: ExecutionChange,
    pub fence: i64,
    pub value: i64,
    pub arrives: Millis,
    /// Its handler hears what became of it.
    pub is_heard: bool,
}

impl Saving {
    pub(super) fn is_of(&self, claimed: &Claimed) -> bool {
        (self.change.execution, self.fence) == (claimed.execution(), claimed.fence())
    }
}
