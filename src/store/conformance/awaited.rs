//! Executions whose ends somebody waits for.

use super::*;
use crate::store::awaited::OpenOrEnded::{self, Ended, Open};

impl Bench {
    fn open_or_ended(&self, executions: &[ExecutionId]) -> Vec<(ExecutionId, OpenOrEnded)> {
        let mut known = self.store.open_or_ended(&self.app, executions).unwrap();
        known.sort_by_key(|(id, _)| *id);
        known
    }

    fn how(&self, execution: ExecutionId) -> OpenOrEnded {
        self.open_or_ended(&[execution])[0].1
    }
}

pub(crate) fn an_execution_has_ended_once_no_attempt_may_follow(db: &Bench) {
    let pending = db.pending("s");
    assert_eq!(db.how(pending.id), Open(pending.id), "it waits");
    let request = ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) };
    let first = won(db.claim(&request));
    let id = first.execution();
    assert_eq!(db.how(id), Open(id), "it runs");
    let failed = first.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failed), Applied::Done);
    let retry = db.poll(Timestamp::MAX).pendings.remove(0);
    assert_eq!(db.how(id), Open(retry.id), "it is tried again");
    let second = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(retry)) }));
    let last = second.execution();
    assert_eq!(db.settle(&succeeded(second, db.now)), Applied::Done);
    assert_eq!(db.open_or_ended(&[last, id]), [(id, Ended), (last, Ended)], "by any of its attempts");
}

pub(crate) fn one_that_ran_out_of_time_has_ended_with_its_handler(db: &Bench) {
    let claimed = db.run_head(&db.schedule("s"));
    let id = claimed.execution();
    assert_eq!(db.settle(&claimed.time_out(1, db.now)), Applied::Done);
    assert_eq!(db.how(id), Open(id));
    assert_eq!(db.settle(&claimed.release(None, db.now)), Applied::Done);
    assert_eq!(db.how(id), Ended);
}

pub(crate) fn many_are_asked_for_at_once_and_unknown_ones_left_out(db: &Bench) {
    let entry = db.schedule("s");
    let runs: Vec<Claimed> = (0..3).map(|_| db.run_head(&db.entry("s"))).collect();
    let ids: Vec<ExecutionId> = runs.iter().map(Claimed::execution).collect();
    for run in runs.into_iter().skip(1) {
        assert_eq!(db.settle(&succeeded(run, db.now)), Applied::Done);
    }
    let unknown = (1 << 50..(1 << 50) + 2_000).map(ExecutionId);
    let asked: Vec<ExecutionId> = unknown.chain(ids.iter().copied()).collect();
    assert_eq!(
        db.open_or_ended(&asked),
        [(ids[0], Open(ids[0])), (ids[1], Ended), (ids[2], Ended)],
        "{entry:?}"
    );
    assert_eq!(db.store.open_or_ended("another", &ids).unwrap(), []);
    assert_eq!(db.store.open_or_ended(&db.app, &[]).unwrap(), []);
}
