use super::TriggerError;
use super::spans::{span, utc};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// Quartz's "for ever".
pub(crate) const FOR_EVER: i64 = -1;

/// Fires at `start + k * interval` for `k` from 0 to the repeat count.
///
/// The repeat count is Quartz's: the repeats *after* the first occurrence; with 0 it fires once, without one
/// for ever. An occurrence that was planned but skipped still counts.
///
/// ```
/// use firetime::trigger::Simple;
/// use std::time::Duration;
///
/// let simple = Simple::every(Duration::from_secs(10))?.times(3)?;
/// assert_eq!((simple.interval(), simple.repeat_count()), (Duration::from_secs(10), Some(2)));
/// assert_eq!(simple.start(), None);
/// # Ok::<(), firetime::trigger::TriggerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Simple {
    start_ms: Option<i64>,
    interval_ms: i64,
    repeat_count: i64,
}

impl Simple {
    /// The trigger from its three numbers, as a database row holds them.
    ///
    /// `start_ms` is epoch milliseconds, not negative; `None` means the moment the schedule is
    /// created. `interval_ms` is at least 1, or anything from 0 if `repeat_count` is 0.
    /// `repeat_count` is at least -1.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] names the number that is out of range.
    pub(crate) fn new(
        start_ms: Option<i64>,
        interval_ms: i64,
        repeat_count: i64,
    ) -> Result<Simple, TriggerError> {
        let refuse = |field, value, problem| Err(TriggerError::Simple { field, value, problem });
        if let Some(start @ ..0) = start_ms {
            return refuse("start", start, "it must not be before 1970 (epoch millisecond 0)");
        }
        if repeat_count < FOR_EVER {
            return refuse("repeat count", repeat_count, "write -1 (for ever), 0 (once) or more");
        }
        if interval_ms < 0 || (interval_ms == 0 && repeat_count != 0) {
            return refuse("interval", interval_ms, "a repeated trigger needs at least 1 ms");
        }
        Ok(Simple { start_ms, interval_ms, repeat_count })
    }

    /// Every `interval` for ever, with the start still open. Fractions of a millisecond are
    /// dropped; an interval beyond 292 million years counts as that.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `interval` is below one millisecond.
    pub fn every(interval: Duration) -> Result<Simple, TriggerError> {
        let interval_ms = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        Simple::new(None, interval_ms, FOR_EVER)
    }

    /// Once, at `at` (rounded down to the millisecond).
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `at` is before 1970.
    pub fn once(at: DateTime<Utc>) -> Result<Simple, TriggerError> {
        Simple::new(Some(at.timestamp_millis()), 0, 0)
    }

    /// The same trigger with `count` occurrences in total (at least 1): `count - 1` repeats.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `count` is 0, or above 1 for a trigger without an interval.
    pub fn times(self, count: u64) -> Result<Simple, TriggerError> {
        match count.checked_sub(1) {
            Some(repeats) => {
                let repeats = i64::try_from(repeats).unwrap_or(i64::MAX);
                Simple::new(self.start_ms, self.interval_ms, repeats)
            }
            None => {
                Err(TriggerError::Simple { field: "number of times", value: 0, problem: "write 1 or more" })
            }
        }
    }

    /// The same trigger with its first occurrence at `at` (rounded down to the millisecond).
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `at` is before 1970.
    pub fn starting(self, at: DateTime<Utc>) -> Result<Simple, TriggerError> {
        Simple::new(Some(at.timestamp_millis()), self.interval_ms, self.repeat_count)
    }

    /// The same trigger with this start, unless it has one already.
    pub(crate) fn anchored_ms(self, start_ms: i64) -> Result<Simple, TriggerError> {
        Simple::new(self.start_ms.or(Some(start_ms)), self.interval_ms, self.repeat_count)
    }

    /// The first occurrence; `None` while it is still open.
    pub fn start(&self) -> Option<DateTime<Utc>> {
        self.start_ms.and_then(utc)
    }

    /// The span between occurrences; zero for a trigger that fires once.
    pub fn interval(&self) -> Duration {
        span(self.interval_ms)
    }

    pub(crate) fn start_ms(&self) -> Option<i64> {
        self.start_ms
    }

    pub(crate) fn interval_ms(&self) -> i64 {
        self.interval_ms
    }

    /// How often it repeats after the first occurrence: 0 if it fires once, `None` if it repeats for ever.
    pub fn repeat_count(&self) -> Option<u64> {
        u64::try_from(self.repeat_count).ok()
    }

    /// The same as a row holds it: [`FOR_EVER`] or at least 0.
    pub(crate) fn stored_repeat_count(&self) -> i64 {
        self.repeat_count
    }

    /// The first occurrence strictly after `after_ms`. Only an anchored trigger has any, which
    /// [`Timing`](super::Timing) makes sure of.
    pub(super) fn next_after(&self, after_ms: i64) -> Option<i64> {
        let start = self.start_ms?;
        if after_ms < start {
            return Some(start);
        }
        if self.repeat_count == 0 {
            return None;
        }
        // start >= 0 and after >= start: the subtraction cannot overflow; the rest is checked.
        let repeat = ((after_ms - start) / self.interval_ms).checked_add(1)?;
        let planned = self.repeat_count == FOR_EVER || repeat <= self.repeat_count;
        planned.then(|| start.checked_add(repeat.checked_mul(self.interval_ms)?))?
    }

