//! The store on SQLite, PostgreSQL and MariaDB: one implementation, whose few differences are decided by
//! [`Dialect`].
//!
//! ```text
//! mod      transactions, retries, what an error means for the call
//! claim    batches, answers, and what became of a claim whose commit is unknown
//! planned, pending   the two kinds of claims
//! change   the table of changes              stranded   executions of dead nodes
//! purge    what has ended long ago           migrate    the schema
//! node     registration, heartbeat, election ensure     definitions
//! unreadable   schedules' rows that nobody understands
//! poll     what the pipeline looks at        inspect  what people look at
//! secrets  what of a URL no message repeats
//! entry    columns to values and back        statement, session   text and binds, diesel
//! connection, reach, pooler   the pool, how it gets its connections, and whose these are
//! watched  sessions with a server that nobody else gives up
//! ```

mod change;
mod claim;
mod connection;
mod ensure;
mod entry;
mod inspect;
mod migrate;
mod node;
mod pending;
mod planned;
mod poll;
#[cfg(feature = "postgres")]
mod pooler;
mod purge;
mod reach;
mod secrets;
mod session;
mod statement;
mod stranded;
mod under_way;
mod unreadable;
mod watched;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use connection::{Connections, Dialect, Link, Target};
pub use ensure::CallerConnection;
pub(crate) use ensure::ensure_in;
use inspect::Paged;
pub use migrate::MigrationReport;
pub(crate) use migrate::{check_schema, migrate};
use session::{Fault, Nature, Session};
use statement::sql;

use super::{
    Applied, Beat, BrokenPage, BrokenQuery, Change, Claim, ClaimRequest, Definition, Ensured, ExecutionQuery,
    ExecutionRow, LargePayload, Limits, NewNode, NodeRow, PollQuery, Polled, Pulse, Purge, Purged, Result,
    ScheduleRow, Stalled, StalledQuery, Store, StrandedPage,
};
use crate::domain::{Entry, Error, ExecutionId, Millis, ScheduleId};
use crate::time::{Clock, TimeSample, span};

/// How often a transaction that met a deadlock or a busy database is tried.
const TRIES: u32 = 3;

/// Opens a store on the database `url` names. Nothing is connected to yet.
///
/// A SQLite database in memory (`sqlite::memory:`) is migrated at once: nobody else could.
///
/// # Errors
/// `Kind::Config` if the URL names no database this build can speak to.
pub(crate) fn open(url: &str, limits: Limits, clock: Arc<Clock>) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(SqlStore::open(url, limits, clock)?))
}

pub(crate) struct SqlStore {
    connections: Connections,
    clock: Arc<Clock>,
    /// What a call may take. No further try is begun after half of it, and no connection waited for after
    /// three quarters: the rest is for the statement.
    call: Millis,
    /// A claim has waited for a row in vain: the next one skips what is held.
    wary: AtomicBool,
}

impl SqlStore {
    fn open(url: &str, limits: Limits, clock: Arc<Clock>) -> Result<Self> {
        let target = Target::parse(url)?;
        let memory = target.memory;
        let wary = AtomicBool::new(false);
        let call = limits.call;
        let store = Self { connections: Connections::open(target, limits)?, clock, call, wary };
        if memory {
            let mut link = store.connections.get(span(call))?;
            migrate::bring_up_memory(link.session.as_mut()).map_err(|fault| store.error("migrate", fault))?;
        }
        Ok(store)
    }

    /// Runs a read, or what may as well stay undone: once more on a fresh connection if its own turns out to
    /// be dead, as every idle one is after the database's restart.
    fn read<T>(
        &self,
        operation: &str,
        body: impl FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.retried(body, Self::attempt_read).map_err(|fault| self.error(operation, fault))
    }

