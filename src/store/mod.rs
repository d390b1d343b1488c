//! The only place that knows a database: the [`Store`] trait, its questions and answers, each in a file with
//! its verb, and its four implementations (in memory, SQLite, PostgreSQL, MariaDB), all held to one
//! conformance suite.
//!
//! Every state change is a guarded verb with three endings: won, lost, error. Lost is not an error, an error
//! is not lost, and an error whose kind is [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) may be either.

#[cfg(not(feature = "sql"))]
mod absent;
pub(crate) mod audit;
pub(crate) mod awaited;
pub(crate) mod change;
mod claim;
pub(crate) mod columns;
#[cfg(test)]
pub(crate) mod conformance;
mod definition;
pub(crate) mod enqueue;
pub(crate) mod expected;
pub(crate) mod figures;
pub(crate) mod guard;
pub(crate) mod ledger;
mod limits;
mod listing;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "its faults and members are for simulations"))]
pub(crate) mod memory;
pub(crate) mod news;
pub(crate) mod nobody;
mod nodes;
pub(crate) mod order;
pub(crate) mod outcomes;
pub(crate) mod past;
mod poll;
mod repairs;
pub(crate) mod request;
pub(crate) mod rerun;
mod retention;
pub(crate) mod rules;
pub(crate) mod said;
pub(crate) mod schedules;
#[cfg(feature = "sql")]
pub(crate) mod sql;
pub(crate) mod streak;
pub(crate) mod switch;
pub(crate) mod sync;
pub(crate) mod transition;
pub(crate) mod waiting;
pub(crate) mod when;
mod withdrawn;

#[cfg(not(feature = "sql"))]
pub(crate) use absent::{Target, check_schema, migrate, open};
pub(crate) use change::{
    Applied, Change, Completed, LedgerRow, Move, NodeEnd, PauseChange, RemoveChange, Repair, SeenSchedule,
    UnreadableRow, Unstarted,
};
pub(crate) use claim::{Blocked, Claim, ClaimRequest, Claimed, IfNotMade};
pub use definition::Ensured;
#[cfg(feature = "sql")]
pub(crate) use definition::Prepared;
pub(crate) use definition::{Author, Definition, Described, OnlyIf};
pub(crate) use limits::StoreLimits;
#[cfg(any(feature = "sql", feature = "testing", test))]
pub(crate) use listing::PauseRow;
pub(crate) use listing::{
    ApplicationRow, ExecutionQuery, ExecutionRow, JobRow, ListPlace, NodeRow, ScheduleRow,
};
pub(crate) use nodes::{Heartbeat, HeartbeatReply, LeftAlone, NewNode, Peer};
pub(crate) use poll::{DueRows, LargePayload, Page, PollQuery, Polled, Section};
pub(crate) use repairs::{
    CursorAhead, OverduePage, OverdueQuery, Stranded, StrandedPage, UnreadablePage, UnreadableQuery,
    Withdrawn,
};
#[cfg(all(feature = "sql", feature = "tokio"))]
pub use sql::driver;
#[cfg(feature = "sql")]
pub use sql::{CallerConnection, MigrationReport};
#[cfg(feature = "sql")]
pub(crate) use sql::{Target, check_schema, joined, migrate, open};

use self::audit::{AuditEntry, AuditQuery, AuditRow};
use self::awaited::OpenOrEnded;
pub use self::enqueue::OnConflict;
use self::enqueue::{EnqueueOrder, Keyed};
use self::expected::{Expectation, ExpectedPage, ExpectedQuery};
use self::figures::{Figures, FiguresQuery};
use self::ledger::{LedgerLine, LedgerPage, LedgerRange, LedgerSchedule, LineQuery, LinesBy};
use self::news::{Ear, Glance, GlanceQuery, Hearing};
use self::nobody::{NobodyQuery, UnservedJob};
use self::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use self::outcomes::{OutcomeCounts, OutcomeFold, OutcomeQuery, OutcomeSpan};
use self::past::PastRow;
use self::request::{Answered, Asked, CarriedOut, Request, RequestQuery};
use self::rerun::{Reran, RerunCancel, RerunCancelled, RerunOrder, RerunPreview};
pub(crate) use self::retention::{
    OrphanWalk, Purge, Purged, PurgedOrphans, PurgedQueues, QueuePlace, QueueWalk,
};
use self::said::{Said, SaidBy};
use self::schedules::{SchedulePage, ScheduleQuery};
use self::streak::{Streak, StreakQuery};
use self::switch::{EndedPause, PassedQuery, SwitchOrder, Switched};
use self::sync::{OwnerRow, SyncAnswer, SyncOrder};
pub use self::sync::{SyncStep, SyncedSchedule, Withdraws};
pub(crate) use self::transition::{Counted, ExecutionChange, NextAttempt, Transition};
use self::waiting::{PayloadPage, PayloadWalk};
use crate::domain::{Covers, Entry, Error, ExecutionId, Lineage, Millis, ScheduleId, Timestamp};
use crate::time::TimeSample;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The reads and changes that a client's requests are made of: each a transaction of the store's own, or part
/// of a caller's.
pub(crate) trait Verbs {
    /// Reads a schedule by name.
    fn find(&self, application: &str, name: &str) -> Result<Option<Entry>>;

