//! What an execution covers: from its schedule's last success on, and what became of the occurrences in
//! between.

use super::*;
use crate::domain::{Covers, Cursor, LeftOut, NextFire, Reason, ScheduleState};
use crate::store::order::{ExecutionOrder, Retry, RunOrder};
use crate::store::{LedgerRow, Purge, RemoveChange};

impl Bench {
    pub(super) fn covers(&self, execution: ExecutionId) -> Covers {
        self.store.covers(execution, LeftOut::MOST).unwrap().expect("the execution is in the ledger")
    }

    /// What the next occurrence covers, once it is claimed; it runs on.
    pub(super) fn next_covers(&self) -> Covers {
        self.covers(self.run_head(&self.entry("s")).execution())
    }

    /// The next occurrence of the schedule runs, and ends so.
    pub(super) fn ends(&self, answer: Answer) -> ExecutionId {
        let claimed = self.run_head(&self.entry("s"));
        let execution = claimed.execution();
        assert_eq!(self.settle(&claimed.finish(answer, None, self.now)), Applied::Done);
        execution
    }

    /// The next `count` occurrences are skipped, in one span.
    pub(super) fn passes(&self, count: i64, reason: Reason) {
        let entry = self.entry("s");
        let from = entry.cursor.next.at().unwrap();
        let (to, following) = (from + (count - 1) * 1_000, NextFire::At(from + count * 1_000));
        let (prev, passed) = (entry.cursor.prev, count.unsigned_abs());
        let row = LedgerRow::Skipped { from, to, count: passed, prev, following, reason, holder: None };
        let cursor = Cursor { prev: Some(to), next: following };
        let repair = Repair { rows: vec![row], ..Repair::of(&entry, cursor, passed, self.now) };
        // As in [`Bench::claim`]: a held row is left alone, and tried again.
        let deadline = Instant::now() + DEADLINE;
        while !self.repaired(&repair) {
            assert!(Instant::now() < deadline, "{repair:?}");
        }
    }

    /// From the `from`th occurrence of the schedule to the `until`th, counted from 0.
    fn span(&self, from: Option<i64>, until: i64, left_out: LeftOut) -> Covers {
        let at = |n: i64| self.base + n * 1_000;
        Covers::new(from.map(at), at(until), left_out)
    }
}

pub(super) fn failure() -> Answer {
    Answer::Failed("no".to_owned())
}

/// An outage, a pause and failures: each success begins where the one before it ended.
pub(crate) fn what_successes_cover_follows_without_a_gap(db: &Bench) {
    let _ = db.schedule("s");
    let first = db.ends(Answer::Done);
    assert_eq!(db.covers(first), db.span(None, 0, LeftOut::default()));
    let second = db.ends(Answer::Done);
    assert_eq!(db.covers(second), db.span(Some(0), 1, LeftOut::default()));
    db.passes(5, Reason::Misfire);
    db.passes(1, Reason::Misfire);
    db.passes(3, Reason::Paused);
    db.passes(1, Reason::ByHand);
    db.passes(1, Reason::Overlap);
    db.ends(failure());
    db.ends(Answer::Cancelled("no".to_owned()));
    let expected =
        LeftOut { missed: 6, skipped: 2, paused: 3, failed: 1, cancelled: 1, ..LeftOut::default() };
    let third = db.run_head(&db.entry("s"));
    assert_eq!(db.covers(third.execution()), db.span(Some(1), 15, expected));
    assert_eq!(expected.total(), 13);
    assert_eq!(db.settle(&succeeded(third, db.now)), Applied::Done);
    assert_eq!(db.next_covers(), db.span(Some(15), 16, LeftOut::default()));
    assert_eq!(db.covers(second), db.span(Some(0), 1, LeftOut::default()), "whatever came later");
}

