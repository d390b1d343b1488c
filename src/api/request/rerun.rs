//! Rerun and backfill: what was missed is run, each occurrence once and under its own fire time; and the end
//! of a whole rerun.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{check, request};
use crate::api::Client;
use crate::api::config::{check_schedule_name, unknown_reason};
use crate::api::views::{named, unsigned};
use crate::domain::{Error, ErrorKind, ExecutionState, ScheduleState, Timestamp, Word};
use crate::store::audit::Attribution;
use crate::store::rerun::{self, EndedSo, RerunCancel, RerunOrder, RerunPreview, RerunWanted, wrong_times};
use crate::store::{Store, Verbs};

/// How far apart the executions of a rerun are due, unless it says otherwise.
const PACE: Duration = Duration::from_secs(1);
const SHORTEST_PACE: Duration = Duration::from_millis(1);
const LONGEST_PACE: Duration = Duration::from_secs(86_400);

/// Whatever ended without success.
const WITHOUT_SUCCESS: [ExecutionState; 6] = [
    ExecutionState::Failed,
    ExecutionState::TimedOut,
    ExecutionState::Cancelled,
    ExecutionState::Abandoned,
    ExecutionState::Skipped,
    ExecutionState::Withdrawn,
];

request! {
    /// Runs occurrences of a schedule that did not succeed, as the ledger has them. Made by
    /// [`Client::rerun`].
    ///
    /// Each runs once more, under its own [fire time](crate::Context::fire_time), in the order of the fire
    /// times, and under the schedule's rule of [overlaps](crate::Schedule::overlap). [`Rerun::plan`] tells
    /// beforehand which they are. An occurrence that an earlier rerun has run with success, or has yet to
    /// run, is left out; so the same request may be made again. It also runs while the schedule is paused.
    ///
    /// The executions find in [`Context::cause`](crate::Context::cause) who asked for them, and
    /// [`Context::covers`](crate::Context::covers) tells each of them its own occurrence: the time from the
    /// fire time before it up to its own. They run with the schedule's payload of now. All of one request
    /// have one [origin](crate::ExecutionView::origin), by which [`Client::cancel_rerun`] ends them.
    ///
    /// One request looks at 1,000 occurrences at most; the plan, and the answer, say where the rest begins.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use firetime::{Client, ExecutionState, Job, Reran, RerunFate, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// # let often = Trigger::every(Duration::from_millis(1))?.times(4)?;
    /// # client.ensure(&Schedule::new("hourly", REPORT, &(), often)?).run()?;
    /// # client.pause("hourly").run()?;
    /// # std::thread::sleep(Duration::from_millis(20));
    /// client.resume("hourly").run()?; // Four fire times had come in the pause.
    /// let missed = || client.rerun("hourly").state(ExecutionState::Skipped).state_reason("paused");
    /// let plan = missed().plan()?;
    /// assert_eq!(plan.count(RerunFate::Run), 4);
    /// let answer = missed().pace(Duration::from_secs(60)).run()?;
    /// let Reran::Ordered { origin, count: 4, .. } = answer else { panic!("{answer:?}") };
    /// assert!(matches!(missed().run()?, Reran::Nothing { .. }), "they wait");
    /// client.cancel_rerun(origin).reason("too many").run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Rerun {
        name: String,
        states: Vec<ExecutionState>,
        ended_for: Option<String>,
        since: Option<DateTime<Utc>>,
        until: Option<DateTime<Utc>>,
        pace: Duration
    } -> Reran
}

request! {
    /// Runs a schedule for fire times that its trigger has in a range of time, such as from before it was
    /// made. Made by [`Client::backfill`].
    ///
    /// As a [`Rerun`], of all fire times since the beginning of the range and before its end: those whose
    /// occurrence has succeeded, or has not ended, are left out, and so are those from the schedule's next
    /// fire time on, which it fires by itself. What retention has removed from the ledger counts as never
    /// run. A fixed interval has no fire times before its start; give it one in the past
    /// ([`Trigger::starting`](crate::Trigger::starting)).
    ///
    /// ```
    /// use chrono::{DateTime, Utc};
    /// use firetime::{Client, Job, Reran, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// let from: DateTime<Utc> = "2025-01-01T00:00:00Z".parse()?;
    /// let until: DateTime<Utc> = "2025-02-01T00:00:00Z".parse()?;
    /// let answer = client.backfill("nightly", from..until).reason("figures for the new office").run()?;
    /// assert!(matches!(answer, Reran::Ordered { count: 31, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Backfill { name: String, range: std::ops::Range<DateTime<Utc>>, pace: Duration } -> Reran
}

