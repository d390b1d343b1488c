//! Changes of the clocks, against a walk in small steps through the days (or seconds) around them.
//!
//! The oracle shares nothing with the engine: what an expression means is written down by hand as
//! a predicate, and the clocks are watched as a person would. It keeps the latest time the wall
//! clock has shown; a time that is not later is a repetition, and a jump ahead is a gap.

use super::occurrences;
use crate::trigger::{Cron, Fold, Gap};
use chrono::{DateTime, Datelike, NaiveDateTime, Offset, TimeDelta, TimeZone, Timelike, Weekday};
use chrono_tz::Tz;

/// An expression and what it means.
struct Plan {
    expression: &'static str,
    matches: fn(&NaiveDateTime) -> bool,
    /// It fires in every real hour, whatever the wall clock did before.
    real_time: bool,
}

const fn by_wall(expression: &'static str, matches: fn(&NaiveDateTime) -> bool) -> Plan {
    Plan { expression, matches, real_time: false }
}

const fn by_real_time(expression: &'static str, matches: fn(&NaiveDateTime) -> bool) -> Plan {
    Plan { expression, matches, real_time: true }
}

fn is_last_friday(wall: &NaiveDateTime) -> bool {
    wall.weekday() == Weekday::Fri && (*wall + TimeDelta::days(7)).month() != wall.month()
}

const POLICIES: [(Gap, Fold); 4] = [
    (Gap::FireAfter, Fold::First),
    (Gap::FireAfter, Fold::Both),
    (Gap::Skip, Fold::First),
    (Gap::Skip, Fold::Both),
];

/// Plans that fire on multiples of five minutes, so that a walk in such steps misses nothing.
const BY_MINUTES: [Plan; 12] = [
    by_wall("0 30 2 * * ?", |w| (w.hour(), w.minute()) == (2, 30)),
    by_wall("0 0 1-3 * * ?", |w| matches!((w.hour(), w.minute()), (1..=3, 0))),
    by_wall("0 0 0 * * ?", |w| (w.hour(), w.minute()) == (0, 0)),
    by_wall("0 30 1,2,3 ? * SUN", |w| {
        w.weekday() == Weekday::Sun && matches!((w.hour(), w.minute()), (1..=3, 30))
    }),
    by_wall("0 */20 22-1 * * ?", |w| w.minute() % 20 == 0 && matches!(w.hour(), 22 | 23 | 0 | 1)),
    by_wall("0 0/30 0-23 * * ?", |w| w.minute() % 30 == 0),
    by_wall("0 55 23 L * ?", |w| (w.hour(), w.minute()) == (23, 55) && (*w + TimeDelta::days(1)).day() == 1),
    by_wall("0 15 0 ? * FRIL", |w| (w.hour(), w.minute()) == (0, 15) && is_last_friday(w)),
    by_real_time("0 0/15 * * * ?", |w| w.minute() % 15 == 0),
    by_real_time("0 0 * * * ?", |w| w.minute() == 0),
    by_real_time("0 5/30 */2 * * ?", |w| w.minute() % 30 == 5 && w.hour() % 2 == 0),
    by_real_time("0 45 * ? * SAT-SUN", |w| {
        w.minute() == 45 && matches!(w.weekday(), Weekday::Sat | Weekday::Sun)
    }),
];

const BY_SECOND: [Plan; 4] = [
    by_real_time("* * * * * ?", |_| true),
    by_real_time("30 59 * * * ?", |w| (w.minute(), w.second()) == (59, 30)),
    by_wall("0/7 * 0-3 * * ?", |w| w.hour() <= 3 && w.second() % 7 == 0),
    by_wall("59 59 0,1,2,23 * * ?", |w| matches!((w.hour(), w.minute(), w.second()), (0..=2 | 23, 59, 59))),
];

/// How the wall clock came to a time that a plan names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    Shown,
    /// It showed it before: the clocks went back.
    Again,
    /// It jumped over it; the instant is the first after the jump.
    Skipped,
}

