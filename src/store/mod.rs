//! The only place that knows a database: the [`Store`] trait, what passes through it, and its four
//! implementations (in memory, SQLite, PostgreSQL, MariaDB), all held to one conformance suite.
//!
//! Every state change is a guarded verb with three endings: won, lost, error. Lost is not an error, an error
//! is not lost, and an error whose kind is [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) may be either.

#[cfg(not(feature = "sql"))]
mod absent;
pub(crate) mod audit;
pub(crate) mod change;
mod claimed;
pub(crate) mod columns;
#[cfg(test)]
pub(crate) mod conformance;
mod definition;
pub(crate) mod enqueue;
pub(crate) mod guard;
mod listing;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod news;
pub(crate) mod order;
mod retention;
pub(crate) mod rules;
#[cfg(feature = "sql")]
pub(crate) mod sql;
pub(crate) mod streak;
pub(crate) mod switch;
pub(crate) mod when;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

#[cfg(not(feature = "sql"))]
pub(crate) use absent::{Target, check_schema, migrate, open};
pub(crate) use change::{
    Applied, Change, ExecutionChange, LedgerRow, Move, NextAttempt, NodeEnd, PauseChange, RemoveChange,
    Repair, RunEnd, SeenSchedule, UnreadableRow, Unstarted,
};
pub(crate) use claimed::Claimed;
pub(crate) use definition::Definition;
pub use definition::Ensured;
#[cfg(feature = "sql")]
pub(crate) use definition::Prepared;
#[cfg(any(feature = "sql", test))]
pub(crate) use listing::PauseRow;
pub(crate) use listing::{ApplicationRow, ExecutionQuery, ExecutionRow, JobRow, NodeRow, ScheduleRow};
#[cfg(feature = "sql")]
pub use sql::{CallerConnection, MigrationReport};
#[cfg(feature = "sql")]
pub(crate) use sql::{Target, check_schema, joined, migrate, open};

use self::audit::{AuditEntry, AuditQuery, AuditRow};
pub use self::enqueue::OnConflict;
use self::enqueue::{EnqueueOrder, Keyed};
use self::news::{Ear, Glance, GlanceQuery, Hearing};
use self::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
pub(crate) use self::retention::{
    OrphanWalk, Purge, Purged, PurgedOrphans, PurgedQueues, QueuePlace, QueueWalk,
};
use self::streak::{Streak, StreakQuery};
use self::switch::{EndedPause, PassedQuery, SwitchOrder, Switched};
use crate::domain::shards::Share;
use crate::domain::{
    Attempt, Candidate, Covers, Entry, Error, ExecutionId, ExecutionState, Full, JobPolicy, JobSpec, Lineage,
    Millis, NodeId, Pending, Reason, ScheduleId, ScheduleState, Token,
};
use crate::time::{CURSOR_AHEAD, Lease, TimeSample, Window};

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The reads and changes that a client's requests are made of: each a transaction of the store's own, or part
/// of a caller's.
pub(crate) trait Verbs {
    /// Reads a schedule by name.
    fn find(&self, application: &str, name: &str) -> Result<Option<Entry>>;

    /// A schedule's row by name, whether or not it can be understood.
    fn seen(&self, application: &str, name: &str) -> Result<Option<SeenSchedule>>;

    /// The database's clock.
    fn now(&self) -> Result<Millis>;

    /// Makes guarded changes, all in one transaction, each with the rows that follow it; at most one per
    /// execution and kind, and per schedule. Answered in the order asked. [`Change`] has the table of them:
    /// which rows are waited for while others hold them, and which changes may be said twice.
    fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>>;

    /// Makes one guarded change and, if it is made, records it in the same transaction.
    fn apply_audited(&self, change: Change, entry: &AuditEntry) -> Result<Applied>;

    /// Creates or changes a schedule by (application, name); see [`Ensured`]. Its job's row is made if it is
    /// missing, and left as it is otherwise: the policy is for the nodes to say. What it changes is recorded.
    fn ensure(&self, definition: &Definition) -> Result<Ensured>;

    /// Makes an extra execution of a schedule, PENDING, beside those that are planned, and records it.
    fn order(&self, order: &RunOrder) -> Result<Ordered>;

