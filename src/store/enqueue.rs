//! Executions that are enqueued: each is one row of QRTZ_RUN, without a schedule of its own.
//!
//! They are stored under the queue of their job: a row of QRTZ_EXECUTE that never fires, made with the first
//! of them. So a query that joins executions with their schedules finds a name, a job and settings there.
//! Nothing locks or changes that row: each execution is claimed by itself, and its fence counts its own
//! claims.

use std::sync::Arc;

use super::change::Replacement;
use super::columns::{NO_PRIORITY, NONE, QUEUE, Settings, When};
use super::definition::Definition;
use super::news::{News, Notifier};
use super::when;
use crate::domain::headers::{self, Headers};
use crate::domain::{Boot, ExecutionId, JobId, JobSpec, Millis, ScheduleState, Timestamp, Token};
use crate::trigger::{Timing, TriggerError};

/// The names of queues begin with it, those of schedules never.
pub(crate) const QUEUE_PREFIX: &str = "queue:";
/// The most tags of an execution.
pub(crate) const MOST_TAGS: usize = 10;
/// The most executions of one [`EnqueueOrder`].
pub(crate) const MOST_AT_ONCE: usize = 100_000;

/// The bits of chance in an origin.
const BITS: u32 = 21;
const CHANCE: u128 = (1 << BITS) - 1;
/// What fits into the others: a day in 2109.
const LAST_MILLI: Millis = (1 << 42) - 1;

/// The origins of enqueued executions are higher, those of executions that somebody asked for lower. By this
/// the column `queue` of the tables tells them apart.
pub(crate) const HIGHEST_BY_HAND: i64 = 1 << 60;

/// The name of a job's queue.
pub(crate) fn queue_of(job: &str) -> String {
    format!("{QUEUE_PREFIX}{job}")
}

/// When an enqueued execution is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueAt {
    Instant(Timestamp),
    /// So long after it is stored.
    After(Millis),
}

/// Executions of a job that are enqueued together, at most [`MOST_AT_ONCE`].
#[derive(Clone, Debug)]
pub(crate) struct EnqueueOrder {
    pub application: String,
    pub job: JobSpec,
    /// JSON, one for each.
    pub payloads: Vec<String>,
    /// One for each, or none at all; an empty one is none.
    pub groups: Vec<String>,
    /// The lane that they run in on nodes that have it; an empty one is that of their job.
    pub lane: String,
    /// By which people find them.
    pub tags: Vec<String>,
    pub headers: Headers,
    pub due: DueAt,
    pub priority: Option<i32>,
    /// Of one execution.
    pub key: Option<UniqueKey>,
    /// Bounds what nodes are told; for the rest they look.
    pub notifier: Arc<Notifier>,
}

/// The origin of the first of some executions that are enqueued now; the others' follow it. By it they are
/// told from all others of the same job and due time, and found from the oldest on. It is the time in
/// milliseconds, and 21 bits of `chance`; if others have drawn the same, the database refuses it.
pub(crate) fn first_origin(now: Timestamp, chance: u128) -> i64 {
    let chance = i64::try_from(chance & CHANCE).unwrap_or(0);
    (now.millis().clamp(0, LAST_MILLI) << BITS | chance).max(1)
}

/// The first origins that are drawn before this instant are smaller; the later ones of many that were
/// enqueued together shortly before may not be.
pub(crate) fn origins_before(instant: Timestamp) -> i64 {
    first_origin(instant, 0)
}

/// What becomes of an execution whose key another keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// It is not stored; the answer names the one that has the key:
    /// [`Enqueued::Existing`](crate::Enqueued::Existing).
    #[default]
    Existing,
    /// The execution that has the key and waits takes over this request's payload, due time, priority, lane,
    /// group, tags and headers.
    /// Once it was claimed, it is left as it is, as with [`OnConflict::Existing`].
    Replace,
    /// As [`OnConflict::Existing`], but an error: [`ErrorKind::Conflict`](crate::ErrorKind::Conflict).
    Reject,
}

/// A unique key: at most one unfinished execution of a job has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UniqueKey {
    pub key: String,
    /// Only among those that are due in the same period of so many milliseconds, counted from the epoch.
    pub per: Option<Millis>,
    pub on_conflict: OnConflict,
}

impl UniqueKey {
    /// When the period of a due time begins; [`NONE`] where the key is for all times.
    pub(crate) fn period(&self, due: Timestamp) -> Millis {
        self.per.map_or(NONE, |per| due.saturating_sub(due.millis().rem_euclid(per.max(1))).millis())
    }
}

