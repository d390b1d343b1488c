//! The answer: pure, from the facts.

use chrono::{DateTime, Utc};

use super::answer::{Evidence, Fate, Why};
use super::facts::{Facts, Plan};
use super::holds::{Hold, holds, pauses};
use crate::api::words::{between, by, by_whom, counted, error, instant, known, node, span};
use crate::api::{AuditView, ExecutionView, JobView};
use crate::domain::{ExecutionState, Reason, Timestamp};
use crate::store::audit::CANCEL;
use crate::store::enqueue::QUEUE_PREFIX;
use crate::store::ledger::TriggerPeriod;
use crate::store::rerun::{BACKFILL, RERUN, cancelled_rerun};

pub(super) fn explain(facts: &Facts) -> Why {
    let (fate, reason, predicate) = match facts.attempts.last() {
        Some(last) if stands_for(facts, last) => of_execution(facts, last),
        _ => without_row(facts),
    };
    let is_of_it = fate != Fate::NotDue;
    Why {
        fate,
        reason,
        sentence: format!("{} {predicate}{}", subject(facts), rerun(facts)),
        executions: facts.attempts.iter().filter(|_| is_of_it).map(|it| it.id).collect(),
        evidence: evidence(facts, fate),
    }
}

/// What became of it, why in one word, and the sentence without its subject.
type Told = (Fate, String, String);

fn told(fate: Fate, reason: &str, predicate: impl Into<String>) -> Told {
    (fate, reason.to_owned(), predicate.into())
}

fn subject(facts: &Facts) -> String {
    let last = facts.attempts.last();
    match (facts.name.strip_prefix(QUEUE_PREFIX), last) {
        (Some(job), Some(last)) => format!("execution {} of job {job:?}", last.id),
        (_, Some(last)) if is_rerun(facts) => {
            let who = facts.attempts.first().map_or_else(String::new, |it| by(&it.asked_by, &it.asked_why));
            let at = known(last.fire_time);
            format!("execution {}, for which {who} had {:?} of {at} run again,", last.id, facts.name)
        }
        (_, Some(last)) if last.origin != 0 => format!("execution {} of {:?}", last.id, facts.name),
        (_, last) => {
            let at = facts.at.or_else(|| last.and_then(|it| it.fire_time));
            format!("{:?} of {}", facts.name, known(at))
        }
    }
}

/// Whether the executions are those of a rerun.
fn is_rerun(facts: &Facts) -> bool {
    facts.attempts.first().is_some_and(|it| it.cause == Reason::Rerun.as_str())
}

/// What has become of the occurrence since: its last rerun.
fn rerun(facts: &Facts) -> String {
    let Some(rerun) = &facts.rerun else { return String::new() };
    let ended = rerun.finished.map_or_else(String::new, |at| format!(" at {}", instant(at)));
    let who = facts.change(RERUN, |it| it.id == rerun.origin);
    let who = who.or(facts.change(BACKFILL, |it| it.id == rerun.origin)).map(by_whom);
    let who = who.unwrap_or_else(|| "somebody whom the audit no longer knows".to_owned());
    let became = match rerun.state.parse::<ExecutionState>() {
        Ok(ExecutionState::Succeeded) => format!("succeeded{ended}"),
        Ok(ExecutionState::Pending | ExecutionState::Claimed) => "waits".to_owned(),
        Ok(ExecutionState::Running) => "runs".to_owned(),
        _ => format!("ended as {}{ended}", rerun.state),
    };
    format!("; {who} had it run again as execution {}, which {became}", rerun.id)
}

/// Whether this row tells of the instant that was asked for. A span has instants between its fire times.
fn stands_for(facts: &Facts, row: &ExecutionView) -> bool {
    let Some(at) = facts.at else { return true };
    let is_end = row.fire_time == Some(at) || row.until == Some(at);
    let unknown = || facts.fires_at(at) != Some(false) || facts.retimed_since(at).is_some();
    is_end || facts.fired_at(row.generation, at).unwrap_or_else(unknown)
}