    /// Makes PENDING executions of a job without a schedule; their ids in the order of the payloads. The
    /// job's row and its queue are made if they are missing.
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if others have drawn the same origins.
    fn enqueue(&self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>>;

    /// As [`Verbs::enqueue`], of one execution with a key: if another of its job that has not ended has that,
    /// the order says what becomes of the two.
    fn enqueue_unique(&self, order: &EnqueueOrder) -> Result<Keyed>;

    /// Cancels an execution that has not begun, or asks the node that runs it to end it; and records that.
    fn cancel(&self, order: &ExecutionOrder) -> Result<Cancel>;

    /// Makes another attempt at an execution that has ended without success, unless one has followed it; and
    /// records that.
    fn retry(&self, order: &ExecutionOrder) -> Result<Retry>;

    /// Pauses, drains or resumes a job, a node or an application, and records that. The occurrences that a
    /// pause has held back are passed before it ends: see [`Verbs::passed`].
    fn switch(&self, order: &SwitchOrder) -> Result<Switched>;

    /// Active schedules of a paused job, or of a paused application, that were due before an instant; none of
    /// one that is not paused.
    fn passed(&self, query: &PassedQuery) -> Result<Vec<Entry>>;

    /// Executions, newest first.
    fn executions(&self, filter: &ExecutionQuery) -> Result<Vec<ExecutionRow>>;
}

/// All coordination of a cluster. Each method, those of [`Verbs`] too, is one store call: one transaction (or
/// one read), bounded by its caller's watchdog. Instants are database time.
pub(crate) trait Store: Verbs + Send + Sync {
    /// Announces a node: inserts its row, the application's row if missing, and its jobs' rows (policies
    /// are updated where they differ). Safe when several first starts race.
    fn register(&self, node: &NewNode) -> Result<TimeSample>;

    /// Adds one to the node's beat and brings what the heartbeat needs, or says that the node's row is
    /// ended or gone: then it must register again as another.
    fn beat(&self, beat: &Heartbeat) -> Result<HeartbeatReply>;

    /// Which copy of its database the last session was opened on, where that can be told.
    fn lineage(&self) -> Option<Lineage> {
        None
    }

    /// One page of what a poll looks at, in one call.
    fn poll(&self, query: &PollQuery) -> Result<Polled>;

    /// How a node learns, before its next poll, of what others have changed.
    fn hearing(&self) -> Hearing;

    /// Looks whether others have changed something since an earlier look. What they did in a transaction that
    /// committed out of the order of its ids may be missed.
    fn glance(&self, query: &GlanceQuery) -> Result<Glance>;

    /// Begins to listen to what the database [tells](Hearing::tells) of the changes of an application.
    fn listen(&self, application: &str) -> Result<Box<dyn Ear>>;

    /// The payloads of these schedules, with the versions they have now; at most some hundreds.
    fn payloads(&self, schedules: &[ScheduleId]) -> Result<Vec<LargePayload>>;

    /// Claims each candidate under its guard, in one transaction, and those of each job with a limit in one
    /// of their own; at most one per schedule, and any number of enqueued ones, answered in the order asked.
    /// A schedule's row another transaction holds locked is [`Claim::Skipped`], on PostgreSQL after 20 ms.
    /// One that would overlap an execution of its schedule, and must not, is [`Claim::Blocked`]; one for
    /// which its job's bounds leave no room, [`Claim::Full`], and [`Claim::Busy`] while somebody else counts.
    /// A candidate that alone makes the transaction fail is [`Claim::Failed`] and nothing of it is kept.
    fn claim(&self, requests: &[ClaimRequest]) -> Result<Vec<Claim>>;

    /// Settles a `claim` call whose commit is unknown, row by row; at most one candidate per schedule. An
    /// execution carries the request's token in CLAIMED/RUNNING: won. Somebody holds the schedule's row
    /// locked, perhaps the call itself: [`Claim::Skipped`], still unknown, to be asked again. The guard still
    /// matches: claims it now if `claims` says so; for a node that was switched off it changes the row
    /// instead (a schedule's version, a PENDING execution's token), so that the call cannot claim it later,
    /// and is lost; so too where the schedule's slot is taken, or its job has a limit. Anything else: lost.
    fn resolve(&self, requests: &[ClaimRequest], claims: bool) -> Result<Vec<Claim>>;

    /// Makes one guarded change.
    fn apply_one(&self, change: Change) -> Result<Applied> {
        Ok(self.apply(&[change])?.pop().unwrap_or(Applied::Lost))
    }

