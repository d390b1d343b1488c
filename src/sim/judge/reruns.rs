//! Reruns: each occurrence that one means is run once under its own fire time, in the order of the fire
//! times, and none that had succeeded or had not ended when it was ordered.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Change, Execution, History, Millis, Rerun, Verdict, is_over};

pub(super) fn reruns(history: &History, verdict: &mut Verdict) {
    let mut of_origin: BTreeMap<i64, Vec<&Execution>> = BTreeMap::new();
    for row in history.executions.iter().filter(|row| row.origin > 0) {
        of_origin.entry(row.origin).or_default().push(row);
    }
    let parts = history.by_schedule();
    let origins: BTreeSet<i64> = history.reruns.iter().map(|rerun| rerun.origin).collect();
    for rerun in &history.reruns {
        let rows = of_origin.get(&rerun.origin).map_or(&[][..], Vec::as_slice);
        as_ordered(rerun, rows, verdict);
        let Some(part) = parts.get(rerun.schedule.as_str()).filter(|_| !history.changes.is_empty()) else {
            continue;
        };
        let states = as_of(history.changes.iter().take(rerun.changes));
        for at in &rerun.times {
            let of_it = part.rows.values().filter(|row| stands_for(row, *at) && states.contains_key(&row.id));
            // A later generation takes the place of an earlier one.
            let planned = of_it.clone().filter(|row| row.origin == 0);
            let last = planned.clone().map(|row| row.generation).max();
            let earlier = of_it.filter(|row| origins.contains(&row.origin));
            let judged = planned.filter(|row| Some(row.generation) == last).chain(earlier);
            for row in judged {
                let state = states[&row.id];
                if state == "SUCCEEDED" || !is_over(state) {
                    verdict.blame(format!("rerun although it was {state}: {rerun:?} {row:?}"));
                }
            }
            if last.is_none() {
                verdict.blame(format!("rerun though nothing was planned at {at}: {rerun:?}"));
            }
        }
    }
}

/// Whether an execution is one at the occurrence of this fire time, or the row of a span that has it.
fn stands_for(row: &Execution, at: Millis) -> bool {
    (row.scheduled..=row.last()).contains(&at)
}

/// Its executions are those that it was to make, each once.
fn as_ordered(rerun: &Rerun, rows: &[&Execution], verdict: &mut Verdict) {
    let mut first: Vec<&Execution> = rows.iter().copied().filter(|row| row.attempt == 1).collect();
    first.sort_by_key(|row| row.id);
    let times: Vec<Millis> = first.iter().map(|row| row.scheduled).collect();
    if times != rerun.times || !times.is_sorted_by(|one, next| one < next) {
        verdict.blame(format!("a rerun that made executions at {times:?}: {rerun:?}"));
    }
}

/// The states of executions after these changes.
fn as_of<'h>(changes: impl Iterator<Item = &'h Change>) -> BTreeMap<i64, &'h str> {
    let mut states = BTreeMap::new();
    for change in changes {
        match change.to.as_deref() {
            Some(to) => drop(states.insert(change.execution, to)),
            None => drop(states.remove(&change.execution)),
        }
    }
    states
}
