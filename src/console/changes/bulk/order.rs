//! A change of all that a filter means: executions, or schedules.

use chrono::{DateTime, Utc};

use super::verb::BulkVerb;
use crate::console::web::query::Query;
use crate::console::web::trouble::Trouble;
use crate::console::words::instant::instant;
use crate::console::words::{Badge, counted};

/// So many are changed at once.
pub(super) const MOST: usize = 1_000;

/// What an order means, as it is now.
pub(crate) struct Meant {
    /// Those that it changes.
    pub(crate) items: Vec<Item>,
    /// What it will do, a sentence each.
    pub(crate) will: Vec<String>,
}

/// One of those that are changed.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: i64,
    /// A schedule's name, or an execution's id.
    pub(crate) name: String,
    /// The address of its page.
    pub(super) to: String,
    /// An execution's schedule, or a schedule's job.
    pub(super) of: String,
    /// Its fire time, or its next one.
    pub(super) at: Option<DateTime<Utc>>,
    pub(super) badge: Badge,
}

/// A change of all of a filter that were there when somebody was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BulkOrder {
    pub(crate) verb: BulkVerb,
    /// The filter, as the list's address has it.
    pub(super) filter: Query,
    /// None that came later: the highest id that was meant.
    pub(super) newest: Option<i64>,
}

/// The name of the filter's reason in a form, whose `reason` is that of the change.
const STATE_REASON: &str = "state_reason";

impl BulkOrder {
    /// Of the list at an address.
    pub(crate) fn of(verb: BulkVerb, list: &Query) -> Self {
        Self { verb, filter: list.only(verb.filter()), newest: None }
    }

    /// The same of none with a higher id.
    pub(crate) fn up_to(self, newest: Option<i64>) -> Self {
        Self { newest, ..self }
    }

    pub(crate) fn read(query: &Query) -> Result<Self, Trouble> {
        let verb = query.get("each").and_then(BulkVerb::of);
        let verb = verb.ok_or_else(|| Trouble::wrong("The form does not say what is done to each."))?;
        let newest = query.get("newest").map(str::parse).transpose();
        let newest = newest.map_err(|_| Trouble::wrong("The id of the newest is a number."))?;
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
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("each", self.verb.word().to_owned())];
        pairs.extend(self.newest.map(|id| ("newest", id.to_string())));
        let named = |name| if name == "reason" { STATE_REASON } else { name };
        let of = |name: &'static str| self.filter.all(name).map(move |value| (named(name), value.to_owned()));
        pairs.extend(self.verb.filter().iter().flat_map(|name| of(name)));
        pairs
    }

    /// The page that asks whether to do it.
    pub(crate) fn address(&self, back: &str) -> String {
        let pairs = self.pairs().into_iter();
        pairs
            .fold(Query::default(), |query, (name, value)| query.and(name, &value))
            .with("back", back)
            .of("bulk")
    }

    /// The list of what is meant.
    pub(super) fn list(&self) -> String {
        self.filter.of(self.verb.list())
    }

    /// Whether one was there when somebody was asked.
    pub(super) fn has(&self, id: i64) -> bool {
        self.newest.is_none_or(|newest| id <= newest)
    }

    /// `1 execution`, `2 schedules`.
    pub(crate) fn counted(&self, count: usize) -> String {
        counted(count, self.verb.noun())
    }
}
