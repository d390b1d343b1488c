//! The misfire handler: what the flow left behind is repaired, by one node at a time, under the same guards.
//!
//! The decisions ([`decide`], [`resume`], [`recover`]) are pure; the machine asks, decides and repairs in
//! passes with a time budget. Two at once only waste work: every repair is guarded by what it saw.
//!
//! What a pass leaves of its budget goes to retention: a walk over the schedules, in chunks, that is taken up
//! where the last pass stopped and begun anew some time after its end.

use std::collections::VecDeque;

use crate::clock::Now;
use crate::error::{Error, Kind};
use crate::event::Event;
use crate::machine::{Machine, Operation, Step};
use crate::model::{Cursor, Entry, ExecutionState, Millis, MisfirePolicy, ScheduleId, ScheduleState, Token};
use crate::store::{
    Broken, BrokenPage, BrokenQuery, LedgerRow, Purge, Purged, Reason, Repair, Revocation, Stalled,
    StalledQuery, Store, Stranded,
};
use crate::window::{Window, is_election_due};

/// The most occurrences one repair passes one by one; the rest waits for the next pass.
const MOST_PASSED: u64 = 100_000;
/// The most occurrences "fire all" runs in one repair; those beyond are skipped.
const MOST_FIRED: usize = 1_000;
/// "Fire all" lets a missed occurrence start at least this often.
const SLOWEST_PACE: Millis = 1_000;
/// Rows per question.
const PAGE: usize = 200;
/// Rows a pass walks over in search of those nobody understands. A walk over more takes more passes.
const STEP: usize = 50_000;
/// A pass ends after this long; the next election goes on.
const BUDGET: Millis = 3_000;
const FAILURE_PAUSE: Millis = 1_000;
/// After one row failed, before the next is tried.
const ROW_PAUSE: Millis = 50;
/// What ran side by side on a dead node runs again this far apart: what killed it takes the rest along only once.
const APART: Millis = 1_000;
/// So many begin apart; those beyond begin with them.
const MOST_APART: Millis = 8;
/// Before the id of every schedule.
const FIRST: ScheduleId = ScheduleId(i64::MIN);
/// Occurrences per purge.
const CHUNK: usize = 1_000;
/// A walk of purges is begun anew after this part of the retention,
const WALKS: Millis = 100;
/// and at least this often.
const WALK_AGAIN: Millis = 3_600_000;

/// The occurrences of a schedule from its cursor to `now`, counted.
struct Missed {
    first: Millis,
    last: Millis,
    /// The one before the last.
    before: Option<Millis>,
    count: u64,
    following: Option<Millis>,
    /// The first ones, as many as "fire all" may run.
    times: Vec<Millis>,
    /// The first one behind those, if it was missed too.
    beyond: Option<Millis>,
}

fn missed(entry: &Entry, now: Millis) -> Option<Missed> {
    let first = entry.cursor.next.filter(|next| *next <= now)?;
    let mut missed = Missed {
        first,
        last: first,
        before: None,
        count: 1,
        following: entry.timing.after(first),
        times: vec![first],
        beyond: None,
    };
    for _ in 1..MOST_PASSED {
        let Some(next) = missed.following.filter(|next| *next <= now) else { break };
        missed.before = Some(missed.last);
        // Behind the times that may run, a fixed interval is reckoned: a cursor set back by hand is decades behind.
        let (leapt, next) = missed.beyond.and_then(|_| entry.timing.leap(next, now)).unwrap_or((0, next));
        missed.last = next;
        missed.count += 1 + leapt;
        missed.following = entry.timing.after(next);
        if missed.times.len() < MOST_FIRED {
            missed.times.push(next);
        } else {
            missed.beyond.get_or_insert(next);
        }
    }
    Some(missed)
}

impl Missed {
    /// Whether it reaches `now`; otherwise the cap cut it off.
    fn is_whole(&self, now: Millis) -> bool {
        self.following.is_none_or(|next| next > now)
    }

    fn all_skipped(&self, prev: Option<Millis>, reason: Reason) -> Vec<LedgerRow> {
        vec![LedgerRow::Skipped {
            from: self.first,
            to: self.last,
            count: self.count,
            prev,
            following: self.following,
            reason,
        }]
    }

