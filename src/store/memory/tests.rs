//! The model takes part in the suite it is the model of.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::MemoryStore;
use super::hooks::{CoversFault, MemberFault, SlotFault, Touch};
use crate::domain::{Candidate, ExecutionId, Timestamp};
use crate::store::audit::Attribution;
use crate::store::columns::Column;
use crate::store::conformance::{self, Bench, Fixture, RowKey, conformance, conformance_of_row_locks};
use crate::store::guard::{self, GUARDS, Guard, blind};
use crate::store::order::{Cancel, ExecutionOrder, Ordered, Retry};
use crate::store::{Applied, Change, Claim, Purge, Store, Verbs};
use crate::time::Micros;

struct MemoryFixture(Arc<MemoryStore>);

impl Fixture for MemoryFixture {
    fn open() -> Self {
        // 2026-01-02 03:04:05.678 UTC
        Self(Arc::new(MemoryStore::new(Timestamp::at(1_767_323_045_678))))
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }

    fn lock(&self, row: RowKey<'_>) -> Box<dyn Send + '_> {
        Box::new(self.0.hold_by_key(row))
    }

    fn set(&self, row: RowKey<'_>, column: &str, value: &str) {
        self.0.corrupt(row, column, value);
    }

    fn get(&self, row: RowKey<'_>, column: &str) -> Option<String> {
        self.0.column(row, column)
    }

    fn is_noted(&self, id: ExecutionId) -> bool {
        self.0.is_noted(id)
    }

    fn has_said(&self, id: ExecutionId) -> bool {
        self.0.has_said(id)
    }

    fn tagged(&self, tag: &str) -> usize {
        self.0.tagged(tag)
    }

    fn request(&self, application: &str, verb: &str, arguments: &str) -> i64 {
        self.0.request(application, verb, arguments).unwrap()
    }

    fn has_request(&self, id: i64) -> bool {
        self.0.written_requests().iter().any(|(it, _)| *it == id)
    }
}

conformance!(memory, MemoryFixture);

mod row_locks {
    use super::*;

