//! Decisions that rest on a row which they do not change, made on different members of a Galera cluster at
//! once: locks end at their member.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use diesel::{Connection, MysqlConnection};
use firetime::{Cancelled, Client, Context, ErrorKind, ExecutionFilter, Job, Retry, Scheduler};
use libtest_mimic::Trial;

use crate::chaos::cluster::rotated;
use crate::chaos::hand::{Hand, each_host};
use crate::chaos::servers::Servers;
use crate::support::database::{Database, ServerKind};
use crate::support::scheduler::{APPLICATION, SOON, builder, teller};
use crate::trial;

const MEMBERS: usize = 3;

/// Where `scripts/chaos.sh --galera` has started a cluster.
pub fn add(trials: &mut Vec<Trial>) {
    let tests: &[(&str, fn(&Database))] = &[
        ("a_bound_holds_on_all_members", a_bound_holds_on_all_members),
        ("a_cancel_on_another_member_keeps_the_retry_away", a_cancel_keeps_the_retry_away),
        ("a_key_has_one_execution_on_all_members", a_key_has_one_execution_on_all_members),
        (
            "a_callers_transaction_that_is_overtaken_is_a_conflict",
            an_overtaken_callers_transaction_is_a_conflict,
        ),
    ];
    for (name, test) in tests {
        trials.push(trial(format!("galera::members::{name}"), move || test(&fresh())));
    }
}

fn fresh() -> Database {
    let database = Servers::galera().fresh();
    firetime::migrate(&database.url).unwrap();
    database
}

/// The same database, first at this member.
fn at(database: &Database, member: usize) -> Database {
    database.clone().at(rotated(&database.url, member))
}

fn client(database: &Database, member: usize) -> Client {
    Client::connect(APPLICATION, &at(database, member).url).unwrap()
}

fn a_bound_holds_on_all_members(database: &Database) {
    const BOUNDED: Job<u64> = Job::new("bounded").concurrency(2);
    const COUNT: usize = 150;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (tell, told) = teller();
    let nodes: Vec<Scheduler> = (0..MEMBERS)
        .map(|member| {
            let (running, most, tell) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&tell));
            let work = move |_: &Context, millis: u64| {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // The job's own work: nothing is waited for.
                std::thread::sleep(Duration::from_millis(millis));
                running.fetch_sub(1, Ordering::SeqCst);
                tell.lock().unwrap().send(()).unwrap();
                Ok(())
            };
            builder(&at(database, member)).handler(BOUNDED, work).start().unwrap()
        })
        .collect();
    let payloads: Vec<u64> = (0..COUNT as u64).map(|n| n % 20).collect();
    client(database, 0).enqueue_many(BOUNDED, &payloads).run().unwrap();
    for _ in 0..COUNT {
        told.recv_timeout(SOON).unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
    for node in nodes {
        assert!(node.shutdown(SOON).is_clean());
    }
}

/// Executions fail while somebody asks for their end.
fn a_cancel_keeps_the_retry_away(database: &Database) {
    const FAILING: Job<u64> = Job::new("failing").retry(Retry::fixed(Duration::from_millis(10)).at_most(3));
    const COUNT: u64 = 60;
    let (tell, told) = teller();
    let node = builder(database)
        .handler(FAILING, move |context, millis: u64| -> Result<(), _> {
            tell.lock().unwrap().send((context.execution(), context.attempt())).unwrap();
            // The job's own work: nothing is waited for.
            std::thread::sleep(Duration::from_millis(millis));
            Err("on purpose".into())
        })
        .start()
        .unwrap();
    let client = client(database, 1);
    let mut asked = 0;
    for n in 0..COUNT {
        // Some fail before the request, some after it.
        let id = client.enqueue(FAILING, &(n % 6)).run().unwrap().id();
        loop {
            let (execution, attempt) = told.recv_timeout(SOON).unwrap();
            if execution == id {
                assert_eq!(attempt, 1);
                break;
            }
        }
        match client.cancel(id).run() {
            Ok(Cancelled::Asked { .. }) => asked += 1,
            Ok(_) => {}
            // A member that lost often enough says so; nothing is stored then.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
    assert!(node.shutdown(SOON).is_clean());
    let mut hand = Hand::open(ServerKind::Mariadb, &database.url).unwrap();
    let requests = "FROM QRTZ_CANCEL c JOIN QRTZ_RUN r ON r.id = c.execution_id";
    assert_eq!(hand.rows("COUNT(*)", requests), [[asked.to_string()]]);
    let followed = format!("{requests} JOIN QRTZ_RUN f ON f.origin = r.origin AND f.attempt > r.attempt");
    assert_eq!(hand.rows("r.id, r.state, f.id, f.state", &followed), Vec::<Vec<String>>::new());
    assert!(asked > 0);
}

/// Clients on all members enqueue with one key at once.
fn a_key_has_one_execution_on_all_members(database: &Database) {
    const KEYED: Job<u64> = Job::new("keyed");
    const KEYS: u64 = 30;
    let clients: Vec<Client> = (0..MEMBERS).map(|member| client(database, member)).collect();
    std::thread::scope(|scope| {
        for client in &clients {
            scope.spawn(move || {
                for key in 0..KEYS {
                    let enqueued = client.enqueue(KEYED, &key).key(&key.to_string()).run();
                    // A member that lost often enough says so; nothing is stored then.
                    if let Err(error) = enqueued {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    }
                }
            });
        }
    });
    let rows =
        clients[0].executions(&ExecutionFilter { limit: 1_000, ..ExecutionFilter::default() }).unwrap();
    let keys: BTreeSet<&str> = rows.iter().filter_map(|row| row.key.as_deref()).collect();
    assert_eq!((rows.len() as u64, keys.len() as u64), (KEYS, KEYS), "{rows:?}");
}

/// A caller enqueues with a key in a transaction of its own, and before its commit somebody on another member
/// does.
fn an_overtaken_callers_transaction_is_a_conflict(database: &Database) {
    const KEYED: Job<u64> = Job::new("keyed");
    let (here, elsewhere) = (client(database, 0), client(database, 1));
    here.enqueue(KEYED, &0).run().unwrap();
    let first = &each_host(&database.url)[0];
    let mut observer = Hand::open(ServerKind::Mariadb, first).unwrap();
    observer.run("SET SESSION wsrep_sync_wait = 1").unwrap();
    let mut connection = MysqlConnection::establish(first).unwrap();
    let ended: Result<(), _> = connection.transaction(|connection| {
        here.enqueue(KEYED, &1).key("k").run_in(connection).unwrap();
        elsewhere.enqueue(KEYED, &2).key("k").run().unwrap();
        // Once this member has it, too, it has ended our transaction.
        observer.rows("1", "");
        let error = here.enqueue(KEYED, &3).run_in(connection).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        Err(diesel::result::Error::RollbackTransaction)
    });
    ended.unwrap_err();
    assert_eq!(observer.rows("payload", "FROM QRTZ_RUN ORDER BY id"), [["0"], ["2"]]);
}
