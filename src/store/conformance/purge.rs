//! Retention: what ended long ago leaves the ledger, whole and in order.

use std::sync::Barrier;

use super::*;
use crate::domain::{Cursor, ExecutionState, NextFire, Reason, ScheduleState};
use crate::store::said::Said;
use crate::store::{LedgerRow, OrphanWalk, Purge, Purged};

const HOUR: Millis = 3_600_000;

impl Bench {
    /// Every second from four hours ago; nothing has been claimed yet.
    fn long_running(&self, name: &str) -> Arc<Entry> {
        let start = self.now - self.now.millis() % 1_000 - 4 * HOUR;
        let entry = self.create(&Definition { trigger: every(start, 1_000, -1), ..self.definition(name) });
        self.rewind(&Entry { cursor: Cursor { prev: None, next: NextFire::At(start) }, ..(*entry).clone() });
        self.entry(name)
    }

    /// A schedule "once" that is due once, four hours ago, and has not been claimed; with its id.
    fn overdue_once(&self, interval: Millis) -> (Definition, ScheduleId) {
        let start = self.now - self.now.millis() % 1_000 - 4 * HOUR;
        let definition = Definition { trigger: every(start, interval, 0), ..self.definition("once") };
        let entry = self.create(&definition);
        self.rewind(&Entry { cursor: Cursor { prev: None, next: NextFire::At(start) }, ..(*entry).clone() });
        (definition, entry.id)
    }

    /// Changes the interval of "s", which begins a generation; its first fire time is `next`.
    fn retime(&self, interval: Millis, next: Timestamp) {
        let definition = Definition { trigger: every(self.base, interval, -1), ..self.definition("s") };
        // What was due would be withdrawn.
        let entry = self.entry("s");
        let ahead = Cursor { next: NextFire::At(self.base), ..entry.cursor };
        self.rewind(&Entry { cursor: ahead, ..(*entry).clone() });
        assert_eq!(self.store.ensure(&definition).unwrap(), Ensured::Changed);
        let anew = self.entry("s");
        self.rewind(&Entry { cursor: Cursor { next: NextFire::At(next), ..anew.cursor }, ..(*anew).clone() });
    }

    /// When what is old enough to be purged has ended.
    fn long_ago(&self) -> Timestamp {
        self.now - 2 * HOUR
    }

    /// Runs a schedule's next occurrence, which ends at `at`; its fire time.
    fn fire(&self, name: &str, at: Timestamp) -> Timestamp {
        let entry = self.entry(name);
        assert_eq!(self.settle(&succeeded(self.run_head(&entry), at)), Applied::Done);
        entry.cursor.next.at().unwrap()
    }

    fn purge_step(&self, limit: usize, after: String) -> Purged {
        self.store.purge(&Purge { application: self.app.clone(), after, keep: HOUR, limit }).unwrap()
    }

    /// One walk; how many occurrences it removed.
    fn purge(&self) -> usize {
        let (mut removed, mut next) = (0, Some(String::new()));
        while let Some(after) = next {
            let step = self.purge_step(1_000, after);
            (removed, next) = (removed + step.occurrences, step.next);
        }
        removed
    }

    /// A schedule's executions left, as fire time and attempt.
    fn left(&self, name: &str) -> Vec<(Timestamp, i64)> {
        let rows = self.executions().into_iter().filter(|row| row.schedule == name);
        let mut left: Vec<_> = rows.map(|row| (row.scheduled, row.attempt)).collect();
        left.sort_unstable();
        left
    }

    fn ledger_from(&self) -> Timestamp {
        Timestamp::at(self.number(RowKey::App(&self.app), "ledger_from"))
    }

