//! The executions of an application, as a filter has them.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};

use super::asked::Asked;
use super::failures::Failures;
use super::frame::Frame;
use super::query::Query;
use super::rows::ExecutionLine;
use super::state::Console;
use super::trouble::Trouble;
use super::words::counted;
use crate::{Client, ExecutionFilter, ExecutionPlace, ExecutionState};

/// So many are on a page.
const PAGE: usize = 50;

/// The causes that may be picked.
const CAUSES: [&str; 7] = ["planned", "misfire", "by hand", "rerun", "enqueued", "retry", "recovery"];

#[derive(Template)]
#[template(path = "console/executions.html")]
struct ExecutionsPage {
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

pub(super) async fn page(State(console): State<Console>, asked: Asked) -> Response {
    console.show(asked, make).await
}

fn make(client: &Client, asked: &Asked) -> Result<ExecutionsPage, Trouble> {
    let frame = Frame::new(asked, client.application(), "executions", "Executions");
    let now = client.now()?;
    let filter = filter(&asked.query, now)?;
    let is_lately = is_lately(&asked.query);
    let found = match is_lately {
        true => Failures::of(client, filter.schedule.clone(), now)?.last,
        false => client.executions(&filter)?,
    };
    let nodes = client.nodes()?;
    let shown = if is_lately { &found[..] } else { &found[..found.len().min(PAGE)] };
    let rows = ExecutionLine::all(shown, &nodes, &frame, now);
    let place = shown.last().filter(|_| found.len() > shown.len()).map(|last| last.place());
    let to = |place: ExecutionPlace| {
        let after = format!("{}.{}", place.fire_time, place.id);
        asked.query.clone().without("after").with("after", after).of("executions")
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
        heading: heading(&asked.query),
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
        frame,
    })
}

/// Whether those are asked for that failed in the last hour, as the first page counts them.
fn is_lately(query: &Query) -> bool {
    query.get("failed") == Some("lately")
}

fn heading(query: &Query) -> String {
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
        (Some(name), _) => format!("Executions of {name}{states}"),
        (None, Some(job)) => format!("Executions of job {job}{states}"),
        (None, None) => format!("Executions{states}"),
    }
}

pub(super) fn filter(query: &Query, now: DateTime<Utc>) -> Result<ExecutionFilter, Trouble> {
    let state = |word: &str| {
        word.parse::<ExecutionState>()
            .map_err(|_| Trouble::wrong(format!("No execution's state is {word:?}.")))
    };
    Ok(ExecutionFilter {
        schedule: query.text("schedule"),
        job: query.text("job"),
        key: query.text("key"),
        group: query.text("group"),
        tag: query.text("tag"),
        states: query.all("state").map(state).collect::<Result<_, _>>()?,
        reason: query.text("reason"),
        cause: query.text("cause"),
        node: query.text("node"),
        since: query.get("since").map(|text| instant(text, now)).transpose()?,
        until: query.get("until").map(|text| instant(text, now)).transpose()?,
        after: query.get("after").map(place).transpose()?,
        oldest_first: query.get("oldest").is_some(),
        limit: PAGE + 1,
        ..ExecutionFilter::default()
    })
}

/// The place of the last one shown.
fn place(text: &str) -> Result<ExecutionPlace, Trouble> {
    let numbers = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id.parse().ok()?)));
    let (fire_time, id) = numbers.ok_or_else(|| Trouble::wrong("The page does not say what it follows."))?;
    Ok(ExecutionPlace { fire_time, id })
}

/// An instant as people write it, in UTC; or `15m`, `2h`, `3d` ago.
pub(super) fn instant(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Trouble> {
    let text = text.trim();
    let ago = || {
        let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let count: i64 = count.parse().ok().filter(|count| (0..1_000_000).contains(count))?;
        Some(
            now - match unit {
                "s" => TimeDelta::seconds(count),
                "m" => TimeDelta::minutes(count),
                "h" => TimeDelta::hours(count),
                "d" => TimeDelta::days(count),
                _ => return None,
            },
        )
    };
    let forms = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f"];
    let wall = || forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    let day = || Some(text.parse::<NaiveDate>().ok()?.and_time(NaiveTime::MIN));
    let exact = || text.parse::<DateTime<Utc>>().ok();
    let read = exact().or_else(|| wall().or_else(day).map(|wall| wall.and_utc())).or_else(ago);
    read.ok_or_else(|| {
        Trouble::wrong(format!(
            "{text:?} is no instant: write 2026-11-29 10:05 (UTC), 2026-11-29, or 15m, 2h, 3d ago."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_as_people_write_them() {
        let now: DateTime<Utc> = "2026-11-29T10:00:00Z".parse().unwrap();
        let read = |text: &str| instant(text, now).ok().map(|at| at.to_rfc3339());
        let at = |text: &str| Some(format!("{text}+00:00"));
        assert_eq!(read("2026-11-29 10:05"), at("2026-11-29T10:05:00"));
        assert_eq!(read(" 2026-11-29T10:05 "), at("2026-11-29T10:05:00"));
        assert_eq!(read("2026-11-29"), at("2026-11-29T00:00:00"));
        assert_eq!(read("2026-11-29T12:05:00+02:00"), at("2026-11-29T10:05:00"));
        assert_eq!((read("90m"), read("1d")), (at("2026-11-29T08:30:00"), at("2026-11-28T10:00:00")));
        for wrong in ["", "m", "-1m", "now", "99999999999d", "é", "2026-13-01"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
