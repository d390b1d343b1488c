//! A node far from its database.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use chrono::Utc;
use firetime::{Client, ErrorKind, Job, Overlap, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;

use crate::chaos::cluster::{address, protocol};
use crate::chaos::proxy::{Mode, Proxy};
use crate::support::database::ServerKind;
use crate::trial;

const TICK: Job<()> = Job::new("tick");
const SOON: Duration = Duration::from_secs(30);

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    if protocol(kind).is_none() {
        return;
    }
    let mut add = |name: &str, check: fn(ServerKind)| {
        trials.push(trial(format!("{}::distant::{name}", kind.name()), move || check(kind)));
    };
    add("a_chain_of_300_ms_keeps_up_over_50_ms_of_round_trip", a_chain_keeps_up);
    add("a_node_lives_far_from_its_database", a_node_lives);
    add("a_clients_calls_end_on_a_network_that_has_gone_silent", a_clients_calls_end);
}

/// A new database behind a proxy, and its URL there.
fn behind(kind: ServerKind, round_trip: Duration) -> (Proxy, String) {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let address = address(&database.url);
    let proxy = Proxy::new(address, protocol(kind).unwrap());
    proxy.set(Mode::Delay(round_trip / 2));
    let url = database.url.replace(&address.to_string(), &format!("127.0.0.1:{}", proxy.port()));
    (proxy, url)
}

/// The next link of a chain is claimed after the claim before it.
fn a_chain_keeps_up(kind: ServerKind) {
    const LINKS: usize = 40;
    let (_proxy, url) = behind(kind, Duration::from_millis(50));
    let (begun, begins) = channel();
    let begun = Mutex::new(begun);
    let node = Scheduler::builder("distant", &url)
        .migrate(false)
        .handler(TICK, move |context, ()| {
            let late = (Utc::now() - context.fire_time()).num_milliseconds();
            begun.lock().unwrap().send(late)?;
            Ok(())
        })
        .start()
        .unwrap();
    let every = Trigger::every(Duration::from_millis(300)).unwrap();
    let chain = Schedule::new("chain", TICK, &(), every).unwrap().overlap(Overlap::Allow);
    node.client().ensure(&chain).run().unwrap();
    let late: Vec<i64> = (0..LINKS).map(|_| begins.recv_timeout(SOON).unwrap()).collect();
    assert!(late[LINKS - 5..].iter().all(|late| *late < 900), "{late:?}");
    assert!(node.shutdown(SOON).is_clean());
}

/// With the default limits it migrates, starts, fires and stops; to open a connection takes many round trips.
fn a_node_lives(kind: ServerKind) {
    let round_trip = if kind.name() == "postgres" { 150 } else { 120 };
    let (_proxy, url) = behind(kind, Duration::from_millis(round_trip));
    let (begun, begins) = channel();
    let begun = Mutex::new(begun);
    let node = Scheduler::builder("distant", &url)
        .handler(TICK, move |_, ()| Ok(begun.lock().unwrap().send(())?))
        .start()
        .unwrap();
    let every = Trigger::every(Duration::from_secs(1)).unwrap();
    node.client().ensure(&Schedule::new("ticks", TICK, &(), every).unwrap()).run().unwrap();
    (0..3).for_each(|_| begins.recv_timeout(SOON).unwrap());
    assert!(node.shutdown(SOON).is_clean());
}

/// Those of several threads at once, again and again: each outage took the connections in use with it, until
/// none was left.
fn a_clients_calls_end(kind: ServerKind) {
    const CALLERS: usize = 40;
    let (proxy, url) = behind(kind, Duration::ZERO);
    let client = Client::connect("distant", &url).unwrap();
    let every = Trigger::every(Duration::from_secs(3_600)).unwrap();
    let schedule = Schedule::new("hourly", TICK, &(), every).unwrap();
    // Connections that are being opened as the network falls silent take their time to give up.
    let works = |client: &Client| {
        let deadline = Instant::now() + SOON;
        while let Err(error) = client.ensure(&schedule).run() {
            assert!(Instant::now() < deadline, "{error}");
        }
    };
    for _ in 0..2 {
        std::thread::scope(|scope| {
            let call = || works(&client);
            (0..CALLERS).for_each(|_| drop(scope.spawn(call)));
        });
        proxy.set(Mode::Swallow);
        std::thread::scope(|scope| {
            let call = || {
                let began = Instant::now();
                let error = client.ensure(&schedule).run().unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable), "{error}");
                assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
            };
            (0..CALLERS).for_each(|_| drop(scope.spawn(call)));
        });
        proxy.set(Mode::Pass);
    }
    works(&client);
}
