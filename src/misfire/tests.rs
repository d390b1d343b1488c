//! The decisions as tables, the machine against answers made up for it.

use super::*;
use crate::model::{Candidate, ExecutionId, JobPolicy, JobSpec, NodeId, Occurrence, Outcome};
use crate::pipeline::expand::expand;
use crate::pipeline::fixtures::{calls_while_down, cron, simple};
use crate::schedule::Trigger;
use crate::store::memory::MemoryStore;
use crate::store::{Claim, ClaimRequest, Definition, ExecutionQuery};
use std::sync::Arc;
use std::time::Duration;

const LEAST: Millis = 10_000;
/// When the tests' schedules are repaired: 100 s after their first occurrence.
const NOW: Millis = 1_100_000;

fn behind(policy: MisfirePolicy, interval: Millis) -> Entry {
    let mut entry = simple(1, 1_000_000, interval, -1, None);
    entry.misfire = policy;
    entry
}

/// A row's (first, last, count, prev, following).
fn moves(row: &LedgerRow) -> (Millis, Millis, u64, Option<Millis>, Option<Millis>) {
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
        assert_eq!((row_prev, Some(from)), (prev, next), "{row:?}");
        (prev, next, passed) = (Some(to), following, passed + count);
    }
    assert_eq!(Cursor { prev, next }, repair.to);
    assert_eq!(passed, repair.passed);
}

fn pending(repair: &Repair) -> Vec<Millis> {
    let at = |row: &LedgerRow| match row {
        LedgerRow::Pending { at, .. } => Some(*at),
        LedgerRow::Skipped { .. } => None,
    };
    repair.rows.iter().filter_map(at).collect()
}

#[test]
fn a_cursor_within_its_threshold_is_left_alone() {
    let mut entry = behind(MisfirePolicy::FireOnce, 1_000);
    entry.threshold = 100_000;
    assert_eq!(decide(&entry, NOW, LEAST), None);
    entry.threshold = 99_999;
    assert!(decide(&entry, NOW, LEAST).is_some());
}

#[test]
fn a_threshold_below_the_least_counts_as_the_least() {
    let mut entry = behind(MisfirePolicy::FireOnce, 1_000);
    entry.threshold = 1;
    assert_eq!(decide(&entry, 1_000_000 + LEAST, LEAST), None);
    assert!(decide(&entry, 1_000_001 + LEAST, LEAST).is_some());
}

#[test]
fn the_misfire_threshold_is_not_a_literal_in_two_classes() {
    for threshold in [0, 1, 9_999, 10_000, 10_001, 60_000, 3_600_000] {
        for late in [0, 1, 5_000, 9_999, 10_000, 10_001, 59_999, 60_000, 60_001, 3_600_000, 3_600_001] {
            let entry = Entry { threshold, ..behind(MisfirePolicy::FireOnce, 1_000) };
            let now = 1_000_000 + late;
            let repaired = decide(&entry, now, LEAST).is_some();
            let planned = !expand(&[Arc::new(entry)], now, now + 5_000, LEAST).is_empty();
            assert!(repaired != planned, "threshold {threshold}, {late} late: {repaired} {planned}");
            assert_eq!(repaired, late > threshold.max(LEAST), "threshold {threshold}, {late} late");
        }
    }
}

/// An idle cluster pays for neither an election before its time nor a look at schedules that cannot have stalled.
#[test]
fn nothing_is_asked_that_the_poll_has_answered() {
    let now = Now { db: NOW, boot: NOW };
    let after = |election, late| {
        let mut machine = MisfireMachine::new("app".to_owned(), Window::default());
        machine.receive(now, MisfireInput::Polled { app: true, node: true, election, late });
        let mut asked = Vec::new();
        while let Step::Do(op) = machine.next(now) {
            asked.push(op.name());
            machine.done(
                now,
                Ok(match op {
                    MisfireOp::Elect { .. } => MisfireAnswer::Elected(true),
                    MisfireOp::Stranded(_) => MisfireAnswer::Stranded(Vec::new()),
                    MisfireOp::Broken(_) => MisfireAnswer::Broken(Vec::new()),
                    MisfireOp::Purge(_) => MisfireAnswer::Purged(Purged { occurrences: 0, next: None }),
                    _ => MisfireAnswer::Stalled(Stalled { entries: Vec::new(), next: None }),
                }),
            );
        }
        asked
    };
    let (due, ahead) = (Some(NOW), Some(NOW + 1));
    assert_eq!(after(ahead, true), [""; 0]);
    assert_eq!(after(due, true).len(), 5);
    assert!(!after(due, false).contains(&"looking for misfires"));
    assert_eq!(after(due, false).len(), 4);
}

