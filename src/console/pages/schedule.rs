//! One schedule: when it fires, what became of its occurrences, and who changed it.

use std::ops::Bound;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};

use super::rows::ExecutionLine;
use super::schedules::{next_of, state_of};
use super::whys::{Whys, of_hour, whys};
use crate::console::asked::Asked;
use crate::console::changes::button::Button;
use crate::console::changes::edit::EditOrder;
use crate::console::changes::followed::mended;
use crate::console::changes::missed::MissedOrder;
use crate::console::changes::order::Order;
use crate::console::drawn::grid::{self, Grid};
use crate::console::drawn::plot::{Plot, Point};
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::instant::instant;
use crate::console::words::zone::hour_of;
use crate::console::words::{
    Badge, Glyph, Mark, Moment, clock, exact, first_line, in_words, length, number, trigger,
};
use crate::{
    AuditFilter, Client, ExecutionFilter, ExecutionState, ExecutionView, ScheduleDetails, ScheduleState,
    ScheduleView, Target, Trigger,
};

/// So many fire times to come are listed.
const NEXT: usize = 10;
/// So many fire times to come are drawn.
const DRAWN: usize = 2_000;
/// So many rows of the ledger are drawn; of a schedule that has more the grid shows less.
const ROWS: usize = 5_000;
/// So many executions are drawn as points.
const PLOTTED: usize = 200;
/// So many executions, and changes, are listed.
const LISTED: usize = 10;