request! {
    /// Cancels all executions of a [`Rerun`] or a [`Backfill`]: those that have not begun at once, the
    /// handlers of the others are asked to end, as by [`Client::cancel`]. Made by [`Client::cancel_rerun`].
    ///
    /// ```
    /// use chrono::{DateTime, Utc};
    /// use firetime::{Client, Job, Reran, RerunCancelled, Schedule, Trigger};
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// # firetime::migrate(&url)?;
    /// # const REPORT: Job<()> = Job::new("report");
    /// let client = Client::connect("shop", &url)?;
    /// # let nightly = Trigger::cron("0 30 2 * * ?", "UTC")?;
    /// # client.ensure(&Schedule::new("nightly", REPORT, &(), nightly)?).run()?;
    /// # let from: DateTime<Utc> = "2025-01-01T00:00:00Z".parse()?;
    /// # let until: DateTime<Utc> = "2025-02-01T00:00:00Z".parse()?;
    /// let answer = client.backfill("nightly", from..until).run()?;
    /// let Reran::Ordered { origin, .. } = answer else { panic!("{answer:?}") };
    /// let ended = client.cancel_rerun(origin).reason("of another year").run()?;
    /// assert!(matches!(ended, RerunCancelled::Cancelled { cancelled: 31, asked: 0, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    CancelRerun { origin: i64 } -> RerunCancelled
}

impl Client {
    /// Runs occurrences of a schedule that did not succeed once more, each under its own fire time.
    pub fn rerun(&self, name: &str) -> Rerun<'_> {
        Rerun {
            client: self,
            name: name.to_owned(),
            states: Vec::new(),
            ended_for: None,
            since: None,
            until: None,
            pace: PACE,
            by: self.attribution(),
        }
    }

    /// Runs a schedule for the fire times that its trigger has in a range of time that has passed.
    pub fn backfill(&self, name: &str, range: std::ops::Range<DateTime<Utc>>) -> Backfill<'_> {
        Backfill { client: self, name: name.to_owned(), range, pace: PACE, by: self.attribution() }
    }

    /// Cancels all executions of the rerun or backfill with this origin ([`Reran::Ordered`]).
    pub fn cancel_rerun(&self, origin: i64) -> CancelRerun<'_> {
        CancelRerun { client: self, origin, by: self.attribution() }
    }
}

impl Rerun<'_> {
    /// Only occurrences whose last attempt ended so, or as further calls say. Default: FAILED, TIMED_OUT,
    /// CANCELLED, ABANDONED, SKIPPED and WITHDRAWN. Those that have succeeded are only run again if this
    /// names SUCCEEDED.
    pub fn state(mut self, state: ExecutionState) -> Self {
        self.states.push(state);
        self
    }

    /// Only occurrences for whose state the ledger gives this reason
    /// ([`ExecutionView::reason`](crate::ExecutionView::reason)), such as `misfire` or `paused`.
    /// Default: any.
    pub fn state_reason(mut self, reason: &str) -> Self {
        self.ended_for = Some(reason.to_owned());
        self
    }

    /// Only occurrences with a fire time since then. Default: all that the ledger has.
    pub fn since(mut self, since: DateTime<Utc>) -> Self {
        self.since = Some(since);
        self
    }

    /// Only occurrences with a fire time before this. Default: all that have come.
    pub fn until(mut self, until: DateTime<Utc>) -> Self {
        self.until = Some(until);
        self
    }

    /// How far apart the executions are due; the first is due at once. Default: 1 s; 1 ms to 1 day. Where
    /// they must not overlap each waits for the end of the one before it, too.
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// What the request would do now; nothing is changed.
    ///
    /// # Errors
    /// As [`Rerun::run`]; [`ErrorKind::Config`] also if the schedule is in a state in which nothing of it
    /// runs.
    pub fn plan(&self) -> Result<RerunPlan, Error> {
        planned(&*self.client.store, self.client, &self.resolved()?)
    }

    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a state is one of executions that have not ended, the ledger knows no such
    /// reason, `until` does not lie behind `since`, the pace is out of range, the actor or the reason is too
    /// long or has control characters, or no schedule can have this name; [`ErrorKind::NotFound`] if there is
    /// no such schedule; or the database's failure.
    pub fn run(self) -> Result<Reran, Error> {
        let answer = self.over(&*self.client.store)?;
        announced(self.client, &self.name, answer)
    }

    pub(super) fn over(&self, verbs: &dyn Verbs) -> Result<Reran, Error> {
        ordered(verbs, self.client, &self.resolved()?)
    }

    fn resolved(&self) -> Result<RerunOrder, Error> {
        let refused = |problem: String| refused(RERUNNING, &self.name, problem);
        if let Some(state) = self.states.iter().find(|state| !state.is_terminal()) {
            return Err(refused(format!("an execution that is {} has not ended", state.as_str())));
        }
        let states = if self.states.is_empty() { WITHOUT_SUCCESS.to_vec() } else { self.states.clone() };
        let reason = self.ended_for.clone();
        if let Some(problem) = reason.as_deref().and_then(unknown_reason) {
            return Err(refused(problem));
        }
        let (since, until) = (self.since.map(Timestamp::from), self.until.map(Timestamp::from));
        if let Some(problem) = wrong_times(since, until) {
            return Err(refused(problem));
        }
        let wanted = RerunWanted::Ended(EndedSo { states, reason }, since, until);
        order(self.client, RERUNNING, (&self.name, wanted), self.pace, &self.by)
    }
}

