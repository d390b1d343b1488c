//! Stores outcomes, starts and hand-backs in batches, guarded by claim token, and tries again while the
//! database is away.
//!
//! After a commit the next batch waits a while for more outcomes, unless many are queued or a caller waits:
//! a steady stream shares transactions, and the first outcome after a rest is stored without delay.
//!
//! A batch that waits too long for a row that others hold fails. It is sent once more, and leaves the held
//! rows as they are: their outcomes join the queue again after a pause, and until all are stored no batch
//! waits.
//!
//! An outcome that cannot be stored, because the database refuses its text, makes its whole batch fail. Ever
//! smaller parts of the batch are tried until it fails alone. Then it is set aside: it is tried alone and at
//! its own pace, in turns with the others.
//!
//! What a run has said is stored before its outcome, so that who sees the outcome sees that, too. An outcome
//! does not wait for ever: what cannot be stored is given up.

mod awaited;
pub(crate) mod saying;
mod speakers;
pub(crate) mod time_limits;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam::channel::Sender;

use self::awaited::Awaited;
use self::saying::Speaker;
use self::speakers::Speakers;
use self::time_limits::{Limited, Limits, Stuck};
use crate::domain::attempt_span::AttemptSpan;
use crate::domain::{
    Boot, BoundOf, Error, ErrorKind, Event, ExecutionId, ExecutionState, LONGEST_ERROR, Millis, ScheduleId,
    Timestamp, payload,
};
use crate::machine::{Machine, Operation, Step};
use crate::members::OwnTokens;
use crate::store::rules::{ChangeKind, HeldRow};
use crate::store::said::Said;
use crate::store::{Applied, Change, ExecutionChange, Store};
use crate::time::{GATHER, Now, REST};

/// The most changes in one transaction.
const BATCH: usize = 1_000;
/// With this many queued the next batch does not wait for more.
const ENOUGH: usize = 64;
/// The number of parts in which a failed batch is tried again: the outcome that cannot be stored is alone
/// after few failures, each of which may have waited for a lock.
const PARTS: usize = 8;
/// The name of the calls in messages.
const STORING: &str = "storing outcomes";
const STORING_SAID: &str = "storing what handlers say";
const FIRST_PAUSE: Millis = 100;
const LONGEST_PAUSE: Millis = 2_000;

/// The reply to the thread or task that waits until a change is settled.
pub(crate) enum Reply {
    /// A thread, which waits for the result; or for the end of this sender, if nobody settles it any more.
    Thread(Sender<Applied>),
    /// A task: called with the result, or dropped.
    #[cfg(feature = "tokio")]
    Task(Box<dyn FnOnce(Applied) + Send>),
}

impl Reply {
    fn tell(self, settled: Applied) {
        match self {
            // The caller may have gone; the answer is in the database anyway.
            Self::Thread(reply) => drop(reply.send(settled)),
            #[cfg(feature = "tokio")]
            Self::Task(tell) => tell(settled),
        }
    }
}

pub(crate) enum CompleteInput {
    /// A handler with a time limit begins.
    Limit(Limited),
    /// A run has said something that is to be stored.
    Says(Speaker),
    /// Somebody waits for the ends of these.
    Await(Vec<ExecutionId>),
    /// Settle this and send the result to the caller, if one waits.
    Settle(ExecutionChange, Option<Reply>),
    /// A handler has ended whose own transaction may have stored its outcome.
    Conclude(Box<Conclusion>),
    /// Nothing more comes: stop once everything is settled.
    Close,
    /// The deadline has come: stop with what is settled.
    Abandon,
}

#[derive(Debug)]
pub(crate) enum CompleteOutput {
    /// Retries are stored; the earliest of the batch is due at this instant.
    Retry(Timestamp),
    /// The schedule of this name fires next about then: its run has ended.
    Planned(Arc<str>, Timestamp),
    /// An execution of a job with bounds has ended.
    Freed(BoundOf),
    /// The slot of this schedule is free; its name if another node may have queued what waits for it.
    SlotFreed(ScheduleId, Option<Arc<str>>),
    /// Executions of this node are free for others again.
    HandedBack,
    /// An occurrence of this schedule has failed for good, for which it may be paused.
    Failed(ScheduleId),
    /// The span of an attempt ends, with the state that is stored; without one if others have taken it. That
    /// calls the application's subscriber, for which no outcome may wait.
    SpanEnded(AttemptSpan, Option<ExecutionState>),
    Event(Event),
}

