//! What transactions have written: several members have the tables, and all of them commit in one order.
//!
//! A member runs a transaction on its own copy of the tables, which may lack the last commits of the others.
//! Its commit is refused if a row that it wrote was written by one that the copy lacks: rows are told by
//! their primary keys and by their unique keys. Rows that it only read, or locked, count for nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::rows::{App, Job, Key, Node, Run, Schedule};
use super::table::Written;
use super::tables::{BoundedRow, Tables, UniqueKey};
use crate::domain::{ExecutionState, Millis, NodeId};
use crate::store::audit::AuditRow;
use crate::store::order::CancelRow;

/// A row, or what must be unique, that two transactions may have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKey {
    App(Arc<str>),
    Node(NodeId),
    Job(i64),
    JobName(Arc<str>, Arc<str>),
    Schedule(i64),
    ScheduleName(Arc<str>, Arc<str>),
    Run(i64),
    Attempt(Key),
    Cancel(i64),
    Stuck(i64),
    Bounded((i64, i64)),
    Key(UniqueKey),
    Audit(i64),
}

/// What one transaction has written.
#[derive(Debug)]
pub(super) struct WriteSet {
    apps: Vec<Written<Arc<str>, App>>,
    nodes: Vec<Written<NodeId, Node>>,
    jobs: Vec<Written<i64, Job>>,
    schedules: Vec<Written<i64, Schedule>>,
    runs: Vec<Written<i64, Run>>,
    cancels: Vec<Written<i64, CancelRow>>,
    stuck: Vec<Written<i64, ()>>,
    bounded: Vec<Written<(i64, i64), BoundedRow>>,
    keys: Vec<Written<UniqueKey, i64>>,
    audit: Vec<Written<i64, AuditRow>>,
    /// The rows by which it is certified.
    rows: BTreeSet<RowKey>,
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn has_executions(&self) -> bool {
        !self.runs.is_empty()
    }

    fn note_rows(&mut self) {
        let rows = &mut self.rows;
        rows.extend(self.apps.iter().map(|it| RowKey::App(Arc::clone(&it.key))));
        rows.extend(self.nodes.iter().map(|it| RowKey::Node(it.key)));
        for it in &self.jobs {
            rows.insert(RowKey::Job(it.key));
            let name = |job: &Job| RowKey::JobName(Arc::clone(&job.application), Arc::clone(&job.name));
            rows.extend(unique(it, name));
        }
        for it in &self.schedules {
            rows.insert(RowKey::Schedule(it.key));
            let name =
                |row: &Schedule| RowKey::ScheduleName(Arc::clone(&row.application), Arc::clone(&row.name));
            rows.extend(unique(it, name));
        }
        for it in &self.runs {
            rows.insert(RowKey::Run(it.key));
            rows.extend(unique(it, |run: &Run| RowKey::Attempt(run.key())));
        }
        rows.extend(self.cancels.iter().map(|it| RowKey::Cancel(it.key)));
        rows.extend(self.stuck.iter().map(|it| RowKey::Stuck(it.key)));
        rows.extend(self.bounded.iter().map(|it| RowKey::Bounded(it.key)));
        rows.extend(self.keys.iter().map(|it| RowKey::Key(it.key.clone())));
        rows.extend(self.audit.iter().map(|it| RowKey::Audit(it.key)));
    }
}

/// The unique key of a row before and after a change that it has part in.
fn unique<K, V>(written: &Written<K, V>, key: impl Fn(&V) -> RowKey) -> impl Iterator<Item = RowKey> {
    let (before, after) = (written.before.as_ref().map(&key), written.after.as_ref().map(&key));
    let is_changed = before != after;
    before.into_iter().chain(after).filter(move |_| is_changed)
}

/// The commits of all members, in their one order.
#[derive(Clone, Debug, Default)]
pub(super) struct Commits {
    /// The number of the first that some member may lack; the first of all is 1.
    first: u64,
    kept: VecDeque<(Millis, Arc<WriteSet>)>,
    /// How many changes of executions had been noted before each of those kept, and before the next.
    noted: (VecDeque<usize>, usize),
    /// The last commit that wrote a row.
    last: BTreeMap<RowKey, u64>,
}

