//! Managing schedules and looking at a cluster without running anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::api::Job;
use crate::api::config;
use crate::domain::{Error, ExecutionState, Kind, Millis, MisfirePolicy, ScheduleState, payload};
use crate::repair::resume;
use crate::store::{self, Change, Definition, Ensured, ExecutionQuery, Pause, Store};
use crate::time::{Clock, millis};
use crate::trigger::Trigger;

/// What a schedule should be: a name, a job with its payload, a trigger.
///
/// ```
/// use firetime::{Job, MisfirePolicy, Schedule, Trigger};
///
/// const REPORT: Job<String> = Job::new("report");
/// let at_half_past_two = Trigger::cron("0 30 2 * * ?", "Europe/Berlin")?;
/// let nightly = Schedule::new("nightly", REPORT, &"sales".to_string(), at_half_past_two)?
///     .misfire(MisfirePolicy::DoNothing)
///     .priority(7);
/// # let _ = nightly;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    definition: Definition,
}

impl Schedule {
    /// A schedule called `name` (1 to 200 characters, no control characters; unique per application) that
    /// runs `job` with `payload` whenever `trigger` says so.
    ///
    /// A payload of more than 256 KiB of JSON is refused when the schedule is ensured ([`Kind::Config`]):
    /// store large data elsewhere and let the payload hold its key.
    ///
    /// # Errors
    /// [`Kind::Config`] if the name cannot be used or the payload cannot be written as JSON.
    pub fn new<P: Serialize>(name: &str, job: Job<P>, payload: &P, trigger: Trigger) -> Result<Self, Error> {
        config::check_name("schedule name", name, 200)?;
        config::check_name("job name", job.name(), 200)?;
        let payload = payload::encode(payload)
            .map_err(|error| Error::new(Kind::Config, format!("schedule {name:?}: payload: {error}")))?;
        let job = job.spec();
        Ok(Self { definition: Definition { payload, job, ..Definition::new(name, "", trigger) } })
    }

    /// Nothing fires before this instant. Default: the moment the schedule is created. One in the past moves
    /// no occurrence there: planning begins now ([`Client::ensure`]).
    #[must_use]
    pub fn starting(mut self, at: DateTime<Utc>) -> Self {
        self.definition.start = Some(at.timestamp_millis());
        self
    }

    /// Nothing fires after this instant; an occurrence exactly at it still does. Default: no end.
    #[must_use]
    pub fn ending(mut self, at: DateTime<Utc>) -> Self {
        self.definition.end = Some(at.timestamp_millis());
        self
    }

    /// Of occurrences due at the same instant the higher priority goes first. Default: 5, as in Quartz.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.definition.priority = priority;
        self
    }

    /// What to do with occurrences missed for longer than the threshold. Default:
    /// [`MisfirePolicy::FireOnce`].
    #[must_use]
    pub fn misfire(mut self, policy: MisfirePolicy) -> Self {
        self.definition.misfire = policy;
        self
    }

    /// How late an occurrence may be before it counts as missed. Default: 60 s; a node raises it to at least
    /// its poll interval plus its store timeout plus 2 s.
    #[must_use]
    pub fn misfire_threshold(mut self, threshold: Duration) -> Self {
        self.definition.threshold = millis(threshold);
        self
    }

    /// What the schedule is for, shown to people beside it: one line of at most 500 characters without control
    /// characters (checked when the schedule is ensured). Default: empty.
    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        text.clone_into(&mut self.definition.description);
        self
    }

    fn name(&self) -> &str {
        &self.definition.name
    }

    fn definition(&self, application: &str) -> Definition {
        Definition { application: application.to_owned(), ..self.definition.clone() }
    }
}

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

/// Which executions to show. Default: all, the newest 1,000.
#[derive(Clone, Debug)]
pub struct ExecutionFilter {
    /// Only of the schedule of this name.
    pub schedule: Option<String>,
    /// Only these states; empty: every state.
    pub states: Vec<ExecutionState>,
    /// Only of the node whose id begins like this.
    pub node: Option<String>,
    /// Only with a fire time at or after this.
    pub since: Option<DateTime<Utc>>,
    /// At most so many.
    pub limit: usize,
}

impl Default for ExecutionFilter {
    fn default() -> Self {
        Self { schedule: None, states: Vec::new(), node: None, since: None, limit: 1_000 }
    }
}

/// A node as people see it. As JSON, instants are epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NodeView {
    /// Its id: fresh for every start.
    pub id: String,
    /// The application it belongs to.
    pub application: String,
    /// Label: the host's address.
    pub host_ip: String,
    /// Label: the host's name.
    pub host_name: String,
    /// Label: the process id.
    pub pid: i64,
    /// Whether it may claim (state Y).
    pub enabled: bool,
    /// Its beat counter.
    pub beat: i64,
    /// The jobs it has handlers for.
    pub jobs: Vec<String>,
    /// Pool threads at its last heartbeat.
    pub threads: usize,
    /// Jobs running at its last heartbeat.
    pub busy: usize,
    /// Executions waiting in its queue at its last heartbeat.
    pub queued: usize,
    /// When it joined.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub started: Option<DateTime<Utc>>,
    /// Its last confirmed heartbeat.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub last_beat: Option<DateTime<Utc>>,
    /// When it ended; none while it lives.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub ended: Option<DateTime<Utc>>,
    /// How it ended: `stopped` or `dead`; empty while it lives.
    pub end_reason: String,
}

