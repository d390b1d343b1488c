//! Looking at a cluster, and preparing its database.

use std::io::{self, Write};

use firetime::{Client, ExecutionFilter, ExecutionView, NodeView, ScheduleView};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Output};
use crate::target::{Database, Target};
use crate::text::{escaped, shortened};
use crate::when::utc;

/// Errors are stored with up to 4,000 characters; a table shows their beginning.
const ERROR_SHOWN: usize = 100;

pub(crate) fn migrate(database: &Database, output: Output, out: &mut dyn Write) -> Result<(), Failure> {
    let report = firetime::migrate(database.url())?;
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
    if target.output == Output::Json {
        return output::json(out, &nodes);
    }
    let headings = [
        "NODE",
        "HOST",
        "PID",
        "STATE",
        "BEAT",
        "LAST BEAT (UTC)",
        "STARTED (UTC)",
        "THREADS",
        "BUSY",
        "QUEUED",
        "JOBS",
    ];
    output::table(out, headings, nodes.into_iter().map(node))
}

fn node(node: NodeView) -> [String; 11] {
    let state = match (node.ended.is_some(), node.enabled) {
        (true, _) => format!("{} {}", node.end_reason, utc(node.ended)),
        (false, true) => "live".to_owned(),
        (false, false) => "disabled".to_owned(),
    };
    let host =
        if node.host_ip.is_empty() { node.host_name } else { format!("{} {}", node.host_name, node.host_ip) };
    [
        node.id,
        host,
        node.pid.to_string(),
        state,
        node.beat.to_string(),
        utc(node.last_beat),
        utc(node.started),
        node.threads.to_string(),
        node.busy.to_string(),
        node.queued.to_string(),
        node.jobs.join(", "),
    ]
}

pub(crate) fn schedules(target: &Target, out: &mut dyn Write) -> Result<(), Failure> {
    let client = connect(target)?;
    let schedules = client.schedules()?;
    if schedules.is_empty() {
        find_application(&client, target)?;
    }
    if target.output == Output::Json {
        return output::json(out, &schedules);
    }
    let headings = [
        "ID",
        "NAME",
        "JOB",
        "NODES",
        "STATE",
        "TRIGGER",
        "LAST (UTC)",
        "NEXT (UTC)",
        "TRIGGERED",
        "PAUSED BY",
        "SINCE (UTC)",
        "REASON",
        "DESCRIPTION",
    ];
    output::table(out, headings, schedules.into_iter().map(schedule))
}

fn schedule(schedule: ScheduleView) -> [String; 13] {
    let reason = match (schedule.state.as_str(), schedule.nodes) {
        ("active", 0) => "no live node has a handler for its job".to_owned(),
        _ => shortened(&schedule.reason, ERROR_SHOWN),
    };
    [
        schedule.id.to_string(),
        schedule.name,
        schedule.job,
        schedule.nodes.to_string(),
        schedule.state,
        schedule.trigger,
        utc(schedule.prev),
        utc(schedule.next),
        schedule.triggered.to_string(),
        schedule.paused_by,
        utc(schedule.paused),
        reason,
        shortened(&schedule.description, ERROR_SHOWN),
    ]
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
    if target.output == Output::Json {
        return output::json(out, &executions);
    }
    let headings = [
        "ID",
        "SCHEDULE",
        "FIRE TIME (UTC)",
        "TRY",
        "STATE",
        "NODE",
        "STARTED (UTC)",
        "FINISHED (UTC)",
        "REASON",
        "ERROR",
    ];
    output::table(out, headings, executions.into_iter().map(execution))
}

fn execution(execution: ExecutionView) -> [String; 10] {
    let fire_time = match execution.count {
        0 | 1 => utc(execution.fire_time),
        count => format!("{} ({count} until {})", utc(execution.fire_time), utc(execution.until)),
    };
    [
        execution.id.to_string(),
        execution.schedule,
        fire_time,
        execution.attempt.to_string(),
        execution.state.to_lowercase(),
        execution.node,
        utc(execution.started),
        utc(execution.finished),
        execution.reason,
        shortened(&execution.error, ERROR_SHOWN),
    ]
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

fn find_application(client: &Client, target: &Target) -> Result<(), Failure> {
    let known = client.applications()?;
    if known.contains(&target.application) {
        return Ok(());
    }
    Err(Failure::not_found("application", &target.application, known))
}

fn connect(target: &Target) -> Result<Client, Failure> {
    Ok(Client::connect(&target.application, target.database.url())?)
}
