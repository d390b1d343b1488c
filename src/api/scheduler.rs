//! Wiring: the builder, the start, the ordered shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, bounded};
use serde::de::DeserializeOwned;

use crate::api::Client;
use crate::api::Job;
use crate::api::config::{Config, RawConfig};
use crate::domain::shards::Member;
use crate::domain::{Error, Event, Kind, Millis, NodeId};
use crate::machine::driver::{self, Driver, Ended, OnPanic, Surroundings, drive, inbox, wait_in_turns};
use crate::members::{Held, Identity, NodeInput, NodeMachine, members};
use crate::node::handlers::{Context, HandlerError, Handlers};
use crate::node::route::Output::{Complete, Dispatch, Heartbeat, Misfire, Poll, Start};
use crate::node::route::{Leaving, Mailboxes, Output, cancel, give_up, route};
use crate::node::runner::Runner;
use crate::node::teller::{Events, Observer, events};
use crate::pipeline::complete::{CompleteInput, CompleteMachine};
use crate::pipeline::dispatch::{DispatchInput, DispatchMachine, Seats};
use crate::pipeline::poll::{PollInput, PollMachine};
use crate::pipeline::pool::{Limits, Permit, Pool, Seat};
use crate::pipeline::start::{StartInput, StartMachine};
use crate::store::{self, Beat, Change, Claimed, Figures, NodeEnd, Pulse, Store};
use crate::time::{Clock, Lease, MOST_ABANDONED, Micros, Offset, Window, millis, span};
use crate::upkeep::{MisfireInput, MisfireMachine};

/// Configures a [`Scheduler`]; made by [`Scheduler::builder`].
pub struct Builder {
    raw: RawConfig,
    handlers: Handlers,
    twice: Option<&'static str>,
    observers: Vec<Observer>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("application", &self.raw.application).finish_non_exhaustive()
    }
}

impl Builder {
    /// Runs `job`'s executions with `run`. Each job has one handler; a node claims only what it has handlers
    /// for.
    ///
    /// The payload is decoded before the claim: what this node cannot decode it leaves to others.
    #[must_use]
    pub fn handler<P: DeserializeOwned + 'static>(
        mut self,
        job: Job<P>,
        run: impl Fn(&Context, P) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> Self {
        if !self.handlers.add(job.spec(), run) {
            self.twice = Some(job.name());
        }
        self
    }

    /// How many threads run jobs: `core` are kept, up to `max` are made once the queue is full, or holds all
    /// that it takes of slow jobs. Default: 4 and 16; 1 <= core <= max <= 4096.
    #[must_use]
    pub fn threads(mut self, core: usize, max: usize) -> Self {
        self.raw.core_threads = core;
        self.raw.max_threads = max;
        self
    }

    /// How many claimed executions may wait for a thread. Default: 64; 0 to 1,000,000. More pay for short
    /// jobs: of slow ones it takes no more than 64 beyond what starts within 100 ms. The rest is left to
    /// other nodes once all threads are busy.
    #[must_use]
    pub fn queue(mut self, places: usize) -> Self {
        self.raw.queue = places;
        self
    }

