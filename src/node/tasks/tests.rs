//! Async handlers on real runtimes, over the in-memory store; their outcomes are read off the completer's
//! inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use crossbeam::channel::unbounded;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::*;
use crate::domain::{Boot, ExecutionState, HandlerError, JobPolicy, JobSpec, Retry};
use crate::fixtures::claim_under;
use crate::node::around::Layer;
use crate::node::context::Cancellation;
use crate::node::handlers::Handlers;
use crate::node::tests::bench::{AT, RunnerBench, store};
use crate::pipeline::pool::{Permit, Pool};
use crate::store::rules::ChangeKind;
use crate::store::{Applied, ExecutionChange};
use crate::time::Lease;

const SOON: Duration = Duration::from_secs(20);
/// Longer than any test: who waits for it is dropped before.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(30);

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// A runner of one async job.
struct Bench(RunnerBench);

impl Deref for Bench {
    type Target = RunnerBench;

    fn deref(&self) -> &RunnerBench {
        &self.0
    }
}

impl Bench {
    fn new<F: Future<Output = Result<(), HandlerError>> + Send + 'static>(
        run: impl Fn(Context) -> F + Send + Sync + 'static,
    ) -> Self {
        Self::with(JobPolicy::DEFAULT, Duration::ZERO, run)
    }

    /// A failure is tried again once.
    fn with<F: Future<Output = Result<(), HandlerError>> + Send + 'static>(
        policy: JobPolicy,
        grace: Duration,
        run: impl Fn(Context) -> F + Send + Sync + 'static,
    ) -> Self {
        let retry = Retry::fixed(Duration::from_secs(7)).at_most(1);
        let mut handlers = Handlers::default();
        let spec = JobSpec::new("job", JobPolicy { retry, ..policy });
        handlers.add_async(spec, grace, move |context, ()| run(context)).unwrap();
        Self(RunnerBench::new(handlers))
    }

    /// Gives the schedule's occurrence to a pool of tasks on this runtime, whose one seat it takes.
    fn submit(&self, runtime: &Handle, at_once: bool) -> Pool<Claimed> {
        self.submit_claimed(runtime, self.claim(at_once))
    }

    fn submit_claimed(&self, runtime: &Handle, claimed: Claimed) -> Pool<Claimed> {
        let tasks = Tasks { runtime: runtime.clone() };
        let pool = Pool::of_tasks(1, tasks.launch(self.runner.clone()), |notice| panic!("{notice:?}"));
        let permit = pool.reserve().expect("a seat");
        assert!(pool.reserve().is_none());
        Permit::submit(vec![(permit, claimed)], Boot::at(0));
        pool
    }

    /// The occurrence of a store like its own.
    fn elsewhere(&self) -> Claimed {
        claim_under(self.lease(), &store(), "s", true, AT)
    }

    /// What is stored next, but for the limit that is watched.
    fn stored(&self) -> ExecutionChange {
        loop {
            match self.settled.recv_timeout(SOON).expect("something is stored") {
                CompleteInput::Settle(change, _) => return change,
                CompleteInput::Limit(_) | CompleteInput::Says(_) | CompleteInput::Await(_) => {}
                CompleteInput::Conclude(_) => panic!("it has no transaction of its own"),
                CompleteInput::Close | CompleteInput::Abandon => panic!("nobody closes it"),
            }
        }
    }

    /// Runs the occurrence on a runtime of two threads; what is stored of it.
    fn run(&self) -> ExecutionChange {
        let runtime = threads();
        let pool = self.submit(runtime.handle(), true);
        let stored = self.stored();
        assert!(pool.wait_idle(SOON));
        assert!(pool.reserve().is_some(), "its seat is free again");
        assert!(self.settled.is_empty(), "it is stored once");
        stored
    }

    /// Its node's lease ends in so many milliseconds.
    fn lease_ends_in(&self, left: Millis) {
        let now = self.runner.clock.now();
        self.runner.standing.renew(&Lease { until: now.boot + left, apart: 0 }, now);
    }
}

