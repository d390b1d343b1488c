use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn due(at: i64) -> Due {
    Due { at, priority: 0, id: at }
}

fn instants<T>(entries: &[(Due, T)]) -> Vec<i64> {
    entries.iter().map(|(due, _)| due.at).collect()
}

/// A wheel at `now` in which one entry waits for each of `ats`.
fn wheel_at(now: i64, ats: &[i64]) -> Wheel<()> {
    let mut wheel = Wheel::new(now, usize::MAX);
    for &at in ats {
        wheel.insert(due(at), ()).unwrap();
    }
    wheel
}

#[test]
fn what_is_already_due_is_handed_back() {
    let mut wheel = Wheel::new(100, 10);
    assert_eq!(wheel.insert(due(99), "past"), Err(Refused::Elapsed("past")));
    assert_eq!(wheel.insert(due(100), "now"), Err(Refused::Elapsed("now")));
    assert!(wheel.insert(due(101), "next").is_ok());
}

#[test]
fn a_full_wheel_hands_the_item_back_until_there_is_room() {
    let mut wheel = Wheel::new(0, 2);
    let first = wheel.insert(due(5), 'a').unwrap();
    wheel.insert(due(6), 'b').unwrap();
    assert_eq!(wheel.insert(due(7), 'c'), Err(Refused::Full('c')));
    assert_eq!(wheel.insert(due(0), 'c'), Err(Refused::Elapsed('c')));

    assert!(wheel.cancel(first));
    assert!(wheel.insert(due(7), 'c').is_ok());
    assert_eq!(wheel.insert(due(8), 'd'), Err(Refused::Full('d')));
    let _ = wheel.advance(6);
    assert!(wheel.insert(due(8), 'd').is_ok());
    assert_eq!(Wheel::new(0, 0).insert(due(1), ()), Err(Refused::Full(())));
}

