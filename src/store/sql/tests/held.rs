//! What a request has locked until its caller's transaction ends: at REPEATABLE READ, too, nothing that
//! others need for claims and enqueued executions.

use std::sync::Arc;

use diesel::Connection;

use super::caller::{Blocking, repeat_reads};
use super::fixture::{self, Database, LIMITS};
use crate::domain::headers::Headers;
use crate::domain::{
    Answer, Bound, Bounds, Entry, ErrorKind, ExecutionId, ExecutionState, FieldSet, JobPolicy, JobSpec,
    NodeId, Timestamp,
};
use crate::fixtures::new_node;
use crate::repair::skip;
use crate::store::audit::Attribution;
use crate::store::enqueue::{DueAt, EnqueueOrder, Keyed, OnConflict, UniqueKey};
use crate::store::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use crate::store::outcomes::OutcomeFold;
use crate::store::rerun::{EndedSo, Reran, RerunCancel, RerunCancelled, RerunOrder, RerunWanted};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::statement::sql;
use crate::store::sql::{joined, open};
use crate::store::switch::{Scope, SwitchOrder, SwitchVerb, Switched};
use crate::store::sync::{SyncAnswer, SyncOrder};
use crate::store::{
    Applied, Author, Change, Claim, Completed, Definition, Ensured, ExecutionChange, OnlyIf, PauseChange,
    RemoveChange, Result, Store, SyncStep, Verbs,
};
use crate::time::Clock;
use crate::trigger::{Delay, Simple, Trigger};

/// When the first occurrence of the schedule "failed" was due.
const PAST: Timestamp = Timestamp::at(1_000_000_000_000);

/// Schedules of one job, whose claims lock its row; two jobs with queues; an owner of three schedules; and
/// executions that wait and have ended.
struct Case {
    store: Arc<dyn Store>,
    application: String,
    held: Arc<Entry>,
    other: Arc<Entry>,
    /// The owner's second and third.
    owned: [Arc<Entry>; 2],
    /// The last of all.
    last: Arc<Entry>,
    /// A rerun that waits.
    rerun: i64,
    waits: ExecutionId,
    ended: ExecutionId,
    ended_in_queue: ExecutionId,
    /// Of a schedule whose next fire time counts from its end.
    delayed: ExecutionId,
    /// The ends of two that run: in a transaction of the handler's own, and as its node stores it.
    completes: ExecutionChange,
    succeeds: ExecutionChange,
}

