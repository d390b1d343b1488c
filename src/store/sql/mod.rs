//! The store on SQLite, PostgreSQL and MariaDB: one implementation, and what differs behind
//! [`Dialect`](dialect::Dialect) and [`Database`](dialect::database::Database).
//!
//! ```text
//! session     diesel behind a trait: statements, rows, batches, and what their errors mean
//! connection  the database that a URL names, the pool, calls with their retries, a caller's connection
//! dialect     differences of a word or a line; sqlite, postgres and mariadb have what each does as a whole
//! rows        schedules, policies and executions under way, as statements read them
//! claim       claims of planned occurrences and of waiting executions, and the bounds of jobs
//! verbs       the table of changes, and what clients and nodes change
//! poll        schedules and executions to be planned, and the news of others' changes
//! misfire     rows that the misfire handler looks for and removes
//! views       views for people, and of the payloads that wait
//! migrate     the schema
//! ```

mod claim;
mod connection;
mod dialect;
mod migrate;
mod misfire;
mod poll;
mod rows;
mod session;
mod verbs;
mod views;

#[cfg(test)]
#[cfg_attr(
    not(all(feature = "postgres", feature = "mysql")),
    allow(unused, reason = "many cases are for one of these databases")
)]
pub(crate) mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use connection::Connections;
use connection::call::SqlStore;
pub use connection::caller::CallerConnection;
#[cfg(feature = "tokio")]
pub use connection::caller::driver;
pub(crate) use connection::target::Target;
pub use migrate::MigrationReport;
pub(crate) use migrate::{check_schema, migrate};
use misfire::{expected, nobody, orphans, outcomes as counted, purge, purge_queue, streak, unreadable};
use session::Session;
use session::fault::{Fault, Step};
use verbs::calls::{calls, shared_verbs};
pub(crate) use verbs::joined::joined;
use verbs::{audit, change, ensure, node, order, queue, requests, rerun, said, switch, sync};
use views::{awaited, covers, figures, history, inspect, ledger, outcomes, past, place, schedules, waiting};

use super::audit::{AuditEntry, AuditQuery, AuditRow};
use super::awaited::OpenOrEnded;
use super::enqueue::{EnqueueOrder, Keyed};
use super::expected::{Expectation, ExpectedPage, ExpectedQuery};
use super::figures::{Figures, FiguresQuery};
use super::ledger::{LedgerLine, LedgerPage, LedgerRange, LedgerSchedule, LineQuery, LinesBy};
use super::news::{Ear, Glance, GlanceQuery, Hearing};
use super::nobody::{NobodyQuery, UnservedJob};
use super::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use super::outcomes::{OutcomeCounts, OutcomeFold, OutcomeQuery, OutcomeSpan};
use super::past::PastRow;
use super::request::{CarriedOut, Request, RequestQuery};
use super::rerun::{Reran, RerunCancel, RerunCancelled, RerunOrder, RerunPreview};
use super::said::{Said, SaidBy};
use super::schedules::{SchedulePage, ScheduleQuery};
use super::streak::{Streak, StreakQuery};
use super::switch::{EndedPause, PassedQuery, SwitchOrder, Switched};
use super::sync::{OwnerRow, SyncAnswer, SyncOrder};
use super::waiting::{PayloadPage, PayloadWalk};
use super::{
    ApplicationRow, Applied, Carrier, Change, Claim, ClaimRequest, Completed, Definition, Ensured,
    ExecutionChange, ExecutionQuery, ExecutionRow, Heartbeat, HeartbeatReply, IfNotMade, JobRow,
    LargePayload, NewNode, NodeRow, OrphanWalk, OverduePage, OverdueQuery, PollQuery, Polled, Prepared,
    Purge, Purged, PurgedOrphans, PurgedQueues, QueueWalk, Result, ScheduleRow, SeenSchedule, Store,
    StoreLimits, StrandedPage, UnreadablePage, UnreadableQuery, Verbs, Withdrawn,
};
use crate::domain::{Covers, Entry, ErrorKind, ExecutionId, Lineage, Millis, ScheduleId, Timestamp};
use crate::time::{Clock, TimeSample, span};

