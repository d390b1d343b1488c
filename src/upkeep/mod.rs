//! The misfire handler: one node at a time repairs what the flow left behind, under the same guards as every
//! claim.
//!
//! The elected node works in passes; [`repair`](crate::repair) holds the pure decisions. A pass has five
//! duties, in this order: the end of [`pauses`] whose time is up, [`takeover`] of dead nodes' executions,
//! repair of [`misfires`], [`quarantine`] of unreadable rows and schedules ahead of the clock, [`retention`].
//! [`containment`] belongs to takeover, and on every node to what has failed there.
//! It goes on while they have work; with every interval it stands for [`election`] again and then takes over
//! the executions of nodes that have died meanwhile. Two handlers at once only waste work: every change is
//! guarded by what it saw.

mod batch;
mod containment;
mod election;
mod misfires;
mod operation;
mod pauses;
mod quarantine;
mod retention;
mod takeover;

use std::collections::VecDeque;

use batch::{Batch, BatchLimit, MOST_ROWS, Unwritten};
use containment::Containment;
use election::Election;
use misfires::Overdue;
use operation::MisfireAnswer;
pub(crate) use operation::MisfireOp;
use quarantine::Quarantine;
use retention::Retention;

use crate::domain::{Error, ErrorKind, Event, Millis, ScheduleId};
use crate::machine::{Machine, Step};
use crate::repair::{Revocation, recover_apart};
use crate::store::streak::StreakQuery;
use crate::store::{Applied, OverduePage, Section, StrandedPage, UnreadablePage};
use crate::time::{Now, Window};

const FAILURE_PAUSE: Millis = 1_000;
/// The pause after the database refused a row for what it holds.
const ROW_PAUSE: Millis = 50;

pub(crate) enum MisfireInput {
    /// A poll ended.
    Polled(PollReport),
    /// An occurrence of this schedule has failed for good here, for which it may be paused.
    Failed(ScheduleId),
    Stop,
}

/// What a poll saw that the misfire handler goes by.
#[derive(Clone, Copy)]
pub(crate) struct PollReport {
    /// The application is switched on: cursors may be moved.
    pub app_enabled: bool,
    /// This node is switched on: it may be elected.
    pub node_enabled: bool,
    /// The time of some pause is up. This node may be elected to end it, even if it is switched off itself.
    pub pause_ended: bool,
    /// The application's election mark.
    pub election: Option<Millis>,
    /// Something is late; otherwise no schedule is overdue.
    pub any_late: bool,
    /// No schedule is due before this, as far as polls know.
    pub floor: Millis,
}

impl PollReport {
    /// Before the first poll anything may be the case.
    const UNKNOWN: Self = Self {
        app_enabled: true,
        node_enabled: true,
        pause_ended: false,
        election: None,
        any_late: true,
        floor: 0,
    };

    fn may_stand(&self) -> bool {
        self.node_enabled || self.pause_ended
    }
}

pub(crate) enum MisfireOutput {
    WakePoll,
    Event(Event),
}

/// A part of the pass still to do.
enum Task {
    Perform(MisfireOp),
    /// Worked off batch by batch.
    Write(VecDeque<Unwritten>),
}

impl Task {
    /// Part of the takeover of dead nodes' executions.
    fn is_takeover(&self) -> bool {
        match self {
            Self::Perform(op) => matches!(op, MisfireOp::FindStranded { .. }),
            Self::Write(list) => matches!(list.front(), Some(Unwritten::Revocation(_))),
        }
    }

    /// It comes before counts for deaths: further pages and recoveries, and what is soon done.
    fn is_urgent(&self) -> bool {
        use MisfireOp::{Elect, EndPause, FindEndedPauses, FindPassed, PassOn};
        let is_short = |op: &MisfireOp| {
            matches!(op, Elect { .. } | FindEndedPauses { .. } | FindPassed(..) | PassOn(_) | EndPause(_))
        };
        self.is_takeover() || matches!(self, Self::Perform(op) if is_short(op))
    }
}

/// The operation under way, as far as its failure decides how the pass goes on.
#[derive(Default)]
enum Call {
    /// Its list is tried again in smaller batches.
    Batch(Batch),
    /// The next pass looks for misfires again; the rest of this one does not depend on them.
    FindOverdue,
    /// Mostly it concerns that row alone.
    Quarantine,
    /// It concerns that schedule alone: what is about to end for good of it is left to the next takeover.
    Containment(StreakQuery),
    /// The pass ends.
    #[default]
    Other,
}

