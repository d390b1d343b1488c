//! Whole clusters in virtual time: the production machines and the pool's own floor, with faults in between.
//!
//! The simulator makes no scheduling decision of its own. It runs each machine's `next` and `done`, and
//! between the two it performs the operation late, not at all, or without telling what became of it; it
//! kills, stops, cuts off and restarts nodes and sets their clocks wrong. A seed replays exactly.

mod actor;
mod cluster;
mod database;
mod dice;
mod jobs;
pub(crate) mod judge;
mod judge_tests;
mod plans;
mod process;
mod sabotage;
mod scenario;
mod wire;

use std::sync::atomic::{AtomicU64, Ordering};

use cluster::Cluster;
use judge::judge;
use scenario::{Faults, Played, Scenario};

const QUARTER: i64 = 900_000;

#[test]
fn a_quiet_cluster_fires_every_occurrence_once() {
    let quiet = Scenario { seed: 1, nodes: 3, schedules: 20, span: QUARTER, faults: Faults::NONE };
    let verdict = quiet.prove().verdict;
    assert_eq!(verdict.skipped, 0, "nothing was ever late");
    assert!(verdict.fired > 3_000, "{verdict:?}");
}

/// So many claims as `FIRETIME_CLAIMS` says, or the one simulation that `FIRETIME_SCENARIO` describes.
#[test]
fn clusters_under_fire_lose_and_repeat_nothing() {
    if let Ok(line) = std::env::var("FIRETIME_SCENARIO") {
        let played = line.parse::<Scenario>().unwrap().prove();
        return println!("{played:?}");
    }
    let wanted = std::env::var("FIRETIME_CLAIMS").map_or(20_000, |text| text.parse().unwrap());
    let first = std::env::var("FIRETIME_SEED").map_or(0, |text| text.parse().unwrap());
    let [seeds, claims, faults] = [const { AtomicU64::new(0) }; 3];
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while claims.load(Ordering::Relaxed) < wanted {
                    let seed = first + seeds.fetch_add(1, Ordering::Relaxed);
                    let Played { claims: won, faults: struck, .. } = Scenario::under_fire(seed).prove();
                    claims.fetch_add(won, Ordering::Relaxed);
                    faults.fetch_add(struck, Ordering::Relaxed);
                }
            });
        }
    });
    let [seeds, claims, faults] = [seeds, claims, faults].map(|count| count.load(Ordering::Relaxed));
    println!("simulated: seeds={seeds} claims={claims} faults={faults}");
    assert!(10 * faults >= claims, "too quiet: {faults} faults over {claims} claims");
}

/// An earlier scheduler ran 941 of these 4,000. Late is as bad as lost: what one poll misses the next still finds.
#[test]
fn occurrences_on_the_windows_edge_are_not_dropped() {
    let mut cluster = Cluster::on_every_second(3, 100, 40);
    cluster.run();
    let latest = cluster.effects().iter().map(|effect| effect.at - effect.scheduled).max();
    assert!(latest.is_some_and(|late| late < 1_000), "{latest:?} ms late");
    let verdict = judge(&cluster.history());
    verdict.assert_clean();
    assert_eq!((verdict.fired, verdict.skipped, verdict.attempts), (4_000, 0, 4_000));
}

#[test]
fn a_seed_replays_exactly() {
    let fire = Scenario { span: QUARTER / 3, ..Scenario::under_fire(7) };
    assert_eq!(fire.play(&[]), fire.play(&[]));
    assert_eq!(fire.to_string().parse(), Ok(fire));
}

#[test]
fn zz_survey() {
    use crate::store::guard::*;
    use sabotage::Sabotage::*;
    let all: Vec<Vec<sabotage::Sabotage>> = vec![
        vec![Blind(&CLAIM, Column::State)],
        vec![Blind(&CLAIM, Column::PrevFireTime)],
        vec![Blind(&CLAIM, Column::NextFireTime)],
        vec![Blind(&CLAIM, Column::Version)],
        vec![Blind(&CLAIM, Column::PrevFireTime), Blind(&CLAIM, Column::NextFireTime)],
        vec![Blind(&TAKE, Column::State)],
        vec![Blind(&TAKE, Column::ClaimToken)],
        vec![Blind(&START, Column::ClaimToken)],
        vec![Blind(&START, Column::ClaimToken), NoDeadline],
        vec![Blind(&OUTCOME, Column::ClaimToken)],
        vec![Blind(&REPAIR, Column::State)],
        vec![Blind(&REPAIR, Column::PrevFireTime)],
        vec![Blind(&REPAIR, Column::NextFireTime)],
        vec![Blind(&REPAIR, Column::Version)],
        vec![Blind(&REPAIR, Column::PrevFireTime), Blind(&REPAIR, Column::NextFireTime)],
        vec![Blind(&REVOKE, Column::ClaimToken)],
        vec![Blind(&REVOKE, Column::ClaimToken), Blind(&START, Column::ClaimToken)],
        vec![Blind(&BEAT, Column::Beat)],
        vec![NoDeadline],
        vec![ResolveWithoutWaiting],
        vec![TornRepair],
    ];
    for sabotages in all {
        let begun = std::time::Instant::now();
        let caught = (0..40).find_map(|seed| {
            let verdict = Scenario::under_fire(seed).play(&sabotages).verdict;
            verdict
                .violations
                .first()
                .map(|it| (seed, verdict.violations.len(), it.chars().take(100).collect::<String>()))
        });
        let names: Vec<String> = sabotages
            .iter()
            .map(|it| {
                format!("{it:?}").replace("Guard { name: ", "").chars().take(20).collect::<String>()
                    + &format!("{it:?}")
                        .chars()
                        .rev()
                        .take(14)
                        .collect::<String>()
                        .chars()
                        .rev()
                        .collect::<String>()
            })
            .collect();
        println!("{names:?} {:?} {caught:?}", begun.elapsed());
    }
}