    /// What was recorded, newest first.
    fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRow>>;

    /// Tries to become the application's misfire handler until `now + interval`: if the mark
    /// [is due](crate::time::is_election_due).
    fn elect(&self, application: &str, now: Millis, interval: Millis) -> Result<Applied>;

    /// Active schedules due before `before`, but not before `from`, whose job some live node lists, at most
    /// `limit`.
    fn overdue(&self, query: &OverdueQuery) -> Result<OverduePage>;

    /// CLAIMED and RUNNING executions of the application whose node is ended or missing, and those whose
    /// handlers ran on there beyond their time limits, in id order after `after`, at most `limit`.
    fn stranded(&self, application: &str, after: ExecutionId, limit: usize) -> Result<StrandedPage>;

    /// PENDING executions of removed schedules, and those that were asked to cancel, at most `limit`: handed
    /// back or to be retried since.
    fn withdrawn(&self, application: &str, limit: usize) -> Result<Vec<Withdrawn>>;

    /// Schedules' rows that cannot be understood (NULL times included), not yet in ERROR: those in one step
    /// of a walk by id, and overdue ones whose job some live node lists. One whose trigger only a parser can
    /// refuse is among the latter alone.
    fn unreadable(&self, query: &UnreadableQuery) -> Result<UnreadablePage>;

    /// Removes occurrences that ended longer ago than `keep`, by the database's own clock, in one bounded
    /// transaction: each with all its attempts, none before what was planned earlier in the same schedule,
    /// generation and kind (planned or asked for), none that is PENDING, CLAIMED or RUNNING. COMPLETE
    /// one-shots that were planned so long ago and have no execution left go too. If it removes any of these,
    /// the application's `ledger_from` moves with it: occurrences planned from there on are all kept. A
    /// walk's first step removes nodes that ended so long ago, unless an execution under way names them, and
    /// what was recorded in the audit so long ago.
    fn purge(&self, purge: &Purge) -> Result<Purged>;

    /// Removes enqueued executions that ended longer ago than `keep`, each with all its attempts, by the
    /// database's own clock. One bounded step of a walk over the queues, each from its oldest on.
    fn purge_queues(&self, walk: &QueueWalk) -> Result<PurgedQueues>;

    /// Removes executions without a schedule, whose row somebody deleted: those that ended, and PENDING ones
    /// that were due, longer ago than `keep`. One bounded step of a walk.
    fn purge_orphans(&self, walk: &OrphanWalk) -> Result<PurgedOrphans>;

    /// The part of an `ensure` within a caller's transaction that is made and read outside of it; nothing on a
    /// database that has one writer at a time, which is that transaction.
    #[cfg(feature = "sql")]
    fn prepare(&self, _definition: &Definition) -> Result<Option<Prepared>> {
        Ok(None)
    }

    /// Pauses whose time is up, by the database's clock; where there are none, notes when the next one's is.
    fn ended_pauses(&self, application: &str) -> Result<Vec<EndedPause>>;

    /// The streak for which an active schedule is to be paused by its own rule; none if there is none.
    fn streak(&self, query: &StreakQuery) -> Result<Option<Streak>>;

    /// Notes that the node that runs these executions has heard that they are to be cancelled.
    fn saw_cancels(&self, executions: &[ExecutionId]) -> Result<()>;

    /// The applications that have had a node or a schedule, by name.
    fn applications(&self) -> Result<Vec<ApplicationRow>>;

    /// An application's jobs by name.
    fn jobs(&self, application: &str) -> Result<Vec<JobRow>>;

    /// The cluster's nodes, newest first.
    fn nodes(&self, application: Option<&str>) -> Result<Vec<NodeRow>>;

    /// Schedules by name.
    fn schedules(&self, application: Option<&str>) -> Result<Vec<ScheduleRow>>;

    /// A schedule by name, unless it was removed.
    fn schedule(&self, application: &str, name: &str) -> Result<Option<ScheduleRow>>;

    /// How many occurrences of a schedule the ledger holds, by the state of each attempt.
    fn counts(&self, schedule: ScheduleId) -> Result<Vec<(String, i64)>>;

