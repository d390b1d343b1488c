//! What tests do to the tables behind the store's back.

use std::sync::{Arc, PoisonError};

use crossbeam::channel::{Sender, bounded};
use uuid::Uuid;

use super::commits::{Commits, LostCommits};
use super::hooks::{
    BoundsFault, CoversFault, ExpectedFault, HeldKey, MemberFault, NotedChange, OutcomeFault, SlotFault,
};
use super::rows::{Execution, Shape, Text};
use super::tables::Tables;
use super::{MemoryStore, Shared};
use crate::domain::{ExecutionId, Millis, NodeId, ScheduleId, Timestamp, Token};
use crate::sim::judge;
use crate::store::columns::{Cell, Column, Datum, JobColumn, NO_TIME};
use crate::store::conformance::RowKey;
use crate::store::rules::ChangeKind;

/// A row locked by "another transaction", until dropped.
#[must_use]
pub(crate) struct RowLock {
    shared: Arc<Shared>,
    key: HeldKey,
}

impl Drop for RowLock {
    fn drop(&mut self) {
        let mut tables = self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.hooks.held.remove(&self.key);
        self.shared.released.notify_all();
    }
}

impl MemoryStore {
    /// Holds the row of a schedule, an execution or a job as another transaction would.
    pub(crate) fn hold_by_key(&self, row: RowKey<'_>) -> RowLock {
        let job = |application: &str, name: &str| self.tables().index(application)?.jobs.get(name).copied();
        let key = match row {
            RowKey::Schedule(id) => HeldKey::Schedule(id),
            RowKey::Execution(id) => HeldKey::Execution(id),
            RowKey::Job(application, name) => HeldKey::Job(job(application, name).expect("the job exists")),
            RowKey::Request(id) => HeldKey::Request(id),
            RowKey::App(_) | RowKey::Node(_) | RowKey::Bounded(_) | RowKey::Expected(_) => {
                panic!("nothing waits for {row:?}")
            }
        };
        self.tables().hooks.held.insert(key);
        RowLock { shared: Arc::clone(&self.shared), key }
    }

    /// From now on a claim of this schedule fails (not loses) or no longer does.
    pub(crate) fn refuse_claims(&self, id: ScheduleId, refuse: bool) {
        let refused = &mut self.tables().hooks.refused;
        if refuse {
            refused.insert(id.0)
        } else {
            refused.remove(&id.0)
        };
    }

    /// From now on claims do not count what these bounds are of.
    pub(crate) fn break_bounds(&self, fault: BoundsFault) {
        self.tables().hooks.bounds_fault = Some(fault);
    }

    /// Changes of this kind no longer plan what counts from the ends of runs.
    pub(crate) fn plan_nothing(&self, kind: ChangeKind) {
        self.tables().hooks.plans_nothing = Some(kind);
    }

    /// Attempts follow also those that were cancelled as they ran.
    pub(crate) fn follow_cancelled(&self) {
        self.tables().hooks.follows_cancelled = true;
    }

    /// Reruns do not look at earlier ones any more.
    pub(crate) fn forget_reruns(&self) {
        self.tables().hooks.forgets_reruns = true;
    }

    /// Keys of enqueued executions keep nobody away any more.
    pub(crate) fn forget_keys(&self) {
        self.tables().hooks.forgets_keys = true;
    }

    /// Attempts begin without the checkpoints of those before.
    pub(crate) fn forget_checkpoints(&self) {
        self.tables().hooks.forgets_checkpoints = true;
    }

    /// Streaks go back beyond the ends of pauses.
    pub(crate) fn forget_resumes(&self) {
        self.tables().hooks.forgets_resumes = true;
    }

    /// Syncs write although a higher revision is known.
    pub(crate) fn ignore_revisions(&self) {
        self.tables().hooks.ignores_revisions = true;
    }

    /// What an edit or a removal withdraws has no row.
    pub(crate) fn forget_withdrawn(&self) {
        self.tables().hooks.forgets_withdrawn = true;
    }

    /// Switches a protection of slots off.
    pub(crate) fn break_slots(&self, fault: SlotFault) {
        self.tables().hooks.slot_fault = Some(fault);
    }

    /// From now on the answer to what an execution covers is wrong in this way.
    pub(crate) fn break_covers(&self, fault: CoversFault) {
        self.tables().hooks.covers_fault = Some(fault);
    }

    /// From now on it goes wrong in this way to tell what was expected.
    pub(crate) fn break_expected(&self, fault: ExpectedFault) {
        self.tables().hooks.expected_fault = Some(fault);
    }

    /// From now on outcomes are counted wrongly.
    pub(crate) fn break_outcomes(&self, fault: OutcomeFault) {
        self.tables().hooks.outcome_fault = Some(fault);
    }

