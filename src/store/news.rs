//! News of other processes' changes before a node's next poll: the database tells, or the node
//! glances at it.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::domain::{Boot, Error, ExecutionId, Millis, Timestamp};

/// Which of a node's loops has something to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// The poll: something is to run, or was edited, paused, resumed or removed.
    pub work: bool,
    /// The heartbeat: somebody asked for the end of an execution.
    pub cancel: bool,
    /// Both: a node has told with its heartbeat that it leaves, has handed back executions, or can run other
    /// jobs than before.
    pub members: bool,
    /// The requests: another program has written some.
    pub request: bool,
}

impl News {
    /// After a time in which nobody told or asked.
    pub(crate) const ANY: Self = Self { work: true, cancel: true, members: true, request: true };

    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    #[cfg_attr(
        not(any(test, feature = "postgres")),
        allow(dead_code, reason = "only an ear hears of several")
    )]
    pub(crate) fn and(self, other: Self) -> Self {
        let (work, cancel) = (self.work || other.work, self.cancel || other.cancel);
        let (members, request) = (self.members || other.members, self.request || other.request);
        Self { work, cancel, members, request }
    }
}

/// How a database lets nodes learn of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hearing {
    /// Whether it tells those who [listen](crate::store::Store::listen).
    pub tells: bool,
    /// How often a node glances at it while nobody tells and nothing happens.
    pub glance: Millis,
}

/// What a glance has seen last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The highest id of executions.
    pub run: i64,
    /// The highest id of changes in the audit.
    pub audit: i64,
    /// The highest id of requests that other programs have written.
    pub request: i64,
    /// The latest instant at which a node of the application told the others something.
    pub told: Timestamp,
}

impl Marks {
    /// Nothing lies behind them.
    pub(crate) const END: Self =
        Self { run: i64::MAX, audit: i64::MAX, request: i64::MAX, told: Timestamp::MAX };
}

/// Bounds the notifications of one process: nodes look for more of the kind for a while after each.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    /// When the last notification would have been sent, had they been evenly spread; boot clock.
    spread: AtomicI64,
}

impl Notifier {
    /// On average notifications are so far apart,
    const EVERY: Millis = 50;
    /// but so many may be sent at once after a rest.
    const BURST: Millis = 10;

    /// Whether to notify now.
    pub(crate) fn is_due(&self, now: Boot) -> bool {
        let spread = |last: Millis| {
            let next = Boot::at(last).max(now) + Self::EVERY;
            (next - now <= Self::EVERY * Self::BURST).then_some(next.millis())
        };
        self.spread.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spread).is_ok()
    }
}

/// A question for news.
#[derive(Clone, Debug)]
pub(crate) struct GlanceQuery {
    pub application: String,
    /// Those of the last glance.
    pub after: Marks,
    /// First attempts that are due before this are news: the next poll brings the others, and who stored a
    /// further one knows of it.
    pub until: Timestamp,
}

/// The answer to a [`GlanceQuery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    pub marks: Marks,
    pub news: News,
}

/// What a database has told of executions that somebody waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Somebody waits for the ends of these executions of the application.
    pub awaited: Vec<ExecutionId>,
    /// Runs of these have ended, of whatever application.
    pub ended: Vec<ExecutionId>,
}

impl Ends {
    pub(crate) fn is_none(&self) -> bool {
        self.awaited.is_empty() && self.ended.is_empty()
    }
}

/// Listens to what a database tells of an application.
pub(crate) trait Ear: Send {
    /// What it has told since the last call: waits for that, but not much longer than `wait`.
    fn hear(&mut self, wait: Millis) -> Result<News, Error>;

    /// What it has told of executions that somebody waits for, up to the last call of `hear`.
    fn take_ends(&mut self) -> Ends {
        Ends::default()
    }

    /// Fails if the database cannot be reached any more.
    fn check(&mut self) -> Result<(), Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_notifications_follow_each_other_and_then_they_are_far_apart() {
        let notifier = Notifier::default();
        let due: Vec<Millis> = (1_000..1_200).filter(|now| notifier.is_due(Boot::at(*now))).collect();
        assert_eq!(due, (1_000..1_010).chain([1_050, 1_100, 1_150]).collect::<Vec<Millis>>());
        assert_eq!((5_000..5_020).filter(|_| notifier.is_due(Boot::at(5_000))).count(), 10, "after a rest");
    }
}