    /// What an execution covers, with so many rows of the ledger counted at most; none if there is no such
    /// execution.
    fn covers(&self, execution: ExecutionId, most: usize) -> Result<Option<Covers>>;
}

/// What a store may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreLimits {
    /// The most a statement, or a pause inside a transaction, may take: milliseconds.
    pub call: Millis,
    /// The most connections in use at once, and the most that stay open while idle.
    pub connections: u32,
    /// How many more may be opened in the place of those that abandoned calls keep. Where it is 0 nobody
    /// abandons calls, and a session that may hang gives its statements up by itself.
    pub spare: u32,
}

impl StoreLimits {
    /// Whether a node's loops use it, rather than clients.
    #[cfg(feature = "sql")]
    pub(crate) fn is_of_node(&self) -> bool {
        self.spare > 0
    }
}

/// Those of a client: its callers are the application's threads, however many call at once.
impl Default for StoreLimits {
    fn default() -> Self {
        Self { call: Window::default().call, connections: 64, spare: 0 }
    }
}

/// A node about to join.
#[derive(Clone, Debug)]
pub(crate) struct NewNode {
    pub id: NodeId,
    pub application: String,
    pub host_ip: String,
    pub host_name: String,
    pub pid: u32,
    pub jobs: Vec<JobSpec>,
    pub now: Millis,
}

/// One heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    pub node: NodeId,
    pub application: String,
    pub figures: Figures,
    /// The node claims nothing more: it is switched off.
    pub withdraw: bool,
    /// The node was to drain, and has nothing left.
    pub drained: bool,
    pub now: Millis,
}

/// The pool's state as a node publishes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub threads: usize,
    pub busy: usize,
    pub queued: usize,
    /// Handlers that run on beyond their time limits.
    pub stuck: usize,
}

/// A heartbeat's answer.
#[derive(Clone, Debug)]
pub(crate) enum HeartbeatReply {
    /// Confirmed.
    Alive {
        /// The application's nodes not ended, this one included.
        peers: Vec<Peer>,
        /// This node's CLAIMED and RUNNING executions.
        owned: Vec<Stranded>,
    },
    /// The row is ended or missing: this incarnation is over.
    Ended,
    /// Another SQLite file, or none, is at this path by now: nothing was written.
    DatabaseReplaced(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub id: NodeId,
    pub beat: i64,
    /// The jobs it has handlers for; none while it is switched off.
    pub jobs: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct PollQuery {
    pub node: NodeId,
    pub application: String,
    /// Only these rows,
    pub shares: Vec<Share>,
    /// and those of the schedules of these names, whatever their shards, if a share has their jobs.
    pub names: Vec<String>,
    /// The jobs that live nodes list.
    pub listed: Vec<String>,
    /// Schedules due before this are not looked for: lately there were none.
    pub from: Millis,
    /// The same of PENDING executions.
    pub pending_from: Millis,
    /// The window's end (exclusive), database time.
    pub until: Millis,
    /// What is due before this is late, and anybody's.
    pub late: Millis,
    pub page: Page,
    /// The page's size: the most schedules to bring, beside those asked for by name, and PENDING executions
    /// to look at.
    pub limit: usize,
    /// The last poll said that the node drains: a member of a Galera cluster that lags may not know it yet.
    pub drains: bool,
}

/// Which rows a page of a poll brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub schedules: DueRows,
    /// PENDING executions behind this key of (due time, id): the page looks at no more of them than it holds,
    /// whether or not the query wants them.
    pub pendings: (Millis, i64),
    /// Of these the last, not the first.
    pub newest: bool,
}

/// The due schedules of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DueRows {
    /// All, if the page holds them. If it does not, only those asked for by name, and the next page has
    /// sections.
    All,
    /// An equal share of the page for each of these.
    Sections(Vec<Section>),
}

/// The due schedules of one job in one shard, in the order of (fire time, id), behind `after` and before
/// `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub job: i64,
    pub shard: i64,
    pub after: (Millis, i64),
    pub until: Millis,
}

impl Section {
    /// The sections of a job in a shard: overdue rows, of which there may be any number, and the others.
    pub(crate) fn both(job: i64, shard: i64, query: &PollQuery) -> [Self; 2] {
        let late = query.late.clamp(query.from, query.until.max(query.from));
        [Self::new(job, shard, late..query.until), Self::new(job, shard, query.from..late)]
    }

    /// The rows due in this span.
    pub(crate) fn new(job: i64, shard: i64, due: Range<Millis>) -> Self {
        Self { job, shard, after: (due.start - 1, i64::MAX), until: due.end }
    }
}

