mod priority;
mod turns;

use std::sync::Arc;

use super::*;
use crate::domain::{Cause, Cursor, Entry, Millis, NextFire, Token};
use crate::fixtures::simple;
use crate::pipeline::lanes::{JobLane, LaneSettings};
use crate::pipeline::pool::PoolLimits;

const CAP: usize = 8;

/// A schedule that fires every second from one second on.
fn row(id: i64) -> Arc<Entry> {
    Arc::new(simple(id, Timestamp::at(1_000), 1_000, -1, None))
}

fn pending(id: i64, schedule: &Arc<Entry>, due: Timestamp) -> Pending {
    let (id, token, entry) = (ExecutionId(id), Token::fresh(), Arc::clone(schedule));
    Pending {
        id,
        entry,
        scheduled: Timestamp::at(0),
        due,
        attempt: 1,
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
    }
}

/// A poll's answer: the occurrences of these rows before `until`.
fn polled(rows: &[&Arc<Entry>], until: Timestamp, sent: Millis) -> PollPlan {
    let chain = |row: &&Arc<Entry>| {
        let links = std::iter::successors(Occurrence::head(row), Occurrence::link);
        links.take_while(move |it| it.at < until).collect::<Vec<_>>()
    };
    let occurrences = rows.iter().flat_map(chain).collect();
    PollPlan {
        occurrences,
        pendings: Vec::new(),
        complete: true,
        covered: Covered::ALL,
        enabled: true,
        sent: Boot::at(sent),
    }
}

fn plan(planned: PollPlan) -> Plan {
    let mut plan = Plan::new(Timestamp::at(0), CAP, Lanes::default());
    plan.take(planned, Boot::at(0));
    plan
}

/// What is picked at `now`, as (schedule or execution, instant).
fn pick(plan: &mut Plan, now: Timestamp, most: usize) -> Vec<(ItemKey, Millis)> {
    plan.advance(now);
    let picked = plan.pick(now, most, |_| Some(()));
    picked.into_iter().map(|(key, candidate, ())| (key, candidate.due().millis())).collect()
}

fn schedule(id: i64) -> ItemKey {
    ItemKey::Schedule(ScheduleId(id))
}

fn execution(id: i64) -> ItemKey {
    ItemKey::Execution(ExecutionId(id))
}

/// Every occurrence of schedule 1 up to `until`, each claimed when it is due.
fn claimed(plan: &mut Plan, until: Millis) -> Vec<Millis> {
    let mut times = Vec::new();
    for now in (0..=until).step_by(500) {
        for (key, at) in pick(plan, Timestamp::at(now), 9) {
            assert_eq!(key, schedule(1));
            times.push(at);
            plan.won(key, Boot::at(now));
        }
    }
    times
}

#[test]
fn a_later_poll_extends_a_chain_and_repeats_no_link() {
    let row = row(1);
    let mut plan = plan(polled(&[&row], Timestamp::at(3_500), 0));
    plan.take(polled(&[&row], Timestamp::at(5_500), 100), Boot::at(100));
    assert_eq!(claimed(&mut plan, 9_000), [1_000, 2_000, 3_000, 4_000, 5_000]);
    assert_eq!(plan.len(), 0);
}

