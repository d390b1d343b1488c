//! A handler's view of its execution, and the questions it may ask.

use std::fmt;
#[cfg(feature = "tokio")]
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use chrono::{DateTime, Utc};
use crossbeam::channel::Sender;
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "sql")]
use crate::domain::Receipt;
#[cfg(feature = "tracing")]
use crate::domain::SpanOrigin;
use crate::domain::headers::Headers;
use crate::domain::payload;
use crate::domain::{Boot, Cause, Covers, Error, ErrorKind, ExecutionId, LeftOut, LogLevel, Progress, Token};
use crate::members::Standing;
#[cfg(feature = "tokio")]
use crate::members::bell::woken;
use crate::pipeline::complete::CompleteInput;
use crate::pipeline::complete::saying::Speaker;
use crate::store::Store;
use crate::store::order::too_large;
#[cfg(any(feature = "sql", feature = "testing", test))]
use crate::store::{Applied, ExecutionChange, Transition};
#[cfg(feature = "sql")]
use crate::store::{CallerConnection, Completed, joined};
use crate::time::{Clock, Now};

/// A handler's view of the execution it runs.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) schedule: Arc<str>,
    pub(crate) job: Arc<str>,
    pub(crate) begun: Begun,
    pub(crate) fire_time: DateTime<Utc>,
    pub(crate) attempt: u32,
    pub(crate) fence: i64,
    pub(crate) cause: Cause,
    pub(crate) failures: u32,
    pub(crate) snoozes: u32,
    pub(crate) headers: Option<Arc<Headers>>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) stopping: Arc<Stopping>,
    pub(crate) ledger: Ledger,
    /// What a transaction of the handler's own stores, but for the time.
    #[cfg(any(feature = "sql", feature = "testing", test))]
    pub(crate) outcome: ExecutionChange,
    /// What it has said beside its answer.
    pub(crate) speaker: Speaker,
    /// Who stores that.
    pub(crate) complete: Sender<CompleteInput>,
}

/// How far a node's shutdown has come.
#[derive(Debug)]
pub(crate) struct Stopping {
    has_begun: AtomicBool,
    /// When the futures of async handlers are dropped.
    drops_at: AtomicI64,
}

impl Default for Stopping {
    fn default() -> Self {
        Self { has_begun: AtomicBool::new(false), drops_at: AtomicI64::new(Boot::MAX.millis()) }
    }
}

impl Stopping {
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    pub(super) fn drop_at(&self, boot: Boot) {
        self.drops_at.store(boot.millis(), Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    #[cfg(feature = "tokio")]
    pub(super) fn drops_at(&self) -> Boot {
        Boot::at(self.drops_at.load(Ordering::Relaxed))
    }
}

/// Where a handler asks about its execution: over the connections of the node's clients.
#[derive(Clone)]
pub(crate) struct Ledger(pub(crate) Arc<dyn Store>);

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ledger")
    }
}

/// Why a handler is to end. It is told, and a handler on a thread that does not look runs on; the future of
/// an async one is dropped once its grace is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancellation {
    /// Its time limit has passed: the execution is TIMED_OUT, and its answer changes nothing any more.
    TimeLimit,
    /// Somebody asked for its end ([`Client::cancel`](crate::Client::cancel)), or the next occurrence
    /// replaces it ([`Overlap::Replace`](crate::Overlap::Replace)). Told within one heartbeat interval of
    /// the request while the database answers; at once if it was made through this node's own client.
    ByHand,
    /// Others have declared this node dead and taken the execution: it may run elsewhere by now.
    ExecutionLost,
    /// The node's heartbeats have not been answered for so long that others may declare it dead.
    LeaseLost,
    /// The scheduler is shutting down, and waits for the handler until its deadline. One that cannot end by
    /// then may answer [`Answer::Snooze`](crate::Answer::Snooze), so that another node goes on.
    Shutdown,
}

/// What the end of a run may be asked for, of an execution that began here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub execution: ExecutionId,
    pub token: Token,
    /// The node's incarnation when the handler began.
    pub incarnation: u64,
    /// None without a time limit.
    pub time_is_up_at: Option<Boot>,
}

