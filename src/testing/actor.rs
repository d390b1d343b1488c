//! A machine whose calls are performed at once, and that nobody drives but the test.

use std::collections::VecDeque;

use super::fire::{CallFate, World};
use crate::domain::{Boot, Error};
use crate::machine::{Machine, Operation, Step};
use crate::time::Now;

/// What became of a call.
type Answered<M> = Result<<<M as Machine>::Op as Operation>::Answer, Error>;

/// Performs a call, or not.
fn called<M: Machine>(operation: M::Op, at: Boot, world: &mut World<'_>) -> Answered<M> {
    match world.fire.fate_of_call(at) {
        CallFate::Answered => operation.perform(world.store),
        CallFate::Failed(error) => Err(error),
        CallFate::Unheard(error) => {
            // What the database has done stays done.
            drop::<Answered<M>>(operation.perform(world.store));
            Err(error)
        }
    }
}

/// A machine, and when it goes on by itself.
pub(super) struct Actor<M: Machine> {
    pub(super) machine: M,
    until: Boot,
    inbox: VecDeque<M::Input>,
    has_stopped: bool,
}

impl<M: Machine> Actor<M> {
    pub(super) fn new(machine: M) -> Self {
        Self { machine, until: Boot::MIN, inbox: VecDeque::new(), has_stopped: false }
    }

    pub(super) fn receive(&mut self, input: M::Input) {
        self.inbox.push_back(input);
    }

    /// The instant at which it goes on.
    pub(super) fn next_at(&self) -> Boot {
        match (self.has_stopped, self.inbox.is_empty()) {
            (true, _) => Boot::MAX,
            (false, false) => Boot::MIN,
            (false, true) => self.until,
        }
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Goes on until it waits; what it tells is appended to `told`.
    pub(super) fn run(&mut self, now: Now, world: &mut World<'_>, told: &mut Vec<M::Output>) {
        while self.next_at() <= now.boot {
            self.inbox.drain(..).for_each(|input| self.machine.receive(now, input));
            self.until = Boot::MIN;
            match self.machine.next(now) {
                Step::Do((operation, asked)) => {
                    told.extend(std::iter::from_fn(|| self.machine.meanwhile()));
                    self.machine.done(now, asked, called::<M>(operation, now.boot, world));
                }
                Step::Tell(output) => told.push(output),
                Step::Wait(until) => self.until = until.max(now.boot + 1),
                Step::Stop => self.has_stopped = true,
            }
        }
    }
}
