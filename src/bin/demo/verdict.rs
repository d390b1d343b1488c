//! The verdict: what was planned, against the ledger and against what the nodes said while they ran.
//!
//! Pure. Three witnesses that know nothing of each other: the oracle (planned), the database (the ledger),
//! and the lines the nodes wrote when a handler began (the log).

use std::collections::{BTreeMap, BTreeSet};

use firetime::ExecutionState;
use serde::Serialize;

use crate::when::time_of_day;

/// One occurrence: a schedule's name and a fire time, epoch milliseconds.
pub(super) type Occurrence = (String, i64);

/// One line of the log: a handler has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) occurrence: Occurrence,
    pub(super) attempt: u32,
    /// The node's name.
    pub(super) by: &'static str,
}

/// One row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) occurrence: Occurrence,
    /// A skipped row may stand for several occurrences: the last of them, and how many.
    pub(super) until: i64,
    pub(super) count: u64,
    pub(super) attempt: u32,
    pub(super) state: ExecutionState,
    /// The name of the node that ran it, if it is one of the demo's.
    pub(super) node: Option<&'static str>,
}

/// Everything the verdict rests on.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    pub(super) planned: BTreeSet<Occurrence>,
    pub(super) ledger: Vec<Row>,
    pub(super) log: Vec<Begun>,
    /// The node that was killed.
    pub(super) killed: Option<&'static str>,
    /// What went wrong beside the executions: a node that ended by itself, a schedule not complete.
    pub(super) mishaps: Vec<String>,
}

/// How it went. Planned = fired + skipped + pending + failed + missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Verdict {
    /// Occurrences that had to fire, counted by the oracle.
    pub(super) planned: usize,
    /// Occurrences that succeeded.
    pub(super) fired: usize,
    /// Occurrences the ledger says were deliberately not run.
    pub(super) skipped: usize,
    /// Occurrences begun, or waiting to be.
    pub(super) pending: usize,
    /// Occurrences whose last attempt ended badly.
    pub(super) failed: usize,
    /// Occurrences without a trace in the ledger.
    pub(super) missing: usize,
    /// Times a handler began that should not have: one attempt twice, or a further attempt without need.
    pub(super) duplicates: usize,
    /// Occurrences run again because their node was killed at them.
    pub(super) recovered: usize,
    /// What the ledger or the log has and nobody planned.
    pub(super) unplanned: usize,
    /// Where the ledger and the log contradict each other.
    pub(super) contradictions: usize,
    /// Each problem in words.
    pub(super) problems: Vec<String>,
}

impl Verdict {
    pub(super) fn is_clean(&self) -> bool {
        self.problems.is_empty() && self.fired + self.skipped == self.planned
    }
}

pub(super) fn judge(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict { planned: evidence.planned.len(), ..Verdict::default() };
    verdict.problems.extend(evidence.mishaps.iter().cloned());
    let skipped = skipped(evidence, &mut verdict);
    let attempts = attempts(&evidence.ledger);
    for occurrence in &evidence.planned {
        let rows = attempts.get(occurrence).map_or(&[][..], Vec::as_slice);
        account(occurrence, rows, skipped.contains(occurrence), &mut verdict);
    }
    for occurrence in attempts.keys().filter(|occurrence| !evidence.planned.contains(*occurrence)) {
        verdict.unplanned += 1;
        verdict.problems.push(format!("{} was not planned", shown(occurrence)));
    }
    read_log(evidence, &attempts, &mut verdict);
    verdict
}

fn attempts(ledger: &[Row]) -> BTreeMap<&Occurrence, Vec<&Row>> {
    let mut attempts: BTreeMap<&Occurrence, Vec<&Row>> = BTreeMap::new();
    for row in ledger.iter().filter(|row| row.state != ExecutionState::Skipped) {
        attempts.entry(&row.occurrence).or_default().push(row);
    }
    attempts.values_mut().for_each(|rows| rows.sort_by_key(|row| row.attempt));
    attempts
}

