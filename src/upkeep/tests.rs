//! The machine against answers made up for it, and against the store in memory.

use super::*;
use crate::domain::{Cursor, ExecutionState, MisfirePolicy};
use crate::fixtures::{behind, cron, stranded};
use std::time::Duration;

mod passes;
mod purges;

/// 2026-01-02 03:04:05.678 UTC.
const TODAY: Millis = 1_767_323_045_678;
/// When the tests' schedules are repaired: 100 s after their first occurrence.
const NOW: Millis = 1_100_000;

/// The newest ran last: it is taken back last, and the event says that it was given up.
#[test]
fn an_occurrence_that_no_node_survives_is_given_up_aloud() {
    let mut machine = MisfireMachine::new("app".to_owned(), Window::default());
    let now = Now { db: NOW, boot: 0, apart: 0 };
    let stranded = vec![stranded(2, ExecutionState::Running, 1), stranded(1, ExecutionState::Running, 0)];
    machine.done(now, Ok(MisfireAnswer::Stranded(StrandedPage { stranded, next: None })));
    let (mut order, mut told) = (Vec::new(), Vec::new());
    loop {
        match machine.next(now) {
            Step::Do(MisfireOp::Revoke(revocations)) => {
                order.extend(revocations.iter().map(|it| it.stranded.id.0));
                machine.done(now, Ok(MisfireAnswer::Revoked(vec![true; revocations.len()])));
            }
            Step::Tell(MisfireOutput::Event(Event::Exhausted { schedule, execution, deaths })) => {
                assert_eq!(&*schedule, "nightly");
                told.push((execution.0, deaths));
            }
            Step::Tell(_) => {}
            _ => break,
        }
    }
    assert_eq!((order, told), (vec![1, 2], vec![(2, 2)]));
}

/// A table of misfires may be too large for the store's time limit.
#[test]
fn a_look_that_always_fails_keeps_nothing_else_from_being_done() {
    let mut machine = MisfireMachine::new("app".to_owned(), Window::default());
    let mut asked = Vec::new();
    for round in 0..20 {
        let mut now = Now { boot: round * 15_000, db: NOW + round * 15_000, apart: 0 };
        machine.receive(
            now,
            MisfireInput::Polled { app: true, node: true, election: None, late: true, from: 0 },
        );
        loop {
            match machine.next(now) {
                Step::Do(op) => {
                    asked.push(op.name());
                    let answer = match op {
                        MisfireOp::Stalled(_) => Err(Error::new(Kind::Unavailable, "statement timeout")),
                        op => Ok(passes::nothing_found(&op)),
                    };
                    machine.done(now, answer);
                }
                Step::Tell(_) => {}
                Step::Wait(until) if until < now.boot + 10_000 => now.boot = until,
                Step::Wait(_) | Step::Stop => break,
            }
        }
    }
    assert!(asked.contains(&"looking for broken rows"), "{asked:?}");
    assert!(asked.contains(&"purging the ledger"), "{asked:?}");
}
