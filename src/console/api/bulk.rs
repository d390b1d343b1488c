//! Changes of all that a filter means, ordered by programs: what one means, its order, and how far it is.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use chrono::{DateTime, SecondsFormat};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{json, problem};
use super::ordered::{fields, is_ordered};
use crate::Client;
use crate::console::asked::{Asked, Permit};
use crate::console::changes::bulk::{BulkOrder, BulkVerb, End, Meant, Tasks, meant};
use crate::console::changes::carried::bulk;
use crate::console::changes::order::Order;
use crate::console::state::Console;
use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::console::words::first_line;

/// The fields of an order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    each: String,
    filter: BTreeMap<String, Value>,
    newest: Option<i64>,
    #[serde(default)]
    yes: bool,
    #[serde(default)]
    reason: String,
}

/// Carries out an order, or tells what it means: without `yes` nothing is changed.
pub(super) async fn order(
    State(console): State<Console>,
    asked: Asked,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (order, fields, permit) = match permitted(&asked, &headers, &body) {
        Ok(permitted) => permitted,
        Err(trouble) => return problem(trouble),
    };
    let (tasks, reason) = (console.tasks().clone(), first_line(&fields.reason));
    let answer = match fields.yes {
        true => console.order(permit, move |client| ordered(client, &tasks, &order, &reason)).await,
        false => console.call(Trouble::away, move |client| told(client, order)).await,
    };
    answer.map_or_else(problem, |answer| json(&answer))
}

fn permitted(
    asked: &Asked,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(BulkOrder, Fields, Permit), Trouble> {
    is_ordered(asked, headers)?;
    let fields: Fields = fields(body)?;
    let order = read(&fields)?;
    let permit = asked.permit(Order::Bulk(Box::new(order.clone())).role())?;
    Ok((order, fields, permit))
}

fn read(fields: &Fields) -> Result<BulkOrder, Trouble> {
    let wrong = |said: String| Trouble::wrong(format!("Nothing was changed: {said}"));
    let words = BulkVerb::ALL.map(BulkVerb::word).join(", ");
    let verb = BulkVerb::of(&fields.each);
    let verb = verb.ok_or_else(|| wrong(format!("each is {:?}; write one of {words}.", fields.each)))?;
    let mut filter = Query::default();
    for (name, value) in &fields.filter {
        if !verb.filter().contains(&name.as_str()) {
            let known = verb.filter().join(", ");
            return Err(wrong(format!(
                "a filter of {}s has no field {name:?}; it has {known}.",
                verb.noun()
            )));
        }
        let values = if let Value::Array(list) = value { list } else { std::slice::from_ref(value) };
        for value in values {
            let text = text(name, value).ok_or_else(|| {
                wrong(format!("the filter's field {name:?} is a text, or a list of texts for states."))
            })?;
            filter = filter.and(name, &text);
        }
    }
    if filter.only(verb.filter()).pairs().is_empty() {
        let said = format!("the filter is empty: it would mean every {} there is.", verb.noun());
        return Err(wrong(said));
    }
    Ok(BulkOrder::of(verb, &filter).up_to(fields.newest))
}

/// A value as an address has it; an instant may be epoch milliseconds.
fn text(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if ["since", "until"].contains(&name) => {
            let at = DateTime::from_timestamp_millis(number.as_i64()?)?;
            Some(at.to_rfc3339_opts(SecondsFormat::Millis, true))
        }
        _ => None,
    }
}

fn ordered(client: &Client, tasks: &Tasks, order: &BulkOrder, reason: &str) -> Result<Value, Trouble> {
    let (said, task) = bulk(client, tasks, order, reason)?;
    Ok(answer(said.is_done, &said.sentence, task, json!({ "items": [], "will": [], "newest": null })))
}

/// What an order means.
fn told(client: &Client, order: BulkOrder) -> Result<Value, Trouble> {
    let Meant { items, will } = meant(&order, client, client.now()?)?;
    let count = order.counted(items.len());
    let said = format!("Nothing was changed: it means {count}. With yes it is done.");
    let key = |id: i64, name: &str| match order.verb {
        BulkVerb::Cancel | BulkVerb::Retry => json!(id),
        BulkVerb::Pause | BulkVerb::Resume => json!(name),
    };
    let newest = items.iter().map(|it| it.id).max();
    let items: Vec<Value> = items.iter().map(|it| key(it.id, &it.name)).collect();
    Ok(answer(false, &said, None, json!({ "items": items, "will": will, "newest": newest })))
}

fn answer(is_done: bool, said: &str, task: Option<String>, mut with: Value) -> Value {
    with["done"] = is_done.into();
    with["said"] = said.into();
    with["task"] = task.into();
    with
}

/// How far a change of many is.
pub(super) async fn task(State(console): State<Console>, asked: Asked) -> Response {
    if let Some(unknown) = asked.query.names().find(|name| *name != "id") {
        return problem(Trouble::wrong(format!("/api/v1/task has no parameter {unknown:?}: it has id.")));
    }
    let Some(id) = asked.query.get("id") else {
        return problem(Trouble::wrong("The parameter id is missing: what bulk has answered as task."));
    };
    let Some(it) = console.tasks().progress(id) else {
        let gone = "This console knows of no such change: it keeps the last 50, and forgets them when it is started \
                    anew. The audit has what was changed.";
        return problem(Trouble::not_found(gone));
    };
    json(&json!({
        "id": it.id,
        "each": it.what.verb.word(),
        "by": it.what.by,
        "total": it.total,
        "done": it.done,
        "changed": it.changed,
        "left": it.left,
        "told": it.told,
        "ended": it.ended.is_some(),
        "why": it.ended.as_ref().map_or("", End::why),
    }))
}
