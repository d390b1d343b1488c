//! One suite that holds every store to one behaviour: in memory, SQLite, PostgreSQL, MariaDB.
//!
//! A case is a function over a [`Bench`], named after what must hold or who loses. A database takes part
//! by implementing [`Fixture`] and naming it once:
//!
//! ```text
//! struct SqliteFixture { .. }
//! impl Fixture for SqliteFixture { .. }
//! conformance!(sqlite, SqliteFixture);      // one #[test] per case, in `mod sqlite`
//! ```
//!
//! with `use crate::store::conformance::{Fixture, RowKey, conformance};`. Cases run side by side on one
//! database: each has an application of its own, and no case looks beyond it. Nothing sleeps; threads
//! that race meet at a barrier and give up at a deadline.
//!
//! [`Fixture::set`] is one statement, `UPDATE {row.table()} SET {column} = {value} WHERE {row.condition()}`,
//! and must change exactly one row; [`Fixture::get`] is the SELECT beside it. `value` is an SQL literal
//! that all four databases read alike: `NULL`, `'text'` or a whole number. [`Fixture::lock`] opens a
//! transaction on a connection of its own, `SELECT 1 FROM {row.table()} WHERE {row.condition()} FOR UPDATE`,
//! and rolls it back when dropped. A database that can do that takes part in `conformance_of_row_locks!` too;
//! SQLite has no row locks.
//!
//! Fire times lie an hour ahead of the database's clock: no call but `ensure` compares with it.

pub(crate) mod audit;
pub(crate) mod awaited;
pub(crate) mod broken;
pub(crate) mod cancelled;
mod cases;
pub(crate) mod claims;
pub(crate) mod concurrency;
pub(crate) mod covers;
pub(crate) mod definitions;
pub(crate) mod delays;
pub(crate) mod edited;
pub(crate) mod enqueued;
pub(crate) mod expected;
pub(crate) mod figures;
pub(crate) mod guards;
pub(crate) mod ledger;
pub(crate) mod listed;
pub(crate) mod news;
pub(crate) mod nobody;
pub(crate) mod nodes;
pub(crate) mod ordered;
pub(crate) mod outcomes;
pub(crate) mod overlaps;
pub(crate) mod pages;
pub(crate) mod polls;
pub(crate) mod purge;
pub(crate) mod races;
pub(crate) mod removed;
pub(crate) mod repairs;
pub(crate) mod requests;
pub(crate) mod reruns;
pub(crate) mod resolve;
mod row_key;
pub(crate) mod said;
pub(crate) mod settle;
pub(crate) mod stranded;
pub(crate) mod streaks;
pub(crate) mod switched;
pub(crate) mod synced;
pub(crate) mod timed_out;
pub(crate) mod traps;
pub(crate) mod triggers;
pub(crate) mod waiting;
pub(crate) mod withdrawn;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::domain::shards::Share;
use crate::domain::{
    Answer, Boot, Candidate, Entry, ExecutionId, JobPolicy, JobSpec, Millis, MisfirePolicy, NodeId,
    Occurrence, Overlap, Pending, ScheduleId, Timestamp, Token,
};
use crate::fixtures::{Changes, new_node};
use crate::repair::Revocation;
use crate::store::columns::NO_TIME;
use crate::store::poll::SMALL_PAYLOAD;
use crate::store::{
    Applied, Change, Claim, ClaimRequest, Claimed, Definition, Ensured, ExecutionChange, ExecutionQuery,
    ExecutionRow, IfNotMade, NewNode, NextAttempt, OverdueQuery, Page, PollQuery, Polled, Repair,
    ScheduleRow, SeenSchedule, Store, Stranded, Transition, UnreadableQuery, UnreadableRow, Unstarted,
};
use crate::time::Lease;
use crate::trigger::{Simple, Trigger};

/// All that a walk in steps of so many rows finds.
pub(crate) fn all_broken(
    store: &dyn Store,
    application: &str,
    step: usize,
    limit: usize,
) -> Vec<UnreadableRow> {
    let mut found: Vec<UnreadableRow> = Vec::new();
    let (application, before) = (application.to_owned(), store.now().unwrap());
    let mut query = UnreadableQuery {
        application,
        after: ScheduleId(i64::MIN),
        step,
        from: Timestamp::at(0),
        before,
        limit,
        ahead: None,
    };
    loop {
        let page = store.unreadable(&query).unwrap();
        found.extend(page.broken);
        match page.next {
            Some(next) if next > query.after => query.after = next,
            Some(next) => panic!("a step from {:?} to {next:?}", query.after),
            None => break,
        }
    }
    found.sort_by_key(|broken| broken.seen.id);
    found.dedup_by_key(|broken| broken.seen.id);
    found
}

