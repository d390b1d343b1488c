//! Claims: what a won one leaves behind, and what happens to its neighbours in the batch.

use super::*;
use crate::domain::{BoundScope, ExecutionState, NextFire, SeatKind, SeatWait};

pub(crate) fn claim_moves_the_cursor_and_leaves_a_row(db: &Bench) {
    let entry = db.schedule("s");
    let request = db.head(&entry);
    let claimed = won(db.claim(&request));
    assert_eq!((claimed.schedule(), claimed.scheduled(), claimed.attempt()), (entry.id, db.base, 1));
    assert!(!claimed.is_started());

    let after = db.entry("s");
    assert_eq!(
        after.cursor,
        crate::domain::Cursor { prev: Some(db.base), next: NextFire::At(db.base + 1_000) }
    );
    assert_eq!(
        (after.version, after.generation, after.state),
        (entry.version, entry.generation, entry.state)
    );
    let row = RowKey::Schedule(entry.id);
    assert_eq!(db.number(row, "fence"), claimed.fence());
    assert_eq!(db.number(row, "time_triggered"), 1);

    let execution = RowKey::Execution(claimed.execution());
    assert_eq!(db.get(execution, "claim_token"), Some(request.token.to_string()));
    assert_eq!(db.number(execution, "fence"), claimed.fence());
    assert_eq!(db.time(execution, "due_time"), Some(db.base));
    assert_eq!(db.time(execution, "prev_fire_time"), None);
    assert_eq!(db.time(execution, "following_fire_time"), Some(db.base + 1_000));
    let shown = db.execution(claimed.execution());
    assert_eq!((shown.state.as_str(), shown.schedule.as_str(), shown.job.as_str()), ("CLAIMED", "s", JOB));
    assert_eq!((shown.scheduled, shown.attempt, shown.origin), (db.base, 1, 0));
    assert_eq!((shown.generation, shown.node), (entry.generation, db.node.to_string()));
    assert_eq!((shown.claimed, shown.started, shown.finished), (Some(db.now), None, None));
}

pub(crate) fn claim_for_an_idle_thread_leaves_it_running(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    assert!(claimed.is_started());
    let shown = db.execution(claimed.execution());
    let started = Some(db.base);
    assert_eq!((shown.state.as_str(), shown.claimed, shown.started), ("RUNNING", Some(db.now), started));
    let late = ClaimRequest { at_once: true, now: db.base + 1, ..db.head(&db.schedule("late")) };
    let shown = db.execution(drop_claimed(db.claim(&late)));
    assert_eq!((shown.claimed, shown.started), (Some(late.now), Some(late.now)), "not before it is claimed");
}

/// Of planned occurrences and PENDING executions alike, also beside others that were in time.
pub(crate) fn what_was_claimed_late_keeps_what_it_waited_for(db: &Bench) {
    let waited = |seat| Some(SeatWait { seat, span: 41_200 });
    let lane = |request| ClaimRequest { waited: waited(SeatKind::Lane("slow".into())), ..request };
    let shown = |claim: Claim| db.execution(drop_claimed(claim)).waited_for;
    let (first, second) = (db.schedule("a"), db.schedule("b"));
    let requests = [db.head(&first), lane(db.head(&second))];
    let claims: Vec<Option<String>> = requests.iter().map(|request| shown(db.claim(request))).collect();
    assert_eq!(claims, [None, Some("lane slow 41200".to_owned())]);
    let batch = [db.head(&db.entry("a")), lane(db.head(&db.entry("b")))];
    let claims: Vec<Option<String>> = db.store.claim(&batch).unwrap().into_iter().map(shown).collect();
    assert_eq!(claims, [None, Some("lane slow 41200".to_owned())]);

    let back = db.claim_head(&db.schedule("c"));
    let execution = back.execution();
    assert_eq!(db.settle(&back.give_back(db.now)), Applied::Done);
    let again = |waited| {
        let pending = db.find_pending(execution).expect("it waits");
        won(db.claim(&ClaimRequest { waited, at_once: true, ..db.request(Candidate::Pending(pending)) }))
    };
    let claimed = again(waited(SeatKind::Rate(BoundScope::Group)));
    assert_eq!(db.execution(execution).waited_for.as_deref(), Some("group rate 41200"));
    // What a first claim waited for made the second late, too.
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    let claimed = again(None);
    assert_eq!(db.execution(execution).waited_for.as_deref(), Some("group rate 41200"));
    // Another attempt is due later.
    let failed = Answer::Failed("no".to_owned());
    assert_eq!(db.settle(&claimed.finish(failed, Some(db.now), db.now)), Applied::Done);
    let retry = db.executions().into_iter().find(|row| row.attempt == 2).unwrap();
    assert_eq!((retry.state.as_str(), retry.waited_for), ("PENDING", None));
}

