//! The events of a node as a stream, for whoever wants to pull them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "tokio")]
use crossbeam::channel::TryRecvError;
use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};

use crate::domain::Event;
use crate::members::bell::Bell;

/// The most events that wait in a stream; further ones are counted and dropped.
const WAITING: usize = 1_024;

/// The events of a node from when it was made on, until the node has stopped. Made by
/// [`Scheduler::events`](crate::Scheduler::events).
///
/// It holds up nobody: at most 1,024 events wait in it, and while they do further ones are dropped and
/// counted ([`EventStream::dropped`]). It ends behind [`Event::Stopped`]: with the shutdown, or, if the
/// scheduler was dropped instead, once its running jobs have ended. Jobs that a shutdown leaves to themselves
/// are told to observers alone.
///
/// | the next event | waits |
/// | --- | --- |
/// | `next_event().await` | without a thread: this is the one for async code |
/// | `next_within(span)` | and blocks its thread, for this span at most |
/// | `for event in &mut events`, or `next()` as an iterator | and blocks its thread |
///
/// ```
/// use firetime::{Event, Job, Scheduler};
/// use std::time::Duration;
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// const GREET: Job<()> = Job::new("greet");
/// let scheduler = Scheduler::builder("shop", &url).handler(GREET, |_, ()| Ok(())).start()?;
/// let events = scheduler.events();
/// scheduler.client().enqueue(GREET, &()).run()?;
/// let is_finished = |event: &Event| matches!(event, Event::Finished { .. });
/// while !is_finished(&events.next_within(Duration::from_secs(10)).ok_or("nothing happens")?) {}
/// assert_eq!(events.dropped(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nobody else reads its events"]
pub struct EventStream {
    events: Receiver<Event>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    dropped: AtomicU64,
    /// Rung with each event, and at the end.
    bell: Bell,
}

/// The other end of a stream.
struct Subscriber {
    events: Sender<Event>,
    shared: Arc<Shared>,
}

/// The streams of a node; none once they have ended.
type Streams = Option<Vec<Subscriber>>;

pub(super) struct Subscribers {
    all: Mutex<Streams>,
    /// Whether there is one, as far as was seen with the last event: each event asks.
    any: AtomicBool,
}

impl Default for Subscribers {
    fn default() -> Self {
        Self { all: Mutex::new(Some(Vec::new())), any: AtomicBool::new(false) }
    }
}

impl Subscribers {
    pub(super) fn add(&self) -> EventStream {
        let ((send, events), shared) = (bounded(WAITING), Arc::<Shared>::default());
        if let Some(all) = &mut *self.lock() {
            all.push(Subscriber { events: send, shared: Arc::clone(&shared) });
            self.any.store(true, Ordering::Relaxed);
        }
        EventStream { events, shared }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    /// Forgets streams that were dropped.
    pub(super) fn tell(&self, event: &Event) {
        if self.is_empty() {
            return;
        }
        let mut streams = self.lock();
        let Some(all) = &mut *streams else { return };
        all.retain(|it| {
            let is_there = match it.events.try_send(event.clone()) {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => {
                    it.shared.dropped.fetch_add(1, Ordering::Relaxed);
                    true
                }
                Err(TrySendError::Disconnected(_)) => false,
            };
            it.shared.bell.ring();
            is_there
        });
        self.any.store(!all.is_empty(), Ordering::Relaxed);
    }

    /// Nothing more is told, and later streams end at once.
    pub(super) fn end(&self) {
        let all = self.lock().take();
        self.any.store(false, Ordering::Relaxed);
        for Subscriber { events, shared } in all.into_iter().flatten() {
            drop(events);
            shared.bell.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        // A list of channels is whole whatever panicked beside it.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStream {
    /// The next event, if it is there or comes within `span`; none also once there will be no more. Blocks
    /// its thread: in async code put a timeout around `next_event`.
    #[must_use]
    pub fn next_within(&self, span: Duration) -> Option<Event> {
        self.events.recv_timeout(span).ok()
    }

    /// How many events were dropped because too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// The next event; none once there will be no more. It blocks no thread, may be dropped at any time, and
    /// loses nothing.
    ///
    /// ```
    /// use firetime::{Event, Job, Scheduler};
    /// # use std::time::Duration;
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// const GREET: Job<()> = Job::new("greet");
    /// let builder = Scheduler::builder("shop", &url).async_handler(GREET, |_, ()| async { Ok(()) });
    /// let scheduler = builder.start_async().await?;
    /// let events = scheduler.events();
    /// scheduler.client().enqueue(GREET, &()).await?;
    /// while let Some(event) = events.next_event().await {
    ///     if matches!(event, Event::Finished { .. }) {
    ///         break;
    ///     }
    /// }
    /// # assert!(scheduler.shutdown_async(Duration::from_secs(10)).await.is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub async fn next_event(&self) -> Option<Event> {
        loop {
            let mut rung = std::pin::pin!(self.shared.bell.rung());
            // Before the look: an event that comes in between rings.
            rung.as_mut().enable();
            match self.events.try_recv() {
                Ok(event) => return Some(event),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => rung.await,
            }
        }
    }
}

/// Each `next` blocks its thread until the next event; none once there will be no more.
impl Iterator for EventStream {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.events.recv().ok()
    }
}
