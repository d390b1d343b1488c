//! What a process keeps of clients and schedulers that are gone: no thread and no connection. Each test runs
//! in a process of its own, where nothing else starts any.

use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use chrono::Utc;
use firetime::{Builder, Client, ExecutionFilter, Job, Schedule, Scheduler, Trigger};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};

use crate::chaos::hand::Hand;
use crate::support::database::{Database, ServerKind, all};
use crate::support::node::{Line, Nodes, WORK, be_a_node};
use crate::trial;

const WANTED: &str = "FIRETIME_IT_LEFTOVERS";
const URL: &str = "FIRETIME_IT_LEFTOVERS_URL";
const NOTHING: Job<()> = Job::new("nothing");
const APPLICATION: &str = "leftovers";
/// Threads end as soon as the machine lets them run.
const SOON: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);

const TESTS: &[(&str, fn(&str))] = &[
    ("dropped_clients_leave_nothing", dropped_clients_leave_nothing),
    ("failed_starts_leave_nothing", failed_starts_leave_nothing),
    ("ended_schedulers_leave_nothing", ended_schedulers_leave_nothing),
    ("a_logger_that_panics_costs_nothing", a_logger_that_panics_costs_nothing),
];

#[cfg(feature = "sqlite")]
const ON_SQLITE: &[(&str, fn(&str))] =
    &[("hundreds_of_schedulers_leave_nothing", hundreds_of_schedulers_leave_nothing)];
#[cfg(not(feature = "sqlite"))]
const ON_SQLITE: &[(&str, fn(&str))] = &[];

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let only_here: &[_] = if kind.name() == "sqlite" { ON_SQLITE } else { &[] };
    if kind.name() != "sqlite" {
        let name = format!("{}::leftovers::a_freeze_leaves_few_connections", kind.name());
        trials.push(trial(name, move || a_freeze_leaves_few_connections(kind)));
    }
    for (name, _) in TESTS.iter().chain(only_here) {
        let run = move || in_a_process_of_its_own(name, kind);
        trials.push(trial(format!("{}::leftovers::{name}", kind.name()), run));
    }
}

/// The calls under way in a frozen node are abandoned when it wakes up, and others take the place of their
/// connections.
fn a_freeze_leaves_few_connections(kind: ServerKind) {
    // Four loops and the heartbeat; on PostgreSQL also who listens.
    let most = if kind.name() == "postgres" { 6 } else { 5 };
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let mut hand = Hand::open(kind, &database.url).unwrap();
    let (lock, unlock) = match kind.name() {
        "postgres" => ("BEGIN; LOCK TABLE QRTZ_APP, QRTZ_NODE, QRTZ_EXECUTE, QRTZ_RUN", "COMMIT"),
        _ => (
            "LOCK TABLES QRTZ_APP WRITE, QRTZ_NODE WRITE, QRTZ_EXECUTE WRITE, QRTZ_RUN WRITE",
            "UNLOCK TABLES",
        ),
    };
    let mut nodes = Nodes::none();
    let command = be_a_node(Command::new(std::env::current_exe().unwrap()), &database.url);
    let pid = Pid::from_raw(i32::try_from(nodes.spawn(command)).unwrap()).unwrap();
    assert_eq!(nodes.next(LONG).1, Line::Ready);
    let client = Client::connect(crate::support::node::APPLICATION, &database.url).unwrap();
    let every = Trigger::every(Duration::from_millis(20)).unwrap();
    client.ensure(&Schedule::new("work", WORK, &0, every).unwrap()).run().unwrap();
    drop(client);
    for _ in 0..6 {
        while !matches!(nodes.next(LONG).1, Line::Ended { .. }) {}
        // Every loop has a call under way when the node freezes.
        lock_tables(&mut hand, lock);
        silence(&mut nodes, Duration::from_millis(900));
        kill_process(pid, Signal::STOP).unwrap();
        hand.run(unlock).unwrap();
        silence(&mut nodes, Duration::from_millis(2_500));
        kill_process(pid, Signal::CONT).unwrap();
    }
    let until = Instant::now() + SOON;
    let mut open = connections(&mut hand);
    while open > most {
        assert!(Instant::now() < until, "{open} connections");
        silence(&mut nodes, Duration::from_millis(100));
        open = connections(&mut hand);
    }
    nodes.stop();
}

/// Tables are locked one after the other: a statement of the node may hold the last and wait for the first,
/// and PostgreSQL then ends one of the two.
fn lock_tables(hand: &mut Hand, lock: &str) {
    while let Err(error) = hand.run(lock) {
        assert!(error.to_string().contains("deadlock"), "{error}");
        hand.run("ROLLBACK").unwrap();
    }
}

/// What the nodes say for so long is not of interest.
fn silence(nodes: &mut Nodes, span: Duration) {
    let until = Instant::now() + span;
    while nodes.heard(until.saturating_duration_since(Instant::now())).is_some() {}
}

