//! The table of changes on the tables in memory.

use std::sync::Arc;

use super::rows::{Execution, Schedule};
use super::tables::Tables;
use crate::domain::{
    ExecutionId, ExecutionState, JobId, Millis, NextFire, NodeId, Reason, ScheduleId, ScheduleState,
    Timestamp, after_run,
};
use crate::store::audit::AuditEntry;
use crate::store::change::{AfterRun, Seen, WithdrawChange};
use crate::store::columns::{Column, Datum, NO_TIME, NONE};
use crate::store::order::ExecutionOrder;
use crate::store::rules::{ChangeKind, ChangeValue, HeldRow, Rule, Set};
use crate::store::switch::{SwitchChange, SwitchRow};
use crate::store::transition::RunEnd;
use crate::store::withdrawn::{OldPlan, Withdrawal};
use crate::store::{
    Applied, Change, Completed, ExecutionChange, LedgerRow, Move, RemoveChange, Repair, Result, when,
};

impl Tables {
    /// The changes of one transaction, in the order of [`ChangeKind`].
    pub(super) fn apply(&mut self, changes: &[Change]) -> Result<Vec<Applied>> {
        let mut order: Vec<usize> = (0..changes.len()).collect();
        order.sort_by_key(|index| changes[*index].kind());
        let mut applied = vec![Applied::Lost; changes.len()];
        for index in order {
            applied[index] = self.apply_one(&changes[index])?;
        }
        Ok(applied)
    }

    /// Unless somebody has asked for its end.
    pub(super) fn complete(&mut self, outcome: &ExecutionChange) -> Result<Completed> {
        if self.cancels.contains_key(&outcome.execution.0) {
            return Ok(Completed::Cancelled);
        }
        self.apply_one(&outcome.clone().into()).map(Completed::from)
    }

    fn apply_one(&mut self, change: &Change) -> Result<Applied> {
        let withdrawal = self.withdrawal(change);
        let applied = self.apply_guarded(change)?;
        if applied.is_done() {
            self.withdraw_due(withdrawal, None)?;
        }
        Ok(applied)
    }

    /// One change and, if it is made, its record.
    pub(super) fn apply_audited(&mut self, change: &Change, entry: &AuditEntry) -> Result<Applied> {
        let withdrawal = self.withdrawal(change);
        let applied = self.apply_guarded(change)?;
        if applied.is_done() {
            let audit = self.record(entry);
            self.withdraw_due(withdrawal, Some(audit))?;
        }
        Ok(applied)
    }

    /// What a removal withdraws, if it is made.
    fn withdrawal(&self, change: &Change) -> Option<Withdrawal> {
        let Change::Remove(removal) = change else { return None };
        let RemoveChange { seen, now, .. } = removal;
        let row = self.schedule(seen.id.0).filter(|_| removal.may_withdraw())?;
        let (state, generation, when) = (&seen.state, row.generation, &row.shape.columns);
        let old = OldPlan { id: seen.id, state, generation, prev: row.prev, next: row.next, when };
        old.withdrawn(Reason::Removed, *now)
    }

    /// A row of the ledger for what a change withdraws, if anything. A cursor set back by hand leads to
    /// occurrences that have a row: the change is made all the same.
    pub(super) fn withdraw_due(&mut self, withdrawal: Option<Withdrawal>, audit: Option<i64>) -> Result<()> {
        let Some(withdrawal) = withdrawal.filter(|_| !self.hooks.forgets_withdrawn) else { return Ok(()) };
        let Some(row) = self.schedule(withdrawal.id.0) else { return Ok(()) };
        let Withdrawal { id, generation, from, to, count, prev, following, reason, now } = withdrawal;
        let application = Arc::clone(&row.application);
        self.follow_up(Execution {
            generation,
            until: Some(to),
            count: i64::try_from(count).unwrap_or(i64::MAX),
            reason: reason.as_str().into(),
            finished: Some(now),
            prev,
            following: following.column(),
            holder: audit,
            ..Execution::new(id.0, &application, from, ExecutionState::Withdrawn)
        })
    }

