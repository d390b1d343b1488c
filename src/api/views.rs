//! Nodes, schedules and executions as people see them.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::domain::{Cause, ExecutionState, Rate, ScheduleState, Timestamp, known};
use crate::store;

/// Which executions to show. Default: all, the newest 1,000.
#[derive(Clone, Debug)]
pub struct ExecutionFilter {
    /// Only of the schedule of this name.
    pub schedule: Option<String>,
    /// Only of the job of this name, by schedules and enqueued.
    pub job: Option<String>,
    /// Only enqueued ones with this unique key: of each job and period the one that was enqueued last with
    /// it, with all its attempts.
    pub key: Option<String>,
    /// Only of this [group](crate::Job::group_by).
    pub group: Option<String>,
    /// Only enqueued ones with this [tag](crate::request::Enqueue::tag).
    pub tag: Option<String>,
    /// Only these states; empty: every state.
    pub states: Vec<ExecutionState>,
    /// Only of the node whose id begins like this.
    pub node: Option<String>,
    /// Only with a fire time at or after this.
    pub since: Option<DateTime<Utc>>,
    /// At most so many, the newest first. Default: 1,000. With `usize::MAX` all: by group or job, or by no
    /// condition at all, the whole ledger is read.
    pub limit: usize,
}

impl Default for ExecutionFilter {
    fn default() -> Self {
        let (schedule, job, key, group, tag) = (None, None, None, None, None);
        let (states, node, since) = (Vec::new(), None, None);
        Self { schedule, job, key, group, tag, states, node, since, limit: 1_000 }
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
    /// `active`, `paused`, `draining` or `drained`; what it was last, of one that has ended.
    pub state: String,
    /// Who paused or drained it; empty while it is active.
    pub paused_by: String,
    /// Why.
    pub reason: String,
    /// Since when, by the database's clock.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub paused: Option<DateTime<Utc>>,
    /// When its pause ends by itself.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub paused_until: Option<DateTime<Utc>>,
    /// Its beat counter.
    pub beat: i64,
    /// The jobs it has handlers for.
    pub jobs: Vec<String>,
    /// Pool threads of all its lanes at its last heartbeat, and the async handlers that ran: each counts as
    /// one.
    pub threads: usize,
    /// Jobs running at its last heartbeat.
    pub busy: usize,
    /// Executions waiting in the queues of its lanes at its last heartbeat.
    pub queued: usize,
    /// Handlers that ran on beyond their time limits at its last heartbeat.
    pub stuck: usize,
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
        let (ended, end_reason) = row.ended.unzip();
        Self {
            id: row.id,
            application: row.application,
            host_ip: row.host_ip,
            host_name: row.host_name,
            pid: row.pid,
            state: row.switch.label().to_owned(),
            paused_by: row.pause.by,
            reason: row.pause.reason,
            paused: row.pause.since.and_then(Timestamp::utc),
            paused_until: row.pause.until.and_then(Timestamp::utc),
            beat: row.beat,
            jobs: row.jobs,
            threads: row.figures.threads,
            busy: row.figures.busy,
            queued: row.figures.queued,
            stuck: row.figures.stuck,
            started: row.started.utc(),
            last_beat: row.last_beat.utc(),
            ended: ended.and_then(Timestamp::utc),
            end_reason: end_reason.unwrap_or_default(),
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
    /// The next fire time; none while a run is under way whose end says when that is.
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
    /// When its pause ends by itself.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub paused_until: Option<DateTime<Utc>>,
    /// What else holds it: `application` or `job`, if that is paused, or empty. While it is held it does not
    /// fire, whatever its own state.
    pub held_by: String,
}

impl From<store::ScheduleRow> for ScheduleView {
    fn from(row: store::ScheduleRow) -> Self {
        let state = row.state.parse::<ScheduleState>();
        Self {
            id: row.id,
            application: row.application,
            name: row.name,
            job: row.job,
            nodes: 0,
            state: state.map_or(row.state, |state| state.label().to_owned()),
            trigger: row.when.describe(),
            description: row.settings.description.to_string(),
            prev: row.prev.and_then(Timestamp::utc),
            next: known(row.next).and_then(Timestamp::utc),
            triggered: row.triggered,
            version: row.version,
            reason: row.pause.reason,
            paused_by: row.pause.by,
            paused: row.pause.since.and_then(Timestamp::utc),
            paused_until: row.pause.until.and_then(Timestamp::utc),
            held_by: String::new(),
        }
    }
}

/// A job as people see it. As JSON, instants are epoch milliseconds, and spans are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JobView {
    /// Its name.
    pub name: String,
    /// `active` or `paused`.
    pub state: String,
    /// How many live nodes have a handler for it and claim.
    pub nodes: usize,
    /// How many schedules it has.
    pub schedules: i64,
    /// Whether an occurrence whose node died is attempted again.
    pub recover: bool,
    /// At most so many attempts of an occurrence may cost their nodes.
    pub max_attempts: u32,
    /// At most so many retries of an occurrence.
    pub max_retries: u32,
    /// How long the first retry waits, in milliseconds.
    pub retry_delay: u64,
    /// Each further one waits twice as long, up to this many milliseconds.
    pub retry_cap: u64,
    /// By up to so many percent each pause is shortened.
    pub retry_jitter: u32,
    /// How long a handler may take, in milliseconds; none: as long as it likes.
    pub time_limit: Option<u64>,
    /// How many of its executions may run at once, on all nodes; none: any number.
    pub concurrency: Option<u32>,
    /// How many may begin within a span of time.
    pub rate: Option<RateView>,
    /// How many of each of its groups may run at once.
    pub group_concurrency: Option<u32>,
    /// How many of each may begin within a span of time.
    pub group_rate: Option<RateView>,
    /// What it is for, in the words of whoever wrote it.
    pub description: String,
    /// Who paused it; empty while it is active.
    pub paused_by: String,
    /// Why.
    pub reason: String,
    /// Since when, by the database's clock.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub paused: Option<DateTime<Utc>>,
    /// When its pause ends by itself.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub paused_until: Option<DateTime<Utc>>,
}

/// How many executions may begin within a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RateView {
    /// At most so many
    pub count: u32,
    /// within each span of so many milliseconds.
    pub per: u64,
}

