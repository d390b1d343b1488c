//! The pool's moving parts: one lock, two condition variables and the threads; or, of a pool of tasks, who
//! begins its items elsewhere.
//!
//! Every event passes through [`Core::change`]: the [`Floor`] changes under the lock, and notices go out
//! after its release. An item becomes ready together with a thread: the threads without an item number
//! exactly `spare + ready`, so a ready item never waits for another to finish, and no thread retires on it.

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

use super::admission::{Figures, PoolLimits, Seat};
use super::floor::Floor;
use super::sync::{Arc, Condvar, Mutex, MutexGuard, spawn};
use crate::domain::Boot;
use crate::domain::user_code::guarded;

/// A message of the pool to its owner, sent by the thread that caused it and outside the pool's lock.
#[derive(Debug)]
pub enum Notice {
    /// A seat is free after [`Pool::reserve`] returned `None`. Told once per such time; another
    /// caller may have been faster.
    Freed,
    /// The operating system gave no thread. What needed it waits in the queue, and every
    /// [`Pool::tick`] tries again.
    SpawnFailed(io::Error),
    /// An item's run panicked and said this. Its thread goes on.
    Panicked(String),
    /// Items were handed back because none of their tasks was polled. Until one is, there is no seat.
    Blocked,
    /// A task was polled after that.
    Unblocked,
}

/// Threads that run items of type `T`, in a number that follows the load.
///
/// Dropping the pool closes it; items still queued are dropped, those that run finish.
pub struct Pool<T: Send + 'static> {
    core: Arc<Core<T>>,
}

impl<T: Send + 'static> Pool<T> {
    /// A pool without threads as yet. Each item goes to `run` on a thread `NAME-N`;
    /// `notify` must be quick and must not panic (a panic of either ends no thread).
    pub fn new(
        name: &str,
        limits: PoolLimits,
        run: impl Fn(T) + Send + Sync + 'static,
        notify: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Self {
        Self::over(limits, Work::Threads { name: name.to_owned(), run: Box::new(run) }, notify)
    }

    /// A pool of `most` seats and no threads or queue: each item goes to `launch` on the thread that submits
    /// it, and keeps its seat until its [`Occupied`] is dropped, which comes beside it. `launch` must not
    /// block.
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn of_tasks(
        most: usize,
        launch: impl Fn(T, Occupied<T>) + Send + Sync + 'static,
        notify: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Self {
        Self::over(PoolLimits::new(most, most, 0), Work::Tasks(Box::new(launch)), notify)
    }

    fn over(limits: PoolLimits, work: Work<T>, notify: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        let core = Core {
            state: Mutex::new(State { floor: Floor::new(limits), threads_made: 0, spawn_error: None }),
            ready: Condvar::new(),
            rest: Condvar::new(),
            work,
            notify: Box::new(notify),
        };
        Self { core: Arc::new(core) }
    }

    /// Reserves a seat for one item; `None` when the pool is full or closed. Never blocks.
    ///
    /// Reserve only for items at hand: a seat taken on the off chance and dropped again after a
    /// `None` is a seat freed, and [`Notice::Freed`] says so.
    pub fn reserve(&self) -> Option<Permit<T>> {
        let seat = self.core.lock().floor.reserve()?;
        Some(Permit { core: Arc::clone(&self.core), seat, spent: false })
    }

    /// Looks after what waits, at `now` (an earlier `now` counts as the latest seen). Items that waited long
    /// enough start on new threads, and those that cannot are returned. Call it a few times a second: all of
    /// the pool's spans are this coarse.
    #[must_use = "these items were not run"]
    pub fn tick(&self, now: Boot) -> Vec<T> {
        self.core.change(|floor, hire| floor.tick(now, hire))
    }

    /// Returns the items that wait.
    #[must_use = "these items were not run"]
    pub fn empty(&self) -> Vec<T> {
        self.core.change(|floor, _| floor.empty())
    }

    /// Gives out no more permits and returns the items that wait.
    ///
    /// Permits given out before stay good: their items start, or wait. Once the last permit is
    /// spent, another `close` returns what came to wait since.
    #[must_use = "these items were not run"]
    pub fn close(&self) -> Vec<T> {
        self.core.change(|floor, _| floor.close())
    }

    /// Waits until nothing runs or is queued, for `deadline` at most; says whether it came to that.
    pub fn wait_idle(&self, deadline: Duration) -> bool {
        let restless = |state: &mut State<T>| !state.floor.at_rest();
        let waited = self.core.rest.wait_timeout_while(self.core.lock(), deadline, restless);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.floor.at_rest()
    }

    /// Whether items were handed back because no task of theirs was polled, and none has been since.
    pub(crate) fn is_blocked(&self) -> bool {
        self.core.lock().floor.is_blocked()
    }

    /// Whether [`Pool::tick`] is needed: somebody waits for a thread, or holds a permit and may wait soon.
    pub(crate) fn is_awaited(&self) -> bool {
        self.core.lock().floor.is_awaited()
    }

    /// The pool's figures now.
    pub fn figures(&self) -> Figures {
        self.core.lock().floor.figures()
    }
}

impl<T: Send + 'static> Drop for Pool<T> {
    fn drop(&mut self) {
        drop(self.close());
    }
}

