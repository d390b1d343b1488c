//! One run: load, start the nodes, wait for the first fire time, watch from outside, count.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

use crate::Result;
use crate::arguments::{Arguments, Workload};
use crate::figures::{self, Figures, Lateness};
use crate::limit;
use crate::load;
use crate::node::{Node, Seen, Told};
use crate::process;
use crate::server::{Connection, Database, Server};

/// How often the harness looks.
const LOOK: Duration = Duration::from_millis(5);
/// The longest between two looks.
const LONGEST_LOOK: Duration = Duration::from_millis(100);
/// The costs before are read this long before the first fire time, when all is still.
const BEFORE: TimeDelta = TimeDelta::milliseconds(200);
/// The nodes start so long before the first fire time. Heartbeats come every 5 s, the misfire handler's
/// passes every 15: started 15 s before, nodes often have one in the half second that a backlog takes;
/// started 8 s before, they have none.
const STARTED: TimeDelta = TimeDelta::milliseconds(8_000);
/// How long before the first fire time every node must be up: a poll, each 5 s, brings the schedules due
/// before the next one.
const SETTLED: TimeDelta = TimeDelta::milliseconds(6_000);
/// When no handler ran for so long, what is missing is missing: longer than a misfire and its repair take.
const GIVEN_UP: Duration = Duration::from_secs(100);

pub fn run(server: &Server, arguments: &Arguments, nodes: u16) -> Result<Figures> {
    let limit = limit::rows_per_second(server, arguments.limit_rows())?;
    let database = server.fresh()?;
    firetime::migrate(&database.url)?;
    let start = DateTime::from_timestamp((Utc::now() + load::lead(arguments)).timestamp(), 0)
        .ok_or("no such time")?;
    load::load(&database, arguments, start)?;
    database.settle()?;
    database.count_commits()?;
    sleep_until(start - STARTED);
    let mut cluster = start_nodes(&database, nodes, arguments)?;
    let up = Utc::now();
    let catches_up = arguments.workload == Workload::Catchup;
    if up > start - SETTLED && !catches_up {
        return Err(
            "loading and starting took too long: the nodes were not up before the first fire time".into()
        );
    }
    let mut observer = Observer::new(&database)?;
    sleep_until(start - BEFORE);
    observer.flush()?;
    let commits = database.commits()?;
    let before = Costs::read(server, &cluster)?;
    sleep_until(last_planned(arguments, start));
    wait_for_handlers(&mut cluster, arguments.executions())?;
    let ended = observer.wait_for_outcomes()?;
    let costs = Costs::read(server, &cluster)?.since(&before);
    let peak = peak(&cluster)?;
    let Told { seen, longest_poll, lost } = stop(cluster)?;
    let ledger = observer.ledger()?;
    let commits = observer.leave(&database, commits)?;

    let verdict = Verdict::of(&seen, &ledger, arguments, start);
    let executions = figures::real(seen.len());
    let last = seen.iter().map(started).max().filter(|_| catches_up);
    let took = seen.iter().map(started).min().map_or(f64::NAN, |first| seconds(ended - first));
    let rate = executions / took;
    Ok(Figures {
        workload: arguments.workload.name(),
        scheduler: "firetime",
        watched: arguments.watched(),
        variant: format!("threads {}, queue {}", arguments.threads, arguments.queue),
        database: server.kind.name(),
        nodes,
        executions: seen.len(),
        among: arguments.among,
        executions_per_s: figures::rounded(rate, 1),
        lateness_ms: Lateness::of(seen.iter().map(|one| one.late).collect()),
        transactions_per_execution: commits.map(|n| figures::rounded(n as f64 / executions, 4)),
        wal_bytes_per_execution: costs.wal.map(|n| figures::rounded(n as f64 / executions, 1)),
        caught_up_s: last.map(|last| figures::rounded(seconds(last - up), 1)),
        poll_ms: longest_poll,
        lost_claim_share: figures::rounded(lost as f64 / (lost as f64 + executions), 5),
        cpu_s_nodes: figures::rounded(costs.nodes, 2),
        cpu_s_database: costs.database.map(|seconds| figures::rounded(seconds, 2)),
        peak_rss_mb: peak,
        duplicates: verdict.duplicates,
        missing: verdict.missing,
        limit_rows_per_s: figures::rounded(limit, 1),
        ratio_to_limit: (arguments.workload == Workload::Backlog).then(|| figures::rounded(rate / limit, 3)),
    })
}

