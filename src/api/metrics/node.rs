//! The families of a node.

use std::time::Duration;

use super::cluster;
use super::family::{Family, Kind, Metrics, Value, count};
use crate::api::Health;
use crate::domain::LaneHealth;
use crate::machine::store_calls;
use crate::node::Node;
use crate::node::counters::{DURATION, ENQUEUE_TO_START, JobCounts, LATENESS, POLL};

/// The family with the node's name.
pub(super) const NODE_INFO: &str = "firetime_node_info";

/// All figures of a node whose health is this, and those of the cluster if it has read them.
pub(in crate::api) fn of(node: &Node, health: &Health) -> Metrics {
    let cluster = node.figures().map(|(figures, now)| cluster::families(&figures, now));
    Metrics::of(&node.application, families(node, health).chain(cluster.into_iter().flatten()).collect())
}

/// Those of the node alone.
#[cfg(feature = "metrics")]
pub(super) fn alone(node: &Node, health: &Health) -> Metrics {
    Metrics::of(&node.application, families(node, health).collect())
}

fn families(node: &Node, health: &Health) -> impl Iterator<Item = Family> + use<> {
    let counters = node.counters();
    let plain: Vec<Family> = counters
        .plain()
        .map(|(plain, value)| {
            let (name, help) = plain.about();
            Family::new(Kind::Counter, name, help).number(&[], count(value))
        })
        .collect();
    of_jobs(&counters.jobs())
        .into_iter()
        .chain([skipped(&counters.skips())])
        .chain(plain)
        .chain([polls(node)])
        .chain(of_store_calls(node))
        .chain(of_health(node, health))
        .chain(of_lanes(&health.lanes))
}

fn of_jobs(jobs: &[JobCounts]) -> [Family; 5] {
    let mut begun =
        Family::new(Kind::Counter, "firetime_executions_begun_total", "Handlers that began on this node.");
    let mut ended = Family::new(
        Kind::Counter,
        "firetime_executions_ended_total",
        "Handlers that ended on this node, by outcome.",
    );
    let spans = |name, help| Family::new(Kind::Histogram, name, help);
    let mut took = spans(DURATION, "How long handlers took.");
    let mut lateness = spans(LATENESS, "How long after they were due handlers began.");
    let mut queued = spans(
        ENQUEUE_TO_START,
        "From when an enqueued execution was stored, or due if that is later, until its handler began.",
    );
    for of in jobs {
        let job = [("job", &*of.job)];
        begun.add(&job, Value::Number(count(of.begun)));
        for (outcome, ends) in &of.ended {
            ended.add(&[job[0], ("outcome", outcome.as_str())], Value::Number(count(*ends)));
        }
        took.add(&job, Value::Histogram(of.took.clone()));
        lateness.add(&job, Value::Histogram(of.lateness.clone()));
        if of.queued.count() > 0 {
            queued.add(&job, Value::Histogram(of.queued.clone()));
        }
    }
    [begun, ended, took, lateness, queued]
}

fn skipped(skips: &[(&'static str, u64)]) -> Family {
    let help = "Occurrences that this node recorded as SKIPPED, by the ledger's reason.";
    let family = Family::new(Kind::Counter, "firetime_occurrences_skipped_total", help);
    skips.iter().fold(family, |family, (reason, skips)| family.number(&[("reason", reason)], count(*skips)))
}

fn polls(node: &Node) -> Family {
    let help = "How long polls took, with all their pages.";
    let mut polls = Family::new(Kind::Histogram, POLL, help);
    polls.add(&[], Value::Histogram(node.counters().polls()));
    polls
}

fn of_store_calls(node: &Node) -> [Family; 2] {
    let mut took = Family::new(
        Kind::Histogram,
        store_calls::FAMILY,
        "How long the engine's calls of the database took, failed ones included.",
    );
    let mut failed = Family::new(
        Kind::Counter,
        "firetime_store_call_failures_total",
        "Calls of the database that failed or were abandoned.",
    );
    for (operation, histogram, failures) in node.calls.read() {
        let operation = [("operation", operation)];
        took.add(&operation, Value::Histogram(histogram));
        failed.add(&operation, Value::Number(count(failures)));
    }
    [took, failed]
}

fn of_health(node: &Node, health: &Health) -> [Family; 7] {
    let is = |yes: bool| if yes { 1.0 } else { 0.0 };
    let seconds = |span: Duration| span.as_secs_f64();
    let (id, version) = (node.id().to_string(), env!("CARGO_PKG_VERSION"));
    let dropped = "Events that neither the log nor the observers were given, because they were too slow.";
    let unsettled = "Starts and outcomes of executions that wait to be stored.";
    [
        Family::gauge(NODE_INFO, "1, with the node's id and the version of firetime.")
            .number(&[("node", &id), ("version", version)], 1.0),
        Family::gauge("firetime_node_live", "Whether the node can go on.").number(&[], is(health.is_live())),
        Family::gauge(
            "firetime_node_ready",
            "Whether nothing but a pause keeps the node from claiming, and it can run what it claims.",
        )
        .number(&[], is(health.is_ready())),
        Family::gauge("firetime_lease_seconds", "How much longer the node may claim and start executions.")
            .number(&[], seconds(health.lease)),
        Family::gauge(
            "firetime_heartbeat_age_seconds",
            "Since the last heartbeat that the database confirmed.",
        )
        .number(&[], seconds(health.last_heartbeat)),
        Family::gauge("firetime_outcomes_waiting", unsettled).number(&[], count(node.unsettled() as u64)),
        Family::new(Kind::Counter, "firetime_events_dropped_total", dropped)
            .number(&[], count(node.events_dropped())),
    ]
}

fn of_lanes(lanes: &[LaneHealth]) -> [Family; 8] {
    let each = |name, help, value: fn(&LaneHealth) -> usize| {
        let samples = lanes.iter().map(|lane| (lane, count(value(lane) as u64)));
        samples.fold(Family::gauge(name, help), |family, (lane, value)| {
            family.number(&[("lane", &lane.name)], value)
        })
    };
    [
        each("firetime_lane_threads", "The most threads that the lane may have.", |it| it.threads),
        each("firetime_lane_busy", "Threads with a handler.", |it| it.busy),
        each("firetime_lane_queued", "Claimed executions that wait for a thread.", |it| it.queued),
        each("firetime_lane_stuck", "Handlers on threads beyond their time limits.", |it| it.stuck),
        each("firetime_lane_async_limit", "The most async handlers at once.", |it| it.concurrency),
        each("firetime_lane_async_running", "Async handlers that run.", |it| it.tasks),
        each("firetime_lane_async_stuck", "Async handlers beyond their time limits.", |it| it.stuck_tasks),
        each("firetime_lane_async_blocked", "1 while the runtime begins no async handler.", |it| {
            usize::from(it.is_blocked)
        }),
    ]
}