    conformance_of_row_locks!(memory, MemoryFixture);
}

/// Blinds each guard to each of its columns: some case of the suite must fail then. Keys are left out: the
/// model finds its rows by them. So are guards of rows that the model reads and writes in one step.
#[test]
fn every_column_of_every_guard_is_missed_by_a_case() {
    const IN_ONE_STEP: [&Guard; 3] = [&guard::FORGET, &guard::RETIME, &guard::SETTLED];
    let is_key = |column: &Column| matches!(column, Column::Id | Column::Uuid | Column::Application);
    for guard in GUARDS.iter().copied().filter(|guard| !IN_ONE_STEP.contains(guard)) {
        for column in guard.every().filter(|column| !is_key(column)) {
            let fails = |case| catch_unwind(|| conformance::run::<MemoryFixture>(case)).is_err();
            let missed = || memory::CASES.iter().find(|case| fails(**case));
            let case = blind::to(&[(guard, column)], missed);
            let case = case.unwrap_or_else(|| panic!("no case misses {column:?} of {guard:?}"));
            assert!(!fails(*case), "the case fails anyway");
        }
    }
}

/// How slots may fail, each in turn.
#[test]
fn every_protection_of_slots_is_missed_by_a_case() {
    for fault in SlotFault::ALL {
        let fails = |case: fn(&Bench)| {
            let (model, db) = model();
            model.0.break_slots(fault);
            catch_unwind(AssertUnwindSafe(|| case(&db))).is_err()
        };
        assert!(memory::CASES.iter().any(|case| fails(*case)), "no case misses {fault:?}");
    }
}

/// How the answer to what an execution covers may be wrong, each in turn.
#[test]
fn every_wrong_answer_to_what_is_covered_is_missed_by_a_case() {
    for fault in CoversFault::ALL {
        let fails = |case: fn(&Bench)| {
            let (model, db) = model();
            model.0.break_covers(fault);
            catch_unwind(AssertUnwindSafe(|| case(&db))).is_err()
        };
        assert!(memory::CASES.iter().any(|case| fails(*case)), "no case misses {fault:?}");
    }
}

fn model() -> (MemoryFixture, Bench) {
    let fixture = MemoryFixture::open();
    let bench = Bench::new(Box::new(MemoryFixture(Arc::clone(&fixture.0))));
    (fixture, bench)
}

#[test]
fn a_claim_refused_as_a_test_asks_leaves_no_trace() {
    let (model, db) = model();
    let (entry, other, pending) = (db.schedule("s"), db.schedule("other"), db.pending("p"));
    let requests = [db.head(&entry), db.head(&other), db.request(Candidate::Pending(pending.clone()))];
    let refuse = |yes| [entry.id, pending.entry.id].map(|id| model.0.refuse_claims(id, yes));
    let before = (db.schedule_row(entry.id), db.schedule_row(pending.entry.id), db.execution(pending.id));

    refuse(true);
    let claims = db.store.claim(&requests).unwrap();
    assert!(matches!(claims[..], [Claim::Failed(_), Claim::Won(_), Claim::Failed(_)]), "{claims:?}");
    let after = (db.schedule_row(entry.id), db.schedule_row(pending.entry.id), db.execution(pending.id));
    assert_eq!(after, before);
    assert_eq!(db.find_pending(pending.id), Some(pending.clone()));

    refuse(false);
    let claims = db.store.claim(&requests).unwrap();
    assert!(matches!(claims[..], [Claim::Won(_), Claim::Lost, Claim::Won(_)]), "{claims:?}");
}

/// Retention on one member removes it, and the other has not heard of that.
#[test]
fn a_retry_by_hand_does_not_follow_what_another_member_has_removed() {
    const HOUR: i64 = 3_600_000;
    let retried = |fault: Option<MemberFault>| {
        let (model, db) = model();
        let (execution, application) = (db.pending("s").id, db.app.clone());
        let order = ExecutionOrder::new(application, execution, Attribution::default());
        assert_eq!(db.store.cancel(&order).unwrap(), Cancel::Done);
        fault.into_iter().for_each(|fault| model.0.break_members(fault));
        model.0.set_time(db.now + 2 * HOUR);
        model.0.split(2);
        let purge = Purge { application: db.app.clone(), after: String::new(), keep: HOUR, limit: 9 };
        assert_eq!(model.0.member(0).purge(&purge).unwrap().occurrences, 1);
        model.0.member(1).retry(&order).unwrap()
    };
    assert_eq!(retried(None), Retry::Unknown);
    let again = retried(Some(MemberFault::Touches(Touch::Retry)));
    assert!(matches!(again, Retry::Pending(_)), "nobody misses the touch: {again:?}");
}

/// A removal on one member, and the other has not heard of that.
#[test]
fn a_run_by_hand_does_not_come_behind_a_removal_on_another_member() {
    let ordered = |fault: Option<MemberFault>| {
        let (model, db) = model();
        db.schedule("s");
        fault.into_iter().for_each(|fault| model.0.break_members(fault));
        model.0.split(2);
        let removal = Change::Remove(db.removal("s"));
        assert_eq!(model.0.member(0).apply_one(removal).unwrap(), Applied::Done);
        model.0.member(1).order(&db.run_order("s")).unwrap()
    };
    assert_eq!(ordered(None), Ordered::Unknown);
    let behind = ordered(Some(MemberFault::Touches(Touch::RunNow)));
    assert!(matches!(behind, Ordered::Pending(_)), "nobody misses the touch: {behind:?}");
}

#[test]
fn the_databases_clock_is_what_it_is_set_to() {
    let (model, db) = model();
    model.0.set_time(db.now + 5);
    assert_eq!(db.store.now().unwrap(), db.now + 5);
    let (sample, now) = (db.poll(db.now).time, Micros::of_millis((db.now + 5).millis()));
    assert_eq!((sample.asked, sample.told, sample.answered), (now, now, now));
}
