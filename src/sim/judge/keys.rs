//! Unique keys of enqueued executions.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Execution, History, Verdict, is_over};

/// Of executions of a job with one key, one at a time has not ended.
pub(super) fn keys(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let of_origins = history.keyed.iter().filter_map(|it| {
        let row = rows.get(&it.execution)?;
        Some(((row.schedule.as_str(), row.origin), it.key.as_str()))
    });
    let of_origins: BTreeMap<(&str, i64), &str> = of_origins.collect();
    let mut open: BTreeMap<(&str, &str), BTreeSet<i64>> = BTreeMap::new();
    for change in &history.changes {
        let Some(row) = rows.get(&change.execution) else { continue };
        let Some(key) = of_origins.get(&(row.schedule.as_str(), row.origin)) else { continue };
        let keepers = open.entry((row.schedule.as_str(), key)).or_default();
        match change.to.as_deref() {
            Some(to) if !is_over(to) => {
                keepers.insert(row.origin);
                if keepers.len() > 1 {
                    verdict.blame(format!("two of one key {key:?} at {}: {row:?}", change.at));
                }
            }
            _ => drop(keepers.remove(&row.origin)),
        }
    }
}
