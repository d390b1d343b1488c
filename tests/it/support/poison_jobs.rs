//! A job that harms the process it runs in, in the way its payload says.

use std::fmt;
use std::io::Write;

use firetime::{Context, HandlerError, Job};

use super::node::say_began;

/// With the default policy.
pub const POISON: Job<String> = Job::new("poison");

/// How many bytes `noise` writes.
const NOISE: usize = 1 << 30;
/// What a line of noise begins with.
pub const NOISY: &str = "#";
/// How many bytes the text of a `long error` and a `long panic` has.
pub const LONG: usize = 200 << 20;

pub fn run(context: &Context, how: &str) -> Result<(), HandlerError> {
    say_began(context);
    match how {
        "abort" => std::process::abort(),
        "exit" => exit(),
        "overflow" => Err(overflow(0).to_string().into()),
        // A thread that spins is held no longer than one that waits, but the other tests' cores would be.
        "endless" => loop {
            std::thread::park();
        },
        "noise" => noise(),
        "long error" => Err(long().into()),
        // Unwinds as `panic!` does, without the hook that would print all of it.
        "long panic" => std::panic::resume_unwind(Box::new(long())),
        "unshowable error" => Err(Box::new(Unshowable)),
        "undroppable error" => Err(Box::new(Undroppable)),
        "undroppable panic" => std::panic::panic_any(Undroppable),
        "peak memory" => Err(peak_memory("self")?.to_string().into()),
        _ => Ok(()),
    }
}

#[expect(clippy::exit, reason = "as careless handlers do")]
fn exit() -> ! {
    std::process::exit(1)
}

fn overflow(depth: u64) -> u64 {
    if depth == u64::MAX { 0 } else { 1 + std::hint::black_box(overflow(std::hint::black_box(depth + 1))) }
}

fn noise() -> Result<(), HandlerError> {
    let line = format!("{NOISY}{}\n", "x".repeat((1 << 16) - 2));
    for _ in 0..NOISE / line.len() {
        std::io::stdout().lock().write_all(line.as_bytes())?;
    }
    Ok(())
}

fn long() -> String {
    "ü".repeat(LONG / "ü".len())
}

/// The most memory a process ever held, in bytes.
pub fn peak_memory(pid: &str) -> Result<usize, HandlerError> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes << 10)
}

#[derive(Debug)]
struct Unshowable;

impl fmt::Display for Unshowable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("cannot be shown")
    }
}

impl std::error::Error for Unshowable {}

#[derive(Debug)]
struct Undroppable;

impl fmt::Display for Undroppable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot be dropped")
    }
}

impl std::error::Error for Undroppable {}

impl Drop for Undroppable {
    fn drop(&mut self) {
        panic!("cannot be dropped")
    }
}
