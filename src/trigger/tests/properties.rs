//! Laws that hold for any expression.

use crate::trigger::{Cron, Fold, Gap};
use chrono::{DateTime, Datelike, NaiveDateTime, TimeZone, Timelike};
use chrono_tz::Tz;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A field as text, and the values it stands for.
type Field = (String, BTreeSet<u32>);

/// One item of a field from `min` to `max`: a value, a range that may wrap, or a step.
fn item(min: u32, max: u32) -> impl Strategy<Value = Field> {
    let size = max - min + 1;
    let range = (min..=max, min..=max, 1..=max).prop_map(move |(first, last, step)| {
        let length = if first <= last { last - first } else { last + size - first };
        let values = (0..=length).step_by(step as usize).map(|n| min + (first - min + n) % size);
        (format!("{first}-{last}/{step}"), values.collect())
    });
    let stepped = (min..=max, 1..=max).prop_map(move |(first, step)| {
        (format!("{first}/{step}"), (first..=max).step_by(step as usize).collect())
    });
    let value = (min..=max).prop_map(|value| (value.to_string(), BTreeSet::from([value])));
    prop_oneof![2 => value, 1 => range, 1 => stepped]
}

/// A field: `*`, or a list of up to three items.
fn field(min: u32, max: u32) -> impl Strategy<Value = Field> {
    let star = Just(("*".to_owned(), (min..=max).collect()));
    let list = prop::collection::vec(item(min, max), 1..=3).prop_map(|items| {
        let (texts, sets): (Vec<_>, Vec<BTreeSet<u32>>) = items.into_iter().unzip();
        (texts.join(","), sets.into_iter().flatten().collect())
    });
    prop_oneof![1 => star, 2 => list]
}

/// An expression and the values of its fields: second, minute, hour, day, month, weekday.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    values: [BTreeSet<u32>; 6],
}

impl Expression {
    fn matches(&self, wall: NaiveDateTime) -> bool {
        let shown = [
            wall.second(),
            wall.minute(),
            wall.hour(),
            wall.day(),
            wall.month(),
            wall.weekday().number_from_sunday(),
        ];
        self.values.iter().zip(shown).all(|(values, shown)| values.contains(&shown))
    }
}

pub(super) fn expression() -> impl Strategy<Value = Expression> {
    let time = (field(0, 59), field(0, 59), field(0, 23));
    let days = prop_oneof![
        field(1, 31).prop_map(|dom| (dom, ("?".to_owned(), (1..=7).collect()))),
        field(1, 7).prop_map(|dow| (("?".to_owned(), (1..=31).collect()), dow)),
    ];
    (time, days, field(1, 12)).prop_map(|((s, m, h), (dom, dow), month)| {
        let fields: [Field; 6] = [s, m, h, dom, month, dow];
        let text = fields.each_ref().map(|(text, _)| text.as_str()).join(" ");
        Expression { text, values: fields.map(|(_, values)| values) }
    })
}

pub(super) fn zone() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/Sao_Paulo",
        "Australia/Lord_Howe",
        "Africa/Cairo",
        "Pacific/Apia",
        "Asia/Kathmandu",
    ])
}

fn cron() -> impl Strategy<Value = Cron> {
    let gap = prop::sample::select(vec![Gap::FireAfter, Gap::Skip]);
    let fold = prop::sample::select(vec![Fold::First, Fold::Both]);
    (expression(), zone(), gap, fold).prop_filter_map("never fires", |(e, zone, gap, fold)| {
        Some(Cron::parse(&e.text, zone).ok()?.with_gap(gap).with_fold(fold))
    })
}

/// From 1970 to 2100, milliseconds.
fn instant() -> impl Strategy<Value = i64> {
    0..4_102_444_800_000_i64
}

fn utc(ms: i64) -> DateTime<chrono::Utc> {
    DateTime::from_timestamp_millis(ms).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn parsing_never_panics(text in ".{0,40}", zone in ".{0,12}") {
        let _ = Cron::parse(&text, &zone);
        let _ = Cron::parse(&text, "UTC");
    }

    #[test]
    fn parsing_what_looks_like_cron_never_panics(
        fields in prop::collection::vec("[0-9LW#?*/,a-z-]{1,6}", 6..=7)
    ) {
        let _ = Cron::parse(&fields.join(" "), "UTC");
    }

    #[test]
    fn occurrences_strictly_increase(cron in cron(), after in instant()) {
        let mut at = after;
        for _ in 0..20 {
            let Some(next) = cron.next_after_ms(at) else { break };
            prop_assert!(next > at);
            prop_assert_eq!(next % 1_000, 0);
            at = next;
        }
    }

    #[test]
    fn the_next_occurrence_matches_and_none_before_it_does(e in expression(), after in instant()) {
        let Ok(cron) = Cron::parse(&e.text, "UTC") else {
            // Only a date that does not exist can be wrong with an expression made like this.
            prop_assert!(Cron::parse(&e.text, "UTC").unwrap_err().to_string().contains("never fires"));
            return Ok(());
        };
        let next = cron.next_after_ms(after);
        if let Some(next) = next {
            prop_assert!(e.matches(utc(next).naive_utc()), "{} is no match", utc(next));
        }
        // Every second of half an hour, then every first matching second would be too slow to
        // reach: skipped occurrences further out show up from their own starting points.
        let from = after.div_euclid(1_000) + 1;
        for second in (from..from + 1_800).take_while(|s| next.is_none_or(|next| s * 1_000 < next)) {
            prop_assert!(!e.matches(utc(second * 1_000).naive_utc()), "missed {}", utc(second * 1_000));
        }
    }

    #[test]
    fn in_any_zone_the_wall_clock_matches_or_a_gap_ends(
        e in expression(), zone in zone(), after in instant()
    ) {
        let Ok(cron) = Cron::parse(&e.text, zone) else { return Ok(()) };
        let Some(next) = cron.next_after_ms(after) else { return Ok(()) };
        let tz: Tz = zone.parse().unwrap();
        let wall = |ms| tz.from_utc_datetime(&utc(ms).naive_utc()).naive_local();
        let gap_ends = wall(next) - wall(next - 1_000) > chrono::TimeDelta::seconds(1);
        prop_assert!(e.matches(wall(next)) || gap_ends, "{}", wall(next));
    }

    #[test]
    fn no_start_between_two_occurrences_changes_the_later_one(
        cron in cron(), after in instant(), part in 0.0..1.0_f64
    ) {
        let Some(first) = cron.next_after_ms(after) else { return Ok(()) };
        let between = after + ((first - after) as f64 * part) as i64;
        let between = between.clamp(after, first - 1);
        prop_assert_eq!(cron.next_after_ms(between), Some(first));
        prop_assert_eq!(cron.next_after_ms(first - 1), Some(first));
    }
}
