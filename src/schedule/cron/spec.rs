//! The parsed expression as bit sets, and the search for the next wall-clock time that matches.

use super::super::civil::{DAY, Month};
use super::days::Days;

/// The years an expression can name. Time zone tables are computed up to 2099; a century more
/// costs twelve bytes, and some end is needed to tell what never fires.
pub(super) const FIRST_YEAR: i32 = 1970;
pub(super) const LAST_YEAR: i32 = 2199;

/// 2201-01-01 00:00 UTC: no clock on earth shows a year up to 2199 by then.
pub(super) const END: i64 = 7_289_654_400;

/// What an expression matches. Bit `n` of a set stands for the value `n`; no set is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CronSpec {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) days: Days,
    pub(super) months: u64,
    pub(super) years: Years,
    /// The hour field begins with `*`.
    pub(super) follows_real_time: bool,
}

/// A set of years; bit 0 stands for [`FIRST_YEAR`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Years([u64; 4]);

impl Years {
    pub(super) fn insert(&mut self, year: i32) {
        let bit = (year - FIRST_YEAR) as usize;
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn contains(&self, year: i32) -> bool {
        let bit = (year - FIRST_YEAR) as usize;
        self.0[bit / 64] & (1 << (bit % 64)) != 0
    }

    fn first_from(&self, year: i32) -> Option<i32> {
        (year.max(FIRST_YEAR)..=LAST_YEAR).find(|year| self.contains(*year))
    }
}

/// The smallest member of `set` that is at least `from` (at most 63).
pub(super) fn first_from(set: u64, from: u32) -> Option<u32> {
    let rest = set >> from;
    (rest != 0).then(|| from + rest.trailing_zeros())
}

impl CronSpec {
    /// The first matching wall at or after `from` (seconds; see the module `zone`).
    pub(super) fn next_wall(&self, from: i64) -> Option<i64> {
        let today = from.div_euclid(DAY);
        let day = self.day_from(today)?;
        if day > today {
            return Some(day * DAY + self.first_time());
        }
        if let Some(time) = self.time_from(from.rem_euclid(DAY) as u32) {
            return Some(day * DAY + time);
        }
        let day = self.day_from(today + 1)?;
        Some(day * DAY + self.first_time())
    }

    /// The first matching second of a day, at or after `from`.
    fn time_from(&self, from: u32) -> Option<i64> {
        let (hour, minute, second) = (from / 3_600, from / 60 % 60, from % 60);
        let first_minute = self.minutes.trailing_zeros();
        let first_second = self.seconds.trailing_zeros();
        let found_hour = first_from(self.hours, hour)?;
        if found_hour > hour {
            return Some(time(found_hour, first_minute, first_second));
        }
        if let Some(found_minute) = first_from(self.minutes, minute) {
            if found_minute > minute {
                return Some(time(hour, found_minute, first_second));
            }
            if let Some(found_second) = first_from(self.seconds, second) {
                return Some(time(hour, minute, found_second));
            }
            if let Some(found_minute) = first_from(self.minutes, minute + 1) {
                return Some(time(hour, found_minute, first_second));
            }
        }
        Some(time(first_from(self.hours, hour + 1)?, first_minute, first_second))
    }

    fn first_time(&self) -> i64 {
        let first = |set: u64| set.trailing_zeros();
        time(first(self.hours), first(self.minutes), first(self.seconds))
    }

    /// The first matching day at or after `from`, both days since 1970-01-01.
    fn day_from(&self, from: i64) -> Option<i64> {
        let (today, mut from_day) = Month::of_day(from);
        let mut month = self.month_from(today)?;
        if month != today {
            from_day = 1;
        }
        loop {
            if let Some(day) = first_from(self.days.in_month(month), from_day) {
                return Some(month.first_day() + i64::from(day) - 1);
            }
            month = self.month_from(month.next())?;
            from_day = 1;
        }
    }

    /// The first matching month at or after `from`.
    fn month_from(&self, from: Month) -> Option<Month> {
        let year = self.years.first_from(from.year)?;
        let from_number = if year == from.year { from.number } else { 1 };
        if let Some(number) = first_from(self.months, from_number) {
            return Some(Month { year, number });
        }
        let year = self.years.first_from(year + 1)?;
        Some(Month { year, number: self.months.trailing_zeros() })
    }
}

fn time(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3_600 + minute * 60 + second)
}
