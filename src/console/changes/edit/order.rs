//! An edit as a form orders it: what people wrote, and which of the fields they have changed.

use chrono::{DateTime, Utc};
use serde_json::value::RawValue;

use super::fields::{self, FIELDS, TRIGGER, digest};
use crate::console::web::query::Query;
use crate::console::web::said::Said;
use crate::console::web::trouble::Trouble;
use crate::console::words::span;
use crate::request::Edit;
use crate::{Client, Cron, EditPlan, Edited, ScheduleDetails, Trigger, TriggerError};

/// A longer payload does not fit into an address: the form leaves it out.
pub(super) const LONGEST_PAYLOAD: usize = 1_000;

/// A change of some fields of a schedule, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EditOrder {
    pub(crate) name: String,
    /// The version that was read.
    pub(super) version: i64,
    /// When that was, to the millisecond.
    pub(super) read: DateTime<Utc>,
    /// The digests of the fields as they were then.
    was: String,
    values: Vec<(&'static str, String)>,
}

impl EditOrder {
    /// One that changes nothing yet.
    pub(crate) fn of(details: &ScheduleDetails, now: DateTime<Utc>) -> Self {
        let mut values = fields::of(details);
        values.retain(|(field, text)| *field != "payload" || text.len() <= LONGEST_PAYLOAD);
        let order = Self {
            name: details.schedule.name.clone(),
            version: details.schedule.version,
            read: now,
            was: String::new(),
            values,
        };
        let was: Vec<String> =
            FIELDS.iter().map(|field| format!("{:016x}", digest(order.value(field)))).collect();
        Self { was: was.concat(), ..order }
    }

    /// The one that a form, or an address, asks for; none if it only names the schedule.
    pub(crate) fn read(query: &Query) -> Result<Option<Self>, Trouble> {
        let Some(version) = query.get("version") else { return Ok(None) };
        let wrong = || Trouble::wrong("The form does not say which version of the schedule it changes.");
        let name = query.text("name").ok_or_else(|| Trouble::wrong("The form names no schedule."))?;
        let read = query.get("read").and_then(|at| at.parse().ok()).and_then(DateTime::from_timestamp_millis);
        let was = query.get("was").filter(|was| was.len() == 16 * FIELDS.len() && was.is_ascii());
        let value = |field: &'static str| {
            let text = query.get(field).unwrap_or_default().replace("\r\n", "\n");
            (field, text)
        };
        Ok(Some(Self {
            name,
            version: version.parse().map_err(|_| wrong())?,
            read: read.ok_or_else(wrong)?,
            was: was.ok_or_else(wrong)?.to_owned(),
            values: FIELDS.iter().map(|field| value(field)).filter(|(_, text)| !text.is_empty()).collect(),
        }))
    }

    pub(super) fn value(&self, field: &str) -> &str {
        self.values.iter().find(|(it, _)| *it == field).map(|(_, text)| text.as_str()).unwrap_or_default()
    }

    /// The same without the payload, which nobody sees here.
    pub(super) fn without_payload(mut self) -> Self {
        let place = FIELDS.iter().position(|it| *it == "payload").unwrap_or_default() * 16;
        self.values.retain(|(field, _)| *field != "payload");
        self.was.replace_range(place..place + 16, &format!("{:016x}", digest("")));
        self
    }

    /// What people have changed in it, in what the schedule is now.
    pub(super) fn over(&self, fresh: &Self) -> Self {
        let value = |field: &'static str| {
            let from = if self.is_changed(field) { self } else { fresh };
            (field, from.value(field).to_owned())
        };
        let values = FIELDS.iter().map(|field| value(field)).filter(|(_, text)| !text.is_empty());
        Self { values: values.collect(), ..fresh.clone() }
    }

    /// The fields from which it is read.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = self.hidden();
        pairs.extend(self.values.iter().cloned());
        pairs
    }

    /// Those that nobody writes.
    pub(super) fn hidden(&self) -> Vec<(&'static str, String)> {
        vec![
            ("name", self.name.clone()),
            ("version", self.version.to_string()),
            ("read", self.read.timestamp_millis().to_string()),
            ("was", self.was.clone()),
        ]
    }

    /// The page that shows what it comes to.
    pub(crate) fn address(&self) -> String {
        self.pairs().iter().fold(Query::default(), |query, (name, text)| query.with(name, text)).of("edit")
    }

    /// Whether somebody has changed a field.
    fn is_changed(&self, field: &str) -> bool {
        let place = FIELDS.iter().position(|it| *it == field).unwrap_or_default() * 16;
        self.was.get(place..place + 16) != Some(&format!("{:016x}", digest(self.value(field))))
    }

    /// The request that changes what people have changed, or what cannot be so.
    pub(super) fn request<'a>(
        &self,
        client: &'a Client,
        now: DateTime<Utc>,
    ) -> Result<Edit<'a>, Vec<(&'static str, String)>> {
        let of_trigger = TRIGGER.iter().any(|field| self.is_changed(field)).then(|| self.trigger(now));
        let others = FIELDS.iter().filter(|field| !TRIGGER.contains(field) && self.is_changed(field));
        let setters: Vec<_> =
            of_trigger.into_iter().chain(others.map(|field| self.field(field, now))).collect();
        let (mut edit, mut problems) = (client.edit(&self.name), Vec::new());
        for setter in setters {
            match setter {
                Ok(set) => edit = set(edit),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(edit.if_version(self.version)) } else { Err(problems) }
    }

    /// The trigger that people have written.
    fn trigger(&self, now: DateTime<Utc>) -> Read {
        let of = |field: &'static str| move |problem: String| (field, problem);
        let refused = |field: &'static str| move |error: TriggerError| (field, error.to_string());
        let read_span = || span::span(self.value("span")).map_err(of("span"));
        let trigger = match self.value("kind") {
            "cron" => {
                let (expression, zone) =
                    (self.value("cron").to_owned(), self.value("cron_zone").trim().to_owned());
                let zone = if zone.is_empty() { "UTC".to_owned() } else { zone };
                Cron::parse(&expression, &zone).map_err(|error| match error {
                    TriggerError::UnknownZone { .. } => ("cron_zone", error.to_string()),
                    error => ("cron", error.to_string()),
                })?;
                return Ok(Box::new(move |edit| edit.cron(&expression).zone(&zone)));
            }
            "every" => {
                let every = Trigger::every(read_span()?).map_err(refused("span"))?;
                match self.value("times") {
                    "" => every,
                    times => {
                        let times = fields::whole(times, "Write a whole number from 1 on, or nothing.");
                        every.times(times.map_err(of("times"))?).map_err(refused("times"))?
                    }
                }
            }
            "after" => Trigger::fixed_delay(read_span()?).map_err(refused("span"))?,
            "once" => {
                let at = fields::time(self.value("at"), now).map_err(of("at"))?;
                Trigger::once(at).map_err(refused("at"))?
            }
            _ => return Err(("kind", "Pick one of the kinds.".to_owned())),
        };
        Ok(Box::new(move |edit| edit.trigger(trigger)))
    }

    /// Another field that people have written.
    fn field(&self, field: &'static str, now: DateTime<Utc>) -> Read {
        let text = self.value(field);
        let of = move |problem: String| (field, problem);
        // What is empty is taken away.
        let named = (!text.trim().is_empty()).then_some(text);
        let span = || named.map(span::span).transpose().map_err(of);
        let instant = || named.map(|text| fields::time(text, now)).transpose().map_err(of);
        Ok(match field {
            "starts" => {
                let at = instant()?;
                Box::new(move |edit| edit.starting(at))
            }
            "ends" => {
                let at = instant()?;
                Box::new(move |edit| edit.ending(at))
            }
            "payload" => {
                let payload: Box<RawValue> = serde_json::from_str(text)
                    .map_err(|error| of(format!("This is no JSON: {error}. A text is written \"text\".")))?;
                Box::new(move |edit| edit.payload(&payload))
            }
            "description" => {
                let text = text.to_owned();
                Box::new(move |edit| edit.description(&text))
            }
            "priority" => {
                let priority = fields::whole(text, "Write a whole number, such as 5 or -3.").map_err(of)?;
                Box::new(move |edit| edit.priority(priority))
            }
            "misfire" => {
                let policy = fields::misfire(text).map_err(of)?;
                Box::new(move |edit| edit.misfire(policy))
            }
            "threshold" => {
                let span = span()?;
                Box::new(move |edit| edit.misfire_threshold(span))
            }
            "time_limit" => {
                let span = span()?;
                Box::new(move |edit| edit.time_limit(span))
            }
            "overlap" | "waiting" => {
                let rule = fields::overlap(self.value("overlap"), self.value("waiting"))?;
                Box::new(move |edit| edit.overlap(rule))
            }
            "pause_after" => {
                let count = named.map(|text| fields::whole(text, "Write 0 for never, or 1 to 1000."));
                let count: Option<u32> = count.transpose().map_err(of)?;
                Box::new(move |edit| edit.pause_after(count))
            }
            _ => {
                let span = span()?;
                Box::new(move |edit| edit.expected_by(span))
            }
        })
    }
}

