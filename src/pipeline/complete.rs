//! Outcomes, starts and hand-backs: in batches, guarded by claim token, tried again while the database is
//! away.
//!
//! A steady stream of outcomes would be a transaction for each: after one transaction the next waits a
//! moment, unless it is worth it at once or somebody waits for the answer. So the first of all is stored
//! without delay.
//!
//! One that cannot be stored (its row is locked by others, or the database refuses what it holds) makes its
//! whole batch fail. It is looked for in ever smaller parts of the batch and set aside: from then on it is
//! tried alone, at its own pace and in turns with the others.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam::channel::Sender;

use crate::domain::{Error, Event, Kind, LONGEST_ERROR, Millis};
use crate::machine::{Machine, Operation, Step};
use crate::members::Held;
use crate::store::{Applied, Change, ExecutionChange, Store, Verb};
use crate::time::{GATHER, Now, REST};

/// The most changes in one transaction.
const BATCH: usize = 1_000;
/// So many are worth a transaction at once: under a backlog nothing waits.
const ENOUGH: usize = 64;
/// A batch that failed is tried again in so many parts: the one that fails is alone after few failures, each
/// of which may have waited for a lock.
const PARTS: usize = 8;
const FIRST_PAUSE: Millis = 100;
const LONGEST_PAUSE: Millis = 2_000;

pub(crate) enum CompleteInput {
    /// Settle this and, if somebody waits, say how it ended.
    Settle(ExecutionChange, Option<Sender<Applied>>),
    /// Nothing more comes: stop once everything is settled.
    Close,
    /// The deadline has come: stop with what is settled.
    Abandon,
}

#[derive(Debug)]
pub(crate) enum CompleteOutput {
    /// A failure is stored whose next attempt is due then, database time: the earliest of its batch.
    Retry(Millis),
    Event(Event),
}

#[derive(Clone)]
pub(crate) struct SettleOp(pub Vec<Change>);

impl Operation for SettleOp {
    type Answer = Vec<Applied>;

    fn name(&self) -> &'static str {
        "storing outcomes"
    }

    fn perform(self, store: &dyn Store) -> Result<Vec<Applied>, Error> {
        store.apply(&self.0)
    }
}

struct Waiting {
    change: ExecutionChange,
    reply: Option<Sender<Applied>>,
    /// How many calls had succeeded when it was last refused alone.
    refused: Option<u64>,
}

/// The outcomes of the operation under way.
#[derive(Clone, Copy)]
enum Asked {
    /// So many of the queue's head.
    Queue(usize),
    /// The first of those set aside.
    Aside,
}

/// When the next call may come after one that failed.
struct Pace {
    hold: Millis,
    pause: Millis,
}

impl Pace {
    fn new() -> Self {
        Self { hold: Millis::MIN, pause: FIRST_PAUSE }
    }

    fn failed(&mut self, now: Now) {
        self.hold = now.boot + self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }

    fn succeeded(&mut self) {
        self.pause = FIRST_PAUSE;
    }
}

pub(crate) struct CompleteMachine {
    held: Arc<Held>,
    queue: VecDeque<Waiting>,
    /// What failed alone.
    aside: VecDeque<Waiting>,
    asked: Asked,
    /// So many of the queue's head failed together: one of them at least cannot be stored.
    suspects: usize,
    /// How many of the suspects are tried together.
    part: usize,
    /// How many in the queue somebody waits for.
    awaited: usize,
    /// A few may come together until then.
    gather: Millis,
    pace: Pace,
    aside_pace: Pace,
    /// How many calls have succeeded.
    succeeded: u64,
    outbox: VecDeque<CompleteOutput>,
    closing: bool,
    abandoned: bool,
}

impl Waiting {
    fn change(&self) -> Change {
        self.change.clone().into()
    }

    /// When the next attempt that is stored with it is due.
    fn retry(&self, settled: Applied) -> Option<Millis> {
        self.change.next.filter(|_| settled.is_done()).map(|next| next.due)
    }

