//! The runs of the short form: those that CI makes.

use std::time::Duration;

use super::cluster::{Cluster, PATIENT, QUICK, Setup, now};
use super::proxy::{Cut, Mode};
use super::saved;
use super::wire::Commit;
use crate::support::database::ServerKind;

/// Unclaimed work of a killed node begins elsewhere within this.
const PICK_UP: i64 = 8_000;
/// Claimed work of a killed node is taken back and begun anew within this.
pub const SETTLE: i64 = 60_000;
/// Once the database is back, something fires within this.
pub const RESUME: i64 = 10_000;
/// A node's log in an outage: six machines, each of which tries about once a second, or twice.
pub const LOG_LINES: i64 = 360;
/// Three nodes' connections after an outage, with the test's own: one per machine, and some to spare.
pub const CONNECTIONS: i64 = 30;
const SECOND: Duration = Duration::from_secs(1);

/// A node dies while it runs jobs and holds others, and while work comes that it alone had planned.
pub fn a_killed_nodes_work_is_done_by_others(kind: ServerKind) {
    let mut cluster = Cluster::start("sigkill", kind, 3, PATIENT);
    let from = now() + 4_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 30_000);
    cluster.load.held(&cluster.client, 12, from + 4_000, 12_000);
    cluster.pay(100, (from + 3_400, 20));
    cluster.load.saved(&cluster.client, 12, from + 2_500, 400);
    let victim = cluster.await_begin("held");
    let id = cluster.node_id(victim);
    cluster.load.quick(&cluster.client, "late", 10, now() + 300);
    let killed = cluster.kill(victim);
    cluster.heal();
    cluster.pause("tick-00");
    cluster.during(3 * SECOND);
    cluster.resume("tick-00");
    let settled = cluster.settle(false);
    let (late, execution) = settled.pick_up(&id, killed);
    println!("picked up last, {late} ms late: {execution:?}");
    cluster.report.measure("pick_up_ms", late, PICK_UP);
    let (latest, held) = settled.settled(&id, killed);
    cluster.report.measure("settle_ms", latest, SETTLE);
    cluster.report.note("held", held);
    assert!(held > 0, "the node held nothing");
    let paid = settled.history.effects.iter().filter(|it| it.completes);
    let (cut, paid): (Vec<_>, Vec<_>) = paid.partition(|it| it.ended.is_none());
    let committed = paid.iter().filter(|it| !it.committed.is_empty()).count();
    cluster.report.note("paid", committed.try_into().unwrap());
    cluster.report.note("pay_cut", cut.len().try_into().unwrap());
    assert!(committed >= 50, "{committed} of {} have committed", paid.len());
    let (gone_on, again) = (settled.gone_on(), settled.steps() - 12 * saved::STEPS);
    cluster.report.note("gone_on", gone_on);
    assert!(gone_on > 0, "nothing went on from a checkpoint: {:?}", settled.history.resumes);
    let unanswered = settled.unanswered();
    assert!(
        (0..=unanswered).contains(&again),
        "{again} steps were done again, {unanswered} without an answer"
    );
    cluster.conclude(&settled);
}

/// Connections break where a node cannot know whether its commit was done.
pub fn a_commit_without_an_answer_is_found_out(kind: ServerKind) {
    let mut cluster = Cluster::start("cut_commit", kind, 3, QUICK);
    let from = now() + 2_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 30_000);
    cluster.pay(200, (from + 1_000, 100));
    cluster.load.saved(&cluster.client, 16, from, 400);
    cluster.await_begin("tick");
    let kinds = [
        (Cut::After, Commit::Claim),
        (Cut::Before, Commit::Claim),
        (Cut::After, Commit::Other),
        (Cut::Before, Commit::Other),
    ];
    for n in 0..32 {
        let (how, kind) = kinds[n % 4];
        cluster.cut_commit(n % 3, how, kind);
    }
    cluster.heal();
    let settled = cluster.settle(false);
    let unknown = cluster.said("is unknown: asking the database");
    cluster.report.note("unknown_claims", unknown.try_into().unwrap());
    // Of the sixteen claims that are cut some are the look for what became of one before: that has a name of
    // its own, and leaves no second commit unknown. And an occurrence that would overlap is passed over by
    // a commit that looks the same.
    let names = ["claim", "resolving an unknown commit", "passing over what would overlap"];
    let failed: usize =
        names.iter().map(|name| cluster.said(&format!("{name} failed, will be tried again"))).sum();
    assert!(failed >= 16 && unknown >= 7, "{failed} failed claims, {unknown} unknown ones");
    let unanswered = settled.unanswered();
    cluster.report.note("unanswered_checkpoints", unanswered);
    assert!(unanswered > 0, "no checkpoint's commit was cut");
    settled.assert_none_abandoned();
    cluster.conclude(&settled);
}

