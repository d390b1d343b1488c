//! The targets of a pause: a schedule, a job, a node, an application.

use crate::api::config::{check_name, check_text};
use crate::domain::{Error, ErrorKind, NodeId};
use crate::store::switch::Scope;

/// What [`Client::pause`](crate::Client::pause) and [`Client::resume`](crate::Client::resume) are about, in
/// the client's application. A name alone is a schedule's.
///
/// | target | what a pause holds back | from when |
/// | --- | --- | --- |
/// | [schedule](Target::schedule) | its planned occurrences | the pause's commit |
/// | [job](Target::job) | all executions of the job's schedules, those asked for by hand too | each node's next poll |
/// | [node](Target::node) | nothing: other nodes run it | the node's next poll |
/// | [application](Target::application) | all executions | each node's next poll |
///
/// The next poll begins when a node hears of the pause, mostly within some milliseconds, or else within 5 s.
/// Running executions, and those that it has claimed by then, go on to their ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// The schedule of this name.
    Schedule(String),
    /// The job of this name.
    Job(String),
    /// The node of this id.
    Node(String),
    /// The client's application.
    Application,
}

impl Target {
    /// The schedule of this name.
    pub fn schedule(name: &str) -> Self {
        Self::Schedule(name.to_owned())
    }

    /// The job of this name: all its schedules, also those that are made later.
    pub fn job(name: &str) -> Self {
        Self::Job(name.to_owned())
    }

    /// The node of this id ([`Scheduler::node`](crate::Scheduler::node) or
    /// [`Client::nodes`](crate::Client::nodes)) while it lives: started anew, a node has a new id, and is not
    /// paused.
    pub fn node(id: &str) -> Self {
        Self::Node(id.to_owned())
    }

    /// The client's application.
    #[must_use]
    pub fn application() -> Self {
        Self::Application
    }

    /// The target with its name or id read.
    pub(super) fn checked(&self) -> Result<CheckedTarget<'_>, Error> {
        Ok(match self {
            Self::Schedule(name) => CheckedTarget::Schedule(name),
            Self::Job(name) => {
                check_name("job name", name, 200)?;
                CheckedTarget::Above(Scope::Job(name.clone()))
            }
            Self::Node(id) => CheckedTarget::Above(Scope::Node(node(id)?)),
            Self::Application => CheckedTarget::Above(Scope::Application),
        })
    }
}

/// A target, and which of the two ways to pause it has: by its own row, or by a switch.
pub(super) enum CheckedTarget<'a> {
    Schedule(&'a str),
    /// A job, a node or the application.
    Above(Scope),
}

/// The node's id that a text is.
pub(super) fn node(id: &str) -> Result<NodeId, Error> {
    check_text("the node's id", id, 36)?;
    let no_id = |_| Error::new(ErrorKind::Config, format!("{id:?} is no node's id, which has 36 characters"));
    id.parse().map_err(no_id)
}

impl From<&str> for Target {
    fn from(name: &str) -> Self {
        Self::schedule(name)
    }
}

impl From<&String> for Target {
    fn from(name: &String) -> Self {
        Self::schedule(name)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Schedule(name) => write!(f, "schedule {name:?}"),
            Self::Job(name) => write!(f, "job {name:?}"),
            Self::Node(id) => write!(f, "live node {id}"),
            Self::Application => f.write_str("application of this name"),
        }
    }
}