    /// It failed alone. If its text may be the cause, in an encoding without these characters, the next try
    /// writes it in ASCII. A refusal whose cause is not known must be of this row: others were stored since
    /// the last. True if the next try will write something else.
    fn failed_alone(&mut self, failure: Kind, succeeded: u64) -> bool {
        let is_of_the_row = match failure {
            Kind::Data => true,
            Kind::Refused => self.refused.replace(succeeded).is_some_and(|then| then < succeeded),
            _ => false,
        };
        match &mut self.change.error {
            Some(error) if is_of_the_row => {
                let ascii = in_ascii(error);
                std::mem::replace(error, ascii) != *error
            }
            _ => false,
        }
    }
}

/// The text with escapes for what is not ASCII, and no longer than a text may be.
fn in_ascii(text: &str) -> String {
    let mut ascii = String::new();
    for character in text.chars() {
        let from = ascii.len();
        if character.is_ascii() {
            ascii.push(character);
        } else {
            ascii.extend(character.escape_unicode());
        }
        if ascii.len() > LONGEST_ERROR {
            ascii.truncate(from);
            break;
        }
    }
    ascii
}

impl CompleteMachine {
    pub(crate) fn new(held: Arc<Held>) -> Self {
        Self {
            held,
            queue: VecDeque::new(),
            aside: VecDeque::new(),
            asked: Asked::Queue(0),
            suspects: 0,
            part: 0,
            awaited: 0,
            gather: Millis::MIN,
            pace: Pace::new(),
            aside_pace: Pace::new(),
            succeeded: 0,
            outbox: VecDeque::new(),
            closing: false,
            abandoned: false,
        }
    }

    fn push(&mut self, it: Waiting) {
        self.awaited += usize::from(it.reply.is_some());
        self.queue.push_back(it);
    }

    /// The first of the queue.
    fn pop(&mut self, count: usize) -> Vec<Waiting> {
        let popped: Vec<Waiting> = self.queue.drain(..count).collect();
        self.awaited -= popped.iter().filter(|it| it.reply.is_some()).count();
        popped
    }

    fn failed(&mut self, error: Error, now: Now) {
        match self.asked {
            Asked::Aside => self.aside_pace.failed(now),
            // The database works: it has read what it refuses.
            Asked::Queue(_) if error.kind() == Kind::Data => {}
            Asked::Queue(_) => self.pace.failed(now),
        }
        match self.asked {
            Asked::Queue(asked) if asked > 1 => {
                (self.suspects, self.part) = (asked, asked.div_ceil(PARTS));
            }
            Asked::Queue(asked) => {
                self.suspects = 0;
                if self.aside.is_empty() {
                    self.aside_pace.failed(now);
                }
                self.pop(asked).into_iter().for_each(|it| self.set_aside(it, error.kind()));
            }
            Asked::Aside => {
                self.aside.pop_front().into_iter().for_each(|it| self.set_aside(it, error.kind()));
            }
        }
        let event = Event::StoreFailed { operation: "storing outcomes", error };
        self.outbox.push_back(CompleteOutput::Event(event));
    }

    /// One that failed alone goes to the end of those set aside, or of the queue if it has become another.
    fn set_aside(&mut self, mut it: Waiting, failure: Kind) {
        if it.failed_alone(failure, self.succeeded) {
            self.push(it);
        } else {
            self.aside.push_back(it);
        }
    }