    /// Fails the next occurrence long ago; its retry, PENDING.
    fn fail(&self, name: &str) -> Pending {
        let (entry, at) = (self.entry(name), self.long_ago());
        let failed = self.run_head(&entry).finish(Answer::Failed("no".to_owned()), Some(at), at);
        assert_eq!(self.settle(&failed), Applied::Done);
        self.pendings_of(entry.id)
            .into_iter()
            .find(|pending| NextFire::At(pending.scheduled) == entry.cursor.next)
            .unwrap()
    }

    fn retry(&self, pending: Pending, ends: Timestamp) {
        let request = ClaimRequest { at_once: true, ..self.request(Candidate::Pending(pending)) };
        assert_eq!(self.settle(&succeeded(won(self.claim(&request)), ends)), Applied::Done);
    }
}

pub(crate) fn an_occurrence_goes_with_all_its_attempts(db: &Bench) {
    db.long_running("s");
    let first = db.fail("s");
    db.retry(first, db.long_ago());
    let second = db.fail("s");
    let at = second.scheduled;
    db.retry(second, db.now);
    assert_eq!(db.purge(), 1);
    assert_eq!(db.left("s"), [(at, 1), (at, 2)], "its last attempt has just ended");
}

/// Of planned executions, and of those whose schedule's row somebody deleted.
pub(crate) fn what_was_said_goes_with_its_execution(db: &Bench) {
    let say = |claimed: &Claimed| {
        let (execution, token, fence) = (claimed.execution(), claimed.token(), claimed.fence());
        let said = Said { execution, token, fence, lines: Vec::new(), progress: None, now: db.long_ago() };
        assert_eq!(db.store.say(&[said]).unwrap(), [Applied::Done]);
        execution
    };
    db.long_running("s");
    let runs = [db.long_ago(), db.now].map(|ends| {
        let claimed = db.run_head(&db.entry("s"));
        let id = say(&claimed);
        assert_eq!(db.settle(&succeeded(claimed, ends)), Applied::Done);
        id
    });
    let orphan = db.run_head(&db.long_running("orphan"));
    let lost = say(&orphan);
    assert_eq!(db.settle(&succeeded(orphan, db.long_ago())), Applied::Done);
    db.set(RowKey::Execution(lost), "execute_id", &(-lost.0).to_string());
    assert_eq!(db.purge(), 1);
    assert_eq!(runs.map(|id| db.has_said(id)), [false, true]);
    let mut after = Some(ScheduleId(i64::MIN));
    while let Some(from) = after {
        let walk = OrphanWalk { application: db.app.clone(), after: from, keep: HOUR, limit: 1_000 };
        after = db.store.purge_orphans(&walk).unwrap().next;
    }
    assert!(!db.has_said(lost));
}

pub(crate) fn what_ended_within_the_span_stays(db: &Bench) {
    db.long_running("s");
    db.fire("s", db.long_ago());
    let kept = db.fire("s", db.now - HOUR + 60_000);
    assert_eq!(db.purge(), 1);
    assert_eq!(db.left("s"), [(kept, 1)]);
    assert_eq!(db.purge(), 0);
}

fn an_open_occurrence_holds_all_behind_it(db: &Bench, state: ExecutionState) {
    db.long_running("s");
    db.fire("s", db.long_ago());
    let entry = db.entry("s");
    match state {
        ExecutionState::Claimed => drop(db.claim_head(&entry).execution()),
        ExecutionState::Running => drop(db.run_head(&entry).execution()),
        _ => assert_eq!(db.settle(&db.claim_head(&entry).give_back(db.now)), Applied::Done),
    }
    let behind = db.fire("s", db.long_ago());
    assert_eq!(db.purge(), 1);
    assert_eq!(db.left("s"), [(entry.cursor.next.at().unwrap(), 1), (behind, 1)]);
    assert_eq!(db.purge(), 0);
}

pub(crate) fn a_pending_occurrence_and_all_behind_it_stay(db: &Bench) {
    an_open_occurrence_holds_all_behind_it(db, ExecutionState::Pending);
}

