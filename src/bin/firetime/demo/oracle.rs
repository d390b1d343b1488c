//! What must fire, counted by hand: seconds are walked and looked at, with nothing of the cron engine, of
//! time zone tables or of the database behind it.

use std::ops::RangeInclusive;

/// Nepal's clocks have been 5 h 45 min ahead of UTC since 1986 and know no summer time.
const NEPAL: i64 = (5 * 60 + 45) * 60;

/// A second of Nepal's wall clock, looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NepalTime {
    pub(super) weekday: &'static str,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
}

/// What Nepal's clocks show at `second`, epoch seconds.
pub(super) fn in_nepal(second: i64) -> NepalTime {
    // 1970-01-01 was a Thursday.
    const WEEKDAYS: [&str; 7] = ["THU", "FRI", "SAT", "SUN", "MON", "TUE", "WED"];
    let wall = second + NEPAL;
    let weekday = usize::try_from(wall.div_euclid(86_400).rem_euclid(7)).unwrap_or(0);
    NepalTime {
        weekday: WEEKDAYS[weekday],
        hour: wall.div_euclid(3_600).rem_euclid(24),
        minute: wall.div_euclid(60).rem_euclid(60),
        second: wall.rem_euclid(60),
    }
}

/// The seconds of the window (epoch seconds) at which `fires` says so, in milliseconds.
pub(super) fn seconds(window: RangeInclusive<i64>, fires: impl Fn(i64) -> bool) -> Vec<i64> {
    window.filter(|second| fires(*second)).map(|second| second * 1_000).collect()
}

/// `count` instants from `first` on, one each `interval`: all milliseconds.
pub(super) fn steps(first: i64, interval: i64, count: i64) -> Vec<i64> {
    (0..count).map(|step| first + step * interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nepal_is_five_hours_and_three_quarters_ahead() {
        let second = "2025-01-03T18:30:07Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp();
        assert_eq!(in_nepal(second), NepalTime { weekday: "SAT", hour: 0, minute: 15, second: 7 });
    }

    #[test]
    fn windows_include_both_ends() {
        assert_eq!(seconds(10..=12, |_| true), [10_000, 11_000, 12_000]);
        assert_eq!(steps(500, 2_500, 3), [500, 3_000, 5_500]);
    }
}
