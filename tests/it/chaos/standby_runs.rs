//! A PostgreSQL primary that is lost, and its standby that takes over, by a cluster manager of a few lines in
//! `scripts/clusters.sh`: what is silent for three seconds is killed, and the other promoted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use super::cluster::{Cluster, PATIENT, Settled, now};
use super::dice::Dice;
use super::judge::{Effect, Verdict};
use super::runs::RESUME;
use super::servers::Servers;
use crate::support::database::ServerKind;

/// The longest time without a start while the other server takes over: found silent after three to six
/// seconds, promoted, and given a standby of its own, before which it commits nothing.
const PAUSE: i64 = 30_000;

const IS_STANDBY: (&str, &str) = ("pg_is_in_recovery()", "");
const STANDBYS: (&str, &str) = ("COUNT(*)", "FROM pg_stat_replication WHERE state = 'streaming'");
const SECOND: Duration = Duration::from_secs(1);

/// Three nodes over a primary and its standby; which of them is the primary.
fn start(name: &str, is_synchronous: bool) -> (Servers, Cluster, usize) {
    let servers = Servers::standby();
    let name = format!("standby::{name}");
    let primary = primary(&servers);
    synchronise(&servers, primary, is_synchronous);
    let cluster = Cluster::over(&name, &servers, 3, PATIENT);
    (servers, cluster, primary)
}

fn primary(servers: &Servers) -> usize {
    let (columns, tail) = IS_STANDBY;
    let is_primary = |server: &usize| {
        servers
            .hand(*server)
            .is_some_and(|mut hand| hand.try_rows(columns, tail).is_ok_and(|it| it == [["f"]]))
    };
    (0..2).find(is_primary).expect("no primary")
}

/// Whether commits wait for the standby.
fn synchronise(servers: &Servers, primary: usize, is_synchronous: bool) {
    let names = if is_synchronous { "*" } else { "" };
    let mut hand = servers.hand(primary).unwrap();
    hand.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'")).unwrap();
    hand.run("SELECT pg_reload_conf()").unwrap();
}

/// Waits until this one is the primary, and the other its standby.
fn await_pair(servers: &Servers, cluster: &mut Cluster, primary: usize) {
    servers.await_answer(cluster, primary, IS_STANDBY, "f");
    // While it is copied, the copy streams too.
    servers.await_answer(cluster, 1 - primary, IS_STANDBY, "t");
    servers.await_answer(cluster, primary, STANDBYS, "1");
}

fn conclude(mut cluster: Cluster, from: i64) {
    cluster.until("the primary answers", Duration::from_secs(60), Cluster::reconnect);
    cluster.heal();
    let settled = cluster.settle(false);
    cluster.report.measure("pause_ms", settled.longest_pause((from, cluster.healed)), PAUSE);
    cluster.report.measure("resume_ms", settled.resumed(cluster.healed), RESUME);
    assert_eq!(cluster.said("declared dead"), 0, "a promotion kills nobody");
    cluster.conclude(&settled);
}

/// The primary is killed, the next one frozen.
pub fn a_promoted_standby_loses_nothing(_: ServerKind) {
    let (servers, mut cluster, primary) = start("promoted", true);
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 45_000);
    cluster.await_begin("tick");
    let began = now();
    for (server, signal) in [(primary, Signal::KILL), (1 - primary, Signal::STOP)] {
        cluster.during(4 * SECOND);
        servers.signal(server, signal);
        cluster.report.killed += 1;
        await_pair(&servers, &mut cluster, 1 - server);
    }
    assert!(cluster.said("another copy of the database answers") >= 2);
    conclude(cluster, began);
}

/// Primaries and standbys are killed and frozen by the dice.
pub fn a_storm_over_primary_and_standby_loses_nothing(_: ServerKind) {
    let mut dice = Dice::fresh();
    println!("standby: the storm's seed is {}", dice.seed);
    let (servers, mut cluster, mut primary) = start("storm", true);
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 200_000);
    cluster.await_begin("tick");
    let began = now();
    while now() < from + 180_000 {
        let (server, signal) = match dice.below(4) {
            0 => (primary, Signal::KILL),
            1 => (primary, Signal::STOP),
            2 => (1 - primary, Signal::KILL),
            _ => (1 - primary, Signal::STOP),
        };
        servers.signal(server, signal);
        if server == primary {
            primary = 1 - server;
        } else if signal == Signal::STOP {
            cluster.during(SECOND * (1 + u32::try_from(dice.below(8)).unwrap()));
            servers.signal(server, Signal::CONT);
        }
        cluster.report.killed += 1;
        await_pair(&servers, &mut cluster, primary);
        cluster.during(2 * SECOND);
    }
    conclude(cluster, began);
}

