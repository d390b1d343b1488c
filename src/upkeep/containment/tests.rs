//! Schedules that are paused for what failed.

use super::*;
use crate::domain::{Error, ErrorKind, Event, ExecutionState};
use crate::fixtures::stranded;
use crate::machine::{Machine, Operation, Step};
use crate::store::{Applied, StrandedPage};
use crate::upkeep::tests::{at, id, in_a_pass};
use crate::upkeep::{FAILURE_PAUSE, MisfireAnswer, MisfireInput, MisfireMachine, MisfireOutput};

fn streak(query: &StreakQuery) -> Option<Streak> {
    let (application, reason) = ("app".to_owned(), "why".to_owned());
    Some(Streak { schedule: query.schedule, version: 1, application, name: "nightly".into(), reason })
}

/// Executions of schedules that have survived two nodes, and one that has not run yet.
fn found(machine: &mut MisfireMachine, schedules: &[i64]) {
    let killer = |(n, schedule): (i64, &i64)| crate::store::Stranded {
        schedule: ScheduleId(*schedule),
        ..stranded(n, ExecutionState::Running, 1)
    };
    let mut list: Vec<_> = (1..).zip(schedules).map(killer).collect();
    list.push(stranded(99, ExecutionState::Claimed, 0));
    machine.done(at(0), Ok(MisfireAnswer::Stranded(StrandedPage { stranded: list, next: None })));
}

/// What the machine asks for, in a word each, until it waits; `answer` answers counts and pauses.
fn asked(
    machine: &mut MisfireMachine,
    after: Millis,
    mut answer: impl FnMut(MisfireOp) -> Result<MisfireAnswer, Error>,
) -> Vec<String> {
    let mut asked = Vec::new();
    loop {
        match machine.next(at(after)) {
            Step::Do(MisfireOp::Write(changes)) => {
                asked.push(format!("write {:?}", changes.iter().map(id).collect::<Vec<_>>()));
                machine.done(at(after), Ok(MisfireAnswer::Written(vec![Applied::Done; changes.len()])));
            }
            Step::Do(op) => {
                asked.push(match &op {
                    MisfireOp::Count(query) => format!("count {}", query.schedule),
                    MisfireOp::Contain(query, _) => format!("pause {}", query.schedule),
                    op => op.name().to_owned(),
                });
                machine.done(at(after), answer(op));
            }
            Step::Tell(MisfireOutput::Event(Event::Contained { .. })) => asked.push("told".to_owned()),
            Step::Tell(_) => {}
            Step::Wait(_) | Step::Stop => return asked,
        }
    }
}

fn contains(op: MisfireOp) -> Result<MisfireAnswer, Error> {
    Ok(match op {
        MisfireOp::Count(query) => {
            let streak = streak(&query);
            MisfireAnswer::Counted(query, streak)
        }
        MisfireOp::Contain(query, streak) => MisfireAnswer::Contained(query, streak, Applied::Done),
        op => panic!("{}", op.name()),
    })
}

/// A handler that dies in between leaves the execution to its successor.
#[test]
fn a_schedule_is_paused_before_its_last_death_is_stored() {
    let mut machine = in_a_pass(None);
    found(&mut machine, &[7, 8, 7]);
    let steps = asked(&mut machine, 0, contains);
    let expected =
        ["write [99]", "count 7", "pause 7", "told", "count 8", "pause 8", "told", "write [1, 2, 3]"];
    assert_eq!(steps, expected);
}

#[test]
fn a_count_that_fails_withholds_its_own_executions_alone() {
    for kind in [ErrorKind::Data, ErrorKind::Unavailable] {
        let mut machine = in_a_pass(None);
        found(&mut machine, &[7, 8, 7]);
        let mut answer = |op| match op {
            MisfireOp::Count(query) if query.schedule.0 == 7 => Err(Error::new(kind, "made up")),
            MisfireOp::Count(query) => Ok(MisfireAnswer::Counted(query, None)),
            op => panic!("{}", op.name()),
        };
        assert_eq!(asked(&mut machine, 0, &mut answer), ["write [99]", "count 7"]);
        assert_eq!(asked(&mut machine, FAILURE_PAUSE, &mut answer), ["count 8", "write [2]"]);
        assert!(asked(&mut machine, 10 * FAILURE_PAUSE, &mut answer).is_empty(), "left to the next pass");
    }
}

#[test]
fn a_schedule_that_was_changed_meanwhile_is_counted_anew() {
    let mut machine = in_a_pass(None);
    machine.receive(at(0), MisfireInput::Failed(ScheduleId(7)));
    let mut is_first = true;
    let steps = asked(&mut machine, 0, |op| match op {
        MisfireOp::Contain(query, streak) if std::mem::take(&mut is_first) => {
            Ok(MisfireAnswer::Contained(query, streak, Applied::Lost))
        }
        op => contains(op),
    });
    assert_eq!(steps, ["count 7", "pause 7", "count 7", "pause 7", "told"]);
}

/// It needs no election. What fails again and again keeps no other schedule from being counted.
#[test]
fn what_has_failed_here_is_counted_here_until_the_database_answers() {
    let mut machine = in_a_pass(None);
    for schedule in [7, 8, 7] {
        machine.receive(at(0), MisfireInput::Failed(ScheduleId(schedule)));
    }
    let mut answer = |op| match op {
        MisfireOp::Count(query) if query.schedule.0 == 7 => {
            Err(Error::new(ErrorKind::Unavailable, "made up"))
        }
        MisfireOp::Count(query) => Ok(MisfireAnswer::Counted(query, None)),
        op => panic!("{}", op.name()),
    };
    assert_eq!(asked(&mut machine, 0, &mut answer), ["count 7"]);
    assert!(asked(&mut machine, PAUSE - 1, &mut answer).is_empty());
    assert_eq!(asked(&mut machine, PAUSE, &mut answer), ["count 8", "count 7"]);
    assert_eq!(asked(&mut machine, 2 * PAUSE, contains), ["count 7", "pause 7", "told"]);
}
