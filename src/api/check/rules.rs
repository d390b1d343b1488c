//! What is the matter with an application, as its views tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::found::{Check, Finding, FindingKind, FindingLevel, MOST_SCHEDULES};
use super::outage::Outage;
use crate::api::words::{length, second, span};
use crate::api::{ApplicationView, ExecutionView, JobView, NodeView, ScheduleView, Standing};
use crate::domain::Activity;

/// So long a node may be silent whose row does not say how long: written by hand.
const SILENT: TimeDelta = TimeDelta::seconds(30);
/// Deaths are told for so long.
const DEATHS: TimeDelta = TimeDelta::hours(1);

impl Finding {
    fn new(kind: FindingKind, of: (&'static str, &str), problem: String, action: impl Into<String>) -> Self {
        let ((target_type, target), level) = (of, FindingLevel::Problem);
        Self { level, kind, target_type, target: target.to_owned(), problem, action: action.into() }
    }

    fn note(self) -> Self {
        Self { level: FindingLevel::Note, ..self }
    }
}

/// The gravest first.
pub(super) fn findings(of: &Check) -> Vec<Finding> {
    let parts: [Vec<Finding>; 7] = [
        of_application(of).into_iter().collect(),
        of.live().flat_map(|node| of_node(of, node)).collect(),
        of_jobs(of),
        of_schedules(of),
        failing(of),
        deaths(of).into_iter().chain(of.outages.iter().map(|it| outage(of, it))).collect(),
        unseen(of),
    ];
    parts.into_iter().flatten().collect()
}

fn because(state: &str, by: &str, reason: &str) -> String {
    match (by, reason) {
        ("", _) => state.to_owned(),
        (by, "") => format!("{state} by {by}"),
        (by, reason) => format!("{state} by {by} ({reason})"),
    }
}

/// ` since` an instant, if that is known.
fn since(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(String::new, |at| format!(" since {}", second(at)))
}

/// `1 schedule`, `2 schedules`, `1000 or more schedules`.
fn counted(count: usize, most: usize, noun: &str) -> String {
    let more = if count >= most { " or more" } else { "" };
    format!("{count}{more} {noun}{}", if count == 1 { "" } else { "s" })
}

fn is_silent(of: &Check, node: &NodeView) -> bool {
    let may = node.silent_after.and_then(|span| TimeDelta::from_std(span).ok()).unwrap_or(SILENT);
    node.last_beat.is_none_or(|beat| of.now - beat > may)
}

/// The nodes that claim.
fn claiming(of: &Check) -> impl Iterator<Item = &NodeView> {
    of.live().filter(|node| node.state == Activity::Active && !is_silent(of, node))
}

fn of_application(of: &Check) -> Option<Finding> {
    let ApplicationView { name, state, paused_by, reason, paused, .. } = of.application.as_ref()?;
    let about = ("application", name.as_str());
    if *state == Activity::Paused {
        let why = because("paused", paused_by, reason) + &since(*paused);
        return Some(Finding::new(FindingKind::ApplicationPaused, about, why, "`firetime apps resume`"));
    }
    let problem = || "no live node claims anything".to_owned();
    claiming(of).next().is_none().then(|| {
        Finding::new(FindingKind::NothingClaims, about, problem(), "start one, or resume one that is paused")
    })
}

fn of_node(of: &Check, node: &NodeView) -> Vec<Finding> {
    let finding = |kind, problem, action: &str| Finding::new(kind, ("node", &node.id), problem, action);
    let silent = is_silent(of, node).then(|| {
        let silence = node.last_beat.map_or_else(
            || "no heartbeat yet".to_owned(),
            |beat| format!("no heartbeat for {}", span(of.now - beat)),
        );
        let action = "look at its process; another live node declares it dead and takes over its work";
        finding(FindingKind::NodeSilent, silence, action)
    });
    let stuck = (node.stuck > 0).then(|| {
        let handlers = counted(node.stuck, usize::MAX, "handler");
        let run =
            if node.stuck == 1 { "runs on beyond its time limit" } else { "run on beyond their time limits" };
        let action = "mend the jobs, and restart it: `firetime executions --state timed-out`";
        finding(FindingKind::NodeStuck, format!("{handlers} {run}"), action)
    });
    let held = (node.state != Activity::Active).then(|| {
        let problem = because(node.state.as_str(), &node.paused_by, &node.reason) + &since(node.paused);
        finding(FindingKind::NodeHeld, problem, "`firetime nodes resume` lets it claim again").note()
    });
    [silent, stuck, held].into_iter().flatten().collect()
}

fn of_jobs(of: &Check) -> Vec<Finding> {
    let handled: BTreeSet<&str> = claiming(of).flat_map(|node| &node.jobs).map(String::as_str).collect();
    let is_handled = |job: &JobView| handled.contains(job.name.as_str());
    of.jobs.iter().filter_map(|job| of_job(of, job, is_handled(job))).collect()
}

/// What keeps a job's schedules and executions from running: one finding for all of them.
fn of_job(of: &Check, job: &JobView, is_handled: bool) -> Option<Finding> {
    /// So many active schedules of a job are counted.
    const COUNTED: usize = 1_000;
    let finding = |kind, problem, action: &str| Finding::new(kind, ("job", &job.name), problem, action);
    if job.state == Activity::Paused {
        let why = because("paused", &job.paused_by, &job.reason) + &since(job.paused);
        return Some(finding(FindingKind::JobPaused, why, "`firetime jobs resume`").note());
    }
    if of.application.as_ref().is_some_and(|it| it.state == Activity::Paused) {
        return None;
    }
    let late = of.late.iter().filter(|execution| execution.job == job.name);
    let late: Vec<TimeDelta> = late.filter_map(|execution| Some(of.now - execution.due?)).collect();
    let waits = late.iter().max().map(|most| {
        let executions = counted(late.len(), usize::MAX, "execution");
        let wait = if late.len() == 1 { "waits" } else { "wait" };
        format!("{executions} {wait}, up to {}", span(*most))
    });
    if !is_handled {
        let active = (job.schedules > 0).then(|| counted(job.schedules, COUNTED, "active schedule"));
        let idle: Vec<String> = active.into_iter().chain(waits).collect();
        let nobody = format!("no live node that claims has a handler for it{}", since(job.nobody_since));
        return (!idle.is_empty()).then(|| {
            let problem = format!("{nobody}; {}", idle.join("; "));
            finding(FindingKind::JobUnclaimed, problem, "start a node that has one")
        });
    }
    let problems: Vec<String> = overdue(of, job).into_iter().chain(waits).collect();
    let action = "look whether the nodes' threads are full, and into their logs";
    (!problems.is_empty()).then(|| finding(FindingKind::JobBehind, problems.join("; "), action))
}

/// The schedules of a job that should have been moved on.
fn overdue(of: &Check, job: &JobView) -> Option<String> {
    let overdue = of.overdue.iter().filter(|it| it.job == job.name);
    let overdue: Vec<(Duration, &str)> =
        overdue.filter_map(|it| Some((it.overdue(of.now)?, it.name.as_str()))).collect();
    let (most, name) = overdue.iter().max()?;
    let schedules = counted(overdue.len(), MOST_SCHEDULES, "schedule");
    let are = if overdue.len() == 1 { "is" } else { "are" };
    Some(format!("{schedules} {are} overdue, {name} for {}", length(*most)))
}

fn of_schedules(of: &Check) -> Vec<Finding> {
    let schedule = |kind, it: &ScheduleView, problem: String, action: String| {
        Finding::new(kind, ("schedule", &it.name), problem, action)
    };
    let in_error = of.in_error.iter().map(|it| {
        let action = "mend its row, or give it another trigger".to_owned();
        schedule(FindingKind::ScheduleError, it, format!("in error: {}", it.reason), action)
    });
    let contained = of.paused.iter().filter(|it| Standing::Contained.is_of(it, of.now)).map(|it| {
        let action = "mend its job, then `firetime schedules resume`".to_owned();
        schedule(FindingKind::ScheduleContained, it, format!("it has paused itself: {}", it.reason), action)
    });
    let unmet = of.unmet.iter().filter_map(|it| {
        let problem = format!("its occurrence of {} has not succeeded in time", second(it.unmet?));
        let action = format!("`firetime why {}` or its last executions say what became of it", it.name);
        Some(schedule(FindingKind::ScheduleUnmet, it, problem, action))
    });
    let left_alone = of.left_alone.iter().map(|it| {
        let action = format!("`firetime schedules set {} --payload`, or start a node that takes it", it.name);
        schedule(FindingKind::ScheduleLeftAlone, it, it.left_alone.clone(), action)
    });
    let (paused, _) = of.paused();
    let paused = paused.into_iter().map(|it| {
        let problem = because("paused", &it.paused_by, &it.reason) + &since(it.paused);
        schedule(FindingKind::SchedulePaused, it, problem, "`firetime schedules resume`".to_owned()).note()
    });
    in_error.chain(contained).chain(unmet).chain(left_alone).chain(paused).collect()
}

/// The schedules, and jobs without one, whose executions failed for good lately, the most failures first.
fn failing(of: &Check) -> Vec<Finding> {
    let mut failing: BTreeMap<&str, Vec<&ExecutionView>> = BTreeMap::new();
    for failure in &of.failures.executions {
        failing.entry(&failure.schedule).or_default().push(failure);
    }
    let mut failing: Vec<_> = failing.into_iter().collect();
    failing.sort_by_key(|(_, failures)| std::cmp::Reverse(failures.len()));
    let finding = |(name, failures): (&str, Vec<&ExecutionView>)| {
        let last = failures.first()?;
        let times = match failures.len() {
            1 => "failed once".to_owned(),
            many => format!("failed {many} times"),
        };
        let line = last.error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(&last.reason);
        let error = if line.is_empty() { String::new() } else { format!(": {line}") };
        let problem = format!("{times} in the last hour{error}");
        let action = format!("`firetime executions show {}` tells more", last.id);
        Some(Finding::new(FindingKind::Failing, ("schedule", name), problem, action).note())
    };
    failing.into_iter().filter_map(finding).collect()
}

fn deaths(of: &Check) -> Vec<Finding> {
    let died = |node: &&NodeView| {
        node.end_reason == "dead" && node.ended.is_some_and(|ended| of.now - ended < DEATHS)
    };
    let finding = |node: &NodeView| {
        let heard = node.last_beat.map_or_else(
            || "never heard from".to_owned(),
            |beat| format!("last heard from at {}", second(beat)),
        );
        let declared = node.ended.map_or_else(String::new, |at| format!(", declared dead at {}", second(at)));
        let action = "other nodes have taken over its work: look into its log";
        Finding::new(FindingKind::NodeDied, ("node", &node.id), heard + &declared, action).note()
    };
    of.nodes.iter().filter(died).map(finding).collect()
}

fn outage(of: &Check, outage: &Outage) -> Finding {
    let problem = match outage.until {
        Some(until) => format!("no node lived between {} and {}", second(outage.since), second(until)),
        None => format!("no node lives since {}", second(outage.since)),
    };
    let action = "what was due then was missed, or began late: `firetime verify` accounts for it";
    Finding::new(FindingKind::Outage, ("application", name_of(of)), problem, action).note()
}

/// The lists that are looked at only in part: what they lack may need people too.
fn unseen(of: &Check) -> Vec<Finding> {
    let unseen = |problem: &str, action: &str| {
        let about = ("application", name_of(of));
        Finding::new(FindingKind::Unseen, about, problem.to_owned(), action).note()
    };
    let long = |list: &[ScheduleView]| list.len() >= MOST_SCHEDULES;
    let lists = [
        (
            of.is_late_cut,
            "1,000 or more executions wait for too long",
            "`firetime executions --state pending`",
        ),
        (
            of.failures.is_cut,
            "1,000 or more executions failed in the last two days",
            "`firetime executions --state failed`",
        ),
        (long(&of.in_error), "100 or more schedules are in error", "`firetime schedules --state error`"),
        (long(&of.paused), "100 or more schedules are paused", "`firetime schedules --state paused`"),
        (
            long(&of.unmet),
            "100 or more schedules have not succeeded in time",
            "`firetime schedules --state unmet`",
        ),
        (
            long(&of.left_alone),
            "nodes leave 100 or more schedules alone",
            "`firetime schedules --state left-alone`",
        ),
        (long(&of.overdue), "100 or more schedules are overdue", "`firetime schedules --state overdue`"),
    ];
    let cut = lists.iter().filter(|(is_cut, ..)| *is_cut);
    cut.map(|(_, problem, action)| unseen(&format!("{problem}: only the first are looked at"), action))
        .collect()
}

fn name_of(of: &Check) -> &str {
    of.application.as_ref().map_or("", |application| &application.name)
}
