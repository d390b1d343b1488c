//! The misfire handler's store calls: the only place of this room that touches the store.

use crate::domain::{Error, ExecutionId, Millis};
use crate::machine::Operation;
use crate::repair::Revocation;
use crate::store::{
    Applied, Broken, BrokenPage, BrokenQuery, Change, Purge, Purged, Repair, Stalled, StalledQuery, Store,
    StrandedPage,
};

#[derive(Clone)]
pub(crate) enum MisfireOp {
    Elect { application: String, now: Millis, interval: Millis },
    FindStranded { application: String, after: ExecutionId, limit: usize },
    Revoke(Vec<Revocation>),
    FindOverdue(StalledQuery),
    Repair(Vec<Repair>),
    FindUnreadable(BrokenQuery),
    Quarantine(Broken),
    Purge(Purge),
}

pub(crate) enum MisfireAnswer {
    Elected(Applied),
    Stranded(StrandedPage),
    /// What became of the batch's revocations, in its order.
    Revoked(Vec<Applied>),
    Overdue(Stalled),
    /// What became of the batch's repairs, in its order.
    Repaired(Vec<Applied>),
    Unreadable(BrokenPage),
    Quarantined(Broken, Applied),
    Purged(Purged),
}

impl Operation for MisfireOp {
    type Answer = MisfireAnswer;

    fn name(&self) -> &'static str {
        match self {
            Self::Elect { .. } => "electing the misfire handler",
            Self::FindStranded { .. } => "looking for executions of dead nodes",
            Self::Revoke(_) => "taking executions back from dead nodes",
            Self::FindOverdue(_) => "looking for misfires",
            Self::Repair(_) => "repairing misfires",
            Self::FindUnreadable(_) => "looking for broken rows",
            Self::Quarantine(_) => "putting a broken row into quarantine",
            Self::Purge(_) => "purging the ledger",
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
            Self::Revoke(revocations) => {
                let changes: Vec<Change> = revocations.iter().map(|it| it.change().into()).collect();
                store.apply(&changes).map(MisfireAnswer::Revoked)
            }
            Self::FindOverdue(query) => store.stalled(&query).map(MisfireAnswer::Overdue),
            Self::Repair(repairs) => {
                let changes: Vec<Change> = repairs.into_iter().map(Change::Repair).collect();
                store.apply(&changes).map(MisfireAnswer::Repaired)
            }
            Self::FindUnreadable(query) => store.broken(&query).map(MisfireAnswer::Unreadable),
            Self::Quarantine(row) => {
                let change = Change::Quarantine(row.clone());
                store.apply_one(change).map(|applied| MisfireAnswer::Quarantined(row, applied))
            }
            Self::Purge(purge) => store.purge(&purge).map(MisfireAnswer::Purged),
        }
    }
}
