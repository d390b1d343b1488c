//! The columns of the tables, once: names, what each may hold, and the rows they make up.
//!
//! [`Column`] names every column that a guard compares or a change assigns. [`Settings`] and [`When`] are the
//! columns that a schedule's definition sets: loading, inserting, updating, comparing, checking and the
//! search for unreadable rows go by these two lists. A column of these two is added here, in the migrations
//! and as a field of `Definition`, and nowhere else in `store/`. [`Ownership`] says whose these fields are.
//! [`JOB_COLUMNS`] has those of a job's settings: reading, inserting, guards and assignments go by it.

use std::sync::Arc;

use self::JobEntry::{Bound, Policy, Text};
use crate::domain::text::shortened;
use crate::domain::{
    Bounds, FieldSet, JobPolicy, JobSettings, Millis, MisfirePolicy, ScheduleField, ScheduleState, Timestamp,
};
use crate::time::{millis, span};

/// Defines an enum of things that SQL names; those of jobs' settings have their names from [`JobColumn`].
macro_rules! named {
    (
        $(#[$doc:meta])* $Name:ident, $of_job:path {
            $($(#[$item_doc:meta])* $variant:ident = $name:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum $Name { $($(#[$item_doc])* $variant,)* Job($crate::store::columns::JobColumn) }

        impl $Name {
            /// All but those of jobs' settings.
            #[allow(dead_code, reason = "tests alone list every column")]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// What SQL calls it.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Job(column) => $of_job(column) }
            }
        }
    };
}

pub(super) use named;

named! {
    /// A column of one of the tables.
    Column, JobColumn::name {
        Id = "id",
        Application = "application",
        State = "state",
        Reason = "reason",
        // Schedules.
        PrevFireTime = "prev_fire_time",
        NextFireTime = "next_fire_time",
        Version = "version",
        Generation = "generation",
        TimeTriggered = "time_triggered",
        PausedBy = "paused_by",
        PausedTime = "paused_time",
        PausedUntil = "paused_until",
        ResumedTime = "resumed_time",
        // Executions.
        ClaimToken = "claim_token",
        Node = "node",
        ClaimedTime = "claimed_time",
        StartedTime = "started_time",
        FinishedTime = "finished_time",
        Error = "error",
        DueTime = "due_time",
        Snoozes = "snoozes",
        ScheduledTime = "scheduled_time",
        Payload = "payload",
        Priority = "priority",
        GroupKey = "group_key",
        Lane = "lane",
        Tags = "tags",
        Headers = "headers",
        Checkpoint = "checkpoint",
        Result = "result",
        // Schedules with an expectation.
        UnmetTime = "unmet_time",
        // Jobs.
        UpdateTime = "update_time",
        NobodyTime = "nobody_time",
        NobodyTold = "nobody_told",
        // Nodes and applications.
        Uuid = "uuid",
        Beat = "beat",
        EndedTime = "ended_time",
        EndReason = "end_reason",
        TimeNext = "time_next",
        PauseEnds = "pause_ends",
    }
}

impl Column {
    /// `null`, for a column the caller has no value for. A guard that compares it would match no row, and a
    /// change that is never made would look like a lost one: in tests this is a panic.
    pub(crate) fn absent<T>(self, null: T) -> T {
        let in_a_test = cfg!(test);
        assert!(!in_a_test, "a guard compares {}, and there is no value for it", self.name());
        null
    }
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datum<'a> {
    Null,
    Number(i64),
    Text(&'a str),
    Uuid(uuid::Uuid),
}

impl Datum<'_> {
    /// An instant; -1 says none.
    pub(crate) fn time(time: Option<Timestamp>) -> Self {
        Datum::Number(time.map_or(NONE, Timestamp::millis))
    }

    pub(crate) fn instant(at: Timestamp) -> Self {
        Datum::Number(at.millis())
    }
}

impl<'a> From<&'a Cell> for Datum<'a> {
    fn from(cell: &'a Cell) -> Self {
        match cell {
            Cell::Int(value) => Self::Number(*value),
            Cell::Text(text) => Self::Text(text),
            Cell::Null | Cell::NoNumber => Self::Null,
        }
    }
}

/// A number; -1 where it is none.
pub(crate) fn number(value: Datum<'_>) -> i64 {
    if let Datum::Number(number) = value { number } else { NONE }
}

/// An instant; [`NO_TIME`] where it is none.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn instant(value: Datum<'_>) -> Timestamp {
    Timestamp::at(number(value))
}

