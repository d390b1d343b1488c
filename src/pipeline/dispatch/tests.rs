use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::domain::shards::Share;
use crate::domain::{ErrorKind, ExecutionState, JobPolicy, JobSpec, Timestamp};
use crate::fixtures::calls_while_down;
use crate::fixtures::{Changes, new_node};
use crate::machine::{Operation, Stepped};
use crate::pipeline::expand::expand;
use crate::pipeline::lanes::LaneId;
use crate::pipeline::poll::{Covered, PollPlan};
use crate::pipeline::start::{StartInput, StartMachine, StartOutput};
use crate::store::memory::MemoryStore;
use crate::store::{Definition, ExecutionChange, ExecutionQuery, IfNotMade, Page, PollQuery, Store, Verbs};
use crate::time::{LEAST_LEAD, Window};
use crate::trigger::Trigger;

mod edges;
mod full;
mod lanes;
mod overlaps;

const START: Timestamp = Timestamp::at(1_767_225_600_000);

fn lease(until: Timestamp) -> Lease {
    Lease { until: Boot::at(until.millis()), apart: 0 }
}

/// As many seats as there are in each lane, all of them threads.
#[derive(Clone)]
struct Chairs(Vec<Arc<AtomicUsize>>);

struct Chair(Arc<AtomicUsize>);

impl Drop for Chair {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Seats for Chairs {
    type Permit = Chair;

