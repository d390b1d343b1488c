//! A time zone as the engine needs it: which instants show a given wall-clock time.
//!
//! A *wall* is what a clock on the wall shows, counted as if it were UTC: seconds from
//! 1970-01-01 00:00 on that clock. An *instant* is seconds from 1970-01-01 00:00 UTC.
//!
//! The tables of chrono-tz end in 2099; after that a zone stays at its last offset.

use super::TriggerError;
use super::civil::DAY;
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zone(Tz);

/// The instants at which a wall-clock time is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Once(i64),
    /// The clocks went back: the first pass and the second.
    Twice {
        first: i64,
        second: i64,
    },
    /// The clocks went forward over it.
    Never,
}

/// A change of the clocks: at the instant `at` they go from `wall_before` to `wall_after`.
///
/// Going forward skips the walls from `wall_before` up to `wall_after` (a gap); going back repeats
/// those from `wall_after` up to `wall_before` (a fold).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) at: i64,
    pub(super) wall_before: i64,
    pub(super) wall_after: i64,
}

impl Zone {
    pub(super) fn parse(name: &str) -> Result<Zone, TriggerError> {
        let unknown = |_| TriggerError::UnknownZone { name: name.to_owned() };
        name.parse().map(Zone).map_err(unknown)
    }

    pub(super) fn name(self) -> &'static str {
        self.0.name()
    }

    /// The time that the clock on the wall shows at an instant.
    pub(super) fn wall_at(self, instant: i64) -> i64 {
        instant + self.offset(instant)
    }

    /// When a wall-clock time is shown.
    pub(super) fn read(self, wall: i64) -> Reading {
        let seconds = |offset: chrono_tz::TzOffset| i64::from(offset.fix().local_minus_utc());
        match self.0.offset_from_local_datetime(&naive(wall)) {
            MappedLocalTime::Single(offset) => Reading::Once(wall - seconds(offset)),
            MappedLocalTime::Ambiguous(before, after) => {
                Reading::Twice { first: wall - seconds(before), second: wall - seconds(after) }
            }
            MappedLocalTime::None => Reading::Never,
        }
    }

    /// The change of the clocks that makes `wall` be read twice or never.
    ///
    /// It lies within a day of `wall` read as an instant, since no offset exceeds 14 hours, and it
    /// is the only one there: since 1970 no zone has changed its clocks twice within four days
    /// (a test holds both), so halving that span finds it.
    pub(super) fn change_near(self, wall: i64) -> Change {
        let (mut before, mut after) = (wall - DAY, wall + DAY);
        let (old, new) = (self.offset(before), self.offset(after));
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            if self.offset(middle) == old {
                before = middle;
            } else {
                after = middle;
            }
        }
        Change { at: after, wall_before: after + old, wall_after: after + new }
    }

    fn offset(self, instant: i64) -> i64 {
        i64::from(self.0.offset_from_utc_datetime(&naive(instant)).fix().local_minus_utc())
    }
}

fn naive(seconds: i64) -> NaiveDateTime {
    // The engine stays within the years 1969 to 2201; chrono can name 262,000 years either way.
    DateTime::from_timestamp(seconds, 0).unwrap_or_default().naive_utc()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(text: &str) -> i64 {
        text.parse::<DateTime<chrono::Utc>>().unwrap().timestamp()
    }

    fn zone(name: &str) -> Zone {
        Zone::parse(name).unwrap()
    }

    #[test]
    fn an_unknown_zone_is_an_error_never_gmt() {
        for name in ["Europe/Berlim", "", "GMT+25", "Mars/Olympus", "europe/berlin ", "CET-1CEST"] {
            let error = Zone::parse(name).unwrap_err();
            assert_eq!(error, TriggerError::UnknownZone { name: name.to_owned() });
            assert!(error.to_string().contains(&format!("`{name}`")));
        }
    }

    #[test]
    fn a_gap_and_a_fold_are_read_with_their_change() {
        let berlin = zone("Europe/Berlin");
        let gap = instant("2024-03-31T02:30:00Z");
        assert_eq!(berlin.read(gap), Reading::Never);
        let at = instant("2024-03-31T01:00:00Z");
        let change = Change { at, wall_before: at + 3_600, wall_after: at + 7_200 };
        assert_eq!(berlin.change_near(gap), change);

        let fold = instant("2024-10-27T02:30:00Z");
        let (first, second) = (fold - 7_200, fold - 3_600);
        assert_eq!(berlin.read(fold), Reading::Twice { first, second });
        let at = instant("2024-10-27T01:00:00Z");
        let change = Change { at, wall_before: at + 7_200, wall_after: at + 3_600 };
        assert_eq!(berlin.change_near(fold), change);
    }

    #[test]
    fn a_whole_skipped_day_is_one_gap() {
        let apia = zone("Pacific/Apia");
        let noon = instant("2011-12-30T12:00:00Z");
        assert_eq!(apia.read(noon), Reading::Never);
        assert_eq!(apia.change_near(noon).at, instant("2011-12-30T10:00:00Z"));
        assert_eq!(apia.change_near(noon).wall_after, instant("2011-12-31T00:00:00Z"));
    }

    #[test]
    fn an_offset_with_seconds_is_kept_whole() {
        // Liberia kept -0:44:30 until 7 January 1972.
        let monrovia = zone("Africa/Monrovia");
        assert_eq!(monrovia.wall_at(0), -2_670);
        assert_eq!(monrovia.read(instant("1972-01-07T00:10:00Z")), Reading::Never);
    }

    /// `change_near` rests on these two facts about all zones, so a new table that breaks them
    /// must fail here and not at someone's fire time.
    #[test]
    fn offsets_stay_within_14_hours_and_changes_four_days_apart() {
        const STEP: i64 = 2 * DAY;
        for tz in chrono_tz::TZ_VARIANTS {
            let zone = Zone(tz);
            let mut last_change = -3 * STEP;
            let mut offset = zone.offset(0);
            // Beyond 2037 the tables only repeat yearly rules.
            for at in (0..instant("2038-01-01T00:00:00Z")).step_by(STEP as usize) {
                let now = zone.offset(at);
                assert!(now.abs() <= 14 * 3_600, "{}", tz.name());
                if now != offset {
                    assert!(last_change + 3 * STEP <= at, "{} near {at}", tz.name());
                    (last_change, offset) = (at, now);
                }
            }
        }
    }
}