pub(crate) fn a_claimed_occurrence_and_all_behind_it_stay(db: &Bench) {
    an_open_occurrence_holds_all_behind_it(db, ExecutionState::Claimed);
}

pub(crate) fn a_running_occurrence_and_all_behind_it_stay(db: &Bench) {
    an_open_occurrence_holds_all_behind_it(db, ExecutionState::Running);
}

pub(crate) fn an_occurrence_that_waits_for_its_retry_stays_whole(db: &Bench) {
    db.long_running("s");
    let pending = db.fail("s");
    assert_eq!(db.purge(), 0);
    assert_eq!(db.left("s"), [(pending.scheduled, 1), (pending.scheduled, 2)]);
}

/// It moves only if something went, and never back.
pub(crate) fn the_mark_moves_with_what_goes(db: &Bench) {
    db.long_running("s");
    assert_eq!(db.purge(), 0);
    assert_eq!(db.ledger_from(), Timestamp::at(-1));
    let removed = db.fire("s", db.long_ago());
    assert_eq!(db.purge(), 1);
    let mark = db.ledger_from();
    assert!(removed < mark && mark <= db.store.now().unwrap() - HOUR, "{removed} {mark}");

    db.fire("s", db.long_ago());
    let later = Purge { application: db.app.clone(), after: String::new(), keep: HOUR + HOUR / 2, limit: 9 };
    assert_eq!(db.store.purge(&later).unwrap(), Purged { occurrences: 1, ..Purged::default() });
    assert_eq!(db.ledger_from(), mark);
    assert_eq!(db.purge(), 0);
    assert_eq!(db.ledger_from(), mark);
}

pub(crate) fn a_step_removes_no_more_than_its_limit(db: &Bench) {
    for name in ["a", "b", "c"] {
        db.long_running(name);
        for _ in 0..3 {
            db.fire(name, db.long_ago());
        }
    }
    let (mut after, mut left) = (String::new(), Vec::new());
    loop {
        let step = db.purge_step(2, after);
        left.push(["a", "b", "c"].map(|name| db.left(name).len()));
        let Some(next) = step.next else { break };
        after = next;
    }
    assert_eq!(left, [[1, 3, 3], [0, 2, 3], [0, 0, 3], [0, 0, 1], [0, 0, 0]]);
}

/// A walk is cut into pages; it comes by every schedule all the same.
pub(crate) fn a_walk_comes_by_every_schedule(db: &Bench) {
    let names: Vec<String> = (0..70).map(|number| format!("s{number:03}")).collect();
    for name in &names {
        db.long_running(name);
        db.fire(name, db.long_ago());
    }
    assert_eq!(db.purge(), names.len());
    assert!(db.executions().is_empty());
}

pub(crate) fn other_applications_keep_theirs(db: &Bench) {
    db.long_running("s");
    let kept = db.fire("s", db.long_ago());
    let other = Purge { application: fresh_name(), after: String::new(), keep: HOUR, limit: 1_000 };
    assert_eq!(db.store.purge(&other).unwrap(), Purged::default());
    assert_eq!(db.left("s"), [(kept, 1)]);
    assert_eq!(db.ledger_from(), Timestamp::at(-1));
}

/// Claims and skipped runs in turn, all long ago; then some of today.
pub(crate) fn what_stays_has_no_gap(db: &Bench) {
    let entry = db.long_running("s");
    let mut last = None;
    for round in 0..6 {
        let ends = if round < 4 { db.long_ago() } else { db.now };
        db.fire("s", ends);
        let entry = db.entry("s");
        let from = entry.cursor.next.at().unwrap();
        let (to, following) = (from + 2_000, NextFire::At(from + 3_000));
        let (prev, reason) = (entry.cursor.prev, Reason::Misfire);
        let rows = vec![LedgerRow::Skipped { from, to, count: 3, prev, following, reason, holder: None }];
        let cursor = Cursor { prev: Some(to), next: following };
        assert!(db.repaired(&Repair { to: cursor, rows, passed: 3, now: ends, ..db.repair(&entry) }));
        if round < 4 {
            last = Some(to);
        }
    }
    assert_eq!(db.purge(), 8);
    assert_eq!(db.left("s").len(), 4);
    db.assert_no_gap(&entry, 0, last, db.entry("s").cursor);
    db.fire("s", db.now);
    db.assert_no_gap(&entry, 0, last, db.entry("s").cursor);
}

