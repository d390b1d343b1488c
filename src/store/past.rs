//! What became of the newest planned occurrences of schedules, for strips of them.

use crate::domain::{ScheduleId, Timestamp};

/// The last of all attempts at a planned occurrence, or a span of occurrences that were skipped or withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PastRow {
    pub schedule: ScheduleId,
    pub id: i64,
    pub generation: i64,
    pub scheduled: Timestamp,
    /// The last of a span.
    pub until: Option<Timestamp>,
    /// How many occurrences it stands for.
    pub count: i64,
    pub attempt: i64,
    pub state: String,
    pub reason: String,
    pub due: Timestamp,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
}

/// So many rows of a schedule are read for so many occurrences: some have several attempts.
pub(crate) fn rows_of(most: usize) -> usize {
    most.saturating_add(most / 2)
}

/// Of each occurrence the last attempt, and so many occurrences of each schedule: the newest first.
pub(crate) fn occurrences(mut rows: Vec<PastRow>, most: usize) -> Vec<PastRow> {
    let occurrence = |it: &PastRow| (it.schedule, std::cmp::Reverse((it.generation, it.scheduled)));
    rows.sort_by_key(|it| (occurrence(it), std::cmp::Reverse(it.attempt)));
    rows.dedup_by_key(|it| occurrence(it));
    let (mut of, mut count) = (None, 0);
    rows.retain(|it| {
        count = if of == Some(it.schedule) { count + 1 } else { 1 };
        of = Some(it.schedule);
        count <= most
    });
    rows
}
