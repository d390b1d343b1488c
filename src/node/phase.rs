//! The stages of a node's life.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Up,
    /// It cannot go on, and nobody has called a shutdown yet.
    GivenUp,
    Stopping,
    Stopped {
        clean: bool,
    },
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

    pub(super) fn stopped(&self, clean: bool) {
        *self.phase() = Phase::Stopped { clean };
        self.ended.notify_all();
    }

    /// Blocks until it has stopped or given up.
    pub(super) fn wait(&self) -> Phase {
        let goes_on = |phase: &mut Phase| matches!(phase, Phase::Up | Phase::Stopping);
        *self.ended.wait_while(self.phase(), goes_on).unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another thread's shutdown is clean; false once nothing is left of the time.
    pub(super) fn wait_while_left(&self, left: impl Fn() -> Duration) -> bool {
        let mut phase = self.phase();
        loop {
            let left = left();
            match *phase {
                Phase::Stopped { clean } => return clean,
                _ if left.is_zero() => return false,
                _ => phase = self.ended.wait_timeout(phase, left).unwrap_or_else(PoisonError::into_inner).0,
            }
        }
    }
}
