//! Performs the life of a claimed execution on a pool thread, and the steps of it that a task performs alike.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use crossbeam::channel::{Sender, bounded};

use crate::domain::attempt_span::AttemptSpan;
use crate::domain::headers;
use crate::domain::user_code::{brief, guarded, with_causes};
use crate::domain::{Answer, Attempt, Cause, Event, ExecutionId, JobPolicy, Timestamp, Token};
use crate::members::Standing;
use crate::node::context::{Begun, Context, Ledger, Stopping};
use crate::node::handlers::{Handlers, NoAnswer};
use crate::node::host::this_process;
use crate::node::lifecycle::{Closing, Ended, Ending, Lifecycle, Signals, Started, Starting};
use crate::node::spans::Spans;
use crate::node::teller::Events;
use crate::pipeline::complete::saying::Speaker;
use crate::pipeline::complete::time_limits::Stuck;
use crate::pipeline::complete::{CompleteInput, Conclusion, Reply};
use crate::pipeline::dispatch::DispatchInput;
use crate::pipeline::lanes::Watch;
use crate::store::{Applied, Claimed, ExecutionChange};
use crate::time::{Clock, Now, span};

thread_local! {
    /// The node whose handler runs on this thread, by the address of its [`Runner::closed`].
    static HANDLER_OF: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether the calling thread runs a handler of the node to which this `closed` belongs.
pub(super) fn is_handler_of(closed: &Arc<AtomicBool>) -> bool {
    HANDLER_OF.get() == Some(Arc::as_ptr(closed).addr())
}

/// The lane of a runner: the watch on its runs, and its stuck handlers.
#[derive(Clone, Default)]
pub(crate) struct RunnerLane {
    pub watch: Watch,
    pub stuck: Stuck,
}

/// Runs the claimed executions of a lane: on its threads, or as tasks (`node/tasks.rs`).
#[derive(Clone)]
pub(crate) struct Runner {
    pub clock: Arc<Clock>,
    pub handlers: Arc<Handlers>,
    pub complete: Sender<CompleteInput>,
    pub dispatch: Sender<DispatchInput>,
    pub lane: RunnerLane,
    pub events: Arc<Events>,
    pub standing: Arc<Standing>,
    pub stopping: Arc<Stopping>,
    pub ledger: Ledger,
    pub spans: Spans,
    /// The shutdown has returned: nothing begins any more.
    pub closed: Arc<AtomicBool>,
}

impl From<NoAnswer> for Ending {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Handler(error) => Self::Answer(Answer::Failed(with_causes(error.as_ref()))),
            NoAnswer::Undecodable(reason) => Self::Undecodable(reason),
        }
    }
}

/// A run whose handler has begun.
pub(super) struct HandlerRun {
    attempt: Attempt,
    cause: Cause,
    policy: Option<JobPolicy>,
    began: Now,
    lateness: Duration,
    /// Whether dispatch is told of its end.
    watch: Watch,
    pub span: AttemptSpan,
}

impl Runner {
    pub(crate) fn run(&self, claimed: Claimed) {
        let mut next = self.first(claimed);
        loop {
            next = match next {
                Lifecycle::Start(settlement, starting) => {
                    let answer = self.start(settlement);
                    self.started(starting, answer)
                }
                Lifecycle::Call(running) => return self.perform(running),
                over => return self.leave(over),
            }
        }
    }

    pub(crate) fn first(&self, claimed: Claimed) -> Lifecycle {
        let signals = self.signals(claimed.execution(), claimed.token());
        Lifecycle::of(claimed, self.clock.now(), signals)
    }

    /// The step after a start that was settled so; `None` if nobody settles it any more.
    pub(crate) fn started(&self, starting: Starting, answer: Option<Applied>) -> Lifecycle {
        let signals = self.signals(starting.execution(), starting.token());
        starting.settled(answer, self.clock.now(), signals)
    }

    fn signals(&self, execution: ExecutionId, token: Token) -> Signals {
        Signals { is_closed: self.is_closed(), is_cancelled: self.standing.is_cancelled(execution, token) }
    }

