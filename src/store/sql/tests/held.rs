//! What a request has locked until its caller's transaction ends: at REPEATABLE READ, too, nothing that
//! others need for claims and enqueued executions.

use std::sync::Arc;

use diesel::Connection;

use super::caller::{Blocking, repeat_reads};
use super::fixture::{self, Database, LIMITS};
use crate::domain::headers::Headers;
use crate::domain::{Entry, ErrorKind, ExecutionId, JobPolicy, JobSpec};
use crate::repair::skip;
use crate::store::audit::Attribution;
use crate::store::enqueue::{DueAt, EnqueueOrder, Keyed, OnConflict, UniqueKey};
use crate::store::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::{joined, open};
use crate::store::{
    Applied, Change, Claim, Definition, Ensured, PauseChange, RemoveChange, Result, Store, Verbs,
};
use crate::time::Clock;
use crate::trigger::{Delay, Trigger};

/// Two schedules, two jobs with queues, and executions that wait and have ended.
struct Case {
    store: Arc<dyn Store>,
    application: String,
    held: Arc<Entry>,
    other: Arc<Entry>,
    waits: ExecutionId,
    ended: ExecutionId,
    ended_in_queue: ExecutionId,
    /// Of a schedule whose next fire time counts from its end.
    delayed: ExecutionId,
}

impl Case {
    fn new(database: &Database) -> Self {
        let store = open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
        let application = super::application();
        let [held, other] = <[_; 2]>::try_from(fixture::schedules(&*store, &application, 2)).unwrap();
        let nobodys = ExecutionId(0);
        let [waits, ended, ended_in_queue, delayed] = [nobodys; 4];
        let mut case = Self { store, application, held, other, waits, ended, ended_in_queue, delayed };
        let store = Arc::clone(&case.store);
        case.ended = case.trigger(&*store, &case.held).unwrap();
        case.waits = case.trigger(&*store, &case.held).unwrap();
        case.delayed = case.delayed();
        case.enqueue(&*store, "other").unwrap();
        case.keyed(&*store, "k2").unwrap();
        case.ended_in_queue = case.enqueue(&*store, "held").unwrap();
        for ended in [case.ended, case.ended_in_queue] {
            assert_eq!(store.cancel(&case.order(ended)).unwrap(), Cancel::Done);
        }
        case
    }

    /// Runs a while after the end of each run; its first execution was handed back.
    fn delayed(&self) -> ExecutionId {
        let trigger = Trigger::Delay(Delay::new(Some(fixture::AT.millis()), 60_000).unwrap());
        let definition = Definition { trigger, ..fixture::definition(&self.application, "delayed") };
        self.store.ensure(&definition).unwrap();
        let entry = self.store.find(&self.application, "delayed").unwrap().map(Arc::new);
        let claim = fixture::claim(&*self.store, &entry.expect("it was made")).unwrap();
        let Claim::Won(claimed) = claim else { panic!("not won") };
        let id = claimed.execution();
        let back = claimed.give_back(fixture::AT).into();
        assert_eq!(self.store.apply(&[back]).unwrap(), [Applied::Done]);
        id
    }

    fn order(&self, execution: ExecutionId) -> ExecutionOrder {
        ExecutionOrder::new(self.application.clone(), execution, by())
    }

    fn trigger(&self, verbs: &dyn Verbs, entry: &Entry) -> Result<ExecutionId> {
        let (application, schedule) = (self.application.clone(), entry.name.to_string());
        match verbs.order(&RunOrder {
            application,
            schedule,
            payload: None,
            headers: Headers::new(),
            at: None,
            by: by(),
        })? {
            Ordered::Pending(id) => Ok(id),
            other => panic!("{other:?}"),
        }
    }

    fn enqueue_order(&self, job: &str, key: Option<UniqueKey>) -> EnqueueOrder {
        EnqueueOrder {
            application: self.application.clone(),
            job: JobSpec::new(job, JobPolicy::DEFAULT),
            groups: Vec::new(),
            payloads: vec!["1".to_owned()],
            due: DueAt::After(0),
            priority: None,
            key,
            lane: String::new(),
            tags: Vec::new(),
            headers: Headers::new(),
            notifier: Arc::default(),
        }
    }

    fn enqueue(&self, verbs: &dyn Verbs, job: &str) -> Result<ExecutionId> {
        verbs.enqueue(&self.enqueue_order(job, None)).map(|ids| ids[0])
    }

