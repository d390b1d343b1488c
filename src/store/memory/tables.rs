//! The tables, their indexes, and a way to take changes back.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::commits::{Commits, NewOutcomesKey, OutcomesKey, OwnerKey, RowKey};
use super::hooks::Hooks;
use super::rows::{
    App, BoundedRow, Execution, Expected, IndexedBy, Job, Key, Node, Pause, RequestRow, Schedule, Slot,
    TriggerRow, UniqueKey,
};
use super::table::Table;
use crate::domain::{
    Entry, Error, ErrorKind, ExecutionId, JobId, JobSpec, Lineage, NodeId, ScheduleState, Timestamp,
};
use crate::store::audit::AuditRow;
use crate::store::change::PolicyChange;
use crate::store::nobody::NobodyMark;
use crate::store::order::CancelRow;
use crate::store::outcomes::{OutcomeCounts, OutcomeKey};
use crate::store::said::SaidRow;
use crate::store::sync::OwnerRow;
use crate::store::{Change, Result};

/// Where the ids of new rows come from: each member that has the tables has its own, so far apart as there
/// are members.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    pub last: i64,
    pub step: i64,
    pub offset: i64,
}

impl Default for Ids {
    fn default() -> Self {
        Self { last: 0, step: 1, offset: 0 }
    }
}

impl Ids {
    fn next(&mut self) -> i64 {
        let above = self.last + 1;
        self.last = above + (self.offset - above).rem_euclid(self.step);
        self.last
    }

    /// Somebody else has given this id: own ones are higher from now on.
    pub(super) fn pass(&mut self, id: i64) {
        self.last = self.last.max(id);
    }
}

/// What one application's polls and repairs look things up by.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Active schedules by (next fire time, id).
    pub due: BTreeSet<(Timestamp, i64)>,
    /// PENDING executions by (due time, id).
    pub pending: BTreeSet<(Timestamp, i64)>,
    pub schedules: BTreeMap<Arc<str>, i64>,
    pub jobs: BTreeMap<Arc<str>, JobId>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub apps: Table<Arc<str>, App>,
    pub nodes: Table<NodeId, Node>,
    pub jobs: Table<JobId, Job>,
    pub(super) schedules: Table<i64, Schedule>,
    pub(super) runs: Table<i64, Execution>,
    indexes: BTreeMap<Arc<str>, Index>,
    /// CLAIMED and RUNNING executions by node.
    owned: BTreeMap<Option<NodeId>, BTreeSet<i64>>,
    /// PENDING executions by schedule.
    waiting: BTreeSet<(i64, i64)>,
    unique: BTreeMap<Key, i64>,
    pub(super) ids: Ids,
    /// Requests to cancel, by execution.
    pub cancels: Table<i64, CancelRow>,
    /// QRTZ_TRIGGER, by schedule and generation.
    pub triggers: Table<(i64, i64), TriggerRow>,
    /// QRTZ_STUCK: executions that ran out of time and whose handlers have not returned.
    pub stuck: Table<i64, ()>,
    /// QRTZ_EXPECTED, by schedule.
    pub(super) expected: Table<i64, Expected>,
    /// QRTZ_SAID, by execution.
    pub said: Table<i64, SaidRow>,
    /// QRTZ_OUTCOME_NEW, by application and first execution.
    pub(super) new_outcomes: Table<NewOutcomesKey, (OutcomeKey, OutcomeCounts)>,
    /// QRTZ_OUTCOME.
    pub(super) outcomes: Table<OutcomesKey, OutcomeCounts>,
    /// QRTZ_BOUNDED: by job and execution, the group and when it was claimed.
    pub bounded: Table<(JobId, i64), BoundedRow>,
    /// QRTZ_KEY: by queue, key and period, the origin of the execution enqueued last with it.
    pub keys: Table<UniqueKey, i64>,
    /// By id.
    pub audit: Table<i64, AuditRow>,
    /// QRTZ_OWNER, by application and owner.
    pub owners: Table<OwnerKey, OwnerRow>,
    /// QRTZ_REQUEST, by id.
    pub requests: Table<i64, RequestRow>,
    /// Rows that the transaction counts as written, whatever it changed in them.
    pub(super) touched: BTreeSet<RowKey>,
    /// What has been committed, where several members have the tables.
    pub(super) commits: Option<Commits>,
    /// How many copies have taken over so far.
    pub(super) timeline: i64,
    /// What the database's clock says.
    pub now: Timestamp,
    pub hooks: Hooks,
}

