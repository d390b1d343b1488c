//! What becomes of executions whose node is gone.

use crate::domain::{ExecutionState, Millis, Token};
use crate::store::{Reason, Revocation, Stranded};

/// Executions that ran side by side on a dead node begin again this far apart: one that kills its node takes
/// the others along only once.
const APART: Millis = 1_000;
/// How many instants they are spread over: the ninth begins together with the first.
const MOST_APART: Millis = 8;

/// Decides how a stranded execution is taken back; if it ran, its next attempt is due at `due`. An occurrence
/// that as many nodes did not survive as its job allows attempts is taken for the cause, and fails.
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

/// Decides for all executions of dead nodes. The newest run last: one that kills its node mostly does so
/// soon.
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
