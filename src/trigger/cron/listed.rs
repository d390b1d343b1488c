//! All fire times of a span, listed day by day: what the ledger is verified against.
//!
//! It shares the parsed fields and the tables of time zones with the search for the next fire time (the
//! module above), and nothing else: each day of the calendar is looked at, and each time of a day that
//! matches is looked up in its zone.

use std::collections::BTreeSet;
use std::iter::successors;

use chrono::{DateTime, Datelike, Days as Later, MappedLocalTime, NaiveDate, NaiveDateTime, TimeDelta};
use chrono::{Months, Offset, TimeZone, Weekday};
use chrono_tz::Tz;

use super::days::{Days, MonthDays, WeekDays};
use super::{Cron, Fold, Gap};

/// No clock on earth is further from UTC.
const FURTHEST: TimeDelta = TimeDelta::hours(15);
/// A change of the clocks moves them by less.
const NEAR: TimeDelta = TimeDelta::days(2);

/// The fire times of a cron expression within a span, ascending, epoch milliseconds.
pub(crate) struct FireTimes<'a> {
    cron: &'a Cron,
    zone: Tz,
    /// Both included, epoch seconds.
    span: (i64, i64),
    /// What the clocks show in that span lies between these, both included.
    walls: (NaiveDateTime, NaiveDateTime),
    /// The next day to list; none behind the last.
    day: Option<NaiveDate>,
    /// What the days listed so far have, and will not have returned.
    listed: BTreeSet<i64>,
    /// The walls that the clocks skipped last, and the first one behind them.
    gap: Option<(NaiveDateTime, NaiveDateTime)>,
}

impl Cron {
    /// Its fire times from `from_ms` to `to_ms`, both included.
    pub(crate) fn fire_times(&self, from_ms: i64, to_ms: i64) -> FireTimes<'_> {
        let span = (from_ms.max(0).saturating_add(999) / 1_000, to_ms.div_euclid(1_000));
        let zone: Tz = self.zone().parse().unwrap_or(Tz::UTC);
        let walls = (shown_at(zone, span.0, -FURTHEST), shown_at(zone, span.1, FURTHEST));
        let day = Some(walls.0.date()).filter(|_| span.0 <= span.1);
        FireTimes { cron: self, zone, span, walls, day, listed: BTreeSet::new(), gap: None }
    }
}

impl Iterator for FireTimes<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        loop {
            let complete = self.day.map(|day| (day.and_time(chrono::NaiveTime::MIN) - FURTHEST).and_utc());
            let is_complete = |at: &&i64| complete.is_none_or(|complete| **at < complete.timestamp());
            if self.listed.first().filter(is_complete).is_some() {
                return self.listed.pop_first().map(|at| at * 1_000);
            }
            let day = self.day?;
            self.list(day);
            self.day = day.succ_opt().filter(|next| *next <= self.walls.1.date());
        }
    }
}

impl FireTimes<'_> {
    fn list(&mut self, day: NaiveDate) {
        if !matches_day(self.cron, day) {
            return;
        }
        let spec = &self.cron.spec;
        let (first, last) = self.walls;
        let wall = |hour, minute, second| day.and_hms_opt(hour, minute, second).unwrap_or_default();
        for hour in members(spec.hours) {
            for minute in members(spec.minutes) {
                if wall(hour, minute, 59) < first || last < wall(hour, minute, 0) {
                    continue;
                }
                for second in members(spec.seconds) {
                    self.read(wall(hour, minute, second));
                }
            }
        }
    }

    /// Lists the instants at which the clocks show this time, as the rules of the expression say.
    fn read(&mut self, wall: NaiveDateTime) {
        let spec = &self.cron.spec;
        let (first, second) = match self.zone.from_local_datetime(&wall) {
            MappedLocalTime::Single(at) => (Some(at), None),
            MappedLocalTime::Ambiguous(first, second) => {
                let both = spec.follows_real_time || self.cron.fold == Fold::Both;
                (Some(first), Some(second).filter(|_| both))
            }
            MappedLocalTime::None if spec.follows_real_time || self.cron.gap == Gap::Skip => (None, None),
            MappedLocalTime::None => {
                let behind = self.behind_gap(wall);
                (behind.and_then(|behind| self.zone.from_local_datetime(&behind).earliest()), None)
            }
        };
        let (from, to) = self.span;
        let seconds = [first, second].into_iter().flatten().map(|at| at.timestamp());
        self.listed.extend(seconds.filter(|at| (from..=to).contains(at)));
    }

    /// The first time behind the gap that a time lies in.
    fn behind_gap(&mut self, wall: NaiveDateTime) -> Option<NaiveDateTime> {
        if let Some((_, behind)) = self.gap.filter(|(from, behind)| (*from..*behind).contains(&wall)) {
            return Some(behind);
        }
        let later = successors(Some(wall), |wall| wall.checked_add_signed(TimeDelta::seconds(1)));
        let behind =
            later.take(3 * 86_400).find(|wall| self.zone.from_local_datetime(wall).earliest().is_some())?;
        self.gap = Some((wall, behind));
        Some(behind)
    }
}

