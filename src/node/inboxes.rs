//! The channels between a node's machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam::channel::{Receiver, Sender};

use crate::domain::attempt_span::AttemptSpan;
use crate::domain::{Event, ExecutionState};
use crate::machine::driver::inbox;
use crate::members::HeartbeatInput;
use crate::members::listener::ListenInput;
use crate::misfire::MisfireInput;
use crate::node::phase::Life;
use crate::node::route::{Mailboxes, Output, route};
use crate::node::teller::Events;
use crate::pipeline::complete::CompleteInput;
use crate::pipeline::dispatch::DispatchInput;
use crate::pipeline::poll::PollInput;
use crate::pipeline::pool::Permit;
use crate::pipeline::start::StartInput;
use crate::requests::RequestsInput;
use crate::store::Claimed;
use crate::time::{Clock, Micros};

/// Where the outputs of this node's machines go.
#[derive(Clone)]
pub(super) struct Inboxes {
    pub(super) clock: Arc<Clock>,
    pub(super) events: Arc<Events>,
    pub(super) life: Arc<Life>,
    /// Set once the node's row says that it has left.
    pub(super) left: Arc<AtomicBool>,
    pub(super) poll: Sender<PollInput>,
    pub(super) dispatch: Sender<DispatchInput>,
    pub(super) start: Sender<StartInput<Permit<Claimed>>>,
    pub(super) complete: Sender<CompleteInput>,
    pub(super) misfire: Sender<MisfireInput>,
    pub(super) requests: Sender<RequestsInput>,
    pub(super) heartbeat: Sender<HeartbeatInput>,
    pub(super) listen: Sender<ListenInput>,
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

    fn requests(&mut self, input: RequestsInput) {
        send(&self.requests, input);
    }

    fn heartbeat(&mut self, input: HeartbeatInput) {
        send(&self.heartbeat, input);
    }

    fn stop_listening(&mut self) {
        send(&self.listen, ListenInput::Stop);
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

    fn end_span(&mut self, span: AttemptSpan, state: Option<ExecutionState>) {
        self.events.end_span(span, state);
    }

    fn gave_up(&mut self) {
        self.life.give_up();
    }
}

impl Inboxes {
    /// Routes the outputs of one machine.
    pub(super) fn route<O>(&self, of: fn(O) -> Output<Permit<Claimed>>) -> impl Fn(O) + Send + Sync + use<O> {
        let to = self.clone();
        move |output| route(of(output), &mut &to)
    }
}

/// The messages that each machine receives.
pub(super) struct Messages {
    pub(super) poll: Receiver<PollInput>,
    pub(super) dispatch: Receiver<DispatchInput>,
    pub(super) start: Receiver<StartInput<Permit<Claimed>>>,
    pub(super) complete: Receiver<CompleteInput>,
    pub(super) misfire: Receiver<MisfireInput>,
    pub(super) requests: Receiver<RequestsInput>,
    pub(super) heartbeat: Receiver<HeartbeatInput>,
    pub(super) listen: Receiver<ListenInput>,
}

pub(super) fn inboxes(clock: &Arc<Clock>, events: &Arc<Events>) -> (Inboxes, Messages) {
    let ((poll, polls), (dispatch, dispatches), (start, starts)) = (inbox(), inbox(), inbox());
    let ((complete, completes), (misfire, misfires), (heartbeat, heartbeats)) = (inbox(), inbox(), inbox());
    let ((listen, listens), (requests, written)) = (inbox(), inbox());
    let (clock, events) = (Arc::clone(clock), Arc::clone(events));
    let (life, left) = (Arc::default(), Arc::default());
    let inboxes = Inboxes {
        clock,
        events,
        life,
        left,
        poll,
        dispatch,
        start,
        complete,
        misfire,
        requests,
        heartbeat,
        listen,
    };
    let messages = Messages {
        poll: polls,
        dispatch: dispatches,
        start: starts,
        complete: completes,
        misfire: misfires,
        requests: written,
        heartbeat: heartbeats,
        listen: listens,
    };
    (inboxes, messages)
}

pub(super) fn send<T>(inbox: &Sender<T>, input: T) {
    // A machine that has ended needs no more input.
    inbox.send(input).ok();
}
