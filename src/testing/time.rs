//! The time of a test's cluster, which stands until the test moves it.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use crossbeam::channel::{Receiver, Sender};

use crate::domain::{Boot, Timestamp};
use crate::time::{Clock, millis};

thread_local! {
    /// The execution whose handler runs on this thread.
    static RUN: RefCell<Option<HandlerThread>> = const { RefCell::new(None) };
}

/// A handler's thread, as the cluster and it take turns.
pub(super) struct HandlerThread {
    pub(super) tells: Sender<Told>,
    pub(super) woken: Receiver<()>,
}

/// What a handler's thread tells when it is the cluster's turn.
pub(super) enum Told {
    /// The handler goes on at this instant.
    Sleeps(Boot),
    /// It has done something that others see, and goes on when it is told to.
    Did(String),
    Ended,
}

impl HandlerThread {
    /// Makes this the thread of a handler, once it is its turn; false if that never comes.
    pub(super) fn enter(self) -> bool {
        let has_turn = self.woken.recv().is_ok();
        RUN.set(has_turn.then_some(self));
        has_turn
    }

    /// Tells something from within a handler, and waits for its next turn; false on any other thread.
    pub(super) fn tell(told: Told) -> bool {
        let is_awake = RUN.with_borrow(|run| {
            run.as_ref().map(|run| run.tells.send(told).is_ok() && run.woken.recv().is_ok())
        });
        if is_awake == Some(false) {
            resume_unwind(Box::new(Killed));
        }
        is_awake.is_some()
    }

    pub(super) fn end() {
        if let Some(run) = RUN.take() {
            // A cluster that is gone wants no more news.
            run.tells.send(Told::Ended).ok();
        }
    }
}

/// Its handler's node was killed.
struct Killed;

/// The time of a [`TestCluster`](super::TestCluster), for handlers and tests.
///
/// A handler that sleeps holds no lock that another one wants: the test would wait for ever.
///
/// ```
/// use firetime::testing::TestCluster;
/// use firetime::Job;
/// use std::time::Duration;
///
/// const IMPORT: Job<()> = Job::new("import");
/// let mut cluster = TestCluster::new("shop");
/// let time = cluster.time();
/// cluster.node(|node| node.handler(IMPORT, move |_, ()| {
///     time.sleep(Duration::from_secs(90)); // As long as the import of a large file takes.
///     Ok(())
/// }))?;
/// cluster.client().enqueue(IMPORT, &()).run()?;
/// cluster.advance(Duration::from_secs(60));
/// cluster.ran("queue:import").never();
/// cluster.advance(Duration::from_secs(60));
/// cluster.ran("queue:import").times(1);
/// # Ok::<(), firetime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestTime(Arc<AtomicI64>);

impl TestTime {
    pub(super) fn new(at: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(at.millis())))
    }

    pub(super) fn clock(&self) -> Clock {
        Clock::told(Arc::clone(&self.0))
    }

    pub(super) fn at(&self) -> Timestamp {
        Timestamp::at(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, at: Timestamp) {
        self.0.store(at.millis(), Ordering::Relaxed);
    }

    /// The cluster's time, UTC.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.at().utc().unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// Lets a handler take so long: it goes on when the cluster's time has come as far. No thread sleeps for
    /// it. An async handler calls it, too.
    ///
    /// # Panics
    /// Outside of a handler that a [`TestCluster`](super::TestCluster) runs: a test moves the time itself, by
    /// [`advance`](super::TestCluster::advance).
    pub fn sleep(&self, span: Duration) {
        let until = Boot::at(self.at().millis()) + millis(span);
        let is_handler = HandlerThread::tell(Told::Sleeps(until));
        assert!(is_handler, "TestTime::sleep is for handlers: a test calls TestCluster::advance");
    }
}
