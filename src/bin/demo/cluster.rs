//! The demo's node processes: started, listened to, killed, stopped.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use super::node::Told;
use crate::failure::{Failure, Result};
use crate::logging::Logging;
use crate::target::{APPLICATION_VARIABLE, Target, URL_VARIABLE};

pub(super) const NAMES: [&str; 3] = ["A", "B", "C"];

/// What comes from a node: a line, or `None` once it has ended.
pub(super) type Heard = (usize, Option<Told>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Up,
    Killed,
    /// It was asked to stop.
    Stopping,
    Ended,
}

struct Node {
    child: Child,
    /// Closing it asks the node to stop.
    stdin: Option<ChildStdin>,
    life: Life,
    /// The ids it has had: one, unless it was wrongly declared dead.
    ids: Vec<String>,
}

/// Three processes. Dropping it leaves none of them behind.
pub(super) struct Cluster {
    nodes: Vec<Node>,
    heard: Receiver<Heard>,
}

impl Cluster {
    pub(super) fn start(target: &Target, logging: &Logging) -> Result<Self> {
        let (say, heard) = mpsc::channel();
        let mut cluster = Self { nodes: Vec::new(), heard };
        for (number, name) in NAMES.into_iter().enumerate() {
            let node = start(number, target, logging, say.clone())
                .map_err(|error| Failure::Failed(format!("starting node {name}: {error}")))?;
            cluster.nodes.push(node);
        }
        Ok(cluster)
    }

    /// The next thing a node tells; `None` if nothing comes for `span` or nobody is left.
    pub(super) fn listen(&mut self, span: Duration) -> Option<Heard> {
        let (number, told) = self.heard.recv_timeout(span).ok()?;
        if let (Some(Told::Joined(id)), Some(node)) = (&told, self.nodes.get_mut(number)) {
            node.ids.push(id.clone());
        }
        Some((number, told))
    }

    /// The name of the node that has or had this id.
    pub(super) fn name(&self, id: &str) -> Option<&'static str> {
        self.nodes
            .iter()
            .zip(NAMES)
            .find(|(node, _)| node.ids.iter().any(|known| known == id))
            .map(|(_, name)| name)
    }

    pub(super) fn have_all_joined(&self) -> bool {
        self.nodes.iter().all(|node| !node.ids.is_empty())
    }

    pub(super) fn is_running(&self, number: usize) -> bool {
        self.nodes.get(number).is_some_and(|node| node.life == Life::Up)
    }

    /// SIGKILL.
    pub(super) fn kill(&mut self, number: usize) -> Result {
        let Some(node) = self.nodes.get_mut(number).filter(|node| node.life == Life::Up) else {
            return Ok(());
        };
        node.life = Life::Killed;
        node.child.kill().map_err(|error| Failure::Failed(format!("killing node {}: {error}", NAMES[number])))
    }

    /// Asks those that run to stop.
    pub(super) fn stop(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.life == Life::Up) {
            node.stdin = None;
            node.life = Life::Stopping;
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.nodes.iter().any(|node| node.life == Life::Stopping)
    }

    /// A node's output has ended, so it has or will at once: what was wrong with that, if anything.
    pub(super) fn ended(&mut self, number: usize) -> Option<String> {
        let node = self.nodes.get_mut(number)?;
        let life = std::mem::replace(&mut node.life, Life::Ended);
        let status = match node.child.wait() {
            Ok(status) => status,
            Err(error) => return Some(format!("node {}: {error}", NAMES[number])),
        };
        match life {
            Life::Killed | Life::Ended => None,
            Life::Stopping if status.success() => None,
            Life::Stopping => Some(format!("node {} did not stop cleanly: {status}", NAMES[number])),
            Life::Up => Some(format!("node {} ended by itself: {status}", NAMES[number])),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.life != Life::Ended) {
            // It may have ended by itself; either way it is gone after the wait.
            node.child.kill().ok();
            node.child.wait().ok();
        }
    }
}

fn start(number: usize, target: &Target, logging: &Logging, say: Sender<Heard>) -> std::io::Result<Node> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments(logging))
        .env(URL_VARIABLE, &target.database.url)
        .env(APPLICATION_VARIABLE, &target.application)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let thread = std::thread::Builder::new().name(format!("demo-{}", NAMES[number]));
    #[expect(clippy::disallowed_methods, reason = "a pipe is read by waiting for it; ends with its process")]
    let spawned = thread.spawn(move || stdout.map(|out| forward(number, out, &say)));
    if let Err(error) = spawned {
        child.kill().ok();
        child.wait().ok();
        return Err(error);
    }
    Ok(Node { child, stdin, life: Life::Up, ids: Vec::new() })
}

/// Hands on line after line; what a kill cut off is no line.
fn forward(number: usize, stdout: ChildStdout, say: &Sender<Heard>) {
    let lines = BufReader::new(stdout).lines().map_while(Result::ok);
    for told in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
        if say.send((number, Some(told))).is_err() {
            return;
        }
    }
    // Nobody listens any more: then nobody needs to know.
    say.send((number, None)).ok();
}

/// Logs as the demo does.
fn arguments(logging: &Logging) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("demo-node")];
    match logging {
        Logging::File(path) => {
            arguments.extend([OsString::from("--log-config"), path.clone().into_os_string()])
        }
        Logging::Stderr(level) => {
            let times = (*level as usize).saturating_sub(log::LevelFilter::Warn as usize);
            arguments.extend(std::iter::repeat_n(OsString::from("-v"), times));
        }
    }
    arguments
}
