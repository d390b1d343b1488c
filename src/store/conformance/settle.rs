//! Starts, outcomes, retries, work given back.

use super::*;
use crate::domain::{Answer, ExecutionId, ExecutionState};
use crate::repair::recover;
use crate::store::audit::Attribution;
use crate::store::order::ExecutionOrder;
use crate::store::{Completed, ExecutionChange, Transition};

pub(crate) fn a_start_moves_claimed_to_running(db: &Bench) {
    let claimed = db.claim_head(&db.schedule("s"));
    assert_eq!(db.settle(&claimed.start(db.now + 5)), Applied::Done);
    let row = db.execution(claimed.execution());
    assert_eq!((row.state.as_str(), row.claimed, row.started), ("RUNNING", Some(db.now), Some(db.now + 5)));
}

pub(crate) fn a_start_is_said_twice_without_harm(db: &Bench) {
    let claimed = db.claim_head(&db.schedule("s"));
    assert_eq!(db.settle(&claimed.start(db.now)), Applied::Done);
    let row = db.execution(claimed.execution());
    assert_eq!(db.settle(&claimed.start(db.now + 1)), Applied::Done);
    assert_eq!(db.execution(claimed.execution()), row);
}

pub(crate) fn a_success_is_recorded(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let id = claimed.execution();
    assert_eq!(db.settle(&succeeded(claimed, db.now + 9)), Applied::Done);
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.finished, row.error.as_str()), ("SUCCEEDED", Some(db.now + 9), ""));
    assert_eq!(db.executions().len(), 1);
}

pub(crate) fn a_failure_is_recorded_with_its_error(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let id = claimed.execution();
    let error = "it's \"broken\": 100 % \\ ünïcode".to_owned();
    assert_eq!(db.settle(&claimed.finish(Answer::Failed(error.clone()), None, db.now)), Applied::Done);
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.error), ("FAILED", error));
    assert_eq!(db.executions().len(), 1);
}

pub(crate) fn an_outcome_is_said_twice_without_harm(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let id = claimed.execution();
    let settlement = succeeded(claimed, db.now);
    assert_eq!(db.settle(&settlement), Applied::Done);
    let row = db.execution(id);
    assert_eq!(db.settle(&settlement), Applied::Done);
    assert_eq!(db.execution(id), row);
}

pub(crate) fn a_transactions_success_is_confirmed_and_nothing_else_is(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let (id, confirm) = (claimed.execution(), claimed.confirm(db.now + 9));
    let running = db.execution(id);
    assert_eq!(db.settle(&confirm), Applied::Lost);
    assert_eq!(db.execution(id), running);
    assert_eq!(db.store.complete(&claimed.complete(db.now + 5)).unwrap(), Completed::Done);
    assert_eq!(db.store.complete(&claimed.complete(db.now + 6)).unwrap(), Completed::Lost, "a second one");
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.finished), ("SUCCEEDED", Some(db.now + 5)));
    let token = confirm.token.next();
    assert_eq!(db.settle(&ExecutionChange { token, ..confirm.clone() }), Applied::Lost, "another's");
    let failed = claimed.finish(Answer::Failed("no".to_owned()), None, db.now + 7);
    assert_eq!((db.settle(&confirm), db.settle(&failed)), (Applied::Done, Applied::Lost));
    assert_eq!(db.execution(id), row);
}

pub(crate) fn what_somebody_cancelled_is_not_completed(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let id = claimed.execution();
    let by = Attribution::default();
    db.store.cancel(&ExecutionOrder::new(db.app.clone(), id, by)).unwrap();
    assert_eq!(db.store.complete(&claimed.complete(db.now)).unwrap(), Completed::Cancelled);
    assert_eq!(db.execution(id).state, "RUNNING");
}

