//! The end of a node: in order and by a deadline, behind a scheduler that was dropped, or because it cannot
//! go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::domain::{Boot, Event};
use crate::machine::driver::{self, Driver, Ended, wait_in_turns};
use crate::node::inboxes::send;
use crate::node::phase::Phase;
use crate::node::route::Leaving;
use crate::node::runner::is_handler_of;
use crate::node::stopped::Stopped;
use crate::node::{Loops, Node};
use crate::pipeline::complete::CompleteInput;
use crate::time::millis;

/// How long a shutdown waits, at least and at most, until its last events have been told.
const LAST_WORDS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl Node {
    /// Blocks until a shutdown has ended or the node has given up.
    pub(crate) fn wait(&self) -> Stopped {
        let stopped = self.inboxes.life.wait();
        if stopped == Stopped::GivenUp {
            // The process may end as soon as this returns.
            self.events.flush(LAST_WORDS.1);
        }
        stopped
    }

    /// Whether the calling thread runs one of its handlers.
    pub(crate) fn is_called_by_handler(&self) -> bool {
        is_handler_of(&self.closed)
    }

    /// As [`Node::shutdown`]; called by a handler of this node, which cannot wait for its own end, it goes on
    /// behind that.
    pub(crate) fn shutdown_or_begin(self: &Arc<Self>, deadline: Duration) -> Stopped {
        if !self.is_called_by_handler() {
            return self.shutdown(deadline);
        }
        self.stop_claiming();
        self.shutdown_apart(deadline, |_| ());
        Stopped::NotYet
    }

    /// Stops in order and returns by `deadline`.
    pub(crate) fn shutdown(&self, deadline: Duration) -> Stopped {
        let first = self.inboxes.life.stop();
        let deadline = self.clock.now().boot.saturating_add(millis(deadline));
        if !first {
            return self.inboxes.life.wait_while_left(|| self.clock.until_boot(deadline));
        }
        let clean = self.stop_by(deadline);
        self.closed.store(true, Ordering::Relaxed);
        self.standing.bell().ring();
        self.events.emit(Event::Stopped { clean });
        // The process may end as soon as this returns.
        self.events.flush(self.clock.until_boot(deadline).clamp(LAST_WORDS.0, LAST_WORDS.1));
        let stopped = Stopped::of_shutdown(clean);
        self.inboxes.life.stopped(stopped);
        stopped
    }

    /// Stops behind a scheduler that was dropped: ends claiming at once and the rest on a thread of its own.
    pub(crate) fn stop_behind(self: &Arc<Self>) {
        /// How long running jobs may still end behind a scheduler that was dropped.
        const BEHIND: Duration = Duration::from_secs(24 * 3_600);
        if !matches!(*self.inboxes.life.phase(), Phase::Up | Phase::GivenUp) {
            return;
        }
        self.events.emit(Event::Dropped);
        self.stop_claiming();
        if !self.shutdown_apart(BEHIND, |_| ()) {
            // The event says how it ended.
            self.shutdown(Duration::ZERO).is_clean();
        }
    }

    /// As [`Node::shutdown`], on a thread of its own, which tells how it ended; false if there is no thread
    /// to be had.
    pub(crate) fn shutdown_apart(
        self: &Arc<Self>,
        deadline: Duration,
        tell: impl FnOnce(Stopped) + Send + 'static,
    ) -> bool {
        let node = Arc::clone(self);
        driver::spawn("firetime-shutdown", move || tell(node.shutdown(deadline))).is_ok()
    }

    fn stop_claiming(&self) -> Leaving {
        self.stopping.begin();
        self.standing.bell().ring();
        Leaving::begin(&mut &self.inboxes)
    }

    /// Takes the steps of an orderly shutdown and waits for each until `deadline`; whether all ended in time.
    fn stop_by(&self, deadline: Boot) -> bool {
        self.stopping.drop_at(self.drops_at(deadline));
        let left = || self.clock.until_boot(deadline);
        let queue = || self.pools.close().into_iter().map(|it| it.give_back(self.clock.now().db)).collect();
        let (mut leaving, mut clean) = (self.stop_claiming(), true);
        loop {
            clean &= self.wait_for(leaving, left);
            if leaving == Leaving::Cluster {
                return clean;
            }
            leaving = leaving.go_on(clean, queue, &mut &self.inboxes);
        }
    }

    /// When the futures of async handlers that still run are dropped: one store timeout before the deadline,
    /// so that their ends can be stored, or after three quarters of the time if that is later.
    fn drops_at(&self, deadline: Boot) -> Boot {
        let left = deadline.saturating_since(self.clock.now().boot);
        deadline.saturating_sub(self.window.call.min(left / 4))
    }

    /// Waits until this step of the shutdown has ended; whether it did, in order, before nothing was left.
    fn wait_for(&self, leaving: Leaving, left: impl Fn() -> Duration + Copy) -> bool {
        let Loops { poll, dispatch, start, complete, heartbeat, misfire, requests, listen } = &self.loops;
        match leaving {
            Leaving::Claims => ended(dispatch, left),
            Leaving::Starts => ended(start, left),
            Leaving::Jobs => wait_in_turns(left, |turn| self.pools.wait_idle(turn).then_some(())).is_some(),
            Leaving::Outcomes => {
                let stored = ended(complete, left);
                if !stored {
                    send(&self.inboxes.complete, CompleteInput::Abandon);
                }
                stored
            }
            Leaving::Cluster => {
                let gone = ended(heartbeat, left) && self.inboxes.left.load(Ordering::Relaxed);
                let told = listen.as_ref().is_none_or(|listen| ended(listen, left));
                ended(poll, left) && ended(misfire, left) && ended(requests, left) && told && gone
            }
        }
    }
}

/// Whether the loop ends in order before nothing is left.
fn ended(driver: &Driver, left: impl Fn() -> Duration) -> bool {
    wait_in_turns(left, |turn| driver.join(turn)) == Some(Ended::InOrder)
}