fn outcome(change: &ExecutionChange) -> (ExecutionState, &str) {
    (change.becomes(), change.error().map(String::as_str).unwrap_or_default())
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_answer_is_stored_once_it_is_there() {
    let bench = Bench::new(|context| async move {
        sleep(SHORT).await;
        assert_eq!((context.schedule(), context.attempt(), context.is_cancelled()), ("s", 1, false));
        Ok(())
    });
    assert_eq!(outcome(&bench.run()), (ExecutionState::Succeeded, ""));
    let failing = Bench::new(|_| async { Err("no paper".into()) });
    let failed = failing.run();
    assert_eq!(outcome(&failed), (ExecutionState::Failed, "no paper"));
    assert_eq!(failed.transition.next().map(|next| next.due - failed.now), Some(7_000));
}

/// Ten thousand wait at once on two threads.
#[test]
fn those_that_wait_hold_no_thread() {
    const MANY: usize = 10_000;
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let (opens, begins, sees) = (Arc::clone(&gate), Arc::clone(&begun), Arc::clone(&seen));
    let bench = Bench::new(move |_| {
        sees.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
        begins.add_permits(1);
        let gate = Arc::clone(&opens);
        async move {
            gate.acquire().await?.forget();
            Ok(())
        }
    });
    let runtime = threads();
    let launch = Tasks { runtime: runtime.handle().clone() }.launch(bench.runner.clone());
    let pool = Pool::of_tasks(MANY, launch, |notice| panic!("{notice:?}"));
    let items = std::iter::from_fn(|| pool.reserve()).map(|permit| (permit, bench.elsewhere())).collect();
    Permit::submit(items, Boot::at(0));
    let all = u32::try_from(MANY).unwrap();
    runtime.block_on(async { begun.acquire_many(all).await.unwrap().forget() });
    assert_eq!((pool.figures().busy, seen.lock().unwrap().len() <= 2), (MANY, true));
    gate.add_permits(MANY);
    assert!(pool.wait_idle(SOON));
    let is_success = |it: &CompleteInput| matches!(it, CompleteInput::Settle(it, _) if it.error().is_none());
    assert_eq!(bench.settled.try_iter().filter(is_success).count(), MANY);
}

/// The runtime's only thread also runs what calls this: nothing of ours may block it.
#[test]
fn one_thread_is_enough() {
    let bench = Bench::new(|_| async {
        tokio::task::yield_now().await;
        Ok(())
    });
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let pool = bench.submit(runtime.handle(), true);
    runtime.block_on(async {
        while !pool.wait_idle(Duration::ZERO) {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(outcome(&bench.stored()), (ExecutionState::Succeeded, ""));
}

#[test]
fn a_panic_wherever_it_happens_is_a_failure() {
    struct PanicsLate;
    impl Drop for PanicsLate {
        fn drop(&mut self) {
            panic!("at its end");
        }
    }
    let making = Bench::new(|context| {
        assert_eq!(context.attempt(), 2, "made up");
        async { Ok(()) }
    });
    let polled = Bench::new(|_| async {
        sleep(Duration::ZERO).await;
        panic!("on {}", "fire")
    });
    let dropped = Bench::new(|_| {
        let late = PanicsLate;
        poll_fn(move |_| {
            let _its_own = &late;
            Poll::Ready(Ok(()))
        })
    });
    for (bench, text) in
        [(making, "made up"), (polled, "panicked: on fire"), (dropped, "panicked: at its end")]
    {
        let change = bench.run();
        let (state, error) = outcome(&change);
        assert!(state == ExecutionState::Failed && error.contains(text), "{error}");
        assert!(change.transition.next().is_some(), "it is tried again");
    }
}

/// One that panics as it is dropped for its grace is interrupted like another.
#[test]
fn a_panic_while_it_is_dropped_changes_nothing() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("too late");
        }
    }
    let bench = Bench::new(|_| async {
        let _its_own = Panics;
        sleep(LONG).await;
        Ok(())
    });
    bench.lease_ends_in(50);
    assert_eq!(outcome(&bench.run()).0, ExecutionState::Pending);
}

#[test]
fn what_was_taken_away_while_it_waited_does_not_begin() {
    for (answer, runs) in [(Some(Applied::Done), 1), (Some(Applied::Lost), 0), (None, 0)] {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let bench = Bench::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        });
        let runtime = threads();
        let pool = bench.submit(runtime.handle(), false);
        let Ok(CompleteInput::Settle(start, Some(Reply::Task(tell)))) = bench.settled.recv_timeout(SOON)
        else {
            panic!("nothing to be stored")
        };
        assert_eq!(start.kind(), ChangeKind::Start);
        answer.map(tell);
        assert!(pool.wait_idle(SOON));
        assert_eq!(ran.load(Ordering::Relaxed), runs, "{answer:?}");
    }
}

