//! The tables as a database holds them: loose values, indexes, and a way to take changes back.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, Kind};
use crate::model::{
    Cursor, Entry, ExecutionId, ExecutionState, JobPolicy, JobSpec, Millis, NodeId, ScheduleId,
    ScheduleState, Token,
};
use crate::schedule::Timing;
use crate::store::guard::Column;
use crate::store::when::{self, NONE, When};
use crate::store::{Figures, Result};

/// A text column. Words of our own are never copied.
pub(super) type Text = Cow<'static, str>;

/// A column's value as a guard compares it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Number(i64),
    Text(&'a str),
    Uuid(Uuid),
}

impl Value<'_> {
    /// A time column: -1 says none.
    pub(super) fn time(time: Option<Millis>) -> Self {
        Value::Number(time.unwrap_or(NONE))
    }
}

/// Whether a row is as a decision saw it in every column of the guard. As in SQL, NULL equals nothing.
pub(super) fn matches<'row, 'seen>(
    guard: &[Column],
    row: impl Fn(Column) -> Value<'row>,
    seen: impl Fn(Column) -> Value<'seen>,
) -> bool {
    guard.iter().all(|column| {
        let value = row(*column);
        value != Value::Null && value == seen(*column)
    })
}

/// QRTZ_APP.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub state: Text,
    pub time_pre: Millis,
    pub time_next: Millis,
}

impl Default for App {
    fn default() -> Self {
        Self { state: "Y".into(), time_pre: NONE, time_next: NONE }
    }
}

/// QRTZ_NODE.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub application: Arc<str>,
    pub host_ip: String,
    pub host_name: String,
    pub pid: u32,
    pub state: Text,
    pub beat: i64,
    pub jobs: Vec<String>,
    pub figures: Figures,
    pub started: Millis,
    pub last_beat: Millis,
    pub ended: Option<(Millis, &'static str)>,
}

impl Node {
    pub(super) fn value(&self, id: NodeId, column: Column) -> Value<'_> {
        match column {
            Column::Id => Value::Uuid(id.0),
            Column::Beat => Value::Number(self.beat),
            Column::State => Value::Text(&self.state),
            _ => Value::Null,
        }
    }
}

/// QRTZ_JOB.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub application: Arc<str>,
    pub name: Arc<str>,
    pub state: Text,
    pub policy: JobPolicy,
}

/// A row's trigger columns with what they mean, worked out when they are written.
#[derive(Debug)]
pub(super) struct Shape {
    pub columns: When,
    pub timing: std::result::Result<Timing, String>,
}

impl From<When> for Shape {
    fn from(columns: When) -> Self {
        Self { timing: columns.timing(), columns }
    }
}

/// QRTZ_EXECUTE. A time is NULL (`None`), -1 (none) or an instant; a text that is NULL is empty here.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub application: Arc<str>,
    pub name: Arc<str>,
    pub job: i64,
    pub payload: Arc<str>,
    pub state: Text,
    pub shape: Arc<Shape>,
    pub prev: Option<Millis>,
    pub next: Option<Millis>,
    pub triggered: i64,
    pub version: i64,
    pub generation: i64,
    pub fence: i64,
    pub priority: i32,
    pub misfire: Text,
    pub threshold: Millis,
    pub reason: Arc<str>,
    pub paused_by: Arc<str>,
}

