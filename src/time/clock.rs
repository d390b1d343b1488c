//! The only reader of time.
//!
//! Decisions work in *database time* (so that servers whose clocks differ agree) and measure spans on
//! the boot clock (which neither steps nor stops while the machine sleeps). Database time is counted on the
//! boot clock too, from what the last poll measured: setting the host's clock changes nothing here.
//!
//! A comparison of the two clocks tells an interval that their offset lies in, as wide as the database's
//! answer took. [`Offset`] intersects these intervals and uses the lower end: in doubt database time is later
//! than this process believes, and nothing starts early.

use std::ops::{Add, Sub};
#[cfg(any(test, feature = "testing"))]
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::domain::{Boot, Millis, Timestamp};
use crate::time::{OFFSET_JUMP, OFFSET_WARNING, WALL_JUMP, span};

/// A clock's reading in microseconds, or how far two clocks are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Micros(i64);

impl Micros {
    pub(crate) const ZERO: Self = Self(0);
    #[cfg(test)]
    pub(crate) const MAX: Self = Self(i64::MAX);

    #[cfg(any(feature = "sql", test))]
    pub(crate) const fn of(micros: i64) -> Self {
        Self(micros)
    }

    pub(crate) const fn of_millis(millis: Millis) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// The whole milliseconds, rounded down.
    pub(crate) const fn millis(self) -> Millis {
        self.0.div_euclid(1_000)
    }

    pub(crate) const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// As a span; none if it is negative.
    pub(crate) fn duration(self) -> Duration {
        Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }
}

impl Add for Micros {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Micros {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// One reading: what every pure part is given instead of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Database time: the host's time plus the measured offset.
    pub db: Timestamp,
    pub boot: Boot,
    /// The wall clock minus the boot clock. It changes when somebody sets the wall clock, and when a
    /// hypervisor paused the machine: the boot clock does not count that.
    pub apart: Millis,
}

impl Now {
    /// The instant of the boot clock at which database time will be `at`; never in the past.
    pub(crate) fn boot_at(self, at: Timestamp) -> Boot {
        self.boot.saturating_add(at.saturating_since(self.db).max(0))
    }

    /// How far database time is ahead of the boot clock.
    pub(crate) fn ahead(self) -> Millis {
        self.db.millis() - self.boot.millis()
    }
}

/// The span for which a confirmed heartbeat lets its node claim and start. It is over at a boot-clock
/// instant, or as soon as the wall clock shows that the boot clock may not have counted all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// When it is over.
    pub until: Boot,
    /// The wall clock minus the boot clock when the heartbeat was sent.
    pub apart: Millis,
}

impl Lease {
    /// Of a node that may claim nothing.
    pub(crate) const NONE: Self = Self { until: Boot::MIN, apart: 0 };

    pub(crate) fn new(sent: Now, span: Millis) -> Self {
        Self { until: sent.boot + span, apart: sent.apart }
    }

    pub(crate) fn holds(self, now: Now) -> bool {
        now.boot < self.until && !self.is_doubtful(now)
    }

    /// Whether the machine may have been paused, for an unknown time, since the heartbeat was sent.
    pub(crate) fn is_doubtful(self, now: Now) -> bool {
        self != Self::NONE && (now.apart - self.apart).abs() > WALL_JUMP
    }
}

/// The process's clock, with the offset to the database's.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The wall clock's reading when the machine booted, as known when this clock was made.
    booted: Micros,
    /// Database time minus the boot clock.
    ahead: AtomicI64,
    /// Milliseconds, of a clock that a test moves.
    #[cfg(any(test, feature = "testing"))]
    told: Option<Arc<AtomicI64>>,
}

impl Default for Clock {
    fn default() -> Self {
        let booted = read(WALL) - read(BOOT);
        Self {
            booted,
            ahead: AtomicI64::new(booted.0),
            #[cfg(any(test, feature = "testing"))]
            told: None,
        }
    }
}

