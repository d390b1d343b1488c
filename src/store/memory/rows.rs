//! Rows as a database holds them: loose values, and what they mean if they mean something.

use std::borrow::Cow;
use std::sync::Arc;

use uuid::Uuid;

use crate::domain::shards::SHARDS;
use crate::domain::{
    Cursor, Entry, ExecutionId, ExecutionState, JobId, JobSettings, LaneHealth, Millis, NodeId, Overlap,
    Reason, ScheduleId, ScheduleState, SeatWait, Timestamp, Token,
};
use crate::store::columns::{
    Column, Datum, NO_TIME, NONE, Ownership, QUEUE, Settings, When, instant, number,
};
use crate::store::enqueue::read_tags;
use crate::store::guard::Guard;
use crate::store::ledger::TriggerPeriod;
use crate::store::nobody::NobodyMark;
use crate::store::when;
use crate::store::{LeftAlone, PauseRow};
use crate::trigger::Timing;

/// A text column. Words of our own are never copied.
pub(super) type Text = Cow<'static, str>;

/// Whether a row is as a decision saw it in every column of the guard. As in SQL, NULL equals nothing.
pub(super) fn matches<'row, 'seen>(
    guard: &Guard,
    row: impl Fn(Column) -> Datum<'row>,
    seen: impl Fn(Column) -> Datum<'seen>,
) -> bool {
    guard.columns().all(|column| {
        let value = row(column);
        value != Datum::Null && value == seen(column)
    })
}

/// QRTZ_APP.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct App {
    pub state: Text,
    pub pause: Pause,
    /// When the next pause in it ends by itself, or earlier.
    pub pause_ends: Option<Timestamp>,
    pub time_pre: Timestamp,
    pub time_next: Timestamp,
    pub ledger_from: Timestamp,
    pub fence_from: i64,
}

impl Default for App {
    fn default() -> Self {
        Self {
            state: "Y".into(),
            pause: Pause::default(),
            pause_ends: None,
            time_pre: NO_TIME,
            time_next: NO_TIME,
            ledger_from: NO_TIME,
            fence_from: 0,
        }
    }
}

/// What the row of an application, a node or a job says of its pause.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pause {
    pub by: String,
    pub reason: String,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl Pause {
    fn value(&self, column: Column) -> Datum<'_> {
        match column {
            Column::PausedBy => Datum::Text(&self.by),
            Column::Reason => Datum::Text(&self.reason),
            Column::PausedTime => Datum::time(self.since),
            Column::PausedUntil => Datum::time(self.until),
            _ => column.absent(Datum::Null),
        }
    }

    fn set(&mut self, column: Column, value: Datum<'_>) {
        match column {
            Column::PausedBy => self.by = text(value).into_owned(),
            Column::Reason => self.reason = text(value).into_owned(),
            Column::PausedTime => self.since = time(value),
            Column::PausedUntil => self.until = time(value),
            _ => column.absent(()),
        }
    }

    pub(super) fn row(&self) -> PauseRow {
        let Self { by, reason, since, until } = self.clone();
        PauseRow { by, reason, since, until }
    }
}

impl App {
    pub(super) fn value<'a>(&'a self, name: &'a str, column: Column) -> Datum<'a> {
        match column {
            Column::Application => Datum::Text(name),
            Column::State => Datum::Text(&self.state),
            Column::PauseEnds => Datum::time(self.pause_ends),
            column => self.pause.value(column),
        }
    }

    pub(super) fn set(&mut self, column: Column, value: Datum<'_>) {
        match column {
            Column::State => self.state = text(value),
            Column::PauseEnds => self.pause_ends = time(value),
            column => self.pause.set(column, value),
        }
    }
}

