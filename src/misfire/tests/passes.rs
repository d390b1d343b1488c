//! The machine, against answers made up for it.

use super::*;
use crate::pipeline::fixtures::calls_while_down;
use crate::store::memory::MemoryStore;

pub(super) fn keeping(retention: Option<Millis>) -> MisfireMachine {
    MisfireMachine::new("app".to_owned(), Window { retention, ..Window::default() })
}

/// The answer of a database in which nothing is amiss.
fn nothing_found(op: &MisfireOp) -> MisfireAnswer {
    match op {
        MisfireOp::Elect { .. } => MisfireAnswer::Elected(true),
        MisfireOp::Stranded(_) => MisfireAnswer::Stranded(Vec::new()),
        MisfireOp::Broken(_) => MisfireAnswer::Broken(BrokenPage { broken: Vec::new(), next: None }),
        MisfireOp::Purge(_) => MisfireAnswer::Purged(Purged { occurrences: 0, next: None }),
        _ => MisfireAnswer::Stalled(Stalled { entries: Vec::new(), next: None }),
    }
}

/// One poll's pass; the names of its operations.
pub(super) fn pass(machine: &mut MisfireMachine, now: Now, store: &MemoryStore) -> Vec<&'static str> {
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
    MisfireMachine { pass_ends: Millis::MAX, ..keeping(retention) }
}

fn polled(app: bool, node: bool) -> MisfireInput {
    MisfireInput::Polled { app, node, election: None, late: true }
}

/// What the machine does next, leaving out what it tells.
fn asked(machine: &mut MisfireMachine, now: Now) -> &'static str {
    loop {
        match machine.next(now) {
            Step::Do(op) => return op.name(),
            Step::Tell(_) => {}
            Step::Wait(Millis::MAX) => return "rest",
            Step::Wait(_) => return "pause",
            Step::Stop => return "stop",
        }
    }
}

fn stalled_page(ids: impl IntoIterator<Item = i64>) -> Result<MisfireAnswer, Error> {
    let row = |id| Entry { id: ScheduleId(id), ..behind(MisfirePolicy::FireOnce, 30_000) };
    Ok(MisfireAnswer::Stalled(Stalled { entries: ids.into_iter().map(row).collect(), next: None }))
}

