//! The health of a node: whether it polls, claims and runs.

use std::time::Duration;

use serde::Serialize;

use crate::api::spans::as_millis;
use crate::domain::LaneHealth;
use crate::node::{LeaseFigures, Node, Stage};

/// A node's own state, without asking the database: for the probes of an orchestrator. As JSON, spans are
/// milliseconds.
///
/// A node is *live* until it cannot go on: then only another process helps. It is *ready* while
/// nothing but a pause keeps it from claiming and running executions: after its first poll, and not while it
/// drains or shuts down, has lost its lease, or half of a lane's seats hang. A node that is not ready needs
/// no restart.
///
/// ```
/// use firetime::{Job, Scheduler};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// const GREET: Job<()> = Job::new("greet");
/// let scheduler = Scheduler::builder("shop", &url).handler(GREET, |_, ()| Ok(())).start()?;
/// while !scheduler.health().is_ready() {
///     std::thread::sleep(std::time::Duration::from_millis(10)); // Its first poll is under way.
/// }
/// let health = scheduler.health();
/// assert!(health.is_live() && health.stuck == 0);
/// assert!(health.lease > std::time::Duration::from_secs(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// Whether the node can go on: see [`Health::is_live`].
    pub live: bool,
    /// Whether nothing but a pause keeps it from claiming and running executions: see [`Health::is_ready`].
    pub ready: bool,
    /// Handlers that run on beyond their time limits, in all lanes.
    pub stuck: usize,
    /// The most threads that all lanes may have together.
    pub threads: usize,
    /// Each lane, the one called `default` first.
    pub lanes: Vec<LaneHealth>,
    /// How much longer the node may claim and start executions without another confirmed heartbeat; zero once
    /// its lease has ended.
    #[serde(serialize_with = "as_millis")]
    pub lease: Duration,
    /// How long ago the last heartbeat was sent that the database has confirmed.
    #[serde(serialize_with = "as_millis")]
    pub last_heartbeat: Duration,
    /// The reasons why the node is not ready, a line each; empty if it is.
    pub problems: Vec<String>,
}

impl LaneHealth {
    /// The problems of a lane half of whose seats hang; `of` names it.
    fn problems(&self, of: &str) -> impl Iterator<Item = String> + use<> {
        let problem = |(stuck, seats): (usize, usize), what: &str| {
            let is_half = stuck > 0 && 2 * stuck >= seats;
            is_half.then(|| format!("{of}{stuck} of {seats} {what} time limits have passed"))
        };
        let threads = problem((self.stuck, self.threads), "threads run handlers whose");
        let tasks = problem((self.stuck_tasks, self.concurrency), "async handlers go on although their");
        let blocked = self
            .is_blocked
            .then(|| format!("{of}the tokio runtime begins no async handler: something blocks its threads"));
        threads.into_iter().chain(tasks).chain(blocked)
    }
}

/// Why a node at this stage is not ready.
fn stage_problem(stage: Stage) -> Option<&'static str> {
    match stage {
        Stage::Begins => Some("its first poll has not ended"),
        Stage::Up => None,
        Stage::Drains => Some("it drains, and claims nothing until somebody resumes it"),
        Stage::Stops => Some("it is shutting down"),
        Stage::Stopped => Some("it has stopped"),
        Stage::GivenUp => Some("it cannot go on: the log says why"),
    }
}

impl Health {
    pub(super) fn of_node(node: &Node) -> Self {
        Self::of(node.lanes(), node.lease(), node.stage())
    }

    fn of(lanes: Vec<LaneHealth>, lease: LeaseFigures, stage: Stage) -> Self {
        let of = |lane: &LaneHealth| match lanes.len() {
            1 => String::new(),
            _ => format!("lane {:?}: ", lane.name),
        };
        let LeaseFigures { left, sent } = lease;
        let ended = left.is_zero().then(|| {
            let silent = sent.as_secs();
            format!(
                "no heartbeat has been confirmed for {silent} s: its lease has ended, and it claims nothing"
            )
        });
        let of_stage = stage_problem(stage).map(str::to_owned);
        let problems: Vec<String> = of_stage
            .into_iter()
            .chain(ended)
            .chain(lanes.iter().flat_map(|lane| lane.problems(&of(lane))))
            .collect();
        Self {
            live: !matches!(stage, Stage::GivenUp | Stage::Stopped),
            ready: problems.is_empty(),
            stuck: lanes.iter().map(|lane| lane.stuck + lane.stuck_tasks).sum(),
            threads: lanes.iter().map(|lane| lane.threads).sum(),
            lease: left,
            last_heartbeat: sent,
            problems,
            lanes,
        }
    }

