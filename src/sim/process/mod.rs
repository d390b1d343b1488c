//! One node: the production machines and the pool's own floor, in a process that can be stopped and killed.

mod checkpoints;
mod completing;
mod saves;
mod threads;
mod transactions;

use std::sync::Arc;

use crossbeam::channel::Receiver;

use self::saves::{Saves, Saving};
use self::transactions::{Own, Transaction};
use super::actor::{Actor, Away, Pace, Scene};
use super::clocks::Clocks;
use super::database::Database;
use super::faults::Faults;
use super::jobs::{self, APPLICATION, Anything};
use super::judge::{Covering, Effect};
use super::sabotage::{Route, Sabotage};
use super::seats::{FloorSeats, Floors, Permit};
use super::wire::Wire;
use crate::api::carrier;
use crate::domain::attempt_span::AttemptSpan;
use crate::domain::{Answer, Boot, Event, ExecutionState, LaneReport, Millis, NodeId, Timestamp};
use crate::fixtures::{NoLanes, new_node};
use crate::machine::Machine;
use crate::members::listener::ListenOutput;
use crate::members::{HeartbeatInput, HeartbeatMachine, HeartbeatOutput, OwnTokens, Standing, members};
use crate::misfire::{MisfireInput, MisfireMachine, MisfireOutput};
use crate::node::context::Begun;
use crate::node::lifecycle::{Interruption, Patience, Started, Starting};
use crate::node::route::{Leaving, Mailboxes, Output, route};
use crate::pipeline::complete::{CompleteInput, CompleteMachine};
use crate::pipeline::dispatch::{DispatchInput, DispatchMachine};
use crate::pipeline::lanes::{DEFAULT_LANE, JobLane, LaneId, LaneSettings, Lanes, Watch};
use crate::pipeline::poll::{PollInput, PollMachine};
use crate::pipeline::pool::{Notice, PoolLimits};
use crate::pipeline::start::{StartInput, StartMachine};
use crate::requests::{RequestsInput, RequestsMachine};
use crate::store::memory::MemoryStore;
use crate::store::news::News;
use crate::store::{Applied, Claimed, HeartbeatReply, Store};
use crate::testing::dice::Dice;
use crate::time::{Lease, Micros, Now, Offset, Window};

/// Small, so that pools are full now and then.
const LIMITS: (usize, usize, usize) = (2, 5, 4);
/// Of the lane beside the default one.
const SLOW_LIMITS: (usize, usize, usize) = (1, 2, 1);

/// One node in so many has two lanes: those whose ids are multiples.
pub(super) const HAS_LANES: u128 = 3;

/// So many async handlers run at once in a lane.
const TASKS: usize = 4;
/// One node in so many has async handlers alone.
const IS_ASYNC: u128 = 4;
/// How long an async handler may go on once it is told to end.
const GRACE: Millis = 5_000;
/// How long one may go on once its node is told to stop.
const UNTIL_DROPPED: Millis = 7_000;

/// The store of clients that decide on the verbs they are given.
fn nowhere() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// The lanes of a node. The second is one job's own, and takes over others that are slow.
fn lanes_of(node: NodeId) -> (Vec<LaneSettings>, Lanes) {
    let lane = |name, (core, max, queue), is_automatic| LaneSettings {
        tasks: TASKS,
        is_automatic,
        ..LaneSettings::new(name, PoolLimits::new(core, max, queue))
    };
    let mut lanes = vec![lane(DEFAULT_LANE, LIMITS, false)];
    let mut flaky = DEFAULT_LANE;
    if node.0.as_u128().is_multiple_of(HAS_LANES) {
        lanes.push(lane("slow", SLOW_LIMITS, true));
        flaky = "slow";
    }
    let is_async = (node.0.as_u128() / HAS_LANES).is_multiple_of(IS_ASYNC);
    let own = [("flaky", flaky), ("steady", DEFAULT_LANE), ("once", DEFAULT_LANE)];
    // On threads only the first names its lane.
    let own = own.into_iter().take(if is_async { 3 } else { 1 });
    if is_async {
        lanes.extend(lanes.clone().iter().map(LaneSettings::of_tasks));
    }
    let of_jobs = Lanes::new(&lanes, own.map(|(job, lane)| JobLane { job, lane, is_async }));
    (lanes, of_jobs)
}

