//! Schedules that are expected to succeed within a span of each fire time, and the occurrences that have not.
//!
//! The stores bring what a schedule's row and the ledger say, and [`verdict`] decides.

use std::sync::Arc;

use super::audit::{Attribution, AuditEntry, MET, UNMET};
use super::change::{Change, ExpectedChange};
use crate::domain::{ExecutionState, Millis, Reason, ScheduleId, ScheduleState, Timestamp};

/// A success is looked for among so many of a schedule's newest attempts.
const MOST_ATTEMPTS: usize = 10_000;
/// The same once it is noted that an occurrence has not succeeded: each pass has looked at those before.
const MOST_OF_UNMET: usize = 1_000;
/// And among so many of the newest attempts that somebody asked for.
pub(crate) const MOST_BY_HAND: usize = 1_000;

/// Of the schedules by id behind `after` but for the first `skip`, so many.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpectedQuery {
    pub application: String,
    pub after: ScheduleId,
    pub skip: usize,
    pub limit: usize,
    /// Database time.
    pub now: Timestamp,
}

/// What a page of the schedules with an expectation came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExpectedPage {
    /// Those whose rows are to say something else.
    pub found: Vec<Expectation>,
    /// Those of which nothing is expected any more.
    pub gone: Vec<ScheduleId>,
    /// Where the next page begins.
    pub next: Option<ScheduleId>,
}

/// A schedule of which an occurrence has not succeeded in time, or of which one has succeeded at last.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expectation {
    pub name: Arc<str>,
    /// How long after its fire time an occurrence is to have succeeded.
    pub expected_by: Millis,
    pub change: ExpectedChange,
}

/// A schedule with an expectation as its rows have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expecting {
    pub application: Arc<str>,
    pub id: ScheduleId,
    pub name: Arc<str>,
    pub generation: i64,
    pub expected_by: Millis,
    /// Its state; none if it is no word of ours.
    pub state: Option<ScheduleState>,
    /// It has paused itself.
    pub is_contained: bool,
    /// Its job is active.
    pub has_active_job: bool,
    pub next: Option<Timestamp>,
    /// Up to this instant a resume has passed what was planned.
    pub resumed: Option<Timestamp>,
    /// The first occurrence that has not succeeded in time, as is noted.
    pub unmet: Option<Timestamp>,
}

/// What the ledger has of a schedule's present generation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The last fire time among its successes, planned or asked for.
    pub success: Option<Timestamp>,
    /// The first occurrence behind that whose time is up.
    pub missed: Option<Timestamp>,
}

impl Expecting {
    /// An occurrence at this instant or before it is to have succeeded by now.
    pub(crate) fn cutoff(&self, now: Timestamp) -> Timestamp {
        now.saturating_sub(self.expected_by)
    }

    /// Whether its occurrences may be unmet: nobody holds them back on purpose.
    fn is_expected(&self) -> bool {
        let is_open = match self.state {
            Some(ScheduleState::Active | ScheduleState::Complete | ScheduleState::Error) => true,
            Some(ScheduleState::Paused) => self.is_contained,
            _ => false,
        };
        is_open && self.has_active_job
    }

    /// Its next fire time, of one that is to be claimed by itself.
    fn planned(&self) -> Option<Timestamp> {
        let fires = matches!(self.state, Some(ScheduleState::Active | ScheduleState::Error));
        self.next.filter(|_| fires)
    }

    /// Whether the ledger has to be asked: of a schedule that is well, its newest occurrence whose time is up
    /// has succeeded.
    pub(crate) fn is_in_question(&self, newest: Option<ExecutionState>, now: Timestamp) -> bool {
        let is_due = self.planned().is_some_and(|next| next <= self.cutoff(now));
        let has_not = newest.is_some_and(|state| state != ExecutionState::Succeeded);
        self.unmet.is_some() || self.is_expected() && (is_due || has_not)
    }

    /// How many of its newest attempts are looked at.
    pub(crate) fn most_attempts(&self) -> usize {
        if self.unmet.is_some() { MOST_OF_UNMET } else { MOST_ATTEMPTS }
    }

    /// The instant from which on the ledger is asked for successes.
    pub(crate) fn since(&self) -> Timestamp {
        let resumed = self.resumed.map_or(Timestamp::EPOCH, |resumed| resumed + 1);
        self.unmet.unwrap_or(resumed)
    }
}

