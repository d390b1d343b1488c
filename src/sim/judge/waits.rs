//! What a claim that came late says of what it waited for: a seat that its job may want, no longer than it
//! was late, and, where nothing else was in its way, always.

use std::collections::BTreeMap;

use super::history::{Execution, History, Millis, Plan, Verdict, is_owned};

pub(super) fn waits(history: &History, verdict: &mut Verdict) {
    let plans: BTreeMap<&str, &Plan> =
        history.plans.iter().map(|plan| (plan.schedule.as_str(), plan)).collect();
    let claims = claims(history);
    for row in &history.executions {
        let Some(plan) = plans.get(row.schedule.as_str()) else { continue };
        // What was handed back keeps the note of an earlier claim.
        let claim = claims.get(&row.id).filter(|claims| claims.len() == 1).map(|claims| claims[0]);
        match (&row.waited, claim) {
            (Some(waited), claim) => {
                verdict.waited += 1;
                let late = claim.and(row.claimed).map(|claimed| claimed - row.due);
                if let Some(problem) = problem(history, (plan, row), waited, late) {
                    verdict.blame(format!("{problem}: {row:?}"));
                }
            }
            (None, Some(claimed)) => {
                let is_late = |since: Millis| history.bounds.tells.is_some_and(|most| claimed - since > most);
                if is_late(row.due) && is_late(known(row, &claims, history)) {
                    verdict.blame(format!("claimed late, and it does not say what it waited for: {row:?}"));
                }
            }
            (None, None) => {}
        }
    }
}

/// When each execution was claimed.
fn claims(history: &History) -> BTreeMap<i64, Vec<Millis>> {
    let is_claim =
        |to: Option<&str>, from: Option<&str>| to.is_some_and(is_owned) && !from.is_some_and(is_owned);
    let mut claims: BTreeMap<i64, Vec<Millis>> = BTreeMap::new();
    for change in history.changes.iter().filter(|it| is_claim(it.to.as_deref(), it.from.as_deref())) {
        claims.entry(change.execution).or_default().push(change.at);
    }
    claims
}

/// Since when any node may have had it in its plan: it was due and there, and what its schedule fired before
/// had been claimed and had ended.
fn known(row: &Execution, claims: &BTreeMap<i64, Vec<Millis>>, history: &History) -> Millis {
    let others = history.executions.iter().filter(|it| it.schedule == row.schedule && it.id != row.id);
    let before = others.filter(|it| it.claimed <= row.claimed).flat_map(|it| {
        let over = history.last_run(it).and_then(|run| run.ended);
        claims.get(&it.id).into_iter().flatten().copied().chain(over).chain(it.finished)
    });
    let made = history.changes.iter().find(|it| it.execution == row.id).map(|it| it.at);
    let made = made.filter(|_| row.origin != 0 || row.attempt > 1 || row.reason == "misfire");
    before.chain(made).fold(row.due, Millis::max)
}

/// What is wrong with what an execution says that was claimed so late, if it was claimed once.
fn problem(
    history: &History,
    (plan, row): (&Plan, &Execution),
    waited: &str,
    late: Option<Millis>,
) -> Option<&'static str> {
    let Some((seat, span)) = waited.rsplit_once(' ') else {
        return Some("nobody can read what it waited for");
    };
    let Ok(span) = span.parse::<Millis>() else { return Some("nobody can read how long it waited") };
    let (of_job, of_group) = (plan.concurrency, plan.group_concurrency);
    // An earlier claim was perhaps another node's.
    let is_its = |(node, job): &(String, String)| *job == plan.job && (late.is_none() || *node == row.node);
    let mut lanes =
        history.lanes.iter().filter(|(key, _)| is_its(key)).flat_map(|(_, lanes)| lanes).peekable();
    let may_want = match seat {
        "job" => of_job.most.is_some(),
        "job rate" => of_job.rate.is_some(),
        "group" => of_group.most.is_some() && row.group.is_some(),
        "group rate" => of_group.rate.is_some() && row.group.is_some(),
        _ => {
            let lane = seat.strip_prefix("lane ");
            lane.is_some_and(|lane| lanes.peek().is_none() || lanes.any(|it| it == lane))
        }
    };
    if !may_want {
        return Some("it waited for a seat that its job does not want");
    }
    // Between the decision and its claim a node may have learnt of another clock.
    let early = if history.bounds.tells.is_some() { 0 } else { history.bounds.early };
    late.is_some_and(|late| span > late + early).then_some("it says that it waited longer than it was late")
}