    /// Of the job "held".
    fn keyed(&self, verbs: &dyn Verbs, key: &str) -> Result<Keyed> {
        let key = UniqueKey { key: key.to_owned(), per: None, on_conflict: OnConflict::Existing };
        verbs.enqueue_unique(&self.enqueue_order("held", Some(key)))
    }

    fn remove(&self, verbs: &dyn Verbs) -> Result<Vec<Applied>> {
        let application = self.application.clone();
        let seen = verbs.seen(&application, &self.held.name)?.expect("the schedule exists");
        let removal = RemoveChange { application, seen, reason: String::new(), now: verbs.now()? };
        verbs.apply(&[Change::Remove(removal)])
    }

    fn pause(&self, verbs: &dyn Verbs) -> Result<Vec<Applied>> {
        let (by, reason) = (String::new(), String::new());
        let pause = PauseChange { id: self.held.id, version: self.held.version, by, reason, until: None };
        verbs.apply(&[Change::Pause(pause)])
    }

    fn skip(&self, verbs: &dyn Verbs) -> Result<Vec<Applied>> {
        let entry = verbs.find(&self.application, &self.held.name)?.expect("the schedule exists");
        let skip = skip(&entry, fixture::AT, verbs.now()?).expect("it is the next one");
        verbs.apply(&[Change::Repair(skip)])
    }

    fn ensure(&self, verbs: &dyn Verbs, name: &str) -> Result<Ensured> {
        verbs.ensure(&fixture::definition(&self.application, name))
    }
}

fn by() -> Attribution {
    Attribution { actor: "ann".to_owned(), reason: "why".to_owned() }
}

/// What a caller asks for in a transaction that stays open.
type Held = fn(&Case, &dyn Verbs) -> Result<bool>;

const HELD: &[(&str, Held)] = &[
    ("remove", |case, verbs| Ok(case.remove(verbs)? == [Applied::Done])),
    ("remove and ensure", |case, verbs| {
        case.remove(verbs)?;
        Ok(case.ensure(verbs, &case.held.name)? == Ensured::Created)
    }),
    ("ensure a new one", |case, verbs| Ok(case.ensure(verbs, "new")? == Ensured::Created)),
    ("trigger", |case, verbs| case.trigger(verbs, &case.held).map(|_| true)),
    ("pause", |case, verbs| Ok(case.pause(verbs)? == [Applied::Done])),
    ("skip", |case, verbs| Ok(case.skip(verbs)? == [Applied::Done])),
    ("cancel", |case, verbs| Ok(verbs.cancel(&case.order(case.waits))? == Cancel::Done)),
    ("cancel of a fixed delay", |case, verbs| Ok(verbs.cancel(&case.order(case.delayed))? == Cancel::Done)),
    ("cancel one that has ended", |case, verbs| {
        Ok(matches!(verbs.cancel(&case.order(case.ended))?, Cancel::Ended(_)))
    }),
    ("cancel an enqueued one that has ended", |case, verbs| {
        Ok(matches!(verbs.cancel(&case.order(case.ended_in_queue))?, Cancel::Ended(_)))
    }),
    ("retry", |case, verbs| Ok(matches!(verbs.retry(&case.order(case.ended))?, Retry::Pending(_)))),
    ("retry an enqueued one", |case, verbs| {
        Ok(matches!(verbs.retry(&case.order(case.ended_in_queue))?, Retry::Pending(_)))
    }),
    ("enqueue", |case, verbs| case.enqueue(verbs, "held").map(|_| true)),
    ("enqueue with a taken key", |case, verbs| Ok(matches!(case.keyed(verbs, "k2")?, Keyed::Existing(_)))),
    ("enqueue with a new key", |case, verbs| Ok(matches!(case.keyed(verbs, "k5")?, Keyed::Created(_)))),
];

/// What others do meanwhile; whether they could.
type Meanwhile = fn(&Case) -> Result<bool>;

const MEANWHILE: &[(&str, Meanwhile)] = &[
    ("claim", |case| match fixture::claim(&*case.store, &case.other)? {
        Claim::Won(claimed) => Ok(claimed.execution() != ExecutionId(0)),
        _ => Ok(false),
    }),
    ("trigger", |case| case.trigger(&*case.store, &case.other).map(|_| true)),
    ("enqueue", |case| case.enqueue(&*case.store, "other").map(|_| true)),
    ("enqueue of the same job", |case| case.enqueue(&*case.store, "held").map(|_| true)),
    ("enqueue with a key", |case| Ok(matches!(case.keyed(&*case.store, "k1")?, Keyed::Created(_)))),
];

