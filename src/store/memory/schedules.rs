//! What clients do with schedules, and what people see of them.

use std::sync::Arc;

use super::rows::{Run, Schedule, Shape};
use super::tables::Tables;
use crate::domain::{Cursor, Entry, Error, Kind, Millis, ScheduleState, shards};
use crate::store::when::{self, NONE, Present, When};
use crate::store::{Definition, Ensured, ExecutionQuery, ExecutionRow, Result, ScheduleRow};
use crate::trigger::{Timing, Trigger};

impl Tables {
    pub(super) fn ensure(&mut self, definition: &Definition) -> Result<Ensured> {
        if let Some(problem) = definition.oversized() {
            return Err(senseless(definition, problem));
        }
        let timing = timing(definition, self.now)?;
        let columns = when::storable(&timing, self.now).map_err(|problem| senseless(definition, problem))?;
        let job = self.put_job(&definition.application, &definition.job);
        match self.schedule_named(&definition.application, &definition.name) {
            None => Ok(self.create(definition, job, &timing, columns)),
            Some(id) => self.change(id, definition, job, (&timing, columns)),
        }
    }

    fn create(&mut self, definition: &Definition, job: i64, timing: &Timing, columns: When) -> Ensured {
        let Cursor { prev, next } = when::planned(timing, None, self.present(definition));
        let row = Schedule {
            application: self.application(&definition.application),
            name: definition.name.as_str().into(),
            shard: shards::of(&definition.name),
            job,
            payload: definition.payload.as_str().into(),
            state: state_at(next).as_str().into(),
            shape: Arc::new(columns.into()),
            prev: Some(prev.unwrap_or(NONE)),
            next: Some(next.unwrap_or(NONE)),
            triggered: 0,
            version: 0,
            generation: 0,
            fence: 0,
            priority: definition.priority.into(),
            misfire: definition.misfire.as_str().into(),
            threshold: definition.threshold,
            reason: "".into(),
            paused_by: "".into(),
            paused: None,
            paused_until: None,
        };
        let id = self.fresh_id();
        self.put_schedule(id, row);
        Ensured::Created
    }

    fn change(
        &mut self,
        id: i64,
        definition: &Definition,
        job: i64,
        (timing, columns): (&Timing, When),
    ) -> Result<Ensured> {
        let Some(row) = self.schedule(id) else { return Ok(Ensured::Unchanged) };
        let same_trigger = row.shape.columns.same(&columns, is_anchored(definition));
        let stays_broken = same_trigger && row.is(ScheduleState::Error);
        if same_trigger && same_rest(row, definition, job) {
            return Ok(if stays_broken { Ensured::Quarantined } else { Ensured::Unchanged });
        }
        for (column, value) in [("version", row.version), ("generation", row.generation)] {
            when::count(column, value).map_err(|problem| unreadable(definition, &problem))?;
        }
        let prev = row.prev.filter(|prev| *prev != NONE && !row.is(ScheduleState::Error));
        let cursor = when::planned(timing, prev, self.present(definition));
        self.edit_schedule(id, |row| {
            row.job = job;
            row.payload = definition.payload.as_str().into();
            row.priority = definition.priority.into();
            row.misfire = definition.misfire.as_str().into();
            row.threshold = definition.threshold;
            row.version += 1;
            if !same_trigger {
                row.shape = Arc::new(Shape::from(columns));
                retime(row, cursor);
            }
        });
        Ok(if stays_broken { Ensured::Quarantined } else { Ensured::Changed })
    }

    fn present(&self, definition: &Definition) -> Present {
        let app = self.apps.get(definition.application.as_str());
        Present { now: self.now, ledger_from: app.map_or(NONE, |app| app.ledger_from) }
    }

    pub(super) fn find(&self, application: &str, name: &str) -> Result<Option<Entry>> {
        let found = self.schedule_named(application, name).and_then(|id| self.entry(id));
        found.transpose().map_err(|reason| {
            Error::new(Kind::Data, format!("schedule {name:?} of {application:?}: {reason}"))
        })
    }

