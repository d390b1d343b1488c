//! Occurrences that are withdrawn: they were planned and due, and nobody had claimed them when their schedule
//! got another trigger or was removed.

use super::change::RemoveChange;
use super::columns::{NO_TIME, When};
use super::when;
use crate::domain::{Cursor, Missed, NextFire, Reason, ScheduleId, ScheduleState, Timestamp};
use crate::trigger::Timing;

/// What was planned of a schedule before it got another trigger, or was removed: columns of its row.
#[derive(Clone, Debug)]
pub(crate) struct OldPlan<'a> {
    pub id: ScheduleId,
    pub state: &'a str,
    pub generation: i64,
    pub prev: Option<Timestamp>,
    pub next: Option<Timestamp>,
    pub when: &'a When,
}

/// The span of occurrences that a change of a schedule withdraws: one row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Withdrawal {
    pub id: ScheduleId,
    pub generation: i64,
    pub from: Timestamp,
    pub to: Timestamp,
    /// Of more than 100,000 occurrences of a cron trigger: so many. The span is right all the same.
    pub count: u64,
    pub prev: Option<Timestamp>,
    pub following: NextFire,
    pub reason: Reason,
    pub now: Timestamp,
}

impl OldPlan<'_> {
    /// What the change withdraws that is made `now`: all that was due by then. None if nothing was, or the
    /// schedule planned nothing: in ERROR, not released, complete, or one that cannot be understood.
    pub(crate) fn withdrawn(&self, reason: Reason, now: Timestamp) -> Option<Withdrawal> {
        if !may_be_due(self.state, self.next, now) {
            return None;
        }
        let state = ScheduleState::read(self.state).ok()?;
        let millis = |time: Option<Timestamp>| time.map(Timestamp::millis);
        let Cursor { prev, next } = when::cursor(state, millis(self.prev), millis(self.next)).ok()?;
        let timing = self.when.timing().ok()?;
        let missed = Missed::of(next, &timing, now)?;
        let (to, following) = end(&missed, &timing, now);
        let (id, generation, from, count) = (self.id, self.generation, missed.first, missed.count);
        Some(Withdrawal { id, generation, from, to, count, prev, following, reason, now })
    }
}

fn may_be_due(state: &str, next: Option<Timestamp>, now: Timestamp) -> bool {
    let plans = [ScheduleState::Active, ScheduleState::Paused].iter().any(|it| it.stored() == state);
    plans && next.is_some_and(|next| next != NO_TIME && next <= now)
}

impl RemoveChange {
    /// Whether something of the schedule may be due. Nothing is if nothing was as it was seen: since then its
    /// cursor has gone forward, if anywhere.
    pub(crate) fn may_withdraw(&self) -> bool {
        may_be_due(&self.seen.state, self.seen.next, self.now)
    }
}

