//! A node process, and the harness's handle on it.
//!
//! The node writes nothing while it works. It answers questions on its standard input, a line each: `count`
//! with the number of handlers it ran so far, `stop` (or the end of the input) by a shutdown and all it saw.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::Utc;
use firetime::{Builder, Context, Event, Job, Scheduler};
use tokio::sync::Barrier;

use crate::Result;
use crate::arguments::{Arguments, Workload};
use crate::load::number_of;
use crate::spans;

/// The variable that tells a process to be a node on this database.
pub const DATABASE: &str = "FIRETIME_BENCH_DATABASE";
/// The variable that tells a node to be watched by nobody, whatever its arguments say.
const UNWATCHED: &str = "FIRETIME_BENCH_UNWATCHED";
pub const APPLICATION: &str = "bench";
pub const NOTHING: Job<()> = Job::new("nothing");
/// Of executions that are enqueued: each says its number.
pub const ENQUEUED: Job<usize> = Job::new("enqueued");
/// The same, of two groups: those with numbers from here on are the second.
pub const GROUPED: Job<usize> = ENQUEUED.group_by(|number: &usize| (*number >= SECOND_GROUP).to_string());
pub const SECOND_GROUP: usize = 1_000_000_000;
/// How long one of the second group takes.
const SLOW: Duration = Duration::from_millis(5);

/// Of executions whose async handlers wait until all have begun.
pub const WAITING: Job<usize> = Job::new("waiting");

/// One handler's start.
#[derive(Clone, Copy)]
pub struct Seen {
    pub schedule: usize,
    /// Epoch milliseconds.
    pub planned: i64,
    /// Microseconds.
    pub late: i64,
}

impl Seen {
    fn now(context: &Context, schedule: usize) -> Self {
        let now = Utc::now();
        let planned = context.fire_time();
        Self {
            schedule,
            planned: planned.timestamp_millis(),
            late: (now - planned).num_microseconds().unwrap_or(i64::MAX),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        Some(Self {
            schedule: words.next()?.parse().ok()?,
            planned: words.next()?.parse().ok()?,
            late: words.next()?.parse().ok()?,
        })
    }
}

/// What a node has to tell in the end.
pub struct Told {
    pub seen: Vec<Seen>,
    /// Milliseconds, of the polls that found something.
    pub longest_poll: u64,
    /// Claims lost.
    pub lost: u64,
}

/// A node's life.
pub fn main(url: &str, arguments: &Arguments) -> Result<()> {
    match std::env::var_os(UNWATCHED) {
        Some(_) => work(url, &arguments.unwatched()),
        None => work(url, arguments),
    }
}

fn work(url: &str, arguments: &Arguments) -> Result<()> {
    let spans = arguments.traced.then(spans::keep).transpose()?;
    let seen = Arc::new(Mutex::new(Vec::with_capacity(arguments.executions())));
    let lost = Arc::new(AtomicU64::new(0));
    let poll = Arc::new(AtomicU64::new(0));
    let (sees, loses, polls) = (Arc::clone(&seen), Arc::clone(&lost), Arc::clone(&poll));
    let sees_enqueued = Arc::clone(&seen);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let says = arguments.says;
    let builder = Scheduler::builder(APPLICATION, url);
    let builder = match arguments.workload {
        Workload::Waiting => {
            with_waiting(builder, arguments.executions(), &seen).runtime(runtime.handle().clone())
        }
        _ => builder,
    };
    let scheduler = builder
        .handler(NOTHING, move |context, ()| {
            let now = Seen::now(context, number_of(context.schedule()));
            if says {
                context.log("has begun");
                context.progress(1, 2);
                context.result(&now.late)?;
            }
            sees.lock().unwrap_or_else(PoisonError::into_inner).push(now);
            Ok(())
        })
        .handler(ENQUEUED, move |context, number| {
            let now = Seen::now(context, number);
            sees_enqueued.lock().unwrap_or_else(PoisonError::into_inner).push(now);
            if number >= SECOND_GROUP {
                std::thread::sleep(SLOW);
            }
            Ok(())
        })
        .on_event(watcher(loses, polls))
        .threads(arguments.threads, arguments.threads)
        .queue(arguments.queue)
        .migrate(false)
        .start()
        .map(Arc::new)?;
    say("ready")?;
    let observers = arguments.observed.then(|| observe(&scheduler));
    for line in std::io::stdin().lines() {
        match line?.as_str() {
            "count" => say(&seen.lock().unwrap_or_else(PoisonError::into_inner).len().to_string())?,
            _ => break,
        }
    }
    if !scheduler.shutdown(Duration::from_secs(10)).is_clean() {
        return Err("the shutdown was not clean".into());
    }
    drop(observers);
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if spans.is_some_and(|spans| spans.kept() < seen.len()) {
        return Err("an attempt had no span".into());
    }
    tell(&seen, poll.load(Ordering::Relaxed), lost.load(Ordering::Relaxed))
}

/// Says all that it saw.
fn tell(seen: &[Seen], poll: u64, lost: u64) -> Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for one in seen {
        writeln!(out, "{} {} {}", one.schedule, one.planned, one.late)?;
    }
    writeln!(out, "poll {poll}")?;
    writeln!(out, "lost {lost}")?;
    Ok(out.flush()?)
}

