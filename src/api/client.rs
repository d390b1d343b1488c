//! Managing schedules and looking at a cluster without running anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::config;
use crate::api::{ExecutionFilter, ExecutionView, NodeView, Schedule, ScheduleView};
use crate::domain::{Error, Kind, ScheduleState};
use crate::repair::resume;
use crate::store::{self, Change, Ensured, ExecutionQuery, Pause, Store};
use crate::time::Clock;

/// Manages one application's schedules and reads the cluster's state; runs nothing itself.
///
/// ```
/// use firetime::{Client, Job, Schedule, Trigger, Ensured};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// const GREET: Job<String> = Job::new("greet");
/// firetime::migrate(&url)?;
/// let client = Client::connect("shop", &url)?;
/// let hello = Schedule::new("hello", GREET, &"Ada".to_string(), Trigger::cron("0 * * * * ?", "UTC")?)?;
/// assert_eq!(client.ensure(&hello)?, Ensured::Created);
/// assert_eq!(client.ensure(&hello)?, Ensured::Unchanged);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    application: String,
    store: Arc<dyn Store>,
    /// Called after a change, with the schedule's name: a node of this process need not wait for its next
    /// poll.
    changed: Arc<dyn Fn(&str) + Send + Sync>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("application", &self.application).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to the database that `url` names (`sqlite:`, `postgres://`, `mysql://`).
    ///
    /// # Errors
    /// [`Kind::Config`] for an unusable name or URL, [`Kind::Unavailable`] if the database cannot be reached,
    /// [`Kind::Schema`] if its tables are missing, too old, or newer than this version of firetime.
    pub fn connect(application: &str, url: &str) -> Result<Self, Error> {
        config::check_name("application name", application, 50)?;
        let store = store::open(url, store::Limits::default(), Arc::new(Clock::default()))?;
        store::check_schema(url)?;
        Ok(Self::over(application, store, |_| {}))
    }

    pub(crate) fn over(
        application: &str,
        store: Arc<dyn Store>,
        changed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self { application: application.to_owned(), store, changed: Arc::new(changed) }
    }

    /// Makes the schedule of this name be as described: creates it, changes what differs, or does nothing.
    ///
    /// A pause and, unless the trigger changed, the next fire time stay as they are. Another trigger
    /// withdraws occurrences that are due and not yet claimed. Several servers may call this at once: one row
    /// results.
    ///
    /// A new schedule, or one with another trigger, first fires at its trigger's next fire time from now on.
    /// Where none is left, [`Trigger::once`] is planned all the same, and [`Trigger::every`] at its first
    /// fire time that was not planned before; the misfire policy decides about an instant further back than
    /// the threshold. Nothing else is planned in the past, and only [`Trigger::once`] at or before the last
    /// fire time again.
    ///
    /// So `Trigger::once(Utc::now())` runs the job soon: at once on the node whose
    /// [client](crate::Scheduler::client) this is, else with the next poll. One that was not claimed yet is
    /// withdrawn by the next under the same name, so give each request a name of its own. In a program's
    /// start it runs once per start: give a fixed instant there.
    ///
    /// Definitions are compared, not their ages: an older release that starts up beside a newer one puts back
    /// its own. Where releases differ in a definition, let one of them ensure it, or give the new definition
    /// a new name.
    ///
    /// # Errors
    /// [`Kind::Config`] if the trigger can never fire, [`Kind::Conflict`] if others keep changing the same
    /// schedule, or the database's failure.
    ///
    /// [`Trigger::once`]: crate::Trigger::once
    /// [`Trigger::every`]: crate::Trigger::every
    pub fn ensure(&self, schedule: &Schedule) -> Result<Ensured, Error> {
        let context = format!("ensuring schedule {:?}", schedule.name());
        let ensured = self
            .store
            .ensure(&schedule.definition(&self.application))
            .map_err(|error| error.during(&context))?;
        if ensured != Ensured::Unchanged {
            (self.changed)(schedule.name());
        }
        Ok(ensured)
    }

    /// As [`Client::ensure`], on the caller's own connection, so that it joins the transaction open there:
    /// the schedule appears if and when the caller commits.
    ///
    /// # Errors
    /// As [`Client::ensure`]; after an error roll the transaction back.
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
    ///     client.ensure_in(connection, &bill)?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "sql")]
    pub fn ensure_in(
        &self,
        connection: &mut impl store::CallerConnection,
        schedule: &Schedule,
    ) -> Result<Ensured, Error> {
        let context = format!("ensuring schedule {:?}", schedule.name());
        store::ensure_in(connection, &schedule.definition(&self.application))
            .map_err(|error| error.during(&context))
    }

    /// Pauses an active schedule at once: nothing planned of it is claimed until [`Client::resume`]. `by` and
    /// `reason` are stored for people. False if it was not active.
    ///
    /// # Errors
    /// [`Kind::Config`] if `by` (200 characters) or `reason` (500) is too long or has control characters,
    /// [`Kind::NotFound`] if there is no such schedule, or the database's failure.
    pub fn pause(&self, name: &str, by: &str, reason: &str) -> Result<bool, Error> {
        config::check_text("who pauses", by, 200)?;
        config::check_text("the pause's reason", reason, 500)?;
        loop {
            let entry = self.find(name)?;
            if entry.state != ScheduleState::Active {
                return Ok(false);
            }
            // Lost: somebody else changed the row; what it is now decides.
            let (by, reason) = (by.to_owned(), reason.to_owned());
            let pause = Pause { id: entry.id, version: entry.version, by, reason };
            if self.store.apply_one(Change::Pause(pause))?.is_done() {
                (self.changed)(name);
                return Ok(true);
            }
        }
    }

    /// Ends a pause: occurrences planned meanwhile are recorded as skipped (`paused`), the next is the first
    /// after now. False if it was not paused.
    ///
    /// # Errors
    /// [`Kind::Config`] if no schedule can have this name, [`Kind::NotFound`] if there is no such schedule,
    /// or the database's failure.
    pub fn resume(&self, name: &str) -> Result<bool, Error> {
        // A pause longer than one repair accounts for ends in several.
        loop {
            let entry = self.find(name)?;
            let now = self.store.time()?.millis();
            let Some(repair) = resume(&entry, now) else { return Ok(false) };
            // Lost: somebody else changed the row; what it is now decides.
            let ends = repair.resume;
            if self.store.apply_one(Change::Repair(repair))?.is_done() && ends {
                (self.changed)(name);
                return Ok(true);
            }
        }
    }

    fn find(&self, name: &str) -> Result<crate::domain::Entry, Error> {
        config::check_name("schedule name", name, 200)?;
        self.store.find(&self.application, name)?.ok_or_else(|| {
            Error::new(Kind::NotFound, format!("no schedule {name:?} in {:?}", self.application))
        })
    }

    /// The application's nodes, newest first, ended ones included.
    ///
    /// # Errors
    /// The database's failure.
    pub fn nodes(&self) -> Result<Vec<NodeView>, Error> {
        Ok(self.store.nodes(Some(&self.application))?.into_iter().map(NodeView::from).collect())
    }

    /// The application's schedules by name.
    ///
    /// # Errors
    /// The database's failure.
    pub fn schedules(&self) -> Result<Vec<ScheduleView>, Error> {
        let nodes = self.store.nodes(Some(&self.application))?;
        let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
        for node in nodes.iter().filter(|node| node.enabled && node.ended.is_none()) {
            node.jobs.iter().for_each(|job| *listed.entry(job).or_default() += 1);
        }
        let view = |row: store::ScheduleRow| {
            let nodes = listed.get(row.job.as_str()).copied().unwrap_or_default();
            ScheduleView { nodes, ..ScheduleView::from(row) }
        };
        Ok(self.store.schedules(Some(&self.application))?.into_iter().map(view).collect())
    }

    /// The names of all applications in this database, in order: those that have had a node or a schedule.
    ///
    /// # Errors
    /// The database's failure.
    pub fn applications(&self) -> Result<Vec<String>, Error> {
        self.store.applications()
    }

    /// The application's executions, newest first.
    ///
    /// # Errors
    /// [`Kind::Config`] if no schedule can have the name, or no node's id can begin so; or the database's
    /// failure.
    pub fn executions(&self, filter: &ExecutionFilter) -> Result<Vec<ExecutionView>, Error> {
        config::check_text("the schedule's name", filter.schedule.as_deref().unwrap_or_default(), 200)?;
        config::check_text("the node's id", filter.node.as_deref().unwrap_or_default(), 36)?;
        let query = ExecutionQuery {
            application: Some(self.application.clone()),
            schedule: filter.schedule.clone(),
            states: filter.states.clone(),
            node: filter.node.clone(),
            since: filter.since.map(|at| at.timestamp_millis()),
            limit: filter.limit,
        };
        Ok(self.store.executions(&query)?.into_iter().map(ExecutionView::from).collect())
    }
}