    pub(super) fn schedule_rows(&self, application: Option<&str>) -> Vec<ScheduleRow> {
        let ids = self.indexes(application).flat_map(|index| index.schedules.values());
        ids.filter_map(|id| Some(self.schedule_row(*id, self.schedule(*id)?))).collect()
    }

    fn schedule_row(&self, id: i64, row: &Schedule) -> ScheduleRow {
        let some = |time: Option<Millis>| time.filter(|time| *time != NONE);
        ScheduleRow {
            id,
            application: row.application.to_string(),
            name: row.name.to_string(),
            job: self.jobs.get(&row.job).map(|job| job.name.to_string()).unwrap_or_default(),
            state: row.state.to_string(),
            trigger: row.shape.columns.describe(),
            prev: some(row.prev),
            next: some(row.next),
            triggered: row.triggered,
            version: row.version,
            reason: row.reason.to_string(),
            paused_by: row.paused_by.to_string(),
            paused: row.paused,
        }
    }

    pub(super) fn execution_rows(&self, query: &ExecutionQuery) -> Vec<ExecutionRow> {
        let of_schedule = |run: &Run| {
            let name = self.schedule(run.schedule).map(|row| &*row.name);
            query.schedule.as_deref().is_none_or(|only| name == Some(only))
        };
        let wanted = self.runs().filter(|(_, run)| is_wanted(run, query) && of_schedule(run));
        wanted.take(query.limit).map(|(id, run)| self.execution_row(id, run)).collect()
    }

    fn execution_row(&self, id: i64, run: &Run) -> ExecutionRow {
        let row = self.schedule(run.schedule);
        let job = row.and_then(|row| self.jobs.get(&row.job));
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
        }
    }
}

/// What a definition asks for of a row made now.
fn timing(definition: &Definition, now: Millis) -> Result<Timing> {
    let anchor = if is_anchored(definition) { None } else { Some(now) };
    Timing::new(definition.trigger.clone(), definition.start.or(anchor), definition.end)
        .map_err(|error| senseless(definition, error))
}

fn senseless(definition: &Definition, problem: impl std::fmt::Display) -> Error {
    Error::new(Kind::Config, format!("schedule {:?}: {problem}", definition.name))
}

fn unreadable(definition: &Definition, problem: &str) -> Error {
    Error::new(Kind::Data, format!("schedule {:?}: {problem}: mend the row by hand", definition.name))
}

/// Whether the definition says by itself when its trigger starts.
fn is_anchored(definition: &Definition) -> bool {
    match &definition.trigger {
        Trigger::Simple(simple) => simple.start_ms().or(definition.start).is_some(),
        Trigger::Cron(_) => true,
    }
}

fn same_rest(row: &Schedule, definition: &Definition, job: i64) -> bool {
    row.job == job
        && *row.payload == *definition.payload
        && row.priority == i64::from(definition.priority)
        && row.misfire == definition.misfire.as_str()
        && row.threshold == definition.threshold
}

/// A new trigger plans anew, in a generation of its own; a pause stays a pause.
fn retime(row: &mut Schedule, cursor: Cursor) {
    row.generation += 1;
    row.prev = Some(cursor.prev.unwrap_or(NONE));
    row.next = Some(cursor.next.unwrap_or(NONE));
    if cursor.next.is_none() || !(row.is(ScheduleState::Paused) || row.is(ScheduleState::Init)) {
        row.put(state_at(cursor.next));
    }
}

fn state_at(next: Option<Millis>) -> ScheduleState {
    if next.is_some() { ScheduleState::Active } else { ScheduleState::Complete }
}

fn is_wanted(run: &Run, query: &ExecutionQuery) -> bool {
    let node = run.node.map(|node| node.to_string());
    query.application.as_deref().is_none_or(|only| only == &*run.application)
        && (query.states.is_empty() || query.states.iter().any(|state| run.is(*state)))
        && query
            .node
            .as_deref()
            .is_none_or(|start| node.as_deref().is_some_and(|node| node.starts_with(start)))
        && query.since.is_none_or(|since| run.scheduled >= since)
}
