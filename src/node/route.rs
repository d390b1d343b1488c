//! The wiring of the machines: who acts on each output, over channels in production and by direct calls in
//! the simulator.

use crate::domain::attempt_span::AttemptSpan;
use crate::domain::{Event, ExecutionState};
use crate::members::listener::ListenOutput;
use crate::members::{HeartbeatInput, HeartbeatOutput};
use crate::misfire::{MisfireInput, MisfireOutput};
use crate::pipeline::complete::{CompleteInput, CompleteOutput};
use crate::pipeline::dispatch::{DispatchInput, DispatchOutput};
use crate::pipeline::lanes::LaneId;
use crate::pipeline::poll::{PollInput, PollOutput};
use crate::pipeline::pool::Notice;
use crate::pipeline::start::{StartInput, StartOutput};
use crate::requests::{RequestsInput, RequestsOutput};
use crate::store::news::{Ends, News};
use crate::store::{Claimed, ExecutionChange};
use crate::time::Micros;

/// The inboxes of one node's machines, and what else acts on their outputs.
pub(crate) trait Mailboxes {
    /// The seat of an execution in the pool.
    type Permit;

    fn poll(&mut self, input: PollInput);
    fn dispatch(&mut self, input: DispatchInput);
    fn start(&mut self, input: StartInput<Self::Permit>);
    fn complete(&mut self, input: CompleteInput);
    fn misfire(&mut self, input: MisfireInput);
    fn requests(&mut self, input: RequestsInput);
    fn heartbeat(&mut self, input: HeartbeatInput);

    /// Ends the listening, where the database tells of changes.
    fn stop_listening(&mut self);

    /// Hands due executions to the threads of their lanes.
    fn run(&mut self, due: Vec<(Self::Permit, Claimed)>);

    /// Sets the node's clock: database time is the host's time plus this.
    fn set_offset(&mut self, offset: Micros);

    /// Notes that the node's row says it has left.
    fn left(&mut self);

    fn emit(&mut self, event: Event);

    /// Ends the span of an attempt on the thread for application code.
    fn end_span(&mut self, span: AttemptSpan, state: Option<ExecutionState>);

    /// Notes that the node cannot go on.
    fn gave_up(&mut self);
}

/// The output of any part of a node.
pub(crate) enum Output<P> {
    Poll(PollOutput),
    Dispatch(DispatchOutput<P>),
    Start(StartOutput<P>),
    Complete(CompleteOutput),
    Misfire(MisfireOutput),
    Requests(RequestsOutput),
    Heartbeat(HeartbeatOutput),
    Listen(ListenOutput),
    Pool(LaneId, Notice),
}

/// Takes an output to the machine, or the node, that acts on it.
pub(crate) fn route<M: Mailboxes>(output: Output<M::Permit>, to: &mut M) {
    match output {
        Output::Poll(output) => of_poll(output, to),
        Output::Dispatch(output) => of_dispatch(output, to),
        Output::Start(output) => of_start(output, to),
        Output::Complete(output) => of_complete(output, to),
        Output::Misfire(output) => of_misfire(output, to),
        Output::Requests(RequestsOutput::Event(event)) => to.emit(event),
        Output::Heartbeat(output) => of_heartbeat(output, to),
        Output::Listen(output) => of_listen(output, to),
        Output::Pool(lane, notice) => of_pool(lane, notice, to),
    }
}

fn of_poll(output: PollOutput, to: &mut impl Mailboxes) {
    match output {
        PollOutput::Planned(planned) => to.dispatch(DispatchInput::Planned(planned)),
        PollOutput::Seen(report) => to.misfire(MisfireInput::Polled(report)),
        PollOutput::Drain(drains) => drain(drains, to),
        PollOutput::Offset(offset) => to.set_offset(offset),
        PollOutput::LeftAlone(schedules) => to.heartbeat(HeartbeatInput::LeftAlone(schedules)),
        PollOutput::CancelAsked => to.heartbeat(HeartbeatInput::CancelAsked),
        PollOutput::MemberTold => to.heartbeat(HeartbeatInput::MemberTold),
        PollOutput::Requested => to.requests(RequestsInput::Wake),
        PollOutput::Home(shares) => to.dispatch(DispatchInput::Home(shares)),
        PollOutput::Jumped => to.dispatch(DispatchInput::Jumped),
        PollOutput::Event(event) => to.emit(event),
    }
}

