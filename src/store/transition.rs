//! What happens to an execution, and what follows from it.

use std::sync::Arc;

use super::rules::ChangeKind;
use crate::domain::{
    Attempt, BoundOf, Event, ExecutionId, ExecutionState, Millis, Overlap, Reason, ScheduleId, Timestamp,
    Token,
};

/// A change of one execution, by its claim token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExecutionChange {
    pub execution: ExecutionId,
    /// The guard: it is under this token, in a state from which the rule leads.
    pub token: Token,
    pub transition: Transition,
    /// Set if its schedule fires again some time after the end of its run.
    pub run_end: Option<RunEnd>,
    /// What its node knows of it; none if the execution is no running node's.
    pub own: Option<OwnExecution>,
    /// What its outcome is counted by, if it is one.
    pub counted: Option<Counted>,
    pub now: Timestamp,
}

/// A change of an execution, with the values that it needs: an error's text, the attempt that follows, the
/// token of an execution without a node. [`ChangeKind`] says what each does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Transition {
    Start,
    /// The handler has come so far, as JSON.
    Checkpoint(String),
    /// The handler has ended well.
    Succeed,
    /// The handler has ended well, with this result as JSON.
    SucceedWith(String),
    /// The handler's own transaction stores that it has ended well.
    #[cfg_attr(
        not(any(test, feature = "sql")),
        allow(dead_code, reason = "only a database has transactions")
    )]
    Complete,
    /// The same, with this result as JSON.
    CompleteWith(String),
    /// The handler's own transaction may have stored that it has ended well.
    Confirm,
    /// The handler has failed.
    Fail(String, Option<NextAttempt>),
    /// The handler has ended because somebody asked for that.
    Stop(String),
    GiveUp(String),
    /// It goes on at this instant.
    Snooze(Token, Timestamp),
    /// Its payload cannot be decoded, for this reason: it goes to another node.
    PassOn(Token, String),
    TimeOut(String),
    Release(Token, Option<NextAttempt>),
    GiveBack(Token),
    /// Its handler was dropped before it answered: it goes back to be run anew.
    #[cfg_attr(not(feature = "tokio"), allow(dead_code, reason = "only an async handler is dropped"))]
    Interrupt(Token),
    TakeBack(Token),
    Abandon(Option<NextAttempt>),
    /// As [`Transition::Abandon`], of an occurrence with which too many nodes have died.
    Exhaust,
    Supersede,
    Cancel(Reason),
}

/// What a node knows of an execution of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnExecution {
    pub attempt: Attempt,
    /// The bounds it counts towards, if its job has some.
    pub bound_of: Option<BoundOf>,
    /// The schedule whose slot it keeps, and its rule.
    pub slot: Option<(ScheduleId, Overlap)>,
    /// The schedule that may be paused if this fails for good.
    pub counted_by: Option<ScheduleId>,
}

/// What the outcome of an attempt is counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub job: Arc<str>,
    /// When it was due, and when its handler began, where the one that stores the outcome knows.
    pub began: Option<(Timestamp, Timestamp)>,
}

/// Of a run whose end says when its schedule fires again: which schedule, and the delay in milliseconds as it
/// was read. The schedule's row has the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunEnd {
    pub schedule: ScheduleId,
    pub delay: Millis,
}

/// An attempt that is made with the end of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextAttempt {
    pub due: Timestamp,
    pub token: Token,
    pub reason: Reason,
}

impl NextAttempt {
    pub(crate) fn new(due: Timestamp, reason: Reason) -> Self {
        Self { due, token: Token::fresh(), reason }
    }
}

impl Transition {
    /// The attempt that follows it.
    pub(crate) fn next(&self) -> Option<NextAttempt> {
        match *self {
            Self::Fail(_, next) | Self::Release(_, next) | Self::Abandon(next) => next,
            _ => None,
        }
    }
}