    /// How often the database is polled. Default: 5 s; 100 ms to one day.
    ///
    /// All occurrences of an interval are held in memory, some 100 bytes each while they are planned: for
    /// 1,000 schedules that fire every second these are 200 MB at an interval of half an hour. A poll plans
    /// no more than 10,000 occurrences of one schedule; the next poll is late for those behind them.
    #[must_use]
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.raw.poll = interval;
        self
    }

    /// How often this node says that it lives. Default: 5 s; 100 ms to one day.
    #[must_use]
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.raw.beat = interval;
        self
    }

    /// After how long without a heartbeat a node counts as dead. Default: 25 s. Neither a hundredth of it (at
    /// least 1 s) nor the store timeout is part of a lease, and what is left must be at least two heartbeats,
    /// and one heartbeat plus the store timeout. All nodes of an application must agree on it and on the store
    /// timeout: one that declares others dead earlier than they expect takes work from nodes that still run it.
    #[must_use]
    pub fn death_after(mut self, span: Duration) -> Self {
        self.raw.death = span;
        self
    }

    /// How often one node of the application repairs what was left behind. Default: 15 s; at least the poll
    /// interval.
    #[must_use]
    pub fn misfire_interval(mut self, interval: Duration) -> Self {
        self.raw.election = interval;
        self
    }

    /// How long the ledger keeps an occurrence after its last attempt ended; `None` keeps it for ever.
    /// Default: 30 days; at least one hour, and never less than the misfire threshold.
    ///
    /// Counted by the database's clock. What is pending or runs is never removed, nor what its schedule
    /// planned after it. Where nodes of an application differ, the shortest span counts. A completed one-shot
    /// whose executions are gone, and a node that ended that long ago, are removed too.
    #[must_use]
    pub fn retention(mut self, span: Option<Duration>) -> Self {
        self.raw.retention = span;
        self
    }

    /// The most one store call may take before it is abandoned; up to three quarters of it may pass until a
    /// connection is open. Default: 3 s; 500 ms to one day.
    #[must_use]
    pub fn store_timeout(mut self, limit: Duration) -> Self {
        self.raw.call = limit;
        self
    }

    /// Whether `start` creates or upgrades the tables. Default: true; with false a missing or old schema is
    /// an error and `firetime migrate` is yours to run.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.raw.migrate = migrate;
        self
    }

    /// Calls `observer` with every event, after it was logged, in the order they happened.
    ///
    /// All observers run on one thread of their own, which also logs: one that blocks or panics holds up no
    /// claim, heartbeat or outcome, only the events behind it. While 4,096 events wait, further ones are
    /// dropped and counted ([`Event::EventsMissed`]). [`Scheduler::shutdown`] waits up to a second for the
    /// last ones.
    #[must_use]
    pub fn on_event(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// Starts the node: returns once the schema is right, the database's self-check has passed and the first
    /// heartbeat is confirmed.
    ///
    /// # Errors
    /// [`Kind::Config`] for a configuration that cannot work, [`Kind::Unavailable`] if the database cannot be
    /// reached, [`Kind::Schema`] if its tables do not fit this version, [`Kind::Unknown`] if the node was to
    /// join and heard nothing for two store timeouts.
    pub fn start(self) -> Result<Scheduler, Error> {
        if let Some(job) = self.twice {
            return Err(Error::new(Kind::Config, format!("job {job:?} has two handlers; each job has one")));
        }
        let specs = self.handlers.specs();
        if specs.is_empty() {
            return Err(Error::new(
                Kind::Config,
                "no handler: call handler(JOB, |context, payload| ...) first",
            ));
        }
        for spec in &specs {
            crate::api::config::check_name("job name", &spec.name, 200)?;
        }
        let config = self.raw.resolve()?;
        let clock = Arc::new(Clock::default());
        if config.migrate {
            store::migrate(&config.url)?;
        } else {
            store::check_schema(&config.url)?;
        }
        let stores = Stores::open(&config, &clock)?;
        Scheduler::run(config, self.handlers, self.observers, clock, stores)
    }
}

/// Connections by their use: none waits for another's.
struct Stores {
    work: Arc<dyn Store>,
    heart: Arc<dyn Store>,
    clients: Arc<dyn Store>,
}

impl Stores {
    fn open(config: &Config, clock: &Arc<Clock>) -> Result<Self, Error> {
        let clients = store::Limits { call: config.window.call, ..store::Limits::default() };
        // One for each loop that has store calls; those of a call that is abandoned are replaced.
        let of_loops = |connections| store::Limits { connections, spare: MOST_ABANDONED as u32, ..clients };
        let open = |limits| store::open(&config.url, limits, Arc::clone(clock));
        Ok(Self { work: open(of_loops(4))?, heart: open(of_loops(1))?, clients: open(clients)? })
    }
}

/// A running node. Dropping it stops claiming and says so; [`Scheduler::shutdown`] is the orderly way.
///
/// ```
/// use firetime::{Job, Schedule, Scheduler, Trigger};
/// use std::time::Duration;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
///
/// const GREET: Job<String> = Job::new("greet");
/// let scheduler = Scheduler::builder("shop", &url)
///     .handler(GREET, |context, name| {
///         println!("hello {name}, planned for {}", context.fire_time());
///         Ok(())
///     })
///     .start()?;
/// let every = Trigger::every(Duration::from_secs(5))?;
/// scheduler.client().ensure(&Schedule::new("hello", GREET, &"Ada".to_string(), every)?)?;
/// assert!(scheduler.shutdown(Duration::from_secs(10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scheduler {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("application", &self.inner.application).finish_non_exhaustive()
    }
}