impl From<store::NodeRow> for NodeView {
    fn from(row: store::NodeRow) -> Self {
        let (ended, end_reason) =
            row.ended.map_or((None, String::new()), |(at, reason)| (instant(at), reason));
        Self {
            id: row.id,
            application: row.application,
            host_ip: row.host_ip,
            host_name: row.host_name,
            pid: row.pid,
            enabled: row.enabled,
            beat: row.beat,
            jobs: row.jobs,
            threads: row.figures.threads,
            busy: row.figures.busy,
            queued: row.figures.queued,
            started: instant(row.started),
            last_beat: instant(row.last_beat),
            ended,
            end_reason,
        }
    }
}

/// A schedule as people see it. As JSON, instants are epoch milliseconds. Texts are as stored, so that a
/// broken row can be shown too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScheduleView {
    /// Its row id.
    pub id: i64,
    /// The application it belongs to.
    pub application: String,
    /// Its name.
    pub name: String,
    /// The job it runs.
    pub job: String,
    /// How many live nodes have a handler for its job. While there are none it does not fire.
    pub nodes: usize,
    /// `active`, `paused`, `complete`, `error` or `init`.
    pub state: String,
    /// Its trigger in words.
    pub trigger: String,
    /// What it is for, in the words of whoever made it.
    pub description: String,
    /// The last fire time the cursor passed.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub prev: Option<DateTime<Utc>>,
    /// The next fire time.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub next: Option<DateTime<Utc>>,
    /// How many occurrences the cursor has passed.
    pub triggered: i64,
    /// Grows with every change but claims.
    pub version: i64,
    /// Why it is paused or in error.
    pub reason: String,
    /// Who paused it; empty while it is not paused.
    pub paused_by: String,
    /// When it was paused, by the database's clock; none while it is not paused, or if its row was written by
    /// hand.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub paused: Option<DateTime<Utc>>,
}

impl From<store::ScheduleRow> for ScheduleView {
    fn from(row: store::ScheduleRow) -> Self {
        let state = row.state.parse::<crate::domain::ScheduleState>();
        Self {
            id: row.id,
            application: row.application,
            name: row.name,
            job: row.job,
            nodes: 0,
            state: state.map_or(row.state, |state| state.label().to_owned()),
            trigger: row.when.describe(),
            description: row.settings.description.to_string(),
            prev: row.prev.and_then(instant),
            next: row.next.and_then(instant),
            triggered: row.triggered,
            version: row.version,
            reason: row.reason,
            paused_by: row.paused_by,
            paused: row.paused.and_then(instant),
        }
    }
}

/// An execution as people see it. As JSON, instants are epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecutionView {
    /// Its row id.
    pub id: i64,
    /// The application it belongs to.
    pub application: String,
    /// The schedule's name.
    pub schedule: String,
    /// The job's name.
    pub job: String,
    /// Its state, as [`ExecutionState::as_str`] writes it.
    pub state: String,
    /// Why it is in this state, where that needs saying.
    pub reason: String,
    /// The schedule's generation it belongs to.
    pub generation: i64,
    /// 0 for planned occurrences.
    pub origin: i64,
    /// The occurrence's fire time.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub fire_time: Option<DateTime<Utc>>,
    /// For a skipped run of occurrences: the last of them.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub until: Option<DateTime<Utc>>,
    /// How many occurrences it stands for.
    pub count: i64,
    /// 1 for the first attempt.
    pub attempt: i64,
    /// The node that owns or owned it.
    pub node: String,
    /// When it was claimed.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub claimed: Option<DateTime<Utc>>,
    /// When it was started.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub started: Option<DateTime<Utc>>,
    /// When it ended.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub finished: Option<DateTime<Utc>>,
    /// The error it ended with.
    pub error: String,
}

impl From<store::ExecutionRow> for ExecutionView {
    fn from(row: store::ExecutionRow) -> Self {
        Self {
            id: row.id,
            application: row.application,
            schedule: row.schedule,
            job: row.job,
            state: row.state,
            reason: row.reason,
            generation: row.generation,
            origin: row.origin,
            fire_time: instant(row.scheduled),
            until: row.until.and_then(instant),
            count: row.count,
            attempt: row.attempt,
            node: row.node,
            claimed: row.claimed.and_then(instant),
            started: row.started.and_then(instant),
            finished: row.finished.and_then(instant),
            error: row.error,
        }
    }
}

fn instant(millis: Millis) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(millis)
}