#[derive(Clone)]
pub(crate) struct SettleOp {
    pub changes: Vec<Change>,
    /// What happens to an execution whose row another transaction holds.
    pub held: HeldRow,
}

/// A store call of this machine.
#[derive(Clone)]
pub(crate) enum CompleteOp {
    Settle(SettleOp),
    Say(Arc<Vec<Said>>),
    /// Runs of these have ended, which somebody waits for.
    Announce(Vec<ExecutionId>),
}

impl Operation for CompleteOp {
    type Answer = Vec<Applied>;

    fn name(&self) -> &'static str {
        match self {
            Self::Settle(_) => STORING,
            Self::Say(_) => STORING_SAID,
            Self::Announce(_) => "announcing what has ended",
        }
    }

    fn perform(self, store: &dyn Store) -> Result<Vec<Applied>, Error> {
        match self {
            Self::Settle(SettleOp { changes, held: HeldRow::Wait }) => store.apply(&changes),
            Self::Settle(SettleOp { changes, held: HeldRow::Leave }) => store.apply_free(&changes),
            Self::Say(said) => store.say(&said),
            Self::Announce(ended) => store.announce_ended(&ended).map(|()| Vec::new()),
        }
    }
}

/// What becomes of an execution whose outcome its handler's own transaction may have stored: that is asked
/// first.
#[derive(Clone, Debug)]
pub(crate) struct Conclusion {
    /// Asks whether the transaction was committed, and is told so if it was.
    pub committed: (ExecutionChange, Event),
    /// Stored, and told, if it was not.
    pub undone: (ExecutionChange, Event),
    /// Ends with whichever it is.
    pub span: AttemptSpan,
}

/// The parts of a conclusion, in their order: each but the last is followed by the next if it is lost.
#[derive(Clone, Copy)]
enum Part {
    Asked,
    Undone,
    AskedAgain,
}

/// A change that is not stored yet.
struct Unsettled {
    change: ExecutionChange,
    reply: Option<Reply>,
    /// What it concludes, if it is a part of that.
    conclusion: Option<(Part, Box<Conclusion>)>,
    /// The number of successful calls when it was last refused alone.
    refused: Option<u64>,
    /// What is settled once this one is: a handler returned before it was stored that its time was up.
    then: Option<Box<Unsettled>>,
}

/// The settlements of a call, or the runs whose words it stores.
#[derive(Clone)]
pub(crate) enum Asked {
    /// This many from the head of the queue.
    Queue(usize),
    /// The first that was set aside.
    Aside,
    Said(Vec<ExecutionId>),
    Announced,
}

/// When the next call may come after one that failed.
struct Pace {
    hold: Boot,
    pause: Millis,
}

impl Pace {
    fn new() -> Self {
        Self { hold: Boot::MIN, pause: FIRST_PAUSE }
    }

    fn failed(&mut self, now: Now) {
        self.hold = now.boot + self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }
}

pub(crate) struct CompleteMachine {
    own_tokens: Arc<OwnTokens>,
    limits: Limits,
    /// Those whose handlers run on, with the count of their lane.
    stuck: HashMap<ExecutionId, Stuck>,
    queue: VecDeque<Unsettled>,
    /// Settlements that failed alone.
    aside: VecDeque<Unsettled>,
    /// Settlements of rows that others held when they were last tried.
    held: Vec<Unsettled>,
    /// Runs that have said something, each with its outcome if that waits.
    speakers: Speakers<Unsettled>,
    /// The executions whose ends somebody waits for.
    ends: Awaited,
    /// Whether the last call stored what runs say; settlements come next.
    was_said: bool,
    /// Whether the next batches leave held rows: one has waited for a row in vain.
    leaves_held: bool,
    /// Whether the last call tried one that was set aside; the next call is then the queue's.
    was_aside: bool,
    /// This many from the head of the queue failed together: at least one of them cannot be stored.
    suspects: usize,
    /// The number of suspects tried together.
    part: usize,
    /// The number of queued settlements whose caller waits.
    awaited: usize,
    /// A small batch waits for more until this.
    gather: Boot,
    pace: Pace,
    aside_pace: Pace,
    held_pace: Pace,
    /// The number of successful calls.
    succeeded: u64,
    outbox: VecDeque<CompleteOutput>,
    /// How many changes wait, for who looks from outside.
    unsettled: Arc<AtomicUsize>,
    closing: bool,
    abandoned: bool,
}

