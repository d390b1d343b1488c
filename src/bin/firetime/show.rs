//! One schedule, or one execution, whole.

use std::io::Write;
use std::time::Duration;

use firetime::{
    ErrorKind, ExecutionDetails, ExecutionLogs, ExecutionView, FieldEdit, OwnerView, ScheduleDetails,
    ScheduleField,
};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::inspect::{
    self, EXECUTIONS, Kind, connect, execution_state, find_application, names, of_execution, schedule_state,
};
use crate::logs::{LINES, progress};
use crate::output::{self, ListOutput, Output};
use crate::target::Target;
use crate::when::utc;

pub(crate) fn schedule(target: &Target, name: &str, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    let details = match client.schedule(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            find_application(&client, target)?;
            return Err(Failure::not_found("schedule", name, names(&client, Kind::Schedule)?));
        }
        found => found?,
    };
    if output == Output::Json {
        return output::json(out, &details);
    }
    let ScheduleDetails { schedule, payload, starts, ends, priority, next_five, counts, last, .. } = &details;
    let of = |field, value: String| by_hand(&details, field, value);
    let span =
        |span: Option<Duration>| span.map_or_else(String::new, |span| format!("{} ms", span.as_millis()));
    let fire_times = match &next_five[..] {
        [] => vec![inspect::next(schedule)],
        known => known.iter().map(|at| utc(Some(*at))).collect(),
    };
    let counts: Vec<String> =
        counts.iter().map(|(state, count)| format!("{count} {}", state.to_lowercase())).collect();
    output::properties(
        out,
        &[
            ("schedule", schedule.name.clone()),
            ("owner", owner(&details)),
            ("description", of(ScheduleField::Description, schedule.description.clone())),
            ("job", of(ScheduleField::Job, format!("{} (live nodes: {})", schedule.job, schedule.nodes))),
            ("payload", of(ScheduleField::Payload, payload.clone())),
            ("trigger", of(ScheduleField::Trigger, schedule.trigger.clone())),
            ("in words", schedule.trigger_words.clone()),
            ("starts (UTC)", utc(*starts)),
            ("ends (UTC)", utc(*ends)),
            ("priority", of(ScheduleField::Priority, priority.to_string())),
            ("misfire", of(ScheduleField::Misfire, details.misfire.to_string())),
            (
                "missed from",
                of(
                    ScheduleField::MisfireThreshold,
                    format!("{} ms on", schedule.misfire_threshold.as_millis()),
                ),
            ),
            ("time limit", of(ScheduleField::TimeLimit, span(details.time_limit))),
            ("overlap", of(ScheduleField::Overlap, details.overlap.to_string().to_lowercase())),
            ("pauses itself after", of(ScheduleField::PauseAfter, pauses_after(details.pause_after))),
            ("expected by", of(ScheduleField::ExpectedBy, span(schedule.expected_by))),
            ("not in time since (UTC)", utc(schedule.unmet)),
            ("state", schedule_state(schedule)),
            ("reason", schedule.reason.clone()),
            ("paused by", schedule.paused_by.clone()),
            ("paused since (UTC)", utc(schedule.paused)),
            ("paused until (UTC)", utc(schedule.paused_until)),
            ("in error since (UTC)", utc(schedule.quarantined)),
            ("last fire time (UTC)", utc(schedule.prev)),
            ("next fire times (UTC)", fire_times.join(", ")),
            ("executions", counts.join(", ")),
        ],
    )?;
    recent(last, out)
}

/// In whose code it lives: all fields are that code's but those that are marked.
fn owner(details: &ScheduleDetails) -> String {
    let name = details.schedule.owner.as_deref().unwrap_or_default();
    match &details.owned_by {
        None => name.to_owned(),
        Some(OwnerView { revision, synced, synced_by, .. }) => {
            format!("{name}, revision {revision}, written {} UTC by {synced_by}", utc(*synced))
        }
    }
}