/// One scheduler's store call hangs in the middle of its pass: another of the process goes on.
#[test]
fn a_static_lock_does_not_keep_a_second_scheduler_from_repairing() {
    let now = Now { db: NOW, boot: NOW };
    let [mut hanging, mut second] = ["one", "two"].map(|application| {
        let mut machine = MisfireMachine::new(application.to_owned(), Window::default());
        machine.receive(now, MisfireInput::Polled { app: true, node: true, election: None, late: true });
        machine
    });
    let asked = |machine: &mut MisfireMachine| match machine.next(now) {
        Step::Do(op) => op.name(),
        _ => "nothing",
    };
    assert_eq!(asked(&mut hanging), "electing the misfire handler");
    for machine in [&mut second, &mut hanging] {
        if machine.application == "two" {
            assert_eq!(asked(machine), "electing the misfire handler");
        }
        machine.done(now, Ok(MisfireAnswer::Elected(true)));
        assert_eq!(asked(machine), "looking for executions of dead nodes");
        machine.done(now, Ok(MisfireAnswer::Stranded(Vec::new())));
        assert_eq!(asked(machine), "looking for misfires");
        let entries = vec![behind(MisfirePolicy::FireOnce, 1_000)];
        machine.done(now, Ok(MisfireAnswer::Stalled(Stalled { entries, next: None })));
        assert_eq!(asked(machine), "repairing a misfire");
    }
}

/// Even where polls go through and only this does not.
#[test]
fn no_hot_loop_while_the_database_is_down() {
    for kind in [Kind::Unavailable, Kind::Unknown] {
        let mut machine = MisfireMachine::new("app".to_owned(), Window::default());
        let polled = || Some(MisfireInput::Polled { app: true, node: true, election: None, late: true });
        let calls = calls_while_down(&mut machine, NOW, kind, polled);
        assert!((20..=70).contains(&calls), "{calls} calls in a minute");
    }
}

