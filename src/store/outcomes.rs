//! Outcomes of attempts, counted by hour, job and node in the transactions that store them.
//!
//! Such a transaction adds rows of its own ([`NewOutcomes`]) instead of changing one that all share: no two
//! wait for each other, not even where a handler's own transaction stores its outcome and stays open. Upkeep
//! adds these up by the hour, and hours of the past by the day. Whoever reads takes both.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rules::ChangeKind;
use super::{Counted, ExecutionChange};
use crate::domain::{ExecutionId, ExecutionState, Millis, Timestamp};

pub(crate) const HOUR: Millis = 3_600_000;
const DAY: Millis = 24 * HOUR;
/// Longer spans count as this: no sum of them is too large.
const LONGEST: Millis = 366 * DAY;
/// So long after its end an hour is kept by itself; then it is a part of its day, without its nodes.
const KEEPS_HOURS: Millis = 2 * DAY;

/// How many outcomes there were, and for how long; milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutcomeCounts {
    pub sums: [i64; 8],
    pub longest: [i64; 2],
}

impl OutcomeCounts {
    /// The columns of the sums. `begun` counts the outcomes whose lateness and duration are known.
    pub(crate) const SUMS: [&'static str; 8] = [
        "succeeded",
        "failed",
        "timed_out",
        "cancelled",
        "abandoned",
        "begun",
        "lateness_sum",
        "duration_sum",
    ];
    /// The columns of the greatest.
    pub(crate) const LONGEST: [&'static str; 2] = ["lateness_max", "duration_max"];
    /// The states that are counted, in the order of their columns.
    pub(crate) const STATES: [ExecutionState; 5] = [
        ExecutionState::Succeeded,
        ExecutionState::Failed,
        ExecutionState::TimedOut,
        ExecutionState::Cancelled,
        ExecutionState::Abandoned,
    ];

    fn one(state: ExecutionState, counted: &Counted, ended: Timestamp) -> Option<Self> {
        let place = Self::STATES.iter().position(|counted| *counted == state)?;
        let mut counts = Self::default();
        counts.sums[place] = 1;
        if let Some((due, began)) = counted.began {
            let spans =
                [began.saturating_since(due), ended.saturating_since(began)].map(|it| it.clamp(0, LONGEST));
            counts.sums[5..].copy_from_slice(&[1, spans[0], spans[1]]);
            counts.longest = spans;
        }
        Some(counts)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum = sum.saturating_add(more);
        }
        for (longest, other) in self.longest.iter_mut().zip(other.longest) {
            *longest = other.max(*longest);
        }
    }

    /// How many attempts ended.
    #[cfg(test)]
    pub(crate) fn total(&self) -> i64 {
        self.sums[..5].iter().fold(0, |total: i64, more| total.saturating_add(*more))
    }
}

/// Outcomes of one job, and one node, that were stored together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewOutcomes {
    /// The lowest of the executions that ended: each ends once, so no other row has it.
    pub first: ExecutionId,
    /// The beginning of the hour in which they ended.
    pub hour: Timestamp,
    pub job: Arc<str>,
    pub counts: OutcomeCounts,
}

/// Counts what these changes, which are made, have ended. A node's own are of one node. Those of dead nodes
/// may be of several, and each is counted by itself.
pub(crate) fn count(done: &[&ExecutionChange]) -> Vec<NewOutcomes> {
    let mut counted: BTreeMap<(Timestamp, &str, i64), NewOutcomes> = BTreeMap::new();
    for change in done {
        let Some(by) = counted_by(change) else { continue };
        let Some(counts) = OutcomeCounts::one(change.becomes(), by, change.now) else { continue };
        let hour = beginning(change.now, HOUR);
        let apart = if change.own.is_some() { 0 } else { change.execution.0 };
        let new = || NewOutcomes {
            first: change.execution,
            hour,
            job: Arc::clone(&by.job),
            counts: OutcomeCounts::default(),
        };
        let outcomes = counted.entry((hour, &by.job, apart)).or_insert_with(new);
        outcomes.first = outcomes.first.min(change.execution);
        outcomes.counts.add(&counts);
    }
    counted.into_values().collect()
}

