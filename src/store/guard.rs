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
    const fn new(name: &'static str, columns: &'static [Column]) -> Self {
        Self { name, columns }
    }

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

/// A planned claim.
pub(crate) const CLAIM: Guard = Guard::new("claim", CURSOR);
/// A misfire repair, or a resume.
pub(crate) const REPAIR: Guard = Guard::new("repair", CURSOR);
/// The row of a one-shot that ended long ago, or of a removed schedule, is deleted.
pub(crate) const FORGET: Guard = Guard::new("forget", CURSOR);
/// A schedule that waits for the end of a run is planned.
pub(crate) const AFTER_RUN: Guard =
    Guard::new("after a run", &[Column::Id, Column::State, Column::PrevFireTime, Column::NextFireTime]);
/// A client's edit that moves the cursor.
pub(crate) const RETIME: Guard = Guard::new("retime", CURSOR);
/// Any other change a client makes to a schedule's row.
pub(crate) const EDIT: Guard = Guard::new("edit", &[Column::Id, Column::State, Column::Version]);
/// The claim of a PENDING execution.
pub(crate) const TAKE: Guard = Guard::new("take", EXECUTION);
/// CLAIMED becomes RUNNING.
pub(crate) const START: Guard = Guard::new("start", EXECUTION);
/// An outcome, or a hand-back, of one's own execution.
pub(crate) const OUTCOME: Guard = Guard::new("outcome", EXECUTION);
/// The handler of an execution that ran out of time has returned, or its node is gone.
pub(crate) const RELEASE: Guard = Guard::new("release", EXECUTION);
/// An unstarted execution gives way to a later repair's.
pub(crate) const SUPERSEDE: Guard = Guard::new("supersede", EXECUTION);
/// An execution is taken from a node.
pub(crate) const REVOKE: Guard = Guard::new("revoke", EXECUTION);
/// The execution an attempt follows on, as the same transaction has just left it.
pub(crate) const SETTLED: Guard = Guard::new("settled", EXECUTION);
/// A row goes into ERROR, read as loosely as what cannot be understood demands.
pub(crate) const QUARANTINE: Guard = Guard::new("quarantine", &[Column::Id, Column::Version, Column::State]);
/// A job is paused or resumed.
pub(crate) const SWITCH_JOB: Guard =
    Guard::new("switch a job", &[Column::Id, Column::State, Column::PausedTime]);
/// A node is paused, drained or resumed.
pub(crate) const SWITCH_NODE: Guard =
    Guard::new("switch a node", &[Column::Uuid, Column::State, Column::PausedTime, Column::EndedTime]);
/// An application is paused or resumed.
pub(crate) const SWITCH_APP: Guard =
    Guard::new("switch an application", &[Column::Application, Column::State, Column::PausedTime]);
/// An application notes when the next pause in it ends.
pub(crate) const PAUSE_END: Guard = Guard::new("pause end", &[Column::Application, Column::PauseEnds]);
/// A schedule is removed, whether or not its row can be understood.
pub(crate) const REMOVE: Guard = Guard::new("remove", &[Column::Id, Column::Version, Column::State]);
/// An execution that has not begun is cancelled.
pub(crate) const CANCEL: Guard = Guard::new("cancel", EXECUTION);
/// An enqueued execution that waits takes over another's request.
pub(crate) const REPLACE: Guard = Guard::new("replace", EXECUTION);
/// The PENDING executions of a removed schedule end.
pub(crate) const WITHDRAW: Guard =
    Guard::new("withdraw", &[Column::Application, Column::State, Column::ExecuteId]);
/// A node tells its jobs' policies.
pub(crate) const POLICY: Guard = Guard::new("policy", &POLICY_COLUMNS);
/// A node that has not ended, and has not moved since it was seen.
pub(crate) const DEATH: Guard = Guard::new("death", &[Column::Uuid, Column::Beat, Column::EndedTime]);
/// A node's own heartbeat.
pub(crate) const HEARTBEAT: Guard = Guard::new("heartbeat", &[Column::Uuid, Column::EndedTime]);
/// A node says that it has stopped.
pub(crate) const LEAVE: Guard = Guard::new("leave", &[Column::Uuid, Column::EndedTime]);
/// An election: the mark [is due](crate::time::is_election_due).
pub(crate) const ELECT: Guard = Guard::new("elect", &[Column::Application, Column::TimeNext]);

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

    /// Every guard.
    pub(crate) const GUARDS: [&Guard; 27] = [
        &SWITCH_JOB,
        &SWITCH_NODE,
        &SWITCH_APP,
        &PAUSE_END,
        &CLAIM,
        &REPAIR,
        &AFTER_RUN,
        &FORGET,
        &REMOVE,
        &CANCEL,
        &WITHDRAW,
        &REPLACE,
        &RETIME,
        &EDIT,
        &TAKE,
        &START,
        &OUTCOME,
        &RELEASE,
        &SUPERSEDE,
        &REVOKE,
        &SETTLED,
        &QUARANTINE,
        &POLICY,
        &DEATH,
        &HEARTBEAT,
        &LEAVE,
        &ELECT,
    ];

    /// Runs `work` while these guards do not compare these columns on this thread.
    pub(crate) fn to<T>(columns: &[(&Guard, Column)], work: impl FnOnce() -> T) -> T {
        BLIND.set(columns.iter().map(|(guard, column)| (guard.name, *column)).collect());
        let result = work();
        BLIND.take();
        result
    }
}