impl Unsettled {
    fn new(change: ExecutionChange) -> Self {
        Self { change, reply: None, conclusion: None, refused: None, then: None }
    }

    fn change(&self) -> Change {
        self.change.clone().into()
    }

    /// Notes that it failed alone; true if the next try writes another text.
    ///
    /// The database's encoding may lack characters of the text, so after a refusal of this row the next try
    /// writes it in ASCII. A refusal of unknown cause is the row's if others were stored since its last.
    fn failed_alone(&mut self, failure: ErrorKind, succeeded: u64) -> bool {
        let is_of_the_row = match failure {
            ErrorKind::Data => true,
            ErrorKind::Refused => self.refused.replace(succeeded).is_some_and(|then| then < succeeded),
            _ => false,
        };
        if !is_of_the_row {
            return false;
        }
        let replace = |text: &mut String, ascii: String| std::mem::replace(text, ascii) != *text;
        if let Some(error) = self.change.error_mut() {
            let ascii = in_ascii(error);
            return replace(error, ascii);
        }
        self.change.result_mut().is_some_and(|result| {
            let ascii = payload::in_ascii(result);
            replace(result, ascii)
        })
    }
}

/// The text with its non-ASCII characters escaped, cut to the longest text that may be stored.
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
    pub(crate) fn new(own_tokens: Arc<OwnTokens>) -> Self {
        Self {
            own_tokens,
            limits: Limits::default(),
            stuck: HashMap::new(),
            queue: VecDeque::new(),
            aside: VecDeque::new(),
            held: Vec::new(),
            speakers: Speakers::default(),
            ends: Awaited::default(),
            was_said: false,
            leaves_held: false,
            was_aside: false,
            suspects: 0,
            part: 0,
            awaited: 0,
            gather: Boot::MIN,
            pace: Pace::new(),
            aside_pace: Pace::new(),
            held_pace: Pace::new(),
            succeeded: 0,
            outbox: VecDeque::new(),
            unsettled: Arc::default(),
            closing: false,
            abandoned: false,
        }
    }

    /// How many changes wait to be stored, as of its last step.
    pub(crate) fn unsettled(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.unsettled)
    }

    /// The time of handlers that have not returned is up.
    fn time_out(&mut self, now: Now) {
        while let Some(Limited { end, change, stuck }) = self.limits.pop(now.boot) {
            if end.times_out() {
                stuck.add();
                self.stuck.insert(change.execution, stuck);
                let timed_out = change.attempt().cloned().map(|attempt| Event::TimedOut { attempt });
                self.outbox.extend(timed_out.map(CompleteOutput::Event));
                self.push(Unsettled::new(ExecutionChange { now: now.db, ..change }));
            }
        }
    }

    /// Settles what its caller says of an execution.
    fn receive_change(
        &mut self,
        change: ExecutionChange,
        reply: Option<Reply>,
        conclusion: Option<(Part, Box<Conclusion>)>,
        now: Now,
    ) {
        let limited = self.limits.remove(change.execution);
        if change.kind() == ChangeKind::Release {
            match limited {
                // It returned too late, and before anybody saw that its time was up.
                Some(it) => self.push(Unsettled::new(ExecutionChange { now: change.now, ..it.change })),
                None => self.stuck.remove(&change.execution).iter().for_each(Stuck::remove),
            }
            let is_before =
                |it: &Unsettled| it.change.kind() == ChangeKind::TimeOut && it.change.token == change.token;
            let mut unsettled = self.queue.iter_mut().chain(&mut self.aside).chain(&mut self.held);
            if let Some(before) = unsettled.find(|it| is_before(it)) {
                before.then = Some(Unsettled { reply, conclusion, ..Unsettled::new(change) }.into());
                return;
            }
        }
        self.push_end(Unsettled { reply, conclusion, ..Unsettled::new(change) }, now);
    }

    /// Queues what ends a run behind what that run has said.
    fn push_end(&mut self, it: Unsettled, now: Now) {
        let goes_on = matches!(it.change.kind(), ChangeKind::Start | ChangeKind::TimeOut);
        let next = if goes_on { Some(it) } else { self.speakers.keep(it.change.execution, it, now) };
        next.into_iter().for_each(|it| self.push(it));
    }

    fn push(&mut self, it: Unsettled) {
        self.awaited += usize::from(it.reply.is_some());
        self.queue.push_back(it);
    }

    /// Takes this many from the head of the queue.
    fn pop(&mut self, count: usize) -> Vec<Unsettled> {
        let popped: Vec<Unsettled> = self.queue.drain(..count).collect();
        self.awaited -= popped.iter().filter(|it| it.reply.is_some()).count();
        popped
    }

    fn failed(&mut self, asked: Asked, error: Error, now: Now) {
        let may_be_held = error.kind() == ErrorKind::Unavailable && !self.leaves_held;
        match &asked {
            Asked::Said(_) | Asked::Announced => {}
            Asked::Aside => self.aside_pace.failed(now),
            // The next call differs.
            Asked::Queue(_) if may_be_held => {}
            // The database works: it refused this text after reading it.
            Asked::Queue(_) if error.kind() == ErrorKind::Data => {}
            Asked::Queue(_) => self.pace.failed(now),
        }
        match asked {
            Asked::Said(_) | Asked::Announced => {}
            Asked::Queue(_) if may_be_held => self.leaves_held = true,
            Asked::Queue(count) if count > 1 => {
                (self.suspects, self.part) = (count, count.div_ceil(PARTS));
            }
            Asked::Queue(count) => {
                self.suspects = 0;
                if self.aside.is_empty() {
                    self.aside_pace.failed(now);
                }
                self.pop(count).into_iter().for_each(|it| self.set_aside(it, error.kind()));
            }
            Asked::Aside => {
                self.aside.pop_front().into_iter().for_each(|it| self.set_aside(it, error.kind()));
            }
        }
        let event = Event::StoreFailed { operation: STORING, error };
        self.outbox.push_back(CompleteOutput::Event(event));
    }

    /// Stores what runs have said.
    fn say(&mut self, now: Now) -> Step<(CompleteOp, Asked), CompleteOutput> {
        self.was_said = true;
        let said = self.speakers.due(now);
        let runs = said.iter().map(|it| it.execution).collect();
        Step::Do((CompleteOp::Say(Arc::new(said)), Asked::Said(runs)))
    }

    fn said(&mut self, runs: &[ExecutionId], answer: Result<Vec<Applied>, Error>, now: Now) {
        let ends = match answer {
            Ok(answers) => self.speakers.stored(runs, &answers, now),
            Err(error) => {
                let ends = self.speakers.all_failed(runs, error.kind(), now);
                let event = Event::StoreFailed { operation: STORING_SAID, error };
                self.outbox.push_back(CompleteOutput::Event(event));
                ends
            }
        };
        ends.into_iter().for_each(|it| self.push(it));
    }

    /// Sets a settlement aside that failed alone; one with another text joins the queue again.
    fn set_aside(&mut self, mut it: Unsettled, failure: ErrorKind) {
        if it.failed_alone(failure, self.succeeded) {
            self.push(it);
        } else {
            self.aside.push_back(it);
        }
    }

    /// Others hold the row of the execution, or of the schedule that its end plans: it is tried again later,
    /// with all that are held.
    fn hold_back(&mut self, it: Unsettled, now: Now) {
        if self.held.is_empty() {
            self.held_pace.failed(now);
        }
        self.leaves_held = true;
        self.held.push(it);
    }

    /// Queues held settlements again whose pause is over.
    fn try_held(&mut self, now: Now) {
        if now.boot >= self.held_at() {
            std::mem::take(&mut self.held).into_iter().for_each(|it| self.push(it));
        }
    }

    fn held_at(&self) -> Boot {
        if self.held.is_empty() { Boot::MAX } else { self.held_pace.hold }
    }

    /// Bytes of the texts that wait to be stored.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        let text = |it: &Unsettled| it.change.error().map_or(0, String::capacity);
        self.queue.iter().chain(&self.aside).chain(&self.held).map(text).sum()
    }

    /// Whether the next batch is sent without waiting for more.
    fn presses(&self) -> bool {
        self.awaited > 0 || self.suspects > 0 || self.queue.len() >= ENOUGH || self.closing
    }

    /// Takes the next step of a conclusion whose part was settled so; gives what is settled for good. A
    /// transaction that was still open when it was asked for may have been committed since: its execution is
    /// then not as the other part expects it, and the question is asked once more.
    fn concluded(&mut self, mut it: Unsettled, settled: Applied, now: Now) -> Option<Unsettled> {
        let Some((part, conclusion)) = it.conclusion.take() else { return Some(it) };
        match (part, settled) {
            (Part::Undone, Applied::Done) => {
                let Conclusion { undone: (change, event), span, .. } = *conclusion;
                self.outbox.push_back(CompleteOutput::SpanEnded(span, Some(change.becomes())));
                self.outbox.push_back(CompleteOutput::Event(event));
                Some(it)
            }
            (Part::Asked | Part::AskedAgain, Applied::Done) => {
                self.limits.remove(it.change.execution);
                self.stuck.remove(&it.change.execution).iter().for_each(Stuck::remove);
                let Conclusion { committed: (change, event), span, .. } = *conclusion;
                self.outbox.push_back(CompleteOutput::SpanEnded(span, Some(change.becomes())));
                self.outbox.push_back(CompleteOutput::Event(event));
                Some(it)
            }
            (Part::Asked, _) => {
                let change = conclusion.undone.0.clone();
                self.receive_change(change, None, Some((Part::Undone, conclusion)), now);
                None
            }
            (Part::Undone, _) => {
                let change = conclusion.committed.0.clone();
                let conclusion = Some((Part::AskedAgain, conclusion));
                self.push(Unsettled { conclusion, ..Unsettled::new(change) });
                None
            }
            (Part::AskedAgain, _) => {
                self.outbox.push_back(CompleteOutput::SpanEnded(conclusion.span, None));
                Some(it)
            }
        }
    }

    fn settled(&mut self, it: Unsettled, settled: Applied, now: Now) {
        let Some(it) = self.concluded(it, settled, now) else { return };
        let goes_on = matches!(it.change.kind(), ChangeKind::Start | ChangeKind::TimeOut);
        if settled == Applied::Lost && it.change.kind() != ChangeKind::Release {
            let revoked = it.change.attempt().cloned().map(|attempt| Event::Revoked { attempt });
            self.outbox.extend(revoked.map(CompleteOutput::Event));
        }
        if !goes_on || settled == Applied::Lost {
            self.own_tokens.remove(it.change.token);
            self.ends.end(it.change.execution);
            let bound_of = it.change.own.as_ref().and_then(|own| own.bound_of.clone());
            self.outbox.extend(bound_of.map(CompleteOutput::Freed));
        }
        if let Some((schedule, overlap)) = it.change.frees().filter(|_| settled.is_done()) {
            let queues = overlap.most_waiting() > 0;
            let name = it.change.attempt().filter(|_| queues).map(|it| Arc::clone(&it.schedule));
            if queues || self.own_tokens.are_slots_awaited() {
                self.outbox.push_back(CompleteOutput::SlotFreed(schedule, name));
            }
        }
        if let Some((end, attempt)) = it.change.plans().zip(it.change.attempt())
            && settled.is_done()
        {
            let due = it.change.now.saturating_add(end.delay);
            self.outbox.push_back(CompleteOutput::Planned(Arc::clone(&attempt.schedule), due));
        }
        let failed = it.change.fails().filter(|_| settled.is_done());
        self.outbox.extend(failed.map(CompleteOutput::Failed));
        if let Some(then) = it.then {
            self.push_end(*then, now);
        }
        if let Some(reply) = it.reply {
            reply.tell(settled);
        }
    }
}

