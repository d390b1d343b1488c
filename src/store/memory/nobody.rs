//! Jobs that nobody can run.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::rows::{Job, Node, Schedule};
use super::tables::{Index, Tables};
use crate::domain::{Activity, ExecutionId, JobId, ScheduleState};
use crate::store::nobody::{MOST_COUNTED, MOST_JOBS, NobodyQuery, UnservedJob};

impl Tables {
    pub(super) fn nobody(&self, query: &NobodyQuery) -> Vec<UnservedJob> {
        let Some(index) = self.index(&query.application) else { return Vec::new() };
        let found = self.unserved(index, &query.application).map(|(id, job, is_nobodys)| {
            let (schedules, waiting) = match is_nobodys {
                true => (self.active_of_job(index, id), self.waiting_of_job(index, id, query)),
                false => (0, 0),
            };
            UnservedJob { id, name: Arc::clone(&job.name), schedules, waiting, seen: job.nobody }
        });
        found
            .filter(|it| it.schedules > 0 || it.waiting > 0 || it.seen.since.is_some())
            .take(MOST_JOBS)
            .collect()
    }

    /// The active jobs that no live node lists and claims, and those whose rows say that nobody can run them;
    /// each with whether it is one of the former.
    pub(super) fn unserved<'t>(
        &'t self,
        index: &'t Index,
        application: &str,
    ) -> impl Iterator<Item = (JobId, &'t Job, bool)> + use<'t> {
        let claims =
            |node: &&Node| *node.application == *application && node.ended.is_none() && node.state == "Y";
        let listed: BTreeSet<&str> =
            self.nodes.values().filter(claims).flat_map(|node| &node.jobs).map(String::as_str).collect();
        index.jobs.values().filter_map(move |id| {
            let job = self.jobs.get(id)?;
            let is_nobodys =
                Activity::read(&job.state, true) == Activity::Active && !listed.contains(&*job.name);
            (is_nobodys || job.nobody.since.is_some()).then_some((*id, job, is_nobodys))
        })
    }

    fn active_of_job(&self, index: &Index, job: JobId) -> i64 {
        let is_active = |row: &&Schedule| row.job() == job && row.is(ScheduleState::Active);
        let rows = index.schedules.values().filter_map(|id| self.schedule(*id));
        rows.filter(is_active).take(MOST_COUNTED).count() as i64
    }

    fn waiting_of_job(&self, index: &Index, job: JobId, query: &NobodyQuery) -> i64 {
        let due = index.pending.iter().filter(|(due, _)| *due <= query.now);
        let is_of = |run: &i64| {
            let row = self.run(ExecutionId(*run)).and_then(|run| self.schedule(run.schedule));
            row.is_some_and(|row| row.job() == job)
        };
        due.filter(|(_, run)| is_of(run)).take(MOST_COUNTED).count() as i64
    }
}
