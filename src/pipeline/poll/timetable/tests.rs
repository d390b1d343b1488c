use uuid::Uuid;

use super::*;
use crate::domain::Event;
use crate::machine::Step;
use crate::pipeline::poll::calls::Answer;
use crate::pipeline::poll::tests::{PERIOD, answer, at, machine, sample, tell, until_asked};
use crate::pipeline::poll::{PollInput, PollOutput};
use crate::store::Polled;

fn ticks(told: &[PollOutput]) -> impl Iterator<Item = Millis> {
    told.iter().filter_map(|output| match output {
        PollOutput::Event(Event::Polled { tick, .. }) => tick.map(|tick| tick.timestamp_millis()),
        _ => None,
    })
}

#[test]
fn polls_stay_on_the_grid_over_100_hours_of_random_delays() {
    const HOURS: Millis = 100 * 3_600_000;
    let begin = Timestamp::at(1_767_225_601_234);
    let mut machine = machine(begin);
    let phase = machine.timetable.ticker.phase;
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
        tell(&mut machine, now, answer(now, Vec::new()));
    }
    let periods = u64::try_from(HOURS / PERIOD).unwrap();
    assert!(skipped > 100, "the delays never overran");
    assert!(periods.abs_diff(on_grid + skipped) <= 4, "{on_grid} polled + {skipped} left out of {periods}");
}

#[test]
fn an_overrun_leaves_ticks_out_and_says_so() {
    let mut ticker = Ticker::new(PERIOD, 0, Timestamp::at(1));
    assert_eq!(ticker.tick(Timestamp::at(4_999)), None);
    assert_eq!(ticker.tick(Timestamp::at(5_003)), Some((Timestamp::at(5_000), 0)));
    assert_eq!(ticker.tick(Timestamp::at(21_000)), Some((Timestamp::at(20_000), 2)));
    assert_eq!(ticker.next, Timestamp::at(25_000));
}

#[test]
fn extra_polls_never_move_the_grid() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let (first, _) = until_asked(&mut machine, Timestamp::at(1_000_000));
    assert_eq!(first, Timestamp::at(1_000_000), "a node polls at once when it starts");
    machine.done(at(first), Ok(Answer::Page(answer(first, Vec::new()))));
    let grid = machine.timetable.next_tick();
    machine.receive(at(first + 500), PollInput::Wake);
    let (extra, _) = until_asked(&mut machine, first + 500);
    assert!(extra < grid);
    machine.done(at(extra), Ok(Answer::Page(answer(extra, Vec::new()))));
    assert_eq!(until_asked(&mut machine, extra).0, grid);
}

/// An execution that is enqueued right behind another begins soon, too; many in a row share polls.
#[test]
fn pauses_behind_extra_polls_grow_and_begin_anew_after_a_rest() {
    let mut machine = machine(Timestamp::at(1_000_000));
    let mut pauses = Vec::new();
    let mut now = Timestamp::at(1_000_000);
    for rest in [0, 0, 0, 0, 0, 0, 999, 0, 1_000, 0] {
        let (asked, _) = until_asked(&mut machine, now + rest);
        pauses.push(asked - now);
        now = asked;
        machine.done(at(now), Ok(Answer::Page(answer(now, Vec::new()))));
        machine.receive(at(now), PollInput::Wake);
    }
    assert_eq!(pauses, [0, 10, 20, 40, 80, 100, 999, 100, 1_000, 10]);
}

