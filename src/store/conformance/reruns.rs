//! Reruns: each occurrence that did not succeed is run once, under its own fire time, and all of them end
//! together if somebody says so.

use std::sync::Barrier;

use super::covers::failure;
use super::*;
use crate::domain::{Cause, Covers, Cursor, ExecutionState, LeftOut, NextFire, Reason, ScheduleState};
use crate::store::audit::{Attribution, AuditQuery, AuditRow};
use crate::store::order::{ExecutionOrder, Retry};
use crate::store::rerun::{
    EndedSo, Reran, RerunCancel, RerunCancelled, RerunFate, RerunOrder, RerunPlan, RerunPreview, RerunWanted,
    UnknownSpan,
};
use crate::store::{LedgerRow, Purge, RemoveChange};
use crate::trigger::Delay;

use RerunFate::{Open, Run, Succeeded};

/// Whatever ended without success.
const WITHOUT_SUCCESS: [ExecutionState; 4] =
    [ExecutionState::Failed, ExecutionState::TimedOut, ExecutionState::Skipped, ExecutionState::Withdrawn];

impl Bench {
    /// When the first occurrence of the cases' schedule was due: an hour ago.
    fn past(&self) -> Timestamp {
        self.base - 7_200_000
    }

    pub(super) fn second(&self, n: i64) -> Timestamp {
        self.past() + n * 1_000
    }

    /// The schedule "s", every second, with its cursor before its first occurrence.
    fn long_past(&self) -> Arc<Entry> {
        let trigger = every(self.past(), 1_000, -1);
        let id = self.create(&Definition { trigger, ..self.definition("s") }).id;
        self.set(RowKey::Schedule(id), "prev_fire_time", "-1");
        self.set(RowKey::Schedule(id), "next_fire_time", &self.past().to_string());
        self.entry("s")
    }

    /// Occurrences of "s" that succeed (`+`), fail (`-`) or are missed (`0`), in the order of their fire
    /// times; several that are missed one behind the other are one span.
    pub(super) fn played(&self, ends: &str) {
        self.long_past();
        for ends in ends.as_bytes().chunk_by(|one, other| one == other && *one == b'0') {
            match ends {
                [b'+'] => drop(self.ends(Answer::Done)),
                [b'-'] => drop(self.ends(failure())),
                missed => self.passes(i64::try_from(missed.len()).unwrap(), Reason::Misfire),
            }
        }
    }

    fn rerun_order(&self, wanted: RerunWanted) -> RerunOrder {
        let by = Attribution { actor: "ann".to_owned(), reason: "why".to_owned() };
        let (application, schedule) = (self.app.clone(), "s".to_owned());
        RerunOrder { application, schedule, wanted, pace: 5_000, by }
    }

    /// An order for all that ended without success.
    pub(super) fn rerun_all(&self) -> RerunOrder {
        self.rerun_order(ended(&WITHOUT_SUCCESS, None, None))
    }

    fn plan(&self, order: &RerunOrder) -> RerunPlan {
        match self.store.plan_rerun(order).unwrap() {
            RerunPreview::Plan(plan) => plan,
            other => panic!("{other:?}"),
        }
    }

    /// Which occurrences an order means, counted from the first of "s", and what becomes of each.
    fn planned(&self, order: &RerunOrder) -> Vec<(i64, RerunFate)> {
        let plan = self.plan(order);
        plan.occurrences.iter().map(|it| ((it.at - self.past()) / 1_000, it.fate)).collect()
    }

    /// The origin of the rerun, and its executions by their due times.
    pub(super) fn reran(&self, order: &RerunOrder) -> (i64, Vec<ExecutionRow>) {
        let Reran::Ordered { origin, .. } = self.store.rerun(order).unwrap() else {
            panic!("something is left")
        };
        let mut rows = self.executions();
        rows.retain(|row| row.origin == origin);
        rows.sort_by_key(|row| (row.due, row.id));
        (origin, rows)
    }