    /// The latest runs now, the earlier ones are skipped.
    fn fire_once(&self, prev: Option<Millis>, now: Millis) -> Vec<LedgerRow> {
        let skipped = self.before.map(|before| LedgerRow::Skipped {
            from: self.first,
            to: before,
            count: self.count - 1,
            prev,
            following: Some(self.last),
            reason: Reason::Misfire,
        });
        let fired = LedgerRow::Pending {
            at: self.last,
            due: now,
            prev: self.before.or(prev),
            following: self.following,
            reason: Reason::Misfire,
        };
        skipped.into_iter().chain([fired]).collect()
    }

    /// Each runs, in order, faster than it was planned; those beyond the cap are skipped.
    fn fire_all(&self, prev: Option<Millis>, now: Millis) -> Vec<LedgerRow> {
        let pace = self.pace();
        let followers = self.times.iter().skip(1).copied().map(Some);
        let mut behind = prev;
        let mut rows = Vec::with_capacity(self.times.len() + 1);
        for ((n, at), follower) in
            (0..).zip(&self.times).zip(followers.chain([self.beyond.or(self.following)]))
        {
            rows.push(LedgerRow::Pending {
                at: *at,
                due: now + n * pace,
                prev: behind,
                following: follower,
                reason: Reason::Misfire,
            });
            behind = Some(*at);
        }
        if let Some(from) = self.beyond {
            rows.push(LedgerRow::Skipped {
                from,
                to: self.last,
                count: self.count - MOST_FIRED as u64,
                prev: behind,
                following: self.following,
                reason: Reason::Misfire,
            });
        }
        rows
    }

    fn pace(&self) -> Millis {
        let gaps = i64::try_from(self.count - 1).unwrap_or(i64::MAX).max(1);
        ((self.last - self.first) / gaps / 2).min(SLOWEST_PACE)
    }
}

/// The repair of a schedule whose cursor fell behind its threshold; `None` when it did not.
pub(crate) fn decide(entry: &Entry, now: Millis, least_threshold: Millis) -> Option<Repair> {
    if entry.state != ScheduleState::Active || !entry.is_misfired(now, least_threshold) {
        return None;
    }
    let missed = missed(entry, now)?;
    let prev = entry.cursor.prev;
    let rows = match entry.misfire {
        MisfirePolicy::FireAll => missed.fire_all(prev, now),
        MisfirePolicy::FireOnce if missed.is_whole(now) => missed.fire_once(prev, now),
        MisfirePolicy::FireOnce | MisfirePolicy::DoNothing => missed.all_skipped(prev, Reason::Misfire),
    };
    let supersede = entry.misfire == MisfirePolicy::FireOnce;
    Some(repair(entry, &missed, rows, now, Passing { supersede, resume: false }))
}

/// The end of a pause: what was planned meanwhile is skipped, nothing fires late.
pub(crate) fn resume(entry: &Entry, now: Millis) -> Option<Repair> {
    if entry.state != ScheduleState::Paused {
        return None;
    }
    Some(match missed(entry, now) {
        Some(missed) => {
            // While the cursor is still behind, the schedule stays paused: the rest is no misfire.
            let passing = Passing { supersede: false, resume: missed.is_whole(now) };
            let rows = missed.all_skipped(entry.cursor.prev, Reason::Paused);
            repair(entry, &missed, rows, now, passing)
        }
        None => Repair {
            id: entry.id,
            generation: entry.generation,
            state: entry.state,
            cursor: entry.cursor,
            version: entry.version,
            to: entry.cursor,
            passed: 0,
            rows: Vec::new(),
            supersede: false,
            resume: true,
            now,
        },
    })
}

struct Passing {
    supersede: bool,
    resume: bool,
}

fn repair(entry: &Entry, missed: &Missed, rows: Vec<LedgerRow>, now: Millis, passing: Passing) -> Repair {
    Repair {
        id: entry.id,
        generation: entry.generation,
        state: entry.state,
        cursor: entry.cursor,
        version: entry.version,
        to: Cursor { prev: Some(missed.last), next: missed.following },
        passed: missed.count,
        rows,
        supersede: passing.supersede,
        resume: passing.resume,
        now,
    }
}

