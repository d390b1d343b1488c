//! The machine, against answers made up for it.

use super::*;
use crate::fixtures::calls_while_down;
use crate::store::memory::MemoryStore;

pub(super) fn keeping(retention: Option<Millis>) -> MisfireMachine {
    MisfireMachine::new("app".to_owned(), Window { retention, ..Window::default() })
}

fn none_stranded() -> MisfireAnswer {
    MisfireAnswer::Stranded(StrandedPage { stranded: Vec::new(), next: None })
}

/// The answer of a database in which nothing is amiss.
pub(super) fn nothing_found(op: &MisfireOp) -> MisfireAnswer {
    match op {
        MisfireOp::Elect { .. } => MisfireAnswer::Elected(true),
        MisfireOp::Stranded(..) => none_stranded(),
        MisfireOp::Broken(_) => MisfireAnswer::Broken(BrokenPage { broken: Vec::new(), next: None }),
        MisfireOp::Purge(_) => MisfireAnswer::Purged(Purged::default()),
        _ => MisfireAnswer::Stalled(stalled_rows([])),
    }
}

/// One poll's pass; the names of its operations.
pub(super) fn pass(machine: &mut MisfireMachine, now: Now, store: &MemoryStore) -> Vec<&'static str> {
    machine.receive(now, MisfireInput::Polled { app: true, node: true, election: None, late: true, from: 0 });
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

/// An idle cluster pays for neither an election before its time nor a look at schedules that cannot have
/// stalled.
#[test]
fn nothing_is_asked_that_the_poll_has_answered() {
    let now = Now { db: NOW, boot: NOW, apart: 0 };
    let after = |election, late| {
        let mut machine = MisfireMachine::new("app".to_owned(), Window::default());
        machine.receive(now, MisfireInput::Polled { app: true, node: true, election, late, from: 0 });
        let mut asked = Vec::new();
        while let Step::Do(op) = machine.next(now) {
            asked.push(op.name());
            machine.done(now, Ok(nothing_found(&op)));
        }
        asked
    };
    let (due, ahead) = (Some(NOW), Some(NOW + 1));
    assert_eq!(after(ahead, true), [""; 0]);
    assert_eq!(after(due, true).len(), 5);
    assert!(!after(due, false).contains(&"looking for misfires"));
    assert_eq!(after(due, false).len(), 4);
}

/// A machine in the middle of a pass without end.
fn in_a_pass(retention: Option<Millis>) -> MisfireMachine {
    MisfireMachine { alone_at: Some(Millis::MAX), ..keeping(retention) }
}

pub(super) fn polled(app: bool, node: bool) -> MisfireInput {
    MisfireInput::Polled { app, node, election: None, late: true, from: 0 }
}

/// What the machine does next, leaving out what it tells.
fn asked(machine: &mut MisfireMachine, now: Now) -> &'static str {
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

fn stalled_rows(ids: impl IntoIterator<Item = i64>) -> Stalled {
    let row = |id| Entry { id: ScheduleId(id), ..behind(MisfirePolicy::FireOnce, 30_000) };
    Stalled { entries: ids.into_iter().map(row).collect(), unstarted: Vec::new(), next: Vec::new() }
}

fn stalled_page(ids: impl IntoIterator<Item = i64>) -> Result<MisfireAnswer, Error> {
    Ok(MisfireAnswer::Stalled(stalled_rows(ids)))
}

fn at(after: Millis) -> Now {
    Now { db: NOW, boot: NOW + after, apart: 0 }
}

/// One scheduler's store call hangs in the middle of its pass: another of the process goes on.
#[test]
fn a_static_lock_does_not_keep_a_second_scheduler_from_repairing() {
    let now = Now { db: NOW, boot: NOW, apart: 0 };
    let [mut hanging, mut second] = ["one", "two"].map(|application| {
        let mut machine = MisfireMachine::new(application.to_owned(), Window::default());
        machine.receive(
            now,
            MisfireInput::Polled { app: true, node: true, election: None, late: true, from: 0 },
        );
        machine
    });
    assert_eq!(asked(&mut hanging, now), "electing the misfire handler");
    for machine in [&mut second, &mut hanging] {
        if machine.application == "two" {
            assert_eq!(asked(machine, now), "electing the misfire handler");
        }
        machine.done(now, Ok(MisfireAnswer::Elected(true)));
        assert_eq!(asked(machine, now), "looking for executions of dead nodes");
        machine.done(now, Ok(none_stranded()));
        assert_eq!(asked(machine, now), "looking for misfires");
        machine.done(now, stalled_page([1]));
        assert_eq!(asked(machine, now), "repairing misfires");
    }
}

