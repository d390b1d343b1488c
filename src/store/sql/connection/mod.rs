//! The pool of connections.
//!
//! It opens nothing that nobody waits for, and never tests what it hands out: a connection that failed
//! in any way that is not positively a refusal is dropped instead, and with it all that were opened before
//! the failure. A caller waits longer than a second only while a connection is being opened, which far from
//! the database takes a dozen round trips.

pub(super) mod call;
pub(super) mod caller;
pub(super) mod hosts;
pub(super) mod opened;
pub(super) mod reach;
pub(super) mod target;
pub(super) mod watched;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use self::target::Target;
use super::session::Session;
use super::session::fault::{Fault, FaultKind, Step};
use super::session::statement::{single, sql};
use crate::domain::user_code::guarded;
use crate::domain::{Error, ErrorKind};
use crate::store::{Result, StoreLimits};

/// How long a call waits for a connection while none is being opened: all are in use, or the database
/// refuses.
const CONNECTION_WAIT: Duration = Duration::from_secs(1);

/// A session in the pool.
pub(crate) struct Link {
    pub(crate) session: Box<dyn Session + Send>,
    broken: bool,
    epoch: Epoch,
    _open: Open,
}

/// What a connection was opened after: failures of its pool, and moves of its target to another server.
type Epoch = (u64, u64);

/// Counts a connection for as long as it is open.
struct Open(Arc<Counts>);

impl Open {
    fn counted(counts: &Arc<Counts>) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counts))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a pool and its callers know of each other.
#[derive(Default)]
struct Counts {
    /// Grows with every failure: connections opened before it are given up.
    epoch: AtomicU64,
    /// How many callers wait for a connection.
    waiting: AtomicUsize,
    /// How many are being opened.
    connecting: AtomicUsize,
    open: AtomicUsize,
    /// Why the last try to open one failed, if it did.
    failure: Mutex<Option<Fault>>,
}

impl Counts {
    fn epoch(&self, target: &Target) -> Epoch {
        (self.epoch.load(Ordering::Relaxed), target.moves())
    }

    fn failure(&self) -> MutexGuard<'_, Option<Fault>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the pool opens connections with.
pub(crate) struct Manager {
    target: Target,
    limits: StoreLimits,
    counts: Arc<Counts>,
}

impl r2d2::ManageConnection for Manager {
    type Connection = Link;
    type Error = Fault;

    /// Only for a caller that waits: every call that failed in an outage leaves r2d2 trying to connect for
    /// it, and once the database is back all those tries would succeed at once.
    fn connect(&self) -> Step<Link> {
        let Counts { waiting, connecting, .. } = &*self.counts;
        let wanted = connecting.fetch_add(1, Ordering::Relaxed) < waiting.load(Ordering::Relaxed);
        let epoch = self.counts.epoch(&self.target);
        let session = wanted.then(|| self.target.connect(self.limits));
        connecting.fetch_sub(1, Ordering::Relaxed);
        match session {
            Some(Ok(session)) => {
                *self.counts.failure() = None;
                Ok(Link { session, broken: false, epoch, _open: Open::counted(&self.counts) })
            }
            Some(Err(fault)) => {
                *self.counts.failure() = Some(fault.clone());
                Err(fault)
            }
            None => Err(Fault::new(FaultKind::Lost, "nobody waits for it")),
        }
    }

    fn is_valid(&self, link: &mut Link) -> Step<()> {
        single(link.session.rows(&sql("SELECT 1 AS one"))?).map(|_| ())
    }

    fn has_broken(&self, link: &mut Link) -> bool {
        // Those opened in the place of connections that abandoned calls kept: once these come back, they are
        // too many.
        let too_many = self.counts.open.load(Ordering::Relaxed) > self.limits.connections.max(1) as usize;
        // A database in memory is its connection: there is nothing to go back to.
        !self.target.memory && (link.broken || too_many || std::thread::panicking())
    }
}

/// The threads one pool opens its connections on. They end with it: r2d2's own wait for the pool's next
/// clean-up, for up to half a minute. Building them panics where the system has no thread left.
fn openers(names: &str) -> Result<ScheduledThreadPool> {
    let pool = ScheduledThreadPool::builder()
        .num_threads(3)
        .thread_name_pattern(names)
        .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled);
    guarded(|| pool.build())
        .map_err(|said| Error::new(ErrorKind::System, format!("cannot start the threads {names}: {said}")))
}

