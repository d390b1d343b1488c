//! Jobs, nodes and applications that somebody pauses, drains or resumes.

use super::audit::{Attribution, AuditEntry};
use crate::domain::{Entry, JobId, NodeId, ScheduleState, Timestamp};

/// What a pause holds back, beside a single schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Job(String),
    Node(NodeId),
    Application,
}

/// The state of a job, a node or an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
    /// A node that hands back what waits and ends what runs.
    Draining,
    /// A node with nothing left.
    Drained,
}

impl Switch {
    const ALL: [Self; 4] = [Self::On, Self::Off, Self::Draining, Self::Drained];

    /// The word in the row's state column.
    pub(crate) fn word(self, of_job: bool) -> &'static str {
        match self {
            Self::On if of_job => ScheduleState::Active.as_str(),
            Self::Off if of_job => ScheduleState::Paused.as_str(),
            Self::On => "Y",
            Self::Off => "N",
            Self::Draining => "D",
            Self::Drained => "E",
        }
    }

    /// A word that is none of ours keeps everything from being claimed, as a pause does.
    pub(crate) fn read(word: &str, of_job: bool) -> Self {
        Self::ALL.into_iter().find(|it| it.word(of_job) == word).unwrap_or(Self::Off)
    }

    /// What people are told.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::On => "active",
            Self::Off => "paused",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
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
    pub(crate) fn leads(self, from: Switch) -> Option<Switch> {
        match (self, from) {
            (Self::Pause { .. }, Switch::On) => Some(Switch::Off),
            (Self::Drain, Switch::On | Switch::Off) => Some(Switch::Draining),
            (Self::Resume, Switch::Off | Switch::Draining | Switch::Drained) => Some(Switch::On),
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
    Already(Switch),
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
    pub(crate) fn switch(&self) -> Switch {
        Switch::read(&self.state, self.row.is_job())
    }

    /// How its change is recorded.
    pub(crate) fn entry(
        &self,
        application: &str,
        verb: &'static str,
        becomes: Switch,
        by: &Attribution,
    ) -> AuditEntry {
        let (target_type, target) = self.row.called();
        let states = (self.switch().label(), becomes.label());
        let entry = AuditEntry::of_schedule(verb, (application, ""), states, by);
        AuditEntry { target_type, target, ..entry }
    }
}

/// The change of a state, with what it says of the pause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SwitchChange {
    /// The guard: the row must still be as it was seen.
    pub seen: SeenSwitch,
    pub becomes: Switch,
    pub by: String,
    pub reason: String,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl SwitchChange {
    /// Switches it on: ends its pause or its drain.
    pub(crate) fn on(seen: SeenSwitch) -> Self {
        let (by, reason) = (String::new(), String::new());
        Self { seen, becomes: Switch::On, by, reason, since: None, until: None }
    }

    /// What an order makes of the row; nothing if that needs no change.
    pub(crate) fn of(order: &SwitchOrder, seen: SeenSwitch, now: Timestamp) -> Option<Self> {
        let becomes = order.verb.leads(seen.switch())?;
        if becomes == Switch::On {
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
        use Switch::{Drained, Draining, Off, On};
        let leads = |verb: SwitchVerb| Switch::ALL.map(|from| verb.leads(from));
        assert_eq!(leads(SwitchVerb::Pause { until: None }), [Some(Off), None, None, None]);
        assert_eq!(leads(SwitchVerb::Drain), [Some(Draining), Some(Draining), None, None]);
        assert_eq!(leads(SwitchVerb::Resume), [None, Some(On), Some(On), Some(On)]);
        for of_job in [false, true] {
            assert_eq!([On, Off].map(|it| Switch::read(it.word(of_job), of_job)), [On, Off]);
            assert_eq!(Switch::read("?", of_job), Off);
        }
        assert_eq!([Draining, Drained].map(|it| Switch::read(it.word(false), false)), [Draining, Drained]);
    }
}
