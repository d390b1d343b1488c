//! A job of which only so many executions run at once, beside another.

use super::edges::waits_until;
use super::*;

/// A job "job" whose one schedule fires every second, and a job "limited" with three, of which two run at
/// once.
fn bench() -> Bench {
    let mut bench = Bench::new(1, 99);
    let policy = JobPolicy { concurrency: Some(2), ..JobPolicy::DEFAULT };
    bench.add_job(JobSpec { name: "limited".to_owned(), policy });
    bench
}

/// How many executions of each job began.
fn ran(bench: &Bench) -> (usize, usize) {
    let free = bench.ran.iter().filter(|(_, claimed)| &*claimed.entry().job == "job").count();
    (free, bench.ran.len() - free)
}

fn end_one(bench: &mut Bench) {
    let at = bench.ran.iter().position(|(_, claimed)| &*claimed.entry().job == "limited").unwrap();
    let (_, claimed) = bench.ran.remove(at);
    bench.store.settle(&[claimed.finish(crate::domain::Answer::Done, None, START + 1_500)]).unwrap();
    bench.machine.receive(bench.now(), DispatchInput::JobFreed(Arc::from("limited")));
}

#[test]
fn a_full_job_is_not_tried_until_one_of_it_ends_and_delays_no_other() {
    let mut bench = bench();
    bench.poll(START + 6_000);
    for second in 1..=3 {
        bench.run(START + 1_000 * second);
        assert_eq!(waits_until(&mut bench), START + 1_000 * (second + 1) - LEAST_LEAD, "it sleeps till then");
    }
    assert_eq!((ran(&bench), bench.late.iter().max()), ((3, 2), Some(&0)));
    // A batch has two of it at most; the third was full with the next.
    assert_eq!(bench.claims, 4);
    end_one(&mut bench);
    bench.run(START + 3_100);
    assert_eq!((ran(&bench), bench.claims), ((3, 2), 5));
    assert_eq!(waits_until(&mut bench), START + 4_000 - LEAST_LEAD);
}

#[test]
fn a_poll_tries_a_full_job_again() {
    let mut bench = bench();
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    let claims = bench.claims;
    let (_, claimed) = bench.ran.pop().unwrap();
    bench.store.settle(&[claimed.finish(crate::domain::Answer::Done, None, START + 1_500)]).unwrap();
    bench.run(START + 1_500);
    assert_eq!(bench.claims, claims, "it ended elsewhere");
    bench.poll(START + 6_000);
    bench.run(START + 1_600);
    assert!(bench.claims > claims);
}

/// Others are claimed meanwhile, and it does not wait for the next poll.
#[test]
fn a_job_whose_row_another_claim_holds_is_tried_again_soon() {
    let mut bench = bench();
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let Some(ClaimOp::Claim(requests)) = bench.next() else { panic!("something is due") };
    let busy = |request: &ClaimRequest| match request.candidate.entry().concurrency {
        Some(_) => Claim::Busy,
        None => bench.store.claim(std::slice::from_ref(request)).unwrap().remove(0),
    };
    let answers = requests.iter().map(busy).collect();
    bench.machine.done(bench.now(), Ok(ClaimAnswer::Claims(answers)));
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
    assert!(matches!(bench.next(), Some(ClaimOp::Claim(requests)) if requests.len() == 1));
    bench.machine.receive(bench.now(), DispatchInput::JobFreed(Arc::from("limited")));
    bench.machine.done(bench.now(), Ok(ClaimAnswer::Claims(vec![Claim::Full])));
    assert!(matches!(bench.next(), Some(ClaimOp::Claim(requests)) if requests.len() == 1), "tried again");
    bench.machine.done(bench.now(), Ok(ClaimAnswer::Claims(vec![Claim::Full])));
    assert!(bench.next().is_none());
}
