//! Whole passes, and what the tests of each duty share: answers made up for the machine.

use super::*;
use crate::domain::{MisfirePolicy, ScheduleId};
use crate::fixtures::{behind, calls_while_down};
use crate::machine::{Operation, Stepped};
use crate::store::expected::ExpectedPage;
use crate::store::memory::MemoryStore;
use crate::store::{Change, Purged, PurgedOrphans, PurgedQueues, Repair};

/// 2026-01-02 03:04:05.678 UTC.
pub(super) const TODAY: Timestamp = Timestamp::at(1_767_323_045_678);
/// When the tests' schedules are repaired: 100 s after their first occurrence.
pub(super) const NOW: Timestamp = Timestamp::at(1_100_000);

pub(super) fn at(after: Millis) -> Now {
    Now { db: NOW, boot: Boot::at(NOW.millis() + after), apart: 0 }
}

pub(super) fn keeping(retention: Option<Millis>) -> Stepped<MisfireMachine> {
    Stepped::new(MisfireMachine::new("app".to_owned(), Window { retention, ..Window::default() }))
}

/// A machine in the middle of a pass without end.
pub(super) fn in_a_pass(retention: Option<Millis>) -> Stepped<MisfireMachine> {
    let mut machine = keeping(retention);
    machine.election.alone_at = Some(Boot::MAX);
    machine
}

/// The report of a poll that finds an election due and something late.
pub(super) const REPORT: PollReport = PollReport::UNKNOWN;

pub(super) fn polled() -> MisfireInput {
    MisfireInput::Polled(REPORT)
}

pub(super) fn switched_off() -> MisfireInput {
    MisfireInput::Polled(PollReport { node_enabled: false, ..REPORT })
}

pub(super) fn none_stranded() -> Answer {
    Answer::FindStranded(StrandedPage { stranded: Vec::new(), next: None })
}

/// The answer of a database in which nothing is amiss.
pub(super) fn nothing_found(op: &Op) -> Answer {
    match op {
        Op::Elect(..) => Answer::Elect(Applied::Done),
        Op::FindStranded(..) => none_stranded(),
        Op::FindWithdrawn(..) => Answer::FindWithdrawn(Vec::new()),
        Op::FindUnreadable(_) => Answer::FindUnreadable(UnreadablePage {
            broken: Vec::new(),
            ahead: Vec::new(),
            expecting: Vec::new(),
            next: None,
        }),
        Op::FindExpected(_) => Answer::FindExpected(ExpectedPage::default()),
        Op::FindNobody(_) => Answer::FindNobody(Vec::new()),
        Op::FoldOutcomes(_) => Answer::FoldOutcomes(false),
        Op::Count(_) => Answer::Count(None),
        Op::Purge(_) => Answer::Purge(Purged::default()),
        Op::PurgeQueues(_) => Answer::PurgeQueues(PurgedQueues::default()),
        Op::PurgeOrphans(_) => Answer::PurgeOrphans(PurgedOrphans::default()),
        _ => Answer::FindOverdue(overdue_rows([])),
    }
}

pub(super) fn overdue_rows(ids: impl IntoIterator<Item = i64>) -> OverduePage {
    let row = |id| Entry { id: ScheduleId(id), ..behind(MisfirePolicy::FireOnce, 30_000) };
    OverduePage { entries: ids.into_iter().map(row).collect(), unstarted: Vec::new(), next: Vec::new() }
}

pub(super) fn overdue(ids: impl IntoIterator<Item = i64>) -> Result<Answer, Error> {
    Ok(Answer::FindOverdue(overdue_rows(ids)))
}

/// Performs what the machine asks for, as `answer` says, until it waits; the operations' names.
pub(super) fn run(
    machine: &mut Stepped<MisfireMachine>,
    now: Now,
    mut answer: impl FnMut(Op) -> Result<Answer, Error>,
) -> Vec<&'static str> {
    let mut done = Vec::new();
    loop {
        match machine.next(now) {
            Step::Do(op) => {
                done.push(op.name());
                machine.done(now, answer(op));
            }
            Step::Tell(_) => {}
            Step::Wait(_) | Step::Stop => return done,
        }
    }
}

/// One poll's pass; the names of its operations.
pub(super) fn pass(
    machine: &mut Stepped<MisfireMachine>,
    now: Now,
    store: &MemoryStore,
) -> Vec<&'static str> {
    machine.receive(now, polled());
    run(machine, now, |op| op.perform(store))
}

/// What the machine does next, leaving out what it tells.
pub(super) fn asked(machine: &mut Stepped<MisfireMachine>, now: Now) -> &'static str {
    loop {
        match machine.next(now) {
            Step::Do(op) => return op.name(),
            Step::Tell(_) => {}
            Step::Wait(until) if until <= now.boot + FAILURE_PAUSE => return "pause",
            Step::Wait(_) => return "rest",
            Step::Stop => return "stop",
        }
    }
}

