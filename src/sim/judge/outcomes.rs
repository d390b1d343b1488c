//! The counts of outcomes: each attempt that has ended is counted once, in the hour in which it ended.

use super::history::{History, Millis, Verdict};

/// The states whose executions all had a handler that began. Others were cancelled before.
pub const COUNTED: [&str; 4] = ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABANDONED"];
const HOUR: Millis = 3_600_000;

pub(super) fn outcomes(history: &History, verdict: &mut Verdict) {
    let Some(counted) = history.counted else { return };
    // Retention removes the counts of whole hours.
    let forgotten = history.read + history.ahead(history.read) - history.kept;
    let is_left = |at: Millis| (at.div_euclid(HOUR) + 1) * HOUR > forgotten;
    let has_all = history.executions.iter().all(|row| row.finished.is_none_or(is_left));
    for (state, counted) in COUNTED.iter().zip(counted) {
        let ended = history.executions.iter().filter(|row| row.state == *state).count() as i64;
        if counted > ended || has_all && counted < ended {
            verdict.blame(format!("{counted} outcomes are counted as {state}, of {ended}"));
        }
    }
}
