//! Claims and their endings.

use super::commits::RowKey;
use super::hooks::{SlotFault, Touch};
use super::rows::{Execution, matches};
use super::tables::Tables;
use crate::domain::{
    Bounds, Candidate, Cause, Cursor, Entry, Error, ExecutionId, ExecutionState, JobId, NextFire, Noted,
    Occurrence, Pending, Room, ScheduleState, Token,
};
use crate::store::columns::{Column, Datum};
use crate::store::{Blocked, Claim, ClaimRequest, Claimed, IfNotMade, Result, Unstarted, guard};

impl Tables {
    /// One request, as a savepoint of its batch.
    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Claim {
        if self.is_candidate_held(&request.candidate) {
            return Claim::Skipped;
        }
        let bounded = self.bounds_of(request.candidate.entry());
        let group = request.candidate.group().map(|group| &**group);
        let mut begins = self.now;
        if let Some((job, bounds)) = bounded {
            if self.is_job_held(job) {
                return Claim::Busy;
            }
            let mut room = self.room(job, bounds);
            begins = room.begins(request.candidate.due());
            if let Err(full) = room.take(group) {
                return Claim::Full(full);
            }
        }
        let claimed = self.atomically(|tables| match &request.candidate {
            Candidate::Planned(occurrence) => tables.claim_planned(request, occurrence),
            Candidate::Pending(pending) => tables.claim_pending(request, pending),
        });
        match claimed {
            Ok(Some(claimed)) => {
                if let Some((job, _)) = bounded {
                    self.touch(Touch::Bounds, RowKey::Job(job));
                }
                if let Some((job, _)) = bounded.filter(|(_, bounds)| bounds.apply_to(group)) {
                    let noted = (group.map(str::to_owned), begins);
                    self.bounded.insert((job, claimed.execution().0), noted);
                }
                Claim::Won(claimed)
            }
            Ok(None) => self.blocked(&request.candidate).map_or(Claim::Lost, Claim::Blocked),
            Err(error) => Claim::Failed(failed(error, request)),
        }
    }

    /// As `claim`, for a request whose first answer was lost.
    pub(super) fn resolve(&mut self, request: &ClaimRequest, if_not_made: IfNotMade) -> Claim {
        match self.carrying(request) {
            Some((id, fence)) => Claim::Won(Claimed::won(request, id, fence)),
            None if if_not_made == IfNotMade::Claim && request.candidate.entry().bounds.is_none() => {
                match self.claim(request) {
                    Claim::Blocked(_) => {
                        if !self.is_broken(SlotFault::InDoubt) {
                            self.give_up(&request.candidate);
                        }
                        Claim::Lost
                    }
                    claim => claim,
                }
            }
            None if self.is_candidate_held(&request.candidate) => Claim::Skipped,
            None => {
                self.give_up(&request.candidate);
                Claim::Lost
            }
        }
    }

    /// Whether another transaction holds the row that a claim locks first.
    fn is_candidate_held(&self, candidate: &Candidate) -> bool {
        match candidate {
            Candidate::Pending(pending) if pending.entry.is_queue => self.is_execution_held(pending.id),
            _ => self.is_held(candidate.entry().id),
        }
    }

    /// The entry's job and its bounds, if it has some.
    fn bounds_of(&self, entry: &Entry) -> Option<(JobId, Bounds)> {
        let row = self.schedule(entry.id.0).filter(|_| !entry.bounds.is_none())?;
        let bounds = self.hooks.bounds(self.jobs.get(&row.job())?.settings.policy.bounds);
        (!bounds.is_none()).then_some((row.job(), bounds))
    }

    /// What is left of a job's bounds. Executions that do not count any more are forgotten.
    fn room(&mut self, job: JobId, bounds: Bounds) -> Room {
        let mut noted = Vec::new();
        for (key, (group, begins)) in self.bounded.range((job, i64::MIN)..=(job, i64::MAX)) {
            let runs = self.is_under_way(ExecutionId(key.1));
            noted.push((*key, Noted { group: group.clone(), begins: *begins, runs }));
        }
        let (room, over) = Room::of_noted(bounds, self.now, noted);
        over.iter().for_each(|(key, _)| self.bounded.remove(key));
        room
    }

