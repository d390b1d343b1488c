//! Executions that somebody asks for: beside those that are planned, with a payload and an origin of their
//! own.

use super::*;
use crate::domain::headers::Headers;
use crate::domain::{Cause, ScheduleState};
use crate::store::audit::{Attribution, AuditQuery};
use crate::store::order::{Ordered, RunOrder};

impl Bench {
    pub fn run_order(&self, schedule: &str) -> RunOrder {
        let by = Attribution { actor: "ann".to_owned(), reason: "why".to_owned() };
        let (application, schedule) = (self.app.clone(), schedule.to_owned());
        RunOrder { application, schedule, payload: None, headers: Headers::new(), at: None, by }
    }

    pub(super) fn ordered(&self, order: &RunOrder) -> ExecutionId {
        match self.store.order(order).unwrap() {
            Ordered::Pending(id) => id,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn an_order_makes_an_execution_beside_those_planned(db: &Bench) {
    let entry = db.schedule("s");
    let id = db.ordered(&RunOrder { payload: Some("\"own\"".to_owned()), ..db.run_order("s") });
    let headers = Headers::from([("tenant".to_owned(), "7".to_owned())]);
    let plain = db.ordered(&RunOrder { at: Some(db.base + 7), headers, ..db.run_order("s") });
    assert_eq!(*db.entry("s"), *entry, "neither the cursor nor the version has moved");
    let row = db.execution(id);
    assert!(row.origin > 0 && (row.scheduled - db.now).abs() < 60_000, "{row:?}");
    assert_eq!((row.state.as_str(), row.reason.as_str(), row.attempt), ("PENDING", "by hand", 1));
    let query = AuditQuery {
        application: db.app.clone(),
        verb: Some("trigger".to_owned()),
        limit: 9,
        ..Default::default()
    };
    let audit = db.store.audit(&query).unwrap();
    assert_eq!(audit.iter().map(|row| row.id).collect::<Vec<_>>(), [db.execution(plain).origin, row.origin]);
    let own = db.find_pending(id).unwrap();
    let by_hand = Cause::ByHand { actor: "ann".to_owned(), reason: "why".to_owned() };
    assert_eq!(
        (own.cause.clone(), own.payload.as_deref(), own.origin),
        (by_hand, Some("\"own\""), row.origin)
    );
    let later = db.find_pending(plain).unwrap();
    assert_eq!((own.headers.as_deref(), later.headers.as_deref()), (None, Some("{\"tenant\":\"7\"}")));
    assert_eq!((later.scheduled, later.due, later.payload), (db.base + 7, db.base + 7, None));
    let claimed = won(db.claim(&db.request(Candidate::Pending(own))));
    assert_eq!((claimed.payload(), claimed.attempt()), ("\"own\"", 1));
    let planned = db.claim_head(&entry);
    assert!(planned.fence() > claimed.fence() && planned.payload() == "{}");
    assert_eq!((planned.cause(), claimed.execution()), (&Cause::Planned, id));
}

/// The attempt that follows it is of the same origin, with the same payload.
pub(crate) fn a_retry_keeps_the_orders_payload(db: &Bench) {
    let _ = db.schedule("s");
    let id = db.ordered(&RunOrder { payload: Some("7".to_owned()), ..db.run_order("s") });
    let first = won(db.claim(&ClaimRequest {
        at_once: true,
        ..db.request(Candidate::Pending(db.find_pending(id).unwrap()))
    }));
    let failure = first.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failure), Applied::Done);
    let [retry] = &db.poll(Timestamp::MAX).pendings[..] else { panic!("one attempt follows") };
    assert_eq!((retry.attempt, retry.payload.as_deref(), &retry.cause), (2, Some("7"), &Cause::Retry));
    assert_eq!(retry.origin, db.execution(id).origin);
}

pub(crate) fn an_order_runs_while_its_schedule_is_paused_or_complete(db: &Bench) {
    let once = Definition { trigger: every(db.base, 0, 0), ..db.definition("complete") };
    drop_claimed(db.claim(&db.head(&db.create(&once))));
    assert_eq!(db.entry("complete").state, ScheduleState::Complete);
    let paused = db.schedule("paused");
    assert!(db.store.pause(paused.id, paused.version, "op", "why").unwrap());
    for name in ["complete", "paused"] {
        let id = db.ordered(&db.run_order(name));
        let pending = db.find_pending(id).unwrap_or_else(|| panic!("{name}: no poll brings it"));
        drop_claimed(db.claim(&db.request(Candidate::Pending(pending))));
    }
}

pub(crate) fn an_order_of_what_cannot_run_makes_nothing(db: &Bench) {
    for (state, answer) in [
        ("'ERROR'", Ordered::NotRunnable(Some(ScheduleState::Error))),
        ("'INIT'", Ordered::NotRunnable(Some(ScheduleState::Init))),
        ("'REMOVED'", Ordered::Unknown),
        ("'X'", Ordered::NotRunnable(None)),
        ("NULL", Ordered::NotRunnable(None)),
    ] {
        let name = fresh_name();
        let id = db.schedule(&name).id;
        db.set(RowKey::Schedule(id), "state", state);
        assert_eq!(db.store.order(&db.run_order(&name)).unwrap(), answer, "{state}");
    }
    assert_eq!(db.store.order(&db.run_order("nobody")).unwrap(), Ordered::Unknown);
    assert!(db.executions().is_empty());
    let query = AuditQuery {
        application: db.app.clone(),
        verb: Some("trigger".to_owned()),
        limit: 9,
        ..Default::default()
    };
    assert_eq!(db.store.audit(&query).unwrap(), []);
}

/// A misfire repair of its schedule supersedes what repairs have made, and nothing else.
pub(crate) fn a_removal_cancels_what_was_ordered(db: &Bench) {
    let entry = db.schedule("s");
    let id = db.ordered(&db.run_order("s"));
    assert!(db.unstarted(entry.id).is_empty(), "it gives way to no repair");
    let seen = db.store.seen(&db.app, "s").unwrap().unwrap();
    let (application, reason, now) = (db.app.clone(), String::new(), db.now);
    assert!(db.applied(&Change::Remove(crate::store::RemoveChange { application, seen, reason, now })));
    assert_eq!(db.execution(id).state, "CANCELLED");
}
