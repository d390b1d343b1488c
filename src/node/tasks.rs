//! Performs the life of a claimed execution as a task of the application's tokio runtime: the steps are those
//! of a pool thread (`node/runner.rs`), and only the waiting differs.
//!
//! A task that is dropped before its end, mostly with its runtime, hands its execution back.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::domain::attempt_span::AttemptSpan;
use crate::domain::user_code::{guarded, with_causes};
use crate::domain::{Answer, Error, ErrorKind, Event, Millis};
use crate::members::Standing;
use crate::members::bell::woken;
use crate::node::around::HandlerFuture;
use crate::node::context::Context;
use crate::node::inboxes::Inboxes;
use crate::node::lifecycle::{Ending, FutureStep, Interruption, Lifecycle, Patience, Started};
use crate::node::route::give_up;
use crate::node::runner::{HandlerRun, Runner, panicked};
use crate::pipeline::complete::{CompleteInput, Reply};
use crate::pipeline::pool::Occupied;
use crate::store::Claimed;
use crate::time::millis;

/// The runtime on which a node's async handlers run.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    runtime: Handle,
}

impl Tasks {
    /// # Errors
    /// [`ErrorKind::Config`] if nothing can run there, or nothing can wait.
    pub(crate) fn on(runtime: Handle) -> Result<Self, Error> {
        let refused = |message: &str| Err(Error::new(ErrorKind::Config, message));
        // The only way to learn it: tokio panics where it cannot wait.
        let can_wait = guarded(|| {
            let _on_it = runtime.enter();
            drop(sleep(Duration::ZERO));
        });
        if can_wait.is_err() {
            return refused(
                "the tokio runtime for async handlers has no time driver: build it with enable_time() or \
                 enable_all()",
            );
        }
        if has_ended(&runtime) {
            return refused(
                "the tokio runtime for async handlers has been shut down: start the scheduler on one that \
                 outlives it",
            );
        }
        Ok(Self { runtime })
    }

    /// The runtime around the caller.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is none.
    pub(crate) fn around() -> Result<Self, Error> {
        let none = "some handlers are async, and there is no tokio runtime around: call start within one, or \
                    start_async, or give one with Builder::runtime";
        Handle::try_current().map_err(|_| Error::new(ErrorKind::Config, none)).and_then(Self::on)
    }

    /// The function that begins the executions of a lane.
    pub(super) fn launch(&self, runner: Runner) -> impl Fn(Claimed, Occupied<Claimed>) + Send + Sync + use<> {
        let launcher = Launcher { runtime: self.runtime.clone(), runner: Arc::new(runner) };
        move |claimed, occupied| launcher.go_on(launcher.runner.first(claimed), occupied)
    }

    /// Ends the node if its runtime ends before it has `closed`.
    pub(super) fn watch(&self, standing: &Arc<Standing>, closed: &Arc<AtomicBool>, to: &Inboxes) {
        let (standing, watch) = (Arc::clone(standing), Watch { closed: Arc::clone(closed), to: to.clone() });
        drop(self.runtime.spawn(async move {
            loop {
                let mut rung = pin!(standing.bell().rung());
                rung.as_mut().enable();
                if watch.closed.load(Ordering::Relaxed) {
                    return;
                }
                rung.await;
            }
        }));
    }
}

/// Whether a runtime drops what is spawned on it.
fn has_ended(runtime: &Handle) -> bool {
    struct Probe(Arc<AtomicBool>);
    impl Drop for Probe {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let (is_dropped, has_run) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (probe, runs) = (Probe(Arc::clone(&is_dropped)), Arc::clone(&has_run));
    drop(runtime.spawn(async move {
        runs.store(true, Ordering::Relaxed);
        drop(probe);
    }));
    is_dropped.load(Ordering::Acquire) && !has_run.load(Ordering::Relaxed)
}

/// Waits on the runtime for as long as the node runs.
struct Watch {
    closed: Arc<AtomicBool>,
    to: Inboxes,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) {
            give_up(Event::RuntimeEnded, &mut &self.to);
        }
    }
}

/// Begins the executions of a lane on the runtime.
#[derive(Clone)]
struct Launcher {
    runtime: Handle,
    runner: Arc<Runner>,
}

impl Launcher {
    /// Takes the steps that need no runtime, so that one whose threads are blocked keeps no execution: until
    /// its task is polled, the pool has it.
    fn go_on(&self, step: Lifecycle, mut occupied: Occupied<Claimed>) {
        match step {
            Lifecycle::Start(settlement, starting) => {
                let launcher = self.clone();
                let reply = move |answer| {
                    launcher.go_on(launcher.runner.started(starting, Some(answer)), occupied);
                };
                self.runner.settle(CompleteInput::Settle(settlement, Some(Reply::Task(Box::new(reply)))));
            }
            Lifecycle::Call(running) => {
                occupied.await_poll(running.into_claimed(), self.runner.clock.now().boot);
                let task = Task { runner: Arc::clone(&self.runner), occupied, is_polled: false, begun: None };
                drop(self.runtime.spawn(task.run()));
            }
            over => self.runner.leave(over),
        }
    }
}

