//! A machine whose calls are performed at once, and that nobody drives but the test.

use std::collections::VecDeque;

use crate::domain::{Boot, Error};
use crate::machine::{Machine, Operation, Step};
use crate::store::Store;
use crate::time::Now;

/// What became of a call.
type Answered<M> = Result<<<M as Machine>::Op as Operation>::Answer, Error>;

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
    pub(super) fn run(&mut self, now: Now, store: &dyn Store, told: &mut Vec<M::Output>) {
        while self.next_at() <= now.boot {
            self.inbox.drain(..).for_each(|input| self.machine.receive(now, input));
            self.until = Boot::MIN;
            match self.machine.next(now) {
                Step::Do((operation, asked)) => {
                    told.extend(std::iter::from_fn(|| self.machine.meanwhile()));
                    let answer: Answered<M> = operation.perform(store);
                    self.machine.done(now, asked, answer);
                }
                Step::Tell(output) => told.push(output),
                Step::Wait(until) => self.until = until.max(now.boot + 1),
                Step::Stop => self.has_stopped = true,
            }
        }
    }
}
