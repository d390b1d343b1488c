//! A node's news of others' changes before its next poll.

use super::*;
use crate::domain::headers::Headers;
use crate::store::audit::{Attribution, AuditQuery};
use crate::store::enqueue::{DueAt, EnqueueOrder};
use crate::store::news::{GlanceQuery, Marks, News};
use crate::store::order::{Cancel, ExecutionOrder};
use crate::store::{Heartbeat, HeartbeatReply};

const NONE: News = News { work: false, cancel: false, members: false, request: false };
const WORK: News = News { work: true, ..NONE };

/// One node's questions for news, each behind the one before.
struct Glances<'b> {
    db: &'b Bench,
    after: Marks,
}

impl<'b> Glances<'b> {
    fn begin(db: &'b Bench) -> Self {
        let mut glances = Self { db, after: Marks::END };
        assert_eq!(glances.news(), NONE, "of the first nobody can say");
        glances
    }

    fn news(&mut self) -> News {
        let (application, until) = (self.db.app.clone(), self.db.base + 1_000);
        let query = GlanceQuery { application, after: self.after, until };
        let glance = self.db.store.glance(&query).unwrap();
        self.after = glance.marks;
        glance.news
    }
}

fn enqueue(db: &Bench, application: &str, due: Timestamp) -> ExecutionId {
    let order = EnqueueOrder {
        application: application.to_owned(),
        job: job(JOB),
        groups: Vec::new(),
        payloads: vec!["1".to_owned()],
        due: DueAt::Instant(due),
        priority: None,
        key: None,
        lane: String::new(),
        tags: Vec::new(),
        headers: Headers::new(),
        notifier: Arc::default(),
    };
    db.store.enqueue(&order).unwrap()[0]
}

fn cancel(db: &Bench, execution: ExecutionId) -> Cancel {
    let order = ExecutionOrder::new(db.app.clone(), execution, Attribution::default());
    db.store.cancel(&order).unwrap()
}

pub(crate) fn what_waits_is_news_once_if_it_is_due_soon(db: &Bench) {
    let mut glances = Glances::begin(db);
    enqueue(db, &db.app, db.base);
    assert_eq!(glances.news(), WORK);
    assert_eq!(glances.news(), NONE);
    enqueue(db, &db.app, db.base + 1_000);
    assert_eq!(glances.news(), NONE, "the next poll brings it");
    enqueue(db, &format!("{}-other", db.app), db.base);
    assert_eq!(glances.news(), NONE);
    enqueue(db, &db.app, db.base - 60_000);
    assert_eq!(glances.news(), WORK);
}

pub(crate) fn what_nodes_claim_is_no_news(db: &Bench) {
    let entry = db.schedule("s");
    let mut glances = Glances::begin(db);
    drop(won(db.claim(&db.head(&entry))));
    assert_eq!(glances.news(), NONE);
}

pub(crate) fn a_change_of_a_client_is_news(db: &Bench) {
    let mut glances = Glances::begin(db);
    db.create(&db.definition("s"));
    assert_eq!(glances.news(), WORK);
    assert_eq!(glances.news(), NONE);
    db.store.ensure(&db.definition("s")).unwrap();
    assert_eq!(glances.news(), NONE, "nothing is changed");
    db.store.ensure(&Definition { priority: 7, ..db.definition("s") }).unwrap();
    assert_eq!(glances.news(), WORK);
    assert!(
        !db.store
            .audit(&AuditQuery { application: db.app.clone(), limit: 1, ..AuditQuery::default() })
            .unwrap()
            .is_empty()
    );
}

pub(crate) fn what_a_node_tells_is_news_even_once_it_has_left(db: &Bench) {
    let (node, mut glances) = (db.another_node(), Glances::begin(db));
    let new = db.new_node(node, &db.app, &[]);
    let beat = |after: Millis, tells| {
        let beat = Heartbeat { tells, ..new.beat(db.now + after) };
        assert!(matches!(db.store.beat(&beat).unwrap(), HeartbeatReply::Alive { .. }));
    };
    beat(1, false);
    assert_eq!(glances.news(), NONE);
    beat(2, true);
    let members = News { members: true, ..NONE };
    assert_eq!((glances.news(), glances.news()), (members, NONE));
    beat(3, false);
    assert_eq!(glances.news(), NONE);
    beat(4, true);
    db.store.leave(node, db.now + 5).unwrap();
    assert_eq!((glances.news(), glances.news()), (members, NONE));
}

pub(crate) fn a_cancel_is_news_for_who_runs_it_alone(db: &Bench) {
    let mut glances = Glances::begin(db);
    let waiting = enqueue(db, &db.app, db.base + 60_000);
    assert_eq!(cancel(db, waiting), Cancel::Done);
    assert_eq!(glances.news(), NONE, "it was nobody's yet");
    let entry = db.schedule("s");
    let running = won(db.claim(&ClaimRequest { at_once: true, ..db.head(&entry) }));
    assert_eq!(glances.news(), WORK, "the schedule is new");
    assert!(matches!(cancel(db, running.execution()), Cancel::Asked { .. }));
    assert_eq!(glances.news(), News { cancel: true, ..NONE });
    drop(running);
}
