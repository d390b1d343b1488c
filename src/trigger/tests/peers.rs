//! Against croner, an independent engine, where the two dialects agree: in UTC, without ranges
//! that wrap, one day field restricted, steps only behind `*` and ranges.

use crate::trigger::Cron;
use chrono::{DateTime, Utc};
use croner::parser::{CronParser, Seconds};
use proptest::prelude::*;

fn field(min: u32, max: u32) -> impl Strategy<Value = String> {
    let step = 1..=(max - min);
    let range = (min..=max, min..=max).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![
        Just("*".to_owned()),
        (min..=max).prop_map(|value| value.to_string()),
        (min..=max, min..=max).prop_map(|(a, b)| format!("{a},{b}")),
        range.clone().prop_map(|(first, last)| format!("{first}-{last}")),
        step.prop_map(|step| format!("*/{step}")),
        (range, 1..=4_u32).prop_map(|((first, last), step)| format!("{first}-{last}/{step}")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let day_of_month = prop_oneof![
        4 => field(1, 31),
        1 => Just("L".to_owned()),
        1 => (1..=31).prop_map(|day| format!("{day}W")),
    ];
    let day_of_week = prop_oneof![
        4 => field(1, 7),
        1 => (1..=7, 1..=5).prop_map(|(day, place)| format!("{day}#{place}")),
        1 => (1..=7).prop_map(|day| format!("{day}L")),
    ];
    let days = prop_oneof![
        day_of_month.prop_map(|dom| (dom, "*".to_owned())),
        day_of_week.prop_map(|dow| ("*".to_owned(), dow)),
    ];
    (field(0, 59), field(0, 59), field(0, 23), days, field(1, 12)).prop_map(
        |(second, minute, hour, (dom, dow), month)| format!("{second} {minute} {hour} {dom} {month} {dow}"),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn croner_agrees(text in expression(), after in 0..4_102_444_800_i64) {
        let parser = CronParser::builder().seconds(Seconds::Required).alternative_weekdays(true).build();
        let theirs = parser.parse(&text).unwrap();
        let Ok(ours) = Cron::parse(&text, "UTC") else {
            // Never fires: croner has no bound of years to say so with, but finds nothing either.
            let start = DateTime::<Utc>::from_timestamp(after, 0).unwrap();
            prop_assert!(theirs.find_next_occurrence(&start, false).is_err());
            return Ok(());
        };
        let mut at = DateTime::<Utc>::from_timestamp(after, 0).unwrap();
        for _ in 0..10 {
            let next = theirs.find_next_occurrence(&at, false).unwrap();
            prop_assert_eq!(ours.next_after_ms(at.timestamp_millis()), Some(next.timestamp_millis()));
            at = next;
        }
    }
}