/// Counts lost claims, and keeps how long the longest poll took that found something.
fn watcher(loses: Arc<AtomicU64>, polls: Arc<AtomicU64>) -> impl Fn(&Event) + Send + Sync + 'static {
    move |event| match event {
        Event::ClaimLost { .. } => drop(loses.fetch_add(1, Ordering::Relaxed)),
        Event::Polled { planned, pending, took, .. } if planned + pending > 0 => {
            polls.fetch_max(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        Event::Polled { .. }
        | Event::Repaired { .. }
        | Event::Joined { .. }
        | Event::Listening
        | Event::LeftToOthers { .. } => {}
        Event::Finished { error: None, .. } | Event::Stopped { clean: true, .. } => {}
        event => eprintln!("node {}: {event}", std::process::id()),
    }
}

/// Reads the metrics as text each second, and all events, until what it returns is dropped.
fn observe(scheduler: &Arc<Scheduler>) -> std::sync::mpsc::Sender<()> {
    let events = scheduler.events();
    std::thread::spawn(move || events.for_each(drop));
    let (alive, ended) = std::sync::mpsc::channel();
    let scheduler = Arc::downgrade(scheduler);
    std::thread::spawn(move || {
        while let Some(scheduler) = scheduler.upgrade() {
            std::hint::black_box(scheduler.metrics().to_prometheus());
            drop(scheduler);
            if ended.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    alive
}

fn with_waiting(builder: Builder, executions: usize, seen: &Arc<Mutex<Vec<Seen>>>) -> Builder {
    let (seen, all_begun) = (Arc::clone(seen), Arc::new(Barrier::new(executions)));
    builder.concurrency(executions).async_handler(WAITING, move |context, number| {
        let now = Seen::now(&context, number);
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(now);
        let all_begun = Arc::clone(&all_begun);
        async move {
            all_begun.wait().await;
            Ok(())
        }
    })
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// A running node process. Dropped, it is killed.
pub struct Node {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Node {
    /// Starts a node with the harness's own arguments; nobody watches it if these say so.
    pub fn start(url: &str, arguments: &Arguments) -> Result<Self> {
        let unwatched = arguments.watched().is_empty().then_some((UNWATCHED, "1"));
        let mut child = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env(DATABASE, url)
            .envs(unwatched)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("a node without input")?;
        let output = BufReader::new(child.stdout.take().ok_or("a node without output")?);
        Ok(Self { child, input, output })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn wait_until_ready(&mut self) -> Result<()> {
        match self.line()?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("a node said {other:?}").into()),
        }
    }

    /// How many handlers it ran so far.
    pub fn count(&mut self) -> Result<usize> {
        self.tell("count")?;
        Ok(self.line()?.parse()?)
    }

    /// Asks it to stop, without waiting.
    pub fn ask_to_stop(&mut self) -> Result<()> {
        self.tell("stop")
    }

    /// What became of it, once it was asked to stop.
    pub fn ended(mut self) -> Result<Told> {
        let mut told = Told { seen: Vec::new(), longest_poll: 0, lost: 0 };
        loop {
            let line = self.line()?;
            if let Some(lost) = line.strip_prefix("lost ") {
                told.lost = lost.parse()?;
                let status = self.child.wait()?;
                return if status.success() { Ok(told) } else { Err(status.to_string().into()) };
            }
            match line.strip_prefix("poll ") {
                Some(longest) => told.longest_poll = longest.parse()?,
                None => told.seen.push(Seen::parse(&line).ok_or_else(|| format!("a node said {line:?}"))?),
            }
        }
    }

    fn tell(&mut self, word: &str) -> Result<()> {
        writeln!(self.input, "{word}")?;
        Ok(self.input.flush()?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("node {} ended early", self.pid()).into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
