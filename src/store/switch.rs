//! Jobs, nodes and applications that somebody pauses, drains or resumes.

use super::audit::{Attribution, AuditEntry};
use crate::domain::{Activity, Entry, JobId, NodeId, Timestamp};

/// What a pause holds back, beside a single schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Job(String),
    Node(NodeId),
    Application,
}

/// What is done to a job, a node or an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchVerb {
    Pause {
        /// When the pause ends by itself.
        until: Option<Timestamp>,
    },
    Resume,
    Drain,
}

impl SwitchVerb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pause { .. } => "pause",
            Self::Resume => "resume",
            Self::Drain => "drain",
        }
    }

    /// What the state becomes; nothing if it needs no change.
    pub(crate) fn leads(self, from: Activity) -> Option<Activity> {
        match (self, from) {
            (Self::Pause { .. }, Activity::Active) => Some(Activity::Paused),
            (Self::Drain, Activity::Active | Activity::Paused) => Some(Activity::Draining),
            (Self::Resume, Activity::Paused | Activity::Draining | Activity::Drained) => {
                Some(Activity::Active)
            }
            _ => None,
        }
    }

    pub(crate) fn until(self) -> Option<Timestamp> {
        if let Self::Pause { until } = self { until } else { None }
    }
}

/// A pause, a drain, or its end.
#[derive(Clone, Debug)]
pub(crate) struct SwitchOrder {
    pub application: String,
    pub scope: Scope,
    pub verb: SwitchVerb,
    pub by: Attribution,
}

/// The answer to a [`SwitchOrder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switched {
    Done,
    /// Its state, which needs no change.
    Already(Activity),
    /// There is no such job or application, or the node has ended.
    Unknown,
}

/// The row of a job, a node or an application as it was seen: what its guard compares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenSwitch {
    pub row: SwitchRow,
    pub state: String,
    /// Since when it is paused.
    pub since: Option<Timestamp>,
}

/// Which row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SwitchRow {
    /// By its id, and its name for people.
    Job(JobId, String),
    Node(NodeId),
    Application(String),
}

impl SwitchRow {
    pub(crate) fn is_job(&self) -> bool {
        matches!(self, Self::Job(..))
    }

    /// What people are told: what kind of thing it is, and its name.
    pub(crate) fn called(&self) -> (&'static str, String) {
        match self {
            Self::Job(_, name) => ("job", name.clone()),
            Self::Node(id) => ("node", id.to_string()),
            Self::Application(name) => ("application", name.clone()),
        }
    }
}

impl SeenSwitch {
    pub(crate) fn switch(&self) -> Activity {
        Activity::read(&self.state, self.row.is_job())
    }

    /// How its change is recorded.
    pub(crate) fn entry(
        &self,
        application: &str,
        verb: &'static str,
        becomes: Activity,
        by: &Attribution,
    ) -> AuditEntry {
        let (target_type, target) = self.row.called();
        let states = (self.switch().as_str(), becomes.as_str());
        let entry = AuditEntry::of_schedule(verb, (application, ""), states, by);
        AuditEntry { target_type, target, ..entry }
    }
}

/// The change of a state, with what it says of the pause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SwitchChange {
    /// The guard: the row must still be as it was seen.
    pub seen: SeenSwitch,
    pub becomes: Activity,
    pub by: String,
    pub reason: String,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl SwitchChange {
    /// Switches it on: ends its pause or its drain.
    pub(crate) fn on(seen: SeenSwitch) -> Self {
        let (by, reason) = (String::new(), String::new());
        Self { seen, becomes: Activity::Active, by, reason, since: None, until: None }
    }

    /// What an order makes of the row; nothing if that needs no change.
    pub(crate) fn of(order: &SwitchOrder, seen: SeenSwitch, now: Timestamp) -> Option<Self> {
        let becomes = order.verb.leads(seen.switch())?;
        if becomes == Activity::Active {
            return Some(Self::on(seen));
        }
        let Attribution { actor: by, reason } = order.by.clone();
        Some(Self { seen, becomes, by, reason, since: Some(now), until: order.verb.until() })
    }
}

/// A pause whose time is up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EndedPause {
    Schedule(Box<Entry>),
    Switch(SeenSwitch),
}

/// What a job's or an application's pause held back: its active schedules that were due before an instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PassedQuery {
    pub application: String,
    /// Only of this job.
    pub job: Option<String>,
    pub before: Timestamp,
    pub limit: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_the_state_is_a_change() {
        use Activity::{Active, Drained, Draining, Paused};
        let leads = |verb: SwitchVerb| Activity::ALL.map(|from| verb.leads(from));
        assert_eq!(leads(SwitchVerb::Pause { until: None }), [Some(Paused), None, None, None]);
        assert_eq!(leads(SwitchVerb::Drain), [Some(Draining), Some(Draining), None, None]);
        assert_eq!(leads(SwitchVerb::Resume), [None, Some(Active), Some(Active), Some(Active)]);
        for of_job in [false, true] {
            assert_eq!(
                [Active, Paused].map(|it| Activity::read(it.stored(of_job), of_job)),
                [Active, Paused]
            );
            assert_eq!(Activity::read("?", of_job), Paused);
        }
        assert_eq!(
            [Draining, Drained].map(|it| Activity::read(it.stored(false), false)),
            [Draining, Drained]
        );
    }
}
