//! The fire times of a trigger in a range, for whoever shows them before there is a schedule.

use std::iter::successors;
use std::ops::{Bound, RangeBounds};

use chrono::{DateTime, Utc};

use super::spans::utc;
use super::{Timing, Trigger};

impl Trigger {
    /// Its fire times in a range, in order. A start that is open is the range's; a range without one begins
    /// in 1970. Of a fixed delay it is the first alone, as if a run ended where the range begins: the others
    /// follow the ends of runs.
    ///
    /// ```
    /// use chrono::{DateTime, Utc};
    /// use firetime::Trigger;
    ///
    /// let friday: DateTime<Utc> = "2025-01-03T08:00:00Z".parse().unwrap();
    /// let weekdays = Trigger::cron("0 0 9 ? * MON-FRI", "Europe/Berlin")?;
    /// let next: Vec<_> = weekdays.fire_times(friday..).take(2).collect();
    /// assert_eq!(next, [friday, "2025-01-06T08:00:00Z".parse::<DateTime<Utc>>().unwrap()]);
    /// # Ok::<(), firetime::TriggerError>(())
    /// ```
    pub fn fire_times<R: RangeBounds<DateTime<Utc>>>(
        &self,
        range: R,
    ) -> impl Iterator<Item = DateTime<Utc>> + use<R> {
        let last = match range.end_bound() {
            Bound::Included(last) => Some(last.timestamp_millis()),
            Bound::Excluded(end) => Some(first_at(*end).saturating_sub(1)),
            Bound::Unbounded => None,
        };
        let first = match range.start_bound() {
            Bound::Included(first) => first_at(*first),
            Bound::Excluded(before) => before.timestamp_millis().saturating_add(1),
            Bound::Unbounded => 0,
        };
        let timing = self.clone().anchored_ms(first.max(0)).and_then(|it| Timing::new(it, None, last)).ok();
        let most = if let Trigger::Delay(_) = self { 1 } else { usize::MAX };
        let after = |timing: &Timing| match timing.trigger() {
            Trigger::Delay(delay) if delay.start_ms() < Some(first) => timing.after(first),
            _ => timing.after(first.saturating_sub(1)),
        };
        let next = timing.as_ref().and_then(after);
        successors(next, move |at| timing.as_ref()?.after(*at)).take(most).map_while(utc)
    }
}

/// The first millisecond that is not before an instant.
fn first_at(at: DateTime<Utc>) -> i64 {
    let is_whole = at.timestamp_subsec_nanos().is_multiple_of(1_000_000);
    at.timestamp_millis().saturating_add(i64::from(!is_whole))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chrono::TimeDelta;

    use super::*;

    fn at(millis: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(millis).unwrap()
    }

    fn millis(trigger: &Trigger, range: impl RangeBounds<DateTime<Utc>>) -> Vec<i64> {
        trigger.fire_times(range).take(5).map(|at| at.timestamp_millis()).collect()
    }

    #[test]
    fn both_ends_of_a_range_are_kept() {
        let cron = Trigger::cron("* * * * * ?", "UTC").unwrap();
        assert_eq!(millis(&cron, at(1_000)..at(3_000)), [1_000, 2_000]);
        assert_eq!(millis(&cron, at(1_000)..=at(3_000)), [1_000, 2_000, 3_000]);
        let behind = (Bound::Excluded(at(1_000)), Bound::Unbounded);
        assert_eq!(millis(&cron, behind), [2_000, 3_000, 4_000, 5_000, 6_000]);
        assert_eq!(millis(&cron, ..at(1_001)), [0, 1_000]);
        assert_eq!(millis(&cron, at(3_000)..at(1_000)), [0; 0]);
        let little = TimeDelta::nanoseconds(1);
        assert_eq!(millis(&cron, at(1_000) + little..at(3_000) + little), [2_000, 3_000]);
    }

    #[test]
    fn an_open_start_is_the_ranges() {
        let thrice = Trigger::every(Duration::from_millis(700)).unwrap().times(3).unwrap();
        assert_eq!(millis(&thrice, at(1_000)..), [1_000, 1_700, 2_400]);
        let since = thrice.anchored(at(200)).unwrap();
        assert_eq!(millis(&since, at(1_000)..), [1_600]);
    }

    #[test]
    fn a_fixed_delay_has_one_that_is_known() {
        let delay = Trigger::fixed_delay(Duration::from_millis(300)).unwrap();
        assert_eq!(millis(&delay, at(1_000)..), [1_000]);
        assert_eq!(millis(&delay.anchored(at(900)).unwrap(), at(1_000)..), [1_300]);
    }
}