pub(crate) fn the_links_of_a_chain_are_claimed_under_one_version(db: &Bench) {
    let entry = db.schedule("s");
    let mut link = Occurrence::head(&entry);
    let mut fences = Vec::new();
    for _ in 0..5 {
        let occurrence = link.expect("it never ends");
        link = occurrence.link();
        fences.push(won(db.claim(&db.request(Candidate::Planned(occurrence)))).fence());
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    assert_eq!(db.entry("s").version, entry.version);
    assert_eq!(db.entry("s").cursor.prev, Some(db.base + 4_000));
}

pub(crate) fn the_last_occurrence_of_a_finite_schedule_is_claimed_and_leaves_complete(db: &Bench) {
    let entry = db.create(&Definition { trigger: every(db.base, 1_000, 1), ..db.definition("twice") });
    drop_claimed(db.claim(&db.head(&entry)));
    let last = db.claim_head(&db.entry("twice"));
    assert_eq!(last.scheduled(), db.base + 1_000);
    let row = db.schedule_row(entry.id);
    assert_eq!((row.state.as_str(), row.next, row.prev), ("COMPLETE", None, Some(db.base + 1_000)));
    assert_eq!(db.execution(last.execution()).state, "CLAIMED");
    assert_eq!(db.time(RowKey::Execution(last.execution()), "following_fire_time"), None);
    assert_eq!(db.settle(&last.start(db.now)), Applied::Done);
}

/// Won, lost and failed in one call, so that no ending leaks into another's place.
pub(crate) fn an_answer_stands_where_its_request_stood(db: &Bench) {
    let entries: Vec<_> = ["a", "b", "c", "d", "e"].iter().map(|name| db.schedule(name)).collect();
    let taken = [&entries[1], &entries[4]];
    for entry in taken {
        drop_claimed(db.claim(&db.head(entry)));
    }
    let order = [3, 1, 0, 4, 2];
    let requests: Vec<_> = order.iter().map(|at| db.head(&entries[*at])).collect();
    let claims = db.store.claim(&requests).unwrap();
    assert_eq!(claims.len(), order.len());
    for (at, claim) in order.into_iter().zip(claims) {
        match claim {
            Claim::Won(claimed) => assert_eq!(claimed.schedule(), entries[at].id),
            Claim::Lost => assert!(at == 1 || at == 4, "{at} was free"),
            other => panic!("{at}: {other:?}"),
        }
    }
    assert_eq!(db.executions().len(), 5);
}

pub(crate) fn a_locked_row_is_skipped_and_the_others_win(db: &Bench) {
    let entries: Vec<_> = ["a", "b", "c"].iter().map(|name| db.schedule(name)).collect();
    let held = db.lock(entries[1].id);
    let requests: Vec<_> = entries.iter().map(|entry| db.head(entry)).collect();
    let claims = db.store.claim(&requests).unwrap();
    assert!(matches!(claims[..], [Claim::Won(_), Claim::Skipped, Claim::Won(_)]), "{claims:?}");
    drop(held);
    drop_claimed(db.claim(&requests[1]));
}

pub(crate) fn an_occurrence_is_recorded_once(db: &Bench) {
    let entry = db.schedule("s");
    drop_claimed(db.claim(&db.head(&entry)));
    db.rewind(&entry);
    let Claim::Failed(error) = db.claim(&db.head(&entry)) else { panic!("it is recorded already") };
    assert!(error.to_string().contains("its cursor was set back by hand"), "{error}");
    assert_eq!(db.executions().len(), 1);
    assert_eq!(db.entry("s").cursor, entry.cursor);
    assert_eq!(db.number(RowKey::Schedule(entry.id), "fence"), 1);
    assert_eq!(db.number(RowKey::Schedule(entry.id), "time_triggered"), 1);
}

pub(crate) fn a_row_that_fails_alone_leaves_the_rest_their_wins(db: &Bench) {
    let entries: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| db.schedule(name)).collect();
    drop_claimed(db.claim(&db.head(&entries[2])));
    db.rewind(&entries[2]);
    let requests: Vec<_> = entries.iter().map(|entry| db.head(entry)).collect();
    let claims = db.store.claim(&requests).unwrap();
    assert!(
        matches!(claims[..], [Claim::Won(_), Claim::Won(_), Claim::Failed(_), Claim::Won(_)]),
        "{claims:?}"
    );
    assert_eq!(db.executions().len(), 4);
    assert_eq!(db.entry("c").cursor, entries[2].cursor);
    for (request, claim) in requests.iter().zip(claims) {
        if let Claim::Won(claimed) = claim {
            let token = db.get(RowKey::Execution(claimed.execution()), "claim_token");
            assert_eq!(token, Some(request.token.to_string()));
            assert_eq!(claimed.schedule(), request.candidate.entry().id);
        }
    }
}

