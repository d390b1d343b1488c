//! The pool's own floor in virtual time, and its seats as the dispatch machine reserves them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::Millis;
use crate::pipeline::dispatch::Seats;
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

pub(super) struct FloorSeats {
    pub floor: SharedFloor,
    /// A sabotage: a claim is made although no seat is free.
    pub always: bool,
}

pub(super) struct Permit {
    floor: SharedFloor,
    pub seat: Option<Seat>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.take() {
            lock(&self.floor).release(seat, hire);
        }
    }
}

impl Seats for FloorSeats {
    type Permit = Permit;

    fn reserve(&mut self) -> Option<Permit> {
        let seat = lock(&self.floor).reserve();
        (seat.is_some() || self.always).then(|| Permit { floor: Arc::clone(&self.floor), seat })
    }

    fn seat(permit: &Permit) -> Seat {
        permit.seat.unwrap_or(Seat::Place)
    }

    fn tick(&mut self, boot: Millis) -> Vec<Claimed> {
        lock(&self.floor).tick(boot, hire)
    }

    fn empty(&mut self) -> Vec<Claimed> {
        lock(&self.floor).empty()
    }

    fn is_awaited(&self) -> bool {
        lock(&self.floor).is_awaited()
    }
}
