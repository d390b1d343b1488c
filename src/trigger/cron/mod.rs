//! Cron in Quartz's dialect: from text to bit sets (`parse`), and from an instant to the next
//! occurrence (here, over `spec` and `days`); all of a span, found in another way (`listed`); and back to
//! text, for people (`words`).

mod days;
mod listed;
mod parse;
mod spec;
mod words;

use super::TriggerError;
use super::zone::{Reading, Zone};
use chrono::{DateTime, Utc};
use spec::CronSpec;
use std::sync::Arc;

/// What happens to a wall-clock time that the clocks skip when they go forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gap {
    /// It fires at the first instant after the gap. Several skipped times make one occurrence.
    #[default]
    FireAfter,
    /// It does not fire.
    Skip,
}

/// What happens to a wall-clock time that comes twice when the clocks go back (PEP 495: in a fold).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fold {
    /// It fires in the first pass only.
    #[default]
    First,
    /// It fires in both passes.
    Both,
}

/// A cron expression in Quartz's dialect and the time zone whose wall clock it follows.
///
/// # Fields
/// `second minute hour day-of-month month day-of-week [year]`, separated by blanks.
///
/// | field | values | besides `*` `,` `-` `/` |
/// | --- | --- | --- |
/// | second, minute | 0-59 | |
/// | hour | 0-23 | |
/// | day-of-month | 1-31 | `?` `L` `L-3` (third before the last day) `15W` (nearest Monday to Friday in the month) `LW` `L-3W` |
/// | month | 1-12 or JAN-DEC | |
/// | day-of-week | 1-7 or SUN-SAT | `?` `L` (Saturday) `6L` or `FRIL` (last Friday) `6#3` or `FRI#3` (third Friday) |
/// | year | 1970-2199, default `*` | |
///
/// * Lists may mix all of these: `1,15W,L`. Names are case-insensitive.
/// * Ranges wrap, `FRI-MON`, `NOV-FEB`, `22-4`, except in the year.
/// * Steps: `*/5`, `/5` and `0/5` are every fifth from the field's start, `7/5` from 7 to the
///   field's end, `10-30/5` and `MON-FRI/2` within a range.
/// * One of the two day fields is `?` or `*`. A day that a month does not have (`31`, `31W`,
///   `L-30`, `FRI#5`) is left out in that month.
/// * `@yearly` (or `@annually`), `@monthly`, `@weekly` (Sunday), `@daily` (or `@midnight`) and
///   `@hourly`.
///
/// Years end with 2199: the tables of time zones are computed up to 2099, and a bound is what lets
/// an expression that never fires be recognised.
///
/// # When the clocks change
/// If the hour field begins with `*` (or `/`), the expression follows real time: it fires at every
/// instant at which the wall clock shows a matching time, so an hourly job neither pauses nor
/// doubles up. Otherwise it fires once for each matching wall-clock time: at the first instant
/// after a gap, and in the first pass of a fold; [`with_gap`](Cron::with_gap) and
/// [`with_fold`](Cron::with_fold) change that.
///
/// ```
/// use firetime::trigger::Cron;
///
/// let cron = Cron::parse("0 0 9 ? * MON-FRI", "Europe/Berlin")?;
/// let friday_nine = "2025-01-03T08:00:00Z".parse().unwrap(); // 09:00 in Berlin
/// let monday_nine = "2025-01-06T08:00:00Z".parse().unwrap();
/// assert_eq!(cron.next_after(friday_nine), Some(monday_nine));
///
/// // Five fields are an error, not a guess:
/// let error = Cron::parse("30 2 * * *", "UTC").unwrap_err();
/// assert!(error.to_string().contains("`0 30 2 * * ?`"));
/// # Ok::<(), firetime::trigger::TriggerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    expression: Arc<str>,
    spec: CronSpec,
    zone: Zone,
    gap: Gap,
    fold: Fold,
}

impl Cron {
    /// Parses an expression; `zone` is an IANA name such as `Europe/Berlin` or `UTC`.
    ///
    /// # Errors
    /// [`TriggerError::UnknownZone`]; [`TriggerError::Shape`] or [`TriggerError::Field`] for what
    /// cannot be understood; [`TriggerError::NeverFires`] for what has no occurrence in any year
    /// up to 2199, such as 30 February. (Whether all occurrences are in the past depends on the
    /// time it is asked: see [`Cron::next_after`].)
    pub fn parse(expression: &str, zone: &str) -> Result<Cron, TriggerError> {
        let zone = Zone::parse(zone)?;
        let spec = parse::parse(expression)?;
        let (gap, fold) = Default::default();
        let cron = Cron { expression: expression.into(), spec, zone, gap, fold };
        match cron.next_after_ms(i64::MIN) {
            Some(_) => Ok(cron),
            None => Err(cron.never_fires()),
        }
    }

