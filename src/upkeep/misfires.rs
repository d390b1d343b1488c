//! Misfires: cursors overdue by more than their threshold move past the present.
//!
//! [`decide`] says for each schedule how, and only when its batch is sent: schedules that were found may have
//! waited for their turn. A schedule too far behind for one repair is repaired again behind all others.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::batch::{Batch, WriteList};
use super::operation::MisfireOp;
use crate::domain::{Entry, Event, Millis, ScheduleId};
use crate::repair::{self, MOST_PASSED, decide};
use crate::store::{Lane, Repair, Stalled, StalledQuery, Unstarted};
use crate::time::Now;

/// Schedules per search.
const PER_SEARCH: usize = 4_000;

/// The search for schedules due in this span of database time: all of them, or those that an earlier search
/// left in these lanes.
pub(super) fn search(application: &str, due: Range<Millis>, lanes: Option<Vec<Lane>>) -> MisfireOp {
    let (application, from, before) = (application.to_owned(), due.start, due.end);
    MisfireOp::FindOverdue(StalledQuery { application, from, before, lanes, limit: PER_SEARCH })
}

/// An overdue schedule, with the unstarted executions of its earlier repairs.
pub(super) struct Overdue {
    entry: Entry,
    unstarted: Vec<Unstarted>,
}

impl Overdue {
    pub(super) fn list(found: Stalled) -> VecDeque<Self> {
        let mut unstarted: HashMap<ScheduleId, Vec<Unstarted>> = HashMap::new();
        for it in found.unstarted {
            unstarted.entry(it.schedule).or_default().push(it);
        }
        let overdue = found.entries.into_iter().map(|entry| {
            let unstarted = unstarted.remove(&entry.id).unwrap_or_default();
            Self { entry, unstarted }
        });
        overdue.collect()
    }

    /// The schedule as this repair leaves it, if that does not reach the present.
    fn after(&self, repair: &Repair) -> Option<Self> {
        let is_behind = repair.to.next.is_some_and(|next| next <= repair.now);
        // A repair raises the version.
        let (cursor, version) = (repair.to, repair.version + 1);
        is_behind
            .then(|| Self { entry: Entry { cursor, version, ..self.entry.clone() }, unstarted: Vec::new() })
    }

    pub(super) fn repaired(&self) -> Event {
        Event::Repaired { schedule: Arc::clone(&self.entry.name), what: "misfire repaired" }
    }
}

/// Takes the next batch off the list: repairs that write at most so many rows and search a bounded number of
/// occurrences, but at least one. Schedules that need no repair any more are left out.
pub(super) fn next_batch(
    list: &mut VecDeque<Overdue>,
    most_rows: usize,
    least_threshold: Millis,
    now: Now,
) -> Option<(MisfireOp, Batch)> {
    let (mut rows, mut searched) = (0, 0);
    let (mut batch, mut repairs, mut still_behind) = (VecDeque::new(), Vec::new(), Vec::new());
    while searched < MOST_PASSED
        && let Some(overdue) = list.pop_front()
    {
        let Some(repair) = decide(&overdue.entry, &overdue.unstarted, now.db, least_threshold) else {
            continue;
        };
        if !repairs.is_empty() && rows + repair.writes() > most_rows {
            list.push_front(overdue);
            break;
        }
        rows += repair.writes();
        searched += repair::searched(&overdue.entry, &repair);
        still_behind.extend(overdue.after(&repair).map(|overdue| (batch.len(), overdue)));
        repairs.push(repair);
        batch.push_back(overdue);
    }
    let list = WriteList::Repairs(batch);
    let any = !repairs.is_empty();
    any.then_some((MisfireOp::Repair(repairs), Batch { list, rows, sent: now.boot, still_behind }))
}

#[cfg(test)]
mod tests;
