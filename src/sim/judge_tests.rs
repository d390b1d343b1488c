//! The checker's own test: a good history passes, and each seeded fault in it is caught.

use std::collections::BTreeMap;

use super::judge::{
    COUNTED, Cancel, Change, Checkpoint, Covering, Delay, Effect, Execution, ExpectationNote, History, Keyed,
    Limit, Order, Pause, Plan, Request, Rerun, Resume, Switch, Sync, Unserved, is_legal, judge,
};
use crate::domain::ExecutionState;

const STEP: i64 = 1_000;

/// One schedule every second: five occurrences run, the second after its node died, the fifth being the last.
fn good() -> History {
    let mut history = History { healed: 0, read: 10 * STEP, ..History::default() };
    history.plans.push(Plan {
        schedule: "s".into(),
        job: "job".into(),
        payloads: vec![(0, "one".into()), (3_003, "two".into())],
        generations: [(0, (1..=5).map(|n| n * STEP).collect())].into(),
        unpreceded: [].into(),
        delays: BTreeMap::new(),
        ended: BTreeMap::new(),
        recovers: true,
        deaths: 5,
        retries: 0,
        limit: None,
        concurrency: Limit::default(),
        group_concurrency: Limit::default(),
        expected_by: None,
        exclusive: false,
        pause_after: None,
        misfire: "FIRE_ONCE".into(),
        threshold: 60_000,
        punctual: None,
        state: "COMPLETE".into(),
        next: None,
    });
    for n in 1..=5 {
        run(&mut history, n, 1, if n == 2 { "ABANDONED" } else { "SUCCEEDED" });
    }
    run(&mut history, 2, 2, "SUCCEEDED");
    history
}

/// Adds occurrence `n`'s attempt, claimed 2 ms and begun 5 ms after its time, ended 10 ms later.
fn run(history: &mut History, n: i64, attempt: u32, state: &str) {
    let id = 10 * n + i64::from(attempt);
    let at = n * STEP + 100 * i64::from(attempt - 1);
    history.executions.push(Execution {
        id,
        schedule: "s".into(),
        scheduled: n * STEP,
        count: 1,
        attempt,
        state: state.into(),
        fence: id,
        node: "a".into(),
        due: at,
        claimed: Some(at + 2),
        finished: Some(at + 20),
        prev: (n > 1).then_some((n - 1) * STEP),
        following: (n < 5).then_some((n + 1) * STEP),
        ..Execution::default()
    });
    history.effects.push(Effect {
        execution: id,
        schedule: "s".into(),
        payload: if n > 3 { "two" } else { "one" }.into(),
        scheduled: n * STEP,
        attempt,
        fence: id,
        at: at + 5,
        ended: Some(at + 15),
        took: Some(10),
        snoozed: None,
        overstayed: None,
        ..Effect::default()
    });
    let mut change = |at, from: Option<&str>, to: &str| {
        let (from, to) = (from.map(str::to_owned), Some(to.to_owned()));
        history.changes.push(Change { at, apart: 0, execution: id, from, to });
    };
    change(at + 2, None, "CLAIMED");
    change(at + 4, Some("CLAIMED"), "RUNNING");
    change(at + 20, Some("RUNNING"), state);
}

fn row(history: &mut History, id: i64) -> &mut Execution {
    history.executions.iter_mut().find(|row| row.id == id).unwrap()
}

fn effect(history: &mut History, id: i64) -> &mut Effect {
    history.effects.iter_mut().find(|effect| effect.execution == id).unwrap()
}

/// The history with this fault in it is blamed in these words.
fn caught(words: &str, fault: impl FnOnce(&mut History)) {
    let mut history = good();
    fault(&mut history);
    let violations = judge(&history).violations;
    assert!(violations.iter().any(|it| it.contains(words)), "{words:?} is not among {violations:#?}");
}

#[test]
fn a_good_history_is_clean() {
    let verdict = judge(&good());
    verdict.assert_clean();
    assert_eq!((verdict.fired, verdict.skipped, verdict.attempts, verdict.excused), (5, 0, 6, 0));
}

/// A grace is the most that an async handler has, to the millisecond.
#[test]
fn a_handler_that_outlasts_its_grace_is_caught() {
    let mut history = good();
    effect(&mut history, 31).overstayed = Some(5_000);
    judge(&history).assert_clean();
    caught("went on beyond its grace", |history| effect(history, 31).overstayed = Some(5_001));
}

#[test]
fn a_duplicate_is_caught() {
    caught("begun more than once", |history| {
        let again = Effect { at: 3_050, ..effect(history, 31).clone() };
        history.effects.push(again);
    });
    caught("expected Some(4000) next", |history| {
        let again = Execution { id: 99, ..row(history, 31).clone() };
        history.executions.push(again);
    });
}

/// The third occurrence snoozed at 3 s, until 3.5 s, and ran again under another fence.
fn snooze(history: &mut History) {
    let first = effect(history, 31).clone();
    row(history, 31).fence = 32;
    row(history, 31).due = 3_500;
    effect(history, 31).snoozed = Some(3_500);
    history.effects.push(Effect { fence: 32, at: 3_505, ended: Some(3_515), ..first });
    let place = history.changes.iter().position(|it| it.execution == 31 && it.at == 3_020).unwrap();
    history.changes[place].to = Some("PENDING".into());
    for (at, from, to) in [(3_502, "PENDING", "RUNNING"), (3_520, "RUNNING", "SUCCEEDED")] {
        let (from, to) = (Some(from.to_owned()), Some(to.to_owned()));
        history.changes.push(Change { at, apart: 0, execution: 31, from, to });
    }
}

/// The history with this fault in it, of a schedule whose executions must not overlap.
fn caught_apart(words: &str, fault: impl FnOnce(&mut History)) {
    caught(words, |history| {
        history.plans[0].exclusive = true;
        fault(history);
        history.changes.sort_by_key(|change| change.at);
    });
}

/// The third occurrence was skipped for this execution.
fn skip_for(history: &mut History, holder: Option<i64>) {
    let row = row(history, 31);
    (row.state, row.reason, row.holder) = ("SKIPPED".into(), "overlap".into(), holder);
    history.effects.retain(|effect| effect.execution != 31);
    history.changes.retain(|change| change.execution != 31);
    history.changes.push(Change {
        at: 3_002,
        apart: 0,
        execution: 31,
        from: None,
        to: Some("SKIPPED".into()),
    });
}

/// The outcome of this execution is stored then.
fn ends_at(history: &mut History, execution: i64, at: i64) {
    let end = history.changes.iter_mut().rev().find(|it| it.execution == execution).unwrap();
    end.at = at;
}

#[test]
fn executions_that_must_not_overlap_are_kept_apart() {
    let mut history = good();
    history.plans[0].exclusive = true;
    snooze(&mut history);
    history.changes.sort_by_key(|change| change.at);
    judge(&history).assert_clean();
    caught_apart("ran beside another of its schedule", |history| {
        effect(history, 11).ended = Some(2_007);
    });
    caught_apart("while 11 kept the slot", |history| ends_at(history, 11, 2_003));
    caught_apart("while 22 kept the slot", |history| {
        ends_at(history, 22, 3_003);
    });
    caught_apart("while 31 kept the slot", |history| {
        // It waits for its snooze.
        snooze(history);
        let goes_on = history.changes.iter_mut().find(|it| it.execution == 31 && it.at == 3_502).unwrap();
        goes_on.at = 4_010;
    });
    caught_apart("for a slot that was free", |history| history.bounds.freed = 1);
}