impl Backfill<'_> {
    /// How far apart the executions are due; as [`Rerun::pace`].
    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    /// What the request would do now; nothing is changed.
    ///
    /// # Errors
    /// As [`Backfill::run`]; [`ErrorKind::Config`] also if the schedule is in a state in which nothing of it
    /// runs.
    pub fn plan(&self) -> Result<RerunPlan, Error> {
        planned(&*self.client.store, self.client, &self.resolved()?)
    }

    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the range is empty, the schedule has a fixed delay (the end of each run says
    /// when the next is), the pace is out of range, the actor or the reason is too long or has control
    /// characters, or no schedule can have this name; [`ErrorKind::NotFound`] if there is no such schedule;
    /// or the database's failure.
    pub fn run(self) -> Result<Reran, Error> {
        let answer = self.over(&*self.client.store)?;
        announced(self.client, &self.name, answer)
    }

    pub(super) fn over(&self, verbs: &dyn Verbs) -> Result<Reran, Error> {
        ordered(verbs, self.client, &self.resolved()?)
    }

    fn resolved(&self) -> Result<RerunOrder, Error> {
        let (since, until) = (Timestamp::from(self.range.start), Timestamp::from(self.range.end));
        if let Some(problem) = wrong_times(Some(since), Some(until)) {
            return Err(refused(BACKFILLING, &self.name, problem));
        }
        order(self.client, BACKFILLING, (&self.name, RerunWanted::Planned(since, until)), self.pace, &self.by)
    }
}

impl CancelRerun<'_> {
    /// Runs the request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the actor or the reason is too long or has control characters;
    /// [`ErrorKind::NotFound`] if the application has no rerun of this origin, or retention has removed its
    /// entry in the audit and none of its executions waits;
    /// or the database's failure.
    pub fn run(self) -> Result<RerunCancelled, Error> {
        let answer = self.over(&*self.client.store)?;
        if matches!(answer, RerunCancelled::Cancelled { asked: 1.., .. }) {
            self.client.announce_cancel();
        }
        Ok(answer)
    }

    pub(super) fn over(&self, verbs: &dyn Verbs) -> Result<RerunCancelled, Error> {
        check(&self.by)?;
        let application = self.client.application.clone();
        let order = RerunCancel { application, origin: self.origin, by: self.by.clone() };
        match verbs.cancel_rerun(&order)? {
            rerun::RerunCancelled::Done { cancelled, asked } => {
                Ok(RerunCancelled::Cancelled { cancelled, asked })
            }
            rerun::RerunCancelled::Ended => Ok(RerunCancelled::AlreadyEnded),
            rerun::RerunCancelled::Unknown => Err(Error::new(
                ErrorKind::NotFound,
                format!("application {:?} has no rerun {}", self.client.application, self.origin),
            )),
        }
    }
}

/// What a request is about to do, in errors.
const RERUNNING: &str = "rerunning";
const BACKFILLING: &str = "backfilling";

fn refused(doing: &str, name: &str, problem: String) -> Error {
    Error::new(ErrorKind::Config, format!("{doing} schedule {name:?}: {problem}"))
}

