//! Turns each schedule's row into all its occurrences inside the window, in time order. Pure.

use std::cmp::Reverse;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::domain::{Entry, Millis, Occurrence, ScheduleId, Timestamp};

/// Below this many rows one thread is faster than two.
const PARALLEL_ROWS: usize = 4_096;

/// The most occurrences of one poll, and at least one of each of its rows besides. Rows that are far behind,
/// and whose threshold lets them be, have more. The next poll goes on where this one stops.
const MOST: usize = 150_000;

/// Occurrences, ordered by (fire time, priority descending, id).
pub(crate) struct Expanded {
    pub occurrences: Vec<Occurrence>,
    /// The window has no others.
    pub complete: bool,
}

/// The occurrences before `until`. If there are more than [`MOST`], each job gets its share, and in it each
/// schedule.
///
/// Rows whose cursor is behind their own misfire threshold, or `least` if that is more, are left to the
/// misfire handler.
pub(crate) fn expand(entries: &[Arc<Entry>], now: Timestamp, until: Timestamp, least: Millis) -> Expanded {
    let fit = |entry: &&Arc<Entry>| !entry.is_misfired(now, least);
    let heads: Vec<Occurrence> = entries.iter().filter(fit).filter_map(Occurrence::head).collect();
    let pool = if entries.len() >= PARALLEL_ROWS { pool() } else { None };
    let mut occurrences = Vec::new();
    let mut heads = round(&mut occurrences, heads, until, MOST, pool);
    let mut cut_off = false;
    while !heads.is_empty() && occurrences.len() < MOST {
        let left = MOST - occurrences.len();
        if heads.len() > left {
            heads.sort_by_key(order);
            heads.truncate(left);
            cut_off = true;
        }
        heads = round(&mut occurrences, heads, until, left, pool);
    }
    match pool {
        Some(pool) => pool.install(|| occurrences.par_sort_by_key(order)),
        None => occurrences.sort_by_key(order),
    }
    Expanded { occurrences, complete: heads.is_empty() && !cut_off }
}