#[test]
fn nothing_is_skipped_for_what_had_ended() {
    let mut history = good();
    history.plans[0].exclusive = true;
    skip_for(&mut history, Some(22));
    ends_at(&mut history, 22, 3_001);
    effect(&mut history, 22).ended = Some(2_900);
    history.changes.sort_by_key(|change| change.at);
    let verdict = judge(&history);
    verdict.assert_clean();
    assert_eq!((verdict.skipped, verdict.overlapped), (1, 1));
    caught_apart("skipped for Some(11), which ended at 1020", |history| skip_for(history, Some(11)));
    caught_apart("skipped for None", |history| skip_for(history, None));
    caught_apart("skipped for Some(31)", |history| skip_for(history, Some(31)));
    caught("although it may overlap", |history| skip_for(history, Some(22)));
}

/// The second occurrence keeps its slot when the third is skipped for it, until 3.5 s.
#[test]
fn a_skip_says_whether_its_holder_had_begun() {
    let skip = |history: &mut History, reason: &str, begins: i64| {
        (history.plans[0].exclusive, history.bounds.early) = (true, 0);
        skip_for(history, Some(22));
        row(history, 31).reason = reason.into();
        history.changes.iter_mut().find(|it| it.execution == 22 && it.at == 2_104).unwrap().at = begins;
        ends_at(history, 22, 3_500);
        history.changes.sort_by_key(|change| change.at);
    };
    for (reason, begins) in [("overlap", 2_200), ("holder late", 3_400)] {
        let mut history = good();
        skip(&mut history, reason, begins);
        let verdict = judge(&history);
        verdict.assert_clean();
        assert_eq!(verdict.overlapped, 1);
    }
    caught("which was RUNNING since 2200", |history| skip(history, "holder late", 2_200));
    caught("which was CLAIMED since 2102", |history| skip(history, "overlap", 3_400));
}

#[test]
fn a_snooze_goes_on_once_and_not_before_its_time() {
    let mut history = good();
    snooze(&mut history);
    judge(&history).assert_clean();
    caught("before its snooze was over", |history| {
        snooze(history);
        effect(history, 31).snoozed = Some(3_600);
    });
    caught("begun after it was taken away", |history| {
        snooze(history);
        effect(history, 31).snoozed = None;
    });
    caught("attempt 1 of 1", |history| {
        row(history, 31).state = "FAILED".into();
        history.plans[0].retries = 1;
    });
}

/// The third occurrence, which may take 12 ms, ran out of time, and its handler returned 30 ms later.
fn time_out(history: &mut History) {
    history.bounds.early = 0;
    history.plans[0].limit = Some(12);
    row(history, 31).state = "TIMED_OUT".into();
    effect(history, 31).ended = Some(3_050);
    let end = history.changes.iter_mut().find(|it| it.execution == 31 && it.at == 3_020).unwrap();
    end.to = Some("TIMED_OUT".into());
}

#[test]
fn a_time_limit_is_kept_and_its_retry_waits() {
    let mut history = good();
    time_out(&mut history);
    judge(&history).assert_clean();
    caught("timed out, but not at its limit", |history| {
        time_out(history);
        history.plans[0].limit = Some(100);
    });
    caught("still RUNNING beyond its limit", |history| {
        time_out(history);
        row(history, 31).state = "RUNNING".into();
        effect(history, 31).ended = None;
        history.live.insert("a".into());
        history.read = 100_000;
    });
    caught("answered beyond its limit", |history| {
        history.plans[0].limit = Some(10);
    });
    caught("tried again while its handler ran on", |history| {
        time_out(history);
        history.live.insert("a".into());
        history.plans[0].retries = 1;
        run(history, 3, 2, "SUCCEEDED");
        effect(history, 31).ended = Some(3_200);
    });
    caught("attempt 1 of 1", |history| {
        time_out(history);
        history.plans[0].retries = 1;
        history.read = 100_000;
    });
}

#[test]
fn a_lost_occurrence_is_caught() {
    caught("its cursor did not go to Some(3000)", |history| {
        row(history, 21).following = Some(4_000);
    });
    caught("expected Some(3000) next", |history| history.executions.retain(|row| row.id != 31));
    caught("next is None, the ledger ends before Some(5000)", |history| {
        history.executions.retain(|row| row.id != 51);
    });
    caught("attempt 1 of 1", |history| history.executions.retain(|row| row.id != 22));
    caught("nobody moved it", |history| {
        history.executions.retain(|row| row.id != 51);
        history.plans[0].next = Some(5_000);
        history.plans[0].state = "EXECUTING".into();
        history.read = 100_000;
    });
}

fn removed(history: &mut History, id: i64, at: i64) {
    let from = Some(row(history, id).state.clone());
    history.changes.push(Change { at, apart: 0, execution: id, from, to: None });
}

#[test]
fn a_removal_too_soon_or_out_of_order_is_caught() {
    let mut history = good();
    history.kept = 100_000;
    for id in [11, 21, 22] {
        removed(&mut history, id, 110_000);
    }
    let verdict = judge(&history);
    verdict.assert_clean();
    assert_eq!(verdict.removed, 3);
    caught("too soon", |history| {
        history.kept = 100_000;
        removed(history, 11, 90_000);
    });
    caught("removed before what was planned earlier", |history| removed(history, 21, 110_000));
    caught("an illegal change", |history| {
        removed(history, 11, 110_000);
        removed(history, 11, 110_001);
    });
    caught("tried again, although what it follows was removed", |history| {
        let next = history.changes.iter().position(|it| it.execution == 22).unwrap();
        removed(history, 21, 2_050);
        let removal = history.changes.pop().unwrap();
        history.changes.insert(next, removal);
    });
}

#[test]
fn an_occurrence_nobody_planned_is_caught() {
    caught("expected Some(3000) next", |history| row(history, 31).scheduled = 3_500);
    caught("of no schedule", |history| row(history, 31).schedule = "other".into());
    caught("begun without a row", |history| effect(history, 31).execution = 77);
}

#[test]
fn a_zombies_late_outcome_is_caught() {
    // It was taken from one node and claimed by another, under whose hands the first one's outcome arrived.
    caught("an outcome that is not its own", |history| row(history, 31).fence = 32);
    caught("an outcome that is not its own", |history| effect(history, 31).ended = Some(3_021));
    caught("an outcome that is not its own", |history| effect(history, 31).ended = None);
}

#[test]
fn a_zombies_late_beginning_is_caught_and_excused_only_where_processes_were_stopped() {
    let late = |history: &mut History| effect(history, 21).at = 2_021;
    caught("begun after it was taken away", late);
    let mut history = History { stopped: true, ..good() };
    late(&mut history);
    let verdict = judge(&history);
    verdict.assert_clean();
    assert_eq!(verdict.excused, 1);
}

#[test]
fn an_orphan_is_caught() {
    let orphan = |history: &mut History| {
        row(history, 51).state = "RUNNING".into();
        history.changes.pop_if(|change| change.execution == 22);
        history.changes.retain(|change| change.execution != 51 || change.to.as_deref() != Some("SUCCEEDED"));
        history.read = 5_002 + 60_001;
    };
    caught("still held", orphan);
    caught("due and nobody took it", |history| {
        row(history, 22).state = "PENDING".into();
        history.read = 200_000;
    });
}

#[test]
fn a_death_without_a_reason_is_caught() {
    caught("declared dead for no reason", |history| history.dead = ["a".into()].into());
    caught("taken from a node that lives", |history| history.live = ["a".into()].into());
    let mut history = good();
    history.dead.insert("a".into());
    history.doomed.insert("a".into());
    judge(&history).assert_clean();
}

#[test]
fn a_death_nobody_notices_is_caught() {
    caught("not noticed", |history| history.unnoticed = vec![47_001]);
    judge(&History { unnoticed: vec![47_000], ..good() }).assert_clean();
}

#[test]
fn a_stale_payload_is_caught() {
    caught("another payload", |history| effect(history, 41).payload = "one".into());
    caught("another payload", |history| effect(history, 31).payload = "two".into());
}

