//! The rule for occurrences that are due while an earlier execution of their schedule has not ended.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::UnknownWord;

/// What becomes of an occurrence that is due while another execution of its schedule has not ended.
///
/// An execution takes its schedule's slot when it is claimed, whatever it was made for: its fire time, a
/// misfire, a retry, a recovery, or somebody who asked for it. It keeps the slot until it has ended and
/// nothing follows it: while it waits for its retry, and while its handler runs on beyond its time limit.
/// The rule is kept across all nodes. Retries, misfires and executions asked for by hand always wait for the
/// slot.
///
/// The default is [`Skip`](Self::Skip) for what recurs and [`Allow`](Self::Allow) for what fires once.
///
/// ```
/// use std::time::Duration;
/// use firetime::{Job, Overlap, Schedule, Trigger};
///
/// const IMPORT: Job<()> = Job::new("import");
/// let hourly = Trigger::every(Duration::from_secs(3_600))?;
/// let schedule = Schedule::new("import", IMPORT, &(), hourly)?.overlap(Overlap::Queue(1));
/// # let _ = schedule;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It is not run: its execution is SKIPPED, and names the other one. The reason is `overlap`, or `holder
    /// late` if that one had not begun either: then its lane has too few threads.
    Skip,
    /// It waits (PENDING, with the reason `queued`) if fewer than so many wait already, and is skipped
    /// otherwise. When the one that runs has ended the oldest begins, unless an occurrence that is due just
    /// then is claimed first.
    Queue(u32),
    /// The other is cancelled, as [`Client::cancel`](crate::Client::cancel) does, and it waits for that one's
    /// end. Who waited before gives way (SKIPPED, `superseded`).
    Replace,
    /// It runs beside the other.
    Allow,
}

impl Overlap {
    /// The word before the number of those that may wait.
    const QUEUE: &'static str = "QUEUE ";

    /// The text stored in the database.
    pub(crate) fn word(self) -> Cow<'static, str> {
        match self {
            Self::Skip => "SKIP".into(),
            Self::Queue(most) => format!("{}{most}", Self::QUEUE).into(),
            Self::Replace => "REPLACE".into(),
            Self::Allow => "ALLOW".into(),
        }
    }

    /// Whether executions of the schedule take a slot that holds one.
    pub(crate) fn has_slot(self) -> bool {
        self != Self::Allow
    }

    /// How many of those that wait for the slot matter: as many as may, or give way.
    pub(crate) fn most_waiting(self) -> usize {
        match self {
            Self::Queue(most) => usize::try_from(most).unwrap_or(usize::MAX),
            // All of them give way.
            Self::Replace => 1_000,
            Self::Skip | Self::Allow => 0,
        }
    }
}

/// As it is stored: `SKIP`, `QUEUE 3`, `REPLACE`, `ALLOW`.
impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.word())
    }
}

impl FromStr for Overlap {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "SKIP" => Ok(Self::Skip),
            "REPLACE" => Ok(Self::Replace),
            "ALLOW" => Ok(Self::Allow),
            _ => text
                .strip_prefix(Self::QUEUE)
                .and_then(|most| most.parse().ok())
                .map(Self::Queue)
                .filter(|overlap| overlap.word() == text)
                .ok_or_else(|| UnknownWord::new("Overlap", text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_reads_back_from_its_word() {
        let queues = [Overlap::Queue(0), Overlap::Queue(u32::MAX)];
        for rule in [Overlap::Skip, Overlap::Replace, Overlap::Allow].into_iter().chain(queues) {
            assert_eq!(rule.word().parse(), Ok(rule));
        }
        for text in ["", "skip", "QUEUE", "QUEUE ", "QUEUE +1", "QUEUE 01", "QUEUE 4294967296", "QUEUE -1"] {
            assert!(text.parse::<Overlap>().is_err(), "{text}");
        }
    }
}
