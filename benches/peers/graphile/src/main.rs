//! graphile_worker as a peer: see ../run.py for what a peer's program is asked and says.
//!
//! Its crontab has minute resolution, so all workloads are jobs inserted beforehand, each with its `run_at`.
//! Concurrency 20. Variant plain: as installed, but for a poll every 100 ms. Batched: what its guide has for
//! throughput, a local queue that fetches up to 500 jobs, and completions stored together after 5 ms. Queues:
//! the same with four such local queues, which its guide has for many very small jobs.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};

#[path = "../../../peer/protocol.rs"]
mod protocol;
use protocol::{Asked, Result, note_start, say_runs, serve};

const LOCAL_QUEUE: usize = 500;

#[derive(Serialize, Deserialize)]
struct Tick {
    schedule: usize,
    planned: i64,
}

impl TaskHandler for Tick {
    const IDENTIFIER: &'static str = "tick";

    async fn run(self, _context: WorkerContext) -> impl IntoTaskHandlerResult {
        note_start(self.schedule, self.planned);
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    match Asked::read()? {
        Asked::Load { url, jobs } => load(&url, &jobs).await,
        Asked::Node { url, variant } => node(&url, &variant).await,
        Asked::Feed { .. } => Err("it is not fed here".into()),
    }
}

async fn load(url: &str, jobs: &[(usize, i64)]) -> Result<()> {
    let worker = options(url).init().await?;
    for chunk in jobs.chunks(5_000) {
        let specs: Vec<_> = chunk.iter().map(|&job| spec(job)).collect::<Result<_>>()?;
        worker.create_utils().add_raw_jobs(&specs).await?;
    }
    Ok(())
}

fn spec((schedule, planned): (usize, i64)) -> Result<RawJobSpec> {
    Ok(RawJobSpec {
        identifier: Tick::IDENTIFIER.to_string(),
        payload: serde_json::to_value(Tick { schedule, planned })?,
        spec: JobSpec { run_at: DateTime::from_timestamp_millis(planned), ..JobSpec::default() },
    })
}

async fn node(url: &str, variant: &str) -> Result<()> {
    let options = options(url).concurrency(20).poll_interval(Duration::from_millis(100));
    let options = match variant {
        "plain" => options,
        "batched" => batched(options, 1),
        "queues" => batched(options, 4),
        _ => return Err(format!("no variant {variant}").into()),
    };
    let worker = Arc::new(options.init().await?);
    let running = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.run().await }
    });
    tokio::task::spawn_blocking(serve).await??;
    worker.request_shutdown();
    running.await??;
    say_runs()
}

fn options(url: &str) -> WorkerOptions {
    WorkerOptions::default().database_url(url).define_job::<Tick>()
}

fn batched(options: WorkerOptions, queues: usize) -> WorkerOptions {
    options
        .local_queue(LocalQueueConfig::default().with_size(LOCAL_QUEUE).with_queue_count(queues))
        .complete_job_batch_delay(Duration::from_millis(5))
}
