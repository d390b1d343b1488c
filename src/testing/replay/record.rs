//! What a replay knows of the past.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use chrono::{DateTime, Utc};

use crate::api::{Client, ExecutionFilter, ExecutionView};
use crate::domain::{
    Cause, Error, ErrorKind, ExecutionState, JobSpec, Millis, MisfirePolicy, ScheduleState, Timestamp,
};
use crate::store::{Definition, ScheduleRow};

/// The most executions that are read.
const MOST: usize = 200_000;
/// So many are read by a statement.
const PAGE: usize = 5_000;

/// How an attempt went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Went {
    pub(super) millis: Millis,
    pub(super) has_failed: bool,
}

/// What was asked for beside what was planned.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) due: Timestamp,
    pub(super) origin: i64,
    pub(super) job: String,
    pub(super) group: Option<String>,
    /// It was triggered, not enqueued.
    pub(super) of_schedule: Option<String>,
}

/// An attempt: its schedule, its fire time, its origin (0 if it was planned), and its number.
type Attempt = (String, Timestamp, i64, u32);

/// The past of an application.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) application: String,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    pub(super) jobs: Vec<JobSpec>,
    /// Those that are active, or have ended by themselves.
    pub(super) schedules: Vec<Definition>,
    pub(super) executions: Vec<ExecutionView>,
    pub(super) asked: Vec<Asked>,
    pub(super) nodes: usize,
    pub(super) seats: usize,
    went: BTreeMap<Attempt, Went>,
    medians: BTreeMap<String, Millis>,
}

impl Record {
    pub(super) fn read(client: &Client, span: Range<DateTime<Utc>>) -> Result<Self, Error> {
        if span.is_empty() {
            return Err(Error::new(ErrorKind::Config, "a replay: its span is empty"));
        }
        let (store, application) = (client.store(), client.application().to_owned());
        let jobs = store
            .jobs(&application)?
            .into_iter()
            .map(|row| JobSpec { name: row.name, settings: row.settings });
        let rows = store.schedules(Some(&application))?;
        let schedules = rows.iter().filter_map(|row| definition(&application, row)).collect();
        let executions = listed(client, Some(&span))?;
        let alive: Vec<_> = client.nodes()?.into_iter().filter(|node| node.ended.is_none()).collect();
        let ran: BTreeSet<_> = executions.iter().filter_map(|it| it.node.as_ref()).collect();
        let nodes = if alive.is_empty() { ran.len() } else { alive.len() };
        let seats = alive.iter().map(|node| node.threads).max().filter(|seats| *seats > 0).unwrap_or(8);
        let (went, medians) = (went(&executions), medians(&executions));
        Ok(Self {
            asked: asked(&executions),
            from: span.start.into(),
            until: span.end.into(),
            nodes: nodes.clamp(1, 100),
            seats: seats.clamp(1, 200),
            application,
            jobs: jobs.collect(),
            schedules,
            executions,
            went,
            medians,
        })
    }

    pub(super) fn has_schedule(&self, name: &str) -> bool {
        self.schedules.iter().any(|it| it.name == name)
    }

    pub(super) fn has_job(&self, name: &str) -> bool {
        self.jobs.iter().any(|it| it.name == name)
    }

    /// How an attempt goes: as it went, or, if there was none, as others of its schedule.
    pub(super) fn goes(&self, schedule: &str, fire_time: Timestamp, origin: i64, attempt: u32) -> Went {
        let known = self.went.get(&(schedule.to_owned(), fire_time, origin, attempt)).copied();
        let median = || self.medians.get(schedule).copied().unwrap_or(1_000);
        known.unwrap_or_else(|| Went { millis: median(), has_failed: false })
    }
}

/// A schedule as it is now; none if it does not fire, and has not ended by itself, or means nothing.
fn definition(application: &str, row: &ScheduleRow) -> Option<Definition> {
    let is_played = [ScheduleState::Active, ScheduleState::Complete].map(ScheduleState::stored);
    if !is_played.contains(&row.state.as_str()) {
        return None;
    }
    let (timing, settings) = (row.when.timing().ok()?, &row.settings);
    // A policy of a later release: nobody here knows what it does.
    settings.misfire.parse::<MisfirePolicy>().ok()?;
    Some(Definition {
        application: application.to_owned(),
        start: timing.start(),
        end: timing.end(),
        expected_by: None,
        ..Definition::stored(&row.name, &row.job, settings, timing.trigger().clone())
    })
}

/// The executions whose fire times are in a span, or all.
pub(super) fn listed(
    client: &Client,
    span: Option<&Range<DateTime<Utc>>>,
) -> Result<Vec<ExecutionView>, Error> {
    let mut all: Vec<ExecutionView> = Vec::new();
    loop {
        let filter = ExecutionFilter {
            since: span.map(|it| it.start),
            until: span.map(|it| it.end),
            after: all.last().map(ExecutionView::place),
            oldest_first: true,
            limit: PAGE,
            ..ExecutionFilter::default()
        };
        let page = client.executions(&filter)?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if span.is_some() && all.len() > MOST {
            let why =
                format!("a replay: there are more than {MOST} executions in its span: take a shorter one");
            return Err(Error::new(ErrorKind::Config, why));
        }
        if is_last {
            return Ok(all);
        }
    }
}

/// How long an attempt took, milliseconds, if it has ended.
fn took(it: &ExecutionView) -> Option<Millis> {
    let (started, finished) = (it.started?, it.finished?);
    Some((finished - started).num_milliseconds().max(0))
}

fn went(executions: &[ExecutionView]) -> BTreeMap<Attempt, Went> {
    let of = |it: &ExecutionView| {
        let took = took(it)?;
        let (millis, has_failed) = match it.state.known() {
            Some(ExecutionState::Succeeded) => (took, false),
            Some(ExecutionState::Failed) => (took, true),
            Some(ExecutionState::TimedOut) => (2 * took, false),
            // What a death or a cancel cut short would have ended well.
            _ => return None,
        };
        Some((key(it), Went { millis, has_failed }))
    };
    executions.iter().filter_map(of).collect()
}

fn key(it: &ExecutionView) -> Attempt {
    (it.schedule.clone(), it.stored_fire_time, it.origin, it.attempt)
}

fn medians(executions: &[ExecutionView]) -> BTreeMap<String, Millis> {
    let mut spans: BTreeMap<String, Vec<Millis>> = BTreeMap::new();
    for it in executions.iter().filter(|it| it.state == ExecutionState::Succeeded) {
        spans.entry(it.schedule.clone()).or_default().extend(took(it));
    }
    let median = |mut spans: Vec<Millis>| {
        spans.sort_unstable();
        spans.get(spans.len() / 2).copied()
    };
    spans.into_iter().filter_map(|(name, spans)| Some((name, median(spans)?))).collect()
}

/// First attempts that nobody planned, by their due times.
fn asked(executions: &[ExecutionView]) -> Vec<Asked> {
    let of = |it: &ExecutionView| {
        let of_schedule = match it.cause {
            Cause::Enqueued => None,
            Cause::ByHand { .. } => Some(it.schedule.clone()),
            _ => return None,
        };
        let due = it.stored_fire_time;
        let (job, group) = (it.job.clone(), it.group.clone());
        (it.attempt == 1).then_some(Asked { due, origin: it.origin, job, group, of_schedule })
    };
    let mut asked: Vec<_> = executions.iter().filter_map(of).collect();
    asked.sort_by_key(|it| (it.due, it.origin));
    asked
}