impl Schedule {
    pub(super) fn value(&self, id: i64, column: Column) -> Value<'_> {
        let number = |value: Option<i64>| value.map_or(Value::Null, Value::Number);
        match column {
            Column::Id => Value::Number(id),
            Column::State => Value::Text(&self.state),
            Column::PrevFireTime => number(self.prev),
            Column::NextFireTime => number(self.next),
            Column::Version => Value::Number(self.version),
            Column::ClaimToken | Column::Beat => Value::Null,
        }
    }

    pub(super) fn is(&self, state: ScheduleState) -> bool {
        self.state == state.as_str()
    }

    /// The fire time the poll's index holds: only active rows have one.
    fn due(&self) -> Option<Millis> {
        self.next.filter(|next| *next != NONE && self.is(ScheduleState::Active))
    }

    pub(super) fn move_to(&mut self, cursor: Cursor) {
        self.prev = Some(cursor.prev.unwrap_or(NONE));
        self.next = Some(cursor.next.unwrap_or(NONE));
    }

    pub(super) fn put(&mut self, state: ScheduleState) {
        self.state = state.as_str().into();
    }

    /// The row as a value to decide on, or why it cannot be one.
    pub(super) fn understand(&self, id: i64, job: Option<&Job>) -> std::result::Result<Entry, String> {
        let state: ScheduleState = self.state.parse().map_err(|unknown| format!("state {unknown}"))?;
        let job = job.ok_or_else(|| format!("pid {} is no job's id", self.job))?;
        let timing = self.shape.timing.clone()?;
        let cursor = when::cursor(state, self.prev, self.next)?;
        let misfire = self.misfire.parse().map_err(|unknown| format!("misfire policy {unknown}"))?;
        Ok(Entry {
            id: ScheduleId(id),
            name: Arc::clone(&self.name),
            job: Arc::clone(&job.name),
            payload: Arc::clone(&self.payload),
            state,
            timing,
            cursor,
            version: self.version,
            generation: self.generation,
            priority: self.priority,
            misfire,
            threshold: self.threshold,
        })
    }
}

/// QRTZ_RUN.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub schedule: i64,
    pub application: Arc<str>,
    pub generation: i64,
    pub origin: i64,
    pub scheduled: Millis,
    /// For a skipped run of occurrences: the last of them, and how many.
    pub until: Option<Millis>,
    pub count: i64,
    pub attempt: u32,
    pub state: Text,
    pub reason: Text,
    pub due: Millis,
    pub token: Option<Token>,
    pub fence: i64,
    pub node: Option<NodeId>,
    pub claimed: Option<Millis>,
    pub started: Option<Millis>,
    pub finished: Option<Millis>,
    pub prev: Option<Millis>,
    pub following: Option<Millis>,
    pub error: String,
}

/// What may exist once only: schedule, generation, origin, occurrence, attempt.
type Key = (i64, i64, i64, Millis, u32);

impl Run {
    pub(super) fn value(&self, id: i64, column: Column) -> Value<'_> {
        match column {
            Column::Id => Value::Number(id),
            Column::State => Value::Text(&self.state),
            Column::ClaimToken => self.token.map_or(Value::Null, |token| Value::Uuid(token.0)),
            _ => Value::Null,
        }
    }

    pub(super) fn is(&self, state: ExecutionState) -> bool {
        self.state == state.as_str()
    }

    /// CLAIMED or RUNNING: some node answers for it.
    pub(super) fn is_owned(&self) -> bool {
        self.is(ExecutionState::Claimed) || self.is(ExecutionState::Running)
    }

    fn key(&self) -> Key {
        (self.schedule, self.generation, self.origin, self.scheduled, self.attempt)
    }

    /// The next attempt at the same occurrence, nobody's yet.
    pub(super) fn again(&self, reason: &'static str, due: Millis, token: Token) -> Self {
        Self {
            attempt: self.attempt + 1,
            state: ExecutionState::Pending.as_str().into(),
            reason: reason.into(),
            due,
            token: Some(token),
            fence: 0,
            node: None,
            claimed: None,
            started: None,
            finished: None,
            error: String::new(),
            ..self.clone()
        }
    }

    /// Back to nobody, under a token only the next claimant's poll will see.
    pub(super) fn release(&mut self, fresh: Token, reason: &'static str) {
        self.state = ExecutionState::Pending.as_str().into();
        self.reason = reason.into();
        self.token = Some(fresh);
        self.node = None;
        self.claimed = None;
        self.started = None;
    }
}

/// What one application's polls and repairs look things up by.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Active schedules by (next fire time, id).
    pub due: BTreeSet<(Millis, i64)>,
    /// PENDING executions by (due time, id).
    pub pending: BTreeSet<(Millis, i64)>,
    pub schedules: BTreeMap<Arc<str>, i64>,
    pub jobs: BTreeMap<Arc<str>, i64>,
}

