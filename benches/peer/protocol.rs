//! What run.py in benches/peers asks of a peer's program and what the program says, for those in Rust.

use std::error::Error;
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The polls: when each ended (ms), how long it took (ms).
static POLLS: Mutex<Vec<(i64, u128)>> = Mutex::new(Vec::new());
/// The executions: schedule, planned start (ms), actual start (us).
static RUNS: Mutex<Vec<(usize, i64, i64)>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// What the command line asks for.
pub enum Asked {
    /// Make the tables and store these jobs: schedule, planned (ms).
    Load { url: String, jobs: Vec<(usize, i64)> },
    /// Run due executions until the input ends.
    Node { url: String, variant: String },
    /// Store jobs that are due at once, so many a second for so long.
    Feed { url: String, feed: Feed },
}

impl Asked {
    pub fn read() -> Result<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match arguments[..] {
            ["load", url, _variant, schedules, first, seconds] => Ok(Self::Load {
                url: url.to_owned(),
                jobs: jobs(schedules.parse()?, first.parse()?, seconds.parse()?)?,
            }),
            ["node", url, variant] => Ok(Self::Node { url: url.to_owned(), variant: variant.to_owned() }),
            ["feed", url, _variant, rate, seconds] => Ok(Self::Feed {
                url: url.to_owned(),
                feed: Feed::new(rate.parse()?, rate.parse::<usize>()? * seconds.parse::<usize>()?),
            }),
            _ => Err("usage: load URL VARIANT SCHEDULES FIRST_MS SECONDS | node URL VARIANT | \
                      feed URL VARIANT RATE SECONDS"
                .into()),
        }
    }
}

/// The batches of a steady stream of jobs, a hundred a second.
pub struct Feed {
    began: Instant,
    rate: usize,
    fed: usize,
    all: usize,
}

impl Feed {
    const BATCHES: usize = 100;

    fn new(rate: usize, all: usize) -> Self {
        Self { began: Instant::now(), rate, fed: 0, all }
    }
}

/// The numbers of a batch's jobs, and the present (ms), as soon as it is its time.
impl Iterator for Feed {
    type Item = (Range<usize>, i64);

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.fed..(self.fed + self.rate.div_ceil(Self::BATCHES)).min(self.all);
        #[allow(clippy::cast_precision_loss, reason = "counts of a bench are small")]
        let due = Duration::from_secs_f64(self.fed as f64 / self.rate as f64);
        std::thread::sleep(due.saturating_sub(self.began.elapsed()));
        self.fed = batch.end;
        (!batch.is_empty()).then(|| (batch, now_us() / 1_000))
    }
}

/// `seconds` 0: each once, all at `first`; else each every second, the phases spread over the second.
fn jobs(schedules: usize, first: i64, seconds: i64) -> Result<Vec<(usize, i64)>> {
    let mut jobs = Vec::new();
    for second in 0..seconds.max(1) {
        for schedule in 0..schedules {
            let phase = if seconds == 0 { 0 } else { 1_000 * schedule / schedules };
            jobs.push((schedule, first + 1_000 * second + i64::try_from(phase)?));
        }
    }
    Ok(jobs)
}

/// Whether a job planned for then (ms) is due already: then it is stored without a time.
#[allow(dead_code, reason = "graphile_worker takes a time in the past")]
pub fn is_due(planned: i64) -> bool {
    planned * 1_000 <= now_us()
}

/// A handler's first statement.
pub fn note_start(schedule: usize, planned: i64) {
    let started = now_us();
    RUNS.lock().unwrap_or_else(PoisonError::into_inner).push((schedule, planned, started));
    COUNT.fetch_add(1, Ordering::Release);
}

/// A poll has ended.
#[allow(dead_code, reason = "not all say how long it took")]
pub fn note_poll(took: Duration) {
    POLLS.lock().unwrap_or_else(PoisonError::into_inner).push((now_us() / 1_000, took.as_millis()));
}

/// Says "ready", then every few ms how many ran, and returns when the input ends.
pub fn serve() -> Result<()> {
    println!("ready");
    std::thread::spawn(say_counts);
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Says each execution, once the node has stopped.
pub fn say_runs() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for (schedule, planned, started) in &*RUNS.lock().unwrap_or_else(PoisonError::into_inner) {
        writeln!(out, "run {schedule} {planned} {started}")?;
    }
    for (at, took) in &*POLLS.lock().unwrap_or_else(PoisonError::into_inner) {
        writeln!(out, "poll {at} {took}")?;
    }
    Ok(out.flush()?)
}

fn say_counts() {
    let mut said = 0;
    loop {
        let count = COUNT.load(Ordering::Acquire);
        if count != said {
            println!("ran {count}");
            said = count;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}