/// Even where polls go through and only this does not.
#[test]
fn no_hot_loop_while_the_database_is_down() {
    for kind in [Kind::Unavailable, Kind::Unknown] {
        let mut machine = MisfireMachine::new("app".to_owned(), Window::default());
        let polled =
            || Some(MisfireInput::Polled { app: true, node: true, election: None, late: true, from: 0 });
        let calls = calls_while_down(&mut machine, NOW, kind, polled);
        assert!((20..=70).contains(&calls), "{calls} calls in a minute");
    }
}

/// The ids of the schedules or executions in the page that the machine sends next.
fn page(machine: &mut MisfireMachine, now: Now) -> Vec<i64> {
    loop {
        match machine.next(now) {
            Step::Do(MisfireOp::Repair(repairs)) => return repairs.iter().map(|it| it.id.0).collect(),
            Step::Do(MisfireOp::Revoke(taken)) => return taken.iter().map(|it| it.stranded.id.0).collect(),
            Step::Tell(_) => {}
            Step::Wait(until) if until <= now.boot => {}
            Step::Do(op) => panic!("{} is no page", op.name()),
            Step::Wait(_) | Step::Stop => return Vec::new(),
        }
    }
}

fn repaired(machine: &mut MisfireMachine, page: &[i64], now: Now) {
    machine.done(now, Ok(MisfireAnswer::Repaired(vec![true; page.len()])));
}

/// One transaction for each schedule, and so much time for each pass: hours of catching up after an outage.
#[test]
fn catching_up_goes_on_page_by_page_until_all_is_done() {
    let mut machine = in_a_pass(None);
    machine.done(at(0), stalled_page(1..=3_000));
    let (mut pages, mut schedules, mut boot) = (0, 0, 0);
    loop {
        let page = page(&mut machine, at(boot));
        if page.is_empty() {
            break;
        }
        (pages, schedules, boot) = (pages + 1, schedules + page.len(), boot + 100);
        repaired(&mut machine, &page, at(boot));
    }
    assert_eq!(schedules, 3_000);
    assert!(pages <= 6, "{pages} transactions");
}

#[test]
fn a_pass_renews_its_election_and_takes_back_dead_nodes_work_first() {
    let interval = Window::default().election;
    let mut machine = keeping(None);
    machine.receive(at(0), polled(true, true));
    machine.alone_at = Some(Millis::MAX);
    assert_eq!(asked(&mut machine, at(0)), "electing the misfire handler");
    machine.done(at(0), Ok(MisfireAnswer::Elected(true)));
    assert_eq!(asked(&mut machine, at(0)), "looking for executions of dead nodes");
    machine.done(at(0), Ok(none_stranded()));
    assert_eq!(asked(&mut machine, at(0)), "looking for misfires");
    machine.done(at(0), stalled_page(1..=3_000));
    let first = page(&mut machine, at(0));
    repaired(&mut machine, &first, at(interval));
    assert_eq!(asked(&mut machine, at(interval)), "electing the misfire handler");
    machine.done(at(interval), Ok(MisfireAnswer::Elected(true)));
    assert_eq!(asked(&mut machine, at(interval)), "looking for executions of dead nodes");
    machine.done(at(interval), Ok(none_stranded()));
    let second = page(&mut machine, at(interval));
    assert_eq!(second.first(), first.last().map(|last| last + 1).as_ref(), "it goes on where it was");

    repaired(&mut machine, &second, at(2 * interval));
    assert_eq!(asked(&mut machine, at(2 * interval)), "electing the misfire handler");
    machine.done(at(2 * interval), Ok(MisfireAnswer::Elected(false)));
    assert_eq!(asked(&mut machine, at(2 * interval)), "rest", "another node goes on");
}

#[test]
fn a_page_that_is_slow_is_followed_by_a_smaller_one_and_a_quick_one_by_a_larger() {
    let mut machine = in_a_pass(None);
    machine.done(at(0), stalled_page(1..=3_000));
    let mut sizes = Vec::new();
    let mut boot = 0;
    for took in [SLOW + 1, SLOW + 1, SLOW, QUICK, QUICK - 1, QUICK - 1, 0] {
        let page = page(&mut machine, at(boot));
        boot += took;
        sizes.push(page.len());
        repaired(&mut machine, &page, at(boot));
    }
    let change = |pair: &[usize]| (10 * pair[1] + pair[0] / 2) / pair[0];
    assert_eq!(sizes.windows(2).map(change).collect::<Vec<_>>(), [5, 5, 10, 10, 20, 20], "tenths: {sizes:?}");
}