/// QRTZ_NODE.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub application: Arc<str>,
    pub host_ip: String,
    pub host_name: String,
    pub pid: u32,
    pub silent_after: Millis,
    pub state: Text,
    pub pause: Pause,
    pub beat: i64,
    pub jobs: Vec<String>,
    pub blocked: Vec<String>,
    pub lanes: Vec<LaneHealth>,
    pub left_alone: Vec<LeftAlone>,
    pub started: Timestamp,
    pub last_beat: Timestamp,
    pub told: Timestamp,
    pub ended: Option<Timestamp>,
    pub end_reason: Text,
}

impl Node {
    pub(super) fn value(&self, id: NodeId, column: Column) -> Datum<'_> {
        match column {
            Column::Uuid => Datum::Uuid(id.0),
            Column::Beat => Datum::Number(self.beat),
            Column::State => Datum::Text(&self.state),
            Column::EndedTime => Datum::time(self.ended),
            Column::EndReason => Datum::Text(&self.end_reason),
            column => self.pause.value(column),
        }
    }

    pub(super) fn set(&mut self, column: Column, value: Datum<'_>) {
        match column {
            Column::EndedTime => self.ended = time(value),
            Column::EndReason => self.end_reason = text(value),
            Column::State => self.state = text(value),
            column => self.pause.set(column, value),
        }
    }
}

/// QRTZ_JOB.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    pub application: Arc<str>,
    pub name: Arc<str>,
    pub state: Text,
    pub pause: Pause,
    pub settings: JobSettings,
    pub nobody: NobodyMark,
}

impl Job {
    pub(super) fn value(&self, id: i64, column: Column) -> Datum<'_> {
        match column {
            Column::Id => Datum::Number(id),
            Column::Job(column) => column.value(&self.settings),
            // No question is about it.
            Column::UpdateTime => Datum::Null,
            Column::NobodyTime => Datum::time(self.nobody.since),
            Column::NobodyTold => Datum::time(self.nobody.told),
            Column::State => Datum::Text(&self.state),
            column => self.pause.value(column),
        }
    }

    pub(super) fn set(&mut self, column: Column, value: Datum<'_>) {
        match column {
            Column::Job(column) => column.set(&mut self.settings, value),
            Column::UpdateTime => {}
            Column::NobodyTime => self.nobody.since = time(value),
            Column::NobodyTold => self.nobody.told = time(value),
            Column::State => self.state = text(value),
            column => self.pause.set(column, value),
        }
    }
}

/// QRTZ_EXPECTED.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    pub application: Arc<str>,
    /// The first occurrence that has not succeeded in time.
    pub unmet: Option<Timestamp>,
}

impl Expected {
    pub(super) fn value(&self, id: i64, column: Column) -> Datum<'_> {
        match column {
            Column::Id => Datum::Number(id),
            Column::Application => Datum::Text(&self.application),
            Column::UnmetTime => Datum::time(self.unmet),
            _ => column.absent(Datum::Null),
        }
    }

    pub(super) fn set(&mut self, column: Column, value: Datum<'_>) {
        match column {
            Column::UnmetTime => self.unmet = time(value),
            _ => column.absent(()),
        }
    }
}

/// A row's trigger columns with what they mean, worked out when they are written.
#[derive(Debug)]
pub(super) struct Shape {
    pub columns: When,
    pub timing: std::result::Result<Timing, String>,
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns
    }
}

impl From<When> for Shape {
    fn from(columns: When) -> Self {
        Self { timing: columns.timing(), columns }
    }
}

/// QRTZ_EXECUTE. A time is NULL (`None`), -1 (none) or an instant; a text that is NULL is empty here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schedule {
    pub application: Arc<str>,
    pub name: Arc<str>,
    pub shard: i64,
    pub state: Text,
    pub settings: Settings,
    pub shape: Arc<Shape>,
    pub prev: Option<Timestamp>,
    pub next: Option<Timestamp>,
    pub triggered: i64,
    pub version: i64,
    pub generation: i64,
    pub fence: i64,
    pub reason: Arc<str>,
    pub paused_by: Arc<str>,
    pub paused: Option<Timestamp>,
    pub paused_until: Option<Timestamp>,
    /// When a pause of it ended last.
    pub resumed: Option<Timestamp>,
    pub slot: Option<Slot>,
    pub ownership: Ownership,
}

