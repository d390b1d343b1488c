//! The jobs of chaos runs. What they do is kept outside the database: each begin and each end is a line in a
//! file of the process's own, written by one call, so that it outlives the process however that ends.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use firetime::{Builder, Context, Job};

use super::paid::pay;
use super::saved::save;
use crate::support::node::say;

/// Takes as many milliseconds as its payload says.
pub const TICK: Job<u64> = Job::new("tick");
/// The same, but only the first attempt takes them.
pub const HELD: Job<u64> = Job::new("held");

/// Waits as many milliseconds as its payload says, without a thread: with the feature `tokio` only.
pub const TASK: Job<u64> = Job::new("task");
/// Takes as many milliseconds as its payload says. A schedule of this job must go on, whatever the others do.
pub const PULSE: Job<u64> = Job::new("pulse");
/// Takes as many milliseconds as its payload says, and fails with [`failure`].
pub const FAILING: Job<u64> = Job::new("failing");
/// Takes 10 ms; its payload is large.
pub const BULKY: Job<String> = Job::new("bulky");
/// Writes into the application's table and completes in the same transaction; each step takes as many
/// milliseconds as its payload says. However it ends then, and whatever it says (`paid.rs`).
pub const PAID: Job<u64> = Job::new("paid");
/// Stores how far it has come after each of its steps, which take as many milliseconds as its payload says,
/// and goes on from there (`saved.rs`).
pub const SAVED: Job<u64> = Job::new("saved");
/// No node lists it.
pub const UNLISTED: Job<u64> = Job::new("unlisted");

/// An error text of 3,000 characters with all that may need escaping.
pub fn failure() -> String {
    let line = "Err(Refused { path: \"C:\\jobs\\nightly\", cause: 'übel ☕' })\n\t";
    line.chars().cycle().take(3_000).collect()
}

/// How many async handlers run on a node at once.
pub const TASKS: usize = 1_000;

/// The file for what the jobs do.
pub const EFFECTS: &str = "FIRETIME_IT_EFFECTS";
/// How many milliseconds this process's wall clock is ahead of the true one; `wall.c` makes it so.
pub const WALL: &str = "FIRETIME_IT_WALL";

/// The host's time, epoch milliseconds, whatever this process was made to believe.
pub fn true_time() -> i64 {
    let ahead: i64 = std::env::var(WALL).map_or(0, |millis| millis.parse().unwrap());
    Utc::now().timestamp_millis() - ahead
}

pub struct Log(Option<File>);

impl Log {
    fn append(&self, line: &str) {
        let Some(mut file) = self.0.as_ref() else { return };
        assert_eq!(file.write(line.as_bytes()).unwrap(), line.len());
    }

    /// Writes down what the handler of an execution says.
    pub fn note(&self, context: &Context, said: &str) {
        self.append(&format!("{said}\t{}\t{}\t{}\n", context.execution(), context.fence(), true_time()));
    }

    fn write(&self, what: &str, context: &Context) {
        if self.0.is_none() {
            return;
        }
        let (execution, fire) = (context.execution(), context.fire_time().timestamp_millis());
        let (schedule, attempt, fence) = (context.schedule(), context.attempt(), context.fence());
        let at = true_time();
        self.append(&format!("{what}\t{execution}\t{schedule}\t{fire}\t{attempt}\t{fence}\t{at}\n"));
        if what == "began" {
            say(&format!("began\t{schedule}\t{fire}\t{attempt}\t{fence}\t{at}"));
        }
    }

    fn run(&self, context: &Context, millis: u64) {
        self.write("began", context);
        // The job's own work: nothing is waited for.
        std::thread::sleep(Duration::from_millis(millis));
        self.write("ended", context);
    }
}

/// Adds the handlers.
pub fn add(builder: Builder) -> Builder {
    let open = |path| File::options().append(true).create(true).open(path).unwrap();
    let log = Arc::new(Log(std::env::var_os(EFFECTS).map(open)));
    let logged = |job: Job<u64>, builder: Builder| {
        let log = Arc::clone(&log);
        builder.handler(job, move |context, millis| {
            let takes = if job.name() == HELD.name() && context.attempt() > 1 { 10 } else { millis };
            log.run(context, takes);
            if job.name() == FAILING.name() { Err(failure().into()) } else { Ok(()) }
        })
    };
    let builder = [TICK, HELD, PULSE, FAILING].into_iter().fold(builder, |builder, job| logged(job, builder));
    let builder = with_tasks(builder, Arc::clone(&log));
    let paying = Arc::clone(&log);
    let builder = builder.handler(PAID, move |context, millis| {
        paying.write("began", context);
        let paid = pay(context, Duration::from_millis(millis));
        paying.write("ended", context);
        paid
    });
    let saving = Arc::clone(&log);
    let builder = builder.handler(SAVED, move |context, millis| {
        saving.write("began", context);
        let saved = save(&saving, context, Duration::from_millis(millis));
        saving.write("ended", context);
        saved
    });
    builder.handler(BULKY, move |context, _| {
        log.run(context, 10);
        Ok(())
    })
}

#[cfg(feature = "tokio")]
fn with_tasks(builder: Builder, log: Arc<Log>) -> Builder {
    use std::sync::LazyLock;

    use tokio::runtime::Runtime;

    /// As long as the process.
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
    });
    let builder = builder.runtime(RUNTIME.handle().clone()).concurrency(TASKS);
    builder.async_handler(TASK, move |context, millis| {
        let log = Arc::clone(&log);
        async move {
            log.write("began", &context);
            // The job's own work: nothing is waited for.
            tokio::time::sleep(Duration::from_millis(millis)).await;
            log.write("ended", &context);
            Ok(())
        }
    })
}

#[cfg(not(feature = "tokio"))]
fn with_tasks(builder: Builder, _: Arc<Log>) -> Builder {
    builder
}
