//! An edit that a program orders: some fields of a schedule become others, or are taken away.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::{json, problem};
use super::ordered::{fields, is_ordered};
use crate::console::access::masks::Masks;
use crate::console::access::role::Role;
use crate::console::asked::{Asked, Permit};
use crate::console::changes::edit::said;
use crate::console::state::Console;
use crate::console::web::trouble::Trouble;
use crate::console::words::instant::instant;
use crate::console::words::{first_line, span};
use crate::request::Edit;
use crate::{Client, EditPlan, Edited, MisfirePolicy, Overlap, Trigger};

/// The fields of an order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    schedule: String,
    #[serde(default)]
    set: Set,
    #[serde(default)]
    give_back: Vec<String>,
    version: Option<i64>,
    #[serde(default)]
    yes: bool,
    #[serde(default)]
    reason: String,
}

/// What some fields become; with null they are taken away.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Set {
    trigger: Option<Rule>,
    #[serde(deserialize_with = "named")]
    starts: Option<Option<Instant>>,
    #[serde(deserialize_with = "named")]
    ends: Option<Option<Instant>>,
    #[serde(deserialize_with = "raw")]
    payload: Option<Box<RawValue>>,
    #[serde(deserialize_with = "named")]
    description: Option<Option<String>>,
    priority: Option<i32>,
    misfire: Option<String>,
    #[serde(deserialize_with = "named")]
    misfire_threshold: Option<Option<Span>>,
    #[serde(deserialize_with = "named")]
    time_limit: Option<Option<Span>>,
    #[serde(deserialize_with = "named")]
    overlap: Option<Option<String>>,
    #[serde(deserialize_with = "named")]
    pause_after: Option<Option<u32>>,
    #[serde(deserialize_with = "named")]
    expected_by: Option<Option<Span>>,
}

/// When it fires, in one of these ways.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    cron: Option<String>,
    /// Of the expression, also of the one that is there.
    zone: Option<String>,
    every: Option<Span>,
    /// Of an interval.
    times: Option<u64>,
    after: Option<Span>,
    at: Option<Instant>,
}

/// Epoch milliseconds, or as people write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Instant {
    Millis(i64),
    Text(String),
}

/// Milliseconds, or as people write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Span {
    Millis(u32),
    Text(String),
}

/// A field that is named, if with null.
fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// JSON as it is written, null too.
fn raw<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(from).map(Some)
}

fn wrong(field: &str, said: &str) -> Trouble {
    Trouble::wrong(format!("Nothing was changed: {field}: {said}"))
}

impl Instant {
    fn read(&self, field: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Trouble> {
        match self {
            Self::Millis(millis) => DateTime::from_timestamp_millis(*millis).ok_or_else(Trouble::beyond),
            Self::Text(text) => instant(text, now).map_err(|trouble| wrong(field, &trouble.said)),
        }
    }
}

impl Span {
    fn read(&self, field: &str) -> Result<std::time::Duration, Trouble> {
        match self {
            Self::Millis(millis) => Ok(std::time::Duration::from_millis((*millis).into())),
            Self::Text(text) => span::span(text).map_err(|said| wrong(field, &said)),
        }
    }
}

impl Rule {
    fn set<'a>(&self, edit: Edit<'a>, now: DateTime<Utc>) -> Result<Edit<'a>, Trouble> {
        let ways = [self.cron.is_some(), self.every.is_some(), self.after.is_some(), self.at.is_some()];
        let has_cron = self.cron.is_some() || !ways.contains(&true);
        if ways.iter().filter(|it| **it).count() > 1
            || (self.zone.is_some() && !has_cron)
            || (self.times.is_some() && self.every.is_none())
            || (self.zone.is_none() && !ways.contains(&true))
        {
            let said = "write one of cron, every, after and at; a zone goes with cron or alone, and times with every.";
            return Err(wrong("trigger", said));
        }
        let span = |it: &Option<Span>| it.as_ref().map(|it| it.read("trigger")).transpose();
        let refused = |error: crate::TriggerError| wrong("trigger", &format!("{error}."));
        let trigger = match (span(&self.every)?, span(&self.after)?, &self.at) {
            (Some(every), ..) => {
                let every = Trigger::every(every).map_err(refused)?;
                Some(self.times.map_or(Ok(every.clone()), |times| every.times(times)).map_err(refused)?)
            }
            (_, Some(after), _) => Some(Trigger::fixed_delay(after).map_err(refused)?),
            (.., Some(at)) => Some(Trigger::once(at.read("trigger", now)?).map_err(refused)?),
            _ => None,
        };
        let edit = trigger.into_iter().fold(edit, |edit, trigger| edit.trigger(trigger));
        let edit = self.cron.iter().fold(edit, |edit, cron| edit.cron(cron));
        Ok(self.zone.iter().fold(edit, |edit, zone| edit.zone(zone)))
    }
}

