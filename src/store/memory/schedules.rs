//! The clients' changes of schedules, and the views of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::rows::{Execution, Schedule, Shape};
use super::tables::Tables;
use crate::domain::headers;
use crate::domain::{
    Cause, Entry, Error, ErrorKind, ExecutionState, JobId, ScheduleId, ScheduleState, Timestamp, shards,
};
use crate::store::columns::{NO_TIME, NONE, Settings};
use crate::store::definition::{Edit, PlannedRow, StoredSchedule, WorkedOut};
use crate::store::when::{self, Present};
use crate::store::{
    Definition, Ensured, ExecutionQuery, ExecutionRow, ListPlace, PauseRow, Result, ScheduleRow, SeenSchedule,
};

impl Tables {
    pub(super) fn ensure(&mut self, definition: &Definition) -> Result<Ensured> {
        let senseless = |problem: String| refused(definition, ErrorKind::Config, &problem);
        definition.check().map_err(senseless)?;
        let timing = definition.timing(self.now).map_err(|error| senseless(error.to_string()))?;
        let when = when::storable(&timing, self.now).map_err(senseless)?;
        let app = self.apps.get(definition.application.as_str());
        let present = Present { now: self.now, ledger_from: app.map_or(NO_TIME, |app| app.ledger_from) };
        let wanted = WorkedOut { definition, timing, when, present };
        let id = self.schedule_named(&definition.application, &definition.name);
        let stored = id.and_then(|id| Some((id, self.stored(id)?)));
        let job = match definition.only_if.admits(stored.as_ref().map(|(_, stored)| stored)) {
            true => self.put_job(&definition.application, &definition.job),
            // The job of what is not changed is not made: without one the rows differ.
            false => self.known_job(&definition.application, &definition.job).unwrap_or(JobId(NONE)),
        };
        let settings = definition.settings(job);
        match stored {
            None if !definition.only_if.admits(None) => Ok(Ensured::Differs),
            None => self.create(&wanted, settings),
            Some((id, stored)) => self.change((id, &stored), &wanted, settings),
        }
    }

    pub(super) fn stored(&self, id: i64) -> Option<StoredSchedule> {
        let row = self.schedule(id)?;
        Some(StoredSchedule {
            state: row.state.to_string(),
            version: row.version,
            generation: row.generation,
            prev: row.prev,
            next: row.next,
            settings: row.settings.clone(),
            when: row.shape.columns.clone(),
            ownership: row.ownership.clone(),
        })
    }

    pub(super) fn create(&mut self, wanted: &WorkedOut<'_>, settings: Settings) -> Result<Ensured> {
        let refused = |problem: String| refused(wanted.definition, ErrorKind::Config, &problem);
        let PlannedRow { cursor, state } = wanted.created().map_err(refused)?;
        let app = self.apps.get(wanted.definition.application.as_str());
        let fence = app.map_or(0, |app| app.fence_from);
        let definition = wanted.definition;
        let name = (self.application(&definition.application), definition.name.as_str());
        let row = Schedule {
            shard: shards::of(&definition.name),
            prev: Some(cursor.prev.unwrap_or(NO_TIME)),
            next: Some(cursor.next.column().unwrap_or(NO_TIME)),
            fence,
            ownership: definition.author.ownership(),
            ..Schedule::new(name, state.into(), settings, wanted.when.clone().into())
        };
        let id = self.fresh_id();
        self.put_schedule(id, row);
        self.begin_trigger(id, self.now);
        self.record(&wanted.creation());
        Ok(Ensured::Created)
    }

    pub(super) fn change(
        &mut self,
        (id, stored): (i64, &StoredSchedule),
        wanted: &WorkedOut<'_>,
        settings: Settings,
    ) -> Result<Ensured> {
        let is_removed = stored.is_removed();
        if is_removed {
            wanted.created().map_err(|problem| refused(wanted.definition, ErrorKind::Config, &problem))?;
        }
        let becomes = wanted.becomes(stored, settings);
        let (edit, ensured) = wanted.edit(stored, &becomes).map_err(|problem| {
            refused(wanted.definition, ErrorKind::Data, &format!("{problem}: mend the row by hand"))
        })?;
        if matches!(edit, Edit::None) {
            return Ok(ensured);
        }
        let difference = wanted.difference(stored, &becomes);
        let withdrawal = wanted.withdrawal(ScheduleId(id), stored, &edit);
        let retimes = matches!(edit, Edit::Retime(_));
        let clears = is_removed || retimes && stored.state == ScheduleState::Error.stored();
        self.edit_schedule(id, |row| {
            row.settings = becomes.settings;
            row.ownership = becomes.ownership;
            row.version += 1;
            if let Edit::Retime(PlannedRow { cursor, state }) = edit {
                row.shape = Arc::new(Shape::from(wanted.when.clone()));
                row.generation += 1;
                row.move_to(cursor);
                row.state = state.into();
            }
            if clears {
                (row.reason, row.paused_by) = ("".into(), "".into());
                (row.paused, row.paused_until) = (None, None);
            }
        });
        if is_removed {
            self.withdraw(ScheduleId(id), self.now);
        }
        if retimes {
            self.end_trigger(id, &stored.state, stored.prev, self.now);
            self.begin_trigger(id, self.now);
        }
        let audit = self.record(&difference);
        self.withdraw_due(withdrawal, Some(audit))?;
        Ok(ensured)
    }

