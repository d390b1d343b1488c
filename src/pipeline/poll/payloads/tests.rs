use super::*;
use crate::domain::{Error, ErrorKind};
use crate::fixtures::cron;
use crate::machine::{Step, Stepped};
use crate::pipeline::poll::PollMachine;
use crate::pipeline::poll::calls::{Answer, Op};
use crate::pipeline::poll::sizes::PATIENCE;
use crate::pipeline::poll::tests::{answer, asked, at, decode, machine, planned, until_asked};
use crate::store::Polled;

/// What the machine does next: a store call, and when.
fn call(machine: &mut Stepped<PollMachine>, mut now: Timestamp) -> (Timestamp, Op) {
    loop {
        match machine.next(at(now)) {
            Step::Do(op @ Op::Decode(_)) => decode(machine, now, op),
            Step::Do(op) => return (now, op),
            Step::Tell(_) => {}
            Step::Wait(until) => now = now.max(Timestamp::at(until.millis())),
            Step::Stop => panic!("stopped"),
        }
    }
}

fn large(id: i64, job: &str, next: Timestamp) -> Entry {
    let mut entry = cron(id, "0 * * * * ?", next);
    (entry.job, entry.payload) = (job.into(), "".into());
    entry
}

fn payload(id: i64, version: i64) -> LargePayload {
    LargePayload { id: ScheduleId(id), version, payload: "null".into() }
}

/// In turn, so that one job's never keep another's out; and no more bytes than a poll may bring.
#[test]
fn large_payloads_are_fetched_for_each_job_in_turn_until_the_bytes_are_used() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (mut now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    let heavy = (0..400).map(|id| large(id, "heavy", Timestamp::at(990_000 + id)));
    let ticking = large(1_000, "ticking", Timestamp::at(1_000_500));
    let entries: Vec<Entry> =
        heavy.chain([ticking, cron(2_000, "0 * * * * ?", Timestamp::at(1_001_000))]).collect();
    let sizes = entries[..401].iter().map(|entry| (entry.id, 200_000)).collect();
    machine.done(at(now), Ok(Answer::Page(Polled { large: sizes, ..answer(now, entries) })));
    let mut fetched = Vec::new();
    let told = loop {
        let op = match machine.next(at(now)) {
            Step::Do(Op::Payloads(schedules)) => schedules,
            Step::Do(op) => {
                decode(&mut machine, now, op);
                break Vec::new();
            }
            _ => panic!("payloads are to be fetched"),
        };
        assert!(op.len() * 200_000 <= PAGE_BYTES, "{} in one call", op.len());
        now += 1;
        machine.done(at(now), Ok(Answer::Payloads(op.iter().map(|id| payload(id.0, 0)).collect())));
        fetched.extend(op.into_iter().map(|id| id.0));
    };
    assert_eq!(fetched[..4], [0, 1_000, 1, 2]);
    assert_eq!(fetched.len(), POLL_BYTES.div_ceil(200_000));
    let (_, more) = until_asked(&mut machine, now);
    let plan = planned(told.into_iter().chain(more).collect());
    assert_eq!((plan.occurrences.len(), plan.complete), (fetched.len() + 1, false));
    assert!(plan.occurrences.iter().all(|it| &*it.entry.payload == "null"));
}

#[test]
fn a_row_that_changed_before_its_payload_was_fetched_is_left_to_the_next_poll() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    let entries = vec![
        large(1, "job", Timestamp::at(990_000)),
        large(2, "job", Timestamp::at(991_000)),
        large(3, "job", Timestamp::at(992_000)),
    ];
    let large = entries.iter().map(|entry| (entry.id, 2_000)).collect();
    machine.done(at(now), Ok(Answer::Page(Polled { large, ..answer(now, entries) })));
    let (_, op) = call(&mut machine, now);
    assert!(matches!(op, Op::Payloads(ids) if ids.len() == 3));
    machine.done(at(now), Ok(Answer::Payloads(vec![payload(1, 0), payload(3, 1)])));
    let plan = planned(until_asked(&mut machine, now).1);
    let ids: Vec<i64> = plan.occurrences.iter().map(|it| it.entry.id.0).collect();
    assert_eq!((ids, plan.complete), (vec![1], false));
}

/// Beyond its time a poll fetches one batch in any case, or none would ever come.
#[test]
fn a_slow_poll_fetches_some_large_payloads_and_fewer_after_a_failure() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let poll = |machine: &mut Stepped<PollMachine>, now| {
        let (now, _) = asked(machine, now);
        let entries: Vec<Entry> = (0..100).map(|id| large(id, "job", now - 1_000)).collect();
        let large = entries.iter().map(|entry| (entry.id, 200_000)).collect();
        let late = now + PATIENCE;
        machine.done(at(late), Ok(Answer::Page(Polled { large, ..answer(now, entries) })));
        let (_, Op::Payloads(ids)) = call(machine, late) else { panic!("some are to be fetched") };
        (late, ids)
    };
    let (now, ids) = poll(&mut machine, Timestamp::at(1_000_000));
    assert_eq!(ids.len(), 20);
    let error = Error::new(ErrorKind::Unknown, "no answer within 3 s");
    machine.done(at(now), Err(error));
    let (now, ids) = poll(&mut machine, now);
    assert_eq!(ids.len(), 10);
    machine.done(at(now), Ok(Answer::Payloads(ids.iter().map(|id| payload(id.0, 0)).collect())));
    let plan = planned(until_asked(&mut machine, now).1);
    assert_eq!((plan.occurrences.len(), plan.complete), (10, false));
}
