//! Whether a node does what it is there for.

use serde::Serialize;

use crate::node::pools::LaneFigures;

/// A node's own state, without asking the database: for a readiness probe.
///
/// ```
/// use firetime::{Job, Scheduler};
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
/// const GREET: Job<()> = Job::new("greet");
/// let scheduler = Scheduler::builder("shop", &url).handler(GREET, |_, ()| Ok(())).start()?;
/// let health = scheduler.health();
/// assert!(health.is_ready() && health.stuck == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Health {
    /// Handlers that run on beyond their time limits, in all lanes.
    pub stuck: usize,
    /// The most threads that all lanes may have together.
    pub threads: usize,
    /// Each lane, the one called `default` first.
    pub lanes: Vec<LaneHealth>,
    /// What keeps the node from being ready, a line each; empty if nothing does.
    pub problems: Vec<String>,
}

/// What one [`Lane`](crate::Lane) of a node is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LaneHealth {
    /// Its name.
    pub name: String,
    /// The most threads that it may have.
    pub threads: usize,
    /// Threads with a handler.
    pub busy: usize,
    /// Claimed executions that wait for a thread.
    pub queued: usize,
    /// Handlers that run on beyond their time limits.
    pub stuck: usize,
}

impl LaneHealth {
    fn of(lane: LaneFigures) -> Self {
        let LaneFigures { name, max, busy, queued, stuck, .. } = lane;
        Self { name: name.to_string(), threads: max, busy, queued, stuck }
    }

    /// The problem of a lane half of whose threads hang; `of` names it.
    fn problem(&self, of: &str) -> Option<String> {
        let Self { threads, stuck, .. } = self;
        let is_half = *stuck > 0 && 2 * stuck >= *threads;
        is_half
            .then(|| format!("{of}{stuck} of {threads} threads run handlers whose time limits have passed"))
    }
}

impl Health {
    pub(super) fn of(lanes: impl Iterator<Item = LaneFigures>) -> Self {
        let lanes: Vec<LaneHealth> = lanes.map(LaneHealth::of).collect();
        let of = |lane: &LaneHealth| match lanes.len() {
            1 => String::new(),
            _ => format!("lane {:?}: ", lane.name),
        };
        Self {
            stuck: lanes.iter().map(|lane| lane.stuck).sum(),
            threads: lanes.iter().map(|lane| lane.threads).sum(),
            problems: lanes.iter().filter_map(|lane| lane.problem(&of(lane))).collect(),
            lanes,
        }
    }

    /// Whether nothing keeps the node from running what it claims.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.problems.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn lane(name: &str, (stuck, max): (usize, usize)) -> LaneFigures {
        LaneFigures { name: Arc::from(name), max, threads: max, busy: stuck, queued: 0, stuck }
    }

    #[test]
    fn stuck_handlers_on_half_of_the_threads_are_a_problem() {
        let of = |figures| Health::of([lane("default", figures)].into_iter());
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
        let health = Health::of([lane("default", (7, 16)), lane("slow", (1, 2))].into_iter());
        assert_eq!((health.stuck, health.threads, health.lanes.len()), (8, 18, 2));
        let slow = "lane \"slow\": 1 of 2 threads run handlers whose time limits have passed";
        assert_eq!(health.problems, [slow]);
    }
}
