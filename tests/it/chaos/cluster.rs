//! A cluster of node processes under a run's faults, and what is known about it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::PipeReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use chrono::Utc;
use firetime::{Client, Paused, Resumed};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::audit;
use super::hand::{Hand, each_host};
use super::history::{self, Audited};
use super::job::{self, PULSE};
use super::judge::{Bounds, Cancel, History, Keyed, Order, Pause, Switch, Verdict, judge};
use super::load::Load;
use super::proxy::{Cut, Mode, Proxy};
use super::report::{self, Report};
use super::saved;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::servers::Servers;
use super::wire::{Commit, Protocol};
use crate::support::database::{Database, ServerKind};
use crate::support::node::{self, APPLICATION, Line, Nodes};

/// The clock of the host, and so of every database here.
pub fn now() -> i64 {
    Utc::now().timestamp_millis()
}

/// How a node is started.
#[derive(Clone, Copy)]
pub struct Setup {
    /// The library's own intervals; else those that tests of recovery use.
    pub patient: bool,
    /// How far its wall clock is ahead, milliseconds.
    pub wall: i64,
    /// It is the older build that `scripts/upgrade.sh` names.
    pub old: bool,
    /// Without a proxy.
    pub direct: bool,
    /// How long its shutdown may take.
    pub grace: Duration,
    pub listener: Listener,
}

/// What becomes of a node's log.
#[derive(Clone, Copy)]
pub enum Listener {
    /// It is a file.
    File,
    /// It is a pipe, and both the logger and the observer panic once nobody reads it any more.
    Pipe,
    /// It is a file, and the observer does not return between these instants.
    Blocked { from: i64, until: i64 },
}

pub const QUICK: Setup = Setup {
    patient: false,
    wall: 0,
    old: false,
    direct: false,
    grace: Duration::from_secs(20),
    listener: Listener::File,
};
pub const PATIENT: Setup = Setup { patient: true, ..QUICK };
pub const OLD: Setup = Setup { old: true, direct: true, ..QUICK };

/// The program of a node of the older build.
const OLD_NODE: &str = "FIRETIME_OLD_NODE";

/// What an operator did, each by its answer.
#[derive(Default)]
pub struct Deeds {
    pub orders: Option<Vec<Order>>,
    pub keyed: Vec<Keyed>,
    pub cancels: Vec<Cancel>,
    pub retries: BTreeSet<i64>,
    pub skips: Vec<(String, i64)>,
    pub removals: Vec<Pause>,
    /// Of schedules that were removed: between which instants.
    pub ended: BTreeMap<String, (i64, i64)>,
    pub switches: Vec<Switch>,
}

impl Deeds {
    /// How many changes of executions and occurrences were answered.
    pub fn answered(&self) -> usize {
        let orders = self.orders.as_ref().map_or(0, Vec::len);
        orders + self.cancels.len() + self.retries.len() + self.skips.len()
    }
}

pub struct Cluster {
    pub name: String,
    pub kind: ServerKind,
    /// The role the nodes log in as; the database's name too.
    pub role: String,
    pub client: Client,
    pub hand: Hand,
    pub nodes: Nodes,
    /// In front of each node; SQLite has none.
    pub links: Vec<Option<Proxy>>,
    pub pids: Vec<u32>,
    pub load: Load,
    pub report: Report,
    pub pauses: Vec<Pause>,
    /// What an operator did, by the answers.
    pub deeds: Deeds,
    pub healed: i64,
    /// Each keeps a node's log from breaking.
    pub log_readers: Vec<PipeReader>,
    /// When the pulse was last heard.
    pub last_pulse: i64,
    /// Those that run, and how many of them have not joined yet.
    up: BTreeSet<usize>,
    joining: usize,
    /// Those that may be declared dead.
    doomed: BTreeSet<usize>,
    /// What the nodes use, without a proxy.
    url: String,
    database: Database,
    folder: TempDir,
}

impl Cluster {
    /// A fresh database with the audit in place.
    pub fn new(name: &str, kind: ServerKind) -> Self {
        let database = kind.fresh();
        let (role, url) = database.common_role();
        Self::on(format!("{}::{name}", kind.name()), database, role, url)
    }

