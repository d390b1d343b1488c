//! Managing schedules and looking at a cluster without running anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::api::config;
use crate::api::request::{Cancel, Ensure, Pause, Remove, Resume, Retry, Skip, TriggerNow};
use crate::api::{AuditFilter, AuditView, ExecutionFilter, ExecutionView, NodeView, Schedule, ScheduleView};
use crate::domain::{Entry, Error, ErrorKind, ExecutionId, ScheduleState};
use crate::node::Changed;
use crate::node::start::this_process;
use crate::store::audit::{AuditQuery, Order};
use crate::store::{self, Definition, ExecutionQuery, Store};
use crate::time::Clock;

/// Manages one application's schedules and reads the cluster's state; runs no jobs itself.
///
/// A verb returns a [request](crate::request), which does nothing until it is run.
///
/// ```
/// use firetime::{Client, Job, Schedule, Trigger, Ensured};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// const GREET: Job<String> = Job::new("greet");
/// firetime::migrate(&url)?;
/// let client = Client::connect("shop", &url)?;
/// let hello = Schedule::new("hello", GREET, &"Ada".to_string(), Trigger::cron("0 * * * * ?", "UTC")?)?;
/// assert_eq!(client.ensure(&hello).run()?, Ensured::Created);
/// assert_eq!(client.ensure(&hello).run()?, Ensured::Unchanged);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Client {
    pub(super) application: String,
    pub(super) store: Arc<dyn Store>,
    /// Who its changes are recorded as.
    actor: Arc<str>,
    /// Called after a change, so that a node of this process need not wait for its next poll or heartbeat.
    changed: Arc<dyn Fn(Changed<'_>) + Send + Sync>,
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
    /// [`ErrorKind::Config`] for an unusable name or URL, [`ErrorKind::Unavailable`] if the database
    /// cannot be reached, [`ErrorKind::Schema`] if its tables are missing, too old, or newer than this
    /// version of firetime.
    pub fn connect(application: &str, url: &str) -> Result<Self, Error> {
        config::check_name("application name", application, 50)?;
        let store = store::open(url, store::StoreLimits::default(), Arc::new(Clock::default()))?;
        store::check_schema(url)?;
        Ok(Self::over(application, store, |_| {}))
    }

    pub(crate) fn over(
        application: &str,
        store: Arc<dyn Store>,
        changed: impl Fn(Changed<'_>) + Send + Sync + 'static,
    ) -> Self {
        let (application, actor) = (application.to_owned(), this_process().into());
        Self { application, store, actor, changed: Arc::new(changed) }
    }

    /// The same client, whose changes are recorded as made by `name`, unless a request names somebody else.
    /// Default: `host/process id`. Up to 200 characters, no control characters (checked when a request is
    /// run).
    #[must_use]
    pub fn acting_as(self, name: &str) -> Self {
        Self { actor: name.into(), ..self }
    }

    /// Makes the schedule of this name be as described: creates it, changes what differs, or does nothing.
    pub fn ensure<'a>(&'a self, schedule: &Schedule) -> Ensure<'a> {
        let definition = Definition { order: self.order(), ..schedule.definition(&self.application) };
        Ensure { client: self, definition }
    }

    /// Pauses an active schedule at once: nothing planned of it is claimed until [`Client::resume`].
    pub fn pause(&self, name: &str) -> Pause<'_> {
        Pause { client: self, name: name.to_owned(), order: self.order() }
    }

    /// Ends a pause: occurrences planned meanwhile are recorded as skipped, the next is the first after now.
    pub fn resume(&self, name: &str) -> Resume<'_> {
        Resume { client: self, name: name.to_owned(), order: self.order() }
    }

    /// Runs a schedule once more, now or later, beside what is planned.
    pub fn trigger(&self, name: &str) -> TriggerNow<'_> {
        TriggerNow::new(self, name, self.order())
    }

    /// Skips the next occurrence of a schedule, which is to be the one at `fire_time`.
    pub fn skip(&self, name: &str, fire_time: DateTime<Utc>) -> Skip<'_> {
        let at = fire_time.timestamp_millis();
        Skip { client: self, name: name.to_owned(), at, order: self.order() }
    }

    /// Cancels an execution: at once if it has not begun, otherwise its handler is asked to end.
    pub fn cancel(&self, execution: impl Into<ExecutionId>) -> Cancel<'_> {
        Cancel { client: self, execution: execution.into(), order: self.order() }
    }

    /// Makes another attempt at an execution that has ended without success.
    pub fn retry(&self, execution: impl Into<ExecutionId>) -> Retry<'_> {
        Retry { client: self, execution: execution.into(), order: self.order() }
    }

    /// Removes a schedule: nothing of it is claimed any more, and what waited to be run is cancelled.
    pub fn remove(&self, name: &str) -> Remove<'_> {
        Remove { client: self, name: name.to_owned(), order: self.order() }
    }

    /// Who changed what in the application, newest first: what [`Client::ensure`] changed, and every other
    /// verb of a client or of the program that did something. Kept as long as the ledger
    /// ([`Builder::retention`](crate::Builder::retention)).
    ///
    /// ```
    /// use firetime::{AuditFilter, Client, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?.acting_as("ann");
    /// # client.ensure(&Schedule::new("nightly", REPORT, &(), Trigger::cron("0 30 2 * * ?", "UTC")?)?).run()?;
    /// client.pause("nightly").reason("stock-taking").run()?;
    /// let paused = AuditFilter { verb: Some("pause".to_owned()), ..AuditFilter::default() };
    /// let last = &client.audit(&paused)?[0];
    /// assert_eq!((last.actor.as_str(), last.reason.as_str()), ("ann", "stock-taking"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if nothing can have these names; or the database's failure.
    pub fn audit(&self, filter: &AuditFilter) -> Result<Vec<AuditView>, Error> {
        for (what, text, most) in [
            ("the target's name", &filter.target, 200),
            ("the actor", &filter.actor, 200),
            ("the verb", &filter.verb, 20),
        ] {
            config::check_text(what, text.as_deref().unwrap_or_default(), most)?;
        }
        let query = AuditQuery {
            application: self.application.clone(),
            target: filter.target.clone(),
            actor: filter.actor.clone(),
            verb: filter.verb.clone(),
            since: filter.since.map(|at| at.timestamp_millis()),
            limit: filter.limit,
        };
        Ok(self.store.audit(&query)?.into_iter().map(AuditView::from).collect())
    }

    /// What its requests begin with.
    fn order(&self) -> Order {
        Order { actor: self.actor.to_string(), reason: String::new() }
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
    /// [`ErrorKind::Config`] if no schedule can have the name, or no node's id can begin so; or the
    /// database's failure.
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

    /// The schedule called `name` as it is.
    pub(super) fn find(&self, name: &str) -> Result<Entry, Error> {
        config::check_name("schedule name", name, 200)?;
        let found = self.store.find(&self.application, name)?;
        found.filter(|entry| entry.state != ScheduleState::Removed).ok_or_else(|| self.unknown(name))
    }

    /// There is no such schedule.
    pub(super) fn unknown(&self, name: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("no schedule {name:?} in {:?}", self.application))
    }

    /// There is no such execution.
    pub(super) fn unknown_execution(&self, id: ExecutionId) -> Error {
        Error::new(ErrorKind::NotFound, format!("no execution {id} in {:?}", self.application))
    }

    /// Somebody wrote a state that is no word of ours.
    pub(super) fn unreadable_execution(&self, id: ExecutionId) -> Error {
        let message = format!("execution {id} of {:?} is in a state that nobody knows", self.application);
        Error::new(ErrorKind::Data, format!("{message}: mend its row by hand"))
    }

    /// Tells the node this client belongs to, if any, that the schedule has changed.
    pub(super) fn announce(&self, name: &str) {
        (self.changed)(Changed::Schedule(name));
    }

    /// Tells the node this client belongs to, if any, that an execution is to be cancelled.
    pub(super) fn announce_cancel(&self) {
        (self.changed)(Changed::Execution);
    }
}