/// A text; empty where it is none.
fn text(value: Datum<'_>) -> &str {
    if let Datum::Text(text) = value { text } else { "" }
}

/// A column of a job's settings: its place in [`JOB_COLUMNS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JobColumn(usize);

/// A column of a job's settings: its name in the table, the name under which a change brings its new value,
/// how it is read from them, and how what somebody stored is written into them.
enum JobEntry {
    Policy(&'static str, &'static str, fn(&JobPolicy) -> i64, fn(&mut JobPolicy, i64)),
    /// A column of the policy's bounds: polls read these alone.
    Bound(&'static str, &'static str, fn(&Bounds) -> i64, fn(&mut Bounds, i64)),
    /// A text beside the policy, for people.
    Text(&'static str, &'static str, fn(&JobSettings) -> &str, fn(&mut JobSettings, String)),
}

/// The columns of a job's settings, in the order in which statements name them.
const JOB_COLUMNS: [JobEntry; 14] = [
    Policy("recover", "to_recover", |it| it.recover.into(), |it, to| it.recover = to != 0),
    Policy(
        "max_attempts",
        "to_attempts",
        |it| it.max_attempts.into(),
        |it, to| it.max_attempts = count(to).max(1),
    ),
    Policy("max_retries", "to_retries", |it| it.retry.at_most.into(), |it, to| it.retry.at_most = count(to)),
    Policy("retry_delay", "to_delay", |it| millis(it.retry.first), |it, to| it.retry.first = span(to)),
    Policy("retry_cap", "to_cap", |it| millis(it.retry.cap), |it, to| it.retry.cap = span(to)),
    Policy(
        "retry_jitter",
        "to_jitter",
        |it| it.retry.jitter.into(),
        |it, to| it.retry.jitter = count(to).min(100),
    ),
    Policy(
        "time_limit",
        "to_limit",
        |it| it.time_limit.map_or(0, millis),
        |it, to| it.time_limit = (to > 0).then(|| span(to)),
    ),
    Bound(
        "concurrency",
        "to_concurrency",
        |it| or_none(it.job.concurrency),
        |it, to| it.job.concurrency = some(to),
    ),
    Bound(
        "rate_count",
        "to_rate_count",
        |it| it.job.rate.count.into(),
        |it, to| it.job.rate.count = count(to),
    ),
    Bound("rate_per", "to_rate_per", |it| it.job.rate.per, |it, to| it.job.rate.per = to.max(0)),
    Bound(
        "group_concurrency",
        "to_group_concurrency",
        |it| or_none(it.group.concurrency),
        |it, to| it.group.concurrency = some(to),
    ),
    Bound(
        "group_rate_count",
        "to_group_rate_count",
        |it| it.group.rate.count.into(),
        |it, to| it.group.rate.count = count(to),
    ),
    Bound(
        "group_rate_per",
        "to_group_rate_per",
        |it| it.group.rate.per,
        |it, to| it.group.rate.per = to.max(0),
    ),
    Text("description", "to_description", |it| &it.description, |it, to| it.description = to.into()),
];

fn or_none(count: Option<u32>) -> i64 {
    count.map_or(0, i64::from)
}

fn count(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

fn some(value: i64) -> Option<u32> {
    (value > 0).then(|| count(value))
}

impl JobColumn {
    /// All of them, in the order of their list.
    pub(crate) const ALL: [Self; JOB_COLUMNS.len()] = {
        let mut all = [Self(0); JOB_COLUMNS.len()];
        let mut place = 0;
        while place < all.len() {
            all[place] = Self(place);
            place += 1;
        }
        all
    };

    /// Those of its policy: repair reads these alone.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has columns"))]
    pub(crate) fn policy() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|column| !matches!(JOB_COLUMNS[column.0], Text(..)))
    }

    /// Those of its bounds.
    #[cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only a database has columns"))]
    pub(crate) fn bounds() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|column| matches!(JOB_COLUMNS[column.0], Bound(..)))
    }

    /// What SQL calls it.
    pub(crate) const fn name(self) -> &'static str {
        let (Policy(name, ..) | Bound(name, ..) | Text(name, ..)) = JOB_COLUMNS[self.0];
        name
    }

    /// What SQL calls the value that a change brings for it.
    pub(crate) const fn brought(self) -> &'static str {
        let (Policy(_, brought, ..) | Bound(_, brought, ..) | Text(_, brought, ..)) = JOB_COLUMNS[self.0];
        brought
    }

    /// What a job's settings say in it.
    pub(crate) fn value(self, of: &JobSettings) -> Datum<'_> {
        match JOB_COLUMNS[self.0] {
            Policy(_, _, value, _) => Datum::Number(value(&of.policy)),
            Bound(_, _, value, _) => Datum::Number(value(&of.policy.bounds)),
            Text(_, _, value, _) => Datum::Text(value(of)),
        }
    }

    /// Reads into a job's settings what somebody stored in it.
    pub(crate) fn set(self, of: &mut JobSettings, value: Datum<'_>) {
        match JOB_COLUMNS[self.0] {
            Policy(_, _, _, set) => set(&mut of.policy, number(value)),
            Bound(_, _, _, set) => set(&mut of.policy.bounds, number(value)),
            Text(_, _, _, set) => set(of, text(value).to_owned()),
        }
    }
}

