//! Events, for the log, observers and tests, each with its text and log level.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::text::{escaped, shortened};
use super::{Cause, Error, ExecutionId, ExecutionState, Lineage, NodeId};

/// The operation whose failure is [`Event::NotListening`].
pub(crate) const LISTENING: &str = "listening for changes";

/// The attempt that an event is about: a row of `QRTZ_RUN`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Its row id.
    pub execution: ExecutionId,
    /// The schedule's name.
    pub schedule: Arc<str>,
    /// The job's name.
    pub job: Arc<str>,
    /// 1 for the first attempt at its occurrence.
    pub number: u32,
}

/// As messages name it: the first attempts are told from others by that alone.
impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { execution, schedule, number, .. } = self;
        match number {
            1 => write!(f, "{schedule:?}: execution {execution}"),
            _ => write!(f, "{schedule:?}: execution {execution} (attempt {number})"),
        }
    }
}

/// Something a running scheduler reports. Shown by [`fmt::Display`] as one line for people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The node is registered and its first heartbeat confirmed.
    #[non_exhaustive]
    Joined {
        /// The node.
        node: NodeId,
    },
    /// A poll ended.
    #[non_exhaustive]
    Polled {
        /// The grid tick it belongs to; `None` for an extra poll between ticks.
        tick: Option<DateTime<Utc>>,
        /// Occurrences planned inside the window.
        planned: usize,
        /// Pending executions found.
        pending: usize,
        /// How long it took to ask for all its pages.
        took: Duration,
    },
    /// Polls came too late and whole ticks of the grid were left out.
    #[non_exhaustive]
    TicksSkipped {
        /// How many.
        count: u64,
    },
    /// A store call failed; it is tried again after a pause.
    #[non_exhaustive]
    StoreFailed {
        /// What was attempted.
        operation: &'static str,
        /// Why it failed.
        error: Error,
    },
    /// A request that another program has written into `QRTZ_REQUEST` was refused; its row says why.
    #[non_exhaustive]
    RequestRefused {
        /// Its row id.
        request: i64,
        /// Why.
        reason: String,
    },
    /// A request that another program has written could not be carried out; it is tried again after a pause.
    #[non_exhaustive]
    RequestFailed {
        /// Its row id in `QRTZ_REQUEST`.
        request: i64,
        /// Why it failed.
        error: Error,
    },
    /// The node has stopped, and it is not known to be recorded: others may find it dead a little later.
    #[non_exhaustive]
    LeaveFailed {
        /// Why it failed.
        error: Error,
    },
    /// The commit of some claims is unknown: their rows are being locked to find out.
    #[non_exhaustive]
    CommitUnknown {
        /// How many claims.
        claims: usize,
    },
    /// A claim was lost to another node.
    #[non_exhaustive]
    ClaimLost {
        /// The schedule's name.
        schedule: Arc<str>,
    },
    /// Eight times in a row (and again at sixteen, and so on) an occurrence of a schedule was skipped here,
    /// because another execution of it had not ended ([`Overlap`](crate::Overlap)).
    #[non_exhaustive]
    Overlapped {
        /// The schedule's name.
        schedule: Arc<str>,
        /// The execution that has not ended.
        holder: ExecutionId,
        /// Whether that has not begun either: mostly its lane is full.
        is_late: bool,
        /// How many in a row.
        in_a_row: u32,
    },
    /// Occurrences of a schedule were skipped here: the ledger has them with this reason.
    #[non_exhaustive]
    Skipped {
        /// The schedule's name.
        schedule: Arc<str>,
        /// As the ledger says it, such as `overlap` or `misfire`.
        reason: &'static str,
        /// How many.
        occurrences: u64,
    },
    /// A job changed lanes: its runs are slow, or quick again
    /// ([`Lane::automatic`](crate::Lane::automatic)). What it has been claimed for stays where it is.
    #[non_exhaustive]
    LaneChanged {
        /// The job's name.
        job: Arc<str>,
        /// The lane in which its next executions run.
        lane: Arc<str>,
    },
    /// A row that cannot be understood, or alone makes its claim fail although other claims are won, was put
    /// into ERROR.
    #[non_exhaustive]
    Quarantined {
        /// The schedule's name; `id 7` if its row has none that can be read.
        schedule: Arc<str>,
        /// Why.
        reason: String,
    },
    /// A handler has ended. Its outcome may not be stored yet: a [`Client::retry`](crate::Client::retry) made
    /// at once may be answered with [`Retried::NotRetryable`](crate::Retried::NotRetryable).
    #[non_exhaustive]
    Finished {
        /// Which attempt it ran.
        attempt: Attempt,
        /// Why it was run.
        cause: Cause,
        /// How long after it was due the handler began.
        lateness: Duration,
        /// How long the handler took.
        took: Duration,
        /// What is stored of it: SUCCEEDED, FAILED, CANCELLED, TIMED_OUT, or PENDING if it snoozed.
        state: ExecutionState,
        /// The error it ended with, if any.
        error: Option<String>,
        /// When it is tried again, or goes on if it snoozed; none if it is not.
        retry: Option<DateTime<Utc>>,
    },
    /// The time limit of an execution has passed, and its handler has not returned. Told once; when it
    /// returns, [`Event::Finished`] is told, with the state TIMED_OUT.
    #[non_exhaustive]
    TimedOut {
        /// Which attempt.
        attempt: Attempt,
    },
    /// An execution was cancelled before its handler began.
    #[non_exhaustive]
    Cancelled {
        /// Which attempt.
        attempt: Attempt,
    },
    /// Somebody asked for the end of an execution that runs here: its handler can learn of it.
    #[non_exhaustive]
    CancelHeard {
        /// Which attempt.
        attempt: Attempt,
    },
    /// A claimed execution could not start in time, or its node stops or drains, and it went back.
    #[non_exhaustive]
    GivenBack {
        /// Which attempt.
        attempt: Attempt,
    },
    /// The future of an async handler was dropped before it answered, because this node's lease had ended, or
    /// by a shutdown or the end of its runtime: unless another node has taken the execution, it waits to be
    /// run anew, which uses up no attempt.
    #[non_exhaustive]
    Interrupted {
        /// Which attempt.
        attempt: Attempt,
        /// How long the handler had run.
        took: Duration,
    },
    /// An execution was taken from this node before its outcome arrived; the outcome changed nothing.
    #[non_exhaustive]
    Revoked {
        /// Which attempt.
        attempt: Attempt,
    },
    /// A schedule is left alone because no handler here can decode its payload; told once for each version,
    /// and again for one that the node has not met for long.
    #[non_exhaustive]
    Undecodable {
        /// The schedule's name.
        schedule: Arc<str>,
        /// What the decoder said, or that it has not returned.
        reason: String,
    },
    /// A node was declared dead.
    #[non_exhaustive]
    NodeDied {
        /// The node.
        node: NodeId,
    },
    /// This node's row was ended by others; it joins again as a new node.
    #[non_exhaustive]
    Fenced {
        /// The old incarnation.
        old: NodeId,
        /// The new one.
        new: NodeId,
    },
    /// The node hears from the database of what others change: it need not wait for its next poll.
    Listening,
    /// The node hears of nothing, and asks the database a few times a second instead. It tries again after a
    /// pause.
    #[non_exhaustive]
    NotListening {
        /// Why.
        error: Error,
    },
    /// The misfire handler took an execution back from a node that is dead.
    #[non_exhaustive]
    TakenBack {
        /// Which attempt.
        attempt: Attempt,
    },
    /// The misfire handler moved a cursor.
    #[non_exhaustive]
    Repaired {
        /// The schedule's name; `id 7` if its row is gone or has none that can be read.
        schedule: Arc<str>,
        /// What was done.
        what: &'static str,
    },
    /// A pause ended by itself.
    #[non_exhaustive]
    PauseEnded {
        /// What was paused: `schedule`, `job`, `node` or `application`.
        target_type: &'static str,
        /// Its name, or a node's id.
        target: Arc<str>,
    },
    /// As many nodes died under an occurrence as its job allows: it is FAILED and not tried again.
    #[non_exhaustive]
    Exhausted {
        /// Its last attempt.
        attempt: Attempt,
        /// How many nodes.
        deaths: u32,
    },
    /// A schedule paused itself, because so many of its occurrences in a row failed for good or killed their
    /// nodes ([`Schedule::pause_after`](crate::Schedule::pause_after)). Once somebody resumes it, it fires
    /// again. It is not told if the database's answer to the pause is lost.
    #[non_exhaustive]
    Contained {
        /// The schedule's name.
        schedule: Arc<str>,
        /// The reason of the pause, in the words of the schedule's row and of the audit.
        reason: String,
    },
    /// No live node that claims has a handler for a job that has something to run. It is told a minute after
    /// that was seen first, and once an hour while it lasts, by one node of the application; not while the
    /// job or the application is paused.
    #[non_exhaustive]
    NobodyCanRun {
        /// The job's name.
        job: Arc<str>,
        /// How many of its schedules are active; at most 10,000 are counted.
        schedules: u64,
        /// How many of its executions are due and wait; at most 10,000 of schedules and as many enqueued ones
        /// are counted.
        waiting: u64,
        /// How long ago that was seen first.
        lasting: Duration,
    },
    /// An occurrence of a schedule has not succeeded within the span that the schedule says
    /// ([`Schedule::expected_by`](crate::Schedule::expected_by)), nor has a later one, whatever became of
    /// them. It is told once, by one node, and is over with [`Event::ExpectationMet`]. It is not told if the
    /// database's answer to its note is lost; the audit has it then.
    #[non_exhaustive]
    ExpectationUnmet {
        /// The schedule's name.
        schedule: Arc<str>,
        /// The fire time of the first such occurrence.
        fire_time: DateTime<Utc>,
        /// The span.
        expected_by: Duration,
    },
    /// The occurrence of an [`Event::ExpectationUnmet`], or a later one of its schedule, has succeeded.
    #[non_exhaustive]
    ExpectationMet {
        /// The schedule's name.
        schedule: Arc<str>,
        /// The fire time that the unmet expectation was told with.
        fire_time: DateTime<Utc>,
    },
    /// What ended longer ago than the retention was removed.
    #[non_exhaustive]
    Purged {
        /// Occurrences, from the ledger.
        occurrences: usize,
        /// One-shot schedules without an execution left.
        schedules: usize,
        /// Nodes.
        nodes: usize,
    },
    /// The clock stepped: the plan was dropped and a poll asked for.
    ClockJumped,
    /// The database's clock and this host's differ by more than a second. Told once, and again when the
    /// difference has changed by more than a second or the clocks have agreed since.
    #[non_exhaustive]
    ClockOffset {
        /// By how much.
        by: Duration,
        /// Whether the database's is ahead of the host's; otherwise it is behind.
        is_ahead: bool,
    },
    /// The node stops: what it had planned and not claimed is left to the others.
    #[non_exhaustive]
    LeftToOthers {
        /// How many schedules and pending executions.
        planned: usize,
    },
    /// A handler's panic was not made an outcome; please report it.
    #[non_exhaustive]
    JobThreadPanicked {
        /// What it said.
        reason: String,
    },
    /// No thread could be started for the pool; work waits for those there are.
    #[non_exhaustive]
    ThreadRefused {
        /// What the system said.
        reason: String,
    },
    /// A loop of the scheduler panicked: the node stops beating, so that others take over; please report it.
    #[non_exhaustive]
    LoopPanicked {
        /// Which.
        name: String,
        /// What it said.
        reason: String,
    },
    /// The SQLite file was replaced or removed while the node had it open: the node stops beating and claims
    /// nothing more, because other nodes work on another file by now. Told once.
    #[non_exhaustive]
    DatabaseReplaced {
        /// Its path.
        path: String,
    },
    /// Another copy of the database answers than at the last heartbeat: a standby was promoted. Commits that
    /// the former primary had acknowledged but not replicated are lost, and occurrences claimed in them run
    /// again, with higher fences. A synchronous standby has them all.
    #[non_exhaustive]
    DatabasePromoted {
        /// Where heartbeats went until now.
        was: Lineage,
        /// Where they go.
        is: Lineage,
    },
    /// The tokio runtime of the async handlers has begun no execution of a lane for 5 s, mostly because
    /// handlers block its threads. Those that waited were handed back, and nothing more is claimed for the
    /// lane until the runtime goes on.
    RuntimeBlocked,
    /// The tokio runtime of the async handlers was shut down before the scheduler: the node stops beating and
    /// claims nothing more, so that others take over.
    RuntimeEnded,
    /// Events that neither the log nor the observers were given: they took too long over earlier ones.
    #[non_exhaustive]
    EventsMissed {
        /// How many.
        count: u64,
    },
    /// The scheduler was dropped without a shutdown: it claims nothing more.
    Dropped,
    /// The scheduler has stopped.
    #[non_exhaustive]
    Stopped {
        /// Whether every running job ended, every outcome was stored and the node left the cluster before the
        /// deadline.
        clean: bool,
    },
}