    /// An execution of a rerun begins.
    pub(super) fn begins(&self, row: &ExecutionRow) -> Claimed {
        let pending = self.find_pending(ExecutionId(row.id)).expect("it waits");
        won(self.claim(&ClaimRequest { at_once: true, ..self.request(Candidate::Pending(pending)) }))
    }

    fn audited_as(&self, verb: &str) -> Vec<AuditRow> {
        let (application, verb) = (self.app.clone(), Some(verb.to_owned()));
        self.store.audit(&AuditQuery { application, verb, limit: 9, ..AuditQuery::default() }).unwrap()
    }

    fn rerun_cancel(&self, origin: i64) -> RerunCancel {
        RerunCancel { application: self.app.clone(), origin, by: self.rerun_all().by }
    }
}

fn ended(states: &[ExecutionState], since: Option<Timestamp>, until: Option<Timestamp>) -> RerunWanted {
    RerunWanted::Ended(EndedSo { states: states.to_vec(), reason: None }, since, until)
}

pub(crate) fn each_is_run_once_under_its_own_fire_time(db: &Bench) {
    db.played("+-000+-");
    let (entry, order) = (db.entry("s"), db.rerun_all());
    let all = [1, 2, 3, 4, 6];
    assert_eq!(db.planned(&order), all.map(|n| (n, Run)), "spans one by one");
    assert!(db.executions().iter().all(|row| row.origin == 0), "a plan changes nothing");
    let (origin, rows) = db.reran(&order);
    assert_eq!(*db.entry("s"), *entry, "neither the cursor nor the version has moved");
    assert_eq!(rows.iter().map(|row| row.scheduled).collect::<Vec<_>>(), all.map(|n| db.second(n)));
    let [first, .., last] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(last.due - first.due, 4 * order.pace);
    assert!((first.due - db.now).abs() < 60_000, "at once");
    let cause = Cause::Rerun { actor: "ann".to_owned(), reason: "why".to_owned() };
    for row in &rows {
        assert_eq!((row.state.as_str(), row.reason.as_str(), &row.cause), ("PENDING", "rerun", &cause));
        assert_eq!((row.attempt, row.count, row.generation), (1, 1, entry.generation));
    }
    let [audit] = &db.audited_as("rerun")[..] else { panic!("it is recorded once") };
    assert_eq!((audit.id, audit.target.as_str(), audit.actor.as_str()), (origin, "s", "ann"));
    assert!(audit.became.starts_with("5 occurrences from "), "{audit:?}");
    let polled = db.poll(Timestamp::MAX).pendings;
    assert_eq!(polled.iter().map(|it| it.scheduled).collect::<Vec<_>>(), all.map(|n| db.second(n)));
    assert_eq!((&polled[0].cause, &polled[0].payload), (&cause, &None));
}

/// Neither while it is under way nor once it has succeeded; again once it has failed.
pub(crate) fn a_rerun_leaves_out_what_another_does(db: &Bench) {
    db.played("-0-");
    let order = db.rerun_all();
    let (_, rows) = db.reran(&order);
    assert_eq!(db.planned(&order), [(0, Open), (1, Open), (2, Open)]);
    assert!(matches!(db.store.rerun(&order).unwrap(), Reran::Nothing(plan) if plan.occurrences.len() == 3));
    assert_eq!(db.audited_as("rerun").len(), 1);
    assert_eq!(db.settle(&succeeded(db.begins(&rows[0]), db.now)), Applied::Done);
    let retried = db.begins(&rows[1]);
    assert_eq!(db.settle(&retried.finish(failure(), Some(db.now), db.now)), Applied::Done);
    let runs_on = db.begins(&rows[2]);
    assert_eq!(db.settle(&runs_on.time_out(1, db.now)), Applied::Done);
    assert_eq!(db.planned(&order), [(0, Succeeded), (1, Open), (2, Open)]);
    assert_eq!(db.settle(&runs_on.release(None, db.now)), Applied::Done);
    assert_eq!(db.planned(&order), [(0, Succeeded), (1, Open), (2, Run)]);
    let (_, again) = db.reran(&order);
    assert_eq!(again.iter().map(|row| row.scheduled).collect::<Vec<_>>(), [db.second(2)]);
    assert_eq!(db.settle(&succeeded(db.begins(&again[0]), db.now)), Applied::Done);
    assert_eq!(db.planned(&order), [(0, Succeeded), (1, Open), (2, Succeeded)]);
    // What was asked for by hand is no rerun, whatever its fire time.
    let by_hand = db.ordered(&crate::store::order::RunOrder { at: Some(db.second(3)), ..db.run_order("s") });
    db.passes(1, Reason::Paused);
    assert_eq!(db.execution(by_hand).scheduled, db.second(3));
    assert_eq!(db.planned(&order)[3..], [(3, Run)]);
}

