//! What a node counts of its own work, without a lock on the way of an execution: events as they are emitted,
//! and the begins of handlers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::domain::histogram::{Histogram, SpanCounter, tell};
use crate::domain::{Cause, Event, ExecutionState, Reason};

/// Executions of so many jobs are counted apart: the first ones by name. The rest are counted together.
const MOST_JOBS: usize = 1_000;
/// The name under which those are shown: no job's, as it has parentheses.
pub(crate) const OTHERS: &str = "(others)";

/// Defines plain counts, each with its name and help text.
macro_rules! counts {
    ($($Count:ident = $name:literal, $help:literal;)*) => {
        /// A plain count.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Count { $($Count,)* }

        impl Count {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$Count,)*];

            /// Its name, and what it counts.
            pub(crate) const fn about(self) -> (&'static str, &'static str) {
                match self { $(Self::$Count => ($name, $help),)* }
            }
        }
    };
}

counts! {
    Given = "firetime_executions_given_back_total", "Claimed executions that were not begun here and went back.";
    Revoked = "firetime_executions_revoked_total", "Executions that others took from this node while they ran.";
    TakenBack = "firetime_executions_taken_back_total", "Executions of dead nodes that this node took back.";
    Exhausted = "firetime_executions_exhausted_total", "Executions FAILED for good because their nodes died.";
    ClaimLost = "firetime_claims_lost_total", "Claims lost to other nodes.";
    ClaimUnknown = "firetime_claims_unknown_total", "Claims whose commit was unknown and had to be asked for.";
    TickSkipped = "firetime_poll_ticks_skipped_total", "Ticks of the polls' grid that came too late.";
    Planned = "firetime_poll_planned_total", "Occurrences that polls planned.";
    Pending = "firetime_poll_pending_total", "Pending executions that polls found.";
    Repaired = "firetime_schedules_repaired_total", "Cursors that the misfire handler moved on this node.";
    Quarantined = "firetime_schedules_quarantined_total", "Schedules that this node put into ERROR.";
    Contained = "firetime_schedules_contained_total", "Schedules that paused themselves on this node.";
    NodeDied = "firetime_nodes_died_total", "Nodes that this node declared dead.";
    Fenced = "firetime_node_fenced_total", "How often others ended this node's row.";
    RequestRefused = "firetime_requests_refused_total", "Requests of other programs that this node refused.";
}

/// Why a node records occurrences as skipped: they are counted from 0 on, as a series that begins with its
/// first event has no increase by that.
const SKIPPED: [Reason; 4] = [Reason::Misfire, Reason::Paused, Reason::Overlap, Reason::HolderLate];

/// How the run of a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    /// For good.
    Failed,
    /// It failed or its time limit passed, and it is tried again.
    Retried,
    /// For good.
    TimedOut,
    Cancelled,
    Snoozed,
    Undecodable,
    Interrupted,
}

impl Outcome {
    pub(crate) const ALL: [Self; 8] = [
        Self::Succeeded,
        Self::Failed,
        Self::Retried,
        Self::TimedOut,
        Self::Cancelled,
        Self::Snoozed,
        Self::Undecodable,
        Self::Interrupted,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Retried => "retried",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Snoozed => "snoozed",
            Self::Undecodable => "undecodable",
            Self::Interrupted => "interrupted",
        }
    }

    /// Of a handler whose execution becomes `state`, with an error or without one, with a retry or without.
    fn of(state: ExecutionState, has_error: bool, is_retried: bool) -> Self {
        match state {
            ExecutionState::Succeeded => Self::Succeeded,
            ExecutionState::Cancelled => Self::Cancelled,
            ExecutionState::TimedOut if !is_retried => Self::TimedOut,
            ExecutionState::Pending if has_error => Self::Undecodable,
            ExecutionState::Pending => Self::Snoozed,
            _ if is_retried => Self::Retried,
            _ => Self::Failed,
        }
    }
}

// The families of the spans that a node counts.
pub(crate) const DURATION: &str = "firetime_execution_duration_seconds";
pub(crate) const LATENESS: &str = "firetime_execution_lateness_seconds";
pub(crate) const ENQUEUE_TO_START: &str = "firetime_enqueue_to_start_seconds";
pub(crate) const POLL: &str = "firetime_poll_duration_seconds";

/// The executions of a job on this node.
#[derive(Debug, Default)]
struct OfJob {
    begun: AtomicU64,
    ended: [AtomicU64; Outcome::ALL.len()],
    took: SpanCounter,
    lateness: SpanCounter,
    queued: SpanCounter,
}

/// The counts of a job's executions, as they were read.
pub(crate) struct JobCounts {
    pub job: Arc<str>,
    pub begun: u64,
    pub ended: Vec<(Outcome, u64)>,
    /// How long handlers took.
    pub took: Histogram,
    /// How long after they were due handlers began.
    pub lateness: Histogram,
    /// The same of the first runs of enqueued executions alone.
    pub queued: Histogram,
}

