//! Whole clusters in a test: your schedules and your handlers on the engine that runs them in production, in
//! a store in memory, at a time that stands until the test moves it. For `dev-dependencies`, with the feature
//! `testing`.
//!
//! Nothing sleeps: [`TestCluster::advance`] runs what comes due in between, in order, in this one thread's
//! turns, so that the same test makes the same history each time.
//!
//! ```
//! use chrono::{DateTime, Utc};
//! use firetime::testing::TestCluster;
//! use firetime::{Job, Schedule, Trigger};
//! use std::time::Duration;
//!
//! const REPORT: Job<()> = Job::new("report");
//!
//! let mut cluster = TestCluster::new("shop");
//! cluster.node(|node| node.handler(REPORT, |_, ()| Ok(())))?;
//! let nightly = Trigger::cron("0 0 2 * * ?", "Europe/Berlin")?;
//! cluster.client().ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
//! cluster.advance(Duration::from_secs(3 * 24 * 3_600));
//! cluster.ran("nightly").times(3);
//! cluster.nothing_waits();
//! # Ok::<(), firetime::Error>(())
//! ```

mod actor;
pub(crate) mod floors;
mod node;
mod seen;
#[cfg(test)]
mod tests;
mod time;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeZone as _, Utc};
use uuid::Uuid;

use self::node::TestNode;
pub use self::seen::Seen;
pub use self::time::TestTime;
use crate::api::{Builder, Client, Scheduler};
use crate::domain::{Boot, Error, Millis, NodeId, Timestamp};
use crate::node::Changed;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::time::millis;

/// A URL that is never opened: the store is in memory.
const NOWHERE: &str = "sqlite:in-a-test.db";

/// Within so many milliseconds a node looks at what has changed.
const LOOKS: Millis = 100;

const MINUTE: Duration = Duration::from_secs(60);

/// Nodes of one application on one store in memory, at a time that the test moves.
///
/// Each node is the production engine: it polls, claims, takes over from dead nodes and repairs misfires. It
/// looks around less often than in production, so that a day of the test's time takes milliseconds: it polls
/// and beats each minute, is dead after five, and the misfire handler passes every five; a node's own
/// settings go before these. Clients' changes are heard at once. Store calls take no time.
///
/// Handlers run one after the other, each until it ends or [sleeps](TestTime::sleep), so that they may share
/// plain values with the test.
///
/// Dropping it ends its nodes as a power cut does.
pub struct TestCluster {
    application: String,
    time: TestTime,
    store: Arc<MemoryStore>,
    nodes: Vec<TestNode>,
    joined: u128,
    /// A client has changed something since the nodes looked last.
    is_changed: Arc<AtomicBool>,
}

impl std::fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("TestCluster");
        shown.field("application", &self.application).field("now", &self.now()).finish_non_exhaustive()
    }
}