    /// The change, with all that follows it but what a removal withdraws.
    fn apply_guarded(&mut self, change: &Change) -> Result<Applied> {
        let is_held = change.schedule().is_some_and(|id| self.is_held(id));
        if is_held && change.rule().held == HeldRow::Leave {
            return Ok(Applied::Lost);
        }
        let done = match change {
            Change::Execution(execution) => return self.change_execution(change, execution),
            Change::Repair(repair) => return self.repair(change, repair),
            Change::Pause(pause) | Change::Contain(pause) => {
                let application = self.schedule(pause.id.0).map(|row| Arc::clone(&row.application));
                let done = self.change_schedule(change, pause.id.0);
                if done {
                    self.note_pause_end(application.as_deref().unwrap_or_default(), pause.until);
                }
                done
            }
            Change::AfterRun(plan) => self.change_schedule(change, plan.schedule.0),
            Change::Switch(switch) => self.change_switch(change, switch),
            Change::Nobody(nobody) => self.change_job(change, nobody.job),
            Change::Expected(expected) => self.change_expected(change, expected.schedule),
            Change::PauseEnd(end) => self.change_app(change, &end.application),
            Change::Quarantine(broken) => self.change_schedule(change, broken.seen.id.0),
            Change::Remove(removal) => {
                let done = self.change_schedule(change, removal.seen.id.0);
                if done {
                    let last = self.schedule(removal.seen.id.0).and_then(|row| row.prev);
                    self.end_trigger(removal.seen.id.0, &removal.seen.state, last, removal.now);
                    self.withdraw(removal.seen.id, removal.now);
                }
                done
            }
            Change::Replace(replacement) => self.change_run(change, replacement.execution),
            Change::Withdraw(withdraw) => self.change_run(change, withdraw.execution),
            Change::Policy(policy) => self.change_job(change, policy.job),
            Change::End(end) => self.change_node(change, end.node),
        };
        Ok(done.into())
    }

    fn change_execution(&mut self, change: &Change, execution: &ExecutionChange) -> Result<Applied> {
        let id = execution.execution;
        if execution.ends_run().is_some_and(|end| self.is_held(end.schedule)) {
            return Ok(Applied::of_held(execution));
        }
        if change.rule().only_asks() || !self.change_run(change, id) {
            let is_it =
                |run: &Execution| run.is(execution.becomes()) && run.token == Some(execution.token_after());
            let is_so = change.rule().repeats && self.run(id).is_some_and(is_it);
            if is_so {
                self.count_again(execution);
            }
            return Ok(is_so.into());
        }
        match execution.kind() {
            ChangeKind::TimeOut => self.stuck.insert(id.0, ()),
            ChangeKind::Release => self.stuck.remove(&id.0),
            _ => {}
        }
        self.count_outcome(execution);
        let ends = self.cancels.contains_key(&id.0) && !self.hooks.follows_cancelled;
        let next = execution.transition.next().filter(|_| !ends);
        if let (Some(next), Some(run)) = (next, self.run(id)) {
            self.follow_up(run.again((next.reason.as_str(), next.reason.as_str()), next.due, next.token))?;
        }
        if execution.ends_run().is_some() && self.hooks.plans_nothing != Some(execution.kind()) {
            self.plan_behind_run(id, execution.now);
        }
        Ok(Applied::Done)
    }

    /// If the schedule of an execution fires again some time after its end: its id and that delay.
    pub(super) fn plans(&self, run: &Execution) -> Option<RunEnd> {
        let when = &self.schedule(run.schedule)?.shape.columns;
        let delay = when.repeat_interval.filter(|_| when.job_type == "DELAY" && run.origin == 0)?;
        Some(RunEnd { schedule: ScheduleId(run.schedule), delay })
    }

