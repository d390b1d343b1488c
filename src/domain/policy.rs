//! A job's name, and its policy: limits, retries, recovery.

use std::borrow::Cow;
use std::time::Duration;

use super::shards::mixed;
use super::{Bounds, ExecutionId, Millis, Timestamp};

/// The most characters of an error's text that are kept.
pub(crate) const LONGEST_ERROR: usize = 4_000;

/// When, and how often, an execution that failed is tried again: for [`Job::retry`](crate::Job::retry).
///
/// Failures alone count: neither deaths of nodes nor snoozes use up retries or lengthen pauses.
///
/// ```
/// use firetime::Retry;
/// use std::time::Duration;
///
/// const FIVE: Retry = Retry::fixed(Duration::from_secs(30)).at_most(5);
/// // After 1 s, 2 s, 4 s and so on up to 10 minutes, each pause up to a fifth shorter, ten times.
/// const GROWING: Retry =
///     Retry::exponential(Duration::from_secs(1), Duration::from_secs(600)).jitter(20).at_most(10);
/// # let _ = (FIVE, GROWING);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub(crate) at_most: u32,
    pub(crate) first: Duration,
    pub(crate) cap: Duration,
    /// Percent.
    pub(crate) jitter: u32,
}

impl Retry {
    /// No retries.
    pub(crate) const NONE: Self = Self { at_most: 0, first: Duration::ZERO, cap: Duration::ZERO, jitter: 0 };
    const AT_MOST: u32 = 10;

    /// A pause of `delay` after each failure. Kept to the millisecond; zero is allowed.
    #[must_use]
    pub const fn fixed(delay: Duration) -> Self {
        Self::exponential(delay, delay)
    }

    /// A pause of `first` after the first failure, and twice as long after each further one, up to `cap`.
    #[must_use]
    pub const fn exponential(first: Duration, cap: Duration) -> Self {
        Self { at_most: Self::AT_MOST, first, cap, jitter: 0 }
    }

    /// Shortens each pause by a part of its own, up to `percent` of it, so that what failed together is not
    /// tried again together. Default: 0; at most 100.
    #[must_use]
    pub const fn jitter(mut self, percent: u32) -> Self {
        self.jitter = if percent > 100 { 100 } else { percent };
        self
    }

    /// At most so many retries of one occurrence. Default: 10; 0 is none.
    #[must_use]
    pub const fn at_most(mut self, retries: u32) -> Self {
        self.at_most = retries;
        self
    }

    /// When the execution that failed at `now`, as the occurrence's failure of this number, is tried again;
    /// `own` is the pause that its handler named.
    pub(crate) fn due(
        &self,
        execution: ExecutionId,
        failures: u32,
        own: Option<Duration>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let pause = || own.map_or_else(|| self.pause(execution, failures), millis);
        (failures <= self.at_most).then(|| now.saturating_add(pause()))
    }

    fn pause(&self, execution: ExecutionId, failures: u32) -> Millis {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        let grown = millis(self.first.saturating_mul(doubled).min(self.cap.max(self.first)));
        let most = grown / 100 * i64::from(self.jitter) + grown % 100 * i64::from(self.jitter) / 100;
        // Any other execution, and any other failure, gets another part.
        let spread = mixed(execution.0.wrapping_add(i64::from(failures) << 48).cast_unsigned());
        grown - i64::try_from(spread % (most.unsigned_abs().saturating_add(1))).unwrap_or(0)
    }
}

fn millis(span: Duration) -> Millis {
    Millis::try_from(span.as_millis()).unwrap_or(Millis::MAX)
}

/// A job's policies, stored in QRTZ_JOB so that repair needs no handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobPolicy {
    /// Run an occurrence again whose node died while it ran (at-least-once).
    pub recover: bool,
    /// How many attempts at an occurrence may end with their node's death; at least 1.
    pub max_attempts: u32,
    /// What follows a failure.
    pub retry: Retry,
    /// How long a handler may take.
    pub time_limit: Option<Duration>,
    /// How many of its executions may run at once, and begin within a span of time, on all nodes.
    pub bounds: Bounds,
}

impl JobPolicy {
    /// That of a job that says nothing else.
    pub(crate) const DEFAULT: Self =
        Self { recover: true, max_attempts: 2, retry: Retry::NONE, time_limit: None, bounds: Bounds::NONE };
    /// That of executions whose job's row is missing: nothing is tried again.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has such rows"))]
    pub(crate) const NO_JOB: Self = Self { recover: false, max_attempts: 1, ..Self::DEFAULT };
}

/// What a job's row says of it: its nodes tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobSettings {
    pub policy: JobPolicy,
    /// For people.
    pub description: Cow<'static, str>,
}

/// Settings that say no more than the policy.
impl From<JobPolicy> for JobSettings {
    fn from(policy: JobPolicy) -> Self {
        Self { policy, description: Cow::Borrowed("") }
    }
}

/// What a job is called and how it behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobSpec {
    pub name: String,
    pub settings: JobSettings,
}

impl JobSpec {
    /// A job of this policy, and all else by default.
    pub(crate) fn new(name: &str, policy: JobPolicy) -> Self {
        Self { name: name.to_owned(), settings: policy.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ExecutionId = ExecutionId(7);

    #[test]
    fn the_last_failure_is_not_followed_by_a_retry() {
        let fixed = Retry::fixed(Duration::from_millis(70)).at_most(2);
        let due = [1, 2, 3, 4].map(|failures| fixed.due(ID, failures, None, Timestamp::at(1_000)));
        assert_eq!(due, [Some(Timestamp::at(1_070)), Some(Timestamp::at(1_070)), None, None]);
        let own = Some(Duration::from_millis(5));
        assert_eq!(fixed.due(ID, 2, own, Timestamp::at(1_000)), Some(Timestamp::at(1_005)), "its own pause");
        assert_eq!(fixed.due(ID, 3, own, Timestamp::at(1_000)), None, "and no more retries for that");
        assert_eq!(Retry::fixed(Duration::MAX).due(ID, 1, None, Timestamp::at(1_000)), Some(Timestamp::MAX));
        assert_eq!(Retry::NONE.due(ID, 1, None, Timestamp::at(1_000)), None);
    }

    #[test]
    fn pauses_double_up_to_their_cap() {
        let growing = Retry::exponential(Duration::from_secs(1), Duration::from_secs(10)).at_most(u32::MAX);
        let pauses = [1, 2, 3, 4, 5, 6, 40, u32::MAX].map(|failures| growing.pause(ID, failures));
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000]);
        let low = Retry::exponential(Duration::from_secs(5), Duration::from_secs(1));
        assert_eq!(low.pause(ID, 1), 5_000, "a cap below the first pause is none");
    }

    #[test]
    fn jitter_spreads_pauses_over_its_part_alone() {
        let jittered = Retry::fixed(Duration::from_secs(10)).jitter(20);
        let pauses: Vec<Millis> = (0..1_000).map(|id| jittered.pause(ExecutionId(id), 1)).collect();
        let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!((8_000..8_020).contains(least) && (9_980..=10_000).contains(most), "{least} to {most}");
        let mean = pauses.iter().sum::<Millis>() / 1_000;
        assert!((8_900..9_100).contains(&mean), "{mean}");
        assert_eq!(Retry::fixed(Duration::MAX).jitter(1_000).jitter, 100);
    }
}
