//! Admission: the pool's decisions on threads, queue and refusals, as pure counting.
//!
//! A thread is busy or spare. A seat promises a thread (a spare one, or one yet to be made) or a
//! place in the queue. A thread that is busy or promised is *committed*, and one invariant carries
//! the promises:
//!
//! > **No more threads are committed than the pool may have.**
//!
//! So each promised thread exists or can be made, however many items queue and however they end: a
//! promised start never waits for another item to finish.

use std::collections::VecDeque;

use crate::domain::Boot;

#[cfg(test)]
mod tests;

/// How large the pool may be and how long things last. Spans are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Threads that are made before anything queues, and kept; at least 1 (0 counts as 1).
    pub core: usize,
    /// Threads at most; at least `core` (less counts as `core`).
    pub max: usize,
    /// Places in the queue; 0 is allowed.
    pub queue: usize,
    /// An item that waits longer grows the pool. Default 1,000.
    pub grow_after: i64,
    /// An item that waits longer, while the pool cannot grow, is handed back. Default 5,000.
    pub give_back_after: i64,
    /// A thread above `core` that is spare for so long retires. Default 6,000.
    pub retire_after: i64,
}

impl PoolLimits {
    /// Limits with the default spans.
    #[must_use]
    pub fn new(core: usize, max: usize, queue: usize) -> Self {
        Self { core, max, queue, grow_after: 1_000, give_back_after: 5_000, retire_after: 6_000 }
    }
}

/// The pool's figures at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Threads there are, busy or spare.
    pub threads: usize,
    /// Threads with an item.
    pub busy: usize,
    /// Items that wait in the queue.
    pub queued: usize,
    /// Permits given out and not yet used.
    pub reserved: usize,
    /// Threads at most.
    pub max: usize,
    /// Places in the queue.
    pub queue: usize,
}

/// The promise of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// A thread: the item starts at once.
    Thread,
    /// A place in a queue that moves: the item starts within some 100 ms.
    Soon,
    /// A place in the queue.
    Place,
}

/// How fast the queue moves is measured over at least so long, in milliseconds; at first over less.
const PACED: i64 = 20;
/// How many pace intervals ahead an execution may be recorded as RUNNING by its claim.
const SOON: usize = 5;
/// From this many starts in [`PACED`] on, the queue takes only items that can start soon.
const FAST: usize = 20;
/// The queue's limit before its pace has been measured; or twice as many as the pool has just worked off.
const UNMEASURED: usize = 8;
/// Behind what starts soon, so many more may wait. Each needs a statement of its own when it starts: a long
/// queue of them would be slow for that alone, and stay so.
const SLOW: usize = 64;

/// The fate of an item that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    Grow,
    GiveBack,
}

#[derive(Debug)]
pub(super) struct Admission {
    limits: PoolLimits,
    /// The latest time it was told; never decreases.
    now: Boot,
    busy: usize,
    /// Since when each spare thread is spare, longest first. Threads are alike: the last
    /// entry stands for the thread that wakes next, so that one that is not needed ages.
    spare: VecDeque<Boot>,
    queued: usize,
    promised_threads: usize,
    promised_places: usize,
    /// How many items were started since `paced_at`, and how many per [`PACED`] before that, if that is
    /// known.
    starts: usize,
    pace: Option<usize>,
    /// A lower bound of `pace` while that is not known, for the current [`PACED`].
    early: Option<usize>,
    /// The queue's limit while its pace is not known.
    allowed: usize,
    paced_at: Boot,
    /// The last thread could not be made: count on those there are until one can.
    stunted: bool,
    closed: bool,
    /// A seat was asked for in vain, and none has become free since.
    wanted: bool,
    /// Items were handed back because no task of theirs was polled, and none has been since.
    blocked: bool,
}

