//! Looking at a cluster, and preparing its database.

use std::io::{self, Write};

use firetime::{Client, ExecutionFilter, ExecutionView, NodeView, ScheduleView};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Column, Output};
use crate::target::{Database, Target};
use crate::text::{escaped, shortened};
use crate::when::utc;

/// Errors are stored with up to 4,000 characters; a table shows the beginning of a text.
pub(crate) const TEXT_SHOWN: usize = 100;

pub(crate) fn migrate(database: &Database, output: Output, out: &mut dyn Write) -> Result<(), Failure> {
    let report = firetime::migrate(&database.url)?;
    if output == Output::Json {
        let applied: Vec<_> = report
            .applied
            .iter()
            .map(|(version, name)| json!({ "version": version, "name": name }))
            .collect();
        return output::json(out, &json!({ "version": report.version, "applied": applied }));
    }
    for (version, name) in &report.applied {
        writeln!(out, "applied {version}: {}", escaped(name))?;
    }
    let nothing = if report.applied.is_empty() { "; nothing was to be done" } else { "" };
    writeln!(out, "the schema is at version {}{nothing}", report.version)?;
    Ok(())
}

pub(crate) fn nodes(target: &Target, out: &mut dyn Write) -> Result<(), Failure> {
    let client = connect(target)?;
    let nodes = client.nodes()?;
    if nodes.is_empty() {
        find_application(&client, target)?;
    }
    output::list(out, target.output, NODES, &nodes)
}

const NODES: [Column<NodeView>; 11] = [
    ("NODE", |node| node.id.clone()),
    ("HOST", |node| format!("{} {}", node.host_name, node.host_ip).trim_end().to_owned()),
    ("PID", |node| node.pid.to_string()),
    ("STATE", node_state),
    ("BEAT", |node| node.beat.to_string()),
    ("LAST BEAT (UTC)", |node| utc(node.last_beat)),
    ("STARTED (UTC)", |node| utc(node.started)),
    ("THREADS", |node| node.threads.to_string()),
    ("BUSY", |node| node.busy.to_string()),
    ("QUEUED", |node| node.queued.to_string()),
    ("JOBS", |node| node.jobs.join(", ")),
];

fn node_state(node: &NodeView) -> String {
    match (node.ended.is_some(), node.enabled) {
        (true, _) => format!("{} {}", node.end_reason, utc(node.ended)),
        (false, true) => "live".to_owned(),
        (false, false) => "disabled".to_owned(),
    }
}

pub(crate) fn schedules(target: &Target, out: &mut dyn Write) -> Result<(), Failure> {
    let client = connect(target)?;
    let schedules = client.schedules()?;
    if schedules.is_empty() {
        find_application(&client, target)?;
    }
    output::list(out, target.output, SCHEDULES, &schedules)
}

const SCHEDULES: [Column<ScheduleView>; 13] = [
    ("ID", |schedule| schedule.id.to_string()),
    ("NAME", |schedule| schedule.name.clone()),
    ("JOB", |schedule| schedule.job.clone()),
    ("NODES", |schedule| schedule.nodes.to_string()),
    ("STATE", |schedule| schedule.state.clone()),
    ("TRIGGER", |schedule| schedule.trigger.clone()),
    ("LAST (UTC)", |schedule| utc(schedule.prev)),
    ("NEXT (UTC)", |schedule| utc(schedule.next)),
    ("TRIGGERED", |schedule| schedule.triggered.to_string()),
    ("PAUSED BY", |schedule| schedule.paused_by.clone()),
    ("SINCE (UTC)", |schedule| utc(schedule.paused)),
    ("REASON", schedule_reason),
    ("DESCRIPTION", |schedule| shortened(&schedule.description, TEXT_SHOWN)),
];

fn schedule_reason(schedule: &ScheduleView) -> String {
    match (schedule.state.as_str(), schedule.nodes) {
        ("active", 0) => "no live node has a handler for its job".to_owned(),
        _ => shortened(&schedule.reason, TEXT_SHOWN),
    }
}

pub(crate) fn executions(
    target: &Target,
    filter: &ExecutionFilter,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let client = connect(target)?;
    let one_more = ExecutionFilter { limit: filter.limit.saturating_add(1), ..filter.clone() };
    let mut executions = client.executions(&one_more)?;
    if executions.is_empty() {
        find(&client, target, filter)?;
    }
    if executions.len() > filter.limit {
        executions.truncate(filter.limit);
        writeln!(
            io::stderr(),
            "firetime: these are the newest {}, there are more: see --limit, --since, --schedule, --state, --node",
            filter.limit
        )?;
    }
    output::list(out, target.output, EXECUTIONS, &executions)
}

const EXECUTIONS: [Column<ExecutionView>; 10] = [
    ("ID", |execution| execution.id.to_string()),
    ("SCHEDULE", |execution| execution.schedule.clone()),
    ("FIRE TIME (UTC)", execution_fire_time),
    ("TRY", |execution| execution.attempt.to_string()),
    ("STATE", execution_state),
    ("NODE", |execution| execution.node.clone()),
    ("STARTED (UTC)", |execution| utc(execution.started)),
    ("FINISHED (UTC)", |execution| utc(execution.finished)),
    ("REASON", |execution| execution.reason.clone()),
    ("ERROR", |execution| shortened(&execution.error, TEXT_SHOWN)),
];

fn execution_state(execution: &ExecutionView) -> String {
    let state = execution.state.to_lowercase();
    let by = shortened(&execution.cancel_asked_by, TEXT_SHOWN);
    match (execution.cancel_asked, execution.cancel_seen) {
        (None, _) => state,
        (Some(_), None) => format!("{state}, asked to end by {by}"),
        (Some(_), Some(_)) => format!("{state}, asked to end by {by}, heard"),
    }
}

fn execution_fire_time(execution: &ExecutionView) -> String {
    match execution.count {
        0 | 1 => utc(execution.fire_time),
        count => format!("{} ({count} until {})", utc(execution.fire_time), utc(execution.until)),
    }
}

/// Nothing was found: is there anything of these names at all?
fn find(client: &Client, target: &Target, filter: &ExecutionFilter) -> Result<(), Failure> {
    find_application(client, target)?;
    if let Some(name) = &filter.schedule {
        let known: Vec<String> = client.schedules()?.into_iter().map(|schedule| schedule.name).collect();
        if !known.contains(name) {
            return Err(Failure::not_found("schedule", name, known));
        }
    }
    if let Some(start) = &filter.node {
        let known: Vec<String> = client.nodes()?.into_iter().map(|node| node.id).collect();
        if !known.iter().any(|id| id.starts_with(start.as_str())) {
            return Err(Failure::not_found("node", start, known));
        }
    }
    Ok(())
}

pub(crate) fn find_application(client: &Client, target: &Target) -> Result<(), Failure> {
    let known = client.applications()?;
    if known.contains(&target.application) {
        return Ok(());
    }
    Err(Failure::not_found("application", &target.application, known))
}

pub(crate) fn connect(target: &Target) -> Result<Client, Failure> {
    Ok(Client::connect(&target.application, &target.database.url)?)
}
