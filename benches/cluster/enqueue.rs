//! Runs of enqueued executions: how soon one begins on an idle cluster, and how fast many are stored and run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use firetime::Client;
use serde::Serialize;

use crate::Result;
use crate::arguments::Arguments;
use crate::figures::{self, Lateness};
use crate::node::{APPLICATION, ENQUEUED, GROUPED, SECOND_GROUP, Seen, Told, WAITING};
use crate::run::{Costs, Observer, peak, start_nodes, started, stop, wait_for_handlers};
use crate::server::{Database, Server};

/// The nodes have polled and found each other.
const SETTLED: Duration = Duration::from_secs(7);
/// One execution follows another this much later at least,
const PAUSE: u64 = 250;
/// and this much at most: polls and heartbeats meet it in all their phases.
const LONGEST_PAUSE: u64 = 750;

/// A new database and a client of it, with so many executions that have ended, and as many that are due in a
/// year.
fn database_among(server: &Server, count: usize) -> Result<(Database<'_>, Client)> {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
    const END: &str = "UPDATE QRTZ_RUN SET state = 'SUCCEEDED', node = 'bench', fence = 1, claimed_time = due_time, \
        started_time = due_time, finished_time = due_time";
    let database = server.fresh()?;
    firetime::migrate(&database.url)?;
    let client = Client::connect(APPLICATION, &database.url)?;
    let numbers: Vec<usize> = (0..count).collect();
    for some in numbers.chunks(100_000) {
        client.enqueue_many(ENQUEUED, some).run()?;
    }
    if count > 0 {
        database.connect()?.batch(END)?;
    }
    for some in numbers.chunks(100_000) {
        client.enqueue_many(ENQUEUED, some).after(YEAR).run()?;
    }
    database.settle()?;
    Ok((database, client))
}

/// Executions enqueued one by one by another process than the nodes'.
#[derive(Serialize)]
pub struct Started {
    workload: &'static str,
    database: &'static str,
    nodes: u16,
    executions: usize,
    among: usize,
    behind: usize,
    start_ms: Lateness,
    poll_ms: u64,
    enqueue_ms: Lateness,
    cpu_s_nodes: f64,
    duplicates: usize,
    missing: usize,
}

pub fn one_by_one(server: &Server, arguments: &Arguments, nodes: u16) -> Result<Started> {
    let (database, client) = database_among(server, arguments.among)?;
    let mut cluster = start_nodes(&database, nodes, arguments)?;
    std::thread::sleep(SETTLED);
    let backlog: Vec<usize> = (SECOND_GROUP..).take(arguments.behind).collect();
    client.enqueue_many(GROUPED, &backlog).run()?;
    let (job, wanted) = match arguments.behind {
        0 => (ENQUEUED, arguments.executions()),
        behind => (GROUPED, arguments.executions() + behind),
    };
    let before = Costs::read(server, &cluster)?;
    let (mut asked, mut took) = (Vec::new(), Vec::new());
    for n in 0..arguments.executions() {
        // Multiples of an odd number go through all remainders.
        let pause = PAUSE + (n as u64 * 7_919) % (LONGEST_PAUSE - PAUSE);
        std::thread::sleep(Duration::from_millis(pause));
        let at = Utc::now();
        client.enqueue(job, &n).run()?;
        asked.push(at);
        took.push((Utc::now() - at).num_microseconds().unwrap_or(i64::MAX));
    }
    wait_for_handlers(&mut cluster, wanted)?;
    let costs = Costs::read(server, &cluster)?.since(&before);
    let Told { seen, longest_poll, .. } = stop(cluster)?;
    let counted = Counted::of(&seen, wanted);
    let start = |one: &Seen| Some((started(one) - *asked.get(one.schedule)?).num_microseconds().unwrap_or(0));
    Ok(Started {
        workload: "enqueue",
        database: server.kind.name(),
        nodes,
        executions: seen.len(),
        among: arguments.among,
        behind: arguments.behind,
        start_ms: Lateness::of(seen.iter().filter_map(start).collect()),
        poll_ms: longest_poll,
        enqueue_ms: Lateness::of(took),
        cpu_s_nodes: figures::rounded(costs.nodes, 2),
        duplicates: counted.duplicates,
        missing: counted.missing,
    })
}

/// Executions enqueued together, and run by nodes that start later.
#[derive(Serialize)]
pub struct Bulk {
    workload: &'static str,
    database: &'static str,
    nodes: u16,
    executions: usize,
    among: usize,
    insert_s: f64,
    executions_per_s: f64,
    transactions_per_execution: Option<f64>,
    wal_bytes_per_execution: Option<f64>,
    lost_claim_share: f64,
    cpu_s_nodes: f64,
    cpu_s_database: Option<f64>,
    peak_rss_mb: f64,
    duplicates: usize,
    missing: usize,
}