/// How an execution nobody answers for is taken back; if it ran, it may run again from `due` on. An occurrence
/// that so many nodes did not survive is taken to be what killed them.
pub(crate) fn recover(stranded: Stranded, due: Millis, now: Millis) -> Revocation {
    let policy = stranded.policy;
    let (to, reason, again) = match stranded.state {
        ExecutionState::Running if !policy.recover => (ExecutionState::Abandoned, Reason::NodeDied, false),
        ExecutionState::Running if stranded.deaths.saturating_add(1) >= policy.max_attempts => {
            (ExecutionState::Failed, Reason::AttemptsExhausted, false)
        }
        ExecutionState::Running => (ExecutionState::Abandoned, Reason::NodeDied, true),
        _ => (ExecutionState::Pending, Reason::Recovery, false),
    };
    Revocation { stranded, to, reason, again, due, fresh: Token::fresh(), now }
}

/// How the executions of dead nodes are taken back. The newest run last: what kills mostly kills soon.
fn recover_apart(mut found: Vec<Stranded>, now: Millis) -> Vec<Revocation> {
    found.sort_by_key(|stranded| stranded.id);
    let mut ran = 0;
    let apart = |stranded: Stranded| {
        let due = now + APART * (ran % MOST_APART);
        ran += Millis::from(stranded.state == ExecutionState::Running);
        recover(stranded, due, now)
    };
    found.into_iter().map(apart).collect()
}

#[derive(Clone)]
pub(crate) enum MisfireOp {
    Elect { application: String, now: Millis, interval: Millis },
    Stalled(StalledQuery),
    Repair(Repair),
    Stranded(String),
    Revoke(Revocation),
    Broken(BrokenQuery),
    Quarantine(Broken),
    Purge(Purge),
}

pub(crate) enum MisfireAnswer {
    Elected(bool),
    Stalled(Stalled),
    Repaired(ScheduleId, bool),
    Stranded(Vec<Stranded>),
    Revoked(Revocation, bool),
    Broken(BrokenPage),
    Quarantined(Broken, bool),
    Purged(Purged),
}

impl MisfireOp {
    fn is_about_one_row(&self) -> bool {
        matches!(self, Self::Repair(_) | Self::Revoke(_) | Self::Quarantine(_))
    }
}

impl Operation for MisfireOp {
    type Answer = MisfireAnswer;

    fn name(&self) -> &'static str {
        match self {
            Self::Elect { .. } => "electing the misfire handler",
            Self::Stalled(_) => "looking for misfires",
            Self::Repair(_) => "repairing a misfire",
            Self::Stranded(_) => "looking for executions of dead nodes",
            Self::Revoke(_) => "taking an execution back from a dead node",
            Self::Broken(_) => "looking for broken rows",
            Self::Quarantine(_) => "putting a broken row into quarantine",
            Self::Purge(_) => "purging the ledger",
        }
    }

    fn perform(self, store: &dyn Store) -> Result<MisfireAnswer, Error> {
        match self {
            Self::Elect { application, now, interval } => {
                store.elect(&application, now, interval).map(MisfireAnswer::Elected)
            }
            Self::Stalled(query) => store.stalled(&query).map(MisfireAnswer::Stalled),
            Self::Repair(repair) => store.repair(&repair).map(|won| MisfireAnswer::Repaired(repair.id, won)),
            Self::Stranded(application) => store.stranded(&application, PAGE).map(MisfireAnswer::Stranded),
            Self::Revoke(revocation) => {
                store.revoke(&revocation).map(|won| MisfireAnswer::Revoked(revocation, won))
            }
            Self::Broken(query) => store.broken(&query).map(MisfireAnswer::Broken),
            Self::Quarantine(broken) => {
                store.quarantine(&broken).map(|won| MisfireAnswer::Quarantined(broken, won))
            }
            Self::Purge(purge) => store.purge(&purge).map(MisfireAnswer::Purged),
        }
    }
}

pub(crate) enum MisfireInput {
    /// A poll ended: time to try for election if the mark is due.
    Polled {
        app: bool,
        node: bool,
        election: Option<Millis>,
        late: bool,
    },
    Stop,
}

pub(crate) enum MisfireOutput {
    WakePoll,
    Event(Event),
}

pub(crate) struct MisfireMachine {
    application: String,
    window: Window,
    /// Operations of the pass still to do, first come first.
    todo: VecDeque<MisfireOp>,
    /// The pass goes on with retention once `todo` is empty.
    purging: bool,
    /// Where the walk over the schedules goes on, and when (boot clock) it begins anew.
    purged: String,
    walk_at: Millis,
    pass_ends: Millis,
    /// The application is switched on: cursors may be moved.
    cursors: bool,
    /// Something is late; otherwise nothing can have stalled.
    late: bool,
    repaired: bool,
    /// The schedule whose repair was asked for last, and where the next pass goes on after one that was cut off.
    reached: ScheduleId,
    goes_on: ScheduleId,
    /// Where the step of the walk in search of broken rows began, and where the next one does if nothing cuts this short.
    walked: ScheduleId,
    walks_on: ScheduleId,
    /// The look for misfires under way began at the first schedule.
    from_start: bool,
    /// What is being done concerns one row alone.
    one_row: bool,
    hold: Millis,
    outbox: VecDeque<MisfireOutput>,
    stopping: bool,
}

