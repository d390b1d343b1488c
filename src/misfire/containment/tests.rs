//! Schedules that are paused for their failures.

use super::*;
use crate::domain::{Error, ErrorKind, Event, ExecutionState};
use crate::fixtures::stranded;
use crate::machine::{Operation, Step, Stepped};
use crate::misfire::calls::{Answer, Op};
use crate::misfire::takeover::FIRST;
use crate::misfire::tests::{at, id, in_a_pass, keeping, nothing_found, polled, written};
use crate::misfire::{MisfireInput, MisfireMachine, MisfireOutput};
use crate::store::{Applied, StrandedPage};

fn streak(query: &StreakQuery) -> Option<Streak> {
    let (application, reason) = ("app".to_owned(), "why".to_owned());
    Some(Streak { schedule: query.schedule, version: 1, application, name: "nightly".into(), reason })
}

/// Executions of schedules that have survived two nodes, and one that has not run yet.
fn found(machine: &mut Stepped<MisfireMachine>, schedules: &[i64]) {
    let killer = |(n, schedule): (i64, &i64)| crate::store::Stranded {
        schedule: ScheduleId(*schedule),
        ..stranded(n, ExecutionState::Running, 1)
    };
    let mut list: Vec<_> = (1..).zip(schedules).map(killer).collect();
    list.push(stranded(99, ExecutionState::Claimed, 0));
    machine.found_stranded(StrandedPage { stranded: list, next: None }, at(0));
}

