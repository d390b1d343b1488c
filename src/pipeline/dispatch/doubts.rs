//! Claims whose commit is unknown: which are asked about next, and when. Pure.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::claims::{BATCH, FAILURE_PAUSE, Sent};
use crate::domain::{Boot, Millis};
use crate::pipeline::plan::ItemKey;
use crate::store::ClaimRequest;

/// How often the database is asked about claims whose rows others hold.
pub(super) const PAUSE: Millis = 1_000;

/// A claim that may have been made.
struct Doubt<P> {
    request: ClaimRequest,
    item: ItemKey,
    permit: Option<P>,
}

pub(super) struct Doubts<P> {
    doubts: VecDeque<Doubt<P>>,
    /// When they are asked about.
    ask_at: Boot,
    /// The database has not answered yet for the newest of them: until it does, nothing else is claimed.
    is_new: bool,
}

impl<P> Doubts<P> {
    pub(super) fn new() -> Self {
        Self { doubts: VecDeque::new(), ask_at: Boot::MIN, is_new: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.doubts.is_empty()
    }

    /// Until when nothing but these is asked for.
    pub(super) fn blocks_until(&self) -> Option<Boot> {
        self.is_new.then_some(self.ask_at)
    }

    /// When the database is asked about them.
    pub(super) fn next_at(&self) -> Option<Boot> {
        (!self.is_empty()).then_some(self.ask_at)
    }

    pub(super) fn are_due(&self, boot: Boot) -> bool {
        self.next_at().is_some_and(|at| boot >= at)
    }

    /// The commit of these claims is unknown.
    pub(super) fn begin(&mut self, sent: Sent<P>, boot: Boot) {
        self.is_new = true;
        self.ask_at = boot + FAILURE_PAUSE;
        self.add(sent);
    }

    /// The next claims to be asked about, newest doubts first; at most one per schedule.
    /// Those without a seat get one by `reserve`, if there is one.
    pub(super) fn ask(&mut self, boot: Boot, mut reserve: impl FnMut(&ClaimRequest) -> Option<P>) -> Sent<P> {
        let mut schedules = HashSet::new();
        let (mut requests, mut seats) = (Vec::new(), Vec::new());
        for Doubt { request, item, permit } in std::mem::take(&mut self.doubts) {
            let exclusive = request.candidate.exclusive();
            let is_asked =
                requests.len() < BATCH && exclusive.is_none_or(|schedule| schedules.insert(schedule));
            if is_asked {
                seats.push((item, permit.or_else(|| reserve(&request))));
                requests.push(request);
            } else {
                self.doubts.push_back(Doubt { request, item, permit });
            }
        }
        Sent { at: boot, requests: Arc::new(requests), seats }
    }

    /// The database has answered.
    pub(super) fn answered(&mut self, boot: Boot) {
        (self.is_new, self.ask_at) = (false, boot + PAUSE);
    }

    /// Somebody holds its row, perhaps for long: its seat is for others meanwhile.
    pub(super) fn remains(&mut self, request: &ClaimRequest, item: ItemKey) {
        self.doubts.push_back(Doubt { request: request.clone(), item, permit: None });
    }

    /// The database has not answered. Other claims have their turn first, unless they wait for this.
    pub(super) fn failed(&mut self, sent: Sent<P>, boot: Boot) {
        self.ask_at = boot + if self.is_new { FAILURE_PAUSE } else { PAUSE };
        self.add(sent);
    }

    /// These are asked about first. They keep their seats if nothing else is claimed meanwhile.
    fn add(&mut self, Sent { requests, seats, .. }: Sent<P>) {
        for (request, (item, permit)) in requests.iter().zip(seats).rev() {
            let permit = permit.filter(|_| self.is_new);
            self.doubts.push_front(Doubt { request: request.clone(), item, permit });
        }
    }
}
