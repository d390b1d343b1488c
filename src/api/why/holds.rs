//! What keeps something that is due from being claimed, as far as the rows of now show it.

use chrono::{DateTime, Utc};

use super::because::{Because, FullBound, FullNode, IdleNode, SilentNode, Who};
use super::facts::{FIRETIME, Facts};
use crate::api::words::{between, by, counted, instant, known, listed, node as named_node};
use crate::api::{ExecutionView, JobView, NodeView};
use crate::domain::{Activity, ExecutionId, LaneHealth, ScheduleState};

/// So many executions are named in a sentence.
const NAMED: usize = 5;

/// Something that holds an execution or a schedule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub because: Because,
    /// The rest of a sentence that begins with "it waits: ".
    pub said: String,
    /// When it ends by itself, if it is known to.
    pub until: Option<DateTime<Utc>>,
}

impl Hold {
    fn new(because: Because, said: String) -> Self {
        Self { because, said, until: None }
    }

    pub(super) fn is_pause(&self) -> bool {
        matches!(self.because, Because::Paused { .. } | Because::Contained { .. })
    }
}

/// A pause of something, in the columns that all its rows have.
fn paused(
    (what, name): (&str, &str),
    (actor, why): (&str, &str),
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
) -> Hold {
    let from = since.map_or_else(String::new, |since| format!(" since {}", instant(since)));
    let ends = until
        .map_or_else(|| ", until somebody resumes it".to_owned(), |at| format!(", until {}", instant(at)));
    let said = format!("{what} {name:?} is paused by {}{from}{ends}", by(actor, why));
    let (target_type, target) = (what.to_owned(), name.to_owned());
    let because = match actor == FIRETIME && what == "schedule" {
        true => Because::Contained { schedule: target, streak: why.to_owned(), since, until },
        false => Because::Paused { target_type, target, by: Who::named(actor, why, since), until },
    };
    Hold { until, ..Hold::new(because, said) }
}

/// The pauses that hold it, the widest first. A schedule's own holds what it plans, and nothing that was
/// asked for by hand.
pub(super) fn pauses(facts: &Facts, is_planned: bool) -> Vec<Hold> {
    let application =
        facts.application.iter().filter(|it| it.state == Activity::Paused).map(|it| {
            paused(("application", &it.name), (&it.paused_by, &it.reason), it.paused, it.paused_until)
        });
    let job = facts
        .job
        .iter()
        .filter(|it| it.state == Activity::Paused)
        .map(|it| paused(("job", &it.name), (&it.paused_by, &it.reason), it.paused, it.paused_until));
    let plan = facts.plan.as_ref().filter(|_| is_planned);
    let schedule =
        plan.iter().map(|plan| &plan.view).filter(|it| it.state == ScheduleState::Paused).map(|it| {
            paused(("schedule", &it.name), (&it.paused_by, &it.reason), it.paused, it.paused_until)
        });
    application.chain(job).chain(schedule).collect()
}

/// All that holds it now: pauses, nodes, and for an execution what runs before it.
pub(super) fn holds(facts: &Facts, waiting: Option<&ExecutionView>) -> Vec<Hold> {
    let mut holds = pauses(facts, waiting.is_none_or(|it| it.origin == 0));
    holds.extend(of_nodes(facts, waiting));
    if let Some(waiting) = waiting {
        holds.extend(of_holder(facts, waiting));
    }
    if let Some(job) = &facts.job {
        holds.extend(of_bounds(facts, job, waiting));
        holds.extend(of_lanes(facts, job, waiting));
    }
    holds
}

/// Who lists the job, and whether they can run it.
fn of_nodes(facts: &Facts, waiting: Option<&ExecutionView>) -> Option<Hold> {
    let job = facts.job.as_ref().map(|job| &job.name)?;
    if let Some(hold) = no_node(facts, job) {
        return Some(hold);
    }
    let undecodable =
        |error: String, nodes| Hold::new(Because::Undecodable { error: error.clone(), nodes }, error);
    if let Some(plan) = facts.plan.as_ref().filter(|plan| !plan.view.left_alone.is_empty()) {
        return Some(undecodable(plan.view.left_alone.clone(), plan.left_by.clone()));
    }
    let handed_on = waiting.filter(|it| it.reason == "undecodable")?;
    let said = format!("a node could not decode its payload and left it to others: {}", handed_on.error);
    Some(undecodable(said.trim_end_matches(": ").to_owned(), Vec::new()))
}

