//! Ends of handlers whose own transaction may have stored their outcome.

use super::*;
use crate::domain::attempt_span::AttemptSpan;
use crate::domain::{Cause, ExecutionState};
use crate::pipeline::complete::time_limits::Deadline;
use std::time::Duration;

fn at(boot: Millis) -> Now {
    Now { db: NOW + boot, boot: Boot::at(boot), apart: 0 }
}

fn finished(state: ExecutionState) -> Event {
    let zero = Duration::ZERO;
    let (cause, error, retry) = (Cause::Planned, None, None);
    Event::Finished { attempt: attempt(7), cause, lateness: zero, took: zero, state, error, retry }
}

/// Of execution 7, whose outcome is `undone` unless its transaction was committed.
fn conclusion(undone: Transition) -> CompleteInput {
    let confirm = changed(7, Transition::Confirm);
    let undone = ExecutionChange { transition: undone, ..confirm.clone() };
    CompleteInput::Conclude(Box::new(Conclusion {
        committed: (confirm, finished(ExecutionState::Succeeded)),
        undone: (undone, finished(ExecutionState::Failed)),
        span: AttemptSpan::default(),
    }))
}

fn failed() -> Transition {
    Transition::Fail("rolled back".to_owned(), None)
}

/// What is settled one after the other if that is answered so, and what is told.
fn settled(undone: Transition, answers: &[Applied]) -> (Vec<ChangeKind>, Vec<String>) {
    let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
    machine.receive(at(0), conclusion(undone));
    answered(machine, answers)
}

/// The same of a machine that was given one.
fn answered(mut machine: Stepped<CompleteMachine>, answers: &[Applied]) -> (Vec<ChangeKind>, Vec<String>) {
    machine.receive(at(0), CompleteInput::Close);
    let (mut kinds, mut told, mut answers) = (Vec::new(), Vec::new(), answers.iter());
    loop {
        match machine.next(at(0)) {
            Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
            Step::Do(CompleteOp::Settle(SettleOp { changes, .. })) => {
                kinds.extend(changes.iter().map(Change::kind));
                machine.done(at(0), Ok(vec![*answers.next().expect("nothing more is settled")]));
            }
            Step::Tell(CompleteOutput::Event(event)) => told.push(event.to_string()),
            // As the thread for the application's code does.
            Step::Tell(CompleteOutput::SpanEnded(span, state)) => {
                state.into_iter().for_each(|state| span.ended(state));
            }
            Step::Tell(_) => {}
            Step::Wait(_) => panic!("it waits for nothing"),
            Step::Stop => break,
        }
    }
    assert!(answers.next().is_none(), "all answers were wanted");
    (kinds, told)
}

#[test]
fn what_was_committed_is_done_whatever_the_handler_says() {
    let (kinds, told) = settled(failed(), &[Applied::Done]);
    assert_eq!(kinds, [ChangeKind::Confirm]);
    assert_eq!(told, ["\"s\": execution 7 succeeded"]);
}

#[test]
fn what_was_rolled_back_is_as_the_handler_says() {
    let (kinds, told) = settled(failed(), &[Applied::Lost, Applied::Done]);
    assert_eq!(kinds, [ChangeKind::Confirm, ChangeKind::Finish]);
    assert_eq!(told, ["\"s\": execution 7 failed: \"\""]);
}

/// Its COMMIT was still under way when it was asked for.
#[test]
fn what_is_committed_meanwhile_is_asked_for_once_more() {
    let (kinds, told) = settled(failed(), &[Applied::Lost, Applied::Lost, Applied::Done]);
    assert_eq!(kinds, [ChangeKind::Confirm, ChangeKind::Finish, ChangeKind::Confirm]);
    assert_eq!(told, ["\"s\": execution 7 succeeded"]);
}

#[test]
fn what_was_taken_from_the_node_is_told_once() {
    let (_, told) = settled(failed(), &[Applied::Lost; 3]);
    assert_eq!(told, ["\"s\": execution 7 was taken from this node; its outcome changed nothing"]);
}

