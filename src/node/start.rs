//! How a node starts: its connections, its place in the cluster, each machine on its driver.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::domain::{Error, Event, Millis, NodeId};
use crate::machine::driver::{self, OnPanic, Surroundings, drive};
use crate::members::{Held, NodeMachine};
use crate::node::handlers::Handlers;
use crate::node::inboxes::{Inboxes, inboxes, send};
use crate::node::join::{identity, join_within, leave};
use crate::node::route::Output::{Complete, Dispatch, Heartbeat, Misfire, Poll, Start};
use crate::node::route::{Output, cancel, give_up};
use crate::node::runner::Runner;
use crate::node::shutdown::Life;
use crate::node::teller::{Events, Observer, events};
use crate::node::{Loops, Node};
use crate::pipeline::complete::CompleteMachine;
use crate::pipeline::dispatch::{DispatchMachine, Seats};
use crate::pipeline::poll::{PollInput, PollMachine};
use crate::pipeline::pool::{Permit, Pool, PoolLimits, Seat};
use crate::pipeline::start::StartMachine;
use crate::store::{self, Claimed, Figures, Store};
use crate::time::{Clock, MOST_ABANDONED, Window};
use crate::upkeep::MisfireMachine;

/// The settings of a node. Not Debug: the URL may hold a password.
pub(crate) struct Config {
    pub application: String,
    pub url: String,
    pub limits: PoolLimits,
    pub window: Window,
    /// Whether the start creates or upgrades the tables; otherwise it checks them.
    pub migrate: bool,
}

/// Connections by their use: none waits for another's.
pub(super) struct Stores {
    pub(super) work: Arc<dyn Store>,
    pub(super) heart: Arc<dyn Store>,
    pub(super) clients: Arc<dyn Store>,
}

impl Stores {
    fn open(config: &Config, clock: &Arc<Clock>) -> Result<Self, Error> {
        let clients = store::StoreLimits { call: config.window.call, ..store::StoreLimits::default() };
        // One for each loop that has store calls; those of a call that is abandoned are replaced.
        let of_loops =
            |connections| store::StoreLimits { connections, spare: MOST_ABANDONED as u32, ..clients };
        let open = |limits| store::open(&config.url, limits, Arc::clone(clock));
        Ok(Self { work: open(of_loops(4))?, heart: open(of_loops(1))?, clients: open(clients)? })
    }
}

impl Node {
    /// Prepares the database, joins the cluster and begins all loops.
    pub(crate) fn start(config: Config, handlers: Handlers, observers: Vec<Observer>) -> Result<Self, Error> {
        let clock = Arc::new(Clock::default());
        if config.migrate {
            store::migrate(&config.url)?;
        } else {
            store::check_schema(&config.url)?;
        }
        let stores = Stores::open(&config, &clock)?;
        Self::start_on(stores, clock, config, handlers, observers)
    }

    /// As [`Node::start`], on a database that is prepared. A start that fails leaves the cluster again.
    pub(super) fn start_on(
        stores: Stores,
        clock: Arc<Clock>,
        config: Config,
        handlers: Handlers,
        observers: Vec<Observer>,
    ) -> Result<Self, Error> {
        let (events, teller) = events(observers);
        driver::spawn("firetime-events", || teller.run())?;
        let (node, call, heart) = (NodeId::fresh(), config.window.call, Arc::clone(&stores.heart));
        let begun = Self::begin(config, handlers, Arc::new(events), Arc::clone(&clock), stores, node);
        if begun.is_err() {
            leave(&heart, node, &clock, call);
        }
        begun
    }

