//! Whole clusters in virtual time: the production machines and the pool's own floor, with faults in between.
//!
//! The simulator makes no scheduling decision of its own. It runs each machine's `next` and `done`, and
//! between the two it performs the operation late, not at all, or without telling what became of it; it
//! kills, stops, cuts off and restarts nodes and sets their clocks wrong. A seed replays exactly.
//!
//! ```text
//! scenario    a seed, a size and a mix of faults, on one line; play runs it and has it judged
//! faults      what goes wrong, and how often
//! cluster/    the world and its steps of time, the misfortunes of each second, situations of single tests
//! process/    one node: its machines and threads; clocks and seats beside it
//! actor       one machine between next and done
//! wire        a node's way to the database; operations says what calls touch and cost
//! database    the in-memory store, one or several members of it, or sqlite
//! plans       the schedules, what must come of them, and what operators do to them; jobs: what they run
//! deaths      who died, and who noticed; switches: what was switched off
//! judge       checks the history
//! sabotage    protections switched off, each of which some simulation must miss
//! ```

mod actor;
mod clocks;
mod cluster;
mod database;
mod deaths;
mod faults;
mod jobs;
pub(crate) mod judge;
mod judge_tests;
mod operations;
mod plans;
mod play;
mod process;
mod sabotage;
mod scenario;
mod seats;
#[cfg(feature = "sqlite")]
mod sqlite;
mod switches;
mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cluster::Cluster;
use cluster::situations::Neighbours;
use faults::Faults;
use judge::{Checkpoint, Effect, Execution, Verdict, judge};
use play::Played;
use sabotage::Sabotage;
use scenario::Scenario;
use wire::Completions;

use crate::domain::{Event, Millis, Overlap};

const QUARTER: i64 = 900_000;

#[test]
fn a_quiet_cluster_fires_every_occurrence_once() {
    let quiet = Scenario { seed: 1, nodes: 3, schedules: 20, span: QUARTER, faults: Faults::NONE };
    let verdict = quiet.prove().verdict;
    assert_eq!(verdict.skipped, verdict.overlapped, "nothing was ever late");
    assert!(verdict.fired > 3_000, "{verdict:?}");
}

/// Nodes that know of one another hardly ever reach for the same row; strangers do all the time.
#[test]
fn the_nodes_of_a_quiet_cluster_lose_no_claims_to_one_another() {
    for nodes in [2, 4, 8] {
        let share = |strangers| {
            let faults = Faults { strangers, ..Faults::NONE };
            let played = Scenario { seed: 1, nodes, schedules: 40, span: QUARTER / 3, faults }.prove();
            100.0 * played.lost as f64 / (played.lost + played.claims) as f64
        };
        let (known, strange) = (share(0), share(1_000_000));
        println!("claims lost: nodes={nodes} percent={known:.2} among_strangers={strange:.2}");
        assert!(known < 2.0 && strange > 20.0, "{nodes} nodes lost {known} %, strangers {strange} %");
    }
}

/// Claims are made ahead, so that executions start at their time: if a thread is free, no later than a
/// claim's answer takes on its way back.
#[test]
fn a_quiet_cluster_starts_on_time() {
    let quiet = Scenario { seed: 1, nodes: 3, schedules: 20, span: QUARTER / 3, faults: Faults::NONE };
    let mut cluster = Cluster::new(&quiet, database::Database::memory(), &[]);
    cluster.run();
    let first = cluster.effects().iter().filter(|effect| effect.attempt == 1);
    let mut late: Vec<i64> = first.map(|effect| effect.at - effect.scheduled).collect();
    late.sort_unstable();
    let (earliest, median) = (late[0], late[late.len() / 2]);
    assert!(earliest >= 0 && median <= 3, "of {}: {earliest} and {median} ms late", late.len());
}

/// The node that stored a failure looks for its retry before that is due, 1 s later, and not with its next
/// poll.
#[test]
fn a_quiet_cluster_retries_on_time() {
    let quiet = Scenario { seed: 1, nodes: 3, schedules: 20, span: QUARTER / 3, faults: Faults::NONE };
    let mut cluster = Cluster::new(&quiet, database::Database::memory(), &[]);
    cluster.run();
    let history = cluster.history();
    let due = |id| history.executions.iter().find(|row| row.id == id).map(|row| row.due);
    let retries = history.effects.iter().filter(|effect| effect.attempt > 1);
    let mut late: Vec<i64> = retries.filter_map(|effect| Some(effect.at - due(effect.execution)?)).collect();
    late.sort_unstable();
    assert!(late.len() > 100 && late[late.len() / 2] < 10 && late[late.len() - 1] < 500, "{late:?}");
}

/// Quiet: one interval until the beat is seen, `death_after`, and one more. With one store call in ten
/// failing, twice that.
#[test]
fn a_death_is_noticed_in_time() {
    for (calls, bound) in [(0, 37_000), (100_000, 70_000)] {
        let faults = Faults { calls, kills: 4_000, ..Faults::NONE };
        let played = (0..10).map(|seed| Scenario { schedules: 5, ..Scenario::of(faults, seed) }.prove());
        let longest = played.map(|played| played.unnoticed).max().unwrap();
        println!("unnoticed: calls_failing_per_million={calls} longest_ms={longest}");
        assert!((25_000..=bound).contains(&longest), "{longest} ms");
    }
}