/// One that was tried again counts by its last attempt.
pub(crate) fn what_is_tried_again_is_left_alone(db: &Bench) {
    db.played("-+");
    let failed = db.executions().into_iter().find(|row| row.state == "FAILED").unwrap();
    let order = ExecutionOrder::new(db.app.clone(), ExecutionId(failed.id), db.rerun_all().by);
    let Retry::Pending(retry) = db.store.retry(&order).unwrap() else { panic!("it can be tried again") };
    assert_eq!(db.planned(&db.rerun_all()), []);
    let retry = db.begins(&db.execution(retry));
    assert_eq!(db.settle(&succeeded(retry, db.now)), Applied::Done);
    assert_eq!(db.planned(&db.rerun_all()), []);
    let all = db.rerun_order(ended(&[ExecutionState::Succeeded], None, None));
    assert_eq!(db.planned(&all), [(0, Run), (1, Run)], "whoever asks for these wants them again");
    let (_, rows) = db.reran(&all);
    assert_eq!(db.planned(&all), [(0, Open), (1, Open)]);
    assert_eq!(db.settle(&succeeded(db.begins(&rows[0]), db.now)), Applied::Done);
    assert_eq!(db.planned(&all), [(0, Run), (1, Open)]);
}

pub(crate) fn occurrences_are_meant_by_state_reason_and_time(db: &Bench) {
    db.played("-0000-");
    db.passes(2, Reason::Paused);
    let times = |order: &RerunOrder| db.planned(order).iter().map(|it| it.0).collect::<Vec<_>>();
    let skipped = |reason: Option<&str>, since: Option<i64>, until: Option<i64>| {
        let so = EndedSo { states: vec![ExecutionState::Skipped], reason: reason.map(str::to_owned) };
        let at = |n: Option<i64>| n.map(|n| db.second(n));
        db.rerun_order(RerunWanted::Ended(so, at(since), at(until)))
    };
    assert_eq!(times(&db.rerun_order(ended(&[ExecutionState::Failed], None, None))), [0, 5]);
    assert_eq!(times(&skipped(None, None, None)), [1, 2, 3, 4, 6, 7]);
    assert_eq!(times(&skipped(Some("paused"), None, None)), [6, 7]);
    assert_eq!(times(&skipped(Some("misfire"), Some(2), Some(4))), [2, 3], "a part of a span");
    assert!(times(&skipped(Some("paused"), Some(2), Some(4))).is_empty());
    assert_eq!(times(&skipped(None, Some(4), Some(7))), [4, 6]);
    let part = db.plan(&skipped(None, Some(3), None));
    let prevs: Vec<_> = part.occurrences.iter().map(|it| it.prev).collect();
    assert_eq!(prevs, [2, 3, 5, 6].map(|n| Some(db.second(n))), "each follows the one before it");
    assert_eq!(db.plan(&db.rerun_all()).occurrences[0].prev, None, "it is the first of all");
}

