//! The definition of a schedule by a client, and its difference from the row as it is.

use super::audit::{Attribution, AuditEntry, EDIT, ENSURE, SYNC};
use super::columns::{Cell, LARGEST_PAYLOAD, LONGEST_STREAK, Ownership, Settings, Spec, When};
use super::when::{self, Present};
use super::withdrawn::{OldPlan, Withdrawal};
#[cfg(feature = "sql")]
use crate::domain::ExecutionId;
use crate::domain::{
    Cursor, DEFAULT_PRIORITY, Difference, FieldSet, JobId, JobPolicy, JobSpec, Millis, MisfirePolicy,
    NextFire, Overlap, PauseAfter, Reason, ScheduleField, ScheduleId, ScheduleState, Timestamp,
};
use crate::store::columns::NO_TIME;
use crate::time::Window;
use crate::trigger::{Timing, Trigger, TriggerError};

/// What a client wants a schedule to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub application: String,
    pub name: String,
    pub job: JobSpec,
    pub payload: String,
    /// A simple trigger without a start is anchored at the row's creation.
    pub trigger: Trigger,
    /// The window the schedule is kept to, both inclusive.
    pub start: Option<Timestamp>,
    pub end: Option<Timestamp>,
    pub priority: i32,
    pub misfire: MisfirePolicy,
    pub threshold: Millis,
    /// How long a handler may take; none as its job says.
    pub time_limit: Option<Millis>,
    /// What becomes of occurrences that would overlap; none as its trigger has it.
    pub overlap: Option<Overlap>,
    pub pause_after: PauseAfter,
    /// How long after its fire time an occurrence is to have succeeded; none if nobody waits for it.
    pub expected_by: Option<Millis>,
    /// For people.
    pub description: String,
    /// Which row it may change.
    pub only_if: OnlyIf,
    pub author: Author,
    /// Who defines it, and why: recorded if something changes.
    pub by: Attribution,
}

/// Who defines a schedule, which decides whose its fields are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Author {
    /// Code, for this schedule alone: what an operator has changed of one with an owner stays.
    #[default]
    Code,
    /// The code in which all schedules of this owner live: what an operator has changed stays.
    Owner(String),
    /// An operator: what this changes of a schedule with an owner is the operator's from now on, but for
    /// these fields, which its owner's code may set again.
    Hand { gives_back: FieldSet },
}

impl Author {
    /// The verb under which a change is recorded.
    fn verb(&self) -> &'static str {
        match self {
            Self::Code => ENSURE,
            Self::Owner(_) => SYNC,
            Self::Hand { .. } => EDIT,
        }
    }

    /// Whose a new schedule is.
    pub(crate) fn ownership(&self) -> Ownership {
        if let Self::Owner(owner) = self { Ownership::of(owner) } else { Ownership::NOBODYS }
    }
}

/// The row that a definition may change: another one stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnlyIf {
    #[default]
    Any,
    /// None, or a removed one.
    New,
    /// One that was not removed, of this version.
    Version(i64),
}

impl OnlyIf {
    /// Whether the row there is may be changed; of a name without one, whether it may be made.
    pub(crate) fn admits(self, stored: Option<&StoredSchedule>) -> bool {
        let stored = stored.filter(|stored| !stored.is_removed());
        match self {
            Self::Any => true,
            Self::New => stored.is_none(),
            Self::Version(version) => stored.is_some_and(|stored| stored.version == version),
        }
    }
}

impl Definition {
    /// A schedule with this name, job and trigger, and all else by default.
    pub(crate) fn new(name: &str, job: &str, trigger: Trigger) -> Self {
        Self {
            application: String::new(),
            name: name.to_owned(),
            job: JobSpec::new(job, JobPolicy::DEFAULT),
            payload: "null".to_owned(),
            trigger,
            start: None,
            end: None,
            priority: DEFAULT_PRIORITY,
            misfire: MisfirePolicy::FireOnce,
            threshold: Window::default().threshold,
            time_limit: None,
            overlap: None,
            pause_after: PauseAfter::default(),
            expected_by: None,
            description: String::new(),
            only_if: OnlyIf::Any,
            author: Author::Code,
            by: Attribution::default(),
        }
    }

