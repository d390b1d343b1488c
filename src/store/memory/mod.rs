//! The store without a database: the model the databases are held to, and what simulations run on.
//!
//! One mutex holds all tables, so every call is a transaction. Nothing depends on chance or a clock: ids
//! count up, rows are visited in order, and the database's time is what [`MemoryStore::set_time`] says.
//! Several members may have the tables, as servers of Galera have.

mod audit;
#[cfg(test)]
mod behind;
mod certified;
mod change;
mod claims;
pub(crate) mod commits;
mod covers;
mod expected;
mod figures;
mod held;
pub(crate) mod hooks;
mod ledger;
pub(crate) mod members;
mod nobody;
mod nodes;
mod order;
mod outcomes;
mod pages;
mod place;
mod purge;
mod queue;
mod repairs;
mod replay;
mod requests;
mod rerun;
pub(crate) mod rows;
mod said;
mod schedules;
mod streak;
mod switch;
mod sync;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod waiting;

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use self::hooks::MemberFault;
use self::members::Members;
use self::tables::Tables;
use super::audit::{AuditEntry, AuditQuery, AuditRow};
use super::awaited::OpenOrEnded;
use super::enqueue::{EnqueueOrder, Keyed};
use super::expected::{Expectation, ExpectedPage, ExpectedQuery};
use super::figures::{Figures, FiguresQuery};
use super::ledger::{LedgerLine, LedgerPage, LedgerRange, LedgerSchedule, LineQuery, LinesBy};
use super::news::{Ear, Glance, GlanceQuery, Hearing};
use super::nobody::{NobodyQuery, UnservedJob};
use super::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use super::outcomes::{OutcomeCounts, OutcomeFold, OutcomeQuery, OutcomeSpan};
use super::past::PastRow;
use super::request::{CarriedOut, Request, RequestQuery};
use super::rerun::{Reran, RerunCancel, RerunCancelled, RerunOrder, RerunPreview};
use super::rules::{ChangeKind, HeldRow};
use super::said::{Said, SaidBy};
use super::schedules::{SchedulePage, ScheduleQuery};
use super::streak::{Streak, StreakQuery};
use super::switch::{EndedPause, PassedQuery, SwitchOrder, Switched};
use super::sync::{OwnerRow, SyncAnswer, SyncOrder};
use super::waiting::{PayloadPage, PayloadWalk};
use super::{
    ApplicationRow, Applied, Carrier, Change, Claim, ClaimRequest, Completed, Definition, Ensured,
    ExecutionChange, ExecutionQuery, ExecutionRow, Heartbeat, HeartbeatReply, IfNotMade, JobRow,
    LargePayload, NewNode, NodeRow, OrphanWalk, OverduePage, OverdueQuery, PollQuery, Polled, Purge, Purged,
    PurgedOrphans, PurgedQueues, QueueWalk, Result, ScheduleRow, SeenSchedule, Store, StrandedPage,
    UnreadablePage, UnreadableQuery, Verbs, Withdrawn,
};
use crate::domain::{Covers, Entry, Error, ErrorKind, ExecutionId, Millis, ScheduleId, Timestamp};
use crate::store::columns::NO_TIME;
use crate::time::{Micros, TimeSample};

/// All tables in this process's memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    shared: Arc<Shared>,
    /// The member that it is a client of, if there are several.
    member: Option<usize>,
}

#[derive(Debug, Default)]
struct Shared {
    tables: Mutex<Tables>,
    members: Members,
    released: Condvar,
}

impl MemoryStore {
    /// An empty database whose clock stands at `now`.
    pub(crate) fn new(now: Timestamp) -> Self {
        let store = Self::default();
        store.set_time(now);
        store
    }

