//! A sync: the schedules of an owner become those that its code lists, in one transaction.

use std::collections::HashMap;
#[cfg(feature = "sql")]
use std::collections::HashSet;
use std::fmt;

use chrono::{DateTime, Utc};

use super::audit::Attribution;
use super::columns::{NO_TIME, NONE, Ownership};
use super::definition::{Described, Edit, StoredSchedule, WorkedOut};
use super::when::{self, Present};
use super::withdrawn::Withdrawal;
use crate::domain::{Difference, Error, ErrorKind, JobId, Reason, ScheduleId, Timestamp};
use crate::store::{Definition, Ensured, ScheduleRow, SeenSchedule};

/// The schedules that an owner's code lists.
#[derive(Clone, Debug)]
pub(crate) struct SyncOrder {
    pub application: String,
    pub owner: String,
    pub revision: i64,
    /// Each name once; their author is the owner.
    pub definitions: Vec<Definition>,
    /// Those that are nobody's are taken over.
    pub adopts: bool,
    pub by: Attribution,
}

/// What is known of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerRow {
    pub owner: String,
    /// The highest revision of its code that has synced.
    pub revision: i64,
    /// When its schedules, or that, were written last, and by whom.
    pub synced: Timestamp,
    pub actor: String,
}

/// A schedule's row that a sync may change.
#[derive(Clone, Debug)]
pub(crate) struct SyncRow {
    pub id: ScheduleId,
    pub name: String,
    /// Its job's name.
    pub job: String,
    pub stored: StoredSchedule,
}

/// As it is listed: without the generation, which no decision rests on.
impl From<ScheduleRow> for SyncRow {
    fn from(row: ScheduleRow) -> Self {
        let ScheduleRow { id, name, job, state, settings, when, prev, next, version, ownership, .. } = row;
        let stored = StoredSchedule { state, version, generation: 0, prev, next, settings, when, ownership };
        Self { id: ScheduleId(id), name, job, stored }
    }
}

impl SyncRow {
    /// What its removal would withdraw now.
    pub(crate) fn removal(&self, now: Timestamp) -> Option<Withdraws> {
        let withdrawal = self.stored.plan(self.id).withdrawn(Reason::Removed, now);
        withdrawal.as_ref().and_then(Withdraws::of)
    }

    /// The row, for the guard of its removal.
    pub(crate) fn seen(&self) -> SeenSchedule {
        let StoredSchedule { version, ref state, next, .. } = self.stored;
        let next = next.filter(|next| *next != NO_TIME);
        SeenSchedule { id: self.id, version, state: state.clone(), next }
    }
}

/// What a sync came to, or would.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SyncAnswer {
    /// The highest revision that was known before.
    pub known: Option<i64>,
    /// By name.
    pub schedules: Vec<SyncedSchedule>,
}

impl SyncOrder {
    /// Whether a higher revision is known: then nothing is written.
    pub(crate) fn is_stale(&self, known: Option<i64>) -> bool {
        known.is_some_and(|known| known > self.revision)
    }

    /// Whether nothing has to be written.
    pub(crate) fn needs_nothing(&self, planned: &SyncAnswer) -> bool {
        let is_so = planned.schedules.iter().all(|schedule| !schedule.step.writes());
        let is_refused = self.refusal(&planned.schedules).is_err();
        self.is_stale(planned.known) || (is_so && !is_refused && planned.known == Some(self.revision))
    }

    /// The definitions of schedules that are written.
    #[cfg(feature = "sql")]
    pub(crate) fn written<'a>(&'a self, answer: &'a SyncAnswer) -> impl Iterator<Item = &'a Definition> {
        let written = answer.schedules.iter().filter(|schedule| schedule.step.writes());
        let written: HashSet<&str> = written.map(|schedule| &*schedule.name).collect();
        self.definitions.iter().filter(move |definition| written.contains(&*definition.name))
    }