pub fn together(server: &Server, arguments: &Arguments, nodes: u16) -> Result<Bulk> {
    let (database, client) = database_among(server, arguments.among)?;
    let numbers: Vec<usize> = (0..arguments.executions()).collect();
    let began = Instant::now();
    client.enqueue_many(ENQUEUED, &numbers).run()?;
    let insert = began.elapsed();
    drop(client);
    database.settle()?;
    database.count_commits()?;
    let mut observer = Observer::new(&database)?;
    observer.flush()?;
    let commits = database.commits()?;
    let before = Costs::read(server, &[])?;
    let mut cluster = start_nodes(&database, nodes, arguments)?;
    wait_for_handlers(&mut cluster, arguments.executions())?;
    let ended = observer.wait_for_outcomes()?;
    let costs = Costs::read(server, &cluster)?.since(&before);
    let peak_rss_mb = peak(&cluster)?;
    let Told { seen, lost, .. } = stop(cluster)?;
    let commits = observer.leave(&database, commits)?;
    let counted = Counted::of(&seen, arguments.executions());
    let first: DateTime<Utc> = seen.iter().map(started).min().unwrap_or(ended);
    let executions = figures::real(seen.len());
    Ok(Bulk {
        workload: "bulk",
        database: server.kind.name(),
        nodes,
        executions: seen.len(),
        among: arguments.among,
        insert_s: figures::rounded(insert.as_secs_f64(), 2),
        executions_per_s: figures::rounded(executions / (ended - first).as_seconds_f64(), 1),
        transactions_per_execution: commits.map(|n| figures::rounded(n as f64 / executions, 4)),
        wal_bytes_per_execution: costs.wal.map(|n| figures::rounded(n as f64 / executions, 1)),
        lost_claim_share: figures::rounded(lost as f64 / (lost as f64 + executions), 5),
        cpu_s_nodes: figures::rounded(costs.nodes, 2),
        cpu_s_database: costs.database.map(|seconds| figures::rounded(seconds, 2)),
        peak_rss_mb,
        duplicates: counted.duplicates,
        missing: counted.missing,
    })
}

/// Async handlers that all wait at once, on two threads.
#[derive(Serialize)]
pub struct Waiting {
    workload: &'static str,
    database: &'static str,
    executions: usize,
    /// From the first handler's start to the last one's.
    began_s: f64,
    /// From there to the last outcome.
    ended_s: f64,
    cpu_s_nodes: f64,
    /// Of the node, before it has any executions and in all.
    idle_rss_mb: f64,
    peak_rss_mb: f64,
    duplicates: usize,
    missing: usize,
}

pub fn waiting(server: &Server, arguments: &Arguments) -> Result<Waiting> {
    let (database, client) = database_among(server, 0)?;
    let mut cluster = start_nodes(&database, 1, arguments)?;
    let (before, idle_rss_mb) = (Costs::read(server, &cluster)?, peak(&cluster)?);
    let mut observer = Observer::new(&database)?;
    let numbers: Vec<usize> = (0..arguments.executions()).collect();
    client.enqueue_many(WAITING, &numbers).run()?;
    wait_for_handlers(&mut cluster, arguments.executions())?;
    let ended = observer.wait_for_outcomes()?;
    let costs = Costs::read(server, &cluster)?.since(&before);
    let peak_rss_mb = peak(&cluster)?;
    let Told { seen, .. } = stop(cluster)?;
    let counted = Counted::of(&seen, arguments.executions());
    let first: DateTime<Utc> = seen.iter().map(started).min().unwrap_or(ended);
    let last: DateTime<Utc> = seen.iter().map(started).max().unwrap_or(ended);
    Ok(Waiting {
        workload: "waiting",
        database: server.kind.name(),
        executions: seen.len(),
        began_s: figures::rounded((last - first).as_seconds_f64(), 2),
        ended_s: figures::rounded((ended - last).as_seconds_f64(), 2),
        cpu_s_nodes: figures::rounded(costs.nodes, 2),
        idle_rss_mb,
        peak_rss_mb,
        duplicates: counted.duplicates,
        missing: counted.missing,
    })
}

/// By the handlers' word.
struct Counted {
    duplicates: usize,
    missing: usize,
}

impl Counted {
    fn of(seen: &[Seen], wanted: usize) -> Self {
        let mut ran: HashMap<usize, usize> = HashMap::new();
        seen.iter().for_each(|one| *ran.entry(one.schedule).or_default() += 1);
        Self { duplicates: seen.len() - ran.len(), missing: wanted.saturating_sub(ran.len()) }
    }
}