fn of_execution(facts: &Facts, last: &ExecutionView) -> Told {
    use ExecutionState::*;
    let on = node(&last.node, &facts.nodes);
    let reason = if last.attempt > 1 || last.cause != "planned" { last.cause.as_str() } else { "" };
    let reason = if reason == Reason::Enqueued.as_str() { "" } else { reason };
    match last.state.parse::<ExecutionState>() {
        Ok(Succeeded) => {
            told(Fate::Succeeded, reason, format!("ran on {on}{}{}", timing_of(last), nth(facts, last)))
        }
        Ok(Running) => told(Fate::Running, reason, running(facts, last, &on) + &nth(facts, last)),
        Ok(Claimed) => told(Fate::Running, reason, format!("was claimed by {on} and is about to begin")),
        Ok(Failed) => told(
            Fate::Failed,
            &last.reason,
            format!("failed on {on}{}: {}", nth(facts, last), failure(facts, last)),
        ),
        Ok(TimedOut) => told(Fate::TimedOut, "time limit", timed_out(last, &on) + &nth(facts, last)),
        Ok(Abandoned) => told(
            Fate::Abandoned,
            &last.reason,
            format!("was lost: {on} died while it ran there{}", no_more(facts, last)),
        ),
        Ok(Cancelled) => told(Fate::Cancelled, &last.reason, cancelled(facts, last)),
        Ok(Skipped) => told(Fate::Skipped, &last.reason, format!("was skipped: {}", skipped(facts, last))),
        Ok(Withdrawn) => told(Fate::Withdrawn, &last.reason, withdrawn(facts, last)),
        Ok(Pending) => waiting(facts, last),
        Err(_) => told(Fate::Unknown, "", format!("is in a state that nobody knows: {:?}", last.state)),
    }
}

/// ` (+3 ms), and took 1.2 s`.
fn timing_of(run: &ExecutionView) -> String {
    let late = between(run.due, run.started).map_or_else(String::new, |late| format!(" (+{late})"));
    let took =
        between(run.started, run.finished).map_or_else(String::new, |took| format!(", and took {took}"));
    late + &took
}

/// What an attempt that is not the first follows.
fn nth(facts: &Facts, last: &ExecutionView) -> String {
    let before = facts.attempts.iter().rev().find(|it| it.attempt + 1 == last.attempt);
    let made_up = |cause: &str| match cause {
        "misfire" => ", made up for after it was missed".to_owned(),
        "by hand" => format!(", because {} asked for it", by(&last.asked_by, &last.asked_why)),
        _ => String::new(),
    };
    match before {
        None => made_up(&last.cause),
        Some(before) => format!(", as attempt {} after {}", last.attempt, end_of(facts, before)),
    }
}

fn end_of(facts: &Facts, attempt: &ExecutionView) -> String {
    let (n, on) = (attempt.attempt, node(&attempt.node, &facts.nodes));
    match attempt.state.parse::<ExecutionState>() {
        Ok(ExecutionState::Abandoned) => format!("{on} died with attempt {n}"),
        Ok(ExecutionState::Failed) => format!("attempt {n} failed on {on}: {}", error(&attempt.error)),
        Ok(ExecutionState::TimedOut) => format!("attempt {n} ran out of time on {on}"),
        _ => format!("attempt {n} ended as {}", attempt.state),
    }
}

fn running(facts: &Facts, last: &ExecutionView, on: &str) -> String {
    let since = last
        .started
        .map_or_else(|| "is about to begin".to_owned(), |at| format!("has run since {}", instant(at)));
    let late = between(last.due, last.started).map_or_else(String::new, |late| format!(" (+{late})"));
    let is_gone = facts.nodes.iter().any(|it| it.id == last.node && it.ended.is_some());
    let gone = if is_gone { ", which has ended: it will be taken back" } else { "" };
    let asked = last.cancel_asked.map_or_else(String::new, |at| {
        let who = by(&last.cancel_asked_by, &last.cancel_asked_why);
        format!(", and {who} asked for its end at {}", instant(at))
    });
    format!("{since}{late} on {on}{gone}{asked}")
}

