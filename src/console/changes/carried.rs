//! Carrying out an order, and what the client answers in words.

use chrono::{DateTime, TimeDelta, Utc};

use super::bulk::{BulkOrder, BulkVerb, Item, Tasks, What, meant};
use super::edit;
use super::missed::MissedOrder;
use super::order::Order;
use crate::console::web::query::{self, Query};
use crate::console::web::said::Said;
use crate::console::web::trouble::Trouble;
use crate::console::words::instant::instant;
use crate::console::words::{counted, exact, name_of};
use crate::{
    Cancelled, Client, Draining, NodeView, Paused, Removed, Reran, RerunCancelled, Resumed, Retried,
    ScheduleState, Skipped, Target, Triggered,
};

/// Carries out an order, for this reason; what runs is asked to end with it, if that is wanted too. With it
/// the page that shows how far it has come, or what is to be mended, if there is one.
pub(crate) fn carry(
    client: &Client,
    tasks: &Tasks,
    order: &Order,
    (reason, also): (&str, bool),
) -> Result<(Said, Option<String>), Trouble> {
    Ok(match order {
        // An edit that was not made goes back to the form, which has all that was written.
        Order::Edit(edit) => {
            let said = edit::carry(client, edit, reason)?;
            let to = (!said.is_done).then(|| edit.address());
            (said, to)
        }
        Order::Bulk(order) => {
            let (said, task) = bulk(client, tasks, order, reason)?;
            (said, task.map(|task| query::address("bulk", "id", task)))
        }
        Order::Missed(order) => missed(client, order, reason)?,
        Order::Stop(task) => {
            let said = match tasks.stop(task) {
                true => Said::done("It stops before the next."),
                false => Said::not_done("Nothing was changed: it has ended."),
            };
            (said, Some(query::address("bulk", "id", task)))
        }
        order => (one(client, order, reason, also)?, None),
    })
}

/// Changes all of a filter, on a thread of its own. With it the id of what is under way.
pub(crate) fn bulk(
    client: &Client,
    tasks: &Tasks,
    order: &BulkOrder,
    reason: &str,
) -> Result<(Said, Option<String>), Trouble> {
    let items = meant(order, client, client.now()?)?.items;
    if items.is_empty() {
        return Ok((Said::not_done("Nothing was changed: there is none any more."), None));
    }
    let (verb, why, count) = (order.verb, reason.to_owned(), order.counted(items.len()));
    // Asked once: each of thousands that run may be on one of a few nodes.
    let nodes = if verb == BulkVerb::Cancel { client.nodes().unwrap_or_default() } else { Vec::new() };
    let step = move |client: &Client, item: &Item| -> Result<Said, Trouble> {
        let (id, target) = (item.id, Target::schedule(&item.name));
        Ok(match verb {
            BulkVerb::Cancel => {
                cancelled(id, client.cancel(id).reason(&why).run()?, |node| named(&nodes, node))
            }
            BulkVerb::Retry => retried(id, client.retry(id).reason(&why).run()?),
            BulkVerb::Pause => paused(client, &target, client.pause(target.clone()).reason(&why).run()?),
            BulkVerb::Resume => resumed(client, &target, client.resume(target.clone()).reason(&why).run()?),
        })
    };
    let what = What { verb, by: client.actor().unwrap_or_default().to_owned() };
    let id = tasks.start(client, what, items, step)?;
    Ok((Said::done(format!("{}: {count}, one by one.", verb.label())), Some(id)))
}

/// Runs what is missing of a schedule.
fn missed(client: &Client, order: &MissedOrder, reason: &str) -> Result<(Said, Option<String>), Trouble> {
    let name = order.name();
    Ok(match order.request(client, client.now()?)?.reason(reason).run()? {
        Reran::Ordered { origin, count, rest_from, .. } => {
            let rest =
                rest_from.map_or_else(String::new, |at| format!(" Those from {} on are left.", exact(at)));
            let said = Said::done(format!("{name}: {} ordered.{rest}", counted(count, "execution")));
            let page = Query::default().with("name", name).with("origin", origin);
            (said, Some(page.of("missed")))
        }
        Reran::Nothing { .. } => (Said::not_done("Nothing was changed: nothing of it is missing."), None),
        Reran::NotRunnable(state) => (unchanged(name, state), None),
    })
}

fn end_rerun(client: &Client, origin: i64, reason: &str) -> Result<Said, Trouble> {
    Ok(match client.cancel_rerun(origin).reason(reason).run()? {
        RerunCancelled::Cancelled { cancelled, asked } => Said::done(format!(
            "Rerun {origin} ends: {} cancelled, {} asked to end.",
            counted(cancelled, "execution"),
            counted(asked, "handler")
        )),
        RerunCancelled::AlreadyEnded => {
            Said::not_done(format!("Nothing was changed: all of rerun {origin} has ended."))
        }
    })
}