    pub(super) fn seen(&self, application: &str, name: &str) -> Option<SeenSchedule> {
        let id = self.schedule_named(application, name)?;
        let row = self.schedule(id)?;
        let (version, state) = (row.version, row.state.to_string());
        let next = row.next.filter(|next| *next != NO_TIME);
        Some(SeenSchedule { id: ScheduleId(id), version, state, next })
    }

    pub(super) fn find(&self, application: &str, name: &str) -> Result<Option<Entry>> {
        let found = self.schedule_named(application, name).and_then(|id| self.entry(id));
        found.transpose().map_err(|reason| {
            Error::new(ErrorKind::Data, format!("schedule {name:?} of {application:?}: {reason}"))
        })
    }

    pub(super) fn schedule_rows(&self, application: Option<&str>) -> Vec<ScheduleRow> {
        let ids = self.indexes(application).flat_map(|index| index.schedules.values());
        let rows = ids.filter_map(|id| Some((*id, self.schedule(*id)?)));
        let shown = rows.filter(|(_, row)| !row.is(ScheduleState::Removed) && !row.is_queue());
        shown.map(|(id, row)| self.schedule_row(id, row)).collect()
    }

    pub(super) fn schedule_row(&self, id: i64, row: &Schedule) -> ScheduleRow {
        let some = |time: Option<Timestamp>| time.filter(|time| *time != NO_TIME);
        let job = self.jobs.get(&row.job());
        ScheduleRow {
            id,
            application: row.application.to_string(),
            name: row.name.to_string(),
            job: job.map(|job| job.name.to_string()).unwrap_or_default(),
            unmet: self.expected.get(&id).and_then(|row| row.unmet),
            nobody: job.and_then(|job| job.nobody.since),
            state: row.state.to_string(),
            settings: row.settings.clone(),
            when: row.shape.columns.clone(),
            prev: some(row.prev),
            next: some(row.next),
            triggered: row.triggered,
            version: row.version,
            pause: PauseRow {
                by: row.paused_by.to_string(),
                reason: row.reason.to_string(),
                since: row.paused,
                until: row.paused_until,
            },
            ownership: row.ownership.clone(),
        }
    }

    pub(super) fn execution_rows(&self, query: &ExecutionQuery) -> Vec<ExecutionRow> {
        let of_schedule = |run: &Execution| {
            let row = self.schedule(run.schedule);
            let job = row.and_then(|row| self.jobs.get(&row.job()));
            query.schedule.as_deref().is_none_or(|only| row.is_some_and(|row| &*row.name == only))
                && query.job.as_deref().is_none_or(|only| job.is_some_and(|job| &*job.name == only))
        };
        let has_key = |run: &Execution| {
            let Some((own, period)) = &run.key else { return false };
            self.keys.get(&(run.schedule, Arc::clone(own), *period)) == Some(&run.origin)
                && query.key.as_deref() == Some(&**own)
        };
        let of_key = |run: &Execution| query.key.is_none() || has_key(run);
        let occurrence = |run: &Execution| (run.schedule, run.generation, run.origin, run.scheduled);
        let of = query.of.map(|id| self.run(id).map(occurrence));
        let is_of = |run: &Execution| of.is_none_or(|of| of == Some(occurrence(run)));
        let place = |id: i64, run: &Execution| ListPlace { scheduled: run.scheduled, id };
        let follows = |id: i64, run: &Execution| {
            query.after.is_none_or(|after| query.order(after, place(id, run)).is_lt())
        };
        let wanted = self.runs().filter(|(id, run)| follows(*id, run) && is_wanted(run, query) && is_of(run));
        let wanted = wanted.filter(|(_, run)| of_schedule(run) && of_key(run));
        let is_last = |run: &Execution| !query.last || self.is_last_attempt(run);
        let wanted = wanted.filter(|(_, run)| is_last(run));
        let mut wanted: Vec<_> = wanted.collect();
        match query.late {
            Some(_) => wanted.sort_by_key(|(_, run)| run.due),
            None => wanted.sort_by(|(a, one), (b, other)| query.order(place(*a, one), place(*b, other))),
        }
        wanted.into_iter().take(query.limit).map(|(id, run)| self.execution_row(id, run)).collect()
    }

