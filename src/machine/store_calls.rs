//! How long the store calls of a node take, and how many fail, by operation.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::histogram::{Histogram, SpanCounter, tell};

/// The family of these spans.
pub(crate) const FAMILY: &str = "firetime_store_call_duration_seconds";

/// The store calls of a node. Operations are named by machines, so there is a fixed number of them.
#[derive(Debug, Default)]
pub(crate) struct StoreCalls(Mutex<BTreeMap<&'static str, Calls>>);

#[derive(Debug, Default)]
struct Calls {
    spans: SpanCounter,
    failed: u64,
}

impl StoreCalls {
    /// A call has ended, or was abandoned.
    pub(crate) fn ended(&self, operation: &'static str, took: Duration, has_failed: bool) {
        tell(FAMILY, Some(("operation", operation)), took);
        let mut calls = self.lock();
        let of = calls.entry(operation).or_default();
        of.spans.add(took);
        of.failed += u64::from(has_failed);
    }

    /// Of each operation how long its calls took and how many of them failed.
    pub(crate) fn read(&self) -> Vec<(&'static str, Histogram, u64)> {
        self.lock().iter().map(|(operation, of)| (*operation, of.spans.read(), of.failed)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Calls>> {
        // Counts are whole whatever panicked beside them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