impl MisfireMachine {
    pub(crate) fn new(application: String, window: Window) -> Self {
        Self {
            application,
            window,
            todo: VecDeque::new(),
            purging: false,
            purged: String::new(),
            walk_at: Millis::MIN,
            pass_ends: 0,
            cursors: false,
            late: false,
            repaired: false,
            reached: FIRST,
            goes_on: FIRST,
            walked: FIRST,
            walks_on: FIRST,
            from_start: true,
            one_row: false,
            hold: Millis::MIN,
            outbox: VecDeque::new(),
            stopping: false,
        }
    }

    /// A pass takes back the dead nodes' work first: it is what waits longest.
    fn begin_pass(&mut self, now: Now) {
        self.pass_ends = now.boot + BUDGET;
        self.todo.push_back(MisfireOp::Stranded(self.application.clone()));
        if self.cursors && self.late {
            // Where the last pass ran out of time, so that no row keeps those behind it waiting for ever.
            let after = std::mem::replace(&mut self.goes_on, FIRST);
            self.from_start = after == FIRST;
            self.todo.push_back(self.stalled(now, after));
        }
        if self.cursors {
            self.walked = self.walks_on;
            let (application, after) = (self.application.clone(), self.walked);
            self.todo.push_back(MisfireOp::Broken(BrokenQuery {
                application,
                after,
                step: STEP,
                before: self.left_behind(now),
                limit: PAGE,
            }));
        }
        self.purging = self.window.retention.is_some() && now.boot >= self.walk_at;
    }

    /// The pass's next chunk of retention, if it is time for one.
    fn purge(&mut self) -> Option<MisfireOp> {
        if !std::mem::take(&mut self.purging) {
            return None;
        }
        let keep = self.window.retention?;
        let (application, after) = (self.application.clone(), self.purged.clone());
        Some(MisfireOp::Purge(Purge { application, after, keep, limit: CHUNK }))
    }

    fn purged(&mut self, purged: Purged, now: Now) {
        if purged.occurrences > 0 {
            let event = Event::Purged { occurrences: purged.occurrences };
            self.outbox.push_back(MisfireOutput::Event(event));
        }
        self.purging = purged.next.is_some();
        if !self.purging {
            let keep = self.window.retention.unwrap_or(Millis::MAX);
            self.walk_at = now.boot.saturating_add((keep / WALKS).min(WALK_AGAIN));
        }
        self.purged = purged.next.unwrap_or_default();
    }

    /// What is due since then is the polls' alone.
    fn left_behind(&self, now: Now) -> Millis {
        now.db - self.window.least_threshold()
    }

    fn stalled(&self, now: Now, after: ScheduleId) -> MisfireOp {
        MisfireOp::Stalled(StalledQuery {
            application: self.application.clone(),
            before: self.left_behind(now),
            after,
            limit: PAGE,
        })
    }

    fn found_stalled(&mut self, page: &Stalled, now: Now) {
        if let Some(last) = page.next {
            self.todo.push_front(self.stalled(now, last));
        } else if !std::mem::replace(&mut self.from_start, true) {
            self.todo.push_front(self.stalled(now, FIRST));
        }
        let least = self.window.least_threshold();
        let repairs = page.entries.iter().filter_map(|entry| decide(entry, now.db, least));
        for repair in repairs.collect::<Vec<_>>().into_iter().rev() {
            self.todo.push_front(MisfireOp::Repair(repair));
        }
    }

    fn repaired(&mut self, schedule: ScheduleId, won: bool, what: &'static str) {
        if won {
            self.repaired = true;
            self.outbox.push_back(MisfireOutput::Event(Event::Repaired { schedule, what }));
        }
    }