pub(crate) struct MisfireMachine {
    application: String,
    window: Window,
    report: PollReport,
    election: Election,
    /// The remaining tasks of the pass, in order.
    todo: VecDeque<Task>,
    call: Call,
    /// A streak was counted since the last task that is not urgent. Counts and these tasks take turns, so
    /// that neither wait for all of the others.
    has_counted: bool,
    limit: BatchLimit,
    quarantine: Quarantine,
    retention: Retention,
    containment: Containment,
    /// No call is sent before this (boot clock) after one has failed.
    hold: Millis,
    /// Something was repaired since the poll was last woken.
    repaired: bool,
    outbox: VecDeque<MisfireOutput>,
    stopping: bool,
}

impl Machine for MisfireMachine {
    type Op = MisfireOp;
    type Input = MisfireInput;
    type Output = MisfireOutput;

    fn next(&mut self, now: Now) -> Step<MisfireOp, MisfireOutput> {
        self.quarantine.saw(now);
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
        if self.election.needs_renewal(now) && !self.is_idle() {
            if self.report.may_stand() { self.stand(now) } else { self.end_pass() }
        }
        self.next_op(now).map_or_else(|| Step::Wait(self.wakes_at()), Step::Do)
    }

    fn done(&mut self, now: Now, answer: Result<MisfireAnswer, Error>) {
        let call = std::mem::take(&mut self.call);
        match answer {
            Ok(MisfireAnswer::Elected(Applied::Done)) => self.elected(now),
            Ok(MisfireAnswer::Elected(_)) => self.end_pass(),
            Ok(MisfireAnswer::Stranded(page)) => self.found_stranded(page, now),
            Ok(MisfireAnswer::Withdrawn(found)) => {
                self.todo.push_front(Task::Write(found.into_iter().map(Unwritten::Withdrawn).collect()));
            }
            Ok(MisfireAnswer::EndedPauses(ended)) => {
                let ends =
                    ended.into_iter().rev().filter_map(|it| pauses::end(it, &self.application, now.db));
                ends.for_each(|op| self.todo.push_front(Task::Perform(op)));
            }
            Ok(MisfireAnswer::Passed(entries, _, seen)) if entries.is_empty() => {
                self.todo.push_front(Task::Perform(pauses::end_of_switch(seen, &self.application)));
            }
            Ok(MisfireAnswer::Passed(entries, query, seen)) => {
                self.todo.push_front(Task::Perform(MisfireOp::FindPassed(query, seen)));
                self.todo.push_front(Task::Write(pauses::held_back(entries).collect()));
            }
            Ok(MisfireAnswer::PassedOn) => {
                self.todo.push_front(Task::Perform(pauses::search(&self.application)));
            }
            Ok(MisfireAnswer::PauseEnded(audit, Applied::Done)) => {
                self.repaired = true;
                self.emit(Event::PauseEnded { target_type: audit.target_type, target: audit.target.into() });
                self.wake_poll();
            }
            Ok(MisfireAnswer::PauseEnded(..)) => {}
            Ok(MisfireAnswer::Counted(query, streak)) => {
                let last = self.containment.counted(query, streak);
                self.write_revocations(last);
            }
            Ok(MisfireAnswer::Contained(query, streak, Applied::Done)) => {
                let last = self.containment.settled(&query);
                self.write_revocations(last);
                self.repaired = true;
                self.emit(Event::Contained { schedule: streak.name, reason: streak.reason });
                self.wake_poll();
            }
            Ok(MisfireAnswer::Contained(query, ..)) => self.containment.lost(&query, now),
            Ok(MisfireAnswer::Overdue(page)) => self.found_overdue(page, now),
            Ok(MisfireAnswer::Written(applied)) => {
                if let Call::Batch(batch) = call {
                    self.written(batch, &applied, now);
                }
            }
            Ok(MisfireAnswer::Unreadable(page)) => self.found_unreadable(page, now),
            Ok(MisfireAnswer::Quarantined(row, Applied::Done)) => {
                self.emit(Event::Quarantined { schedule: row.name, reason: row.reason });
            }
            Ok(MisfireAnswer::Quarantined(..)) => {}
            Ok(MisfireAnswer::Purged(purged)) => {
                self.outbox.extend(self.retention.purged(purged, now).map(MisfireOutput::Event));
            }
            Err(error) => self.failed(call, error, now),
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
            todo: VecDeque::new(),
            call: Call::Other,
            has_counted: false,
            limit: BatchLimit::new(MOST_ROWS),
            quarantine: Quarantine::new(),
            retention: Retention::new(window.retention),
            containment: Containment::new(),
            hold: Millis::MIN,
            repaired: false,
            outbox: VecDeque::new(),
            stopping: false,
        }
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
        self.todo.is_empty() && !self.retention.has_step() && !self.containment.has_dying()
    }