/// The planned occurrences that skipped rows stand for.
fn skipped<'a>(evidence: &'a Evidence, verdict: &mut Verdict) -> BTreeSet<&'a Occurrence> {
    let mut skipped = BTreeSet::new();
    for row in evidence.ledger.iter().filter(|row| row.state == ExecutionState::Skipped) {
        let (name, from) = &row.occurrence;
        let last = (name.clone(), row.until.max(*from));
        let covered: Vec<_> = evidence.planned.range(row.occurrence.clone()..=last).collect();
        if u64::try_from(covered.len()) != Ok(row.count) {
            verdict.unplanned += 1;
            let problem =
                format!("a row skips {} occurrences where {} were planned", row.count, covered.len());
            verdict.problems.push(format!("{}: {problem}", shown(&row.occurrence)));
        }
        skipped.extend(covered);
    }
    skipped
}

/// What became of one planned occurrence.
fn account(occurrence: &Occurrence, rows: &[&Row], skipped: bool, verdict: &mut Verdict) {
    use ExecutionState::{Abandoned, Claimed, Pending, Running, Succeeded};
    let successes = rows.iter().filter(|row| row.state == Succeeded).count();
    let (count, problem) = match (skipped, rows.last().map(|row| row.state)) {
        (true, None) => (&mut verdict.skipped, None),
        (false, None) => (&mut verdict.missing, Some("has no row in the ledger".to_owned())),
        (_, Some(Succeeded)) => {
            let earlier = &rows[..rows.len() - 1];
            verdict.recovered += usize::from(!earlier.is_empty());
            let is_alone = !skipped && earlier.iter().all(|row| row.state == Abandoned);
            let problem = || format!("succeeded, but not alone ({successes} successes, skipped: {skipped})");
            (&mut verdict.fired, (!is_alone).then(problem))
        }
        (_, Some(state @ (Pending | Claimed | Running))) => {
            (&mut verdict.pending, Some(format!("is still {}", state.as_str().to_lowercase())))
        }
        (_, Some(state)) => {
            (&mut verdict.failed, Some(format!("ended as {}", state.as_str().to_lowercase())))
        }
    };
    *count += 1;
    verdict.problems.extend(problem.map(|problem| format!("{} {problem}", shown(occurrence))));
}

/// What the nodes said, against what the ledger says.
fn read_log(evidence: &Evidence, attempts: &BTreeMap<&Occurrence, Vec<&Row>>, verdict: &mut Verdict) {
    let mut log: BTreeMap<(&Occurrence, u32), Vec<&'static str>> = BTreeMap::new();
    for begun in &evidence.log {
        log.entry((&begun.occurrence, begun.attempt)).or_default().push(begun.by);
    }
    let row = |occurrence: &Occurrence, attempt: u32| {
        attempts.get(occurrence).into_iter().flatten().find(|row| row.attempt == attempt)
    };
    let Verdict { duplicates, contradictions, problems, .. } = verdict;
    for ((occurrence, attempt), by) in &log {
        let what = format!("attempt {attempt} at {}", shown(occurrence));
        if by.len() > 1 {
            *duplicates += by.len() - 1;
            problems.push(format!("{what} was begun {} times, by {}", by.len(), by.join(", ")));
        }
        let excused = || {
            row(occurrence, attempt - 1).is_some_and(|earlier| {
                earlier.state == ExecutionState::Abandoned
                    && earlier.node.is_some()
                    && earlier.node == evidence.killed
            })
        };
        if *attempt > 1 && !excused() {
            *duplicates += 1;
            problems.push(format!("{what} was begun, though the node of the one before was not killed"));
        }
        if row(occurrence, *attempt).is_none() {
            *contradictions += 1;
            problems.push(format!("{what} was begun by {}, the ledger knows nothing of it", by.join(", ")));
        }
    }
    for row in attempts.values().flatten().filter(|row| row.state == ExecutionState::Succeeded) {
        if !log.contains_key(&(&row.occurrence, row.attempt)) {
            *contradictions += 1;
            let what = format!("attempt {} at {}", row.attempt, shown(&row.occurrence));
            problems.push(format!("{what} succeeded in the ledger, but no node began it"));
        }
    }
}

fn shown((name, at): &Occurrence) -> String {
    format!("{name} of {}", time_of_day(*at))
}

#[cfg(test)]
mod tests {
    use ExecutionState::{Abandoned, Claimed, Failed, Pending, Running, Skipped, Succeeded};

    use super::*;

    fn occurrence(at: i64) -> Occurrence {
        ("s".to_owned(), at)
    }

    fn row(at: i64, attempt: u32, state: ExecutionState, node: &'static str) -> Row {
        Row { occurrence: occurrence(at), until: -1, count: 1, attempt, state, node: Some(node) }
    }

