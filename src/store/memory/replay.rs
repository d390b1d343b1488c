//! How the tables commit what a transaction wrote, take it back, and take in what others have committed.

use std::sync::Arc;

use super::commits::{LostCommits, WriteSet};
use super::rows::Execution;
use super::table::Written;
use super::tables::Tables;
use crate::domain::{ExecutionState, Timestamp};

impl Tables {
    /// What the transaction has written so far.
    pub(super) fn written(&self) -> WriteSet {
        let mut set = WriteSet {
            apps: self.apps.written(),
            nodes: self.nodes.written(),
            jobs: self.jobs.written(),
            schedules: self.schedules.written(),
            runs: self.runs.written(),
            triggers: self.triggers.written(),
            cancels: self.cancels.written(),
            stuck: self.stuck.written(),
            expected: self.expected.written(),
            said: self.said.written(),
            bounded: self.bounded.written(),
            keys: self.keys.written(),
            audit: self.audit.written(),
            requests: self.requests.written(),
            owners: self.owners.written(),
            new_outcomes: self.new_outcomes.written(),
            outcomes: self.outcomes.written(),
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
        self.triggers.commit();
        self.cancels.commit();
        self.stuck.commit();
        self.expected.commit();
        self.said.commit();
        self.bounded.commit();
        self.keys.commit();
        self.audit.commit();
        self.requests.commit();
        self.owners.commit();
        self.new_outcomes.commit();
        self.outcomes.commit();
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
        self.triggers.roll_back(0);
        self.cancels.roll_back(0);
        self.stuck.roll_back(0);
        self.expected.roll_back(0);
        self.said.roll_back(0);
        self.bounded.roll_back(0);
        self.keys.roll_back(0);
        self.audit.roll_back(0);
        self.requests.roll_back(0);
        self.owners.roll_back(0);
        self.new_outcomes.roll_back(0);
        self.outcomes.roll_back(0);
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
        self.triggers.replay(&set.triggers);
        self.cancels.replay(&set.cancels);
        self.stuck.replay(&set.stuck);
        self.expected.replay(&set.expected);
        self.said.replay(&set.said);
        self.bounded.replay(&set.bounded);
        self.keys.replay(&set.keys);
        self.audit.replay(&set.audit);
        self.requests.replay(&set.requests);
        self.owners.replay(&set.owners);
        self.new_outcomes.replay(&set.new_outcomes);
        self.outcomes.replay(&set.outcomes);
        let ids = [&set.jobs.last().map(|it| it.key.0), &set.schedules.last().map(|it| it.key)];
        let more = [&set.runs.last().map(|it| it.key), &set.audit.last().map(|it| it.key)];
        ids.into_iter().chain(more).flatten().for_each(|id| self.ids.pass(*id));
        set.requests.last().iter().for_each(|it| self.ids.pass(it.key));
    }

    /// Loses the commits after this time, as a promoted copy does that lacks them. Ids that only those
    /// commits had drawn are drawn again.
    pub(super) fn lose_behind(&mut self, time: Timestamp) -> LostCommits {
        let mut lost = LostCommits::default();
        let Some(mut commits) = self.commits.take() else { return lost };
        while let Some((set, noted)) = commits.lose(time) {
            let is_cancel = |it: &&Written<i64, Execution>| {
                it.after.as_ref().is_some_and(|run| run.is(ExecutionState::Cancelled))
            };
            lost.cancels.extend(set.runs.iter().filter(is_cancel).map(|it| it.key));
            lost.cancels.extend(set.cancels.iter().map(|it| it.key));
            let claim = |it: &Written<i64, Execution>| Some((it.key, it.after.as_ref()?.fence));
            lost.claims.extend(set.runs.iter().filter_map(claim));
            self.revert(&set);
            self.hooks.changes.truncate(noted);
        }
        self.commits = Some(commits);
        let last = [self.runs.keys().next_back(), self.schedules.keys().next_back()];
        let more = [self.jobs.keys().next_back().map(|id| &id.0), self.audit.keys().next_back()];
        let more = more.into_iter().chain([self.requests.keys().next_back()]);
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
        self.triggers.revert(&set.triggers);
        self.cancels.revert(&set.cancels);
        self.stuck.revert(&set.stuck);
        self.expected.revert(&set.expected);
        self.said.revert(&set.said);
        self.bounded.revert(&set.bounded);
        self.keys.revert(&set.keys);
        self.audit.revert(&set.audit);
        self.requests.revert(&set.requests);
        self.owners.revert(&set.owners);
        self.new_outcomes.revert(&set.new_outcomes);
        self.outcomes.revert(&set.outcomes);
    }

    /// The same, by a member that has certified it.
    pub(super) fn replay_and_add(&mut self, set: WriteSet) {
        self.replay(&set);
        self.add(set);
    }
}
