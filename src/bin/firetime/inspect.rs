//! Listings, and preparing a database.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use firetime::{
    Activity, ApplicationView, AuditFilter, AuditView, Client, ExecutionFilter, ExecutionView, JobView,
    LaneHealth, NodeView, OutcomeFilter, Outcomes, RateView, ScheduleFilter, ScheduleView,
};
use serde::Serialize;
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::output::{self, Column, ListOutput, Output};
use crate::target::{Database, Target};
use crate::text::{escaped, shortened};
use crate::when::{self, utc};

/// Errors are stored with up to 4,000 characters; a table shows the beginning of a text.
pub(crate) const TEXT_SHOWN: usize = 100;

/// A kind of thing with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Schedule,
    Job,
    Node,
    Application,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Job => "job",
            Self::Node => "node",
            Self::Application => "application",
        }
    }
}

/// What is listed.
#[derive(Debug)]
pub(crate) enum Listing {
    Nodes,
    Jobs,
    Applications,
    Schedules(ScheduleFilter),
    /// What follows the execution of this id.
    Executions(Box<ExecutionFilter>, Option<i64>),
    Audit(AuditFilter),
    Outcomes(OutcomeFilter),
}

/// How it is listed.
#[derive(Debug)]
pub(crate) struct How {
    pub(crate) output: ListOutput,
    pub(crate) limit: usize,
    /// Again and again, with this pause.
    pub(crate) watch: Option<Duration>,
}

