//! One node of a test: the production machines, and handlers that take turns with them.

use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, TryRecvError, bounded, unbounded};

use super::actor::Actor;
use super::floors::{Floors, Permit, hire};
use super::time::{HandlerThread, TestTime, Told};
use crate::domain::attempt_span::AttemptSpan;
use crate::domain::{Boot, Error, Event, ExecutionState, LaneReport, NodeId};
use crate::machine::driver;
use crate::members::{HeartbeatInput, HeartbeatMachine, OwnTokens, Standing};
use crate::misfire::{MisfireInput, MisfireMachine};
use crate::node::context::Ledger;
use crate::node::counters::Counters;
use crate::node::handlers::Handlers;
use crate::node::lifecycle::{Lifecycle, Started, Starting};
use crate::node::route::{Leaving, Mailboxes, Output, route};
use crate::node::runner::{Runner, RunnerLane};
use crate::node::start::{Config, join, new_node};
use crate::node::teller::{Observer, events};
use crate::pipeline::complete::time_limits::Stuck;
use crate::pipeline::complete::{CompleteInput, CompleteMachine, Reply};
use crate::pipeline::dispatch::{DispatchInput, DispatchMachine};
use crate::pipeline::lanes::{LaneId, Lanes};
use crate::pipeline::poll::{PollInput, PollMachine};
use crate::pipeline::pool::Notice;
use crate::pipeline::start::{StartInput, StartMachine};
use crate::requests::{RequestsInput, RequestsMachine};
use crate::store::memory::MemoryStore;
use crate::store::{Applied, Claimed, Store};
use crate::time::{Clock, Micros, Now};

/// What a node publishes of its lanes.
type NoLanes = fn() -> LaneReport;

/// What came to a node through its channels, from the threads of its handlers.
struct Arrivals {
    complete: Receiver<CompleteInput>,
    dispatch: Receiver<DispatchInput>,
}

/// A handler that has begun and not ended.
struct Running {
    lane: LaneId,
    wakes_at: Boot,
    told: Receiver<Told>,
    wake: Sender<()>,
}

/// A node of a test's cluster.
pub(super) struct TestNode {
    pub(super) id: NodeId,
    clock: Arc<Clock>,
    poll: Actor<PollMachine>,
    dispatch: Actor<DispatchMachine<Floors>>,
    start: Actor<StartMachine<Permit>>,
    complete: Actor<CompleteMachine>,
    misfire: Actor<MisfireMachine>,
    requests: Actor<RequestsMachine>,
    heartbeat: Actor<HeartbeatMachine<NoLanes>>,
    floors: Floors,
    /// By lane.
    runners: Vec<Arc<Runner>>,
    arrivals: Arrivals,
    /// Threads that wait for their rows to say RUNNING.
    starting: Vec<(LaneId, Starting, Receiver<Applied>)>,
    running: Vec<Running>,
    leaving: Option<Leaving>,
}

impl TestNode {
    /// Joins the cluster.
    pub(super) fn join(
        id: NodeId,
        time: &TestTime,
        store: &Arc<MemoryStore>,
        (config, handlers, observers): (Config, Handlers, Vec<Observer>),
    ) -> Result<Self, Error> {
        let (clock, shared) = (Arc::new(time.clock()), Arc::clone(store) as Arc<dyn Store>);
        let (application, window) = (&config.application, config.window);
        let counters = Counters::new(handlers.specs().into_iter().map(|spec| spec.name));
        let (events, teller) = events(observers, counters);
        driver::spawn("firetime-events", || teller.run())?;
        let joining = new_node(id, application, &handlers, (window, &clock));
        let (lease, offset, members) = join(&*shared, &joining, &clock, window.lease())?;
        let (now, handlers) = (clock.now(), Arc::new(handlers));
        let (held, standing) = (Arc::new(OwnTokens::default()), Arc::<Standing>::default());
        standing.renew(&lease, now);
        let lanes = Lanes::new(&config.lanes, handlers.lanes());
        let (complete, completes) = unbounded();
        let (dispatch, dispatches) = unbounded();
        let runner = Runner {
            clock: Arc::clone(&clock),
            handlers: Arc::clone(&handlers),
            complete,
            dispatch,
            lane: RunnerLane::default(),
            events: Arc::new(events),
            standing: Arc::clone(&standing),
            stopping: Arc::default(),
            ledger: Ledger(Arc::clone(&shared)),
            spans: config.spans.clone().of(application),
            closed: Arc::default(),
        };
        let of_lane = |id| {
            let lane = RunnerLane { watch: lanes.watch(id), stuck: Stuck::default() };
            Arc::new(Runner { lane, ..runner.clone() })
        };
        let runners = config.lanes.iter().zip(LaneId::all()).map(|(_, id)| of_lane(id)).collect();
        let floors = Floors::new(&config.lanes);
        let dispatch = DispatchMachine::new(id, Arc::clone(&held), lease, lanes, floors.clone(), now);
        // Each change is told, so that nobody looks for others' in between.
        let mut poll = PollMachine::new(id, application.clone(), handlers, window, i64::MAX, offset, now);
        poll_told(&mut poll, now, members);
        let carrier = (config.carrier)(application, &shared);
        let none: NoLanes = LaneReport::default;
        Ok(Self {
            id,
            clock,
            poll: Actor::new(poll),
            dispatch: Actor::new(dispatch),
            start: Actor::new(StartMachine::new()),
            complete: Actor::new(CompleteMachine::new(Arc::clone(&held))),
            misfire: Actor::new(MisfireMachine::new(application.clone(), window)),
            requests: Actor::new(RequestsMachine::new(application.clone(), carrier)),
            heartbeat: Actor::new(HeartbeatMachine::new(joining, window, held, standing, none, now)),
            floors,
            runners,
            arrivals: Arrivals { complete: completes, dispatch: dispatches },
            starting: Vec::new(),
            running: Vec::new(),
            leaving: None,
        })
    }