    fn revoked(&mut self, revocation: &Revocation, won: bool) {
        let Stranded { id: execution, schedule, deaths, .. } = revocation.stranded;
        self.repaired(schedule, won, "execution taken back from a dead node");
        if won && revocation.reason == Reason::AttemptsExhausted {
            let event = Event::Exhausted { schedule, execution, deaths: deaths.saturating_add(1) };
            self.outbox.push_back(MisfireOutput::Event(event));
        }
    }

    /// The pass's time is up.
    fn end_pass(&mut self) {
        if !self.todo.is_empty() {
            self.goes_on = self.reached;
        }
        self.drop_rest();
        self.wake_poll();
    }

    /// What is left of the pass is left to the next.
    fn drop_rest(&mut self) {
        if self.todo.iter().any(|op| matches!(op, MisfireOp::Quarantine(_))) {
            self.walks_on = self.walked;
        }
        self.todo.clear();
        self.purging = false;
    }

    fn wake_poll(&mut self) {
        if std::mem::take(&mut self.repaired) {
            self.outbox.push_back(MisfireOutput::WakePoll);
        }
    }
}

impl Machine for MisfireMachine {
    type Op = MisfireOp;
    type Input = MisfireInput;
    type Output = MisfireOutput;

    fn next(&mut self, now: Now) -> Step<MisfireOp, MisfireOutput> {
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.stopping {
            return Step::Stop;
        }
        if now.boot < self.hold {
            return Step::Wait(self.hold);
        }
        match self.todo.pop_front() {
            Some(op) => {
                self.one_row = op.is_about_one_row();
                if let MisfireOp::Repair(repair) = &op {
                    self.reached = repair.id;
                }
                Step::Do(op)
            }
            None if self.repaired => {
                self.wake_poll();
                self.next(now)
            }
            None => {
                self.one_row = false;
                self.purge().map_or(Step::Wait(Millis::MAX), Step::Do)
            }
        }
    }

    fn done(&mut self, now: Now, answer: Result<MisfireAnswer, Error>) {
        match answer {
            Ok(MisfireAnswer::Elected(true)) => self.begin_pass(now),
            Ok(MisfireAnswer::Elected(false)) => {}
            Ok(MisfireAnswer::Stalled(page)) => self.found_stalled(&page, now),
            Ok(MisfireAnswer::Repaired(id, won)) => self.repaired(id, won, "misfire repaired"),
            Ok(MisfireAnswer::Stranded(found)) => {
                if found.len() == PAGE {
                    self.todo.push_front(MisfireOp::Stranded(self.application.clone()));
                }
                for revocation in recover_apart(found, now.db).into_iter().rev() {
                    self.todo.push_front(MisfireOp::Revoke(revocation));
                }
            }
            Ok(MisfireAnswer::Revoked(revocation, won)) => self.revoked(&revocation, won),
            Ok(MisfireAnswer::Broken(page)) => {
                self.walks_on = page.next.unwrap_or(FIRST);
                self.todo.extend(page.broken.into_iter().map(MisfireOp::Quarantine));
            }
            Ok(MisfireAnswer::Quarantined(broken, won)) => {
                if won {
                    let event = Event::Quarantined { schedule: broken.id, reason: broken.reason };
                    self.outbox.push_back(MisfireOutput::Event(event));
                }
            }
            Ok(MisfireAnswer::Purged(purged)) => self.purged(purged, now),
            Err(error) => {
                // One row that is refused, or held locked by others, does not keep the rest from being repaired.
                if self.one_row && matches!(error.kind(), Kind::Data | Kind::Refused | Kind::Unavailable) {
                    self.hold = now.boot + ROW_PAUSE;
                } else {
                    self.hold = now.boot + FAILURE_PAUSE;
                    self.drop_rest();
                }
                let event = Event::StoreFailed { operation: "misfire handling", error };
                self.outbox.push_back(MisfireOutput::Event(event));
            }
        }
        if now.boot > self.pass_ends {
            self.end_pass();
        }
    }

    fn receive(&mut self, now: Now, input: MisfireInput) {
        match input {
            MisfireInput::Polled { app, node, election, late } => {
                (self.cursors, self.late) = (app, late);
                let due = is_election_due(election, now.db, self.window.election);
                if node && due && self.todo.is_empty() && !self.purging {
                    self.todo.push_back(MisfireOp::Elect {
                        application: self.application.clone(),
                        now: now.db,
                        interval: self.window.election,
                    });
                }
            }
            MisfireInput::Stop => self.stopping = true,
        }
    }
}

#[cfg(test)]
mod tests;
