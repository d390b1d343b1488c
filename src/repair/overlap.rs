//! Occurrences that would overlap an execution of their schedule.

use crate::domain::{Cursor, NextFire, Occurrence, Overlap, Reason, Timestamp};
use crate::store::{Blocked, LedgerRow, Move, Repair};

/// What becomes of an occurrence whose schedule's slot is taken: it waits if its rule lets one more wait, or
/// waits in the place of others, and is skipped otherwise.
pub(crate) fn overlapped(occurrence: &Occurrence, blocked: Blocked, now: Timestamp) -> Repair {
    let Occurrence { entry, prev, at, following } = occurrence;
    let (at, prev) = (*at, *prev);
    let Blocked { holder, is_late, waiting } = blocked;
    let replaces = entry.overlap == Overlap::Replace;
    let row = if replaces || waiting.len() < entry.overlap.most_waiting() {
        LedgerRow::Pending { at, due: at, prev, following: *following, reason: Reason::Queued }
    } else {
        let reason = if is_late { Reason::HolderLate } else { Reason::Overlap };
        let holder = Some(holder);
        let following = NextFire::planned(entry.timing.next_after(at));
        LedgerRow::Skipped { from: at, to: at, count: 1, prev, following, reason, holder }
    };
    let (cursor, to) =
        (Cursor { prev, next: NextFire::At(at) }, Cursor { prev: Some(at), next: row.following() });
    Repair {
        cursor,
        rows: vec![row],
        supersede: if replaces { waiting } else { Vec::new() },
        replaces: replaces.then_some(holder),
        how: Move::PassOver,
        ..Repair::of(entry, to, 1, now)
    }
}
