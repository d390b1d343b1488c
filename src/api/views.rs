//! Nodes, schedules and executions as people see them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::api::place::ExecutionPlace;
use crate::api::spans::{as_millis, some_as_millis};
use crate::domain::{
    Activity, Cause, ExecutionId, ExecutionState, LaneHealth, NextFire, Rate, ScheduleField, ScheduleId,
    ScheduleState, Timestamp, Word,
};
use crate::store;
use crate::store::sync::OwnerRow;
use crate::time::span;

/// A type that is made of a row of the store's: each field with its type and its value, of that row. An
/// instant that may lie beyond the calendar is kept beside them as it is stored, where the crate needs that.
macro_rules! view {
    (
        $(#[$about:meta])*
        $View:ident of $Row:ty as $row:ident {
            $($(#[$field_about:meta])* $field:ident: $Type:ty = $value:expr,)*
        }
        $(keeps $kept:ident: $Kept:ty = $kept_value:expr;)?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct $View {
            $($(#[$field_about])* pub $field: $Type,)*
            $(#[serde(skip)] pub(crate) $kept: $Kept,)?
        }

        impl From<$Row> for $View {
            fn from($row: $Row) -> Self {
                Self { $($kept: $kept_value,)? $($field: $value,)* }
            }
        }
    };
}

pub(super) use view;

/// Which executions to list. Default: all, the newest 1,000.
///
/// With a time, a schedule, a group, a cause but `planned` and `enqueued`, or only states of executions that
/// ended in another way than well, the list is in the order of fire times; otherwise in that of ids, in which
/// executions were recorded. The two differ for executions that were enqueued for later, for retries and
/// reruns, and for what was missed.
///
/// ```
/// use firetime::{Client, ExecutionFilter, Job};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// # firetime::migrate(&url)?;
/// const REMIND: Job<u64> = Job::new("remind");
/// let client = Client::connect("shop", &url)?;
/// for user in 0..7 {
///     client.enqueue(REMIND, &user).run()?;
/// }
/// let mut filter = ExecutionFilter { job: Some("remind".to_owned()), limit: 5, ..Default::default() };
/// let page = client.executions(&filter)?;
/// filter.after = page.last().map(|last| last.place());
/// assert_eq!((page.len(), client.executions(&filter)?.len()), (5, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// End a literal with `..Default::default()`: releases may add fields.
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
    /// Only with this reason of their state, such as `overlap` or `misfire`.
    pub reason: Option<String>,
    /// Only run for this cause: `planned`, `misfire`, `by hand`, `rerun`, `enqueued`, `retry` or `recovery`.
    pub cause: Option<String>,
    /// Only the last attempt at each occurrence: a failure that was attempted again is none.
    pub last: bool,
    /// Only of the node whose id begins like this.
    pub node: Option<String>,
    /// Only with a fire time at or after this, and spans of skipped or withdrawn occurrences that reach
    /// there.
    pub since: Option<DateTime<Utc>>,
    /// Only with a fire time before this.
    pub until: Option<DateTime<Utc>>,
    /// Only what ended at or after this: the handler, or the decision to skip it.
    pub ended_since: Option<DateTime<Utc>>,
    /// Only what ended before this.
    pub ended_until: Option<DateTime<Utc>>,
    /// Only what follows this in the list: of a longer list the place of the last one shown.
    pub after: Option<ExecutionPlace>,
    /// The oldest first. Default: the newest first.
    pub oldest_first: bool,
    /// At most so many. Default: 1,000. With `usize::MAX` all.
    pub limit: usize,
}

impl Default for ExecutionFilter {
    fn default() -> Self {
        let (schedule, job, key, group, tag) = (None, None, None, None, None);
        let (states, reason, cause, node) = (Vec::new(), None, None, None);
        let (since, until, ended_since, ended_until) = (None, None, None, None);
        let (last, after, oldest_first, limit) = (false, None, false, 1_000);
        Self {
            schedule,
            job,
            key,
            group,
            tag,
            states,
            reason,
            cause,
            last,
            node,
            since,
            until,
            ended_since,
            ended_until,
            after,
            oldest_first,
            limit,
        }
    }
}

impl ExecutionView {
    /// Where it stands in a list: the next page begins behind it.
    #[must_use]
    pub fn place(&self) -> ExecutionPlace {
        ExecutionPlace { at: self.stored_fire_time, id: self.id.0 }
    }
}

view! {
    /// A node as people see it. As JSON, instants are epoch milliseconds, and spans are milliseconds.
    NodeView of store::NodeRow as row {
        /// Its id: fresh for every start.
        id: String = row.id,
        /// The application it belongs to.
        application: String = row.application,
        /// Label: the host's address.
        host_ip: String = row.host_ip,
        /// Label: the host's name.
        host_name: String = row.host_name,
        /// Label: the process id.
        pid: i64 = row.pid,
        /// What it does; what it did last, of one that has ended.
        state: Activity = row.switch,
        /// Who paused or drained it; empty while it is active.
        paused_by: String = row.pause.by,
        /// Why.
        reason: String = row.pause.reason,
        /// Since when, by the database's clock.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        paused: Option<DateTime<Utc>> = row.pause.since.and_then(Timestamp::utc),
        /// When its pause ends by itself.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        paused_until: Option<DateTime<Utc>> = row.pause.until.and_then(Timestamp::utc),
        /// Its beat counter.
        beat: i64 = row.beat,
        /// The jobs it has handlers for.
        jobs: Vec<String> = row.jobs,
        /// The most threads that its lanes may have together, and the async handlers that they may run at
        /// once, one for each.
        threads: usize = row.lanes.iter().map(|lane| lane.threads + lane.concurrency).sum(),
        /// Jobs running at its last heartbeat.
        busy: usize = row.lanes.iter().map(|lane| lane.busy + lane.tasks).sum(),
        /// Executions waiting in the queues of its lanes at its last heartbeat.
        queued: usize = row.lanes.iter().map(|lane| lane.queued).sum(),
        /// Handlers that ran on beyond their time limits at its last heartbeat.
        stuck: usize = row.lanes.iter().map(|lane| lane.stuck + lane.stuck_tasks).sum(),
        /// What each of its lanes was doing at its last heartbeat, as [`Health::lanes`](crate::Health::lanes)
        /// shows it.
        lanes: Vec<LaneHealth> = row.lanes,
        /// When it joined.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        started: Option<DateTime<Utc>> = row.started.utc(),
        /// Its last confirmed heartbeat.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        last_beat: Option<DateTime<Utc>> = row.last_beat.utc(),
        /// After how long without a heartbeat it counts as silent: one that runs, and whose database answers,
        /// is heard of sooner. None of a row that was written by hand.
        #[serde(serialize_with = "some_as_millis")]
        silent_after: Option<Duration> = Some(row.silent_after).filter(|span| *span >= 0).map(span),
        /// When it ended; none while it lives.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        ended: Option<DateTime<Utc>> = row.ended.as_ref().and_then(|(at, _)| at.utc()),
        /// How it ended: `stopped` or `dead`; empty while it lives.
        end_reason: String = row.ended.map(|(_, reason)| reason).unwrap_or_default(),
    }
}

view! {
    /// A schedule as people see it. As JSON, instants are epoch milliseconds, and spans are milliseconds.
    /// Texts are as stored, so that a broken row can be shown too.
    ScheduleView of store::ScheduleRow as row {
        /// Its row id.
        id: ScheduleId = ScheduleId(row.id),
        /// The application it belongs to.
        application: String = row.application,
        /// Its name.
        name: String = row.name,
        /// The job it runs.
        job: String = row.job,
        /// How many live nodes have a handler for its job. While there are none it does not fire.
        nodes: usize = 0,
        /// Its state. As JSON its [word](ScheduleState::as_str).
        state: Word<ScheduleState> = Word::of_row(&row.state),
        /// Its trigger as it is written: `cron 0 30 2 * * ? [Europe/Berlin]`, `every 900000 ms`.
        trigger: String = row.when.describe(),
        /// The same in words: `every day at 02:30 (Europe/Berlin)`; empty if its columns mean none.
        trigger_words: String = row.when.in_words(),
        /// Its purpose, as its description says.
        description: String = row.settings.description.to_string(),
        /// The last fire time the cursor passed.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        prev: Option<DateTime<Utc>> = row.prev.and_then(Timestamp::utc),
        /// The next fire time; none while a run is under way whose end says when that is.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        next: Option<DateTime<Utc>> = NextFire::stored(row.next).at().and_then(Timestamp::utc),
        /// From how late on an occurrence counts as missed.
        #[serde(serialize_with = "as_millis")]
        misfire_threshold: Duration = span(row.settings.threshold.unwrap_or_default()),
        /// How long after its fire time an occurrence is to have succeeded; none if nobody waits for it.
        #[serde(serialize_with = "some_as_millis")]
        expected_by: Option<Duration> = row.settings.expected_by.map(span),
        /// The first fire time whose occurrence has not succeeded in time, nor has a later one, as the
        /// misfire handler has noted.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        unmet: Option<DateTime<Utc>> =
            row.unmet.filter(|_| row.settings.expected_by.is_some()).and_then(Timestamp::utc),
        /// How many occurrences the cursor has passed.
        triggered: u64 = unsigned(row.triggered),
        /// Grows with every change but claims.
        version: i64 = row.version,
        /// Why it is paused or in error.
        reason: String = row.pause.reason,
        /// Who paused it; empty while it is not paused.
        paused_by: String = row.pause.by,
        /// When it was paused, by the database's clock; none while it is not paused, or if its row was
        /// written by hand.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        paused: Option<DateTime<Utc>> =
            row.pause.since.filter(|_| !is_error(&row.state)).and_then(Timestamp::utc),
        /// When it went into error, by the database's clock; none while it is not, or if its state was
        /// written by hand.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        quarantined: Option<DateTime<Utc>> =
            row.pause.since.filter(|_| is_error(&row.state)).and_then(Timestamp::utc),
        /// When its pause ends by itself.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        paused_until: Option<DateTime<Utc>> = row.pause.until.and_then(Timestamp::utc),
        /// In whose code it lives ([`Client::sync`](crate::Client::sync)); none if it is nobody's.
        owner: Option<String> = row.ownership.owner.clone(),
        /// The fields that an operator has changed since, and that its owner's code leaves as they are.
        by_hand: Vec<ScheduleField> = row.ownership.by_hand().iter().collect(),
        /// What else holds it: `application` or `job`, if that is paused, or empty. While it is held it does
        /// not fire, whatever its own state.
        held_by: String = String::new(),
        /// Why live nodes that have a handler for its job leave it alone, and how many do; empty if none
        /// does.
        left_alone: String = String::new(),
        /// Since when nobody can run its job, as the misfire handler has noted; none while a live node that
        /// claims has a handler for it, and for up to a minute after the last of these has gone.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        nobody_since: Option<DateTime<Utc>> = row.nobody.and_then(Timestamp::utc),
    }
}

view! {
    /// A job as people see it. As JSON, instants are epoch milliseconds, and spans are milliseconds.
    JobView of store::JobRow as row {
        /// Its name.
        name: String = row.name,
        /// Active or paused.
        state: Activity = row.switch,
        /// How many live nodes have a handler for it and claim.
        nodes: usize = 0,
        /// How many active schedules it has; 1,000 stand for that many or more.
        schedules: usize = 0,
        /// Since when nobody can run it, as the misfire handler has noted; none while a live node that claims
        /// has a handler for it, and for up to a minute after the last of these has gone, or if it has
        /// nothing to run.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        nobody_since: Option<DateTime<Utc>> = row.nobody.and_then(Timestamp::utc),
        /// Whether an occurrence whose node died is attempted again.
        recover: bool = row.settings.policy.recover,
        /// At most so many attempts of an occurrence may cost their nodes.
        max_attempts: u32 = row.settings.policy.max_attempts,
        /// At most so many retries of an occurrence.
        max_retries: u32 = row.settings.policy.retry.at_most,
        /// How long the first retry waits.
        #[serde(serialize_with = "as_millis")]
        retry_delay: Duration = row.settings.policy.retry.first,
        /// Each further one waits twice as long, up to this span.
        #[serde(serialize_with = "as_millis")]
        retry_cap: Duration = row.settings.policy.retry.cap,
        /// By up to so many percent each pause is shortened.
        retry_jitter: u32 = row.settings.policy.retry.jitter,
        /// How long a handler may take; none: as long as it likes.
        #[serde(serialize_with = "some_as_millis")]
        time_limit: Option<Duration> = row.settings.policy.time_limit,
        /// How many of its executions may run at once, on all nodes; none: any number.
        concurrency: Option<u32> = row.settings.policy.bounds.job.concurrency,
        /// How many may begin within a span of time.
        rate: Option<RateView> = row.settings.policy.bounds.job.rate().map(RateView::from),
        /// How many of each of its groups may run at once.
        group_concurrency: Option<u32> = row.settings.policy.bounds.group.concurrency,
        /// How many of each may begin within a span of time.
        group_rate: Option<RateView> = row.settings.policy.bounds.group.rate().map(RateView::from),
        /// Its purpose, as its description says.
        description: String = row.settings.description.into_owned(),
        /// Who paused it; empty while it is active.
        paused_by: String = row.pause.by,
        /// Why.
        reason: String = row.pause.reason,
        /// Since when, by the database's clock.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        paused: Option<DateTime<Utc>> = row.pause.since.and_then(Timestamp::utc),
        /// When its pause ends by itself.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        paused_until: Option<DateTime<Utc>> = row.pause.until.and_then(Timestamp::utc),
    }
}

view! {
    /// An owner of schedules that live in code ([`Client::sync`](crate::Client::sync)) as people see it. As
    /// JSON, instants are epoch milliseconds.
    OwnerView of OwnerRow as row {
        /// Its name.
        name: String = row.owner,
        /// The highest revision of its code that is known.
        revision: u64 = u64::try_from(row.revision).unwrap_or_default(),
        /// When that, or a schedule of it, was written last, by the database's clock.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        synced: Option<DateTime<Utc>> = row.synced.utc(),
        /// By whom.
        synced_by: String = row.actor,
    }
}

/// How many executions may begin within a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RateView {
    /// At most so many
    pub count: u32,
    /// within each such span; as JSON milliseconds.
    #[serde(serialize_with = "as_millis")]
    pub per: Duration,
}

/// A number of more than 53 bits, which many readers of JSON would round.
fn as_text<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

impl From<Rate> for RateView {
    fn from(Rate { count, per }: Rate) -> Self {
        Self { count, per: span(per) }
    }
}

view! {
    /// An application as people see it. As JSON, instants are epoch milliseconds.
    ApplicationView of store::ApplicationRow as row {
        /// Its name.
        name: String = row.name,
        /// Active or paused.
        state: Activity = row.switch,
        /// Who paused it; empty while it is active.
        paused_by: String = row.pause.by,
        /// Why.
        reason: String = row.pause.reason,
        /// Since when, by the database's clock.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        paused: Option<DateTime<Utc>> = row.pause.since.and_then(Timestamp::utc),
        /// When its pause ends by itself.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        paused_until: Option<DateTime<Utc>> = row.pause.until.and_then(Timestamp::utc),
    }
}

view! {
    /// An execution as people see it. As JSON, instants are epoch milliseconds.
    ExecutionView of store::ExecutionRow as row {
        /// Its row id.
        id: ExecutionId = ExecutionId(row.id),
        /// The application it belongs to.
        application: String = row.application,
        /// The schedule's name; of one that was enqueued `queue:` and its job's.
        schedule: String = row.schedule,
        /// The job's name.
        job: String = row.job,
        /// Its state.
        state: Word<ExecutionState> = Word::read(&row.state),
        /// Why it is in this state, where that needs saying.
        reason: String = row.reason,
        /// Why it is run. As JSON `cause`, its word, and beside it `asked_by` and `asked_why`.
        #[serde(flatten)]
        cause: Cause = row.cause,
        /// The schedule's generation it belongs to.
        generation: i64 = row.generation,
        /// 0 for planned occurrences; of a rerun that of all its executions. As JSON a text: many readers of
        /// JSON keep 53 bits of a number.
        #[serde(serialize_with = "as_text")]
        origin: i64 = row.origin,
        /// The occurrence's fire time.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        fire_time: Option<DateTime<Utc>> = row.scheduled.utc(),
        /// Of a row that stands for several occurrences, skipped or withdrawn: the fire time of the last.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        last_fire_time: Option<DateTime<Utc>> = row.until.and_then(Timestamp::utc),
        /// How many occurrences it stands for.
        count: u64 = unsigned(row.count),
        /// 1 for the first attempt.
        attempt: u32 = number(row.attempt),
        /// How many earlier attempts at its occurrence failed, or ran out of time.
        failures: u32 = number(row.failures),
        /// How often its handlers snoozed it, in this attempt and those before.
        snoozes: u32 = number(row.snoozes),
        /// It has timed out, and its handler runs on.
        stuck: bool = row.stuck,
        /// Of one that was skipped because it would have overlapped: the execution that had not ended.
        holder: Option<ExecutionId> = row.holder.filter(|_| !is_withdrawn(&row.state)).map(ExecutionId),
        /// Of one that was withdrawn: the [id](crate::AuditView::id) of the audit's entry on the change.
        change: Option<i64> = row.holder.filter(|_| is_withdrawn(&row.state)),
        /// Of one that was claimed a second late or more for want of a seat: whose seat it waited for, and
        /// how many milliseconds. `lane slow 41200`, `job 3100`, `group 3100`, `job rate 3100` or
        /// `group rate 3100`.
        waited_for: Option<String> = row.waited_for,
        /// Its unique key, of one that was enqueued with one.
        key: Option<String> = row.key,
        /// Its [group](crate::Job::group_by), of one that was enqueued in one.
        group: Option<String> = row.group,
        /// Its lane, of one that was enqueued in another than its job's.
        lane: Option<String> = row.lane,
        /// Its tags, of one that was enqueued with some.
        tags: Vec<String> = row.tags,
        /// Its fencing token; 0 before its first claim.
        fence: i64 = row.fence,
        /// When it is, or was, due: its fire time, or when a retry may begin.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        due: Option<DateTime<Utc>> = row.due.utc(),
        /// The id of the node that owns or owned it; none before one has claimed it.
        node: Option<String> = named(row.node),
        /// When it was claimed.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        claimed: Option<DateTime<Utc>> = row.claimed.and_then(Timestamp::utc),
        /// When it was started.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        started: Option<DateTime<Utc>> = row.started.and_then(Timestamp::utc),
        /// When it ended; of one that timed out, when its handler did.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        finished: Option<DateTime<Utc>> = row.finished.and_then(Timestamp::utc),
        /// The error it ended with.
        error: String = row.error,
        /// When somebody asked to cancel it while it ran.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        cancel_asked: Option<DateTime<Utc>> = row.cancel.as_ref().and_then(|it| it.asked.utc()),
        /// Who did; empty if nobody has.
        cancel_asked_by: String = row.cancel.as_ref().map_or_else(String::new, |it| it.actor.clone()),
        /// Why, as far as they said.
        cancel_asked_why: String = row.cancel.as_ref().map_or_else(String::new, |it| it.reason.clone()),
        /// When the node that runs it heard of that.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        cancel_seen: Option<DateTime<Utc>> = row.cancel.and_then(|it| it.seen?.utc()),
        /// Of one that waits: since when nobody can run its job, as the misfire handler has noted; none while
        /// a live node that claims has a handler for it.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        nobody_since: Option<DateTime<Utc>> = row.nobody.and_then(Timestamp::utc),
        /// Of one that waits, and was planned: its schedule is paused, and nothing planned of it is claimed.
        held: bool = row.held,
    }
    keeps stored_fire_time: Timestamp = row.scheduled;
}

/// A name, or the lack of one.
pub(super) fn named(stored: String) -> Option<String> {
    Some(stored).filter(|name| !name.is_empty())
}

/// A count of a row, which has none below zero.
pub(super) fn unsigned(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

/// The number of an attempt, of its failures or of its snoozes.
pub(super) fn number(stored: i64) -> u32 {
    u32::try_from(stored.max(0)).unwrap_or(u32::MAX)
}

/// A number of a column for which a request takes 32 bits.
pub(super) fn signed(stored: i64) -> i32 {
    i32::try_from(stored).unwrap_or(if stored < 0 { i32::MIN } else { i32::MAX })
}

fn is_withdrawn(stored: &str) -> bool {
    stored == ExecutionState::Withdrawn.as_str()
}

fn is_error(stored: &str) -> bool {
    stored == ScheduleState::Error.stored()
}
