//! The executions of this process that somebody asked to cancel.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::ExecutionId;

/// Told by the heartbeat, asked by handlers.
#[derive(Debug, Default)]
pub(crate) struct Cancels {
    /// Whether there are any: handlers may ask in a loop.
    any: AtomicBool,
    asked: Mutex<BTreeSet<ExecutionId>>,
}

impl Cancels {
    /// These are asked to cancel now, of all that this node owns; those that were not before.
    pub(crate) fn ask(&self, all: BTreeSet<ExecutionId>) -> Vec<ExecutionId> {
        let mut asked = self.lock();
        let new = all.difference(&asked).copied().collect();
        self.any.store(!all.is_empty(), Ordering::Relaxed);
        *asked = all;
        new
    }

    pub(crate) fn contains(&self, execution: ExecutionId) -> bool {
        self.any.load(Ordering::Relaxed) && self.lock().contains(&execution)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ExecutionId>> {
        // A set of plain values is whole whatever panicked beside it.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_and_forgotten_with_its_end() {
        let cancels = Cancels::default();
        let ids = |ids: &[i64]| ids.iter().copied().map(ExecutionId).collect::<BTreeSet<_>>();
        assert!(!cancels.contains(ExecutionId(1)));
        assert_eq!(cancels.ask(ids(&[1, 2])), [ExecutionId(1), ExecutionId(2)]);
        assert_eq!(cancels.ask(ids(&[2, 3])), [ExecutionId(3)]);
        assert_eq!([1, 2, 3].map(|id| cancels.contains(ExecutionId(id))), [false, true, true]);
        assert_eq!(cancels.ask(ids(&[])), []);
        assert!(!cancels.contains(ExecutionId(3)));
    }
}
