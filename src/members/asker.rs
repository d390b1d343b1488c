//! The asker: a machine that asks, for all who wait for the ends of executions, whether these have ended.
//!
//! Each execution is asked for again after a part of the time that it has been waited for, many in one call,
//! and calls are so far apart that their connection is idle most of the time.

use std::collections::{BTreeMap, BTreeSet};

use crossbeam::channel::Sender;

use crate::domain::{Boot, Error, ErrorKind, ExecutionId, Millis};
use crate::machine::{Machine, Operation, Step};
use crate::store::awaited::OpenOrEnded;
use crate::store::{Result, Store};
use crate::time::Now;

/// The most executions of one call.
const BATCH: usize = 1_000;
/// An execution is asked for again after this part of the time for which it has been waited for,
const PART: Millis = 8;
/// but no sooner,
const SOONEST: Millis = 25;
/// and no later than this,
const LATEST: Millis = 1_000;
/// or this while nodes tell of ends: asking then finds only what nobody has heard of.
const LATEST_OF_TOLD: Millis = 5_000;
/// Nodes are told again of what is waited for so long after they were told.
const ANNOUNCED: Millis = 30_000;
/// Calls are at least so far apart, and so many times as long as the last one took: several are waited for
/// over one connection, which has others to serve.
const REST: Millis = 10;
const IDLE: Millis = 4;
/// The pause behind the first failure; each further one is twice as long as the one before,
const PAUSE: Millis = 100;
/// up to this.
const LONGEST_PAUSE: Millis = 2_000;

/// Without a waiter it stays for so long: many wait for one execution after the other.
const LINGERS: Millis = 5_000;

/// Whoever waits: told that the execution has ended, or why nobody can tell.
pub(crate) enum Waiter {
    Thread(Sender<Result<()>>),
    /// A task: called with the answer, or dropped.
    #[cfg(feature = "tokio")]
    Task(Box<dyn FnOnce(Result<()>) + Send>),
}

impl Waiter {
    fn tell(self, ended: Result<()>) {
        match self {
            // Who has given up needs no answer.
            Self::Thread(waiter) => drop(waiter.send(ended)),
            #[cfg(feature = "tokio")]
            Self::Task(tell) => tell(ended),
        }
    }
}

/// Whether a failure may be over in a while: the database may be away, and whoever waits has a time of its
/// own.
pub(crate) fn is_waited_out(error: &Error) -> bool {
    error.is_retryable() || error.is_unknown()
}

/// Tells those apart who wait for one execution.
pub(crate) type WaiterId = u64;

pub(crate) enum AskerInput {
    Wait(ExecutionId, WaiterId, Waiter),
    /// It waits no longer.
    Leave(ExecutionId, WaiterId),
    /// From now on nodes tell of the ends that somebody waits for, or they do so no more.
    Told(bool),
    /// Runs of these have ended.
    Ended(Vec<ExecutionId>),
    Stop,
}

pub(crate) enum AskerOutput {
    /// Nobody has waited for a while.
    Idle,
}

/// A store call: about executions of the application.
#[derive(Clone)]
pub(crate) enum AskOp {
    /// Whether these have ended.
    Ask(String, Vec<ExecutionId>),
    /// Somebody waits for the ends of these.
    Announce(String, Vec<ExecutionId>),
}

impl Operation for AskOp {
    type Answer = Vec<(ExecutionId, OpenOrEnded)>;

    fn name(&self) -> &'static str {
        match self {
            Self::Ask(..) => "asking whether executions have ended",
            Self::Announce(..) => "announcing who waits",
        }
    }

    fn perform(self, store: &dyn Store) -> Result<Self::Answer> {
        match self {
            Self::Ask(application, executions) => store.open_or_ended(&application, &executions),
            Self::Announce(application, executions) => {
                store.announce_awaited(&application, &executions).map(|()| Vec::new())
            }
        }
    }
}

/// An execution that somebody waits for.
struct Awaited {
    since: Boot,
    /// When it is asked for next.
    at: Boot,
    /// The attempt at it that was open when that was last asked, whose end a node tells of.
    attempt: ExecutionId,
    /// When nodes were last told of that.
    announced: Option<Boot>,
    waiters: BTreeMap<WaiterId, Waiter>,
}

