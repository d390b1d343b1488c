use std::collections::{HashMap, VecDeque};

use super::timetable::FIRST_EXTRA_PAUSE;
use super::*;
use crate::domain::shards::Member;
use crate::domain::{Boot, ErrorKind};
use crate::fixtures::{calls_while_down, cron};
use crate::machine::{Operation, Stepped};
use crate::store::memory::MemoryStore;
use crate::store::news::Glance;
use crate::time::{Micros, TimeSample};

pub(super) const PERIOD: Millis = 5_000;

/// Nobody glances at the database.
const NEVER: Millis = Millis::MAX;

struct Strict;

impl Catalog for Strict {
    fn jobs(&self) -> Vec<String> {
        vec!["job".to_owned()]
    }

    fn decodes(&self, _job: &str, payload: &str) -> Result<(), String> {
        if payload == "null" { Ok(()) } else { Err("no such field".to_owned()) }
    }

    fn clock(&self) -> Micros {
        Micros::ZERO
    }
}

pub(super) fn at(time: Timestamp) -> Now {
    Now { db: time, boot: Boot::at(time.millis()), apart: 0 }
}

/// One that does not look at all overdue schedules.
pub(super) fn machine(now: Timestamp) -> Stepped<PollMachine> {
    let mut machine = glancing_every(now, NEVER);
    machine.receive(at(now), PollInput::Told(true));
    machine
}

/// One that glances at the database so often.
fn glancing_every(now: Timestamp, glance: Millis) -> Stepped<PollMachine> {
    // A node whose phase on the grid is 0.
    Stepped::new(PollMachine::new(
        NodeId(uuid::Uuid::nil()),
        "app".to_owned(),
        Arc::new(Strict),
        Window::default(),
        glance,
        Offset::new(sample(now.millis(), now.millis())),
        at(now),
    ))
}

/// The database told this instant within no time.
pub(super) fn sample(host: Millis, database: Millis) -> TimeSample {
    let [host, told] = [host, database].map(Micros::of_millis);
    TimeSample { asked: host, told, answered: host }
}

pub(super) fn answer(now: Timestamp, entries: Vec<Entry>) -> Polled {
    Polled {
        unlisted: false,
        expects: false,
        time: sample(now.millis(), now.millis()),
        app_enabled: true,
        node_enabled: true,
        drains: false,
        pause_ended: false,
        requested: false,
        election: None,
        late: false,
        earliest: None,
        earliest_pending: None,
        rows: entries.len(),
        entries: entries.into_iter().map(Arc::new).collect(),
        pendings: Vec::new(),
        large: HashMap::new(),
        next: None,
    }
}

/// Decodes within no time.
pub(super) fn decode(machine: &mut Stepped<PollMachine>, now: Timestamp, op: Op) {
    machine.done(at(now), op.perform(&MemoryStore::new(Timestamp::at(0))));
}

/// Runs until the next poll is asked for; gives when, and what was told on the way.
pub(super) fn until_asked(
    machine: &mut Stepped<PollMachine>,
    mut now: Timestamp,
) -> (Timestamp, Vec<PollOutput>) {
    let mut told = Vec::new();
    loop {
        match machine.next(at(now)) {
            Step::Do(op @ Op::Decode(_)) => decode(machine, now, op),
            Step::Do(_) => return (now, told),
            Step::Tell(output) => told.push(output),
            Step::Wait(until) => now = now.max(Timestamp::at(until.millis())),
            Step::Stop => panic!("stopped"),
        }
    }
}

/// One whose answers take longer than the step.
#[test]
fn a_slow_comparison_is_no_step_of_the_clock() {
    let mut machine = machine(Timestamp::at(1_000_000));
    for round_trip in [0, 2_900, 0] {
        let (now, _) = until_asked(&mut machine, Timestamp::at(1_000_000));
        let exact = sample(now.millis(), now.millis());
        let time = TimeSample { asked: exact.asked - Micros::of_millis(round_trip), ..exact };
        machine.done(at(now), Ok(Answer::Page(Polled { time, ..answer(now, Vec::new()) })));
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
    for kind in [ErrorKind::Unavailable, ErrorKind::Unknown, ErrorKind::Refused] {
        let calls = calls_while_down(
            &mut machine(Timestamp::at(1_000_000)).machine,
            Timestamp::at(1_000_000),
            kind,
            || Some(PollInput::Wake),
        );
        assert!((20..=75).contains(&calls), "{calls} polls in a minute");
    }
}

#[test]
fn overdue_rows_are_visible_to_the_poll() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (now, _) = until_asked(&mut machine, Timestamp::at(1_000_000));
    machine.done(at(now), Ok(Answer::Page(answer(now, vec![cron(1, "0 * * * * ?", now - 30_000)]))));
    let (_, told) = until_asked(&mut machine, now);
    let planned = told.iter().find_map(|output| match output {
        PollOutput::Planned(planned) => planned.occurrences.first(),
        _ => None,
    });
    assert_eq!(planned.map(|it| it.at), Some(now - 30_000));
}

