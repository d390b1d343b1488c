//! Reruns.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::commits::RowKey;
use super::hooks::Touch;
use super::rows::Execution;
use super::tables::Tables;
use crate::domain::{Error, ErrorKind, ExecutionId, ExecutionState, NextFire, Reason, ScheduleId, Timestamp};
use crate::store::columns::NO_TIME;
use crate::store::order::ExecutionOrder;
use crate::store::rerun::{
    BACKFILL, EndedRow, EndedSo, Ledger, LedgerPart, RERUN, Reran, RerunCancel, RerunCancelled, RerunFate,
    RerunOrder, RerunPreview, RerunSchedule, StoodAs, preview,
};
use crate::store::{Applied, Change, ExecutionChange, Result, Transition};
use crate::trigger::Timing;

impl Tables {
    pub(super) fn plan_rerun(&self, order: &RerunOrder) -> RerunPreview {
        let named = self.schedule_named(&order.application, &order.schedule);
        let Some((id, row)) = named.and_then(|id| Some((id, self.schedule(id)?))) else {
            return RerunPreview::Unknown;
        };
        let schedule = RerunSchedule {
            state: &row.state,
            generation: row.generation,
            next: NextFire::stored(row.next.filter(|next| *next != NO_TIME)),
            timing: row.shape.timing.as_ref().ok().cloned(),
        };
        let ledger = &mut OfSchedule { tables: self, id };
        match preview(ledger, &schedule, &order.wanted, self.now) {
            Ok(plan) => plan,
        }
    }

    pub(super) fn rerun(&mut self, order: &RerunOrder) -> Result<Reran> {
        let plan = match self.plan_rerun(order).decided() {
            Ok(plan) => plan,
            Err(answer) => return Ok(answer),
        };
        let Some(schedule) = self.schedule_named(&order.application, &order.schedule) else {
            return Ok(Reran::Unknown);
        };
        let Some(row) = self.schedule(schedule).cloned() else { return Ok(Reran::Unknown) };
        self.touch(Touch::RunNow, RowKey::Schedule(schedule));
        let origin = self.record(&order.entry(&plan));
        for (n, occurrence) in plan.run().enumerate() {
            let asked = Execution::asked(schedule, &row.application, occurrence.at, (origin, Reason::Rerun));
            let (due, prev) = (order.due(self.now, n), occurrence.prev);
            self.insert_run(Execution { generation: row.generation, due, prev, ..asked })?;
        }
        Ok(Reran::Ordered { origin, plan })
    }

    /// The last attempt of the last rerun of the occurrence of that fire time.
    pub(super) fn rerun_at(&self, schedule: ScheduleId, at: Timestamp) -> Option<ExecutionId> {
        let mut all = self.ledger(schedule.0).rev();
        all.find(|(_, run)| run.scheduled == at && self.is_rerun(run)).map(|(id, _)| id)
    }

    /// Whether an execution, or the first attempt before it, was made by a rerun.
    pub(super) fn is_rerun(&self, run: &Execution) -> bool {
        let first = self.attempts_at(run.schedule, (run.generation, run.origin, run.scheduled)).next();
        run.origin > 0 && first.is_some_and(|(_, first)| first.cause == Some(Reason::Rerun.as_str()))
    }

    pub(super) fn cancel_rerun(&mut self, order: &RerunCancel) -> Result<RerunCancelled> {
        let known = self.audit.get(&order.origin).filter(|row| {
            row.application == order.application && [RERUN, BACKFILL].contains(&row.verb.as_str())
        });
        let known = known.and_then(|row| self.schedule_named(&order.application, &row.target));
        let schedule = known.or_else(|| self.waiting_rerun(order));
        let found = schedule.and_then(|id| Some((id, self.schedule(id)?.name.to_string())));
        let Some((schedule, name)) = found else { return Ok(RerunCancelled::Unknown) };
        let is_open = |run: &Execution| {
            run.origin == order.origin && RerunFate::of(&run.state, run.finished.is_some()) == RerunFate::Open
        };
        let open: Vec<(ExecutionId, Execution)> = self
            .ledger(schedule)
            .filter(|(_, run)| is_open(run))
            .map(|(id, run)| (id, run.clone()))
            .collect();
        let (mut cancelled, mut asked) = (0, 0);
        for (execution, run) in open {
            match run.state.parse() {
                Ok(ExecutionState::Pending | ExecutionState::Claimed) => {
                    cancelled += usize::from(self.cancel_waiting(execution, &run)?);
                }
                Ok(ExecutionState::Running | ExecutionState::TimedOut) => {
                    let by = order.by.clone();
                    let one = ExecutionOrder::new(order.application.clone(), execution, by);
                    asked += usize::from(self.ask_for_its_end(&one));
                }
                _ => {}
            }
        }
        if cancelled + asked == 0 {
            return Ok(RerunCancelled::Ended);
        }
        self.record(&order.entry(&name, (cancelled, asked)));
        Ok(RerunCancelled::Done { cancelled, asked })
    }