    /// When (boot clock) the machine acts unless something is reported before.
    fn wakes_at(&self) -> Millis {
        let stands_at = match (self.is_idle(), self.report.may_stand()) {
            (false, _) => self.election.renews_at(),
            (true, true) => self.election.wakes_at(),
            (true, false) => Millis::MAX,
        };
        stands_at.min(self.containment.wakes_at())
    }

    fn stand(&mut self, now: Now) {
        let op = self.election.stand(&self.application, now);
        self.todo.push_front(Task::Perform(op));
    }

    /// Whatever keeps polls from ending must not keep dead nodes' executions from being taken over. Anything
    /// may be late then.
    fn stand_without_polls(&mut self, now: Now) {
        if self.election.is_due_without_polls(now) && self.is_idle() && self.report.node_enabled {
            self.report.any_late = true;
            let op = self.election.stand_without_polls(&self.application, now);
            self.todo.push_front(Task::Perform(op));
        }
    }

    /// Begins a pass, or goes on with one. Dead nodes' executions come first: they have waited longest. The
    /// search brings what is left of the last takeover, too.
    fn elected(&mut self, now: Now) {
        self.election.won(now);
        if self.report.node_enabled {
            self.todo.retain(|task| !task.is_takeover());
            self.containment.begin_takeover(now);
            if self.todo.is_empty() {
                self.begin_pass(now);
            }
            self.todo.push_front(Task::Perform(takeover::search(&self.application, takeover::FIRST)));
        }
        if self.report.pause_ended {
            self.todo.push_front(Task::Perform(pauses::search(&self.application)));
        }
    }

    fn begin_pass(&mut self, now: Now) {
        let PollReport { app_enabled, any_late, floor, .. } = self.report;
        if app_enabled && any_late {
            self.todo.push_back(self.find_overdue(now, None));
            self.todo.push_back(Task::Perform(takeover::withdrawn(&self.application)));
        }
        if app_enabled {
            let before = if any_late { self.overdue_before(now) } else { Millis::MIN };
            let op = self.quarantine.search(&self.application, floor..before, now);
            self.todo.push_back(Task::Perform(op));
        }
        self.retention.begin_pass(now);
    }

    /// The rest of the pass is left to the next, or to another node.
    fn end_pass(&mut self) {
        if self.todo.iter().any(|task| matches!(task, Task::Perform(MisfireOp::Quarantine(_)))) {
            self.quarantine.repeat_step();
        }
        self.todo.clear();
        self.containment.drop_dying();
        self.retention.end_pass();
        self.wake_poll();
    }

    fn next_op(&mut self, now: Now) -> Option<MisfireOp> {
        let pause = self.containment.pause();
        let is_urgent = self.todo.front().is_some_and(Task::is_urgent);
        let count = |it: &mut Self, with_dying| it.containment.step(now, with_dying);
        let turn = |it: &mut Self| if it.has_counted { None } else { count(it, !is_urgent) };
        let op = pause.or_else(|| turn(self));
        if let Some(op) = op {
            return Some(self.counting(op));
        }
        let task = self.next_task(now).or_else(|| self.retention.step(&self.application));
        self.has_counted &= is_urgent;
        task.or_else(|| count(self, true).map(|op| self.counting(op)))
    }

    fn counting(&mut self, op: MisfireOp) -> MisfireOp {
        self.call = Call::of(&op);
        self.has_counted = true;
        op
    }

    fn next_task(&mut self, now: Now) -> Option<MisfireOp> {
        loop {
            match self.todo.pop_front()? {
                Task::Perform(op) => {
                    self.call = Call::of(&op);
                    return Some(op);
                }
                // The application was switched off after the search.
                Task::Write(list)
                    if !self.report.app_enabled
                        && !matches!(
                            list.front(),
                            Some(Unwritten::Revocation(_) | Unwritten::HeldBack(_))
                        ) => {}
                // The clock has stepped after the search.
                Task::Write(list)
                    if !self.quarantine.believes_the_clock(now)
                        && matches!(list.front(), Some(Unwritten::Ahead(_))) => {}
                Task::Write(mut list) => {
                    let least_threshold = self.window.least_threshold();
                    let next = Batch::next(&mut list, self.limit.rows, least_threshold, now);
                    if !list.is_empty() {
                        self.todo.push_front(Task::Write(list));
                    }
                    if let Some((op, batch)) = next {
                        self.call = Call::Batch(batch);
                        return Some(op);
                    }
                }
            }
        }
    }

