use super::*;
use crate::domain::{Attempt, ExecutionId, Overlap, Token};
use crate::fixtures::calls_while_down;
use crate::machine::Stepped;
use crate::store::Transition;
use crate::store::transition::OwnExecution;

mod batches;
mod conclusions;
mod saying;
mod time_limits;

const NOW: Timestamp = Timestamp::at(1_000_000);

fn start(id: i64) -> CompleteInput {
    CompleteInput::Settle(changed(id, Transition::Start), None)
}

/// What it asks for when it is given `inputs`, each at its instant, by an instantaneous database: when,
/// and how much.
fn calls(inputs: Vec<(Millis, CompleteInput)>) -> Vec<(Millis, usize)> {
    let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
    let mut inputs = std::collections::VecDeque::from(inputs);
    let (mut now, mut calls) = (0, Vec::new());
    loop {
        let at = Now { db: NOW, boot: Boot::at(now), apart: 0 };
        while let Some((_, input)) = inputs.pop_front_if(|(at, _)| *at <= now) {
            machine.receive(at, input);
        }
        match machine.next(at) {
            Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
            Step::Do(CompleteOp::Settle(SettleOp { changes: batch, .. })) => {
                calls.push((now, batch.len()));
                machine.done(at, Ok(vec![Applied::Done; batch.len()]));
            }
            Step::Tell(_) => {}
            Step::Wait(until) => {
                assert!(until > Boot::at(now), "a hot loop");
                now = inputs.front().map_or(until.millis(), |(at, _)| until.millis().min(*at));
            }
            Step::Stop => return calls,
        }
    }
}

fn outcome(at: Millis) -> (Millis, CompleteInput) {
    (at, CompleteInput::Settle(finish(at, "plain"), None))
}

#[test]
fn a_steady_stream_of_outcomes_is_stored_in_few_transactions() {
    let mut stream: Vec<_> = (0..2_500).map(|n| outcome(4 * n)).collect();
    stream.push((20_000, CompleteInput::Close));
    let calls = calls(stream);
    assert_eq!(calls[0], (0, 1), "the first does not wait");
    assert!(calls.iter().all(|(_, outcomes)| *outcomes <= 13), "none waits for more than {GATHER} ms");
    assert!(calls.len() <= 201, "{} transactions for 2,500 outcomes", calls.len());
}

#[test]
fn what_somebody_waits_for_is_stored_at_once_and_takes_the_others_along() {
    let (reply, _answer) = crossbeam::channel::bounded(1);
    let start = (10, CompleteInput::Settle(finish(0, "plain"), Some(Reply::Thread(reply))));
    let inputs = vec![outcome(0), outcome(5), start, outcome(15), (16, CompleteInput::Close)];
    assert_eq!(calls(inputs), [(0, 1), (10, 2), (16, 1)], "a stop waits for nothing either");
}

#[test]
fn a_backlog_waits_for_nothing() {
    let mut backlog: Vec<_> = (0..2 * 64).map(|n| outcome(1 + n / 64)).collect();
    backlog.insert(0, outcome(0));
    backlog.push((2, CompleteInput::Close));
    assert_eq!(calls(backlog), [(0, 1), (1, 64), (2, 64)]);
}

#[test]
fn what_a_backlog_leaves_is_not_made_to_wait_like_a_stream() {
    let many = |count, at| (0..count).map(move |_| outcome(at));
    let of_a_stream = many(64, 0).chain([outcome(1)]);
    let of_a_backlog = many(64, 5).chain([outcome(6)]);
    let inputs = of_a_stream.chain(of_a_backlog).chain([(99, CompleteInput::Close)]).collect();
    assert_eq!(calls(inputs), [(0, 64), (5, 65), (13, 1)]);
    let inputs = many(64, 0).chain([outcome(1), (99, CompleteInput::Close)]).collect();
    assert_eq!(calls(inputs), [(0, 64), (50, 1)]);
}

/// And what was to be stored is still there afterwards.
#[test]
fn no_hot_loop_while_the_database_is_down() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Refused] {
        let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
        let mut given = 0;
        let calls = calls_while_down(&mut machine.machine, NOW, kind, || {
            given += 1;
            Some(start(given))
        });
        assert!((20..=70).contains(&calls), "{calls} calls in a minute");
        assert_eq!(machine.queue.len() + machine.aside.len(), usize::try_from(given).unwrap());
    }
}

fn finish(n: i64, error: &str) -> ExecutionChange {
    changed(n, Transition::Fail(error.to_owned(), None))
}

fn changed(n: i64, transition: Transition) -> ExecutionChange {
    let change = ExecutionChange::of(ExecutionId(n), Token::fresh(), transition, NOW);
    ExecutionChange { own: Some(own(n)), ..change }
}

fn own(n: i64) -> OwnExecution {
    OwnExecution { attempt: attempt(n), bound_of: None, slot: None, counted_by: None }
}

fn attempt(n: i64) -> Attempt {
    Attempt { execution: ExecutionId(n), schedule: "s".into(), job: "job".into(), number: 1 }
}

fn execution(change: &Change) -> &ExecutionChange {
    let Change::Execution(change) = change else { panic!("not of an execution") };
    change
}

