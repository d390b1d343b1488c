//! Jobs: a stable name tied to a payload type, the handlers that run them, and what a handler is told.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use crate::clock::{self, Micros};
use crate::model::{ExecutionId, JobPolicy, JobSpec};
use crate::panics::{brief, guarded};
use crate::payload;
use crate::pipeline::poll::decode::Catalog;

/// What a handler returns when it fails: any error. Its text is stored with the execution (4,000 characters).
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// A job: a name that stays the same over releases and servers, and the type of its payload.
///
/// The payload is stored as JSON. By default an occurrence whose node dies while it runs is run again on
/// another (at-least-once), but if that node dies too it is FAILED; and a failure is not retried.
///
/// These policies ([`Job::recovery`], [`Job::max_attempts`], [`Job::retries`]) are stored with the job. Those
/// of the node that joined last with a handler for it hold for all nodes.
/// [`Client::ensure`](crate::Client::ensure) stores them only if the job is new.
///
/// ```
/// use firetime::Job;
/// use std::time::Duration;
///
/// const GREET: Job<String> = Job::new("greet");
/// const BILL: Job<u64> = Job::new("bill").retries(3, Duration::from_secs(30));
/// assert_eq!(GREET.name(), "greet");
/// # let _ = BILL;
/// ```
#[derive(Debug)]
pub struct Job<P> {
    name: &'static str,
    policy: JobPolicy,
    payload: PhantomData<fn(P)>,
}

impl<P> Clone for Job<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Job<P> {}

impl<P> Job<P> {
    /// A job called `name`: 1 to 200 characters, none of them control characters (checked where it is used).
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        let policy = JobPolicy { recover: true, max_attempts: 2, max_tries: 1, retry_delay: Duration::ZERO };
        Self { name, policy, payload: PhantomData }
    }

    /// Whether an occurrence whose node died while it ran is run again. Default: true (at-least-once);
    /// false makes it at-most-once.
    #[must_use]
    pub const fn recovery(mut self, recover: bool) -> Self {
        self.policy.recover = recover;
        self
    }

    /// How many attempts at an occurrence may end with the death of their node: after the last of them it is
    /// FAILED, `attempts exhausted`, since it may be what kills them. Default: 2; at least 1. Failures are
    /// counted by [`Job::retries`].
    ///
    /// A job that always kills its process takes so many nodes with it for each occurrence: stay below the
    /// number of nodes that must not all be down at once. One that runs for long, on nodes that are often
    /// killed, may need more.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = if attempts == 0 { 1 } else { attempts };
        self
    }

    /// Tries again up to `retries` times after a failure, each no sooner than `delay` after the last; an
    /// attempt that its node's death ended counts as one of them. The node that stored the failure polls in
    /// time for the retry, at most every 100 ms. If it dies or stops meanwhile, or had helped another node
    /// out, the next poll finds the retry: up to the poll interval late. Default: none.
    #[must_use]
    pub const fn retries(mut self, retries: u32, delay: Duration) -> Self {
        self.policy.max_tries = retries.saturating_add(1);
        self.policy.retry_delay = delay;
        self
    }

    /// The name stored in the database.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn spec(&self) -> JobSpec {
        JobSpec { name: self.name.to_owned(), policy: self.policy }
    }
}

/// What a handler is told about the execution it runs.
#[derive(Clone, Debug)]
pub struct Context {
    pub(crate) schedule: Arc<str>,
    pub(crate) job: Arc<str>,
    pub(crate) execution: ExecutionId,
    pub(crate) fire_time: DateTime<Utc>,
    pub(crate) attempt: u32,
    pub(crate) fence: i64,
    pub(crate) stopping: Arc<AtomicBool>,
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

    /// The fencing token: grows with every claim of the schedule. Hand it to what you write to, and let
    /// that refuse a lower number than it has seen: so a process that was stopped for minutes and wakes up
    /// cannot overwrite what its successor did.
    #[must_use]
    pub fn fence(&self) -> i64 {
        self.fence
    }

    /// Whether the scheduler is shutting down: a long job may end early.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

type Run = Box<dyn Fn(&Context, &str) -> Result<(), HandlerError> + Send + Sync>;
type Check = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// A handler with its payload's type erased.
struct Handler {
    spec: JobSpec,
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
    pub(crate) fn add<P: DeserializeOwned + 'static>(
        &mut self,
        job: Job<P>,
        run: impl Fn(&Context, P) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) -> bool {
        let handler = Handler {
            spec: job.spec(),
            check: Box::new(payload::check::<P>),
            run: Box::new(move |context, text| run(context, payload::decode(text)?)),
        };
        self.by_name.insert(job.name.to_owned(), handler).is_none()
    }

    pub(crate) fn specs(&self) -> Vec<JobSpec> {
        self.by_name.values().map(|handler| handler.spec.clone()).collect()
    }

    pub(crate) fn policy(&self, job: &str) -> Option<JobPolicy> {
        self.by_name.get(job).map(|handler| handler.spec.policy)
    }

    pub(crate) fn run(&self, context: &Context, payload: &str) -> Result<(), HandlerError> {
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
        clock::boot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            handlers.add(Job::<()>::new(name), move |_, ()| {
                let _its_own = &panics;
                Ok(())
            });
        }
        drop(handlers);
    }

    /// Ten retries once let a job that kills its node take eleven of them.
    #[test]
    fn retries_allow_no_more_deaths() {
        let policy = Job::<()>::new("job").retries(10, Duration::ZERO).spec().policy;
        assert_eq!((policy.max_attempts, policy.max_tries), (2, 11));
    }
}