/// Why an occurrence is SKIPPED that nobody waits for: it was somebody's wish beforehand. A withdrawn one is
/// excused, too.
pub(crate) const EXCUSES: [Reason; 2] = [Reason::Paused, Reason::ByHand];

/// Whether nobody waits for an occurrence of which this has become.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn is_excused(state: Option<ExecutionState>, reason: &str) -> bool {
    let is_wish = EXCUSES.iter().any(|it| it.as_str() == reason);
    match state {
        Some(ExecutionState::Withdrawn) => true,
        Some(ExecutionState::Skipped) => is_wish,
        _ => false,
    }
}

/// What a schedule's row is to say; none if it says so already.
pub(crate) fn verdict(of: &Expecting, record: Record, now: Timestamp) -> Option<Expectation> {
    let becomes = match of.unmet {
        Some(unmet) if record.success.is_some_and(|success| success >= unmet) => None,
        Some(_) => return None,
        None => Some(first_missed(of, record, now)?),
    };
    let application = Arc::clone(&of.application);
    let change = ExpectedChange { application, schedule: of.id, seen: of.unmet, becomes };
    Some(Expectation { name: Arc::clone(&of.name), expected_by: of.expected_by, change })
}

/// The first occurrence behind the last success that should have succeeded by now: one that has a row in the
/// ledger, or else the next, which nobody has claimed.
fn first_missed(of: &Expecting, record: Record, now: Timestamp) -> Option<Timestamp> {
    if !of.is_expected() {
        return None;
    }
    let next = of.planned().filter(|next| record.success.is_none_or(|success| *next > success));
    record.missed.or(next.filter(|next| *next <= of.cutoff(now)))
}

impl Expectation {
    /// The change of its row, and how it is recorded.
    pub(crate) fn note(&self, application: &str) -> (Change, AuditEntry) {
        let ExpectedChange { seen, becomes, .. } = self.change;
        let (verb, reason) = match becomes {
            Some(at) => {
                (UNMET, format!("{} has not succeeded within {} ms", said(Some(at)), self.expected_by))
            }
            None => (MET, "it, or a later one, has succeeded".to_owned()),
        };
        let change = Change::Expected(self.change.clone());
        let by = Attribution { actor: "firetime".to_owned(), reason };
        let states = (&*said(seen), &*said(becomes));
        let entry = AuditEntry::of_schedule(verb, (application, &self.name), states, &by);
        (change, entry)
    }
}

