//! Executions whose node is gone, and how they are taken from it.

use super::*;
use crate::domain::ExecutionState;
use crate::domain::Reason;

/// A claimed execution of a node that never was.
fn strand(db: &Bench, name: &str, at_once: bool) -> (Arc<Entry>, Claimed, Stranded) {
    let entry = db.schedule(name);
    let claimed = won(db.claim(&ClaimRequest { at_once, node: NodeId::fresh(), ..db.head(&entry) }));
    let stranded = db.stranded().into_iter().find(|stranded| stranded.id == claimed.execution());
    (entry, claimed, stranded.expect("its node is missing"))
}

fn revocation(db: &Bench, stranded: Stranded, transition: Transition) -> Revocation {
    Revocation { stranded, transition, now: db.now + 1 }
}

/// Abandoned, and tried again.
fn again(db: &Bench) -> Transition {
    Transition::Abandon(Some(NextAttempt::new(db.now + 5_000, Reason::Recovery)))
}

pub(crate) fn executions_of_ended_nodes_are_stranded(db: &Bench) {
    let (dead, gone) = (db.another_node(), db.another_node());
    let claim =
        |name, node, at_once| won(db.claim(&ClaimRequest { node, at_once, ..db.head(&db.schedule(name)) }));
    let claimed = [claim("a", dead, false), claim("b", gone, true)];
    assert!(db.stranded().is_empty());
    assert!(db.store.declare_dead(dead, db.number(RowKey::Node(dead), "beat"), db.now).unwrap());
    db.store.leave(gone, db.now).unwrap();

    let mut stranded = db.stranded();
    stranded.sort_by_key(|stranded| stranded.id);
    let expected: Vec<_> = claimed.iter().map(|claimed| (claimed.execution(), claimed.token())).collect();
    assert_eq!(stranded.iter().map(|row| (row.id, row.token)).collect::<Vec<_>>(), expected);
    assert_eq!(
        stranded.iter().map(|row| row.state).collect::<Vec<_>>(),
        [ExecutionState::Claimed, ExecutionState::Running]
    );
    assert!(stranded.iter().all(|row| row.attempt == 1 && row.policy == job(JOB).settings.policy));
    assert_eq!((stranded[0].schedule, &*stranded[0].name), (claimed[0].schedule(), "a"));
    let [first, last] = claimed.each_ref().map(Claimed::execution);
    let page = |after| db.store.stranded(&db.app, after, 1).unwrap();
    let pages = [page(ExecutionId(0)), page(first), page(last)].map(|page| {
        let ids: Vec<_> = page.stranded.iter().map(|stranded| stranded.id).collect();
        (ids, page.next)
    });
    assert_eq!(pages, [(vec![first], Some(first)), (vec![last], Some(last)), (vec![], None)]);
}

pub(crate) fn executions_of_missing_nodes_are_stranded(db: &Bench) {
    let (_, claimed, stranded) = strand(db, "s", true);
    assert_eq!((stranded.state, stranded.token), (ExecutionState::Running, claimed.token()));
    assert!(db.store.stranded(&fresh_name(), ExecutionId(0), 10).unwrap().stranded.is_empty());
}

/// Somebody removed its schedule by hand: it is still taken back, and people are told of it by its id.
pub(crate) fn an_execution_without_a_schedule_is_stranded_under_its_id(db: &Bench) {
    let (entry, claimed, _) = strand(db, "s", true);
    db.set(RowKey::Execution(claimed.execution()), "execute_id", "-7");
    let stranded = db.stranded();
    let [stranded] = &stranded[..] else { panic!("one, not {stranded:?}") };
    assert_ne!(stranded.schedule, entry.id);
    assert_eq!(&*stranded.name, "id -7");
}

pub(crate) fn executions_of_live_nodes_are_not_stranded(db: &Bench) {
    drop_claimed(db.claim(&db.head(&db.schedule("a"))));
    drop_claimed(db.claim(&ClaimRequest { at_once: true, ..db.head(&db.schedule("b")) }));
    db.set(RowKey::Node(db.node), "state", "'N'");
    assert!(db.stranded().is_empty(), "a disabled node lives on");
}

pub(crate) fn what_nobody_owns_is_not_stranded(db: &Bench) {
    db.pending("pending");
    let node = db.another_node();
    let entry = db.schedule("done");
    let done = won(db.claim(&ClaimRequest { at_once: true, node, ..db.head(&entry) }));
    assert_eq!(db.settle(&succeeded(done, db.now)), Applied::Done);
    db.store.leave(node, db.now).unwrap();
    assert!(db.stranded().is_empty());
}

pub(crate) fn a_running_execution_is_abandoned_and_tried_again(db: &Bench) {
    let (entry, claimed, stranded) = strand(db, "s", true);
    let revocation = revocation(db, stranded, again(db));
    let next = revocation.transition.next().unwrap();
    assert!(db.revoked(&revocation));
    let row = db.execution(claimed.execution());
    assert_eq!((row.state.as_str(), row.finished), ("ABANDONED", Some(db.now + 1)));
    assert_eq!(row.reason, Reason::NodeDied.as_str());
    let pendings = db.pendings_of(entry.id);
    let [again] = &pendings[..] else { panic!("one second attempt, not {pendings:?}") };
    assert_eq!((again.attempt, again.scheduled, again.token), (2, db.base, next.token));
    assert_eq!(again.due, next.due);
    assert!(!db.revoked(&revocation));
    assert_eq!(db.executions().len(), 2);
    assert_eq!(won(db.claim(&db.request(Candidate::Pending(again.clone())))).attempt(), 2);
}