    /// A schedule's row by name, whether or not it can be understood.
    fn seen(&self, application: &str, name: &str) -> Result<Option<SeenSchedule>>;

    /// A schedule by name as people see it, unless it was removed.
    fn schedule(&self, application: &str, name: &str) -> Result<Option<ScheduleRow>>;

    /// The database's clock.
    fn now(&self) -> Result<Timestamp>;

    /// Makes guarded changes, all in one transaction, each with the rows that follow it; at most one per
    /// execution and kind, and per schedule. Answered in the order asked. [`Change`] has the table of them:
    /// which rows are waited for while others hold them, and which changes may be said twice.
    fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>>;

    /// Makes one guarded change and, if it is made, records it in the same transaction.
    fn apply_audited(&self, change: Change, entry: &AuditEntry) -> Result<Applied>;

    /// Creates or changes a schedule by (application, name); see [`Ensured`]. Its job's row is made if it is
    /// missing, and left as it is otherwise: the policy is for the nodes to say. What it changes is recorded.
    fn ensure(&self, definition: &Definition) -> Result<Ensured>;

    /// Makes the schedules of an owner be those that its code lists, in one transaction: creates, changes and
    /// removes, and records that. If all are so, and the revision is known, it only reads; so it does while a
    /// higher revision is known. [`ErrorKind::Config`](crate::ErrorKind::Config) if a name is another's.
    fn sync(&self, order: &SyncOrder) -> Result<SyncAnswer>;

    /// Makes an extra execution of a schedule, PENDING, beside those that are planned, and records it.
    fn order(&self, order: &RunOrder) -> Result<Ordered>;

    /// Makes an extra execution of each occurrence that is to be run again, or made up for: PENDING, under
    /// the occurrence's own fire time, and all of one origin; and records that.
    fn rerun(&self, order: &RerunOrder) -> Result<Reran>;

    /// Cancels the executions of a rerun that have not begun, asks the nodes that run others to end them, and
    /// records that.
    fn cancel_rerun(&self, order: &RerunCancel) -> Result<RerunCancelled>;

    /// Makes PENDING executions of a job without a schedule; their ids in the order of the payloads. The
    /// job's row and its queue are made if they are missing.
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if others have drawn the same origins.
    fn enqueue(&self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>>;

    /// As [`Verbs::enqueue`], of one execution with a key: if another of its job that has not ended has that,
    /// the order says what becomes of the two.
    fn enqueue_unique(&self, order: &EnqueueOrder) -> Result<Keyed>;

    /// Stores that an execution has succeeded, unless somebody has asked for its end.
    fn complete(&self, outcome: &ExecutionChange) -> Result<Completed>;

    /// Stores how far a handler has come, while it may run.
    fn checkpoint(&self, checkpoint: &ExecutionChange) -> Result<Applied>;

    /// Cancels an execution that has not begun, or asks the node that runs it to end it; and records that.
    fn cancel(&self, order: &ExecutionOrder) -> Result<Cancel>;

    /// Makes another attempt at an execution that has ended without success, unless one has followed it; and
    /// records that.
    fn retry(&self, order: &ExecutionOrder) -> Result<Retry>;

    /// Pauses, drains or resumes a job, a node or an application, and records that. The occurrences that a
    /// pause has held back are passed before it ends: see [`Verbs::passed`]. An application that has had no
    /// node yet is there once it has a job.
    fn switch(&self, order: &SwitchOrder) -> Result<Switched>;

    /// Active schedules of a paused job, or of a paused application, that were due before an instant; none of
    /// one that is not paused.
    fn passed(&self, query: &PassedQuery) -> Result<Vec<Entry>>;

    /// Executions, newest first.
    fn executions(&self, filter: &ExecutionQuery) -> Result<Vec<ExecutionRow>>;
}

/// Carries requests of other programs out.
pub(crate) trait Carrier: Send + Sync {
    /// Makes the changes that a request asks for. After an error, or a refusal, nothing of them is kept.
    fn carry_out(&self, asked: &Asked, actor: &str, verbs: &dyn Verbs) -> Result<Answered>;
}

/// All coordination of a cluster. Each method, those of [`Verbs`] too, is one store call: one transaction (or
/// one read), bounded by its caller's watchdog.
pub(crate) trait Store: Verbs + Send + Sync {
    /// Announces a node: inserts its row, the application's row if missing, and its jobs' rows (policies
    /// are updated where they differ). Safe when several first starts race.
    fn register(&self, node: &NewNode) -> Result<TimeSample>;

