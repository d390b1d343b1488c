//! Executions whose node is gone: taken back, retried or given up.

use std::sync::Arc;

use crate::domain::{ExecutionState, Millis, Reason, Timestamp, Token};
use crate::store::{Counted, ExecutionChange, NextAttempt, Stranded, Transition};

/// Executions that ran side by side on a dead node begin again this far apart, so that an execution that
/// kills its node interrupts the others only once.
const APART: Millis = 1_000;
/// How many instants they are spread over: the ninth begins together with the first.
const MOST_APART: Millis = 8;

/// How an execution nobody answers for is taken back: CLAIMED becomes PENDING; RUNNING becomes ABANDONED,
/// with the next attempt as PENDING if it is recovered, or FAILED when attempts are exhausted; TIMED_OUT
/// stays so, with its retry if one is granted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revocation {
    pub stranded: Stranded,
    pub transition: Transition,
    pub now: Timestamp,
}

impl Revocation {
    pub(crate) fn change(&self) -> ExecutionChange {
        let Self { stranded, transition, now } = self;
        let change = ExecutionChange::of(stranded.id, stranded.token, transition.clone(), *now);
        let counted = Some(Counted { job: Arc::clone(&stranded.job), began: None });
        ExecutionChange { run_end: stranded.plans(), counted, ..change }
    }

    /// Whether its occurrence has ended for good with the death of its node.
    pub(crate) fn is_last_death(&self) -> bool {
        let goes_on = self.transition.next().is_some() || matches!(self.transition, Transition::TakeBack(_));
        !goes_on && !self.stranded.is_cancelled
    }
}

/// Decides how a stranded execution is taken back; if it ran, its next attempt is due at `due`. An occurrence
/// that as many nodes did not survive as its job allows attempts is taken for the cause, and fails.
pub(crate) fn recover(stranded: Stranded, due: Timestamp, now: Timestamp) -> Revocation {
    let policy = stranded.policy;
    let transition = match stranded.state {
        ExecutionState::Running if !policy.recover || stranded.is_cancelled => Transition::Abandon(None),
        ExecutionState::Running if stranded.deaths.saturating_add(1) >= policy.max_attempts => {
            Transition::Exhaust
        }
        ExecutionState::Running => Transition::Abandon(Some(NextAttempt::new(due, Reason::Recovery))),
        // Its handler is gone with its node: the retry may begin.
        ExecutionState::TimedOut => {
            let failures = stranded.failures.saturating_add(1);
            let retry = policy.retry.due(stranded.id, failures, None, now).filter(|_| !stranded.is_cancelled);
            Transition::Release(Token::fresh(), retry.map(|due| NextAttempt::new(due, Reason::Retry)))
        }
        _ => Transition::TakeBack(Token::fresh()),
    };
    Revocation { stranded, transition, now }
}

/// Decides for all executions of dead nodes. The newest are due last: an execution that kills its node
/// usually does so early.
pub(crate) fn recover_apart(mut found: Vec<Stranded>, now: Timestamp) -> Vec<Revocation> {
    found.sort_by_key(|stranded| stranded.id);
    let mut ran = 0;
    let apart = |stranded: Stranded| {
        let due = now + APART * (ran % MOST_APART);
        ran += Millis::from(stranded.state == ExecutionState::Running);
        recover(stranded, due, now)
    };
    found.into_iter().map(apart).collect()
}
