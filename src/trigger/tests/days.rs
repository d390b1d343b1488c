//! The two day fields, month by month, against their definitions in plain words.

use super::occurrences;
use crate::trigger::Cron;
use chrono::{Datelike, NaiveDate, Weekday};

const WEEKDAYS: [Weekday; 7] =
    [Weekday::Sun, Weekday::Mon, Weekday::Tue, Weekday::Wed, Weekday::Thu, Weekday::Fri, Weekday::Sat];

/// All dates of each month of a whole cycle of the calendar, and around a year without 29 February.
fn months() -> Vec<Vec<NaiveDate>> {
    let years = (2000..2028).chain(2096..2105);
    let month = |year, month| {
        let first = NaiveDate::from_ymd_opt(year, month, 1).unwrap();
        first.iter_days().take_while(|day| day.month() == month).collect()
    };
    years.flat_map(|year| (1..=12).map(move |number| month(year, number))).collect()
}

/// The Monday to Friday of the month closest to `day`.
fn nearest_weekday(month: &[NaiveDate], day: NaiveDate) -> NaiveDate {
    let works = |date: &&NaiveDate| !matches!(date.weekday(), Weekday::Sat | Weekday::Sun);
    *month.iter().filter(works).min_by_key(|date| (**date - day).num_days().abs()).unwrap()
}

/// Checks that an expression's dates are, in every month, those that `meaning` picks from it.
fn check(day_of_month: &str, day_of_week: &str, meaning: impl Fn(&[NaiveDate]) -> Option<NaiveDate>) {
    let expression = format!("0 0 0 {day_of_month} * {day_of_week}");
    let cron = Cron::parse(&expression, "UTC").unwrap();
    let midnight = |date: &NaiveDate| date.and_hms_opt(0, 0, 0).unwrap().and_utc().timestamp_millis();
    for month in months() {
        let found = occurrences(&cron, midnight(&month[0]) - 1, midnight(&month[month.len() - 1]));
        let expected: Vec<_> = meaning(&month).iter().map(midnight).collect();
        assert_eq!(found, expected, "{expression} in {}", month[0]);
    }
}

#[test]
fn a_day_of_the_month() {
    for day in 1..=31 {
        check(&day.to_string(), "?", |month| month.get(day - 1).copied());
    }
}

#[test]
fn a_day_before_the_last() {
    check("L", "?", |month| month.last().copied());
    for before in 1..=30 {
        check(&format!("L-{before}"), "?", |month| month.iter().rev().nth(before).copied());
    }
}

#[test]
fn the_nearest_weekday() {
    for day in 1..=31 {
        check(&format!("{day}W"), "?", |month| month.get(day - 1).map(|date| nearest_weekday(month, *date)));
    }
    check("LW", "*", |month| month.last().map(|date| nearest_weekday(month, *date)));
    for before in 1..=30 {
        check(&format!("L-{before}W"), "?", |month| {
            month.iter().rev().nth(before).map(|date| nearest_weekday(month, *date))
        });
    }
}

#[test]
fn a_weekday_by_its_place_in_the_month() {
    for (number, weekday) in (1..).zip(WEEKDAYS) {
        let such = move |date: &&NaiveDate| date.weekday() == weekday;
        for place in 1..=5 {
            check("?", &format!("{number}#{place}"), |month| {
                month.iter().filter(such).nth(place - 1).copied()
            });
        }
        check("*", &format!("{number}L"), |month| month.iter().rfind(such).copied());
        check("?", &format!("{weekday}L"), |month| month.iter().rfind(such).copied());
    }
}