/// A schedule that is re-timed often has many short generations: one a walk would never catch up.
pub(crate) fn all_generations_that_ended_long_ago_go_in_one_walk(db: &Bench) {
    let entry = db.long_running("s");
    let start = entry.cursor.next.at().unwrap();
    for generation in 1..=100 {
        db.fire("s", db.long_ago());
        db.retime(500 + generation, start + 5_000 * generation);
    }
    let kept = db.fire("s", db.now);
    assert_eq!((db.purge(), db.left("s")), (100, vec![(kept, 1)]));
}

/// Of an older generation, too, what has not ended stays, and all behind it.
pub(crate) fn an_open_occurrence_holds_its_generation_alone(db: &Bench) {
    let entry = db.long_running("s");
    db.fire("s", db.long_ago());
    let open = db.run_head(&db.entry("s"));
    let behind = db.fire("s", db.long_ago());
    db.retime(500, entry.cursor.next.at().unwrap() + 5_000);
    db.fire("s", db.long_ago());
    assert_eq!((db.purge(), db.left("s")), (2, vec![(open.scheduled(), 1), (behind, 1)]));
}

/// Not even if it is the schedule's first, which a walk looks at before anything else.
pub(crate) fn an_open_first_occurrence_holds_its_generation_alone(db: &Bench) {
    let entry = db.long_running("s");
    let open = db.run_head(&entry);
    let behind = db.fire("s", db.long_ago());
    db.retime(500, entry.cursor.next.at().unwrap() + 5_000);
    db.fire("s", db.long_ago());
    assert_eq!((db.purge(), db.left("s")), (1, vec![(open.scheduled(), 1), (behind, 1)]));
}

/// Only one-shots: the next `ensure` would begin a finite interval anew.
pub(crate) fn a_one_shot_goes_once_its_execution_is_gone(db: &Bench) {
    let start = db.now - db.now.millis() % 1_000 - 4 * HOUR;
    for (name, repeats) in [("once", 0), ("young", 0), ("twice", 1)] {
        let trigger = every(start, i64::from(repeats > 0) * 1_000, repeats);
        let entry = db.create(&Definition { trigger, ..db.definition(name) });
        db.rewind(&Entry { cursor: Cursor { prev: None, next: NextFire::At(start) }, ..(*entry).clone() });
        for _ in 0..=repeats {
            db.fire(name, if name == "young" { db.now } else { db.long_ago() });
        }
        assert_eq!(db.schedule_row(entry.id).state, "COMPLETE");
    }
    db.long_running("active");
    let steps = [(); 3].map(|()| {
        let step = db.purge_step(1_000, String::new());
        (step.occurrences, step.schedules)
    });
    assert_eq!(steps, [(3, 0), (0, 1), (0, 0)]);
    let left: Vec<_> = db.store.schedules(Some(&db.app)).unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(left, ["active", "twice", "young"]);
    assert_eq!(db.left("young").len(), 1);
    // A program that ensures it at each start must not make it run again.
    let entry = db.create(&Definition { trigger: every(start, 0, 0), ..db.definition("once") });
    assert_eq!(
        (entry.state, entry.cursor),
        (ScheduleState::Complete, Cursor { prev: Some(start), next: NextFire::Never })
    );
    assert_eq!(db.purge_step(1_000, String::new()).schedules, 1, "and leaves again");
}

