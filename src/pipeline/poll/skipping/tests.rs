use super::*;
use crate::domain::shards::Member;
use crate::domain::{Error, ErrorKind, Event, NodeId};
use crate::machine::{Step, Stepped};
use crate::pipeline::poll::calls::Op;
use crate::pipeline::poll::tests::{PERIOD, answer, asked, at, decode, machine, tell, told_earliest};
use crate::pipeline::poll::{PollInput, PollMachine, PollOutput};
use crate::time::HOME_LEAD;

/// How long a store call may take.
const CALL: Millis = 3_000;

/// What the machine asks for next, and when: (the beginning, whether it is a look at all overdue schedules).
fn next_question(machine: &mut Stepped<PollMachine>, mut now: Timestamp) -> (Timestamp, Timestamp, bool) {
    loop {
        match machine.next(at(now)) {
            Step::Do(Op::Page(query)) => return (now, query.from, false),
            Step::Do(Op::Look(query)) => {
                assert!(query.shares.is_empty() && query.names.is_empty(), "it brings nothing");
                return (now, query.from, true);
            }
            Step::Do(op @ Op::Decode(_)) => decode(machine, now, op),
            Step::Do(Op::Payloads(_)) => panic!("nothing is large"),
            Step::Do(Op::Glance(_)) => panic!("who is told does not glance"),
            Step::Tell(_) => {}
            Step::Wait(until) => now = now.max(Timestamp::at(until.millis())),
            Step::Stop => panic!("stopped"),
        }
    }
}

/// What a question comes to: an answer after so long, or none.
fn comes_after(
    machine: &mut Stepped<PollMachine>,
    now: Timestamp,
    takes: Millis,
    earliest: Option<Timestamp>,
) -> Timestamp {
    told_earliest(machine, now + takes, earliest);
    now + takes
}

fn comes_to_nothing(machine: &mut Stepped<PollMachine>, now: Timestamp) {
    machine.done(at(now), Err(Error::new(ErrorKind::Unknown, "no answer in time")));
}

/// Where polls that skip begin after one that was asked for then and knew of nothing due.
fn before_a_poll(asked: Timestamp) -> Timestamp {
    asked - HOME_LEAD - MARGIN
}

/// A machine whose first poll, at `now`, knew of nothing due and whose second failed.
fn behind_a_failed_poll(now: Timestamp) -> Stepped<PollMachine> {
    let mut machine = machine(now);
    for fails in [false, true] {
        let (now, from, look) = next_question(&mut machine, now);
        assert!((from, look) == (Timestamp::at(0), false), "nothing is skipped without need");
        if fails {
            comes_to_nothing(&mut machine, now)
        } else {
            told_earliest(&mut machine, now, None)
        }
        machine.receive(at(now), PollInput::Wake);
    }
    machine
}

#[test]
fn polls_begin_with_the_first_entry_while_that_is_quick() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = machine(begin);
    for minute in 0..10 {
        let (now, from, look) = next_question(&mut machine, begin + minute * 60_000);
        assert_eq!((from, look), (Timestamp::at(0), false));
        comes_after(&mut machine, now, IN_VAIN, None);
    }
}

/// It has what it took the time for.
#[test]
fn a_poll_that_reads_many_rows_is_slow_later() {
    let polled = |rows, takes| {
        let mut skipping = Skipping::new(&Window::default());
        let polled = Polled { rows, ..answer(Timestamp::at(0), Vec::new()) };
        skipping.polled(
            at(Timestamp::at(1_000_000)),
            Boot::at(1_000_000 - takes),
            Timestamp::at(998_000),
            &polled,
        );
        skipping.floor(at(Timestamp::at(1_000_000))) > Timestamp::at(0)
    };
    assert_eq!([polled(FEW, IN_VAIN + 1), polled(FEW - 1, IN_VAIN + 1)], [false, true]);
    assert_eq!([polled(FEW, CALL / 3), polled(FEW, CALL / 3 + 1)], [false, true]);
}

