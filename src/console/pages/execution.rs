//! One execution: why it is as it is, and all that is known of it.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};

use super::rows::{badge, button, reason};
use crate::console::asked::Asked;
use crate::console::changes::button::Button;
use crate::console::changes::followed::{is_mended, mended, menders};
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{
    Badge, Glyph, Moment, because, cause, counted, is_of_queue, name_of_schedule, node_of, number, span,
};
use crate::{Client, ExecutionDetails, ExecutionId, ExecutionState, ExecutionView, LogLevel, NodeView};

#[derive(Template)]
#[template(path = "console/execution.html")]
pub(super) struct ExecutionPage {
    frame: Frame,
    id: i64,
    schedule: String,
    to_schedule: String,
    fire_time: Option<Moment>,
    badge: Badge,
    glyph: Glyph,
    sentence: String,
    evidence: Vec<(String, String)>,
    button: Option<Button>,
    attempts: Vec<Attempt>,
    facts: Vec<(&'static str, String)>,
    /// Texts as JSON, each under its name.
    values: Vec<(&'static str, String)>,
    error: String,
    progress: Option<(u64, u64, String)>,
    lines: Vec<Line>,
}

struct Attempt {
    number: u32,
    id: ExecutionId,
    to: String,
    is_this: bool,
    badge: Badge,
    started: Option<Moment>,
    start: String,
    took: String,
    node: String,
    fence: i64,
    reason: String,
}

struct Line {
    attempt: u32,
    at: Option<Moment>,
    level: &'static str,
    class: &'static str,
    text: String,
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<ExecutionPage, Trouble> {
    let id = asked.query.get("id").and_then(|id| id.parse::<i64>().ok());
    let id = id.ok_or_else(|| Trouble::wrong("An execution's id is a number."))?;
    let frame = Frame::new(asked, client.application(), "executions", format!("Execution {id}"));
    let now = client.now()?;
    let mut details = client.execution(id)?;
    let (mut why, mut logs) = (client.why(id)?, client.logs(id)?);
    asked.masks.why(&mut why);
    asked.masks.execution(client, &mut details, &mut logs)?;
    let last = details.last();
    let menders = menders(client, std::slice::from_ref(last))?;
    let is_mended = is_mended(last, &mended(&menders));
    let lines = logs.lines.iter().map(|line| Line {
        attempt: line.attempt,
        at: line.at.map(Moment::exactly),
        level: line.level.as_str(),
        class: match line.level {
            LogLevel::Error => "e",
            LogLevel::Warn => "w",
            _ => "",
        },
        text: line.text.clone(),
    });
    let progress = logs.progress.map(|it| {
        let words = format!("{} of {}", number(i128::from(it.done)), number(i128::from(it.total)));
        (it.done, it.total.max(1), words)
    });
    let badge = badge(last);
    Ok(ExecutionPage {
        id,
        schedule: name_of_schedule(last),
        to_schedule: match is_of_queue(last) {
            true => query::address("executions", "job", &last.job),
            false => query::schedule(&last.schedule),
        },
        fire_time: details.execution.fire_time.map(Moment::exactly),
        glyph: Glyph(badge.mark),
        badge,
        sentence: why.sentence,
        evidence: why.evidence.into_iter().map(|it| (it.what, it.known)).collect(),
        button: button(last, &frame).filter(|_| !is_mended).map(Button::primary),
        attempts: details.attempts.iter().map(|it| attempt(it, id, &details.nodes, now)).collect(),
        facts: facts(&details, now),
        values: values(&details),
        error: last.error.clone(),
        progress,
        lines: lines.collect(),
        frame,
    })
}

fn attempt(it: &ExecutionView, shown: i64, nodes: &[NodeView], now: DateTime<Utc>) -> Attempt {
    let between = |from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>| Some(span(to? - from?));
    let ended = it.finished.or_else(|| (it.state == ExecutionState::Running).then_some(now));
    Attempt {
        number: it.attempt,
        id: it.id,
        to: query::execution(it.id),
        is_this: it.id.get() == shown,
        badge: badge(it),
        started: it.started.map(Moment::exactly),
        start: between(it.due, it.started).map(|late| format!("+{late}")).unwrap_or_default(),
        took: between(it.started, ended).unwrap_or_default(),
        node: node_of(it, nodes),
        fence: it.fence,
        reason: reason(it, now),
    }
}

fn facts(details: &ExecutionDetails, now: DateTime<Utc>) -> Vec<(&'static str, String)> {
    let it = details.last();
    let exact = |at: Option<DateTime<Utc>>| at.map(|at| Moment::exactly(at).said).unwrap_or_default();
    let headers = details.headers.iter().map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>();
    let facts = [
        ("Job", it.job.clone()),
        ("Cause", cause(&it.cause)),
        ("Due", exact(it.due)),
        ("Claimed", exact(it.claimed)),
        ("Started", exact(it.started)),
        ("Ended", exact(it.finished)),
        ("Stands for", if it.count > 1 { counted(it.count, "occurrence") } else { String::new() }),
        ("Last fire time", exact(it.last_fire_time)),
        ("Key", it.key.clone().unwrap_or_default()),
        ("Group", it.group.clone().unwrap_or_default()),
        ("Lane", it.lane.clone().unwrap_or_default()),
        ("Tags", it.tags.join(", ")),
        ("Headers", headers.join(", ")),
        ("Snoozed", if it.snoozes > 0 { counted(it.snoozes, "time") } else { String::new() }),
        (
            "Asked to end",
            it.cancel_asked
                .map(|at| because(&Moment::new(at, now).said, &it.cancel_asked_by, &it.cancel_asked_why))
                .unwrap_or_default(),
        ),
    ];
    facts.into_iter().filter(|(_, fact)| !fact.is_empty()).collect()
}

fn values(details: &ExecutionDetails) -> Vec<(&'static str, String)> {
    let values =
        [("Payload", &details.payload), ("Checkpoint", &details.checkpoint), ("Result", &details.result)];
    values.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
}