    /// What can be recovered, and the next page, comes before what must be counted first.
    fn found_stranded(&mut self, page: StrandedPage, now: Now) {
        if let Some(last) = page.next {
            self.todo.push_front(Task::Perform(takeover::search(&self.application, last)));
        }
        let revocations = recover_apart(page.stranded, now.db).into_iter();
        let (last, others): (Vec<_>, Vec<_>) = revocations.partition(Revocation::is_last_death);
        self.write_revocations(others);
        self.containment.found_dying(last.into_iter());
    }

    fn write_revocations(&mut self, list: Vec<Revocation>) {
        if !list.is_empty() {
            self.todo.push_front(Task::Write(list.into_iter().map(Unwritten::Revocation).collect()));
        }
    }

    fn found_overdue(&mut self, mut page: OverduePage, now: Now) {
        let sections = std::mem::take(&mut page.next);
        if !sections.is_empty() {
            self.todo.push_front(self.find_overdue(now, Some(sections)));
        }
        self.todo.push_front(Task::Write(Overdue::list(page)));
    }

    fn found_unreadable(&mut self, page: UnreadablePage, now: Now) {
        let UnreadablePage { broken, ahead, next } = page;
        self.todo.extend(self.quarantine.found(broken, next).map(Task::Perform));
        if ahead.is_empty() {
            return;
        }
        self.todo.push_back(Task::Write(ahead.into_iter().map(Unwritten::Ahead).collect()));
        // All schedules may be ahead alike: they do not wait for further passes.
        if next.is_some() {
            let op = self.quarantine.search(&self.application, Millis::MIN..Millis::MIN, now);
            self.todo.push_back(Task::Perform(op));
        }
    }

    fn find_overdue(&self, now: Now, sections: Option<Vec<Section>>) -> Task {
        let due = self.report.floor..self.overdue_before(now);
        Task::Perform(misfires::search(&self.application, due, sections))
    }

    /// Schedules due since then are left to the polls.
    fn overdue_before(&self, now: Now) -> Millis {
        now.db - self.window.least_threshold()
    }

    fn written(&mut self, batch: Batch, applied: &[Applied], now: Now) {
        self.limit.written(batch.rows, now.boot - batch.sent);
        for (it, _) in batch.list.iter().zip(applied).filter(|(_, applied)| applied.is_done()) {
            self.repaired = true;
            self.emit(it.repaired());
            if let Unwritten::Revocation(revocation) = it {
                self.outbox.extend(takeover::exhausted(revocation).map(MisfireOutput::Event));
            }
        }
        let behind = batch.still_behind(applied);
        if !behind.is_empty() {
            self.todo.push_back(Task::Write(behind));
        }
        if !matches!(self.todo.front(), Some(Task::Write(_))) {
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
    fn failed(&mut self, call: Call, error: Error, now: Now) {
        let is_rows_own = error.kind() == ErrorKind::Data;
        let (mut pause, mut is_told) = (FAILURE_PAUSE, true);
        match call {
            Call::Batch(batch) => {
                self.limit.halve(batch.rows);
                pause = if is_rows_own { ROW_PAUSE } else { FAILURE_PAUSE };
                if batch.list.len() > 1 {
                    is_told = !is_rows_own;
                    self.todo.push_front(Task::Write(batch.list));
                }
            }
            Call::FindOverdue => {}
            Call::Quarantine
                if matches!(error.kind(), ErrorKind::Data | ErrorKind::Refused | ErrorKind::Unavailable) =>
            {
                pause = ROW_PAUSE;
            }
            Call::Containment(query) => {
                self.containment.failed(&query, is_rows_own, now);
                pause = 0;
            }
            Call::Quarantine | Call::Other => self.end_pass(),
        }
        self.hold = now.boot + pause;
        if is_told {
            self.emit(Event::StoreFailed { operation: "misfire handling", error });
        }
    }
}

impl Call {
    fn of(op: &MisfireOp) -> Self {
        match op {
            MisfireOp::FindOverdue(_) => Self::FindOverdue,
            MisfireOp::Quarantine(_) => Self::Quarantine,
            MisfireOp::Count(query) | MisfireOp::Contain(query, _) => Self::Containment(query.clone()),
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests;
