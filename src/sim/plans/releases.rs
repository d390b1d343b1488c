//! Two releases of the same code side by side: their servers start now and then, and sync the schedules that
//! the code lists.

use std::collections::BTreeMap;

use super::Plans;
use crate::domain::{Millis, Timestamp};
use crate::sim::jobs::{self, APPLICATION};
use crate::sim::judge;
use crate::sim::wire::Wire;
use crate::store::audit::Attribution;
use crate::store::sync::SyncOrder;
use crate::store::{Author, Definition, Store};
use crate::trigger::Trigger;

const OWNERS: [&str; 2] = ["billing", "shop"];

/// What a release lists: of each owner other schedules, with priorities of their own. A revision lists some
/// that the one before does not, and lacks others.
fn list(owner: &str, revision: i64) -> BTreeMap<String, i64> {
    let listed = (0..4).filter(|n| (revision + n) % 4 != 0);
    listed.map(|n| (format!("{owner}-{n}"), 10 * revision + n)).collect()
}

impl Plans {
    /// A server of an owner's code starts: mostly of the newest releases, now and then of the next one.
    pub(in crate::sim) fn start_release(&mut self, wire: &Wire<'_>) {
        let n = usize::try_from(self.dice.below(OWNERS.len() as Millis)).unwrap();
        self.releases[n] += i64::from(self.dice.one_in(5));
        let (owner, revision) = (OWNERS[n], self.releases[n] - self.dice.below(3));
        let order = order(owner, revision);
        // The store itself: a client's call is whole.
        let synced = wire.store.sync(&order);
        assert!(synced.is_ok() || wire.is_behind(), "{synced:?}");
        let is_stale = synced.ok().map(|answer| order.is_stale(answer.known));
        let list = list(owner, revision);
        let owner = owner.to_owned();
        self.syncs.push(judge::Sync { owner, revision, list, is_stale, rows: rows(wire.head) });
    }

    /// What was synced, in order.
    pub(in crate::sim) fn syncs(&self) -> Vec<judge::Sync> {
        self.syncs.clone()
    }
}

fn order(owner: &str, revision: i64) -> SyncOrder {
    // None of them fires before all is over.
    let far = Trigger::once(Timestamp::at(4_000_000_000_000).utc().unwrap()).unwrap();
    let definition = |(name, priority): (String, i64)| Definition {
        application: APPLICATION.to_owned(),
        job: jobs::all()[0].clone(),
        priority: i32::try_from(priority).unwrap(),
        author: Author::Owner(owner.to_owned()),
        ..Definition::new(&name, "", far.clone())
    };
    SyncOrder {
        application: APPLICATION.to_owned(),
        owner: owner.to_owned(),
        revision,
        definitions: list(owner, revision).into_iter().map(definition).collect(),
        adopts: false,
        by: Attribution { actor: "sim".to_owned(), reason: String::new() },
    }
}

/// The schedules of each owner, with their priorities.
fn rows(store: &dyn Store) -> BTreeMap<String, BTreeMap<String, i64>> {
    let mut all: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for row in store.schedules(Some(APPLICATION)).unwrap() {
        let Some(owner) = row.ownership.owner else { continue };
        all.entry(owner).or_default().insert(row.name, row.settings.priority.unwrap_or_default());
    }
    all
}