/// The value of a field, and who set it if that was an operator.
fn by_hand(details: &ScheduleDetails, field: ScheduleField, value: String) -> String {
    if !details.schedule.by_hand.contains(&field) {
        return value;
    }
    match details.edits.iter().find(|edit| edit.field == field) {
        Some(FieldEdit { actor, at, .. }) => format!("{value} (by hand: {actor}, {} UTC)", utc(*at)),
        None => format!("{value} (by hand)"),
    }
}

/// After what in a row a schedule pauses itself.
fn pauses_after(occurrences: Option<u32>) -> String {
    match occurrences {
        None => "2 deaths in a row".to_owned(),
        Some(0) => "nothing".to_owned(),
        Some(1) => "1 failure or death".to_owned(),
        Some(most) => format!("{most} failures and deaths, or 2 deaths, in a row"),
    }
}

pub(crate) fn execution(target: &Target, id: i64, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    let details = of_execution(&client, target, id, client.execution(id))?;
    let logs = client.logs(id)?;
    if output == Output::Json {
        return output::json(out, &Whole { details: &details, logs: &logs });
    }
    let ExecutionDetails { execution, payload, headers, checkpoint, result, attempts, .. } = &details;
    let (asked_by, asked_why) = execution.cause.asked().unwrap_or_default();
    let headers: Vec<String> = headers.iter().map(|(name, text)| format!("{name}={text}")).collect();
    output::properties(
        out,
        &[
            ("execution", execution.id.to_string()),
            ("schedule", execution.schedule.clone()),
            ("job", execution.job.clone()),
            ("payload", payload.clone().unwrap_or_else(|| "its schedule's".to_owned())),
            ("checkpoint", checkpoint.clone().unwrap_or_default()),
            ("progress", logs.progress.map(progress).unwrap_or_default()),
            ("result", result.clone().unwrap_or_default()),
            ("key", execution.key.clone().unwrap_or_default()),
            ("group", execution.group.clone().unwrap_or_default()),
            ("lane", execution.lane.clone().unwrap_or_default()),
            ("tags", execution.tags.join(", ")),
            ("headers", headers.join(", ")),
            ("cause", execution.cause.to_string()),
            ("asked for by", asked_by.to_owned()),
            ("because", asked_why.to_owned()),
            ("fire time (UTC)", utc(execution.fire_time)),
            ("due (UTC)", utc(execution.due)),
            ("attempt", execution.attempt.to_string()),
            ("failures before", execution.failures.to_string()),
            ("snoozes", execution.snoozes.to_string()),
            ("state", execution_state(execution)),
            ("reason", execution.reason.clone()),
            ("fence", execution.fence.to_string()),
            ("node", node(&details, execution)),
            ("claimed (UTC)", utc(execution.claimed)),
            ("started (UTC)", utc(execution.started)),
            ("finished (UTC)", utc(execution.finished)),
            ("error", execution.error.clone()),
            ("cancel asked (UTC)", utc(execution.cancel_asked)),
            ("cancel asked by", execution.cancel_asked_by.clone()),
            ("cancel because", execution.cancel_asked_why.clone()),
            ("cancel heard (UTC)", utc(execution.cancel_seen)),
        ],
    )?;
    recent(attempts, out)?;
    if logs.lines.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    output::list(out, ListOutput::Table, LINES, &logs.lines)
}

/// An execution with what its handlers have said.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    details: &'a ExecutionDetails,
    #[serde(flatten)]
    logs: &'a ExecutionLogs,
}

/// The node that has it, with its host and process while its row is there.
fn node(details: &ExecutionDetails, execution: &ExecutionView) -> String {
    let Some(id) = &execution.node else { return String::new() };
    let known = details.nodes.iter().find(|node| node.id == *id);
    let place = known.map(|node| format!(" ({} {}, process {})", node.host_name, node.host_ip, node.pid));
    format!("{id}{}", place.unwrap_or_default())
}

fn recent(executions: &[ExecutionView], out: &mut dyn Write) -> Result {
    if executions.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    output::list(out, ListOutput::Table, EXECUTIONS, executions)
}
