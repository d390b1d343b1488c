//! Runs a machine on a thread: waits for its next instant or for a message, and performs its operations
//! under a watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, never, unbounded};

use crate::domain::user_code::guarded;
use crate::domain::{Error, ErrorKind, Millis};
use crate::machine::store_calls::StoreCalls;
use crate::machine::{Machine, Operation, Step};
use crate::store::Store;
use crate::time::{Clock, MOST_ABANDONED, boot, span};

/// Is told which machine panicked and what it said.
pub(crate) type OnPanic = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// The surroundings that all drivers of a scheduler share.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub clock: Arc<Clock>,
    pub store: Arc<dyn Store>,
    /// The watchdog's limit for one store call.
    pub call: Millis,
    pub abandoned: Arc<AtomicUsize>,
    pub calls: Arc<StoreCalls>,
    /// Called when a machine panicked, with its name and what it said: the loop has ended.
    pub panicked: OnPanic,
}

/// A running machine.
pub(crate) struct Driver {
    ended: Receiver<()>,
    panicked: Arc<AtomicBool>,
}

/// How a machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    InOrder,
    Panicked,
}

/// Waits in turns, for as long as `left` says each time: a turn may be shorter than what is left, and a
/// machine that sleeps may stretch it. Nothing once nothing is left.
pub(crate) fn wait_in_turns<T>(
    left: impl Fn() -> Duration,
    mut wait: impl FnMut(Duration) -> Option<T>,
) -> Option<T> {
    loop {
        let turn = left();
        let ended = wait(turn);
        if ended.is_some() || turn.is_zero() {
            return ended;
        }
    }
}

impl Driver {
    /// Waits until the machine has ended; nothing if it has not within that time.
    pub(crate) fn join(&self, within: Duration) -> Option<Ended> {
        match self.ended.recv_timeout(within) {
            Err(RecvTimeoutError::Disconnected) if self.panicked.load(Ordering::Acquire) => {
                Some(Ended::Panicked)
            }
            Err(RecvTimeoutError::Disconnected) => Some(Ended::InOrder),
            Ok(()) | Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

/// Inboxes first, so that machines can be wired to each other before any runs.
pub(crate) fn inbox<Input>() -> (Sender<Input>, Receiver<Input>) {
    unbounded()
}

/// Starts `machine` on a thread called `name`; its outputs go to `tell`.
pub(crate) fn drive<M: Machine>(
    name: &str,
    machine: M,
    messages: Receiver<M::Input>,
    surroundings: &Surroundings,
    tell: impl FnMut(M::Output) + Send + 'static,
) -> Result<Driver, Error> {
    let (alive, ended) = bounded(0);
    let surroundings = surroundings.clone();
    let hands = Hands::new(name, &surroundings);
    let known_as = name.to_owned();
    let panicked = Arc::new(AtomicBool::new(false));
    let panics = Arc::clone(&panicked);
    spawn(name, move || {
        if let Err(said) = guarded(|| run(machine, &messages, &surroundings.clock, hands, tell)) {
            panics.store(true, Ordering::Release);
            (surroundings.panicked)(&known_as, &said);
        }
        drop::<Sender<()>>(alive);
    })?;
    Ok(Driver { ended, panicked })
}

fn run<M: Machine>(
    mut machine: M,
    messages: &Receiver<M::Input>,
    clock: &Clock,
    mut hands: Hands<M::Op>,
    mut tell: impl FnMut(M::Output),
) {
    // Once every sender is gone no message comes any more, but the machine's own time goes on.
    let silence = never();
    let mut messages = messages;
    loop {
        while let Ok(input) = messages.try_recv() {
            machine.receive(clock.now(), input);
        }
        match machine.next(clock.now()) {
            Step::Do((op, asked)) => {
                let (operation, sent) = (op.name(), boot());
                let answer = hands.perform(op, || {
                    std::iter::from_fn(|| machine.meanwhile()).for_each(&mut tell);
                });
                hands.surroundings.calls.ended(operation, (boot() - sent).duration(), answer.is_err());
                machine.done(clock.now(), asked, answer);
            }
            Step::Tell(output) => tell(output),
            Step::Wait(until) => {
                let wait = clock.until_boot(until);
                match messages.recv_timeout(wait) {
                    Ok(input) => machine.receive(clock.now(), input),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => messages = &silence,
                }
            }
            Step::Stop => return,
        }
    }
}

/// The error of a call that was abandoned after `limit`.
pub(crate) fn unanswered(what: &str, limit: Duration) -> Error {
    Error::new(ErrorKind::Unknown, format!("no answer within {limit:?}; the call was abandoned")).during(what)
}

/// Performs store calls on a thread of their own. A call that overruns is left behind with its thread and
/// connection, and its result is unknown.
struct Hands<Op: Operation> {
    name: String,
    surroundings: Surroundings,
    worker: Option<Worker<Op>>,
}

struct Worker<Op: Operation> {
    orders: Sender<Op>,
    answers: Receiver<Result<Op::Answer, Error>>,
}

impl<Op: Operation> Hands<Op> {
    fn new(name: &str, surroundings: &Surroundings) -> Self {
        Self { name: format!("{name}-store"), surroundings: surroundings.clone(), worker: None }
    }

    /// `meanwhile` runs once the call is under way.
    fn perform(&mut self, op: Op, meanwhile: impl FnOnce()) -> Result<Op::Answer, Error> {
        let what = op.name();
        let limit = span(self.surroundings.call);
        // Kept for the next call if it answers this one.
        let worker = self.worker.take().map_or_else(|| self.hire(), Ok)?;
        if worker.orders.send(op).is_err() {
            return Err(Error::new(ErrorKind::System, "the store's thread is gone").during(what));
        }
        meanwhile();
        match worker.answers.recv_timeout(limit) {
            Ok(answer) => {
                self.worker = Some(worker);
                answer.map_err(|error| error.during(what))
            }
            Err(RecvTimeoutError::Timeout) => {
                self.surroundings.abandoned.fetch_add(1, Ordering::Relaxed);
                Err(unanswered(what, limit))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::new(ErrorKind::Unknown, "the store call panicked").during(what))
            }
        }
    }

    fn hire(&self) -> Result<Worker<Op>, Error> {
        if self.surroundings.abandoned.load(Ordering::Relaxed) >= MOST_ABANDONED {
            let message =
                format!("{MOST_ABANDONED} store calls hang already; nothing new is tried until one returns");
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let (orders, todo) = bounded::<Op>(1);
        // The worker's answer to an abandoned call finds nobody: that is how it learns that it was given up.
        let (reply, answers) = bounded(0);
        let store = Arc::clone(&self.surroundings.store);
        let abandoned = Arc::clone(&self.surroundings.abandoned);
        spawn(&self.name, move || {
            for op in todo {
                if reply.send(op.perform(store.as_ref())).is_err() {
                    // An abandoned call has returned. A loop that has ended counted none.
                    abandoned
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1))
                        .ok();
                }
            }
        })?;
        Ok(Worker { orders, answers })
    }
}

#[expect(clippy::disallowed_methods, reason = "the driver and the pool are the two that spawn")]
pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    #[cfg(test)]
    refused::ask(name)?;
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map(drop).map_err(|error| {
        let message = format!("cannot start the thread {name}");
        Error::new(ErrorKind::System, message).because(Arc::new(error))
    })
}