    /// A schedule as these columns of its row have it, with this trigger, which has no window. What a column
    /// does not say, or in a word that is none, is by default.
    pub(crate) fn stored(name: &str, job: &str, settings: &Settings, trigger: Trigger) -> Self {
        let default = Self::new(name, job, trigger);
        let priority = settings.priority.and_then(|priority| i32::try_from(priority).ok());
        let pause_after = settings.pause_after.and_then(|count| u32::try_from(count).ok());
        Self {
            payload: settings.payload.to_string(),
            priority: priority.unwrap_or(default.priority),
            misfire: settings.misfire.parse().unwrap_or(default.misfire),
            threshold: settings.threshold.unwrap_or(default.threshold),
            time_limit: settings.time_limit,
            overlap: settings.overlap.parse().ok(),
            pause_after: PauseAfter::of(pause_after),
            expected_by: settings.expected_by,
            description: settings.description.to_string(),
            ..default
        }
    }

    /// Why it cannot be stored.
    pub(crate) fn check(&self) -> Result<(), String> {
        let limits = [
            ("application", &self.application, 50),
            ("schedule", &self.name, 200),
            ("job", &self.job.name, 200),
        ];
        for (what, text, limit) in limits {
            let length = text.chars().count();
            if length == 0 || length > limit || text.contains('\0') {
                return Err(format!(
                    "the {what}'s name has {length} characters: 1 to {limit} are possible, none of them NUL"
                ));
            }
        }
        let bytes = self.payload.len();
        if bytes > LARGEST_PAYLOAD {
            return Err(format!(
                "the payload has {bytes} bytes of JSON, {LARGEST_PAYLOAD} are possible: store the data \
                 elsewhere and let the payload hold its key"
            ));
        }
        if let Some(count) = self.pause_after.column().filter(|count| i64::from(*count) > LONGEST_STREAK) {
            return Err(format!(
                "its pause_after is {count}: 1 to {LONGEST_STREAK} occurrences in a row are possible, or 0 \
                 for never"
            ));
        }
        self.settings(JobId(0)).check()
    }

    /// The trigger within its window, for a row that is made at `now`.
    pub(crate) fn timing(&self, now: Timestamp) -> Result<Timing, TriggerError> {
        let anchor = if self.is_anchored() { None } else { Some(now) };
        Timing::new(
            self.trigger.clone(),
            self.start.or(anchor).map(Timestamp::millis),
            self.end.map(Timestamp::millis),
        )
    }

    /// The columns of its row, but for its trigger's, if its job's row is this.
    pub(crate) fn settings(&self, job: JobId) -> Settings {
        Settings {
            job: Some(job.0),
            payload: self.payload.as_str().into(),
            priority: Some(self.priority.into()),
            misfire: self.misfire.as_str().to_owned(),
            threshold: Some(self.threshold),
            description: self.description.as_str().into(),
            time_limit: self.time_limit,
            overlap: self.overlap().word().into_owned(),
            pause_after: self.pause_after.column().map(i64::from),
            expected_by: self.expected_by,
        }
    }

    /// Its own rule, or that of what recurs or fires once.
    pub(crate) fn overlap(&self) -> Overlap {
        let recurs = match &self.trigger {
            Trigger::Cron(_) | Trigger::Delay(_) => true,
            Trigger::Simple(simple) => simple.repeat_count() != Some(0),
        };
        self.overlap.unwrap_or(if recurs { Overlap::Skip } else { Overlap::Allow })
    }

    /// Whether it says by itself when its trigger starts.
    pub(crate) fn is_anchored(&self) -> bool {
        match &self.trigger {
            Trigger::Simple(_) | Trigger::Delay(_) => {
                self.trigger.start_ms().is_some() || self.start.is_some()
            }
            Trigger::Cron(_) => true,
        }
    }
}