/// Its time was up before it returned: nobody counts it as stuck once it has succeeded, or was released.
#[test]
fn a_late_one_frees_its_lane() {
    for answers in [&[Applied::Done][..], &[Applied::Lost, Applied::Done]] {
        let (stuck, end) = (Stuck::default(), Deadline::new(Boot::at(10)));
        let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
        let change = changed(7, Transition::TimeOut(String::new()));
        machine.receive(at(0), CompleteInput::Limit(Limited { end, change, stuck: stuck.clone() }));
        let mut answers = [Applied::Lost].iter().chain(answers);
        let mut settle = |machine: &mut Stepped<CompleteMachine>, boot| {
            loop {
                match machine.next(at(boot)) {
                    Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
                    Step::Do(CompleteOp::Settle(SettleOp { changes, .. })) => {
                        let answered = changes.iter().map(|_| *answers.next().unwrap()).collect();
                        machine.done(at(boot), Ok(answered));
                    }
                    Step::Tell(_) => {}
                    Step::Wait(_) | Step::Stop => break,
                }
            }
        };
        settle(&mut machine, 10);
        assert_eq!(stuck.count(), 1, "the transaction was committed before that was stored");
        machine.receive(at(20), conclusion(Transition::Release(Token::fresh(), None)));
        settle(&mut machine, 1_000);
        assert_eq!(stuck.count(), 0);
    }
}

/// Of a committed one, of one that was rolled back, and of one that was taken from its node.
#[cfg(feature = "tracing")]
#[test]
fn its_span_has_the_outcome_that_the_row_says() {
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span::{Id, Record};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use crate::domain::NodeId;
    use crate::domain::attempt_span::SpanFacts;

    #[derive(Clone, Default)]
    struct Recorded(Arc<Mutex<Vec<String>>>);
    impl<S: tracing::Subscriber> Layer<S> for Recorded {
        fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
            values.record(&mut self.clone());
        }
    }
    impl Visit for Recorded {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0.lock().unwrap().push(format!("{}={value:?}", field.name()));
        }
    }
    let recorded = Recorded::default();
    let of = |answers: &[Applied]| {
        let subscriber = tracing_subscriber::registry().with(recorded.clone());
        tracing::subscriber::with_default(subscriber, || {
            let (node, cause, lateness) = (NodeId(uuid::Uuid::nil()), Cause::Planned, Duration::ZERO);
            let facts = SpanFacts { application: "app", node: &node, cause: &cause, fence: 1, lateness };
            let span = AttemptSpan::new(&attempt(7), &facts);
            let CompleteInput::Conclude(conclusion) = conclusion(failed()) else { panic!() };
            let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
            let conclusion = Conclusion { span, ..*conclusion };
            machine.receive(at(0), CompleteInput::Conclude(Box::new(conclusion)));
            answered(machine, answers);
        });
        std::mem::take(&mut *recorded.0.lock().unwrap())
    };
    assert_eq!(of(&[Applied::Done]), ["outcome=\"SUCCEEDED\""]);
    let failed = ["outcome=\"FAILED\"", "error.type=\"FAILED\"", "otel.status_code=\"ERROR\""];
    assert_eq!(of(&[Applied::Lost, Applied::Done]), failed);
    assert_eq!(of(&[Applied::Lost; 3]), [""; 0]);
}

/// A subscriber is the application's code: no outcome may wait for it.
#[cfg(feature = "tracing")]
#[test]
fn its_span_is_not_ended_by_the_machine_that_stores_outcomes() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use crate::domain::attempt_span::SpanFacts;

    struct Closes(Arc<AtomicUsize>);
    impl<S: tracing::Subscriber> Layer<S> for Closes {
        fn on_close(&self, _: tracing::span::Id, _: Context<'_, S>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let closed = Arc::new(AtomicUsize::new(0));
    let subscriber = tracing_subscriber::registry().with(Closes(Arc::clone(&closed)));
    tracing::subscriber::with_default(subscriber, || {
        let (cause, lateness) = (Cause::Planned, Duration::ZERO);
        let facts = SpanFacts { application: "app", node: &"node", cause: &cause, fence: 1, lateness };
        let span = AttemptSpan::new(&attempt(7), &facts);
        let CompleteInput::Conclude(conclusion) = conclusion(failed()) else { panic!() };
        let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
        let conclusion = Conclusion { span, ..*conclusion };
        machine.receive(at(0), CompleteInput::Conclude(Box::new(conclusion)));
        assert!(matches!(machine.next(at(0)), Step::Do(_)));
        machine.done(at(0), Ok(vec![Applied::Done]));
        let Step::Tell(ended @ CompleteOutput::SpanEnded(..)) = machine.next(at(0)) else { panic!() };
        assert_eq!(closed.load(Ordering::Relaxed), 0);
        drop(ended);
        assert_eq!(closed.load(Ordering::Relaxed), 1);
    });
}
