//! Holds won claims until each is due, and starts them on time: dispatch waits for the database meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

use crate::domain::{Boot, Error, Event, Timestamp};
use crate::machine::{Machine, Operation, Step};
use crate::store::{Claimed, ExecutionChange, Store};
use crate::time::{CLAIM_AHEAD, Now, OFFSET_JUMP};

/// A won claim, with its seat: to start at `due`.
pub(crate) struct Won<P> {
    pub due: Timestamp,
    pub permit: P,
    pub claimed: Claimed,
}

pub(crate) enum StartInput<P> {
    Won(Vec<Won<P>>),
    /// Waiting claims go back.
    HandBack,
    /// Nothing starts any more: what waits goes back, and so does what comes yet.
    Stop,
    /// Nothing more comes.
    Close,
}

pub(crate) enum StartOutput<P> {
    /// All that is due.
    Due(Vec<(P, Claimed)>),
    GiveBack(ExecutionChange),
    Event(Event),
}

/// There is nothing this stage asks the database.
impl Operation for Infallible {
    type Answer = Infallible;

    fn name(&self) -> &'static str {
        match *self {}
    }

    fn perform(self, _store: &dyn Store) -> Result<Infallible, Error> {
        match self {}
    }
}

pub(crate) struct StartMachine<P> {
    /// By due instant and order of arrival.
    waiting: BTreeMap<(Timestamp, u64), (P, Claimed)>,
    arrived: u64,
    outbox: VecDeque<StartOutput<P>>,
    stopping: bool,
    closing: bool,
}

impl<P> StartMachine<P> {
    pub(crate) fn new() -> Self {
        let (waiting, outbox) = (BTreeMap::new(), VecDeque::new());
        Self { waiting, arrived: 0, outbox, stopping: false, closing: false }
    }

    /// Its seat is free again.
    fn give_back(&mut self, claimed: Claimed, now: Now) {
        self.outbox.push_back(StartOutput::Event(Event::GivenBack { attempt: claimed.named() }));
        self.outbox.push_back(StartOutput::GiveBack(claimed.give_back(now.db)));
    }

    fn hand_back(&mut self, now: Now) {
        for (_, claimed) in std::mem::take(&mut self.waiting).into_values() {
            self.give_back(claimed, now);
        }
    }

    /// All that is due starts, or goes back; says when the next is due.
    fn look(&mut self, now: Now) -> Boot {
        let mut run = Vec::new();
        let next = loop {
            let Some(first) = self.waiting.first_entry() else { break Boot::MAX };
            let due = first.key().0;
            // It was claimed when it was near: the clock has been set back since, and it would wait for all
            // of that.
            let is_far = due > now.db.saturating_add(CLAIM_AHEAD + OFFSET_JUMP);
            if due > now.db && !is_far {
                break now.boot_at(due);
            }
            let (permit, claimed) = first.remove();
            if is_far || !claimed.may_start(now) {
                self.give_back(claimed, now);
            } else {
                run.push((permit, claimed));
            }
        };
        if !run.is_empty() {
            self.outbox.push_back(StartOutput::Due(run));
        }
        next
    }
}

