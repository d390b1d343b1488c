//! The parsed expression as bit sets, and the search for the next wall-clock time that matches.

use super::super::civil::{DAY, Month};
use super::days::Days;

/// The years an expression can name. Time zone tables are computed up to 2099; a century more
/// costs twelve bytes, and some end is needed to tell what never fires.
pub(super) const FIRST_YEAR: i32 = 1970;
pub(super) const LAST_YEAR: i32 = 2199;

/// 2201-01-01 00:00 UTC, seconds: no clock on earth shows a year up to 2199 by then.
pub(super) const END: i64 = 7_289_654_400;

const MINUTE: u32 = 60;
const HOUR: u32 = 3_600;

/// The values that an expression matches. Bit `n` of a set stands for the value `n`; no set is empty.
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

    pub(super) fn contains(&self, year: i32) -> bool {
        let bit = (year - FIRST_YEAR) as usize;
        self.0[bit / 64] & (1 << (bit % 64)) != 0
    }

    fn first_from(&self, year: i32) -> Option<i32> {
        (year.max(FIRST_YEAR)..=LAST_YEAR).find(|year| self.contains(*year))
    }
}

/// The smallest member of `set` that is at least `from` (at most 63).
fn first_from(set: u64, from: u32) -> Option<u32> {
    let rest = set >> from;
    (rest != 0).then(|| from + rest.trailing_zeros())
}

fn contains(set: u64, value: u32) -> bool {
    set & (1 << value) != 0
}

impl CronSpec {
    /// The first matching wall at or after `from` (seconds; see the module `zone`).
    pub(super) fn next_wall(&self, from: i64) -> Option<i64> {
        let today = from.div_euclid(DAY);
        let day = self.day_from(today)?;
        if day > today {
            return Some(day * DAY + i64::from(self.first_of_day()));
        }
        if let Some(time) = self.time_from(from.rem_euclid(DAY) as u32) {
            return Some(today * DAY + i64::from(time));
        }
        Some(self.day_from(today + 1)? * DAY + i64::from(self.first_of_day()))
    }

    /// The first matching time of a day at or after `from`, in seconds of the day.
    fn time_from(&self, from: u32) -> Option<u32> {
        let hour = from / HOUR;
        if contains(self.hours, hour)
            && let Some(rest) = self.rest_of_hour_from(from % HOUR)
        {
            return Some(hour * HOUR + rest);
        }
        Some(first_from(self.hours, hour + 1)? * HOUR + self.first_of_hour())
    }

    /// The first matching minute and second at or after `from`, in seconds of the hour.
    fn rest_of_hour_from(&self, from: u32) -> Option<u32> {
        let (minute, second) = (from / MINUTE, from % MINUTE);
        if contains(self.minutes, minute)
            && let Some(second) = first_from(self.seconds, second)
        {
            return Some(minute * MINUTE + second);
        }
        Some(first_from(self.minutes, minute + 1)? * MINUTE + self.seconds.trailing_zeros())
    }

    fn first_of_hour(&self) -> u32 {
        self.minutes.trailing_zeros() * MINUTE + self.seconds.trailing_zeros()
    }

    fn first_of_day(&self) -> u32 {
        self.hours.trailing_zeros() * HOUR + self.first_of_hour()
    }

    /// The first matching day at or after `from`, both days since 1970-01-01.
    fn day_from(&self, from: i64) -> Option<i64> {
        let (this_month, today) = Month::of_day(from);
        let mut month = self.month_from(this_month)?;
        let mut from_day = if month == this_month { today } else { 1 };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_schedules_fit_in_a_poll() {
        assert!(size_of::<CronSpec>() <= 100, "{} bytes", size_of::<CronSpec>());
        assert!(size_of::<crate::trigger::Cron>() <= 200);
    }

    #[test]
    fn the_end_is_beyond_the_last_year_on_any_clock() {
        let after_the_last_year = Month { year: LAST_YEAR + 2, number: 1 };
        assert_eq!(END, after_the_last_year.first_day() * DAY);
    }
}
