//! Handlers that complete in transactions of their own: these are committed or rolled back whatever becomes
//! of the handler and its process meanwhile.

use super::transactions::{Own, OwnStep, Transaction};
use super::{Job, Process, Surroundings};
use crate::domain::{Answer, Millis, Receipt, ScheduleId};
use crate::sim::actor::Fate;
use crate::sim::jobs::Completes;
use crate::sim::operations::row;
use crate::sim::wire::Wire;
use crate::store::Completed;
use crate::testing::dice::Dice;
use crate::time::Now;

impl Process {
    /// The next instant at which a transaction ends.
    pub(super) fn transaction_ends_at(&self) -> Millis {
        self.transactions.iter().map(|it| it.ends).min().unwrap_or(Millis::MAX)
    }

    /// Commits transactions, or rolls them back.
    pub(super) fn end_transactions(&mut self, time: Millis, wire: &Wire<'_>) {
        for it in self.transactions.extract_if(.., |it| it.ends <= time) {
            wire.unlock(&it.locked);
            let completed = if it.rolls_back { None } else { wire.commit(&it.complete, it.fence).ok() };
            let mut jobs = self.running.iter_mut();
            let job = jobs.find(|job| it.is_of(job.running.claimed()));
            if completed == Some(Completed::Done) && job.is_none() {
                let mut completions = wire.completions();
                completions.late += usize::from(!self.is_dead);
                completions.orphaned += usize::from(self.is_dead);
            }
            let is_well = it.rolls_back || completed == Some(Completed::Done);
            if let Some(own) = job.and_then(|job| job.own.as_mut()).filter(|_| it.is_heard && is_well) {
                own.step = OwnStep::Done;
            }
        }
    }

    /// The process has died: the database rolls back what it has not been told to commit.
    pub(super) fn abandon_transactions(&mut self, dice: &mut Dice) {
        self.is_dead = true;
        self.running.clear();
        self.transactions.iter_mut().for_each(|it| it.rolls_back |= dice.one_in(2));
    }

    /// Takes the next step of a handler that has come to the end of one; gives it back if that was its last.
    pub(super) fn go_on(&mut self, mut job: Job, around: &mut Surroundings<'_>, now: Now) -> Option<Job> {
        let is_dropped = job.task.as_ref().is_some_and(|task| task.dropped.is_some());
        if is_dropped {
            let own = self.transactions.iter_mut().filter(|it| it.is_of(job.running.claimed()));
            own.for_each(|it| it.rolls_back |= around.dice.one_in(2));
            return Some(job);
        }
        let Some(Own { how, step }) = job.own.take() else { return Some(job) };
        let is_begun = step != OwnStep::Ahead;
        if step == OwnStep::Done || is_begun && how.again == 0 {
            let claimed = job.running.claimed();
            if how.is_honest {
                job.answer = match step {
                    OwnStep::Done => {
                        Receipt { execution: claimed.execution(), token: claimed.token() }.into()
                    }
                    _ => Answer::Failed("not committed".to_owned()),
                };
            }
            job.ends = around.time + how.lingers;
            if how.lingers == 0 {
                return Some(job);
            }
        } else {
            let how = Completes { again: how.again - u32::from(is_begun), ..how };
            job.own = Some(Own { how, step: OwnStep::Begun });
            job.ends = self.begin_transaction(&job, how, around, now);
        }
        self.running.push(job);
        None
    }

    /// A handler writes, completes and commits, in one transaction; gives the instant at which it hears of
    /// that.
    fn begin_transaction(
        &mut self,
        job: &Job,
        how: Completes,
        around: &mut Surroundings<'_>,
        now: Now,
    ) -> Millis {
        job.running.saying().complete();
        let (claimed, time) = (job.running.claimed(), around.time);
        let (complete, fence) = (claimed.complete(now.db), claimed.fence());
        let run = (claimed.execution().0, fence);
        let effect = around.effects.iter_mut().rev().find(|it| (it.execution, it.fence) == run);
        effect.into_iter().for_each(|it| it.completes = true);
        let (ends, is_heard, hears) = match Fate::thrown(around.dice, around.faults, around.away) {
            Fate::Unavailable | Fate::Lost => return time + 50,
            _ if around.refuses => return time + 2,
            Fate::Answered(there, back) => (there + how.open, true, there + how.open + back),
            Fate::AnswerLost(there) => (there + how.open, false, there + how.open + 5),
            // Its client gives up sooner than the database does.
            Fate::Overrun(there) => (there + how.open, false, around.dice.below(1_000)),
        };
        // Now and then the handler has given up before the database hears that it completes.
        let is_late = !is_heard && around.dice.one_in(2);
        let end = complete.ends_run().map(|end| end.schedule);
        let rows = end.into_iter().chain([row(complete.execution)]).filter(|_| !is_late);
        let rows: Vec<ScheduleId> = rows.collect();
        let locked = around.wire.lock(&rows);
        if locked.len() < rows.len() {
            around.wire.unlock(&locked);
            return time + 50;
        }
        let (ends, rolls_back) = (time + ends, how.rolls_back);
        self.transactions.push(Transaction { complete, fence, locked, ends, rolls_back, is_heard });
        time + hears + 1
    }
}