    /// Sets the database's clock.
    pub(crate) fn set_time(&self, now: Timestamp) {
        self.tables().now = now;
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transaction<T>(&self, work: impl Fn(&mut Tables) -> Result<T>) -> Result<T> {
        match self.member {
            Some(member) => self.certified(member, work),
            None => Self::run(&mut self.tables(), work),
        }
    }

    /// A transaction that waits until nobody else holds these schedules' rows.
    fn locking<T>(
        &self,
        rows: impl Iterator<Item = ScheduleId> + Clone,
        work: impl Fn(&mut Tables) -> Result<T>,
    ) -> Result<T> {
        match self.member {
            Some(member) => self.certified(member, work),
            None => Self::run(&mut self.until_free(rows), work),
        }
    }

    fn run<T>(tables: &mut Tables, work: impl FnOnce(&mut Tables) -> Result<T>) -> Result<T> {
        let result = tables.atomically(work);
        tables.commit();
        result
    }

    fn claim_once(&self, requests: &[ClaimRequest]) -> Result<Vec<Claim>> {
        self.transaction(|tables| Ok(requests.iter().map(|request| tables.claim(request)).collect()))
    }

    fn apply_once(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        let waits = |change: &&Change| change.rule().held == HeldRow::Wait;
        let waited_for = changes.iter().filter(waits);
        self.locking(waited_for.filter_map(Change::schedule), |tables| {
            let leaves = changes.iter().any(|change| change.kind() == ChangeKind::Leave);
            match leaves && tables.hooks.leaves_refused {
                true => Err(Error::new(ErrorKind::Refused, "as the test asked")),
                false if changes.iter().filter(waits).any(|change| tables.has_held_execution(change)) => {
                    Err(Error::new(ErrorKind::Unavailable, "lock wait timeout"))
                }
                false => tables.apply(changes),
            }
        })
    }

    fn sample(tables: &Tables) -> TimeSample {
        let now = Micros::of_millis(tables.now.millis());
        TimeSample { asked: now, told: now, answered: now }
    }
}

impl Verbs for MemoryStore {
    fn find(&self, application: &str, name: &str) -> Result<Option<Entry>> {
        self.read(|tables| tables.find(application, name))
    }

    fn seen(&self, application: &str, name: &str) -> Result<Option<SeenSchedule>> {
        Ok(self.read(|tables| tables.seen(application, name)))
    }

    fn schedule(&self, application: &str, name: &str) -> Result<Option<ScheduleRow>> {
        Ok(self
            .read(|tables| tables.schedule_rows(Some(application)).into_iter().find(|row| row.name == name)))
    }

    fn now(&self) -> Result<Timestamp> {
        Ok(self.read(|tables| tables.now))
    }

    fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        let mut applied = self.apply_once(changes)?;
        let again: Vec<usize> = (0..changes.len()).filter(|n| !applied[*n].is_done()).collect();
        if !again.is_empty() && self.catch_up(MemberFault::Loses) {
            let changes: Vec<Change> = again.iter().map(|n| changes[*n].clone()).collect();
            let is_changed = applied.iter().any(|it| it.is_done());
            // Some of the changes are made: an error must not say that none is.
            let answers = self.apply_once(&changes).map_err(|error| match is_changed {
                true => Error::new(ErrorKind::Unknown, "made in part"),
                false => error,
            })?;
            again.into_iter().zip(answers).for_each(|(n, answer)| applied[n] = answer);
        }
        Ok(applied)
    }

    fn apply_audited(&self, change: Change, entry: &AuditEntry) -> Result<Applied> {
        let waited_for = (change.rule().held == HeldRow::Wait).then(|| change.schedule()).flatten();
        let apply = || self.locking(waited_for.into_iter(), |tables| tables.apply_audited(&change, entry));
        match apply()? {
            lost if !lost.is_done() && self.catch_up(MemberFault::Loses) => apply(),
            applied => Ok(applied),
        }
    }

    fn ensure(&self, definition: &Definition) -> Result<Ensured> {
        self.transaction(|tables| tables.ensure(definition))
    }

    fn sync(&self, order: &SyncOrder) -> Result<SyncAnswer> {
        self.transaction(|tables| tables.sync(order))
    }

    fn order(&self, order: &RunOrder) -> Result<Ordered> {
        let schedule = self.read(|tables| tables.schedule_named(&order.application, &order.schedule));
        self.locking(schedule.map(ScheduleId).into_iter(), |tables| tables.order(order))
    }

    fn rerun(&self, order: &RerunOrder) -> Result<Reran> {
        let schedule = self.read(|tables| tables.schedule_named(&order.application, &order.schedule));
        self.locking(schedule.map(ScheduleId).into_iter(), |tables| tables.rerun(order))
    }

    fn cancel_rerun(&self, order: &RerunCancel) -> Result<RerunCancelled> {
        self.transaction(|tables| tables.cancel_rerun(order))
    }

