//! Executions that somebody asks for.

use super::rows::Run;
use super::tables::Tables;
use crate::domain::{ExecutionState, Reason, Token};
use crate::store::Result;
use crate::store::order::{Ordered, RunOrder};

impl Tables {
    pub(super) fn order(&mut self, order: &RunOrder) -> Result<Ordered> {
        let Some(schedule) = self.schedule_named(&order.application, &order.schedule) else {
            return Ok(Ordered::Unknown);
        };
        let Some(row) = self.schedule(schedule).cloned() else { return Ok(Ordered::Unknown) };
        if let Some(refusal) = Ordered::refusal(row.state.as_ref()) {
            return Ok(refusal);
        }
        let due = order.at.unwrap_or(self.now);
        let run = Run {
            schedule,
            application: row.application,
            generation: row.generation,
            origin: self.record(&order.entry()),
            scheduled: due,
            until: None,
            count: 1,
            attempt: 1,
            state: ExecutionState::Pending.as_str().into(),
            reason: Reason::ByHand.as_str().into(),
            payload: order.payload.as_deref().map(Into::into),
            due,
            token: Some(Token::fresh()),
            fence: 0,
            node: None,
            claimed: None,
            started: None,
            finished: None,
            prev: None,
            following: None,
            error: String::new(),
        };
        self.insert_run(run).map(Ordered::Pending)
    }

    /// Who asked for the executions of this origin, and why.
    pub(super) fn ordered_by(&self, origin: i64) -> Option<(String, String)> {
        let row = self.audit.iter().find(|row| row.id == origin);
        let by = row.map_or_else(Default::default, |row| (row.actor.clone(), row.reason.clone()));
        (origin != 0).then_some(by)
    }
}
