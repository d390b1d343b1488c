use super::grid::EXTRA_PAUSE;
use super::*;
use crate::domain::shards::Member;
use crate::domain::{ExecutionId, Kind, Token};
use crate::fixtures::{calls_while_down, cron};
use crate::machine::Operation;
use crate::store::Lane;
use crate::store::memory::MemoryStore;
use crate::time::{Micros, TimeSample};

pub(super) const PERIOD: Millis = 5_000;

struct Strict;

impl Catalog for Strict {
    fn jobs(&self) -> Vec<String> {
        vec!["job".to_owned()]
    }

    fn decodes(&self, _job: &str, payload: &str) -> Result<(), String> {
        if payload == "null" { Ok(()) } else { Err("no such field".to_owned()) }
    }

    fn clock(&self) -> Micros {
        0
    }
}

pub(super) fn at(time: Millis) -> Now {
    Now { db: time, boot: time, apart: 0 }
}

/// One that does not look at all overdue schedules.
pub(super) fn machine(now: Millis) -> PollMachine {
    // A node whose phase on the grid is 0.
    PollMachine::new(
        NodeId(uuid::Uuid::nil()),
        "app".to_owned(),
        Arc::new(Strict),
        Window::default(),
        Offset::new(sample(now, now)),
        at(now),
    )
}

/// The database told this instant within no time.
pub(super) fn sample(host: Millis, database: Millis) -> TimeSample {
    TimeSample { asked: 1_000 * host, told: 1_000 * database, answered: 1_000 * host }
}

pub(super) fn answer(now: Millis, entries: Vec<Entry>) -> Polled {
    Polled {
        time: sample(now, now),
        app_enabled: true,
        node_enabled: true,
        election: None,
        late: false,
        earliest: None,
        entries: entries.into_iter().map(Arc::new).collect(),
        pendings: Vec::new(),
        large: HashMap::new(),
        next: None,
    }
}

/// Decodes within no time.
pub(super) fn decode(machine: &mut PollMachine, now: Millis, op: PollOp) {
    machine.done(at(now), op.perform(&MemoryStore::new(0)));
}

/// Runs until the next poll is asked for; gives when, and what was told on the way.
pub(super) fn until_asked(machine: &mut PollMachine, mut now: Millis) -> (Millis, Vec<PollOutput>) {
    let mut told = Vec::new();
    loop {
        match machine.next(at(now)) {
            Step::Do(op @ PollOp::Decode(_)) => decode(machine, now, op),
            Step::Do(_) => return (now, told),
            Step::Tell(output) => told.push(output),
            Step::Wait(until) => now = now.max(until),
            Step::Stop => panic!("stopped"),
        }
    }
}

/// One whose answers take longer than the step.
#[test]
fn a_slow_comparison_is_no_step_of_the_clock() {
    let mut machine = machine(1_000_000);
    for round_trip in [0, 2_900, 0] {
        let (now, _) = until_asked(&mut machine, 1_000_000);
        let exact = sample(now, now);
        let time = TimeSample { asked: exact.asked - 1_000 * round_trip, ..exact };
        machine.done(at(now), Ok(PollAnswer::Page(Polled { time, ..answer(now, Vec::new()) })));
        let (_, told) = until_asked(&mut machine, now);
        assert!(
            !told
                .iter()
                .any(|it| matches!(it, PollOutput::Jumped | PollOutput::Event(Event::ClockOffset { .. })))
        );
        machine.receive(at(now), PollInput::Wake);
    }
}

#[test]
fn no_hot_loop_while_the_database_is_down() {
    for kind in [Kind::Unavailable, Kind::Unknown, Kind::Refused] {
        let calls = calls_while_down(&mut machine(1_000_000), 1_000_000, kind, || Some(PollInput::Wake));
        assert!((20..=75).contains(&calls), "{calls} polls in a minute");
    }
}

#[test]
fn overdue_rows_are_visible_to_the_poll() {
    let mut machine = machine(1_000_000);
    let (now, _) = until_asked(&mut machine, 1_000_000);
    machine.done(at(now), Ok(PollAnswer::Page(answer(now, vec![cron(1, "0 * * * * ?", now - 30_000)]))));
    let (_, told) = until_asked(&mut machine, now);
    let planned = told.iter().find_map(|output| match output {
        PollOutput::Planned(planned) => planned.occurrences.first(),
        _ => None,
    });
    assert_eq!(planned.map(|it| it.at), Some(now - 30_000));
}