impl Set {
    fn on<'a>(&self, edit: Edit<'a>, now: DateTime<Utc>) -> Result<Edit<'a>, Trouble> {
        let edit = match &self.trigger {
            Some(rule) => rule.set(edit, now)?,
            None => edit,
        };
        let at = |field: &str, at: &Option<Instant>| at.as_ref().map(|at| at.read(field, now)).transpose();
        let edit = match &self.starts {
            Some(starts) => edit.starting(at("starts", starts)?),
            None => edit,
        };
        let edit = match &self.ends {
            Some(ends) => edit.ending(at("ends", ends)?),
            None => edit,
        };
        let edit = self.payload.iter().fold(edit, |edit, payload| edit.payload(payload));
        let description = self.description.iter().map(|it| it.as_deref().unwrap_or_default());
        let edit = description.fold(edit, Edit::description);
        self.on_settings(self.priority.iter().fold(edit, |edit, priority| edit.priority(*priority)))
    }

    fn on_settings<'a>(&self, edit: Edit<'a>) -> Result<Edit<'a>, Trouble> {
        let span = |field: &str, it: &Option<Span>| it.as_ref().map(|it| it.read(field)).transpose();
        let edit = match &self.misfire {
            Some(word) => edit.misfire(word.parse::<MisfirePolicy>().map_err(|_| {
                wrong("misfire", &format!("{word:?} is none of FIRE_ONCE, DO_NOTHING and FIRE_ALL."))
            })?),
            None => edit,
        };
        let edit = match &self.misfire_threshold {
            Some(threshold) => edit.misfire_threshold(span("misfire_threshold", threshold)?),
            None => edit,
        };
        let edit = match &self.time_limit {
            Some(limit) => edit.time_limit(span("time_limit", limit)?),
            None => edit,
        };
        let edit = match &self.overlap {
            Some(rule) => edit.overlap(rule.as_deref().map(overlap).transpose()?),
            None => edit,
        };
        let edit = self.pause_after.iter().fold(edit, |edit, count| edit.pause_after(*count));
        Ok(match &self.expected_by {
            Some(expected) => edit.expected_by(span("expected_by", expected)?),
            None => edit,
        })
    }
}

fn overlap(word: &str) -> Result<Overlap, Trouble> {
    let said = || format!("{word:?} is none of SKIP, QUEUE 3 (so many may wait), REPLACE and ALLOW.");
    word.parse().map_err(|_| wrong("overlap", &said()))
}

/// Makes an edit, or tells what it comes to: without `yes` nothing is changed.
pub(super) async fn edit(
    State(console): State<Console>,
    asked: Asked,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (fields, permit) = match permitted(&asked, &headers, &body) {
        Ok(permitted) => permitted,
        Err(trouble) => return problem(trouble),
    };
    let masks = asked.masks;
    let answer = match fields.yes {
        true => console.order(permit, move |client| made(client, &fields, &masks)).await,
        false => console.call(Trouble::away, move |client| planned(client, &fields, &masks)).await,
    };
    answer.map_or_else(problem, |answer| json(&answer))
}

fn permitted(asked: &Asked, headers: &HeaderMap, body: &[u8]) -> Result<(Fields, Permit), Trouble> {
    is_ordered(asked, headers)?;
    let permit = asked.permit(Role::Admin)?;
    Ok((fields(body)?, permit))
}

