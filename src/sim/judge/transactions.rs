//! Transactions of handlers that complete in them: what they wrote is there once, and exactly if the
//! execution has succeeded.

use std::collections::BTreeMap;

use super::history::{Effect, Execution, History, Millis, Verdict};

pub(super) fn transactions(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let mut chains: BTreeMap<_, BTreeMap<u32, &Execution>> = BTreeMap::new();
    for row in &history.executions {
        chains.entry(occurrence(row)).or_default().insert(row.attempt, row);
    }
    let mut begun: BTreeMap<i64, Vec<&Effect>> = BTreeMap::new();
    for effect in history.effects.iter().filter(|it| it.completes) {
        begun.entry(effect.execution).or_default().push(effect);
    }
    let mut known: BTreeMap<_, &Effect> = BTreeMap::new();
    for effect in history.effects.iter().filter(|it| !it.committed.is_empty()) {
        let Some(row) = rows.get(&effect.execution) else { continue };
        if effect.committed.len() > 1 {
            verdict.blame(format!("committed more than once: {effect:?} {row:?}"));
        }
        if row.state != "SUCCEEDED" || row.fence != effect.fence {
            verdict.blame(format!("committed, and it has not succeeded with that: {effect:?} {row:?}"));
        }
        // What somebody asked for once more is another.
        let by_hand = |attempt: &u32| {
            let own = chains.get(&occurrence(row)).and_then(|chain| chain.get(attempt));
            own.is_some_and(|row| history.retries.contains(&row.id))
        };
        let asked_for = (1..=row.attempt).rev().find(by_hand);
        if let Some(other) = known.insert((occurrence(row), asked_for), effect) {
            verdict.blame(format!("two attempts have committed: {other:?} {effect:?}"));
        }
        let next = row.attempt + 1;
        let later = chains.get(&occurrence(row)).and_then(|chain| chain.get(&next));
        if let Some(later) = later.filter(|_| !by_hand(&next)) {
            verdict.blame(format!("tried again, though it has committed: {effect:?} {later:?}"));
        }
        let again = history.effects.iter().find(|it| runs_after(it, effect));
        if let Some(again) = again {
            verdict.blame(format!("run again, though it has committed: {effect:?} {again:?}"));
        }
    }
    for row in history.executions.iter().filter(|row| row.state == "SUCCEEDED") {
        let own = begun.get(&row.id).into_iter().flatten().find(|it| it.fence == row.fence);
        if let Some(effect) = own.filter(|it| it.committed.is_empty()) {
            verdict.blame(format!("succeeded without its transaction: {effect:?} {row:?}"));
        }
    }
}

fn occurrence(row: &Execution) -> (&str, i64, i64, Millis) {
    (&row.schedule, row.generation, row.origin, row.scheduled)
}

/// Whether it is a later run of an execution that had been committed by then.
fn runs_after(effect: &Effect, committed: &Effect) -> bool {
    effect.execution == committed.execution
        && effect.fence > committed.fence
        && committed.committed.iter().any(|at| *at < effect.at)
}