    /// Settles an execution that does not run here: it is cancelled, or goes back.
    pub(crate) fn leave(&self, step: Lifecycle) {
        match step {
            Lifecycle::Cancel(settlement) => {
                let cancelled = settlement.attempt().cloned().map(|attempt| Event::Cancelled { attempt });
                cancelled.into_iter().for_each(|event| self.events.emit(event));
                self.settle(CompleteInput::Settle(settlement, None));
            }
            Lifecycle::GiveBack(settlement) => self.give_back(settlement),
            Lifecycle::Start(..) | Lifecycle::Call(_) | Lifecycle::Lost => {}
        }
    }

    pub(super) fn give_back(&self, settlement: ExecutionChange) {
        settlement.given_back().into_iter().for_each(|event| self.events.emit(event));
        self.settle(CompleteInput::Settle(settlement, None));
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Has the start stored; `None` if the completer has ended: then the node is stopping and others settle
    /// the row.
    fn start(&self, settlement: ExecutionChange) -> Option<Applied> {
        let (reply, settled) = bounded(1);
        self.settle(CompleteInput::Settle(settlement, Some(Reply::Thread(reply))));
        settled.recv().ok()
    }

    pub(super) fn context(&self, running: &Started) -> Context {
        let claimed = running.claimed();
        let entry = claimed.entry();
        Context {
            schedule: Arc::clone(&entry.name),
            job: Arc::clone(&entry.job),
            begun: Begun {
                execution: claimed.execution(),
                token: claimed.token(),
                incarnation: self.standing.incarnation(),
                time_is_up_at: running.time_is_up_at(),
            },
            // One beyond the calendar is shown as its end.
            fire_time: claimed.scheduled().utc().unwrap_or(DateTime::<Utc>::MAX_UTC),
            attempt: claimed.attempt(),
            fence: claimed.fence(),
            cause: claimed.cause().clone(),
            failures: claimed.failures(),
            snoozes: claimed.snoozes(),
            headers: claimed.headers().map(|column| Arc::new(headers::read(Some(column)))),
            standing: Arc::clone(&self.standing),
            clock: Arc::clone(&self.clock),
            stopping: Arc::clone(&self.stopping),
            ledger: self.ledger.clone(),
            #[cfg(any(feature = "sql", feature = "testing", test))]
            outcome: claimed.complete(claimed.due()),
            speaker: Speaker {
                execution: claimed.execution(),
                token: claimed.token(),
                fence: claimed.fence(),
                saying: running.saying(),
            },
            complete: self.complete.clone(),
        }
    }

    /// Runs the application's code of a handler. Its error is shown, and dropped, in there too.
    pub(super) fn as_handler<T>(&self, body: impl FnOnce() -> T) -> Result<T, String> {
        let before = HANDLER_OF.replace(Some(Arc::as_ptr(&self.closed).addr()));
        let ended = guarded(body);
        HANDLER_OF.set(before);
        ended
    }

    pub(super) fn perform(&self, mut running: Started) {
        let run = self.begin(&mut running);
        let (context, payload) = (self.context(&running), running.claimed().payload());
        let handled = || self.handlers.run(&context, payload).map_err(Ending::from);
        let ending = ending(self.as_handler(|| self.spans.first_within(&run.span, &context, handled)));
        self.end(run, running, ending);
    }

    /// Runs a handler of either kind to its end on this thread.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn perform_here(self: &Arc<Self>, running: Started) {
        #[cfg(feature = "tokio")]
        if self.handlers.lanes().any(|it| it.is_async && *it.job == *running.claimed().entry().job) {
            return self.perform_future_here(running);
        }
        self.perform(running);
    }

    /// The handler is about to begin: its time limit is watched from now on.
    pub(super) fn begin(&self, running: &mut Started) -> HandlerRun {
        let claimed = running.claimed();
        let (attempt, cause) = (claimed.named(), claimed.cause().clone());
        let policy = self.handlers.policy(&claimed.entry().job);
        let began = self.clock.now();
        let lateness = span(began.db.saturating_since(claimed.due()));
        let watch = if claimed.has_own_lane() { Watch::Nothing } else { self.lane.watch };
        self.events.counters().began(&attempt.job, &cause, claimed.snoozes(), lateness);
        let span = self.spans.begin(&attempt, claimed, lateness, &self.standing);
        let limited = running.begin(policy, &self.lane.stuck, began);
        limited.into_iter().for_each(|limited| self.settle(CompleteInput::Limit(limited)));
        HandlerRun { attempt, cause, policy, began, lateness, watch, span }
    }