/// Ten seconds before the present at most, and where the first of them is due.
#[test]
fn polls_that_skip_begin_at_the_first_pending_execution_that_a_poll_or_a_look_saw() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = behind_a_failed_poll(begin);
    let floor = |machine: &PollMachine, now| machine.skipping.pending_floor(at(now));
    assert_eq!(floor(&machine, begin), begin - HOME_LEAD - PENDING_MARGIN);
    let told = |machine: &mut Stepped<PollMachine>, now, earliest_pending| {
        let polled = Polled { earliest_pending, ..answer(now, Vec::new()) };
        tell(machine, now, polled);
    };
    let (mut now, mut looked) = (begin + 60_000, false);
    while !looked {
        let (asked, _, look) = next_question(&mut machine, now);
        (now, looked) = (asked, look);
        // The look takes long, and so does not end the skipping.
        if look {
            told(&mut machine, now + IN_VAIN + 1, Some(begin - 5_000));
        } else {
            told(&mut machine, now, Some(now));
            assert_eq!(floor(&machine, now), now - HOME_LEAD - PENDING_MARGIN);
        }
    }
    assert_eq!(floor(&machine, now), begin - 5_000);
    assert!(machine.timetable.wanted, "a poll brings it");
}

/// However long they stay: an outage, a schedule that nobody claims.
#[test]
fn a_poll_that_skips_begins_where_the_earliest_due_schedule_was() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = behind_a_failed_poll(begin);
    let mut minutes = 0;
    let mut begins = |earliest| loop {
        minutes += 10;
        let (now, from, look) = next_question(&mut machine, begin + minutes * 60_000);
        if look {
            comes_to_nothing(&mut machine, now);
            continue;
        }
        told_earliest(&mut machine, now, earliest);
        return (from, now);
    };
    assert_eq!(begins(Some(begin)).0, before_a_poll(begin));
    assert_eq!(begins(Some(begin)).0, begin);
    let (from, last) = begins(None);
    assert_eq!(from, begin);
    assert_eq!(begins(None).0, before_a_poll(last));
}

/// A schedule created after the last good poll, and due at once, is found by the next good one.
#[test]
fn polls_that_fail_hold_the_beginning_back() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = behind_a_failed_poll(begin);
    for minute in 1..10 {
        let (now, from, _) = next_question(&mut machine, begin + minute * 60_000);
        assert_eq!(from, before_a_poll(begin));
        comes_to_nothing(&mut machine, now);
    }
}

/// A transaction may have begun minutes ago; and nothing at all is known if no poll has ended.
#[test]
fn a_poll_that_skips_looks_back_a_minute_at_least() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = machine(begin);
    let (now, ..) = next_question(&mut machine, begin);
    comes_to_nothing(&mut machine, now);
    let (now, from, _) = next_question(&mut machine, now);
    assert_eq!(from, now - MARGIN);
}

/// Two poll intervals apart, then four, eight, and a minute at last.
#[test]
fn while_looks_fail_or_are_slow_they_come_more_and_more_rarely() {
    let begin = Timestamp::at(10_000_000);
    for slow in [false, true] {
        let mut machine = behind_a_failed_poll(begin);
        let (mut now, mut looks) = (begin, Vec::new());
        while looks.len() < 7 {
            let (asked, _, look) = next_question(&mut machine, now);
            now = asked;
            match (look, slow) {
                (false, _) => told_earliest(&mut machine, now, None),
                (true, false) => comes_to_nothing(&mut machine, now),
                (true, true) => now = comes_after(&mut machine, now, IN_VAIN + 1, None),
            }
            looks.extend(look.then_some((asked - begin) / PERIOD));
        }
        let pauses: Vec<Millis> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses, [2, 2, 4, 8, 12, 12]);
    }
}

#[test]
fn after_a_look_that_is_quick_polls_begin_with_the_first_entry_again() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = behind_a_failed_poll(begin);
    let (now, from, look) = next_question(&mut machine, begin);
    assert!(from > Timestamp::at(0) && !look);
    told_earliest(&mut machine, now, None);
    let (now, from, look) = next_question(&mut machine, now);
    assert_eq!((from, look), (Timestamp::at(0), true));
    comes_after(&mut machine, now, IN_VAIN, None);
    for _ in 0..20 {
        let (now, from, look) = next_question(&mut machine, now + PERIOD);
        assert_eq!((from, look), (Timestamp::at(0), false));
        told_earliest(&mut machine, now, None);
    }
}

