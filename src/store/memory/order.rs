//! Executions that somebody asks for, or asks to cancel.

use super::commits::RowKey;
use super::hooks::Touch;
use super::rows::Execution;
use super::tables::Tables;
use crate::domain::headers;
use crate::domain::{Error, ErrorKind, ExecutionId, ExecutionState, Reason, Token};
use crate::store::audit::Attribution;
use crate::store::order::{Cancel, CancelRow, ExecutionOrder, KeyAndTags, Ordered, Retry, RunOrder};
use crate::store::{Applied, ExecutionChange, Result, Transition};

impl Tables {
    pub(super) fn order(&mut self, order: &RunOrder) -> Result<Ordered> {
        let Some(schedule) = self.schedule_named(&order.application, &order.schedule) else {
            return Ok(Ordered::Unknown);
        };
        let Some(row) = self.schedule(schedule).cloned() else { return Ok(Ordered::Unknown) };
        if let Some(refusal) = Ordered::refusal(row.state.as_ref()) {
            return Ok(refusal);
        }
        self.touch(Touch::RunNow, RowKey::Schedule(schedule));
        let due = order.at.unwrap_or(self.now);
        let asked = (self.record(&order.entry()), Reason::ByHand);
        let run = Execution {
            generation: row.generation,
            payload: order.payload.as_deref().map(Into::into),
            headers: headers::column(&order.headers).map(Into::into),
            ..Execution::asked(schedule, &row.application, due, asked)
        };
        self.insert_run(run).map(Ordered::Pending)
    }

    /// Who asked for the executions of this origin, and why.
    pub(super) fn ordered_by(&self, origin: i64) -> Option<(String, String)> {
        let row = self.audit.get(&origin);
        let by = row.map_or_else(Default::default, |row| (row.actor.clone(), row.reason.clone()));
        (origin != 0).then_some(by)
    }
}

impl Tables {
    pub(super) fn cancel(&mut self, order: &ExecutionOrder) -> Result<Cancel> {
        let Some(run) = self.run(order.execution).cloned() else { return Ok(Cancel::Unknown) };
        if *run.application != *order.application {
            return Ok(Cancel::Unknown);
        }
        let key = run.key.as_ref().map(|(key, _)| key.to_string());
        let has = KeyAndTags { key, tags: run.tags.clone() };
        if !has.have(&order.wanted) {
            return Ok(Cancel::Differs(has));
        }
        let name = self.schedule(run.schedule).map(|row| row.name.to_string()).unwrap_or_default();
        let (answer, state) = match run.state.parse() {
            Ok(state @ (ExecutionState::Pending | ExecutionState::Claimed)) => {
                let Some(token) = run.token else { return Ok(Cancel::Unknown) };
                let cancel = Transition::Cancel(Reason::Cancelled);
                let change = ExecutionChange::of(order.execution, token, cancel, self.now);
                let run_end = self.plans(&run);
                if self.apply(&[ExecutionChange { run_end, ..change }.into()])? != [Applied::Done] {
                    let message = "another transaction holds the row of its schedule";
                    return Err(Error::new(ErrorKind::Unavailable, message));
                }
                (Cancel::Done, state)
            }
            Ok(state @ ExecutionState::Running) => self.ask(state, &run, order),
            Ok(state @ ExecutionState::TimedOut) if run.finished.is_none() => self.ask(state, &run, order),
            ended => {
                return match self.last_behind(&run) {
                    Some(execution) => self.cancel(&ExecutionOrder { execution, ..order.clone() }),
                    None => Ok(Cancel::Ended(ended.ok())),
                };
            }
        };
        if !matches!(answer, Cancel::Asked { is_new: false, .. }) {
            self.record(&order.cancel_entry(&name, state));
        }
        Ok(answer)
    }

    /// The last of the attempts that followed this one.
    fn last_behind(&self, run: &Execution) -> Option<ExecutionId> {
        let attempts = self.attempts_at(run.schedule, (run.generation, run.origin, run.scheduled));
        let later = attempts.filter(|(_, it)| it.attempt > run.attempt);
        later.max_by_key(|(_, it)| it.attempt).map(|(id, _)| id)
    }

    /// Asks for the end of one whose handler runs.
    fn ask(
        &mut self,
        state: ExecutionState,
        run: &Execution,
        order: &ExecutionOrder,
    ) -> (Cancel, ExecutionState) {
        let node = run.node.map(|node| node.to_string()).unwrap_or_default();
        (Cancel::Asked { node, is_new: self.ask_for_its_end(order) }, state)
    }

    /// Whether the request is new.
    pub(super) fn ask_for_its_end(&mut self, order: &ExecutionOrder) -> bool {
        let is_new = !self.cancels.contains_key(&order.execution.0);
        let Attribution { actor, reason } = order.by.clone();
        let row = CancelRow { asked: self.now, actor, reason, seen: None };
        self.touch(Touch::Cancel, RowKey::Execution(order.execution.0));
        self.cancels.row(order.execution.0, || row);
        is_new
    }

    pub(super) fn retry(&mut self, order: &ExecutionOrder) -> Result<Retry> {
        let Some(run) = self.run(order.execution).cloned() else { return Ok(Retry::Unknown) };
        if *run.application != *order.application {
            return Ok(Retry::Unknown);
        }
        let key = run.key.clone().map(|(key, period)| (run.schedule, key, period));
        let other = key.as_ref().filter(|key| self.keys.get(*key) != Some(&run.origin));
        if let Some(keeper) = other.and_then(|key| self.keeper(key)) {
            return Ok(Retry::KeyTaken(keeper));
        }
        let row = self.schedule(run.schedule);
        let schedule = row.map(|row| row.state.to_string()).unwrap_or_default();
        let name = row.map(|row| row.name.to_string()).unwrap_or_default();
        let state = run.state.parse().ok();
        if let Some(refusal) = Retry::refusal(state, &schedule) {
            return Ok(refusal);
        }
        let Some(state) = state else { return Ok(Retry::State(None)) };
        if self.last_behind(&run).is_some() {
            return Ok(Retry::Followed);
        }
        if self.stuck.contains_key(&order.execution.0) {
            return Ok(Retry::State(Some(ExecutionState::Running)));
        }
        let due = self.now.max(run.scheduled);
        let again = run.again((Reason::ByHand.as_str(), Reason::Retry.as_str()), due, Token::fresh());
        self.record(&order.retry_entry(&name, state, i64::from(again.attempt)));
        let origin = again.origin;
        self.touch(Touch::Retry, RowKey::Execution(order.execution.0));
        let id = self.insert_run(again)?;
        if let Some(key) = key {
            self.touch(Touch::Key, RowKey::Key(key.clone()));
            self.keys.insert(key, origin);
        }
        Ok(Retry::Pending(id))
    }

    pub(super) fn saw_cancels(&mut self, executions: &[ExecutionId]) {
        let now = self.now;
        for execution in executions {
            if let Some(row) = self.cancels.get_mut(&execution.0) {
                row.seen.get_or_insert(now);
            }
        }
    }
}
