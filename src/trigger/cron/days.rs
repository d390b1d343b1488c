//! The days of a month that match: by the two day fields, of which one at most is restricted.

use super::super::civil::Month;

const SUNDAY: u32 = 0;
const SATURDAY: u32 = 6;

/// Both day fields. Bit `n` of a set of days stands for day `n` of the month.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Days {
    Every,
    OfMonth(MonthDays),
    OfWeek(WeekDays),
}

/// A day-of-month field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MonthDays {
    /// `15`: days of the month.
    pub(super) days: u32,
    /// `L-3`: days before the last day; bit 0 is the last day itself.
    pub(super) before_last: u32,
    /// `15W`: days whose nearest weekday matches.
    pub(super) nearest: u32,
    /// `L-3W`: days before the last day whose nearest weekday matches.
    pub(super) nearest_before_last: u32,
}

/// A day-of-week field. Bit 0 of a set of weekdays stands for Sunday.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WeekDays {
    /// `FRI#3`: per week of the month (days 1 to 7, 8 to 14, ...) the weekdays that match.
    pub(super) by_week: [u8; 5],
    /// `FRIL`: weekdays whose last occurrence in the month matches.
    pub(super) last: u8,
}

impl Days {
    /// The days of `month` that match, as a set.
    pub(super) fn in_month(&self, month: Month) -> u64 {
        let matching = match self {
            Days::Every => u64::MAX,
            Days::OfMonth(days) => days.in_month(month),
            Days::OfWeek(days) => days.in_month(month),
        };
        matching & days_up_to(month.len())
    }
}

impl MonthDays {
    fn in_month(&self, month: Month) -> u64 {
        let length = month.len();
        let mut matching = u64::from(self.days);
        for before in members(self.before_last).filter(|before| *before < length) {
            matching |= 1 << (length - before);
        }
        for day in members(self.nearest).filter(|day| *day <= length) {
            matching |= 1 << nearest_weekday(day, month);
        }
        for before in members(self.nearest_before_last).filter(|before| *before < length) {
            matching |= 1 << nearest_weekday(length - before, month);
        }
        matching
    }
}

impl WeekDays {
    fn in_month(&self, month: Month) -> u64 {
        let first = month.first_weekday();
        let mut matching = 0;
        for (week, weekdays) in (0..).zip(self.by_week) {
            matching |= week_of_month(weekdays, first, week);
        }
        if self.last != 0 {
            let all = (0..5).fold(0, |days, week| days | week_of_month(self.last, first, week));
            matching |= all & !days_up_to(month.len() - 7);
        }
        matching
    }
}

/// The days of one week of a month (0 = days 1 to 7) that fall on `weekdays`, in a month whose
/// first day is the weekday `first`.
fn week_of_month(weekdays: u8, first: u32, week: u32) -> u64 {
    let weekdays = u64::from(weekdays);
    let from_first = (weekdays >> first | weekdays << (7 - first)) & 0x7f;
    from_first << (7 * week + 1)
}

/// The Monday to Friday nearest to `day` without leaving the month.
fn nearest_weekday(day: u32, month: Month) -> u32 {
    match (month.first_weekday() + day - 1) % 7 {
        SATURDAY if day == 1 => 3,
        SATURDAY => day - 1,
        SUNDAY if day == month.len() => day - 2,
        SUNDAY => day + 1,
        _ => day,
    }
}

/// Days 1 to `last`, as a set.
fn days_up_to(last: u32) -> u64 {
    (2 << last) - 2
}

fn members(set: u32) -> impl Iterator<Item = u32> {
    let without_lowest = |set: &u32| Some(set & set.wrapping_sub(1));
    let sets = std::iter::successors(Some(set), without_lowest);
    sets.take_while(|set| *set != 0).map(u32::trailing_zeros)
}
