//! Ensure: a schedule becomes as an application defines it.

use super::{Begins, awaits, check, joins, ordered};
use crate::api::{Client, Schedule};
use crate::domain::Error;
use crate::store::{Definition, Ensured, OnlyIf, Verbs};

/// Makes the schedule of this name be as described: creates it, changes what differs, or does nothing. Made
/// by [`Client::ensure`].
///
/// A pause and, unless the trigger changed, the next fire time stay as they are. Another trigger withdraws
/// occurrences that are due and not yet claimed: a row of the ledger, in state `WITHDRAWN` with the reason
/// `edited`, says which and how many, and names the audit's entry. Several servers may run the same request
/// at once: one row results.
///
/// A new schedule, or one with another trigger, first fires at its trigger's next fire time from now on.
/// Where none is left, [`Trigger::once`] is planned all the same, and [`Trigger::every`] at its first fire
/// time that was not planned before; the misfire policy decides about an instant further back than the
/// threshold. Nothing else is planned in the past, and only [`Trigger::once`] at or before the last fire time
/// again.
///
/// So `Trigger::once(Utc::now())` runs the job at once. One that was not claimed yet is withdrawn by the next
/// under the same name: to run a job at once without a schedule, [enqueue](crate::Client::enqueue) it. In a
/// program's start it runs once per start: give a fixed instant there.
///
/// Definitions are compared, not their ages: an older release that starts up beside a newer one puts back its
/// own. Where releases differ in a definition, let one of them ensure it, or give the new definition a new
/// name.
///
/// ```
/// use firetime::{Client, Ensured, Job, Schedule, Trigger};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// const REPORT: Job<String> = Job::new("report");
/// let client = Client::connect("shop", &url)?;
/// let nightly = |cron| Schedule::new("nightly", REPORT, &"sales".to_string(), cron);
/// let at_two = nightly(Trigger::cron("0 0 2 * * ?", "Europe/Berlin")?)?;
/// let at_four = nightly(Trigger::cron("0 0 4 * * ?", "Europe/Berlin")?)?;
/// assert_eq!(client.ensure(&at_two).run()?, Ensured::Created);
/// assert_eq!(client.ensure(&at_two).run()?, Ensured::Unchanged);
/// assert_eq!(client.ensure(&at_four).run()?, Ensured::Changed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Trigger::once`]: crate::Trigger::once
/// [`Trigger::every`]: crate::Trigger::every
#[derive(Debug)]
#[must_use = "a request does nothing until it is run: `.run()`, `.run_in(..)` or `.await`"]
pub struct Ensure<'a> {
    client: &'a Client,
    definition: Definition,
}

impl Client {
    /// Makes the schedule of this name be as described: creates it, changes what differs, or does nothing.
    pub fn ensure<'a>(&'a self, schedule: &Schedule) -> Ensure<'a> {
        let definition = Definition { by: self.attribution(), ..schedule.definition(&self.application) };
        Ensure { client: self, definition }
    }
}

awaits!(Ensure { definition }, Ensured);

impl Begins for Ensure<'_> {}

impl Ensure<'_> {
    ordered!(definition.by);

    /// Only if there is no schedule of this name; one that is defined otherwise stays as it is, and the
    /// answer is [`Ensured::Differs`]. Default: it is changed.
    ///
    /// ```
    /// use firetime::{Client, Ensured, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Schedule::new("nightly", REPORT, &(), Trigger::cron("0 0 2 * * ?", "UTC")?)?;
    /// assert_eq!(client.ensure(&nightly).if_new().run()?, Ensured::Created);
    /// let urgent = nightly.priority(9);
    /// assert_eq!(client.ensure(&urgent).if_new().run()?, Ensured::Differs);
    /// // Nobody has changed it since it was looked at.
    /// let seen = client.schedule("nightly")?.schedule.version;
    /// assert_eq!(client.ensure(&urgent).if_version(seen).run()?, Ensured::Changed);
    /// assert_eq!(client.ensure(&urgent.priority(1)).if_version(seen).run()?, Ensured::Differs);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn if_new(mut self) -> Self {
        self.definition.only_if = OnlyIf::New;
        self
    }

    /// Only if the schedule has still this [version](crate::ScheduleView::version), which grows with every
    /// change but claims; else nothing is changed or made, and the answer is [`Ensured::Differs`]. Default:
    /// any.
    pub fn if_version(mut self, version: i64) -> Self {
        self.definition.only_if = OnlyIf::Version(version);
        self
    }

    /// Runs the request in a transaction of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the trigger can never fire or the payload is too large,
    /// [`ErrorKind::Conflict`] if others keep changing the same schedule, or the database's failure.
    ///
    /// [`ErrorKind::Config`]: crate::ErrorKind::Config
    /// [`ErrorKind::Conflict`]: crate::ErrorKind::Conflict
    pub fn run(self) -> Result<Ensured, Error> {
        let ensured = self.over(&*self.client.store)?;
        if !matches!(ensured, Ensured::Unchanged | Ensured::Differs) {
            self.client.announce(&self.definition.name);
        }
        Ok(ensured)
    }

    joins! {
        /// On PostgreSQL and MariaDB the call also uses a connection of the client's own. There it makes the
        /// row of a new job, which stays whatever becomes of the transaction: nodes that start with this job
        /// need not wait. Until the transaction ends, others who make or change the schedule of this name
        /// wait.
        ///
        /// ```
        /// use diesel::prelude::*;
        /// use firetime::{Client, Job, Schedule, Trigger};
        /// # let folder = tempfile::tempdir()?;
        /// # let file = folder.path().join("shop.db").display().to_string();
        /// # let url = format!("sqlite:{file}");
        /// # firetime::migrate(&url)?;
        /// const BILL: Job<u64> = Job::new("bill");
        /// let client = Client::connect("shop", &url)?;
        /// let once = Trigger::once(chrono::Utc::now() + chrono::TimeDelta::hours(1))?;
        /// let bill = Schedule::new("bill-17", BILL, &17, once)?;
        /// let mut connection = diesel::SqliteConnection::establish(&file)?;
        /// connection.transaction::<_, Box<dyn std::error::Error>, _>(|connection| {
        ///     // ... the order itself is inserted here ...
        ///     client.ensure(&bill).run_in(connection)?;
        ///     Ok(())
        /// })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        Ensure { definition }, Ensured
    }

    fn over(&self, verbs: &dyn Verbs) -> Result<Ensured, Error> {
        check(&self.definition.by)?;
        let explained = |error: Error| error.during(&format!("ensuring schedule {:?}", self.definition.name));
        verbs.ensure(&self.definition).map_err(explained)
    }
}
