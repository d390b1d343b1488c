//! One store call: a connection, a transaction or none, further tries, and what an error means for the
//! caller.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Connections, Link};
use crate::domain::{Boot, Error, Millis};
use crate::store::Result;
use crate::store::sql::dialect::database::LOCK_WAIT;
use crate::store::sql::session::fault::{Fault, FaultKind, Step};
use crate::store::sql::session::statement::{single, sql};
use crate::store::sql::session::{Session, Silent, catch_up};
use crate::time::{Clock, Micros, TimeSample, span};

/// How often a transaction that met a deadlock or a busy database is tried.
const TRIES: u32 = 3;

/// What a call does on a session; it may be done again.
type Body<'a, T> = &'a mut dyn FnMut(&mut dyn Session) -> Step<T>;

pub(crate) struct SqlStore {
    pub(crate) connections: Connections,
    pub(crate) clock: Arc<Clock>,
    /// How long a call may take. No further try is begun after half of it, and no connection waited for after
    /// three quarters: the rest is for the statement.
    pub(crate) call: Millis,
    /// A claim has waited for a row in vain: the next one skips the held ones.
    pub(crate) wary: AtomicBool,
}

/// Calls that are tried in their own ways.
macro_rules! tried {
    ($($(#[$doc:meta])* $call:ident = $attempt:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $call<T>(
            &self,
            operation: &str,
            mut body: impl FnMut(&mut dyn Session) -> Step<T>,
        ) -> Result<T> {
            self.retried(&mut body, Self::$attempt).map_err(|fault| self.error(operation, fault))
        }
    )*};
}

impl SqlStore {
    tried! {
        /// Runs a read, or what may as well stay undone: once more on a fresh connection if its own turns out
        /// to be dead, as every idle one is after the database's restart.
        read = attempt_read;

        /// Runs one statement that is its own transaction.
        alone = attempt_alone;

        /// Runs a transaction, again if it met a deadlock or a busy database, or lost its connection before
        /// the COMMIT. An error that is not `ErrorKind::Unknown` means that nothing of it was kept.
        write = attempt_transaction;

        /// As [`SqlStore::write`], where a member of a Galera cluster must not decide on rows as they were
        /// before others' last commits.
        write_caught_up = attempt_caught_up;

        /// As [`SqlStore::write`], for a body that begins the transaction itself.
        write_begun = attempt_begun;
    }

    fn attempt_read<T>(&self, link: &mut Link, body: Body<'_, T>) -> Step<T> {
        body(link.session.as_mut()).map_err(|fault| changed_nothing(self.probe(link, fault)))
    }

    fn attempt_caught_up<T>(&self, link: &mut Link, body: Body<'_, T>) -> Step<T> {
        catch_up(link.session.as_mut()).map_err(|fault| changed_nothing(self.probe(link, fault)))?;
        self.attempt_transaction(link, body)
    }

    fn retried<T>(
        &self,
        body: Body<'_, T>,
        attempt: fn(&Self, &mut Link, Body<'_, T>) -> Step<T>,
    ) -> Step<T> {
        let began = self.clock.now().boot;
        let (again, connected) = (began + self.call / 2, began + self.call / 4 * 3);
        let (mut tries, mut replaced, silent) = (1, false, Cell::new(false));
        let body: Body<'_, T> = &mut |session| match silent.get() {
            true => body(&mut Silent(session)),
            false => body(session),
        };
        loop {
            let mut link = self.connections.get(span(connected - self.clock.now().boot))?;
            match attempt(self, &mut link, body) {
                Err(fault) if fault.kind == FaultKind::TakenId => {
                    return Err(Self::move_sequences(&mut link, fault));
                }
                Err(fault) if tries < TRIES && self.clock.now().boot < again => match fault.kind {
                    kind if kind.passes() => tries += 1,
                    FaultKind::Unheard if !silent.replace(true) => {}
                    kind if (kind == FaultKind::Lost || kind.is_of_server()) && !replaced => replaced = true,
                    _ => return Err(fault),
                },
                ended => return ended,
            }
        }
    }

    /// Moves the database's sequences behind the ids in use. The call still fails: its error tells of this,
    /// once.
    fn move_sequences(link: &mut Link, fault: Fault) -> Fault {
        let follows = match link.session.dialect().database().move_sequences(link.session.as_mut()) {
            Ok(()) => "sequences of ids lagged behind their tables and have been moved on".to_owned(),
            Err(refused) => format!(
                "sequences of ids lag behind their tables: let their owner move them with setval ({refused})"
            ),
        };
        fault.with(&follows)
    }