#[test]
fn a_payload_nobody_here_can_decode_is_left_alone_and_said_once() {
    let mut machine = machine(1_000_000);
    let mut odd = cron(1, "* * * * * ?", 1_001_000);
    odd.payload = Arc::from("{}");
    let mut said = 0;
    let mut now = 1_000_000;
    for _ in 0..3 {
        now = until_asked(&mut machine, now).0;
        machine.done(at(now), Ok(PollAnswer::Page(answer(now, vec![odd.clone()]))));
        let (_, told) = until_asked(&mut machine, now);
        said += told.iter().filter(|it| matches!(it, PollOutput::Event(Event::Undecodable { .. }))).count();
        let planned =
            told.iter().any(|it| matches!(it, PollOutput::Planned(plan) if !plan.occurrences.is_empty()));
        assert!(!planned);
    }
    assert_eq!(said, 1);
}

/// A job's rows, brought again by each poll: when it polled, how many it decoded, how many it planned.
fn polls(machine: &mut PollMachine, most: Micros, count: usize) -> Vec<(Millis, usize, usize)> {
    let entries: Vec<Entry> = (1..=10).map(|id| cron(id, "0 * * * * ?", 1_000_000)).collect();
    let mut now = 1_000_000;
    let mut polls = Vec::new();
    for _ in 0..count {
        now = asked(machine, now).0;
        machine.done(at(now), Ok(PollAnswer::Page(answer(now, entries.clone()))));
        let mut decoded = 0;
        let mut told = Vec::new();
        loop {
            match machine.next(at(now)) {
                Step::Do(PollOp::Decode(mut op)) => {
                    decoded = op.jobs.iter().map(VecDeque::len).sum();
                    op.most = most;
                    decode(machine, now, PollOp::Decode(op));
                }
                Step::Tell(output) => told.push(output),
                _ => break,
            }
        }
        polls.push((now - 1_000_000, decoded, planned(told).occurrences.len()));
    }
    polls
}

#[test]
fn what_is_known_is_not_decoded_again() {
    assert_eq!(polls(&mut machine(1_000_000), 1, 2), [(0, 10, 10), (PERIOD, 0, 10)]);
}

/// Another poll follows soon, and each decodes something.
#[test]
fn what_there_was_no_time_to_decode_is_cut_off() {
    let polled = polls(&mut machine(1_000_000), 0, 11);
    let expected = (0..10).map(|n| (n * EXTRA_PAUSE, 10 - n as usize, n as usize + 1));
    assert_eq!(polled[..10], expected.collect::<Vec<_>>());
    assert_eq!(polled[10], (PERIOD, 0, 10));
}

#[test]
fn a_poll_whose_decoding_hangs_plans_what_is_known() {
    let mut machine = machine(1_000_000);
    let known = cron(1, "0 * * * * ?", 1_000_000);
    let (now, _) = asked(&mut machine, 1_000_000);
    machine.done(at(now), Ok(PollAnswer::Page(answer(now, vec![known.clone()]))));
    let (now, _) = asked(&mut machine, now);
    let hangs = cron(2, "0 * * * * ?", 1_000_000);
    machine.done(at(now), Ok(PollAnswer::Page(answer(now, vec![known, hangs]))));
    let Step::Do(PollOp::Decode(op)) = machine.next(at(now)) else { panic!("something is new") };
    op.hang(&op.jobs[0][0]);
    machine.done(at(now + 3_000), Err(Error::new(Kind::Unknown, "no answer within 3 s")));
    let (_, told) = until_asked(&mut machine, now + 3_000);
    assert!(told.iter().any(|it| matches!(it, PollOutput::Event(Event::Undecodable { .. }))));
    assert!(!told.iter().any(|it| matches!(it, PollOutput::Event(Event::StoreFailed { .. }))));
    let plan = planned(told);
    assert_eq!((plan.occurrences.len(), plan.complete), (1, true), "it is not worth another poll");
}