pub(crate) fn a_checkpoint_is_its_holders_and_goes_on_with_the_next_attempt(db: &Bench) {
    let claimed = db.claim_head(&db.schedule("s"));
    let (id, text) = (claimed.execution(), "{\"page\":\"naïve\\u0000\"}");
    let so_far = |text: &str| {
        let transition = Transition::Checkpoint(text.to_owned());
        ExecutionChange { transition, ..claimed.complete(db.now) }
    };
    assert_eq!(db.store.checkpoint(&so_far("1")).unwrap(), Applied::Lost, "it has not begun");
    assert_eq!(db.settle(&claimed.start(db.now)), Applied::Done);
    assert_eq!(db.store.checkpoint_of(id).unwrap(), None);
    assert_eq!(db.store.checkpoint(&so_far("1")).unwrap(), Applied::Done);
    assert_eq!(db.store.checkpoint(&so_far(text)).unwrap(), Applied::Done);
    let others = ExecutionChange { token: so_far("2").token.next(), ..so_far("2") };
    assert_eq!(db.store.checkpoint(&others).unwrap(), Applied::Lost);
    assert_eq!(db.store.checkpoint_of(id).unwrap().as_deref(), Some(text));
    let late = so_far("3");
    let retry = Some(db.now + 5);
    let failed = claimed.finish(Answer::Failed("no".to_owned()), retry, db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(db.store.checkpoint(&late).unwrap(), Applied::Lost, "it has ended");
    let next = db.executions().into_iter().find(|row| row.attempt == 2).unwrap();
    assert_eq!(db.store.checkpoint_of(ExecutionId(next.id)).unwrap().as_deref(), Some(text));
}

pub(crate) fn a_result_is_stored_with_the_success_alone(db: &Bench) {
    let result = || Some("{\"pages\":\"naïve\\u0000\"}".to_owned());
    let [a, b, c, plain] = ["a", "b", "c", "plain"].map(|name| db.run_head(&db.schedule(name)));
    let ids = [a.execution(), b.execution(), c.execution(), plain.execution()];
    let stored = || {
        ids.map(|of| {
            let query = ExecutionQuery { of: Some(of), limit: 9, ..ExecutionQuery::default() };
            db.store.executions(&query).unwrap().into_iter().find(|row| row.id == of.0).unwrap().result
        })
    };
    let completed = b.complete(db.now).with_result(result());
    let others = ExecutionChange { token: completed.token.next(), ..completed.clone() };
    assert_eq!(db.store.complete(&others).unwrap(), Completed::Lost);
    assert_eq!(stored(), [const { None }; 4]);
    assert_eq!(db.store.complete(&completed).unwrap(), Completed::Done);
    assert_eq!(db.store.complete(&completed).unwrap(), Completed::Lost, "a second one");
    let failed = c.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now).with_result(result());
    let batch = [succeeded(a, db.now).with_result(result()), failed, succeeded(plain, db.now)];
    for said in ["first", "said twice"] {
        assert_eq!(db.store.settle(&batch).unwrap(), [Applied::Done; 3], "{said}");
    }
    assert_eq!(stored(), [result(), result(), None, None]);
    assert_eq!(db.execution(ids[0]).state, "SUCCEEDED");
}

pub(crate) fn an_execution_not_started_has_no_outcome(db: &Bench) {
    let claimed = db.claim_head(&db.schedule("s"));
    let id = claimed.execution();
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Lost);
    assert_eq!(db.execution(id).state, "CLAIMED");
}

pub(crate) fn a_retry_appears_with_the_failure(db: &Bench) {
    let entry = db.schedule("s");
    let claimed = db.run_head(&entry);
    let (id, due) = (claimed.execution(), db.now + 10_000);
    let failed = claimed.finish(Answer::Failed("no".to_owned()), Some(due), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(db.execution(id).state, "FAILED");
    let pendings = db.pendings_of(entry.id);
    let [retry] = &pendings[..] else { panic!("one retry, not {pendings:?}") };
    assert_eq!((retry.attempt, retry.scheduled, retry.due, retry.origin), (2, db.base, due, 0));
    assert_eq!(db.execution(retry.id).generation, entry.generation);
    let request = ClaimRequest { at_once: true, ..db.request(Candidate::Pending(retry.clone())) };
    let again = won(db.claim(&request));
    assert_eq!((again.attempt(), again.scheduled()), (2, db.base));
    // Why it was made is not why it failed.
    assert_eq!(db.execution(retry.id).reason, "retry");
    assert_eq!(db.settle(&again.finish(Answer::Failed("still no".to_owned()), None, db.now)), Applied::Done);
    let last = db.execution(retry.id);
    assert_eq!((last.state.as_str(), last.reason.as_str(), last.error.as_str()), ("FAILED", "", "still no"));
}

pub(crate) fn a_retry_is_not_made_twice(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let failed = claimed.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(db.executions().len(), 2);
}

/// As after a restored backup: a batch of outcomes must not be refused for ever because of it.
pub(crate) fn an_outcome_is_kept_though_its_retry_is_there_already(db: &Bench) {
    let [a, b] = ["a", "b"].map(|name| db.run_head(&db.schedule(name)));
    let batch = [a, b].map(|run| run.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now));
    assert_eq!(db.settle(&batch[1]), Applied::Done);
    db.set(RowKey::Execution(batch[1].execution), "state", "'RUNNING'");
    assert_eq!(db.store.settle(&batch).unwrap(), [Applied::Done, Applied::Done]);
    assert!(batch.iter().all(|failed| db.execution(failed.execution).state == "FAILED"));
    assert_eq!(db.executions().len(), 4);
}

