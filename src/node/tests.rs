//! Nodes on a store in memory: how they start, and how they end.

pub(super) mod bench;
mod costs;

use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::bounded;

use crate::domain::{Error, Event, JobPolicy, JobSpec};
use crate::machine::driver;
use crate::members::HeartbeatInput;
use crate::node::Node;
use crate::node::counters::Counters;
use crate::node::handlers::Handlers;
use crate::node::inboxes::inboxes;
use crate::node::phase::Phase;
use crate::node::start::{Config, Stores, stop_on_panic};
use crate::node::stopped::Stopped;
use crate::node::teller::events;
use crate::pipeline::dispatch::DispatchInput;
use crate::pipeline::lanes::{DEFAULT_LANE, LaneSettings};
use crate::pipeline::pool::PoolLimits;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::time::{Clock, Window, millis};

const SOON: Duration = Duration::from_secs(20);

/// A start on a store in memory, and what every loop, observer and handler it began holds on to.
struct Starting {
    store: Arc<MemoryStore>,
    life: Arc<()>,
}

impl Starting {
    fn new() -> Self {
        let clock = Clock::default();
        Self { store: Arc::new(MemoryStore::new(clock.now().db)), life: Arc::new(()) }
    }

    fn start(&self) -> Result<Node, Error> {
        self.start_within(Window::default())
    }

    fn start_within(&self, window: Window) -> Result<Node, Error> {
        let (ran, heard) = (Arc::clone(&self.life), Arc::clone(&self.life));
        let mut handlers = Handlers::default();
        handlers
            .add(JobSpec::new("job", JobPolicy::DEFAULT), move |_, ()| {
                drop(Arc::clone(&ran));
                Ok(())
            })
            .unwrap();
        let observer = move |_: &Event| drop(Arc::clone(&heard));
        let shared = || -> Arc<dyn Store> { Arc::clone(&self.store) as _ };
        let stores = Stores { work: shared(), heart: shared(), clients: shared() };
        let config = Config {
            application: "app".to_owned(),
            url: "sqlite:unused.db".to_owned(),
            lanes: vec![LaneSettings::new(DEFAULT_LANE, PoolLimits::new(4, 16, 64))],
            window,
            migrate: false,
            carrier: crate::api::carrier,
            spans: Default::default(),
            #[cfg(feature = "tokio")]
            tasks: None,
        };
        Node::start_on(stores, Arc::default(), config, handlers, vec![Box::new(observer)])
    }

    /// Waits until nothing is left of it; a loop that goes on would hold on to the events or the
    /// handlers.
    fn assert_over(&self) {
        let clock = Clock::default();
        let until = clock.now().boot + millis(SOON);
        while Arc::strong_count(&self.life) > 1 || Arc::strong_count(&self.store) > 1 {
            assert!(clock.now().boot < until, "something goes on");
            std::thread::yield_now();
        }
        let nodes = self.store.nodes(None).unwrap();
        assert!(nodes.iter().all(|node| node.ended.is_some()), "{nodes:?}");
    }
}

#[test]
fn a_start_that_gets_no_thread_for_a_loop_leaves_nothing_behind() {
    for name in ["events", "join", "complete", "dispatch", "start", "misfire", "heartbeat", "poll"] {
        let starting = Starting::new();
        let refused: &'static str = format!("firetime-{name}").leak();
        let error = driver::refused::during(refused, || starting.start()).err().unwrap();
        assert!(error.to_string().contains(refused), "{error}");
        starting.assert_over();
    }
}

#[test]
fn a_start_whose_first_heartbeat_fails_leaves_the_cluster() {
    let starting = Starting::new();
    starting.store.refuse_beats();
    let error = starting.start().err().unwrap();
    assert!(error.to_string().contains("as the test asked"), "{error}");
    starting.assert_over();
}

#[test]
fn a_start_that_joined_without_hearing_of_it_leaves_the_cluster() {
    let starting = Starting::new();
    starting.store.lose_registrations();
    let error = starting.start().err().unwrap();
    assert!(error.is_unknown(), "{error}");
    assert_eq!(starting.store.nodes(None).unwrap().len(), 1);
    starting.assert_over();
}

/// MariaDB's client waits for ever on a network that has gone silent.
#[test]
fn a_start_whose_database_does_not_answer_the_join_ends_and_leaves_no_node() {
    let starting = Arc::new(Starting::new());
    let held = starting.store.hold_registrations();
    let (done, ended) = bounded(1);
    let begins = Arc::clone(&starting);
    let short = Window { call: 500, ..Window::default() };
    driver::spawn("start", move || done.send(begins.start_within(short).err()).unwrap()).unwrap();
    let error = ended.recv_timeout(SOON).unwrap().expect("nobody has answered");
    assert!(error.is_unknown() && error.to_string().contains("joining"), "{error}");
    drop(held);
    starting.assert_over();
}

#[test]
fn a_second_shutdown_keeps_its_own_deadline() {
    let node = Arc::new(Starting::new().start().unwrap());
    // As if another thread waited for an hour.
    *node.inboxes.life.phase() = Phase::Stopping;
    let (done, ended) = bounded(1);
    let second = Arc::clone(&node);
    driver::spawn("second", move || done.send(second.shutdown(Duration::from_millis(100))).unwrap()).unwrap();
    assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(Stopped::NotYet));
    *node.inboxes.life.phase() = Phase::Up;
    assert!(node.shutdown(Duration::from_secs(20)).is_clean());
}

/// It waited for a shutdown that nobody would call.
#[test]
fn a_wait_ends_with_a_panicked_loop_and_a_shutdown_still_stops_in_order() {
    let starting = Starting::new();
    let node = starting.start().unwrap();
    node.inboxes.life.give_up();
    assert_eq!(node.wait(), Stopped::GivenUp);
    assert!(node.shutdown(SOON).is_clean(), "no loop has panicked in truth");
    assert!(node.wait().is_clean());
    node.inboxes.life.give_up();
    assert!(node.wait().is_clean(), "it has stopped before");
    drop(node);
    starting.assert_over();
}

#[test]
fn a_shutdown_whose_node_could_not_leave_is_not_clean() {
    let starting = Starting::new();
    let node = starting.start().unwrap();
    starting.store.refuse_leaves();
    assert_eq!(node.shutdown(SOON), Stopped::Unclean);
    assert!(starting.store.nodes(None).unwrap()[0].ended.is_none());
    assert_eq!(node.wait(), Stopped::Unclean);
}

#[test]
fn a_node_that_is_shut_down_leaves_nothing_behind() {
    let starting = Starting::new();
    let node = starting.start().unwrap();
    assert!(node.shutdown(SOON).is_clean());
    drop(node);
    starting.assert_over();
}

/// Nobody is told of an event before the loops have been stopped.
#[test]
fn a_panicked_loop_stops_the_node_whatever_the_log_does() {
    let (events, teller) = events(vec![Box::new(|_: &Event| panic!("an observer"))], Counters::new([]));
    let (to, messages) = inboxes(&Arc::default(), &Arc::new(events));
    let life = Arc::clone(&to.life);
    stop_on_panic(to)("a loop", "said");
    assert!(matches!(messages.heartbeat.try_recv(), Ok(HeartbeatInput::Stop { leave: false })));
    assert!(matches!(messages.dispatch.try_recv(), Ok(DispatchInput::Stop)));
    assert_eq!(life.wait(), Stopped::GivenUp);
    teller.run();
}