    /// A fresh database of a cluster of servers, with so many nodes on it, each of which tries another server
    /// first.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub fn over(name: &str, servers: &Servers, nodes: usize, setup: Setup) -> Self {
        let database = servers.fresh();
        let url = database.url.clone();
        // By all servers at once, as when nodes start together.
        std::thread::scope(|scope| {
            let all = (0..each_host(&url).len()).map(|server| rotated(&url, server));
            let migrations: Vec<_> = all.map(|url| scope.spawn(move || firetime::migrate(&url))).collect();
            migrations.into_iter().for_each(|it| drop(it.join().unwrap().unwrap()));
        });
        let mut cluster = Self::on(name.to_owned(), database, "firetime".to_owned(), url);
        for _ in 0..nodes {
            cluster.add(setup);
        }
        cluster.await_ready();
        cluster
    }

    /// A fresh database whose tables were made by so many nodes of the older build, and brought up to date
    /// beside them; and whether there was anything to bring up to date.
    pub fn of_old(name: &str, kind: ServerKind, count: usize) -> (Self, bool) {
        let database = kind.fresh();
        let (role, url) = database.common_role();
        let folder = tempfile::tempdir().unwrap();
        let mut nodes = Nodes::none();
        let pids = (0..count).map(|number| nodes.spawn(command(folder.path(), number, &url, OLD))).collect();
        for _ in 0..count {
            assert_eq!(nodes.next(Duration::from_secs(60)).1, Line::Ready);
        }
        let is_newer = !firetime::migrate(&url).unwrap().applied.is_empty();
        let mut cluster = Self::on(format!("{}::{name}", kind.name()), database, role, url);
        cluster.nodes = nodes;
        cluster.folder = folder;
        cluster.pids = pids;
        cluster.links.extend((0..count).map(|_| None));
        cluster.up.extend(0..count);
        (cluster, is_newer)
    }

    fn on(name: String, database: Database, role: String, url: String) -> Self {
        let kind = database.kind;
        firetime::migrate(&url).unwrap();
        let mut hand = Hand::open(kind, &url).unwrap();
        audit::install(&mut hand, kind);
        Self {
            name,
            kind,
            role,
            client: Client::connect(APPLICATION, &url).unwrap(),
            hand: Hand::open(kind, &database.url).unwrap(),
            nodes: Nodes::none(),
            links: Vec::new(),
            pids: Vec::new(),
            load: Load::default(),
            report: Report::default(),
            pauses: Vec::new(),
            deeds: Deeds::default(),
            healed: now(),
            log_readers: Vec::new(),
            last_pulse: 0,
            up: BTreeSet::new(),
            joining: 0,
            doomed: BTreeSet::new(),
            url,
            database,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A new database with so many nodes alike on it.
    pub fn start(name: &str, kind: ServerKind, nodes: usize, setup: Setup) -> Self {
        let mut cluster = Self::new(name, kind);
        for _ in 0..nodes {
            cluster.add(setup);
        }
        cluster.await_ready();
        cluster
    }

    /// The test's own way in.
    pub fn admin_url(&self) -> String {
        self.database.url.clone()
    }

    fn file(&self, what: &str, node: usize) -> PathBuf {
        file(self.folder.path(), what, node)
    }

    pub fn log(&self, node: usize) -> String {
        fs::read_to_string(self.file("log", node)).unwrap()
    }

    /// Starts a node.
    pub fn add(&mut self, setup: Setup) -> usize {
        let number = self.pids.len();
        let url = rotated(&self.url, number);
        let link = protocol(self.kind).filter(|_| !setup.direct).map(|it| Proxy::new(address(&url), it));
        let url = match &link {
            Some(link) => url.replace(&address(&url).to_string(), &format!("127.0.0.1:{}", link.port())),
            None => url,
        };
        let mut command = command(self.folder.path(), number, &url, setup);
        match setup.listener {
            Listener::File => {}
            Listener::Pipe => {
                let (reader, writer) = std::io::pipe().unwrap();
                command.env(node::LOGGED, "1").stderr(writer);
                self.log_readers.push(reader);
            }
            Listener::Blocked { from, until } => {
                command.env(node::BLOCKED, format!("{from}-{until}"));
            }
        }
        if setup.wall != 0 {
            command.env(job::WALL, setup.wall.to_string()).env("LD_PRELOAD", self.wall());
        }
        self.links.push(link);
        let pid = self.nodes.spawn(command);
        self.pids.push(pid);
        self.up.insert(number);
        self.joining += 1;
        number
    }

    /// The library that makes a process believe another wall clock.
    fn wall(&self) -> PathBuf {
        let library = self.folder.path().join("wall.so");
        if !library.exists() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/chaos/wall.c");
            let built =
                Command::new("cc").args(["-shared", "-fPIC", "-O1", source, "-o"]).arg(&library).status();
            assert!(built.unwrap().success(), "no C compiler?");
        }
        library
    }

    /// `count` one-shots that complete in transactions of their own, one each `gap` ms from `at` on.
    pub fn pay(&mut self, count: usize, (at, gap): (i64, usize)) {
        // SQLite has one writer: there the transactions come one after another.
        let step = if self.kind.name() == "sqlite" { 20 } else { 100 };
        self.load.paid(&self.client, count, (at, gap), step);
    }

    /// The next thing a node says, if it comes in time.
    fn hear(&mut self, within: Duration) -> Option<(usize, Line)> {
        let heard = self.nodes.heard(within);
        if let Some((node, line)) = &heard {
            self.joining -= usize::from(*line == Line::Ready);
            if matches!(line, Line::Began { schedule, .. } if schedule == PULSE.name()) {
                self.last_pulse = now();
            }
            assert!(
                *line != Line::Gone || !self.up.contains(node),
                "{}: node {node} ended by itself",
                self.name
            );
        }
        heard
    }

    /// Waits until every node that was started has joined.
    pub fn await_ready(&mut self) {
        self.until("every node has joined", Duration::from_secs(60), |cluster| cluster.joining == 0);
    }

    /// Lets time pass: the length of a fault.
    pub fn during(&mut self, span: Duration) {
        let end = Instant::now() + span;
        while Instant::now() < end {
            self.hear(end.saturating_duration_since(Instant::now()));
        }
    }

    /// Waits for this to become true, looking whenever a node says something.
    pub fn until(&mut self, what: &str, within: Duration, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + within;
        while !is_so(self) {
            assert!(Instant::now() < end, "{}: not within {within:?}: {what}", self.name);
            self.hear(Duration::from_millis(100));
        }
    }

    /// The node that first begins an occurrence of this schedule, or of those whose names start so.
    pub fn await_begin(&mut self, name: &str) -> usize {
        loop {
            match self.hear(Duration::from_secs(60)) {
                Some((node, Line::Began { schedule, .. })) if schedule.starts_with(name) => return node,
                Some(_) => {}
                None => panic!("{}: nothing begins any more", self.name),
            }
        }
    }

    /// SIGKILL; gives when.
    pub fn kill(&mut self, node: usize) -> i64 {
        self.nodes.kill(node);
        self.up.remove(&node);
        self.doom(node);
        self.report.killed += 1;
        now()
    }

    /// Asks a node to stop; gives how long it took and whether the node calls it clean.
    pub fn shut_down(&mut self, node: usize) -> (i64, bool) {
        let asked = now();
        self.up.remove(&node);
        self.nodes.ask_to_stop(node);
        let mut is_clean = false;
        loop {
            let heard = self.hear(Duration::from_secs(60));
            assert!(heard.is_some(), "{}: node {node} does not stop", self.name);
            is_clean |= heard == Some((node, Line::Stopped { clean: true }));
            if heard == Some((node, Line::Gone)) {
                return (now() - asked, is_clean);
            }
        }
    }

    /// From now on others have a reason to take the node for dead.
    pub fn doom(&mut self, node: usize) {
        self.doomed.insert(node);
    }

    pub fn signal(&mut self, node: usize, signal: Signal) {
        self.doom(node);
        let pid = Pid::from_raw(self.pids[node].try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Puts every proxy into this mode.
    pub fn set_all(&self, mode: Mode) {
        self.links.iter().flatten().for_each(|link| link.set(mode));
    }

    /// Cuts the next commit of this kind of a node, and waits until one came.
    pub fn cut_commit(&mut self, node: usize, how: Cut, kind: Commit) {
        let before = self.links[node].as_ref().unwrap().counted().1;
        self.links[node].as_ref().unwrap().cut_commit(how, Some(kind));
        self.until("a commit to cut", Duration::from_secs(60), |cluster| {
            cluster.links[node].as_ref().unwrap().counted().1 > before
        });
    }

    pub fn pause(&mut self, schedule: &str) {
        assert_eq!(
            self.client.pause(schedule).actor("chaos").reason("a run's own").run().unwrap(),
            Paused::Paused
        );
        self.pauses.push(Pause { schedule: schedule.to_owned(), from: now(), until: i64::MAX });
    }

    pub fn resume(&mut self, schedule: &str) {
        let pause = self.pauses.iter_mut().rev().find(|it| it.schedule == schedule).unwrap();
        pause.until = now();
        assert_eq!(self.client.resume(schedule).run().unwrap(), Resumed::Resumed);
    }

    /// The ids under which a process is or was a node, the last first: it may have joined again.
    fn node_ids(&mut self, node: usize) -> Vec<String> {
        let tail = format!("FROM QRTZ_NODE WHERE pid = {} ORDER BY started_time DESC", self.pids[node]);
        self.hand.rows("uuid", &tail).concat()
    }

    pub fn node_id(&mut self, node: usize) -> String {
        self.node_ids(node).remove(0)
    }

    /// From now on nothing goes wrong any more.
    pub fn heal(&mut self) {
        self.healed = now();
    }

    fn connections(&mut self) -> i64 {
        let (table, column) = match self.kind.name() {
            "sqlite" => return 0,
            "postgres" => ("pg_stat_activity", "usename"),
            _ => ("information_schema.processlist", "user"),
        };
        let tail = format!("FROM {table} WHERE {column} = '{}'", self.role);
        self.hand.rows("COUNT(*)", &tail)[0][0].parse().unwrap()
    }

    fn is_over(&mut self) -> bool {
        if self.kind.name() == "postgres" {
            let unnoted = "FROM QRTZ_RUN r WHERE state IN ('CLAIMED', 'RUNNING') AND NOT EXISTS (SELECT 1 FROM QRTZ_CLAIM c \
                WHERE r.id BETWEEN c.first_run AND c.last_run AND c.node = r.node)";
            assert_eq!(
                self.hand.rows("id", unnoted),
                Vec::<Vec<String>>::new(),
                "under way, and in no claim"
            );
        }
        let open = "FROM QRTZ_RUN WHERE state IN ('PENDING', 'CLAIMED', 'RUNNING')";
        let unfinished =
            format!("FROM QRTZ_EXECUTE WHERE {} AND state NOT IN ('COMPLETE', 'REMOVED')", history::LISTED);
        self.hand.rows("id", &unfinished).is_empty() && self.hand.rows("id", open).is_empty()
    }

    /// Waits until the cluster has done everything, as long as the checker's bounds allow, and reads what it
    /// left.
    pub fn settle(&mut self, stopped: bool) -> Settled {
        let bounds = Bounds::default();
        let last = self.load.times.values().flatten().copied().max().unwrap().max(self.healed);
        let latest = last + bounds.begun.unwrap() + bounds.settled;
        while !self.is_over() && now() < latest {
            self.hear(Duration::from_millis(200));
        }
        let read = now();
        let connections = self.connections();
        let doomed = self.doomed.clone().into_iter().flat_map(|node| self.node_ids(node)).collect();
        let dead = self.hand.rows("uuid", "FROM QRTZ_NODE WHERE end_reason = 'dead'").concat();
        let live = self.hand.rows("uuid", "FROM QRTZ_NODE WHERE ended_time = -1").concat();
        self.stop_all();
        let files: Vec<PathBuf> = (0..self.pids.len()).map(|node| self.file("effects", node)).collect();
        let changes = history::changes(&mut self.hand);
        let (checkpoints, resumes) = saved::checkpoints(&files);
        let history = History {
            plans: history::plans(&mut self.hand, &self.load, &self.deeds.ended),
            executions: history::executions(&mut self.hand),
            effects: history::effects(&files, &history::committed(&mut self.hand)),
            coverings: Vec::new(),
            checkpoints,
            resumes,
            changes: changes.iter().map(|it| it.change.clone()).collect(),
            orders: self.deeds.orders.clone(),
            requests: Vec::new(),
            expectations: Vec::new(),
            told: Vec::new(),
            unserved: Vec::new(),
            syncs: Vec::new(),
            reruns: Vec::new(),
            keyed: self.deeds.keyed.clone(),
            retries: self.deeds.retries.clone(),
            skips: self.deeds.skips.clone(),
            counted: Some(history::counted(&mut self.hand)),
            contained: Vec::new(),
            cancels: self.deeds.cancels.clone(),
            removals: self.deeds.removals.clone(),
            pauses: self.pauses.clone(),
            switches: self.deeds.switches.clone(),
            live: live.into_iter().collect(),
            dead: dead.into_iter().collect(),
            doomed,
            unnoticed: Vec::new(),
            clock: Vec::new(),
            promotions: Vec::new(),
            lost: Vec::new(),
            lost_cancels: Vec::new(),
            kept: 0,
            healed: self.healed,
            read,
            stopped,
            bounds,
        };
        Settled { run: self.name.clone(), history, changes, connections }
    }

    fn stop_all(&mut self) {
        let lines = std::mem::replace(&mut self.nodes, Nodes::none()).stop();
        for node in std::mem::take(&mut self.up) {
            let clean = lines.contains(&(node, Line::Stopped { clean: true }));
            assert!(clean, "{}: node {node} did not stop cleanly", self.name);
        }
    }

    /// Judges, prints and asserts; and verifies the ledger as an auditor would.
    pub fn conclude(&mut self, settled: &Settled) {
        self.conclude_by(&judge(&settled.history));
    }

    /// The same with a verdict of the run's own.
    pub fn conclude_by(&mut self, verdict: &Verdict) {
        let logs: String = (0..self.pids.len()).map(|node| self.log(node)).collect();
        let counts = self.links.iter().flatten().map(Proxy::counted);
        let cut = counts.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        self.report.conclude(&self.name, cut, verdict);
        let verified = self.client.verify(..).run().unwrap();
        assert!(verified.is_whole(), "{}: the ledger is not whole: {:#?}", self.name, verified.flaws);
        assert!(!logs.contains("secret"), "{}: a password in the log", self.name);
        assert!(!logs.contains("panicked"), "{}: a panic", self.name);
    }
}

/// A file of a node.
fn file(folder: &Path, what: &str, node: usize) -> PathBuf {
    folder.join(format!("{what}-{node}"))
}

/// What starts a node, whose log is a file.
fn command(folder: &Path, number: usize, url: &str, setup: Setup) -> Command {
    let program = if setup.old {
        PathBuf::from(std::env::var_os(OLD_NODE).expect("run by scripts/upgrade.sh, which builds it"))
    } else {
        std::env::current_exe().unwrap()
    };
    // A write beyond a limit of the file size is to fail, not to kill.
    let mut command = Command::new("env");
    command.arg("--ignore-signal=XFSZ").arg(program);
    let mut command = node::be_a_node(command, url);
    command
        .env(job::EFFECTS, file(folder, "effects", number))
        .env(node::GRACE, setup.grace.as_millis().to_string())
        .stderr(File::create(file(folder, "log", number)).unwrap());
    if setup.patient {
        command.env(node::PATIENT, "1");
    }
    command
}

impl Drop for Cluster {
    /// A run that failed keeps its nodes' logs and effects, and shows the end of each log.
    fn drop(&mut self) {
        const LINES: usize = 60;
        if !std::thread::panicking() {
            return;
        }
        let kept = report::evidence(&self.name);
        for node in 0..self.pids.len() {
            for what in ["log", "effects"] {
                let copied =
                    |kept: &PathBuf| fs::copy(self.file(what, node), kept.join(format!("{what}-{node}")));
                // A node that ran nothing has no effects.
                drop(kept.as_ref().map(copied));
            }
            let log = self.log(node);
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LINES)..];
            println!("{}: node {node} said last:\n{}", self.name, last.join("\n"));
        }
    }
}