fn order(
    client: &Client,
    doing: &str,
    (name, wanted): (&str, RerunWanted),
    pace: Duration,
    by: &Attribution,
) -> Result<RerunOrder, Error> {
    check(by)?;
    check_schedule_name(name)?;
    if !(SHORTEST_PACE..=LONGEST_PACE).contains(&pace) {
        return Err(refused(doing, name, format!("the pace is {pace:?}; it may be from 1 ms to 1 day")));
    }
    let pace = i64::try_from(pace.as_millis()).unwrap_or(i64::MAX);
    let (application, by) = (client.application.clone(), by.clone());
    Ok(RerunOrder { application, schedule: name.to_owned(), wanted, pace, by })
}

fn planned(store: &dyn Store, client: &Client, order: &RerunOrder) -> Result<RerunPlan, Error> {
    match store.plan_rerun(order)? {
        RerunPreview::Plan(plan) => Ok(plan.into()),
        RerunPreview::NotRunnable(state) => {
            let state = state.unwrap_or(ScheduleState::Error).as_str();
            Err(refused(RERUNNING, &order.schedule, format!("it is {state}, nothing of it runs")))
        }
        RerunPreview::NoFireTimes => Err(no_fire_times(order)),
        RerunPreview::Unknown => Err(client.unknown(&order.schedule)),
    }
}

fn ordered(verbs: &dyn Verbs, client: &Client, order: &RerunOrder) -> Result<Reran, Error> {
    match verbs.rerun(order)? {
        rerun::Reran::Ordered { origin, plan } => {
            let count = plan.run().count();
            let RerunPlan { unknown, rest_from, .. } = plan.into();
            Ok(Reran::Ordered { origin, count, unknown, rest_from })
        }
        rerun::Reran::Nothing(plan) => {
            let RerunPlan { unknown, rest_from, .. } = plan.into();
            Ok(Reran::Nothing { unknown, rest_from })
        }
        rerun::Reran::NotRunnable(state) => Ok(Reran::NotRunnable(state.unwrap_or(ScheduleState::Error))),
        rerun::Reran::NoFireTimes => Err(no_fire_times(order)),
        rerun::Reran::Unknown => Err(client.unknown(&order.schedule)),
    }
}

fn no_fire_times(order: &RerunOrder) -> Error {
    let problem = "with a fixed delay the end of each run says when the next is: no fire time is known";
    refused(BACKFILLING, &order.schedule, problem.to_owned())
}

fn announced(client: &Client, name: &str, answer: Reran) -> Result<Reran, Error> {
    if matches!(answer, Reran::Ordered { .. }) {
        client.announce(name);
    }
    Ok(answer)
}

/// The answer to a [`Rerun`](crate::request::Rerun) or a [`Backfill`](crate::request::Backfill).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reran {
    /// The executions wait for a node.
    #[non_exhaustive]
    Ordered {
        /// Their [origin](crate::ExecutionView::origin), the id of the audit's entry:
        /// [`Client::cancel_rerun`] takes it.
        origin: i64,
        /// How many.
        count: usize,
        /// Spans of occurrences that are not run, because nobody knows their fire times.
        unknown: Vec<UnknownSpan>,
        /// The first fire time that was not looked at, if there are more than 1,000: go on from there.
        rest_from: Option<DateTime<Utc>>,
    },
    /// Nothing was made: there is no such occurrence, or all have succeeded or not ended, or nobody knows
    /// their fire times.
    #[non_exhaustive]
    Nothing {
        /// As in [`Reran::Ordered`].
        unknown: Vec<UnknownSpan>,
        /// The first fire time that was not looked at, if there are more than 1,000.
        rest_from: Option<DateTime<Utc>>,
    },
    /// The schedule is in this state, in which nothing of it runs; nothing was made.
    NotRunnable(ScheduleState),
}

/// The answer to a [`CancelRerun`](crate::request::CancelRerun).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RerunCancelled {
    /// The rerun ends.
    #[non_exhaustive]
    Cancelled {
        /// So many executions had not begun and are CANCELLED.
        cancelled: usize,
        /// So many run, and their nodes are asked to end them.
        asked: usize,
    },
    /// All of its executions have ended, or were asked to end before; nothing was changed.
    AlreadyEnded,
}