    /// Adds one to the node's beat and brings what the heartbeat needs, or says that the node's row is
    /// ended or gone: then it must register again as another.
    fn beat(&self, beat: &Heartbeat) -> Result<HeartbeatReply>;

    /// Whether its server takes no changes: a standby, or one that was made read-only.
    fn is_read_only(&self) -> Result<bool> {
        Ok(false)
    }

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
    /// matches: with [`IfNotMade::Claim`] claims it now; with [`IfNotMade::Prevent`] changes the row instead
    /// (a schedule's version, a PENDING execution's token), so that the call cannot claim it later, and is
    /// lost; so too where the schedule's slot is taken, or its job has a limit. Anything else: lost.
    fn resolve(&self, requests: &[ClaimRequest], if_not_made: IfNotMade) -> Result<Vec<Claim>>;

    /// As [`Verbs::apply`], and waits for no execution: one whose row another transaction holds is
    /// [`Applied::Held`].
    fn apply_free(&self, changes: &[Change]) -> Result<Vec<Applied>>;

    /// Makes one guarded change.
    fn apply_one(&self, change: Change) -> Result<Applied> {
        Ok(self.apply(&[change])?.pop().unwrap_or(Applied::Lost))
    }

    /// What was recorded, newest first.
    fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRow>>;

    /// Tries to become the application's misfire handler until `now + interval`: if the mark
    /// [is due](crate::time::is_election_due).
    fn elect(&self, application: &str, now: Timestamp, interval: Millis) -> Result<Applied>;

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

    /// Requests that other programs have written and that wait, by id.
    fn requests(&self, query: &RequestQuery) -> Result<Vec<Request>>;

    /// Carries out a request of another program and ends its row, in one transaction; or ends it as refused.
    fn carry_out(&self, request: &Request, carrier: &dyn Carrier) -> Result<CarriedOut>;

    /// Removes executions without a schedule, whose row somebody deleted: those that ended, and PENDING ones
    /// that were due, longer ago than `keep`. One bounded step of a walk.
    fn purge_orphans(&self, walk: &OrphanWalk) -> Result<PurgedOrphans>;

    /// The part of an `ensure` within a caller's transaction that is made and read outside of it; nothing on
    /// a database that has one writer at a time, which is that transaction.
    #[cfg(feature = "sql")]
    fn prepare(&self, _definition: &Definition) -> Result<Option<Prepared>> {
        Ok(None)
    }

    /// Pauses whose time is up, by the database's clock; where there are none, notes when the next one's is.
    fn ended_pauses(&self, application: &str) -> Result<Vec<EndedPause>>;

    /// The active jobs that have something to run and no live node which claims and lists them, and those
    /// whose rows say so although that is over; of the first 1,000 by name that nobody lists.
    fn nobody(&self, query: &NobodyQuery) -> Result<Vec<UnservedJob>>;

    /// Of the schedules that are to succeed within a span of each fire time and are in QRTZ_EXPECTED, by id:
    /// those whose rows are to say something else.
    fn expected(&self, query: &ExpectedQuery) -> Result<ExpectedPage>;

    /// Makes the rows in QRTZ_EXPECTED of these schedules, if something is expected of them.
    fn expect(&self, schedules: &[ScheduleId]) -> Result<()>;

    /// Removes the rows in QRTZ_EXPECTED of these schedules, if nothing is expected of them.
    fn expect_no_longer(&self, application: &str, schedules: &[ScheduleId]) -> Result<()>;

    /// Notes what this query has found of a schedule, and records it, if it would find the same now.
    fn note_expected(&self, query: &ExpectedQuery, found: &Expectation) -> Result<Applied>;

    /// The streak for which an active schedule is to be paused by its own rule; none if there is none.
    fn streak(&self, query: &StreakQuery) -> Result<Option<Streak>>;

    /// Pauses a schedule for a streak that this query has found, and records it, if it would find the same
    /// now. It waits for no row that another transaction holds: then it is lost.
    fn contain(&self, query: &StreakQuery, streak: &Streak) -> Result<Applied>;

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

    /// What a sync would come to, the refusal of a name included. It writes nothing.
    fn plan_sync(&self, order: &SyncOrder) -> Result<SyncAnswer>;

    /// What is known of an owner of schedules; none if it has never synced.
    fn owner(&self, application: &str, owner: &str) -> Result<Option<OwnerRow>>;

    /// A page of schedules. It looks at a bounded number of them.
    fn schedule_page(&self, query: &ScheduleQuery) -> Result<SchedulePage>;