impl From<Rate> for RateView {
    fn from(Rate { count, per }: Rate) -> Self {
        Self { count, per: per.unsigned_abs() }
    }
}

impl From<store::JobRow> for JobView {
    fn from(row: store::JobRow) -> Self {
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            name: row.name,
            state: row.switch.label().to_owned(),
            nodes: 0,
            schedules: row.schedules,
            recover: row.settings.policy.recover,
            max_attempts: row.settings.policy.max_attempts,
            max_retries: row.settings.policy.retry.at_most,
            retry_delay: millis(row.settings.policy.retry.first),
            retry_cap: millis(row.settings.policy.retry.cap),
            retry_jitter: row.settings.policy.retry.jitter,
            time_limit: row.settings.policy.time_limit.map(millis),
            concurrency: row.settings.policy.bounds.job.concurrency,
            rate: row.settings.policy.bounds.job.rate().map(RateView::from),
            group_concurrency: row.settings.policy.bounds.group.concurrency,
            group_rate: row.settings.policy.bounds.group.rate().map(RateView::from),
            description: row.settings.description.into_owned(),
            paused_by: row.pause.by,
            reason: row.pause.reason,
            paused: row.pause.since.and_then(Timestamp::utc),
            paused_until: row.pause.until.and_then(Timestamp::utc),
        }
    }
}

/// An application as people see it. As JSON, instants are epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ApplicationView {
    /// Its name.
    pub name: String,
    /// `active` or `paused`.
    pub state: String,
    /// Who paused it; empty while it is active.
    pub paused_by: String,
    /// Why.
    pub reason: String,
    /// Since when, by the database's clock.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub paused: Option<DateTime<Utc>>,
    /// When its pause ends by itself.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub paused_until: Option<DateTime<Utc>>,
}

