//! Schedules that fire again so long after the end of their last run: the ledger must say so, run by run.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Delay, Execution, History, Millis, Plan, REMOVED, Verdict, is_over};
use super::withdrawn;

/// Where a cursor stands while a run is under way.
pub const AWAITED: Millis = 253_402_300_799_999;

/// Follows one generation, from the cursor that was behind it and where that led; gives where its ledger
/// ends.
pub fn follow(
    history: &History,
    (plan, generation): (&Plan, i64),
    delay: &Delay,
    rows: &[&Execution],
    (mut behind, following): (Option<Millis>, Option<Millis>),
    verdict: &mut Verdict,
) -> (Option<Millis>, Option<Millis>) {
    let mut chains: BTreeMap<Millis, Vec<&Execution>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.origin == 0 && row.generation == generation) {
        chains.entry(row.scheduled).or_default().push(row);
    }
    let name = &plan.schedule;
    let (heir, heirs) = heir(plan, generation, rows);
    let is_latest = plan.generations.keys().next_back() == Some(&heir) && plan.state != REMOVED;
    let last = chains.keys().next_back().copied();
    let mut expected = BTreeSet::from([delay.first.or(following)]);
    for attempts in chains.values_mut() {
        attempts.sort_by_key(|row| row.attempt);
        let first = attempts[0];
        if first.prev != behind {
            verdict
                .blame(format!("{name}: its cursor came from {:?}, not {behind:?}: {first:?}", first.prev));
        }
        if !expected.contains(&Some(first.scheduled)) {
            verdict.blame(format!("{name}: its last run leads to one of {expected:?}: {first:?}"));
        }
        let within = |next: Millis| (next <= delay.ends).then_some(next);
        if !first.is_withdrawn() {
            // The cursor is not moved over what is withdrawn.
            behind = Some(first.last());
        }
        let is_skipped = first.state == "SKIPPED" && first.reason != "superseded";
        if is_skipped || first.is_withdrawn() {
            let count = (first.last() - first.scheduled) / delay.delay + 1;
            if count != first.count {
                verdict.blame(format!("{name}: skipped {count} occurrences: {first:?}"));
            }
            let counted = if is_skipped { &mut verdict.skipped } else { &mut verdict.withdrawn };
            *counted += usize::try_from(count).unwrap_or(0);
            verdict.overlapped += usize::from(first.is_overlapped());
            expected = BTreeSet::from([within(first.last() + delay.delay)]);
        } else {
            verdict.fired += 1;
            let put_off = if Some(first.scheduled) == last { heirs } else { delay.delay };
            let next = |at: Millis| within((at + put_off).max(first.scheduled + 1));
            expected = ends(history, attempts).map(next).collect();
            // What ends with its schedule, or after another trigger came, plans nothing.
            if expected.is_empty() || !is_latest {
                expected.insert(Some(AWAITED));
            }
        }
        if !expected.contains(&first.following) {
            verdict.blame(format!("{name}: its cursor was to go to one of {expected:?}: {first:?}"));
        }
        expected = BTreeSet::from([first.following]);
    }
    let following = expected.into_iter().next().flatten();
    // A run under way when the trigger changed plans the next generation, if any.
    let hands_over = plan.delays.get(&(generation + 1)).is_some_and(|next| next.first.is_none());
    let withdrawal = chains.values().map(|attempts| attempts[0]).find(|row| row.is_withdrawn());
    if !hands_over || withdrawal.is_some() {
        withdrawn::generation((plan, generation), withdrawal, following, verdict);
    }
    (behind, following)
}

/// The generation whose trigger holds when the last run of this one ends, and its delay: edits that were made
/// while it was under way keep it.
fn heir(plan: &Plan, mut generation: i64, rows: &[&Execution]) -> (i64, Millis) {
    let own = |generation: i64| plan.delays.get(&generation);
    while own(generation + 1).is_some_and(|next| next.first.is_none()) {
        generation += 1;
        if rows.iter().any(|row| row.origin == 0 && row.generation == generation) {
            break;
        }
    }
    (generation, own(generation).map_or(0, |delay| delay.delay))
}

/// When a run may have ended: with an attempt that nothing follows but what somebody asked for.
fn ends(history: &History, attempts: &[&Execution]) -> impl Iterator<Item = Millis> {
    let is_last = |n: usize| attempts.get(n + 1).is_none_or(|next| history.retries.contains(&next.id));
    let ended = attempts.iter().enumerate().filter(move |(n, row)| is_over(&row.state) && is_last(*n));
    ended.filter_map(|(_, row)| row.finished)
}
