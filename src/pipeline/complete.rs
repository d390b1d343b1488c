//! Outcomes, starts and hand-backs: in batches, guarded by claim token, tried again while the database is away.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam::channel::Sender;

use crate::clock::Now;
use crate::error::Error;
use crate::event::Event;
use crate::machine::{Machine, Operation, Step};
use crate::model::Millis;
use crate::node::Held;
use crate::store::{Change, Settled, Settlement, Store};

/// The most settlements in one transaction.
const BATCH: usize = 256;
const FIRST_PAUSE: Millis = 100;
const LONGEST_PAUSE: Millis = 2_000;

pub(crate) enum CompleteInput {
    /// Settle this and, if somebody waits, say how it ended.
    Settle(Settlement, Option<Sender<Settled>>),
    /// Nothing more comes: stop once everything is settled.
    Close,
    /// The deadline has come: stop with what is settled.
    Abandon,
}

#[derive(Clone)]
pub(crate) struct SettleOp(pub Vec<Settlement>);

impl Operation for SettleOp {
    type Answer = Vec<Settled>;

    fn name(&self) -> &'static str {
        "storing outcomes"
    }

    fn perform(self, store: &dyn Store) -> Result<Vec<Settled>, Error> {
        store.settle(&self.0)
    }
}

struct Waiting {
    settlement: Settlement,
    reply: Option<Sender<Settled>>,
}

pub(crate) struct CompleteMachine {
    held: Arc<Held>,
    queue: VecDeque<Waiting>,
    /// How many of the queue's head are being settled.
    asked: usize,
    hold: Millis,
    pause: Millis,
    outbox: VecDeque<Event>,
    closing: bool,
    abandoned: bool,
}

impl CompleteMachine {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self {
            held,
            queue: VecDeque::new(),
            asked: 0,
            hold: Millis::MIN,
            pause: FIRST_PAUSE,
            outbox: VecDeque::new(),
            closing: false,
            abandoned: false,
        }
    }

    fn settled(&mut self, it: Waiting, settled: Settled) {
        let is_start = matches!(it.settlement.change, Change::Start { .. });
        if settled == Settled::Revoked {
            self.outbox.push_back(Event::Revoked { execution: it.settlement.execution });
        }
        if !is_start || settled == Settled::Revoked {
            self.held.remove(it.settlement.token);
        }
        if let Some(reply) = it.reply {
            // Whoever asked may have gone; the answer is in the database anyway.
            reply.send(settled).ok();
        }
    }
}

impl Machine for CompleteMachine {
    type Op = SettleOp;
    type Input = CompleteInput;
    type Output = Event;

    fn next(&mut self, now: Now) -> Step<SettleOp, Event> {
        if let Some(event) = self.outbox.pop_front() {
            return Step::Tell(event);
        }
        if self.abandoned || (self.closing && self.queue.is_empty()) {
            return Step::Stop;
        }
        if self.queue.is_empty() {
            return Step::Wait(Millis::MAX);
        }
        if now.boot < self.hold {
            return Step::Wait(self.hold);
        }
        self.asked = self.queue.len().min(BATCH);
        Step::Do(SettleOp(self.queue.iter().take(self.asked).map(|it| it.settlement.clone()).collect()))
    }

    fn done(&mut self, now: Now, answer: Result<Vec<Settled>, Error>) {
        let asked = std::mem::take(&mut self.asked);
        match answer {
            Ok(settled) => {
                self.pause = FIRST_PAUSE;
                let batch: Vec<Waiting> = self.queue.drain(..asked).collect();
                for (it, settled) in batch.into_iter().zip(settled) {
                    self.settled(it, settled);
                }
            }
            Err(error) => {
                self.hold = now.boot + self.pause;
                self.pause = (2 * self.pause).min(LONGEST_PAUSE);
                self.outbox.push_back(Event::StoreFailed { operation: "storing outcomes", error });
            }
        }
    }

    fn receive(&mut self, _now: Now, input: CompleteInput) {
        match input {
            CompleteInput::Settle(settlement, reply) => self.queue.push_back(Waiting { settlement, reply }),
            CompleteInput::Close => self.closing = true,
            CompleteInput::Abandon => self.abandoned = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::model::{ExecutionId, Token};
    use crate::pipeline::fixtures::calls_while_down;

    const NOW: Millis = 1_000_000;

    fn start(id: i64) -> CompleteInput {
        let change = Change::Start { now: NOW };
        CompleteInput::Settle(Settlement { execution: ExecutionId(id), token: Token::fresh(), change }, None)
    }

    /// And what was to be stored is still there afterwards.
    #[test]
    fn no_hot_loop_while_the_database_is_down() {
        for kind in [Kind::Unavailable, Kind::Unknown, Kind::Refused] {
            let mut machine = CompleteMachine::new(Arc::default());
            let mut given = 0;
            let calls = calls_while_down(&mut machine, NOW, kind, || {
                given += 1;
                Some(start(given))
            });
            assert!((20..=70).contains(&calls), "{calls} calls in a minute");
            assert_eq!(machine.queue.len(), usize::try_from(given).unwrap());
        }
    }
}
