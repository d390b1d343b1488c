//! Outcomes of attempts, counted.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::config;
use crate::api::Client;
use crate::api::spans::some_as_millis;
use crate::api::views::{named, unsigned};
use crate::domain::{Error, Timestamp};
use crate::store::outcomes::{OutcomeCounts, OutcomeQuery, OutcomeSpan};
use crate::time;

/// Which outcomes [`Client::outcomes`] counts, and what it tells apart. Default: all, told apart by nothing.
///
/// End a literal with `..Default::default()`: releases may add fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeFilter {
    /// From the hour of this instant on, or its day by UTC where hours are no longer kept. Default: all that
    /// retention has left.
    pub since: Option<DateTime<Utc>>,
    /// Only hours and days that begin before this. Default: no end.
    pub until: Option<DateTime<Utc>>,
    /// Only of the job of this name.
    pub job: Option<String>,
    /// Only of the node with this id, as far as hours are kept: days have no nodes.
    pub node: Option<String>,
    /// Each hour, or day, is counted by itself. Default: no.
    pub by_hour: bool,
    /// Each job is counted by itself. Default: no.
    pub by_job: bool,
    /// Each node is counted by itself. Default: no.
    pub by_node: bool,
    /// At most so many answers, those that begin last. Default: 10,000.
    pub limit: usize,
}

impl Default for OutcomeFilter {
    fn default() -> Self {
        let (since, until, job, node) = (None, None, None, None);
        let (by_hour, by_job, by_node, limit) = (false, false, false, 10_000);
        Self { since, until, job, node, by_hour, by_job, by_node, limit }
    }
}

/// How many attempts ended, how late their handlers began, and how long they took. As JSON, instants are
/// epoch milliseconds, and spans are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Outcomes {
    /// The beginning of the first hour, or day, in which some ended.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub since: DateTime<Utc>,
    /// The end of the last.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub until: DateTime<Utc>,
    /// Their job; none if jobs are not told apart.
    pub job: Option<String>,
    /// The id of their node; none if nodes are not told apart, and for days.
    pub node: Option<String>,
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// That failed, whether or not another attempt follows, or were given up because too many nodes died.
    pub failed: u64,
    /// Whose time limit passed.
    pub timed_out: u64,
    /// That ended because somebody had asked for it. Executions that were cancelled before they began are not
    /// counted.
    pub cancelled: u64,
    /// Whose node died, so that another attempt follows or none is wanted.
    pub abandoned: u64,
    /// How long after they were due their handlers began, on average. None if no node knew.
    #[serde(serialize_with = "some_as_millis")]
    pub mean_lateness: Option<Duration>,
    /// The longest.
    #[serde(serialize_with = "some_as_millis")]
    pub longest_lateness: Option<Duration>,
    /// How long their handlers took, on average. None if no node knew.
    #[serde(serialize_with = "some_as_millis")]
    pub mean_duration: Option<Duration>,
    /// The longest.
    #[serde(serialize_with = "some_as_millis")]
    pub longest_duration: Option<Duration>,
}

impl Outcomes {
    /// How many attempts ended.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.succeeded, self.failed, self.timed_out, self.cancelled, self.abandoned].iter().sum()
    }

    fn of((span, counts): (OutcomeSpan, OutcomeCounts)) -> Self {
        let [succeeded, failed, timed_out, cancelled, abandoned, begun, lateness, duration] =
            counts.sums.map(unsigned);
        let mean = |sum: u64| sum.checked_div(begun).map(Duration::from_millis);
        let longest = |longest: i64| (begun > 0).then(|| time::span(longest));
        let instant = |at: Timestamp| at.utc().unwrap_or(DateTime::<Utc>::MAX_UTC);
        Self {
            since: instant(span.from),
            until: instant(span.until),
            job: named(span.job),
            node: named(span.node),
            succeeded,
            failed,
            timed_out,
            cancelled,
            abandoned,
            mean_lateness: mean(lateness),
            longest_lateness: longest(counts.longest[0]),
            mean_duration: mean(duration),
            longest_duration: longest(counts.longest[1]),
        }
    }
}

impl Client {
    /// Counts the attempts that have ended: by state, with how late they began and how long they took. They
    /// are counted in the transaction that stores their outcome, so each once. Executions that never began,
    /// such as skipped ones, are none of them.
    ///
    /// Hours are kept for two days and the rest of the third, and then added up to days by UTC, without their
    /// nodes. Counts go with the ledger, by the hour in which an attempt ended. In the order of their
    /// beginnings, then of jobs and nodes.
    ///
    /// ```no_run
    /// use chrono::{TimeDelta, Utc};
    /// use firetime::{Client, OutcomeFilter};
    ///
    /// let client = Client::connect("shop", "postgres://db.example/shop")?;
    /// let since = Some(Utc::now() - TimeDelta::hours(24));
    /// for it in client.outcomes(&OutcomeFilter { since, by_job: true, ..Default::default() })? {
    ///     let (failed, all, late) = (it.failed, it.total(), it.longest_lateness.unwrap_or_default());
    ///     println!("{}: {failed} of {all} failed, at most {late:?} late", it.job.unwrap_or_default());
    /// }
    /// # Ok::<(), firetime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if no job or node can have the name that it asks for;
    /// or the database's failure.
    pub fn outcomes(&self, filter: &OutcomeFilter) -> Result<Vec<Outcomes>, Error> {
        config::check_filter([("the job's name", &filter.job, 200), ("the node's id", &filter.node, 36)])?;
        let query = OutcomeQuery {
            application: self.application.to_string(),
            from: filter.since.map_or(Timestamp::EPOCH, Timestamp::from),
            until: filter.until.map_or(Timestamp::MAX, Timestamp::from),
            job: filter.job.clone(),
            node: filter.node.clone(),
            by_hour: filter.by_hour,
            by_job: filter.by_job,
            by_node: filter.by_node,
            limit: filter.limit,
        };
        Ok(self.store.outcomes(&query)?.into_iter().map(Outcomes::of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_those_that_began() {
        let counts = OutcomeCounts { sums: [3, 0, 0, 0, 2, 3, 10, 600], longest: [9, 400] };
        let span = OutcomeSpan {
            from: Timestamp::at(0),
            until: Timestamp::at(3_600_000),
            job: "a".to_owned(),
            node: String::new(),
        };
        let millis = |millis| Some(Duration::from_millis(millis));
        let outcomes = Outcomes::of((span.clone(), counts));
        assert_eq!((outcomes.total(), outcomes.abandoned), (5, 2));
        assert_eq!((outcomes.mean_lateness, outcomes.longest_lateness), (millis(3), millis(9)));
        assert_eq!((outcomes.mean_duration, outcomes.longest_duration), (millis(200), millis(400)));
        let none = OutcomeCounts { sums: [0, 0, 0, 0, 2, 0, 0, 0], longest: [0, 0] };
        let outcomes = Outcomes::of((span, none));
        assert_eq!((outcomes.mean_lateness, outcomes.longest_duration), (None, None));
    }
}
