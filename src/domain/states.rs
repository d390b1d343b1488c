//! The states of schedules and executions, and the misfire policies, each with its word in the database.

use std::str::FromStr;

/// Defines an enum with the text that each value has in the database.
macro_rules! words {
    ($(#[$doc:meta])* $vis:vis $name:ident as $tvis:vis $text_of:ident {
        $($(#[$vdoc:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in the order of declaration.
            $vis const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The text stored in the database.
            #[must_use]
            $tvis const fn $text_of(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

/// Defines such an enum whose texts are read, too.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        words! { $(#[$doc])* #[non_exhaustive] pub $name as pub as_str { $($(#[$vdoc])* $variant = $text,)* } }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(UnknownWord::new(stringify!($name), text)),
                }
            }
        }
    };
}

/// A word that is none of an enum's values, or a text that is no id. `?` turns it into an
/// [`Error`](super::Error) of kind [`Config`](super::ErrorKind::Config).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind}")]
pub struct UnknownWord {
    kind: &'static str,
    text: String,
}

impl UnknownWord {
    /// The error of a parser: what the text should have been, such as `role`, and the text.
    pub fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.to_owned() }
    }
}

words! {
    /// The state of a schedule's row (`QRTZ_EXECUTE.state`).
    #[non_exhaustive]
    pub ScheduleState as pub(crate) stored {
        /// Made by another tool and not released yet; read, never written by firetime.
        Init = "INIT",
        /// Active: it fires. Its row says EXECUTING, as Quartz calls this state.
        Active = "EXECUTING",
        /// Paused by an operator or a client: planned occurrences are not claimed.
        Paused = "PAUSED",
        /// Exhausted: no fire time is left.
        Complete = "COMPLETE",
        /// Removed by a client: it fires no more, and its row stays until its ledger is gone. Made again, it
        /// begins a generation of its own.
        Removed = "REMOVED",
        /// Quarantined: the row cannot be understood; the reason is stored beside it.
        Error = "ERROR",
    }
}

impl FromStr for ScheduleState {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.iter().find(|it| it.as_str() == text);
        found.copied().ok_or_else(|| UnknownWord::new("ScheduleState", text))
    }
}

impl ScheduleState {
    /// Its word: `active`, where the row says EXECUTING, `paused`, `complete`, `removed`, `init` or `error`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Complete => "complete",
            Self::Removed => "removed",
            Self::Error => "error",
        }
    }

    /// The state that a row's word tells.
    pub(crate) fn read(stored: &str) -> Result<Self, UnknownWord> {
        let found = Self::ALL.iter().find(|it| it.stored() == stored);
        found.copied().ok_or_else(|| UnknownWord::new("ScheduleState", stored))
    }
}

/// Whether a job, a node or an application is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Activity {
    /// Nothing holds it back.
    Active,
    /// Somebody has paused it: nothing planned of it is claimed.
    Paused,
    /// A node that hands back what waits and ends what runs.
    Draining,
    /// A node with nothing left.
    Drained,
}

impl Activity {
    pub(crate) const ALL: [Self; 4] = [Self::Active, Self::Paused, Self::Draining, Self::Drained];

    /// Its word: `active`, `paused`, `draining` or `drained`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }

    /// The word in the row's state column.
    pub(crate) fn stored(self, of_job: bool) -> &'static str {
        match self {
            Self::Active if of_job => ScheduleState::Active.stored(),
            Self::Paused if of_job => ScheduleState::Paused.stored(),
            Self::Active => "Y",
            Self::Paused => "N",
            Self::Draining => "D",
            Self::Drained => "E",
        }
    }

    /// A word that is none of ours keeps everything from being claimed, as a pause does.
    pub(crate) fn read(word: &str, of_job: bool) -> Self {
        Self::ALL.into_iter().find(|it| it.stored(of_job) == word).unwrap_or(Self::Paused)
    }
}

