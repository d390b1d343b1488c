//! awa as a peer: see ../run.py for what a peer's program is asked and says.
//!
//! Its default engine, queue storage, and insertion by COPY. As in its own throughput benchmark: attempts
//! without a deadline, whose claims and completions are compact receipts; a poll every 50 ms; one claimer
//! that takes up to 512 at a time; 20 connections. With 512 workers it stores completions by four writers, in
//! batches of up to 512 that wait 1 ms. The 100 workers of that benchmark, two claimers or 50 connections
//! were not faster.

use std::time::Duration;

use awa::model::insert::params_with;
use awa::model::migrations;
use awa::{
    Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig,
};
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

#[path = "../../../peer/protocol.rs"]
mod protocol;
use protocol::{Asked, Feed, Result, is_due, note_start, say_runs, serve};

const CONNECTIONS: u32 = 20;
const WORKERS: u32 = 512;
const POLL: Duration = Duration::from_millis(50);
const INSERT_BATCH: usize = 5_000;
const QUEUE: &str = "default";
const STOP: Duration = Duration::from_secs(20);

#[derive(Serialize, Deserialize, JobArgs)]
struct Tick {
    schedule: usize,
    planned: i64,
}

#[tokio::main]
async fn main() -> Result<()> {
    match Asked::read()? {
        Asked::Load { url, jobs } => load(&url, &jobs).await,
        Asked::Node { url, variant } if variant == "receipts" => node(&url).await,
        Asked::Node { variant, .. } => Err(format!("no variant {variant}").into()),
        Asked::Feed { url, feed } => enqueue(&url, feed).await,
    }
}

async fn enqueue(url: &str, feed: Feed) -> Result<()> {
    let pool = connect(url).await?;
    let store = QueueStorage::new(QueueStorageConfig::default())?;
    for (numbers, planned) in feed {
        let params: Vec<_> = numbers.map(|number| params((number, planned))).collect::<Result<_>>()?;
        store.enqueue_params_copy(&pool, &params).await?;
    }
    Ok(())
}

async fn load(url: &str, jobs: &[(usize, i64)]) -> Result<()> {
    let pool = connect(url).await?;
    migrations::run(&pool).await?;
    let store = QueueStorage::new(QueueStorageConfig::default())?;
    store.install(&pool).await?;
    for chunk in jobs.chunks(INSERT_BATCH) {
        let params: Vec<_> = chunk.iter().map(|&job| params(job)).collect::<Result<_>>()?;
        store.enqueue_params_copy(&pool, &params).await?;
    }
    Ok(())
}

fn params((schedule, planned): (usize, i64)) -> Result<InsertParams> {
    let run_at = if is_due(planned) { None } else { DateTime::from_timestamp_millis(planned) };
    let options = InsertOpts { queue: QUEUE.to_owned(), run_at, ..InsertOpts::default() };
    Ok(params_with(&Tick { schedule, planned }, options)?)
}

async fn node(url: &str) -> Result<()> {
    let queue = QueueConfig {
        max_workers: WORKERS,
        poll_interval: POLL,
        deadline_duration: Duration::ZERO,
        ..QueueConfig::default()
    };
    let client = Client::builder(connect(url).await?)
        .queue(QUEUE, queue)
        .register::<Tick, _, _>(|tick, _context| {
            note_start(tick.schedule, tick.planned);
            async { Ok(JobResult::Completed) }
        })
        .build()?;
    client.start().await?;
    tokio::task::spawn_blocking(serve).await??;
    client.shutdown(STOP).await;
    say_runs()
}

async fn connect(url: &str) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?)
}
