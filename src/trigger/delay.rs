use super::TriggerError;
use super::spans::{span, utc};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// The next fire time of a schedule whose occurrence is run, if that one counts from the run's end: the last
/// instant that has a date of four digits, 9999-12-31 23:59:59.999 UTC. It is none for people.
pub(crate) const AWAITED: i64 = 253_402_300_799_999;

/// Fires first at its start, and then always the same delay after the end of the last run.
///
/// The end is that of the last attempt: a retry, a recovery or a snooze belongs to the run. An occurrence
/// that is skipped takes no time: the next is a delay behind it.
///
/// ```
/// use firetime::trigger::Delay;
/// use std::time::Duration;
///
/// let delay = Delay::after(Duration::from_secs(10))?;
/// assert_eq!((delay.start(), delay.delay()), (None, Duration::from_secs(10)));
/// # Ok::<(), firetime::trigger::TriggerError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Delay {
    start_ms: Option<i64>,
    delay_ms: i64,
}

impl Delay {
    /// The trigger from its two numbers, as a database row holds them.
    ///
    /// `start_ms` is epoch milliseconds, not negative; `None` means the moment the schedule is created.
    /// `delay_ms` is at least 1.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] names the number that is out of range.
    pub(crate) fn new(start_ms: Option<i64>, delay_ms: i64) -> Result<Delay, TriggerError> {
        let refuse = |field, value, problem| Err(TriggerError::Simple { field, value, problem });
        if let Some(start @ ..0) = start_ms {
            return refuse("start", start, "it must not be before 1970 (epoch millisecond 0)");
        }
        if delay_ms < 1 {
            return refuse("delay", delay_ms, "it needs at least 1 ms");
        }
        Ok(Delay { start_ms, delay_ms })
    }

    /// A delay, with the start still open. Fractions of a millisecond are dropped; a delay beyond 292 million
    /// years counts as that.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `delay` is below one millisecond.
    pub fn after(delay: Duration) -> Result<Delay, TriggerError> {
        Delay::new(None, i64::try_from(delay.as_millis()).unwrap_or(i64::MAX))
    }

    /// The same trigger with its first occurrence at `at` (rounded down to the millisecond).
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `at` is before 1970.
    pub fn starting(self, at: DateTime<Utc>) -> Result<Delay, TriggerError> {
        Delay::new(Some(at.timestamp_millis()), self.delay_ms)
    }

    /// The same trigger with this start, unless it has one already.
    pub(crate) fn anchored_ms(self, start_ms: i64) -> Result<Delay, TriggerError> {
        Delay::new(self.start_ms.or(Some(start_ms)), self.delay_ms)
    }

    /// The first occurrence; `None` while it is still open.
    pub fn start(&self) -> Option<DateTime<Utc>> {
        self.start_ms.and_then(utc)
    }

    /// The span between the end of a run and the next occurrence.
    pub fn delay(&self) -> Duration {
        span(self.delay_ms)
    }

    pub(crate) fn start_ms(&self) -> Option<i64> {
        self.start_ms
    }

    pub(crate) fn delay_ms(&self) -> i64 {
        self.delay_ms
    }

    /// The first occurrence strictly after `after_ms`, at which a run ended that was the last.
    pub(super) fn next_after(&self, after_ms: i64) -> Option<i64> {
        let start = self.start_ms?;
        if after_ms < start { Some(start) } else { after_ms.checked_add(self.delay_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_is_a_delay_behind_an_end_and_never_before_the_start() {
        let delay = Delay::new(Some(1_000), 300).unwrap();
        assert_eq!(delay.next_after(-1), Some(1_000));
        assert_eq!(delay.next_after(999), Some(1_000));
        assert_eq!(delay.next_after(1_000), Some(1_300));
        assert_eq!(delay.next_after(1_299), Some(1_599));
        assert_eq!(delay.next_after(i64::MAX), None);
        assert_eq!(Delay::after(Duration::MAX).unwrap().next_after(0), None, "it is not anchored");
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
        let message = |start, delay| Delay::new(start, delay).unwrap_err().to_string();
        assert!(message(Some(-1), 1).contains("start is -1"));
        assert!(message(None, 0).contains("delay is 0"));
        assert!(Delay::after(Duration::from_micros(999)).is_err());
        assert!(Delay::after(Duration::MAX).unwrap().starting(DateTime::<Utc>::MIN_UTC).is_err());
    }
}
