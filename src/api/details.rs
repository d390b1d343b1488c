//! One schedule, or one execution, whole.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::{ExecutionView, NodeView, Schedule, ScheduleView};
use crate::domain::{Error, ErrorKind, Millis, Timestamp, payload};
use crate::store::columns::When;
use crate::trigger::{Timing, Trigger};

/// One schedule whole: what was asked of it, what comes next, and what became of it. As JSON, instants are
/// epoch milliseconds, and spans are milliseconds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ScheduleDetails {
    /// What a listing shows of it.
    #[serde(flatten)]
    pub schedule: ScheduleView,
    /// What its handler is given: JSON, as it is stored.
    pub payload: String,
    /// Its trigger; none if its columns mean none.
    #[serde(skip)]
    pub rule: Option<Trigger>,
    /// It fires at or after this.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub starts: Option<DateTime<Utc>>,
    /// It fires at or before this.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub ends: Option<DateTime<Utc>>,
    /// Of the due occurrences of its job the highest starts first; a point counts as ten minutes of waiting.
    pub priority: i64,
    /// What becomes of missed occurrences: `FIRE_ONCE`, `DO_NOTHING` or `FIRE_ALL`.
    pub misfire: String,
    /// How long its handler may take, milliseconds; none: as its job says.
    pub time_limit: Option<i64>,
    /// What becomes of an occurrence that is due while another execution has not ended: `SKIP`, `QUEUE 3`
    /// (three may wait), `REPLACE` or `ALLOW`.
    pub overlap: String,
    /// After how many occurrences in a row that failed for good or killed their nodes it pauses itself, or
    /// else after two in a row that killed their nodes; 0: never; none: only after those two, without a
    /// failure between them.
    pub pause_after: Option<i64>,
    /// Its next fire times, five at most; none unless it is active.
    #[serde(serialize_with = "millis")]
    pub next_five: Vec<DateTime<Utc>>,
    /// How many occurrences the ledger holds, by the states of their attempts.
    pub counts: BTreeMap<String, i64>,
    /// Its newest executions, five at most.
    pub last: Vec<ExecutionView>,
}

/// One execution whole: the attempts at its occurrence, and where they ran. As JSON, instants are epoch
/// milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecutionDetails {
    /// The attempt that was asked for.
    #[serde(flatten)]
    pub execution: ExecutionView,
    /// A payload of its own, as JSON; none if it is given its schedule's.
    pub payload: Option<String>,
    /// Its headers, texts by name, if it has some ([`Enqueue::header`](crate::request::Enqueue::header)).
    pub headers: BTreeMap<String, String>,
    /// How far its handlers have come, as JSON, if one has said so ([`Context::checkpoint`]).
    ///
    /// [`Context::checkpoint`]: crate::Context::checkpoint
    pub checkpoint: Option<String>,
    /// What the attempt that has succeeded left, as JSON, if it left something ([`Context::result`]).
    ///
    /// [`Context::result`]: crate::Context::result
    pub result: Option<String>,
    /// All attempts at its occurrence, the first first.
    pub attempts: Vec<ExecutionView>,
    /// The nodes that ran them, as far as their rows are still there.
    pub nodes: Vec<NodeView>,
}

/// A field of a schedule's definition that another definition has otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Its name, as in the JSON of [`ScheduleDetails`].
    pub field: &'static str,
    /// What it is; empty for nothing.
    pub was: String,
    /// What it would become; empty for nothing.
    pub becomes: String,
}

impl ScheduleDetails {
    /// The fields that [`Client::ensure`](crate::Client::ensure) would change to make it as described.
    ///
    /// ```
    /// use firetime::{Client, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<String> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// let nightly = Schedule::new("nightly", REPORT, &"all".to_string(), nightly)?;
    /// client.ensure(&nightly).run()?;
    /// let stored = client.schedule("nightly")?;
    /// assert_eq!(stored.differences(&nightly), []);
    /// let [difference] = &stored.differences(&nightly.priority(9))[..] else { panic!() };
    /// assert_eq!((difference.field, &*difference.was, &*difference.becomes), ("priority", "5", "9"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn differences(&self, wanted: &Schedule) -> Vec<Difference> {
        let wanted = wanted.definition(&self.schedule.application);
        // An interval that anybody may anchor stays where it is.
        let anchor = self.starts.map_or(Timestamp::at(0), Timestamp::from);
        let when = wanted.timing(anchor).ok().map(|timing| When::of(&timing));
        let window = when.as_ref().and_then(|when| when.timing().ok());
        let starts = window.as_ref().and_then(Timing::start).and_then(Timestamp::utc);
        let starts = if wanted.is_anchored() { starts } else { self.starts };
        let ends = window.as_ref().and_then(Timing::end).and_then(Timestamp::utc);
        let instant = |at: Option<DateTime<Utc>>| at.map_or_else(String::new, |at| at.to_string());
        let span = |span: Option<Millis>| span.map_or_else(String::new, |span| format!("{span} ms"));
        let count = |count: Option<i64>| count.map_or_else(String::new, |count| count.to_string());
        let (was, overlap) = (&self.schedule, wanted.overlap());
        let both = [
            ("job", was.job.clone(), wanted.job.name.to_string()),
            ("trigger", was.trigger.clone(), when.as_ref().map_or_else(String::new, When::describe)),
            ("starts", instant(self.starts), instant(starts)),
            ("ends", instant(self.ends), instant(ends)),
            ("payload", self.payload.clone(), wanted.payload),
            ("description", was.description.clone(), wanted.description),
            ("priority", self.priority.to_string(), wanted.priority.to_string()),
            ("misfire", self.misfire.clone(), wanted.misfire.as_str().to_owned()),
            ("misfire_threshold", span(Some(was.misfire_threshold)), span(Some(wanted.threshold))),
            ("time_limit", span(self.time_limit), span(wanted.time_limit)),
            ("overlap", self.overlap.clone(), overlap.word().into_owned()),
            ("pause_after", count(self.pause_after), count(wanted.pause_after.column().map(i64::from))),
        ];
        let differs = both.into_iter().filter(|(_, was, becomes)| was != becomes);
        differs.map(|(field, was, becomes)| Difference { field, was, becomes }).collect()
    }
}

impl ExecutionDetails {
    /// The last attempt. Its state is that of the whole execution: it is `PENDING` while a retry waits.
    #[must_use]
    pub fn last(&self) -> &ExecutionView {
        self.attempts.last().unwrap_or(&self.execution)
    }

    /// The [`result`](Self::result) as a value of the type that its handler left; none if it left none.
    ///
    /// ```
    /// use firetime::{Error, ExecutionDetails};
    ///
    /// fn words(execution: &ExecutionDetails) -> Result<usize, Error> {
    ///     Ok(execution.result_as()?.unwrap_or(0))
    /// }
    /// # let _ = words;
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Data`] if it is none of `T`, as after a release that changed it.
    pub fn result_as<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let none =
            |text: &str, said| Error::new(ErrorKind::Data, format!("reading a result: {said}: {text}"));
        let read = |text: &String| payload::decode(text).map_err(|said| none(text, said));
        self.result.as_ref().map(read).transpose()
    }
}

fn millis<S: serde::Serializer>(instants: &[DateTime<Utc>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(instants.iter().map(DateTime::timestamp_millis))
}
