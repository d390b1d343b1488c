//! Election: the instants at which this node stands for misfire handler.
//!
//! It stands once a poll finds that the last election is an interval old, with every interval during a pass,
//! and by its own clock while no poll ends.

use super::calls::{Asked, Call};
use crate::domain::{Boot, Timestamp};
use crate::time::{Now, Window, is_election_due};

pub(super) struct Election {
    window: Window,
    /// When a pass must win another election to go on.
    pub(super) renews_at: Boot,
    /// When the node stands although no poll has ended; none before the machine runs.
    pub(super) alone_at: Option<Boot>,
}

impl Election {
    pub(super) fn new(window: Window) -> Self {
        Self { window, renews_at: Boot::MAX, alone_at: None }
    }

    /// Whether the poll found the application's mark old enough for another election.
    pub(super) fn polled(&mut self, mark: Option<Timestamp>, now: Now) -> bool {
        self.alone_at = Some(now.boot + 2 * self.window.poll);
        is_election_due(mark, now.db, self.window.election)
    }

    /// Whether no poll has ended for two poll intervals.
    pub(super) fn is_due_without_polls(&mut self, now: Now) -> bool {
        now.boot >= *self.alone_at.get_or_insert(now.boot + 2 * self.window.poll)
    }

    pub(super) fn stand_without_polls(&mut self, application: &str, now: Now) -> Call {
        self.alone_at = Some(now.boot + self.window.election);
        self.stand(application, now)
    }

    pub(super) fn stand(&mut self, application: &str, now: Now) -> Call {
        self.renews_at = Boot::MAX;
        Asked::elect(application.to_owned(), now.db, self.window.election, ())
    }

    pub(super) fn won(&mut self, now: Now) {
        self.renews_at = now.boot.saturating_add(self.window.election);
    }

    /// When an idle machine acts unless a poll ends before.
    pub(super) fn wakes_at(&self) -> Boot {
        self.alone_at.unwrap_or(Boot::MAX)
    }
}

#[cfg(test)]
mod tests;