    /// A run has ended now, unless another attempt follows: its schedule may wait for that.
    fn plan_behind_run(&mut self, execution: ExecutionId, now: Timestamp) {
        let Some(run) = self.run(execution).cloned() else { return };
        let (at, slot) = (run.scheduled, (run.generation, 0, run.scheduled));
        let Some(row) = self.schedule(run.schedule) else { return };
        let is_there = !row.is(ScheduleState::Removed);
        let awaits =
            is_there && run.origin == 0 && row.prev == Some(at) && row.next == NextFire::AfterRun.column();
        let columns = &row.shape.columns;
        let some = |time: Option<Millis>| time.map(Timestamp::at).filter(|time| *time != NO_TIME);
        let (delay, window) = (columns.repeat_interval, (some(columns.start_time), some(columns.end_time)));
        let goes_on = self.attempts_at(run.schedule, slot).any(|(_, run)| run.keeps_slot(run.generation));
        let Some(delay) = delay.filter(|_| awaits && !goes_on) else { return };
        let next = after_run(delay, window, at, now);
        let schedule = ScheduleId(run.schedule);
        self.change_schedule(&Change::AfterRun(AfterRun { schedule, at, next }), run.schedule);
        let attempts: Vec<ExecutionId> = self.attempts_at(run.schedule, slot).map(|(id, _)| id).collect();
        for attempt in attempts {
            self.edit_run(attempt, |run| run.following = next);
        }
    }

    fn repair(&mut self, change: &Change, repair: &Repair) -> Result<Applied> {
        let Some(row) = self.schedule(repair.id.0).cloned() else { return Ok(Applied::Lost) };
        if !self.change_schedule(change, repair.id.0) {
            return Ok(Applied::Lost);
        }
        if repair.how == Move::Anew {
            self.end_trigger(repair.id.0, repair.state.stored(), repair.cursor.prev, repair.now);
            self.begin_trigger(repair.id.0, repair.now);
        }
        for unstarted in &repair.supersede {
            // What began meanwhile stays.
            self.apply_one(&unstarted.supersede(repair.now).into())?;
        }
        for line in &repair.rows {
            self.insert_run(ledger_run(&row, repair, line))?;
        }
        if let Some(execution) = repair.replaces.and_then(|_| self.holder(repair.id.0, None)) {
            self.cancel(&ExecutionOrder::replaced(&row.application, execution))?;
        }
        Ok(Applied::Done)
    }

    fn change_schedule(&mut self, change: &Change, id: i64) -> bool {
        let now = self.now;
        let row = self.schedule(id);
        let Some(after) = row.and_then(|row| after(change, now, |column| row.value(id, column))) else {
            return false;
        };
        self.edit_schedule(id, |row| after.into_iter().for_each(|(column, value)| row.set(column, value)))
    }

    /// The PENDING executions of a removed schedule end with it.
    pub(super) fn withdraw(&mut self, schedule: ScheduleId, now: Timestamp) {
        let all: Vec<ExecutionId> = self.ledger(schedule.0).map(|(id, _)| id).collect();
        for execution in all {
            self.change_run(&Change::Withdraw(WithdrawChange { execution, now }), execution);
        }
    }

    pub(super) fn change_run(&mut self, change: &Change, id: ExecutionId) -> bool {
        let now = self.now;
        let run = self.run(id);
        let Some(after) = run.and_then(|run| after(change, now, |column| run.value(id.0, column))) else {
            return false;
        };
        self.edit_run(id, |run| after.into_iter().for_each(|(column, value)| run.set(column, value)))
    }

    fn change_switch(&mut self, change: &Change, switch: &SwitchChange) -> bool {
        match &switch.seen.row {
            SwitchRow::Job(id, _) => self.change_job(change, *id),
            SwitchRow::Node(id) => self.change_node(change, *id),
            SwitchRow::Application(name) => self.change_app(change, name),
        }
    }

    pub(super) fn change_app(&mut self, change: &Change, name: &str) -> bool {
        let now = self.now;
        let Some(app) = self.apps.get_mut(name) else { return false };
        let after = after(change, now, |column| app.value(name, column));
        let done = after.is_some();
        after.into_iter().flatten().for_each(|(column, value)| app.set(column, value));
        done
    }