#[test]
fn fire_once_runs_the_latest_and_skips_the_earlier() {
    let entry = behind(MisfirePolicy::FireOnce, 30_000);
    let repair = decide(&entry, NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!(pending(&repair), [1_090_000]);
    assert_eq!((repair.passed, repair.to.next), (4, Some(1_120_000)));
    assert!(repair.supersede);
}

#[test]
fn a_single_missed_occurrence_runs_without_a_skip() {
    let entry = behind(MisfirePolicy::FireOnce, 1_000_000);
    let repair = decide(&entry, NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!((pending(&repair), repair.rows.len()), (vec![1_000_000], 1));
}

#[test]
fn do_nothing_skips_all() {
    let entry = behind(MisfirePolicy::DoNothing, 30_000);
    let repair = decide(&entry, NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert!(pending(&repair).is_empty());
}

#[test]
fn fire_all_runs_each_in_order_faster_than_planned() {
    let entry = behind(MisfirePolicy::FireAll, 1_500);
    let repair = decide(&entry, NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!(pending(&repair).len(), 67);
    let dues: Vec<Millis> = repair
        .rows
        .iter()
        .map(|row| if let LedgerRow::Pending { due, .. } = row { *due } else { 0 })
        .collect();
    assert!(dues.windows(2).all(|two| two[1] - two[0] == 750), "{dues:?}");
}

#[test]
fn fire_all_skips_what_is_beyond_its_cap() {
    let entry = behind(MisfirePolicy::FireAll, 10);
    let repair = decide(&entry, NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!((pending(&repair).len(), repair.passed), (MOST_FIRED, 10_001));
}

#[test]
fn the_last_occurrence_of_a_finite_schedule_is_repaired_too() {
    let mut entry = simple(1, 1_000_000, 30_000, 1, None);
    entry.misfire = MisfirePolicy::FireOnce;
    let repair = decide(&entry, NOW, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!((pending(&repair), repair.to.next), (vec![1_030_000], None));
}

#[test]
fn more_than_one_repair_passes_is_left_to_the_next() {
    let entry = cron(1, "* * * * * ?", 1_000_000);
    let now = 1_000_000 + 250_000_000;
    let repair = decide(&entry, now, LEAST).unwrap();
    assert_without_gap(&entry, &repair);
    assert_eq!((repair.passed, pending(&repair).len()), (MOST_PASSED, 0));
    assert!(repair.to.next.is_some_and(|next| next <= now));
}

/// A cursor that somebody set back to 1973, and a millisecond's interval: 1,670,000,000,000 occurrences.
#[test]
fn decades_of_a_millisecond_are_accounted_for_in_one_repair() {
    for policy in MisfirePolicy::ALL {
        let mut entry = simple(1, 100_000_000_000, 1, -1, None);
        (entry.misfire, entry.threshold) = (*policy, 60_000);
        let repair = decide(&entry, TODAY, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        let cursor = Cursor { prev: Some(TODAY), next: Some(TODAY + 1) };
        assert_eq!((repair.to, repair.passed), (cursor, 1_667_323_045_679), "{policy:?}");
    }
    let entry = Entry { state: ScheduleState::Paused, ..simple(1, 100_000_000_000, 1, -1, None) };
    assert!(resume(&entry, TODAY).unwrap().resume);
}

/// What is reckoned is what a walk would find.
#[test]
fn a_leap_passes_what_a_walk_passes() {
    for (interval, repeats, end) in [(1, -1, None), (7, -1, None), (3, 2_500, None), (2, -1, Some(1_009_001))]
    {
        let mut entry = simple(1, 1_000_000, interval, repeats, end);
        entry.misfire = MisfirePolicy::FireAll;
        let walked: Vec<Millis> = std::iter::successors(Some(1_000_000), |at| entry.timing.after(*at))
            .take_while(|at| *at <= NOW)
            .collect();
        let repair = decide(&entry, NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        let last = walked.last().copied();
        assert_eq!((repair.passed, repair.to.prev), (walked.len() as u64, last), "{interval} {repeats}");

        entry.misfire = MisfirePolicy::FireOnce;
        let [skipped, fired] = &decide(&entry, NOW, LEAST).unwrap().rows[..] else { panic!("two rows") };
        assert_eq!(moves(skipped).1, walked[walked.len() - 2], "the last but one ends what is skipped");
        assert_eq!((Some(moves(fired).0), moves(fired).3), (last, Some(walked[walked.len() - 2])));
    }
}

#[test]
fn what_is_not_active_is_not_repaired() {
    for state in ScheduleState::ALL.iter().filter(|state| **state != ScheduleState::Active) {
        let entry = Entry { state: *state, ..behind(MisfirePolicy::FireOnce, 1_000) };
        assert_eq!(decide(&entry, NOW, LEAST), None, "{state:?}");
    }
}

#[test]
fn resuming_skips_what_was_planned_during_the_pause() {
    let entry = Entry { state: ScheduleState::Paused, ..behind(MisfirePolicy::FireAll, 30_000) };
    let repair = resume(&entry, NOW).unwrap();
    assert_without_gap(&entry, &repair);
    assert!(pending(&repair).is_empty() && repair.resume);
    assert!(matches!(repair.rows[0], LedgerRow::Skipped { reason: Reason::Paused, count: 4, .. }));
    let early = resume(&entry, 999_999).unwrap();
    assert_eq!((early.to, early.passed), (entry.cursor, 0));
    assert_eq!(resume(&behind(MisfirePolicy::FireAll, 1), NOW), None);
}

const HOUR: Millis = 3_600_000;
/// 2026-01-02 03:04:05.678 UTC.
const TODAY: Millis = 1_767_323_045_678;

/// A database whose only execution ended three hours ago.
fn with_an_old_execution() -> MemoryStore {
    let store = MemoryStore::new(TODAY - 3 * HOUR);
    let policy = JobPolicy { recover: true, max_attempts: 3, max_tries: 1, retry_delay: Duration::ZERO };
    let definition = Definition {
        application: "app".to_owned(),
        name: "s".to_owned(),
        job: JobSpec { name: "work".to_owned(), policy },
        payload: "{}".to_owned(),
        trigger: Trigger::every(Duration::from_secs(1)).unwrap(),
        start: None,
        end: None,
        priority: 0,
        misfire: MisfirePolicy::FireOnce,
        threshold: 60_000,
    };
    store.ensure(&definition).unwrap();
    let entry = Arc::new(store.find("app", "s").unwrap().unwrap());
    let candidate = Candidate::Planned(Occurrence::head(&entry).unwrap());
    let (token, node, now) = (Token::fresh(), NodeId::fresh(), TODAY - 3 * HOUR);
    let request = ClaimRequest { candidate, token, node, at_once: true, deadline: i64::MAX, now };
    match store.claim(&[request]).unwrap().pop() {
        Some(Claim::Won(claimed)) => store.settle(&[claimed.finish(Outcome::Succeeded, None, now)]).unwrap(),
        other => panic!("{other:?}"),
    };
    store.set_time(TODAY);
    store
}

fn keeping(retention: Option<Millis>) -> MisfireMachine {
    MisfireMachine::new("app".to_owned(), Window { retention, ..Window::default() })
}

/// One poll's pass; the names of its operations.
fn pass(machine: &mut MisfireMachine, now: Now, store: &MemoryStore) -> Vec<&'static str> {
    machine.receive(now, MisfireInput::Polled { app: true, node: true, election: None, late: true });
    let mut done = Vec::new();
    loop {
        match machine.next(now) {
            Step::Do(op) => {
                done.push(op.name());
                machine.done(now, op.perform(store));
            }
            Step::Tell(_) => {}
            Step::Wait(_) | Step::Stop => return done,
        }
    }
}

fn is_left(store: &MemoryStore) -> bool {
    let query = ExecutionQuery { states: vec![ExecutionState::Succeeded], limit: 9, ..Default::default() };
    !store.executions(&query).unwrap().is_empty()
}

#[test]
fn a_purge_goes_by_the_databases_clock() {
    let (store, mut machine) = (with_an_old_execution(), keeping(Some(4 * HOUR)));
    let a_year_ahead = Now { db: TODAY + 365 * 24 * HOUR, boot: 0 };
    assert!(pass(&mut machine, a_year_ahead, &store).contains(&"purging the ledger"));
    assert!(is_left(&store));

    let mut machine = keeping(Some(4 * HOUR));
    store.set_time(TODAY + 2 * HOUR);
    let a_year_behind = Now { db: TODAY - 365 * 24 * HOUR, boot: 0 };
    pass(&mut machine, a_year_behind, &store);
    assert!(!is_left(&store));
}

#[test]
fn a_pass_purges_after_its_repairs_and_walks_again_in_time() {
    let (store, mut machine) = (with_an_old_execution(), keeping(Some(2 * HOUR)));
    let now = Now { db: TODAY, boot: 0 };
    let first = pass(&mut machine, now, &store);
    assert_eq!(first.last(), Some(&"purging the ledger"), "{first:?}");
    assert_eq!(first.iter().filter(|name| **name == "purging the ledger").count(), 1);
    assert!(!is_left(&store));
    // A hundredth of two hours is 72 s.
    for (after, walks) in [(20_000, false), (71_000, false), (87_000, true)] {
        let later = pass(&mut machine, Now { db: TODAY + after, boot: after }, &store);
        assert_eq!(later.contains(&"purging the ledger"), walks, "after {after} ms: {later:?}");
    }
}

#[test]
fn without_a_retention_nothing_is_purged() {
    let (store, mut machine) = (with_an_old_execution(), keeping(None));
    store.set_time(TODAY + 100 * 365 * 24 * HOUR);
    for boot in [0, 20_000] {
        let done = pass(&mut machine, Now { db: TODAY + boot, boot }, &store);
        assert_eq!(done.last(), Some(&"looking for broken rows"), "{done:?}");
    }
    assert!(is_left(&store));
}

#[test]
fn a_walk_that_is_cut_off_goes_on_where_it_stopped() {
    let mut machine = keeping(Some(HOUR));
    let begin = |machine: &mut MisfireMachine, boot| {
        machine.done(Now { db: TODAY, boot }, Ok(MisfireAnswer::Elected(true)));
        machine.todo.clear();
        match machine.next(Now { db: TODAY, boot }) {
            Step::Do(MisfireOp::Purge(purge)) => Some(purge.after),
            _ => None,
        }
    };
    assert_eq!(begin(&mut machine, 0), Some(String::new()));
    let step = Purged { occurrences: 0, next: Some("m".to_owned()) };
    machine.done(Now { db: TODAY, boot: BUDGET + 1 }, Ok(MisfireAnswer::Purged(step)));
    assert!(
        matches!(machine.next(Now { db: TODAY, boot: BUDGET + 1 }), Step::Wait(_)),
        "its time is used up"
    );
    assert_eq!(begin(&mut machine, 15_000), Some("m".to_owned()));
    let end = Purged { occurrences: 0, next: None };
    machine.done(Now { db: TODAY, boot: 15_001 }, Ok(MisfireAnswer::Purged(end)));
    assert_eq!(begin(&mut machine, 16_000), None);
}

#[test]
fn a_pause_longer_than_one_repair_passes_stays_a_pause_until_the_last() {
    let mut entry = Entry { state: ScheduleState::Paused, ..cron(1, "* * * * * ?", 1_000_000) };
    let now = 1_000_000 + 250_000_000;
    let (mut repairs, mut passed) = (0, 0);
    loop {
        let repair = resume(&entry, now).unwrap();
        assert_without_gap(&entry, &repair);
        (repairs, passed) = (repairs + 1, passed + repair.passed);
        entry.cursor = repair.to;
        if repair.resume {
            break;
        }
        assert!(entry.cursor.next.is_some_and(|next| next <= now), "still behind");
    }
    assert_eq!((repairs, passed), (3, 250_001));
    assert!(entry.cursor.next.is_some_and(|next| next > now));
}

/// Each row's lock is waited for, for a second: two of them use up a pass.
#[test]
fn rows_held_locked_do_not_keep_those_behind_them_from_being_repaired() {
    let mut machine = MisfireMachine::new("app".to_owned(), Window { retention: None, ..Window::default() });
    let entries: Vec<Entry> =
        (1..=10).map(|id| Entry { id: ScheduleId(id), ..behind(MisfirePolicy::FireOnce, 30_000) }).collect();
    let (mut now, mut repaired) = (Now { db: NOW, boot: 0 }, Vec::new());
    for _ in 0..6 {
        machine.receive(now, MisfireInput::Polled { app: true, node: true, election: None, late: true });
        loop {
            match machine.next(now) {
                Step::Do(MisfireOp::Elect { .. }) => machine.done(now, Ok(MisfireAnswer::Elected(true))),
                Step::Do(MisfireOp::Stalled(query)) => {
                    let left = |entry: &&Entry| entry.id > query.after && !repaired.contains(&entry.id.0);
                    let found = entries.iter().filter(left).cloned().collect();
                    machine.done(now, Ok(MisfireAnswer::Stalled(Stalled { entries: found, next: None })));
                }
                Step::Do(MisfireOp::Repair(repair)) if repair.id.0 <= 6 => {
                    now.boot += 1_000;
                    machine.done(now, Err(Error::new(Kind::Unavailable, "locked")));
                }
                Step::Do(MisfireOp::Repair(repair)) => {
                    repaired.push(repair.id.0);
                    machine.done(now, Ok(MisfireAnswer::Repaired(repair.id, true)));
                }
                Step::Do(MisfireOp::Stranded(_)) => {
                    machine.done(now, Ok(MisfireAnswer::Stranded(Vec::new())))
                }
                Step::Do(_) => machine.done(now, Ok(MisfireAnswer::Broken(Vec::new()))),
                Step::Tell(_) => {}
                Step::Wait(Millis::MAX) => break,
                Step::Wait(until) => now.boot = until,
                Step::Stop => panic!("stopped"),
            }
        }
        now.boot += 15_000;
    }
    assert_eq!(repaired, [7, 8, 9, 10]);
}

/// An execution without a node, of a job that allows two deaths.
fn stranded(id: i64, state: ExecutionState, deaths: u32) -> Stranded {
    let policy = JobPolicy { recover: true, max_attempts: 2, max_tries: 1, retry_delay: Duration::ZERO };
    let (id, schedule, token) = (ExecutionId(id), ScheduleId(1), Token::fresh());
    Stranded { id, schedule, state, token, attempt: deaths + 1, deaths, policy }
}

#[test]
fn what_becomes_of_an_execution_nobody_answers_for() {
    const DUE: Millis = NOW + 3_000;
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
        let revocation = recover(stranded.clone(), DUE, NOW);
        assert_eq!((revocation.to, revocation.again), (to, again), "{state:?} after {deaths} deaths");
        assert_eq!((revocation.due, revocation.now), (DUE, NOW));
        assert!(state.can_become(to));
        assert_ne!(revocation.fresh, stranded.token);
    }
}

/// Seven failures are no death: the job's retries count them.
#[test]
fn failures_do_not_use_up_what_deaths_may() {
    let failed_often = Stranded { attempt: 8, ..stranded(1, ExecutionState::Running, 0) };
    assert!(recover(failed_often, NOW, NOW).again);
}

#[test]
fn what_ran_beside_a_killer_does_not_run_beside_it_again() {
    let ran = |id| stranded(id, ExecutionState::Running, 0);
    let claimed = stranded(5, ExecutionState::Claimed, 0);
    let found = vec![ran(7), ran(3), claimed, ran(4)];
    let revocations = recover_apart(found, NOW);
    let again: Vec<_> = revocations.iter().map(|it| (it.stranded.id.0, it.again.then_some(it.due))).collect();
    let after = |millis| Some(NOW + millis);
    assert_eq!(again, [(3, after(0)), (4, after(1_000)), (5, None), (7, after(2_000))]);

    let many = recover_apart((0..100).map(ran).collect(), NOW);
    let latest = many.iter().map(|it| Some(it.due)).max().flatten();
    assert_eq!(latest, after(7_000), "recovery is not put off for long");
}

/// The newest ran last: it is taken back last, and the event says that it was given up.
#[test]
fn an_occurrence_that_no_node_survives_is_given_up_aloud() {
    let mut machine = MisfireMachine::new("app".to_owned(), Window::default());
    let now = Now { db: NOW, boot: 0 };
    let found = vec![stranded(2, ExecutionState::Running, 1), stranded(1, ExecutionState::Running, 0)];
    machine.done(now, Ok(MisfireAnswer::Stranded(found)));
    let (mut order, mut told) = (Vec::new(), Vec::new());
    loop {
        match machine.next(now) {
            Step::Do(MisfireOp::Revoke(revocation)) => {
                order.push(revocation.stranded.id.0);
                machine.done(now, Ok(MisfireAnswer::Revoked(revocation, true)));
            }
            Step::Tell(MisfireOutput::Event(Event::Exhausted { execution, deaths, .. })) => {
                told.push((execution.0, deaths));
            }
            Step::Tell(_) => {}
            _ => break,
        }
    }
    assert_eq!((order, told), (vec![1, 2], vec![(2, 2)]));
}
