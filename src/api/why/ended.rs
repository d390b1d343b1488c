//! What is told of an attempt that a node had, or that somebody cancelled.

use super::because::{Because, Who};
use super::facts::Facts;
use super::fate::Fate;
use super::late::{late, said};
use super::told::{Told, told};
use crate::api::words::{between, by, by_whom, counted, error, instant, known, node};
use crate::api::{AuditView, ExecutionView, JobView};
use crate::domain::{Cause, ExecutionState, Reason};
use crate::store::audit::CANCEL;
use crate::store::rerun::cancelled_rerun;

/// Why the attempt was made, if it is no first one that was planned, or enqueued.
pub(super) fn made_for(facts: &Facts, it: &ExecutionView) -> Because {
    let before = facts.attempts.iter().rev().find(|before| before.attempt + 1 == it.attempt);
    let after = before.map(|before| before.id);
    let who = |actor: &str, reason: &str| Who::named(actor, reason, None);
    match &it.cause {
        Cause::Planned | Cause::Enqueued => Because::Nothing,
        Cause::Retry => Because::Retry { after },
        Cause::Recovery => Because::Recovery { after, node: before.and_then(|before| before.node.clone()) },
        Cause::Other { word } => Because::Other { word: word.clone() },
        Cause::Misfire => facts.misfire(it.fire_time, it.claimed),
        Cause::ByHand { actor, reason } => Because::ByHand { by: who(actor, reason) },
        Cause::Rerun { actor, reason } => Because::Rerun { by: who(actor, reason) },
    }
}

/// ` (+3 ms), and took 1.2 s`.
pub(super) fn timing_of(facts: &Facts, run: &ExecutionView) -> String {
    let took =
        between(run.started, run.finished).map_or_else(String::new, |took| format!(", and took {took}"));
    lateness(facts, run) + &took
}

/// ` (+3 ms)`, or ` (+41.2 s: it waited 40.1 s for a seat of lane "slow")`.
fn lateness(facts: &Facts, run: &ExecutionView) -> String {
    let Some(by) = between(run.due, run.started) else { return String::new() };
    let why = late(facts, run).map_or_else(String::new, |late| said(&late));
    format!(" (+{by}{why})")
}

/// What an attempt that is not the first follows.
pub(super) fn nth(facts: &Facts, last: &ExecutionView) -> String {
    let before = facts.attempts.iter().rev().find(|it| it.attempt + 1 == last.attempt);
    let made_up = |cause: &Cause| match cause {
        Cause::Misfire => ", made up for after it was missed".to_owned(),
        Cause::ByHand { actor, reason } => format!(", because {} asked for it", by(actor, reason)),
        _ => String::new(),
    };
    match before {
        None => made_up(&last.cause),
        Some(before) => format!(", as attempt {} after {}", last.attempt, end_of(facts, before)),
    }
}

fn end_of(facts: &Facts, attempt: &ExecutionView) -> String {
    let (n, on) = (attempt.attempt, node(attempt.node.as_deref(), &facts.nodes));
    match attempt.state.known() {
        Some(ExecutionState::Abandoned) => format!("{on} died with attempt {n}"),
        Some(ExecutionState::Failed) => format!("attempt {n} failed on {on}: {}", error(&attempt.error)),
        Some(ExecutionState::TimedOut) => format!("attempt {n} ran out of time on {on}"),
        _ => format!("attempt {n} ended as {}", attempt.state),
    }
}

pub(super) fn running(facts: &Facts, last: &ExecutionView, on: &str) -> String {
    let since = last
        .started
        .map_or_else(|| "is about to begin".to_owned(), |at| format!("has run since {}", instant(at)));
    let late = lateness(facts, last);
    let gone =
        facts.nodes.iter().find(|it| Some(&it.id) == last.node.as_ref()).map_or_else(String::new, |it| {
            if it.ended.is_some() {
                ", which has ended: it will be taken back".to_owned()
            } else if facts.is_silent(it) {
                format!(", which has not been heard of since {}", known(it.last_beat))
            } else {
                String::new()
            }
        });
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
        (_, Some(most)) if last.failures >= most => {
            format!("{text}; none of its {most} retries is left")
        }
        _ => format!("{text}; no attempt follows"),
    }
}

pub(super) fn failed(facts: &Facts, last: &ExecutionView, on: &str) -> Told {
    let is = |reason: Reason| last.reason == reason.as_str();
    let because = if last.reason.is_empty() {
        Because::Nothing
    } else if is(Reason::GaveUp) {
        Because::GaveUp
    } else if is(Reason::AttemptsExhausted) {
        exhausted(facts, last)
    } else {
        Because::Other { word: last.reason.clone() }
    };
    let said = format!("failed on {on}{}: {}", nth(facts, last), failure(facts, last));
    told(Fate::Failed, because, said)
}

fn exhausted(facts: &Facts, last: &ExecutionView) -> Because {
    Because::AttemptsExhausted {
        node: last.node.clone(),
        most: facts.job.as_ref().map(|job| job.max_attempts),
    }
}

pub(super) fn timed_out(facts: &Facts, last: &ExecutionView, on: &str) -> Told {
    let began = last.started.map_or_else(String::new, |at| format!(", begun at {}", instant(at)));
    let stuck = if last.stuck { ": its handler has not returned" } else { "" };
    let (node, has_returned) = (last.node.clone(), !last.stuck);
    let because = Because::TimeLimit { node, since: last.started, has_returned };
    let said = format!("ran out of time on {on}{began}{stuck}{}", nth(facts, last));
    told(Fate::TimedOut, because, said)
}

pub(super) fn lost(facts: &Facts, last: &ExecutionView, on: &str) -> Told {
    let because = match last.reason == Reason::AttemptsExhausted.as_str() {
        true => exhausted(facts, last),
        false => Because::NodeDied { node: last.node.clone() },
    };
    let said = format!("was lost: {on} died while it ran there{}", no_more(facts, last));
    told(Fate::Abandoned, because, said)
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

pub(super) fn cancelled(facts: &Facts, last: &ExecutionView) -> Told {
    let ended = last.finished.map_or_else(String::new, |at| format!(" at {}", instant(at)));
    if last.reason == Reason::Removed.as_str() {
        let is_before = |it: &AuditView| it.made <= last.finished;
        let removal = facts.change("remove", is_before);
        let because = Because::Removed { by: removal.map(Who::of) };
        let removal = removal.map_or_else(String::new, |it| format!(" by {}", by_whom(it)));
        let said = format!("was cancelled{ended}: its schedule was removed{removal}");
        return told(Fate::Cancelled, because, said);
    }
    let whole = cancelled_rerun(last.origin) + ":";
    let order = facts.change(CANCEL, |it| it.target_type == "execution" || it.was.starts_with(&whole));
    let asked = Who::named(&last.cancel_asked_by, &last.cancel_asked_why, last.cancel_asked);
    let canceller = asked.or(order.map(Who::of));
    let who = match &canceller {
        Some(who) => by(&who.actor, &who.reason),
        None if last.started.is_some() => {
            "its handler, or somebody whom the audit no longer knows".to_owned()
        }
        None => "somebody whom the audit no longer knows".to_owned(),
    };
    let ran = if last.started.is_some() { "while it ran" } else { "before it began" };
    let said = format!("was cancelled {ran}{ended}, by {who}");
    told(Fate::Cancelled, Because::Cancelled { by: canceller }, said)
}
