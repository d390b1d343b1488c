//! All fire times of a span, against the search for the next one: two ways that share little.

use super::{occurrences, properties};
use crate::trigger::{Cron, Fold, Gap, Simple, Timing, Trigger};
use chrono::DateTime;
use proptest::prelude::*;

const DAY: i64 = 86_400_000;

fn instant(text: &str) -> i64 {
    text.parse::<DateTime<chrono::Utc>>().unwrap().timestamp_millis()
}

/// Both find the same, from any instant on.
fn agree(cron: &Cron, from: i64, to: i64) {
    let listed: Vec<i64> = cron.fire_times(from, to).collect();
    assert_eq!(listed, occurrences(cron, from - 1, to), "{} in {}", cron.expression(), cron.zone());
}

/// Around changes of the clocks: at night, at midnight, by half an hour, and over a whole day.
const CHANGES: [(&str, &str); 8] = [
    ("Europe/Berlin", "2024-03-31T01:00:00Z"),
    ("Europe/Berlin", "2024-10-27T01:00:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:00:00Z"),
    ("America/Sao_Paulo", "2019-02-17T02:00:00Z"),
    ("Australia/Lord_Howe", "2024-04-06T15:00:00Z"),
    ("Australia/Lord_Howe", "2024-10-05T15:30:00Z"),
    ("Africa/Cairo", "2014-09-25T21:00:00Z"),
    ("Pacific/Apia", "2011-12-30T10:00:00Z"),
];

#[test]
fn both_ways_agree_where_the_clocks_change() {
    let expressions = [
        "0 30 2 * * ?",
        "0 0/10 0-3 * * ?",
        "0 0 * * * ?",
        "0 15/30 23,0,1 ? * *",
        "7 59 0-23 * * ?",
        "0 0 0 L * ?",
    ];
    for (zone, at) in CHANGES {
        for expression in expressions {
            for (gap, fold) in [
                (Gap::FireAfter, Fold::First),
                (Gap::FireAfter, Fold::Both),
                (Gap::Skip, Fold::First),
                (Gap::Skip, Fold::Both),
            ] {
                let cron = Cron::parse(expression, zone).unwrap().with_gap(gap).with_fold(fold);
                agree(&cron, instant(at) - 2 * DAY, instant(at) + 2 * DAY);
            }
        }
    }
}

#[test]
fn both_ways_agree_on_every_kind_of_day() {
    let fields = [
        "* * ?",
        "15 * ?",
        "31 * ?",
        "L * ?",
        "L-3 * ?",
        "1W * ?",
        "15W * ?",
        "31W * ?",
        "LW * ?",
        "L-3W * ?",
        "1,15W,L * ?",
        "? * 1",
        "? * SAT-SUN",
        "? * FRI#5",
        "? * MON#1",
        "? * 6L",
        "? * L",
        "29 2 ? 2024-2032",
    ];
    for days in fields {
        let cron = Cron::parse(&format!("0 0 9 {days}"), "America/New_York").unwrap();
        agree(&cron, instant("2023-01-01T00:00:00Z"), instant("2029-01-01T00:00:00Z"));
    }
}

#[test]
fn the_ends_of_a_span_and_of_time() {
    let cron = Cron::parse("* * * * * ?", "UTC").unwrap();
    assert_eq!(cron.fire_times(1, 3_000).collect::<Vec<_>>(), [1_000, 2_000, 3_000]);
    assert_eq!(cron.fire_times(1_000, 1_999).collect::<Vec<_>>(), [1_000]);
    assert_eq!(cron.fire_times(1_001, 1_999).next(), None);
    assert_eq!(cron.fire_times(2_000, 1_000).next(), None);
    let last = Cron::parse("59 59 23 31 12 ? 2199", "UTC").unwrap();
    assert_eq!(last.fire_times(instant("2199-12-01T00:00:00Z"), i64::MAX).count(), 1);
    assert_eq!(last.fire_times(i64::MIN, -1).next(), None);
}

#[test]
fn an_interval_is_counted_from_its_start() {
    let timing = |start, interval, repeats, window: (Option<i64>, Option<i64>)| {
        let simple = Trigger::Simple(Simple::new(Some(start), interval, repeats).unwrap());
        Timing::new(simple, window.0, window.1).unwrap()
    };
    let all = |timing: &Timing, from, to| timing.fire_times(from, to).collect::<Vec<_>>();
    let every = timing(1_000, 300, -1, (None, None));
    assert_eq!(all(&every, 0, 1_700), [1_000, 1_300, 1_600]);
    assert_eq!(all(&every, 1_301, 1_900), [1_600, 1_900]);
    assert_eq!(all(&timing(1_000, 300, 2, (None, None)), 0, i64::MAX), [1_000, 1_300, 1_600]);
    assert_eq!(all(&timing(1_000, 300, -1, (Some(1_200), Some(1_700))), 0, i64::MAX), [1_300, 1_600]);
    let once = timing(1_000, 0, 0, (None, None));
    assert_eq!(all(&once, 0, i64::MAX), [1_000]);
    assert_eq!(all(&once, 1_001, i64::MAX), [0; 0]);
    assert_eq!(all(&timing(i64::MAX - 10, 8, -1, (None, None)), 0, i64::MAX), [i64::MAX - 10, i64::MAX - 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn both_ways_agree_on_any_expression(
        expression in properties::expression(),
        zone in properties::zone(),
        from in 0..instant("2037-01-01T00:00:00Z"),
        (gap, fold) in prop_oneof![
            Just((Gap::FireAfter, Fold::First)), Just((Gap::Skip, Fold::Both)),
            Just((Gap::FireAfter, Fold::Both)), Just((Gap::Skip, Fold::First)),
        ],
    ) {
        if let Ok(cron) = Cron::parse(&expression.text, zone) {
            agree(&cron.with_gap(gap).with_fold(fold), from, from + 3 * DAY);
        }
    }
}
