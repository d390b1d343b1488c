//! A rerun of what is missing of a schedule, as a form orders it.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::console::words::instant::instant;
use crate::console::words::span::span;
use crate::request::Rerun;
use crate::{Client, ExecutionState, ExecutionView};

/// The fields of the form.
const FIELDS: [&str; 6] = ["name", "state", "state_reason", "since", "until", "pace"];

/// Occurrences of a schedule that are to run once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissedOrder(Query);

impl MissedOrder {
    /// All that ended without success.
    pub(crate) fn of(name: &str) -> Self {
        Self(Query::default().with("name", name))
    }

    /// Those of a list of a schedule's executions.
    pub(crate) fn like(name: &str, list: &Query) -> Self {
        let ended = |state: &&str| !["PENDING", "CLAIMED", "RUNNING"].contains(state);
        let mut query = list.only(&["since", "until"]).with("name", name);
        for state in list.all("state").filter(ended) {
            query = query.and("state", state);
        }
        Self(list.get("reason").into_iter().fold(query, |query, reason| query.with("state_reason", reason)))
    }

    /// Those that one row of the ledger stands for.
    pub(crate) fn within(row: &ExecutionView) -> Option<Self> {
        let exact = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let end = row.last_fire_time?.checked_add_signed(TimeDelta::milliseconds(1))?;
        let query = Query::default().with("name", &row.schedule).with("state", &row.state);
        Some(Self(query.with("since", exact(row.fire_time?)).with("until", exact(end))))
    }

    pub(crate) fn read(query: &Query) -> Result<Self, Trouble> {
        query.get("name").ok_or_else(|| Trouble::wrong("The form names no schedule."))?;
        Ok(Self(query.only(&FIELDS)))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.get("name").unwrap_or_default()
    }

    pub(super) fn value<'a>(&'a self, field: &'a str) -> &'a str {
        self.0.get(field).unwrap_or_default()
    }

    pub(super) fn has(&self, field: &str, value: &str) -> bool {
        self.0.all(field).any(|it| it == value)
    }

    /// The fields from which it is read.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let of = |name: &'static str| self.0.all(name).map(move |value| (name, value.to_owned()));
        FIELDS.iter().flat_map(|name| of(name)).collect()
    }

    /// The page that says what it would run.
    pub(crate) fn address(&self) -> String {
        self.0.of("missed")
    }

    /// The same with instants in place of spans from now: what was shown is what will be run.
    pub(super) fn fixed(&self, now: DateTime<Utc>) -> Result<Self, Trouble> {
        let exact = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut query = self.0.clone();
        if let Some(text) = self.0.get("since") {
            query = query.with("since", exact(instant(text, now)?));
        }
        let until = self.0.get("until").map(|text| instant(text, now)).transpose()?;
        Ok(Self(query.with("until", exact(until.map_or(now, |until| until.min(now))))))
    }

    /// The same from an instant on.
    pub(super) fn from(&self, at: DateTime<Utc>) -> Self {
        Self(self.0.clone().with("since", at.to_rfc3339()))
    }

    pub(crate) fn request<'a>(&self, client: &'a Client, now: DateTime<Utc>) -> Result<Rerun<'a>, Trouble> {
        let mut rerun = client.rerun(self.name());
        for word in self.0.all("state") {
            let state: ExecutionState =
                word.parse().map_err(|_| Trouble::wrong(format!("No execution's state is {word:?}.")))?;
            rerun = rerun.state(state);
        }
        if let Some(reason) = self.0.get("state_reason") {
            rerun = rerun.state_reason(reason);
        }
        if let Some(text) = self.0.get("since") {
            rerun = rerun.since(instant(text, now)?);
        }
        if let Some(text) = self.0.get("until") {
            rerun = rerun.until(instant(text, now)?);
        }
        let pace = self.0.get("pace").map_or(Ok(Duration::from_secs(1)), span);
        Ok(rerun.pace(pace.map_err(|said| Trouble::wrong(format!("The pace: {said}")))?))
    }
}