    fn is_last_attempt(&self, run: &Execution) -> bool {
        let occurrence = |run: &Execution| (run.generation, run.origin, run.scheduled);
        let follows = |it: &Execution| occurrence(it) == occurrence(run) && it.attempt > run.attempt;
        !self.ledger(run.schedule).any(|(_, it)| follows(it))
    }

    pub(super) fn counts(&self, schedule: ScheduleId, most: usize) -> Vec<(String, i64)> {
        let mut runs: Vec<&Execution> = self.ledger(schedule.0).map(|(_, run)| run).collect();
        runs.sort_by_key(|run| Reverse((run.generation, run.origin, run.scheduled, run.attempt)));
        let mut counts = BTreeMap::new();
        for run in runs.into_iter().take(most) {
            *counts.entry(run.state.to_string()).or_default() += run.count;
        }
        counts.into_iter().collect()
    }

    fn execution_row(&self, id: i64, run: &Execution) -> ExecutionRow {
        let row = self.schedule(run.schedule);
        let job = row.and_then(|row| self.jobs.get(&row.job()));
        ExecutionRow {
            id,
            application: run.application.to_string(),
            schedule: row.map(|row| row.name.to_string()).unwrap_or_default(),
            job: job.map(|job| job.name.to_string()).unwrap_or_default(),
            state: run.state.to_string(),
            reason: run.reason.to_string(),
            generation: run.generation,
            origin: run.origin,
            scheduled: run.scheduled,
            until: run.until,
            count: run.count,
            attempt: i64::from(run.attempt),
            node: run.node.map(|node| node.to_string()).unwrap_or_default(),
            claimed: run.claimed,
            started: run.started,
            finished: run.finished,
            error: run.error.clone(),
            cancel: self.cancels.get(&id).cloned(),
            cause: Cause::read(run.cause, self.ordered_by(run.origin)),
            fence: run.fence,
            due: run.due,
            payload: run.payload.as_deref().map(str::to_owned),
            headers: headers::read(run.headers.as_deref()),
            checkpoint: run.checkpoint.as_deref().map(str::to_owned),
            result: run.result.as_deref().map(str::to_owned),
            failures: i64::from(run.failures),
            snoozes: i64::from(run.snoozes),
            key: run.key.as_ref().map(|(key, _)| key.to_string()),
            group: run.group.as_deref().map(str::to_owned),
            lane: run.lane.as_deref().map(str::to_owned),
            tags: run.tags.clone(),
            stuck: self.stuck.contains_key(&id),
            holder: run.holder,
            waited_for: run.waited_for.as_ref().map(ToString::to_string),
            nobody: job.filter(|_| run.is(ExecutionState::Pending)).and_then(|job| job.nobody.since),
            held: run.is(ExecutionState::Pending)
                && run.origin == 0
                && row.is_some_and(|row| row.is(ScheduleState::Paused)),
        }
    }
}

pub(super) fn refused(definition: &Definition, kind: ErrorKind, problem: &str) -> Error {
    Error::new(kind, format!("schedule {:?}: {problem}", definition.name))
}

fn is_wanted(run: &Execution, query: &ExecutionQuery) -> bool {
    let node = run.node.map(|node| node.to_string());
    query.application.as_deref().is_none_or(|only| only == &*run.application)
        && (query.states.is_empty() || query.states.iter().any(|state| run.is(*state)))
        && query
            .node
            .as_deref()
            .is_none_or(|start| node.as_deref().is_some_and(|node| node.starts_with(start)))
        && query.since.is_none_or(|since| run.scheduled >= since || run.until.is_some_and(|it| it >= since))
        && query.until.is_none_or(|until| run.scheduled < until)
        && query.ended_since.is_none_or(|since| run.finished.is_some_and(|at| at >= since))
        && query.ended_until.is_none_or(|until| run.finished.is_some_and(|at| at < until))
        && query.late.is_none_or(|before| run.is(ExecutionState::Pending) && run.due < before)
        && query.group.as_deref().is_none_or(|only| run.group.as_deref() == Some(only))
        && query.tag.as_ref().is_none_or(|only| run.tags.contains(only))
        && query.reason.as_deref().is_none_or(|only| *run.reason == *only)
        && query.cause.as_deref().is_none_or(|only| Cause::read(run.cause, None).as_str() == only)
}
