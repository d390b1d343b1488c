//! The one loop skeleton: a machine of two pure halves and the driver that runs it.
//!
//! A machine decides in [`Machine::next`] what to do now and learns in [`Machine::done`] what came of it,
//! with a *fresh* `now`: no decision uses a time read before a store call. Between the two somebody else
//! performs the owned operation: a thread in production, the simulator in tests, which may delay, crash,
//! skew or lose the commit exactly there. What can be told before it is known how that ends, is told
//! [`Machine::meanwhile`].

pub(crate) mod driver;

use crate::domain::{Error, Millis};
use crate::store::Store;
use crate::time::Now;

/// One store call, or the application's code, owned, so that it can be performed anywhere.
pub(crate) trait Operation: Send + 'static {
    type Answer: Send + 'static;

    /// What it is called in messages.
    fn name(&self) -> &'static str;

    fn perform(self, store: &dyn Store) -> Result<Self::Answer, Error>;
}

/// What a machine wants next.
#[derive(Debug)]
pub(crate) enum Step<Op, Out> {
    /// Perform this and call `done`.
    Do(Op),
    /// Tell the others.
    Tell(Out),
    /// Nothing before this boot-clock instant, unless something is received.
    Wait(Millis),
    /// The machine has ended.
    Stop,
}

/// A loop, without its clock, thread and store.
pub(crate) trait Machine: Send + 'static {
    type Op: Operation;
    type Input: Send + 'static;
    type Output: Send + 'static;

    fn next(&mut self, now: Now) -> Step<Self::Op, Self::Output>;

    /// What is to be told while the operation that `next` asked for is under way: it begins all the sooner.
    fn meanwhile(&mut self) -> Option<Self::Output> {
        None
    }

    fn done(&mut self, now: Now, answer: Result<<Self::Op as Operation>::Answer, Error>);

    fn receive(&mut self, now: Now, input: Self::Input);
}
