//! graphile_worker as a peer: see ../run.py for what a peer's program is asked and says.
//!
//! Its crontab has minute resolution, so both workloads are jobs inserted beforehand, each with its `run_at`.

use std::error::Error;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};

/// What ran: schedule, planned (ms), started (us).
static RUNS: Mutex<Vec<(usize, i64, i64)>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

#[derive(Serialize, Deserialize)]
struct Tick {
    schedule: usize,
    planned: i64,
}

impl TaskHandler for Tick {
    const IDENTIFIER: &'static str = "tick";

    async fn run(self, _context: WorkerContext) -> impl IntoTaskHandlerResult {
        let started = Utc::now().timestamp_micros();
        RUNS.lock().map_err(|error| error.to_string())?.push((self.schedule, self.planned, started));
        COUNT.fetch_add(1, Ordering::Release);
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["load", url, _variant, schedules, first, seconds] => {
            load(url, schedules.parse()?, first.parse()?, seconds.parse()?).await
        }
        ["node", url, variant] => node(url, variant).await,
        _ => Err("usage: graphile load URL VARIANT SCHEDULES FIRST_MS SECONDS | node URL VARIANT".into()),
    }
}

/// `seconds` 0: each once, all at `first`; else each every second, the phases spread over the second.
async fn load(url: &str, schedules: usize, first: i64, seconds: i64) -> Result<(), Box<dyn Error>> {
    let worker = options(url).init().await?;
    let mut jobs = Vec::new();
    for second in 0..seconds.max(1) {
        for schedule in 0..schedules {
            let phase = if seconds == 0 { 0 } else { 1_000 * schedule / schedules };
            let planned = first + 1_000 * second + i64::try_from(phase)?;
            jobs.push(RawJobSpec {
                identifier: Tick::IDENTIFIER.to_string(),
                payload: serde_json::to_value(Tick { schedule, planned })?,
                spec: JobSpec { run_at: DateTime::from_timestamp_millis(planned), ..JobSpec::default() },
            });
        }
    }
    for chunk in jobs.chunks(5_000) {
        worker.create_utils().add_raw_jobs(chunk).await?;
    }
    Ok(())
}

async fn node(url: &str, variant: &str) -> Result<(), Box<dyn Error>> {
    let options = options(url).concurrency(20).poll_interval(Duration::from_millis(100));
    let options = match variant {
        "plain" => options,
        "batched" => options
            .local_queue(LocalQueueConfig::default().with_size(500))
            .complete_job_batch_delay(Duration::from_millis(5)),
        _ => return Err(format!("no variant {variant}").into()),
    };
    let worker = Arc::new(options.init().await?);
    let running = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.run().await }
    });
    println!("ready");
    std::thread::spawn(say_counts);
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    worker.request_shutdown();
    running.await??;
    let mut out = std::io::stdout().lock();
    for (schedule, planned, started) in &*RUNS.lock().map_err(|error| error.to_string())? {
        writeln!(out, "run {schedule} {planned} {started}")?;
    }
    Ok(out.flush()?)
}

fn options(url: &str) -> WorkerOptions {
    WorkerOptions::default().database_url(url).define_job::<Tick>()
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