/// What the clocks show at an instant; where they change near it, that further off.
fn shown_at(zone: Tz, at: i64, off: TimeDelta) -> NaiveDateTime {
    let utc = DateTime::from_timestamp(at.clamp(-1, super::spec::END), 0).unwrap_or_default().naive_utc();
    let offset = |at: NaiveDateTime| zone.offset_from_utc_datetime(&at).fix();
    let (before, after) = (offset(utc - NEAR), offset(utc + NEAR));
    if before == after { utc + before } else { utc + off }
}

fn matches_day(cron: &Cron, day: NaiveDate) -> bool {
    let spec = &cron.spec;
    let years = super::spec::FIRST_YEAR..=super::spec::LAST_YEAR;
    years.contains(&day.year())
        && spec.years.contains(day.year())
        && has(spec.months, day.month())
        && match &spec.days {
            Days::Every => true,
            Days::OfMonth(days) => is_day_of_month(days, day),
            Days::OfWeek(days) => is_day_of_week(days, day),
        }
}

fn is_day_of_month(days: &MonthDays, day: NaiveDate) -> bool {
    let last = last_of_month(day);
    let before_last = last.day() - day.day();
    let is_nearest = |to: Option<NaiveDate>| to.and_then(nearest_weekday) == Some(day);
    has(days.days.into(), day.day())
        || has(days.before_last.into(), before_last)
        || members(days.nearest.into()).any(|of| is_nearest(day.with_day(of)))
        || members(days.nearest_before_last.into())
            .filter(|before| *before < last.day())
            .any(|before| is_nearest(day.with_day(last.day() - before)))
}

fn is_day_of_week(days: &WeekDays, day: NaiveDate) -> bool {
    let weekday = day.weekday().num_days_from_sunday();
    let of_week = days.by_week[(day.day0() / 7) as usize];
    let is_last = day.checked_add_days(Later::new(7)).is_none_or(|later| later.month() != day.month());
    has(of_week.into(), weekday) || (is_last && has(days.last.into(), weekday))
}

fn last_of_month(day: NaiveDate) -> NaiveDate {
    let next = day.with_day(1).and_then(|first| first.checked_add_months(Months::new(1)));
    next.and_then(|next| next.pred_opt()).unwrap_or(day)
}

/// The Monday to Friday that is nearest to a day, in the same month.
fn nearest_weekday(day: NaiveDate) -> Option<NaiveDate> {
    let others = [0, -1, 1, -2, 2].into_iter().filter_map(|by| day.checked_add_signed(TimeDelta::days(by)));
    let is_weekend = |day: &NaiveDate| matches!(day.weekday(), Weekday::Sat | Weekday::Sun);
    others.into_iter().find(|other| other.month() == day.month() && !is_weekend(other))
}

fn has(set: u64, value: u32) -> bool {
    value < 64 && set & (1 << value) != 0
}

fn members(set: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |value| has(set, *value))
}
