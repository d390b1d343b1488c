//! The floors of a node's pools in virtual time, one for each lane, and their seats as the dispatch machine
//! reserves them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::Boot;
use crate::pipeline::dispatch::Seats;
use crate::pipeline::lanes::{LaneId, LaneSettings};
use crate::pipeline::pool::Seat;
use crate::pipeline::pool::floor::Floor;
use crate::store::Claimed;

pub(super) type SharedFloor = Arc<Mutex<Floor<Claimed>>>;

pub(super) fn lock(floor: &SharedFloor) -> MutexGuard<'_, Floor<Claimed>> {
    floor.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host never refuses a thread.
pub(super) fn hire() -> bool {
    true
}

/// A floor for each lane, the default one first.
#[derive(Clone)]
pub(super) struct Floors(Vec<SharedFloor>);

impl Floors {
    pub(super) fn new(lanes: &[LaneSettings]) -> Self {
        Self(lanes.iter().map(|lane| Arc::new(Mutex::new(Floor::new(lane.limits)))).collect())
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (LaneId, MutexGuard<'_, Floor<Claimed>>)> {
        LaneId::all().zip(self.0.iter().map(lock))
    }

    pub(super) fn of(&self, lane: LaneId) -> MutexGuard<'_, Floor<Claimed>> {
        lock(&self.0[lane.place()])
    }

    pub(super) fn are_at_rest(&self) -> bool {
        self.each().all(|(_, floor)| floor.at_rest())
    }

    pub(super) fn close(&self) -> Vec<Claimed> {
        self.each().flat_map(|(_, mut floor)| floor.close()).collect()
    }

    /// The lanes that have a seat again after one was asked for in vain.
    pub(super) fn freed(&self) -> Vec<LaneId> {
        self.each().filter_map(|(lane, mut floor)| floor.freed().then_some(lane)).collect()
    }
}

pub(super) struct FloorSeats {
    pub floors: Floors,
    /// A sabotage: a claim is made although no seat is free.
    pub always: bool,
    /// A sabotage: a lane has a seat only while every lane has.
    pub together: bool,
}

pub(super) struct Permit {
    pub floor: SharedFloor,
    pub seat: Option<Seat>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            lock(&self.floor).release(seat, hire);
        }
    }
}

impl FloorSeats {
    fn seat_in(&self, lane: LaneId) -> Option<Permit> {
        let floor = &self.floors.0[lane.place()];
        let seat = lock(floor).reserve();
        (seat.is_some() || self.always).then(|| Permit { floor: Arc::clone(floor), seat })
    }
}

impl Seats for FloorSeats {
    type Permit = Permit;

    fn reserve(&mut self, lane: LaneId) -> Option<Permit> {
        let seats = self.floors.0.len();
        if self.together && LaneId::all().take(seats).any(|other| self.seat_in(other).is_none()) {
            return None;
        }
        self.seat_in(lane)
    }

    fn seat(permit: &Permit) -> Seat {
        permit.seat.unwrap_or(Seat::Place)
    }

    fn tick(&mut self, boot: Boot) -> Vec<Claimed> {
        self.floors.each().flat_map(|(_, mut floor)| floor.tick(boot, hire)).collect()
    }

    fn empty(&mut self) -> Vec<Claimed> {
        self.floors.each().flat_map(|(_, mut floor)| floor.empty()).collect()
    }

    fn is_awaited(&self) -> bool {
        self.floors.each().any(|(_, floor)| floor.is_awaited())
    }
}