    fn enqueue(&self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>> {
        self.transaction(|tables| tables.enqueue(order))
    }

    fn enqueue_unique(&self, order: &EnqueueOrder) -> Result<Keyed> {
        self.transaction(|tables| tables.enqueue_unique(order))
    }

    fn complete(&self, outcome: &ExecutionChange) -> Result<Completed> {
        self.transaction(|tables| tables.complete(outcome))
    }

    fn checkpoint(&self, checkpoint: &ExecutionChange) -> Result<Applied> {
        Ok(self.apply(&[checkpoint.clone().into()])?[0])
    }

    fn cancel(&self, order: &ExecutionOrder) -> Result<Cancel> {
        self.transaction(|tables| tables.cancel(order))
    }

    fn retry(&self, order: &ExecutionOrder) -> Result<Retry> {
        self.transaction(|tables| tables.retry(order))
    }

    fn switch(&self, order: &SwitchOrder) -> Result<Switched> {
        self.transaction(|tables| tables.switch(order))
    }

    fn passed(&self, query: &PassedQuery) -> Result<Vec<Entry>> {
        Ok(self.read(|tables| tables.passed(query)))
    }

    fn executions(&self, filter: &ExecutionQuery) -> Result<Vec<ExecutionRow>> {
        self.refuse_read_if_asked()?;
        Ok(self.read(|tables| tables.execution_rows(filter)))
    }
}

impl Store for MemoryStore {
    fn register(&self, node: &NewNode) -> Result<TimeSample> {
        let held = self.tables().hooks.registrations_held.clone();
        // An error says that the test has dropped its side.
        held.map(|gate| gate.recv().ok());
        let sample = self.transaction(|tables| tables.register(node).map(|()| Self::sample(tables)))?;
        if self.tables().hooks.registrations_lost {
            return Err(Error::new(ErrorKind::Unknown, "as the test asked"));
        }
        Ok(sample)
    }

    fn apply_free(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        let (held, free): (Vec<_>, Vec<_>) = {
            let tables = self.tables();
            (0..changes.len()).partition(|n| tables.has_held_execution(&changes[*n]))
        };
        let mut applied = vec![Applied::Held; held.len() + free.len()];
        let changes: Vec<Change> = free.iter().map(|n| changes[*n].clone()).collect();
        free.into_iter().zip(self.apply(&changes)?).for_each(|(n, it)| applied[n] = it);
        Ok(applied)
    }

    fn beat(&self, beat: &Heartbeat) -> Result<HeartbeatReply> {
        let refused = || Error::new(ErrorKind::Refused, "as the test asked");
        let beats = || -> Result<Option<HeartbeatReply>> {
            let is_made = self.transaction(|tables| match tables.hooks.beats_refused {
                true => Err(refused()),
                false => Ok(tables.beat(beat)),
            })?;
            Ok(is_made.then(|| self.read(|tables| tables.heartbeat_reply(beat))))
        };
        let reply = match beats()? {
            None if self.catch_up(MemberFault::Ends) => beats()?,
            reply => reply,
        };
        Ok(reply.unwrap_or(HeartbeatReply::Ended))
    }

    fn poll(&self, query: &PollQuery) -> Result<Polled> {
        let poll = || self.read(|tables| tables.poll(query, Self::sample(tables)));
        let polled = poll();
        let ends = query.drains && !polled.drains;
        Ok(if ends && self.catch_up(MemberFault::Resumes) { poll() } else { polled })
    }

    fn hearing(&self) -> Hearing {
        Hearing { tells: false, glance: 25 }
    }

    fn glance(&self, query: &GlanceQuery) -> Result<Glance> {
        Ok(self.read(|tables| tables.glance(query)))
    }

    fn listen(&self, _: &str) -> Result<Box<dyn Ear>> {
        Err(Error::new(ErrorKind::Config, "it tells of nothing"))
    }

    fn payloads(&self, schedules: &[ScheduleId]) -> Result<Vec<LargePayload>> {
        Ok(self.read(|tables| tables.payloads(schedules)))
    }

    fn claim(&self, requests: &[ClaimRequest]) -> Result<Vec<Claim>> {
        let mut claims = self.claim_once(requests)?;
        let blocked: Vec<usize> =
            (0..claims.len()).filter(|n| matches!(claims[*n], Claim::Blocked(_))).collect();
        if !blocked.is_empty() && self.catch_up(MemberFault::Blocks) {
            let requests: Vec<ClaimRequest> = blocked.iter().map(|n| requests[*n].clone()).collect();
            // The others are claimed: an error would say that they are not.
            let again = self.claim_once(&requests).unwrap_or_default();
            let again = again.into_iter().chain(std::iter::repeat_with(|| Claim::Skipped));
            blocked.into_iter().zip(again).for_each(|(n, claim)| claims[n] = claim);
        }
        Ok(claims)
    }

