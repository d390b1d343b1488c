//! Cron expressions in words: what they read like, and that two which read alike fire alike.

use std::iter::successors;

use proptest::prelude::*;

use super::properties::{expression, zone};
use crate::trigger::{Cron, Fold, Gap};

fn words(expression: &str) -> String {
    Cron::parse(expression, "UTC").unwrap().in_words()
}

#[test]
fn expressions_have_words() {
    let all = [
        ("* * * * * ?", "every second"),
        ("*/10 * * * * ?", "every 10 seconds"),
        ("0 * * * * ?", "every minute"),
        ("30 * * * * ?", "every minute at second 30"),
        ("0,30 * * * * ?", "every 30 seconds"),
        ("0 0/15 * * * ?", "every 15 minutes"),
        ("0 /5 * * * ?", "every 5 minutes"),
        ("0 3/7 * * * ?", "at minutes 3, 10, 17, 24, 31, 38, 45, 52 and 59"),
        ("0 0 * * * ?", "every hour"),
        ("0 5 * * * ?", "every hour at :05"),
        ("7 5 * * * ?", "every hour at :05:07"),
        ("0 30 0/2 * * ?", "every 2 hours at :30"),
        ("0 0 0/6 * * ?", "every day at 00:00, 06:00, 12:00 and 18:00"),
        ("0 30 9-17 * * ?", "every hour from 09:30 to 17:30"),
        ("0 30 22-4 * * ?", "every day at 00:30, 01:30, 02:30, 03:30, 04:30, 22:30 and 23:30"),
        ("0 30 2 * * ?", "every day at 02:30"),
        ("15 30 2,4 * * ?", "every day at 02:30:15 and 04:30:15"),
        ("0 0/30 9 * * ?", "every day at 09:00 and 09:30"),
        ("0 0/10 9-17 * * ?", "every 10 minutes, from 09:00 to 17:59"),
        ("* 5 2 * * ?", "every second of minute 5, from 02:00 to 02:59"),
        ("1,7 3-9 2-4 * * ?", "at seconds 1 and 7 of minutes 3 to 9, from 02:00 to 04:59"),
        ("0 0/15 9-17 ? * MON-FRI", "every 15 minutes, from 09:00 to 17:59, Monday to Friday"),
        ("0 0 9 ? * 1", "Sunday at 09:00"),
        ("0 0 9 ? * SAT,SUN", "Saturday and Sunday at 09:00"),
        ("0 0 9 ? * FRI-MON", "Monday and Friday to Sunday at 09:00"),
        ("0 0 9 ? * 1-7", "every day at 09:00"),
        ("0 0 9 ? * L", "Saturday at 09:00"),
        ("0 0 9 ? * FRIL", "on the last Friday of each month at 09:00"),
        ("0 0 9 ? * 6#3", "on the third Friday of each month at 09:00"),
        ("0 0 9 ? * MON#1,MON#3", "on the first Monday and the third Monday of each month at 09:00"),
        ("0 0 9 ? * TUE,FRI#5", "Tuesday, and on the fifth Friday of each month at 09:00"),
        ("0 0 9 ? JUN TUE,FRI#5", "Tuesday in June, and on the fifth Friday of June at 09:00"),
        ("0 0 0 1 * ?", "on the 1st of each month at 00:00"),
        ("0 0 0 1 1 ?", "on the 1st of January at 00:00"),
        ("0 0 0 1,15,20-23 * ?", "on the 1st, the 15th and the 20th to the 23rd of each month at 00:00"),
        ("0 0 0 L * ?", "on the last day of each month at 00:00"),
        ("0 0 0 L-1 * ?", "on the day before the last of each month at 00:00"),
        ("0 0 0 L-3 * ?", "on day 3 before the last of each month at 00:00"),
        ("0 0 0 15W * ?", "on the Monday to Friday nearest to the 15th of each month at 00:00"),
        ("0 0 0 LW * ?", "on the Monday to Friday nearest to the last day of each month at 00:00"),
        ("0 0 0 1,L FEB ?", "on the 1st and the last day of February at 00:00"),
        ("0 0 0 * JUN-AUG,NOV ?", "every day in June to August and November at 00:00"),
        ("0 0 0 ? NOV-FEB MON", "Monday in January, February, November and December at 00:00"),
        ("0 0 9 ? * MON 2027", "Monday at 09:00, in 2027"),
        ("0 0 9 ? * MON 2027-2030,2040", "Monday at 09:00, in 2027 to 2030 and 2040"),
        ("@yearly", "on the 1st of January at 00:00"),
        ("@weekly", "Sunday at 00:00"),
        ("@hourly", "every hour"),
    ];
    for (expression, said) in all {
        assert_eq!(words(expression), said, "{expression}");
    }
}