#[test]
fn expiry_is_ordered_by_time_then_priority_then_id() {
    let ordered = [(1, 9, 7), (1, 0, 3), (1, 0, 4), (1, -9, 1), (2, i32::MAX, 1), (3, i32::MIN, 1)]
        .map(|(at, priority, id)| Due { at, priority, id });
    let mut wheel = Wheel::new(0, 10);
    for index in [3, 5, 0, 2, 4, 1] {
        wheel.insert(ordered[index], index).unwrap();
    }
    let expired = wheel.advance(3);
    assert_eq!(expired.iter().map(|(_, index)| *index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_stale_handle_is_harmless() {
    let mut wheel = Wheel::new(0, 10);
    let expired = wheel.insert(due(1), 'a').unwrap();
    let _ = wheel.advance(1);
    let cancelled = wheel.insert(due(2), 'b').unwrap();
    assert!(!wheel.cancel(expired));
    assert!(wheel.cancel(cancelled));
    let drained = wheel.insert(due(3), 'c').unwrap();
    let _ = wheel.drain();
    // At the same place.
    wheel.insert(due(3), 'd').unwrap();
    assert!(!wheel.cancel(drained));
    assert_eq!((wheel.len(), wheel.is_empty()), (1, false));
}

#[test]
fn nothing_is_due_once_the_last_of_a_slot_is_cancelled() {
    let mut wheel = Wheel::new(0, 10);
    for at in [1, 40, 5_000] {
        let handle = wheel.insert(due(at), ()).unwrap();
        assert_eq!(wheel.next_due().map(|due| due <= at), Some(true));
        assert!(wheel.cancel(handle));
        assert_eq!(wheel.next_due(), None, "{at}");
    }
}

#[test]
fn a_backward_clock_step_does_not_sleep_for_hours() {
    const HOUR: i64 = 3_600_000;
    let mut wheel = wheel_at(10 * HOUR, &[10 * HOUR + 5]);
    assert!(wheel.advance(8 * HOUR).is_empty());
    assert_eq!(wheel.insert(due(9 * HOUR), ()), Err(Refused::Elapsed(())));
    assert_eq!(wheel.next_due(), Some(10 * HOUR + 5));
    assert_eq!(instants(&wheel.advance(10 * HOUR + 5)), [10 * HOUR + 5]);
}

/// Those a minute, an hour and a day later share its second of the minute, not its time.
#[test]
fn a_slot_remembers_its_fire_time_not_its_second_of_the_minute() {
    const MINUTE: i64 = 60_000;
    let ats = [17_000, 17_000 + MINUTE, 17_000 + 60 * MINUTE, 17_000 + 1_440 * MINUTE];
    let mut wheel = wheel_at(0, &ats);
    for (left, at) in (0..4).rev().zip(ats) {
        assert_eq!(wheel.next_due(), Some(at));
        assert!(wheel.advance(at - 1).is_empty());
        assert_eq!(instants(&wheel.advance(at)), [at]);
        assert_eq!(wheel.len(), left);
    }
}

#[test]
fn every_level_boundary_is_exact() {
    const TURN: i64 = SLOTS as i64;
    for level in 0..LEVELS as u32 {
        let span = 1_i64 << (level * DIGIT_BITS).min(62);
        for start in [
            0,
            1,
            TURN - 1,
            TURN,
            TURN * TURN - 1,
            -1,
            -TURN,
            -TURN * TURN - 1,
            span - 1,
            -span,
            1_234_567_890_123,
        ] {
            let around = [span - 1, span, span + 1].map(|step| start.saturating_add(step));
            let mut wheel = Wheel::new(start, 10);
            let mut waiting: Vec<_> = around.into_iter().filter(|&at| at > start).collect();
            waiting.dedup();
            for &at in &waiting {
                wheel.insert(due(at), ()).unwrap();
            }
            for at in waiting {
                assert_eq!(wheel.next_due(), Some(at), "from {start}");
                assert!(wheel.advance(at - 1).is_empty(), "{at} came early, from {start}");
                assert_eq!(wheel.next_due(), Some(at), "from {start}");
                assert_eq!(instants(&wheel.advance(at)), [at], "from {start}");
            }
            assert!(wheel.is_empty());
        }
    }
}

#[test]
fn the_ends_of_time_do_not_panic() {
    let mut wheel = wheel_at(i64::MIN, &[i64::MIN + 1, -1, 0, i64::MAX]);
    assert_eq!(wheel.insert(due(i64::MIN), ()), Err(Refused::Elapsed(())));
    assert_eq!(wheel.next_due(), Some(i64::MIN + 1));
    assert_eq!(instants(&wheel.advance(i64::MAX - 1)), [i64::MIN + 1, -1, 0]);
    assert_eq!(instants(&wheel.advance(i64::MAX)), [i64::MAX]);
    assert_eq!(wheel.insert(due(i64::MAX), ()), Err(Refused::Elapsed(())));
    assert!(wheel.advance(i64::MIN).is_empty());
}

#[test]
fn a_long_jump_does_not_walk_the_milliseconds() {
    const CENTURY: i64 = 100 * 365 * 86_400_000;
    let mut wheel = wheel_at(0, &[1, CENTURY - 1, CENTURY, CENTURY + 1]);
    assert_eq!(instants(&wheel.advance(CENTURY)), [1, CENTURY - 1, CENTURY]);
    assert_eq!(instants(&wheel.advance(i64::MAX)), [CENTURY + 1]);
}

#[test]
fn draining_hands_everything_back_in_order_and_leaves_a_usable_wheel() {
    let mut wheel = wheel_at(7, &[500_000, 8, 70, 9_000_000_000]);
    assert_eq!(instants(&wheel.drain()), [8, 70, 500_000, 9_000_000_000]);
    assert!(wheel.is_empty());
    assert_eq!(wheel.next_due(), None);
    wheel.insert(due(8), ()).unwrap();
    assert_eq!(instants(&wheel.advance(8)), [8]);
}

/// A list that was emptied serves another slot, but never in the place of one that is in use.
#[test]
fn a_slot_keeps_its_entries_whatever_was_emptied_before() {
    let mut wheel = wheel_at(0, &[1, 2, 3]);
    assert_eq!(wheel.advance(3).len(), 3);
    for at in [5_000, 5_001, 5_002] {
        wheel.insert(due(at), ()).unwrap();
    }
    assert_eq!(instants(&wheel.drain()), [5_000, 5_001, 5_002]);
}

#[test]
fn a_cancelled_first_costs_one_early_waking_and_no_more() {
    let mut wheel = Wheel::new(0, 10);
    let first = wheel.insert(due(5_000), ()).unwrap();
    wheel.insert(due(5_003), ()).unwrap();
    wheel.cancel(first);
    assert_eq!(wheel.next_due(), Some(5_000));
    assert!(wheel.advance(5_000).is_empty());
    assert_eq!(wheel.next_due(), Some(5_003));
}

#[test]
fn an_entry_of_a_hundred_bytes_costs_less_than_two_hundred() {
    let cost = |count: usize| {
        let mut wheel = Wheel::new(0, count);
        for id in 1..=count as i64 {
            wheel.insert(due(id), [0_u8; 100]).unwrap();
        }
        let slots = wheel.levels.iter().flat_map(|level| &level.slots);
        let entries: usize = slots.map(|slot| slot.entries.capacity()).sum();
        entries * size_of::<Entry<[u8; 100]>>() / count
    };
    let worst = (1_000..50_000).step_by(517).map(cost).max().unwrap();
    println!("{worst} bytes an entry at worst, 100 of them its own");
    println!("{} bytes for the levels", LEVELS * size_of::<Level<[u8; 100]>>());
    assert!(worst < 200);
}

/// Edits cancel what a poll brought, again and again, and no slot is passed meanwhile.
#[test]
fn what_is_cancelled_does_not_pile_up() {
    let mut wheel = wheel_at(0, &[1_000_000]);
    for at in 1..100_000 {
        let handle = wheel.insert(due(1_000 + at), ()).unwrap();
        assert!(wheel.cancel(handle));
    }
    let lie = wheel.levels.iter().flat_map(|level| &level.slots).map(|slot| slot.entries.len());
    assert_eq!(lie.sum::<usize>(), 1 + wheel.cancelled.count);
    assert!(wheel.cancelled.count <= 1);
    assert_eq!(instants(&wheel.drain()), [1_000_000]);
}

/// One that is cancelled waits for its slot to be passed while thousands come and go.
#[test]
fn what_is_noted_of_the_cancelled_does_not_pile_up() {
    let mut wheel = wheel_at(0, &[10_000_000, 10_000_001]);
    let far = wheel.insert(due(20_000_000), ()).unwrap();
    assert!(wheel.cancel(far));
    for now in 0..10_000 {
        let cancelled = wheel.insert(due(now + 1), ()).unwrap();
        for later in 0..100 {
            wheel.insert(Due { at: now + 1, priority: 1, id: later }, ()).unwrap();
        }
        assert!(wheel.cancel(cancelled));
        assert_eq!(wheel.advance(now + 1).len(), 100);
    }
    assert_eq!((wheel.cancelled.count, wheel.cancelled.words.len()), (1, 1));
}

/// The same wheel, so plain that it can be trusted.
#[derive(Default)]
struct Oracle {
    now: i64,
    waiting: BTreeMap<Due, Handle>,
    /// Nothing has been cancelled since the wheel was empty, so `next_due` must be exact.
    exact: bool,
}

impl Oracle {
    fn advance(&mut self, now: i64) -> Vec<Due> {
        self.now = self.now.max(now);
        self.waiting.extract_if(.., |due, _| due.at <= self.now).map(|(due, _)| due).collect()
    }

    fn check_next(&mut self, next: Option<i64>) {
        let truth = self.waiting.keys().next().map(|due| due.at);
        self.exact |= truth.is_none();
        if self.exact {
            assert_eq!(next, truth);
        }
        assert_eq!(next.is_some(), truth.is_some());
        assert!(next <= truth, "{next:?} is later than {truth:?}");
        assert!(next.is_none_or(|next| next > self.now), "{next:?} has passed");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Insert { after: i64, priority: i32 },
    Cancel { nth: usize },
    CancelNext,
    Advance { by: i64 },
    AdvanceToNext,
    Drain,
}

/// Spans of every magnitude, with the digits' edges well represented.
fn span() -> impl Strategy<Value = i64> {
    let power = (0_u32..62).prop_map(|bits| 1_i64 << bits);
    let edge =
        (0..LEVELS as u32, -1_i64..=1).prop_map(|(level, off)| (1_i64 << (level * DIGIT_BITS).min(61)) + off);
    prop_oneof![
        4 => 0_i64..200,
        4 => 0_i64..20_000,
        2 => edge,
        1 => power.prop_flat_map(|limit| 0..=limit),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (span(), -2..3_i32).prop_map(|(after, priority)| Op::Insert { after, priority }),
        2 => any::<usize>().prop_map(|nth| Op::Cancel { nth }),
        1 => Just(Op::CancelNext),
        2 => span().prop_map(|by| Op::Advance { by }),
        1 => span().prop_map(|by| Op::Advance { by: -by }),
        2 => Just(Op::AdvanceToNext),
        1 => Just(Op::Drain),
    ]
}

fn start() -> impl Strategy<Value = i64> {
    prop_oneof![
        2 => -100_000_i64..100_000,
        2 => 1_700_000_000_000_i64..1_800_000_000_000,
        1 => any::<i64>(),
        1 => (i64::MAX - 100_000)..i64::MAX,
        1 => i64::MIN..(i64::MIN + 100_000),
    ]
}

fn cancel_both(wheel: &mut Wheel<i64>, oracle: &mut Oracle, nth: usize) {
    let Some(due) = oracle.waiting.keys().nth(nth).copied() else {
        return;
    };
    let handle = oracle.waiting.remove(&due).unwrap();
    oracle.exact = false;
    assert!(wheel.cancel(handle));
}

fn advance_both(wheel: &mut Wheel<i64>, oracle: &mut Oracle, now: i64) {
    let expired: Vec<Due> = wheel
        .advance(now)
        .into_iter()
        .map(|(due, item)| {
            assert_eq!(due.id, item);
            due
        })
        .collect();
    assert_eq!(expired, oracle.advance(now));
}

fn drain_both(wheel: &mut Wheel<i64>, oracle: &mut Oracle) {
    let drained: Vec<Due> = wheel.drain().into_iter().map(|(due, _)| due).collect();
    assert_eq!(drained, std::mem::take(&mut oracle.waiting).into_keys().collect::<Vec<_>>());
}

const CAP: usize = 40;

fn insert_both(wheel: &mut Wheel<i64>, oracle: &mut Oracle, due: Due) {
    match wheel.insert(due, due.id) {
        Ok(handle) => assert!(oracle.waiting.insert(due, handle).is_none()),
        Err(Refused::Elapsed(id)) => assert!(id == due.id && due.at <= oracle.now),
        Err(Refused::Full(id)) => assert!(id == due.id && oracle.waiting.len() == CAP),
    }
}

fn agrees_with_the_oracle(now: i64, ops: Vec<Op>) {
    let mut wheel = Wheel::new(now, CAP);
    let mut oracle = Oracle { now, exact: true, ..Oracle::default() };
    for (op, id) in ops.into_iter().zip(0..) {
        let waiting = oracle.waiting.len();
        match op {
            Op::Insert { after, priority } => {
                let at = oracle.now.saturating_add(after);
                insert_both(&mut wheel, &mut oracle, Due { at, priority, id });
            }
            Op::Cancel { nth } if waiting > 0 => cancel_both(&mut wheel, &mut oracle, nth % waiting),
            Op::Cancel { .. } => {}
            Op::CancelNext => cancel_both(&mut wheel, &mut oracle, 0),
            Op::Advance { by } => {
                let now = oracle.now.saturating_add(by);
                advance_both(&mut wheel, &mut oracle, now);
            }
            Op::AdvanceToNext => {
                let now = wheel.next_due().unwrap_or(oracle.now);
                advance_both(&mut wheel, &mut oracle, now);
            }
            Op::Drain => drain_both(&mut wheel, &mut oracle),
        }
        assert_eq!(wheel.len(), oracle.waiting.len());
        oracle.check_next(wheel.next_due());
    }
    drain_both(&mut wheel, &mut oracle);
    assert!(wheel.levels.iter().all(|level| level.occupied == 0) && wheel.cancelled.count == 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_history_agrees_with_a_sorted_map(
        now in start(),
        ops in prop::collection::vec(op(), 0..150),
    ) {
        agrees_with_the_oracle(now, ops);
    }
}