/// So many claims as `FIRETIME_CLAIMS` says, or the one simulation that `FIRETIME_SCENARIO` describes.
#[test]
fn clusters_under_fire_lose_and_repeat_nothing() {
    if let Ok(line) = std::env::var("FIRETIME_SCENARIO") {
        let played = line.parse::<Scenario>().unwrap().prove();
        return println!("{played:?}");
    }
    campaign("simulated", wanted_claims(), Scenario::under_fire);
}

/// The same on a database of several members, each with its own copy of the tables: some lack the commits of
/// the last seconds, and nodes go from one to another.
#[test]
fn clusters_on_lagging_members_lose_and_repeat_nothing() {
    campaign("simulated on members", wanted_claims() / 10, Scenario::on_members);
}

fn campaign(name: &str, wanted: u64, scenario: impl Fn(u64) -> Scenario + Sync) {
    let first = first_seed();
    let [seeds, claims, faults] = [const { AtomicU64::new(0) }; 3];
    on_every_core(|| {
        while claims.load(Ordering::Relaxed) < wanted {
            let seed = first + seeds.fetch_add(1, Ordering::Relaxed);
            let Played { claims: won, faults: struck, .. } = scenario(seed).prove();
            claims.fetch_add(won, Ordering::Relaxed);
            faults.fetch_add(struck, Ordering::Relaxed);
        }
    });
    let [seeds, claims, faults] = [seeds, claims, faults].map(|count| count.load(Ordering::Relaxed));
    println!("{name}: seeds={seeds} claims={claims} faults={faults}");
    assert!(10 * faults >= claims, "too quiet: {faults} faults over {claims} claims");
}

/// The outage is shorter than the misfire threshold less the most that two clocks differ.
#[test]
fn a_standby_with_all_commits_and_another_clock_skips_and_repeats_nothing() {
    for seed in 0..10 {
        let faults = Faults { promotions: 12_000, ..Faults::NONE };
        let mut cluster = Cluster::beside_promotions(seed, true, faults, &[]);
        cluster.run();
        let (promotions, _) = cluster.taken_over();
        let verdict = judge(&cluster.history());
        verdict.assert_clean();
        println!("promoted: seed={seed} promotions={promotions} fired={}", verdict.fired);
        assert_eq!(verdict.skipped, verdict.overlapped);
        assert!(promotions > 0);
    }
}

/// A standby that lacks the last commits takes over: what these claimed runs again, under a higher fence, and
/// nothing else is repeated or lost.
#[test]
fn a_standby_that_lacks_commits_repeats_those_alone_and_under_higher_fences() {
    let (calls, slow, long_jobs, completes) = (20_000, 20_000, 20_000, 200_000);
    let faults = Faults { losses: 12_000, calls, slow, long_jobs, completes, ..Faults::NONE };
    let play = |seed, sabotages: &[Sabotage]| {
        let mut cluster = Cluster::beside_promotions(seed, false, faults, sabotages);
        cluster.run();
        let (promotions, lost) = cluster.taken_over();
        (judge(&cluster.history()), promotions, lost)
    };
    let (mut repeated, mut missed) = (0, 0);
    for seed in 0..10 {
        let (verdict, promotions, lost) = play(seed, &[]);
        println!("lost: seed={seed} promotions={promotions} begun={lost} fired={}", verdict.fired);
        verdict.assert_clean();
        repeated += lost;
        let without = play(seed, &[Sabotage::NoFloor]).0.violations;
        missed += usize::from(without.iter().any(|it| it.contains("fence")));
    }
    assert!(repeated > 100, "{repeated} executions were lost");
    assert!(missed > 5, "nobody misses the floor of the fences");
}

/// A node, or the whole application, that somebody switches off stops within one poll.
#[test]
fn clusters_that_are_switched_off_stop_within_one_poll() {
    for seed in 0..10 {
        Scenario::of(Faults::SWITCHED, seed).prove();
    }
}

/// Pauses of the application, its jobs and its nodes begin within one poll, end by themselves, and run
/// nothing that they held back; a node that drains hands back what waits, and has nothing left when it says
/// so.
#[test]
fn what_is_paused_and_drained_is_so_within_one_poll() {
    for seed in 0..10 {
        Scenario::of(Faults::LEVELLED, seed).prove();
    }
}

/// Programs write requests into the database while nodes that carry them out are killed, or never hear that
/// they have: each is carried out once, and those of one key in order; on several members, too.
#[test]
fn requests_of_other_programs_are_carried_out_once() {
    for seed in 0..10 {
        Scenario::of(Faults::WRITTEN, seed).prove();
        Scenario::of(Faults { lags: 200_000, moves: 100_000, ..Faults::WRITTEN }, seed).prove();
    }
}

