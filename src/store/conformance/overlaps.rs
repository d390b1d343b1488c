//! Executions of one schedule that must not overlap: who keeps the slot, who waits for it, and what is passed
//! over.

use super::*;
use crate::domain::{Cause, Overlap, Reason};
use crate::repair::overlapped;
use crate::store::{Blocked, LedgerRow};

impl Bench {
    /// A schedule of this rule, every second from [`Bench::base`].
    pub(super) fn exclusive(&self, name: &str, rule: Overlap) -> Arc<Entry> {
        self.create(&Definition { overlap: Some(rule), ..self.definition(name) })
    }

    /// Who keeps the head of a schedule from being claimed.
    fn blocked(&self, entry: &Arc<Entry>) -> Blocked {
        is_blocked(self.claim(&self.head(entry)))
    }

    /// Passes the head over, as is decided where another keeps the slot.
    fn passed_over(&self, entry: &Arc<Entry>, blocked: Blocked) -> Repair {
        let repair = overlapped(&Occurrence::head(entry).unwrap(), blocked, self.now);
        assert!(self.applied(&Change::Repair(repair.clone())));
        repair
    }

    fn pending_request(&self, id: ExecutionId) -> ClaimRequest {
        self.request(Candidate::Pending(self.find_pending(id).expect("it is PENDING")))
    }
}

fn is_blocked(claim: Claim) -> Blocked {
    match claim {
        Claim::Blocked(blocked) => blocked,
        other => panic!("the claim was to be blocked, not {other:?}"),
    }
}

pub(crate) fn an_occurrence_waits_while_another_is_under_way(db: &Bench) {
    let entry = db.exclusive("s", Overlap::Skip);
    let first = db.run_head(&entry);
    let next = db.entry("s");
    let blocked = Blocked { holder: first.execution(), is_late: false, waiting: Vec::new() };
    assert_eq!(db.blocked(&next), blocked);
    assert_eq!((db.entry("s"), db.executions().len()), (Arc::clone(&next), 1), "nothing was written");
    assert_eq!(db.settle(&succeeded(first, db.now)), Applied::Done);
    let second = db.claim_head(&next);
    assert_eq!(db.blocked(&db.entry("s")).holder, second.execution(), "CLAIMED, it keeps the slot");
    assert_eq!(db.settle(&second.give_back(db.now)), Applied::Done);
    assert!(db.blocked(&db.entry("s")).waiting.is_empty(), "given back, it keeps the slot");
}

pub(crate) fn what_may_overlap_is_claimed_beside_others(db: &Bench) {
    let (one, other) = (db.schedule("a"), db.exclusive("b", Overlap::Skip));
    let (first, second) = (db.run_head(&one), db.run_head(&other));
    let requests = [db.head(&db.entry("a")), db.head(&db.entry("b"))];
    let mut claims = db.store.claim(&requests).unwrap();
    assert_eq!(is_blocked(claims.remove(1)).holder, second.execution());
    assert!(won(claims.remove(0)).execution() != first.execution());
}

pub(crate) fn what_waits_for_its_retry_keeps_the_slot(db: &Bench) {
    let first = db.run_head(&db.exclusive("s", Overlap::Skip));
    let failed = first.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let entry = db.entry("s");
    let holder = db.blocked(&entry).holder;
    let retry = won(db.claim(&db.pending_request(holder)));
    assert_eq!((retry.execution(), retry.attempt()), (holder, 2), "its own slot does not keep it away");
    assert_eq!(db.blocked(&entry).holder, holder);
}

pub(crate) fn what_runs_on_beyond_its_limit_keeps_the_slot(db: &Bench) {
    let first = db.run_head(&db.exclusive("s", Overlap::Skip));
    let (id, time_out) = (first.execution(), first.time_out(1, db.now));
    assert_eq!(db.settle(&time_out), Applied::Done);
    let entry = db.entry("s");
    assert_eq!(db.blocked(&entry).holder, id);
    assert_eq!(db.settle(&first.release(None, db.now)), Applied::Done);
    let _ = db.claim_head(&entry);
}

