//! riverqueue as a peer: see ../run.py for what a peer's program is asked and says.
//!
//! Its settings are those of its own `riverqueue bench`: 2,000 workers on up to 50 connections, a fetch every
//! 2 ms at most, a poll every 20 ms, insertion in batches of 5,000. All else is its default: completions are
//! stored in batches of up to 5,000, which wait 10 ms for more, by two writers; completed jobs stay for a
//! day; each client may become the leader, which makes scheduled jobs available up to 5 s ahead.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::time::Duration;

use riverqueue::jiff::Timestamp;
use riverqueue::migrate::PostgresMigrator;
use riverqueue::sqlx::PgPool;
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::{
    Client, InsertOpts, Job, JobArgs, QUEUE_DEFAULT, QueueConfig, WorkContext, WorkOutcome, Worker, Workers,
};
use serde::{Deserialize, Serialize};

#[path = "../../../peer/protocol.rs"]
mod protocol;
use protocol::{Asked, Result, is_due, note_start, say_runs, serve};

const CONNECTIONS: u32 = 50;
const WORKERS: usize = 2_000;
const FETCH_COOLDOWN: Duration = Duration::from_millis(2);
const FETCH_POLL: Duration = Duration::from_millis(20);
const INSERT_BATCH: usize = 5_000;

#[derive(Clone, Serialize, Deserialize, JobArgs)]
#[river(kind = "tick")]
struct Tick {
    schedule: usize,
    planned: i64,
}

struct Noting;

impl Worker<Tick> for Noting {
    type Error = Infallible;

    fn work(
        &self,
        _context: WorkContext,
        job: Job<Tick>,
    ) -> impl Future<Output = std::result::Result<WorkOutcome, Infallible>> + Send {
        note_start(job.args.schedule, job.args.planned);
        ready(Ok(WorkOutcome::Complete))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    match Asked::read()? {
        Asked::Load { url, jobs } => load(&url, &jobs).await,
        Asked::Node { url, variant } if variant == "bench" => node(&url).await,
        Asked::Node { variant, .. } => Err(format!("no variant {variant}").into()),
        Asked::Feed { .. } => Err("it is not fed here".into()),
    }
}

async fn load(url: &str, jobs: &[(usize, i64)]) -> Result<()> {
    let pool = connect(url).await?;
    PostgresMigrator::new(pool.clone()).migrate_up().await?;
    let client = Client::builder(pool).build()?;
    for chunk in jobs.chunks(INSERT_BATCH) {
        let items: Vec<_> = chunk.iter().map(|&job| item(job)).collect::<Result<_>>()?;
        client.insert_many(items).await?;
    }
    Ok(())
}

fn item((schedule, planned): (usize, i64)) -> Result<(Tick, InsertOpts)> {
    let options = InsertOpts::default();
    let options = match is_due(planned) {
        true => options,
        false => options.with_scheduled_at(Timestamp::from_millisecond(planned)?),
    };
    Ok((Tick { schedule, planned }, options))
}

async fn node(url: &str) -> Result<()> {
    let mut workers = Workers::new();
    workers.add::<Tick, _>(Noting)?;
    let queue =
        QueueConfig::new(WORKERS).with_fetch_cooldown(FETCH_COOLDOWN).with_fetch_poll_interval(FETCH_POLL);
    let client = Client::builder(connect(url).await?).workers(workers).queue(QUEUE_DEFAULT, queue).build()?;
    let mut run = client.start()?;
    run.wait_ready().await?;
    tokio::task::spawn_blocking(serve).await??;
    run.stop().await?;
    say_runs()
}

async fn connect(url: &str) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?)
}
