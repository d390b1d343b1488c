//! The heartbeat's knowledge of its node, and of the executions that run here: those that somebody cancelled,
//! and whether this process may still answer for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::bell::Bell;
use crate::domain::{Boot, ExecutionId, NodeId, Token};
use crate::time::{Lease, Now};

/// Told by the heartbeat, asked by handlers.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Whether anybody was asked to cancel: handlers may ask in a loop.
    any: AtomicBool,
    /// With their tokens: a copy of the database that took over may give an id once more.
    asked: Mutex<BTreeMap<ExecutionId, Token>>,
    /// The name under which the node joined last.
    node: Mutex<NodeId>,
    /// How often the node's row was ended by others.
    incarnation: AtomicU64,
    /// The [`Boot`] instant until which its latest lease holds.
    lease: AtomicI64,
    /// Whether the node drains.
    drains: AtomicBool,
    bell: Bell,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            any: AtomicBool::new(false),
            asked: Mutex::default(),
            node: Mutex::new(NodeId(uuid::Uuid::nil())),
            incarnation: AtomicU64::new(0),
            lease: AtomicI64::new(Boot::MAX.millis()),
            drains: AtomicBool::new(false),
            bell: Bell::default(),
        }
    }
}

impl Standing {
    /// Notes all executions of this node that are now asked to cancel; answers those that are newly asked.
    pub(crate) fn ask(&self, all: BTreeMap<ExecutionId, Token>) -> Vec<ExecutionId> {
        let mut asked = lock(&self.asked);
        let is_new = |(id, token): &(&ExecutionId, &Token)| asked.get(id) != Some(*token);
        let new: Vec<ExecutionId> = all.iter().filter(is_new).map(|(id, _)| *id).collect();
        self.any.store(!all.is_empty(), Ordering::Relaxed);
        *asked = all;
        drop(asked);
        if !new.is_empty() {
            self.bell.ring();
        }
        new
    }

    /// A heartbeat was confirmed by `now`. Who was told that the lease had ended may go on.
    pub(crate) fn renew(&self, lease: &Lease, now: Now) {
        if Boot::at(self.lease.swap(lease.until.millis(), Ordering::Relaxed)) <= now.boot {
            self.bell.ring();
        }
    }

    /// The node has joined under this name.
    pub(crate) fn joined(&self, node: NodeId) {
        *lock(&self.node) = node;
    }

    /// The name under which the node joined last.
    pub(crate) fn node(&self) -> NodeId {
        *lock(&self.node)
    }

    /// Others have ended this incarnation.
    pub(crate) fn end(&self) {
        self.incarnation.fetch_add(1, Ordering::Relaxed);
        self.bell.ring();
    }

    /// The node drains, or does so no more.
    pub(super) fn note_drain(&self, drains: bool) {
        self.drains.store(drains, Ordering::Relaxed);
    }

    pub(crate) fn drains(&self) -> bool {
        self.drains.load(Ordering::Relaxed)
    }

    /// Whether somebody asked to cancel the execution that runs under this token.
    pub(crate) fn is_cancelled(&self, execution: ExecutionId, token: Token) -> bool {
        self.any.load(Ordering::Relaxed) && lock(&self.asked).get(&execution) == Some(&token)
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::Relaxed)
    }

    pub(crate) fn has_lease(&self, now: Now) -> bool {
        now.boot < self.lease_until()
    }

    /// The end of its latest lease. The bell does not ring then: a waiter looks again at that instant.
    pub(crate) fn lease_until(&self) -> Boot {
        Boot::at(self.lease.load(Ordering::Relaxed))
    }

    /// Rung when somebody is newly asked to cancel, and when others have ended this incarnation.
    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }
}

/// Plain values are whole whatever panicked beside them.
fn lock<T>(values: &Mutex<T>) -> MutexGuard<'_, T> {
    values.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    #[test]
    fn each_is_told_once_and_forgotten_with_its_end() {
        let standing = Standing::default();
        let (mine, other) = (Token::fresh(), Token::fresh());
        let ids = |ids: &[i64]| ids.iter().map(|id| (ExecutionId(*id), mine)).collect::<BTreeMap<_, _>>();
        assert!(!standing.is_cancelled(ExecutionId(1), mine));
        assert_eq!(standing.ask(ids(&[1, 2])), [ExecutionId(1), ExecutionId(2)]);
        assert_eq!(standing.ask(ids(&[2, 3])), [ExecutionId(3)]);
        assert_eq!([1, 2, 3].map(|id| standing.is_cancelled(ExecutionId(id), mine)), [false, true, true]);
        assert!(!standing.is_cancelled(ExecutionId(2), other), "another execution with the same id");
        assert_eq!(standing.ask(ids(&[])), []);
        assert!(!standing.is_cancelled(ExecutionId(3), mine));
    }

    #[test]
    fn a_lease_holds_until_its_end() {
        let (standing, at) =
            (Standing::default(), |boot| Now { db: Timestamp::at(0), boot: Boot::at(boot), apart: 0 });
        assert!(standing.has_lease(at(1_000_000)), "none was refused yet");
        standing.renew(&Lease { until: Boot::at(10), apart: 0 }, at(0));
        assert_eq!([9, 10].map(|boot| standing.has_lease(at(boot))), [true, false]);
    }
}
