//! What the benches of single parts share: medians, and a first line that says where it was measured.

#![allow(dead_code, reason = "each bench uses its share")]

use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Prints what was measured, where and with what.
pub fn headline(what: &str) {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc =
        rustc.map_or_else(|_| "rustc unknown".into(), |it| String::from_utf8_lossy(&it.stdout).into_owned());
    println!("{what}\n{model}, {cores} cores, {}\n", rustc.trim());
}

/// The middle one; half-way between the two in the middle of an even number.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// How long this thread works at `work`, and what it came to. Not counted: that others used the processor
/// meanwhile.
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begin = read(ClockId::ThreadCPUTime);
    let result = work();
    (read(ClockId::ThreadCPUTime) - begin, result)
}

pub fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().expect("a clock that does not run backwards from its start")
}

/// Nanoseconds per piece of work.
pub fn each(span: Duration, pieces: usize) -> f64 {
    span.as_secs_f64() * 1e9 / pieces as f64
}

/// The same numbers in every run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 to below `limit` (splitmix64).
    pub fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.unsigned_abs()).cast_signed()
    }
}
