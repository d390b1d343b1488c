//! Who changed what.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use crate::console::asked::Asked;
use crate::console::filter;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query;
use crate::console::web::trouble::Trouble;
use crate::console::words::instant::instant;
use crate::console::words::{Moment, counted, first_line};
use crate::{AuditFilter, AuditPlace, AuditView, Client};

/// So many are on a page.
const SHOWN: usize = 200;

/// The verbs that may be picked.
const VERBS: [&str; 13] = [
    "ensure", "sync", "edit", "pause", "resume", "drain", "trigger", "rerun", "backfill", "skip", "cancel",
    "retry", "remove",
];

#[derive(Template)]
#[template(path = "console/audit.html")]
pub(super) struct AuditPage {
    frame: Frame,
    heading: String,
    summary: String,
    target: String,
    actor: String,
    verb: String,
    since: String,
    verbs: &'static [&'static str],
    rows: Vec<Row>,
    /// The address of the page behind this one, and of the first.
    next: Option<String>,
    first: Option<String>,
}

struct Row {
    at: Option<Moment>,
    by: String,
    verb: String,
    kind: String,
    target: String,
    to: Option<String>,
    was: String,
    became: String,
    reason: String,
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<AuditPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "audit", "Audit");
    let (query, now) = (&asked.query, client.now()?);
    let text = |name: &str| query.text(name).unwrap_or_default();
    let since = query.get("since").map(|since| instant(since, now)).transpose()?;
    let filter = filter::audit(query, since)?;
    let mut entries = client.audit(&AuditFilter { limit: SHOWN + 1, ..filter.clone() })?;
    let has_more = entries.len() > SHOWN;
    entries.truncate(SHOWN);
    asked.masks.audit(&mut entries);
    let to = |place: AuditPlace| query.clone().without("after").with("after", place.to_string()).of("audit");
    let next = entries.last().filter(|_| has_more).map(|last| to(last.place()));
    let first = filter.after.map(|_| query.clone().without("after").of("audit"));
    let heading = match entries.first() {
        _ if first.is_some() => "Older changes".to_owned(),
        None => "Nobody changed anything".to_owned(),
        Some(last) => {
            let at = Moment::some(last.made, now).map_or_else(String::new, |at| format!(" {}", at.said));
            format!("The last change was made by {}{at}", last.actor)
        }
    };
    let more = if has_more { " on this page" } else { "" };
    let summary = format!("{}{more}, the newest first.", counted(entries.len(), "change"));
    let rows = entries.into_iter().map(|entry| Row {
        at: Moment::some(entry.made, now),
        to: page_of(&entry),
        by: entry.actor,
        verb: entry.verb,
        kind: entry.target_type,
        target: entry.target,
        was: first_line(&entry.was),
        became: first_line(&entry.became),
        reason: entry.reason,
    });
    Ok(AuditPage {
        frame,
        heading,
        summary,
        target: text("target"),
        actor: text("actor"),
        verb: text("verb"),
        since: text("since"),
        verbs: &VERBS,
        rows: rows.collect(),
        next,
        first,
    })
}

/// The page of what was changed.
fn page_of(entry: &AuditView) -> Option<String> {
    match entry.target_type.as_str() {
        "schedule" => Some(query::schedule(&entry.target)),
        "execution" => Some(query::execution(entry.target.split(' ').next()?.parse::<i64>().ok()?)),
        "job" => Some("jobs".to_owned()),
        "node" => Some("nodes".to_owned()),
        _ => None,
    }
}
