//! What dispatch passes over because it would overlap an execution of its schedule, and how often in a row.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::plan::ItemKey;
use crate::domain::{Entry, Event, Millis, ScheduleId};
use crate::store::{Change, LedgerRow, Repair};

/// Every so many skips in a row somebody is told.
const STREAK: u32 = 8;
/// Streaks of so many schedules are remembered.
const MOST_STREAKS: usize = 10_000;

#[derive(Default)]
pub(super) struct Overlapping {
    passes: Vec<(ItemKey, Pass)>,
    /// One of these makes the call fail for what its row holds: they are stored one by one.
    apart: bool,
    /// How many in a row were skipped here.
    in_a_row: FxHashMap<ScheduleId, u32>,
    /// Schedules of which occurrences were queued here, and when (boot clock), until a poll brings them.
    queued: FxHashMap<ScheduleId, Millis>,
}

/// An occurrence that is passed over.
pub(super) struct Pass {
    pub entry: Arc<Entry>,
    pub repair: Repair,
}

/// What comes of a call that failed.
pub(super) enum Failed {
    /// The next call stores one alone.
    ApartNext,
    /// This one cannot be stored for what its row holds.
    Alone(ItemKey, Pass),
    /// These are to be tried again.
    All(Vec<ItemKey>),
}

impl Overlapping {
    pub(super) fn add(&mut self, item: ItemKey, entry: &Arc<Entry>, repair: Repair) {
        self.passes.push((item, Pass { entry: Arc::clone(entry), repair }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// What the next call stores, in the order in which [`Overlapping::take`] gives it.
    pub(super) fn changes(&self) -> Arc<Vec<Change>> {
        let asked = self.passes.iter().take(self.asked());
        Arc::new(asked.map(|(_, pass)| Change::Repair(pass.repair.clone())).collect())
    }

    /// What the call has answered.
    pub(super) fn take(&mut self) -> Vec<(ItemKey, Pass)> {
        let asked = self.asked();
        let taken = self.passes.drain(..asked).collect();
        self.apart &= !self.passes.is_empty();
        taken
    }

    fn asked(&self) -> usize {
        if self.apart { self.passes.len().min(1) } else { self.passes.len() }
    }

    /// The call failed, if `of_a_row` for what one of its rows holds.
    pub(super) fn failed(&mut self, of_a_row: bool) -> Failed {
        match self.asked() {
            2.. if of_a_row => {
                self.apart = true;
                Failed::ApartNext
            }
            1 if of_a_row => {
                let (item, pass) = self.passes.remove(0);
                self.apart &= !self.passes.is_empty();
                Failed::Alone(item, pass)
            }
            _ => {
                self.apart = false;
                Failed::All(std::mem::take(&mut self.passes).into_iter().map(|(item, _)| item).collect())
            }
        }
    }

    /// It was passed over; what to tell of that.
    pub(super) fn passed(&mut self, pass: &Pass, boot: Millis) -> Option<Event> {
        let [LedgerRow::Skipped { holder: Some(holder), .. }] = pass.repair.rows[..] else {
            self.queued.insert(pass.entry.id, boot);
            return None;
        };
        if self.in_a_row.len() >= MOST_STREAKS {
            self.in_a_row.clear();
        }
        let count = self.in_a_row.entry(pass.entry.id).or_default();
        *count += 1;
        let (schedule, in_a_row) = (Arc::clone(&pass.entry.name), *count);
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
