//! The turns of jobs, and of groups, for the next seat.

use super::*;
use crate::domain::{Bound, Bounds};

/// Of many items of one job and one of another, due later, a batch takes both; and each batch is in order.
#[test]
fn one_jobs_due_items_do_not_keep_anothers_waiting() {
    let of = |job: &str, id| Arc::new(Entry { job: Arc::from(job), ..Entry::clone(&row(id)) });
    let pendings = (1..=6).map(|id| pending(id, &of("late", 10 + id), Timestamp::at(id))).collect();
    let other = of("other", 2);
    let mut plan = Plan::new(Timestamp::at(0), CAP, Lanes::default());
    plan.take(PollPlan { pendings, ..polled(&[&other], Timestamp::at(1_001), 0) }, Boot::at(0));
    assert_eq!(
        pick(&mut plan, Timestamp::at(1_000), 4),
        [(execution(1), 1), (execution(2), 2), (execution(3), 3), (schedule(2), 1_000)]
    );
    assert_eq!(
        pick(&mut plan, Timestamp::at(1_000), 4),
        [(execution(4), 4), (execution(5), 5), (execution(6), 6)]
    );
}

/// Handlers that end one at a time leave one seat to a batch: it was always the job's that was due longest.
#[test]
fn batches_of_one_seat_go_from_job_to_job() {
    let of = |job: &str, id| Arc::new(Entry { job: Arc::from(job), ..Entry::clone(&row(id)) });
    let pendings = (1..=3).map(|id| pending(id, &of("late", 10 + id), Timestamp::at(id))).collect();
    let mut plan = Plan::new(Timestamp::at(0), CAP, Lanes::default());
    plan.take(PollPlan { pendings, ..polled(&[&of("other", 2)], Timestamp::at(1_001), 0) }, Boot::at(0));
    let picked: Vec<_> =
        (0..4).flat_map(|_| pick(&mut plan, Timestamp::at(1_000), 1)).map(|(key, _)| key).collect();
    assert_eq!(picked, [execution(1), schedule(2), execution(2), execution(3)]);
}

/// Executions of the queue of one job: the ids and groups, in the order in which they are due.
fn queued(rows: &[(i64, &str)]) -> PollPlan {
    let queue = Arc::new(Entry { is_queue: true, ..simple(1, Timestamp::at(1_000), 0, 0, None) });
    let of = |(due, (id, group)): (Millis, &(i64, &str))| Pending {
        group: Some(*group).filter(|group| !group.is_empty()).map(Into::into),
        ..pending(*id, &queue, Timestamp::at(due))
    };
    PollPlan { pendings: (0..).zip(rows).map(of).collect(), ..polled(&[], Timestamp::at(0), 0) }
}

/// A plan in which all of these are due.
fn due(planned: PollPlan) -> Plan {
    let mut plan = plan(planned);
    plan.advance(Timestamp::at(1_000));
    plan
}

fn picked_once(plan: &mut Plan, most: usize) -> Vec<i64> {
    let picked = plan.pick(Timestamp::at(1_000), most, |_| Some(()));
    let id = |key| if let ItemKey::Execution(id) = key { id.0 } else { panic!("{key:?}") };
    picked.into_iter().map(|(key, ..)| id(key)).collect()
}

/// Batch after batch, each won.
fn picked_ids(plan: &mut Plan, most: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    loop {
        let picked = picked_once(plan, most);
        if picked.is_empty() {
            return ids;
        }
        picked.iter().for_each(|id| plan.won(execution(*id), Boot::at(0)));
        ids.extend(picked);
    }
}

#[test]
fn groups_take_turns_however_many_one_has() {
    let rows = [(1, "a"), (2, "a"), (3, "a"), (4, "a"), (5, "b"), (6, ""), (7, "b"), (8, "")];
    let mut plan = due(queued(&rows));
    assert_eq!(picked_ids(&mut plan, 1), [1, 5, 6, 2, 7, 8, 3, 4]);
}

#[test]
fn a_group_without_room_is_passed_until_it_is_freed() {
    let mut plan = due(queued(&[(1, "a"), (2, "a"), (3, "b"), (4, "b")]));
    let of = |group: &str| BoundOf { job: "job".into(), group: Some(group.into()) };
    plan.hold(&of("a"));
    assert_eq!(picked_ids(&mut plan, 1), [3, 4]);
    assert_eq!(plan.next_due(), None, "nobody waits for it");
    plan.free(&of("b"));
    assert_eq!(plan.next_due(), None);
    plan.free(&of("a"));
    assert_eq!((plan.next_due(), picked_ids(&mut plan, 1)), (Some(Timestamp::at(0)), vec![1, 2]));
}

