//! The start of a node: its connections, its place in the cluster, each machine on its driver.

use std::sync::Arc;

use crossbeam::channel::bounded;

use crate::domain::shards::Member;
use crate::domain::{Error, ErrorKind, Event, LaneReport, Millis, NodeId};
use crate::machine::driver::{self, OnPanic, Surroundings, drive};
use crate::members::listener::ListenMachine;
use crate::members::{HeartbeatMachine, OwnTokens, Standing, members};
use crate::misfire::MisfireMachine;
use crate::node::context::Ledger;
use crate::node::counters::Counters;
use crate::node::handlers::Handlers;
use crate::node::host::{host_ip, host_name};
use crate::node::inboxes::{Inboxes, inboxes, send};
use crate::node::pools::Pools;
use crate::node::route::Output::{Complete, Dispatch, Heartbeat, Listen, Misfire, Poll, Requests, Start};
use crate::node::route::{Output, cancel, give_up, route};
use crate::node::runner::{Runner, RunnerLane};
use crate::node::spans::Spans;
#[cfg(feature = "tokio")]
use crate::node::tasks::Tasks;
use crate::node::teller::{Events, Observer, events};
use crate::node::{Loops, Node};
use crate::pipeline::complete::CompleteMachine;
use crate::pipeline::dispatch::DispatchMachine;
use crate::pipeline::lanes::{LaneSettings, Lanes};
use crate::pipeline::poll::{PollInput, PollMachine};
use crate::pipeline::pool::Pool;
use crate::pipeline::start::StartMachine;
use crate::requests::RequestsMachine;
use crate::store::{self, Carrier, Change, HeartbeatReply, NewNode, NodeEnd, Store};
use crate::time::{Clock, Lease, MOST_ABANDONED, Offset, Window, span};

/// Makes what carries out an application's requests, over these connections.
pub(crate) type CarrierOf = fn(&str, &Arc<dyn Store>) -> Arc<dyn Carrier>;

/// The settings of a node. Not Debug: the URL may hold a password.
pub(crate) struct Config {
    pub application: String,
    pub url: String,
    /// The default one first.
    pub lanes: Vec<LaneSettings>,
    pub window: Window,
    /// Whether the start creates or upgrades the tables; otherwise it checks them.
    pub migrate: bool,
    /// For the requests that other programs write.
    pub carrier: CarrierOf,
    pub spans: Spans,
    /// If some handlers are async.
    #[cfg(feature = "tokio")]
    pub tasks: Option<Tasks>,
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
        // One for all: when one of them is led to a promoted server, the others leave the former, too.
        let target = store::Target::parse(&config.url)?;
        let open = |limits| target.open(limits, Arc::clone(clock));
        Ok(Self { work: open(of_loops(5))?, heart: open(of_loops(1))?, clients: open(clients)? })
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
        let counters = Counters::new(handlers.specs().into_iter().map(|spec| spec.name));
        let (events, teller) = events(observers, counters);
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
        let (application, window) = (&config.application, config.window);
        let joining = new_node(node, application, &handlers, (window, &clock));
        let (lease, offset, members) = join_within(&stores.heart, &joining, &clock, window)?;
        events.emit(Event::Joined { node });

