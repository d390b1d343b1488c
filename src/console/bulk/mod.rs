//! Changes of all that a filter means: what they are, the question, and how far they have come.

mod order;
mod tasks;

use askama::Template;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::REFRESH;
use axum::response::Response;

pub(super) use self::order::{BulkOrder, BulkVerb};
pub(super) use self::tasks::{Progress, Tasks};
use super::asked::Asked;
use super::frame::Frame;
use super::order::{Button, Order};
use super::query::{self, Query};
use super::state::Console;
use super::trouble::Trouble;
use super::words::{Badge, Moment, counted, number};
use crate::Client;

/// So many of those that are meant are listed.
const LISTED: usize = 20;

#[derive(Template)]
#[template(path = "console/bulk.html")]
struct AskPage {
    frame: Frame,
    question: String,
    /// What it will do, a sentence each.
    will: Vec<String>,
    rows: Vec<Row>,
    more: String,
    /// None if there is nothing to change.
    button: Option<Button>,
    back: String,
}

/// One of those that are meant.
struct Row {
    name: String,
    to: String,
    of: String,
    fire_time: Option<Moment>,
    badge: Badge,
}

#[derive(Template)]
#[template(path = "console/progress.html")]
struct ProgressPage {
    frame: Frame,
    heading: String,
    summary: String,
    progress: Progress,
    button: Option<Button>,
    /// The changes in the audit.
    audit: String,
}

/// The page of a change that runs or has ended, or else the question whether to make one.
pub(super) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    let Some(id) = asked.query.text("id") else { return console.show(asked, question).await };
    let progress = console.tasks().progress(&id);
    let is_running = progress.as_ref().is_some_and(|it| it.ended.is_none());
    let mut response = console.show(asked, move |client, asked| progress_page(client, asked, progress)).await;
    if is_running {
        response.headers_mut().insert(REFRESH, HeaderValue::from_static("1"));
    }
    response
}

fn question(client: &Client, asked: &Asked) -> Result<AskPage, Trouble> {
    let now = client.now()?;
    let asks = BulkOrder::read(&asked.query)?;
    let found = asks.found(client, now)?;
    let order = asks.fixed(found.iter().map(|it| it.id).max(), now)?;
    let frame = Frame::new(asked, client.application(), "executions", "Are you sure?");
    let label = format!("{} {}", order.verb.label(), counted(found.len(), "execution"));
    let button = Button::new(&frame, &label, &Order::Bulk(Box::new(order.clone())));
    if button.is_none() {
        return Err(Trouble::forbidden("You may look here, and change nothing."));
    }
    let back = asked.query.get("back").map_or_else(|| order.list(), str::to_owned);
    let back = if back.starts_with("executions") { back } else { order.list() };
    let rows = found.iter().take(LISTED).map(|it| Row {
        name: it.id.to_string(),
        to: query::execution(it.id),
        of: it.schedule.clone(),
        fire_time: Moment::some(it.fire_time, now),
        badge: Badge::of_execution(&it.state),
    });
    let rest = found.len().saturating_sub(LISTED);
    Ok(AskPage {
        question: match found.len() {
            0 => format!("There is nothing to {}", order.verb.word()),
            _ => format!("{label}?"),
        },
        will: if found.is_empty() { Vec::new() } else { order.will(&found) },
        rows: rows.collect(),
        more: if rest > 0 { format!("and {} more", number(rest)) } else { String::new() },
        button: button.filter(|_| !found.is_empty()).map(|it| it.confirmed(back.clone()).primary()),
        back,
        frame,
    })
}

fn progress_page(
    client: &Client,
    asked: &Asked,
    progress: Option<Progress>,
) -> Result<ProgressPage, Trouble> {
    let gone = "This console knows of no such change: it keeps the last of them, and forgets them when it is \
                started anew. The audit has what was changed.";
    let progress = progress.ok_or_else(|| Trouble::not_found(gone))?;
    let frame = Frame::new(asked, client.application(), "executions", progress.what.clone());
    let stop = || Button::new(&frame, "Stop it", &Order::Stop(progress.id.clone()));
    let of = counted(progress.total, "execution");
    let heading = match &progress.ended {
        None => format!("{}: {} of {of}", progress.what, number(progress.done)),
        Some(_) => format!("{}: done", progress.what),
    };
    let changed =
        format!("{} changed, {} left as they were", number(progress.changed), number(progress.left));
    let summary = match &progress.ended {
        None => format!("{changed} so far. It goes on also if you leave this page."),
        Some(why) => format!("{changed}, of {of}. {why}"),
    };
    let by = Query::default().with("actor", &progress.by).with("verb", progress.verb);
    Ok(ProgressPage {
        button: if progress.ended.is_none() { stop() } else { None },
        audit: by.of("audit"),
        heading,
        summary,
        progress,
        frame,
    })
}
