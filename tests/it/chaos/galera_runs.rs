//! Galera: members that are killed, frozen and cut off from the others, with a node beside each.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use super::cluster::{Cluster, PATIENT, Settled, now};
use super::dice::Dice;
use super::hand::{Hand, each_host};
use super::proxy::Cut;
use super::runs::RESUME;
use super::servers::Servers;
use crate::support::database::ServerKind;

/// The longest time without a start while one member is lost: others notice a silent one after 5 s
/// (`evs.suspect_timeout`) and wait for it until then; its node gives its calls up after 3 s.
const PAUSE: i64 = 20_000;

const STATE: (&str, &str) = (
    "VARIABLE_VALUE",
    "FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'WSREP_LOCAL_STATE_COMMENT'",
);

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Freeze,
    Isolate,
}

impl Servers {
    /// Cuts a member off from the others, or joins it to them again.
    fn isolate(&self, cluster: &mut Cluster, member: usize, is_alone: bool) {
        let set = format!("SET GLOBAL wsrep_provider_options = 'gmcast.isolate={}'", u8::from(is_alone));
        cluster.until("a member takes its setting", Duration::from_secs(30), |_| {
            self.hand(member).is_some_and(|mut hand| hand.run(&set).is_ok())
        });
    }

    /// One member is lost for so long and comes back; the longest time without a start is noted.
    fn suffer(&self, cluster: &mut Cluster, fault: Fault, member: usize, span: Duration) {
        match fault {
            Fault::Kill => {
                // While this file is there it stays down.
                let down = self.file(&format!("galera{}.down", member + 1));
                fs::write(&down, "").unwrap();
                self.signal(member, Signal::KILL);
                cluster.report.killed += 1;
                cluster.during(span);
                fs::remove_file(&down).unwrap();
            }
            Fault::Freeze => {
                self.signal(member, Signal::STOP);
                cluster.report.stopped += 1;
                cluster.during(span);
                self.signal(member, Signal::CONT);
            }
            Fault::Isolate => {
                self.isolate(cluster, member, true);
                cluster.during(span);
                self.isolate(cluster, member, false);
            }
        }
        for member in 0..3 {
            self.await_answer(cluster, member, STATE, "Synced");
        }
    }
}

/// Heals the cluster and waits until it has done everything. Its members must then hold the same rows.
fn settle(cluster: &mut Cluster) -> Settled {
    cluster.until("some member answers", Duration::from_secs(60), Cluster::reconnect);
    cluster.heal();
    let settled = cluster.settle(false);
    assert_alike(cluster);
    settled
}

/// Rows that differ are Galera's own loss: no node can be blamed for it.
fn assert_alike(cluster: &Cluster) {
    let rows = |url: String| -> BTreeSet<Vec<String>> {
        let mut hand = Hand::open(cluster.kind, &url).unwrap();
        hand.rows("id, state, fence, node", "FROM QRTZ_RUN").into_iter().collect()
    };
    let members: Vec<_> = each_host(&cluster.admin_url()).into_iter().map(rows).collect();
    for other in &members[1..] {
        let apart: Vec<_> = members[0].symmetric_difference(other).collect();
        assert!(apart.is_empty(), "{}: the members differ: {apart:?}", cluster.name);
    }
}

/// Three nodes, each on its own member.
fn start(name: &str) -> (Servers, Cluster) {
    let members = Servers::galera();
    let cluster = Cluster::over(&format!("galera::{name}"), &members, 3, PATIENT);
    (members, cluster)
}

fn conclude(mut cluster: Cluster, from: i64) {
    let settled = settle(&mut cluster);
    let pause = settled.longest_pause((from, cluster.healed));
    cluster.report.measure("pause_ms", pause, PAUSE);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    cluster.conclude(&settled);
}

/// One member after the other is killed, frozen and cut off.
pub fn members_that_are_lost_one_by_one_lose_nothing(_: ServerKind) {
    let (members, mut cluster) = start("lost_one_by_one");
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 60_000);
    cluster.await_begin("tick");
    let began = now();
    for (member, fault) in [Fault::Kill, Fault::Freeze, Fault::Isolate].into_iter().enumerate() {
        members.suffer(&mut cluster, fault, member, Duration::from_secs(8));
    }
    conclude(cluster, began);
}

/// The same by the dice, and commits are cut meanwhile.
pub fn a_storm_over_members_loses_nothing(_: ServerKind) {
    let mut dice = Dice::fresh();
    println!("galera: the storm's seed is {}", dice.seed);
    let (members, mut cluster) = start("storm");
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 240_000);
    cluster.await_begin("tick");
    let began = now();
    while now() < from + 180_000 {
        let fault = [Fault::Kill, Fault::Freeze, Fault::Isolate][dice.below(3)];
        for link in cluster.links.iter().flatten() {
            link.cut_commit(if dice.below(2) == 0 { Cut::Before } else { Cut::After }, None);
        }
        let span = Duration::from_millis(1_000 + 1_000 * dice.below(12) as u64);
        members.suffer(&mut cluster, fault, dice.below(3), span);
        cluster.during(Duration::from_secs(2));
    }
    conclude(cluster, began);
}

/// Two of three are cut off: nobody has a majority, and everything stands still until they are back.
pub fn members_without_a_majority_stand_still_and_lose_nothing(_: ServerKind) {
    let (members, mut cluster) = start("no_majority");
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 40_000);
    cluster.await_begin("tick");
    cluster.during(Duration::from_secs(3));
    for member in [1, 2] {
        members.isolate(&mut cluster, member, true);
    }
    cluster.during(Duration::from_secs(12));
    for member in [1, 2] {
        members.isolate(&mut cluster, member, false);
    }
    for member in 0..3 {
        members.await_answer(&mut cluster, member, STATE, "Synced");
    }
    let settled = settle(&mut cluster);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    assert_eq!(cluster.said("declared dead"), 0, "an outage kills nobody");
    cluster.conclude(&settled);
}
