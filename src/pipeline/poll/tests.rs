use super::*;
use crate::clock::TimeSample;
use crate::error::Kind;
use crate::pipeline::fixtures::{calls_while_down, cron};

const PERIOD: Millis = 5_000;

struct Strict;

impl Catalog for Strict {
    fn jobs(&self) -> Vec<String> {
        vec!["job".to_owned()]
    }

    fn decodes(&self, _job: &str, payload: &str) -> Result<(), String> {
        if payload == "null" { Ok(()) } else { Err("no such field".to_owned()) }
    }
}

fn at(time: Millis) -> Now {
    Now { db: time, boot: time, apart: 0 }
}

fn machine(now: Millis) -> PollMachine {
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
fn sample(host: Millis, database: Millis) -> TimeSample {
    TimeSample { asked: 1_000 * host, told: 1_000 * database, answered: 1_000 * host }
}

fn answer(now: Millis, entries: Vec<Entry>) -> Polled {
    Polled {
        time: sample(now, now),
        app_enabled: true,
        node_enabled: true,
        election: None,
        late: false,
        entries: entries.into_iter().map(Arc::new).collect(),
        pendings: Vec::new(),
        next: None,
    }
}

/// Runs until the next poll is asked for; gives when, and what was told on the way.
fn until_asked(machine: &mut PollMachine, mut now: Millis) -> (Millis, Vec<PollOutput>) {
    let mut told = Vec::new();
    loop {
        match machine.next(at(now)) {
            Step::Do(_) => return (now, told),
            Step::Tell(output) => told.push(output),
            Step::Wait(until) => now = now.max(until),
            Step::Stop => panic!("stopped"),
        }
    }
}

fn ticks(told: &[PollOutput]) -> impl Iterator<Item = Millis> {
    told.iter().filter_map(|output| match output {
        PollOutput::Event(Event::Polled { tick, .. }) => *tick,
        _ => None,
    })
}

#[test]
fn polls_stay_on_the_grid_over_100_hours_of_random_delays() {
    const HOURS: Millis = 100 * 3_600_000;
    let begin = 1_767_225_601_234;
    let mut machine = machine(begin);
    let phase = machine.ticker.phase;
    let (mut now, mut seed, mut on_grid, mut skipped) = (begin, 1_u64, 0, 0);
    while now < begin + HOURS {
        let (asked, told) = until_asked(&mut machine, now);
        for tick in ticks(&told) {
            assert_eq!((tick - phase).rem_euclid(PERIOD), 0, "off the grid");
            on_grid += 1;
        }
        for output in &told {
            if let PollOutput::Event(Event::TicksSkipped { count }) = output {
                skipped += *count;
            }
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Mostly a few milliseconds, now and then longer than a period.
        let delay = if (seed >> 33) % 50 == 0 { (seed >> 40) % 17_000 } else { (seed >> 40) % 900 };
        now = asked + i64::try_from(delay).unwrap();
        machine.done(at(now), Ok(answer(now, Vec::new())));
    }
    let periods = u64::try_from(HOURS / PERIOD).unwrap();
    assert!(skipped > 100, "the delays never overran");
    assert!(periods.abs_diff(on_grid + skipped) <= 4, "{on_grid} polled + {skipped} left out of {periods}");
}

#[test]
fn an_overrun_leaves_ticks_out_and_says_so() {
    let mut ticker = Ticker::new(PERIOD, 0, 1);
    assert_eq!(ticker.tick(4_999), None);
    assert_eq!(ticker.tick(5_003), Some((5_000, 0)));
    assert_eq!(ticker.tick(21_000), Some((20_000, 2)));
    assert_eq!(ticker.next(), 25_000);
}

#[test]
fn extra_polls_never_move_the_grid() {
    let mut machine = machine(1_000_000);
    let (first, _) = until_asked(&mut machine, 1_000_000);
    assert_eq!(first, 1_000_000, "a node polls at once when it starts");
    machine.done(at(first), Ok(answer(first, Vec::new())));
    let grid = machine.ticker.next();
    machine.receive(at(first + 500), PollInput::Wake);
    let (extra, _) = until_asked(&mut machine, first + 500);
    assert!(extra < grid);
    machine.done(at(extra), Ok(answer(extra, Vec::new())));
    assert_eq!(until_asked(&mut machine, extra).0, grid);
}

#[test]
fn a_retry_is_looked_for_before_it_is_due_and_once_with_others() {
    let polled_at = |retries: &[Millis]| {
        let mut machine = machine(1_000_000);
        let (first, _) = until_asked(&mut machine, 1_000_000);
        machine.done(at(first), Ok(answer(first, Vec::new())));
        retries.iter().for_each(|due| machine.receive(at(first), PollInput::Retry(first + due)));
        let (extra, _) = until_asked(&mut machine, first);
        machine.done(at(extra), Ok(answer(extra, Vec::new())));
        [extra, until_asked(&mut machine, extra).0].map(|at| at - first)
    };
    assert_eq!(polled_at(&[2_000, 1_000, 1_050]), [900, PERIOD]);
    assert_eq!(polled_at(&[0]), [EXTRA_PAUSE, PERIOD], "no sooner behind the last poll than any other");
    assert_eq!(polled_at(&[PERIOD]), [PERIOD, 2 * PERIOD], "the tick comes in time");
}

#[test]
fn a_backward_clock_step_does_not_sleep_for_hours() {
    let day = 86_400_000;
    let mut ticker = Ticker::new(PERIOD, 0, day);
    assert_eq!(ticker.tick(day - 3_600_000), None);
    assert_eq!(ticker.next(), day - 3_600_000 + PERIOD);

    let mut machine = machine(day);
    let (asked, _) = until_asked(&mut machine, day);
    machine.done(at(asked), Ok(answer(asked, Vec::new())));
    let (asked, _) = until_asked(&mut machine, asked);
    let time = sample(asked, asked - 3_600_000);
    machine.done(at(asked), Ok(Polled { time, ..answer(asked, Vec::new()) }));
    // The correction comes before what was planned by it, and so does word that the plan is gone.
    let (mut boot, mut step, mut told) = (asked, 0, Vec::new());
    let again = loop {
        match machine.next(Now { db: boot + step, boot, apart: 0 }) {
            Step::Do(_) => break boot,
            Step::Tell(PollOutput::Offset(offset)) => step = offset.div_euclid(1_000),
            Step::Tell(PollOutput::Jumped) => told.push("jumped"),
            Step::Tell(PollOutput::Planned(_)) => told.push("planned"),
            Step::Tell(_) => {}
            Step::Wait(until) => boot = until,
            Step::Stop => panic!("stopped"),
        }
    };
    assert_eq!((step, told), (-3_600_000, vec!["jumped", "planned"]));
    assert!(again <= asked + PERIOD, "polled again after {} ms", again - asked);
}

/// One whose answers take longer than the step.
#[test]
fn a_slow_comparison_is_no_step_of_the_clock() {
    let mut machine = machine(1_000_000);
    for round_trip in [0, 2_900, 0] {
        let (now, _) = until_asked(&mut machine, 1_000_000);
        let exact = sample(now, now);
        let time = TimeSample { asked: exact.asked - 1_000 * round_trip, ..exact };
        machine.done(at(now), Ok(Polled { time, ..answer(now, Vec::new()) }));
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
    machine.done(at(now), Ok(answer(now, vec![cron(1, "0 * * * * ?", now - 30_000)])));
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
        machine.done(at(now), Ok(answer(now, vec![odd.clone()])));
        let (_, told) = until_asked(&mut machine, now);
        said += told.iter().filter(|it| matches!(it, PollOutput::Event(Event::Undecodable { .. }))).count();
        let planned =
            told.iter().any(|it| matches!(it, PollOutput::Planned(plan) if !plan.occurrences.is_empty()));
        assert!(!planned);
    }
    assert_eq!(said, 1);
}

fn me() -> NodeId {
    NodeId(uuid::Uuid::nil())
}

/// Beside one other node.
fn beside_another(now: Millis) -> PollMachine {
    let mut machine = machine(now);
    let other = Member { id: NodeId(uuid::Uuid::from_u128(1)), jobs: vec!["job".to_owned()] };
    machine.receive(at(now), PollInput::Members(vec![other]));
    machine
}

/// What the next poll asks for, and when.
fn asked(machine: &mut PollMachine, mut now: Millis) -> (Millis, PollQuery) {
    loop {
        match machine.next(at(now)) {
            Step::Do(op) => return (now, op.0),
            Step::Tell(_) => {}
            Step::Wait(until) => now = now.max(until),
            Step::Stop => panic!("stopped"),
        }
    }
}

fn late(now: Millis, entries: Vec<Entry>) -> Polled {
    Polled { late: true, ..answer(now, entries) }
}

fn shards(query: &PollQuery) -> Vec<i64> {
    query.shares.iter().flat_map(|share| share.shards.clone()).collect()
}

#[test]
fn what_is_late_in_others_shards_is_asked_for_behind_ones_own() {
    let mut machine = beside_another(1_000_000);
    let (now, home) = asked(&mut machine, 1_000_000);
    assert_eq!((shards(&home).len(), home.until > now), (8, true));
    machine.done(at(now), Ok(late(now, Vec::new())));
    let (now, others) = asked(&mut machine, now);
    let mut all = [shards(&home), shards(&others)].concat();
    all.sort_unstable();
    assert_eq!(all, (0..16).collect::<Vec<_>>());
    assert_eq!((others.until, others.page), (now - GRACE, Page::FIRST));
    machine.done(at(now), Ok(late(now, vec![cron(1, "0 * * * * ?", now - 3_000)])));
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
        machine.done(at(now), Ok(polled));
        let (_, told) = until_asked(&mut machine, now);
        let planned = told.iter().any(|output| matches!(output, PollOutput::Planned(_)));
        assert_eq!(planned, !asks, "case {n}");
    }
}

#[test]
fn what_this_process_changed_is_asked_for_whatever_its_shard_until_its_owner_has_polled() {
    let mut machine = beside_another(1_000_000);
    for n in 0..=CHANGED {
        machine.receive(at(1_000_000), PollInput::Changed(format!("schedule-{n}")));
    }
    machine.receive(at(1_000_000), PollInput::Changed("schedule-7".to_owned()));
    let (mut now, query) = asked(&mut machine, 1_000_000);
    assert_eq!((now, query.names.len()), (1_000_000, CHANGED));
    assert_eq!(query.names.last().map(String::as_str), Some("schedule-7"));
    assert!(!query.names.contains(&"schedule-0".to_owned()), "the oldest is left to its owner");
    let mut until = now;
    while !query.names.is_empty() {
        machine.done(at(now), Ok(answer(now, Vec::new())));
        let query;
        (now, query) = asked(&mut machine, now);
        if query.names.is_empty() {
            break;
        }
        until = now;
    }
    assert!((1_005_000..1_010_000).contains(&until), "until {until}");
}

/// It was brought by its name already: twice in the plan it would be claimed twice.
#[test]
fn what_was_changed_here_and_is_late_elsewhere_is_planned_once() {
    let mut machine = beside_another(1_000_000);
    let entry = cron(1, "0 * * * * ?", 990_000);
    machine.receive(at(1_000_000), PollInput::Changed(entry.name.to_string()));
    let (now, _) = asked(&mut machine, 1_000_000);
    machine.done(at(now), Ok(late(now, vec![entry.clone()])));
    let (now, _) = asked(&mut machine, now);
    machine.done(at(now), Ok(late(now, vec![entry])));
    let (_, told) = until_asked(&mut machine, now);
    let planned = told.iter().find_map(|it| if let PollOutput::Planned(it) = it { Some(it) } else { None });
    assert_eq!(planned.map(|planned| planned.occurrences.len()), Some(1));
}

#[test]
fn a_node_that_leaves_or_a_new_name_brings_a_poll_and_other_shards() {
    let mut machine = beside_another(1_000_000);
    let (now, _) = asked(&mut machine, 1_000_000);
    machine.done(at(now), Ok(answer(now, Vec::new())));
    let members = machine.members.clone();
    machine.receive(at(now), PollInput::Members(members));
    assert!(!machine.wanted, "nothing has changed");
    machine.receive(at(now), PollInput::Members(vec![Member { id: me(), jobs: Vec::new() }]));
    let (again, query) = asked(&mut machine, now);
    assert_eq!((again, shards(&query).len()), (now + EXTRA_PAUSE, 16));
    machine.receive(at(now), PollInput::Reborn(NodeId(uuid::Uuid::from_u128(2))));
    assert_eq!(machine.members, [], "one's old name is no other node");
}