#[test]
fn a_payload_nobody_here_can_decode_is_left_alone_and_said_once() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let mut odd = cron(1, "* * * * * ?", Timestamp::at(1_001_000));
    odd.payload = Arc::from("{}");
    let mut said = 0;
    let mut now = Timestamp::at(1_000_000);
    for _ in 0..3 {
        now = until_asked(&mut machine, now).0;
        machine.done(at(now), Ok(Answer::Page(answer(now, vec![odd.clone()]))));
        let (_, told) = until_asked(&mut machine, now);
        said += told.iter().filter(|it| matches!(it, PollOutput::Event(Event::Undecodable { .. }))).count();
        let planned =
            told.iter().any(|it| matches!(it, PollOutput::Planned(plan) if !plan.occurrences.is_empty()));
        assert!(!planned);
    }
    assert_eq!(said, 1);
}

/// A job's rows, brought again by each poll: when it polled, how many it decoded, how many it planned.
fn polls(machine: &mut Stepped<PollMachine>, most: Micros, count: usize) -> Vec<(Millis, usize, usize)> {
    let entries: Vec<Entry> = (1..=10).map(|id| cron(id, "0 * * * * ?", Timestamp::at(1_000_000))).collect();
    let mut now = Timestamp::at(1_000_000);
    let mut polls = Vec::new();
    for _ in 0..count {
        now = asked(machine, now).0;
        machine.done(at(now), Ok(Answer::Page(answer(now, entries.clone()))));
        let mut decoded = 0;
        let mut told = Vec::new();
        loop {
            match machine.next(at(now)) {
                Step::Do(Op::Decode(mut op)) => {
                    decoded = op.jobs.iter().map(VecDeque::len).sum();
                    op.most = most;
                    decode(machine, now, Op::Decode(op));
                }
                Step::Tell(output) => told.push(output),
                _ => break,
            }
        }
        polls.push((now - Timestamp::at(1_000_000), decoded, planned(told).occurrences.len()));
    }
    polls
}

#[test]
fn what_is_known_is_not_decoded_again() {
    assert_eq!(
        polls(&mut machine(Timestamp::at(1_000_000)), Micros::of(1), 2),
        [(0, 10, 10), (PERIOD, 0, 10)]
    );
}

/// Another poll follows soon, and each decodes something.
#[test]
fn what_there_was_no_time_to_decode_is_cut_off() {
    let polled = polls(&mut machine(Timestamp::at(1_000_000)), Micros::ZERO, 11);
    let instants = [0, 10, 30, 70, 150, 250, 350, 450, 550, 650];
    let expected = instants.into_iter().enumerate().map(|(n, at)| (at, 10 - n, n + 1));
    assert_eq!(polled[..10], expected.collect::<Vec<_>>());
    assert_eq!(polled[10], (PERIOD, 0, 10));
}

#[test]
fn a_poll_whose_decoding_hangs_plans_what_is_known() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let known = cron(1, "0 * * * * ?", Timestamp::at(1_000_000));
    let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    machine.done(at(now), Ok(Answer::Page(answer(now, vec![known.clone()]))));
    let (now, _) = asked(&mut machine, now);
    let hangs = cron(2, "0 * * * * ?", Timestamp::at(1_000_000));
    machine.done(at(now), Ok(Answer::Page(answer(now, vec![known, hangs]))));
    let Step::Do(Op::Decode(op)) = machine.next(at(now)) else { panic!("something is new") };
    op.hang(&op.jobs[0][0]);
    machine.done(at(now + 3_000), Err(Error::new(ErrorKind::Unknown, "no answer within 3 s")));
    let (_, told) = until_asked(&mut machine, now + 3_000);
    assert!(told.iter().any(|it| matches!(it, PollOutput::Event(Event::Undecodable { .. }))));
    assert!(!told.iter().any(|it| matches!(it, PollOutput::Event(Event::StoreFailed { .. }))));
    let plan = planned(told);
    assert_eq!((plan.occurrences.len(), plan.complete), (1, true), "it is not worth another poll");
}

