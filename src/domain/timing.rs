//! Fire times of a [`Timing`] as instants of database time.

#[cfg(any(feature = "sql", test))]
use super::Millis;
use super::Timestamp;
use crate::trigger::{AWAITED, Timing, Trigger};

impl Timestamp {
    /// The next fire time of a schedule whose occurrence is run, if that one counts from the run's end.
    pub(crate) const AWAITED: Self = Self::at(AWAITED);
}

/// A next fire time as people see it.
pub(crate) fn known(next: Option<Timestamp>) -> Option<Timestamp> {
    next.filter(|next| *next != Timestamp::AWAITED)
}

/// The next fire time of a schedule with this delay and this window, whose run of the occurrence `at` ended
/// at `ended`. A clock that was set back does not lead it back.
#[cfg(any(feature = "sql", test))]
pub(crate) fn after_run(
    delay: Millis,
    (start, end): (Option<Timestamp>, Option<Timestamp>),
    at: Timestamp,
    ended: Timestamp,
) -> Option<Timestamp> {
    let next = ended.saturating_add(delay.max(1)).max(at.saturating_add(1));
    let next = start.map_or(next, |start| next.max(start));
    Some(next).filter(|next| *next < Timestamp::AWAITED && end.is_none_or(|end| *next <= end))
}

impl Timing {
    /// The window's start.
    pub(crate) fn start(&self) -> Option<Timestamp> {
        self.start_ms().map(Timestamp::at)
    }

    /// The window's end.
    pub(crate) fn end(&self) -> Option<Timestamp> {
        self.end_ms().map(Timestamp::at)
    }

    /// The occurrence that follows `prev`, as [`Timing::after`] says.
    pub(crate) fn next_after(&self, prev: Timestamp) -> Option<Timestamp> {
        self.after(prev.millis()).map(Timestamp::at)
    }

    /// Where the cursor goes as the occurrence at `at` is to run: to the one that follows, or to
    /// [`Timestamp::AWAITED`] until the run has ended.
    pub(crate) fn behind_run(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.next_after(at);
        if matches!(self.trigger(), Trigger::Delay(_)) { next.map(|_| Timestamp::AWAITED) } else { next }
    }

    /// From the occurrence `at` of a fixed interval to the last but one up to `until`, without a walk: how
    /// many occurrences that passes, and where it leads.
    pub(crate) fn leap(&self, at: Timestamp, until: Timestamp) -> Option<(u64, Timestamp)> {
        let (passed, to) = self.leap_ms(at.millis(), until.millis())?;
        Some((passed, Timestamp::at(to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runs_end_says_when_the_next_is() {
        let next = |delay, (start, end): (Option<Millis>, Option<Millis>), at| {
            let window = (start.map(Timestamp::at), end.map(Timestamp::at));
            after_run(delay, window, Timestamp::at(at), Timestamp::at(5_000)).map(Timestamp::millis)
        };
        assert_eq!(next(300, (None, None), 1_000), Some(5_300));
        assert_eq!(next(300, (None, Some(5_300)), 1_000), Some(5_300));
        assert_eq!(next(300, (None, Some(5_299)), 1_000), None);
        assert_eq!(next(300, (None, None), 9_000), Some(9_001), "the clock was set back");
        assert_eq!(next(300, (Some(8_000), None), 1_000), Some(8_000), "an edit put it off");
        assert_eq!(next(i64::MAX, (None, None), 1_000), None);
        assert_eq!(next(AWAITED - 5_000, (None, None), 1_000), None);
    }
}