    /// The next instant at which it does something by itself.
    pub(super) fn next_at(&self) -> Boot {
        let wakes = self.running.iter().map(|it| it.wakes_at);
        let machines = [
            self.poll.next_at(),
            self.dispatch.next_at(),
            self.start.next_at(),
            self.complete.next_at(),
            self.misfire.next_at(),
            self.requests.next_at(),
            self.heartbeat.next_at(),
        ];
        machines.into_iter().chain(wakes).min().unwrap_or(Boot::MAX)
    }

    /// A client has changed something.
    pub(super) fn hear(&mut self) {
        self.poll.receive(PollInput::News);
        self.heartbeat.receive(HeartbeatInput::CancelAsked);
        self.requests.receive(RequestsInput::Wake);
    }

    /// Begins an orderly shutdown.
    pub(super) fn leave(&mut self) {
        if self.leaving.is_none() {
            let now = self.clock.now();
            self.leaving = Some(Leaving::begin(&mut Delivery { node: self, now }));
        }
    }

    pub(super) fn has_left(&self) -> bool {
        let ended = self.heartbeat.has_stopped() && self.poll.has_stopped() && self.misfire.has_stopped();
        self.leaving.is_some() && ended && self.requests.has_stopped()
    }

    /// Everything it does at this instant; whether that was anything.
    pub(super) fn run(&mut self, store: &dyn Store) -> bool {
        let mut did = false;
        while self.round(store) || self.goes_on_leaving() {
            did = true;
        }
        did
    }

    fn round(&mut self, store: &dyn Store) -> bool {
        let now = self.clock.now();
        let mut did = self.settle_starts() | self.wake_handlers(now.boot);
        macro_rules! turn {
            ($($actor:ident => $output:ident),*) => { $({
                let mut told = Vec::new();
                self.$actor.run(now, store, &mut told);
                did |= self.deliver(told.into_iter().map(Output::$output), now);
            })* };
        }
        turn!(heartbeat => Heartbeat, poll => Poll, misfire => Misfire, requests => Requests);
        let freed = self.floors.freed().into_iter().map(|lane| Output::Pool(lane, Notice::Freed));
        did |= self.deliver(freed, now);
        turn!(dispatch => Dispatch, start => Start);
        while let Some((lane, claimed)) = self.floors.take_ready() {
            did = true;
            let first = self.runners[lane.place()].first(claimed);
            self.perform(lane, first);
        }
        self.floors.each().for_each(|(_, mut floor)| while floor.retires() {});
        self.take_arrivals();
        turn!(complete => Complete);
        did | self.starting.iter().any(|(.., settled)| !settled.is_empty())
    }

    /// Routes outputs; whether there were any.
    fn deliver(&mut self, outputs: impl Iterator<Item = Output<Permit>>, now: Now) -> bool {
        let mut said = false;
        for output in outputs {
            said = true;
            route(output, &mut Delivery { node: self, now });
        }
        said
    }

    fn take_arrivals(&mut self) {
        self.arrivals.complete.try_iter().for_each(|input| self.complete.receive(input));
        self.arrivals.dispatch.try_iter().for_each(|input| self.dispatch.receive(input));
    }

    /// Executions whose rows say RUNNING begin; whether there were any.
    fn settle_starts(&mut self) -> bool {
        let mut did = false;
        for (lane, starting, settled) in std::mem::take(&mut self.starting) {
            match settled.try_recv() {
                Err(TryRecvError::Empty) => self.starting.push((lane, starting, settled)),
                answer => {
                    did = true;
                    let next = self.runners[lane.place()].started(starting, answer.ok());
                    self.perform(lane, next);
                }
            }
        }
        did
    }

