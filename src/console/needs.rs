//! What needs people, before anything else is shown.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::failures::{Failures, MOST_READ, RECENT};
use super::frame::Frame;
use super::order::{Button, Order};
use super::query::{Query, address, schedule as page_of};
use super::trouble::Trouble;
use super::words::{Glyph, Mark, Moment, because, counted, first_line, number, span};
use crate::{ApplicationView, Client, ExecutionView, JobView, NodeView, ScheduleView, Target};

/// So long a node may be silent whose row does not say how long: written by hand.
const SILENT: TimeDelta = TimeDelta::seconds(30);
/// What the misfire handler needs to notice a schedule that is overdue, and to move it on.
const REPAIRED: TimeDelta = TimeDelta::seconds(30);
/// So long an execution may wait for a node.
const LATE: TimeDelta = TimeDelta::seconds(60);
/// So many late executions [`Client::late`] tells.
const MOST_LATE: usize = 1_000;
/// So many needs of one kind are told one by one.
const MOST_OF_A_KIND: usize = 10;

/// A cluster as it is.
pub(super) struct Seen {
    /// By the database's clock.
    pub(super) now: DateTime<Utc>,
    pub(super) application: Option<ApplicationView>,
    pub(super) nodes: Vec<NodeView>,
    pub(super) jobs: Vec<JobView>,
    pub(super) schedules: Vec<ScheduleView>,
    /// The executions that wait for too long, and not for their schedule.
    late: Vec<ExecutionView>,
    /// Whether there may be more of them.
    is_late_cut: bool,
    /// The executions that failed for good lately.
    failures: Failures,
}

/// Something that needs people: the thing, what is the matter with it, and what they may do.
pub(super) struct Need {
    pub(super) glyph: Glyph,
    pub(super) subject: String,
    pub(super) matter: String,
    pub(super) note: String,
    /// A page that shows more of it, and the words that lead there.
    pub(super) link: Option<(String, &'static str)>,
    pub(super) button: Option<Button>,
}

impl Need {
    fn new(mark: Mark, subject: impl Into<String>, matter: impl Into<String>) -> Self {
        let (subject, matter, note) = (subject.into(), matter.into(), String::new());
        Self { glyph: Glyph(mark), subject, matter, note, link: None, button: None }
    }

    fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn link(self, to: String, words: &'static str) -> Self {
        Self { link: Some((to, words)), ..self }
    }

    fn button(self, button: Option<Button>) -> Self {
        Self { button, ..self }
    }
}

impl Seen {
    pub(super) fn now(client: &Client) -> Result<Self, Trouble> {
        let now = client.now()?;
        let application = client.applications()?.into_iter().find(|it| it.name == client.application());
        let schedules = client.schedules()?;
        let paused = schedules.iter().filter(|it| it.state == "paused");
        let paused: BTreeSet<&str> = paused.map(|it| it.name.as_str()).collect();
        let mut late = client.late(now - LATE)?;
        let is_late_cut = late.len() >= MOST_LATE;
        late.retain(|execution| execution.reason != "queued" && !paused.contains(&*execution.schedule));
        let failures = Failures::of(client, None, now)?;
        let (nodes, jobs) = (client.nodes()?, client.jobs()?);
        Ok(Self { now, application, nodes, jobs, schedules, late, is_late_cut, failures })
    }

    /// Whether the database has anything of the application.
    pub(super) fn is_known(&self) -> bool {
        self.application.is_some()
    }

    /// The nodes that nobody has found to have ended.
    pub(super) fn live(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().filter(|node| node.ended.is_none())
    }

    /// How many executions wait for too long, and the longest.
    pub(super) fn late(&self) -> (usize, Option<TimeDelta>) {
        (self.late.len(), self.late.iter().filter_map(|it| Some(self.now - it.due?)).max())
    }

    /// How many executions failed for good lately, and whether there may be more.
    pub(super) fn failures(&self) -> (usize, bool) {
        self.failures.count()
    }

    fn is_silent(&self, node: &NodeView) -> bool {
        let may = node.silent_after.and_then(TimeDelta::try_milliseconds).unwrap_or(SILENT);
        node.last_beat.is_none_or(|beat| self.now - beat > may)
    }

