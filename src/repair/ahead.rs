//! Cursors ahead of the clock.

use crate::domain::{Cursor, Entry, ScheduleState, Timestamp};
use crate::store::{Move, Repair};
use crate::time::CURSOR_AHEAD;

/// A cursor that is far ahead of the clock goes back to the first fire time from now on. The occurrences it
/// has passed are in the ledger of the generation that ends.
pub(crate) fn plan_anew(entry: &Entry, now: Timestamp) -> Option<Repair> {
    let next = entry.timing.next_after(now);
    let is_ahead = entry.is_ahead(now + CURSOR_AHEAD);
    (entry.state == ScheduleState::Active && is_ahead && next.is_some())
        .then(|| Repair { how: Move::Anew, ..Repair::of(entry, Cursor { prev: None, next }, 0, now) })
}
