//! The context of an execution for a handler that a test calls alone.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TestCluster;
use crate::api::Job;
use crate::domain::headers::Headers;
use crate::domain::{Boot, Cause, Progress, payload};
use crate::members::Standing;
use crate::node::context::{Cancellation, Context};
use crate::time::Lease;

/// So long its handler would sleep.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

/// What a handler that a test calls alone is told of its execution, and what it has left with it. Made by
/// [`Context::fake`].
///
/// The handler takes [`fake.context()`](Self::context), an async one too. What is to be told otherwise than
/// by [default](Context::fake) is said before; [`result`](Self::result), [`lines`](Self::lines) and
/// [`progress`](Self::progress) show afterwards what it has left.
///
/// Its execution runs in a store in memory: checkpoints are kept there, and [`Context::covers`] says that
/// nothing ran before. Only [`Context::complete_in`] is refused, as the handler's own database knows no such
/// execution.
#[derive(Debug)]
pub struct FakeContext {
    context: Context,
    /// In which the execution runs.
    _cluster: TestCluster,
}

impl Context {
    /// A context for a handler of this job that a test calls itself. Unless the [`FakeContext`] is given
    /// others, it is of this execution:
    ///
    /// | | |
    /// | --- | --- |
    /// | attempt, fence | 1 |
    /// | failures, snoozes | 0 |
    /// | schedule | `queue:JOB` |
    /// | cause | [`Cause::Enqueued`] |
    /// | fire time | 2026-01-01T00:00:00Z |
    /// | headers, checkpoint | none |
    /// | cancelled | no |
    ///
    /// ```
    /// use firetime::{Context, HandlerError, Job};
    ///
    /// const MAIL: Job<String> = Job::new("mail");
    ///
    /// fn mail(context: &Context, to: String) -> Result<(), HandlerError> {
    ///     let tenant = context.header("tenant").ok_or("it has no tenant")?;
    ///     if context.attempt() > 3 {
    ///         context.log(format!("gave up on {to} of {tenant}"));
    ///     }
    ///     context.result(&to.len())?;
    ///     Ok(())
    /// }
    ///
    /// assert!(mail(&Context::fake(MAIL).context(), "ann".to_owned()).is_err());
    ///
    /// let late = Context::fake(MAIL).header("tenant", "7").attempt(4);
    /// mail(&late.context(), "ann".to_owned()).unwrap();
    /// assert_eq!(late.lines(), ["gave up on ann of 7"]);
    /// assert_eq!(late.result(), Some(3));
    /// ```
    ///
    /// # Panics
    /// If the job's name is none.
    #[must_use]
    pub fn fake<P>(job: Job<P>) -> FakeContext {
        let name = Job::<()>::new(job.name());
        let mut cluster = TestCluster::new("test");
        let (time, (send, given)) = (cluster.time(), crossbeam::channel::bounded(1));
        let handler = move |context: &Context, ()| {
            send.send(context.clone()).ok();
            time.sleep(FOR_EVER);
            Ok(())
        };
        let joined = cluster.node(|node| node.handler(name, handler));
        joined.unwrap_or_else(|error| panic!("a fake context: {error:#}"));
        let enqueued = cluster.client().enqueue(name, &()).run();
        enqueued.unwrap_or_else(|error| panic!("a fake context: {error:#}"));
        cluster.run_due();
        let context = given.recv().unwrap_or_else(|_| panic!("a fake context: its execution did not begin"));
        FakeContext { context, _cluster: cluster }
    }
}

impl FakeContext {
    /// The context to call the handler with, each time the same one.
    #[must_use]
    pub fn context(&self) -> Context {
        self.context.clone()
    }

    /// Of this schedule; `queue:JOB` by default.
    #[must_use]
    pub fn schedule(mut self, name: &str) -> Self {
        self.context.schedule = name.into();
        self
    }

    /// Of this fire time; 2026-01-01T00:00:00Z by default.
    #[must_use]
    pub fn fire_time(mut self, fire_time: DateTime<Utc>) -> Self {
        self.context.fire_time = fire_time;
        self
    }