    fn reserve(&mut self, lane: LaneId) -> Option<Chair> {
        let chairs = &self.0[lane.place()];
        let taken = chairs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1));
        taken.ok().map(|_| Chair(Arc::clone(chairs)))
    }

    fn seat(_permit: &Chair) -> Seat {
        Seat::Thread
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

fn register(store: &MemoryStore, id: NodeId, job: &JobSpec) {
    store.register(&new_node(id, "app", vec![job.clone()], START)).unwrap();
}

struct Bench {
    store: MemoryStore,
    machine: Stepped<DispatchMachine<Chairs>>,
    start: StartMachine<Chair>,
    chairs: Arc<AtomicUsize>,
    held: Arc<OwnTokens>,
    node: NodeId,
    jobs: Vec<String>,
    now: Timestamp,
    claims: usize,
    ran: Vec<(Chair, Claimed)>,
    /// How late each began.
    late: Vec<Millis>,
    events: Vec<Event>,
    given_back: Vec<ExecutionChange>,
    wakes: usize,
}

impl Bench {
    /// `schedules` schedules every second from one second on, five occurrences each.
    fn new(schedules: usize, chairs: usize) -> Self {
        Self::spread(schedules, 0, chairs)
    }

    /// One behind the other by `apart`.
    fn spread(schedules: usize, apart: Millis, chairs: usize) -> Self {
        Self::of(true, schedules, apart, chairs)
    }

    /// Another job, with three schedules that fire every second from one second on.
    fn add_job(&mut self, job: JobSpec) {
        register(&self.store, NodeId::fresh(), &job);
        for n in 0..3 {
            let every =
                Trigger::every(Duration::from_secs(1)).unwrap().anchored_ms(START.millis() + 1_000).unwrap();
            let definition = crate::fixtures::definition(&format!("{}-{n}", job.name), every);
            self.store.ensure(&Definition { job: job.clone(), ..definition }).unwrap();
        }
        self.jobs.push(job.name);
    }

    fn of(recover: bool, schedules: usize, apart: Millis, chairs: usize) -> Self {
        let store = MemoryStore::new(START);
        let policy = JobPolicy { recover, max_attempts: 5, ..JobPolicy::DEFAULT };
        let job = JobSpec::new("job", policy);
        let node = NodeId::fresh();
        register(&store, node, &job);
        for n in (0..).take(schedules) {
            let every = Trigger::every(Duration::from_secs(1)).unwrap().times(5).unwrap();
            let trigger = every.anchored_ms(START.millis() + 1_000 + n * apart).unwrap();
            let definition = crate::fixtures::definition(&format!("s{n}"), trigger);
            store.ensure(&Definition { job: job.clone(), ..definition }).unwrap();
        }
        let chairs = Arc::new(AtomicUsize::new(chairs));
        let held = Arc::new(OwnTokens::default());
        let now = Now { db: START, boot: Boot::at(START.millis()), apart: 0 };
        let seats = Chairs(vec![Arc::clone(&chairs)]);
        let lease = lease(START + 60_000);
        let machine =
            Stepped::new(DispatchMachine::new(node, Arc::clone(&held), lease, Lanes::default(), seats, now));
        Self {
            store,
            machine,
            start: StartMachine::new(),
            chairs,
            held,
            node,
            jobs: vec!["job".to_owned()],
            now: START,
            claims: 0,
            ran: Vec::new(),
            late: Vec::new(),
            events: Vec::new(),
            given_back: Vec::new(),
            wakes: 0,
        }
    }

    fn now(&self) -> Now {
        Now { db: self.now, boot: Boot::at(self.now.millis()), apart: 0 }
    }

    fn poll(&mut self, until: Timestamp) {
        let planned = self.planned(until);
        self.machine.receive(self.now(), DispatchInput::Planned(planned));
    }

    /// What a poll sent now will bring.
    fn planned(&self, until: Timestamp) -> PollPlan {
        let query = PollQuery {
            node: self.node,
            application: "app".to_owned(),
            shares: vec![Share::whole(self.jobs.clone())],
            names: Vec::new(),
            listed: self.jobs.clone(),
            from: Timestamp::at(0),
            pending_from: Timestamp::MIN,
            until,
            late: self.now,
            page: Page::FIRST,
            limit: 2 * BATCH,
            drains: false,
        };
        let polled = self.store.poll(&query).unwrap();
        PollPlan {
            occurrences: expand(&polled.entries, self.now, until, Window::default().least_threshold())
                .occurrences,
            pendings: polled.pendings,
            complete: polled.next.is_none(),
            covered: Covered::ALL,
            enabled: polled.app_enabled && polled.node_enabled,
            sent: Boot::at(self.now.millis()),
        }
    }

    /// Runs at this instant until the machine asks for something or waits.
    fn next(&mut self) -> Option<Op> {
        loop {
            match self.machine.next(self.now()) {
                Step::Do(op) => {
                    while let Some(output) = self.machine.meanwhile() {
                        self.told(output);
                    }
                    return Some(op);
                }
                Step::Tell(output) => self.told(output),
                Step::Wait(_) | Step::Stop => return None,
            }
        }
    }

    fn told(&mut self, output: DispatchOutput<Chair>) {
        match output {
            DispatchOutput::Won(won) => self.start.receive(self.now(), StartInput::Won(won)),
            DispatchOutput::Event(event) => self.events.push(event),
            DispatchOutput::GiveBack(settlement) => self.given_back.push(settlement),
            DispatchOutput::WakePoll => self.wakes += 1,
            DispatchOutput::WakeHeart => panic!("no machine was paused"),
            DispatchOutput::Contested => {}
        }
    }

    fn begin(&mut self, chair: Chair, claimed: Claimed) {
        self.late.push(self.now - claimed.scheduled());
        self.ran.push((chair, claimed));
    }

    /// Runs at `at`, performing what is asked.
    fn run(&mut self, at: Timestamp) {
        self.now = at;
        while let Some(op) = self.next() {
            self.claims += usize::from(matches!(op, Op::Claim(_)));
            let answer = op.perform(&self.store);
            self.machine.done(self.now(), answer);
        }
        while let Step::Tell(output) = self.start.next(self.now()) {
            match output {
                StartOutput::Due(run) => {
                    run.into_iter().for_each(|(chair, claimed)| self.begin(chair, claimed));
                }
                StartOutput::GiveBack(settlement) => self.given_back.push(settlement),
                StartOutput::Event(event) => self.events.push(event),
            }
        }
    }

    /// Loses the answer to the claim that is due, and returns the requests to resolve after the pause.
    fn lose_the_answer(&mut self) -> Arc<Vec<ClaimRequest>> {
        assert!(self.next().is_some());
        self.machine.done(self.now(), Err(Error::new(ErrorKind::Unknown, "no answer")));
        assert!(self.next().is_none());
        self.now += FAILURE_PAUSE;
        let Some(Op::Resolve(requests, IfNotMade::Claim)) = self.next() else {
            panic!("something was to be resolved")
        };
        requests
    }

    fn times(&self) -> Vec<Millis> {
        self.ran.iter().map(|(_, claimed)| claimed.scheduled() - START).collect()
    }

    fn rows(&self, state: ExecutionState) -> usize {
        let query = ExecutionQuery { states: vec![state], limit: 1_000, ..ExecutionQuery::default() };
        self.store.executions(&query).unwrap().len()
    }
}

/// One that reads thousands of rows takes longer than a claim.
#[test]
fn a_poll_sent_before_a_claim_does_not_bring_its_occurrence_again() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 1_500);
    bench.run(START + 999);
    let late = bench.planned(START + 2_500);
    bench.run(START + 1_000);
    bench.machine.receive(bench.now(), DispatchInput::Planned(late));
    bench.run(START + 2_000);
    assert_eq!(bench.times(), [1_000, 2_000], "the link behind it is not forgotten");
    assert!(!bench.events.iter().any(|event| matches!(event, Event::ClaimLost { .. })));
}

