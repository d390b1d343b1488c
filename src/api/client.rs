//! Managing schedules and looking at a cluster without running anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::api::config;
use crate::api::metrics::{self, Metrics};
use crate::api::outgoing::{Hooks, Outgoing};
use crate::api::views::{number, signed, unsigned};
use crate::api::{
    ApplicationView, AuditFilter, AuditView, ExecutionDetails, ExecutionFilter, ExecutionView, FieldEdit,
    JobView, NodeView, OwnerView, ScheduleDetails, ScheduleView, Target,
};
use crate::domain::{
    Activity, Entry, Error, ErrorKind, ExecutionId, FieldSet, HandlerError, NextFire, ScheduleId,
    ScheduleState, Timestamp, Word,
};
use crate::members::waiters::Waiters;
use crate::node::Changed;
use crate::node::host::this_process;
use crate::store::audit::{self, Attribution, AuditQuery};
use crate::store::figures::FiguresQuery;
use crate::store::news::Notifier;
use crate::store::{self, ExecutionQuery, LeftAlone, ListPlace, Store, Verbs};
use crate::time::{Clock, span};
use crate::trigger::Timing;

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
///
/// # What blocks
///
/// Each method that answers a `Result` asks the database, and blocks its thread until the answer is there:
/// `connect`, all reading methods, and `run` of a request. The others ask nothing. With the feature `tokio`
/// async code awaits [`connect_async`](Self::connect_async) and the requests themselves, and gives what reads
/// to the blocking pool, with a clone of the client, which shares its connections.
#[cfg_attr(
    feature = "tokio",
    doc = r#"
```
use firetime::{Client, Job, Schedule, Trigger};
# let folder = tempfile::tempdir()?;
# let url = format!("sqlite:{}", folder.path().join("shop.db").display());
# firetime::migrate(&url)?;
# tokio::runtime::Runtime::new()?.block_on(async {
const GREET: Job<String> = Job::new("greet");
let client = Client::connect_async("shop", &url).await?;
let hello = Schedule::new("hello", GREET, &"Ada".to_string(), Trigger::cron("0 * * * * ?", "UTC")?)?;
client.ensure(&hello).await?;
let reads = client.clone();
let schedules = tokio::task::spawn_blocking(move || reads.schedules()).await??;
assert_eq!(schedules[0].name, "hello");
# Ok::<(), Box<dyn std::error::Error>>(())
# })?;
# Ok::<(), Box<dyn std::error::Error>>(())
```
"#
)]
#[derive(Clone)]
pub struct Client {
    pub(super) application: String,
    pub(super) store: Arc<dyn Store>,
    /// The actor of its changes in the audit, if it was given one.
    actor: Option<Arc<str>>,
    pub(super) notifier: Arc<Notifier>,
    pub(super) waiters: Arc<Waiters>,
    /// The hooks of its enqueues and triggers.
    pub(super) hooks: Hooks,
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
    /// version of firetime, [`ErrorKind::System`] if the system starts no thread.
    pub fn connect(application: &str, url: &str) -> Result<Self, Error> {
        config::check_name("application name", application, 50)?;
        let store = store::open(url, store::StoreLimits::default(), Arc::new(Clock::default()))?;
        store::check_schema(url)?;
        Ok(Self::over(application, store, Arc::default(), |_| {}))
    }

    /// As [`Client::connect`], which waits on the runtime's blocking pool.
    ///
    /// ```
    /// use firetime::Client;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let client = Client::connect_async("shop", &url).await?;
    /// let schedules = tokio::task::spawn_blocking(move || client.schedules()).await;
    /// # assert!(schedules.is_ok());
    /// # Ok::<(), firetime::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Client::connect`]; [`ErrorKind::Config`] if it is awaited outside of a tokio runtime.
    #[cfg(feature = "tokio")]
    pub async fn connect_async(application: &str, url: &str) -> Result<Self, Error> {
        let (application, url) = (application.to_owned(), url.to_owned());
        crate::api::awaited::run("connecting", move || Self::connect(&application, &url)).await
    }

