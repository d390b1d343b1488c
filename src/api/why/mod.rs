//! Why an occurrence ran, or did not: what the ledger, the audit and the rows of now tell, in one sentence.

mod answer;
mod because;
mod day;
mod ended;
mod evidence;
mod expected;
mod explain;
mod facts;
mod fate;
mod holds;
mod late;
mod skipped;
#[cfg(test)]
mod tests;
mod told;
mod unclaimed;

use chrono::{DateTime, Utc};

pub use self::answer::{Evidence, Why};
pub use self::because::{Because, FullBound, FullNode, IdleNode, SilentNode, Who};
pub use self::day::WhyList;
pub use self::expected::Expected;
use self::explain::explain;
pub use self::fate::Fate;
pub use self::late::{Late, LateWait};
use super::Client;
use crate::domain::{Error, ExecutionId};

impl Client {
    /// Why an execution ran, failed, was skipped, or waits: its last attempt decides. Of an occurrence that
    /// was run again it also tells by whom, as which execution, and what became of that.
    ///
    /// ```
    /// use firetime::{Client, Fate, Job};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const REMIND: Job<u64> = Job::new("remind");
    /// let client = Client::connect("shop", &url)?;
    /// let id = client.enqueue(REMIND, &7).run()?.id();
    /// let why = client.why(id)?;
    /// assert_eq!((why.fate, &*why.reason), (Fate::Waiting, "no node"));
    /// assert!(why.sentence.contains("waits: no live node has a handler for job \"remind\""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the application has no such execution, or its retention is over; or the
    /// database's failure.
    ///
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn why(&self, id: impl Into<ExecutionId>) -> Result<Why, Error> {
        Ok(explain(&self.facts_of_execution(id.into())?))
    }

    /// Why a schedule's occurrence at this fire time ran or did not, or whether it will. Also of a schedule
    /// that was removed.
    ///
    /// ```
    /// use chrono::{TimeZone, Utc};
    /// use firetime::{Client, Fate, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 0 2 * * ?", "UTC")?;
    /// client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let three = Utc.with_ymd_and_hms(2099, 1, 1, 3, 0, 0).unwrap();
    /// let why = client.why_at("nightly", three)?;
    /// assert_eq!((why.fate, &*why.reason), (Fate::NotDue, "no fire time"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the application has no such schedule; or the database's failure.
    ///
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn why_at(&self, schedule: &str, at: DateTime<Utc>) -> Result<Why, Error> {
        Ok(explain(&self.facts_at(schedule, at)?))
    }
}
