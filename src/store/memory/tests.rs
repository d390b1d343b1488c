//! The model takes part in the suite it is the model of.

use std::sync::Arc;

use super::MemoryStore;
use crate::model::ScheduleId;
use crate::store::Store;
use crate::store::conformance::{Fixture, RowKey, conformance};

struct MemoryFixture(Arc<MemoryStore>);

impl Fixture for MemoryFixture {
    fn open() -> Option<Self> {
        // 2026-01-02 03:04:05.678 UTC
        Some(Self(Arc::new(MemoryStore::new(1_767_323_045_678))))
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn lock(&self, schedule: ScheduleId) -> Option<Box<dyn Send + '_>> {
        Some(Box::new(self.0.hold(schedule)))
    }

    fn set(&self, row: RowKey<'_>, column: &str, value: &str) {
        self.0.corrupt(row, column, value);
    }

    fn get(&self, row: RowKey<'_>, column: &str) -> Option<String> {
        self.0.column(row, column)
    }
}

conformance!(memory, MemoryFixture);