/// An occurrence for people; nothing for none.
fn said(at: Option<Timestamp>) -> String {
    let instant = |at: Timestamp| match at.utc() {
        Some(utc) => utc.format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string(),
        None => at.to_string(),
    };
    at.map(instant).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::at(100_000);
    const AT: Timestamp = Timestamp::at(90_000);

    /// Expected within five seconds, and its next fire time far ahead.
    fn expecting() -> Expecting {
        Expecting {
            application: "shop".into(),
            id: ScheduleId(7),
            name: "nightly".into(),
            generation: 0,
            expected_by: 5_000,
            state: Some(ScheduleState::Active),
            is_contained: false,
            has_active_job: true,
            next: Some(NOW + 1_000_000),
            resumed: None,
            unmet: None,
        }
    }

    fn becomes(
        of: &Expecting,
        success: Option<Timestamp>,
        missed: Option<Timestamp>,
    ) -> Option<Option<Timestamp>> {
        verdict(of, Record { success, missed }, NOW).map(|it| it.change.becomes)
    }

    #[test]
    fn what_has_not_succeeded_in_time_is_unmet_from_the_first_on() {
        assert_eq!(becomes(&expecting(), None, Some(AT)), Some(Some(AT)));
        assert_eq!(becomes(&expecting(), Some(AT), None), None);
        assert_eq!(becomes(&expecting(), None, None), None, "nothing was due yet");
    }

    /// Nobody has claimed it.
    #[test]
    fn what_has_never_begun_is_unmet_once_its_time_is_up() {
        let due = |next| Expecting { next: Some(next), ..expecting() };
        assert_eq!(becomes(&due(NOW - 5_000), None, None), Some(Some(NOW - 5_000)));
        assert_eq!(becomes(&due(NOW - 4_999), None, None), None);
        assert_eq!(becomes(&due(NOW - 5_000), None, Some(AT)), Some(Some(AT)), "the first counts");
        assert_eq!(becomes(&due(NOW - 5_000), Some(NOW), None), None, "it was run by hand");
    }

    #[test]
    fn it_is_met_by_the_first_success_at_or_behind_it_and_noted_once() {
        let unmet = Expecting { unmet: Some(AT), ..expecting() };
        assert_eq!(becomes(&unmet, None, Some(AT)), None);
        assert_eq!(becomes(&unmet, Some(AT - 1), Some(AT)), None);
        assert_eq!(becomes(&unmet, Some(AT), None), Some(None));
        assert_eq!(becomes(&unmet, Some(NOW), None), Some(None));
    }

    #[test]
    fn whoever_pauses_it_waits_for_nothing_and_a_schedule_that_pauses_itself_is_waited_for() {
        let with = |state, is_contained| Expecting { state: Some(state), is_contained, ..expecting() };
        for (state, is_contained, unmet) in [
            (ScheduleState::Paused, false, false),
            (ScheduleState::Paused, true, true),
            (ScheduleState::Complete, false, true),
            (ScheduleState::Error, false, true),
            (ScheduleState::Removed, false, false),
            (ScheduleState::Init, false, false),
        ] {
            let found = becomes(&with(state, is_contained), None, Some(AT));
            assert_eq!(found.is_some(), unmet, "{state:?} {is_contained}");
        }
        assert_eq!(becomes(&Expecting { has_active_job: false, ..expecting() }, None, Some(AT)), None);
        let paused = Expecting { unmet: Some(AT), ..with(ScheduleState::Paused, false) };
        assert_eq!(becomes(&paused, Some(AT), None), Some(None), "what ran on has succeeded");
    }

    #[test]
    fn a_complete_schedule_has_no_next_occurrence_that_could_be_unmet() {
        for state in [ScheduleState::Complete, ScheduleState::Paused] {
            let next = Some(NOW - 50_000);
            let of = Expecting { state: Some(state), is_contained: true, next, ..expecting() };
            assert_eq!(becomes(&of, None, None), None);
        }
        let broken = Expecting { state: Some(ScheduleState::Error), next: Some(AT), ..expecting() };
        assert_eq!(becomes(&broken, None, None), Some(Some(AT)), "it will never begin");
    }

    #[test]
    fn the_ledger_is_asked_only_about_what_is_not_well() {
        use ExecutionState::{Failed, Running, Succeeded};
        let asked = |of: &Expecting, newest| of.is_in_question(newest, NOW);
        assert!(!asked(&expecting(), None) && !asked(&expecting(), Some(Succeeded)));
        assert!(asked(&expecting(), Some(Failed)) && asked(&expecting(), Some(Running)));
        assert!(asked(&Expecting { next: Some(AT), ..expecting() }, Some(Succeeded)));
        assert!(asked(&Expecting { unmet: Some(AT), ..expecting() }, Some(Succeeded)));
        let paused = Expecting { state: Some(ScheduleState::Paused), ..expecting() };
        assert!(!asked(&paused, Some(Failed)));
    }

    #[test]
    fn what_was_somebodys_wish_beforehand_is_excused() {
        use ExecutionState::{Cancelled, Failed, Skipped, Withdrawn};
        for (state, reason, excused) in [
            (Skipped, "paused", true),
            (Skipped, "by hand", true),
            (Skipped, "misfire", false),
            (Skipped, "overlap", false),
            (Withdrawn, "edited", true),
            (Cancelled, "cancelled", false),
            (Failed, "by hand", false),
        ] {
            assert_eq!(is_excused(Some(state), reason), excused, "{state:?} {reason}");
        }
    }

    #[test]
    fn both_ends_are_recorded_by_firetime_with_the_fire_time() {
        let note = |seen, becomes| {
            let change =
                ExpectedChange { application: "shop".into(), schedule: ScheduleId(7), seen, becomes };
            Expectation { name: "nightly".into(), expected_by: 600_000, change }.note("shop").1
        };
        let at = "1970-01-01 00:01:30.000 UTC";
        let unmet = note(None, Some(AT));
        assert_eq!((unmet.verb, &*unmet.was, &*unmet.became, &*unmet.by.actor), (UNMET, "", at, "firetime"));
        assert_eq!(unmet.by.reason, format!("{at} has not succeeded within 600000 ms"));
        let met = note(Some(AT), None);
        assert_eq!((met.verb, &*met.was, &*met.became), (MET, at, ""));
    }
}
