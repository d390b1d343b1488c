//! Walks over the payloads that handlers have yet to decode.

use std::collections::BTreeSet;

use super::*;
use crate::store::PauseChange;
use crate::store::enqueue::EnqueueOrder;
use crate::store::order::RunOrder;
use crate::store::waiting::{PayloadOf, PayloadPlace, PayloadWalk};

impl Bench {
    /// All that a walk in steps of so many rows finds, none of it twice.
    fn payloads(&self, limit: usize) -> BTreeSet<(PayloadOf, String, String)> {
        let (mut found, mut after) = (BTreeSet::new(), PayloadPlace::FIRST);
        for _ in 0..1_000 {
            let walk = PayloadWalk { application: self.app.clone(), after, limit };
            let page = self.store.waiting_payloads(&walk).unwrap();
            assert!(page.payloads.len() <= limit);
            for it in page.payloads {
                let it = (it.of, it.job, it.payload);
                assert!(found.insert(it.clone()), "twice: {it:?}");
            }
            match page.next {
                Some(next) => after = next,
                None => return found,
            }
        }
        panic!("the walk has no end")
    }
}

pub(crate) fn payloads_that_wait_are_found_once_by_steps_of_any_size(db: &Bench) {
    let define = |name: &str, payload: &str, repeats: i64| Definition {
        payload: payload.to_owned(),
        trigger: every(db.base, 1_000, repeats),
        ..db.definition(name)
    };
    db.create(&define("active", "1", -1));
    let paused = db.create(&define("paused", "2", -1));
    let (by, reason) = ("ann".to_owned(), String::new());
    let pause = PauseChange { id: paused.id, version: paused.version, by, reason, until: None };
    assert!(db.applied(&Change::Pause(pause)));
    db.create(&define("removed", "3", -1));
    let of_removed = db.ordered(&RunOrder { payload: Some("4".to_owned()), ..db.run_order("removed") });
    db.remove("removed");
    assert_eq!(db.execution(of_removed).state, "CANCELLED");
    // The last occurrence of one waits, and that of another runs.
    let complete = db.claim_head(&db.create(&define("complete", "5", 0)));
    let waits = complete.execution();
    assert_eq!(db.settle(&complete.give_back(db.now)), Applied::Done);
    let _runs = db.run_head(&db.create(&define("over", "6", 0)));
    let own = db.ordered(&RunOrder { payload: Some("7".to_owned()), ..db.run_order("active") });
    let _as_its_schedule = db.ordered(&db.run_order("active"));
    let enqueued = db.store.enqueue(&db.enqueue_order(&["8", "9", "10"])).unwrap();
    let other = db.enqueue_order(&["11"]);
    let of_another_job = db.store.enqueue(&EnqueueOrder { job: job("other"), ..other.clone() }).unwrap();
    db.store.enqueue(&EnqueueOrder { application: fresh_name(), ..other }).unwrap();
    let schedule = |name: &str, payload: &str| {
        (PayloadOf::Schedule(name.to_owned()), JOB.to_owned(), payload.to_owned())
    };
    let execution = |id: ExecutionId, job: &str, payload: &str| {
        (PayloadOf::Execution(id), job.to_owned(), payload.to_owned())
    };
    let expected = BTreeSet::from([
        schedule("active", "1"),
        schedule("paused", "2"),
        execution(waits, JOB, "5"),
        execution(own, JOB, "7"),
        execution(enqueued[0], JOB, "8"),
        execution(enqueued[1], JOB, "9"),
        execution(enqueued[2], JOB, "10"),
        execution(of_another_job[0], "other", "11"),
    ]);
    for limit in [1, 2, 3, 100] {
        assert_eq!(db.payloads(limit), expected, "in steps of {limit}");
    }
}
