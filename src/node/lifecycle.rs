//! The life of a claimed execution on its thread, or as a task: begin, write its start, run, end.
//!
//! [`Lifecycle::of`] decides the first step, each step's end the next. A pool thread, a task or the simulator
//! performs the steps and decides nothing.

use crate::domain::{Answer, Boot, ExecutionId, JobPolicy, Token};
use crate::pipeline::complete::saying::Saying;
use crate::pipeline::complete::time_limits::{Deadline, Limited, Stuck};
use crate::store::{Applied, Claimed, ExecutionChange};
use crate::time::{Now, millis};
#[cfg(any(test, feature = "tokio"))]
use crate::{domain::Millis, node::context::Cancellation};

/// The next step of an execution.
#[allow(clippy::large_enum_variant, reason = "each is moved once or twice, and a box would be allocated")]
pub(crate) enum Lifecycle {
    /// Store that it starts (CLAIMED becomes RUNNING) and say how that ended.
    Start(ExecutionChange, Starting),
    /// Call the handler and say how it ended.
    Call(Started),
    /// Too late to begin: store that it goes back to PENDING.
    GiveBack(ExecutionChange),
    /// Its row says RUNNING, but it was cancelled before its handler began: store that it has ended.
    Cancel(ExecutionChange),
    /// It was taken from this node: nothing is left to do.
    Lost,
}

/// What may keep an execution from beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals {
    /// Nothing may begin on this node any more.
    pub is_closed: bool,
    /// Somebody has asked to cancel it.
    pub is_cancelled: bool,
}

/// An execution whose start is being stored.
pub(crate) struct Starting(Claimed);

/// An execution that may run: its row says so, and its lease held a moment ago.
pub(crate) struct Started {
    claimed: Claimed,
    /// If it has a time limit.
    end: Option<Deadline>,
    saying: Saying,
}

/// How the run of a handler ended.
pub(crate) enum Ending {
    Answer(Answer),
    /// There was none: the handler does not understand the payload, for this reason.
    Undecodable(String),
    #[cfg(any(test, feature = "tokio"))]
    Dropped(Interruption),
}

/// What else decides what is stored of a run that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Closing {
    /// Somebody has asked for its end.
    pub is_cancelled: bool,
    /// The token under which an execution goes to other nodes whose payload could not be decoded here.
    pub passed_on: Option<Token>,
    pub policy: Option<JobPolicy>,
    pub now: Now,
}

/// What is stored of a run that has ended.
pub(crate) struct Ended {
    /// Asks first whether a transaction of its handler's own has stored its success, if one may have.
    pub confirm: Option<ExecutionChange>,
    /// Stored unless one has.
    pub outcome: ExecutionChange,
}

/// Why the future of an async handler was dropped before it answered.
#[cfg(any(test, feature = "tokio"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// It was to end, and did not within its grace (milliseconds).
    Told(Cancellation, Millis),
    /// The runtime that polled it was shut down.
    RuntimeEnded,
}

#[cfg(any(test, feature = "tokio"))]
impl Interruption {
    fn text(self) -> String {
        let (why, grace) = match self {
            Self::Told(Cancellation::Shutdown, _) => {
                return "dropped: the shutdown's deadline came before its end".to_owned();
            }
            Self::RuntimeEnded => return "dropped: its tokio runtime was shut down".to_owned(),
            Self::Told(why, grace) => (why, grace),
        };
        let since = match why {
            Cancellation::TimeLimit => "its time limit had passed",
            Cancellation::ByHand => "somebody asked for its end",
            Cancellation::ExecutionLost => "it was taken from this node",
            Cancellation::LeaseLost | Cancellation::Shutdown => "this node's lease had ended",
        };
        format!("dropped {grace} ms after {since}")
    }
}

/// How long an async handler may go on once it is told to end.
#[cfg(any(test, feature = "tokio"))]
pub(crate) struct Patience {
    grace: Millis,
    /// Since when it is to end.
    told: Option<Boot>,
}

/// The next step with a handler's future.
#[cfg(any(test, feature = "tokio"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FutureStep {
    Drop(Interruption),
    /// Look again at this instant, or when the standing's bell rings.
    Again(Boot),
}

