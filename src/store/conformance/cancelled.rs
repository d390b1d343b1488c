//! Cancelled executions: at once if they have not begun; what runs is asked, and followed by nothing. And
//! further attempts by hand.

use super::*;
use crate::domain::{ExecutionState, ScheduleState};
use crate::store::audit::{Attribution, AuditQuery};
use crate::store::order::{Cancel, ExecutionOrder, Retry};
use crate::store::{Heartbeat, HeartbeatReply, Purge};

impl Bench {
    fn cancel(&self, execution: ExecutionId) -> Cancel {
        let by = Attribution { actor: "ann".to_owned(), reason: "why".to_owned() };
        self.store.cancel(&ExecutionOrder::new(self.app.clone(), execution, by)).unwrap()
    }

    fn again(&self, execution: ExecutionId) -> Retry {
        let (application, by) = (self.app.clone(), Attribution::default());
        self.store.retry(&ExecutionOrder::new(application, execution, by)).unwrap()
    }

    fn asked(&self, is_new: bool) -> Cancel {
        Cancel::Asked { node: self.node.to_string(), is_new }
    }

    /// The executions that the node's heartbeat is told to cancel, of all it owns.
    fn told(&self) -> (Vec<ExecutionId>, usize) {
        let (node, application, now) = (self.node, self.app.clone(), self.now);
        let beat = Heartbeat {
            node,
            application,
            lanes: Vec::new(),
            left_alone: Vec::new(),
            withdraw: false,
            drained: false,
            tells: false,
            blocked: Vec::new(),
            now,
        };
        let HeartbeatReply::Alive { owned, .. } = self.store.beat(&beat).unwrap() else { panic!("it lives") };
        (owned.iter().filter(|it| it.is_cancelled).map(|it| it.id).collect(), owned.len())
    }

    fn fails(&self, claimed: Claimed) {
        let failure = claimed.finish(Answer::Failed("no".to_owned()), Some(self.now), self.now);
        assert_eq!(self.settle(&failure), Applied::Done);
    }

    fn pendings(&self) -> usize {
        self.poll(Timestamp::MAX).pendings.len()
    }
}

pub(crate) fn what_has_not_begun_is_cancelled_at_once(db: &Bench) {
    let pending = db.pending("waits");
    let claimed = db.claim_head(&db.schedule("claimed"));
    let claimed_id = claimed.execution();
    for id in [pending.id, claimed_id] {
        assert_eq!(db.cancel(id), Cancel::Done);
        let row = db.execution(id);
        assert_eq!((row.state.as_str(), row.reason.as_str()), ("CANCELLED", "cancelled"));
        assert!(row.finished.is_some() && row.cancel.is_none());
        assert_eq!(db.cancel(id), Cancel::Ended(Some(ExecutionState::Cancelled)));
    }
    assert!(is_lost(&db.claim(&db.request(Candidate::Pending(pending)))));
    assert_eq!(db.settle(&claimed.start(db.now)), Applied::Lost, "it does not begin");
    assert_eq!(db.pendings(), 0);
    let query = AuditQuery {
        application: db.app.clone(),
        verb: Some("cancel".to_owned()),
        limit: 9,
        ..Default::default()
    };
    let audit = db.store.audit(&query).unwrap();
    let told: Vec<_> = audit.iter().map(|row| (&*row.target_type, &*row.was, &*row.became)).collect();
    assert_eq!(told, [("execution", "CLAIMED", "CANCELLED"), ("execution", "PENDING", "CANCELLED")]);
    assert_eq!(
        audit[1].target,
        format!("{} of waits", db.executions().iter().map(|row| row.id).min().unwrap())
    );
}

pub(crate) fn what_runs_is_asked_and_its_node_hears_of_it(db: &Bench) {
    let (asked, beside) = (db.run_head(&db.schedule("asked")), db.run_head(&db.schedule("beside")));
    let id = asked.execution();
    assert_eq!(db.told(), (Vec::new(), 2));
    assert_eq!(db.cancel(id), db.asked(true));
    assert_eq!(db.cancel(id), db.asked(false));
    assert_eq!(db.told(), (vec![id], 2));
    let row = db.execution(id).cancel.expect("asked for");
    assert!((row.asked - db.now).abs() < 60_000 && row.seen.is_none() && row.actor == "ann");
    db.store.saw_cancels(&[id, beside.execution()]).unwrap();
    let seen = db.execution(id).cancel.unwrap().seen.expect("its node has heard of it");
    db.store.saw_cancels(&[id]).unwrap();
    assert_eq!(db.execution(id).cancel.unwrap().seen, Some(seen), "the first time counts");
    let cancelled = asked.finish(Answer::Cancelled("enough".to_owned()), None, db.now);
    assert_eq!(db.settle(&cancelled), Applied::Done);
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.error.as_str()), ("CANCELLED", "enough"));
    assert_eq!(db.settle(&succeeded(beside, db.now)), Applied::Done);
    assert_eq!(db.told(), (Vec::new(), 0));
    assert_eq!(db.cancel(ExecutionId(id.0 + 1_000_000)), Cancel::Unknown);
}

