//! A running node, as the application holds it.

use std::sync::Arc;
use std::time::Duration;

use crate::api::metrics::{self, Metrics};
use crate::api::{Client, Health};
use crate::domain::{Error, NodeId};
use crate::node::Node;
use crate::node::event_stream::EventStream;
use crate::node::stopped::Stopped;

/// A running node. Dropping it stops claiming and says so; [`Scheduler::shutdown`] is the orderly way.
///
/// ```
/// use firetime::{Job, Schedule, Scheduler, Trigger};
/// use std::time::Duration;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
///
/// const GREET: Job<String> = Job::new("greet");
/// let scheduler = Scheduler::builder("shop", &url)
///     .handler(GREET, |context, name| {
///         println!("hello {name}, planned for {}", context.fire_time());
///         Ok(())
///     })
///     .start()?;
/// let every = Trigger::every(Duration::from_secs(5))?;
/// scheduler.client().ensure(&Schedule::new("hello", GREET, &"Ada".to_string(), every)?).run()?;
/// assert!(scheduler.shutdown(Duration::from_secs(10)).is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scheduler {
    node: Arc<Node>,
    /// Dropped with the scheduler: then the facade is told no more.
    #[cfg(feature = "metrics")]
    _told: crossbeam::channel::Sender<()>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("application", &self.node.application).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Over a node that has begun.
    ///
    /// # Errors
    /// If there is no thread to tell the `metrics` facade on.
    pub(super) fn over(node: Node) -> Result<Self, Error> {
        let node = Arc::new(node);
        Ok(Self {
            #[cfg(feature = "metrics")]
            _told: metrics::tell_facade(&node).inspect_err(|_| node.stop_behind())?,
            node,
        })
    }

    /// A client for the same application and database.
    #[must_use]
    pub fn client(&self) -> Client {
        let (store, notifier) = (Arc::clone(&self.node.clients), Arc::clone(&self.node.notifier));
        let mut client = Client::over(&self.node.application, store, notifier, self.node.on_change());
        client.waiters = Arc::clone(&self.node.waiters);
        client
    }

    /// This node's id, as [`Client::nodes`] and events show it. A node that is started anew has another, and
    /// so has one that others declared dead and that has joined again ([`Event::Fenced`]).
    ///
    /// [`Event::Fenced`]: crate::Event::Fenced
    ///
    /// ```
    /// use firetime::{Draining, Job, Scheduler};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// const GREET: Job<()> = Job::new("greet");
    /// let scheduler = Scheduler::builder("shop", &url).handler(GREET, |_, ()| Ok(())).start()?;
    /// let own = scheduler.node().to_string();
    /// assert_eq!(scheduler.client().drain(&own).run()?, Draining::Begun);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node.id()
    }

    /// Whether this node lives, may claim and can run what it claims, and what each of its lanes is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        Health::of_node(&self.node)
    }

    /// The node's figures for dashboards and alarms, read from memory: see [`Metrics`].
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        metrics::of_node(&self.node, &self.health())
    }

    /// The node's events from now on, to be pulled: bounded, so that nobody waits for who does not pull. An
    /// observer that is called with each is [`Builder::on_event`](crate::Builder::on_event).
    pub fn events(&self) -> EventStream {
        self.node.event_stream()
    }

    /// Blocks until [`Scheduler::shutdown`], called on another thread, has ended, and answers what that
    /// answered.
    ///
    /// A loop of the scheduler that panics ([`Event::LoopPanicked`]), a SQLite file that is replaced under it
    /// ([`Event::DatabaseReplaced`]), or the end of its async handlers' runtime ([`Event::RuntimeEnded`])
    /// ends the node and the wait: [`Stopped::GivenUp`]. A shutdown then lets running jobs end.
    ///
    /// [`Event::RuntimeEnded`]: crate::Event::RuntimeEnded
    /// [`Event::LoopPanicked`]: crate::Event::LoopPanicked
    /// [`Event::DatabaseReplaced`]: crate::Event::DatabaseReplaced
    pub fn wait(&self) -> Stopped {
        self.node.wait()
    }

    /// Stops in order: no more polls and claims, queued executions go back, running jobs may end, their
    /// outcomes are stored, the node leaves. Returns by `deadline` even while the database is away.
    ///
    /// While another thread shuts down already, this waits for that, until its own deadline. Called by a
    /// handler of this scheduler it cannot wait for that handler: the shutdown goes on behind it, with this
    /// deadline, and the answer is [`Stopped::NotYet`] at once.
    ///
    /// Async handlers that still run at three quarters of the time, or as late as one store timeout before
    /// the deadline, are dropped, and with recovery their executions wait to be run anew by other nodes.
    pub fn shutdown(&self, deadline: Duration) -> Stopped {
        self.node.shutdown_or_begin(deadline)
    }

    /// As [`Scheduler::shutdown`], on a thread of its own: for where a thread of the runtime must not be
    /// blocked. It begins once it is awaited; dropping it then does not take it back.
    ///
    /// Awaited outside of a tokio runtime it blocks. Awaited by an async handler of this scheduler it answers
    /// [`Stopped::NotYet`] at once, and the shutdown goes on behind.
    ///
    /// ```
    /// # use firetime::{Job, Scheduler};
    /// # use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # const GREET: Job<()> = Job::new("greet");
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let builder = Scheduler::builder("shop", &url).async_handler(GREET, |_, ()| async { Ok(()) });
    /// let scheduler = builder.start_async().await?;
    /// assert!(scheduler.shutdown_async(Duration::from_secs(10)).await.is_clean());
    /// # Ok::<(), firetime::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub async fn shutdown_async(&self, deadline: Duration) -> Stopped {
        let is_around = tokio::runtime::Handle::try_current().is_ok();
        let apart = is_around && !self.node.is_called_by_handler();
        let (tell, told) = tokio::sync::oneshot::channel();
        // Nobody may wait for it any more.
        let tell = move |stopped| {
            tell.send(stopped).ok();
        };
        if apart && self.node.shutdown_apart(deadline, tell) {
            told.await.unwrap_or(Stopped::Unclean)
        } else {
            self.shutdown(deadline)
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.node.stop_behind();
    }
}
