//! What a simulation runs on: the in-memory store or, for fewer of them, a real database.

use super::judge::{Change, Execution};
#[cfg(feature = "sqlite")]
use super::sqlite::File;
use crate::domain::{Millis, NodeId, ScheduleId};
use crate::store::Store;
use crate::store::conformance::RowKey;
use crate::store::memory::MemoryStore;

/// Virtual time begins here: 2026-01-01T00:00:00Z.
const BEGIN: Millis = 1_767_225_600_000;

pub(super) enum Database {
    Memory(std::sync::Arc<MemoryStore>),
    #[cfg(feature = "sqlite")]
    Sqlite(File),
}

impl Database {
    pub(super) fn memory() -> Self {
        let store = MemoryStore::new(BEGIN);
        store.note_changes();
        Self::Memory(std::sync::Arc::new(store))
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite() -> Self {
        Self::Sqlite(File::make())
    }

    pub(super) fn begin(&self) -> Millis {
        match self {
            Self::Memory(_) => BEGIN,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.begin,
        }
    }

    pub(super) fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(store) => store.as_ref(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.store.as_ref(),
        }
    }

    /// It is `now`, and the database's own clock is wrong by `error`.
    pub(super) fn set_clock(&self, now: Millis, error: Millis) {
        match self {
            Self::Memory(store) => store.set_clock(now, error),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
        }
    }

    /// Whether somebody may write into it behind the store's back, and edit it by its own clock.
    pub(super) fn is_scratch(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// What `UPDATE QRTZ_EXECUTE SET state = 'PAUSED' WHERE id = ?` does.
    pub(super) fn write_paused(&self, id: ScheduleId) {
        match self {
            Self::Memory(store) => store.corrupt(RowKey::Schedule(id), "state", "'PAUSED'"),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
        }
    }

    /// What `UPDATE ... SET state = 'Y'` (or 'N') does to an application's row, or a node's.
    pub(super) fn switch(&self, application: &str, node: Option<NodeId>, on: bool) {
        let row = node.map_or(RowKey::App(application), RowKey::Node);
        match self {
            Self::Memory(store) => {
                // Retention removes the rows of nodes that ended long ago.
                let is_there =
                    |id: NodeId| store.nodes(None).unwrap().iter().any(|node| node.id == id.to_string());
                if node.is_none_or(is_there) {
                    store.corrupt(row, "state", if on { "'Y'" } else { "'N'" });
                }
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
        }
    }

    /// How many changes of executions have been made; none where nobody keeps them.
    pub(super) fn changes(&self) -> usize {
        match self {
            Self::Memory(store) => store.noted(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => 0,
        }
    }

    pub(super) fn ledger(&self) -> (Vec<Execution>, Vec<Change>) {
        match self {
            Self::Memory(store) => store.ledger(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => (file.ledger(), Vec::new()),
        }
    }
}
