//! Ownership as a value: only a won claim makes a [`Claimed`], only an outcome consumes it.

use std::sync::Arc;

use super::{ClaimRequest, Reason};
use crate::clock::Now;
use crate::model::{Candidate, Entry, ExecutionId, ExecutionState, Millis, Outcome, Token};

/// An execution this process owns. Made only inside `store/`, by a won claim.
#[derive(Debug)]
#[must_use = "a claimed execution must end in an outcome or be given back"]
pub(crate) struct Claimed {
    execution: ExecutionId,
    entry: Arc<Entry>,
    scheduled: Millis,
    attempt: u32,
    fence: i64,
    token: Token,
    deadline: Millis,
    started: bool,
}

impl Claimed {
    /// The claim `request` made and won; `fence` as the database counted it.
    pub(super) fn won(request: &ClaimRequest, execution: ExecutionId, fence: i64) -> Self {
        let (scheduled, attempt) = match &request.candidate {
            Candidate::Planned(occurrence) => (occurrence.at, 1),
            Candidate::Pending(pending) => (pending.scheduled, pending.attempt),
        };
        Self {
            execution,
            entry: Arc::clone(request.candidate.entry()),
            scheduled,
            attempt,
            fence,
            token: request.token,
            deadline: request.deadline,
            started: request.at_once,
        }
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        self.execution
    }

    #[cfg(test)]
    pub(crate) fn schedule(&self) -> crate::model::ScheduleId {
        self.entry.id
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(crate) fn scheduled(&self) -> Millis {
        self.scheduled
    }

    /// 1 for the first attempt.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(crate) fn fence(&self) -> i64 {
        self.fence
    }

    #[cfg(test)]
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    #[cfg(test)]
    pub(crate) fn is_started(&self) -> bool {
        self.started
    }

    /// What the thread that has it does next; `closed` when nothing may begin any more.
    pub(crate) fn begin(self, now: Now, closed: bool) -> Begin {
        if closed || !self.may_start(now.boot) {
            Begin::GiveBack(self.give_back(now.db))
        } else if self.started {
            Begin::Run(self)
        } else {
            Begin::Start(self.start(now.db), self)
        }
    }

    /// Whether the handler may still start at this boot-clock instant. After it, repair may already have
    /// given the work to another.
    pub(crate) fn may_start(&self, boot: Millis) -> bool {
        boot < self.deadline
    }

    /// CLAIMED becomes RUNNING.
    pub(crate) fn start(&self, now: Millis) -> Settlement {
        Settlement { execution: self.execution, token: self.token, change: Change::Start { now } }
    }

    /// The row says RUNNING now.
    pub(crate) fn mark_started(&mut self) {
        self.started = true;
    }

    /// The outcome, with the retry it asks for.
    pub(crate) fn finish(self, outcome: Outcome, retry: Option<Millis>, now: Millis) -> Settlement {
        let (state, error) = match outcome {
            Outcome::Succeeded => (ExecutionState::Succeeded, None),
            Outcome::Failed(error) => (ExecutionState::Failed, Some(error)),
        };
        let retry = retry.map(|due| (due, Token::fresh()));
        Settlement {
            execution: self.execution,
            token: self.token,
            change: Change::Finish { state, error, retry, now },
        }
    }

    /// Not started after all: back to PENDING, due as it was.
    pub(crate) fn give_back(self, now: Millis) -> Settlement {
        Settlement {
            execution: self.execution,
            token: self.token,
            change: Change::GiveBack { fresh: Token::fresh(), reason: Reason::GivenBack, now },
        }
    }
}

/// The next step on the way from a claim to its handler.
#[derive(Debug)]
pub(crate) enum Begin {
    /// CLAIMED becomes RUNNING; once that is `Done`, [`Claimed::mark_started`] and ask again.
    Start(Settlement, Claimed),
    /// The handler runs.
    Run(Claimed),
    /// It is too late to begin.
    GiveBack(Settlement),
}

/// A guarded change to one's own execution: by id, token and state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settlement {
    pub execution: ExecutionId,
    pub token: Token,
    pub change: Change,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// CLAIMED -> RUNNING.
    Start { now: Millis },
    /// RUNNING -> a terminal state, and attempt + 1 as PENDING under a fresh token if `retry` (due, token).
    Finish { state: ExecutionState, error: Option<String>, retry: Option<(Millis, Token)>, now: Millis },
    /// CLAIMED or RUNNING (not begun) -> PENDING under a fresh token.
    GiveBack { fresh: Token, reason: Reason, now: Millis },
}