/// A drain hands back the waiting executions; it has ended once a heartbeat finds none of the node's left.
fn drain(drains: bool, to: &mut impl Mailboxes) {
    if drains {
        to.start(StartInput::HandBack);
        to.dispatch(DispatchInput::HandBack);
    }
    to.heartbeat(HeartbeatInput::Drain(drains));
}

fn of_dispatch<M: Mailboxes>(output: DispatchOutput<M::Permit>, to: &mut M) {
    match output {
        DispatchOutput::Won(won) => to.start(StartInput::Won(won)),
        DispatchOutput::GiveBack(settlement) => settle(settlement, to),
        DispatchOutput::WakePoll => to.poll(PollInput::Wake),
        DispatchOutput::Contested => to.heartbeat(HeartbeatInput::Contested),
        DispatchOutput::WakeHeart => to.heartbeat(HeartbeatInput::Beat),
        DispatchOutput::Event(event) => to.emit(event),
    }
}

fn of_start<M: Mailboxes>(output: StartOutput<M::Permit>, to: &mut M) {
    match output {
        StartOutput::Due(due) => to.run(due),
        StartOutput::GiveBack(settlement) => settle(settlement, to),
        StartOutput::Event(event) => to.emit(event),
    }
}

fn of_complete(output: CompleteOutput, to: &mut impl Mailboxes) {
    match output {
        CompleteOutput::Retry(due) => to.poll(PollInput::Retry(due)),
        CompleteOutput::Planned(name, due) => to.poll(PollInput::Planned(name, due)),
        CompleteOutput::Freed(of) => to.dispatch(DispatchInput::Freed(of)),
        CompleteOutput::SlotFreed(schedule, name) => {
            to.dispatch(DispatchInput::SlotFreed(schedule));
            name.into_iter().for_each(|name| to.poll(PollInput::Freed(name)));
        }
        CompleteOutput::HandedBack => to.heartbeat(HeartbeatInput::HandedBack),
        CompleteOutput::Failed(schedule) => to.misfire(MisfireInput::Failed(schedule)),
        CompleteOutput::SpanEnded(span, state) => to.end_span(span, state),
        CompleteOutput::Event(event) => to.emit(event),
    }
}

fn of_misfire(output: MisfireOutput, to: &mut impl Mailboxes) {
    match output {
        MisfireOutput::WakePoll => to.poll(PollInput::Wake),
        MisfireOutput::Event(event) => to.emit(event),
    }
}

fn of_heartbeat(output: HeartbeatOutput, to: &mut impl Mailboxes) {
    match output {
        HeartbeatOutput::Lease(lease) => to.dispatch(DispatchInput::Lease(lease)),
        HeartbeatOutput::Reborn(node) => {
            to.poll(PollInput::Reborn(node));
            to.dispatch(DispatchInput::Reborn(node));
        }
        HeartbeatOutput::Members(members) => to.poll(PollInput::Members(members)),
        HeartbeatOutput::Left => to.left(),
        HeartbeatOutput::DatabaseReplaced(path) => give_up(Event::DatabaseReplaced { path }, to),
        HeartbeatOutput::Event(event) => to.emit(event),
    }
}