    fn resolve(&self, requests: &[ClaimRequest], if_not_made: IfNotMade) -> Result<Vec<Claim>> {
        self.catch_up(MemberFault::Resolves);
        self.transaction(|tables| {
            Ok(requests.iter().map(|request| tables.resolve(request, if_not_made)).collect())
        })
    }

    fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRow>> {
        Ok(self.read(|tables| tables.audit_rows(query)))
    }

    fn elect(&self, application: &str, now: Timestamp, interval: Millis) -> Result<Applied> {
        self.transaction(|tables| Ok(tables.elect(application, now, interval)))
    }

    fn overdue(&self, query: &OverdueQuery) -> Result<OverduePage> {
        Ok(self.read(|tables| tables.overdue(query)))
    }

    fn stranded(&self, application: &str, after: ExecutionId, limit: usize) -> Result<StrandedPage> {
        Ok(self.read(|tables| tables.stranded(application, after, limit)))
    }

    fn withdrawn(&self, application: &str, limit: usize) -> Result<Vec<Withdrawn>> {
        Ok(self.read(|tables| tables.withdrawn(application, limit)))
    }

    fn unreadable(&self, query: &UnreadableQuery) -> Result<UnreadablePage> {
        Ok(self.read(|tables| tables.unreadable(query)))
    }

    fn purge(&self, purge: &Purge) -> Result<Purged> {
        self.transaction(|tables| Ok(tables.purge(purge)))
    }

    fn purge_queues(&self, walk: &QueueWalk) -> Result<PurgedQueues> {
        self.transaction(|tables| Ok(tables.purge_queues(walk)))
    }

    fn purge_orphans(&self, walk: &OrphanWalk) -> Result<PurgedOrphans> {
        self.transaction(|tables| Ok(tables.purge_orphans(walk)))
    }

    fn requests(&self, query: &RequestQuery) -> Result<Vec<Request>> {
        Ok(self.read(|tables| tables.request_page(query)))
    }

    fn carry_out(&self, request: &Request, carrier: &dyn Carrier) -> Result<CarriedOut> {
        self.carried_out(request, carrier)
    }

    fn ended_pauses(&self, application: &str) -> Result<Vec<EndedPause>> {
        self.transaction(|tables| Ok(tables.ended_pauses(application)))
    }

    fn expected(&self, query: &ExpectedQuery) -> Result<ExpectedPage> {
        Ok(self.read(|tables| tables.expected(query)))
    }

    fn expect(&self, schedules: &[ScheduleId]) -> Result<()> {
        self.transaction(|tables| {
            tables.expect(schedules);
            Ok(())
        })
    }

    fn expect_no_longer(&self, application: &str, schedules: &[ScheduleId]) -> Result<()> {
        self.transaction(|tables| {
            tables.expect_no_longer(application, schedules);
            Ok(())
        })
    }

    fn note_expected(&self, query: &ExpectedQuery, found: &Expectation) -> Result<Applied> {
        self.catch_up(MemberFault::Loses);
        self.transaction(|tables| tables.note_expected(query, found))
    }

    fn nobody(&self, query: &NobodyQuery) -> Result<Vec<UnservedJob>> {
        Ok(self.read(|tables| tables.nobody(query)))
    }

    fn streak(&self, query: &StreakQuery) -> Result<Option<Streak>> {
        Ok(self.read(|tables| tables.streak(query)))
    }

    fn contain(&self, query: &StreakQuery, streak: &Streak) -> Result<Applied> {
        self.catch_up(MemberFault::Contains);
        self.transaction(|tables| tables.contain(query, streak))
    }

    fn saw_cancels(&self, executions: &[ExecutionId]) -> Result<()> {
        self.transaction(|tables| {
            tables.saw_cancels(executions);
            Ok(())
        })
    }

    fn say(&self, said: &[Said]) -> Result<Vec<Applied>> {
        self.catch_up(MemberFault::Loses);
        self.transaction(|tables| Ok(tables.say(said)))
    }

    fn said(&self, application: &str, execution: ExecutionId) -> Result<Vec<SaidBy>> {
        Ok(self.read(|tables| tables.said_by(application, execution)))
    }

    fn open_or_ended(
        &self,
        application: &str,
        executions: &[ExecutionId],
    ) -> Result<Vec<(ExecutionId, OpenOrEnded)>> {
        Ok(self.read(|tables| tables.open_or_ended(application, executions)))
    }

    fn nodes(&self, application: Option<&str>) -> Result<Vec<NodeRow>> {
        Ok(self.read(|tables| tables.node_rows(application)))
    }

