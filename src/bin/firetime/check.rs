//! `check`: whether an application is well, as its listings tell.

use std::collections::BTreeSet;
use std::io::Write;

use chrono::{DateTime, TimeDelta, Utc};
use firetime::{ApplicationView, ExecutionView, JobView, NodeView, ScheduleView};
use serde::Serialize;
use serde_json::json;

use crate::failure::{Failure, Result};
use crate::inspect::{connect, find_application, not_in_time};
use crate::output::{self, Output};
use crate::target::Target;
use crate::text::escaped;
use crate::when::utc;

/// So long a node may be silent: one that lives is declared dead after 25 s, unless it is configured
/// otherwise.
const SILENT: TimeDelta = TimeDelta::seconds(30);
/// What the misfire handler needs to notice a schedule that is overdue, and to move it on.
const REPAIRED: TimeDelta = TimeDelta::seconds(30);
/// So long an execution may wait for a node.
const LATE: TimeDelta = TimeDelta::seconds(60);

/// What an operator should know.
#[derive(Debug, Serialize)]
struct Finding {
    /// `problem`, or `note` where somebody wanted it so.
    level: &'static str,
    /// The kind of thing that it is about.
    target_type: &'static str,
    /// The name of that thing.
    target: String,
    problem: String,
    action: String,
}

impl Finding {
    fn new(target_type: &'static str, target: &str, problem: String, action: impl Into<String>) -> Self {
        Self { level: "problem", target_type, target: target.to_owned(), problem, action: action.into() }
    }

    fn note(self) -> Self {
        Self { level: "note", ..self }
    }
}

/// An application as it is.
struct Seen {
    /// By the database's clock.
    now: DateTime<Utc>,
    application: ApplicationView,
    /// Those that nobody has found to have ended.
    nodes: Vec<NodeView>,
    jobs: Vec<JobView>,
    schedules: Vec<ScheduleView>,
    /// Those that wait for too long, and not for their schedule.
    late: Vec<ExecutionView>,
}

pub(crate) fn check(target: &Target, output: Output, out: &mut dyn Write) -> Result {
    let client = connect(target)?;
    let application = client.applications()?.into_iter().find(|it| it.name == target.application);
    let Some(application) = application else { return find_application(&client, target) };
    let now = client.now()?;
    let nodes = client.nodes()?.into_iter().filter(|node| node.ended.is_none()).collect();
    let (jobs, schedules, mut late) = (client.jobs()?, client.schedules()?, client.late(now - LATE)?);
    let paused = schedules.iter().filter(|schedule| schedule.state == "paused");
    let paused: BTreeSet<&str> = paused.map(|schedule| &*schedule.name).collect();
    late.retain(|execution| execution.reason != "queued" && !paused.contains(&*execution.schedule));
    let seen = Seen { now, application, nodes, jobs, schedules, late };
    let findings = seen.findings();
    let is_healthy = findings.iter().all(|finding| finding.level == "note");
    match output {
        Output::Json => output::json(out, &json!({ "healthy": is_healthy, "findings": findings }))?,
        Output::Table => tell(&seen, &findings, is_healthy, out)?,
    }
    if is_healthy { Ok(()) } else { Err(Failure::Unclean) }
}

fn tell(seen: &Seen, findings: &[Finding], is_healthy: bool, out: &mut dyn Write) -> Result {
    for Finding { level, target_type, target, problem, action } in findings {
        let line = format!("{level}: {target_type} {target}: {problem}: {action}");
        writeln!(out, "{}", escaped(&line))?;
    }
    let word = if is_healthy { "healthy" } else { "not healthy" };
    let (nodes, schedules) = (seen.live().count(), seen.schedules.len());
    writeln!(out, "{word}: live nodes: {nodes}, schedules: {schedules}")?;
    Ok(())
}

impl Seen {
    fn findings(&self) -> Vec<Finding> {
        let of_nodes = self.nodes.iter().flat_map(|node| self.of_node(node));
        let handled = self.handled();
        let of_jobs = self.jobs.iter().filter_map(|job| self.of_job(job, handled.contains(&*job.name)));
        let of_schedules = self.schedules.iter().flat_map(|it| of_schedule(it).into_iter().chain(unmet(it)));
        self.of_application().into_iter().chain(of_nodes).chain(of_jobs).chain(of_schedules).collect()
    }

    fn silence(&self, node: &NodeView) -> TimeDelta {
        node.last_beat.map_or(TimeDelta::MAX, |beat| self.now - beat)
    }

