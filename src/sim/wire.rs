//! The wire between a node and the database: row locks that outlast an instant, the host's clock in every
//! comparison with the database's, and the effects of a sabotage on a call.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::operations::{row, schedule, takes};
use super::sabotage::{Route, Sabotage};
use super::{jobs, judge};
use crate::domain::shards::Share;
use crate::domain::{
    Activity, Boot, Covers, Entry, Error, ErrorKind, ExecutionId, ExecutionState, Millis, NodeId, Rate,
    Reason, ScheduleId, Timestamp, Token,
};
use crate::store::audit::{AuditEntry, AuditQuery, AuditRow};
use crate::store::awaited::OpenOrEnded;
use crate::store::change::ExpectedChange;
use crate::store::enqueue::{EnqueueOrder, Keyed};
use crate::store::expected::{Expectation, ExpectedPage, ExpectedQuery};
use crate::store::figures::{Figures, FiguresQuery};
use crate::store::ledger::{LedgerLine, LedgerPage, LedgerRange, LedgerSchedule, LineQuery, LinesBy};
use crate::store::news::{Ear, Glance, GlanceQuery, Hearing, News};
use crate::store::nobody::{NobodyChange, NobodyQuery, UnservedJob};
use crate::store::order::{Cancel, ExecutionOrder, Ordered, Retry, RunOrder};
use crate::store::outcomes::{OutcomeCounts, OutcomeFold, OutcomeQuery, OutcomeSpan};
use crate::store::past::PastRow;
use crate::store::request::{CarriedOut, Request, RequestQuery};
use crate::store::rerun::{Reran, RerunCancel, RerunCancelled, RerunOrder, RerunPreview};
use crate::store::rules::{ChangeKind, HeldRow};
use crate::store::said::{Said, SaidBy};
use crate::store::schedules::{SchedulePage, ScheduleQuery};
use crate::store::streak::{Streak, StreakQuery};
use crate::store::switch::{EndedPause, PassedQuery, Scope, SwitchOrder, SwitchVerb, Switched};
use crate::store::sync::{OwnerRow, SyncAnswer, SyncOrder};
use crate::store::waiting::{PayloadPage, PayloadWalk};
use crate::store::{
    ApplicationRow, Applied, Carrier, Change, Claim, ClaimRequest, Completed, Definition, Ensured,
    ExecutionChange, ExecutionQuery, ExecutionRow, Heartbeat, HeartbeatReply, IfNotMade, JobRow,
    LargePayload, NewNode, NextAttempt, NodeEnd, NodeRow, OrphanWalk, OverduePage, OverdueQuery, PollQuery,
    Polled, Purge, Purged, PurgedOrphans, PurgedQueues, QueueWalk, Result, ScheduleRow, SeenSchedule, Store,
    StrandedPage, Transition, UnreadablePage, UnreadableQuery, Verbs, Withdrawn,
};
use crate::testing::dice::Dice;
use crate::time::{Micros, TimeSample, Window};

/// The database's encoding has no coffee.
fn has_coffee(change: &Change) -> bool {
    let Change::Execution(change) = change else { return false };
    change.error().is_some_and(|error| error.contains('☕'))
}

/// What became of handlers' own transactions, beside those that were committed and heard of.
#[derive(Clone, Debug, Default)]
pub(super) struct Completions {
    /// Refused, as the execution had ended, or somebody had asked for its end.
    pub refused: usize,
    /// Committed when the handler had returned.
    pub late: usize,
    /// Committed when the process had died.
    pub orphaned: usize,
    /// Open when it was asked for, and committed when that was asked once more.
    pub asked_twice: usize,
    /// Executions of which it was asked, and which nobody had completed.
    undone: BTreeSet<Token>,
}

/// The database as all nodes share it.
pub(super) struct Wires {
    locks: Mutex<BTreeSet<ScheduleId>>,
    dice: Mutex<Dice>,
    sabotages: Vec<Sabotage>,
    /// When each node's beat last reached the database.
    beats: Mutex<BTreeMap<NodeId, Millis>>,
    /// Who was declared dead, when, and how long after its last beat.
    deaths: Mutex<Vec<(NodeId, Millis, Millis)>>,
    /// What nodes still held when the database was told that they leave.
    left_behind: Mutex<Vec<ExecutionRow>>,
    /// Nodes that have drained; and what such a node held all the same.
    drained: Mutex<BTreeSet<NodeId>>,
    misdrained: Mutex<Vec<String>>,
    /// Executions cancelled for their schedules' next occurrences.
    replaced: Mutex<Vec<judge::Cancel>>,
    /// Schedules that were paused for what failed, and when.
    contained: Mutex<Vec<(String, Millis)>>,
    /// The transactions that handlers completed in: execution, fence, when it was committed.
    committed: Mutex<Vec<(i64, i64, Millis)>>,
    completions: Mutex<Completions>,
    /// What handlers stored of how far they had come, and what they were told.
    checkpoints: Mutex<Vec<judge::Checkpoint>>,
    resumes: Mutex<Vec<judge::Resume>>,
    /// What was noted of expected occurrences; and when it was noted as told that nobody can run a job.
    expectations: Mutex<Vec<judge::ExpectationNote>>,
    nobodys: Mutex<Vec<Millis>>,
    /// Claims won, and claims lost.
    claims: Mutex<(u64, u64)>,
    /// True time, and what the database takes it for.
    clock: Mutex<(Millis, Millis)>,
    /// The end of the last window in which a poll saw nothing due.
    seen: Mutex<Millis>,
    /// A node has told the others something.
    told: AtomicBool,
    /// No poll ends any more.
    no_polls: AtomicBool,
    /// No poll ends that begins with the first entry: somebody holds an old snapshot open.
    old_snapshot: AtomicBool,
    /// Jobs have no rates: those are counted by the database's clock, which does not keep virtual time.
    no_rates: bool,
}

