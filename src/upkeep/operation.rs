//! The misfire handler's store calls: the only place of this room that touches the store.

use crate::domain::{Entry, Error, ExecutionId, Millis};
use crate::machine::Operation;
use crate::store::audit::AuditEntry;
use crate::store::streak::{Streak, StreakQuery};
use crate::store::switch::{EndedPause, PassedQuery, SeenSwitch};
use crate::store::{
    Applied, Change, OverduePage, OverdueQuery, Store, StrandedPage, UnreadablePage, UnreadableQuery,
    UnreadableRow, Withdrawn,
};
use crate::upkeep::retention::{PurgeStep, PurgedStep};

/// `Write` makes the changes of one batch: repairs, or revocations.
#[derive(Clone)]
pub(crate) enum MisfireOp {
    Elect {
        application: String,
        now: Millis,
        interval: Millis,
    },
    FindStranded {
        application: String,
        after: ExecutionId,
        limit: usize,
    },
    FindWithdrawn {
        application: String,
        limit: usize,
    },
    FindEndedPauses {
        application: String,
    },
    /// What the pause of a job or the application has held back.
    FindPassed(PassedQuery, SeenSwitch),
    /// A part of what the pause of a schedule has held back.
    PassOn(Box<Change>),
    EndPause(Box<(Change, AuditEntry)>),
    Count(StreakQuery),
    /// Pauses a schedule for its streak.
    Contain(StreakQuery, Streak),
    FindOverdue(OverdueQuery),
    Write(Vec<Change>),
    FindUnreadable(UnreadableQuery),
    Quarantine(UnreadableRow),
    Purge(PurgeStep),
}

pub(crate) enum MisfireAnswer {
    Elected(Applied),
    Stranded(StrandedPage),
    Withdrawn(Vec<Withdrawn>),
    EndedPauses(Vec<EndedPause>),
    Passed(Vec<Entry>, PassedQuery, SeenSwitch),
    PassedOn,
    /// What was paused, and whether the pause was still as it was seen.
    PauseEnded(AuditEntry, Applied),
    Counted(StreakQuery, Option<Streak>),
    /// Whether the schedule was still as it was counted.
    Contained(StreakQuery, Streak, Applied),
    Overdue(OverduePage),
    /// What became of the batch's changes, in its order.
    Written(Vec<Applied>),
    Unreadable(UnreadablePage),
    Quarantined(UnreadableRow, Applied),
    Purged(PurgedStep),
}

impl Operation for MisfireOp {
    type Answer = MisfireAnswer;

    fn name(&self) -> &'static str {
        match self {
            Self::Elect { .. } => "electing the misfire handler",
            Self::FindStranded { .. } => "looking for executions of dead nodes",
            Self::FindWithdrawn { .. } => "looking for executions of removed schedules",
            Self::FindEndedPauses { .. } => "looking for ended pauses",
            Self::FindPassed(..) => "looking for what a pause held back",
            Self::PassOn(_) | Self::EndPause(_) => "ending a pause",
            Self::Count(_) => "counting what failed in a row",
            Self::Contain(..) => "pausing a schedule that fails",
            Self::FindOverdue(_) => "looking for misfires",
            Self::Write(changes) if matches!(changes[..], [Change::Repair(_), ..]) => "repairing misfires",
            Self::Write(_) => "taking executions back from dead nodes",
            Self::FindUnreadable(_) => "looking for broken rows",
            Self::Quarantine(_) => "putting a broken row into quarantine",
            Self::Purge(step) => step.name(),
        }
    }

    fn perform(self, store: &dyn Store) -> Result<MisfireAnswer, Error> {
        match self {
            Self::Elect { application, now, interval } => {
                store.elect(&application, now, interval).map(MisfireAnswer::Elected)
            }
            Self::FindStranded { application, after, limit } => {
                store.stranded(&application, after, limit).map(MisfireAnswer::Stranded)
            }
            Self::FindWithdrawn { application, limit } => {
                store.withdrawn(&application, limit).map(MisfireAnswer::Withdrawn)
            }
            Self::FindEndedPauses { application } => {
                store.ended_pauses(&application).map(MisfireAnswer::EndedPauses)
            }
            Self::FindPassed(query, seen) => {
                store.passed(&query).map(|entries| MisfireAnswer::Passed(entries, query, seen))
            }
            Self::PassOn(change) => store.apply_one(*change).map(|_| MisfireAnswer::PassedOn),
            Self::EndPause(end) => {
                let (change, audit) = *end;
                store.apply_audited(change, &audit).map(|applied| MisfireAnswer::PauseEnded(audit, applied))
            }
            Self::Count(query) => store.streak(&query).map(|streak| MisfireAnswer::Counted(query, streak)),
            Self::Contain(query, streak) => {
                let (change, audit) = streak.pause();
                let applied = store.apply_audited(change, &audit);
                applied.map(|applied| MisfireAnswer::Contained(query, streak, applied))
            }
            Self::FindOverdue(query) => store.overdue(&query).map(MisfireAnswer::Overdue),
            Self::Write(changes) => store.apply(&changes).map(MisfireAnswer::Written),
            Self::FindUnreadable(query) => store.unreadable(&query).map(MisfireAnswer::Unreadable),
            Self::Quarantine(row) => {
                let change = Change::Quarantine(row.clone());
                store.apply_one(change).map(|applied| MisfireAnswer::Quarantined(row, applied))
            }
            Self::Purge(step) => step.perform(store).map(MisfireAnswer::Purged),
        }
    }
}