/// A row as it was before a transaction changed it.
#[derive(Debug)]
enum Before {
    Schedule(i64, Option<Schedule>),
    Run(i64, Option<Run>),
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub apps: BTreeMap<Arc<str>, App>,
    pub nodes: BTreeMap<NodeId, Node>,
    pub jobs: BTreeMap<i64, Job>,
    schedules: BTreeMap<i64, Schedule>,
    runs: BTreeMap<i64, Run>,
    indexes: BTreeMap<Arc<str>, Index>,
    /// CLAIMED and RUNNING executions by node.
    owned: BTreeMap<Option<NodeId>, BTreeSet<i64>>,
    /// PENDING executions by schedule.
    waiting: BTreeSet<(i64, i64)>,
    unique: BTreeMap<Key, i64>,
    last_id: i64,
    undo: Vec<Before>,
    pub now: Millis,
    #[cfg(test)]
    pub hooks: super::hooks::Hooks,
}

impl Tables {
    /// Does all of `work` or, if it fails, nothing of it. Nested calls are savepoints; the outermost
    /// caller ends with [`Tables::commit`].
    pub(super) fn atomically<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let mark = self.undo.len();
        let result = work(self);
        if result.is_err() {
            while self.undo.len() > mark {
                match self.undo.pop() {
                    Some(Before::Schedule(id, row)) => drop(self.swap_schedule(id, row)),
                    Some(Before::Run(id, row)) => drop(self.swap_run(id, row)),
                    None => break,
                }
            }
        }
        result
    }

    pub(super) fn commit(&mut self) {
        self.undo.clear();
    }

    pub(super) fn fresh_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// The one copy of an application's name.
    pub(super) fn application(&mut self, name: &str) -> Arc<str> {
        if let Some((name, _)) = self.indexes.get_key_value(name) {
            return Arc::clone(name);
        }
        let name: Arc<str> = name.into();
        self.indexes.insert(Arc::clone(&name), Index::default());
        name
    }

    pub(super) fn index(&self, application: &str) -> Option<&Index> {
        self.indexes.get(application)
    }

    pub(super) fn indexes(&self, application: Option<&str>) -> impl Iterator<Item = &Index> {
        let wanted = move |name: &Arc<str>| application.is_none_or(|only| only == &**name);
        self.indexes.iter().filter(move |(name, _)| wanted(name)).map(|(_, index)| index)
    }

    /// Inserts the job or updates its policy; its id.
    pub(super) fn put_job(&mut self, application: &str, spec: &JobSpec) -> i64 {
        let application = self.application(application);
        let known = self.index(&application).and_then(|index| index.jobs.get(spec.name.as_str()).copied());
        let id = known.unwrap_or_else(|| self.fresh_id());
        if let Some(job) = self.jobs.get_mut(&id) {
            job.policy = spec.policy;
            return id;
        }
        let name: Arc<str> = spec.name.as_str().into();
        self.indexes.entry(Arc::clone(&application)).or_default().jobs.insert(Arc::clone(&name), id);
        let state = ScheduleState::Active.as_str().into();
        self.jobs.insert(id, Job { application, name, state, policy: spec.policy });
        id
    }

    pub(super) fn schedule(&self, id: i64) -> Option<&Schedule> {
        self.schedules.get(&id)
    }

    pub(super) fn schedule_named(&self, application: &str, name: &str) -> Option<i64> {
        self.index(application)?.schedules.get(name).copied()
    }

    pub(super) fn entry(&self, id: i64) -> Option<std::result::Result<Entry, String>> {
        let row = self.schedule(id)?;
        Some(row.understand(id, self.jobs.get(&row.job)))
    }

    /// Changes a schedule's row; false if there is none.
    pub(super) fn edit_schedule(&mut self, id: i64, edit: impl FnOnce(&mut Schedule)) -> bool {
        let Some(mut row) = self.schedules.get(&id).cloned() else { return false };
        edit(&mut row);
        self.put_schedule(id, row);
        true
    }

    pub(super) fn put_schedule(&mut self, id: i64, row: Schedule) {
        let before = self.swap_schedule(id, Some(row));
        self.undo.push(Before::Schedule(id, before));
    }

    pub(super) fn run(&self, id: ExecutionId) -> Option<&Run> {
        self.runs.get(&id.0)
    }

    /// Every execution, newest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = (i64, &Run)> {
        self.runs.iter().rev().map(|(id, run)| (*id, run))
    }

    /// A node's CLAIMED and RUNNING executions; `None` stands for a node nobody knows.
    pub(super) fn owned(&self) -> &BTreeMap<Option<NodeId>, BTreeSet<i64>> {
        &self.owned
    }

    /// A schedule's PENDING executions.
    pub(super) fn waiting(&self, schedule: i64) -> Vec<ExecutionId> {
        let rows = self.waiting.range((schedule, i64::MIN)..=(schedule, i64::MAX));
        rows.map(|(_, id)| ExecutionId(*id)).collect()
    }

    pub(super) fn edit_run(&mut self, id: ExecutionId, edit: impl FnOnce(&mut Run)) -> bool {
        let Some(mut run) = self.runs.get(&id.0).cloned() else { return false };
        edit(&mut run);
        let before = self.swap_run(id.0, Some(run));
        self.undo.push(Before::Run(id.0, before));
        true
    }

    /// Inserts an execution, once per schedule, generation, origin, occurrence and attempt.
    pub(super) fn insert_run(&mut self, run: Run) -> Result<ExecutionId> {
        let key = run.key();
        if let Some(other) = self.unique.get(&key) {
            let (schedule, generation, origin, scheduled, attempt) = key;
            return Err(Error::new(
                Kind::Refused,
                format!(
                    "execution {other} already records attempt {attempt} at {scheduled} of schedule {schedule} \
                     (generation {generation}, origin {origin}); nothing was changed"
                ),
            ));
        }
        let id = self.fresh_id();
        self.swap_run(id, Some(run));
        self.undo.push(Before::Run(id, None));
        Ok(ExecutionId(id))
    }

    fn swap_schedule(&mut self, id: i64, row: Option<Schedule>) -> Option<Schedule> {
        let after = row.as_ref().map(|row| (Arc::clone(&row.application), Arc::clone(&row.name), row.due()));
        let before = match row {
            Some(row) => self.schedules.insert(id, row),
            None => self.schedules.remove(&id),
        };
        if let Some(row) = &before
            && let Some(index) = self.indexes.get_mut(&row.application)
        {
            if let Some(due) = row.due() {
                index.due.remove(&(due, id));
            }
            if after.is_none() {
                index.schedules.remove(&row.name);
            }
        }
        if let Some((application, name, due)) = after {
            let index = self.indexes.entry(application).or_default();
            if let Some(due) = due {
                index.due.insert((due, id));
            }
            if before.is_none() {
                index.schedules.insert(name, id);
            }
        }
        before
    }

    fn swap_run(&mut self, id: i64, run: Option<Run>) -> Option<Run> {
        let before = self.runs.remove(&id);
        if let Some(run) = &before {
            self.unindex_run(id, run);
        }
        if let Some(run) = run {
            self.index_run(id, &run);
            self.runs.insert(id, run);
        }
        before
    }

    fn index_run(&mut self, id: i64, run: &Run) {
        self.unique.insert(run.key(), id);
        if run.is(ExecutionState::Pending) {
            self.waiting.insert((run.schedule, id));
            if let Some(index) = self.indexes.get_mut(&run.application) {
                index.pending.insert((run.due, id));
            }
        } else if run.is_owned() {
            self.owned.entry(run.node).or_default().insert(id);
        }
    }

    fn unindex_run(&mut self, id: i64, run: &Run) {
        self.unique.remove(&run.key());
        if run.is(ExecutionState::Pending) {
            self.waiting.remove(&(run.schedule, id));
            if let Some(index) = self.indexes.get_mut(&run.application) {
                index.pending.remove(&(run.due, id));
            }
        } else if run.is_owned()
            && let Some(owned) = self.owned.get_mut(&run.node)
        {
            owned.remove(&id);
            if owned.is_empty() {
                self.owned.remove(&run.node);
            }
        }
    }
}
