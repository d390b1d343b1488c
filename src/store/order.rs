//! Executions that somebody asks for, beside those that are planned, or asks to cancel.

use super::audit::{ASKED_TO_CANCEL, Attribution, AuditEntry, CANCEL};
use super::when::FIRST_PLAUSIBLE;
use crate::domain::headers::Headers;
use crate::domain::text::shortened;
use crate::domain::{ExecutionId, ExecutionState, ScheduleState, Timestamp};

/// So much of what the audit calls a target is kept: with the sign of its end it fills the column.
const LONGEST_TARGET: usize = 199;
/// The most bytes of JSON that a payload of an execution's own may have: polls bring it with the row.
pub(crate) const LARGEST_OWN_PAYLOAD: usize = 8_192;

/// What is wrong with an own payload of so many bytes, if anything.
pub(crate) fn too_large(what: &str, bytes: usize) -> Option<String> {
    (bytes > LARGEST_OWN_PAYLOAD).then(|| {
        format!(
            "{what} has {bytes} bytes of JSON, {LARGEST_OWN_PAYLOAD} are possible: store the data elsewhere \
             and let it hold its key"
        )
    })
}

/// What is wrong with the instant at which an execution is to run, if anything.
pub(crate) fn implausible(at: Timestamp) -> Option<&'static str> {
    (at.millis() < FIRST_PLAUSIBLE)
        .then_some("it is to run before 1973-03-03: are these seconds, not milliseconds?")
}

/// What the audit calls an execution.
pub(crate) fn audit_target(execution: ExecutionId, schedule: &str) -> String {
    shortened(&format!("{execution} of {schedule}"), LONGEST_TARGET)
}

/// One extra execution of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct RunOrder {
    pub application: String,
    pub schedule: String,
    /// JSON; the schedule's if there is none.
    pub payload: Option<String>,
    pub headers: Headers,
    /// When it is due; at once if there is none.
    pub at: Option<Timestamp>,
    pub by: Attribution,
}

impl RunOrder {
    /// How it is recorded. The row's id becomes the execution's origin.
    pub(crate) fn entry(&self) -> AuditEntry {
        let payload = self.payload.as_ref().map_or(String::new(), |payload| format!("payload {payload}"));
        AuditEntry::of_schedule("trigger", (&self.application, &self.schedule), ("", &payload), &self.by)
    }
}

/// The answer to a [`RunOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    /// The execution is PENDING.
    Pending(ExecutionId),
    /// A schedule in this state runs nothing; none if it cannot be understood.
    NotRunnable(Option<ScheduleState>),
    /// There is no such schedule, or it was removed.
    Unknown,
}

/// The end of an execution, or another attempt at it.
#[derive(Clone, Debug)]
pub(crate) struct ExecutionOrder {
    pub application: String,
    pub execution: ExecutionId,
    /// A cancel changes nothing unless the execution has these.
    pub wanted: KeyAndTags,
    pub by: Attribution,
}

/// The unique key and the tags of an enqueued execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyAndTags {
    pub key: Option<String>,
    pub tags: Vec<String>,
}

impl KeyAndTags {
    /// Whether an execution with these has what is wanted; none wanted, any will do.
    pub(crate) fn have(&self, wanted: &Self) -> bool {
        let has_key = wanted.key.is_none() || wanted.key == self.key;
        has_key && wanted.tags.iter().all(|tag| self.tags.contains(tag))
    }
}

impl ExecutionOrder {
    pub(crate) fn new(application: String, execution: ExecutionId, by: Attribution) -> Self {
        Self { application, execution, wanted: KeyAndTags::default(), by }
    }

    /// An execution gives way to its schedule's next occurrence.
    pub(crate) fn replaced(application: &str, execution: ExecutionId) -> Self {
        let (actor, reason) = ("firetime".to_owned(), "replaced by the next occurrence".to_owned());
        Self::new(application.to_owned(), execution, Attribution { actor, reason })
    }

    /// How its cancel is recorded.
    pub(crate) fn cancel_entry(&self, schedule: &str, was: ExecutionState) -> AuditEntry {
        let became = match was {
            ExecutionState::Running | ExecutionState::TimedOut => ASKED_TO_CANCEL,
            _ => ExecutionState::Cancelled.as_str(),
        };
        self.entry(CANCEL, schedule, (was, became))
    }

    /// How another attempt is recorded.
    pub(crate) fn retry_entry(&self, schedule: &str, was: ExecutionState, attempt: i64) -> AuditEntry {
        self.entry("retry", schedule, (was, &format!("attempt {attempt}")))
    }

    fn entry(&self, verb: &'static str, schedule: &str, (was, became): (ExecutionState, &str)) -> AuditEntry {
        let states = (was.as_str(), became);
        let entry = AuditEntry::of_schedule(verb, (&self.application, ""), states, &self.by);
        let target = audit_target(self.execution, schedule);
        AuditEntry { target_type: "execution", target, ..entry }
    }
}

/// The answer to an [`ExecutionOrder`] that cancels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cancel {
    /// It had not begun and is CANCELLED.
    Done,
    /// It runs on this node, which is asked to end it; whether that is new.
    Asked {
        node: String,
        is_new: bool,
    },
    /// It has ended so; none if its state is no word of ours.
    Ended(Option<ExecutionState>),
    /// It has these, which are not those that are wanted.
    Differs(KeyAndTags),
    Unknown,
}

/// The answer to an order of another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The attempt is PENDING.
    Pending(ExecutionId),
    /// It is in this state, which no attempt follows; none if that is no word of ours.
    State(Option<ExecutionState>),
    /// Another attempt has followed it before.
    Followed,
    /// Another execution that has not ended has its unique key.
    KeyTaken(ExecutionId),
    /// Its schedule, in this state, runs nothing; none if it cannot be understood, or is gone.
    NotRunnable(Option<ScheduleState>),
    Unknown,
}

impl Retry {
    /// Why an execution in this state, of a schedule in that one, is not tried again; nothing if it can be.
    pub(crate) fn refusal(state: Option<ExecutionState>, schedule: &str) -> Option<Self> {
        use ExecutionState::{Abandoned, Cancelled, Failed, TimedOut};
        match (state, Ordered::refusal(schedule)) {
            (Some(Failed | TimedOut | Cancelled | Abandoned), None) => None,
            (Some(Failed | TimedOut | Cancelled | Abandoned), Some(Ordered::NotRunnable(state))) => {
                Some(Self::NotRunnable(state))
            }
            (Some(Failed | TimedOut | Cancelled | Abandoned), Some(_)) => {
                Some(Self::NotRunnable(Some(ScheduleState::Removed)))
            }
            (state, _) => Some(Self::State(state)),
        }
    }
}

/// What became of a request to cancel an execution that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CancelRow {
    pub asked: Timestamp,
    pub actor: String,
    pub reason: String,
    /// When its node heard of it.
    pub seen: Option<Timestamp>,
}

impl Ordered {
    /// Why a schedule whose row has this state runs nothing that is asked for; nothing if it does.
    pub(crate) fn refusal(state: &str) -> Option<Self> {
        match ScheduleState::read(state) {
            Ok(ScheduleState::Active | ScheduleState::Paused | ScheduleState::Complete) => None,
            Ok(ScheduleState::Removed) => Some(Self::Unknown),
            other => Some(Self::NotRunnable(other.ok())),
        }
    }
}