    fn attempt_read<T, B>(&self, link: &mut Link, body: &mut B) -> std::result::Result<T, Fault>
    where
        B: FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    {
        body(link.session.as_mut()).map_err(|fault| {
            let fault = self.probe(link, fault);
            self.connections.distrust(link, &fault);
            changed_nothing(fault)
        })
    }

    /// All rows of a view, read in pages of so many: each statement has the time limit of its own.
    fn paged<T: Paged>(
        &self,
        operation: &str,
        limit: usize,
        page: impl Fn(&mut dyn Session, Option<&T>, usize) -> std::result::Result<Vec<T>, Fault>,
    ) -> Result<Vec<T>> {
        let mut rows: Vec<T> = Vec::new();
        // SQLite has no such limit, and keeps keys that are no text: nothing could be read behind these.
        let limit = if self.connections.target.dialect == Dialect::Sqlite { usize::MAX } else { limit };
        loop {
            let next = self.read(operation, |session| page(session, rows.last(), limit))?;
            let is_last = next.len() < limit;
            rows.extend(next);
            match rows.last() {
                Some(last) if !is_last && last.key().is_empty() => {
                    let fault = Fault::undecodable("a page ends with a key that is no text".to_owned());
                    return Err(self.error(operation, fault));
                }
                _ if is_last => return Ok(rows),
                _ => {}
            }
        }
    }

    fn schedules_by(&self, application: Option<&str>, limit: usize) -> Result<Vec<ScheduleRow>> {
        self.paged("list schedules", limit, |session, after, limit| {
            inspect::schedules(session, application, after, limit)
        })
    }

    /// Runs one statement that is its own transaction.
    fn alone<T>(
        &self,
        operation: &str,
        body: impl FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.retried(body, Self::attempt_alone).map_err(|fault| self.error(operation, fault))
    }

    /// Runs a transaction, again if it met a deadlock or a busy database, or lost its connection before the
    /// COMMIT. An error that is not `Kind::Unknown` means that nothing of it was kept.
    fn write<T>(
        &self,
        operation: &str,
        body: impl FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.retried(body, Self::attempt_transaction).map_err(|fault| self.error(operation, fault))
    }

    /// As [`SqlStore::write`], for a body that begins the transaction itself.
    fn write_begun<T>(
        &self,
        operation: &str,
        body: impl FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        self.retried(body, Self::attempt_begun).map_err(|fault| self.error(operation, fault))
    }