/// What an edit has withdrawn, too; all in the generation of now.
pub(crate) fn spans_of_an_earlier_trigger_are_run_by_that(db: &Bench) {
    db.played("+-00");
    let entry = db.entry("s");
    let edited = Definition { trigger: every(db.base, 2_000, -1), ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    let order = db.rerun_order(ended(&WITHOUT_SUCCESS, None, Some(db.second(6))));
    assert_eq!(db.planned(&order), [1, 2, 3, 4, 5].map(|n| (n, Run)), "the last two were withdrawn");
    let (_, rows) = db.reran(&order);
    assert!(rows.len() == 5 && rows.iter().all(|row| row.generation == entry.generation + 1), "{rows:?}");
    let covers = db.covers(ExecutionId(rows[4].id));
    assert_eq!(covers, Covers::new(Some(db.second(4)), db.second(5), LeftOut::default()));
    assert_eq!(db.planned(&order), [1, 2, 3, 4, 5].map(|n| (n, Open)), "found from another generation");
}

/// The database's clock was ahead: the generation that began anew has run those fire times again.
pub(crate) fn what_ran_ahead_of_a_new_generation_is_left_alone(db: &Bench) {
    db.played("+--");
    let row = RowKey::Schedule(db.entry("s").id);
    db.set(row, "generation", "1");
    db.set(row, "prev_fire_time", &db.second(0).to_string());
    db.set(row, "next_fire_time", &db.second(1).to_string());
    db.ends(Answer::Done);
    assert_eq!(db.planned(&db.rerun_all()), []);
    db.ends(failure());
    assert_eq!(db.planned(&db.rerun_all()), [(2, Run)]);
}

/// A row whose span is not what the trigger makes of it is not taken for it.
pub(crate) fn a_span_that_its_trigger_has_not_made_is_unknown(db: &Bench) {
    let entry = db.long_past();
    let (from, to, following) = (db.second(0), db.second(2), NextFire::At(db.second(3)));
    let (count, prev, reason) = (2, None, Reason::Misfire);
    let row = LedgerRow::Skipped { from, to, count, prev, following, reason, holder: None };
    let cursor = Cursor { prev: Some(to), next: following };
    assert!(db.repaired(&Repair { rows: vec![row], ..Repair::of(&entry, cursor, count, db.now) }));
    let plan = db.plan(&db.rerun_all());
    let unknown = UnknownSpan { from, until: to, count: 2 };
    assert_eq!((plan.occurrences, plan.unknown), (vec![], vec![unknown]), "it fires three times there");
}

pub(crate) fn one_request_looks_at_a_thousand(db: &Bench) {
    db.played("-");
    db.passes(1_500, Reason::Misfire);
    let plan = db.plan(&db.rerun_all());
    assert_eq!((plan.occurrences.len(), plan.rest_from), (1_000, Some(db.second(1_000))));
    let (_, rows) = db.reran(&db.rerun_all());
    assert_eq!((rows.len(), rows[999].scheduled), (1_000, db.second(999)));
    assert_eq!(rows[999].due - rows[0].due, 999 * 5_000);
    let rest = db.rerun_order(ended(&WITHOUT_SUCCESS, plan.rest_from, None));
    let plan = db.plan(&rest);
    assert_eq!((plan.run().count(), plan.rest_from), (501, None));
    assert_eq!(plan.occurrences[0].at, db.second(1_000));
}

/// Also in its second attempt, and whatever its success is, it moves no span.
pub(crate) fn a_rerun_covers_its_own_occurrence(db: &Bench) {
    db.played("+-00");
    let (_, rows) = db.reran(&db.rerun_all());
    let own = |from: Option<i64>, until: i64| {
        Covers::new(from.map(|n| db.second(n)), db.second(until), LeftOut::default())
    };
    for (row, n) in rows.iter().zip(1..) {
        assert_eq!(db.covers(ExecutionId(row.id)), own(Some(n - 1), n));
    }
    let first = db.begins(&rows[0]);
    assert_eq!((first.scheduled(), first.payload()), (db.second(1), "{}"));
    assert_eq!(db.settle(&first.finish(failure(), Some(db.now), db.now)), Applied::Done);
    let retry = db.executions().into_iter().find(|row| row.attempt == 2).expect("its retry");
    assert_eq!((retry.cause.clone(), retry.origin), (Cause::Retry, rows[0].origin));
    assert_eq!(db.covers(ExecutionId(retry.id)), own(Some(0), 1));
    assert_eq!(db.settle(&succeeded(db.begins(&retry), db.now)), Applied::Done);
    let left_out = LeftOut { failed: 1, missed: 2, ..LeftOut::default() };
    assert_eq!(db.next_covers(), Covers::new(Some(db.second(0)), db.second(4), left_out));
}

pub(crate) fn a_backfill_runs_fire_times_from_before_the_schedule(db: &Bench) {
    let trigger = Trigger::cron("* * * * * ?", "UTC").unwrap();
    let entry = db.create(&Definition { trigger, ..db.definition("s") });
    let second = |n: i64| db.past() + n * 1_000;
    let range = |from: i64, until: i64| db.rerun_order(RerunWanted::Planned(second(from), second(until)));
    let plan = db.plan(&range(0, 4));
    assert_eq!(db.planned(&range(0, 4)), [0, 1, 2, 3].map(|n| (n, Run)));
    assert_eq!(plan.occurrences[0].prev, Some(second(-1)), "not the beginning of the range");
    let (origin, rows) = db.reran(&range(0, 4));
    assert_eq!(rows.iter().map(|row| row.scheduled).collect::<Vec<_>>(), [0, 1, 2, 3].map(second));
    assert_eq!(rows[0].generation, entry.generation);
    let covers = db.covers(ExecutionId(rows[0].id));
    assert_eq!(covers, Covers::new(Some(second(-1)), second(0), LeftOut::default()));
    let [audit] = &db.audited_as("backfill")[..] else { panic!("it is recorded once") };
    assert_eq!(audit.id, origin);
    assert_eq!(db.settle(&succeeded(db.begins(&rows[1]), db.now)), Applied::Done);
    assert_eq!(db.planned(&range(1, 6)), [(1, Succeeded), (2, Open), (3, Open), (4, Run), (5, Run)]);
    let ahead = db.rerun_order(RerunWanted::Planned(db.now, db.base));
    let next = entry.cursor.next.at().unwrap();
    assert!(db.plan(&ahead).occurrences.iter().all(|it| it.at < next), "the schedule fires by itself");
}

/// What the ledger has of the fire times counts, whatever generation it is of.
pub(crate) fn a_backfill_leaves_out_what_has_succeeded(db: &Bench) {
    db.played("+-0+");
    let order = db.rerun_order(RerunWanted::Planned(db.second(-9), db.second(4)));
    let expected = [(0, Succeeded), (1, Run), (2, Run), (3, Succeeded)];
    assert_eq!(db.planned(&order), expected, "no fire time before the trigger's first");
    let trigger = every(db.second(2), 1_000, -1);
    assert_eq!(db.store.ensure(&Definition { trigger, ..db.definition("s") }).unwrap(), Ensured::Changed);
    assert_eq!(db.planned(&order), [(2, Run), (3, Succeeded)], "of the trigger of now");
}

pub(crate) fn what_cannot_run_is_not_rerun(db: &Bench) {
    for (state, preview) in [
        ("'ERROR'", RerunPreview::NotRunnable(Some(ScheduleState::Error))),
        ("'REMOVED'", RerunPreview::Unknown),
        ("'X'", RerunPreview::NotRunnable(None)),
        ("NULL", RerunPreview::NotRunnable(None)),
    ] {
        let name = fresh_name();
        let id = db.schedule(&name).id;
        db.set(RowKey::Schedule(id), "state", state);
        let order = RerunOrder { schedule: name, ..db.rerun_all() };
        assert_eq!(db.store.plan_rerun(&order).unwrap(), preview, "{state}");
        assert_eq!(Err(db.store.rerun(&order).unwrap()), preview.decided(), "{state}");
    }
    let nobody = RerunOrder { schedule: "nobody".to_owned(), ..db.rerun_all() };
    assert_eq!(db.store.rerun(&nobody).unwrap(), Reran::Unknown);
    let delay = Trigger::Delay(Delay::new(Some(db.base.millis()), 1_000).unwrap());
    let _ = db.create(&Definition { trigger: delay, ..db.definition("s") });
    let order = db.rerun_order(RerunWanted::Planned(db.past(), db.now));
    assert_eq!(db.store.rerun(&order).unwrap(), Reran::NoFireTimes);
    assert!(db.executions().is_empty() && db.audited_as("rerun").is_empty());
}

/// Ahead of its time somebody skipped it: it has none that has come.
pub(crate) fn what_was_skipped_ahead_is_not_run_before_its_time(db: &Bench) {
    let _ = db.schedule("s");
    db.passes(1, Reason::ByHand);
    assert_eq!(db.plan(&db.rerun_all()), RerunPlan::default());
}

/// Each waits for the end of the one before it, and of its retries, whichever is asked for first.
pub(crate) fn a_rerun_that_must_not_overlap_runs_in_order(db: &Bench) {
    db.played("---");
    let trigger = every(db.past(), 1_000, -1);
    let exclusive = Definition { trigger, overlap: Some(Overlap::Skip), ..db.definition("s") };
    assert_eq!(db.store.ensure(&exclusive).unwrap(), Ensured::Changed);
    let (_, rows) = db.reran(&db.rerun_all());
    let request = |row: &ExecutionRow| {
        let pending = db.find_pending(ExecutionId(row.id)).expect("it waits");
        ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) }
    };
    let waits_for = |row: &ExecutionRow, holder: i64| {
        let claim = db.claim(&request(row));
        assert!(matches!(&claim, Claim::Blocked(by) if by.holder.0 == holder), "{row:?} {claim:?}");
    };
    let [first, second, third] = &rows[..] else { panic!("{rows:?}") };
    waits_for(third, second.id);
    waits_for(second, first.id);
    let failed = db.begins(first);
    waits_for(second, first.id);
    assert_eq!(db.settle(&failed.finish(failure(), Some(db.now), db.now)), Applied::Done);
    let retry = db.executions().into_iter().find(|row| row.attempt == 2).expect("it is tried again");
    waits_for(second, retry.id);
    assert_eq!(db.settle(&succeeded(db.begins(&retry), db.now)), Applied::Done);
    waits_for(third, second.id);
    assert_eq!(db.settle(&succeeded(db.begins(second), db.now)), Applied::Done);
    drop_claimed(db.claim(&request(third)));
}