/// Opens a store on the database `url` names. Nothing is connected to yet.
///
/// A SQLite database in memory (`sqlite::memory:`) is migrated at once: nobody else could.
///
/// # Errors
/// `ErrorKind::Config` if the URL names no database this build can speak to.
pub(crate) fn open(url: &str, limits: StoreLimits, clock: Arc<Clock>) -> Result<Arc<dyn Store>> {
    Target::parse(url)?.open(limits, clock)
}

impl Target {
    /// Opens one of several stores: all follow the same server.
    pub(crate) fn open(&self, limits: StoreLimits, clock: Arc<Clock>) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(SqlStore::on(self.clone(), limits, clock)?))
    }
}

impl SqlStore {
    #[cfg(test)]
    fn open(url: &str, limits: StoreLimits, clock: Arc<Clock>) -> Result<Self> {
        Self::on(Target::parse(url)?, limits, clock)
    }

    fn on(target: Target, limits: StoreLimits, clock: Arc<Clock>) -> Result<Self> {
        target.note_file();
        let memory = target.memory;
        let wary = AtomicBool::new(false);
        let call = limits.call;
        let store = Self { connections: Connections::open(target, limits)?, clock, call, wary };
        if memory {
            let mut link = store.connections.get(span(call)).map_err(|fault| store.error("open", fault))?;
            let migrated = migrate::bring_up(link.session.as_mut(), migrate::MIGRATIONS);
            migrated.map_err(|fault| store.error("migrate", fault))?;
        }
        Ok(store)
    }

    /// The first `most` rows of a view, read in pages of `limit`: each statement has the time limit of its
    /// own. The next page begins behind the last row, if that has a key.
    fn paged<T>(
        &self,
        operation: &str,
        (limit, most): (usize, usize),
        has_key: impl Fn(&T) -> bool,
        page: impl Fn(&mut dyn Session, Option<&T>, usize) -> Step<Vec<T>>,
    ) -> Result<Vec<T>> {
        let mut rows: Vec<T> = Vec::new();
        // Without such a limit all are read at once: SQLite, which has none, keeps keys that are no text, and
        // nothing could be read behind these.
        let limit = if self.connections.target.dialect.limits_statements() { limit } else { usize::MAX };
        loop {
            let limit = limit.min(most - rows.len());
            let next = self.read(operation, |session| page(session, rows.last(), limit))?;
            let is_short = next.len() < limit;
            rows.extend(next);
            let is_last = is_short || rows.len() == most;
            match rows.last() {
                Some(last) if !is_last && !has_key(last) => {
                    let fault = Fault::undecodable("a page ends with a key that is no text".to_owned());
                    return Err(self.error(operation, fault));
                }
                _ if is_last => return Ok(rows),
                _ => {}
            }
        }
    }

    fn apply_by(
        &self,
        apply: fn(&mut dyn Session, &[Change]) -> Step<Vec<Applied>>,
        is_one_statement: bool,
        changes: &[Change],
    ) -> Result<Vec<Applied>> {
        let Some(operation) = changes.first().map(|change| change.rule().operation) else {
            return Ok(Vec::new());
        };
        let work = |session: &mut dyn Session| Ok((apply(session, changes)?, session.certifies()));
        let (applied, certifies) =
            if is_one_statement { self.alone(operation, work) } else { self.write(operation, work) }?;
        if certifies { self.apply_again(operation, apply, changes, applied) } else { Ok(applied) }
    }

    /// A change whose row was not as it was seen is made once more, on a member of a Galera cluster that has
    /// caught up: the row may just not have arrived there.
    fn apply_again(
        &self,
        operation: &str,
        apply: fn(&mut dyn Session, &[Change]) -> Step<Vec<Applied>>,
        changes: &[Change],
        mut applied: Vec<Applied>,
    ) -> Result<Vec<Applied>> {
        let lost: Vec<usize> = (0..changes.len()).filter(|place| applied[*place] == Applied::Lost).collect();
        if lost.is_empty() {
            return Ok(applied);
        }
        let changes: Vec<Change> = lost.iter().map(|place| changes[*place].clone()).collect();
        let again = self.write_caught_up(operation, |session| apply(session, &changes));
        // The others may be made: an error must not say that nothing is.
        let are_all_lost = lost.len() == applied.len();
        let again = again.map_err(|error| match are_all_lost {
            true => error,
            false => error.unknown(),
        })?;
        for (place, again) in lost.into_iter().zip(again) {
            applied[place] = again;
        }
        Ok(applied)
    }