/// The run after an outage bears the latest missed fire time, and stands for all.
pub(crate) fn what_is_fired_once_stands_for_all_that_was_missed(db: &Bench) {
    let _ = db.schedule("s");
    db.ends(Answer::Done);
    // As an earlier repair of the same outage would leave it.
    let entry = db.entry("s");
    let pending = |at: Timestamp, prev: Timestamp, reason| LedgerRow::Pending {
        at,
        due: db.now,
        prev: Some(prev),
        following: NextFire::At(at + 1_000),
        reason,
    };
    let at = db.base + 1_000;
    let rows = vec![pending(at, db.base, Reason::Misfire)];
    let to = Cursor { prev: Some(at), next: NextFire::At(at + 1_000) };
    assert!(db.repaired(&Repair { rows, ..Repair::of(&entry, to, 1, db.now) }));
    let unstarted = db.unstarted(entry.id);
    let entry = db.entry("s");
    let (from, to, last) = (at + 1_000, at + 28_000, at + 29_000);
    let (prev, following, reason) = (Some(at), NextFire::At(last), Reason::Misfire);
    let skipped = LedgerRow::Skipped { from, to, count: 28, prev, following, reason, holder: None };
    let rows = vec![skipped, pending(last, to, Reason::Misfire)];
    let cursor = Cursor { prev: Some(last), next: NextFire::At(last + 1_000) };
    let repair = Repair { rows, supersede: unstarted, ..Repair::of(&entry, cursor, 29, db.now) };
    assert!(db.repaired(&repair));
    let [pending] = &db.pendings_of(entry.id)[..] else { panic!("one is left") };
    let run = won(db.claim(&db.request(Candidate::Pending(pending.clone()))));
    let missed = LeftOut { missed: 29, ..LeftOut::default() };
    assert_eq!(db.covers(run.execution()), db.span(Some(0), 30, missed));
}

pub(crate) fn what_has_not_ended_is_open(db: &Bench) {
    let _ = db.schedule("s");
    db.ends(Answer::Done);
    let retried = db.run_head(&db.entry("s"));
    let execution = retried.execution();
    let retry = retried.finish(failure(), Some(db.now), db.now);
    assert_eq!(db.settle(&retry), Applied::Done);
    let runs_on = db.run_head(&db.entry("s"));
    assert_eq!(db.settle(&runs_on.time_out(1, db.now)), Applied::Done);
    let runs = db.run_head(&db.entry("s"));
    let waits = db.claim_head(&db.entry("s"));
    let last = db.run_head(&db.entry("s")).execution();
    assert_eq!(db.covers(last), db.span(Some(0), 5, LeftOut { open: 4, ..LeftOut::default() }));
    assert_eq!(db.covers(execution), db.span(Some(0), 1, LeftOut::default()), "its own retry is no other");
    // All end, one with success: the answer is that of now.
    assert_eq!(db.settle(&runs_on.release(None, db.now)), Applied::Done);
    assert_eq!(db.settle(&succeeded(runs, db.now)), Applied::Done);
    assert_eq!(db.settle(&waits.give_back(db.now)), Applied::Done);
    assert_eq!(db.covers(last), db.span(Some(3), 5, LeftOut { open: 1, ..LeftOut::default() }));
    let retry = db.executions().into_iter().find(|row| row.attempt == 2).expect("its retry");
    let earlier = LeftOut::default();
    assert_eq!(
        db.covers(ExecutionId(retry.id)),
        db.span(Some(0), 1, earlier),
        "later successes are no matter"
    );
    let retry = db.find_pending(ExecutionId(retry.id)).unwrap();
    let retry = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(retry)) }));
    assert_eq!(db.settle(&succeeded(retry, db.now)), Applied::Done);
    db.ends(failure());
    let failed = LeftOut { open: 2, failed: 1, ..LeftOut::default() };
    assert_eq!(db.next_covers(), db.span(Some(3), 7, failed));
}

/// Its attempts count once, by the last.
pub(crate) fn an_occurrence_that_failed_for_good_counts_once(db: &Bench) {
    let _ = db.schedule("s");
    db.ends(Answer::Done);
    let mut attempt = db.run_head(&db.entry("s"));
    for retries_left in [true, true, false] {
        let retry = retries_left.then_some(db.now);
        assert_eq!(db.settle(&attempt.finish(failure(), retry, db.now)), Applied::Done);
        let Some(pending) = db.poll(Timestamp::MAX).pendings.pop() else { break };
        attempt = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) }));
    }
    let failed = LeftOut { failed: 1, ..LeftOut::default() };
    assert_eq!(db.next_covers(), db.span(Some(0), 2, failed));
}