/// All counts of a node.
#[derive(Debug)]
pub(crate) struct Counters {
    counts: Vec<AtomicU64>,
    /// Those of the node's own handlers, which are fixed.
    jobs: FxHashMap<Arc<str>, OfJob>,
    others: OfJob,
    /// Occurrences that were not run, by their reasons: words of the ledger.
    skipped: Mutex<BTreeMap<&'static str, u64>>,
    polls: SpanCounter,
}

impl OfJob {
    fn ended(&self, job: &str, outcome: Outcome, took: Duration) {
        tell(DURATION, Some(("job", job)), took);
        self.ended[outcome as usize].fetch_add(1, Ordering::Relaxed);
        self.took.add(took);
    }

    fn read(&self, job: Arc<str>) -> JobCounts {
        let ended = Outcome::ALL.into_iter().zip(&self.ended);
        JobCounts {
            job,
            begun: self.begun.load(Ordering::Relaxed),
            ended: ended.map(|(outcome, count)| (outcome, count.load(Ordering::Relaxed))).collect(),
            took: self.took.read(),
            lateness: self.lateness.read(),
            queued: self.queued.read(),
        }
    }
}

impl Counters {
    /// Of a node with handlers for these jobs.
    pub(crate) fn new(jobs: impl IntoIterator<Item = String>) -> Self {
        let names: std::collections::BTreeSet<String> = jobs.into_iter().collect();
        let jobs = names.into_iter().take(MOST_JOBS).map(|name| (name.into(), OfJob::default()));
        Self {
            counts: Count::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            jobs: jobs.collect(),
            others: OfJob::default(),
            skipped: Mutex::new(SKIPPED.iter().map(|reason| (reason.as_str(), 0)).collect()),
            polls: SpanCounter::default(),
        }
    }

    /// A handler begins, so long after its execution was due.
    pub(crate) fn began(&self, job: &str, cause: &Cause, snoozes: u32, lateness: Duration) {
        let (of, job) = (self.of(job), self.called(job));
        of.begun.fetch_add(1, Ordering::Relaxed);
        of.lateness.add(lateness);
        tell(LATENESS, Some(("job", job)), lateness);
        if snoozes == 0 && *cause == Cause::Enqueued {
            of.queued.add(lateness);
            tell(ENQUEUE_TO_START, Some(("job", job)), lateness);
        }
    }

    pub(crate) fn count(&self, event: &Event) {
        let (count, by) = match event {
            Event::Finished { attempt, took, state, error, retry, .. } => {
                let outcome = Outcome::of(*state, error.is_some(), retry.is_some());
                return self.of(&attempt.job).ended(self.called(&attempt.job), outcome, *took);
            }
            Event::Interrupted { attempt, took } => {
                return self.of(&attempt.job).ended(self.called(&attempt.job), Outcome::Interrupted, *took);
            }
            Event::Skipped { reason, occurrences, .. } => {
                *self.skipped().entry(reason).or_default() += occurrences;
                return;
            }
            Event::Polled { planned, pending, took, .. } => {
                self.polls.add(*took);
                tell(POLL, None, *took);
                self.add(Count::Planned, *planned as u64);
                (Count::Pending, *pending as u64)
            }
            Event::TicksSkipped { count } => (Count::TickSkipped, *count),
            Event::CommitUnknown { claims } => (Count::ClaimUnknown, *claims as u64),
            Event::ClaimLost { .. } => (Count::ClaimLost, 1),
            Event::GivenBack { .. } => (Count::Given, 1),
            Event::Revoked { .. } => (Count::Revoked, 1),
            Event::TakenBack { .. } => (Count::TakenBack, 1),
            Event::Exhausted { .. } => (Count::Exhausted, 1),
            Event::Repaired { .. } => (Count::Repaired, 1),
            Event::Quarantined { .. } => (Count::Quarantined, 1),
            Event::Contained { .. } => (Count::Contained, 1),
            Event::NodeDied { .. } => (Count::NodeDied, 1),
            Event::Fenced { .. } => (Count::Fenced, 1),
            Event::RequestRefused { .. } => (Count::RequestRefused, 1),
            _ => return,
        };
        self.add(count, by);
    }

    fn add(&self, count: Count, by: u64) {
        self.counts[count as usize].fetch_add(by, Ordering::Relaxed);
    }

