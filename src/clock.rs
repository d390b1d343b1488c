//! The only reader of time.
//!
//! Decisions work in *database time* (so that servers whose clocks differ agree) and measure spans on
//! the boot clock (which neither steps nor stops while the machine sleeps). Database time is counted on the boot
//! clock too, from what the last poll measured: setting the host's clock changes nothing here.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::model::Millis;
use crate::window::{OFFSET_JUMP, millis, span};

/// One reading: what every pure part is given instead of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Database time: the host's time plus the measured offset.
    pub db: Millis,
    /// Milliseconds since the machine booted, suspend included.
    pub boot: Millis,
}

impl Now {
    /// The boot-clock instant at which database time will be `at`; never in the past.
    pub(crate) fn boot_at(self, at: Millis) -> Millis {
        self.boot.saturating_add(at.saturating_sub(self.db).max(0))
    }
}

/// The process's clock, with the offset to the database's.
#[derive(Debug)]
pub(crate) struct Clock {
    /// What the wall clock said when the machine booted, as far as could be told when this clock was made; in whole
    /// milliseconds, and the rest is counted to the boot clock. So both pass to the next millisecond together, and who
    /// waits for an instant of the one on the other wakes up at it.
    booted: Duration,
    rest: Duration,
    offset: AtomicI64,
}

impl Default for Clock {
    fn default() -> Self {
        let exactly = read(rustix::time::ClockId::Realtime).saturating_sub(boot_time());
        let booted = span(millis(exactly));
        Self { booted, rest: exactly.saturating_sub(booted), offset: AtomicI64::new(0) }
    }
}

impl Clock {
    pub(crate) fn now(&self) -> Now {
        let boot = self.since_boot();
        let host = millis(self.booted + boot);
        Now { db: host.saturating_add(self.offset.load(Ordering::Relaxed)), boot: millis(boot) }
    }

    /// The host's time without the offset: the wall clock as it was at the start, counted on by the boot clock.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "what only a database is compared with"))]
    pub(crate) fn host(&self) -> Millis {
        millis(self.booted + self.since_boot())
    }

    fn since_boot(&self) -> Duration {
        boot_time() + self.rest
    }

    /// How long to wait until a boot-clock instant: exactly, in parts finer than the clock's millisecond.
    pub(crate) fn until_boot(&self, until: Millis) -> Duration {
        /// Longer waits are cut: whoever waits asks again.
        const LONGEST: Duration = Duration::from_secs(3_600);
        span(until).saturating_sub(self.since_boot()).min(LONGEST)
    }

    /// From now on database time is the host's time plus `offset`.
    pub(crate) fn set_offset(&self, offset: Millis) {
        self.offset.store(offset, Ordering::Relaxed);
    }
}

fn boot_time() -> Duration {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    // Elsewhere the monotonic clock is the nearest there is: it may stand still while the machine sleeps.
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    read(id)
}

#[expect(clippy::disallowed_methods, reason = "this is the one reader of time")]
fn read(id: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// One comparison of the database's clock with the host's time: readings around the database's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSample {
    pub asked: Millis,
    pub database: Millis,
    pub answered: Millis,
}

impl TimeSample {
    fn round_trip(&self) -> Millis {
        (self.answered - self.asked).max(0)
    }

    /// Zero if the answer lies between the question and its arrival: then the clocks may well agree, and a
    /// correction by the rounding alone would fire a millisecond early.
    pub(crate) fn offset(&self) -> Millis {
        if (self.asked..=self.answered).contains(&self.database) {
            return 0;
        }
        self.database - (self.asked + (self.answered - self.asked) / 2)
    }

    /// Whether `offset` may be true as far as this comparison can tell.
    fn allows(&self, offset: Millis) -> bool {
        /// What two clocks may drift apart within a few polls.
        const DRIFT: Millis = 50;
        (self.asked - DRIFT..=self.answered + DRIFT).contains(&(self.database - offset))
    }
}

/// The offset to the database's clock: of the last samples, the one with the smallest round trip.
#[derive(Debug, Default)]
pub(crate) struct Offset {
    samples: std::collections::VecDeque<TimeSample>,
}

impl Offset {
    const KEPT: usize = 8;

    /// Takes a sample in and gives the offset to use from now on.
    pub(crate) fn observe(&mut self, sample: TimeSample) -> Millis {
        if self.samples.len() == Self::KEPT {
            self.samples.pop_front();
        }
        // The database's clock has been set: what was measured before means nothing.
        self.samples.retain(|earlier| sample.allows(earlier.offset()));
        self.samples.push_back(sample);
        self.samples.iter().min_by_key(|sample| sample.round_trip()).map_or(0, TimeSample::offset)
    }
}

/// Notices when database time and the boot clock stop going in step: the database's clock was found to have stepped.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    last: Option<Now>,
}

impl Steady {
    /// True if between the last reading and this one the two clocks drifted apart by more than a step's worth.
    pub(crate) fn jumped(&mut self, now: Now) -> bool {
        let Some(last) = self.last.replace(now) else { return false };
        let apart = (now.db - last.db) - (now.boot - last.boot);
        apart.abs() > OFFSET_JUMP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_with_the_smallest_round_trip_decides() {
        let mut offset = Offset::default();
        assert_eq!(offset.observe(TimeSample { asked: 0, database: 500, answered: 1_000 }), 0);
        assert_eq!(offset.observe(TimeSample { asked: 2_000, database: 2_031, answered: 2_002 }), 30);
        assert_eq!(offset.observe(TimeSample { asked: 5_000, database: 5_700, answered: 5_900 }), 30);
    }

    #[test]
    fn a_clock_that_was_set_is_believed_at_once() {
        let mut offset = Offset::default();
        assert_eq!(offset.observe(TimeSample { asked: 2_000, database: 2_031, answered: 2_002 }), 30);
        assert_eq!(offset.observe(TimeSample { asked: 7_000, database: 9_000, answered: 7_200 }), 1_900);
        assert_eq!(offset.observe(TimeSample { asked: 9_000, database: 10_950, answered: 9_200 }), 1_900);
    }

    /// Or who waits on the one for an instant of the other would wake up too early, or a part of a millisecond late.
    #[test]
    fn both_clocks_pass_to_the_next_millisecond_together() {
        let clock = Clock::default();
        let first = clock.now();
        loop {
            let now = clock.now();
            assert_eq!(now.db - now.boot, first.db - first.boot);
            if now.boot > first.boot + 3 {
                break;
            }
        }
    }

    #[test]
    fn the_boot_clock_waits_for_database_time_and_never_for_the_past() {
        let now = Now { db: 1_000, boot: 50 };
        assert_eq!(now.boot_at(1_250), 300);
        assert_eq!(now.boot_at(10), 50);
        assert_eq!(now.boot_at(i64::MAX), i64::MAX - 1_000 + 50);
    }
}