pub(crate) fn a_rerun_ends_as_a_whole(db: &Bench) {
    db.played("----");
    let (origin, rows) = db.reran(&db.rerun_all());
    let other = db.ordered(&db.run_order("s"));
    let [runs, claimed, waits, done] = &rows[..] else { panic!("{rows:?}") };
    let runs = db.begins(runs);
    let pending = db.find_pending(ExecutionId(claimed.id)).unwrap();
    drop_claimed(db.claim(&db.request(Candidate::Pending(pending))));
    assert_eq!(db.settle(&succeeded(db.begins(done), db.now)), Applied::Done);
    let cancelled = db.store.cancel_rerun(&db.rerun_cancel(origin)).unwrap();
    assert_eq!(cancelled, RerunCancelled::Done { cancelled: 2, asked: 1 });
    for (row, state) in [(claimed, "CANCELLED"), (waits, "CANCELLED"), (done, "SUCCEEDED")] {
        assert_eq!(db.execution(ExecutionId(row.id)).state, state);
    }
    let row = db.execution(runs.execution());
    assert!(row.state == "RUNNING" && row.cancel.is_some_and(|it| it.actor == "ann"));
    assert_eq!(db.execution(other).state, "PENDING", "it is of another origin");
    let [audit] = &db.audited_as("cancel")[..] else { panic!("it is recorded once") };
    assert_eq!((audit.target_type.as_str(), audit.target.as_str()), ("schedule", "s"));
    assert_eq!(audit.was, format!("rerun {origin}: 2 waited, 1 ran"));
    // Nothing follows, though its handler has failed.
    assert_eq!(db.settle(&runs.finish(failure(), Some(db.now), db.now)), Applied::Done);
    assert!(db.executions().iter().all(|row| row.attempt == 1), "no retry");
    assert_eq!(db.store.cancel_rerun(&db.rerun_cancel(origin)).unwrap(), RerunCancelled::Ended);
    assert_eq!(db.audited_as("cancel").len(), 1);
    for unknown in [db.rerun_cancel(origin + 1_000_000), db.rerun_cancel(db.execution(other).origin)] {
        assert_eq!(db.store.cancel_rerun(&unknown).unwrap(), RerunCancelled::Unknown);
    }
    let elsewhere = RerunCancel { application: fresh_name(), ..db.rerun_cancel(origin) };
    assert_eq!(db.store.cancel_rerun(&elsewhere).unwrap(), RerunCancelled::Unknown);
    assert_eq!(db.planned(&db.rerun_all()), [(0, Run), (1, Run), (2, Run), (3, Succeeded)]);
}