pub(crate) fn an_order_waits_for_the_slot_and_keeps_it(db: &Bench) {
    let entry = db.exclusive("s", Overlap::Skip);
    let first = db.run_head(&entry);
    let order = db.pending_request(db.ordered(&db.run_order("s")));
    assert_eq!(is_blocked(db.claim(&order)).holder, first.execution());
    assert_eq!(db.settle(&succeeded(first, db.now)), Applied::Done);
    let ordered = won(db.claim(&order));
    assert_eq!(db.blocked(&db.entry("s")).holder, ordered.execution());
}

/// While it runs. Its retry would be due whenever the old trigger's clock said so.
pub(crate) fn what_runs_keeps_the_slot_from_another_generation(db: &Bench) {
    let first = db.run_head(&db.exclusive("s", Overlap::Skip));
    let edited = Definition {
        overlap: Some(Overlap::Skip),
        trigger: every(db.base + 500, 2_000, -1),
        ..db.definition("s")
    };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    let entry = db.entry("s");
    assert_eq!(db.blocked(&entry).holder, first.execution());
    let failed = first.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let second = db.claim_head(&entry);
    let retry = db.executions().into_iter().find(|row| row.attempt == 2).expect("its retry");
    let retry = db.pending_request(ExecutionId(retry.id));
    assert_eq!(is_blocked(db.claim(&retry)).holder, second.execution(), "it waits in its turn");
}

/// Whoever had planned to claim the links behind it still does.
pub(crate) fn what_would_overlap_is_passed_over(db: &Bench) {
    let first = db.run_head(&db.exclusive("s", Overlap::Skip));
    let entry = db.entry("s");
    let repair = db.passed_over(&entry, db.blocked(&entry));
    assert!(!db.applied(&Change::Repair(repair)), "once");
    let row = db.executions().into_iter().find(|row| row.state == "SKIPPED").expect("its row");
    let place = (row.scheduled, row.until, row.count, row.reason.as_str(), row.holder);
    let at = db.base + 1_000;
    assert_eq!(place, (at, Some(at), 1, "overlap", Some(first.execution().0)));
    let moved = db.entry("s");
    assert_eq!((moved.cursor.prev, moved.version), (Some(at), entry.version));
    assert_eq!(db.settle(&succeeded(first, db.now)), Applied::Done);
    let link = Occurrence::head(&entry).unwrap().link().unwrap();
    assert_eq!(won(db.claim(&db.request(Candidate::Planned(link)))).scheduled(), db.base + 2_000);
}

/// It waits in the queue of its lane, or went back because that did not move: no job is slow, threads lack.
pub(crate) fn a_skip_says_whether_its_holder_had_begun(db: &Bench) {
    let skipped_as = || {
        let entry = db.entry("s");
        let at = Occurrence::head(&entry).unwrap().at;
        let _ = db.passed_over(&entry, db.blocked(&entry));
        db.executions().into_iter().find(|row| row.scheduled == at).map(|row| (row.reason, row.holder))
    };
    let as_if = |reason: Reason, id: ExecutionId| Some((reason.as_str().to_owned(), Some(id.0)));
    let first = db.claim_head(&db.exclusive("s", Overlap::Skip));
    let id = first.execution();
    assert_eq!(skipped_as(), as_if(Reason::HolderLate, id));
    assert_eq!(db.settle(&first.give_back(db.now)), Applied::Done);
    assert_eq!(skipped_as(), as_if(Reason::HolderLate, id));
    let begun = won(db.claim(&ClaimRequest { at_once: true, ..db.pending_request(id) }));
    assert_eq!(skipped_as(), as_if(Reason::Overlap, id));
    let failed = begun.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let retry = db.executions().into_iter().find(|row| row.attempt == 2).expect("its retry");
    assert_eq!(skipped_as(), as_if(Reason::Overlap, ExecutionId(retry.id)), "it waits for its pause");
}

