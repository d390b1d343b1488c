//! What no node has claimed: it waits, is planned, or is not due.

use chrono::{DateTime, Utc};

use super::because::{Because, Who};
use super::ended::{made_for, nth};
use super::facts::{Facts, Plan};
use super::fate::Fate;
use super::holds::{holds, pauses};
use super::told::{Told, told};
use crate::api::ExecutionView;
use crate::api::words::{between, by_whom, instant, known, span};
use crate::domain::{MisfirePolicy, ScheduleState, Timestamp};
use crate::store::ledger::TriggerPeriod;

/// PENDING: its time has not come, or something holds it.
pub(super) fn waiting(facts: &Facts, last: &ExecutionView) -> Told {
    let after = nth(facts, last);
    if let Some(due) = last.due.filter(|due| *due > facts.now) {
        let left = span(due - facts.now);
        return told(
            Fate::Planned,
            pending(facts, last),
            format!("is due at {}, in {left}{after}", instant(due)),
        );
    }
    match holds(facts, Some(last)).into_iter().next() {
        Some(hold) => told(Fate::Waiting, hold.because, format!("waits: {}", hold.said)),
        None => {
            let since = between(last.due, Some(facts.now)).unwrap_or_default();
            let said = format!("has been due for {since}, and nothing that is known holds it{after}");
            told(Fate::Waiting, pending(facts, last), said)
        }
    }
}

/// Why it is PENDING.
fn pending(facts: &Facts, last: &ExecutionView) -> Because {
    match made_for(facts, last) {
        because if because.word() == last.reason => because,
        _ if last.reason.is_empty() => Because::Nothing,
        _ => Because::Pending { word: last.reason.clone() },
    }
}

/// The ledger has no row of that fire time.
pub(super) fn without_row(facts: &Facts) -> Told {
    let Some(at) = facts.at else { return told(Fate::Unknown, Because::Nothing, "is not in the ledger") };
    // Of a fixed delay the cursor alone tells it, and an interval's first one may lie before its schedule.
    if let Some(plan) = facts.plan.as_ref().filter(|plan| plan.view.next == Some(at)) {
        return if at > facts.now { to_come(facts, plan, at) } else { overdue(facts, plan, at) };
    }
    if let Some(told) = before_creation(facts, at) {
        return told;
    }
    if let Some((removal, again)) = facts.removal_before(at) {
        let again = again.map_or_else(String::new, |it| {
            format!(", and made again at {} by {}", known(it.made), by_whom(it))
        });
        let removed = format!("its schedule was removed by {} at {}", by_whom(removal), known(removal.made));
        let because = Because::Removed { by: Some(Who::of(removal)) };
        return told(Fate::NotDue, because, format!("does not run: {removed}{again}"));
    }
    let Some(plan) = &facts.plan else {
        let removal = facts.change("remove", |_| true);
        let because = Because::Removed { by: removal.map(Who::of) };
        let said =
            removal.map_or_else(String::new, |it| format!(" by {} at {}", by_whom(it), known(it.made)));
        let said = format!("is not in the ledger; its schedule was removed{said}");
        return told(Fate::Unknown, because, said);
    };
    if let Some(then) =
        facts.trigger_then(at).filter(|then| facts.fired_at(then.generation, at) == Some(false))
    {
        return not_due_then(then);
    }
    if let Some(edit) = facts.retimed_since(at).filter(|_| at <= facts.now) {
        let was = facts.trigger_then(at).map_or_else(|| "another".to_owned(), |then| then.when.describe());
        let said = format!(
            "is not in the ledger: its trigger was {was} until {}, when {} changed it",
            known(edit.made),
            by_whom(edit)
        );
        return told(Fate::Unknown, Because::Edited { by: Some(Who::of(edit)) }, said);
    }
    match facts.fires_at(at) {
        Some(false) => not_due(facts, plan, at),
        None if plan.timing.is_some() => {
            let said = "has no fixed fire time: each run's end says when the next is";
            told(Fate::NotDue, NO_FIRE_TIME, said)
        }
        None => told(Fate::NotDue, quarantined(plan), format!("has no fire time: {}", unreadable(plan))),
        Some(true) if at > facts.now => to_come(facts, plan, at),
        Some(true) => overdue(facts, plan, at),
    }
}

/// Unless the cursor stands there: a first fire time may lie before the schedule was made.
fn before_creation(facts: &Facts, at: DateTime<Utc>) -> Option<Told> {
    let is_planned = facts.plan.as_ref().is_some_and(|plan| plan.view.next.is_some_and(|next| next <= at));
    let creation = facts.creation().filter(|_| !is_planned)?;
    let made = creation.made.filter(|made| at < *made && at <= facts.now)?;
    let said =
        format!("did not run: {} made its schedule at {}, after that", by_whom(creation), instant(made));
    Some(told(Fate::NotDue, Because::NotMadeYet { by: Some(Who::of(creation)) }, said))
}

const NO_FIRE_TIME: Because = Because::NoFireTime { before: None, after: None };

fn quarantined(plan: &Plan) -> Because {
    Because::Quarantined { error: plan.view.reason.clone(), since: plan.view.quarantined }
}

/// `its schedule is in error since 2026-11-29 02:00:00.000 UTC: bad cron`
fn in_error(plan: &Plan) -> String {
    let since = plan.view.quarantined.map_or_else(String::new, |at| format!(" since {}", instant(at)));
    format!("its schedule is in error{since}: {}", plan.view.reason)
}