/// What `ensure` came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ensured {
    /// The schedule is new, or was made again after its removal.
    Created,
    /// It was already exactly so; nothing was written.
    Unchanged,
    /// It differed and was changed; its next fire time was recomputed only if its trigger changed.
    Changed,
    /// It is in ERROR (its row could not be understood or claimed) and fires nothing; what differed was
    /// changed. [`Client::schedules`](crate::Client::schedules) says why. Another trigger begins it anew.
    Quarantined,
    /// It is not so, and not the row that the request may change: nothing was changed.
    Differs,
}

/// What a transaction of the caller's is spared or cannot see, made and read outside of it.
#[cfg(feature = "sql")]
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// The job's row. One that the caller's transaction made would hold up every node with that job.
    pub job: JobId,
    /// The mark above which the fences of a new schedule begin.
    pub fence_from: i64,
    /// The PENDING executions, if the schedule was removed.
    pub waiting: Vec<ExecutionId>,
}

/// A definition worked out for the present, as the columns of its row.
#[derive(Debug)]
pub(crate) struct WorkedOut<'a> {
    pub definition: &'a Definition,
    pub timing: Timing,
    pub when: When,
    pub present: Present,
}

/// A schedule's row as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredSchedule {
    pub state: String,
    pub version: i64,
    pub generation: i64,
    pub prev: Option<Timestamp>,
    pub next: Option<Timestamp>,
    pub settings: Settings,
    pub when: When,
    pub ownership: Ownership,
}

/// What a definition makes of the columns of a row, beside its cursor and its state.
#[derive(Clone, Debug)]
pub(crate) struct Becomes {
    pub settings: Settings,
    pub ownership: Ownership,
    /// Its trigger is another.
    pub retimes: bool,
}

/// A schedule's definition as people see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described<'a> {
    pub job: &'a str,
    pub settings: &'a Settings,
    pub when: &'a When,
}

impl Described<'_> {
    /// The fields that another definition has otherwise. Where anybody may anchor its trigger, its start is
    /// none of them.
    pub(crate) fn differences(&self, becomes: &Self, is_anchored: bool) -> Vec<Difference> {
        let both = self.fields().into_iter().zip(becomes.fields());
        let differing = both.filter(|((name, was), (_, is))| was != is && (is_anchored || *name != "starts"));
        differing.map(|((name, was), (_, is))| Difference::new(name, was, is)).collect()
    }

    fn fields(&self) -> [(&'static str, String); 13] {
        let Self { job, settings, when } = self;
        let timing = when.timing().ok();
        let instant = |of: fn(&Timing) -> Option<Timestamp>| {
            let at = timing.as_ref().and_then(of).and_then(Timestamp::utc);
            at.map_or_else(String::new, |at| at.to_string())
        };
        let span = |span: Option<Millis>| span.map_or_else(String::new, |span| format!("{span} ms"));
        let count = |count: Option<i64>| count.map_or_else(String::new, |count| count.to_string());
        [
            ("job", (*job).to_owned()),
            ("trigger", when.describe()),
            ("starts", instant(Timing::start)),
            ("ends", instant(Timing::end)),
            ("payload", settings.payload.to_string()),
            ("description", settings.description.to_string()),
            ("priority", count(settings.priority)),
            ("misfire", settings.misfire.clone()),
            ("misfire_threshold", span(settings.threshold)),
            ("time_limit", span(settings.time_limit)),
            ("overlap", settings.overlap.clone()),
            ("pause_after", count(settings.pause_after)),
            ("expected_by", span(settings.expected_by)),
        ]
    }
}

impl StoredSchedule {
    pub(crate) fn is_removed(&self) -> bool {
        self.state == ScheduleState::Removed.stored()
    }

    /// What is planned of it; the row has this id.
    pub(crate) fn plan(&self, id: ScheduleId) -> OldPlan<'_> {
        let Self { state, generation, prev, next, when, .. } = self;
        OldPlan { id, state, generation: *generation, prev: *prev, next: *next, when }
    }
}

