//! The occurrences that a schedule has fallen behind by, counted.

use super::{NextFire, Timestamp};
use crate::trigger::Timing;

/// The most occurrences counted one by one, beyond which a count of what a fixed interval does not reckon
/// ends.
pub(crate) const MOST_PASSED: u64 = 100_000;
/// The most occurrences whose fire times are kept: as many as "fire all" runs in one repair.
pub(crate) const MOST_FIRED: usize = 1_000;

/// The occurrences of a schedule from its cursor to `now`.
pub(crate) struct Missed {
    pub first: Timestamp,
    pub last: Timestamp,
    /// The one before the last.
    pub before: Option<Timestamp>,
    pub count: u64,
    pub following: Option<Timestamp>,
    /// Where the cursor goes if the last one is run.
    pub behind_run: NextFire,
    /// The first ones, as many as "fire all" may run.
    pub times: Vec<Timestamp>,
    /// The first one behind those, if it was missed too.
    pub beyond: Option<Timestamp>,
}

impl Missed {
    /// Those from the fire time `next` on; none if that lies ahead, or is not known.
    pub(crate) fn of(next: NextFire, timing: &Timing, now: Timestamp) -> Option<Self> {
        let first = next.at().filter(|next| *next <= now)?;
        let mut missed = Self {
            first,
            last: first,
            before: None,
            count: 1,
            following: timing.next_after(first),
            behind_run: NextFire::Never,
            times: vec![first],
            beyond: None,
        };
        for _ in 1..MOST_PASSED {
            let Some(next) = missed.following.filter(|next| *next <= now) else { break };
            missed.before = Some(missed.last);
            // Behind the times that may run, a fixed interval is reckoned: a cursor set back by hand is
            // decades behind.
            let (leapt, next) = missed.beyond.and_then(|_| timing.leap(next, now)).unwrap_or((0, next));
            missed.last = next;
            missed.count += 1 + leapt;
            missed.following = timing.next_after(next);
            if missed.times.len() < MOST_FIRED {
                missed.times.push(next);
            } else {
                missed.beyond.get_or_insert(next);
            }
        }
        missed.behind_run = timing.behind_run(missed.last);
        Some(missed)
    }

    /// Whether it reaches `now`; otherwise the cap cut it off.
    pub(crate) fn is_whole(&self, now: Timestamp) -> bool {
        self.following.is_none_or(|next| next > now)
    }
}
