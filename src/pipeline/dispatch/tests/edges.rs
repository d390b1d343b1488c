//! The edges of dispatch: its waits, the items it does not claim, and the claims that go back.

use std::sync::Mutex;

use super::*;
use crate::domain::{Cause, Entry, ExecutionId, Occurrence, Pending, Timestamp};
use crate::fixtures::{claim, definition, simple};

/// A machine of one schedule, planned, and the instant at which that is due.
fn planned() -> (Bench, Timestamp) {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 3_000);
    (bench, START + 1_000)
}

pub(super) fn waits_until(bench: &mut Bench) -> Timestamp {
    assert!(bench.next().is_none(), "it asks for something");
    match bench.machine.next(bench.now()) {
        Step::Wait(until) => Timestamp::at(until.millis()),
        _ => panic!("it does not wait"),
    }
}

/// The one claim that is due.
fn claim_due(bench: &mut Bench) -> ClaimRequest {
    match bench.next() {
        Some(Op::Claim(requests)) if requests.len() == 1 => requests[0].clone(),
        _ => panic!("one claim is due"),
    }
}

fn answer(bench: &mut Bench, claim: Claim) {
    bench.machine.done(bench.now(), Ok(Answer::Claim(vec![claim])));
}

/// Tells what became of the one claim that it asks about.
fn resolve(bench: &mut Bench, claim: Claim) {
    bench.machine.done(bench.now(), Ok(Answer::Resolve(vec![claim])));
}

#[test]
fn it_sleeps_until_the_next_is_due_and_without_a_lease_for_good() {
    let (mut bench, due) = planned();
    assert_eq!(waits_until(&mut bench), due - LEAST_LEAD);
    bench.run(due);
    assert_eq!(waits_until(&mut bench), due + 1_000 - LEAST_LEAD, "a seat was left: nobody is waited for");
    bench.now = due + 900;
    bench.machine.receive(bench.now(), DispatchInput::Lease(lease(due + 900)));
    assert_eq!(waits_until(&mut bench), Timestamp::MAX);
}

#[test]
fn without_a_seat_it_waits_for_one() {
    let (mut bench, due) = planned();
    bench.chairs.store(0, Ordering::Relaxed);
    bench.now = due;
    assert_eq!(waits_until(&mut bench), Timestamp::MAX);
}

#[test]
fn a_failed_claims_pause_is_slept_through() {
    let (mut bench, due) = planned();
    bench.now = due;
    claim_due(&mut bench);
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unavailable, "down")));
    assert_eq!(waits_until(&mut bench), due + FAILURE_PAUSE);
}

#[test]
fn nothing_is_claimed_in_the_instant_a_lease_ends() {
    let (mut bench, due) = planned();
    bench.machine.receive(bench.now(), DispatchInput::Lease(lease(due)));
    bench.run(due);
    assert!(bench.ran.is_empty());
    bench.machine.receive(bench.now(), DispatchInput::Lease(lease(due + 1)));
    bench.run(due);
    assert_eq!(bench.ran.len(), 1);
}

#[test]
fn a_locked_row_is_tried_once_more_after_a_moment() {
    let (mut bench, due) = planned();
    bench.now = due;
    // The plan's time is ahead, and a claim is sent before its instant.
    for tried in [due, due + SKIP_RETRY + CLAIM_AHEAD - LEAST_LEAD] {
        assert_eq!(bench.now, tried);
        let request = claim_due(&mut bench);
        assert!(bench.held.contains(request.token));
        answer(&mut bench, Claim::Skipped);
        assert!(!bench.held.contains(request.token));
        bench.now = waits_until(&mut bench);
    }
    assert_eq!((bench.now, bench.machine.planned()), (Timestamp::MAX, 0), "then it is left to the next poll");
}

/// A machine of two schedules whose claims are in doubt because of a lost connection, and of which the second
/// schedule's row is held; when they are asked about.
fn in_doubt() -> (Bench, Vec<ClaimRequest>) {
    let mut bench = Bench::new(2, 9);
    bench.poll(START + 3_000);
    bench.now = START + 1_000;
    let Some(Op::Claim(requests)) = bench.next() else { panic!("two claims are due") };
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unknown, "the connection broke")));
    assert_eq!(waits_until(&mut bench), bench.now + FAILURE_PAUSE);
    bench.now += FAILURE_PAUSE;
    (bench, requests.to_vec())
}