/// As a client's request does.
fn in_transaction<C: Blocking, T: Send + 'static>(
    case: &Arc<Case>,
    connection: &mut C,
    run: impl FnOnce(&Case, &dyn Verbs) -> Result<T> + Send + 'static,
) -> Result<T> {
    let held = Arc::clone(case);
    C::answered(joined(Arc::clone(&case.store), connection, move |verbs| run(&held, verbs)))
}

fn a_request_in_an_open_transaction_holds_up_no_other<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    repeat_reads(database, connection);
    let mut held_up = Vec::new();
    for (request, run) in HELD {
        let case = Arc::new(Case::new(database));
        let rolled_back = connection.transaction(|connection| {
            connection.batch_execute("SELECT * FROM QRTZ_EXECUTE LIMIT 1")?;
            assert!(in_transaction(&case, connection, run).unwrap(), "{request}");
            held_up.extend(MEANWHILE.iter().filter_map(|(other, run)| match run(&case) {
                Ok(true) => None,
                ended => Some(format!("{request} / {other}: {ended:?}")),
            }));
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert_eq!(rolled_back, Err(diesel::result::Error::RollbackTransaction));
    }
    assert!(held_up.is_empty(), "{held_up:#?}");
}

/// Both the taken key and the execution that has ended are asked for with a snapshot that is older than
/// another attempt at them.
fn an_attempt_that_an_older_snapshot_lacks_is_seen_or_told<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    repeat_reads(database, connection);
    let case = Arc::new(Case::new(database));
    let Keyed::Existing(keeper) = case.keyed(&*case.store, "k2").unwrap() else { panic!("it is taken") };
    assert_eq!(case.store.cancel(&case.order(keeper)).unwrap(), Cancel::Done);
    let rolled_back = connection.transaction(|connection| {
        connection.batch_execute("SELECT * FROM QRTZ_EXECUTE LIMIT 1")?;
        let Retry::Pending(attempt) = case.store.retry(&case.order(keeper)).unwrap() else { panic!() };
        match in_transaction(&case, connection, |case, verbs| case.keyed(verbs, "k2")) {
            Ok(answer) => assert_eq!(answer, Keyed::Existing(attempt)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    assert_eq!(rolled_back, Err(diesel::result::Error::RollbackTransaction));
    let rolled_back = connection.transaction(|connection| {
        connection.batch_execute("SELECT * FROM QRTZ_EXECUTE LIMIT 1")?;
        let Retry::Pending(_) = case.store.retry(&case.order(case.ended)).unwrap() else { panic!() };
        let answer = in_transaction(&case, connection, |case, verbs| verbs.cancel(&case.order(case.ended)));
        // On PostgreSQL nothing tells that it was tried again.
        if database.dialect() == Dialect::Mysql {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict);
        }
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    assert_eq!(rolled_back, Err(diesel::result::Error::RollbackTransaction));
}

/// Of a database of its own: a small table may be read, and locked, as a whole.
fn name() -> String {
    super::application().replace('-', "_")
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;

    #[test]
    fn a_request_in_an_open_transaction_holds_up_no_other() {
        let database = Database::postgres().beside(&super::name());
        let mut connection = diesel::PgConnection::establish(&database.url).unwrap();
        super::a_request_in_an_open_transaction_holds_up_no_other(&database, &mut connection);
    }

    #[test]
    fn an_attempt_that_an_older_snapshot_lacks_is_seen_or_told() {
        let database = Database::postgres();
        let mut connection = diesel::PgConnection::establish(&database.url).unwrap();
        super::an_attempt_that_an_older_snapshot_lacks_is_seen_or_told(&database, &mut connection);
    }
}

#[cfg(feature = "mysql")]
mod mariadb {
    use super::*;

    #[test]
    fn a_request_in_an_open_transaction_holds_up_no_other() {
        let database = Database::mariadb().beside(&super::name());
        let mut connection = diesel::MysqlConnection::establish(&database.url).unwrap();
        super::a_request_in_an_open_transaction_holds_up_no_other(&database, &mut connection);
    }

    #[test]
    fn an_attempt_that_an_older_snapshot_lacks_is_seen_or_told() {
        let database = Database::mariadb();
        let mut connection = diesel::MysqlConnection::establish(&database.url).unwrap();
        super::an_attempt_that_an_older_snapshot_lacks_is_seen_or_told(&database, &mut connection);
    }
}