    fn retried<T, B>(
        &self,
        mut body: B,
        attempt: fn(&Self, &mut Link, &mut B) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault>
    where
        B: FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    {
        let began = self.clock.now().boot;
        let (again, connected) = (began + self.call / 2, began + self.call / 4 * 3);
        let (mut tries, mut replaced) = (1, false);
        loop {
            let mut link = match self.connections.get(span(connected - self.clock.now().boot)) {
                Ok(link) => link,
                Err(error) => return Err(Fault::new(Nature::Lost, error.to_string())),
            };
            match attempt(self, &mut link, &mut body) {
                Err(fault) if tries < TRIES && self.clock.now().boot < again => match fault.nature {
                    nature if nature.passes() => tries += 1,
                    Nature::Lost | Nature::ReadOnly if !replaced => replaced = true,
                    _ => return Err(fault),
                },
                ended => return ended,
            }
        }
    }

    fn attempt_alone<T, B>(&self, link: &mut Link, body: &mut B) -> std::result::Result<T, Fault>
    where
        B: FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    {
        let began = self.clock.now().boot;
        body(link.session.as_mut()).map_err(|fault| {
            let fault = self.probe(link, fault);
            self.connections.distrust(link, &fault);
            self.in_any_language(began, fault)
        })
    }

    fn attempt_transaction<T, B>(&self, link: &mut Link, body: &mut B) -> std::result::Result<T, Fault>
    where
        B: FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    {
        let begin = link.session.dialect().begin();
        let begun = self.control(link, begin);
        if let Err(fault) = begun {
            if fault.nature == Nature::Busy {
                return Err(fault);
            }
            let fault = changed_nothing(self.probe(link, fault));
            self.connections.discard(link);
            return Err(fault);
        }
        self.attempt_begun(link, body)
    }

    /// The rest of a transaction. Or all of it, if the body's first statement begins it.
    fn attempt_begun<T, B>(&self, link: &mut Link, body: &mut B) -> std::result::Result<T, Fault>
    where
        B: FnMut(&mut dyn Session) -> std::result::Result<T, Fault>,
    {
        let began = self.clock.now().boot;
        match body(link.session.as_mut()) {
            Ok(value) => match self.control(link, "COMMIT") {
                Ok(()) => Ok(value),
                Err(fault) => {
                    self.connections.discard(link);
                    Err(Fault { nature: Nature::Unknown, ..fault })
                }
            },
            // No COMMIT was sent: nothing can have been kept, whether or not the ROLLBACK arrives.
            Err(fault) => match self.control(link, "ROLLBACK") {
                Ok(()) => {
                    self.connections.distrust(link, &fault);
                    Err(self.in_any_language(began, fault))
                }
                Err(_) => {
                    self.connections.discard(link);
                    Err(Fault { nature: Nature::Lost, ..fault })
                }
            },
        }
    }

    /// A refusal that took as long as PostgreSQL waits for a lock, or before it looks for a deadlock, is one
    /// of those, whatever language its text is in.
    fn in_any_language(&self, began: Millis, fault: Fault) -> Fault {
        let waited = self.clock.now().boot - began >= connection::LOCK_WAIT - 100;
        if fault.nature == Nature::Refused && waited {
            Fault { nature: Nature::Busy, ..fault }
        } else {
            fault
        }
    }

    /// BEGIN, COMMIT, ROLLBACK: one round trip each. diesel's batches take three on MariaDB.
    fn control(&self, link: &mut Link, text: &str) -> std::result::Result<(), Fault> {
        match link.session.dialect() {
            Dialect::Mysql => link.session.execute(&sql(text)).map(|_| ()),
            _ => link.session.batch(text),
        }
    }

    /// After an error outside a transaction: a connection that still answers has refused, which rolled the
    /// statement back; one that does not leaves the statement's fate unknown.
    fn probe(&self, link: &mut Link, fault: Fault) -> Fault {
        if fault.nature != Nature::Lost && link.session.rows(&sql("SELECT 1 AS one")).is_ok() {
            return fault;
        }
        self.connections.discard(link);
        Fault { nature: Nature::Unknown, ..fault }
    }

    fn error(&self, operation: &str, fault: Fault) -> Error {
        let message = self.connections.target.redact(&fault.message);
        let kind = fault.nature.kind();
        let follows = match fault.nature {
            Nature::Unknown => "the answer was lost and the change may have been made",
            Nature::Lost => "the database cannot be reached; nothing was changed",
            Nature::Busy => "the database is too busy; nothing was changed",
            Nature::Conflict => "another writer was first; nothing was changed",
            _ => "nothing was changed",
        };
        Error::new(kind, format!("{operation}: {follows}: {message}"))
    }

    /// Reads the database's clock, with ours before and after.
    fn sample(&self, session: &mut dyn Session) -> std::result::Result<TimeSample, Fault> {
        let question = sql(format!("SELECT {} AS now", session.dialect().exact_clock()));
        let asked = self.clock.host();
        let told = statement::single(session.rows(&question)?)?;
        Ok(session.dialect().sample(asked, told, self.clock.host()))
    }
}

/// A fault of what cannot have changed anything, even where its answer was lost.
fn changed_nothing(fault: Fault) -> Fault {
    let nature = if fault.nature == Nature::Unknown { Nature::Lost } else { fault.nature };
    Fault { nature, ..fault }
}

/// The database's clock.
fn now(session: &mut dyn Session) -> std::result::Result<Millis, Fault> {
    let question = format!("SELECT {} AS now", session.dialect().clock());
    statement::single(session.rows(&sql(question))?)
}

impl Store for SqlStore {
    fn register(&self, node: &NewNode) -> Result<TimeSample> {
        self.write("register the node", |session| {
            node::register(session, node)?;
            self.sample(session)
        })
    }

