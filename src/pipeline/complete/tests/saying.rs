//! What runs say, and their outcomes behind it.

use super::*;
use crate::domain::LogLevel;
use crate::pipeline::complete::saying::Saying;

fn at(boot: Millis) -> Now {
    Now { db: NOW + boot, boot: Boot::at(boot), apart: 0 }
}

/// A call: the lines of each run, or how many outcomes are stored.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Said(Vec<(i64, usize)>),
    Settled(usize),
}

use Call::{Said, Settled};

struct Bench(Stepped<CompleteMachine>);

impl Bench {
    fn new() -> Self {
        Self(Stepped::new(CompleteMachine::new(Arc::default())))
    }

    fn says(&mut self, now: Millis, run: &Speaker) {
        if run.saying.line(LogLevel::Info, NOW, "something") {
            self.0.receive(at(now), CompleteInput::Says(run.clone()));
        }
    }

    fn ends(&mut self, now: Millis, run: &Speaker) {
        run.saying.end();
        let change = ExecutionChange { token: run.token, ..changed(run.execution.0, Transition::Succeed) };
        self.0.receive(at(now), CompleteInput::Settle(change, None));
    }

    /// The call that it makes now, past what it tells; or when it makes one.
    fn call(&mut self, now: Millis) -> Result<Call, Boot> {
        loop {
            match self.0.next(at(now)) {
                Step::Do(CompleteOp::Say(said)) => {
                    let lines = said.iter().map(|it| (it.execution.0, it.lines.len()));
                    return Ok(Said(lines.collect()));
                }
                Step::Do(CompleteOp::Settle(SettleOp { changes, .. })) => return Ok(Settled(changes.len())),
                Step::Do(CompleteOp::Announce(_)) => panic!("nobody waits"),
                Step::Tell(_) => {}
                Step::Wait(until) => return Err(until),
                Step::Stop => return Err(Boot::MAX),
            }
        }
    }

    fn done(&mut self, now: Millis, answers: &[Applied]) {
        self.0.done(at(now), Ok(answers.to_vec()));
    }

    fn failed(&mut self, now: Millis, kind: ErrorKind) {
        self.0.done(at(now), Err(Error::new(kind, "not now")));
    }
}

fn run(id: i64) -> Speaker {
    Speaker { execution: ExecutionId(id), token: Token::fresh(), fence: 1, saying: Saying::default() }
}

#[test]
fn what_runs_say_is_stored_together_and_at_a_pace() {
    let mut bench = Bench::new();
    let [one, two] = [run(1), run(2)];
    bench.says(10, &one);
    bench.says(100, &two);
    bench.says(200, &two);
    assert_eq!(bench.call(200), Err(Boot::at(2_250)));
    assert_eq!(bench.call(2_250), Ok(Said(vec![(1, 1), (2, 2)])));
    bench.done(2_250, &[Applied::Done, Applied::Lost]);
    assert_eq!(bench.call(2_250), Err(Boot::MAX));
    bench.says(2_260, &one);
    assert_eq!(bench.call(2_260), Err(Boot::at(4_500)));
    assert_eq!(bench.call(4_500), Ok(Said(vec![(1, 2)])), "all that it has said");
}

#[test]
fn an_outcome_waits_for_what_its_run_has_said_and_others_do_not() {
    let mut bench = Bench::new();
    let [speaks, silent] = [run(1), run(2)];
    bench.says(10, &speaks);
    bench.ends(20, &speaks);
    bench.ends(20, &silent);
    assert_eq!(bench.call(20), Ok(Said(vec![(1, 1)])));
    bench.failed(20, ErrorKind::Unavailable);
    assert_eq!(bench.call(20), Ok(Settled(1)), "the silent one");
    bench.done(21, &[Applied::Done]);
    assert_eq!(bench.call(120), Ok(Said(vec![(1, 1)])));
    bench.done(120, &[Applied::Done]);
    assert_eq!(bench.call(120), Ok(Settled(1)));
}

#[test]
fn an_outcome_does_not_wait_for_ever() {
    for (kind, least) in [(ErrorKind::Data, 0), (ErrorKind::Unavailable, 20_000)] {
        let mut bench = Bench::new();
        let speaks = run(1);
        bench.says(10, &speaks);
        bench.ends(20, &speaks);
        let (mut now, mut tries) = (20, 0);
        loop {
            match bench.call(now) {
                Ok(Said(_)) => {
                    bench.failed(now, kind);
                    tries += 1;
                }
                Ok(Settled(count)) => break assert_eq!(count, 1),
                Err(until) => now = until.millis(),
            }
            assert!(tries < 100 && now < 60_000, "{kind:?}: {tries} by {now}");
        }
        assert!(now >= least, "{kind:?}: given up at {now}");
    }
}

