//! Turns each schedule's row into all its occurrences inside the window, in time order. Pure.

use std::cmp::Reverse;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::domain::{Entry, Millis, Occurrence, ScheduleId};

/// Below this many rows one thread is faster than two.
const PARALLEL_ROWS: usize = 4_096;

/// The most occurrences of one schedule: of a millisecond's interval a window holds some 6,000, and more only
/// of a row that is far behind and whose threshold lets it be. The next poll goes on where this one stops.
const LONGEST_CHAIN: usize = 10_000;

/// Every occurrence before `until`, ordered by (fire time, priority descending, id).
///
/// Rows whose cursor is behind their own misfire threshold, or `least` if that is more, are left to the
/// misfire handler.
pub(crate) fn expand(entries: &[Arc<Entry>], now: Millis, until: Millis, least: Millis) -> Vec<Occurrence> {
    match pool() {
        Some(pool) if entries.len() >= PARALLEL_ROWS => pool.install(|| {
            let chains = entries.par_iter().flat_map_iter(|entry| chain(entry, now, until, least));
            let mut occurrences: Vec<Occurrence> = chains.collect();
            occurrences.par_sort_by_key(order);
            occurrences
        }),
        _ => {
            let chains = entries.iter().flat_map(|entry| chain(entry, now, until, least));
            let mut occurrences: Vec<Occurrence> = chains.collect();
            occurrences.sort_by_key(order);
            occurrences
        }
    }
}

fn order(it: &Occurrence) -> (Millis, Reverse<i32>, ScheduleId) {
    (it.at, Reverse(it.entry.priority), it.entry.id)
}

/// The links of one schedule inside the window, each guarded by the one before.
fn chain(
    entry: &Arc<Entry>,
    now: Millis,
    until: Millis,
    least: Millis,
) -> impl Iterator<Item = Occurrence> + use<> {
    let head = Occurrence::head(entry).filter(|_| !entry.is_misfired(now, least));
    std::iter::successors(head, Occurrence::link).take_while(move |it| it.at < until).take(LONGEST_CHAIN)
}

/// A pool of our own, so that the application's rayon jobs and ours never wait for each other.
fn pool() -> Option<&'static rayon::ThreadPool> {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    POOL.get_or_init(|| {
        rayon::ThreadPoolBuilder::new().thread_name(|n| format!("firetime-expand-{n}")).build().ok()
    })
    .as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{cron, simple};

    const LEAST: Millis = 10_000;

    fn times(occurrences: &[Occurrence]) -> Vec<(i64, Millis)> {
        occurrences.iter().map(|it| (it.entry.id.0, it.at)).collect()
    }

    #[test]
    fn the_windows_edge_is_exclusive_and_the_next_window_begins_on_it() {
        let entry = Arc::new(cron(1, "* * * * * ?", 1_000));
        let first = expand(&[Arc::clone(&entry)], 0, 6_000, LEAST);
        assert_eq!(times(&first), [(1, 1_000), (1, 2_000), (1, 3_000), (1, 4_000), (1, 5_000)]);
        let mut moved = Entry::clone(&entry);
        moved.cursor.prev = Some(5_000);
        moved.cursor.next = Some(6_000);
        assert_eq!(times(&expand(&[Arc::new(moved)], 5_000, 7_000, LEAST)), [(1, 6_000)]);
    }

    #[test]
    fn an_end_time_inside_the_window_does_not_disable_expansion() {
        let entry = Arc::new(simple(1, 1_000, 1_000, -1, Some(3_000)));
        assert_eq!(times(&expand(&[entry], 0, 6_000, LEAST)), [(1, 1_000), (1, 2_000), (1, 3_000)]);
    }

    #[test]
    fn equal_times_go_by_priority_then_id() {
        let mut low = simple(1, 1_000, 0, 0, None);
        low.priority = 1;
        let mut high = simple(2, 1_000, 0, 0, None);
        high.priority = 9;
        let other = simple(3, 1_000, 0, 0, None);
        let all = [Arc::new(low), Arc::new(high), Arc::new(other)];
        assert_eq!(times(&expand(&all, 0, 6_000, LEAST)), [(2, 1_000), (3, 1_000), (1, 1_000)]);
    }

    #[test]
    fn rows_behind_their_own_threshold_are_left_to_the_misfire_handler() {
        let mut early = simple(1, 1_000, 0, 0, None);
        early.threshold = 60_000;
        let mut late = simple(2, 1_000, 0, 0, None);
        late.threshold = 100_000;
        let all = [Arc::new(early), Arc::new(late)];
        assert_eq!(times(&expand(&all, 61_001, 66_000, LEAST)), [(2, 1_000)]);
    }

    /// The misfire handler raises such a threshold; so must the poll, or the row is nobody's in between.
    #[test]
    fn a_late_row_with_a_tiny_threshold_is_not_left_to_nobody() {
        let mut row = simple(1, 1_000, 0, 0, None);
        row.threshold = 0;
        let row = [Arc::new(row)];
        assert_eq!(times(&expand(&row, 1_000 + LEAST, 60_000, LEAST)), [(1, 1_000)]);
        assert_eq!(times(&expand(&row, 1_001 + LEAST, 60_000, LEAST)), []);
    }

    /// Its threshold keeps it from the misfire handler: in memory there is no place for all that it missed.
    #[test]
    fn a_row_decades_behind_does_not_fill_the_memory() {
        let mut row = simple(1, 100_000_000_000, 1, -1, None);
        row.threshold = Millis::MAX;
        let now = 1_767_323_045_678;
        let links = expand(&[Arc::new(row)], now, now + 6_000, LEAST);
        assert_eq!(links.len(), LONGEST_CHAIN);
        assert_eq!((links[0].at, links[9_999].at), (100_000_000_000, 100_000_009_999));
    }

    #[test]
    fn each_link_guards_on_the_one_before() {
        let links = expand(&[Arc::new(simple(1, 1_000, 2_000, 2, None))], 0, 60_000, LEAST);
        let moves: Vec<_> = links.iter().map(|it| (it.prev, it.at, it.following)).collect();
        assert_eq!(
            moves,
            [(None, 1_000, Some(3_000)), (Some(1_000), 3_000, Some(5_000)), (Some(3_000), 5_000, None)]
        );
    }

    #[test]
    fn many_rows_expand_the_same_on_many_threads() {
        let rows: Vec<_> = (0..5_000).map(|id| Arc::new(simple(id, 1_000 + id % 7, 500, -1, None))).collect();
        let together = times(&expand(&rows, 0, 3_000, LEAST));
        let mut apart: Vec<_> =
            rows.iter().flat_map(|row| times(&expand(&[Arc::clone(row)], 0, 3_000, LEAST))).collect();
        apart.sort_by_key(|&(id, at)| (at, id));
        assert_eq!(together, apart);
    }
}
