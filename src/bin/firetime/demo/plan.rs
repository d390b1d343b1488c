//! The demo's application: its jobs and its schedules, each beside its fire times. The oracle counts the fire
//! times by hand, second by second, without the cron engine, time zone tables or the database.

use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::DateTime;
use firetime::{Job, Schedule, Trigger};

use crate::failure::Failure;

/// A quick job.
pub(super) const TICK: Job<()> = Job::new("tick");
/// A job that takes as many milliseconds as its payload says.
pub(super) const REPORT: Job<u64> = Job::new("report");

/// How long the schedules fire, seconds.
pub(super) const LASTS: i64 = 20;
/// How long a report takes: so long that a node killed half-way is at one.
const REPORT_TAKES: u64 = 1_300;

/// One schedule, and when it must fire: epoch milliseconds.
pub(super) struct Planned {
    pub(super) name: &'static str,
    pub(super) rule: String,
    pub(super) schedule: Schedule,
    pub(super) fire_times: Vec<i64>,
}

/// What runs from the second `start` (epoch seconds) for [`LASTS`] seconds.
pub(super) fn plan(start: i64) -> Result<Vec<Planned>, Failure> {
    let window = start..=start + LASTS;
    let middle = in_nepal(start + LASTS / 2);
    let nepal = format!("0/4 {} {} ? * {}", middle.minute, middle.hour, middle.weekday);
    let at_work = |second: i64| {
        let now = in_nepal(second);
        now.second % 4 == 0
            && (now.minute, now.hour, now.weekday) == (middle.minute, middle.hour, middle.weekday)
    };
    let third = |second: i64| second % 3 == 0;
    let from = start * 1_000;
    Ok(vec![
        cron("every-second", start, "* * * * * ?", "UTC", seconds(window.clone(), |_| true))?,
        cron("berlin-thirds", start, "0/3 * * * * ?", "Europe/Berlin", seconds(window.clone(), third))?,
        cron("kathmandu-now", start, &nepal, "Asia/Kathmandu", seconds(window, at_work))?,
        simple("seven-times", TICK, &(), from + 1_000, 2_500, 7)?,
        simple("once", TICK, &(), from + 6_500, 0, 1)?,
        simple("slow-report", REPORT, &REPORT_TAKES, from + 500, 2_000, 10)?,
    ])
}

fn cron(
    name: &'static str,
    start: i64,
    expression: &str,
    zone: &str,
    fire_times: Vec<i64>,
) -> Result<Planned, Failure> {
    let schedule = Schedule::new(name, TICK, &(), Trigger::cron(expression, zone)?)?
        .starting(instant(start * 1_000)?)
        .ending(instant((start + LASTS) * 1_000)?);
    Ok(Planned { name, rule: format!("cron {expression} [{zone}]"), schedule, fire_times })
}

fn simple<P: serde::Serialize>(
    name: &'static str,
    job: Job<P>,
    payload: &P,
    first: i64,
    interval: u32,
    count: u32,
) -> Result<Planned, Failure> {
    let at = instant(first)?;
    let (trigger, rule) = if count == 1 {
        (Trigger::once(at)?, "once".to_owned())
    } else {
        let every =
            Trigger::every(Duration::from_millis(interval.into()))?.times(count.into())?.starting(at)?;
        (every, format!("every {interval} ms, {count} times"))
    };
    let fire_times = steps(first, interval.into(), count.into());
    Ok(Planned { name, rule, schedule: Schedule::new(name, job, payload, trigger)?, fire_times })
}

fn instant(millis: i64) -> Result<DateTime<chrono::Utc>, Failure> {
    DateTime::from_timestamp_millis(millis)
        .ok_or_else(|| Failure::Failed(format!("this host's clock is beyond the calendar ({millis} ms)")))
}

/// Nepal's clocks have been 5 h 45 min ahead of UTC since 1986 and know no summer time.
const NEPAL: i64 = (5 * 60 + 45) * 60;

/// A second of Nepal's wall clock, looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NepalTime {
    weekday: &'static str,
    hour: i64,
    minute: i64,
    second: i64,
}

/// What Nepal's clocks show at `second`, epoch seconds.
fn in_nepal(second: i64) -> NepalTime {
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
fn seconds(window: RangeInclusive<i64>, fires: impl Fn(i64) -> bool) -> Vec<i64> {
    window.filter(|second| fires(*second)).map(|second| second * 1_000).collect()
}

/// `count` instants from `first` on, one each `interval`: all milliseconds.
fn steps(first: i64, interval: i64, count: i64) -> Vec<i64> {
    (0..count).map(|step| first + step * interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schedule_fires_and_ends_with_the_demo() {
        // Across the minute, the hour and, in Nepal, midnight.
        let midnight_in_nepal = 1_735_928_100;
        for start in midnight_in_nepal - 30..=midnight_in_nepal + 30 {
            let plan = plan(start).unwrap();
            let last = |planned: &Planned| planned.fire_times.last().copied().unwrap();
            assert!(plan.iter().all(|planned| last(planned) <= (start + LASTS) * 1_000), "{start}");
        }
    }

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
