//! Node processes: this binary started again, told by its environment what to be.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use chrono::Utc;
use firetime::{Builder, Context, Event, Job, Scheduler};

use super::poison_jobs::{self, NOISY, POISON};
use crate::chaos::job;

const WANTED: &str = "FIRETIME_IT_NODE";
pub const URL: &str = "FIRETIME_IT_URL";
/// Set: the node keeps the library's own intervals. Otherwise it is quick to notice a death, so that tests of
/// recovery take seconds.
pub const PATIENT: &str = "FIRETIME_IT_PATIENT";
/// How many milliseconds a shutdown may take; 20 s without it.
pub const GRACE: &str = "FIRETIME_IT_GRACE";

/// Set: what the library logs goes to standard error, by a logger that panics if it cannot be written.
pub const LOGGED: &str = "FIRETIME_IT_LOGGED";
/// Between which instants the observer does not return, epoch milliseconds: `FROM-UNTIL`.
pub const BLOCKED: &str = "FIRETIME_IT_BLOCKED";

/// A job whose payload is how long it takes, in milliseconds.
pub const WORK: Job<u64> = Job::new("work");
pub const APPLICATION: &str = "it";

pub fn is_wanted() -> bool {
    std::env::var_os(WANTED).is_some()
}

/// A node's life: runs `WORK` and says so line by line, until its standard input ends.
pub fn main() {
    let url = std::env::var(URL).unwrap();
    let builder = Scheduler::builder(APPLICATION, &url).threads(4, 16);
    if std::env::var_os(LOGGED).is_some() {
        log::set_logger(&Printer).unwrap();
        log::set_max_level(log::LevelFilter::Trace);
    }
    let builder = if std::env::var_os(PATIENT).is_some() { builder } else { quick(builder) };
    let scheduler = job::add(builder)
        .handler(WORK, |context, millis| {
            say_began(context);
            // The job's own work: nothing is waited for.
            std::thread::sleep(Duration::from_millis(millis));
            let (name, fire) = (context.schedule(), context.fire_time().timestamp_millis());
            say(&format!("ended\t{name}\t{fire}\t{}", context.attempt()));
            Ok(())
        })
        .handler(POISON, |context, how| poison_jobs::run(context, &how))
        .on_event(observe)
        .start()
        .unwrap();
    say("ready");
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
    let grace = std::env::var(GRACE).map_or(20_000, |millis| millis.parse().unwrap());
    let stopped = scheduler.shutdown(Duration::from_millis(grace));
    say(if stopped.is_clean() { "clean" } else { "unclean" });
}

fn observe(event: &Event) {
    if let Ok(blocked) = std::env::var(BLOCKED) {
        let (from, until) = blocked.split_once('-').unwrap();
        while (from.parse().unwrap()..until.parse().unwrap()).contains(&job::true_time()) {
            // Stands for a log that takes nothing.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    match event {
        Event::Polled { .. } | Event::ClaimLost { .. } | Event::Finished { error: None, .. } => {}
        event => eprintln!("{} {event}", job::true_time()),
    }
}

struct Printer;

impl log::Log for Printer {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("{} {}", job::true_time(), record.args());
    }

    fn flush(&self) {}
}

fn quick(builder: Builder) -> Builder {
    builder
        .poll_interval(Duration::from_secs(1))
        .heartbeat_interval(Duration::from_secs(1))
        .store_timeout(Duration::from_secs(2))
        .death_after(Duration::from_secs(6))
        .misfire_interval(Duration::from_secs(2))
}

/// A job's first word.
pub(super) fn say_began(context: &Context) {
    let started = Utc::now().timestamp_millis();
    let (name, fire) = (context.schedule(), context.fire_time().timestamp_millis());
    say(&format!("began\t{name}\t{fire}\t{}\t{}\t{started}", context.attempt(), context.fence()));
}

pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may have gone; then nobody listens any more.
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Ready,
    Began {
        schedule: String,
        fire: i64,
        attempt: u32,
        fence: i64,
        started: i64,
    },
    Ended {
        schedule: String,
        fire: i64,
        attempt: u32,
    },
    Stopped {
        clean: bool,
    },
    /// Its output ended: the process has.
    Gone,
}

