//! What to measure: `scripts/bench.sh --help` describes each argument.

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};

use crate::server::ServerKind;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    Backlog,
    Catchup,
    Precision,
    Enqueue,
    Bulk,
    Waiting,
}

impl Workload {
    pub fn name(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Catchup => "catchup",
            Self::Precision => "precision",
            Self::Enqueue => "enqueue",
            Self::Bulk => "bulk",
            Self::Waiting => "waiting",
        }
    }
}

#[derive(Clone, Parser)]
#[command(
    name = "bench.sh",
    bin_name = "bench.sh",
    disable_help_flag = true,
    after_help = "scripts/bench.sh --help says more"
)]
pub struct Arguments {
    pub workload: Workload,
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: Vec<u16>,
    #[arg(long, default_value = "1", value_parser = count)]
    pub runs: usize,
    #[arg(long, value_parser = count)]
    executions: Option<usize>,
    /// What exists besides and is due in a year: schedules, or executions and as many that have ended.
    #[arg(long, default_value = "0")]
    pub among: usize,
    /// Of enqueue: a backlog of so many, of another group, is enqueued before.
    #[arg(long, default_value = "0")]
    pub behind: usize,
    #[arg(long, value_parser = count)]
    schedules: Option<usize>,
    #[arg(long, value_parser = count)]
    seconds: Option<usize>,
    #[arg(long, group = "where")]
    pub database: Option<String>,
    #[arg(long, group = "where")]
    sqlite: bool,
    #[arg(long, group = "where")]
    mariadb: bool,
    #[arg(long, group = "where")]
    galera: bool,
    #[arg(long, group = "where")]
    standby: bool,
    /// Of precision: executions may overlap. Otherwise each claim looks at a slot.
    #[arg(long)]
    pub allow: bool,
    /// Each node's metrics are read as text, and its events by a stream.
    #[arg(long)]
    pub observed: bool,
    /// Each handler of a backlog says a line, how far it has come, and a result.
    #[arg(long)]
    pub says: bool,
    /// Each node has a subscriber that keeps the spans of its attempts.
    #[arg(long)]
    pub traced: bool,
    /// Each run is made without `--observed`, `--says` and `--traced`, too, and compared with that.
    #[arg(long)]
    pub beside: bool,
    #[arg(long, default_value = "20", value_parser = count)]
    pub threads: usize,
    #[arg(long, default_value = "1024", value_parser = count)]
    pub queue: usize,
    /// Cargo adds it when it runs a bench itself.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A number of things: one at least, a million at most.
fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=1_000_000) => Ok(number),
        _ => Err("a number from 1 to 1000000 is required".to_owned()),
    }
}

impl Arguments {
    /// What the command line says; ends the process with code 2 if that makes no sense.
    pub fn read() -> Self {
        let arguments = Self::parse();
        if let Some(problem) = arguments.problem() {
            Self::command().error(ErrorKind::ArgumentConflict, problem).exit();
        }
        arguments
    }

    fn problem(&self) -> Option<&'static str> {
        let has_others = matches!(self.workload, Workload::Backlog | Workload::Enqueue | Workload::Bulk);
        let precision = self.workload == Workload::Precision;
        if !precision && (self.schedules.is_some() || self.seconds.is_some()) {
            return Some("--schedules and --seconds belong to precision; the others have --executions");
        }
        if precision && self.executions.is_some() {
            return Some(
                "--executions belongs to the other workloads; precision has --schedules and --seconds",
            );
        }
        if self.workload == Workload::Waiting && self.nodes != [1] {
            return Some("waiting is about one node");
        }
        if self.workload == Workload::Waiting && self.executions() > 100_000 {
            return Some("at most 100000 async handlers wait at once");
        }
        if self.beside && (self.workload != Workload::Backlog || self.watched().is_empty()) {
            return Some("--beside belongs to backlog, with --observed, --says or --traced");
        }
        if self.workload != Workload::Enqueue && self.behind > 0 {
            return Some("--behind belongs to enqueue");
        }
        if !has_others && self.among > 0 {
            return Some("--among belongs to backlog, enqueue and bulk");
        }
        if self.database.as_deref().is_some_and(|url| ServerKind::of(url).is_none()) {
            return Some("--database: write postgres://... or mysql://..., or say --sqlite");
        }
        None
    }

    /// The names of the options that watch executions, with commas; empty without one.
    pub fn watched(&self) -> String {
        let all = [(self.observed, "observed"), (self.says, "says"), (self.traced, "traced")];
        let asked: Vec<&str> = all.into_iter().filter_map(|(is_so, word)| is_so.then_some(word)).collect();
        asked.join(", ")
    }

    /// The same with none of it.
    pub fn unwatched(&self) -> Self {
        Self { observed: false, says: false, traced: false, ..self.clone() }
    }

    pub fn kind(&self) -> ServerKind {
        match &self.database {
            Some(url) => ServerKind::of(url).unwrap_or(ServerKind::Postgres),
            None if self.sqlite => ServerKind::Sqlite,
            None if self.mariadb || self.galera => ServerKind::Mariadb,
            None => ServerKind::Postgres,
        }
    }

    /// What `scripts/with-servers.sh` calls the servers.
    pub fn servers(&self) -> &'static str {
        match (self.galera, self.standby) {
            (true, _) => "galera",
            (_, true) => "standby",
            _ => self.kind().name(),
        }
    }

    pub fn schedules(&self) -> usize {
        match self.workload {
            Workload::Backlog | Workload::Catchup | Workload::Bulk => self.executions.unwrap_or(20_000),
            Workload::Precision => self.schedules.unwrap_or(500),
            Workload::Enqueue => self.executions.unwrap_or(200),
            Workload::Waiting => self.executions.unwrap_or(10_000),
        }
    }

    /// How long each schedule fires, once a second.
    pub fn seconds(&self) -> usize {
        match self.workload {
            Workload::Precision => self.seconds.unwrap_or(30),
            _ => 1,
        }
    }

    pub fn executions(&self) -> usize {
        self.schedules() * self.seconds()
    }

    /// Rows of the bare batch claim that the workload is compared with.
    pub fn limit_rows(&self) -> usize {
        match self.workload {
            Workload::Precision => 20_000,
            _ => self.schedules(),
        }
    }
}
