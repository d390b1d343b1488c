//! When: triggers, and the window of time a schedule keeps them to.
//!
//! Everything here is a pure function of the values it is given. Nothing reads a clock, so
//! "next" always means "next after the instant you name". All instants are epoch milliseconds UTC;
//! no fire time is ever negative, because the database writes "none" as -1.
//!
//! ```text
//! Trigger -- Cron    text -> parse -> CronSpec (bit sets) -> wall-clock time -> Zone -> instant
//!         \- Simple  start + k * interval
//! Timing = Trigger + start + end: what a schedule row asks
//! ```

mod civil;
mod cron;
mod error;
mod simple;
mod timing;
mod zone;

#[cfg(test)]
mod tests;

use chrono::{DateTime, Utc};
use std::time::Duration;

pub use cron::{Cron, Fold, Gap};
pub use error::TriggerError;
pub(crate) use simple::FOR_EVER;
pub use simple::Simple;
pub use timing::Timing;

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
    /// [`TriggerError::NotSimple`] on a cron trigger, [`TriggerError::Simple`] if `count` is 0.
    pub fn times(self, count: u64) -> Result<Trigger, TriggerError> {
        self.simple("times")?.times(count).map(Trigger::Simple)
    }

    /// Puts the first occurrence of a simple trigger at `at` (rounded down to the millisecond).
    /// Default: the moment the schedule is created.
    ///
    /// # Errors
    /// [`TriggerError::NotSimple`] on a cron trigger, [`TriggerError::Simple`] if `at` is before
    /// 1970.
    pub fn starting(self, at: DateTime<Utc>) -> Result<Trigger, TriggerError> {
        self.simple("starting")?.starting(at).map(Trigger::Simple)
    }

    /// Gives a simple trigger that has no start yet the start `start_ms` (epoch milliseconds).
    /// Any other trigger comes back unchanged.
    ///
    /// # Errors
    /// [`TriggerError::Simple`] if the start is needed and negative.
    pub fn anchored(self, start_ms: i64) -> Result<Trigger, TriggerError> {
        match self {
            Trigger::Simple(simple) => simple.anchored(start_ms).map(Trigger::Simple),
            cron => Ok(cron),
        }
    }

    /// The first occurrence strictly after `after_ms`.
    pub(crate) fn next_after(&self, after_ms: i64) -> Option<i64> {
        match self {
            Trigger::Cron(cron) => cron.next_after(after_ms),
            Trigger::Simple(simple) => simple.next_after(after_ms),
        }
    }

    fn simple(self, asked: &'static str) -> Result<Simple, TriggerError> {
        match self {
            Trigger::Simple(simple) => Ok(simple),
            Trigger::Cron(cron) => {
                Err(TriggerError::NotSimple { asked, expression: cron.expression().to_owned() })
            }
        }
    }
}
