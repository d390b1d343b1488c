//! Settlements made together and apart, and their answers.

use crossbeam::channel::bounded;

use super::*;
use crate::domain::Reason;
use crate::store::{NextAttempt, Verbs};

fn at(boot: Millis) -> Now {
    Now { db: NOW, boot: Boot::at(boot), apart: 0 }
}

fn machine(count: i64) -> Stepped<CompleteMachine> {
    let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
    (0..count).for_each(|n| machine.receive(at(0), CompleteInput::Settle(finish(n, "no"), None)));
    machine
}

/// The size of the next batch, past what the machine tells.
fn batch(machine: &mut Stepped<CompleteMachine>, now: Now) -> usize {
    loop {
        match machine.next(now) {
            Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
            Step::Do(CompleteOp::Settle(SettleOp { changes: batch, .. })) => return batch.len(),
            Step::Tell(_) => {}
            Step::Wait(_) | Step::Stop => return 0,
        }
    }
}

fn done(count: usize) -> Result<Vec<Applied>, Error> {
    Ok(vec![Applied::Done; count])
}

fn failed(kind: ErrorKind) -> Result<Vec<Applied>, Error> {
    Err(Error::new(kind, "not now"))
}

#[test]
fn what_waits_is_settled_together_up_to_a_batch() {
    let mut machine = machine((BATCH + ENOUGH) as i64);
    for size in [BATCH, ENOUGH] {
        assert_eq!(batch(&mut machine, at(0)), size);
        machine.done(at(0), done(size));
    }
    assert!(matches!(machine.next(at(0)), Step::Wait(Boot::MAX)));
}

#[test]
fn what_failed_together_is_tried_apart_and_what_comes_after_together_again() {
    let mut machine = machine(3);
    assert_eq!(batch(&mut machine, at(0)), 3);
    machine.done(at(0), failed(ErrorKind::Refused));
    (3..8).for_each(|n| machine.receive(at(0), CompleteInput::Settle(finish(n, "no"), None)));
    for _ in 0..2 {
        assert_eq!(batch(&mut machine, at(10_000)), 1);
        machine.done(at(10_000), done(1));
    }
    assert_eq!(batch(&mut machine, at(10_000)), 1);
    machine.done(at(10_000), failed(ErrorKind::Refused));
    assert_eq!(batch(&mut machine, at(10_001)), 0, "it pauses");
    assert_eq!(batch(&mut machine, at(20_000)), 1, "the one that failed alone stays alone");
    machine.done(at(20_000), failed(ErrorKind::Refused));
    assert_eq!(batch(&mut machine, at(20_000)), 5);
    machine.done(at(20_000), done(5));
    assert_eq!(batch(&mut machine, at(20_001)), 0);
    assert_eq!(batch(&mut machine, at(30_000)), 1);
    machine.done(at(30_000), done(1));
    assert!(matches!(machine.next(at(30_000)), Step::Wait(Boot::MAX)));
}

/// Each outcome in a batch of its own size; the row of execution `bad` cannot be stored. A minute of calls:
/// at which instant, how many together, and whether it failed.
fn a_minute_beside(bad: i64, kind: ErrorKind) -> Vec<(Millis, usize, bool)> {
    let mut machine = machine(BATCH as i64);
    let (mut now, mut calls, mut stored) = (0, Vec::new(), 0);
    while now < 60_000 {
        match machine.next(at(now)) {
            Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
            Step::Do(CompleteOp::Settle(SettleOp { changes: batch, .. })) => {
                let is_refused = batch.iter().any(|it| execution(it).execution == ExecutionId(bad));
                calls.push((now, batch.len(), is_refused));
                assert!(calls.len() < 1_000, "{kind:?} {bad}: a hot loop");
                stored += if is_refused { 0 } else { batch.len() };
                machine.done(at(now), if is_refused { failed(kind) } else { done(batch.len()) });
            }
            Step::Tell(_) => {}
            Step::Wait(until) => {
                let before = now;
                now = until.millis().min(now - now % 1_000 + 1_000);
                if before / 1_000 < now / 1_000 {
                    let more = (0..10).map(|n| CompleteInput::Settle(finish(10_000 + n, "no"), None));
                    more.for_each(|input| machine.receive(at(now), input));
                }
            }
            Step::Stop => panic!("stopped"),
        }
    }
    assert_eq!(stored, BATCH - 1 + 59 * 10, "{kind:?}: all others, at once");
    calls
}