/// What a column may hold. Anything else makes its row unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A number of this span, both ends included.
    Number(i64, i64),
    /// NULL, or a number of this span, both ends included.
    Optional(i64, i64),
    /// -1 for none, or epoch milliseconds that were not meant as seconds.
    Time,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text of at most so many characters, none of them NUL.
    Text(usize),
    /// The same without control characters: people read it in one line.
    Line(usize),
    /// A text, or NULL, that is understood with the row's other columns.
    Free,
}

/// A column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub name: &'static str,
    pub holds: Holds,
}

/// A value as loosely as a database may hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    /// NULL in a column of numbers, for a database that wants to know.
    NoNumber,
    Int(i64),
    Text(String),
}

/// For people: one line of a change.
impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LONGEST: usize = 200;
        match self {
            Self::Null | Self::NoNumber => f.write_str("NULL"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(&shortened(text, LONGEST)),
        }
    }
}

/// A type that a column is read into. What is of another type than the column's own reads as NULL.
pub(crate) trait Stored: Sized {
    fn read(cell: Cell) -> Self;
    fn cell(&self) -> Cell;
}

impl Stored for Option<i64> {
    fn read(cell: Cell) -> Self {
        if let Cell::Int(value) = cell { Some(value) } else { None }
    }

    fn cell(&self) -> Cell {
        self.map_or(Cell::NoNumber, Cell::Int)
    }
}

impl Stored for Option<String> {
    fn read(cell: Cell) -> Self {
        if let Cell::Text(text) = cell { Some(text) } else { None }
    }

    fn cell(&self) -> Cell {
        self.clone().map_or(Cell::Null, Cell::Text)
    }
}

/// NULL is the empty text.
impl Stored for String {
    fn read(cell: Cell) -> Self {
        if let Cell::Text(text) = cell { text } else { Self::new() }
    }

    fn cell(&self) -> Cell {
        Cell::Text(self.clone())
    }
}

/// NULL is the empty text.
impl Stored for Arc<str> {
    fn read(cell: Cell) -> Self {
        String::read(cell).into()
    }

    fn cell(&self) -> Cell {
        Cell::Text(self.to_string())
    }
}

