//! A client's verbs within a caller's transaction.

use std::cell::RefCell;
use std::sync::Arc;

use super::calls::{calls, shared_verbs};
use super::{change, ensure, order, queue, rerun, switch, sync};
use crate::domain::{Entry, ExecutionId, Timestamp};
use crate::store::audit::AuditEntry;
use crate::store::enqueue::{EnqueueOrder, Keyed};
use crate::store::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use crate::store::rerun::{Reran, RerunCancel, RerunCancelled, RerunOrder};
use crate::store::sql::connection::caller::{CallerConnection, told};
use crate::store::sql::poll;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::{Session, now};
use crate::store::sql::views::{history, inspect};
use crate::store::switch::{PassedQuery, SwitchOrder, Switched};
use crate::store::sync::{SyncAnswer, SyncOrder};
use crate::store::{
    Applied, Change, Completed, Definition, Ensured, ExecutionChange, ExecutionQuery, ExecutionRow, Result,
    ScheduleRow, SeenSchedule, Store, Verbs,
};

/// Runs verbs on a caller's connection, inside the open transaction, under a savepoint: after an error
/// nothing of them is left. `outside` is the store on connections of its own.
pub(crate) fn joined<'c, C: CallerConnection, T: Send + 'static>(
    outside: Arc<dyn Store>,
    connection: &'c mut C,
    body: impl FnOnce(&dyn Verbs) -> Result<T> + Send + 'static,
) -> C::Outcome<'c, T> {
    connection.join(move |session| body(&OnConnection::new(&*outside, session)))
}

/// A client's verbs on a session with an open transaction.
pub(super) struct OnConnection<'a> {
    outside: &'a dyn Store,
    session: RefCell<&'a mut dyn Session>,
}

impl<'a> OnConnection<'a> {
    pub(super) fn new(outside: &'a dyn Store, session: &'a mut dyn Session) -> Self {
        Self { outside, session: RefCell::new(session) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut dyn Session) -> Step<T>) -> Result<T> {
        work(&mut **self.session.borrow_mut()).map_err(told)
    }

    /// As `SqlStore` reads; what the caller is told names no operation.
    fn read<T>(&self, _operation: &str, work: impl FnOnce(&mut dyn Session) -> Step<T>) -> Result<T> {
        self.with(work)
    }

    /// As `SqlStore` writes, without a transaction of its own.
    fn write<T>(&self, _operation: &str, work: impl FnOnce(&mut dyn Session) -> Step<T>) -> Result<T> {
        self.with(work)
    }
}

/// What is decided on is read locked where it is one row: an older snapshot of the caller's may show it as it
/// was.
impl Verbs for OnConnection<'_> {
    shared_verbs!();

    fn find(&self, application: &str, name: &str) -> Result<Option<Entry>> {
        self.with(|session| {
            let lock = session.dialect().lock("e");
            ensure::find(session, application, name, &lock)
        })
    }

    fn seen(&self, application: &str, name: &str) -> Result<Option<SeenSchedule>> {
        self.with(|session| {
            let lock = session.dialect().lock("e");
            ensure::seen(session, application, name, &lock)
        })
    }

    fn schedule(&self, application: &str, name: &str) -> Result<Option<ScheduleRow>> {
        self.with(|session| {
            let lock = session.dialect().lock("e");
            inspect::schedule_named(session, application, name, &lock)
        })
    }

    fn now(&self) -> Result<Timestamp> {
        self.with(now)
    }

    /// A change that loses was decided on what an older snapshot still shows: to read again would not help.
    fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        self.with(|session| {
            let applied = change::apply(session, changes)?;
            match applied.contains(&Applied::Lost) {
                true => Err(Fault::new(FaultKind::Conflict, "a schedule has moved on")),
                false => Ok(applied),
            }
        })
    }

    fn apply_audited(&self, change: Change, entry: &AuditEntry) -> Result<Applied> {
        self.with(|session| switch::apply_audited(session, &change, entry))
    }

    fn ensure(&self, definition: &Definition) -> Result<Ensured> {
        let prepared = self.outside.prepare(definition)?;
        self.with(|session| ensure::ensure(session, definition, prepared.as_ref()))
    }

    fn sync(&self, order: &SyncOrder) -> Result<SyncAnswer> {
        let planned = self.with(|session| sync::plan(session, order))?;
        if order.is_stale(planned.known) {
            return Ok(planned);
        }
        let mut outside = sync::Outside::new();
        for definition in order.written(&planned) {
            let prepared = self.outside.prepare(definition)?;
            outside.extend(prepared.map(|prepared| (definition.name.clone(), prepared)));
        }
        self.with(|session| sync::sync(session, order, Some(&outside)))
    }

    fn enqueue(&self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>> {
        self.with(|session| queue::enqueue_joined(session, order))
    }

    fn executions(&self, query: &ExecutionQuery) -> Result<Vec<ExecutionRow>> {
        self.with(|session| history::executions(session, query))
    }
}