    /// Fences no longer begin anew when a copy takes over.
    pub(crate) fn remove_floor(&self) {
        self.tables().hooks.has_no_floor = true;
    }

    /// From now on commits are kept for a while: a copy that lacks them may take over.
    pub(crate) fn keep_commits(&self) {
        let mut tables = self.tables();
        tables.commits = Some(Commits::default());
    }

    /// A copy takes over that lacks the commits after this time.
    pub(crate) fn lose_behind(&self, time: Timestamp) -> LostCommits {
        let mut tables = self.tables();
        let noted = std::mem::take(&mut tables.hooks.noted);
        let lost = tables.lose_behind(time);
        tables.hooks.noted = noted;
        lost
    }

    /// From now on members fail to do this.
    pub(crate) fn break_members(&self, fault: MemberFault) {
        self.tables().hooks.member_fault = Some(fault);
    }

    /// From now on every heartbeat fails.
    pub(crate) fn refuse_beats(&self) {
        self.tables().hooks.beats_refused = true;
    }

    /// From now on every registration is made, and its answer lost.
    pub(crate) fn lose_registrations(&self) {
        self.tables().hooks.registrations_lost = true;
    }

    /// From now on a registration gets no answer before the sender is dropped.
    pub(crate) fn hold_registrations(&self) -> Sender<()> {
        let (held, gate) = bounded(0);
        self.tables().hooks.registrations_held = Some(gate);
        held
    }

    /// The next reads of executions fail, so many.
    pub(crate) fn refuse_reads(&self, count: u32) {
        self.tables().hooks.reads_refused = count;
    }

    /// From now on no node can leave.
    pub(crate) fn refuse_leaves(&self) {
        self.tables().hooks.leaves_refused = true;
    }

    /// `UPDATE ... SET column = value` on one row; `value` is an SQL literal: `NULL`, `'text'` or a number.
    pub(crate) fn corrupt(&self, row: RowKey<'_>, column: &str, value: &str) {
        let mut tables = self.tables();
        let value = Literal::parse(value);
        let known = match row {
            RowKey::App(name) => tables.set_app(name, column, value),
            RowKey::Node(id) => tables.set_node(id, column, value),
            RowKey::Job(application, name) => tables.set_job(application, name, column, value),
            RowKey::Schedule(id) => tables.set_schedule(id.0, column, value),
            RowKey::Execution(id) => tables.set_execution(id, column, value),
            RowKey::Expected(id) => tables.unmet_time(id).map(|it| *it = since(value)),
            RowKey::Bounded(id) => tables.begin_time(id).zip(value.instant()).map(|(it, time)| *it = time),
            RowKey::Request(id) => tables.set_request(id, column, value.instant()),
        };
        let (table, condition) = (row.table(), row.condition());
        assert!(
            known.is_some(),
            "{table}.{column} is not to be set by hand, or there is no row with {condition}"
        );
        tables.commit();
    }

    /// From now on every change of an execution's row is noted.
    pub(crate) fn note_changes(&self) {
        self.tables().hooks.noted = true;
    }

    /// How many changes have been noted.
    pub(crate) fn noted(&self) -> usize {
        self.tables().hooks.changes.len()
    }

    /// True time is `now`, and the database's clock is wrong by `error`.
    pub(crate) fn set_clock(&self, now: Timestamp, error: Millis) {
        let mut tables = self.tables();
        (tables.now, tables.hooks.clock_error) = (now + error, error);
        Self::pass_on(&self.shared, &mut tables, now);
    }

    /// The ledger and how it came about, for the judge.
    pub(crate) fn ledger(&self) -> (Vec<judge::Execution>, Vec<judge::Change>) {
        let tables = self.tables();
        let row = |(id, run): (i64, &Execution)| judge::Execution {
            id,
            schedule: tables.schedule(run.schedule).map(|row| row.name.to_string()).unwrap_or_default(),
            generation: run.generation,
            origin: run.origin,
            group: run.group.as_deref().map(str::to_owned),
            scheduled: run.scheduled.millis(),
            until: run.until.map(Timestamp::millis),
            count: run.count,
            attempt: run.attempt,
            state: run.state.to_string(),
            reason: run.reason.to_string(),
            fence: run.fence,
            node: run.node.map(|node| node.to_string()).unwrap_or_default(),
            due: run.due.millis(),
            claimed: run.claimed.map(Timestamp::millis),
            finished: run.finished.map(Timestamp::millis),
            prev: run.prev.map(Timestamp::millis),
            following: run.following.map(Timestamp::millis),
            holder: run.holder,
        };
        let removed = tables.hooks.removed.iter().map(|(id, run)| (*id, run));
        let change = |it: &NotedChange| judge::Change {
            at: it.at,
            apart: it.apart,
            execution: it.execution,
            from: it.from.clone(),
            to: it.to.clone(),
        };
        let changes = tables.hooks.changes.iter().map(change);
        (tables.runs().chain(removed).map(row).collect(), changes.collect())
    }

