//! Machines, the pure halves of a node's loops, and the driver that runs one on a thread.
//!
//! [`Machine::next`] decides the next step. If that is a store call, it returns an operation, and beside it
//! the facts that the machine needs again at the call's end. Somebody else performs the operation: a thread
//! in production; in tests the simulator, which may delay it, crash before or after it, or lose its commit.
//! [`Machine::done`] then gets the facts back, with the result and a *fresh* `now`, also after a call that
//! was abandoned: no decision uses a time read before a store call. [`Machine::meanwhile`] tells the outputs
//! that do not depend on the result.

pub(crate) mod calls;
pub(crate) mod driver;
pub(crate) mod store_calls;

use crate::domain::{Boot, Error};
use crate::store::Store;
use crate::time::Now;

/// One store call, or the application's code, owned, so that it can be performed anywhere.
pub(crate) trait Operation: Send + 'static {
    type Answer: Send + 'static;

    /// Its name in messages.
    fn name(&self) -> &'static str;

    fn perform(self, store: &dyn Store) -> Result<Self::Answer, Error>;
}

/// The next step of a machine.
#[derive(Debug)]
pub(crate) enum Step<Call, Out> {
    /// Perform the operation, and call `done` with what was handed over beside it.
    Do(Call),
    /// Tell the others.
    Tell(Out),
    /// Nothing before this instant, unless something is received.
    Wait(Boot),
    /// The machine has ended.
    Stop,
}

/// A loop, without its clock, thread and store.
pub(crate) trait Machine: Send + 'static {
    type Op: Operation;
    /// The values that the machine must know of a call when it ends.
    type Asked: Send + 'static;
    type Input: Send + 'static;
    type Output: Send + 'static;

    fn next(&mut self, now: Now) -> Step<(Self::Op, Self::Asked), Self::Output>;

    /// An output to hand over while the operation runs. The operation is sent first, so that it need not wait
    /// for this.
    fn meanwhile(&mut self) -> Option<Self::Output> {
        None
    }

    fn done(&mut self, now: Now, asked: Self::Asked, answer: Result<<Self::Op as Operation>::Answer, Error>);

    fn receive(&mut self, now: Now, input: Self::Input);
}

/// A machine that a test steps by hand, answering its calls one after the other.
#[cfg(test)]
pub(crate) struct Stepped<M: Machine> {
    pub machine: M,
    pub asked: Option<M::Asked>,
}

#[cfg(test)]
impl<M: Machine> Stepped<M> {
    pub(crate) fn new(machine: M) -> Self {
        Self { machine, asked: None }
    }

    /// The next step. What the machine hands over with a call is kept here until it is done.
    pub(crate) fn next(&mut self, now: Now) -> Step<M::Op, M::Output> {
        match self.machine.next(now) {
            Step::Do((op, asked)) => {
                self.asked = Some(asked);
                Step::Do(op)
            }
            Step::Tell(output) => Step::Tell(output),
            Step::Wait(until) => Step::Wait(until),
            Step::Stop => Step::Stop,
        }
    }

    /// Ends the call under way.
    pub(crate) fn done(&mut self, now: Now, answer: Result<<M::Op as Operation>::Answer, Error>) {
        let asked = self.asked.take().unwrap_or_else(|| panic!("no call is under way"));
        self.machine.done(now, asked, answer);
    }

    pub(crate) fn receive(&mut self, now: Now, input: M::Input) {
        self.machine.receive(now, input);
    }
}

/// Everything but the calls is the machine's own.
#[cfg(test)]
impl<M: Machine> std::ops::Deref for Stepped<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

#[cfg(test)]
impl<M: Machine> std::ops::DerefMut for Stepped<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.machine
    }
}