/// Servers of two releases of each owner start again and again, also on members that are behind: an owner's
/// schedules are those of its newest list, whole, and nobody else's are touched.
#[test]
fn two_releases_side_by_side_undo_nothing() {
    for seed in 0..4 {
        Scenario::of(Faults::RELEASED, seed).prove();
        Scenario::of(Faults { lags: 0, moves: 0, ..Faults::RELEASED }, seed).prove();
    }
    #[cfg(feature = "sqlite")]
    {
        let alone = Scenario::of(Faults { lags: 0, moves: 0, ..Faults::RELEASED }, 0);
        let scenario = Scenario { span: QUARTER / 3, ..alone };
        let verdict = scenario.play_on(database::Database::sqlite(), &[]).verdict;
        assert!(verdict.violations.is_empty(), "{scenario}: {:#?}", verdict.violations);
    }
}

/// Occurrences that fail, are skipped, or die with their nodes are rerun, and reruns are ended: each runs
/// once, and none that has succeeded.
#[test]
fn what_was_missed_is_rerun_once() {
    for seed in 0..10 {
        Scenario::of(Faults::RERUN, seed).prove();
    }
}

/// Much fails, is late, paused or skipped, or dies with its node: what is unmet is noted once, and so is its
/// end, also by members that are behind; and so is what nobody can run.
#[test]
fn what_is_expected_is_noted_once_whatever_goes_wrong() {
    let mut unmet = 0;
    for seed in 0..6 {
        unmet += Scenario::of(Faults::EXPECTED, seed).prove().verdict.unmet;
        Scenario::of(Faults { lags: 200_000, moves: 100_000, ..Faults::EXPECTED }, seed).prove();
    }
    println!("expected: unmet={unmet}");
    assert!(unmet > 100, "{unmet}");
}

/// Clusters under fire on SQLite, for a hundredth of the claims, without the faults that need a database in
/// virtual time.
#[cfg(feature = "sqlite")]
#[test]
fn clusters_on_sqlite_lose_and_repeat_nothing() {
    let mut sum = (0, 0);
    for seed in first_seed().. {
        let scenario = Scenario { span: QUARTER / 3, ..Scenario::under_fire(seed) };
        let Played { verdict, claims, faults, .. } = scenario.play_on(database::Database::sqlite(), &[]);
        assert!(verdict.violations.is_empty(), "{scenario}: {:#?}", verdict.violations);
        sum = (sum.0 + claims, sum.1 + faults);
        if 100 * sum.0 >= wanted_claims() {
            println!(
                "simulated on sqlite: seeds={} claims={} faults={}",
                seed + 1 - first_seed(),
                sum.0,
                sum.1
            );
            break;
        }
    }
}

/// Whichever node is elected, and however many of them die: the job's row says when it was told last.
#[test]
fn what_nobody_can_run_is_told_once_an_hour_by_one_node() {
    const HOUR: Millis = 3_600_000;
    for seed in 0..2 {
        let mut cluster = Cluster::beside_a_job_of_nobody(seed, HOUR + QUARTER);
        cluster.run();
        let told = cluster.alarms().iter().map(|(at, event)| match event {
            Event::NobodyCanRun { job, .. } if **job == *jobs::NOBODYS => at - cluster.begins(),
            other => panic!("told at {at}: {other}"),
        });
        let times: Vec<Millis> = told.collect();
        println!("unrunnable: seed={seed} told={times:?} deaths={}", cluster.unnoticed().len());
        assert_eq!(times.len(), 2, "{times:?}");
        assert!((60_000..=120_000).contains(&times[0]), "{times:?}");
        assert!((HOUR..=HOUR + 120_000).contains(&(times[1] - times[0])), "{times:?}");
        assert!(!cluster.unnoticed().is_empty(), "no node has died");
    }
}

/// Each occurrence takes longer than it is expected to: it is unmet once, and met once it has succeeded,
/// whichever nodes are elected and die. The audit says the same as the events.
#[test]
fn what_is_expected_and_does_not_come_is_noted_once() {
    for (seed, kills) in [(0, 0), (1, 0), (2, 3_000), (3, 3_000)] {
        let (mut cluster, occurrences) = Cluster::of_an_expectation(seed, kills);
        cluster.run();
        let (mut unmet, mut met) = (BTreeMap::new(), BTreeMap::new());
        for (at, event) in cluster.alarms() {
            let (told, fire_time) = match event {
                Event::ExpectationUnmet { fire_time, .. } => (&mut unmet, fire_time.timestamp_millis()),
                Event::ExpectationMet { fire_time, .. } => (&mut met, fire_time.timestamp_millis()),
                other => panic!("told at {at}: {other}"),
            };
            assert_eq!(told.insert(fire_time, *at), None, "told twice: {event}");
        }
        let audited = cluster.audited();
        let count = |verb: &str| audited.iter().filter(|(it, of)| it == verb && of == "slow").count();
        println!("expected: seed={seed} unmet={} met={} audited={}", unmet.len(), met.len(), audited.len());
        assert_eq!((count("unmet"), count("met")), (unmet.len(), met.len()));
        assert_eq!(unmet.keys().collect::<Vec<_>>(), met.keys().collect::<Vec<_>>());
        for (at, up) in &occurrences {
            let told = unmet.get(at).map(|told| told - up);
            let is_in_time = told.is_some_and(|late| (0..=30_000).contains(&late));
            assert!(is_in_time || kills > 0, "{at} was told {told:?} ms behind its span");
            assert!(told.is_none_or(|late| late >= 0), "{at} was told {told:?} ms behind its span");
        }
        assert!(unmet.len() > 5, "{unmet:?}");
    }
}