#[test]
fn an_outcome_that_is_never_stored_costs_the_others_a_few_calls_once() {
    for kind in [ErrorKind::Data, ErrorKind::Refused, ErrorKind::Unavailable] {
        for bad in [0, 1, 499, 500, 998, 999] {
            let calls = a_minute_beside(bad, kind);
            let together = calls.iter().filter(|(_, size, failed)| *failed && *size > 1);
            // The row might only be held: the whole batch is sent once more, and leaves held rows.
            let once_more = usize::from(kind == ErrorKind::Unavailable);
            assert!(together.count() <= 4 + once_more, "{kind:?} {bad}: {calls:?}");
            let first_alone = calls.iter().position(|(_, size, failed)| *failed && *size == 1).unwrap();
            assert!(first_alone <= 4 * PARTS, "{kind:?} {bad}: {calls:?}");
            assert!(calls[first_alone].0 < 3_000, "{kind:?} {bad}: {calls:?}");
            let alone = calls.iter().filter(|(_, size, failed)| *failed && *size == 1).count();
            assert!((25..=40).contains(&alone), "{kind:?} {bad}: tried {alone} times in a minute");
        }
    }
}

/// Of twelve outcomes, the first in each of twelve seconds, others hold the rows until `released`.
#[test]
fn held_rows_cost_the_others_one_wait_for_a_lock() {
    const LOCK_WAIT: Millis = 2_400;
    let released = |id: i64| 20_000 + 1_000 * (id / 100);
    let mut machine = machine(0);
    let (mut now, mut waits, mut stored) = (0, 0, Vec::new());
    let mut unsent: VecDeque<i64> = (0..1_200).collect();
    while stored.len() < 1_200 {
        while unsent.pop_front_if(|id| *id * 10 <= now).map(|id| finish(id, "no")).is_some_and(|change| {
            machine.receive(at(now), CompleteInput::Settle(change, None));
            true
        }) {}
        let is_held = |change: &Change| {
            let id = execution(change).execution.0;
            id % 100 == 0 && now < released(id)
        };
        match machine.next(at(now)) {
            Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
            Step::Do(CompleteOp::Settle(SettleOp { changes, held: HeldRow::Wait }))
                if changes.iter().any(is_held) =>
            {
                waits += 1;
                now += LOCK_WAIT;
                machine.done(at(now), failed(ErrorKind::Unavailable));
            }
            Step::Do(CompleteOp::Settle(SettleOp { changes, .. })) => {
                let applied = |change: &Change| if is_held(change) { Applied::Held } else { Applied::Done };
                let free = changes.iter().filter(|change| !is_held(change));
                stored.extend(free.map(|change| (execution(change).execution.0, now)));
                machine.done(at(now), Ok(changes.iter().map(applied).collect()));
            }
            Step::Tell(_) => {}
            Step::Wait(until) => now = until.millis().min(unsent.front().map_or(Millis::MAX, |id| 10 * id)),
            Step::Stop => panic!("stopped"),
        }
        assert!(now < 60_000, "a hot loop, or outcomes that are never tried");
    }
    assert_eq!(waits, 1);
    for (id, at) in stored {
        let since = if id % 100 == 0 { released(id) } else { 10 * id };
        let most = if id < 300 { LOCK_WAIT + 200 } else { LONGEST_PAUSE + GATHER };
        assert!((since..=since + most).contains(&at), "{id} was stored at {at}");
    }
}