#[test]
fn each_occurrence_is_claimed_when_due_and_its_link_armed() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 6_000);
    bench.run(START + 999);
    assert!(bench.ran.is_empty(), "never early");
    for second in 1..=5 {
        bench.run(START + 1_000 * second);
    }
    assert_eq!(bench.times(), [1_000, 2_000, 3_000, 4_000, 5_000]);
    assert_eq!(bench.machine.planned(), 0);
}

#[test]
fn a_claim_made_ahead_of_its_time_waits_for_it() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 1_500);
    bench.run(START + 1_000 - LEAST_LEAD - 1);
    assert_eq!((bench.claims, bench.rows(ExecutionState::Running)), (0, 0));
    bench.run(START + 1_000 - LEAST_LEAD);
    assert_eq!((bench.claims, bench.rows(ExecutionState::Running)), (1, 1));
    bench.run(START + 999);
    assert!(bench.ran.is_empty(), "never early");
    bench.run(START + 1_000);
    assert_eq!((bench.times(), bench.late.as_slice()), (vec![1_000], &[0][..]));
}

/// If its node dies first it has not begun, and goes to another.
#[test]
fn what_may_run_only_once_is_not_called_running_before_its_time() {
    for (at, running) in [(START + 1_000 - LEAST_LEAD, 0), (START + 1_000, 1)] {
        let mut bench = Bench::of(false, 1, 0, 9);
        bench.poll(START + 1_500);
        bench.run(at);
        assert_eq!(
            (bench.rows(ExecutionState::Claimed), bench.rows(ExecutionState::Running)),
            (1 - running, running)
        );
    }
}

#[test]
fn a_steady_stream_is_claimed_in_few_transactions_and_starts_on_time() {
    let mut bench = Bench::spread(250, 4, 250);
    bench.poll(START + 7_000);
    for after in 0..6_100 {
        bench.run(START + after);
        bench.ran.clear();
    }
    assert_eq!((bench.late.len(), bench.late.iter().max()), (5 * 250, Some(&0)));
    let fewest = 5_000 / usize::try_from(CLAIM_AHEAD - LEAST_LEAD).unwrap();
    assert!((100..=fewest + 5).contains(&bench.claims), "{} claims", bench.claims);
}