fn failure(facts: &Facts, last: &ExecutionView) -> String {
    let text = error(&last.error);
    let text = if text.is_empty() { "it told no error".to_owned() } else { text };
    let retries = facts.job.as_ref().map(|job| job.max_retries);
    match (last.reason.as_str(), retries) {
        ("gave up", _) => format!("{text}; its handler said that no retry would help"),
        (_, Some(0)) => format!("{text}; its job has no retries"),
        (_, Some(1)) if last.failures >= 1 => format!("{text}; its only retry has failed"),
        (_, Some(most)) if last.failures >= i64::from(most) => {
            format!("{text}; none of its {most} retries is left")
        }
        _ => format!("{text}; no attempt follows"),
    }
}

fn timed_out(last: &ExecutionView, on: &str) -> String {
    let began = last.started.map_or_else(String::new, |at| format!(", begun at {}", instant(at)));
    let stuck = if last.stuck { ": its handler has not returned" } else { "" };
    format!("ran out of time on {on}{began}{stuck}")
}

fn no_more(facts: &Facts, last: &ExecutionView) -> String {
    let recovers = facts.job.as_ref().map(|job: &JobView| (job.recover, job.max_attempts));
    match recovers {
        Some((false, _)) => ", and its job is not run again after that".to_owned(),
        Some((true, most)) if last.reason == Reason::AttemptsExhausted.as_str() => {
            format!(
                ", as attempt {}: its job allows {} that cost their nodes",
                last.attempt,
                counted(most.into(), "attempt")
            )
        }
        _ => String::new(),
    }
}

fn cancelled(facts: &Facts, last: &ExecutionView) -> String {
    let ended = last.finished.map_or_else(String::new, |at| format!(" at {}", instant(at)));
    if last.reason == Reason::Removed.as_str() {
        let is_before = |it: &AuditView| it.made <= last.finished;
        let removal = facts.change("remove", is_before);
        let removal = removal.map_or_else(String::new, |it| format!(" by {}", by_whom(it)));
        return format!("was cancelled{ended}: its schedule was removed{removal}");
    }
    let whole = cancelled_rerun(last.origin) + ":";
    let order = facts.change(CANCEL, |it| it.target_type == "execution" || it.was.starts_with(&whole));
    let who = match (last.cancel_asked_by.as_str(), order) {
        ("", Some(order)) => by_whom(order),
        ("", None) if last.started.is_some() => {
            "its handler, or somebody whom the audit no longer knows".to_owned()
        }
        ("", None) => "somebody whom the audit no longer knows".to_owned(),
        (actor, _) => by(actor, &last.cancel_asked_why),
    };
    let ran = if last.started.is_some() { "while it ran" } else { "before it began" };
    format!("was cancelled {ran}{ended}, by {who}")
}

fn skipped(facts: &Facts, last: &ExecutionView) -> String {
    let at = facts.at.or(last.fire_time);
    let holder = || {
        let id = last.holder.map_or_else(|| "another execution".to_owned(), |id| format!("execution {id}"));
        facts.holder.as_ref().map_or(id.clone(), |it| format!("{id} of {}", known(it.fire_time)))
    };
    let is_reason = |reason: Reason| last.reason == reason.as_str();
    if is_reason(Reason::Paused) {
        let nobody = || "it was paused, by somebody whom the audit does not know".to_owned();
        return pause_of(facts, last).unwrap_or_else(nobody);
    }
    if is_reason(Reason::Overlap) {
        let ended = facts.holder.as_ref().and_then(|it| it.finished);
        let ended =
            ended.map_or_else(|| ", and has not yet".to_owned(), |at| format!(" before {}", instant(at)));
        return format!("{} had not ended{ended}, and executions of it must not overlap", holder());
    }
    if is_reason(Reason::HolderLate) {
        return format!("{}, which was due before, had not begun", holder());
    }
    if is_reason(Reason::Misfire) {
        let late = between(at, last.finished).map_or_else(String::new, |late| format!(" by {late}"));
        // The policy of now, unless it was another then.
        let is_later = |it: &AuditView| it.made > last.finished && it.was.contains("misfire=");
        let plan = facts.plan.as_ref().filter(|_| facts.definition(is_later).is_none());
        let policy = plan.map(|plan| plan.misfire.as_str()).unwrap_or_default();
        let rule = match policy {
            "FIRE_ONCE" => ": of what is missed the latest alone runs (FIRE_ONCE)",
            "DO_NOTHING" => ": what is missed does not run (DO_NOTHING)",
            "FIRE_ALL" => ": more was missed than is made up for (FIRE_ALL)",
            _ => "",
        };
        return format!("it was missed{late}{rule}");
    }
    if is_reason(Reason::ByHand) {
        let named = last.fire_time.map(|at| format!("next {at}"));
        let is_it = |it: &AuditView| Some(&it.was) == named.as_ref();
        let who = facts.change("skip", is_it).map_or_else(|| "somebody".to_owned(), by_whom);
        return format!("{who} skipped it");
    }
    match last.reason.as_str() {
        "superseded" => "a later repair took its place".to_owned(),
        "" => "the ledger does not say why".to_owned(),
        other => other.to_owned(),
    }
}