    /// The label under which the facade is told of a job: there are no more than here.
    fn called<'j>(&self, job: &'j str) -> &'j str {
        if cfg!(feature = "metrics") && !self.jobs.contains_key(job) { OTHERS } else { job }
    }

    fn of(&self, job: &str) -> &OfJob {
        self.jobs.get(job).unwrap_or(&self.others)
    }

    fn skipped(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        // Counts are whole whatever panicked beside them.
        self.skipped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a poll has ended since the start.
    pub(crate) fn has_polled(&self) -> bool {
        !self.polls.is_empty()
    }

    pub(crate) fn polls(&self) -> Histogram {
        self.polls.read()
    }

    pub(crate) fn plain(&self) -> impl Iterator<Item = (Count, u64)> {
        Count::ALL.iter().zip(&self.counts).map(|(count, value)| (*count, value.load(Ordering::Relaxed)))
    }

    /// Occurrences that were skipped here, by the reason that the ledger gives.
    pub(crate) fn skips(&self) -> Vec<(&'static str, u64)> {
        self.skipped().iter().map(|(reason, count)| (*reason, *count)).collect()
    }

    /// The executions of each job, by name; those without a count of their own together, if there were some.
    pub(crate) fn jobs(&self) -> Vec<JobCounts> {
        let mut all: Vec<JobCounts> = self.jobs.iter().map(|(job, of)| of.read(Arc::clone(job))).collect();
        all.sort_by(|one, other| one.job.cmp(&other.job));
        let others = self.others.read(OTHERS.into());
        all.extend((others.begun > 0 || others.took.count() > 0).then_some(others));
        all
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::domain::{Attempt, ExecutionId};

    const SPAN: Duration = Duration::from_millis(20);

    fn attempt(job: &str) -> Attempt {
        Attempt { execution: ExecutionId(1), schedule: "s".into(), job: job.into(), number: 1 }
    }

    fn finished(
        job: &str,
        state: ExecutionState,
        error: Option<&str>,
        retry: Option<DateTime<Utc>>,
    ) -> Event {
        Event::Finished {
            attempt: attempt(job),
            cause: Cause::Planned,
            lateness: SPAN,
            took: SPAN,
            state,
            error: error.map(str::to_owned),
            retry,
        }
    }

    #[test]
    fn runs_are_counted_by_job_and_outcome() {
        use ExecutionState::{Cancelled, Failed, Pending, Succeeded, TimedOut};
        let counters = Counters::new(["mail".to_owned()]);
        counters.began("mail", &Cause::Enqueued, 0, SPAN);
        counters.began("mail", &Cause::Enqueued, 1, SPAN);
        counters.began("mail", &Cause::Planned, 0, SPAN);
        let later = Some(DateTime::UNIX_EPOCH);
        let ends = [
            (Succeeded, None, None),
            (Failed, Some("no"), None),
            (Failed, Some("no"), later),
            (TimedOut, Some("late"), None),
            (TimedOut, Some("late"), later),
            (Cancelled, Some("asked"), None),
            (Pending, None, later),
            (Pending, Some("cannot decode"), later),
        ];
        ends.iter()
            .for_each(|(state, error, retry)| counters.count(&finished("mail", *state, *error, *retry)));
        counters.count(&Event::Interrupted { attempt: attempt("mail"), took: SPAN });
        let [mail] = &counters.jobs()[..] else { panic!("one job") };
        let ended: Vec<u64> = mail.ended.iter().map(|(_, count)| *count).collect();
        assert_eq!(ended, [1, 1, 2, 1, 1, 1, 1, 1]);
        let spans = [&mail.took, &mail.lateness, &mail.queued].map(Histogram::count);
        assert_eq!((mail.begun, spans), (3, [9, 3, 1]));
    }

    /// A series for each would be as many as somebody else likes.
    #[test]
    fn jobs_beyond_the_first_thousand_are_counted_together() {
        let counters = Counters::new((0..MOST_JOBS + 5).map(|job| format!("job {job:04}")));
        for job in ["job 0000", "job 1000", "job 1004", "unknown"] {
            counters.began(job, &Cause::Planned, 0, SPAN);
        }
        let jobs = counters.jobs();
        assert_eq!(jobs.len(), MOST_JOBS + 1);
        let last = jobs.last().unwrap();
        assert_eq!((&*last.job, last.begun, jobs[0].begun), (OTHERS, 3, 1));
    }

    #[test]
    fn events_are_counted_once_each() {
        let counters = Counters::new([]);
        assert!(!counters.has_polled());
        let skipped = |reason, occurrences| Event::Skipped { schedule: "s".into(), reason, occurrences };
        let events = [
            Event::Polled { tick: None, planned: 3, pending: 2, took: SPAN },
            Event::TicksSkipped { count: 4 },
            Event::CommitUnknown { claims: 5 },
            Event::ClaimLost { schedule: "s".into() },
            Event::GivenBack { attempt: attempt("mail") },
            skipped("overlap", 1),
            skipped("misfire", 100),
            skipped("overlap", 1),
        ];
        events.iter().for_each(|event| counters.count(event));
        let is_counted = |count: &(Count, u64)| count.1 > 0;
        let counts: Vec<_> = counters.plain().filter(is_counted).collect();
        let expected = [
            (Count::Given, 1),
            (Count::ClaimLost, 1),
            (Count::ClaimUnknown, 5),
            (Count::TickSkipped, 4),
            (Count::Planned, 3),
            (Count::Pending, 2),
        ];
        assert_eq!(counts, expected);
        let skips = [("holder late", 0), ("misfire", 100), ("overlap", 2), ("paused", 0)];
        assert_eq!(counters.skips(), skips);
        assert!(counters.has_polled() && counters.polls().count() == 1);
    }
}
