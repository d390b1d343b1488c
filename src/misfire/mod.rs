//! The misfire handler: one node at a time repairs what the flow left behind, under the same guards as every
//! claim.
//!
//! The elected node works in passes; [`repair`](crate::repair) holds the pure decisions. A pass has five
//! duties, in this order: the end of [`pauses`] whose time is up, [`takeover`] of dead nodes' executions,
//! repair of [`misfires`], [`quarantine`] of unreadable rows and schedules ahead of the clock, [`retention`].
//! If polls have noticed jobs that [`nobody`] can run, or schedules of which something is [`expected`], a
//! pass looks at these. While somebody looks at the cluster's [`figures`], a pass reads these, too. Every two
//! minutes it adds up the counts of [`outcomes`]. [`containment`] pauses schedules: before a takeover ends an
//! execution for good, and on every node after failures of its own.
//!
//! A pass lasts until its duties have no work left. During a longer one the node stands for [`election`]
//! again with every interval, and then takes over the executions of nodes that have died meanwhile. Two
//! handlers at once only waste work: every change is guarded by the rows that led to it.

mod batch;
mod calls;
mod containment;
mod election;
mod expected;
mod figures;
mod misfires;
mod nobody;
mod outcomes;
mod pass;
mod pauses;
mod quarantine;
mod retention;
mod takeover;
mod turns;

use std::collections::VecDeque;
use std::sync::Arc;

use batch::{Batch, BatchLimit, MOST_ROWS, Unwritten};
#[cfg(test)]
pub(crate) use calls::Op as MisfireOp;
use calls::{Answer, Answered, Asked, Call, Op, join};
use containment::Containment;
use election::Election;
use expected::Expected;
pub(crate) use figures::FiguresBoard;
use nobody::Nobody;
use outcomes::Outcomes;
use pass::{FAILURE_PAUSE, Pass, Task};
use quarantine::Quarantine;
use retention::Retention;
use turns::{Turn, Turns};

use crate::domain::{Boot, Entry, Error, ErrorKind, Event, Millis, ScheduleId, Timestamp};
use crate::machine::{Machine, Step};
use crate::repair::{Revocation, recover_apart};
use crate::store::audit::AuditEntry;
use crate::store::streak::{Streak, StreakQuery};
use crate::store::switch::{EndedPause, PassedQuery, SeenSwitch};
use crate::store::{Applied, Change, OverduePage, Section, StrandedPage, UnreadablePage};
use crate::time::{Now, Window};

/// The pause after the database refused a row for what it holds.
const ROW_PAUSE: Millis = 50;

pub(crate) enum MisfireInput {
    /// A poll ended.
    Polled(PollReport),
    /// An occurrence of this schedule has failed for good here, for which it may be paused.
    Failed(ScheduleId),
    Stop,
}

/// The findings of a poll by which the misfire handler goes.
#[derive(Clone, Copy)]
pub(crate) struct PollReport {
    /// The application is switched on: cursors may be moved.
    pub app_enabled: bool,
    /// This node is switched on: it may be elected.
    pub node_enabled: bool,
    /// The time of some pause is up. This node may be elected to end it, even if it is switched off itself.
    pub pause_ended: bool,
    /// Some active job is listed by no live node.
    pub unlisted: bool,
    /// Something is expected of some schedule.
    pub expects: bool,
    /// The application's election mark.
    pub election: Option<Timestamp>,
    /// Something is late; otherwise no schedule is overdue.
    pub any_late: bool,
    /// No schedule is due before this, as far as polls know.
    pub floor: Timestamp,
}

impl PollReport {
    /// Before the first poll anything may be the case.
    const UNKNOWN: Self = Self {
        app_enabled: true,
        node_enabled: true,
        pause_ended: false,
        unlisted: false,
        expects: false,
        election: None,
        any_late: true,
        floor: Timestamp::EPOCH,
    };

    fn may_stand(&self) -> bool {
        self.node_enabled || self.pause_ended
    }
}

pub(crate) enum MisfireOutput {
    WakePoll,
    Event(Event),
}