/// The claims it asks about.
fn doubts(bench: &mut Bench) -> Vec<Token> {
    match bench.next() {
        Some(Op::Resolve(requests, _)) => requests.iter().map(|request| request.token).collect(),
        _ => panic!("something is in doubt"),
    }
}

/// The first of two is resolved, the row of the second is held.
fn answer_the_first(bench: &mut Bench, requests: &[ClaimRequest]) {
    assert_eq!(doubts(bench).len(), 2);
    let first = bench.store.resolve(&requests[..1], IfNotMade::Claim).unwrap().remove(0);
    bench.machine.done(bench.now(), Ok(Answer::Resolve(vec![first, Claim::Skipped])));
}

#[test]
fn a_node_that_is_switched_off_makes_no_claim_that_is_in_doubt() {
    let (mut bench, _) = in_doubt();
    let off = PollPlan {
        occurrences: Vec::new(),
        pendings: Vec::new(),
        complete: true,
        covered: Covered::ALL,
        enabled: false,
        sent: Boot::at(bench.now.millis()),
    };
    bench.machine.receive(bench.now(), DispatchInput::Planned(off));
    assert!(matches!(bench.next(), Some(Op::Resolve(_, IfNotMade::Prevent))));
}

#[test]
fn a_row_held_beside_a_lost_commit_holds_up_no_others() {
    let (mut bench, requests) = in_doubt();
    answer_the_first(&mut bench, &requests);
    bench.run(bench.now);
    assert_eq!(bench.chairs.load(Ordering::Relaxed), 8, "its seat is for others meanwhile");
    let asked = bench.now + doubts::PAUSE;
    bench.run(START + 2_000);
    assert_eq!(bench.times(), [1_000, 2_000], "of the first");
    assert_eq!(waits_until(&mut bench), asked);
    for _ in 0..3 {
        bench.now = waits_until(&mut bench);
        assert!(bench.held.contains(requests[1].token));
        assert_eq!(doubts(&mut bench), [requests[1].token]);
        resolve(&mut bench, Claim::Skipped);
    }
    bench.run(bench.now + doubts::PAUSE);
    let times = bench.times();
    assert_eq!(times.iter().filter(|at| **at == 1_000).count(), 2, "{times:?}");
    let told = bench.events.iter().filter(|event| matches!(event, Event::CommitUnknown { .. }));
    assert_eq!(told.count(), 1);
}

/// Between two tries to find out, what can be claimed has its turn.
#[test]
fn a_doubt_that_cannot_be_asked_about_holds_up_no_others() {
    let (mut bench, requests) = in_doubt();
    answer_the_first(&mut bench, &requests);
    bench.now += doubts::PAUSE;
    assert_eq!(doubts(&mut bench), [requests[1].token]);
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unknown, "no answer")));
    bench.now = waits_until(&mut bench);
    assert_eq!(bench.chairs.load(Ordering::Relaxed), 8, "its seat is for others meanwhile");
    assert_eq!(claim_due(&mut bench).candidate.entry().id, requests[0].candidate.entry().id);
}

/// Another connection is lost before the first row is free.
#[test]
fn the_last_that_came_into_doubt_is_asked_about_with_the_others() {
    let (mut bench, requests) = in_doubt();
    answer_the_first(&mut bench, &requests);
    bench.now = START + 2_000;
    let next = claim_due(&mut bench);
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unknown, "the connection broke again")));
    bench.now += FAILURE_PAUSE;
    assert_eq!(doubts(&mut bench), [next.token, requests[1].token]);
}

