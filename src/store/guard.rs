//! Guards as values: the columns an UPDATE compares before it changes anything.
//!
//! The SQL stores render a guard, the in-memory store evaluates it, so both always ask the same question; and
//! a test that blinds one column of a guard blinds it in both.

use super::columns::{Column, JobColumn};

/// What one kind of change compares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    name: &'static str,
    columns: &'static [Column],
}

impl Guard {
    /// All columns, those that a test has blinded the guard to as well.
    pub(crate) fn every(&self) -> impl Iterator<Item = Column> {
        self.columns.iter().copied()
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = Column> {
        let columns = self.columns.iter().copied();
        #[cfg(test)]
        let columns = columns.filter(|column| self.sees(*column));
        columns
    }
}

/// The row is exactly where the decision saw it.
const CURSOR: &[Column] =
    &[Column::Id, Column::State, Column::PrevFireTime, Column::NextFireTime, Column::Version];
/// An execution is still whose it was: PENDING as seen, or somebody's by token.
const EXECUTION: &[Column] = &[Column::Id, Column::State, Column::ClaimToken];

/// A job's row with all that its policy says.
const POLICY_COLUMNS: [Column; JobColumn::ALL.len() + 1] = {
    let mut columns = [Column::Id; JobColumn::ALL.len() + 1];
    let mut place = 0;
    while place < JobColumn::ALL.len() {
        columns[place + 1] = Column::Job(JobColumn::ALL[place]);
        place += 1;
    }
    columns
};

/// Declares the guards, and lists them.
macro_rules! guards {
    ($($(#[$doc:meta])* $NAME:ident = $name:literal, $columns:expr;)*) => {
        $($(#[$doc])* pub(crate) const $NAME: Guard = Guard { name: $name, columns: $columns };)*

        #[cfg(test)]
        pub(crate) const GUARDS: &[&Guard] = &[$(&$NAME),*];
    };
}

guards! {
    /// A planned claim.
    CLAIM = "claim", CURSOR;
    /// A misfire repair, or a resume.
    REPAIR = "repair", CURSOR;
    /// The row of a one-shot that ended long ago, or of a removed schedule, is deleted.
    FORGET = "forget", CURSOR;
    /// A schedule that waits for the end of a run is planned.
    AFTER_RUN = "after a run", &[Column::Id, Column::State, Column::PrevFireTime, Column::NextFireTime];
    /// A client's edit that moves the cursor.
    RETIME = "retime", CURSOR;
    /// Any other change a client makes to a schedule's row.
    EDIT = "edit", &[Column::Id, Column::State, Column::Version];
    /// The claim of a PENDING execution.
    TAKE = "take", EXECUTION;
    /// CLAIMED becomes RUNNING.
    START = "start", EXECUTION;
    /// An outcome, or a hand-back, of one's own execution.
    OUTCOME = "outcome", EXECUTION;
    /// How far the handler of one's own execution has come.
    CHECKPOINT = "checkpoint", EXECUTION;
    /// What the handler of one's own execution says: while it runs, and once it has ended by itself.
    SAY = "say", EXECUTION;
    /// The success of an execution that its handler's own transaction stores.
    COMPLETE = "complete", EXECUTION;
    /// The handler of an execution that ran out of time has returned, or its node is gone.
    RELEASE = "release", EXECUTION;
    /// An unstarted execution gives way to a later repair's.
    SUPERSEDE = "supersede", EXECUTION;
    /// An execution is taken from a node.
    REVOKE = "revoke", EXECUTION;
    /// The execution an attempt follows on, as the same transaction has just left it.
    SETTLED = "settled", EXECUTION;
    /// A row goes into ERROR, read as loosely as what cannot be understood demands.
    QUARANTINE = "quarantine", &[Column::Id, Column::Version, Column::State];
    /// A job is paused or resumed.
    SWITCH_JOB = "switch a job", &[Column::Id, Column::State, Column::PausedTime];
    /// A node is paused, drained or resumed.
    SWITCH_NODE = "switch a node", &[Column::Uuid, Column::State, Column::PausedTime, Column::EndedTime];
    /// An application is paused or resumed.
    SWITCH_APP = "switch an application", &[Column::Application, Column::State, Column::PausedTime];
    /// A job notes that nobody can run it, or that somebody can.
    NOTE_NOBODY = "note nobody", &[Column::Id, Column::NobodyTime, Column::NobodyTold];
    /// A schedule notes the first occurrence that has not succeeded in time, or none.
    NOTE_EXPECTED = "note expected", &[Column::Id, Column::Application, Column::UnmetTime];
    /// An application notes when the next pause in it ends.
    PAUSE_END = "pause end", &[Column::Application, Column::PauseEnds];
    /// A schedule is removed, whether or not its row can be understood.
    REMOVE = "remove", &[Column::Id, Column::Version, Column::State];
    /// An execution that has not begun is cancelled.
    CANCEL = "cancel", EXECUTION;
    /// An enqueued execution that waits takes over another's request.
    REPLACE = "replace", EXECUTION;
    /// A PENDING execution of a removed schedule ends, whatever its token.
    WITHDRAW = "withdraw", &[Column::Id, Column::State];
    /// A node tells its jobs' policies.
    POLICY = "policy", &POLICY_COLUMNS;
    /// A node that has not ended, and has not moved since it was seen.
    DEATH = "death", &[Column::Uuid, Column::Beat, Column::EndedTime];
    /// A node's own heartbeat.
    HEARTBEAT = "heartbeat", &[Column::Uuid, Column::EndedTime];
    /// A node says that it has stopped.
    LEAVE = "leave", &[Column::Uuid, Column::EndedTime];
    /// An election: the mark [is due](crate::time::is_election_due).
    ELECT = "elect", &[Column::Application, Column::TimeNext];
}

#[cfg(test)]
pub(crate) mod blind {
    //! A guard that looks away: what the simulator must then notice.

    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static BLIND: RefCell<Vec<(&'static str, Column)>> = const { RefCell::new(Vec::new()) };
    }

    impl Guard {
        pub(super) fn sees(&self, column: Column) -> bool {
            BLIND.with_borrow(|blind| !blind.contains(&(self.name, column)))
        }
    }

    /// Runs `work` while these guards do not compare these columns on this thread.
    pub(crate) fn to<T>(columns: &[(&Guard, Column)], work: impl FnOnce() -> T) -> T {
        BLIND.set(columns.iter().map(|(guard, column)| (guard.name, *column)).collect());
        let result = work();
        BLIND.take();
        result
    }
}