fn request<'a>(client: &'a Client, fields: &Fields) -> Result<Edit<'a>, Trouble> {
    let edit = fields.set.on(client.edit(&fields.schedule), client.now()?)?;
    let edit = edit.reason(&first_line(&fields.reason));
    let given = fields.give_back.iter().map(|field| field.parse());
    let given = given.collect::<Result<Vec<_>, _>>();
    let given = given.map_err(|error| wrong("give_back", &format!("{error}.")))?;
    let edit = given.into_iter().fold(edit, Edit::give_back);
    Ok(fields.version.into_iter().fold(edit, Edit::if_version))
}

fn made(client: &Client, fields: &Fields, masks: &Masks) -> Result<Value, Trouble> {
    let edited = request(client, fields)?.run()?;
    let plan = match &edited {
        Edited::Changed(plan) | Edited::Quarantined(plan) => told(client, fields, plan, masks)?,
        _ => nothing_planned(),
    };
    let said = said(&fields.schedule, edited);
    Ok(with(plan, said.is_done, &said.sentence))
}

fn planned(client: &Client, fields: &Fields, masks: &Masks) -> Result<Value, Trouble> {
    let plan = request(client, fields)?.plan()?;
    let said = match (fields.version, plan.differences.is_empty()) {
        (Some(version), _) if version != plan.version => {
            format!("Nothing was changed: somebody has changed {} since you read it.", fields.schedule)
        }
        (_, true) => format!("Nothing was changed: {} is so already.", fields.schedule),
        (_, false) => "Nothing was changed: this is what it comes to. With yes it is done.".to_owned(),
    };
    Ok(with(told(client, fields, &plan, masks)?, false, &said))
}

fn with(mut plan: Value, is_done: bool, said: &str) -> Value {
    plan["done"] = is_done.into();
    plan["said"] = said.into();
    plan
}

/// The answer's part on the plan of an edit that was not made: the keys of [`told`], all null.
fn nothing_planned() -> Value {
    let keys = ["version", "differences", "trigger", "withdraws", "owner", "by_hand"];
    keys.into_iter().map(|key| (key.to_owned(), Value::Null)).collect()
}

fn told(client: &Client, fields: &Fields, plan: &EditPlan, masks: &Masks) -> Result<Value, Trouble> {
    let is_hidden = masks.touches(&client.schedule(&fields.schedule)?.schedule.job);
    let text = |field: &str, text: &str| match field {
        "payload" if is_hidden => "(hidden)".to_owned(),
        _ => text.to_owned(),
    };
    let differences = plan.differences.iter().map(
        |it| json!({ "field": it.field, "was": text(it.field, &it.was), "becomes": text(it.field, &it.becomes) }),
    );
    let withdraws = plan.withdraws.map(
        |it| json!({ "count": it.count, "first": it.first.timestamp_millis(), "last": it.last.timestamp_millis() }),
    );
    Ok(json!({
        "version": plan.version,
        "differences": differences.collect::<Vec<_>>(),
        "trigger": plan.trigger.in_words(),
        "withdraws": withdraws,
        "owner": plan.owner,
        "by_hand": plan.by_hand.iter().map(|field| field.as_str()).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that a refusal of another lists.
    fn names<T: serde::de::DeserializeOwned>() -> Vec<String> {
        let error = serde_json::from_str::<T>(r#"{"nothing":1}"#).err().unwrap().to_string();
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_document_has_each_field_of_an_edit_and_no_other() {
        let document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let told = |pointer: &str| {
            let object = document.pointer(&format!("/components/schemas{pointer}/properties")).unwrap();
            let mut names: Vec<String> = object.as_object().unwrap().keys().cloned().collect();
            names.sort();
            names
        };
        for (pointer, mut names) in [
            ("/edit", names::<Fields>()),
            ("/edit/properties/set", names::<Set>()),
            ("/edit/properties/set/properties/trigger", names::<Rule>()),
        ] {
            names.sort();
            assert_eq!(told(pointer), names, "{pointer}");
        }
    }
}
