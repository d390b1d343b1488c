//! The seats that dispatch reserves, its inputs and its outputs.

use std::sync::Arc;

use crate::domain::shards::Share;
use crate::domain::{Boot, BoundOf, Event, Millis, NodeId, ScheduleId};
use crate::pipeline::lanes::LaneId;
use crate::pipeline::poll::PollPlan;
use crate::pipeline::pool::Seat;
use crate::pipeline::start::Won;
use crate::store::{Claimed, ExecutionChange};
use crate::time::Lease;

/// Seats in the pools of the lanes: one is reserved before each claim, so nothing claimed can be refused.
pub(crate) trait Seats: Send + 'static {
    /// Gives the seat back when dropped.
    type Permit: Send + 'static;

    fn reserve(&mut self, lane: LaneId) -> Option<Self::Permit>;

    fn seat(permit: &Self::Permit) -> Seat;

    /// Lets the pools grow for those who wait; hands back who waited too long.
    fn tick(&mut self, boot: Boot) -> Vec<Claimed>;

    /// Hands back all who wait.
    fn empty(&mut self) -> Vec<Claimed>;

    /// Whether that is needed: somebody waits for a thread, or has a permit and may wait soon.
    fn is_awaited(&self) -> bool;
}

pub(crate) enum DispatchInput {
    Planned(PollPlan),
    /// The newest lease: while it holds, claims are made under it.
    Lease(Lease),
    /// A seat of this lane has become free after one was refused.
    SeatFreed(LaneId),
    /// A run of a job has ended that may have to change lanes.
    Ran {
        job: Arc<str>,
        took: Millis,
    },
    /// The slot of this schedule has become free.
    SlotFreed(ScheduleId),
    /// An execution of a job with bounds has ended: its job and its group have room.
    Freed(BoundOf),
    /// The node drains: who waits in the pool goes back.
    HandBack,
    /// These are the home shards now: enqueued executions of others are left to their nodes.
    Home(Vec<Share>),
    /// Drop the plan: the clock stepped.
    Jumped,
    /// The node joined again under a new name; what the old one held is no longer ours.
    Reborn(NodeId),
    Stop,
}

pub(crate) enum DispatchOutput<P> {
    Won(Vec<Won<P>>),
    GiveBack(ExecutionChange),
    WakePoll,
    /// The lease is in doubt: a heartbeat at once.
    WakeHeart,
    /// Another node claims executions that this one takes for its own share: it may have joined.
    Contested,
    Event(Event),
}