/// A seat in the pool, for one item. Dropping it gives the seat back.
#[must_use = "dropping a permit gives its seat back"]
pub struct Permit<T: Send + 'static> {
    core: Arc<Core<T>>,
    seat: Seat,
    spent: bool,
}

impl<T: Send + 'static> Permit<T> {
    /// The seat that it promises.
    pub(crate) fn seat(&self) -> Seat {
        self.seat
    }

    /// Hands the items in at `now`, those of each pool under one lock. None is refused: should no thread be
    /// had for it, it waits.
    pub fn submit(mut items: Vec<(Self, T)>, now: Boot) {
        while let Some((first, _)) = items.first() {
            let core = Arc::clone(&first.core);
            let is_own = |(permit, _): &(Self, T)| Arc::ptr_eq(&permit.core, &core);
            let others = if items.iter().all(is_own) {
                Vec::new()
            } else {
                let (own, others) = items.into_iter().partition(is_own);
                items = own;
                others
            };
            Self::submit_to(&core, items, now);
            items = others;
        }
    }

    /// The permits are of this pool.
    fn submit_to(core: &Arc<Core<T>>, items: Vec<(Self, T)>, now: Boot) {
        let seated = |(mut permit, item): (Self, T)| {
            permit.spent = true;
            (permit.seat, item)
        };
        // No permit is left to be dropped under the lock, which it would take.
        let items: Vec<(Seat, T)> = items.into_iter().map(seated).collect();
        core.change(|floor, hire| {
            for (seat, item) in items {
                floor.submit(seat, item, now, &mut *hire);
            }
        });
    }
}

impl<T: Send + 'static> Drop for Permit<T> {
    fn drop(&mut self) {
        if !self.spent {
            self.core.change(|floor, hire| floor.release(self.seat, hire));
        }
    }
}

/// The seat of an item of a pool of tasks, from its launch to its end: dropping it says that it has ended.
///
/// While its task has not been polled the item is the pool's, which hands it back if that takes too long.
#[cfg(any(test, feature = "tokio"))]
pub(crate) struct Occupied<T: Send + 'static> {
    core: Arc<Core<T>>,
    /// Whether an item is in the holder's hands.
    has_item: bool,
}

#[cfg(any(test, feature = "tokio"))]
impl<T: Send + 'static> Occupied<T> {
    /// Keeps the item, since `now`, until a task of the pool is polled.
    pub(crate) fn await_poll(&mut self, item: T, now: Boot) {
        self.has_item = false;
        self.core.change(|floor, _| floor.await_poll(item, now));
    }

    /// Its task is polled, or dropped: the item that has waited longest, unless all were handed back.
    pub(crate) fn polled(&mut self) -> Option<T> {
        let item = self.core.change(|floor, _| floor.polled())?;
        self.has_item = true;
        Some(item)
    }
}

#[cfg(any(test, feature = "tokio"))]
impl<T: Send + 'static> Drop for Occupied<T> {
    fn drop(&mut self) {
        if self.has_item {
            self.core.change(|floor, hire| floor.finished(hire));
        }
    }
}

/// The way in which items are run.
enum Work<T: Send + 'static> {
    /// Threads of the pool, whose names begin so.
    Threads { name: String, run: Box<dyn Fn(T) + Send + Sync> },
    /// Somebody else, who needs no thread for each.
    #[cfg(any(test, feature = "tokio"))]
    Tasks(Box<dyn Fn(T, Occupied<T>) + Send + Sync>),
}

