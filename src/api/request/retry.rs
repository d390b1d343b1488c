//! Retry: another attempt at an execution that has ended without success.

use super::{check, request};
use crate::api::Client;
#[cfg(doc)]
use crate::domain::ErrorKind;
use crate::domain::{Error, ExecutionId, ExecutionState, ScheduleState};
use crate::store::Verbs;
use crate::store::order::{self, ExecutionOrder};

request! {
    /// Makes another attempt at an execution that is FAILED, TIMED_OUT, CANCELLED or ABANDONED, and that none
    /// has followed. Made by [`Client::retry`].
    ///
    /// The attempt has the next number, the same fire time and payload, and is due at once, or at its fire
    /// time if that lies ahead. If it fails, it is retried as far as its job's retries reach for its number.
    ///
    /// ```
    /// use firetime::{Client, Job, Retried, Schedule, Trigger, Triggered};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// # let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// # client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let Triggered::Pending(execution) = client.trigger("nightly").run()? else { panic!() };
    /// client.cancel(execution).run()?;
    /// assert!(matches!(client.retry(execution).reason("after all").run()?, Retried::Pending(_)));
    /// assert_eq!(client.retry(execution).run()?, Retried::Followed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    RetryNow { execution: ExecutionId } -> Retried
}

impl Client {
    /// Makes another attempt at an execution that has ended without success.
    pub fn retry(&self, execution: impl Into<ExecutionId>) -> RetryNow<'_> {
        RetryNow { client: self, execution: execution.into(), by: self.attribution() }
    }
}

impl RetryNow<'_> {
    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters;
    /// [`ErrorKind::NotFound`] if the application has no such execution; or the database's failure.
    pub fn run(self) -> Result<Retried, Error> {
        self.over(&*self.client.store)
    }

    fn over(&self, verbs: &dyn Verbs) -> Result<Retried, Error> {
        check(&self.by)?;
        let Self { client, execution, by } = self;
        let (application, execution) = (client.application.clone(), *execution);
        let order = ExecutionOrder::new(application, execution, by.clone());
        Ok(match verbs.retry(&order)? {
            order::Retry::Pending(execution) => Retried::Pending(execution),
            order::Retry::State(Some(state)) => Retried::NotRetryable(state),
            order::Retry::State(None) => return Err(client.unreadable_execution(execution)),
            order::Retry::Followed => Retried::Followed,
            order::Retry::KeyTaken(keeper) => Retried::KeyTaken(keeper),
            order::Retry::NotRunnable(state) => Retried::NotRunnable(state.unwrap_or(ScheduleState::Error)),
            order::Retry::Unknown => return Err(client.unknown_execution(execution)),
        })
    }
}

/// The answer to a [`RetryNow`](crate::request::RetryNow).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retried {
    /// The attempt waits for a node; its row id in `QRTZ_RUN`.
    Pending(ExecutionId),
    /// Another attempt has followed it: look at that one.
    Followed,
    /// It was enqueued with a [key](crate::request::Enqueue::key), which this execution has by now, and has
    /// not ended.
    KeyTaken(ExecutionId),
    /// It is in this state: it has not ended, has succeeded, or was skipped.
    NotRetryable(ExecutionState),
    /// Its schedule is in this state, in which nothing of it runs.
    NotRunnable(ScheduleState),
}
