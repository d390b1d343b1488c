//! Executions of dead nodes.

use crate::domain::{Event, ExecutionState};
use crate::fixtures::stranded;
use crate::machine::Step;
use crate::misfire::MisfireOutput;
use crate::misfire::calls::{Answer, Op};
use crate::misfire::tests::{at, id, keeping};
use crate::store::{Applied, StrandedPage};

/// The newest ran last: it is taken back last, and the event says that it was given up.
#[test]
fn an_occurrence_that_no_node_survives_is_given_up_aloud() {
    let mut machine = keeping(None);
    let stranded = vec![stranded(2, ExecutionState::Running, 1), stranded(1, ExecutionState::Running, 0)];
    machine.found_stranded(StrandedPage { stranded, next: None }, at(0));
    let (mut order, mut told) = (Vec::new(), Vec::new());
    loop {
        match machine.next(at(0)) {
            Step::Do(Op::TakeBack(changes)) => {
                order.extend(changes.iter().map(id));
                machine.done(at(0), Ok(Answer::TakeBack(vec![Applied::Done; changes.len()])));
            }
            Step::Do(Op::Count(_)) => machine.done(at(0), Ok(Answer::Count(None))),
            Step::Tell(MisfireOutput::Event(Event::Exhausted { attempt, deaths })) => {
                assert_eq!(&*attempt.schedule, "nightly");
                told.push((attempt.execution.0, deaths));
            }
            Step::Tell(_) => {}
            _ => break,
        }
    }
    assert_eq!((order, told), (vec![1, 2], vec![(2, 2)]));
}