/// A handler that runs, on a thread or as a task.
struct Job {
    lane: LaneId,
    running: Started,
    answer: Answer,
    began: Boot,
    ends: Millis,
    task: Option<Task>,
    own: Option<Own>,
    /// If it stores checkpoints.
    saves: Option<Saves>,
    /// It ends with its process.
    kills: bool,
}

impl Job {
    /// When it stores its next checkpoint: none once it waits for its own transaction.
    fn saves_at(&self) -> Millis {
        let is_waiting = self.own.as_ref().is_some_and(Own::is_waiting);
        self.saves.as_ref().filter(|_| !is_waiting).map_or(Millis::MAX, |saves| saves.at)
    }
}

/// What a handler is if it is async.
struct Task {
    begun: Begun,
    patience: Patience,
    /// When it is looked at again.
    looks_at: Boot,
    /// Since when, by the true time, it is to end.
    told: Option<Millis>,
    dropped: Option<Interruption>,
}

/// What a process is given at each instant.
pub(super) struct Surroundings<'a> {
    pub time: Millis,
    pub wire: &'a Wire<'a>,
    pub dice: &'a mut Dice,
    pub faults: &'a Faults,
    pub away: Away,
    pub pace: Pace,
    pub refuses: bool,
    pub effects: &'a mut Vec<Effect>,
    /// What handlers heard that asked what their executions cover, in the order they asked.
    pub coverings: &'a mut Vec<Covering>,
    /// What misfire handlers have told for operators, and when.
    pub alarms: &'a mut Vec<(Millis, Event)>,
    pub database: &'a Database,
}

pub(super) struct Process {
    /// Its present name: it takes a new one when its row was ended by others.
    pub id: NodeId,
    /// The one it started with.
    pub first_id: NodeId,
    /// The member of the database that it is connected to.
    pub place: usize,
    /// It knows of no other node, and takes everything for its own.
    stranger: bool,
    clocks: Clocks,
    pub stopped_until: Millis,
    /// Since when its machine has been paused, boot clock and all.
    pub frozen_since: Option<Millis>,
    /// The database is away for this node alone.
    pub cut_until: Millis,
    poll: Actor<PollMachine>,
    dispatch: Actor<DispatchMachine<FloorSeats>>,
    start: Actor<StartMachine<Permit>>,
    complete: Actor<CompleteMachine>,
    misfire: Actor<MisfireMachine>,
    requests: Actor<RequestsMachine>,
    heart: Actor<HeartbeatMachine<NoLanes>>,
    pub(super) standing: Arc<Standing>,
    /// How much time its heartbeats have covered, worked out from its leases.
    pub covered: Millis,
    /// When the last confirmed heartbeat was sent, if no call failed since.
    confirmed: Option<Boot>,
    floors: Floors,
    /// Which runs of each lane are told.
    watches: Vec<Watch>,
    /// Which lanes run async handlers.
    of_tasks: Vec<bool>,
    /// When async handlers are dropped, because it stops.
    drops_at: Boot,
    leaving: Option<Leaving>,
    /// Threads that wait for their rows to say RUNNING.
    starting: Vec<(LaneId, Starting, Receiver<Applied>)>,
    running: Vec<Job>,
    /// Of its handlers, also of those that have ended.
    transactions: Vec<Transaction>,
    savings: Vec<Saving>,
    is_dead: bool,
    /// A handler has killed it.
    pub is_killed: bool,
    /// A sabotage: outputs of this kind reach nobody.
    unrouted: Option<Route>,
}