    pub(crate) fn is_noted(&self, id: ExecutionId) -> bool {
        self.tables().begin_time(id).is_some()
    }

    pub(crate) fn has_said(&self, id: ExecutionId) -> bool {
        self.tables().said.contains_key(&id.0)
    }

    pub(crate) fn tagged(&self, tag: &str) -> usize {
        let has_tag = |(_, run): &(i64, &Execution)| run.attempt == 1 && run.tags.iter().any(|it| it == tag);
        self.tables().runs().filter(has_tag).count()
    }

    /// A column's value as text; `None` is NULL.
    pub(crate) fn column(&self, row: RowKey<'_>, column: &str) -> Option<String> {
        let mut tables = self.tables();
        let value = match row {
            RowKey::App(name) => tables.get_app(name, column),
            RowKey::Schedule(id) => tables.get_schedule(id.0, column),
            RowKey::Execution(id) => tables.get_execution(id, column),
            RowKey::Expected(id) => tables.unmet_time(id).map(|it| Some(written(*it))),
            RowKey::Bounded(id) => tables.begin_time(id).map(|it| Some(it.to_string())),
            RowKey::Request(id) => tables.get_request(id, column),
            RowKey::Node(id) => tables.get_node(id, column),
            RowKey::Job(application, name) => tables.get_job(application, name, column),
        };
        let (table, condition) = (row.table(), row.condition());
        value.unwrap_or_else(|| panic!("no {table}.{column} to be read, or no row with {condition}"))
    }
}

/// An SQL literal.
#[derive(Clone, Debug)]
enum Literal {
    Null,
    Number(i64),
    Text(String),
}

/// The column of this name that holds a part of a job's settings, or says that nobody can run it.
fn job_column(name: &str) -> Option<Column> {
    let settings = JobColumn::ALL.map(Column::Job);
    let nobody = [Column::NobodyTime, Column::NobodyTold];
    settings.into_iter().chain(nobody).find(|column| column.name() == name)
}

impl Literal {
    fn parse(text: &str) -> Self {
        let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        match (text, quoted) {
            ("NULL", _) => Self::Null,
            (_, Some(text)) => Self::Text(text.replace("''", "'")),
            _ => Self::Number(text.parse().expect("NULL, 'text' or a number")),
        }
    }

    fn cell(&self) -> Cell {
        match self {
            Self::Null => Cell::Null,
            Self::Number(number) => Cell::Int(*number),
            Self::Text(text) => Cell::Text(text.clone()),
        }
    }

    fn number(self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    fn instant(self) -> Option<Timestamp> {
        self.number().map(Timestamp::at)
    }

    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn uuid(self) -> Option<Uuid> {
        self.text().map(|text| text.parse().expect("a uuid"))
    }
}

/// One column's value as text: outside, whether there is such a column; inside, whether it is NULL.
type ColumnText = Option<Option<String>>;

impl Tables {
    /// The time of QRTZ_BOUNDED, its one column that tests set.
    fn begin_time(&mut self, id: ExecutionId) -> Option<&mut Timestamp> {
        let key = self.bounded.keys().find(|(_, execution)| *execution == id.0).copied();
        key.and_then(|key| self.bounded.get_mut(&key)).map(|(_, claimed)| claimed)
    }

    /// The time of QRTZ_EXPECTED, its one column that tests set.
    fn unmet_time(&mut self, id: ScheduleId) -> Option<&mut Option<Timestamp>> {
        self.expected.get_mut(&id.0).map(|row| &mut row.unmet)
    }

    fn set_app(&mut self, name: &str, column: &str, value: Literal) -> Option<()> {
        let app = self.apps.get_mut(name)?;
        match column {
            "state" => app.state = value.text()?.into(),
            "time_pre" => app.time_pre = value.instant()?,
            "time_next" => app.time_next = value.instant()?,
            "ledger_from" => app.ledger_from = value.instant()?,
            "fence_from" => app.fence_from = value.number()?,
            "paused_time" => app.pause.since = since(value),
            "pause_ends" => app.pause_ends = since(value),
            _ => return None,
        }
        Some(())
    }

    fn set_node(&mut self, id: NodeId, column: &str, value: Literal) -> Option<()> {
        let node = self.nodes.get_mut(&id)?;
        match column {
            "state" => node.state = value.text()?.into(),
            "beat" => node.beat = value.number()?,
            "paused_time" => node.pause.since = since(value),
            "ended_time" => node.ended = since(value),
            _ => return None,
        }
        Some(())
    }