/// Whether or not its node had heard of it, and whatever ends it.
pub(crate) fn nothing_follows_what_was_asked_to_end(db: &Bench) {
    let [failed, back, dead] = ["fails", "back", "dies"].map(|name| db.run_head(&db.schedule(name)));
    let (back_id, dead_id) = (back.execution(), dead.execution());
    for id in [failed.execution(), back_id, dead_id] {
        assert_eq!(db.cancel(id), db.asked(true));
    }
    db.fails(failed);
    assert_eq!(db.pendings(), 0, "no retry");
    assert_eq!(db.settle(&back.give_back(db.now)), Applied::Done);
    let [withdrawn] = &db.store.withdrawn(&db.app, 10).unwrap()[..] else { panic!("one was handed back") };
    assert_eq!(withdrawn.attempt.execution, back_id);
    assert!(db.applied(&withdrawn.cancel(db.now).into()));
    assert_eq!(db.execution(back_id).reason, "cancelled");
    db.store.apply(&[Change::End(crate::store::NodeEnd { node: db.node, beat: None, now: db.now })]).unwrap();
    let [stranded] = &db.stranded()[..] else { panic!("one is left") };
    assert!(stranded.is_cancelled);
    assert!(db.revoked(&crate::repair::recover(stranded.clone(), db.now, db.now)));
    assert_eq!((db.execution(dead_id).state.as_str(), db.pendings()), ("ABANDONED", 0));
    drop(dead);
}

pub(crate) fn another_applications_execution_is_unknown(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let order = ExecutionOrder::new(fresh_name(), claimed.execution(), Attribution::default());
    assert_eq!(db.store.cancel(&order).unwrap(), Cancel::Unknown);
    assert_eq!(db.told(), (Vec::new(), 1));
}

pub(crate) fn requests_go_with_their_executions(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let id = claimed.execution();
    assert_eq!(db.cancel(id), db.asked(true));
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done);
    let purge = |keep| {
        let purge = Purge { application: db.app.clone(), after: String::new(), keep, limit: 10 };
        db.store.purge(&purge).unwrap();
    };
    purge(-7_200_000 - 60_000);
    assert!(db.executions().is_empty());
    purge(-7_200_000 - 60_000);
    assert_eq!(db.cancel(id), Cancel::Unknown);
}

/// A FAILED execution, and one that was cancelled; each once.
pub(crate) fn what_has_ended_without_success_is_tried_again_by_hand(db: &Bench) {
    let failed = db.run_head(&db.schedule("failed"));
    let (failed_id, cancelled_id) = (failed.execution(), db.pending("cancelled").id);
    let failure = failed.finish(Answer::Failed("no".to_owned()), None, db.now);
    assert_eq!(db.settle(&failure), Applied::Done);
    assert_eq!(db.cancel(cancelled_id), Cancel::Done);
    for id in [failed_id, cancelled_id] {
        let Retry::Pending(again) = db.again(id) else { panic!("{id} is tried again") };
        let (row, before) = (db.execution(again), db.execution(id));
        assert_eq!((row.state.as_str(), row.reason.as_str(), row.attempt), ("PENDING", "by hand", 2));
        assert_eq!(
            (row.scheduled, row.generation, row.origin),
            (before.scheduled, before.generation, before.origin)
        );
        assert_eq!(db.again(id), Retry::Followed);
        assert_eq!(db.again(again), Retry::State(Some(ExecutionState::Pending)));
        let pending = db.find_pending(again).expect("a poll brings it");
        assert_eq!(won(db.claim(&db.request(Candidate::Pending(pending)))).attempt(), 2);
    }
    let query = AuditQuery {
        application: db.app.clone(),
        verb: Some("retry".to_owned()),
        limit: 9,
        ..Default::default()
    };
    let became: Vec<_> =
        db.store.audit(&query).unwrap().into_iter().map(|row| (row.was, row.became)).collect();
    assert_eq!(
        became,
        [("CANCELLED", "attempt 2"), ("FAILED", "attempt 2")].map(|(was, is)| (was.into(), is.into()))
    );
}

pub(crate) fn what_cannot_be_tried_again_says_why(db: &Bench) {
    let claimed = db.run_head(&db.schedule("succeeds"));
    let id = claimed.execution();
    assert_eq!(db.again(id), Retry::State(Some(ExecutionState::Running)));
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done);
    assert_eq!(db.again(id), Retry::State(Some(ExecutionState::Succeeded)));
    assert_eq!(db.again(ExecutionId(id.0 + 1_000_000)), Retry::Unknown);
    let pending = db.pending("removed");
    assert_eq!(db.cancel(pending.id), Cancel::Done);
    for (state, answer) in
        [("'REMOVED'", Some(ScheduleState::Removed)), ("'ERROR'", Some(ScheduleState::Error)), ("'X'", None)]
    {
        db.set(RowKey::Schedule(pending.entry.id), "state", state);
        assert_eq!(db.again(pending.id), Retry::NotRunnable(answer));
    }
    db.set(RowKey::Execution(pending.id), "state", "'X'");
    assert_eq!(db.again(pending.id), Retry::State(None));
    assert_eq!(db.pendings(), 0);
}

pub(crate) fn any_attempt_names_an_execution_that_was_tried_again(db: &Bench) {
    let first = won(db.claim(&ClaimRequest { at_once: true, ..db.head(&db.schedule("s")) }));
    let first_id = first.execution();
    db.fails(first);
    let [retry] = &db.poll(Timestamp::MAX).pendings[..] else { panic!("one attempt follows") };
    assert_eq!(db.cancel(first_id), Cancel::Done);
    assert_eq!(
        (db.execution(first_id).state, db.execution(retry.id).state),
        ("FAILED".into(), "CANCELLED".into())
    );
    assert_eq!(
        db.cancel(first_id),
        Cancel::Ended(Some(ExecutionState::Cancelled)),
        "as its last attempt has"
    );
    let Retry::Pending(third) = db.again(retry.id) else { panic!("it is tried again") };
    let claim = db.request(Candidate::Pending(db.find_pending(third).unwrap()));
    let running = won(db.claim(&ClaimRequest { at_once: true, ..claim }));
    for (id, is_new) in [(first_id, true), (retry.id, false), (third, false)] {
        assert_eq!(db.cancel(id), db.asked(is_new));
    }
    drop(running);
}
