//! Schedules whose claim failed alone: which of them go into quarantine. Pure.
//!
//! A row whose claim fails alone, and once more after other claims were won, would fail for ever: it is
//! quarantined. While no claim is won the ledger itself may be at fault, and the rows are left to the next
//! poll.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::domain::{Entry, Error, ScheduleId};
use crate::store::{SeenSchedule, UnreadableRow};

/// The most schedules that are remembered.
const MOST: usize = 10_000;

#[derive(Default)]
pub(super) struct Suspects {
    /// Each with its version, and the number of claims that had been won by then.
    suspects: HashMap<ScheduleId, (i64, u64)>,
    /// How many claims have been won.
    wins: u64,
    /// Rows to be put into quarantine.
    broken: VecDeque<UnreadableRow>,
}

impl Suspects {
    /// A claim of this schedule was won.
    pub(super) fn won(&mut self, schedule: ScheduleId) {
        self.wins += 1;
        self.suspects.remove(&schedule);
    }

    /// The claim of a schedule failed alone.
    pub(super) fn failed(&mut self, entry: &Entry, error: &Error) {
        if self.suspects.len() >= MOST {
            self.suspects.clear();
        }
        let (version, wins) = *self.suspects.entry(entry.id).or_insert((entry.version, self.wins));
        if version != entry.version {
            self.suspects.insert(entry.id, (entry.version, self.wins));
        }
        if version != entry.version || wins == self.wins {
            return;
        }
        self.suspects.remove(&entry.id);
        let (id, version, state) = (entry.id, entry.version, entry.state.stored().to_owned());
        let (seen, name) = (SeenSchedule { id, version, state, next: None }, Arc::clone(&entry.name));
        self.broken.push_back(UnreadableRow { seen, name, reason: format!("{error:#}") });
    }

    /// Whether a row is to be put into quarantine.
    pub(super) fn has_broken(&self) -> bool {
        !self.broken.is_empty()
    }

    /// The next row to be put into quarantine.
    pub(super) fn pop_broken(&mut self) -> Option<UnreadableRow> {
        self.broken.pop_front()
    }

    /// This schedule's claim has failed before any claim was won.
    #[cfg(test)]
    pub(super) fn suspect(&mut self, id: ScheduleId, version: i64) {
        self.suspects.insert(id, (version, 0));
    }
}