impl Process {
    /// As the scheduler's start: register and beat once, then run the machines. It glances at the database so
    /// often, or hears what that tells.
    pub(super) fn start(
        id: NodeId,
        time: Millis,
        skew: Millis,
        wire: &Wire<'_>,
        stranger: bool,
        retention: Option<Millis>,
        glance: Option<Millis>,
    ) -> Self {
        let node = new_node(id, APPLICATION, jobs::all().to_vec(), Timestamp::at(time));
        let window = Window { retention, ..Window::default() };
        let known = Offset::new(wire.register(&node).unwrap());
        let boot_alone = wire.is(Sabotage::BootClockAlone);
        let clocks = Clocks { skew, lag: 0, offset: known.least(), boot_alone };
        let now = clocks.now(time);
        let beat = wire.beat(&node.beat(now.db));
        let Ok(HeartbeatReply::Alive { peers, .. }) = beat else { panic!("it has just joined") };
        let (held, standing) = (Arc::new(OwnTokens::default()), Arc::new(Standing::default()));
        standing.renew(&Lease::new(now, window.lease()), now);
        let (settings, lanes) = lanes_of(id);
        let watches = settings.iter().zip(LaneId::all()).map(|(_, lane)| lanes.watch(lane)).collect();
        let of_tasks = settings.iter().map(|lane| lane.is_of_tasks).collect();
        let floors = Floors::new(&settings);
        let seats = FloorSeats {
            floors: floors.clone(),
            always: wire.is(Sabotage::ClaimWithoutPermit),
            together: wire.is(Sabotage::OneFullLaneIsAll),
        };
        let shown: NoLanes = LaneReport::default;
        let application = APPLICATION.to_owned();
        let misfire = MisfireMachine::new(application.clone(), window);
        let misfire = if wire.is(Sabotage::BelieveAnyClock) { misfire.trusting() } else { misfire };
        let requests = RequestsMachine::new(application.clone(), carrier(APPLICATION, &nowhere()));
        let any_order = wire.is(Sabotage::CarryOutInAnyOrder);
        let requests = if any_order { requests.unordered() } else { requests };
        let catalog = Anything::new(wire.is(Sabotage::DecodeAllAtOnce));
        let every = glance.unwrap_or(Millis::MAX);
        let mut polling = PollMachine::new(id, application, Arc::new(catalog), window, every, known, now);
        polling.receive(now, PollInput::Told(glance.is_none()));
        if !stranger {
            polling.receive(now, PollInput::Members(members(&peers)));
        }
        Self {
            id,
            first_id: id,
            place: 0,
            stranger,
            clocks,
            stopped_until: Millis::MIN,
            frozen_since: None,
            cut_until: Millis::MIN,
            poll: Actor::new(polling),
            dispatch: Actor::new(DispatchMachine::new(
                id,
                Arc::clone(&held),
                Lease::new(now, window.lease()),
                lanes,
                seats,
                now,
            )),
            start: Actor::new(StartMachine::new()),
            complete: Actor::new(CompleteMachine::new(Arc::clone(&held))),
            misfire: Actor::new(if wire.is(Sabotage::RepairOneByOne) {
                misfire.one_by_one()
            } else {
                misfire
            }),
            requests: Actor::new(requests),
            heart: Actor::new(HeartbeatMachine::new(node, window, held, Arc::clone(&standing), shown, now)),
            standing,
            covered: 0,
            confirmed: None,
            floors,
            watches,
            of_tasks,
            drops_at: Boot::MAX,
            leaving: None,
            starting: Vec::new(),
            running: Vec::new(),
            transactions: Vec::new(),
            savings: Vec::new(),
            is_dead: false,
            is_killed: false,
            unrouted: wire.unrouted(),
        }
    }

