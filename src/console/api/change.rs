//! A change that a program orders.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use super::answer::{json, problem};
use super::ordered::is_ordered;
use crate::console::asked::{Asked, Permit};
use crate::console::changes::carried::carry;
use crate::console::changes::order::Order;
use crate::console::state::Console;
use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::console::words::first_line;

/// What may be ordered.
pub(super) const VERBS: [&str; 10] =
    ["pause", "resume", "drain", "run", "skip", "rerun", "remove", "cancel", "retry", "stop"];

/// The fields of an order: those of a form.
pub(super) const FIELDS: [&str; 10] =
    ["verb", "schedule", "job", "node", "application", "execution", "task", "at", "reason", "also"];

/// Carries out an order, if it may be given, and tells what became of it.
pub(super) async fn change(
    State(console): State<Console>,
    asked: Asked,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (order, query, permit) = match permitted(&asked, &headers, &body) {
        Ok(permitted) => permitted,
        Err(trouble) => return problem(trouble),
    };
    let reason = first_line(query.get("reason").unwrap_or_default());
    let also = query.get("also").is_some();
    let tasks = console.tasks().clone();
    let carried = console.order(permit, move |client| carry(client, &tasks, &order, (&reason, also))).await;
    match carried {
        Ok((said, _)) => json(&json!({ "done": said.is_done, "said": said.sentence })),
        Err(trouble) => problem(trouble),
    }
}

fn permitted(asked: &Asked, headers: &HeaderMap, body: &[u8]) -> Result<(Order, Query, Permit), Trouble> {
    is_ordered(asked, headers)?;
    let query = read(body)?;
    let order = Order::read(&query)?;
    let permit = asked.permit(order.role())?;
    Ok((order, query, permit))
}

/// The fields of an order.
fn read(body: &[u8]) -> Result<Query, Trouble> {
    let wrong = |said: String| Trouble::wrong(format!("Nothing was changed: {said}"));
    let fields: BTreeMap<String, Value> = serde_json::from_slice(body)
        .map_err(|error| wrong(format!("the order is no JSON object: {error}.")))?;
    let mut query = Query::default();
    for (name, value) in fields {
        if !FIELDS.contains(&name.as_str()) {
            return Err(wrong(format!("an order has no field {name:?}; it has {}.", FIELDS.join(", "))));
        }
        query = match value {
            Value::String(text) => query.with(&name, text),
            Value::Number(number) => query.with(&name, number),
            Value::Bool(true) => query.with(&name, 1),
            Value::Bool(false) | Value::Null => query,
            _ => return Err(wrong(format!("the field {name:?} is a text, a number, true or false."))),
        };
    }
    match query.get("verb") {
        Some(verb) if VERBS.contains(&verb) => Ok(query),
        verb => Err(wrong(format!(
            "{:?} is no verb; write one of {}.",
            verb.unwrap_or_default(),
            VERBS.join(", ")
        ))),
    }
}
