//! Outcomes of attempts, counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::hooks::OutcomeFault;
use super::tables::Tables;
use crate::domain::Timestamp;
use crate::store::ExecutionChange;
use crate::store::outcomes::{
    HOUR, OutcomeCounts, OutcomeFold, OutcomeKey, OutcomeQuery, OutcomeSpan, add_up, count, hours_from,
};

impl Tables {
    /// Counts what a change, which is made, has ended.
    pub(super) fn count_outcome(&mut self, change: &ExecutionChange) {
        for outcomes in count(&[change]) {
            if self.hooks.outcome_fault == Some(OutcomeFault::CountsNothing) {
                continue;
            }
            let Some(run) = self.run(outcomes.first) else { continue };
            let node = run.node.map(|node| node.to_string()).unwrap_or_default();
            let (application, key) =
                (Arc::clone(&run.application), OutcomeKey::hour(outcomes.hour, outcomes.job, node.into()));
            let new = || (key, OutcomeCounts::default());
            self.new_outcomes.row((application, outcomes.first.0), new).1.add(&outcomes.counts);
        }
    }

    /// A sabotage: an outcome that an earlier call has stored is counted once more.
    pub(super) fn count_again(&mut self, change: &ExecutionChange) {
        if self.hooks.outcome_fault == Some(OutcomeFault::CountsAgain) {
            self.count_outcome(change);
        }
    }

    pub(super) fn fold_outcomes(&mut self, fold: &OutcomeFold) -> bool {
        let is_ours = |application: &str| application == fold.application;
        let old = self.outcomes.iter().filter(|((application, key), _)| {
            is_ours(application) && key.hours == 1 && key.from < hours_from(fold.now)
        });
        let old: Vec<_> = old.take(fold.limit).map(|(key, counts)| (key.clone(), *counts)).collect();
        let new = self.new_outcomes.iter().filter(|((application, _), _)| is_ours(application));
        let new: Vec<_> = new.take(fold.limit).map(|(key, row)| (key.clone(), row.clone())).collect();
        old.iter().for_each(|(key, _)| self.outcomes.remove(key));
        if self.hooks.outcome_fault != Some(OutcomeFault::AddsTwice) {
            new.iter().for_each(|(key, _)| self.new_outcomes.remove(key));
        }
        let is_full = old.len() == fold.limit || new.len() == fold.limit;
        let days = old.into_iter().map(|((_, key), counts)| (key.day(), counts));
        let hours = new.into_iter().map(|(_, row)| row);
        let application: Arc<str> = fold.application.as_str().into();
        for (key, counts) in add_up(days.chain(hours)) {
            self.outcomes.row((Arc::clone(&application), key), OutcomeCounts::default).add(&counts);
        }
        is_full
    }

    pub(super) fn outcomes(&self, query: &OutcomeQuery) -> Vec<(OutcomeSpan, OutcomeCounts)> {
        let is_ours = |application: &str| application == query.application;
        let old = self.outcomes.iter().filter(|((application, _), _)| is_ours(application));
        let new = self.new_outcomes.iter().filter(|((application, _), _)| is_ours(application));
        let all = old.map(|((_, key), counts)| (key, counts));
        let all = all.chain(new.map(|(_, (key, counts))| (key, counts)));
        let mut told: BTreeMap<_, (OutcomeSpan, OutcomeCounts)> = BTreeMap::new();
        for (key, counts) in all.filter(|(key, _)| query.wants(key)) {
            let (job, node) = (told_by(query.by_job, &key.job), told_by(query.by_node, &key.node));
            let hour = query.by_hour.then_some((key.from, key.hours));
            let until = key.from + key.hours * HOUR;
            let span = OutcomeSpan { from: key.from, until, job: job.clone(), node: node.clone() };
            let (span, sum) =
                told.entry((hour, job, node)).or_insert_with(|| (span, OutcomeCounts::default()));
            (span.from, span.until) = (span.from.min(key.from), span.until.max(until));
            sum.add(counts);
        }
        let mut told: Vec<_> = told.into_values().collect();
        told.sort_by(|(one, _), (other, _)| {
            other.from.cmp(&one.from).then_with(|| (&one.job, &one.node).cmp(&(&other.job, &other.node)))
        });
        told.truncate(query.limit);
        told.sort_by(|one, other| one.0.cmp(&other.0));
        told
    }

    /// Removes what is counted in spans that ended before.
    pub(super) fn purge_outcomes(&mut self, application: &str, before: Timestamp) {
        let old = self
            .outcomes
            .keys()
            .filter(|(of, key)| **of == *application && key.from + key.hours * HOUR <= before);
        let old: Vec<_> = old.cloned().collect();
        old.iter().for_each(|key| self.outcomes.remove(key));
    }
}

fn told_by(is_told: bool, value: &str) -> String {
    if is_told { value.to_owned() } else { String::new() }
}