#[cfg(any(test, feature = "tokio"))]
impl Patience {
    pub(crate) fn new(grace: Millis) -> Self {
        Self { grace, told: None }
    }

    /// `why` it is to end now, which may become another answer at `changes_at`. A shutdown lets it run until
    /// `drops_at`.
    pub(crate) fn look(
        &mut self,
        why: Option<Cancellation>,
        (changes_at, drops_at): (Boot, Boot),
        boot: Boot,
    ) -> FutureStep {
        let why = why.filter(|why| *why != Cancellation::Shutdown);
        let Some(why) = why else {
            self.told = None;
            let stops = Interruption::Told(Cancellation::Shutdown, self.grace);
            return if boot >= drops_at {
                FutureStep::Drop(stops)
            } else {
                FutureStep::Again(changes_at.min(drops_at))
            };
        };
        let since = *self.told.get_or_insert(boot);
        let ends = since.saturating_add(self.grace).min(drops_at);
        if boot >= ends {
            FutureStep::Drop(Interruption::Told(why, boot - since))
        } else {
            FutureStep::Again(ends.min(changes_at))
        }
    }
}

impl Lifecycle {
    /// The first step.
    pub(crate) fn of(claimed: Claimed, now: Now, signals: Signals) -> Self {
        if signals.is_cancelled && claimed.is_started() {
            let answer = Answer::Cancelled("cancelled before its handler began".to_owned());
            Self::Cancel(claimed.finish(answer, None, now.db))
        } else if signals.is_closed || !claimed.may_start(now) {
            Self::GiveBack(claimed.give_back(now.db))
        } else if claimed.is_started() {
            Self::Call(Started { claimed, end: None, saying: Saying::default() })
        } else {
            Self::Start(claimed.start(now.db), Starting(claimed))
        }
    }
}

impl Starting {
    pub(crate) fn execution(&self) -> ExecutionId {
        self.0.execution()
    }

    pub(crate) fn token(&self) -> Token {
        self.0.token()
    }

    /// The next step, once the start is settled; `None` if nobody will settle it any more.
    pub(crate) fn settled(self, answer: Option<Applied>, now: Now, signals: Signals) -> Lifecycle {
        match answer {
            Some(Applied::Done) => {
                let Self(mut claimed) = self;
                claimed.mark_started();
                Lifecycle::of(claimed, now, signals)
            }
            Some(Applied::Lost | Applied::Held) | None => Lifecycle::Lost,
        }
    }
}

impl Started {
    /// Its handler begins later.
    #[cfg(feature = "tokio")]
    pub(crate) fn into_claimed(self) -> Claimed {
        self.claimed
    }

    pub(crate) fn claimed(&self) -> &Claimed {
        &self.claimed
    }

    /// Its handler begins now, in the lane whose count is `stuck`. Returns the limit to watch, if it has one.
    pub(crate) fn begin(&mut self, policy: Option<JobPolicy>, stuck: &Stuck, now: Now) -> Option<Limited> {
        self.claimed.begin(now.db);
        let of_job = policy.and_then(|policy| policy.time_limit).map(millis);
        let limit = self.claimed.time_limit().or(of_job)?;
        let end = Deadline::new(now.boot.saturating_add(limit));
        self.end = Some(end.clone());
        Some(Limited { end, change: self.claimed.time_out(limit, now.db), stuck: stuck.clone() })
    }

    /// When its time is up; none if it has no time limit.
    pub(crate) fn time_is_up_at(&self) -> Option<Boot> {
        self.end.as_ref().map(|end| end.at)
    }

    /// What its handler says beside its answer.
    pub(crate) fn saying(&self) -> Saying {
        self.saying.clone()
    }

