//! The span that an execution covers: the time since its schedule's last success, and the fates of the
//! occurrences in between.

use chrono::{DateTime, Utc};

use super::{ExecutionState, Reason, Timestamp};

/// What an execution stands for: the answer of [`Context::covers`](crate::Context::covers).
///
/// It stands for the time from the end of what the schedule's last success covered up to its own fire time:
/// the half-open span `(since, until]`. A [rerun](crate::Client::rerun) stands for its own occurrence alone:
/// from the fire time before it, with nothing left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Covers {
    /// The fire time of the newest planned occurrence before this one that has succeeded, UTC, to the
    /// millisecond. None if the ledger has no such success: the schedule is new, nothing of it has succeeded
    /// yet, or retention has removed what did. Of a rerun: the fire time before its own, none if that is the
    /// first.
    pub since: Option<DateTime<Utc>>,
    /// The fire time of this execution, UTC, to the millisecond.
    pub until: DateTime<Utc>,
    /// What became of the occurrences in between, which have not succeeded: of the newest 20,000 rows of the
    /// ledger, if there are more ([`LeftOut::is_complete`]).
    pub left_out: LeftOut,
}

impl Covers {
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has such rows"))]
    pub(crate) fn new(since: Option<Timestamp>, until: Timestamp, left_out: LeftOut) -> Self {
        Self { since: since.and_then(Timestamp::utc), until: until.utc().unwrap_or_default(), left_out }
    }
}

/// How many occurrences a span of time leaves out, by what became of the last attempt at each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// SKIPPED by the misfire policy: nobody ran them in time, and a later one was run in their place, or
    /// none.
    pub missed: u64,
    /// SKIPPED by hand, or because another execution had not ended ([`Overlap`](crate::Overlap)).
    pub skipped: u64,
    /// SKIPPED with the end of a pause: of the schedule, its job or the application.
    pub paused: u64,
    /// FAILED, TIMED_OUT or ABANDONED, and no further attempt follows.
    pub failed: u64,
    /// CANCELLED: by hand, by its own handler, or with the removal of the schedule.
    pub cancelled: u64,
    /// WITHDRAWN: due, and not claimed when the schedule got another trigger or was removed.
    pub withdrawn: u64,
    /// Not ended yet: they wait for a node or a retry, or run, perhaps beyond their time limit.
    pub open: u64,
    /// Older rows of the ledger may be missing.
    pub(crate) is_cut: bool,
}

impl LeftOut {
    /// The most rows of the ledger that are counted.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has such rows"))]
    pub(crate) const MOST: usize = 20_000;

    /// Whether all occurrences of the span are counted. Not so if it leaves out 20,000 rows of the ledger or
    /// more, of which each attempt and each skipped span has one: then these are the newest 20,000.
    /// [`Covers::since`] is right all the same.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.is_cut
    }

    /// As many rows were counted as may be.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has such rows"))]
    pub(crate) fn cut(self) -> Self {
        Self { is_cut: true, ..self }
    }

    /// All of them that are counted.
    ///
    /// ```
    /// use firetime::{Context, HandlerError};
    ///
    /// fn report(context: &Context, (): ()) -> Result<(), HandlerError> {
    ///     let covers = context.covers()?;
    ///     println!("this run stands for {} fire times", 1 + covers.left_out.total());
    ///     Ok(())
    /// }
    /// # let _ = report;
    /// ```
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { missed, skipped, paused, failed, cancelled, withdrawn, open, is_cut: _ } = *self;
        let all = [missed, skipped, paused, failed, cancelled, withdrawn, open];
        all.into_iter().fold(0, u64::saturating_add)
    }

    /// Counts so many occurrences whose last attempts are alike.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has such rows"))]
    pub(crate) fn count(&mut self, last: &LastAttempt<'_>, occurrences: u64) {
        let counted = match last.state.parse() {
            Ok(ExecutionState::Skipped) => match last.reason {
                it if it == Reason::Misfire.as_str() || it == Reason::Superseded.as_str() => &mut self.missed,
                it if it == Reason::Paused.as_str() => &mut self.paused,
                _ => &mut self.skipped,
            },
            Ok(ExecutionState::Cancelled) => &mut self.cancelled,
            Ok(ExecutionState::Withdrawn) => &mut self.withdrawn,
            Ok(ExecutionState::TimedOut) if !last.has_finished => &mut self.open,
            Ok(ExecutionState::Failed | ExecutionState::TimedOut | ExecutionState::Abandoned) => {
                &mut self.failed
            }
            // Without a state of ours nobody knows. One that has succeeded had not when the last success was
            // looked for.
            Ok(_) | Err(_) => &mut self.open,
        };
        *counted = counted.saturating_add(occurrences);
    }
}