/// A row with another trigger, or a new one: where its cursor stands, and its state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedRow {
    pub cursor: Cursor,
    pub state: String,
}

/// What an `ensure` writes into a row that is there.
#[derive(Debug)]
pub(crate) enum Edit {
    /// Nothing.
    None,
    /// The settings alone: the cursor stays.
    Settings,
    /// Another trigger too, in a generation of its own.
    Retime(PlannedRow),
}

impl WorkedOut<'_> {
    /// The row it makes if there is none; an error if that could never fire.
    pub(crate) fn created(&self) -> Result<PlannedRow, String> {
        let cursor = when::planned(&self.timing, None, self.present);
        if cursor == (Cursor { prev: None, next: NextFire::Never }) {
            return Err("its trigger has no fire time from now on".to_owned());
        }
        Ok(PlannedRow { state: state_at(cursor.next).stored().to_owned(), cursor })
    }

    /// What it makes of the columns of the row there is, beside its trigger: the settings are its own.
    pub(crate) fn becomes(&self, stored: &StoredSchedule, settings: Settings) -> Becomes {
        let kept = match self.definition.author {
            Author::Hand { .. } => FieldSet::default(),
            _ if stored.is_removed() => FieldSet::default(),
            Author::Code | Author::Owner(_) => stored.ownership.by_hand(),
        };
        let has_trigger = stored.when.same(&self.when, self.definition.is_anchored());
        let retimes = !has_trigger && !kept.has(ScheduleField::Trigger);
        let settings = settings.keeping(&kept, &stored.settings);
        let ownership = self.ownership(stored, &settings, retimes);
        Becomes { settings, ownership, retimes }
    }

    /// Whose the row's fields are afterwards.
    fn ownership(&self, stored: &StoredSchedule, settings: &Settings, retimes: bool) -> Ownership {
        let author = &self.definition.author;
        if stored.is_removed() {
            return author.ownership();
        }
        let is_owned = stored.ownership.owner.is_some();
        match author {
            Author::Owner(owner) if !is_owned => Ownership::of(owner),
            Author::Hand { gives_back } if is_owned => {
                let trigger = retimes.then_some(ScheduleField::Trigger);
                let changed = settings.differing(&stored.settings).chain(trigger);
                let by_hand: FieldSet = stored.ownership.by_hand().iter().chain(changed).collect();
                Ownership { by_hand: by_hand.without(gives_back).text(), ..stored.ownership.clone() }
            }
            Author::Code | Author::Owner(_) | Author::Hand { .. } => stored.ownership.clone(),
        }
    }

    /// What it makes of the row there is, whose columns become these.
    pub(crate) fn edit(&self, stored: &StoredSchedule, becomes: &Becomes) -> Result<(Edit, Ensured), String> {
        let is_broken = stored.state == ScheduleState::Error.stored();
        let stays_broken = is_broken && !becomes.retimes;
        let is_so = stored.settings == becomes.settings && stored.ownership == becomes.ownership;
        if is_so && !becomes.retimes && !stored.is_removed() {
            return Ok((Edit::None, if stays_broken { Ensured::Quarantined } else { Ensured::Unchanged }));
        }
        if !self.definition.only_if.admits(Some(stored)) {
            return Ok((Edit::None, Ensured::Differs));
        }
        for (column, value) in [("version", stored.version), ("generation", stored.generation)] {
            when::count(column, value)?;
        }
        if stored.is_removed() {
            return Ok((Edit::Retime(self.remade(stored)), Ensured::Created));
        }
        let edit = match becomes.retimes {
            true => Edit::Retime(self.retimed(stored, is_broken)),
            false => Edit::Settings,
        };
        Ok((edit, if stays_broken { Ensured::Quarantined } else { Ensured::Changed }))
    }

    /// What the edit of a row withdraws: of another trigger, what was due by the old one.
    pub(crate) fn withdrawal(
        &self,
        id: ScheduleId,
        stored: &StoredSchedule,
        edit: &Edit,
    ) -> Option<Withdrawal> {
        match edit {
            Edit::Retime(_) => stored.plan(id).withdrawn(Reason::Edited, self.present.now),
            Edit::None | Edit::Settings => None,
        }
    }

    /// How its creation is recorded.
    pub(crate) fn creation(&self) -> AuditEntry {
        let owner = match &self.definition.author {
            Author::Owner(owner) => format!(", owner {owner:?}"),
            Author::Code | Author::Hand { .. } => String::new(),
        };
        self.recorded("", &format!("{}, job {:?}{owner}", self.when.describe(), self.definition.job.name))
    }

    /// How what it makes of the row there is is recorded: the columns that differ, as they were and are.
    pub(crate) fn difference(&self, stored: &StoredSchedule, becomes: &Becomes) -> AuditEntry {
        let differing = |columns: &[Spec], was: Vec<Cell>, is: Vec<Cell>| {
            let both = columns.iter().zip(was.into_iter().zip(is)).filter(|(_, (was, is))| was != is);
            both.map(|(column, (was, is))| {
                (format!("{}={was}", column.name), format!("{}={is}", column.name))
            })
            .collect::<Vec<_>>()
        };
        let owner = differing(Ownership::COLUMNS, stored.ownership.cells(), becomes.ownership.cells());
        let settings = differing(Settings::COLUMNS, stored.settings.cells(), becomes.settings.cells());
        let trigger = becomes.retimes.then(|| (stored.when.describe(), self.when.describe()));
        let trigger_field = becomes.retimes.then_some(ScheduleField::Trigger);
        let all = trigger.into_iter().chain(settings).chain(owner);
        let (was, is): (Vec<String>, Vec<String>) = all.unzip();
        AuditEntry {
            fields: stored.settings.differing(&becomes.settings).chain(trigger_field).collect(),
            ..self.recorded(&was.join(", "), &is.join(", "))
        }
    }

    fn recorded(&self, was: &str, became: &str) -> AuditEntry {
        let Definition { application, name, by, author, .. } = self.definition;
        AuditEntry::of_schedule(author.verb(), (application, name), (was, became), by)
    }

    /// A removed schedule that is made again plans as a new one does, behind what it has fired.
    fn remade(&self, stored: &StoredSchedule) -> PlannedRow {
        let prev = stored.prev.filter(|prev| *prev != NO_TIME && *prev <= self.present.now);
        let cursor = when::planned(&self.timing, prev, self.present);
        PlannedRow { state: state_at(cursor.next).stored().to_owned(), cursor }
    }

    /// A new trigger plans anew; a pause stays a pause. The last fire time of a broken row is not believed.
    fn retimed(&self, stored: &StoredSchedule, is_broken: bool) -> PlannedRow {
        let prev = stored.prev.filter(|prev| *prev != NO_TIME && !is_broken);
        let cursor = self.awaited(stored, prev, is_broken);
        let cursor = cursor.unwrap_or_else(|| when::planned(&self.timing, prev, self.present));
        let kept = [ScheduleState::Paused.stored(), ScheduleState::Init.stored()];
        let keeps = cursor.next != NextFire::Never && kept.contains(&stored.state.as_str());
        let state = if keeps { stored.state.clone() } else { state_at(cursor.next).stored().to_owned() };
        PlannedRow { cursor, state }
    }

    /// The cursor of a run that is under way, whose end says when the next is, as it did by the old trigger.
    fn awaited(&self, stored: &StoredSchedule, prev: Option<Timestamp>, is_broken: bool) -> Option<Cursor> {
        let follows = prev.is_some_and(|prev| self.timing.behind_run(prev) == NextFire::AfterRun);
        let awaits = NextFire::stored(stored.next) == NextFire::AfterRun && follows && !is_broken;
        awaits.then_some(Cursor { prev, next: NextFire::AfterRun })
    }
}

fn state_at(next: NextFire) -> ScheduleState {
    if next == NextFire::Never { ScheduleState::Complete } else { ScheduleState::Active }
}