/// The standby's clock is 30 s ahead: a promotion moves the database's time, and the next moves it back.
pub fn a_promoted_servers_clock_may_be_30_s_off(_: ServerKind) {
    let (servers, mut cluster, primary) = start("clock", true);
    let (wall, standby) = (servers.file(&format!("pair{}.wall", 2 - primary)), 1 - primary);
    fs::write(&wall, "30000").unwrap();
    // It comes back with its new clock.
    servers.signal(standby, Signal::KILL);
    let from = now() + 10_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 120_000);
    cluster.await_begin("tick");
    await_pair(&servers, &mut cluster, primary);
    for server in [primary, standby] {
        cluster.during(10 * SECOND);
        servers.signal(server, Signal::KILL);
        cluster.report.killed += 1;
        await_pair(&servers, &mut cluster, 1 - server);
    }
    fs::remove_file(&wall).unwrap();
    // It gets the true clock back.
    servers.signal(standby, Signal::KILL);
    await_pair(&servers, &mut cluster, primary);
    cluster.until("the primary answers", Duration::from_secs(60), Cluster::reconnect);
    cluster.heal();
    let mut settled = cluster.settle(false);
    cluster.report.note("pause_ms", settled.longest_pause((from, from + 120_000)));
    // By the host's clock everything due within those 30 s began early, and until a node's next poll it goes
    // by the clock of before. Nothing is missing or there twice.
    settled.history.clock = vec![(0, 31_000)];
    settled.history.bounds.early = 31_000;
    cluster.conclude(&settled);
}

/// Commits do not wait for the standby, which has been cut off for some seconds when the primary is killed.
pub fn a_promotion_that_loses_commits_is_told_and_its_fences_go_on(_: ServerKind) {
    let (servers, mut cluster, primary) = start("commits_lost", false);
    let standby = 1 - primary;
    let from = now() + 3_000;
    cluster.load.ticks(&cluster.client, 24, from, from + 30_000);
    cluster.await_begin("tick");
    cluster.during(3 * SECOND);
    let mut hand = servers.hand(standby).unwrap();
    let cut = now();
    hand.run("ALTER SYSTEM SET primary_conninfo = ''").unwrap();
    hand.run("SELECT pg_reload_conf()").unwrap();
    servers.await_answer(&mut cluster, primary, STANDBYS, "0");
    cluster.during(4 * SECOND);
    servers.signal(primary, Signal::KILL);
    let killed = now();
    cluster.report.killed += 1;
    await_pair(&servers, &mut cluster, standby);
    cluster.until("the primary answers", Duration::from_secs(60), Cluster::reconnect);
    synchronise(&servers, standby, true);
    cluster.heal();
    let settled = cluster.settle(false);
    assert!(cluster.said("another copy of the database answers") >= 3, "every node tells of it");
    let twice = only_the_lost_began_twice(&settled, (cut, killed));
    assert!(twice > 0, "no commit was lost");
    cluster.report.note("twice", twice);
    cluster.report.note("pause_ms", settled.longest_pause((cut, from + 30_000)));
    let fired = settled.history.effects.len();
    cluster.conclude_by(&Verdict { fired, ..Verdict::default() });
}

/// How many attempts began twice: each first within the span, and with a higher fence the second time. Every
/// other one began once, and none is missing.
fn only_the_lost_began_twice(settled: &Settled, (cut, killed): (i64, i64)) -> i64 {
    let mut begun: BTreeMap<(&str, i64), Vec<&Effect>> = BTreeMap::new();
    for effect in &settled.history.effects {
        begun.entry((&effect.schedule, effect.scheduled)).or_default().push(effect);
    }
    let mut twice = 0;
    for effects in begun.values_mut() {
        effects.sort_by_key(|it| it.at);
        for pair in effects.windows(2) {
            assert!(pair[0].fence < pair[1].fence, "a fence did not grow: {pair:?}");
            assert!((cut - 500..killed + 500).contains(&pair[0].at), "stored, and run again: {pair:?}");
            twice += 1;
        }
    }
    let mut fences = BTreeSet::new();
    for effect in &settled.history.effects {
        assert!(fences.insert((&effect.schedule, effect.fence)), "a fence was given twice: {effect:?}");
    }
    for plan in &settled.history.plans {
        for at in plan.generations.values().flatten() {
            let is_in_ledger = settled.history.executions.iter().any(|it| {
                let until = it.until.unwrap_or(it.scheduled);
                it.schedule == plan.schedule && (it.scheduled..=until).contains(at)
            });
            assert!(is_in_ledger, "{} at {at} is missing", plan.schedule);
        }
    }
    twice
}
