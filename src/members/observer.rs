//! The observer of the other nodes: decides which of them this node may declare dead.
//!
//! A node is dead when an observer saw its beat unchanged for `d` of *covered* time. Two heartbeats of the
//! observer's own cover the time between them if both were confirmed and none failed in between, and one
//! interval `h` at most.
//! * Leases stay safe: covered time is never more than the time that has passed, and it is counted from the
//!   arrival of the answer that first showed the beat to the sending of a later heartbeat. When `d` of it has
//!   passed, so has `d` since the node sent the last heartbeat that can have given it a lease.
//! * A stopped or slow database kills nobody: while it answers no heartbeats no time is covered. Covered time
//!   is time in which it answered the observer. In `d` of it a node that lives has sent several heartbeats of
//!   its own: it sends the next within `h + q` of the one before.
//! * What was seen is kept when an observer's heartbeat fails. It costs the time up to the next confirmed
//!   one, not more.

use std::collections::HashMap;

use crate::domain::{Boot, Millis, NodeId};
use crate::store::Peer;
use crate::time::Window;

/// Watches every node's beat on the observer's own boot clock. Pure.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// Each node's beat, and how much time has been covered since it was first seen.
    seen: HashMap<NodeId, (i64, Millis)>,
    /// When the last heartbeat was sent, if it was confirmed.
    confirmed: Option<Boot>,
}

impl Observer {
    /// Takes in the other nodes as a confirmed heartbeat, sent at `sent` and answered at `now`,
    /// saw them; gives those whose beat has not moved for `death_after` of covered time.
    pub(crate) fn observe(&mut self, peers: &[Peer], sent: Boot, now: Boot, window: &Window) -> Vec<Peer> {
        let before = self.confirmed.replace(sent);
        let covered = before.map_or(0, |before| (sent - before).min(window.beat));
        self.seen.retain(|id, _| peers.iter().any(|peer| peer.id == *id));
        // A beat may have been written until the answer's arrival: the time before that does not count.
        let first = sent - now;
        // Later than any call may take: this process was stopped. The next heartbeat looks sooner than that
        // counts.
        let is_late = now - sent > window.call;
        let is_dead = |peer: &&Peer| {
            if is_late && self.seen.get(&peer.id).is_none_or(|(beat, _)| *beat != peer.beat) {
                self.seen.remove(&peer.id);
                return false;
            }
            let (beat, unchanged) = self.seen.entry(peer.id).or_insert((peer.beat, first - covered));
            *unchanged = if *beat == peer.beat { *unchanged + covered } else { first };
            *beat = peer.beat;
            *unchanged >= window.death
        };
        peers.iter().filter(is_dead).cloned().collect()
    }

    /// An own heartbeat failed: the time from the last confirmed one to the next is not covered.
    pub(crate) fn failed(&mut self) {
        self.confirmed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEATH: Millis = 25_000;

    fn peer(beat: i64) -> Peer {
        Peer { id: NodeId::fresh(), beat, jobs: Vec::new(), blocked: Vec::new() }
    }

    fn watch(observer: &mut Observer, peer: &Peer, at: Millis) -> bool {
        let at = Boot::at(at);
        !observer.observe(std::slice::from_ref(peer), at, at + 10, &Window::default()).is_empty()
    }

    #[test]
    fn a_beat_unchanged_for_d_of_covered_time_is_death() {
        let mut observer = Observer::default();
        let peer = peer(7);
        let seen: Vec<bool> = (0..7).map(|n| watch(&mut observer, &peer, n * 5_000)).collect();
        assert_eq!(seen, [false, false, false, false, false, false, true]);
    }

    /// The observer was stopped for an hour while its heartbeat was answered: it would have watched for an
    /// hour more.
    #[test]
    fn a_beat_first_seen_in_a_late_answer_counts_from_the_next_heartbeat() {
        const HOUR: Millis = 3_600_000;
        let (mut observer, window) = (Observer::default(), Window::default());
        let (known, moved) = (peer(7), Peer { beat: 8, ..peer(0) });
        assert!(!watch(&mut observer, &Peer { beat: 7, ..moved.clone() }, 0));
        let late =
            observer.observe(&[known.clone(), moved.clone()], Boot::at(5_000), Boot::at(HOUR), &window);
        assert_eq!(late, []);
        let dead = |n| observer.observe(&[known.clone(), moved.clone()], n, n + 10, &window).len();
        let dead: Vec<usize> = (0..7).map(|n| Boot::at(HOUR + n * 5_000)).map(dead).collect();
        assert_eq!(dead, [0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn a_beat_that_moves_starts_the_count_again() {
        let mut observer = Observer::default();
        let mut peer = peer(0);
        for n in 0..50 {
            peer.beat = n / 5;
            assert!(!watch(&mut observer, &peer, n * 5_000), "at {n}");
        }
    }

    #[test]
    fn a_gap_in_the_observers_own_heartbeats_kills_nobody() {
        let mut observer = Observer::default();
        let peer = peer(7);
        assert!(!watch(&mut observer, &peer, 0));
        assert!(!watch(&mut observer, &peer, 60_000));
        assert!(!watch(&mut observer, &peer, 65_000));
    }

    #[test]
    fn a_failed_own_heartbeat_kills_nobody() {
        let mut observer = Observer::default();
        let peer = peer(7);
        for n in 0..20 {
            assert!(!watch(&mut observer, &peer, n * 5_000), "after {n}");
            observer.failed();
        }
    }

    /// It costs the time from the last confirmed heartbeat to the next, and nothing that was seen before.
    #[test]
    fn failed_own_heartbeats_do_not_put_a_death_off_for_good() {
        let mut observer = Observer::default();
        let peer = peer(7);
        let mut dead = Vec::new();
        for n in 0..10 {
            if n % 3 == 1 {
                observer.failed();
            }
            dead.extend(watch(&mut observer, &peer, n * 5_000).then_some(n));
        }
        assert_eq!(dead, [9], "two intervals in three are covered, and six are needed");
    }

    /// However long it was silent: its machine may have been stopped, and its neighbours with it.
    #[test]
    fn a_silence_of_the_observer_covers_no_more_than_an_interval() {
        for pause in [6_000, 13_000, 3_600_000] {
            let mut observer = Observer::default();
            let other = peer(7);
            let seen: Vec<bool> = (0..7).map(|n| watch(&mut observer, &other, n * pause)).collect();
            assert_eq!(seen, [false, false, false, false, false, false, true], "every {pause} ms");
        }
    }

    /// The beat may have been written until its answer came, and was looked for again when the next heartbeat
    /// was sent.
    #[test]
    fn death_takes_d_between_an_answer_and_a_question() {
        let window = Window { beat: 2 * DEATH, ..Window::default() };
        for (sent, dead) in [(DEATH + 9, false), (DEATH + 10, true)] {
            for moved in [false, true] {
                let mut observer = Observer::default();
                let other = peer(7);
                let mut see = |beat, sent, now| {
                    !observer.observe(&[Peer { beat, ..other.clone() }], sent, now, &window).is_empty()
                };
                let begin = Boot::at(if moved { 40_000 } else { 0 });
                assert!(!see(6, Boot::at(0), Boot::at(0)) && !see(7, begin, begin + 10));
                assert_eq!(see(7, begin + sent, begin + sent), dead, "moved: {moved}");
            }
        }
    }
}
