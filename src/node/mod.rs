//! One node: its machines wired together, its handlers, the life of a claimed execution, its start and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::domain::{LaneHealth, NodeId, Timestamp};
use crate::machine::driver::Driver;
use crate::machine::store_calls::StoreCalls;
use crate::members::waiters::Waiters;
use crate::members::{HeartbeatInput, Standing};
use crate::misfire::FiguresBoard;
use crate::node::context::Stopping;
use crate::node::counters::Counters;
use crate::node::event_stream::EventStream;
use crate::node::inboxes::{Inboxes, send};
use crate::node::phase::Phase;
use crate::node::pools::Pools;
use crate::node::teller::Events;
use crate::pipeline::poll::PollInput;
use crate::store::Store;
use crate::store::figures::Figures;
use crate::store::news::Notifier;
use crate::time::{Clock, Window, span};

pub(crate) mod around;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod event_stream;
pub(crate) mod handlers;
pub(crate) mod host;
mod inboxes;
pub(crate) mod lifecycle;
#[cfg(feature = "tracing")]
pub(crate) mod log_layer;
mod log_lines;
mod passed_on;
mod phase;
pub(crate) mod pools;
pub(crate) mod route;
pub(crate) mod runner;
mod shutdown;
pub(crate) mod spans;
pub(crate) mod start;
pub(crate) mod stopped;
#[cfg(feature = "tokio")]
pub(crate) mod tasks;
pub(crate) mod teller;
#[cfg(test)]
mod tests;

/// A running node.
pub(crate) struct Node {
    pub(crate) application: String,
    /// The clients' own connections: their calls take none of the pipeline's.
    pub(crate) clients: Arc<dyn Store>,
    pub(crate) notifier: Arc<Notifier>,
    /// Of its clients.
    pub(crate) waiters: Arc<Waiters>,
    clock: Arc<Clock>,
    window: Window,
    standing: Arc<Standing>,
    events: Arc<Events>,
    /// Those of its machines.
    pub(crate) calls: Arc<StoreCalls>,
    /// How many changes wait for the completer.
    unsettled: Arc<AtomicUsize>,
    board: Arc<FiguresBoard>,
    pools: Arc<Pools>,
    loops: Loops,
    inboxes: Inboxes,
    /// A shutdown has begun: handlers may end early.
    stopping: Arc<Stopping>,
    /// A shutdown has ended: nothing begins any more.
    closed: Arc<AtomicBool>,
}

/// The lease of a node.
pub(crate) struct LeaseFigures {
    /// How much longer it lasts.
    pub left: Duration,
    /// How long ago the heartbeat was sent that it counts from.
    pub sent: Duration,
}

/// How far a node has come in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has joined, and its first poll has not ended.
    Begins,
    Up,
    Drains,
    Stops,
    Stopped,
    /// It cannot go on.
    GivenUp,
}

/// A change by a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Changed<'a> {
    /// The schedule of this name.
    Schedule(&'a str),
    /// Something that a node hears of with its heartbeat.
    Execution,
    /// Something was paused, drained or resumed.
    Switch,
}

/// The threads its machines run on.
struct Loops {
    poll: Driver,
    dispatch: Driver,
    start: Driver,
    complete: Driver,
    heartbeat: Driver,
    misfire: Driver,
    requests: Driver,
    /// Where the database tells of changes.
    listen: Option<Driver>,
}

impl Node {
    /// The name under which it joined last.
    pub(crate) fn id(&self) -> NodeId {
        self.standing.node()
    }

    /// The figures of each lane, the default one first.
    pub(crate) fn lanes(&self) -> Vec<LaneHealth> {
        self.pools.lanes()
    }

    pub(crate) fn lease(&self) -> LeaseFigures {
        let (now, until) = (self.clock.now().boot, self.standing.lease_until());
        LeaseFigures { left: span(until - now), sent: span(now - (until - self.window.lease())) }
    }

    pub(crate) fn stage(&self) -> Stage {
        match *self.inboxes.life.phase() {
            Phase::GivenUp => Stage::GivenUp,
            Phase::Stopping => Stage::Stops,
            Phase::Ended(_) => Stage::Stopped,
            Phase::Up if self.standing.drains() => Stage::Drains,
            Phase::Up if !self.counters().has_polled() => Stage::Begins,
            Phase::Up => Stage::Up,
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.events.counters()
    }

    /// A stream of its events from now on.
    pub(crate) fn event_stream(&self) -> EventStream {
        self.events.stream()
    }

    /// How many events neither the log nor the observers were given.
    pub(crate) fn events_dropped(&self) -> u64 {
        self.events.dropped()
    }

    /// The cluster's figures, if this node has read them a short time ago, and database time. Whoever looks
    /// makes the elected node read them.
    pub(crate) fn figures(&self) -> Option<(Arc<Figures>, Timestamp)> {
        let now = self.clock.now();
        let fresh = 2 * self.window.election + self.window.call;
        let (_, figures) = self.board.look(now.boot).filter(|(read, _)| now.boot - *read <= fresh)?;
        Some((figures, now.db))
    }

    /// How many starts and outcomes wait to be stored.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Relaxed) + self.inboxes.complete.len()
    }

    /// Tells this node's poll of a changed schedule and its heartbeat of a cancel, so that neither need wait
    /// for the next one.
    pub(crate) fn on_change(&self) -> impl Fn(Changed<'_>) + Send + Sync + use<> {
        let (poll, heartbeat) = (self.inboxes.poll.clone(), self.inboxes.heartbeat.clone());
        move |changed| match changed {
            Changed::Schedule(name) => send(&poll, PollInput::Changed(name.to_owned())),
            Changed::Switch => send(&poll, PollInput::Wake),
            Changed::Execution => send(&heartbeat, HeartbeatInput::CancelAsked),
        }
    }
}
