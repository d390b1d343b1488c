//! Claims whose answer was lost: what became of them is asked again, by the same requests.

use super::*;

pub(crate) fn what_the_guard_still_matches_is_claimed_now(db: &Bench) {
    let entry = db.schedule("s");
    let request = db.head(&entry);
    let claimed = won(db.resolve(&request));
    assert_eq!((claimed.scheduled(), claimed.attempt()), (db.base, 1));
    assert_eq!(db.entry("s").cursor.prev, Some(db.base));
    assert_eq!(db.execution(claimed.execution()).state, "CLAIMED");
}

/// By a node that was switched off meanwhile, or whose application was: what it had claimed is still its own.
pub(crate) fn nothing_is_claimed_by_a_node_that_is_off(db: &Bench) {
    let entries = ["open", "mine", "held"].map(|name| db.schedule(name));
    let pending = db.pending("pending");
    let mut requests: Vec<_> = entries.iter().map(|entry| db.head(entry)).collect();
    requests.push(db.request(Candidate::Pending(pending)));
    drop_claimed(db.claim(&requests[1]));
    let held = db.lock(entries[2].id);
    let resolve = || db.store.resolve(&requests, IfNotMade::Prevent).unwrap();
    let claims = resolve();
    assert!(matches!(claims[..], [Claim::Lost, Claim::Won(_), Claim::Skipped, Claim::Lost]), "{claims:?}");
    drop(held);
    let is_free = || {
        let claims = resolve();
        matches!(claims[..], [Claim::Lost, Claim::Won(_), Claim::Lost, Claim::Lost])
    };
    let deadline = Instant::now() + DEADLINE;
    while !is_free() {
        assert!(Instant::now() < deadline, "the row stays in doubt");
    }
    assert_eq!(db.entry("open").cursor, entries[0].cursor);
    assert_eq!(db.executions().len(), 2);
}

/// A call that reaches the database after its node has given it up would leave an execution of nobody's.
pub(crate) fn a_claim_that_was_given_up_is_lost_however_late_it_comes(db: &Bench) {
    let planned = db.head(&db.schedule("planned"));
    let pending = db.request(Candidate::Pending(db.pending("pending")));
    let requests = [planned, pending];
    let claims = db.store.resolve(&requests, IfNotMade::Prevent).unwrap();
    assert!(matches!(claims[..], [Claim::Lost, Claim::Lost]), "{claims:?}");
    for request in &requests {
        assert!(is_lost(&db.claim(request)));
    }
    assert!(matches!(db.claim(&db.head(&db.entry("planned"))), Claim::Won(_)), "others may claim it");
}

pub(crate) fn what_carries_the_token_is_won_and_not_claimed_again(db: &Bench) {
    for at_once in [false, true] {
        let entry = db.schedule(if at_once { "running" } else { "claimed" });
        let request = ClaimRequest { at_once, ..db.head(&entry) };
        let first = won(db.claim(&request));
        let again = won(db.resolve(&request));
        assert_eq!((again.execution(), again.fence()), (first.execution(), first.fence()));
        assert_eq!((again.token(), again.is_started()), (request.token, at_once));
        assert_eq!(db.number(RowKey::Schedule(entry.id), "time_triggered"), 1);
    }
    assert_eq!(db.executions().len(), 2);
}

pub(crate) fn what_another_took_is_lost(db: &Bench) {
    let entry = db.schedule("s");
    let mine = db.head(&entry);
    drop_claimed(db.claim(&db.head(&entry)));
    assert!(is_lost(&db.resolve(&mine)));
    assert_eq!(db.executions().len(), 1);
}

/// A row that is not there is not taken for one that somebody holds.
pub(crate) fn what_is_gone_is_lost(db: &Bench) {
    let gone = Entry { id: ScheduleId(i64::MAX), ..(*db.schedule("s")).clone() };
    let claims = db.store.resolve(&[db.head(&Arc::new(gone))], IfNotMade::Claim).unwrap();
    assert!(matches!(claims[..], [Claim::Lost]), "{claims:?}");
}

pub(crate) fn what_has_ended_is_lost(db: &Bench) {
    let entry = db.schedule("s");
    let request = ClaimRequest { at_once: true, ..db.head(&entry) };
    let claimed = won(db.claim(&request));
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done);
    assert!(is_lost(&db.resolve(&request)));
    assert_eq!(db.executions().len(), 1);
}

pub(crate) fn what_was_given_back_is_lost(db: &Bench) {
    let entry = db.schedule("s");
    let request = db.head(&entry);
    let claimed = won(db.claim(&request));
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    assert!(is_lost(&db.resolve(&request)));
    assert_eq!(db.pendings_of(entry.id).len(), 1);
}

pub(crate) fn a_pending_claim_is_resolved_by_its_token(db: &Bench) {
    let [unclaimed, mine, taken] = ["unclaimed", "mine", "taken"].map(|name| db.pending(name));
    let requests = [unclaimed, mine, taken].map(|pending| db.request(Candidate::Pending(pending)));
    let first = drop_claimed(db.claim(&requests[1]));
    drop_claimed(db.claim(&ClaimRequest { token: Token::fresh(), ..requests[2].clone() }));

    drop_claimed(db.resolve(&requests[0]));
    assert_eq!(drop_claimed(db.resolve(&requests[1])), first);
    assert!(is_lost(&db.resolve(&requests[2])));
    assert_eq!(db.executions().len(), 3);
}

pub(crate) fn a_batch_is_resolved_row_by_row(db: &Bench) {
    let entries = ["open", "mine", "taken"].map(|name| db.schedule(name));
    let requests = [&entries[2], &entries[0], &entries[1]].map(|entry| db.head(entry));
    drop_claimed(db.claim(&requests[2]));
    drop_claimed(db.claim(&db.head(&entries[2])));
    let claims = db.resolve_all(&requests);
    assert!(matches!(claims[..], [Claim::Lost, Claim::Won(_), Claim::Won(_)]), "{claims:?}");
    assert_eq!(db.executions().len(), 3);
}

/// Its holder may be the very claim that is asked about: nothing can be said of the row, all of the others.
pub(crate) fn a_locked_row_stays_in_doubt_and_the_others_do_not(db: &Bench) {
    let entries = ["open", "held", "taken"].map(|name| db.schedule(name));
    let pending = db.pending("pending");
    drop_claimed(db.claim(&db.head(&entries[2])));
    let mut requests: Vec<_> = entries.iter().map(|entry| db.head(entry)).collect();
    requests.push(db.request(Candidate::Pending(pending.clone())));
    let held = (db.lock(entries[1].id), db.lock(pending.entry.id));
    db.resolve_until(&requests, |claims| {
        matches!(claims, [Claim::Won(_), Claim::Skipped, Claim::Lost, Claim::Skipped])
    });
    drop(held);
    let claims = db.resolve_all(&requests);
    assert!(matches!(claims[..], [Claim::Won(_), Claim::Won(_), Claim::Lost, Claim::Won(_)]), "{claims:?}");
}

/// The lock is another's: a claim whose execution is there has been committed.
pub(crate) fn what_carries_the_token_is_won_although_its_row_is_locked(db: &Bench) {
    let entry = db.schedule("s");
    let request = db.head(&entry);
    let first = drop_claimed(db.claim(&request));
    let _held = db.lock(entry.id);
    assert_eq!(drop_claimed(db.resolve(&request)), first);
}
