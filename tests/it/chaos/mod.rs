//! Real processes on real databases, broken on purpose, and judged by the checker that judges the simulator
//! too.
//!
//! ```text
//! runs, more_runs, pulse_runs, operator_run, enqueued_run, galera_runs, standby_runs, upgrade_run
//!                     what is broken, and how
//! servers             servers that work together
//! cluster             the processes, their faults, the wait for the end
//! proxy, wire         between node and database
//! job, paid, saved    what the nodes run, written down outside the database, or in the same transaction
//! audit, history      what a run left behind
//! figures, report     how long things took, and their bounds
//! ```
//!
//! `scripts/chaos.sh` sets `FIRETIME_CHAOS` to `short` or `full`, `scripts/upgrade.sh` to `upgrade`; the
//! tests of every day leave chaos out.

mod audit;
pub mod cluster;
mod dice;
#[cfg(feature = "tokio")]
mod enqueued_run;
mod figures;
#[cfg(feature = "mysql")]
mod galera_runs;
pub mod hand;
mod history;
pub mod job;
#[path = "../../../src/sim/judge/mod.rs"]
mod judge;
mod load;
mod more_runs;
mod operator_run;
mod paid;
pub mod proxy;
mod proxy_checks;
mod pulse_runs;
mod report;
mod runs;
mod saved;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub mod servers;
#[cfg(feature = "postgres")]
mod standby_runs;
mod upgrade_run;
mod wire;

use libtest_mimic::Trial;

#[cfg(any(feature = "postgres", feature = "mysql"))]
use self::servers::Servers;
use crate::support::database::ServerKind;
use crate::trial;

/// Set to `short` or `full` by `scripts/chaos.sh`, to `upgrade` by `scripts/upgrade.sh`.
const FORM: &str = "FIRETIME_CHAOS";