#[derive(Default)]
pub struct Settled {
    /// The run's name.
    run: String,
    pub history: History,
    pub changes: Vec<Audited>,
    /// How many connections the nodes had at the end; 0 on SQLite.
    pub connections: i64,
}

impl Drop for Settled {
    /// A run that failed keeps its history.
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(kept) = report::evidence(&self.run)
        {
            drop(fs::write(kept.join("history"), format!("{:#?}", self.history)));
        }
    }
}

pub fn protocol(kind: ServerKind) -> Option<Protocol> {
    match kind {
        #[cfg(feature = "sqlite")]
        ServerKind::Sqlite => None,
        #[cfg(feature = "postgres")]
        ServerKind::Postgres => Some(Protocol::Postgres),
        #[cfg(feature = "mysql")]
        ServerKind::Mariadb => Some(Protocol::Mariadb),
    }
}

/// The first server's address in a URL.
pub fn address(url: &str) -> SocketAddr {
    let (_, host) = url.split_once('@').unwrap();
    host.split(['/', ',']).next().unwrap().parse().unwrap()
}

/// The same URL; of several hosts another comes first for each node.
pub fn rotated(url: &str, node: usize) -> String {
    let Some((login, (hosts, database))) =
        url.split_once('@').and_then(|(login, rest)| Some((login, rest.split_once('/')?)))
    else {
        return url.to_owned();
    };
    let mut hosts: Vec<&str> = hosts.split(',').collect();
    let count = hosts.len();
    hosts.rotate_left(node % count);
    format!("{login}@{}/{database}", hosts.join(","))
}