struct Core<T: Send + 'static> {
    state: Mutex<State<T>>,
    /// Something is ready, or a thread may retire.
    ready: Condvar,
    /// Nothing runs or is queued.
    rest: Condvar,
    work: Work<T>,
    notify: Box<dyn Fn(Notice) + Send + Sync>,
}

struct State<T> {
    floor: Floor<T>,
    threads_made: u64,
    spawn_error: Option<io::Error>,
}

impl<T: Send + 'static> Core<T> {
    /// Nothing of the owner's runs under the lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `event` happen to the floor. It is given a way to make threads, under the lock: so the counts are
    /// never ahead of what there is.
    fn change<R>(self: &Arc<Self>, event: impl FnOnce(&mut Floor<T>, &mut dyn FnMut() -> bool) -> R) -> R {
        let mut state = self.lock();
        let State { floor, threads_made, spawn_error } = &mut *state;
        let (ready, was_blocked) = (floor.ready(), floor.is_blocked());
        let result = event(floor, &mut || self.spawn(threads_made, spawn_error));
        for _ in ready..floor.ready() {
            self.ready.notify_one();
        }
        if floor.may_retire() {
            self.ready.notify_all();
        }
        if floor.at_rest() {
            self.rest.notify_all();
        }
        let (freed, is_blocked) = (floor.freed(), floor.is_blocked());
        #[cfg(any(test, feature = "tokio"))]
        let launched = self.taken(floor);
        let spawn_error = state.spawn_error.take();
        drop(state);
        #[cfg(any(test, feature = "tokio"))]
        launched.into_iter().for_each(|item| self.launch(item));
        if let Some(error) = spawn_error {
            self.tell(Notice::SpawnFailed(error));
        }
        if freed {
            self.tell(Notice::Freed);
        }
        match (was_blocked, is_blocked) {
            (false, true) => self.tell(Notice::Blocked),
            (true, false) => self.tell(Notice::Unblocked),
            _ => {}
        }
        result
    }

    /// The ready items of a pool of tasks.
    #[cfg(any(test, feature = "tokio"))]
    fn taken(&self, floor: &mut Floor<T>) -> Vec<T> {
        match &self.work {
            Work::Threads { .. } => Vec::new(),
            Work::Tasks(_) => {
                while floor.retires() {}
                std::iter::from_fn(|| floor.take_ready()).collect()
            }
        }
    }

    #[cfg(any(test, feature = "tokio"))]
    fn launch(self: &Arc<Self>, item: T) {
        let Work::Tasks(launch) = &self.work else { return };
        let occupied = Occupied { core: Arc::clone(self), has_item: true };
        if let Err(said) = guarded(|| launch(item, occupied)) {
            self.tell(Notice::Panicked(said));
        }
    }

    /// One more runs: on a new thread, or wherever tasks do.
    fn spawn(self: &Arc<Self>, threads_made: &mut u64, spawn_error: &mut Option<io::Error>) -> bool {
        let name = match &self.work {
            Work::Threads { name, .. } => name,
            #[cfg(any(test, feature = "tokio"))]
            Work::Tasks(_) => return true,
        };
        *threads_made += 1;
        let core = Arc::clone(self);
        match spawn(format!("{name}-{threads_made}"), move || core.work()) {
            Ok(()) => true,
            Err(error) => {
                *spawn_error = Some(error);
                false
            }
        }
    }

    /// The life of a thread.
    fn work(self: &Arc<Self>) {
        let mut next = self.next_item();
        while let Some(item) = next {
            if let Err(said) = guarded(|| self.run(item)) {
                self.tell(Notice::Panicked(said));
            }
            let at_hand = self.change(|floor, hire| {
                floor.finished(hire);
                floor.take_ready()
            });
            next = at_hand.or_else(|| self.next_item());
        }
    }

    fn run(&self, item: T) {
        match &self.work {
            Work::Threads { run, .. } => run(item),
            // It has no threads.
            #[cfg(any(test, feature = "tokio"))]
            Work::Tasks(_) => drop(item),
        }
    }

    /// The next item for this thread; `None` when it should retire.
    fn next_item(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.floor.take_ready() {
                return Some(item);
            }
            if state.floor.retires() {
                return None;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn tell(&self, notice: Notice) {
        // A panic of the owner's has been reported by the panic hook; a thread is worth more.
        guarded(|| (self.notify)(notice)).ok();
    }
}