/// The pause that held it until its row was written.
fn pause_of(facts: &Facts, last: &ExecutionView) -> Option<String> {
    let at = facts.at.or(last.fire_time);
    let (begin, end) = facts.pause_at(at, last.finished)?;
    let (what, who) = (format!("{} {:?}", begin.target_type, begin.target), by_whom(begin));
    let until = end.map_or_else(String::new, |end| format!(" until {}", known(end.made)));
    Some(match begin.made <= at {
        true => format!("{what} was paused by {who} from {}{until}", known(begin.made)),
        false => {
            let since = known(begin.made);
            format!("it was due and not claimed when {what} was paused by {who}, from {since}{until}")
        }
    })
}

/// WITHDRAWN: its holder is the audit's entry of the change.
fn withdrawn(facts: &Facts, last: &ExecutionView) -> String {
    let change = facts.changes.iter().find(|it| Some(it.id) == last.holder);
    let who = change.map_or_else(|| "somebody whom the audit no longer knows".to_owned(), by_whom);
    let what = match last.reason == Reason::Removed.as_str() {
        true => "removed its schedule",
        false => "changed its trigger",
    };
    let pause = pause_of(facts, last).map_or_else(String::new, |pause| format!("; {pause}"));
    format!("was withdrawn: {who} {what} at {}, before a node had claimed it{pause}", known(last.finished))
}

/// PENDING: its time has not come, or something holds it.
fn waiting(facts: &Facts, last: &ExecutionView) -> Told {
    let after = nth(facts, last);
    if let Some(due) = last.due.filter(|due| *due > facts.now) {
        let left = span(due - facts.now);
        return told(Fate::Planned, &last.reason, format!("is due at {}, in {left}{after}", instant(due)));
    }
    match holds(facts, Some(last)).into_iter().next() {
        Some(Hold { reason, said, .. }) => told(Fate::Waiting, reason, format!("waits: {said}")),
        None => {
            let since = between(last.due, Some(facts.now)).unwrap_or_default();
            let said = format!("has been due for {since}, and nothing that is known holds it{after}");
            told(Fate::Waiting, &last.reason, said)
        }
    }
}

/// The ledger has no row of that fire time.
fn without_row(facts: &Facts) -> Told {
    let Some(at) = facts.at else { return told(Fate::Unknown, "", "is not in the ledger") };
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
        return told(Fate::NotDue, "removed", format!("does not run: {removed}{again}"));
    }
    let Some(plan) = &facts.plan else {
        let removal = facts.change("remove", |_| true);
        let said =
            removal.map_or_else(String::new, |it| format!(" by {} at {}", by_whom(it), known(it.made)));
        let said = format!("is not in the ledger; its schedule was removed{said}");
        return told(Fate::Unknown, "removed", said);
    };
    if let Some(then) =
        facts.trigger_then(at).filter(|then| facts.fired_at(then.generation, at) == Some(false))
    {
        return not_due_then(then);
    }
    if let Some(edit) = facts.retimed_since(at).filter(|_| at <= facts.now) {
        let was = edit.was.split(", ").next().unwrap_or_default();
        let said = format!(
            "is not in the ledger: its trigger was {was} until {}, when {} changed it",
            known(edit.made),
            by_whom(edit)
        );
        return told(Fate::Unknown, "edited", said);
    }
    match facts.fires_at(at) {
        Some(false) => not_due(facts, plan, at),
        None if plan.timing.is_some() => {
            let said = "has no fixed fire time: each run's end says when the next is";
            told(Fate::NotDue, "no fire time", said)
        }
        None => told(Fate::NotDue, "error", format!("has no fire time: {}", plan.view.reason)),
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
    Some(told(Fate::NotDue, "not made yet", said))
}