    fn beat(&self, beat: &Beat) -> Result<Pulse> {
        // A beat counted twice does no harm, so a lost one is repeated on a fresh connection. Otherwise,
        // where idle connections are closed between two heartbeats, each second one would fail, and an
        // observer that never has two confirmed in a row declares nobody dead.
        if !self.read("heartbeat", |session| node::beat(session, beat))?.is_done() {
            return Ok(Pulse::Ended);
        }
        self.read("heartbeat", |session| node::pulse(session, beat))
    }

    fn poll(&self, query: &PollQuery) -> Result<Polled> {
        self.read("poll", |session| poll::poll(session, query, &self.clock))
    }

    fn payloads(&self, schedules: &[ScheduleId]) -> Result<Vec<LargePayload>> {
        self.read("read payloads", |session| poll::payloads(session, schedules))
    }

    fn claim(&self, requests: &[ClaimRequest]) -> Result<Vec<Claim>> {
        claim::claim(self, requests)
    }

    fn resolve(&self, requests: &[ClaimRequest], claims: bool) -> Result<Vec<Claim>> {
        claim::resolve(self, requests, claims)
    }

    fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        let Some(operation) = changes.first().map(|change| change.rule().operation) else {
            return Ok(Vec::new());
        };
        let apply = |session: &mut dyn Session| change::apply(session, changes);
        if change::is_one_statement(self.connections.target.dialect, changes) {
            return self.alone(operation, apply);
        }
        self.write(operation, apply)
    }

    fn elect(&self, application: &str, now: Millis, interval: Millis) -> Result<Applied> {
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

    fn stalled(&self, query: &StalledQuery) -> Result<Stalled> {
        self.read("look for stalled schedules", |session| poll::stalled(session, query))
    }

    fn stranded(&self, application: &str, after: ExecutionId, limit: usize) -> Result<StrandedPage> {
        self.read("look for stranded executions", |session| {
            stranded::stranded(session, application, after, limit)
        })
    }

    fn broken(&self, query: &BrokenQuery) -> Result<BrokenPage> {
        self.read("look for broken schedules", |session| unreadable::broken(session, query))
    }

    fn purge(&self, purge: &Purge) -> Result<Purged> {
        self.write("purge the ledger", |session| purge::purge(session, purge))
    }

    fn ensure(&self, definition: &Definition) -> Result<Ensured> {
        self.write("ensure a schedule", |session| ensure::ensure(session, definition))
    }

    fn find(&self, application: &str, name: &str) -> Result<Option<Entry>> {
        self.read("find a schedule", |session| ensure::find(session, application, name))
    }

    fn nodes(&self, application: Option<&str>) -> Result<Vec<NodeRow>> {
        let page = |session: &mut dyn Session, after: Option<&NodeRow>, limit| {
            inspect::nodes(session, application, after, limit)
        };
        let mut nodes = self.paged("list nodes", inspect::PAGE, page)?;
        nodes.sort_by(|one, other| (other.started, &one.id).cmp(&(one.started, &other.id)));
        Ok(nodes)
    }

    fn applications(&self) -> Result<Vec<String>> {
        self.read("list applications", inspect::applications)
    }

    fn schedules(&self, application: Option<&str>) -> Result<Vec<ScheduleRow>> {
        self.schedules_by(application, inspect::PAGE)
    }

    fn executions(&self, filter: &ExecutionQuery) -> Result<Vec<ExecutionRow>> {
        self.read("list executions", |session| inspect::executions(session, filter))
    }

    fn time(&self) -> Result<TimeSample> {
        self.read("read the database's clock", |session| self.sample(session))
    }
}
