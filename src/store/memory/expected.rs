//! Schedules that are to succeed within a span of each fire time.

use std::sync::Arc;

use super::rows::{Execution, Expected, Schedule};
use super::tables::Tables;
use crate::domain::{ExecutionState, ScheduleId, ScheduleState, Timestamp};
use crate::store::expected::{
    Expectation, ExpectedPage, ExpectedQuery, Expecting, MOST_BY_HAND, Record, is_excused, verdict,
};
use crate::store::repairs::called;
use crate::store::switch::Switch;
use crate::store::{Applied, Result};

impl Tables {
    pub(super) fn expected(&self, query: &ExpectedQuery) -> ExpectedPage {
        let mut page = ExpectedPage::default();
        let behind = self.expected.range(query.after.0.saturating_add(1)..);
        let rows = behind.filter(|(_, row)| *row.application == *query.application);
        for (n, (id, row)) in (1..).zip(rows.take(query.limit)) {
            page.next = (n == query.limit).then_some(ScheduleId(*id));
            match self.expecting(*id, row) {
                Some(of) => page.found.extend(verdict(&of, self.record_of(&of, query.now), query.now)),
                None => page.gone.push(ScheduleId(*id)),
            }
        }
        page
    }

    pub(super) fn note_expected(&mut self, query: &ExpectedQuery, found: &Expectation) -> Result<Applied> {
        let after = ScheduleId(found.change.schedule.0 - 1);
        let again = self.expected(&ExpectedQuery { after, limit: 1, ..query.clone() });
        if again.found.first() != Some(found) {
            return Ok(Applied::Lost);
        }
        let (change, audit) = found.note(&query.application);
        self.apply_audited(&change, &audit)
    }

    pub(super) fn expect(&mut self, schedules: &[ScheduleId]) {
        for id in schedules {
            let application = self.expects(id.0).map(|row| Arc::clone(&row.application));
            if let Some(application) = application.filter(|_| !self.expected.contains_key(&id.0)) {
                self.expected.insert(id.0, Expected { application, unmet: None });
            }
        }
    }

    pub(super) fn expect_no_longer(&mut self, application: &str, schedules: &[ScheduleId]) {
        for id in schedules {
            let is_of = self.expected.get(&id.0).is_some_and(|row| *row.application == *application);
            if is_of && self.expects(id.0).is_none() {
                self.expected.remove(&id.0);
            }
        }
    }

    /// A schedule of which something is expected.
    fn expects(&self, id: i64) -> Option<&Schedule> {
        self.schedule(id).filter(|row| !row.is(ScheduleState::Removed) && row.settings.expected_by.is_some())
    }

    /// Whether something is expected of it, and it is not in QRTZ_EXPECTED yet.
    pub(super) fn is_newly_expected(&self, id: i64) -> bool {
        let is_walked = |row: &&Schedule| !row.is(ScheduleState::Error) && !row.is(ScheduleState::Init);
        self.expects(id).filter(is_walked).is_some() && !self.expected.contains_key(&id)
    }

    fn expecting(&self, id: i64, expected: &Expected) -> Option<Expecting> {
        let row = self.expects(id)?;
        let time = |time: Option<Timestamp>| time.filter(|time| *time >= Timestamp::EPOCH);
        let job = self.jobs.get(&row.job());
        Some(Expecting {
            application: Arc::clone(&expected.application),
            id: ScheduleId(id),
            name: called(&row.name, ScheduleId(id)),
            generation: row.generation,
            expected_by: row.settings.expected_by?,
            state: row.state.parse().ok(),
            is_contained: &*row.paused_by == "firetime",
            has_active_job: job.is_some_and(|job| Switch::read(&job.state, true) == Switch::On),
            next: time(row.next),
            resumed: time(row.resumed),
            unmet: expected.unmet,
        })
    }

    fn record_of(&self, of: &Expecting, now: Timestamp) -> Record {
        let since = of.since();
        let all = || self.ledger(of.id.0).map(|(_, run)| run).filter(|run| run.generation == of.generation);
        let runs = || all().filter(|run| run.scheduled >= since);
        let has_succeeded = |run: &&Execution| run.is(ExecutionState::Succeeded);
        let most = of.most_attempts();
        let newest: Vec<&Execution> = runs().rev().filter(|run| run.origin == 0).take(most).collect();
        let planned = newest.iter().copied().filter(has_succeeded).map(|run| run.scheduled).max();
        let by_hand = all().rev().filter(|run| run.origin > 0).take(MOST_BY_HAND);
        let by_hand = by_hand.filter(|run| run.scheduled >= since).filter(has_succeeded);
        let success = planned.max(by_hand.map(|run| run.scheduled).max());
        if of.unmet.is_some() {
            return Record { success, missed: None };
        }
        let cut = newest.last().filter(|_| newest.len() == most).map(|run| run.scheduled);
        let behind = success.max(cut).unwrap_or(since - 1);
        let is_missed = |run: &&Execution| {
            let is_up = run.origin == 0 && run.scheduled > behind && run.scheduled <= of.cutoff(now);
            is_up && !is_excused(run.state.parse().ok(), &run.reason)
        };
        let missed = runs().find(is_missed).map(|run| run.scheduled);
        Record { success, missed }
    }
}
