use super::*;
use crate::domain::{ErrorKind, Timestamp};
use crate::machine::Stepped;
use crate::store::request::{Answered, Asked as Verb};
use crate::store::{Result, Verbs};

struct Nobody;

impl Carrier for Nobody {
    fn carry_out(&self, _: &Verb, _: &str, _: &dyn Verbs) -> Result<Answered> {
        panic!("no call is performed")
    }
}

fn at(boot: Millis) -> Now {
    Now { db: Timestamp::at(boot), boot: Boot::at(boot), apart: 0 }
}

/// A request to enqueue with a key, if it has one.
fn request(id: i64, key: &str) -> Request {
    let arguments = match key {
        "" => r#"{"job": "mail"}"#.to_owned(),
        key => format!(r#"{{"job": "mail", "key": "{key}"}}"#),
    };
    Request::read(id, String::new(), "enqueue", &arguments)
}

struct Bench {
    machine: Stepped<RequestsMachine>,
    /// The requests that wait, with their keys.
    waiting: Vec<(i64, &'static str)>,
    now: Millis,
}

impl Bench {
    fn new(waiting: &[(i64, &'static str)]) -> Self {
        let machine = RequestsMachine::new("shop".to_owned(), Arc::new(Nobody));
        let mut bench = Self { machine: Stepped::new(machine), waiting: waiting.to_vec(), now: 1_000 };
        bench.wake();
        bench
    }

    fn wake(&mut self) {
        self.machine.receive(at(self.now), RequestsInput::Wake);
    }

    /// Answers the machine's calls by this until it waits: which requests it tried, and until when it waits.
    fn run(&mut self, mut answer: impl FnMut(i64) -> Result<CarriedOut>) -> (Vec<i64>, Boot) {
        let mut tried = Vec::new();
        for _ in 0..10_000 {
            match self.machine.next(at(self.now)) {
                Step::Do(Op::Page(query)) => {
                    let page = self.waiting.iter().filter(|(id, _)| *id > query.after).take(query.limit);
                    let page = page.map(|(id, key)| request(*id, key)).collect();
                    self.machine.done(at(self.now), Ok(Answer::Page(page)));
                }
                Step::Do(Op::CarryOut(request, _)) => {
                    tried.push(request.id);
                    let answer = answer(request.id);
                    if matches!(answer, Ok(CarriedOut::Done | CarriedOut::Refused(_) | CarriedOut::Ended)) {
                        self.waiting.retain(|(id, _)| *id != request.id);
                    }
                    self.machine.done(at(self.now), answer.map(Answer::CarryOut));
                }
                Step::Tell(RequestsOutput::Event(_)) => {}
                Step::Wait(until) => return (tried, until),
                Step::Stop => panic!("stopped"),
            }
        }
        panic!("it does not come to rest")
    }
}

fn busy() -> Result<CarriedOut> {
    Err(Error::new(ErrorKind::Unavailable, "busy"))
}

#[test]
fn all_that_wait_are_carried_out_in_order() {
    let many: Vec<(i64, &str)> = (1..=250).map(|id| (id, "")).collect();
    let mut bench = Bench::new(&many);
    let (tried, until) = bench.run(|_| Ok(CarriedOut::Done));
    assert_eq!(tried, (1..=250).collect::<Vec<i64>>());
    assert_eq!(until, Boot::MAX, "nothing is left to wait for");
}

#[test]
fn nobody_asks_before_something_is_written() {
    let machine = RequestsMachine::new("shop".to_owned(), Arc::new(Nobody));
    assert!(matches!(Stepped::new(machine).next(at(1)), Step::Wait(Boot::MAX)));
}

#[test]
fn a_request_waits_for_an_earlier_one_of_its_key_and_for_no_other() {
    let mut bench = Bench::new(&[(1, "a"), (2, "b"), (3, "a"), (4, ""), (5, "a")]);
    let (tried, until) = bench.run(|id| Ok(if id == 1 { CarriedOut::Held } else { CarriedOut::Done }));
    // The first walk has carried some out: another looks again.
    assert_eq!((tried, until), (vec![1, 2, 4, 1], Boot::MAX));
    bench.wake();
    assert_eq!(bench.run(|_| Ok(CarriedOut::Ended)).0, [1, 3, 5], "another node has ended them");
}

#[test]
fn after_an_error_a_request_and_those_of_its_key_wait_longer_each_time() {
    let mut bench = Bench::new(&[(1, "a"), (2, "a"), (3, "b")]);
    let mut answer = |id: i64| if id == 1 { busy() } else { Ok(CarriedOut::Done) };
    let (tried, until) = bench.run(&mut answer);
    assert_eq!((tried, until), (vec![1, 3], Boot::at(1_100)));
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let before = bench.now;
        bench.now = bench.run(&mut answer).1.millis();
        pauses.push(bench.now - before);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000]);
    assert_eq!(bench.run(|_| Ok(CarriedOut::Done)).0, [1, 2]);
    assert_eq!(bench.run(|_| busy()), (vec![], Boot::MAX), "it is forgotten");
}

/// Each may take as long as a statement waits for a lock.
#[test]
fn a_walk_tries_one_that_has_failed() {
    let mut bench = Bench::new(&[(1, "a"), (2, "b")]);
    bench.run(|_| busy());
    bench.now += 60_000;
    bench.waiting.push((3, ""));
    let mut trials = 0;
    let (tried, _) = bench.run(|id| {
        trials += 1;
        if id == 3 { Ok(CarriedOut::Done) } else { busy() }
    });
    assert_eq!(tried, [1, 3, 2], "the new one waits for one that fails");
}

#[test]
fn what_somebody_holds_keeps_no_later_request_waiting() {
    let keys = ["a", "b", "c", "d", "e", "f"];
    let held = (1..).zip(keys.iter().copied()).chain([(7, "a"), (8, ""), (9, "")]);
    let mut bench = Bench::new(&held.collect::<Vec<(i64, &str)>>());
    let (tried, _) = bench.run(|id| if id < 8 { busy() } else { Ok(CarriedOut::Done) });
    assert_eq!(tried[..5], [1, 9, 2, 8, 3], "one that fails, and one that does not");
    assert!(!tried.contains(&7), "it waits for the first of its key");
}

#[test]
fn an_outage_ends_the_walk() {
    let many: Vec<(i64, &str)> = (1..=250).map(|id| (id, "")).collect();
    let mut bench = Bench::new(&many);
    let (tried, until) = bench.run(|_| busy());
    assert_eq!((tried, until), (vec![1, 100, 99], Boot::at(2_000)));
    bench.now = 2_000;
    assert_eq!(bench.run(|_| Ok(CarriedOut::Done)).0.len(), 250);
}

#[test]
fn a_refusal_is_told() {
    let mut bench = Bench::new(&[(7, "")]);
    assert!(matches!(bench.machine.next(at(1)), Step::Do(Op::Page(_))));
    bench.machine.done(at(1), Ok(Answer::Page(vec![request(7, "")])));
    assert!(matches!(bench.machine.next(at(1)), Step::Do(Op::CarryOut(..))));
    bench.machine.done(at(1), Ok(Answer::CarryOut(CarriedOut::Refused("no such job".to_owned()))));
    let Step::Tell(RequestsOutput::Event(event)) = bench.machine.next(at(1)) else { panic!() };
    assert_eq!(event.to_string(), "request 7 was refused: no such job");
}