/// How long a shutdown waits, at least and at most, until its last events have been told.
const LAST_WORDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Running,
    /// A loop has panicked, and nobody has called a shutdown yet.
    Panicked,
    Stopping,
    Stopped {
        clean: bool,
    },
}

/// How far a scheduler has come, and who waits for its end.
#[derive(Default)]
struct Life {
    phase: Mutex<Phase>,
    ended: Condvar,
}

impl Life {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn panicked(&self) {
        let mut phase = self.phase();
        if *phase == Phase::Running {
            *phase = Phase::Panicked;
            self.ended.notify_all();
        }
    }

    /// True if this begins the shutdown.
    fn stop(&self) -> bool {
        let mut phase = self.phase();
        let first = matches!(*phase, Phase::Running | Phase::Panicked);
        if first {
            *phase = Phase::Stopping;
        }
        first
    }

    fn stopped(&self, clean: bool) {
        *self.phase() = Phase::Stopped { clean };
        self.ended.notify_all();
    }

    /// Blocks until it has stopped, or a loop has panicked.
    fn wait(&self) -> Phase {
        let mut phase = self.phase();
        while matches!(*phase, Phase::Running | Phase::Stopping) {
            phase = self.ended.wait(phase).unwrap_or_else(PoisonError::into_inner);
        }
        *phase
    }
}

struct Inner {
    application: String,
    /// For clients: their questions do not take the pipeline's connections.
    clients: Arc<dyn Store>,
    clock: Arc<Clock>,
    events: Arc<Events>,
    pool: Arc<Pool<Claimed>>,
    loops: Loops,
    inboxes: Inboxes,
    stopping: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
    life: Arc<Life>,
}

struct Loops {
    poll: Driver,
    dispatch: Driver,
    start: Driver,
    complete: Driver,
    node: Driver,
    misfire: Driver,
}

impl Scheduler {
    /// Begins to configure a node of `application` (1 to 50 characters) on the database `url` names:
    /// `sqlite:FILE`, `postgres://USER:PASSWORD@HOST/DATABASE` or `mysql://USER:PASSWORD@HOST/DATABASE`.
    #[must_use]
    pub fn builder(application: &str, url: &str) -> Builder {
        Builder {
            raw: RawConfig::new(application, url),
            handlers: Handlers::default(),
            twice: None,
            observers: Vec::new(),
        }
    }

    fn run(
        config: Config,
        handlers: Handlers,
        observers: Vec<Observer>,
        clock: Arc<Clock>,
        stores: Stores,
    ) -> Result<Self, Error> {
        let (events, teller) = events(observers);
        driver::spawn("firetime-events", || teller.run())?;
        let (node, call, heart) = (NodeId::fresh(), config.window.call, Arc::clone(&stores.heart));
        let begun = Self::begin(config, handlers, Arc::new(events), Arc::clone(&clock), stores, node);
        if begun.is_err() {
            leave(&heart, node, &clock, call);
        }
        Ok(Self { inner: Arc::new(begun?) })
    }

