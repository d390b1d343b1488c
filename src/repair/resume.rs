//! The end of a pause.

use super::missed::{missed, moved};
use crate::domain::{Entry, Millis, Reason, ScheduleState};
use crate::store::Repair;

/// The end of a pause: what was planned meanwhile is skipped, nothing fires late.
pub(crate) fn resume(entry: &Entry, now: Millis) -> Option<Repair> {
    if entry.state != ScheduleState::Paused {
        return None;
    }
    Some(match missed(entry, now) {
        Some(missed) => {
            // While the cursor is still behind, the schedule stays paused: the rest is no misfire.
            let rows = missed.all_skipped(entry.cursor.prev, Reason::Paused);
            Repair { resume: missed.is_whole(now), ..moved(entry, &missed, rows, now) }
        }
        None => Repair { resume: true, ..Repair::of(entry, entry.cursor, 0, now) },
    })
}
