//! What the misfire handler looks for and changes.

use std::collections::BTreeSet;

use super::claims::seen_execution;
use super::rows::{Run, Schedule, Text, Value, matches};
use super::tables::{Index, Tables};
use crate::domain::{
    Entry, ExecutionId, ExecutionState, JobPolicy, Millis, MisfirePolicy, NodeId, ScheduleId, ScheduleState,
    Token,
};
use crate::store::guard::{self, Column};
use crate::store::{
    Broken, BrokenPage, BrokenQuery, Lane, LedgerRow, Reason, Repair, Result, Revocation, Stalled,
    StalledQuery, Stranded, StrandedPage, Unstarted, called, when,
};
use crate::time::is_election_due;

/// What a job's executions get when its row is gone: they are not run again.
const ORPHANED: JobPolicy =
    JobPolicy { recover: false, max_attempts: 1, max_tries: 1, retry_delay: std::time::Duration::ZERO };

impl Tables {
    pub(super) fn elect(&mut self, application: &str, now: Millis, interval: Millis) -> bool {
        let application = self.application(application);
        let app = self.apps.entry(application).or_default();
        let due = is_election_due(Some(app.time_next), now, interval);
        if due {
            (app.time_pre, app.time_next) = (now, now.saturating_add(interval));
        }
        due
    }

    pub(super) fn is_enabled(&self, application: &str) -> bool {
        self.apps.get(application).is_some_and(|app| app.state == "Y")
    }

    pub(super) fn stalled(&self, query: &StalledQuery) -> Stalled {
        let (ids, next) = self.late(query);
        let entries: Vec<Entry> = ids.into_iter().filter_map(|id| self.entry(id)?.ok()).collect();
        let give_way = entries.iter().filter(|entry| entry.misfire == MisfirePolicy::FireOnce);
        let unstarted = give_way.flat_map(|entry| self.unstarted(entry.id)).collect();
        Stalled { entries, unstarted, next }
    }

    /// What earlier misfire repairs of a schedule left PENDING.
    fn unstarted(&self, schedule: ScheduleId) -> impl Iterator<Item = Unstarted> {
        self.waiting(schedule.0).into_iter().filter_map(move |execution| {
            let run = self.run(execution).filter(|run| run.reason == Reason::Misfire.as_str())?;
            Some(Unstarted { schedule, execution, token: run.token? })
        })
    }

    /// The rows of a page, understood or not, and the lanes of the next.
    fn late(&self, query: &StalledQuery) -> (Vec<i64>, Vec<Lane>) {
        let application = query.application.as_str();
        let Some(index) = self.index(application).filter(|_| self.is_enabled(application)) else {
            return (Vec::new(), Vec::new());
        };
        let lanes = query.lanes.clone().unwrap_or_else(|| self.lanes_behind(index, query));
        let lanes: Vec<Lane> =
            lanes.into_iter().filter(|lane| self.is_served(application, lane.job)).collect();
        let (mut rows, next) = self.share_out(index, &lanes, query.limit);
        rows.sort_unstable();
        (rows.into_iter().map(|(_, id)| id).collect(), next)
    }

    fn lanes_behind(&self, index: &Index, query: &StalledQuery) -> Vec<Lane> {
        let due = query.from..query.before;
        let behind = index.due.range((due.start, i64::MIN)..(due.end, i64::MIN).max((due.start, i64::MIN)));
        let late = behind.filter_map(|(_, id)| self.schedule(*id));
        let lanes: BTreeSet<(i64, i64)> = late.map(|row| (row.job, row.shard)).collect();
        lanes.into_iter().map(|(job, shard)| Lane::new(job, shard, due.clone())).collect()
    }

    /// Whether the job is active and some live node of the application lists it.
    fn is_served(&self, application: &str, job: i64) -> bool {
        self.jobs.get(&job).is_some_and(|job| {
            let mut live = self.nodes.values().filter(|node| node.ended.is_none());
            job.state == ScheduleState::Active.as_str()
                && live.any(|node| {
                    &*node.application == application && node.jobs.iter().any(|name| **name == *job.name)
                })
        })
    }

