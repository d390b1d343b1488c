//! What tests ask of the tables: rows that are held or refused, and protections that are switched off.

use std::collections::BTreeSet;

use crossbeam::channel::Receiver;

use super::rows::Execution;
use crate::domain::{Bound, Bounds, ExecutionId, JobId, Millis, Rate, ScheduleId};
use crate::store::rules::ChangeKind;

#[derive(Clone, Debug, Default)]
pub(crate) struct Hooks {
    pub(super) held: BTreeSet<HeldKey>,
    pub(super) refused: BTreeSet<i64>,
    pub(super) beats_refused: bool,
    pub(super) follows_cancelled: bool,
    /// Changes of this kind do not plan what counts from the ends of runs.
    pub(super) plans_nothing: Option<ChangeKind>,
    /// Claims do not count these.
    pub(super) bounds_fault: Option<BoundsFault>,
    pub(super) forgets_resumes: bool,
    /// What an edit or a removal withdraws has no row.
    pub(super) forgets_withdrawn: bool,
    /// A sync writes although a higher revision is known.
    pub(super) ignores_revisions: bool,
    /// A rerun does not look at earlier ones.
    pub(super) forgets_reruns: bool,
    /// Keys of enqueued executions keep nobody away.
    pub(super) forgets_keys: bool,
    /// An attempt begins without the checkpoint of the one before.
    pub(super) forgets_checkpoints: bool,
    /// A protection of slots that is switched off.
    pub(super) slot_fault: Option<SlotFault>,
    /// How the answer to what an execution covers is wrong.
    pub(super) covers_fault: Option<CoversFault>,
    /// A protection of what is expected that is switched off.
    pub(super) expected_fault: Option<ExpectedFault>,
    /// How outcomes are counted wrongly.
    pub(super) outcome_fault: Option<OutcomeFault>,
    /// Fences begin nowhere anew when a copy takes over.
    pub(super) has_no_floor: bool,
    /// What members fail to do.
    pub(super) member_fault: Option<MemberFault>,
    /// Requests are carried out although their rows say that they have ended.
    pub(super) requests_unguarded: bool,
    pub(super) registrations_lost: bool,
    pub(super) leaves_refused: bool,
    /// So many more reads of executions fail.
    pub(super) reads_refused: u32,
    /// Registrations wait until its other side is gone.
    pub(super) registrations_held: Option<Receiver<()>>,
    /// Every change of an execution's row, in order, once somebody wants them.
    pub(super) changes: Vec<NotedChange>,
    pub(super) noted: bool,
    /// Executions that were removed, as they were last, once somebody wants the changes.
    pub(super) removed: Vec<(i64, Execution)>,
    /// How far the database's clock is from the time that changes are noted with.
    pub(super) clock_error: Millis,
}

/// A change of an execution's row.
#[derive(Clone, Debug)]
pub(super) struct NotedChange {
    /// True time, and how far the database's clock was from it.
    pub at: Millis,
    pub apart: Millis,
    pub execution: i64,
    /// The states before and after it; none of a row that was not there.
    pub from: Option<String>,
    pub to: Option<String>,
}

/// How slots may fail to keep executions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotFault {
    /// The claim of a planned occurrence does not look at its schedule's slot.
    ByPlanned,
    /// Nor does the claim of a PENDING execution.
    ByPending,
    /// What waits for its retry does not keep the slot.
    OfRetries,
    /// What runs on beyond its time limit does not.
    OfTheStuck,
    /// A claim in doubt whose slot is taken is called lost, and may still be made.
    InDoubt,
}

impl SlotFault {
    pub(super) const ALL: [Self; 5] =
        [Self::ByPlanned, Self::ByPending, Self::OfRetries, Self::OfTheStuck, Self::InDoubt];
}

/// Which bounds of jobs claims may fail to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundsFault {
    /// How many executions run at once.
    Concurrency,
    /// How many of each group do.
    OfGroups,
    /// How many begin within a span of time.
    Rates,
}

impl Hooks {
    /// What is left of the bounds.
    pub(super) fn bounds(&self, bounds: Bounds) -> Bounds {
        let Bounds { job, group } = bounds;
        match self.bounds_fault {
            None => bounds,
            Some(BoundsFault::Concurrency) => Bounds { job: Bound { concurrency: None, ..job }, group },
            Some(BoundsFault::OfGroups) => Bounds { job, group: Bound { concurrency: None, ..group } },
            Some(BoundsFault::Rates) => Bounds {
                job: Bound { rate: Rate::default(), ..job },
                group: Bound { rate: Rate::default(), ..group },
            },
        }
    }
}

/// How the answer to what an execution covers may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CoversFault {
    /// A skipped span counts as one occurrence.
    SpansAsOne,
    /// What has ended in any way counts as a success.
    AnyEnd,
    /// What came before an edit of the trigger does not count.
    OneGeneration,
    /// What somebody asked for counts as if it had been planned.
    OrdersToo,
}

impl CoversFault {
    pub(crate) const ALL: [Self; 4] = [Self::SpansAsOne, Self::AnyEnd, Self::OneGeneration, Self::OrdersToo];
}

/// How it may go wrong to tell what was expected and has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedFault {
    /// A note does not look once more in its own transaction.
    NotesUnseen,
    /// A note does not see, in its own transaction, what is noted by then.
    SeesNoNote,
    /// A note has its entry in the audit, and is not written.
    ForgetsNotes,
    /// What somebody skipped, paused or withdrew counts as missed.
    ExcusesNothing,
    /// What is paused counts as active.
    IgnoresPauses,
    /// The walk makes no rows of what is expected.
    ExpectsNothing,
    /// No success ends what is unmet.
    NothingIsMet,
}

/// How it may go wrong to count outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutcomeFault {
    /// None is counted.
    CountsNothing,
    /// One whose first answer was lost is counted with each call.
    CountsAgain,
    /// New counts stay after they are added up.
    AddsTwice,
}

/// A row that may be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HeldKey {
    Schedule(ScheduleId),
    Execution(ExecutionId),
    Job(JobId),
    Request(i64),
}

/// What a member may fail to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberFault {
    /// It answers for an unknown commit before it has the others' commits.
    Resolves,
    /// It tells a node that it has ended before it has the others' commits.
    Ends,
    /// It calls a change lost before it has the others' commits.
    Loses,
    /// It tells a node that drains that it does so no more before it has the others' commits.
    Resumes,
    /// It believes that a claim's slot is taken before it has the others' commits.
    Blocks,
    /// It tells what an execution covers before it has the others' commits.
    Covers,
    /// It tells how far an execution has come before it has the others' commits.
    Checkpoints,
    /// It pauses a schedule for its streak before it has the others' commits.
    Contains,
    /// It commits what others' commits forbid.
    Certifies,
    /// It does not ask whether the transaction of an execution is still open: ended for another's commit, it
    /// counts as committed.
    Asks,
    /// A decision that rests on a row does not touch it.
    Touches(Touch),
}

/// Decisions that rest on a row which they need not change: they touch it, so that others' changes are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A claim that counts touches its job.
    Bounds,
    /// A request to end an execution touches that.
    Cancel,
    /// A retry by hand touches the key that its execution takes again.
    Key,
    /// A retry by hand touches the execution that is tried again.
    Retry,
    /// A run by hand, or a rerun, touches its schedule.
    RunNow,
    /// A pause with an end touches its application.
    PauseEnd,
}
