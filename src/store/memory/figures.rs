//! A cluster's figures.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{Expected, Schedule};
use super::tables::Tables;
use crate::domain::{Activity, ExecutionId, ExecutionState, ScheduleState, Timestamp};
use crate::store::figures::{
    DEATHS_SHOWN, Figures, FiguresQuery, LONGEST_LOOK, LastSuccess, MOST_INTERVALS, MOST_JOBS,
    MOST_SCHEDULES, MOST_WAITING, REPAIRED, SchedulesAlike,
};
use crate::trigger::AWAITED;

impl Tables {
    pub(super) fn figures(&self, query: &FiguresQuery) -> Figures {
        let application = query.application.as_str();
        let app = self.apps.get(application);
        let (ended, nodes): (Vec<_>, Vec<_>) =
            self.node_rows(Some(application)).into_iter().partition(|node| node.ended.is_some());
        let has_died = |ended: &(Timestamp, String)| ended.0 >= query.now - DEATHS_SHOWN && ended.1 == "dead";
        let mut figures = Figures {
            at: query.now,
            app_is_paused: app.is_some_and(|app| Activity::read(&app.state, false) != Activity::Active),
            nodes,
            died: ended.iter().filter(|node| node.ended.as_ref().is_some_and(has_died)).count() as i64,
            unmet: self.unmet(application),
            schedules: self.schedules_alike(query),
            waiting: BTreeMap::new(),
            jobs_left_out: 0,
            successes: Vec::new(),
            left_out: 0,
        };
        let index = self.index(application);
        let active = index.into_iter().flat_map(|index| index.schedules.values());
        let active = active.filter_map(|id| Some((*id, self.schedule(*id)?)));
        let active = active.filter(|(_, row)| row.is(ScheduleState::Active));
        let all: Vec<LastSuccess> = active.map(|(id, row)| self.last_success_of(id, row)).collect();
        figures.left_out = all.len().saturating_sub(MOST_SCHEDULES) as i64;
        figures.successes = all.into_iter().take(MOST_SCHEDULES).collect();
        let jobs = || index.into_iter().flat_map(|index| index.jobs.keys());
        figures.jobs_left_out = jobs().count().saturating_sub(MOST_JOBS) as i64;
        let known: BTreeSet<&str> = jobs().take(MOST_JOBS).map(|name| &**name).chain([""]).collect();
        for (due, run) in index.into_iter().flat_map(|index| &index.pending).filter(|it| it.0 <= query.now) {
            let row = self.run(ExecutionId(*run)).and_then(|run| self.schedule(run.schedule));
            let job = row.and_then(|row| self.jobs.get(&row.job()));
            let job = job.map(|job| job.name.to_string()).unwrap_or_default();
            if !known.contains(job.as_str()) {
                continue;
            }
            let so_far = figures.waiting.get(&job).map_or(0, |of| of.executions);
            figures.add_waiting(job, i64::from(so_far < MOST_WAITING as i64), *due);
        }
        figures
    }

    fn unmet(&self, application: &str) -> i64 {
        let is_unmet = |row: &&Expected| *row.application == *application && row.unmet.is_some();
        self.expected.values().filter(is_unmet).count() as i64
    }

    fn schedules_alike(&self, query: &FiguresQuery) -> Vec<SchedulesAlike> {
        let mut alike: BTreeMap<SchedulesAlike, (i64, i64)> = BTreeMap::new();
        let index = self.index(&query.application);
        let rows = index.into_iter().flat_map(|index| index.schedules.values());
        for row in rows.filter_map(|id| self.schedule(*id)) {
            if row.is_queue() || row.is(ScheduleState::Removed) {
                continue;
            }
            let job = self.jobs.get(&row.job());
            let threshold = row.settings.threshold.unwrap_or_default();
            let is_overdue = row.next.is_some_and(|next| next < query.now - REPAIRED - threshold);
            let key = SchedulesAlike {
                job: job.map(|job| job.name.to_string()).unwrap_or_default(),
                job_is_paused: job.is_some_and(|job| Activity::read(&job.state, true) == Activity::Paused),
                state: row.state.to_string(),
                contained: &*row.paused_by == "firetime",
                schedules: 0,
                overdue: 0,
            };
            let counts = alike.entry(key).or_default();
            *counts = (counts.0 + 1, counts.1 + i64::from(is_overdue));
        }
        let counted = |(key, (schedules, overdue))| SchedulesAlike { schedules, overdue, ..key };
        alike.into_iter().map(counted).collect()
    }

    fn last_success_of(&self, id: i64, row: &Schedule) -> LastSuccess {
        let prev = row.prev.map_or(0, Timestamp::millis);
        let next = row.next.map(Timestamp::millis).filter(|next| *next > prev && *next < AWAITED);
        let interval = next.map(|next| next - prev);
        let span = interval.map_or(LONGEST_LOOK, |interval| interval.saturating_mul(MOST_INTERVALS));
        let since = Timestamp::at(prev.saturating_sub(span));
        let runs = self.runs.values().filter(|run| {
            run.schedule == id
                && (run.generation, run.origin) == (row.generation, 0)
                && run.state == ExecutionState::Succeeded.as_str()
                && run.scheduled >= since
        });
        let last = runs.max_by_key(|run| (run.scheduled, run.attempt));
        LastSuccess { schedule: row.name.to_string(), ended: last.and_then(|run| run.finished) }
    }
}
