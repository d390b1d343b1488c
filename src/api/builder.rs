//! The settings of a node, and its start.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::api::job::check_job;
use crate::api::request::written::carrier;
use crate::api::undecodable;
use crate::api::{Client, Job, Lane, Scheduler, Undecodable};
use crate::domain::{Answer, Error, ErrorKind, Event, HandlerError, IntoAnswer};
use crate::node::Node;
#[cfg(feature = "tokio")]
use crate::node::around::HandlerFuture;
use crate::node::around::{Layer, Next};
use crate::node::context::Context;
use crate::node::handlers::{Handlers, Served};
use crate::node::start::Config;
use crate::node::teller::Observer;
use crate::time::millis;

/// What a node is made of.
pub(crate) type NodeParts = (Config, Handlers, Vec<Observer>);

/// Configures a [`Scheduler`]; made by [`Scheduler::builder`].
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    config: Config,
    handlers: Handlers,
    twice: Option<String>,
    observers: Vec<Observer>,
    #[cfg(feature = "tokio")]
    runtime: Option<tokio::runtime::Handle>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("application", &self.config.application).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Begins to configure a node of `application` (1 to 50 characters) on the database `url` names:
    /// `sqlite:FILE`, `postgres://USER:PASSWORD@HOST/DATABASE` or `mysql://USER:PASSWORD@HOST/DATABASE`. HOST
    /// may be several, each with its port: `a:5432,b:5432`; the first that gives a connection is used.
    pub fn builder(application: &str, url: &str) -> Builder {
        Builder {
            config: Config::new(application, url, carrier),
            handlers: Handlers::default(),
            twice: None,
            observers: Vec::new(),
            #[cfg(feature = "tokio")]
            runtime: None,
        }
    }
}

impl Builder {
    /// Runs `job`'s executions with `run`. Each job has one handler; a node claims only what it has handlers
    /// for. It returns an [`Answer`], or `()` for [`Answer::Done`] ([`IntoAnswer`]); an error is a failure.
    ///
    /// The payload is decoded before the claim: what this node cannot decode it leaves to others.
    pub fn handler<P, A, F>(self, job: Job<P>, run: F) -> Self
    where
        P: for<'de> Deserialize<'de> + 'static,
        A: IntoAnswer,
        // Who gives it an async function is shown this line by the compiler.
        F: Fn(&Context, P) -> Result<A, HandlerError> + Send + Sync + 'static, // async: `async_handler`
    {
        self.serve(job.served(), run)
    }

