//! Servers that work together, as `scripts/with-servers.sh` has started them: their processes, and what is
//! done to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::cluster::Cluster;
use super::hand::{Hand, each_host};
use crate::support::database::{Database, ServerKind};

/// How long a server may take to come back, with all its data copied anew.
const BACK: Duration = Duration::from_secs(90);

/// What `scripts/with-servers.sh` tells of servers of this name.
pub fn variable(servers: &str, what: &str) -> Option<String> {
    std::env::var(format!("FIRETIME_TEST_{}_{what}", servers.to_uppercase())).ok()
}

/// Servers of one database, each with a process id in a file.
pub struct Servers {
    kind: ServerKind,
    folder: PathBuf,
    url: String,
    /// In the folder, one for each server.
    pid_files: Vec<String>,
}

impl Servers {
    #[cfg(feature = "mysql")]
    pub fn galera() -> Self {
        let pid_files = (1..=3).map(|n| format!("galera{n}.pid")).collect();
        Self::of("galera", ServerKind::Mariadb, pid_files)
    }

    #[cfg(feature = "postgres")]
    pub fn standby() -> Self {
        let pid_files = (1..=2).map(|n| format!("pair{n}/postmaster.pid")).collect();
        Self::of("standby", ServerKind::Postgres, pid_files)
    }

    fn of(name: &str, kind: ServerKind, pid_files: Vec<String>) -> Self {
        let variable = |what| variable(name, what).expect("run by scripts/chaos.sh");
        Self { kind, folder: variable("DIR").into(), url: variable("URL"), pid_files }
    }

    pub fn kind(&self) -> ServerKind {
        self.kind
    }

    /// A new, empty database of theirs.
    pub fn fresh(&self) -> Database {
        self.kind.fresh_at(&self.url, |sql| Hand::open(self.kind, &self.url).unwrap().run(sql).unwrap())
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The server's process and those it has started: a frozen server freezes whole.
    fn processes(&self, server: usize) -> Vec<Pid> {
        let file = fs::read_to_string(self.folder.join(&self.pid_files[server])).unwrap();
        let first: i32 = file.lines().next().unwrap().trim().parse().unwrap();
        let children = format!("/proc/{first}/task/{first}/children");
        let children = fs::read_to_string(Path::new(&children)).unwrap_or_default();
        let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
        std::iter::once(first).chain(children).filter_map(Pid::from_raw).collect()
    }

    pub fn signal(&self, server: usize, signal: Signal) {
        for process in self.processes(server) {
            // A child may have ended meanwhile.
            kill_process(process, signal).ok();
        }
    }

    /// A connection to this server alone.
    pub fn hand(&self, server: usize) -> Option<Hand> {
        Hand::open(self.kind, &each_host(&self.url)[server]).ok()
    }

    /// Waits until a server answers this question with this.
    pub fn await_answer(
        &self,
        cluster: &mut Cluster,
        server: usize,
        (columns, tail): (&str, &str),
        is: &str,
    ) {
        let what = format!("server {server} is well again");
        cluster.until(&what, BACK, |_| {
            self.hand(server)
                .is_some_and(|mut hand| hand.try_rows(columns, tail).is_ok_and(|it| it == [[is]]))
        });
    }
}
