//! The commands that change something.

use std::io::Write;

use chrono::{DateTime, Utc};
use firetime::request::Remove;
use firetime::{
    Cancelled, Client, Draining, ErrorKind, ExecutionFilter, ExecutionState, ExecutionView, Paused, Removed,
    Resumed, Retried, ScheduleState, Skipped, Triggered,
};
use serde_json::value::RawValue;

use crate::failure::{Failure, Result};
use crate::inspect::{self, Kind, connect, find, names};
use crate::target::Target;
use crate::text::escaped;
use crate::when::utc;

/// What is done.
#[derive(Debug)]
pub(crate) enum Verb {
    /// Until the pause ends by itself, if it does.
    Pause(Kind, Option<DateTime<Utc>>),
    Resume(Kind),
    Drain,
    Run {
        payload: Option<Box<RawValue>>,
        at: Option<DateTime<Utc>>,
    },
    Skip(DateTime<Utc>),
    Remove {
        cancel_running: bool,
        how: Removal,
    },
    Executions(Change, Which),
}

/// Whether a removal is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Made,
    /// It is told what would be removed, and that it was to be asked for otherwise.
    Refused,
    /// It is told what would be removed.
    Shown,
}

/// What is done to executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Cancel,
    Retry,
}

/// To which executions.
#[derive(Debug)]
pub(crate) enum Which {
    /// A cancel asks for the key and the tag of this filter.
    One(i64, Box<ExecutionFilter>),
    /// Without `yes` it is only told how many there are.
    All { filter: Box<ExecutionFilter>, yes: bool },
}

/// The thing that a command changes, who gives the command, and why.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) actor: Option<String>,
    pub(crate) reason: String,
}

impl Subject {
    /// A client that acts for the person named in the options.
    pub(crate) fn client(&self, target: &Target) -> Result<Client> {
        Ok(self.actor.iter().fold(connect(target)?, |client, actor| client.acting_as(actor)))
    }
}

pub(crate) fn change(target: &Target, verb: &Verb, subject: &Subject, out: &mut dyn Write) -> Result {
    let client = subject.client(target)?;
    let Subject { name, reason, .. } = subject;
    let said = match verb {
        Verb::Pause(kind, until) => {
            let pause = client.pause(whole(&client, *kind, name)?).reason(reason);
            let pause = until.iter().fold(pause, |pause, until| pause.until(*until)).run();
            answer(&client, *kind, name, pause.map(|answer| paused(answer, *until)))
        }
        Verb::Resume(kind) => {
            let resume = client.resume(whole(&client, *kind, name)?).reason(reason).run();
            answer(&client, *kind, name, resume.map(resumed))
        }
        Verb::Drain => {
            let node = node(&client, name)?;
            client.drain(&node).reason(reason).run().map(drained).map_err(Failure::from)
        }
        Verb::Skip(at) => {
            of_schedule(&client, name, client.skip(name, *at).reason(reason).run().map(skipped))
        }
        Verb::Run { payload, at } => {
            let run = client.trigger(name).reason(reason);
            let run = payload.iter().fold(run, |run, payload| run.payload(payload));
            of_schedule(&client, name, at.iter().fold(run, |run, at| run.at(*at)).run().map(triggered))
        }
        Verb::Remove { cancel_running, how: Removal::Made } => {
            let removal = client.remove(name).reason(reason);
            let removal = if *cancel_running { removal.cancel_running() } else { removal };
            remove(&client, name, removal)
        }
        Verb::Remove { cancel_running, how } => {
            let preview = preview_removal(&client, name, *cancel_running)?;
            match how {
                Removal::Shown => Ok(format!("nothing was changed: it {preview}")),
                _ => {
                    let said = format!("nothing was changed: {name:?} {preview}; say --yes to remove it");
                    return Err(Failure::Usage(said));
                }
            }
        }
        Verb::Executions(change, which) => return executions(target, &client, *change, which, reason, out),
    }?;
    writeln!(out, "{}: {said}", escaped(name))?;
    Ok(())
}

/// The target of this name; of a node the beginning of its id will do.
fn whole(client: &Client, kind: Kind, name: &str) -> Result<firetime::Target> {
    Ok(match kind {
        Kind::Schedule => firetime::Target::schedule(name),
        Kind::Job => firetime::Target::job(name),
        Kind::Node => firetime::Target::node(&node(client, name)?),
        Kind::Application => firetime::Target::application(),
    })
}

/// The live node whose id begins so.
fn node(client: &Client, start: &str) -> Result<String> {
    let live: Vec<String> =
        client.nodes()?.into_iter().filter(|node| node.ended.is_none()).map(|node| node.id).collect();
    let found: Vec<&String> = live.iter().filter(|id| id.starts_with(&start.to_lowercase())).collect();
    match found[..] {
        [id] => Ok(id.clone()),
        [] => Err(Failure::not_found("live node", start, live)),
        _ => Err(Failure::Usage(format!(
            "{} live nodes begin with {start:?}: write more of the id",
            found.len()
        ))),
    }
}

