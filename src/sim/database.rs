//! The database of a simulation: the in-memory store, with all members of a cluster where there are several,
//! or, for fewer simulations, a real database.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::jobs::APPLICATION;
use super::judge::{Change, Execution};
#[cfg(feature = "sqlite")]
use super::sqlite::File;
use crate::domain::{Millis, NodeId, ScheduleId, Timestamp};
use crate::store::Store;
use crate::store::conformance::RowKey;
use crate::store::memory::MemoryStore;
use crate::store::memory::commits::LostCommits;
use crate::store::memory::rows::RequestRow;

/// Virtual time begins here: 2026-01-01T00:00:00Z.
const BEGIN: Millis = 1_767_225_600_000;

pub(super) enum Database {
    Memory(Arc<MemoryStore>, Vec<MemoryStore>),
    #[cfg(feature = "sqlite")]
    Sqlite(File),
}

impl Database {
    pub(super) fn memory() -> Self {
        let store = MemoryStore::new(Timestamp::at(BEGIN));
        store.note_changes();
        Self::Memory(Arc::new(store), Vec::new())
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite() -> Self {
        Self::Sqlite(File::make())
    }

    pub(super) fn begin(&self) -> Millis {
        match self {
            Self::Memory(..) => BEGIN,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.begin,
        }
    }

    /// Whether what it counts by its own clock is counted in virtual time.
    pub(super) fn keeps_virtual_time(&self) -> bool {
        matches!(self, Self::Memory(..))
    }

    pub(super) fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(store, _) => store.as_ref(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => file.store.as_ref(),
        }
    }

    /// From now on there are so many members.
    pub(super) fn split(&mut self, count: usize) {
        if let Self::Memory(store, members) = self {
            store.split(count);
            *members = (0..count).map(|n| store.member(n)).collect();
        }
    }

    /// The database as the clients of a member see it, if there is such a member.
    pub(super) fn at(&self, place: usize) -> &dyn Store {
        match self {
            Self::Memory(_, members) => {
                members.get(place).map_or_else(|| self.store(), |it| it as &dyn Store)
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => self.store(),
        }
    }

    /// Others' commits take so long to a member; and until then it takes none.
    pub(super) fn hold_back(&self, place: usize, delay: Millis, until: Option<Millis>) {
        if let Self::Memory(store, _) = self {
            store.hold_back(place, delay, until.map(Timestamp::at));
        }
    }

    pub(super) fn keep_commits(&self) {
        if let Self::Memory(store, _) = self {
            store.keep_commits();
        }
    }

    /// Promotes a copy that lacks the commits made after this time.
    pub(super) fn lose_behind(&self, time: Millis) -> LostCommits {
        match self {
            Self::Memory(store, _) => store.lose_behind(Timestamp::at(time)),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => LostCommits::default(),
        }
    }

    /// It is `now`, and the database's own clock is wrong by `error`.
    pub(super) fn set_clock(&self, now: Millis, error: Millis) {
        match self {
            Self::Memory(store, _) => store.set_clock(Timestamp::at(now), error),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
        }
    }

    /// Whether somebody may write into it behind the store's back, and edit it by its own clock.
    pub(super) fn is_scratch(&self) -> bool {
        matches!(self, Self::Memory(..))
    }

    /// What `UPDATE QRTZ_EXECUTE SET state = 'PAUSED' WHERE id = ?` does.
    pub(super) fn write_paused(&self, id: ScheduleId) {
        match self {
            Self::Memory(store, _) => store.corrupt(RowKey::Schedule(id), "state", "'PAUSED'"),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
        }
    }

    /// Inserts a request, as another program does; its id.
    pub(super) fn request(&self, verb: &str, arguments: &str) -> Option<i64> {
        match self {
            Self::Memory(store, _) => store.request(APPLICATION, verb, arguments).ok(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => None,
        }
    }

    /// What became of the requests so far.
    pub(super) fn requests(&self) -> BTreeMap<i64, RequestRow> {
        match self {
            Self::Memory(store, _) => store.written_requests().into_iter().collect(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => BTreeMap::new(),
        }
    }

    /// What `UPDATE ... SET state = 'Y'` (or 'N') does to an application's row, or a node's.
    pub(super) fn switch(&self, application: &str, node: Option<NodeId>, on: bool) {
        let row = node.map_or(RowKey::App(application), RowKey::Node);
        match self {
            Self::Memory(store, _) => {
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
            Self::Memory(store, _) => store.noted(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => 0,
        }
    }

    pub(super) fn ledger(&self) -> (Vec<Execution>, Vec<Change>) {
        match self {
            Self::Memory(store, _) => store.ledger(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => (file.ledger(), Vec::new()),
        }
    }
}