macro_rules! row {
    (
        $(#[$doc:meta])* $Row:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $name:literal, $holds:expr;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct $Row { $($(#[$field_doc])* pub $field: $type,)* }

        impl $Row {
            pub(crate) const COLUMNS: &'static [Spec] = &[$(Spec { name: $name, holds: $holds },)*];

            /// Reads its columns, in the order of their list.
            pub(crate) fn read<E>(mut next: impl FnMut() -> Result<Cell, E>) -> Result<Self, E> {
                Ok(Self { $($field: Stored::read(next()?),)* })
            }

            /// Its values, in the order of their list.
            pub(crate) fn cells(&self) -> Vec<Cell> {
                vec![$(self.$field.cell(),)*]
            }

            /// Sets a column of this name, if there is one.
            #[cfg(test)]
            pub(crate) fn set(&mut self, name: &str, cell: &Cell) -> bool {
                match name {
                    $($name => self.$field = Stored::read(cell.clone()),)*
                    _ => return false,
                }
                true
            }
        }
    };
}

/// The job type of a row that is no schedule but the queue of its job.
pub(crate) const QUEUE: &str = "QUEUE";

/// What the database writes for "none".
pub(crate) const NONE: Millis = -1;

/// What the database writes for no instant.
pub(crate) const NO_TIME: Timestamp = Timestamp::at(NONE);

/// What statements are given for the priority of an execution that has none of its own.
pub(crate) const NO_PRIORITY: i64 = i64::MIN;

/// The most bytes of JSON a payload may have: a poll must be able to bring many.
pub(crate) const LARGEST_PAYLOAD: usize = 256 * 1024;

/// The most occurrences in a row that a schedule may be allowed before it is paused.
pub(crate) const LONGEST_STREAK: i64 = 1_000;

/// The most characters of a description.
pub(crate) const LONGEST_DESCRIPTION: usize = 500;

const POLICIES: &[&str] =
    &[MisfirePolicy::FireOnce.as_str(), MisfirePolicy::DoNothing.as_str(), MisfirePolicy::FireAll.as_str()];

/// Those in which a row must be understood.
const STATES: &[&str] =
    &[ScheduleState::Active.stored(), ScheduleState::Paused.stored(), ScheduleState::Complete.stored()];

/// A count that can still grow by one.
pub(crate) const COUNT: Holds = Holds::Number(0, i64::MAX - 1);

row! {
    /// What a schedule's definition says beside its trigger.
    Settings {
        /// Of the job's row.
        job: Option<i64> = "pid", Holds::Number(i64::MIN, i64::MAX);
        /// JSON, decoded by the job's handler before the claim.
        payload: Arc<str> = "payload", Holds::Text(LARGEST_PAYLOAD);
        priority: Option<i64> = "priority", Holds::Number(i32::MIN as i64, i32::MAX as i64);
        misfire: String = "misfire", Holds::Word(POLICIES);
        /// Milliseconds.
        threshold: Option<i64> = "threshold", Holds::Number(0, i64::MAX);
        /// For people.
        description: Arc<str> = "description", Holds::Line(LONGEST_DESCRIPTION);
        /// How long a handler may take, milliseconds; NULL as its job says.
        time_limit: Option<i64> = "time_limit", Holds::Optional(1, i64::MAX);
        /// What becomes of occurrences that would overlap.
        overlap: String = "overlap", Holds::Free;
        /// After how many occurrences in a row that failed for good it is paused: 0 never, NULL for deaths
        /// alone.
        pause_after: Option<i64> = "pause_after", Holds::Optional(0, LONGEST_STREAK);
        /// Within how many milliseconds of its fire time an occurrence is to have succeeded; NULL for no
        /// expectation.
        expected_by: Option<i64> = "expected_by", Holds::Optional(1, i64::MAX);
    }
}

row! {
    /// The columns that say when a schedule fires, as loosely as a database may hold them.
    When {
        job_type: String = "job_type", Holds::Word(&["CRON", "SIMPLE", "DELAY", QUEUE]);
        cron: Option<String> = "cron", Holds::Free;
        zone_id: Option<String> = "zone_id", Holds::Free;
        repeat_count: Option<i64> = "repeat_count", Holds::Free;
        repeat_interval: Option<i64> = "repeat_interval", Holds::Free;
        start_time: Option<i64> = "start_time", Holds::Number(i64::MIN, i64::MAX);
        end_time: Option<i64> = "end_time", Holds::Time;
        dst_gap: String = "dst_gap", Holds::Word(&["FIRE_AFTER", "SKIP"]);
        dst_fold: String = "dst_fold", Holds::Word(&["FIRST", "BOTH"]);
    }
}

row! {
    /// In whose code a schedule lives.
    Ownership {
        /// None of one that is nobody's.
        owner: Option<String> = "owner", Holds::Free;
        /// The fields that an operator has changed since, as [`FieldSet`] writes them.
        by_hand: Option<String> = "by_hand", Holds::Free;
    }
}

impl Ownership {
    pub(crate) const NOBODYS: Self = Self { owner: None, by_hand: None };

    pub(crate) fn of(owner: &str) -> Self {
        Self { owner: Some(owner.to_owned()), ..Self::NOBODYS }
    }

    /// The fields that an operator has changed.
    pub(crate) fn by_hand(&self) -> FieldSet {
        self.by_hand.as_deref().map(FieldSet::read).unwrap_or_default()
    }
}

/// The other columns of a schedule that are searched for what nobody understands.
pub(crate) const STANDING: &[Spec] = &[
    Spec { name: "state", holds: Holds::Word(STATES) },
    Spec { name: "prev_fire_time", holds: Holds::Time },
    Spec { name: "next_fire_time", holds: Holds::Time },
    Spec { name: "version", holds: COUNT },
    Spec { name: "generation", holds: COUNT },
    Spec { name: "fence", holds: Holds::Number(i64::MIN, i64::MAX - 1) },
    Spec { name: "shard", holds: Holds::Number(0, crate::domain::shards::SHARDS as i64 - 1) },
];

impl Settings {
    /// The fields that its columns are, in the order of their list.
    fn fields() -> impl Iterator<Item = ScheduleField> {
        Self::COLUMNS.iter().filter_map(|column| match column.name {
            "pid" => Some(ScheduleField::Job),
            "threshold" => Some(ScheduleField::MisfireThreshold),
            name => name.parse().ok(),
        })
    }

    /// These, but for some fields as others have them.
    pub(crate) fn keeping(self, kept: &FieldSet, others: &Self) -> Self {
        if kept.is_empty() {
            return self;
        }
        let both = self.cells().into_iter().zip(others.cells());
        let mut cells =
            Self::fields().zip(both).map(|(field, (own, others))| if kept.has(field) { others } else { own });
        let read = Self::read(|| cells.next().ok_or(()));
        read.unwrap_or(self)
    }

    /// The fields that others have otherwise.
    pub(crate) fn differing(&self, others: &Self) -> impl Iterator<Item = ScheduleField> {
        let both = self.cells().into_iter().zip(others.cells());
        let differing = Self::fields().zip(both).filter(|(_, (own, others))| own != others);
        differing.map(|(field, _)| field)
    }

    /// Why its texts cannot be stored. The limits are the same on every database: SQLite would store more,
    /// the others would refuse.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (spec, cell) in Self::COLUMNS.iter().zip(self.cells()) {
            let (Holds::Text(longest) | Holds::Line(longest), Cell::Text(text)) = (spec.holds, cell) else {
                continue;
            };
            let (length, name) = (text.chars().count(), spec.name);
            if length > longest {
                return Err(format!("its {name} has {length} characters: at most {longest} are possible"));
            }
            if text.contains('\0') {
                return Err(format!("its {name} holds a NUL"));
            }
            if matches!(spec.holds, Holds::Line(_)) && text.contains(char::is_control) {
                return Err(format!("its {name} holds a control character: leave it out"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "a guard compares beat"]
    fn a_column_nobody_has_a_value_for_is_not_compared_with_null() {
        Column::Beat.absent(());
    }

    /// A misspelt column would fail on a database only.
    #[test]
    fn every_column_is_one_of_the_tables() {
        let schema = include_str!("../../migrations/sqlite/0001_tables.sql");
        let words: Vec<_> = schema.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let specs = Settings::COLUMNS.iter().chain(When::COLUMNS).chain(Ownership::COLUMNS).chain(STANDING);
        let specs = specs.map(|spec| spec.name);
        let columns = Column::ALL.iter().copied().chain(JobColumn::ALL.map(Column::Job));
        for column in columns.map(Column::name).chain(specs) {
            assert!(words.contains(&column), "{column}");
        }
    }

    #[test]
    fn every_setting_is_a_field_that_an_operator_may_own() {
        let fields: Vec<ScheduleField> = Settings::fields().collect();
        assert_eq!(fields.len(), Settings::COLUMNS.len());
        let all: FieldSet = fields.into_iter().chain([ScheduleField::Trigger]).collect();
        assert_eq!(all.iter().count(), ScheduleField::ALL.len());
    }

    #[test]
    fn some_settings_stay_as_others_have_them() {
        let of = |number: i64, word: &str| Settings {
            job: Some(number),
            payload: word.into(),
            priority: Some(number),
            misfire: word.to_owned(),
            threshold: Some(number),
            description: word.into(),
            time_limit: None,
            overlap: word.to_owned(),
            pause_after: Some(number),
            expected_by: Some(number),
        };
        let (code, stored) = (of(1, "code"), of(2, "stored"));
        let kept = FieldSet::read("payload,misfire_threshold,job,time_limit");
        let expected =
            Settings { job: Some(2), payload: "stored".into(), threshold: Some(2), ..of(1, "code") };
        assert_eq!(code.clone().keeping(&kept, &stored), expected);
        assert_eq!(code.clone().keeping(&FieldSet::default(), &stored), code);
        let differing: FieldSet = expected.differing(&code).collect();
        assert_eq!(differing, FieldSet::read("payload,misfire_threshold,job"));
    }
}
