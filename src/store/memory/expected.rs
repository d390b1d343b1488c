//! Schedules that are to succeed within a span of each fire time.

use std::sync::Arc;

use super::hooks::ExpectedFault;
use super::rows::{Execution, Expected, Schedule};
use super::tables::Tables;
use crate::domain::{Activity, ExecutionState, ScheduleId, ScheduleState, Timestamp};
use crate::store::expected::{
    Expectation, ExpectedPage, ExpectedQuery, Expecting, MOST_BY_HAND, Record, is_excused, verdict,
};
use crate::store::repairs::called;
use crate::store::{Applied, Result};

impl Tables {
    pub(super) fn expected(&self, query: &ExpectedQuery) -> ExpectedPage {
        let mut page = ExpectedPage::default();
        let behind = self.expected.range(query.after.0.saturating_add(1)..);
        let rows = behind.filter(|(_, row)| *row.application == *query.application);
        for (n, (id, row)) in (1..).zip(rows.skip(query.skip).take(query.limit)) {
            page.next = (n == query.limit).then_some(ScheduleId(*id));
            match self.expecting(*id, row) {
                Some(of) => page.found.extend(self.verdict_of(&of, query.now)),
                None => page.gone.push(ScheduleId(*id)),
            }
        }
        page
    }

    pub(super) fn note_expected(&mut self, query: &ExpectedQuery, found: &Expectation) -> Result<Applied> {
        if self.looks_again(query, found).as_ref() != Some(found)
            && !self.has_fault(ExpectedFault::NotesUnseen)
        {
            return Ok(Applied::Lost);
        }
        let (change, audit) = found.note(&query.application);
        if self.has_fault(ExpectedFault::ForgetsNotes) {
            return Ok(Applied::Done);
        }
        self.apply_audited(&change, &audit)
    }

    fn looks_again(&self, query: &ExpectedQuery, found: &Expectation) -> Option<Expectation> {
        let id = found.change.schedule.0;
        let row = self.expected.get(&id).filter(|row| *row.application == *query.application)?;
        let of = self.expecting(id, row)?;
        let unmet = if self.has_fault(ExpectedFault::SeesNoNote) { found.change.seen } else { of.unmet };
        self.verdict_of(&Expecting { unmet, ..of }, query.now)
    }

    pub(super) fn expect(&mut self, schedules: &[ScheduleId]) {
        let is_off = self.has_fault(ExpectedFault::ExpectsNothing);
        for id in schedules.iter().filter(|_| !is_off) {
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

    fn has_fault(&self, fault: ExpectedFault) -> bool {
        self.hooks.expected_fault == Some(fault)
    }

    fn verdict_of(&self, of: &Expecting, now: Timestamp) -> Option<Expectation> {
        let mut record = self.record_of(of, now);
        if of.unmet.is_some() && self.has_fault(ExpectedFault::NothingIsMet) {
            record.success = None;
        }
        verdict(of, record, now)
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
        let mut state = ScheduleState::read(&row.state).ok();
        if self.has_fault(ExpectedFault::IgnoresPauses) {
            state = state.map(|it| if it == ScheduleState::Paused { ScheduleState::Active } else { it });
        }
        Some(Expecting {
            application: Arc::clone(&expected.application),
            id: ScheduleId(id),
            name: called(&row.name, ScheduleId(id)),
            generation: row.generation,
            expected_by: row.settings.expected_by?,
            state,
            is_contained: &*row.paused_by == "firetime",
            has_active_job: job.is_some_and(|job| Activity::read(&job.state, true) == Activity::Active),
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
        let excuses_nothing = self.has_fault(ExpectedFault::ExcusesNothing);
        let is_missed = |run: &&Execution| {
            let is_up = run.origin == 0 && run.scheduled > behind && run.scheduled <= of.cutoff(now);
            is_up && (excuses_nothing || !is_excused(run.state.parse().ok(), &run.reason))
        };
        let missed = runs().find(is_missed).map(|run| run.scheduled);
        Record { success, missed }
    }
}