/// A retry of a schedule may be claimed while another execution of it is in doubt.
#[test]
fn two_executions_of_one_schedule_are_asked_about_one_after_the_other() {
    let (mut bench, requests) = in_doubt();
    answer_the_first(&mut bench, &requests);
    bench.run(bench.now);
    let (entry, token) = (Arc::clone(requests[1].candidate.entry()), Token::fresh());
    let id = ExecutionId(99);
    let retry = Pending {
        id,
        entry,
        scheduled: START,
        due: START,
        attempt: 2,
        generation: 0,
        origin: 0,
        token,
        cause: Cause::Planned,
        payload: None,
        priority: None,
        group: None,
        lane: None,
        failures: 0,
        headers: None,
        snoozes: 0,
    };
    let planned = PollPlan { pendings: vec![retry], ..bench.planned(START + 1_500) };
    bench.machine.receive(bench.now(), DispatchInput::Planned(planned));
    let retried = claim_due(&mut bench);
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unknown, "the connection broke again")));
    bench.now += FAILURE_PAUSE;
    assert_eq!(doubts(&mut bench), [retried.token]);
    resolve(&mut bench, Claim::Lost);
    bench.now = waits_until(&mut bench);
    assert_eq!(doubts(&mut bench), [requests[1].token]);
}

/// Its row was free only when the lease it was claimed under had ended.
#[test]
fn a_doubt_won_after_its_lease_goes_back_and_takes_no_seat() {
    let (mut bench, requests) = in_doubt();
    answer_the_first(&mut bench, &requests);
    bench.run(bench.now);
    bench.ran.clear();
    let late = START + 60_000;
    bench.machine.receive(bench.now(), DispatchInput::Lease(lease(late + 60_000)));
    bench.poll(START + 1_500);
    bench.now = late;
    assert_eq!(doubts(&mut bench), [requests[1].token]);
    assert_eq!(bench.chairs.load(Ordering::Relaxed), 9);
    let won = bench.store.resolve(&requests[1..], IfNotMade::Claim).unwrap().remove(0);
    assert!(matches!(won, Claim::Won(_)));
    resolve(&mut bench, won);
    bench.next();
    assert_eq!((bench.ran.len(), bench.given_back.len()), (0, 1));
}

/// What runs on a thread counts as begun when it is claimed; a place in the queue is no thread.
#[test]
fn a_doubt_won_without_a_free_thread_goes_back() {
    let (mut bench, requests) = in_doubt();
    answer_the_first(&mut bench, &requests);
    bench.run(bench.now);
    bench.chairs.store(0, Ordering::Relaxed);
    bench.run(bench.now + doubts::PAUSE);
    assert_eq!(bench.given_back.len(), 1);
    assert_eq!(bench.given_back[0].token, requests[1].token);
}

/// It may hold an execution by then: it must not leave before it knows.
#[test]
fn a_node_does_not_stop_while_a_claim_is_in_doubt() {
    let (mut bench, requests) = in_doubt();
    answer_the_first(&mut bench, &requests);
    bench.machine.receive(bench.now(), DispatchInput::Stop);
    bench.run(bench.now);
    assert_eq!(waits_until(&mut bench), bench.now + doubts::PAUSE);
    bench.run(bench.now + doubts::PAUSE);
    assert!(matches!(bench.machine.next(bench.now()), Step::Stop));
    assert_eq!(bench.given_back.len(), 1, "a claim that comes in after the stop goes back");
}

fn too_large() -> Claim {
    Claim::Failed(Error::new(ErrorKind::Data, "too large"))
}

/// Answers the claim of two schedules: the first fails alone, the second is won or not.
fn answer_two(bench: &mut Bench, wins: bool) -> Vec<ClaimRequest> {
    let Some(Op::Claim(requests)) = bench.next() else { panic!("two claims are due") };
    assert_eq!(requests.len(), 2);
    let second = if wins { bench.store.claim(&requests[1..]).unwrap().remove(0) } else { too_large() };
    bench.machine.done(bench.now(), Ok(Answer::Claim(vec![too_large(), second])));
    requests.to_vec()
}

#[test]
fn a_row_that_alone_cannot_be_claimed_while_others_are_is_quarantined() {
    for won in [true, false] {
        let mut bench = Bench::new(2, 9);
        bench.poll(START + 1_500);
        bench.now = START + 1_000;
        let entry = Arc::clone(answer_two(&mut bench, true)[0].candidate.entry());
        assert!(bench.next().is_none(), "it may have been the ledger's fault");
        bench.poll(START + 1_500);
        assert_eq!(claim_due(&mut bench).candidate.entry().id, entry.id);
        answer(&mut bench, too_large());
        let Some(Op::Quarantine(broken)) = bench.next() else { panic!("no quarantine") };
        assert_eq!(
            (broken.seen.id, broken.seen.version, broken.seen.state.as_str()),
            (entry.id, entry.version, "EXECUTING")
        );
        assert_eq!(broken.reason.as_str(), "too large");
        bench.machine.done(bench.now(), Ok(Answer::Quarantine(won.into())));
        assert!(bench.next().is_none());
        let told = bench.events.iter().find_map(|event| match event {
            Event::Quarantined { schedule, .. } => Some(Arc::clone(schedule)),
            _ => None,
        });
        assert_eq!(told, won.then(|| Arc::clone(&entry.name)));
    }
}