/// Carries out an order that is one request of the client.
pub(crate) fn one(client: &Client, order: &Order, reason: &str, also: bool) -> Result<Said, Trouble> {
    Ok(match order {
        Order::Pause(target) => paused(client, target, client.pause(target.clone()).reason(reason).run()?),
        Order::Resume(target) => resumed(client, target, client.resume(target.clone()).reason(reason).run()?),
        Order::Drain(node) => drained(client, node, client.drain(node).reason(reason).run()?),
        Order::Run(name) => triggered(name, client.trigger(name).reason(reason).run()?),
        Order::Skip(name, at) => skipped(name, *at, client.skip(name, *at).reason(reason).run()?),
        Order::Rerun(name, at) => rerun(client, name, *at, reason)?,
        Order::RunFor(name, text) => run_for(client, name, text, reason)?,
        Order::EndRerun(_, origin) => end_rerun(client, *origin, reason)?,
        Order::Edit(_) | Order::Bulk(_) | Order::Missed(_) | Order::Stop(_) => return Err(Trouble::broken()),
        Order::Remove(name) => {
            let removal = client.remove(name).reason(reason);
            removed(name, (if also { removal.cancel_running() } else { removal }).run()?)
        }
        Order::Cancel(id) => cancelled(*id, client.cancel(*id).reason(reason).run()?, |it| node(client, it)),
        Order::Retry(id) => retried(*id, client.retry(*id).reason(reason).run()?),
    })
}

/// Runs a schedule for a fire time that has passed.
fn rerun(client: &Client, name: &str, at: DateTime<Utc>, reason: &str) -> Result<Said, Trouble> {
    let end = at.checked_add_signed(TimeDelta::milliseconds(1)).ok_or_else(Trouble::beyond)?;
    Ok(match client.rerun(name).since(at).until(end).reason(reason).run()? {
        // The ledger may have lost it, or never had it.
        Reran::Nothing { .. } => reran(name, at, &client.backfill(name, at..end).reason(reason).run()?),
        answer => reran(name, at, &answer),
    })
}

/// Runs a schedule for an instant: for a fire time that has passed under that, once later otherwise.
fn run_for(client: &Client, name: &str, text: &str, reason: &str) -> Result<Said, Trouble> {
    let now = client.now()?;
    let at = instant(text, now)?;
    if at <= now {
        return rerun(client, name, at, reason);
    }
    Ok(match client.trigger(name).at(at).reason(reason).run()? {
        Triggered::Pending(id) => {
            Said::done(format!("{name} runs once more at {}: execution {id} waits until then.", exact(at)))
        }
        Triggered::NotRunnable(state) => unchanged(name, state),
    })
}

/// A node as lists name it. The change has been made: that its row is gone, or cannot be read, is no trouble.
fn node(client: &Client, id: &str) -> String {
    named(&client.nodes().unwrap_or_default(), id)
}

/// The same, of these nodes; one that is not among them by its id.
fn named(nodes: &[NodeView], id: &str) -> String {
    nodes.iter().find(|it| it.id == id).map_or_else(|| id.to_owned(), name_of)
}

fn of(client: &Client, target: &Target) -> String {
    match target {
        Target::Schedule(name) => name.clone(),
        Target::Job(name) => format!("Job {name}"),
        Target::Node(id) => format!("Node {}", node(client, id)),
        Target::Application => "The application".to_owned(),
    }
}

fn unchanged(name: &str, state: ScheduleState) -> Said {
    Said::not_done(format!("Nothing was changed: {name} is {state}."))
}

fn paused(client: &Client, target: &Target, answer: Paused) -> Said {
    match answer {
        Paused::NotActive(state) => unchanged(&of(client, target), state),
        _ => Said::done(format!("{} is paused.", of(client, target))),
    }
}

fn resumed(client: &Client, target: &Target, answer: Resumed) -> Said {
    match answer {
        Resumed::NotPaused(state) => unchanged(&of(client, target), state),
        _ => Said::done(format!("{} is resumed.", of(client, target))),
    }
}

fn drained(client: &Client, id: &str, answer: Draining) -> Said {
    let node = node(client, id);
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

fn cancelled(id: i64, answer: Cancelled, named: impl Fn(&str) -> String) -> Said {
    match answer {
        Cancelled::Cancelled => Said::done(format!("Execution {id} is cancelled: it had not begun.")),
        Cancelled::Asked { node } => {
            let node = named(&node);
            Said::done(format!("Execution {id} runs on node {node}, which is asked to end it."))
        }
        Cancelled::AlreadyAsked { node } => Said::not_done(format!(
            "Nothing was changed: execution {id} runs on node {}, which had been asked to end it before.",
            named(&node)
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
            Said::not_done(format!("Nothing was changed: the schedule of {id} is {state}."))
        }
    }
}