    /// What is stored of a run that has ended so. Where its handler was to store its outcome in a transaction
    /// of its own, that is asked for first, and without it nothing that the handler says is a success.
    pub(crate) fn ended(self, ending: Ending, closing: Closing) -> Ended {
        let (is_completing, result) = (self.saying.is_completing(), self.saying.result());
        let confirm = is_completing.then(|| self.claimed.confirm(closing.now.db));
        let outcome = match ending {
            Ending::Answer(answer) if is_completing || matches!(answer, Answer::Completed(_)) => {
                self.answered(answer.uncommitted(), closing)
            }
            Ending::Answer(answer) => self.answered(answer, closing),
            Ending::Undecodable(reason) => self.undecodable(reason, closing),
            #[cfg(any(test, feature = "tokio"))]
            Ending::Dropped(why) => self.dropped(why, closing),
        };
        Ended { confirm, outcome: outcome.with_result(result) }
    }

    /// What is stored of an execution that has answered: its outcome, and after a failure the retry that its
    /// job's policy grants. A failure after it was asked to cancel is no failure, and not retried. If its
    /// time was up before, the answer comes too late, and only the retry is left to be granted.
    fn answered(self, answer: Answer, closing: Closing) -> ExecutionChange {
        let Self { claimed, end, .. } = self;
        let Closing { is_cancelled, policy, now, .. } = closing;
        let failures = claimed.failures().saturating_add(1);
        let due = |policy: JobPolicy, own, since| policy.retry.due(claimed.execution(), failures, own, since);
        if let Some(end) = end
            && !end.returned(now.boot)
        {
            let since = now.db.saturating_sub(now.boot - end.at);
            let retry = policy.filter(|_| !is_cancelled).and_then(|policy| due(policy, None, since));
            return claimed.release(retry.map(|due| due.max(now.db)), now.db);
        }
        let answer = if is_cancelled { answer.after_cancel() } else { answer };
        let retry = policy.filter(|_| answer.may_be_retried());
        let retry = retry.and_then(|policy| due(policy, answer.own_pause(), now.db));
        claimed.finish(answer, retry, now.db)
    }

    /// The end of an execution whose payload could not be decoded: PENDING for another node under
    /// the token it is passed on with, FAILED for good without one.
    fn undecodable(self, reason: String, closing: Closing) -> ExecutionChange {
        let Closing { is_cancelled, passed_on, now, .. } = closing;
        let is_in_time = self.end.as_ref().is_none_or(|end| end.returned(now.boot));
        match passed_on.filter(|_| is_in_time && !is_cancelled) {
            Some(token) => self.claimed.pass_on(token, reason, now.db),
            None => self.answered(Answer::GiveUp(reason), closing),
        }
    }