pub(crate) struct AskerMachine {
    application: String,
    awaited: BTreeMap<ExecutionId, Awaited>,
    by_time: BTreeSet<(Boot, ExecutionId)>,
    /// The executions that are waited for, by their open attempts.
    by_attempt: BTreeSet<(ExecutionId, ExecutionId)>,
    /// Those of which nodes are to be told.
    unannounced: BTreeSet<ExecutionId>,
    /// Whether nodes tell of ends.
    is_told: bool,
    /// When nobody has waited for a while, if nobody waits.
    idle_at: Option<Boot>,
    /// No call begins before this.
    hold: Boot,
    /// The pause behind the next failure.
    pause: Millis,
    stopping: bool,
}

impl AskerMachine {
    pub(crate) fn new(application: String) -> Self {
        Self {
            application,
            awaited: BTreeMap::new(),
            by_time: BTreeSet::new(),
            by_attempt: BTreeSet::new(),
            unannounced: BTreeSet::new(),
            is_told: false,
            idle_at: None,
            hold: Boot::MIN,
            pause: PAUSE,
            stopping: false,
        }
    }

    fn ask_at(&mut self, execution: ExecutionId, at: Boot) {
        if let Some(awaited) = self.awaited.get_mut(&execution) {
            self.by_time.remove(&(awaited.at, execution));
            awaited.at = at;
            self.by_time.insert((at, execution));
        }
    }

    /// It is asked for again later: this attempt at it is open.
    fn goes_on(&mut self, execution: ExecutionId, attempt: ExecutionId, now: Now) {
        let Some(awaited) = self.awaited.get_mut(&execution) else { return };
        if awaited.attempt != attempt {
            self.by_attempt.remove(&(awaited.attempt, execution));
            self.by_attempt.insert((attempt, execution));
            (awaited.attempt, awaited.announced) = (attempt, None);
        }
        if awaited.announced.is_none_or(|at| now.boot >= at + ANNOUNCED) {
            self.unannounced.insert(execution);
        }
        let latest = if self.is_told { LATEST_OF_TOLD } else { LATEST };
        let pause = ((now.boot - awaited.since) / PART).clamp(SOONEST, latest);
        self.ask_at(execution, now.boot + pause);
    }

    /// Tells nodes for which attempts somebody waits.
    fn announce(&mut self, now: Now) -> Option<AskOp> {
        if !self.is_told || now.boot < self.hold {
            return None;
        }
        let mut attempts = Vec::new();
        while let Some(execution) = self.unannounced.pop_first() {
            let Some(awaited) = self.awaited.get_mut(&execution) else { continue };
            awaited.announced = Some(now.boot);
            attempts.push(awaited.attempt);
            if attempts.len() == BATCH {
                break;
            }
        }
        (!attempts.is_empty()).then(|| AskOp::Announce(self.application.clone(), attempts))
    }

    fn remove(&mut self, execution: ExecutionId) -> Option<Awaited> {
        let awaited = self.awaited.remove(&execution)?;
        self.by_time.remove(&(awaited.at, execution));
        self.by_attempt.remove(&(awaited.attempt, execution));
        self.unannounced.remove(&execution);
        Some(awaited)
    }

    fn tell(&mut self, execution: ExecutionId, ended: &Result<()>) {
        let waiters = self.remove(execution).map(|it| it.waiters).unwrap_or_default();
        waiters.into_values().for_each(|waiter| waiter.tell(ended.clone()));
    }
}

/// What the machine keeps of a call: for which executions, and since when.
pub(crate) struct Asked {
    executions: Vec<ExecutionId>,
    at: Boot,
}

impl Machine for AskerMachine {
    type Op = AskOp;
    type Asked = Asked;
    type Input = AskerInput;
    type Output = AskerOutput;