/// The occurrence whose execution was claimed last, of a schedule whose executions do not overlap:
/// generation, origin, fire time.
pub(super) type Slot = (i64, i64, Timestamp);

impl Schedule {
    /// One that has not fired, and fires nothing before it has a cursor.
    pub(super) fn new(
        (application, name): (Arc<str>, &str),
        state: Text,
        settings: Settings,
        shape: Shape,
    ) -> Self {
        Self {
            application,
            name: name.into(),
            shard: 0,
            state,
            settings,
            shape: Arc::new(shape),
            prev: Some(NO_TIME),
            next: Some(NO_TIME),
            triggered: 0,
            version: 0,
            generation: 0,
            fence: 0,
            reason: "".into(),
            paused_by: "".into(),
            paused: None,
            paused_until: None,
            resumed: None,
            slot: None,
            ownership: Ownership::NOBODYS,
        }
    }

    pub(super) fn value(&self, id: i64, column: Column) -> Datum<'_> {
        let number = |value: Option<i64>| value.map_or(Datum::Null, Datum::Number);
        match column {
            Column::Id => Datum::Number(id),
            Column::State => Datum::Text(&self.state),
            Column::PrevFireTime => number(self.prev.map(Timestamp::millis)),
            Column::NextFireTime => number(self.next.map(Timestamp::millis)),
            Column::Version => Datum::Number(self.version),
            Column::Generation => Datum::Number(self.generation),
            Column::TimeTriggered => Datum::Number(self.triggered),
            Column::Reason => Datum::Text(&self.reason),
            Column::PausedBy => Datum::Text(&self.paused_by),
            Column::PausedTime => Datum::time(self.paused),
            Column::PausedUntil => Datum::time(self.paused_until),
            Column::ResumedTime => number(self.resumed.map(Timestamp::millis)),
            _ => column.absent(Datum::Null),
        }
    }

    pub(super) fn set(&mut self, column: Column, value: Datum<'_>) {
        match column {
            Column::State => self.state = text(value),
            Column::PrevFireTime => self.prev = Some(instant(value)),
            Column::NextFireTime => self.next = Some(instant(value)),
            Column::Version => self.version = number(value),
            Column::Generation => self.generation = number(value),
            Column::TimeTriggered => self.triggered = number(value),
            Column::Reason => self.reason = text(value).into(),
            Column::PausedBy => self.paused_by = text(value).into(),
            Column::PausedTime => self.paused = time(value),
            Column::PausedUntil => self.paused_until = time(value),
            Column::ResumedTime => self.resumed = Some(instant(value)),
            _ => column.absent(()),
        }
    }

    pub(super) fn is(&self, state: ScheduleState) -> bool {
        self.state == state.stored()
    }

    /// Whether its executions must not overlap.
    pub(super) fn has_slot(&self) -> bool {
        self.settings.overlap != Overlap::Allow.word()
    }

    pub(super) fn take_slot(&mut self, slot: Slot) {
        if self.has_slot() {
            self.slot = Some(slot);
        }
    }

    /// Whether it is no schedule but the queue of its job.
    pub(super) fn is_queue(&self) -> bool {
        self.shape.columns.job_type == QUEUE
    }

    /// The id of its job's row.
    pub(super) fn job(&self) -> JobId {
        JobId(self.settings.job.unwrap_or(NONE))
    }

    /// The fire time the poll's index holds: only active rows have one.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.next.filter(|next| *next != NO_TIME && self.is(ScheduleState::Active))
    }

    pub(super) fn move_to(&mut self, cursor: Cursor) {
        self.prev = Some(cursor.prev.unwrap_or(NO_TIME));
        self.next = Some(cursor.next.column().unwrap_or(NO_TIME));
    }

    pub(super) fn put(&mut self, state: ScheduleState) {
        self.state = state.stored().into();
    }

    /// The row as a value to decide on, or why it cannot be one.
    pub(super) fn understand(&self, id: i64, job: Option<&Job>) -> std::result::Result<Entry, String> {
        let state = ScheduleState::read(&self.state).map_err(|unknown| format!("state {unknown}"))?;
        if !(0..SHARDS as i64).contains(&self.shard) {
            return Err(format!("shard {} is none, so no poll would look at it", self.shard));
        }
        let job = job.ok_or_else(|| format!("pid {} is no job's id", self.job()))?;
        let timing = self.shape.timing.clone()?;
        let cursor = when::cursor(state, self.prev.map(Timestamp::millis), self.next.map(Timestamp::millis))?;
        when::fence(self.fence)?;
        let settings = &self.settings;
        let misfire = settings.misfire.parse().map_err(|unknown| format!("misfire policy {unknown}"))?;
        Ok(Entry {
            id: ScheduleId(id),
            name: Arc::clone(&self.name),
            job: Arc::clone(&job.name),
            payload: Arc::clone(&settings.payload),
            state,
            timing,
            cursor,
            version: when::count("version", self.version)?,
            generation: when::count("generation", self.generation)?,
            priority: when::priority(settings.priority.unwrap_or(i64::MIN))?,
            misfire,
            threshold: when::threshold(settings.threshold.unwrap_or(NONE))?,
            recover: job.settings.policy.recover,
            bounds: job.settings.policy.bounds,
            time_limit: when::time_limit(settings.time_limit)?,
            overlap: when::overlap(&settings.overlap)?,
            pause_after: when::pause_after(settings.pause_after)?,
            is_queue: self.is_queue(),
        })
    }
}

