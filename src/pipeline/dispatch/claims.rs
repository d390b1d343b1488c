//! The requests of a claim, each with the seat it would fill.

use std::sync::Arc;

use crate::domain::{Boot, BoundOf, BoundScope, Candidate, Millis, Timestamp};
use crate::pipeline::plan::ItemKey;
use crate::pipeline::pool::Seat;
use crate::store::ClaimRequest;

/// The most claims in one transaction.
pub(super) const BATCH: usize = 500;
/// After a failed call nothing is claimed for this long.
pub(super) const FAILURE_PAUSE: Millis = 500;

/// Claims that were asked for, or asked about.
pub(crate) struct Sent<P> {
    pub at: Boot,
    pub requests: Arc<Vec<ClaimRequest>>,
    /// For each request its item in the plan, and the seat it would fill, if it has one.
    pub seats: Vec<(ItemKey, Option<P>)>,
}

/// Whether a candidate's claim already records it as RUNNING: it begins at once, or a second run after its
/// node's death does no harm, since its job is recovered and no earlier attempt met a death.
pub(super) fn counts_as_begun(candidate: &Candidate, seat: Seat, now: Timestamp) -> bool {
    let may_run_again = candidate.entry().recover
        && match candidate {
            Candidate::Planned(_) => true,
            Candidate::Pending(pending) => pending.entry.is_queue && pending.attempt == 1,
        };
    let begins_now = seat == Seat::Thread && candidate.due() <= now;
    begins_now || seat != Seat::Place && may_run_again
}

/// Whether a candidate waits for the slot of its schedule.
pub(super) fn waits_for_slot(request: &ClaimRequest) -> bool {
    matches!(request.candidate, Candidate::Pending(_)) && request.candidate.entry().overlap.has_slot()
}

/// The bound that a candidate shares with its job or its group.
pub(super) fn bound_of(candidate: &Candidate, scope: BoundScope) -> BoundOf {
    let group = candidate.group().filter(|_| scope == BoundScope::Group).cloned();
    BoundOf { job: Arc::clone(&candidate.entry().job), group }
}