/// The connections of one store.
pub(crate) struct Connections {
    pool: r2d2::Pool<Manager>,
    counts: Arc<Counts>,
    pub(crate) target: Target,
    /// No heartbeat looks whether the database's file was replaced: each call does.
    looks_at_file: bool,
}

impl Connections {
    pub(crate) fn open(target: Target, limits: StoreLimits) -> Result<Self> {
        let counts: Arc<Counts> = Arc::default();
        let manager = Manager { target: target.clone(), limits, counts: Arc::clone(&counts) };
        let builder = r2d2::Pool::builder()
            .min_idle(Some(0))
            .max_size(if target.memory { 1 } else { limits.connections.max(1) + limits.spare })
            .test_on_check_out(false)
            .connection_timeout(CONNECTION_WAIT)
            .thread_pool(Arc::new(openers("firetime-connect-{}")?))
            .error_handler(Box::new(r2d2::NopErrorHandler));
        let builder = if target.memory { builder.idle_timeout(None).max_lifetime(None) } else { builder };
        let looks_at_file = !limits.is_of_node();
        Ok(Self { pool: builder.build_unchecked(manager), counts, target, looks_at_file })
    }

    /// A connection opened after the last failure, and after the last move to another server. One that is
    /// being opened is waited for, but no longer than `within`.
    pub(crate) fn get(&self, within: Duration) -> Step<r2d2::PooledConnection<Manager>> {
        if self.looks_at_file {
            self.target.check_file()?;
        }
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let link = self.opened(within);
        self.counts.waiting.fetch_sub(1, Ordering::Relaxed);
        link
    }

    fn opened(&self, within: Duration) -> Step<r2d2::PooledConnection<Manager>> {
        let mut waited = Duration::ZERO;
        let mut turn = CONNECTION_WAIT.min(within);
        loop {
            match self.pool.get_timeout(turn) {
                Ok(link) if self.target.memory || link.epoch == self.counts.epoch(&self.target) => {
                    return Ok(link);
                }
                Ok(mut link) => link.broken = true,
                Err(_) => {
                    waited += turn;
                    // Each turn asks r2d2 for one more connection. As long as all before, they stay few.
                    turn = waited.min(within.saturating_sub(waited));
                    if turn.is_zero() || self.counts.connecting.load(Ordering::Relaxed) == 0 {
                        let failure = self.counts.failure().clone();
                        let lost = failure.unwrap_or_else(|| Fault::new(FaultKind::Lost, ""));
                        let lost = lost.with(&format!("no connection to the database within {waited:?}"));
                        return Err(Fault { kind: FaultKind::Lost, ..lost });
                    }
                }
            }
        }
    }

    /// Gives up a connection that failed, and all opened before now: they lead to the same place.
    pub(crate) fn discard(&self, link: &mut Link) {
        link.broken = true;
        self.counts.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives up a connection that may not write, with all that lead to the same place: the address may lead
    /// to another server by now, after a failover. And one that an error of the database may have spoiled.
    pub(crate) fn distrust(&self, link: &mut Link, fault: &Fault) {
        if fault.kind.is_of_server() {
            self.discard(link);
        } else if self.target.dialect.errors_spoil_connections()
            && !matches!(fault.kind, FaultKind::Conflict | FaultKind::Ended)
        {
            link.broken = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that were given up on keep theirs while others run: eleven connections stayed open for ten
    /// minutes.
    #[cfg(feature = "sqlite")]
    #[test]
    fn connections_beyond_the_limit_close_when_they_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::parse(&format!("sqlite:{}", folder.path().join("x.db").display())).unwrap();
        let connections =
            Connections::open(target, StoreLimits { call: 1_000, connections: 2, spare: 3 }).unwrap();
        let open = || connections.pool.state().connections;
        let taken: Vec<_> = (0..5).map(|_| connections.get(CONNECTION_WAIT).unwrap()).collect();
        assert_eq!(open(), 5);
        drop(taken);
        assert_eq!(open(), 2);
    }

    #[test]
    fn threads_that_cannot_be_made_are_an_error() {
        let error = openers("no thread has this \0 name").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::System);
        assert!(openers("firetime-connect-{}").is_ok());
    }
}