/// The answer to an [`EnqueueOrder`] with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyed {
    Created(ExecutionId),
    /// This one keeps the key.
    Existing(ExecutionId),
    Replaced(ExecutionId),
}

/// The tags that an execution's row has; none if somebody wrote there what nobody can read.
pub(crate) fn read_tags(column: Option<&str>) -> Vec<String> {
    column.and_then(|column| serde_json::from_str(column).ok()).unwrap_or_default()
}

/// What every queue's row says.
pub(crate) struct QueueRow {
    pub name: String,
    pub settings: Settings,
    pub when: When,
}

impl QueueRow {
    /// The queue of the job whose row this is. In its state PENDING executions may be claimed, and nothing is
    /// planned.
    pub(crate) const STATE: ScheduleState = ScheduleState::Complete;

    pub(crate) fn new(job: &JobSpec, id: JobId) -> Result<Self, TriggerError> {
        let definition = Definition::new(&queue_of(&job.name), &job.name, when::of_queue()?);
        let timing = Timing::new(definition.trigger.clone(), None, None)?;
        let when = When { job_type: QUEUE.to_owned(), ..When::of(&timing) };
        Ok(Self { settings: definition.settings(id), when, name: definition.name })
    }
}

impl EnqueueOrder {
    /// What nodes are told of it if it is stored now: nothing if it is due at `due` where it is `now` and
    /// their next polls bring it in time, or if they were told of others just before.
    pub(crate) fn news(&self, due: Timestamp, now: Timestamp, boot: Boot) -> News {
        /// More than a poll interval and the difference of two clocks.
        const SOON: Millis = 90_000;
        News { work: due < now + SOON && self.notifier.is_due(boot), ..News::default() }
    }

    /// The group of one of them.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn group(&self, place: usize) -> Option<Arc<str>> {
        let group = self.groups.get(place).filter(|group| !group.is_empty());
        group.map(|group| group.as_str().into())
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn lane(&self) -> Option<Arc<str>> {
        (!self.lane.is_empty()).then(|| self.lane.as_str().into())
    }

    /// What an execution that waits under this token takes over from the first of these, due at `due`.
    pub(crate) fn replacing(&self, execution: ExecutionId, token: Token, due: Timestamp) -> Replacement {
        Replacement {
            execution,
            token,
            fresh: Token::fresh(),
            due,
            payload: self.payloads.first().map_or("null", String::as_str).to_owned(),
            priority: self.priority,
            group: self.groups.first().filter(|group| !group.is_empty()).cloned(),
            lane: (!self.lane.is_empty()).then(|| self.lane.clone()),
            tags: self.tags_column(),
            headers: headers::column(&self.headers),
        }
    }

    /// The priority, or [`NO_PRIORITY`].
    pub(crate) fn priority_column(&self) -> i64 {
        self.priority.map_or(NO_PRIORITY, i64::from)
    }

    /// The tags as an execution's row has them: as a JSON array, or none.
    pub(crate) fn tags_column(&self) -> Option<String> {
        (!self.tags.is_empty()).then(|| serde_json::json!(self.tags).to_string())
    }

    /// When an execution is due that is stored at `now`.
    pub(crate) fn due(&self, now: Timestamp) -> Timestamp {
        match self.due {
            DueAt::Instant(at) => at,
            DueAt::After(delay) => now.saturating_add(delay),
        }
    }

    /// The instant and the delay as a statement takes them: one of them, and none for the other.
    pub(crate) fn due_columns(&self) -> (Millis, Millis) {
        match self.due {
            DueAt::Instant(at) => (at.millis(), 0),
            DueAt::After(delay) => (NONE, delay),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_follow_the_time_and_are_numbers_above_zero() {
        let (early, late) = (
            first_origin(Timestamp::at(1_767_225_600_000), u128::MAX),
            first_origin(Timestamp::at(1_767_225_600_001), 0),
        );
        assert!(0 < early && early < late, "{early} {late}");
        assert!(
            [Timestamp::MIN, Timestamp::at(0), Timestamp::MAX]
                .into_iter()
                .all(|now| first_origin(now, 0) > 0)
        );
        assert_eq!(early >> BITS, 1_767_225_600_000);
        assert!(early > HIGHEST_BY_HAND);
        let queue = format!("queue BIGINT GENERATED ALWAYS AS (CASE WHEN origin >= {HIGHEST_BY_HAND} THEN");
        for schema in [
            include_str!("../../migrations/sqlite/0001_tables.sql"),
            include_str!("../../migrations/postgres/0001_tables.sql"),
            include_str!("../../migrations/mysql/0001_tables.sql"),
        ] {
            assert!(schema.contains(&queue));
        }
    }
}
