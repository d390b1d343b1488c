//! Changes of a time zone's clocks, and what they do to a cron trigger.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;

use crate::console::words::zone::{change_between, offset};
use crate::{Cron, Fold, Gap, Trigger};

/// So far ahead changes of the clocks are looked for.
const AHEAD: i64 = 366;
/// So many times of day are named.
const NAMED: usize = 3;

/// A change of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockChange {
    at: DateTime<Utc>,
    /// By how much they go forward; back if that is negative.
    by: TimeDelta,
}

/// The changes of a zone's clocks from an instant on, for so many days.
fn changes(zone: Tz, from: DateTime<Utc>, days: i64) -> Vec<ClockChange> {
    let days = (0..days).map(|day| (from + TimeDelta::days(day), from + TimeDelta::days(day + 1)));
    // No zone has changed its clocks twice within a day since 1970.
    let change = |(from, to): (DateTime<Utc>, DateTime<Utc>)| {
        let at = change_between(zone, from, to)?;
        Some(ClockChange { at, by: TimeDelta::seconds(offset(zone, to) - offset(zone, from)) })
    };
    days.filter_map(change).collect()
}

/// What the next year's changes of the clocks do to a cron trigger, a sentence each.
pub(super) fn of_cron(cron: &Cron, now: DateTime<Utc>) -> Vec<String> {
    let Ok(zone) = cron.zone().parse::<Tz>() else { return Vec::new() };
    changes(zone, now, AHEAD).into_iter().filter_map(|change| told(cron, zone, change)).collect()
}

fn told(cron: &Cron, zone: Tz, change: ClockChange) -> Option<String> {
    let near = |cron: Cron| -> BTreeSet<DateTime<Utc>> {
        // What a gap moves fires as it ends, and a second pass lasts as long as the clocks go back.
        Trigger::Cron(cron).fire_times(change.at..=change.at + change.by.abs()).collect()
    };
    let wall = |at: DateTime<Utc>| at.with_timezone(&zone);
    let day = wall(change.at).format("%a %-d %b %Y");
    if change.by > TimeDelta::zero() {
        let (after, skip) =
            (near(cron.clone().with_gap(Gap::FireAfter)), near(cron.clone().with_gap(Gap::Skip)));
        let moved = after.difference(&skip).next()?;
        let from = wall(change.at - TimeDelta::seconds(1)) + TimeDelta::seconds(1);
        let clocks =
            format!("On {day} the clocks go forward at {}", (from.naive_local() - change.by).format("%H:%M"));
        return Some(match cron.gap() {
            Gap::FireAfter => {
                format!("{clocks}: what they skip fires once, at {}.", wall(*moved).format("%H:%M:%S"))
            }
            Gap::Skip => format!("{clocks}: what they skip does not fire."),
        });
    }
    let (first, both) = (near(cron.clone().with_fold(Fold::First)), near(cron.clone().with_fold(Fold::Both)));
    let twice: Vec<DateTime<Utc>> = both.difference(&first).copied().collect();
    let named: Vec<String> =
        twice.iter().take(NAMED).map(|at| wall(*at).format("%H:%M:%S").to_string()).collect();
    let more = twice.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let times = named.join(", ");
    (!twice.is_empty()).then(|| match cron.fold() {
        Fold::First => {
            format!("On {day} the clocks go back: {times}{more} comes twice, and fires the first time only.")
        }
        Fold::Both => {
            format!("On {day} the clocks go back: {times}{more} comes twice, and fires both times.")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(expression: &str, rules: fn(Cron) -> Cron) -> Vec<String> {
        let cron = rules(Cron::parse(expression, "Europe/Berlin").unwrap());
        of_cron(&cron, "2026-11-29T10:00:00Z".parse().unwrap())
    }

    #[test]
    fn the_clocks_of_a_year_are_found_to_the_second() {
        let from: DateTime<Utc> = "2026-11-29T10:00:00Z".parse().unwrap();
        let found = changes(Tz::Europe__Berlin, from, 366);
        let told: Vec<(String, i64)> =
            found.iter().map(|it| (it.at.to_rfc3339(), it.by.num_minutes())).collect();
        let spring = ("2027-03-28T01:00:00+00:00".to_owned(), 60);
        assert_eq!(told, [spring, ("2027-10-31T01:00:00+00:00".to_owned(), -60)]);
        assert_eq!(changes(Tz::UTC, from, 366), []);
        let half = changes(Tz::Australia__Lord_Howe, from, 366);
        assert_eq!(half.iter().map(|it| it.by.num_minutes()).collect::<Vec<_>>(), [-30, 30]);
    }

    #[test]
    fn what_the_clocks_skip_or_repeat_is_told_as_the_rules_have_it() {
        let same = |cron| cron;
        assert_eq!(
            of("0 30 2 * * ?", same),
            [
                "On Sun 28 Mar 2027 the clocks go forward at 02:00: what they skip fires once, at 03:00:00.",
                "On Sun 31 Oct 2027 the clocks go back: 02:30:00 comes twice, and fires the first time only.",
            ]
        );
        let other = of("0 30 2 * * ?", |cron| cron.with_gap(Gap::Skip).with_fold(Fold::Both));
        assert!(other[0].ends_with("what they skip does not fire."), "{other:?}");
        assert!(other[1].ends_with("fires both times."), "{other:?}");
        let often = of("0 0/10 2 * * ?", same);
        assert!(often[1].contains("02:00:00, 02:10:00, 02:20:00 and 3 more comes twice"), "{often:?}");
        for untouched in ["0 0 9 * * ?", "0 0 * * * ?", "0 30 2 1 1 ?"] {
            assert_eq!(of(untouched, same), Vec::<String>::new(), "{untouched}");
        }
    }
}