/// QRTZ_RUN.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Execution {
    pub schedule: i64,
    pub application: Arc<str>,
    pub generation: i64,
    pub origin: i64,
    pub scheduled: Timestamp,
    /// For a skipped run of occurrences: the last of them, and how many.
    pub until: Option<Timestamp>,
    pub count: i64,
    pub attempt: u32,
    pub state: Text,
    pub reason: Text,
    /// Why it is run; none if it was planned.
    pub cause: Option<&'static str>,
    /// Its own payload and priority, in place of its schedule's.
    pub payload: Option<Arc<str>>,
    pub priority: Option<i32>,
    pub group: Option<Arc<str>>,
    pub lane: Option<Arc<str>>,
    pub tags: Vec<String>,
    pub headers: Option<Arc<str>>,
    /// How far its handlers have come, as JSON.
    pub checkpoint: Option<Arc<str>>,
    pub result: Option<Arc<str>>,
    /// Its unique key among those of its job, and the period that this is for.
    pub key: Option<(Arc<str>, Millis)>,
    pub due: Timestamp,
    pub token: Option<Token>,
    pub fence: i64,
    pub node: Option<NodeId>,
    pub claimed: Option<Timestamp>,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    pub prev: Option<Timestamp>,
    pub following: Option<Timestamp>,
    pub error: String,
    /// Of one that was skipped because it would have overlapped: the execution that ran.
    pub holder: Option<i64>,
    /// Of one that was claimed late for want of a seat.
    pub waited_for: Option<SeatWait>,
    /// How many attempts before it failed, and how often it was snoozed.
    pub failures: u32,
    pub snoozes: u32,
}

/// Where an execution is looked up besides by its id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum IndexedBy {
    #[default]
    Nowhere,
    Waiting {
        application: Arc<str>,
        schedule: i64,
        due: Timestamp,
    },
    Owned(Option<NodeId>),
}

/// What may exist once only: schedule, generation, origin, occurrence, attempt.
pub(super) type Key = (i64, i64, i64, Timestamp, u32);