/// What a transition makes of an execution.
pub(super) struct Meaning {
    pub kind: ChangeKind,
    pub becomes: ExecutionState,
    /// The reason that the row then gives, if the rule asks for one.
    pub reason: Option<Reason>,
}

impl ExecutionChange {
    /// One of an execution that nobody answers for.
    pub(crate) fn of(execution: ExecutionId, token: Token, transition: Transition, now: Timestamp) -> Self {
        Self { execution, token, transition, run_end: None, own: None, counted: None, now }
    }

    pub(super) fn meaning(&self) -> Meaning {
        use ExecutionState::{Abandoned, Cancelled, Failed, Pending, Running, Skipped, Succeeded, TimedOut};
        let (kind, becomes, reason) = match self.transition {
            Transition::Start => (ChangeKind::Start, Running, None),
            Transition::Checkpoint(_) => (ChangeKind::Checkpoint, Running, None),
            Transition::Succeed => (ChangeKind::Finish, Succeeded, None),
            Transition::SucceedWith(_) => (ChangeKind::FinishWith, Succeeded, None),
            Transition::Complete => (ChangeKind::Complete, Succeeded, None),
            Transition::CompleteWith(_) => (ChangeKind::CompleteWith, Succeeded, None),
            Transition::Confirm => (ChangeKind::Confirm, Succeeded, None),
            Transition::Fail(..) => (ChangeKind::Finish, Failed, None),
            Transition::Stop(_) => (ChangeKind::Finish, Cancelled, None),
            Transition::GiveUp(_) => (ChangeKind::GiveUp, Failed, Some(Reason::GaveUp)),
            Transition::Snooze(..) => (ChangeKind::Snooze, Pending, Some(Reason::Snoozed)),
            Transition::PassOn(..) => (ChangeKind::PassOn, Pending, Some(Reason::Undecodable)),
            Transition::TimeOut(_) => (ChangeKind::TimeOut, TimedOut, None),
            Transition::Release(..) if self.own.is_some() => (ChangeKind::Release, TimedOut, None),
            Transition::Release(..) => (ChangeKind::Release, TimedOut, Some(Reason::NodeDied)),
            Transition::GiveBack(_) => (ChangeKind::GiveBack, Pending, Some(Reason::GivenBack)),
            Transition::Interrupt(_) => (ChangeKind::GiveBack, Pending, Some(Reason::Interrupted)),
            Transition::TakeBack(_) => (ChangeKind::TakeBack, Pending, Some(Reason::Recovery)),
            Transition::Abandon(_) => (ChangeKind::Abandon, Abandoned, Some(Reason::NodeDied)),
            Transition::Exhaust => (ChangeKind::Abandon, Failed, Some(Reason::AttemptsExhausted)),
            Transition::Supersede => (ChangeKind::Supersede, Skipped, Some(Reason::Superseded)),
            Transition::Cancel(reason) => (ChangeKind::Cancel, Cancelled, Some(reason)),
        };
        Meaning { kind, becomes, reason }
    }

    pub(crate) fn kind(&self) -> ChangeKind {
        self.meaning().kind
    }

    pub(crate) fn becomes(&self) -> ExecutionState {
        self.meaning().becomes
    }

