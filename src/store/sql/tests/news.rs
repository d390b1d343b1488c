//! What PostgreSQL tells nodes of.

use std::sync::Arc;

use diesel::{Connection, PgConnection};

use super::fixture::{Database, LIMITS, application, definition, server};
use crate::domain::headers::Headers;
use crate::domain::{ErrorKind, ExecutionId, JobPolicy, JobSpec, NodeId, Timestamp};
use crate::fixtures::new_node;
use crate::store::enqueue::{DueAt, EnqueueOrder, OnConflict, UniqueKey};
use crate::store::news::{Ear, News};
use crate::store::sql::session::statement::{single, sql};
use crate::store::sql::{Target, joined, open};
use crate::store::{Ensured, Heartbeat, HeartbeatReply, Store};
use crate::time::Clock;

struct Case {
    store: Arc<dyn Store>,
    database: Database,
    application: String,
}

impl Case {
    fn new() -> Self {
        let database = Database::postgres();
        let store = open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
        Self { store, database, application: application() }
    }

    fn order(&self, due: DueAt) -> EnqueueOrder {
        EnqueueOrder {
            application: self.application.clone(),
            job: JobSpec::new("work", JobPolicy::DEFAULT),
            groups: Vec::new(),
            payloads: vec!["1".to_owned(), "2".to_owned()],
            due,
            priority: None,
            key: None,
            lane: String::new(),
            tags: Vec::new(),
            headers: Headers::new(),
            notifier: Arc::default(),
        }
    }

    /// What was told before a cancel that is told of now, with that.
    fn told(&self, ear: &mut dyn Ear) -> News {
        let cancel = format!("SELECT pg_notify('firetime', 'cancel:{}')", self.application);
        self.database.session().batch(&cancel).unwrap();
        let mut news = News::default();
        while !news.cancel {
            news = news.and(ear.hear(1_000).unwrap());
        }
        news
    }

    /// Whether work was.
    fn has_told(&self, ear: &mut dyn Ear) -> bool {
        self.told(ear).work
    }
}

#[test]
fn what_is_enqueued_is_told_if_it_is_due_soon() {
    let case = Case::new();
    let mut ear = case.store.listen(&case.application).unwrap();
    assert!(!case.has_told(&mut *ear));
    case.store.enqueue(&case.order(DueAt::After(0))).unwrap();
    assert!(case.has_told(&mut *ear));
    case.store.enqueue(&case.order(DueAt::After(3_600_000))).unwrap();
    assert!(!case.has_told(&mut *ear));
    // What nobody need be told of uses up nothing.
    let order = case.order(DueAt::After(0));
    for _ in 0..40 {
        let later = EnqueueOrder { due: DueAt::After(3_600_000), ..order.clone() };
        case.store.enqueue(&later).unwrap();
    }
    case.store.enqueue(&order).unwrap();
    assert!(case.has_told(&mut *ear));
    let soon = Clock::default().now().boot + 10_000;
    while order.notifier.is_due(soon) {}
    case.store.enqueue(&order).unwrap();
    assert!(!case.has_told(&mut *ear), "nodes look for it");
    let other = EnqueueOrder { application: application(), ..case.order(DueAt::After(0)) };
    case.store.enqueue(&other).unwrap();
    assert!(!case.has_told(&mut *ear));
    let key = UniqueKey { key: "k".to_owned(), per: None, on_conflict: OnConflict::Replace };
    for due in [3_600_000, 0] {
        let payloads = vec!["1".to_owned()];
        let keyed = EnqueueOrder { payloads, key: Some(key.clone()), ..case.order(DueAt::After(due)) };
        case.store.enqueue_unique(&keyed).unwrap();
        assert_eq!(case.has_told(&mut *ear), due == 0);
    }
    ear.check().unwrap();
}

/// PostgreSQL refused the COMMIT of each request that tells, and the answer was said to be lost.
#[test]
fn what_cannot_be_told_is_stored_all_the_same() {
    let case = Case::new();
    let application = &case.application;
    case.store.enqueue(&case.order(DueAt::After(3_600_000))).unwrap();
    let mut ear = case.store.listen(application).unwrap();
    // At the commit that would tell: the first of each two.
    let commits = format!("commits_of_{}", application.replace('-', "_"));
    let full = format!(
        "CREATE SEQUENCE {commits}; \
         CREATE FUNCTION {commits}_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF NEW.application = '{application}' AND nextval('{commits}') % 2 = 1 THEN \
         RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END IF; \
         RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER {commits} AFTER INSERT ON QRTZ_AUDIT DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION {commits}_end()"
    );
    case.database.session().batch(&full).unwrap();
    assert_eq!(case.store.ensure(&definition(application, "s")).unwrap(), Ensured::Created);
    assert!(!case.has_told(&mut *ear), "nobody could be told");
    let mut connection = PgConnection::establish(&case.database.url).unwrap();
    let wanted = definition(application, "other");
    let ensure = move |verbs: &dyn crate::store::Verbs| verbs.ensure(&wanted);
    let refused = joined(Arc::clone(&case.store), &mut connection, ensure).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("queue of notifications is full"), "{refused}");
    let drop =
        format!("DROP TRIGGER {commits} ON QRTZ_AUDIT; DROP FUNCTION {commits}_end; DROP SEQUENCE {commits}");
    case.database.session().batch(&drop).unwrap();
}

