//! Executions that run out of time, and what follows once their handlers are gone.

use super::*;
use crate::domain::{Answer, Cause, ExecutionState};
use crate::repair::recover;
use crate::store::audit::Attribution;
use crate::store::order::{Cancel, ExecutionOrder, Retry};

impl Bench {
    /// An execution that ran out of time on this node, with its outcomes: at the limit, and at its return.
    pub(super) fn timed_out(&self, node: NodeId, retry: Option<Timestamp>) -> (ExecutionId, ExecutionChange) {
        let entry = self.schedule("s");
        let request = ClaimRequest { at_once: true, node, ..self.head(&entry) };
        let claimed = won(self.claim(&request));
        let id = claimed.execution();
        let time_out = claimed.time_out(1_500, self.now);
        assert_eq!(self.settle(&time_out), Applied::Done);
        assert_eq!(self.settle(&time_out), Applied::Done, "said twice");
        (id, claimed.release(retry, self.now + 1))
    }

    fn retried(&self, execution: ExecutionId) -> Retry {
        let by = Attribution { actor: "op".to_owned(), reason: String::new() };
        self.store.retry(&ExecutionOrder::new(self.app.clone(), execution, by)).unwrap()
    }
}

pub(crate) fn a_time_limit_is_stored_while_the_handler_runs_on(db: &Bench) {
    let (id, release) = db.timed_out(db.node, None);
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.finished, row.stuck), ("TIMED_OUT", None, true));
    assert_eq!(row.error, "its time limit of 1500 ms has passed");
    assert_eq!(db.retried(id), Retry::State(Some(ExecutionState::Running)), "it runs on");
    let late = ExecutionChange { transition: Transition::Succeed, ..release.clone() };
    assert_eq!(db.settle(&late), Applied::Lost, "its answer comes too late");
    assert!(db.stranded().is_empty(), "its node lives");
    for _ in 0..2 {
        assert_eq!(db.settle(&release), Applied::Done);
        let row = db.execution(id);
        assert_eq!((row.state.as_str(), row.stuck, db.executions().len()), ("TIMED_OUT", false, 1));
        assert_eq!(row.finished, Some(db.now + 1), "its handler's return");
    }
    assert!(matches!(db.retried(id), Retry::Pending(_)));
}

pub(crate) fn a_retry_waits_until_the_handler_has_returned(db: &Bench) {
    let due = db.now + 7_000;
    let (id, release) = db.timed_out(db.node, Some(due));
    assert_eq!(db.executions().len(), 1);
    for _ in 0..2 {
        assert_eq!(db.settle(&release), Applied::Done);
        assert_eq!(db.executions().len(), 2);
    }
    let schedule = db.store.find(&db.app, "s").unwrap().unwrap().id;
    let retry = db.pendings_of(schedule).remove(0);
    assert_eq!((retry.attempt, retry.failures, retry.due, &retry.cause), (2, 1, due, &Cause::Retry));
    assert!(!db.execution(id).stuck);
}

pub(crate) fn what_runs_on_is_released_with_its_nodes_end(db: &Bench) {
    let (node, retry) = (db.another_node(), crate::domain::Retry::fixed(Duration::from_secs(9)).at_most(1));
    let (id, release) = db.timed_out(node, None);
    db.store.leave(node, db.now).unwrap();
    let mut stranded = db.stranded().remove(0);
    assert_eq!((stranded.id, stranded.state, stranded.failures), (id, ExecutionState::TimedOut, 0));
    stranded.policy.retry = retry;
    let revocation = recover(stranded, db.now, db.now);
    assert!(db.revoked(&revocation));
    assert!(db.stranded().is_empty() && !db.execution(id).stuck);
    let rows = db.executions();
    let retry = rows.iter().find(|row| row.attempt == 2).expect("its retry");
    assert_eq!(
        (rows.len(), retry.due, retry.failures, retry.state.as_str()),
        (2, db.now + 9_000, 1, "PENDING")
    );
    assert_eq!(db.settle(&release), Applied::Lost, "its handler returns after all");
}

/// A handler that somebody asked to end runs out of time: no retry follows.
pub(crate) fn what_was_asked_to_end_is_not_tried_again_after_its_time(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let (execution, by) =
        (claimed.execution(), Attribution { actor: "op".to_owned(), reason: String::new() });
    db.store.cancel(&ExecutionOrder::new(db.app.clone(), execution, by)).unwrap();
    assert_eq!(db.settle(&claimed.time_out(1, db.now)), Applied::Done);
    assert_eq!(db.settle(&claimed.release(Some(db.now), db.now)), Applied::Done);
    assert_eq!(db.executions().len(), 1);
}

/// Its outcome stays, and no retry follows.
pub(crate) fn what_runs_on_beyond_its_limit_can_be_asked_to_end(db: &Bench) {
    let (execution, release) = db.timed_out(db.node, Some(db.now));
    let (application, by) =
        (db.app.clone(), Attribution { actor: "op".to_owned(), reason: "hangs".to_owned() });
    let order = ExecutionOrder::new(application, execution, by);
    for is_new in [true, false] {
        let asked = Cancel::Asked { node: db.node.to_string(), is_new };
        assert_eq!(db.store.cancel(&order).unwrap(), asked);
    }
    assert_eq!(db.settle(&release), Applied::Done);
    let rows = db.executions();
    assert_eq!((rows.len(), rows[0].state.as_str()), (1, "TIMED_OUT"));
    assert_eq!(db.store.cancel(&order).unwrap(), Cancel::Ended(Some(ExecutionState::TimedOut)));
}

/// A failure before the limit is an outcome as any other.
pub(crate) fn an_outcome_before_the_limit_keeps_the_limit_away(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let (id, time_out) = (claimed.execution(), claimed.time_out(1, db.now));
    let failed = claimed.finish(Answer::Failed("no".to_owned()), None, db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!(db.settle(&time_out), Applied::Lost);
    let row = db.execution(id);
    assert_eq!((row.state.as_str(), row.stuck), ("FAILED", false));
}