    pub(super) fn repair(&mut self, repair: &Repair) -> Result<bool> {
        let id = repair.id.0;
        let Some(row) = self.schedule(id) else { return Ok(false) };
        let seen = |column| match column {
            Column::Id => Value::Number(id),
            Column::State => Value::Text(repair.state.as_str()),
            Column::PrevFireTime => Value::time(repair.cursor.prev),
            Column::NextFireTime => Value::time(repair.cursor.next),
            Column::Version => Value::Number(repair.version),
            Column::ClaimToken | Column::Uuid | Column::Beat => column.absent(Value::Null),
        };
        if !matches(&guard::REPAIR, |column| row.value(id, column), seen) {
            return Ok(false);
        }
        let row = row.clone();
        for unstarted in &repair.supersede {
            self.supersede(unstarted, repair.now);
        }
        for line in &repair.rows {
            self.insert_run(ledger_run(&row, repair, line))?;
        }
        self.edit_schedule(id, |row| move_cursor(row, repair));
        Ok(true)
    }

    /// The unstarted work of an earlier misfire repair gives way to a later repair's.
    fn supersede(&mut self, unstarted: &Unstarted, now: Millis) {
        let id = unstarted.execution;
        let seen = seen_execution(id, ExecutionState::Pending, unstarted.token);
        let is_so = |run: &Run| matches(&guard::SUPERSEDE, |column| run.value(id.0, column), seen);
        if self.run(id).is_some_and(is_so) {
            self.edit_run(id, |run| {
                run.state = ExecutionState::Skipped.as_str().into();
                run.reason = Reason::Superseded.as_str().into();
                run.finished = Some(now);
            });
        }
    }

