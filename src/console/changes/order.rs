//! Changes that people may order, as forms and addresses say them.

use chrono::{DateTime, Utc};

use super::bulk::BulkOrder;
use super::edit::EditOrder;
use super::missed::MissedOrder;
use crate::Target;
use crate::console::access::role::Role;
use crate::console::web::query::{self, Query};
use crate::console::web::trouble::Trouble;

/// A change of something that is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Pause(Target),
    Resume(Target),
    /// Of a node.
    Drain(String),
    /// Of a schedule, now.
    Run(String),
    /// Of a schedule, its next fire time.
    Skip(String, DateTime<Utc>),
    /// Of a schedule, for a fire time that has passed.
    Rerun(String, DateTime<Utc>),
    /// Of a schedule, for an instant that somebody has written.
    RunFor(String, String),
    /// Of some fields of a schedule.
    Edit(Box<EditOrder>),
    /// Of a schedule.
    Remove(String),
    /// Of an execution.
    Cancel(i64),
    /// Of an execution.
    Retry(i64),
    /// Of all executions, or all schedules, of a filter.
    Bulk(Box<BulkOrder>),
    /// Of a change of many that is under way.
    Stop(String),
    /// Of a schedule, for all that is missing.
    Missed(Box<MissedOrder>),
    /// Of a schedule's rerun of this origin.
    EndRerun(String, i64),
}

impl Order {
    /// The change that a form, or an address, asks for.
    pub(crate) fn read(query: &Query) -> Result<Self, Trouble> {
        let name =
            |what| query.text(what).ok_or_else(|| Trouble::wrong(format!("The form names no {what}.")));
        let id = || name("execution")?.parse().map_err(|_| Trouble::wrong("An execution's id is a number."));
        let at = || {
            name("at")?.parse().map_err(|_| Trouble::wrong("A fire time is written as 2026-11-29T10:05:00Z."))
        };
        Ok(match query.get("verb").unwrap_or_default() {
            "pause" => Self::Pause(target(query)?),
            "resume" => Self::Resume(target(query)?),
            "drain" => Self::Drain(name("node")?),
            "run" => Self::Run(name("schedule")?),
            "skip" => Self::Skip(name("schedule")?, at()?),
            "rerun" => Self::Rerun(name("schedule")?, at()?),
            "runfor" => Self::RunFor(name("schedule")?, name("instant")?),
            "edit" => {
                let order = EditOrder::read(query)?;
                Self::Edit(Box::new(order.ok_or_else(|| Trouble::wrong("The form names no version."))?))
            }
            "remove" => Self::Remove(name("schedule")?),
            "cancel" => Self::Cancel(id()?),
            "retry" => Self::Retry(id()?),
            "bulk" => Self::Bulk(Box::new(BulkOrder::read(query)?)),
            "stop" => Self::Stop(name("task")?),
            "missed" => Self::Missed(Box::new(MissedOrder::read(query)?)),
            "endrerun" => {
                let origin = name("origin")?.parse();
                Self::EndRerun(
                    name("schedule")?,
                    origin.map_err(|_| Trouble::wrong("A rerun's origin is a number."))?,
                )
            }
            _ => return Err(Trouble::wrong("The form asks for nothing that the console can do.")),
        })
    }

