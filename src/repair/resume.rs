//! The end of a pause, and an occurrence that somebody skips.

use super::missed::{missed, moved};
use crate::domain::{Cursor, Entry, NextFire, Reason, ScheduleState, Timestamp};
use crate::store::{LedgerRow, Move, Repair};

/// The end of a pause: what was planned meanwhile is skipped, nothing fires late.
pub(crate) fn resume(entry: &Entry, now: Timestamp) -> Option<Repair> {
    if entry.state != ScheduleState::Paused {
        return None;
    }
    Some(match missed(entry, now) {
        Some(missed) => {
            // While the cursor is still behind, the schedule stays paused: the rest is no misfire.
            let rows = missed.all_skipped(entry.cursor.prev, Reason::Paused);
            let how = if missed.is_whole(now) { Move::Resume } else { Move::Pass };
            Repair { how, ..moved(entry, &missed, rows, now) }
        }
        None => Repair { how: Move::Resume, ..Repair::of(entry, entry.cursor, 0, now) },
    })
}

/// A repair that skips the occurrences planned while the job or the application was paused, if any.
pub(crate) fn pass_paused(entry: &Entry, now: Timestamp) -> Option<Repair> {
    let missed = missed(entry, now).filter(|_| entry.state == ScheduleState::Active)?;
    let rows = missed.all_skipped(entry.cursor.prev, Reason::Paused);
    Some(Repair { how: Move::Pass, ..moved(entry, &missed, rows, now) })
}

/// The next occurrence is skipped by hand; nothing if that is not the one at `at`, or the schedule is neither
/// active nor paused.
pub(crate) fn skip(entry: &Entry, at: Timestamp, now: Timestamp) -> Option<Repair> {
    let is_open = matches!(entry.state, ScheduleState::Active | ScheduleState::Paused);
    if !is_open || entry.cursor.next != NextFire::At(at) {
        return None;
    }
    let (prev, following) = (entry.cursor.prev, NextFire::planned(entry.timing.next_after(at)));
    let (reason, holder) = (Reason::ByHand, None);
    let row = LedgerRow::Skipped { from: at, to: at, count: 1, prev, following, reason, holder };
    let to = Cursor { prev: Some(at), next: following };
    Some(Repair { rows: vec![row], how: Move::Pass, ..Repair::of(entry, to, 1, now) })
}