/// The repairs of a batch.
pub(super) fn repairs(changes: Vec<Change>) -> Vec<Repair> {
    let repair = |change| if let Change::Repair(repair) = change { repair } else { panic!("no repair") };
    changes.into_iter().map(repair).collect()
}

/// The id of the schedule or execution that changes.
pub(super) fn id(change: &Change) -> i64 {
    match change {
        Change::Execution(change) => change.execution.0,
        change => change.schedule().unwrap().0,
    }
}

/// The ids of the schedules or executions in the batch that the machine sends next.
pub(super) fn batch(machine: &mut Stepped<MisfireMachine>, now: Now) -> Vec<i64> {
    loop {
        match machine.next(now) {
            Step::Do(Op::Repair(changes) | Op::TakeBack(changes)) => return changes.iter().map(id).collect(),
            Step::Tell(_) => {}
            Step::Wait(until) if until <= now.boot => {}
            Step::Do(op) => panic!("{} is no batch", op.name()),
            Step::Wait(_) | Step::Stop => return Vec::new(),
        }
    }
}

/// The answer to a batch.
pub(super) fn written(op: &Op, applied: Vec<Applied>) -> Answer {
    match op {
        Op::Repair(_) => Answer::Repair(applied),
        Op::TakeBack(_) => Answer::TakeBack(applied),
        op => panic!("{} is no batch", op.name()),
    }
}

pub(super) fn repaired(machine: &mut Stepped<MisfireMachine>, batch: &[i64], now: Now) {
    machine.done(now, Ok(Answer::Repair(vec![Applied::Done; batch.len()])));
}

/// Even where polls go through and only this does not.
#[test]
fn no_hot_loop_while_the_database_is_down() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Unknown] {
        let calls = calls_while_down(&mut keeping(None).machine, NOW, kind, || Some(polled()));
        assert!((20..=70).contains(&calls), "{calls} calls in a minute");
    }
}

#[test]
fn a_pass_looks_for_misfires_once() {
    let done = pass(&mut keeping(None), at(0), &MemoryStore::new(NOW));
    assert_eq!(
        done,
        [
            "electing the misfire handler",
            "looking for executions of dead nodes",
            "looking for misfires",
            "looking for executions of removed schedules",
            "looking for broken rows",
            "looking for jobs that nobody can run"
        ]
    );
}

/// A table of misfires may be too large for the store's time limit.
#[test]
fn a_search_that_always_fails_keeps_nothing_else_from_being_done() {
    let mut machine = keeping(Window::default().retention);
    let mut asked = Vec::new();
    for round in 0..20 {
        let mut now = Now { boot: Boot::at(round * 15_000), db: NOW + round * 15_000, apart: 0 };
        machine.receive(now, polled());
        loop {
            asked.extend(run(&mut machine, now, |op| match op {
                Op::FindOverdue(_) => Err(Error::new(ErrorKind::Unavailable, "statement timeout")),
                op => Ok(nothing_found(&op)),
            }));
            match machine.next(now) {
                Step::Wait(until) if until < now.boot + 10_000 => now.boot = until,
                _ => break,
            }
        }
    }
    assert!(asked.contains(&"looking for broken rows"), "{asked:?}");
    assert!(asked.contains(&"purging the ledger"), "{asked:?}");
}

#[test]
fn after_a_failed_search_the_pass_ends() {
    let mut machine = in_a_pass(None);
    machine.found_overdue(overdue_rows([1, 2]), at(0));
    machine.asked = Some(Asked::FindStranded(()));
    machine.done(at(0), Err(Error::new(ErrorKind::Unavailable, "away")));
    assert_eq!(asked(&mut machine, at(FAILURE_PAUSE - 1)), "pause");
    assert_eq!(asked(&mut machine, at(FAILURE_PAUSE)), "rest");
}

/// The spans of due times in which a pass after this poll looks for schedules.
fn searched(report: PollReport) -> Vec<(Timestamp, Timestamp)> {
    let (mut machine, mut spans) = (keeping(None), Vec::new());
    machine.receive(at(0), MisfireInput::Polled(report));
    run(&mut machine, at(0), |op| {
        match &op {
            Op::FindOverdue(query) => spans.push((query.from, query.before)),
            Op::FindUnreadable(query) => spans.push((query.from, query.before)),
            _ => {}
        }
        Ok(nothing_found(&op))
    });
    spans
}

/// In a backlog that has just begun they would read and sort all of it with each pass.
#[test]
fn the_searches_for_misfires_and_for_broken_rows_leave_what_is_hardly_late_to_the_polls() {
    assert_eq!(searched(REPORT), [(Timestamp::at(0), NOW - Window::default().least_threshold()); 2]);
}

/// Dead index entries lie before that.
#[test]
fn the_handler_looks_from_where_polls_begin() {
    let floor = NOW - 100_000;
    let begins: Vec<_> = searched(PollReport { floor, ..REPORT }).into_iter().map(|(from, _)| from).collect();
    assert_eq!(begins, [floor, floor]);
}