/// The answer; one about an unknown name tells the nearest.
fn answer<T>(client: &Client, kind: Kind, name: &str, answer: Result<T, firetime::Error>) -> Result<T> {
    answer.or_else(|error| match error.kind() {
        ErrorKind::NotFound if kind != Kind::Node => {
            Err(Failure::not_found(kind.word(), name, names(client, kind)?))
        }
        _ => Err(error.into()),
    })
}

pub(crate) fn of_schedule<T>(client: &Client, name: &str, found: Result<T, firetime::Error>) -> Result<T> {
    answer(client, Kind::Schedule, name, found)
}

fn paused(answer: Paused, until: Option<DateTime<Utc>>) -> String {
    match answer {
        Paused::NotActive(state) => unchanged(state),
        _ => until
            .map_or_else(|| "paused".to_owned(), |until| format!("paused until {} UTC", utc(Some(until)))),
    }
}

fn resumed(answer: Resumed) -> String {
    match answer {
        Resumed::NotPaused(state) => unchanged(state),
        _ => "resumed".to_owned(),
    }
}

fn drained(answer: Draining) -> String {
    match answer {
        Draining::Begun => "will drain from its next poll on; `firetime nodes` tells when it has",
        Draining::UnderWay => "nothing was changed, it drains",
        Draining::Drained => "nothing was changed, it has drained",
        _ => "told to drain",
    }
    .to_owned()
}

fn skipped(answer: Skipped) -> String {
    let at = |next| match utc(next) {
        never if never == "-" => "it fires no more".to_owned(),
        next => format!("it fires next at {next} UTC"),
    };
    match answer {
        Skipped::Skipped { next, .. } => format!("skipped; {}", at(next)),
        Skipped::NotNext { next: None, .. } => {
            "nothing was changed: its run's end says when it fires next".to_owned()
        }
        Skipped::NotNext { next, .. } => format!("nothing was changed: {}", at(next)),
        Skipped::NotActive(state) => unchanged(state),
        other => format!("{other:?}"),
    }
}

fn triggered(answer: Triggered) -> String {
    match answer {
        Triggered::NotRunnable(state) => unchanged(state),
        Triggered::Pending(execution) => format!("execution {execution} waits for a node"),
        _ => "triggered".to_owned(),
    }
}

/// Removes a schedule, and says what became of its executions with that.
fn remove(client: &Client, name: &str, removal: Remove<'_>) -> Result<String> {
    let waited = of_name(client, name, &[ExecutionState::Pending])?;
    let last = client.executions(&ExecutionFilter { limit: 1, ..of(name, &[]) })?.first().map(|row| row.id);
    if of_schedule(client, name, removal.run())? == Removed::AlreadyRemoved {
        return Ok("nothing was changed, it had been removed before".to_owned());
    }
    let with_it = |row: &&ExecutionView| row.reason == "removed";
    let cancelled = of_name(client, name, &[ExecutionState::Cancelled])?;
    let is_known = |row: &&ExecutionView| waited.iter().any(|it| it.id == row.id);
    let cancelled = cancelled.iter().filter(with_it).filter(is_known).count();
    let withdrawn = of_name(client, name, &[ExecutionState::Withdrawn])?;
    let is_new = |row: &&ExecutionView| Some(row.id) > last;
    let withdrawn: u64 = withdrawn.iter().filter(with_it).filter(is_new).map(|row| row.count).sum();
    let waiting = if cancelled == 1 { "execution that waited" } else { "executions that waited" };
    let due = match withdrawn {
        0 => "nothing".to_owned(),
        1 => "1 due occurrence".to_owned(),
        many => format!("{many} due occurrences"),
    };
    Ok(format!("removed; it cancelled {cancelled} {waiting}, and withdrew {due}"))
}

/// The executions of a schedule in these states, or in any.
fn of(name: &str, states: &[ExecutionState]) -> ExecutionFilter {
    let (schedule, states) = (Some(name.to_owned()), states.to_vec());
    ExecutionFilter { schedule, states, limit: usize::MAX, ..ExecutionFilter::default() }
}

fn of_name(client: &Client, name: &str, states: &[ExecutionState]) -> Result<Vec<ExecutionView>> {
    Ok(client.executions(&of(name, states))?)
}

/// What a removal would end.
fn preview_removal(client: &Client, name: &str, cancel_running: bool) -> Result<String> {
    let schedule = of_schedule(client, name, client.schedule(name))?.schedule;
    let waiting = of_name(client, name, &[ExecutionState::Pending])?.len();
    let running = of_name(client, name, &[ExecutionState::Claimed, ExecutionState::Running])?.len();
    let withdraws = client.remove(name).withdraws()?;
    let withdraws = withdraws.map_or_else(|| "nothing".to_owned(), |it| it.to_string());
    let again = match &schedule.owner {
        None => String::new(),
        Some(owner) => format!("; the next sync of {owner:?} makes it again, unless its list lacks it then"),
    };
    let then = if cancel_running { "be asked to end" } else { "end normally" };
    let next = match inspect::next(&schedule) {
        never if never == "-" => "never again".to_owned(),
        next if schedule.next.is_none() => format!("next {next}"),
        next => format!("next at {next} UTC"),
    };
    Ok(format!(
        "({}, {}, {next}) would fire no more; of its executions {waiting} wait and would be cancelled, {running} \
         run and would {then}; it would withdraw {withdraws}{again}",
        schedule.trigger, schedule.state
    ))
}

