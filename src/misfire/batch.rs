//! Batches: repairs and revocations are written many to a transaction, and the time one takes sets the size
//! of the next.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::domain::{Boot, Entry, Event, MOST_PASSED, Millis};
use crate::repair::{self, Revocation, decide, pass_paused, plan_anew};
use crate::store::{Applied, Change, CursorAhead, Repair, Unstarted, Withdrawn};
use crate::time::Now;

/// The most rows that one transaction writes, and the limit of the first.
pub(super) const MOST_ROWS: usize = 2_000;
/// The execution's row, and mostly another that follows it.
const ROWS_OF_REVOCATION: usize = 2;
/// A batch that takes longer is followed by one of half its rows.
const SLOW: Millis = 1_000;
/// A batch that takes less doubles the limit.
const QUICK: Millis = 250;

/// How many rows the next batch may write.
pub(super) struct BatchLimit {
    pub(super) rows: usize,
    most: usize,
}

impl BatchLimit {
    pub(super) fn new(most: usize) -> Self {
        Self { rows: most, most }
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

/// The changes to be written, in as many batches as it takes.
pub(super) enum Unwritten {
    /// The repair is decided when its batch is sent.
    Overdue(Overdue),
    /// A schedule whose cursor is ahead of the clock.
    Ahead(CursorAhead),
    /// A schedule whose job or application is paused.
    HeldBack(Entry),
    Revocation(Revocation),
    /// A PENDING execution of a removed schedule.
    Withdrawn(Withdrawn),
}

impl Unwritten {
    /// The name of the schedule whose cursor it moves.
    fn schedule(&self) -> Option<&Arc<str>> {
        match self {
            Self::Overdue(it) => Some(&it.entry.name),
            Self::Ahead(it) => Some(&it.entry.name),
            Self::HeldBack(entry) => Some(&entry.name),
            Self::Revocation(_) | Self::Withdrawn(_) => None,
        }
    }

    /// The event of a won repair or revocation.
    pub(super) fn repaired(&self) -> Event {
        let (schedule, what) = match self {
            Self::Overdue(it) => (&it.entry.name, "misfire repaired"),
            Self::Ahead(it) => (&it.entry.name, "planned anew, as its cursor was ahead of the clock"),
            Self::HeldBack(entry) => (&entry.name, "skipped what a pause held back"),
            Self::Revocation(it) => return Event::TakenBack { attempt: it.stranded.named() },
            Self::Withdrawn(it) => return Event::Cancelled { attempt: it.attempt.clone() },
        };
        Event::Repaired { schedule: Arc::clone(schedule), what }
    }
}

/// An overdue schedule, with the unstarted executions of its earlier repairs.
pub(super) struct Overdue {
    pub(super) entry: Entry,
    pub(super) unstarted: Vec<Unstarted>,
}

impl Overdue {
    /// The schedule as this repair leaves it, if that does not reach the present.
    pub(super) fn after(&self, repair: &Repair) -> Option<Self> {
        let is_behind = repair.to.next.at().is_some_and(|next| next <= repair.now);
        // A repair raises the version.
        let (cursor, version) = (repair.to, repair.version + 1);
        is_behind
            .then(|| Self { entry: Entry { cursor, version, ..self.entry.clone() }, unstarted: Vec::new() })
    }
}

/// One transaction's part of a list.
pub(crate) struct Batch {
    pub(super) list: VecDeque<Unwritten>,
    pub(super) rows: usize,
    /// When it was sent.
    pub(super) sent: Boot,
    /// The schedules that are still overdue once they are repaired, by their places in the batch.
    still_behind: Vec<(usize, Overdue)>,
    /// The occurrences that are recorded as skipped, by the places of their repairs in the batch.
    skipped: Vec<(usize, Event)>,
}

impl Batch {
    /// Takes the next batch off the list: changes that write at most so many rows and search a bounded number
    /// of occurrences, but at least one. Schedules that need no repair any more are left out.
    pub(super) fn next(
        list: &mut VecDeque<Unwritten>,
        most_rows: usize,
        least_threshold: Millis,
        now: Now,
    ) -> Option<(Vec<Change>, Self)> {
        let mut batch = Self {
            list: VecDeque::new(),
            rows: 0,
            sent: now.boot,
            still_behind: Vec::new(),
            skipped: Vec::new(),
        };
        let (mut changes, mut searched) = (Vec::new(), 0);
        while searched < MOST_PASSED
            && let Some(unwritten) = list.pop_front()
        {
            let change = match &unwritten {
                Unwritten::Revocation(it) => Some(it.change().into()),
                Unwritten::Withdrawn(it) => Some(it.cancel(now.db).into()),
                Unwritten::Overdue(it) => {
                    decide(&it.entry, &it.unstarted, now.db, least_threshold).map(Change::Repair)
                }
                // A node may believe that it is earlier than the database has said.
                Unwritten::Ahead(it) => plan_anew(&it.entry, now.db.max(it.seen)).map(Change::Repair),
                Unwritten::HeldBack(entry) => pass_paused(entry, now.db).map(Change::Repair),
            };
            let Some(change) = change else { continue };
            let rows = match (&unwritten, &change) {
                (_, Change::Repair(repair)) => repair.writes(),
                (Unwritten::Revocation(_), _) => ROWS_OF_REVOCATION,
                _ => 1,
            };
            if !changes.is_empty() && batch.rows + rows > most_rows {
                list.push_front(unwritten);
                break;
            }
            if let (Unwritten::Overdue(overdue), Change::Repair(repair)) = (&unwritten, &change) {
                searched += repair::searched(&overdue.entry, repair);
                batch.still_behind.extend(overdue.after(repair).map(|it| (batch.list.len(), it)));
            }
            if let (Some(schedule), Change::Repair(repair)) = (unwritten.schedule(), &change) {
                let place = batch.list.len();
                batch.skipped.extend(repair.skips().map(|(reason, occurrences)| {
                    let (schedule, reason) = (Arc::clone(schedule), reason.as_str());
                    (place, Event::Skipped { schedule, reason, occurrences })
                }));
            }
            batch.rows += rows;
            batch.list.push_back(unwritten);
            changes.push(change);
        }
        (!changes.is_empty()).then_some((changes, batch))
    }

    /// What is told of the occurrences that its won repairs have skipped.
    pub(super) fn take_skipped(&mut self, applied: &[Applied]) -> impl Iterator<Item = Event> {
        let skipped = std::mem::take(&mut self.skipped).into_iter();
        skipped.filter_map(|(place, event)| is_won(applied, place).then_some(event))
    }

    /// The schedules whose won repairs did not reach the present. A lost one is left to the next pass: its
    /// cursor is another's by now.
    pub(super) fn still_behind(self, applied: &[Applied]) -> VecDeque<Unwritten> {
        let won = self.still_behind.into_iter().filter(|(place, _)| is_won(applied, *place));
        won.map(|(_, overdue)| Unwritten::Overdue(overdue)).collect()
    }
}

/// Whether the change at this place of a batch was made.
fn is_won(applied: &[Applied], place: usize) -> bool {
    applied.get(place) == Some(&Applied::Done)
}

#[cfg(test)]
mod tests;