    pub(super) fn next_at(&self) -> Millis {
        let lag = self.clocks.lag;
        let looks_at = |it: &Job| {
            it.task.as_ref().map_or(Millis::MAX, |task| task.looks_at.saturating_add(lag).millis())
        };
        let acts_at = |it: &Job| it.ends.min(looks_at(it)).min(it.saves_at());
        let jobs = self.running.iter().map(acts_at).min().unwrap_or(Millis::MAX);
        let own = [self.poll.next_at(lag), self.dispatch.next_at(lag), self.complete.next_at(lag)]
            .into_iter()
            .chain([self.start.next_at(lag), self.misfire.next_at(lag), self.heart.next_at(lag), jobs])
            .chain([self.requests.next_at(lag)])
            .min()
            .unwrap_or(Millis::MAX);
        self.sent_at().min(own.max(self.stopped_until))
    }

    /// The next instant at which the database does something this process once asked for.
    pub(super) fn sent_at(&self) -> Millis {
        [self.poll.sent_at(), self.dispatch.sent_at(), self.complete.sent_at()]
            .into_iter()
            .chain([self.misfire.sent_at(), self.heart.sent_at(), self.transaction_ends_at()])
            .chain([self.requests.sent_at(), self.checkpoint_arrives_at()])
            .min()
            .unwrap_or(Millis::MAX)
    }

    /// The process is stopped or dead: only what it sent goes on.
    pub(super) fn perform_sent(&mut self, time: Millis, wire: &Wire<'_>) {
        self.end_transactions(time, wire);
        self.store_checkpoints(time, wire);
        self.poll.perform_sent(time, wire);
        self.dispatch.perform_sent(time, wire);
        self.complete.perform_sent(time, wire);
        self.misfire.perform_sent(time, wire);
        self.requests.perform_sent(time, wire);
        self.heart.perform_sent(time, wire);
    }

    pub(super) fn die(&mut self, dice: &mut Dice) {
        self.abandon_transactions(dice);
        self.abandon_checkpoints(dice);
        self.poll.die(dice);
        self.dispatch.die(dice);
        self.start.die(dice);
        self.complete.die(dice);
        self.misfire.die(dice);
        self.requests.die(dice);
        self.heart.die(dice);
    }

    /// How many bytes of texts wait to be stored.
    pub(super) fn kept(&self) -> usize {
        self.complete.machine.kept()
    }

    /// The database tells it of others' changes, or of none.
    pub(super) fn hear(&mut self, time: Millis, news: News) {
        self.deliver(std::iter::once(Output::Listen(ListenOutput::News(news))), self.now(time));
    }

    /// Begins an orderly shutdown.
    pub(super) fn leave(&mut self, time: Millis) {
        if self.leaving.is_none() {
            let now = self.now(time);
            self.drops_at = now.boot + UNTIL_DROPPED;
            self.running.iter_mut().filter_map(|it| it.task.as_mut()).for_each(|it| it.looks_at = now.boot);
            self.leaving = Some(Leaving::begin(&mut Delivery { process: self, now }));
        }
    }

    /// The next step of a shutdown, once what this one waits for has ended; false if there is none.
    fn goes_on_leaving(&mut self, now: Now, wire: &Wire<'_>) -> bool {
        let Some(leaving) = self.leaving else { return false };
        let ended = match leaving {
            Leaving::Claims => self.dispatch.has_stopped(),
            Leaving::Starts => self.start.has_stopped(),
            Leaving::Jobs => self.floors.are_at_rest() || wire.is(Sabotage::LeaveEarly),
            Leaving::Outcomes => self.complete.has_stopped(),
            Leaving::Cluster => false,
        };
        if ended {
            let (floors, dropped) = (self.floors.clone(), wire.is(Sabotage::DropTheQueue));
            let queue = || {
                let queue = floors.close().into_iter().filter(|_| !dropped);
                queue.map(|claimed| claimed.give_back(now.db)).collect()
            };
            self.leaving = Some(leaving.go_on(true, queue, &mut Delivery { process: self, now }));
        }
        ended
    }

    /// Whether a shutdown has ended.
    pub(super) fn has_left(&self) -> bool {
        let ended = self.heart.has_stopped() && self.poll.has_stopped() && self.misfire.has_stopped();
        let ended = ended && self.requests.has_stopped();
        self.leaving.is_some() && ended
    }