impl Event {
    pub(crate) fn level(&self) -> log::Level {
        match self {
            Self::Polled { .. } | Self::ClaimLost { .. } => log::Level::Trace,
            Self::Finished { error: None, .. } | Self::Skipped { .. } | Self::Purged { .. } => {
                log::Level::Debug
            }
            Self::Finished { state: ExecutionState::Cancelled | ExecutionState::TimedOut, .. }
            | Self::Joined { .. }
            | Self::Listening
            | Self::Repaired { .. }
            | Self::PauseEnded { .. }
            | Self::ExpectationMet { .. }
            | Self::LaneChanged { .. }
            | Self::Cancelled { .. }
            | Self::CancelHeard { .. }
            | Self::TakenBack { .. }
            | Self::GivenBack { .. }
            | Self::LeftToOthers { .. }
            | Self::Stopped { clean: true } => log::Level::Info,
            Self::Quarantined { .. }
            | Self::Exhausted { .. }
            | Self::Contained { .. }
            | Self::ExpectationUnmet { .. }
            | Self::Fenced { .. }
            | Self::JobThreadPanicked { .. }
            | Self::LoopPanicked { .. }
            | Self::RuntimeEnded
            | Self::DatabaseReplaced { .. } => log::Level::Error,
            _ => log::Level::Warn,
        }
    }

