//! What became of the newest planned occurrences of schedules, for strips of them.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::client::Client;
use crate::api::views::{number, unsigned, view};
use crate::domain::{Error, ExecutionId, ExecutionState, ScheduleId, Timestamp, Word};
use crate::store::past::PastRow;

view! {
    /// What became of a planned occurrence, as the last attempt at it says, or of a span of occurrences that
    /// were skipped or withdrawn together ([`Client::past`]). As JSON, instants are epoch milliseconds.
    PastOccurrence of PastRow as row {
        /// The id of its schedule.
        schedule: ScheduleId = row.schedule,
        /// The id of the last execution of it.
        execution: ExecutionId = ExecutionId(row.id),
        /// Its fire time; of a span that of the first.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        fire_time: Option<DateTime<Utc>> = row.scheduled.utc(),
        /// Of a span, the last fire time.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        last_fire_time: Option<DateTime<Utc>> = row.until.and_then(Timestamp::utc),
        /// How many occurrences it stands for.
        count: u64 = unsigned(row.count),
        /// 1 if nothing was attempted again.
        attempt: u32 = number(row.attempt),
        /// The state of the last attempt.
        state: Word<ExecutionState> = Word::read(&row.state),
        /// Why it is in this state, where that needs saying.
        reason: String = row.reason,
        /// When it was due.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        due: Option<DateTime<Utc>> = row.due.utc(),
        /// When it was started.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        started: Option<DateTime<Utc>> = row.started.and_then(Timestamp::utc),
        /// When it ended.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        finished: Option<DateTime<Utc>> = row.finished.and_then(Timestamp::utc),
    }
}

impl Client {
    /// What became of the newest planned occurrences of these schedules, which are named by
    /// [their ids](crate::ScheduleView::id): of each schedule at most so many, the newest first, in the order
    /// of the ids. One statement reads those of 64 schedules.
    ///
    /// It looks at the two newest triggers of each. Where many occurrences were attempted more than once, it
    /// may bring fewer than there are.
    ///
    /// ```
    /// use firetime::{Client, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let next = client.schedules()?[0].next.expect("it fires every night");
    /// client.skip("nightly", next).run()?;
    /// let past = client.past(&[client.schedules()?[0].id], 30)?;
    /// assert_eq!((past[0].state.as_str(), past[0].fire_time), ("SKIPPED", Some(next)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The database's failure.
    pub fn past(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<PastOccurrence>, Error> {
        Ok(self.store.past(schedules, most)?.into_iter().map(PastOccurrence::from).collect())
    }
}