/// What the machine asks for, in a word each, until it waits; `answer` answers counts and pauses.
fn asked(
    machine: &mut Stepped<MisfireMachine>,
    after: Millis,
    mut answer: impl FnMut(Op) -> Result<Answer, Error>,
) -> Vec<String> {
    let mut asked = Vec::new();
    loop {
        match machine.next(at(after)) {
            Step::Do(Op::TakeBack(changes)) => {
                asked.push(format!("write {:?}", changes.iter().map(id).collect::<Vec<_>>()));
                machine.done(at(after), Ok(Answer::TakeBack(vec![Applied::Done; changes.len()])));
            }
            Step::Do(op) => {
                asked.push(match &op {
                    Op::Count(query) => format!("count {}", query.schedule),
                    Op::Contain(_, streak) => format!("pause {}", streak.schedule),
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

fn contains(op: Op) -> Result<Answer, Error> {
    Ok(match op {
        Op::Count(query) => Answer::Count(streak(&query)),
        Op::Contain(..) => Answer::Contain(Applied::Done),
        op => panic!("{}", op.name()),
    })
}

/// A handler that dies in between leaves the execution to its successor.
#[test]
fn a_schedule_is_paused_before_its_last_death_is_stored() {
    let mut machine = in_a_pass(None);
    found(&mut machine, &[7, 8, 7]);
    let steps = asked(&mut machine, 0, contains);
    let seven = ["count 7", "pause 7", "told", "write [1, 3]"];
    let expected = [&["write [99]"][..], &seven, &["count 8", "pause 8", "told", "write [2]"]].concat();
    assert_eq!(steps, expected);
}

#[test]
fn a_count_that_fails_withholds_its_own_executions_alone() {
    for kind in [ErrorKind::Data, ErrorKind::Unavailable] {
        let mut machine = in_a_pass(None);
        found(&mut machine, &[7, 8, 7]);
        let mut answer = |op| match op {
            Op::Count(query) if query.schedule.0 == 7 => Err(Error::new(kind, "made up")),
            Op::Count(_) => Ok(Answer::Count(None)),
            op => panic!("{}", op.name()),
        };
        let mut steps = asked(&mut machine, 0, &mut answer);
        steps.extend(asked(&mut machine, FAILURE_PAUSE, &mut answer));
        assert_eq!(steps, ["write [99]", "count 7", "count 8", "write [2]"]);
        assert!(asked(&mut machine, 10 * FAILURE_PAUSE, &mut answer).is_empty(), "left to the next takeover");
        found(&mut machine, &[7]);
        assert_eq!(asked(&mut machine, 10 * FAILURE_PAUSE, contains), ["write [99]"], "still withheld");
        machine.elected(at(10 * FAILURE_PAUSE));
        found(&mut machine, &[7]);
        assert!(machine.containment.has_dying());
    }
}

#[test]
fn a_schedule_that_was_changed_meanwhile_is_counted_anew() {
    let mut machine = in_a_pass(None);
    machine.receive(at(0), MisfireInput::Failed(ScheduleId(7)));
    let mut is_first = true;
    let mut answer = |op| match op {
        Op::Contain(..) if std::mem::take(&mut is_first) => Ok(Answer::Contain(Applied::Lost)),
        op => contains(op),
    };
    assert_eq!(asked(&mut machine, 0, &mut answer), ["count 7", "pause 7"]);
    assert!(asked(&mut machine, FIRST_DELAY - 1, &mut answer).is_empty());
    assert_eq!(asked(&mut machine, FIRST_DELAY, &mut answer), ["count 7", "pause 7", "told"]);
}

/// It needs no election. What fails again and again keeps no other schedule from being counted.
#[test]
fn what_has_failed_here_is_counted_here_until_the_database_answers() {
    let mut machine = in_a_pass(None);
    for schedule in [7, 8, 7] {
        machine.receive(at(0), MisfireInput::Failed(ScheduleId(schedule)));
    }
    let mut answer = |op| match op {
        Op::Count(query) if query.schedule.0 == 7 => Err(Error::new(ErrorKind::Unavailable, "made up")),
        Op::Count(_) => Ok(Answer::Count(None)),
        op => panic!("{}", op.name()),
    };
    assert_eq!(asked(&mut machine, 0, &mut answer), ["count 7"]);
    assert!(asked(&mut machine, FAILURE_PAUSE - 1, &mut answer).is_empty());
    assert_eq!(asked(&mut machine, FAILURE_PAUSE, &mut answer), ["count 8"]);
    assert_eq!(asked(&mut machine, FAILURE_DELAY, &mut answer), ["count 7"]);
    assert!(asked(&mut machine, 3 * FAILURE_DELAY - 1, &mut answer).is_empty());
    assert_eq!(asked(&mut machine, 3 * FAILURE_DELAY, contains), ["count 7", "pause 7", "told"]);
}

/// Plays a minute of a handler that finds two pages of executions, each about to end for good but one, and
/// whose counts take so long; what was asked.
fn minute_of_counts(took: Millis, is_error: bool) -> Vec<String> {
    let mut machine = keeping(Some(1_000_000));
    let (mut asked, mut after) = (Vec::new(), 0);
    machine.receive(at(0), polled());
    while after < 60_000 {
        match machine.next(at(after)) {
            Step::Tell(_) => {}
            Step::Wait(until) => {
                after = (until - at(0).boot).clamp(after + 1, after + 5_000);
                machine.receive(at(after), polled());
            }
            Step::Stop => break,
            Step::Do(op) => {
                asked.push(match &op {
                    Op::Repair(changes) | Op::TakeBack(changes) => format!("write {}", id(&changes[0])),
                    Op::Count(query) => format!("count {}", query.schedule),
                    op => op.name().to_owned(),
                });
                let answer = match op {
                    Op::FindStranded(_, after, _) => {
                        let page = if after == FIRST { 0 } else { 100 };
                        let killer = |n| crate::store::Stranded {
                            schedule: ScheduleId(n),
                            ..stranded(n, ExecutionState::Running, 1)
                        };
                        let mut list: Vec<_> = (page + 1..=page + 50).map(killer).collect();
                        list.push(stranded(page + 99, ExecutionState::Claimed, 0));
                        let next = (page == 0).then_some(ExecutionId(100));
                        Answer::FindStranded(StrandedPage { stranded: list, next })
                    }
                    Op::Repair(ref changes) | Op::TakeBack(ref changes) => {
                        written(&op, vec![Applied::Done; changes.len()])
                    }
                    Op::Count(_) => {
                        after += took;
                        if is_error {
                            machine.done(at(after), Err(Error::new(ErrorKind::Unavailable, "made up")));
                            continue;
                        }
                        Answer::Count(None)
                    }
                    op => nothing_found(&op),
                };
                machine.done(at(after), Ok(answer));
            }
        }
    }
    asked
}

/// They take longer than an election lasts, all together.
#[test]
fn counts_that_fail_or_take_long_keep_nothing_else_from_being_reached() {
    for (took, is_error) in [(0, true), (2_000, true), (2_000, false), (5_000, false)] {
        let asked = minute_of_counts(took, is_error);
        let first_count = asked.iter().position(|it| it.starts_with("count")).unwrap();
        for recovered in ["write 99", "write 199"] {
            assert!(asked[..first_count].iter().any(|it| it == recovered), "{took}, {is_error}: {asked:?}");
        }
        for reached in ["looking for misfires", "looking for broken rows", "purging the ledger"] {
            assert!(asked.iter().any(|it| it == reached), "{took}, {is_error}, {reached}: {asked:?}");
        }
        let counted: Vec<_> = asked.iter().filter(|it| it.starts_with("count")).collect();
        let different: BTreeSet<_> = counted.iter().collect();
        assert_eq!(different.len(), counted.len().min(100), "each in turn: {asked:?}");
        if !is_error {
            let counted = counted[0].replace("count", "write");
            assert_eq!(asked[first_count + 1], counted, "directly behind its count");
        }
    }
}

#[test]
fn a_pause_that_is_lost_again_and_again_is_tried_ever_more_rarely_and_holds_up_no_other() {
    let mut machine = in_a_pass(None);
    machine.receive(at(0), MisfireInput::Failed(ScheduleId(7)));
    let mut lost = |op| match op {
        Op::Contain(_, streak) if streak.schedule.0 == 7 => Ok(Answer::Contain(Applied::Lost)),
        op => contains(op),
    };
    let mut tries = Vec::new();
    for after in (0..=250_000).step_by(100) {
        if asked(&mut machine, after, &mut lost).contains(&"pause 7".to_owned()) {
            tries.push(after);
        }
    }
    let delays: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let expected = [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000, 60_000];
    assert_eq!(delays, expected);
    machine.receive(at(250_000), MisfireInput::Failed(ScheduleId(8)));
    assert_eq!(asked(&mut machine, 250_000, &mut lost), ["count 8", "pause 8", "told"]);
}