    /// What a scheduler or a loop says once, at its end. However many events wait, it is told behind them.
    pub(crate) fn is_last_word(&self) -> bool {
        matches!(
            self,
            Self::Dropped
                | Self::LoopPanicked { .. }
                | Self::DatabaseReplaced { .. }
                | Self::RuntimeEnded
                | Self::Stopped { .. }
        )
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each event")]
    fn words(&self) -> String {
        match self {
            Self::Joined { node } => format!("node {node} joined"),
            Self::Polled { tick, planned, pending, took } => {
                let at = |tick: DateTime<Utc>| format!("poll at tick {}", tick.timestamp_millis());
                let poll = tick.map_or("extra poll".to_owned(), at);
                format!("{poll}: {planned} planned, {pending} pending, took {} ms", took.as_millis())
            }
            Self::TicksSkipped { count } => format!("polls fell behind: {} left out", counted(count, "tick")),
            Self::StoreFailed { operation, error } => {
                format!("{operation} failed, will be tried again: {}", error.behind(operation))
            }
            Self::LeaveFailed { error } => {
                format!(
                    "the node has left, which may not be recorded, so that it may be found dead: {error:#}"
                )
            }
            Self::CommitUnknown { claims } => {
                format!("the commit of {} is unknown: asking the database for it", counted(claims, "claim"))
            }
            Self::ClaimLost { schedule } => format!("schedule {schedule:?}: claim lost to another node"),
            Self::Overlapped { schedule, holder, is_late, in_a_row } => {
                let has_not = if *is_late { "begun" } else { "ended" };
                format!(
                    "schedule {schedule:?}: {in_a_row} occurrences in a row skipped, execution {holder} has not \
                     {has_not}"
                )
            }
            Self::Skipped { schedule, reason, occurrences } => {
                format!("schedule {schedule:?}: {} skipped: {reason}", counted(occurrences, "occurrence"))
            }
            Self::LaneChanged { job, lane } => format!("job {job:?} changes to lane {lane:?}"),
            Self::Quarantined { schedule, reason } => format!("schedule {schedule:?} quarantined: {reason}"),
            Self::Finished { attempt, state, error, retry, .. } => {
                let error = error.as_deref().unwrap_or_default();
                match (state, retry) {
                    (ExecutionState::Pending, _) if error.is_empty() => format!("{attempt} snoozes"),
                    (ExecutionState::Pending, _) => format!("{attempt} is left to other nodes: {error:?}"),
                    (ExecutionState::Cancelled, _) => format!("{attempt} was cancelled: {error:?}"),
                    (ExecutionState::TimedOut, _) => format!("{attempt} has returned, after its time limit"),
                    (ExecutionState::Failed, None) => format!("{attempt} failed: {error:?}"),
                    (ExecutionState::Failed, Some(_)) => {
                        format!("{attempt} failed and will be tried again: {error:?}")
                    }
                    _ => format!("{attempt} succeeded"),
                }
            }
            Self::TimedOut { attempt } => format!("{attempt} is TIMED_OUT; its handler has not returned yet"),
            Self::Cancelled { attempt } => format!("{attempt} was cancelled before its handler began"),
            Self::CancelHeard { attempt } => format!("{attempt} is asked to end"),
            Self::TakenBack { attempt } => format!("{attempt} was taken back from a dead node"),
            Self::GivenBack { attempt } => format!("{attempt} was not started here and went back"),
            Self::Interrupted { attempt, .. } => {
                format!("{attempt} was interrupted: its future was dropped, and it will be run anew")
            }
            Self::Revoked { attempt } => {
                format!("{attempt} was taken from this node; its outcome changed nothing")
            }
            Self::Undecodable { schedule, reason } => {
                format!("schedule {schedule:?} left alone, its payload cannot be decoded here: {reason}")
            }
            Self::NodeDied { node } => format!("node {node} declared dead"),
            Self::Listening => "the database tells of others' changes from now on".to_owned(),
            Self::NotListening { error } => {
                format!("the database tells of no changes, looking for them: {}", error.behind(LISTENING))
            }
            Self::Fenced { old, new } => format!("node {old} was ended by others; joining again as {new}"),
            Self::Repaired { schedule, what } => format!("schedule {schedule:?}: {what}"),
            Self::PauseEnded { target_type, target } => {
                format!("the pause of {target_type} {target:?} has ended, as its time was up")
            }
            Self::Exhausted { attempt, deaths } => {
                format!("{attempt} failed for good, nodes it cost: {deaths}")
            }
            Self::Contained { schedule, reason } => {
                format!("schedule {schedule:?} is paused until somebody resumes it: {reason}")
            }
            Self::NobodyCanRun { job, schedules, waiting, lasting } => format!(
                "no live node that claims has a handler for job {job:?}, for {} s now: active schedules: {schedules}, \
                 executions that wait: {waiting}",
                lasting.as_secs()
            ),
            Self::ExpectationUnmet { schedule, fire_time, expected_by } => {
                let (at, seconds) = (instant(fire_time), expected_by.as_secs_f64());
                format!("schedule {schedule:?}: its occurrence of {at} has not succeeded within {seconds} s")
            }
            Self::ExpectationMet { schedule, fire_time } => {
                let at = instant(fire_time);
                format!("schedule {schedule:?} has succeeded, its occurrence of {at} was not in time")
            }
            Self::Purged { occurrences, schedules, nodes } => {
                let occurrences = counted(occurrences, "occurrence");
                let schedules = counted(schedules, "one-shot schedule");
                let nodes = counted(nodes, "ended node");
                format!("retention removed {occurrences}, {schedules}, {nodes}")
            }
            Self::ClockJumped => "the clock stepped: plan dropped, polling again".to_owned(),
            Self::ClockOffset { by, is_ahead } => {
                let (apart, side) = (by.as_millis(), if *is_ahead { "ahead of" } else { "behind" });
                format!("the database's clock is {apart} ms {side} this host's; check time synchronisation")
            }
            Self::LeftToOthers { planned } => {
                format!("stopping: {} left to other nodes", counted(planned, "planned item"))
            }
            Self::JobThreadPanicked { reason } => {
                format!("a job's thread panicked outside its handler: {reason}")
            }
            Self::RequestRefused { request, reason } => format!("request {request} was refused: {reason}"),
            Self::RequestFailed { request, error } => {
                format!("request {request} was not carried out, and is tried again: {error}")
            }
            Self::ThreadRefused { reason } => format!("no thread could be started for the pool: {reason}"),
            Self::LoopPanicked { name, reason } => {
                format!("{name} panicked, this node stops and leaves its work to others: {reason}")
            }
            Self::DatabaseReplaced { path } => {
                format!("the database file {path} was replaced or removed: this node stops; start it again")
            }
            Self::DatabasePromoted { was, is } => format!(
                "another copy of the database answers (a standby was promoted): {is}, before {was}; if it \
                 was asynchronous, commits that it lacks are lost, and their occurrences may run again"
            ),
            Self::RuntimeBlocked => {
                "the tokio runtime of the async handlers has begun none for 5 s: what waited is handed back, and \
                 nothing more is claimed for its lane; a handler that blocks belongs on a thread"
                    .to_owned()
            }
            Self::RuntimeEnded => {
                "the tokio runtime of the async handlers was shut down: this node stops; shut the scheduler \
                 down first"
                    .to_owned()
            }
            Self::EventsMissed { count } => {
                format!("the log or an observer is too slow: it was not told of {count} events")
            }
            Self::Dropped => "scheduler dropped without shutdown: nothing more is claimed".to_owned(),
            Self::Stopped { clean: true } => "stopped".to_owned(),
            Self::Stopped { clean: false } => {
                "stopped, but not in order: other nodes will settle what is left".to_owned()
            }
        }
    }
}

/// One line, also where texts from rows, payloads, drivers, handlers or panics have several.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Characters; observers get the whole texts.
        const LONGEST: usize = 2_000;
        f.write_str(&escaped(&shortened(&self.words(), LONGEST)))
    }
}