pub(crate) fn giving_back_leaves_it_pending_under_a_fresh_token(db: &Bench) {
    let entry = db.schedule("s");
    let claimed = db.claim_head(&entry);
    let (id, old) = (claimed.execution(), claimed.token());
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    let row = db.execution(id);
    assert_eq!(
        (row.state.as_str(), row.node.as_str(), row.claimed, row.started),
        ("PENDING", "", None, None)
    );
    assert_eq!((row.attempt, row.scheduled), (1, db.base));
    let pending = db.find_pending(id).unwrap();
    assert_ne!(pending.token, old);
    assert_eq!((pending.due, pending.attempt), (db.base, 1));
    let node = db.another_node();
    let request = ClaimRequest { node, ..db.request(Candidate::Pending(pending)) };
    assert_eq!(won(db.claim(&request)).execution(), id);
}

pub(crate) fn what_runs_but_has_not_begun_is_given_back_too(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let id = claimed.execution();
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.started), ("PENDING", None));
    assert!(db.find_pending(id).is_some());
}

pub(crate) fn giving_back_is_said_twice_without_harm(db: &Bench) {
    let claimed = db.claim_head(&db.schedule("s"));
    let id = claimed.execution();
    let given_back = claimed.give_back(db.now);
    assert_eq!(db.settle(&given_back), Applied::Done);
    let seen = db.find_pending(id);
    assert_eq!(db.settle(&given_back), Applied::Done);
    assert_eq!(db.find_pending(id), seen);
    drop_claimed(db.claim(&db.request(Candidate::Pending(seen.unwrap()))));
    assert_eq!(db.settle(&given_back), Applied::Lost);
    assert_eq!(db.execution(id).state, "CLAIMED");
}

/// It runs again as it was: the same attempt, later.
pub(crate) fn a_snooze_leaves_the_same_attempt_pending_until_later(db: &Bench) {
    let entry = db.schedule("s");
    let mut candidate = Candidate::Planned(Occurrence::head(&entry).unwrap());
    for snoozes in 0..3 {
        let request = ClaimRequest { at_once: true, ..db.request(candidate) };
        let claimed = won(db.claim(&request));
        assert_eq!((claimed.attempt(), claimed.snoozes(), claimed.failures()), (1, snoozes, 0));
        let (id, old) = (claimed.execution(), claimed.token());
        let snoozed = claimed.finish(Answer::Snooze(Duration::from_secs(30)), None, db.now);
        assert_eq!(db.settle(&snoozed), Applied::Done);
        assert_eq!(db.settle(&snoozed), Applied::Done, "said twice");
        let row = db.execution(id);
        assert_eq!((row.state.as_str(), row.reason.as_str(), row.node.as_str()), ("PENDING", "snoozed", ""));
        assert_eq!((row.due, row.snoozes, row.started), (db.now + 30_000, i64::from(snoozes) + 1, None));
        let pending = db.find_pending(id).unwrap();
        assert_ne!(pending.token, old);
        candidate = Candidate::Pending(pending);
    }
    assert_eq!(db.executions().len(), 1);
}

pub(crate) fn what_is_interrupted_waits_as_it_was_to_be_run_anew(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let (id, old, due) = (claimed.execution(), claimed.token(), db.execution(claimed.execution()).due);
    let interrupted = claimed.interrupt(db.now + 9);
    assert_eq!(db.settle(&interrupted), Applied::Done);
    assert_eq!(db.settle(&interrupted), Applied::Done, "said twice");
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.reason.as_str(), row.node.as_str()), ("PENDING", "interrupted", ""));
    assert_eq!((row.due, row.started, row.snoozes), (due, None, 0));
    let pending = db.find_pending(id).unwrap();
    assert_ne!(pending.token, old);
    let request = ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) };
    let again = won(db.claim(&request));
    assert_eq!((again.attempt(), again.failures(), again.execution()), (1, 0, id));
    assert_eq!(db.settle(&again.finish(Answer::Failed("no".to_owned()), None, db.now)), Applied::Done);
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.reason.as_str()), ("FAILED", ""), "it only said why it ran");
}

pub(crate) fn an_execution_that_is_passed_on_waits_with_the_reason(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let (id, old, due) = (claimed.execution(), claimed.token(), db.execution(claimed.execution()).due);
    let passed_on =
        claimed.pass_on(Token::fresh(), "a/1 cannot decode its payload: no field".to_owned(), db.now + 9);
    assert_eq!(db.settle(&passed_on), Applied::Done);
    assert_eq!(db.settle(&passed_on), Applied::Done, "said twice");
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.reason.as_str(), row.node.as_str()), ("PENDING", "undecodable", ""));
    assert_eq!((row.error.as_str(), row.due), ("a/1 cannot decode its payload: no field", due));
    let pending = db.find_pending(id).unwrap();
    assert_ne!(pending.token, old);
    let request = ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) };
    let again = won(db.claim(&request));
    assert_eq!((again.attempt(), again.failures(), again.execution()), (1, 0, id));
    assert_eq!(db.settle(&succeeded(again, db.now)), Applied::Done);
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.error.as_str()), ("SUCCEEDED", ""), "another node could");
}

