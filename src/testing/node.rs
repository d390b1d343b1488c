//! One node of a test: the production machines, and handlers that take turns with them.

use std::sync::Arc;

use crossbeam::channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use uuid::Uuid;

use super::actor::Actor;
use super::fire::{Fire, Line, NodeFate, World};
use super::floors::{Floors, Permit, hire};
use super::time::{HandlerThread, TestTime, Told};
use crate::domain::attempt_span::AttemptSpan;
use crate::domain::{Boot, Error, Event, ExecutionId, ExecutionState, LaneReport, NodeId, Timestamp};
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

/// What a node is made of: another one may come in its place.
pub(super) struct Plan {
    config: Config,
    handlers: Arc<Handlers>,
    observers: Vec<Arc<Observer>>,
}

impl Plan {
    pub(super) fn new((config, handlers, observers): (Config, Handlers, Vec<Observer>)) -> Self {
        let observers = observers.into_iter().map(Arc::new).collect();
        Self { config, handlers: Arc::new(handlers), observers }
    }

    fn observers(&self) -> Vec<Observer> {
        let shared = |it: &Arc<Observer>| -> Observer {
            let it = Arc::clone(it);
            Box::new(move |event| it(event))
        };
        self.observers.iter().map(shared).collect()
    }
}

/// A handler that has begun and not ended.
struct Running {
    execution: ExecutionId,
    lane: LaneId,
    wakes_at: Boot,
    told: Receiver<Told>,
    wake: Sender<()>,
}

/// How far a node has come when it ran last.
#[derive(Default)]
pub(super) struct Turns {
    /// Nothing was left to do.
    are_over: bool,
    /// All its rounds: what it has cost.
    #[cfg(test)]
    pub(super) rounds: usize,
}