#[test]
fn an_attempt_put_off_by_a_wrong_clock_is_caught() {
    caught("not for long", |history| row(history, 22).due = 15_000);
}

/// The third occurrence was skipped at `at`, for this reason.
fn skip_the_third(history: &mut History, at: i64, reason: &str) {
    let third = row(history, 31);
    (third.state, third.reason) = ("SKIPPED".into(), reason.into());
    history.effects.retain(|effect| effect.execution != 31);
    history.changes.retain(|change| change.execution != 31);
    history.changes.push(Change { at, apart: 0, execution: 31, from: None, to: Some("SKIPPED".into()) });
}

#[test]
fn a_skip_without_a_reason_is_caught() {
    caught("for a pause nobody made", |history| skip_the_third(history, 3_900, "paused"));
    caught("less than 60000 ms late", |history| skip_the_third(history, 50_000, "misfire"));
    caught("against its policy, FIRE_ONCE", |history| skip_the_third(history, 70_000, "misfire"));
    caught("against its policy, FIRE_ALL", |history| {
        skip_the_third(history, 70_000, "misfire");
        history.plans[0].misfire = "FIRE_ALL".into();
    });
    let mut history = good();
    skip_the_third(&mut history, 70_000, "misfire");
    history.plans[0].misfire = "DO_NOTHING".into();
    judge(&history).assert_clean();
    let mut history = good();
    skip_the_third(&mut history, 3_900, "paused");
    history.pauses.push(Pause { schedule: "s".into(), from: 2_500, until: 3_800 });
    judge(&history).assert_clean();
}

#[test]
fn what_is_done_before_its_time_is_caught() {
    caught("before its time", |history| history.changes[0].at = -1);
    caught("before it was due", |history| effect(history, 31).at = 2_999);
    let mut history = good();
    effect(&mut history, 31).at = 2_999;
    history.clock = vec![(1_000, 1), (1_500, -5), (3_000, 700)];
    judge(&history).assert_clean();
    history.clock[0].1 = 0;
    assert!(!judge(&history).violations.is_empty(), "a step that comes later excuses nothing");
}

#[test]
fn the_legal_changes_are_the_state_machines() {
    for from in ExecutionState::ALL {
        for to in ExecutionState::ALL {
            let legal = is_legal(Some(from.as_str()), Some(to.as_str()));
            assert_eq!(legal, from.can_become(*to), "{from:?} -> {to:?}");
        }
        assert_eq!(is_legal(Some(from.as_str()), None), from.is_terminal(), "{from:?} removed");
    }
}

#[test]
fn a_wrong_order_is_caught() {
    caught("its cursor came from", |history| row(history, 31).prev = Some(1_000));
    caught("a further attempt before the last had ended", |history| history.changes.swap(5, 15));
    caught("an illegal change", |history| history.changes.swap(0, 1));
    caught("an illegal change", |history| {
        let zombie = Change {
            at: 9_000,
            from: Some("SUCCEEDED".into()),
            to: Some("FAILED".into()),
            ..history.changes[2]
        };
        history.changes.push(zombie);
    });
    caught("its changes do not end there", |history| row(history, 31).state = "FAILED".into());
    caught("given up too soon", |history| row(history, 22).reason = "attempts exhausted".into());
    caught("attempt 1 of 2", |history| row(history, 21).state = "SUCCEEDED".into());
}

#[test]
fn a_revived_pause_is_caught() {
    caught("claimed or repaired at 3002 in Pause", |history| {
        history.pauses.push(Pause { schedule: "s".into(), from: 2_500, until: 3_500 });
    });
}

#[test]
fn a_skip_by_hand_that_nobody_asked_for_is_caught() {
    let mut history = good();
    skip_the_third(&mut history, 2_500, "by hand");
    history.skips.push(("s".into(), 3_000));
    judge(&history).assert_clean();
    caught("skipped, and nobody asked for it", |history| skip_the_third(history, 2_500, "by hand"));
}

#[test]
fn an_attempt_that_somebody_asked_for_follows_anything_that_has_ended() {
    let again = |history: &mut History| {
        row(history, 51).state = "FAILED".into();
        let end =
            history.changes.iter_mut().find(|it| it.execution == 51 && it.to.as_deref() == Some("SUCCEEDED"));
        end.unwrap().to = Some("FAILED".into());
        run(history, 5, 2, "SUCCEEDED");
    };
    caught("attempt 1 of 2", again);
    let mut history = good();
    again(&mut history);
    history.retries.insert(52);
    judge(&history).assert_clean();
}

#[test]
fn what_follows_a_cancel_is_caught() {
    let asked = |at| Cancel { execution: 21, at };
    let mut history = good();
    history.cancels.push(asked(2_200));
    judge(&history).assert_clean();
    caught("another attempt although somebody cancelled", |history| history.cancels.push(asked(2_050)));
    caught("attempt 1 of 1", |history| {
        for row in 1..=2 {
            history.executions.retain(|it| it.id != 20 + row || row == 1);
        }
        history.changes.retain(|change| change.execution != 22);
        history.effects.retain(|effect| effect.execution != 22);
    });
}

#[test]
fn an_order_that_is_lost_or_run_otherwise_is_caught() {
    let ordered = |history: &mut History| {
        run(history, 6, 1, "SUCCEEDED");
        let row = row(history, 61);
        (row.origin, row.prev, row.following) = (7, None, None);
        effect(history, 61).payload = "own".into();
        history.orders = Some(vec![Order { execution: 61, payload: Some("own".into()) }]);
    };
    let mut history = good();
    ordered(&mut history);
    judge(&history).assert_clean();
    caught("run with another payload than its own", |history| {
        ordered(history);
        effect(history, 61).payload = "two".into();
    });
    caught("neither planned nor asked for", |history| {
        ordered(history);
        history.orders = Some(Vec::new());
    });
    caught("asked for, and this came of it", |history| {
        ordered(history);
        history.orders.as_mut().unwrap().push(Order { execution: 99, payload: None });
    });
}

/// The third occurrence has failed, and is run again as 61, of origin 7.
#[test]
fn a_rerun_of_the_wrong_occurrence_is_caught() {
    let rerun = |history: &mut History| {
        row(history, 31).state = "FAILED".into();
        for change in history.changes.iter_mut().filter(|change| change.execution == 31) {
            change.to = change.to.take().map(|to| to.replace("SUCCEEDED", "FAILED"));
        }
        run(history, 6, 1, "SUCCEEDED");
        let again = row(history, 61);
        (again.origin, again.scheduled, again.prev, again.following) = (7, 3 * STEP, Some(2 * STEP), None);
        effect(history, 61).scheduled = 3 * STEP;
        history.orders = Some(vec![Order { execution: 61, payload: None }]);
        let changes = history.changes.iter().position(|change| change.execution == 61).unwrap();
        let (schedule, times) = ("s".into(), vec![3 * STEP]);
        history.reruns = vec![Rerun { schedule, origin: 7, changes, times }];
    };
    let mut history = good();
    rerun(&mut history);
    judge(&history).assert_clean();
    caught("a rerun that made executions at [3000]", |history| {
        rerun(history);
        history.reruns[0].times.push(4 * STEP);
    });
    caught("rerun although it was SUCCEEDED", |history| {
        rerun(history);
        history.reruns[0].times = vec![4 * STEP];
        (row(history, 61).scheduled, effect(history, 61).scheduled) = (4 * STEP, 4 * STEP);
    });
    caught("rerun although it was RUNNING", |history| {
        rerun(history);
        history.reruns[0].changes = history.changes.iter().rposition(|it| it.execution == 31).unwrap();
    });
    caught("rerun though nothing was planned at 3500", |history| {
        rerun(history);
        history.reruns[0].times = vec![3_500];
        (row(history, 61).scheduled, effect(history, 61).scheduled) = (3_500, 3_500);
    });
    caught("rerun although it was SUCCEEDED", |history| {
        rerun(history);
        let (schedule, times) = ("s".into(), vec![3 * STEP]);
        let changes = history.changes.len();
        history.reruns.push(Rerun { schedule, origin: 8, changes, times });
    });
    caught("it covers", |history| {
        rerun(history);
        let (execution, from, until, changes) = (61, Some(STEP), 3 * STEP, history.changes.len());
        history.coverings.push(Covering { execution, from, until, changes, ..Covering::default() });
    });
}

