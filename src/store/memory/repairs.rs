//! The searches and changes of the misfire handler.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::rows::{App, Execution};
use super::tables::{Index, Tables};
use crate::domain::{
    Attempt, Entry, ExecutionId, ExecutionState, JobId, JobPolicy, Millis, MisfirePolicy, NodeId, Reason,
    ScheduleId, ScheduleState, Timestamp,
};
use crate::store::columns::Column;
use crate::store::repairs::called;
use crate::store::{
    Applied, CursorAhead, OverduePage, OverdueQuery, Section, SeenSchedule, Stranded, StrandedPage,
    UnreadablePage, UnreadableQuery, UnreadableRow, Unstarted, Withdrawn, guard,
};
use crate::time::is_election_due;

impl Tables {
    pub(super) fn elect(&mut self, application: &str, now: Timestamp, interval: Millis) -> Applied {
        let application = self.application(application);
        let app = self.apps.row(application, App::default);
        let is_due = |column| match column {
            Column::Application => true,
            Column::TimeNext => is_election_due(Some(app.time_next), now, interval),
            _ => column.absent(false),
        };
        let due = guard::ELECT.columns().all(is_due);
        if due {
            (app.time_pre, app.time_next) = (now, now.saturating_add(interval));
        }
        due.into()
    }

    pub(super) fn is_enabled(&self, application: &str) -> bool {
        self.apps.get(application).is_some_and(|app| app.state == "Y")
    }

    pub(super) fn overdue(&self, query: &OverdueQuery) -> OverduePage {
        let (ids, next) = self.late(query);
        let entries: Vec<Entry> = ids.into_iter().filter_map(|id| self.entry(id)?.ok()).collect();
        let give_way = entries.iter().filter(|entry| entry.misfire == MisfirePolicy::FireOnce);
        let unstarted = give_way.flat_map(|entry| self.unstarted(entry.id)).collect();
        OverduePage { entries, unstarted, next }
    }

    /// What earlier misfire repairs of a schedule left PENDING.
    fn unstarted(&self, schedule: ScheduleId) -> impl Iterator<Item = Unstarted> {
        self.waiting(schedule.0).into_iter().filter_map(move |execution| {
            let run = self.run(execution).filter(|run| run.reason == Reason::Misfire.as_str())?;
            Some(Unstarted { schedule, execution, token: run.token? })
        })
    }

    /// The rows of a page, understood or not, and the sections of the next.
    fn late(&self, query: &OverdueQuery) -> (Vec<i64>, Vec<Section>) {
        let application = query.application.as_str();
        let Some(index) = self.index(application).filter(|_| self.is_enabled(application)) else {
            return (Vec::new(), Vec::new());
        };
        let sections = query.sections.clone().unwrap_or_else(|| self.sections_behind(index, query));
        let sections: Vec<Section> =
            sections.into_iter().filter(|section| self.is_served(application, section.job)).collect();
        let (mut rows, next) = self.share_out(index, &sections, query.limit);
        rows.sort_unstable();
        (rows.into_iter().map(|(_, id)| id).collect(), next)
    }

    fn sections_behind(&self, index: &Index, query: &OverdueQuery) -> Vec<Section> {
        let due = query.from..query.before;
        let behind = index.due.range((due.start, i64::MIN)..(due.end, i64::MIN).max((due.start, i64::MIN)));
        let late = behind.filter_map(|(_, id)| self.schedule(*id));
        let sections: BTreeSet<(JobId, i64)> = late.map(|row| (row.job(), row.shard)).collect();
        sections.into_iter().map(|(job, shard)| Section::new(job, shard, due.clone())).collect()
    }