    fn begun(at: i64, attempt: u32, by: &'static str) -> Begun {
        Begun { occurrence: occurrence(at), attempt, by }
    }

    /// Three occurrences, the second recovered from B, which was killed at it.
    fn good() -> Evidence {
        Evidence {
            planned: [1_000, 2_000, 3_000].map(occurrence).into(),
            ledger: vec![
                row(3_000, 1, Succeeded, "C"),
                row(2_000, 2, Succeeded, "A"),
                row(2_000, 1, Abandoned, "B"),
                row(1_000, 1, Succeeded, "A"),
            ],
            log: vec![begun(1_000, 1, "A"), begun(2_000, 1, "B"), begun(3_000, 1, "C"), begun(2_000, 2, "A")],
            killed: Some("B"),
            mishaps: Vec::new(),
        }
    }

    /// The verdict once `spoil` has been at good evidence; never a clean one.
    fn spoiled(spoil: impl FnOnce(&mut Evidence)) -> Verdict {
        let mut evidence = good();
        spoil(&mut evidence);
        let verdict = judge(&evidence);
        assert!(!verdict.is_clean(), "{verdict:?}");
        verdict
    }

    #[test]
    fn a_recovered_occurrence_is_clean() {
        let verdict = judge(&good());
        assert!(verdict.is_clean(), "{verdict:?}");
        assert_eq!((verdict.planned, verdict.fired, verdict.recovered, verdict.duplicates), (3, 3, 1, 0));
    }

    #[test]
    fn an_attempt_that_was_never_begun_may_be_taken_over() {
        let mut evidence = good();
        evidence.log.remove(1);
        assert!(judge(&evidence).is_clean());
    }

    #[test]
    fn one_attempt_begun_twice_is_a_duplicate() {
        assert_eq!(spoiled(|evidence| evidence.log.push(begun(1_000, 1, "C"))).duplicates, 1);
    }

    #[test]
    fn a_second_attempt_is_a_duplicate_while_the_first_one_s_node_lives() {
        assert_eq!(spoiled(|evidence| evidence.killed = Some("C")).duplicates, 1);
        assert_eq!(spoiled(|evidence| evidence.killed = None).duplicates, 1);
    }

    #[test]
    fn two_successes_of_one_occurrence_are_unclean() {
        spoiled(|evidence| evidence.ledger[2].state = Succeeded);
    }

    #[test]
    fn an_occurrence_without_a_row_is_missing() {
        let verdict = spoiled(|evidence| {
            evidence.ledger.remove(0);
        });
        assert_eq!((verdict.missing, verdict.contradictions), (1, 1));
    }

    #[test]
    fn what_has_not_ended_is_pending() {
        for state in [Pending, Claimed, Running] {
            assert_eq!(spoiled(|evidence| evidence.ledger[0].state = state).pending, 1);
        }
    }

    #[test]
    fn what_ended_badly_is_failed() {
        for state in [Failed, Abandoned] {
            assert_eq!(spoiled(|evidence| evidence.ledger[0].state = state).failed, 1);
        }
    }

    #[test]
    fn what_nobody_planned_is_seen() {
        assert_eq!(spoiled(|evidence| evidence.ledger.push(row(4_000, 1, Succeeded, "A"))).unplanned, 1);
    }

    #[test]
    fn a_success_nobody_began_is_a_contradiction() {
        let verdict = spoiled(|evidence| {
            evidence.log.remove(0);
        });
        assert_eq!(verdict.contradictions, 1);
    }

    #[test]
    fn a_mishap_is_unclean() {
        spoiled(|evidence| evidence.mishaps.push("node C ended by itself".to_owned()));
    }

    #[test]
    fn occurrences_skipped_together_are_accounted_for_one_by_one() {
        let mut evidence = good();
        evidence.ledger.retain(|row| row.occurrence.1 == 3_000);
        evidence.log.retain(|begun| begun.occurrence.1 == 3_000);
        evidence.ledger.push(Row { until: 2_000, count: 2, ..row(1_000, 1, Skipped, "") });
        let verdict = judge(&evidence);
        assert!(verdict.is_clean(), "{verdict:?}");
        assert_eq!((verdict.fired, verdict.skipped), (1, 2));
        evidence.ledger[1].count = 3;
        assert_eq!(judge(&evidence).unplanned, 1);
    }
}
