//! The walks of retention: what their steps ask for, and what they come to.

use crate::domain::{JobId, Millis, ScheduleId, Timestamp};

/// One step of a walk over the application's schedules, by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Purge {
    pub application: String,
    /// Only schedules after this one; the walk begins with the empty name.
    pub after: String,
    /// How long ago an occurrence must have ended. A span, not an instant: only the database knows what time
    /// it is, and a host that is wrong about it must not empty the ledger.
    pub keep: Millis,
    /// The most occurrences to remove.
    pub limit: usize,
}

/// What a step of the walk came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Purged {
    /// How many occurrences, one-shot schedules and nodes were removed.
    pub occurrences: usize,
    pub schedules: usize,
    pub nodes: usize,
    /// The next step's `after`; `None` at the walk's end.
    pub next: Option<String>,
}

/// One step of a walk over the enqueued executions, queue by queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueWalk {
    pub application: String,
    pub after: QueuePlace,
    /// As [`Purge::keep`].
    pub keep: Millis,
    /// The most executions to look at.
    pub limit: usize,
}

impl QueueWalk {
    /// What ended before this goes. Claims of the job count towards a rate for `span`, and stay as long.
    pub(crate) fn before(&self, now: Timestamp, span: Millis) -> Timestamp {
        now.saturating_sub(if span == 0 { self.keep } else { self.keep.max(span) })
    }
}

/// Behind this origin in the queue of the job with this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuePlace {
    pub job: JobId,
    pub origin: i64,
}

impl QueuePlace {
    /// Before all queues.
    pub(crate) const FIRST: Self = Self { job: JobId(i64::MIN), origin: i64::MIN };

    /// Behind a job's whole queue.
    pub(crate) fn behind(job: JobId) -> Self {
        Self { job, origin: i64::MAX }
    }
}

/// What a step of that walk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PurgedQueues {
    pub executions: usize,
    /// The next step's `after`; `None` at the walk's end.
    pub next: Option<QueuePlace>,
}

/// One step of a walk over the executions without a schedule, by the schedule's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrphanWalk {
    pub application: String,
    /// Only schedules after this one; the walk begins with the lowest number.
    pub after: ScheduleId,
    /// As [`Purge::keep`].
    pub keep: Millis,
    /// The most executions to remove.
    pub limit: usize,
}

/// What a step of that walk came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PurgedOrphans {
    pub executions: usize,
    /// The next step's `after`; `None` at the walk's end.
    pub next: Option<ScheduleId>,
}
