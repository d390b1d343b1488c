//! The life of a claimed execution on its thread: begin, write its start, run, end.
//!
//! [`Lifecycle::of`] decides the first step, each step's end the next; whoever performs them (a pool thread,
//! the simulator) decides nothing.

use crate::domain::{JobPolicy, Millis, Outcome};
use crate::store::{Applied, Claimed, ExecutionChange};
use crate::time::Now;

/// The next step of an execution.
pub(crate) enum Lifecycle {
    /// Store that it starts (CLAIMED becomes RUNNING) and say how that ended.
    Start(ExecutionChange, Starting),
    /// Call the handler and say how it ended.
    Run(Running),
    /// Too late to begin: store that it goes back to PENDING.
    GiveBack(ExecutionChange),
    /// It was taken from this node: nothing is left to do.
    Lost,
}

/// An execution whose start is being stored.
pub(crate) struct Starting(Claimed);

/// An execution that may run: its row says so, and its lease held a moment ago.
pub(crate) struct Running(Claimed);

impl Lifecycle {
    /// The first step; `closed` when nothing may begin any more.
    pub(crate) fn of(claimed: Claimed, now: Now, closed: bool) -> Self {
        if closed || !claimed.may_start(now) {
            Self::GiveBack(claimed.give_back(now.db))
        } else if claimed.is_started() {
            Self::Run(Running(claimed))
        } else {
            Self::Start(claimed.start(now.db), Starting(claimed))
        }
    }
}

impl Starting {
    /// The next step, once the start is settled; `None` if nobody will settle it any more.
    pub(crate) fn settled(self, answer: Option<Applied>, now: Now, closed: bool) -> Lifecycle {
        match answer {
            Some(Applied::Done) => {
                let Self(mut claimed) = self;
                claimed.mark_started();
                Lifecycle::of(claimed, now, closed)
            }
            Some(Applied::Lost) | None => Lifecycle::Lost,
        }
    }
}

impl Running {
    pub(crate) fn claimed(&self) -> &Claimed {
        &self.0
    }

    /// What is stored of an execution that ended at `now`: its outcome, and after a failure the retry that
    /// its job's policy grants. A failure after it was asked to cancel is no failure, and not retried.
    pub(crate) fn ended(
        self,
        outcome: Outcome,
        is_cancelled: bool,
        policy: Option<JobPolicy>,
        now: Millis,
    ) -> ExecutionChange {
        let Self(claimed) = self;
        let outcome = match outcome {
            Outcome::Failed(error) if is_cancelled => Outcome::Cancelled(error),
            outcome => outcome,
        };
        let failed = matches!(outcome, Outcome::Failed(_));
        let retry = policy.filter(|_| failed).and_then(|policy| policy.retry_at(claimed.attempt(), now));
        claimed.finish(outcome, retry, now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chrono::DateTime;

    use super::*;
    use crate::domain::ExecutionState;
    use crate::fixtures::{claim_under, definition};
    use crate::store::Store;
    use crate::store::memory::MemoryStore;
    use crate::store::rules::ChangeKind;
    use crate::time::Lease;
    use crate::trigger::Trigger;

    const AT: Millis = 1_767_225_601_000;
    const DEADLINE: Millis = 5_000;

    fn at(boot: Millis) -> Now {
        Now { db: AT, boot, apart: 0 }
    }

    /// The first attempt at an occurrence.
    fn claimed(at_once: bool) -> Claimed {
        let store = MemoryStore::new(AT - 1_000);
        let once = Trigger::once(DateTime::from_timestamp_millis(AT).unwrap()).unwrap();
        store.ensure(&definition("s", once)).unwrap();
        claim_under(Lease { until: DEADLINE, apart: 0 }, &store, "s", at_once, AT)
    }

    fn starting() -> Starting {
        let Lifecycle::Start(settlement, starting) = Lifecycle::of(claimed(false), at(0), false) else {
            panic!("not started")
        };
        assert_eq!((settlement.kind, settlement.now), (ChangeKind::Start, AT));
        starting
    }

    #[test]
    fn nothing_begins_at_its_deadline_or_after_the_end() {
        let begun = |at_once, boot, closed| match Lifecycle::of(claimed(at_once), at(boot), closed) {
            Lifecycle::Start(..) => "start",
            Lifecycle::Run(_) => "run",
            Lifecycle::GiveBack(_) => "give back",
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
        assert!(matches!(Lifecycle::of(claimed(true), paused, false), Lifecycle::GiveBack(_)));
        assert!(matches!(Lifecycle::of(claimed(false), paused, false), Lifecycle::GiveBack(_)));
        assert!(matches!(starting().settled(Some(Applied::Done), paused, false), Lifecycle::GiveBack(_)));
    }

    #[test]
    fn an_execution_runs_once_its_start_is_stored() {
        assert!(matches!(starting().settled(Some(Applied::Done), at(0), false), Lifecycle::Run(_)));
        assert!(matches!(starting().settled(Some(Applied::Lost), at(0), false), Lifecycle::Lost));
        assert!(matches!(starting().settled(None, at(0), false), Lifecycle::Lost));
    }

    #[test]
    fn only_a_failure_with_tries_left_is_retried() {
        let ended = |outcome, is_cancelled, max_tries| {
            let Lifecycle::Run(running) = Lifecycle::of(claimed(true), at(0), false) else {
                panic!("not run")
            };
            let retry_delay = Duration::from_secs(7);
            let policy = JobPolicy { max_tries, retry_delay, ..JobPolicy::DEFAULT };
            let outcome = running.ended(outcome, is_cancelled, Some(policy), AT);
            (outcome.becomes, outcome.next.map(|next| next.due))
        };
        let failed = || Outcome::Failed("no".to_owned());
        assert_eq!(ended(Outcome::Succeeded, false, 2), (ExecutionState::Succeeded, None));
        assert_eq!(ended(failed(), false, 2), (ExecutionState::Failed, Some(AT + 7_000)));
        assert_eq!(ended(failed(), false, 1), (ExecutionState::Failed, None));
        assert_eq!(ended(failed(), true, 2), (ExecutionState::Cancelled, None));
        assert_eq!(ended(Outcome::Succeeded, true, 2), (ExecutionState::Succeeded, None), "it has succeeded");
    }
}
