//! The commands that change something, and who did.

use std::io::Write;

use chrono::{DateTime, Utc};
use firetime::{
    AuditFilter, AuditView, Cancelled, Client, ExecutionFilter, ExecutionState, Paused, Removed, Resumed,
    Retried, ScheduleState, Skipped, Triggered,
};

use crate::failure::Failure;
use crate::inspect::{TEXT_SHOWN, connect, find_application};
use crate::output::{self, Column};
use crate::target::Target;
use crate::text::{escaped, shortened};
use crate::when::utc;

/// What is done to a schedule.
#[derive(Debug)]
pub(crate) enum Verb {
    Pause,
    Resume,
    Cancel,
    Retry,
    Skip(DateTime<Utc>),
    Run {
        payload: Option<serde_json::Value>,
        at: Option<DateTime<Utc>>,
    },
    /// Without `yes` it is only told what would be removed.
    Remove {
        yes: bool,
    },
}

/// To which schedule it is done, by whom and why.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) name: String,
    pub(crate) actor: Option<String>,
    pub(crate) reason: String,
}

pub(crate) fn change(
    target: &Target,
    verb: &Verb,
    order: &Order,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let client = connect(target)?;
    let client = order.actor.iter().fold(client, |client, actor| client.acting_as(actor));
    let known = |client: &Client| client.schedules().map(|all| all.into_iter().map(|it| it.name).collect());
    let Order { name, reason, .. } = order;
    let done = match verb {
        Verb::Pause => client.pause(name).reason(reason).run().map(paused),
        Verb::Resume => client.resume(name).reason(reason).run().map(resumed),
        Verb::Cancel => return cancel(&client, order, out),
        Verb::Retry => return retry(&client, order, out),
        Verb::Skip(at) => client.skip(name, *at).reason(reason).run().map(skipped),
        Verb::Run { payload, at } => {
            let run = client.trigger(name).reason(reason);
            let run = payload.iter().fold(run, |run, payload| run.payload(payload));
            at.iter().fold(run, |run, at| run.at(*at)).run().map(triggered)
        }
        Verb::Remove { yes: true } => client.remove(name).reason(reason).run().map(removed),
        Verb::Remove { yes: false } => return preview(&client, name),
    };
    let done = match done {
        Err(error) if error.kind() == firetime::ErrorKind::NotFound => {
            return Err(Failure::not_found("schedule", name, known(&client)?));
        }
        done => done?,
    };
    writeln!(out, "{}: {done}", escaped(name))?;
    Ok(())
}

fn paused(answer: Paused) -> String {
    match answer {
        Paused::NotActive(state) => unchanged(state),
        _ => "paused".to_owned(),
    }
}

fn resumed(answer: Resumed) -> String {
    match answer {
        Resumed::NotPaused(state) => unchanged(state),
        _ => "resumed".to_owned(),
    }
}

fn skipped(answer: Skipped) -> String {
    let at = |next| match utc(next) {
        never if never.is_empty() => "it fires no more".to_owned(),
        next => format!("it fires next at {next} UTC"),
    };
    match answer {
        Skipped::Skipped { next } => format!("skipped; {}", at(next)),
        Skipped::NotNext { next } => format!("nothing was changed: {}", at(next)),
        Skipped::NotActive(state) => unchanged(state),
        other => format!("{other:?}"),
    }
}

fn cancel(client: &Client, order: &Order, out: &mut dyn Write) -> Result<(), Failure> {
    let id = execution(order)?;
    let said = match client.cancel(id).reason(&order.reason).run()? {
        Cancelled::Cancelled => "cancelled before it began".to_owned(),
        Cancelled::Asked { node } => format!("runs on node {node}, which is asked to end it"),
        Cancelled::AlreadyAsked { node } => {
            format!("runs on node {node}, which had been asked to end it before")
        }
        Cancelled::AlreadyEnded(state) => {
            format!("nothing was changed, it is {}", state.as_str().to_lowercase())
        }
        other => format!("{other:?}"),
    };
    writeln!(out, "execution {id}: {said}")?;
    Ok(())
}

fn retry(client: &Client, order: &Order, out: &mut dyn Write) -> Result<(), Failure> {
    let id = execution(order)?;
    let said = match client.retry(id).reason(&order.reason).run()? {
        Retried::Pending(attempt) => format!("execution {attempt} waits for a node"),
        Retried::Followed => "nothing was changed, another attempt has followed it".to_owned(),
        Retried::NotRetryable(state) => {
            format!("nothing was changed, it is {}", state.as_str().to_lowercase())
        }
        Retried::NotRunnable(state) => format!("nothing was changed, its schedule is {}", state.label()),
        other => format!("{other:?}"),
    };
    writeln!(out, "execution {id}: {said}")?;
    Ok(())
}

/// The id that stands where a name does.
fn execution(order: &Order) -> Result<i64, Failure> {
    let name = &order.name;
    let no_id =
        |_| Failure::Usage(format!("{name:?} is no execution's id: `firetime executions` lists them"));
    name.parse().map_err(no_id)
}

fn triggered(answer: Triggered) -> String {
    match answer {
        Triggered::NotRunnable(state) => unchanged(state),
        Triggered::Pending(execution) => format!("execution {execution} waits for a node"),
        _ => "triggered".to_owned(),
    }
}

fn removed(answer: Removed) -> String {
    match answer {
        Removed::AlreadyRemoved => "nothing was changed, it had been removed before".to_owned(),
        _ => "removed".to_owned(),
    }
}

/// What a removal would end.
fn preview(client: &Client, name: &str) -> Result<(), Failure> {
    let schedules = client.schedules()?;
    let Some(schedule) = schedules.iter().find(|it| it.name == name) else {
        return Err(Failure::not_found("schedule", name, schedules.into_iter().map(|it| it.name).collect()));
    };
    let states = vec![ExecutionState::Pending];
    let filter = ExecutionFilter { schedule: Some(name.to_owned()), states, ..ExecutionFilter::default() };
    let (waiting, next) = (client.executions(&filter)?.len(), utc(schedule.next));
    let next = if next.is_empty() { "never again".to_owned() } else { format!("next at {next} UTC") };
    Err(Failure::Usage(format!(
        "nothing was changed: {name:?} ({}, {}, {next}) would fire no more, and {waiting} executions that wait \
         would be cancelled; say --yes to remove it",
        schedule.trigger, schedule.state
    )))
}

fn unchanged(state: ScheduleState) -> String {
    format!("nothing was changed, it is {}", state.label())
}

pub(crate) fn audit(target: &Target, filter: &AuditFilter, out: &mut dyn Write) -> Result<(), Failure> {
    let client = connect(target)?;
    let rows = client.audit(filter)?;
    if rows.is_empty() {
        find_application(&client, target)?;
    }
    output::list(out, target.output, AUDIT, &rows)
}

const AUDIT: [Column<AuditView>; 7] = [
    ("TIME (UTC)", |row| utc(row.made)),
    ("ACTOR", |row| row.actor.clone()),
    ("VERB", |row| row.verb.clone()),
    ("TARGET", |row| format!("{} {}", row.target_type, row.target)),
    ("WAS", |row| shortened(&row.was, TEXT_SHOWN)),
    ("BECAME", |row| shortened(&row.became, TEXT_SHOWN)),
    ("REASON", |row| shortened(&row.reason, TEXT_SHOWN)),
];