/// How many others are connected to the database.
fn connections(hand: &mut Hand) -> usize {
    let from = match hand {
        #[cfg(feature = "postgres")]
        Hand::Postgres(_) => {
            "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        }
        _ => "FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
    };
    hand.rows("COUNT(*)", from)[0][0].parse().unwrap()
}

fn in_a_process_of_its_own(name: &str, kind: ServerKind) {
    let database = kind.fresh();
    firetime::migrate(&database.url).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.env(WANTED, name).env(URL, &database.url).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    nothing_is_held(&database);
}

/// No node lives, and nothing is claimed or running.
fn nothing_is_held(database: &Database) {
    let client = Client::connect(APPLICATION, &database.url).unwrap();
    let nodes = client.nodes().unwrap();
    assert!(nodes.iter().all(|node| node.ended.is_some()), "{nodes:?}");
    let rows = client.executions(&ExecutionFilter::default()).unwrap();
    let held = rows.iter().filter(|row| ["CLAIMED", "RUNNING"].contains(&row.state.as_str()));
    assert_eq!(held.count(), 0, "{rows:?}");
}

pub fn is_wanted() -> bool {
    std::env::var_os(WANTED).is_some()
}

pub fn main() {
    let (name, url) = (std::env::var(WANTED).unwrap(), std::env::var(URL).unwrap());
    let mut all = TESTS.iter().chain(ON_SQLITE);
    let (_, run) = all.find(|(test, _)| *test == name).unwrap();
    // The threads of expand are the process's: they stay.
    one_life(&url, "first");
    run(&url);
}

fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    count.trim().parse().unwrap()
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What `work` leaves behind is gone soon after it.
fn leaves_nothing(work: impl FnOnce()) {
    let before = (threads(), files());
    work();
    let until = Instant::now() + SOON;
    let mut after = (threads(), files());
    while after > before || after.1 > before.1 {
        assert!(Instant::now() < until, "threads and files: {before:?} before, {after:?} after");
        std::thread::yield_now();
        after = (threads(), files());
    }
}

fn builder(url: &str) -> Builder {
    Scheduler::builder(APPLICATION, url).migrate(false).handler(NOTHING, |_, ()| Ok(()))
}

fn dropped_clients_leave_nothing(url: &str) {
    leaves_nothing(|| {
        for _ in 0..50 {
            Client::connect(APPLICATION, url).unwrap().schedules().unwrap();
        }
    });
}

fn failed_starts_leave_nothing(url: &str) {
    // The schema is read, and then the node cannot register.
    let kind = all().into_iter().find(|kind| url.starts_with(scheme(*kind))).unwrap();
    let run = |statement| Hand::open(kind, url).unwrap().run(statement).unwrap();
    run("ALTER TABLE QRTZ_NODE RENAME TO away");
    leaves_nothing(|| {
        for _ in 0..20 {
            builder(url).start().unwrap_err();
        }
    });
    run("ALTER TABLE away RENAME TO QRTZ_NODE");
}

fn scheme(kind: ServerKind) -> &'static str {
    match kind.name() {
        "mariadb" => "mysql",
        name => name,
    }
}

/// Starts a node, waits until it has run something, and shuts it down.
fn one_life(url: &str, name: &str) {
    let (tell, told) = channel();
    let scheduler = Scheduler::builder(APPLICATION, url)
        .migrate(false)
        .handler(NOTHING, move |_, ()| Ok(tell.send(())?))
        .start()
        .unwrap();
    let now = Trigger::once(Utc::now()).unwrap();
    scheduler.client().ensure(&Schedule::new(name, NOTHING, &(), now).unwrap()).run().unwrap();
    told.recv_timeout(LONG).unwrap();
    assert!(scheduler.shutdown(LONG).is_clean());
}

fn ended_schedulers_leave_nothing(url: &str) {
    leaves_nothing(|| (0..20).for_each(|n| one_life(url, &format!("life-{n}"))));
}

/// It panics at each line, also at the one that says that it panicked.
fn a_logger_that_panics_costs_nothing(url: &str) {
    struct Panicking;
    impl log::Log for Panicking {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }

        fn log(&self, _: &log::Record<'_>) {
            panic!("no disk");
        }

        fn flush(&self) {}
    }
    log::set_logger(&Panicking).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    std::panic::set_hook(Box::new(|_| {}));
    leaves_nothing(|| one_life(url, "logged"));
}

/// Started at once and in turn; shut down, dropped, and left behind while the database is locked.
#[cfg(feature = "sqlite")]
fn hundreds_of_schedulers_leave_nothing(url: &str) {
    let kind = ServerKind::Sqlite;
    leaves_nothing(|| {
        for _ in 0..150 {
            assert!(builder(url).start().unwrap().shutdown(LONG).is_clean());
        }
        for _ in 0..5 {
            let many: Vec<Scheduler> = (0..30).map(|_| builder(url).start().unwrap()).collect();
            std::thread::scope(|scope| {
                many.iter().for_each(|it| drop(scope.spawn(|| it.shutdown(LONG))));
            });
        }
        let dropped = |_| {
            let (tell, ended) = channel();
            let tell = std::sync::Mutex::new(tell);
            let stopped = move |event: &firetime::Event| {
                if matches!(event, firetime::Event::Stopped { .. }) {
                    tell.lock().unwrap().send(()).ok();
                }
            };
            drop(builder(url).on_event(stopped).start().unwrap());
            ended
        };
        let ends: Vec<_> = (0..60).map(dropped).collect();
        ends.iter().for_each(|ended| ended.recv_timeout(LONG).unwrap());
        let orphans: Vec<Scheduler> = (0..20).map(|_| builder(url).start().unwrap()).collect();
        let mut hand = Hand::open(kind, url).unwrap();
        hand.run("BEGIN IMMEDIATE").unwrap();
        std::thread::scope(|scope| {
            orphans.iter().for_each(|it| drop(scope.spawn(|| it.shutdown(Duration::from_millis(100)))));
        });
        drop(orphans);
        hand.run("COMMIT").unwrap();
        // Nobody else would declare them dead.
        hand.run("UPDATE QRTZ_NODE SET ended_time = 1 WHERE ended_time = -1").unwrap();
    });
}