/// A fault of the ledger table is no schedule's: none would be left once it is mended.
#[test]
fn while_nothing_can_be_claimed_no_row_is_quarantined() {
    let mut bench = Bench::new(2, 9);
    for after in 0..10 {
        bench.now = START + 1_000 + 1_000 * after;
        bench.poll(START + 1_500);
        answer_two(&mut bench, false);
        assert!(bench.next().is_none());
        let failures = bench.events.iter().filter(|event| matches!(event, Event::StoreFailed { .. }));
        assert_eq!(failures.count() as i64, after + 1, "told once for each claim");
        bench.poll(START + 1_500);
        assert_eq!(waits_until(&mut bench), bench.now + FAILURE_PAUSE);
    }
}

#[test]
fn a_claim_that_comes_in_after_the_stop_goes_back() {
    let (mut bench, due) = planned();
    bench.now = due;
    let op = bench.next().unwrap();
    let answer = op.perform(&bench.store);
    bench.machine.receive(bench.now(), DispatchInput::Stop);
    bench.machine.done(bench.now(), answer);
    assert!(bench.next().is_none());
    assert_eq!((bench.ran.len(), bench.given_back.len()), (0, 1));
    assert!(matches!(bench.machine.next(bench.now()), Step::Stop));
}

#[test]
fn a_node_that_stops_says_what_it_leaves_to_others() {
    let mut bench = Bench::new(3, 9);
    bench.poll(START + 1_500);
    bench.machine.receive(bench.now(), DispatchInput::Stop);
    bench.run(START + 1_000);
    assert!(bench.ran.is_empty());
    assert!(bench.events.iter().any(|event| matches!(event, Event::LeftToOthers { planned: 3 })));
}

#[test]
fn what_a_node_that_is_switched_off_polls_is_not_planned() {
    let (mut bench, due) = planned();
    let entry = Arc::new(bench.store.find("app", "s0").unwrap().unwrap());
    let occurrences = expand(&[entry], START, START + 3_000, 10_000).occurrences;
    assert!(!occurrences.is_empty());
    let (pendings, sent) = (Vec::new(), START);
    let off = PollPlan {
        occurrences,
        pendings,
        complete: true,
        covered: Covered::ALL,
        enabled: false,
        sent: Boot::at(sent.millis()),
    };
    bench.machine.receive(bench.now(), DispatchInput::Planned(off));
    assert_eq!(bench.machine.planned(), 0);
    bench.run(due);
    assert!(bench.ran.is_empty());
    bench.poll(START + 3_000);
    bench.run(due);
    assert_eq!(bench.times(), [1_000]);
}

#[test]
fn a_plan_that_was_cut_off_asks_for_the_rest() {
    let mut bench = Bench::new(1, 9);
    let cut_off = PollPlan { complete: false, ..bench.planned(START + 1_500) };
    bench.machine.receive(bench.now(), DispatchInput::Planned(cut_off));
    assert!(bench.next().is_none());
    assert_eq!(bench.wakes, 0, "nothing is done yet");
    bench.run(START + 1_500);
    assert_eq!((bench.times().len(), bench.wakes), (1, 1));
}

/// A pool in which executions have waited too long, and others wait; when it was looked after.
struct Waiting {
    late: Vec<Claimed>,
    looks: Arc<Mutex<Vec<Millis>>>,
}

impl Seats for Waiting {
    type Permit = ();

    fn reserve(&mut self, _lane: LaneId) -> Option<()> {
        None
    }

    fn seat((): &()) -> Seat {
        Seat::Place
    }