/// Cancels or retries one execution, or those of a filter that can be.
fn executions(
    target: &Target,
    client: &Client,
    change: Change,
    which: &Which,
    reason: &str,
    out: &mut dyn Write,
) -> Result {
    let (filter, yes) = match which {
        Which::One(id, only) => {
            writeln!(out, "execution {id}: {}", one(client, change, *id, only, reason)?)?;
            return Ok(());
        }
        Which::All { filter, yes } => (filter, *yes),
    };
    use ExecutionState::{Abandoned, Claimed, Failed, Pending, Running, TimedOut};
    let (states, verb): (&[ExecutionState], &str) = match change {
        Change::Cancel => (&[Pending, Claimed, Running], "cancel"),
        Change::Retry => (&[Failed, TimedOut, ExecutionState::Cancelled, Abandoned], "retry"),
    };
    let is_wanted = |state: &&ExecutionState| filter.states.is_empty() || filter.states.contains(state);
    let states: Vec<ExecutionState> = states.iter().filter(is_wanted).copied().collect();
    let found = match states.is_empty() {
        true => Vec::new(),
        false => client.executions(&ExecutionFilter { states, ..(**filter).clone() })?,
    };
    if found.is_empty() {
        find(client, target, filter)?;
        writeln!(out, "nothing was changed: there is no such execution to {verb}")?;
    }
    if !yes && !found.is_empty() {
        let (there, them) = match found.len() {
            1 => ("there is 1 execution".to_owned(), "it"),
            count => (format!("there are {count} executions"), "them"),
        };
        return Err(Failure::Usage(format!(
            "nothing was changed: {there} to {verb}; say --yes to {verb} {them}"
        )));
    }
    let count = found.len();
    for execution in found {
        let said = match one(client, change, execution.id.get(), filter, reason) {
            // It has changed since it was listed: the others are ended all the same.
            Err(Failure::NotFound(said)) => said,
            said => said?,
        };
        writeln!(out, "execution {} of {}: {said}", execution.id, escaped(&execution.schedule))?;
    }
    if count == filter.limit {
        writeln!(out, "there may be more: one command changes {count} at most; run it again")?;
    }
    Ok(())
}

/// Changes one execution. It is not cancelled if it has not the key or the tag of the filter any more.
fn one(client: &Client, change: Change, id: i64, filter: &ExecutionFilter, reason: &str) -> Result<String> {
    let missing = |error| Failure::of_execution(id, error);
    let cancel = client.cancel(id).reason(reason);
    let cancel = filter.key.iter().fold(cancel, |cancel, key| cancel.key(key));
    let cancel = filter.tag.iter().fold(cancel, |cancel, tag| cancel.tag(tag));
    Ok(match change {
        Change::Cancel => match cancel.run().map_err(missing)? {
            Cancelled::Cancelled => "cancelled before it began".to_owned(),
            Cancelled::Asked { node, .. } => format!("runs on node {node}, which is asked to end it"),
            Cancelled::AlreadyAsked { node, .. } => {
                format!("runs on node {node}, which had been asked to end it before")
            }
            Cancelled::AlreadyEnded(state) => {
                format!("nothing was changed, it is {}", state.as_str().to_lowercase())
            }
            Cancelled::Differs { key, tags, .. } => {
                let key = key.map_or_else(|| "no key".to_owned(), |key| format!("the key {key:?}"));
                let tags = if tags.is_empty() { "none".to_owned() } else { tags.join(", ") };
                let found = format!("nothing was changed: execution {id} has {key}; its tags: {tags}");
                return Err(Failure::NotFound(escaped(&found).to_string()));
            }
            other => format!("{other:?}"),
        },
        Change::Retry => match client.retry(id).reason(reason).run().map_err(missing)? {
            Retried::Pending(attempt) => format!("execution {attempt} waits for a node"),
            Retried::KeyTaken(keeper) => {
                format!("nothing was changed, execution {keeper} has its key and has not ended")
            }
            Retried::Followed => "nothing was changed, another attempt has followed it".to_owned(),
            Retried::NotRetryable(state) => {
                format!("nothing was changed, it is {}", state.as_str().to_lowercase())
            }
            Retried::NotRunnable(state) => format!("nothing was changed, its schedule is {state}"),
            other => format!("{other:?}"),
        },
    })
}

fn unchanged(state: ScheduleState) -> String {
    format!("nothing was changed, it is {state}")
}