impl Admission {
    pub(super) fn new(limits: PoolLimits) -> Self {
        let core = limits.core.max(1);
        Self {
            limits: PoolLimits { core, max: limits.max.max(core), ..limits },
            now: Boot::MIN,
            busy: 0,
            spare: VecDeque::new(),
            queued: 0,
            promised_threads: 0,
            promised_places: 0,
            starts: 0,
            pace: None,
            early: None,
            allowed: UNMEASURED,
            paced_at: Boot::MIN,
            stunted: false,
            closed: false,
            wanted: false,
            blocked: false,
        }
    }

    pub(super) fn figures(&self) -> Figures {
        Figures {
            threads: self.threads(),
            busy: self.busy,
            queued: self.queued,
            reserved: self.promised_threads + self.promised_places,
            max: self.limits.max,
            queue: self.limits.queue,
        }
    }

    /// Learns the time; returns the latest it was ever told.
    pub(super) fn observe(&mut self, now: Boot) -> Boot {
        self.now = self.now.max(now);
        let span = self.now.saturating_since(self.paced_at);
        if span >= PACED {
            let periods = u32::try_from(span / PACED).unwrap_or(u32::MAX);
            self.measured(periods);
            self.starts = 0;
            self.early = None;
            self.paced_at = self.now;
        } else if self.starts == 0 && self.at_rest() {
            // Waiting for its claim it moves nothing: the measure begins with what comes now.
            self.paced_at = self.now;
        } else if self.pace.is_none() {
            self.early = self.paced_by_the_first(span);
        }
        self.now
    }

    /// The measured pace, or an assumed one.
    fn believed_pace(&self) -> Option<usize> {
        self.pace.or(self.early)
    }

    /// The pace once enough have ended to tell, `span` after `paced_at`. The time was read a moment ago, and
    /// items went on ending: what looks like more than four times what is certain is not believed.
    fn paced_by_the_first(&self, span: i64) -> Option<usize> {
        let ended = self.starts.saturating_sub(self.busy);
        let times = usize::try_from(PACED / (span + 1)).unwrap_or_default();
        (ended >= FAST).then(|| ended * times.min(4))
    }

    /// Updates the pace at the end of a [`PACED`]. A pool at rest had nothing more to start, so its starts
    /// only prove a higher pace, never a lower one. A busy pool may have lacked processor time, so a lower
    /// figure counts by half.
    fn measured(&mut self, periods: u32) {
        let (known, pace) = (self.pace.unwrap_or_default(), self.starts / periods as usize);
        if !self.at_rest() {
            self.pace = Some(pace.max(known.checked_shr(periods).unwrap_or_default()));
        } else {
            self.pace = Some(known.max(pace)).filter(|pace| *pace >= FAST);
            if self.starts > 0 {
                self.allowed = UNMEASURED.max(2 * self.starts);
            }
        }
    }

    // Seats.

    pub(super) fn reserve(&mut self) -> Option<Seat> {
        let seat = self.free_seat();
        match seat {
            Some(Seat::Thread) => self.promised_threads += 1,
            Some(Seat::Soon | Seat::Place) => self.promised_places += 1,
            None => self.wanted = true,
        }
        seat
    }

    /// The seat is used, or given back.
    pub(super) fn release(&mut self, seat: Seat) {
        match seat {
            Seat::Thread => self.promised_threads -= 1,
            Seat::Soon | Seat::Place => self.promised_places -= 1,
        }
    }

    /// Whether a seat is free again after one was asked for in vain: true once per such time.
    pub(super) fn freed(&mut self) -> bool {
        let freed = self.wanted && self.free_seat().is_some();
        self.wanted &= !freed;
        freed
    }

    /// No more seats; those given out stay good. Spare threads retire at once.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Gives out no seats until a task is polled.
    pub(super) fn block(&mut self) {
        self.blocked = true;
    }