    /// Whether nothing but a pause keeps the node from claiming and running executions; otherwise
    /// [`problems`](Self::problems) says what does. A pause, of the node or of the application, is somebody's
    /// wish, and leaves it ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether the node can go on; false once a loop has panicked, its SQLite file was replaced, the runtime
    /// of its async handlers has ended, or it has stopped. A database that is away changes nothing.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str, (stuck, threads): (usize, usize)) -> LaneHealth {
        LaneHealth { name: name.to_owned(), threads, busy: stuck, stuck, ..LaneHealth::default() }
    }

    const LEASE: LeaseFigures = LeaseFigures { left: Duration::from_secs(16), sent: Duration::from_secs(5) };

    #[test]
    fn a_node_whose_lease_has_ended_is_not_ready() {
        let of = |left, sent| {
            let lease = LeaseFigures { left: Duration::from_millis(left), sent: Duration::from_millis(sent) };
            Health::of(vec![lane("default", (0, 1))], lease, Stage::Up)
        };
        assert!(of(1, 20_999).is_ready());
        let health = of(0, 25_400);
        assert_eq!((health.lease, health.last_heartbeat), (Duration::ZERO, Duration::from_millis(25_400)));
        let ended = "no heartbeat has been confirmed for 25 s: its lease has ended, and it claims nothing";
        assert_eq!(health.problems, [ended]);
    }

    /// One that stops, or has lost its database, is live: it needs no restart.
    #[test]
    fn a_node_is_ready_between_its_first_poll_and_its_end() {
        let of = |stage| Health::of(vec![lane("default", (0, 1))], LEASE, stage);
        use Stage::{Begins, Drains, GivenUp, Stopped, Stops, Up};
        let stages = [Begins, Up, Drains, Stops, Stopped, GivenUp];
        assert_eq!(stages.map(|it| of(it).is_ready()), [false, true, false, false, false, false]);
        assert_eq!(stages.map(|it| of(it).is_live()), [true, true, true, true, false, false]);
        assert_eq!(of(Begins).problems, ["its first poll has not ended"]);
    }

    #[test]
    fn async_handlers_are_shown_with_the_threads_of_their_lane() {
        let slow = LaneHealth { concurrency: 6, tasks: 3, stuck_tasks: 3, ..lane("slow", (0, 2)) };
        let health = Health::of(vec![lane("default", (0, 16)), slow], LEASE, Stage::Up);
        assert_eq!((health.lanes.len(), health.stuck, health.threads), (2, 3, 18));
        let hang = "lane \"slow\": 3 of 6 async handlers go on although their time limits have passed";
        assert_eq!(health.problems, [hang]);
    }

    #[test]
    fn a_blocked_runtime_is_a_problem_of_its_lane() {
        let slow = LaneHealth { concurrency: 6, is_blocked: true, ..lane("slow", (0, 2)) };
        let health = Health::of(vec![lane("default", (0, 16)), slow], LEASE, Stage::Up);
        let blocked =
            "lane \"slow\": the tokio runtime begins no async handler: something blocks its threads";
        assert_eq!(health.problems, [blocked]);
    }

    #[test]
    fn stuck_handlers_on_half_of_the_threads_are_a_problem() {
        let of = |figures| Health::of(vec![lane("default", figures)], LEASE, Stage::Up);
        let is_ready = [(0, 1), (1, 1), (1, 3), (2, 3), (1, 2), (7, 16), (8, 16)].map(of);
        let is_ready = is_ready.map(|health| health.is_ready());
        assert_eq!(is_ready, [true, false, true, false, false, true, false]);
        assert_eq!(
            of((8, 16)).problems,
            ["8 of 16 threads run handlers whose time limits have passed"],
            "who has no lanes hears of none"
        );
    }

    /// It is full long before half of all threads hang.
    #[test]
    fn a_small_lane_that_hangs_is_a_problem_beside_a_large_one() {
        let health = Health::of(vec![lane("default", (7, 16)), lane("slow", (1, 2))], LEASE, Stage::Up);
        assert_eq!((health.stuck, health.threads, health.lanes.len()), (8, 18, 2));
        let slow = "lane \"slow\": 1 of 2 threads run handlers whose time limits have passed";
        assert_eq!(health.problems, [slow]);
    }
}