/// A database under test.
pub(crate) trait Fixture: Send + Sync {
    /// Connects to the migrated database; panics, saying what is missing, if this run has none such.
    fn open() -> Self
    where
        Self: Sized;

    fn store(&self) -> Arc<dyn Store>;

    /// Holds the row of a schedule, an execution or a job locked, in another transaction, until the answer is
    /// dropped.
    fn lock(&self, row: RowKey<'_>) -> Box<dyn Send + '_>;

    /// Writes one column of one row past the store.
    fn set(&self, row: RowKey<'_>, column: &str, value: &str);

    /// Reads one column of one row past the store, as text; `None` is NULL.
    fn get(&self, row: RowKey<'_>, column: &str) -> Option<String>;

    /// Whether an execution counts towards its job's bounds, or did when it was last looked at.
    fn is_noted(&self, id: ExecutionId) -> bool;

    /// Whether what an execution has said is kept, whether or not the execution is.
    fn has_said(&self, id: ExecutionId) -> bool;

    /// By how many executions a tag is found, as long as they are there.
    fn tagged(&self, tag: &str) -> usize;

    /// Inserts a request as other programs do; its id.
    fn request(&self, application: &str, verb: &str, arguments: &str) -> i64;

    fn has_request(&self, id: i64) -> bool;
}

pub(crate) use cases::{conformance, conformance_of_row_locks, for_each_case};
pub(crate) use row_key::RowKey;

/// Runs one case, if this run has the database.
pub(crate) fn run<F: Fixture + 'static>(case: fn(&Bench)) {
    case(&Bench::new(Box::new(F::open())));
}

/// The job every schedule of the suite runs, unless a case says otherwise.
pub(crate) const JOB: &str = "work";

/// The threads of a race give up after this.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A lease that holds for ever.
const ENDLESS: Lease = Lease { until: Boot::MAX, apart: 0 };

/// One case's corner of the database: an application of its own with one live node.
pub(crate) struct Bench {
    fixture: Box<dyn Fixture>,
    pub store: Arc<dyn Store>,
    pub app: String,
    pub node: NodeId,
    /// The database's time when the case began.
    pub now: Timestamp,
    /// The first fire time of the suite's schedules: a whole second about an hour ahead.
    pub base: Timestamp,
}

impl Bench {
    pub fn new(fixture: Box<dyn Fixture>) -> Self {
        let store = fixture.store();
        let now = store.now().unwrap();
        let base = now - now.millis() % 1_000 + 3_600_000;
        let bench = Self { fixture, store, app: fresh_name(), node: NodeId::fresh(), now, base };
        bench.join(bench.node, &[JOB]);
        bench
    }

    /// Registers a node of the case's application.
    pub fn join(&self, id: NodeId, jobs: &[&str]) {
        self.store.register(&self.new_node(id, &self.app, jobs)).unwrap();
    }

    pub fn new_node(&self, id: NodeId, application: &str, jobs: &[&str]) -> NewNode {
        let jobs = jobs.iter().map(|name| job(name)).collect();
        NewNode {
            host_ip: "192.0.2.1".to_owned(),
            host_name: "bench".to_owned(),
            pid: 4_711,
            ..new_node(id, application, jobs, self.now)
        }
    }

    /// Another node of the application, live.
    pub fn another_node(&self) -> NodeId {
        let node = NodeId::fresh();
        self.join(node, &[JOB]);
        node
    }

    /// Every second from [`Bench::base`], for ever.
    pub fn definition(&self, name: &str) -> Definition {
        let trigger = every(self.base, 1_000, -1);
        let (application, payload) = (self.app.clone(), "{}".to_owned());
        let (job, overlap) = (job(JOB), Some(Overlap::Allow));
        Definition { application, job, payload, priority: 0, overlap, ..Definition::new(name, JOB, trigger) }
    }

    pub fn create(&self, definition: &Definition) -> Arc<Entry> {
        assert_eq!(self.store.ensure(definition).unwrap(), Ensured::Created);
        self.entry(&definition.name)
    }

    /// A new schedule as [`Bench::definition`] describes it.
    pub fn schedule(&self, name: &str) -> Arc<Entry> {
        self.create(&self.definition(name))
    }

    pub fn entry(&self, name: &str) -> Arc<Entry> {
        Arc::new(self.store.find(&self.app, name).unwrap().expect("the schedule exists"))
    }

    pub fn schedule_row(&self, id: ScheduleId) -> ScheduleRow {
        let rows = self.store.schedules(Some(&self.app)).unwrap();
        rows.into_iter().find(|row| row.id == id.0).expect("the schedule exists")
    }

    /// A request of the case's own node, not at once.
    pub fn request(&self, candidate: Candidate) -> ClaimRequest {
        let (node, now) = (self.node, self.now);
        let (token, lease) = (Token::fresh(), ENDLESS);
        ClaimRequest { candidate, token, node, at_once: false, lease, waited: None, now }
    }

    /// A request for the occurrence the entry's cursor points at.
    pub fn head(&self, entry: &Arc<Entry>) -> ClaimRequest {
        self.request(Candidate::Planned(Occurrence::head(entry).expect("something is left")))
    }

    /// Whoever looks through a small table may hold a row for a moment that is none of theirs: a skipped one
    /// is tried again.
    pub fn claim(&self, request: &ClaimRequest) -> Claim {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let mut claims = self.store.claim(std::slice::from_ref(request)).unwrap();
            assert_eq!(claims.len(), 1);
            match claims.remove(0) {
                Claim::Skipped if Instant::now() < deadline => {}
                ended => return ended,
            }
        }
    }

    pub fn resolve(&self, request: &ClaimRequest) -> Claim {
        self.resolve_all(std::slice::from_ref(request)).remove(0)
    }

    /// As [`Bench::claim`]: until none of the rows is held.
    pub fn resolve_all(&self, requests: &[ClaimRequest]) -> Vec<Claim> {
        self.resolve_until(requests, |claims| !claims.iter().any(|claim| matches!(claim, Claim::Skipped)))
    }

    /// Resolves again and again, until it ends so.
    pub fn resolve_until(&self, requests: &[ClaimRequest], ends: impl Fn(&[Claim]) -> bool) -> Vec<Claim> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let claims = self.store.resolve(requests, IfNotMade::Claim).unwrap();
            assert_eq!(claims.len(), requests.len());
            if ends(&claims) {
                return claims;
            }
            assert!(Instant::now() < deadline, "{claims:?}");
        }
    }

    pub fn claim_head(&self, entry: &Arc<Entry>) -> Claimed {
        won(self.claim(&self.head(entry)))
    }

    /// A claim of the entry's head whose row says RUNNING.
    pub fn run_head(&self, entry: &Arc<Entry>) -> Claimed {
        won(self.claim(&ClaimRequest { at_once: true, ..self.head(entry) }))
    }

    pub fn settle(&self, settlement: &ExecutionChange) -> Applied {
        let applied = self.store.settle(std::slice::from_ref(settlement)).unwrap();
        assert_eq!(applied.len(), 1);
        applied[0]
    }

    /// A schedule whose first occurrence is PENDING again: claimed and given back.
    pub fn pending(&self, name: &str) -> Pending {
        let entry = self.schedule(name);
        let claimed = self.claim_head(&entry);
        let id = claimed.execution();
        assert_eq!(self.settle(&claimed.give_back(self.now)), Applied::Done);
        self.find_pending(id).expect("given back")
    }

    /// The execution as a poll brings it, if it does.
    pub fn find_pending(&self, id: ExecutionId) -> Option<Pending> {
        self.poll(Timestamp::MAX).pendings.into_iter().find(|pending| pending.id == id)
    }

    /// All PENDING executions of a schedule a poll brings.
    pub fn pendings_of(&self, id: ScheduleId) -> Vec<Pending> {
        self.poll(Timestamp::MAX).pendings.into_iter().filter(|pending| pending.entry.id == id).collect()
    }

    pub fn query(&self, until: Timestamp) -> PollQuery {
        PollQuery {
            node: self.node,
            application: self.app.clone(),
            shares: vec![Share::whole(vec![JOB.to_owned()])],
            names: Vec::new(),
            listed: vec![JOB.to_owned()],
            from: Timestamp::at(0),
            pending_from: Timestamp::MIN,
            until,
            late: self.now,
            page: Page::FIRST,
            limit: 1_000,
            drains: false,
        }
    }

    pub fn poll(&self, until: Timestamp) -> Polled {
        self.store.poll(&self.query(until)).unwrap()
    }

    /// The names of the schedules a poll brings, in its order.
    pub fn polled(&self, until: Timestamp) -> Vec<String> {
        names(self.poll(until).entries.iter().map(|entry| &**entry))
    }

    pub fn overdue_query(&self, before: Timestamp) -> OverdueQuery {
        OverdueQuery {
            application: self.app.clone(),
            from: Timestamp::at(0),
            before,
            sections: None,
            limit: 1_000,
        }
    }

    pub fn overdue(&self, before: Timestamp) -> Vec<String> {
        names(self.store.overdue(&self.overdue_query(before)).unwrap().entries.iter())
    }

    pub fn stranded(&self) -> Vec<Stranded> {
        self.store.stranded(&self.app, ExecutionId(0), 1_000).unwrap().stranded
    }

    /// What earlier misfire repairs of a schedule left PENDING.
    pub fn unstarted(&self, id: ScheduleId) -> Vec<Unstarted> {
        let unstarted = self.store.overdue(&self.overdue_query(Timestamp::MAX)).unwrap().unstarted;
        unstarted.into_iter().filter(|it| it.schedule == id).collect()
    }

    pub fn repaired(&self, repair: &Repair) -> bool {
        self.store.repair(std::slice::from_ref(repair)).unwrap() == [true]
    }

    pub fn revoked(&self, revocation: &Revocation) -> bool {
        self.store.revoke(std::slice::from_ref(revocation)).unwrap() == [true]
    }

    /// Makes one change of the table.
    pub fn applied(&self, change: &Change) -> bool {
        self.store.apply(std::slice::from_ref(change)).unwrap() == [Applied::Done]
    }

    pub fn unreadable(&self) -> Vec<UnreadableRow> {
        all_broken(self.store.as_ref(), &self.app, 10_000, 1_000)
    }

    /// Every execution of the application, newest first.
    pub fn executions(&self) -> Vec<ExecutionRow> {
        let application = Some(self.app.clone());
        self.store.executions(&ExecutionQuery { application, limit: 100_000, ..Default::default() }).unwrap()
    }

    pub fn execution(&self, id: ExecutionId) -> ExecutionRow {
        self.executions().into_iter().find(|row| row.id == id.0).expect("the execution exists")
    }

    /// A repair that moves the entry's cursor over its next occurrence, without a row.
    pub fn repair(&self, entry: &Arc<Entry>) -> Repair {
        let head = Occurrence::head(entry).expect("something is left");
        let to = crate::domain::Cursor { prev: Some(head.at), next: head.following };
        Repair::of(entry, to, 1, self.now)
    }

    /// Puts a schedule's cursor back by hand, as a restored backup would.
    pub fn rewind(&self, entry: &Entry) {
        let row = RowKey::Schedule(entry.id);
        let text = |time: Option<Timestamp>| time.unwrap_or(NO_TIME).to_string();
        self.set(row, "prev_fire_time", &text(entry.cursor.prev));
        self.set(row, "next_fire_time", &text(entry.cursor.next.column()));
    }

    pub fn lock(&self, id: ScheduleId) -> Box<dyn Send + '_> {
        self.lock_row(RowKey::Schedule(id))
    }

    pub fn lock_row(&self, row: RowKey<'_>) -> Box<dyn Send + '_> {
        self.fixture.lock(row)
    }

    pub fn set(&self, row: RowKey<'_>, column: &str, value: &str) {
        self.fixture.set(row, column, value);
    }

    pub fn has_said(&self, id: ExecutionId) -> bool {
        self.fixture.has_said(id)
    }

    pub fn get(&self, row: RowKey<'_>, column: &str) -> Option<String> {
        self.fixture.get(row, column)
    }

    /// A column that holds a number.
    pub fn number(&self, row: RowKey<'_>, column: &str) -> i64 {
        self.get(row, column).expect("not NULL").parse().unwrap()
    }

    /// A time column: NULL and -1 both say none.
    pub fn time(&self, row: RowKey<'_>, column: &str) -> Option<Timestamp> {
        self.get(row, column).map(|text| Timestamp::at(text.parse().unwrap())).filter(|time| *time != NO_TIME)
    }
}

