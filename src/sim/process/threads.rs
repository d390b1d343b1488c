//! The threads and tasks of a node's pools: they take executions from the floor and perform the steps of
//! their lives.

use std::sync::Arc;

use crossbeam::channel::{TryRecvError, bounded};

use super::checkpoints::resume;
use super::saves::Saves;
use super::transactions::Own;
use super::{GRACE, Job, Process, Surroundings, Task};
use crate::domain::attempt_span::AttemptSpan;
use crate::domain::{Answer, Boot, Event, ExecutionId, JobPolicy, Millis};
use crate::node::context::{Begun, Cancellation};
use crate::node::lifecycle::{Closing, Ended, Ending, FutureStep, Lifecycle, Patience, Signals, Started};
use crate::pipeline::complete::time_limits::Stuck;
use crate::pipeline::complete::{CompleteInput, Conclusion, Reply};
use crate::pipeline::dispatch::DispatchInput;
use crate::pipeline::lanes::LaneId;
use crate::sim::actor::Away;
use crate::sim::jobs;
use crate::sim::judge::{Covering, Effect};
use crate::sim::sabotage::Sabotage;
use crate::sim::seats::hire;
use crate::store::{Store, Transition};
use crate::time::Now;

impl Process {
    /// Threads take what is ready, or retire; true if any took something.
    pub(super) fn start_jobs(&mut self, around: &mut Surroundings<'_>) -> bool {
        let mut said = false;
        while let Some((lane, claimed)) = self.floors.take_ready() {
            said = true;
            let now = self.now(around.time);
            let is_cancelled = self.standing.is_cancelled(claimed.execution(), claimed.token());
            self.perform(
                lane,
                Lifecycle::of(claimed, now, Signals { is_closed: false, is_cancelled }),
                around,
            );
        }
        for (_, mut floor) in self.floors.each() {
            while floor.retires() {}
        }
        said
    }

    fn perform(&mut self, lane: LaneId, next: Lifecycle, around: &mut Surroundings<'_>) {
        let now = self.now(around.time);
        match next {
            Lifecycle::Start(settlement, starting) => {
                let (reply, settled) = bounded(1);
                self.complete.receive(CompleteInput::Settle(settlement, Some(Reply::Thread(reply))));
                self.starting.push((lane, starting, settled));
            }
            Lifecycle::Call(mut running) => {
                let job = policy_of(&running);
                let limited = running.begin(job, &Stuck::default(), now);
                let limited = limited.filter(|_| !around.wire.is(Sabotage::NoLimits));
                limited.into_iter().for_each(|it| self.complete.receive(CompleteInput::Limit(it)));
                let claimed = running.claimed();
                around.effects.push(Effect {
                    execution: claimed.execution().0,
                    schedule: claimed.entry().name.to_string(),
                    payload: claimed.payload().to_owned(),
                    scheduled: claimed.scheduled().millis(),
                    attempt: claimed.attempt(),
                    fence: claimed.fence(),
                    at: around.time,
                    ended: None,
                    took: None,
                    snoozed: None,
                    overstayed: None,
                    completes: false,
                    committed: Vec::new(),
                });
                ask(claimed.execution(), 0, around);
                resume(claimed, around);
                let kills = claimed.payload() == jobs::KILLS;
                let (answer, takes) = jobs::run(claimed.entry(), around.dice, around.faults);
                let own = jobs::completes(claimed.entry(), around.dice, around.faults).map(Own::new);
                let every = jobs::first_checkpoint(around.dice, around.faults);
                let saves = every.map(|every| Saves { at: around.time + every, every });
                let (began, ends) = (now.boot, around.time + takes);
                let task = self.of_tasks[lane.place()].then(|| Task {
                    begun: Begun {
                        execution: running.claimed().execution(),
                        token: running.claimed().token(),
                        incarnation: self.standing.incarnation(),
                        time_is_up_at: running.time_is_up_at(),
                    },
                    patience: Patience::new(GRACE),
                    looks_at: began,
                    told: None,
                    dropped: None,
                });
                self.running.push(Job { lane, running, answer, began, ends, task, own, saves, kills });
            }
            Lifecycle::GiveBack(settlement) | Lifecycle::Cancel(settlement) => {
                self.complete.receive(CompleteInput::Settle(settlement, None));
                self.floors.of(lane).finished(hire);
            }
            Lifecycle::Lost => self.floors.of(lane).finished(hire),
        }
    }