/// A database that refuses what is not ASCII and holds execution 3 locked for a while.
fn answer(batch: &[Change], locked: bool) -> Result<Vec<Applied>, Error> {
    if locked && batch.iter().any(|it| execution(it).execution == ExecutionId(3)) {
        return Err(Error::new(ErrorKind::Unavailable, "locked"));
    }
    let refused = |it: &Change| execution(it).error().as_ref().is_some_and(|text| !text.is_ascii());
    if batch.iter().any(refused) {
        return Err(Error::new(ErrorKind::Data, "no such character"));
    }
    Ok(vec![Applied::Done; batch.len()])
}

#[test]
fn an_outcome_that_cannot_be_stored_does_not_hold_up_the_others() {
    let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
    let mut now = Now { db: Timestamp::at(0), boot: Boot::at(0), apart: 0 };
    for n in 0..10 {
        let text = if n == 5 { "\u{2615}" } else { "plain" };
        machine.receive(now, CompleteInput::Settle(finish(n, text), None));
    }
    let mut stored = Vec::new();
    let mut calls = 0;
    while stored.len() < 10 {
        match machine.next(now) {
            Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
            Step::Do(CompleteOp::Settle(SettleOp { changes: batch, .. })) => {
                calls += 1;
                let answer = answer(&batch, stored.len() < 9);
                if answer.is_ok() {
                    stored.extend(batch.iter().map(|it| execution(it).execution.0));
                }
                machine.done(now, answer);
            }
            Step::Wait(until) => now.boot = until,
            Step::Tell(_) => {}
            Step::Stop => panic!("stopped"),
        }
        assert!(calls < 100, "stored only {stored:?}");
    }
    assert_eq!(stored.last(), Some(&3), "the locked one came last, when it was free");
    assert!(stored.contains(&5), "and the refused one was stored in other words");
}

/// Once it is stored, and not if the execution was another's by then.
#[test]
fn a_failure_for_good_is_told() {
    for (applied, told) in [(Applied::Done, 1), (Applied::Lost, 0)] {
        let now = Now { db: Timestamp::at(0), boot: Boot::at(0), apart: 0 };
        let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
        let own = Some(OwnExecution { counted_by: Some(ScheduleId(7)), ..own(1) });
        machine.receive(now, CompleteInput::Settle(ExecutionChange { own, ..finish(1, "plain") }, None));
        assert!(matches!(machine.next(now), Step::Do(_)));
        machine.done(now, Ok(vec![applied]));
        let outputs = std::iter::from_fn(|| match machine.next(now) {
            Step::Tell(output) => Some(output),
            _ => None,
        });
        let failed = outputs.filter(|it| matches!(it, CompleteOutput::Failed(ScheduleId(7)))).count();
        assert_eq!(failed, told, "{applied:?}");
    }
}

/// A batch tells once, and not of what was another's by then.
#[test]
fn executions_that_go_back_are_told() {
    for (transition, applied, told) in [
        (Transition::GiveBack as fn(Token) -> Transition, Applied::Done, 1),
        (Transition::Interrupt, Applied::Done, 1),
        (Transition::GiveBack, Applied::Lost, 0),
        (|_| Transition::Succeed, Applied::Done, 0),
    ] {
        let now = Now { db: Timestamp::at(0), boot: Boot::at(0), apart: 0 };
        let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
        for n in 0..2 {
            let change = changed(n, transition(Token::fresh()));
            machine.receive(now, CompleteInput::Settle(change, None));
        }
        assert!(matches!(machine.next(now), Step::Do(_)));
        machine.done(now, Ok(vec![applied; 2]));
        let outputs = std::iter::from_fn(|| match machine.next(now) {
            Step::Tell(output) => Some(output),
            _ => None,
        });
        let tellings = outputs.filter(|it| matches!(it, CompleteOutput::HandedBack)).count();
        assert_eq!(tellings, told, "{applied:?}");
    }
}

/// Who waits here is told at once; of a schedule that queues, also who may wait elsewhere.
#[test]
fn an_end_that_frees_a_slot_is_told_to_who_waits() {
    let freed = |overlap: Overlap, awaited: bool, settled: Applied| {
        let held = Arc::new(OwnTokens::default());
        held.await_slots(awaited);
        let mut machine = Stepped::new(CompleteMachine::new(held));
        let now = Now { db: Timestamp::at(0), boot: Boot::at(0), apart: 0 };
        let own = Some(OwnExecution { slot: Some((ScheduleId(7), overlap)), ..own(1) });
        let change = ExecutionChange { own, ..finish(1, "plain") };
        machine.receive(now, CompleteInput::Settle(change, None));
        assert!(matches!(machine.next(now), Step::Do(_)));
        machine.done(now, Ok(vec![settled]));
        std::iter::from_fn(|| match machine.next(now) {
            Step::Tell(output) => Some(output),
            _ => None,
        })
        .find_map(|output| match output {
            CompleteOutput::SlotFreed(schedule, name) => {
                Some((schedule.0, name.as_deref().map(str::to_owned)))
            }
            _ => None,
        })
    };
    assert_eq!(freed(Overlap::Skip, true, Applied::Done), Some((7, None)));
    assert_eq!(freed(Overlap::Skip, false, Applied::Done), None, "nobody waits");
    assert_eq!(freed(Overlap::Skip, true, Applied::Lost), None, "it was another's by then");
    assert_eq!(freed(Overlap::Queue(1), false, Applied::Done), Some((7, Some("s".to_owned()))));
}