    fn change_node(&mut self, change: &Change, id: NodeId) -> bool {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&id) else { return false };
        let after = after(change, now, |column| node.value(id, column));
        let done = after.is_some();
        after.into_iter().flatten().for_each(|(column, value)| node.set(column, value));
        done
    }

    fn change_expected(&mut self, change: &Change, id: ScheduleId) -> bool {
        let now = self.now;
        let Some(row) = self.expected.get_mut(&id.0) else { return false };
        let after = after(change, now, |column| row.value(id.0, column));
        let done = after.is_some();
        after.into_iter().flatten().for_each(|(column, value)| row.set(column, value));
        done
    }

    fn change_job(&mut self, change: &Change, id: JobId) -> bool {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        let after = after(change, now, |column| job.value(id.0, column));
        let done = after.is_some();
        after.into_iter().flatten().for_each(|(column, value)| job.set(column, value));
        done
    }
}

/// The values that a change assigns to a row; none if the row is not as it was seen. As in SQL, NULL equals
/// nothing.
fn after<'row, 'change>(
    change: &'change Change,
    now: Timestamp,
    row: impl Fn(Column) -> Datum<'row>,
) -> Option<Vec<(Column, Datum<'change>)>> {
    let rule = change.rule();
    let is_seen = rule.guard.columns().all(|column| is_seen(rule, change, column, row(column)));
    let assigned = |(column, set): &(Column, Set)| {
        assigned(*set, change, row(*column), now).map(|value| (*column, value))
    };
    is_seen.then(|| rule.assignments().filter_map(assigned).collect())
}

fn is_seen(rule: &Rule, change: &Change, column: Column, value: Datum<'_>) -> bool {
    if column == Column::State && rule.from.len() > 1 {
        return rule.from.iter().any(|state| value == Datum::Text(state.as_str()));
    }
    match (change.seen(column), value) {
        (Seen::Same(seen), value) => value != Datum::Null && value == seen,
        (Seen::Loosely(seen), Datum::Number(number)) => number == seen,
        (Seen::Loosely(seen), _) => seen == NONE,
        (Seen::NoState, Datum::Text(state)) => ScheduleState::read(state).is_err(),
        (Seen::NoState, _) => true,
        (Seen::Not(state), value) => value != Datum::Null && value != Datum::Text(state.stored()),
    }
}

/// What a column becomes; none if it stays as it is.
fn assigned<'a>(set: Set, change: &'a Change, old: Datum<'_>, now: Timestamp) -> Option<Datum<'a>> {
    let count = if let Datum::Number(number) = old { number } else { NONE };
    Some(match set {
        Set::Word(word) => Datum::Text(word),
        Set::NoTime => Datum::time(None),
        Set::Give(value) => change.brings(value),
        Set::Unless(none, value) => {
            Some(change.brings(value)).filter(|it| *it != none).unwrap_or(Datum::Null)
        }
        Set::Clock => Datum::instant(now),
        Set::OneMore => Datum::Number(count + 1),
        Set::Tally => Datum::Number(count.max(0) + 1),
        Set::Recount => Datum::Number(when::count("version", count).map_or(0, |version| version + 1)),
        Set::More(value) => match change.brings(value) {
            Datum::Number(more) => Datum::Number(count.saturating_add(more)),
            other => other,
        },
        Set::CompleteWithoutNext => {
            let is_open = [ScheduleState::Active, ScheduleState::Paused].map(|it| Datum::Text(it.stored()));
            let ends = change.brings(ChangeValue::ToNext) == Datum::time(None) && is_open.contains(&old);
            return ends.then_some(Datum::Text(ScheduleState::Complete.stored()));
        }
        Set::EmptyOn(state, reasons) => {
            let is_one = reasons.iter().any(|reason| old == Datum::Text(reason.as_str()));
            let becomes = change.brings(ChangeValue::Becomes) == Datum::Text(state.as_str());
            return (is_one && becomes).then_some(Datum::Text(""));
        }
    })
}

fn ledger_run(row: &Schedule, repair: &Repair, line: &LedgerRow) -> Execution {
    let line = repair.columns_of(line);
    Execution {
        generation: repair.generation,
        until: line.until,
        count: line.occurrences,
        reason: line.reason.as_str().into(),
        cause: line.cause.map(Reason::as_str),
        due: line.due,
        token: line.token,
        finished: line.finished,
        prev: line.prev,
        following: line.following,
        holder: line.holder.map(|it| it.0),
        ..Execution::new(line.id, &row.application, line.at, line.state)
    }
}
