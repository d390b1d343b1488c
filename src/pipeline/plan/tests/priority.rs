//! The order among due items: due times, put forward or back by priorities.

use super::*;

/// Of equals the one that has been due longest, of these the lower id.
#[test]
fn what_is_due_goes_by_priority_and_time() {
    let ranked = |id, at, priority| Arc::new(Entry { priority, ..simple(id, at, 0, 0, None) });
    let rows = [
        ranked(1, Timestamp::at(2_000), 9),
        ranked(2, Timestamp::at(1_000), 1),
        ranked(4, Timestamp::at(1_000), 5),
        ranked(3, Timestamp::at(1_000), 5),
    ];
    let mut plan = plan(polled(&rows.each_ref(), Timestamp::at(9_000), 0));
    let order: Vec<ItemKey> =
        pick(&mut plan, Timestamp::at(5_000), 9).into_iter().map(|(key, _)| key).collect();
    assert_eq!(order, [1, 3, 4, 2].map(schedule));
}

/// A point is worth ten minutes: whatever waits long enough comes to be first.
#[test]
fn a_high_priority_passes_what_has_not_waited_much_longer() {
    const MINUTE: Millis = 60_000;
    let now = Timestamp::at(100 * MINUTE);
    let with = |id, waited: Millis, priority| Pending {
        priority: Some(priority),
        ..pending(id, &row(1), now - waited * MINUTE)
    };
    let pendings = vec![with(1, 0, 7), with(2, 19, 5), with(3, 22, 5), with(4, 31, 4), with(5, 28, 4)];
    let mut plan = plan(PollPlan { pendings, ..polled(&[], now, 0) });
    let mut order = Vec::new();
    while let [(key, _)] = pick(&mut plan, now, 1)[..] {
        order.push(key);
        plan.won(key, Boot::at(1));
    }
    assert_eq!(order, [3, 4, 1, 2, 5].map(execution));
}

/// Nor does one that is due a moment later hold them up.
#[test]
fn a_low_priority_waits_for_nothing_but_others() {
    let low = Pending { priority: Some(-9), ..pending(1, &row(1), Timestamp::at(1_000)) };
    let mut plan = plan(PollPlan { pendings: vec![low], ..polled(&[], Timestamp::at(9_000), 0) });
    assert_eq!(pick(&mut plan, Timestamp::at(999), 9), []);
    plan.advance(Timestamp::at(1_000));
    assert!(plan.has_due(Timestamp::at(1_000)));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9), [(execution(1), 1_000)]);
    let high = Pending { priority: Some(9), ..pending(2, &row(1), Timestamp::at(1_050)) };
    let usual = pending(3, &row(1), Timestamp::at(1_000));
    let both = PollPlan { pendings: vec![high, usual], ..polled(&[], Timestamp::at(9_000), 1) };
    plan.take(both, Boot::at(1));
    plan.advance(Timestamp::at(1_050));
    assert!(plan.has_due(Timestamp::at(1_000)));
}

/// A backlog that fills the plan leaves a place to what is more urgent.
#[test]
fn a_full_plan_takes_a_higher_priority() {
    let now = Timestamp::at(9_000);
    let backlog = (0..=CAP as i64).map(|id| pending(id, &row(1), Timestamp::at(1_000)));
    let mut plan = plan(PollPlan { pendings: backlog.collect(), ..polled(&[], now, 0) });
    assert_eq!(plan.len(), CAP);
    plan.advance(now);
    let urgent = Pending { priority: Some(6), ..pending(99, &row(1), Timestamp::at(8_000)) };
    plan.take(
        PollPlan { pendings: vec![urgent], covered: Covered::NOTHING, ..polled(&[], now, 1) },
        Boot::at(1),
    );
    assert_eq!(pick(&mut plan, now, 1), [(execution(99), 8_000)]);
}