states! {
    /// The state of an execution (`QRTZ_RUN.state`).
    ///
    /// ```text
    ///  planned ------ claim -----> CLAIMED ------- start ------> RUNNING --+--> SUCCEEDED
    ///     |                         ^   |                         ^   |    +--> FAILED
    ///     |                   claim |   | give back, repair       |   |    +--> ABANDONED (its node died)
    ///     |                         |   v                         |   |    +--> CANCELLED
    ///     |                        PENDING <- give back, snooze --|---+    +--> TIMED_OUT
    ///     |                         | | |                         |
    ///     |                         | | +- claim for idle thread -+
    ///     |                         | +--> SKIPPED (superseded)   |
    ///     |                         +----> CANCELLED              |
    ///     +------------------ claim for idle thread --------------+
    ///     +-- edit of the trigger, removal --> WITHDRAWN
    /// ```
    ///
    /// Retries and repairs insert rows as PENDING, or as SKIPPED.
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
        /// Its time limit passed before its handler returned, which may run on.
        TimedOut = "TIMED_OUT",
        /// Ended before it ran, by a cancel or with its schedule's removal; or the handler returned an error
        /// after it was asked to cancel. Not retried.
        Cancelled = "CANCELLED",
        /// Its node died while it ran.
        Abandoned = "ABANDONED",
        /// Deliberately not run; the reason is stored beside it.
        Skipped = "SKIPPED",
        /// Planned, due, and not claimed when its schedule's trigger was edited or the schedule removed.
        Withdrawn = "WITHDRAWN",
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
            Claimed => matches!(to, Pending | Running | Cancelled),
            Running => matches!(to, Pending | Succeeded | Failed | TimedOut | Cancelled | Abandoned),
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

words! {
    /// Why an execution is in the state it is in (`QRTZ_RUN.reason`).
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has rows with some of them"))]
    pub(crate) Reason as pub(crate) as_str {
        Misfire = "misfire",
        Superseded = "superseded",
        Paused = "paused",
        Recovery = "recovery",
        Retry = "retry",
        /// Claimed but not started in time, or handed back at shutdown.
        GivenBack = "given back",
        AttemptsExhausted = "attempts exhausted",
        NodeDied = "node died",
        /// Its schedule was removed.
        Removed = "removed",
        /// Its schedule got another trigger.
        Edited = "edited",
        /// Somebody asked for its end before it ran.
        Cancelled = "cancelled",
        /// Somebody asked for it.
        ByHand = "by hand",
        /// Somebody had its occurrence run once more, or made up for.
        Rerun = "rerun",
        /// Its handler wants to go on later.
        Snoozed = "snoozed",
        /// The future of its async handler was dropped before it answered.
        Interrupted = "interrupted",
        /// A node could not decode its payload: it is left to others.
        Undecodable = "undecodable",
        /// Its handler said that no retry would help.
        GaveUp = "gave up",
        /// Another execution of its schedule had not ended.
        Overlap = "overlap",
        /// Another execution of its schedule was due before, and had not begun.
        HolderLate = "holder late",
        /// It waits for that one's end.
        Queued = "queued",
        /// Somebody enqueued it.
        Enqueued = "enqueued",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_execution_never_changes() {
        for from in ExecutionState::ALL.iter().filter(|state| state.is_terminal()) {
            assert!(ExecutionState::ALL.iter().all(|to| !from.can_become(*to)), "{from:?}");
        }
    }

    /// The diagram's arrows.
    #[test]
    fn an_execution_changes_along_the_arrows_alone() {
        use ExecutionState::*;
        let arrows = [
            (Pending, [Claimed, Running, Skipped, Cancelled].as_slice()),
            (Claimed, &[Pending, Running, Cancelled]),
            (Running, &[Pending, Succeeded, Failed, TimedOut, Cancelled, Abandoned]),
        ];
        for (from, targets) in arrows {
            for to in ExecutionState::ALL {
                assert_eq!(from.can_become(*to), targets.contains(to), "{from:?} -> {to:?}");
            }
            assert!(!from.is_terminal());
        }
    }

    #[test]
    fn a_schedule_is_active_where_its_row_says_executing() {
        for state in ScheduleState::ALL {
            let stored =
                if *state == ScheduleState::Active { "EXECUTING" } else { &state.as_str().to_uppercase() };
            assert_eq!((state.stored(), ScheduleState::read(stored)), (stored, Ok(*state)));
            assert_eq!(
                (state.as_str().parse(), state.stored().parse::<ScheduleState>().is_err()),
                (Ok(*state), true)
            );
        }
    }

    #[test]
    fn every_state_reads_back_from_its_text() {
        for state in ExecutionState::ALL {
            assert_eq!(state.as_str().parse(), Ok(*state));
        }
        assert!("RUNING".parse::<ExecutionState>().is_err());
    }
}
