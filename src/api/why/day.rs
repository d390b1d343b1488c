//! Why the occurrences of a day, or of any span of time, ran or did not.

use std::collections::BTreeSet;
use std::ops::Range;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use serde::Serialize;

use super::answer::Why;
use super::explain::explain;
use super::facts::Around;
use crate::api::{Client, config};
use crate::domain::{Error, Timestamp};
use crate::store::ledger::TriggerPeriod;
use crate::trigger::{Timing, Trigger};

/// The most occurrences of a page.
const PAGE: usize = 50;

/// The answers about some of a schedule's occurrences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WhyList {
    /// One for each occurrence, by fire time, 50 at most.
    pub answers: Vec<Why>,
    /// The first fire time that they leave out; none if there is no other. As JSON epoch milliseconds.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub next: Option<DateTime<Utc>>,
}

impl Client {
    /// Why each occurrence of a schedule in a range of fire times ran or did not, or whether it will: of the
    /// first 50. The next page begins at [`WhyList::next`].
    ///
    /// They are the fire times that the schedule's triggers had then, and have. Of a fixed delay they are
    /// those that the ledger has. It takes some twenty statements, and a few for each occurrence.
    ///
    /// ```
    /// use chrono::{TimeZone, Utc};
    /// use firetime::{Client, Fate, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let hourly = Trigger::cron("0 0 * * * ?", "UTC")?;
    /// client.ensure(&Schedule::new("hourly", REPORT, &(), hourly)?).run()?;
    /// let at = |day| Utc.with_ymd_and_hms(2099, 1, day, 0, 0, 0).unwrap();
    /// let page = client.why_between("hourly", at(1)..at(2))?;
    /// assert_eq!((page.answers.len(), page.next), (24, None));
    /// assert!(page.answers.iter().all(|why| why.fate == Fate::Planned));
    /// let page = client.why_between("hourly", at(1)..at(4))?;
    /// assert_eq!((page.answers.len(), page.next), (50, Some(at(3) + chrono::TimeDelta::hours(2))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the application has no such schedule; or the database's failure.
    ///
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn why_between(&self, schedule: &str, range: Range<DateTime<Utc>>) -> Result<WhyList, Error> {
        let around = self.around(schedule)?;
        let mut times = fire_times(&around, &range);
        if around.is_delay() {
            let span = Timestamp::from(range.start)..Timestamp::from(range.end);
            let planned = self.store.fire_times(around.schedule, &span, PAGE + 1)?;
            times.extend(planned.into_iter().filter_map(Timestamp::utc));
        }
        let times: Vec<DateTime<Utc>> = times.into_iter().take(PAGE + 1).collect();
        let answer = |at: &DateTime<Utc>| Ok(explain(&self.facts_near(&around, schedule, *at)?));
        let answers = times.iter().take(PAGE).map(answer).collect::<Result<_, Error>>()?;
        Ok(WhyList { answers, next: times.get(PAGE).copied() })
    }

    /// The instants of a day, by the wall clock of the schedule's time zone. That is the one of
    /// its cron, and UTC of other triggers.
    ///
    /// ```
    /// use chrono::NaiveDate;
    /// use firetime::{Client, Job, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 0 2 * * ?", "Europe/Berlin")?;
    /// client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let day = NaiveDate::from_ymd_opt(2099, 3, 29).ok_or("no such day")?;
    /// let day = client.day_of("nightly", day)?;
    /// assert_eq!((day.end - day.start).num_hours(), 23); // The clock goes forward.
    /// assert_eq!(client.why_between("nightly", day)?.answers.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Client::why_between`].
    pub fn day_of(&self, schedule: &str, day: NaiveDate) -> Result<Range<DateTime<Utc>>, Error> {
        config::check_schedule_name(schedule)?;
        let zone = self.zone_of(schedule)?;
        Ok(midnight(zone, day)..midnight(zone, day.checked_add_days(Days::new(1)).unwrap_or(day)))
    }