/// A stretch of time in a zone: every instant (seconds) and what the wall clock shows.
struct Walk {
    tz: Tz,
    step: i64,
    readings: Vec<(i64, NaiveDateTime)>,
}

impl Walk {
    fn around(tz: Tz, middle: i64, half: i64, step: i64) -> Walk {
        let from = (middle - half).div_euclid(step) * step;
        let instants = (from..=middle + half).step_by(step as usize);
        Walk { tz, step, readings: instants.map(|at| (at, wall(tz, at))).collect() }
    }

    fn first(&self) -> i64 {
        self.readings[0].0 * 1_000
    }

    fn last(&self) -> i64 {
        self.readings[self.readings.len() - 1].0 * 1_000
    }

    /// Everything the plan might fire for, in order, by watching the clock.
    fn watch(&self, plan: &Plan) -> Vec<(i64, Sight)> {
        let step = TimeDelta::seconds(self.step);
        let mut latest = self.readings[0].1 - step;
        let mut seen = Vec::new();
        for (at, wall) in &self.readings {
            let mut skipped = latest + step;
            while skipped < *wall {
                if (plan.matches)(&skipped) {
                    seen.push((at * 1_000, Sight::Skipped));
                }
                skipped += step;
            }
            if (plan.matches)(wall) {
                let sight = if *wall <= latest { Sight::Again } else { Sight::Shown };
                seen.push((at * 1_000, sight));
            }
            latest = latest.max(*wall);
        }
        seen
    }

    /// Compares the engine with the oracle from the start of the walk, and from every instant
    /// within `near` seconds of the middle that is a multiple of `every` seconds.
    fn compare(&self, plan: &Plan, near: i64, every: i64) {
        let seen = self.watch(plan);
        for (gap, fold) in POLICIES {
            if plan.real_time && (gap == Gap::Skip) != (fold == Fold::Both) {
                continue; // No policy matters to it; two are enough to show that.
            }
            let cron = Cron::parse(plan.expression, self.tz.name()).unwrap().with_gap(gap).with_fold(fold);
            let fires = |sight: &Sight| match sight {
                Sight::Shown => true,
                Sight::Again => plan.real_time || fold == Fold::Both,
                Sight::Skipped => !plan.real_time && gap == Gap::FireAfter,
            };
            let fired = seen.iter().filter(|(_, sight)| fires(sight));
            let mut expected: Vec<_> = fired.map(|(at, _)| *at).collect();
            expected.dedup();
            let context = || format!("{} in {} {gap:?} {fold:?}", plan.expression, self.tz);
            let found = occurrences(&cron, self.first() - 1, self.last());
            assert!(found == expected, "{}: {}", context(), difference(&found, &expected));

            let middle = (self.first() + self.last()) / 2_000;
            for after in (middle - near..middle + near).step_by(every as usize) {
                for after in [after * 1_000 - 1, after * 1_000] {
                    let expected = expected.get(expected.partition_point(|at| *at <= after));
                    let found = cron.next_after_ms(after).filter(|at| *at <= self.last());
                    assert_eq!(found.as_ref(), expected, "{} after {after}", context());
                }
            }
        }
    }
}

fn difference(found: &[i64], expected: &[i64]) -> String {
    let only = |these: &[i64], those: &[i64]| -> Vec<String> {
        let missing = these.iter().filter(|at| !those.contains(at)).take(5);
        missing.map(|at| DateTime::from_timestamp_millis(*at).unwrap().to_rfc3339()).collect()
    };
    format!("only found {:?}, only expected {:?}", only(found, expected), only(expected, found))
}

fn offset(tz: Tz, at: i64) -> i32 {
    let utc = DateTime::from_timestamp(at, 0).unwrap().naive_utc();
    tz.offset_from_utc_datetime(&utc).fix().local_minus_utc()
}

fn wall(tz: Tz, at: i64) -> NaiveDateTime {
    DateTime::from_timestamp(at + i64::from(offset(tz, at)), 0).unwrap().naive_utc()
}

