//! Schedules' rows as values, their occurrences, and executions that may be claimed.

use std::sync::Arc;

use super::{
    Bounds, Cause, ExecutionId, Millis, MisfirePolicy, NextFire, Overlap, PauseAfter, ScheduleId,
    ScheduleState, Timestamp, Token,
};
use crate::trigger::Timing;

/// The priority with which an item's place among the due ones is by its due time alone; Quartz's default.
pub(crate) const DEFAULT_PRIORITY: i32 = 5;

/// Where a schedule stands: the fire time behind it and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cursor {
    pub prev: Option<Timestamp>,
    pub next: NextFire,
}

/// A schedule: one row of QRTZ_EXECUTE, with its trigger parsed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub id: ScheduleId,
    pub name: Arc<str>,
    pub job: Arc<str>,
    /// JSON text, decoded by the job's handler before the claim.
    pub payload: Arc<str>,
    pub state: ScheduleState,
    pub timing: Timing,
    pub cursor: Cursor,
    pub version: i64,
    pub generation: i64,
    pub priority: i32,
    pub misfire: MisfirePolicy,
    /// How far the cursor may fall behind before the misfire handler takes over; milliseconds.
    pub threshold: Millis,
    /// Its job is run again after its node's death.
    pub recover: bool,
    /// How many executions of its job may run at once, and begin within a span of time, on all nodes.
    pub bounds: Bounds,
    /// How long a handler may take, if the schedule says so itself; milliseconds.
    pub time_limit: Option<Millis>,
    /// What becomes of an occurrence that is due while another execution of it has not ended.
    pub overlap: Overlap,
    pub pause_after: PauseAfter,
    /// It is no schedule but the queue of its job, under which enqueued executions are stored.
    pub is_queue: bool,
}

impl Entry {
    /// Whether its cursor is overdue by more than its misfire threshold, or than `least` if that is longer.
    ///
    /// A misfired row belongs to the misfire handler, any other to polls. Both ask here, so that no row
    /// belongs to neither or to both.
    pub(crate) fn is_misfired(&self, now: Timestamp, least: Millis) -> bool {
        let limit = now.saturating_sub(self.threshold.max(least));
        self.is_due_before(limit)
    }

    /// Whether its next occurrence is due before this instant.
    pub(crate) fn is_due_before(&self, instant: Timestamp) -> bool {
        self.cursor.next.at().is_some_and(|next| next < instant)
    }

    /// Whether the clock by which it was planned was beyond `limit`: it has passed an occurrence behind
    /// that, or the run from whose end it counts ended behind it.
    pub(crate) fn is_ahead(&self, limit: Timestamp) -> bool {
        let Cursor { prev, next } = self.cursor;
        if next == NextFire::AfterRun {
            return false;
        }
        let ended = self.timing.delay_ms().zip(next.at()).map(|(delay, next)| next.saturating_sub(delay));
        let counts = next.at() > self.timing.start();
        prev > Some(limit) || counts && ended > Some(limit)
    }
}

/// One planned fire time of a schedule: the cursor move its claim makes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Occurrence {
    pub entry: Arc<Entry>,
    pub prev: Option<Timestamp>,
    pub at: Timestamp,
    pub following: NextFire,
}

impl Occurrence {
    /// The occurrence the entry's cursor points at, if it points at one.
    pub(crate) fn head(entry: &Arc<Entry>) -> Option<Self> {
        let at = entry.cursor.next.at()?;
        Some(Self::new(entry, entry.cursor.prev, at))
    }

    /// The link behind this one; `None` if this is the last, or the next counts from its end.
    pub(crate) fn link(&self) -> Option<Self> {
        let at = self.following.at()?;
        Some(Self::new(&self.entry, Some(self.at), at))
    }

    fn new(entry: &Arc<Entry>, prev: Option<Timestamp>, at: Timestamp) -> Self {
        Self { prev, at, following: entry.timing.behind_run(at), entry: Arc::clone(entry) }
    }
}

/// A PENDING execution as the poll saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    pub id: ExecutionId,
    /// The schedule it belongs to (its cursor is not used).
    pub entry: Arc<Entry>,
    pub scheduled: Timestamp,
    pub due: Timestamp,
    pub attempt: u32,
    pub generation: i64,
    /// 0 = planned; else the manual request that asked for it.
    pub origin: i64,
    /// The token it was seen with; every change of the row changes it.
    pub token: Token,
    pub cause: Cause,
    /// Its own payload and priority, in place of its schedule's.
    pub payload: Option<Arc<str>>,
    pub priority: Option<i32>,
    /// The group that it shares bounds with, and its job's throughput with others.
    pub group: Option<Arc<str>>,
    /// The lane that it runs in on nodes that have it, in place of its job's.
    pub lane: Option<Arc<str>>,
    /// Its headers as its row has them.
    pub headers: Option<Arc<str>>,
    /// How many attempts before it failed, and how often it was snoozed.
    pub failures: u32,
    pub snoozes: u32,
}

/// Something that can be claimed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Candidate {
    Planned(Occurrence),
    Pending(Pending),
}

impl Candidate {
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        match self {
            Self::Planned(occurrence) => &occurrence.entry,
            Self::Pending(pending) => &pending.entry,
        }
    }

    pub(crate) fn due(&self) -> Timestamp {
        match self {
            Self::Planned(occurrence) => occurrence.at,
            Self::Pending(pending) => pending.due,
        }
    }

    fn pending(&self) -> Option<&Pending> {
        if let Self::Pending(pending) = self { Some(pending) } else { None }
    }

    /// Of equally due candidates those with the highest come first.
    pub(crate) fn priority(&self) -> i32 {
        self.pending().and_then(|pending| pending.priority).unwrap_or(self.entry().priority)
    }

    /// Its own lane, in place of its job's.
    pub(crate) fn lane(&self) -> Option<&Arc<str>> {
        self.pending()?.lane.as_ref()
    }

    /// The group that it belongs to. Occurrences of schedules have none.
    pub(crate) fn group(&self) -> Option<&Arc<str>> {
        self.pending()?.group.as_ref()
    }

    /// The schedule of which a batch of claims may hold one candidate at most: each moves its row on.
    /// Enqueued executions have none.
    pub(crate) fn exclusive(&self) -> Option<ScheduleId> {
        let entry = self.entry();
        (!entry.is_queue).then_some(entry.id)
    }
}