    pub(super) fn run(&mut self, around: &mut Surroundings<'_>) {
        if around.time < self.stopped_until {
            return self.perform_sent(around.time, around.wire);
        }
        self.end_transactions(around.time, around.wire);
        self.store_checkpoints(around.time, around.wire);
        if let Some(since) = self.frozen_since.take() {
            self.clocks.lag += around.time - since;
        }
        while !self.is_killed
            && (self.round(around) || self.goes_on_leaving(self.now(around.time), around.wire))
        {}
    }

    /// The host's time, as its boot clock counts it, against true time.
    pub(super) fn ahead(&self) -> Millis {
        self.clocks.skew - self.clocks.lag
    }

    /// Whether it runs at all, and the database is not away for it alone.
    pub(super) fn is_able(&self, time: Millis) -> bool {
        self.stopped_until.max(self.cut_until) <= time
    }

    fn now(&self, time: Millis) -> Now {
        self.clocks.now(time)
    }

    /// One turn of every machine; true if anything was said that others may act on.
    fn round(&mut self, around: &mut Surroundings<'_>) -> bool {
        let mut said = self.run_jobs(around);
        if self.is_killed {
            return false;
        }
        said |= self.run_heart(around);
        said |= self.run_poll(around);
        said |= self.run_misfire(around);
        said |= self.run_requests(around);
        said |= self.free_seats(around.time);
        said |= self.run_dispatch(around);
        said |= self.run_start(around);
        said |= self.start_jobs(around);
        said |= self.run_complete(around);
        said | self.starting.iter().any(|(.., settled)| !settled.is_empty())
    }

    /// Tells of lanes that have a seat again, however it became free; true if any has.
    fn free_seats(&mut self, time: Millis) -> bool {
        let freed = self.floors.freed().into_iter().map(|lane| Output::Pool(lane, Notice::Freed));
        self.deliver(freed, self.now(time))
    }

    /// Routes outputs; true if there were any.
    fn deliver(&mut self, outputs: impl Iterator<Item = Output<Permit>>, now: Now) -> bool {
        let mut said = false;
        for output in outputs {
            said = true;
            if self.unrouted.is_none_or(|route| Route::of(&output) != Some(route)) {
                route(output, &mut Delivery { process: self, now });
            }
        }
        said
    }

    fn run_complete(&mut self, around: &mut Surroundings<'_>) -> bool {
        let (now, mut told) = (self.now(around.time), Vec::new());
        self.complete.run(&mut scene(now, around), &mut told);
        self.deliver(told.into_iter().map(Output::Complete), now)
    }

    fn run_heart(&mut self, around: &mut Surroundings<'_>) -> bool {
        let (now, mut told) = (self.now(around.time), Vec::new());
        self.heart.run(&mut scene(now, around), &mut told);
        let said = !told.is_empty();
        for output in &told {
            match output {
                HeartbeatOutput::Lease(lease) => self.cover(*lease),
                HeartbeatOutput::Reborn(node) => self.id = *node,
                HeartbeatOutput::Event(Event::StoreFailed { operation, .. }) => {
                    self.confirmed = None;
                    if *operation == "heartbeat" && around.wire.is(Sabotage::ForgetfulObserver) {
                        self.heart.machine.forget();
                    }
                }
                HeartbeatOutput::Members(_)
                | HeartbeatOutput::Left
                | HeartbeatOutput::DatabaseReplaced(_)
                | HeartbeatOutput::Event(_) => {}
            }
        }
        told.retain(|output| !(self.stranger && matches!(output, HeartbeatOutput::Members(_))));
        self.deliver(told.into_iter().map(Output::Heartbeat), now);
        said
    }

