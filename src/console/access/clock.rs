//! The console's clock: it never steps, and goes on while the machine sleeps. Logins are counted on it.

use std::time::Duration;

#[cfg(target_os = "linux")]
const BOOT: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// Elsewhere the monotonic clock is the nearest there is.
#[cfg(not(target_os = "linux"))]
const BOOT: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// The time since the machine started.
#[expect(clippy::disallowed_methods, reason = "database time is for schedules, and costs a call")]
pub(crate) fn now() -> Duration {
    let time = rustix::time::clock_gettime(BOOT);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}
