//! Pages of schedules: which are asked for, in which order, and how far a page looks.

use super::listing::ScheduleRow;
use crate::domain::{ScheduleState, Timestamp};

/// Where schedules are looked for, and their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// All, by name.
    All,
    /// Those in ERROR, or those that are PAUSED, by name.
    InState(ScheduleState),
    /// The active ones of these jobs, by name.
    ActiveOf(Vec<String>),
    /// Those of which an occurrence has not succeeded in time, by name.
    Unmet,
    /// These, by name.
    Ids(Vec<i64>),
    /// The active ones of these jobs, if the jobs are active, that fire at or after `from` and before
    /// `until`: the earliest first.
    Due { jobs: Vec<String>, from: Timestamp, until: Timestamp },
}

/// Where a schedule stands in a page's order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScheduleKey {
    Name(String),
    Due(Timestamp, i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleQuery {
    pub application: String,
    pub among: Among,
    /// With this text in the name, the job's name or the description, in any case.
    pub text: Option<String>,
    pub job: Option<String>,
    pub owner: Option<String>,
    pub state: Option<ScheduleState>,
    pub paused_by: Option<&'static str>,
    /// What follows this.
    pub after: Option<ScheduleKey>,
    /// At most so many.
    pub limit: usize,
    /// At most so many are looked at.
    pub look: usize,
}

/// A page of schedules.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SchedulePage {
    pub rows: Vec<ScheduleRow>,
    /// Behind what the next page begins; none if there is none.
    pub next: Option<ScheduleKey>,
    /// How many were looked at.
    pub looked: usize,
}

/// What of a schedule decides whether it is on a page, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleSketch {
    pub id: i64,
    pub name: String,
    /// Empty if somebody deleted the job.
    pub job: String,
    pub state: String,
    pub paused_by: String,
    pub description: String,
    pub owner: Option<String>,
    pub next: Option<Timestamp>,
}

impl ScheduleQuery {
    /// Whether a schedule is what is asked for, apart from where it is looked for.
    pub(crate) fn admits(&self, it: &ScheduleSketch) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        let has = |text: &String| {
            let text = text.to_lowercase();
            [&it.name, &it.job, &it.description].iter().any(|part| part.to_lowercase().contains(&text))
        };
        is(&self.job, &it.job)
            && is(&self.owner, it.owner.as_deref().unwrap_or_default())
            && self.state.is_none_or(|state| state.stored() == it.state)
            && self.paused_by.is_none_or(|by| by == it.paused_by)
            && self.text.as_ref().is_none_or(has)
            && match &self.among {
                Among::ActiveOf(jobs) => it.state == ScheduleState::Active.stored() && jobs.contains(&it.job),
                Among::InState(state) => it.state == state.stored(),
                Among::All | Among::Unmet | Among::Ids(_) | Among::Due { .. } => true,
            }
    }

    /// Where it stands in the order of what is asked for.
    pub(crate) fn key(&self, it: &ScheduleSketch) -> ScheduleKey {
        match self.among {
            Among::Due { .. } => ScheduleKey::Due(it.next.unwrap_or(Timestamp::MIN), it.id),
            _ => ScheduleKey::Name(it.name.clone()),
        }
    }
}
