//! Two lanes: what is due in one while the other has no seat, and jobs that change lanes.

use super::edges::waits_until;
use super::*;
use crate::pipeline::lanes::{JobLane, LaneSettings};
use crate::pipeline::pool::PoolLimits;

/// A job "job" in the default lane, whose one schedule fires every second, and a job "slow" with three. The
/// second lane has so many chairs; it is the slow job's own, or else automatic.
fn bench(chairs: usize, is_its_own: bool) -> (Bench, Arc<AtomicUsize>) {
    let mut bench = Bench::new(1, 99);
    bench.add_job(JobSpec::new("slow", JobPolicy::DEFAULT));
    let lane = |name: &str, is_automatic| LaneSettings {
        is_automatic,
        ..LaneSettings::new(name, PoolLimits::new(1, 1, 0))
    };
    let settings = [lane("default", false), lane("second", !is_its_own)];
    let lanes =
        Lanes::new(&settings, is_its_own.then_some(JobLane { job: "slow", lane: "second", is_async: false }));
    let second = Arc::new(AtomicUsize::new(chairs));
    let seats = Chairs(vec![Arc::clone(&bench.chairs), Arc::clone(&second)]);
    let (node, held, now) = (bench.node, Arc::clone(&bench.held), bench.now());
    let machine = DispatchMachine::new(node, held, lease(START + 90_000), lanes, seats, now);
    bench.machine = Stepped::new(machine);
    (bench, second)
}

fn second() -> LaneId {
    LaneId::all().nth(1).unwrap()
}

/// How many executions of each job began.
fn ran(bench: &Bench) -> (usize, usize) {
    let quick = bench.ran.iter().filter(|(_, claimed)| &*claimed.entry().job == "job").count();
    (quick, bench.ran.len() - quick)
}

#[test]
fn a_full_lane_delays_no_other() {
    let (mut bench, _) = bench(1, true);
    bench.poll(START + 6_000);
    for second in 1..=3 {
        bench.run(START + 1_000 * second);
        assert_eq!(waits_until(&mut bench), START + 1_000 * (second + 1) - LEAST_LEAD, "it sleeps till then");
    }
    assert_eq!(ran(&bench), (3, 1));
    assert_eq!(bench.late, [0; 4]);
    bench.machine.receive(bench.now(), DispatchInput::SeatFreed(LaneId::DEFAULT));
    assert_eq!(waits_until(&mut bench), START + 4_000 - LEAST_LEAD, "that is another lane's seat");
}

#[test]
fn who_waits_for_a_seat_in_a_lane_gets_the_one_that_is_free() {
    let (mut bench, chairs) = bench(0, true);
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    assert_eq!(ran(&bench), (1, 0));
    chairs.store(2, Ordering::Relaxed);
    bench.machine.receive(bench.now(), DispatchInput::SeatFreed(second()));
    bench.run(START + 1_100);
    assert_eq!(ran(&bench), (1, 2));
}

/// What each execution waited for, as its row says, the first claimed first.
fn waited(bench: &Bench) -> Vec<Option<String>> {
    let query = ExecutionQuery { application: Some("app".to_owned()), limit: 99, ..Default::default() };
    let mut rows = bench.store.executions(&query).unwrap();
    rows.sort_by_key(|row| row.id);
    rows.into_iter().map(|row| row.waited_for).collect()
}

#[test]
fn what_waits_for_a_seat_says_so_once_it_is_late() {
    let (mut bench, chairs) = bench(0, true);
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    let free = |bench: &mut Bench, at: Timestamp, seats: usize| {
        chairs.store(seats, Ordering::Relaxed);
        bench.machine.receive(bench.now(), DispatchInput::SeatFreed(second()));
        bench.run(at);
    };
    free(&mut bench, START + 1_900, 1);
    assert_eq!(waited(&bench), [None, None], "0.9 s are no wait");
    free(&mut bench, START + 2_500, 1);
    bench.run(START + 2_500);
    assert_eq!(waited(&bench).into_iter().flatten().collect::<Vec<_>>(), ["lane second 1500"]);
    // Once nothing waits any more, a later one has not waited since then.
    free(&mut bench, START + 2_600, 9);
    bench.run(START + 5_900);
    let waits: Vec<String> = waited(&bench).into_iter().flatten().collect();
    assert_eq!(waits, ["lane second 1500", "lane second 1600"]);
}

#[test]
fn a_call_that_fails_ends_what_is_known_of_a_wait() {
    let (mut bench, chairs) = bench(0, true);
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    bench.now = START + 2_000;
    assert!(matches!(bench.next(), Some(Op::Claim(_))), "the other job's second");
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unavailable, "away")));
    chairs.store(9, Ordering::Relaxed);
    bench.machine.receive(bench.now(), DispatchInput::SeatFreed(second()));
    bench.run(START + 2_000 + FAILURE_PAUSE);
    assert!(ran(&bench).1 > 0);
    assert_eq!(waited(&bench).into_iter().flatten().count(), 0);
}

#[test]
fn without_a_seat_in_any_lane_it_waits_for_one() {
    let (mut bench, _) = bench(0, true);
    bench.chairs.store(0, Ordering::Relaxed);
    bench.poll(START + 6_000);
    bench.run(START + 1_000);
    assert_eq!(waits_until(&mut bench), Timestamp::MAX);
}

/// The seat that it gave back when its row was held.
#[test]
fn a_claim_in_doubt_gets_a_seat_of_its_own_lane_again() {
    let (mut bench, chairs) = bench(1, true);
    bench.chairs.store(0, Ordering::Relaxed);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    assert!(matches!(bench.next(), Some(Op::Claim(requests)) if requests.len() == 1));
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unknown, "no answer")));
    assert!(bench.next().is_none());
    bench.now += FAILURE_PAUSE;
    assert!(matches!(bench.next(), Some(Op::Resolve(..))));
    bench.machine.done(bench.now(), Ok(Answer::Resolve(vec![Claim::Skipped])));
    bench.chairs.store(9, Ordering::Relaxed);
    chairs.store(1, Ordering::Relaxed);
    bench.now += doubts::PAUSE;
    assert!(matches!(bench.next(), Some(Op::Resolve(..))));
    assert_eq!(chairs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_job_that_is_slow_changes_lanes_with_its_next_claim_and_says_so() {
    let (mut bench, chairs) = bench(9, false);
    bench.poll(START + 2_500);
    bench.run(START + 1_000);
    assert_eq!(chairs.load(Ordering::Relaxed), 9);
    let told = |bench: &mut Bench, at, took, times| {
        bench.now = at;
        for _ in 0..times {
            bench.machine.receive(bench.now(), DispatchInput::Ran { job: Arc::from("slow"), took });
        }
        assert!(bench.next().is_none(), "nothing else is to be done");
        let changes = bench.events.drain(..).filter_map(|event| match event {
            Event::LaneChanged { job, lane } => Some(format!("{job} to {lane}")),
            _ => None,
        });
        changes.collect::<Vec<_>>()
    };
    assert_eq!(told(&mut bench, START + 1_100, 501, 9), [""; 0]);
    assert_eq!(told(&mut bench, START + 1_200, 501, 1), ["slow to second"]);
    bench.run(START + 2_000);
    assert_eq!((ran(&bench), chairs.load(Ordering::Relaxed)), ((2, 6), 6));
    assert_eq!(told(&mut bench, START + 61_199, 500, 1), [""; 0]);
    assert_eq!(told(&mut bench, START + 61_200, 500, 1), ["slow to default"]);
}
