//! The runs that only the full form makes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use super::cluster::{Cluster, PATIENT, QUICK, Setup, now};
use super::dice::Dice;
use super::hand::Hand;
use super::proxy::{Cut, Mode};
use super::runs::{CONNECTIONS, LOG_LINES, RESUME, SETTLE};
use crate::support::database::ServerKind;

const SECOND: Duration = Duration::from_secs(1);

/// A process stops between two instructions and goes on 10 s later, before anybody may think it dead.
pub fn a_stop_of_10_s_loses_nothing(kind: ServerKind) {
    let cluster = stopped("sigstop_10s", kind, 10, 25, false);
    assert_eq!(cluster.said("declared dead"), 0, "10 s of silence is no death");
}

/// It goes on when all it held has long been given to others.
pub fn a_stop_of_90_s_costs_the_node_its_name(kind: ServerKind) {
    // A process stopped inside a write keeps all of SQLite from writing, deaths included.
    stopped("sigstop_90s", kind, 90, 95, kind.name() != "sqlite");
}

fn stopped(name: &str, kind: ServerKind, seconds: u32, span: i64, rejoins: bool) -> Cluster {
    let mut cluster = Cluster::start(name, kind, 3, PATIENT);
    let from = now() + 4_000;
    cluster.load.ticks(&cluster.client, 12, from, from + 1_000 * span);
    cluster.load.held(&cluster.client, 12, from + 4_000, 12_000);
    let victim = cluster.await_begin("held");
    cluster.signal(victim, Signal::STOP);
    cluster.report.stopped += 1;
    cluster.during(seconds * SECOND);
    cluster.signal(victim, Signal::CONT);
    cluster.heal();
    if rejoins {
        cluster.await_rejoin();
    }
    let settled = cluster.settle(true);
    cluster.conclude(&settled);
    cluster
}

impl Cluster {
    /// Waits until the one node that was declared dead has learned it from its next heartbeat. The work may
    /// be done sooner: the others have taken it over.
    fn await_rejoin(&mut self) {
        self.until("the node declared dead has joined under a new name", 15 * SECOND, |cluster| {
            cluster.said("was ended by others") == 1
        });
    }
}

/// One node alone hears nothing for 45 s; what it had sent arrives after it was declared dead.
pub fn a_node_cut_off_comes_back_under_a_new_name(kind: ServerKind) {
    let mut cluster = Cluster::start("cut_off", kind, 3, PATIENT);
    let from = now() + 4_000;
    cluster.load.ticks(&cluster.client, 12, from, from + 50_000);
    cluster.load.held(&cluster.client, 12, from + 4_000, 12_000);
    let victim = cluster.await_begin("held");
    cluster.doom(victim);
    cluster.links[victim].as_ref().unwrap().set(Mode::Hold);
    cluster.during(45 * SECOND);
    cluster.set_all(Mode::Pass);
    cluster.heal();
    cluster.await_rejoin();
    let settled = cluster.settle(false);
    cluster.conclude(&settled);
}

/// Every piece is 40 ms late in each direction, and there is less to run than three nodes run then.
pub fn a_slow_network_only_slows(kind: ServerKind) {
    let mut cluster = Cluster::start("delay", kind, 3, PATIENT);
    cluster.set_all(Mode::Delay(Duration::from_millis(40)));
    let from = now() + 4_000;
    cluster.load.ticks(&cluster.client, 8, from, from + 20_000);
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.set_all(Mode::Pass);
    cluster.report.measure("latest_ms", settled.lateness().1, 10_000);
    assert_eq!(cluster.said("declared dead"), 0);
    settled.assert_none_abandoned();
    cluster.conclude(&settled);
}

