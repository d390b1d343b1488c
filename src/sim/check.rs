//! Judges a run by its ledger, the expected times and the handlers' own log.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::{APPLICATION, Cluster, Expected};
use crate::model::ExecutionState;
use crate::store::{ExecutionQuery, ExecutionRow, Store};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub fired: usize,
    pub skipped: i64,
    pub attempts: usize,
    pub faults: u64,
    pub violations: Vec<String>,
}

impl Verdict {
    pub(super) fn assert_clean(&self) {
        assert!(self.violations.is_empty(), "{:#?}", self.violations.iter().take(20).collect::<Vec<_>>());
    }
}

pub(super) fn judge(cluster: &Cluster) -> Verdict {
    let mut verdict = Verdict { faults: cluster.dice.thrown, ..Verdict::default() };
    let query =
        ExecutionQuery { application: Some(APPLICATION.to_owned()), limit: usize::MAX, ..Default::default() };
    let mut by_schedule: BTreeMap<String, Vec<ExecutionRow>> = BTreeMap::new();
    for row in cluster.store.executions(&query).unwrap() {
        by_schedule.entry(row.schedule.clone()).or_default().push(row);
    }
    for expected in &cluster.expected {
        let rows = by_schedule.remove(&expected.name).unwrap_or_default();
        occurrences(expected, &rows, &mut verdict);
        attempts(&expected.name, &rows, &mut verdict);
    }
    effects(cluster, &mut verdict);
    verdict
}

/// Every expected time was fired or skipped, exactly once; nothing else was.
fn occurrences(expected: &Expected, rows: &[ExecutionRow], verdict: &mut Verdict) {
    let mut left: BTreeSet<i64> = expected.times.iter().copied().collect();
    for row in rows.iter().filter(|row| row.attempt == 1) {
        let until = row.until.unwrap_or(row.scheduled);
        let covered: Vec<i64> = left.range(row.scheduled..=until).copied().collect();
        if covered.len() as i64 != row.count || covered.first() != Some(&row.scheduled) {
            verdict.violations.push(format!("{}: not as planned, or twice: {row:?}", expected.name));
        }
        left.retain(|at| !covered.contains(at));
        if row.state == ExecutionState::Skipped.as_str() {
            verdict.skipped += row.count;
        } else {
            verdict.fired += 1;
        }
    }
    if !left.is_empty() {
        verdict.violations.push(format!("{}: {} occurrences lost: {left:?}", expected.name, left.len()));
    }
}

/// Attempts are contiguous, each but the last was abandoned, and the last has ended well.
fn attempts(name: &str, rows: &[ExecutionRow], verdict: &mut Verdict) {
    let mut by_time: BTreeMap<i64, Vec<&ExecutionRow>> = BTreeMap::new();
    for row in rows {
        by_time.entry(row.scheduled).or_default().push(row);
    }
    for rows in by_time.values_mut() {
        rows.sort_by_key(|row| row.attempt);
        verdict.attempts += rows.len();
        let last = rows.len() - 1;
        for (n, row) in rows.iter().enumerate() {
            let state = row.state.as_str();
            let fine =
                if n < last { state == "ABANDONED" } else { state == "SUCCEEDED" || state == "SKIPPED" };
            if row.attempt != n as i64 + 1 || !fine {
                verdict.violations.push(format!("{name}: attempt {} of {}: {row:?}", n + 1, last + 1));
            }
        }
    }
}

/// One attempt's handler begins at most once, and each success has begun.
fn effects(cluster: &Cluster, verdict: &mut Verdict) {
    let mut begun = BTreeSet::new();
    for effect in &cluster.effects {
        if !begun.insert((effect.schedule.clone(), effect.scheduled, effect.attempt)) {
            verdict.violations.push(format!("began twice: {effect:?}"));
        }
    }
    no_zombie_begins(cluster, verdict);
    let query = ExecutionQuery {
        application: Some(APPLICATION.to_owned()),
        states: vec![ExecutionState::Succeeded],
        limit: usize::MAX,
        ..Default::default()
    };
    for row in cluster.store.executions(&query).unwrap() {
        if !begun.contains(&(row.schedule.clone(), row.scheduled, u32::try_from(row.attempt).unwrap())) {
            verdict.violations.push(format!("succeeded without having begun: {row:?}"));
        }
    }
}

/// No attempt begins after it was taken from its node.
fn no_zombie_begins(cluster: &Cluster, verdict: &mut Verdict) {
    let begun: BTreeMap<_, i64> =
        cluster.effects.iter().map(|effect| (effect.execution.0, effect.at)).collect();
    let query = ExecutionQuery {
        application: Some(APPLICATION.to_owned()),
        states: vec![ExecutionState::Abandoned],
        limit: usize::MAX,
        ..Default::default()
    };
    for row in cluster.store.executions(&query).unwrap() {
        let late = begun.get(&row.id).filter(|at| row.finished.is_some_and(|taken| **at > taken));
        if let Some(at) = late {
            verdict.violations.push(format!("begun at {at} after it was abandoned: {row:?}"));
        }
    }
}