pub(crate) fn giving_up_is_a_failure_with_its_reason(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let id = claimed.execution();
    let gave_up = claimed.finish(Answer::GiveUp("no such bill".to_owned()), None, db.now);
    assert_eq!(db.settle(&gave_up), Applied::Done);
    assert_eq!(db.settle(&gave_up), Applied::Done, "said twice");
    let row = db.execution(id);
    assert_eq!(
        (row.state.as_str(), row.reason.as_str(), row.error.as_str()),
        ("FAILED", "gave up", "no such bill")
    );
    assert_eq!((row.finished, db.executions().len()), (Some(db.now), 1));
}

/// Deaths and snoozes use up no retries.
pub(crate) fn failures_are_counted_apart_from_attempts(db: &Bench) {
    let entry = db.schedule("s");
    let mut candidate = Candidate::Planned(Occurrence::head(&entry).unwrap());
    let failed = || Answer::Failed("no".to_owned());
    let snooze = Answer::Snooze(Duration::ZERO);
    let answers = [Some(failed()), None, Some(snooze), Some(failed()), None];
    let expected = [(1, 0), (2, 1), (3, 1), (3, 1), (4, 2)];
    for (answer, expected) in answers.into_iter().zip(expected) {
        let node = if answer.is_some() { db.node } else { NodeId::fresh() };
        let request = ClaimRequest { at_once: true, node, ..db.request(candidate) };
        let claimed = won(db.claim(&request));
        assert_eq!((claimed.attempt(), claimed.failures()), expected);
        let id = claimed.execution();
        let row = db.executions().into_iter().find(|row| row.id == id.0).unwrap();
        assert_eq!((row.attempt, row.failures), (expected.0.into(), expected.1.into()));
        match answer {
            Some(answer) => {
                let retry = answer.may_be_retried().then_some(db.now);
                assert_eq!(db.settle(&claimed.finish(answer, retry, db.now)), Applied::Done);
            }
            // Its node has died.
            None => {
                let stranded = db.stranded().remove(0);
                let revocation = recover(stranded, db.now, db.now);
                assert_eq!(db.settle(&revocation.change()), Applied::Done);
            }
        }
        candidate = Candidate::Pending(db.pendings_of(entry.id).remove(0));
    }
}

pub(crate) fn an_old_token_claims_nothing_that_was_given_back(db: &Bench) {
    let seen = db.pending("s");
    let claimed = won(db.claim(&db.request(Candidate::Pending(seen.clone()))));
    let old = Pending { token: claimed.token(), ..seen.clone() };
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    for stale in [seen, old] {
        assert!(is_lost(&db.claim(&db.request(Candidate::Pending(stale)))));
    }
}

/// Only once it is free.
pub(crate) fn a_held_execution_holds_up_no_outcome_of_another(db: &Bench) {
    let claimed = ["a", "b", "c"].map(|name| db.run_head(&db.schedule(name)));
    let held = db.lock_row(RowKey::Execution(claimed[1].execution()));
    let changes = claimed.map(|claimed| Change::from(succeeded(claimed, db.now)));
    let settled = db.store.apply_free(&changes).unwrap();
    assert_eq!(settled, [Applied::Done, Applied::Held, Applied::Done]);
    drop(held);
    assert_eq!(db.store.apply_free(&changes[1..2]).unwrap(), [Applied::Done]);
}

pub(crate) fn settlements_are_answered_in_order(db: &Bench) {
    let claimed = |name| db.run_head(&db.schedule(name));
    let (a, b, c, d) = (claimed("a"), claimed("b"), claimed("c"), db.claim_head(&db.schedule("d")));
    let ids = [a.execution(), b.execution(), c.execution(), d.execution()];
    let mut revoked = succeeded(b, db.now);
    revoked.token = Token::fresh();
    let failed = c.finish(Answer::Failed("no".to_owned()), None, db.now);
    let batch = [failed, d.start(db.now), revoked, a.give_back(db.now)];
    let settled = db.store.settle(&batch).unwrap();
    assert_eq!(settled, [Applied::Done, Applied::Done, Applied::Lost, Applied::Done]);
    let states = ids.map(|id| db.execution(id).state.parse::<ExecutionState>().unwrap());
    let [given_back, running, failed] =
        [ExecutionState::Pending, ExecutionState::Running, ExecutionState::Failed];
    assert_eq!(states, [given_back, running, failed, running]);
}
