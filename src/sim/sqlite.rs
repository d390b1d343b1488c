//! A SQLite file that a simulation runs on.

use std::sync::Arc;

use tempfile::TempDir;

use super::judge::Execution;
use crate::domain::Millis;
use crate::store::sql::tests::ledger::ledger;
use crate::store::{Store, StoreLimits, migrate, open};
use crate::time::Clock;

/// A file in memory, where there is such a place.
pub(super) struct File {
    /// Virtual time begins here.
    pub begin: Millis,
    pub store: Arc<dyn Store>,
    url: String,
    _folder: TempDir,
}

impl File {
    /// Virtual time begins with the next whole minute: schedules are made by the database's own clock.
    pub(super) fn make() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let url = format!("sqlite:{}", folder.path().join("sim.db").display());
        migrate(&url).unwrap();
        let clock = Arc::new(Clock::default());
        let begin = (clock.now().db.millis() / 60_000 + 1) * 60_000;
        let store = open(&url, StoreLimits { connections: 1, ..StoreLimits::default() }, clock).unwrap();
        Self { begin, store, url, _folder: folder }
    }

    pub(super) fn ledger(&self) -> Vec<Execution> {
        ledger(&self.url)
    }
}