fn parse(line: &str) -> Line {
    let parts: Vec<&str> = line.split('\t').collect();
    match parts.as_slice() {
        ["ready"] => Line::Ready,
        ["began", schedule, fire, attempt, fence, started] => Line::Began {
            schedule: (*schedule).to_owned(),
            fire: fire.parse().unwrap(),
            attempt: attempt.parse().unwrap(),
            fence: fence.parse().unwrap(),
            started: started.parse().unwrap(),
        },
        ["ended", schedule, fire, attempt] => Line::Ended {
            schedule: (*schedule).to_owned(),
            fire: fire.parse().unwrap(),
            attempt: attempt.parse().unwrap(),
        },
        ["clean"] => Line::Stopped { clean: true },
        ["unclean"] => Line::Stopped { clean: false },
        _ => panic!("a node said {line:?}"),
    }
}

/// Tells the command, which runs this binary, to be a node on the database.
pub fn be_a_node(mut command: Command, url: &str) -> Command {
    command.env(WANTED, "1").env(URL, url);
    command
}

/// Several node processes and what they say, in the order it arrives.
pub struct Nodes {
    processes: Vec<Process>,
    said: Receiver<(usize, Line)>,
    tell: Sender<(usize, Line)>,
    gone: usize,
}

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Nodes {
    pub fn none() -> Self {
        let (tell, said) = channel();
        Self { processes: Vec::new(), said, tell, gone: 0 }
    }

    /// Starts `count` nodes on the database and waits until each has joined.
    pub fn start(url: &str, count: usize) -> Self {
        let mut nodes = Self::none();
        for _ in 0..count {
            nodes.add(url);
        }
        for _ in 0..count {
            assert_eq!(nodes.next(Duration::from_secs(30)).1, Line::Ready);
        }
        nodes
    }

    /// Starts another node.
    pub fn add(&mut self, url: &str) {
        self.add_with(url, &[]);
    }

    /// Starts another node with these variables in its environment.
    pub fn add_with(&mut self, url: &str, variables: &[(&str, &str)]) {
        let mut command = be_a_node(Command::new(std::env::current_exe().unwrap()), url);
        command.envs(variables.iter().copied());
        self.spawn(command);
    }

    /// Starts another node by this command; gives its process id.
    pub fn spawn(&mut self, mut command: Command) -> u32 {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (tell, number) = (self.tell.clone(), self.processes.len());
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if !line.starts_with(NOISY) {
                    drop(tell.send((number, parse(&line))));
                }
            }
            drop(tell.send((number, Line::Gone)));
        });
        let (stdin, id) = (child.stdin.take(), child.id());
        self.processes.push(Process { child, stdin });
        id
    }

    /// The next line, or a panic when none comes in time.
    pub fn next(&mut self, within: Duration) -> (usize, Line) {
        self.heard(within).unwrap_or_else(|| panic!("no node said anything for {within:?}"))
    }

    /// The next line, if one comes in time.
    pub fn heard(&mut self, within: Duration) -> Option<(usize, Line)> {
        let line = self.said.recv_timeout(within).ok()?;
        self.gone += usize::from(line.1 == Line::Gone);
        Some(line)
    }

    /// SIGKILL.
    pub fn kill(&mut self, number: usize) {
        self.processes[number].child.kill().unwrap();
    }

    /// Asks one to stop.
    pub fn ask_to_stop(&mut self, number: usize) {
        self.processes[number].stdin = None;
    }

    /// Asks all to stop and gives what they say until they are gone.
    pub fn stop(mut self) -> Vec<(usize, Line)> {
        let mut lines = Vec::new();
        for process in &mut self.processes {
            process.stdin = None;
        }
        while self.gone < self.processes.len() {
            lines.push(self.next(Duration::from_secs(30)));
        }
        lines
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself.
            drop(process.child.kill());
            drop(process.child.wait());
        }
    }
}
