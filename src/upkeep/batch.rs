//! Batches: repairs and revocations are written many to a transaction, and the time one takes sets the size
//! of the next.

use std::collections::VecDeque;

use super::misfires::{self, Overdue};
use super::operation::MisfireOp;
use super::takeover;
use crate::domain::{Event, Millis};
use crate::repair::Revocation;
use crate::store::Applied;
use crate::time::Now;

/// The most rows that one transaction writes, and the limit of the first.
const MOST_ROWS: usize = 2_000;
/// A batch that takes longer is followed by one of half its rows.
const SLOW: Millis = 1_000;
/// A batch that takes less doubles the limit.
const QUICK: Millis = 250;

/// How many rows the next batch may write.
pub(super) struct BatchLimit {
    rows: usize,
    most: usize,
}

impl BatchLimit {
    pub(super) fn new() -> Self {
        Self { rows: MOST_ROWS, most: MOST_ROWS }
    }

    /// One schedule or execution to a batch.
    #[cfg(test)]
    pub(super) fn one_by_one() -> Self {
        Self { rows: 1, most: 1 }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// A batch of so many rows has been written.
    pub(super) fn written(&mut self, rows: usize, took: Millis) {
        if took > SLOW {
            self.halve(rows);
        } else if took < QUICK {
            self.rows = (self.rows * 2).min(self.most);
        }
    }

    /// The next batch has half the rows of one that failed or was slow.
    pub(super) fn halve(&mut self, rows: usize) {
        self.rows = (rows / 2).max(1);
    }
}

/// What is to be written, in as many batches as it takes.
pub(super) enum WriteList {
    Repairs(VecDeque<Overdue>),
    Revocations(VecDeque<Revocation>),
}

impl WriteList {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Repairs(list) => list.len(),
            Self::Revocations(list) => list.len(),
        }
    }

    /// Takes the next batch off the list; none if nothing of it needs to be written any more.
    pub(super) fn next_batch(
        &mut self,
        most_rows: usize,
        least_threshold: Millis,
        now: Now,
    ) -> Option<(MisfireOp, Batch)> {
        match self {
            Self::Repairs(list) => misfires::next_batch(list, most_rows, least_threshold, now),
            Self::Revocations(list) => takeover::next_batch(list, most_rows, now.boot),
        }
    }
}

/// One transaction's part of a list.
pub(super) struct Batch {
    pub(super) list: WriteList,
    pub(super) rows: usize,
    /// When (boot clock) it was sent.
    pub(super) sent: Millis,
    /// The schedules that are still overdue once they are repaired, by their places in the batch.
    pub(super) still_behind: Vec<(usize, Overdue)>,
}

impl Batch {
    /// The events of the won repairs or revocations.
    pub(super) fn events(&self, applied: &[Applied]) -> Vec<Event> {
        match &self.list {
            WriteList::Repairs(list) => select(list, applied).map(Overdue::repaired).collect(),
            WriteList::Revocations(list) => select(list, applied).flat_map(takeover::events).collect(),
        }
    }

    /// The schedules whose won repairs did not reach the present. A lost one is left to the next pass: its
    /// cursor is another's by now.
    pub(super) fn still_behind(self, applied: &[Applied]) -> VecDeque<Overdue> {
        let is_won = |place: usize| applied.get(place) == Some(&Applied::Done);
        self.still_behind.into_iter().filter(|(place, _)| is_won(*place)).map(|(_, it)| it).collect()
    }
}

fn select<'a, T>(list: &'a VecDeque<T>, applied: &'a [Applied]) -> impl Iterator<Item = &'a T> {
    list.iter().zip(applied).filter(|(_, applied)| applied.is_done()).map(|(it, _)| it)
}

#[cfg(test)]
mod tests;
