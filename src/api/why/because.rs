//! Reasons, each with what it is known from.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use crate::api::spans::some_as_millis;
use crate::api::{AuditView, RateView};
use crate::domain::{Activity, ExecutionId, MisfirePolicy};

/// Who ordered a change, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Who {
    /// The actor; empty if they gave no name.
    pub actor: String,
    /// Why, as far as they said.
    pub reason: String,
    /// When, by the database's clock. As JSON epoch milliseconds.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub at: Option<DateTime<Utc>>,
}

impl Who {
    pub(super) fn of(entry: &AuditView) -> Self {
        Self { actor: entry.actor.clone(), reason: entry.reason.clone(), at: entry.made }
    }

    /// As a row names them; none if it names nobody.
    pub(super) fn named(actor: &str, reason: &str, at: Option<DateTime<Utc>>) -> Option<Self> {
        let (actor, reason) = (actor.to_owned(), reason.to_owned());
        (!actor.is_empty() || !reason.is_empty()).then_some(Self { actor, reason, at })
    }
}

/// A bound that leaves no room for another execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "of", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FullBound {
    /// The job's [`concurrency`](crate::Job::concurrency).
    #[non_exhaustive]
    Job {
        /// The job.
        job: String,
        /// How many of its executions may run at once.
        seats: u32,
        /// The executions that have the seats, up to 1,000.
        taken_by: Vec<ExecutionId>,
    },
    /// The [`group_concurrency`](crate::Job::group_concurrency) of the execution's group.
    #[non_exhaustive]
    Group {
        /// The group's key.
        group: String,
        /// How many of its executions may run at once.
        seats: u32,
        /// The executions that have the seats, up to 1,000.
        taken_by: Vec<ExecutionId>,
    },
    /// The lanes of all nodes that have a handler.
    #[non_exhaustive]
    Lanes {
        /// The one in which the execution was enqueued; none if all are full: which is the job's no row says.
        lane: Option<String>,
        /// What each of these nodes told with its last heartbeat.
        nodes: Vec<FullNode>,
    },
}

/// A node whose lanes are full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FullNode {
    /// Its id.
    pub node: String,
    /// How many executions its lanes may run at once.
    pub seats: usize,
    /// How many they ran.
    pub busy: usize,
    /// How many waited in their queues.
    pub queued: usize,
    /// The heartbeat. As JSON epoch milliseconds.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub told: Option<DateTime<Utc>>,
}

/// A live node that has a handler and claims nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdleNode {
    /// Its id.
    pub node: String,
    /// Paused, draining or drained.
    pub state: Activity,
    /// Who switched it off.
    pub by: Option<Who>,
}

/// A node whose heartbeats have failed to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SilentNode {
    /// Its id.
    pub node: String,
    /// Its host's name.
    pub host_name: String,
    /// Its last heartbeat, by the database's clock. As JSON epoch milliseconds.
    #[serde(with = "chrono::serde::ts_milliseconds_option")]
    pub heard: Option<DateTime<Utc>>,
}