    /// Whether the job is active and some live node of the application lists it.
    fn is_served(&self, application: &str, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| {
            let mut live = self.nodes.values().filter(|node| node.ended.is_none());
            job.state == ScheduleState::Active.stored()
                && live.any(|node| {
                    &*node.application == application && node.jobs.iter().any(|name| **name == *job.name)
                })
        })
    }

    pub(super) fn stranded(&self, application: &str, after: ExecutionId, limit: usize) -> StrandedPage {
        let lost = self.owned().iter().filter(|(node, _)| !self.is_live(**node));
        let mut page: Vec<(i64, &Execution)> = lost
            .flat_map(|(_, ids)| ids.iter().filter(|id| **id > after.0))
            .chain(self.stuck.keys().filter(|id| **id > after.0 && self.is_stuck_nowhere(**id)))
            .filter_map(|id| Some((*id, self.run(ExecutionId(*id))?)))
            .filter(|(_, run)| &*run.application == application)
            .collect();
        page.sort_unstable_by_key(|(id, _)| *id);
        page.truncate(limit);
        let next = page.last().filter(|_| page.len() == limit).map(|(id, _)| ExecutionId(*id));
        StrandedPage {
            stranded: page.into_iter().filter_map(|(id, run)| self.as_stranded(id, run)).collect(),
            next,
        }
    }

    fn is_stuck_nowhere(&self, id: i64) -> bool {
        self.run(ExecutionId(id)).is_some_and(|run| !self.is_live(run.node))
    }

    fn is_live(&self, node: Option<NodeId>) -> bool {
        node.and_then(|id| self.nodes.get(&id)).is_some_and(|node| node.ended.is_none())
    }

    pub(super) fn as_stranded(&self, id: i64, run: &Execution) -> Option<Stranded> {
        let (schedule, row) = (ScheduleId(run.schedule), self.schedule(run.schedule));
        let job = row.and_then(|row| self.jobs.get(&row.job()));
        Some(Stranded {
            id: ExecutionId(id),
            schedule,
            name: called(row.map_or("", |row| &row.name), schedule),
            job: job.map_or_else(|| "".into(), |job| Arc::clone(&job.name)),
            state: run.state.parse().ok()?,
            token: run.token?,
            attempt: run.attempt,
            failures: run.failures,
            deaths: self.deaths_before(run),
            is_cancelled: self.cancels.contains_key(&id),
            delay: self.plans(run).map(|end| end.delay),
            policy: job.map_or(JobPolicy::NO_JOB, |job| job.settings.policy),
        })
    }

    fn deaths_before(&self, run: &Execution) -> u32 {
        let died = self.attempts_before(run).filter(|earlier| earlier.is(ExecutionState::Abandoned));
        u32::try_from(died.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn withdrawn(&self, application: &str, limit: usize) -> Vec<Withdrawn> {
        let pending = self.index(application).into_iter().flat_map(|index| &index.pending);
        let withdrawn = pending.filter_map(|(_, id)| {
            let (execution, run) = (ExecutionId(*id), self.run(ExecutionId(*id))?);
            let row = self.schedule(run.schedule)?;
            let reason = match row.is(ScheduleState::Removed) {
                true => Reason::Removed,
                false => self.cancels.get(id).map(|_| Reason::Cancelled)?,
            };
            let job = self.jobs.get(&row.job()).map_or_else(|| "".into(), |job| Arc::clone(&job.name));
            let schedule = Arc::clone(&row.name);
            let attempt = Attempt { execution, schedule, job, number: run.attempt };
            Some(Withdrawn { attempt, token: run.token?, reason, plans: self.plans(run) })
        });
        withdrawn.take(limit).collect()
    }

    pub(super) fn unreadable(&self, query: &UnreadableQuery) -> UnreadablePage {
        let ids = self.index(&query.application).into_iter().flat_map(|index| index.schedules.values());
        let mut ids: Vec<i64> = ids.copied().filter(|id| *id > query.after.0).collect();
        ids.sort_unstable();
        let walked = ids.len().min(query.step);
        let step = ids.iter().take(walked);
        let (mut broken, mut ahead, mut expecting, mut next) = (Vec::new(), Vec::new(), Vec::new(), None);
        let sought = |id: i64| (id, self.sought(id, query), self.is_newly_expected(id));
        let wanted = step.map(|id| sought(*id)).filter(|(_, found, expects)| found.is_some() || *expects);
        for (n, (id, found, expects)) in (1..).zip(wanted.take(query.limit)) {
            next = (n == query.limit).then_some(ScheduleId(id));
            expecting.extend(expects.then_some(ScheduleId(id)));
            match found {
                Some(Ok(entry)) => ahead.push(entry),
                Some(Err(row)) => broken.push(row),
                None => {}
            }
        }
        let end_of_step = ids[..walked].last().filter(|_| walked == query.step);
        let next = next.or(end_of_step.map(|last| ScheduleId(*last)));
        let overdue = self
            .overdue_unreadable(query)
            .filter(|it| broken.iter().all(|walked| walked.seen.id != it.seen.id));
        let overdue: Vec<UnreadableRow> = overdue.take(query.limit).collect();
        UnreadablePage { broken: [broken, overdue].concat(), ahead, expecting, next }
    }

    /// A schedule that the walk is to bring: unreadable, or ahead of the clock.
    fn sought(&self, id: i64, query: &UnreadableQuery) -> Option<Result<CursorAhead, UnreadableRow>> {
        if let Some(broken) = self.as_broken(id) {
            return Some(Err(broken));
        }
        let row = self.schedule(id)?;
        let entry = row.understand(id, self.jobs.get(&row.job())).ok()?;
        if !query.wants(&entry, self.now) || self.is_skipped_by_hand(&entry) {
            return None;
        }
        Some(Ok(CursorAhead { entry, seen: self.now }))
    }

    /// Whether the last occurrence that a schedule has passed was skipped by hand.
    fn is_skipped_by_hand(&self, entry: &Entry) -> bool {
        let is_last = |run: &Execution| {
            run.generation == entry.generation && run.origin == 0 && Some(run.scheduled) == entry.cursor.prev
        };
        let by_hand =
            |run: &Execution| run.is(ExecutionState::Skipped) && *run.reason == *Reason::ByHand.as_str();
        self.ledger(entry.id.0).any(|(_, run)| is_last(run) && by_hand(run))
    }

    fn overdue_unreadable(&self, query: &UnreadableQuery) -> impl Iterator<Item = UnreadableRow> {
        let due = self.index(&query.application).into_iter().flat_map(|index| &index.due);
        let job = |id: i64| self.schedule(id).map(|row| row.job());
        let listed = move |(_, id): &&(Timestamp, i64)| {
            job(*id).is_some_and(|job| self.is_served(&query.application, job))
        };
        let due = due.skip_while(|(at, _)| *at < query.from).take_while(|(at, _)| *at < query.before);
        due.filter(listed).filter_map(|(_, id)| self.as_broken(*id))
    }

    fn as_broken(&self, id: i64) -> Option<UnreadableRow> {
        const OTHERS: [ScheduleState; 3] =
            [ScheduleState::Error, ScheduleState::Init, ScheduleState::Removed];
        let row = self.schedule(id).filter(|row| !OTHERS.iter().any(|state| row.is(*state)))?;
        let reason = row.understand(id, self.jobs.get(&row.job())).err()?;
        let id = ScheduleId(id);
        let seen = SeenSchedule { id, version: row.version, state: row.state.to_string(), next: None };
        Some(UnreadableRow { seen, name: called(&row.name, id), reason })
    }
}
