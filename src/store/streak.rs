//! Streaks: planned occurrences of a schedule in a row that failed for good or killed their nodes.
//!
//! Nothing but the ledger counts them: the stores bring attempts, the newest occurrence first, and [`count`]
//! says whether they are enough to pause the schedule.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::audit::{Attribution, AuditEntry};
use super::{Change, PauseChange};
use crate::domain::{ExecutionId, ExecutionState, PauseAfter, Reason, ScheduleId, ScheduleState, Timestamp};

/// How many deaths in a row pause a schedule, unless it never pauses itself.
const MOST_DEATHS: u32 = 2;

/// How far back attempts are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reach {
    /// The most attempts that were run.
    pub rows: usize,
    /// The most rows of the ledger in which these are looked for: what was skipped has rows, too.
    pub scanned: usize,
}

impl Reach {
    pub(crate) const MOST: Self = Self { rows: 10_000, scanned: 100_000 };
    /// Mostly the newest few tell.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database reads twice"))]
    pub(crate) const FIRST: Self = Self { rows: 100, scanned: 1_000 };

    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database reads twice"))]
    pub(crate) fn at_most(self, other: Self) -> Self {
        Self { rows: self.rows.min(other.rows), scanned: self.scanned.min(other.scanned) }
    }
}

/// Asks for the streak of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StreakQuery {
    pub schedule: ScheduleId,
    /// These executions of its count as deaths: their nodes are gone, and they are about to end for good.
    pub dying: Vec<ExecutionId>,
    pub reach: Reach,
}

/// A streak for which its schedule is to be paused.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Streak {
    pub schedule: ScheduleId,
    /// Of the schedule's row, as it was read before the ledger.
    pub version: i64,
    pub application: String,
    pub name: Arc<str>,
    /// What is in a row, for people.
    pub reason: String,
}

impl Streak {
    /// The schedule's pause, and how it is recorded.
    pub(crate) fn pause(&self) -> (Change, AuditEntry) {
        let by = Attribution { actor: "firetime".to_owned(), reason: self.reason.clone() };
        let Attribution { actor, reason } = by.clone();
        let pause = PauseChange { id: self.schedule, version: self.version, by: actor, reason, until: None };
        let states = (ScheduleState::Active.as_str(), ScheduleState::Paused.as_str());
        let entry = AuditEntry::of_schedule("pause", (&self.application, &self.name), states, &by);
        (Change::Contain(pause), entry)
    }
}

/// An attempt at a planned occurrence, as the ledger has it.
#[derive(Clone, Debug)]
pub(crate) struct AttemptRow {
    pub id: ExecutionId,
    pub scheduled: Timestamp,
    /// None if it is no word of ours.
    pub state: Option<ExecutionState>,
    pub reason: String,
    pub node: String,
    /// Its handler has returned, or is gone.
    pub is_over: bool,
    /// Somebody asked for its end.
    pub is_cancelled: bool,
}

/// What an occurrence came to, by the last attempt at it.
enum Outcome<'a> {
    Success,
    Failure,
    /// The death of this node.
    Death(&'a str),
    /// It has not ended, was not run, or somebody ended it: a streak goes on behind it.
    Neither,
}

impl AttemptRow {
    fn outcome(&self, dying: &[ExecutionId]) -> Outcome<'_> {
        use ExecutionState::{Abandoned, Failed, Running, Succeeded, TimedOut};
        let is = |reason: Reason| self.reason == reason.as_str();
        match self.state {
            Some(Succeeded) => Outcome::Success,
            _ if self.is_cancelled => Outcome::Neither,
            Some(Running | TimedOut) if dying.contains(&self.id) => Outcome::Death(&self.node),
            Some(Abandoned) => Outcome::Death(&self.node),
            Some(Failed) if is(Reason::AttemptsExhausted) => Outcome::Death(&self.node),
            Some(Failed) => Outcome::Failure,
            Some(TimedOut) if !self.is_over => Outcome::Neither,
            Some(TimedOut) if is(Reason::NodeDied) => Outcome::Death(&self.node),
            Some(TimedOut) => Outcome::Failure,
            _ => Outcome::Neither,
        }
    }
}

/// What the newest attempts of a schedule come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// The schedule is to be paused, for this reason.
    Due(String),
    /// The streak is shorter: an occurrence succeeded before it, or failed where deaths alone count.
    Ended,
    /// Older attempts may belong to it.
    Open,
}