impl Wires {
    pub(super) fn new(dice: Dice, sabotages: &[Sabotage]) -> Self {
        Self {
            locks: Mutex::default(),
            dice: Mutex::new(dice),
            sabotages: sabotages.to_vec(),
            beats: Mutex::default(),
            deaths: Mutex::default(),
            left_behind: Mutex::default(),
            drained: Mutex::default(),
            misdrained: Mutex::default(),
            replaced: Mutex::default(),
            contained: Mutex::default(),
            committed: Mutex::default(),
            completions: Mutex::default(),
            checkpoints: Mutex::default(),
            resumes: Mutex::default(),
            expectations: Mutex::default(),
            nobodys: Mutex::default(),
            claims: Mutex::default(),
            clock: Mutex::default(),
            seen: Mutex::default(),
            told: AtomicBool::new(false),
            no_polls: AtomicBool::new(false),
            old_snapshot: AtomicBool::new(false),
            no_rates: false,
        }
    }

    pub(super) fn without_rates(self) -> Self {
        Self { no_rates: true, ..self }
    }

    /// It is `now`, and the database's clock is wrong by `error`.
    pub(super) fn set_clock(&self, now: Millis, error: Millis) {
        *lock(&self.clock) = (now, now + error);
    }

    /// Whether a node has told the others something since the last call.
    pub(super) fn take_told(&self) -> bool {
        self.told.swap(false, Ordering::Relaxed)
    }

    pub(super) fn stop_polls(&self) {
        self.no_polls.store(true, Ordering::Relaxed);
    }

    pub(super) fn keep_a_snapshot(&self) {
        self.old_snapshot.store(true, Ordering::Relaxed);
    }

    /// Who was declared dead, when, and how long after its last beat.
    pub(super) fn deaths(&self) -> Vec<(NodeId, Millis, Millis)> {
        lock(&self.deaths).clone()
    }

    pub(super) fn left_behind(&self) -> Vec<ExecutionRow> {
        lock(&self.left_behind).clone()
    }

    /// Executions cancelled for their schedules' next occurrences.
    pub(super) fn replaced(&self) -> Vec<judge::Cancel> {
        lock(&self.replaced).clone()
    }

    /// Forgets and returns the cancels of these executions: their commits are lost.
    pub(super) fn forget_replaced(&self, executions: &BTreeSet<i64>) -> Vec<judge::Cancel> {
        lock(&self.replaced).extract_if(.., |it| executions.contains(&it.execution)).collect()
    }

    /// The transactions that handlers completed in: execution, fence, when it was committed.
    pub(super) fn committed(&self) -> Vec<(i64, i64, Millis)> {
        lock(&self.committed).clone()
    }

    /// Forgets what was committed with these claims, each with its fence: the commits are lost.
    pub(super) fn forget_committed(&self, claims: &BTreeSet<(i64, i64)>) {
        lock(&self.committed).retain(|(execution, fence, _)| !claims.contains(&(*execution, *fence)));
    }

    pub(super) fn completions(&self) -> MutexGuard<'_, Completions> {
        lock(&self.completions)
    }

    /// What handlers stored of how far they had come, and what they were told.
    pub(super) fn checkpoints(&self) -> (Vec<judge::Checkpoint>, Vec<judge::Resume>) {
        (lock(&self.checkpoints).clone(), lock(&self.resumes).clone())
    }

    /// What was noted of expected occurrences, in that order.
    pub(super) fn expectations(&self) -> Vec<judge::ExpectationNote> {
        lock(&self.expectations).clone()
    }

    /// When it was noted as told that nobody can run a job, by the database's clock.
    pub(super) fn nobodys(&self) -> Vec<Millis> {
        lock(&self.nobodys).clone()
    }

    /// Schedules that were paused for what failed since the last call, and when.
    pub(super) fn take_contained(&self) -> Vec<(String, Millis)> {
        std::mem::take(&mut lock(&self.contained))
    }

    /// What nodes held that said that they had drained.
    pub(super) fn misdrained(&self) -> Vec<String> {
        lock(&self.misdrained).clone()
    }

    pub(super) fn claims(&self) -> (u64, u64) {
        *lock(&self.claims)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An unbounded poll: the rows of all jobs, whether or not any node runs them, in one page.
fn everything(query: &PollQuery) -> PollQuery {
    let mut jobs: Vec<String> = query.shares.iter().flat_map(|share| share.jobs.clone()).collect();
    jobs.push(jobs::NOBODYS.to_owned());
    PollQuery { shares: vec![Share::whole(jobs)], limit: usize::MAX / 2, ..query.clone() }
}

/// One node's way to the database, at one instant.
#[derive(Clone, Copy)]
pub(super) struct Wire<'a> {
    pub store: &'a dyn Store,
    /// What all members have agreed on.
    pub head: &'a dyn Store,
    shared: &'a Wires,
    /// True time, what the database takes it for, and what the host does.
    time: Millis,
    clock: Millis,
    host: Millis,
    /// How long ago the call under way was asked for, and how long its answer will take.
    there: Millis,
    back: Millis,
}

