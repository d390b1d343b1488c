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
    Broken, LedgerRow, Purge, Purged, Reason, Repair, Revocation, StalledQuery, Store, Stranded,
};
use crate::window::Window;

/// The most occurrences one repair passes; the rest waits for the next pass.
const MOST_PASSED: u64 = 100_000;
/// The most occurrences "fire all" runs in one repair; those beyond are skipped.
const MOST_FIRED: usize = 1_000;
/// "Fire all" lets a missed occurrence start at least this often.
const SLOWEST_PACE: Millis = 1_000;
/// Rows per question.
const PAGE: usize = 200;
/// A pass ends after this long; the next election goes on.
const BUDGET: Millis = 3_000;
const FAILURE_PAUSE: Millis = 1_000;
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
    while let Some(next) = missed.following.filter(|next| *next <= now && missed.count < MOST_PASSED) {
        missed.before = Some(missed.last);
        missed.last = next;
        missed.count += 1;
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

/// How an execution nobody answers for is taken back.
pub(crate) fn recover(stranded: Stranded, now: Millis) -> Revocation {
    let policy = stranded.policy;
    let (to, reason, again) = match stranded.state {
        ExecutionState::Running if !policy.recover => (ExecutionState::Abandoned, Reason::NodeDied, false),
        ExecutionState::Running if stranded.attempt >= policy.max_attempts => {
            (ExecutionState::Failed, Reason::AttemptsExhausted, false)
        }
        ExecutionState::Running => (ExecutionState::Abandoned, Reason::NodeDied, true),
        _ => (ExecutionState::Pending, Reason::Recovery, false),
    };
    Revocation { stranded, to, reason, again, fresh: Token::fresh(), now }
}

#[derive(Clone)]
pub(crate) enum MisfireOp {
    Elect { application: String, now: Millis, interval: Millis },
    Stalled(StalledQuery),
    Repair(Repair),
    Stranded(String),
    Revoke(Revocation),
    Broken(String),
    Quarantine(Broken),
    Purge(Purge),
}

pub(crate) enum MisfireAnswer {
    Elected(bool),
    Stalled(Vec<Entry>),
    Repaired(ScheduleId, bool),
    Stranded(Vec<Stranded>),
    Revoked(ScheduleId, bool),
    Broken(Vec<Broken>),
    Quarantined(Broken, bool),
    Purged(Purged),
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
                let schedule = revocation.stranded.schedule;
                store.revoke(&revocation).map(|won| MisfireAnswer::Revoked(schedule, won))
            }
            Self::Broken(application) => store.broken(&application, PAGE).map(MisfireAnswer::Broken),
            Self::Quarantine(broken) => {
                store.quarantine(&broken).map(|won| MisfireAnswer::Quarantined(broken, won))
            }
            Self::Purge(purge) => store.purge(&purge).map(MisfireAnswer::Purged),
        }
    }
}