#[test]
fn what_a_client_changes_is_told() {
    let case = Case::new();
    let mut ear = case.store.listen(&case.application).unwrap();
    case.store.ensure(&definition(&case.application, "s")).unwrap();
    assert!(case.has_told(&mut *ear));
    case.store.ensure(&definition(&case.application, "s")).unwrap();
    assert!(!case.has_told(&mut *ear), "nothing has changed");
}

#[test]
fn what_a_node_has_to_tell_is_told() {
    let case = Case::new();
    let mut ear = case.store.listen(&case.application).unwrap();
    let now = Timestamp::at(1_767_225_600_000);
    let node = new_node(NodeId::fresh(), &case.application, Vec::new(), now);
    case.store.register(&node).unwrap();
    for tells in [false, true] {
        let beat = Heartbeat { tells, ..node.beat(node.now) };
        assert!(matches!(case.store.beat(&beat).unwrap(), HeartbeatReply::Alive { .. }));
        assert_eq!(case.told(&mut *ear).members, tells);
    }
    let gone = Heartbeat { node: NodeId::fresh(), tells: true, ..node.beat(node.now) };
    assert!(matches!(case.store.beat(&gone).unwrap(), HeartbeatReply::Ended));
    assert!(!case.told(&mut *ear).members);
}

#[test]
fn a_callers_transaction_tells_with_its_commit() {
    let case = Case::new();
    let mut ear = case.store.listen(&case.application).unwrap();
    let mut connection = PgConnection::establish(&case.database.url).unwrap();
    let enqueue = |connection: &mut PgConnection| {
        let order = case.order(DueAt::After(0));
        joined(Arc::clone(&case.store), connection, move |verbs| verbs.enqueue(&order)).unwrap()
    };
    let ended: Result<(), _> = connection.transaction(|connection| {
        enqueue(connection);
        assert!(!case.has_told(&mut *ear), "not before the commit");
        Err(diesel::result::Error::RollbackTransaction)
    });
    assert!(ended.is_err() && !case.has_told(&mut *ear), "nor without it");
    let ended: Result<_, diesel::result::Error> = connection.transaction(|it| Ok(enqueue(it)));
    assert!(ended.is_ok() && case.has_told(&mut *ear));
}

#[test]
fn who_cannot_listen_at_a_urls_first_host_listens_at_the_next() {
    let case = Case::new();
    let url = case.database.url.replace('@', "@127.0.0.1:1,");
    assert_ne!(url, case.database.url);
    let mut ear = open(&url, LIMITS, Arc::new(Clock::default())).unwrap().listen(&case.application).unwrap();
    case.store.enqueue(&case.order(DueAt::After(0))).unwrap();
    assert!(case.has_told(&mut *ear));
}

/// The listener warned every few seconds.
#[test]
fn a_session_is_not_ended_for_being_idle() {
    let case = Case::new();
    let url = format!("{}?options=-cidle_session_timeout%3D100", case.database.url);
    let mut ear = open(&url, LIMITS, Arc::new(Clock::default())).unwrap().listen(&case.application).unwrap();
    assert!(ear.hear(300).unwrap().is_none());
    ear.check().unwrap();
    let mut session = Target::parse(&url).unwrap().connect(LIMITS).unwrap();
    let question = sql("SELECT CAST(current_setting('idle_session_timeout') AS BIGINT)");
    assert_eq!(single(session.rows(&question).unwrap()).unwrap(), 0);
}

#[test]
fn who_listens_through_a_pooler_in_session_mode_is_told() {
    let case = Case::new();
    let url = format!("{}/session", server("FIRETIME_TEST_PGBOUNCER_URL"));
    let pooled = open(&url, LIMITS, Arc::new(Clock::default())).unwrap();
    let mut ear = pooled.listen(&case.application).unwrap();
    pooled.enqueue(&case.order(DueAt::After(0))).unwrap();
    let mut news = News::default();
    while !news.work {
        news = ear.hear(1_000).unwrap();
    }
}

/// Nodes of the application hear who waits, and whoever waits hears of every end, whatever the application.
#[test]
fn who_waits_and_what_has_ended_is_told_in_pieces() {
    let case = Case::new();
    let mut ear = case.store.listen(&case.application).unwrap();
    let mut others = case.store.listen("another").unwrap();
    let ids: Vec<ExecutionId> = (0..1_000).map(|n| ExecutionId(i64::MAX - n)).collect();
    case.store.announce_awaited(&case.application, &ids).unwrap();
    case.store.announce_ended(&ids[..2]).unwrap();
    case.store.announce_ended(&[]).unwrap();
    let (mut awaited, mut ended) = (Vec::new(), Vec::new());
    case.told(ear.as_mut());
    let mut hear = |ear: &mut dyn Ear| {
        let ends = ear.take_ends();
        awaited.extend(ends.awaited);
        ended.extend(ends.ended.into_iter().filter(|id| ids.contains(id)));
    };
    hear(ear.as_mut());
    while !others.hear(1_000).unwrap().is_none() {}
    hear(others.as_mut());
    assert_eq!((awaited, ended), (ids.clone(), [&ids[..2], &ids[..2]].concat()));
}