        let (inboxes, read) = inboxes(&clock, &events);
        send(&inboxes.poll, PollInput::Members(members));
        let lanes = Lanes::new(&config.lanes, handlers.lanes());
        let (handlers, standing) = (Arc::new(handlers), Arc::<Standing>::default());
        standing.renew(&lease, clock.now());
        let spans = config.spans.clone().of(application);
        let runner = Runner { spans, ..runner(&inboxes, &handlers, &standing, &stores) };
        let pools = Arc::new(pools(&config, &lanes, &runner, &inboxes));
        let (around, alone) = surroundings(&inboxes, &stores, window.call);
        let (held, now, carrier) = (Arc::new(OwnTokens::default()), clock.now(), config.carrier);
        let dispatch = DispatchMachine::new(node, Arc::clone(&held), lease, lanes, Arc::clone(&pools), now);
        let complete = CompleteMachine::new(Arc::clone(&held));
        let misfire = MisfireMachine::new(application.clone(), window);
        let (unsettled, board) = (complete.unsettled(), misfire.board());
        let requests = RequestsMachine::new(application.clone(), carrier(application, &stores.clients));
        let (hearing, report) = (around.store.hearing(), report(&pools, &handlers));
        let poll = PollMachine::new(node, application.clone(), handlers, window, hearing.glance, offset, now);
        let heart = HeartbeatMachine::new(joining, window, held, Arc::clone(&standing), report, now);
        let listener = hearing.tells.then(|| ListenMachine::new(application.clone(), &window));
        let to = &inboxes;
        let begin = || -> Result<Loops, Error> {
            // The poll last: before it there is nothing to claim.
            Ok(Loops {
                complete: drive("firetime-complete", complete, read.complete, &around, to.route(Complete))?,
                dispatch: drive("firetime-dispatch", dispatch, read.dispatch, &around, to.route(Dispatch))?,
                start: drive("firetime-start", StartMachine::new(), read.start, &around, to.route(Start))?,
                misfire: drive("firetime-misfire", misfire, read.misfire, &around, to.route(Misfire))?,
                requests: drive("firetime-requests", requests, read.requests, &around, to.route(Requests))?,
                heartbeat: drive("firetime-heartbeat", heart, read.heartbeat, &alone, to.route(Heartbeat))?,
                listen: listener
                    .map(|it| drive("firetime-listen", it, read.listen, &around, to.route(Listen)))
                    .transpose()?,
                poll: drive("firetime-poll", poll, read.poll, &around, to.route(Poll))?,
            })
        };
        let loops = begin().inspect_err(|_| cancel(&mut &inboxes))?;
        #[cfg(feature = "tokio")]
        config.tasks.iter().for_each(|tasks| tasks.watch(&standing, &runner.closed, &inboxes));
        Ok(Self {
            loops,
            inboxes,
            application: config.application,
            clients: stores.clients,
            notifier: Arc::default(),
            waiters: Arc::default(),
            clock,
            window,
            standing,
            events,
            calls: around.calls,
            unsettled,
            board,
            pools,
            stopping: runner.stopping,
            closed: runner.closed,
        })
    }
}

/// What surrounds a node's machines, and its heartbeat, whose store calls go over a connection of their own.
fn surroundings(to: &Inboxes, stores: &Stores, call: Millis) -> (Surroundings, Surroundings) {
    let around = Surroundings {
        clock: Arc::clone(&to.clock),
        store: Arc::clone(&stores.work),
        call,
        abandoned: Arc::default(),
        calls: Arc::default(),
        panicked: stop_on_panic(to.clone()),
    };
    let alone = Surroundings { store: Arc::clone(&stores.heart), ..around.clone() };
    (around, alone)
}

/// The runner of a lane's executions, as yet without its lane, its spans and a runtime for async handlers.
fn runner(to: &Inboxes, handlers: &Arc<Handlers>, standing: &Arc<Standing>, stores: &Stores) -> Runner {
    Runner {
        clock: Arc::clone(&to.clock),
        handlers: Arc::clone(handlers),
        complete: to.complete.clone(),
        dispatch: to.dispatch.clone(),
        lane: RunnerLane::default(),
        events: Arc::clone(&to.events),
        standing: Arc::clone(standing),
        stopping: Arc::default(),
        ledger: Ledger(Arc::clone(&stores.clients)),
        spans: Spans::default(),
        closed: Arc::default(),
    }
}

/// What the node publishes of its lanes.
fn report(pools: &Arc<Pools>, handlers: &Handlers) -> impl Fn() -> LaneReport + Send + use<> {
    let async_jobs = handlers.lanes().filter(|it| it.is_async);
    let async_jobs: Vec<_> = async_jobs.map(|it| (it.job.to_owned(), it.lane.to_owned())).collect();
    let pools = Arc::clone(pools);
    move || pools.report(&async_jobs)
}