/// The nodes may have fewer connections in all than they need.
pub fn a_connection_limit_starves_but_loses_nothing(kind: ServerKind) {
    let mut cluster = Cluster::start("connection_limit", kind, 3, PATIENT);
    let role = cluster.role.clone();
    let limit = |most: i64| match kind.name() {
        "postgres" => format!("ALTER ROLE {role} CONNECTION LIMIT {most}"),
        _ => format!("ALTER USER {role}@'%' WITH MAX_USER_CONNECTIONS {}", most.max(0)),
    };
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 30_000);
    cluster.await_begin("tick");
    cluster.hand.run(&limit(2)).unwrap();
    let limited = now();
    cluster.links.iter().flatten().for_each(super::proxy::Proxy::cut_all);
    cluster.during(15 * SECOND);
    cluster.hand.run(&limit(-1)).unwrap();
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("log_lines", cluster.log_lines(limited, cluster.healed), LOG_LINES);
    assert!(cluster.said("no connection to the database within ") > 0, "nobody met the limit");
    settled.assert_none_abandoned();
    cluster.conclude(&settled);
}

/// The database may be read and not written: a failover in slow motion.
pub fn a_read_only_database_loses_nothing(kind: ServerKind) {
    let mut cluster = Cluster::start("read_only", kind, 3, PATIENT);
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 25_000);
    cluster.await_begin("tick");
    let down = now();
    cluster.refuse_writes(true);
    cluster.during(10 * SECOND);
    cluster.refuse_writes(false);
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
    assert!(cluster.said("read-only") > 0, "nobody was refused");
    settled.assert_none_abandoned();
    cluster.conclude(&settled);
}

/// No write beyond the first part of a file succeeds.
pub fn a_full_disk_loses_nothing(kind: ServerKind) {
    const FULL: u64 = 256 * 1024;
    let mut cluster = Cluster::start("disk_full", kind, 3, PATIENT);
    let limit = |cluster: &Cluster, most: Option<u64>| {
        for pid in &cluster.pids {
            let pid = Pid::from_raw((*pid).try_into().unwrap());
            let limit = Rlimit { current: most, maximum: None };
            prlimit(pid, Resource::Fsize, limit).unwrap();
        }
    };
    let from = now() + 3_000;
    cluster.load.pulse(&cluster.client, from, from + 45_000);
    cluster.load.ticks(&cluster.client, 24, from, from + 35_000);
    cluster.await_begin("tick");
    limit(&cluster, Some(FULL));
    let down = now();
    cluster.until("the disk is full", 30 * SECOND, |cluster| cluster.said("disk") > 0);
    cluster.during(10 * SECOND);
    limit(&cluster, None);
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.check_pulse(&settled, Some((down, cluster.healed)));
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
    settled.assert_none_abandoned();
    cluster.conclude(&settled);
}

/// The database is away for longer than any misfire threshold.
pub fn a_long_outage_is_accounted_for(kind: ServerKind) {
    let mut cluster = Cluster::start("long_outage", kind, 3, PATIENT);
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 100_000);
    cluster.await_begin("tick");
    let down = now();
    cluster.take_away();
    cluster.during(75 * SECOND);
    cluster.bring_back();
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
    assert_eq!(cluster.said("was ended by others"), 0, "an outage kills nobody");
    settled.assert_none_abandoned();
    cluster.report.measure("connections", settled.connections, CONNECTIONS);
    assert!(settled.history.executions.iter().any(|it| it.reason == "misfire"), "nothing was missed");
    cluster.conclude(&settled);
}

/// Every node is killed at once; what comes up afterwards knows nothing of them.
pub fn a_power_cut_loses_nothing(kind: ServerKind) {
    let mut cluster = Cluster::start("power_cut", kind, 3, PATIENT);
    let from = now() + 4_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 30_000);
    cluster.load.held(&cluster.client, 120, from + 4_000, 3_000);
    cluster.await_begin("held");
    cluster.during(SECOND);
    let ids: Vec<String> = (0..3).map(|node| cluster.node_id(node)).collect();
    let killed: Vec<i64> = (0..3).map(|node| cluster.kill(node)).collect();
    for _ in 0..3 {
        cluster.add(PATIENT);
    }
    cluster.await_ready();
    cluster.heal();
    let settled = cluster.settle(false);
    let held: Vec<(i64, i64)> = ids.iter().zip(&killed).map(|(id, at)| settled.settled(id, *at)).collect();
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("settle_ms", held.iter().map(|it| it.0).max().unwrap(), SETTLE);
    cluster.report.note("held", held.iter().map(|it| it.1).sum());
    cluster.conclude(&settled);
}

