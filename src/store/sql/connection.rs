//! The pool of connections.
//!
//! It opens nothing that nobody waits for, and never tests what it hands out: a connection that failed
//! in any way that is not positively a refusal is dropped instead, and with it all that were opened before
//! the failure. A caller waits longer than a second only while a connection is being opened, which far from
//! the database takes a dozen round trips.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};

use super::fault::{Fault, FaultKind};
use super::session::Session;
use super::statement::{single, sql};
use super::target::Target;
use crate::domain::user_code::guarded;
use crate::domain::{Error, ErrorKind};
use crate::store::{Result, StoreLimits};

/// How long a call waits for a connection while none is being opened: all are in use, or the database
/// refuses.
const CONNECTION_WAIT: Duration = Duration::from_secs(1);

/// A session in the pool.
pub(super) struct Link {
    pub(super) session: Box<dyn Session + Send>,
    broken: bool,
    epoch: u64,
    _open: Open,
}

/// Counts a connection for as long as it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn counted(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the pool opens connections with.
pub(super) struct Manager {
    target: Target,
    limits: StoreLimits,
    epoch: Arc<AtomicU64>,
    waiting: Arc<AtomicUsize>,
    connecting: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    /// Why the last try failed.
    failure: Mutex<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ConnectError(String);

impl r2d2::ManageConnection for Manager {
    type Connection = Link;
    type Error = ConnectError;

    /// Only for a caller that waits: every call that failed in an outage leaves r2d2 trying to connect for
    /// it, and once the database is back all those tries would succeed at once.
    fn connect(&self) -> std::result::Result<Link, ConnectError> {
        let failure = || self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.connecting.fetch_add(1, Ordering::Relaxed) < self.waiting.load(Ordering::Relaxed);
        let epoch = self.epoch.load(Ordering::Relaxed);
        let session = wanted.then(|| self.target.connect(self.limits));
        self.connecting.fetch_sub(1, Ordering::Relaxed);
        match session {
            Some(Ok(session)) => Ok(Link { session, broken: false, epoch, _open: Open::counted(&self.open) }),
            Some(Err(fault)) => {
                failure().clone_from(&fault.message);
                Err(ConnectError(fault.message))
            }
            None => Err(ConnectError(failure().clone())),
        }
    }

    fn is_valid(&self, link: &mut Link) -> std::result::Result<(), ConnectError> {
        single(link.session.rows(&sql("SELECT 1 AS one")).map_err(|fault| ConnectError(fault.message))?)
            .map(|_| ())
            .map_err(|fault| ConnectError(fault.message))
    }

    fn has_broken(&self, link: &mut Link) -> bool {
        // Those opened in the place of connections that abandoned calls kept: once these come back, they are
        // too many.
        let too_many = self.open.load(Ordering::Relaxed) > self.limits.connections.max(1) as usize;
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
pub(super) struct Connections {
    pool: r2d2::Pool<Manager>,
    epoch: Arc<AtomicU64>,
    /// How many callers wait for a connection.
    waiting: Arc<AtomicUsize>,
    /// How many are being opened.
    connecting: Arc<AtomicUsize>,
    pub(super) target: Target,
}

impl Connections {
    pub(super) fn open(target: Target, limits: StoreLimits) -> Result<Self> {
        let epoch = Arc::new(AtomicU64::new(0));
        let waiting = Arc::new(AtomicUsize::new(0));
        let connecting = Arc::new(AtomicUsize::new(0));
        let manager = Manager {
            target: target.clone(),
            limits,
            epoch: Arc::clone(&epoch),
            waiting: Arc::clone(&waiting),
            connecting: Arc::clone(&connecting),
            open: Arc::default(),
            failure: Mutex::new("it is still being opened".to_owned()),
        };
        let builder = r2d2::Pool::builder()
            .min_idle(Some(0))
            .max_size(if target.memory { 1 } else { limits.connections.max(1) + limits.spare })
            .test_on_check_out(false)
            .connection_timeout(CONNECTION_WAIT)
            .thread_pool(Arc::new(openers("firetime-connect-{}")?))
            .error_handler(Box::new(r2d2::NopErrorHandler));
        let builder = if target.memory { builder.idle_timeout(None).max_lifetime(None) } else { builder };
        Ok(Self { pool: builder.build_unchecked(manager), epoch, waiting, connecting, target })
    }

    /// A connection opened after the last failure. One that is being opened is waited for, but no longer than
    /// `within`.
    pub(super) fn get(&self, within: Duration) -> Result<r2d2::PooledConnection<Manager>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let link = self.opened(within);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        link
    }

    fn opened(&self, within: Duration) -> Result<r2d2::PooledConnection<Manager>> {
        let mut waited = Duration::ZERO;
        let mut turn = CONNECTION_WAIT.min(within);
        loop {
            match self.pool.get_timeout(turn) {
                Ok(link) if self.target.memory || link.epoch == self.epoch.load(Ordering::Relaxed) => {
                    return Ok(link);
                }
                Ok(mut link) => link.broken = true,
                Err(error) => {
                    waited += turn;
                    // Each turn asks r2d2 for one more connection. As long as all before, they stay few.
                    turn = waited.min(within.saturating_sub(waited));
                    if turn.is_zero() || self.connecting.load(Ordering::Relaxed) == 0 {
                        let message = format!("no connection to the database within {waited:?}: {error}");
                        return Err(Error::new(ErrorKind::Unavailable, self.target.redact(&message)));
                    }
                }
            }
        }
    }

    /// Gives up a connection that failed, and all opened before now: they lead to the same place.
    pub(super) fn discard(&self, link: &mut Link) {
        link.broken = true;
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives up a connection that may not write, with all that lead to the same place: the address may lead
    /// to another server by now, after a failover. And one that an error of the database may have spoiled.
    pub(super) fn distrust(&self, link: &mut Link, fault: &Fault) {
        if fault.kind == FaultKind::ReadOnly {
            self.discard(link);
        } else if self.target.dialect.errors_spoil_connections() && fault.kind != FaultKind::Conflict {
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