impl<'a> Wire<'a> {
    /// For a host whose time is wrong by `skew`.
    pub(super) fn new(store: &'a dyn Store, shared: &'a Wires, skew: Millis) -> Self {
        let (time, clock) = *lock(&shared.clock);
        Self { store, head: store, shared, time, clock, host: time + skew, there: 0, back: 0 }
    }

    /// The same through a member of the database.
    pub(super) fn through(self, store: &'a dyn Store) -> Self {
        Self { store, ..self }
    }

    /// For a call that took `there` ms to reach the database, and whose answer takes `back` ms.
    pub(super) fn under_way(self, there: Millis, back: Millis) -> Self {
        Self { there, back, ..self }
    }

    /// Locks those of the rows that nobody holds; gives them.
    pub(super) fn lock(&self, rows: &[ScheduleId]) -> Vec<ScheduleId> {
        let mut locks = lock(&self.shared.locks);
        rows.iter().copied().filter(|id| locks.insert(*id)).collect()
    }

    pub(super) fn unlock(&self, rows: &[ScheduleId]) {
        let mut locks = lock(&self.shared.locks);
        locks.retain(|id| !rows.contains(id));
    }

    pub(super) fn is_locked(&self, id: ScheduleId) -> bool {
        lock(&self.shared.locks).contains(&id)
    }

    /// Whether the member may lack what others have committed.
    pub(super) fn is_behind(&self) -> bool {
        !std::ptr::addr_eq(self.store, self.head)
    }

    /// Fails, as a lock wait that lasts too long does, if somebody holds this row.
    fn wait_for(&self, id: ScheduleId) -> Result<()> {
        if self.is_locked(id) {
            return Err(Error::new(ErrorKind::Unavailable, "lock wait timeout"));
        }
        Ok(())
    }

    fn sample(&self) -> TimeSample {
        let (asked, answered) = (1_000 * (self.host - self.there), 1_000 * (self.host + self.back));
        let midway = i64::midpoint(asked, answered);
        let (asked, answered) =
            if self.is(Sabotage::HalfARoundTrip) { (midway, midway) } else { (asked, answered) };
        let [asked, answered] = [asked, answered].map(Micros::of);
        TimeSample { asked, told: Micros::of_millis(self.clock), answered }
    }

    fn skipping(&self, query: &PollQuery) -> PollQuery {
        let skips = query.from > Timestamp::at(0) && self.is(Sabotage::SkipTheWindow);
        let seen = if skips { *lock(&self.shared.seen) } else { 0 };
        PollQuery { from: query.from.max(Timestamp::at(seen)), ..query.clone() }
    }

    fn counted(&self, requests: &[ClaimRequest], claims: Vec<Claim>) -> Vec<Claim> {
        let mut sum = lock(&self.shared.claims);
        for (request, claim) in requests.iter().zip(&claims) {
            if matches!(claim, Claim::Won(_)) && lock(&self.shared.drained).contains(&request.node) {
                lock(&self.shared.misdrained)
                    .push(format!("{} has drained, and claims {claim:?}", request.node));
            }
            sum.0 += u64::from(matches!(claim, Claim::Won(_)));
            sum.1 += u64::from(matches!(claim, Claim::Lost));
        }
        claims
    }

    pub(super) fn unrouted(&self) -> Option<Route> {
        self.shared.sabotages.iter().find_map(|it| match it {
            Sabotage::Unrouted(route) => Some(*route),
            _ => None,
        })
    }

    pub(super) fn is(&self, sabotage: Sabotage) -> bool {
        self.shared.sabotages.contains(&sabotage)
    }

    /// Whether a transaction that was torn apart ends between its parts, which is seldom.
    fn tears(&self, sabotage: Sabotage) -> bool {
        self.is(sabotage) && lock(&self.shared.dice).one_in(20)
    }

    /// What the database, or the judge, must know before a change is made.
    fn before(&self, change: &Change) -> Result<()> {
        match (change, change.schedule()) {
            (Change::End(NodeEnd { node, beat: None, .. }), _) => {
                let held = self.held_by(*node)?;
                lock(&self.shared.left_behind).extend(held);
                Ok(())
            }
            (_, locked) if change.rule().held == HeldRow::Wait && !change.rule().only_asks() => {
                let execution = change.execution().map(row);
                locked.or(execution).map_or(Ok(()), |row| self.wait_for(row))
            }
            _ => Ok(()),
        }
    }