/// "Fire all" makes up to a thousand executions of each schedule: a page is bounded by its rows.
#[test]
fn a_page_is_bounded_by_the_rows_it_writes() {
    let mut machine = in_a_pass(None);
    let row = |id| Entry { id: ScheduleId(id), ..behind(MisfirePolicy::FireAll, 100) };
    let entries = (1..=20).map(row).collect();
    machine.done(at(0), Ok(MisfireAnswer::Stalled(Stalled { entries, ..stalled_rows([]) })));
    while let Step::Do(MisfireOp::Repair(repairs)) = machine.next(at(0)) {
        let rows: usize = repairs.iter().map(Repair::writes).sum();
        assert!(rows <= MOST_ROWS || repairs.len() == 1, "{rows} rows");
        machine.done(at(0), Ok(MisfireAnswer::Repaired(vec![false; repairs.len()])));
    }
    assert!(machine.todo.is_empty());
}

/// Crons of each second, a day behind: to search their occurrences takes far longer than to write the
/// repairs.
#[test]
fn a_page_is_bounded_by_the_occurrences_it_searches() {
    let mut machine = in_a_pass(None);
    let a_day_later = Now { db: NOW + 86_400_000, ..at(0) };
    let entries = (1..=10).map(|id| cron(id, "* * * * * ?", NOW)).collect();
    machine.done(a_day_later, Ok(MisfireAnswer::Stalled(Stalled { entries, ..stalled_rows([]) })));
    let mut repaired = 0;
    while let Step::Do(MisfireOp::Repair(repairs)) = machine.next(a_day_later) {
        let passed: u64 = repairs.iter().map(|repair| repair.passed).sum();
        assert!(passed < 2 * MOST_PASSED, "{passed} occurrences");
        repaired += repairs.len();
        machine.done(a_day_later, Ok(MisfireAnswer::Repaired(vec![false; repairs.len()])));
    }
    assert_eq!(repaired, 10);
}

/// It took a pass for each 100,000 occurrences.
#[test]
fn a_schedule_that_is_days_behind_is_repaired_in_one_pass_after_all_others() {
    let mut machine = in_a_pass(None);
    let now = Now { db: NOW + 250_000_000, ..at(0) };
    let far = cron(1, "* * * * * ?", NOW);
    let near =
        Entry { cursor: Cursor { prev: None, next: Some(now.db - 70_000) }, ..cron(2, "0 * * * * ?", NOW) };
    machine.todo.push_back(Task::Ask(MisfireOp::Stranded("app".to_owned(), ExecutionId(0))));
    machine.found_stalled(Stalled { entries: vec![far, near], ..stalled_rows([]) }, now);
    let (mut steps, mut repairs) = (Vec::new(), Vec::new());
    loop {
        match machine.next(now) {
            Step::Do(MisfireOp::Repair(page)) => {
                steps.extend(page.iter().map(|repair| repair.id.0));
                machine.done(now, Ok(MisfireAnswer::Repaired(vec![true; page.len()])));
                repairs.extend(page);
            }
            Step::Do(_) => {
                steps.push(0);
                machine.done(now, Ok(none_stranded()));
            }
            Step::Tell(_) => {}
            Step::Wait(_) | Step::Stop => break,
        }
    }
    assert_eq!(steps, [1, 2, 0, 1, 1]);
    for (before, after) in [(0, 2), (2, 3)] {
        assert_eq!((repairs[before].to, repairs[before].passed), (repairs[after].cursor, MOST_PASSED));
        assert_eq!(repairs[before].version + 1, repairs[after].version);
    }
    assert!(repairs[3].to.next.is_some_and(|next| next > now.db));
}

/// Whoever moved its cursor, it is not where this pass believed it to be.
#[test]
fn a_lost_repair_of_a_schedule_that_is_days_behind_is_left_to_the_next_pass() {
    let mut machine = in_a_pass(None);
    let now = Now { db: NOW + 250_000_000, ..at(0) };
    machine.found_stalled(Stalled { entries: vec![cron(1, "* * * * * ?", NOW)], ..stalled_rows([]) }, now);
    assert!(matches!(machine.next(now), Step::Do(MisfireOp::Repair(_))));
    machine.done(now, Ok(MisfireAnswer::Repaired(vec![false])));
    assert!(machine.todo.is_empty());
}