    /// The attempt with this number, from 1 on; 1 by default.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.context.attempt = attempt;
        self
    }

    /// So many earlier attempts have failed; 0 by default.
    #[must_use]
    pub fn failures(mut self, failures: u32) -> Self {
        self.context.failures = failures;
        self
    }

    /// Its handlers have snoozed so often; 0 by default.
    #[must_use]
    pub fn snoozes(mut self, snoozes: u32) -> Self {
        self.context.snoozes = snoozes;
        self
    }

    /// With this fencing token; 1 by default.
    #[must_use]
    pub fn fence(mut self, fence: i64) -> Self {
        self.context.fence = fence;
        self
    }

    /// Run for this cause; [`Cause::Enqueued`] by default.
    #[must_use]
    pub fn cause(mut self, cause: Cause) -> Self {
        self.context.cause = cause;
        self
    }

    /// With a header more; none by default.
    #[must_use]
    pub fn header(mut self, name: &str, text: &str) -> Self {
        let mut headers = self.context.headers.as_deref().cloned().unwrap_or_default();
        headers.insert(name.to_owned(), text.to_owned());
        self.context.headers = Some(Arc::<Headers>::new(headers));
        self
    }

    /// To end for this reason, from the beginning on; by default nothing is to end.
    #[must_use]
    pub fn cancelled(mut self, why: Cancellation) -> Self {
        let context = &mut self.context;
        match why {
            Cancellation::TimeLimit => context.begun.time_is_up_at = Some(Boot::MIN),
            Cancellation::ByHand => {
                drop(context.standing.ask([(context.begun.execution, context.begun.token)].into()));
            }
            Cancellation::ExecutionLost => context.standing.end(),
            Cancellation::LeaseLost => {
                context.standing = Arc::new(Standing::default());
                context.standing.renew(&Lease::NONE, context.clock.now());
            }
            Cancellation::Shutdown => context.stopping.begin(),
        }
        self
    }

    /// Resumes at a checkpoint of an earlier run; by default there is none.
    ///
    /// # Panics
    /// If the value is none that [`Context::checkpoint`] takes.
    #[must_use]
    pub fn resuming(self, value: &impl Serialize) -> Self {
        self.context.checkpoint(value).unwrap_or_else(|error| panic!("{error:#}"));
        self
    }

    /// The result that the handler has left, if it is of this type.
    #[must_use]
    pub fn result<T: DeserializeOwned>(&self) -> Option<T> {
        payload::decode(&self.context.speaker.saying.result()?).ok()
    }

    /// The lines that the handler has said, oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.context.speaker.saying.words().0.into_iter().map(|line| line.text).collect()
    }

    /// How far the handler has said to have come, if it did.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        self.context.speaker.saying.words().1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ErrorKind, HandlerError};

    const EXPORT: Job<u32> = Job::new("export");

    fn export(context: &Context, pages: u32) -> Result<(), HandlerError> {
        for page in context.resume()?.unwrap_or(0)..pages {
            if context.is_cancelled() {
                return Err(format!("stopped before page {page}").into());
            }
            context.checkpoint(&(page + 1))?;
            context.progress(u64::from(page + 1), u64::from(pages));
        }
        Ok(())
    }

    #[test]
    fn a_handler_is_called_alone() {
        let fake = Context::fake(EXPORT);
        export(&fake.context(), 3).unwrap();
        assert_eq!(fake.context().resume::<u32>().unwrap(), Some(3));
        assert_eq!(fake.progress(), Some(Progress::new(3, 3)));
        let resumed = Context::fake(EXPORT).resuming(&2);
        export(&resumed.context(), 3).unwrap();
        export(&resumed.context(), 2).unwrap();
        assert_eq!(resumed.context().resume::<u32>().unwrap(), Some(3), "nothing was done anew");
    }

    /// As the documentation of [`Context::fake`] has it.
    #[test]
    fn each_field_has_its_default() {
        let context = Context::fake(EXPORT).context();
        assert_eq!((context.schedule(), context.job()), ("queue:export", "export"));
        assert_eq!(context.fire_time(), "2026-01-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap());
        assert_eq!((context.attempt(), context.failures(), context.snoozes()), (1, 0, 0));
        assert_eq!((context.fence(), context.cause()), (1, &Cause::Enqueued));
        assert_eq!((context.headers().count(), context.resume::<u32>().unwrap()), (0, None));
        assert!(!context.is_cancelled());
    }

    #[test]
    fn each_field_is_settable() {
        let at = "2026-03-29T01:00:00Z".parse().unwrap();
        let cause = Cause::ByHand { actor: "ann".to_owned(), reason: "again".to_owned() };
        let fake = Context::fake(EXPORT)
            .schedule("nightly")
            .fire_time(at)
            .attempt(3)
            .failures(1)
            .snoozes(2)
            .fence(9)
            .cause(cause.clone())
            .header("tenant", "7")
            .header("region", "eu");
        let context = fake.context();
        assert_eq!((context.schedule(), context.job(), context.fire_time()), ("nightly", "export", at));
        assert_eq!((context.attempt(), context.failures(), context.snoozes()), (3, 1, 2));
        assert_eq!((context.fence(), context.cause()), (9, &cause));
        assert_eq!(context.headers().collect::<Vec<_>>(), [("region", "eu"), ("tenant", "7")]);
        let covers = context.covers().unwrap();
        assert_eq!((covers.since, covers.left_out.missed), (None, 0));
    }

    #[test]
    fn each_end_is_told_as_itself() {
        let context = Context::fake(EXPORT).context();
        assert_eq!((context.cancellation(), context.is_stopping()), (None, false));
        for why in [
            Cancellation::TimeLimit,
            Cancellation::ByHand,
            Cancellation::ExecutionLost,
            Cancellation::LeaseLost,
            Cancellation::Shutdown,
        ] {
            let fake = Context::fake(EXPORT).cancelled(why);
            assert_eq!(fake.context().cancellation(), Some(why));
            assert_eq!(export(&fake.context(), 1).is_err(), why != Cancellation::Shutdown, "{why:?}");
        }
    }

    #[test]
    fn what_is_said_too_long_is_refused_as_in_production() {
        let fake = Context::fake(EXPORT);
        let refused = fake.context().result(&"x".repeat(9_000)).unwrap_err();
        assert_eq!((refused.kind(), fake.result::<String>()), (ErrorKind::Config, None));
    }
}
