//! firetime as a peer of the queues in benches/peers: run.py there tells what such a program is asked and
//! says.
//!
//! The jobs are enqueued, not scheduled. Each node has 20 threads and a queue of 1,024, as scripts/bench.sh
//! has by default; all else is the library's default.

#![allow(clippy::print_stdout, reason = "the protocol is lines on stdout")]
#![allow(clippy::disallowed_methods, reason = "a bench reads the real clock and has a thread of its own")]

use std::time::Duration;

use chrono::DateTime;
use firetime::{Client, Event, Job, Scheduler};
use serde::{Deserialize, Serialize};

mod protocol;
use protocol::{Asked, Feed, Result, is_due, note_poll, note_start, say_runs, serve};

const APPLICATION: &str = "bench";
const TICK: Job<Tick> = Job::new("tick");
const THREADS: usize = 20;
const QUEUE: usize = 1_024;
/// The most that one call enqueues.
const INSERT_BATCH: usize = 100_000;
const STOP: Duration = Duration::from_secs(10);

#[derive(Serialize, Deserialize)]
struct Tick {
    schedule: usize,
    planned: i64,
}

fn main() -> Result<()> {
    match Asked::read()? {
        Asked::Load { url, jobs } => load(&url, &jobs),
        Asked::Node { url, variant } if variant == "enqueued" => node(&url),
        Asked::Node { variant, .. } => Err(format!("no variant {variant}").into()),
        Asked::Feed { url, feed } => enqueue(&url, feed),
    }
}

fn enqueue(url: &str, feed: Feed) -> Result<()> {
    let client = Client::connect(APPLICATION, url)?;
    for (numbers, planned) in feed {
        let ticks: Vec<Tick> = numbers.map(|schedule| Tick { schedule, planned }).collect();
        client.enqueue_many(TICK, &ticks).run()?;
    }
    Ok(())
}

fn load(url: &str, jobs: &[(usize, i64)]) -> Result<()> {
    firetime::migrate(url)?;
    let client = Client::connect(APPLICATION, url)?;
    // One call for each instant at which some are due.
    for same in jobs.chunk_by(|(_, one), (_, next)| one == next) {
        let ticks: Vec<Tick> = same.iter().map(|&(schedule, planned)| Tick { schedule, planned }).collect();
        for ticks in ticks.chunks(INSERT_BATCH) {
            let enqueue = client.enqueue_many(TICK, ticks);
            match ticks.first().filter(|tick| !is_due(tick.planned)) {
                Some(tick) => {
                    enqueue.at(DateTime::from_timestamp_millis(tick.planned).ok_or("no such time")?)
                }
                None => enqueue,
            }
            .run()?;
        }
    }
    Ok(())
}

fn node(url: &str) -> Result<()> {
    let scheduler = Scheduler::builder(APPLICATION, url)
        .handler(TICK, |_context, tick| {
            note_start(tick.schedule, tick.planned);
            Ok(())
        })
        .on_event(|event| {
            if let Event::Polled { took, .. } = event {
                note_poll(*took);
            }
        })
        .threads(THREADS, THREADS)
        .queue(QUEUE)
        .migrate(false)
        .start()?;
    serve()?;
    if !scheduler.shutdown(STOP).is_clean() {
        return Err("the shutdown was not clean".into());
    }
    say_runs()
}
