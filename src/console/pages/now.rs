//! The first page: what needs people, and what goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};

use super::needs::{Need, failures, needs};
use super::schedules::COUNTED as SCHEDULES_COUNTED;
use crate::console::asked::Asked;
use crate::console::drawn::day::Day;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{Badge, Moment, counted, name_of, name_of_schedule, node_of, number, span};
use crate::{
    Activity, Check, Client, ExecutionFilter, ExecutionId, ExecutionState, ExecutionView, Fire, NodeView,
    Upcoming,
};

/// So many rows of what runs, and of what comes next, are shown.
const ROWS: usize = 10;
/// So many that run or wait are counted; then there are more.
const COUNTED: usize = 1_000;
/// What comes next is shown so far ahead.
const AHEAD: Duration = Duration::from_secs(600);
/// Each bar of what comes next is so long.
const BAR_SECONDS: i64 = 10;

#[derive(Template)]
#[template(path = "console/now.html")]
pub(super) struct NowPage {
    frame: Frame,
    heading: String,
    summary: String,
    is_known: bool,
    needs: Vec<Need>,
    figures: Vec<Figure>,
    nodes: Vec<NodeRow>,
    running: Vec<RunningRow>,
    /// The first of what comes next.
    next: Vec<NextRow>,
    next_words: String,
    bars: Vec<Bar>,
    /// How the attempts of the last 24 hours ended.
    day: Day,
}

struct Figure {
    name: &'static str,
    value: String,
    to: String,
}

struct NodeRow {
    name: String,
    id: String,
    badge: Badge,
    heartbeat: Option<Moment>,
    threads: String,
    queued: usize,
    note: String,
}

struct RunningRow {
    id: ExecutionId,
    to: String,
    schedule: String,
    badge: Badge,
    since: Option<Moment>,
    node: String,
}

struct NextRow {
    name: String,
    to: String,
    job: String,
    at: Moment,
    trigger: String,
}

/// How many fires there are within ten seconds.
struct Bar {
    x: i64,
    y: i64,
    height: i64,
    title: String,
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<NowPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "now", "Now");
    let mut check = client.check()?;
    asked.masks.check(&mut check);
    let under_way = some(client, &[ExecutionState::Running, ExecutionState::Claimed])?;
    let waiting = some(client, &[ExecutionState::Pending])?;
    let needs = needs(&check, &frame);
    let is_known = check.application.is_some();
    let heading = match needs.len() {
        _ if !is_known => "Nothing is known of this application yet".to_owned(),
        0 => "Nothing needs you".to_owned(),
        1 => "One thing needs you".to_owned(),
        many => format!("{many} things need you"),
    };
    let (running, waits) = (capped(under_way.len()), capped(waiting.len()));
    let summary = format!(
        "{}, {running} running, {waits} waiting; {} in the last hour{}.",
        living(&check),
        match (check.failures.executions.len(), check.failures.is_cut) {
            (0, false) => "nothing failed".to_owned(),
            _ => format!("{} failed", failed(&check)),
        },
        paused(&check),
    );
    let figures = figures(&check, [running, waits], client.count_schedules(SCHEDULES_COUNTED)?);
    let upcoming = client.upcoming(AHEAD)?;
    let running = under_way.iter().take(ROWS).map(|it| running_row(it, &check)).collect();
    Ok(NowPage {
        frame,
        heading,
        summary,
        is_known,
        needs,
        figures,
        nodes: check.live().map(|node| node_row(node, check.now)).collect(),
        running,
        next: upcoming.fires.iter().take(ROWS).map(|fire| next_row(fire, check.now)).collect(),
        next_words: next_words(&upcoming),
        bars: bars(&upcoming, check.now),
        day: Day::of(client, check.now)?,
    })
}

/// `3 nodes live, 1 of them out of service`
fn living(check: &Check) -> String {
    let away = check.live().filter(|node| node.state != Activity::Active).count();
    let live = counted(check.live().count(), "node");
    match away {
        0 => format!("{live} live"),
        away => format!("{live} live, {} of them out of service", number(away)),
    }
}

/// `; 2 schedules are paused`
fn paused(check: &Check) -> String {
    let (paused, is_cut) = check.paused();
    match paused.len() {
        0 => String::new(),
        1 => format!("; {} is paused", paused[0].name),
        many => format!("; {}{} schedules are paused", number(many), if is_cut { " or more" } else { "" }),
    }
}