/// What was planned before counts as far as it lies before the new trigger's times.
pub(crate) fn a_span_goes_on_over_an_edit_and_a_removal(db: &Bench) {
    let _ = db.schedule("s");
    db.ends(Answer::Done);
    db.ends(failure());
    let at = |n: i64| every(db.base + n * 1_000, 1_000, -1);
    let edited = |trigger| Definition { trigger, ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited(at(10))).unwrap(), Ensured::Changed);
    db.passes(2, Reason::Misfire);
    let expected = LeftOut { failed: 1, missed: 2, ..LeftOut::default() };
    assert_eq!(db.next_covers(), db.span(Some(0), 12, expected));
    let seen = db.store.seen(&db.app, "s").unwrap().unwrap();
    let (application, reason, now) = (db.app.clone(), String::new(), db.now);
    assert!(db.applied(&Change::Remove(RemoveChange { application, seen, reason, now })));
    assert_eq!(db.store.ensure(&edited(at(20))).unwrap(), Ensured::Created);
    assert_eq!(db.entry("s").state, ScheduleState::Active);
    let removed = db.ends(Answer::Done);
    let expected = LeftOut { open: 1, ..expected };
    assert_eq!(db.covers(removed), db.span(Some(0), 20, expected));
    assert_eq!(db.next_covers(), db.span(Some(20), 21, LeftOut::default()));
}

/// The database's clock was ahead: what ran then does not count where the schedule has begun anew.
pub(crate) fn what_ran_ahead_of_a_new_generation_does_not_count(db: &Bench) {
    let entry = db.schedule("s");
    db.ends(Answer::Done);
    let [ahead, later] = [db.ends(Answer::Done), db.ends(Answer::Done)];
    let row = RowKey::Schedule(entry.id);
    db.set(row, "generation", "1");
    db.set(row, "prev_fire_time", &db.base.to_string());
    db.set(row, "next_fire_time", &(db.base + 1_000).to_string());
    let anew = db.ends(failure());
    assert_eq!(db.covers(anew), db.span(Some(0), 1, LeftOut::default()));
    let failed = LeftOut { failed: 1, ..LeftOut::default() };
    assert_eq!(db.next_covers(), db.span(Some(0), 2, failed));
    assert_eq!(db.covers(later), db.span(Some(1), 2, LeftOut::default()), "{ahead} came before");
}

/// What somebody asks for covers the time since the last success, and changes nothing by its own.
pub(crate) fn a_run_by_hand_moves_no_span(db: &Bench) {
    let _ = db.schedule("s");
    db.ends(Answer::Done);
    db.ends(failure());
    let by_hand = db.ordered(&RunOrder { at: Some(db.base + 1_500), ..db.run_order("s") });
    let edited = Definition { trigger: every(db.base + 2_000, 1_000, -1), ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    let pending = db.find_pending(by_hand).unwrap();
    let ordered = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) }));
    let failed = LeftOut { failed: 1, ..LeftOut::default() };
    let expected = Covers::new(Some(db.base), db.base + 1_500, failed);
    assert_eq!(db.covers(by_hand), expected);
    assert_eq!(db.settle(&succeeded(ordered, db.now)), Applied::Done);
    assert_eq!(db.next_covers(), db.span(Some(0), 2, failed));
}

/// Another attempt at an occurrence that failed counts as that occurrence.
pub(crate) fn a_retry_by_hand_moves_the_span(db: &Bench) {
    let _ = db.schedule("s");
    db.ends(Answer::Done);
    let failed = db.ends(failure());
    let order = ExecutionOrder::new(db.app.clone(), failed, db.run_order("s").by);
    let Retry::Pending(retry) = db.store.retry(&order).unwrap() else { panic!("it can be tried again") };
    let pending = db.find_pending(retry).unwrap();
    let retry = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) }));
    assert_eq!(db.covers(retry.execution()), db.span(Some(0), 1, LeftOut::default()));
    assert_eq!(db.settle(&succeeded(retry, db.now)), Applied::Done);
    assert_eq!(db.next_covers(), db.span(Some(1), 2, LeftOut::default()));
}

pub(crate) fn another_schedules_success_is_none(db: &Bench) {
    let other = db.schedule("other");
    let claimed = db.run_head(&other);
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done);
    let _ = db.schedule("s");
    db.ends(failure());
    let failed = LeftOut { failed: 1, ..LeftOut::default() };
    assert_eq!(db.next_covers(), db.span(None, 1, failed));
}