type Run = (&'static str, fn(ServerKind));

const EVERYWHERE: &[Run] = &[
    ("a_killed_nodes_work_is_done_by_others", runs::a_killed_nodes_work_is_done_by_others),
    (
        "an_outage_ends_no_node_and_a_shutdown_in_it_keeps_its_deadline",
        runs::an_outage_ends_no_node_and_a_shutdown_in_it_keeps_its_deadline,
    ),
    ("a_clock_offset_per_node_changes_nothing", runs::a_clock_offset_per_node_changes_nothing),
    ("an_operators_answers_hold_while_nodes_die", operator_run::an_operators_answers_hold_while_nodes_die),
    ("a_log_without_a_reader_stops_no_node", pulse_runs::a_log_without_a_reader_stops_no_node),
    (
        "overdue_schedules_of_no_node_hold_up_no_others",
        pulse_runs::overdue_schedules_of_no_node_hold_up_no_others,
    ),
];

const ON_SERVERS: &[Run] = &[
    ("connections_that_stay_silent_are_given_up", runs::connections_that_stay_silent_are_given_up),
    ("a_commit_without_an_answer_is_found_out", runs::a_commit_without_an_answer_is_found_out),
    ("a_black_hole_kills_nobody_and_loses_nothing", runs::a_black_hole_kills_nobody_and_loses_nothing),
    (
        "proxy::a_commit_is_cut_before_or_after_it_is_done",
        proxy_checks::a_commit_is_cut_before_or_after_it_is_done,
    ),
    ("proxy::a_black_hole_holds_what_is_sent", proxy_checks::a_black_hole_holds_what_is_sent),
    ("proxy::what_is_down_refuses_and_comes_back", proxy_checks::what_is_down_refuses_and_comes_back),
];

/// Those called `alone` change or load the whole server.
const FULL_EVERYWHERE: &[Run] = &[
    ("a_stop_of_90_s_costs_the_node_its_name", more_runs::a_stop_of_90_s_costs_the_node_its_name),
    ("a_stop_of_10_s_loses_nothing", more_runs::a_stop_of_10_s_loses_nothing),
    ("a_long_outage_is_accounted_for", more_runs::a_long_outage_is_accounted_for),
    ("a_power_cut_loses_nothing", more_runs::a_power_cut_loses_nothing),
    ("a_storm_loses_nothing", more_runs::a_storm_loses_nothing),
    ("an_observer_that_blocks_stops_no_node", pulse_runs::an_observer_that_blocks_stops_no_node),
    (
        "alone::large_payloads_due_at_once_hold_up_no_others",
        pulse_runs::large_payloads_due_at_once_hold_up_no_others,
    ),
    (
        "alone::a_million_overdue_schedules_of_no_node_hold_up_no_others",
        pulse_runs::a_million_overdue_schedules_of_no_node_hold_up_no_others,
    ),
    (
        "alone::thousands_overdue_after_an_outage_begin_soon",
        pulse_runs::thousands_overdue_after_an_outage_begin_soon,
    ),
    #[cfg(feature = "tokio")]
    ("a_thousand_tasks_die_with_their_node", enqueued_run::a_thousand_tasks_die_with_their_node),
    (
        "nodes_that_stop_in_order_leave_nothing_behind",
        pulse_runs::nodes_that_stop_in_order_leave_nothing_behind,
    ),
];

const FULL_ON_SERVERS: &[Run] = &[
    ("a_node_cut_off_comes_back_under_a_new_name", more_runs::a_node_cut_off_comes_back_under_a_new_name),
    ("a_slow_network_only_slows", more_runs::a_slow_network_only_slows),
    ("a_connection_limit_starves_but_loses_nothing", more_runs::a_connection_limit_starves_but_loses_nothing),
    ("a_full_disk_of_the_server_loses_nothing", pulse_runs::a_full_disk_of_the_server_loses_nothing),
    ("a_long_lock_on_some_rows_holds_up_no_others", pulse_runs::a_long_lock_on_some_rows_holds_up_no_others),
    ("a_long_lock_on_a_table_loses_nothing", pulse_runs::a_long_lock_on_a_table_loses_nothing),
    (
        "alone::a_failure_while_writes_are_refused_stays_small",
        pulse_runs::a_failure_while_writes_are_refused_stays_small,
    ),
    ("alone::a_read_only_database_loses_nothing", more_runs::a_read_only_database_loses_nothing),
    ("alone::a_killed_database_loses_nothing", more_runs::a_killed_database_loses_nothing),
];

/// The tests of the figures, which need no database.
pub fn add_own(trials: &mut Vec<Trial>) {
    trials.push(trial(
        "chaos::a_claim_under_way_at_the_kill_is_not_picked_up".to_owned(),
        figures::a_claim_under_way_at_the_kill_is_not_picked_up,
    ));
}

pub fn add(trials: &mut Vec<Trial>, kind: ServerKind) {
    let Ok(form) = std::env::var(FORM) else { return };
    let full = form == "full";
    let served = is_served(kind);
    if form == "upgrade" {
        let name = format!("{}::chaos::nodes_of_two_releases_share_the_work", kind.name());
        trials.push(trial(name, move || upgrade_run::nodes_of_two_releases_share_the_work(kind)));
        return;
    }
    let tables = [
        (EVERYWHERE, true),
        (ON_SERVERS, served),
        (
            &[(
                "proxy::a_claim_or_an_outcome_is_seen_to_commit_by_itself",
                proxy_checks::a_claim_or_an_outcome_is_seen_to_commit_by_itself,
            )],
            served,
        ),
        (FULL_EVERYWHERE, full),
        (FULL_ON_SERVERS, full && served),
        (&[("a_full_disk_loses_nothing", more_runs::a_full_disk_loses_nothing)], full && !served),
    ];
    for (table, _) in tables.iter().filter(|(_, wanted)| *wanted) {
        for (name, run) in *table {
            let run = *run;
            trials.push(trial(format!("{}::chaos::{name}", kind.name()), move || run(kind)));
        }
    }
}

#[cfg(feature = "mysql")]
const ON_GALERA: &[Run] = &[(
    "members_that_are_lost_one_by_one_lose_nothing",
    galera_runs::members_that_are_lost_one_by_one_lose_nothing,
)];

#[cfg(feature = "mysql")]
const FULL_ON_GALERA: &[Run] = &[
    (
        "members_without_a_majority_stand_still_and_lose_nothing",
        galera_runs::members_without_a_majority_stand_still_and_lose_nothing,
    ),
    ("a_storm_over_members_loses_nothing", galera_runs::a_storm_over_members_loses_nothing),
];

#[cfg(feature = "postgres")]
const ON_STANDBY: &[Run] = &[
    ("a_promoted_standby_loses_nothing", standby_runs::a_promoted_standby_loses_nothing),
    (
        "a_promotion_that_loses_commits_is_told_and_its_fences_go_on",
        standby_runs::a_promotion_that_loses_commits_is_told_and_its_fences_go_on,
    ),
];

#[cfg(feature = "postgres")]
const FULL_ON_STANDBY: &[Run] = &[
    ("a_promoted_servers_clock_may_be_30_s_off", standby_runs::a_promoted_servers_clock_may_be_30_s_off),
    (
        "a_storm_over_primary_and_standby_loses_nothing",
        standby_runs::a_storm_over_primary_and_standby_loses_nothing,
    ),
];

/// Runs on servers that work together, where `scripts/chaos.sh` has started them.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub fn add_together(trials: &mut Vec<Trial>) {
    let Ok(form) = std::env::var(FORM) else { return };
    let mut add_all = |name: &str, servers: fn() -> Servers, short: &[Run], full: &[Run]| {
        if servers::variable(name, "URL").is_none() {
            return;
        }
        let full = if form == "full" { full } else { &[] };
        for (run_name, run) in short.iter().chain(full) {
            let run = *run;
            trials.push(trial(format!("{name}::chaos::{run_name}"), move || run(servers().kind())));
        }
        #[cfg(feature = "cli")]
        if form == "full" {
            let demo = move || crate::command::the_demos_verdict_is_clean_on(&servers().fresh());
            trials.push(trial(format!("{name}::command::the_demos_verdict_is_clean"), demo));
        }
    };
    #[cfg(feature = "mysql")]
    add_all("galera", Servers::galera, ON_GALERA, FULL_ON_GALERA);
    #[cfg(feature = "postgres")]
    add_all("standby", Servers::standby, ON_STANDBY, FULL_ON_STANDBY);
    #[cfg(feature = "mysql")]
    if servers::variable("galera", "URL").is_some() {
        crate::members::add(trials);
    }
}

/// Whether the database is a server.
fn is_served(kind: ServerKind) -> bool {
    kind.name() != "sqlite"
}
