//! What transactions have written: several members have the tables, and all of them commit in one order.
//!
//! A member runs a transaction on its own copy of the tables, which may lack the last commits of the others.
//! Its commit is refused if a row that it wrote was written by one that the copy lacks: rows are told by
//! their primary keys and by their unique keys. Rows that it only read, or locked, count for nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::rows::{
    App, BoundedRow, Execution, Expected, Job, Key, Node, RequestRow, Schedule, TriggerRow, UniqueKey,
};
use super::table::Written;
use crate::domain::{JobId, NodeId, Timestamp};
use crate::store::audit::AuditRow;
use crate::store::order::CancelRow;
use crate::store::outcomes::{OutcomeCounts, OutcomeKey};
use crate::store::said::SaidRow;
use crate::store::sync::OwnerRow;

/// The primary key of an owner: its application and its name.
pub(super) type OwnerKey = (Arc<str>, Arc<str>);

/// The primary key of new outcomes: their application and their first execution.
pub(super) type NewOutcomesKey = (Arc<str>, i64);
/// The primary key of outcomes that are added up.
pub(super) type OutcomesKey = (Arc<str>, OutcomeKey);

/// A row, or what must be unique, that two transactions may have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowKey {
    App(Arc<str>),
    Node(NodeId),
    Job(JobId),
    JobName(Arc<str>, Arc<str>),
    Schedule(i64),
    ScheduleName(Arc<str>, Arc<str>),
    Execution(i64),
    Attempt(Key),
    Trigger((i64, i64)),
    Cancel(i64),
    Stuck(i64),
    Expected(i64),
    Said(i64),
    Bounded((JobId, i64)),
    Key(UniqueKey),
    Audit(i64),
    Request(i64),
    Owner(Arc<str>, Arc<str>),
    NewOutcomes(NewOutcomesKey),
    Outcomes(OutcomesKey),
}

/// What one transaction has written.
#[derive(Debug)]
pub(super) struct WriteSet {
    pub(super) apps: Vec<Written<Arc<str>, App>>,
    pub(super) nodes: Vec<Written<NodeId, Node>>,
    pub(super) jobs: Vec<Written<JobId, Job>>,
    pub(super) schedules: Vec<Written<i64, Schedule>>,
    pub(super) runs: Vec<Written<i64, Execution>>,
    pub(super) triggers: Vec<Written<(i64, i64), TriggerRow>>,
    pub(super) cancels: Vec<Written<i64, CancelRow>>,
    pub(super) stuck: Vec<Written<i64, ()>>,
    pub(super) expected: Vec<Written<i64, Expected>>,
    pub(super) said: Vec<Written<i64, SaidRow>>,
    pub(super) bounded: Vec<Written<(JobId, i64), BoundedRow>>,
    pub(super) keys: Vec<Written<UniqueKey, i64>>,
    pub(super) audit: Vec<Written<i64, AuditRow>>,
    pub(super) requests: Vec<Written<i64, RequestRow>>,
    pub(super) owners: Vec<Written<OwnerKey, OwnerRow>>,
    pub(super) new_outcomes: Vec<Written<NewOutcomesKey, (OutcomeKey, OutcomeCounts)>>,
    pub(super) outcomes: Vec<Written<OutcomesKey, OutcomeCounts>>,
    /// The rows by which it is certified.
    pub(super) rows: BTreeSet<RowKey>,
}

impl WriteSet {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn has_executions(&self) -> bool {
        !self.runs.is_empty()
    }

    pub(super) fn note_rows(&mut self) {
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
            rows.insert(RowKey::Execution(it.key));
            rows.extend(unique(it, |run: &Execution| RowKey::Attempt(run.key())));
        }
        rows.extend(self.triggers.iter().map(|it| RowKey::Trigger(it.key)));
        rows.extend(self.cancels.iter().map(|it| RowKey::Cancel(it.key)));
        rows.extend(self.stuck.iter().map(|it| RowKey::Stuck(it.key)));
        rows.extend(self.expected.iter().map(|it| RowKey::Expected(it.key)));
        rows.extend(self.said.iter().map(|it| RowKey::Said(it.key)));
        rows.extend(self.bounded.iter().map(|it| RowKey::Bounded(it.key)));
        rows.extend(self.keys.iter().map(|it| RowKey::Key(it.key.clone())));
        rows.extend(self.audit.iter().map(|it| RowKey::Audit(it.key)));
        rows.extend(self.requests.iter().map(|it| RowKey::Request(it.key)));
        let owner =
            |it: &Written<OwnerKey, OwnerRow>| RowKey::Owner(Arc::clone(&it.key.0), Arc::clone(&it.key.1));
        rows.extend(self.owners.iter().map(owner));
        rows.extend(self.new_outcomes.iter().map(|it| RowKey::NewOutcomes(it.key.clone())));
        rows.extend(self.outcomes.iter().map(|it| RowKey::Outcomes(it.key.clone())));
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
    kept: VecDeque<(Timestamp, Arc<WriteSet>)>,
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

    pub(super) fn add(&mut self, at: Timestamp, set: Arc<WriteSet>, noted: usize) {
        self.kept.push_back((at, Arc::clone(&set)));
        self.noted.0.push_back(std::mem::replace(&mut self.noted.1, noted));
        let number = self.last();
        self.last.extend(set.rows.iter().map(|row| (row.clone(), number)));
    }

    /// The commit behind the one of this number, and when it was made.
    pub(super) fn behind(&self, seen: u64) -> Option<(Timestamp, Arc<WriteSet>)> {
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
    pub(super) fn forget_before(&mut self, time: Timestamp) {
        let until = self.first + self.kept.iter().take_while(|(at, _)| *at < time).count() as u64;
        self.forget(until);
    }

    /// The last commit, if it was made behind this time, and how many changes had been noted before. It is
    /// forgotten.
    pub(super) fn lose(&mut self, time: Timestamp) -> Option<(Arc<WriteSet>, usize)> {
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