pub(crate) struct MisfireMachine {
    application: String,
    window: Window,
    report: PollReport,
    election: Election,
    pass: Pass,
    turns: Turns,
    limit: BatchLimit,
    quarantine: Quarantine,
    retention: Retention,
    containment: Containment,
    nobody: Nobody,
    expected: Expected,
    outcomes: Outcomes,
    board: Arc<FiguresBoard>,
    /// No call is sent before this after one has failed.
    hold: Boot,
    /// Something was repaired since the poll was last woken.
    repaired: bool,
    outbox: VecDeque<MisfireOutput>,
    stopping: bool,
}

impl Machine for MisfireMachine {
    type Op = Op;
    type Asked = Asked;
    type Input = MisfireInput;
    type Output = MisfireOutput;

    fn next(&mut self, now: Now) -> Step<Call, MisfireOutput> {
        self.quarantine.clock.saw(now);
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.stopping {
            return Step::Stop;
        }
        if now.boot < self.hold {
            return Step::Wait(self.hold);
        }
        self.stand_without_polls(now);
        if now.boot >= self.election.renews_at && !self.is_idle() {
            if self.report.may_stand() { self.stand(now) } else { self.end_pass() }
        }
        self.next_call(now).map_or_else(|| Step::Wait(self.wakes_at()), Step::Do)
    }

    fn done(&mut self, now: Now, asked: Asked, answer: Result<Answer, Error>) {
        match join(asked, answer) {
            Ok(Answered::Elect((), Applied::Done)) => self.elected(now),
            Ok(Answered::Elect(..)) => self.end_pass(),
            Ok(Answered::FindStranded((), page)) => self.found_stranded(page, now),
            Ok(Answered::FindWithdrawn((), found)) => {
                self.pass.write_next(found.into_iter().map(Unwritten::Withdrawn));
            }
            Ok(Answered::FindEndedPauses((), ended)) => self.found_ended_pauses(ended, now),
            Ok(Answered::FindPassed((query, seen), entries)) => self.found_passed(entries, query, seen),
            Ok(Answered::PassOn(..)) => self.pass.next(pauses::search(&self.application)),
            Ok(Answered::EndPause(audit, applied)) => self.pause_ended(audit, applied),
            Ok(Answered::FindExpected((), page)) => {
                let calls = self.expected.found(&self.application, page, now);
                calls.into_iter().for_each(|call| self.pass.last(call));
            }
            Ok(Answered::NoteExpected(found, Applied::Done)) => self.emit(expected::told(found)),
            Ok(Answered::NoteExpected(..) | Answered::Expect(..) | Answered::ExpectNoLonger(..)) => {}
            Ok(Answered::FindNobody((), found)) => {
                found.iter().filter_map(|it| nobody::note(it, now.db)).for_each(|it| self.pass.last(it));
            }
            Ok(Answered::NoteNobody(event, applied)) => {
                event.filter(|_| applied.is_done()).into_iter().for_each(|event| self.emit(*event));
            }
            Ok(Answered::Count(query, streak)) => {
                let last = self.containment.counted(query, streak);
                self.revoke_next(last);
            }
            Ok(Answered::Contain((query, streak), applied)) => self.contained(&query, streak, applied, now),
            Ok(Answered::FindOverdue((), page)) => self.found_overdue(page, now),
            Ok(Answered::Repair(batch, applied) | Answered::TakeBack(batch, applied)) => {
                self.written(batch, &applied, now);
            }
            Ok(Answered::FindUnreadable((), page)) => self.found_unreadable(page, now),
            Ok(Answered::Quarantine(row, Applied::Done)) => {
                self.emit(Event::Quarantined { schedule: row.name, reason: row.reason });
            }
            Ok(Answered::Quarantine(..)) => {}
            Ok(Answered::ReadFigures((), figures)) => self.board.put(figures, now.boot),
            Ok(Answered::FoldOutcomes((), may_go_on)) => {
                may_go_on
                    .then(|| outcomes::step(&self.application, now))
                    .into_iter()
                    .for_each(|it| self.pass.last(it));
            }
            Ok(Answered::Purge((), purged)) => {
                self.outbox.extend(self.retention.purged(purged).map(MisfireOutput::Event));
            }
            Ok(Answered::PurgeQueues((), purged)) => {
                self.outbox.extend(self.retention.purged_queues(&purged).map(MisfireOutput::Event));
            }
            Ok(Answered::PurgeOrphans((), purged)) => {
                self.outbox.extend(self.retention.purged_orphans(&purged, now).map(MisfireOutput::Event));
            }
            Err((asked, error)) => self.failed(asked, error, now),
        }
    }

