//! The tokens this process answers for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashSet;

use crate::domain::Token;
use crate::store::Stranded;

/// The tokens this process answers for: from before the claim's transaction until its outcome is stored.
#[derive(Debug, Default)]
pub(crate) struct OwnTokens {
    tokens: Mutex<Tokens>,
    /// Somebody here waits for the end of executions that keep the slots of their schedules.
    awaited: AtomicBool,
}

#[derive(Debug, Default)]
struct Tokens {
    held: FxHashSet<Token>,
    /// Let go while the database is being asked what it has in our name: it may have looked before.
    let_go: Option<FxHashSet<Token>>,
}

impl OwnTokens {
    pub(crate) fn add(&self, token: Token) {
        self.lock().held.insert(token);
    }

    pub(crate) fn remove(&self, token: Token) {
        let mut tokens = self.lock();
        tokens.held.remove(&token);
        if let Some(let_go) = &mut tokens.let_go {
            let_go.insert(token);
        }
    }

    /// Notes whether somebody here waits for slots. Who misses it waits for the next poll.
    pub(crate) fn await_slots(&self, awaited: bool) {
        self.awaited.store(awaited, Ordering::Relaxed);
    }

    pub(crate) fn are_slots_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, token: Token) -> bool {
        self.lock().held.contains(&token)
    }

    /// Whether it answers for nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().held.is_empty()
    }

    /// The incarnation is over: it answers for nothing any more.
    pub(crate) fn clear(&self) {
        *self.lock() = Tokens::default();
    }

    /// The database is about to be asked what it has in our name.
    pub(super) fn asking(&self) {
        self.lock().let_go = Some(FxHashSet::default());
    }

    /// Of the executions in our name, those that this process has answered for at no time since it asked.
    pub(super) fn orphans(&self, owned: Vec<Stranded>) -> Vec<Stranded> {
        let mut tokens = self.lock();
        let let_go = tokens.let_go.take().unwrap_or_default();
        let is_ours = |token: &Token| tokens.held.contains(token) || let_go.contains(token);
        owned.into_iter().filter(|it| !is_ours(&it.token)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tokens> {
        // Sets of plain values are whole whatever panicked beside them.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_held_until_it_is_let_go() {
        let (held, one, other) = (OwnTokens::default(), Token::fresh(), Token::fresh());
        held.add(one);
        assert!(held.contains(one) && !held.contains(other));
        held.add(other);
        held.remove(one);
        assert!(!held.contains(one) && held.contains(other));
        held.clear();
        assert!(!held.contains(other));
    }
}