    /// A task is polled.
    #[cfg(any(test, feature = "tokio"))]
    pub(super) fn polled(&mut self) {
        self.blocked = false;
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Core threads first, then the queue until it is full, then threads up to max. A queue that moves fast
    /// is full when what comes next could not start soon, a slow one with [`SLOW`] more; one that has not
    /// been measured takes a few, and more each time it was through with them.
    ///
    /// Where it moves fast the threads are for those ahead: promised to a claim still to be answered, they
    /// would stand idle until it is, and what is already claimed would wait for them.
    fn free_seat(&self) -> Option<Seat> {
        if self.closed || self.blocked {
            return None;
        }
        let ahead = self.queued + self.promised_places;
        let pace = self.believed_pace();
        let moves_fast = pace.is_some_and(|pace| pace >= FAST);
        let spare = self.committed() < self.settled();
        if spare && !(moves_fast && ahead > 0) {
            return Some(Seat::Thread);
        }
        let growth = (!spare && self.can_grow()).then_some(Seat::Thread);
        match pace {
            _ if ahead >= self.limits.queue => growth,
            None => (ahead < self.allowed).then_some(Seat::Place),
            Some(pace) if ahead < pace.saturating_mul(SOON) => Some(Seat::Soon),
            Some(pace) if !moves_fast && ahead < pace * SOON + SLOW => Some(Seat::Place),
            Some(_) => growth,
        }
    }

    // Items.

    pub(super) fn queued(&mut self) {
        self.queued += 1;
    }

    pub(super) fn unqueued(&mut self) {
        self.queued -= 1;
    }

    /// An item was given to a spare thread.
    pub(super) fn started(&mut self) {
        self.spare.pop_back();
        self.busy += 1;
        self.starts += 1;
    }

    pub(super) fn finished(&mut self) {
        self.busy -= 1;
        self.spare.push_back(self.now);
    }

    /// Whether the head of the queue starts now. It may take even a promised spare thread, as long
    /// as another can be made for the promise.
    pub(super) fn may_start_queued(&self) -> bool {
        let thread = self.committed() < self.settled() || self.has_spare() && self.can_grow();
        self.queued > 0 && thread
    }

    /// The fate of the head of the queue, which has waited since `since`.
    pub(super) fn waited(&self, since: Boot) -> Verdict {
        let waited = self.now.saturating_since(since);
        if waited > self.limits.grow_after && self.can_grow() {
            Verdict::Grow
        } else if self.waited_too_long(since) {
            Verdict::GiveBack
        } else {
            Verdict::Stay
        }
    }

    pub(super) fn waited_too_long(&self, since: Boot) -> bool {
        self.now.saturating_since(since) > self.limits.give_back_after
    }

    pub(super) fn at_rest(&self) -> bool {
        self.busy == 0 && self.queued == 0
    }

    // Threads.

    pub(super) fn has_spare(&self) -> bool {
        !self.spare.is_empty()
    }

    pub(super) fn spawned(&mut self) {
        self.stunted = false;
        self.spare.push_back(self.now);
    }

    pub(super) fn spawn_failed(&mut self) {
        self.stunted = true;
    }

    pub(super) fn stunted(&self) -> bool {
        self.stunted
    }

    /// Whether the thread that is spare longest should go.
    pub(super) fn may_retire(&self) -> bool {
        let above_core = self.threads() > self.limits.core;
        self.spare.len() > self.promised_threads
            && self.spare.front().is_some_and(|since| {
                let spare_for = self.now.saturating_since(*since);
                self.closed || above_core && spare_for >= self.limits.retire_after
            })
    }

    pub(super) fn retired(&mut self) {
        self.spare.pop_front();
    }

    fn threads(&self) -> usize {
        self.busy + self.spare.len()
    }

    fn committed(&self) -> usize {
        self.busy + self.promised_threads
    }

    /// The threads to count on before anything queues: those there are, and core.
    fn settled(&self) -> usize {
        let core = if self.stunted { 0 } else { self.limits.core };
        self.threads().max(core)
    }

    fn can_grow(&self) -> bool {
        !self.stunted && self.committed() < self.limits.max
    }
}