    /// The run has ended so.
    pub(super) fn end(&self, run: HandlerRun, running: Started, ending: Ending) {
        let HandlerRun { attempt, cause, policy, began, lateness, watch, span: its_span } = run;
        let ended = self.clock.now();
        let is_cancelled = self.standing.is_cancelled(attempt.execution, running.claimed().token());
        running.saying().end();
        let (ending, passed_on) = match ending {
            Ending::Undecodable(reason) => {
                let reason = format!("{} cannot decode its payload: {reason}", this_process());
                let passed_on = self.handlers.passed_on.pass_on(attempt.execution, ended.boot);
                (Ending::Undecodable(reason), passed_on)
            }
            ending => (ending, None),
        };
        let closing = Closing { is_cancelled, passed_on, policy, now: ended };
        let Ended { confirm, outcome } = running.ended(ending, closing);
        let took = ended.boot - began.boot;
        if watch.is_told(took) {
            let job = Arc::clone(&attempt.job);
            // A dispatch that has ended claims nothing more in any lane.
            self.dispatch.send(DispatchInput::Ran { job, took }).ok();
        }
        let took = span(took);
        let told = |change: &ExecutionChange| {
            let (attempt, cause) = (attempt.clone(), cause.clone());
            if change.is_interrupted() {
                return Event::Interrupted { attempt, took };
            }
            let (state, error) = (change.becomes(), change.error().cloned());
            let retry = change.goes_on().and_then(Timestamp::utc);
            Event::Finished { attempt, cause, lateness, took, state, error, retry }
        };
        let event = told(&outcome);
        if let Some(confirm) = confirm {
            let success = told(&confirm);
            let conclusion =
                Conclusion { committed: (confirm, success), undone: (outcome, event), span: its_span };
            return self.settle(CompleteInput::Conclude(Box::new(conclusion)));
        }
        let becomes = outcome.becomes();
        self.settle(CompleteInput::Settle(outcome, None));
        self.events.emit(event);
        // The subscriber is the application's code: no outcome waits for it.
        its_span.ended(becomes);
    }

    pub(super) fn settle(&self, input: CompleteInput) {
        // A completer that has ended is past its deadline: others settle what it leaves.
        self.complete.send(input).ok();
    }
}

/// How a handler's run ended: with its answer, with an error, or with the text of its panic.
pub(super) fn ending(ended: Result<Result<Answer, Ending>, String>) -> Ending {
    match ended {
        Ok(Ok(answer)) => Ending::Answer(answer),
        Ok(Err(ending)) => ending,
        Err(said) => Ending::Answer(panicked(&said)),
    }
}

/// The answer of a handler that panicked and said this.
pub(super) fn panicked(said: &str) -> Answer {
    Answer::Failed(brief(format_args!("panicked: {said}")))
}

#[cfg(test)]
mod tests {
    use std::ops::Deref;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::domain::{ErrorKind, ExecutionId, ExecutionState, HandlerError, JobSpec, Retry};
    use crate::machine::driver::spawn;
    use crate::node::around::Layer;
    use crate::node::tests::bench::{AT, RunnerBench};
    use crate::pipeline::poll::decode::Catalog;
    use crate::store::rules::ChangeKind;

    /// A runner of one job.
    struct Bench(RunnerBench);

    impl Deref for Bench {
        type Target = RunnerBench;

        fn deref(&self) -> &RunnerBench {
            &self.0
        }
    }

    impl Bench {
        fn new(run: impl Fn(&Context) -> Result<(), HandlerError> + Send + Sync + 'static) -> Self {
            let retry = Retry::fixed(Duration::from_secs(7)).at_most(1);
            let spec = JobSpec::new("job", JobPolicy { retry, ..JobPolicy::DEFAULT });
            let mut handlers = Handlers::default();
            handlers.add(spec, move |context, ()| run(context)).unwrap();
            Self(RunnerBench::new(handlers))
        }

        /// Runs the schedule's occurrence; its execution, and the change that is to be stored.
        fn run(&self) -> (ExecutionId, ExecutionChange) {
            let claimed = self.claim(true);
            let execution = claimed.execution();
            self.runner.run(claimed);
            let Ok(CompleteInput::Settle(settlement, None)) = self.settled.try_recv() else {
                panic!("nothing to be stored")
            };
            assert_eq!(settlement.execution, execution);
            (execution, settlement)
        }
    }