/// A pool for each lane, with a runner of its own.
fn pools(config: &Config, lanes: &Lanes, runner: &Runner, to: &Inboxes) -> Pools {
    Pools::new(&config.lanes, |id, lane, stuck| {
        let runner = Runner { lane: RunnerLane { watch: lanes.watch(id), stuck }, ..runner.clone() };
        let to = to.clone();
        let notify = move |notice| route(Output::Pool(id, notice), &mut &to);
        #[cfg(feature = "tokio")]
        if let Some(tasks) = config.tasks.as_ref().filter(|_| lane.is_of_tasks) {
            return Pool::of_tasks(lane.limits.max, tasks.launch(runner), notify);
        }
        Pool::new(&Pools::threads_of(id, lane), lane.limits, move |claimed| runner.run(claimed), notify)
    })
}

/// Ends a node one of whose loops has panicked.
pub(super) fn stop_on_panic(to: Inboxes) -> OnPanic {
    Arc::new(move |name, reason| {
        let why = Event::LoopPanicked { name: name.to_owned(), reason: reason.to_owned() };
        give_up(why, &mut &to);
    })
}

/// The node as it joins, on this host.
pub(crate) fn new_node(
    id: NodeId,
    application: &str,
    handlers: &Handlers,
    (window, clock): (Window, &Clock),
) -> NewNode {
    NewNode {
        id,
        application: application.to_owned(),
        host_ip: host_ip(),
        host_name: host_name(),
        pid: std::process::id(),
        silent_after: window.silence(),
        jobs: handlers.specs(),
        now: clock.now().db,
    }
}

/// As [`join`], within the time of its two store calls: MariaDB's client waits for ever on a network that has
/// gone silent.
fn join_within(
    store: &Arc<dyn Store>,
    node: &NewNode,
    clock: &Arc<Clock>,
    window: Window,
) -> Result<(Lease, Offset, Vec<Member>), Error> {
    let (reply, answer) = bounded(0);
    let (store, node, clock) = (Arc::clone(store), node.clone(), Arc::clone(clock));
    driver::spawn("firetime-join", move || {
        let joined = join(store.as_ref(), &node, &clock, window.lease());
        if reply.send(joined).is_err() {
            // The start has failed; if this fails, too, the node is found dead.
            store.apply_one(Change::End(NodeEnd { node: node.id, beat: None, now: clock.now().db })).ok();
        }
    })?;
    let limit = span(2 * window.call);
    answer.recv_timeout(limit).unwrap_or_else(|_| Err(driver::unanswered("joining", limit)))
}

/// Registers and beats once: gives the first lease, the offset to the database's clock, and the
/// live nodes.
pub(crate) fn join(
    store: &dyn Store,
    node: &NewNode,
    clock: &Clock,
    lease: Millis,
) -> Result<(Lease, Offset, Vec<Member>), Error> {
    let offset = Offset::new(store.register(node)?);
    clock.set_offset(offset.least());
    let sent = clock.now();
    match store.beat(&node.beat(sent.db))? {
        HeartbeatReply::Alive { peers, .. } => Ok((Lease::new(sent, lease), offset, members(&peers))),
        HeartbeatReply::DatabaseReplaced(path) => {
            let message = format!("joining: the database file {path} was replaced or removed meanwhile");
            Err(Error::new(ErrorKind::Conflict, message))
        }
        HeartbeatReply::Ended => {
            Err(Error::new(ErrorKind::Conflict, "somebody ended this node's row at once").during("joining"))
        }
    }
}

/// Takes back what [`join`] may have done, as far as the database lets it: the row of a node that never ran
/// would keep its home shards until it is declared dead.
fn leave(heart: &Arc<dyn Store>, node: NodeId, clock: &Clock, call: Millis) {
    let (done, ended) = bounded(1);
    let (store, now) = (Arc::clone(heart), clock.now().db);
    let leaving = move || {
        // Whether or not it did: the error that is told is the start's.
        store.apply_one(Change::End(NodeEnd { node, beat: None, now })).ok();
        done.send(()).ok();
    };
    // Without a thread nobody can bound it but the session's own limits.
    match driver::spawn("firetime-leave", leaving.clone()) {
        Ok(()) => drop(ended.recv_timeout(span(call))),
        Err(_) => leaving(),
    }
}
