//! Time limits, and handlers that return around them.

use super::*;
use crate::pipeline::complete::time_limits::Deadline;

const LIMIT: Millis = 10;

fn at(boot: Millis) -> Now {
    Now { db: NOW + boot, boot: Boot::at(boot), apart: 0 }
}

/// A machine, and a run that it watches: how it ends, and what its handler has settled if it returns late.
struct Watched {
    machine: Stepped<CompleteMachine>,
    stuck: Stuck,
    end: Deadline,
    release: ExecutionChange,
}

impl Watched {
    fn new() -> Self {
        let stuck = Stuck::default();
        let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
        let (end, change) = (Deadline::new(Boot::at(LIMIT)), changed(7, Transition::TimeOut(String::new())));
        let transition = Transition::Release(Token::fresh(), None);
        let release = ExecutionChange { transition, ..change.clone() };
        machine
            .receive(at(0), CompleteInput::Limit(Limited { end: end.clone(), change, stuck: stuck.clone() }));
        Self { machine, stuck, end, release }
    }

    fn returns(&mut self, boot: Millis) {
        let settled =
            if self.end.returned(Boot::at(boot)) { finish(7, "plain") } else { self.release.clone() };
        self.machine.receive(at(boot), CompleteInput::Settle(settled, None));
    }

    /// What it does next: the kinds of changes it has stored, or nothing; events are left out.
    fn next(&mut self, boot: Millis) -> Vec<ChangeKind> {
        loop {
            match self.machine.next(at(boot)) {
                Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
                Step::Do(CompleteOp::Settle(SettleOp { changes, .. })) => {
                    return changes.iter().map(Change::kind).collect();
                }
                Step::Tell(_) => {}
                Step::Wait(_) | Step::Stop => return Vec::new(),
            }
        }
    }

    fn stored(&mut self, boot: Millis) {
        self.machine.done(at(boot), Ok(vec![Applied::Done]));
    }
}

#[test]
fn a_time_limit_is_stored_at_its_instant_and_told() {
    let mut watched = Watched::new();
    assert!(matches!(watched.machine.next(at(9)), Step::Wait(until) if until == Boot::at(LIMIT)));
    let told = watched.machine.next(at(LIMIT));
    assert!(matches!(told, Step::Tell(CompleteOutput::Event(Event::TimedOut { .. }))));
    assert_eq!(watched.next(LIMIT), [ChangeKind::TimeOut]);
    watched.stored(11);
    assert_eq!((watched.stuck.count(), watched.next(100)), (1, Vec::new()));
    watched.returns(1_000);
    assert_eq!((watched.stuck.count(), watched.next(1_000)), (0, vec![ChangeKind::Release]));
}

#[test]
fn a_handler_that_returned_in_time_is_not_timed_out() {
    let mut watched = Watched::new();
    watched.returns(9);
    assert_eq!(watched.next(LIMIT), [ChangeKind::Finish]);
    watched.stored(LIMIT);
    assert_eq!((watched.stuck.count(), watched.next(1_000)), (0, Vec::new()));
}

/// Its answer was sent in time and is read after the limit.
#[test]
fn an_answer_on_its_way_at_the_limit_counts() {
    let mut watched = Watched::new();
    assert!(watched.end.returned(Boot::at(9)));
    assert_eq!(watched.next(LIMIT), Vec::new());
    watched.machine.receive(at(11), CompleteInput::Settle(finish(7, "plain"), None));
    assert_eq!((watched.next(11), watched.stuck.count()), (vec![ChangeKind::Finish], 0));
}

#[test]
fn a_late_return_is_settled_after_the_time_limit_however_often_that_fails() {
    let mut watched = Watched::new();
    assert_eq!(watched.next(LIMIT), [ChangeKind::TimeOut]);
    watched.returns(11);
    watched.machine.done(at(12), Err(Error::new(ErrorKind::Unavailable, "away")));
    assert_eq!(watched.next(1_000), [ChangeKind::TimeOut]);
    watched.stored(1_001);
    assert_eq!((watched.next(2_000), watched.stuck.count()), (vec![ChangeKind::Release], 0));
}

/// The machine waited for the database meanwhile.
#[test]
fn a_return_after_the_limit_is_late_although_nobody_has_looked() {
    let mut watched = Watched::new();
    watched.returns(12);
    assert_eq!(watched.next(12), [ChangeKind::TimeOut]);
    watched.stored(13);
    assert_eq!((watched.next(1_000), watched.stuck.count()), (vec![ChangeKind::Release], 0));
}