    /// How many bytes of texts wait to be stored.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        let text = |it: &Waiting| it.change.error.as_ref().map_or(0, String::capacity);
        self.queue.iter().chain(&self.aside).map(text).sum()
    }

    fn presses(&self) -> bool {
        self.awaited > 0 || self.suspects > 0 || self.queue.len() >= ENOUGH || self.closing
    }

    fn settled(&mut self, it: Waiting, settled: Applied) {
        let is_start = it.change.verb == Verb::Start;
        if settled == Applied::Lost {
            let event = Event::Revoked { execution: it.change.execution };
            self.outbox.push_back(CompleteOutput::Event(event));
        }
        if !is_start || settled == Applied::Lost {
            self.held.remove(it.change.token);
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
    type Output = CompleteOutput;

    fn next(&mut self, now: Now) -> Step<SettleOp, CompleteOutput> {
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        if self.abandoned || (self.closing && self.queue.is_empty() && self.aside.is_empty()) {
            return Step::Stop;
        }
        let gathered = if self.presses() { Millis::MIN } else { self.gather };
        let queue_at = if self.queue.is_empty() { Millis::MAX } else { self.pace.hold.max(gathered) };
        let aside_at = if self.aside.is_empty() { Millis::MAX } else { self.aside_pace.hold };
        if now.boot < queue_at.min(aside_at) {
            return Step::Wait(queue_at.min(aside_at));
        }
        let is_queues_turn = matches!(self.asked, Asked::Aside) || now.boot < aside_at;
        let changes = if is_queues_turn && now.boot >= queue_at {
            let count =
                if self.suspects > 0 { self.part.min(self.suspects) } else { self.queue.len().min(BATCH) };
            self.asked = Asked::Queue(count);
            self.queue.iter().take(count).map(Waiting::change).collect()
        } else {
            self.asked = Asked::Aside;
            self.aside.iter().take(1).map(Waiting::change).collect()
        };
        Step::Do(SettleOp(changes))
    }

    fn done(&mut self, now: Now, answer: Result<Vec<Applied>, Error>) {
        let settled = match answer {
            Ok(settled) => settled,
            Err(error) => return self.failed(error, now),
        };
        self.succeeded += 1;
        let batch = match self.asked {
            Asked::Queue(asked) => {
                self.pace.succeeded();
                // More come together only when they come faster than they are stored.
                self.gather = now.boot + if asked > ENOUGH { REST } else { GATHER };
                self.suspects = self.suspects.saturating_sub(asked);
                self.pop(asked)
            }
            Asked::Aside => {
                let first = self.aside.pop_front();
                // Not its row was at fault, but the database, and so perhaps with the others.
                self.aside_pace = Pace::new();
                std::mem::take(&mut self.aside).into_iter().for_each(|it| self.push(it));
                first.into_iter().collect()
            }
        };
        let retries = batch.iter().zip(&settled).filter_map(|(it, settled)| it.retry(*settled));
        self.outbox.extend(retries.min().map(CompleteOutput::Retry));
        for (it, settled) in batch.into_iter().zip(settled) {
            self.settled(it, settled);
        }
    }

    fn receive(&mut self, _now: Now, input: CompleteInput) {
        match input {
            CompleteInput::Settle(change, reply) => {
                self.push(Waiting { change, reply, refused: None });
            }
            CompleteInput::Close => self.closing = true,
            CompleteInput::Abandon => self.abandoned = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ExecutionId, ExecutionState, Token};
    use crate::fixtures::calls_while_down;

    mod batches;

    const NOW: Millis = 1_000_000;

    fn start(id: i64) -> CompleteInput {
        CompleteInput::Settle(changed(id, Verb::Start, ExecutionState::Running), None)
    }

    /// What it asks for when it is given `inputs`, each at its instant, by an instantaneous database: when,
    /// and how much.
    fn calls(inputs: Vec<(Millis, CompleteInput)>) -> Vec<(Millis, usize)> {
        let mut machine = CompleteMachine::new(Arc::default());
        let mut inputs = std::collections::VecDeque::from(inputs);
        let (mut now, mut calls) = (0, Vec::new());
        loop {
            let at = Now { db: NOW, boot: now, apart: 0 };
            while let Some((_, input)) = inputs.pop_front_if(|(at, _)| *at <= now) {
                machine.receive(at, input);
            }
            match machine.next(at) {
                Step::Do(SettleOp(batch)) => {
                    calls.push((now, batch.len()));
                    machine.done(at, Ok(vec![Applied::Done; batch.len()]));
                }
                Step::Tell(_) => {}
                Step::Wait(until) => {
                    assert!(until > now, "a hot loop");
                    now = inputs.front().map_or(until, |(at, _)| until.min(*at));
                }
                Step::Stop => return calls,
            }
        }
    }

    fn outcome(at: Millis) -> (Millis, CompleteInput) {
        (at, CompleteInput::Settle(finish(at, "plain"), None))
    }

    #[test]
    fn a_steady_stream_of_outcomes_is_stored_in_few_transactions() {
        let mut stream: Vec<_> = (0..2_500).map(|n| outcome(4 * n)).collect();
        stream.push((20_000, CompleteInput::Close));
        let calls = calls(stream);
        assert_eq!(calls[0], (0, 1), "the first does not wait");
        assert!(calls.iter().all(|(_, outcomes)| *outcomes <= 13), "none waits for more than {GATHER} ms");
        assert!(calls.len() <= 201, "{} transactions for 2,500 outcomes", calls.len());
    }

    #[test]
    fn what_somebody_waits_for_is_stored_at_once_and_takes_the_others_along() {
        let (reply, _answer) = crossbeam::channel::bounded(1);
        let start = (10, CompleteInput::Settle(finish(0, "plain"), Some(reply)));
        let inputs = vec![outcome(0), outcome(5), start, outcome(15), (16, CompleteInput::Close)];
        assert_eq!(calls(inputs), [(0, 1), (10, 2), (16, 1)], "a stop waits for nothing either");
    }

    #[test]
    fn a_backlog_waits_for_nothing() {
        let mut backlog: Vec<_> = (0..2 * 64).map(|n| outcome(1 + n / 64)).collect();
        backlog.insert(0, outcome(0));
        backlog.push((2, CompleteInput::Close));
        assert_eq!(calls(backlog), [(0, 1), (1, 64), (2, 64)]);
    }

    #[test]
    fn what_a_backlog_leaves_is_not_made_to_wait_like_a_stream() {
        let many = |count, at| (0..count).map(move |_| outcome(at));
        let of_a_stream = many(64, 0).chain([outcome(1)]);
        let of_a_backlog = many(64, 5).chain([outcome(6)]);
        let inputs = of_a_stream.chain(of_a_backlog).chain([(99, CompleteInput::Close)]).collect();
        assert_eq!(calls(inputs), [(0, 64), (5, 65), (13, 1)]);
        let inputs = many(64, 0).chain([outcome(1), (99, CompleteInput::Close)]).collect();
        assert_eq!(calls(inputs), [(0, 64), (50, 1)]);
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
            assert_eq!(machine.queue.len() + machine.aside.len(), usize::try_from(given).unwrap());
        }
    }

    fn finish(n: i64, error: &str) -> ExecutionChange {
        let error = Some(error.to_owned());
        ExecutionChange { error, ..changed(n, Verb::Finish, ExecutionState::Failed) }
    }

    fn changed(n: i64, verb: Verb, becomes: ExecutionState) -> ExecutionChange {
        ExecutionChange {
            verb,
            execution: ExecutionId(n),
            token: Token::fresh(),
            state: verb.rule().from[0],
            becomes,
            fresh: (verb == Verb::GiveBack).then(Token::fresh),
            reason: None,
            error: None,
            next: None,
            now: NOW,
        }
    }

    fn execution(change: &Change) -> &ExecutionChange {
        let Change::Execution(change) = change else { panic!("not of an execution") };
        change
    }

    /// A database that refuses what is not ASCII and holds execution 3 locked for a while.
    fn answer(batch: &[Change], locked: bool) -> Result<Vec<Applied>, Error> {
        if locked && batch.iter().any(|it| execution(it).execution == ExecutionId(3)) {
            return Err(Error::new(Kind::Unavailable, "locked"));
        }
        let refused = |it: &Change| execution(it).error.as_ref().is_some_and(|text| !text.is_ascii());
        if batch.iter().any(refused) {
            return Err(Error::new(Kind::Data, "no such character"));
        }
        Ok(vec![Applied::Done; batch.len()])
    }

    #[test]
    fn an_outcome_that_cannot_be_stored_does_not_hold_up_the_others() {
        let mut machine = CompleteMachine::new(Arc::new(Held::default()));
        let mut now = Now { db: 0, boot: 0, apart: 0 };
        for n in 0..10 {
            let text = if n == 5 { "\u{2615}" } else { "plain" };
            machine.receive(now, CompleteInput::Settle(finish(n, text), None));
        }
        let mut stored = Vec::new();
        let mut calls = 0;
        while stored.len() < 10 {
            match machine.next(now) {
                Step::Do(SettleOp(batch)) => {
                    calls += 1;
                    let answer = answer(&batch, stored.len() < 9);
                    if answer.is_ok() {
                        stored.extend(batch.iter().map(|it| execution(it).execution.0));
                    }
                    machine.done(now, answer);
                }
                Step::Wait(until) => now.boot = until,
                Step::Tell(_) => {}
                Step::Stop => panic!("stopped"),
            }
            assert!(calls < 100, "stored only {stored:?}");
        }
        assert_eq!(stored.last(), Some(&3), "the locked one came last, when it was free");
        assert!(stored.contains(&5), "and the refused one was stored in other words");
    }
}
