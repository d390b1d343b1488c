//! What handlers say, and who waits for their ends.

use super::rows::Execution;
use super::tables::Tables;
use crate::domain::{ExecutionId, ExecutionState, Timestamp};
use crate::store::awaited::OpenOrEnded;
use crate::store::columns::{Column, Datum};
use crate::store::said::{Said, SaidBy};
use crate::store::{Applied, guard};

/// While a handler runs, and once its own run has ended.
const STATES: [ExecutionState; 3] =
    [ExecutionState::Running, ExecutionState::Succeeded, ExecutionState::TimedOut];

impl Tables {
    pub(super) fn say(&mut self, said: &[Said]) -> Vec<Applied> {
        said.iter().map(|it| self.say_one(it)).collect()
    }

    fn say_one(&mut self, said: &Said) -> Applied {
        let id = said.execution;
        let is_own = self.run(id).is_some_and(|run| {
            guard::SAY.columns().all(|column| match column {
                Column::State => STATES.iter().any(|state| run.is(*state)),
                Column::ClaimToken => run.value(id.0, column) == Datum::Uuid(said.token.0),
                _ => true,
            })
        });
        match is_own {
            true if self.is_execution_held(id) => Applied::Held,
            true => {
                let row = self.said.get(&id.0).cloned().unwrap_or_default().and(said);
                self.said.insert(id.0, row);
                Applied::Done
            }
            false => Applied::Lost,
        }
    }

    pub(super) fn said_by(&self, application: &str, execution: ExecutionId) -> Vec<SaidBy> {
        let Some(run) = self.run(execution).filter(|run| *run.application == *application) else {
            return Vec::new();
        };
        let said = |id: ExecutionId, attempt: u32| {
            let said = self.said.get(&id.0).cloned().unwrap_or_default();
            SaidBy { execution: id, attempt: attempt.into(), said }
        };
        let slot = (run.generation, run.origin, run.scheduled);
        self.attempts_at(run.schedule, slot).map(|(id, run)| said(id, run.attempt)).collect()
    }

    /// One that ran out of time goes on while its handler runs.
    pub(super) fn open_or_ended(
        &self,
        application: &str,
        executions: &[ExecutionId],
    ) -> Vec<(ExecutionId, OpenOrEnded)> {
        let is_open = |run: &Execution| match run.state.parse() {
            Ok(ExecutionState::TimedOut) => run.finished.is_none(),
            state => state.is_ok_and(|state: ExecutionState| !state.is_terminal()),
        };
        let known = executions.iter().filter_map(|id| {
            let run = self.run(*id).filter(|run| *run.application == *application)?;
            let slot = (run.generation, run.origin, run.scheduled);
            let open = self.attempts_at(run.schedule, slot).filter(|(_, run)| is_open(run)).last();
            Some((*id, open.map_or(OpenOrEnded::Ended, |(open, _)| OpenOrEnded::Open(open))))
        });
        known.collect()
    }

    /// Removes what was last said before, of executions that are gone.
    pub(super) fn forget_said(&mut self, before: Timestamp) {
        let old: Vec<i64> =
            self.said.iter().filter(|(_, said)| said.changed < before).map(|(id, _)| *id).collect();
        let gone = old.into_iter().filter(|id| self.run(ExecutionId(*id)).is_none());
        gone.collect::<Vec<_>>().iter().for_each(|id| self.said.remove(id));
    }
}
