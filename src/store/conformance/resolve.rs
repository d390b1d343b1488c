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

pub(crate) fn what_has_ended_is_lost(db: &Bench) {
    let entry = db.schedule("s");
    let request = ClaimRequest { at_once: true, ..db.head(&entry) };
    let claimed = won(db.claim(&request));
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Settled::Done);
    assert!(is_lost(&db.resolve(&request)));
    assert_eq!(db.executions().len(), 1);
}

pub(crate) fn what_was_given_back_is_lost(db: &Bench) {
    let entry = db.schedule("s");
    let request = db.head(&entry);
    let claimed = won(db.claim(&request));
    assert_eq!(db.settle(&claimed.give_back(db.now)), Settled::Done);
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
    let claims = db.store.resolve(&requests).unwrap();
    assert!(matches!(claims[..], [Claim::Lost, Claim::Won(_), Claim::Won(_)]), "{claims:?}");
    assert_eq!(db.executions().len(), 3);
}

/// `claim` would skip the row; `resolve` has to know.
pub(crate) fn a_locked_row_is_waited_for(db: &Bench) {
    let entry = db.schedule("s");
    let request = db.head(&entry);
    let held = db.lock(entry.id);
    let claims = db.store.claim(std::slice::from_ref(&request)).unwrap();
    assert!(matches!(claims[..], [Claim::Skipped]));
    let claim = std::thread::scope(|scope| {
        let asked = scope.spawn(|| db.resolve(&request));
        drop(held);
        asked.join().unwrap()
    });
    drop_claimed(claim);
}