    #[test]
    fn a_handler_is_told_what_was_claimed() {
        let (tell, told) = bounded(1);
        let bench = Bench::new(move |context| Ok(tell.send(context.clone())?));
        let (execution, outcome) = bench.run();
        let context = told.try_recv().unwrap();
        assert_eq!((context.schedule(), context.job(), context.execution()), ("s", "job", execution));
        let fired = (context.fire_time().timestamp_millis(), context.attempt(), context.fence());
        assert_eq!((fired, context.is_stopping()), ((AT.millis(), 1, 1), false));
        assert_eq!(
            (outcome.becomes(), outcome.error(), outcome.transition.next()),
            (ExecutionState::Succeeded, None, None)
        );
        assert_eq!(bench.told(), format!("\"s\": execution {execution} succeeded"));
    }

    /// Whether decoding answers or panics. After an hour, in which no other node has run it, it fails.
    #[test]
    fn an_execution_whose_payload_cannot_be_decoded_is_left_to_other_nodes() {
        #[derive(serde::Deserialize)]
        #[serde(from = "()")]
        struct Panics;
        impl From<()> for Panics {
            fn from((): ()) -> Self {
                panic!("out of range")
            }
        }
        let with = |add: fn(&mut Handlers, JobSpec) -> Result<(), String>| {
            let mut handlers = Handlers::default();
            add(&mut handlers, JobSpec::new("job", JobPolicy::DEFAULT)).unwrap();
            Bench(RunnerBench::new(handlers))
        };
        let number = with(|handlers, spec| handlers.add(spec, |_, _: u64| Ok(())));
        let panics = with(|handlers, spec| handlers.add(spec, |_, Panics| Ok(())));
        for (bench, why) in [(number, "invalid type: null"), (panics, "decoding panicked: out of range")] {
            let (execution, passed_on) = bench.run();
            assert_eq!(
                (passed_on.kind(), passed_on.becomes()),
                (ChangeKind::PassOn, ExecutionState::Pending)
            );
            assert!(passed_on.error().is_some_and(|it| it.contains(why)), "{passed_on:?}");
            assert!(bench.told().contains("is left to other nodes"), "{}", bench.told());
            let now = bench.runner.clock.now().boot;
            let leaves = |boot| {
                let token = passed_on.token_after();
                bench.runner.handlers.leaves(execution, token, boot)
            };
            assert!(leaves(now) && !leaves(now + 3_600_000));
        }
    }

    #[test]
    fn a_handler_asks_what_its_execution_covers() {
        let (tell, told) = bounded(1);
        let bench = Bench::new(move |context| Ok(tell.send(context.covers())?));
        bench.run();
        let covers = told.try_recv().unwrap().unwrap();
        assert_eq!(
            (covers.since, covers.until.timestamp_millis(), covers.left_out.total()),
            (None, AT.millis(), 0)
        );
    }