/// Whether a change is counted once it is made.
pub(crate) fn is_counted(change: &ExecutionChange) -> bool {
    counted_by(change).is_some()
}

/// What the end of an attempt is counted by. An attempt ends with its handler, its time limit or its node.
/// What follows the end of its time limit is no outcome.
fn counted_by(change: &ExecutionChange) -> Option<&Counted> {
    use ChangeKind::{Abandon, Complete, CompleteWith, Finish, FinishWith, GiveUp, TimeOut};
    let ends =
        matches!(change.kind(), Finish | FinishWith | Complete | CompleteWith | GiveUp | TimeOut | Abandon);
    change.counted.as_ref().filter(|_| ends)
}

/// What outcomes are added up by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OutcomeKey {
    /// How long the span is: an hour, or a day.
    pub hours: i64,
    pub from: Timestamp,
    pub job: Arc<str>,
    /// None for days.
    pub node: Arc<str>,
}

impl OutcomeKey {
    pub(crate) fn hour(from: Timestamp, job: Arc<str>, node: Arc<str>) -> Self {
        Self { hours: 1, from, job, node }
    }

    /// The key of the day that an hour is a part of.
    pub(crate) fn day(&self) -> Self {
        Self { hours: 24, from: beginning(self.from, DAY), job: Arc::clone(&self.job), node: "".into() }
    }
}

/// Adds up outcomes with the same key.
pub(crate) fn add_up(
    outcomes: impl IntoIterator<Item = (OutcomeKey, OutcomeCounts)>,
) -> BTreeMap<OutcomeKey, OutcomeCounts> {
    let mut sums: BTreeMap<OutcomeKey, OutcomeCounts> = BTreeMap::new();
    for (key, counts) in outcomes {
        sums.entry(key).or_default().add(&counts);
    }
    sums
}

/// Hours before this are parts of their days. It is the beginning of a day: none is divided.
pub(crate) fn hours_from(now: Timestamp) -> Timestamp {
    beginning(now.saturating_sub(KEEPS_HOURS), DAY)
}

/// The beginning of the hour, or day by UTC, of an instant.
pub(crate) fn beginning(at: Timestamp, span: Millis) -> Timestamp {
    Timestamp::at(at.millis().div_euclid(span).saturating_mul(span))
}

/// A step of upkeep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutcomeFold {
    pub application: String,
    pub now: Timestamp,
    /// The most rows that it adds up.
    pub limit: usize,
}

/// Which outcomes are asked for, and what they are told apart by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OutcomeQuery {
    pub application: String,
    /// From the hour, or day, of this instant on.
    pub from: Timestamp,
    /// Those that begin before.
    pub until: Timestamp,
    pub job: Option<String>,
    pub node: Option<String>,
    pub by_hour: bool,
    pub by_job: bool,
    pub by_node: bool,
    pub limit: usize,
}

/// Outcomes that are alike in what they are told apart by; the rest is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OutcomeSpan {
    pub from: Timestamp,
    pub until: Timestamp,
    pub job: String,
    pub node: String,
}

impl OutcomeQuery {
    /// All of an application, told apart by nothing.
    #[cfg(test)]
    pub(crate) fn all(application: &str) -> Self {
        Self {
            application: application.to_owned(),
            from: Timestamp::EPOCH,
            until: Timestamp::MAX,
            job: None,
            node: None,
            by_hour: false,
            by_job: false,
            by_node: false,
            limit: 1_000,
        }
    }

    pub(crate) fn first_hour(&self) -> Timestamp {
        beginning(self.from, HOUR)
    }

    pub(crate) fn first_day(&self) -> Timestamp {
        beginning(self.from, DAY)
    }