    /// The changes without what follows them, if a sabotage tears this transaction apart.
    fn torn_apart(&self, changes: &[Change]) -> Option<Vec<Change>> {
        let is_repair = matches!(changes.first(), Some(Change::Repair(_)));
        let sabotage = if is_repair { Sabotage::TornRepair } else { Sabotage::TornFollowUp };
        let has_more = changes.iter().any(|it| it.next_attempt().is_some());
        if !is_repair && !has_more || !self.tears(sabotage) {
            return None;
        }
        let mut torn = changes.to_vec();
        for change in &mut torn {
            match change {
                Change::Execution(change) => match &mut change.transition {
                    Transition::Fail(_, next) | Transition::Release(_, next) | Transition::Abandon(next) => {
                        *next = None;
                    }
                    _ => {}
                },
                Change::Repair(repair) => repair.rows.clear(),
                Change::AfterRun(_)
                | Change::Pause(_)
                | Change::Contain(_)
                | Change::Quarantine(_)
                | Change::Remove(_)
                | Change::Replace(_)
                | Change::Withdraw(_)
                | Change::Policy(_)
                | Change::Switch(_)
                | Change::PauseEnd(_)
                | Change::Nobody(_)
                | Change::Expected(_)
                | Change::End(_) => {}
            }
        }
        Some(torn)
    }

    /// Makes the changes of rows that nobody holds, and notes deaths.
    /// Notes what was cancelled last for next occurrences: up to so many executions.
    fn note_replaced(&self, limit: usize) -> Result<()> {
        if limit == 0 {
            return Ok(());
        }
        let (application, verb) = (jobs::APPLICATION.to_owned(), Some("cancel".to_owned()));
        let actor = Some("firetime".to_owned());
        // Members give ids that are not in the order of their commits.
        let limit = limit + 20;
        let query = AuditQuery { application, verb, actor, limit, ..AuditQuery::default() };
        for row in self.head.audit(&query)? {
            let execution = row.target.split_once(" of ").and_then(|(id, _)| id.parse().ok());
            let at = lock(&self.shared.clock).0;
            let mut replaced = lock(&self.shared.replaced);
            let execution = execution.filter(|id: &i64| replaced.iter().all(|it| it.execution != *id));
            replaced.extend(execution.map(|execution| judge::Cancel { execution, at }));
        }
        Ok(())
    }

    fn applied(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        let is_held = |change: &Change| {
            let row = change.schedule().or(change.execution().map(row));
            row.is_some_and(|row| self.is_locked(row)) && !change.rule().only_asks()
        };
        let mut free: Vec<Change> = changes.iter().filter(|change| !is_held(change)).cloned().collect();
        if self.is(Sabotage::SnoozeForNothing) {
            for change in &mut free {
                if let Change::Execution(change) = change
                    && let Transition::Snooze(_, due) = &mut change.transition
                {
                    *due = change.now;
                }
            }
        }
        if self.is(Sabotage::RetryAtTheLimit) {
            let own = |change: &ExecutionChange| {
                let next = NextAttempt::new(change.now, Reason::Retry);
                let transition = Transition::Release(Token::fresh(), Some(next));
                Change::from(ExecutionChange { transition, ..change.clone() })
            };
            let limits = free.iter().filter_map(|it| match it {
                Change::Execution(change) if change.kind() == ChangeKind::TimeOut => Some(own(change)),
                _ => None,
            });
            let releases: Vec<Change> = limits.collect();
            free.extend(releases);
        }
        if self.is(Sabotage::ForgetTold) {
            for change in &mut free {
                if let Change::Nobody(NobodyChange { seen, becomes, .. }) = change {
                    becomes.told = seen.told;
                }
            }
        }
        let mut made = self.store.apply(&free)?.into_iter();
        let mut answer = |change: &Change| {
            if is_held(change) { Applied::Lost } else { made.next().unwrap_or(Applied::Lost) }
        };
        let applied: Vec<Applied> = changes.iter().map(&mut answer).collect();
        let replaces =
            |change: &&Change| matches!(change, Change::Repair(repair) if repair.replaces.is_some());
        self.note_replaced(changes.iter().filter(replaces).count())?;
        for (change, applied) in changes.iter().zip(&applied) {
            if let Change::Execution(change) = change
                && change.kind() == ChangeKind::Confirm
            {
                self.note_confirmed(change.token, *applied);
            }
            if let Change::Nobody(NobodyChange { seen, becomes, .. }) = change
                && applied.is_done()
                && becomes.told != seen.told
            {
                lock(&self.shared.nobodys).extend(becomes.told.map(Timestamp::millis));
            }
            if let Change::End(NodeEnd { node, beat: Some(_), .. }) = change
                && applied.is_done()
            {
                let moved = lock(&self.shared.beats).get(node).copied();
                let still = moved.map_or(Millis::MAX, |at| self.time - at);
                lock(&self.shared.deaths).push((*node, self.time, still));
            }
        }
        Ok(applied)
    }

    /// CLAIMED and RUNNING executions of a node.
    fn held_by(&self, node: NodeId) -> Result<Vec<ExecutionRow>> {
        self.head.executions(&ExecutionQuery {
            states: vec![ExecutionState::Claimed, ExecutionState::Running],
            node: Some(node.to_string()),
            limit: usize::MAX,
            ..ExecutionQuery::default()
        })
    }

    /// Blames a node that says that it has drained for what it holds.
    fn note_drained(&self, node: NodeId) -> Result<()> {
        let nodes = self.head.nodes(None)?;
        let is_drained = |row: &NodeRow| row.id == node.to_string() && row.switch == Activity::Drained;
        if !nodes.iter().any(is_drained) {
            return Ok(());
        }
        lock(&self.shared.drained).insert(node);
        let owned = self.held_by(node)?;
        if !owned.is_empty() {
            lock(&self.shared.misdrained).push(format!("{node} has drained, and holds {owned:?}"));
        }
        Ok(())
    }