/// An instant for people.
fn instant(at: &DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string()
}

/// `1 tick`, `2 ticks`.
fn counted(count: &impl ToString, noun: &str) -> String {
    let count = count.to_string();
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ErrorKind;

    const NASTY: &str = "a\nERROR firetime: made up\r\u{1b}[2J\u{9b}1m\u{202e}\u{2028}\0'\"é☕";

    /// Every event that holds a text from elsewhere.
    fn events(text: &str) -> Vec<Event> {
        let (execution, name) = (ExecutionId(2), || Arc::from(text));
        let reason = || text.to_owned();
        let attempt = || Attempt { execution, schedule: name(), job: name(), number: 2 };
        let finished = |state, error, retry| Event::Finished {
            attempt: attempt(),
            cause: Cause::ByHand { actor: reason(), reason: reason() },
            lateness: Duration::ZERO,
            took: Duration::ZERO,
            state,
            error,
            retry,
        };
        vec![
            Event::ClaimLost { schedule: name() },
            Event::Skipped { schedule: name(), reason: "overlap", occurrences: 2 },
            Event::LaneChanged { job: name(), lane: Arc::from("slow") },
            Event::StoreFailed { operation: "poll", error: Error::new(ErrorKind::Refused, text) },
            Event::LeaveFailed { error: Error::new(ErrorKind::Refused, text) },
            Event::Quarantined { schedule: name(), reason: reason() },
            Event::Repaired { schedule: name(), what: "repaired" },
            Event::Exhausted { attempt: attempt(), deaths: 2 },
            Event::Contained { schedule: name(), reason: reason() },
            Event::ExpectationUnmet {
                schedule: name(),
                fire_time: DateTime::UNIX_EPOCH,
                expected_by: Duration::ZERO,
            },
            Event::ExpectationMet { schedule: name(), fire_time: DateTime::UNIX_EPOCH },
            Event::NobodyCanRun { job: name(), schedules: 1, waiting: 0, lasting: Duration::ZERO },
            finished(ExecutionState::Succeeded, None, None),
            finished(ExecutionState::Pending, None, Some(DateTime::UNIX_EPOCH)),
            finished(ExecutionState::Cancelled, Some(reason()), None),
            finished(ExecutionState::Failed, Some(reason()), None),
            finished(ExecutionState::Failed, Some(reason()), Some(DateTime::UNIX_EPOCH)),
            Event::TimedOut { attempt: attempt() },
            Event::Cancelled { attempt: attempt() },
            Event::GivenBack { attempt: attempt() },
            Event::Interrupted { attempt: attempt(), took: Duration::ZERO },
            Event::Revoked { attempt: attempt() },
            Event::CancelHeard { attempt: attempt() },
            Event::TakenBack { attempt: attempt() },
            Event::PauseEnded { target_type: "job", target: name() },
            Event::Undecodable { schedule: name(), reason: reason() },
            Event::JobThreadPanicked { reason: reason() },
            Event::ThreadRefused { reason: reason() },
            Event::RequestRefused { request: 7, reason: reason() },
            Event::LoopPanicked { name: reason(), reason: reason() },
            Event::DatabaseReplaced { path: reason() },
        ]
    }

    #[test]
    fn no_text_from_elsewhere_breaks_a_line_of_the_log() {
        for event in events(NASTY) {
            let line = event.to_string();
            assert!(!line.contains(crate::domain::text::is_unsafe), "{line:?}");
            assert!(line.contains("made up") && line.contains("é☕"), "{line}");
        }
    }

    #[test]
    fn one_of_a_kind_is_not_several() {
        assert_eq!(Event::TicksSkipped { count: 1 }.to_string(), "polls fell behind: 1 tick left out");
        assert_eq!(Event::TicksSkipped { count: 2 }.to_string(), "polls fell behind: 2 ticks left out");
        let unknown = Event::CommitUnknown { claims: 1 }.to_string();
        assert!(unknown.starts_with("the commit of 1 claim is unknown"), "{unknown}");
    }

    #[test]
    fn a_failed_operation_is_named_once() {
        let error = Error::new(ErrorKind::Unavailable, "no connection").during("poll");
        let line = Event::StoreFailed { operation: "poll", error }.to_string();
        assert_eq!(line, "poll failed, will be tried again: no connection");
    }

    #[test]
    fn a_clock_is_behind_or_ahead() {
        let words =
            |millis, is_ahead| Event::ClockOffset { by: Duration::from_millis(millis), is_ahead }.to_string();
        assert!(words(2_999, false).starts_with("the database's clock is 2999 ms behind this host's"));
        assert!(words(1_001, true).starts_with("the database's clock is 1001 ms ahead of this host's"));
    }

    #[test]
    fn no_text_from_elsewhere_floods_the_log() {
        for event in events(&"x".repeat(100_000)) {
            let length = event.to_string().chars().count();
            assert!((1_000..=2_001).contains(&length), "{length}");
        }
    }
}
