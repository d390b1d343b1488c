//! Claims and what becomes of them.

use super::rows::{Run, Text, matches};
use super::tables::Tables;
use crate::domain::{
    Candidate, Cursor, Error, ExecutionId, ExecutionState, Occurrence, Pending, ScheduleState, Token,
};
use crate::store::change::Datum;
use crate::store::columns::Column;
use crate::store::{Claim, ClaimRequest, Claimed, Result, guard};

impl Tables {
    /// One request, as a savepoint of its batch.
    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Claim {
        if self.is_held(request.candidate.entry().id) {
            return Claim::Skipped;
        }
        let claimed = self.atomically(|tables| match &request.candidate {
            Candidate::Planned(occurrence) => tables.claim_planned(request, occurrence),
            Candidate::Pending(pending) => tables.claim_pending(request, pending),
        });
        match claimed {
            Ok(Some(claimed)) => Claim::Won(claimed),
            Ok(None) => Claim::Lost,
            Err(error) => Claim::Failed(failed(error, request)),
        }
    }

    /// As `claim`, for a request whose first answer was lost.
    pub(super) fn resolve(&mut self, request: &ClaimRequest, claims: bool) -> Claim {
        match self.carrying(request) {
            Some((id, fence)) => Claim::Won(Claimed::won(request, id, fence)),
            None if claims => self.claim(request),
            None if self.is_held(request.candidate.entry().id) => Claim::Skipped,
            None => {
                self.give_up(&request.candidate);
                Claim::Lost
            }
        }
    }

    /// Changes what the candidate's guard compares, if it still matches.
    fn give_up(&mut self, candidate: &Candidate) {
        match candidate {
            Candidate::Planned(occurrence) if self.is_claimable(occurrence) => {
                self.edit_schedule(occurrence.entry.id.0, |row| row.version += 1);
            }
            Candidate::Pending(pending) if self.is_takeable(pending) => {
                self.edit_run(pending.id, |run| run.token = Some(Token::fresh()));
            }
            Candidate::Planned(_) | Candidate::Pending(_) => {}
        }
    }

    /// The execution that carries the request's token and is still the request's.
    fn carrying(&self, request: &ClaimRequest) -> Option<(ExecutionId, i64)> {
        self.owned().get(&Some(request.node))?.iter().find_map(|id| {
            let id = ExecutionId(*id);
            let run = self.run(id)?;
            let mine = run.schedule == request.candidate.entry().id.0 && run.token == Some(request.token);
            mine.then_some((id, run.fence))
        })
    }

    fn claim_planned(&mut self, request: &ClaimRequest, occurrence: &Occurrence) -> Result<Option<Claimed>> {
        let id = occurrence.entry.id.0;
        let Some(row) = self.schedule(id).filter(|_| self.is_claimable(occurrence)) else { return Ok(None) };
        let Some(fence) = row.fence.checked_add(1) else { return Ok(None) };
        let state = owned_state(request);
        let run = Run {
            schedule: id,
            application: row.application.clone(),
            generation: row.generation,
            origin: 0,
            scheduled: occurrence.at,
            until: None,
            count: 1,
            attempt: 1,
            state: state.as_str().into(),
            reason: Text::default(),
            cause: None,
            payload: None,
            due: occurrence.at,
            token: Some(request.token),
            fence,
            node: Some(request.node),
            claimed: Some(request.now),
            started: request.started(),
            finished: None,
            prev: occurrence.prev,
            following: occurrence.following,
            error: String::new(),
            failures: 0,
            snoozes: 0,
        };
        self.edit_schedule(id, |row| {
            row.move_to(Cursor { prev: Some(occurrence.at), next: occurrence.following });
            row.fence = fence;
            row.triggered = row.triggered.saturating_add(1);
            if occurrence.following.is_none() {
                row.put(ScheduleState::Complete);
            }
        });
        self.refuse_if_asked(id)?;
        let execution = self.insert_run(run)?;
        Ok(Some(Claimed::won(request, execution, fence)))
    }

    fn claim_pending(&mut self, request: &ClaimRequest, pending: &Pending) -> Result<Option<Claimed>> {
        let schedule = pending.entry.id.0;
        let (Some(row), Some(run)) = (self.schedule(schedule), self.run(pending.id)) else { return Ok(None) };
        if run.schedule != schedule || !self.lets_run(schedule, run.origin) || !self.is_takeable(pending) {
            return Ok(None);
        }
        let Some(fence) = row.fence.checked_add(1) else { return Ok(None) };
        self.edit_schedule(schedule, |row| row.fence = fence);
        self.refuse_if_asked(schedule)?;
        self.edit_run(pending.id, |run| {
            run.state = owned_state(request).as_str().into();
            run.token = Some(request.token);
            run.fence = fence;
            run.node = Some(request.node);
            run.claimed = Some(request.now);
            run.started = request.started();
        });
        Ok(Some(Claimed::won(request, pending.id, fence)))
    }

    /// Whether a planned claim's guard matches.
    fn is_claimable(&self, occurrence: &Occurrence) -> bool {
        let id = occurrence.entry.id.0;
        let seen = |column| match column {
            Column::Id => Datum::Number(id),
            Column::State => Datum::Text(ScheduleState::Active.as_str()),
            Column::PrevFireTime => Datum::time(occurrence.prev),
            Column::NextFireTime => Datum::Number(occurrence.at),
            Column::Version => Datum::Number(occurrence.entry.version),
            _ => column.absent(Datum::Null),
        };
        self.schedule(id).is_some_and(|row| matches(&guard::CLAIM, |column| row.value(id, column), seen))
    }

    /// Whether the guard of a PENDING execution's claim matches.
    fn is_takeable(&self, pending: &Pending) -> bool {
        let seen = seen_execution(pending.id, ExecutionState::Pending, pending.token);
        let is = |run: &Run| matches(&guard::TAKE, |column| run.value(pending.id.0, column), seen);
        self.run(pending.id).is_some_and(is)
    }

    /// Whether a schedule's state lets its PENDING executions run: a pause holds the planned ones.
    pub(super) fn lets_run(&self, schedule: i64, origin: i64) -> bool {
        self.schedule(schedule).is_some_and(|row| {
            row.is(ScheduleState::Active)
                || row.is(ScheduleState::Complete)
                || (origin != 0 && row.is(ScheduleState::Paused))
        })
    }
}

/// The values a guard of an execution compares with.
fn seen_execution(id: ExecutionId, state: ExecutionState, token: Token) -> impl Fn(Column) -> Datum<'static> {
    move |column| match column {
        Column::Id => Datum::Number(id.0),
        Column::State => Datum::Text(state.as_str()),
        Column::ClaimToken => Datum::Uuid(token.0),
        _ => column.absent(Datum::Null),
    }
}

fn owned_state(request: &ClaimRequest) -> ExecutionState {
    if request.at_once { ExecutionState::Running } else { ExecutionState::Claimed }
}

fn failed(error: Error, request: &ClaimRequest) -> Error {
    error.during(&format!("claiming schedule {}", request.candidate.entry().id))
}
