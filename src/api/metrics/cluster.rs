//! The families of a cluster.

use super::family::{Family, Metrics, Value, count};
use crate::domain::Timestamp;
use crate::store::figures::Figures;

fn signed(value: i64) -> f64 {
    value as f64
}

/// All figures of an application as of `now`, database time.
pub(in crate::api) fn of(application: &str, figures: &Figures, now: Timestamp) -> Metrics {
    Metrics::of(application, families(figures, now))
}

pub(super) fn families(figures: &Figures, now: Timestamp) -> Vec<Family> {
    let age =
        one("firetime_cluster_figures_age_seconds", "Since these figures were read.", age(figures.at, now));
    let waiting = waiting(figures, now).into_iter();
    [age].into_iter().chain(waiting).chain(of_nodes(figures)).chain(of_schedules(figures, now)).collect()
}

fn one(name: &'static str, help: &'static str, value: f64) -> Family {
    Family::gauge(name, help).number(&[], value)
}

/// In seconds.
fn age(since: Timestamp, now: Timestamp) -> f64 {
    (now - since).max(0) as f64 / 1_000.0
}

fn waiting(figures: &Figures, now: Timestamp) -> [Family; 3] {
    let help = "Due executions that wait for a node; at most 10,000 are counted.";
    let mut waiting = Family::gauge("firetime_cluster_waiting", help);
    let help = "How long the first of these has been due.";
    let mut oldest = Family::gauge("firetime_cluster_waiting_oldest_age_seconds", help);
    for (job, of) in &figures.waiting {
        waiting.add(&[("job", job)], Value::Number(signed(of.executions)));
        oldest.add(&[("job", job)], Value::Number(age(of.oldest, now)));
    }
    let help = "Jobs whose waiting executions are not counted: all but the first 1,000 by name.";
    [waiting, oldest, one("firetime_cluster_waiting_left_out", help, signed(figures.jobs_left_out))]
}

fn of_nodes(figures: &Figures) -> [Family; 4] {
    let (running, queued) = figures.running();
    let mut nodes = Family::gauge("firetime_cluster_nodes", "Nodes that have not ended, by state.");
    for (state, there) in figures.nodes_by_state() {
        nodes.add(&[("state", state)], Value::Number(count(there as u64)));
    }
    let ran = "Handlers that run, as of the nodes' last heartbeats.";
    let waited = "Claimed executions that wait for a thread, as of these heartbeats.";
    let died = "Nodes that were declared dead within the last hour.";
    [
        one("firetime_cluster_running", ran, count(running as u64)),
        one("firetime_cluster_queued", waited, count(queued as u64)),
        nodes,
        one("firetime_cluster_nodes_died", died, signed(figures.died)),
    ]
}

fn of_schedules(figures: &Figures, now: Timestamp) -> [Family; 6] {
    let mut schedules =
        Family::gauge("firetime_cluster_schedules", "Schedules that were not removed, by state.");
    for (state, there) in figures.schedules_by_state() {
        schedules.add(&[("state", state)], Value::Number(signed(there)));
    }
    let help = "Since the last success of an active schedule's present trigger ended.";
    let mut success = Family::gauge("firetime_cluster_last_success_age_seconds", help);
    for of in &figures.successes {
        if let Some(ended) = of.ended {
            success.add(&[("schedule", &of.schedule)], Value::Number(age(ended, now)));
        }
    }
    let overdue = "Active schedules that nobody moves on.";
    let unrunnable = "Active schedules for whose job no node that claims has a handler.";
    let unmet = "Schedules of which an occurrence has not succeeded in time.";
    let left_out = "Active schedules whose last success is not looked for: all but the first 1,000 by name.";
    [
        schedules,
        one("firetime_cluster_schedules_overdue", overdue, signed(figures.overdue())),
        one("firetime_cluster_schedules_unrunnable", unrunnable, signed(figures.unrunnable())),
        one("firetime_cluster_schedules_unmet", unmet, signed(figures.unmet)),
        success,
        one("firetime_cluster_last_success_left_out", left_out, signed(figures.left_out)),
    ]
}