impl Machine for CompleteMachine {
    type Op = CompleteOp;
    type Asked = Asked;
    type Input = CompleteInput;
    type Output = CompleteOutput;

    fn next(&mut self, now: Now) -> Step<(CompleteOp, Asked), CompleteOutput> {
        self.time_out(now);
        self.try_held(now);
        self.speakers.given_up(now).into_iter().for_each(|it| self.push(it));
        if let Some(output) = self.outbox.pop_front() {
            return Step::Tell(output);
        }
        let unsettled = self.queue.len() + self.aside.len() + self.held.len();
        self.unsettled.store(unsettled + self.speakers.outcomes(), Ordering::Relaxed);
        let is_settled = unsettled == 0 && self.speakers.is_empty();
        if self.closing {
            self.speakers.hasten(now);
        }
        if self.abandoned {
            return Step::Stop;
        }
        if let Some(ended) = self.ends.take_ended() {
            return Step::Do((CompleteOp::Announce(ended), Asked::Announced));
        }
        if self.closing && is_settled {
            return Step::Stop;
        }
        let gathered = if self.presses() { Boot::MIN } else { self.gather };
        let queue_at = if self.queue.is_empty() { Boot::MAX } else { self.pace.hold.max(gathered) };
        let aside_at = if self.aside.is_empty() { Boot::MAX } else { self.aside_pace.hold };
        let says_at = self.speakers.next_at();
        if now.boot >= says_at && (!self.was_said || now.boot < queue_at.min(aside_at)) {
            return self.say(now);
        }
        if now.boot < queue_at.min(aside_at) {
            let says_at = says_at.min(self.speakers.gives_up_at());
            let others_at = self.held_at().min(self.limits.next_at()).min(says_at);
            return Step::Wait(queue_at.min(aside_at).min(others_at));
        }
        self.was_said = false;
        let is_queues_turn = self.was_aside || now.boot < aside_at;
        self.was_aside = !is_queues_turn || now.boot < queue_at;
        if self.was_aside {
            let changes = self.aside.iter().take(1).map(Unsettled::change).collect();
            let settle = SettleOp { changes, held: HeldRow::Leave };
            return Step::Do((CompleteOp::Settle(settle), Asked::Aside));
        }
        let count =
            if self.suspects > 0 { self.part.min(self.suspects) } else { self.queue.len().min(BATCH) };
        let changes = self.queue.iter().take(count).map(Unsettled::change).collect();
        let held = if self.leaves_held { HeldRow::Leave } else { HeldRow::Wait };
        Step::Do((CompleteOp::Settle(SettleOp { changes, held }), Asked::Queue(count)))
    }

