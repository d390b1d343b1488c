//! What a simulation runs on.

use std::sync::Arc;

use super::judge::{Change, Execution};
use crate::model::{Millis, ScheduleId};
use crate::store::Store;
use crate::store::conformance::RowKey;
use crate::store::memory::MemoryStore;

/// Virtual time begins here: 2026-01-01T00:00:00Z.
const BEGIN: Millis = 1_767_225_600_000;

pub(super) enum Database {
    Memory(Arc<MemoryStore>),
}

impl Database {
    pub(super) fn memory() -> Self {
        let store = MemoryStore::new(BEGIN);
        store.note_changes();
        Self::Memory(Arc::new(store))
    }

    pub(super) fn begin(&self) -> Millis {
        match self {
            Self::Memory(_) => BEGIN,
        }
    }

    pub(super) fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(store) => store.as_ref(),
        }
    }

    /// It is `now`, and its own clock is wrong by `error`.
    pub(super) fn set_clock(&self, now: Millis, error: Millis) {
        match self {
            Self::Memory(store) => store.set_clock(now, error),
        }
    }

    /// Somebody may write into it behind the store's back, and it may be edited by its own clock.
    pub(super) fn is_scratch(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// What `UPDATE QRTZ_EXECUTE SET state = 'PAUSED' WHERE id = ?` does.
    pub(super) fn write_paused(&self, id: ScheduleId) {
        match self {
            Self::Memory(store) => store.corrupt(RowKey::Schedule(id), "state", "'PAUSED'"),
        }
    }

    pub(super) fn ledger(&self) -> (Vec<Execution>, Vec<Change>) {
        match self {
            Self::Memory(store) => store.ledger(),
        }
    }
}