#[test]
fn two_executions_of_one_key_at_once_are_caught() {
    let keyed = |history: &mut History, second: i64| {
        for (id, origin, at) in [(61, 7, 6_000), (71, 8, second)] {
            run(history, id / 10, 1, "SUCCEEDED");
            let row = row(history, id);
            (row.origin, row.prev, row.following) = (origin, None, None);
            effect(history, id).payload = "own".into();
            let own =
                history.changes.iter_mut().filter(|change| change.execution == id && change.from.is_none());
            own.for_each(|change| change.at = at);
            history.keyed.push(Keyed { execution: id, key: "k".into() });
        }
        let order = |execution| Order { execution, payload: Some("own".into()) };
        history.orders = Some(vec![order(61), order(71)]);
        history.changes.sort_by_key(|change| change.at);
    };
    let mut history = good();
    keyed(&mut history, 7_000);
    judge(&history).assert_clean();
    caught("two of one key", |history| keyed(history, 6_001));
}

#[test]
fn a_request_that_is_left_or_carried_out_too_early_is_caught() {
    let request = |id, subject: &str, ended| Request { id, subject: Some(subject.to_owned()), ended };
    let two = |first, second| {
        let requests = vec![request(1, "a", first), request(2, "b", Some(5)), request(3, "a", second)];
        judge(&History { requests, ..History::default() }).violations
    };
    assert_eq!(two(Some(10), Some(10)), [""; 0]);
    assert!(two(Some(10), Some(9))[0].contains("carried out before request 1"));
    assert!(two(Some(10), None)[0].contains("not carried out"));
}

#[test]
fn outcomes_that_are_counted_twice_or_never_are_caught() {
    let mut history = good();
    let ended =
        COUNTED.map(|state| history.executions.iter().filter(|row| row.state == state).count() as i64);
    assert!(ended[0] > 0);
    history.counted = Some(ended);
    judge(&history).assert_clean();
    for (place, state) in COUNTED.iter().enumerate() {
        for more in [-1, 1] {
            let words =
                format!("{} outcomes are counted as {state}, of {}", ended[place] + more, ended[place]);
            let counted = std::array::from_fn(|n| ended[n] + if n == place { more } else { 0 });
            caught(&words, |history| history.counted = Some(counted));
        }
    }
    // Retention has removed the hour.
    history.counted = Some([0; 4]);
    (history.read, history.kept) = (history.read + 2 * 3_600_000, 0);
    judge(&history).assert_clean();
}

/// The third occurrence is to succeed within 500 ms, and begins 700 ms late.
fn late(history: &mut History) {
    history.plans[0].expected_by = Some(500);
    history.changes.iter_mut().filter(|it| it.execution == 31).for_each(|it| it.at += 700);
    effect(history, 31).at += 700;
    effect(history, 31).payload = "two".into();
    effect(history, 31).ended = Some(3_715);
    history.expectations = vec![note(3_600, 3 * STEP, false), note(3_800, 3 * STEP, true)];
    history.told = vec![("s".into(), 3 * STEP, false), ("s".into(), 3 * STEP, true)];
}

fn note(at: i64, fire_time: i64, is_met: bool) -> ExpectationNote {
    ExpectationNote { schedule: "s".into(), generation: 0, fire_time, is_met, at, clock: at }
}

#[test]
fn what_is_told_of_expectations_twice_too_soon_or_for_nothing_is_caught() {
    let caught = |words: &str, fault: &dyn Fn(&mut History)| {
        caught(words, |history| {
            late(history);
            fault(history);
        });
    };
    let mut history = good();
    late(&mut history);
    let verdict = judge(&history);
    verdict.assert_clean();
    assert_eq!(verdict.unmet, 1);
    caught("unmet since Some(3000), and noted again", &|it| {
        it.expectations.insert(1, note(3_700, 3 * STEP, false));
    });
    caught("unmet before its time was up", &|it| it.plans[0].expected_by = Some(1_700));
    caught("unmet, though it had succeeded", &|it| it.expectations[0].at = 3_730);
    caught("unmet, and nobody planned it", &|it| it.expectations[0].fire_time = 3_001);
    caught("unmet, and nobody waits for it", &|it| {
        (row(it, 31).state, row(it, 31).reason) = ("SKIPPED".into(), "by hand".into());
        it.changes.retain(|it| it.execution != 31);
        it.changes.push(Change { at: 3_100, execution: 31, to: Some("SKIPPED".into()), ..Change::default() });
    });
    caught("unmet, and held back by Pause", &|it| {
        it.pauses.push(Pause { schedule: "s".into(), from: 3_500, until: 3_650 });
    });
    caught("unmet, and held back by Switch", &|it| {
        let (from, until) = (3_500, 3_650);
        it.switches.push(Switch { job: Some("job".into()), from, until, ..Switch::default() });
    });
    caught("met, and what was unmet is None", &|it| drop(it.expectations.remove(0)));
    caught("met, and nothing has succeeded", &|it| it.expectations[1].at = 3_700);
    caught("told more often than noted", &|it| it.told.push(("s".into(), 3 * STEP, true)));
    caught("noted, though nothing is expected", &|it| it.plans[0].expected_by = None);
}

#[test]
fn what_is_unmet_and_not_told_is_caught() {
    let long = |history: &mut History| {
        late(history);
        history.read = 200 * STEP;
    };
    caught("unmet since 3000, and no note that it was met", |history| {
        long(history);
        history.expectations.truncate(1);
    });
    let fails = |history: &mut History| {
        long(history);
        row(history, 51).state = "FAILED".into();
        history.changes.iter_mut().filter(|it| it.execution == 51 && it.at > 5_010).for_each(|it| {
            it.to = Some("FAILED".into());
        });
    };
    caught("5000 is unmet, and nobody noted it", fails);
    let is_excused = |excuse: &dyn Fn(&mut History)| {
        let mut history = good();
        fails(&mut history);
        excuse(&mut history);
        let violations = judge(&history).violations;
        assert!(violations.iter().all(|it| !it.contains("nobody noted")), "{violations:#?}");
    };
    is_excused(&|it| it.expectations.push(note(5_600, 5 * STEP, false)));
    is_excused(&|it| it.pauses.push(Pause { schedule: "s".into(), from: 5_500, until: 6_000 }));
    is_excused(&|it| it.plans[0].state = "REMOVED".into());
    is_excused(&|it| it.read = 60 * STEP);
}

#[test]
fn a_job_that_nobody_can_run_is_told_once_an_hour() {
    let unserved = |told: &[i64]| Unserved { job: "nobody's".into(), since: 0, told: told.to_vec() };
    let judged = |told: &[i64]| {
        let history = History { unserved: vec![unserved(told)], read: 8_000 * STEP, ..good() };
        judge(&history).violations
    };
    assert_eq!(judged(&[90 * STEP, 3_690 * STEP]), [""; 0]);
    assert!(judged(&[90 * STEP, 150 * STEP])[0].contains("told again within the hour"));
    assert!(judged(&[])[0].contains("nobody tells"));
}