#[test]
fn what_the_clocks_do_is_told_where_it_is_not_expected() {
    let berlin = |expression: &str| Cron::parse(expression, "Europe/Berlin").unwrap();
    assert_eq!(berlin("0 0 * * * ?").in_words(), "every hour");
    assert_eq!(berlin("0 0 0-23 * * ?").in_words(), "every hour, once for each time of the clock");
    assert_eq!(berlin("0 30 2 * * ?").in_words(), "every day at 02:30");
    assert_eq!(
        berlin("0 30 */23 * * ?").in_words(),
        "every day at 00:30 and 23:30, whenever the clock shows it"
    );
    let rules = berlin("0 30 2 * * ?").with_gap(Gap::Skip).with_fold(Fold::Both).in_words();
    assert_eq!(
        rules,
        "every day at 02:30, not at times that the clocks skip, again at times that come twice"
    );
}

/// A field of few values, so that two expressions often match the same.
fn small(min: u32, values: &'static [u32], max: u32) -> impl Strategy<Value = String> {
    let value = prop::sample::select(values);
    prop_oneof![
        Just("*".to_owned()),
        value.clone().prop_map(|it| it.to_string()),
        (value.clone(), value.clone()).prop_map(|(a, b)| format!("{a},{b}")),
        (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        prop::sample::select(values).prop_map(move |step| format!("{min}/{}", step.max(1).min(max))),
        prop::sample::select(values).prop_map(move |step| format!("*/{}", step.max(1).min(max))),
    ]
}

/// An expression with every kind of day, and years.
fn odd() -> impl Strategy<Value = String> {
    let days = prop_oneof![
        small(1, &[1, 2, 3, 15, 31], 31).prop_map(|dom| (dom, "?")),
        prop::sample::select(vec!["L", "L-1", "L-2", "LW", "L-1W", "1W", "15W", "1,L", "1,15W", "1-31"])
            .prop_map(|dom| (dom.to_owned(), "?")),
        prop::sample::select(vec![
            "L",
            "SAT",
            "FRIL",
            "6L",
            "FRI#1",
            "6#5",
            "FRI,FRIL",
            "MON-FRI",
            "2-6",
            "1-7",
            "FRI-MON",
            "FRI#1,FRI#2,FRI#3,FRI#4,FRI#5",
            "MON,FRI#2",
            "SUN,SAT",
            "MON/2",
        ])
        .prop_map(|dow| ("?".to_owned(), dow)),
    ];
    let year = prop::sample::select(vec!["", "*", "2027", "2027,2029", "2027-2199", "2027-2030", "2027/2"]);
    let time = (small(0, &[0, 1, 30], 59), small(0, &[0, 5, 30], 59), small(0, &[0, 2, 12, 23], 23));
    (time, days, small(1, &[1, 2, 6, 12], 12), year).prop_map(|((s, m, h), (dom, dow), month, year)| {
        format!("{s} {m} {h} {dom} {month} {dow} {year}").trim().to_owned()
    })
}

fn next_50(cron: &Cron, after: i64) -> Vec<i64> {
    successors(cron.next_after_ms(after), |at| cron.next_after_ms(*at)).take(50).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn two_that_read_alike_fire_alike(
        first in odd(), second in odd(), zone in zone(), after in 0..4_102_444_800_000_i64
    ) {
        let (Ok(first), Ok(second)) = (Cron::parse(&first, zone), Cron::parse(&second, zone)) else {
            return Ok(());
        };
        if first.in_words() == second.in_words() {
            prop_assert_eq!(next_50(&first, after), next_50(&second, after), "{}", first.in_words());
        }
    }
}

/// Pairs that are drawn seldom match the same: here all are compared with all.
#[test]
fn of_many_expressions_those_that_read_alike_fire_alike() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut known: std::collections::BTreeMap<String, (String, Vec<i64>)> = std::collections::BTreeMap::new();
    let mut alike = 0;
    for round in 0..8_000 {
        let text = match round % 3 {
            0 => expression().new_tree(&mut runner).unwrap().current().text,
            _ => odd().new_tree(&mut runner).unwrap().current(),
        };
        let Ok(cron) = Cron::parse(&text, "Europe/Berlin") else { continue };
        // Across both changes of a year's clocks.
        let spring = 1_711_800_000_000;
        let autumn = 1_729_980_000_000;
        let times = [next_50(&cron, spring), next_50(&cron, autumn)].concat();
        let (other, theirs) = known.entry(cron.in_words()).or_insert_with(|| (text.clone(), times.clone()));
        assert_eq!(theirs, &times, "{other} and {text}: {}", cron.in_words());
        alike += usize::from(*other != text);
    }
    assert!(alike > 20, "{alike}");
}
