//! What processes cost, as /proc tells it.

use std::fs;

use crate::Result;

/// Linux counts CPU time in hundredths of a second, whatever its timer does.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process's CPU seconds so far.
pub fn cpu(pid: u32) -> Result<f64> {
    let stat = Stat::of(pid).ok_or_else(|| format!("process {pid} is gone"))?;
    Ok(stat.own / TICKS_PER_SECOND)
}

/// The CPU seconds of a process and its children, those that have ended included.
pub fn cpu_of_family(pid: u32) -> Result<f64> {
    let parent = Stat::of(pid).ok_or_else(|| format!("process {pid} is gone"))?;
    let others = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Stat::of)
        .filter(|other| other.parent == pid);
    let children: f64 = others.map(|child| child.own + child.ended_children).sum();
    Ok((parent.own + parent.ended_children + children) / TICKS_PER_SECOND)
}

/// The most memory a process has had, in MB.
pub fn peak_memory(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kilobytes: f64 = peak.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes / 1_024.0)
}

/// Of /proc/PID/stat.
struct Stat {
    parent: u32,
    own: f64,
    ended_children: f64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name comes first, in parentheses, and may hold anything.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |n: usize| fields.get(n)?.parse::<f64>().ok();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            own: number(11)? + number(12)?,
            ended_children: number(13)? + number(14)?,
        })
    }
}