    fn attempt_alone<T>(&self, link: &mut Link, body: Body<'_, T>) -> Step<T> {
        let began = self.clock.now().boot;
        let ended = body(link.session.as_mut());
        ended.map_err(|fault| self.lock_wait_by_duration(began, self.probe(link, fault)))
    }

    fn attempt_transaction<T>(&self, link: &mut Link, body: Body<'_, T>) -> Step<T> {
        let begin = link.session.dialect().begin();
        let begun = self.control(link, begin);
        if let Err(fault) = begun {
            if fault.kind.is_busy() {
                return Err(fault);
            }
            let fault = changed_nothing(self.probe(link, fault));
            self.connections.discard(link);
            return Err(fault);
        }
        self.attempt_begun(link, body)
    }

    /// The rest of a transaction. Or all of it, if the body's first statement begins it.
    fn attempt_begun<T>(&self, link: &mut Link, body: Body<'_, T>) -> Step<T> {
        let began = self.clock.now().boot;
        match body(link.session.as_mut()) {
            Ok(value) => match self.control(link, "COMMIT") {
                Ok(()) => Ok(value),
                // A refused commit, as of a transaction that another member of a Galera cluster was faster
                // than: the server has rolled it back.
                Err(fault) if fault.kind.undoes_commit() && self.rolls_back(link, &fault) => {
                    self.connections.distrust(link, &fault);
                    Err(fault)
                }
                Err(fault) => {
                    self.connections.discard(link);
                    Err(Fault { kind: FaultKind::Unknown, ..fault })
                }
            },
            // No COMMIT was sent: nothing can have been kept, whether or not the ROLLBACK arrives.
            Err(fault) => match self.rolls_back(link, &fault) {
                true if fault.kind != FaultKind::Unknown => {
                    self.connections.distrust(link, &fault);
                    Err(self.lock_wait_by_duration(began, fault))
                }
                _ => {
                    self.connections.discard(link);
                    Err(Fault { kind: FaultKind::Lost, ..fault })
                }
            },
        }
    }

    /// Ends a transaction that a fault stopped. SQLite itself rolls back one for which the disk has no room,
    /// and then refuses a second ROLLBACK.
    fn rolls_back(&self, link: &mut Link, fault: &Fault) -> bool {
        self.control(link, "ROLLBACK").is_ok() || fault.kind == FaultKind::Full
    }

    /// Counts a refusal after [`LOCK_WAIT`] as a lock timeout: PostgreSQL's messages may be localised. It
    /// looks for deadlocks after as long.
    fn lock_wait_by_duration(&self, began: Boot, fault: Fault) -> Fault {
        /// The server's wait and ours are measured by two clocks.
        const TOLERANCE: Millis = 100;
        let waited = self.clock.now().boot - began >= LOCK_WAIT - TOLERANCE;
        if fault.kind == FaultKind::Refused && waited {
            Fault { kind: FaultKind::Busy, ..fault }
        } else {
            fault
        }
    }

    fn control(&self, link: &mut Link, text: &str) -> Step<()> {
        link.session.dialect().database().control(link.session.as_mut(), text)
    }

    /// After an error outside a transaction: a connection that still answers has refused, which rolled the
    /// statement back; one that does not leaves the statement's fate unknown.
    fn probe(&self, link: &mut Link, fault: Fault) -> Fault {
        let in_doubt = matches!(fault.kind, FaultKind::Lost | FaultKind::Unknown);
        if !in_doubt && link.session.rows(&sql("SELECT 1 AS one")).is_ok() {
            self.connections.distrust(link, &fault);
            return fault;
        }
        self.connections.discard(link);
        Fault { kind: FaultKind::Unknown, ..fault }
    }

    pub(crate) fn error(&self, operation: &str, fault: Fault) -> Error {
        let (kind, follows) = (fault.kind.error_kind(), fault.kind.follows());
        self.connections.target.clean(fault).error(kind, follows).during(operation)
    }

    /// Reads the database's clock, with ours before and after.
    pub(crate) fn sample(&self, session: &mut dyn Session) -> Step<TimeSample> {
        let question = sql(format!("SELECT {} AS now", session.dialect().exact_clock()));
        let asked = self.clock.host();
        let told = single(session.rows(&question)?).map(Micros::of)?;
        Ok(session.dialect().sample(asked, told, self.clock.host()))
    }
}

/// A fault of what cannot have changed anything, even where its answer was lost.
fn changed_nothing(fault: Fault) -> Fault {
    let kind = if fault.kind == FaultKind::Unknown { FaultKind::Lost } else { fault.kind };
    Fault { kind, ..fault }
}