    /// What is stored of an execution whose async handler was dropped. If its time was up, that is
    /// the return it waited for. One that was asked to cancel is cancelled. Another is interrupted: with
    /// recovery it goes back to PENDING, to be run anew; without, nothing follows it.
    #[cfg(any(test, feature = "tokio"))]
    fn dropped(self, why: Interruption, closing: Closing) -> ExecutionChange {
        let Closing { is_cancelled, policy, now, .. } = closing;
        let recovers = policy.is_some_and(|policy| policy.recover);
        let is_in_time = self.end.as_ref().is_none_or(|end| end.returned(now.boot));
        if is_in_time && !is_cancelled && recovers {
            return self.claimed.interrupt(now.db);
        }
        self.answered(Answer::GiveUp(why.text()), closing)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::{ExecutionState, Receipt, Retry, Timestamp, UNCOMMITTED};
    use crate::fixtures::{claim_under, definition};
    use crate::store::Verbs;
    use crate::store::memory::MemoryStore;
    use crate::store::rules::ChangeKind;
    use crate::time::Lease;
    use crate::trigger::Trigger;

    const AT: Timestamp = Timestamp::at(1_767_225_601_000);
    const DEADLINE: Millis = 5_000;

    fn at(boot: Millis) -> Now {
        Now { db: AT, boot: Boot::at(boot), apart: 0 }
    }

    /// The first attempt at an occurrence.
    fn claimed(at_once: bool) -> Claimed {
        let store = MemoryStore::new(AT - 1_000);
        let once = Trigger::once(AT.utc().unwrap()).unwrap();
        store.ensure(&definition("s", once)).unwrap();
        claim_under(Lease { until: Boot::at(DEADLINE), apart: 0 }, &store, "s", at_once, AT)
    }

    fn starting() -> Starting {
        let Lifecycle::Start(settlement, starting) = Lifecycle::of(claimed(false), at(0), Signals::default())
        else {
            panic!("not started")
        };
        assert_eq!((settlement.kind(), settlement.now), (ChangeKind::Start, AT));
        starting
    }

    #[test]
    fn nothing_begins_at_its_deadline_or_after_the_end() {
        let begun = |at_once, boot, closed| match Lifecycle::of(
            claimed(at_once),
            at(boot),
            Signals { is_closed: closed, is_cancelled: false },
        ) {
            Lifecycle::Start(..) => "start",
            Lifecycle::Call(_) => "run",
            Lifecycle::GiveBack(_) => "give back",
            Lifecycle::Cancel(_) => "cancel",
            Lifecycle::Lost => "lost",
        };
        assert_eq!((begun(false, DEADLINE - 1, false), begun(true, DEADLINE - 1, false)), ("start", "run"));
        for (boot, closed) in [(DEADLINE, false), (DEADLINE + 1, false), (0, true)] {
            assert_eq!((begun(false, boot, closed), begun(true, boot, closed)), ("give back", "give back"));
        }
    }

    /// The boot clock did not count the pause, and others may have run it meanwhile: neither an unwritten
    /// start nor a written one may lead to the handler.
    #[test]
    fn nothing_begins_after_a_pause_that_only_the_wall_clock_shows() {
        let paused = Now { apart: 20_000, ..at(0) };
        assert!(matches!(Lifecycle::of(claimed(true), paused, Signals::default()), Lifecycle::GiveBack(_)));
        assert!(matches!(Lifecycle::of(claimed(false), paused, Signals::default()), Lifecycle::GiveBack(_)));
        assert!(matches!(
            starting().settled(Some(Applied::Done), paused, Signals::default()),
            Lifecycle::GiveBack(_)
        ));
    }

    #[test]
    fn an_execution_runs_once_its_start_is_stored() {
        assert!(matches!(
            starting().settled(Some(Applied::Done), at(0), Signals::default()),
            Lifecycle::Call(_)
        ));
        assert!(matches!(
            starting().settled(Some(Applied::Lost), at(0), Signals::default()),
            Lifecycle::Lost
        ));
        assert!(matches!(starting().settled(None, at(0), Signals::default()), Lifecycle::Lost));
    }

    /// One that is RUNNING by its claim may wait for a thread meanwhile.
    #[test]
    fn a_cancelled_execution_does_not_begin() {
        for (boot, closed) in [(0, false), (DEADLINE, false), (0, true)] {
            let Lifecycle::Cancel(change) =
                Lifecycle::of(claimed(true), at(boot), Signals { is_closed: closed, is_cancelled: true })
            else {
                panic!("not cancelled")
            };
            assert_eq!((change.kind(), change.becomes()), (ChangeKind::Finish, ExecutionState::Cancelled));
            assert_eq!(change.transition.next(), None);
        }
        let started =
            starting().settled(Some(Applied::Done), at(0), Signals { is_closed: false, is_cancelled: true });
        assert!(matches!(started, Lifecycle::Cancel(_)));
        let is_lost = |answer| {
            matches!(
                starting().settled(answer, at(0), Signals { is_closed: false, is_cancelled: true }),
                Lifecycle::Lost
            )
        };
        assert!(is_lost(Some(Applied::Lost)) && is_lost(None));
        assert!(
            matches!(
                Lifecycle::of(claimed(false), at(0), Signals { is_closed: false, is_cancelled: true }),
                Lifecycle::Start(..)
            ),
            "its row tells"
        );
    }

    #[test]
    fn a_grace_begins_when_it_is_told_and_again_when_it_is_told_anew() {
        use Cancellation::{ByHand, LeaseLost, Shutdown, TimeLimit};
        const NEVER: Millis = Millis::MAX;
        let again = |at| FutureStep::Again(Boot::at(at));
        let drop = |why, after| FutureStep::Drop(Interruption::Told(why, after));
        let look = |patience: &mut Patience, why, (changes_at, drops_at), boot| {
            patience.look(why, (Boot::at(changes_at), Boot::at(drops_at)), Boot::at(boot))
        };
        let patience = &mut Patience::new(100);
        assert_eq!(look(patience, None, (40, NEVER), 0), again(40));
        assert_eq!(look(patience, Some(LeaseLost), (NEVER, NEVER), 40), again(140));
        assert_eq!(look(patience, Some(LeaseLost), (90, NEVER), 60), again(90), "another reason may come");
        assert_eq!(look(patience, None, (900, NEVER), 139), again(900), "the lease is back");
        assert_eq!(look(patience, Some(ByHand), (NEVER, NEVER), 200), again(300));
        assert_eq!(look(patience, Some(TimeLimit), (NEVER, NEVER), 299), again(300));
        assert_eq!(look(patience, Some(TimeLimit), (NEVER, NEVER), 300), drop(TimeLimit, 100));
        let stopped = &mut Patience::new(100);
        assert_eq!(look(stopped, Some(Shutdown), (70, 50), 0), again(50), "it runs until the deadline");
        assert_eq!(look(stopped, Some(ByHand), (NEVER, 50), 10), again(50));
        assert_eq!(look(stopped, Some(ByHand), (NEVER, 50), 50), drop(ByHand, 40));
        assert_eq!(look(stopped, Some(Shutdown), (NEVER, 50), 50), drop(Shutdown, 100));
        assert_eq!(look(&mut Patience::new(0), Some(ByHand), (NEVER, NEVER), 7), drop(ByHand, 0));
    }

    #[test]
    fn what_is_dropped_is_run_anew_if_it_may_be() {
        let lease = Interruption::Told(Cancellation::LeaseLost, 5_000);
        let dropped = |why, is_cancelled, recover, took: Option<Millis>| {
            let Lifecycle::Call(mut running) = Lifecycle::of(claimed(true), at(0), Signals::default()) else {
                panic!("not run")
            };
            let retry = Retry::fixed(Duration::from_secs(7)).at_most(1);
            let time_limit = took.map(|_| Duration::from_millis(10));
            let policy = JobPolicy { retry, recover, time_limit, ..JobPolicy::DEFAULT };
            running.begin(Some(policy), &Stuck::default(), at(0));
            let (policy, now) = (Some(policy), at(took.unwrap_or(1)));
            running
                .ended(Ending::Dropped(why), Closing { is_cancelled, passed_on: None, policy, now })
                .outcome
        };
        let anew = dropped(lease, false, true, None);
        assert_eq!((anew.kind(), anew.becomes()), (ChangeKind::GiveBack, ExecutionState::Pending));
        assert!(anew.is_interrupted() && anew.goes_on() == Some(AT) && anew.error().is_none());
        let once = dropped(lease, false, false, None);
        assert_eq!((once.kind(), once.becomes()), (ChangeKind::GiveUp, ExecutionState::Failed));
        assert_eq!(
            once.error().map(String::as_str),
            Some("dropped 5000 ms after this node's lease had ended")
        );
        let by_hand = Interruption::Told(Cancellation::ByHand, 0);
        let cancelled = dropped(by_hand, true, true, None);
        assert_eq!((cancelled.becomes(), cancelled.transition.next()), (ExecutionState::Cancelled, None));
        assert_eq!(
            cancelled.error().map(String::as_str),
            Some("dropped 0 ms after somebody asked for its end")
        );
        for recover in [true, false] {
            let limit = dropped(Interruption::RuntimeEnded, false, recover, Some(10));
            assert_eq!((limit.kind(), limit.becomes()), (ChangeKind::Release, ExecutionState::TimedOut));
            assert_eq!(
                limit.transition.next().map(|next| next.due),
                Some(AT + 7_000),
                "its retry is granted"
            );
            let in_time = dropped(Interruption::RuntimeEnded, false, recover, Some(9));
            assert_eq!(in_time.becomes() == ExecutionState::Pending, recover);
        }
    }

    #[test]
    fn only_a_failure_with_retries_left_is_retried() {
        let ended = |answer, is_cancelled, retries| {
            let Lifecycle::Call(running) = Lifecycle::of(claimed(true), at(0), Signals::default()) else {
                panic!("not run")
            };
            let retry = Retry::fixed(Duration::from_secs(7)).at_most(retries);
            let policy = JobPolicy { retry, ..JobPolicy::DEFAULT };
            let closing = Closing { is_cancelled, passed_on: None, policy: Some(policy), now: at(0) };
            let Ended { confirm, outcome } = running.ended(Ending::Answer(answer), closing);
            assert!(confirm.is_none(), "nobody has completed it");
            (outcome.becomes(), outcome.goes_on())
        };
        let failed = || Answer::Failed("no".to_owned());
        assert_eq!(ended(Answer::Done, false, 1), (ExecutionState::Succeeded, None));
        assert_eq!(ended(failed(), false, 1), (ExecutionState::Failed, Some(AT + 7_000)));
        assert_eq!(ended(failed(), false, 0), (ExecutionState::Failed, None));
        assert_eq!(ended(failed(), true, 1), (ExecutionState::Cancelled, None));
        assert_eq!(ended(Answer::Done, true, 1), (ExecutionState::Succeeded, None), "it has succeeded");
        let pause = Duration::from_millis(9);
        let own = || Answer::RetryIn(pause, "no".to_owned());
        assert_eq!(ended(own(), false, 1), (ExecutionState::Failed, Some(AT + 9)));
        assert_eq!(ended(own(), false, 0), (ExecutionState::Failed, None));
        assert_eq!(ended(Answer::GiveUp("no".to_owned()), false, 1), (ExecutionState::Failed, None));
        assert_eq!(ended(Answer::Cancelled("no".to_owned()), false, 1), (ExecutionState::Cancelled, None));
        assert_eq!(ended(Answer::Snooze(pause), false, 0), (ExecutionState::Pending, Some(AT + 9)));
        assert_eq!(ended(Answer::Snooze(pause), true, 1), (ExecutionState::Cancelled, None));
    }

    /// Whatever its handler says of a transaction in which it completes, the row is asked first.
    #[test]
    fn no_answer_stands_for_a_transaction_of_the_handlers_own() {
        let ended = |completes: bool, is_cancelled, ending| {
            let Lifecycle::Call(mut running) = Lifecycle::of(claimed(true), at(0), Signals::default()) else {
                panic!("not run")
            };
            let retry = Retry::fixed(Duration::from_secs(7)).at_most(1);
            let policy = Some(JobPolicy { retry, ..JobPolicy::DEFAULT });
            running.begin(policy, &Stuck::default(), at(0));
            if completes {
                running.saying().complete();
            }
            running.ended(ending, Closing { is_cancelled, passed_on: None, policy, now: at(1) })
        };
        let receipt = || Answer::from(Receipt { execution: ExecutionId(1), token: Token::fresh() });
        let undone = |completes, is_cancelled, ending| {
            let Ended { confirm, outcome } = ended(completes, is_cancelled, ending);
            let asks = confirm.map(|it| (it.kind(), it.token == outcome.token));
            assert_eq!(asks, completes.then_some((ChangeKind::Confirm, true)));
            (outcome.becomes(), outcome.error().cloned(), outcome.goes_on())
        };
        let uncommitted = || Some(UNCOMMITTED.to_owned());
        let failed = |error| (ExecutionState::Failed, error, Some(AT + 7_000));
        for answer in [receipt(), Answer::Done] {
            assert_eq!(undone(true, false, Ending::Answer(answer)), failed(uncommitted()));
        }
        assert_eq!(
            undone(false, false, Ending::Answer(receipt())),
            failed(uncommitted()),
            "another's receipt"
        );
        let error = || Some("no".to_owned());
        assert_eq!(undone(true, false, Ending::Answer(Answer::Failed("no".to_owned()))), failed(error()));
        let (state, text, retry) = undone(true, true, Ending::Answer(receipt()));
        assert_eq!((state, text, retry), (ExecutionState::Cancelled, uncommitted(), None));
        let snooze = Ending::Answer(Answer::Snooze(Duration::from_millis(9)));
        assert_eq!(undone(true, false, snooze), (ExecutionState::Pending, None, Some(AT + 9)));
        let dropped = Ending::Dropped(Interruption::RuntimeEnded);
        assert_eq!(undone(true, false, dropped).0, ExecutionState::Pending, "it is run anew");
    }
}
