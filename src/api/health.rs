//! Whether a node does what it is there for.

use serde::Serialize;

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
    /// Handlers that run on beyond their time limits.
    pub stuck: usize,
    /// The most threads that the pool may have.
    pub threads: usize,
    /// What keeps the node from being ready, a line each; empty if nothing does.
    pub problems: Vec<String>,
}

impl Health {
    pub(super) fn of((stuck, threads): (usize, usize)) -> Self {
        let is_half = stuck > 0 && 2 * stuck >= threads;
        let half = format!("{stuck} of {threads} threads run handlers whose time limits have passed");
        Self { stuck, threads, problems: if is_half { vec![half] } else { Vec::new() } }
    }

    /// Whether nothing keeps the node from running what it claims.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.problems.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_handlers_on_half_of_the_threads_are_a_problem() {
        let is_ready = [(0, 1), (1, 1), (1, 3), (2, 3), (1, 2), (7, 16), (8, 16)].map(Health::of);
        let is_ready = is_ready.map(|health| health.is_ready());
        assert_eq!(is_ready, [true, false, true, false, false, true, false]);
    }
}