    /// Handlers whose sleep is over go on; whether there were any.
    fn wake_handlers(&mut self, now: Boot) -> bool {
        let (due, asleep): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.running).into_iter().partition(|it| it.wakes_at <= now);
        self.running = asleep;
        let did = !due.is_empty();
        for it in due {
            if it.wake.send(()).is_ok() {
                self.await_turn(it);
            }
        }
        did
    }

    /// Waits until a handler's thread has had its turn.
    fn await_turn(&mut self, running: Running) {
        match running.told.recv() {
            Ok(Told::Sleeps(wakes_at)) => self.running.push(Running { wakes_at, ..running }),
            Ok(Told::Ended) | Err(_) => self.floors.of(running.lane).finished(hire),
        }
        self.take_arrivals();
    }

    fn perform(&mut self, lane: LaneId, next: Lifecycle) {
        match next {
            Lifecycle::Start(settlement, starting) => {
                let (reply, settled) = bounded(1);
                self.complete.receive(CompleteInput::Settle(settlement, Some(Reply::Thread(reply))));
                self.starting.push((lane, starting, settled));
            }
            Lifecycle::Call(running) => self.call(lane, running),
            over => {
                self.runners[lane.place()].leave(over);
                self.floors.of(lane).finished(hire);
            }
        }
    }

    /// Calls the handler, on a thread of its own: it has its turn until it sleeps or ends.
    fn call(&mut self, lane: LaneId, running: Started) {
        let ((tells, told), (wake, woken)) = (bounded(1), bounded(1));
        let runner = Arc::clone(&self.runners[lane.place()]);
        let body = move || {
            HandlerThread { tells, woken }.enter();
            runner.perform_here(running);
            HandlerThread::end();
        };
        let spawned = driver::spawn("firetime-test-handler", body);
        assert!(spawned.is_ok(), "a handler needs a thread of its own: {spawned:?}");
        self.await_turn(Running { lane, wakes_at: Boot::MAX, told, wake });
    }

    /// The next step of a shutdown, once what this one waits for has ended; false if there is none.
    fn goes_on_leaving(&mut self) -> bool {
        let Some(leaving) = self.leaving else { return false };
        let ended = match leaving {
            Leaving::Claims => self.dispatch.has_stopped(),
            Leaving::Starts => self.start.has_stopped(),
            Leaving::Jobs => self.floors.are_at_rest(),
            Leaving::Outcomes => self.complete.has_stopped(),
            Leaving::Cluster => false,
        };
        if ended {
            let (floors, now) = (self.floors.clone(), self.clock.now());
            let queue = || floors.close().into_iter().map(|claimed| claimed.give_back(now.db)).collect();
            self.leaving = Some(leaving.go_on(true, queue, &mut Delivery { node: self, now }));
        }
        ended
    }
}

/// The poll begins with the live nodes, and where each change is told.
fn poll_told(poll: &mut PollMachine, now: Now, members: Vec<crate::domain::shards::Member>) {
    use crate::machine::Machine;
    poll.receive(now, PollInput::Told(true));
    poll.receive(now, PollInput::Members(members));
}

/// Hands inputs to the machines at once.
struct Delivery<'n> {
    node: &'n mut TestNode,
    now: Now,
}

impl Mailboxes for Delivery<'_> {
    type Permit = Permit;

    fn poll(&mut self, input: PollInput) {
        self.node.poll.receive(input);
    }

    fn dispatch(&mut self, input: DispatchInput) {
        self.node.dispatch.receive(input);
    }

    fn start(&mut self, input: StartInput<Permit>) {
        self.node.start.receive(input);
    }

    fn complete(&mut self, input: CompleteInput) {
        self.node.complete.receive(input);
    }

    fn misfire(&mut self, input: MisfireInput) {
        self.node.misfire.receive(input);
    }

    fn requests(&mut self, input: RequestsInput) {
        self.node.requests.receive(input);
    }

    fn heartbeat(&mut self, input: HeartbeatInput) {
        self.node.heartbeat.receive(input);
    }

    fn stop_listening(&mut self) {}

    fn run(&mut self, due: Vec<(Permit, Claimed)>) {
        due.into_iter().for_each(|(permit, claimed)| permit.submit(claimed, self.now.boot));
    }

    fn set_offset(&mut self, offset: Micros) {
        self.node.clock.set_offset(offset);
    }

    fn left(&mut self) {}

    fn emit(&mut self, event: Event) {
        self.node.runners[0].events.emit(event);
    }

    fn end_span(&mut self, span: AttemptSpan, state: Option<ExecutionState>) {
        self.node.runners[0].events.end_span(span, state);
    }

    fn gave_up(&mut self) {}
}