/// Counts the streak of a schedule that pauses itself by this rule. `rows` are the attempts at its planned
/// occurrences, the newest occurrence first, and of each the last attempt first. Occurrences that ran on one
/// node as it died count as one death.
///
/// Failures and deaths count together against the limit. The newest deaths without a failure between them are
/// enough alone if they are two.
pub(crate) fn count(rows: &[AttemptRow], dying: &[ExecutionId], rule: PauseAfter) -> Count {
    if rule == PauseAfter::Never {
        return Count::Ended;
    }
    let (mut last, mut tally, mut nodes) = (None, Tally::default(), BTreeSet::new());
    for row in rows {
        if last.replace(row.scheduled) == Some(row.scheduled) {
            continue;
        }
        match row.outcome(dying) {
            Outcome::Success => return Count::Ended,
            Outcome::Failure if rule == PauseAfter::Deaths => return Count::Ended,
            Outcome::Failure => tally.failures += 1,
            Outcome::Death(node) if nodes.insert(node) => tally.death(),
            Outcome::Death(_) | Outcome::Neither => {}
        }
        if let Some(reason) = tally.reason(rule) {
            return Count::Due(reason);
        }
    }
    Count::Open
}

/// How many occurrences failed, and how many killed their nodes.
#[derive(Clone, Copy, Default)]
struct Tally {
    failures: u32,
    deaths: u32,
    /// The newest deaths, up to a failure.
    deaths_in_a_row: u32,
}

impl Tally {
    fn death(&mut self) {
        self.deaths += 1;
        if self.failures == 0 {
            self.deaths_in_a_row += 1;
        }
    }

