//! The decisions as tables.

use std::sync::Arc;

use super::*;
use crate::domain::{
    Cursor, Entry, ExecutionId, ExecutionState, MOST_FIRED, MOST_PASSED, Millis, MisfirePolicy, NextFire,
    Occurrence, Overlap, Reason, ScheduleId, ScheduleState, Timestamp, Token,
};
use crate::fixtures::{behind, cron, simple, stranded};
use crate::pipeline::expand::expand;
use crate::store::{Blocked, LedgerRow, Move, Repair, Stranded, Unstarted};
use crate::trigger::{Delay, Timing, Trigger};

const LEAST: Millis = 10_000;
/// 2026-01-02 03:04:05.678 UTC.
const TODAY: Timestamp = Timestamp::at(1_767_323_045_678);
/// When the tests' schedules are repaired: 100 s after their first occurrence.
const NOW: Timestamp = Timestamp::at(1_100_000);

/// A row's (first, last, count, prev, following).
fn moves(row: &LedgerRow) -> (Timestamp, Timestamp, u64, Option<Timestamp>, NextFire) {
    match row {
        LedgerRow::Skipped { from, to, count, prev, following, .. } => {
            (*from, *to, *count, *prev, *following)
        }
        LedgerRow::Pending { at, prev, following, .. } => (*at, *at, 1, *prev, *following),
    }
}

/// The rows' cursor moves follow one another from the entry's cursor to the repair's.
fn assert_without_gap(entry: &Entry, repair: &Repair) {
    let (mut prev, mut next, mut passed) = (entry.cursor.prev, entry.cursor.next, 0);
    for row in &repair.rows {
        let (from, to, count, row_prev, following) = moves(row);
        assert_eq!((row_prev, NextFire::At(from)), (prev, next), "{row:?}");
        (prev, next, passed) = (Some(to), following, passed + count);
    }
    assert_eq!(Cursor { prev, next }, repair.to);
    assert_eq!(passed, repair.passed);
}

fn pending(repair: &Repair) -> Vec<Timestamp> {
    let at = |row: &LedgerRow| match row {
        LedgerRow::Pending { at, .. } => Some(*at),
        LedgerRow::Skipped { .. } => None,
    };
    repair.rows.iter().filter_map(at).collect()
}

#[test]
fn the_next_occurrence_alone_is_skipped_by_hand() {
    let entry = behind(MisfirePolicy::FireAll, 1_000);
    let next = entry.cursor.next.at().unwrap();
    for state in [ScheduleState::Active, ScheduleState::Paused] {
        let entry = Entry { state, ..entry.clone() };
        let repair = skip(&entry, next, NOW).unwrap();
        assert_without_gap(&entry, &repair);
        assert_eq!((repair.rows.len(), repair.passed, repair.to.next), (1, 1, NextFire::At(next + 1_000)));
        assert!(repair.how == Move::Pass && pending(&repair).is_empty(), "somebody waits for a held row");
        assert_eq!(skip(&entry, next + 1_000, NOW), None, "it is not the next");
    }
    assert_eq!(skip(&Entry { state: ScheduleState::Error, ..entry }, next, NOW), None);
}

/// The ledger of the generation that ends tells what it has passed.
#[test]
fn a_cursor_ahead_of_the_clock_goes_back_to_the_present() {
    let entry = |prev, next| {
        let cursor = Cursor { prev, next: NextFire::At(next) };
        Entry { cursor, ..behind(MisfirePolicy::FireAll, 1_000) }
    };
    let far = NOW + 30_001;
    let ahead = entry(Some(far), far + 1_000);
    let repair = plan_anew(&ahead, NOW).unwrap();
    assert_eq!(repair.to, Cursor { prev: None, next: NextFire::At(NOW + 1_000) });
    assert!(repair.how == Move::Anew && repair.rows.is_empty() && repair.passed == 0);
    for other in [
        entry(Some(NOW + 30_000), NOW + 31_000),
        entry(None, NOW + 6_000),
        Entry { state: ScheduleState::Paused, ..ahead.clone() },
        Entry { timing: simple(1, NOW - 1_000, 0, 0, None).timing, ..ahead },
    ] {
        assert_eq!(plan_anew(&other, NOW), None, "{other:?}");
    }
}

#[test]
fn a_cursor_within_its_threshold_is_left_alone() {
    let mut entry = behind(MisfirePolicy::FireOnce, 1_000);
    entry.threshold = 100_000;
    assert_eq!(decide(&entry, &[], NOW, LEAST), None);
    entry.threshold = 99_999;
    assert!(decide(&entry, &[], NOW, LEAST).is_some());
}

