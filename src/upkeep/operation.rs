//! The misfire handler's store calls: the only place of this room that touches the store.

use crate::domain::{Error, ExecutionId, Millis};
use crate::machine::Operation;
use crate::store::{
    Broken, BrokenPage, BrokenQuery, Purge, Purged, Repair, Revocation, Stalled, StalledQuery, Store,
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
    Elected(bool),
    Stranded(StrandedPage),
    /// Which of the batch's revocations were won, in its order.
    Revoked(Vec<bool>),
    Overdue(Stalled),
    /// Which of the batch's repairs were won, in its order.
    Repaired(Vec<bool>),
    Unreadable(BrokenPage),
    Quarantined(Broken, bool),
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
            Self::Revoke(revocations) => store.revoke(&revocations).map(MisfireAnswer::Revoked),
            Self::FindOverdue(query) => store.stalled(&query).map(MisfireAnswer::Overdue),
            Self::Repair(repairs) => store.repair(&repairs).map(MisfireAnswer::Repaired),
            Self::FindUnreadable(query) => store.broken(&query).map(MisfireAnswer::Unreadable),
            Self::Quarantine(row) => store.quarantine(&row).map(|won| MisfireAnswer::Quarantined(row, won)),
            Self::Purge(purge) => store.purge(&purge).map(MisfireAnswer::Purged),
        }
    }
}