#[test]
fn a_poll_frees_all_groups() {
    let mut plan = due(queued(&[(1, "a"), (2, "b")]));
    for group in ["a", "b"] {
        plan.hold(&BoundOf { job: "job".into(), group: Some(group.into()) });
    }
    assert_eq!(plan.next_due(), None);
    plan.take(
        PollPlan {
            covered: Covered { pendings: ((Timestamp::at(0), 0), (Timestamp::at(0), 0)), ..Covered::ALL },
            ..polled(&[], Timestamp::at(0), 5)
        },
        Boot::at(5),
    );
    assert_eq!(picked_ids(&mut plan, 9), [1, 2]);
}

/// Claims of more would only be answered that there is no room.
#[test]
fn a_batch_holds_no_more_of_a_group_than_can_be_claimed() {
    let rows = [(1, "a"), (2, "a"), (3, "b"), (4, "a"), (5, "b"), (6, "")];
    let mut plan = plan(bounded(Bounds { job: at_most(5), group: at_most(1) }, &rows));
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9).len(), 3, "one of each, and the one without a group");
    assert_eq!(pick(&mut plan, Timestamp::at(1_000), 9).len(), 2);
}

#[test]
fn a_plan_that_one_group_fills_has_a_place_for_others() {
    let mut rows: Vec<(i64, &str)> = (0..).take(CAP + 1).map(|id| (id, "a")).collect();
    rows.extend([(100, "b"), (101, "b"), (102, "c"), (103, "")]);
    let mut plan = Plan::new(Timestamp::at(1_000), CAP, Lanes::default());
    plan.take(queued(&rows), Boot::at(0));
    assert_eq!(plan.len(), CAP + 2);
    assert_eq!(picked_ids(&mut plan, 1)[..4], [0, 100, 102, 1]);
}

fn at_most(most: u32) -> Bound {
    Bound { concurrency: Some(most), ..Bound::NONE }
}

/// As `queued`, of a job with bounds.
fn bounded(bounds: Bounds, rows: &[(i64, &str)]) -> PollPlan {
    let mut planned = queued(rows);
    for pending in &mut planned.pendings {
        pending.entry = Arc::new(Entry { bounds, ..(*pending.entry).clone() });
    }
    planned
}

/// The store takes the first for which there is room.
#[test]
fn where_there_may_be_no_room_for_all_those_are_first_whose_turn_it_is() {
    let bounds = Bounds { job: at_most(2), ..Bounds::NONE };
    let mut plan = due(bounded(bounds, &[(1, "a"), (2, "a"), (3, "a"), (9, "b")]));
    assert_eq!(picked_once(&mut plan, 1), [1]);
    plan.won(execution(1), Boot::at(0));
    assert_eq!(picked_once(&mut plan, 9), [9, 2]);
}

/// Or two groups would be tried in turn, and each time the same one would find room.
#[test]
fn a_group_that_found_no_room_keeps_its_turn() {
    let bounds = Bounds { job: at_most(1), ..Bounds::NONE };
    let mut plan = due(bounded(bounds, &[(1, "a"), (2, "a"), (8, "b"), (9, "b")]));
    assert_eq!(picked_once(&mut plan, 1), [1]);
    plan.won(execution(1), Boot::at(0));
    for _ in 0..3 {
        assert_eq!(picked_once(&mut plan, 1), [8]);
        plan.again(execution(8));
    }
    assert_eq!(picked_once(&mut plan, 1), [8]);
    plan.won(execution(8), Boot::at(0));
    assert_eq!(picked_once(&mut plan, 1), [2]);
}

/// One that has one execution at a time is not ahead of a backlog each time.
#[test]
fn a_group_that_comes_again_begins_level_with_who_has_waited_longest() {
    let mut plan = due(queued(&[(1, "a"), (2, "a"), (3, "b")]));
    assert_eq!(picked_once(&mut plan, 1), [1]);
    plan.won(execution(1), Boot::at(0));
    assert_eq!(picked_once(&mut plan, 1), [3]);
    plan.won(execution(3), Boot::at(0));
    let mut again = queued(&[(2, "a"), (4, "b")]);
    again.pendings.iter_mut().for_each(|pending| pending.due += 5);
    again.sent = Boot::at(10);
    plan.take(again, Boot::at(10));
    plan.advance(Timestamp::at(1_000));
    assert_eq!(picked_once(&mut plan, 1), [2]);
    assert_eq!(picked_once(&mut plan, 1), [4]);
}
