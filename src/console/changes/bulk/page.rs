//! The pages of a change of many: the question whether to make it, and how far it has come.

use askama::Template;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::REFRESH;
use axum::response::Response;

use super::meant::meant;
use super::order::{BulkOrder, Meant};
use super::tasks::{End, Progress};
use super::verb::BulkVerb;
use crate::Client;
use crate::console::asked::Asked;
use crate::console::changes::button::Button;
use crate::console::changes::order::Order;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{Badge, Moment, counted, number};

/// So many of those that are meant are listed.
const LISTED: usize = 20;

#[derive(Template)]
#[template(path = "console/bulk.html")]
struct AskPage {
    frame: Frame,
    question: String,
    /// What it will do, a sentence each.
    will: Vec<String>,
    /// The headings of its table.
    columns: [&'static str; 4],
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
    at: Option<Moment>,
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
pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
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
    let Meant { items, will } = meant(&asks, client, now)?;
    let order = asks.fixed(items.iter().map(|it| it.id).max(), now)?;
    let verb = order.verb;
    let frame = Frame::new(asked, client.application(), verb.list(), "Are you sure?");
    let label = format!("{} {}", verb.label(), order.counted(items.len()));
    let button = Button::new(&frame, &label, &Order::Bulk(Box::new(order.clone())));
    if button.is_none() {
        return Err(Trouble::forbidden("You may look here, and change nothing."));
    }
    let back = asked.query.get("back").map_or_else(|| order.list(), str::to_owned);
    let back = if back.split('?').next() == Some(verb.list()) { back } else { order.list() };
    let rows = items.iter().take(LISTED).map(|it| Row {
        name: it.name.clone(),
        to: it.to.clone(),
        of: it.of.clone(),
        at: Moment::some(it.at, now),
        badge: it.badge.clone(),
    });
    let rest = items.len().saturating_sub(LISTED);
    Ok(AskPage {
        question: match items.len() {
            0 => format!("There is nothing to {}", verb.word()),
            _ => format!("{label}?"),
        },
        will: if items.is_empty() { Vec::new() } else { will },
        columns: match verb {
            BulkVerb::Cancel | BulkVerb::Retry => ["Execution", "Of", "Fire time", "State"],
            BulkVerb::Pause | BulkVerb::Resume => ["Schedule", "Job", "Next", "State"],
        },
        rows: rows.collect(),
        more: if rest > 0 { format!("and {} more", number(rest)) } else { String::new() },
        button: button.filter(|_| !items.is_empty()).map(|it| it.confirmed(back.clone()).primary()),
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
    let what = &progress.what;
    let frame = Frame::new(asked, client.application(), what.verb.list(), what.verb.label());
    let stop = || Button::new(&frame, "Stop it", &Order::Stop(progress.id.clone()));
    let (label, of) = (what.verb.label(), counted(progress.total, what.verb.noun()));
    let heading = match &progress.ended {
        None => format!("{label}: {} of {of}", number(progress.done)),
        Some(End::Done) => format!("{label}: done"),
        Some(End::Stopped) => format!("{label}: stopped"),
        Some(End::Failed(_)) => format!("{label}: failed"),
    };
    let changed =
        format!("{} changed, {} left as they were", number(progress.changed), number(progress.left));
    let summary = match &progress.ended {
        None => format!("{changed} so far. It goes on also if you leave this page."),
        Some(end) => format!("{changed}, of {of}. {}", end.why()),
    };
    let by = Query::default().with("actor", &what.by).with("verb", what.verb.word());
    Ok(ProgressPage {
        button: if progress.ended.is_none() { stop() } else { None },
        audit: by.of("audit"),
        heading,
        summary,
        progress,
        frame,
    })
}
