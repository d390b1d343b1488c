//! Schedules whose executions may not overlap.

use super::*;
use crate::domain::headers::Headers;
use crate::domain::{ExecutionId, Overlap, ScheduleId};
use crate::store::audit::Attribution;
use crate::store::order::{Ordered, RunOrder};

impl Bench {
    /// Its schedule gets this rule.
    fn keep_apart(&self, rule: Overlap) {
        self.keep_each_apart(&["s0"], rule);
    }

    fn keep_each_apart(&self, schedules: &[&str], rule: Overlap) {
        for name in schedules {
            let trigger = self.store.find("app", name).unwrap().unwrap().timing.trigger().clone();
            let definition = crate::fixtures::definition(name, trigger);
            let job = JobSpec::new("job", JobPolicy::DEFAULT);
            self.store.ensure(&Definition { job, overlap: Some(rule), ..definition }).unwrap();
        }
    }

    /// Ends the execution that began first, and tells of it.
    fn end_the_first(&mut self) {
        let schedule = self.settle_the_first();
        self.slot_freed(schedule);
    }

    /// Ends the execution that began first; the schedule whose slot is free now.
    fn settle_the_first(&mut self) -> ScheduleId {
        let (_, claimed) = self.ran.remove(0);
        let change = claimed.finish(crate::domain::Answer::Done, None, self.now);
        let (schedule, _) = change.frees().expect("it kept a slot");
        assert!(self.store.settle(std::slice::from_ref(&change)).unwrap()[0].is_done());
        schedule
    }

    fn slot_freed(&mut self, schedule: ScheduleId) {
        self.machine.receive(self.now(), DispatchInput::SlotFreed(schedule));
    }

    /// Somebody asks for another execution.
    fn order(&self) -> ExecutionId {
        let (application, schedule) = ("app".to_owned(), "s0".to_owned());
        let order = RunOrder {
            application,
            schedule,
            payload: None,
            headers: Headers::new(),
            at: None,
            by: Attribution::default(),
        };
        match self.store.order(&order).unwrap() {
            Ordered::Pending(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn row(&self, n: i64) -> (String, String) {
        let rows = self.store.executions(&ExecutionQuery { limit: 99, ..Default::default() }).unwrap();
        let row = rows.iter().find(|row| row.scheduled == START + 1_000 * n).expect("its row");
        (row.state.clone(), row.reason.clone())
    }
}

/// Whether it is skipped is decided when it is due: the other may have ended by then.
#[test]
fn an_occurrence_that_would_overlap_is_skipped_once_it_is_due() {
    let mut bench = Bench::new(1, 9);
    bench.keep_apart(Overlap::Skip);
    bench.poll(START + 6_000);
    for second in 1..=2 {
        bench.run(START + 1_000 * second - LEAST_LEAD);
        bench.run(START + 1_000 * second);
    }
    assert_eq!(bench.times(), [1_000]);
    assert_eq!(bench.claims, 3, "one is tried twice");
    assert_eq!(bench.row(2), ("SKIPPED".to_owned(), "overlap".to_owned()));
    bench.run(START + 3_000 - LEAST_LEAD);
    bench.end_the_first();
    bench.run(START + 3_000);
    assert_eq!(bench.times(), [3_000], "under the plan of one poll");
    assert_eq!(bench.chairs.load(Ordering::Relaxed), 8, "who is skipped keeps no seat");
}

#[test]
fn who_is_queued_begins_when_the_other_ends_and_not_with_the_next_poll() {
    let mut bench = Bench::new(1, 9);
    bench.keep_apart(Overlap::Queue(1));
    bench.poll(START + 6_000);
    for second in 1..=3 {
        bench.run(START + 1_000 * second);
    }
    assert_eq!(bench.times(), [1_000]);
    assert_eq!(bench.row(2), ("PENDING".to_owned(), "queued".to_owned()));
    assert_eq!(bench.row(3), ("SKIPPED".to_owned(), "overlap".to_owned()));
    bench.end_the_first();
    bench.run(bench.now);
    assert_eq!((bench.wakes, bench.times()), (1, vec![]), "only a poll brings what was queued here");
    bench.poll(START + 6_000);
    bench.run(bench.now);
    assert_eq!(bench.times(), [2_000]);
    let order = bench.order();
    bench.poll(START + 6_000);
    bench.run(bench.now);
    assert!(bench.held.are_slots_awaited());
    bench.end_the_first();
    bench.run(bench.now);
    assert_eq!((bench.ran.remove(0).1.execution(), bench.wakes), (order, 1), "without a poll");
    assert!(!bench.held.are_slots_awaited());
}

#[test]
fn eight_skips_in_a_row_are_told() {
    let mut bench = Bench::new(1, 9);
    let every = Trigger::every(Duration::from_secs(1)).unwrap().anchored_ms(START.millis() + 1_000).unwrap();
    let job = JobSpec::new("job", JobPolicy::DEFAULT);
    let definition = crate::fixtures::definition("s0", every);
    bench.store.ensure(&Definition { job, overlap: Some(Overlap::Skip), ..definition }).unwrap();
    bench.poll(START + 30_000);
    for second in 1..=20 {
        bench.run(START + 1_000 * second);
    }
    let told = |event: &Event| match event {
        Event::Overlapped { in_a_row, is_late, .. } => Some((*in_a_row, *is_late)),
        _ => None,
    };
    assert_eq!(bench.events.iter().filter_map(told).collect::<Vec<_>>(), [(8, false), (16, false)]);
    bench.end_the_first();
    bench.run(START + 21_000);
    let given_back = bench.ran.remove(0).1.give_back(bench.now);
    assert!(bench.store.settle(&[given_back]).unwrap()[0].is_done());
    for second in 22..=28 {
        bench.run(START + 1_000 * second);
    }
    assert_eq!(bench.events.iter().filter_map(told).count(), 2, "one that ran begins the count anew");
    bench.run(START + 29_000);
    assert_eq!(bench.events.iter().filter_map(told).next_back(), Some((8, true)));
}

/// Somebody else was faster, or the database is away.
#[test]
fn what_cannot_be_passed_over_is_tried_again() {
    let mut bench = Bench::new(1, 9);
    bench.keep_apart(Overlap::Skip);
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    bench.now = START + 2_000;
    let Some(Op::Claim(requests)) = bench.next() else { panic!("the second is due") };
    let claims = bench.store.claim(&requests).unwrap();
    bench.machine.done(bench.now(), Ok(Answer::Claim(claims)));
    let Some(Op::PassOver(changes)) = bench.next() else { panic!("it would overlap") };
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unavailable, "away")));
    bench.end_the_first();
    bench.run(bench.now + FAILURE_PAUSE);
    assert_eq!(bench.times(), [2_000], "the other has ended by now");