    fn schedules_by(&self, application: Option<&str>, limit: usize) -> Result<Vec<ScheduleRow>> {
        let page = |session: &mut dyn Session, after: Option<&ScheduleRow>, limit| {
            inspect::schedules(session, application, after, limit)
        };
        self.paged("list schedules", (limit, usize::MAX), |row| !row.name.is_empty(), page)
    }
}

impl Verbs for SqlStore {
    shared_verbs!();

    fn find(&self, application: &str, name: &str) -> Result<Option<Entry>> {
        self.read("find a schedule", |session| ensure::find(session, application, name, ""))
    }

    fn seen(&self, application: &str, name: &str) -> Result<Option<SeenSchedule>> {
        self.read("find a schedule", |session| ensure::seen(session, application, name, ""))
    }

    fn schedule(&self, application: &str, name: &str) -> Result<Option<ScheduleRow>> {
        self.read("find a schedule", |session| inspect::schedule_named(session, application, name, ""))
    }

    fn now(&self) -> Result<Timestamp> {
        self.read("read the database's clock", |session| Ok(self.sample(session)?.db()))
    }

    fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        let is_one_statement = change::is_one_statement(self.connections.target.dialect, changes);
        self.apply_by(order::apply, is_one_statement, changes)
    }

    fn apply_audited(&self, change: Change, entry: &AuditEntry) -> Result<Applied> {
        let apply = |session: &mut dyn Session| {
            Ok((switch::apply_audited(session, &change, entry)?, session.certifies()))
        };
        let operation = change.rule().operation;
        match self.write(operation, apply)? {
            // As in `apply_again`.
            (Applied::Lost, true) => Ok(self.write_caught_up(operation, apply)?.0),
            (applied, _) => Ok(applied),
        }
    }

    fn ensure(&self, definition: &Definition) -> Result<Ensured> {
        self.write("ensure a schedule", |session| ensure::ensure(session, definition, None))
    }

    /// Mostly all is so: then no transaction that writes is begun.
    fn sync(&self, order: &SyncOrder) -> Result<SyncAnswer> {
        let planned = self.plan_sync(order)?;
        match order.needs_nothing(&planned) {
            true => Ok(planned),
            false => self.write_caught_up("sync schedules", |session| sync::sync(session, order, None)),
        }
    }

    fn enqueue(&self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>> {
        /// So often others may draw the same origins.
        const TRIES: usize = 5;
        let enqueue = || self.write("enqueue", |session| queue::enqueue(session, order));
        let mut tries = (0..TRIES).map(|_| enqueue());
        let settled =
            |result: &Result<_>| !matches!(result, Err(error) if error.kind() == ErrorKind::Conflict);
        tries.find(settled).unwrap_or_else(enqueue)
    }

    fn executions(&self, filter: &ExecutionQuery) -> Result<Vec<ExecutionRow>> {
        self.read("list executions", |session| history::executions(session, filter))
    }
}