#[test]
fn slow_claims_are_sent_sooner() {
    let mut bench = Bench::spread(2, 500, 9);
    bench.poll(START + 1_600);
    bench.now = START + 1_000 - LEAST_LEAD;
    let Some(op) = bench.next() else { panic!("a claim was due") };
    bench.now += 26;
    let answer = op.perform(&bench.store);
    bench.machine.done(bench.now(), answer);
    bench.run(bench.now);
    bench.run(START + 1_500 - 32);
    assert_eq!(bench.claims, 0, "26 ms, and 5 for the rest");
    bench.run(START + 1_500 - 31);
    assert_eq!(bench.claims, 1);
    bench.run(START + 1_500);
    assert_eq!(bench.late, [26 - LEAST_LEAD, 0]);
}

#[test]
fn what_was_not_a_claim_does_not_count() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 2_500);
    bench.now = START + 1_000;
    let requests = bench.lose_the_answer();
    bench.now += 26;
    let claims = bench.store.resolve(&requests, IfNotMade::Claim).unwrap();
    bench.machine.done(bench.now(), Ok(Answer::Resolve(claims)));
    bench.run(START + 2_000 - LEAST_LEAD - 1);
    assert_eq!((bench.times(), bench.claims), (vec![1_000], 0));
    bench.run(START + 2_000 - LEAST_LEAD);
    assert_eq!(bench.claims, 1);
}

#[test]
fn a_full_pool_neither_blocks_nor_loses() {
    let mut bench = Bench::new(3, 2);
    bench.poll(START + 1_500);
    bench.run(START + 1_000);
    assert_eq!((bench.ran.len(), bench.rows(ExecutionState::Running)), (2, 2));
    bench.ran.clear();
    bench.machine.receive(bench.now(), DispatchInput::SeatFreed(LaneId::DEFAULT));
    bench.run(START + 1_040);
    assert_eq!((bench.ran.len(), bench.rows(ExecutionState::Running)), (1, 3));
}

#[test]
fn the_next_claim_is_under_way_when_what_was_won_is_told() {
    let mut bench = Bench::new(BATCH + 1, 2 * BATCH);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let answer = bench.next().expect("a claim").perform(&bench.store);
    bench.machine.done(bench.now(), answer);
    let next = bench.machine.next(bench.now());
    assert!(matches!(&next, Step::Do(Op::Claim(requests)) if requests.len() == 1));
    assert!(matches!(bench.machine.meanwhile(), Some(DispatchOutput::Won(won)) if won.len() == BATCH));
}

#[test]
fn every_claim_has_a_token_of_its_own() {
    let mut bench = Bench::new(3, 9);
    bench.poll(START + 1_500);
    let mut tokens = HashSet::new();
    for after in [1_000, 1_000 + FAILURE_PAUSE] {
        bench.now = START + after;
        let Some(Op::Claim(requests)) = bench.next() else { panic!("three are due") };
        tokens.extend(requests.iter().map(|request| request.token));
        bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unavailable, "down")));
    }
    assert_eq!(tokens.len(), 6);
}

#[test]
fn a_commit_failure_is_not_swallowed_and_counted_as_won() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let Some(Op::Claim(_)) = bench.next() else { panic!("a claim was due") };
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unknown, "the connection broke in COMMIT")));
    assert!(bench.next().is_none() && bench.ran.is_empty());
    bench.run(START + 1_000 + FAILURE_PAUSE);
    assert_eq!(bench.times(), [1_000], "it was not made: resolving makes it");
    assert!(bench.events.iter().any(|event| matches!(event, Event::CommitUnknown { claims: 1 })));
}

/// The database may be away for long: each try to find out fails with an event of its own anyway.
#[test]
fn a_commit_that_stays_unknown_is_told_once() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    for _ in 0..3 {
        assert!(bench.next().is_some(), "something was to be claimed or resolved");
        bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unknown, "no answer")));
        assert!(bench.next().is_none());
        bench.now += FAILURE_PAUSE;
    }
    let is_told = |event: &&Event| matches!(event, Event::CommitUnknown { .. });
    assert_eq!(bench.events.iter().filter(is_told).count(), 1);
}

#[test]
fn a_commit_whose_answer_was_lost_is_won_once() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let Some(op) = bench.next() else { panic!("a claim was due") };
    drop(op.perform(&bench.store));
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unknown, "no answer")));
    bench.run(START + 1_000 + FAILURE_PAUSE);
    assert_eq!((bench.times(), bench.rows(ExecutionState::Running)), (vec![1_000], 1));
}