/// Polls, heartbeats, elections and repair's looks, with nothing due: at most four statements in five
/// seconds, and where nodes glance at the database one more for each glance.
#[cfg(feature = "sqlite")]
#[test]
fn an_idle_node_hardly_asks() {
    use crate::store::sql::tests::count;
    count::begin();
    for (nodes, glance, glances) in [(1, None, 0.0), (3, None, 0.0), (1, Some(200), 25.0)] {
        let idle = |span| {
            let before = count::statements();
            Cluster::idle(nodes, span, glance).run();
            count::statements() - before
        };
        // What is asked at the start and at the end is not counted, but for the purge's walk, once an hour.
        let statements = (idle(QUARTER + 600_000) - idle(QUARTER)) as f64;
        let each = statements / 120.0 / nodes as f64;
        println!("idle: nodes={nodes} glance={glance:?} statements_per_node_in_5_s={each:.2}");
        assert!((2.0..=4.0 + glances).contains(&each), "{each} statements");
    }
}

/// An earlier scheduler ran 941 of these 4,000. Late is as bad as lost: what one poll misses the next still
/// finds.
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

/// Repaired one by one, in passes of three seconds, they took minutes.
#[test]
fn thousands_of_schedules_are_caught_up_with_after_an_outage() {
    const ROWS: usize = 3_000;
    let last_begun = |sabotages: &[Sabotage]| {
        let mut cluster = Cluster::after_an_outage(3, ROWS, sabotages);
        cluster.run();
        let first = cluster.effects().iter().filter(|effect| effect.attempt == 1);
        let (begun, last) = first.fold((0, 0), |(n, last), effect| (n + 1, effect.at.max(last)));
        let after = last - cluster.healed();
        judge(&cluster.history()).assert_clean();
        assert_eq!(begun, ROWS);
        println!("caught up: schedules={ROWS} sabotages={sabotages:?} last_begun_after_ms={after}");
        after
    };
    assert!(last_begun(&[]) < 60_000);
    assert!(last_begun(&[Sabotage::RepairOneByOne]) > 60_000, "one by one is as good");
}

/// Eight copies of it once ran at once.
#[test]
fn after_an_outage_one_copy_of_a_long_job_runs() {
    let most_at_once = |rule| {
        let mut cluster = Cluster::long_runs_in_an_outage(rule);
        cluster.run();
        let begun = cluster.effects().iter().filter(|effect| effect.at > cluster.healed());
        let runs: Vec<(i64, Option<i64>)> = begun.map(|effect| (effect.at, effect.ended)).collect();
        assert!(!runs.is_empty(), "it fires again");
        let run_at = |at: i64| runs.iter().filter(move |run| run.0 <= at && run.1.is_none_or(|end| end > at));
        let most = runs.iter().map(|run| run_at(run.0).count()).max().unwrap();
        let verdict = judge(&cluster.history());
        let left = |it: &&String| !it.contains("still held");
        assert_eq!(verdict.violations.iter().find(left), None);
        println!("after an outage of ten minutes: rule={rule:?} concurrency={most}");
        most
    };
    assert_eq!(most_at_once(Overlap::Skip), 1);
    assert!(most_at_once(Overlap::Allow) > 5, "nobody misses the rule");
}

/// Polls must not begin behind such schedules: only a look, or the repair after the next election, would find
/// them.
#[test]
fn schedules_made_as_the_server_goes_down_begin_soon_after_it_is_back() {
    const ROWS: usize = 24;
    let first_begun = |sabotages: &[Sabotage]| {
        let mut cluster = Cluster::before_an_outage(3, ROWS, sabotages);
        cluster.run();
        let begun: Vec<_> = cluster.effects().iter().filter(|effect| effect.attempt == 1).collect();
        let after = begun.iter().map(|effect| effect.at).min().unwrap() - cluster.healed();
        assert_eq!(begun.len(), ROWS);
        judge(&cluster.history()).assert_clean();
        println!("made last: sabotages={sabotages:?} first_begun_after_ms={after}");
        after
    };
    assert!((0..10_000).contains(&first_begun(&[])));
    assert!(first_begun(&[Sabotage::SkipTheWindow]) > 10_000, "nobody misses the window");
}

/// Any node's next poll plans an occurrence that is 2 s late, also of a schedule whose slot became free on
/// that node.
#[test]
fn unclaimed_occurrences_of_a_dead_node_begin_within_2_s_and_a_poll() {
    for rule in [Overlap::Allow, Overlap::Skip, Overlap::Queue(2), Overlap::Replace] {
        let latest = |seed| {
            let mut cluster = Cluster::after_a_death(seed, rule);
            cluster.run();
            let late = cluster.effects().iter().map(|effect| effect.at - effect.scheduled).max();
            judge(&cluster.history()).assert_clean();
            late.unwrap()
        };
        let longest = (0..4).map(latest).max().unwrap();
        println!("after a death: rule={rule:?} longest_ms={longest}");
        assert!((4_000..=7_050).contains(&longest), "{rule:?}: {longest} ms late");
    }
}