/// What a [`Rerun`](crate::request::Rerun) or a [`Backfill`](crate::request::Backfill) would do. As JSON,
/// instants are epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RerunPlan {
    /// The occurrences that are meant, by fire time, and what becomes of each.
    pub occurrences: Vec<RerunOccurrence>,
    /// Spans of occurrences that are not run, because nobody knows their fire times.
    pub unknown: Vec<UnknownSpan>,
    /// The first fire time that was not looked at, if there are more than 1,000: go on from there.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub rest_from: Option<DateTime<Utc>>,
}

impl RerunPlan {
    /// How many occurrences there are of this fate.
    #[must_use]
    pub fn count(&self, fate: RerunFate) -> usize {
        self.occurrences.iter().filter(|it| it.fate == fate).count()
    }
}

/// An occurrence that a request means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RerunOccurrence {
    /// Its fire time, UTC.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub fire_time: DateTime<Utc>,
    /// The state of its last attempt; none if the ledger has none.
    pub state: Option<Word<ExecutionState>>,
    /// Why it is in this state, where that needs saying, as
    /// [`ExecutionView::reason`](crate::ExecutionView::reason) has it.
    pub reason: String,
    /// What becomes of it.
    pub fate: RerunFate,
}

/// What becomes of an occurrence that a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RerunFate {
    /// It is run.
    Run,
    /// It is left out: it has succeeded, by itself or by an earlier rerun.
    Succeeded,
    /// It is left out: it, or a rerun of it, has not ended.
    Open,
}

/// A row of the ledger that stands for several occurrences, skipped or withdrawn, whose fire times are not
/// known: nobody knows what the trigger was then, or it has other fire times there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UnknownSpan {
    /// The first of the fire times, UTC.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub first: DateTime<Utc>,
    /// The last.
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub last: DateTime<Utc>,
    /// How many there are.
    pub count: u64,
}

impl From<rerun::RerunPlan> for RerunPlan {
    fn from(plan: rerun::RerunPlan) -> Self {
        let at = |at: Timestamp| at.utc().unwrap_or_default();
        let occurrences = plan.occurrences.into_iter().map(|it| RerunOccurrence {
            fire_time: at(it.at),
            state: named(it.was.state).map(|state| Word::read(&state)),
            reason: it.was.reason,
            fate: match it.fate {
                rerun::RerunFate::Run => RerunFate::Run,
                rerun::RerunFate::Succeeded => RerunFate::Succeeded,
                rerun::RerunFate::Open => RerunFate::Open,
            },
        });
        let unknown = plan.unknown.iter().map(|it| UnknownSpan {
            first: at(it.from),
            last: at(it.until),
            count: unsigned(it.count),
        });
        Self {
            occurrences: occurrences.collect(),
            unknown: unknown.collect(),
            rest_from: plan.rest_from.map(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::request::tests::client;

    #[test]
    fn what_cannot_be_rerun_is_refused_and_makes_nothing() {
        let (client, announced) = client();
        let before = announced.load(std::sync::atomic::Ordering::Relaxed);
        let at = |millis| DateTime::from_timestamp_millis(millis).unwrap();
        let (early, late) = (at(1_700_000_000_000), at(1_700_000_001_000));
        let refused = [
            (client.rerun("s").state(ExecutionState::Running).run(), "has not ended"),
            (client.rerun("s").since(late).until(late).run(), "none"),
            (client.rerun("s").since(at(1_700_000_000)).run(), "seconds"),
            (client.rerun("s").pace(Duration::ZERO).run(), "pace"),
            (client.rerun("s").pace(LONGEST_PACE + SHORTEST_PACE).run(), "pace"),
            (client.rerun("s").state_reason("a\nb").run(), "reason"),
            (client.rerun("s").state_reason("misfired").run(), "\"misfired\"; there are misfire, "),
            (client.rerun("s").actor("a\nb").run(), "actor"),
            (client.rerun("").run(), "name"),
            (client.backfill("s", late..early).run(), "none"),
            (client.backfill("s", early..late).pace(Duration::ZERO).run(), "pace"),
        ];
        for (answer, word) in refused {
            let error = answer.unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains(word), "{error}");
        }
        for answer in [client.rerun("t").run(), client.backfill("t", early..late).run()] {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::NotFound);
        }
        assert_eq!(client.rerun("t").plan().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(client.cancel_rerun(1).run().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(client.rerun("s").run().unwrap(), Reran::Nothing { unknown: Vec::new(), rest_from: None });
        assert_eq!(announced.load(std::sync::atomic::Ordering::Relaxed), before);
    }
}
