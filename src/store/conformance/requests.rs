//! Requests that other programs have written.

use std::sync::Barrier;

use super::*;
use crate::domain::headers::Headers;
use crate::domain::{Error, ErrorKind};
use crate::store::enqueue::{DueAt, EnqueueOrder};
use crate::store::news::{GlanceQuery, Marks};
use crate::store::request::{Answered, Asked, CarriedOut, Request, RequestQuery};
use crate::store::{Carrier, QueuePlace, QueueWalk, Result, Verbs};

const MAIL: &str = r#"{"job": "mail"}"#;

/// Enqueues, and then answers so.
struct Enqueues<'b> {
    db: &'b Bench,
    answer: fn(ExecutionId) -> Result<Answered>,
}

impl Carrier for Enqueues<'_> {
    fn carry_out(&self, asked: &Asked, _actor: &str, verbs: &dyn Verbs) -> Result<Answered> {
        let Asked::Enqueue(arguments) = asked else { panic!("{asked:?}") };
        let order = EnqueueOrder {
            application: self.db.app.clone(),
            job: job(&arguments.job),
            groups: Vec::new(),
            payloads: vec!["1".to_owned()],
            due: DueAt::After(0),
            priority: None,
            key: None,
            lane: String::new(),
            tags: Vec::new(),
            headers: Headers::new(),
            notifier: Arc::default(),
        };
        verbs.enqueue(&order).and_then(|ids| (self.answer)(ids[0]))
    }
}

fn done(execution: ExecutionId) -> Result<Answered> {
    Ok(Answered::Done { execution: Some(execution), answer: "created" })
}

impl Bench {
    fn requests(&self, after: i64, limit: usize) -> Vec<Request> {
        self.store.requests(&RequestQuery { application: self.app.clone(), after, limit }).unwrap()
    }

    fn written(&self, verb: &str, arguments: &str) -> Request {
        let id = self.fixture.request(&self.app, verb, arguments);
        let page = self.requests(id - 1, 1);
        assert_eq!(page[0].id, id);
        page[0].clone()
    }

    fn carry_out(
        &self,
        request: &Request,
        answer: fn(ExecutionId) -> Result<Answered>,
    ) -> Result<CarriedOut> {
        self.store.carry_out(request, &Enqueues { db: self, answer })
    }

    /// The state of a request, its answer and its execution.
    fn became(&self, request: &Request) -> (String, String, Option<i64>) {
        let get = |column| self.get(RowKey::Request(request.id), column);
        let execution = get("execution_id").map(|id| id.parse().unwrap());
        (get("state").unwrap(), get("answer").unwrap(), execution)
    }
}

pub(crate) fn a_request_is_carried_out_once(db: &Bench) {
    let request = db.written("enqueue", MAIL);
    assert_eq!(db.became(&request), ("REQUESTED".to_owned(), String::new(), None));
    assert_eq!(db.carry_out(&request, done).unwrap(), CarriedOut::Done);
    let execution = db.executions()[0].id;
    assert_eq!(db.became(&request), ("DONE".to_owned(), "created".to_owned(), Some(execution)));
    assert_eq!(db.carry_out(&request, done).unwrap(), CarriedOut::Ended);
    assert_eq!((db.executions().len(), db.requests(0, 10).len()), (1, 0));
}

pub(crate) fn two_who_carry_a_request_out_at_once_do_so_once(db: &Bench) {
    for _ in 0..5 {
        let (request, barrier) = (db.written("enqueue", MAIL), Barrier::new(2));
        let before = db.executions().len();
        let carry_out = || {
            barrier.wait();
            db.carry_out(&request, done)
        };
        let both = std::thread::scope(|scope| {
            let both = [scope.spawn(carry_out), scope.spawn(carry_out)];
            both.map(|one| one.join().unwrap().unwrap())
        });
        assert_eq!(both.iter().filter(|it| **it == CarriedOut::Done).count(), 1, "{both:?}");
        assert_eq!(db.executions().len(), before + 1);
    }
}