#[test]
fn a_run_whose_row_is_held_is_asked_again_and_delays_no_other() {
    let mut bench = Bench::new();
    let [held, free] = [run(1), run(2)];
    bench.says(10, &held);
    bench.says(10, &free);
    bench.ends(20, &held);
    bench.ends(20, &free);
    assert_eq!(bench.call(20), Ok(Said(vec![(1, 1), (2, 1)])));
    bench.done(20, &[Applied::Held, Applied::Done]);
    assert_eq!(bench.call(20), Ok(Settled(1)));
    bench.done(20, &[Applied::Done]);
    assert_eq!(bench.call(120), Ok(Said(vec![(1, 1)])));
    bench.done(120, &[Applied::Lost]);
    assert_eq!(bench.call(120), Ok(Settled(1)), "others may have it: that is said by its own change");
}

#[test]
fn a_stop_stores_at_once_what_was_said() {
    let mut bench = Bench::new();
    let speaks = run(1);
    bench.says(10, &speaks);
    bench.0.receive(at(11), CompleteInput::Close);
    assert_eq!(bench.call(11), Ok(Said(vec![(1, 1)])));
    bench.done(11, &[Applied::Done]);
    assert!(matches!(bench.0.next(at(11)), Step::Stop));
}

/// Of many runs each call takes some, and outcomes take turns with them.
#[test]
fn many_that_speak_take_turns_with_outcomes() {
    let mut bench = Bench::new();
    let runs: Vec<Speaker> = (0..600).map(run).collect();
    runs.iter().for_each(|run| bench.says(0, run));
    let silent = run(1_000);
    bench.ends(2_000, &silent);
    let mut sizes = Vec::new();
    loop {
        match bench.call(2_000) {
            Ok(Said(runs)) => {
                sizes.push(runs.len());
                bench.done(2_000, &vec![Applied::Done; runs.len()]);
            }
            Ok(Settled(count)) => {
                sizes.push(0);
                bench.done(2_000, &vec![Applied::Done; count]);
            }
            Err(_) => break,
        }
    }
    assert_eq!(sizes, [256, 0, 256, 88]);
}

/// Once it is stored; of an execution that nobody waits for nothing is told.
#[test]
fn the_end_of_an_awaited_execution_is_announced_behind_its_outcome() {
    let mut machine = Stepped::new(CompleteMachine::new(Arc::default()));
    machine.receive(at(0), CompleteInput::Await([1, 3].map(ExecutionId).to_vec()));
    machine.receive(at(0), CompleteInput::Settle(changed(3, Transition::Start), None));
    for id in [1, 2] {
        machine.receive(at(0), CompleteInput::Settle(changed(id, Transition::Succeed), None));
    }
    let mut calls = Vec::new();
    loop {
        match machine.next(at(0)) {
            Step::Do(CompleteOp::Settle(SettleOp { changes, .. })) => {
                calls.push(format!("{} stored", changes.len()));
                machine.done(at(0), Ok(vec![Applied::Done; changes.len()]));
            }
            Step::Do(CompleteOp::Announce(ended)) => {
                calls.push(format!("{ended:?}"));
                machine.done(at(0), Err(Error::new(ErrorKind::Unavailable, "they ask")));
            }
            Step::Do(CompleteOp::Say(_)) => panic!("nobody says anything"),
            Step::Tell(_) => {}
            Step::Wait(_) | Step::Stop => break,
        }
    }
    assert_eq!(calls, ["3 stored".to_owned(), format!("{:?}", [ExecutionId(1)])]);
}

/// However many of them there are, and however long each call takes.
#[test]
fn no_outcome_waits_longer_because_others_speak() {
    for (takes, kind) in [(1_000, ErrorKind::Unavailable), (5_000, ErrorKind::Unknown)] {
        let mut bench = Bench::new();
        let runs: Vec<Speaker> = (1..=600).map(run).collect();
        runs.iter().for_each(|run| bench.says(0, run));
        runs.iter().for_each(|run| bench.ends(10, run));
        let (mut now, mut settled, mut calls) = (10, 0, 0);
        while settled < runs.len() {
            match bench.call(now) {
                Ok(Said(_)) => {
                    (calls, now) = (calls + 1, now + takes);
                    bench.failed(now, kind);
                }
                Ok(Settled(some)) => {
                    settled += some;
                    bench.done(now, &vec![Applied::Done; some]);
                }
                Err(until) => now = until.millis().max(now + 1),
            }
        }
        assert!(now <= 30_000 + 3 * takes && calls <= 12, "{kind:?}: all by {now} ms, {calls} calls");
    }
}