    /// What needs people, the gravest first.
    pub(super) fn needs(&self, frame: &Frame) -> Vec<Need> {
        let kinds: [Vec<Need>; 9] = [
            self.of_application(frame).into_iter().collect(),
            self.live().flat_map(|node| self.of_node(node)).collect(),
            self.jobs.iter().filter_map(|job| self.of_job(job)).collect(),
            self.of_schedules(in_error),
            self.of_schedules(|it| contained(it, frame)),
            self.of_schedules(|it| self.unmet(it)),
            self.of_failures(),
            self.deaths(),
            self.unseen(),
        ];
        let some = |mut needs: Vec<Need>| {
            let rest = needs.len().saturating_sub(MOST_OF_A_KIND);
            needs.truncate(MOST_OF_A_KIND);
            if let Some(last) = needs.last_mut().filter(|_| rest > 0) {
                last.note = format!("{} and {rest} more like this", last.note).trim_start().to_owned();
            }
            needs
        };
        kinds.into_iter().flat_map(some).collect()
    }

    fn of_schedules(&self, need: impl Fn(&ScheduleView) -> Option<Need>) -> Vec<Need> {
        self.schedules.iter().filter_map(need).collect()
    }

    fn of_application(&self, frame: &Frame) -> Option<Need> {
        let application = self.application.as_ref()?;
        if application.state == "paused" {
            let matter = format!("is {}.", because("paused", &application.paused_by, &application.reason));
            let resume = Button::new(frame, "Resume it", &Order::Resume(Target::application()));
            let subject = format!("The application {}", application.name);
            return Some(Need::new(Mark::Waits, subject, matter).note("Nothing is claimed.").button(resume));
        }
        let is_claimed = self.live().any(|node| node.state == "active" && !self.is_silent(node));
        let has_work = !self.schedules.is_empty() || !self.late.is_empty();
        (!is_claimed && has_work).then(|| {
            Need::new(Mark::Failed, "No live node", "claims anything.")
                .note("Start one, or resume one that is paused.")
                .link("nodes".to_owned(), "Show the nodes")
        })
    }

    fn of_node(&self, node: &NodeView) -> Vec<Need> {
        let subject = || format!("Node {}", name_of(node));
        let link = || ("nodes".to_owned(), "Show the nodes");
        let silent = self.is_silent(node).then(|| {
            let since =
                node.last_beat.map_or_else(String::new, |beat| format!(" for {}", span(self.now - beat)));
            Need::new(Mark::Late, subject(), format!("has not been heard of{since}."))
                .note("Look at its process; another live node declares it dead and takes over its work.")
        });
        let stuck = (node.stuck > 0).then(|| {
            let handlers = counted(node.stuck, "handler");
            Need::new(Mark::Late, subject(), format!("has {handlers} beyond the time limit."))
                .note("Mend the jobs, and restart the node.")
        });
        silent.into_iter().chain(stuck).map(|need| Need { link: Some(link()), ..need }).collect()
    }

    /// What keeps a job's schedules and executions from running: one need for all of them.
    fn of_job(&self, job: &JobView) -> Option<Need> {
        let is_paused =
            job.state == "paused" || self.application.as_ref().is_some_and(|it| it.state == "paused");
        if is_paused {
            return None;
        }
        let of_it = |it: &&ScheduleView| it.job == job.name && it.state == "active";
        let schedules: Vec<&ScheduleView> = self.schedules.iter().filter(of_it).collect();
        let late = self.late.iter().filter(|execution| execution.job == job.name);
        let late: Vec<TimeDelta> = late.filter_map(|execution| Some(self.now - execution.due?)).collect();
        let wait = late.iter().max().map(|most| {
            let count = counted(late.len(), "execution");
            format!("{count} waiting, the oldest for {}", span(*most))
        });
        if job.nodes == 0 && (!schedules.is_empty() || wait.is_some()) {
            let since =
                job.nobody_since.map_or_else(String::new, |at| format!(" for {}", span(self.now - at)));
            let matter = format!("has had no handler on any live node{since}.");
            let held = counted(schedules.len(), "active schedule");
            let note = wait.map_or_else(|| held.clone(), |wait| format!("{held} · {wait}"));
            let show = address("schedules", "job", &job.name);
            return Some(
                Need::new(Mark::Failed, format!("Job {}", job.name), matter)
                    .note(note)
                    .link(show, "Show them"),
            );
        }
        let overdue: Vec<&ScheduleView> = schedules.into_iter().filter(|it| self.is_overdue(it)).collect();
        let held = (!overdue.is_empty()).then(|| {
            let count = counted(overdue.len(), "schedule");
            format!("{count} overdue")
        });
        let notes: Vec<String> = held.into_iter().chain(wait).collect();
        (!notes.is_empty()).then(|| {
            let matter = "is behind: look whether the nodes' threads are full, and into their logs.";
            let show = Query::default().with("job", &job.name).with("state", "PENDING").with("oldest", "1");
            Need::new(Mark::Late, format!("Job {}", job.name), matter)
                .note(notes.join(" · "))
                .link(show.of("executions"), "Show them")
        })
    }

