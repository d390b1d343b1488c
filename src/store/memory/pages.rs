//! Pages of schedules: all are looked at, in the order of the page.

use std::collections::BTreeMap;

use super::rows::Execution;
use super::tables::Tables;
use crate::domain::{Activity, ExecutionId, ScheduleId, ScheduleState};
use crate::store::past::{PastRow, occurrences};
use crate::store::schedules::{Among, SchedulePage, ScheduleQuery, ScheduleSketch};

impl Tables {
    pub(super) fn schedule_page(&self, query: &ScheduleQuery) -> SchedulePage {
        let mut found: Vec<_> = self
            .sketches(&query.application)
            .filter(|sketch| self.is_among(query, sketch))
            .map(|sketch| (query.key(&sketch), sketch))
            .filter(|(key, _)| query.after.as_ref().is_none_or(|after| key > after))
            .collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let (mut page, all) = (SchedulePage::default(), found.len());
        for (key, sketch) in found {
            let is_admitted = query.admits(&sketch);
            if page.looked == query.look || is_admitted && page.rows.len() == query.limit {
                return page;
            }
            page.looked += 1;
            let row = self.schedule(sketch.id).filter(|_| is_admitted);
            page.rows.extend(row.map(|row| self.schedule_row(sketch.id, row)));
            page.next = Some(key).filter(|_| page.looked < all);
        }
        page
    }

    pub(super) fn count_by_job(&self, application: &str, most: usize) -> Vec<(String, usize)> {
        let jobs = self.index(application).into_iter().flat_map(|index| index.jobs.keys());
        let mut counts: BTreeMap<String, usize> = jobs.map(|job| (job.to_string(), 0)).collect();
        for sketch in self.sketches(application).filter(|it| it.state == ScheduleState::Active.stored()) {
            counts.entry(sketch.job).and_modify(|count| *count = (*count + 1).min(most));
        }
        counts.into_iter().collect()
    }

    pub(super) fn past(&self, schedules: &[ScheduleId], most: usize) -> Vec<PastRow> {
        let of = |schedule: &ScheduleId| {
            let newest = self.schedule(schedule.0).map_or(0, |row| row.generation);
            let is_past = move |run: &Execution| run.origin == 0 && run.generation >= newest - 1;
            self.ledger(schedule.0).filter(move |(_, run)| is_past(run))
        };
        let row = |(id, run): (ExecutionId, &Execution)| PastRow {
            schedule: ScheduleId(run.schedule),
            id: id.0,
            generation: run.generation,
            scheduled: run.scheduled,
            until: run.until,
            count: run.count,
            attempt: run.attempt.into(),
            state: run.state.to_string(),
            reason: run.reason.to_string(),
            due: run.due,
            started: run.started,
            finished: run.finished,
        };
        occurrences(schedules.iter().flat_map(of).map(row).collect(), most)
    }

    fn sketches<'t>(&'t self, application: &str) -> impl Iterator<Item = ScheduleSketch> + 't {
        self.schedule_rows(Some(application)).into_iter().map(|row| ScheduleSketch {
            id: row.id,
            name: row.name,
            job: row.job,
            state: row.state,
            paused_by: row.pause.by,
            description: row.settings.description.to_string(),
            owner: row.ownership.owner,
            next: row.next,
        })
    }

    /// Whether the schedule is where the query looks.
    fn is_among(&self, query: &ScheduleQuery, it: &ScheduleSketch) -> bool {
        match &query.among {
            Among::All | Among::InState(_) | Among::ActiveOf(_) => true,
            Among::Ids(ids) => ids.contains(&it.id),
            Among::Unmet => self.expected.get(&it.id).is_some_and(|row| row.unmet.is_some()),
            Among::Due { jobs, from, until } => {
                let job = self.index(&query.application).and_then(|index| index.jobs.get(it.job.as_str()));
                let job = job.and_then(|id| self.jobs.get(id));
                jobs.contains(&it.job)
                    && it.state == ScheduleState::Active.stored()
                    && job.is_some_and(|job| Activity::read(&job.state, true) == Activity::Active)
                    && it.next.is_some_and(|next| next >= *from && next < *until)
            }
        }
    }
}