    fn note_confirmed(&self, token: Token, applied: Applied) {
        let mut completions = lock(&self.shared.completions);
        if applied.is_done() {
            completions.asked_twice += usize::from(completions.undone.remove(&token));
        } else {
            completions.undone.insert(token);
        }
    }

    /// The COMMIT of a transaction in which the handler of this execution has completed.
    pub(super) fn commit(&self, complete: &ExecutionChange, fence: i64) -> Result<Completed> {
        let completed = self.complete(complete)?;
        if completed == Completed::Done {
            lock(&self.shared.committed).push((complete.execution.0, fence, self.time));
        } else {
            lock(&self.shared.completions).refused += 1;
        }
        Ok(completed)
    }

    pub(super) fn completions(&self) -> MutexGuard<'_, Completions> {
        lock(&self.shared.completions)
    }

    /// A handler sends a checkpoint: its value.
    pub(super) fn send_checkpoint(&self, execution: ExecutionId, fence: i64) -> i64 {
        let mut all = lock(&self.shared.checkpoints);
        let value = i64::try_from(all.len()).unwrap();
        let (execution, asked) = (execution.0, self.time);
        all.push(judge::Checkpoint { execution, fence, value, asked, ..judge::Checkpoint::default() });
        value
    }

    /// A checkpoint reaches the database; its handler may hear what becomes of it.
    pub(super) fn store_checkpoint(&self, value: i64, change: &ExecutionChange, is_heard: bool) {
        let stored = self.wait_for(row(change.execution)).and_then(|()| self.checkpoint(change));
        let stored = stored.ok().map(Applied::is_done);
        let mut all = lock(&self.shared.checkpoints);
        let it = &mut all[usize::try_from(value).unwrap()];
        it.stored = (stored == Some(true)).then_some(self.time);
        it.heard = stored.filter(|_| is_heard);
    }

    /// A handler asks how far its execution has come.
    pub(super) fn resume(&self, execution: ExecutionId, fence: i64) {
        let value = self.checkpoint_of(execution).unwrap().map(|text| text.parse().unwrap());
        lock(&self.shared.resumes).push(judge::Resume {
            execution: execution.0,
            fence,
            at: self.time,
            value,
        });
    }

    fn torn<T>() -> Result<T> {
        Err(Error::new(ErrorKind::Unknown, "the connection ended between two transactions"))
    }

    fn requests(&self, requests: &[ClaimRequest]) -> Vec<ClaimRequest> {
        let mut requests = requests.to_vec();
        if self.is(Sabotage::NoDeadline) {
            requests.iter_mut().for_each(|request| request.lease.until = Boot::MAX);
        }
        requests
    }

    /// Asks `free` for the rows nobody holds, in their places; `held` answers for the others.
    fn apart(
        &self,
        requests: &[ClaimRequest],
        held: impl Fn() -> Claim,
        free: impl FnOnce(&[ClaimRequest]) -> Result<Vec<Claim>>,
    ) -> Result<Vec<Claim>> {
        let requests = self.requests(requests);
        let (locked, open): (Vec<_>, Vec<_>) =
            requests.into_iter().enumerate().partition(|(_, request)| self.is_locked(schedule(request)));
        let (places, open): (Vec<usize>, Vec<ClaimRequest>) = open.into_iter().unzip();
        let answers = if open.is_empty() { Vec::new() } else { self.counted(&open, free(&open)?) };
        let mut all: Vec<(usize, Claim)> = places.into_iter().zip(answers).collect();
        all.extend(locked.into_iter().map(|(place, _)| (place, held())));
        all.sort_by_key(|(place, _)| *place);
        Ok(all.into_iter().map(|(_, claim)| claim).collect())
    }
}

