//! The executions whose payload has no decoder on this node: they are left to nodes that have one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::{Boot, ExecutionId, Millis};

/// An execution is left to other nodes for so long; then it is tried here once more.
const LEFT: Millis = 3_600_000;
/// The most executions that are remembered: those behind them are tried again at each poll.
const MOST: usize = 100_000;

/// The executions that this node has passed on, and since when it leaves them alone.
#[derive(Debug, Default)]
pub(crate) struct PassedOn(Mutex<HashMap<ExecutionId, Boot>>);

impl PassedOn {
    fn since(&self) -> MutexGuard<'_, HashMap<ExecutionId, Boot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the execution is left to other nodes.
    pub(crate) fn contains(&self, execution: ExecutionId, boot: Boot) -> bool {
        self.since().get(&execution).is_some_and(|since| boot - *since < LEFT)
    }

    /// The payload of the execution could not be decoded. Whether it is passed on; false once no other node
    /// has run it in the time that it was left to them.
    pub(crate) fn pass_on(&self, execution: ExecutionId, boot: Boot) -> bool {
        let mut since = self.since();
        if since.remove(&execution).is_some() {
            return false;
        }
        if since.len() >= MOST {
            since.retain(|_, since| boot - *since < LEFT);
        }
        if since.len() < MOST {
            since.insert(execution, boot);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_left_alone_for_an_hour_and_given_up_when_that_was_in_vain() {
        let passed_on = PassedOn::default();
        let [id, other] = [1, 2].map(ExecutionId);
        assert!(!passed_on.contains(id, Boot::at(5)) && passed_on.pass_on(id, Boot::at(5)));
        assert!(passed_on.contains(id, Boot::at(4 + LEFT)) && !passed_on.contains(other, Boot::at(5)));
        assert!(!passed_on.contains(id, Boot::at(5 + LEFT)) && !passed_on.pass_on(id, Boot::at(5 + LEFT)));
        assert!(passed_on.pass_on(id, Boot::at(5 + LEFT)), "somebody retries it by hand");
    }

    #[test]
    fn memory_is_bounded() {
        let passed_on = PassedOn::default();
        let all = (0..=MOST).map(|id| ExecutionId(i64::try_from(id).unwrap()));
        assert!(all.clone().all(|id| passed_on.pass_on(id, Boot::at(0))));
        assert_eq!(all.filter(|id| passed_on.contains(*id, Boot::at(1))).count(), MOST);
        assert!(passed_on.pass_on(ExecutionId(-1), Boot::at(LEFT)) && passed_on.since().len() == 1);
    }
}