pub(crate) fn a_running_execution_is_abandoned_for_good(db: &Bench) {
    for (name, transition, state, reason) in [
        ("abandoned", Transition::Abandon(None), "ABANDONED", Reason::NodeDied),
        ("failed", Transition::Exhaust, "FAILED", Reason::AttemptsExhausted),
    ] {
        let (entry, claimed, stranded) = strand(db, name, true);
        assert!(db.revoked(&revocation(db, stranded, transition)));
        let row = db.execution(claimed.execution());
        assert_eq!((row.state.as_str(), row.reason.as_str()), (state, reason.as_str()));
        assert!(db.pendings_of(entry.id).is_empty());
    }
}

/// Of the same occurrence: those of other occurrences do not count, nor attempts that failed.
pub(crate) fn the_deaths_before_an_attempt_are_counted(db: &Bench) {
    let (entry, _, mut stranded) = strand(db, "s", true);
    let mut counted = vec![stranded.deaths];
    for ended in ["ABANDONED", "FAILED", "ABANDONED"] {
        assert!(db.revoked(&revocation(db, stranded.clone(), again(db))));
        db.set(RowKey::Execution(stranded.id), "state", &format!("'{ended}'"));
        let again = db.pendings_of(entry.id).remove(0);
        let node = NodeId::fresh();
        let request = ClaimRequest { at_once: true, node, ..db.request(Candidate::Pending(again)) };
        let id = won(db.claim(&request)).execution();
        stranded = db.stranded().into_iter().find(|stranded| stranded.id == id).expect("its node is missing");
        counted.push(stranded.deaths);
    }
    assert_eq!(counted, [0, 1, 1, 2]);

    let next = db.entry("s");
    let id = won(db.claim(&ClaimRequest { node: NodeId::fresh(), ..db.head(&next) })).execution();
    let other = db.stranded().into_iter().find(|stranded| stranded.id == id).expect("its node is missing");
    assert_eq!(other.deaths, 0);
}

pub(crate) fn a_claimed_execution_goes_back_to_pending(db: &Bench) {
    let (entry, claimed, stranded) = strand(db, "s", false);
    let fresh = Token::fresh();
    let revocation = revocation(db, stranded, Transition::TakeBack(fresh));
    assert!(db.revoked(&revocation));
    let pendings = db.pendings_of(entry.id);
    let [pending] = &pendings[..] else { panic!("the same execution, not {pendings:?}") };
    assert_eq!((pending.id, pending.attempt, pending.token), (claimed.execution(), 1, fresh));
    assert_eq!(db.execution(pending.id).node, "");
    assert!(!db.revoked(&revocation));
    assert_eq!(db.settle(&claimed.start(db.now)), Applied::Lost);
    assert_eq!(db.execution(pending.id).state, "PENDING");
}

/// One to run again, one given up, one that goes back, and one whose outcome came first.
pub(crate) fn a_page_of_revocations_takes_what_is_as_it_was_seen(db: &Bench) {
    let [retried, given_up, ended] = ["again", "given up", "ended"].map(|name| strand(db, name, true));
    let back = strand(db, "back", false);
    assert_eq!(db.settle(&succeeded(ended.1, db.now)), Applied::Done);
    let page = [
        revocation(db, back.2, Transition::TakeBack(Token::fresh())),
        revocation(db, ended.2, again(db)),
        revocation(db, given_up.2, Transition::Exhaust),
        revocation(db, retried.2, again(db)),
    ];
    assert_eq!(db.store.revoke(&page).unwrap(), [true, false, true, true]);
    let state = |claimed: &Claimed| db.execution(claimed.execution()).state;
    let states = [&back.1, &given_up.1, &retried.1].map(state);
    assert_eq!(states, ["PENDING", "FAILED", "ABANDONED"]);
    let attempts = |entry: &Entry| db.pendings_of(entry.id).iter().map(|it| it.attempt).collect::<Vec<_>>();
    let pendings = [&back.0, &ended.0, &given_up.0, &retried.0].map(|entry| attempts(entry));
    assert_eq!(pendings, [vec![1], vec![], vec![], vec![2]]);
    assert_eq!(db.store.revoke(&page).unwrap(), [false; 4]);
    assert_eq!(db.store.revoke(&[]).unwrap(), [false; 0]);
}

pub(crate) fn a_revoked_token_finishes_nothing(db: &Bench) {
    let (entry, claimed, stranded) = strand(db, "s", true);
    assert!(db.revoked(&revocation(db, stranded, again(db))));
    let before = db.executions();
    let late = claimed.finish(Answer::Failed("late".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&late), Applied::Lost);
    assert_eq!(db.executions(), before);

    let again = db.pendings_of(entry.id).remove(0);
    let second = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(again)) }));
    assert_eq!(db.settle(&late), Applied::Lost);
    assert_eq!(db.settle(&succeeded(second, db.now)), Applied::Done);
}
