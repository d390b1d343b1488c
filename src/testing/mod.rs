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
pub(crate) mod dice;
mod effects;
mod fake;
mod fire;
pub(crate) mod floors;
mod names;
mod node;
mod picture;
mod replay;
mod seen;
#[cfg(test)]
mod tests;
mod time;
mod under;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeZone as _, Utc};

pub use self::effects::Effects;
pub use self::fake::FakeContext;
use self::fire::{Fire, Line, Strike, World};
use self::node::{Plan, TestNode};
pub use self::replay::{Replay, Replayed, ReplayedSchedule, Tally};
pub use self::seen::Seen;
pub use self::time::TestTime;
pub use self::under::under_faults;
use crate::api::{Builder, Client, Scheduler};
use crate::domain::{Boot, Error, Millis, Timestamp};
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
/// every five minutes, beats every two, is dead after six, and the misfire handler passes every 15. It
/// removes nothing from the ledger, however long the test. A node's own settings go before these
/// ([`Builder::retention`](crate::Builder::retention)). Clients' changes are heard at once. Store calls take
/// no time.
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
    /// How many have joined.
    joined: usize,
    fire: Fire,
    /// How wrong the database's clock is.
    clock_error: Millis,
    /// Nodes that come in the place of others, and when.
    coming: Vec<(Timestamp, Arc<Plan>)>,
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
        Self::at(application, Timestamp::from(start))
    }

    fn at(application: &str, start: Timestamp) -> Self {
        let time = TestTime::new(start);
        let store = Arc::new(MemoryStore::new(time.at()));
        let (application, is_changed) = (application.to_owned(), Arc::default());
        Self {
            application,
            time,
            store,
            nodes: Vec::new(),
            joined: 0,
            fire: Fire::default(),
            clock_error: 0,
            coming: Vec::new(),
            is_changed,
        }
    }

    /// As [`new`](Self::new), under the faults of a seed.
    fn under_fire(application: &str, seed: u64) -> Self {
        let mut cluster = Self::new(application);
        cluster.fire = Fire::of_seed(seed, cluster.time.at());
        cluster
    }

    /// Adds a node, configured as in production: give this the function with which your program adds its
    /// handlers and settings to its [`Builder`]. It joins at once; its number, from 0 on, is for
    /// [`kill`](Self::kill) and [`shut_down`](Self::shut_down).
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a configuration with which no node could start.
    pub fn node(&mut self, configure: impl FnOnce(Builder) -> Builder) -> Result<usize, Error> {
        let builder = Scheduler::builder(&self.application, NOWHERE)
            .poll_interval(5 * MINUTE)
            .heartbeat_interval(2 * MINUTE)
            .death_after(6 * MINUTE)
            .misfire_interval(15 * MINUTE)
            .retention(None);
        let plan = Plan::new(configure(builder).into_parts()?);
        self.join(&Arc::new(plan))
    }

    fn join(&mut self, plan: &Arc<Plan>) -> Result<usize, Error> {
        let number = self.joined;
        let node = TestNode::join(number, &self.time, &self.store, plan)?;
        self.joined += 1;
        let at = self.time.at();
        self.fire.tell(|| Line { at, node: Some(number), execution: None, text: "joins".to_owned() });
        self.nodes.push(node);
        self.settle();
        Ok(number)
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

    /// Somebody has changed something, not by a client.
    fn hear(&self) {
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// Ends the faults of [`under_faults`]: nodes that stand still go on, others come for those that are gone
    /// at once, and all waiting executions are run, for a day at most. If the seed's death at the end of a
    /// handler has not come yet, it comes meanwhile, if enough handlers end. Without faults this only runs
    /// the waiting executions.
    pub fn heal(&mut self) {
        const TEN_MINUTES: Duration = Duration::from_secs(600);
        self.fire.end();
        self.clock_error = 0;
        self.nodes.iter_mut().for_each(|node| node.freeze(Boot::MIN));
        self.coming.iter_mut().for_each(|(at, _)| *at = self.time.at());
        for _ in 0..144 {
            self.advance(TEN_MINUTES);
            if self.nothing_is_open() && picture::overdue(&self.client()).is_empty() {
                break;
            }
        }
        self.fire.spare();
    }

    /// Lets the nodes do all that they do at this instant.
    fn settle(&mut self) {
        loop {
            let is_changed = self.is_changed.swap(false, Ordering::Relaxed);
            if is_changed {
                self.nodes.iter_mut().for_each(TestNode::hear);
            }
            let mut did = is_changed;
            let mut world = World { store: &*self.store, fire: &mut self.fire };
            for node in &mut self.nodes {
                did |= node.run(&mut world);
            }
            let (gone, stay) =
                std::mem::take(&mut self.nodes).into_iter().partition(|it| it.is_dead || it.has_left());
            self.nodes = stay;
            did |= self.replace(gone);
            if !did {
                return;
            }
        }
    }

    /// Under faults another node comes in the place of each; whether one of them has died just now.
    fn replace(&mut self, gone: Vec<TestNode>) -> bool {
        let now = self.time.at();
        for node in &gone {
            let absence = self.fire.absence();
            self.coming.extend(absence.map(|absence| (now + absence, Arc::clone(&node.plan))));
        }
        !gone.is_empty()
    }

    /// Lets what goes wrong by itself go wrong at this instant.
    fn strike(&mut self) {
        let now = self.time.at();
        match self.fire.strike(now, self.nodes.len()) {
            Strike::Node(place, fate) => {
                self.nodes[place].meets(fate, &mut self.fire);
            }
            Strike::ShutDown(place) => {
                self.nodes[place].tell(None, "shuts down", &mut self.fire);
                self.nodes[place].leave();
            }
            Strike::Clock(error) => {
                self.clock_error = error;
                let text = format!("its clock is set: {error} ms ahead");
                self.fire.tell(|| Line { at: now, node: None, execution: None, text });
            }
            Strike::Nothing => {}
        }
    }

    /// Ends a node as a power cut does: what it ran ends where it is, and nobody is told. The others take
    /// over once they have found it dead, six to 13 minutes later.
    ///
    /// # Panics
    /// If there is no such node any more.
    pub fn kill(&mut self, node: usize) {
        let place = self.place(node);
        let gone = self.nodes.remove(place);
        self.replace(vec![gone]);
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
        let place = self.nodes.iter().position(|it| it.number == node);
        place.unwrap_or_else(|| panic!("node {node} is not running: {} have joined", self.joined))
    }

    fn run_until(&mut self, until: Timestamp) {
        loop {
            self.settle();
            let coming = self.coming.iter().map(|(at, _)| *at);
            let wakes = self.nodes.iter().map(TestNode::next_at).chain([self.fire.next_at()]);
            let wakes = wakes.map(|boot| Timestamp::at(boot.millis()));
            let next = coming.chain(wakes).min().unwrap_or(Timestamp::MAX);
            if next > until || next == Timestamp::MAX {
                break;
            }
            self.move_to(next.max(self.time.at()));
            self.strike();
            self.come();
        }
        if until > self.time.at() {
            self.move_to(until);
            self.settle();
        }
    }

    /// Those that come at this instant join.
    fn come(&mut self) {
        let now = self.time.at();
        for (_, plan) in self.coming.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            let joined = self.join(&plan);
            assert!(joined.is_ok(), "a node comes in the place of another: {joined:?}");
        }
    }

    /// The time is the store's, too.
    fn move_to(&self, at: Timestamp) {
        self.time.set(at);
        self.store.set_time(at + self.clock_error);
    }
}
