//! How the attempts of the last 24 hours ended.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};

use super::plot::{Plot, Point};
use crate::console::web::trouble::Trouble;
use crate::console::words::zone::shown;
use crate::console::words::{counted, length, number};
use crate::{Client, OutcomeFilter, Outcomes};

/// So many hours are shown, the one that has begun among them.
const HOURS: i64 = 24;
/// How high the bars are together.
const HEIGHT: u64 = 60;
/// How wide the place of an hour is.
const WIDTH: i64 = 30;

/// The last 24 hours as bars, and in words.
pub(crate) struct Day {
    pub(crate) bars: Vec<Bar>,
    pub(crate) words: String,
    /// How late the latest attempt of each hour began, and all of them in words.
    pub(crate) lateness: Option<Plot>,
    pub(crate) late_words: String,
}

/// The attempts that ended in an hour: those that succeeded below those that did not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) x: i64,
    pub(crate) ran_y: u64,
    pub(crate) ran: u64,
    pub(crate) failed_y: u64,
    pub(crate) failed: u64,
    pub(crate) title: String,
}

impl Day {
    pub(crate) fn of(client: &Client, now: DateTime<Utc>) -> Result<Self, Trouble> {
        let hours = client.outcomes(&OutcomeFilter { by_hour: true, ..filter(now) })?;
        let words = sum(&hours).map_or_else(|| "no attempt has ended".to_owned(), |all| told(&all));
        let lateness = lateness(&hours, now);
        Ok(Self { bars: bars(&hours, first(now)), words, lateness, late_words: late_words(&hours) })
    }
}

/// How the attempts at each job ended that did in the last 24 hours.
pub(crate) fn by_job(client: &Client, now: DateTime<Utc>) -> Result<BTreeMap<String, Outcomes>, Trouble> {
    let jobs = client.outcomes(&OutcomeFilter { by_job: true, ..filter(now) })?;
    Ok(jobs.into_iter().filter_map(|it| Some((it.job.clone()?, it))).collect())
}

/// The first of the hours.
fn first(now: DateTime<Utc>) -> DateTime<Utc> {
    // Outcomes are counted by the hours of UTC.
    now.duration_trunc(TimeDelta::hours(1)).unwrap_or(now) - TimeDelta::hours(HOURS - 1)
}

fn filter(now: DateTime<Utc>) -> OutcomeFilter {
    OutcomeFilter { since: Some(first(now)), ..OutcomeFilter::default() }
}

/// The latest start of each hour.
fn lateness(hours: &[Outcomes], now: DateTime<Utc>) -> Option<Plot> {
    let point = |it: &Outcomes| {
        let (longest, mean) = (it.longest_lateness?, it.mean_lateness?);
        let hour = it.since.with_timezone(&shown()).format("%H:00");
        Some(Point {
            at: it.since,
            millis: i64::try_from(longest.as_millis()).unwrap_or(i64::MAX),
            is_bad: false,
            title: format!("{hour}: on average {}, at worst {}", length(mean), length(longest)),
        })
    };
    let points: Vec<Point> = hours.iter().filter_map(point).collect();
    Plot::new("latest", "The latest start of each hour", &points, now)
}

/// How late attempts began on average, hours with many counting more, and at worst.
fn late_words(hours: &[Outcomes]) -> String {
    let known = hours.iter().filter_map(|it| Some((it.mean_lateness?, it.longest_lateness?, it.total())));
    let add = |(sum, worst, count): (u128, Duration, u64),
               (mean, longest, total): (Duration, Duration, u64)| {
        (sum + mean.as_millis() * u128::from(total), worst.max(longest), count.saturating_add(total))
    };
    let (sum, worst, count) = known.fold((0, Duration::ZERO, 0), add);
    match sum
        .checked_div(u128::from(count))
        .and_then(|mean| u64::try_from(mean).ok())
        .map(Duration::from_millis)
    {
        Some(mean) => format!("they began {} late on average, {} at worst", length(mean), length(worst)),
        None => String::new(),
    }
}

/// How many attempts of all hours ended in each way.
fn sum(hours: &[Outcomes]) -> Option<Outcomes> {
    hours.iter().cloned().reduce(|sum, it| Outcomes {
        succeeded: sum.succeeded.saturating_add(it.succeeded),
        failed: sum.failed.saturating_add(it.failed),
        timed_out: sum.timed_out.saturating_add(it.timed_out),
        abandoned: sum.abandoned.saturating_add(it.abandoned),
        cancelled: sum.cancelled.saturating_add(it.cancelled),
        ..sum
    })
}

/// The attempts that failed, ran out of time, or lost their node.
fn failed(of: &Outcomes) -> u64 {
    [of.failed, of.timed_out, of.abandoned].iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// `1,204 attempts succeeded, 3 failed`
pub(crate) fn told(of: &Outcomes) -> String {
    let others = [
        (of.failed, "failed"),
        (of.timed_out, "timed out"),
        (of.abandoned, "abandoned"),
        (of.cancelled, "cancelled"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let begin = format!("{} succeeded", counted(of.succeeded, "attempt"));
    others.fold(begin, |told, (count, word)| format!("{told}, {} {word}", number(*count)))
}

fn bars(hours: &[Outcomes], first: DateTime<Utc>) -> Vec<Bar> {
    let most =
        hours.iter().map(|it| it.succeeded.saturating_add(failed(it))).max().unwrap_or_default().max(4);
    // Each is seen, and both fit.
    let height = |count: u64| match count {
        0 => 0,
        count => (count.saturating_mul(HEIGHT - 6) / most).max(3),
    };
    let bar = |it: &Outcomes| {
        let (ran, failed) = (height(it.succeeded), height(failed(it)));
        let ran_y = HEIGHT - ran.min(HEIGHT);
        Bar {
            x: (it.since - first).num_hours() * WIDTH,
            ran_y,
            ran,
            failed_y: ran_y - failed.min(ran_y),
            failed,
            title: format!("{}: {}", it.since.with_timezone(&shown()).format("%H:%M"), told(it)),
        }
    };
    hours.iter().map(bar).collect()
}
