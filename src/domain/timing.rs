//! Fire times of a [`Timing`] as instants of database time, and the one that a schedule waits for.

use super::{Millis, Timestamp};
use crate::trigger::{AWAITED, Timing, Trigger};

/// When a schedule fires next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NextFire {
    At(Timestamp),
    /// The delay counts from the end of the run under way, which is not known yet.
    AfterRun,
    Never,
}

impl NextFire {
    /// A fire time that a trigger has told, or none.
    pub(crate) fn planned(next: Option<Timestamp>) -> Self {
        next.map_or(Self::Never, Self::At)
    }

    /// As a column says it: NULL for never, and [`AWAITED`] for a time that is not known yet.
    pub(crate) fn stored(column: Option<Timestamp>) -> Self {
        if column == Self::AfterRun.column() { Self::AfterRun } else { Self::planned(column) }
    }

    pub(crate) fn column(self) -> Option<Timestamp> {
        match self {
            Self::At(next) => Some(next),
            Self::AfterRun => Some(Timestamp::at(AWAITED)),
            Self::Never => None,
        }
    }

    /// The fire time, if it is known.
    pub(crate) fn at(self) -> Option<Timestamp> {
        if let Self::At(next) = self { Some(next) } else { None }
    }
}

/// The next fire time of a schedule with this delay and this window, whose run of the occurrence `at` ended
/// at `ended`. A clock that was set back does not lead it back.
#[cfg(any(feature = "sql", feature = "testing", test))]
pub(crate) fn after_run(
    delay: Millis,
    (start, end): (Option<Timestamp>, Option<Timestamp>),
    at: Timestamp,
    ended: Timestamp,
) -> Option<Timestamp> {
    let next = ended.saturating_add(delay.max(1)).max(at.saturating_add(1));
    let next = start.map_or(next, |start| next.max(start));
    Some(next).filter(|next| next.millis() < AWAITED && end.is_none_or(|end| *next <= end))
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

    /// The last fire time up to `until`, from one of them on that is not after it. It is searched for between
    /// two instants, of which the first has a fire time behind it.
    pub(crate) fn last_through(&self, from: Timestamp, until: Timestamp) -> Timestamp {
        let up_to = |after: Timestamp| self.next_after(after).filter(|next| *next <= until);
        let (mut last, mut none) = (from, until);
        while let Some(next) = up_to(last) {
            last = next;
            let middle = last + (none - last) / 2;
            match up_to(middle) {
                Some(next) => last = next,
                None => none = middle,
            }
        }
        last
    }

    /// The last fire time before `at`, if there is one within 270 years.
    pub(crate) fn last_before(&self, at: Timestamp) -> Option<Timestamp> {
        const NEAREST: Millis = 1_000;
        /// Ever further back, by eight times: up to 272 years.
        const REACHES: u32 = 12;
        let first = |reach: u32| self.next_after(at.saturating_sub(NEAREST * 8_i64.pow(reach) + 1));
        let first = (0..REACHES).find_map(|reach| first(reach).filter(|first| *first < at))?;
        Some(self.last_through(first, at.saturating_sub(1)))
    }

    /// Where the cursor goes as the occurrence at `at` is to run.
    pub(crate) fn behind_run(&self, at: Timestamp) -> NextFire {
        match self.next_after(at) {
            Some(_) if matches!(self.trigger(), Trigger::Delay(_)) => NextFire::AfterRun,
            next => NextFire::planned(next),
        }
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

    #[test]
    fn the_fire_time_before_an_instant_is_found() {
        let at = |text: &str| Timestamp::from(text.parse::<chrono::DateTime<chrono::Utc>>().unwrap());
        let cron = |expression| Timing::new(Trigger::cron(expression, "UTC").unwrap(), None, None).unwrap();
        let nightly = cron("0 30 2 * * ?");
        let night = at("2026-01-02T02:30:00Z");
        assert_eq!(nightly.last_before(night), Some(at("2026-01-01T02:30:00Z")), "strictly before");
        assert_eq!(nightly.last_before(night.saturating_add(1)), Some(night));
        let leap_day = cron("0 0 0 29 2 ?");
        assert_eq!(leap_day.last_before(at("2027-12-31T00:00:00Z")), Some(at("2024-02-29T00:00:00Z")));
        let bursts = cron("* * 3 1 * ?");
        assert_eq!(bursts.last_before(at("2026-01-20T00:00:00Z")), Some(at("2026-01-01T03:59:59Z")));
        let begins = Timing::new(Trigger::cron("* * * * * ?", "UTC").unwrap(), Some(night.millis()), None);
        assert_eq!(begins.unwrap().last_before(night), None);
        let year = |year: i64| Timestamp::at(year * 31_557_600_000);
        let once = Timing::new(Trigger::once(year(1).utc().unwrap()).unwrap(), None, None).unwrap();
        assert_eq!((once.last_before(year(2)), once.last_before(year(1))), (Some(year(1)), None));
    }
}