/// Whether or not its start was to be stored first: the thread that polls the runtime does something else.
#[test]
fn a_blocked_runtime_keeps_no_execution() {
    for at_once in [true, false] {
        let bench = Bench::new(|_| async { Ok(()) });
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let tasks = Tasks { runtime: runtime.handle().clone() };
        let pool = Pool::of_tasks(1, tasks.launch(bench.runner.clone()), |_| {});
        Permit::submit(vec![(pool.reserve().unwrap(), bench.claim(at_once))], Boot::at(0));
        if !at_once {
            let Ok(CompleteInput::Settle(_, Some(Reply::Task(tell)))) = bench.settled.recv() else {
                panic!("no start")
            };
            tell(Applied::Done);
        }
        let now = bench.runner.clock.now();
        assert!(pool.tick(now.boot + 4_000).is_empty());
        let handed_back = pool.tick(now.boot + 5_001);
        assert!(matches!(&handed_back[..], [claimed] if claimed.is_started()), "at once: {at_once}");
        assert!(pool.wait_idle(Duration::ZERO) && pool.reserve().is_none());
        runtime.block_on(async {
            while pool.is_blocked() {
                tokio::task::yield_now().await;
            }
        });
        assert!(pool.reserve().is_some() && bench.settled.is_empty());
    }
}

/// It yields, but only because it has used up its budget: the timers beside it have none, either.
#[test]
fn one_that_never_waits_is_dropped_all_the_same() {
    let policy = JobPolicy { time_limit: Some(SHORT), ..JobPolicy::DEFAULT };
    let busy = |_: Context| async {
        loop {
            tokio::task::consume_budget().await;
        }
    };
    let bench = Bench::with(policy, Duration::ZERO, busy);
    let runtime = threads();
    let _pool = bench.submit(runtime.handle(), true);
    let CompleteInput::Limit(_) = bench.settled.recv_timeout(SOON).unwrap() else { panic!("no limit") };
    let CompleteInput::Settle(..) = bench.settled.recv_timeout(SOON).unwrap() else { panic!("not dropped") };
}

#[test]
fn at_its_time_limit_it_is_told_and_dropped_after_its_grace() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (sender, told) = unbounded();
    let ends = Arc::clone(&dropped);
    let policy = JobPolicy { time_limit: Some(SHORT), ..JobPolicy::DEFAULT };
    let bench = Bench::with(policy, SHORT, move |context| {
        let (guard, sender) = (Dropped(Arc::clone(&ends)), sender.clone());
        async move {
            let _until_its_end = guard;
            let why = context.cancelled().await;
            sender.send((why, context.clock.now().boot)).unwrap();
            sleep(LONG).await;
            Ok(())
        }
    });
    let began = bench.runner.clock.now().boot;
    let stored = bench.run();
    let ended = bench.runner.clock.now().boot;
    assert_eq!((stored.kind(), stored.becomes()), (ChangeKind::Release, ExecutionState::TimedOut));
    assert!(stored.transition.next().is_some(), "its retry may begin now");
    let (why, at) = told.try_recv().unwrap();
    assert_eq!(why, Cancellation::TimeLimit);
    assert!(at >= began + millis(SHORT) && ended >= at + millis(SHORT) - 5, "{began:?} {at:?} {ended:?}");
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