/// The trigger of then was another than that of now.
fn not_due_then(then: &TriggerPeriod) -> Told {
    let until = known(then.end.as_ref().and_then(|end| end.at.utc()));
    let trigger = then.when.describe();
    let said = format!("was not due: its trigger, {trigger} until {until}, has no fire time there");
    told(Fate::NotDue, "no fire time", said)
}

fn not_due(facts: &Facts, plan: &Plan, at: DateTime<Utc>) -> Told {
    let timing = plan.timing.as_ref();
    let after = timing.and_then(|timing| timing.after(at.timestamp_millis()));
    // What lies before its first fire time was another's.
    let first = facts.triggers.last().and_then(|period| period.first);
    let before = timing.and_then(|timing| timing.last_before(at.into()));
    let before = before.filter(|before| first.is_none_or(|first| first <= *before)).map(Timestamp::millis);
    let said = |at: Option<i64>| at.and_then(DateTime::from_timestamp_millis).map(instant);
    let nearest = match (said(before), said(after)) {
        (Some(before), Some(after)) => format!("; the nearest are {before} and {after}"),
        (Some(before), None) => format!("; its last is {before}"),
        (None, Some(after)) => format!("; the next is {after}"),
        (None, None) => String::new(),
    };
    let said = format!("is not due: its trigger, {}, has no fire time there{nearest}", plan.view.trigger);
    told(Fate::NotDue, "no fire time", said)
}

/// A fire time that has not come.
fn to_come(facts: &Facts, plan: &Plan, at: DateTime<Utc>) -> Told {
    let when = span(at - facts.now);
    match plan.view.state.as_str() {
        "active" | "paused" => {}
        "error" => {
            let said = format!("will not run: its schedule is in error: {}", plan.view.reason);
            return told(Fate::NotDue, "error", said);
        }
        state => return told(Fate::NotDue, state, format!("will not run: its schedule is {state}")),
    }
    if let Some(pause) = pauses(facts, true).into_iter().find(|it| it.until.is_none_or(|until| until > at)) {
        let said = format!("will be skipped in {when}, as things stand: {}", pause.said);
        return told(Fate::WillBeSkipped, "paused", said);
    }
    if plan.view.next.is_some_and(|next| next > at) {
        let said = "is planned no more: the schedule has gone on to a later fire time";
        return told(Fate::Unknown, "", said);
    }
    let nobody = holds(facts, None).into_iter().find(|it| it.reason == "no node");
    let but = nobody.map_or_else(String::new, |it| format!(", but {}", it.said));
    told(Fate::Planned, "", format!("will run in {when}{but}"))
}

/// A fire time that has passed, and the ledger has no row of it.
fn overdue(facts: &Facts, plan: &Plan, at: DateTime<Utc>) -> Told {
    let is_open = plan.view.next.is_some_and(|next| next <= at);
    if !is_open {
        let said = "is not in the ledger, though the cursor has passed it: retention has removed the row, or \
                    the cursor was moved by hand";
        return told(Fate::Unknown, "", said);
    }
    if plan.view.state == "error" {
        return told(
            Fate::Waiting,
            "error",
            format!("waits: its schedule is in error: {}", plan.view.reason),
        );
    }
    let hold = holds(facts, None).into_iter().next();
    if let Some(hold) = hold.as_ref().filter(|hold| hold.reason == "paused") {
        let said = format!("was not run, and will be skipped when the pause ends: {}", hold.said);
        return told(Fate::Waiting, "paused", said);
    }
    if let Some(policy) = misses(facts, plan, at) {
        let held = hold.map_or_else(String::new, |hold| format!("; {}", hold.said));
        let said = format!("was missed, and will be skipped by the misfire handler ({policy}){held}");
        return told(Fate::WillBeSkipped, "misfire", said);
    }
    match hold {
        Some(hold) => told(Fate::Waiting, hold.reason, format!("waits: {}", hold.said)),
        None => {
            let late = span(facts.now - at);
            told(Fate::Waiting, "", format!("has been due for {late}, and nothing that is known holds it"))
        }
    }
}