    fn receive(&mut self, now: Now, input: MisfireInput) {
        match input {
            MisfireInput::Polled(report) => {
                self.report = report;
                let is_due = self.election.polled(report.election, now);
                if report.may_stand() && is_due && self.is_idle() {
                    self.stand(now);
                }
            }
            MisfireInput::Failed(schedule) => self.containment.failed_here(schedule),
            MisfireInput::Stop => self.stopping = true,
        }
    }
}

impl MisfireMachine {
    pub(crate) fn new(application: String, window: Window) -> Self {
        Self {
            application,
            window,
            report: PollReport::UNKNOWN,
            election: Election::new(window),
            pass: Pass::default(),
            turns: Turns::default(),
            limit: BatchLimit::new(MOST_ROWS),
            quarantine: Quarantine::new(),
            retention: Retention::new(window.retention),
            containment: Containment::new(),
            nobody: Nobody::new(),
            expected: Expected::new(),
            outcomes: Outcomes::default(),
            board: Arc::default(),
            hold: Boot::MIN,
            repaired: false,
            outbox: VecDeque::new(),
            stopping: false,
        }
    }

    /// Where it puts the cluster's figures while somebody looks there.
    pub(crate) fn board(&self) -> Arc<FiguresBoard> {
        Arc::clone(&self.board)
    }

    /// A sabotage: the database's clock is believed however briefly it has run.
    #[cfg(test)]
    pub(crate) fn trusting(mut self) -> Self {
        self.quarantine.clock.is_trusted = true;
        self
    }

    /// A sabotage: each transaction repairs one schedule.
    #[cfg(test)]
    pub(crate) fn one_by_one(self) -> Self {
        Self { limit: BatchLimit::new(1), ..self }
    }

    fn is_idle(&self) -> bool {
        self.pass.is_empty() && !self.retention.has_step() && !self.containment.has_dying()
    }

    /// When the machine acts unless something is reported before.
    fn wakes_at(&self) -> Boot {
        let stands_at = match (self.is_idle(), self.report.may_stand()) {
            (false, _) => self.election.renews_at,
            (true, true) => self.election.wakes_at(),
            (true, false) => Boot::MAX,
        };
        stands_at.min(self.containment.wakes_at())
    }

    fn stand(&mut self, now: Now) {
        self.pass.next(self.election.stand(&self.application, now));
    }

    /// Stands for election while polls do not end: dead nodes' executions must be taken over all the same.
    /// Without a poll's findings, anything may be late.
    fn stand_without_polls(&mut self, now: Now) {
        if self.election.is_due_without_polls(now) && self.is_idle() && self.report.node_enabled {
            self.report.any_late = true;
            self.pass.next(self.election.stand_without_polls(&self.application, now));
        }
    }

    /// Begins a pass, or goes on with one. Dead nodes' executions come first: they have waited longest. The
    /// search brings what is left of the last takeover, too.
    fn elected(&mut self, now: Now) {
        self.election.won(now);
        if self.report.node_enabled {
            self.pass.drop_takeover();
            self.containment.begin_takeover(now);
            if self.pass.is_empty() {
                self.begin_pass(now);
            }
            self.pass.next(takeover::search(&self.application, takeover::FIRST));
        }
        if self.report.pause_ended {
            self.pass.next(pauses::search(&self.application));
        }
    }

    fn begin_pass(&mut self, now: Now) {
        let PollReport { app_enabled, unlisted, expects, any_late, floor, .. } = self.report;
        if app_enabled && any_late {
            self.pass.last(self.find_overdue(now, None));
            self.pass.last(takeover::withdrawn(&self.application));
        }
        if app_enabled {
            let overdue = any_late.then(|| floor..self.overdue_before(now));
            self.pass.last(self.quarantine.search(&self.application, overdue, now));
            let expected = expects.then(|| self.expected.search(&self.application, now));
            expected.into_iter().for_each(|call| self.pass.last(call));
            let nobody = self.nobody.search(&self.application, unlisted, now);
            nobody.into_iter().for_each(|call| self.pass.last(call));
        }
        self.board.search(&self.application, now).into_iter().for_each(|call| self.pass.last(call));
        self.outcomes.begin(&self.application, now).into_iter().for_each(|call| self.pass.last(call));
        self.retention.begin_pass(now);
    }