    /// Its occurrences from `from_ms` to `to_ms`, both included.
    pub(super) fn fire_times(&self, from_ms: i64, to_ms: i64) -> impl Iterator<Item = i64> + use<> {
        let Simple { start_ms, interval_ms, repeat_count } = *self;
        let repeats = if repeat_count == FOR_EVER { i64::MAX } else { repeat_count };
        let first =
            move |start: i64| from_ms.saturating_sub(start).max(0).checked_div(interval_ms).unwrap_or(0);
        let numbers = start_ms.into_iter().flat_map(move |start| {
            let times = (first(start)..=repeats)
                .map(move |number| number.checked_mul(interval_ms)?.checked_add(start));
            times.map_while(|at| at)
        });
        numbers.skip_while(move |at| *at < from_ms).take_while(move |at| *at <= to_ms)
    }

    /// The last occurrence up to `until_ms`, inclusive.
    pub(super) fn last_through(&self, until_ms: i64) -> Option<i64> {
        let start = self.start_ms.filter(|start| *start <= until_ms)?;
        let most = if self.repeat_count == FOR_EVER { i64::MAX } else { self.repeat_count };
        // start >= 0, and the result is at most `until_ms`: nothing can overflow.
        let repeats = (until_ms - start).checked_div(self.interval_ms).unwrap_or(0).min(most);
        Some(start + repeats * self.interval_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple(start: i64, interval: i64, repeats: i64) -> Simple {
        Simple::new(Some(start), interval, repeats).unwrap()
    }

    fn all(simple: Simple) -> Vec<i64> {
        std::iter::successors(simple.next_after(-1), |at| simple.next_after(*at)).collect()
    }

    #[test]
    fn repeat_count_counts_the_repeats_after_the_first() {
        assert_eq!(all(simple(100, 10, 0)), [100]);
        assert_eq!(all(simple(100, 10, 1)), [100, 110]);
        assert_eq!(all(simple(100, 10, 3)), [100, 110, 120, 130]);
    }

    #[test]
    fn times_counts_all_occurrences() {
        let thrice = Simple::every(Duration::from_millis(7)).unwrap().times(3).unwrap();
        assert_eq!(all(thrice.anchored_ms(50).unwrap()), [50, 57, 64]);
        assert_eq!(all(thrice.times(1).unwrap().anchored_ms(50).unwrap()), [50]);
        assert!(thrice.times(0).is_err());
    }

    #[test]
    fn next_is_strictly_after_and_never_drifts() {
        let s = simple(1_000, 300, -1);
        assert_eq!(s.next_after(999), Some(1_000));
        assert_eq!(s.next_after(1_000), Some(1_300));
        assert_eq!(s.next_after(1_299), Some(1_300));
        assert_eq!(s.next_after(1_300), Some(1_600));
        assert_eq!(s.next_after(1_000_000_000), Some(1_000_000_300));
    }

    #[test]
    fn the_ends_of_i64_do_not_overflow() {
        assert_eq!(simple(0, 1, -1).next_after(i64::MAX), None);
        assert_eq!(simple(0, 1, -1).next_after(i64::MIN), Some(0));
        assert_eq!(simple(0, i64::MAX, -1).next_after(0), Some(i64::MAX));
        assert_eq!(simple(1, i64::MAX, -1).next_after(1), None);
        assert_eq!(simple(i64::MAX, 1, -1).next_after(0), Some(i64::MAX));
        assert_eq!(simple(i64::MAX, 1, -1).next_after(i64::MAX), None);
        assert_eq!(simple(0, 1, i64::MAX).next_after(i64::MAX - 1), Some(i64::MAX));
    }

    #[test]
    fn the_last_occurrence_up_to_an_instant_is_reckoned() {
        for s in [simple(100, 10, 0), simple(100, 10, 3), simple(100, 7, -1), simple(100, 0, 0)] {
            for until in 90..160 {
                let walked = std::iter::successors(s.next_after(-1), |at| s.next_after(*at));
                assert_eq!(
                    s.last_through(until),
                    walked.take_while(|at| *at <= until).last(),
                    "{s:?} {until}"
                );
            }
        }
        assert_eq!(simple(0, 1, -1).last_through(i64::MAX), Some(i64::MAX));
        assert_eq!(simple(1, i64::MAX, -1).last_through(i64::MAX), Some(1));
        assert_eq!(simple(0, 1, -1).last_through(i64::MIN), None);
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let message =
            |start, interval, repeats| Simple::new(start, interval, repeats).unwrap_err().to_string();
        assert!(message(Some(-1), 1, 0).contains("start is -1"));
        assert!(message(None, 0, -1).contains("interval is 0"));
        assert!(message(None, 0, 5).contains("interval is 0"));
        assert!(message(None, -5, 0).contains("interval is -5"));
        assert!(message(None, 1, -2).contains("repeat count is -2"));
        assert!(Simple::every(Duration::from_micros(999)).is_err());
        assert!(Simple::once(DateTime::<Utc>::MIN_UTC).is_err());
        assert!(Simple::once(DateTime::UNIX_EPOCH).unwrap().times(2).is_err());
    }

    #[test]
    fn an_anchor_is_set_once() {
        let s = Simple::every(Duration::MAX).unwrap();
        assert_eq!(s.start_ms(), None);
        assert_eq!(s.next_after(0), None);
        let s = s.anchored_ms(5).unwrap().anchored_ms(9).unwrap();
        assert_eq!(s.start_ms(), Some(5));
        assert_eq!(s.starting(DateTime::UNIX_EPOCH).unwrap().start_ms(), Some(0));
    }
}