    fn tick(&mut self, boot: Boot) -> Vec<Claimed> {
        self.looks.lock().unwrap().push(boot - Boot::at(START.millis()));
        std::mem::take(&mut self.late)
    }

    fn empty(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.late)
    }

    fn is_awaited(&self) -> bool {
        true
    }
}

fn machine<S: Seats>(seats: S, now: Now) -> Stepped<DispatchMachine<S>> {
    let (node, lanes) = (NodeId::fresh(), Lanes::default());
    Stepped::new(DispatchMachine::new(node, Arc::default(), lease(Timestamp::MAX), lanes, seats, now))
}

#[test]
fn what_waited_too_long_in_the_pool_goes_back_and_the_next_look_is_not_missed() {
    let store = MemoryStore::new(START);
    store.ensure(&definition("s", Trigger::every(Duration::from_secs(1)).unwrap())).unwrap();
    let claimed = claim(&store, "s", false, START);
    let (execution, looks) = (claimed.execution(), Arc::default());
    let seats = Waiting { late: vec![claimed], looks: Arc::clone(&looks) };
    let mut now = Now { db: START, boot: Boot::at(START.millis()), apart: 0 };
    let mut machine = machine(seats, now);
    let told = machine.next(now);
    assert!(
        matches!(told, Step::Tell(DispatchOutput::Event(Event::GivenBack { attempt: it })) if it.execution == execution)
    );
    assert!(
        matches!(machine.next(now), Step::Tell(DispatchOutput::GiveBack(back)) if back.execution == execution)
    );
    for _ in 0..3 {
        let Step::Wait(until) = machine.next(now) else { panic!("nothing else is to be done") };
        now = Now { db: Timestamp::at(until.millis()), boot: until, apart: 0 };
        machine.next(Now { db: now.db - 1, boot: now.boot - 1, apart: 0 });
    }
    assert_eq!(*looks.lock().unwrap(), [0, 250, 500]);
}

/// A pool of such seats.
struct All(Seat);

impl Seats for All {
    type Permit = Seat;

    fn reserve(&mut self, _lane: LaneId) -> Option<Seat> {
        Some(self.0)
    }

    fn seat(permit: &Seat) -> Seat {
        *permit
    }

    fn tick(&mut self, _boot: Boot) -> Vec<Claimed> {
        Vec::new()
    }

    fn empty(&mut self) -> Vec<Claimed> {
        Vec::new()
    }

    fn is_awaited(&self) -> bool {
        false
    }
}

fn retry(entry: Arc<Entry>) -> Pending {
    Pending {
        id: ExecutionId(1),
        entry,
        scheduled: START,
        due: START,
        attempt: 2,
        generation: 0,
        origin: 0,
        token: Token::fresh(),
        cause: Cause::Planned,
        payload: None,
        priority: None,
        group: None,
        lane: None,
        failures: 0,
        headers: None,
        snoozes: 0,
    }
}

/// Another node may have joined, with whom they are to be shared.
#[test]
fn enqueued_executions_that_are_lost_are_contested() {
    for is_queue in [true, false] {
        let now = Now { db: START, boot: Boot::at(START.millis()), apart: 0 };
        let mut machine = machine(All(Seat::Thread), now);
        let entry = Arc::new(Entry { is_queue, ..simple(1, START, 1_000, -1, None) });
        let planned = PollPlan {
            occurrences: Vec::new(),
            pendings: vec![retry(entry)],
            complete: true,
            covered: Covered::ALL,
            enabled: true,
            sent: now.boot,
        };
        machine.receive(now, DispatchInput::Planned(planned));
        assert!(matches!(machine.next(now), Step::Do(Op::Claim(_))));
        machine.done(now, Ok(Answer::Claim(vec![Claim::Lost])));
        let told =
            std::iter::from_fn(|| if let Step::Tell(it) = machine.next(now) { Some(it) } else { None });
        let contested = told.filter(|it| matches!(it, DispatchOutput::Contested)).count();
        assert_eq!(contested, usize::from(is_queue));
    }
}

