//! The words of the scheduler as types: ids, states, schedules' rows, occurrences, outcomes.
//!
//! Instants are epoch milliseconds UTC ([`Millis`]) inside the crate and `DateTime<Utc>` at its edge.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::schedule::Timing;

/// Epoch milliseconds UTC, in database time unless a name says otherwise.
pub(crate) type Millis = i64;

/// The row id of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScheduleId(pub(crate) i64);

/// The row id of an execution: one attempt at one occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExecutionId(pub(crate) i64);

impl ScheduleId {
    /// The number stored in `QRTZ_EXECUTE.id`.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl ExecutionId {
    /// The number stored in `QRTZ_RUN.id`.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for ScheduleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One running incarnation of a node: fresh for every start, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) Uuid);

impl NodeId {
    pub(crate) fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    /// The name a process goes on under once this one is over: one more, so that its descent can be seen.
    pub(crate) fn next_incarnation(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().wrapping_add(1)))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for NodeId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// A claim token: made before a claim's transaction, it answers "who won?" when a commit's fate is unknown.
/// It is no secret: who draws a fresh one may count on from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Token(pub(crate) Uuid);

impl Token {
    pub(crate) fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    pub(crate) fn next(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().wrapping_add(1)))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// Defines an enum of states with the text each has in the database.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The text stored in the database.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(UnknownWord { kind: stringify!($name), text: text.to_owned() }),
                }
            }
        }
    };
}

/// A word that is none of an enum's values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}")]
pub struct UnknownWord {
    kind: &'static str,
    text: String,
}

states! {
    /// The state of a schedule's row (`QRTZ_EXECUTE.state`).
    ScheduleState {
        /// Made by another tool and not released yet; read, never written by firetime.
        Init = "INIT",
        /// Active: it fires. Quartz calls this state EXECUTING.
        Active = "EXECUTING",
        /// Paused by an operator or a client: planned occurrences are not claimed.
        Paused = "PAUSED",
        /// Exhausted: no fire time is left.
        Complete = "COMPLETE",
        /// Quarantined: the row cannot be understood; the reason is stored beside it.
        Error = "ERROR",
    }
}

impl ScheduleState {
    /// The word shown to people: `active` where the database says EXECUTING.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Complete => "complete",
            Self::Error => "error",
        }
    }
}

states! {
    /// The state of an execution (`QRTZ_RUN.state`).
    ///
    /// ```text
    ///            +----------------- give back, repair ----------------+
    ///            v                                                    |
    ///  (planned claim) --> CLAIMED --------- start --------> RUNNING -+-> SUCCEEDED
    ///        |                ^                                 ^     +-> FAILED
    ///        |                | claim                           |     +-> TIMED_OUT
    ///        |   PENDING -----+------ claim for an idle thread -+     +-> CANCELLED
    ///        |      |                                           |     +-> ABANDONED (its node died)
    ///        |      +--> SKIPPED (superseded), CANCELLED        |
    ///        +--------- claim for an idle thread ---------------+
    /// ```
    ExecutionState {
        /// Nobody's yet: a hand-off, a retry, a repair's work.
        Pending = "PENDING",
        /// Owned by a node, not started.
        Claimed = "CLAIMED",
        /// Owned by a node that has started it or is about to.
        Running = "RUNNING",
        /// The handler returned `Ok`.
        Succeeded = "SUCCEEDED",
        /// The handler returned an error or panicked.
        Failed = "FAILED",
        /// The handler overran its time limit: reserved, there is none yet.
        TimedOut = "TIMED_OUT",
        /// Withdrawn before or while it ran.
        Cancelled = "CANCELLED",
        /// Its node died while it ran.
        Abandoned = "ABANDONED",
        /// Deliberately not run; the reason is stored beside it.
        Skipped = "SKIPPED",
    }
}

impl ExecutionState {
    /// Whether nothing changes this state any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending | Self::Claimed | Self::Running)
    }

    /// Whether the state machine has an arrow from `self` to `to`.
    #[must_use]
    pub fn can_become(self, to: Self) -> bool {
        use ExecutionState::*;
        match self {
            Pending => matches!(to, Claimed | Running | Skipped | Cancelled),
            Claimed => matches!(to, Pending | Running),
            Running => {
                matches!(to, Pending | Succeeded | Failed | TimedOut | Cancelled | Abandoned)
            }
            _ => false,
        }
    }
}

states! {
    /// What to do with occurrences missed for longer than the misfire threshold.
    MisfirePolicy {
        /// Run the latest missed occurrence now, skip the earlier ones. The default.
        FireOnce = "FIRE_ONCE",
        /// Skip all missed occurrences.
        DoNothing = "DO_NOTHING",
        /// Run every missed occurrence in order, paced and capped (1,000 a repair); skip those beyond the
        /// cap.
        FireAll = "FIRE_ALL",
    }
}

/// Where a schedule stands: the fire time behind it and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cursor {
    pub prev: Option<Millis>,
    pub next: Option<Millis>,
}

/// One row of QRTZ_EXECUTE, understood: what poll and repair work on.
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
}

impl Entry {
    /// Whether its cursor has fallen behind its misfire threshold, which counts as `least` if it is below:
    /// then it is the misfire handler's, before that the poll's. Both ask here, so no row is nobody's or
    /// both's.
    pub(crate) fn is_misfired(&self, now: Millis, least: Millis) -> bool {
        let limit = now.saturating_sub(self.threshold.max(least));
        self.cursor.next.is_some_and(|next| next < limit)
    }
}

/// One planned fire time of a schedule: the cursor move its claim makes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Occurrence {
    pub entry: Arc<Entry>,
    pub prev: Option<Millis>,
    pub at: Millis,
    pub following: Option<Millis>,
}

impl Occurrence {
    /// The occurrence the entry's cursor points at; `None` when nothing is left.
    pub(crate) fn head(entry: &Arc<Entry>) -> Option<Self> {
        let at = entry.cursor.next?;
        Some(Self::new(entry, entry.cursor.prev, at))
    }

    /// The link behind this one; `None` when this is the last.
    pub(crate) fn link(&self) -> Option<Self> {
        let at = self.following?;
        Some(Self::new(&self.entry, Some(self.at), at))
    }

    fn new(entry: &Arc<Entry>, prev: Option<Millis>, at: Millis) -> Self {
        Self { prev, at, following: entry.timing.after(at), entry: Arc::clone(entry) }
    }
}

/// A PENDING execution as the poll saw it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    pub id: ExecutionId,
    /// The schedule it belongs to (its cursor is not used).
    pub entry: Arc<Entry>,
    pub scheduled: Millis,
    pub due: Millis,
    pub attempt: u32,
    /// 0 = planned; else the manual request that asked for it.
    pub origin: i64,
    /// The token it was seen with: whoever touches the row changes it.
    pub token: Token,
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

    pub(crate) fn due(&self) -> Millis {
        match self {
            Self::Planned(occurrence) => occurrence.at,
            Self::Pending(pending) => pending.due,
        }
    }
}

/// The most characters of an error's text that are kept.
pub(crate) const LONGEST_ERROR: usize = 4_000;

/// What a handler's run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Failed(String),
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
mod tests;
