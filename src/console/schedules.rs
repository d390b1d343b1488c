//! The schedules of an application, by name.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};

use super::asked::Asked;
use super::frame::Frame;
use super::order::{Button, Order};
use super::query;
use super::state::Console;
use super::trouble::Trouble;
use super::words::{Badge, Mark, Moment, because, counted, first_line, number, span, trigger};
use crate::{Client, ScheduleView, Target};

/// So many are on a page.
const PAGE: usize = 50;

#[derive(Template)]
#[template(path = "console/schedules.html")]
struct SchedulesPage {
    frame: Frame,
    heading: String,
    summary: String,
    needing: usize,
    text: String,
    state: String,
    job: String,
    /// The states that may be picked, each with its words.
    states: &'static [(&'static str, &'static str)],
    rows: Vec<Row>,
    /// The address of the page behind this one, and of the first.
    next: Option<String>,
    first: Option<String>,
}

struct Row {
    name: String,
    to: String,
    job: String,
    description: String,
    trigger: String,
    badge: Badge,
    reason: String,
    last: Option<Moment>,
    next: Option<Moment>,
    never: &'static str,
    button: Option<Button>,
}

/// What may be picked of states.
const STATES: [(&str, &str); 6] = [
    ("needs", "needs you"),
    ("active", "active"),
    ("paused", "paused"),
    ("error", "in error"),
    ("complete", "complete"),
    ("unclaimed", "nobody can run"),
];

pub(super) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

fn make(client: &Client, asked: &Asked) -> Result<SchedulesPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "schedules", "Schedules");
    let text = |name| asked.query.text(name).unwrap_or_default();
    let wanted = asked.query.typed("q").unwrap_or_default().to_owned();
    let (state, job, after) = (text("state"), text("job"), text("after"));
    let (now, all) = (client.now()?, client.schedules()?);
    let needing = all.iter().filter(|schedule| needs(schedule, now)).count();
    let total = all.len();
    let found = all.into_iter().filter(|schedule| {
        has(schedule, &wanted) && is_in(schedule, &state, now) && (job.is_empty() || schedule.job == job)
    });
    let found: Vec<ScheduleView> = found.collect();
    let rest: Vec<&ScheduleView> = found.iter().filter(|it| after.is_empty() || it.name > after).collect();
    let shown = &rest[..rest.len().min(PAGE)];
    let last = shown.last().filter(|_| rest.len() > PAGE);
    let next =
        last.map(|last| asked.query.clone().without("after").with("after", &last.name).of("schedules"));
    let first = (!after.is_empty()).then(|| asked.query.clone().without("after").of("schedules"));
    let heading = match needing {
        0 if total == 0 => "There are no schedules yet".to_owned(),
        0 => "All schedules are well".to_owned(),
        1 => "One schedule needs you".to_owned(),
        many => format!("{} schedules need you", number(many)),
    };
    let summary = match found.len() == total {
        true => format!("{} in all.", counted(total, "schedule")),
        false => format!("{} of {} shown by this filter.", number(found.len()), counted(total, "schedule")),
    };
    let rows = shown.iter().map(|schedule| row(schedule, &frame, now)).collect();
    Ok(SchedulesPage {
        frame,
        heading,
        summary,
        needing,
        text: wanted,
        state,
        job,
        states: &STATES,
        rows,
        next,
        first,
    })
}

/// Whether its name, its job or its purpose has a text, in any case.
fn has(schedule: &ScheduleView, text: &str) -> bool {
    let text = text.to_lowercase();
    [&schedule.name, &schedule.job, &schedule.description].iter().any(|it| it.to_lowercase().contains(&text))
}

fn is_in(schedule: &ScheduleView, state: &str, now: DateTime<Utc>) -> bool {
    match state {
        "" => true,
        "needs" => needs(schedule, now),
        "unclaimed" => is_unclaimed(schedule),
        state => schedule.state == state,
    }
}

fn is_unclaimed(schedule: &ScheduleView) -> bool {
    schedule.state == "active" && schedule.nodes == 0
}

/// Whether it does not what it is there for: in error, paused by itself, behind, or nobody can run it.
fn needs(schedule: &ScheduleView, now: DateTime<Utc>) -> bool {
    let is_contained = schedule.state == "paused" && schedule.paused_by == "firetime";
    let is_overdue = schedule.state == "active"
        && schedule
            .next
            .is_some_and(|next| (now - next).num_milliseconds() > schedule.misfire_threshold + 30_000);
    let is_held = !schedule.held_by.is_empty();
    schedule.state == "error"
        || is_contained
        || schedule.unmet.is_some()
        || !schedule.left_alone.is_empty()
        || !is_held && (is_overdue || is_unclaimed(schedule))
}

fn row(schedule: &ScheduleView, frame: &Frame, now: DateTime<Utc>) -> Row {
    let target = || Target::schedule(&schedule.name);
    let button = match schedule.state.as_str() {
        "active" => Button::new(frame, "Run now", &Order::Run(schedule.name.clone())),
        "paused" => Button::new(frame, "Resume", &Order::Resume(target())),
        _ => None,
    };
    let (badge, reason) = state_of(schedule, now);
    Row {
        name: schedule.name.clone(),
        to: query::schedule(&schedule.name),
        job: schedule.job.clone(),
        description: first_line(&schedule.description),
        trigger: trigger(schedule),
        badge,
        reason,
        last: Moment::some(schedule.prev, now),
        next: if schedule.state == "active" { Moment::some(schedule.next, now) } else { None },
        never: if schedule.state == "active" { "once its run has ended" } else { "–" },
        button,
    }
}

/// A schedule's state, and why it is in it, or does not what its state says.
pub(super) fn state_of(schedule: &ScheduleView, now: DateTime<Utc>) -> (Badge, String) {
    let ScheduleView { state, paused_by, reason, held_by, left_alone, unmet, .. } = schedule;
    let until =
        schedule.paused_until.map(|at| format!(", until {}", Moment::exactly(at).said)).unwrap_or_default();
    match state.as_str() {
        "paused" if paused_by == "firetime" => {
            (Badge::new(Mark::Failed, "paused itself"), first_line(reason))
        }
        "paused" => (Badge::of_state(state), because("", paused_by, reason).trim().to_owned() + &until),
        "error" => (Badge::of_state("error"), first_line(reason)),
        "active" if !held_by.is_empty() => {
            (Badge::new(Mark::Waits, "held"), format!("its {held_by} is paused"))
        }
        "active" if schedule.nodes == 0 => {
            let since = schedule.nobody_since.map(|at| format!(" for {}", span(now - at)));
            let reason = format!("no live node has a handler for its job{}", since.unwrap_or_default());
            (Badge::new(Mark::Failed, "nobody can run it"), reason)
        }
        "active" if !left_alone.is_empty() => (Badge::new(Mark::Late, "left alone"), left_alone.clone()),
        "active" => match unmet {
            Some(at) => {
                let reason = format!("has not succeeded since {}", Moment::exactly(*at).said);
                (Badge::new(Mark::Late, "expected"), reason)
            }
            None => (Badge::of_state(state), String::new()),
        },
        _ => (Badge::of_state(state), first_line(reason)),
    }
}
