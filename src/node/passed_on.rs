//! The executions whose payload has no decoder on this node: they are left to nodes that have one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::{Boot, ExecutionId, Millis, Token};

/// An execution is left to other nodes for so long; then it is tried here once more.
const LEFT: Millis = 3_600_000;
/// The most executions that are remembered: those behind them are tried again at each poll.
const MOST: usize = 100_000;

/// Since when an execution is left to others, and the token it waits under until one has claimed it.
type Left = (Boot, Token);

/// The executions that this node has passed on.
#[derive(Debug, Default)]
pub(crate) struct PassedOn(Mutex<HashMap<ExecutionId, Left>>);

impl PassedOn {
    fn left(&self) -> MutexGuard<'_, HashMap<ExecutionId, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the execution, which waits under this token, is left to other nodes. Under another token than
    /// it was passed on with, another node has had it since: it is tried here as if for the first time.
    pub(crate) fn leaves(&self, execution: ExecutionId, token: Token, boot: Boot) -> bool {
        let mut left = self.left();
        match left.get(&execution) {
            Some(&(since, own)) if own == token => boot - since < LEFT,
            Some(_) => left.remove(&execution).is_some_and(|_| false),
            None => false,
        }
    }

    /// The payload of the execution could not be decoded. The token under which it is passed on; none once no
    /// other node has claimed it in the time that it was left to them.
    pub(crate) fn pass_on(&self, execution: ExecutionId, boot: Boot) -> Option<Token> {
        let mut left = self.left();
        if left.remove(&execution).is_some() {
            return None;
        }
        if left.len() >= MOST {
            left.retain(|_, left| boot - left.0 < LEFT);
        }
        let token = Token::fresh();
        if left.len() < MOST {
            left.insert(execution, (boot, token));
        }
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_is_left_alone_for_an_hour_and_given_up_when_that_was_in_vain() {
        let passed_on = PassedOn::default();
        let [id, other] = [1, 2].map(ExecutionId);
        assert!(!passed_on.leaves(id, Token::fresh(), Boot::at(5)));
        let token = passed_on.pass_on(id, Boot::at(5)).unwrap();
        assert!(passed_on.leaves(id, token, Boot::at(4 + LEFT)));
        assert!(!passed_on.leaves(other, token, Boot::at(5)));
        assert!(!passed_on.leaves(id, token, Boot::at(5 + LEFT)));
        assert_eq!(passed_on.pass_on(id, Boot::at(5 + LEFT)), None);
        assert!(passed_on.pass_on(id, Boot::at(5 + LEFT)).is_some(), "somebody retries it by hand");
    }

    #[test]
    fn an_execution_that_another_node_has_had_is_passed_on_anew() {
        let (passed_on, id) = (PassedOn::default(), ExecutionId(1));
        let token = passed_on.pass_on(id, Boot::at(5)).unwrap();
        assert!(!passed_on.leaves(id, Token::fresh(), Boot::at(6)), "it has snoozed elsewhere");
        let again = passed_on.pass_on(id, Boot::at(7));
        assert!(again.is_some_and(|again| again != token && passed_on.leaves(id, again, Boot::at(8))));
    }

    #[test]
    fn memory_is_bounded() {
        let passed_on = PassedOn::default();
        let all = (0..=MOST).map(|id| ExecutionId(i64::try_from(id).unwrap()));
        let tokens: Vec<_> = all.map(|id| (id, passed_on.pass_on(id, Boot::at(0)).unwrap())).collect();
        let left = tokens.iter().filter(|(id, token)| passed_on.leaves(*id, *token, Boot::at(1)));
        assert_eq!(left.count(), MOST);
        assert!(passed_on.pass_on(ExecutionId(-1), Boot::at(LEFT)).is_some() && passed_on.left().len() == 1);
    }
}
