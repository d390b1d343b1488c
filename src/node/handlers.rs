//! The handlers of one node by job, and what a handler is told.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use crate::domain::payload;
use crate::domain::user_code::{brief, guarded};
use crate::domain::{
    Answer, Cause, Covers, Error, ErrorKind, ExecutionId, JobPolicy, JobSpec, LeftOut, Millis,
};
use crate::members::Standing;
use crate::pipeline::poll::decode::Catalog;
use crate::store::Store;
use crate::time::{self, Clock, Micros};

/// What a handler returns when it fails: any error. Its text is stored with the execution (4,000 characters).
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// What a handler is told about the execution it runs.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) schedule: Arc<str>,
    pub(crate) job: Arc<str>,
    pub(crate) execution: ExecutionId,
    pub(crate) fire_time: DateTime<Utc>,
    pub(crate) attempt: u32,
    pub(crate) fence: i64,
    pub(crate) cause: Cause,
    pub(crate) failures: u32,
    pub(crate) snoozes: u32,
    pub(crate) standing: Arc<Standing>,
    /// That of the node as the handler began.
    pub(crate) incarnation: u64,
    pub(crate) clock: Arc<Clock>,
    /// Boot clock; none without a time limit.
    pub(crate) time_is_up_at: Option<Millis>,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) ledger: Ledger,
}

/// Where a handler asks about its execution: over the connections of the node's clients.
#[derive(Clone)]
pub(crate) struct Ledger(pub(crate) Arc<dyn Store>);

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ledger")
    }
}

/// Why a handler is to end. It is told, never forced: a handler that does not look runs on.
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
        self.execution
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

    /// How often its handlers have answered [`Snooze`](Answer::Snooze), in this attempt and those before.
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
        let now = self.clock.now();
        if self.time_is_up_at.is_some_and(|at| at <= now.boot) {
            Some(Cancellation::TimeLimit)
        } else if self.standing.is_cancelled(self.execution) {
            Some(Cancellation::ByHand)
        } else if self.incarnation != self.standing.incarnation() {
            Some(Cancellation::ExecutionLost)
        } else if !self.standing.has_lease(now) {
            Some(Cancellation::LeaseLost)
        } else if self.is_stopping() {
            Some(Cancellation::Shutdown)
        } else {
            None
        }
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
    ///     match covers.from {
    ///         Some(from) => println!("copy what changed after {from}, up to {}", covers.until),
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
            let (execution, schedule) = (self.execution, &self.schedule);
            let what = format!("execution {execution} of {schedule:?} is no longer in the ledger");
            Error::new(ErrorKind::NotFound, format!("asking what it covers: {what}: its row was deleted"))
        };
        self.ledger.0.covers(self.execution, LeftOut::MOST)?.ok_or_else(gone)
    }

    /// Whether the scheduler is shutting down: a long job may end early.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

type Run = Box<dyn Fn(&Context, &str) -> Result<Answer, HandlerError> + Send + Sync>;
type Check = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// A handler with its payload's type erased.
struct Handler {
    spec: JobSpec,
    /// The lane that the job names.
    lane: Option<&'static str>,
    check: Check,
    run: Run,
}

/// The handlers of one scheduler, by job name.
#[derive(Default)]
pub(crate) struct Handlers {
    by_name: BTreeMap<String, Handler>,
}

/// What handlers captured is dropped with them, of each on its own: two panics in one unwinding would end the
/// process.
impl Drop for Handlers {
    fn drop(&mut self) {
        for handler in std::mem::take(&mut self.by_name).into_values() {
            guarded(|| drop(handler)).ok();
        }
    }
}

impl Handlers {
    /// Adds a handler; false if the job has one already.
    pub(crate) fn add<P: DeserializeOwned + 'static, A: Into<Answer>>(
        &mut self,
        spec: JobSpec,
        lane: Option<&'static str>,
        run: impl Fn(&Context, P) -> Result<A, HandlerError> + Send + Sync + 'static,
    ) -> bool {
        let name = spec.name.clone();
        let handler = Handler {
            spec,
            lane,
            check: Box::new(payload::check::<P>),
            run: Box::new(move |context, text| run(context, payload::decode(text)?).map(Into::into)),
        };
        self.by_name.insert(name, handler).is_none()
    }

    pub(crate) fn specs(&self) -> Vec<JobSpec> {
        self.by_name.values().map(|handler| handler.spec.clone()).collect()
    }

    /// The jobs that name a lane, with its name.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_name.iter().filter_map(|(job, handler)| Some((&**job, handler.lane?)))
    }

    pub(crate) fn policy(&self, job: &str) -> Option<JobPolicy> {
        self.by_name.get(job).map(|handler| handler.spec.policy)
    }

    pub(crate) fn run(&self, context: &Context, payload: &str) -> Result<Answer, HandlerError> {
        let handler = self.by_name.get(context.job()).ok_or("this node has no handler for the job")?;
        (handler.run)(context, payload)
    }
}

impl Catalog for Handlers {
    fn jobs(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }

    fn decodes(&self, job: &str, payload: &str) -> Result<(), String> {
        let handler = self.by_name.get(job).ok_or("no handler for the job")?;
        // The application's code: a payload whose decoding panics is one that cannot be decoded.
        guarded(|| (handler.check)(payload))
            .unwrap_or_else(|said| Err(brief(format_args!("decoding panicked: {said}"))))
    }

    fn clock(&self) -> Micros {
        time::boot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> JobSpec {
        JobSpec { name: name.to_owned(), policy: JobPolicy::DEFAULT }
    }

    /// Both in one unwinding would end the process.
    #[test]
    fn handlers_that_panic_when_they_are_dropped_end_one_by_one() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("a handler's own");
            }
        }
        let mut handlers = Handlers::default();
        for name in ["one", "two"] {
            let panics = Panics;
            handlers.add(named(name), None, move |_, ()| {
                let _its_own = &panics;
                Ok(())
            });
        }
        drop(handlers);
    }
}
