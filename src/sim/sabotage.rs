//! The protections of the protocol, each switched off in turn: a simulation that does not notice proves nothing.

use crate::store::guard::{self, Column, Guard};

/// What is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    /// A guard does not compare this column.
    Blind(&'static Guard, Column),
    /// A row held locked by a claim under way counts as lost.
    ResolveWithoutWaiting,
    /// What is claimed has no seat in the pool yet; without one it is dropped.
    ClaimWithoutPermit,
    /// What was claimed may start however late.
    NoDeadline,
    /// A node counts as dead by what its row says of the time, not by what was observed.
    ComputedDeath,
    /// A repair's cursor is moved in one transaction, its ledger rows are written in another.
    TornRepair,
    /// An outcome is stored in one transaction, the attempt that follows in another.
    TornFollowUp,
}

/// Runs `work` with the guards blinded as the sabotages say.
pub(super) fn during<T>(sabotages: &[Sabotage], work: impl FnOnce() -> T) -> T {
    let blind = |it: &Sabotage| match it {
        Sabotage::Blind(guard, column) => Some((*guard, *column)),
        _ => None,
    };
    guard::blind::to(&sabotages.iter().filter_map(blind).collect::<Vec<_>>(), work)
}
