//! Executions whose ends somebody waits for, as far as this node has heard: it tells when it has stored one.

use std::collections::{BTreeSet, HashMap};

use crate::domain::{Boot, ExecutionId, Millis};

/// Who waits says so again before this is over.
const KEPT: Millis = 90_000;
/// The most executions that are kept: of more the oldest are forgotten, and whoever waits for them asks.
const MOST: usize = 10_000;

#[derive(Default)]
pub(super) struct Awaited {
    until: HashMap<ExecutionId, Boot>,
    by_time: BTreeSet<(Boot, ExecutionId)>,
    /// Those whose ends are stored and to be told of.
    ended: Vec<ExecutionId>,
}

impl Awaited {
    /// Somebody waits for these.
    pub(super) fn add(&mut self, executions: Vec<ExecutionId>, now: Boot) {
        for execution in executions {
            self.remove(execution);
            self.until.insert(execution, now + KEPT);
            self.by_time.insert((now + KEPT, execution));
        }
        while let Some((until, oldest)) = self.by_time.first().copied()
            && (until <= now || self.until.len() > MOST)
        {
            self.remove(oldest);
        }
    }

    /// The end of an execution, or of a run of it, is stored.
    pub(super) fn end(&mut self, execution: ExecutionId) {
        if !self.until.is_empty() && self.remove(execution) {
            self.ended.push(execution);
        }
    }

    /// Those that are to be told of.
    pub(super) fn take_ended(&mut self) -> Option<Vec<ExecutionId>> {
        (!self.ended.is_empty()).then(|| std::mem::take(&mut self.ended))
    }

    fn remove(&mut self, execution: ExecutionId) -> bool {
        let until = self.until.remove(&execution);
        until.is_some_and(|until| self.by_time.remove(&(until, execution)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(range: std::ops::Range<i64>) -> Vec<ExecutionId> {
        range.map(ExecutionId).collect()
    }

    #[test]
    fn only_the_ends_of_awaited_executions_are_told_and_once() {
        let mut awaited = Awaited::default();
        awaited.add(ids(1..3), Boot::at(0));
        (0..5).chain(1..2).for_each(|id| awaited.end(ExecutionId(id)));
        assert_eq!(awaited.take_ended(), Some(ids(1..3)));
        assert_eq!(awaited.take_ended(), None);
    }

    #[test]
    fn what_nobody_asks_for_again_is_forgotten() {
        let mut awaited = Awaited::default();
        awaited.add(ids(1..3), Boot::at(0));
        awaited.add(ids(2..4), Boot::at(KEPT - 1));
        awaited.add(Vec::new(), Boot::at(KEPT));
        (1..4).for_each(|id| awaited.end(ExecutionId(id)));
        assert_eq!(awaited.take_ended(), Some(ids(2..4)));
    }

    #[test]
    fn of_too_many_the_newest_are_kept() {
        let mut awaited = Awaited::default();
        awaited.add(ids(0..10), Boot::at(0));
        let most = i64::try_from(MOST).unwrap();
        awaited.add(ids(100..100 + most), Boot::at(1));
        assert_eq!((awaited.until.len(), awaited.by_time.len()), (MOST, MOST));
        awaited.end(ExecutionId(5));
        assert_eq!(awaited.take_ended(), None);
    }
}