/// The server is killed and comes back 6 s later.
pub fn a_killed_database_loses_nothing(kind: ServerKind) {
    let server = kind.name().to_uppercase();
    let variable = |what: &str| std::env::var(format!("FIRETIME_TEST_{server}_{what}"));
    let down = variable("DOWN").expect("run by scripts/chaos.sh: only there a killed server comes back");
    let pid = Pid::from_raw(variable("PID").unwrap().parse().unwrap()).unwrap();
    let mut cluster = Cluster::start("restart", kind, 3, Setup { direct: true, ..PATIENT });
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 40_000);
    cluster.await_begin("tick");
    cluster.during(3 * SECOND);
    fs::write(&down, "").unwrap();
    let killed = now();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    cluster.during(6 * SECOND);
    fs::remove_file(Path::new(&down)).unwrap();
    cluster.until("the database is back", 60 * SECOND, Cluster::reconnect);
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.report.note("away_ms", cluster.healed - killed);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("log_lines", cluster.log_lines(killed, cluster.healed), LOG_LINES);
    assert_eq!(cluster.said("declared dead"), 0, "an outage kills nobody");
    cluster.conclude(&settled);
}

impl Cluster {
    /// Makes the whole server refuse writes, or take them again.
    pub fn refuse_writes(&mut self, refuse: bool) {
        let statements = match (self.kind.name(), refuse) {
            ("postgres", true) => {
                ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"]
            }
            ("postgres", false) => {
                ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"]
            }
            (_, true) => ["SET GLOBAL read_only = 1", "DO 0"],
            (_, false) => ["SET GLOBAL read_only = 0", "DO 0"],
        };
        statements.iter().for_each(|statement| self.hand.run(statement).unwrap());
    }

    pub fn reconnect(&mut self) -> bool {
        let hand = Hand::open(self.kind, &self.admin_url());
        hand.map(|hand| self.hand = hand).is_ok()
    }
}

/// Five nodes and everything at once for a minute, by chance.
pub fn a_storm_loses_nothing(kind: ServerKind) {
    let mut dice = Dice::fresh();
    println!("{}: the storm's seed is {}", kind.name(), dice.seed);
    let mut cluster = Cluster::start("storm", kind, 5, QUICK);
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 60_000);
    cluster.pay(200, (from + 2_000, 250));
    cluster.await_begin("tick");
    let mut slots: Vec<usize> = (0..5).collect();
    while now() < from + 50_000 {
        let slot = dice.below(5);
        let node = slots[slot];
        let span = Duration::from_millis(300 + 1_000 * dice.below(8) as u64);
        match (dice.below(6), cluster.links[node].is_some()) {
            (0, _) => {
                cluster.kill(node);
                cluster.during(span);
                slots[slot] = cluster.add(QUICK);
                cluster.await_ready();
            }
            (1, _) => {
                cluster.signal(node, Signal::STOP);
                cluster.report.stopped += 1;
                cluster.during(span);
                cluster.signal(node, Signal::CONT);
            }
            (2, true) => {
                cluster.doom(node);
                cluster.links[node].as_ref().unwrap().set(Mode::Hold);
                cluster.during(span);
                cluster.set_all(Mode::Pass);
            }
            (3 | 4, true) => {
                let how = if dice.below(2) == 0 { Cut::Before } else { Cut::After };
                cluster.links.iter().flatten().for_each(|link| link.cut_commit(how, None));
                cluster.during(span / 4);
            }
            (5, true) => cluster.links[node].as_ref().unwrap().cut_all(),
            _ => {
                cluster.take_away();
                cluster.during(span / 2);
                cluster.bring_back();
            }
        }
    }
    cluster.heal();
    let settled = cluster.settle(true);
    cluster.conclude(&settled);
}