    fn live(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| self.silence(node) <= SILENT)
    }

    /// The jobs that some live node claims.
    fn handled(&self) -> BTreeSet<&str> {
        let claim = self.live().filter(|node| node.state == "active");
        claim.flat_map(|node| &node.jobs).map(String::as_str).collect()
    }

    fn of_application(&self) -> Option<Finding> {
        let ApplicationView { name, state, paused_by, reason, .. } = &self.application;
        if state == "paused" {
            let why = because("paused", paused_by, reason);
            return Some(Finding::new("application", name, why, "`firetime apps resume`"));
        }
        let is_claimed = self.live().any(|node| node.state == "active");
        let problem = || "no live node claims anything".to_owned();
        (!is_claimed).then(|| Finding::new("application", name, problem(), "start one, or resume one"))
    }

    fn of_node(&self, node: &NodeView) -> Vec<Finding> {
        let finding = |problem, action: &str| Finding::new("node", &node.id, problem, action);
        let silence = self.silence(node);
        let silent = (silence > SILENT).then(|| {
            let problem = format!("no heartbeat for {} s", silence.num_seconds());
            finding(
                problem,
                "look at its process; another live node declares it dead and takes over its work",
            )
        });
        let stuck = (node.stuck > 0).then(|| {
            let problem = format!("{} handlers run on beyond their time limits", node.stuck);
            finding(problem, "mend the jobs, and restart it: `firetime executions --state timed-out`")
        });
        let held = (node.state != "active").then(|| {
            let problem = because(&node.state, &node.paused_by, &node.reason);
            finding(problem, "`firetime nodes resume` lets it claim again").note()
        });
        [silent, stuck, held].into_iter().flatten().collect()
    }

    /// What keeps a job's schedules and executions from running: one finding for all of them.
    fn of_job(&self, job: &JobView, is_handled: bool) -> Option<Finding> {
        let finding = |problem, action: String| Finding::new("job", &job.name, problem, action);
        if job.state == "paused" {
            let why = because("paused", &job.paused_by, &job.reason);
            return Some(finding(why, "`firetime jobs resume`".to_owned()).note());
        }
        if self.application.state == "paused" {
            return None;
        }
        let schedules = self.schedules.iter().filter(|it| it.job == job.name && it.state == "active");
        let schedules: Vec<&ScheduleView> = schedules.collect();
        let late = self.late.iter().filter(|execution| execution.job == job.name);
        let late: Vec<TimeDelta> = late.filter_map(|execution| Some(self.now - execution.due?)).collect();
        let waits = late
            .iter()
            .max()
            .map(|most| format!("{} executions wait, up to {} s", late.len(), most.num_seconds()));
        if !is_handled {
            let active = (!schedules.is_empty()).then(|| format!("active schedules: {}", schedules.len()));
            let idle: Vec<String> = active.into_iter().chain(waits).collect();
            let since = job.nobody_since.map_or_else(String::new, |at| format!(", since {}", utc(Some(at))));
            let problem =
                format!("no live node that claims has a handler for it{since}; {}", idle.join("; "));
            return (!idle.is_empty()).then(|| finding(problem, "start a node that has one".to_owned()));
        }
        let overdue: Vec<_> = schedules.iter().filter_map(|schedule| self.overdue(schedule)).collect();
        let overdue = overdue.iter().max().map(|(most, name)| {
            format!("{} schedules are overdue, {name} for {} s", overdue.len(), most.num_seconds())
        });
        let problems: Vec<String> = overdue.into_iter().chain(waits).collect();
        let action = "look whether the nodes' threads are full, and into their logs";
        (!problems.is_empty()).then(|| finding(problems.join("; "), action.to_owned()))
    }

    /// For how long a schedule should have been moved on.
    fn overdue<'a>(&self, schedule: &'a ScheduleView) -> Option<(TimeDelta, &'a str)> {
        let overdue = self.now - schedule.next?;
        let may = TimeDelta::milliseconds(schedule.misfire_threshold.clamp(0, i64::MAX / 2)) + REPAIRED;
        (overdue > may).then_some((overdue, &*schedule.name))
    }
}

fn of_schedule(schedule: &ScheduleView) -> Option<Finding> {
    let ScheduleView { name, reason, paused_by, .. } = schedule;
    match (schedule.state.as_str(), paused_by.as_str()) {
        ("error", _) => {
            let problem = format!("in error: {reason}");
            Some(Finding::new("schedule", name, problem, "mend its row, or give it another trigger"))
        }
        ("paused", "firetime") => {
            let problem = format!("it has paused itself: {reason}");
            Some(Finding::new("schedule", name, problem, "mend its job, then `firetime schedules resume`"))
        }
        _ => None,
    }
}

/// What was expected of a schedule and has not come.
fn unmet(schedule: &ScheduleView) -> Option<Finding> {
    let problem = not_in_time(Some(schedule.unmet?));
    let action = format!("`firetime why {}` or its last executions say what became of it", schedule.name);
    Some(Finding::new("schedule", &schedule.name, problem, action))
}

fn because(state: &str, by: &str, reason: &str) -> String {
    match (by, reason) {
        ("", _) => state.to_owned(),
        (by, "") => format!("{state} by {by}"),
        (by, reason) => format!("{state} by {by} ({reason})"),
    }
}