/// And the next begins with the first entry no more.
#[test]
fn a_slow_poll_is_followed_by_a_look() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = machine(begin);
    let (slow, ..) = next_question(&mut machine, begin);
    let now = comes_after(&mut machine, slow, CALL / 3 + 1, None);
    let (now, _, look) = next_question(&mut machine, now);
    assert!(look);
    comes_to_nothing(&mut machine, now);
    let (_, from, look) = next_question(&mut machine, now);
    assert_eq!((from, look), (before_a_poll(slow), false));
}

/// Until it has been seen to.
#[test]
fn what_lies_before_the_beginning_is_polled_at_once() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = behind_a_failed_poll(begin);
    let (now, from, _) = next_question(&mut machine, begin);
    assert_eq!(from, before_a_poll(begin));
    told_earliest(&mut machine, now, None);
    let (now, _, look) = next_question(&mut machine, now);
    assert!(look);
    let old = begin - 3_600_000;
    let now = comes_after(&mut machine, now, CALL / 2, Some(old));
    let seen = |machine: &mut Stepped<PollMachine>| match machine.next(at(begin)) {
        Step::Tell(PollOutput::Seen(report)) => Some((report.any_late, report.floor)),
        _ => None,
    };
    assert_eq!(seen(&mut machine), Some((true, old)), "the misfire handler learns of it");
    let mut last = now;
    for earliest in [Some(old), None] {
        let (now, from, look) = next_question(&mut machine, last);
        assert!(now <= begin + 2 * PERIOD && !look);
        assert_eq!(from, old);
        told_earliest(&mut machine, now, earliest);
        machine.receive(at(now), PollInput::Wake);
        last = now;
    }
    let (_, from, _) = next_question(&mut machine, last + PERIOD);
    assert_eq!(from, before_a_poll(last));
}

#[test]
fn a_look_that_fails_costs_no_poll() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = behind_a_failed_poll(begin);
    let (now, ..) = next_question(&mut machine, begin);
    told_earliest(&mut machine, now, None);
    let (now, _, look) = next_question(&mut machine, now);
    assert!(look);
    let limit = machine.bookmark.limit;
    comes_to_nothing(&mut machine, now + 3_000);
    let Step::Tell(PollOutput::Event(Event::StoreFailed { operation, .. })) = machine.next(at(now + 3_000))
    else {
        panic!("nothing is told")
    };
    assert_eq!((operation, machine.bookmark.limit), ("looking for long overdue schedules", limit));
    let tick = machine.timetable.next_tick();
    assert_eq!(next_question(&mut machine, now + 3_000).0, tick, "polls go on as before");
}

/// A look that is given up must not take the next tick's time.
#[test]
fn a_look_waits_for_a_poll_that_leaves_it_time() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = behind_a_failed_poll(begin);
    let (now, ..) = next_question(&mut machine, begin + PERIOD - 1_000);
    assert_eq!(machine.timetable.next_tick(), now + 1_000);
    told_earliest(&mut machine, now, None);
    let (now, _, look) = next_question(&mut machine, now);
    assert!(!look);
    told_earliest(&mut machine, now, None);
    assert!(next_question(&mut machine, now).2);
}

#[test]
fn a_job_that_a_node_lists_anew_is_looked_for_at_once() {
    let begin = Timestamp::at(10_000_000);
    let mut machine = behind_a_failed_poll(begin);
    let (now, ..) = next_question(&mut machine, begin);
    told_earliest(&mut machine, now, None);
    let (mut now, ..) = next_question(&mut machine, now);
    comes_to_nothing(&mut machine, now);
    let mut join = |jobs: &[&str]| {
        let jobs = jobs.iter().map(|job| (*job).to_owned()).collect();
        let other = Member { id: NodeId(uuid::Uuid::from_u128(1)), jobs, blocked: Vec::new() };
        machine.receive(at(now), PollInput::Members(vec![other]));
        let (asked, query) = asked(&mut machine, now);
        told_earliest(&mut machine, asked, None);
        let looks;
        (now, _, looks) = next_question(&mut machine, asked);
        told_earliest(&mut machine, now, None);
        (query.listed, looks)
    };
    assert_eq!(join(&["job"]), (vec!["job".to_owned()], false));
    let (listed, looks) = join(&["another", "job"]);
    assert_eq!((listed, looks), (vec!["another".to_owned(), "job".to_owned()], true));
}