#[test]
fn a_retry_is_looked_for_before_it_is_due_and_once_with_others() {
    let polled_at = |retries: &[Millis]| {
        let mut machine = machine(Timestamp::at(1_000_000));
        let (first, _) = until_asked(&mut machine, Timestamp::at(1_000_000));
        machine.done(at(first), Ok(Answer::Page(answer(first, Vec::new()))));
        retries.iter().for_each(|due| machine.receive(at(first), PollInput::Retry(first + *due)));
        let (extra, _) = until_asked(&mut machine, first);
        machine.done(at(extra), Ok(Answer::Page(answer(extra, Vec::new()))));
        [extra, until_asked(&mut machine, extra).0].map(|at| at - first)
    };
    assert_eq!(polled_at(&[2_000, 1_000, 1_050]), [900, PERIOD]);
    assert_eq!(polled_at(&[0]), [FIRST_EXTRA_PAUSE, PERIOD], "no sooner behind the last poll than any other");
    assert_eq!(polled_at(&[PERIOD]), [PERIOD, 2 * PERIOD], "the tick comes in time");
}

#[test]
fn a_backward_clock_step_does_not_sleep_for_hours() {
    let day = Timestamp::at(86_400_000);
    let mut ticker = Ticker::new(PERIOD, 0, day);
    assert_eq!(ticker.tick(day - 3_600_000), None);
    assert_eq!(ticker.next, day - 3_600_000 + PERIOD);

    let mut machine = machine(day);
    let (asked, _) = until_asked(&mut machine, day);
    machine.done(at(asked), Ok(Answer::Page(answer(asked, Vec::new()))));
    let (asked, _) = until_asked(&mut machine, asked);
    let time = sample(asked.millis(), asked.millis() - 3_600_000);
    machine.done(at(asked), Ok(Answer::Page(Polled { time, ..answer(asked, Vec::new()) })));
    // The correction comes before what was planned by it, and so does word that the plan is gone.
    let (mut boot, mut step, mut told) = (asked.millis(), 0, Vec::new());
    let again = loop {
        match machine.next(Now { db: Timestamp::at(boot + step), boot: Boot::at(boot), apart: 0 }) {
            Step::Do(_) => break boot,
            Step::Tell(PollOutput::Offset(offset)) => step = offset.millis(),
            Step::Tell(PollOutput::Jumped) => told.push("jumped"),
            Step::Tell(PollOutput::Planned(_)) => told.push("planned"),
            Step::Tell(_) => {}
            Step::Wait(until) => boot = until.millis(),
            Step::Stop => panic!("stopped"),
        }
    };
    assert_eq!((step, told), (-3_600_000, vec!["jumped", "planned"]));
    assert!(again - asked.millis() <= PERIOD, "polled again after {} ms", again - asked.millis());
}

/// Full polls rest for longer and longer; between them short ones, as often as they are cheap.
#[test]
fn a_steady_stream_of_news_is_polled_for_all_the_time() {
    // Its ticks lie behind all that happens here: one among them would be a poll of its own.
    let (begin, node) = (Timestamp::at(1_000_000), NodeId(Uuid::from_u128(4_000)));
    let now = |after: Millis| at(begin + after);
    let mut timetable = Timetable::new(node, PERIOD, now(0));
    let (mut after, mut full, mut short) = (0, 0, 0);
    while after < 1_000 {
        timetable.heard();
        let is_short = match timetable.next(now(after)) {
            Next::Begin { .. } => false,
            Next::Short => true,
            Next::Wait(until) => {
                after = until.millis() - begin.millis();
                continue;
            }
        };
        (full, short) = if is_short { (full, short + 1) } else { (full + 1, short) };
        let sent = now(after).boot;
        after += 2;
        timetable.ended(now(after), sent, 10, is_short);
    }
    assert!((9..=14).contains(&full) && (45..=55).contains(&short), "{full} polls, {short} short ones");
    // Nobody tells of more, but there may be.
    timetable.found(now(after));
    let mut follow = Vec::new();
    loop {
        match timetable.next(now(after)) {
            Next::Short => {
                follow.push(after);
                timetable.ended(now(after), now(after).boot, 0, true);
            }
            Next::Begin { .. } => timetable.ended(now(after), now(after).boot, 0, false),
            Next::Wait(until) if until > now(after + 1_000).boot => break,
            Next::Wait(until) => after = until.millis() - begin.millis(),
        }
    }
    assert!((3..=5).contains(&follow.len()), "{follow:?}");
}