/// Although more is due, and there are seats.
#[test]
fn nothing_is_claimed_past_a_commit_that_is_unknown_or_a_row_to_be_quarantined() {
    let mut bench = Bench::new(BATCH + 2, 2 * BATCH);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let requests = bench.lose_the_answer();
    assert_eq!(requests.len(), BATCH);
    let failed = |_| Claim::Failed(Error::new(ErrorKind::Data, "a row that fails alone"));
    // One before it is won, for it has failed before.
    let suspect = requests[1].candidate.entry();
    bench.machine.suspects.suspect(suspect.id, suspect.version);
    let first = bench.store.claim(&requests[..1]).unwrap().remove(0);
    let claims = [first, failed(())].into_iter().chain(requests[2..].iter().map(|_| Claim::Lost)).collect();
    bench.machine.done(bench.now(), Ok(Answer::Resolve(claims)));
    assert!(matches!(bench.next(), Some(Op::Quarantine(_))));
}

/// What it would bring would wait for them.
#[test]
fn nothing_is_claimed_before_observers_have_been_told() {
    let mut bench = Bench::new(BATCH + 1, 2 * BATCH);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    assert!(bench.next().is_some());
    bench.machine.done(bench.now(), Ok(Answer::Claim((0..BATCH).map(|_| Claim::Lost).collect())));
    for _ in 0..BATCH {
        let told = bench.machine.next(bench.now());
        assert!(matches!(told, Step::Tell(DispatchOutput::Event(Event::ClaimLost { .. }))));
    }
    assert!(matches!(bench.next(), Some(Op::Claim(_))));
}

#[test]
fn a_claim_certainly_not_made_is_tried_again_after_a_pause() {
    let mut bench = Bench::new(1, 1);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    assert!(bench.next().is_some());
    bench.machine.done(bench.now(), Err(Error::new(ErrorKind::Unavailable, "down")));
    assert!(bench.next().is_none(), "no hot loop");
    assert_eq!(bench.chairs.load(Ordering::Relaxed), 1, "the seat is free meanwhile");
    bench.run(START + 1_000 + FAILURE_PAUSE);
    assert_eq!(bench.times(), [1_000]);
}

#[test]
fn nothing_is_claimed_without_a_lease() {
    let mut bench = Bench::new(1, 9);
    bench.machine.receive(bench.now(), DispatchInput::Lease(lease(START + 900)));
    bench.poll(START + 1_500);
    bench.run(START + 1_000);
    assert!(bench.ran.is_empty());
    bench.machine.receive(bench.now(), DispatchInput::Lease(lease(START + 30_000)));
    bench.run(START + 1_001);
    assert_eq!(bench.times(), [1_000]);
}

/// One heartbeat is asked for; until it is answered nothing is claimed, and then as before.
#[test]
fn a_pause_of_the_machine_ends_the_lease() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let paused = Now { apart: 20_000, ..bench.now() };
    let mut woken = 0;
    loop {
        match bench.machine.next(paused) {
            Step::Tell(DispatchOutput::WakeHeart) => woken += 1,
            Step::Tell(_) => {}
            Step::Wait(_) => break,
            _ => panic!("claimed under a lease that may be over"),
        }
    }
    assert_eq!(woken, 1);
    bench.machine.receive(paused, DispatchInput::Lease(Lease::new(paused, 20_000)));
    assert!(matches!(bench.machine.next(paused), Step::Do(Op::Claim(_))));
}

#[test]
fn a_claim_answered_after_its_own_deadline_goes_back() {
    let mut bench = Bench::new(1, 9);
    bench.machine.receive(bench.now(), DispatchInput::Lease(lease(START + 2_000)));
    bench.poll(START + 1_500);
    bench.now = START + 1_000;
    let Some(op) = bench.next() else { panic!("a claim was due") };
    let answer = op.perform(&bench.store);
    bench.now = START + 2_000;
    bench.machine.receive(bench.now(), DispatchInput::Lease(lease(START + 60_000)));
    bench.machine.done(bench.now(), answer);
    assert!(bench.next().is_none());
    assert_eq!((bench.ran.len(), bench.given_back.len()), (0, 1), "a later lease does not extend it");
}

