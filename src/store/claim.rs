//! Claims and their endings. Ownership is a value: only a won claim makes a [`Claimed`], only an outcome
//! consumes it.

use std::sync::Arc;

use super::change::Unstarted;
use super::transition::{Counted, ExecutionChange, NextAttempt, OwnExecution, RunEnd, Transition};
use crate::domain::{
    Answer, Attempt, BoundOf, Candidate, Cause, Entry, Error, ExecutionId, Full, Millis, NodeId, PauseAfter,
    Reason, SeatWait, Timestamp, Token, UNCOMMITTED,
};
use crate::time::{Lease, Now, millis};

/// One candidate with the token that will answer for it.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRequest {
    pub candidate: Candidate,
    pub token: Token,
    pub node: NodeId,
    /// A thread is free: insert the execution as RUNNING, saving the start's statement.
    pub at_once: bool,
    /// The lease it is claimed under: the handler starts while that holds, or not at all.
    pub lease: Lease,
    /// For which seat it had to wait, of one that is claimed late.
    pub waited: Option<SeatWait>,
    pub now: Timestamp,
}

impl ClaimRequest {
    /// When an execution that is RUNNING from its claim on has started: what is claimed ahead, not before it
    /// is due.
    pub(crate) fn started(&self) -> Option<Timestamp> {
        self.at_once.then(|| self.now.max(self.candidate.due()))
    }
}

/// What follows for a claim whose commit was unknown, and that was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfNotMade {
    /// It is made now.
    Claim,
    /// It is prevented: the node was switched off meanwhile.
    Prevent,
}

/// The ending of one claim.
#[derive(Debug)]
pub(crate) enum Claim {
    Won(Claimed),
    Lost,
    Skipped,
    /// The slot of its schedule is taken: it would overlap.
    Blocked(Blocked),
    /// There is no room for another execution of its job, or of its group.
    Full(Full),
    /// Another claim counts what runs of its job.
    Busy,
    Failed(Error),
}

/// Who keeps a claim from being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// The execution that keeps the slot.
    pub holder: ExecutionId,
    /// Whether that has yet to begin: it waits for a thread, or was given back for want of one.
    pub is_late: bool,
    /// Planned executions of the schedule that wait for it: as many as its rule lets wait, or all there are.
    pub waiting: Vec<Unstarted>,
}

/// An execution this process owns. Made only inside `store/`, by a won claim.
#[derive(Debug)]
#[must_use = "a claimed execution must end in an outcome or be given back"]
pub(crate) struct Claimed {
    execution: ExecutionId,
    entry: Arc<Entry>,
    scheduled: Timestamp,
    due: Timestamp,
    attempt: u32,
    fence: i64,
    token: Token,
    lease: Lease,
    started: bool,
    /// When its handler began.
    began: Option<Timestamp>,
    cause: Cause,
    /// Its own, in place of its schedule's.
    payload: Option<Arc<str>>,
    group: Option<Arc<str>>,
    has_own_lane: bool,
    headers: Option<Arc<str>>,
    failures: u32,
    snoozes: u32,
}

impl Claimed {
    /// The claim `request` made and won; `fence` as the database counted it.
    pub(super) fn won(request: &ClaimRequest, execution: ExecutionId, fence: i64) -> Self {
        let (scheduled, attempt, cause, payload) = match &request.candidate {
            Candidate::Planned(occurrence) => (occurrence.at, 1, Cause::Planned, None),
            Candidate::Pending(it) => (it.scheduled, it.attempt, it.cause.clone(), it.payload.clone()),
        };
        let (headers, failures, snoozes) = match &request.candidate {
            Candidate::Planned(_) => (None, 0, 0),
            Candidate::Pending(it) => (it.headers.clone(), it.failures, it.snoozes),
        };
        Self {
            execution,
            entry: Arc::clone(request.candidate.entry()),
            scheduled,
            due: request.candidate.due(),
            attempt,
            fence,
            token: request.token,
            lease: request.lease,
            started: request.at_once,
            began: None,
            cause,
            payload,
            group: request.candidate.group().cloned(),
            has_own_lane: request.candidate.lane().is_some(),
            headers,
            failures,
            snoozes,
        }
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        self.execution
    }