    fn is_under_way(&self, execution: ExecutionId) -> bool {
        let is_owned = |run: &Execution| run.is(ExecutionState::Claimed) || run.is(ExecutionState::Running);
        self.stuck.contains_key(&execution.0) || self.run(execution).is_some_and(is_owned)
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
        if self.holder(id, None).is_some() {
            return Ok(None);
        }
        let Some(fence) = self.fence_behind(row.fence) else { return Ok(None) };
        let run = Execution {
            generation: row.generation,
            token: Some(request.token),
            fence,
            node: Some(request.node),
            claimed: Some(request.now),
            started: request.started(),
            waited_for: request.waited.clone(),
            prev: occurrence.prev,
            following: occurrence.following.column(),
            ..Execution::new(id, &row.application, occurrence.at, owned_state(request))
        };
        self.edit_schedule(id, |row| {
            row.move_to(Cursor { prev: Some(occurrence.at), next: occurrence.following });
            row.fence = fence;
            row.take_slot((row.generation, 0, occurrence.at));
            row.triggered = row.triggered.saturating_add(1);
            if occurrence.following == NextFire::Never {
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
        if row.is_queue() {
            let Some(fence) = self.fence_behind(run.fence) else { return Ok(None) };
            return Ok(Some(self.take(request, pending, fence)));
        }
        if self.holder_of_pending(pending).is_some() {
            return Ok(None);
        }
        let Some(fence) = self.fence_behind(row.fence) else { return Ok(None) };
        let slot = (run.generation, run.origin, run.scheduled);
        self.edit_schedule(schedule, |row| {
            row.fence = fence;
            row.take_slot(slot);
        });
        self.refuse_if_asked(schedule)?;
        Ok(Some(self.take(request, pending, fence)))
    }

    /// Gives a PENDING execution to who claims it.
    fn take(&mut self, request: &ClaimRequest, pending: &Pending, fence: i64) -> Claimed {
        self.edit_run(pending.id, |run| {
            run.state = owned_state(request).as_str().into();
            run.token = Some(request.token);
            run.fence = fence;
            run.node = Some(request.node);
            run.claimed = Some(request.now);
            run.started = request.started();
            run.waited_for = request.waited.clone().or_else(|| run.waited_for.take());
        });
        Claimed::won(request, pending.id, fence)
    }

    /// Who keeps the slot of a schedule whose executions must not overlap, but for this one.
    pub(super) fn holder(&self, schedule: i64, but: Option<ExecutionId>) -> Option<ExecutionId> {
        let row = self.schedule(schedule)?;
        let may_overlap = !row.has_slot();
        let generation = row.generation;
        let slot = row.slot.filter(|_| !may_overlap && !self.takes_any_slot(but))?;
        self.attempts_at(schedule, slot)
            .find(|(id, run)| Some(*id) != but && run.keeps_slot(generation) && !self.loses_slot(run))
            .map(|(id, _)| id)
    }

    /// Who keeps the slot of a PENDING execution's schedule, or comes before it in its rerun.
    fn holder_of_pending(&self, pending: &Pending) -> Option<ExecutionId> {
        let schedule = pending.entry.id.0;
        self.holder(schedule, Some(pending.id)).or_else(|| {
            let is_rerun = matches!(pending.cause, Cause::Rerun { .. });
            self.schedule(schedule).filter(|row| is_rerun && row.has_slot())?;
            let comes_before = |it: &Execution| {
                (it.generation, it.origin) == (pending.generation, pending.origin)
                    && it.scheduled < pending.scheduled
            };
            let before = self.ledger(schedule).rev().find(|(_, it)| comes_before(it));
            before.filter(|(_, it)| it.keeps_slot(pending.generation)).map(|(id, _)| id)
        })
    }

    /// Who keeps a candidate whose guard matches from being claimed.
    fn blocked(&self, candidate: &Candidate) -> Option<Blocked> {
        let entry = candidate.entry();
        let (matches, holder) = match candidate {
            Candidate::Planned(occurrence) => (self.is_claimable(occurrence), self.holder(entry.id.0, None)),
            Candidate::Pending(pending) => (self.is_takeable(pending), self.holder_of_pending(pending)),
        };
        let holder = holder.filter(|_| matches)?;
        let unstarted = |execution: ExecutionId| {
            let run = self.run(execution).filter(|run| execution != holder && run.origin == 0)?;
            Some(Unstarted { schedule: entry.id, execution, token: run.token? })
        };
        let waiting = match candidate {
            Candidate::Planned(_) => self.waiting(entry.id.0),
            Candidate::Pending(_) => Vec::new(),
        };
        let waiting = waiting.into_iter().filter_map(unstarted).take(entry.overlap.most_waiting());
        let is_late = self.run(holder).is_some_and(Execution::is_late);
        Some(Blocked { holder, is_late, waiting: waiting.collect() })
    }

    /// Whether a planned claim's guard matches.
    fn is_claimable(&self, occurrence: &Occurrence) -> bool {
        let id = occurrence.entry.id.0;
        let seen = |column| match column {
            Column::Id => Datum::Number(id),
            Column::State => Datum::Text(ScheduleState::Active.stored()),
            Column::PrevFireTime => Datum::time(occurrence.prev),
            Column::NextFireTime => Datum::instant(occurrence.at),
            Column::Version => Datum::Number(occurrence.entry.version),
            _ => column.absent(Datum::Null),
        };
        self.schedule(id).is_some_and(|row| matches(&guard::CLAIM, |column| row.value(id, column), seen))
    }

    /// Whether the guard of a PENDING execution's claim matches.
    fn is_takeable(&self, pending: &Pending) -> bool {
        let seen = seen_execution(pending.id, ExecutionState::Pending, pending.token);
        let is = |run: &Execution| matches(&guard::TAKE, |column| run.value(pending.id.0, column), seen);
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

/// Sabotages.
impl Tables {
    fn is_broken(&self, fault: SlotFault) -> bool {
        self.hooks.slot_fault == Some(fault)
    }

    fn takes_any_slot(&self, pending: Option<ExecutionId>) -> bool {
        let is_planned = pending.is_none();
        self.is_broken(if is_planned { SlotFault::ByPlanned } else { SlotFault::ByPending })
    }

    fn loses_slot(&self, run: &Execution) -> bool {
        run.is(ExecutionState::Pending) && self.is_broken(SlotFault::OfRetries)
            || run.is(ExecutionState::TimedOut) && self.is_broken(SlotFault::OfTheStuck)
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
