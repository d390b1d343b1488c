//! What a simulation runs on.

use std::sync::Arc;

use super::judge::{Change, Execution};
use crate::model::Millis;
use crate::store::Store;
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

    /// Its own clock stands at `now`.
    pub(super) fn set_time(&self, now: Millis) {
        match self {
            Self::Memory(store) => store.set_time(now),
        }
    }

    pub(super) fn may_edit(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    pub(super) fn ledger(&self) -> (Vec<Execution>, Vec<Change>) {
        match self {
            Self::Memory(store) => store.ledger(),
        }
    }
}