impl Bench {
    /// Runs the occurrence, and asks for its end once its handler has `begun`.
    fn cancelled(&self, runtime: &Runtime, begun: &Semaphore) -> Pool<Claimed> {
        let claimed = self.claim(true);
        let asked = BTreeMap::from([(claimed.execution(), claimed.token())]);
        let pool = self.submit_claimed(runtime.handle(), claimed);
        runtime.block_on(async { begun.acquire().await.unwrap().forget() });
        self.runner.standing.ask(asked);
        pool
    }
}

#[test]
fn one_that_is_asked_to_end_may_end_by_itself() {
    let begun = Arc::new(Semaphore::new(0));
    let begins = Arc::clone(&begun);
    let bench = Bench::with(JobPolicy::DEFAULT, LONG, move |context| {
        begins.add_permits(1);
        async move {
            match context.cancelled().await {
                Cancellation::ByHand => Err("stopped on page 3".into()),
                why => panic!("{why:?}"),
            }
        }
    });
    let runtime = threads();
    let pool = bench.cancelled(&runtime, &begun);
    assert_eq!(outcome(&bench.stored()), (ExecutionState::Cancelled, "stopped on page 3"));
    assert!(pool.wait_idle(SOON));
}

#[test]
fn one_that_is_asked_to_end_and_does_not_is_dropped() {
    let begun = Arc::new(Semaphore::new(0));
    let begins = Arc::clone(&begun);
    let bench = Bench::new(move |_| {
        begins.add_permits(1);
        async {
            sleep(LONG).await;
            Ok(())
        }
    });
    let runtime = threads();
    let pool = bench.cancelled(&runtime, &begun);
    let stored = bench.stored();
    assert_eq!(stored.becomes(), ExecutionState::Cancelled);
    assert!(outcome(&stored).1.contains("ms after somebody asked for its end"), "{stored:?}");
    assert_eq!(stored.transition.next(), None);
    assert!(pool.wait_idle(SOON));
}

#[test]
fn without_a_lease_it_is_interrupted_once_its_grace_is_over() {
    let recovers = |recover| JobPolicy { recover, ..JobPolicy::DEFAULT };
    for recover in [true, false] {
        let bench = Bench::with(recovers(recover), SHORT, |_| async {
            sleep(LONG).await;
            Ok(())
        });
        bench.lease_ends_in(50);
        let stored = bench.run();
        if recover {
            assert_eq!((stored.kind(), stored.becomes()), (ChangeKind::GiveBack, ExecutionState::Pending));
            assert!(bench.told().contains("was interrupted"), "{}", bench.told());
        } else {
            assert_eq!((stored.kind(), stored.becomes()), (ChangeKind::GiveUp, ExecutionState::Failed));
            assert!(outcome(&stored).1.contains("ms after this node's lease had ended"), "{stored:?}");
            assert_eq!(stored.transition.next(), None, "it may have begun");
        }
    }
}

#[test]
fn a_lease_that_is_back_within_the_grace_lets_it_go_on() {
    let bench = Bench::with(JobPolicy::DEFAULT, Duration::from_millis(200), |context| async move {
        assert_eq!(context.cancelled().await, Cancellation::LeaseLost);
        // A heartbeat is confirmed.
        context.standing.renew(&Lease { until: Boot::MAX, apart: 0 }, context.clock.now());
        sleep(Duration::from_millis(400)).await;
        Ok(())
    });
    bench.lease_ends_in(20);
    assert_eq!(outcome(&bench.run()), (ExecutionState::Succeeded, ""));
}