impl TestCluster {
    /// A cluster of `application` (1 to 50 characters) without nodes, at 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn new(application: &str) -> Self {
        Self::starting_at(application, Utc.timestamp_millis_opt(1_767_225_600_000).unwrap())
    }

    /// As [`new`](Self::new), at another instant, such as the evening before a clock change.
    #[must_use]
    pub fn starting_at(application: &str, start: DateTime<Utc>) -> Self {
        let time = TestTime::new(Timestamp::from(start));
        let store = Arc::new(MemoryStore::new(time.at()));
        let (application, is_changed) = (application.to_owned(), Arc::default());
        Self { application, time, store, nodes: Vec::new(), joined: 0, is_changed }
    }

    /// Adds a node, configured as in production: give this the function with which your program adds its
    /// handlers and settings to its [`Builder`]. It joins at once; its number, from 0 on, is for
    /// [`kill`](Self::kill) and [`shut_down`](Self::shut_down).
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a configuration with which no node could start.
    pub fn node(&mut self, configure: impl FnOnce(Builder) -> Builder) -> Result<usize, Error> {
        let builder = Scheduler::builder(&self.application, NOWHERE)
            .poll_interval(MINUTE)
            .heartbeat_interval(MINUTE)
            .death_after(5 * MINUTE)
            .misfire_interval(5 * MINUTE);
        let parts = configure(builder).into_parts()?;
        self.joined += 1;
        let id = NodeId(Uuid::from_u128(self.joined));
        self.nodes.push(TestNode::join(id, &self.time, &self.store, parts)?);
        self.settle();
        Ok(usize::try_from(self.joined - 1).unwrap_or(usize::MAX))
    }

    /// A client of the cluster's application, for the test and for handlers. Its requests are made at once;
    /// [`Client::wait`] would wait for ever, as the time stands meanwhile.
    #[must_use]
    pub fn client(&self) -> Client {
        let is_changed = Arc::clone(&self.is_changed);
        let changed = move |_: Changed<'_>| is_changed.store(true, Ordering::Relaxed);
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        Client::over(&self.application, store, Arc::default(), changed).acting_as("test")
    }

    /// The cluster's time, to read it or to let handlers take some.
    #[must_use]
    pub fn time(&self) -> TestTime {
        self.time.clone()
    }

    /// What time it is, UTC.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.time.now()
    }

    /// Moves the time on by a span, and runs what comes due in between, each at its instant.
    pub fn advance(&mut self, span: Duration) {
        self.run_until(self.time.at() + millis(span));
    }

    /// As [`advance`](Self::advance), up to an instant. Nothing happens if it has passed.
    pub fn advance_to(&mut self, instant: DateTime<Utc>) {
        self.run_until(Timestamp::from(instant));
    }

    /// Runs what is due. The time moves on by a tenth of a second at most, as nodes wait a little between two
    /// looks at the store.
    pub fn run_due(&mut self) {
        self.run_until(self.time.at() + LOOKS);
    }

    /// Lets the nodes do all that they do at this instant.
    fn settle(&mut self) {
        loop {
            let is_changed = self.is_changed.swap(false, Ordering::Relaxed);
            if is_changed {
                self.nodes.iter_mut().for_each(TestNode::hear);
            }
            let mut did = is_changed;
            for node in &mut self.nodes {
                did |= node.run(&*self.store);
            }
            self.nodes.retain(|node| !node.has_left());
            if !did {
                return;
            }
        }
    }

    /// Ends a node as a power cut does: what it ran ends where it is, and nobody is told. The others take
    /// over once they have found it dead, five to eleven minutes later.
    ///
    /// # Panics
    /// If there is no such node any more.
    pub fn kill(&mut self, node: usize) {
        let place = self.place(node);
        drop(self.nodes.remove(place));
    }

    /// Begins an orderly shutdown of a node: it claims no more, and leaves once its handlers have ended.
    ///
    /// # Panics
    /// If there is no such node any more.
    pub fn shut_down(&mut self, node: usize) {
        let place = self.place(node);
        self.nodes[place].leave();
        self.settle();
    }

    fn place(&self, node: usize) -> usize {
        let id = NodeId(Uuid::from_u128(node as u128 + 1));
        let place = self.nodes.iter().position(|it| it.id == id);
        place.unwrap_or_else(|| panic!("node {node} is not running: {} have joined", self.joined))
    }

    fn run_until(&mut self, until: Timestamp) {
        loop {
            self.settle();
            let next = self.nodes.iter().map(TestNode::next_at).min().unwrap_or(Boot::MAX);
            let next = Timestamp::at(next.millis());
            if next > until || self.nodes.is_empty() {
                break;
            }
            self.move_to(next);
        }
        if until > self.time.at() {
            self.move_to(until);
            self.settle();
        }
    }

    /// The time is the store's, too.
    fn move_to(&self, at: Timestamp) {
        self.time.set(at);
        self.store.set_time(at);
    }
}