/// A row that says no trigger is in error, or will be.
fn unreadable(plan: &Plan) -> String {
    match plan.view.state.as_str() {
        "error" => in_error(plan),
        _ => "its row cannot be understood, and no node has put it into error yet".to_owned(),
    }
}

/// The trigger of then was another than that of now.
fn not_due_then(then: &TriggerPeriod) -> Told {
    let until = known(then.end.as_ref().and_then(|end| end.at.utc()));
    let trigger = then.when.describe();
    let said = format!("was not due: its trigger, {trigger} until {until}, has no fire time there");
    told(Fate::NotDue, NO_FIRE_TIME, said)
}

fn not_due(facts: &Facts, plan: &Plan, at: DateTime<Utc>) -> Told {
    let timing = plan.timing.as_ref();
    let after = timing.and_then(|timing| timing.after(at.timestamp_millis()));
    // What lies before its first fire time was another's.
    let first = facts.triggers.last().and_then(|period| period.first);
    let before = timing.and_then(|timing| timing.last_before(at.into()));
    let before = before.filter(|before| first.is_none_or(|first| first <= *before)).map(Timestamp::millis);
    let [before, after] = [before, after].map(|at| at.and_then(DateTime::from_timestamp_millis));
    let nearest = match (before, after) {
        (Some(before), Some(after)) => {
            format!("; the nearest are {} and {}", instant(before), instant(after))
        }
        (Some(before), None) => format!("; its last is {}", instant(before)),
        (None, Some(after)) => format!("; the next is {}", instant(after)),
        (None, None) => String::new(),
    };
    let said = format!("is not due: its trigger, {}, has no fire time there{nearest}", plan.view.trigger);
    told(Fate::NotDue, Because::NoFireTime { before, after }, said)
}

/// A fire time that has not come.
fn to_come(facts: &Facts, plan: &Plan, at: DateTime<Utc>) -> Told {
    let when = span(at - facts.now);
    match plan.view.state.as_str() {
        "active" | "paused" => {}
        "error" => {
            let said = format!("will not run: {}", in_error(plan));
            return told(Fate::NotDue, quarantined(plan), said);
        }
        state => {
            let because = Because::State { state: state.to_owned() };
            return told(Fate::NotDue, because, format!("will not run: its schedule is {state}"));
        }
    }
    if let Some(pause) = pauses(facts, true).into_iter().find(|it| it.until.is_none_or(|until| until > at)) {
        let said = format!("will be skipped in {when}, as things stand: {}", pause.said);
        return told(Fate::WillBeSkipped, pause.because, said);
    }
    if plan.view.next.is_some_and(|next| next > at) {
        let said = "is planned no more: the schedule has gone on to a later fire time";
        return told(Fate::Unknown, Because::Nothing, said);
    }
    let nobody = holds(facts, None).into_iter().find(|it| matches!(it.because, Because::NoNode { .. }));
    let but = nobody.map_or_else(String::new, |it| format!(", but {}", it.said));
    told(Fate::Planned, Because::Nothing, format!("will run in {when}{but}"))
}

/// A fire time that has passed, and the ledger has no row of it.
fn overdue(facts: &Facts, plan: &Plan, at: DateTime<Utc>) -> Told {
    let is_open = plan.view.next.is_some_and(|next| next <= at);
    if !is_open {
        let said = "is not in the ledger, though the cursor has passed it: retention has removed the row, or \
                    the cursor was moved by hand";
        return told(Fate::Unknown, Because::Nothing, said);
    }
    if plan.view.state == ScheduleState::Error {
        let said = format!("waits: {}", in_error(plan));
        return told(Fate::Waiting, quarantined(plan), said);
    }
    let hold = holds(facts, None).into_iter().next();
    if let Some(hold) = hold.as_ref().filter(|hold| hold.is_pause()) {
        let said = format!("was not run, and will be skipped when the pause ends: {}", hold.said);
        return told(Fate::Waiting, hold.because.clone(), said);
    }
    if let Some(policy) = misses(facts, plan, at) {
        let held = hold.map_or_else(String::new, |hold| format!("; {}", hold.said));
        let late = Some((facts.now - at).to_std().unwrap_or_default());
        let because = Because::Misfire { late, policy: Some(policy) };
        let policy = policy.as_str();
        let said = format!("was missed, and will be skipped by the misfire handler ({policy}){held}");
        return told(Fate::WillBeSkipped, because, said);
    }
    match hold {
        Some(hold) => told(Fate::Waiting, hold.because, format!("waits: {}", hold.said)),
        None => {
            let late = span(facts.now - at);
            told(
                Fate::Waiting,
                Because::Nothing,
                format!("has been due for {late}, and nothing that is known holds it"),
            )
        }
    }
}

/// The misfire policy by which it will not run, if it is missed by now.
fn misses(facts: &Facts, plan: &Plan, at: DateTime<Utc>) -> Option<MisfirePolicy> {
    let is_missed = (facts.now - at).to_std().is_ok_and(|late| late > plan.view.misfire_threshold);
    let now = facts.now.timestamp_millis();
    let is_last = || {
        let timing = plan.timing.as_ref().filter(|timing| timing.delay_ms().is_none());
        let next = timing.and_then(|timing| timing.after(at.timestamp_millis()));
        next.is_none_or(|next| next > now)
    };
    plan.misfire.filter(|policy| match policy {
        MisfirePolicy::DoNothing => is_missed,
        MisfirePolicy::FireOnce => is_missed && !is_last(),
        MisfirePolicy::FireAll => false,
    })
}