    /// The handler's error.
    pub(crate) fn error(&self) -> Option<&String> {
        use Transition::{Fail, GiveUp, PassOn, Stop, TimeOut};
        match &self.transition {
            Fail(error, _) | Stop(error) | GiveUp(error) | TimeOut(error) | PassOn(_, error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn error_mut(&mut self) -> Option<&mut String> {
        use Transition::{Fail, GiveUp, PassOn, Stop, TimeOut};
        match &mut self.transition {
            Fail(error, _) | Stop(error) | GiveUp(error) | TimeOut(error) | PassOn(_, error) => Some(error),
            _ => None,
        }
    }

    /// The same with a result, as JSON, if it is a success.
    pub(crate) fn with_result(self, result: Option<String>) -> Self {
        let transition = match (self.transition, result) {
            (Transition::Succeed, Some(result)) => Transition::SucceedWith(result),
            (Transition::Complete, Some(result)) => Transition::CompleteWith(result),
            (other, _) => other,
        };
        Self { transition, ..self }
    }

    /// The handler's result.
    pub(crate) fn result(&self) -> Option<&String> {
        match &self.transition {
            Transition::SucceedWith(result) | Transition::CompleteWith(result) => Some(result),
            _ => None,
        }
    }

    pub(crate) fn result_mut(&mut self) -> Option<&mut String> {
        match &mut self.transition {
            Transition::SucceedWith(result) | Transition::CompleteWith(result) => Some(result),
            _ => None,
        }
    }

    /// The token that the execution has as nobody's.
    pub(super) fn fresh(&self) -> Option<Token> {
        use Transition::{GiveBack, Interrupt, PassOn, Release, Snooze, TakeBack};
        match self.transition {
            GiveBack(fresh) | Interrupt(fresh) | TakeBack(fresh) => Some(fresh),
            Release(fresh, _) | Snooze(fresh, _) | PassOn(fresh, _) => Some(fresh),
            _ => None,
        }
    }

    /// The token the execution has afterwards.
    pub(crate) fn token_after(&self) -> Token {
        self.fresh().unwrap_or(self.token)
    }

    /// What people are told of it, if it is this node's own.
    pub(crate) fn attempt(&self) -> Option<&Attempt> {
        self.own.as_ref().map(|own| &own.attempt)
    }

    /// Whether its handler has ended and is not called again for this attempt.
    fn ends_handler(&self) -> bool {
        use ChangeKind::{Complete, CompleteWith, Confirm, Finish, FinishWith, GiveUp, Release};
        let is_success = matches!(self.kind(), FinishWith | Complete | CompleteWith | Confirm);
        is_success || matches!(self.kind(), Finish | GiveUp | Release)
    }

    /// The run that it ends unless an attempt follows, if the schedule counts from that.
    pub(crate) fn ends_run(&self) -> Option<RunEnd> {
        let ends = self.ends_handler() || matches!(self.kind(), ChangeKind::Abandon | ChangeKind::Cancel);
        // What the handler's transaction stored has planned already.
        self.run_end.filter(|_| ends && self.kind() != ChangeKind::Confirm)
    }

    /// The schedule that fires again some time after this.
    pub(crate) fn plans(&self) -> Option<RunEnd> {
        let is_planned = self.run_end.filter(|_| self.kind() == ChangeKind::Confirm);
        self.ends_run().filter(|_| self.transition.next().is_none()).or(is_planned)
    }

    /// The schedule whose slot it may free, and its rule: a retry may keep it.
    pub(crate) fn frees(&self) -> Option<(ScheduleId, Overlap)> {
        self.own.as_ref().and_then(|own| own.slot).filter(|_| self.ends_handler())
    }

    /// The schedule whose occurrence has failed for good with it, if failures may pause that schedule.
    pub(crate) fn fails(&self) -> Option<ScheduleId> {
        let has_failed = matches!(self.becomes(), ExecutionState::Failed | ExecutionState::TimedOut);
        let is_last = has_failed && self.ends_handler() && self.transition.next().is_none();
        self.own.as_ref().and_then(|own| own.counted_by).filter(|_| is_last)
    }

    /// When it is tried again, or goes on.
    pub(crate) fn goes_on(&self) -> Option<Timestamp> {
        match self.transition {
            Transition::Snooze(_, due) => Some(due),
            Transition::Interrupt(_) => Some(self.now),
            _ => self.transition.next().map(|next| next.due),
        }
    }

    /// Whether its handler was dropped before it answered, and is to be run anew.
    pub(crate) fn is_interrupted(&self) -> bool {
        matches!(self.transition, Transition::Interrupt(_))
    }

    /// The event of an execution of this node's that goes back.
    pub(crate) fn given_back(&self) -> Option<Event> {
        self.attempt().cloned().map(|attempt| Event::GivenBack { attempt })
    }
}
