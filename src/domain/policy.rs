//! What a job is called, how its executions end, and what follows.

use std::time::Duration;

use super::Millis;

/// The most characters of an error's text that are kept.
pub(crate) const LONGEST_ERROR: usize = 4_000;

/// What a handler's run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed(String),
    /// It failed after it was asked to cancel.
    Cancelled(String),
}

/// A job's policies, stored in QRTZ_JOB so that repair needs no handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobPolicy {
    /// Run an occurrence again whose node died while it ran (at-least-once).
    pub recover: bool,
    /// How many attempts at an occurrence may end with their node's death; at least 1.
    pub max_attempts: u32,
    /// A failure is followed by another attempt below this one; at least 1.
    pub max_tries: u32,
    /// The pause before the next try after a failure.
    pub retry_delay: Duration,
}

impl JobPolicy {
    /// That of a job that says nothing else.
    pub(crate) const DEFAULT: Self =
        Self { recover: true, max_attempts: 2, max_tries: 1, retry_delay: Duration::ZERO };

    /// When an attempt that failed at `now` is followed by another; `None` when it was the last try.
    pub(crate) fn retry_at(&self, attempt: u32, now: Millis) -> Option<Millis> {
        let delay = i64::try_from(self.retry_delay.as_millis()).unwrap_or(i64::MAX);
        (attempt < self.max_tries).then(|| now.saturating_add(delay))
    }
}

/// What a job is called and how it behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobSpec {
    pub name: String,
    pub policy: JobPolicy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_try_is_not_followed_by_another() {
        let policy = |max_tries, delay| JobPolicy {
            max_tries,
            retry_delay: Duration::from_millis(delay),
            ..JobPolicy::DEFAULT
        };
        let due = [1, 2, 3, 4].map(|attempt| policy(3, 70).retry_at(attempt, 1_000));
        assert_eq!(due, [Some(1_070), Some(1_070), None, None]);
        assert_eq!(policy(2, u64::MAX).retry_at(1, 1_000), Some(Millis::MAX));
    }
}