    /// The fields from which it is read.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let at = |at: &DateTime<Utc>| ("at", at.to_rfc3339());
        let (verb, mut fields) = match self {
            Self::Pause(target) => ("pause", vec![named(target)]),
            Self::Resume(target) => ("resume", vec![named(target)]),
            Self::Drain(node) => ("drain", vec![("node", node.clone())]),
            Self::Run(name) => ("run", vec![("schedule", name.clone())]),
            Self::Skip(name, time) => ("skip", vec![("schedule", name.clone()), at(time)]),
            Self::Rerun(name, time) => ("rerun", vec![("schedule", name.clone()), at(time)]),
            Self::RunFor(name, text) => {
                ("runfor", vec![("schedule", name.clone()), ("instant", text.clone())])
            }
            Self::Edit(order) => ("edit", order.pairs()),
            Self::Remove(name) => ("remove", vec![("schedule", name.clone())]),
            Self::Cancel(id) => ("cancel", vec![("execution", id.to_string())]),
            Self::Retry(id) => ("retry", vec![("execution", id.to_string())]),
            Self::Bulk(order) => ("bulk", order.pairs()),
            Self::Stop(task) => ("stop", vec![("task", task.clone())]),
            Self::Missed(order) => ("missed", order.pairs()),
            Self::EndRerun(name, origin) => {
                ("endrerun", vec![("schedule", name.clone()), ("origin", origin.to_string())])
            }
        };
        fields.insert(0, ("verb", verb.to_owned()));
        fields
    }

    /// Who may give it, at least.
    pub(crate) fn role(&self) -> Role {
        match self {
            Self::Pause(_)
            | Self::Resume(_)
            | Self::Drain(_)
            | Self::Run(_)
            | Self::Skip(..)
            | Self::Rerun(..)
            | Self::RunFor(..)
            | Self::Cancel(_)
            | Self::Retry(_)
            | Self::Bulk(_)
            | Self::Stop(_)
            | Self::Missed(_)
            | Self::EndRerun(..) => Role::Operator,
            Self::Edit(_) | Self::Remove(_) => Role::Admin,
        }
    }

    /// Whether it holds something back or ends it: then a page says first what it will do, and asks why.
    pub(super) fn is_confirmed(&self) -> bool {
        let at_once = matches!(self, Self::Resume(_) | Self::Run(_) | Self::Rerun(..) | Self::Retry(_));
        !at_once && !matches!(self, Self::Stop(_))
    }

    /// The page that shows what it changes.
    pub(crate) fn page(&self) -> String {
        match self {
            Self::Pause(Target::Schedule(name)) | Self::Resume(Target::Schedule(name)) => {
                query::schedule(name)
            }
            Self::Run(name) | Self::Skip(name, _) | Self::Rerun(name, _) | Self::RunFor(name, _) => {
                query::schedule(name)
            }
            Self::Pause(Target::Job(_)) | Self::Resume(Target::Job(_)) => "jobs".to_owned(),
            Self::Pause(Target::Node(_)) | Self::Resume(Target::Node(_)) | Self::Drain(_) => {
                "nodes".to_owned()
            }
            Self::Pause(_) | Self::Resume(_) => "now".to_owned(),
            Self::Edit(order) => query::schedule(&order.name),
            Self::Missed(order) => query::schedule(order.name()),
            Self::EndRerun(name, _) => query::schedule(name),
            Self::Bulk(order) => order.verb.list().to_owned(),
            Self::Stop(task) => query::address("bulk", "id", task),
            Self::Remove(_) => "schedules".to_owned(),
            Self::Cancel(id) | Self::Retry(id) => query::execution(*id),
        }
    }
}

/// What is paused or resumed.
fn target(query: &Query) -> Result<Target, Trouble> {
    let named = |name, target: fn(&str) -> Target| query.get(name).map(target);
    let target = named("schedule", Target::schedule)
        .or_else(|| named("job", Target::job))
        .or_else(|| named("node", Target::node))
        .or_else(|| query.get("application").map(|_| Target::application()));
    target.ok_or_else(|| Trouble::wrong("The form does not say of what."))
}

fn named(target: &Target) -> (&'static str, String) {
    match target {
        Target::Schedule(name) => ("schedule", name.clone()),
        Target::Job(name) => ("job", name.clone()),
        Target::Node(id) => ("node", id.clone()),
        Target::Application => ("application", "this".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::bulk::BulkVerb;
    use super::*;

    #[test]
    fn an_order_reads_back_from_its_fields() {
        let at: DateTime<Utc> = "2026-11-29T10:05:00.123Z".parse().unwrap();
        let name = "a<b>&c d".to_owned();
        let orders = [
            Order::Pause(Target::schedule(&name)),
            Order::Pause(Target::job(&name)),
            Order::Resume(Target::node("4")),
            Order::Resume(Target::application()),
            Order::Drain("4".to_owned()),
            Order::Run(name.clone()),
            Order::Skip(name.clone(), at),
            Order::Rerun(name.clone(), at),
            Order::RunFor(name.clone(), "2h".to_owned()),
            Order::EndRerun(name.clone(), 4_711),
            Order::Missed(Box::new(MissedOrder::of(&name))),
            Order::Stop("a".to_owned()),
            Order::Bulk(Box::new(BulkOrder::of(BulkVerb::Retry, &Query::read("tag=%3Cu%3E&state=FAILED")))),
            Order::Bulk(Box::new(BulkOrder::of(BulkVerb::Pause, &Query::read("q=%3Cu%3E&state=active")))),
            Order::Remove(name),
            Order::Cancel(7),
            Order::Retry(7),
        ];
        for order in orders {
            let add = |query: Query, (name, value): (&'static str, String)| query.with(name, value);
            let query = order.fields().into_iter().fold(Query::default(), add);
            assert_eq!(Order::read(&query).unwrap(), order);
        }
        for wrong in ["", "verb=pause", "verb=cancel&execution=x", "verb=skip&schedule=a&at=now", "verb=rm"] {
            assert!(Order::read(&Query::read(wrong)).is_err(), "{wrong}");
        }
    }
}
