//! What a sentence rests on.

use super::answer::Evidence;
use super::expected::{Expected, known as known_of};
use super::facts::{Facts, Plan};
use super::fate::Fate;
use super::holds::{Hold, holds};
use crate::api::words::{by_whom, counted, error, instant, known, node};
use crate::api::{AuditView, ExecutionView};
use crate::domain::{ExecutionState, MisfirePolicy, ScheduleField};

pub(super) fn evidence(facts: &Facts, fate: Fate, expected: Option<&Expected>) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    let fact = |what: String, known: String| Evidence { what, known, tells_payload: false };
    let mut add = |what: String, known: String| evidence.push(fact(what, known));
    for it in facts.attempts.iter().filter(|_| fate != Fate::NotDue) {
        add(format!("attempt {}", it.attempt), attempt(facts, it));
    }
    let last = facts.attempts.last();
    if matches!(fate, Fate::Waiting | Fate::WillBeSkipped) {
        let waiting = last.filter(|it| it.state == ExecutionState::Pending);
        for Hold { because, said, .. } in holds(facts, waiting) {
            add(because.word().to_owned(), said);
        }
        if let Some(rate) = facts.job.as_ref().and_then(|job| job.rate) {
            add(
                "rate".to_owned(),
                format!("its job may begin {} within {} ms", rate.count, rate.per.as_millis()),
            );
        }
    }
    if let Some(holder) = &facts.holder {
        add(format!("execution {}", holder.id), attempt(facts, holder));
    }
    if let Some(expected) = expected {
        add("expected".to_owned(), known_of(expected, facts.now));
    }
    if let Some(rerun) = &facts.rerun {
        add(format!("its rerun, execution {}", rerun.id), attempt(facts, rerun));
    }
    if let Some(Plan { view, misfire, .. }) = &facts.plan {
        let policy = misfire.map_or("unknown", MisfirePolicy::as_str);
        add("trigger".to_owned(), view.trigger.clone());
        add(
            "misfire policy".to_owned(),
            format!("{policy}, from {} ms on", view.misfire_threshold.as_millis()),
        );
        add(
            "schedule".to_owned(),
            format!("{}, next fire time {}", view.state, view.next.map_or("none".to_owned(), instant)),
        );
    }
    evidence.extend(facts.changes.iter().take(5).map(change));
    evidence
}

/// One entry of the audit in words.
fn change(it: &AuditView) -> Evidence {
    let states = format!("{} -> {}", it.was, it.became);
    let (made, whom) = (known(it.made), by_whom(it));
    Evidence {
        what: "audit".to_owned(),
        known: format!("{made}: {} {} {:?} by {whom}: {states}", it.verb, it.target_type, it.target),
        tells_payload: it.fields.contains(&ScheduleField::Payload),
    }
}

/// One row of the ledger in words.
fn attempt(facts: &Facts, it: &ExecutionView) -> String {
    let mut words = vec![it.state.to_string()];
    words.extend((!it.reason.is_empty()).then(|| it.reason.clone()));
    if let (Some(last), Some(first)) = (it.last_fire_time, it.fire_time) {
        words.push(format!(
            "{} from {} to {}",
            counted(it.count.cast_signed(), "occurrence"),
            instant(first),
            instant(last)
        ));
    }
    words.extend(it.node.as_deref().map(|id| node(Some(id), &facts.nodes)));
    for (what, at) in
        [("due", it.due), ("claimed", it.claimed), ("started", it.started), ("finished", it.finished)]
    {
        words.extend(at.map(|at| format!("{what} {}", instant(at))));
    }
    words.extend((!it.error.is_empty()).then(|| error(&it.error)));
    words.join(", ")
}