    /// As [`handler`](Self::handler), of a job that may be known by its name alone.
    pub(crate) fn serve<P: DeserializeOwned + 'static, A: IntoAnswer>(
        mut self,
        served: impl Into<Served<P>>,
        run: impl Fn(&Context, P) -> Result<A, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        if let Err(twice) = self.handlers.add(served, run) {
            self.twice = Some(twice);
        }
        self
    }

    /// Runs `job`'s executions with the futures that `run` makes, as tasks of a tokio runtime: thousands at
    /// once hold no thread each. The rest is as for [`Builder::handler`]: each job has one handler of either
    /// kind, an error is a failure, and so is a panic.
    ///
    /// How many run at once is [`Builder::concurrency`], or [`Lane::concurrency`] for a job that names a
    /// lane. The future is dropped where it waits once it was to end for as long as its [`Job::grace`]; until
    /// then [`Context::cancelled`] tells it. A shutdown drops what still runs a little before its deadline.
    /// What blocks the thread it is polled on can neither be dropped nor let others run: leave that to
    /// `tokio::task::spawn_blocking`, or to a [`Builder::handler`].
    ///
    /// The runtime is the one around [`Builder::start`] or [`Builder::start_async`], or that of
    /// [`Builder::runtime`]; it needs its time driver, and has to outlive the scheduler.
    ///
    /// ```
    /// use firetime::{Job, Schedule, Scheduler, Trigger};
    /// use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    ///
    /// const PING: Job<String> = Job::new("ping").time_limit(Duration::from_secs(30));
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let scheduler = Scheduler::builder("shop", &url)
    ///     .concurrency(1_000)
    ///     .async_handler(PING, |context, host| async move {
    ///         tokio::time::sleep(Duration::from_millis(10)).await; // Ask the host something.
    ///         println!("{host} answered, attempt {}", context.attempt());
    ///         Ok(())
    ///     })
    ///     .start_async()
    ///     .await?;
    /// let every = Trigger::every(Duration::from_secs(5))?;
    /// let ping = Schedule::new("ping", PING, &"db1".to_string(), every)?;
    /// scheduler.client().ensure(&ping).await?;
    /// assert!(scheduler.shutdown_async(Duration::from_secs(10)).await.is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn async_handler<P, A, F>(
        mut self,
        job: Job<P>,
        run: impl Fn(Context, P) -> F + Send + Sync + 'static,
    ) -> Self
    where
        P: for<'de> Deserialize<'de> + 'static,
        A: IntoAnswer,
        F: Future<Output = Result<A, HandlerError>> + Send + 'static,
    {
        if let Err(twice) = self.handlers.add_async(job.served(), job.own_grace(), run) {
            self.twice = Some(twice);
        }
        self
    }

    /// Puts `around` around each handler on a thread: a middleware for all jobs, to measure, open a
    /// transaction, set a tenant, or refuse. `next.run()` runs what is inside of it.
    ///
    /// * Of several the one that was added first is the outermost, also among those for one job. It does not
    ///   matter whether a handler is added before or after.
    /// * It runs on the handler's thread, within its time limit, once the payload was decoded. So an
    ///   execution that this node cannot decode meets no middleware.
    /// * Its answer is the execution's: it may change the handler's, or answer without running it. An error
    ///   or a panic of it is one of the handler.
    ///
    /// Async handlers are wrapped by [`around_async`](Self::around_async): a builder with a middleware for
    /// one kind and handlers of the other alone does not start. Default: no middleware.
    ///
    /// ```
    /// use firetime::{Job, Scheduler};
    /// use std::time::{Duration, Instant};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// const GREET: Job<()> = Job::new("greet");
    /// let scheduler = Scheduler::builder("shop", &url)
    ///     .around(|context, next| {
    ///         let began = Instant::now();
    ///         let answer = next.run();
    ///         println!("{} took {:?}", context.job(), began.elapsed());
    ///         answer
    ///     })
    ///     .handler(GREET, |_, ()| Ok(()))
    ///     .start()?;
    /// assert!(scheduler.shutdown(Duration::from_secs(10)).is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn around(
        mut self,
        around: impl Fn(&Context, Next<'_>) -> Result<Answer, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.handlers.around(None, Layer::Blocking(Arc::new(around)));
        self
    }

    /// As [`around`](Self::around), around the handler of one job alone, which is one on a thread.
    pub fn around_job<P>(
        mut self,
        job: Job<P>,
        around: impl Fn(&Context, Next<'_>) -> Result<Answer, HandlerError> + Send + Sync + 'static,
    ) -> Self {
        self.handlers.around(Some(job.name()), Layer::Blocking(Arc::new(around)));
        self
    }

    /// Puts `around` around each async handler, as [`around`](Self::around) does around those on threads.
    /// `next` is the future of what is inside of it: it has not been polled, and without being awaited it
    /// does not run. The future of the whole is dropped as that of a handler is.
    ///
    /// ```
    /// use firetime::{Job, Scheduler};
    /// use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// const GREET: Job<()> = Job::new("greet");
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let scheduler = Scheduler::builder("shop", &url)
    ///     .around_async(|context, next| async move {
    ///         let tenant = context.header("tenant").unwrap_or("nobody").to_owned();
    ///         let answer = next.await;
    ///         println!("for {tenant}: {answer:?}");
    ///         answer
    ///     })
    ///     .async_handler(GREET, |_, ()| async { Ok(()) })
    ///     .start_async()
    ///     .await?;
    /// assert!(scheduler.shutdown_async(Duration::from_secs(10)).await.is_clean());
    /// # Ok::<(), firetime::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn around_async<F>(
        mut self,
        around: impl Fn(Context, HandlerFuture) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Answer, HandlerError>> + Send + 'static,
    {
        self.handlers.around(None, Layer::of_futures(around));
        self
    }

    /// As [`around_async`](Self::around_async), around the async handler of one job alone.
    #[cfg(feature = "tokio")]
    pub fn around_async_job<P, F>(
        mut self,
        job: Job<P>,
        around: impl Fn(Context, HandlerFuture) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Answer, HandlerError>> + Send + 'static,
    {
        self.handlers.around(Some(job.name()), Layer::of_futures(around));
        self
    }

    /// How many async handlers of the lane `default` run at once. Default: 100; 1 to 100,000.
    ///
    /// They have no queue: what finds no place is left to other nodes, or waits in the database.
    #[cfg(feature = "tokio")]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.config.lanes[0].tasks = handlers;
        self
    }

    /// The tokio runtime on which async handlers run. Default: the one around [`Builder::start`] or
    /// [`Builder::start_async`]. It needs its time driver, and has to outlive the scheduler: if it is shut
    /// down before, the node stops ([`Event::RuntimeEnded`]).
    ///
    /// ```
    /// use firetime::{Job, Scheduler};
    /// use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// const GREET: Job<()> = Job::new("greet");
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let scheduler = Scheduler::builder("shop", &url)
    ///     .runtime(runtime.handle().clone())
    ///     .async_handler(GREET, |_, ()| async { Ok(()) })
    ///     .start()?;
    /// assert!(scheduler.shutdown(Duration::from_secs(10)).is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn runtime(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// How many threads run jobs that are of no other [`Lane`]: `core` are kept, up to `max` are made once
    /// the queue is full, or holds all that it takes of slow jobs. Default: 4 and 16;
    /// 1 <= core <= max <= 4096.
    pub fn threads(mut self, core: usize, max: usize) -> Self {
        let limits = self.config.default_limits();
        (limits.core, limits.max) = (core, max);
        self
    }

    /// Gives the node a lane beside the one called `default`: threads and a queue for the jobs that name it
    /// ([`Job::lane`]). `name` has 1 to 50 characters, none of them control characters, and is neither
    /// `default` nor `job`. Default: no lane; up to 63 are possible, 31 with async handlers.
    pub fn lane(mut self, name: &str, lane: Lane) -> Self {
        self.config.lanes.push(lane.named(name));
        self
    }

    /// How many claimed executions may wait for a thread of the lane `default`. Default: 64; 0 to 1,000,000.
    ///
    /// Larger queues help only short jobs: at most 64 executions queue beyond those expected to start within
    /// 100 ms. Once all threads are busy, the rest is left to other nodes.
    pub fn queue(mut self, places: usize) -> Self {
        self.config.default_limits().queue = places;
        self
    }

    /// How often the database is polled. Default: 5 s; 100 ms to one day.
    ///
    /// A poll plans some 150,000 occurrences at most, and at least one of each due schedule; of more each
    /// job gets its share. Each takes some 100 bytes. Of 1,000 schedules that fire every second these are
    /// 150 s: at a longer interval the rest would be late.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.config.window.poll = millis(interval);
        self
    }

    /// How often this node says that it lives. Default: 5 s; 100 ms to one day.
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.config.window.beat = millis(interval);
        self
    }

    /// After how long without a heartbeat a node counts as dead. Default: 25 s; at most one day. A hundredth
    /// of it (at least 1 s) and the store timeout are not part of a lease; the rest must be at least two
    /// heartbeats, and one heartbeat plus the store timeout. All nodes of an application must agree on it and
    /// on the store timeout: one that declares others dead earlier than they expect takes work from nodes
    /// that still run it.
    pub fn death_after(mut self, span: Duration) -> Self {
        self.config.window.death = millis(span);
        self
    }

    /// How often one node of the application repairs overdue schedules and the executions of dead nodes.
    /// Default: 15 s; from the poll interval to one day.
    pub fn misfire_interval(mut self, interval: Duration) -> Self {
        self.config.window.election = millis(interval);
        self
    }

    /// How long the ledger keeps an occurrence after its last attempt ended; `None` keeps it for ever.
    /// Default: 30 days; at least one hour, and never less than the misfire threshold.
    ///
    /// Counted by the database's clock. Pending and running executions are never removed, nor are later ones
    /// of the same schedule. Where nodes of an application differ, the shortest span counts. A completed
    /// one-shot whose executions are gone, and a node that ended that long ago, are removed too.
    pub fn retention(mut self, span: Option<Duration>) -> Self {
        self.config.window.retention = span.map(millis);
        self
    }

    /// The most one store call may take before it is abandoned; up to three quarters of it may pass until a
    /// connection is open. Default: 3 s; 500 ms to one day.
    pub fn store_timeout(mut self, limit: Duration) -> Self {
        self.config.window.call = millis(limit);
        self
    }

    /// Whether `start` creates or upgrades the tables. Default: true; with false a missing or old schema is
    /// an error and `firetime migrate` is yours to run.
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.config.migrate = migrate;
        self
    }

    /// Calls `observer` with every event, after it was logged, in the order they happened.
    ///
    /// All observers run on one thread of their own, which also logs: one that blocks or panics holds up no
    /// claim, heartbeat or outcome, only the events behind it. While 4,096 events wait, further ones are
    /// dropped and counted ([`Event::EventsMissed`]). [`Scheduler::shutdown`] waits up to a second for the
    /// last ones.
    pub fn on_event(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observers.push(Box::new(observer));
        self
    }

    /// Calls `on_span` with the span of each attempt, before it is entered: to make it a part of the trace of
    /// whoever enqueued or triggered the execution, as [`Context::span_origin`] says.
    ///
    /// The span is `firetime.execution`, of level INFO and target `firetime`. It begins on the handler's
    /// thread or task before its middleware, is entered whenever that or the handler runs, and ends with the
    /// attempt. Its fields are `schedule`, `job`, `execution`, `attempt`, `cause`, `node`, `fence`,
    /// `lateness` (seconds) and, at its end, `outcome`: the state in which the attempt has ended. It is a
    /// root, whatever span is around. A panic in `on_span` is one of the handler. Called again, the last one
    /// counts. Default: nothing is called, and each attempt's span is a root.
    ///
    /// ```
    /// use firetime::{Job, Scheduler, SpanOrigin};
    /// use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// const GREET: Job<()> = Job::new("greet");
    /// let scheduler = Scheduler::builder("shop", &url)
    ///     .handler(GREET, |_, ()| Ok(()))
    ///     .on_span(|span, context| {
    ///         let of = context.header("traceparent");
    ///         match context.span_origin() {
    ///             SpanOrigin::Child => println!("{span:?} is a child of {of:?}"),
    ///             SpanOrigin::Link => println!("{span:?} has a link to {of:?}"),
    ///             _ => println!("{span:?} is a root"),
    ///         }
    ///     })
    ///     .start()?;
    /// assert!(scheduler.shutdown(Duration::from_secs(10)).is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tracing")]
    pub fn on_span(mut self, on_span: impl Fn(&tracing::Span, &Context) + Send + Sync + 'static) -> Self {
        self.config.spans.on_span = Some(Arc::new(on_span));
        self
    }

    /// Starts the node: returns once the schema is right, the database's self-check has passed and the first
    /// heartbeat is confirmed.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a configuration that cannot work, also if some handlers are async and there
    /// is no tokio runtime, or one that was shut down or has no time driver; [`ErrorKind::Unavailable`] if
    /// the database cannot be reached, [`ErrorKind::Schema`] if its tables do not fit this version,
    /// [`ErrorKind::System`] if the system starts no thread, [`ErrorKind::Unknown`] if the node was to join
    /// and heard nothing for two store timeouts.
    pub fn start(self) -> Result<Scheduler, Error> {
        #[cfg(feature = "tokio")]
        let runtime = self.runtime.clone();
        let (config, handlers, observers) = self.into_parts()?;
        #[cfg(feature = "tokio")]
        let config = with_tasks(config, &handlers, runtime)?;
        Node::start(config, handlers, observers).and_then(Scheduler::over)
    }

    /// What a node is made of, as far as it could start with that.
    pub(crate) fn into_parts(mut self) -> Result<NodeParts, Error> {
        self.check_handlers()?;
        self.handlers.wrap().map_err(|problem| Error::new(ErrorKind::Config, problem))?;
        #[cfg_attr(not(feature = "tokio"), expect(unused_mut, reason = "lanes of tasks are added"))]
        let mut config = self.config.checked()?;
        for it in self.handlers.lanes() {
            config.check_lane_of(it.job, it.lane)?;
        }
        #[cfg(feature = "tokio")]
        if self.handlers.lanes().any(|it| it.is_async) {
            config.add_lanes_of_tasks()?;
        }
        Ok((config, self.handlers, self.observers))
    }

    /// Decodes the payloads that wait in the database with the handlers of this builder, and gives those that
    /// cannot be decoded: before a release, so that nothing is left alone after it.
    ///
    /// What waits are the active and paused schedules of the application, and its PENDING executions. Of a
    /// job without a handler here that is told once: another program of the application may have it. At most
    /// 1,000 findings are given; the check ends there. What is enqueued or changed meanwhile may be missed,
    /// and executions that run are not looked at.
    ///
    /// It only reads: no node joins, nothing is created or upgraded. Within a tokio runtime call it on
    /// `spawn_blocking`.
    ///
    /// ```
    /// use firetime::{Client, Job, Scheduler};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// // The release before enqueued numbers, and this one wants texts.
    /// Client::connect("shop", &url)?.enqueue(Job::<u64>::new("remind"), &7).run()?;
    ///
    /// const REMIND: Job<String> = Job::new("remind");
    /// let builder = Scheduler::builder("shop", &url).handler(REMIND, |_, _| Ok(()));
    /// let found = builder.check_payloads()?;
    /// assert_eq!(found.len(), 1);
    /// assert!(found[0].to_string().contains("invalid type: integer `7`, expected a string"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for handlers, a name or a URL that cannot be used, [`ErrorKind::Schema`] if the
    /// tables are those of another version; or the database's failure.
    pub fn check_payloads(&self) -> Result<Vec<Undecodable>, Error> {
        self.check_handlers()?;
        let client = Client::connect(&self.config.application, &self.config.url)?;
        undecodable::find(client.store.as_ref(), &client.application, &self.handlers)
    }

    /// Refuses handlers with which no node could start.
    fn check_handlers(&self) -> Result<(), Error> {
        if let Some(job) = &self.twice {
            let message = format!("job {job:?} has two handlers; each job has one");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let specs = self.handlers.specs();
        if specs.is_empty() {
            let message = "no handler: call handler(JOB, |context, payload| ...) first";
            return Err(Error::new(ErrorKind::Config, message));
        }
        specs.iter().try_for_each(check_job)
    }

    /// As [`Builder::start`], which waits on the runtime's blocking pool. Its async handlers run on the
    /// runtime that it is awaited in, unless [`Builder::runtime`] names another.
    ///
    /// ```
    /// use firetime::{Job, Scheduler};
    /// use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// const GREET: Job<()> = Job::new("greet");
    /// let builder = Scheduler::builder("shop", &url).async_handler(GREET, |_, ()| async { Ok(()) });
    /// let scheduler = builder.start_async().await?;
    /// assert!(scheduler.shutdown_async(Duration::from_secs(10)).await.is_clean());
    /// # Ok::<(), firetime::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Builder::start`]; [`ErrorKind::Config`] if it is awaited outside of a tokio runtime.
    #[cfg(feature = "tokio")]
    pub async fn start_async(self) -> Result<Scheduler, Error> {
        // On a thread of the blocking pool the runtime is around the call, too.
        crate::api::awaited::run("starting a scheduler", || self.start()).await
    }
}

/// The configuration with the lanes of async handlers and their runtime, if there are such handlers.
#[cfg(feature = "tokio")]
fn with_tasks(
    mut config: Config,
    handlers: &Handlers,
    runtime: Option<tokio::runtime::Handle>,
) -> Result<Config, Error> {
    use crate::node::tasks::Tasks;
    if handlers.lanes().any(|it| it.is_async) {
        config.tasks = Some(runtime.map_or_else(Tasks::around, Tasks::on)?);
    }
    Ok(config)
}
