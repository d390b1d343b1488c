//! How many executions of a job may run at once, and begin within a span of time: in all, and of each group.

use std::sync::Arc;

use super::{Millis, Timestamp};

/// The bounds of a job; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Of all its executions together.
    pub job: Bound,
    /// Of the executions of each group. Those without a group have none.
    pub group: Bound,
}

/// How many executions there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    /// At once.
    pub concurrency: Option<u32>,
    /// To begin within a span of time.
    pub rate: Rate,
}

/// How far ahead of its due time, by the database's clock, an execution may be claimed: as far as claims are
/// sent ahead, and as a node's clock may be off.
pub(crate) const MOST_AHEAD: Millis = 300;

/// At most `count` in each span of `per` milliseconds; no bound if either is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rate {
    pub count: u32,
    pub per: Millis,
}

/// The executions that share a bound: those of a job, or of one of its groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BoundOf {
    pub job: Arc<str>,
    pub group: Option<Arc<str>>,
}

/// Whose bound it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundScope {
    Job,
    Group,
}

/// Why another execution may not be claimed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// Which of the two has no room.
    pub scope: BoundScope,
    /// When there is room again; none if an execution has to end first.
    pub until: Option<Timestamp>,
}

impl Bounds {
    pub(crate) const NONE: Self = Self { job: Bound::NONE, group: Bound::NONE };

    pub(crate) const fn is_none(&self) -> bool {
        self.job.is_none() && self.group.is_none()
    }

    /// Whether they apply to executions of this group; to those without a group only the job's do.
    #[cfg(any(feature = "sql", feature = "testing", test))]
    pub(crate) fn apply_to(&self, group: Option<&str>) -> bool {
        !self.job.is_none() || group.is_some()
    }

    /// How long a beginning counts towards a rate.
    #[cfg(any(feature = "sql", feature = "testing", test))]
    pub(crate) fn span(&self) -> Millis {
        let per = |bound: &Bound| bound.rate().map_or(0, |rate| rate.per);
        per(&self.job).max(per(&self.group))
    }
}

impl Rate {
    /// The same rate with one execution at a time: each part of the span has its own.
    pub(crate) const fn evenly(self) -> Self {
        match self.count {
            0 => self,
            count => Self { count: 1, per: self.per.unsigned_abs().div_ceil(count as u64).cast_signed() },
        }
    }
}

impl Bound {
    pub(crate) const NONE: Self = Self { concurrency: None, rate: Rate { count: 0, per: 0 } };

    pub(crate) const fn is_none(&self) -> bool {
        self.concurrency.is_none() && self.rate().is_none()
    }

    pub(crate) const fn rate(&self) -> Option<Rate> {
        if self.rate.count > 0 && self.rate.per > 0 { Some(self.rate) } else { None }
    }

    /// The most that one batch can claim.
    pub(crate) fn most(&self) -> u32 {
        let rate = self.rate().map_or(u32::MAX, |rate| rate.count);
        self.concurrency.unwrap_or(u32::MAX).min(rate)
    }
}