impl Execution {
    /// The first attempt at one occurrence, which is nobody's, has no reason and has not been claimed.
    pub(super) fn new(
        schedule: i64,
        application: &Arc<str>,
        scheduled: Timestamp,
        state: ExecutionState,
    ) -> Self {
        Self {
            schedule,
            application: Arc::clone(application),
            generation: 0,
            origin: 0,
            scheduled,
            until: None,
            count: 1,
            attempt: 1,
            state: state.as_str().into(),
            reason: Text::default(),
            cause: None,
            payload: None,
            priority: None,
            group: None,
            lane: None,
            tags: Vec::new(),
            headers: None,
            checkpoint: None,
            result: None,
            key: None,
            due: scheduled,
            token: None,
            fence: 0,
            node: None,
            claimed: None,
            started: None,
            finished: None,
            prev: None,
            following: None,
            error: String::new(),
            holder: None,
            waited_for: None,
            failures: 0,
            snoozes: 0,
        }
    }

    /// One that somebody asks for, which waits to be claimed.
    pub(super) fn asked(
        schedule: i64,
        application: &Arc<str>,
        due: Timestamp,
        (origin, reason): (i64, Reason),
    ) -> Self {
        Self {
            origin,
            reason: reason.as_str().into(),
            cause: Some(reason.as_str()),
            token: Some(Token::fresh()),
            ..Self::new(schedule, application, due, ExecutionState::Pending)
        }
    }

    pub(super) fn value(&self, id: i64, column: Column) -> Datum<'_> {
        match column {
            Column::Id => Datum::Number(id),
            Column::State => Datum::Text(&self.state),
            Column::ClaimToken => self.token.map_or(Datum::Null, |token| Datum::Uuid(token.0)),
            Column::Reason => Datum::Text(&self.reason),
            Column::Error => Datum::Text(&self.error),
            Column::Node => self.node.map_or(Datum::Text(""), |node| Datum::Uuid(node.0)),
            Column::ClaimedTime => Datum::time(self.claimed),
            Column::StartedTime => Datum::time(self.started),
            Column::FinishedTime => Datum::time(self.finished),
            Column::DueTime => Datum::instant(self.due),
            Column::Snoozes => Datum::Number(self.snoozes.into()),
            // No question is about them.
            Column::ScheduledTime
            | Column::Payload
            | Column::Priority
            | Column::GroupKey
            | Column::Lane
            | Column::Tags
            | Column::Headers
            | Column::Checkpoint
            | Column::Result => Datum::Null,
            _ => column.absent(Datum::Null),
        }
    }

    pub(super) fn set(&mut self, column: Column, value: Datum<'_>) {
        match column {
            Column::State => self.state = text(value),
            Column::ClaimToken => self.token = uuid(value).map(Token),
            Column::Reason => self.reason = text(value),
            Column::Error => self.error = text(value).into_owned(),
            Column::Node => self.node = uuid(value).map(NodeId),
            Column::ClaimedTime => self.claimed = time(value),
            Column::StartedTime => self.started = time(value),
            Column::FinishedTime => self.finished = time(value),
            Column::DueTime => self.due = instant(value),
            Column::Snoozes => self.snoozes = u32::try_from(number(value)).unwrap_or(u32::MAX),
            Column::ScheduledTime => self.scheduled = instant(value),
            Column::Payload => self.payload = shared(value),
            Column::Priority => self.priority = priority(value),
            Column::GroupKey => self.group = shared(value),
            Column::Lane => self.lane = shared(value),
            Column::Headers => self.headers = shared(value),
            Column::Checkpoint => self.checkpoint = shared(value),
            Column::Result => self.result = shared(value),
            Column::Tags => self.tags = read_tags(shared(value).as_deref()),
            _ => column.absent(()),
        }
    }

    pub(super) fn is(&self, state: ExecutionState) -> bool {
        self.state == state.as_str()
    }

    /// Whether it keeps its schedule's slot: it has not ended, or its handler runs on beyond its time limit.
    /// If it waits, only in the schedule's own generation.
    pub(super) fn keeps_slot(&self, generation: i64) -> bool {
        self.is(ExecutionState::Claimed)
            || self.is(ExecutionState::Running)
            || self.is(ExecutionState::Pending) && self.generation == generation
            || self.is(ExecutionState::TimedOut) && self.finished.is_none()
    }

    /// Whether it is due and has yet to begin, of one that keeps its schedule's slot.
    pub(super) fn is_late(&self) -> bool {
        let is_given_back = &*self.reason == Reason::GivenBack.as_str();
        self.is(ExecutionState::Claimed) || self.is(ExecutionState::Pending) && is_given_back
    }

    fn has_failed(&self) -> bool {
        self.is(ExecutionState::Failed) || self.is(ExecutionState::TimedOut)
    }

    pub(super) fn key(&self) -> Key {
        (self.schedule, self.generation, self.origin, self.scheduled, self.attempt)
    }

    pub(super) fn place(&self) -> IndexedBy {
        if self.is(ExecutionState::Pending) {
            let application = Arc::clone(&self.application);
            return IndexedBy::Waiting { application, schedule: self.schedule, due: self.due };
        }
        let owned = self.is(ExecutionState::Claimed) || self.is(ExecutionState::Running);
        if owned { IndexedBy::Owned(self.node) } else { IndexedBy::Nowhere }
    }

    /// The next attempt at the same occurrence, nobody's yet.
    pub(super) fn again(
        &self,
        (reason, cause): (&'static str, &'static str),
        due: Timestamp,
        token: Token,
    ) -> Self {
        Self {
            cause: Some(cause),
            attempt: self.attempt.saturating_add(1),
            state: ExecutionState::Pending.as_str().into(),
            reason: reason.into(),
            due,
            token: Some(token),
            node: None,
            claimed: None,
            started: None,
            finished: None,
            error: String::new(),
            result: None,
            waited_for: None,
            failures: self.failures + u32::from(self.has_failed()),
            ..self.clone()
        }
    }
}