impl Commits {
    /// The number of the last.
    pub(super) fn last(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// The first that wrote a row of this set behind the commit `seen`.
    pub(super) fn conflict(&self, set: &WriteSet, seen: u64) -> Option<u64> {
        let last = set.rows.iter().filter_map(|row| self.last.get(row).copied());
        last.filter(|commit| *commit > seen).min()
    }

    fn add(&mut self, at: Millis, set: Arc<WriteSet>, noted: usize) {
        self.kept.push_back((at, Arc::clone(&set)));
        self.noted.0.push_back(std::mem::replace(&mut self.noted.1, noted));
        let number = self.last();
        self.last.extend(set.rows.iter().map(|row| (row.clone(), number)));
    }

    /// The commit behind the one of this number, and when it was made.
    pub(super) fn behind(&self, seen: u64) -> Option<(Millis, Arc<WriteSet>)> {
        let place = usize::try_from(seen.checked_sub(self.first)?).ok()?;
        self.kept.get(place).map(|(at, set)| (*at, Arc::clone(set)))
    }

    /// All members have these.
    pub(super) fn forget(&mut self, until: u64) {
        while self.first < until && self.kept.pop_front().is_some() {
            self.noted.0.pop_front();
            self.first += 1;
        }
    }

    /// Nobody goes back beyond this time.
    pub(super) fn forget_before(&mut self, time: Millis) {
        let until = self.first + self.kept.iter().take_while(|(at, _)| *at < time).count() as u64;
        self.forget(until);
    }

    /// The last commit, if it was made behind this time, and how many changes had been noted before. It is
    /// forgotten.
    fn lose(&mut self, time: Millis) -> Option<(Arc<WriteSet>, usize)> {
        let (_, set) = self.kept.pop_back_if(|(at, _)| *at > time)?;
        self.noted.1 = self.noted.0.pop_back()?;
        Some((set, self.noted.1))
    }
}

/// The executions that lost commits had changed, each with the fence of its claim, and the cancelled ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct LostCommits {
    pub claims: BTreeSet<(i64, i64)>,
    pub cancels: BTreeSet<i64>,
}

impl Tables {
    /// What the transaction has written so far.
    pub(super) fn written(&self) -> WriteSet {
        let mut set = WriteSet {
            apps: self.apps.written(),
            nodes: self.nodes.written(),
            jobs: self.jobs.written(),
            schedules: self.schedules.written(),
            runs: self.runs.written(),
            cancels: self.cancels.written(),
            stuck: self.stuck.written(),
            bounded: self.bounded.written(),
            keys: self.keys.written(),
            audit: self.audit.written(),
            rows: self.touched.clone(),
        };
        set.note_rows();
        set
    }

    /// Ends the transaction.
    pub(super) fn commit(&mut self) {
        if self.commits.is_some() {
            let set = self.written();
            self.add(set);
        }
        self.forget_written();
    }

    fn add(&mut self, set: WriteSet) {
        let (at, noted) = (self.true_time(), self.hooks.changes.len());
        if let Some(commits) = self.commits.as_mut().filter(|_| !set.is_empty()) {
            commits.add(at, Arc::new(set), noted);
        }
    }

    pub(super) fn forget_written(&mut self) {
        self.apps.commit();
        self.nodes.commit();
        self.jobs.commit();
        self.schedules.commit();
        self.runs.commit();
        self.cancels.commit();
        self.stuck.commit();
        self.bounded.commit();
        self.keys.commit();
        self.audit.commit();
        self.touched.clear();
    }

