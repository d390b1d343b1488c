//! What each database does in its own way as a whole: connecting, locking the schema, claiming a batch,
//! finding executions under way and due rows. One room for each: [`sqlite`](super::sqlite),
//! [`postgres`](super::postgres), [`mariadb`](super::mariadb). The differences of a line are in [`Dialect`].

use super::Dialect;
#[cfg(feature = "tokio")]
use crate::domain::Source;
use crate::domain::{ExecutionState, Millis};
use crate::store::news::Ear;
use crate::store::sql::claim::planned::{Found, PlannedRequest};
#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "mysql")))]
use crate::store::sql::connection::hosts::Pickiness;
use crate::store::sql::connection::target::{Opened, Target};
use crate::store::sql::poll::due::{self, Part};
use crate::store::sql::rows::open_executions::{self, Whose};
use crate::store::sql::session::Session;
#[cfg(feature = "tokio")]
use crate::store::sql::session::Work;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{Statement, sql};
use crate::store::{ExecutionQuery, PollQuery, StoreLimits};

/// How long a statement waits for a lock; milliseconds. MariaDB counts in seconds.
pub(crate) const LOCK_WAIT: Millis = 1_000;

/// How long a node waits for another's migration, and for each lock of its own; seconds.
pub(crate) const SCHEMA_WAIT: u32 = 30;

pub(crate) trait Database: Sync {
    fn dialect(&self) -> Dialect;

    /// Opens a session with its limits set. It may take as long as a store call.
    fn connect(&self, target: &Target, limits: StoreLimits) -> Step<Opened>;

    /// As [`Database::connect`], for the session a process opens first: refuses a pooler that others'
    /// sessions share, and a server or client library that firetime cannot work with.
    fn connect_first(&self, target: &Target, limits: StoreLimits) -> Step<Opened> {
        self.connect(target, limits)
    }

    /// Begins to listen to what the database tells of an application. It may take as long as a store call.
    fn listen(&self, _target: &Target, _limits: StoreLimits, _application: &str) -> Step<Box<dyn Ear>> {
        Err(Fault::new(FaultKind::Senseless, "this database does not tell of changes"))
    }

    /// Sets what every session of ours has; see [`StoreLimits`].
    fn limit(&self, session: &mut dyn Session, limits: StoreLimits) -> Step<()>;

    /// BEGIN, COMMIT or ROLLBACK, in one round trip.
    fn control(&self, session: &mut dyn Session, text: &str) -> Step<()> {
        session.batch(text)
    }

    /// Lifts a session's time limits for a migration; it still waits for locks no longer than
    /// [`SCHEMA_WAIT`].
    fn lift_limits(&self, session: &mut dyn Session) -> Step<()>;

    /// Waits until no other node migrates the schema, and keeps the others out. Where the schema changes in
    /// transactions, this begins one.
    fn lock_schema(&self, session: &mut dyn Session) -> Step<()>;

    /// Lets others in again; `keep` says whether the changes stay, where they can be undone.
    fn unlock_schema(&self, session: &mut dyn Session, keep: bool) -> Step<()> {
        session.batch(if keep { "COMMIT" } else { "ROLLBACK" })
    }

    /// A faster way than [`Database::claim`] for a call that is one batch of planned claims and nothing else.
    fn quick_claim(&self) -> Option<QuickClaim> {
        None
    }

    /// Claims a batch of planned occurrences within a transaction: those whose rows nobody holds and are as
    /// they were seen. Gives the executions by their schedules.
    fn claim(&self, session: &mut dyn Session, planned: &[PlannedRequest<'_>]) -> Step<Found>;

    /// Notes claimed executions, whose ids lie anywhere, where their state is in no index.
    fn note(&self, _session: &mut dyn Session, _executions: Vec<i64>) -> Step<()> {
        Ok(())
    }

    /// Removes the notes of claims nothing of which is under way. If this fails, the next sweep removes them.
    fn sweep(&self, _session: &mut dyn Session, _application: &str, _whose: Whose) -> Step<()> {
        Ok(())
    }

    /// Moves sequences of ids that lag behind their tables, as after a failover of logical replication.
    fn move_sequences(&self, _session: &mut dyn Session) -> Step<()> {
        Ok(())
    }

    /// The executions under way, by id, in the columns of `rows::open_executions`.
    fn open_executions(&self, application: &str, whose: Whose) -> Statement {
        open_executions::by_state(self.dialect(), application, whose)
    }

    /// Runs `work` within a caller's open transaction.
    #[cfg(feature = "tokio")]
    fn within(&self, session: &mut dyn Session, work: Work<'_>) -> Step<()> {
        work(session)
    }

    /// The fault of an error that another driver than diesel's tells of, with its code.
    #[cfg(feature = "tokio")]
    fn coded(&self, code: &str, _constraint: Option<&str>, cause: Source) -> Fault {
        Fault { cause: Some(cause), ..Fault::new(FaultKind::Refused, format!("error {code}")) }
    }

    /// That `r`, an execution that has not ended, is found in one of the query's states by an index: in one
    /// statement, as executions go from state to state. SQLite matches its index to a single state only.
    fn open_states(&self, query: &ExecutionQuery) -> Statement {
        let application = query.application.as_deref();
        let in_state = |state: &ExecutionState| {
            sql(format!("SELECT x.id FROM QRTZ_RUN x WHERE x.state = '{}'", state.as_str()))
                .given(" AND x.application = ?", application)
        };
        let all = query.states.iter().map(in_state);
        let all = all.reduce(|all, next| all.push(" UNION ALL ").and(next));
        all.map_or(sql(""), |all| sql(" AND r.id IN (").and(all).push(")"))
    }

    /// Due rows of a part, in any order.
    fn due_rows(&self, query: &PollQuery, part: &Part<'_>, limit: usize) -> Statement {
        due::by_lists(self.dialect(), query, part, limit)
    }
}

/// Claims a batch of planned occurrences; gives the executions by their schedules.
pub(crate) type ClaimBatch = fn(&mut dyn Session, &[PlannedRequest<'_>]) -> Step<Found>;

/// Two ways to claim one batch in a transaction of its own.
pub(crate) struct QuickClaim {
    /// Whether each way begins the transaction and leaves its COMMIT to the caller; otherwise it is a single
    /// statement.
    pub begins: bool,
    /// Expects all rows to be free: an error where one is held.
    pub expecting_free: ClaimBatch,
    /// Leaves out the rows that others hold.
    pub skipping_held: ClaimBatch,
}

/// Another node has kept the schema locked for too long.
pub(crate) fn schema_is_locked() -> Fault {
    let message = format!(
        "another node has been changing it for {SCHEMA_WAIT} s: start again once it has finished; migrating \
         a large ledger may take minutes"
    );
    Fault::new(FaultKind::Busy, message)
}

/// Opens nothing: stands in for a database whose feature is off. [`Target::parse`] refuses it before.
#[cfg(not(all(feature = "sqlite", feature = "postgres", feature = "mysql")))]
pub(crate) fn switched_off(_: &Target, _: &str, _: Pickiness) -> Step<Opened> {
    Err(Fault::new(FaultKind::Refused, "this database's feature is off"))
}
