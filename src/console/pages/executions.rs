//! The executions of an application, as a filter has them.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::rows::ExecutionLine;
use crate::console::asked::Asked;
use crate::console::changes::bulk::{BulkOrder, BulkVerb, states};
use crate::console::changes::button::Button;
use crate::console::changes::followed::menders;
use crate::console::changes::missed::MissedOrder;
use crate::console::changes::order::Order;
use crate::console::filter;
use crate::console::frame::Frame;
use crate::console::state::Console;
use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::console::words::{counted, enqueued_for};
use crate::{Client, ExecutionFilter, ExecutionPlace, ExecutionState, ExecutionView};

/// So many are on a page.
const PAGE: usize = 50;

/// The causes that may be picked.
const CAUSES: [&str; 7] = ["planned", "misfire", "by hand", "rerun", "enqueued", "retry", "recovery"];

#[derive(Template)]
#[template(path = "console/executions.html")]
pub(super) struct ExecutionsPage {
    frame: Frame,
    heading: String,
    summary: String,
    asked: Query,
    states: Vec<(&'static str, String, bool)>,
    causes: &'static [&'static str],
    /// Whether one of the rarer fields is asked for.
    is_detailed: bool,
    rows: Vec<ExecutionLine>,
    next: Option<String>,
    first: Option<String>,
    /// What may be done to all of them.
    bulk: Vec<Button>,
}

impl ExecutionsPage {
    /// What is asked of a field.
    fn value(&self, name: &str) -> String {
        self.asked.text(name).unwrap_or_default()
    }

    fn is_picked(&self, name: &str, value: &str) -> bool {
        self.asked.all(name).any(|it| it == value)
    }
}

pub(crate) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

pub(super) fn make(client: &Client, asked: &Asked) -> Result<ExecutionsPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "executions", "Executions");
    let now = client.now()?;
    let filter = ExecutionFilter { limit: PAGE + 1, ..filter::executions(&asked.query, now)? };
    let is_lately = is_lately(&asked.query);
    let mut found = match is_lately {
        true => client.failures(filter.schedule.as_deref())?.executions,
        false => client.executions(&filter)?,
    };
    asked.masks.executions(&mut found);
    let nodes = client.nodes()?;
    let shown = if is_lately { &found[..] } else { &found[..found.len().min(PAGE)] };
    let rows = ExecutionLine::all(shown, &menders(client, shown)?, &nodes, &frame, now);
    let place = shown.last().filter(|_| found.len() > shown.len()).map(|last| last.place());
    let to = |place: ExecutionPlace| {
        asked.query.clone().without("after").with("after", place.to_string()).of("executions")
    };
    let first = asked.query.get("after").map(|_| asked.query.clone().without("after").of("executions"));
    let states = ExecutionState::ALL.iter().map(|state| {
        let words = state.as_str().to_lowercase().replace('_', " ");
        (state.as_str(), words, filter.states.contains(state))
    });
    let rare = ["key", "group", "tag", "reason", "cause", "node", "since", "until"];
    let is_detailed = rare.iter().any(|name| asked.query.get(name).is_some());
    let more = if place.is_some() { " on this page" } else { "" };
    Ok(ExecutionsPage {
        heading: heading(&asked.query, shown),
        summary: match rows.len() {
            0 => "There is none.".to_owned(),
            count => format!(
                "{}{more}, the {} first.",
                counted(count, "execution"),
                if filter.oldest_first { "oldest" } else { "newest" }
            ),
        },
        asked: asked.query.clone(),
        states: states.collect(),
        causes: &CAUSES,
        is_detailed,
        rows,
        next: place.map(to),
        first,
        bulk: if is_lately { Vec::new() } else { bulk(shown, &asked.query, &frame) },
        frame,
    })
}

/// What may be done to all of a filter: whatever some of those that are shown are in a state for.
fn bulk(shown: &[ExecutionView], list: &Query, frame: &Frame) -> Vec<Button> {
    let each = |(verb, label): (BulkVerb, &str)| {
        let has_some = shown.iter().any(|it| states(verb).iter().any(|state| it.state == *state));
        let order = Order::Bulk(Box::new(BulkOrder::of(verb, list)));
        if has_some { Button::new(frame, label, &order) } else { None }
    };
    let missed = list.get("schedule").and_then(|name| {
        let order = Order::Missed(Box::new(MissedOrder::like(name, list)));
        Button::new(frame, "Run what is missing", &order)
    });
    let each =
        [(BulkVerb::Cancel, "Cancel all of these"), (BulkVerb::Retry, "Try all of these again")].map(each);
    each.into_iter().flatten().chain(missed).collect()
}

/// Whether those are asked for that failed in the last hour, as the first page counts them.
fn is_lately(query: &Query) -> bool {
    query.get("failed") == Some("lately")
}

fn heading(query: &Query, shown: &[ExecutionView]) -> String {
    let states: Vec<String> =
        query.all("state").map(|state| state.to_lowercase().replace('_', " ")).collect();
    let states = if is_lately(query) {
        " that failed in the last hour".to_owned()
    } else if states.is_empty() {
        String::new()
    } else {
        format!(", {}", states.join(" or "))
    };
    match (query.get("schedule"), query.get("job")) {
        (Some(name), _) => match shown.first().and_then(enqueued_for) {
            Some(enqueued) => enqueued + &states,
            None => format!("Executions of {name}{states}"),
        },
        (None, Some(job)) => format!("Executions of job {job}{states}"),
        (None, None) => format!("Executions{states}"),
    }
}