/// Those set aside do not take every call: the others have every second.
#[test]
fn many_outcomes_that_are_never_stored_leave_room_for_the_others() {
    let mut machine = machine(100);
    let mut now = 0;
    let mut calls = 0;
    while machine.aside.len() < 100 {
        match machine.next(at(now)) {
            Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
            Step::Do(CompleteOp::Settle(SettleOp { .. })) => {
                calls += 1;
                machine.done(at(now), failed(ErrorKind::Data));
            }
            Step::Wait(until) => now = until.millis(),
            Step::Tell(_) => {}
            Step::Stop => panic!("stopped"),
        }
    }
    assert!(calls < 500, "{calls}");
    now += LONGEST_PAUSE;
    machine.receive(at(now), CompleteInput::Settle(finish(100, "no"), None));
    machine.receive(at(now), CompleteInput::Settle(finish(101, "no"), None));
    let sizes = [(), ()].map(|()| {
        let size = batch(&mut machine, at(now));
        machine.done(at(now), if size == 1 { failed(ErrorKind::Data) } else { done(size) });
        size
    });
    assert!(sizes.contains(&2), "{sizes:?}");
}

/// In an outage nothing can be stored, and no row is at fault.
#[test]
fn what_an_outage_set_aside_is_stored_together_after_it() {
    let mut machine = machine(20);
    let mut now = 0;
    while machine.aside.len() < 5 {
        match machine.next(at(now)) {
            Step::Do(CompleteOp::Say(_) | CompleteOp::Announce(_)) => panic!("nobody says or waits"),
            Step::Do(CompleteOp::Settle(SettleOp { .. })) => {
                machine.done(at(now), failed(ErrorKind::Unavailable))
            }
            Step::Wait(until) => now = until.millis(),
            Step::Tell(_) => {}
            Step::Stop => panic!("stopped"),
        }
    }
    let mut calls = 0;
    while machine.queue.len() + machine.aside.len() > 0 {
        now += LONGEST_PAUSE;
        let size = batch(&mut machine, at(now));
        machine.done(at(now), done(size));
        calls += 1;
    }
    assert!(calls <= 3, "{calls} calls");
}

#[test]
fn each_failure_doubles_the_pause_and_a_success_ends_that() {
    let mut machine = machine(1);
    let mut now = 0;
    assert_eq!(batch(&mut machine, at(now)), 1);
    machine.done(at(now), failed(ErrorKind::Unavailable));
    for pause in [100, 200, 400, 800, 1_600, 2_000, 2_000] {
        assert!(batch(&mut machine, at(now)) > 0);
        machine.done(at(now), failed(ErrorKind::Unavailable));
        assert!(matches!(
            machine.next(at(now)),
            Step::Tell(CompleteOutput::Event(Event::StoreFailed { .. }))
        ));
        let Step::Wait(until) = machine.next(at(now)) else { panic!("no pause") };
        assert_eq!(until, Boot::at(now + pause));
        now = until.millis();
    }
    assert_eq!(batch(&mut machine, at(now)), 1);
    machine.done(at(now), done(1));
    for answer in [done(1), failed(ErrorKind::Unavailable), failed(ErrorKind::Unavailable)] {
        machine.receive(at(now), CompleteInput::Settle(finish(2, "no"), None));
        now += GATHER;
        assert_ne!(batch(&mut machine, at(now)), 0);
        machine.done(at(now), answer);
    }
    assert!(matches!(machine.next(at(now)), Step::Tell(_)));
    assert!(matches!(machine.next(at(now)), Step::Wait(until) if until == Boot::at(now + FIRST_PAUSE)));
}

/// A start that succeeded is followed by an outcome: until then its token is answered for.
#[test]
fn a_token_is_let_go_with_its_outcome_or_when_it_is_revoked() {
    let start = changed(1, Transition::Start);
    let back = changed(1, Transition::GiveBack(Token::fresh()));
    let finish = finish(1, "no");
    let cases = [
        (start.clone(), Applied::Done, true),
        (start, Applied::Lost, false),
        (back.clone(), Applied::Done, false),
        (back, Applied::Lost, false),
        (finish.clone(), Applied::Done, false),
        (finish, Applied::Lost, false),
    ];
    for (change, settled, held) in cases {
        let context = format!("{change:?} {settled:?}");
        let mut machine = machine(0);
        let (token, (reply, answer)) = (Token::fresh(), bounded(1));
        machine.own_tokens.add(token);
        let settlement = ExecutionChange { token, ..change };
        machine.receive(at(0), CompleteInput::Settle(settlement, Some(Reply::Thread(reply))));
        assert_eq!(batch(&mut machine, at(0)), 1);
        machine.done(at(0), Ok(vec![settled]));
        assert_eq!(answer.try_recv(), Ok(settled), "{context}");
        assert_eq!(machine.own_tokens.contains(token), held, "{context}");
        let revoked = Event::Revoked { attempt: attempt(1) };
        let told = matches!(machine.next(at(0)), Step::Tell(CompleteOutput::Event(event)) if event.to_string() == revoked.to_string());
        assert_eq!(told, settled == Applied::Lost, "{context}");
    }
}

