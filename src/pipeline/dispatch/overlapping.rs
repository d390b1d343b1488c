//! Occurrences that dispatch passes over because they would overlap an execution of their schedule, and how
//! many in a row. Pure.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::domain::{Boot, Entry, Event, Reason, ScheduleId};
use crate::pipeline::plan::ItemKey;
use crate::store::{Change, LedgerRow, Repair};

/// Every so many skips in a row somebody is told.
const STREAK: u32 = 8;
/// Streaks of so many schedules are remembered.
const MOST_STREAKS: usize = 10_000;

#[derive(Default)]
pub(super) struct Overlapping {
    passes: Vec<PassedItem>,
    /// One of these makes the call fail for what its row holds: they are stored one by one.
    apart: bool,
    /// How many in a row were skipped here.
    in_a_row: FxHashMap<ScheduleId, u32>,
    /// Schedules of which occurrences were queued here, and when, until a poll brings them.
    queued: FxHashMap<ScheduleId, Boot>,
    /// Schedules whose slots became free while passes waited to be stored.
    freed: FxHashSet<ScheduleId>,
}

/// An occurrence that is passed over, with its item in the plan.
pub(crate) type PassedItem = (ItemKey, Pass);

/// An occurrence that is passed over.
pub(crate) struct Pass {
    pub entry: Arc<Entry>,
    pub repair: Repair,
}

impl Pass {
    /// What is told once it is passed over for good.
    pub(super) fn skipped(&self) -> Option<Event> {
        self.repair.skips().next().map(|(reason, occurrences)| Event::Skipped {
            schedule: Arc::clone(&self.entry.name),
            reason: reason.as_str(),
            occurrences,
        })
    }
}

/// The consequence of a call that failed.
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
        if self.passes.is_empty() {
            self.freed.clear();
        }
        self.passes.push((item, Pass { entry: Arc::clone(entry), repair }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// The changes that the next call stores, and whose they are.
    pub(super) fn ask(&mut self) -> (Vec<Change>, Vec<PassedItem>) {
        let count = if self.apart { self.passes.len().min(1) } else { self.passes.len() };
        let asked: Vec<PassedItem> = self.passes.drain(..count).collect();
        self.apart &= !self.passes.is_empty();
        (asked.iter().map(|(_, pass)| Change::Repair(pass.repair.clone())).collect(), asked)
    }

    /// The call failed, if `of_a_row` for what one of its rows holds.
    pub(super) fn failed(&mut self, mut asked: Vec<PassedItem>, of_a_row: bool) -> Failed {
        if of_a_row && asked.len() > 1 {
            asked.append(&mut self.passes);
            (self.passes, self.apart) = (asked, true);
            return Failed::ApartNext;
        }
        if of_a_row && let Some((item, pass)) = asked.pop() {
            return Failed::Alone(item, pass);
        }
        self.apart = false;
        Failed::All(asked.into_iter().chain(self.passes.drain(..)).map(|(item, _)| item).collect())
    }

    /// It was passed over; what to tell of that.
    pub(super) fn passed(&mut self, pass: &Pass, boot: Boot) -> Option<Event> {
        let [LedgerRow::Skipped { holder: Some(holder), reason, .. }] = pass.repair.rows[..] else {
            self.queued.insert(pass.entry.id, boot);
            return None;
        };
        if self.in_a_row.len() >= MOST_STREAKS {
            self.in_a_row.clear();
        }
        let count = self.in_a_row.entry(pass.entry.id).or_default();
        *count += 1;
        let (schedule, in_a_row) = (Arc::clone(&pass.entry.name), *count);
        let is_late = reason == Reason::HolderLate;
        in_a_row.is_multiple_of(STREAK).then_some(Event::Overlapped { schedule, holder, is_late, in_a_row })
    }

    /// A poll sent then has brought what was queued before.
    pub(super) fn polled(&mut self, sent: Boot) {
        self.queued.retain(|_, queued| *queued >= sent);
    }

    /// The slot of a schedule is free; whether only a poll brings the execution that waits for it.
    pub(super) fn slot_freed(&mut self, schedule: ScheduleId) -> bool {
        if !self.passes.is_empty() {
            self.freed.insert(schedule);
        }
        self.queued.remove(&schedule).is_some()
    }

    /// Whether a poll must bring an execution that may begin now that this occurrence is passed over: it
    /// replaces one that had not begun and is cancelled, or the slot has become free meanwhile.
    pub(super) fn lets_begin(&mut self, pass: &Pass) -> bool {
        let may_begin = pass.repair.replaces.is_some() || self.freed.contains(&pass.entry.id);
        may_begin && self.queued.remove(&pass.entry.id).is_some()
    }

    /// An occurrence of it was claimed here.
    pub(super) fn claimed(&mut self, schedule: ScheduleId) {
        if !self.in_a_row.is_empty() {
            self.in_a_row.remove(&schedule);
        }
    }
}
