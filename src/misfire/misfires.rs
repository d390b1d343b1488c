//! Misfires: cursors overdue by more than their threshold move past the present.
//!
//! [`decide`](crate::repair::decide) says how for each schedule. It is asked only when the batch is sent,
//! because the schedules may have waited for their turn. A schedule too far behind for one repair is repaired
//! again after all others.

use std::collections::HashMap;
use std::ops::Range;

use super::batch::{Overdue, Unwritten};
use super::calls::{Asked, Call};
use crate::domain::{ScheduleId, Timestamp};
use crate::store::{OverduePage, OverdueQuery, Section, Unstarted};

/// Schedules per search.
const PER_SEARCH: usize = 4_000;

/// The search for schedules due in this span of database time: all of them, or those that an earlier search
/// left in these sections.
pub(super) fn search(application: &str, due: Range<Timestamp>, sections: Option<Vec<Section>>) -> Call {
    let (application, from, before) = (application.to_owned(), due.start, due.end);
    Asked::find_overdue(OverdueQuery { application, from, before, sections, limit: PER_SEARCH }, ())
}

/// The overdue schedules that a search has found.
pub(super) fn list(found: OverduePage) -> impl Iterator<Item = Unwritten> {
    let mut unstarted: HashMap<ScheduleId, Vec<Unstarted>> = HashMap::new();
    for it in found.unstarted {
        unstarted.entry(it.schedule).or_default().push(it);
    }
    found.entries.into_iter().map(move |entry| {
        let unstarted = unstarted.remove(&entry.id).unwrap_or_default();
        Unwritten::Overdue(Overdue { entry, unstarted })
    })
}

#[cfg(test)]
mod tests;