/// A node of a test's cluster.
pub(super) struct TestNode {
    /// How many have joined before it.
    pub(super) number: usize,
    pub(super) plan: Arc<Plan>,
    /// It has died, and is to be taken away.
    pub(super) is_dead: bool,
    /// It stands still until then.
    frozen_until: Boot,
    pub(super) turns: Turns,
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
        number: usize,
        time: &TestTime,
        store: &Arc<MemoryStore>,
        plan: &Arc<Plan>,
    ) -> Result<Self, Error> {
        // A node that others take for dead joins again under the next id.
        let id = NodeId(Uuid::from_u128((number as u128 + 1) << 64));
        let (config, handlers) = (&plan.config, &plan.handlers);
        let (clock, shared) = (Arc::new(time.clock()), Arc::clone(store) as Arc<dyn Store>);
        let (application, window) = (&config.application, config.window);
        let counters = Counters::new(handlers.specs().into_iter().map(|spec| spec.name));
        let (events, teller) = events(plan.observers(), counters);
        driver::spawn("firetime-events", || teller.run())?;
        let joining = new_node(id, application, handlers, (window, &clock));
        let (lease, offset, members) = join(&*shared, &joining, &clock, window.lease())?;
        let (now, handlers) = (clock.now(), Arc::clone(handlers));
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
            number,
            plan: Arc::clone(plan),
            is_dead: false,
            frozen_until: Boot::MIN,
            turns: Turns::default(),
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
        if self.turns.are_over { self.wakes_at() } else { self.frozen_until }
    }

    /// The same of what is left to do once its turns are over.
    fn wakes_at(&self) -> Boot {
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
        machines.into_iter().chain(wakes).min().unwrap_or(Boot::MAX).max(self.frozen_until)
    }

    /// It stands still until then, as if stopped by a signal.
    pub(super) fn freeze(&mut self, until: Boot) {
        self.frozen_until = until;
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
    pub(super) fn run(&mut self, world: &mut World<'_>) -> bool {
        let now = self.clock.now().boot;
        if self.turns.are_over && now < self.wakes_at() {
            return false;
        }
        let mut did = false;
        self.turns.are_over = false;
        while self.acts(now) && !self.turns.are_over {
            did = true;
            let is_done = !self.goes_on(world) && now < self.wakes_at();
            self.turns.are_over = is_done && self.acts(now);
        }
        did
    }

    /// Whether it neither has died nor stands still.
    fn acts(&self, now: Boot) -> bool {
        !self.is_dead && self.frozen_until <= now
    }

    fn goes_on(&mut self, world: &mut World<'_>) -> bool {
        self.round(world) || self.goes_on_leaving()
    }

    /// One turn of each machine and of what waits for one; whether another round is due for anything but the
    /// machines. It ends where the node dies or stands still under a handler.
    fn round(&mut self, world: &mut World<'_>) -> bool {
        #[cfg(test)]
        {
            self.turns.rounds += 1;
        }
        let now = self.clock.now();
        let has_run = self.settle_starts(now.boot, world) | self.wake_handlers(now.boot, world);
        if !self.acts(now.boot) {
            return has_run;
        }
        macro_rules! turn {
            ($actor:ident => $output:ident) => {{
                let mut told = Vec::new();
                self.$actor.run(now, world, &mut told);
                self.deliver(told.into_iter().map(Output::$output), now)
            }};
        }
        turn!(heartbeat => Heartbeat);
        turn!(poll => Poll);
        turn!(misfire => Misfire);
        turn!(requests => Requests);
        let freed = self.floors.freed().into_iter().map(|lane| Output::Pool(lane, Notice::Freed));
        let has_freed = self.deliver(freed, now);
        let has_moved = turn!(dispatch => Dispatch) | turn!(start => Start);
        let mut did = has_run | has_freed | has_moved;
        while self.acts(now.boot)
            && let Some((lane, claimed)) = self.floors.take_ready()
        {
            did = true;
            let first = self.runners[lane.place()].first(claimed);
            self.perform(lane, first, world);
        }
        self.floors.each().for_each(|(_, mut floor)| while floor.retires() {});
        self.take_arrivals();
        if !self.acts(now.boot) {
            return did;
        }
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
    fn settle_starts(&mut self, now: Boot, world: &mut World<'_>) -> bool {
        let mut did = false;
        for (lane, starting, settled) in std::mem::take(&mut self.starting) {
            if !self.acts(now) {
                self.starting.push((lane, starting, settled));
                continue;
            }
            match settled.try_recv() {
                Err(TryRecvError::Empty) => self.starting.push((lane, starting, settled)),
                answer => {
                    did = true;
                    let next = self.runners[lane.place()].started(starting, answer.ok());
                    self.perform(lane, next, world);
                }
            }
        }
        did
    }

    /// Handlers whose sleep is over go on; whether there were any.
    fn wake_handlers(&mut self, now: Boot, world: &mut World<'_>) -> bool {
        let (due, asleep): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.running).into_iter().partition(|it| it.wakes_at <= now);
        self.running = asleep;
        let did = !due.is_empty();
        for it in due {
            if self.acts(now) {
                self.give_turn(it, world);
            } else {
                self.running.push(it);
            }
        }
        did
    }

    /// Lets a handler's thread go on until it sleeps or ends, or its node dies or stands still.
    fn give_turn(&mut self, mut running: Running, world: &mut World<'_>) {
        loop {
            match running.wake.send(()).ok().and_then(|()| running.told.recv().ok()) {
                Some(Told::Sleeps(wakes_at)) => running.wakes_at = wakes_at,
                Some(Told::Did(what)) => {
                    self.tell(Some(running.execution), &what, world.fire);
                    world.fire.effects.count(what, running.execution);
                    running.wakes_at = Boot::MIN;
                    if self.meets(world.fire.fate_of_node(), world.fire) {
                        continue;
                    }
                }
                Some(Told::Ended) | None => {
                    self.tell(Some(running.execution), "its handler ends", world.fire);
                    self.floors.of(running.lane).finished(hire);
                    self.meets(world.fire.fate_at_end(), world.fire);
                    return self.take_arrivals();
                }
            }
            self.running.push(running);
            return self.take_arrivals();
        }
    }

    /// Meets its fate; whether it goes on.
    pub(super) fn meets(&mut self, fate: NodeFate, fire: &mut Fire) -> bool {
        match fate {
            NodeFate::GoesOn => return true,
            NodeFate::Dies => {
                self.is_dead = true;
                self.tell(None, "dies", fire);
            }
            NodeFate::Freezes(span) => {
                self.freeze(self.clock.now().boot + span);
                self.tell(None, &format!("stands still for {} s", span / 1_000), fire);
            }
        }
        false
    }

    pub(super) fn tell(&self, execution: Option<ExecutionId>, text: &str, fire: &mut Fire) {
        let (at, node) = (Timestamp::at(self.clock.now().boot.millis()), Some(self.number));
        fire.tell(|| Line { at, node, execution, text: text.to_owned() });
    }

    fn perform(&mut self, lane: LaneId, next: Lifecycle, world: &mut World<'_>) {
        match next {
            Lifecycle::Start(settlement, starting) => {
                let (reply, settled) = bounded(1);
                self.complete.receive(CompleteInput::Settle(settlement, Some(Reply::Thread(reply))));
                self.starting.push((lane, starting, settled));
            }
            Lifecycle::Call(running) => self.call(lane, running, world),
            over => {
                self.runners[lane.place()].leave(over);
                self.floors.of(lane).finished(hire);
            }
        }
    }

    /// Calls the handler, on a thread of its own.
    fn call(&mut self, lane: LaneId, started: Started, world: &mut World<'_>) {
        let ((tells, told), (wake, woken)) = (bounded(1), bounded(1));
        let claimed = started.claimed();
        let execution = claimed.execution();
        let begins = format!("{}, attempt {}: its handler begins", claimed.entry().name, claimed.attempt());
        self.tell(Some(execution), &begins, world.fire);
        let runner = Arc::clone(&self.runners[lane.place()]);
        let body = move || {
            if (HandlerThread { tells, woken }).enter() {
                runner.perform_here(started);
                HandlerThread::end();
            }
        };
        let spawned = driver::spawn("firetime-test-handler", body);
        assert!(spawned.is_ok(), "a handler needs a thread of its own: {spawned:?}");
        let running = Running { execution, lane, wakes_at: Boot::MIN, told, wake };
        if self.meets(world.fire.fate_of_node(), world.fire) {
            self.give_turn(running, world);
        } else {
            self.running.push(running);
        }
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

/// What still runs ends where it is.
impl Drop for TestNode {
    fn drop(&mut self) {
        for Running { told, wake, .. } in self.running.drain(..) {
            drop(wake);
            while told.recv().is_ok() {}
        }
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