/// Nobody knows any more.
pub(crate) fn what_retention_has_removed_is_no_success(db: &Bench) {
    let past = every(db.base - 10_000_000, 1_000, -1);
    let _ = db.create(&Definition { trigger: past, ..db.definition("s") });
    let entry = db.entry("s");
    let row = RowKey::Schedule(entry.id);
    let first = db.base - 10_000_000;
    db.set(row, "next_fire_time", &first.to_string());
    let claimed = db.run_head(&db.entry("s"));
    let gone = claimed.execution();
    assert_eq!(db.settle(&succeeded(claimed, first)), Applied::Done);
    let second = db.run_head(&db.entry("s"));
    let at = |at: Timestamp| Covers::new(Some(at), at + 1_000, LeftOut::default());
    assert_eq!(db.covers(second.execution()), at(first));
    let (application, keep) = (db.app.clone(), 60_000);
    let purge = Purge { application, after: String::new(), keep, limit: 100 };
    assert_eq!(db.store.purge(&purge).unwrap().occurrences, 1);
    let expected = Covers::new(None, first + 1_000, LeftOut::default());
    assert_eq!(db.covers(second.execution()), expected);
    assert_eq!(db.store.covers(gone, LeftOut::MOST).unwrap(), None);
}

/// The success is found all the same, and no occurrence of an earlier generation counts twice.
pub(crate) fn of_very_many_that_were_left_out_the_newest_are_counted(db: &Bench) {
    let _ = db.schedule("s");
    db.ends(Answer::Done);
    db.passes(7, Reason::Misfire);
    db.ends(failure());
    let edited = Definition { trigger: every(db.base + 9_000, 1_000, -1), ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    for _ in 0..3 {
        db.ends(failure());
    }
    let run = db.run_head(&db.entry("s")).execution();
    for (most, failed, missed) in [(1, 1, 0), (3, 3, 0), (4, 4, 0), (5, 4, 7), (6, 4, 7)] {
        let covers = db.store.covers(run, most).unwrap().unwrap();
        assert_eq!((covers.left_out.failed, covers.left_out.missed), (failed, missed), "{most}");
        assert_eq!(covers.left_out.is_complete(), most > 5, "{most}");
        assert_eq!(covers.since.map(Timestamp::from), Some(db.base), "{most}");
    }
}

/// Also within a span that was skipped, and in an earlier generation.
pub(crate) fn an_execution_is_found_by_its_fire_time(db: &Bench) {
    let schedule = db.schedule("s").id;
    let found = |n: i64| db.store.execution_at(schedule, db.base + n * 1_000).unwrap();
    assert_eq!(found(0), None);
    let first = db.ends(Answer::Done);
    db.passes(3, Reason::Misfire);
    let second = db.ends(failure());
    assert_eq!((found(-1), found(0), found(4), found(5)), (None, Some(first), Some(second), None));
    let span = found(1);
    assert!(span.is_some() && span == found(3) && ![Some(first), Some(second)].contains(&span));
    assert_eq!(db.store.execution_at(schedule, db.base + 1_500).unwrap(), span, "between its fire times");
    assert_eq!(db.store.execution_at(schedule, db.base + 500).unwrap(), None);
    // By hand, at an instant of its own.
    let _ = db.ordered(&RunOrder { at: Some(db.base + 20_000), ..db.run_order("s") });
    assert_eq!(found(20), None);
    let edited = Definition { trigger: every(db.base + 30_000, 1_000, -1), ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    let third = db.ends(Answer::Done);
    assert_eq!((found(0), found(30)), (Some(first), Some(third)));
    assert_eq!(db.store.execution_at(ScheduleId(i64::MAX - 1), db.base).unwrap(), None);
}

/// Attempts count once, what somebody asked for not at all, and every generation has its own.
pub(crate) fn the_first_fire_times_of_a_span_are_listed(db: &Bench) {
    let schedule = db.schedule("s").id;
    let listed = |from: i64, before: i64, limit| {
        let at = |n: i64| db.base + n * 1_000;
        let times = db.store.fire_times(schedule, &(at(from)..at(before)), limit).unwrap();
        times.into_iter().map(|it| (it - db.base) / 1_000).collect::<Vec<i64>>()
    };
    assert_eq!(listed(0, 100, 9), [0; 0]);
    db.ends(Answer::Done);
    db.passes(3, Reason::Misfire);
    db.ends(failure());
    let _ = db.ordered(&RunOrder { at: Some(db.base + 20_000), ..db.run_order("s") });
    let edited = Definition { trigger: every(db.base + 30_000, 1_000, -1), ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    db.ends(Answer::Done);
    // A span has the row of its first.
    assert_eq!(listed(0, 100, 9), [0, 1, 4, 30]);
    assert_eq!((listed(1, 30, 9), listed(1, 31, 2)), (vec![1, 4], vec![1, 4]));
    assert!(db.store.fire_times(ScheduleId(i64::MAX - 1), &(db.base..Timestamp::MAX), 9).unwrap().is_empty());
}