/// Taking it back one by one, and only after polls that succeed, would last longer than is promised, or for
/// ever.
#[test]
fn the_work_of_many_dead_nodes_is_taken_back_although_no_poll_ends() {
    let mut cluster = Cluster::after_a_mass_death(24);
    cluster.run();
    let (most, longest) = cluster.stranded();
    println!("mass death: executions={most} taken_back_after_ms={longest}");
    assert!(most >= 50, "{most} executions of dead nodes");
    assert!(longest <= 60_000, "some were left for {longest} ms");
}

/// Many generations and a short retention. The judge checks that removed rows had ended and left no gap.
#[test]
fn a_short_retention_removes_what_has_ended_and_nothing_else() {
    let removed: Vec<usize> =
        (0..3).map(|seed| Scenario::of(Faults::FORGETFUL, seed).prove().verdict.removed).collect();
    println!("removed by retention: {removed:?}");
    assert!(removed.iter().sum::<usize>() > 3_000, "{removed:?}");
}

/// A poll once brought all that was due, and decoded it: neighbours that are too many, too large or too slow
/// stopped every other schedule.
#[test]
fn a_schedule_beside_misbehaving_neighbours_goes_on() {
    const NONE: Neighbours = Neighbours { nobodys: 0, large: 0, slow: &[], long: 0, snapshot: false };
    let play = |neighbours, sabotages: &[Sabotage]| {
        let mut cluster = Cluster::beside_neighbours(neighbours, sabotages);
        cluster.run();
        judge(&cluster.history())
    };
    for (neighbours, sabotage) in [
        (Neighbours { nobodys: 4_000, ..NONE }, Sabotage::UnboundedPolls),
        (Neighbours { large: 300, ..NONE }, Sabotage::UnboundedPolls),
        (Neighbours { slow: &[100; 300], ..NONE }, Sabotage::DecodeAllAtOnce),
        (Neighbours { slow: &[30_000, 30_000, 1, 1], ..NONE }, Sabotage::DecodeAllAtOnce),
        (Neighbours { snapshot: true, ..NONE }, Sabotage::SkipNothing),
        (Neighbours { long: 400, ..NONE }, Sabotage::ForgetTurns),
    ] {
        let verdict = play(neighbours, &[]);
        verdict.assert_clean();
        assert_eq!(
            verdict.fired + verdict.skipped,
            51 + neighbours.large + neighbours.slow.len() + neighbours.long
        );
        let missed = play(neighbours, &[sabotage]).violations;
        let stopped = |it: &String| it.contains("schedule-0");
        assert!(missed.iter().any(stopped), "without bounds {neighbours:?} stop nobody");
    }
}

/// The first schedule's job and the others' are of different lanes.
#[test]
fn what_waits_for_a_seat_in_one_lane_delays_no_other() {
    const ROWS: usize = 80;
    let play = |sabotages: &[Sabotage]| {
        let mut cluster = Cluster::beside_a_full_lane(ROWS, sabotages);
        cluster.run();
        let others = cluster.effects().iter().filter(|it| it.schedule != "schedule-0" && it.attempt == 1);
        let longest = others.map(|it| it.at - it.scheduled).max().unwrap();
        (judge(&cluster.history()), longest)
    };
    let (verdict, longest) = play(&[]);
    verdict.assert_clean();
    assert_eq!(verdict.fired + verdict.skipped, 51 + ROWS);
    assert!(longest > 10_000, "the lane was full for {longest} ms only");
    let missed = play(&[Sabotage::OneFullLaneIsAll]).0.violations;
    assert!(missed.iter().any(|it| it.contains("schedule-0")), "a full lane stops no other");
}

fn beside_a_held_row(seed: u64, is_switched_off: bool, sabotages: &[Sabotage]) -> Verdict {
    let mut cluster = Cluster::beside_a_held_row(seed, is_switched_off, sabotages);
    cluster.run();
    judge(&cluster.history())
}

/// The cut leaves claims of several rows in doubt: while somebody holds one of them, the others go on.
#[test]
fn a_schedule_beside_a_held_row_goes_on_after_a_cut() {
    let is_stopped = |seed: &u64| {
        beside_a_held_row(*seed, false, &[]).assert_clean();
        let missed = beside_a_held_row(*seed, false, &[Sabotage::ResolveTogether]).violations;
        missed.iter().any(|it| it.contains("schedule-0"))
    };
    let stopped = (0..10).filter(is_stopped).count();
    println!("beside a held row: seeds=10 stopped_if_resolved_together={stopped}");
    assert!(stopped > 0, "no cut leaves a commit unknown");
}

