//! The answer: pure, from the facts.

use super::answer::Why;
use super::because::Because;
use super::ended::{cancelled, failed, lost, made_for, nth, running, timed_out, timing_of};
use super::evidence::evidence;
use super::expected::expected;
use super::facts::Facts;
use super::fate::Fate;
use super::late::late;
use super::skipped::{skipped, withdrawn};
use super::told::{Told, told};
use super::unclaimed::{waiting, without_row};
use crate::api::ExecutionView;
use crate::api::words::{by, by_whom, instant, known, node};
use crate::domain::{Cause, ExecutionState};
use crate::store::enqueue::QUEUE_PREFIX;
use crate::store::rerun::{BACKFILL, RERUN};

pub(super) fn explain(facts: &Facts) -> Why {
    let (fate, because, predicate) = match facts.attempts.last() {
        Some(last) if stands_for(facts, last) => of_execution(facts, last),
        _ => without_row(facts),
    };
    let is_of_it = fate != Fate::NotDue;
    let expected = expected(facts, fate, &because);
    Why {
        at: facts.at.or_else(|| facts.attempts.last().and_then(|it| it.fire_time)),
        fate,
        reason: because.word().to_owned(),
        because,
        late: facts.attempts.last().filter(|_| is_of_it).and_then(|last| late(facts, last)),
        sentence: format!("{} {predicate}{}", subject(facts), rerun(facts)),
        executions: facts.attempts.iter().filter(|_| is_of_it).map(|it| it.id).collect(),
        evidence: evidence(facts, fate, expected.as_ref()),
        expected,
    }
}

fn subject(facts: &Facts) -> String {
    let last = facts.attempts.last();
    match (facts.name.strip_prefix(QUEUE_PREFIX), last) {
        (Some(job), Some(last)) => format!("execution {} of job {job:?}", last.id),
        (_, Some(last)) if is_rerun(facts) => {
            let who = facts.attempts.first().and_then(|it| it.cause.asked());
            let who = who.map_or_else(String::new, |(actor, reason)| by(actor, reason));
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
    facts.attempts.first().is_some_and(|it| matches!(it.cause, Cause::Rerun { .. }))
}

/// What has become of the occurrence since: its last rerun.
fn rerun(facts: &Facts) -> String {
    let Some(rerun) = &facts.rerun else { return String::new() };
    let ended = rerun.finished.map_or_else(String::new, |at| format!(" at {}", instant(at)));
    let who = facts.change(RERUN, |it| it.id == rerun.origin);
    let who = who.or(facts.change(BACKFILL, |it| it.id == rerun.origin)).map(by_whom);
    let who = who.unwrap_or_else(|| "somebody whom the audit no longer knows".to_owned());
    let became = match rerun.state.known() {
        Some(ExecutionState::Succeeded) => format!("succeeded{ended}"),
        Some(ExecutionState::Pending | ExecutionState::Claimed) => "waits".to_owned(),
        Some(ExecutionState::Running) => "runs".to_owned(),
        _ => format!("ended as {}{ended}", rerun.state),
    };
    format!("; {who} had it run again as execution {}, which {became}", rerun.id)
}

/// Whether this row tells of the instant that was asked for. A span has instants between its fire times.
fn stands_for(facts: &Facts, row: &ExecutionView) -> bool {
    let Some(at) = facts.at else { return true };
    let is_end = row.fire_time == Some(at) || row.last_fire_time == Some(at);
    let unknown = || facts.fires_at(at) != Some(false) || facts.retimed_since(at).is_some();
    is_end || facts.fired_at(row.generation, at).unwrap_or_else(unknown)
}

fn of_execution(facts: &Facts, last: &ExecutionView) -> Told {
    use ExecutionState::*;
    let on = node(last.node.as_deref(), &facts.nodes);
    let made = || made_for(facts, last);
    match last.state.known() {
        Some(Succeeded) => told(
            Fate::Succeeded,
            made(),
            format!("ran on {on}{}{}", timing_of(facts, last), nth(facts, last)),
        ),
        Some(Running) => told(Fate::Running, made(), running(facts, last, &on) + &nth(facts, last)),
        Some(Claimed) => told(Fate::Running, made(), format!("was claimed by {on} and is about to begin")),
        Some(Failed) => failed(facts, last, &on),
        Some(TimedOut) => timed_out(facts, last, &on),
        Some(Abandoned) => lost(facts, last, &on),
        Some(Cancelled) => cancelled(facts, last),
        Some(Skipped) => skipped(facts, last),
        Some(Withdrawn) => withdrawn(facts, last),
        Some(Pending) => waiting(facts, last),
        None => {
            let said = format!("is in a state that nobody knows: {:?}", last.state.as_str());
            told(Fate::Unknown, Because::Nothing, said)
        }
    }
}