    /// How many schedules an application has; of more than `most`, that many.
    fn count_schedules(&self, application: &str, most: usize) -> Result<usize>;

    /// How many active schedules each job of an application has; of more than `most`, that many.
    fn count_by_job(&self, application: &str, most: usize) -> Result<Vec<(String, usize)>>;

    /// Of each of these schedules the newest planned occurrences, at most so many: the last attempt at each.
    /// It looks at the two newest generations.
    fn past(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<PastRow>>;

    /// How many occurrences of a schedule the ledger holds, by the state of each attempt, in so many of its
    /// newest rows.
    fn counts(&self, schedule: ScheduleId, most: usize) -> Result<Vec<(String, i64)>>;

    /// What an execution covers, with so many rows of the ledger counted at most; none if there is no such
    /// execution.
    fn covers(&self, execution: ExecutionId, most: usize) -> Result<Option<Covers>>;

    /// The execution that stands for the occurrence planned at this instant, of a schedule that may be
    /// removed: the last attempt at it, or the row of the span that it was skipped in. It looks through the
    /// newest 64 generations.
    fn execution_at(&self, schedule: ScheduleId, at: Timestamp) -> Result<Option<ExecutionId>>;

    /// The first fire times of a span of which the ledger has a row, each once: those that were planned, not
    /// asked for by hand. It looks through the newest 64 generations.
    fn fire_times(
        &self,
        schedule: ScheduleId,
        span: &std::ops::Range<Timestamp>,
        limit: usize,
    ) -> Result<Vec<Timestamp>>;

    /// The instant from which the ledger has all that was planned; none while nothing was removed from it.
    fn ledger_from(&self, application: &str) -> Result<Option<Timestamp>>;

    /// A page of an application's schedules, each with the triggers it has had.
    fn ledger_schedules(&self, page: &LedgerPage) -> Result<Vec<LedgerSchedule>>;

    /// By what the rows of a range are found with less.
    fn ledger_lines_by(&self, range: &LedgerRange) -> Result<LinesBy>;

    /// A page of the ledger's rows but for enqueued executions, by schedule, generation, origin, fire time
    /// and attempt.
    fn ledger_lines(&self, query: &LineQuery) -> Result<Vec<LedgerLine>>;

    /// The last attempt of the last rerun of the occurrence of this fire time.
    fn rerun_at(&self, schedule: ScheduleId, at: Timestamp) -> Result<Option<ExecutionId>>;

    /// What [`Verbs::rerun`] would do now.
    fn plan_rerun(&self, order: &RerunOrder) -> Result<RerunPreview>;

    /// Payloads that handlers have yet to decode. One step of a walk over all rows of an application that may
    /// have one; what changes meanwhile may be missed.
    fn waiting_payloads(&self, walk: &PayloadWalk) -> Result<PayloadPage>;

    /// An application's figures: waiting executions, and schedules and nodes by state.
    fn figures(&self, query: &FiguresQuery) -> Result<Figures>;

    /// Adds up counts of outcomes; whether there may be more to add up. One bounded step.
    fn fold_outcomes(&self, fold: &OutcomeFold) -> Result<bool>;

    /// Counts of outcomes, by what the query tells apart, in the order of their beginnings.
    fn outcomes(&self, query: &OutcomeQuery) -> Result<Vec<(OutcomeSpan, OutcomeCounts)>>;

    /// Stores what runs have said, each under its claim token, in one transaction; at most one of each
    /// execution. One whose row another transaction holds is [`Applied::Held`]. The same may be said again,
    /// and late.
    fn say(&self, said: &[Said]) -> Result<Vec<Applied>>;

    /// What all attempts at the occurrence of an execution have said, by attempt, those that said nothing
    /// included; empty if the application has no such execution.
    fn said(&self, application: &str, execution: ExecutionId) -> Result<Vec<SaidBy>>;

    /// Whether the occurrences of these executions have ended, as far as the application has them.
    fn open_or_ended(
        &self,
        application: &str,
        executions: &[ExecutionId],
    ) -> Result<Vec<(ExecutionId, OpenOrEnded)>>;

    /// Tells the application's nodes that somebody waits for the ends of these, where the database
    /// [tells](Hearing::tells).
    fn announce_awaited(&self, _application: &str, _executions: &[ExecutionId]) -> Result<()> {
        Ok(())
    }

    /// Tells those who wait that runs of these have ended, where the database [tells](Hearing::tells).
    fn announce_ended(&self, _executions: &[ExecutionId]) -> Result<()> {
        Ok(())
    }

    /// How far the handlers of an execution have come, as JSON, if one has said so.
    fn checkpoint_of(&self, execution: ExecutionId) -> Result<Option<String>>;
}