    /// Joins the cluster and begins all loops, or ends those it has begun.
    fn begin(
        config: Config,
        handlers: Handlers,
        events: Arc<Events>,
        clock: Arc<Clock>,
        stores: Stores,
        node: NodeId,
    ) -> Result<Self, Error> {
        let Config { application, limits, window, .. } = config;
        let identity = identity(&application, &handlers);
        let (lease, offset, members) = join_within(&stores.heart, &identity, node, &clock, window)?;
        events.emit(Event::Joined { node });

        let (inboxes, read) = inboxes(&clock, &events);
        send(&inboxes.poll, PollInput::Members(members));
        let life = Arc::<Life>::default();
        let handlers = Arc::new(handlers);
        let (stopping, closed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let runner = Runner {
            clock: Arc::clone(&clock),
            handlers: Arc::clone(&handlers),
            complete: inboxes.complete.clone(),
            events: Arc::clone(&events),
            stopping: Arc::clone(&stopping),
            closed: Arc::clone(&closed),
        };
        let run = move |claimed| runner.run(claimed);
        let pool = Arc::new(Pool::new(limits, run, inboxes.route(Output::Pool)));
        let around = Surroundings {
            clock: Arc::clone(&clock),
            store: stores.work,
            call: window.call,
            abandoned: Arc::default(),
            panicked: stop_on_panic(inboxes.clone(), Arc::clone(&life)),
        };
        // The heartbeat's store calls go over a connection of their own.
        let alone = Surroundings { store: stores.heart, ..around.clone() };
        let (held, now) = (Arc::new(Held::default()), clock.now());
        let dispatch = DispatchMachine::new(node, Arc::clone(&held), lease, Arc::clone(&pool), now);
        let complete = CompleteMachine::new(Arc::clone(&held));
        let misfire = MisfireMachine::new(application.clone(), window);
        let poll = PollMachine::new(node, application.clone(), handlers, window, offset, now);
        let heart = NodeMachine::new(node, identity, window, held, figures_of(Arc::clone(&pool)), now);
        let to = &inboxes;
        let begin = || {
            // The poll last: before it there is nothing to claim.
            Ok(Loops {
                complete: drive("firetime-complete", complete, read.complete, &around, to.route(Complete))?,
                dispatch: drive("firetime-dispatch", dispatch, read.dispatch, &around, to.route(Dispatch))?,
                start: drive("firetime-start", StartMachine::new(), read.start, &around, to.route(Start))?,
                misfire: drive("firetime-misfire", misfire, read.misfire, &around, to.route(Misfire))?,
                heartbeat: drive("firetime-heartbeat", heart, read.heartbeat, &alone, to.route(Heartbeat))?,
                poll: drive("firetime-poll", poll, read.poll, &around, to.route(Poll))?,
            })
        };
        let loops = begin().inspect_err(|_| cancel(&mut &inboxes))?;
        Ok(Self {
            loops,
            inboxes,
            application,
            clients: stores.clients,
            clock,
            events,
            pool,
            stopping,
            closed,
            life,
        })
    }
}

/// Ends a node one of whose loops has panicked, before anybody is told of it.
pub(super) fn stop_on_panic(to: Inboxes, life: Arc<Life>) -> OnPanic {
    Arc::new(move |name, reason| {
        give_up(&mut &to);
        to.events.emit(Event::LoopPanicked { name: name.to_owned(), reason: reason.to_owned() });
        life.panicked();
    })
}

/// The figures of the pool that a heartbeat shows.
fn figures_of(pool: Arc<Pool<Claimed>>) -> impl Fn() -> Figures + Send + 'static {
    move || {
        let figures = pool.figures();
        Figures { threads: figures.threads, busy: figures.busy, queued: figures.queued }
    }
}

/// The pool as dispatch sees it.
impl Seats for Arc<Pool<Claimed>> {
    type Permit = Permit<Claimed>;

    fn reserve(&mut self) -> Option<Self::Permit> {
        Pool::reserve(self)
    }

    fn seat(permit: &Self::Permit) -> Seat {
        permit.seat()
    }

    fn tick(&mut self, boot: Millis) -> Vec<Claimed> {
        Pool::tick(self, boot)
    }

    fn is_awaited(&self) -> bool {
        Pool::is_awaited(self)
    }
}