/// Once the held row is free its claim, still in doubt, could be made: but by then the application is off.
#[test]
fn a_cluster_that_is_switched_off_makes_no_claim_that_was_in_doubt() {
    let makes = |seed: &u64| {
        beside_a_held_row(*seed, true, &[]).assert_clean();
        !beside_a_held_row(*seed, true, &[Sabotage::ResolveThoughOff]).violations.is_empty()
    };
    let made = (0..10).filter(makes).count();
    println!("switched off beside a held row: seeds=10 claimed_if_resolved_though_off={made}");
    assert!(made > 0, "no cut leaves a commit unknown");
}

/// Whatever becomes of the execution then.
#[test]
fn a_cancel_is_heard_within_one_heartbeat() {
    let heard = |sabotages: &[Sabotage]| {
        let faults = Faults { cancels: 1_000_000, long_jobs: 300_000, ..Faults::NONE };
        let scenario = Scenario { seed: 1, nodes: 3, schedules: 10, span: QUARTER / 3, faults };
        let mut cluster = Cluster::new(&scenario, database::Database::memory(), sabotages);
        cluster.run();
        let rows = cluster.asked_to_end();
        judge(&cluster.history()).assert_clean();
        let long_ago = rows.iter().filter(|(lived, _)| *lived > 5_200);
        let heard: Vec<_> = long_ago.map(|(_, heard)| *heard).collect();
        println!(
            "cancels: asked={} sabotages={sabotages:?} longest_ms={:?}",
            heard.len(),
            heard.iter().max()
        );
        assert!(heard.len() > 20, "{}", heard.len());
        heard
    };
    assert!(
        heard(&[]).iter().all(|it| it.is_some_and(|after| after <= 5_200)),
        "an interval, and the answer"
    );
    assert!(heard(&[Sabotage::DeafToCancels]).iter().all(Option::is_none), "nobody need hear of a cancel");
}

/// By any node, of what some other process stored between two polls.
#[test]
fn what_is_enqueued_begins_long_before_the_next_poll() {
    let longest = |glance: Option<Millis>, sabotages: &[Sabotage]| {
        let mut cluster = Cluster::enqueued_one_by_one(glance, sabotages);
        cluster.run();
        let late: Vec<Millis> = cluster.effects().iter().map(|it| it.at - it.scheduled).collect();
        judge(&cluster.history()).assert_clean();
        assert!(late.len() > 50, "{}", late.len());
        let longest = late.into_iter().max().unwrap_or(Millis::MAX);
        println!("enqueued: glance={glance:?} sabotages={sabotages:?} longest_ms={longest}");
        longest
    };
    assert!(longest(Some(200), &[]) <= 260, "a glance, a poll and a claim");
    assert!(longest(None, &[]) <= 60, "a notification, a poll and a claim");
    for glance in [Some(200), None] {
        assert!(longest(glance, &[Sabotage::DeafToNews]) > 2_000, "nobody need hear of it");
    }
}

/// What it had claimed, and what its shards bring within the next seconds.
#[test]
fn what_a_node_that_stops_leaves_begins_at_once_elsewhere() {
    let longest = |glance: Option<Millis>, sabotages: &[Sabotage]| {
        let (mut cluster, leaves_at) = Cluster::beside_a_stop(glance, sabotages);
        cluster.run();
        let late = cluster.effects().iter().filter(|it| (0..10_000).contains(&(it.scheduled - leaves_at)));
        let longest = late.map(|it| it.at - it.scheduled).max().unwrap();
        let history = cluster.history();
        judge(&history).assert_clean();
        let is_handed_back = |it: &Execution| it.reason == "given back";
        assert!(history.executions.iter().any(is_handed_back), "it had claimed nothing");
        println!("a stop: glance={glance:?} sabotages={sabotages:?} longest_ms={longest}");
        longest
    };
    for glance in [Some(200), None] {
        assert!(longest(glance, &[]) <= 500, "a glance, a heartbeat and a poll");
        assert!(longest(glance, &[Sabotage::DeafToNews]) > 2_000, "nobody need hear of it");
    }
}

/// Of what the others store, while all seats are taken for as long as the test runs.
#[test]
fn a_group_does_not_wait_for_anothers_backlog() {
    let longest = |sabotages: &[Sabotage]| {
        let mut cluster = Cluster::behind_anothers_backlog(sabotages);
        cluster.run();
        let history = cluster.history();
        let waits = history.executions.iter().filter(|row| row.group.is_none());
        let waits = waits.map(|row| row.claimed.unwrap_or(Millis::MAX) - row.due).collect::<Vec<_>>();
        assert!(waits.len() > 50, "{}", waits.len());
        let longest = waits.into_iter().max().unwrap_or(Millis::MAX);
        println!("behind a backlog: sabotages={sabotages:?} longest_ms={longest}");
        longest
    };
    assert!(longest(&[]) <= 20_000, "what was claimed before has the lane's queue");
    assert!(longest(&[Sabotage::ForgetGroups]) > 60_000, "nobody need take turns");
}