    /// The rest of the pass is left to the next, or to another node.
    fn end_pass(&mut self) {
        if self.pass.end() {
            self.quarantine.repeat_step();
        }
        self.containment.drop_dying();
        self.retention.end_pass();
        self.wake_poll();
    }

    fn next_call(&mut self, now: Now) -> Option<Call> {
        let is_urgent = self.pass.is_urgent();
        let mut turns = self.turns.order(is_urgent);
        let next = turns.find_map(|turn| Some((turn, self.call_of(turn, now)?)));
        self.turns.taken(next.as_ref().map(|(turn, _)| *turn), is_urgent);
        next.map(|(_, call)| call)
    }

    fn call_of(&mut self, turn: Turn, now: Now) -> Option<Call> {
        match turn {
            Turn::Contain => self.containment.pause(),
            Turn::Count { with_dying } => self.containment.step(now, with_dying),
            Turn::Task => self.next_task(now),
            Turn::Purge => self.retention.step(&self.application),
        }
    }

    fn next_task(&mut self, now: Now) -> Option<Call> {
        loop {
            match self.pass.pop()? {
                Task::Perform(call) => return Some(call),
                Task::Write(list) if self.is_obsolete(list.front(), now) => {}
                Task::Write(mut list) => {
                    let least_threshold = self.window.least_threshold();
                    let next = Batch::next(&mut list, self.limit.rows, least_threshold, now);
                    self.pass.write_next(list);
                    if let Some((changes, batch)) = next {
                        let is_repair = matches!(changes.first(), Some(Change::Repair(_)));
                        let call = if is_repair { Asked::repair } else { Asked::take_back };
                        return Some(call(changes, batch));
                    }
                }
            }
        }
    }

    /// Whether a list is obsolete, judged by its first entry: the application was switched off or the
    /// clock has stepped after the search.
    fn is_obsolete(&self, first: Option<&Unwritten>, now: Now) -> bool {
        match first {
            Some(Unwritten::Revocation(_) | Unwritten::HeldBack(_)) => false,
            Some(Unwritten::Ahead(_)) => !self.report.app_enabled || !self.quarantine.clock.is_believed(now),
            _ => !self.report.app_enabled,
        }
    }

    /// Recoveries, and the next page, come before the revocations that must wait for a count.
    fn found_stranded(&mut self, page: StrandedPage, now: Now) {
        if let Some(last) = page.next {
            self.pass.next(takeover::search(&self.application, last));
        }
        let revocations = recover_apart(page.stranded, now.db).into_iter();
        let (last, others): (Vec<_>, Vec<_>) = revocations.partition(Revocation::is_last_death);
        self.revoke_next(others);
        self.containment.found_dying(last.into_iter());
    }

    fn revoke_next(&mut self, list: Vec<Revocation>) {
        self.pass.write_next(list.into_iter().map(Unwritten::Revocation));
    }

    fn found_ended_pauses(&mut self, ended: Vec<EndedPause>, now: Now) {
        let ends = ended.into_iter().rev().filter_map(|pause| pauses::end(pause, &self.application, now.db));
        ends.for_each(|call| self.pass.next(call));
    }

    /// The pause ends once it has held back nothing more.
    fn found_passed(&mut self, entries: Vec<Entry>, query: PassedQuery, seen: SeenSwitch) {
        if entries.is_empty() {
            return self.pass.next(pauses::end_of_switch(seen, &self.application));
        }
        self.pass.next(pauses::find_passed(query, seen));
        self.pass.write_next(entries.into_iter().map(Unwritten::HeldBack));
    }

    fn pause_ended(&mut self, AuditEntry { target_type, target, .. }: AuditEntry, applied: Applied) {
        if applied.is_done() {
            self.repaired = true;
            self.emit(Event::PauseEnded { target_type, target: target.into() });
            self.wake_poll();
        }
    }

    /// The pause of a schedule for its streak has been tried.
    fn contained(&mut self, query: &StreakQuery, streak: Streak, applied: Applied, now: Now) {
        if !applied.is_done() {
            return self.containment.lost(query, now);
        }
        let last = self.containment.settled(query);
        self.revoke_next(last);
        self.repaired = true;
        self.emit(Event::Contained { schedule: streak.name, reason: streak.reason });
        self.wake_poll();
    }