impl Page {
    pub(crate) const FIRST: Self =
        Self { schedules: DueRows::All, pendings: (Millis::MIN, i64::MAX), newest: false };
    /// Behind all PENDING executions.
    pub(crate) const END: (Millis, i64) = (Millis::MAX, i64::MAX);

    /// The page behind one that left these sections, and PENDING executions behind this key.
    pub(crate) fn behind(sections: Vec<Section>, pendings: Option<(Millis, i64)>) -> Option<Self> {
        let more = !sections.is_empty() || pendings.is_some();
        let pendings = pendings.unwrap_or(Self::END);
        more.then_some(Self { schedules: DueRows::Sections(sections), pendings, newest: false })
    }
}

/// Payloads of more bytes come by [`Store::payloads`].
pub(crate) const SMALL_PAYLOAD: usize = 1_024;

/// A payload too large for a poll's page, of a schedule in this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LargePayload {
    pub id: ScheduleId,
    pub version: i64,
    pub payload: Arc<str>,
}

/// What a poll brought. Rows that cannot be understood are left out: repair looks for them explicitly.
#[derive(Clone, Debug)]
pub(crate) struct Polled {
    pub time: TimeSample,
    /// The application is in state Y.
    pub app_enabled: bool,
    /// This node is in state Y.
    pub node_enabled: bool,
    /// The node is to hand back what waits.
    pub drains: bool,
    /// The time of some pause in the application is up.
    pub pause_ended: bool,
    /// The application's election mark.
    pub election: Option<Millis>,
    /// Some active schedule of an active listed job, or some PENDING execution, is late, whatever its shard.
    pub late: bool,
    /// The earliest next fire time in the window of those schedules.
    pub earliest: Option<Millis>,
    /// When the first PENDING execution is due, whoever's, if that is before the window's end.
    pub earliest_pending: Option<Millis>,
    /// How many rows were read, also those that the query does not want.
    pub rows: usize,
    /// Active schedules of active jobs with next fire time before `until`; of a page that holds them all,
    /// earliest first.
    pub entries: Vec<Arc<Entry>>,
    /// PENDING executions due before `until`, earliest first.
    pub pendings: Vec<Pending>,
    /// Bytes of the payloads that were too large: they are empty in `entries` and `pendings`.
    pub large: HashMap<ScheduleId, usize>,
    /// The page that may hold more. Behind a page of the newest PENDING executions its key is that of the
    /// first of them.
    pub next: Option<Page>,
}

/// One candidate with the token that will answer for it.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest {
    pub candidate: Candidate,
    pub token: Token,
    pub node: NodeId,
    /// A thread is free: insert the execution as RUNNING, saving the start's statement.
    pub at_once: bool,
    /// The lease it is claimed under: the handler starts while that holds, or not at all.
    pub lease: Lease,
    pub now: Millis,
}

impl ClaimRequest {
    /// When an execution that is RUNNING from its claim on has started: what is claimed ahead, not before it
    /// is due.
    pub(crate) fn started(&self) -> Option<Millis> {
        self.at_once.then(|| self.now.max(self.candidate.due()))
    }
}

/// The ending of one claim.
#[derive(Debug)]
pub(crate) enum Claim {
    Won(Claimed),
    Lost,
    Skipped,
    /// The slot of its schedule is taken: it would overlap.
    Blocked(Blocked),
    /// There is no room for another execution of its job, or of its group.
    Full(Full),
    /// Another claim counts what runs of its job.
    Busy,
    Failed(Error),
}

/// Who keeps a claim from being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// The execution that keeps the slot.
    pub holder: ExecutionId,
    /// Planned executions of the schedule that wait for it: as many as its rule lets wait, or all there are.
    pub waiting: Vec<Unstarted>,
}

#[derive(Clone, Debug)]
pub(crate) struct OverdueQuery {
    pub application: String,
    /// Schedules due before this are not looked for.
    pub from: Millis,
    pub before: Millis,
    /// What the page before this one left; `None` of the first page.
    pub sections: Option<Vec<Section>>,
    pub limit: usize,
}

/// One page of what fell behind: an equal share of each job and shard, earliest first.
#[derive(Clone, Debug)]
pub(crate) struct OverduePage {
    /// Rows that cannot be understood are left out, so a full page may bring fewer than asked for.
    pub entries: Vec<Entry>,
    /// The unstarted executions that repairs of these schedules left earlier, if their policy lets them give
    /// way.
    pub unstarted: Vec<Unstarted>,
    /// Where more may come after this page.
    pub next: Vec<Section>,
}