pub(crate) fn migrate(database: &Database, output: Output, out: &mut dyn Write) -> Result {
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

pub(crate) fn list(target: &Target, listing: &Listing, how: &How, out: &mut dyn Write) -> Result {
    match how.watch {
        Some(pause) => watch(target, listing, how, pause, out),
        None => once(target, listing, how, out),
    }
}

/// Lists again and again, until somebody ends the program. A database that is away is told and tried again.
fn watch(target: &Target, listing: &Listing, how: &How, pause: Duration, out: &mut dyn Write) -> Result {
    const CLEAR: &str = "\u{1b}[H\u{1b}[2J";
    let clear = if io::stdout().is_terminal() { CLEAR } else { "" };
    // Nobody sends: it only waits.
    let (_nobody, nothing) = mpsc::channel::<()>();
    loop {
        let seconds = pause.as_secs();
        writeln!(out, "{clear}{} UTC, every {seconds} s, until Ctrl-C", utc(Some(when::now())))?;
        match once(target, listing, how, out) {
            Err(Failure::Firetime(error)) => writeln!(out, "{}", escaped(&format!("{error:#}")))?,
            listed => listed?,
        }
        writeln!(out)?;
        out.flush()?;
        nothing.recv_timeout(pause).ok();
    }
}

fn once(target: &Target, listing: &Listing, how: &How, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    let one_more = how.limit.saturating_add(1);
    match listing {
        Listing::Nodes => of_application(&client, target, how, out, NODES, client.nodes()?),
        Listing::Jobs => of_application(&client, target, how, out, JOBS, client.jobs()?),
        Listing::Schedules(filter) => {
            let page = client.find_schedules(&ScheduleFilter { limit: how.limit, ..filter.clone() })?;
            if let Some(next) = &page.next {
                let (count, looked) = (page.schedules.len(), page.looked);
                let told = format!("these are {count} of the first {looked}; the list goes on");
                writeln!(io::stderr(), "firetime: {told} with --after '{}'", escaped(&next.to_string()))?;
            }
            of_application(&client, target, how, out, SCHEDULES, page.schedules)
        }
        Listing::Applications => shown(how, out, APPLICATIONS, client.applications()?),
        Listing::Executions(filter, after) => {
            let of = |id| of_execution(&client, target, id, client.execution(id));
            let after = after.map(of).transpose()?.map(|it| it.execution.place());
            let executions =
                client.executions(&ExecutionFilter { limit: one_more, after, ..*filter.clone() })?;
            if executions.is_empty() {
                find(&client, target, filter)?;
            }
            shown(how, out, EXECUTIONS, executions)
        }
        Listing::Audit(filter) => {
            let rows = client.audit(&AuditFilter { limit: one_more, ..filter.clone() })?;
            if rows.is_empty() {
                find_target(&client, target, filter)?;
            }
            shown(how, out, AUDIT, rows)
        }
        Listing::Outcomes(filter) => {
            let outcomes = client.outcomes(&OutcomeFilter { limit: one_more, ..filter.clone() })?;
            of_application(&client, target, how, out, OUTCOMES, outcomes)
        }
    }
}

fn of_application<T: Serialize>(
    client: &Client,
    target: &Target,
    how: &How,
    out: &mut dyn Write,
    columns: &[Column<T>],
    rows: Vec<T>,
) -> Result {
    if rows.is_empty() {
        find_application(client, target)?;
    }
    shown(how, out, columns, rows)
}

/// Writes so many rows, and says if there are more.
fn shown<T: Serialize>(how: &How, out: &mut dyn Write, columns: &[Column<T>], mut rows: Vec<T>) -> Result {
    if rows.len() > how.limit {
        rows.truncate(how.limit);
        let limit = how.limit;
        writeln!(
            io::stderr(),
            "firetime: these are the first {limit}, there are more: see --limit, filters, and executions --after"
        )?;
    }
    output::list(out, how.output, columns, &rows)
}

const NODES: &[Column<NodeView>] = &[
    Column::new("NODE", |node| node.id.clone()),
    Column::new("HOST", |node| format!("{} {}", node.host_name, node.host_ip).trim_end().to_owned()),
    Column::new("PID", |node| node.pid.to_string()),
    Column::new("STATE", |node| match node.ended {
        Some(_) => format!("{} {}", node.end_reason, utc(node.ended)),
        None => node.state.to_string(),
    }),
    Column::new("LAST BEAT (UTC)", |node| utc(node.last_beat)),
    Column::wide("BEAT", |node| node.beat.to_string()),
    Column::wide("STARTED (UTC)", |node| utc(node.started)),
    Column::new("THREADS", |node| node.threads.to_string()),
    Column::new("BUSY", |node| node.busy.to_string()),
    Column::new("QUEUED", |node| node.queued.to_string()),
    Column::new("STUCK", |node| node.stuck.to_string()),
    Column::wide("LANES", lanes),
    Column::new("JOBS", |node| node.jobs.join(", ")),
    Column::wide("PAUSED BY", |node| node.paused_by.clone()),
    Column::wide("SINCE (UTC)", |node| utc(node.paused)),
    Column::wide("UNTIL (UTC)", |node| utc(node.paused_until)),
    Column::new("REASON", |node| shortened(&node.reason, TEXT_SHOWN)),
];

const OUTCOMES: &[Column<Outcomes>] = &[
    Column::new("FROM (UTC)", |it| utc(Some(it.since))),
    Column::new("UNTIL (UTC)", |it| utc(Some(it.until))),
    Column::new("JOB", |it| it.job.clone().unwrap_or_default()),
    Column::new("NODE", |it| it.node.clone().unwrap_or_default()),
    Column::new("SUCCEEDED", |it| it.succeeded.to_string()),
    Column::new("FAILED", |it| it.failed.to_string()),
    Column::new("TIMED OUT", |it| it.timed_out.to_string()),
    Column::new("CANCELLED", |it| it.cancelled.to_string()),
    Column::new("ABANDONED", |it| it.abandoned.to_string()),
    Column::new("LATE (MS)", |it| millis(it.mean_lateness)),
    Column::new("LATEST (MS)", |it| millis(it.longest_lateness)),
    Column::new("TOOK (MS)", |it| millis(it.mean_duration)),
    Column::new("LONGEST (MS)", |it| millis(it.longest_duration)),
];

fn millis(span: Option<Duration>) -> String {
    span.map_or_else(|| "-".to_owned(), |span| span.as_millis().to_string())
}

/// Of each lane how many of its threads and async handlers are taken, and how many executions wait.
fn lanes(node: &NodeView) -> String {
    let lane = |it: &LaneHealth| {
        let tasks = match it.concurrency {
            0 => String::new(),
            most => format!(" async {}/{most}", it.tasks),
        };
        format!("{} {}/{}{tasks} queued {}", it.name, it.busy, it.threads, it.queued)
    };
    node.lanes.iter().map(lane).collect::<Vec<_>>().join(", ")
}

const JOBS: &[Column<JobView>] = &[
    Column::new("JOB", |job| job.name.clone()),
    Column::new("STATE", |job| job.state.to_string()),
    Column::new("NODES", |job| job.nodes.to_string()),
    Column::new("ACTIVE", |job| match job.schedules {
        1_000.. => "1000 or more".to_owned(),
        count => count.to_string(),
    }),
    Column::wide("RECOVERED", |job| if job.recover { "yes" } else { "no" }.to_owned()),
    Column::wide("DEATHS", |job| job.max_attempts.to_string()),
    Column::wide("RETRIES", retries),
    Column::wide("AT ONCE", |job| concurrency(job.concurrency)),
    Column::wide("RATE", |job| rate(job.rate)),
    Column::wide("AT ONCE IN A GROUP", |job| concurrency(job.group_concurrency)),
    Column::wide("RATE OF A GROUP", |job| rate(job.group_rate)),
    Column::wide("TIME LIMIT", |job| time_limit(job.time_limit)),
    Column::wide("DESCRIPTION", |job| shortened(&job.description, TEXT_SHOWN)),
    Column::new("PAUSED BY", |job| job.paused_by.clone()),
    Column::new("SINCE (UTC)", |job| utc(job.paused)),
    Column::new("UNTIL (UTC)", |job| utc(job.paused_until)),
    Column::new("REASON", job_reason),
];

fn job_reason(job: &JobView) -> String {
    match job.nobody_since {
        Some(since) if job.state == Activity::Active => nobody("it", Some(since)),
        _ => shortened(&job.reason, TEXT_SHOWN),
    }
}

pub(crate) fn time_limit(span: Option<Duration>) -> String {
    span.map_or_else(|| "none".to_owned(), |span| format!("{} ms", span.as_millis()))
}

fn concurrency(most: Option<u32>) -> String {
    most.map_or_else(|| "any".to_owned(), |most| most.to_string())
}

fn rate(rate: Option<RateView>) -> String {
    rate.map_or_else(|| "any".to_owned(), |rate| format!("{} in {} ms", rate.count, rate.per.as_millis()))
}

fn retries(job: &JobView) -> String {
    let JobView { max_retries, retry_jitter, .. } = job;
    let (retry_delay, retry_cap) = (job.retry_delay.as_millis(), job.retry_cap.as_millis());
    if *max_retries == 0 {
        return "none".to_owned();
    }
    let grows = if retry_cap > retry_delay { format!(" to {retry_cap}") } else { String::new() };
    let jitter = if *retry_jitter > 0 { format!(", jitter {retry_jitter} %") } else { String::new() };
    format!("{max_retries} after {retry_delay}{grows} ms{jitter}")
}

const APPLICATIONS: &[Column<ApplicationView>] = &[
    Column::new("APPLICATION", |it| it.name.clone()),
    Column::new("STATE", |it| it.state.to_string()),
    Column::new("PAUSED BY", |it| it.paused_by.clone()),
    Column::new("SINCE (UTC)", |it| utc(it.paused)),
    Column::new("UNTIL (UTC)", |it| utc(it.paused_until)),
    Column::new("REASON", |it| shortened(&it.reason, TEXT_SHOWN)),
];

const SCHEDULES: &[Column<ScheduleView>] = &[
    Column::wide("ID", |schedule| schedule.id.to_string()),
    Column::new("NAME", |schedule| schedule.name.clone()),
    Column::new("JOB", |schedule| schedule.job.clone()),
    Column::new("NODES", |schedule| schedule.nodes.to_string()),
    Column::new("STATE", schedule_state),
    Column::new("TRIGGER", |schedule| schedule.trigger.clone()),
    Column::new("LAST (UTC)", |schedule| utc(schedule.prev)),
    Column::new("NEXT (UTC)", next),
    Column::wide("EXPECTED BY", |schedule| time_limit(schedule.expected_by)),
    Column::wide("IN WORDS", |schedule| schedule.trigger_words.clone()),
    Column::wide("TRIGGERED", |schedule| schedule.triggered.to_string()),
    Column::new("PAUSED BY", |schedule| schedule.paused_by.clone()),
    Column::wide("SINCE (UTC)", |schedule| utc(schedule.paused.or(schedule.quarantined))),
    Column::wide("UNTIL (UTC)", |schedule| utc(schedule.paused_until)),
    Column::new("REASON", schedule_reason),
    Column::wide("OWNER", |schedule| schedule.owner.clone().unwrap_or_default()),
    Column::wide("BY HAND", by_hand),
    Column::wide("DESCRIPTION", |schedule| shortened(&schedule.description, TEXT_SHOWN)),
];

/// The fields that an operator has changed, of one that lives in code.
fn by_hand(schedule: &ScheduleView) -> String {
    let fields: Vec<&str> = schedule.by_hand.iter().map(|field| field.as_str()).collect();
    fields.join(", ").replace('_', " ")
}

/// When it fires next, as far as that is known.
pub(crate) fn next(schedule: &ScheduleView) -> String {
    match (schedule.state.as_str(), schedule.next) {
        ("active", None) => "after its run".to_owned(),
        // Its cursor stays where it was, and may lie in the past.
        ("paused", _) => "paused".to_owned(),
        (_, next) => utc(next),
    }
}

pub(crate) fn schedule_state(schedule: &ScheduleView) -> String {
    match schedule.held_by.as_str() {
        "" => schedule.state.to_string(),
        above => format!("{}, its {above} is paused", schedule.state),
    }
}

/// That nobody can run a job, and since when, if that was noted.
pub(crate) fn nobody(job: &str, since: Option<DateTime<Utc>>) -> String {
    let since = since.map_or_else(String::new, |since| format!(" since {}", utc(Some(since))));
    format!("no live node has a handler for {job}{since}")
}

fn schedule_reason(schedule: &ScheduleView) -> String {
    let why = state_reason(schedule);
    match (schedule.unmet, why.as_str()) {
        (None, _) => why,
        (unmet, "") => not_in_time(unmet),
        (unmet, _) => format!("{why}; {}", not_in_time(unmet)),
    }
}

/// That an occurrence has not succeeded in time.
pub(crate) fn not_in_time(unmet: Option<DateTime<Utc>>) -> String {
    format!("its occurrence of {} has not succeeded in time", utc(unmet))
}

fn state_reason(schedule: &ScheduleView) -> String {
    match (schedule.state.as_str(), schedule.nodes) {
        ("active", 0) if schedule.held_by.is_empty() => nobody("its job", schedule.nobody_since),
        ("active", _) => shortened(&schedule.left_alone, TEXT_SHOWN),
        _ => shortened(&schedule.reason, TEXT_SHOWN),
    }
}

pub(crate) const EXECUTIONS: &[Column<ExecutionView>] = &[
    Column::new("ID", |execution| execution.id.to_string()),
    Column::new("SCHEDULE", |execution| execution.schedule.clone()),
    Column::wide("JOB", |execution| execution.job.clone()),
    Column::new("FIRE TIME (UTC)", execution_fire_time),
    Column::new("TRY", |execution| execution.attempt.to_string()),
    Column::wide("FAILURES", |execution| execution.failures.to_string()),
    Column::wide("SNOOZES", |execution| execution.snoozes.to_string()),
    Column::new("CAUSE", execution_cause),
    Column::new("STATE", execution_state),
    Column::wide("FENCE", |execution| execution.fence.to_string()),
    Column::wide("NODE", |execution| execution.node.clone().unwrap_or_default()),
    Column::wide("CLAIMED (UTC)", |execution| utc(execution.claimed)),
    Column::new("STARTED (UTC)", |execution| utc(execution.started)),
    Column::new("FINISHED (UTC)", |execution| utc(execution.finished)),
    Column::new("REASON", execution_reason),
    Column::wide("HOLDER", |execution| execution.holder.map_or_else(String::new, |id| id.to_string())),
    Column::wide("CHANGE", |execution| execution.change.map_or_else(String::new, |id| id.to_string())),
    Column::wide("KEY", |execution| execution.key.clone().unwrap_or_default()),
    Column::wide("GROUP", |execution| execution.group.clone().unwrap_or_default()),
    Column::wide("LANE", |execution| execution.lane.clone().unwrap_or_default()),
    Column::wide("TAGS", |execution| execution.tags.join(", ")),
    Column::new("ERROR", |execution| shortened(&execution.error, TEXT_SHOWN)),
];

fn execution_cause(execution: &ExecutionView) -> String {
    match execution.cause.asked() {
        Some((by, _)) if !by.is_empty() => format!("{} ({})", execution.cause, shortened(by, TEXT_SHOWN)),
        _ => execution.cause.to_string(),
    }
}

pub(crate) fn execution_state(execution: &ExecutionView) -> String {
    let state = execution.state.as_str().to_lowercase();
    if execution.stuck {
        return format!("{state}, runs on");
    }
    let by = shortened(&execution.cancel_asked_by, TEXT_SHOWN);
    match (execution.cancel_asked, execution.cancel_seen) {
        (None, _) => state,
        (Some(_), None) => format!("{state}, asked to end by {by}"),
        (Some(_), Some(_)) => format!("{state}, asked to end by {by}, heard"),
    }
}

fn execution_reason(execution: &ExecutionView) -> String {
    match (execution.nobody_since, execution.reason.as_str()) {
        (None, reason) => reason.to_owned(),
        (since, "") => nobody("its job", since),
        (since, reason) => format!("{reason}; {}", nobody("its job", since)),
    }
}

fn execution_fire_time(execution: &ExecutionView) -> String {
    match execution.count {
        0 | 1 => utc(execution.fire_time),
        count => format!("{} ({count} until {})", utc(execution.fire_time), utc(execution.last_fire_time)),
    }
}

const AUDIT: &[Column<AuditView>] = &[
    Column::wide("ID", |row| row.id.to_string()),
    Column::new("TIME (UTC)", |row| utc(row.made)),
    Column::new("ACTOR", |row| row.actor.clone()),
    Column::new("VERB", |row| row.verb.clone()),
    Column::new("TARGET", |row| format!("{} {}", row.target_type, row.target)),
    Column::new("WAS", |row| shortened(&row.was, TEXT_SHOWN)),
    Column::new("BECAME", |row| shortened(&row.became, TEXT_SHOWN)),
    Column::new("REASON", |row| shortened(&row.reason, TEXT_SHOWN)),
];

/// Nothing was found: is there anything of these names at all?
pub(crate) fn find(client: &Client, target: &Target, filter: &ExecutionFilter) -> Result {
    find_application(client, target)?;
    if let Some(name) = &filter.schedule {
        let mut known = names(client, Kind::Schedule)?;
        known.extend(names(client, Kind::Job)?.iter().map(|job| format!("queue:{job}")));
        found(Kind::Schedule.word(), name, known)?;
    }
    if let Some(start) = &filter.node {
        let known = names(client, Kind::Node)?;
        if !known.iter().any(|id| id.starts_with(start.as_str())) {
            return Err(Failure::not_found(Kind::Node.word(), start, known));
        }
    }
    Ok(())
}

/// Nothing was recorded: is there anything of this name at all? Removed schedules are not known any more.
fn find_target(client: &Client, target: &Target, filter: &AuditFilter) -> Result {
    find_application(client, target)?;
    let Some(name) = &filter.target else { return Ok(()) };
    let mut known = Vec::new();
    for kind in [Kind::Schedule, Kind::Job, Kind::Node] {
        known.extend(names(client, kind)?);
    }
    known.push(target.application.clone());
    found("target", name, known)
}

pub(crate) fn find_application(client: &Client, target: &Target) -> Result {
    found(Kind::Application.word(), &target.application, names(client, Kind::Application)?)
}

/// What was found of an execution, or a message that says what is missing: it, or the application.
pub(crate) fn of_execution<T>(
    client: &Client,
    target: &Target,
    id: i64,
    found: std::result::Result<T, firetime::Error>,
) -> Result<T> {
    match found {
        Err(error) => {
            find_application(client, target)?;
            Err(Failure::of_execution(id, error))
        }
        Ok(found) => Ok(found),
    }
}

fn found(kind: &str, name: &String, known: Vec<String>) -> Result {
    if known.contains(name) { Ok(()) } else { Err(Failure::not_found(kind, name, known)) }
}

/// The names there are; of nodes, their ids.
pub(crate) fn names(client: &Client, kind: Kind) -> Result<Vec<String>> {
    Ok(match kind {
        Kind::Schedule => client.schedules()?.into_iter().map(|it| it.name).collect(),
        Kind::Job => client.jobs()?.into_iter().map(|it| it.name).collect(),
        Kind::Node => client.nodes()?.into_iter().map(|it| it.id).collect(),
        Kind::Application => client.applications()?.into_iter().map(|it| it.name).collect(),
    })
}

pub(crate) fn connect(target: &Target) -> Result<Client> {
    // No application is named where all are listed.
    let application = if target.application.is_empty() { "-" } else { &target.application };
    Ok(Client::connect(application, &target.database.url)?)
}