/// A node is not told of the ends of another's executions.
#[test]
fn what_a_bound_holds_back_is_tried_between_polls() {
    let longest = |of_groups: bool, sabotages: &[Sabotage]| {
        let mut cluster = Cluster::one_too_many(of_groups, sabotages);
        cluster.run();
        let history = cluster.history();
        judge(&history).assert_clean();
        let mut rows: Vec<_> = history.executions.iter().collect();
        rows.sort_by_key(|row| (row.due, row.claimed));
        let free = |together: &[&Execution]| together.iter().filter_map(|row| row.finished).min();
        let last = |together: &[&Execution]| together.last().and_then(|row| row.claimed);
        let wait = |together: &[&Execution]| last(together).unwrap() - free(together).unwrap();
        let longest = rows.chunks(if of_groups { 2 } else { 4 }).map(wait).max().unwrap();
        println!("one too many: of_groups={of_groups} sabotages={sabotages:?} longest_ms={longest}");
        longest
    };
    for of_groups in [true, false] {
        assert!(longest(of_groups, &[]) <= 500, "some tries, each after twice as long as the last");
        assert!(longest(of_groups, &[Sabotage::TryNothing]) > 2_000, "nobody need try");
    }
}

/// How often each of two schedules began between its resumes: one whose handler kills its node, and one whose
/// handler always fails (first attempts alone).
fn harm(seed: u64, sabotages: &[Sabotage]) -> [Vec<usize>; 2] {
    let mut cluster = Cluster::beside_a_killer(seed, sabotages);
    cluster.run();
    let harm = [("schedule-1", u32::MAX), ("schedule-4", 1)].map(|(name, most)| {
        let pauses = cluster.contained().iter().filter(|(schedule, _)| schedule == name).map(|(_, at)| *at);
        let mut from = i64::MIN;
        let spans = pauses.chain([i64::MAX]).map(|until| (std::mem::replace(&mut from, until), until));
        let begun = |(from, until): (i64, i64)| {
            let own = cluster.effects().iter().filter(|it| it.schedule == name && it.attempt <= most);
            own.filter(|it| from < it.at && it.at <= until).count()
        };
        spans.collect::<Vec<_>>().into_iter().map(begun).collect()
    });
    let violations = judge(&cluster.history()).violations;
    assert_eq!(violations.is_empty(), sabotages.is_empty(), "{violations:#?}");
    harm
}

/// Each time that somebody resumes it.
#[test]
fn a_killer_costs_four_nodes_and_what_fails_is_paused() {
    for seed in 0..5 {
        let [killed, failed] = harm(seed, &[]);
        println!("contained: seed={seed} killed={killed:?} failed={failed:?}");
        assert!(killed.len() > 2 && killed.iter().all(|count| *count <= 4), "{killed:?}");
        assert!(failed.len() > 9 && failed.iter().all(|count| *count <= 4), "{failed:?}");
    }
    let [killed, failed] = harm(0, &[Sabotage::CountNothing]);
    assert!(killed[0] > 8 && failed[0] > 100, "they stop by themselves: {killed:?} {failed:?}");
}

const DAY: i64 = 24 * 3_600_000;

/// How long each of some schedules that fire every second fires nothing, at most, after the database's clock
/// was set wrong for a while.
fn silence_after_a_step(step: i64, sabotages: &[Sabotage]) -> i64 {
    const ROWS: usize = 6;
    let mut cluster = Cluster::beside_a_step_of_the_clock(ROWS, step, sabotages);
    cluster.run();
    let (from, until) = (cluster.stepped_back(), cluster.healed());
    let silence = |schedule: String| {
        let fired = cluster.effects().iter().filter(|it| it.schedule == schedule && it.at >= from);
        let fired: Vec<i64> = [from].into_iter().chain(fired.map(|it| it.at)).chain([until]).collect();
        fired.windows(2).map(|two| two[1] - two[0]).max().unwrap()
    };
    let longest = (0..ROWS).map(|n| silence(format!("schedule-{n}"))).max().unwrap();
    println!("after a step of the clock: by={step} sabotages={sabotages:?} silent_ms={longest}");
    longest
}

/// Their cursors have gone ahead with the clock. They fired nothing for a day.
#[test]
fn a_step_of_the_databases_clock_that_is_undone_silences_schedules_for_minutes_alone() {
    assert!(silence_after_a_step(DAY, &[]) < 330_000);
    assert!(silence_after_a_step(DAY, &[Sabotage::StayAhead]) > 800_000, "they go back by themselves");
}

/// While it is back all cursors are ahead of it: planned anew they would fire what they have fired.
#[test]
fn a_step_back_of_the_databases_clock_that_is_undone_repeats_nothing() {
    let repeats = |sabotages: &[Sabotage]| {
        let mut cluster = Cluster::beside_a_step_of_the_clock(6, -DAY, sabotages);
        cluster.run();
        let fired: Vec<_> =
            cluster.effects().iter().map(|it| (&it.schedule, it.scheduled, it.attempt)).collect();
        let once: std::collections::HashSet<_> = fired.iter().collect();
        let yesterday = fired.iter().filter(|(_, at, _)| *at < cluster.healed() - DAY / 2).count();
        (fired.len() - once.len(), yesterday)
    };
    assert_eq!(repeats(&[]), (0, 0));
    assert_ne!(repeats(&[Sabotage::BelieveAnyClock]), (0, 0), "no clock is believed too soon");
    assert!(silence_after_a_step(-DAY, &[]) < 60_000);
}