impl<P: Send + 'static> Machine for StartMachine<P> {
    type Op = Infallible;
    type Asked = Infallible;
    type Input = StartInput<P>;
    type Output = StartOutput<P>;

    fn next(&mut self, now: Now) -> Step<(Infallible, Infallible), StartOutput<P>> {
        let next = self.look(now);
        match self.outbox.pop_front() {
            Some(output) => Step::Tell(output),
            None if self.closing && self.waiting.is_empty() => Step::Stop,
            None => Step::Wait(next),
        }
    }

    fn done(&mut self, _now: Now, asked: Infallible, _answer: Result<Infallible, Error>) {
        match asked {}
    }

    fn receive(&mut self, now: Now, input: StartInput<P>) {
        match input {
            StartInput::Won(won) if self.stopping => {
                won.into_iter().for_each(|Won { claimed, .. }| self.give_back(claimed, now));
            }
            StartInput::Won(won) => {
                for Won { due, permit, claimed } in won {
                    self.arrived += 1;
                    self.waiting.insert((due, self.arrived), (permit, claimed));
                }
            }
            StartInput::HandBack => self.hand_back(now),
            StartInput::Stop => {
                self.stopping = true;
                self.hand_back(now);
            }
            StartInput::Close => self.closing = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::domain::Millis;
    use std::sync::Arc;

    use super::*;
    use crate::fixtures::claimed;

    const NOW: Timestamp = Timestamp::at(1_767_225_600_000);
    const LEASE: Millis = 20_000;

    struct Bench {
        machine: StartMachine<Arc<()>>,
        /// Counts the permits that are held.
        seat: Arc<()>,
        now: Now,
        /// When each began, and which.
        ran: Vec<(Millis, Millis)>,
        given_back: usize,
        events: usize,
        ended: bool,
    }

    impl Bench {
        fn new() -> Self {
            let now = Now { db: NOW, boot: Boot::at(0), apart: 0 };
            let (ran, seat) = (Vec::new(), Arc::default());
            Self { machine: StartMachine::new(), seat, now, ran, given_back: 0, events: 0, ended: false }
        }

        fn hold(&mut self, after: Millis, deadline: Millis) {
            let (due, permit) = (NOW + after, Arc::clone(&self.seat));
            let claimed = claimed(due, deadline);
            self.machine.receive(self.now, StartInput::Won(vec![Won { due, permit, claimed }]));
        }

        /// Everything it does at this instant; when it wants to look again.
        fn look(&mut self) -> Option<Millis> {
            loop {
                match self.machine.next(self.now) {
                    Step::Do((_, never)) => match never {},
                    Step::Tell(StartOutput::Due(run)) => {
                        let began = run.iter().map(|(_, claimed)| claimed.scheduled() - NOW);
                        self.ran.extend(began.map(|scheduled| (self.now.db - NOW, scheduled)));
                    }
                    Step::Tell(StartOutput::GiveBack(_)) => self.given_back += 1,
                    Step::Tell(StartOutput::Event(_)) => self.events += 1,
                    Step::Wait(until) => return Some(until.millis()).filter(|until| *until < Millis::MAX),
                    Step::Stop => {
                        self.ended = true;
                        return None;
                    }
                }
            }
        }

        /// Runs until nothing waits any more.
        fn run(&mut self) {
            while let Some(until) = self.look().map(Boot::at) {
                assert!(until > self.now.boot, "a hot loop");
                self.now = Now { db: self.now.db + (until - self.now.boot), boot: until, ..self.now };
            }
        }

        fn seats_taken(&self) -> usize {
            Arc::strong_count(&self.seat) - 1
        }
    }

    #[test]
    fn each_starts_at_its_instant_whatever_the_order_of_arrival() {
        let mut bench = Bench::new();
        [30, 10, 40, 10, 20].into_iter().for_each(|after| bench.hold(after, LEASE));
        assert_eq!(bench.seats_taken(), 5);
        bench.run();
        assert_eq!(bench.ran, [(10, 10), (10, 10), (20, 20), (30, 30), (40, 40)]);
        assert_eq!((bench.seats_taken(), bench.given_back), (0, 0));
    }

    #[test]
    fn the_instant_is_the_databases_even_if_its_clock_is_corrected_meanwhile() {
        let mut bench = Bench::new();
        bench.hold(40, LEASE);
        assert_eq!(bench.look(), Some(40));
        bench.now = Now { db: NOW - 60, boot: Boot::at(40), apart: 0 };
        assert_eq!(bench.look(), Some(140), "the clock lost 100 ms");
        bench.now = Now { db: NOW + 45, boot: Boot::at(60), apart: 0 };
        bench.run();
        assert_eq!(bench.ran, [(45, 40)]);
    }

    #[test]
    fn a_backward_clock_step_does_not_keep_seats_for_hours() {
        let mut bench = Bench::new();
        bench.hold(20, LEASE);
        bench.hold(40, LEASE);
        bench.now = Now { db: NOW - 3_600_000, boot: Boot::at(20), apart: 0 };
        assert_eq!(bench.look(), None);
        assert_eq!((bench.ran.len(), bench.given_back, bench.seats_taken()), (0, 2, 0));
    }

    /// As far as a claim reaches ahead, and a step of the clock that nobody notices.
    #[test]
    fn what_is_farther_than_a_claim_reaches_goes_back() {
        let mut bench = Bench::new();
        bench.hold(CLAIM_AHEAD + OFFSET_JUMP, LEASE);
        assert_eq!((bench.look(), bench.given_back), (Some(CLAIM_AHEAD + OFFSET_JUMP), 0));
        let mut bench = Bench::new();
        bench.hold(CLAIM_AHEAD + OFFSET_JUMP + 1, LEASE);
        assert_eq!((bench.look(), bench.given_back), (None, 1));
    }

    #[test]
    fn what_comes_due_after_its_lease_goes_back() {
        let mut bench = Bench::new();
        bench.hold(40, 40);
        bench.hold(40, 41);
        bench.run();
        assert_eq!((bench.ran.len(), bench.given_back, bench.events), (1, 1, 1));
    }

    /// The boot clock stood still while a hypervisor paused the machine, and others may have run it.
    #[test]
    fn what_was_held_through_a_pause_of_the_machine_goes_back() {
        let mut bench = Bench::new();
        bench.hold(40, LEASE);
        assert_eq!(bench.look(), Some(40));
        bench.now = Now { apart: 20_000, ..bench.now };
        bench.run();
        assert_eq!((bench.ran.len(), bench.given_back, bench.seats_taken()), (0, 1, 0));
    }

    #[test]
    fn what_waits_is_handed_back_and_what_comes_later_starts() {
        let mut bench = Bench::new();
        bench.hold(40, LEASE);
        bench.machine.receive(bench.now, StartInput::HandBack);
        bench.hold(20, LEASE);
        bench.run();
        assert_eq!((bench.ran.len(), bench.given_back, bench.seats_taken()), (1, 1, 0));
    }

    /// Even if dispatch hears of the stop later.
    #[test]
    fn nothing_starts_and_nothing_is_lost_after_the_stop() {
        let mut bench = Bench::new();
        bench.hold(0, LEASE);
        bench.hold(40, LEASE);
        bench.machine.receive(bench.now, StartInput::Stop);
        bench.hold(0, LEASE);
        bench.run();
        assert_eq!((bench.ran.len(), bench.given_back, bench.seats_taken()), (0, 3, 0));
        assert!(!bench.ended, "more may come");
        bench.hold(10, LEASE);
        bench.machine.receive(bench.now, StartInput::Close);
        bench.run();
        assert_eq!((bench.given_back, bench.ended), (4, true));
    }
}
