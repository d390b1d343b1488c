//! A change of all executions that a filter means.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::super::filter::filter;
use super::super::followed::followed;
use super::super::instant::instant;
use super::super::query::Query;
use super::super::trouble::Trouble;
use super::super::words::{counted, number};
use crate::{Client, ExecutionFilter, ExecutionState, ExecutionView};

/// So many are changed at once, the oldest first.
pub(super) const MOST: usize = 1_000;

/// What is done to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum BulkVerb {
    Cancel,
    Retry,
}

impl BulkVerb {
    pub(in super::super) fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }

    pub(in super::super) fn label(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel",
            Self::Retry => "Try again",
        }
    }

    /// The states in which it does something.
    pub(in super::super) fn states(self) -> &'static [ExecutionState] {
        use ExecutionState::{Abandoned, Cancelled, Claimed, Failed, Pending, Running, TimedOut};
        match self {
            Self::Cancel => &[Pending, Claimed, Running],
            Self::Retry => &[Failed, TimedOut, Cancelled, Abandoned],
        }
    }
}

/// A change of all executions of a filter that were there when somebody was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct BulkOrder {
    pub(in super::super) verb: BulkVerb,
    /// The filter, as the list's address has it.
    pub(super) filter: Query,
    /// None that came later: the highest id that was meant.
    pub(super) newest: Option<i64>,
}

/// The fields of a filter.
const FILTER: [&str; 11] =
    ["schedule", "job", "key", "group", "tag", "state", "reason", "cause", "node", "since", "until"];

/// The name of the filter's reason in a form, whose `reason` is that of the change.
const STATE_REASON: &str = "state_reason";

impl BulkOrder {
    /// Of the list at an address.
    pub(in super::super) fn of(verb: BulkVerb, list: &Query) -> Self {
        Self { verb, filter: list.only(&FILTER), newest: None }
    }

    pub(in super::super) fn read(query: &Query) -> Result<Self, Trouble> {
        let verb = match query.get("each") {
            Some("cancel") => BulkVerb::Cancel,
            Some("retry") => BulkVerb::Retry,
            _ => return Err(Trouble::wrong("The form does not say what is done to each.")),
        };
        let newest = query.get("newest").map(str::parse).transpose();
        let newest = newest.map_err(|_| Trouble::wrong("An execution's id is a number."))?;
        // The form's own reason is why somebody changes them.
        let order = Self::of(verb, &query.clone().without("reason"));
        let filter =
            query.get(STATE_REASON).into_iter().fold(order.filter, |filter, it| filter.with("reason", it));
        Ok(Self { verb, filter, newest })
    }

    /// The same of what was found now: up to this id, and with instants in place of spans from now.
    pub(super) fn fixed(self, newest: Option<i64>, now: DateTime<Utc>) -> Result<Self, Trouble> {
        let mut filter = self.filter;
        for field in ["since", "until"] {
            if let Some(at) = filter.get(field).map(|text| instant(text, now)).transpose()? {
                filter = filter.with(field, at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true));
            }
        }
        Ok(Self { filter, newest, ..self })
    }

    /// The fields from which it is read.
    pub(in super::super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("each", self.verb.word().to_owned())];
        pairs.extend(self.newest.map(|id| ("newest", id.to_string())));
        let named = |name| if name == "reason" { STATE_REASON } else { name };
        let of = |name: &'static str| self.filter.all(name).map(move |value| (named(name), value.to_owned()));
        pairs.extend(FILTER.iter().flat_map(|name| of(name)));
        pairs
    }

    /// The page that asks whether to do it.
    pub(in super::super) fn address(&self, back: &str) -> String {
        let pairs = self.pairs().into_iter();
        pairs
            .fold(Query::default(), |query, (name, value)| query.and(name, &value))
            .with("back", back)
            .of("bulk")
    }

    /// The list of what is meant.
    pub(super) fn list(&self) -> String {
        self.filter.of("executions")
    }

    /// Those that are meant, the oldest first.
    pub(super) fn found(&self, client: &Client, now: DateTime<Utc>) -> Result<Vec<ExecutionView>, Trouble> {
        let filter = filter(&self.filter, now)?;
        let is_wanted = |state: &&ExecutionState| filter.states.is_empty() || filter.states.contains(state);
        let states: Vec<ExecutionState> = self.verb.states().iter().filter(is_wanted).copied().collect();
        if states.is_empty() {
            return Ok(Vec::new());
        }
        let filter = ExecutionFilter { states, oldest_first: true, limit: MOST, ..filter };
        let mut found = client.executions(&filter)?;
        let later: BTreeSet<i64> = match self.verb {
            BulkVerb::Retry => followed(&found),
            BulkVerb::Cancel => BTreeSet::new(),
        };
        found.retain(|it| !later.contains(&it.id) && self.newest.is_none_or(|newest| it.id <= newest));
        Ok(found)
    }

    /// The ids of those that are meant, the oldest first.
    pub(in super::super) fn ids(&self, client: &Client, now: DateTime<Utc>) -> Result<Vec<i64>, Trouble> {
        Ok(self.found(client, now)?.iter().map(|it| it.id).collect())
    }

    /// What it will do to these, a sentence each.
    pub(super) fn will(&self, found: &[ExecutionView]) -> Vec<String> {
        let count = |state: ExecutionState| found.iter().filter(|it| it.state == state.as_str()).count();
        let running = count(ExecutionState::Running);
        let mut will = match self.verb {
            BulkVerb::Cancel => vec![
                format!("{} not begun, and will not.", has(found.len() - running)),
                format!("{running} run: their handlers are asked to end, and may take their time."),
            ],
            BulkVerb::Retry => vec![
                "Each gets one more attempt, at once and with the same payload.".to_owned(),
                "One that a later attempt has followed, or that has succeeded since, is left as it is."
                    .to_owned(),
            ],
        };
        if found.len() >= MOST {
            will.push(format!("There may be more: these are the oldest {}. Go on afterwards.", number(MOST)));
        }
        will.push("Those that come from now on are not touched. Each change is in the audit.".to_owned());
        will
    }
}

fn has(count: usize) -> String {
    format!("{} {}", counted(count, "execution"), if count == 1 { "has" } else { "have" })
}
