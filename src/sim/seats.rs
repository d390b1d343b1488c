//! The seats of a simulated node's lanes, as the dispatch machine reserves them.

use std::sync::Arc;

use crate::domain::Boot;
use crate::pipeline::dispatch::Seats;
use crate::pipeline::lanes::LaneId;
use crate::pipeline::pool::Seat;
use crate::store::Claimed;
pub(super) use crate::testing::floors::{Floors, Permit, hire, lock};

pub(super) struct FloorSeats {
    pub floors: Floors,
    /// A sabotage: a claim is made although no seat is free.
    pub always: bool,
    /// A sabotage: a lane has a seat only while every lane has.
    pub together: bool,
}

impl FloorSeats {
    fn seat_in(&self, lane: LaneId) -> Option<Permit> {
        let floor = self.floors.shared(lane);
        let seat = lock(floor).reserve();
        (seat.is_some() || self.always).then(|| Permit { floor: Arc::clone(floor), seat })
    }
}

impl Seats for FloorSeats {
    type Permit = Permit;

    fn reserve(&mut self, lane: LaneId) -> Option<Permit> {
        let seats = self.floors.each().count();
        if self.together && LaneId::all().take(seats).any(|other| self.seat_in(other).is_none()) {
            return None;
        }
        self.seat_in(lane)
    }

    fn seat(permit: &Permit) -> Seat {
        Floors::seat(permit)
    }

    fn tick(&mut self, boot: Boot) -> Vec<Claimed> {
        self.floors.tick(boot)
    }

    fn empty(&mut self) -> Vec<Claimed> {
        self.floors.empty()
    }

    fn is_awaited(&self) -> bool {
        self.floors.is_awaited()
    }
}