#[test]
fn a_threshold_below_the_least_counts_as_the_least() {
    let mut entry = behind(MisfirePolicy::FireOnce, 1_000);
    entry.threshold = 1;
    assert_eq!(decide(&entry, &[], Timestamp::at(1_000_000 + LEAST), LEAST), None);
    assert!(decide(&entry, &[], Timestamp::at(1_000_001 + LEAST), LEAST).is_some());
}

#[test]
fn the_misfire_threshold_is_not_a_literal_in_two_classes() {
    for threshold in [0, 1, 9_999, 10_000, 10_001, 60_000, 3_600_000] {
        for late in [0, 1, 5_000, 9_999, 10_000, 10_001, 59_999, 60_000, 60_001, 3_600_000, 3_600_001] {
            let entry = Entry { threshold, ..behind(MisfirePolicy::FireOnce, 1_000) };
            let now = Timestamp::at(1_000_000 + late);
            let repaired = decide(&entry, &[], now, LEAST).is_some();
            let planned = !expand(&[Arc::new(entry)], now, now + 5_000, LEAST).occurrences.is_empty();
            assert!(repaired != planned, "threshold {threshold}, {late} late: {repaired} {planned}");
            assert_eq!(repaired, late > threshold.max(LEAST), "threshold {threshold}, {late} late");
        }
    }
}