impl Begun {
    /// Why its handler is to end, if it is.
    pub(crate) fn cancellation(&self, standing: &Standing, stopping: bool, now: Now) -> Option<Cancellation> {
        if self.time_is_up_at.is_some_and(|at| at <= now.boot) {
            Some(Cancellation::TimeLimit)
        } else if standing.is_cancelled(self.execution, self.token) {
            Some(Cancellation::ByHand)
        } else if self.incarnation != standing.incarnation() {
            Some(Cancellation::ExecutionLost)
        } else if !standing.has_lease(now) {
            Some(Cancellation::LeaseLost)
        } else if stopping {
            Some(Cancellation::Shutdown)
        } else {
            None
        }
    }

    /// The next instant at which that may be another answer without anybody telling of it.
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn changes_at(&self, standing: &Standing, now: Now) -> Boot {
        let instants = self.time_is_up_at.into_iter().chain([standing.lease_until()]);
        instants.filter(|at| *at > now.boot).min().unwrap_or(Boot::MAX)
    }
}

/// A value as JSON, as far as one may be stored with an execution.
fn json(what: &str, value: &impl Serialize) -> Result<String, Error> {
    let refused = |why: String| Error::new(ErrorKind::Config, format!("storing {what}: {why}"));
    let text = payload::encode(value).map_err(|error| refused(error.to_string()))?;
    too_large(what, text.len()).map_or(Ok(text), |size| Err(refused(size)))
}

/// What a handler is told of its checkpoint.
#[cfg(any(feature = "sql", feature = "testing", test))]
fn stored(execution: ExecutionId, applied: Applied) -> Result<(), Error> {
    match applied {
        Applied::Done => Ok(()),
        Applied::Lost | Applied::Held => {
            let why = "it has timed out, or was taken from this node";
            let message = format!("execution {execution} stores no checkpoint: {why}");
            Err(Error::new(ErrorKind::Conflict, message))
        }
    }
}

impl Context {
    /// The schedule's name.
    #[must_use]
    pub fn schedule(&self) -> &str {
        &self.schedule
    }

    /// The job's name.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The row id of this execution in `QRTZ_RUN`.
    #[must_use]
    pub fn execution(&self) -> ExecutionId {
        self.begun.execution
    }

    /// The planned instant of the occurrence, UTC, to the millisecond; later attempts keep it.
    #[must_use]
    pub fn fire_time(&self) -> DateTime<Utc> {
        self.fire_time
    }

    /// 1 for the first attempt at this occurrence.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many earlier attempts at this occurrence have failed, or ran out of time. Deaths of nodes are
    /// attempts, but no failures.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// How often its handlers have answered [`Snooze`](crate::Answer::Snooze), in this attempt and in those
    /// before.
    #[must_use]
    pub fn snoozes(&self) -> u32 {
        self.snoozes
    }