#[test]
fn a_sync_that_undoes_a_newer_one_or_another_owners_is_caught() {
    let list = |names: &[&str], priority: i64| -> BTreeMap<String, i64> {
        names.iter().map(|name| ((*name).to_owned(), priority)).collect()
    };
    let rows = |of: &[(&str, &BTreeMap<String, i64>)]| -> BTreeMap<String, BTreeMap<String, i64>> {
        of.iter().map(|(owner, list)| ((*owner).to_owned(), (*list).clone())).collect()
    };
    let (old, new, other) = (list(&["a", "b"], 1), list(&["b", "c"], 2), list(&["d"], 1));
    let sync = |owner: &str, revision, list: &BTreeMap<String, i64>, is_stale, rows| Sync {
        owner: owner.to_owned(),
        revision,
        list: list.clone(),
        is_stale,
        rows,
    };
    let with = |last: Sync| {
        let first = sync("billing", 1, &old, Some(false), rows(&[("billing", &old)]));
        let second = sync("shop", 7, &other, Some(false), rows(&[("billing", &old), ("shop", &other)]));
        let both = rows(&[("billing", &new), ("shop", &other)]);
        let third = sync("billing", 2, &new, Some(false), both);
        judge(&History { syncs: vec![first, second, third, last], ..History::default() }).violations
    };
    let both = |billing| rows(&[("billing", billing), ("shop", &other)]);
    for is_stale in [Some(true), Some(false), None] {
        assert_eq!(with(sync("billing", 1, &old, is_stale, both(&new))), [""; 0], "it has written nothing");
    }
    assert_eq!(with(sync("billing", 3, &old, Some(false), both(&old))), [""; 0]);
    let undone = with(sync("billing", 1, &old, Some(false), both(&old)));
    assert!(undone[0].contains("after a sync of revision 1, Some(2) being known"), "{undone:?}");
    let half = list(&["a"], 1);
    let wrong = [
        sync("billing", 3, &old, Some(false), both(&half)),
        sync("billing", 3, &old, None, both(&half)),
        sync("billing", 3, &old, Some(false), rows(&[("billing", &old)])),
        sync("billing", 2, &new, Some(true), both(&new)),
    ];
    for last in wrong {
        assert_eq!(with(last.clone()).len(), 1, "{last:?}");
    }
}

#[test]
fn what_goes_beyond_a_bound_or_waits_below_it_is_caught() {
    let of_job = |limit| move |history: &mut History| history.plans[0].concurrency = limit;
    let of_group = |limit| {
        move |history: &mut History| {
            history.plans[0].group_concurrency = limit;
            history.executions.iter_mut().for_each(|row| row.group = Some("g".into()));
        }
    };
    let claimed = |history: &mut History, id: i64, at: i64| {
        let own = history.changes.iter_mut().find(|it| it.execution == id);
        own.expect("it was claimed").at = at;
        history.changes.sort_by_key(|it| it.at);
    };
    let (one, two_a_second) =
        (Limit { most: Some(1), rate: None }, Limit { most: None, rate: Some((2, 1_000)) });
    let cases: [(&str, Limit, i64, i64); 3] = [
        ("claimed beside", one, 41, 3_010),
        ("claimed as 2 had been", two_a_second, 41, 3_050),
        ("for a place that was free", one, 51, 5_700),
    ];
    for (words, limit, id, at) in cases {
        let limits: [&dyn Fn(&mut History); 2] = [&of_job(limit), &of_group(limit)];
        for limit in limits {
            let bound = |history: &mut History| {
                history.bounds.freed = 500;
                history.changes.sort_by_key(|it| it.at);
                limit(history);
            };
            let mut history = good();
            bound(&mut history);
            judge(&history).assert_clean();
            caught(words, |history| {
                bound(history);
                claimed(history, id, at);
            });
        }
    }
    // Claims that are 98 ms apart, the first of them ahead: it is to begin 40 ms after the second.
    caught("claimed as 1 had been within 90 ms", |history| {
        of_job(Limit { most: None, rate: Some((1, 90)) })(history);
        claimed(history, 41, 3_862);
        claimed(history, 22, 3_960);
    });
}

#[test]
fn a_removed_schedule_that_goes_on_is_caught() {
    let removal = |from| Pause { schedule: "s".into(), from, until: 3_500 };
    caught("claimed or repaired at 3002 in Pause", |history| history.removals.push(removal(2_500)));
    let cancel_the_last = |history: &mut History, reason: &str| {
        row(history, 51).state = "CANCELLED".into();
        row(history, 51).reason = reason.into();
        history.changes.retain(|change| change.execution != 51);
        history.effects.retain(|effect| effect.execution != 51);
        for (from, to) in [(None, "PENDING"), (Some("PENDING"), "CANCELLED")] {
            let (from, to) = (from.map(str::to_owned), Some(to.to_owned()));
            history.changes.push(Change { at: 5_100, apart: 0, execution: 51, from, to });
        }
    };
    let mut history = good();
    cancel_the_last(&mut history, "removed");
    history.removals.push(Pause { until: i64::MAX, ..removal(5_050) });
    judge(&history).assert_clean();
    caught("cancelled at 5100 for no reason", |history| cancel_the_last(history, "removed"));
    caught("cancelled at 5100 for no reason", |history| {
        cancel_the_last(history, "");
        history.removals.push(removal(5_050));
    });
}

#[test]
fn what_is_claimed_while_switched_off_is_caught() {
    let off = |known, node: Option<&str>| Switch {
        node: node.map(str::to_owned),
        known,
        until: 5_000,
        ..Switch::default()
    };
    for node in [None, Some("a")] {
        caught("{ id: 31,", |history| history.switches.push(off(2_500, node)));
    }
    caught("from: None, to: Some(\"CLAIMED\")", |history| {
        history.bounds.call = 1_000;
        // Asked for before, made afterwards.
        history.executions.iter_mut().for_each(|row| row.claimed = Some(0));
        history.switches.push(off(1_500, None));
    });
}

#[test]
fn what_a_jobs_pause_allows_is_not_blamed_and_what_it_forbids_is_caught() {
    let off =
        |job: &str| Switch { job: Some(job.to_owned()), known: 2_500, until: 5_000, ..Switch::default() };
    let mut history = good();
    history.switches.push(off("another"));
    judge(&history).assert_clean();
    caught("{ id: 31,", |history| {
        history.plans[0].job = "work".to_owned();
        history.switches.push(off("work"));
    });
    caught("run although a pause had held it back", |history| {
        history.switches.push(Switch { until: 1_000, passes: Some((500, 1_500)), ..Switch::default() });
    });
    caught("begun on a node that drains", |history| {
        let drains = Switch { node: Some("a".to_owned()), known: 2_500, drains: true, ..off("") };
        history.switches.push(Switch { job: None, ..drains });
        history.executions.iter_mut().for_each(|row| row.claimed = Some(0));
    });
}

#[test]
fn a_claim_before_a_switch_by_a_clock_that_is_ahead_is_not_blamed() {
    let mut history = good();
    history.switches.push(Switch {
        node: Some("a".to_owned()),
        known: 2_500,
        until: 5_000,
        ..Switch::default()
    });
    history.clock = vec![(2_000, 2_500)];
    judge(&history).assert_clean();
    history.clock = vec![(2_000, 400)];
    assert!(!judge(&history).violations.is_empty(), "it was after the switch");
}

/// The first four occurrences end so, each on a node of its own; retention and cancels aside.
fn end_four(history: &mut History, state: &str) {
    history.plans[0].recovers = false;
    history.executions.retain(|row| row.attempt == 1);
    history.effects.retain(|effect| effect.attempt == 1);
    let ids: Vec<i64> = history.executions.iter().map(|row| row.id).collect();
    history.changes.retain(|change| ids.contains(&change.execution));
    for n in 1..=4 {
        let row = row(history, 10 * n + 1);
        (row.state, row.node) = (state.to_owned(), format!("node {n}"));
        if state == "ABANDONED" {
            history.dead.insert(format!("node {n}"));
            history.doomed.insert(format!("node {n}"));
        }
        let last = history.changes.iter_mut().rev().find(|it| it.execution == 10 * n + 1).unwrap();
        last.to = Some(state.to_owned());
    }
}

