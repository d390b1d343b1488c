//! Who changed what.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::asked::Asked;
use super::frame::Frame;
use super::instant::instant;
use super::query;
use super::state::Console;
use super::trouble::Trouble;
use super::words::{Moment, counted, first_line};
use crate::{AuditFilter, AuditView, Client};

/// So many are shown.
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

pub(super) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<AuditPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "audit", "Audit");
    let (query, now) = (&asked.query, client.now()?);
    let text = |name: &str| query.text(name).unwrap_or_default();
    let mut entries = client.audit(&AuditFilter {
        target: query.text("target"),
        actor: query.text("actor"),
        verb: query.text("verb"),
        since: query.get("since").map(|since| instant(since, now)).transpose()?,
        limit: SHOWN,
    })?;
    asked.masks.audit(&mut entries);
    let heading = match entries.first() {
        None => "Nobody changed anything".to_owned(),
        Some(last) => {
            let at = Moment::some(last.made, now).map_or_else(String::new, |at| format!(" {}", at.said));
            format!("The last change was made by {}{at}", last.actor)
        }
    };
    let summary = match entries.len() {
        SHOWN => format!("The newest {SHOWN}: older ones are shown by a narrower filter."),
        count => format!("{}, the newest first.", counted(count, "change")),
    };
    let rows = entries.into_iter().map(|entry| Row {
        at: Moment::some(entry.made, now),
        to: to(&entry),
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
    })
}

/// The page of what was changed.
fn to(entry: &AuditView) -> Option<String> {
    match entry.target_type.as_str() {
        "schedule" => Some(query::schedule(&entry.target)),
        "execution" => Some(query::execution(entry.target.split(' ').next()?.parse().ok()?)),
        "job" => Some("jobs".to_owned()),
        "node" => Some("nodes".to_owned()),
        _ => None,
    }
}