pub fn start_nodes(database: &Database, nodes: u16, arguments: &Arguments) -> Result<Vec<Node>> {
    let mut cluster =
        (0..nodes).map(|node| Node::start(&database.url_of(node), arguments)).collect::<Result<Vec<_>>>()?;
    cluster.iter_mut().try_for_each(Node::wait_until_ready)?;
    Ok(cluster)
}

fn sleep_until(instant: DateTime<Utc>) {
    std::thread::sleep((instant - Utc::now()).to_std().unwrap_or_default());
}

fn last_planned(arguments: &Arguments, start: DateTime<Utc>) -> DateTime<Utc> {
    match arguments.workload {
        Workload::Precision => start + Duration::from_secs(arguments.seconds() as u64),
        _ => start,
    }
}

/// Asks the nodes rarely, each time when a quarter of the missing executions should have run: frequent
/// questions slow them down.
pub fn wait_for_handlers(cluster: &mut [Node], wanted: usize) -> Result<()> {
    let (mut ran, mut changed) = (0, Instant::now());
    let began = changed;
    loop {
        let mut now = 0;
        for node in &mut *cluster {
            now += node.count()?;
        }
        if now >= wanted || changed.elapsed() > GIVEN_UP {
            return Ok(());
        }
        if now > ran {
            (ran, changed) = (now, Instant::now());
        }
        let missing = if now > 0 { figures::real(wanted - now) / figures::real(now) } else { 0.0 };
        std::thread::sleep((began.elapsed().mul_f64(missing) / 4).clamp(LOOK, LONGEST_LOOK));
    }
}

/// The memory of the node that took most, in MB.
pub fn peak(cluster: &[Node]) -> Result<f64> {
    let all = cluster.iter().map(|node| process::peak_memory(node.pid()));
    Ok(figures::rounded(all.collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max), 1))
}

/// What all nodes have to tell.
pub fn stop(mut cluster: Vec<Node>) -> Result<Told> {
    cluster.iter_mut().try_for_each(Node::ask_to_stop)?;
    let mut all = Told { seen: Vec::new(), longest_poll: 0, lost: 0 };
    for node in cluster {
        let told = node.ended()?;
        all.seen.extend(told.seen);
        all.longest_poll = all.longest_poll.max(told.longest_poll);
        all.lost += told.lost;
    }
    Ok(all)
}

pub fn started(seen: &Seen) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(seen.planned).unwrap_or_default() + TimeDelta::microseconds(seen.late)
}

fn seconds(span: TimeDelta) -> f64 {
    span.as_seconds_f64()
}

/// Asks the run's own database, and counts its questions: each is a transaction.
pub struct Observer {
    connection: Connection,
    postgres: bool,
    asked: i64,
}

impl Observer {
    pub fn new(database: &Database) -> Result<Self> {
        let postgres = database.kind == crate::server::ServerKind::Postgres;
        let mut connection = database.connect()?;
        if postgres {
            // Else each look reads the whole table, and not only the last.
            connection.batch("SET enable_seqscan = off")?;
        }
        Ok(Self { connection, postgres, asked: 0 })
    }

    /// Makes PostgreSQL count what this session did so far.
    pub fn flush(&mut self) -> Result<()> {
        if self.postgres {
            self.connection.counts("SELECT pg_stat_force_next_flush()::text AS word, 0::bigint AS n")?;
        }
        Ok(())
    }

