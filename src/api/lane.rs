//! Pools of threads for some of a node's jobs.

use crate::pipeline::lanes::LaneSettings;
use crate::pipeline::pool::PoolLimits;

/// A lane: threads and a queue of their own for the jobs that name it. What fills one lane delays no job of
/// another.
///
/// [`Builder::lane`](crate::Builder::lane) gives a node a lane, [`Job::lane`](crate::Job::lane) puts a job
/// into it. All other jobs run in the lane `default`, which
/// [`Builder::threads`](crate::Builder::threads) and [`Builder::queue`](crate::Builder::queue) configure.
/// [`Enqueue::lane`](crate::request::Enqueue::lane) puts one execution into another lane than its job's.
/// Lanes belong to a node: another node may have others.
///
/// ```
/// use firetime::{Job, Lane, Scheduler};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
///
/// const REPORT: Job<()> = Job::new("report").lane("slow");
/// const GREET: Job<()> = Job::new("greet");
/// let scheduler = Scheduler::builder("shop", &url)
///     .lane("slow", Lane::threads(2, 8).queue(16))
///     .handler(REPORT, |_, ()| Ok(()))
///     .handler(GREET, |_, ()| Ok(()))
///     .start()?;
/// let lanes = scheduler.health().lanes;
/// assert_eq!((&*lanes[1].name, lanes[1].threads), ("slow", 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lane has to be given to Builder::lane"]
pub struct Lane {
    limits: PoolLimits,
    tasks: usize,
    is_automatic: bool,
}

impl Lane {
    /// The default of [`Lane::queue`].
    const PLACES: usize = 64;

    /// A lane of `core` threads that are kept; up to `max` are made once its queue is full, or holds all that
    /// it takes of slow jobs. 1 <= core <= max <= 4096.
    pub fn threads(core: usize, max: usize) -> Self {
        let (limits, tasks) = (PoolLimits::new(core, max, Self::PLACES), LaneSettings::TASKS);
        Self { limits, tasks, is_automatic: false }
    }

    /// How many claimed executions may wait for a thread of this lane. Default: 64; 0 to 1,000,000.
    pub fn queue(mut self, places: usize) -> Self {
        self.limits.queue = places;
        self
    }

    /// How many async handlers of this lane run at once ([`Builder::async_handler`]). They have no threads
    /// and no queue; what finds no place is left to other nodes, or waits in the database. Default: 100; 1 to
    /// 100,000.
    ///
    /// [`Builder::async_handler`]: crate::Builder::async_handler
    #[cfg(feature = "tokio")]
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.tasks = handlers;
        self
    }

    /// Takes over slow jobs by itself. Default: no; one lane of a node may.
    ///
    /// A job that names no lane moves here once ten of its runs on this node have taken longer than 500 ms
    /// within a minute, counted as they end. It goes back to the lane `default` as soon as a run of at most
    /// 500 ms ends a minute or more after its last slow one. Each change is told as
    /// [`Event::LaneChanged`](crate::Event::LaneChanged) and holds from the next claim on. A job with
    /// `Job::lane("default")` stays where it is, and so does one whose handler is async: it holds no thread.
    ///
    /// ```
    /// use firetime::{Event, Job, Lane, Scheduler};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    ///
    /// const GREET: Job<()> = Job::new("greet");
    /// let builder = Scheduler::builder("shop", &url)
    ///     .lane("slow", Lane::threads(1, 4).automatic())
    ///     .on_event(|event| {
    ///         if let Event::LaneChanged { job, lane, .. } = event {
    ///             println!("{job} runs in lane {lane} from now on");
    ///         }
    ///     })
    ///     .handler(GREET, |_, ()| Ok(()));
    /// # let _ = builder;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn automatic(mut self) -> Self {
        self.is_automatic = true;
        self
    }

    pub(super) fn named(self, name: &str) -> LaneSettings {
        let Self { limits, tasks, is_automatic } = self;
        LaneSettings { tasks, is_automatic, ..LaneSettings::new(name, limits) }
    }
}
