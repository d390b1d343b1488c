//! A machine between `next` and `done`: the simulator's thread.

use crate::clock::Now;
use crate::error::{Error, Kind};
use crate::machine::{Machine, Operation, Step};
use crate::model::Millis;
use crate::store::Store;

use super::cluster::Dice;

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Performed after `0` ms, answered after another `1` ms.
    Answered(Millis, Millis),
    /// Certainly not performed.
    Unavailable,
    /// Performed after `0` ms, but the answer never comes.
    AnswerLost(Millis),
    /// Not performed, and nobody can tell.
    Lost,
    /// Given up on by the watchdog; performed `0` ms after it was asked for all the same.
    Overrun(Millis),
}

enum Doing<O: Operation> {
    Waiting { until: Millis },
    Asked { op: O, at: Millis, then: Millis, heard: bool },
    Answering { answer: Result<O::Answer, Error>, at: Millis },
}

pub(super) struct Actor<M: Machine> {
    pub machine: M,
    doing: Doing<M::Op>,
    /// Operations the watchdog gave up on that will be performed yet.
    late: Vec<(Millis, M::Op)>,
    stopped: bool,
}

impl<M: Machine> Actor<M>
where
    M::Op: Clone,
{
    pub(super) fn new(machine: M) -> Self {
        Self { machine, doing: Doing::Waiting { until: Millis::MIN }, late: Vec::new(), stopped: false }
    }

    /// The boot-clock instant at which something happens here.
    pub(super) fn next_at(&self) -> Millis {
        let own = match &self.doing {
            _ if self.stopped => Millis::MAX,
            Doing::Waiting { until } => *until,
            Doing::Asked { at, .. } | Doing::Answering { at, .. } => *at,
        };
        self.late.iter().map(|(at, _)| *at).chain([own]).min().unwrap_or(Millis::MAX)
    }

    pub(super) fn receive(&mut self, now: Now, input: M::Input) {
        self.machine.receive(now, input);
        if let Doing::Waiting { until } = &mut self.doing {
            *until = Millis::MIN;
        }
    }

    /// Performs what was asked for and given up on, even if its process has died since.
    pub(super) fn perform_late(&mut self, boot: Millis, store: &dyn Store) {
        let (due, later) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= boot);
        self.late = later;
        for (_, op) in Vec::from_iter::<Vec<(Millis, M::Op)>>(due) {
            drop(op.perform(store));
        }
    }

    /// Everything this machine does at this instant; what it tells is appended to `told`.
    pub(super) fn run(&mut self, now: Now, store: &dyn Store, dice: &mut Dice, told: &mut Vec<M::Output>) {
        self.perform_late(now.boot, store);
        while !self.stopped {
            match std::mem::replace(&mut self.doing, Doing::Waiting { until: Millis::MAX }) {
                Doing::Asked { op, at, then, heard } if at <= now.boot => {
                    let answer = op.perform(store);
                    let lost = || Err(Error::new(Kind::Unknown, "the answer was lost"));
                    let answer = if heard { answer } else { lost() };
                    self.doing = Doing::Answering { answer, at: now.boot + then };
                }
                Doing::Answering { answer, at } if at <= now.boot => {
                    self.machine.done(now, answer);
                    self.doing = Doing::Waiting { until: Millis::MIN };
                }
                Doing::Waiting { until } if until <= now.boot => self.step(now, dice, told),
                unchanged => {
                    self.doing = unchanged;
                    return;
                }
            }
        }
    }

    fn step(&mut self, now: Now, dice: &mut Dice, told: &mut Vec<M::Output>) {
        match self.machine.next(now) {
            Step::Do(op) => self.doing = self.ask(op, now.boot, dice.fate()),
            Step::Tell(output) => {
                told.push(output);
                self.doing = Doing::Waiting { until: Millis::MIN };
            }
            Step::Wait(until) => self.doing = Doing::Waiting { until: until.max(now.boot + 1) },
            Step::Stop => self.stopped = true,
        }
    }

    fn ask(&mut self, op: M::Op, boot: Millis, fate: Fate) -> Doing<M::Op> {
        let failed = |kind, after| Doing::Answering {
            answer: Err(Error::new(kind, "as the dice fell")),
            at: boot + after,
        };
        match fate {
            Fate::Answered(after, then) => Doing::Asked { op, at: boot + after, then, heard: true },
            Fate::AnswerLost(after) => Doing::Asked { op, at: boot + after, then: 5, heard: false },
            Fate::Unavailable => failed(Kind::Unavailable, 50),
            Fate::Lost => failed(Kind::Unknown, 50),
            Fate::Overrun(after) => {
                self.late.push((boot + after, op));
                failed(Kind::Unknown, 3_000)
            }
        }
    }
}