    fn set_job(&mut self, application: &str, name: &str, column: &str, value: Literal) -> Option<()> {
        let id = *self.index(application)?.jobs.get(name)?;
        let job = self.jobs.get_mut(&id)?;
        match (column, value) {
            ("state", value) => job.state = value.text()?.into(),
            ("paused_time", value) => job.pause.since = since(value),
            (_, Literal::Number(number)) => job.set(job_column(column)?, Datum::Number(number)),
            (_, Literal::Text(text)) => job.set(job_column(column)?, Datum::Text(&text)),
            _ => return None,
        }
        Some(())
    }

    fn set_schedule(&mut self, id: i64, column: &str, value: Literal) -> Option<()> {
        let mut row = self.schedule(id)?.clone();
        let (mut when, cell) = (row.shape.columns.clone(), value.cell());
        match column {
            "state" => row.state = value.text().unwrap_or_default().into(),
            "prev_fire_time" => row.prev = value.instant(),
            "next_fire_time" => row.next = value.instant(),
            "version" => row.version = value.number()?,
            "fence" => row.fence = value.number()?,
            "generation" => row.generation = value.number()?,
            "time_triggered" => row.triggered = value.number()?,
            "shard" => row.shard = value.number()?,
            _ if row.settings.set(column, &cell) || when.set(column, &cell) => {}
            _ if row.ownership.set(column, &cell) => {}
            _ => return None,
        }
        row.shape = Arc::new(Shape::from(when));
        self.put_schedule(id, row);
        Some(())
    }

    fn set_execution(&mut self, id: ExecutionId, column: &str, value: Literal) -> Option<()> {
        let mut run = self.run(id)?.clone();
        match column {
            "state" => run.state = Text::from(value.text()?),
            "claim_token" => run.token = value.uuid().map(Token),
            "execute_id" => run.schedule = value.number()?,
            "origin" => run.origin = value.number()?,
            "due_time" => run.due = value.instant()?,
            "reason" => run.reason = Text::from(value.text()?),
            "finished_time" => run.finished = value.instant(),
            "scheduled_time" => run.scheduled = value.instant()?,
            _ => return None,
        }
        self.edit_run(id, |before| *before = run).then_some(())
    }

    fn get_app(&self, name: &str, column: &str) -> ColumnText {
        let app = self.apps.get(name)?;
        Some(match column {
            "state" => Some(app.state.to_string()),
            "time_pre" => Some(app.time_pre.to_string()),
            "time_next" => Some(app.time_next.to_string()),
            "ledger_from" => Some(app.ledger_from.to_string()),
            "fence_from" => Some(app.fence_from.to_string()),
            "paused_time" => Some(written(app.pause.since)),
            "pause_ends" => Some(written(app.pause_ends)),
            _ => return None,
        })
    }

    fn get_node(&self, id: NodeId, column: &str) -> ColumnText {
        let node = self.nodes.get(&id)?;
        Some(match column {
            "state" => Some(node.state.to_string()),
            "beat" => Some(node.beat.to_string()),
            "paused_time" => Some(written(node.pause.since)),
            "ended_time" => Some(written(node.ended)),
            _ => return None,
        })
    }

    fn get_job(&self, application: &str, name: &str, column: &str) -> ColumnText {
        let id = *self.index(application)?.jobs.get(name)?;
        let job = self.jobs.get(&id)?;
        Some(match column {
            "id" => Some(id.to_string()),
            "state" => Some(job.state.to_string()),
            "paused_time" => Some(written(job.pause.since)),
            _ => match job.value(id.0, job_column(column)?) {
                Datum::Number(number) => Some(number.to_string()),
                Datum::Text(text) => Some(text.to_owned()),
                _ => return None,
            },
        })
    }

    fn get_schedule(&self, id: i64, column: &str) -> ColumnText {
        let row = self.schedule(id)?;
        Some(match column {
            "state" => Some(row.state.to_string()),
            "prev_fire_time" => row.prev.map(|time| time.to_string()),
            "next_fire_time" => row.next.map(|time| time.to_string()),
            "version" => Some(row.version.to_string()),
            "fence" => Some(row.fence.to_string()),
            "generation" => Some(row.generation.to_string()),
            "time_triggered" => Some(row.triggered.to_string()),
            _ => return None,
        })
    }

    fn get_execution(&self, id: ExecutionId, column: &str) -> ColumnText {
        let run = self.run(id)?;
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        Some(match column {
            "state" => Some(run.state.to_string()),
            "claim_token" => run.token.map(|token| token.to_string()),
            "fence" => Some(run.fence.to_string()),
            "due_time" => Some(run.due.to_string()),
            "prev_fire_time" => time(run.prev),
            "following_fire_time" => time(run.following),
            _ => return None,
        })
    }
}

/// An instant as a column holds it: -1 for none.
fn since(value: Literal) -> Option<Timestamp> {
    value.instant().filter(|time| *time != NO_TIME)
}

fn written(time: Option<Timestamp>) -> String {
    time.unwrap_or(NO_TIME).to_string()
}