    fn next(&mut self, now: Now) -> Step<(AskOp, Asked), AskerOutput> {
        if self.stopping {
            return Step::Stop;
        }
        if self.idle_at.is_some_and(|at| at <= now.boot) {
            self.idle_at = None;
            return Step::Tell(AskerOutput::Idle);
        }
        if let Some(op) = self.announce(now) {
            return Step::Do((op, Asked { executions: Vec::new(), at: now.boot }));
        }
        let next_at = self.by_time.first().map_or(Boot::MAX, |(at, _)| (*at).max(self.hold));
        if now.boot < next_at {
            return Step::Wait(next_at.min(self.idle_at.unwrap_or(Boot::MAX)));
        }
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now.boot);
        let executions: Vec<ExecutionId> = due.map(|(_, execution)| *execution).take(BATCH).collect();
        let op = AskOp::Ask(self.application.clone(), executions.clone());
        Step::Do((op, Asked { executions, at: now.boot }))
    }

    fn done(&mut self, now: Now, asked: Asked, answer: Result<Vec<(ExecutionId, OpenOrEnded)>>) {
        if asked.executions.is_empty() {
            // If it was not told: asking is enough.
            return;
        }
        let took = now.boot - asked.at;
        self.hold = now.boot + (IDLE * took).max(REST);
        match answer {
            Ok(known) => {
                self.pause = PAUSE;
                let known: BTreeMap<ExecutionId, OpenOrEnded> = known.into_iter().collect();
                for execution in asked.executions {
                    match known.get(&execution) {
                        Some(OpenOrEnded::Open(attempt)) => self.goes_on(execution, *attempt, now),
                        Some(OpenOrEnded::Ended) => self.tell(execution, &Ok(())),
                        None => {
                            let message = format!("no execution {execution}, or its retention is over");
                            self.tell(execution, &Err(Error::new(ErrorKind::NotFound, message)));
                        }
                    }
                }
            }
            Err(error) if is_waited_out(&error) => {
                self.hold = now.boot + self.pause;
                self.pause = (2 * self.pause).min(LONGEST_PAUSE);
            }
            Err(error) => {
                let error = Err(error);
                asked.executions.into_iter().for_each(|execution| self.tell(execution, &error));
            }
        }
    }

    fn receive(&mut self, now: Now, input: AskerInput) {
        match input {
            AskerInput::Wait(execution, id, waiter) => {
                self.idle_at = None;
                if !self.awaited.contains_key(&execution) {
                    self.by_attempt.insert((execution, execution));
                }
                self.unannounced.insert(execution);
                let fresh = || {
                    let (attempt, waiters) = (execution, BTreeMap::new());
                    Awaited { since: now.boot, at: now.boot, attempt, announced: None, waiters }
                };
                self.awaited.entry(execution).or_insert_with(fresh).waiters.insert(id, waiter);
                self.ask_at(execution, now.boot);
            }
            AskerInput::Leave(execution, id) => {
                let awaited = self.awaited.get_mut(&execution);
                let is_last =
                    awaited.is_some_and(|it| it.waiters.remove(&id).is_some() && it.waiters.is_empty());
                if is_last {
                    self.remove(execution);
                }
                self.idle_at = self.awaited.is_empty().then_some(now.boot + LINGERS);
            }
            AskerInput::Told(is_told) => {
                self.is_told = is_told;
                self.unannounced.extend(self.awaited.keys());
            }
            AskerInput::Ended(attempts) => {
                for attempt in attempts {
                    let awaited = (attempt, ExecutionId(i64::MIN))..=(attempt, ExecutionId(i64::MAX));
                    let awaited: Vec<_> = self.by_attempt.range(awaited).map(|(_, it)| *it).collect();
                    awaited.into_iter().for_each(|execution| self.ask_at(execution, now.boot));
                }
            }
            AskerInput::Stop => self.stopping = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam::channel::{Receiver, bounded};

    use super::*;
    use crate::domain::Timestamp;
    use crate::machine::Stepped;

    fn at(boot: Millis) -> Now {
        Now { db: Timestamp::at(boot), boot: Boot::at(boot), apart: 0 }
    }

    fn open(attempt: i64) -> OpenOrEnded {
        OpenOrEnded::Open(ExecutionId(attempt))
    }

    fn machine() -> Stepped<AskerMachine> {
        Stepped::new(AskerMachine::new("shop".to_owned()))
    }

    fn wait(
        machine: &mut Stepped<AskerMachine>,
        now: Millis,
        execution: i64,
        id: WaiterId,
    ) -> Receiver<Result<()>> {
        let (tell, told) = bounded(1);
        machine.receive(at(now), AskerInput::Wait(ExecutionId(execution), id, Waiter::Thread(tell)));
        told
    }

    /// The executions that it asks for now; or when it asks next.
    fn asks(machine: &mut Stepped<AskerMachine>, now: Millis) -> std::result::Result<Vec<i64>, Millis> {
        match machine.next(at(now)) {
            Step::Do(AskOp::Ask(_, executions)) => Ok(executions.iter().map(|it| it.0).collect()),
            Step::Do(AskOp::Announce(..)) => panic!("nobody tells"),
            Step::Wait(until) => Err(until.millis()),
            Step::Tell(_) | Step::Stop => panic!("it does not ask"),
        }
    }

    fn answer(machine: &mut Stepped<AskerMachine>, now: Millis, known: &[(i64, OpenOrEnded)]) {
        let known = known.iter().map(|(id, how)| (ExecutionId(*id), *how)).collect();
        machine.done(at(now), Ok(known));
    }

    #[test]
    fn all_are_asked_for_in_one_call_and_told() {
        let mut machine = machine();
        let [a, b, c] = [(1, 10), (2, 11), (1, 12)].map(|(of, id)| wait(&mut machine, 0, of, id));
        let unknown = wait(&mut machine, 0, 3, 13);
        assert_eq!(asks(&mut machine, 0), Ok(vec![1, 2, 3]));
        answer(&mut machine, 1, &[(1, OpenOrEnded::Ended), (2, open(2))]);
        assert!(a.try_recv().unwrap().is_ok() && c.try_recv().unwrap().is_ok() && b.is_empty());
        assert_eq!(unknown.try_recv().unwrap().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(asks(&mut machine, 1), Err(26));
        assert_eq!(asks(&mut machine, 26), Ok(vec![2]));
    }

    #[test]
    fn the_longer_one_is_waited_for_the_seldomer_it_is_asked_for() {
        let (mut machine, mut now, mut calls) = (machine(), 0, Vec::new());
        let _told = wait(&mut machine, 0, 1, 1);
        while now < 60_000 {
            match asks(&mut machine, now) {
                Ok(_) => {
                    calls.push(now);
                    answer(&mut machine, now, &[(1, open(1))]);
                }
                Err(next) => now = next,
            }
        }
        assert!((60..120).contains(&calls.len()), "{}", calls.len());
        assert!(calls[1] <= 25 && calls.windows(2).all(|it| it[1] - it[0] <= 1_000), "{calls:?}");
        let late = |it: &&[Millis]| it[1] - it[0] > 50 + it[0] / 4;
        assert!(!calls.windows(2).any(|it| late(&it)), "{calls:?}");
    }

    #[test]
    fn a_slow_database_is_asked_seldom() {
        let mut machine = machine();
        let _told = wait(&mut machine, 0, 1, 1);
        assert!(asks(&mut machine, 0).is_ok());
        answer(&mut machine, 500, &[(1, open(1))]);
        let _another = wait(&mut machine, 501, 2, 2);
        assert_eq!(asks(&mut machine, 501), Err(2_500));
        assert_eq!(asks(&mut machine, 2_500), Ok(vec![2, 1]));
    }

    #[test]
    fn thousands_are_asked_for_in_pages() {
        let mut machine = machine();
        let _told: Vec<_> = (0..2_500).map(|n| wait(&mut machine, 0, n, 1)).collect();
        let mut sizes = Vec::new();
        let mut now = 0;
        while sizes.len() < 3 {
            match asks(&mut machine, now) {
                Ok(asked) => {
                    sizes.push(asked.len());
                    let open: Vec<_> = asked.into_iter().map(|it| (it, open(it))).collect();
                    answer(&mut machine, now, &open);
                }
                Err(next) => now = next,
            }
        }
        assert_eq!(sizes, [1_000, 1_000, 500]);
    }

    #[test]
    fn a_database_that_is_away_is_asked_again_and_one_that_never_answers_is_told_of() {
        let mut machine = machine();
        let told = wait(&mut machine, 0, 1, 1);
        for (now, next) in [(0, 100), (100, 300), (300, 700)] {
            assert!(asks(&mut machine, now).is_ok());
            machine.done(at(now), Err(Error::new(ErrorKind::Unavailable, "away")));
            assert_eq!(asks(&mut machine, now), Err(next));
        }
        assert!(asks(&mut machine, 700).is_ok() && told.is_empty());
        machine.done(at(700), Err(Error::new(ErrorKind::Schema, "no such table")));
        assert_eq!(told.try_recv().unwrap().unwrap_err().kind(), ErrorKind::Schema);
    }

    #[test]
    fn who_has_left_is_not_asked_for() {
        let mut machine = machine();
        let _told = [1, 2].map(|id| wait(&mut machine, 0, 7, id));
        machine.receive(at(0), AskerInput::Leave(ExecutionId(7), 1));
        assert!(asks(&mut machine, 0).is_ok());
        answer(&mut machine, 0, &[(7, open(7))]);
        machine.receive(at(1), AskerInput::Leave(ExecutionId(7), 2));
        assert_eq!(asks(&mut machine, 1_000), Err(1 + LINGERS));
        assert!(matches!(machine.next(at(1 + LINGERS)), Step::Tell(AskerOutput::Idle)));
        assert_eq!(asks(&mut machine, 1 + LINGERS), Err(Boot::MAX.millis()));
        machine.receive(at(1_000), AskerInput::Stop);
        assert!(matches!(machine.next(at(1_000)), Step::Stop));
    }

    /// The attempts of which it tells nodes now, if it does.
    fn announces(machine: &mut Stepped<AskerMachine>, now: Millis) -> Vec<i64> {
        match machine.next(at(now)) {
            Step::Do(AskOp::Announce(_, attempts)) => {
                machine.done(at(now), Ok(Vec::new()));
                attempts.iter().map(|it| it.0).collect()
            }
            _ => panic!("it announces nothing"),
        }
    }

    #[test]
    fn nodes_hear_first_and_who_hears_of_an_end_asks_at_once() {
        let mut machine = machine();
        machine.receive(at(0), AskerInput::Told(true));
        let told = wait(&mut machine, 0, 1, 1);
        assert_eq!(announces(&mut machine, 0), [1]);
        assert_eq!(asks(&mut machine, 0), Ok(vec![1]));
        answer(&mut machine, 0, &[(1, open(1))]);
        for now in [25, 50, 5_000, 5_625] {
            assert_eq!(asks(&mut machine, now), Ok(vec![1]));
            answer(&mut machine, now, &[(1, open(1))]);
        }
        machine.receive(at(5_700), AskerInput::Ended([9, 1].map(ExecutionId).to_vec()));
        assert_eq!(asks(&mut machine, 5_700), Ok(vec![1]));
        answer(&mut machine, 5_701, &[(1, OpenOrEnded::Ended)]);
        assert!(told.try_recv().unwrap().is_ok());
    }

    /// And the next attempt's end is awaited in the place of the first one's.
    #[test]
    fn nodes_are_told_of_the_next_attempt_and_again_after_a_while() {
        let mut machine = machine();
        machine.receive(at(0), AskerInput::Told(true));
        let _told = wait(&mut machine, 0, 1, 1);
        assert_eq!(announces(&mut machine, 0), [1]);
        assert!(asks(&mut machine, 0).is_ok());
        answer(&mut machine, 0, &[(1, open(4))]);
        assert_eq!(announces(&mut machine, 10), [4]);
        machine.receive(at(20), AskerInput::Ended(vec![ExecutionId(4)]));
        let (mut now, mut told) = (20, Vec::new());
        while now < 100_000 {
            match machine.next(at(now)) {
                Step::Do(AskOp::Announce(_, attempts)) => {
                    assert_eq!(attempts, [ExecutionId(4)]);
                    told.push(now);
                    machine.done(at(now), Ok(Vec::new()));
                }
                Step::Do(AskOp::Ask(..)) => answer(&mut machine, now, &[(1, open(4))]),
                Step::Wait(until) => now = until.millis(),
                Step::Tell(_) | Step::Stop => panic!("it ends"),
            }
        }
        assert!((2..=3).contains(&told.len()), "{told:?}");
        machine.receive(at(now), AskerInput::Told(false));
        assert!(asks(&mut machine, now + LATEST_OF_TOLD).is_ok(), "nobody would hear it");
    }

    #[test]
    fn nothing_is_left_of_who_waited() {
        let mut machine = machine();
        let _first = wait(&mut machine, 0, 1, 10);
        assert_eq!(asks(&mut machine, 0), Ok(vec![1]));
        answer(&mut machine, 1, &[(1, open(5))]);
        // Its first attempt has failed, and another waits for it.
        let _second = wait(&mut machine, 2, 1, 11);
        assert_eq!(asks(&mut machine, 50), Ok(vec![1]));
        answer(&mut machine, 51, &[(1, OpenOrEnded::Ended)]);
        assert!(machine.machine.awaited.is_empty() && machine.machine.by_attempt.is_empty());
    }
}