/// A name no other case and no earlier run has used; it needs no quoting.
pub(crate) fn fresh_name() -> String {
    format!("app-{}", NodeId::fresh())
}

pub(crate) fn job(name: &str) -> JobSpec {
    let policy = JobPolicy { max_attempts: 3, ..JobPolicy::DEFAULT };
    JobSpec::new(name, policy)
}

pub(crate) fn every(start: Timestamp, interval: Millis, repeats: i64) -> Trigger {
    Trigger::Simple(Simple::new(Some(start.millis()), interval, repeats).unwrap())
}

pub(crate) fn won(claim: Claim) -> Claimed {
    match claim {
        Claim::Won(claimed) => claimed,
        other => panic!("the claim was to be won, not {other:?}"),
    }
}

/// The execution of a won claim, which the case lets go: somebody else answers for it, or nobody.
pub(crate) fn drop_claimed(claim: Claim) -> ExecutionId {
    won(claim).execution()
}

pub(crate) fn is_lost(claim: &Claim) -> bool {
    matches!(claim, Claim::Lost)
}

pub(crate) fn succeeded(claimed: Claimed, now: Timestamp) -> ExecutionChange {
    claimed.finish(Answer::Done, None, now)
}

fn names<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<String> {
    entries.map(|entry| entry.name.to_string()).collect()
}