    bench.now = START + 3_000;
    assert!(!bench.store.apply(&changes).unwrap()[0].is_done(), "the guard sees that it was claimed");
}

/// The end that came before is no reason to poll for one that is queued behind another execution.
#[test]
fn an_end_before_a_pass_that_failed_is_forgotten() {
    let mut bench = Bench::new(1, 9);
    bench.keep_apart(Overlap::Queue(1));
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    bench.now = START + 2_000;
    let Some(Op::Claim(requests)) = bench.next() else { panic!("the second is due") };
    let claims = bench.store.claim(&requests).unwrap();
    bench.machine.done(bench.now(), Ok(Answer::Claim(claims)));
    bench.end_the_first();
    assert!(matches!(bench.next(), Some(Op::PassOver(_))));
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unavailable, "away")));
    bench.run(bench.now + FAILURE_PAUSE);
    assert_eq!(bench.times(), [2_000]);
    bench.run(START + 3_000);
    assert_eq!((bench.row(3).1.as_str(), bench.wakes), ("queued", 0));
}

/// Another schedule's occurrence is due in a moment: nobody sleeps until a seat is free.
#[test]
fn who_is_parked_does_not_put_the_others_to_sleep() {
    let mut bench = Bench::spread(2, 300, 9);
    bench.keep_apart(Overlap::Skip);
    bench.poll(START + 1_200);
    bench.run(START + 1_000);
    assert_eq!(bench.times(), [1_000]);
    let orders = [bench.order(), bench.order(), bench.order()];
    bench.poll(START + 2_000);
    bench.run(START + 1_001);
    assert_eq!((bench.times(), orders.len()), (vec![1_000], 3), "they wait");
    match bench.machine.next(bench.now()) {
        Step::Wait(until) => assert_eq!(until, Boot::at(START.millis() + 1_300 - LEAST_LEAD)),
        _ => panic!("it waits"),
    }
}

/// The ledger was read before the fire time: the other may have ended in between.
#[test]
fn a_late_answer_to_an_early_claim_skips_nothing() {
    let mut bench = Bench::new(1, 9);
    bench.keep_apart(Overlap::Skip);
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    bench.now = START + 2_000 - LEAST_LEAD;
    let Some(Op::Claim(requests)) = bench.next() else { panic!("the second is due soon") };
    let claims = bench.store.claim(&requests).unwrap();
    let schedule = bench.settle_the_first();
    bench.now = START + 2_100;
    bench.machine.done(bench.now(), Ok(Answer::Claim(claims)));
    bench.slot_freed(schedule);
    bench.run(START + 2_100);
    assert_eq!(bench.times(), [2_000]);
}

