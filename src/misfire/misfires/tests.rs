//! Repairs and their events.

use super::*;
use crate::domain::MOST_PASSED;
use crate::domain::{Boot, Cursor, Entry, Event, ExecutionId, NextFire};
use crate::fixtures::cron;
use crate::machine::Step;
use crate::misfire::calls::{Answer, Op};
use crate::misfire::tests::{NOW, at, in_a_pass, none_stranded, overdue_rows, run};
use crate::misfire::{MisfireOutput, takeover, tests};
use crate::store::Applied;
use crate::time::Now;

/// It took a pass for each 100,000 occurrences.
#[test]
fn a_schedule_that_is_days_behind_is_repaired_in_one_pass_after_all_others() {
    let mut machine = in_a_pass(None);
    let now = Now { db: NOW + 250_000_000, ..at(0) };
    let far = cron(1, "* * * * * ?", NOW);
    let near = Entry {
        cursor: Cursor { prev: None, next: NextFire::At(now.db - 70_000) },
        ..cron(2, "0 * * * * ?", NOW)
    };
    machine.pass.last(takeover::search("app", ExecutionId(0)));
    machine.found_overdue(OverduePage { entries: vec![far, near], ..overdue_rows([]) }, now);
    let (mut steps, mut repairs) = (Vec::new(), Vec::new());
    run(&mut machine, now, |op| {
        let Op::Repair(changes) = op else {
            steps.push(0);
            return Ok(none_stranded());
        };
        let batch = tests::repairs(changes);
        steps.extend(batch.iter().map(|repair| repair.id.0));
        let won = vec![Applied::Done; batch.len()];
        repairs.extend(batch);
        Ok(Answer::Repair(won))
    });
    assert_eq!(steps, [1, 2, 0, 1, 1]);
    for (before, after) in [(0, 2), (2, 3)] {
        assert_eq!((repairs[before].to, repairs[before].passed), (repairs[after].cursor, MOST_PASSED));
        assert_eq!(repairs[before].version + 1, repairs[after].version);
    }
    assert!(repairs[3].to.next.at().is_some_and(|next| next > now.db));
}

/// Whoever moved its cursor, it is not where this pass believed it to be.
#[test]
fn a_lost_repair_of_a_schedule_that_is_days_behind_is_left_to_the_next_pass() {
    let mut machine = in_a_pass(None);
    let now = Now { db: NOW + 250_000_000, ..at(0) };
    machine
        .found_overdue(OverduePage { entries: vec![cron(1, "* * * * * ?", NOW)], ..overdue_rows([]) }, now);
    assert!(matches!(machine.next(now), Step::Do(Op::Repair(_))));
    machine.done(now, Ok(Answer::Repair(vec![Applied::Lost])));
    assert!(machine.pass.is_empty());
}

#[test]
fn repairs_are_told_and_wake_the_poll_when_all_are_done() {
    let mut machine = in_a_pass(None);
    machine.found_overdue(overdue_rows([1, 2]), at(0));
    let mut seen = Vec::new();
    loop {
        seen.push(match machine.next(at(0)) {
            Step::Do(Op::Repair(_)) => {
                machine.done(at(0), Ok(Answer::Repair(vec![Applied::Done, Applied::Lost])));
                "repair"
            }
            Step::Tell(MisfireOutput::Event(Event::Repaired { schedule, .. })) => {
                assert_eq!(&*schedule, "schedule-1");
                "told"
            }
            Step::Tell(MisfireOutput::Event(Event::Skipped { schedule, reason: "misfire", occurrences })) => {
                assert!(&*schedule == "schedule-1" && occurrences > 0, "{schedule}: {occurrences}");
                "skipped"
            }
            Step::Tell(MisfireOutput::WakePoll) => "woken",
            Step::Wait(Boot::MAX) => break,
            _ => "something else",
        });
    }
    assert_eq!(seen, ["repair", "skipped", "told", "woken"], "the second was lost to another");
}
