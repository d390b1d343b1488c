//! The questions, and their answers: views as the program writes them with `--output json`.

use std::ops::Bound;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use super::read::Read;
use crate::console::asked::Asked;
use crate::console::filter;
use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::console::words::instant::instant;
use crate::{AuditFilter, Client, ExecutionFilter, OutcomeFilter, ScheduleFilter};

/// So many are answered unless a limit says otherwise, and at most so many.
const USUAL: usize = 100;
const MOST: usize = 1_000;

pub(super) static READS: [Read; 10] = [
    Read {
        path: "/schedules",
        parameters: &["q", "job", "state", "owner", "first", "after", "limit"],
        make: schedules,
    },
    Read { path: "/schedule", parameters: &["name"], make: schedule },
    Read {
        path: "/executions",
        parameters: &[
            "schedule", "job", "key", "group", "tag", "state", "reason", "cause", "node", "since", "until",
            "oldest", "after", "limit",
        ],
        make: executions,
    },
    Read { path: "/execution", parameters: &["id"], make: execution },
    Read { path: "/why", parameters: &["schedule", "at", "execution"], make: why },
    Read { path: "/jobs", parameters: &["after", "limit"], make: jobs },
    Read { path: "/nodes", parameters: &["after", "limit"], make: nodes },
    Read { path: "/audit", parameters: &["target", "actor", "verb", "since", "after", "limit"], make: audit },
    Read { path: "/verify", parameters: &["schedule", "since", "until"], make: verify },
    Read { path: "/outcomes", parameters: &["since", "until", "job", "node", "by"], make: outcomes },
];

/// A view as JSON.
fn value(view: &impl Serialize) -> Result<Value, Trouble> {
    serde_json::to_value(view).map_err(|error| {
        log::error!("console: {error}");
        Trouble::broken()
    })
}

/// Items, and what `after` has to say for those that follow.
fn list(items: &impl Serialize, after: Option<String>) -> Result<Value, Trouble> {
    Ok(json!({ "items": value(items)?, "after": after }))
}

fn limit(query: &Query) -> Result<usize, Trouble> {
    let Some(text) = query.get("limit") else { return Ok(USUAL) };
    let limit = text.parse().ok().filter(|limit| (1..=MOST).contains(limit));
    limit.ok_or_else(|| Trouble::wrong(format!("limit={text}: it is a number from 1 to {MOST}.")))
}

