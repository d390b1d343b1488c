//! The answer, for people and programs.

use crate::domain::{ExecutionId, ExecutionState, Word};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// What is wrong with the ledger at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FlawKind {
    /// A trigger demanded occurrences there, the schedule's cursor has passed them, and no row stands for
    /// them.
    Missing,
    /// A row stands for a fire time that no trigger of its schedule demanded.
    Unplanned,
    /// Two rows stand for one occurrence, or another attempt follows one that succeeded.
    Twice,
    /// The attempts at an occurrence are not numbered 1, 2, 3, or one that was followed has not ended.
    Attempts,
    /// A row names other neighbours than it has, or the last one another next fire time than the schedule.
    Unlinked,
    /// A row of a span counts another number of occurrences than its trigger has there.
    Miscounted,
    /// A row contradicts itself: its state is unknown, or lacks what belongs to it.
    Contradiction,
    /// The schedule was in ERROR: nobody planned what its trigger demanded.
    InError,
    /// A trigger cannot be understood, so that nobody knows what it demanded.
    Unreadable,
    /// A row belongs to a schedule that is not there.
    Orphaned,
    /// The rows of a schedule are not those that a certificate was made of.
    Changed,
}

/// Something that is wrong with the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Flaw {
    /// What kind of thing.
    pub kind: FlawKind,
    /// The schedule's name; none for rows of one that is not there.
    pub schedule: Option<String>,
    /// Which of the schedule's triggers: each edit of the trigger, and each removal, begins another.
    pub generation: i64,
    /// The fire time, of several the first; none if it concerns the schedule as a whole.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub at: Option<DateTime<Utc>>,
    /// The last fire time, if it concerns several.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub last: Option<DateTime<Utc>>,
    /// How many occurrences it concerns.
    pub occurrences: u64,
    /// The execution whose row it is, if there is one: an id for
    /// [`Client::execution`](crate::Client::execution).
    pub execution: Option<ExecutionId>,
    /// What is wrong, in one sentence.
    pub sentence: String,
}

/// How many occurrences came to one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "certificate", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct Accounted {
    /// The state of the last attempt.
    pub state: Word<ExecutionState>,
    /// Why, as the ledger has it: `misfire`, `paused`, `edited`. Empty where there is no reason to give.
    pub reason: String,
    /// How many planned occurrences.
    pub occurrences: u64,
}

/// Whether the ledger accounts for every occurrence that the triggers demanded. Made by
/// [`Client::verify`](crate::Client::verify).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verification {
    /// The application.
    pub application: String,
    /// The first fire time that was looked at: where the range began or, if retention has removed what was
    /// planned there, where the ledger begins. None if both are open.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub since: Option<DateTime<Utc>>,
    /// Fire times before this one were looked at.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub until: DateTime<Utc>,
    /// Whether retention has removed the range's beginning.
    pub is_cut_short: bool,
    /// How many schedules were verified, removed ones included.
    pub schedules: u64,
    /// How many rows of the ledger were read.
    pub rows: u64,
    /// The planned occurrences that have a row, by state and reason.
    pub occurrences: Vec<Accounted>,
    /// Planned occurrences that are due and not claimed yet.
    pub waiting: u64,
    /// How many of these belong to schedules that are paused themselves, and wait for a
    /// [resume](crate::Client::resume).
    pub paused: u64,
    /// Executions that somebody asked for beside the planned ones.
    pub by_hand: u64,
    /// What is wrong, by schedule: the first 1,000.
    pub flaws: Vec<Flaw>,
    /// How many flaws there are beyond these.
    pub more_flaws: u64,
}

impl Verification {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.flaws.is_empty() && self.more_flaws == 0
    }

    /// How many occurrences the triggers demanded: those with a row, those that wait, and those that miss.
    #[must_use]
    pub fn demanded(&self) -> u64 {
        let missing =
            self.flaws.iter().filter(|flaw| matches!(flaw.kind, FlawKind::Missing | FlawKind::InError));
        let missing: u64 = missing.map(|flaw| flaw.occurrences).sum();
        self.occurrences.iter().map(|it| it.occurrences).sum::<u64>() + self.waiting + missing
    }
}