fn at(after: Millis) -> Now {
    Now { db: NOW, boot: NOW + after }
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
    assert_eq!(asked(&mut hanging, now), "electing the misfire handler");
    for machine in [&mut second, &mut hanging] {
        if machine.application == "two" {
            assert_eq!(asked(machine, now), "electing the misfire handler");
        }
        machine.done(now, Ok(MisfireAnswer::Elected(true)));
        assert_eq!(asked(machine, now), "looking for executions of dead nodes");
        machine.done(now, Ok(MisfireAnswer::Stranded(Vec::new())));
        assert_eq!(asked(machine, now), "looking for misfires");
        let entries = vec![behind(MisfirePolicy::FireOnce, 1_000)];
        machine.done(now, Ok(MisfireAnswer::Stalled(Stalled { entries, next: None })));
        assert_eq!(asked(machine, now), "repairing a misfire");
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
fn a_pass_ends_when_its_time_is_used_up() {
    let mut machine = keeping(None);
    machine.receive(at(0), polled(true, true));
    assert_eq!(asked(&mut machine, at(0)), "electing the misfire handler");
    // The election's own time is not the pass's.
    let begin = 2_900;
    machine.done(at(begin), Ok(MisfireAnswer::Elected(true)));
    assert_eq!(asked(&mut machine, at(begin)), "looking for executions of dead nodes");
    machine.done(at(begin + BUDGET), Ok(MisfireAnswer::Stranded(Vec::new())));
    assert_eq!(asked(&mut machine, at(begin + BUDGET)), "looking for misfires");
    machine.done(at(begin + BUDGET + 1), stalled_page([1, 2]));
    assert_eq!(asked(&mut machine, at(begin + BUDGET + 1)), "rest");
}

#[test]
fn a_pass_that_was_not_cut_off_looks_for_misfires_once() {
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
fn a_repair_is_told_at_once_and_wakes_the_poll_when_all_are_done() {
    let mut machine = in_a_pass(None);
    machine.done(at(0), stalled_page([1, 2]));
    let mut seen = Vec::new();
    loop {
        seen.push(match machine.next(at(0)) {
            Step::Do(MisfireOp::Repair(repair)) => {
                machine.done(at(0), Ok(MisfireAnswer::Repaired(repair.id, repair.id == ScheduleId(1))));
                "repair"
            }
            Step::Tell(MisfireOutput::Event(Event::Repaired { schedule: ScheduleId(1), .. })) => "told",
            Step::Tell(MisfireOutput::WakePoll) => "woken",
            Step::Wait(Millis::MAX) => break,
            _ => "something else",
        });
    }
    assert_eq!(seen, ["repair", "told", "repair", "woken"], "the second was lost to another");
}

#[test]
fn after_a_row_that_failed_the_next_is_tried_soon_and_after_a_failed_look_later() {
    for (one_row, pause, then) in [(true, ROW_PAUSE, "repairing a misfire"), (false, FAILURE_PAUSE, "rest")] {
        let mut machine = in_a_pass(None);
        machine.done(at(0), stalled_page([1, 2]));
        if one_row {
            assert_eq!(asked(&mut machine, at(0)), "repairing a misfire");
        }
        machine.done(at(0), Err(Error::new(Kind::Unavailable, "locked")));
        assert_eq!(asked(&mut machine, at(pause - 1)), "pause");
        assert_eq!(asked(&mut machine, at(pause)), then);
    }
}

#[test]
fn a_node_that_is_switched_off_or_busy_stands_for_no_election() {
    let mut off = keeping(None);
    off.receive(at(0), polled(true, false));
    assert_eq!(asked(&mut off, at(0)), "rest");

    let mut repairing = in_a_pass(None);
    repairing.done(at(0), stalled_page([1]));
    repairing.receive(at(0), polled(true, true));
    assert_eq!(asked(&mut repairing, at(0)), "repairing a misfire");
    repairing.done(at(0), Ok(MisfireAnswer::Repaired(ScheduleId(1), false)));
    assert_eq!(asked(&mut repairing, at(0)), "rest");

    let mut purging = in_a_pass(Some(3_600_000));
    purging.done(at(0), Ok(MisfireAnswer::Purged(Purged { occurrences: 0, next: Some("m".to_owned()) })));
    purging.receive(at(0), polled(true, true));
    assert_eq!(asked(&mut purging, at(0)), "purging the ledger");
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
                Step::Do(op) => machine.done(now, Ok(nothing_found(&op))),
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

/// What a pass found and had no time for is looked for by the next, not by the next walk.
#[test]
fn a_step_whose_rows_were_not_all_quarantined_is_walked_again() {
    let broken = |id| Broken { id: ScheduleId(id), version: 0, state: String::new(), reason: String::new() };
    for spent in [BUDGET + 1, 1] {
        let (mut machine, mut boot, mut begun_after) = (keeping(None), 0, Vec::new());
        for _ in 0..3 {
            machine.receive(at(boot), polled(true, true));
            loop {
                let op = match machine.next(at(boot)) {
                    Step::Do(op) => op,
                    Step::Tell(_) => continue,
                    Step::Wait(_) | Step::Stop => break,
                };
                let answer = match op {
                    MisfireOp::Broken(query) => {
                        begun_after.push(query.after.0);
                        let next = Some(ScheduleId(query.after.0.max(0) + 10));
                        MisfireAnswer::Broken(BrokenPage { broken: vec![broken(1), broken(2)], next })
                    }
                    MisfireOp::Quarantine(row) => {
                        boot += spent;
                        MisfireAnswer::Quarantined(row, true)
                    }
                    op => nothing_found(&op),
                };
                machine.done(at(boot), Ok(answer));
            }
            boot += 15_000;
        }
        let walked_on = if spent > BUDGET { [i64::MIN; 3] } else { [i64::MIN, 10, 20] };
        assert_eq!(begun_after, walked_on, "each quarantine took {spent} ms");
    }
}
