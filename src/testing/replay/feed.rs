//! Plays a record on a cluster.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::change::Change;
use super::record::{Asked, Record, listed};
use crate::api::{Builder, ExecutionView};
use crate::domain::{Error, HandlerError, JobSpec, Timestamp};
use crate::node::context::Context;
use crate::store::enqueue::{DueAt, EnqueueOrder, QUEUE_PREFIX};
use crate::store::{Definition, Verbs as _};
use crate::testing::{TestCluster, TestTime};
use crate::time::span;

/// As often a node of a replay polls and beats: production's five seconds would be six times the work.
const LOOKS: Duration = Duration::from_secs(30);

/// What the ledger says after the record was played with a change.
pub(super) fn play(record: &Arc<Record>, change: &Change) -> Result<Vec<ExecutionView>, Error> {
    let mut cluster = TestCluster::at(&record.application, record.from);
    cluster.fire.put_away(change.outages.clone());
    for definition in &record.schedules {
        let trigger = change.triggers.get(&definition.name).unwrap_or(&definition.trigger).clone();
        cluster.store.ensure(&Definition { trigger, ..definition.clone() })?;
    }
    for _ in 0..change.nodes.unwrap_or(record.nodes) {
        let time = cluster.time();
        let settings = |node: Builder| {
            node.threads(record.seats, record.seats)
                .poll_interval(LOOKS)
                .heartbeat_interval(LOOKS)
                .death_after(5 * LOOKS)
                .misfire_interval(2 * LOOKS)
                .retention(None)
        };
        let serve = |node: Builder, job| node.serve(limited(job, change), handler(record, &time));
        cluster.node(|node| record.jobs.iter().fold(settings(node), serve))?;
    }
    for asked in &record.asked {
        let away = change.outages.iter().find(|outage| outage.contains(&asked.due));
        cluster.run_until(away.map_or(asked.due, |outage| outage.end));
        ask(&cluster, record, asked)?;
    }
    // What fires at its end is none of it.
    cluster.run_until(record.until - 1);
    listed(&cluster.client(), None)
}

/// The job with the change's time limit, if that names it.
fn limited(job: &JobSpec, change: &Change) -> JobSpec {
    let mut job = job.clone();
    let limit = change.time_limits.get(&job.name);
    job.settings.policy.time_limit = limit.copied().or(job.settings.policy.time_limit);
    job
}

/// Takes as long, and ends, as the attempt did.
fn handler(
    record: &Arc<Record>,
    time: &TestTime,
) -> impl Fn(&Context, Value) -> Result<(), HandlerError> + Send + Sync + 'static {
    let (record, time) = (Arc::clone(record), time.clone());
    move |context, payload| {
        let is_enqueued = context.schedule().starts_with(QUEUE_PREFIX);
        let origin = if is_enqueued { payload.as_i64().unwrap_or(0) } else { 0 };
        let fire_time = Timestamp::from(context.fire_time());
        let went = record.goes(context.schedule(), fire_time, origin, context.attempt());
        time.sleep(span(went.millis));
        if went.has_failed { Err("it failed then, too".into()) } else { Ok(()) }
    }
}

/// Asks for an execution as somebody did.
fn ask(cluster: &TestCluster, record: &Record, asked: &Asked) -> Result<(), Error> {
    let client = cluster.client();
    if let Some(schedule) = &asked.of_schedule {
        // One that is not active any more is not played.
        return if record.has_schedule(schedule) {
            client.trigger(schedule).run().map(|_| ())
        } else {
            Ok(())
        };
    }
    let Some(job) = record.jobs.iter().find(|it| it.name == asked.job) else { return Ok(()) };
    let order = EnqueueOrder {
        application: record.application.clone(),
        job: job.clone(),
        payloads: vec![asked.origin.to_string()],
        groups: asked.group.iter().cloned().collect(),
        lane: String::new(),
        tags: Vec::new(),
        headers: Default::default(),
        due: DueAt::Instant(asked.due),
        priority: None,
        key: None,
        notifier: Arc::default(),
    };
    cluster.store.enqueue(&order)?;
    cluster.hear();
    Ok(())
}
