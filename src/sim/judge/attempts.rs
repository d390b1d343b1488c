//! Attempts at an execution: in order, each for a reason, and each within its time limit.

use std::collections::BTreeMap;

use super::history::{Change, Effect, Execution, History, Millis, Plan, Verdict};

/// Attempts follow one another, each for a reason, and the last has ended.
pub fn attempts(history: &History, plan: &Plan, rows: &[&Execution], verdict: &mut Verdict) {
    let mut chains: BTreeMap<_, Vec<&Execution>> = BTreeMap::new();
    for row in rows {
        chains.entry((row.generation, row.origin, row.scheduled)).or_default().push(row);
    }
    for rows in chains.values_mut() {
        rows.sort_by_key(|row| row.attempt);
        let (mut deaths, mut failures) = (0, 0);
        for (n, row) in (1..).zip(rows.iter()) {
            deaths += u32::from(row.state == "ABANDONED");
            failures += u32::from(matches!(row.state.as_str(), "FAILED" | "TIMED_OUT"));
            if row.reason == "attempts exhausted" && deaths + 1 < plan.deaths {
                verdict.blame(format!("{}: given up too soon: {row:?}", plan.schedule));
            }
            let is_last = usize::try_from(n) == Ok(rows.len());
            let next = usize::try_from(n).ok().and_then(|next| rows.get(next));
            if row.attempt == n && next.is_some_and(|next| history.retries.contains(&next.id)) {
                continue;
            }
            if is_last && history.cancels.iter().any(|it| it.execution == row.id) {
                continue;
            }
            let again = match row.state.as_str() {
                "ABANDONED" => plan.recovers && deaths < plan.deaths,
                "FAILED" => {
                    let is_final = matches!(row.reason.as_str(), "attempts exhausted" | "gave up");
                    failures <= plan.retries && !is_final
                }
                "TIMED_OUT" => failures <= plan.retries && (!is_last || has_ended(history, row)),
                _ => false,
            };
            if row.attempt != n || again != (usize::try_from(n) != Ok(rows.len())) {
                verdict.blame(format!("{}: attempt {n} of {}: {row:?}", plan.schedule, rows.len()));
            }
        }
    }
}

/// Whether the handler of an execution that ran out of time returned, or was gone with its node, so long ago
/// that its retry must be there.
fn has_ended(history: &History, row: &Execution) -> bool {
    let own = history.last_run(row);
    let long_ago = |at: Millis| history.read - at.max(history.healed) > history.bounds.settled;
    match own.and_then(|it| it.ended) {
        Some(ended) => long_ago(ended),
        None => !history.live.contains(&row.node) && own.is_some_and(|it| long_ago(it.at)),
    }
}

/// A handler runs out of time no sooner than its limit says, and its retry waits until it has returned or its
/// node is gone.
pub fn limits(history: &History, verdict: &mut Verdict) {
    let plans: BTreeMap<&str, &Plan> =
        history.plans.iter().map(|plan| (plan.schedule.as_str(), plan)).collect();
    let made: BTreeMap<i64, Millis> =
        history.changes.iter().filter(|it| it.from.is_none()).map(|it| (it.execution, it.at)).collect();
    let begun: BTreeMap<_, &Effect> =
        history.effects.iter().map(|it| ((it.execution, it.fence), it)).collect();
    let mut chains: BTreeMap<_, BTreeMap<u32, &Execution>> = BTreeMap::new();
    for row in &history.executions {
        let chain = (&row.schedule, row.generation, row.origin, row.scheduled);
        chains.entry(chain).or_default().insert(row.attempt, row);
    }
    for row in &history.executions {
        let Some(plan) = plans.get(row.schedule.as_str()) else { continue };
        let Some(own) = begun.get(&(row.id, row.fence)) else { continue };
        let took = |until: Millis| until - own.at;
        if row.state == "TIMED_OUT" {
            let is_end = |it: &&Change| it.execution == row.id && it.to.as_deref() == Some("TIMED_OUT");
            let at = history.changes.iter().find(is_end).map(|it| it.at);
            let soon = |limit: Millis| {
                at.is_some_and(|at| took(at) + history.ahead(at) + history.bounds.early < limit)
            };
            if plan.limit.is_none_or(soon) {
                verdict.blame(format!("timed out, but not at its limit {:?}: {own:?} {row:?}", plan.limit));
            }
            let chain = (&row.schedule, row.generation, row.origin, row.scheduled);
            let next = chains.get(&chain).and_then(|chain| chain.get(&(row.attempt + 1)));
            let since = next.and_then(|next| made.get(&next.id));
            let runs_on = |at: Millis| own.ended.is_none_or(|ended| ended > at);
            if since.is_some_and(|at| runs_on(*at)) && history.live.contains(&row.node) {
                verdict.blame(format!("tried again while its handler ran on: {own:?} {row:?}"));
            }
        } else if matches!(row.state.as_str(), "SUCCEEDED" | "FAILED")
            && row.reason != "attempts exhausted"
            && own.committed.is_empty()
            && own.took.zip(plan.limit).is_some_and(|(took, limit)| took >= limit)
        {
            verdict.blame(format!(
                "answered beyond its limit {:?}, and it counted: {own:?} {row:?}",
                plan.limit
            ));
        } else if row.state == "RUNNING"
            && own.ended.is_none()
            && history.live.contains(&row.node)
            && plan.limit.is_some_and(|limit| {
                took(history.read) > limit + history.bounds.settled && own.at > history.healed
            })
        {
            verdict.blame(format!("still RUNNING beyond its limit {:?}: {own:?} {row:?}", plan.limit));
        }
    }
}

/// An async handler that is to end goes on for its grace at most.
pub fn graces(history: &History, verdict: &mut Verdict) {
    let outlasts = |it: &&Effect| it.overstayed.is_some_and(|span| span > history.bounds.grace);
    for effect in history.effects.iter().filter(outlasts) {
        verdict.blame(format!("went on beyond its grace: {effect:?}"));
    }
}