    /// Threads whose rows say RUNNING begin, and those whose handlers have ended report; true if any did.
    pub(super) fn run_jobs(&mut self, around: &mut Surroundings<'_>) -> bool {
        let now = self.now(around.time);
        let mut said = false;
        for (lane, starting, settled) in std::mem::take(&mut self.starting) {
            let answer = match settled.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.starting.push((lane, starting, settled));
                    continue;
                }
                answer => answer.ok(),
            };
            let is_cancelled = self.standing.is_cancelled(starting.execution(), starting.token());
            self.perform(
                lane,
                starting.settled(answer, now, Signals { is_closed: false, is_cancelled }),
                around,
            );
            said = true;
        }
        self.send_checkpoints(around);
        self.heed_cancels(around.time);
        self.drop_impatiently(around.time, around.wire.is(Sabotage::NeverDrop));
        let (ended, running) =
            std::mem::take(&mut self.running).into_iter().partition(|it: &Job| it.ends <= around.time);
        self.running = running;
        self.is_killed = ended.iter().any(|it| it.kills);
        if self.is_killed {
            return false;
        }
        for it in ended {
            said = true;
            if let Some(it) = self.go_on(it, around, now) {
                self.end(it, around, now);
            }
        }
        said
    }

    /// Some handlers look whether they are to end, and do; the others run on.
    fn heed_cancels(&mut self, time: Millis) {
        let heeds = |it: &Job| it.running.claimed().execution().0 % 3 > 0;
        let asked = |it: &Job| {
            let claimed = it.running.claimed();
            self.standing.is_cancelled(claimed.execution(), claimed.token())
        };
        let waits = |it: &Job| it.own.as_ref().is_some_and(Own::is_waiting);
        let heeding = |it: &&mut Job| it.ends > time && heeds(it) && asked(it) && !waits(it);
        for it in self.running.iter_mut().filter(heeding) {
            (it.ends, it.answer, it.own) = (time, Answer::Failed("cancelled".to_owned()), None);
        }
    }

    /// Drops the async handlers whose grace is over, unless a sabotage `spares` them; the rest are looked at
    /// again when something may have changed.
    fn drop_impatiently(&mut self, time: Millis, spares: bool) {
        let (now, standing, is_stopping) = (self.now(time), &self.standing, self.leaving.is_some());
        for it in self.running.iter_mut().filter(|it| it.ends > time) {
            let Some(task) = &mut it.task else { continue };
            let why = task.begun.cancellation(standing, is_stopping, now);
            let is_told = why.is_some_and(|why| why != Cancellation::Shutdown);
            task.told = task.told.or(Some(time)).filter(|_| is_told);
            if now.boot < task.looks_at && !is_told {
                continue;
            }
            let instants = (task.begun.changes_at(standing, now), self.drops_at);
            match task.patience.look(why, instants, now.boot) {
                FutureStep::Drop(_) if spares => task.looks_at = Boot::MAX,
                FutureStep::Drop(why) => (it.ends, task.dropped) = (time, Some(why)),
                FutureStep::Again(at) => task.looks_at = at,
            }
        }
    }

    fn end(&mut self, it: Job, around: &mut Surroundings<'_>, now: Now) {
        let claimed = it.running.claimed();
        let (id, fence) = (claimed.execution().0, claimed.fence());
        ask(claimed.execution(), 1, around);
        let (job, has_own_lane) = (Arc::clone(&claimed.entry().job), claimed.has_own_lane());
        let retries = !around.wire.is(Sabotage::NoRetries);
        let policy = policy_of(&it.running).filter(|_| retries);
        let claimed = it.running.claimed();
        let is_cancelled = self.standing.is_cancelled(claimed.execution(), claimed.token());
        let (told, dropped) = it.task.map_or((None, None), |task| (task.told, task.dropped));
        let attempt = claimed.named();
        let is_success = matches!(it.answer, Answer::Done | Answer::Completed(_)) && dropped.is_none();
        let ending = dropped.map_or(Ending::Answer(it.answer), Ending::Dropped);
        let closing = Closing { is_cancelled, passed_on: None, policy, now };
        let Ended { mut confirm, outcome: mut settlement } = it.running.ended(ending, closing);
        if is_success && around.wire.is(Sabotage::BelieveHandlers) {
            (confirm, settlement.transition) = (None, Transition::Succeed);
        }
        confirm = confirm.filter(|_| !around.wire.is(Sabotage::NeverConfirm));
        let mut mine = around.effects.iter_mut().rev();
        if let Some(effect) = mine.find(|effect| effect.execution == id && effect.fence == fence) {
            effect.ended = Some(around.time);
            if let Transition::Snooze(_, due) = settlement.transition {
                effect.snoozed = Some(due.millis());
            }
            effect.took = Some(now.boot - it.began);
            // A process that is stopped drops nothing.
            effect.overstayed = told.map(|told| around.time - told.max(self.stopped_until));
            if settlement.is_interrupted() {
                effect.snoozed = Some(around.time.min(now.db.millis()));
            }
        }
        let is_forgotten = settlement.is_interrupted() && around.wire.is(Sabotage::ForgetTheInterrupted);
        if let Some(confirm) = confirm.filter(|_| !is_forgotten) {
            let told = || Event::Revoked { attempt: attempt.clone() };
            let (committed, undone) = ((confirm, told()), (settlement, told()));
            let conclusion = Conclusion { committed, undone, span: AttemptSpan::default() };
            self.complete.receive(CompleteInput::Conclude(Box::new(conclusion)));
        } else if !is_forgotten {
            self.complete.receive(CompleteInput::Settle(settlement, None));
        }
        if !has_own_lane && self.watches[it.lane.place()].is_told(now.boot - it.began) {
            self.dispatch.receive(DispatchInput::Ran { job, took: now.boot - it.began });
        }
        self.floors.of(it.lane).finished(hire);
    }
}

/// Some handlers ask what their execution covers as they begin (0), some as they end (1).
fn ask(execution: ExecutionId, as_it: i64, around: &mut Surroundings<'_>) {
    if execution.0 % 4 != as_it || around.away != Away::No {
        return;
    }
    // Retention may have removed what was taken from a node that was stopped.
    let Some(covers) = around.wire.covers(execution, crate::domain::LeftOut::MOST).unwrap() else { return };
    let left_out = covers.left_out;
    let changes = around.database.changes();
    around.coverings.push(Covering {
        execution: execution.0,
        changes,
        from: covers.since.map(|from| from.timestamp_millis()),
        until: covers.until.timestamp_millis(),
        missed: left_out.missed,
        skipped: left_out.skipped,
        paused: left_out.paused,
        failed: left_out.failed,
        cancelled: left_out.cancelled,
        withdrawn: left_out.withdrawn,
        open: left_out.open,
    });
}

fn policy_of(running: &Started) -> Option<JobPolicy> {
    let name = &*running.claimed().entry().job;
    jobs::all().into_iter().find(|job| *job.name == *name).map(|job| job.settings.policy)
}
