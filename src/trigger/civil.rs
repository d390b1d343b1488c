//! Calendar arithmetic in whole numbers: days since 1970-01-01, months, weekdays.
//!
//! Our own rather than chrono's because every step is total: a month of a year always has a length
//! and a first day, with no `Option` to carry through the engine.

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// A month of a year of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Month {
    pub(super) year: i32,
    /// 1 to 12.
    pub(super) number: u32,
}

impl Month {
    /// The month and day of month (from 1) of a day counted from 1970-01-01.
    ///
    /// The calendar repeats every 400 years ("era" of 146,097 days). Counting a year from March
    /// puts the leap day last, so that months follow a fixed pattern of 153 days in five months.
    pub(super) fn of_day(day: i64) -> (Month, u32) {
        let from_march_0000 = day + 719_468;
        let era = from_march_0000.div_euclid(146_097);
        let of_era = from_march_0000.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day_of_month = of_year - (153 * from_march + 2) / 5 + 1;
        let number = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(number <= 2);
        (Month { year: year as i32, number: number as u32 }, day_of_month as u32)
    }

    /// Days from 1970-01-01 to the month's first day.
    pub(super) fn first_day(self) -> i64 {
        let (year, number) = (i64::from(self.year), i64::from(self.number));
        let year = year - i64::from(number <= 2);
        let from_march = (number + 9) % 12;
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let of_year = (153 * from_march + 2) / 5;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        era * 146_097 + of_era - 719_468
    }

    /// The weekday of the month's first day: 0 = Sunday to 6 = Saturday.
    pub(super) fn first_weekday(self) -> u32 {
        // 1970-01-01 was a Thursday.
        (self.first_day() + 4).rem_euclid(7) as u32
    }

    /// The number of days in the month.
    pub(super) fn len(self) -> u32 {
        match self.number {
            2 if self.is_leap_year() => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// The month after this one.
    pub(super) fn next(self) -> Month {
        match self.number {
            12 => Month { year: self.year + 1, number: 1 },
            number => Month { year: self.year, number: number + 1 },
        }
    }

    fn is_leap_year(self) -> bool {
        self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, NaiveDate};

    #[test]
    fn every_day_of_four_centuries_agrees_with_chrono() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        let mut date = NaiveDate::from_ymd_opt(1900, 1, 1).unwrap();
        while date.year() < 2301 {
            let number = (date - epoch).num_days();
            let (month, day) = Month::of_day(number);
            assert_eq!((month.year, month.number, day), (date.year(), date.month(), date.day()));
            if day == 1 {
                assert_eq!(month.first_day(), number);
                assert_eq!(month.first_weekday(), date.weekday().num_days_from_sunday());
                let next = month.next();
                assert_eq!(next.first_day() - number, i64::from(month.len()));
            }
            date = date.succ_opt().unwrap();
        }
    }
}