/// What people are told of a schedule: its name, or its id if its row is gone or has no name that can be
/// read.
#[cfg(any(feature = "sql", test))]
pub(crate) fn called(name: &str, id: ScheduleId) -> Arc<str> {
    if name.is_empty() { format!("id {id}").into() } else { name.into() }
}

/// A CLAIMED or RUNNING execution nobody answers for, or one whose handler ran on beyond its time limit
/// there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stranded {
    pub id: ExecutionId,
    pub schedule: ScheduleId,
    /// What its schedule is [`called`].
    pub name: Arc<str>,
    /// Empty if its schedule's row is gone.
    pub job: Arc<str>,
    pub state: ExecutionState,
    pub token: Token,
    pub attempt: u32,
    /// How many earlier attempts at its occurrence failed, or ran out of time.
    pub failures: u32,
    /// How many earlier attempts at its occurrence were ABANDONED.
    pub deaths: u32,
    /// Somebody asked to cancel it.
    pub is_cancelled: bool,
    /// If its schedule fires again some time after its end: how long, milliseconds.
    pub delay: Option<Millis>,
    pub policy: JobPolicy,
}

impl Stranded {
    /// The schedule that its end plans.
    pub(crate) fn plans(&self) -> Option<RunEnd> {
        self.delay.map(|delay| RunEnd { schedule: self.schedule, delay })
    }

    /// What events call it.
    pub(crate) fn named(&self) -> Attempt {
        let (schedule, job) = (Arc::clone(&self.name), Arc::clone(&self.job));
        Attempt { execution: self.id, schedule, job, number: self.attempt }
    }
}

/// A PENDING execution that is not to be run: of a removed schedule, or asked to cancel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Withdrawn {
    pub attempt: Attempt,
    pub token: Token,
    pub reason: Reason,
    /// The schedule that its end plans.
    pub plans: Option<RunEnd>,
}

impl Withdrawn {
    pub(crate) fn cancel(&self, now: Millis) -> ExecutionChange {
        let (kind, reason) = (rules::ChangeKind::Cancel, Some(self.reason));
        let cancelled = ExecutionState::Cancelled;
        ExecutionChange {
            reason,
            plans: self.plans,
            ..ExecutionChange::of(kind, self.attempt.execution, self.token, cancelled, now)
        }
    }
}

/// One page of stranded executions.
#[derive(Clone, Debug)]
pub(crate) struct StrandedPage {
    /// Rows that cannot be read are left out, so a full page may bring fewer than asked for.
    pub stranded: Vec<Stranded>,
    /// The page was full: more may come after this one.
    pub next: Option<ExecutionId>,
}

/// One step of a walk over the schedules, by id, for rows that cannot be understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnreadableQuery {
    pub application: String,
    pub after: ScheduleId,
    /// How many rows the step walks over, whoever's they are: what it costs does not grow with the table.
    pub step: usize,
    /// Rows due from `from` on and before `before`, database time, whose job a live node lists are looked at
    /// with every step; none are if `before` is the earliest instant.
    pub from: Millis,
    pub before: Millis,
    /// The most rows brought of the step, and of those that are overdue; at most a step.
    pub limit: usize,
    /// The step also brings active schedules that have passed this instant, if they are as far
    /// [ahead](CURSOR_AHEAD) of the database's clock, too, and it was no skip by hand that passed it.
    pub ahead: Option<Millis>,
}

impl UnreadableQuery {
    /// Whether a readable schedule is asked for: `now` is by the database's clock.
    pub(crate) fn wants(&self, entry: &Entry, now: Millis) -> bool {
        let limit = self.ahead.map(|ahead| ahead.max(now + CURSOR_AHEAD));
        entry.state == ScheduleState::Active && limit.is_some_and(|limit| entry.is_ahead(limit))
    }
}

/// A schedule whose cursor is ahead of the database's clock, which was `seen` to be at that instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CursorAhead {
    pub entry: Entry,
    pub seen: Millis,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnreadablePage {
    pub broken: Vec<UnreadableRow>,
    pub ahead: Vec<CursorAhead>,
    /// The next step's `after`; `None` at the walk's end.
    pub next: Option<ScheduleId>,
}
