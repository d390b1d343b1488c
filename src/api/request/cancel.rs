//! Cancel: an execution ends, or does not begin.

use super::{check, request};
use crate::api::Client;
use crate::api::config::check_name;
#[cfg(doc)]
use crate::domain::ErrorKind;
use crate::domain::{Error, ExecutionId, ExecutionState};
use crate::store::Verbs;
use crate::store::order::{self, ExecutionOrder, KeyAndTags};

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
    Cancel { execution: ExecutionId, wanted: KeyAndTags } -> Cancelled
}

impl Client {
    /// Cancels an execution: at once if it has not begun, otherwise its handler is asked to end.
    pub fn cancel(&self, execution: impl Into<ExecutionId>) -> Cancel<'_> {
        let (execution, wanted) = (execution.into(), KeyAndTags::default());
        Cancel { client: self, execution, wanted, by: self.attribution() }
    }
}

impl Cancel<'_> {
    /// Only if the execution has this unique key ([`Enqueue::key`](crate::request::Enqueue::key)); else
    /// nothing is changed, and the answer is [`Cancelled::Differs`]. 1 to 200 characters. Default: any, or
    /// none.
    pub fn key(mut self, key: &str) -> Self {
        self.wanted.key = Some(key.to_owned());
        self
    }

    /// Only if the execution has this tag ([`Enqueue::tag`](crate::request::Enqueue::tag)), and those of
    /// further calls; else nothing is changed, and the answer is [`Cancelled::Differs`]. 1 to 100 characters.
    /// Default: any, or none.
    ///
    /// A keyed execution that was [replaced](crate::Enqueued::Replaced) keeps its id and its key, and has the
    /// tags of what replaced it: a tag tells them apart.
    ///
    /// ```
    /// use firetime::{Cancelled, Client, Job, OnConflict};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REMIND: Job<u64> = Job::new("remind");
    /// let client = Client::connect("shop", &url)?;
    /// let remind = |order: u64| {
    ///     let remind = client.enqueue(REMIND, &order).key("customer-7").on_conflict(OnConflict::Replace);
    ///     remind.tag(&format!("order-{order}")).run()
    /// };
    /// let first = remind(1)?.id();
    /// assert_eq!(remind(5)?.id(), first);
    /// // Order 1 is paid; the reminder that waits is that of order 5.
    /// let paid = client.cancel(first).tag("order-1").run()?;
    /// assert!(matches!(paid, Cancelled::Differs { tags, .. } if tags == ["order-5"]));
    /// assert_eq!(client.cancel(first).tag("order-5").run()?, Cancelled::Cancelled);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tag(mut self, tag: &str) -> Self {
        self.wanted.tags.push(tag.to_owned());
        self
    }

    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters, or nothing can
    /// have the key or a tag;
    /// [`ErrorKind::NotFound`] if the application has no such execution; or the database's failure.
    pub fn run(self) -> Result<Cancelled, Error> {
        let answer = self.over(&*self.client.store)?;
        if matches!(answer, Cancelled::Asked { .. }) {
            self.client.announce_cancel();
        }
        Ok(answer)
    }

    pub(super) fn over(&self, verbs: &dyn Verbs) -> Result<Cancelled, Error> {
        check(&self.by)?;
        let Self { client, execution, wanted, by } = self;
        let execution = *execution;
        wanted.key.iter().try_for_each(|key| check_name("unique key", key, 200))?;
        wanted.tags.iter().try_for_each(|tag| check_name("tag", tag, 100))?;
        let order = ExecutionOrder::new(client.application.clone(), execution, by.clone());
        let order = ExecutionOrder { wanted: wanted.clone(), ..order };
        Ok(match verbs.cancel(&order)? {
            order::Cancel::Done => Cancelled::Cancelled,
            order::Cancel::Asked { node, is_new: true } => Cancelled::Asked { node },
            order::Cancel::Asked { node, is_new: false } => Cancelled::AlreadyAsked { node },
            order::Cancel::Ended(Some(state)) => Cancelled::AlreadyEnded(state),
            order::Cancel::Differs(KeyAndTags { key, tags }) => Cancelled::Differs { key, tags },
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
    #[non_exhaustive]
    Asked {
        /// The node that runs it.
        node: String,
    },
    /// Somebody had asked for its end before; it still runs.
    #[non_exhaustive]
    AlreadyAsked {
        /// The node that runs it.
        node: String,
    },
    /// Its last attempt had ended before, in this state.
    AlreadyEnded(ExecutionState),
    /// It has not the key or the tags that the request names: nothing was changed, whatever its state.
    #[non_exhaustive]
    Differs {
        /// Its unique key, if it has one.
        key: Option<String>,
        /// Its tags.
        tags: Vec<String>,
    },
}