#[test]
fn items_still_waiting_at_the_end_of_the_loop_are_not_dropped() {
    let mut bench = Bench::new(BATCH + 44, BATCH + 44);
    bench.poll(START + 1_500);
    bench.run(START + 1_000);
    assert_eq!(bench.ran.len(), BATCH + 44, "more than one batch");
}

#[test]
fn a_lost_claim_leaves_the_token_and_arms_the_next_link() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 3_000);
    let mut other = Bench::new(0, 9);
    other.node = bench.node;
    std::mem::swap(&mut other.store, &mut bench.store);
    other.poll(START + 1_500);
    other.run(START + 1_000);
    std::mem::swap(&mut other.store, &mut bench.store);
    assert_eq!(other.times(), [1_000]);
    bench.run(START + 1_000);
    assert!(bench.events.iter().any(|event| matches!(event, Event::ClaimLost { .. })));
    bench.run(START + 2_000);
    assert_eq!(bench.times(), [2_000]);
    let (_, claimed) = &bench.ran[0];
    assert!(bench.held.contains(claimed.token()));
}

#[test]
fn a_poll_that_no_longer_brings_a_schedule_takes_it_from_the_plan() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 3_000);
    let entry = bench.store.find("app", "s0").unwrap().unwrap();
    assert!(bench.store.pause(entry.id, entry.version, "me", "test").unwrap());
    bench.now = START + 500;
    bench.poll(START + 3_000);
    assert_eq!(bench.machine.planned(), 0);
}

#[test]
fn a_pause_holds_at_once_whatever_is_planned() {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 3_000);
    let entry = bench.store.find("app", "s0").unwrap().unwrap();
    assert!(bench.store.pause(entry.id, entry.version, "me", "test").unwrap());
    bench.run(START + 1_000);
    assert!(bench.ran.is_empty());
}

#[test]
fn a_clock_that_jumps_drops_the_plan_and_asks_for_a_poll() {
    assert_dropped_at(START + 3_600_000);
}

/// What waits in the wheel would otherwise wait for the hour to pass again.
#[test]
fn a_backward_clock_step_does_not_sleep_for_hours() {
    assert_dropped_at(START - 3_600_000);
}

fn assert_dropped_at(db: Timestamp) {
    let mut bench = Bench::new(1, 9);
    bench.poll(START + 3_000);
    bench.run(START + 10);
    let stepped = Now { db, boot: Boot::at(START.millis() + 20), apart: 0 };
    assert!(matches!(bench.machine.next(stepped), Step::Tell(DispatchOutput::WakePoll)));
    assert_eq!(bench.machine.planned(), 0);
}

#[test]
fn no_hot_loop_while_the_database_is_down() {
    for kind in [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Refused] {
        let mut bench = Bench::new(3, 9);
        bench.poll(START + 1_500);
        let renewed = || Some(DispatchInput::Lease(lease(START + 120_000)));
        let calls = calls_while_down(&mut bench.machine.machine, START + 1_000, kind, renewed);
        assert!((20..=130).contains(&calls), "{calls} claims in a minute");
    }
}

/// Its claim leaves the row COMPLETE, and yet it is run.
#[test]
fn the_last_occurrence_of_a_finite_schedule_runs() {
    let mut bench = Bench::new(1, 9);
    for second in 1..=5 {
        bench.poll(START + 1_000 * second + 500);
        bench.run(START + 1_000 * second);
    }
    assert_eq!(bench.times().last(), Some(&5_000));
    let rows = bench.store.schedules(Some("app")).unwrap();
    assert_eq!((rows[0].state.as_str(), rows[0].next), ("COMPLETE", None));
    assert_eq!(bench.rows(ExecutionState::Running), 5);
}