    /// Why its definitions cannot be stored.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let check = |definition: &Definition| definition.check().map_err(|text| senseless(definition, &text));
        self.definitions.iter().try_for_each(check)
    }

    /// What becomes of the rows that are there: those of the owner, and those that are named.
    pub(crate) fn steps(
        &self,
        wanted: &[WorkedOut<'_>],
        rows: &[SyncRow],
        now: Timestamp,
    ) -> Result<Vec<SyncedSchedule>, Problem> {
        let mut rest: HashMap<&str, &SyncRow> = rows.iter().map(|row| (&*row.name, row)).collect();
        let mut schedules = Vec::with_capacity(rows.len());
        for wanted in wanted {
            schedules.push(self.step(wanted, rest.remove(&*wanted.definition.name))?);
        }
        let owned = rest.into_values().filter(|row| self.owns(row));
        schedules.extend(owned.map(|row| removal(row, now)));
        schedules.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(schedules)
    }

    /// Why the sync is refused, if it is.
    pub(crate) fn refusal(&self, schedules: &[SyncedSchedule]) -> Result<(), Problem> {
        for SyncedSchedule { name, step, .. } in schedules {
            let text = match step {
                SyncStep::OfOther { owner } => format!(
                    "schedule {name:?} belongs to {owner:?}: give yours another name, or let that owner sync \
                     a list without it first"
                ),
                SyncStep::OfNobody => format!(
                    "schedule {name:?} is there and belongs to no owner, as one that was ensured or added by \
                     hand: adopt() takes such schedules over"
                ),
                _ => continue,
            };
            return Err(Problem { is_of_row: false, text });
        }
        Ok(())
    }

    fn owns(&self, row: &SyncRow) -> bool {
        !row.stored.is_removed() && row.stored.ownership.owner.as_deref() == Some(&*self.owner)
    }

    fn step(&self, wanted: &WorkedOut<'_>, row: Option<&SyncRow>) -> Result<SyncedSchedule, Problem> {
        let name = wanted.definition.name.clone();
        let of = |step| SyncedSchedule { name, step, withdraws: None, kept: Vec::new() };
        let Some(row) = row.filter(|row| !row.stored.is_removed()) else {
            wanted.created().map_err(|text| senseless(wanted.definition, &text))?;
            return Ok(of(SyncStep::Created));
        };
        match &row.stored.ownership.owner {
            Some(owner) if *owner == self.owner => Ok(change(wanted, row)?.schedule),
            Some(owner) => Ok(of(SyncStep::OfOther { owner: owner.clone() })),
            None if self.adopts => Ok(change(wanted, row)?.schedule),
            None => Ok(of(SyncStep::OfNobody)),
        }
    }
}

/// Why a sync cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// A row is at fault, not the list.
    pub is_of_row: bool,
    pub text: String,
}

impl Problem {
    pub(crate) fn error(self) -> Error {
        let kind = if self.is_of_row { ErrorKind::Data } else { ErrorKind::Config };
        Error::new(kind, self.text)
    }
}

fn senseless(definition: &Definition, text: &str) -> Problem {
    Problem { is_of_row: false, text: format!("schedule {:?}: {text}", definition.name) }
}

/// What becomes of a row, and whose its fields are afterwards.
#[derive(Debug)]
pub(crate) struct PlannedEdit {
    pub schedule: SyncedSchedule,
    pub ownership: Ownership,
}

/// What an edit makes of a row, of which its definition has the fields that it does not name.
pub(crate) fn edited(definition: &Definition, row: &SyncRow, now: Timestamp) -> Result<PlannedEdit, Problem> {
    let senseless = |text: String| senseless(definition, &text);
    definition.check().map_err(senseless)?;
    let timing = definition.timing(now).map_err(|error| senseless(error.to_string()))?;
    let when = when::storable(&timing, now).map_err(senseless)?;
    change(&WorkedOut { definition, timing, when, present: Present::at(now) }, row)
}