#[test]
fn the_earliest_retry_of_a_batch_is_told_once_it_is_stored() {
    let mut machine = machine(0);
    for (due, token) in [(700, Token::fresh()), (500, Token::fresh()), (600, Token::fresh())] {
        let next = Some(NextAttempt::new(Timestamp::at(due), Reason::Retry));
        let settlement = ExecutionChange { token, ..changed(due, Transition::Fail("no".to_owned(), next)) };
        machine.receive(at(0), CompleteInput::Settle(settlement, None));
    }
    assert_eq!(batch(&mut machine, at(0)), 3);
    machine.done(at(0), Ok(vec![Applied::Done, Applied::Lost, Applied::Done]));
    let told = std::iter::from_fn(|| match machine.next(at(0)) {
        Step::Tell(CompleteOutput::Retry(due)) => Some(Some(due)),
        Step::Tell(CompleteOutput::Event(_)) => Some(None),
        _ => None,
    });
    assert_eq!(
        told.flatten().collect::<Vec<_>>(),
        [Timestamp::at(600)],
        "of the revoked one nothing is stored"
    );
}

#[test]
fn a_machine_that_closes_settles_what_it_has_and_one_that_is_abandoned_does_not() {
    let mut closing = machine(1);
    closing.receive(at(0), CompleteInput::Close);
    assert_eq!(batch(&mut closing, at(0)), 1);
    closing.done(at(0), done(1));
    assert!(matches!(closing.next(at(0)), Step::Stop));

    let mut abandoned = machine(1);
    abandoned.receive(at(0), CompleteInput::Abandon);
    assert!(matches!(abandoned.next(at(0)), Step::Stop));
}

/// An outcome's text as people write it, and as a database without their characters can hold it.
const NOISY: &str = "called `Option::unwrap()` on \"none\":\n\tC:\\tmp\\naïve ☕";
const IN_ASCII: &str = "called `Option::unwrap()` on \"none\":\n\tC:\\tmp\\na\\u{ef}ve \\u{2615}";

fn first(machine: &CompleteMachine) -> &ExecutionChange {
    &machine.queue.iter().chain(&machine.aside).next().unwrap().change
}

/// One outcome with this text, tried alone as often as there are answers; its text afterwards.
fn tried(text: &str, answers: impl IntoIterator<Item = ErrorKind>) -> String {
    let mut machine = machine(0);
    machine.receive(at(0), CompleteInput::Settle(finish(1, text), None));
    let mut now = 0;
    for kind in answers {
        assert_eq!(batch(&mut machine, at(now)), 1);
        machine.done(at(now), failed(kind));
        now += LONGEST_PAUSE;
    }
    first(&machine).error().cloned().unwrap()
}

#[test]
fn a_text_the_database_cannot_hold_is_written_in_ascii() {
    for (kind, text) in
        [(ErrorKind::Data, IN_ASCII), (ErrorKind::Refused, NOISY), (ErrorKind::Unavailable, NOISY)]
    {
        assert_eq!(tried(NOISY, [kind]), text, "{kind:?}");
    }
}

#[test]
fn a_text_is_escaped_once_however_often_it_is_refused() {
    for kind in [ErrorKind::Data, ErrorKind::Refused] {
        let many = || std::iter::repeat_n(kind, 20);
        let plain = NOISY.replace(['ï', '☕'], "-");
        assert_eq!(tried(&plain, many()), plain, "{kind:?}: nothing in it needs an escape");
        assert!(tried(NOISY, many()).len() <= IN_ASCII.len(), "{kind:?}");
        assert!(tried(&"☕".repeat(LONGEST_ERROR), many()).chars().count() <= LONGEST_ERROR, "{kind:?}");
    }
}