pub(crate) fn as_many_wait_as_may(db: &Bench) {
    let first = db.run_head(&db.exclusive("s", Overlap::Queue(2)));
    for waiting in 0..3 {
        let entry = db.entry("s");
        let blocked = db.blocked(&entry);
        assert_eq!((blocked.holder, blocked.waiting.len()), (first.execution(), waiting.min(2)));
        let repair = db.passed_over(&entry, blocked);
        assert_eq!(matches!(repair.rows[0], LedgerRow::Pending { .. }), waiting < 2);
    }
    let _ = db.ordered(&db.run_order("s"));
    assert_eq!(db.settle(&succeeded(first, db.now)), Applied::Done);
    let queued = db.pendings_of(db.entry("s").id).into_iter().filter(|it| it.origin == 0);
    let queued: Vec<Pending> = queued.collect();
    let at: Vec<Timestamp> = queued.iter().map(|it| it.scheduled).collect();
    assert_eq!(at, [db.base + 1_000, db.base + 2_000]);
    let row = db.execution(queued[0].id);
    assert_eq!((row.reason.as_str(), &queued[0].cause), (Reason::Queued.as_str(), &Cause::Planned));
    let second = won(db.claim(&db.request(Candidate::Pending(queued[0].clone()))));
    let third = db.request(Candidate::Pending(queued[1].clone()));
    assert_eq!(is_blocked(db.claim(&third)).holder, second.execution());
    let Blocked { holder, waiting, .. } = db.blocked(&db.entry("s"));
    let waiting: Vec<ExecutionId> = waiting.iter().map(|it| it.execution).collect();
    assert_eq!((holder, waiting), (second.execution(), vec![queued[1].id]), "the order does not count");
}

/// The one that runs is asked to end; who waited gives way.
pub(crate) fn what_is_next_replaces_what_runs(db: &Bench) {
    let first = db.run_head(&db.exclusive("s", Overlap::Replace));
    for _ in 0..2 {
        let entry = db.entry("s");
        let repair = db.passed_over(&entry, db.blocked(&entry));
        assert_eq!(repair.replaces, Some(first.execution()));
    }
    let cancel = db.execution(first.execution()).cancel.expect("asked to end");
    assert_eq!(
        (cancel.actor.as_str(), cancel.reason.as_str()),
        ("firetime", "replaced by the next occurrence")
    );
    let of = |state: &str| db.executions().into_iter().filter(|row| row.state == state).collect::<Vec<_>>();
    let (skipped, pending) = (of("SKIPPED"), of("PENDING"));
    assert_eq!((skipped.len(), skipped[0].scheduled), (1, db.base + 1_000));
    assert_eq!(skipped[0].reason, Reason::Superseded.as_str());
    assert_eq!((pending.len(), pending[0].scheduled), (1, db.base + 2_000));
    let ended = first.finish(Answer::Failed("asked to end".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&ended), Applied::Done);
    let last = won(db.claim(&db.pending_request(ExecutionId(pending[0].id))));
    // It has not begun: cancelled at once.
    let entry = db.entry("s");
    let _ = db.passed_over(&entry, db.blocked(&entry));
    assert_eq!(db.execution(last.execution()).state, "CANCELLED");
}

/// It could still be made once the slot is free, and nobody would answer for it.
pub(crate) fn a_claim_in_doubt_is_given_up_while_the_slot_is_taken(db: &Bench) {
    let entry = db.exclusive("s", Overlap::Skip);
    let given_back = db.claim_head(&entry);
    let waits = given_back.execution();
    assert_eq!(db.settle(&given_back.give_back(db.now)), Applied::Done);
    let order = db.pending_request(db.ordered(&db.run_order("s")));
    let planned = db.head(&db.entry("s"));
    for doubt in [&planned, &order] {
        assert!(is_lost(&db.resolve(doubt)), "{doubt:?}");
    }
    let holder = won(db.claim(&ClaimRequest { at_once: true, ..db.pending_request(waits) }));
    assert_eq!(db.settle(&succeeded(holder, db.now)), Applied::Done);
    for doubt in [&planned, &order] {
        assert!(is_lost(&db.claim(doubt)), "made after all: {doubt:?}");
    }
}