/// Beside one other node.
pub(super) fn beside_another(now: Timestamp) -> Stepped<PollMachine> {
    let mut machine = machine(now);
    let other =
        Member { id: NodeId(uuid::Uuid::from_u128(1)), jobs: vec!["job".to_owned()], blocked: Vec::new() };
    machine.receive(at(now), PollInput::Members(vec![other]));
    machine
}

/// What the next poll asks for, and when.
pub(super) fn asked(machine: &mut Stepped<PollMachine>, mut now: Timestamp) -> (Timestamp, PollQuery) {
    loop {
        match machine.next(at(now)) {
            Step::Do(Op::Page(query)) => return (now, query),
            Step::Do(op @ Op::Decode(_)) => decode(machine, now, op),
            Step::Do(Op::Look(_)) => told_earliest(machine, now, None),
            Step::Do(Op::Payloads(_)) => panic!("nothing is large"),
            Step::Do(Op::Glance(_)) => panic!("who is told does not glance"),
            Step::Tell(_) => {}
            Step::Wait(until) => now = now.max(Timestamp::at(until.millis())),
            Step::Stop => panic!("stopped"),
        }
    }
}

pub(super) fn shards(query: &PollQuery) -> Vec<i64> {
    query.shares.iter().flat_map(|share| share.shards.clone()).collect()
}

pub(super) fn planned(told: Vec<PollOutput>) -> PollPlan {
    let planned =
        told.into_iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
    planned.expect("a plan")
}

pub(super) fn told_earliest(machine: &mut Stepped<PollMachine>, now: Timestamp, earliest: Option<Timestamp>) {
    let late = earliest.is_some();
    tell(machine, now, Polled { late, earliest, ..answer(now, Vec::new()) });
}

/// Answers the page or the look that is under way.
pub(super) fn tell(machine: &mut Stepped<PollMachine>, now: Timestamp, polled: Polled) {
    let is_look = matches!(machine.asked, Some(Asked::Look(_)));
    machine.done(at(now), Ok(if is_look { Answer::Look(polled) } else { Answer::Page(polled) }));
}

/// Nobody may believe that the node has begun to drain while it may still claim.
#[test]
fn a_drain_is_told_behind_the_plan_that_ends_the_claims() {
    let mut machine = machine(Timestamp::at(1_002_500));
    let _ = asked(&mut machine, Timestamp::at(1_002_500));
    let drains = Polled { drains: true, node_enabled: false, ..answer(Timestamp::at(1_005_000), Vec::new()) };
    machine.done(at(Timestamp::at(1_005_000)), Ok(Answer::Page(drains)));
    let told: Vec<PollOutput> = std::iter::from_fn(|| match machine.next(at(Timestamp::at(1_005_000))) {
        Step::Tell(output) => Some(output),
        _ => None,
    })
    .collect();
    let [.., PollOutput::Planned(plan), PollOutput::Drain(true)] = &told[..] else {
        panic!("{} outputs", told.len())
    };
    assert!(!plan.enabled);
}

const NO_NEWS: News = News { work: false, cancel: false, members: false, request: false };
const SEEN: Glance =
    Glance { marks: Marks { run: 7, audit: 3, request: 2, told: Timestamp::at(5) }, news: NO_NEWS };

/// Runs until a poll or a glance is asked for: when, and behind which marks if it is a glance.
fn glanced(
    machine: &mut Stepped<PollMachine>,
    mut now: Timestamp,
) -> (Timestamp, Option<Marks>, Vec<PollOutput>) {
    let mut told = Vec::new();
    loop {
        match machine.next(at(now)) {
            Step::Do(Op::Glance(query)) => return (now, Some(query.after), told),
            Step::Do(_) => return (now, None, told),
            Step::Tell(output) => told.push(output),
            Step::Wait(until) => now = now.max(Timestamp::at(until.millis())),
            Step::Stop => panic!("stopped"),
        }
    }
}

/// One whose first poll, at a tick, has ended, and whose first glance has brought it another.
fn glancing() -> (Stepped<PollMachine>, Timestamp) {
    let mut machine = glancing_every(Timestamp::at(1_000_000), 200);
    let (now, _, _) = glanced(&mut machine, Timestamp::at(1_000_000));
    machine.done(at(now), Ok(Answer::Page(answer(now, Vec::new()))));
    let (now, after, _) = glanced(&mut machine, now);
    assert_eq!(after, Some(Marks::END));
    machine.done(at(now), Ok(Answer::Glance(SEEN)));
    let (now, after, told) = glanced(&mut machine, now);
    assert!(after.is_none() && told.iter().any(|it| matches!(it, PollOutput::CancelAsked)), "nobody can say");
    machine.done(at(now), Ok(Answer::Page(answer(now, Vec::new()))));
    (machine, now)
}

