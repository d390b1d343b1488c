//! The stages of a node's life.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::node::stopped::Stopped;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Up,
    /// It cannot go on, and nobody has called a shutdown yet.
    GivenUp,
    Stopping,
    Ended(Stopped),
}

/// How far a node has come, and who waits for its end.
#[derive(Default)]
pub(super) struct Life {
    phase: Mutex<Phase>,
    ended: Condvar,
}

impl Life {
    pub(super) fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn give_up(&self) {
        let mut phase = self.phase();
        if *phase == Phase::Up {
            *phase = Phase::GivenUp;
            self.ended.notify_all();
        }
    }

    /// True if this begins the shutdown.
    pub(super) fn stop(&self) -> bool {
        let mut phase = self.phase();
        let first = matches!(*phase, Phase::Up | Phase::GivenUp);
        if first {
            *phase = Phase::Stopping;
        }
        first
    }

    pub(super) fn stopped(&self, how: Stopped) {
        *self.phase() = Phase::Ended(how);
        self.ended.notify_all();
    }

    /// Blocks until it has stopped or given up.
    pub(super) fn wait(&self) -> Stopped {
        let goes_on = |phase: &mut Phase| matches!(phase, Phase::Up | Phase::Stopping);
        let phase = self.ended.wait_while(self.phase(), goes_on).unwrap_or_else(PoisonError::into_inner);
        if let Phase::Ended(stopped) = *phase { stopped } else { Stopped::GivenUp }
    }

    /// How another thread's shutdown ended, if there was time to wait for that.
    pub(super) fn wait_while_left(&self, left: impl Fn() -> Duration) -> Stopped {
        let mut phase = self.phase();
        loop {
            let left = left();
            match *phase {
                Phase::Ended(stopped) => return stopped,
                _ if left.is_zero() => return Stopped::NotYet,
                _ => phase = self.ended.wait_timeout(phase, left).unwrap_or_else(PoisonError::into_inner).0,
            }
        }
    }
}