fn contained(history: &mut History, at: i64, until: i64) {
    history.contained.push(("s".to_owned(), at));
    history.pauses.push(Pause { schedule: "s".to_owned(), from: at, until });
}

#[test]
fn a_schedule_that_is_not_paused_for_what_failed_is_caught() {
    let mut history = good();
    end_four(&mut history, "FAILED");
    for pause_after in [None, Some(0), Some(4)] {
        history.plans[0].pause_after = pause_after;
        judge(&history).assert_clean();
    }
    caught("id: 51", |history| {
        end_four(history, "FAILED");
        history.plans[0].pause_after = Some(3);
    });
    history.plans[0].pause_after = Some(3);
    contained(&mut history, 4_050, 4_900);
    judge(&history).assert_clean();
}

#[test]
fn a_schedule_that_goes_on_killing_its_nodes_is_caught() {
    let killer = |history: &mut History| {
        end_four(history, "ABANDONED");
        history.plans[0].exclusive = true;
    };
    caught("should have been paused", killer);
    let mut history = good();
    killer(&mut history);
    history.plans[0].pause_after = Some(0);
    judge(&history).assert_clean();
    history.plans[0].pause_after = None;
    for at in [2_015, 4_015] {
        contained(&mut history, at, at + 900);
    }
    judge(&history).assert_clean();
    for n in 1..=4 {
        row(&mut history, 10 * n + 1).node = "one".to_owned();
    }
    (history.contained, history.pauses) = (Vec::new(), Vec::new());
    judge(&history).assert_clean();
}

#[test]
fn a_pause_for_too_little_is_caught() {
    caught("had failed too seldom", |history| contained(history, 4_050, 4_900));
    caught("had failed too seldom", |history| {
        end_four(history, "FAILED");
        history.plans[0].pause_after = Some(3);
        contained(history, 3_050, 3_900);
        contained(history, 4_050, 4_900);
    });
}

#[test]
fn a_complete_that_is_not_is_caught() {
    caught("left ERROR", |history| history.plans[0].state = "ERROR".into());
    caught("left PAUSED", |history| history.plans[0].state = "PAUSED".into());
    caught("EXECUTING with next None", |history| history.plans[0].state = "EXECUTING".into());
}

#[test]
fn a_schedule_that_its_neighbours_stop_is_caught() {
    caught("begun 6 ms late", |history| {
        history.plans[0].punctual = Some(5);
        effect(history, 51).at = 5_006;
    });
    caught("stopped by its neighbours", |history| {
        history.plans[0].punctual = Some(5);
        skip_the_third(history, 70_000, "misfire");
        history.plans[0].misfire = "DO_NOTHING".into();
    });
}

#[test]
fn what_stays_behind_after_the_faults_is_caught() {
    caught("ms late", |history| {
        effect(history, 51).at = 5_000 + 78_001;
        effect(history, 51).ended = None;
    });
}

/// Three runs, each 980 ms after the end of the one before; the second after its node died.
fn delayed() -> History {
    let mut history = good();
    history.executions.retain(|row| row.scheduled <= 3 * STEP);
    history.effects.retain(|it| it.scheduled <= 3 * STEP);
    let left: Vec<i64> = history.executions.iter().map(|row| row.id).collect();
    history.changes.retain(|it| left.contains(&it.execution));
    let plan = &mut history.plans[0];
    plan.generations = [(0, Vec::new())].into();
    plan.delays = [(0, Delay { first: Some(STEP), delay: STEP - 20, ends: i64::MAX })].into();
    (plan.state, plan.next) = ("EXECUTING".into(), Some(4 * STEP));
    // The second run ends with its second attempt.
    for id in [21, 22] {
        row(&mut history, id).following = Some(3 * STEP + 100);
    }
    let third = row(&mut history, 31);
    (third.scheduled, third.due, third.following) = (3 * STEP + 100, 3 * STEP + 100, Some(4 * STEP));
    effect(&mut history, 31).scheduled = 3 * STEP + 100;
    effect(&mut history, 31).at = 3 * STEP + 105;
    history
}

#[test]
fn a_delay_counts_from_the_end_of_each_run() {
    type Fault = fn(&mut History);
    let judged = |change: Fault| {
        let mut history = delayed();
        change(&mut history);
        judge(&history).violations
    };
    assert_eq!(judged(|_| {}), [""; 0]);
    let caught: [(&str, Fault); 6] = [
        ("its last run leads to", |history| row(history, 31).scheduled -= 1),
        ("its cursor was to go to", |history| row(history, 21).following = Some(3 * STEP)),
        ("its cursor was to go to", |history| row(history, 31).following = Some(253_402_300_799_999)),
        ("its cursor came from", |history| row(history, 31).prev = Some(STEP)),
        ("skipped 1 occurrences", |history| {
            let row = row(history, 31);
            (row.state, row.reason, row.count) = ("SKIPPED".into(), "misfire".into(), 2);
        }),
        ("next is", |history| history.plans[0].next = Some(253_402_300_799_999)),
    ];
    for (words, change) in caught {
        let violations = judged(change);
        assert!(violations.iter().any(|it| it.contains(words)), "{words}: {violations:?}");
    }
}

/// What the fifth occurrence's handler hears, as it begins, if it hears the truth: the third was skipped as
/// missed, the fourth failed.
fn hear(history: &mut History, heard: Covering) {
    skip_for(history, None);
    row(history, 31).reason = "misfire".into();
    history.plans[0].misfire = "DO_NOTHING".into();
    history.plans[0].threshold = 0;
    row(history, 41).state = "FAILED".into();
    let end = history.changes.iter_mut().rev().find(|it| it.execution == 41).unwrap();
    end.to = Some("FAILED".into());
    history.changes.sort_by_key(|change| change.at);
    let changes = history.changes.iter().position(|it| it.execution == 51).unwrap() + 2;
    history.coverings.push(Covering { execution: 51, changes, ..heard });
}

fn truth() -> Covering {
    Covering { from: Some(2_000), until: 5_000, missed: 1, failed: 1, ..Covering::default() }
}

#[test]
fn what_an_execution_covers_is_compared_with_its_history() {
    let mut history = good();
    hear(&mut history, truth());
    judge(&history).assert_clean();
    for wrong in [
        Covering { from: Some(1_000), ..truth() },
        Covering { from: None, ..truth() },
        Covering { until: 4_000, ..truth() },
        Covering { missed: 0, skipped: 1, ..truth() },
        Covering { failed: 0, open: 1, ..truth() },
        Covering { missed: 2, ..truth() },
    ] {
        caught("and heard", |history| hear(history, wrong));
    }
    // Whoever kept no changes still counts.
    caught("2 occurrences are left out, not 3", |history| {
        hear(history, Covering { missed: 2, ..truth() });
        history.changes.clear();
    });
}

/// The answer is that of the instant at which it was asked.
#[test]
fn what_has_not_ended_when_it_is_asked_is_open() {
    let second_run_began = |history: &History| {
        history.changes.iter().position(|it| it.execution == 22 && it.from.is_some()).unwrap() + 1
    };
    let ask = |history: &mut History, heard: Covering| {
        history.changes.sort_by_key(|change| change.at);
        let changes = second_run_began(history);
        history.coverings.push(Covering { execution: 22, changes, ..heard });
    };
    let first = Covering { from: Some(1_000), until: 2_000, ..Covering::default() };
    let mut history = good();
    ask(&mut history, first.clone());
    judge(&history).assert_clean();
    caught("and heard", |history| {
        ends_at(history, 11, 2_200);
        ask(history, first.clone());
    });
    let mut history = good();
    ends_at(&mut history, 11, 2_200);
    ask(&mut history, Covering { from: None, open: 1, ..first });
    judge(&history).assert_clean();
}