/// Somebody has emptied the ledger by hand: the mark alone can tell that it ran.
pub(crate) fn a_one_shot_without_a_ledger_does_not_run_again(db: &Bench) {
    let (definition, _) = db.overdue_once(0);
    db.fire("once", db.long_ago());
    let run = RowKey::Execution(ExecutionId(db.executions().remove(0).id));
    db.set(run, "execute_id", "-7");
    assert_eq!(db.purge_step(1_000, String::new()).schedules, 0, "first the fence's mark is raised");
    assert_eq!(db.ledger_from(), Timestamp::at(-1), "nothing has gone");
    assert_eq!(db.purge_step(1_000, String::new()).schedules, 1);
    assert_eq!(db.create(&definition).state, ScheduleState::Complete);
}

/// Somebody deleted the schedule's row: as if its executions named another, which nobody has.
pub(crate) fn executions_of_a_deleted_schedule_go_after_the_retention(db: &Bench) {
    let orphan = |id: ExecutionId| db.set(RowKey::Execution(id), "execute_id", &(-id.0).to_string());
    let kept = db.long_running("kept");
    db.fire("kept", db.long_ago());
    db.long_running("gone");
    let old = db.run_head(&db.entry("gone"));
    let ended = old.execution();
    assert_eq!(db.settle(&succeeded(old, db.long_ago())), Applied::Done);
    let pending = db.fail("gone").id;
    let young = db.run_head(&db.entry("gone"));
    let ended_lately = young.execution();
    assert_eq!(db.settle(&succeeded(young, db.now)), Applied::Done);
    let running = db.run_head(&db.entry("gone")).execution();
    for id in [ended, pending, ended_lately, running] {
        orphan(id);
    }
    db.set(RowKey::Execution(pending), "due_time", &db.long_ago().to_string());
    let (mut after, mut removed) = (Some(ScheduleId(i64::MIN)), 0);
    while let Some(from) = after {
        let walk = OrphanWalk { application: db.app.clone(), after: from, keep: HOUR, limit: 1 };
        let step = db.store.purge_orphans(&walk).unwrap();
        (after, removed) = (step.next, removed + step.executions);
    }
    assert_eq!(removed, 2);
    let left: Vec<i64> = db.executions().into_iter().map(|row| row.id).collect();
    assert!(!left.contains(&ended.0) && !left.contains(&pending.0), "{left:?}");
    assert!(left.contains(&ended_lately.0) && left.contains(&running.0), "{left:?}");
    assert_eq!(db.left("kept").len(), 1, "{kept:?} has its row");
}

/// A store that refuses a fence lower than one it has seen must accept the runs of the name made anew.
pub(crate) fn fences_go_on_under_a_name_that_was_removed(db: &Bench) {
    let (definition, id) = db.overdue_once(0);
    db.set(RowKey::Schedule(id), "fence", "41");
    let claimed = db.run_head(&db.entry("once"));
    assert_eq!(claimed.fence(), 42);
    assert_eq!(db.settle(&succeeded(claimed, db.long_ago())), Applied::Done);
    let removed = [(); 2].map(|()| db.purge_step(1_000, String::new()).schedules);
    assert_eq!(removed, [0, 1]);
    let anew = db.create(&Definition { trigger: every(db.base, 0, 0), ..definition });
    assert_eq!(db.claim_head(&anew).fence(), 43);
}

/// A fence written by hand leaves those of new schedules room to grow.
pub(crate) fn a_fence_beyond_all_sense_leaves_room_for_others(db: &Bench) {
    let (_, id) = db.overdue_once(0);
    db.fire("once", db.long_ago());
    db.set(RowKey::Schedule(id), "fence", &(i64::MAX - 1).to_string());
    let removed = [(); 3].map(|()| db.purge_step(1_000, String::new()).schedules);
    assert_eq!(removed, [0, 1, 0]);
    assert_eq!(db.claim_head(&db.schedule("new")).fence(), i64::MAX / 2 + 1);
}