fn of_listen(output: ListenOutput, to: &mut impl Mailboxes) {
    match output {
        ListenOutput::Told(is_told) => to.poll(PollInput::Told(is_told)),
        ListenOutput::News(News { work, cancel, members, request }) => {
            if work || members {
                to.poll(PollInput::News);
            }
            if cancel {
                to.heartbeat(HeartbeatInput::CancelAsked);
            }
            if members {
                to.heartbeat(HeartbeatInput::MemberTold);
            }
            if request {
                to.requests(RequestsInput::Wake);
            }
        }
        ListenOutput::Ends(Ends { awaited, ended: _ }) => {
            if !awaited.is_empty() {
                to.complete(CompleteInput::Await(awaited));
            }
        }
        ListenOutput::Event(event) => to.emit(event),
    }
}

fn of_pool(lane: LaneId, notice: Notice, to: &mut impl Mailboxes) {
    match notice {
        Notice::Freed => to.dispatch(DispatchInput::SeatFreed(lane)),
        Notice::SpawnFailed(error) => to.emit(Event::ThreadRefused { reason: error.to_string() }),
        Notice::Panicked(reason) => to.emit(Event::JobThreadPanicked { reason }),
        Notice::Blocked => {
            to.heartbeat(HeartbeatInput::LaneChanged);
            to.emit(Event::RuntimeBlocked);
        }
        Notice::Unblocked => to.heartbeat(HeartbeatInput::LaneChanged),
    }
}

fn settle(settlement: ExecutionChange, to: &mut impl Mailboxes) {
    to.complete(CompleteInput::Settle(settlement, None));
}

/// The steps of an orderly shutdown: each waits for its part to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Dispatch: claims under way.
    Claims,
    /// The start stage: won claims that were not due.
    Starts,
    /// The pools: running jobs.
    Jobs,
    /// The completer: outcomes to store.
    Outcomes,
    /// The heartbeat: the node's row.
    Cluster,
}

impl Leaving {
    /// Ends polling, claiming and repairing.
    pub(crate) fn begin(to: &mut impl Mailboxes) -> Self {
        to.heartbeat(HeartbeatInput::Withdraw);
        to.stop_listening();
        to.poll(PollInput::Stop);
        to.misfire(MisfireInput::Stop);
        to.requests(RequestsInput::Stop);
        to.dispatch(DispatchInput::Stop);
        to.start(StartInput::Stop);
        Self::Claims
    }

    /// Goes on to the next step, once what this one waits for has ended or its time is up. `queue` empties
    /// the pools' queues; `clean`: everything so far ended in time.
    pub(crate) fn go_on<M: Mailboxes>(
        self,
        clean: bool,
        queue: impl FnOnce() -> Vec<ExecutionChange>,
        to: &mut M,
    ) -> Self {
        match self {
            Self::Claims => {
                to.start(StartInput::Close);
                Self::Starts
            }
            Self::Starts => {
                for settlement in queue() {
                    settlement.given_back().into_iter().for_each(|event| to.emit(event));
                    settle(settlement, to);
                }
                Self::Jobs
            }
            Self::Jobs => {
                to.complete(CompleteInput::Close);
                Self::Outcomes
            }
            Self::Outcomes | Self::Cluster => {
                to.heartbeat(HeartbeatInput::Stop { leave: clean });
                Self::Cluster
            }
        }
    }
}

/// Ends all machines of a node that has claimed nothing.
pub(crate) fn cancel(to: &mut impl Mailboxes) {
    Leaving::begin(to);
    to.start(StartInput::Close);
    to.complete(CompleteInput::Close);
    to.heartbeat(HeartbeatInput::Stop { leave: false });
}

/// Ends a node that cannot go on, before anybody is told `why`: it must not look alive, and others take its
/// work over.
pub(crate) fn give_up(why: Event, to: &mut impl Mailboxes) {
    to.heartbeat(HeartbeatInput::Stop { leave: false });
    to.dispatch(DispatchInput::Stop);
    to.stop_listening();
    to.poll(PollInput::Stop);
    to.misfire(MisfireInput::Stop);
    to.requests(RequestsInput::Stop);
    to.emit(why);
    to.gave_up();
}