pub(crate) fn a_refused_request_leaves_nothing_but_its_reason(db: &Bench) {
    let request = db.written("enqueue", MAIL);
    let refusal = |_| Ok(Answered::Refused("the key is taken".to_owned()));
    assert_eq!(db.carry_out(&request, refusal).unwrap(), CarriedOut::Refused("the key is taken".to_owned()));
    assert_eq!(db.became(&request), ("REFUSED".to_owned(), "the key is taken".to_owned(), None));
    assert!(db.executions().is_empty() && db.requests(0, 10).is_empty());
    let long = db.written(&"ä".repeat(20), "{}");
    assert!(matches!(db.carry_out(&long, done).unwrap(), CarriedOut::Refused(_)));
    let (state, answer, _) = db.became(&long);
    assert!(state == "REFUSED" && answer.starts_with("unknown verb"), "{answer}");
    let odd = db.written("enqueue", r#"{"job": "mail", "\u0000\u001b": 1}"#);
    assert!(matches!(db.carry_out(&odd, done).unwrap(), CarriedOut::Refused(_)));
    assert!(db.became(&odd).1.contains(r"unknown field `\u{0}\u{1b}`"), "{:?}", db.became(&odd));
    let huge = db.written("enqueue", &format!(r#"{{"job": "{}"}}"#, "x".repeat(100_000)));
    assert!(matches!(db.carry_out(&huge, done).unwrap(), CarriedOut::Refused(_)));
    assert!(db.became(&huge).1.contains("more than 65536 characters"));
    let endless = db.written("enqueue", &format!("{{\"job\": \"mail\", \"{}\": 1}}", "ä".repeat(600)));
    assert!(matches!(db.carry_out(&endless, done).unwrap(), CarriedOut::Refused(_)));
    assert_eq!(db.became(&endless).1.chars().count(), 500, "as much as the column holds");
}

pub(crate) fn a_request_that_fails_is_left_as_it_was(db: &Bench) {
    let request = db.written("enqueue", MAIL);
    let failure = |_| Err(Error::new(ErrorKind::Refused, "the disk is full"));
    let error = db.carry_out(&request, failure).unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(db.became(&request).0, "REQUESTED");
    assert!(db.executions().is_empty());
    assert_eq!(db.carry_out(&request, done).unwrap(), CarriedOut::Done);
}

pub(crate) fn requests_come_in_pages_by_their_ids(db: &Bench) {
    let ids: Vec<i64> = (0..5).map(|_| db.fixture.request(&db.app, "enqueue", MAIL)).collect();
    db.fixture.request(&fresh_name(), "enqueue", MAIL);
    let page = |after, limit| db.requests(after, limit).into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(page(i64::MIN, 3), ids[..3]);
    assert_eq!(page(ids[2], 10), ids[3..]);
}

pub(crate) fn polls_tell_of_requests_as_long_as_they_wait_and_glances_once(db: &Bench) {
    let glance = |after: Marks| {
        let query = GlanceQuery { application: db.app.clone(), after, until: db.base };
        db.store.glance(&query).unwrap()
    };
    let is_told = || db.poll(Timestamp::MAX).requested;
    let first = glance(Marks::END);
    assert!(!is_told());
    db.fixture.request(&fresh_name(), "enqueue", MAIL);
    assert!(!is_told() && !glance(first.marks).news.request, "another application's");
    let request = db.written("enqueue", MAIL);
    let second = glance(first.marks);
    assert!(second.news.request && !second.news.work);
    assert!(!glance(second.marks).news.request && is_told());
    db.carry_out(&request, done).unwrap();
    assert!(!is_told());
}

pub(crate) fn requests_leave_with_the_ledger_once_they_have_ended(db: &Bench) {
    let [old, young, open] = [(); 3].map(|()| db.written("enqueue", MAIL));
    for request in [&old, &young] {
        db.carry_out(request, done).unwrap();
    }
    let long_ago = (db.now - 7_200_000).millis().to_string();
    db.set(RowKey::Request(old.id), "ended_time", &long_ago);
    let after = QueuePlace::FIRST;
    let walk = QueueWalk { application: db.app.clone(), after, keep: 3_600_000, limit: 100 };
    db.store.purge_queues(&walk).unwrap();
    assert!(!db.fixture.has_request(old.id));
    assert!(db.fixture.has_request(young.id) && db.fixture.has_request(open.id));
}

pub(crate) fn a_held_request_is_left_to_its_holder(db: &Bench) {
    let (request, other) = (db.written("enqueue", MAIL), db.written("enqueue", MAIL));
    let lock = db.lock_row(RowKey::Request(request.id));
    assert_eq!(db.carry_out(&request, done).unwrap(), CarriedOut::Held);
    assert_eq!(db.carry_out(&other, done).unwrap(), CarriedOut::Done);
    drop(lock);
    assert_eq!(db.carry_out(&request, done).unwrap(), CarriedOut::Done);
}