    fn done(&mut self, now: Now, asked: Asked, answer: Result<Vec<Applied>, Error>) {
        let asked = match asked {
            Asked::Said(runs) => return self.said(&runs, answer, now),
            // Whoever waits asks, too.
            Asked::Announced => return,
            asked => asked,
        };
        let settled = match answer {
            Ok(settled) => settled,
            Err(error) => return self.failed(asked, error, now),
        };
        self.succeeded += 1;
        let batch = match asked {
            Asked::Said(_) | Asked::Announced => Vec::new(),
            Asked::Queue(count) => {
                self.pace.pause = FIRST_PAUSE;
                // A batch this large was a backlog: outcomes come faster than they are stored.
                self.gather = now.boot + if count > ENOUGH { REST } else { GATHER };
                self.suspects = self.suspects.saturating_sub(count);
                if self.suspects == 0 && self.held.is_empty() && !settled.contains(&Applied::Held) {
                    (self.leaves_held, self.held_pace) = (false, Pace::new());
                }
                self.pop(count)
            }
            Asked::Aside => {
                let first = self.aside.pop_front();
                // The database was at fault rather than the row, and so perhaps with the others.
                self.aside_pace = Pace::new();
                std::mem::take(&mut self.aside).into_iter().for_each(|it| self.push(it));
                first.into_iter().collect()
            }
        };
        let stored = batch.iter().zip(&settled).filter(|(_, settled)| settled.is_done());
        let handed_back = stored.clone().any(|(it, _)| it.change.kind() == ChangeKind::GiveBack);
        self.outbox.extend(handed_back.then_some(CompleteOutput::HandedBack));
        let retries = stored.filter_map(|(it, _)| it.change.goes_on());
        self.outbox.extend(retries.min().map(CompleteOutput::Retry));
        for (it, settled) in batch.into_iter().zip(settled) {
            match settled {
                Applied::Held => self.hold_back(it, now),
                Applied::Done | Applied::Lost => self.settled(it, settled, now),
            }
        }
    }

    fn receive(&mut self, now: Now, input: CompleteInput) {
        match input {
            CompleteInput::Limit(limited) => self.limits.add(limited),
            CompleteInput::Await(executions) => self.ends.add(executions, now.boot),
            CompleteInput::Says(speaker) => self.speakers.add(speaker, now),
            CompleteInput::Settle(change, reply) => self.receive_change(change, reply, None, now),
            CompleteInput::Conclude(conclusion) => {
                let change = conclusion.committed.0.clone();
                let conclusion = Some((Part::Asked, conclusion));
                self.push_end(Unsettled { conclusion, ..Unsettled::new(change) }, now);
            }
            CompleteInput::Close => self.closing = true,
            CompleteInput::Abandon => self.abandoned = true,
        }
    }
}

#[cfg(test)]
mod tests;
