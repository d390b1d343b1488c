//! Handlers that store how far they have come: such a call may reach the database when the handler, or its
//! process, is gone.

use super::saves::{Saves, Saving};
use super::{Process, Surroundings};
use crate::domain::Millis;
use crate::sim::actor::{Away, Fate};
use crate::sim::wire::Wire;
use crate::store::{Claimed, ExecutionChange, Transition};
use crate::testing::dice::Dice;

impl Process {
    /// The next instant at which a checkpoint reaches the database.
    pub(super) fn checkpoint_arrives_at(&self) -> Millis {
        self.savings.iter().map(|it| it.arrives).min().unwrap_or(Millis::MAX)
    }

    pub(super) fn store_checkpoints(&mut self, time: Millis, wire: &Wire<'_>) {
        for it in self.savings.extract_if(.., |it| it.arrives <= time) {
            let is_there = self.running.iter().any(|job| it.is_of(job.running.claimed()));
            wire.store_checkpoint(it.value, &it.change, it.is_heard && is_there);
        }
    }

    /// The process has died: of what it sent some is on its way.
    pub(super) fn abandon_checkpoints(&mut self, dice: &mut Dice) {
        self.savings.retain(|_| dice.one_in(2));
    }

    /// Handlers store checkpoints, each with a value of its own, and wait for the answers.
    pub(super) fn send_checkpoints(&mut self, around: &mut Surroundings<'_>) {
        let (time, now) = (around.time, self.now(around.time));
        for job in self.running.iter_mut().filter(|job| job.ends > time && job.saves_at() <= time) {
            let Some(saves) = &mut job.saves else { continue };
            let claimed = job.running.claimed();
            let value = around.wire.send_checkpoint(claimed.execution(), claimed.fence());
            let (there, is_heard, hears) = match Fate::thrown(around.dice, around.faults, around.away) {
                Fate::Unavailable | Fate::Lost => (None, false, 50),
                _ if around.refuses => (None, false, 2),
                Fate::Answered(there, back) => (Some(there), true, there + back),
                Fate::AnswerLost(there) => (Some(there), false, there + 5),
                // Its client gives up sooner than the database does.
                Fate::Overrun(there) => (Some(there), false, around.dice.below(1_000)),
            };
            let transition = Transition::Checkpoint(value.to_string());
            let change = ExecutionChange { transition, ..claimed.complete(now.db) };
            let fence = claimed.fence();
            let saving = |there| Saving { change, fence, value, arrives: time + there, is_heard };
            self.savings.extend(there.map(saving));
            job.ends = job.ends.max(time + hears + 1);
            *saves = Saves { at: time + hears + saves.every, every: 2 * saves.every };
        }
    }
}

/// A handler reads, as it begins, how far its execution has come.
pub(super) fn resume(claimed: &Claimed, around: &Surroundings<'_>) {
    if around.faults.checkpoints > 0 && around.away == Away::No {
        around.wire.resume(claimed.execution(), claimed.fence());
    }
}
