//! Misfires: cursors overdue by more than their threshold move past the present.
//!
//! [`decide`](crate::repair::decide) says for each schedule how, and only when its batch is sent, because the
//! schedules may have waited for their turn. One too far behind for one repair is repaired again behind all
//! others.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::batch::Unwritten;
use super::calls::{Asked, Call};
use crate::domain::{Entry, Millis, ScheduleId};
use crate::store::{OverduePage, OverdueQuery, Repair, Section, Unstarted};

/// Schedules per search.
const PER_SEARCH: usize = 4_000;

/// The search for schedules due in this span of database time: all of them, or those that an earlier search
/// left in these sections.
pub(super) fn search(application: &str, due: Range<Millis>, sections: Option<Vec<Section>>) -> Call {
    let (application, from, before) = (application.to_owned(), due.start, due.end);
    Asked::find_overdue(OverdueQuery { application, from, before, sections, limit: PER_SEARCH }, ())
}

/// An overdue schedule, with the unstarted executions of its earlier repairs.
pub(super) struct Overdue {
    pub(super) entry: Entry,
    pub(super) unstarted: Vec<Unstarted>,
}

impl Overdue {
    pub(super) fn list(found: OverduePage) -> VecDeque<Unwritten> {
        let mut unstarted: HashMap<ScheduleId, Vec<Unstarted>> = HashMap::new();
        for it in found.unstarted {
            unstarted.entry(it.schedule).or_default().push(it);
        }
        let overdue = found.entries.into_iter().map(|entry| {
            let unstarted = unstarted.remove(&entry.id).unwrap_or_default();
            Unwritten::Overdue(Self { entry, unstarted })
        });
        overdue.collect()
    }

    /// The schedule as this repair leaves it, if that does not reach the present.
    pub(super) fn after(&self, repair: &Repair) -> Option<Self> {
        let is_behind = repair.to.next.is_some_and(|next| next <= repair.now);
        // A repair raises the version.
        let (cursor, version) = (repair.to, repair.version + 1);
        is_behind
            .then(|| Self { entry: Entry { cursor, version, ..self.entry.clone() }, unstarted: Vec::new() })
    }
}

#[cfg(test)]
mod tests;