/// Beside one other node.
pub(super) fn beside_another(now: Millis) -> PollMachine {
    let mut machine = machine(now);
    let other = Member { id: NodeId(uuid::Uuid::from_u128(1)), jobs: vec!["job".to_owned()] };
    machine.receive(at(now), PollInput::Members(vec![other]));
    machine
}

/// What the next poll asks for, and when.
pub(super) fn asked(machine: &mut PollMachine, mut now: Millis) -> (Millis, PollQuery) {
    loop {
        match machine.next(at(now)) {
            Step::Do(PollOp::Page(query)) => return (now, query),
            Step::Do(op @ PollOp::Decode(_)) => decode(machine, now, op),
            Step::Do(PollOp::Look(_)) => told_earliest(machine, now, None),
            Step::Do(PollOp::Payloads(_)) => panic!("nothing is large"),
            Step::Tell(_) => {}
            Step::Wait(until) => now = now.max(until),
            Step::Stop => panic!("stopped"),
        }
    }
}

pub(super) fn late(now: Millis, entries: Vec<Entry>) -> Polled {
    Polled { late: true, ..answer(now, entries) }
}

pub(super) fn shards(query: &PollQuery) -> Vec<i64> {
    query.shares.iter().flat_map(|share| share.shards.clone()).collect()
}

#[test]
fn what_is_late_in_others_shards_is_asked_for_behind_ones_own() {
    let mut machine = beside_another(1_000_000);
    let (now, home) = asked(&mut machine, 1_000_000);
    assert_eq!((shards(&home).len(), home.until > now), (8, true));
    machine.done(at(now), Ok(PollAnswer::Page(late(now, Vec::new()))));
    let (now, others) = asked(&mut machine, now);
    let mut all = [shards(&home), shards(&others)].concat();
    all.sort_unstable();
    assert_eq!(all, (0..16).collect::<Vec<_>>());
    assert_eq!((others.until, others.page), (now - GRACE, Page::FIRST));
    machine.done(at(now), Ok(PollAnswer::Page(late(now, vec![cron(1, "0 * * * * ?", now - 3_000)]))));
    let (_, told) = until_asked(&mut machine, now);
    let planned = told.iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
    assert_eq!(planned.map(|planned| (planned.occurrences.len(), planned.complete)), Some((1, true)));
}

#[test]
fn others_shards_are_left_alone_while_nothing_is_late_or_one_is_alone_or_behind() {
    let backlog = |count| (0..count).map(|id| cron(id, "0 * * * * ?", 990_000)).collect::<Vec<_>>();
    let cases = [
        (beside_another(1_000_000), answer(1_000_000, backlog(255)), false),
        (machine(1_000_000), late(1_000_000, backlog(255)), false),
        (beside_another(1_000_000), late(1_000_000, backlog(255)), true),
        (beside_another(1_000_000), late(1_000_000, backlog(256)), false),
    ];
    for (n, (mut machine, polled, asks)) in cases.into_iter().enumerate() {
        let (now, _) = asked(&mut machine, 1_000_000);
        machine.done(at(now), Ok(PollAnswer::Page(polled)));
        let (_, told) = until_asked(&mut machine, now);
        let planned = told.iter().any(|output| matches!(output, PollOutput::Planned(_)));
        assert_eq!(planned, !asks, "case {n}");
    }
}

/// It was brought by its name already: twice in the plan it would be claimed twice.
#[test]
fn what_was_changed_here_and_is_late_elsewhere_is_planned_once() {
    let mut machine = beside_another(1_000_000);
    let entry = cron(1, "0 * * * * ?", 990_000);
    machine.receive(at(1_000_000), PollInput::Changed(entry.name.to_string()));
    let (now, _) = asked(&mut machine, 1_000_000);
    machine.done(at(now), Ok(PollAnswer::Page(late(now, vec![entry.clone()]))));
    let (now, _) = asked(&mut machine, now);
    machine.done(at(now), Ok(PollAnswer::Page(late(now, vec![entry]))));
    let (_, told) = until_asked(&mut machine, now);
    let planned = told.iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
    assert_eq!(planned.map(|planned| planned.occurrences.len()), Some(1));
}