    pub(crate) fn over(
        application: &str,
        store: Arc<dyn Store>,
        notifier: Arc<Notifier>,
        changed: impl Fn(Changed<'_>) + Send + Sync + 'static,
    ) -> Self {
        let (application, actor) = (application.to_owned(), None);
        let (waiters, hooks, changed) = (Arc::default(), Hooks::default(), Arc::new(changed));
        Self { application, store, actor, notifier, waiters, hooks, changed }
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The application whose schedules it manages.
    #[must_use]
    pub fn application(&self) -> &str {
        &self.application
    }

    /// The same client, whose changes are recorded as made by `name`, unless a request names somebody else.
    /// Default: `host/process id`. Up to 200 characters, no control characters (checked when a request is
    /// run).
    #[must_use]
    pub fn acting_as(self, name: &str) -> Self {
        Self { actor: Some(name.into()), ..self }
    }

    /// The name under which its changes are recorded, if it was given one by [`acting_as`](Self::acting_as).
    #[must_use]
    pub fn actor(&self) -> Option<&str> {
        self.actor.as_deref()
    }

    /// The same client, which calls `around` for each of its requests that enqueue or trigger: the middleware
    /// on the side of whoever asks, to set headers such as the tenant or a `traceparent`, to measure, or to
    /// refuse.
    ///
    /// It is called once as the request is run, begins to be awaited, or joins a transaction (`run_in`):
    /// on the caller's thread, where the caller's span and thread-locals are, before anything is sent, and
    /// once for all executions of an [`enqueue_many`](Self::enqueue_many). An error refuses the request,
    /// which fails with [`ErrorKind::Config`]; nothing is stored then. What it returns otherwise is kept
    /// until the request has ended, well or not, and dropped then, perhaps on another thread: `()`, or a
    /// guard that measures. Of several the one that was added first is called first, and its guard dropped
    /// last.
    ///
    /// It belongs to this client and its clones, and not to others of the same scheduler, nor to requests
    /// that other programs write. Default: none.
    ///
    /// ```
    /// use firetime::{Client, Job};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const MAIL: Job<String> = Job::new("mail");
    /// let client = Client::connect("shop", &url)?.around_enqueue(|outgoing| {
    ///     outgoing.set_header("tenant", "7"); // That of the web request around it.
    ///     Ok(())
    /// });
    /// let mail = client.enqueue(MAIL, &"ada@example.org".to_string()).run()?;
    /// assert_eq!(client.execution(mail.id())?.headers["tenant"], "7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn around_enqueue<G: Send + 'static>(
        mut self,
        around: impl Fn(&mut Outgoing<'_>) -> Result<G, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.add(around);
        self
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
    /// # let trigger = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// # client.ensure(&Schedule::new("nightly", REPORT, &(), trigger)?).run()?;
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
        config::check_filter([
            ("the target's name", &filter.target, 200),
            ("the actor", &filter.actor, 200),
            ("the verb", &filter.verb, 20),
        ])?;
        let query = AuditQuery {
            application: self.application.clone(),
            target: filter.target.clone(),
            actor: filter.actor.clone(),
            verb: filter.verb.clone(),
            since: filter.since.map(Timestamp::from),
            after: filter.after.map(|it| (it.at, it.id)),
            limit: filter.limit,
        };
        Ok(self.store.audit(&query)?.into_iter().map(AuditView::from).collect())
    }

    /// The attribution with which its requests begin.
    pub(super) fn attribution(&self) -> Attribution {
        let actor = self.actor().map_or_else(this_process, str::to_owned);
        Attribution { actor, reason: String::new() }
    }

    /// The application's nodes, newest first, ended ones included.
    ///
    /// # Errors
    /// The database's failure.
    pub fn nodes(&self) -> Result<Vec<NodeView>, Error> {
        Ok(self.store.nodes(Some(&self.application))?.into_iter().map(NodeView::from).collect())
    }

    /// All schedules of the application by name. Of many, [`Client::find_schedules`] brings pages.
    ///
    /// # Errors
    /// The database's failure.
    pub fn schedules(&self) -> Result<Vec<ScheduleView>, Error> {
        let above = self.above()?;
        let view = |row: store::ScheduleRow| above.view(row);
        Ok(self.store.schedules(Some(&self.application))?.into_iter().map(view).collect())
    }

    /// The schedule called `name`, whole.
    ///
    /// ```
    /// use firetime::{Client, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<String> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// client.ensure(&Schedule::new("nightly", REPORT, &"all".to_string(), nightly)?).run()?;
    /// let schedule = client.schedule("nightly")?;
    /// assert_eq!((schedule.payload.as_str(), schedule.next_five.len()), ("\"all\"", 5));
    /// assert!(schedule.last.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if no schedule can have this name, [`ErrorKind::NotFound`] if there is no such
    /// schedule; or the database's failure.
    pub fn schedule(&self, name: &str) -> Result<ScheduleDetails, Error> {
        /// The most fire times, and executions, that are shown.
        const SHOWN: usize = 5;
        /// In so many of its newest executions states are counted.
        const COUNTED: usize = 10_000;
        config::check_schedule_name(name)?;
        let row = self.store.schedule(&self.application, name)?.ok_or_else(|| self.unknown(name))?;
        let counts = self.store.counts(ScheduleId(row.id), COUNTED)?.into_iter();
        let counts = counts.map(|(state, count)| (state, unsigned(count))).collect();
        let last = ExecutionFilter { schedule: Some(name.to_owned()), limit: SHOWN, ..Default::default() };
        let last = self.executions(&last)?;
        let above = self.above()?;
        let owned_by = match row.ownership.owner.as_deref() {
            Some(owner) => self.store.owner(&self.application, owner)?.map(OwnerView::from),
            None => None,
        };
        let (timing, settings) = (row.when.timing().ok(), row.settings.clone());
        let is_active = row.state == ScheduleState::Active.stored();
        let following = |at: &Timestamp| timing.as_ref().and_then(|timing| timing.behind_run(*at).at());
        let next = std::iter::successors(NextFire::stored(row.next).at().filter(|_| is_active), following)
            .take(SHOWN);
        Ok(ScheduleDetails {
            payload: settings.payload.to_string(),
            starts: timing.as_ref().and_then(Timing::start).and_then(Timestamp::utc),
            ends: timing.as_ref().and_then(Timing::end).and_then(Timestamp::utc),
            priority: signed(settings.priority.unwrap_or_default()),
            misfire: Word::read(&settings.misfire),
            time_limit: settings.time_limit.map(span),
            overlap: Word::read(&settings.overlap),
            pause_after: settings.pause_after.map(number),
            next_five: next.filter_map(Timestamp::utc).collect(),
            rule: timing.map(|timing| timing.trigger().clone()),
            owned_by,
            edits: self.edits(name, &row.ownership.by_hand())?,
            counts,
            last,
            columns: (settings, row.when.clone()),
            schedule: above.view(row),
        })
    }

    /// Who changed these fields of a schedule last, by hand.
    fn edits(&self, name: &str, fields: &FieldSet) -> Result<Vec<FieldEdit>, Error> {
        /// So many edits are looked at, the newest first.
        const EDITS: usize = 1_000;
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        let query = AuditQuery {
            application: self.application.clone(),
            target: Some(name.to_owned()),
            verb: Some(audit::EDIT.to_owned()),
            limit: EDITS,
            ..AuditQuery::default()
        };
        let edits = self.store.audit(&query)?;
        Ok(fields.iter().filter_map(|field| FieldEdit::newest(field, &edits)).collect())
    }

    /// An execution whole: all attempts at its occurrence, the nodes that ran them, and its payload.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the application has no such execution; or the database's failure.
    pub fn execution(&self, id: impl Into<ExecutionId>) -> Result<ExecutionDetails, Error> {
        let id = id.into();
        let query = ExecutionQuery {
            application: Some(self.application.clone()),
            of: Some(id),
            limit: usize::MAX,
            ..ExecutionQuery::default()
        };
        let mut rows = self.store.executions(&query)?;
        rows.sort_by_key(|row| row.attempt);
        let asked = rows.iter().find(|row| row.id == id.get());
        let (payload, headers, checkpoint) = asked
            .map(|row| (row.payload.clone(), row.headers.clone(), row.checkpoint.clone()))
            .ok_or_else(|| self.unknown_execution(id))?;
        let result = rows.iter().rev().find_map(|row| row.result.clone());
        let attempts: Vec<ExecutionView> = rows.into_iter().map(ExecutionView::from).collect();
        let execution = attempts.iter().find(|view| view.id == id).cloned();
        let execution = execution.ok_or_else(|| self.unknown_execution(id))?;
        let nodes = self.nodes()?.into_iter();
        let nodes = nodes
            .filter(|node| attempts.iter().any(|attempt| attempt.node.as_ref() == Some(&node.id)))
            .collect();
        Ok(ExecutionDetails { execution, payload, headers, checkpoint, result, attempts, nodes })
    }

    /// The application's jobs by name: those that a node has had a handler for, or that have a schedule.
    ///
    /// # Errors
    /// The database's failure.
    pub fn jobs(&self) -> Result<Vec<JobView>, Error> {
        /// So many schedules of a job are counted.
        const COUNTED: usize = 1_000;
        let listed = claiming(&self.store.nodes(Some(&self.application))?);
        let counts: BTreeMap<String, usize> =
            self.store.count_by_job(&self.application, COUNTED)?.into_iter().collect();
        let view = |row: store::JobRow| {
            let nodes = listed.get(&row.name).copied().unwrap_or_default();
            let schedules = counts.get(&row.name).copied().unwrap_or_default();
            let view = JobView::from(row);
            JobView { nodes, schedules, nobody_since: view.nobody_since.filter(|_| nodes == 0), ..view }
        };
        Ok(self.store.jobs(&self.application)?.into_iter().map(view).collect())
    }

    /// What the schedules of the application depend on.
    pub(super) fn above(&self) -> Result<Above, Error> {
        let (active, paused): (Vec<_>, Vec<_>) =
            self.store.jobs(&self.application)?.into_iter().partition(|job| job.switch == Activity::Active);
        let is_paused =
            |it: &store::ApplicationRow| it.name == self.application && it.switch != Activity::Active;
        let nodes = self.store.nodes(Some(&self.application))?;
        Ok(Above {
            nodes: claiming(&nodes),
            left_alone: nodes.into_iter().filter(claims).flat_map(left_by).collect(),
            active_jobs: active.into_iter().map(|job| job.name).collect(),
            paused_jobs: paused.into_iter().map(|job| job.name).collect(),
            application_is_paused: self.store.applications()?.iter().any(is_paused),
        })
    }

    /// All applications in this database, by name: those that have had a node or a schedule.
    ///
    /// # Errors
    /// The database's failure.
    pub fn applications(&self) -> Result<Vec<ApplicationView>, Error> {
        Ok(self.store.applications()?.into_iter().map(ApplicationView::from).collect())
    }

    /// The application's executions as the [filter](ExecutionFilter) has them, the newest first unless it
    /// says otherwise. `docs/guide/history.md` tells which lists are quick in a large ledger.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if nothing can have a name that it asks for, or no node's id can begin so; or
    /// the database's failure.
    ///
    /// ```
    /// use firetime::{Client, ExecutionFilter, ExecutionState, Job};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const REMIND: Job<u64> = Job::new("remind");
    /// let client = Client::connect("shop", &url)?;
    /// client.enqueue(REMIND, &1).tag("order-17").run()?;
    /// client.enqueue(REMIND, &2).tag("order-17").tag("urgent").run()?;
    /// client.enqueue(REMIND, &3).tag("order-18").run()?;
    /// let waiting = ExecutionFilter {
    ///     tag: Some("order-17".to_owned()),
    ///     states: vec![ExecutionState::Pending],
    ///     ..ExecutionFilter::default()
    /// };
    /// for execution in client.executions(&waiting)? {
    ///     client.cancel(execution.id).reason("paid").run()?;
    /// }
    /// assert_eq!(client.executions(&waiting)?, []);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn executions(&self, filter: &ExecutionFilter) -> Result<Vec<ExecutionView>, Error> {
        config::check_filter([
            ("the schedule's name", &filter.schedule, 200),
            ("the job's name", &filter.job, 200),
            ("the unique key", &filter.key, 200),
            ("the group", &filter.group, 200),
            ("the tag", &filter.tag, 100),
            ("the node's id", &filter.node, 36),
        ])?;
        if let Some(problem) = filter.reason.as_deref().and_then(config::unknown_reason) {
            return Err(Error::new(ErrorKind::Config, format!("listing executions: {problem}")));
        }
        let query = ExecutionQuery {
            application: Some(self.application.clone()),
            schedule: filter.schedule.clone(),
            job: filter.job.clone(),
            key: filter.key.clone(),
            group: filter.group.clone(),
            tag: filter.tag.clone(),
            states: filter.states.clone(),
            reason: filter.reason.clone(),
            cause: filter.cause.clone(),
            last: filter.last,
            node: filter.node.clone(),
            since: filter.since.map(Timestamp::from),
            until: filter.until.map(Timestamp::from),
            ended_since: filter.ended_since.map(Timestamp::from),
            ended_until: filter.ended_until.map(Timestamp::from),
            after: filter.after.map(|it| ListPlace { scheduled: it.at, id: it.id }),
            oldest: filter.oldest_first,
            limit: filter.limit,
            ..ExecutionQuery::default()
        };
        Ok(self.store.executions(&query)?.into_iter().map(ExecutionView::from).collect())
    }

    /// The executions that have waited longest for a node, of those that were due before this: the longest
    /// first, 1,000 at most. Also those that a pause holds, or a bound of their job.
    ///
    /// ```
    /// use chrono::TimeDelta;
    /// use firetime::{Client, Job};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REMIND: Job<u64> = Job::new("remind");
    /// let client = Client::connect("shop", &url)?;
    /// let two_minutes_ago = client.now()? - TimeDelta::minutes(2);
    /// client.enqueue(REMIND, &1).at(two_minutes_ago).run()?;
    /// let late = client.late(client.now()? - TimeDelta::minutes(1))?;
    /// assert_eq!(late[0].due, Some(two_minutes_ago));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The database's failure.
    pub fn late(&self, before: DateTime<Utc>) -> Result<Vec<ExecutionView>, Error> {
        let query = ExecutionQuery {
            application: Some(self.application.clone()),
            late: Some(before.into()),
            limit: 1_000,
            ..ExecutionQuery::default()
        };
        Ok(self.store.executions(&query)?.into_iter().map(ExecutionView::from).collect())
    }

    /// The cluster's figures for dashboards and alarms: waiting executions by job, schedules and nodes by
    /// state, and the age of each schedule's last success. `docs/guide/observing.md` lists the families.
    ///
    /// Each call reads the database: some statements, and one more for each job that has enqueued executions
    /// waiting. At most 10,000 waiting executions are counted for each job. Nodes whose metrics are
    /// read have these figures, too ([`Scheduler::metrics`](crate::Scheduler::metrics)).
    ///
    /// ```
    /// use firetime::{Client, Job};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const RESIZE: Job<u64> = Job::new("resize");
    /// let client = Client::connect("shop", &url)?;
    /// client.enqueue(RESIZE, &7).run()?;
    /// let waiting = client.metrics()?.number("firetime_cluster_waiting", &[("job", "resize")]);
    /// assert_eq!(waiting, Some(1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The database's failure.
    pub fn metrics(&self) -> Result<Metrics, Error> {
        let now = self.store.now()?;
        let query = FiguresQuery { application: self.application.to_string(), now };
        Ok(metrics::of_cluster(&self.application, &self.store.figures(&query)?, now))
    }

    /// Whether the database's server takes no changes: a standby, or one that was made read-only
    /// (PostgreSQL's `default_transaction_read_only`, MariaDB's `read_only`). A read-only file of SQLite's
    /// shows when something is changed.
    ///
    /// # Errors
    /// The database's failure.
    pub fn is_read_only(&self) -> Result<bool, Error> {
        self.store.is_read_only()
    }

    /// The database's clock, by which everything is due. To the millisecond.
    ///
    /// # Errors
    /// The database's failure.
    pub fn now(&self) -> Result<DateTime<Utc>, Error> {
        let now = self.store.now()?;
        now.utc().ok_or_else(|| Error::new(ErrorKind::Data, "the database's clock is beyond the calendar"))
    }

    /// The schedule called `name` as it is.
    pub(super) fn find(&self, verbs: &dyn Verbs, name: &str) -> Result<Entry, Error> {
        config::check_schedule_name(name)?;
        let found = verbs.find(&self.application, name)?;
        found.filter(|entry| entry.state != ScheduleState::Removed).ok_or_else(|| self.unknown(name))
    }

    /// There is no such schedule.
    pub(super) fn unknown(&self, name: &str) -> Error {
        let message = format!("no schedule {name:?} in {:?}: see Client::schedules", self.application);
        Error::new(ErrorKind::NotFound, message)
    }

    /// There is no such job, node or application.
    pub(super) fn unknown_target(&self, target: &Target) -> Error {
        let listing = match target {
            Target::Schedule(_) => ": see Client::schedules",
            Target::Job(_) => ": see Client::jobs",
            Target::Node(_) => ": see Client::nodes",
            Target::Application => "",
        };
        Error::new(ErrorKind::NotFound, format!("no {target} in {:?}{listing}", self.application))
    }

    /// There is no such execution.
    pub(super) fn unknown_execution(&self, id: ExecutionId) -> Error {
        let message = format!("no execution {id} in {:?}, or its retention is over", self.application);
        Error::new(ErrorKind::NotFound, message)
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

    /// Tells the node this client belongs to, if any, that this was paused or resumed.
    pub(super) fn announce_target(&self, target: &Target) {
        match target {
            Target::Schedule(name) => self.announce(name),
            Target::Job(_) | Target::Node(_) | Target::Application => self.announce_switch(),
        }
    }

    /// Tells the node this client belongs to, if any, that something was paused, drained or resumed.
    pub(super) fn announce_switch(&self) {
        (self.changed)(Changed::Switch);
    }

    /// Tells the node this client belongs to, if any, that an execution is to be cancelled.
    pub(super) fn announce_cancel(&self) {
        (self.changed)(Changed::Execution);
    }
}

/// The conditions outside schedules' own rows under which they fire or are held.
pub(super) struct Above {
    nodes: BTreeMap<String, usize>,
    /// What each node leaves alone.
    left_alone: Vec<(String, LeftAlone)>,
    active_jobs: BTreeSet<String>,
    paused_jobs: BTreeSet<String>,
    application_is_paused: bool,
}

impl Above {
    /// Whether the application is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.application_is_paused
    }

    pub(super) fn paused_jobs(&self) -> Vec<String> {
        self.paused_jobs.iter().cloned().collect()
    }

    /// The active jobs that some live node claims; none while the application is paused.
    pub(super) fn claimed_jobs(&self) -> Vec<String> {
        self.jobs(|job| self.nodes.contains_key(job))
    }

    /// The active jobs that no live node claims; none while the application is paused.
    pub(super) fn unclaimed_jobs(&self) -> Vec<String> {
        self.jobs(|job| !self.nodes.contains_key(job))
    }

    fn jobs(&self, is_wanted: impl Fn(&String) -> bool) -> Vec<String> {
        let jobs = self.active_jobs.iter().filter(|job| !self.application_is_paused && is_wanted(job));
        jobs.cloned().collect()
    }

    /// The schedules that nodes leave alone, or left alone until they were edited.
    pub(super) fn left_schedules(&self) -> Vec<i64> {
        self.left_alone.iter().map(|(_, it)| it.schedule).collect()
    }

    /// A schedule as people see it.
    pub(super) fn view(&self, row: store::ScheduleRow) -> ScheduleView {
        let job = row.job.as_str();
        let held_by = match (self.application_is_paused, self.paused_jobs.contains(job)) {
            (true, _) => "application",
            (false, true) => "job",
            (false, false) => "",
        };
        let nodes = self.nodes.get(job).copied().unwrap_or_default();
        let (held_by, left_alone) = (held_by.to_owned(), self.left_alone(&row, nodes));
        let view = ScheduleView::from(row);
        let nobody_since = view.nobody_since.filter(|_| nodes == 0);
        ScheduleView { nodes, held_by, left_alone, nobody_since, ..view }
    }

    fn leaving<'a>(&'a self, row: &store::ScheduleRow) -> impl Iterator<Item = &'a (String, LeftAlone)> {
        let (id, version) = (row.id, row.version);
        self.left_alone.iter().filter(move |(_, it)| (it.schedule, it.version) == (id, version))
    }

    /// The nodes that leave the schedule alone, as they cannot decode its payload.
    pub(super) fn left_by(&self, row: &store::ScheduleRow) -> Vec<String> {
        self.leaving(row).map(|(node, _)| node.clone()).collect()
    }

    /// Why some of so many nodes leave the schedule alone.
    fn left_alone(&self, row: &store::ScheduleRow, nodes: usize) -> String {
        let mut left = self.leaving(row);
        let Some((_, LeftAlone { reason, .. })) = left.next() else { return String::new() };
        let count = 1 + left.count();
        match count < nodes {
            true => format!("its payload cannot be decoded on {count} of {nodes} live nodes: {reason}"),
            false => format!("its payload cannot be decoded on any live node: {reason}"),
        }
    }
}

fn left_by(node: store::NodeRow) -> impl Iterator<Item = (String, LeftAlone)> {
    node.left_alone.into_iter().map(move |left| (node.id.clone(), left))
}

fn claims(node: &store::NodeRow) -> bool {
    node.switch == Activity::Active && node.ended.is_none()
}

/// On how many nodes each job runs that claim and live.
fn claiming(nodes: &[store::NodeRow]) -> BTreeMap<String, usize> {
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    for job in nodes.iter().filter(|node| claims(node)).flat_map(|node| &node.jobs) {
        *listed.entry(job.clone()).or_default() += 1;
    }
    listed
}