#[test]
fn what_a_glance_finds_wakes_the_poll_and_the_heartbeat() {
    let (mut machine, now) = glancing();
    let (now, after, _) = glanced(&mut machine, now + 200);
    assert_eq!(after, Some(SEEN.marks));
    machine.done(at(now + 3), Ok(Answer::Glance(SEEN)));
    let (now, after, told) = glanced(&mut machine, now + 3);
    assert!(after.is_some() && told.is_empty());
    let news = News { work: true, ..NO_NEWS };
    machine.done(at(now), Ok(Answer::Glance(Glance { news, ..SEEN })));
    let (polled, after, told) = glanced(&mut machine, now);
    assert!((polled, after) == (now, None) && told.is_empty(), "it polls at once");
    machine.done(at(now), Ok(Answer::Page(answer(now, Vec::new()))));
    let (now, after, _) = glanced(&mut machine, now);
    assert!(after.is_some());
    let news = News { cancel: true, ..NO_NEWS };
    machine.done(at(now), Ok(Answer::Glance(Glance { news, ..SEEN })));
    let (_, after, told) = glanced(&mut machine, now);
    assert!(after.is_some() && matches!(told[..], [PollOutput::CancelAsked]), "and does not poll");
    let news = News { members: true, ..NO_NEWS };
    machine.done(at(now), Ok(Answer::Glance(Glance { news, ..SEEN })));
    let (_, after, told) = glanced(&mut machine, now);
    assert!(after.is_none() && matches!(told[..], [PollOutput::MemberTold]), "both");
}

#[test]
fn glances_are_for_what_is_due_before_the_next_poll_brings_it() {
    let (mut machine, now) = glancing();
    while let Step::Tell(_) = machine.next(at(now)) {}
    let Step::Do(Op::Glance(query)) = machine.next(at(now + 200)) else { panic!("a glance is due") };
    assert_eq!(query.until, machine.timetable.next_tick() + 1_000);
    machine.done(at(now + 200), Err(Error::new(ErrorKind::Unavailable, "away")));
    let (again, after, told) = glanced(&mut machine, now + 200);
    assert!(after.is_some() && again == now + 1_200);
    assert!(matches!(
        told[..],
        [PollOutput::Event(Event::StoreFailed { operation: "looking for news", .. })]
    ));
}

#[test]
fn who_is_told_does_not_glance() {
    let (mut machine, now) = glancing();
    machine.receive(at(now), PollInput::Told(true));
    let (polled, after, _) = glanced(&mut machine, now);
    assert_eq!((polled, after), (machine.timetable.next_tick() - PERIOD, None));
    machine.done(at(polled), Ok(Answer::Page(answer(polled, Vec::new()))));
    machine.receive(at(polled), PollInput::Told(false));
    let (now, after, _) = glanced(&mut machine, polled);
    assert_eq!((now, after), (polled, Some(Marks::END)), "what came meanwhile is unknown");
}

/// News comes in time, also right behind the poll of a tick.
#[test]
fn a_poll_of_a_tick_is_followed_at_once() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (first, _) = asked(&mut machine, Timestamp::at(1_000_000));
    machine.done(at(first), Ok(Answer::Page(answer(first, Vec::new()))));
    let (tick, _) = asked(&mut machine, first);
    machine.done(at(tick), Ok(Answer::Page(answer(tick, Vec::new()))));
    for pause in [0, FIRST_EXTRA_PAUSE] {
        machine.receive(at(tick), PollInput::Wake);
        let (now, _) = asked(&mut machine, tick);
        assert_eq!(now, tick + pause);
        machine.done(at(tick), Ok(Answer::Page(answer(tick, Vec::new()))));
    }
}

#[derive(Debug, PartialEq)]
enum Kind {
    Tick,
    Extra,
    Short,
}

/// A backlog that polls bring again and again.
const BACKLOG: usize = SHORT_PAGE + 1;