/// No live node has a handler and claims, or none that has been heard of.
fn no_node(facts: &Facts, job: &str) -> Option<Hold> {
    let lists = |node: &&NodeView| node.jobs.iter().any(|it| it == job);
    let hold = |idle, silent, said| {
        let since = facts.job.as_ref().and_then(|job| job.nobody_since);
        Some(Hold::new(Because::NoNode { job: job.to_owned(), since, idle, silent }, said))
    };
    let (active, off): (Vec<&NodeView>, Vec<&NodeView>) =
        facts.live_nodes().filter(lists).partition(|node| node.state == Activity::Active);
    if active.is_empty() && off.is_empty() {
        let last = facts.nodes.iter().filter(lists).filter_map(|node| node.ended).max();
        let last = match last {
            Some(at) => format!("; the last one that had ended at {}", instant(at)),
            None if facts.nodes.is_empty() => "; no node is known, and it waits for one".to_owned(),
            None => String::new(),
        };
        let since = nobody_since(facts);
        return hold(
            Vec::new(),
            Vec::new(),
            format!("no live node has a handler for job {job:?}{since}{last}"),
        );
    }
    let states: Vec<String> = off.iter().map(|node| format!("node {} is {}", node.id, node.state)).collect();
    let idle = off.into_iter().map(idle).collect();
    if active.is_empty() {
        let since = nobody_since(facts);
        let said = format!("no node that has a handler for it claims{since}: {}", listed(&states));
        return hold(idle, Vec::new(), said);
    }
    if !active.iter().all(|node| facts.is_silent(node)) {
        return None;
    }
    let since = known(active.iter().filter_map(|node| node.last_beat).max());
    let nodes: Vec<String> = active.iter().map(|node| named_node(Some(&node.id), &facts.nodes)).collect();
    let off = if states.is_empty() { String::new() } else { format!("; {}", listed(&states)) };
    let said = format!(
        "no node that has a handler for job {job:?} has been heard of since {since}, and it waits for one: \
         {}{off}",
        listed(&nodes)
    );
    hold(idle, active.into_iter().map(silent).collect(), said)
}

fn silent(node: &NodeView) -> SilentNode {
    SilentNode { node: node.id.clone(), host_name: node.host_name.clone(), heard: node.last_beat }
}

fn idle(node: &NodeView) -> IdleNode {
    let by = Who::named(&node.paused_by, &node.reason, node.paused);
    IdleNode { node: node.id.clone(), state: node.state, by }
}

/// Since when nobody can run the job, if that was noted.
fn nobody_since(facts: &Facts) -> String {
    let since = facts.job.as_ref().and_then(|job| job.nobody_since);
    since.map_or_else(String::new, |since| format!(", since {}", instant(since)))
}

/// The execution of its schedule that it must not overlap.
fn of_holder(facts: &Facts, waiting: &ExecutionView) -> Option<Hold> {
    let holder = waiting.holder?;
    let said = match &facts.holder {
        Some(it) if it.finished.is_none() => {
            format!("execution {holder} of {} has not ended", known(it.fire_time))
        }
        Some(it) => {
            format!("execution {holder} ended at {}, and it is about to be claimed", known(it.finished))
        }
        None => format!("it must not overlap execution {holder}"),
    };
    let ended = facts.holder.as_ref().and_then(|it| it.finished);
    Some(Hold::new(Because::Overlap { holder: Some(holder), ended }, said))
}