    /// Whether it asks for these.
    #[cfg_attr(not(test), allow(dead_code, reason = "the store in memory is for tests"))]
    pub(crate) fn wants(&self, key: &OutcomeKey) -> bool {
        let is = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|wanted| wanted == has);
        let from = if key.hours == 1 { self.first_hour() } else { self.first_day() };
        (from..self.until).contains(&key.from) && is(&self.job, &key.job) && is(&self.node, &key.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Token;
    use crate::store::Transition;

    const NOW: Timestamp = Timestamp::at(500 * DAY + 10 * HOUR + 1);

    fn change(id: i64, job: &str, transition: Transition) -> ExecutionChange {
        let counted = Some(Counted { job: job.into(), began: Some((NOW - 300, NOW - 200)) });
        let change = ExecutionChange::of(ExecutionId(id), Token::fresh(), transition, NOW);
        ExecutionChange { counted, ..change }
    }

    fn counts(changes: &[ExecutionChange]) -> Vec<(i64, String, [i64; 8])> {
        let found = count(&changes.iter().collect::<Vec<_>>());
        found.into_iter().map(|it| (it.first.0, it.job.to_string(), it.counts.sums)).collect()
    }

    #[test]
    fn attempts_that_end_are_counted_and_no_others() {
        let fails = Transition::Fail("no".into(), None);
        let ended = [Transition::Succeed, fails, Transition::TimeOut("late".into())];
        for (place, transition) in ended.into_iter().enumerate() {
            let mut sums = [0, 0, 0, 0, 0, 1, 100, 200];
            sums[place] = 1;
            assert_eq!(counts(&[change(7, "a", transition)]), [(7, "a".to_owned(), sums)]);
        }
        let others = [
            Transition::Start,
            Transition::Confirm,
            Transition::Supersede,
            Transition::GiveBack(Token::fresh()),
        ];
        for transition in others {
            assert!(!is_counted(&change(7, "a", transition.clone())), "{transition:?}");
        }
        let release = change(7, "a", Transition::Release(Token::fresh(), None));
        assert_eq!(counts(&[release]), [], "its time limit was counted");
    }

    #[test]
    fn those_of_dead_nodes_are_counted_one_by_one() {
        let abandoned = [1, 2].map(|id| change(id, "a", Transition::Abandon(None)));
        assert_eq!(counts(&abandoned).len(), 2);
    }

    #[test]
    fn spans_are_neither_below_zero_nor_longer_than_a_year() {
        let one = |due, began, ended| {
            let counted = Counted { job: "a".into(), began: Some((due, began)) };
            OutcomeCounts::one(ExecutionState::Succeeded, &counted, ended).unwrap()
        };
        let counts = one(NOW, NOW - 5, NOW - 9);
        assert_eq!((counts.sums[5..].to_vec(), counts.longest), (vec![1, 0, 0], [0, 0]));
        assert_eq!(one(Timestamp::at(i64::MIN), NOW, Timestamp::MAX).longest, [LONGEST; 2]);
    }

    #[test]
    fn the_longest_is_kept_and_the_rest_is_added() {
        let one = OutcomeCounts { sums: [1, 0, 0, 0, 2, 3, 4, 5], longest: [7, 2] };
        let mut sum = OutcomeCounts { sums: [1; 8], longest: [3, 9] };
        sum.add(&one);
        assert_eq!(sum, OutcomeCounts { sums: [2, 1, 1, 1, 3, 4, 5, 6], longest: [7, 9] });
        assert_eq!(sum.total(), 8);
    }

    #[test]
    fn hours_become_whole_days_by_utc() {
        let key = OutcomeKey::hour(beginning(NOW, HOUR), "a".into(), "node".into());
        let day = OutcomeKey { hours: 24, from: Timestamp::at(500 * DAY), job: "a".into(), node: "".into() };
        assert_eq!(key.day(), day);
        assert_eq!(hours_from(NOW), Timestamp::at(498 * DAY));
        assert_eq!(beginning(Timestamp::at(-1), HOUR), Timestamp::at(-HOUR));
    }
}
