//! What becomes of executions whose node is gone.

use crate::domain::{ExecutionState, Millis, Token};
use crate::store::{Reason, Revocation, Stranded};

/// What ran side by side on a dead node runs again this far apart: what killed it takes the rest along only
/// once.
const APART: Millis = 1_000;
/// So many begin apart; those beyond begin with them.
const MOST_APART: Millis = 8;

/// How an execution nobody answers for is taken back; if it ran, it may run again from `due` on. An
/// occurrence that so many nodes did not survive is taken to be what killed them.
pub(crate) fn recover(stranded: Stranded, due: Millis, now: Millis) -> Revocation {
    let policy = stranded.policy;
    let (to, reason, again) = match stranded.state {
        ExecutionState::Running if !policy.recover => (ExecutionState::Abandoned, Reason::NodeDied, false),
        ExecutionState::Running if stranded.deaths.saturating_add(1) >= policy.max_attempts => {
            (ExecutionState::Failed, Reason::AttemptsExhausted, false)
        }
        ExecutionState::Running => (ExecutionState::Abandoned, Reason::NodeDied, true),
        _ => (ExecutionState::Pending, Reason::Recovery, false),
    };
    Revocation { stranded, to, reason, again, due, fresh: Token::fresh(), now }
}

/// How the executions of dead nodes are taken back. The newest run last: what kills mostly kills soon.
pub(crate) fn recover_apart(mut found: Vec<Stranded>, now: Millis) -> Vec<Revocation> {
    found.sort_by_key(|stranded| stranded.id);
    let mut ran = 0;
    let apart = |stranded: Stranded| {
        let due = now + APART * (ran % MOST_APART);
        ran += Millis::from(stranded.state == ExecutionState::Running);
        recover(stranded, due, now)
    };
    found.into_iter().map(apart).collect()
}