    fn applications(&self) -> Result<Vec<ApplicationRow>> {
        Ok(self.read(|tables| tables.application_rows()))
    }

    fn jobs(&self, application: &str) -> Result<Vec<JobRow>> {
        Ok(self.read(|tables| tables.job_rows(application)))
    }

    fn schedules(&self, application: Option<&str>) -> Result<Vec<ScheduleRow>> {
        Ok(self.read(|tables| tables.schedule_rows(application)))
    }

    fn plan_sync(&self, order: &SyncOrder) -> Result<SyncAnswer> {
        self.read(|tables| tables.plan_sync(order))
    }

    fn owner(&self, application: &str, owner: &str) -> Result<Option<OwnerRow>> {
        Ok(self.read(|tables| tables.owner(application, owner)))
    }

    fn schedule_page(&self, query: &ScheduleQuery) -> Result<SchedulePage> {
        Ok(self.read(|tables| tables.schedule_page(query)))
    }

    fn count_schedules(&self, application: &str, most: usize) -> Result<usize> {
        Ok(self.read(|tables| tables.schedule_rows(Some(application)).len().min(most)))
    }

    fn count_by_job(&self, application: &str, most: usize) -> Result<Vec<(String, usize)>> {
        Ok(self.read(|tables| tables.count_by_job(application, most)))
    }

    fn past(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<PastRow>> {
        Ok(self.read(|tables| tables.past(schedules, most)))
    }

    fn counts(&self, schedule: ScheduleId, most: usize) -> Result<Vec<(String, i64)>> {
        Ok(self.read(|tables| tables.counts(schedule, most)))
    }

    fn waiting_payloads(&self, walk: &PayloadWalk) -> Result<PayloadPage> {
        Ok(self.read(|tables| tables.waiting_payloads(walk)))
    }

    fn figures(&self, query: &FiguresQuery) -> Result<Figures> {
        Ok(self.read(|tables| tables.figures(query)))
    }

    fn fold_outcomes(&self, fold: &OutcomeFold) -> Result<bool> {
        self.transaction(|tables| Ok(tables.fold_outcomes(fold)))
    }

    fn outcomes(&self, query: &OutcomeQuery) -> Result<Vec<(OutcomeSpan, OutcomeCounts)>> {
        Ok(self.read(|tables| tables.outcomes(query)))
    }

    fn checkpoint_of(&self, execution: ExecutionId) -> Result<Option<String>> {
        self.catch_up(MemberFault::Checkpoints);
        Ok(self.read(|tables| {
            tables.run(execution).and_then(|run| run.checkpoint.as_deref().map(str::to_owned))
        }))
    }

    fn covers(&self, execution: ExecutionId, most: usize) -> Result<Option<Covers>> {
        self.catch_up(MemberFault::Covers);
        Ok(self.read(|tables| tables.covers(execution, most)))
    }

    fn execution_at(&self, schedule: ScheduleId, at: Timestamp) -> Result<Option<ExecutionId>> {
        Ok(self.read(|tables| tables.execution_at(schedule, at)))
    }

    fn fire_times(
        &self,
        schedule: ScheduleId,
        span: &Range<Timestamp>,
        limit: usize,
    ) -> Result<Vec<Timestamp>> {
        Ok(self.read(|tables| tables.fire_times(schedule, span, limit)))
    }

    fn ledger_from(&self, application: &str) -> Result<Option<Timestamp>> {
        let from = |tables: &Tables| tables.apps.get(application).map(|app| app.ledger_from);
        Ok(self.read(from).filter(|from| *from != NO_TIME))
    }

    fn ledger_schedules(&self, page: &LedgerPage) -> Result<Vec<LedgerSchedule>> {
        Ok(self.read(|tables| tables.ledger_schedules(page)))
    }

    fn ledger_lines_by(&self, _: &LedgerRange) -> Result<LinesBy> {
        Ok(LinesBy::Key)
    }

    fn ledger_lines(&self, query: &LineQuery) -> Result<Vec<LedgerLine>> {
        Ok(self.read(|tables| tables.ledger_lines(query)))
    }

    fn rerun_at(&self, schedule: ScheduleId, at: Timestamp) -> Result<Option<ExecutionId>> {
        Ok(self.read(|tables| tables.rerun_at(schedule, at)))
    }

    fn plan_rerun(&self, order: &RerunOrder) -> Result<RerunPreview> {
        Ok(self.read(|tables| tables.plan_rerun(order)))
    }
}
