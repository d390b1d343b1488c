//! The page of a schedule's missing occurrences: which of them would run, and the progress of a rerun.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};

use super::order::MissedOrder;
use crate::console::asked::Asked;
use crate::console::changes::button::Button;
use crate::console::changes::order::Order;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{Badge, Moment, counted, exact, number};
use crate::{Client, ExecutionFilter, ExecutionState, ExecutionView, RerunFate, RerunOccurrence, RerunPlan};

/// So many occurrences are listed.
const LISTED: usize = 50;
/// So many executions of a rerun are counted, and as many retries.
const COUNTED: usize = 2_000;

/// The states that may be asked for, each with its words.
const STATES: [(&str, &str); 7] = [
    ("FAILED", "failed"),
    ("TIMED_OUT", "timed out"),
    ("ABANDONED", "abandoned"),
    ("CANCELLED", "cancelled"),
    ("SKIPPED", "skipped"),
    ("WITHDRAWN", "withdrawn"),
    ("SUCCEEDED", "succeeded"),
];

#[derive(Template)]
#[template(path = "console/missed.html")]
struct MissedPage {
    frame: Frame,
    name: String,
    to_schedule: String,
    order: MissedOrder,
    states: &'static [(&'static str, &'static str)],
    /// What is wrong with what was written.
    problem: String,
    plan: Option<Plan>,
    rerun: Option<Running>,
}

/// What would be run.
struct Plan {
    heading: String,
    /// What there is to say of it, a sentence each.
    notes: Vec<String>,
    rows: Vec<Row>,
    /// The page that goes on behind those that were looked at.
    rest: Option<String>,
    button: Option<Button>,
}

struct Row {
    at: Moment,
    badge: Option<Badge>,
    reason: String,
    fate: &'static str,
}

/// How far a rerun has come.
struct Running {
    sentence: String,
    to_executions: String,
    button: Option<Button>,
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

fn make(client: &Client, asked: &Asked) -> Result<MissedPage, Trouble> {
    let order = MissedOrder::read(&asked.query)?;
    let name = order.name().to_owned();
    let frame = Frame::new(asked, client.application(), "schedules", format!("What is missing of {name}"));
    let now = client.now()?;
    client.schedule(&name)?;
    let planned = order.fixed(now).and_then(|order| Ok((order.request(client, now)?.plan()?, order)));
    let (plan, problem) = match planned {
        Ok((plan, order)) => (Some(shown(&plan, &order, &frame, now)), String::new()),
        Err(trouble) if trouble.status.is_client_error() => (None, trouble.said),
        Err(trouble) => return Err(trouble),
    };
    let origin = asked.query.get("origin").map(str::parse::<i64>).transpose();
    let origin = origin.map_err(|_| Trouble::wrong("A rerun's origin is a number."))?;
    let rerun = origin.map(|origin| running(client, &name, origin, &frame)).transpose()?;
    let to_schedule = query::schedule(&name);
    Ok(MissedPage { frame, name, to_schedule, order, states: &STATES, problem, plan, rerun })
}

fn shown(plan: &RerunPlan, order: &MissedOrder, frame: &Frame, now: DateTime<Utc>) -> Plan {
    let (run, succeeded, open) =
        (plan.count(RerunFate::Run), plan.count(RerunFate::Succeeded), plan.count(RerunFate::Open));
    let heading = match run {
        0 => "Nothing is missing".to_owned(),
        count => format!("{} would run", counted(count, "occurrence")),
    };
    let mut notes = Vec::new();
    if succeeded > 0 {
        notes.push(format!("{} left out: they have succeeded since.", number(succeeded)));
    }
    if open > 0 {
        notes.push(format!("{} left out: they have yet to end.", number(open)));
    }
    for span in &plan.unknown {
        let count = counted(span.count, "occurrence");
        let (first, last) = (exact(span.first), exact(span.last));
        notes.push(format!("{count} from {first} to {last} left out: nobody knows their fire times."));
    }
    if run > 0 {
        notes.push("Each runs once, under its own fire time, in the order of these.".to_owned());
    }
    let rest = plan.rest_from.map(|at| {
        notes.push(format!("Only those before {} were looked at.", exact(at)));
        order.from(at).address()
    });
    // What would run comes first.
    let mut occurrences: Vec<&RerunOccurrence> = plan.occurrences.iter().collect();
    occurrences.sort_by_key(|it| (it.fate != RerunFate::Run, it.fire_time));
    let rows = occurrences.into_iter().take(LISTED).map(|it| Row {
        at: Moment::new(it.fire_time, now),
        badge: it.state.as_ref().map(|state| Badge::of_execution(state.as_str())),
        reason: it.reason.clone(),
        fate: match it.fate {
            RerunFate::Run => "runs",
            RerunFate::Succeeded => "has succeeded",
            _ => "has yet to end",
        },
    });
    let label = format!("Run {}", counted(run, "occurrence"));
    let button = Button::new(frame, label, &Order::Missed(Box::new(order.clone())));
    Plan {
        heading,
        notes,
        rows: rows.collect(),
        rest,
        button: button.filter(|_| run > 0).map(|it| it.confirmed(order.address()).primary()),
    }
}

/// The last attempt at each occurrence of a rerun, as far as they are counted.
pub(crate) fn attempts(client: &Client, name: &str, origin: i64) -> Result<Vec<ExecutionView>, Trouble> {
    let mut last: BTreeMap<_, ExecutionView> = BTreeMap::new();
    for cause in ["rerun", "retry", "recovery"] {
        let filter = ExecutionFilter {
            schedule: Some(name.to_owned()),
            cause: Some(cause.to_owned()),
            limit: COUNTED,
            ..ExecutionFilter::default()
        };
        for it in client.executions(&filter)?.into_iter().filter(|it| it.origin == origin) {
            let known = last.entry(it.stored_fire_time).or_insert_with(|| it.clone());
            if known.attempt < it.attempt {
                *known = it;
            }
        }
    }
    Ok(last.into_values().collect())
}

fn running(client: &Client, name: &str, origin: i64, frame: &Frame) -> Result<Running, Trouble> {
    let attempts = attempts(client, name, origin)?;
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    for it in &attempts {
        *states.entry(it.state.as_str().to_lowercase().replace('_', " ")).or_default() += 1;
    }
    let counts: Vec<String> =
        states.iter().map(|(state, count)| format!("{} {state}", number(*count))).collect();
    let is_open = |it: &ExecutionView| it.state.known().is_some_and(|state| !ENDED.contains(&state));
    let sentence = match attempts.len() {
        0 => "The ledger has nothing of this rerun any more.".to_owned(),
        count => format!("Rerun {origin} of {}: {}.", counted(count, "occurrence"), counts.join(", ")),
    };
    let end = || Button::new(frame, "End this rerun", &Order::EndRerun(name.to_owned(), origin));
    let list = query::Query::default().with("schedule", name).with("cause", "rerun");
    Ok(Running {
        sentence,
        to_executions: list.of("executions"),
        button: if attempts.iter().any(is_open) { end() } else { None },
    })
}

/// The states that nothing leaves.
const ENDED: [ExecutionState; 7] = [
    ExecutionState::Succeeded,
    ExecutionState::Failed,
    ExecutionState::TimedOut,
    ExecutionState::Abandoned,
    ExecutionState::Cancelled,
    ExecutionState::Skipped,
    ExecutionState::Withdrawn,
];