impl Verbs for Wire<'_> {
    fn find(&self, application: &str, name: &str) -> Result<Option<Entry>> {
        self.store.find(application, name)
    }

    fn seen(&self, application: &str, name: &str) -> Result<Option<SeenSchedule>> {
        self.store.seen(application, name)
    }

    fn schedule(&self, application: &str, name: &str) -> Result<Option<ScheduleRow>> {
        self.store.schedule(application, name)
    }

    fn now(&self) -> Result<Timestamp> {
        Ok(self.sample().db())
    }

    fn apply(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        if changes.iter().any(has_coffee) {
            return Err(Error::new(ErrorKind::Data, "character has no equivalent in encoding"));
        }
        for change in changes {
            self.before(change)?;
        }
        if let Some(torn) = self.torn_apart(changes) {
            self.applied(&torn)?;
            return Self::torn();
        }
        self.applied(changes)
    }

    fn apply_audited(&self, change: Change, entry: &AuditEntry) -> Result<Applied> {
        self.before(&change)?;
        self.store.apply_audited(change, entry)
    }

    fn ensure(&self, definition: &Definition) -> Result<Ensured> {
        self.store.ensure(definition)
    }

    fn sync(&self, order: &SyncOrder) -> Result<SyncAnswer> {
        self.store.sync(order)
    }

    fn order(&self, order: &RunOrder) -> Result<Ordered> {
        self.store.order(order)
    }

    fn rerun(&self, order: &RerunOrder) -> Result<Reran> {
        self.store.rerun(order)
    }

    fn cancel_rerun(&self, order: &RerunCancel) -> Result<RerunCancelled> {
        self.store.cancel_rerun(order)
    }

    fn enqueue(&self, order: &EnqueueOrder) -> Result<Vec<ExecutionId>> {
        self.store.enqueue(order)
    }

    fn enqueue_unique(&self, order: &EnqueueOrder) -> Result<Keyed> {
        self.store.enqueue_unique(order)
    }

    fn complete(&self, outcome: &ExecutionChange) -> Result<Completed> {
        self.before(&outcome.clone().into())?;
        self.store.complete(outcome)
    }

    fn checkpoint(&self, checkpoint: &ExecutionChange) -> Result<Applied> {
        self.store.checkpoint(checkpoint)
    }

    fn cancel(&self, order: &ExecutionOrder) -> Result<Cancel> {
        self.store.cancel(order)
    }

    fn retry(&self, order: &ExecutionOrder) -> Result<Retry> {
        self.store.retry(order)
    }

    fn switch(&self, order: &SwitchOrder) -> Result<Switched> {
        if let (Scope::Node(node), SwitchVerb::Resume) = (&order.scope, order.verb) {
            lock(&self.shared.drained).remove(node);
        }
        self.store.switch(order)
    }

    fn passed(&self, query: &PassedQuery) -> Result<Vec<Entry>> {
        if self.is(Sabotage::PassNothing) {
            return Ok(Vec::new());
        }
        self.store.passed(query)
    }

    fn executions(&self, filter: &ExecutionQuery) -> Result<Vec<ExecutionRow>> {
        self.store.executions(filter)
    }
}

