//! Jobs and groups that are not claimed for a while, because their bounds leave no room or another node
//! holds the job's row: when the next claim is tried. Pure.

use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use crate::domain::{Boot, BoundOf, Millis, NodeId};

/// The pause before the second try, and at most before a later one; each is twice as long as the last.
type Pauses = RangeInclusive<Millis>;

/// Another node's claim is in the way.
const BUSY: Pauses = 20..=640;
/// An execution has to end first. One that ends here is told; elsewhere none is.
const FULL: Pauses = 100..=3_200;

/// How long a hold's last pause is remembered.
const FORGOTTEN: Millis = 10_000;

pub(super) struct Holds {
    holds: FxHashMap<BoundOf, Hold>,
    /// No hold ends before this instant.
    next: Boot,
    /// Added to each pause, different for each node: two nodes that collided do not collide again.
    apart: Millis,
}

struct Hold {
    /// When it is tried again; none while it is.
    at: Option<Boot>,
    pause: Millis,
    /// Nothing but time makes room.
    is_timed: bool,
    /// When it was tried last.
    tried: Boot,
}

impl Holds {
    pub(super) fn new(node: NodeId) -> Self {
        let apart = Millis::try_from(node.0.as_u128() % BUSY.start().unsigned_abs() as u128).unwrap_or(0);
        Self { holds: FxHashMap::default(), next: Boot::MAX, apart }
    }

    /// A claim found it counted by another.
    pub(super) fn busy(&mut self, of: BoundOf, boot: Boot) {
        self.add(of, BUSY, boot);
    }

    /// A claim found no room: until this instant, or until an execution has ended.
    pub(super) fn full(&mut self, of: BoundOf, until: Option<Boot>, boot: Boot) {
        match until {
            Some(until) => {
                let at = until.max(boot + 1);
                self.holds.insert(of, Hold { at: Some(at), pause: 0, is_timed: true, tried: boot });
                self.next = self.next.min(at);
            }
            None => self.add(of, FULL, boot),
        }
    }

    fn add(&mut self, of: BoundOf, pauses: Pauses, boot: Boot) {
        let none = Hold { at: None, pause: 0, is_timed: false, tried: boot };
        let hold = self.holds.entry(of).or_insert(none);
        if hold.at.is_none() || hold.is_timed {
            let pause = hold.pause.clamp(*pauses.start(), *pauses.end());
            let at = boot + pause + self.apart;
            *hold = Hold { at: Some(at), pause: 2 * pause, is_timed: false, tried: boot };
            self.next = self.next.min(at);
        }
    }

    /// A claim of it was not in anybody's way, or found room; whether it was to be tried again later.
    pub(super) fn settle(&mut self, of: &BoundOf) -> bool {
        let settled = self.holds.remove(of);
        if self.holds.is_empty() {
            self.next = Boot::MAX;
        }
        settled.is_some_and(|hold| hold.at.is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Whether the end of an execution makes no room.
    pub(super) fn is_timed(&self, of: &BoundOf) -> bool {
        self.holds.get(of).is_some_and(|hold| hold.is_timed && hold.at.is_some())
    }

    /// The jobs and groups whose next claim is tried now. Those that found room for a while are forgotten.
    pub(super) fn due(&mut self, boot: Boot) -> Vec<BoundOf> {
        if boot < self.next {
            return Vec::new();
        }
        self.holds.retain(|_, hold| hold.at.is_some() || boot - hold.tried < FORGOTTEN);
        self.next =
            self.holds.values().filter_map(|hold| hold.at).filter(|at| *at > boot).min().unwrap_or(Boot::MAX);
        let due = self.holds.iter_mut().filter(|(_, hold)| hold.at.is_some_and(|at| at <= boot));
        due.map(|(of, hold)| {
            (hold.at, hold.tried) = (None, boot);
            of.clone()
        })
        .collect()
    }

    /// When the next one is.
    pub(super) fn next_at(&self) -> Option<Boot> {
        Some(self.next).filter(|next| *next < Boot::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(group: Option<&str>) -> BoundOf {
        BoundOf { job: "job".into(), group: group.map(Into::into) }
    }

    /// The pauses before eight tries, each of which finds it as `again` says.
    fn pauses(holds: &mut Holds, again: impl Fn(&mut Holds, Boot)) -> Vec<Millis> {
        let (mut now, mut pauses) = (Boot::at(0), Vec::new());
        for _ in 0..8 {
            again(holds, now);
            again(holds, now); // Another of the same batch.
            let at = holds.next_at().unwrap();
            pauses.push(at - now);
            assert!(holds.due(at - 1).is_empty());
            assert_eq!((holds.due(at), holds.next_at()), (vec![of(None)], None));
            now = at;
        }
        pauses
    }

    #[test]
    fn each_pause_is_twice_as_long_until_a_claim_gets_through() {
        let mut holds = Holds::new(NodeId(uuid::Uuid::from_u128(7)));
        let busy = pauses(&mut holds, |holds, now| holds.busy(of(None), now));
        assert_eq!(busy, [27, 47, 87, 167, 327, 647, 647, 647]);
        holds.settle(&of(None));
        holds.busy(of(None), Boot::at(0));
        assert_eq!(holds.next_at(), Some(Boot::at(27)));
        holds.settle(&of(None));
        let full = pauses(&mut holds, |holds, now| holds.full(of(None), None, now));
        assert_eq!(full, [107, 207, 407, 807, 1_607, 3_207, 3_207, 3_207]);
    }

    #[test]
    fn what_time_alone_frees_is_tried_at_its_time() {
        let mut holds = Holds::new(NodeId(uuid::Uuid::nil()));
        holds.full(of(Some("a")), Some(Boot::at(900)), Boot::at(100));
        holds.full(of(Some("b")), None, Boot::at(100));
        assert_eq!([of(Some("a")), of(Some("b"))].map(|of| holds.is_timed(&of)), [true, false]);
        assert_eq!((holds.due(Boot::at(200)), holds.next_at()), (vec![of(Some("b"))], Some(Boot::at(900))));
        assert_eq!(holds.due(Boot::at(900)), [of(Some("a"))]);
        assert!(!holds.is_timed(&of(Some("a"))), "it is tried");
        holds.full(of(Some("a")), Some(Boot::at(100)), Boot::at(950));
        assert_eq!(holds.next_at(), Some(Boot::at(951)), "not at once: its clock may be behind");
    }
}