pub(crate) enum MisfireInput {
    /// A poll ended: time to try for election.
    Polled {
        app: bool,
        node: bool,
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
    repaired: bool,
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
            repaired: false,
            hold: Millis::MIN,
            outbox: VecDeque::new(),
            stopping: false,
        }
    }

    /// A pass takes back the dead nodes' work first: it is what waits longest.
    fn begin_pass(&mut self, now: Now) {
        self.pass_ends = now.boot + BUDGET;
        self.todo.push_back(MisfireOp::Stranded(self.application.clone()));
        if self.cursors {
            self.todo.push_back(self.stalled(now, ScheduleId(i64::MIN)));
            self.todo.push_back(MisfireOp::Broken(self.application.clone()));
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

    fn stalled(&self, now: Now, after: ScheduleId) -> MisfireOp {
        MisfireOp::Stalled(StalledQuery {
            application: self.application.clone(),
            before: now.db - self.window.least_threshold(),
            after,
            limit: PAGE,
        })
    }

    fn found_stalled(&mut self, entries: &[Entry], now: Now) {
        if let (true, Some(last)) = (entries.len() == PAGE, entries.last()) {
            self.todo.push_front(self.stalled(now, last.id));
        }
        let least = self.window.least_threshold();
        let repairs = entries.iter().filter_map(|entry| decide(entry, now.db, least));
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

    fn end_pass(&mut self) {
        self.todo.clear();
        self.purging = false;
        self.wake_poll();
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
            Some(op) => Step::Do(op),
            None if self.repaired => {
                self.wake_poll();
                self.next(now)
            }
            None => self.purge().map_or(Step::Wait(Millis::MAX), Step::Do),
        }
    }

    fn done(&mut self, now: Now, answer: Result<MisfireAnswer, Error>) {
        match answer {
            Ok(MisfireAnswer::Elected(true)) => self.begin_pass(now),
            Ok(MisfireAnswer::Elected(false)) => {}
            Ok(MisfireAnswer::Stalled(entries)) => self.found_stalled(&entries, now),
            Ok(MisfireAnswer::Repaired(id, won)) => self.repaired(id, won, "misfire repaired"),
            Ok(MisfireAnswer::Stranded(found)) => {
                if found.len() == PAGE {
                    self.todo.push_front(MisfireOp::Stranded(self.application.clone()));
                }
                for stranded in found {
                    self.todo.push_front(MisfireOp::Revoke(recover(stranded, now.db)));
                }
            }
            Ok(MisfireAnswer::Revoked(id, won)) => {
                self.repaired(id, won, "execution taken back from a dead node")
            }
            Ok(MisfireAnswer::Broken(found)) => {
                self.todo.extend(found.into_iter().map(MisfireOp::Quarantine))
            }
            Ok(MisfireAnswer::Quarantined(broken, won)) => {
                if won {
                    let event = Event::Quarantined { schedule: broken.id, reason: broken.reason };
                    self.outbox.push_back(MisfireOutput::Event(event));
                }
            }
            Ok(MisfireAnswer::Purged(purged)) => self.purged(purged, now),
            Err(error) => {
                // A row the database refuses does not keep the others from being repaired.
                if error.kind() != Kind::Refused {
                    self.hold = now.boot + FAILURE_PAUSE;
                    self.todo.clear();
                    self.purging = false;
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
            MisfireInput::Polled { app, node } => {
                self.cursors = app;
                if node && self.todo.is_empty() && !self.purging {
                    self.pass_ends = now.boot + BUDGET;
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
mod tests {
    use super::*;
    use crate::model::{Candidate, ExecutionId, JobPolicy, JobSpec, NodeId, Occurrence, Outcome};
    use crate::pipeline::expand::expand;
    use crate::pipeline::fixtures::{calls_while_down, simple};
    use crate::schedule::Trigger;
    use crate::store::memory::MemoryStore;
    use crate::store::{Claim, ClaimRequest, Definition, ExecutionQuery};
    use std::sync::Arc;
    use std::time::Duration;

    const LEAST: Millis = 10_000;
    /// When the tests' schedules are repaired: 100 s after their first occurrence.
    const NOW: Millis = 1_100_000;

    fn behind(policy: MisfirePolicy, interval: Millis) -> Entry {
        let mut entry = simple(1, 1_000_000, interval, -1, None);
        entry.misfire = policy;
        entry
    }

    /// A row's (first, last, count, prev, following).
    fn moves(row: &LedgerRow) -> (Millis, Millis, u64, Option<Millis>, Option<Millis>) {
        match row {
            LedgerRow::Skipped { from, to, count, prev, following, .. } => {
                (*from, *to, *count, *prev, *following)
            }
            LedgerRow::Pending { at, prev, following, .. } => (*at, *at, 1, *prev, *following),
        }
    }

    /// The rows' cursor moves follow one another from the entry's cursor to the repair's.
    fn assert_without_gap(entry: &Entry, repair: &Repair) {
        let (mut prev, mut next, mut passed) = (entry.cursor.prev, entry.cursor.next, 0);
        for row in &repair.rows {
            let (from, to, count, row_prev, following) = moves(row);
            assert_eq!((row_prev, Some(from)), (prev, next), "{row:?}");
            (prev, next, passed) = (Some(to), following, passed + count);
        }
        assert_eq!(Cursor { prev, next }, repair.to);
        assert_eq!(passed, repair.passed);
    }

    fn pending(repair: &Repair) -> Vec<Millis> {
        let at = |row: &LedgerRow| match row {
            LedgerRow::Pending { at, .. } => Some(*at),
            LedgerRow::Skipped { .. } => None,
        };
        repair.rows.iter().filter_map(at).collect()
    }

    #[test]
    fn a_cursor_within_its_threshold_is_left_alone() {
        let mut entry = behind(MisfirePolicy::FireOnce, 1_000);
        entry.threshold = 100_000;
        assert_eq!(decide(&entry, NOW, LEAST), None);
        entry.threshold = 99_999;
        assert!(decide(&entry, NOW, LEAST).is_some());
    }

    #[test]
    fn a_threshold_below_the_least_counts_as_the_least() {
        let mut entry = behind(MisfirePolicy::FireOnce, 1_000);
        entry.threshold = 1;
        assert_eq!(decide(&entry, 1_000_000 + LEAST, LEAST), None);
        assert!(decide(&entry, 1_000_001 + LEAST, LEAST).is_some());
    }

    #[test]
    fn the_misfire_threshold_is_not_a_literal_in_two_classes() {
        for threshold in [0, 1, 9_999, 10_000, 10_001, 60_000, 3_600_000] {
            for late in [0, 1, 5_000, 9_999, 10_000, 10_001, 59_999, 60_000, 60_001, 3_600_000, 3_600_001] {
                let entry = Entry { threshold, ..behind(MisfirePolicy::FireOnce, 1_000) };
                let now = 1_000_000 + late;
                let repaired = decide(&entry, now, LEAST).is_some();
                let planned = !expand(&[Arc::new(entry)], now, now + 5_000, LEAST).is_empty();
                assert!(repaired != planned, "threshold {threshold}, {late} late: {repaired} {planned}");
                assert_eq!(repaired, late > threshold.max(LEAST), "threshold {threshold}, {late} late");
            }
        }
    }

    /// One scheduler's store call hangs in the middle of its pass: another of the process goes on.
    #[test]
    fn a_static_lock_does_not_keep_a_second_scheduler_from_repairing() {
        let now = Now { db: NOW, boot: NOW };
        let [mut hanging, mut second] = ["one", "two"].map(|application| {
            let mut machine = MisfireMachine::new(application.to_owned(), Window::default());
            machine.receive(now, MisfireInput::Polled { app: true, node: true });
            machine
        });
        let asked = |machine: &mut MisfireMachine| match machine.next(now) {
            Step::Do(op) => op.name(),
            _ => "nothing",
        };
        assert_eq!(asked(&mut hanging), "electing the misfire handler");
        for machine in [&mut second, &mut hanging] {
            if machine.application == "two" {
                assert_eq!(asked(machine), "electing the misfire handler");
            }
            machine.done(now, Ok(MisfireAnswer::Elected(true)));
            assert_eq!(asked(machine), "looking for executions of dead nodes");
            machine.done(now, Ok(MisfireAnswer::Stranded(Vec::new())));
            assert_eq!(asked(machine), "looking for misfires");
            machine.done(now, Ok(MisfireAnswer::Stalled(vec![behind(MisfirePolicy::FireOnce, 1_000)])));
            assert_eq!(asked(machine), "repairing a misfire");
        }
    }

    /// Even where polls go through and only this does not.
    #[test]
    fn no_hot_loop_while_the_database_is_down() {
        for kind in [Kind::Unavailable, Kind::Unknown] {
            let mut machine = MisfireMachine::new("app".to_owned(), Window::default());
            let polled = || Some(MisfireInput::Polled { app: true, node: true });
            let calls = calls_while_down(&mut machine, NOW, kind, polled);
            assert!((20..=70).contains(&calls), "{calls} calls in a minute");
        }
    }

    #[test]
    fn fire_once_runs_the_latest_and_skips_the_earlier() {
        let entry = behind(MisfirePolicy::FireOnce, 30_000);
        let repair = decide(&entry, NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        assert_eq!(pending(&repair), [1_090_000]);
        assert_eq!((repair.passed, repair.to.next), (4, Some(1_120_000)));
        assert!(repair.supersede);
    }

    #[test]
    fn a_single_missed_occurrence_runs_without_a_skip() {
        let entry = behind(MisfirePolicy::FireOnce, 1_000_000);
        let repair = decide(&entry, NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        assert_eq!((pending(&repair), repair.rows.len()), (vec![1_000_000], 1));
    }

    #[test]
    fn do_nothing_skips_all() {
        let entry = behind(MisfirePolicy::DoNothing, 30_000);
        let repair = decide(&entry, NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        assert!(pending(&repair).is_empty());
    }

    #[test]
    fn fire_all_runs_each_in_order_faster_than_planned() {
        let entry = behind(MisfirePolicy::FireAll, 1_500);
        let repair = decide(&entry, NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        assert_eq!(pending(&repair).len(), 67);
        let dues: Vec<Millis> = repair
            .rows
            .iter()
            .map(|row| if let LedgerRow::Pending { due, .. } = row { *due } else { 0 })
            .collect();
        assert!(dues.windows(2).all(|two| two[1] - two[0] == 750), "{dues:?}");
    }

    #[test]
    fn fire_all_skips_what_is_beyond_its_cap() {
        let entry = behind(MisfirePolicy::FireAll, 10);
        let repair = decide(&entry, NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        assert_eq!((pending(&repair).len(), repair.passed), (MOST_FIRED, 10_001));
    }

    #[test]
    fn the_last_occurrence_of_a_finite_schedule_is_repaired_too() {
        let mut entry = simple(1, 1_000_000, 30_000, 1, None);
        entry.misfire = MisfirePolicy::FireOnce;
        let repair = decide(&entry, NOW, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        assert_eq!((pending(&repair), repair.to.next), (vec![1_030_000], None));
    }

    #[test]
    fn more_than_one_repair_passes_is_left_to_the_next() {
        let entry = behind(MisfirePolicy::FireOnce, 1);
        let now = 1_000_000 + 250_000;
        let repair = decide(&entry, now, LEAST).unwrap();
        assert_without_gap(&entry, &repair);
        assert_eq!((repair.passed, pending(&repair).len()), (MOST_PASSED, 0));
        assert!(repair.to.next.is_some_and(|next| next <= now));
    }

    #[test]
    fn what_is_not_active_is_not_repaired() {
        for state in ScheduleState::ALL.iter().filter(|state| **state != ScheduleState::Active) {
            let entry = Entry { state: *state, ..behind(MisfirePolicy::FireOnce, 1_000) };
            assert_eq!(decide(&entry, NOW, LEAST), None, "{state:?}");
        }
    }

    #[test]
    fn resuming_skips_what_was_planned_during_the_pause() {
        let entry = Entry { state: ScheduleState::Paused, ..behind(MisfirePolicy::FireAll, 30_000) };
        let repair = resume(&entry, NOW).unwrap();
        assert_without_gap(&entry, &repair);
        assert!(pending(&repair).is_empty() && repair.resume);
        assert!(matches!(repair.rows[0], LedgerRow::Skipped { reason: Reason::Paused, count: 4, .. }));
        let early = resume(&entry, 999_999).unwrap();
        assert_eq!((early.to, early.passed), (entry.cursor, 0));
        assert_eq!(resume(&behind(MisfirePolicy::FireAll, 1), NOW), None);
    }

    const HOUR: Millis = 3_600_000;
    /// 2026-01-02 03:04:05.678 UTC.
    const TODAY: Millis = 1_767_323_045_678;

    /// A database whose only execution ended three hours ago.
    fn with_an_old_execution() -> MemoryStore {
        let store = MemoryStore::new(TODAY - 3 * HOUR);
        let policy = JobPolicy { recover: true, max_attempts: 3, max_tries: 1, retry_delay: Duration::ZERO };
        let definition = Definition {
            application: "app".to_owned(),
            name: "s".to_owned(),
            job: JobSpec { name: "work".to_owned(), policy },
            payload: "{}".to_owned(),
            trigger: Trigger::every(Duration::from_secs(1)).unwrap(),
            start: None,
            end: None,
            priority: 0,
            misfire: MisfirePolicy::FireOnce,
            threshold: 60_000,
        };
        store.ensure(&definition).unwrap();
        let entry = Arc::new(store.find("app", "s").unwrap().unwrap());
        let candidate = Candidate::Planned(Occurrence::head(&entry).unwrap());
        let (token, node, now) = (Token::fresh(), NodeId::fresh(), TODAY - 3 * HOUR);
        let request = ClaimRequest { candidate, token, node, at_once: true, deadline: i64::MAX, now };
        match store.claim(&[request]).unwrap().pop() {
            Some(Claim::Won(claimed)) => {
                store.settle(&[claimed.finish(Outcome::Succeeded, None, now)]).unwrap()
            }
            other => panic!("{other:?}"),
        };
        store.set_time(TODAY);
        store
    }

    fn keeping(retention: Option<Millis>) -> MisfireMachine {
        MisfireMachine::new("app".to_owned(), Window { retention, ..Window::default() })
    }

    /// One poll's pass; the names of its operations.
    fn pass(machine: &mut MisfireMachine, now: Now, store: &MemoryStore) -> Vec<&'static str> {
        machine.receive(now, MisfireInput::Polled { app: true, node: true });
        let mut done = Vec::new();
        loop {
            match machine.next(now) {
                Step::Do(op) => {
                    done.push(op.name());
                    machine.done(now, op.perform(store));
                }
                Step::Tell(_) => {}
                Step::Wait(_) | Step::Stop => return done,
            }
        }
    }

    fn is_left(store: &MemoryStore) -> bool {
        let query =
            ExecutionQuery { states: vec![ExecutionState::Succeeded], limit: 9, ..Default::default() };
        !store.executions(&query).unwrap().is_empty()
    }

    #[test]
    fn a_purge_goes_by_the_databases_clock() {
        let (store, mut machine) = (with_an_old_execution(), keeping(Some(4 * HOUR)));
        let a_year_ahead = Now { db: TODAY + 365 * 24 * HOUR, boot: 0 };
        assert!(pass(&mut machine, a_year_ahead, &store).contains(&"purging the ledger"));
        assert!(is_left(&store));

        let mut machine = keeping(Some(4 * HOUR));
        store.set_time(TODAY + 2 * HOUR);
        let a_year_behind = Now { db: TODAY - 365 * 24 * HOUR, boot: 0 };
        pass(&mut machine, a_year_behind, &store);
        assert!(!is_left(&store));
    }

    #[test]
    fn a_pass_purges_after_its_repairs_and_walks_again_in_time() {
        let (store, mut machine) = (with_an_old_execution(), keeping(Some(2 * HOUR)));
        let now = Now { db: TODAY, boot: 0 };
        let first = pass(&mut machine, now, &store);
        assert_eq!(first.last(), Some(&"purging the ledger"), "{first:?}");
        assert_eq!(first.iter().filter(|name| **name == "purging the ledger").count(), 1);
        assert!(!is_left(&store));
        // A hundredth of two hours is 72 s.
        for (after, walks) in [(20_000, false), (71_000, false), (87_000, true)] {
            let later = pass(&mut machine, Now { db: TODAY + after, boot: after }, &store);
            assert_eq!(later.contains(&"purging the ledger"), walks, "after {after} ms: {later:?}");
        }
    }

    #[test]
    fn without_a_retention_nothing_is_purged() {
        let (store, mut machine) = (with_an_old_execution(), keeping(None));
        store.set_time(TODAY + 100 * 365 * 24 * HOUR);
        for boot in [0, 20_000] {
            let done = pass(&mut machine, Now { db: TODAY + boot, boot }, &store);
            assert_eq!(done.last(), Some(&"looking for broken rows"), "{done:?}");
        }
        assert!(is_left(&store));
    }

    #[test]
    fn a_walk_that_is_cut_off_goes_on_where_it_stopped() {
        let mut machine = keeping(Some(HOUR));
        let begin = |machine: &mut MisfireMachine, boot| {
            machine.done(Now { db: TODAY, boot }, Ok(MisfireAnswer::Elected(true)));
            machine.todo.clear();
            match machine.next(Now { db: TODAY, boot }) {
                Step::Do(MisfireOp::Purge(purge)) => Some(purge.after),
                _ => None,
            }
        };
        assert_eq!(begin(&mut machine, 0), Some(String::new()));
        let step = Purged { occurrences: 0, next: Some("m".to_owned()) };
        machine.done(Now { db: TODAY, boot: BUDGET + 1 }, Ok(MisfireAnswer::Purged(step)));
        assert!(
            matches!(machine.next(Now { db: TODAY, boot: BUDGET + 1 }), Step::Wait(_)),
            "its time is used up"
        );
        assert_eq!(begin(&mut machine, 15_000), Some("m".to_owned()));
        let end = Purged { occurrences: 0, next: None };
        machine.done(Now { db: TODAY, boot: 15_001 }, Ok(MisfireAnswer::Purged(end)));
        assert_eq!(begin(&mut machine, 16_000), None);
    }

    #[test]
    fn a_pause_longer_than_one_repair_passes_stays_a_pause_until_the_last() {
        let mut entry = Entry { state: ScheduleState::Paused, ..behind(MisfirePolicy::FireAll, 1) };
        let now = 1_000_000 + 250_000;
        let (mut repairs, mut passed) = (0, 0);
        loop {
            let repair = resume(&entry, now).unwrap();
            assert_without_gap(&entry, &repair);
            (repairs, passed) = (repairs + 1, passed + repair.passed);
            entry.cursor = repair.to;
            if repair.resume {
                break;
            }
            assert!(entry.cursor.next.is_some_and(|next| next <= now), "still behind");
        }
        assert_eq!((repairs, passed), (3, 250_001));
        assert!(entry.cursor.next.is_some_and(|next| next > now));
    }

    #[test]
    fn what_becomes_of_an_execution_nobody_answers_for() {
        let policy = JobPolicy { recover: true, max_attempts: 3, max_tries: 1, retry_delay: Duration::ZERO };
        let cases = [
            (ExecutionState::Claimed, 3, true, ExecutionState::Pending, false),
            (ExecutionState::Running, 1, true, ExecutionState::Abandoned, true),
            (ExecutionState::Running, 3, true, ExecutionState::Failed, false),
            (ExecutionState::Running, 1, false, ExecutionState::Abandoned, false),
        ];
        for (state, attempt, recovery, to, again) in cases {
            let policy = JobPolicy { recover: recovery, ..policy };
            let (id, schedule, token) = (ExecutionId(1), ScheduleId(1), Token::fresh());
            let stranded = Stranded { id, schedule, state, token, attempt, policy };
            let revocation = recover(stranded, NOW);
            assert_eq!((revocation.to, revocation.again), (to, again), "{state:?}, attempt {attempt}");
            assert!(state.can_become(to));
            assert_ne!(revocation.fresh, token);
        }
    }
}