/// What the machine does next: a store call, and when.
pub(super) fn call(machine: &mut PollMachine, mut now: Millis) -> (Millis, PollOp) {
    loop {
        match machine.next(at(now)) {
            Step::Do(op @ PollOp::Decode(_)) => decode(machine, now, op),
            Step::Do(op) => return (now, op),
            Step::Tell(_) => {}
            Step::Wait(until) => now = now.max(until),
            Step::Stop => panic!("stopped"),
        }
    }
}

pub(super) fn planned(told: Vec<PollOutput>) -> Planned {
    let planned =
        told.into_iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
    planned.expect("a plan")
}

/// What a call that fails has left of the page's size.
#[test]
fn a_poll_that_fails_halves_the_page_and_one_that_does_not_doubles_it() {
    let mut machine = machine(1_000_000);
    let mut now = 1_000_000;
    let mut limits = Vec::new();
    for n in 0..20 {
        let query;
        (now, query) = asked(&mut machine, now);
        limits.push(query.limit);
        let failed = Err(Error::new(Kind::Unknown, "no answer"));
        machine.done(at(now), if n < 10 { failed } else { Ok(PollAnswer::Page(answer(now, Vec::new()))) });
    }
    let falling = [25_000, 12_500, 6_250, 3_125, 1_562, 781, 390, 195, 97, 64];
    let rising = [64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 25_000];
    assert_eq!(limits, [falling, rising].concat());
}

fn lane(job: i64) -> Lane {
    Lane { job, shard: 0, after: (-1, 0), until: 0 }
}

fn lanes(query: &PollQuery) -> Vec<i64> {
    let Due::Lanes(lanes) = &query.page.schedules else { return Vec::new() };
    lanes.iter().map(|lane| lane.job).collect()
}

/// Then it plans what it has, and the next begins where this one stopped.
#[test]
fn a_poll_begins_no_page_when_its_time_is_over() {
    let mut machine = machine(1_000_000);
    machine.limit = 2;
    let page = |jobs: &[i64], walked| Page {
        schedules: Due::Lanes(jobs.iter().copied().map(lane).collect()),
        pendings: walked,
        newest: false,
    };
    let (sent, first) = asked(&mut machine, 1_000_000);
    assert_eq!(first.page, Page::FIRST);
    let next = Some(page(&[1, 2, 3, 4, 5], (7, 7)));
    machine.done(at(sent), Ok(PollAnswer::Page(Polled { next, ..answer(sent, Vec::new()) })));
    let (now, second) = asked(&mut machine, sent);
    assert_eq!((now, lanes(&second), second.page.pendings), (sent, vec![1, 2, 3, 4, 5], (7, 7)));
    let next = Some(page(&[3, 4, 5, 1], (8, 8)));
    let now = sent + PATIENCE;
    let rows = vec![cron(1, "0 * * * * ?", 990_000)];
    machine.done(at(now), Ok(PollAnswer::Page(Polled { next: next.clone(), ..answer(sent, rows) })));
    let (_, told) = until_asked(&mut machine, now);
    let plan = planned(told);
    assert_eq!((plan.occurrences.len(), plan.complete), (1, false));
    let covered = Covered { schedules: false, pendings: (Page::FIRST.pendings, (8, 8)), ..Covered::ALL };
    assert_eq!(plan.covered, covered);

    let (now, third) = asked(&mut machine, now);
    assert_eq!(third.page, Page { pendings: (8, 8), newest: true, ..Page::FIRST });
    let next = Some(page(&[1, 2, 3, 4, 5], Page::END));
    machine.done(at(now), Ok(PollAnswer::Page(Polled { next, ..answer(now, Vec::new()) })));
    let (_, fourth) = asked(&mut machine, now);
    assert_eq!((lanes(&fourth), third.limit), (vec![3, 4, 5, 1, 2], 4), "two lanes were asked before");
}