/// The polls of a node where something changes all the time: when, and of which kind. Each brings so many
/// rows, but short ones none, in a twentieth of the time that others take.
fn polls_with_changes(takes: Millis, rows: usize) -> Vec<(Millis, Kind)> {
    let due = vec![cron(1, "0 * * * * ?", Timestamp::at(1_000_000)); rows];
    let mut machine = machine(Timestamp::at(1_000_000));
    let begin = Timestamp::at(1_000_000);
    let (mut now, mut begun) = (begin, Vec::new());
    while now < begin + 2 * PERIOD {
        machine.receive(at(now), PollInput::Changed("s".to_owned()));
        match machine.next(at(now)) {
            // A poll that took so long and brought nothing is followed by looks.
            Step::Do(Op::Look(_)) => {
                machine.done(at(now), Ok(Answer::Look(answer(now, Vec::new()))));
            }
            Step::Do(op @ Op::Decode(_)) => decode(&mut machine, now, op),
            Step::Do(_) => {
                let Some(Asked::Page(Poll { tick, is_short, .. })) = machine.asked else {
                    panic!("a page is asked for")
                };
                let kind = if tick.is_some() { Kind::Tick } else { Kind::Extra };
                begun.push((now - begin, if is_short { Kind::Short } else { kind }));
                now += if is_short { takes / 20 } else { takes };
                let brought = if is_short { Vec::new() } else { due.clone() };
                machine.done(at(now), Ok(Answer::Page(answer(now, brought))));
            }
            Step::Wait(_) => now += 1,
            Step::Tell(_) | Step::Stop => {}
        }
    }
    begun
}

/// It has brought a backlog, and the next would bring it once more.
#[test]
fn a_long_poll_is_followed_by_a_rest_from_news_but_not_from_ticks() {
    let mut polls = polls_with_changes(200, BACKLOG);
    polls.retain(|(_, kind)| *kind != Kind::Short);
    let (tick, extra) = ((PERIOD + 5, Kind::Tick), |at| (at, Kind::Extra));
    assert_eq!(polls, [extra(0), extra(2_000), extra(4_000), tick, extra(7_005), extra(9_005)]);
    assert!(polls_with_changes(2, BACKLOG).len() > 90, "a quick one is followed soon");
}

/// It reads little again, so news waits no longer than it took twice.
#[test]
fn a_slow_poll_of_few_rows_is_followed_soon() {
    let polls = polls_with_changes(40, 0);
    let extra = |at| (at, Kind::Extra);
    assert_eq!(polls[..4], [extra(0), extra(120), extra(240), extra(360)]);
}

/// What was enqueued behind the backlog may start at once.
#[test]
fn while_a_long_poll_keeps_news_waiting_short_polls_look_for_it() {
    let is_short = |(_, kind): &(Millis, Kind)| *kind == Kind::Short;
    let long = polls_with_changes(200, BACKLOG);
    let shorts: Vec<Millis> = long.iter().filter(|it| is_short(it)).map(|(at, _)| *at).collect();
    assert_eq!(shorts[..5], [210, 240, 270, 300, 330], "a rest of 20 ms each");
    assert!(!polls_with_changes(40, BACKLOG).iter().any(is_short), "others find it soon enough");
}

#[test]
fn a_short_poll_brings_the_newest_of_what_may_start_now() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (now, first) = asked(&mut machine, Timestamp::at(1_000_000));
    machine.done(at(now + 500), Ok(Answer::Page(answer(now + 500, Vec::new()))));
    machine.receive(at(now + 500), PollInput::News);
    let (now, query) = asked(&mut machine, now + 500);
    let page = Page { schedules: DueRows::Sections(Vec::new()), newest: true, ..Page::FIRST };
    assert_eq!((&query.page, query.limit, query.until), (&page, SHORT_PAGE, now + machine.window.lead));
    assert_eq!((query.shares, query.pending_from), (first.shares, now - 1_000));
    let next = Some(Page { schedules: DueRows::Sections(Vec::new()), newest: false, ..Page::FIRST });
    machine.done(at(now), Ok(Answer::Page(Polled { next, ..answer(now, Vec::new()) })));
    let (_, told) = until_asked(&mut machine, now);
    assert_eq!(planned(told).covered, Covered::NOTHING, "what it did not bring stays planned");
}

#[test]
fn what_a_node_itself_wants_does_not_wait_as_news_does() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (now, _) = asked(&mut machine, Timestamp::at(1_000_000));
    let ended = now + 500;
    machine.done(at(ended), Ok(Answer::Page(answer(ended, Vec::new()))));
    machine.receive(at(ended), PollInput::Changed("s".to_owned()));
    machine.receive(at(ended), PollInput::Wake);
    assert_eq!(asked(&mut machine, ended).0, ended + FIRST_EXTRA_PAUSE);
}
