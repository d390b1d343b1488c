//! Jobs of which only so many executions may run at once: no more do, and none waits for a place that is
//! free.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Effect, Execution, History, Millis, Plan, Verdict, is_owned};

pub(super) fn concurrency(history: &History, verdict: &mut Verdict) {
    let plans: BTreeMap<&str, &Plan> =
        history.plans.iter().map(|plan| (plan.schedule.as_str(), plan)).collect();
    let limits: BTreeMap<&str, usize> =
        history.plans.iter().filter_map(|plan| Some((plan.job.as_str(), plan.at_once?))).collect();
    for (job, most) in limits {
        let is_of = |row: &&Execution| plans.get(row.schedule.as_str()).is_some_and(|plan| plan.job == job);
        let rows: BTreeMap<i64, &Execution> =
            history.executions.iter().filter(is_of).map(|row| (row.id, row)).collect();
        claims(history, (job, most), &rows, &plans, verdict);
        runs(history, (job, most), &rows, verdict);
    }
}

/// The ledger, change by change: which executions hold a place, and since when one is free.
fn claims(
    history: &History,
    (job, most): (&str, usize),
    rows: &BTreeMap<i64, &Execution>,
    plans: &BTreeMap<&str, &Plan>,
    verdict: &mut Verdict,
) {
    let mut held: BTreeSet<i64> = BTreeSet::new();
    // Those beyond their limits, and until when.
    let mut stuck: BTreeMap<i64, Millis> = BTreeMap::new();
    let mut full_until = Millis::MIN;
    for change in &history.changes {
        let Some(row) = rows.get(&change.execution) else { continue };
        let returned: Vec<(i64, Millis)> =
            stuck.iter().map(|(id, until)| (*id, *until)).filter(|(_, until)| *until <= change.at).collect();
        let was_full = held.len() + stuck.len() >= most;
        for (id, until) in returned {
            full_until = if was_full { full_until.max(until) } else { full_until };
            stuck.remove(&id);
        }
        let is_full = held.len() + stuck.len() >= most;
        match change.to.as_deref() {
            Some(to) if is_owned(to) => {
                if held.insert(row.id) {
                    if is_full {
                        verdict.blame(format!("{job}: claimed beside {most} that ran: {held:?} {row:?}"));
                    }
                    let may_overlap = plans.get(row.schedule.as_str()).is_some_and(|plan| !plan.exclusive);
                    let could = full_until.max(row.due).max(history.healed);
                    if may_overlap && change.at - could > history.bounds.freed {
                        let waited = change.at - could;
                        verdict
                            .blame(format!("{job}: waited {waited} ms for a place that was free: {row:?}"));
                    }
                }
            }
            to => {
                if to == Some("TIMED_OUT") {
                    stuck.insert(row.id, runs_until(history, row).max(change.at));
                }
                if held.remove(&row.id) && is_full {
                    full_until = change.at;
                }
            }
        }
    }
}

/// When the handler of one that ran out of time was gone: for those of a dead node, at any time.
fn runs_until(history: &History, row: &Execution) -> Millis {
    let own = history.effects.iter().rev().find(|it| it.execution == row.id && it.fence == row.fence);
    let is_known = !history.dead.contains(&row.node);
    own.filter(|_| is_known).and_then(|it| it.ended).unwrap_or(Millis::MIN)
}

/// What the handlers saw, but for those that were taken from their nodes as they ran.
fn runs(
    history: &History,
    (job, most): (&str, usize),
    rows: &BTreeMap<i64, &Execution>,
    verdict: &mut Verdict,
) {
    let is_own = |it: &&Effect| {
        let row = rows.get(&it.execution).filter(|row| row.fence == it.fence);
        row.is_some_and(|row| !history.dead.contains(&row.node))
    };
    let mut effects: Vec<&Effect> = history.effects.iter().filter(is_own).collect();
    effects.sort_by_key(|it| it.at);
    let mut running: Vec<&Effect> = Vec::new();
    for effect in effects {
        running.retain(|it| it.ended.is_some_and(|ended| ended > effect.at));
        if running.len() >= most {
            verdict.blame(format!("{job}: ran beside {most} others: {running:?} {effect:?}"));
        }
        running.push(effect);
    }
}