#[derive(Template)]
#[template(path = "console/schedule.html")]
pub(super) struct SchedulePage {
    frame: Frame,
    name: String,
    job: String,
    to_job: String,
    description: String,
    trigger: String,
    badge: Badge,
    reason: String,
    next: Option<Moment>,
    buttons: Vec<Button>,
    grid: Grid,
    grid_words: String,
    /// What the grid lacks.
    grid_note: String,
    /// The occurrences of the hour that is explained.
    whys: Whys,
    /// The hour that is explained.
    picked: String,
    upcoming: Vec<(String, Moment)>,
    /// Why nothing comes next.
    never: String,
    /// How late its last executions began, and how long they took.
    lateness: Option<Plot>,
    duration: Option<Plot>,
    facts: Vec<(&'static str, String)>,
    payload: String,
    counts: Vec<(String, String)>,
    rows: Vec<ExecutionLine>,
    all: String,
    audit: Vec<AuditRow>,
    all_audit: String,
}

struct AuditRow {
    at: Option<Moment>,
    by: String,
    verb: String,
    became: String,
    reason: String,
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<SchedulePage, Trouble> {
    let name = asked.query.get("name").ok_or_else(|| Trouble::wrong("The page names no schedule."))?;
    let frame = Frame::new(asked, client.application(), "schedules", name);
    let now = client.now()?;
    let mut details = client.schedule(name)?;
    asked.masks.schedule(&mut details);
    asked.zone.follow(&details);
    let schedule = &details.schedule;
    let ledger = ledger(client, name, grid::begin(now), ROWS)?;
    let picked = asked.query.get("at").map(|at| instant(at, now)).transpose()?.map(|at| hour_of(at).0);
    let grid = Grid::new(&ledger, &fire_times(&details, now), now, picked, name);
    let whys = match picked {
        Some(at) => whys(client, asked, (name, at), &frame, &mended(&ledger))?,
        None => Whys::default(),
    };
    let nodes = client.nodes()?;
    let mut last = ledger_of(client, name, PLOTTED)?;
    asked.masks.executions(&mut last);
    let rows = ExecutionLine::all(&last[..last.len().min(LISTED)], &last, &nodes, &frame, now);
    let (badge, reason) = state_of(schedule, now);
    let counts =
        details.counts.iter().map(|(state, count)| (state.to_lowercase().replace('_', " "), number(*count)));
    Ok(SchedulePage {
        name: name.to_owned(),
        job: schedule.job.clone(),
        to_job: query::address("schedules", "job", &schedule.job),
        description: schedule.description.clone(),
        trigger: trigger(schedule),
        badge,
        reason,
        next: next_of(schedule, now),
        buttons: buttons(&details, now, &frame),
        grid_words: grid::described(&grid),
        grid_note: match ledger.last().and_then(|row| row.fire_time).filter(|_| ledger.len() == ROWS) {
            Some(since) => {
                format!("It fires so often that only what is since {} is drawn.", Moment::exactly(since).said)
            }
            None => String::new(),
        },
        grid,
        whys,
        picked: picked.map(of_hour).unwrap_or_default(),
        upcoming: upcoming(&details, now),
        never: never(schedule),
        lateness: plot(&last, ("late", "How late they began"), now, |it| (it.due, it.started)),
        duration: plot(&last, ("took", "How long they took"), now, |it| (it.started, it.finished)),
        facts: facts(&details),
        payload: details.payload.clone(),
        counts: counts.collect(),
        rows,
        all: query::address("executions", "schedule", name),
        audit: audit(client, asked, name, now)?,
        all_audit: query::address("audit", "target", name),
        frame,
    })
}

fn ledger(
    client: &Client,
    name: &str,
    since: DateTime<Utc>,
    limit: usize,
) -> Result<Vec<ExecutionView>, Trouble> {
    let (schedule, since) = (Some(name.to_owned()), Some(since));
    Ok(client.executions(&ExecutionFilter { schedule, since, limit, ..ExecutionFilter::default() })?)
}

fn ledger_of(client: &Client, name: &str, limit: usize) -> Result<Vec<ExecutionView>, Trouble> {
    let schedule = Some(name.to_owned());
    Ok(client.executions(&ExecutionFilter { schedule, limit, ..ExecutionFilter::default() })?)
}

/// What people may do, first what they mostly do.
fn buttons(details: &ScheduleDetails, now: DateTime<Utc>, frame: &Frame) -> Vec<Button> {
    let schedule = &details.schedule;
    let name = || schedule.name.clone();
    let target = || Target::schedule(&schedule.name);
    let run = || Button::new(frame, "Run now", &Order::Run(name()));
    // What passes in a pause is skipped as it ends.
    let is_active = schedule.state == ScheduleState::Active;
    let skip = || {
        let at = schedule.next.filter(|at| is_active || *at > now)?;
        Button::new(frame, format!("Skip {}", clock(at)), &Order::Skip(name(), at))
    };
    let edit = || Button::new(frame, "Edit", &Order::Edit(Box::new(EditOrder::of(details, now))));
    let missed = || {
        Button::new(frame, "Run what is missing", &Order::Missed(Box::new(MissedOrder::of(&schedule.name))))
    };
    let remove = Button::new(frame, "Remove", &Order::Remove(name())).map(Button::danger);
    let buttons = match schedule.state.as_str() {
        "active" => {
            let pause = Button::new(frame, "Pause", &Order::Pause(target()));
            vec![run().map(Button::primary), skip(), pause, edit(), missed(), remove]
        }
        "paused" => {
            let resume = Button::new(frame, "Resume", &Order::Resume(target())).map(Button::primary);
            vec![resume, run(), skip(), edit(), missed(), remove]
        }
        _ => vec![edit(), remove],
    };
    buttons.into_iter().flatten().collect()
}

/// The fire times to come of its trigger; of one that waits for the end of a run only the next.
fn coming(details: &ScheduleDetails) -> impl Iterator<Item = DateTime<Utc>> + use<> {
    let first = details.schedule.next.filter(|_| details.schedule.state == ScheduleState::Active);
    let rule = details.rule.as_ref().filter(|rule| !matches!(rule, Trigger::Delay(_)));
    let ends = details.ends.map_or(Bound::Unbounded, Bound::Included);
    let others = first.zip(rule).map(|(first, rule)| rule.fire_times((Bound::Excluded(first), ends)));
    first.into_iter().chain(others.into_iter().flatten())
}

/// Those that the grid has room for.
fn fire_times(details: &ScheduleDetails, now: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let end = now + TimeDelta::days(1);
    coming(details).take(DRAWN).take_while(|at| *at < end).filter(|at| *at > now).collect()
}

fn upcoming(details: &ScheduleDetails, now: DateTime<Utc>) -> Vec<(String, Moment)> {
    let is_held = !details.schedule.held_by.is_empty();
    let near = |at| if is_held { Moment::new(at, now) } else { Moment::next(at, now) };
    coming(details).take(NEXT).map(|at| (Moment::exactly(at).said, near(at))).collect()
}

/// Why a schedule has no fire time to come that is known.
fn never(schedule: &ScheduleView) -> String {
    match (schedule.state.as_str(), schedule.paused_until) {
        ("active", _) => "It fires again after the end of its run.".to_owned(),
        ("paused", Some(until)) => format!("It is paused, and fires again after {}.", exact(until)),
        ("paused", None) => "It is paused, and fires again once somebody resumes it.".to_owned(),
        ("error", _) => "It is in error, and does not fire.".to_owned(),
        _ => "It fires no more.".to_owned(),
    }
}

/// A span of each execution over its fire time.
fn plot(
    rows: &[ExecutionView],
    (id, title): (&'static str, &str),
    now: DateTime<Utc>,
    ends: impl Fn(&ExecutionView) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>),
) -> Option<Plot> {
    let point = |it: &ExecutionView| {
        let (from, to) = ends(it);
        let took = (to? - from?).num_milliseconds();
        let at = it.fire_time?;
        let title = format!(
            "execution {}, {}: {}",
            it.id,
            Moment::exactly(at).said,
            length(Duration::from_millis(took.max(0).unsigned_abs()))
        );
        Some(Point {
            at,
            millis: took,
            is_bad: it.state != ExecutionState::Succeeded && it.state != ExecutionState::Running,
            title,
        })
    };
    Plot::new(id, title, &rows.iter().filter_map(point).collect::<Vec<_>>(), now)
}

fn facts(details: &ScheduleDetails) -> Vec<(&'static str, String)> {
    let schedule = &details.schedule;
    let exact = |at: Option<DateTime<Utc>>| at.map(|at| Moment::exactly(at).said).unwrap_or_default();
    let by_hand = details.edits.iter().map(|edit| format!("{} by {}", edit.field.as_str(), edit.actor));
    let facts = [
        ("Trigger", in_words(&schedule.trigger)),
        ("Overlap", details.overlap.to_string().to_lowercase()),
        ("Missed", details.misfire.as_str().to_lowercase().replace('_', " ")),
        ("Missed after", length(schedule.misfire_threshold)),
        ("Time limit", details.time_limit.map(length).unwrap_or_default()),
        (
            "Expected by",
            schedule.expected_by.map(|it| format!("{} after its fire time", length(it))).unwrap_or_default(),
        ),
        (
            "Pauses itself after",
            match details.pause_after {
                Some(0) => "never".to_owned(),
                Some(count) => format!("{count} failures in a row"),
                None => String::new(),
            },
        ),
        ("Priority", details.priority.to_string()),
        ("Starts", exact(details.starts)),
        ("Ends", exact(details.ends)),
        ("Triggered", format!("{} times", number(schedule.triggered))),
        ("Lives in code of", schedule.owner.clone().unwrap_or_default()),
        ("Changed by hand", by_hand.collect::<Vec<_>>().join(", ")),
    ];
    facts.into_iter().filter(|(_, fact)| !fact.is_empty()).collect()
}

fn audit(client: &Client, asked: &Asked, name: &str, now: DateTime<Utc>) -> Result<Vec<AuditRow>, Trouble> {
    let mut entries = client.audit(&AuditFilter {
        target: Some(name.to_owned()),
        limit: LISTED,
        ..AuditFilter::default()
    })?;
    asked.masks.audit(&mut entries);
    let row = |entry: crate::AuditView| AuditRow {
        at: Moment::some(entry.made, now),
        by: entry.actor,
        verb: entry.verb,
        became: first_line(&entry.became),
        reason: entry.reason,
    };
    Ok(entries.into_iter().map(row).collect())
}
