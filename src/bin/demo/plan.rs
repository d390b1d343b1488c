//! The demo's application: its jobs and its schedules, each beside its fire times. The oracle counts the fire
//! times by hand, without the cron engine or the database.

use std::time::Duration;

use chrono::{DateTime, Utc};
use firetime::{Job, Schedule, Trigger};

use crate::failure::{Failure, Result};

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

/// The schedules that fire from the second `start` (epoch seconds) on, for [`LASTS`] seconds.
pub(super) fn plan(start: i64) -> Result<Vec<Planned>> {
    let from = start * 1_000;
    Ok(vec![
        cron("every-second", "* * * * * ?", "UTC", start, 1)?,
        cron("berlin-thirds", "0/3 * * * * ?", "Europe/Berlin", start, 3)?,
        repeated("seven-times", TICK, &(), from + 1_000, 2_500, 7)?,
        repeated("once", TICK, &(), from + 6_500, 0, 1)?,
        repeated("slow-report", REPORT, &REPORT_TAKES, from + 500, 2_000, 10)?,
    ])
}

/// Fires each second of the demo that `every` divides.
fn cron(name: &'static str, expression: &str, zone: &str, start: i64, every: i64) -> Result<Planned> {
    let end = start + LASTS;
    let schedule = Schedule::new(name, TICK, &(), Trigger::cron(expression, zone)?)?
        .starting(instant(start * 1_000)?)
        .ending(instant(end * 1_000)?);
    let fire_times =
        (start..=end).filter(|second| second % every == 0).map(|second| second * 1_000).collect();
    Ok(Planned { name, rule: format!("cron {expression} [{zone}]"), schedule, fire_times })
}

/// Fires `count` times, each `interval` milliseconds, first at `first`.
fn repeated<P: serde::Serialize>(
    name: &'static str,
    job: Job<P>,
    payload: &P,
    first: i64,
    interval: u32,
    count: u32,
) -> Result<Planned> {
    let at = instant(first)?;
    let (trigger, rule) = if count == 1 {
        (Trigger::once(at)?, "once".to_owned())
    } else {
        let every =
            Trigger::every(Duration::from_millis(interval.into()))?.times(count.into())?.starting(at)?;
        (every, format!("every {interval} ms, {count} times"))
    };
    let fire_times = (0..count).map(|step| first + i64::from(step) * i64::from(interval)).collect();
    Ok(Planned { name, rule, schedule: Schedule::new(name, job, payload, trigger)?, fire_times })
}

fn instant(millis: i64) -> Result<DateTime<Utc>> {
    DateTime::from_timestamp_millis(millis)
        .ok_or_else(|| Failure::Failed(format!("this host's clock is beyond the calendar ({millis} ms)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schedule_fires_and_ends_with_the_demo() {
        for start in 1_735_928_070..=1_735_928_130 {
            let plan = plan(start).unwrap();
            let counts: Vec<usize> = plan.iter().map(|planned| planned.fire_times.len()).collect();
            assert_eq!(counts, [21, 7, 7, 1, 10], "{start}");
            let last = |planned: &Planned| planned.fire_times.last().copied().unwrap();
            assert!(plan.iter().all(|planned| last(planned) <= (start + LASTS) * 1_000), "{start}");
        }
    }
}
