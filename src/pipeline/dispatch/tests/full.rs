//! A job of which only so many executions run at once, beside another.

use super::edges::waits_until;
use super::*;
use crate::domain::{Bound, BoundOf, BoundScope, Bounds, Full};

/// A job "job" whose one schedule fires every second, and a job "limited" with three, of which two run at
/// once.
fn bench() -> Bench {
    let mut bench = Bench::new(1, 99);
    let policy = JobPolicy { bounds: at_most(2), ..JobPolicy::DEFAULT };
    bench.add_job(JobSpec::new("limited", policy));
    bench
}

fn at_most(count: u32) -> Bounds {
    Bounds { job: Bound { concurrency: Some(count), ..Bound::NONE }, group: Bound::NONE }
}

fn limited() -> BoundOf {
    BoundOf { job: "limited".into(), group: None }
}

/// By less than this a node's pauses differ from another's.
const APART: Millis = 20;

const FULL: Full = Full { scope: BoundScope::Job, until: None };

/// How many executions of each job began.
fn ran(bench: &Bench) -> (usize, usize) {
    let free = bench.ran.iter().filter(|(_, claimed)| &*claimed.entry().job == "job").count();
    (free, bench.ran.len() - free)
}

fn end_one(bench: &mut Bench) {
    let at = bench.ran.iter().position(|(_, claimed)| &*claimed.entry().job == "limited").unwrap();
    let (_, claimed) = bench.ran.remove(at);
    bench.store.settle(&[claimed.finish(crate::domain::Answer::Done, None, START + 1_500)]).unwrap();
    bench.machine.receive(bench.now(), DispatchInput::Freed(limited()));
}

#[test]
fn a_full_job_is_not_tried_until_one_of_it_ends_and_delays_no_other() {
    let mut bench = bench();
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    let again = waits_until(&mut bench);
    assert!((START + 1_100..START + 1_100 + APART).contains(&again), "it sleeps till then: {again}");
    (2..=3).for_each(|second| bench.run(START + 1_000 * second));
    assert_eq!((ran(&bench), bench.late.iter().max()), ((3, 2), Some(&0)));
    // A batch has two of it at most; the third was full with the next.
    assert_eq!(bench.claims, 4);
    end_one(&mut bench);
    bench.run(START + 3_050);
    assert_eq!((ran(&bench), bench.claims), ((3, 2), 5));
}

#[test]
fn what_waits_for_a_seat_of_its_job_says_for_how_long() {
    let mut bench = bench();
    bench.poll(START + 1_500);
    bench.run(START + 1_000);
    bench.run(START + 2_400);
    end_one(&mut bench);
    bench.run(START + 2_500);
    let query = ExecutionQuery { application: Some("app".to_owned()), limit: 99, ..Default::default() };
    let rows = bench.store.executions(&query).unwrap();
    let waits: Vec<String> = rows.into_iter().filter_map(|row| row.waited_for).collect();
    assert_eq!(waits, ["job 1500"]);
}

#[test]
fn a_poll_tries_a_full_job_again() {
    let mut bench = bench();
    bench.poll(START + 1_500);
    bench.run(START + 1_050);
    let claims = bench.claims;
    bench.poll(START + 1_500);
    bench.run(START + 1_060);
    assert!(bench.claims > claims);
}

/// Others are claimed meanwhile, and it does not wait for the next poll.
#[test]
fn a_job_whose_row_another_claim_holds_is_tried_again_soon() {
    let mut bench = bench();
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let Some(Op::Claim(requests)) = bench.next() else { panic!("something is due") };
    let busy = |request: &ClaimRequest| match request.candidate.entry().bounds.is_none() {
        false => Claim::Busy,
        true => bench.store.claim(std::slice::from_ref(request)).unwrap().remove(0),
    };
    let answers = requests.iter().map(busy).collect();
    bench.machine.done(bench.now(), Ok(Answer::Claim(answers)));
    assert!(bench.next().is_none(), "not at once");
    let again = waits_until(&mut bench);
    assert!((START + 1_020..START + 1_040).contains(&again), "{again}");
    bench.run(again);
    assert_eq!(ran(&bench).1, 2);
}

/// The claim may have been made before that end.
#[test]
fn an_end_during_a_claim_is_not_forgotten() {
    let mut bench = bench();
    bench.poll(START + 1_500);
    bench.run(START + 1_000);
    bench.poll(START + 1_500);
    bench.now = START + 1_100;
    assert!(matches!(bench.next(), Some(Op::Claim(requests)) if requests.len() == 1));
    bench.machine.done(bench.now(), Ok(Answer::Claim(vec![Claim::Full(FULL)])));
    bench.machine.receive(bench.now(), DispatchInput::Freed(limited()));
    assert!(matches!(bench.next(), Some(Op::Claim(requests)) if requests.len() == 1), "tried again");
    bench.machine.done(bench.now(), Ok(Answer::Claim(vec![Claim::Full(FULL)])));
    assert!(bench.next().is_none());
}

/// Nothing here tells of it.
#[test]
fn a_place_that_another_node_frees_is_found_soon() {
    let mut bench = bench();
    bench.poll(START + 1_500);
    bench.run(START + 1_000);
    let (_, claimed) = bench.ran.pop().unwrap();
    bench.store.settle(&[claimed.finish(crate::domain::Answer::Done, None, START + 1_050)]).unwrap();
    let before = ran(&bench);
    bench.run(START + 1_100 + APART);
    assert_eq!(ran(&bench).1, before.1 + 1);
}

/// An end makes no room in a rate: only its time does.
#[test]
fn a_job_beyond_its_rate_is_tried_at_its_time() {
    let mut bench = bench();
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let until = Some(START + 1_700);
    let Some(Op::Claim(requests)) = bench.next() else { panic!("something is due") };
    let full = |request: &ClaimRequest| match request.candidate.entry().bounds.is_none() {
        false => Claim::Full(Full { scope: BoundScope::Job, until }),
        true => bench.store.claim(std::slice::from_ref(request)).unwrap().remove(0),
    };
    let answers = requests.iter().map(full).collect();
    bench.machine.done(bench.now(), Ok(Answer::Claim(answers)));
    bench.machine.receive(bench.now(), DispatchInput::Freed(limited()));
    assert!(bench.next().is_none());
    assert_eq!(waits_until(&mut bench), START + 1_700);
}