/// The misfire policy by which it will not run, if it is missed by now.
fn misses<'a>(facts: &Facts, plan: &'a Plan, at: DateTime<Utc>) -> Option<&'a str> {
    let is_missed = (facts.now - at).num_milliseconds() > plan.view.misfire_threshold;
    let now = facts.now.timestamp_millis();
    let is_last = || {
        let timing = plan.timing.as_ref().filter(|timing| timing.delay_ms().is_none());
        let next = timing.and_then(|timing| timing.after(at.timestamp_millis()));
        next.is_none_or(|next| next > now)
    };
    let policy = plan.misfire.as_str();
    (is_missed && (policy == "DO_NOTHING" || policy == "FIRE_ONCE" && !is_last())).then_some(policy)
}

fn evidence(facts: &Facts, fate: Fate) -> Vec<Evidence> {
    let mut evidence = Vec::new();
    let mut add = |what: String, known: String| evidence.push(Evidence { what, known });
    for it in facts.attempts.iter().filter(|_| fate != Fate::NotDue) {
        add(format!("attempt {}", it.attempt), attempt(facts, it));
    }
    let last = facts.attempts.last();
    if matches!(fate, Fate::Waiting | Fate::WillBeSkipped) {
        let waiting = last.filter(|it| it.state == ExecutionState::Pending.as_str());
        for Hold { reason, said, .. } in holds(facts, waiting) {
            add(reason.to_owned(), said);
        }
        if let Some(rate) = facts.job.as_ref().and_then(|job| job.rate) {
            add("rate".to_owned(), format!("its job may begin {} within {} ms", rate.count, rate.per));
        }
    }
    if let Some(holder) = &facts.holder {
        add(format!("execution {}", holder.id), attempt(facts, holder));
    }
    if let Some(rerun) = &facts.rerun {
        add(format!("its rerun, execution {}", rerun.id), attempt(facts, rerun));
    }
    if let Some(Plan { view, misfire, .. }) = &facts.plan {
        add("trigger".to_owned(), view.trigger.clone());
        add("misfire policy".to_owned(), format!("{misfire}, from {} ms on", view.misfire_threshold));
        add(
            "schedule".to_owned(),
            format!("{}, next fire time {}", view.state, view.next.map_or("none".to_owned(), instant)),
        );
    }
    for it in facts.changes.iter().take(5) {
        let states = format!("{} -> {}", it.was, it.became);
        add(
            "audit".to_owned(),
            format!(
                "{}: {} {} {:?} by {}: {states}",
                known(it.made),
                it.verb,
                it.target_type,
                it.target,
                by_whom(it)
            ),
        );
    }
    evidence
}

/// One row of the ledger in words.
fn attempt(facts: &Facts, it: &ExecutionView) -> String {
    let mut words = vec![it.state.clone()];
    words.extend((!it.reason.is_empty()).then(|| it.reason.clone()));
    if let (Some(until), Some(from)) = (it.until, it.fire_time) {
        words.push(format!(
            "{} from {} to {}",
            counted(it.count, "occurrence"),
            instant(from),
            instant(until)
        ));
    }
    words.extend((!it.node.is_empty()).then(|| node(&it.node, &facts.nodes)));
    for (what, at) in
        [("due", it.due), ("claimed", it.claimed), ("started", it.started), ("finished", it.finished)]
    {
        words.extend(at.map(|at| format!("{what} {}", instant(at))));
    }
    words.extend((!it.error.is_empty()).then(|| error(&it.error)));
    words.join(", ")
}
