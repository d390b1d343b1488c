//! The channels between a node's machines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam::channel::{Receiver, Sender};

use crate::domain::Event;
use crate::machine::driver::inbox;
use crate::members::NodeInput;
use crate::node::route::{Mailboxes, Output, route};
use crate::node::teller::Events;
use crate::pipeline::complete::CompleteInput;
use crate::pipeline::dispatch::DispatchInput;
use crate::pipeline::poll::PollInput;
use crate::pipeline::pool::Permit;
use crate::pipeline::start::StartInput;
use crate::store::Claimed;
use crate::time::{Clock, Micros};
use crate::upkeep::MisfireInput;

/// Where the outputs of this node's machines go.
#[derive(Clone)]
pub(super) struct Inboxes {
    clock: Arc<Clock>,
    pub(super) events: Arc<Events>,
    /// Set once the node's row says that it has left.
    pub(super) left: Arc<AtomicBool>,
    pub(super) poll: Sender<PollInput>,
    pub(super) dispatch: Sender<DispatchInput>,
    pub(super) start: Sender<StartInput<Permit<Claimed>>>,
    pub(super) complete: Sender<CompleteInput>,
    pub(super) misfire: Sender<MisfireInput>,
    pub(super) heartbeat: Sender<NodeInput>,
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
    pub(super) fn route<O>(&self, of: fn(O) -> Output<Permit<Claimed>>) -> impl FnMut(O) + Send + use<O> {
        let to = self.clone();
        move |output| route(of(output), &mut &to)
    }
}

/// What each machine receives.
pub(super) struct Messages {
    pub(super) poll: Receiver<PollInput>,
    pub(super) dispatch: Receiver<DispatchInput>,
    pub(super) start: Receiver<StartInput<Permit<Claimed>>>,
    pub(super) complete: Receiver<CompleteInput>,
    pub(super) misfire: Receiver<MisfireInput>,
    pub(super) heartbeat: Receiver<NodeInput>,
}

pub(super) fn inboxes(clock: &Arc<Clock>, events: &Arc<Events>) -> (Inboxes, Messages) {
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

pub(super) fn send<T>(inbox: &Sender<T>, input: T) {
    // A machine that has ended needs no more input.
    inbox.send(input).ok();
}
