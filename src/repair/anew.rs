//! Cursors ahead of the clock.

use crate::domain::{Cursor, Entry, NextFire, ScheduleState, Timestamp};
use crate::store::{Move, Repair};
use crate::time::CURSOR_AHEAD;

/// A cursor that is far ahead of the clock goes back to the first fire time from now on. The occurrences it
/// has passed are in the ledger of the generation that ends.
pub(crate) fn plan_anew(entry: &Entry, now: Timestamp) -> Option<Repair> {
    let next = entry.timing.next_after(now)?;
    let to = Cursor { prev: None, next: NextFire::At(next) };
    (entry.state == ScheduleState::Active && entry.is_ahead(now + CURSOR_AHEAD))
        .then(|| Repair { how: Move::Anew, ..Repair::of(entry, to, 0, now) })
}