impl Clock {
    /// A clock that stands until somebody stores another time, in milliseconds.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn told(time: Arc<AtomicI64>) -> Self {
        Self { booted: Micros::ZERO, ahead: AtomicI64::new(0), told: Some(time) }
    }

    pub(crate) fn now(&self) -> Now {
        let (boot, wall, ahead) = (self.read(BOOT), self.read(WALL), self.ahead());
        Now {
            db: Timestamp::at((boot + ahead).millis()),
            boot: Boot::at(in_step(boot, ahead).millis()),
            apart: (wall - boot).millis(),
        }
    }

    fn read(&self, id: rustix::time::ClockId) -> Micros {
        #[cfg(any(test, feature = "testing"))]
        if let Some(told) = &self.told {
            return Micros::of_millis(told.load(Ordering::Relaxed));
        }
        read(id)
    }

    /// The host's time and its wall clock, to compare a database's clock with.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database is compared with it"))]
    pub(crate) fn host(&self) -> HostTime {
        HostTime { counted: self.booted + self.read(BOOT), wall: self.read(WALL) }
    }

    /// How long to wait until an instant: exactly, in parts finer than the clock's millisecond.
    pub(crate) fn until_boot(&self, until: Boot) -> Duration {
        /// Longer waits are cut: the caller asks again.
        const LONGEST: Duration = Duration::from_secs(3_600);
        let boot = in_step(self.read(BOOT), self.ahead());
        span(until.millis()).saturating_sub(boot.duration()).min(LONGEST)
    }

    /// Database time minus the boot clock.
    fn ahead(&self) -> Micros {
        Micros(self.ahead.load(Ordering::Relaxed))
    }

    /// From now on database time is the host's time plus `offset`.
    pub(crate) fn set_offset(&self, offset: Micros) {
        self.ahead.store((self.booted + offset).0, Ordering::Relaxed);
    }
}

/// The boot clock, to measure what something takes.
pub(crate) fn boot() -> Micros {
    read(BOOT)
}

/// The boot clock, shifted by less than a millisecond so that it passes to the next one together with
/// database time: a wait on the one for an instant of the other ends at that instant.
fn in_step(boot: Micros, ahead: Micros) -> Micros {
    boot + Micros(ahead.0.rem_euclid(1_000))
}

const WALL: rustix::time::ClockId = rustix::time::ClockId::Realtime;
#[cfg(target_os = "linux")]
const BOOT: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// Elsewhere the monotonic clock is the nearest there is: it may stand still while the machine sleeps.
#[cfg(not(target_os = "linux"))]
const BOOT: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[expect(clippy::disallowed_methods, reason = "this is the one reader of time")]
fn read(id: rustix::time::ClockId) -> Micros {
    let time = rustix::time::clock_gettime(id);
    Micros(time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000))
}

/// A reading of the host's clocks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database is compared with it"))]
pub(crate) struct HostTime {
    /// The host's time without the offset: the wall clock as it was at the start, counted on by the boot
    /// clock.
    pub counted: Micros,
    pub wall: Micros,
}

/// One comparison of the database's clock with the host's time: the database told `told` at some instant
/// between `asked` and `answered`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSample {
    pub asked: Micros,
    pub told: Micros,
    pub answered: Micros,
}

#[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database is compared with it"))]
impl TimeSample {
    /// Of a database that tells microseconds. Each reading is rounded down by up to one.
    pub(crate) fn new(asked: HostTime, told: Micros, answered: HostTime) -> Self {
        Self { asked: asked.counted - Micros(1), told, answered: answered.counted + Micros(1) }
    }

    /// Of a database in this process, which tells whole milliseconds. Where it agrees with the host's wall
    /// clock it reads that very clock, and the wall clock's microseconds are the database's.
    pub(crate) fn in_process(asked: HostTime, told: Micros, answered: HostTime) -> Self {
        if (asked.wall - Micros(999)..=answered.wall).contains(&told) {
            return Self::new(answered, answered.wall, answered);
        }
        // Rounded down: this instant of the database's clock was up to a millisecond before the question.
        Self::new(HostTime { counted: asked.counted - Micros(999), ..asked }, told, answered)
    }

    /// The database's time, rounded down.
    pub(crate) fn db(&self) -> Timestamp {
        Timestamp::at(self.told.millis())
    }