#[test]
fn fire_once_runs_the_latest_and_skips_the_earlier() {
    let entry = behind(MisfirePolicy::FireOnce, 30_000);
    let repair = decide(&entry, &[], NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!(pending(&repair), [Timestamp::at(1_090_000)]);
    assert_eq!((repair.passed, repair.to.next), (4, NextFire::At(Timestamp::at(1_120_000))));
    let unstarted = [Unstarted { schedule: entry.id, execution: ExecutionId(7), token: Token::fresh() }];
    for (policy, give_way) in [(MisfirePolicy::FireOnce, 1), (MisfirePolicy::FireAll, 0)] {
        let repair = decide(&behind(policy, 30_000), &unstarted, NOW, LEAST).unwrap();
        assert_eq!(repair.supersede, unstarted[..give_way], "{policy:?}");
    }
}

#[test]
fn a_single_missed_occurrence_runs_without_a_skip() {
    let entry = behind(MisfirePolicy::FireOnce, 1_000_000);
    let repair = decide(&entry, &[], NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!((pending(&repair), repair.rows.len()), (vec![Timestamp::at(1_000_000)], 1));
}

/// Behind a skip the next is a delay away, behind a run it is not known before that has ended.
#[test]
fn what_a_fixed_delay_missed_runs_once() {
    let trigger = Trigger::Delay(Delay::new(Some(1_000_000), 30_000).unwrap());
    for policy in MisfirePolicy::ALL {
        let timing = Timing::new(trigger.clone(), None, None).unwrap();
        let entry = Entry { timing, ..behind(*policy, 30_000) };
        let repair = decide(&entry, &[], NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        let (fired, next) = match policy {
            MisfirePolicy::DoNothing => (vec![], NextFire::At(Timestamp::at(1_120_000))),
            _ => (vec![Timestamp::at(1_090_000)], NextFire::AfterRun),
        };
        assert_eq!((pending(&repair), repair.passed, repair.to.next), (fired, 4, next), "{policy:?}");
    }
}

#[test]
fn do_nothing_skips_all() {
    let entry = behind(MisfirePolicy::DoNothing, 30_000);
    let repair = decide(&entry, &[], NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert!(pending(&repair).is_empty());
}

#[test]
fn fire_all_runs_each_in_order_faster_than_planned() {
    let entry = behind(MisfirePolicy::FireAll, 1_500);
    let repair = decide(&entry, &[], NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!(pending(&repair).len(), 67);
    let dues: Vec<Timestamp> = repair
        .rows
        .iter()
        .map(|row| if let LedgerRow::Pending { due, .. } = row { *due } else { Timestamp::at(0) })
        .collect();
    assert!(dues.windows(2).all(|two| two[1] - two[0] == 750), "{dues:?}");
}

#[test]
fn fire_all_skips_what_is_beyond_its_cap() {
    let entry = behind(MisfirePolicy::FireAll, 10);
    let repair = decide(&entry, &[], NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!((pending(&repair).len(), repair.passed), (MOST_FIRED, 10_001));
}

#[test]
fn the_last_occurrence_of_a_finite_schedule_is_repaired_too() {
    let mut entry = simple(1, Timestamp::at(1_000_000), 30_000, 1, None);
    entry.misfire = MisfirePolicy::FireOnce;
    let repair = decide(&entry, &[], NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!((pending(&repair), repair.to.next), (vec![Timestamp::at(1_030_000)], NextFire::Never));
}

#[test]
fn more_than_one_repair_passes_is_left_to_the_next() {
    let entry = cron(1, "* * * * * ?", Timestamp::at(1_000_000));
    let now = Timestamp::at(1_000_000 + 250_000_000);
    let repair = decide(&entry, &[], now, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!((repair.passed, pending(&repair).len()), (MOST_PASSED, 0));
    assert!(repair.to.next.at().is_some_and(|next| next <= now));
}

/// A cursor that somebody set back to 1973, and a millisecond's interval: 1,670,000,000,000 occurrences.
#[test]
fn decades_of_a_millisecond_are_accounted_for_in_one_repair() {
    for policy in MisfirePolicy::ALL {
        let mut entry = simple(1, Timestamp::at(100_000_000_000), 1, -1, None);
        (entry.misfire, entry.threshold) = (*policy, 60_000);
        let repair = decide(&entry, &[], TODAY, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        let cursor = Cursor { prev: Some(TODAY), next: NextFire::At(TODAY + 1) };
        assert_eq!((repair.to, repair.passed), (cursor, 1_667_323_045_679), "{policy:?}");
    }
    let entry =
        Entry { state: ScheduleState::Paused, ..simple(1, Timestamp::at(100_000_000_000), 1, -1, None) };
    assert!(resume(&entry, TODAY).unwrap().how == Move::Resume);
}

/// What is reckoned is what a walk would find.
#[test]
fn a_leap_passes_what_a_walk_passes() {
    for (interval, repeats, end) in
        [(1, -1, None), (7, -1, None), (3, 2_500, None), (2, -1, Some(Timestamp::at(1_009_001)))]
    {
        let mut entry = simple(1, Timestamp::at(1_000_000), interval, repeats, end);
        entry.misfire = MisfirePolicy::FireAll;
        let walked: Vec<Timestamp> =
            std::iter::successors(Some(Timestamp::at(1_000_000)), |at| entry.timing.next_after(*at))
                .take_while(|at| *at <= NOW)
                .collect();
        let repair = decide(&entry, &[], NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        let last = walked.last().copied();
        assert_eq!((repair.passed, repair.to.prev), (walked.len() as u64, last), "{interval} {repeats}");

        entry.misfire = MisfirePolicy::FireOnce;
        let [skipped, fired] = &decide(&entry, &[], NOW, LEAST).unwrap().rows[..] else { panic!("two rows") };
        assert_eq!(moves(skipped).1, walked[walked.len() - 2], "the last but one ends what is skipped");
        assert_eq!((Some(moves(fired).0), moves(fired).3), (last, Some(walked[walked.len() - 2])));
    }
}

#[test]
fn what_is_not_active_is_not_repaired() {
    for state in ScheduleState::ALL.iter().filter(|state| **state != ScheduleState::Active) {
        let entry = Entry { state: *state, ..behind(MisfirePolicy::FireOnce, 1_000) };
        assert_eq!(decide(&entry, &[], NOW, LEAST), None, "{state:?}");
    }
}

#[test]
fn resuming_skips_what_was_planned_during_the_pause() {
    let entry = Entry { state: ScheduleState::Paused, ..behind(MisfirePolicy::FireAll, 30_000) };
    let repair = resume(&entry, NOW).unwrap();
    assert_without_gap(&entry, &repair);
    assert!(pending(&repair).is_empty() && repair.how == Move::Resume);
    assert!(matches!(repair.rows[0], LedgerRow::Skipped { reason: Reason::Paused, count: 4, .. }));
    let early = resume(&entry, Timestamp::at(999_999)).unwrap();
    assert_eq!((early.to, early.passed), (entry.cursor, 0));
    assert_eq!(resume(&behind(MisfirePolicy::FireAll, 1), NOW), None);
}

/// One more would be right at its end: it must not be taken for none.
#[test]
fn a_repair_cut_off_before_the_last_does_not_end_the_pause() {
    let entry = Entry { state: ScheduleState::Paused, ..cron(1, "* * * * * ?", Timestamp::at(1_000_000)) };
    let last = Timestamp::at(1_000_000) + 1_000 * i64::try_from(MOST_PASSED).unwrap();
    let repair = resume(&entry, last).unwrap();
    assert_eq!((repair.to.next, repair.how), (NextFire::At(last), Move::Pass));
    assert!(resume(&entry, last - 1).unwrap().how == Move::Resume);
}

#[test]
fn a_pause_longer_than_one_repair_passes_stays_a_pause_until_the_last() {
    let mut entry =
        Entry { state: ScheduleState::Paused, ..cron(1, "* * * * * ?", Timestamp::at(1_000_000)) };
    let now = Timestamp::at(1_000_000 + 250_000_000);
    let (mut repairs, mut passed) = (0, 0);
    loop {
        let repair = resume(&entry, now).unwrap();
        assert_without_gap(&entry, &repair);
        (repairs, passed) = (repairs + 1, passed + repair.passed);
        entry.cursor = repair.to;
        if repair.how == Move::Resume {
            break;
        }
        assert!(entry.cursor.next.at().is_some_and(|next| next <= now), "still behind");
    }
    assert_eq!((repairs, passed), (3, 250_001));
    assert!(entry.cursor.next.at().is_some_and(|next| next > now));
}

/// An execution without a node, of a job that allows two deaths.
#[test]
fn what_becomes_of_an_execution_nobody_answers_for() {
    const DUE: Timestamp = NOW.saturating_add(3_000);
    let cases = [
        (ExecutionState::Claimed, 9, true, ExecutionState::Pending, false),
        (ExecutionState::Running, 0, true, ExecutionState::Abandoned, true),
        (ExecutionState::Running, 1, true, ExecutionState::Failed, false),
        (ExecutionState::Running, 9, true, ExecutionState::Failed, false),
        (ExecutionState::Running, 0, false, ExecutionState::Abandoned, false),
    ];
    for (state, deaths, recovery, to, again) in cases {
        let mut stranded = stranded(1, state, deaths);
        stranded.policy.recover = recovery;
        let change = recover(stranded.clone(), DUE, NOW).change();
        let next = change.transition.next();
        assert_eq!((change.becomes(), next.is_some()), (to, again), "{state:?} after {deaths} deaths");
        assert_eq!((next.map_or(DUE, |next| next.due), change.now), (DUE, NOW));
        assert!(state.can_become(to));
        let is_taken_back = to == ExecutionState::Pending;
        assert_eq!(change.token_after() != stranded.token, is_taken_back);
        assert!(next.is_none_or(|next| next.token != stranded.token));
    }
}

/// Seven failures are no death: the job's retries count them.
#[test]
fn failures_do_not_use_up_what_deaths_may() {
    let failed_often = Stranded { attempt: 8, ..stranded(1, ExecutionState::Running, 0) };
    assert!(recover(failed_often, NOW, NOW).transition.next().is_some());
}

#[test]
fn what_ran_beside_a_killer_does_not_run_beside_it_again() {
    let ran = |id| stranded(id, ExecutionState::Running, 0);
    let claimed = stranded(5, ExecutionState::Claimed, 0);
    let found = vec![ran(7), ran(3), claimed, ran(4)];
    let revocations = recover_apart(found, NOW);
    let due = |it: &Revocation| it.transition.next().map(|next| next.due);
    let again: Vec<_> = revocations.iter().map(|it| (it.stranded.id.0, due(it))).collect();
    let after = |millis| Some(NOW + millis);
    assert_eq!(again, [(3, after(0)), (4, after(1_000)), (5, None), (7, after(2_000))]);

    let many = recover_apart((0..100).map(ran).collect(), NOW);
    let latest = many.iter().map(due).max().flatten();
    assert_eq!(latest, after(7_000), "recovery is not put off for long");
}

#[test]
fn what_would_overlap_waits_if_it_may_and_is_skipped_otherwise() {
    let one = Unstarted { schedule: ScheduleId(1), execution: ExecutionId(8), token: Token::fresh() };
    let blocked = |waiting| Blocked { holder: ExecutionId(7), is_late: false, waiting: vec![one; waiting] };
    let decided = |overlap, waiting| {
        let entry = Arc::new(Entry { overlap, ..cron(1, "0 * * * * ?", Timestamp::at(1_000_000)) });
        let occurrence = Occurrence::head(&entry).unwrap();
        let repair = overlapped(&occurrence, blocked(waiting), NOW);
        let to = Cursor { prev: Some(occurrence.at), next: occurrence.following };
        assert_eq!((repair.cursor, repair.to, repair.passed), (entry.cursor, to, 1));
        assert_eq!((repair.version, repair.how), (entry.version, Move::PassOver));
        let replaces = overlap == Overlap::Replace;
        assert_eq!(repair.replaces, replaces.then_some(ExecutionId(7)));
        assert_eq!(repair.supersede.len(), if replaces { waiting } else { 0 });
        let [row] = &repair.rows[..] else { panic!("{repair:?}") };
        match row {
            LedgerRow::Pending { at, due, reason: Reason::Queued, .. } => {
                assert_eq!((*at, *due), (occurrence.at, occurrence.at));
                true
            }
            LedgerRow::Skipped { from, to, count: 1, reason: Reason::Overlap, holder, .. } => {
                assert_eq!((*from, *to, *holder), (occurrence.at, occurrence.at, Some(ExecutionId(7))));
                false
            }
            row => panic!("{row:?}"),
        }
    };
    assert!(!decided(Overlap::Skip, 0) && !decided(Overlap::Queue(0), 0));
    assert!(decided(Overlap::Queue(2), 0) && decided(Overlap::Queue(2), 1) && !decided(Overlap::Queue(2), 2));
    assert!(decided(Overlap::Replace, 0) && decided(Overlap::Replace, 1), "the newest waits");
}