    #[cfg(test)]
    pub(crate) fn schedule(&self) -> crate::domain::ScheduleId {
        self.entry.id
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(crate) fn scheduled(&self) -> Timestamp {
        self.scheduled
    }

    /// Its fire time, or when a later attempt may begin.
    pub(crate) fn due(&self) -> Timestamp {
        self.due
    }

    /// 1 for the first attempt.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// It was enqueued in a lane: how long it takes says nothing of its job's.
    pub(crate) fn has_own_lane(&self) -> bool {
        self.has_own_lane
    }

    pub(crate) fn cause(&self) -> &Cause {
        &self.cause
    }

    /// How many attempts before it failed.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// How often it was snoozed.
    pub(crate) fn snoozes(&self) -> u32 {
        self.snoozes
    }

    /// Its headers as its row has them, if it has some.
    pub(crate) fn headers(&self) -> Option<&str> {
        self.headers.as_deref()
    }

    /// What its handler is given, as JSON.
    pub(crate) fn payload(&self) -> &str {
        self.payload.as_deref().unwrap_or(&self.entry.payload)
    }

    pub(crate) fn fence(&self) -> i64 {
        self.fence
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Whether its row says RUNNING.
    pub(crate) fn is_started(&self) -> bool {
        self.started
    }

    /// Whether the handler may still start. If not, repair may already have given the work to another.
    pub(crate) fn may_start(&self, now: Now) -> bool {
        self.lease.holds(now)
    }

    /// CLAIMED becomes RUNNING.
    pub(crate) fn start(&self, now: Timestamp) -> ExecutionChange {
        self.change(Transition::Start, now)
    }

    /// The row says RUNNING now.
    pub(crate) fn mark_started(&mut self) {
        self.started = true;
    }

    /// Its handler begins now.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        self.began = Some(now);
    }

    /// Its handler's outcome as a transaction of the handler's own stores it.
    #[cfg(any(feature = "sql", feature = "testing", test))]
    pub(crate) fn complete(&self, now: Timestamp) -> ExecutionChange {
        self.change(Transition::Complete, now)
    }

    /// Asks whether such a transaction has stored it.
    pub(crate) fn confirm(&self, now: Timestamp) -> ExecutionChange {
        self.change(Transition::Confirm, now)
    }

    /// What its handler's answer comes to, with the retry that is due after a failure.
    pub(crate) fn finish(self, answer: Answer, retry: Option<Timestamp>, now: Timestamp) -> ExecutionChange {
        let transition = match answer {
            Answer::Done => Transition::Succeed,
            Answer::Failed(error) | Answer::RetryIn(_, error) => {
                Transition::Fail(error, Self::retried(retry))
            }
            Answer::Completed(_) => Transition::Fail(UNCOMMITTED.to_owned(), Self::retried(retry)),
            Answer::Cancelled(error) => Transition::Stop(error),
            Answer::GiveUp(error) => Transition::GiveUp(error),
            Answer::Snooze(pause) => Transition::Snooze(Token::fresh(), now.saturating_add(millis(pause))),
        };
        self.change(transition, now)
    }

    fn retried(due: Option<Timestamp>) -> Option<NextAttempt> {
        due.map(|due| NextAttempt::new(due, Reason::Retry))
    }

    /// How long its handler may take, if its schedule says so itself; milliseconds.
    pub(crate) fn time_limit(&self) -> Option<Millis> {
        self.entry.time_limit
    }

    /// Its payload cannot be decoded here: back to PENDING under this token, due as it was.
    pub(crate) fn pass_on(self, token: Token, reason: String, now: Timestamp) -> ExecutionChange {
        self.change(Transition::PassOn(token, reason), now)
    }

    /// Its time is up, while its handler runs on.
    pub(crate) fn time_out(&self, limit: Millis, now: Timestamp) -> ExecutionChange {
        self.change(Transition::TimeOut(format!("its time limit of {limit} ms has passed")), now)
    }

    /// Its handler has returned after its time was up: its retry, if one is granted, may begin.
    pub(crate) fn release(self, retry: Option<Timestamp>, now: Timestamp) -> ExecutionChange {
        self.change(Transition::Release(Token::fresh(), Self::retried(retry)), now)
    }

    /// Not started after all: back to PENDING, due as it was.
    pub(crate) fn give_back(self, now: Timestamp) -> ExecutionChange {
        self.change(Transition::GiveBack(Token::fresh()), now)
    }

    /// Its handler was dropped before it answered: back to PENDING, due as it was, to be run anew at once.
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn interrupt(self, now: Timestamp) -> ExecutionChange {
        self.change(Transition::Interrupt(Token::fresh()), now)
    }

    fn change(&self, transition: Transition, now: Timestamp) -> ExecutionChange {
        let is_planned = !self.cause.is_asked_for();
        let (entry, overlap) = (&self.entry, self.entry.overlap);
        let run_end = |delay| RunEnd { schedule: entry.id, delay };
        let bound_of = || BoundOf { job: Arc::clone(&entry.job), group: self.group.clone() };
        let counts = is_planned && matches!(entry.pause_after, PauseAfter::Streak(_));
        ExecutionChange {
            execution: self.execution,
            token: self.token,
            transition,
            run_end: entry.timing.delay_ms().filter(|_| is_planned).map(run_end),
            own: Some(OwnExecution {
                attempt: self.named(),
                bound_of: (!entry.bounds.is_none()).then(bound_of),
                slot: overlap.has_slot().then_some((entry.id, overlap)),
                counted_by: counts.then_some(entry.id),
            }),
            counted: self
                .began
                .map(|began| Counted { job: Arc::clone(&entry.job), began: Some((self.due, began)) }),
            now,
        }
    }

    /// What events call it.
    pub(crate) fn named(&self) -> Attempt {
        Attempt {
            execution: self.execution,
            schedule: Arc::clone(&self.entry.name),
            job: Arc::clone(&self.entry.job),
            number: self.attempt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Boot, ExecutionState, Pending, ScheduleId};
    use crate::fixtures::simple;
    use crate::store::rules::ChangeKind;

    const NOW: Timestamp = Timestamp::at(1_000_000);

    fn token() -> Token {
        Token(uuid::Uuid::from_u128(7))
    }

    /// The third attempt at an occurrence, claimed.
    fn third(at_once: bool) -> Claimed {
        let candidate = Candidate::Pending(Pending {
            id: ExecutionId(5),
            entry: Arc::new(simple(4, Timestamp::at(0), 1_000, -1, None)),
            scheduled: NOW - 60_000,
            due: NOW,
            attempt: 3,
            generation: 0,
            origin: 0,
            token: Token::fresh(),
            cause: Cause::Retry,
            payload: None,
            priority: None,
            group: None,
            lane: None,
            headers: None,
            failures: 2,
            snoozes: 0,
        });
        let (token, node) = (token(), NodeId::fresh());
        let lease = Lease { until: Boot::at(5_000), apart: 0 };
        let request = ClaimRequest { candidate, token, node, at_once, lease, waited: None, now: NOW };
        Claimed::won(&request, ExecutionId(6), 9)
    }

    #[test]
    fn a_claim_knows_what_it_claimed() {
        let claimed = third(false);
        assert_eq!((claimed.execution(), claimed.entry().id), (ExecutionId(6), ScheduleId(4)));
        assert_eq!((claimed.scheduled(), claimed.attempt(), claimed.fence()), (NOW - 60_000, 3, 9));
    }

    #[test]
    fn an_outcome_is_under_its_own_token_and_a_retry_under_a_fresh_one() {
        let won = third(true).finish(Answer::Done, None, NOW);
        assert_eq!((won.execution, won.token, won.token_after()), (ExecutionId(6), token(), token()));
        assert_eq!((won.kind(), won.becomes()), (ChangeKind::Finish, ExecutionState::Succeeded));
        assert_eq!((won.error(), won.transition.next(), won.now), (None, None, NOW));

        let failed = third(true).finish(Answer::Failed("no".to_owned()), Some(NOW + 1), NOW);
        assert_eq!(
            (failed.becomes(), failed.error().map(String::as_str)),
            (ExecutionState::Failed, Some("no"))
        );
        let next = failed.transition.next().expect("a retry");
        assert_eq!((next.due, next.reason), (NOW + 1, Reason::Retry));
        assert_ne!(next.token, token());

        let back = third(true).give_back(NOW);
        assert_eq!((back.execution, back.token), (ExecutionId(6), token()));
        assert_eq!((back.kind(), back.becomes()), (ChangeKind::GiveBack, ExecutionState::Pending));
        assert_ne!(back.token_after(), token());
    }
}