    /// Two heartbeats cover the time between them, one interval at most, if no call failed in between.
    fn cover(&mut self, lease: Lease) {
        let window = Window::default();
        let sent = (lease != Lease::NONE).then(|| lease.until - window.lease());
        let before = std::mem::replace(&mut self.confirmed, sent);
        self.covered += sent.zip(before).map_or(0, |(sent, before)| (sent - before).min(window.beat));
    }

    fn run_poll(&mut self, around: &mut Surroundings<'_>) -> bool {
        let (now, mut told) = (self.now(around.time), Vec::new());
        self.poll.run(&mut scene(now, around), &mut told);
        self.deliver(told.into_iter().map(Output::Poll), now)
    }

    fn run_misfire(&mut self, around: &mut Surroundings<'_>) -> bool {
        let (now, mut told) = (self.now(around.time), Vec::new());
        self.misfire.run(&mut scene(now, around), &mut told);
        for output in &told {
            if let MisfireOutput::Event(
                event @ (Event::NobodyCanRun { .. }
                | Event::ExpectationUnmet { .. }
                | Event::ExpectationMet { .. }),
            ) = output
            {
                around.alarms.push((around.time, event.clone()));
            }
        }
        self.deliver(told.into_iter().map(Output::Misfire), now)
    }

    fn run_requests(&mut self, around: &mut Surroundings<'_>) -> bool {
        let (now, mut told) = (self.now(around.time), Vec::new());
        self.requests.run(&mut scene(now, around), &mut told);
        self.deliver(told.into_iter().map(Output::Requests), now)
    }

    fn run_dispatch(&mut self, around: &mut Surroundings<'_>) -> bool {
        let (now, mut told) = (self.now(around.time), Vec::new());
        if around.wire.is(Sabotage::ForgetTurns) {
            self.dispatch.machine.forget_turns();
        }
        if around.wire.is(Sabotage::TryNothing) {
            self.dispatch.machine.forget_holds();
        }
        self.dispatch.run(&mut scene(now, around), &mut told);
        self.deliver(told.into_iter().map(Output::Dispatch), now)
    }

    fn run_start(&mut self, around: &mut Surroundings<'_>) -> bool {
        let (now, mut told) = (self.now(around.time), Vec::new());
        self.start.run(&mut scene(now, around), &mut told);
        self.deliver(told.into_iter().map(Output::Start), now)
    }
}

/// Hands inputs to the machines at once.
struct Delivery<'p> {
    process: &'p mut Process,
    now: Now,
}

impl Mailboxes for Delivery<'_> {
    type Permit = Permit;

    fn poll(&mut self, input: PollInput) {
        self.process.poll.receive(input);
    }

    fn dispatch(&mut self, input: DispatchInput) {
        self.process.dispatch.receive(input);
    }

    fn start(&mut self, input: StartInput<Permit>) {
        self.process.start.receive(input);
    }

    fn complete(&mut self, input: CompleteInput) {
        self.process.complete.receive(input);
    }

    fn misfire(&mut self, input: MisfireInput) {
        self.process.misfire.receive(input);
    }

    fn heartbeat(&mut self, input: HeartbeatInput) {
        self.process.heart.receive(input);
    }

    fn run(&mut self, due: Vec<(Permit, Claimed)>) {
        due.into_iter().for_each(|(permit, claimed)| permit.submit(claimed, self.now.boot));
    }

    fn set_offset(&mut self, offset: Micros) {
        self.process.clocks.offset = offset;
    }

    fn requests(&mut self, input: RequestsInput) {
        self.process.requests.receive(input);
    }

    fn stop_listening(&mut self) {}

    fn left(&mut self) {}

    fn emit(&mut self, _: Event) {}

    fn end_span(&mut self, _: AttemptSpan, _: Option<ExecutionState>) {}

    fn gave_up(&mut self) {}
}

fn scene<'s>(now: Now, around: &'s mut Surroundings<'_>) -> Scene<'s> {
    Scene {
        time: around.time,
        now,
        wire: around.wire,
        dice: around.dice,
        faults: around.faults,
        away: around.away,
        pace: around.pace,
        refuses: around.refuses,
    }
}