/// The seats of its job, or of its group, are taken.
fn of_bounds(facts: &Facts, job: &JobView, waiting: Option<&ExecutionView>) -> Option<Hold> {
    let group = waiting.and_then(|it| it.group.as_deref());
    let ids = |is_its: &dyn Fn(&ExecutionView) -> bool| -> Vec<ExecutionId> {
        facts.under_way.iter().filter(|it| is_its(it)).map(|it| it.id).collect()
    };
    let is_full =
        |seats: u32, taken: &[ExecutionId]| taken.len() >= usize::try_from(seats).unwrap_or(usize::MAX);
    let full = |whose: String, seats: u32, taken: &[ExecutionId], bound: FullBound| {
        let said = match seats {
            1 => format!("the only seat of {whose} is taken by {}", named(taken)),
            _ => {
                format!("all {} of {whose} are taken by {}", counted(i64::from(seats), "seat"), named(taken))
            }
        };
        Hold::new(Because::Full { bound, rate: job.rate }, said)
    };
    let of_job = || {
        let (seats, taken_by) = (job.concurrency?, ids(&|_| true));
        let bound = FullBound::Job { job: job.name.clone(), seats, taken_by: taken_by.clone() };
        is_full(seats, &taken_by).then(|| full(format!("job {:?}", job.name), seats, &taken_by, bound))
    };
    let of_group = || {
        let (group, seats) = (group?, job.group_concurrency?);
        let taken_by = ids(&|it| it.group.as_deref() == Some(group));
        let bound = FullBound::Group { group: group.to_owned(), seats, taken_by: taken_by.clone() };
        is_full(seats, &taken_by).then(|| full(format!("group {group:?}"), seats, &taken_by, bound))
    };
    of_job().or_else(of_group)
}

/// Executions by their ids, a few of them.
fn named(taken: &[ExecutionId]) -> String {
    let mut ids: Vec<String> = taken.iter().take(NAMED).map(ToString::to_string).collect();
    if taken.len() > NAMED {
        ids.push(format!("{} more", taken.len() - NAMED));
    }
    listed(&ids)
}

/// No thread or task is free where it may run, as its nodes last told.
fn of_lanes(facts: &Facts, job: &JobView, waiting: Option<&ExecutionView>) -> Option<Hold> {
    let claiming =
        facts.live_nodes().filter(|node| node.state == Activity::Active && node.jobs.contains(&job.name));
    let nodes: Vec<&NodeView> = claiming.collect();
    // Which lane is the job's no row says: so only all of them count, unless it was enqueued in one.
    let lane = waiting.and_then(|it| it.lane.as_deref());
    let lanes = |node: &NodeView| -> Vec<LaneHealth> {
        let its = node.lanes.iter().filter(|it| lane.is_none_or(|lane| it.name == lane));
        let its: Vec<LaneHealth> = its.cloned().collect();
        if its.is_empty() { node.lanes.clone() } else { its }
    };
    let is_taken = |lane: &LaneHealth| {
        let is_none = lane.threads + lane.concurrency == 0;
        lane.is_blocked || (!is_none && lane.busy >= lane.threads && lane.tasks >= lane.concurrency)
    };
    let is_full = |node: &&NodeView| !node.lanes.is_empty() && lanes(node).iter().all(is_taken);
    if nodes.is_empty() || !nodes.iter().all(is_full) {
        return None;
    }
    let nodes: Vec<FullNode> = nodes.into_iter().map(|node| full_node(node, &lanes(node))).collect();
    let said: Vec<String> = nodes.iter().map(|node| how_full(node, facts.now)).collect();
    let which = lane.map_or_else(
        || "lanes of all its nodes are full".to_owned(),
        |lane| format!("lane {lane:?} is full on all its nodes"),
    );
    let said = format!("{which}: {}", said.join("; "));
    let bound = FullBound::Lanes { lane: lane.map(str::to_owned), nodes };
    Some(Hold::new(Because::Full { bound, rate: job.rate }, said))
}

fn full_node(node: &NodeView, lanes: &[LaneHealth]) -> FullNode {
    let sum = |of: fn(&LaneHealth) -> usize| lanes.iter().map(of).sum();
    FullNode {
        node: node.id.clone(),
        seats: sum(|lane| lane.threads + lane.concurrency),
        busy: sum(|lane| lane.busy + lane.tasks),
        queued: sum(|lane| lane.queued),
        told: node.last_beat,
    }
}

fn how_full(node: &FullNode, now: DateTime<Utc>) -> String {
    let told = between(node.told, Some(now)).map(|ago| format!(", {ago} ago")).unwrap_or_default();
    let FullNode { node, seats, busy, queued, .. } = node;
    format!("node {node} runs {busy} of {seats} and has {queued} queued{told}")
}
