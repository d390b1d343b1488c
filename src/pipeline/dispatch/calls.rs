//! The store calls of dispatch.

use std::sync::Arc;

use super::claims::Sent;
use super::overlapping::PassedItem;
use crate::machine::calls::calls;
use crate::store::{Applied, Change, Claim, ClaimRequest, IfNotMade, UnreadableRow};

/// The name of claims in messages.
pub(super) const CLAIM: &str = "claim";

calls! { [P]
    claim = Claim { CLAIM, asks (requests: Arc<Vec<ClaimRequest>>), keeps Sent<P>, brings Vec<Claim> }
        |store| store.claim(&requests);
    /// Asks what became of these; those that were not claimed are claimed now, if that is still allowed.
    resolve = Resolve {
        "resolving an unknown commit", asks (requests: Arc<Vec<ClaimRequest>>, if_not_made: IfNotMade),
        keeps Sent<P>, brings Vec<Claim>
    } |store| store.resolve(&requests, if_not_made);
    quarantine = Quarantine { "quarantine", asks (row: UnreadableRow), keeps UnreadableRow, brings Applied }
        |store| store.apply_one(Change::Quarantine(row));
    /// These occurrences would overlap: they are skipped, or wait.
    pass_over = PassOver {
        "passing over what would overlap", asks (changes: Vec<Change>),
        keeps Vec<PassedItem>, brings Vec<Applied>
    } |store| store.apply(&changes);
}