    /// Whether a schedule should have been moved on.
    fn is_overdue(&self, schedule: &ScheduleView) -> bool {
        let may = TimeDelta::milliseconds(schedule.misfire_threshold.clamp(0, i64::MAX / 2)) + REPAIRED;
        schedule.next.is_some_and(|next| self.now - next > may)
    }

    /// What was expected of a schedule and has not come.
    fn unmet(&self, schedule: &ScheduleView) -> Option<Need> {
        let at = Moment::exactly(schedule.unmet?).said;
        let matter = format!("was to have succeeded for {at}, and has not since.");
        let link = page_of(&schedule.name);
        Some(Need::new(Mark::Late, schedule.name.clone(), matter).link(link, "Show it"))
    }

    /// The schedules, and jobs without one, whose executions failed for good lately.
    fn of_failures(&self) -> Vec<Need> {
        let mut failing: BTreeMap<&str, Vec<&ExecutionView>> = BTreeMap::new();
        for failure in &self.failures.last {
            failing.entry(&failure.schedule).or_default().push(failure);
        }
        let mut failing: Vec<_> = failing.into_iter().collect();
        failing.sort_by_key(|(_, failures)| std::cmp::Reverse(failures.len()));
        let need = |(schedule, failures): (&str, Vec<&ExecutionView>)| {
            let last = failures.first()?;
            let error = match first_line(&last.error) {
                error if error.is_empty() => last.reason.clone(),
                error => error,
            };
            let failed = match failures.len() {
                1 => "failed once in the last hour.".to_owned(),
                many => format!("failed {} times in the last hour.", number(many)),
            };
            let show = Failures::address(Some(schedule));
            Some(Need::new(Mark::Failed, schedule, failed).note(error).link(show, "Show them"))
        };
        failing.into_iter().filter_map(need).collect()
    }

    /// The lists that are read only in part: what they lack may need people too.
    fn unseen(&self) -> Vec<Need> {
        let late = self.is_late_cut.then(|| {
            let more = format!("More than {} executions", number(MOST_LATE));
            let show = Query::default().with("state", "PENDING").with("oldest", "1").of("executions");
            Need::new(Mark::Late, more, "wait for too long.")
                .note("Only the oldest are looked at here: further jobs may be behind.")
                .link(show, "Show them")
        });
        let failures = &self.failures;
        let more = match (failures.is_cut, failures.unknown) {
            (true, _) => Some(format!("More than {} attempts", number(MOST_READ))),
            (false, 0) => None,
            (false, unknown) => Some(counted(unknown, "more execution")),
        };
        let failed = more.map(|more| {
            let (matter, note) = match failures.is_cut {
                true => ("failed in the last two days.", "Only those that were due last are looked at here."),
                false => ("failed in the last hour.", "Later attempts may have followed them."),
            };
            let show = ["FAILED", "TIMED_OUT", "ABANDONED"];
            let show = show.map(|state| format!("state={state}")).join("&");
            Need::new(Mark::Failed, more, matter).note(note).link(format!("executions?{show}"), "Show all")
        });
        late.into_iter().chain(failed).collect()
    }

    fn deaths(&self) -> Vec<Need> {
        let died = |node: &&NodeView| {
            node.end_reason == "dead" && node.ended.is_some_and(|ended| self.now - ended < RECENT)
        };
        let need = |node: &NodeView| {
            let at =
                Moment::some(node.ended, self.now).map_or_else(String::new, |at| format!(" {}", at.said));
            Need::new(Mark::Late, format!("Node {}", name_of(node)), format!("died{at}."))
                .note("Other nodes have taken over its work.")
                .link(address("executions", "node", &node.id), "What it ran")
        };
        self.nodes.iter().filter(died).map(need).collect()
    }
}

/// A node as people know it: its host, and its process; as the audit names who has said no other name.
pub(super) fn name_of(node: &NodeView) -> String {
    format!("{}/{}", node.host_name, node.pid)
}

fn in_error(schedule: &ScheduleView) -> Option<Need> {
    let need = || {
        Need::new(Mark::Failed, schedule.name.clone(), "is in error and does not fire.")
            .note(first_line(&schedule.reason))
            .link(page_of(&schedule.name), "Show it")
    };
    (schedule.state == "error").then(need)
}

fn contained(schedule: &ScheduleView, frame: &Frame) -> Option<Need> {
    let need = || {
        let resume = Button::new(frame, "Resume it", &Order::Resume(Target::schedule(&schedule.name)));
        Need::new(Mark::Failed, schedule.name.clone(), "has paused itself.")
            .note(format!("{}; mend its job, then resume it", first_line(&schedule.reason)))
            .link(page_of(&schedule.name), "Show it")
            .button(resume)
    };
    (schedule.state == "paused" && schedule.paused_by == "firetime").then(need)
}
