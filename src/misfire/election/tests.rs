//! When the machine stands for election, and what it asks once it is elected.

use super::*;
use crate::machine::Stepped;
use crate::misfire::calls::{Answer, Asked};
use crate::misfire::tests::*;
use crate::misfire::{FAILURE_PAUSE, MisfireInput, MisfireMachine, PollReport};
use crate::store::{Applied, Purged};

/// An idle cluster pays for neither an election before its time nor a search for schedules that cannot have
/// stalled.
#[test]
fn nothing_is_asked_that_the_poll_has_answered() {
    let after = |election, any_late| {
        let mut machine = keeping(Window::default().retention);
        machine.receive(at(0), MisfireInput::Polled(PollReport { election, any_late, ..REPORT }));
        run(&mut machine, at(0), |op| Ok(nothing_found(&op)))
    };
    let (due, ahead) = (Some(NOW), Some(NOW + 1));
    assert_eq!(after(ahead, true), [""; 0]);
    assert_eq!(after(due, true).len(), 9);
    for search in ["looking for misfires", "looking for executions of removed schedules"] {
        assert!(after(due, true).contains(&search) && !after(due, false).contains(&search), "{search}");
    }
    assert_eq!(after(due, false).len(), 7);
}

/// One scheduler's store call hangs in the middle of its pass: another of the process goes on.
#[test]
fn a_static_lock_does_not_keep_a_second_scheduler_from_repairing() {
    let [mut hanging, mut second] = ["one", "two"].map(|application| {
        let mut machine = Stepped::new(MisfireMachine::new(application.to_owned(), Window::default()));
        machine.receive(at(0), polled());
        machine
    });
    assert_eq!(asked(&mut hanging, at(0)), "electing the misfire handler");
    for machine in [&mut second, &mut hanging] {
        if machine.application == "two" {
            assert_eq!(asked(machine, at(0)), "electing the misfire handler");
        }
        machine.done(at(0), Ok(Answer::Elect(Applied::Done)));
        assert_eq!(asked(machine, at(0)), "looking for executions of dead nodes");
        machine.done(at(0), Ok(none_stranded()));
        assert_eq!(asked(machine, at(0)), "looking for misfires");
        machine.done(at(0), overdue([1]));
        assert_eq!(asked(machine, at(0)), "repairing misfires");
    }
}

/// The machine stands and wins, and looks for dead nodes' executions first: there are none.
fn is_elected(machine: &mut Stepped<MisfireMachine>, now: Now) {
    assert_eq!(asked(machine, now), "electing the misfire handler");
    machine.done(now, Ok(Answer::Elect(Applied::Done)));
    assert_eq!(asked(machine, now), "looking for executions of dead nodes");
    machine.done(now, Ok(none_stranded()));
}

#[test]
fn a_pass_renews_its_election_and_takes_back_dead_nodes_work_first() {
    let interval = Window::default().election;
    let mut machine = keeping(None);
    machine.receive(at(0), polled());
    machine.election.alone_at = Some(Boot::MAX);
    is_elected(&mut machine, at(0));
    assert_eq!(asked(&mut machine, at(0)), "looking for misfires");
    machine.done(at(0), overdue(1..=3_000));
    let first = batch(&mut machine, at(0));
    repaired(&mut machine, &first, at(interval));
    is_elected(&mut machine, at(interval));
    let second = batch(&mut machine, at(interval));
    assert_eq!(second.first(), first.last().map(|last| last + 1).as_ref(), "it goes on where it was");

    repaired(&mut machine, &second, at(2 * interval));
    assert_eq!(asked(&mut machine, at(2 * interval)), "electing the misfire handler");
    machine.done(at(2 * interval), Ok(Answer::Elect(Applied::Lost)));
    assert_eq!(asked(&mut machine, at(2 * interval)), "rest", "another node goes on");
}

/// Polls may all fail, or take for ever: dead nodes' work is taken back all the same.
#[test]
fn without_polls_the_machine_stands_for_election_by_its_own_clock() {
    let (mut machine, poll) = (keeping(None), Window::default().poll);
    assert_eq!(asked(&mut machine, at(0)), "rest");
    let report = PollReport { election: Some(NOW + 1), any_late: false, ..REPORT };
    machine.receive(at(poll), MisfireInput::Polled(report));
    assert_eq!(asked(&mut machine, at(3 * poll - FAILURE_PAUSE - 1)), "rest", "a poll has ended");
    let pass = run(&mut machine, at(3 * poll), |op| Ok(nothing_found(&op)));
    assert_eq!(
        pass[..3],
        ["electing the misfire handler", "looking for executions of dead nodes", "looking for misfires"]
    );
    let again = 3 * poll + Window::default().election;
    assert_eq!(asked(&mut machine, at(again - FAILURE_PAUSE - 1)), "rest", "once an interval");
    assert_eq!(asked(&mut machine, at(again)), "electing the misfire handler");

    let mut off = keeping(None);
    off.receive(at(0), switched_off());
    assert_eq!(asked(&mut off, at(100 * poll)), "rest", "it is switched off");
}

#[test]
fn a_node_that_is_switched_off_or_busy_stands_for_no_election() {
    let mut off = keeping(None);
    off.receive(at(0), switched_off());
    assert_eq!(asked(&mut off, at(0)), "rest");

    let mut repairing = in_a_pass(None);
    repairing.found_overdue(overdue_rows([1]), at(0));
    repairing.receive(at(0), polled());
    assert_eq!(asked(&mut repairing, at(0)), "repairing misfires");
    repairing.done(at(0), Ok(Answer::Repair(vec![Applied::Lost])));
    assert_eq!(asked(&mut repairing, at(0)), "rest");

    let mut purging = in_a_pass(Some(3_600_000));
    purging.asked = Some(Asked::Purge(()));
    purging.done(at(0), Ok(Answer::Purge(Purged { next: Some("m".to_owned()), ..Purged::default() })));
    purging.receive(at(0), polled());
    assert_eq!(asked(&mut purging, at(0)), "purging the ledger");
}