/// An edit moved the trigger after the second occurrence; one that somebody asked for covers the same.
#[test]
fn a_span_goes_on_over_an_edit_and_stays_as_it_is_for_what_was_asked_for() {
    let edited = |history: &mut History, heard: Covering| {
        let times = history.plans[0].generations.remove(&0).unwrap();
        history.plans[0].generations = [(0, times[..2].to_vec()), (1, times[2..].to_vec())].into();
        for row in history.executions.iter_mut().filter(|row| row.scheduled > 2_000) {
            row.generation = 1;
        }
        row(history, 22).following = None;
        row(history, 21).following = None;
        history.coverings.push(Covering { changes: history.changes.len(), ..heard });
    };
    let third = Covering { execution: 31, from: Some(2_000), until: 3_000, ..Covering::default() };
    let mut history = good();
    edited(&mut history, third.clone());
    judge(&history).assert_clean();
    caught("and heard", |history| edited(history, Covering { from: None, ..third.clone() }));
    let ask = |history: &mut History, heard: Covering| {
        history.orders = None;
        let ordered = Execution { id: 90, origin: 7, ..row(history, 31).clone() };
        history.executions.push(Execution { scheduled: 4_500, prev: None, following: None, ..ordered });
        for (from, to) in [(None, "RUNNING"), (Some("RUNNING"), "SUCCEEDED")] {
            let (from, to) = (from.map(str::to_owned), Some(to.to_owned()));
            history.changes.push(Change { at: 4_600, apart: 0, execution: 90, from, to });
        }
        let began =
            Effect { execution: 90, fence: 31, at: 4_550, ended: Some(4_560), ..effect(history, 31).clone() };
        history.effects.push(began);
        history.coverings.push(Covering { execution: 90, changes: history.changes.len(), ..heard });
    };
    let by_hand = Covering { from: Some(4_000), until: 4_500, ..Covering::default() };
    let mut history = good();
    ask(&mut history, by_hand.clone());
    let words = |it: &&String| it.contains("and heard");
    assert_eq!(judge(&history).violations.iter().find(words), None);
    caught("and heard", |history| ask(history, Covering { from: Some(3_000), ..by_hand.clone() }));
}

/// The handler had heard of the cancel before its commit was lost.
#[test]
fn a_lost_cancel_explains_the_end_of_the_claim_it_was_made_in_alone() {
    let cancel = |history: &mut History, lost_at| {
        let claimed = row(history, 51).claimed.unwrap();
        row(history, 51).state = "CANCELLED".into();
        let ends = |it: &&mut Change| it.execution == 51 && it.to.as_deref() == Some("SUCCEEDED");
        history.changes.iter_mut().find(ends).unwrap().to = Some("CANCELLED".into());
        history.lost_cancels = vec![Cancel { execution: 51, at: claimed + lost_at }];
    };
    let mut history = good();
    cancel(&mut history, 1);
    judge(&history).assert_clean();
    caught("for no reason", |history| cancel(history, -1));
    caught("for no reason", |history| {
        cancel(history, 1);
        row(history, 51).claimed = None;
    });
    caught("for no reason", |history| cancel(history, 10_000));
}

/// Two runs of one schedule have one fence, or the later a lower one, as after a copy took over that lacks
/// the first.
#[test]
fn a_fence_that_is_given_twice_or_goes_back_is_caught() {
    let lost = |history: &History, fence| {
        let begun = history.effects.iter().find(|effect| effect.execution == 31).unwrap();
        Effect { execution: 90, fence, at: 3_950, ended: None, ..begun.clone() }
    };
    let mut history = good();
    history.promotions = vec![3_990];
    history.lost = vec![lost(&history, 40)];
    judge(&history).assert_clean();
    caught("two runs have one fence", |history| history.lost = vec![lost(history, 41)]);
    caught("claimed at fence 41", |history| {
        history.promotions = vec![3_990];
        history.lost = vec![lost(history, 60)];
    });
}

/// The third occurrence completes in a transaction of its handler's, which is committed at 3,010 ms.
fn commit(history: &mut History) {
    let effect = effect(history, 31);
    (effect.completes, effect.committed) = (true, vec![3_010]);
    ends_at(history, 31, 3_010);
}

/// Its process died behind the commit, or its handler went on for long: it has succeeded.
#[test]
fn what_a_transaction_has_completed_needs_no_return_of_its_handler() {
    for ended in [None, Some(3_900)] {
        let mut history = good();
        commit(&mut history);
        effect(&mut history, 31).ended = ended;
        judge(&history).assert_clean();
        history.plans[0].exclusive = true;
        judge(&history).assert_clean();
    }
    caught("an outcome that is not its own", |history| {
        commit(history);
        (effect(history, 31).ended, effect(history, 31).committed) = (None, vec![3_030]);
    });
}

#[test]
fn a_success_without_its_transaction_is_caught() {
    caught("succeeded without its transaction", |history| effect(history, 31).completes = true);
    let mut history = good();
    (effect(&mut history, 21).completes, effect(&mut history, 22).completes) = (true, true);
    effect(&mut history, 22).committed = vec![2_110];
    judge(&history).assert_clean();
}

/// By a handler that made its transaction anew; by one whose execution was another's by then; and by the
/// attempt before.
#[test]
fn a_second_commit_is_caught() {
    caught("committed more than once", |history| {
        commit(history);
        effect(history, 31).committed.push(3_012);
    });
    caught("committed, and it has not succeeded with that", |history| {
        effect(history, 21).committed = vec![2_010]
    });
    caught("committed, and it has not succeeded with that", |history| {
        commit(history);
        row(history, 31).fence = 32;
    });
    caught("two attempts have committed", |history| {
        effect(history, 21).committed = vec![2_010];
        effect(history, 22).committed = vec![2_110];
    });
}

#[test]
fn an_attempt_after_a_commit_is_caught() {
    caught("tried again, though it has committed", |history| effect(history, 21).committed = vec![2_010]);
    let by_hand = |history: &mut History| {
        row(history, 21).state = "SUCCEEDED".into();
        let ends = |it: &&mut Change| it.execution == 21 && it.to.as_deref() == Some("ABANDONED");
        history.changes.iter_mut().find(ends).unwrap().to = Some("SUCCEEDED".into());
        effect(history, 21).committed = vec![2_010];
        effect(history, 22).committed = vec![2_110];
        history.retries = [22].into();
    };
    let mut history = good();
    by_hand(&mut history);
    let words = |it: &&String| it.contains("committed");
    assert_eq!(judge(&history).violations.iter().find(words), None, "somebody asked for that");
    caught("run again, though it has committed", |history| {
        commit(history);
        let again = Effect { fence: 32, at: 3_400, committed: Vec::new(), ..effect(history, 31).clone() };
        history.effects.push(again);
    });
}

/// The first attempt at the second occurrence has stored two checkpoints, and the next goes on from there.
fn save(history: &mut History) {
    for (execution, fence, value, asked) in [(21, 21, 1, 2_006), (21, 21, 2, 2_008), (22, 22, 3, 2_107)] {
        let (stored, heard) = (Some(asked + 1), Some(true));
        history.checkpoints.push(Checkpoint { execution, fence, value, asked, stored, heard });
    }
    let begins = [(21, 21, 2_005, None), (22, 22, 2_105, Some(2)), (31, 31, 3_005, None)];
    for (execution, fence, at, value) in begins {
        history.resumes.push(Resume { execution, fence, at, value });
    }
}