/// A system that has no thread left for some of those this thread asks for.
#[cfg(test)]
pub(crate) mod refused {
    use std::cell::Cell;

    use super::{Error, ErrorKind};

    thread_local!(static NAME: Cell<&'static str> = const { Cell::new("") });

    /// Refuses threads of this name while `work` runs.
    pub(crate) fn during<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
        NAME.set(name);
        let result = work();
        NAME.set("");
        result
    }

    pub(super) fn ask(name: &str) -> Result<(), Error> {
        let refused = NAME.get() == name;
        if refused { Err(Error::new(ErrorKind::System, format!("no thread for {name}"))) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Mutex;
    use std::sync::mpsc;

    use super::*;
    use crate::domain::{Boot, Timestamp};
    use crate::store::memory::MemoryStore;
    use crate::time::Now;

    const SOON: Duration = Duration::from_secs(20);

    /// A store call that returns once it is told to; at once without a gate.
    #[derive(Clone)]
    struct Call(Option<Receiver<()>>);

    impl Operation for Call {
        type Answer = ();

        fn name(&self) -> &'static str {
            "a call"
        }

        fn perform(self, _store: &dyn Store) -> Result<(), Error> {
            if let Some(gate) = self.0 {
                gate.recv().ok();
            }
            Ok(())
        }
    }

    /// Performs what it is sent, tells each time that it does, and says how it ended.
    struct Caller {
        todo: Vec<Call>,
        /// The number of calls asked for.
        asked: usize,
        to_tell: usize,
        ended: mpsc::Sender<Result<(), ErrorKind>>,
        stopping: bool,
    }

    enum Told {
        Perform(Call),
        Panic,
        Stop,
    }

    impl Machine for Caller {
        type Op = Call;
        type Asked = usize;
        type Input = Told;
        type Output = ();

        fn next(&mut self, _now: Now) -> Step<(Call, usize), ()> {
            match self.todo.pop() {
                Some(call) => {
                    self.to_tell += 1;
                    self.asked += 1;
                    Step::Do((call, self.asked))
                }
                None if self.stopping => Step::Stop,
                None => Step::Wait(Boot::MAX),
            }
        }

        fn meanwhile(&mut self) -> Option<()> {
            self.to_tell = self.to_tell.checked_sub(1)?;
            Some(())
        }

        fn done(&mut self, _now: Now, asked: usize, answer: Result<(), Error>) {
            assert_eq!(asked, self.asked, "what it handed over with another call");
            self.ended.send(answer.map_err(|error| error.kind())).unwrap();
        }

        fn receive(&mut self, _now: Now, order: Told) {
            match order {
                Told::Perform(call) => self.todo.push(call),
                Told::Panic => panic!("as the test asked"),
                Told::Stop => self.stopping = true,
            }
        }
    }

    struct Bench {
        driver: Driver,
        orders: Sender<Told>,
        answers: mpsc::Receiver<Result<(), ErrorKind>>,
        told: mpsc::Receiver<()>,
        panics: mpsc::Receiver<String>,
    }

    fn bench() -> Bench {
        bench_of(50)
    }

    /// Calls may take so long.
    fn bench_of(call: Millis) -> Bench {
        let (answer, answers) = mpsc::channel();
        let (say, told) = mpsc::channel();
        let (tell, panics) = mpsc::channel();
        let tell = Mutex::new(tell);
        let surroundings = Surroundings {
            clock: Arc::new(Clock::default()),
            store: Arc::new(MemoryStore::new(Timestamp::at(0))),
            call,
            abandoned: Arc::new(AtomicUsize::new(0)),
            calls: Arc::default(),
            panicked: Arc::new(move |name, said| {
                tell.lock().unwrap().send(format!("{name}: {said}")).unwrap()
            }),
        };
        let machine = Caller { todo: Vec::new(), asked: 0, to_tell: 0, ended: answer, stopping: false };
        let tell = move |()| say.send(()).unwrap_or_default();
        let (orders, messages) = inbox();
        let driver = drive("test", machine, messages, &surroundings, tell).unwrap();
        Bench { driver, orders, answers, told, panics }
    }

    #[test]
    fn what_is_to_be_told_is_told_while_the_call_is_under_way() {
        let bench = bench_of(600_000);
        let (open, gate) = bounded(0);
        bench.orders.send(Told::Perform(Call(Some(gate)))).unwrap();
        assert_eq!(bench.told.recv_timeout(SOON), Ok(()));
        drop(open);
        assert_eq!(bench.answers.recv_timeout(SOON), Ok(Ok(())));
    }

    #[test]
    fn a_call_that_hangs_is_given_up_and_its_result_unknown() {
        let bench = bench();
        let (_open, gate) = bounded(0);
        bench.orders.send(Told::Perform(Call(Some(gate)))).unwrap();
        assert_eq!(bench.answers.recv_timeout(SOON), Ok(Err(ErrorKind::Unknown)));
        bench.orders.send(Told::Perform(Call(None))).unwrap();
        assert_eq!(bench.answers.recv_timeout(SOON), Ok(Ok(())), "the next one has a thread of its own");
    }

    #[test]
    fn calls_that_hang_are_bounded_and_come_back() {
        let bench = bench();
        let (open, gate) = bounded(0);
        for _ in 0..MOST_ABANDONED {
            bench.orders.send(Told::Perform(Call(Some(gate.clone())))).unwrap();
            assert_eq!(bench.answers.recv_timeout(SOON), Ok(Err(ErrorKind::Unknown)));
        }
        bench.orders.send(Told::Perform(Call(None))).unwrap();
        assert_eq!(bench.answers.recv_timeout(SOON), Ok(Err(ErrorKind::Unavailable)), "nothing new is tried");
        drop(open);
        loop {
            bench.orders.send(Told::Perform(Call(None))).unwrap();
            if bench.answers.recv_timeout(SOON) == Ok(Ok(())) {
                break;
            }
        }
    }

    #[test]
    fn a_machine_that_panics_is_told_of_and_a_stopped_one_joins() {
        let panicking = bench();
        panicking.orders.send(Told::Panic).unwrap();
        assert_eq!(panicking.panics.recv_timeout(SOON).as_deref(), Ok("test: as the test asked"));
        assert_eq!(panicking.driver.join(SOON), Some(Ended::Panicked));
        let stopping = bench();
        assert_eq!(stopping.driver.join(Duration::ZERO), None);
        stopping.orders.send(Told::Stop).unwrap();
        assert_eq!(stopping.driver.join(SOON), Some(Ended::InOrder));
    }

    /// The clock cuts long waits: shutdowns with a deadline of a day gave up after an hour.
    #[test]
    fn a_wait_longer_than_one_turn_goes_on() {
        const TURN: Duration = Duration::from_secs(3_600);
        let (left, turns) = (Cell::new(86_400), Cell::new(0));
        let waited = |ends: u64| {
            left.set(86_400);
            turns.set(0);
            let wait = |turn: Duration| {
                turns.set(turns.get() + 1);
                left.set(left.get() - turn.as_secs());
                (86_400 - left.get() >= ends).then_some(turns.get())
            };
            wait_in_turns(|| Duration::from_secs(left.get()).min(TURN), wait)
        };
        assert_eq!(waited(18_000), Some(5));
        assert_eq!((waited(90_000), turns.get()), (None, 25), "the last turn only looks");
    }
}