/// An instant as JSON has it, in epoch milliseconds, or as people write it.
pub(super) fn at(query: &Query, name: &str, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, Trouble> {
    let Some(text) = query.typed(name) else { return Ok(None) };
    match text.parse() {
        Ok(millis) => DateTime::from_timestamp_millis(millis).map(Some).ok_or_else(Trouble::beyond),
        Err(_) => instant(text, now).map(Some),
    }
}

fn named<'a>(query: &'a Query, name: &'a str) -> Result<&'a str, Trouble> {
    query.get(name).ok_or_else(|| Trouble::wrong(format!("The parameter {name} is missing.")))
}

fn id(query: &Query, name: &str) -> Result<i64, Trouble> {
    let text = named(query, name)?;
    text.parse().map_err(|_| Trouble::wrong(format!("{name}={text}: an execution's id is a number.")))
}

fn schedules(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    let filter = ScheduleFilter { limit: limit(&asked.query)?, ..filter::schedules(&asked.query)? };
    let mut page = client.find_schedules(&filter)?;
    asked.masks.schedules(&mut page.schedules);
    list(&page.schedules, page.next.map(|next| next.to_string()))
}

fn schedule(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    let mut details = client.schedule(named(&asked.query, "name")?)?;
    asked.masks.schedule(&mut details);
    value(&details)
}

fn executions(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    let (query, limit, now) = (&asked.query, limit(&asked.query)?, client.now()?);
    let (since, until) = (at(query, "since", now)?, at(query, "until", now)?);
    let query = query.clone().without("since").without("until");
    let filter = filter::executions(&query, now)?;
    let mut found = client.executions(&ExecutionFilter { since, until, limit: limit + 1, ..filter })?;
    asked.masks.executions(&mut found);
    let has_more = found.len() > limit;
    found.truncate(limit);
    let after = found.last().filter(|_| has_more).map(|it| it.place());
    list(&found, after.map(|place| place.to_string()))
}

fn execution(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    let id = id(&asked.query, "id")?;
    let (mut details, mut logs) = (client.execution(id)?, client.logs(id)?);
    asked.masks.execution(client, &mut details, &mut logs)?;
    let (mut whole, said) = (value(&details)?, value(&logs)?);
    if let (Value::Object(whole), Value::Object(said)) = (&mut whole, said) {
        whole.extend(said);
    }
    Ok(whole)
}

fn why(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    let query = &asked.query;
    let mut why = match (query.get("schedule"), query.get("execution")) {
        (None, Some(_)) => client.why(id(query, "execution")?)?,
        (Some(name), None) => {
            let at = at(query, "at", client.now()?)?;
            let at =
                at.ok_or_else(|| Trouble::wrong("The parameter at is missing: the occurrence's fire time."))?;
            client.why_at(name, at)?
        }
        _ => {
            let said = "Ask for a schedule and the fire time at, or for an execution.";
            return Err(Trouble::wrong(said));
        }
    };
    asked.masks.why(&mut why);
    value(&why)
}

/// A page of a list that is read whole: at most `limit` items behind the key `after`, in the order of keys.
fn page<T: Serialize>(mut items: Vec<T>, query: &Query, key: fn(&T) -> &str) -> Result<Value, Trouble> {
    let limit = limit(query)?;
    items.retain(|it| query.get("after").is_none_or(|after| key(it) > after));
    items.sort_by(|a, b| key(a).cmp(key(b)));
    let has_more = items.len() > limit;
    items.truncate(limit);
    let after = items.last().filter(|_| has_more).map(|last| key(last).to_owned());
    list(&items, after)
}

fn jobs(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    page(client.jobs()?, &asked.query, |job| &job.name)
}

fn nodes(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    page(client.nodes()?, &asked.query, |node| &node.id)
}

fn audit(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    let (query, limit) = (&asked.query, limit(&asked.query)?);
    let filter = filter::audit(query, at(query, "since", client.now()?)?)?;
    let mut entries = client.audit(&AuditFilter { limit: limit + 1, ..filter })?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let after = entries.last().filter(|_| has_more).map(|it| it.place());
    asked.masks.audit(&mut entries);
    list(&entries, after.map(|place| place.to_string()))
}

fn verify(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    let (query, now) = (&asked.query, client.now()?);
    let since = at(query, "since", now)?;
    let since =
        since.ok_or_else(|| Trouble::wrong("The parameter since is missing: where the range begins."))?;
    let until = at(query, "until", now)?.map_or(Bound::Unbounded, Bound::Excluded);
    let verify = client.verify((Bound::Included(since), until));
    let verify = query.get("schedule").into_iter().fold(verify, |verify, name| verify.schedule(name));
    value(&verify.run()?)
}

fn outcomes(client: &Client, asked: &Asked) -> Result<Value, Trouble> {
    let (query, now) = (&asked.query, client.now()?);
    let by: Vec<&str> = query.all("by").collect();
    if let Some(other) = by.iter().find(|it| !["hour", "job", "node"].contains(*it)) {
        return Err(Trouble::wrong(format!("by={other}: they are told apart by hour, job or node.")));
    }
    let outcomes = client.outcomes(&OutcomeFilter {
        since: at(query, "since", now)?,
        until: at(query, "until", now)?,
        job: query.text("job"),
        node: query.text("node"),
        by_hour: by.contains(&"hour"),
        by_job: by.contains(&"job"),
        by_node: by.contains(&"node"),
        ..OutcomeFilter::default()
    })?;
    list(&outcomes, None)
}
