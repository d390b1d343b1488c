//! The demo's application: its jobs and its schedules, each beside its fire times as the oracle counts them.

use std::time::Duration;

use chrono::DateTime;
use firetime::{Job, Schedule, Trigger};

use super::oracle::{in_nepal, seconds, steps};
use crate::failure::Failure;

pub(super) const APPLICATION: &str = "demo";

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
    let from = start * 1_000;
    Ok(vec![
        cron("every-second", start, "* * * * * ?", "UTC", seconds(window.clone(), |_| true))?,
        cron(
            "berlin-thirds",
            start,
            "0/3 * * * * ?",
            "Europe/Berlin",
            seconds(window.clone(), |s| s % 3 == 0),
        )?,
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
}