    /// The fencing token: grows with every claim of the schedule. Hand it to what you write to, and let
    /// that refuse a lower number than it has seen: so a process that was stopped for minutes and wakes up
    /// cannot overwrite what its successor did.
    #[must_use]
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// Why it is run: its fire time has come, somebody asked for it, an attempt before it failed.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The text of a header, if the execution has one of this name: what whoever enqueued or triggered it has
    /// given it ([`Enqueue::header`](crate::request::Enqueue::header)). Later attempts have the same.
    /// Planned executions have none.
    ///
    /// ```
    /// use firetime::{Context, HandlerError};
    ///
    /// fn mail(context: &Context, to: String) -> Result<(), HandlerError> {
    ///     let tenant = context.header("tenant").ok_or("it has no tenant")?;
    ///     println!("mail to {to}, for {tenant}");
    ///     Ok(())
    /// }
    /// # let _ = mail;
    /// ```
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.as_ref()?.get(name).map(String::as_str)
    }

    /// All its headers with their names, by name.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().flat_map(|headers| headers.iter().map(|(name, text)| (&**name, &**text)))
    }

    /// How the span of this run belongs to the trace of whoever asked for its execution: for
    /// [`Builder::on_span`](crate::Builder::on_span).
    #[cfg(feature = "tracing")]
    #[must_use]
    pub fn span_origin(&self) -> SpanOrigin {
        match self.header("traceparent") {
            None => SpanOrigin::Root,
            Some(_) if self.attempt == 1 && self.snoozes == 0 => SpanOrigin::Child,
            Some(_) => SpanOrigin::Link,
        }
    }

    /// Whether the handler is to end, for any reason that [`cancellation`](Self::cancellation) names but a
    /// shutdown, which lets it run until the deadline.
    ///
    /// ```
    /// use firetime::{Answer, Context, HandlerError};
    ///
    /// fn export(context: &Context, pages: u32) -> Result<Answer, HandlerError> {
    ///     for page in 0..pages {
    ///         if context.is_cancelled() {
    ///             return Ok(Answer::Cancelled(format!("stopped before page {page}")));
    ///         }
    ///         // Export one page.
    ///     }
    ///     Ok(Answer::Done)
    /// }
    /// # let _ = export;
    /// ```
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation().is_some_and(|it| it != Cancellation::Shutdown)
    }

    /// Why the handler is to end, if it is. A handler may look as often as it likes: no statement is sent.
    #[must_use]
    pub fn cancellation(&self) -> Option<Cancellation> {
        self.begun.cancellation(&self.standing, self.is_stopping(), self.clock.now())
    }

    /// Waits until [`is_cancelled`](Self::is_cancelled) is true, and says why: until the time limit, until
    /// somebody asks for the end of the execution, until it or the lease is lost. A shutdown, which lets
    /// handlers run until its deadline, is no such reason: see [`stopping`](Self::stopping).
    ///
    /// From then on the handler has its [grace](crate::Job::grace) to end by itself; then its future is
    /// dropped wherever it waits. Await it within a tokio runtime with its time driver, as every async
    /// handler is.
    ///
    /// ```
    /// use firetime::{Answer, Cancellation, Context, HandlerError};
    /// use std::time::Duration;
    ///
    /// async fn export(context: Context, pages: u32) -> Result<Answer, HandlerError> {
    ///     for page in 0..pages {
    ///         let why = tokio::select! {
    ///             () = tokio::time::sleep(Duration::from_millis(1)) => continue, // Export one page.
    ///             why = context.cancelled() => why,
    ///         };
    ///         return Ok(match why {
    ///             Cancellation::ByHand => Answer::Cancelled(format!("stopped before page {page}")),
    ///             // It is run anew, here or elsewhere. After the time limit no answer counts.
    ///             _ => Answer::Snooze(Duration::ZERO),
    ///         });
    ///     }
    ///     Ok(Answer::Done)
    /// }
    /// # let _ = export;
    /// ```
    #[cfg(feature = "tokio")]
    pub async fn cancelled(&self) -> Cancellation {
        let is_meant = |why: &Cancellation| *why != Cancellation::Shutdown;
        self.until(|| self.cancellation().filter(is_meant)).await
    }

    /// Waits until the scheduler is shutting down: the handler should end before the shutdown's deadline, or
    /// answer [`Answer::Snooze`](crate::Answer::Snooze) so that another node goes on. What still runs
    /// a little before the deadline is dropped.
    ///
    /// ```
    /// use firetime::{Answer, Context, HandlerError};
    /// use std::time::Duration;
    ///
    /// async fn watch(context: Context, (): ()) -> Result<Answer, HandlerError> {
    ///     tokio::select! {
    ///         () = tokio::time::sleep(Duration::from_secs(3_600)) => Ok(Answer::Done),
    ///         () = context.stopping() => Ok(Answer::Snooze(Duration::ZERO)),
    ///     }
    /// }
    /// # let _ = watch;
    /// ```
    #[cfg(feature = "tokio")]
    pub async fn stopping(&self) {
        self.until(|| self.is_stopping().then_some(())).await;
    }

    /// What this execution stands for: the time since its schedule's last success, and how many occurrences
    /// that leaves out, and why. A job that copies changed rows needs no watermark of its own, and a job that
    /// is run once after an outage knows for how many occurrences.
    ///
    /// `until` is [`fire_time`](Self::fire_time); `from` is the fire time of the newest *planned* occurrence
    /// of the schedule before that, also before an edit of its trigger or its removal, that has succeeded. So
    /// the spans of successive successes follow each other without a gap and without overlap, if no two
    /// executions of the schedule run at once ([`Overlap`](crate::Overlap)). What somebody asked for
    /// ([`Client::trigger`](crate::Client::trigger)) covers the time since the last success before its own
    /// fire time, and its success changes nothing: the next planned occurrence covers that time, too.
    ///
    /// The answer is that of the ledger when it is asked: another attempt, or the same one after a snooze,
    /// may hear more. Occurrences that an edit of the trigger withdrew have no row there, and are not
    /// counted; nor is what retention removed ([`Builder::retention`](crate::Builder::retention)).
    ///
    /// Each call reads the database, over the connections that the scheduler's
    /// [`Client`](crate::Scheduler::client) uses, 64 at most: it takes up to two store timeouts if the
    /// network is silent, and reads one row of the ledger for each attempt, or skipped span, that is left
    /// out. A handler that does not call it costs nothing.
    ///
    /// ```
    /// use firetime::{Context, HandlerError};
    ///
    /// fn copy_orders(context: &Context, (): ()) -> Result<(), HandlerError> {
    ///     let covers = context.covers()?;
    ///     match covers.since {
    ///         Some(since) => println!("copy what changed after {since}, up to {}", covers.until),
    ///         None => println!("copy everything up to {}", covers.until),
    ///     }
    ///     if covers.left_out.missed > 0 {
    ///         println!("{} runs were missed", covers.left_out.missed);
    ///     }
    ///     Ok(())
    /// }
    /// # let _ = copy_orders;
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the execution is no longer in the ledger; or the database's failure:
    /// [`ErrorKind::Unavailable`] also if no connection becomes free within the store timeout. Nothing is
    /// changed in any case, and asking again may help.
    pub fn covers(&self) -> Result<Covers, Error> {
        let gone = || {
            let (execution, schedule) = (self.execution(), &self.schedule);
            let what = format!("execution {execution} of {schedule:?} is no longer in the ledger");
            Error::new(ErrorKind::NotFound, format!("asking what it covers: {what}: its row was deleted"))
        };
        self.ledger.0.covers(self.execution(), LeftOut::MOST)?.ok_or_else(gone)
    }

    /// Stores in a transaction of the handler's own that the execution has succeeded: what the handler does
    /// there and its outcome are one commit. The handler answers with the receipt once it has committed.
    ///
    /// Whatever becomes of the handler behind this call (an error, a panic, a lost answer of its COMMIT), the
    /// node looks at what is stored before it decides. Committed is SUCCEEDED, whatever the handler says.
    /// Rolled back is no success: with the receipt as its answer, or with none, the run has failed, and
    /// is tried again as its job says. Whoever kills the process at any point finds both or neither.
    ///
    /// The execution's row stays locked until the transaction ends; with a fixed delay, that of its schedule,
    /// too. Call it last, commit, and return: with the commit the execution has ended, and the next one of
    /// its schedule may begin. If the answer to the COMMIT is lost, do not make the transaction anew: a
    /// second call is refused.
    ///
    /// ```
    /// use diesel::prelude::*;
    /// use firetime::{Answer, Context, HandlerError};
    ///
    /// fn charge(context: &Context, order: i64) -> Result<Answer, HandlerError> {
    ///     let mut connection = diesel::SqliteConnection::establish("shop.db")?;
    ///     let receipt = connection.immediate_transaction(|connection| {
    ///         // INSERT INTO charges ...
    ///         let _ = order;
    ///         Ok::<_, HandlerError>(context.complete_in(connection)?)
    ///     })?;
    ///     Ok(Answer::Completed(receipt))
    /// }
    /// # let _ = charge;
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the execution is no longer this handler's to end: it was completed before,
    /// its time limit has passed, somebody asked for its end, or it was taken from this node. Roll back then,
    /// as `?` does. Otherwise the database's failure.
    #[cfg(feature = "sql")]
    pub fn complete_in<'c, C: CallerConnection>(&self, connection: &'c mut C) -> C::Outcome<'c, Receipt> {
        let now = self.clock.now();
        let outcome = ExecutionChange { now: now.db, ..self.outcome.clone() };
        let outcome = outcome.with_result(self.speaker.saying.result());
        let (receipt, execution) =
            (Receipt { execution: outcome.execution, token: outcome.token }, self.execution());
        let ended = self.begun.cancellation(&self.standing, false, now);
        self.speaker.saying.complete();
        joined(Arc::clone(&self.ledger.0), connection, move |verbs| {
            let refused = |why: &str| {
                let message = format!("execution {execution} cannot be completed: {why}; roll back");
                Err(Error::new(ErrorKind::Conflict, message))
            };
            match ended {
                Some(Cancellation::TimeLimit) => return refused("its time limit has passed"),
                Some(Cancellation::ByHand) => return refused("somebody asked for its end"),
                Some(Cancellation::ExecutionLost) => return refused("it was taken from this node"),
                Some(Cancellation::LeaseLost | Cancellation::Shutdown) | None => {}
            }
            match verbs.complete(&outcome)? {
                Completed::Done => Ok(receipt),
                Completed::Cancelled => refused("somebody asked for its end"),
                Completed::Lost => refused("it has ended, or was taken from this node"),
                Completed::Held => refused("another transaction holds its schedule's row"),
            }
        })
    }

    /// Stores how far the handler has come, in place of what was stored before: the next run of this
    /// execution goes on there ([`resume`](Self::resume)), after a failure, a death, a snooze or a retry by
    /// hand, on whatever node. Any serde value, up to 8 KiB of JSON. `firetime executions show` shows it.
    ///
    /// One small transaction with each call: store what takes seconds to do again. With
    /// [`checkpoint_in`](Self::checkpoint_in) it is one commit with what it stands for. In an async handler
    /// call [`checkpoint_async`](Self::checkpoint_async).
    ///
    /// ```
    /// use firetime::{Context, HandlerError};
    ///
    /// fn export(context: &Context, pages: u32) -> Result<(), HandlerError> {
    ///     for page in context.resume()?.unwrap_or(0)..pages {
    ///         // Export one page.
    ///         context.checkpoint(&(page + 1))?;
    ///     }
    ///     Ok(())
    /// }
    /// # let _ = export;
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the execution is no longer this handler's: its time limit has passed, or
    /// it was taken from this node, and nothing is stored; [`ErrorKind::Config`] if the value has more than
    /// 8 KiB of JSON or cannot be written as JSON; or the database's failure.
    #[cfg(any(feature = "sql", feature = "testing", test))]
    pub fn checkpoint(&self, value: &impl Serialize) -> Result<(), Error> {
        self.store_checkpoint(&self.checkpoint_of(value)?)
    }

    #[cfg(any(feature = "sql", feature = "testing", test))]
    pub(crate) fn store_checkpoint(&self, checkpoint: &ExecutionChange) -> Result<(), Error> {
        stored(self.execution(), self.ledger.0.checkpoint(checkpoint)?)
    }

    /// Stores how far the handler has come, as [`checkpoint`](Self::checkpoint) does, in a transaction of the
    /// handler's own: it is in force if and when that commits. The execution's row stays locked until then.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint). Roll back after them.
    #[cfg(feature = "sql")]
    pub fn checkpoint_in<'c, C: CallerConnection>(
        &self,
        value: &impl Serialize,
        connection: &'c mut C,
    ) -> C::Outcome<'c, ()> {
        let (checkpoint, execution) = (self.checkpoint_of(value), self.execution());
        joined(Arc::clone(&self.ledger.0), connection, move |verbs| {
            stored(execution, verbs.checkpoint(&checkpoint?)?)
        })
    }

    #[cfg(any(feature = "sql", feature = "testing", test))]
    pub(crate) fn checkpoint_of(&self, value: &impl Serialize) -> Result<ExecutionChange, Error> {
        let text = json("a checkpoint", value)?;
        let (transition, now) = (Transition::Checkpoint(text), self.clock.now().db);
        Ok(ExecutionChange { transition, now, ..self.outcome.clone() })
    }

    /// The value of the last [`checkpoint`](Self::checkpoint) of this execution, by whichever run; none if
    /// there was none. Each call reads the database. In an async handler call
    /// [`resume_async`](Self::resume_async).
    ///
    /// # Errors
    /// [`ErrorKind::Data`] if the value is none of `T`, as after a release that changed it; or the database's
    /// failure.
    pub fn resume<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let Some(text) = self.ledger.0.checkpoint_of(self.execution())? else { return Ok(None) };
        let none = |said| Error::new(ErrorKind::Data, format!("reading a checkpoint: {said}: {text}"));
        payload::decode(&text).map(Some).map_err(none)
    }

    /// Leaves a result, in place of one that this run has left before: it is stored with the execution's
    /// success, and with nothing else. Any serde value, up to 8 KiB of JSON.
    /// [`ExecutionDetails::result`](crate::ExecutionDetails::result) has it, and `firetime executions show`.
    ///
    /// No statement is sent: it goes with the outcome. With [`complete_in`](Self::complete_in) it is stored
    /// by that transaction, if it was left before that call.
    ///
    /// ```
    /// use firetime::{Context, HandlerError};
    ///
    /// fn count(context: &Context, words: Vec<String>) -> Result<(), HandlerError> {
    ///     context.result(&words.len())?;
    ///     Ok(())
    /// }
    /// # let _ = count;
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the value has more than 8 KiB of JSON or cannot be written as JSON; the
    /// result stays what it was.
    pub fn result(&self, value: &impl Serialize) -> Result<(), Error> {
        self.speaker.saying.leave(json("a result", value)?);
        Ok(())
    }

    /// Says something of this execution, for people: [`Client::logs`](crate::Client::logs) and
    /// `firetime executions logs` show it. A line has up to 500 characters, the rest is cut off; of an
    /// execution the newest 200 lines are kept, each with its time, as long as the execution itself.
    ///
    /// A call only adds to a buffer. That is stored every two seconds while the handler runs, and before the
    /// outcome when it ends: what was said last before the process dies is lost. Once the handler has
    /// returned nothing is added.
    ///
    /// ```
    /// use firetime::{Context, HandlerError};
    ///
    /// fn export(context: &Context, pages: u64) -> Result<(), HandlerError> {
    ///     for page in 0..pages {
    ///         // Export one page.
    ///         context.progress(page + 1, pages);
    ///     }
    ///     context.log(format!("exported {pages} pages"));
    ///     Ok(())
    /// }
    /// # let _ = export;
    /// ```
    pub fn log(&self, line: impl AsRef<str>) {
        self.log_at(LogLevel::Info, line.as_ref());
    }

    /// As [`log`](Self::log), at another level.
    pub(crate) fn log_at(&self, level: LogLevel, line: &str) {
        if self.speaker.saying.line(level, self.clock.now().db, line) {
            self.speak();
        }
    }

    /// Says how far the handler has come, in place of what it said before: `done` of `total`, in whatever it
    /// counts. It is stored and shown as [`log`](Self::log)'s lines are.
    pub fn progress(&self, done: u64, total: u64) {
        if self.speaker.saying.progress(Progress::new(done, total)) {
            self.speak();
        }
    }

    fn speak(&self) {
        // A completer that has ended is past its deadline: nothing of this run is stored any more.
        self.complete.send(CompleteInput::Says(self.speaker.clone())).ok();
    }

    /// Whether the scheduler is shutting down: a long job may end early.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.has_begun()
    }

    /// Waits until `look` finds something. It is asked again whenever the bell rings, and at the instants at
    /// which the cancellation may change by itself.
    #[cfg(feature = "tokio")]
    async fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            let mut rung = pin!(self.standing.bell().rung());
            rung.as_mut().enable();
            // Before the look: what changes in between is an instant to wait for.
            let now = self.clock.now();
            if let Some(found) = look() {
                return found;
            }
            woken(rung, self.begun.changes_at(&self.standing, now), now).await;
        }
    }
}