fn large(id: i64, job: &str, next: Millis) -> Entry {
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
    let mut machine = machine(1_000_000);
    let (mut now, _) = asked(&mut machine, 1_000_000);
    let heavy = (0..400).map(|id| large(id, "heavy", 990_000 + id));
    let ticking = large(1_000, "ticking", 1_000_500);
    let entries: Vec<Entry> = heavy.chain([ticking, cron(2_000, "0 * * * * ?", 1_001_000)]).collect();
    let sizes = entries[..401].iter().map(|entry| (entry.id, 200_000)).collect();
    machine.done(at(now), Ok(PollAnswer::Page(Polled { large: sizes, ..answer(now, entries) })));
    let mut fetched = Vec::new();
    let told = loop {
        let op = match machine.next(at(now)) {
            Step::Do(PollOp::Payloads(schedules)) => schedules,
            Step::Do(op) => {
                decode(&mut machine, now, op);
                break Vec::new();
            }
            _ => panic!("payloads are to be fetched"),
        };
        assert!(op.len() * 200_000 <= PAGE_BYTES, "{} in one call", op.len());
        now += 1;
        machine.done(at(now), Ok(PollAnswer::Payloads(op.iter().map(|id| payload(id.0, 0)).collect())));
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
    let mut machine = machine(1_000_000);
    let (now, _) = asked(&mut machine, 1_000_000);
    let entries = vec![large(1, "job", 990_000), large(2, "job", 991_000), large(3, "job", 992_000)];
    let large = entries.iter().map(|entry| (entry.id, 2_000)).collect();
    machine.done(at(now), Ok(PollAnswer::Page(Polled { large, ..answer(now, entries) })));
    let (_, op) = call(&mut machine, now);
    assert!(matches!(op, PollOp::Payloads(ids) if ids.len() == 3));
    machine.done(at(now), Ok(PollAnswer::Payloads(vec![payload(1, 0), payload(3, 1)])));
    let plan = planned(until_asked(&mut machine, now).1);
    let ids: Vec<i64> = plan.occurrences.iter().map(|it| it.entry.id.0).collect();
    assert_eq!((ids, plan.complete), (vec![1], false));
}

/// Beyond its time a poll fetches one batch in any case, or none would ever come.
#[test]
fn a_slow_poll_fetches_some_large_payloads_and_fewer_after_a_failure() {
    let mut machine = machine(1_000_000);
    let poll = |machine: &mut PollMachine, now| {
        let (now, _) = asked(machine, now);
        let entries: Vec<Entry> = (0..100).map(|id| large(id, "job", now - 1_000)).collect();
        let large = entries.iter().map(|entry| (entry.id, 200_000)).collect();
        let late = now + PATIENCE;
        machine.done(at(late), Ok(PollAnswer::Page(Polled { large, ..answer(now, entries) })));
        let (_, PollOp::Payloads(ids)) = call(machine, late) else { panic!("some are to be fetched") };
        (late, ids)
    };
    let (now, ids) = poll(&mut machine, 1_000_000);
    assert_eq!(ids.len(), 20);
    let error = Error::new(Kind::Unknown, "no answer within 3 s");
    machine.done(at(now), Err(error));
    let (now, ids) = poll(&mut machine, now);
    assert_eq!(ids.len(), 10);
    machine.done(at(now), Ok(PollAnswer::Payloads(ids.iter().map(|id| payload(id.0, 0)).collect())));
    let plan = planned(until_asked(&mut machine, now).1);
    assert_eq!((plan.occurrences.len(), plan.complete), (10, false));
}

/// Or it would bring nothing, and the next one neither.
#[test]
fn a_page_that_does_not_hold_all_rows_is_followed_by_another_however_long_it_took() {
    let mut machine = machine(1_000_000);
    let (now, _) = asked(&mut machine, 1_000_000);
    let next = Some(Page { schedules: Due::Lanes(vec![lane(1)]), pendings: Page::END, newest: false });
    let late = now + 2 * PATIENCE;
    machine.done(at(late), Ok(PollAnswer::Page(Polled { next, ..answer(now, Vec::new()) })));
    let (again, query) = asked(&mut machine, late);
    assert_eq!((again, lanes(&query)), (late, vec![1]));
}

/// A table of PENDING executions that nobody here runs, but for one that became due last; a page takes so
/// long.
struct Waiting {
    keys: Vec<(Millis, i64)>,
    own: Pending,
    takes: Millis,
}

impl Waiting {
    fn new(others: i64, takes: Millis) -> Self {
        let entry = Arc::new(cron(1, "0 * * * * ?", 1_060_000));
        let id = ExecutionId(others + 1);
        let token = Token::fresh();
        let own = Pending { id, entry, scheduled: 1_000_000, due: 1_000_000, attempt: 2, origin: 0, token };
        let keys = (1..=others).map(|id| (900_000, id)).chain([(own.due, id.0)]).collect();
        Self { keys, own, takes }
    }

    fn answer(&self, query: &PollQuery, now: Millis) -> Polled {
        let Page { pendings: after, newest, .. } = query.page;
        let behind: Vec<_> = self.keys.iter().filter(|key| **key > after && key.0 < query.until).collect();
        let more = behind.len().saturating_sub(query.limit);
        let page = if newest { &behind[more..] } else { &behind[..behind.len() - more] };
        let edge = if newest { page.first() } else { page.last() };
        let has_own = page.last().is_some_and(|key| **key == (self.own.due, self.own.id.0));
        let next = Page::behind(Vec::new(), edge.filter(|_| more > 0).map(|key| **key));
        let pendings = has_own.then(|| self.own.clone()).into_iter().collect();
        Polled { pendings, next, ..answer(now, Vec::new()) }
    }

    /// One poll of a machine: the page asked for, and what it planned.
    fn poll(&self, machine: &mut PollMachine, now: Millis) -> (Vec<PollQuery>, Planned) {
        let (mut now, mut query) = asked(machine, now);
        let mut queries = Vec::new();
        loop {
            queries.push(query.clone());
            now += self.takes;
            machine.done(at(now), Ok(PollAnswer::Page(self.answer(&query, now))));
            let mut told = Vec::new();
            loop {
                match machine.next(at(now)) {
                    Step::Do(PollOp::Page(next)) if told.is_empty() => query = next,
                    Step::Do(op @ PollOp::Decode(_)) => {
                        decode(machine, now, op);
                        continue;
                    }
                    Step::Do(PollOp::Look(_)) => {
                        told_earliest(machine, now, None);
                        continue;
                    }
                    Step::Tell(output) => {
                        told.push(output);
                        continue;
                    }
                    _ => return (queries, planned(told)),
                }
                break;
            }
        }
    }
}

/// A retry or recovery would wait for minutes behind what nobody runs.
#[test]
fn what_is_new_does_not_wait_for_a_long_walk() {
    for takes in [300, 2 * PATIENCE] {
        let waiting = Waiting::new(1_000_000, takes);
        let mut machine = machine(1_000_000);
        let (mut found, mut walked, mut last) = (Vec::new(), 0, Page::FIRST.pendings);
        for poll in 1..=20 {
            let (_, plan) = waiting.poll(&mut machine, 1_000_000 + poll * PERIOD);
            assert!(plan.pendings.len() <= 1, "brought twice");
            assert_eq!(plan.pendings.len() == 1, plan.covered.has(&waiting.own));
            found.push(plan.pendings.len());
            walked += i32::from(machine.walked > last);
            last = machine.walked;
        }
        let gap = found.split(|found| *found == 1).map(<[usize]>::len).max().unwrap();
        assert!(gap <= 1, "found by {found:?}");
        assert!(walked >= 9, "the walk went on {walked} times of 20");
    }
}

/// What the newest page has brought is not brought again by the walk's last page.
#[test]
fn a_walk_ends_where_the_newest_begin() {
    let waiting = Waiting::new(60_000, PATIENCE / 2);
    let mut machine = machine(1_000_000);
    let mut polls = Vec::new();
    for poll in 1..=4 {
        let (queries, plan) = waiting.poll(&mut machine, 1_000_000 + poll * PERIOD);
        let newest: Vec<bool> = queries.iter().map(|query| query.page.newest).collect();
        polls.push((newest, plan.pendings.len(), plan.complete));
    }
    assert_eq!(
        polls,
        [
            (vec![false, false], 0, false),
            // The 10,001 behind those are one page.
            (vec![true], 1, true),
            (vec![true, false], 1, false),
            // 25,000 of the 35,001 behind the last walk, and the others before them.
            (vec![true, false], 1, true),
        ]
    );
}

pub(super) fn told_earliest(machine: &mut PollMachine, now: Millis, earliest: Option<Millis>) {
    let late = earliest.is_some();
    machine.done(at(now), Ok(PollAnswer::Page(Polled { late, earliest, ..answer(now, Vec::new()) })));
}
