//! The floors of a node's pools where time is told, one for each lane, and the seats on them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::Boot;
use crate::pipeline::dispatch::Seats;
use crate::pipeline::lanes::{LaneId, LaneSettings};
use crate::pipeline::pool::Seat;
use crate::pipeline::pool::floor::Floor;
use crate::store::Claimed;

pub(crate) type SharedFloor = Arc<Mutex<Floor<Claimed>>>;

pub(crate) fn lock(floor: &SharedFloor) -> MutexGuard<'_, Floor<Claimed>> {
    floor.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host never refuses a thread.
pub(crate) fn hire() -> bool {
    true
}

/// A floor for each lane, the default one first.
#[derive(Clone)]
pub(crate) struct Floors(Vec<SharedFloor>);

impl Floors {
    pub(crate) fn new(lanes: &[LaneSettings]) -> Self {
        Self(lanes.iter().map(|lane| Arc::new(Mutex::new(Floor::new(lane.limits)))).collect())
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (LaneId, MutexGuard<'_, Floor<Claimed>>)> {
        LaneId::all().zip(self.0.iter().map(lock))
    }

    pub(crate) fn of(&self, lane: LaneId) -> MutexGuard<'_, Floor<Claimed>> {
        lock(&self.0[lane.place()])
    }

    pub(crate) fn shared(&self, lane: LaneId) -> &SharedFloor {
        &self.0[lane.place()]
    }

    pub(crate) fn are_at_rest(&self) -> bool {
        self.each().all(|(_, floor)| floor.at_rest())
    }

    pub(crate) fn close(&self) -> Vec<Claimed> {
        self.each().flat_map(|(_, mut floor)| floor.close()).collect()
    }

    /// The lanes that have a seat again after one was asked for in vain.
    pub(crate) fn freed(&self) -> Vec<LaneId> {
        self.each().filter_map(|(lane, mut floor)| floor.freed().then_some(lane)).collect()
    }

    /// The next execution that a thread may take.
    pub(crate) fn take_ready(&self) -> Option<(LaneId, Claimed)> {
        self.each().find_map(|(lane, mut floor)| Some((lane, floor.take_ready()?)))
    }
}

/// The right to submit one execution.
pub(crate) struct Permit {
    pub floor: SharedFloor,
    pub seat: Option<Seat>,
}

impl Permit {
    /// Gives a won claim to the floor of its seat; without a seat it is dropped.
    pub(crate) fn submit(mut self, claimed: Claimed, now: Boot) {
        match self.seat.take() {
            Some(seat) => lock(&self.floor).submit(seat, claimed, now, hire),
            None => drop(claimed),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            lock(&self.floor).release(seat, hire);
        }
    }
}

impl Seats for Floors {
    type Permit = Permit;

    fn reserve(&mut self, lane: LaneId) -> Option<Permit> {
        let floor = self.shared(lane);
        let seat = lock(floor).reserve()?;
        Some(Permit { floor: Arc::clone(floor), seat: Some(seat) })
    }

    fn seat(permit: &Permit) -> Seat {
        permit.seat.unwrap_or(Seat::Place)
    }

    fn tick(&mut self, boot: Boot) -> Vec<Claimed> {
        self.each().flat_map(|(_, mut floor)| floor.tick(boot, hire)).collect()
    }

    fn empty(&mut self) -> Vec<Claimed> {
        self.each().flat_map(|(_, mut floor)| floor.empty()).collect()
    }

    fn is_awaited(&self) -> bool {
        self.each().any(|(_, floor)| floor.is_awaited())
    }
}