    /// Decides about times that the clocks skip. Default: [`Gap::FireAfter`].
    ///
    /// Without effect on an expression whose hour field begins with `*`.
    ///
    /// ```
    /// use chrono::{DateTime, Utc};
    /// use firetime::trigger::{Cron, Gap};
    /// let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
    /// let cron = Cron::parse("0 30 2 * * ?", "Europe/Berlin")?;
    /// let midnight = at("2024-03-31T00:00:00Z"); // An hour later the clocks go from 02:00 to 03:00.
    /// assert_eq!(cron.next_after(midnight), Some(at("2024-03-31T01:00:00Z")));
    /// assert_eq!(cron.with_gap(Gap::Skip).next_after(midnight), Some(at("2024-04-01T00:30:00Z")));
    /// # Ok::<(), firetime::trigger::TriggerError>(())
    /// ```
    #[must_use]
    pub fn with_gap(self, gap: Gap) -> Cron {
        Cron { gap, ..self }
    }

    /// Decides about times that come twice. Default: [`Fold::First`].
    ///
    /// Without effect on an expression whose hour field begins with `*`.
    ///
    /// ```
    /// use firetime::trigger::{Cron, Fold};
    /// let cron = Cron::parse("0 30 2 * * ?", "Europe/Berlin")?.with_fold(Fold::Both);
    /// let first_pass = "2024-10-27T00:30:00Z".parse().unwrap(); // 02:30, an hour before the other one
    /// assert_eq!(cron.next_after(first_pass), Some(first_pass + chrono::TimeDelta::hours(1)));
    /// # Ok::<(), firetime::trigger::TriggerError>(())
    /// ```
    #[must_use]
    pub fn with_fold(self, fold: Fold) -> Cron {
        Cron { fold, ..self }
    }

    /// The rules for gaps and folds.
    pub(crate) fn dst(&self) -> (Gap, Fold) {
        (self.gap, self.fold)
    }

    /// The expression as it was written.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The IANA name of the time zone.
    pub fn zone(&self) -> &'static str {
        self.zone.name()
    }

    /// What was decided about times that the clocks skip.
    pub fn gap(&self) -> Gap {
        self.gap
    }

    /// What was decided about times that come twice.
    pub fn fold(&self) -> Fold {
        self.fold
    }

    /// The first occurrence strictly after `after`. Always a whole second, from 1970 on. `None` if there is
    /// none up to the year 2199.
    ///
    /// Allocates nothing, and its work is bounded: at most one step per month of those years.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.next_after_ms(after.timestamp_millis()).and_then(DateTime::from_timestamp_millis)
    }

    /// The same in epoch milliseconds.
    pub(crate) fn next_after_ms(&self, after_ms: i64) -> Option<i64> {
        let after = after_ms.max(-1).div_euclid(1_000).min(spec::END);
        let mut from = self.wall_to_search_from(after);
        loop {
            let wall = self.spec.next_wall(from)?;
            let instant = match self.zone.read(wall) {
                Reading::Once(instant) => instant,
                Reading::Twice { first, second } if first <= after => second,
                Reading::Twice { first, .. } => first,
                Reading::Never => {
                    let change = self.zone.change_near(wall);
                    match self.gap_in_effect() {
                        Gap::FireAfter => change.at,
                        Gap::Skip => {
                            from = change.wall_after;
                            continue;
                        }
                    }
                }
            };
            return Some(instant * 1_000);
        }
    }

    /// The earliest wall that an occurrence strictly after `after` can show.
    ///
    /// That is the second that follows, except among walls that come twice: in the second pass
    /// they may all be behind us, and at the end of the first pass they may all come again.
    fn wall_to_search_from(&self, after: i64) -> i64 {
        let wall = self.zone.wall_at(after);
        let Reading::Twice { first, .. } = self.zone.read(wall) else {
            return wall + 1;
        };
        let change = self.zone.change_near(wall);
        let matches_before_the_change =
            || self.spec.next_wall(wall + 1).is_some_and(|next| next < change.wall_before);
        match self.fold_in_effect() {
            Fold::First if after > first => change.wall_before,
            Fold::Both if after == first && !matches_before_the_change() => change.wall_after,
            _ => wall + 1,
        }
    }

    /// Following real time *is* skipping what no clock shows and firing in both passes.
    fn gap_in_effect(&self) -> Gap {
        if self.spec.follows_real_time { Gap::Skip } else { self.gap }
    }

    fn fold_in_effect(&self) -> Fold {
        if self.spec.follows_real_time { Fold::Both } else { self.fold }
    }

    fn never_fires(&self) -> TriggerError {
        let reason = if self.spec.next_wall(i64::from(i32::MIN)).is_none() {
            "no month of the months and years it allows has a day that matches; \
             look at day-of-month, day-of-week, month and year"
                .to_owned()
        } else {
            format!("the clocks of {} skip every time it names", self.zone.name())
        };
        TriggerError::NeverFires { expression: self.expression().to_owned(), reason }
    }
}