/// Each mix commits some, and together they bring about all that may become of such a transaction.
#[test]
fn handlers_complete_in_transactions_of_their_own_whatever_becomes_of_these() {
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    for (seed, faults) in (0..).zip(Faults::ALL) {
        let scenario = Scenario::of(faults, seed);
        let mut cluster = Cluster::new(&scenario, database::Database::memory(), &[]);
        cluster.run();
        let Completions { refused, late, orphaned, asked_twice, .. } = cluster.completions();
        let history = cluster.history();
        judge(&history).assert_clean();
        let count = |is: fn(&Effect) -> bool| history.effects.iter().filter(|it| is(it)).count();
        let committed = count(|it| !it.committed.is_empty());
        let counts = [
            ("committed", committed),
            ("not committed", count(|it| it.completes && it.committed.is_empty())),
            ("then snoozed", count(|it| !it.committed.is_empty() && it.snoozed.is_some())),
            ("then died", count(|it| !it.committed.is_empty() && it.ended.is_none())),
            ("refused", refused),
            ("committed behind the return", late),
            ("committed behind the death", orphaned),
            ("asked for twice", asked_twice),
        ];
        println!("own transactions: seed={seed} {counts:?}");
        assert!(committed > 0, "{scenario}");
        counts.into_iter().for_each(|(what, count)| *sums.entry(what).or_default() += count);
    }
    assert!(sums.values().all(|sum| *sum > 0), "{sums:?}");
}

/// Together these mixes bring about all that may become of a checkpoint, and of a run that goes on from one.
#[test]
fn handlers_go_on_from_their_last_checkpoints_whatever_becomes_of_these() {
    let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
    for (seed, faults) in (0..).zip([Faults::MANY, Faults::STORM, Faults::COMPLETING, Faults::LAGGING]) {
        let scenario = Scenario::of(faults, seed);
        let mut cluster = Cluster::new(&scenario, database::Database::memory(), &[]);
        cluster.run();
        let history = cluster.history();
        judge(&history).assert_clean();
        let count = |is: &dyn Fn(&Checkpoint) -> bool| history.checkpoints.iter().filter(|it| is(it)).count();
        let goes_on = |from_itself: bool| {
            let stored = history.resumes.iter().filter_map(|resume| {
                let from = history.checkpoints.iter().find(|it| Some(it.value) == resume.value)?;
                Some((resume.execution == from.execution) == from_itself)
            });
            stored.filter(|it| *it).count()
        };
        let counts = [
            ("stored", count(&|it| it.heard == Some(true))),
            ("refused", count(&|it| it.heard == Some(false))),
            ("stored without an answer", count(&|it| it.heard.is_none() && it.stored.is_some())),
            ("lost on the way", count(&|it| it.heard.is_none() && it.stored.is_none())),
            ("the same attempt goes on", goes_on(true)),
            ("the next attempt goes on", goes_on(false)),
        ];
        println!("checkpoints: seed={seed} {counts:?}");
        counts.into_iter().for_each(|(what, count)| *sums.entry(what).or_default() += count);
    }
    assert!(sums.values().all(|sum| *sum > 0), "{sums:?}");
}

#[test]
fn a_seed_replays_exactly() {
    let fire = Scenario { span: QUARTER / 3, ..Scenario::under_fire(7) };
    assert_eq!(fire.play(&[]), fire.play(&[]));
    assert_eq!(fire.to_string().parse(), Ok(fire));
}

/// With a protection switched off some simulation fails; otherwise it proves nothing about it. Only those in
/// whose names the words of `FIRETIME_PROTECTION` are, if there are any.
#[test]
fn every_protection_is_missed_when_it_is_gone() {
    let only = std::env::var("FIRETIME_PROTECTION").unwrap_or_default();
    let mut protections = Sabotage::protections();
    protections.retain(|(name, ..)| name.contains(&only));
    let next = AtomicUsize::new(0);
    on_every_core(|| {
        while let Some((name, faults, sabotages)) = protections.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut scenarios = (0..800).map(|seed| Scenario::of(*faults, seed));
            let missed = scenarios.find(|scenario| scenario.fails(sabotages));
            let scenario = missed.unwrap_or_else(|| panic!("nobody misses {name}: {sabotages:?}"));
            assert!(!scenario.fails(&[]), "it fails anyway: {scenario}");
            println!("without {name} {sabotages:?} fails {scenario}");
        }
    });
    println!("mutations_caught={0}/{0}", protections.len());
}

fn wanted_claims() -> u64 {
    std::env::var("FIRETIME_CLAIMS").map_or(20_000, |text| text.parse().unwrap())
}

fn first_seed() -> u64 {
    std::env::var("FIRETIME_SEED").map_or(0, |text| text.parse().unwrap())
}

fn on_every_core(work: impl Fn() + Sync) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(&work))));
}
