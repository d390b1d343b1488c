//! Carrying out an order, and what the client answers in words.

use chrono::{DateTime, TimeDelta, Utc};

use super::order::Order;
use super::said::Said;
use super::trouble::Trouble;
use super::words::{counted, exact};
use crate::{
    Cancelled, Client, Draining, Paused, Removed, Reran, Resumed, Retried, ScheduleState, Skipped, Target,
    Triggered,
};

/// Carries out an order, for this reason; what runs is asked to end with it, if that is wanted too.
pub(super) fn carry(client: &Client, order: &Order, reason: &str, also: bool) -> Result<Said, Trouble> {
    Ok(match order {
        Order::Pause(target) => paused(target, client.pause(target.clone()).reason(reason).run()?),
        Order::Resume(target) => resumed(target, client.resume(target.clone()).reason(reason).run()?),
        Order::Drain(node) => drained(node, client.drain(node).reason(reason).run()?),
        Order::Run(name) => triggered(name, client.trigger(name).reason(reason).run()?),
        Order::Skip(name, at) => skipped(name, *at, client.skip(name, *at).reason(reason).run()?),
        Order::Rerun(name, at) => {
            let end = at.checked_add_signed(TimeDelta::milliseconds(1)).ok_or_else(Trouble::beyond)?;
            let rerun = client.rerun(name).since(*at).until(end);
            match rerun.reason(reason).run()? {
                // The ledger may have lost it, or never had it.
                Reran::Nothing { .. } => {
                    let backfill = client.backfill(name, *at..end);
                    reran(name, *at, &backfill.reason(reason).run()?)
                }
                answer => reran(name, *at, &answer),
            }
        }
        Order::Remove(name) => {
            let removal = client.remove(name).reason(reason);
            removed(name, (if also { removal.cancel_running() } else { removal }).run()?)
        }
        Order::Cancel(id) => cancelled(*id, client.cancel(*id).reason(reason).run()?),
        Order::Retry(id) => retried(*id, client.retry(*id).reason(reason).run()?),
    })
}

fn of(target: &Target) -> String {
    match target {
        Target::Schedule(name) => name.clone(),
        Target::Job(name) => format!("Job {name}"),
        Target::Node(id) => format!("Node {id}"),
        Target::Application => "The application".to_owned(),
    }
}

fn unchanged(name: &str, state: ScheduleState) -> Said {
    Said::not_done(format!("Nothing was changed: {name} is {}.", state.label()))
}

fn paused(target: &Target, answer: Paused) -> Said {
    match answer {
        Paused::NotActive(state) => unchanged(&of(target), state),
        _ => Said::done(format!("{} is paused.", of(target))),
    }
}

fn resumed(target: &Target, answer: Resumed) -> Said {
    match answer {
        Resumed::NotPaused(state) => unchanged(&of(target), state),
        _ => Said::done(format!("{} is resumed.", of(target))),
    }
}

fn drained(node: &str, answer: Draining) -> Said {
    match answer {
        Draining::Begun => Said::done(format!("Node {node} drains from its next poll on.")),
        Draining::UnderWay => Said::not_done(format!("Nothing was changed: node {node} drains already.")),
        Draining::Drained => Said::not_done(format!("Nothing was changed: node {node} has drained.")),
    }
}

fn triggered(name: &str, answer: Triggered) -> Said {
    match answer {
        Triggered::Pending(id) => {
            Said::done(format!("{name} runs once more: execution {id} waits for a node."))
        }
        Triggered::NotRunnable(state) => unchanged(name, state),
    }
}

fn skipped(name: &str, at: DateTime<Utc>, answer: Skipped) -> Said {
    let then = |next: Option<DateTime<Utc>>| {
        next.map_or_else(|| "it fires no more".to_owned(), |next| format!("it fires next at {}", exact(next)))
    };
    match answer {
        Skipped::Skipped { next } => Said::done(format!("{name} skips {}; {}.", exact(at), then(next))),
        Skipped::NotNext { next: None } => {
            Said::not_done(format!("Nothing was changed: the end of {name}'s run says when it fires next."))
        }
        Skipped::NotNext { next } => Said::not_done(format!(
            "Nothing was changed: {} is not next of {name}, {}.",
            exact(at),
            then(next)
        )),
        Skipped::NotActive(state) => unchanged(name, state),
    }
}

fn reran(name: &str, at: DateTime<Utc>, answer: &Reran) -> Said {
    match answer {
        Reran::Ordered { count, .. } => {
            let count = counted(*count, "execution");
            Said::done(format!("{name} runs for {}: {count} ordered.", exact(at)))
        }
        Reran::Nothing { .. } => Said::not_done(format!(
            "Nothing was changed: for {} {name} has succeeded, or has yet to end, or had no fire time.",
            exact(at)
        )),
        Reran::NotRunnable(state) => unchanged(name, *state),
    }
}

fn removed(name: &str, answer: Removed) -> Said {
    match answer {
        Removed::AlreadyRemoved => {
            Said::not_done(format!("Nothing was changed: {name} had been removed before."))
        }
        _ => Said::done(format!("{name} is removed.")),
    }
}

fn cancelled(id: i64, answer: Cancelled) -> Said {
    match answer {
        Cancelled::Cancelled => Said::done(format!("Execution {id} is cancelled: it had not begun.")),
        Cancelled::Asked { node } => {
            Said::done(format!("Execution {id} runs on node {node}, which is asked to end it."))
        }
        Cancelled::AlreadyAsked { node } => Said::not_done(format!(
            "Nothing was changed: execution {id} runs on node {node}, which had been asked to end it before."
        )),
        Cancelled::AlreadyEnded(state) => Said::not_done(format!(
            "Nothing was changed: execution {id} is {}.",
            state.as_str().to_lowercase()
        )),
        Cancelled::Differs { .. } => {
            Said::not_done(format!("Nothing was changed: execution {id} is another one."))
        }
    }
}

fn retried(id: i64, answer: Retried) -> Said {
    match answer {
        Retried::Pending(attempt) => {
            Said::done(format!("Execution {attempt} tries {id} again, and waits for a node."))
        }
        Retried::KeyTaken(keeper) => Said::not_done(format!(
            "Nothing was changed: execution {keeper} has the key of {id}, and has not ended."
        )),
        Retried::Followed => {
            Said::not_done(format!("Nothing was changed: another attempt has followed {id}."))
        }
        Retried::NotRetryable(state) => Said::not_done(format!(
            "Nothing was changed: execution {id} is {}.",
            state.as_str().to_lowercase()
        )),
        Retried::NotRunnable(state) => {
            Said::not_done(format!("Nothing was changed: the schedule of {id} is {}.", state.label()))
        }
    }
}