    /// The ends of the interval that the offset lies in.
    fn offsets(&self) -> (Micros, Micros) {
        (self.told - self.answered, self.told - self.asked)
    }
}

/// The offset to the database's clock: an interval that every comparison since the database's clock was last
/// set allows.
#[derive(Debug)]
pub(crate) struct Offset {
    low: Micros,
    high: Micros,
    /// The host's time of the last comparison.
    at: Micros,
    /// How far apart the clocks were when somebody was last warned, unless they have agreed since.
    warned: Option<Millis>,
}

impl Offset {
    pub(crate) fn new(sample: TimeSample) -> Self {
        let (low, high) = sample.offsets();
        Self { low, high, at: sample.answered, warned: None }
    }

    /// Takes a comparison in; true if it contradicts the earlier ones: the database's clock was set, and only
    /// this comparison counts.
    pub(crate) fn observe(&mut self, sample: TimeSample) -> bool {
        /// Two clocks drift apart by at most a microsecond in this many.
        const DRIFT: i64 = 20_000;
        let drift = Micros((sample.answered - self.at).0.max(0) / DRIFT);
        let (low, high) = sample.offsets();
        self.at = sample.answered;
        self.low = low.max(self.low - drift);
        self.high = high.min(self.high + drift);
        let was_set = self.low > self.high;
        if was_set {
            (self.low, self.high) = (low, high);
        }
        was_set
    }

    /// The least offset there may be: database time counted with it is never ahead of the database's clock.
    pub(crate) fn least(&self) -> Micros {
        self.low
    }

    /// How far the database's clock is ahead of the host's, if that is certainly too far and news.
    pub(crate) fn warning(&mut self) -> Option<Millis> {
        let ahead = Micros::ZERO.clamp(self.low, self.high).0 / 1_000;
        if ahead.abs() <= OFFSET_WARNING {
            self.warned = None;
            return None;
        }
        let is_known = |warned: Millis| (warned - ahead).abs() <= OFFSET_WARNING;
        if self.warned.is_some_and(is_known) {
            return None;
        }
        self.warned = Some(ahead);
        self.warned
    }
}

/// Notices when database time and the boot clock stop going in step: the database's clock was found to have
/// stepped.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    last: Option<Now>,
}

impl Steady {
    /// True if between the last reading and this one the two clocks drifted apart by more than a step's
    /// worth.
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
    fn a_lease_is_over_in_time_or_when_the_boot_clock_may_have_missed_a_pause() {
        let at = |boot, apart| Now { db: Timestamp::at(0), boot: Boot::at(boot), apart };
        let lease = Lease::new(at(1_000, 70_000), 21_000);
        assert!(lease.holds(at(21_999, 70_000)) && !lease.holds(at(22_000, 70_000)));
        for (apart, doubtful) in [(70_500, false), (69_500, false), (70_501, true), (69_499, true)] {
            assert_eq!(
                (lease.is_doubtful(at(1_001, apart)), lease.holds(at(1_001, apart))),
                (doubtful, !doubtful)
            );
        }
        let none = Lease::NONE;
        assert!(!none.holds(at(1, 70_000)) && !none.is_doubtful(at(1, 70_000)));
    }

    const SECOND: i64 = 1_000_000;

    /// A comparison by a host whose clock is `skew` ahead: asked at `at`, answered after the two spans.
    fn sample(at: i64, skew: i64, there: i64, back: i64) -> TimeSample {
        let (asked, told, answered) = (at + skew, at + there, at + there + back + skew);
        TimeSample { asked: Micros(asked), told: Micros(told), answered: Micros(answered) }
    }

    #[test]
    fn a_slow_answer_does_not_hide_that_the_host_is_ahead() {
        let offset = Offset::new(sample(0, 45_000, 25_000, 25_000));
        assert!(offset.least().0 <= -45_000, "database time would be {} us early", offset.least().0 + 45_000);
    }