    /// Somebody deleted its row while it ran.
    #[test]
    fn what_is_not_in_the_ledger_covers_nothing() {
        let (tell, told) = bounded(1);
        let bench = Bench::new(move |context| Ok(tell.send(context.clone())?));
        let (execution, _) = bench.run();
        let mut context = told.try_recv().unwrap();
        context.begun.execution = ExecutionId(execution.0 + 1);
        let error = context.covers().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("no longer in the ledger"), "{error}");
    }

    #[test]
    fn a_failure_is_stored_with_its_text_and_tried_again() {
        let bench = Bench::new(|_| Err("no paper".into()));
        let (execution, outcome) = bench.run();
        assert_eq!(
            (outcome.becomes(), outcome.error().map(String::as_str)),
            (ExecutionState::Failed, Some("no paper"))
        );
        assert_eq!(outcome.transition.next().map(|next| next.due - outcome.now), Some(7_000));
        assert_eq!(
            bench.told(),
            format!("\"s\": execution {execution} failed and will be tried again: \"no paper\"")
        );
    }

    #[test]
    fn a_panic_is_an_outcome() {
        let bench = Bench::new(|_| panic!("on {}", "fire"));
        let (_, outcome) = bench.run();
        let failed = (outcome.becomes(), outcome.error().map(String::as_str));
        assert_eq!(failed, (ExecutionState::Failed, Some("panicked: on fire")));
    }

    /// Those for all jobs and those for one, in the order in which they were added; what ends in between is
    /// an error or a panic of the handler.
    #[test]
    fn middleware_runs_around_the_handler_and_may_answer_for_it() {
        #[derive(Clone, Copy, PartialEq, Debug)]
        enum Does {
            Passes,
            Answers,
            Fails,
            Panics,
        }
        for does in [Does::Passes, Does::Answers, Does::Fails, Does::Panics] {
            let steps: Arc<Mutex<Vec<&str>>> = Arc::default();
            let mut handlers = Handlers::default();
            let of = |before: &'static str, after: &'static str| {
                let steps = Arc::clone(&steps);
                Layer::Blocking(Arc::new(move |context, next| {
                    assert_eq!(context.job(), "job");
                    steps.lock().unwrap().push(before);
                    let answer = next.run();
                    steps.lock().unwrap().push(after);
                    answer
                }))
            };
            handlers.around(None, of("1", "-1"));
            handlers.around(
                Some("job"),
                Layer::Blocking(Arc::new(move |_, next| match does {
                    Does::Passes => next.run(),
                    Does::Answers => Ok(Answer::GiveUp("not today".to_owned())),
                    Does::Fails => Err("no tenant".into()),
                    Does::Panics => panic!("no tenant"),
                })),
            );
            handlers.around(None, of("2", "-2"));
            let handled = Arc::clone(&steps);
            let handler = move |_: &Context, ()| {
                handled.lock().unwrap().push("handler");
                Ok(())
            };
            handlers.add(JobSpec::new("job", JobPolicy::DEFAULT), handler).unwrap();
            handlers.wrap().unwrap();
            let (_, outcome) = Bench(RunnerBench::new(handlers)).run();
            let ended = (outcome.becomes(), outcome.error().map(String::as_str));
            let steps = steps.lock().unwrap();
            match does {
                Does::Passes => {
                    assert_eq!(ended, (ExecutionState::Succeeded, None));
                    assert_eq!(*steps, ["1", "2", "handler", "-2", "-1"]);
                }
                Does::Answers => assert_eq!(ended, (ExecutionState::Failed, Some("not today"))),
                Does::Fails => assert_eq!(ended, (ExecutionState::Failed, Some("no tenant"))),
                Does::Panics => assert_eq!(ended, (ExecutionState::Failed, Some("panicked: no tenant"))),
            }
            let runs = does == Does::Passes;
            assert_eq!(steps.contains(&"handler"), runs, "{does:?}");
            assert_eq!(steps.contains(&"-1"), does != Does::Panics, "{does:?}");
        }
    }

    /// An execution that waited in the queue begins only once the database says that it is still this node's.
    #[test]
    fn what_was_taken_away_while_it_waited_does_not_begin() {
        for (answer, runs) in [(Some(Applied::Done), 1), (Some(Applied::Lost), 0), (None, 0)] {
            let ran = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&ran);
            let bench = Bench::new(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            let settled = bench.settled.clone();
            spawn("completer", move || {
                let Ok(CompleteInput::Settle(start, Some(Reply::Thread(reply)))) = settled.recv() else {
                    return;
                };
                assert_eq!(start.kind(), ChangeKind::Start);
                if let Some(answer) = answer {
                    reply.send(answer).unwrap();
                }
            })
            .unwrap();
            bench.runner.run(bench.claim(false));
            assert_eq!(ran.load(Ordering::Relaxed), runs, "{answer:?}");
        }
    }

    #[test]
    fn the_ends_of_watched_runs_are_told_to_dispatch() {
        for (watch, is_told) in [(Watch::Nothing, false), (Watch::SlowRuns, false), (Watch::AllRuns, true)] {
            let mut bench = Bench::new(|_| Ok(()));
            bench.0.runner.lane.watch = watch;
            bench.run();
            let told = bench.ran.try_recv().ok();
            assert_eq!(told.is_some(), is_told, "{watch:?}");
            assert!(told.is_none_or(|it| matches!(it, DispatchInput::Ran { job, .. } if &*job == "job")));
        }
    }

    #[test]
    fn nothing_begins_after_the_shutdown() {
        let bench = Bench::new(|_| panic!("it ran"));
        bench.runner.closed.store(true, Ordering::Relaxed);
        let (execution, change) = bench.run();
        assert_eq!(change.kind(), ChangeKind::GiveBack);
        assert_eq!(bench.told(), format!("\"s\": execution {execution} was not started here and went back"));
    }
}
