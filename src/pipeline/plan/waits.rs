//! Since when lanes, jobs and groups have had no seat for what is due. Pure.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::domain::{BoundOf, BoundScope, Millis, SeatKind, SeatWait, Timestamp};
use crate::pipeline::lanes::LaneId;

/// A shorter wait is not noted.
const NOTED: Millis = 1_000;

#[derive(Default)]
pub(super) struct Waits {
    lanes: FxHashMap<LaneId, Timestamp>,
    /// And whether time alone makes room.
    bounds: FxHashMap<BoundOf, (Timestamp, bool)>,
}

impl Waits {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.bounds.is_empty()
    }

    /// A due item of the lane got no seat.
    pub(super) fn lane_is_full(&mut self, lane: LaneId, now: Timestamp) {
        self.lanes.entry(lane).or_insert(now);
    }

    /// A claim found no room, as earlier ones since then.
    pub(super) fn bound_is_full(&mut self, of: &BoundOf, is_rate: bool, since: Timestamp) {
        let found = self.bounds.entry(of.clone()).or_insert((since, is_rate));
        *found = (found.0.min(since), is_rate);
    }

    /// Keeps the lanes, jobs and groups for which something still waits.
    pub(super) fn retain(&mut self, of_lane: impl Fn(LaneId) -> bool, of_bound: impl Fn(&BoundOf) -> bool) {
        self.lanes.retain(|lane, _| of_lane(*lane));
        self.bounds.retain(|of, _| of_bound(of));
    }

    /// What an item has waited for longest that was due at `due`, if it is worth a note.
    pub(super) fn of(
        &self,
        (due, now): (Timestamp, Timestamp),
        (lane, lane_name): (LaneId, impl FnOnce() -> Arc<str>),
        of: BoundOf,
    ) -> Option<SeatWait> {
        let span = |since: Timestamp| now - since.max(due);
        let of_lane = self.lanes.get(&lane).map(|since| span(*since)).filter(|span| *span >= NOTED);
        let of_job = BoundOf { job: Arc::clone(&of.job), group: None };
        let scoped =
            [(BoundScope::Job, Some(of_job)), (BoundScope::Group, Some(of).filter(|it| it.group.is_some()))];
        let of_bounds = scoped.into_iter().filter_map(|(scope, of)| {
            let (since, is_rate) = self.bounds.get(&of?)?;
            let seat = if *is_rate { SeatKind::Rate(scope) } else { SeatKind::Bound(scope) };
            Some(SeatWait { seat, span: span(*since) })
        });
        let longest = of_bounds.filter(|wait| wait.span >= NOTED).max_by_key(|wait| wait.span);
        match (of_lane, longest) {
            (Some(span), Some(bound)) if bound.span >= span => Some(bound),
            (Some(span), _) => Some(SeatWait { seat: SeatKind::Lane(lane_name()), span }),
            (None, bound) => bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: LaneId = LaneId::DEFAULT;

    fn of(group: Option<&str>) -> BoundOf {
        BoundOf { job: "job".into(), group: group.map(Into::into) }
    }

    fn at(millis: Millis) -> Timestamp {
        Timestamp::at(1_767_225_600_000 + millis)
    }

    fn waited(waits: &Waits, due: Millis, now: Millis) -> Option<String> {
        let found = waits.of((at(due), at(now)), (LANE, || "slow".into()), of(Some("g")));
        found.map(|wait| wait.to_string())
    }

    #[test]
    fn an_item_waits_from_its_due_time_or_from_the_first_refusal() {
        let mut waits = Waits::default();
        assert_eq!((waits.is_empty(), waited(&waits, 0, 9_000)), (true, None));
        waits.lane_is_full(LANE, at(1_000));
        waits.lane_is_full(LANE, at(5_000));
        assert_eq!(waited(&waits, 0, 9_000).as_deref(), Some("lane slow 8000"));
        assert_eq!(waited(&waits, 7_500, 9_000).as_deref(), Some("lane slow 1500"));
        assert_eq!(waited(&waits, 8_001, 9_000), None, "it is on time");
    }

    #[test]
    fn of_several_the_longest_is_named() {
        let mut waits = Waits::default();
        waits.lane_is_full(LANE, at(5_000));
        waits.bound_is_full(&of(Some("g")), true, at(3_000));
        assert_eq!(waited(&waits, 0, 9_000).as_deref(), Some("group rate 6000"));
        waits.bound_is_full(&of(None), false, at(4_000));
        waits.bound_is_full(&of(None), false, at(2_000));
        assert_eq!(waited(&waits, 0, 9_000).as_deref(), Some("job 7000"));
        waits.retain(|_| true, |of| of.group.is_some());
        assert_eq!(waited(&waits, 0, 9_000).as_deref(), Some("group rate 6000"));
        waits.retain(|_| true, |_| false);
        assert_eq!(waited(&waits, 0, 9_000).as_deref(), Some("lane slow 4000"));
        waits.retain(|_| false, |_| true);
        assert!(waits.is_empty());
    }
}
