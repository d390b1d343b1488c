//! Cancel: an execution ends, or does not begin.

use super::{check, request};
use crate::api::Client;
#[cfg(doc)]
use crate::domain::ErrorKind;
use crate::domain::{Error, ExecutionId, ExecutionState};
use crate::store::Verbs;
use crate::store::order::{self, ExecutionOrder};

request! {
    /// Cancels an execution. Made by [`Client::cancel`].
    ///
    /// The id of any of its attempts names it: of an execution that was tried again the last attempt is
    /// cancelled.
    ///
    /// One that has not begun is CANCELLED at once. One that runs is asked to end: the request is stored, the
    /// node that runs it reads it with its next heartbeat, and from then on
    /// [`Context::is_cancelled`](crate::Context::is_cancelled) is true there. If the handler then returns an
    /// error, the execution is CANCELLED and not retried; if it succeeds all the same, it is SUCCEEDED. One
    /// that is TIMED_OUT while its handler runs on stays so, and is not retried when that returns. Nothing
    /// follows it in any case: neither a retry, nor another attempt if its node dies. A handler that does not
    /// look at `is_cancelled` runs to its end.
    ///
    /// [`Client::executions`] tells when the end was asked for, by whom, and when the node heard of it.
    ///
    /// ```
    /// use firetime::{Cancelled, Client, ExecutionState, Job, Schedule, Trigger, Triggered};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// # let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// # client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let Triggered::Pending(execution) = client.trigger("nightly").run()? else { panic!() };
    /// assert_eq!(client.cancel(execution).reason("not today").run()?, Cancelled::Cancelled);
    /// let again = client.cancel(execution).run()?;
    /// assert_eq!(again, Cancelled::AlreadyEnded(ExecutionState::Cancelled));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Cancel { execution: ExecutionId } -> Cancelled
}

impl Client {
    /// Cancels an execution: at once if it has not begun, otherwise its handler is asked to end.
    pub fn cancel(&self, execution: impl Into<ExecutionId>) -> Cancel<'_> {
        Cancel { client: self, execution: execution.into(), by: self.attribution() }
    }
}

impl Cancel<'_> {
    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters;
    /// [`ErrorKind::NotFound`] if the application has no such execution; or the database's failure.
    pub fn run(self) -> Result<Cancelled, Error> {
        let answer = self.over(&*self.client.store)?;
        if matches!(answer, Cancelled::Asked { .. }) {
            self.client.announce_cancel();
        }
        Ok(answer)
    }

    fn over(&self, verbs: &dyn Verbs) -> Result<Cancelled, Error> {
        check(&self.by)?;
        let Self { client, execution, by } = self;
        let (application, execution) = (client.application.clone(), *execution);
        let order = ExecutionOrder { application, execution, by: by.clone() };
        Ok(match verbs.cancel(&order)? {
            order::Cancel::Done => Cancelled::Cancelled,
            order::Cancel::Asked { node, is_new: true } => Cancelled::Asked { node },
            order::Cancel::Asked { node, is_new: false } => Cancelled::AlreadyAsked { node },
            order::Cancel::Ended(Some(state)) => Cancelled::AlreadyEnded(state),
            order::Cancel::Ended(None) => return Err(client.unreadable_execution(execution)),
            order::Cancel::Unknown => return Err(client.unknown_execution(execution)),
        })
    }
}

/// The answer to a [`Cancel`](crate::request::Cancel).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelled {
    /// It had not begun and never will.
    Cancelled,
    /// It runs, and its node will hear of it.
    Asked {
        /// The node that runs it.
        node: String,
    },
    /// Somebody had asked for its end before; it still runs.
    AlreadyAsked {
        /// The node that runs it.
        node: String,
    },
    /// Its last attempt had ended before, in this state.
    AlreadyEnded(ExecutionState),
}