/// The last occurrence up to `now`, and the one behind it: also where the count was cut off.
fn end(missed: &Missed, timing: &Timing, now: Timestamp) -> (Timestamp, NextFire) {
    let last = timing.last_through(missed.last, now);
    (last, NextFire::planned(timing.next_after(last)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{MOST_PASSED, Millis};
    use crate::fixtures::{cron, simple};
    use crate::trigger::{AWAITED, Delay, Trigger};

    /// A whole day in UTC.
    const DAY: Timestamp = Timestamp::at(1_000_080_000_000);
    const SECOND: Millis = 1_000;

    fn every_second() -> Timing {
        cron(1, "* * * * * ?", DAY).timing
    }

    fn old(timing: &Timing, state: &str, next: Option<Timestamp>, now: Timestamp) -> Option<Withdrawal> {
        let when = When::of(timing);
        let prev = next.map(|next| next.saturating_sub(SECOND)).filter(|prev| prev.millis() > 0);
        let old = OldPlan { id: ScheduleId(7), state, generation: 3, prev, next, when: &when };
        old.withdrawn(Reason::Edited, now)
    }

    #[test]
    fn all_that_is_due_is_one_span() {
        let expected = |now: Millis| Withdrawal {
            id: ScheduleId(7),
            generation: 3,
            from: DAY,
            to: DAY + now / SECOND * SECOND,
            count: u64::try_from(now / SECOND + 1).unwrap(),
            prev: Some(DAY - SECOND),
            following: NextFire::At(DAY + (now / SECOND + 1) * SECOND),
            reason: Reason::Edited,
            now: DAY + now,
        };
        for now in [0, 1, 999, 1_000, 86_399_999] {
            for state in ["EXECUTING", "PAUSED"] {
                assert_eq!(old(&every_second(), state, Some(DAY), DAY + now), Some(expected(now)), "{now}");
            }
        }
    }

    #[test]
    fn nothing_is_withdrawn_of_what_plans_nothing_or_is_not_understood() {
        let at = |state, next| old(&every_second(), state, next, DAY);
        assert_eq!(at("EXECUTING", Some(DAY + 1)), None, "it lies ahead");
        assert_eq!(at("EXECUTING", Some(Timestamp::at(AWAITED))), None, "it is not known yet");
        for state in ["INIT", "COMPLETE", "REMOVED", "ERROR", "RUNING", ""] {
            assert_eq!(at(state, Some(DAY)), None, "{state}");
        }
        for next in [None, Some(NO_TIME), Some(Timestamp::MIN), Some(Timestamp::at(1_700_000_000))] {
            assert_eq!(at("EXECUTING", next), None, "{next:?}");
        }
        let when = When { cron: None, ..When::of(&every_second()) };
        let (prev, next) = (Some(DAY - SECOND), Some(DAY));
        let broken =
            OldPlan { id: ScheduleId(7), state: "EXECUTING", generation: 0, prev, next, when: &when };
        assert_eq!(broken.withdrawn(Reason::Removed, DAY), None);
        let twice = OldPlan { prev: next, ..broken };
        assert_eq!(twice.withdrawn(Reason::Removed, DAY), None, "its cursor is none");
    }

    #[test]
    fn a_schedule_ends_with_its_last_occurrence() {
        let thrice = simple(1, DAY, SECOND, 2, None).timing;
        let all = old(&thrice, "EXECUTING", Some(DAY), DAY + 3_600_000).unwrap();
        assert_eq!((all.count, all.to, all.following), (3, DAY + 2 * SECOND, NextFire::Never));
        let once = simple(1, DAY, 0, 0, None).timing;
        let one = old(&once, "EXECUTING", Some(DAY), DAY).unwrap();
        assert_eq!((one.count, one.from, one.to, one.following), (1, DAY, DAY, NextFire::Never));
        let delay = Trigger::Delay(Delay::new(Some(DAY.millis()), 5 * SECOND).unwrap());
        let delay = Timing::new(delay, None, None).unwrap();
        let late = old(&delay, "PAUSED", Some(DAY), DAY + 12 * SECOND).unwrap();
        assert_eq!((late.count, late.to), (3, DAY + 10 * SECOND), "as skips of it count");
    }

    /// Paused for a year.
    #[test]
    fn years_of_occurrences_are_one_span_at_once() {
        let now = DAY + 365 * 86_400_000;
        let reckoned = old(&simple(1, DAY, SECOND, -1, None).timing, "PAUSED", Some(DAY), now).unwrap();
        assert_eq!((reckoned.count, reckoned.to), (365 * 86_400 + 1, now), "each is counted");
        let walked = old(&every_second(), "PAUSED", Some(DAY), now).unwrap();
        assert_eq!((walked.count, walked.to), (MOST_PASSED, now), "so many are");
        assert_eq!(walked.following, NextFire::At(now + SECOND));
        // The last of them lies far before now, and an instant is no fire time.
        let one_hour = cron(1, "* * 3 1 * ?", DAY).timing;
        let first = one_hour.next_after(DAY).unwrap();
        let burst = old(&one_hour, "PAUSED", Some(first), first + 30 * 12 * 86_400_000 * 9).unwrap();
        let next = burst.following.at().unwrap();
        assert!(burst.to < burst.now && burst.now < next, "{burst:?}");
        assert_eq!(one_hour.next_after(burst.to), Some(next));
        assert_eq!(one_hour.next_after(burst.to - 1), Some(burst.to));
    }
}