/// Its trigger may begin anew with the next `ensure`, which no mark could tell from the first time.
pub(crate) fn a_single_interval_does_not_run_again(db: &Bench) {
    let (definition, _) = db.overdue_once(1_000);
    db.fire("once", db.long_ago());
    for _ in 0..3 {
        db.purge_step(1_000, String::new());
    }
    assert_eq!(db.store.ensure(&definition).unwrap(), Ensured::Unchanged);
    assert_eq!(db.entry("once").state, ScheduleState::Complete);
}

/// The database's clock was ahead while the mark was written: no right clock writes one younger than any
/// retention.
pub(crate) fn a_mark_in_the_future_lets_a_new_one_shot_run(db: &Bench) {
    db.long_running("s");
    db.set(RowKey::App(&db.app), "ledger_from", &(db.now + HOUR).to_string());
    let start = db.now - 1_000;
    let entry = db.create(&Definition { trigger: every(start, 0, 0), ..db.definition("now") });
    assert_eq!((entry.state, entry.cursor.next), (ScheduleState::Active, NextFire::At(start)));
}

pub(crate) fn a_node_that_ended_long_ago_goes_unless_an_execution_names_it(db: &Bench) {
    let [gone, owner, young] = [(); 3].map(|()| db.another_node());
    let owned = db.claim(&ClaimRequest { node: owner, ..db.head(&db.schedule("s")) });
    for (node, ended) in [(gone, db.long_ago()), (owner, db.long_ago()), (young, db.now)] {
        db.store.leave(node, ended).unwrap();
    }
    assert_eq!(db.purge_step(1_000, String::new()).nodes, 1);
    let nodes = || {
        let mut nodes: Vec<_> =
            db.store.nodes(Some(&db.app)).unwrap().into_iter().map(|row| row.id).collect();
        nodes.sort();
        nodes
    };
    let sorted = |nodes: &[NodeId]| {
        let mut nodes: Vec<_> = nodes.iter().map(NodeId::to_string).collect();
        nodes.sort();
        nodes
    };
    assert_eq!(nodes(), sorted(&[db.node, owner, young]));
    let stranded = db.stranded().remove(0);
    assert_eq!(stranded.id, drop_claimed(owned));
    assert!(db.revoked(&crate::repair::recover(stranded, db.now, db.now)));
    assert!(db.stranded().is_empty());
    assert_eq!(db.purge_step(1_000, String::new()).nodes, 1);
    assert_eq!(nodes(), sorted(&[db.node, young]));
}

/// The planned ones wait for a pending one; what somebody asked for is no part of their chain.
pub(crate) fn what_was_asked_for_goes_beside_what_is_planned(db: &Bench) {
    db.long_running("s");
    let first = db.fail("s").scheduled;
    for origin in 1..=3 {
        let at = db.fire("s", db.long_ago());
        let row = db.executions().into_iter().find(|row| row.scheduled == at).unwrap();
        db.set(RowKey::Execution(ExecutionId(row.id)), "origin", &origin.to_string());
    }
    let behind = db.fire("s", db.long_ago());
    assert_eq!(db.purge(), 3);
    assert_eq!(db.left("s"), [(first, 1), (first, 2), (behind, 1)]);
}

/// The handlers of two nodes may both think that they are elected.
pub(crate) fn purges_at_once_remove_each_occurrence_once(db: &Bench) {
    for name in ["a", "b"] {
        db.long_running(name);
        for _ in 0..10 {
            db.fire(name, db.long_ago());
        }
    }
    let barrier = Barrier::new(2);
    let removed: usize = std::thread::scope(|scope| {
        let purge = || {
            barrier.wait();
            db.purge()
        };
        let both = [scope.spawn(purge), scope.spawn(purge)];
        both.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(removed, 20);
    assert!(db.executions().is_empty());
}