/// The holder of the slot ends during the claim of the execution that waits for it, or before a poll that
/// does not read that execution yet.
#[test]
fn an_end_that_a_claim_or_a_poll_has_missed_is_not_forgotten() {
    let mut bench = Bench::new(1, 9);
    bench.keep_apart(Overlap::Queue(1));
    bench.poll(START + 2_500);
    bench.run(START + 1_000);
    let early = bench.planned(START + 2_500);
    bench.run(START + 2_050);
    assert_eq!(bench.row(2).1, "queued");
    bench.machine.receive(bench.now(), DispatchInput::Planned(early));
    let order = bench.order();
    bench.poll(START + 2_500);
    let Some(Op::Claim(requests)) = bench.next() else { panic!("somebody waits") };
    let claims = bench.store.claim(&requests).unwrap();
    assert!(bench.held.are_slots_awaited(), "the end is to be told");
    let schedule = bench.settle_the_first();
    bench.machine.done(bench.now(), Ok(Answer::Claim(claims)));
    bench.slot_freed(schedule);
    bench.run(bench.now);
    assert_eq!(bench.ran.len(), 1, "of the two that wait one begins: {order}");
}

/// Somebody holds the schedule's row: its claim is blocked all the same, and no move of its cursor is made.
#[test]
fn a_held_row_is_passed_over_once_more_and_then_left_to_the_next_poll() {
    let mut bench = Bench::new(1, 9);
    bench.keep_apart(Overlap::Skip);
    bench.poll(START + 2_500);
    bench.run(START + 1_000);
    let mut passes = 0;
    for after in (2_000..4_000).step_by(5) {
        bench.now = START + after;
        while let Some(op) = bench.next() {
            let answer = match op {
                Op::PassOver(changes) => {
                    passes += 1;
                    assert!(passes < 9, "it asks again and again");
                    Ok(Answer::PassOver(vec![Applied::Lost; changes.len()]))
                }
                op => op.perform(&bench.store),
            };
            bench.machine.done(bench.now(), answer);
        }
    }
    assert_eq!((passes, bench.machine.planned()), (2, 0));
}

/// One row cannot be written for what it holds: the others are passed over without it.
#[test]
fn one_that_cannot_be_passed_over_does_not_keep_the_others() {
    let mut bench = Bench::new(3, 9);
    bench.keep_each_apart(&["s0", "s1", "s2"], Overlap::Skip);
    let broken = bench.store.find("app", "s1").unwrap().unwrap().id;
    bench.poll(START + 2_500);
    bench.run(START + 1_000);
    assert_eq!(bench.times().len(), 3);
    bench.now = START + 2_000;
    let mut sizes = Vec::new();
    while let Some(op) = bench.next() {
        let answer = match op {
            Op::PassOver(changes) => {
                sizes.push(changes.len());
                let is_broken = changes.iter().any(|it| it.schedule() == Some(broken));
                let refused = || Err(Error::new(ErrorKind::Data, "it holds what no ledger row can"));
                if is_broken { refused() } else { Op::PassOver(changes).perform(&bench.store) }
            }
            op => op.perform(&bench.store),
        };
        bench.machine.done(bench.now(), answer);
    }
    assert_eq!(sizes, [3, 1, 1, 1]);
    assert_eq!(bench.rows(ExecutionState::Skipped), 2);
}

/// One row cannot be written for what it holds: the others are stored one by one.
#[test]
fn an_end_before_passes_that_are_stored_apart_is_not_forgotten() {
    let mut bench = Bench::new(3, 9);
    bench.keep_each_apart(&["s0", "s1", "s2"], Overlap::Queue(1));
    bench.poll(START + 2_500);
    bench.run(START + 1_000);
    bench.now = START + 2_000;
    let answer = bench.next().expect("three are due").perform(&bench.store);
    bench.machine.done(bench.now(), answer);
    (0..3).for_each(|_| bench.end_the_first());
    while let Some(op) = bench.next() {
        let answer = match op {
            Op::PassOver(changes) if changes.len() > 1 => Err(Error::new(ErrorKind::Data, "one is at fault")),
            op => op.perform(&bench.store),
        };
        bench.machine.done(bench.now(), answer);
    }
    assert_eq!((bench.rows(ExecutionState::Pending), bench.wakes), (3, 3));
}

/// A claim of another schedule is still in doubt, and looking at it fails for what its row holds.
#[test]
fn what_is_to_be_passed_over_is_not_blamed_for_a_claim_in_doubt() {
    let mut bench = Bench::new(2, 9);
    bench.keep_apart(Overlap::Skip);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let requests = bench.lose_the_answer();
    let blocked = || Claim::Blocked(Blocked { holder: ExecutionId(7), is_late: false, waiting: Vec::new() });
    let is_apart = |request: &ClaimRequest| request.candidate.entry().name.contains("s0");
    let claims = requests.iter().map(|it| if is_apart(it) { blocked() } else { Claim::Skipped }).collect();
    bench.machine.done(bench.now(), Ok(Answer::Resolve(claims)));
    bench.now += FAILURE_PAUSE + doubts::PAUSE;
    let Some(Op::Resolve(requests, IfNotMade::Claim)) = bench.next() else { panic!("one is still in doubt") };
    assert_eq!(requests.len(), 1);
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Data, "a row that fails alone")));
    let Some(Op::PassOver(changes)) = bench.next() else { panic!("it would still overlap") };
    assert_eq!(changes.len(), 1);
}