    pub(super) fn stranded(&self, application: &str, after: ExecutionId, limit: usize) -> StrandedPage {
        let lost = self.owned().iter().filter(|(node, _)| !self.is_live(**node));
        let mut page: Vec<(i64, &Run)> = lost
            .flat_map(|(_, ids)| ids.iter().filter(|id| **id > after.0))
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

    fn is_live(&self, node: Option<NodeId>) -> bool {
        node.and_then(|id| self.nodes.get(&id)).is_some_and(|node| node.ended.is_none())
    }

    pub(super) fn as_stranded(&self, id: i64, run: &Run) -> Option<Stranded> {
        let (schedule, row) = (ScheduleId(run.schedule), self.schedule(run.schedule));
        let job = row.and_then(|row| self.jobs.get(&row.job));
        Some(Stranded {
            id: ExecutionId(id),
            schedule,
            name: called(row.map_or("", |row| &row.name), schedule),
            state: run.state.parse().ok()?,
            token: run.token?,
            attempt: run.attempt,
            deaths: self.deaths_before(run),
            policy: job.map_or(ORPHANED, |job| job.policy),
        })
    }

    fn deaths_before(&self, run: &Run) -> u32 {
        let died = self.attempts_before(run).filter(|earlier| earlier.is(ExecutionState::Abandoned));
        u32::try_from(died.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn revoke(&mut self, revocation: &Revocation) -> Result<bool> {
        let stranded = &revocation.stranded;
        let Some(run) = self.run(stranded.id) else { return Ok(false) };
        let seen = seen_execution(stranded.id, stranded.state, stranded.token);
        if !matches(&guard::REVOKE, |column| run.value(stranded.id.0, column), seen) {
            return Ok(false);
        }
        let next = run.again(Reason::Recovery.as_str(), revocation.due, revocation.fresh);
        self.edit_run(stranded.id, |run| {
            if revocation.to == ExecutionState::Pending {
                return run.release(revocation.fresh, revocation.reason.as_str());
            }
            run.state = revocation.to.as_str().into();
            run.reason = revocation.reason.as_str().into();
            run.finished = Some(revocation.now);
        });
        if revocation.again {
            self.follow_up(next)?;
        }
        Ok(true)
    }

    pub(super) fn broken(&self, query: &BrokenQuery) -> BrokenPage {
        let ids = self.index(&query.application).into_iter().flat_map(|index| index.schedules.values());
        let mut ids: Vec<i64> = ids.copied().filter(|id| *id > query.after.0).collect();
        ids.sort_unstable();
        let walked = ids.len().min(query.step);
        let step = ids.iter().take(walked);
        let broken: Vec<Broken> = step.filter_map(|id| self.as_broken(*id)).take(query.limit).collect();
        let next = match broken.last() {
            Some(last) if broken.len() == query.limit => Some(last.id),
            _ => ids[..walked].last().filter(|_| walked == query.step).map(|last| ScheduleId(*last)),
        };
        let overdue = self.overdue(query).filter(|it| broken.iter().all(|walked| walked.id != it.id));
        let overdue: Vec<Broken> = overdue.take(query.limit).collect();
        BrokenPage { broken: [broken, overdue].concat(), next }
    }

    fn overdue(&self, query: &BrokenQuery) -> impl Iterator<Item = Broken> {
        let due = self.index(&query.application).into_iter().flat_map(|index| &index.due);
        let job = |id: i64| self.schedule(id).map(|row| row.job);
        let listed = move |(_, id): &&(Millis, i64)| {
            job(*id).is_some_and(|job| self.is_served(&query.application, job))
        };
        let due = due.skip_while(|(at, _)| *at < query.from).take_while(|(at, _)| *at < query.before);
        due.filter(listed).filter_map(|(_, id)| self.as_broken(*id))
    }

    fn as_broken(&self, id: i64) -> Option<Broken> {
        let row =
            self.schedule(id).filter(|row| !row.is(ScheduleState::Error) && !row.is(ScheduleState::Init))?;
        let reason = row.understand(id, self.jobs.get(&row.job)).err()?;
        let (id, version, state) = (ScheduleId(id), row.version, row.state.to_string());
        Some(Broken { id, name: called(&row.name, id), version, state, reason })
    }

    /// A version that is no count begins anew at 0: it could not grow. A state that is none of ours must
    /// still be none.
    pub(super) fn quarantine(&mut self, broken: &Broken) -> bool {
        let known = broken.state.parse::<ScheduleState>();
        let as_seen = |row: &Schedule| {
            let state = row.state.parse::<ScheduleState>();
            row.version == broken.version && (state == known || (state.is_err() && known.is_err()))
        };
        self.schedule(broken.id.0).is_some_and(as_seen)
            && self.edit_schedule(broken.id.0, |row| {
                row.put(ScheduleState::Error);
                row.reason = broken.reason.as_str().into();
                row.version = when::count("version", row.version).map_or(0, |version| version + 1);
            })
    }

    /// Changes a schedule's row, and its version, if its state and version are as seen.
    pub(super) fn edit_if_seen(
        &mut self,
        id: ScheduleId,
        version: i64,
        state: &str,
        edit: impl FnOnce(&mut Schedule),
    ) -> bool {
        let seen = |column| match column {
            Column::Id => Value::Number(id.0),
            Column::State => Value::Text(state),
            Column::Version => Value::Number(version),
            _ => column.absent(Value::Null),
        };
        let as_seen = |row: &Schedule| matches(&guard::EDIT, |column| row.value(id.0, column), seen);
        self.schedule(id.0).is_some_and(as_seen)
            && self.edit_schedule(id.0, |row| {
                edit(row);
                row.version += 1;
            })
    }
}

fn move_cursor(row: &mut Schedule, repair: &Repair) {
    row.move_to(repair.to);
    row.version += 1;
    row.triggered = row.triggered.saturating_add(i64::try_from(repair.passed).unwrap_or(i64::MAX));
    if repair.resume {
        row.put(ScheduleState::Active);
        row.reason = "".into();
        row.paused_by = "".into();
        row.paused = None;
    }
    if repair.to.next.is_none() {
        row.put(ScheduleState::Complete);
    }
}

fn ledger_run(row: &Schedule, repair: &Repair, line: &LedgerRow) -> Run {
    let blank = Run {
        schedule: repair.id.0,
        application: row.application.clone(),
        generation: repair.generation,
        origin: 0,
        scheduled: 0,
        until: None,
        count: 1,
        attempt: 1,
        state: Text::default(),
        reason: Text::default(),
        due: 0,
        token: None,
        fence: 0,
        node: None,
        claimed: None,
        started: None,
        finished: None,
        prev: None,
        following: None,
        error: String::new(),
    };
    match *line {
        LedgerRow::Skipped { from, to, count, prev, following, reason } => Run {
            scheduled: from,
            until: Some(to),
            count: i64::try_from(count).unwrap_or(i64::MAX),
            state: ExecutionState::Skipped.as_str().into(),
            reason: reason.as_str().into(),
            due: from,
            finished: Some(repair.now),
            prev,
            following,
            ..blank
        },
        LedgerRow::Pending { at, due, prev, following, reason } => Run {
            scheduled: at,
            state: ExecutionState::Pending.as_str().into(),
            reason: reason.as_str().into(),
            due,
            token: Some(Token::fresh()),
            prev,
            following,
            ..blank
        },
    }
}