    /// The schedule of a rerun of which an execution waits: its entry in the audit may be gone.
    fn waiting_rerun(&self, order: &RerunCancel) -> Option<i64> {
        let waits = |run: &&Execution| {
            *run.application == *order.application
                && run.origin == order.origin
                && run.is(ExecutionState::Pending)
                && self.is_rerun(run)
        };
        self.runs.values().find(waits).map(|run| run.schedule)
    }

    fn cancel_waiting(&mut self, execution: ExecutionId, run: &Execution) -> Result<bool> {
        let Some(token) = run.token else { return Ok(false) };
        let cancel = Transition::Cancel(Reason::Cancelled);
        let change = Change::from(ExecutionChange::of(execution, token, cancel, self.now));
        if self.apply(&[change])? != [Applied::Done] {
            let message = "another transaction holds the row of its schedule";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(true)
    }
}

struct OfSchedule<'a> {
    tables: &'a Tables,
    id: i64,
}

impl OfSchedule<'_> {
    /// The last attempts at the planned occurrences of a generation, by fire time.
    fn last(&self, generation: i64) -> impl Iterator<Item = &Execution> {
        let mut last = BTreeMap::new();
        for (_, run) in self.tables.ledger(self.id) {
            if run.origin == 0 && run.generation == generation {
                last.insert(run.scheduled, run);
            }
        }
        last.into_values()
    }
}

fn is_so(run: &Execution, so: &EndedSo) -> bool {
    so.states.iter().any(|state| run.is(*state))
        && so.reason.as_ref().is_none_or(|reason| *run.reason == **reason)
}

fn row(run: &Execution) -> EndedRow {
    let Execution { scheduled: at, until, count, prev, .. } = *run;
    EndedRow { at, until, count, prev, fate: fate(run), was: was(run) }
}

fn was(run: &Execution) -> StoodAs {
    StoodAs { state: run.state.to_string(), reason: run.reason.to_string() }
}

fn fate(run: &Execution) -> RerunFate {
    RerunFate::of(&run.state, run.finished.is_some())
}

impl Ledger for OfSchedule<'_> {
    type Fault = Infallible;

    fn generation_before(
        &mut self,
        generation: i64,
    ) -> std::result::Result<Option<(i64, Option<Timestamp>)>, Infallible> {
        let mut older = self.tables.ledger(self.id).filter(|(_, run)| run.generation < generation).rev();
        let Some((_, run)) = older.next() else { return Ok(None) };
        let first = self.last(run.generation).map(|run| run.scheduled).next();
        Ok(Some((run.generation, first)))
    }

    fn trigger_of(&mut self, generation: i64) -> std::result::Result<Option<Timing>, Infallible> {
        let known = self.tables.triggers.get(&(self.id, generation));
        Ok(known.and_then(|(_, period)| period.when.timing().ok()))
    }

    fn ended(
        &mut self,
        part: LedgerPart,
        so: &EndedSo,
        most: usize,
    ) -> std::result::Result<Vec<EndedRow>, Infallible> {
        let is_in = |run: &&Execution| (part.from..part.before).contains(&run.scheduled);
        let ended = self.last(part.generation).filter(is_in).filter(|run| is_so(run, so));
        Ok(ended.map(row).take(most).collect())
    }

    fn reaching_in(
        &mut self,
        part: LedgerPart,
        so: &EndedSo,
    ) -> std::result::Result<Option<EndedRow>, Infallible> {
        let before = self.last(part.generation).filter(|run| run.scheduled < part.from).last();
        let reaches = |run: &&Execution| run.until.is_some_and(|until| until >= part.from);
        Ok(before.filter(reaches).filter(|run| is_so(run, so)).map(row))
    }

    fn planned_at(
        &mut self,
        generation: i64,
        times: &[Timestamp],
    ) -> std::result::Result<Vec<(Timestamp, RerunFate, StoodAs)>, Infallible> {
        let found = self.last(generation).filter(|run| times.contains(&run.scheduled));
        Ok(found.map(|run| (run.scheduled, fate(run), was(run))).collect())
    }

    fn reruns(
        &mut self,
        generation: i64,
        (first, last): (Timestamp, Timestamp),
    ) -> std::result::Result<Vec<(Timestamp, RerunFate)>, Infallible> {
        let mut found: BTreeMap<Timestamp, (bool, bool)> = BTreeMap::new();
        for (_, run) in self.tables.ledger(self.id) {
            let is_in = run.generation == generation && (first..=last).contains(&run.scheduled);
            if is_in && self.tables.is_rerun(run) && !self.tables.hooks.forgets_reruns {
                let (has_succeeded, is_open) = found.entry(run.scheduled).or_default();
                *has_succeeded |= run.is(ExecutionState::Succeeded);
                *is_open |= fate(run) == RerunFate::Open;
            }
        }
        let fates = found
            .into_iter()
            .map(|(at, (has_succeeded, is_open))| (at, RerunFate::of_all(has_succeeded, is_open)));
        Ok(fates.collect())
    }
}