/// A server whose messages are in a language we do not read refuses this row, and takes others.
#[test]
fn a_text_refused_while_other_outcomes_are_stored_is_written_in_ascii() {
    let mut machine = machine(0);
    machine.receive(at(0), CompleteInput::Settle(finish(1, NOISY), None));
    assert_eq!(batch(&mut machine, at(0)), 1);
    machine.done(at(0), failed(ErrorKind::Refused));
    machine.receive(at(0), CompleteInput::Settle(finish(2, NOISY), None));
    // The first is tried again, then the second; only one of them is stored.
    assert_eq!(batch(&mut machine, at(10_000)), 1);
    machine.done(at(10_000), failed(ErrorKind::Refused));
    assert_eq!(batch(&mut machine, at(10_000)), 1);
    machine.done(at(10_000), done(1));
    assert_eq!(batch(&mut machine, at(20_000)), 1);
    machine.done(at(20_000), failed(ErrorKind::Refused));
    assert_eq!(first(&machine).error().map(String::as_str), Some(IN_ASCII));
}

#[test]
fn what_is_asked_for_is_stored() {
    use crate::fixtures::{claim, definition};
    use crate::trigger::Trigger;
    const AT: Timestamp = Timestamp::at(1_767_225_600_000);
    let store = crate::store::memory::MemoryStore::new(AT);
    store.ensure(&definition("s", Trigger::every(std::time::Duration::from_secs(1)).unwrap())).unwrap();
    let outcome = claim(&store, "s", true, AT).finish(crate::domain::Answer::Done, None, AT);
    assert_eq!(
        CompleteOp::Settle(SettleOp { changes: vec![outcome.into()], held: HeldRow::Wait })
            .perform(&store)
            .unwrap(),
        [Applied::Done]
    );
    let rows = store.executions(&crate::store::ExecutionQuery { limit: 9, ..Default::default() }).unwrap();
    assert_eq!(rows.iter().map(|row| row.state.as_str()).collect::<Vec<_>>(), ["SUCCEEDED"]);
}

/// Somebody holds its schedule's row: the others do not wait for that.
#[test]
fn an_end_whose_schedule_is_held_holds_up_no_other() {
    let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
    let settle = |machine: &mut Stepped<CompleteMachine>, n, now| {
        machine.receive(at(now), CompleteInput::Settle(finish(n, "no"), None));
    };
    (0..3).for_each(|n| settle(&mut machine, n, 0));
    assert_eq!(batch(&mut machine, at(0)), 3);
    machine.done(at(1), Ok(vec![Applied::Done, Applied::Held, Applied::Done]));
    settle(&mut machine, 3, 1 + GATHER);
    assert_eq!(batch(&mut machine, at(1 + GATHER)), 1, "another");
    machine.done(at(2 + GATHER), done(1));
    let again = 2 + GATHER + FIRST_PAUSE;
    assert_eq!(batch(&mut machine, at(again)), 1, "it is tried again");
    machine.done(at(again), Ok(vec![Applied::Held]));
    assert_eq!(batch(&mut machine, at(again + FIRST_PAUSE)), 0, "not at once");
    assert_eq!(batch(&mut machine, at(again + 2 * FIRST_PAUSE)), 1);
    machine.done(at(again + 2 * FIRST_PAUSE), done(1));
    assert!(machine.held.is_empty() && machine.queue.is_empty());
}

#[test]
fn a_start_that_is_lost_makes_room_for_another_of_its_job() {
    let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
    let told = |machine: &mut Stepped<CompleteMachine>, settled: Applied| {
        let bound_of = Some(BoundOf { job: "job".into(), group: None });
        let own = Some(OwnExecution { bound_of, ..own(1) });
        let start = ExecutionChange { own, ..changed(1, Transition::Start) };
        machine.receive(at(0), CompleteInput::Settle(start, None));
        machine.gather = Boot::MIN;
        assert_eq!(batch(machine, at(0)), 1);
        machine.done(at(0), Ok(vec![settled]));
        let mut freed = false;
        while let Step::Tell(output) = machine.next(at(0)) {
            freed |= matches!(output, CompleteOutput::Freed(_));
        }
        freed
    };
    assert!(!told(&mut machine, Applied::Done), "it runs");
    assert!(told(&mut machine, Applied::Lost), "somebody cancelled it");
}