impl Case {
    fn new(database: &Database) -> Self {
        let store = open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
        let application = super::application();
        register(&*store, &application);
        let [held, other] = <[_; 2]>::try_from(fixture::schedules(&*store, &application, 2)).unwrap();
        store.sync(&list(&application, 1, &[("a", 1), ("b", 1), ("c", 1)])).unwrap();
        let expecting = Definition { expected_by: Some(60_000), ..fixture::definition(&application, "last") };
        store.ensure(&expecting).unwrap();
        let entry = |name| store.find(&application, name).unwrap().map(Arc::new).expect("it was made");
        let (owned, last) = ([entry("b"), entry("c")], entry("last"));
        let [completes, succeeds] = ["runs", "runs, too"].map(|name| {
            store.ensure(&fixture::definition(&application, name)).unwrap();
            let Claim::Won(mut claimed) = fixture::claim(&*store, &entry(name)).unwrap() else {
                panic!("not won")
            };
            claimed.begin(fixture::AT);
            let completes = claimed.complete(fixture::AT);
            (completes, claimed.finish(Answer::Done, None, fixture::AT))
        });
        let (completes, succeeds) = (completes.0, succeeds.1);
        let nobodys = ExecutionId(0);
        let [waits, ended, ended_in_queue, delayed] = [nobodys; 4];
        let (store, rerun) = (Arc::clone(&store), 0);
        let mut case = Self {
            store,
            application,
            held,
            other,
            owned,
            last,
            rerun,
            waits,
            ended,
            ended_in_queue,
            delayed,
            completes,
            succeeds,
        };
        let store = Arc::clone(&case.store);
        case.failed(database);
        case.rerun = case.rerun(&*store, Some(PAST + 1)).unwrap();
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

    /// The first two occurrences of the schedule "failed" have failed.
    fn failed(&self, database: &Database) {
        let trigger = Trigger::Simple(Simple::new(Some(PAST.millis()), 1_000, -1).unwrap());
        let definition = Definition { trigger, ..fixture::definition(&self.application, "failed") };
        self.store.ensure(&definition).unwrap();
        let past = format!("SET prev_fire_time = -1, next_fire_time = {PAST} WHERE name = 'failed'");
        let past = format!("UPDATE QRTZ_EXECUTE {past} AND application = '{}'", self.application);
        database.session().batch(&past).unwrap();
        for _ in 0..2 {
            let entry = self.store.find(&self.application, "failed").unwrap().map(Arc::new);
            let claim = fixture::claim(&*self.store, &entry.expect("it was made")).unwrap();
            let Claim::Won(claimed) = claim else { panic!("not won") };
            let outcome = claimed.finish(Answer::Failed("so".to_owned()), None, fixture::AT).into();
            assert_eq!(self.store.apply(&[outcome]).unwrap(), [Applied::Done]);
        }
    }

    /// Runs those once more that were due before.
    fn rerun(&self, verbs: &dyn Verbs, until: Option<Timestamp>) -> Result<i64> {
        let (application, schedule) = (self.application.clone(), "failed".to_owned());
        let so = EndedSo { states: vec![ExecutionState::Failed], reason: None };
        let wanted = RerunWanted::Ended(so, None, until);
        match verbs.rerun(&RerunOrder { application, schedule, wanted, pace: 1, by: by() })? {
            Reran::Ordered { origin, .. } => Ok(origin),
            other => panic!("{other:?}"),
        }
    }

    /// How many schedules of its owner this sync writes.
    fn sync(&self, verbs: &dyn Verbs, order: &SyncOrder) -> Result<usize> {
        let SyncAnswer { schedules, .. } = verbs.sync(order)?;
        Ok(schedules.iter().filter(|schedule| schedule.step != SyncStep::Unchanged).count())
    }

    /// What was not changed, by the owner's next revision.
    fn list(&self, schedules: &[(&str, i32)]) -> SyncOrder {
        list(&self.application, 2, schedules)
    }

    fn edit(&self, verbs: &dyn Verbs, trigger: Option<Trigger>) -> Result<Ensured> {
        self.edit_of(verbs, &self.held.name, trigger)
    }

    /// As a client's edit does.
    fn edit_of(&self, verbs: &dyn Verbs, name: &str, trigger: Option<Trigger>) -> Result<Ensured> {
        let row = verbs.schedule(&self.application, name)?.expect("the schedule exists");
        let definition = fixture::definition(&self.application, name);
        let there = definition.trigger.clone();
        verbs.ensure(&Definition {
            priority: 7,
            trigger: trigger.unwrap_or(there),
            only_if: OnlyIf::Version(row.version),
            author: Author::Hand { gives_back: FieldSet::default() },
            ..definition
        })
    }

    fn claim(&self, entry: &Arc<Entry>) -> Result<bool> {
        match self.store.claim(&[fixture::request(entry, NodeId::fresh())])?.remove(0) {
            Claim::Won(claimed) => Ok(claimed.execution() != ExecutionId(0)),
            _ => Ok(false),
        }
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

/// Makes the job of the schedules one with bounds.
fn register(store: &dyn Store, application: &str) {
    let job = Bound { concurrency: Some(1_000), ..Bound::NONE };
    let policy = JobPolicy { bounds: Bounds { job, ..Bounds::NONE }, ..JobPolicy::DEFAULT };
    let jobs = vec![JobSpec::new("work", policy)];
    store.register(&new_node(NodeId::fresh(), application, jobs, fixture::AT)).unwrap();
}

/// The schedules of the owner "billing", with these priorities.
fn list(application: &str, revision: i64, schedules: &[(&str, i32)]) -> SyncOrder {
    let owner = "billing".to_owned();
    let definition = |(name, priority): &(&str, i32)| Definition {
        priority: *priority,
        author: Author::Owner(owner.clone()),
        ..fixture::definition(application, name)
    };
    let definitions = schedules.iter().map(definition).collect();
    SyncOrder { application: application.to_owned(), owner, revision, definitions, adopts: false, by: by() }
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
    ("complete", |case, verbs| Ok(verbs.complete(&case.completes)? == Completed::Done)),
    ("pause", |case, verbs| Ok(case.pause(verbs)? == [Applied::Done])),
    ("pause a job", |case, verbs| {
        let (application, scope) = (case.application.clone(), Scope::Job("held".to_owned()));
        let order = SwitchOrder { application, scope, verb: SwitchVerb::Pause { until: None }, by: by() };
        Ok(verbs.switch(&order)? == Switched::Done)
    }),
    ("skip", |case, verbs| Ok(case.skip(verbs)? == [Applied::Done])),
    ("ensure another trigger", |case, verbs| {
        let trigger = Trigger::Delay(Delay::new(None, 60_000).unwrap());
        let definition = fixture::definition(&case.application, &case.held.name);
        Ok(verbs.ensure(&Definition { trigger, ..definition })? == Ensured::Changed)
    }),
    ("edit", |case, verbs| Ok(case.edit(verbs, None)? == Ensured::Changed)),
    ("edit of the trigger", |case, verbs| {
        let trigger = Trigger::Delay(Delay::new(None, 60_000).unwrap());
        Ok(case.edit(verbs, Some(trigger))? == Ensured::Changed)
    }),
    ("rerun", |case, verbs| Ok(case.rerun(verbs, None)? > case.rerun)),
    ("cancel a rerun", |case, verbs| {
        let (application, origin) = (case.application.clone(), case.rerun);
        let cancelled = verbs.cancel_rerun(&RerunCancel { application, origin, by: by() })?;
        Ok(cancelled == RerunCancelled::Done { cancelled: 1, asked: 0 })
    }),
    ("sync", |case, verbs| Ok(case.sync(verbs, &case.list(&[("a", 2), ("b", 1), ("c", 1)]))? == 1)),
    ("sync of a revision alone", |case, verbs| {
        Ok(case.sync(verbs, &case.list(&[("a", 1), ("b", 1), ("c", 1)]))? == 0)
    }),
    ("sync of what is so", |case, verbs| {
        let same = list(&case.application, 1, &[("a", 1), ("b", 1), ("c", 1)]);
        Ok(case.sync(verbs, &same)? == 0)
    }),
    ("sync a new schedule", |case, verbs| {
        Ok(case.sync(verbs, &case.list(&[("a", 1), ("aa", 1), ("b", 1), ("c", 1), ("z", 1)]))? == 2)
    }),
    ("sync without a schedule", |case, verbs| Ok(case.sync(verbs, &case.list(&[("b", 1), ("c", 1)]))? == 1)),
    ("sync a new owner", |case, verbs| {
        let owner = "accounting".to_owned();
        let order = SyncOrder { owner, ..list(&case.application, 1, &[("d", 1), ("e", 1)]) };
        Ok(case.sync(verbs, &order)? == 2)
    }),
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
    ("claim", |case| case.claim(&case.other)),
    ("claim of another of the owner's", |case| case.claim(&case.owned[0])),
    ("claim of the owner's last", |case| case.claim(&case.owned[1])),
    ("claim of the last of all", |case| case.claim(&case.last)),
    ("outcome", |case| Ok(case.store.apply(&[case.succeeds.clone().into()])? == [Applied::Done])),
    ("adding up outcomes", |case| {
        let application = case.application.clone();
        case.store.fold_outcomes(&OutcomeFold { application, now: fixture::AT, limit: 10 }).map(|_| true)
    }),
    ("expect", |case| case.store.expect(&[case.last.id]).map(|()| true)),
    ("ensure", |case| {
        // One beside each that there is.
        let names =
            ["A", "ab", "bb", "cc", "e0", "g0", "meanwhile", "pa", "r", "schedule-", "schedule-00", "zz"];
        let is_made =
            |name| -> crate::store::Result<bool> { Ok(case.ensure(&*case.store, name)? == Ensured::Created) };
        names.into_iter().try_fold(true, |all, name| Ok(is_made(name)? && all))
    }),
    ("ensure of another application", |case| {
        let application = format!("{}-", case.application);
        Ok(case.store.ensure(&fixture::definition(&application, "a"))? == Ensured::Created)
    }),
    ("enqueue of a new job", |case| case.enqueue(&*case.store, "hel").map(|_| true)),
    ("sync of another owner", |case| {
        let owner = "shop".to_owned();
        let order = SyncOrder { owner, ..list(&case.application, 1, &[("f", 1), ("g", 1)]) };
        Ok(case.sync(&*case.store, &order)? == 2)
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

/// An execution of a rerun was cancelled, before the snapshot of the caller's transaction or behind it, and
/// was tried again by hand since then.
fn an_attempt_at_a_rerun_that_an_older_snapshot_lacks_is_seen_or_told<C>(
    database: &Database,
    connection: &mut C,
) where
    C: Connection + Blocking,
{
    repeat_reads(database, connection);
    for ends_before in [false, true] {
        let case = Arc::new(Case::new(database));
        let reran = sql("SELECT r.id FROM QRTZ_RUN r WHERE r.application = ? AND r.origin = ?");
        let reran = reran.bind_all((case.application.as_str(), case.rerun));
        let reran = ExecutionId(database.session().rows(&reran).unwrap().remove(0).int().unwrap());
        let cancel = || assert_eq!(case.store.cancel(&case.order(reran)).unwrap(), Cancel::Done);
        if ends_before {
            cancel();
        }
        let rolled_back = connection.transaction(|connection| {
            connection.batch_execute("SELECT * FROM QRTZ_EXECUTE LIMIT 1")?;
            if !ends_before {
                cancel();
            }
            let Retry::Pending(_) = case.store.retry(&case.order(reran)).unwrap() else { panic!() };
            let answer = in_transaction(&case, connection, |case, verbs| {
                let (application, origin) = (case.application.clone(), case.rerun);
                verbs.cancel_rerun(&RerunCancel { application, origin, by: by() })
            });
            // On PostgreSQL nothing tells that it was tried again, unless it ended since the snapshot.
            if !ends_before || database.dialect() == Dialect::Mysql {
                assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict, "{ends_before}");
            }
            Err::<(), _>(diesel::result::Error::RollbackTransaction)
        });
        assert_eq!(rolled_back, Err(diesel::result::Error::RollbackTransaction));
        let order = RerunCancel { application: case.application.clone(), origin: case.rerun, by: by() };
        let ended = case.store.cancel_rerun(&order).unwrap();
        assert_eq!(ended, RerunCancelled::Done { cancelled: 1, asked: 0 }, "it still waits");
    }
}

/// What somebody else does after the snapshot.
type Other = fn(&Case);

/// An owner whose list was synced, or whose schedule was edited, since the snapshot of the caller's
/// transaction: no sync undoes that unseen.
fn what_was_synced_since_an_older_snapshot_is_seen_or_told<C>(database: &Database, connection: &mut C)
where
    C: Connection + Blocking,
{
    repeat_reads(database, connection);
    // Another list of the same revision, and an operator's edit; the priorities of "a" and "b" if ours is
    // made.
    let others: [(Other, [i64; 2]); 2] = [
        (|case| assert_eq!(case.sync(&*case.store, &case.list(&[("b", 7), ("c", 1)])).unwrap(), 2), [2, 1]),
        (|case| assert_eq!(case.edit_of(&*case.store, "a", None).unwrap(), Ensured::Changed), [7, 1]),
    ];
    for (other, expected) in others {
        let case = Arc::new(Case::new(database));
        let ended = connection.transaction(|connection| {
            connection.batch_execute("SELECT * FROM QRTZ_EXECUTE LIMIT 1")?;
            other(&case);
            let list = case.list(&[("a", 2), ("b", 1), ("c", 1)]);
            in_transaction(&case, connection, move |case, verbs| case.sync(verbs, &list)).map_err(|error| {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                diesel::result::Error::RollbackTransaction
            })
        });
        let priority = |name| {
            let row = case.store.schedule(&case.application, name).unwrap();
            row.and_then(|row| row.settings.priority).unwrap()
        };
        if ended.is_ok() {
            assert_eq!(["a", "b"].map(priority), expected);
        }
    }
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
    fn what_was_synced_since_an_older_snapshot_is_seen_or_told() {
        let database = Database::postgres();
        let mut connection = diesel::PgConnection::establish(&database.url).unwrap();
        super::what_was_synced_since_an_older_snapshot_is_seen_or_told(&database, &mut connection);
    }

    #[test]
    fn an_attempt_that_an_older_snapshot_lacks_is_seen_or_told() {
        let database = Database::postgres();
        let mut connection = diesel::PgConnection::establish(&database.url).unwrap();
        super::an_attempt_that_an_older_snapshot_lacks_is_seen_or_told(&database, &mut connection);
    }

    #[test]
    fn an_attempt_at_a_rerun_that_an_older_snapshot_lacks_is_seen_or_told() {
        let database = Database::postgres();
        let mut connection = diesel::PgConnection::establish(&database.url).unwrap();
        super::an_attempt_at_a_rerun_that_an_older_snapshot_lacks_is_seen_or_told(&database, &mut connection);
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
    fn what_was_synced_since_an_older_snapshot_is_seen_or_told() {
        let database = Database::mariadb();
        let mut connection = diesel::MysqlConnection::establish(&database.url).unwrap();
        super::what_was_synced_since_an_older_snapshot_is_seen_or_told(&database, &mut connection);
    }

    #[test]
    fn an_attempt_that_an_older_snapshot_lacks_is_seen_or_told() {
        let database = Database::mariadb();
        let mut connection = diesel::MysqlConnection::establish(&database.url).unwrap();
        super::an_attempt_that_an_older_snapshot_lacks_is_seen_or_told(&database, &mut connection);
    }

    #[test]
    fn an_attempt_at_a_rerun_that_an_older_snapshot_lacks_is_seen_or_told() {
        let database = Database::mariadb();
        let mut connection = diesel::MysqlConnection::establish(&database.url).unwrap();
        super::an_attempt_at_a_rerun_that_an_older_snapshot_lacks_is_seen_or_told(&database, &mut connection);
    }
}