    /// Joins the cluster and begins all loops, or ends those it has begun.
    fn begin(
        config: Config,
        handlers: Handlers,
        events: Arc<Events>,
        clock: Arc<Clock>,
        stores: Stores,
        node: NodeId,
    ) -> Result<Inner, Error> {
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
        let pool = pool(limits, runner, inboxes.clone());
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
        let seats = PoolSeats(Arc::clone(&pool));
        let dispatch = DispatchMachine::new(node, Arc::clone(&held), lease, seats, now);
        let complete = CompleteMachine::new(Arc::clone(&held));
        let misfire = MisfireMachine::new(application.clone(), window);
        let poll = PollMachine::new(node, application.clone(), handlers, window, offset, now);
        let heartbeat = NodeMachine::new(node, identity, window, held, figures_of(Arc::clone(&pool)), now);
        let to = &inboxes;
        let begin = || {
            // The poll last: before it there is nothing to claim.
            Ok(Loops {
                complete: drive("firetime-complete", complete, read.complete, &around, to.route(Complete))?,
                dispatch: drive("firetime-dispatch", dispatch, read.dispatch, &around, to.route(Dispatch))?,
                start: drive("firetime-start", StartMachine::new(), read.start, &around, to.route(Start))?,
                misfire: drive("firetime-misfire", misfire, read.misfire, &around, to.route(Misfire))?,
                node: drive("firetime-heartbeat", heartbeat, read.heartbeat, &alone, to.route(Heartbeat))?,
                poll: drive("firetime-poll", poll, read.poll, &around, to.route(Poll))?,
            })
        };
        let loops = begin().inspect_err(|_| cancel(&mut &inboxes))?;
        Ok(Inner {
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

    /// A client for the same application and database. What it changes this node sees at once, the others
    /// with their next poll.
    #[must_use]
    pub fn client(&self) -> Client {
        let poll = self.inner.inboxes.poll.clone();
        Client::over(&self.inner.application, Arc::clone(&self.inner.clients), move |name| {
            send(&poll, PollInput::Changed(name.to_owned()))
        })
    }

    /// Blocks until [`Scheduler::shutdown`], called on another thread, has ended; true if it was clean.
    ///
    /// A loop of the scheduler that panics ([`Event::LoopPanicked`]) ends the node and the wait: false. A
    /// shutdown then lets running jobs end.
    pub fn wait(&self) -> bool {
        self.inner.wait()
    }

    /// Stops in order: no more polls and claims, what waits in the queue goes back, running jobs may end,
    /// their outcomes are stored, the node leaves. Returns by `deadline` even while the database is away.
    ///
    /// True if everything ended in time and the node's row says that it has left. Otherwise the jobs still
    /// running are left to themselves and other nodes treat this one as dead once its heartbeat has been
    /// missing long enough. While another thread shuts down already, this waits for that, until its own
    /// deadline.
    pub fn shutdown(&self, deadline: Duration) -> bool {
        self.inner.shutdown(deadline)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        /// How long running jobs may still end behind a scheduler that was dropped.
        const BEHIND: Duration = Duration::from_secs(24 * 3_600);
        if !matches!(*self.inner.life.phase(), Phase::Running | Phase::Panicked) {
            return;
        }
        self.inner.events.emit(Event::Dropped);
        self.inner.stop_claiming();
        let inner = Arc::clone(&self.inner);
        let behind = move || {
            inner.shutdown(BEHIND);
        };
        if driver::spawn("firetime-drop", behind).is_err() {
            self.inner.shutdown(Duration::ZERO);
        }
    }
}

impl Inner {
    fn wait(&self) -> bool {
        let phase = self.life.wait();
        if phase == Phase::Panicked {
            // The process may end as soon as this returns.
            self.events.flush(LAST_WORDS.1);
        }
        phase == Phase::Stopped { clean: true }
    }

    /// Whether another thread's shutdown is clean; false if the deadline, on the boot clock, comes first.
    fn wait_until(&self, deadline: Millis) -> bool {
        let mut phase = self.life.phase();
        loop {
            let left = self.clock.until_boot(deadline);
            match *phase {
                Phase::Stopped { clean } => return clean,
                _ if left.is_zero() => return false,
                _ => {
                    phase =
                        self.life.ended.wait_timeout(phase, left).unwrap_or_else(PoisonError::into_inner).0
                }
            }
        }
    }

    fn stop_claiming(&self) -> Leaving {
        self.stopping.store(true, Ordering::Relaxed);
        Leaving::begin(&mut &self.inboxes)
    }

    fn shutdown(&self, deadline: Duration) -> bool {
        let first = self.life.stop();
        let deadline = self.clock.now().boot.saturating_add(millis(deadline));
        if !first {
            return self.wait_until(deadline);
        }
        let clean = self.stop_by(deadline);
        self.closed.store(true, Ordering::Relaxed);
        self.events.emit(Event::Stopped { clean });
        // The process may end as soon as this returns.
        self.events.flush(self.clock.until_boot(deadline).clamp(LAST_WORDS.0, LAST_WORDS.1));
        self.life.stopped(clean);
        clean
    }

    fn stop_by(&self, deadline: Millis) -> bool {
        let left = || self.clock.until_boot(deadline);
        let queue = || self.pool.close().into_iter().map(|it| it.give_back(self.clock.now().db)).collect();
        let (mut leaving, mut clean) = (self.stop_claiming(), true);
        loop {
            clean &= self.wait_for(leaving, left);
            if leaving == Leaving::Cluster {
                return clean;
            }
            leaving = leaving.go_on(clean, queue, &mut &self.inboxes);
        }
    }

    /// Waits until this step of the shutdown has ended; whether it did, in order, before nothing was left.
    fn wait_for(&self, leaving: Leaving, left: impl Fn() -> Duration + Copy) -> bool {
        let Loops { poll, dispatch, start, complete, node, misfire } = &self.loops;
        match leaving {
            Leaving::Claims => ended(dispatch, left),
            Leaving::Starts => ended(start, left),
            Leaving::Jobs => wait_in_turns(left, |turn| self.pool.wait_idle(turn).then_some(())).is_some(),
            Leaving::Outcomes => {
                let stored = ended(complete, left);
                if !stored {
                    send(&self.inboxes.complete, CompleteInput::Abandon);
                }
                stored
            }
            Leaving::Cluster => {
                let gone = ended(node, left) && self.inboxes.left.load(Ordering::Relaxed);
                ended(poll, left) && ended(misfire, left) && gone
            }
        }
    }
}

/// Whether the loop ends in order before nothing is left.
fn ended(driver: &Driver, left: impl Fn() -> Duration) -> bool {
    wait_in_turns(left, |turn| driver.join(turn)) == Some(Ended::InOrder)
}

/// Where the outputs of this node's machines go.
#[derive(Clone)]
struct Inboxes {
    clock: Arc<Clock>,
    events: Arc<Events>,
    /// Set once the node's row says that it has left.
    left: Arc<AtomicBool>,
    poll: Sender<PollInput>,
    dispatch: Sender<DispatchInput>,
    start: Sender<StartInput<Permit<Claimed>>>,
    complete: Sender<CompleteInput>,
    misfire: Sender<MisfireInput>,
    heartbeat: Sender<NodeInput>,
}

impl Mailboxes for &Inboxes {
    type Permit = Permit<Claimed>;

    fn poll(&mut self, input: PollInput) {
        send(&self.poll, input);
    }

    fn dispatch(&mut self, input: DispatchInput) {
        send(&self.dispatch, input);
    }

    fn start(&mut self, input: StartInput<Self::Permit>) {
        send(&self.start, input);
    }

    fn complete(&mut self, input: CompleteInput) {
        send(&self.complete, input);
    }

    fn misfire(&mut self, input: MisfireInput) {
        send(&self.misfire, input);
    }

    fn heartbeat(&mut self, input: NodeInput) {
        send(&self.heartbeat, input);
    }

    fn run(&mut self, due: Vec<(Self::Permit, Claimed)>) {
        Permit::submit(due, self.clock.now().boot);
    }

    fn set_offset(&mut self, offset: Micros) {
        self.clock.set_offset(offset);
    }

    fn left(&mut self) {
        self.left.store(true, Ordering::Relaxed);
    }

    fn emit(&mut self, event: Event) {
        self.events.emit(event);
    }
}

impl Inboxes {
    /// Routes the outputs of one machine.
    fn route<O>(&self, of: fn(O) -> Output<Permit<Claimed>>) -> impl FnMut(O) + Send + use<O> {
        let to = self.clone();
        move |output| route(of(output), &mut &to)
    }
}

/// What each machine receives.
struct Messages {
    poll: Receiver<PollInput>,
    dispatch: Receiver<DispatchInput>,
    start: Receiver<StartInput<Permit<Claimed>>>,
    complete: Receiver<CompleteInput>,
    misfire: Receiver<MisfireInput>,
    heartbeat: Receiver<NodeInput>,
}

fn inboxes(clock: &Arc<Clock>, events: &Arc<Events>) -> (Inboxes, Messages) {
    let (polls, dispatches, starts) = (inbox(), inbox(), inbox());
    let (completes, misfires, heartbeats) = (inbox(), inbox(), inbox());
    let inboxes = Inboxes {
        clock: Arc::clone(clock),
        events: Arc::clone(events),
        left: Arc::default(),
        poll: polls.0,
        dispatch: dispatches.0,
        start: starts.0,
        complete: completes.0,
        misfire: misfires.0,
        heartbeat: heartbeats.0,
    };
    let messages = Messages {
        poll: polls.1,
        dispatch: dispatches.1,
        start: starts.1,
        complete: completes.1,
        misfire: misfires.1,
        heartbeat: heartbeats.1,
    };
    (inboxes, messages)
}

fn pool(limits: Limits, runner: Runner, to: Inboxes) -> Arc<Pool<Claimed>> {
    let notify = move |notice| route(Output::Pool(notice), &mut &to);
    Arc::new(Pool::new(limits, move |claimed| runner.run(claimed), notify))
}

/// Nobody is told before the node has been ended.
fn stop_on_panic(to: Inboxes, life: Arc<Life>) -> OnPanic {
    Arc::new(move |name, reason| {
        give_up(&mut &to);
        to.events.emit(Event::LoopPanicked { name: name.to_owned(), reason: reason.to_owned() });
        life.panicked();
    })
}

fn figures_of(pool: Arc<Pool<Claimed>>) -> impl Fn() -> Figures + Send + 'static {
    move || {
        let figures = pool.figures();
        Figures { threads: figures.threads, busy: figures.busy, queued: figures.queued }
    }
}

fn identity(application: &str, handlers: &Handlers) -> Identity {
    Identity {
        application: application.to_owned(),
        host_ip: host_ip(),
        host_name: host_name(),
        pid: std::process::id(),
        jobs: handlers.specs(),
    }
}

/// As [`join`], within the time of its two store calls: MariaDB's client waits for ever on a network that has
/// gone silent.
fn join_within(
    store: &Arc<dyn Store>,
    identity: &Identity,
    id: NodeId,
    clock: &Arc<Clock>,
    window: Window,
) -> Result<(Lease, Offset, Vec<Member>), Error> {
    let (reply, answer) = bounded(0);
    let (store, identity, clock) = (Arc::clone(store), identity.clone(), Arc::clone(clock));
    driver::spawn("firetime-join", move || {
        let joined = join(store.as_ref(), &identity, id, &clock, window.lease());
        if reply.send(joined).is_err() {
            // The start has failed; if this fails, too, the node is found dead.
            store.apply_one(Change::End(NodeEnd { node: id, beat: None, now: clock.now().db })).ok();
        }
    })?;
    let limit = span(2 * window.call);
    answer.recv_timeout(limit).unwrap_or_else(|_| {
        Err(Error::new(Kind::Unknown, format!("joining: no answer within {limit:?}; the call was abandoned")))
    })
}

/// Registers and beats once: gives the first lease, the offset to the database's clock, and the
/// live nodes.
fn join(
    store: &dyn Store,
    identity: &Identity,
    id: NodeId,
    clock: &Clock,
    lease: Millis,
) -> Result<(Lease, Offset, Vec<Member>), Error> {
    let sample = store.register(&identity.new_node(id, clock.now().db))?;
    let offset = Offset::new(sample);
    clock.set_offset(offset.least());
    let sent = clock.now();
    let application = identity.application.clone();
    let beat = Beat { node: id, application, figures: Figures::default(), withdraw: false, now: sent.db };
    match store.beat(&beat)? {
        Pulse::Alive { peers, .. } => Ok((Lease::new(sent, lease), offset, members(&peers))),
        Pulse::Ended => Err(Error::new(Kind::Conflict, "joining: somebody ended this node's row at once")),
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

fn send<T>(inbox: &Sender<T>, input: T) {
    // A machine that has ended needs no more input.
    inbox.send(input).ok();
}

struct PoolSeats(Arc<Pool<Claimed>>);

impl Seats for PoolSeats {
    type Permit = Permit<Claimed>;

    fn reserve(&mut self) -> Option<Self::Permit> {
        self.0.reserve()
    }

    fn seat(permit: &Self::Permit) -> Seat {
        permit.seat()
    }

    fn tick(&mut self, boot: Millis) -> Vec<Claimed> {
        self.0.tick(boot)
    }

    fn is_awaited(&self) -> bool {
        self.0.is_awaited()
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A label for people: the address the host's own name resolves to, or nothing.
fn host_ip() -> String {
    use std::net::ToSocketAddrs;
    (host_name().as_str(), 0)
        .to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .map_or_else(String::new, |address| address.ip().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

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

        fn start(&self) -> Result<Scheduler, Error> {
            self.start_with(|builder| builder)
        }

        fn start_with(&self, configure: impl FnOnce(Builder) -> Builder) -> Result<Scheduler, Error> {
            let (ran, heard) = (Arc::clone(&self.life), Arc::clone(&self.life));
            let builder = Scheduler::builder("app", "sqlite:unused.db")
                .handler(Job::<()>::new("job"), move |_, ()| {
                    drop(Arc::clone(&ran));
                    Ok(())
                })
                .on_event(move |_| drop(Arc::clone(&heard)));
            let shared = || -> Arc<dyn Store> { Arc::clone(&self.store) as _ };
            let stores = Stores { work: shared(), heart: shared(), clients: shared() };
            let builder = configure(builder);
            let config = builder.raw.resolve().unwrap();
            Scheduler::run(config, builder.handlers, builder.observers, Arc::default(), stores)
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
            let error = driver::refused::during(refused, || starting.start()).unwrap_err();
            assert!(error.to_string().contains(refused), "{error}");
            starting.assert_over();
        }
    }

    #[test]
    fn a_start_whose_first_heartbeat_fails_leaves_the_cluster() {
        let starting = Starting::new();
        starting.store.refuse_beats();
        let error = starting.start().unwrap_err();
        assert!(error.to_string().contains("as the test asked"), "{error}");
        starting.assert_over();
    }

    #[test]
    fn a_start_that_joined_without_hearing_of_it_leaves_the_cluster() {
        let starting = Starting::new();
        starting.store.lose_registrations();
        let error = starting.start().unwrap_err();
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
        let short = |builder: Builder| builder.store_timeout(Duration::from_millis(500));
        driver::spawn("start", move || done.send(begins.start_with(short).err()).unwrap()).unwrap();
        let error = ended.recv_timeout(SOON).unwrap().expect("nobody has answered");
        assert!(error.is_unknown() && error.to_string().contains("joining"), "{error}");
        drop(held);
        starting.assert_over();
    }

    #[test]
    fn a_second_shutdown_keeps_its_own_deadline() {
        let scheduler = Arc::new(Starting::new().start().unwrap());
        // As if another thread waited for an hour.
        *scheduler.inner.life.phase() = Phase::Stopping;
        let (done, ended) = bounded(1);
        let second = Arc::clone(&scheduler);
        driver::spawn("second", move || done.send(second.shutdown(Duration::from_millis(100))).unwrap())
            .unwrap();
        assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(false));
        *scheduler.inner.life.phase() = Phase::Running;
        assert!(scheduler.shutdown(Duration::from_secs(20)));
    }

    /// It waited for a shutdown that nobody would call.
    #[test]
    fn a_wait_ends_with_a_panicked_loop_and_a_shutdown_still_stops_in_order() {
        let starting = Starting::new();
        let scheduler = starting.start().unwrap();
        scheduler.inner.life.panicked();
        assert!(!scheduler.wait());
        assert!(scheduler.shutdown(SOON), "no loop has panicked in truth");
        assert!(scheduler.wait());
        scheduler.inner.life.panicked();
        assert!(scheduler.wait(), "it has stopped before");
        drop(scheduler);
        starting.assert_over();
    }

    #[test]
    fn a_shutdown_whose_node_could_not_leave_is_not_clean() {
        let starting = Starting::new();
        let scheduler = starting.start().unwrap();
        starting.store.refuse_leaves();
        assert!(!scheduler.shutdown(SOON));
        assert!(starting.store.nodes(None).unwrap()[0].ended.is_none());
        assert!(!scheduler.wait());
    }

    #[test]
    fn a_scheduler_that_is_shut_down_leaves_nothing_behind() {
        let starting = Starting::new();
        let scheduler = starting.start().unwrap();
        assert!(scheduler.shutdown(SOON));
        drop(scheduler);
        starting.assert_over();
    }

    /// Nobody is told of an event before the loops have been stopped.
    #[test]
    fn a_panicked_loop_stops_the_node_whatever_the_log_does() {
        let (events, teller) = events(vec![Box::new(|_: &Event| panic!("an observer"))]);
        let (to, messages) = inboxes(&Arc::default(), &Arc::new(events));
        let life = Arc::default();
        stop_on_panic(to, Arc::clone(&life))("a loop", "said");
        assert!(matches!(messages.heartbeat.try_recv(), Ok(NodeInput::Stop { leave: false })));
        assert!(matches!(messages.dispatch.try_recv(), Ok(DispatchInput::Stop)));
        assert_eq!(life.wait(), Phase::Panicked);
        teller.run();
    }
}