/// What a definition makes of a row that is not removed.
fn change(wanted: &WorkedOut<'_>, row: &SyncRow) -> Result<PlannedEdit, Problem> {
    let (definition, stored) = (wanted.definition, &row.stored);
    let has_job = row.job == definition.job.name;
    // A job that is another may have no row yet.
    let job = if has_job { stored.settings.job.unwrap_or(NONE) } else { NONE };
    let settings = definition.settings(JobId(job));
    let becomes = wanted.becomes(stored, settings.clone());
    let unreadable = |text| Problem {
        is_of_row: true,
        text: format!("schedule {:?}: {text}: mend the row by hand", row.name),
    };
    let (edit, ensured) = wanted.edit(stored, &becomes).map_err(unreadable)?;
    let has_trigger = stored.when.same(&wanted.when, definition.is_anchored());
    let was = Described { job: &row.job, settings: &stored.settings, when: &stored.when };
    let listed = Described {
        job: &definition.job.name,
        settings: &settings,
        when: if has_trigger { &stored.when } else { &wanted.when },
    };
    let keeps_job = becomes.settings.job == stored.settings.job;
    let is = Described {
        job: if keeps_job { &row.job } else { &definition.job.name },
        settings: &becomes.settings,
        when: if becomes.retimes { &wanted.when } else { &stored.when },
    };
    let differences = was.differences(&is, definition.is_anchored());
    let by_hand = becomes.ownership.by_hand();
    let mut kept = was.differences(&listed, definition.is_anchored());
    kept.retain(|difference| by_hand.has(difference.part_of()));
    let is_adopted = becomes.ownership.owner != stored.ownership.owner;
    let step = match (&edit, ensured) {
        _ if is_adopted => SyncStep::Adopted { differences },
        (_, Ensured::Quarantined) => SyncStep::Quarantined { differences },
        (Edit::None, _) => SyncStep::Unchanged,
        (Edit::Settings | Edit::Retime(_), _) => SyncStep::Changed { differences },
    };
    let withdraws = wanted.withdrawal(row.id, stored, &edit).as_ref().and_then(Withdraws::of);
    let schedule = SyncedSchedule { name: row.name.clone(), step, withdraws, kept };
    Ok(PlannedEdit { schedule, ownership: becomes.ownership })
}

fn removal(row: &SyncRow, now: Timestamp) -> SyncedSchedule {
    let (name, withdraws) = (row.name.clone(), row.removal(now));
    SyncedSchedule { name, step: SyncStep::Removed, withdraws, kept: Vec::new() }
}

/// What a sync makes of a schedule. Answered by [`Client::sync`](crate::Client::sync).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncedSchedule {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub step: SyncStep,
    /// The occurrences that are due and not yet claimed, and that this ends.
    pub withdraws: Option<Withdraws>,
    /// The fields that stay as an operator has changed them: as they are, and as the list has them.
    pub kept: Vec<Difference>,
}

/// What becomes of a schedule in a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncStep {
    /// It is so already; nothing is written.
    Unchanged,
    /// It is made, or made again after its removal.
    Created,
    /// These fields become others.
    #[non_exhaustive]
    Changed {
        /// The fields that the list has otherwise, but for those that an operator has changed.
        differences: Vec<Difference>,
    },
    /// It was nobody's and is the owner's from now on; these fields become others.
    #[non_exhaustive]
    Adopted {
        /// The fields that the list has otherwise.
        differences: Vec<Difference>,
    },
    /// It is in ERROR and fires nothing, and stays so: another trigger begins it anew. These fields become
    /// others.
    #[non_exhaustive]
    Quarantined {
        /// The fields that the list has otherwise.
        differences: Vec<Difference>,
    },
    /// The list lacks it: it is removed.
    Removed,
    /// It belongs to another owner. The sync is refused.
    #[non_exhaustive]
    OfOther {
        /// Whose it is.
        owner: String,
    },
    /// It belongs to no owner, and the sync adopts none. The sync is refused.
    OfNobody,
}

impl SyncStep {
    /// Whether the schedule's row is written.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Unchanged | Self::OfOther { .. } | Self::OfNobody => false,
            Self::Quarantined { differences } => !differences.is_empty(),
            Self::Created | Self::Changed { .. } | Self::Adopted { .. } | Self::Removed => true,
        }
    }
}

/// Occurrences that were due and not yet claimed when another trigger, or a removal, ended what was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Withdraws {
    /// How many; of a cron trigger that is further behind, 100,000.
    pub count: u64,
    /// The first of their fire times.
    pub first: DateTime<Utc>,
    /// The last.
    pub last: DateTime<Utc>,
}

impl Withdraws {
    pub(crate) fn of(withdrawal: &Withdrawal) -> Option<Self> {
        Some(Self { count: withdrawal.count, first: withdrawal.from.utc()?, last: withdrawal.to.utc()? })
    }
}

/// For people: how many, and from when to when.
impl fmt::Display for Withdraws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |time: &DateTime<Utc>| time.format("%Y-%m-%d %H:%M:%S%.3f").to_string();
        match self.count {
            1 => write!(f, "1 due occurrence, of {} UTC", at(&self.first)),
            count => {
                write!(f, "{count} due occurrences, from {} to {} UTC", at(&self.first), at(&self.last))
            }
        }
    }
}