    /// Why a schedule is to be paused; nothing if it is not.
    fn reason(self, rule: PauseAfter) -> Option<String> {
        let Self { failures, deaths, deaths_in_a_row } = self;
        let is_enough = match rule {
            PauseAfter::Streak(limit) => failures.saturating_add(deaths) >= limit.get(),
            PauseAfter::Deaths | PauseAfter::Never => false,
        };
        if deaths_in_a_row < MOST_DEATHS && !is_enough {
            return None;
        }
        Some(match (failures, deaths) {
            (1, 0) => "1 occurrence failed".to_owned(),
            (0, 1) => "1 occurrence killed its node".to_owned(),
            (_, 0) => format!("{failures} occurrences in a row failed"),
            (0, _) => format!("{deaths} occurrences in a row killed their nodes"),
            _ => format!("{} occurrences in a row failed or killed their nodes", failures + deaths),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attempt at the occurrence of this second, on a node of its own.
    fn row(scheduled: Timestamp, state: ExecutionState, reason: &str) -> AttemptRow {
        AttemptRow {
            id: ExecutionId(scheduled.millis()),
            scheduled,
            state: Some(state),
            reason: reason.to_owned(),
            node: format!("node {scheduled}"),
            is_over: true,
            is_cancelled: false,
        }
    }

    fn due(rows: &[AttemptRow], pause_after: Option<u32>) -> Option<String> {
        if let Count::Due(reason) = count(rows, &[], PauseAfter::of(pause_after)) {
            Some(reason)
        } else {
            None
        }
    }

    use ExecutionState::{Abandoned, Cancelled, Failed, Pending, Running, Skipped, Succeeded, TimedOut};

    #[test]
    fn as_many_failures_in_a_row_as_are_allowed_pause_a_schedule() {
        let rows = [
            row(Timestamp::at(3), Failed, "gave up"),
            row(Timestamp::at(2), TimedOut, ""),
            row(Timestamp::at(1), Failed, ""),
            row(Timestamp::at(0), Succeeded, ""),
        ];
        assert_eq!(due(&rows, Some(3)).as_deref(), Some("3 occurrences in a row failed"));
        assert_eq!(due(&rows, Some(1)).as_deref(), Some("1 occurrence failed"));
        assert_eq!(count(&rows, &[], PauseAfter::of(Some(4))), Count::Ended);
        assert_eq!(count(&rows[..3], &[], PauseAfter::of(Some(4))), Count::Open);
        assert_eq!((due(&rows, None), due(&rows, Some(0))), (None, None));
    }

    #[test]
    fn two_deaths_in_a_row_pause_a_schedule_whatever_it_allows() {
        let rows = [
            row(Timestamp::at(3), Failed, "attempts exhausted"),
            row(Timestamp::at(2), Failed, ""),
            row(Timestamp::at(1), Abandoned, "node died"),
        ];
        for (pause_after, expected) in [(None, None), (Some(2), Some(2)), (Some(3), Some(3)), (Some(4), None)]
        {
            let expected = expected.map(|n| format!("{n} occurrences in a row failed or killed their nodes"));
            assert_eq!(due(&rows, pause_after), expected, "{pause_after:?}: a failure is between them");
        }
        let deaths = [
            row(Timestamp::at(3), Abandoned, "node died"),
            row(Timestamp::at(2), Skipped, ""),
            row(Timestamp::at(1), Abandoned, "node died"),
        ];
        for pause_after in [None, Some(2), Some(1_000)] {
            let reason = due(&deaths, pause_after);
            assert_eq!(reason.as_deref(), Some("2 occurrences in a row killed their nodes"));
        }
        assert_eq!(due(&rows[..1], None), None);
        assert_eq!(due(&rows[..1], Some(1)).as_deref(), Some("1 occurrence killed its node"));
        assert_eq!(due(&rows, Some(0)), None);
        let late =
            [row(Timestamp::at(2), TimedOut, "node died"), row(Timestamp::at(1), TimedOut, "node died")];
        assert_eq!(due(&late, None).as_deref(), Some("2 occurrences in a row killed their nodes"));
    }

    #[test]
    fn a_failure_ends_a_run_of_deaths_where_deaths_alone_count() {
        let killed = |at| row(at, Abandoned, "node died");
        let rows = [
            killed(Timestamp::at(4)),
            row(Timestamp::at(3), Failed, ""),
            killed(Timestamp::at(2)),
            killed(Timestamp::at(1)),
        ];
        assert_eq!(count(&rows, &[], PauseAfter::of(None)), Count::Ended);
        assert_eq!(count(&rows[..2], &[], PauseAfter::of(Some(3))), Count::Open);
        assert!(matches!(count(&rows[..3], &[], PauseAfter::of(Some(3))), Count::Due(_)));
    }

    #[test]
    fn what_ran_on_one_node_as_it_died_is_one_death() {
        let node = |row: AttemptRow| AttemptRow { node: "one".to_owned(), ..row };
        let rows = [
            node(row(Timestamp::at(2), Abandoned, "node died")),
            node(row(Timestamp::at(1), Abandoned, "node died")),
        ];
        assert_eq!(due(&rows, None), None);
    }

    #[test]
    fn the_last_attempt_at_an_occurrence_says_what_it_came_to() {
        let killed = |at| row(at, Abandoned, "node died");
        for last in [Succeeded, Pending, Running, Cancelled] {
            assert_eq!(
                due(
                    &[row(Timestamp::at(2), last, ""), killed(Timestamp::at(2)), killed(Timestamp::at(1))],
                    None
                ),
                None,
                "{last:?}"
            );
        }
        assert!(
            due(
                &[killed(Timestamp::at(2)), row(Timestamp::at(2), Failed, ""), killed(Timestamp::at(1))],
                None
            )
            .is_some()
        );
    }

    #[test]
    fn what_was_not_run_or_was_ended_by_somebody_is_passed_over() {
        let cancelled = AttemptRow { is_cancelled: true, ..row(Timestamp::at(6), TimedOut, "") };
        let runs_on = AttemptRow { is_over: false, ..row(Timestamp::at(5), TimedOut, "") };
        let others = [row(Timestamp::at(4), Skipped, "overlap"), row(Timestamp::at(3), Cancelled, "")];
        let rows = [
            vec![row(Timestamp::at(7), Failed, ""), cancelled, runs_on],
            others.to_vec(),
            vec![row(Timestamp::at(2), Failed, "")],
        ]
        .concat();
        assert!(due(&rows, Some(2)).is_some());
        assert_eq!(due(&rows, Some(3)), None);
    }

    #[test]
    fn what_is_about_to_be_taken_from_its_dead_node_counts() {
        let rows = [row(Timestamp::at(2), Running, ""), row(Timestamp::at(1), Abandoned, "node died")];
        assert_eq!(count(&rows, &[], PauseAfter::of(None)), Count::Open);
        assert!(matches!(count(&rows, &[ExecutionId(2)], PauseAfter::of(None)), Count::Due(_)));
    }
}