/// Its retry, too, which waits in a later generation than the schedule's of now.
pub(crate) fn a_rerun_ends_after_an_edit(db: &Bench) {
    db.played("-");
    let (origin, rows) = db.reran(&db.rerun_all());
    assert_eq!(db.settle(&db.begins(&rows[0]).finish(failure(), Some(db.now), db.now)), Applied::Done);
    let edited = Definition { trigger: every(db.base, 2_000, -1), ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    db.ends(Answer::Done);
    let cancelled = db.store.cancel_rerun(&db.rerun_cancel(origin)).unwrap();
    assert_eq!(cancelled, RerunCancelled::Done { cancelled: 1, asked: 0 });
    let retry = db.executions().into_iter().find(|row| row.attempt == 2).unwrap();
    assert_eq!((retry.state.as_str(), retry.reason.as_str()), ("CANCELLED", "cancelled"));
}

/// Its executions wait for longer than the audit keeps who asked for them.
pub(crate) fn a_rerun_ends_after_its_entry_in_the_audit_is_gone(db: &Bench) {
    db.played("--");
    let (origin, _) = db.reran(&db.rerun_all());
    let by_hand = db.execution(db.ordered(&db.run_order("s")));
    let (application, after) = (db.app.clone(), String::new());
    db.store.purge(&Purge { application, after, keep: -60_000, limit: 100 }).unwrap();
    assert!(db.audited_as("rerun").is_empty(), "retention has removed it");
    let unknown = db.store.cancel_rerun(&db.rerun_cancel(by_hand.origin)).unwrap();
    assert_eq!(unknown, RerunCancelled::Unknown, "it is no rerun");
    let cancelled = db.store.cancel_rerun(&db.rerun_cancel(origin)).unwrap();
    assert_eq!(cancelled, RerunCancelled::Done { cancelled: 2, asked: 0 });
    assert_eq!(db.store.cancel_rerun(&db.rerun_cancel(origin)).unwrap(), RerunCancelled::Unknown);
}

pub(crate) fn a_removal_cancels_a_rerun(db: &Bench) {
    db.played("--");
    let (origin, rows) = db.reran(&db.rerun_all());
    let seen = db.store.seen(&db.app, "s").unwrap().unwrap();
    let (application, reason, now) = (db.app.clone(), String::new(), db.now);
    assert!(db.applied(&Change::Remove(RemoveChange { application, seen, reason, now })));
    for row in rows {
        let row = db.execution(ExecutionId(row.id));
        assert_eq!((row.state.as_str(), row.reason.as_str()), ("CANCELLED", "removed"));
    }
    assert_eq!(db.store.cancel_rerun(&db.rerun_cancel(origin)).unwrap(), RerunCancelled::Ended);
    assert_eq!(db.store.rerun(&db.rerun_all()).unwrap(), Reran::Unknown);
}

pub(crate) fn the_last_rerun_of_a_fire_time_is_found(db: &Bench) {
    db.played("--");
    let schedule = db.entry("s").id;
    let found = |n: i64| db.store.rerun_at(schedule, db.second(n)).unwrap();
    assert_eq!((found(0), found(1)), (None, None));
    let (_, rows) = db.reran(&db.rerun_all());
    assert_eq!((found(0), found(1)), (Some(ExecutionId(rows[0].id)), Some(ExecutionId(rows[1].id))));
    let failed = db.begins(&rows[0]);
    assert_eq!(db.settle(&failed.finish(failure(), None, db.now)), Applied::Done);
    let (_, again) = db.reran(&db.rerun_all());
    assert_eq!(found(0), Some(ExecutionId(again[0].id)), "the newest");
    let again = db.begins(&again[0]);
    assert_eq!(db.settle(&again.finish(failure(), Some(db.now), db.now)), Applied::Done);
    let retry = db.executions().into_iter().find(|row| row.attempt == 2).unwrap();
    assert_eq!(found(0), Some(ExecutionId(retry.id)), "its last attempt");
    assert_eq!(found(7), None);
}

/// Retention removes a rerun with its schedule's other executions, by its end, not by its fire time.
pub(crate) fn retention_counts_from_the_end_of_a_rerun(db: &Bench) {
    db.played("-");
    let (_, rows) = db.reran(&db.rerun_all());
    let original = db.executions().into_iter().find(|row| row.origin == 0).unwrap();
    let key = RowKey::Execution(ExecutionId(original.id));
    db.set(key, "finished_time", &db.past().to_string());
    let purge = || {
        let (application, after) = (db.app.clone(), String::new());
        db.store.purge(&Purge { application, after, keep: 60_000, limit: 100 }).unwrap().occurrences
    };
    assert_eq!(db.settle(&succeeded(db.begins(&rows[0]), db.now)), Applied::Done);
    assert_eq!(purge(), 1, "the occurrence itself");
    assert_eq!(db.execution(ExecutionId(rows[0].id)).state, "SUCCEEDED");
    db.set(RowKey::Execution(ExecutionId(rows[0].id)), "finished_time", &db.past().to_string());
    assert_eq!(purge(), 1);
}

/// Of two requests for the same occurrences one makes the executions, and the other finds them.
pub(crate) fn two_reruns_at_once_run_nothing_twice(db: &Bench) {
    db.played("-0000-");
    let (order, start) = (db.rerun_all(), Barrier::new(2));
    let answers: Vec<Reran> = std::thread::scope(|scope| {
        let racer = || {
            start.wait();
            db.store.rerun(&order).unwrap()
        };
        let racers = [scope.spawn(racer), scope.spawn(racer)];
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    let count = |is: fn(&Reran) -> bool| answers.iter().filter(|it| is(it)).count();
    assert_eq!(count(|it| matches!(it, Reran::Ordered { .. })), 1, "{answers:?}");
    assert_eq!(count(|it| matches!(it, Reran::Nothing(_))), 1, "{answers:?}");
    assert_eq!(db.executions().iter().filter(|row| row.origin > 0).count(), 6);
}