/// Should its node die before it begins, it counts as begun.
#[test]
fn what_may_run_only_once_is_not_called_begun_while_it_waits() {
    let row = |recover| Arc::new(Entry { recover, ..simple(1, START, 1_000, -1, None) });
    let planned = |recover| (vec![Occurrence::head(&row(recover)).unwrap()], Vec::new());
    let retry = retry(row(true));
    let enqueued = |recover, attempt| {
        let entry = Arc::new(Entry { is_queue: true, ..(*row(recover)).clone() });
        (Vec::new(), vec![Pending { entry, attempt, cause: Cause::Enqueued, ..retry.clone() }])
    };
    let cases = [
        (Seat::Soon, enqueued(true, 1), true),
        (Seat::Soon, enqueued(true, 2), false),
        (Seat::Soon, enqueued(false, 1), false),
        (Seat::Place, enqueued(true, 1), false),
        (Seat::Thread, planned(true), true),
        (Seat::Thread, planned(false), true),
        (Seat::Soon, planned(true), true),
        (Seat::Soon, planned(false), false),
        (Seat::Soon, (Vec::new(), vec![retry.clone()]), false),
        (Seat::Place, planned(true), false),
        (Seat::Place, planned(false), false),
    ];
    for (seat, (occurrences, pendings), at_once) in cases {
        let context = format!("{seat:?} {occurrences:?} {pendings:?}");
        let now = Now { db: START, boot: Boot::at(START.millis()), apart: 0 };
        let mut machine = machine(All(seat), now);
        let planned = PollPlan {
            occurrences,
            pendings,
            complete: true,
            covered: Covered::ALL,
            enabled: true,
            sent: Boot::at(START.millis()),
        };
        machine.receive(now, DispatchInput::Planned(planned));
        let Step::Do(Op::Claim(requests)) = machine.next(now) else { panic!("nothing due") };
        assert_eq!(requests[0].at_once, at_once, "{context}");
    }
}

/// It was recorded as begun for a thread it no longer has: a place in the queue is none.
#[test]
fn a_doubt_won_for_a_place_in_the_queue_goes_back() {
    for (seat, runs) in [(Seat::Thread, true), (Seat::Soon, false), (Seat::Place, false)] {
        let store = MemoryStore::new(START);
        let every = Trigger::every(Duration::from_secs(3_600)).unwrap().anchored_ms(START.millis()).unwrap();
        store.ensure(&definition("s", every)).unwrap();
        let entry = Arc::new(store.find("app", "s").unwrap().unwrap());
        let mut now = Now { db: START, boot: Boot::at(START.millis()), apart: 0 };
        let mut machine = machine(All(seat), now);
        let planned = PollPlan {
            occurrences: vec![Occurrence::head(&entry).unwrap()],
            pendings: Vec::new(),
            complete: true,
            covered: Covered::ALL,
            enabled: true,
            sent: Boot::at(START.millis()),
        };
        machine.receive(now, DispatchInput::Planned(planned));
        let held = Ok(Answer::Resolve(vec![Claim::Skipped]));
        for answer in [Err(Error::new(ErrorKind::Unknown, "the connection broke")), held] {
            while !matches!(machine.next(now), Step::Do(_)) {}
            machine.done(now, answer);
            now = Now { db: now.db + doubts::PAUSE, boot: now.boot + doubts::PAUSE, ..now };
        }
        let op = loop {
            if let Step::Do(op) = machine.next(now) {
                break op;
            }
        };
        let answer = op.perform(&store);
        machine.done(now, answer);
        let told = std::iter::from_fn(|| machine.meanwhile());
        let is_won = |told: DispatchOutput<Seat>| matches!(told, DispatchOutput::Won(_));
        assert_eq!(told.into_iter().any(is_won), runs, "{seat:?}");
    }
}

/// It was within reach before the database's clock was corrected by 15 ms.
#[test]
fn what_a_step_of_the_clock_moved_out_of_reach_is_not_claimed_yet() {
    let mut bench = Bench::spread(2, 40, 0);
    bench.poll(START + 3_000);
    bench.now = START + 1_000;
    assert!(bench.next().is_none(), "there is no seat");
    bench.now = START + 985;
    bench.chairs.store(9, Ordering::Relaxed);
    bench.machine.receive(bench.now(), DispatchInput::SeatFreed(LaneId::DEFAULT));
    let claimed = claim_due(&mut bench);
    assert_eq!(claimed.candidate.due(), START + 1_000);
}