/// A start that is stored meanwhile, too.
#[test]
fn a_runtime_that_ends_hands_back_what_it_had() {
    let running = Bench::new(|_| async {
        sleep(LONG).await;
        Ok(())
    });
    let runtime = threads();
    let begun = running.submit(runtime.handle(), true);
    let starting = Bench::new(|_| async { Ok(()) });
    let starts = starting.submit(runtime.handle(), false);
    let Ok(CompleteInput::Settle(start, Some(Reply::Task(tell)))) = starting.settled.recv_timeout(SOON)
    else {
        panic!("nothing to be stored")
    };
    runtime.shutdown_timeout(SOON);
    tell(Applied::Done);
    assert!(begun.wait_idle(SOON) && starts.wait_idle(SOON));
    let back = starting.stored();
    assert_eq!(
        (back.kind(), back.token, back.becomes()),
        (ChangeKind::GiveBack, start.token, ExecutionState::Pending)
    );
    assert_eq!(outcome(&running.stored()).0, ExecutionState::Pending);
    assert!(running.told().contains("was interrupted"), "{}", running.told());
    // What comes later is dropped as it is spawned.
    let late = Bench::new(|_| async { Ok(()) });
    let ended = threads();
    let handle = ended.handle().clone();
    drop(ended);
    assert!(late.submit(&handle, true).wait_idle(SOON));
    assert_eq!(late.stored().kind(), ChangeKind::GiveBack);
}

#[test]
fn what_runs_at_the_end_of_a_shutdown_is_interrupted() {
    let bench = Bench::with(JobPolicy::DEFAULT, LONG, |context| async move {
        context.stopping().await;
        assert_eq!(context.cancellation(), Some(Cancellation::Shutdown));
        sleep(LONG).await;
        Ok(())
    });
    bench.runner.stopping.drop_at(bench.runner.clock.now().boot + millis(SHORT));
    bench.runner.stopping.begin();
    bench.runner.standing.bell().ring();
    assert_eq!(outcome(&bench.run()).0, ExecutionState::Pending);
}

#[test]
fn a_runtime_that_cannot_serve_is_refused_with_what_to_do() {
    let refused = |runtime: Handle| {
        let error = Tasks::on(runtime).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let timeless = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    assert!(refused(timeless.handle().clone()).contains("enable_time"));
    let ended = threads();
    let handle = ended.handle().clone();
    drop(ended);
    assert!(refused(handle).contains("has been shut down"));
    assert!(Tasks::around().unwrap_err().to_string().contains("start_async"));
    let runtime = threads();
    assert!(runtime.block_on(async { Tasks::around() }).is_ok());
    let waiting = Builder::new_current_thread().enable_time().build().unwrap();
    assert!(Tasks::on(waiting.handle().clone()).is_ok(), "it polls nothing yet");
}

/// The first is the outermost; a panic in between is the handler's.
#[test]
fn middleware_is_a_future_around_the_handlers() {
    for panics in [false, true] {
        let steps: Arc<Mutex<Vec<&str>>> = Arc::default();
        let mut handlers = Handlers::default();
        let of = |before: &'static str, after: &'static str| {
            let steps = Arc::clone(&steps);
            Layer::Async(Arc::new(move |context: Context, next| {
                let steps = Arc::clone(&steps);
                Box::pin(async move {
                    steps.lock().unwrap().push(before);
                    assert!(!(panics && before == "2"), "no tenant for {}", context.job());
                    let answer = next.await;
                    steps.lock().unwrap().push(after);
                    answer
                })
            }))
        };
        handlers.around(None, of("1", "-1"));
        handlers.around(Some("job"), of("2", "-2"));
        let handled = Arc::clone(&steps);
        let handler = move |_, ()| {
            let handled = Arc::clone(&handled);
            async move {
                sleep(SHORT).await;
                handled.lock().unwrap().push("handler");
                Ok(())
            }
        };
        handlers.add_async(JobSpec::new("job", JobPolicy::DEFAULT), Duration::ZERO, handler).unwrap();
        handlers.wrap().unwrap();
        let (bench, runtime) = (Bench(RunnerBench::new(handlers)), threads());
        let pool = bench.submit(runtime.handle(), true);
        let stored = bench.stored();
        if panics {
            assert_eq!(outcome(&stored), (ExecutionState::Failed, "panicked: no tenant for job"));
        } else {
            assert_eq!(stored.becomes(), ExecutionState::Succeeded);
            assert_eq!(*steps.lock().unwrap(), ["1", "2", "handler", "-2", "-1"]);
        }
        assert!(pool.wait_idle(SOON));
    }
}