/// Nothing comes through and nobody is told, for longer than a node may be silent; then it ends for one after
/// the other, and the first must not take the rest for dead.
pub fn a_black_hole_kills_nobody_and_loses_nothing(kind: ServerKind) {
    let mut cluster = Cluster::start("black_hole", kind, 3, QUICK);
    let from = now() + 2_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 25_000);
    cluster.await_begin("tick");
    cluster.during(3 * SECOND);
    cluster.set_all(Mode::Hold);
    let down = now();
    cluster.during(9 * SECOND);
    cluster.heal();
    for node in 0..3 {
        cluster.links[node].as_ref().unwrap().set(Mode::Pass);
        cluster.during(SECOND);
    }
    let settled = cluster.settle(false);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
    cluster.report.measure("connections", settled.connections, CONNECTIONS);
    assert_eq!(cluster.said("declared dead"), 0, "a silent database kills nobody");
    settled.assert_none_abandoned();
    cluster.conclude(&settled);
}

/// A network that forgets its connections without a word, again and again: those that were open stay silent
/// for ever, and what waits on them is not to use up what a node may leave behind.
pub fn connections_that_stay_silent_are_given_up(kind: ServerKind) {
    let mut cluster = Cluster::start("silent", kind, 3, QUICK);
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 50_000);
    cluster.await_begin("tick");
    cluster.during(3 * SECOND);
    let down = now();
    for _ in 0..4 {
        cluster.set_all(Mode::Swallow);
        cluster.during(5 * SECOND);
        cluster.set_all(Mode::Pass);
        cluster.heal();
        cluster.during(4 * SECOND);
    }
    let settled = cluster.settle(false);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
    assert_eq!(cluster.said("was ended by others"), 0, "an outage kills nobody");
    settled.assert_none_abandoned();
    cluster.conclude(&settled);
}

/// The database is away, and a node is asked to stop meanwhile.
pub fn an_outage_ends_no_node_and_a_shutdown_in_it_keeps_its_deadline(kind: ServerKind) {
    const GRACE: Duration = Duration::from_secs(4);
    let mut cluster = Cluster::start("outage", kind, 3, Setup { grace: GRACE, ..PATIENT });
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 35_000);
    cluster.await_begin("tick");
    cluster.during(3 * SECOND);
    let down = now();
    cluster.take_away();
    cluster.during(4 * SECOND);
    // It cannot say that it leaves.
    cluster.doom(0);
    let (shutdown, _) = cluster.shut_down(0);
    cluster.during(6 * SECOND);
    cluster.bring_back();
    cluster.heal();
    let settled = cluster.settle(false);
    let grace = i64::try_from(GRACE.as_millis()).unwrap();
    cluster.report.measure("connections", settled.connections, CONNECTIONS);
    cluster.report.measure("shutdown_ms", shutdown, grace + 1_000);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.report.measure("log_lines", cluster.log_lines(down, cluster.healed), LOG_LINES);
    assert_eq!(cluster.said("was ended by others"), 0, "an outage kills nobody");
    cluster.conclude(&settled);
}

impl Cluster {
    /// The database goes away: its connections break, and SQLite's file is locked.
    pub fn take_away(&mut self) {
        self.set_all(Mode::Down);
        if self.links.iter().flatten().count() == 0 {
            self.hand.run("BEGIN IMMEDIATE").unwrap();
        }
    }

    pub fn bring_back(&mut self) {
        if self.links.iter().flatten().count() == 0 {
            self.hand.run("ROLLBACK").unwrap();
        }
        self.set_all(Mode::Pass);
    }
}

/// Each node believes another wall clock; all work by the database's.
pub fn a_clock_offset_per_node_changes_nothing(kind: ServerKind) {
    const OFFSETS: [i64; 4] = [3_600_000, -90_000, 1_500, 0];
    let mut cluster = Cluster::new("clock_offset", kind);
    for wall in OFFSETS {
        cluster.add(Setup { wall, ..QUICK });
    }
    cluster.await_ready();
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 15_000);
    cluster.heal();
    let settled = cluster.settle(false);
    let (earliest, latest) = settled.lateness();
    cluster.report.measure("early_ms", -earliest, 0);
    cluster.report.measure("latest_ms", latest, 5_000);
    for (node, wall) in OFFSETS.iter().enumerate().take(3) {
        let log = cluster.log(node);
        let said = log.split("the database's clock is ").nth(1);
        let said = said.unwrap_or_else(|| panic!("node {node} did not notice: {log}"));
        let apart: i64 = said.split(' ').next().unwrap().parse().unwrap();
        let offset = if said.contains("ms behind this host's") { -apart } else { apart };
        assert!(
            (offset + wall).abs() < 500,
            "node {node} thinks its clock is {} ms ahead, not {wall}",
            -offset
        );
    }
    settled.assert_none_abandoned();
    assert!(settled.history.effects.len() > 100, "{}", settled.history.effects.len());
    cluster.conclude(&settled);
}