#[test]
fn a_chain_in_flight_is_extended_too() {
    let row = row(1);
    let mut plan = plan(polled(&[&row], Timestamp::at(2_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
    plan.take(polled(&[&row], Timestamp::at(3_500), 1_001), Boot::at(1_001));
    plan.won(schedule(1), Boot::at(1_002));
    assert_eq!(claimed(&mut plan, 9_000), [2_000, 3_000]);
}

/// Whatever the poll saw: another version, another cursor.
#[test]
fn a_row_that_was_changed_replaces_what_was_planned_of_it() {
    let before = row(1);
    let mut edited = Entry::clone(&simple(1, Timestamp::at(1_250), 1_000, -1, None));
    edited.version = 1;
    let mut moved = Entry::clone(&before);
    moved.cursor = Cursor { prev: Some(Timestamp::at(1_000)), next: NextFire::At(Timestamp::at(2_000)) };
    let mut repaired = Entry::clone(&before);
    repaired.cursor.prev = Some(Timestamp::at(500));
    let mut set_by_hand = Entry::clone(&before);
    set_by_hand.cursor.next = NextFire::At(Timestamp::at(1_500));
    let cases = [
        (edited, vec![1_250, 2_250]),
        (moved, vec![2_000]),
        (repaired, vec![1_000, 2_000]),
        (set_by_hand, vec![1_500, 2_000]),
    ];
    for (changed, times) in cases {
        let changed = Arc::new(changed);
        let mut plan = plan(polled(&[&before], Timestamp::at(2_500), 0));
        plan.take(polled(&[&changed], Timestamp::at(2_500), 100), Boot::at(100));
        plan.advance(Timestamp::at(2_000));
        let picked = plan.pick(Timestamp::at(2_000), 9, |_| Some(()));
        let [(key, Candidate::Planned(head), ())] = &picked[..] else { panic!("one schedule") };
        assert_eq!((head.prev, head.entry.version), (changed.cursor.prev, changed.version));
        let mut found = vec![head.at.millis()];
        plan.won(*key, Boot::at(2_000));
        found.extend(claimed(&mut plan, 9_000));
        assert_eq!(found, times);
    }
}

/// A claim in flight is not touched, and its chain goes on only by the row it was planned from.
#[test]
fn a_row_that_was_changed_under_a_claim_in_flight_is_planned_by_the_next_poll() {
    let mut edited = Entry::clone(&row(1));
    edited.version = 1;
    let mut plan = plan(polled(&[&row(1)], Timestamp::at(1_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
    plan.take(polled(&[&Arc::new(edited)], Timestamp::at(3_500), 1_001), Boot::at(1_001));
    plan.won(schedule(1), Boot::at(1_002));
    assert_eq!((plan.len(), pick(&mut plan, Timestamp::at(9_000), 9)), (0, Vec::new()));
}

/// What changed here after a poll was sent is not in it.
#[test]
fn a_poll_does_not_undo_what_happened_after_it_was_sent() {
    for (sent, left) in [(99, 1), (100, 0), (101, 0)] {
        let (row, other) = (row(1), row(2));
        let mut plan = Plan::new(Timestamp::at(0), CAP, Lanes::default());
        let pendings = vec![pending(7, &other, Timestamp::at(5_000))];
        plan.take(PollPlan { pendings, ..polled(&[&row], Timestamp::at(3_500), 0) }, Boot::at(100));
        plan.take(polled(&[], Timestamp::at(3_500), sent), Boot::at(200));
        assert_eq!(plan.len(), left, "sent at {sent}, changed at 100");
    }
}

#[test]
fn a_poll_brings_nothing_that_was_won_after_it_was_sent() {
    let (one, execution) = (row(1), ItemKey::Execution(ExecutionId(7)));
    let retry = pending(7, &row(2), Timestamp::at(1_000));
    let poll = |until, sent| PollPlan { pendings: vec![retry.clone()], ..polled(&[&one], until, sent) };
    let again = vec![(schedule(1), 1_000), (execution, 1_000)];
    for (won, sent, brought) in
        [(true, 999, vec![(schedule(1), 2_000)]), (true, 1_000, again.clone()), (false, 999, again)]
    {
        let mut plan = plan(poll(Timestamp::at(1_500), 0));
        for (key, _) in pick(&mut plan, Timestamp::at(1_000), 9) {
            if won { plan.won(key, Boot::at(1_000)) } else { plan.lost(key, Boot::at(1_000)) }
        }
        plan.take(poll(Timestamp::at(2_500), sent), Boot::at(1_001));
        assert_eq!(pick(&mut plan, Timestamp::at(2_000), 9), brought, "won {won}, sent at {sent}");
    }
}

/// A node joined in a long backlog, and some of what is planned has become its own.
#[test]
fn what_a_poll_does_not_bring_leaves_the_plan_even_if_it_was_cut_off() {
    let (mine, theirs, claimed) = (row(1), row(2), row(3));
    let mut plan = plan(polled(&[&claimed], Timestamp::at(1_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 1), [(schedule(3), 1_000)]);
    plan.take(polled(&[&mine, &theirs], Timestamp::at(1_500), 10), Boot::at(10));
    plan.take(PollPlan { complete: false, ..polled(&[&mine], Timestamp::at(1_500), 100) }, Boot::at(100));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
    assert_eq!(plan.len(), 2, "what is in flight stays");
}

/// What leaves makes room first.
#[test]
fn a_full_plan_takes_in_what_a_poll_brings_in_the_place_of_other_rows() {
    let (before, after): (Vec<_>, Vec<_>) = ((1..=8).map(row).collect(), (11..=18).map(row).collect());
    let mut plan = plan(polled(&before.iter().collect::<Vec<_>>(), Timestamp::at(1_500), 0));
    assert_eq!(plan.len(), CAP);
    plan.take(polled(&after.iter().collect::<Vec<_>>(), Timestamp::at(1_500), 100), Boot::at(100));
    let picked = pick(&mut plan, Timestamp::at(1_000), 9);
    assert_eq!(picked, (11..=18).map(|id| (schedule(id), 1_000)).collect::<Vec<_>>());
}

#[test]
fn a_pending_execution_somebody_touched_is_planned_as_it_is_now() {
    let row = row(1);
    let seen = pending(7, &row, Timestamp::at(1_000));
    let given_back = Pending { token: Token::fresh(), due: Timestamp::at(2_000), ..seen.clone() };
    let poll = |pending: &Pending, sent| PollPlan {
        pendings: vec![pending.clone()],
        ..polled(&[], Timestamp::at(0), sent)
    };
    let key = ItemKey::Execution(ExecutionId(7));

    let mut changed = plan(poll(&seen, 0));
    changed.take(poll(&given_back, 100), Boot::at(100));
    assert_eq!(pick(&mut changed, Timestamp::at(5_000), 9), [(key, 2_000)]);

    let mut unchanged = plan(poll(&seen, 0));
    unchanged.take(poll(&Pending { due: Timestamp::at(2_000), ..seen.clone() }, 100), Boot::at(100));
    assert_eq!(pick(&mut unchanged, Timestamp::at(5_000), 9), [(key, 1_000)], "the token tells");

    let mut in_flight = plan(poll(&seen, 0));
    assert_eq!(pick(&mut in_flight, Timestamp::at(1_000), 9).len(), 1);
    in_flight.take(poll(&given_back, 1_001), Boot::at(1_001));
    assert_eq!(pick(&mut in_flight, Timestamp::at(5_000), 9), []);
    in_flight.won(key, Boot::at(1_002));
    assert_eq!(in_flight.len(), 0);
}

/// Those in flight stay, and so does what is no queue's: planned occurrences and retries have their
/// schedule's shard.
#[test]
fn enqueued_executions_of_others_are_left_to_them() {
    let queue =
        Arc::new(Entry { is_queue: true, job: "job".into(), ..simple(1, Timestamp::at(0), 0, 0, None) });
    let of = |id, entry: &Arc<Entry>, origin| Pending { origin, ..pending(id, entry, Timestamp::at(1_000)) };
    let schedule = Arc::new(Entry { job: "job".into(), ..simple(2, Timestamp::at(9_000), 0, 0, None) });
    let mut pendings = vec![of(10, &queue, 16), of(11, &queue, 33), of(12, &queue, 49), of(13, &schedule, 1)];
    pendings[1].priority = Some(9);
    let mut plan = plan(PollPlan { pendings, ..polled(&[], Timestamp::at(9_000), 0) });
    let now = Timestamp::at(1_000);
    assert_eq!(pick(&mut plan, now, 1), [(execution(11), 1_000)]);
    plan.leave_others(&[Share { jobs: vec!["job".to_owned()], shards: vec![0, 2] }]);
    assert_eq!(pick(&mut plan, now, 9), [(execution(10), 1_000), (execution(13), 1_000)]);
}

#[test]
fn a_batch_is_full_without_a_permit_or_at_its_most() {
    let rows = [row(1), row(2), row(3), row(4)];
    let mut plan = plan(polled(&rows.each_ref(), Timestamp::at(1_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 2), [(schedule(1), 1_000), (schedule(2), 1_000)]);
    let mut permit = Some(());
    let one = plan.pick(Timestamp::at(1_000), 9, |_| permit.take());
    assert_eq!(one.into_iter().map(|(key, ..)| key).collect::<Vec<_>>(), [schedule(3)]);
    assert!(plan.has_due(Timestamp::at(1_000)) && !plan.has_due(Timestamp::at(999)));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(4), 1_000)]);
    assert!(!plan.has_due(Timestamp::at(1_000)));
}

/// One transaction has at most one claim per schedule.
#[test]
fn a_schedules_many_pendings_do_not_hide_the_others() {
    let (busy, other) = (row(1), row(2));
    let mut plan = Plan::new(Timestamp::at(0), 99, Lanes::default());
    let pendings = (1..=12)
        .map(|id| pending(id, &busy, Timestamp::at(id)))
        .chain([pending(13, &other, Timestamp::at(13))])
        .collect();
    plan.take(PollPlan { pendings, ..polled(&[], Timestamp::at(0), 0) }, Boot::at(0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 4), [(execution(1), 1), (execution(13), 13)]);
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 4), [(execution(2), 2)]);
}

/// Four times as many as may be claimed at once are looked at.
#[test]
fn behind_too_many_pendings_of_a_schedule_the_others_wait() {
    for (pendings, reached) in [(15, true), (16, false)] {
        let (busy, other) = (row(1), row(2));
        let mut plan = Plan::new(Timestamp::at(0), 99, Lanes::default());
        let pendings = (1..=pendings)
            .map(|id| pending(id, &busy, Timestamp::at(id)))
            .chain([pending(99, &other, Timestamp::at(99))])
            .collect();
        plan.take(PollPlan { pendings, ..polled(&[], Timestamp::at(0), 0) }, Boot::at(0));
        let picked = pick(&mut plan, Timestamp::at(1_000), 4);
        assert_eq!(picked.contains(&(ItemKey::Execution(ExecutionId(99)), 99)), reached, "{picked:?}");
    }
}

#[test]
fn a_row_locked_twice_is_left_to_the_next_poll() {
    let mut plan = plan(polled(&[&row(1)], Timestamp::at(2_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9).len(), 1);
    plan.skipped(schedule(1), Timestamp::at(1_020), Boot::at(1_000));
    assert_eq!(
        (plan.next_due(), pick(&mut plan, Timestamp::at(1_019), 9)),
        (Some(Timestamp::at(1_020)), Vec::new())
    );
    assert_eq!(pick(&mut plan, Timestamp::at(1_020), 9), [(schedule(1), 1_000)]);
    plan.skipped(schedule(1), Timestamp::at(1_040), Boot::at(1_020));
    assert_eq!(plan.len(), 0);
}

/// Each occurrence has its own second try.
#[test]
fn a_lock_before_does_not_count_against_the_next_link() {
    let mut plan = plan(polled(&[&row(1)], Timestamp::at(2_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9).len(), 1);
    plan.skipped(schedule(1), Timestamp::at(1_020), Boot::at(1_000));
    assert_eq!(pick(&mut plan, Timestamp::at(1_020), 9).len(), 1);
    plan.won(schedule(1), Boot::at(1_021));
    assert_eq!(pick(&mut plan, Timestamp::at(2_000), 9), [(schedule(1), 2_000)]);
    plan.skipped(schedule(1), Timestamp::at(2_020), Boot::at(2_000));
    assert_eq!(pick(&mut plan, Timestamp::at(2_020), 9), [(schedule(1), 2_000)]);
}

#[test]
fn a_claim_that_was_not_made_is_due_as_before_and_one_forgotten_is_gone() {
    let mut plan = plan(polled(&[&row(1), &row(2)], Timestamp::at(1_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9).len(), 2);
    plan.again(schedule(1));
    plan.forget(schedule(2));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
    assert_eq!(plan.len(), 1);
}

/// The cap refused something: once half is left there is room for more.
#[test]
fn a_plan_that_overflowed_asks_once_when_there_is_room() {
    let rows: Vec<_> = (1..=9).map(row).collect();
    let mut plan = plan(polled(&rows.iter().collect::<Vec<_>>(), Timestamp::at(1_500), 0));
    assert_eq!(plan.len(), CAP);
    let mut asked = Vec::new();
    for id in pick(&mut plan, Timestamp::at(1_000), 9).into_iter().map(|(key, _)| key) {
        asked.push(plan.wants_poll());
        plan.won(id, Boot::at(1_000));
    }
    asked.extend([plan.wants_poll(), plan.wants_poll()]);
    assert_eq!(asked, [false, false, false, false, true, false, false, false, false, false]);
}

#[test]
fn only_a_plan_that_was_cut_off_asks_for_a_poll() {
    for (complete, wants) in [(true, false), (false, true)] {
        let mut plan = plan(PollPlan { complete, ..polled(&[&row(1)], Timestamp::at(1_500), 0) });
        assert!(!plan.wants_poll(), "nothing is done yet");
        assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
        plan.won(schedule(1), Boot::at(1_000));
        assert_eq!(plan.wants_poll(), wants);
    }
}

#[test]
fn a_short_poll_neither_empties_a_plan_nor_changes_when_it_asks_for_more() {
    let rows: Vec<_> = (1..=4).map(row).collect();
    let cut_off =
        PollPlan { complete: false, ..polled(&rows.iter().collect::<Vec<_>>(), Timestamp::at(1_500), 0) };
    let short =
        |complete| PollPlan { complete, covered: Covered::NOTHING, ..polled(&[], Timestamp::at(0), 1) };
    let mut plan = plan(cut_off);
    for (id, wants) in [(1, false), (2, true)] {
        plan.take(short(false), Boot::at(100));
        assert_eq!(plan.len() as i64, 5 - id);
        assert_eq!(pick(&mut plan, Timestamp::at(1_000), 1).len(), 1);
        plan.won(schedule(id), Boot::at(1_000));
        assert_eq!(plan.wants_poll(), wants, "half of what the long one brought is done");
    }
    plan.take(short(false), Boot::at(100));
    assert!(!plan.wants_poll(), "it cuts nothing off");
}

#[test]
fn a_short_poll_says_nothing_of_what_waits_for_others() {
    let mut plan = plan(polled(&[&row(1)], Timestamp::at(1_500), 0));
    plan.hold(&BoundOf { job: Arc::clone(&row(1).job), group: None });
    plan.take(PollPlan { covered: Covered::NOTHING, ..polled(&[], Timestamp::at(0), 1) }, Boot::at(100));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 1), []);
    plan.take(polled(&[&row(1)], Timestamp::at(1_500), 2), Boot::at(200));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 1).len(), 1);
}

/// Or the next poll would come at once, and bring as little.
#[test]
fn a_plan_that_was_cut_off_and_has_nothing_to_do_waits_for_the_next_tick() {
    assert!(!plan(PollPlan { complete: false, ..polled(&[], Timestamp::at(0), 0) }).wants_poll());
}

#[test]
fn a_plan_whose_large_payloads_are_half_done_asks_for_more() {
    let sized = |id, bytes: usize| {
        let mut row = simple(id, Timestamp::at(1_000 + id), 0, 0, None);
        row.payload = "x".repeat(bytes).into();
        Arc::new(row)
    };
    let rows: Vec<_> = [sized(1, 600), sized(2, 399), sized(3, 1), sized(4, 1)].into();
    let mut plan = plan(PollPlan {
        complete: false,
        ..polled(&rows.iter().collect::<Vec<_>>(), Timestamp::at(2_000), 0)
    });
    let mut asked = Vec::new();
    for (key, _) in pick(&mut plan, Timestamp::at(2_000), 9) {
        plan.won(key, Boot::at(2_000));
        asked.push(plan.wants_poll());
    }
    assert_eq!(asked, [true, false, false, false], "behind 600 of 1,001 bytes, and once");
}

/// The walk over PENDING executions may end within a backlog, and a poll may have no time for all sections.
#[test]
fn what_a_poll_did_not_look_at_stays() {
    let other = row(9);
    let pendings: Vec<_> = [(1, 100), (2, 200), (3, 200), (4, 300)]
        .map(|(id, due)| pending(id, &other, Timestamp::at(due)))
        .into();
    let all = PollPlan { pendings: pendings.clone(), ..polled(&[&row(1)], Timestamp::at(1_500), 0) };
    let cases = [
        (Covered::ALL, 0),
        (Covered { schedules: false, ..Covered::ALL }, 1),
        (Covered { pendings: ((Timestamp::at(100), 1), (Timestamp::at(200), 2)), ..Covered::ALL }, 3),
        (
            Covered {
                pendings: ((Timestamp::at(100), 1), (Timestamp::at(200), 2)),
                newest: (Timestamp::at(200), 3),
                ..Covered::ALL
            },
            2,
        ),
        (
            Covered {
                schedules: false,
                pendings: ((Timestamp::at(200), 2), (Timestamp::at(300), 4)),
                ..Covered::ALL
            },
            3,
        ),
    ];
    for (covered, left) in cases {
        let mut plan =
            plan(PollPlan { pendings: pendings.clone(), ..polled(&[&row(1)], Timestamp::at(1_500), 0) });
        assert_eq!(plan.len(), 1 + all.pendings.len());
        plan.take(PollPlan { covered, ..polled(&[], Timestamp::at(1_500), 100) }, Boot::at(100));
        assert_eq!(plan.len(), left, "{covered:?}");
    }
}

#[test]
fn a_plan_that_is_dropped_keeps_what_is_in_flight_and_no_link_behind_it() {
    let (one, two) = (row(1), Arc::new(simple(2, Timestamp::at(1_500), 1_000, -1, None)));
    let mut plan = plan(polled(&[&one, &two], Timestamp::at(3_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
    plan.advance(Timestamp::at(1_500));
    plan.clear(Timestamp::at(0));
    assert_eq!((plan.len(), plan.next_due(), plan.has_due(Timestamp::at(9_000))), (1, None, false));
    plan.won(schedule(1), Boot::at(1_600));
    assert_eq!(plan.len(), 0);
}

#[test]
fn a_plan_that_ends_hands_back_what_was_not_claimed() {
    let rows = [row(1), row(2), Arc::new(simple(3, Timestamp::at(1_500), 0, 0, None))];
    let mut plan = plan(polled(&rows.each_ref(), Timestamp::at(2_500), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 1), [(schedule(1), 1_000)]);
    let left: Vec<_> = plan.drain().iter().map(|it| (it.entry().id.0, it.due().millis())).collect();
    assert_eq!((left, plan.len()), (vec![(2, 1_000), (3, 1_500)], 1));
}

/// Where the wheel has been further than the clock now says, what comes in is ready before it is due.
#[test]
fn an_instant_the_wheel_has_passed_is_not_early() {
    let mut plan = Plan::new(Timestamp::at(0), CAP, Lanes::default());
    plan.advance(Timestamp::at(9_000));
    plan.take(
        polled(&[&row(1), &Arc::new(simple(2, Timestamp::at(4_000), 0, 0, None))], Timestamp::at(4_500), 0),
        Boot::at(0),
    );
    assert_eq!((plan.next_due(), plan.has_due(Timestamp::at(500))), (Some(Timestamp::at(1_000)), false));
    assert_eq!(pick(&mut plan, Timestamp::at(500), 9), []);
    assert_eq!(plan.next_due(), Some(Timestamp::at(1_000)), "what is due comes first");
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
}

/// It is paused since: what its chain holds must not be claimed until the next poll.
#[test]
fn a_poll_that_does_not_bring_a_schedule_ends_its_chain_though_a_claim_of_it_is_in_flight() {
    let row = row(1);
    let mut plan = plan(polled(&[&row], Timestamp::at(6_000), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
    plan.take(polled(&[], Timestamp::at(6_000), 900), Boot::at(1_001));
    plan.won(schedule(1), Boot::at(1_002));
    assert_eq!(pick(&mut plan, Timestamp::at(5_000), 9), []);

    let mut plan = self::plan(polled(&[&row], Timestamp::at(6_000), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9).len(), 1);
    plan.won(schedule(1), Boot::at(1_002));
    plan.take(polled(&[], Timestamp::at(6_000), 900), Boot::at(1_003));
    assert_eq!(pick(&mut plan, Timestamp::at(5_000), 9), [], "won while the poll was under way");
}

/// However many wait, they are not in the way of the one that keeps the slot.
#[test]
fn who_waits_for_a_slot_is_parked_until_it_is_free() {
    let row = row(1);
    let waiting: Vec<Pending> = (2..=400).map(|id| pending(id, &row, Timestamp::at(1_000))).collect();
    let retry = pending(9_000, &row, Timestamp::at(1_500));
    let brought = || PollPlan {
        pendings: waiting.iter().chain([&retry]).cloned().collect(),
        ..polled(&[], Timestamp::at(6_000), 0)
    };
    let key = |id| ItemKey::Execution(ExecutionId(id));
    let mut plan = Plan::new(Timestamp::at(0), 1_000, Lanes::default());
    plan.take(brought(), Boot::at(0));
    assert_eq!(pick(&mut plan, Timestamp::at(2_000), 9), [(key(2), 1_000)]);
    plan.block(key(2), retry.id);
    assert_eq!(
        pick(&mut plan, Timestamp::at(2_000), 9),
        [(key(9_000), 1_500)],
        "its own slot does not keep it away"
    );
    assert_eq!(pick(&mut plan, Timestamp::at(2_000), 9), []);
    assert!(plan.awaits_slots());
    plan.won(key(9_000), Boot::at(2_000));

    plan.unpark(ScheduleId(1));
    assert!(!plan.awaits_slots());
    assert_eq!(pick(&mut plan, Timestamp::at(2_001), 9), [(key(2), 1_000)], "who is due longest");
    plan.block(key(2), ExecutionId(77));
    plan.take(PollPlan { sent: Boot::at(2_500), ..brought() }, Boot::at(2_600));
    assert_eq!(pick(&mut plan, Timestamp::at(3_000), 9), [(key(2), 1_000)], "each poll tries once");
    plan.block(key(2), ExecutionId(77));
    plan.take(
        PollPlan { sent: Boot::at(3_500), ..polled(&[], Timestamp::at(6_000), 3_500) },
        Boot::at(3_600),
    );
    assert_eq!((pick(&mut plan, Timestamp::at(4_000), 9), plan.len()), (vec![], 0), "it is gone");
}

/// The other may have ended by then.
#[test]
fn what_would_overlap_before_it_is_due_is_tried_again_when_it_is() {
    let row = row(1);
    let mut plan = plan(polled(&[&row], Timestamp::at(3_000), 0));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(schedule(1), 1_000)]);
    plan.wait(schedule(1), Boot::at(960));
    assert_eq!(plan.next_deferred(), Some(Timestamp::at(1_000)));
    assert_eq!(pick(&mut plan, Timestamp::at(1_049), 9), []);
    // The plan's time is ahead by as much as claims are.
    assert_eq!(pick(&mut plan, Timestamp::at(1_050), 9), [(schedule(1), 1_000)]);
    assert_eq!(plan.next_deferred(), None);
    plan.won(schedule(1), Boot::at(1_050));
    assert_eq!(pick(&mut plan, Timestamp::at(2_000), 9), [(schedule(1), 2_000)]);
}

/// Two lanes: schedules of the job "slow" are of the second.
fn plan_of_lanes(planned: PollPlan) -> Plan {
    let lane = |name: &str| LaneSettings::new(name, PoolLimits::new(1, 1, 0));
    let slow = JobLane { job: "slow", lane: "second", is_async: false };
    let lanes = Lanes::new(&[lane("default"), lane("second")], [slow]);
    let mut plan = Plan::new(Timestamp::at(0), 999, lanes);
    plan.take(planned, Boot::at(0));
    plan
}

fn slow_row(id: i64) -> Arc<Entry> {
    Arc::new(Entry { job: Arc::from("slow"), ..Entry::clone(&row(id)) })
}

/// Executions that were enqueued in a lane leave their job's to others.
#[test]
fn what_was_enqueued_in_another_lane_waits_for_a_seat_there() {
    let schedule = Arc::new(Entry { is_queue: true, ..Entry::clone(&row(9)) });
    let of = |id, lane: Option<&str>| Pending {
        lane: lane.map(Arc::from),
        ..pending(id, &schedule, Timestamp::at(1_000))
    };
    let pendings = vec![of(1, Some("second")), of(2, None), of(3, Some("nowhere")), of(4, Some("default"))];
    let mut plan = plan_of_lanes(PollPlan { pendings, ..polled(&[], Timestamp::at(1_500), 0) });
    let (picked, asked) = pick_beside_a_full_lane(&mut plan, Timestamp::at(1_000), 9);
    assert_eq!((picked, asked), ([2, 3, 4].map(execution).to_vec(), [3, 1]));
    assert!(!plan.has_due(Timestamp::at(1_000)), "the first waits for a seat of its lane");
    plan.seat_freed(LaneId::all().nth(1).unwrap());
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(execution(1), 1_000)]);
}

/// What is picked at `now` while only the default lane has seats, and how often each lane was asked for one.
fn pick_beside_a_full_lane(plan: &mut Plan, now: Timestamp, most: usize) -> (Vec<ItemKey>, [usize; 2]) {
    let mut asked = [0, 0];
    plan.advance(now);
    let picked = plan.pick(now, most, |lane| {
        asked[lane.place()] += 1;
        (lane == LaneId::DEFAULT).then_some(())
    });
    (picked.into_iter().map(|(key, ..)| key).collect(), asked)
}

#[test]
fn what_is_due_in_a_full_lane_is_in_nobodys_way() {
    let rows: Vec<_> = (1..=100).map(slow_row).chain([row(101), row(102)]).collect();
    let mut plan = plan_of_lanes(polled(&rows.iter().collect::<Vec<_>>(), Timestamp::at(3_500), 0));
    let second = LaneId::all().nth(1).unwrap();
    let (picked, asked) = pick_beside_a_full_lane(&mut plan, Timestamp::at(1_000), 9);
    assert_eq!(
        (picked, asked),
        (vec![schedule(101), schedule(102)], [2, 1]),
        "one of a hundred is asked for"
    );
    assert!(!plan.has_due(Timestamp::at(1_000)) && !plan.is_starved());
    plan.won(schedule(101), Boot::at(1_000));
    plan.again(schedule(102));
    assert_eq!((plan.next_due(), plan.has_due(Timestamp::at(1_000))), (Some(Timestamp::at(1_000)), true));
    assert_eq!(pick_beside_a_full_lane(&mut plan, Timestamp::at(1_000), 9), (vec![schedule(102)], [1, 0]));
    plan.won(schedule(102), Boot::at(1_000));
    assert_eq!(
        (plan.next_due(), plan.has_due(Timestamp::at(9_000))),
        (Some(Timestamp::at(2_000)), false),
        "the next of the others"
    );
    plan.seat_freed(LaneId::DEFAULT);
    assert!(!plan.has_due(Timestamp::at(1_000)), "that is another lane's");
    plan.seat_freed(second);
    assert_eq!((plan.next_due(), plan.has_due(Timestamp::at(1_000))), (Some(Timestamp::at(1_000)), true));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 4), [1, 2, 3, 4].map(|id| (schedule(id), 1_000)));
}

/// Even those that only the first look passes over: a batch takes one of each schedule.
#[test]
fn a_full_lanes_many_pendings_of_one_schedule_do_not_hide_another_lane() {
    let (busy, other) = (slow_row(1), row(2));
    let pendings: Vec<_> = (1..=99).map(|id| pending(id, &busy, Timestamp::at(id))).collect();
    let mut plan = plan_of_lanes(PollPlan { pendings, ..polled(&[&other], Timestamp::at(1_500), 0) });
    let (picked, asked) = pick_beside_a_full_lane(&mut plan, Timestamp::at(1_000), 4);
    assert_eq!((picked, asked), (vec![schedule(2)], [1, 1]));
}

#[test]
fn all_lanes_without_a_seat_are_starved_and_a_poll_asks_them_again() {
    let (slow, quick) = (slow_row(1), row(2));
    let poll = |sent| polled(&[&slow, &quick], Timestamp::at(1_500), sent);
    let mut plan = plan_of_lanes(poll(0));
    plan.advance(Timestamp::at(1_000));
    assert!(plan.pick(Timestamp::at(1_000), 9, |_| None::<()>).is_empty());
    assert!(plan.is_starved() && !plan.has_due(Timestamp::at(1_000)));
    plan.take(poll(1_000), Boot::at(1_000));
    assert!(!plan.is_starved() && plan.has_due(Timestamp::at(1_000)));
}

/// A lane that had a seat for one and none for the next is asked once more: it may have one by now.
#[test]
fn a_lane_that_has_just_given_a_seat_does_not_count_as_full() {
    let mut plan = plan_of_lanes(polled(&[&slow_row(1), &slow_row(2)], Timestamp::at(1_500), 0));
    plan.advance(Timestamp::at(1_000));
    let mut one = Some(());
    assert_eq!(plan.pick(Timestamp::at(1_000), 9, |_| one.take()).len(), 1);
    assert!(plan.has_due(Timestamp::at(1_000)));
    assert!(plan.pick(Timestamp::at(1_000), 9, |_| None::<()>).is_empty());
    assert!(!plan.has_due(Timestamp::at(1_000)));
}

/// Within a lane the best seats are for those due first.
#[test]
fn permits_go_to_items_of_their_own_lane() {
    let late = |id, at, job: &str| Arc::new(Entry { job: Arc::from(job), ..simple(id, at, 0, 0, None) });
    let rows = [
        late(1, Timestamp::at(400), "slow"),
        late(2, Timestamp::at(300), "quick"),
        late(3, Timestamp::at(200), "slow"),
        late(4, Timestamp::at(100), "quick"),
    ];
    let mut plan = plan_of_lanes(polled(&rows.each_ref(), Timestamp::at(1_500), 0));
    plan.advance(Timestamp::at(1_000));
    let mut given = [0, 0];
    let picked = plan.pick(Timestamp::at(1_000), 9, |lane| {
        given[lane.place()] += 1;
        Some((lane.place(), given[lane.place()]))
    });
    let seated: Vec<_> = picked.into_iter().map(|(key, _, permit)| (key, permit)).collect();
    let [one, two, three, four] = [1, 2, 3, 4].map(schedule);
    assert_eq!(seated, [(four, (0, 1)), (two, (0, 2)), (three, (1, 1)), (one, (1, 2))]);
}
