//! The threads of a node's pool: they take executions from the floor and perform the steps of their lives.

use crossbeam::channel::{TryRecvError, bounded};

use super::{Job, Process, Surroundings};
use crate::domain::{Answer, JobPolicy, Millis};
use crate::node::lifecycle::{Lifecycle, Running};
use crate::node::route::Output;
use crate::pipeline::complete::CompleteInput;
use crate::pipeline::pool::Notice;
use crate::sim::jobs;
use crate::sim::judge::Effect;
use crate::sim::sabotage::Sabotage;
use crate::sim::seats::{Permit, hire, lock};
use crate::store::Claimed;
use crate::time::Now;

impl Process {
    /// Gives a won claim to the floor; without a seat it is dropped.
    pub(super) fn submit(&self, mut permit: Permit, claimed: Claimed, now: Now) {
        match permit.seat.take() {
            Some(seat) => lock(&self.floor).submit(seat, claimed, now.boot, hire),
            None => drop(claimed),
        }
    }

    /// Threads take what is ready, or retire; true if any took something.
    pub(super) fn start_jobs(&mut self, around: &mut Surroundings<'_>) -> bool {
        let mut said = false;
        loop {
            let ready = lock(&self.floor).take_ready();
            let Some(claimed) = ready else { break };
            said = true;
            let now = self.now(around.time);
            let is_cancelled = self.standing.is_cancelled(claimed.execution());
            self.perform(Lifecycle::of(claimed, now, false, is_cancelled), around);
        }
        let mut floor = lock(&self.floor);
        while floor.retires() {}
        said
    }

    fn perform(&mut self, next: Lifecycle, around: &mut Surroundings<'_>) {
        let now = self.now(around.time);
        match next {
            Lifecycle::Start(settlement, starting) => {
                let (reply, settled) = bounded(1);
                self.complete.receive(CompleteInput::Settle(settlement, Some(reply)));
                self.starting.push((starting, settled));
            }
            Lifecycle::Run(mut running) => {
                let job = policy_of(&running);
                let limited = running.begin(job, now);
                let limited = limited.filter(|_| !around.wire.is(Sabotage::NoLimits));
                limited.into_iter().for_each(|it| self.complete.receive(CompleteInput::Limit(it)));
                let claimed = running.claimed();
                around.effects.push(Effect {
                    execution: claimed.execution().0,
                    schedule: claimed.entry().name.to_string(),
                    payload: claimed.payload().to_owned(),
                    scheduled: claimed.scheduled(),
                    attempt: claimed.attempt(),
                    fence: claimed.fence(),
                    at: around.time,
                    ended: None,
                    took: None,
                    snoozed: None,
                });
                let kills = claimed.payload() == jobs::KILLS;
                let (answer, takes) = jobs::run(claimed.entry(), around.dice, around.faults);
                self.running.push(Job { running, answer, began: now.boot, ends: around.time + takes, kills });
            }
            Lifecycle::GiveBack(settlement) | Lifecycle::Cancel(settlement) => {
                self.complete.receive(CompleteInput::Settle(settlement, None));
                self.thread_is_free(now);
            }
            Lifecycle::Lost => self.thread_is_free(now),
        }
    }

    /// Threads whose rows say RUNNING begin, and those whose handlers have ended report; true if any did.
    pub(super) fn run_jobs(&mut self, around: &mut Surroundings<'_>) -> bool {
        let now = self.now(around.time);
        let mut said = false;
        for (starting, settled) in std::mem::take(&mut self.starting) {
            let answer = match settled.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.starting.push((starting, settled));
                    continue;
                }
                answer => answer.ok(),
            };
            let is_cancelled = self.standing.is_cancelled(starting.execution());
            self.perform(starting.settled(answer, now, false, is_cancelled), around);
            said = true;
        }
        self.heed_cancels(around.time);
        let (ended, running) =
            std::mem::take(&mut self.running).into_iter().partition(|it: &Job| it.ends <= around.time);
        self.running = running;
        self.is_killed = ended.iter().any(|it| it.kills);
        if self.is_killed {
            return false;
        }
        for it in ended {
            self.end(it, around, now);
            said = true;
        }
        said
    }

    /// Some handlers look whether they are to end, and do; the others run on.
    fn heed_cancels(&mut self, time: Millis) {
        let heeds = |it: &Job| it.running.claimed().execution().0 % 3 > 0;
        let asked = |it: &Job| self.standing.is_cancelled(it.running.claimed().execution());
        for it in self.running.iter_mut().filter(|it| it.ends > time && heeds(it) && asked(it)) {
            (it.ends, it.answer) = (time, Answer::Failed("cancelled".to_owned()));
        }
    }

    fn end(&mut self, it: Job, around: &mut Surroundings<'_>, now: Now) {
        let claimed = it.running.claimed();
        let (id, fence) = (claimed.execution().0, claimed.fence());
        let retries = !around.wire.is(Sabotage::NoRetries);
        let policy = policy_of(&it.running).filter(|_| retries);
        let is_cancelled = self.standing.is_cancelled(it.running.claimed().execution());
        let settlement = it.running.ended(it.answer, is_cancelled, policy, now);
        let mut mine = around.effects.iter_mut().rev();
        if let Some(effect) = mine.find(|effect| effect.execution == id && effect.fence == fence) {
            (effect.ended, effect.snoozed) = (Some(around.time), settlement.due);
            effect.took = Some(now.boot - it.began);
        }
        self.complete.receive(CompleteInput::Settle(settlement, None));
        self.thread_is_free(now);
    }

    fn thread_is_free(&mut self, now: Now) {
        let mut floor = lock(&self.floor);
        floor.finished(hire);
        let freed = floor.freed();
        drop(floor);
        if freed {
            self.deliver([Output::Pool(Notice::Freed)].into_iter(), now);
        }
    }
}

fn policy_of(running: &Running) -> Option<JobPolicy> {
    let name = &*running.claimed().entry().job;
    jobs::all().into_iter().find(|job| *job.name == *name).map(|job| job.policy)
}
