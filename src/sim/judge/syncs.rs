//! Syncs: an owner's schedules are those of its newest list, whole, whoever syncs beside it.

use std::collections::BTreeMap;

use super::history::{History, Sync, Verdict};

pub(super) fn syncs(history: &History, verdict: &mut Verdict) {
    let mut newest: BTreeMap<&str, &Sync> = BTreeMap::new();
    for sync in &history.syncs {
        let known = newest.get(&*sync.owner).map(|newest| newest.revision);
        let is_older = known.is_some_and(|known| known > sync.revision);
        if sync.is_stale == Some(true) && !is_older {
            verdict.blame(format!(
                "{}: revision {} is said to be stale, and {known:?} is known",
                sync.owner, sync.revision
            ));
        }
        if sync.is_stale == Some(false) && !is_older {
            newest.insert(&sync.owner, sync);
        }
        let expected: BTreeMap<_, _> =
            newest.iter().map(|(owner, sync)| ((*owner).to_owned(), sync.list.clone())).collect();
        if sync.rows != expected {
            verdict.blame(format!(
                "{}: after a sync of revision {}, {known:?} being known, there is {:?} instead of {expected:?}",
                sync.owner, sync.revision, sync.rows
            ));
            return;
        }
    }
}
