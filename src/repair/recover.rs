//! What becomes of executions whose node is gone.

use crate::domain::{ExecutionState, Millis, Reason, Token};
use crate::store::rules::ChangeKind;
use crate::store::{ExecutionChange, NextAttempt, Stranded};

/// Executions that ran side by side on a dead node begin again this far apart: one that kills its node takes
/// the others along only once.
const APART: Millis = 1_000;
/// How many instants they are spread over: the ninth begins together with the first.
const MOST_APART: Millis = 8;

/// How an execution nobody answers for is taken back: CLAIMED becomes PENDING under `fresh`; RUNNING becomes
/// ABANDONED (or FAILED when attempts are exhausted), with attempt + 1 as PENDING, due at `due`, if `again`;
/// TIMED_OUT stays so, with its retry if `again`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revocation {
    pub stranded: Stranded,
    pub to: ExecutionState,
    pub reason: Reason,
    pub again: bool,
    pub due: Millis,
    /// The token that the row has afterwards, unless it is ABANDONED.
    pub fresh: Token,
    pub now: Millis,
}

impl Revocation {
    pub(crate) fn change(&self) -> ExecutionChange {
        let goes_on = self.to == ExecutionState::Pending;
        let (kind, reason) = match self.to {
            ExecutionState::Pending => (ChangeKind::TakeBack, Reason::Recovery),
            ExecutionState::TimedOut => (ChangeKind::Release, Reason::Retry),
            _ => (ChangeKind::Abandon, Reason::Recovery),
        };
        // What is released keeps its row, under a token of its own.
        let token = if kind == ChangeKind::Release { Token::fresh() } else { self.fresh };
        let next = NextAttempt { due: self.due, token, reason };
        ExecutionChange {
            kind,
            execution: self.stranded.id,
            token: self.stranded.token,
            becomes: self.to,
            fresh: (kind != ChangeKind::Abandon).then_some(self.fresh),
            reason: Some(self.reason),
            error: None,
            next: (self.again && !goes_on).then_some(next),
            due: None,
            attempt: None,
            frees: None,
            bound_of: None,
            plans: self.stranded.plans().filter(|_| !goes_on),
            fails: None,
            now: self.now,
        }
    }
}

impl Revocation {
    /// Whether its occurrence has ended for good with the death of its node.
    pub(crate) fn is_last_death(&self) -> bool {
        self.to != ExecutionState::Pending && !self.again && !self.stranded.is_cancelled
    }
}

/// Decides how a stranded execution is taken back; if it ran, its next attempt is due at `due`. An occurrence
/// that as many nodes did not survive as its job allows attempts is taken for the cause, and fails.
pub(crate) fn recover(stranded: Stranded, due: Millis, now: Millis) -> Revocation {
    let policy = stranded.policy;
    let (to, reason, again) = match stranded.state {
        ExecutionState::Running if !policy.recover || stranded.is_cancelled => {
            (ExecutionState::Abandoned, Reason::NodeDied, false)
        }
        ExecutionState::Running if stranded.deaths.saturating_add(1) >= policy.max_attempts => {
            (ExecutionState::Failed, Reason::AttemptsExhausted, false)
        }
        ExecutionState::Running => (ExecutionState::Abandoned, Reason::NodeDied, true),
        ExecutionState::TimedOut => return release(stranded, now),
        _ => (ExecutionState::Pending, Reason::Recovery, false),
    };
    Revocation { stranded, to, reason, again, due, fresh: Token::fresh(), now }
}

/// The handler of an execution that ran out of time is gone with its node: the retry may begin.
fn release(stranded: Stranded, now: Millis) -> Revocation {
    let failures = stranded.failures.saturating_add(1);
    let retry = stranded.policy.retry.due(stranded.id, failures, None, now);
    let again = retry.is_some() && !stranded.is_cancelled;
    let (to, due) = (ExecutionState::TimedOut, retry.unwrap_or(now));
    Revocation { stranded, to, reason: Reason::NodeDied, again, due, fresh: Token::fresh(), now }
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
