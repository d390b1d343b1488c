//! Members that have the tables each, as servers of Galera do.
//!
//! The store itself is what all have agreed on. A member's copy is how the tables were some commits ago: a
//! call is made on the copy, and ends with a commit that the others' may refuse. It is then made again on a
//! fresher copy, as the store over SQL does.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::tables::Tables;
use crate::domain::{Millis, Timestamp};

/// A copy of the tables.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) tables: Tables,
    /// The last commit that it has.
    pub(super) seen: u64,
    /// How long others' commits take to it; and until then it takes none.
    pub(super) delay: Millis,
    pub(super) held_until: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Members(Mutex<Vec<Member>>);

impl Members {
    pub(super) fn all(&self) -> MutexGuard<'_, Vec<Member>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Takes the others' commits, up to a commit and to a time.
    pub(super) fn take(&mut self, head: &Tables, until: u64, time: Timestamp) {
        while let Some((at, set)) = head.commits.as_ref().and_then(|commits| commits.behind(self.seen))
            && self.seen < until
            && at <= time
        {
            self.tables.replay(&set);
            self.seen += 1;
        }
    }

    pub(super) fn take_all(&mut self, head: &Tables) {
        self.take(head, u64::MAX, Timestamp::MAX);
    }
}
