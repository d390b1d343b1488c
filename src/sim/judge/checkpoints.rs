//! Checkpoints: a run is told the last one of its execution, and no run stores one that is over.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::history::{Change, Checkpoint, Execution, History, Millis, Verdict};

/// A checkpoint with its run, in the order of an occurrence's runs.
type Run<'h> = ((u32, i64), &'h Checkpoint);

pub(super) fn checkpoints(history: &History, verdict: &mut Verdict) {
    let rows: BTreeMap<i64, &Execution> = history.executions.iter().map(|row| (row.id, row)).collect();
    let mut runs: BTreeMap<_, Vec<Run<'_>>> = BTreeMap::new();
    for checkpoint in &history.checkpoints {
        let Some(row) = rows.get(&checkpoint.execution) else { continue };
        runs.entry(occurrence(row)).or_default().push(((row.attempt, checkpoint.fence), checkpoint));
    }
    runs.values_mut().for_each(|runs| runs.sort_by_key(|(run, it)| (*run, it.asked)));
    for resume in &history.resumes {
        let Some(row) = rows.get(&resume.execution) else { continue };
        let own = runs.get(&occurrence(row)).map_or(&[][..], Vec::as_slice);
        let before = own.partition_point(|(run, it)| match run.cmp(&(row.attempt, resume.fence)) {
            Ordering::Less => true,
            Ordering::Equal => it.asked <= resume.at,
            Ordering::Greater => false,
        });
        let expected = possible(&own[..before]);
        if !expected.contains(&resume.value) {
            verdict.blame(format!("goes on from none of {expected:?}: {resume:?} {row:?}"));
        }
    }
    stored_too_late(history, verdict);
}

/// The values that a run behind these may go on from: the last that is known to be stored, or one whose
/// answer was lost. Such a call may have been carried out later, as long as its run went on.
fn possible(runs: &[Run<'_>]) -> Vec<Option<i64>> {
    let known = runs.iter().rfind(|(_, it)| it.heard == Some(true));
    let unanswered = runs.iter().filter(|(_, it)| it.heard.is_none());
    let unanswered = unanswered.filter(|(run, _)| known.is_none_or(|(last, _)| last <= run));
    std::iter::once(known.map(|(_, it)| it.value)).chain(unanswered.map(|(_, it)| Some(it.value))).collect()
}

/// A run is over once its execution has been taken from it, or has ended.
fn stored_too_late(history: &History, verdict: &mut Verdict) {
    let begun: BTreeMap<(i64, i64), Millis> =
        history.effects.iter().map(|it| ((it.execution, it.fence), it.at)).collect();
    let mut ends: BTreeMap<i64, Vec<Millis>> = BTreeMap::new();
    let is_end = |it: &&Change| it.from.as_deref() == Some("RUNNING") && it.to.as_deref() != Some("RUNNING");
    for change in history.changes.iter().filter(is_end) {
        ends.entry(change.execution).or_default().push(change.at);
    }
    for it in &history.checkpoints {
        let Some(stored) = it.stored.or((it.heard == Some(true)).then_some(it.asked)) else { continue };
        let Some(begun) = begun.get(&(it.execution, it.fence)) else { continue };
        let mut own = ends.get(&it.execution).into_iter().flatten();
        if let Some(end) = own.find(|at| *at > begun).filter(|end| stored > **end) {
            verdict.blame(format!("stored by a run that was over at {end}: {it:?}"));
        }
    }
}

fn occurrence(row: &Execution) -> (&str, i64, i64, Millis) {
    (&row.schedule, row.generation, row.origin, row.scheduled)
}