    /// The node is never early, and late by no more than the best answer took on its way back, plus the
    /// drift.
    #[test]
    fn slow_answers_do_not_push_out_a_quick_one() {
        for (there, back) in [(50_000, 0), (0, 50_000), (400_000, 1_100_000)] {
            let mut offset = Offset::new(sample(0, 45_000, 300, 200));
            for n in 1..=20 {
                assert!(!offset.observe(sample(5 * n * SECOND, 45_000, there, back)));
                let early = offset.least().0 + 45_000;
                assert!(
                    early <= 0 && early >= -200 - 50 * (5 * n + 2),
                    "{early} us early with {there} + {back}"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_is_believed_at_once() {
        let mut offset = Offset::new(sample(0, 0, 500, 500));
        for (at, skew) in [(5, 400_000), (10, -2_000_000), (15, -2_001_501)] {
            assert!(offset.observe(sample(at * SECOND, skew, 500, 500)));
            assert_eq!(offset.least().0, -skew - 500);
        }
        assert!(!offset.observe(sample(20 * SECOND, -2_001_501, 200_000, 900)));
    }

    #[test]
    fn clocks_that_drift_are_not_taken_for_one_that_was_set() {
        let mut offset = Offset::new(sample(0, 0, 50, 50));
        for n in 1..=100 {
            assert!(!offset.observe(sample(5 * n * SECOND, 200 * n, 50, 50)));
            assert!((-200 * n - 300..=-200 * n).contains(&offset.least().0), "{}", offset.least().0);
        }
    }

    /// As SQLite does: the sample is exact where it reads the host's wall clock, and safe where it does not.
    #[test]
    fn a_clock_of_whole_milliseconds_costs_no_precision_on_its_own_host() {
        let host = |counted, wall| HostTime { counted: Micros(counted), wall: Micros(wall) };
        let own = TimeSample::in_process(host(7_000, 5_900_950), Micros(5_900_000), host(7_100, 5_901_050));
        assert_eq!(Offset::new(own).least().0, 5_901_050 - 7_100 - 1);
        let other = TimeSample::in_process(host(7_000, 1_000_950), Micros(5_900_000), host(7_100, 1_001_050));
        let offset = Offset::new(other);
        assert_eq!((offset.low.0, offset.high.0), (5_900_000 - 7_101, 5_900_000 - 7_000 + 1_000));
    }

    #[test]
    fn a_warning_comes_once_until_the_clocks_agree_or_are_farther_apart() {
        let mut at = 0;
        let mut offset = Offset::new(sample(0, 0, 10, 10));
        let mut warns = |skew: Millis| {
            at += 5 * SECOND;
            offset.observe(sample(at, 1_000 * skew, 0, 0));
            offset.warning()
        };
        assert_eq!([warns(900), warns(3_000), warns(3_000), warns(2_200)], [None, Some(-3_000), None, None]);
        assert_eq!([warns(4_002), warns(0), warns(-1_500)], [Some(-4_002), None, Some(1_500)]);
    }

    #[test]
    fn a_slow_comparison_alone_warns_nobody() {
        let mut offset = Offset::new(sample(0, 0, 10, 2_900_000));
        assert_eq!(offset.warning(), None);
    }

    /// Otherwise a wait on one clock for an instant of the other would end too early, or a part of a
    /// millisecond late.
    #[test]
    fn both_clocks_pass_to_the_next_millisecond_together() {
        let clock = Clock::default();
        for offset in [0, 123, -4_000_877] {
            clock.set_offset(Micros(offset));
            let first = clock.now();
            loop {
                let now = clock.now();
                assert_eq!(now.ahead(), first.ahead());
                if now.boot > first.boot + 3 {
                    break;
                }
            }
        }
    }

    #[test]
    fn the_boot_clock_waits_for_database_time_and_never_for_the_past() {
        let now = Now { db: Timestamp::at(1_000), boot: Boot::at(50), apart: 0 };
        assert_eq!(now.boot_at(Timestamp::at(1_250)), Boot::at(300));
        assert_eq!(now.boot_at(Timestamp::at(10)), Boot::at(50));
        assert_eq!(now.boot_at(Timestamp::MAX), Boot::at(i64::MAX - 1_000 + 50));
    }
}
