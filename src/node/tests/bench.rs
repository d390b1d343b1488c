//! A runner over the in-memory store, with the settlements it sends and the events it tells.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam::channel::{Receiver, unbounded};

use crate::domain::{Boot, Timestamp};
use crate::fixtures::{claim_under, definition};
use crate::machine::driver::spawn;
use crate::node::context::Ledger;
use crate::node::counters::Counters;
use crate::node::handlers::Handlers;
use crate::node::runner::{Runner, RunnerLane};
use crate::node::teller::{Observer, events};
use crate::pipeline::complete::CompleteInput;
use crate::pipeline::dispatch::DispatchInput;
use crate::store::memory::MemoryStore;
use crate::store::{Claimed, Store, Verbs};
use crate::time::Lease;
use crate::trigger::Trigger;

/// When its schedule fires.
pub(in crate::node) const AT: Timestamp = Timestamp::at(1_767_225_601_000);

pub(in crate::node) struct RunnerBench {
    pub store: Arc<MemoryStore>,
    pub runner: Runner,
    pub settled: Receiver<CompleteInput>,
    pub ran: Receiver<DispatchInput>,
    told: Arc<Mutex<Vec<String>>>,
}

/// One in which a schedule fires once.
pub(in crate::node) fn store() -> MemoryStore {
    let store = MemoryStore::new(AT - 1_000);
    let once = Trigger::once(AT.utc().unwrap()).unwrap();
    store.ensure(&definition("s", once)).unwrap();
    store
}

impl RunnerBench {
    pub fn new(handlers: Handlers) -> Self {
        let store = Arc::new(store());
        let ((complete, settled), (dispatch, ran)) = (unbounded(), unbounded());
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let observer: Observer = Box::new(move |event| heard.lock().unwrap().push(event.to_string()));
        let (events, teller) = events(vec![observer], Counters::new([]));
        spawn("events", || teller.run()).unwrap();
        let runner = Runner {
            clock: Arc::default(),
            handlers: Arc::new(handlers),
            complete,
            dispatch,
            lane: RunnerLane::default(),
            events: Arc::new(events),
            standing: Arc::default(),
            stopping: Arc::default(),
            ledger: Ledger(Arc::clone(&store) as Arc<dyn Store>),
            spans: Default::default(),
            closed: Arc::default(),
        };
        Self { store, runner, settled, ran, told }
    }

    /// Its schedule's occurrence, claimed.
    pub fn claim(&self, at_once: bool) -> Claimed {
        claim_under(self.lease(), self.store.as_ref(), "s", at_once, AT)
    }

    /// One that ends only with the wall clock's next step.
    pub fn lease(&self) -> Lease {
        Lease { until: Boot::MAX, apart: self.runner.clock.now().apart }
    }

    pub fn told(&self) -> String {
        assert!(self.runner.events.flush(Duration::from_secs(20)));
        self.told.lock().unwrap().join("; ")
    }
}