/// The oldest executions in these states, as many as are counted.
fn some(client: &Client, states: &[ExecutionState]) -> Result<Vec<ExecutionView>, Trouble> {
    let filter = ExecutionFilter {
        states: states.to_vec(),
        oldest_first: true,
        limit: COUNTED,
        ..ExecutionFilter::default()
    };
    Ok(client.executions(&filter)?)
}

/// A count, of which there may be more than are counted.
fn capped(count: usize) -> String {
    let more = if count >= COUNTED { " or more" } else { "" };
    format!("{}{more}", number(count))
}

/// How many executions failed in the last hour, as far as that is known.
fn failed(check: &Check) -> String {
    let more = if check.failures.is_cut { " or more" } else { "" };
    format!("{}{more}", number(check.failures.executions.len()))
}

fn figures(check: &Check, [running, waits]: [String; 2], schedules: usize) -> Vec<Figure> {
    let figure = |name, value, to: &str| Figure { name, value, to: to.to_owned() };
    let oldest = check.late.iter().filter_map(|it| Some(check.now - it.due?)).max();
    let (waiting, waits) = match oldest {
        Some(oldest) => ("waiting, oldest", format!("{waits} · {}", span(oldest))),
        None => ("waiting", waits),
    };
    let more = if schedules >= SCHEDULES_COUNTED { " or more" } else { "" };
    vec![
        figure("running now", running, "executions?state=RUNNING&state=CLAIMED"),
        figure(waiting, waits, "executions?state=PENDING&oldest=1"),
        figure("failed in the last hour", failed(check), &failures(None)),
        figure("live nodes", number(check.live().count()), "nodes"),
        figure("schedules", format!("{}{more}", number(schedules)), "schedules"),
    ]
}

fn node_row(node: &NodeView, now: DateTime<Utc>) -> NodeRow {
    NodeRow {
        name: name_of(node),
        id: node.id.clone(),
        badge: Badge::of_state(node.state.as_str()),
        heartbeat: Moment::some(node.last_beat, now),
        threads: format!("{} of {}", node.busy, node.threads),
        queued: node.queued,
        note: crate::console::words::because("", &node.paused_by, &node.reason).trim().to_owned(),
    }
}

fn running_row(execution: &ExecutionView, check: &Check) -> RunningRow {
    RunningRow {
        id: execution.id,
        to: query::execution(execution.id),
        schedule: name_of_schedule(execution),
        badge: Badge::of_execution(execution.state.as_str()),
        since: Moment::some(execution.started.or(execution.claimed), check.now),
        node: node_of(execution, &check.nodes),
    }
}

fn next_row(fire: &Fire, now: DateTime<Utc>) -> NextRow {
    NextRow {
        name: fire.schedule.clone(),
        to: query::schedule(&fire.schedule),
        job: fire.job.clone(),
        at: Moment::next(fire.at, now),
        trigger: fire.trigger.clone(),
    }
}

fn next_words(upcoming: &Upcoming) -> String {
    let schedules: BTreeSet<&str> = upcoming.fires.iter().map(|fire| fire.schedule.as_str()).collect();
    let fires =
        format!("{} of {}", counted(upcoming.fires.len(), "fire"), counted(schedules.len(), "schedule"));
    match (upcoming.fires.is_empty(), upcoming.is_cut) {
        (true, false) => "no schedule fires within ten minutes".to_owned(),
        (false, false) => format!("{fires} within ten minutes, each bar 10 s"),
        (_, true) => format!("{fires} until {}, and more; each bar 10 s", upcoming.until.format("%H:%M:%S")),
    }
}

/// How many fires there are in each ten seconds.
fn bars(upcoming: &Upcoming, now: DateTime<Utc>) -> Vec<Bar> {
    const HEIGHT: i64 = 60;
    let bars = AHEAD.as_secs().cast_signed() / BAR_SECONDS;
    let mut counts = vec![0_i64; usize::try_from(bars).unwrap_or_default()];
    for fire in &upcoming.fires {
        let place = ((fire.at - now).num_seconds() / BAR_SECONDS).clamp(0, bars - 1);
        if let Some(count) = usize::try_from(place).ok().and_then(|place| counts.get_mut(place)) {
            *count += 1;
        }
    }
    let most = counts.iter().copied().max().unwrap_or_default().max(4);
    let bar = |(place, count): (usize, i64)| {
        let place = i64::try_from(place).unwrap_or_default();
        let height = (count * HEIGHT / most).max(3);
        let title =
            format!("{} in {}", counted(count, "fire"), span(TimeDelta::seconds(place * BAR_SECONDS)));
        Bar { x: place * 12, y: HEIGHT - height, height, title }
    };
    counts.into_iter().enumerate().filter(|(_, count)| *count > 0).map(bar).collect()
}