impl Store for SqlStore {
    calls! {
        read glance(query: &GlanceQuery) -> Glance = "glance", poll::news::glance;
        read payloads(schedules: &[ScheduleId]) -> Vec<LargePayload> = "read payloads", poll::payloads;
        read audit(query: &AuditQuery) -> Vec<AuditRow> = "read the audit", audit::list;
        read overdue(query: &OverdueQuery) -> OverduePage = "look for overdue schedules", poll::overdue;
        read stranded(application: &str, after: ExecutionId, limit: usize) -> StrandedPage =
            "look for stranded executions", node::stranded;
        read withdrawn(application: &str, limit: usize) -> Vec<Withdrawn> =
            "look for executions of removed schedules", change::withdrawn;
        read unreadable(query: &UnreadableQuery) -> UnreadablePage =
            "look for broken schedules", unreadable::unreadable;
        write purge(purge: &Purge) -> Purged = "purge the ledger", purge::purge;
        write purge_queues(walk: &QueueWalk) -> PurgedQueues =
            "purge enqueued executions", purge_queue::purge;
        read requests(query: &RequestQuery) -> Vec<Request> = "look for requests", requests::page;
        write purge_orphans(walk: &OrphanWalk) -> PurgedOrphans =
            "purge executions without a schedule", orphans::purge;
        write ended_pauses(application: &str) -> Vec<EndedPause> = "look for ended pauses", switch::ended;
        read expected(query: &ExpectedQuery) -> ExpectedPage =
            "look for what was expected", expected::expected;
        write expect(schedules: &[ScheduleId]) -> () = "note what is expected", expected::expect;
        write expect_no_longer(application: &str, schedules: &[ScheduleId]) -> () =
            "forget what was expected", expected::expect_no_longer;
        write_caught_up note_expected(query: &ExpectedQuery, found: &Expectation) -> Applied =
            "note what was expected", expected::note;
        read nobody(query: &NobodyQuery) -> Vec<UnservedJob> = "look for jobs nobody can run", nobody::nobody;
        read streak(query: &StreakQuery) -> Option<Streak> = "count what failed in a row", streak::streak;
        write_caught_up contain(query: &StreakQuery, streak: &Streak) -> Applied =
            "pause a schedule that fails", streak::contain;
        write saw_cancels(executions: &[ExecutionId]) -> () =
            "note that cancels were seen", order::saw_cancels;
        write_caught_up say(said: &[Said]) -> Vec<Applied> = "store what handlers say", said::say;
        read said(application: &str, execution: ExecutionId) -> Vec<SaidBy> =
            "read what handlers said", said::said;
        read open_or_ended(application: &str, executions: &[ExecutionId]) -> Vec<(ExecutionId, OpenOrEnded)> =
            "ask whether executions have ended", awaited::open_or_ended;
        write announce_awaited(application: &str, executions: &[ExecutionId]) -> () =
            "announce who waits", poll::news::tell_awaited;
        write announce_ended(executions: &[ExecutionId]) -> () =
            "announce what has ended", poll::news::tell_ended;
        read jobs(application: &str) -> Vec<JobRow> = "list jobs", inspect::jobs;
        read plan_sync(order: &SyncOrder) -> SyncAnswer = "plan a sync", sync::plan;
        read owner(application: &str, owner: &str) -> Option<OwnerRow> = "find an owner", sync::owner;
        read schedule_page(query: &ScheduleQuery) -> SchedulePage = "list schedules", schedules::page;
        read count_schedules(application: &str, most: usize) -> usize = "count schedules", schedules::count;
        read count_by_job(application: &str, most: usize) -> Vec<(String, usize)> =
            "count schedules", schedules::count_by_job;
        read past(schedules: &[ScheduleId], most: usize) -> Vec<PastRow> =
            "list what became of schedules", past::past;
        read counts(schedule: ScheduleId, most: usize) -> Vec<(String, i64)> =
            "count a schedule's executions", inspect::counts;
        read waiting_payloads(walk: &PayloadWalk) -> PayloadPage =
            "read payloads that wait", waiting::waiting;
        read figures(query: &FiguresQuery) -> Figures = "read the cluster's figures", figures::figures;
        read outcomes(query: &OutcomeQuery) -> Vec<(OutcomeSpan, OutcomeCounts)> =
            "count outcomes", outcomes::outcomes;
        read checkpoint_of(execution: ExecutionId) -> Option<String> =
            "read a checkpoint", inspect::checkpoint;
        read covers(execution: ExecutionId, most: usize) -> Option<Covers> =
            "ask what an execution covers", covers::covers;
        read ledger_from(application: &str) -> Option<Timestamp> =
            "look where the ledger begins", ledger::from;
        read ledger_schedules(page: &LedgerPage) -> Vec<LedgerSchedule> =
            "read schedules and their triggers", ledger::schedules;
        read ledger_lines_by(range: &LedgerRange) -> LinesBy =
            "look how much of the ledger a range is", ledger::lines_by;
        read ledger_lines(query: &LineQuery) -> Vec<LedgerLine> = "read the ledger", ledger::lines;
        read execution_at(schedule: ScheduleId, at: Timestamp) -> Option<ExecutionId> =
            "look for an occurrence", place::execution_at;
        read fire_times(schedule: ScheduleId, span: &Range<Timestamp>, limit: usize) -> Vec<Timestamp> =
            "list fire times", place::fire_times;
        read rerun_at(schedule: ScheduleId, at: Timestamp) -> Option<ExecutionId> =
            "look for a rerun", place::rerun_at;
        read plan_rerun(order: &RerunOrder) -> RerunPreview = "plan a rerun", rerun::plan;
    }