impl From<store::ApplicationRow> for ApplicationView {
    fn from(row: store::ApplicationRow) -> Self {
        Self {
            name: row.name,
            state: row.switch.label().to_owned(),
            paused_by: row.pause.by,
            reason: row.pause.reason,
            paused: row.pause.since.and_then(Timestamp::utc),
            paused_until: row.pause.until.and_then(Timestamp::utc),
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
    /// Why it is run: `planned`, `misfire`, `by hand`, `enqueued`, `retry` or `recovery`.
    pub cause: String,
    /// Who asked for it, of one by hand.
    pub asked_by: String,
    /// Why, as far as they said.
    pub asked_why: String,
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
    /// How many earlier attempts at its occurrence failed, or ran out of time.
    pub failures: i64,
    /// How often its handlers snoozed it, in this attempt and those before.
    pub snoozes: i64,
    /// It has timed out, and its handler runs on.
    pub stuck: bool,
    /// Of one that was skipped because it would have overlapped: the execution that had not ended.
    pub holder: Option<i64>,
    /// Its unique key, of one that was enqueued with one.
    pub key: Option<String>,
    /// Its [group](crate::Job::group_by), of one that was enqueued in one.
    pub group: Option<String>,
    /// Its lane, of one that was enqueued in another than its job's.
    pub lane: Option<String>,
    /// Its tags, of one that was enqueued with some.
    pub tags: Vec<String>,
    /// Its fencing token; 0 before its first claim.
    pub fence: i64,
    /// When it is, or was, due: its fire time, or when a retry may begin.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub due: Option<DateTime<Utc>>,
    /// The node that owns or owned it.
    pub node: String,
    /// When it was claimed.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub claimed: Option<DateTime<Utc>>,
    /// When it was started.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub started: Option<DateTime<Utc>>,
    /// When it ended; of one that timed out, when its handler did.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub finished: Option<DateTime<Utc>>,
    /// The error it ended with.
    pub error: String,
    /// When somebody asked to cancel it while it ran.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub cancel_asked: Option<DateTime<Utc>>,
    /// Who did; empty if nobody has.
    pub cancel_asked_by: String,
    /// Why, as far as they said.
    pub cancel_asked_why: String,
    /// When the node that runs it heard of that.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub cancel_seen: Option<DateTime<Utc>>,
}

impl From<store::ExecutionRow> for ExecutionView {
    fn from(row: store::ExecutionRow) -> Self {
        let (asked_by, asked_why) = match &row.cause {
            Cause::ByHand { actor, reason } => (actor.clone(), reason.clone()),
            _ => Default::default(),
        };
        Self {
            id: row.id,
            application: row.application,
            schedule: row.schedule,
            job: row.job,
            state: row.state,
            reason: row.reason,
            cause: row.cause.as_str().to_owned(),
            asked_by,
            asked_why,
            fence: row.fence,
            due: row.due.utc(),
            generation: row.generation,
            origin: row.origin,
            fire_time: row.scheduled.utc(),
            until: row.until.and_then(Timestamp::utc),
            count: row.count,
            attempt: row.attempt,
            failures: row.failures,
            snoozes: row.snoozes,
            stuck: row.stuck,
            holder: row.holder,
            key: row.key,
            group: row.group,
            lane: row.lane,
            tags: row.tags,
            node: row.node,
            claimed: row.claimed.and_then(Timestamp::utc),
            started: row.started.and_then(Timestamp::utc),
            finished: row.finished.and_then(Timestamp::utc),
            error: row.error,
            cancel_asked: row.cancel.as_ref().and_then(|cancel| cancel.asked.utc()),
            cancel_seen: row.cancel.as_ref().and_then(|cancel| cancel.seen?.utc()),
            cancel_asked_why: row.cancel.as_ref().map(|cancel| cancel.reason.clone()).unwrap_or_default(),
            cancel_asked_by: row.cancel.map(|cancel| cancel.actor).unwrap_or_default(),
        }
    }
}
