//! Triggers, and the window of time a schedule keeps them to.
//!
//! Everything here is a pure function of the values it is given. Nothing reads a clock, so
//! "next" always means "next after the instant you name". Instants are rounded down to the millisecond, in
//! which the engine counts; none is before 1970, because the database writes "none" as -1.
//!
//! ```text
//! Trigger -- Cron    text -> parse -> CronSpec (bit sets) -> wall-clock time -> Zone -> instant
//!         |- Simple  start + k * interval
//!         \- Delay   start, then the end of the last run + delay
//! Timing = Trigger + start + end: what a schedule row asks
//! ```

mod civil;
mod cron;
mod delay;
mod error;
mod fire_times;
mod simple;
mod spans;
mod timing;
mod words;
mod zone;

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use std::time::Duration;

pub use cron::{Cron, Fold, Gap};
pub(crate) use delay::AWAITED;
pub use delay::Delay;
pub use error::TriggerError;
pub(crate) use simple::FOR_EVER;
pub use simple::Simple;
pub(crate) use timing::Timing;

/// The rule that says when a schedule fires.
///
/// ```
/// use firetime::trigger::Trigger;
/// use std::time::Duration;
///
/// let nightly = Trigger::cron("0 30 2 * * ?", "Europe/Berlin")?;
/// let thrice = Trigger::every(Duration::from_secs(10))?.times(3)?;
/// # let _ = (nightly, thrice);
/// # Ok::<(), firetime::trigger::TriggerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trigger {
    /// By the wall clock of a time zone.
    Cron(Cron),
    /// At a fixed interval from a start.
    Simple(Simple),
    /// Always the same delay after the end of the last run.
    Delay(Delay),
}

impl Trigger {
    /// A cron trigger in Quartz's dialect; see [`Cron`] for the grammar.
    ///
    /// `zone` is an IANA name such as `Europe/Berlin` or `UTC`.
    ///
    /// # Errors
    /// As [`Cron::parse`].
    pub fn cron(expression: &str, zone: &str) -> Result<Trigger, TriggerError> {
        Cron::parse(expression, zone).map(Trigger::Cron)
    }

    /// Fires every `interval`, for ever, from the moment the schedule is created unless
    /// [`starting`](Trigger::starting) says otherwise.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `interval` is below one millisecond.
    pub fn every(interval: Duration) -> Result<Trigger, TriggerError> {
        Simple::every(interval).map(Trigger::Simple)
    }

    /// Fires from the moment the schedule is created, unless [`starting`](Trigger::starting) says otherwise,
    /// and then always `delay` after the end of the last run: at least 1 ms, for ever. See [`Delay`].
    ///
    /// The next fire time is not known while a run is under way: until then the schedule has none. A run ends
    /// with its last attempt, also if that was abandoned, cancelled or ran out of time: of that one when its
    /// handler returns.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `delay` is below one millisecond.
    ///
    /// ```
    /// use firetime::trigger::Trigger;
    /// use std::time::Duration;
    ///
    /// let import = Trigger::fixed_delay(Duration::from_secs(60))?;
    /// # let _ = import;
    /// # Ok::<(), firetime::trigger::TriggerError>(())
    /// ```
    pub fn fixed_delay(delay: Duration) -> Result<Trigger, TriggerError> {
        Delay::after(delay).map(Trigger::Delay)
    }

    /// Fires once, at `at` (rounded down to the millisecond). Another `at` is another trigger, for a schedule
    /// that has fired, too.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if `at` is before 1970.
    ///
    /// ```
    /// use firetime::trigger::Trigger;
    /// let at = "2030-01-01T00:00:00Z".parse().unwrap();
    /// assert!(Trigger::once(at).is_ok());
    /// ```
    pub fn once(at: DateTime<Utc>) -> Result<Trigger, TriggerError> {
        Simple::once(at).map(Trigger::Simple)
    }

    /// Limits a simple trigger to `count` occurrences in total (at least 1). Default: no limit.
    ///
    /// # Errors
    /// [`TriggerError::NotSimple`] on a cron trigger or a fixed delay, [`TriggerError::Simple`] if `count`
    /// is 0.
    pub fn times(self, count: u64) -> Result<Trigger, TriggerError> {
        match self {
            Trigger::Simple(simple) => simple.times(count).map(Trigger::Simple),
            other => Err(other.has_no("times")),
        }
    }

    /// Puts the first occurrence of a simple trigger or a fixed delay at `at` (rounded down to the
    /// millisecond). Default: the moment the schedule is created.
    ///
    /// # Errors
    /// [`TriggerError::NotSimple`] on a cron trigger, [`TriggerError::Simple`] if `at` is before
    /// 1970.
    pub fn starting(self, at: DateTime<Utc>) -> Result<Trigger, TriggerError> {
        match self {
            Trigger::Simple(simple) => simple.starting(at).map(Trigger::Simple),
            Trigger::Delay(delay) => delay.starting(at).map(Trigger::Delay),
            cron @ Trigger::Cron(_) => Err(cron.has_no("starting")),
        }
    }

    /// Gives a simple trigger or a fixed delay that has no start yet this one (rounded down to the
    /// millisecond), as a schedule does when it is made. Any other trigger comes back unchanged.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if the start is needed and before 1970.
    pub fn anchored(self, at: DateTime<Utc>) -> Result<Trigger, TriggerError> {
        self.anchored_ms(at.timestamp_millis())
    }

    pub(crate) fn anchored_ms(self, start_ms: i64) -> Result<Trigger, TriggerError> {
        match self {
            Trigger::Simple(simple) => simple.anchored_ms(start_ms).map(Trigger::Simple),
            Trigger::Delay(delay) => delay.anchored_ms(start_ms).map(Trigger::Delay),
            cron @ Trigger::Cron(_) => Ok(cron),
        }
    }

    /// The first occurrence strictly after `after_ms`; of a fixed delay, if no run takes any time.
    pub(crate) fn next_after(&self, after_ms: i64) -> Option<i64> {
        match self {
            Trigger::Cron(cron) => cron.next_after_ms(after_ms),
            Trigger::Simple(simple) => simple.next_after(after_ms),
            Trigger::Delay(delay) => delay.next_after(after_ms),
        }
    }

    /// When it starts, if it says so.
    pub(crate) fn start_ms(&self) -> Option<i64> {
        match self {
            Trigger::Cron(_) => None,
            Trigger::Simple(simple) => simple.start_ms(),
            Trigger::Delay(delay) => delay.start_ms(),
        }
    }

    /// Of what fires at a fixed interval while nothing is run: how long that is, milliseconds.
    fn interval_ms(&self) -> Option<i64> {
        match self {
            Trigger::Cron(_) => None,
            Trigger::Simple(simple) => Some(simple.interval_ms()),
            Trigger::Delay(delay) => Some(delay.delay_ms()),
        }
    }

    fn has_no(&self, asked: &'static str) -> TriggerError {
        let trigger = match self {
            Trigger::Cron(cron) => format!("cron trigger `{}`", cron.expression()),
            Trigger::Simple(_) => "simple trigger".to_owned(),
            Trigger::Delay(delay) => format!("fixed delay of {} ms", delay.delay_ms()),
        };
        TriggerError::NotSimple { asked, trigger }
    }
}