#[test]
fn an_attempt_that_goes_on_from_another_checkpoint_is_caught() {
    let mut history = good();
    save(&mut history);
    judge(&history).assert_clean();
    let goes_on = |run: usize, value: Option<i64>| {
        caught("goes on from none of", move |history| {
            save(history);
            history.resumes[run].value = value;
        });
    };
    goes_on(1, Some(1));
    goes_on(1, None);
    // Its own later one, another occurrence's, and one that nobody stored.
    goes_on(1, Some(3));
    goes_on(2, Some(3));
    goes_on(0, Some(9));
    // It looks once more what it has stored.
    let looks_again = |value| {
        let mut history = good();
        save(&mut history);
        let (execution, fence, at) = (21, 21, 2_007);
        history.resumes.push(Resume { execution, fence, at, value });
        judge(&history).violations
    };
    assert_eq!(looks_again(Some(1)), Vec::<String>::new());
    assert_ne!(looks_again(None), Vec::<String>::new());
    assert_ne!(looks_again(Some(2)), Vec::<String>::new());
}

/// One whose answer was lost may be there or not; one that was refused is not.
#[test]
fn a_checkpoint_without_an_answer_may_be_the_last() {
    let history = |heard, value| {
        let mut history = good();
        save(&mut history);
        (history.checkpoints[1].heard, history.checkpoints[1].stored) = (heard, None);
        history.resumes[1].value = value;
        judge(&history).violations
    };
    assert_eq!((history(None, Some(1)), history(None, Some(2))), (vec![], vec![]));
    assert_ne!(history(None, None), Vec::<String>::new());
    assert_ne!(history(Some(false), Some(2)), Vec::<String>::new());
    // A call of an earlier run does not come behind those of a later one.
    let mut history = good();
    save(&mut history);
    history.checkpoints[0].heard = None;
    row(&mut history, 22).fence = 23;
    let (execution, fence, at, value) = (22, 23, 2_110, Some(1));
    history.resumes.push(Resume { execution, fence, at, value });
    let violations = judge(&history).violations;
    assert!(violations.iter().any(|it| it.contains("goes on from none of [Some(3)]")), "{violations:#?}");
}

#[test]
fn a_checkpoint_stored_by_a_run_that_is_over_is_caught() {
    caught("stored by a run that was over at 2020", |history| {
        save(history);
        history.checkpoints[1].stored = Some(2_021);
    });
    caught("stored by a run that was over at 2020", |history| {
        save(history);
        (history.checkpoints[1].stored, history.checkpoints[1].asked) = (None, 2_030);
    });
}

/// The fourth and the fifth occurrence were due, and not claimed when the schedule was removed.
fn withdraw(history: &mut History) {
    for id in [41, 51] {
        history.executions.retain(|row| row.id != id);
        history.effects.retain(|effect| effect.execution != id);
        history.changes.retain(|change| change.execution != id);
    }
    let plan = &mut history.plans[0];
    (plan.state, plan.next) = ("REMOVED".into(), None);
    plan.generations = [(0, (1..=6).map(|n| n * STEP).collect())].into();
    plan.ended = [(0, (5_200, 5_300))].into();
    history.removals.push(Pause { schedule: "s".into(), from: 5_300, until: i64::MAX });
    let row = Execution {
        id: 91,
        scheduled: 4 * STEP,
        until: Some(5 * STEP),
        count: 2,
        ..row(history, 31).clone()
    };
    history.executions.push(Execution {
        state: "WITHDRAWN".into(),
        reason: "removed".into(),
        node: String::new(),
        fence: 0,
        due: 4 * STEP,
        claimed: None,
        finished: Some(5_250),
        prev: Some(3 * STEP),
        following: Some(6 * STEP),
        ..row
    });
    let to = Some("WITHDRAWN".to_owned());
    history.changes.push(Change { at: 5_250, apart: 0, execution: 91, from: None, to });
}

fn unwithdraw(history: &mut History) {
    history.executions.retain(|row| row.id != 91);
    history.changes.retain(|change| change.execution != 91);
}

#[test]
fn what_was_due_at_the_end_of_a_generation_has_one_row() {
    type Fault = fn(&mut History);
    let judged = |fault: Fault| {
        let mut history = good();
        withdraw(&mut history);
        fault(&mut history);
        judge(&history)
    };
    let verdict = judged(|_| {});
    verdict.assert_clean();
    assert_eq!((verdict.fired, verdict.withdrawn), (3, 2));
    let faults: [(&str, Fault); 9] = [
        ("what was due at 4000 has no row", unwithdraw),
        ("what was due at 5000 has no row", |history| {
            let row = row(history, 91);
            (row.until, row.count, row.following) = (None, 1, Some(5 * STEP));
        }),
        ("withdrawn, and neither edited nor removed", |history| history.plans[0].ended.clear()),
        ("withdrawn, and not due by 4900", |history| history.plans[0].ended = [(0, (4_800, 4_900))].into()),
        ("expected Some(6000) next", |history| run(history, 5, 1, "SUCCEEDED")),
        ("expected Some(4000) next", |history| {
            let row = row(history, 91);
            (row.scheduled, row.count) = (3 * STEP, 3);
        }),
        ("its cursor came from", |history| row(history, 91).prev = None),
        ("its cursor did not go to", |history| row(history, 91).following = None),
        ("an illegal change", |history| {
            let (from, to) = (Some("WITHDRAWN".to_owned()), Some("RUNNING".to_owned()));
            history.changes.push(Change { at: 5_400, apart: 0, execution: 91, from, to });
        }),
    ];
    for (words, fault) in faults {
        let violations = judged(fault).violations;
        assert!(violations.iter().any(|it| it.contains(words)), "{words:?} is not among {violations:#?}");
    }
    // An instant that is not known exactly excuses what came due meanwhile.
    judged(|history| {
        unwithdraw(history);
        history.plans[0].ended = [(0, (3_900, 5_100))].into();
    })
    .assert_clean();
}

/// Another trigger came at 5.2 s: its generation begins where the old one's last claim left the cursor.
#[test]
fn what_an_edit_withdraws_does_not_move_the_cursor() {
    let edited = |prev: i64| {
        let mut history = good();
        withdraw(&mut history);
        row(&mut history, 91).reason = "edited".into();
        history.removals.clear();
        let plan = &mut history.plans[0];
        plan.generations.insert(1, vec![6 * STEP]);
        plan.state = "COMPLETE".into();
        run(&mut history, 6, 1, "SUCCEEDED");
        let row = row(&mut history, 61);
        (row.generation, row.prev, row.following) = (1, Some(prev), None);
        judge(&history)
    };
    edited(3 * STEP).assert_clean();
    assert!(edited(5 * STEP).violations.iter().any(|it| it.contains("its cursor came from")));
}

/// It was to begin a delay after the end of its last run, and the schedule was removed before a node claimed
/// it.
#[test]
fn what_was_due_of_a_fixed_delay_has_a_row() {
    let judged = |ended: i64, with_row: bool| {
        let mut history = delayed();
        let plan = &mut history.plans[0];
        (plan.state, plan.next) = ("REMOVED".into(), None);
        plan.ended = [(0, (ended, ended))].into();
        if with_row {
            let row = row(&mut history, 31).clone();
            history.executions.push(Execution {
                id: 91,
                scheduled: 4 * STEP,
                until: Some(4 * STEP),
                state: "WITHDRAWN".into(),
                reason: "removed".into(),
                due: 4 * STEP,
                claimed: None,
                finished: Some(ended),
                prev: Some(3 * STEP + 100),
                following: Some(5 * STEP - 20),
                ..row
            });
            let to = Some("WITHDRAWN".to_owned());
            history.changes.push(Change { at: ended, apart: 0, execution: 91, from: None, to });
        }
        judge(&history)
    };
    judged(4 * STEP - 1, false).assert_clean();
    judged(4 * STEP, true).assert_clean();
    let has = |violations: &[String], words: &str| violations.iter().any(|it| it.contains(words));
    assert!(has(&judged(4 * STEP, false).violations, "what was due at 4000 has no row"));
    assert!(has(&judged(4 * STEP - 1, true).violations, "withdrawn, and not due by 3999"));
}