    fn fold_outcomes(&self, fold: &OutcomeFold) -> Result<bool> {
        let operation = "add up outcomes";
        match self.read(operation, |session| counted::has_any(session, fold))? {
            true => self.write(operation, |session| counted::fold(session, fold)),
            false => Ok(false),
        }
    }

    fn register(&self, node: &NewNode) -> Result<TimeSample> {
        self.write("register the node", |session| {
            node::register(session, node)?;
            self.sample(session)
        })
    }

    fn is_read_only(&self) -> Result<bool> {
        self.read("ask whether the server takes changes", session::is_read_only)
    }

    fn lineage(&self) -> Option<Lineage> {
        self.connections.target.lineage()
    }

    fn beat(&self, beat: &Heartbeat) -> Result<HeartbeatReply> {
        if let Some(path) = self.connections.target.replaced_file() {
            return Ok(HeartbeatReply::DatabaseReplaced(path));
        }
        // A beat counted twice does no harm, so a lost one is repeated on a fresh connection. Otherwise,
        // where idle connections are closed between two heartbeats, each second one would fail, and an
        // observer that never has two confirmed in a row declares nobody dead.
        self.read("heartbeat", |session| {
            let mut counted = node::beat(session, beat)?;
            if !counted.is_done() && session.certifies() {
                session::catch_up(session)?;
                counted = node::beat(session, beat)?;
            }
            match counted.is_done() {
                true => node::reply(session, beat),
                false => Ok(HeartbeatReply::Ended),
            }
        })
    }

    fn poll(&self, query: &PollQuery) -> Result<Polled> {
        self.read("poll", |session| {
            let polled = poll::poll(session, query, &self.clock)?;
            // A node that has drained claims nothing before it is resumed.
            if query.drains && !polled.drains && session.certifies() {
                session::catch_up(session)?;
                return poll::poll(session, query, &self.clock);
            }
            Ok(polled)
        })
    }

    fn apply_free(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        self.apply_by(order::apply_free, false, changes)
    }

    fn hearing(&self) -> Hearing {
        self.connections.target.dialect.hearing()
    }

    fn listen(&self, application: &str) -> Result<Box<dyn Ear>> {
        let (target, limits) =
            (&self.connections.target, StoreLimits { call: self.call, ..StoreLimits::default() });
        let ear = target.dialect.database().listen(target, limits, application);
        ear.map_err(|fault| self.error("listen", fault))
    }

    fn claim(&self, requests: &[ClaimRequest]) -> Result<Vec<Claim>> {
        claim::claim(self, requests)
    }

    fn resolve(&self, requests: &[ClaimRequest], if_not_made: IfNotMade) -> Result<Vec<Claim>> {
        claim::resolve(self, requests, if_not_made)
    }

    fn carry_out(&self, request: &Request, carrier: &dyn Carrier) -> Result<CarriedOut> {
        requests::carry_out(self, request, carrier)
    }

    fn elect(&self, application: &str, now: Timestamp, interval: Millis) -> Result<Applied> {
        let operation = "elect the misfire handler";
        let elect = |session: &mut dyn Session| node::elect(session, application, now, interval);
        let elected = self.alone(operation, elect)?;
        if elected.is_done() {
            return Ok(elected);
        }
        // Its row may be missing.
        self.write(operation, |session| match node::app(session, application)? {
            true => elect(session),
            false => Ok(elected),
        })
    }

    fn prepare(&self, definition: &Definition) -> Result<Option<Prepared>> {
        if self.connections.target.dialect.has_one_writer() {
            return Ok(None);
        }
        self.write("ensure a schedule", |session| ensure::prepare(session, definition)).map(Some)
    }

    fn nodes(&self, application: Option<&str>) -> Result<Vec<NodeRow>> {
        let page = |session: &mut dyn Session, after: Option<&NodeRow>, limit| {
            inspect::nodes(session, application, after, limit)
        };
        let mut nodes =
            self.paged("list nodes", (inspect::PAGE, usize::MAX), |row| !row.id.is_empty(), page)?;
        nodes.sort_by(|one, other| (other.started, &one.id).cmp(&(one.started, &other.id)));
        Ok(nodes)
    }

    fn applications(&self) -> Result<Vec<ApplicationRow>> {
        self.read("list applications", inspect::applications)
    }

    fn schedules(&self, application: Option<&str>) -> Result<Vec<ScheduleRow>> {
        self.schedules_by(application, inspect::PAGE)
    }
}
