//! The first page: what needs people, and what goes on.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, TimeDelta, Utc};

use super::asked::Asked;
use super::day::Day;
use super::failures::Failures;
use super::frame::Frame;
use super::needs::{Need, Seen, name_of};
use super::query;
use super::state::Console;
use super::trouble::Trouble;
use super::words::{Badge, Moment, counted, number, span, trigger};
use crate::{Client, ExecutionFilter, ExecutionState, ExecutionView, NodeView};

/// So many rows of what runs, and of what comes next, are shown.
const ROWS: usize = 10;
/// So many that run or wait are counted; then there are more.
const COUNTED: usize = 1_000;
/// What comes next is shown so far ahead.
const AHEAD: TimeDelta = TimeDelta::minutes(10);
/// Each bar of what comes next is so long.
const BAR_SECONDS: i64 = 10;

#[derive(Template)]
#[template(path = "console/now.html")]
struct NowPage {
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
    id: i64,
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

/// How many schedules fire within ten seconds.
struct Bar {
    x: i64,
    y: i64,
    height: i64,
    title: String,
}

pub(super) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

fn make(client: &Client, asked: &Asked) -> Result<NowPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "now", "Now");
    let seen = Seen::now(client)?;
    let under_way = some(client, &[ExecutionState::Running, ExecutionState::Claimed])?;
    let waiting = some(client, &[ExecutionState::Pending])?;
    let needs = seen.needs(&frame);
    let heading = match needs.len() {
        _ if !seen.is_known() => "Nothing is known of this application yet".to_owned(),
        0 => "Nothing needs you".to_owned(),
        1 => "One thing needs you".to_owned(),
        many => format!("{many} things need you"),
    };
    let (late, oldest) = seen.late();
    let waits = match oldest {
        Some(oldest) if late > 0 => format!("{} · {}", capped(waiting.len()), span(oldest)),
        _ => capped(waiting.len()),
    };
    let live = seen.live().count();
    let figures = figures(&seen, live, under_way.len(), waits);
    let (next, next_words, bars) = next(&seen);
    let summary = format!(
        "{} live, {} running, {} waiting; {} in the last hour.",
        counted(live, "node"),
        capped(under_way.len()),
        capped(waiting.len()),
        match seen.failures() {
            (0, false) => "nothing failed".to_owned(),
            failures => format!("{} failed", at_least(failures)),
        },
    );
    let running = under_way.iter().take(ROWS).map(|it| running_row(it, &seen)).collect();
    let nodes = seen.live().map(|node| node_row(node, seen.now)).collect();
    let (is_known, day) = (seen.is_known(), Day::of(client, seen.now)?);
    Ok(NowPage {
        frame,
        heading,
        summary,
        is_known,
        needs,
        figures,
        nodes,
        running,
        next,
        next_words,
        bars,
        day,
    })
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

fn at_least((count, more): (usize, bool)) -> String {
    format!("{}{}", number(count), if more { " or more" } else { "" })
}

fn figures(seen: &Seen, live: usize, running: usize, waits: String) -> Vec<Figure> {
    let figure = |name, value, to: &str| Figure { name, value, to: to.to_owned() };
    let failures = at_least(seen.failures());
    vec![
        figure("running now", capped(running), "executions?state=RUNNING&state=CLAIMED"),
        figure("waiting, oldest", waits, "executions?state=PENDING&oldest=1"),
        figure("failed in the last hour", failures, &Failures::address(None)),
        figure("live nodes", number(live), "nodes"),
        figure("schedules", number(seen.schedules.len()), "schedules"),
    ]
}

fn node_row(node: &NodeView, now: DateTime<Utc>) -> NodeRow {
    NodeRow {
        name: name_of(node),
        id: node.id.clone(),
        badge: Badge::of_state(&node.state),
        heartbeat: Moment::some(node.last_beat, now),
        threads: format!("{} of {}", node.busy, node.threads),
        queued: node.queued,
        note: super::words::because("", &node.paused_by, &node.reason).trim().to_owned(),
    }
}

fn running_row(execution: &ExecutionView, seen: &Seen) -> RunningRow {
    let node = seen.nodes.iter().find(|node| node.id == execution.node).map(name_of);
    RunningRow {
        id: execution.id,
        to: query::execution(execution.id),
        schedule: execution.schedule.clone(),
        badge: Badge::of_execution(&execution.state),
        since: Moment::some(execution.started.or(execution.claimed), seen.now),
        node: node.unwrap_or_else(|| execution.node.clone()),
    }
}

/// The schedules that fire next: the first of them, how many there are, and how many in each ten seconds.
fn next(seen: &Seen) -> (Vec<NextRow>, String, Vec<Bar>) {
    const HEIGHT: i64 = 60;
    let fires = |it: &&crate::ScheduleView| it.state == "active" && it.held_by.is_empty() && it.nodes > 0;
    let within = seen.schedules.iter().filter(fires).filter_map(|it| Some((it.next?, it)));
    let mut within: Vec<_> = within.filter(|(at, _)| *at < seen.now + AHEAD).collect();
    within.sort_by_key(|(at, schedule)| (*at, schedule.name.clone()));
    let row = |(at, schedule): &(DateTime<Utc>, &crate::ScheduleView)| NextRow {
        name: schedule.name.clone(),
        to: query::schedule(&schedule.name),
        job: schedule.job.clone(),
        at: Moment::new(*at, seen.now),
        trigger: trigger(schedule),
    };
    let bars = AHEAD.num_seconds() / BAR_SECONDS;
    let mut counts = vec![0_i64; usize::try_from(bars).unwrap_or_default()];
    for (at, _) in &within {
        let place = ((*at - seen.now).num_seconds() / BAR_SECONDS).clamp(0, bars - 1);
        if let Some(count) = usize::try_from(place).ok().and_then(|place| counts.get_mut(place)) {
            *count += 1;
        }
    }
    let most = counts.iter().copied().max().unwrap_or_default().max(4);
    let bar = |(place, count): (usize, i64)| {
        let place = i64::try_from(place).unwrap_or_default();
        let height = (count * HEIGHT / most).max(3);
        let in_words = span(TimeDelta::seconds(place * BAR_SECONDS));
        let title = format!("{} in {in_words}", counted(count, "schedule"));
        Bar { x: place * 12, y: HEIGHT - height, height, title }
    };
    let bars = counts.into_iter().enumerate().filter(|(_, count)| *count > 0).map(bar).collect();
    let words = match within.len() {
        0 => "no schedule fires within ten minutes".to_owned(),
        some => format!("{} within ten minutes, each bar 10 s", counted(some, "schedule")),
    };
    (within.iter().take(ROWS).map(row).collect(), words, bars)
}