/// Why an occurrence, or an execution, ran or did not, with what that is known from. As JSON an object whose
/// `kind` names the reason; instants are epoch milliseconds, and spans are milliseconds.
///
/// A `by` that is none means that no row and no entry of the audit tells who.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Because {
    /// There is nothing to explain, or nothing is known: the fate says which.
    Nothing,
    /// The attempt follows one that failed, or ran out of time.
    #[non_exhaustive]
    Retry {
        /// That execution.
        after: Option<ExecutionId>,
    },
    /// The attempt follows one whose node died.
    #[non_exhaustive]
    Recovery {
        /// That execution.
        after: Option<ExecutionId>,
        /// Its node.
        node: Option<String>,
    },
    /// It was missed. With [`Fate::Succeeded`](crate::Fate::Succeeded) and the like it was made up for.
    #[non_exhaustive]
    Misfire {
        /// How late it was found.
        #[serde(serialize_with = "some_as_millis")]
        late: Option<Duration>,
        /// By which policy it was decided; none if that was another then, or if its schedule is gone.
        #[serde(serialize_with = "as_word")]
        policy: Option<MisfirePolicy>,
    },
    /// Somebody skipped it, or asked for the execution.
    #[non_exhaustive]
    ByHand {
        /// Who.
        by: Option<Who>,
    },
    /// Somebody had it run again.
    #[non_exhaustive]
    Rerun {
        /// Who.
        by: Option<Who>,
    },
    /// Its handler said that no retry would help.
    GaveUp,
    /// Its node died while it ran.
    #[non_exhaustive]
    NodeDied {
        /// That node.
        node: Option<String>,
    },
    /// Too many nodes have died while they ran it.
    #[non_exhaustive]
    AttemptsExhausted {
        /// The last of these nodes.
        node: Option<String>,
        /// How many its job allows; none if its row is gone.
        most: Option<u32>,
    },
    /// Its time limit passed.
    #[non_exhaustive]
    TimeLimit {
        /// Where it ran.
        node: Option<String>,
        /// Since when.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        since: Option<DateTime<Utc>>,
        /// Whether its handler has returned.
        has_returned: bool,
    },
    /// Somebody cancelled it.
    #[non_exhaustive]
    Cancelled {
        /// Who.
        by: Option<Who>,
    },
    /// Its schedule was removed.
    #[non_exhaustive]
    Removed {
        /// By whom.
        by: Option<Who>,
    },
    /// Its schedule got another trigger.
    #[non_exhaustive]
    Edited {
        /// By whom.
        by: Option<Who>,
    },
    /// Something is, or was, paused.
    #[non_exhaustive]
    Paused {
        /// What: `application`, `job` or `schedule`; empty if nobody knows.
        target_type: String,
        /// Its name.
        target: String,
        /// Who paused it.
        by: Option<Who>,
        /// When the pause ended, or is to end by itself.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        until: Option<DateTime<Utc>>,
    },
    /// Its schedule is, or was, paused by firetime for its streak: occurrences in a row that failed for good
    /// or killed their nodes.
    #[non_exhaustive]
    Contained {
        /// The schedule.
        schedule: String,
        /// What failed, and how often.
        streak: String,
        /// Since when.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        since: Option<DateTime<Utc>>,
        /// When somebody resumed it.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        until: Option<DateTime<Utc>>,
    },
    /// Another execution of its schedule had not ended, or has not.
    #[non_exhaustive]
    Overlap {
        /// That execution; none if the row does not tell.
        holder: Option<ExecutionId>,
        /// When that one ended.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        ended: Option<DateTime<Utc>>,
    },
    /// Another execution of its schedule was due before, and had not begun.
    #[non_exhaustive]
    HolderLate {
        /// That execution.
        holder: Option<ExecutionId>,
    },
    /// A later repair's work took its place.
    Superseded,
    /// No live node has a handler and claims.
    #[non_exhaustive]
    NoNode {
        /// For this job.
        job: String,
        /// Since when, as the misfire handler has noted.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        since: Option<DateTime<Utc>>,
        /// Live nodes that have a handler, and are switched off.
        idle: Vec<IdleNode>,
        /// Nodes that have a handler and claim, and of which nobody has heard of late. They may have died: no
        /// node has noted that yet, or there is none that could.
        silent: Vec<SilentNode>,
    },
    /// Nodes that have a handler cannot decode its payload.
    #[non_exhaustive]
    Undecodable {
        /// Why.
        error: String,
        /// Which, of a schedule; of an execution that a node has left to others none are known.
        nodes: Vec<String>,
    },
    /// A bound leaves no room.
    #[non_exhaustive]
    Full {
        /// Which.
        bound: FullBound,
        /// How many the job may begin within a span of time, too.
        rate: Option<RateView>,
    },
    /// Its schedule's row cannot be understood: it is in state ERROR.
    #[non_exhaustive]
    Quarantined {
        /// What is wrong with it.
        error: String,
        /// Since when; none if somebody wrote the state by hand.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        since: Option<DateTime<Utc>>,
    },
    /// Its time has not come, for another reason than its trigger: `snoozed`, `enqueued`, `given back`.
    #[non_exhaustive]
    Pending {
        /// The ledger's word.
        word: String,
    },
    /// The trigger has no fire time there.
    #[non_exhaustive]
    NoFireTime {
        /// The last one before.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        before: Option<DateTime<Utc>>,
        /// The next one.
        #[serde(with = "chrono::serde::ts_milliseconds_option")]
        after: Option<DateTime<Utc>>,
    },
    /// The schedule was made later.
    #[non_exhaustive]
    NotMadeYet {
        /// By whom.
        by: Option<Who>,
    },
    /// The schedule plans nothing, as it is in this state.
    #[non_exhaustive]
    State {
        /// `complete` or `init`.
        state: String,
    },
    /// What a row says, which firetime did not write.
    #[non_exhaustive]
    Other {
        /// Its word.
        word: String,
    },
}

impl Because {
    /// The reason in one or two words.
    pub(super) fn word(&self) -> &str {
        match self {
            Self::Nothing => "",
            Self::Retry { .. } => "retry",
            Self::Recovery { .. } => "recovery",
            Self::Misfire { .. } => "misfire",
            Self::ByHand { .. } => "by hand",
            Self::Rerun { .. } => "rerun",
            Self::GaveUp => "gave up",
            Self::NodeDied { .. } => "node died",
            Self::AttemptsExhausted { .. } => "attempts exhausted",
            Self::TimeLimit { .. } => "time limit",
            Self::Cancelled { .. } => "cancelled",
            Self::Removed { .. } => "removed",
            Self::Edited { .. } => "edited",
            Self::Paused { .. } => "paused",
            Self::Contained { .. } => "contained",
            Self::Overlap { .. } => "overlap",
            Self::HolderLate { .. } => "holder late",
            Self::Superseded => "superseded",
            Self::NoNode { .. } => "no node",
            Self::Undecodable { .. } => "undecodable",
            Self::Full { .. } => "full",
            Self::Quarantined { .. } => "quarantined",
            Self::NoFireTime { .. } => "no fire time",
            Self::NotMadeYet { .. } => "not made yet",
            Self::State { state: word } | Self::Pending { word } | Self::Other { word } => word,
        }
    }
}

fn as_word<S: Serializer>(policy: &Option<MisfirePolicy>, serializer: S) -> Result<S::Ok, S::Error> {
    policy.map(MisfirePolicy::as_str).serialize(serializer)
}
