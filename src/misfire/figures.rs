//! The cluster's figures, read by the elected node while somebody looks at them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::calls::{Asked, Call};
use crate::domain::{Boot, Millis};
use crate::store::figures::{Figures, FiguresQuery};
use crate::time::Now;

/// Who has looked within this span goes on looking.
const LOOKS_FOR: Millis = 300_000;

/// Shared by the misfire handler, which reads the figures, and those who look at them.
#[derive(Debug)]
pub(crate) struct FiguresBoard {
    /// The [`Boot`] instant at which somebody last looked.
    looked: AtomicI64,
    read: Mutex<Option<(Boot, Arc<Figures>)>>,
}

impl Default for FiguresBoard {
    fn default() -> Self {
        Self { looked: AtomicI64::new(Boot::MIN.millis()), read: Mutex::default() }
    }
}

impl FiguresBoard {
    /// The figures that this node read last, and when; from now on they are read with each election.
    pub(crate) fn look(&self, now: Boot) -> Option<(Boot, Arc<Figures>)> {
        self.looked.store(now.millis(), Ordering::Relaxed);
        self.lock().clone()
    }

    fn is_looked_at(&self, now: Boot) -> bool {
        now.saturating_since(Boot::at(self.looked.load(Ordering::Relaxed))) < LOOKS_FOR
    }

    /// What the elected node asks for, if somebody looks.
    pub(super) fn search(&self, application: &str, now: Now) -> Option<Call> {
        let query = || FiguresQuery { application: application.to_owned(), now: now.db };
        self.is_looked_at(now.boot).then(|| Asked::read_figures(query(), ()))
    }

    pub(super) fn put(&self, figures: Figures, now: Boot) {
        *self.lock() = Some((now, Arc::new(figures)));
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Boot, Arc<Figures>)>> {
        // A value that is replaced whole is whole whatever panicked beside it.
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    #[test]
    fn nothing_is_read_for_who_does_not_look() {
        let board = FiguresBoard::default();
        let at = |boot| Now { db: Timestamp::at(1_000), boot: Boot::at(boot), apart: 0 };
        assert!(board.search("app", at(1_000_000)).is_none());
        assert!(board.look(Boot::at(1_000_000)).is_none());
        assert!(board.search("app", at(1_000_000)).is_some());
        assert!(board.search("app", at(1_000_000 + LOOKS_FOR)).is_none());
    }
}
