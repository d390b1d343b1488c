//! What dispatch passes over because it would overlap an execution of its schedule, and how often in a row.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::plan::ItemKey;
use crate::domain::{Event, Millis, ScheduleId};
use crate::store::{Change, LedgerRow, Repair};

/// Every so many skips in a row somebody is told.
const STREAK: u32 = 8;
/// Streaks of so many schedules are remembered.
const MOST_STREAKS: usize = 10_000;

#[derive(Default)]
pub(super) struct Overlapping {
    passes: Vec<(ItemKey, Pass)>,
    /// How many in a row were skipped here.
    in_a_row: FxHashMap<ScheduleId, u32>,
    /// Schedules of which occurrences were queued here, and when (boot clock), until a poll brings them.
    queued: FxHashMap<ScheduleId, Millis>,
}

/// An occurrence that is passed over.
pub(super) struct Pass {
    pub schedule: Arc<str>,
    pub repair: Repair,
}

impl Overlapping {
    pub(super) fn add(&mut self, slot: ItemKey, schedule: &Arc<str>, repair: Repair) {
        self.passes.push((slot, Pass { schedule: Arc::clone(schedule), repair }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// What is to be stored, in the order in which [`Overlapping::take`] gives it.
    pub(super) fn changes(&self) -> Arc<Vec<Change>> {
        Arc::new(self.passes.iter().map(|(_, pass)| Change::Repair(pass.repair.clone())).collect())
    }

    pub(super) fn take(&mut self) -> Vec<(ItemKey, Pass)> {
        std::mem::take(&mut self.passes)
    }

    /// It was passed over; what to tell of that.
    pub(super) fn passed(&mut self, pass: &Pass, boot: Millis) -> Option<Event> {
        let [LedgerRow::Skipped { holder: Some(holder), .. }] = pass.repair.rows[..] else {
            self.queued.insert(pass.repair.id, boot);
            return None;
        };
        if self.in_a_row.len() >= MOST_STREAKS {
            self.in_a_row.clear();
        }
        let count = self.in_a_row.entry(pass.repair.id).or_default();
        *count += 1;
        let (schedule, in_a_row) = (Arc::clone(&pass.schedule), *count);
        in_a_row.is_multiple_of(STREAK).then_some(Event::Overlapped { schedule, holder, in_a_row })
    }

    /// A poll sent then has brought what was queued before.
    pub(super) fn polled(&mut self, sent: Millis) {
        self.queued.retain(|_, queued| *queued >= sent);
    }

    /// The slot of a schedule is free; whether only a poll brings what waits for it.
    pub(super) fn freed(&mut self, schedule: ScheduleId) -> bool {
        self.queued.remove(&schedule).is_some()
    }

    /// An occurrence of it was claimed here.
    pub(super) fn claimed(&mut self, schedule: ScheduleId) {
        if !self.in_a_row.is_empty() {
            self.in_a_row.remove(&schedule);
        }
    }
}
