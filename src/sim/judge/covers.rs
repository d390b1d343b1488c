//! The spans that executions cover, as their handlers heard them: from the last success on, with every
//! occurrence in between counted once, in its state at the time of the question.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Change, Covering, Execution, History, Millis, Plan, Verdict, WITHDRAWN};

/// The planned executions of a schedule by generation, fire time and attempt.
type Planned<'h> = BTreeMap<(i64, Millis, u32), &'h Execution>;

/// The ledger as it was at some instant.
#[derive(Default)]
struct Ledger<'h> {
    /// The states of what is there.
    states: BTreeMap<i64, &'h str>,
    /// Those that ran out of time, and whose handlers have returned since.
    returned: BTreeSet<i64>,
}

impl<'h> Ledger<'h> {
    fn see(&mut self, change: &'h Change) {
        match change.to.as_deref() {
            Some(to) => {
                if change.from.as_deref() == Some("TIMED_OUT") {
                    self.returned.insert(change.execution);
                }
                self.states.insert(change.execution, to);
            }
            None => drop(self.states.remove(&change.execution)),
        }
    }

    /// Counts occurrences of which this is the last attempt; false if it has succeeded.
    fn count(&self, row: &Execution, heard: &mut Covering) -> bool {
        let count = u64::try_from(row.count).unwrap_or(0);
        let has_returned = self.returned.contains(&row.id);
        let counted = match (self.states.get(&row.id).copied().unwrap_or_default(), row.reason.as_str()) {
            ("SUCCEEDED", _) => return false,
            ("SKIPPED", "misfire" | "superseded") => &mut heard.missed,
            ("SKIPPED", "paused") => &mut heard.paused,
            ("SKIPPED", _) => &mut heard.skipped,
            ("CANCELLED", _) => &mut heard.cancelled,
            (WITHDRAWN, _) => &mut heard.withdrawn,
            ("TIMED_OUT", _) if !has_returned => &mut heard.open,
            ("FAILED" | "TIMED_OUT" | "ABANDONED", _) => &mut heard.failed,
            _ => &mut heard.open,
        };
        *counted += count;
        true
    }

    /// What the handler should have heard.
    fn covered(&self, own: &Execution, planned: &Planned<'_>, changes: usize) -> Covering {
        let mut expected =
            Covering { execution: own.id, changes, until: own.scheduled, ..Covering::default() };
        let end = if own.origin == 0 { (own.generation, own.scheduled, 0) } else { (i64::MAX, 0, 0) };
        // Of each generation what came before the later ones began.
        let (mut generation, mut before, mut first) = (end.0, own.scheduled, own.scheduled);
        let mut last = None;
        for (key, row) in planned.range(..end).rev() {
            if key.0 < generation {
                (generation, before) = (key.0, first);
            }
            let is_there = self.states.contains_key(&row.id) && key.1 < before;
            if !is_there || last.replace((key.0, key.1)) == Some((key.0, key.1)) {
                continue;
            }
            if !self.count(row, &mut expected) {
                return Covering { from: Some(row.scheduled), ..expected };
            }
            first = first.min(row.scheduled);
        }
        expected
    }
}

pub(super) fn covers(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let plans: BTreeMap<&str, &Plan> =
        history.plans.iter().map(|plan| (plan.schedule.as_str(), plan)).collect();
    let mut planned: BTreeMap<&str, Planned<'_>> = BTreeMap::new();
    for row in history.executions.iter().filter(|row| row.origin == 0) {
        let key = (row.generation, row.scheduled, row.attempt);
        planned.entry(&row.schedule).or_default().insert(key, row);
    }
    let reruns: BTreeSet<i64> = history.reruns.iter().map(|rerun| rerun.origin).collect();
    let none = Planned::default();
    let (mut ledger, mut changes) = (Ledger::default(), history.changes.iter().enumerate().peekable());
    for heard in &history.coverings {
        while let Some((_, change)) = changes.next_if(|(place, _)| *place < heard.changes) {
            ledger.see(change);
        }
        let Some(own) = rows.get(&heard.execution) else { continue };
        let of_schedule = planned.get(own.schedule.as_str()).unwrap_or(&none);
        if !history.changes.is_empty() {
            let expected = match reruns.contains(&own.origin) {
                true => its_own(own, heard.changes),
                false => ledger.covered(own, of_schedule, heard.changes),
            };
            if expected != *heard {
                verdict.blame(format!("{}: it covers {expected:?}, and heard {heard:?}", own.schedule));
            }
        }
        if let Some(plan) = plans.get(own.schedule.as_str()) {
            as_planned(plan, own, of_schedule, heard, verdict);
        }
    }
}

/// A rerun stands for its own occurrence: from the fire time before it.
fn its_own(own: &Execution, changes: usize) -> Covering {
    Covering { execution: own.id, changes, from: own.prev, until: own.scheduled, ..Covering::default() }
}

/// An oracle knows how many occurrences lie between a success and a later occurrence of its generation.
fn as_planned(plan: &Plan, own: &Execution, rows: &Planned<'_>, heard: &Covering, verdict: &mut Verdict) {
    let Some(from) = heard.from.filter(|_| own.origin == 0) else { return };
    let attempts = (own.generation, from, 0)..(own.generation, from + 1, 0);
    // Of a fixed delay nobody knows beforehand.
    let is_known = !plan.delays.contains_key(&own.generation);
    let Some(times) = plan.generations.get(&own.generation).filter(|_| is_known) else { return };
    if !rows.range(attempts).any(|(_, row)| row.state == "SUCCEEDED") {
        return;
    }
    let between = times.iter().filter(|at| (from + 1..own.scheduled).contains(*at)).count();
    let told = heard.missed + heard.skipped + heard.paused + heard.failed + heard.cancelled + heard.open;
    if u64::try_from(between) != Ok(told) {
        verdict.blame(format!("{}: {between} occurrences are left out, not {told}: {heard:?}", own.schedule));
    }
}