/// An execution on the runtime: the one that has waited longest when the task is first polled.
struct Task {
    runner: Arc<Runner>,
    /// Its seat: free again once the task has been dropped.
    occupied: Occupied<Claimed>,
    is_polled: bool,
    /// While its handler runs.
    begun: Option<Box<(Started, HandlerRun)>>,
}

impl Task {
    async fn run(mut self) {
        self.is_polled = true;
        // None is left if its pool has handed them back.
        let Some(claimed) = self.occupied.polled() else { return };
        match self.runner.first(claimed) {
            Lifecycle::Call(running) => self.perform(running).await,
            over => self.runner.leave(over),
        }
    }

    async fn perform(&mut self, mut running: Started) {
        let run = self.runner.begin(&mut running);
        let context = self.runner.context(&running);
        let began = Handler::begin(&self.runner, &run.span, context.clone(), running.claimed().payload());
        self.begun = Some(Box::new((running, run)));
        let ending = match began {
            Ok((handler, grace)) => ending(handler, &context, grace).await,
            Err(ending) => ending,
        };
        let Some(begun) = self.begun.take() else { return };
        let (running, run) = *begun;
        self.runner.end(run, running, ending);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let runner = &self.runner;
        match self.begun.take() {
            Some(begun) => {
                let (running, run) = *begun;
                runner.end(run, running, Ending::Dropped(Interruption::RuntimeEnded));
            }
            None if self.is_polled => {}
            None => {
                let claimed = self.occupied.polled();
                claimed.into_iter().for_each(|it| runner.give_back(it.give_back(runner.clock.now().db)));
            }
        }
    }
}

/// Polls a handler until it answers, or its grace is over; then drops it.
async fn ending(mut handler: Handler, context: &Context, grace: Millis) -> Ending {
    let mut patience = Patience::new(grace);
    let standing = &context.standing;
    loop {
        let mut rung = pin!(standing.bell().rung());
        rung.as_mut().enable();
        let now = context.clock.now();
        let why = context.cancellation();
        let instants = (context.begun.changes_at(standing, now), context.stopping.drops_at());
        let until = match patience.look(why, instants, now.boot) {
            FutureStep::Drop(why) => return Ending::Dropped(why),
            FutureStep::Again(until) => until,
        };
        let mut woken = pin!(woken(rung, until, now));
        let polled = poll_fn(|cx| match handler.poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => woken.as_mut().poll(cx).map(|()| None),
        });
        if let Some(answer) = polled.await {
            return Ending::Answer(answer);
        }
    }
}

/// The future of a handler: the application's code, whether it is polled or dropped.
struct Handler {
    runner: Arc<Runner>,
    running: Option<HandlerFuture>,
    span: AttemptSpan,
}

impl Handler {
    /// The handler and its grace, or what its execution came to at once.
    fn begin(
        runner: &Arc<Runner>,
        span: &AttemptSpan,
        context: Context,
        payload: &str,
    ) -> Result<(Self, Millis), Ending> {
        let begun = runner.as_handler(|| {
            let begin = || runner.handlers.begin(context.clone(), payload).map_err(Ending::from);
            runner.spans.first_within(span, &context, begin)
        });
        let (running, grace) = begun.unwrap_or_else(|said| Err(Ending::Answer(panicked(&said))))?;
        let handler = Self { runner: Arc::clone(runner), running: Some(running), span: span.clone() };
        Ok((handler, millis(grace)))
    }

    fn poll(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Answer> {
        let Some(running) = &mut self.running else { return Poll::Pending };
        let poll = || running.as_mut().poll(cx).map(|it| it.map_err(|it| with_causes(it.as_ref())));
        let polled = self.runner.as_handler(|| self.span.within(poll));
        let answered = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answered)) => Ok(answered),
            Err(said) => Err(said),
        };
        // One that panics as it is dropped has panicked, as on a thread.
        let dropped = self.end();
        Poll::Ready(match answered.and_then(|answered| dropped.map(|()| answered)) {
            Ok(answered) => answered.unwrap_or_else(Answer::Failed),
            Err(said) => panicked(&said),
        })
    }

    fn end(&mut self) -> Result<(), String> {
        let running = self.running.take();
        self.runner.as_handler(|| self.span.within(|| drop(running)))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // It was interrupted: an answer from now on does not count.
        self.end().ok();
    }
}

#[cfg(any(test, feature = "testing"))]
impl Runner {
    /// Runs an async handler to its end on this thread, on a runtime of its own.
    pub(super) fn perform_future_here(self: &Arc<Self>, mut running: Started) {
        let run = self.begin(&mut running);
        let (context, payload) = (self.context(&running), running.claimed().payload().to_owned());
        let begun = Handler::begin(self, &run.span, context, &payload);
        let ending = begun.and_then(|(mut handler, _)| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.map_err(|error| Ending::Answer(Answer::Failed(with_causes(&error))))?;
            Ok(Ending::Answer(runtime.block_on(poll_fn(|cx| handler.poll(cx)))))
        });
        self.end(run, running, ending.unwrap_or_else(|ending| ending));
    }
}

#[cfg(test)]
mod tests;