#[test]
fn one_row_that_is_refused_is_found_by_halves_and_keeps_no_other_from_repair() {
    for kind in [Kind::Data, Kind::Refused, Kind::Unavailable, Kind::Unknown] {
        let mut machine = in_a_pass(None);
        machine.done(at(0), stalled_page(1..=100));
        let (mut boot, mut done, mut calls) = (0, Vec::new(), 0);
        loop {
            let page = page(&mut machine, at(boot));
            if page.is_empty() {
                if machine.todo.is_empty() {
                    break;
                }
                boot = machine.hold;
                continue;
            }
            calls += 1;
            if page.contains(&42) {
                machine.done(at(boot - NOW), Err(Error::new(kind, "refused")));
            } else {
                repaired(&mut machine, &page, at(boot - NOW));
                done.extend(page);
            }
        }
        let others: Vec<i64> = (1..=100).filter(|id| *id != 42).collect();
        assert_eq!(done, others, "{kind:?}");
        assert!(calls < 40, "{kind:?}: {calls} transactions");
    }
}

/// Dead index entries lie before that.
#[test]
fn the_handler_looks_from_where_polls_begin() {
    let mut machine = keeping(None);
    let from = NOW - 100_000;
    let polled = MisfireInput::Polled { app: true, node: true, election: None, late: true, from };
    machine.receive(at(0), polled);
    let mut begins = Vec::new();
    while let Step::Do(op) = machine.next(at(0)) {
        begins.extend(match &op {
            MisfireOp::Stalled(query) => Some(query.from),
            MisfireOp::Broken(query) => Some(query.from),
            _ => None,
        });
        machine.done(at(0), Ok(nothing_found(&op)));
    }
    assert_eq!(begins, [from, from]);
}

/// Polls may all fail, or take for ever: dead nodes' work is taken back all the same.
#[test]
fn without_polls_the_machine_stands_for_election_by_its_own_clock() {
    let (mut machine, poll) = (keeping(None), Window::default().poll);
    assert_eq!(asked(&mut machine, at(0)), "rest");
    machine.receive(
        at(poll),
        MisfireInput::Polled { app: true, node: true, election: Some(NOW + 1), late: false, from: 0 },
    );
    assert_eq!(asked(&mut machine, at(3 * poll - FAILURE_PAUSE - 1)), "rest", "a poll has ended");
    let pass: Vec<&str> = std::iter::from_fn(|| match machine.next(at(3 * poll)) {
        Step::Do(op) => {
            machine.done(at(3 * poll), Ok(nothing_found(&op)));
            Some(op.name())
        }
        _ => None,
    })
    .collect();
    assert_eq!(
        pass[..3],
        ["electing the misfire handler", "looking for executions of dead nodes", "looking for misfires"]
    );
    let again = 3 * poll + Window::default().election;
    assert_eq!(asked(&mut machine, at(again - FAILURE_PAUSE - 1)), "rest", "once an interval");
    assert_eq!(asked(&mut machine, at(again)), "electing the misfire handler");

    let mut off = keeping(None);
    off.receive(at(0), polled(true, false));
    assert_eq!(asked(&mut off, at(100 * poll)), "rest", "it is switched off");
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
            "looking for broken rows"
        ]
    );
}

/// In a backlog that has just begun they would read and sort all of it with each pass.
#[test]
fn the_looks_for_misfires_and_for_broken_rows_leave_what_is_hardly_late_to_the_polls() {
    let mut machine = keeping(None);
    machine.receive(at(0), polled(true, true));
    assert_eq!(asked(&mut machine, at(0)), "electing the misfire handler");
    machine.done(at(0), Ok(MisfireAnswer::Elected(true)));
    let mut before = Vec::new();
    while let Step::Do(op) = machine.next(at(0)) {
        match op {
            MisfireOp::Stalled(query) => before.push(query.before),
            MisfireOp::Broken(query) => before.push(query.before),
            _ => {}
        }
    }
    assert_eq!(before, [NOW - Window::default().least_threshold(); 2]);
}

