//! Whether an application is well: what needs people, and what they should know.
//!
//! [`Client::check`] asks a bounded number of bounded questions, and [`findings`] decides on their answers.

mod failures;
mod found;
mod outage;
mod rules;

use chrono::TimeDelta;

pub use self::failures::Failures;
use self::found::MOST_SCHEDULES;
pub use self::found::{Check, Finding, FindingKind, FindingLevel};
pub use self::outage::Outage;
use self::rules::findings;
use crate::api::client::Client;
use crate::api::{ScheduleFilter, Standing};
use crate::domain::Error;

/// So long an execution may wait for a node.
const LATE: TimeDelta = TimeDelta::seconds(60);
/// So many late executions [`Client::late`] tells.
const MOST_LATE: usize = 1_000;

impl Client {
    /// Looks whether the application is well. However large it is, it asks a bounded number of bounded
    /// questions: of long lists the first are looked at, and a [finding](FindingKind::Unseen) says so.
    ///
    /// ```
    /// use firetime::{Client, FindingKind, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let check = client.check()?;
    /// assert!(!check.is_healthy());
    /// assert_eq!(check.findings[0].kind, FindingKind::NothingClaims);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The database's failure.
    pub fn check(&self) -> Result<Check, Error> {
        let (at, above) = (self.store.now()?, self.above()?);
        let now = self.now()?;
        let application = self.applications()?.into_iter().find(|it| it.name == self.application());
        let standing = |standing| {
            let standing = Some(standing);
            let filter = ScheduleFilter { standing, limit: MOST_SCHEDULES, ..ScheduleFilter::default() };
            Ok::<_, Error>(self.find_under(&above, &filter, at)?.schedules)
        };
        let mut late = self.late(now - LATE)?;
        let is_late_cut = late.len() >= MOST_LATE;
        late.retain(|execution| execution.reason != "queued" && !execution.held);
        let nodes = self.nodes()?;
        let mut check = Check {
            now,
            application,
            jobs: self.jobs()?,
            late,
            failures: self.failures(None)?,
            outages: outage::outages(&nodes, now),
            findings: Vec::new(),
            paused: standing(Standing::Paused)?,
            in_error: standing(Standing::Error)?,
            unmet: standing(Standing::Unmet)?,
            overdue: standing(Standing::Overdue)?,
            left_alone: standing(Standing::LeftAlone)?,
            is_late_cut,
            nodes,
        };
        check.findings = findings(&check);
        Ok(check)
    }
}