    fn found_overdue(&mut self, mut page: OverduePage, now: Now) {
        let sections = std::mem::take(&mut page.next);
        if !sections.is_empty() {
            self.pass.next(self.find_overdue(now, Some(sections)));
        }
        self.pass.write_next(misfires::list(page));
    }

    fn found_unreadable(&mut self, page: UnreadablePage, now: Now) {
        let UnreadablePage { broken, ahead, expecting, next } = page;
        self.quarantine.found(broken, next).for_each(|call| self.pass.last(call));
        if ahead.is_empty() && expecting.is_empty() {
            return;
        }
        if !expecting.is_empty() {
            self.pass.last(Asked::expect(expecting, ()));
        }
        self.pass.write_last(ahead.into_iter().map(Unwritten::Ahead));
        // All schedules may be so alike: they do not wait for further passes.
        if next.is_some() {
            self.pass.last(self.quarantine.search(&self.application, None, now));
        }
    }

    fn find_overdue(&self, now: Now, sections: Option<Vec<Section>>) -> Call {
        let due = self.report.floor..self.overdue_before(now);
        misfires::search(&self.application, due, sections)
    }

    /// Schedules due since then are left to the polls.
    fn overdue_before(&self, now: Now) -> Timestamp {
        now.db - self.window.least_threshold()
    }

    fn written(&mut self, mut batch: Batch, applied: &[Applied], now: Now) {
        self.limit.written(batch.rows, now.boot - batch.sent);
        self.outbox.extend(batch.take_skipped(applied).map(MisfireOutput::Event));
        for (it, _) in batch.list.iter().zip(applied).filter(|(_, applied)| applied.is_done()) {
            self.repaired = true;
            self.emit(it.repaired());
            if let Unwritten::Revocation(revocation) = it {
                self.outbox.extend(takeover::exhausted(revocation).map(MisfireOutput::Event));
            }
        }
        self.pass.write_last(batch.still_behind(applied));
        if !self.pass.writes_next() {
            self.wake_poll();
        }
    }

    fn emit(&mut self, event: Event) {
        self.outbox.push_back(MisfireOutput::Event(event));
    }

    /// Wakes the poll, which has not seen the repairs' cursors and PENDING executions yet.
    fn wake_poll(&mut self) {
        if std::mem::take(&mut self.repaired) {
            self.outbox.push_back(MisfireOutput::WakePoll);
        }
    }

    /// Tries a failed batch again as smaller ones until the row that fails is alone. That one is left to the
    /// next pass and told once, and does not keep the others from being repaired.
    fn failed(&mut self, asked: Asked, error: Error, now: Now) {
        let operation = asked.name();
        let is_rows_own = error.kind() == ErrorKind::Data;
        let (mut pause, mut is_told) = (FAILURE_PAUSE, true);
        match asked {
            Asked::Repair(batch) | Asked::TakeBack(batch) => {
                self.limit.halve(batch.rows);
                pause = if is_rows_own { ROW_PAUSE } else { FAILURE_PAUSE };
                if batch.list.len() > 1 {
                    is_told = !is_rows_own;
                    self.pass.write_next(batch.list);
                }
            }
            // The next pass looks again; the rest of this one does not depend on these.
            Asked::FindOverdue(())
            | Asked::ReadFigures(())
            | Asked::NoteNobody(_)
            | Asked::NoteExpected(_)
            | Asked::Expect(())
            | Asked::ExpectNoLonger(())
            | Asked::FoldOutcomes(()) => {}
            Asked::FindExpected(()) => self.expected.failed(),
            Asked::FindNobody(()) => self.nobody.failed(),
            // Mostly it concerns that row alone.
            Asked::Quarantine(_)
                if matches!(error.kind(), ErrorKind::Data | ErrorKind::Refused | ErrorKind::Unavailable) =>
            {
                pause = ROW_PAUSE;
            }
            // It concerns that schedule alone: its executions are left to the next takeover.
            Asked::Count(query) | Asked::Contain((query, _)) => {
                self.containment.failed(&query, is_rows_own, now);
                pause = 0;
            }
            _ => self.end_pass(),
        }
        self.hold = now.boot + pause;
        if is_told {
            self.emit(Event::StoreFailed { operation, error });
        }
    }
}

#[cfg(test)]
mod tests;