pub(crate) fn a_pending_execution_is_claimed_under_a_new_token(db: &Bench) {
    let pending = db.pending("s");
    let before = db.number(RowKey::Schedule(pending.entry.id), "fence");
    let cursor = db.entry("s").cursor;
    let taker = db.another_node();
    let request = ClaimRequest { node: taker, ..db.request(Candidate::Pending(pending.clone())) };
    let claimed = won(db.claim(&request));
    assert_eq!((claimed.execution(), claimed.scheduled(), claimed.attempt()), (pending.id, db.base, 1));
    assert!(claimed.fence() > before);
    assert_eq!(db.entry("s").cursor, cursor);
    let shown = db.execution(pending.id);
    assert_eq!((shown.state.as_str(), shown.node), ("CLAIMED", taker.to_string()));
    assert_eq!(db.get(RowKey::Execution(pending.id), "claim_token"), Some(request.token.to_string()));
    assert_eq!(db.number(RowKey::Execution(pending.id), "fence"), claimed.fence());
    assert!(db.find_pending(pending.id).is_none());
}

pub(crate) fn a_pending_execution_of_a_complete_schedule_is_claimed(db: &Bench) {
    let entry = db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("once") });
    let claimed = db.claim_head(&entry);
    let id = claimed.execution();
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    assert_eq!(db.schedule_row(entry.id).state, "COMPLETE");
    let pending = db.find_pending(id).expect("a complete schedule's hand-off is offered");
    let request = ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) };
    assert!(won(db.claim(&request)).is_started());
    assert_eq!(db.execution(id).state, ExecutionState::Running.as_str());
}

pub(crate) fn a_pause_holds_planned_pendings_and_lets_manual_ones_run(db: &Bench) {
    let (planned, manual) = (db.pending("planned"), db.pending("manual"));
    db.set(RowKey::Execution(manual.id), "origin", "7");
    let manual = db.find_pending(manual.id).unwrap();
    for pending in [&planned, &manual] {
        assert!(db.store.pause(pending.entry.id, pending.entry.version, "op", "why").unwrap());
    }
    assert!(db.find_pending(planned.id).is_none());
    assert!(is_lost(&db.claim(&db.request(Candidate::Pending(planned)))));
    let offered = db.find_pending(manual.id).expect("a manual run is offered in a pause");
    assert_eq!(offered.origin, 7);
    drop_claimed(db.claim(&db.request(Candidate::Pending(offered))));
}

pub(crate) fn an_empty_batch_is_no_claim(db: &Bench) {
    assert!(db.store.claim(&[]).unwrap().is_empty());
    assert!(db.store.resolve(&[], IfNotMade::Claim).unwrap().is_empty());
    assert!(db.store.settle(&[]).unwrap().is_empty());
}