fn time(value: Datum<'_>) -> Option<Timestamp> {
    Some(instant(value)).filter(|time| *time != NO_TIME)
}

/// States, which change most, are never copied.
fn text(value: Datum<'_>) -> Text {
    let Datum::Text(text) = value else { return Text::default() };
    match text.parse::<ExecutionState>() {
        Ok(state) => Text::Borrowed(state.as_str()),
        Err(_) => Text::Owned(text.to_owned()),
    }
}

fn shared(value: Datum<'_>) -> Option<Arc<str>> {
    if let Datum::Text(text) = value { Some(text.into()) } else { None }
}

fn priority(value: Datum<'_>) -> Option<i32> {
    if let Datum::Number(number) = value { i32::try_from(number).ok() } else { None }
}

fn uuid(value: Datum<'_>) -> Option<Uuid> {
    if let Datum::Uuid(uuid) = value { Some(uuid) } else { None }
}

/// A row of QRTZ_TRIGGER: the application, and the generation's trigger.
pub(super) type TriggerRow = (Arc<str>, TriggerPeriod);

/// Of an execution that counts: its group, and when it was claimed.
pub(super) type BoundedRow = (Option<String>, Timestamp);

/// A key of enqueued executions: the queue, the key, the period.
pub(super) type UniqueKey = (i64, Arc<str>, Millis);

/// A row of QRTZ_REQUEST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestRow {
    pub application: String,
    pub verb: String,
    pub arguments: String,
    /// None while it waits: whether it is done, its execution, its answer and when it ended.
    pub ended: Option<RequestEnd>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestEnd {
    pub is_done: bool,
    pub execution: Option<ExecutionId>,
    pub answer: String,
    pub at: Timestamp,
}