impl Tables {
    /// Does all of `work` or, if it fails, nothing of it. Nested calls are savepoints; the outermost
    /// caller ends with [`Tables::commit`].
    pub(super) fn atomically<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let (runs, schedules, recorded) = (self.runs.mark(), self.schedules.mark(), self.audit.mark());
        let (requests, triggers) = (self.requests.mark(), self.triggers.mark());
        let owners = self.owners.mark();
        let (new_outcomes, outcomes) = (self.new_outcomes.mark(), self.outcomes.mark());
        let (changes, removed) = (self.hooks.changes.len(), self.hooks.removed.len());
        let result = work(self);
        if result.is_err() {
            self.audit.roll_back(recorded);
            self.requests.roll_back(requests);
            self.triggers.roll_back(triggers);
            self.owners.roll_back(owners);
            self.new_outcomes.roll_back(new_outcomes);
            self.outcomes.roll_back(outcomes);
            while let Some((id, row)) = self.runs.undone(runs) {
                self.swap_run(id, row);
            }
            while let Some((id, row)) = self.schedules.undone(schedules) {
                self.swap_schedule(id, row);
            }
            self.hooks.changes.truncate(changes);
            self.hooks.removed.truncate(removed);
        }
        result
    }

    /// The fence behind this one: higher than all that were given before the last copy took over, those of
    /// lost commits included.
    pub(super) fn fence_behind(&self, fence: i64) -> Option<i64> {
        let floor = if self.hooks.has_no_floor { 0 } else { Lineage::new(0, self.timeline + 1).fence_from() };
        Some(fence.checked_add(1)?.max(floor))
    }

    pub(super) fn fresh_id(&mut self) -> i64 {
        self.ids.next()
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

    /// Of nodes and of schedules.
    pub(super) fn applications(&self) -> Vec<String> {
        let names: BTreeSet<&Arc<str>> = self.apps.keys().chain(self.indexes.keys()).collect();
        names.into_iter().map(|name| name.to_string()).collect()
    }

    pub(super) fn index(&self, application: &str) -> Option<&Index> {
        self.indexes.get(application)
    }

    pub(super) fn indexes(&self, application: Option<&str>) -> impl Iterator<Item = &Index> {
        let wanted = move |name: &Arc<str>| application.is_none_or(|only| only == &**name);
        self.indexes.iter().filter(move |(name, _)| wanted(name)).map(|(_, index)| index)
    }

    /// Inserts the job if it is missing; its id.
    pub(super) fn put_job(&mut self, application: &str, spec: &JobSpec) -> JobId {
        if let Some(id) = self.known_job(application, spec) {
            return id;
        }
        let application = self.application(application);
        let id = JobId(self.fresh_id());
        let (name, state) = (spec.name.as_str().into(), ScheduleState::Active.stored().into());
        let (pause, nobody) = (Pause::default(), NobodyMark::default());
        let job = Job { application, name, state, pause, settings: spec.settings.clone(), nobody };
        self.index_job(id, &job);
        self.jobs.insert(id, job);
        id
    }

    /// The id of a job that is there.
    pub(super) fn known_job(&self, application: &str, spec: &JobSpec) -> Option<JobId> {
        self.index(application)?.jobs.get(spec.name.as_str()).copied()
    }

    /// A job of a copy of the tables is found by its name.
    pub(super) fn index_job(&mut self, id: JobId, job: &Job) {
        let index = self.indexes.entry(Arc::clone(&job.application)).or_default();
        index.jobs.insert(Arc::clone(&job.name), id);
    }

    /// The inserted job was taken back.
    pub(super) fn unindex_job(&mut self, job: &Job) {
        if let Some(index) = self.indexes.get_mut(&job.application) {
            index.jobs.remove(&job.name);
        }
    }

    /// Inserts the job or updates its policy.
    pub(super) fn put_own_job(&mut self, application: &str, spec: &JobSpec) -> Result<()> {
        let (job, now) = (self.put_job(application, spec), self.now);
        let seen = self.jobs.get(&job).map(|job| job.settings.clone());
        let Some(seen) = seen.filter(|seen| *seen != spec.settings) else { return Ok(()) };
        let change = PolicyChange { job, seen, becomes: spec.settings.clone(), now };
        self.apply(&[Change::Policy(change)]).map(|_| ())
    }

    pub(super) fn schedule(&self, id: i64) -> Option<&Schedule> {
        self.schedules.get(&id)
    }

    pub(super) fn schedule_named(&self, application: &str, name: &str) -> Option<i64> {
        self.index(application)?.schedules.get(name).copied()
    }

    pub(super) fn entry(&self, id: i64) -> Option<std::result::Result<Entry, String>> {
        let row = self.schedule(id)?;
        Some(row.understand(id, self.jobs.get(&row.job())))
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
        self.schedules.remember(id, before);
    }

    pub(super) fn remove_schedule(&mut self, id: i64) {
        let before = self.swap_schedule(id, None);
        self.schedules.remember(id, before);
    }

    pub(super) fn run(&self, id: ExecutionId) -> Option<&Execution> {
        self.runs.get(&id.0)
    }

    /// The executions with higher ids, and the highest.
    pub(super) fn runs_behind(&self, id: i64) -> (impl Iterator<Item = &Execution>, i64) {
        let last = self.runs.last_key_value().map_or(0, |(id, _)| *id);
        (self.runs.range(id.saturating_add(1)..).map(|(_, run)| run), last)
    }

    /// A schedule's executions in the order of their key: generation, origin, occurrence, attempt.
    pub(super) fn ledger(&self, schedule: i64) -> impl DoubleEndedIterator<Item = (ExecutionId, &Execution)> {
        let keys = (schedule, i64::MIN, i64::MIN, Timestamp::MIN, 0)
            ..(schedule + 1, i64::MIN, i64::MIN, Timestamp::MIN, 0);
        self.unique.range(keys).filter_map(|(_, id)| Some((ExecutionId(*id), self.runs.get(id)?)))
    }

    /// The executions behind a key, of all schedules, in the order of their keys.
    pub(super) fn ledger_behind(&self, key: Key) -> impl Iterator<Item = (ExecutionId, &Execution)> {
        let behind = self.unique.range((Bound::Excluded(key), Bound::Unbounded));
        behind.filter_map(|(_, id)| Some((ExecutionId(*id), self.runs.get(id)?)))
    }

    /// The attempts at an execution's occurrence that came before it.
    pub(super) fn attempts_before(&self, run: &Execution) -> impl Iterator<Item = &Execution> {
        let (schedule, generation, origin, at, attempt) = run.key();
        let keys = (schedule, generation, origin, at, 0)..(schedule, generation, origin, at, attempt);
        self.unique.range(keys).filter_map(|(_, id)| self.runs.get(id))
    }

    /// The attempts at an occurrence of a schedule: its generation, origin, fire time.
    pub(super) fn attempts_at(
        &self,
        schedule: i64,
        (generation, origin, at): Slot,
    ) -> impl Iterator<Item = (ExecutionId, &Execution)> {
        let keys = (schedule, generation, origin, at, 0)..=(schedule, generation, origin, at, u32::MAX);
        self.unique.range(keys).filter_map(|(_, id)| Some((ExecutionId(*id), self.runs.get(id)?)))
    }

    /// Every execution, newest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = (i64, &Execution)> {
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

    pub(super) fn edit_run(&mut self, id: ExecutionId, edit: impl FnOnce(&mut Execution)) -> bool {
        let Some(mut run) = self.runs.get(&id.0).cloned() else { return false };
        edit(&mut run);
        let before = self.swap_run(id.0, Some(run));
        self.runs.remember(id.0, before);
        true
    }

    pub(super) fn remove_run(&mut self, id: ExecutionId) {
        let before = self.swap_run(id.0, None);
        self.runs.remember(id.0, before);
    }

    /// Inserts an execution, once per schedule, generation, origin, occurrence and attempt.
    pub(super) fn insert_run(&mut self, run: Execution) -> Result<ExecutionId> {
        let key = run.key();
        if let Some(other) = self.unique.get(&key) {
            let (schedule, generation, origin, scheduled, attempt) = key;
            return Err(Error::new(
                ErrorKind::Data,
                format!(
                    "execution {other} already records attempt {attempt} at {scheduled} of schedule \
                     {schedule} (generation {generation}, origin {origin}), as after its cursor was set back \
                     by hand; nothing was changed"
                ),
            ));
        }
        let id = self.fresh_id();
        self.swap_run(id, Some(run));
        self.runs.remember(id, None);
        Ok(ExecutionId(id))
    }

    /// Inserts the attempt after another, unless it is there already: an outcome is kept in any case.
    pub(super) fn follow_up(&mut self, run: Execution) -> Result<()> {
        if self.unique.contains_key(&run.key()) {
            return Ok(());
        }
        let checkpoint = run.checkpoint.clone().filter(|_| !self.hooks.forgets_checkpoints);
        self.insert_run(Execution { checkpoint, ..run }).map(|_| ())
    }

    pub(super) fn swap_schedule(&mut self, id: i64, row: Option<Schedule>) -> Option<Schedule> {
        let after = row.as_ref().map(|row| (Arc::clone(&row.application), Arc::clone(&row.name), row.due()));
        let before = self.schedules.swap(&id, row);
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

    pub(super) fn swap_run(&mut self, id: i64, run: Option<Execution>) -> Option<Execution> {
        let after = run.as_ref().map(Execution::key).zip(run.as_ref().map(Execution::place));
        let before = self.runs.swap(&id, run);
        self.note(id, before.as_ref());
        let (key, place) =
            before.as_ref().map(Execution::key).zip(before.as_ref().map(Execution::place)).unzip();
        let (new_key, new_place) = after.unzip();
        if key != new_key {
            if let Some(key) = key {
                self.unique.remove(&key);
            }
            if let Some(key) = new_key {
                self.unique.insert(key, id);
            }
        }
        if place != new_place {
            self.unindex(id, place.unwrap_or_default());
            self.index_at(id, new_place.unwrap_or_default());
        }
        before
    }

    fn index_at(&mut self, id: i64, place: IndexedBy) {
        match place {
            IndexedBy::Nowhere => {}
            IndexedBy::Waiting { application, schedule, due } => {
                self.waiting.insert((schedule, id));
                self.indexes.entry(application).or_default().pending.insert((due, id));
            }
            IndexedBy::Owned(node) => drop(self.owned.entry(node).or_default().insert(id)),
        }
    }

    fn unindex(&mut self, id: i64, place: IndexedBy) {
        match place {
            IndexedBy::Nowhere => {}
            IndexedBy::Waiting { application, schedule, due } => {
                self.waiting.remove(&(schedule, id));
                if let Some(index) = self.indexes.get_mut(&application) {
                    index.pending.remove(&(due, id));
                }
            }
            IndexedBy::Owned(node) => {
                if let Some(owned) = self.owned.get_mut(&node) {
                    owned.remove(&id);
                    if owned.is_empty() {
                        self.owned.remove(&node);
                    }
                }
            }
        }
    }
}