    /// When it was asked that no execution was open, but for those that are due in a year.
    pub fn wait_for_outcomes(&mut self) -> Result<DateTime<Utc>> {
        let tomorrow = (Utc::now() + TimeDelta::days(1)).timestamp_millis();
        // From the last one back: while some are open, mostly one of the last is.
        let open = format!(
            "SELECT COUNT(*) AS n FROM (SELECT id FROM QRTZ_RUN WHERE application = 'bench' \
             AND state IN ('PENDING', 'CLAIMED', 'RUNNING') AND due_time < {tomorrow} \
             ORDER BY id DESC LIMIT 1) AS open"
        );
        let began = Instant::now();
        loop {
            self.asked += 1;
            let now = Utc::now();
            let left = self.connection.number(&open)?;
            if left == 0 || began.elapsed() > GIVEN_UP {
                return Ok(now);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The ledger's rows per state.
    fn ledger(&mut self) -> Result<HashMap<String, i64>> {
        self.asked += 1;
        let rows = self.connection.counts(
            "SELECT state AS word, COUNT(*) AS n FROM QRTZ_RUN WHERE application = 'bench' GROUP BY state",
        )?;
        Ok(rows.into_iter().collect())
    }

    /// The commits of others since there were so many, once all have left.
    pub fn leave(self, database: &Database, before: Option<i64>) -> Result<Option<i64>> {
        let Self { asked, connection, .. } = self;
        drop(connection);
        database.wait_until_left()?;
        Ok(database.commits()?.zip(before).map(|(after, before)| after - before - asked))
    }
}

/// What was spent so far.
pub struct Costs {
    pub nodes: f64,
    pub database: Option<f64>,
    pub wal: Option<i64>,
}

impl Costs {
    pub fn read(server: &Server, cluster: &[Node]) -> Result<Self> {
        let nodes = cluster.iter().map(|node| process::cpu(node.pid())).sum::<Result<f64>>()?;
        Ok(Self { nodes, database: server.cpu()?, wal: server.wal()? })
    }

    pub fn since(&self, before: &Self) -> Self {
        Self {
            nodes: self.nodes - before.nodes,
            database: self.database.zip(before.database).map(|(after, before)| after - before),
            wal: self.wal.zip(before.wal).map(|(after, before)| after - before),
        }
    }
}

/// What ran too often, and what did not run, by the handlers' word and by the ledger's: the worse of the two.
struct Verdict {
    duplicates: usize,
    missing: usize,
}

impl Verdict {
    fn of(seen: &[Seen], ledger: &HashMap<String, i64>, arguments: &Arguments, start: DateTime<Utc>) -> Self {
        let mut ran: HashMap<(usize, i64), usize> = HashMap::new();
        for one in seen {
            *ran.entry((one.schedule, one.planned)).or_default() += 1;
        }
        let planned = |(schedule, second): (usize, usize)| {
            let phase = match arguments.workload {
                Workload::Precision => 1_000 * schedule / arguments.schedules(),
                _ => 0,
            };
            (schedule, start.timestamp_millis() + i64::try_from(1_000 * second + phase).unwrap_or(i64::MAX))
        };
        let all =
            (0..arguments.schedules()).flat_map(|n| (0..arguments.seconds()).map(move |second| (n, second)));
        let wanted = arguments.executions();
        let found = all.filter(|one| ran.contains_key(&planned(*one))).count();
        let succeeded = ledger.get("SUCCEEDED").map_or(0, |n| usize::try_from(*n).unwrap_or(0));
        let rows = usize::try_from(ledger.values().sum::<i64>()).unwrap_or(0);
        Self {
            // What nobody planned is one too many as well.
            duplicates: (seen.len() - found).max(rows.saturating_sub(wanted)),
            missing: (wanted - found).max(wanted.saturating_sub(succeeded)),
        }
    }
}