/// Adds some links of each chain, together about `most`, but at least one of each. Where chains go on before
/// `until`, their next links are the answer.
fn round(
    occurrences: &mut Vec<Occurrence>,
    heads: Vec<Occurrence>,
    until: Timestamp,
    most: usize,
    pool: Option<&rayon::ThreadPool>,
) -> Vec<Occurrence> {
    let mut jobs: FxHashMap<Arc<str>, usize> = FxHashMap::default();
    for Occurrence { entry, .. } in &heads {
        match jobs.get_mut(&entry.job) {
            Some(count) => *count += 1,
            None => drop(jobs.insert(Arc::clone(&entry.job), 1)),
        }
    }
    let unfinished = Mutex::new(Vec::new());
    let links = |head: Occurrence| {
        let share = (most / jobs.len() / jobs[&head.entry.job]).max(1);
        chain(head, until, share, &unfinished)
    };
    match pool {
        Some(pool) => pool.install(|| occurrences.par_extend(heads.into_par_iter().flat_map_iter(links))),
        None => occurrences.extend(heads.into_iter().flat_map(links)),
    }
    unfinished.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn order(it: &Occurrence) -> (Timestamp, Reverse<i32>, ScheduleId) {
    (it.at, Reverse(it.entry.priority), it.entry.id)
}

/// At most so many links of one schedule before `until`, each guarded by the one before. The next, if there
/// is one, joins the unfinished.
fn chain(
    head: Occurrence,
    until: Timestamp,
    most: usize,
    unfinished: &Mutex<Vec<Occurrence>>,
) -> impl Iterator<Item = Occurrence> {
    let (mut next, mut left) = (Some(head), most);
    std::iter::from_fn(move || {
        let link = next.take().filter(|it| it.at < until)?;
        if left == 0 {
            unfinished.lock().unwrap_or_else(PoisonError::into_inner).push(link);
            return None;
        }
        left -= 1;
        next = link.link();
        Some(link)
    })
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
    use crate::domain::NextFire;
    use crate::fixtures::{cron, simple};

    const LEAST: Millis = 10_000;

    fn times(expanded: &Expanded) -> Vec<(i64, Millis)> {
        expanded.occurrences.iter().map(|it| (it.entry.id.0, it.at.millis())).collect()
    }

    #[test]
    fn the_windows_edge_is_exclusive_and_the_next_window_begins_on_it() {
        let entry = Arc::new(cron(1, "* * * * * ?", Timestamp::at(1_000)));
        let first = expand(&[Arc::clone(&entry)], Timestamp::at(0), Timestamp::at(6_000), LEAST);
        assert_eq!(times(&first), [(1, 1_000), (1, 2_000), (1, 3_000), (1, 4_000), (1, 5_000)]);
        let mut moved = Entry::clone(&entry);
        moved.cursor.prev = Some(Timestamp::at(5_000));
        moved.cursor.next = NextFire::At(Timestamp::at(6_000));
        assert_eq!(
            times(&expand(&[Arc::new(moved)], Timestamp::at(5_000), Timestamp::at(7_000), LEAST)),
            [(1, 6_000)]
        );
    }

    #[test]
    fn an_end_time_inside_the_window_does_not_disable_expansion() {
        let entry = Arc::new(simple(1, Timestamp::at(1_000), 1_000, -1, Some(Timestamp::at(3_000))));
        assert_eq!(
            times(&expand(&[entry], Timestamp::at(0), Timestamp::at(6_000), LEAST)),
            [(1, 1_000), (1, 2_000), (1, 3_000)]
        );
    }

    #[test]
    fn equal_times_go_by_priority_then_id() {
        let mut low = simple(1, Timestamp::at(1_000), 0, 0, None);
        low.priority = 1;
        let mut high = simple(2, Timestamp::at(1_000), 0, 0, None);
        high.priority = 9;
        let other = simple(3, Timestamp::at(1_000), 0, 0, None);
        let all = [Arc::new(low), Arc::new(high), Arc::new(other)];
        assert_eq!(
            times(&expand(&all, Timestamp::at(0), Timestamp::at(6_000), LEAST)),
            [(2, 1_000), (3, 1_000), (1, 1_000)]
        );
    }

    #[test]
    fn rows_behind_their_own_threshold_are_left_to_the_misfire_handler() {
        let mut early = simple(1, Timestamp::at(1_000), 0, 0, None);
        early.threshold = 60_000;
        let mut late = simple(2, Timestamp::at(1_000), 0, 0, None);
        late.threshold = 100_000;
        let all = [Arc::new(early), Arc::new(late)];
        assert_eq!(times(&expand(&all, Timestamp::at(61_001), Timestamp::at(66_000), LEAST)), [(2, 1_000)]);
    }

    /// The misfire handler raises such a threshold; so must the poll, or the row is nobody's in between.
    #[test]
    fn a_late_row_with_a_tiny_threshold_is_not_left_to_nobody() {
        let mut row = simple(1, Timestamp::at(1_000), 0, 0, None);
        row.threshold = 0;
        let row = [Arc::new(row)];
        assert_eq!(
            times(&expand(&row, Timestamp::at(1_000 + LEAST), Timestamp::at(60_000), LEAST)),
            [(1, 1_000)]
        );
        assert_eq!(times(&expand(&row, Timestamp::at(1_001 + LEAST), Timestamp::at(60_000), LEAST)), []);
    }

    /// Its threshold keeps it from the misfire handler: in memory there is no place for all that it missed.
    #[test]
    fn a_row_decades_behind_does_not_fill_the_memory() {
        let mut row = simple(1, Timestamp::at(100_000_000_000), 1, -1, None);
        row.threshold = Millis::MAX;
        let now = Timestamp::at(1_767_323_045_678);
        let Expanded { occurrences, complete } = expand(&[Arc::new(row)], now, now + 6_000, LEAST);
        assert_eq!((occurrences.len(), complete), (MOST, false));
        assert_eq!(
            (occurrences[0].at, occurrences[MOST - 1].at),
            (Timestamp::at(100_000_000_000), Timestamp::at(100_000_149_999))
        );
    }

    /// Schedules of every second with a threshold of a day, three hours behind, beside one of another job.
    fn behind(rows: i64, now: Timestamp) -> Vec<Arc<Entry>> {
        let behind = (1..=rows).map(|id| {
            let mut row = simple(id, now - 3 * 3_600_000, 1_000, -1, None);
            row.threshold = 86_400_000;
            Arc::new(row)
        });
        let mut other = simple(0, now, 1_000, -1, None);
        other.job = "other".into();
        behind.chain([Arc::new(other)]).collect()
    }

    #[test]
    fn many_rows_far_behind_do_not_fill_the_memory_and_hold_up_no_other_job() {
        let now = Timestamp::at(1_767_323_045_000);
        for rows in [10, 1_000, 4_000, 6_000] {
            let expanded = expand(&behind(rows, now), now, now + 6_000, LEAST);
            assert!(expanded.occurrences.len() <= MOST, "{}", expanded.occurrences.len());
            assert_eq!(expanded.complete, rows == 10);
            let mut counts: FxHashMap<i64, usize> = FxHashMap::default();
            times(&expanded).into_iter().for_each(|(id, _)| *counts.entry(id).or_default() += 1);
            assert_eq!(counts[&0], 6, "the other job's schedule is whole");
            let fewest = if rows == 10 { 10_806 } else { MOST / 2 / usize::try_from(rows).unwrap() };
            assert!((1..=rows).all(|id| counts[&id] >= fewest), "each of the others has its share");
        }
    }

    #[test]
    fn a_poll_of_more_rows_than_occurrences_has_one_of_each() {
        let now = Timestamp::at(1_767_323_045_000);
        let rows = i64::try_from(MOST).unwrap() + 5;
        let expanded = expand(&behind(rows, now), now, now + 6_000, LEAST);
        let mut ids: Vec<i64> = times(&expanded).into_iter().map(|it| it.0).filter(|id| *id > 0).collect();
        ids.sort_unstable();
        assert!(ids.into_iter().eq(1..=rows), "one of each");
    }

    /// The last round has room for some of the chains alone, and those end in it.
    #[test]
    fn chains_that_no_round_had_room_for_are_cut_off() {
        let rows: Vec<_> =
            (0..40_000).map(|id| Arc::new(simple(id, Timestamp::at(1_000), 1_000, -1, None))).collect();
        let expanded = expand(&rows, Timestamp::at(0), Timestamp::at(4_500), LEAST);
        assert_eq!((expanded.occurrences.len(), expanded.complete), (MOST, false));
    }

    /// The room that a job does not use is shared out among the others.
    #[test]
    fn a_schedule_of_every_millisecond_among_others_is_whole() {
        let fast = simple(0, Timestamp::at(1_000), 1, -1, None);
        let others = (1..=5_000).map(|id| Arc::new(simple(id, Timestamp::at(1_000), 1_000, -1, None)));
        let rows: Vec<_> = others.chain([Arc::new(fast)]).collect();
        let expanded = expand(&rows, Timestamp::at(0), Timestamp::at(7_000), LEAST);
        assert!(expanded.complete);
        assert_eq!(expanded.occurrences.len(), 5_000 * 6 + 6_000);
    }

    #[test]
    fn each_link_guards_on_the_one_before() {
        let links = expand(
            &[Arc::new(simple(1, Timestamp::at(1_000), 2_000, 2, None))],
            Timestamp::at(0),
            Timestamp::at(60_000),
            LEAST,
        )
        .occurrences;
        let moves: Vec<_> = links.iter().map(|it| (it.prev, it.at, it.following.at())).collect();
        let [first, second, third] = [1_000, 3_000, 5_000].map(Timestamp::at);
        assert_eq!(
            moves,
            [(None, first, Some(second)), (Some(first), second, Some(third)), (Some(second), third, None)]
        );
    }

    #[test]
    fn many_rows_expand_the_same_on_many_threads() {
        let rows: Vec<_> =
            (0..5_000).map(|id| Arc::new(simple(id, Timestamp::at(1_000 + id % 7), 500, -1, None))).collect();
        let together = times(&expand(&rows, Timestamp::at(0), Timestamp::at(3_000), LEAST));
        let mut apart: Vec<_> = rows
            .iter()
            .flat_map(|row| times(&expand(&[Arc::clone(row)], Timestamp::at(0), Timestamp::at(3_000), LEAST)))
            .collect();
        apart.sort_by_key(|&(id, at)| (at, id));
        assert_eq!(together, apart);
    }
}