/// Sets what was read of a field, or says what is wrong in which.
type Read = Result<Box<dyn for<'a> FnOnce(Edit<'a>) -> Edit<'a>>, (&'static str, String)>;

/// Carries out an edit.
pub(crate) fn carry(client: &Client, order: &EditOrder, reason: &str) -> Result<Said, Trouble> {
    let name = &order.name;
    let edit = match order.request(client, client.now()?) {
        Ok(edit) => edit,
        Err(problems) => {
            let said = problems.first().map_or("", |(_, said)| said);
            return Ok(Said::not_done(format!("Nothing was changed: {said}")));
        }
    };
    Ok(said(name, edit.reason(reason).run()?))
}

/// What an edit did.
pub(crate) fn said(name: &str, edited: Edited) -> Said {
    match edited {
        Edited::Changed(plan) => Said::done(format!("{name} is changed: {}.", changed(&plan))),
        Edited::Quarantined(plan) => {
            let changed = changed(&plan);
            Said::done(format!("{name} is changed: {changed}. It stays in error: give it another trigger."))
        }
        Edited::Differs => {
            Said::not_done(format!("Nothing was changed: somebody has changed {name} since you read it."))
        }
        _ => Said::not_done(format!("Nothing was changed: {name} is so already.")),
    }
}

/// The fields that were changed, and what that withdrew.
fn changed(plan: &EditPlan) -> String {
    let fields: Vec<String> = plan.differences.iter().map(|it| it.field.replace('_', " ")).collect();
    let withdrew = plan.withdraws.map_or_else(String::new, |it| format!("; it withdrew {it}"));
    format!("{}{withdrew}", fields.join(", "))
}