/// The last attempt at an occurrence, or the row of a skipped span of them, as the ledger has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has such rows"))]
pub(crate) struct LastAttempt<'a> {
    pub state: &'a str,
    pub reason: &'a str,
    /// Not so while the handler of one that ran out of time has not returned.
    pub has_finished: bool,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(state: &str, reason: &str, has_finished: bool, occurrences: u64) -> LeftOut {
        let mut left_out = LeftOut::default();
        left_out.count(&LastAttempt { state, reason, has_finished }, occurrences);
        left_out
    }

    #[test]
    fn each_end_is_counted_as_what_it_is() {
        const NONE: LeftOut = LeftOut {
            missed: 0,
            skipped: 0,
            paused: 0,
            failed: 0,
            cancelled: 0,
            withdrawn: 0,
            open: 0,
            is_cut: false,
        };
        for (state, reason, expected) in [
            ("SKIPPED", "misfire", LeftOut { missed: 7, ..NONE }),
            ("SKIPPED", "superseded", LeftOut { missed: 7, ..NONE }),
            ("SKIPPED", "paused", LeftOut { paused: 7, ..NONE }),
            ("SKIPPED", "by hand", LeftOut { skipped: 7, ..NONE }),
            ("SKIPPED", "overlap", LeftOut { skipped: 7, ..NONE }),
            ("SKIPPED", "holder late", LeftOut { skipped: 7, ..NONE }),
            ("SKIPPED", "somebody's own word", LeftOut { skipped: 7, ..NONE }),
            ("FAILED", "attempts exhausted", LeftOut { failed: 7, ..NONE }),
            ("FAILED", "", LeftOut { failed: 7, ..NONE }),
            ("ABANDONED", "node died", LeftOut { failed: 7, ..NONE }),
            ("TIMED_OUT", "", LeftOut { failed: 7, ..NONE }),
            ("CANCELLED", "removed", LeftOut { cancelled: 7, ..NONE }),
            ("WITHDRAWN", "edited", LeftOut { withdrawn: 7, ..NONE }),
            ("WITHDRAWN", "removed", LeftOut { withdrawn: 7, ..NONE }),
            ("PENDING", "retry", LeftOut { open: 7, ..NONE }),
            ("CLAIMED", "", LeftOut { open: 7, ..NONE }),
            ("RUNNING", "", LeftOut { open: 7, ..NONE }),
            ("SUCCEEDED", "", LeftOut { open: 7, ..NONE }),
            ("NO STATE", "", LeftOut { open: 7, ..NONE }),
        ] {
            assert_eq!(of(state, reason, true, 7), expected, "{state} {reason}");
            assert_eq!(expected.total(), 7);
        }
        assert_eq!(of("TIMED_OUT", "", false, 7), LeftOut { open: 7, ..NONE }, "its handler runs on");
    }

    #[test]
    fn a_count_beyond_all_sense_does_not_wrap() {
        let mut left_out = of("FAILED", "", true, u64::MAX);
        left_out.count(&LastAttempt { state: "FAILED", reason: "", has_finished: true }, 2);
        left_out.count(&LastAttempt { state: "RUNNING", reason: "", has_finished: false }, 2);
        assert_eq!((left_out.failed, left_out.open, left_out.total()), (u64::MAX, 2, u64::MAX));
    }

    #[test]
    fn an_instant_that_has_no_date_is_none() {
        let covers = Covers::new(Some(Timestamp::MAX), Timestamp::at(7), LeftOut::default());
        assert_eq!((covers.since, covers.until.timestamp_millis()), (None, 7));
        assert_eq!(
            Covers::new(Some(Timestamp::at(5)), Timestamp::at(7), LeftOut::default())
                .since
                .map(|it| it.timestamp_millis()),
            Some(5)
        );
    }

    proptest! {
        /// Whatever the rows say, in whatever order: each occurrence is counted once.
        #[test]
        fn every_occurrence_is_counted_once(
            rows in proptest::collection::vec(
                (0..ExecutionState::ALL.len(), 0..6_usize, any::<bool>(), 0..1_000_000_u64), 0..50,
            ),
        ) {
            const REASONS: [&str; 6] = ["misfire", "superseded", "paused", "by hand", "holder late", ""];
            let mut left_out = LeftOut::default();
            let mut backwards = LeftOut::default();
            let row = |(state, reason, has_finished, count): &(usize, usize, bool, u64)| {
                let (state, reason) = (ExecutionState::ALL[*state].as_str(), REASONS[*reason]);
                (LastAttempt { state, reason, has_finished: *has_finished }, *count)
            };
            rows.iter().map(row).for_each(|(last, count)| left_out.count(&last, count));
            rows.iter().rev().map(row).for_each(|(last, count)| backwards.count(&last, count));
            prop_assert_eq!(left_out.total(), rows.iter().map(|row| row.3).sum::<u64>());
            prop_assert_eq!(left_out, backwards);
        }
    }
}
