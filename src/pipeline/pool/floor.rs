//! The floor of a pool: the items that wait and the next to start, under admission's counts. Pure.
//!
//! A floor makes no threads itself. Each of its events is given `hire`, which makes one, or returns false if
//! the system has none.

use std::collections::VecDeque;

use super::admission::{Admission, Figures, PoolLimits, Seat, Verdict};
use crate::domain::Boot;

pub(crate) struct Floor<T> {
    admission: Admission,
    /// Items that have a thread: it only has to wake up.
    ready: VecDeque<T>,
    /// Items that wait for a thread, with the time since when; longest first.
    queue: VecDeque<(Boot, T)>,
    /// Items whose tasks have not been polled yet, with the time since when. They count as busy.
    unpolled: VecDeque<(Boot, T)>,
}

impl<T> Floor<T> {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self {
            admission: Admission::new(limits),
            ready: VecDeque::new(),
            queue: VecDeque::new(),
            unpolled: VecDeque::new(),
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        self.admission.figures()
    }

    /// Whether somebody waits for a thread or a poll, or may soon: what has a permit may be on its way.
    pub(crate) fn is_awaited(&self) -> bool {
        let figures = self.figures();
        figures.queued + figures.reserved + self.unpolled.len() > 0
    }

    /// Whether items were handed back because no task of theirs was polled, and none has been since.
    pub(crate) fn is_blocked(&self) -> bool {
        self.admission.is_blocked()
    }

    /// A seat for one item; `None` when there is none.
    pub(crate) fn reserve(&mut self) -> Option<Seat> {
        self.admission.reserve()
    }

    /// A seat is given back unused.
    pub(crate) fn release(&mut self, seat: Seat, mut hire: impl FnMut() -> bool) {
        self.admission.release(seat);
        self.settle(&mut hire);
    }

    /// An item takes its seat at `now`.
    pub(crate) fn submit(&mut self, seat: Seat, item: T, now: Boot, mut hire: impl FnMut() -> bool) {
        let now = self.admission.observe(now);
        self.admission.release(seat);
        if seat == Seat::Thread && self.have_spare(&mut hire) {
            self.start(item);
        } else {
            self.admission.queued();
            self.queue.push_back((now, item));
        }
        self.settle(&mut hire);
    }

    /// Looks after those who wait; gives back who waited too long.
    pub(crate) fn tick(&mut self, now: Boot, mut hire: impl FnMut() -> bool) -> Vec<T> {
        self.admission.observe(now);
        if self.admission.stunted() {
            self.hire(&mut hire);
        }
        let mut given_back = Vec::new();
        loop {
            match self.verdict() {
                Verdict::Stay => break,
                Verdict::GiveBack => given_back.extend(self.dequeue()),
                Verdict::Grow if self.hire(&mut hire) => self.start_queued(),
                Verdict::Grow => {} // No thread was to be had: the next verdict knows.
            }
        }
        while self.unpolled.front().is_some_and(|(since, _)| self.admission.waited_too_long(*since)) {
            self.admission.block();
            given_back.extend(self.forget_unpolled());
        }
        self.settle(&mut hire);
        given_back
    }

    /// Gives back those who wait.
    pub(crate) fn empty(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.dequeue().or_else(|| self.forget_unpolled())).collect()
    }

    /// No more seats; gives back those who wait.
    pub(crate) fn close(&mut self) -> Vec<T> {
        self.admission.close();
        self.empty()
    }

    /// An item that was started waits, since `now`, until a task is polled.
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn await_poll(&mut self, item: T, now: Boot) {
        let now = self.admission.observe(now);
        self.unpolled.push_back((now, item));
    }

    /// A task is polled: the item that has waited longest, unless all were handed back.
    #[cfg(any(test, feature = "tokio"))]
    pub(crate) fn polled(&mut self) -> Option<T> {
        self.admission.polled();
        self.unpolled.pop_front().map(|(_, item)| item)
    }

    /// A thread is done with its item.
    pub(crate) fn finished(&mut self, mut hire: impl FnMut() -> bool) {
        self.admission.finished();
        self.settle(&mut hire);
    }

    /// The next item that has a thread.
    pub(crate) fn take_ready(&mut self) -> Option<T> {
        self.ready.pop_front()
    }

    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether the asking thread should end, which it then does.
    pub(crate) fn retires(&mut self) -> bool {
        let retires = self.may_retire();
        if retires {
            self.admission.retired();
        }
        retires
    }

    pub(crate) fn may_retire(&self) -> bool {
        self.admission.may_retire()
    }

    pub(crate) fn at_rest(&self) -> bool {
        self.admission.at_rest()
    }

    /// Whether a seat is free again after one was asked for in vain: true once per such time.
    pub(crate) fn freed(&mut self) -> bool {
        self.admission.freed()
    }

    /// Brings about what the counts now call for.
    fn settle(&mut self, hire: &mut impl FnMut() -> bool) {
        while self.admission.may_start_queued() && self.have_spare(hire) {
            self.start_queued();
        }
    }

    fn verdict(&self) -> Verdict {
        let head = self.queue.front();
        head.map_or(Verdict::Stay, |(since, _)| self.admission.waited(*since))
    }

    fn forget_unpolled(&mut self) -> Option<T> {
        let (_, item) = self.unpolled.pop_front()?;
        self.admission.finished();
        Some(item)
    }

    fn dequeue(&mut self) -> Option<T> {
        let (_, item) = self.queue.pop_front()?;
        self.admission.unqueued();
        Some(item)
    }

    fn start_queued(&mut self) {
        if let Some(item) = self.dequeue() {
            self.start(item);
        }
    }

    /// Gives the item to a spare thread.
    fn start(&mut self, item: T) {
        self.admission.started();
        self.ready.push_back(item);
    }

    fn have_spare(&mut self, hire: &mut impl FnMut() -> bool) -> bool {
        self.admission.has_spare() || self.hire(hire)
    }

    fn hire(&mut self, hire: &mut impl FnMut() -> bool) -> bool {
        let hired = hire();
        if hired {
            self.admission.spawned();
        } else {
            self.admission.spawn_failed();
        }
        hired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_on_its_way_is_awaited_and_what_runs_is_not() {
        let mut floor = Floor::new(PoolLimits::new(1, 1, 1));
        assert!(!floor.is_awaited());
        let [thread, place] = [(); 2].map(|()| floor.reserve().expect("a seat"));
        assert!(floor.is_awaited());
        floor.submit(thread, 1, Boot::at(0), || true);
        assert!(floor.is_awaited(), "the other permit");
        floor.submit(place, 2, Boot::at(0), || true);
        assert!(floor.is_awaited(), "it waits in the queue");
        assert_eq!(floor.close(), [2]);
        assert!(!floor.is_awaited());
    }
}