#[test]
fn repairs_are_told_and_wake_the_poll_when_all_are_done() {
    let mut machine = in_a_pass(None);
    machine.done(at(0), stalled_page([1, 2]));
    let mut seen = Vec::new();
    loop {
        seen.push(match machine.next(at(0)) {
            Step::Do(MisfireOp::Repair(_)) => {
                machine.done(at(0), Ok(MisfireAnswer::Repaired(vec![true, false])));
                "repair"
            }
            Step::Tell(MisfireOutput::Event(Event::Repaired { schedule, .. })) => {
                assert_eq!(&*schedule, "schedule-1");
                "told"
            }
            Step::Tell(MisfireOutput::WakePoll) => "woken",
            Step::Wait(Millis::MAX) => break,
            _ => "something else",
        });
    }
    assert_eq!(seen, ["repair", "told", "woken"], "the second was lost to another");
}

#[test]
fn after_a_failed_look_the_pass_ends() {
    let mut machine = in_a_pass(None);
    machine.done(at(0), stalled_page([1, 2]));
    machine.done(at(0), Err(Error::new(Kind::Unavailable, "away")));
    assert_eq!(asked(&mut machine, at(FAILURE_PAUSE - 1)), "pause");
    assert_eq!(asked(&mut machine, at(FAILURE_PAUSE)), "rest");
}

#[test]
fn a_node_that_is_switched_off_or_busy_stands_for_no_election() {
    let mut off = keeping(None);
    off.receive(at(0), polled(true, false));
    assert_eq!(asked(&mut off, at(0)), "rest");

    let mut repairing = in_a_pass(None);
    repairing.done(at(0), stalled_page([1]));
    repairing.receive(at(0), polled(true, true));
    assert_eq!(asked(&mut repairing, at(0)), "repairing misfires");
    repairing.done(at(0), Ok(MisfireAnswer::Repaired(vec![false])));
    assert_eq!(asked(&mut repairing, at(0)), "rest");

    let mut purging = in_a_pass(Some(3_600_000));
    purging
        .done(at(0), Ok(MisfireAnswer::Purged(Purged { next: Some("m".to_owned()), ..Purged::default() })));
    purging.receive(at(0), polled(true, true));
    assert_eq!(asked(&mut purging, at(0)), "purging the ledger");
}

/// However many rows there are, a pass walks over a step of them; once at the end, it begins anew.
#[test]
fn the_search_for_broken_rows_goes_on_where_the_last_pass_left_it() {
    let mut machine = keeping(None);
    let mut begun_after = Vec::new();
    for next in [Some(ScheduleId(7)), Some(ScheduleId(9)), None, None] {
        machine.receive(at(0), polled(true, true));
        while let Step::Do(op) = machine.next(at(0)) {
            let answer = match op {
                MisfireOp::Broken(query) => {
                    begun_after.push(query.after);
                    MisfireAnswer::Broken(BrokenPage { broken: Vec::new(), next })
                }
                op => nothing_found(&op),
            };
            machine.done(at(0), Ok(answer));
        }
    }
    assert_eq!(begun_after, [FIRST, ScheduleId(7), ScheduleId(9), FIRST]);
}

/// What a pass found and could not finish is looked for by the next, not by the next walk.
#[test]
fn a_step_whose_rows_were_not_all_quarantined_is_walked_again() {
    let broken = |id| Broken {
        id: ScheduleId(id),
        name: "broken".into(),
        version: 0,
        state: String::new(),
        reason: String::new(),
    };
    for goes_well in [true, false] {
        let (mut machine, mut boot, mut begun_after) = (keeping(None), 0, Vec::new());
        for _ in 0..3 {
            machine.receive(at(boot), polled(true, true));
            while let Step::Do(op) = machine.next(at(boot)) {
                let answer = match op {
                    MisfireOp::Broken(query) => {
                        begun_after.push(query.after.0);
                        let next = Some(ScheduleId(query.after.0.max(0) + 10));
                        Ok(MisfireAnswer::Broken(BrokenPage { broken: vec![broken(1), broken(2)], next }))
                    }
                    MisfireOp::Quarantine(row) if goes_well => Ok(MisfireAnswer::Quarantined(row, false)),
                    MisfireOp::Quarantine(_) => Err(Error::new(Kind::Unknown, "away")),
                    op => Ok(nothing_found(&op)),
                };
                machine.done(at(boot), answer);
                while matches!(machine.outbox.front(), Some(MisfireOutput::Event(_))) {
                    machine.outbox.pop_front();
                }
            }
            boot += 15_000;
        }
        let walked_on = if goes_well { [i64::MIN, 10, 20] } else { [i64::MIN; 3] };
        assert_eq!(begun_after, walked_on);
    }
}