fn new_year(year: i32) -> i64 {
    format!("{year}-01-01T00:00:00Z").parse::<DateTime<chrono::Utc>>().unwrap().timestamp()
}

/// The first instant after each change of a zone's offset from the year `from` until `until`.
fn changes(tz: Tz, from: i32, until: i32) -> Vec<i64> {
    let mut found = Vec::new();
    for at in (new_year(from)..new_year(until)).step_by(6 * HOUR as usize) {
        let (mut before, mut after) = (at, at + 6 * HOUR);
        if offset(tz, before) == offset(tz, after) {
            continue;
        }
        while after - before > 1 {
            let middle = (before + after) / 2;
            let changed = offset(tz, middle) != offset(tz, at);
            *(if changed { &mut after } else { &mut before }) = middle;
        }
        found.push(after);
    }
    found
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

fn compare_by_minutes(tz: Tz, changes: &[i64], step: i64) {
    for change in changes {
        assert_eq!((change % step, i64::from(offset(tz, *change)) % step), (0, 0), "{tz}: smaller steps");
        let walk = Walk::around(tz, *change, 36 * HOUR, step);
        BY_MINUTES.iter().for_each(|plan| walk.compare(plan, 2 * HOUR, 20 * MINUTE));
    }
}

fn compare_by_second(tz: Tz, changes: &[i64], half: i64) {
    for change in changes {
        let walk = Walk::around(tz, *change, half, 1);
        BY_SECOND.iter().for_each(|plan| walk.compare(plan, 70 * MINUTE, 13 * MINUTE));
    }
}

const TODAY: [&str; 14] = [
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "America/Nuuk",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Beirut",
    "Asia/Gaza",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Antarctica/Troll",
];

#[test]
fn every_change_of_the_clocks_from_2020_to_2035() {
    let mut seen = 0;
    for tz in TODAY.map(|name| name.parse::<Tz>().unwrap()) {
        let changes = changes(tz, 2020, 2036);
        assert!(!changes.is_empty(), "{tz}");
        compare_by_minutes(tz, &changes, 5 * MINUTE);
        seen += changes.len();
    }
    assert!(seen > 400, "only {seen} changes");
}

#[test]
fn the_seconds_around_a_change_of_the_clocks() {
    for name in ["Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Antarctica/Troll"] {
        let tz = name.parse().unwrap();
        compare_by_second(tz, &changes(tz, 2024, 2025), 150 * MINUTE);
    }
}

#[test]
fn odd_changes_of_the_past() {
    for (name, from, until) in [
        ("Pacific/Apia", 2010, 2013),      // a whole day skipped
        ("Pacific/Kwajalein", 1993, 1994), // another
        ("America/Sao_Paulo", 2010, 2020), // midnight is skipped, or comes twice
        ("America/Caracas", 2007, 2017),   // half an hour back, half an hour ahead
        ("Asia/Pyongyang", 2015, 2019),
        ("Europe/Moscow", 2010, 2015), // changes of the standard time
        ("Europe/Istanbul", 2014, 2017),
        ("Antarctica/Casey", 2009, 2021), // three hours at once
        ("Asia/Kathmandu", 1985, 1987),   // fifteen minutes
    ] {
        let tz = name.parse().unwrap();
        let changes = changes(tz, from, until);
        assert!(!changes.is_empty(), "{tz}");
        compare_by_minutes(tz, &changes, MINUTE);
    }
}

#[test]
fn a_change_by_minutes_and_seconds() {
    // Liberia gave up -0:44:30 on 7 January 1972.
    let monrovia = "Africa/Monrovia".parse().unwrap();
    compare_by_second(monrovia, &changes(monrovia, 1971, 1973), 150 * MINUTE);
}

#[test]
fn the_last_changes_the_tables_know() {
    for tz in ["Europe/Berlin", "America/New_York"].map(|name| name.parse::<Tz>().unwrap()) {
        compare_by_minutes(tz, &changes(tz, 2098, 2101), 5 * MINUTE);
    }
}