    /// The time zone of the trigger that a schedule has, or had last.
    fn zone_of(&self, schedule: &str) -> Result<Tz, Error> {
        self.store.seen(&self.application, schedule)?.ok_or_else(|| self.unknown(schedule))?;
        let row = self.store.schedule(&self.application, schedule)?;
        let timing = match row.and_then(|row| row.when.timing().ok()) {
            Some(timing) => Some(timing),
            None => self.triggers(schedule)?.last().and_then(|period| period.when.timing().ok()),
        };
        let zone = timing.and_then(|timing| match timing.trigger() {
            Trigger::Cron(cron) => cron.zone().parse().ok(),
            _ => None,
        });
        Ok(zone.unwrap_or(Tz::UTC))
    }
}

impl Around {
    /// Whether a trigger of the schedule has no fixed fire times.
    fn is_delay(&self) -> bool {
        let of_now = self.plan.as_ref().and_then(|plan| plan.timing.as_ref());
        let past = self.triggers.iter().filter_map(|period| period.when.timing().ok());
        of_now.is_some_and(|timing| timing.delay_ms().is_some())
            || past.into_iter().any(|it| it.delay_ms().is_some())
    }
}

/// The first fire times of a range, one more than a page at least, if there are so many.
fn fire_times(around: &Around, range: &Range<DateTime<Utc>>) -> BTreeSet<DateTime<Utc>> {
    let mut times = BTreeSet::new();
    if around.triggers.is_empty() {
        let timing = around.plan.as_ref().and_then(|plan| plan.timing.as_ref());
        times.extend(timing.into_iter().flat_map(|timing| some(timing, range)));
    }
    for period in &around.triggers {
        let Some(part) = part_of(period, range) else { continue };
        times.extend(period.when.timing().ok().into_iter().flat_map(|timing| some(&timing, &part)));
    }
    times
}

fn some(timing: &Timing, range: &Range<DateTime<Utc>>) -> Vec<DateTime<Utc>> {
    if timing.delay_ms().is_some() || range.is_empty() {
        return Vec::new();
    }
    let times = timing.fire_times(range.start.timestamp_millis(), range.end.timestamp_millis() - 1);
    times.take(PAGE + 1).filter_map(DateTime::from_timestamp_millis).collect()
}

/// The part of a range in which the trigger was that of this period.
fn part_of(period: &TriggerPeriod, range: &Range<DateTime<Utc>>) -> Option<Range<DateTime<Utc>>> {
    let first = period.first?.utc()?;
    let end = period.end.as_ref().and_then(|end| end.at.utc());
    // What came due in its last millisecond was its own.
    let end = end.map_or(range.end, |end| range.end.min(end + TimeDelta::milliseconds(1)));
    Some(range.start.max(first)..end).filter(|part| !part.is_empty())
}

/// The first instant of a day. Where the clock goes forward at midnight that is a later one.
fn midnight(zone: Tz, day: NaiveDate) -> DateTime<Utc> {
    let quarters = (0..96).map(|quarter| TimeDelta::minutes(15 * quarter));
    let wall = day.and_time(NaiveTime::MIN);
    let first = quarters.filter_map(|later| zone.from_local_datetime(&(wall + later)).earliest()).next();
    first.map_or_else(|| wall.and_utc(), |at| at.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_where_its_clock_does() {
        let begin =
            |zone: &str, day: &str| midnight(zone.parse().unwrap(), day.parse().unwrap()).to_rfc3339();
        assert_eq!(begin("UTC", "2026-11-29"), "2026-11-29T00:00:00+00:00");
        assert_eq!(begin("Europe/Berlin", "2026-11-29"), "2026-11-28T23:00:00+00:00");
        // Its clock went from midnight to one.
        assert_eq!(begin("America/Sao_Paulo", "2018-11-04"), "2018-11-04T03:00:00+00:00");
        // Midnight came twice.
        assert_eq!(begin("America/Havana", "2026-11-01"), "2026-11-01T04:00:00+00:00");
    }
}
