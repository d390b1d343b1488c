//! What handlers do to the world outside, as a test under faults counts it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::time::{HandlerThread, Told};
use crate::domain::ExecutionId;

/// Side effects, which are to happen once each: of [`under_faults`](super::under_faults).
#[derive(Clone, Debug, Default)]
pub struct Effects(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    /// By what happened: in which executions.
    happened: BTreeMap<String, Vec<ExecutionId>>,
    expected: BTreeSet<String>,
}

impl Effects {
    /// Notes within a handler that something has happened that others see: an order was charged, a mail sent.
    /// Call it where the effect is, behind whatever keeps it from happening twice. The node may die right
    /// after it, or stand still for minutes. Hold no lock that another handler wants: the test would wait for
    /// ever.
    ///
    /// # Panics
    /// Outside of a handler that a [`TestCluster`](super::TestCluster) runs.
    pub fn happened(&self, what: impl Display) {
        let is_handler = HandlerThread::tell(Told::Did(what.to_string()));
        assert!(is_handler, "Effects::happened is for handlers, on their own threads: {what}");
    }

    /// Expects something to have happened, once, by the end of the test. What is not expected may happen once
    /// or never.
    pub fn expect(&self, what: impl Display) {
        self.counted().expected.insert(what.to_string());
    }

    /// How often it has happened.
    #[must_use]
    pub fn times(&self, what: impl Display) -> usize {
        self.counted().happened.get(&what.to_string()).map_or(0, Vec::len)
    }

    pub(super) fn count(&self, what: String, within: ExecutionId) {
        self.counted().happened.entry(what).or_default().push(within);
    }

    /// What happened more than once, and in which executions.
    pub(super) fn repeated(&self) -> Vec<(String, Vec<ExecutionId>)> {
        let counted = self.counted();
        let repeated = counted.happened.iter().filter(|(_, within)| within.len() > 1);
        repeated.map(|(what, within)| (what.clone(), within.clone())).collect()
    }

    /// What was expected and has not happened.
    pub(super) fn missing(&self) -> Vec<String> {
        let counted = self.counted();
        counted.expected.iter().filter(|it| !counted.happened.contains_key(*it)).cloned().collect()
    }

    /// What happened and was not expected: it may be misspelt.
    pub(super) fn unexpected(&self) -> Vec<String> {
        let counted = self.counted();
        counted.happened.keys().filter(|it| !counted.expected.contains(*it)).cloned().collect()
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
