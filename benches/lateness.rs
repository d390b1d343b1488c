//! How late jobs start on an idle cluster: three node processes, twenty schedules a second, the clock read as
//! the handler's first statement.
//!
//! ```sh
//! cargo bench --bench lateness                                  # SQLite in a temporary folder
//! scripts/with-servers.sh cargo bench --features postgres,mysql --bench lateness
//! cargo bench --bench lateness -- --seconds 60 --nodes 2
//! ```

#![allow(clippy::disallowed_methods, reason = "a bench reads the real clock")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench prints, and panics when it cannot go on"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{Client, Job, Schedule, Scheduler, Trigger};

const NODE: &str = "FIRETIME_BENCH_NODE";
const TICK: Job<()> = Job::new("tick");
const APPLICATION: &str = "lateness";
const SCHEDULES: i64 = 20;

fn main() {
    if let Ok(url) = std::env::var(NODE) {
        return node(&url);
    }
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: i64| {
        let at = arguments.iter().position(|it| it == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(default, |text| text.parse().expect("a number"))
    };
    let (seconds, nodes) = (number("--seconds", 30), number("--nodes", 3));
    let folder = tempfile::tempdir().unwrap();
    println!("{nodes} nodes, {SCHEDULES} schedules every second for {seconds} s; start lateness in ms");
    println!("{:<10} {:>6} {:>8} {:>8} {:>8} {:>8}", "database", "runs", "p50", "p95", "p99", "max");
    let sqlite = format!("sqlite:{}", folder.path().join("lateness.db").display());
    for (name, url) in [
        ("sqlite", Some(sqlite)),
        ("postgres", std::env::var("FIRETIME_TEST_POSTGRES_URL").ok().filter(|_| cfg!(feature = "postgres"))),
        ("mariadb", std::env::var("FIRETIME_TEST_MARIADB_URL").ok().filter(|_| cfg!(feature = "mysql"))),
    ] {
        match url {
            Some(url) => report(name, &measure(&url, nodes, seconds)),
            None => println!(
                "{name:<10} not measured: start it with scripts/with-servers.sh and enable its feature"
            ),
        }
    }
}

/// Runs what is due and prints, per run, how many microseconds late it began; ends with its standard input.
fn node(url: &str) {
    let scheduler = Scheduler::builder(APPLICATION, url)
        .handler(TICK, |context, ()| {
            let now = Utc::now();
            let mut out = std::io::stdout().lock();
            writeln!(out, "{}", (now - context.fire_time()).num_microseconds().unwrap_or(i64::MAX))?;
            Ok(out.flush()?)
        })
        .start()
        .unwrap();
    println!("ready");
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    scheduler.shutdown(Duration::from_secs(10));
}

fn measure(url: &str, nodes: i64, seconds: i64) -> Vec<i64> {
    firetime::migrate(url).unwrap();
    let client = Client::connect(APPLICATION, url).unwrap();
    let start = DateTime::from_timestamp(Utc::now().timestamp() + 8, 0).unwrap();
    for n in 0..SCHEDULES {
        // Spread over the second: twenty separate claims, not one batch.
        let first = start + TimeDelta::milliseconds(1_000 * n / SCHEDULES);
        let trigger = Trigger::every(Duration::from_secs(1)).unwrap().starting(first).unwrap();
        let schedule = Schedule::new(&format!("tick-{n}-{start}"), TICK, &(), trigger).unwrap();
        client
            .ensure(&schedule.ending(start + TimeDelta::seconds(seconds) - TimeDelta::milliseconds(1)))
            .unwrap();
    }
    let (tell, told) = channel();
    let mut children: Vec<Child> = (0..nodes)
        .map(|_| {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .env(NODE, url)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let (tell, out) = (tell.clone(), child.stdout.take().unwrap());
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    tell.send(line).ok();
                }
            });
            child
        })
        .collect();
    let deadline = start + TimeDelta::seconds(seconds + 30);
    let mut late = Vec::new();
    while late.len() < usize::try_from(SCHEDULES * seconds).unwrap() {
        let left = (deadline - Utc::now()).to_std().expect("the deadline has come: runs are missing");
        late.extend(told.recv_timeout(left).expect("runs are missing").parse::<i64>());
    }
    for child in &mut children {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    late
}

fn report(name: &str, late: &[i64]) {
    let mut late = late.to_vec();
    late.sort_unstable();
    #[allow(clippy::cast_precision_loss, reason = "microseconds of lateness are small")]
    let at = |percent: usize| late[(late.len() - 1) * percent / 100] as f64 / 1_000.0;
    println!("{name:<10} {:>6} {:>8.2} {:>8.2} {:>8.2} {:>8.2}", late.len(), at(50), at(95), at(99), at(100));
}