    /// Ends the transaction without anything that it has changed.
    pub(super) fn roll_back(&mut self) {
        self.apps.roll_back(0);
        self.nodes.roll_back(0);
        while let Some((id, job)) = self.jobs.undone(0) {
            let made = self.jobs.swap(&id, job.clone());
            if let (Some(made), None) = (made, job) {
                self.unindex_job(&made);
            }
        }
        while let Some((id, row)) = self.schedules.undone(0) {
            self.swap_schedule(id, row);
        }
        while let Some((id, run)) = self.runs.undone(0) {
            self.swap_run(id, run);
        }
        self.cancels.roll_back(0);
        self.stuck.roll_back(0);
        self.bounded.roll_back(0);
        self.keys.roll_back(0);
        self.audit.roll_back(0);
        self.touched.clear();
    }

    /// Makes the changes of a transaction that a member has committed.
    pub(super) fn replay(&mut self, set: &WriteSet) {
        self.apps.replay(&set.apps);
        self.nodes.replay(&set.nodes);
        for it in &set.jobs {
            if let (None, Some(job)) = (&it.before, &it.after) {
                self.index_job(it.key, job);
            }
        }
        self.jobs.replay(&set.jobs);
        for it in &set.schedules {
            self.swap_schedule(it.key, it.after.clone());
        }
        for it in &set.runs {
            self.swap_run(it.key, it.after.clone());
        }
        self.cancels.replay(&set.cancels);
        self.stuck.replay(&set.stuck);
        self.bounded.replay(&set.bounded);
        self.keys.replay(&set.keys);
        self.audit.replay(&set.audit);
        let ids = [&set.jobs.last().map(|it| it.key), &set.schedules.last().map(|it| it.key)];
        let more = [&set.runs.last().map(|it| it.key), &set.audit.last().map(|it| it.key)];
        ids.into_iter().chain(more).flatten().for_each(|id| self.ids.pass(*id));
    }

    /// Loses the commits after this time, as a promoted copy does that lacks them. Ids that only those
    /// commits had drawn are drawn again.
    pub(super) fn lose_behind(&mut self, time: Millis) -> LostCommits {
        let mut lost = LostCommits::default();
        let Some(mut commits) = self.commits.take() else { return lost };
        while let Some((set, noted)) = commits.lose(time) {
            let is_cancel = |it: &&Written<i64, Run>| {
                it.after.as_ref().is_some_and(|run| run.is(ExecutionState::Cancelled))
            };
            lost.cancels.extend(set.runs.iter().filter(is_cancel).map(|it| it.key));
            lost.cancels.extend(set.cancels.iter().map(|it| it.key));
            let claim = |it: &Written<i64, Run>| Some((it.key, it.after.as_ref()?.fence));
            lost.claims.extend(set.runs.iter().filter_map(claim));
            self.revert(&set);
            self.hooks.changes.truncate(noted);
        }
        self.commits = Some(commits);
        let last = [self.runs.keys().next_back(), self.schedules.keys().next_back()];
        let more = [self.jobs.keys().next_back(), self.audit.keys().next_back()];
        self.ids.last = last.into_iter().chain(more).flatten().copied().max().unwrap_or(0);
        self.timeline += 1;
        lost
    }

    fn revert(&mut self, set: &WriteSet) {
        self.apps.revert(&set.apps);
        self.nodes.revert(&set.nodes);
        for it in set.jobs.iter().rev() {
            if let (None, Some(job)) = (&it.before, &it.after) {
                self.unindex_job(job);
            }
        }
        self.jobs.revert(&set.jobs);
        for it in set.schedules.iter().rev() {
            self.swap_schedule(it.key, it.before.clone());
        }
        for it in set.runs.iter().rev() {
            self.swap_run(it.key, it.before.clone());
        }
        self.cancels.revert(&set.cancels);
        self.stuck.revert(&set.stuck);
        self.bounded.revert(&set.bounded);
        self.keys.revert(&set.keys);
        self.audit.revert(&set.audit);
    }

    /// The same, by a member that has certified it.
    pub(super) fn replay_and_add(&mut self, set: WriteSet) {
        self.replay(&set);
        self.add(set);
    }
}