impl Store for Wire<'_> {
    fn apply_free(&self, changes: &[Change]) -> Result<Vec<Applied>> {
        let is_held = |change: &&Change| change.execution().is_some_and(|id| self.is_locked(row(id)));
        let free: Vec<Change> = changes.iter().filter(|change| !is_held(change)).cloned().collect();
        let mut applied = self.apply(&free)?.into_iter();
        let answer = |change| if is_held(&change) { Some(Applied::Held) } else { applied.next() };
        Ok(changes.iter().filter_map(answer).collect())
    }

    fn claim(&self, requests: &[ClaimRequest]) -> Result<Vec<Claim>> {
        self.apart(requests, || Claim::Skipped, |free| self.store.claim(free))
    }

    fn resolve(&self, requests: &[ClaimRequest], if_not_made: IfNotMade) -> Result<Vec<Claim>> {
        let if_not_made = if self.is(Sabotage::ResolveThoughOff) { IfNotMade::Claim } else { if_not_made };
        if self.is(Sabotage::ResolveTogether) {
            requests.iter().try_for_each(|request| self.wait_for(schedule(request)))?;
        }
        let held = || if self.is(Sabotage::HeldIsLost) { Claim::Lost } else { Claim::Skipped };
        self.apart(requests, held, |free| self.store.resolve(free, if_not_made))
    }

    fn requests(&self, query: &RequestQuery) -> Result<Vec<Request>> {
        self.store.requests(query)
    }

    fn carry_out(&self, request: &Request, carrier: &dyn Carrier) -> Result<CarriedOut> {
        self.store.carry_out(request, carrier)
    }

    fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRow>> {
        self.store.audit(query)
    }

    fn beat(&self, beat: &Heartbeat) -> Result<HeartbeatReply> {
        if self.is(Sabotage::ComputedDeath) {
            for node in self.store.nodes(None)? {
                let id: NodeId = node.id.parse().unwrap();
                if id != beat.node
                    && node.ended.is_none()
                    && node.last_beat < beat.now - Window::default().death
                {
                    let end = NodeEnd { node: id, beat: Some(node.beat), now: beat.now };
                    self.apply_one(Change::End(end))?;
                }
            }
        }
        lock(&self.shared.beats).insert(beat.node, self.time);
        let drained = beat.drained || self.is(Sabotage::DrainedAtOnce);
        let beat = &Heartbeat { drained, ..beat.clone() };
        let mut reply = self.store.beat(beat)?;
        self.shared.told.fetch_or(beat.tells, Ordering::Relaxed);
        if drained {
            self.note_drained(beat.node)?;
        }
        if let HeartbeatReply::Alive { owned, .. } = &mut reply
            && self.is(Sabotage::DeafToCancels)
        {
            owned.iter_mut().for_each(|it| it.is_cancelled = false);
        }
        Ok(reply)
    }

    fn hearing(&self) -> Hearing {
        self.store.hearing()
    }

    fn glance(&self, query: &GlanceQuery) -> Result<Glance> {
        let glance = self.store.glance(query)?;
        let news = if self.is(Sabotage::DeafToNews) { News::default() } else { glance.news };
        Ok(Glance { news, ..glance })
    }

    fn listen(&self, application: &str) -> Result<Box<dyn Ear>> {
        self.store.listen(application)
    }

    fn poll(&self, query: &PollQuery) -> Result<Polled> {
        if self.shared.no_polls.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unavailable, "statement timeout"));
        }
        if self.is(Sabotage::UnboundedPolls) {
            let all = self.store.poll(&everything(query))?;
            let rows = all.entries.len() + all.pendings.len();
            if takes(rows, all.large.values().sum()) >= Window::default().call {
                return Err(Error::new(ErrorKind::Unknown, "no answer in time"));
            }
        }
        let query = &self.skipping(query);
        let is_look = query.limit == 0;
        let is_whole = query.from == Timestamp::at(0) || query.pending_from == Timestamp::at(Millis::MIN);
        let is_long = is_whole || self.is(Sabotage::SkipNothing);
        if is_long && self.shared.old_snapshot.load(Ordering::Relaxed) || is_look && self.is(Sabotage::NoLook)
        {
            return Err(Error::new(ErrorKind::Unknown, "no answer in time"));
        }
        let mut polled = Polled { time: self.sample(), ..self.store.poll(query)? };
        if polled.earliest.is_none() && !is_look {
            *lock(&self.shared.seen) = query.until.millis();
        }
        if self.is(Sabotage::ForgetOwnPayloads) {
            polled.pendings.iter_mut().for_each(|pending| pending.payload = None);
        }
        if self.is(Sabotage::ForgetGroups) {
            polled.pendings.iter_mut().for_each(|pending| pending.group = None);
        }
        if self.is(Sabotage::ForgetFailures) {
            polled.pendings.iter_mut().for_each(|pending| pending.failures = 0);
        }
        polled.pause_ended &= !self.is(Sabotage::EndNoPause);
        polled.requested &= !self.is(Sabotage::DeafToRequests);
        polled.drains &= !self.is(Sabotage::KeepTheQueue);
        if self.is(Sabotage::DeafToSwitches) {
            (polled.app_enabled, polled.node_enabled) = (true, true);
        }
        Ok(polled)
    }

    fn payloads(&self, schedules: &[ScheduleId]) -> Result<Vec<LargePayload>> {
        self.store.payloads(schedules)
    }

    fn register(&self, node: &NewNode) -> Result<TimeSample> {
        let mut node = node.clone();
        if self.shared.no_rates {
            for bounds in node.jobs.iter_mut().map(|job| &mut job.settings.policy.bounds) {
                (bounds.job.rate, bounds.group.rate) = (Rate::default(), Rate::default());
            }
        }
        self.store.register(&node).map(|_| self.sample())
    }

    fn elect(&self, application: &str, now: Timestamp, interval: Millis) -> Result<Applied> {
        self.store.elect(application, now, interval)
    }

    fn overdue(&self, query: &OverdueQuery) -> Result<OverduePage> {
        self.store.overdue(query)
    }

    fn stranded(&self, application: &str, after: ExecutionId, limit: usize) -> Result<StrandedPage> {
        let mut page = self.store.stranded(application, after, limit)?;
        if self.is(Sabotage::KeepTheStuck) {
            page.stranded.retain(|it| it.state != ExecutionState::TimedOut);
        }
        Ok(page)
    }

    fn withdrawn(&self, application: &str, limit: usize) -> Result<Vec<Withdrawn>> {
        if self.is(Sabotage::LeaveWithdrawn) {
            return Ok(Vec::new());
        }
        self.store.withdrawn(application, limit)
    }

    fn unreadable(&self, query: &UnreadableQuery) -> Result<UnreadablePage> {
        let ahead = query.ahead.filter(|_| !self.is(Sabotage::StayAhead));
        self.store.unreadable(&UnreadableQuery { ahead, ..query.clone() })
    }

    fn purge_queues(&self, walk: &QueueWalk) -> Result<PurgedQueues> {
        let keep = if self.is(Sabotage::PurgeAtOnce) { 0 } else { walk.keep };
        self.store.purge_queues(&QueueWalk { keep, ..walk.clone() })
    }

    fn purge_orphans(&self, walk: &OrphanWalk) -> Result<PurgedOrphans> {
        self.store.purge_orphans(walk)
    }

    fn purge(&self, purge: &Purge) -> Result<Purged> {
        let keep = if self.is(Sabotage::PurgeAtOnce) { 0 } else { purge.keep };
        self.store.purge(&Purge { keep, ..purge.clone() })
    }

    fn ended_pauses(&self, application: &str) -> Result<Vec<EndedPause>> {
        self.store.ended_pauses(application)
    }

    fn streak(&self, query: &StreakQuery) -> Result<Option<Streak>> {
        let is_deaf = self.is(Sabotage::CountNoDeaths) && !query.dying.is_empty();
        if is_deaf || self.is(Sabotage::CountNothing) {
            return Ok(None);
        }
        self.store.streak(query)
    }

    fn contain(&self, query: &StreakQuery, streak: &Streak) -> Result<Applied> {
        let applied = if self.is(Sabotage::CountOnce) {
            let (change, audit) = streak.pause();
            self.store.apply_audited(change, &audit)?
        } else {
            self.store.contain(query, streak)?
        };
        if applied.is_done() {
            lock(&self.shared.contained).push((streak.name.to_string(), self.time));
        }
        Ok(applied)
    }

    fn saw_cancels(&self, executions: &[ExecutionId]) -> Result<()> {
        self.store.saw_cancels(executions)
    }

    fn say(&self, said: &[Said]) -> Result<Vec<Applied>> {
        self.store.say(said)
    }

    fn said(&self, application: &str, execution: ExecutionId) -> Result<Vec<SaidBy>> {
        self.store.said(application, execution)
    }

    fn announce_awaited(&self, application: &str, executions: &[ExecutionId]) -> Result<()> {
        self.store.announce_awaited(application, executions)
    }

    fn announce_ended(&self, executions: &[ExecutionId]) -> Result<()> {
        self.store.announce_ended(executions)
    }

    fn open_or_ended(
        &self,
        application: &str,
        executions: &[ExecutionId],
    ) -> Result<Vec<(ExecutionId, OpenOrEnded)>> {
        self.store.open_or_ended(application, executions)
    }

    fn nodes(&self, application: Option<&str>) -> Result<Vec<NodeRow>> {
        self.store.nodes(application)
    }

    fn applications(&self) -> Result<Vec<ApplicationRow>> {
        self.store.applications()
    }

    fn jobs(&self, application: &str) -> Result<Vec<JobRow>> {
        self.store.jobs(application)
    }

    fn schedules(&self, application: Option<&str>) -> Result<Vec<ScheduleRow>> {
        self.store.schedules(application)
    }

    fn plan_sync(&self, order: &SyncOrder) -> Result<SyncAnswer> {
        self.store.plan_sync(order)
    }

    fn owner(&self, application: &str, owner: &str) -> Result<Option<OwnerRow>> {
        self.store.owner(application, owner)
    }

    fn schedule_page(&self, query: &ScheduleQuery) -> Result<SchedulePage> {
        self.store.schedule_page(query)
    }

    fn count_schedules(&self, application: &str, most: usize) -> Result<usize> {
        self.store.count_schedules(application, most)
    }

    fn count_by_job(&self, application: &str, most: usize) -> Result<Vec<(String, usize)>> {
        self.store.count_by_job(application, most)
    }

    fn past(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<PastRow>> {
        self.store.past(schedules, most)
    }

    fn counts(&self, schedule: ScheduleId, most: usize) -> Result<Vec<(String, i64)>> {
        self.store.counts(schedule, most)
    }

    fn waiting_payloads(&self, walk: &PayloadWalk) -> Result<PayloadPage> {
        self.store.waiting_payloads(walk)
    }

    fn expected(&self, query: &ExpectedQuery) -> Result<ExpectedPage> {
        self.store.expected(query)
    }

    fn expect(&self, schedules: &[ScheduleId]) -> Result<()> {
        self.store.expect(schedules)
    }

    fn expect_no_longer(&self, application: &str, schedules: &[ScheduleId]) -> Result<()> {
        self.store.expect_no_longer(application, schedules)
    }

    fn note_expected(&self, query: &ExpectedQuery, found: &Expectation) -> Result<Applied> {
        let applied = self.store.note_expected(query, found)?;
        if applied.is_done() {
            let ExpectedChange { seen, becomes, .. } = found.change;
            let entry = self.head.find(jobs::APPLICATION, &found.name)?;
            lock(&self.shared.expectations).push(judge::ExpectationNote {
                schedule: found.name.to_string(),
                generation: entry.map_or(-1, |entry| entry.generation),
                fire_time: becomes.or(seen).map_or(-1, Timestamp::millis),
                is_met: becomes.is_none(),
                at: self.time,
                clock: self.clock,
            });
        }
        Ok(applied)
    }

    fn nobody(&self, query: &NobodyQuery) -> Result<Vec<UnservedJob>> {
        if self.is(Sabotage::SeeNobody) {
            return Ok(Vec::new());
        }
        self.store.nobody(query)
    }

    fn figures(&self, query: &FiguresQuery) -> Result<Figures> {
        self.store.figures(query)
    }

    fn fold_outcomes(&self, fold: &OutcomeFold) -> Result<bool> {
        self.store.fold_outcomes(fold)
    }

    fn outcomes(&self, query: &OutcomeQuery) -> Result<Vec<(OutcomeSpan, OutcomeCounts)>> {
        self.store.outcomes(query)
    }

    fn checkpoint_of(&self, execution: ExecutionId) -> Result<Option<String>> {
        self.store.checkpoint_of(execution)
    }

    fn covers(&self, execution: ExecutionId, most: usize) -> Result<Option<Covers>> {
        self.store.covers(execution, most)
    }

    fn execution_at(&self, schedule: ScheduleId, at: Timestamp) -> Result<Option<ExecutionId>> {
        self.store.execution_at(schedule, at)
    }

    fn ledger_from(&self, application: &str) -> Result<Option<Timestamp>> {
        self.store.ledger_from(application)
    }

    fn ledger_schedules(&self, page: &LedgerPage) -> Result<Vec<LedgerSchedule>> {
        self.store.ledger_schedules(page)
    }

    fn ledger_lines_by(&self, range: &LedgerRange) -> Result<LinesBy> {
        self.store.ledger_lines_by(range)
    }

    fn ledger_lines(&self, query: &LineQuery) -> Result<Vec<LedgerLine>> {
        self.store.ledger_lines(query)
    }

    fn fire_times(
        &self,
        schedule: ScheduleId,
        span: &Range<Timestamp>,
        limit: usize,
    ) -> Result<Vec<Timestamp>> {
        self.store.fire_times(schedule, span, limit)
    }

    fn rerun_at(&self, schedule: ScheduleId, at: Timestamp) -> Result<Option<ExecutionId>> {
        self.store.rerun_at(schedule, at)
    }

    fn plan_rerun(&self, order: &RerunOrder) -> Result<RerunPreview> {
        self.store.plan_rerun(order)
    }
}
