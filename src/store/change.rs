//! Guarded changes as values: the row, as it was seen, what it becomes, and what follows.
//!
//! Its [`Rule`] in the table of changes (`rules.rs`) says how a change is made.

use std::sync::Arc;

use super::audit::{Attribution, AuditEntry};
use super::columns::{Column, Datum, NO_PRIORITY};
use super::nobody::NobodyChange;
use super::rules::ChangeValue::{self, Becomes, Due, Error, Fresh, Now, Passed, PausedBy, PausedTime};
use super::rules::ChangeValue::{
    Checkpoint, GroupKey, Headers, Lane, PausedUntil, Payload, Priority, Tags, ToNext, ToPrev, Why,
};
use super::rules::{ChangeKind, Rule};
use super::switch::{SwitchChange, SwitchRow};
use super::transition::{ExecutionChange, NextAttempt, Transition};
use crate::domain::{
    Cursor, Entry, ExecutionId, ExecutionState, JobId, JobSettings, NextFire, NodeId, Reason, ScheduleId,
    ScheduleState, Timestamp, Token,
};
use crate::trigger::AWAITED;

/// A guarded change of one row, with the rows that its transaction writes because of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Execution(ExecutionChange),
    /// A cursor moves past occurrences, or a pause ends.
    Repair(Repair),
    AfterRun(AfterRun),
    Pause(PauseChange),
    /// A schedule's own pause, which leaves a row that somebody holds.
    Contain(PauseChange),
    Quarantine(UnreadableRow),
    Remove(RemoveChange),
    Replace(Replacement),
    Withdraw(WithdrawChange),
    Policy(PolicyChange),
    Switch(SwitchChange),
    PauseEnd(PauseEnd),
    Nobody(NobodyChange),
    Expected(ExpectedChange),
    End(NodeEnd),
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// The row has the new values, written by this call or by an earlier one whose answer was lost.
    Done,
    /// Another transaction changed or holds the row; nothing was written.
    Lost,
    /// Another transaction holds the row, or the end of an execution of one's own needs its schedule's row,
    /// which another holds; nothing was written, and it is to be said again.
    Held,
}

/// What became of a success that its handler's own transaction stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// It is stored.
    Done,
    /// Somebody has asked for its end: nothing was written.
    Cancelled,
    /// The execution is not this handler's any more: nothing was written.
    Lost,
    /// Another transaction holds its schedule's row: nothing was written.
    Held,
}

impl From<Applied> for Completed {
    fn from(applied: Applied) -> Self {
        match applied {
            Applied::Done => Self::Done,
            Applied::Lost => Self::Lost,
            Applied::Held => Self::Held,
        }
    }
}

impl Applied {
    pub(crate) fn is_done(self) -> bool {
        self == Self::Done
    }

    /// The answer to a change of an execution while another transaction holds the row of the schedule that
    /// the change plans. A node tries again for its own executions; others are left to the next pass.
    pub(crate) fn of_held(change: &ExecutionChange) -> Self {
        if change.own.is_some() { Self::Held } else { Self::Lost }
    }
}

impl From<bool> for Applied {
    fn from(done: bool) -> Self {
        if done { Self::Done } else { Self::Lost }
    }
}

/// How a guard compares a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen<'a> {
    Same(Datum<'a>),
    /// Compares a number of an unreadable row; NULL and non-numbers count as -1.
    Loosely(i64),
    /// No state of ours, NULL and what is no text included.
    NoState,
    /// Any state but this.
    Not(ScheduleState),
}

/// A pause of an active schedule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PauseChange {
    pub id: ScheduleId,
    /// The guard: the row must still have this version.
    pub version: i64,
    /// Who pauses it, and why: for people.
    pub by: String,
    pub reason: String,
    /// When the pause ends by itself.
    pub until: Option<Timestamp>,
}

/// A schedule's removal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoveChange {
    pub application: String,
    /// The guard: the row must still be as it was seen.
    pub seen: SeenSchedule,
    /// Why: for people.
    pub reason: String,
    pub now: Timestamp,
}

impl RemoveChange {
    pub(crate) fn of(application: &str, seen: SeenSchedule, by: &Attribution, now: Timestamp) -> Self {
        Self { application: application.to_owned(), seen, reason: by.reason.clone(), now }
    }

    /// How it is recorded.
    pub(crate) fn entry(&self, name: &str, by: &Attribution) -> AuditEntry {
        let state = &self.seen.state;
        let was = ScheduleState::read(state).map_or(&**state, |state| state.as_str());
        AuditEntry::of_schedule(
            "remove",
            (&self.application, name),
            (was, ScheduleState::Removed.as_str()),
            by,
        )
    }
}

/// What an enqueued execution that waits takes over from another's request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Replacement {
    pub execution: ExecutionId,
    /// The guard: it waits under this token.
    pub token: Token,
    /// The token it has afterwards.
    pub fresh: Token,
    pub due: Timestamp,
    pub payload: String,
    pub priority: Option<i32>,
    pub group: Option<String>,
    pub lane: Option<String>,
    /// As the row has them.
    pub tags: Option<String>,
    pub headers: Option<String>,
}

/// The end of an execution that waits for a removed schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WithdrawChange {
    pub execution: ExecutionId,
    pub now: Timestamp,
}

/// A schedule's row, whether or not it can be understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenSchedule {
    pub id: ScheduleId,
    /// -1 where it is no number.
    pub version: i64,
    /// Empty where it is no text.
    pub state: String,
    /// Its next fire time; none where there is none, or nobody asked for it.
    pub next: Option<Timestamp>,
}

/// A job's settings as its node has them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PolicyChange {
    pub job: JobId,
    /// The guard: the settings that were read.
    pub seen: JobSettings,
    pub becomes: JobSettings,
    pub now: Timestamp,
}

/// When the next pause in an application ends by itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PauseEnd {
    pub application: String,
    /// The guard: what its row says.
    pub seen: Timestamp,
    /// None while no pause ends by itself.
    pub becomes: Option<Timestamp>,
}

/// What the row of a schedule in QRTZ_EXPECTED says: the first occurrence that has not succeeded in time, or
/// none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExpectedChange {
    pub application: Arc<str>,
    pub schedule: ScheduleId,
    /// The guard: what it says.
    pub seen: Option<Timestamp>,
    pub becomes: Option<Timestamp>,
}

/// The end of a node's row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeEnd {
    pub node: NodeId,
    /// The beat at which another saw it stand still; none if the node itself says that it has stopped.
    pub beat: Option<i64>,
    pub now: Timestamp,
}

/// A PENDING execution of an earlier misfire repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unstarted {
    pub schedule: ScheduleId,
    pub execution: ExecutionId,
    pub token: Token,
}

impl Unstarted {
    /// It gives way to a later repair.
    pub(crate) fn supersede(&self, now: Timestamp) -> ExecutionChange {
        ExecutionChange::of(self.execution, self.token, Transition::Supersede, now)
    }
}

/// A guarded cursor move with the ledger rows that account for the occurrences it passes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Repair {
    pub id: ScheduleId,
    pub generation: i64,
    /// The guard: the row must still be in this state, at this cursor and version.
    pub state: ScheduleState,
    pub cursor: Cursor,
    pub version: i64,
    /// Where it moves; [`NextFire::Never`] completes the schedule.
    pub to: Cursor,
    /// How many planned occurrences the move passes.
    pub passed: u64,
    pub rows: Vec<LedgerRow>,
    /// These become SKIPPED (superseded), if they are still PENDING under the token seen.
    pub supersede: Vec<Unstarted>,
    /// This execution is cancelled for the occurrence that the move passes over.
    pub replaces: Option<ExecutionId>,
    pub how: Move,
    pub now: Timestamp,
}

/// What a cursor's move is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// The state stays; a row that somebody holds is left alone.
    Repair,
    /// The state stays; a row that somebody holds is waited for.
    Pass,
    /// It moves as a claim does, past an occurrence that would overlap; a held row is left alone.
    PassOver,
    /// It ends a pause: PAUSED becomes active (or complete).
    Resume,
    /// It begins a generation of its own.
    Anew,
}

impl Repair {
    /// Moves the entry's cursor over so many planned occurrences, without a row.
    pub(crate) fn of(entry: &Entry, to: Cursor, passed: u64, now: Timestamp) -> Self {
        Self {
            id: entry.id,
            generation: entry.generation,
            state: entry.state,
            cursor: entry.cursor,
            version: entry.version,
            to,
            passed,
            rows: Vec::new(),
            supersede: Vec::new(),
            replaces: None,
            how: if entry.state == ScheduleState::Paused { Move::Pass } else { Move::Repair },
            now,
        }
    }

    /// A row to run has a fresh token, a skipped one is finished.
    pub(crate) fn columns_of(&self, row: &LedgerRow) -> LedgerColumns {
        let id = self.id.0;
        match *row {
            LedgerRow::Skipped { from, to, count, prev, following, reason, holder } => LedgerColumns {
                id,
                at: from,
                until: Some(to),
                occurrences: i64::try_from(count).unwrap_or(i64::MAX),
                state: ExecutionState::Skipped,
                reason,
                cause: None,
                holder,
                due: from,
                token: None,
                finished: Some(self.now),
                prev,
                following: following.column(),
            },
            LedgerRow::Pending { at, due, prev, following, reason } => LedgerColumns {
                id,
                at,
                until: None,
                occurrences: 1,
                state: ExecutionState::Pending,
                reason,
                // One that waits for another's end is run as it was planned.
                cause: Some(reason).filter(|reason| *reason != Reason::Queued),
                holder: None,
                due,
                token: Some(Token::fresh()),
                finished: None,
                prev,
                following: following.column(),
            },
        }
    }

    fn kind(&self) -> ChangeKind {
        match self.how {
            Move::Repair => ChangeKind::Repair,
            Move::Pass => ChangeKind::Pass,
            Move::PassOver => ChangeKind::PassOver,
            Move::Resume => ChangeKind::Resume,
            Move::Anew => ChangeKind::PlanAnew,
        }
    }

    fn becomes(&self) -> ScheduleState {
        match self.to.next {
            NextFire::Never => ScheduleState::Complete,
            NextFire::At(_) | NextFire::AfterRun if self.how == Move::Resume => ScheduleState::Active,
            NextFire::At(_) | NextFire::AfterRun => self.state,
        }
    }

    /// The occurrences that it records as skipped: why, and how many.
    pub(crate) fn skips(&self) -> impl Iterator<Item = (Reason, u64)> {
        self.rows.iter().filter_map(|row| match *row {
            LedgerRow::Skipped { reason, count, .. } => Some((reason, count)),
            LedgerRow::Pending { .. } => None,
        })
    }

    /// How many rows it writes.
    pub(crate) fn writes(&self) -> usize {
        1 + self.rows.len() + self.supersede.len()
    }
}

/// When a schedule fires next that waits for the end of a run, which has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AfterRun {
    pub schedule: ScheduleId,
    /// The guard: it was not removed, and waits for the run of this occurrence.
    pub at: Timestamp,
    pub next: Option<Timestamp>,
}

/// A ledger row made by repair.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LedgerRow {
    /// `count` occurrences from `from` to `to` deliberately not run.
    Skipped {
        from: Timestamp,
        to: Timestamp,
        count: u64,
        prev: Option<Timestamp>,
        following: NextFire,
        reason: Reason,
        /// The execution that they would have overlapped.
        holder: Option<ExecutionId>,
    },
    /// One occurrence to run once it is `due`.
    Pending { at: Timestamp, due: Timestamp, prev: Option<Timestamp>, following: NextFire, reason: Reason },
}

impl LedgerRow {
    /// The fire time behind it.
    pub(crate) fn following(&self) -> NextFire {
        match self {
            Self::Skipped { following, .. } | Self::Pending { following, .. } => *following,
        }
    }
}

/// What the columns of QRTZ_RUN hold for a [`LedgerRow`].
pub(crate) struct LedgerColumns {
    pub id: i64,
    pub at: Timestamp,
    pub until: Option<Timestamp>,
    pub occurrences: i64,
    pub state: ExecutionState,
    pub reason: Reason,
    pub cause: Option<Reason>,
    pub holder: Option<ExecutionId>,
    pub due: Timestamp,
    pub token: Option<Token>,
    pub finished: Option<Timestamp>,
    pub prev: Option<Timestamp>,
    pub following: Option<Timestamp>,
}

/// A schedule's row that cannot be understood, with the values its guard compares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnreadableRow {
    pub seen: SeenSchedule,
    /// The schedule's [name or id](super::repairs::called).
    pub name: Arc<str>,
    pub reason: String,
}

impl ChangeValue {
    /// The change's kind does not bring it: its rule is wrong, which a test must see.
    fn missing<'a>(self) -> Datum<'a> {
        let in_a_test = cfg!(test);
        assert!(!in_a_test, "a change does not bring {}", self.name());
        Datum::Null
    }
}

impl Change {
    pub(crate) fn kind(&self) -> ChangeKind {
        match self {
            Self::Execution(change) => change.kind(),
            Self::Repair(repair) => repair.kind(),
            Self::AfterRun(_) => ChangeKind::PlanAfterRun,
            Self::Pause(_) => ChangeKind::Pause,
            Self::Contain(_) => ChangeKind::Contain,
            Self::Quarantine(_) => ChangeKind::Quarantine,
            Self::Remove(_) => ChangeKind::Remove,
            Self::Replace(_) => ChangeKind::Replace,
            Self::Withdraw(_) => ChangeKind::Withdraw,
            Self::Policy(_) => ChangeKind::SetPolicy,
            Self::Switch(change) => match change.seen.row {
                SwitchRow::Job(..) => ChangeKind::SwitchJob,
                SwitchRow::Node(_) => ChangeKind::SwitchNode,
                SwitchRow::Application(_) => ChangeKind::SwitchApp,
            },
            Self::PauseEnd(_) => ChangeKind::NotePauseEnd,
            Self::Nobody(_) => ChangeKind::NoteNobody,
            Self::Expected(_) => ChangeKind::NoteExpected,
            Self::End(NodeEnd { beat: Some(_), .. }) => ChangeKind::DeclareDead,
            Self::End(_) => ChangeKind::Leave,
        }
    }

    pub(crate) fn rule(&self) -> &'static Rule {
        self.kind().rule()
    }

    /// The execution whose row it changes, if it is one.
    pub(crate) fn execution(&self) -> Option<ExecutionId> {
        if let Self::Execution(change) = self { Some(change.execution) } else { None }
    }

    /// The attempt that follows the change of an execution.
    pub(crate) fn next_attempt(&self) -> Option<NextAttempt> {
        if let Self::Execution(change) = self { change.transition.next() } else { None }
    }

    /// The schedule whose row it changes, if it is one.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn schedule(&self) -> Option<ScheduleId> {
        match self {
            Self::Repair(repair) => Some(repair.id),
            Self::AfterRun(plan) => Some(plan.schedule),
            Self::Pause(pause) | Self::Contain(pause) => Some(pause.id),
            Self::Quarantine(broken) => Some(broken.seen.id),
            Self::Remove(removal) => Some(removal.seen.id),
            Self::Execution(_)
            | Self::Replace(_)
            | Self::Withdraw(_)
            | Self::Policy(_)
            | Self::Switch(_)
            | Self::PauseEnd(_)
            | Self::Nobody(_)
            | Self::Expected(_)
            | Self::End(_) => None,
        }
    }

    /// How its guard compares a column.
    pub(crate) fn seen(&self, column: Column) -> Seen<'_> {
        use Column::{Application, Beat, ClaimToken, EndedTime, Id, Job, NextFireTime, PauseEnds};
        use Column::{PausedTime, PrevFireTime, State, Uuid, Version};
        Seen::Same(match (self, column) {
            (Self::Execution(change), Id) => Datum::Number(change.execution.0),
            (Self::Execution(change), State) => {
                change.kind().rule().from.first().map_or(Datum::Null, |state| Datum::Text(state.as_str()))
            }
            (Self::Execution(change), ClaimToken) => Datum::Uuid(change.token.0),
            (Self::Repair(repair), Id) => Datum::Number(repair.id.0),
            (Self::Repair(repair), State) => Datum::Text(repair.state.stored()),
            (Self::Repair(repair), PrevFireTime) => Datum::time(repair.cursor.prev),
            (Self::Repair(repair), NextFireTime) => Datum::time(repair.cursor.next.column()),
            (Self::Repair(repair), Version) => Datum::Number(repair.version),
            (Self::AfterRun(plan), Id) => Datum::Number(plan.schedule.0),
            (Self::AfterRun(_), State) => return Seen::Not(ScheduleState::Removed),
            (Self::AfterRun(plan), PrevFireTime) => Datum::instant(plan.at),
            (Self::AfterRun(_), NextFireTime) => Datum::Number(AWAITED),
            (Self::Pause(pause) | Self::Contain(pause), Id) => Datum::Number(pause.id.0),
            (Self::Pause(_) | Self::Contain(_), State) => Datum::Text(ScheduleState::Active.stored()),
            (Self::Pause(pause) | Self::Contain(pause), Version) => Datum::Number(pause.version),
            (Self::Quarantine(UnreadableRow { seen, .. }) | Self::Remove(RemoveChange { seen, .. }), _) => {
                match column {
                    Id => Datum::Number(seen.id.0),
                    Version => return Seen::Loosely(seen.version),
                    State if ScheduleState::read(&seen.state).is_err() => return Seen::NoState,
                    State => Datum::Text(&seen.state),
                    _ => column.absent(Datum::Null),
                }
            }
            (Self::Replace(change), Id) => Datum::Number(change.execution.0),
            (Self::Replace(_) | Self::Withdraw(_), State) => Datum::Text(ExecutionState::Pending.as_str()),
            (Self::Replace(change), ClaimToken) => Datum::Uuid(change.token.0),
            (Self::Withdraw(change), Id) => Datum::Number(change.execution.0),
            (Self::Policy(change), Id) => Datum::Number(change.job.0),
            (Self::Policy(change), Job(column)) => column.value(&change.seen),
            (Self::Switch(change), State) => Datum::Text(&change.seen.state),
            (Self::Switch(change), PausedTime) => Datum::time(change.seen.since),
            (Self::Switch(change), _) => match (column, &change.seen.row) {
                (Id, SwitchRow::Job(id, _)) => Datum::Number(id.0),
                (Uuid, SwitchRow::Node(id)) => Datum::Uuid(id.0),
                (Application, SwitchRow::Application(name)) => Datum::Text(name),
                (EndedTime, SwitchRow::Node(_)) => Datum::time(None),
                _ => column.absent(Datum::Null),
            },
            (Self::PauseEnd(end), Application) => Datum::Text(&end.application),
            (Self::PauseEnd(end), PauseEnds) => Datum::instant(end.seen),
            (Self::Nobody(change), Id) => Datum::Number(change.job.0),
            (Self::Nobody(change), Column::NobodyTime) => Datum::time(change.seen.since),
            (Self::Nobody(change), Column::NobodyTold) => Datum::time(change.seen.told),
            (Self::Expected(change), Application) => Datum::Text(&change.application),
            (Self::Expected(change), Id) => Datum::Number(change.schedule.0),
            (Self::Expected(change), Column::UnmetTime) => Datum::time(change.seen),
            (Self::End(end), Uuid) => Datum::Uuid(end.node.0),
            (Self::End(NodeEnd { beat: Some(beat), .. }), Beat) => Datum::Number(*beat),
            (Self::End(_), EndedTime) => Datum::time(None),
            _ => column.absent(Datum::Null),
        })
    }

    /// A value that its assignments need.
    pub(crate) fn brings(&self, value: ChangeValue) -> Datum<'_> {
        match (self, value) {
            (Self::Execution(change), Now) => Datum::instant(change.now),
            (Self::Execution(change), Becomes) => Datum::Text(change.becomes().as_str()),
            (Self::Execution(change), Fresh) => {
                change.fresh().map_or_else(|| value.missing(), |token| Datum::Uuid(token.0))
            }
            (Self::Execution(change), Why) => Datum::Text(change.meaning().reason.map_or("", Reason::as_str)),
            (Self::Execution(change), Error) => Datum::Text(change.error().map_or("", String::as_str)),
            (
                Self::Execution(ExecutionChange { transition: Transition::Checkpoint(text), .. }),
                Checkpoint,
            ) => Datum::Text(text),
            (Self::Execution(change), ChangeValue::Result) => {
                change.result().map_or_else(|| value.missing(), |result| Datum::Text(result))
            }
            (Self::Execution(ExecutionChange { transition: Transition::Snooze(_, due), .. }), Due) => {
                Datum::instant(*due)
            }
            (Self::Repair(repair), Now) => Datum::instant(repair.now),
            (Self::Repair(repair), ToPrev) => Datum::time(repair.to.prev),
            (Self::Repair(repair), ToNext) => Datum::time(repair.to.next.column()),
            (Self::Repair(repair), Becomes) => Datum::Text(repair.becomes().stored()),
            (Self::Repair(repair), Passed) => Datum::Number(i64::try_from(repair.passed).unwrap_or(i64::MAX)),
            (Self::AfterRun(plan), ToNext) => Datum::time(plan.next),
            (Self::Pause(pause) | Self::Contain(pause), PausedBy) => Datum::Text(&pause.by),
            (Self::Pause(pause) | Self::Contain(pause), Why) => Datum::Text(&pause.reason),
            (Self::Pause(pause) | Self::Contain(pause), PausedUntil) => Datum::time(pause.until),
            (Self::Switch(change), Becomes) => Datum::Text(change.becomes.stored(change.seen.row.is_job())),
            (Self::Switch(change), PausedBy) => Datum::Text(&change.by),
            (Self::Switch(change), Why) => Datum::Text(&change.reason),
            (Self::Switch(change), PausedTime) => Datum::time(change.since),
            (Self::Switch(change), PausedUntil) => Datum::time(change.until),
            (Self::Quarantine(broken), Why) => Datum::Text(&broken.reason),
            (Self::Remove(removal), Why) => Datum::Text(&removal.reason),
            (Self::Replace(change), Payload) => Datum::Text(&change.payload),
            (Self::Replace(change), Priority) => {
                Datum::Number(change.priority.map_or(NO_PRIORITY, i64::from))
            }
            (Self::Replace(change), GroupKey) => Datum::Text(change.group.as_deref().unwrap_or_default()),
            (Self::Replace(change), Lane) => Datum::Text(change.lane.as_deref().unwrap_or_default()),
            (Self::Replace(change), Tags) => Datum::Text(change.tags.as_deref().unwrap_or_default()),
            (Self::Replace(change), Headers) => Datum::Text(change.headers.as_deref().unwrap_or_default()),
            (Self::Replace(change), Due) => Datum::instant(change.due),
            (Self::Replace(change), Fresh) => Datum::Uuid(change.fresh.0),
            (Self::Withdraw(_), Why) => Datum::Text(Reason::Removed.as_str()),
            (Self::Withdraw(change), Now) => Datum::instant(change.now),
            (Self::Policy(change), Now) => Datum::instant(change.now),
            (Self::Policy(change), ChangeValue::Job(column)) => column.value(&change.becomes),
            (Self::PauseEnd(end), PausedUntil) => Datum::time(end.becomes),
            (Self::Nobody(change), ChangeValue::NobodySince) => Datum::time(change.becomes.since),
            (Self::Nobody(change), ChangeValue::NobodyTold) => Datum::time(change.becomes.told),
            (Self::Expected(change), ChangeValue::Unmet) => Datum::time(change.becomes),
            (Self::End(end), Now) => Datum::instant(end.now),
            _ => value.missing(),
        }
    }
}

impl From<ExecutionChange> for Change {
    fn from(change: ExecutionChange) -> Self {
        Self::Execution(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_brings_what_its_rule_needs_and_leads_where_that_does() {
        let (token, text) = (Token::fresh(), || "no".to_owned());
        let transitions = [
            Transition::Start,
            Transition::Checkpoint(text()),
            Transition::Succeed,
            Transition::SucceedWith(text()),
            Transition::Complete,
            Transition::CompleteWith(text()),
            Transition::Confirm,
            Transition::Fail(text(), None),
            Transition::Stop(text()),
            Transition::GiveUp(text()),
            Transition::Snooze(token, Timestamp::at(9)),
            Transition::PassOn(token, text()),
            Transition::TimeOut(text()),
            Transition::Release(token, None),
            Transition::GiveBack(token),
            Transition::Interrupt(token),
            Transition::TakeBack(token),
            Transition::Abandon(None),
            Transition::Exhaust,
            Transition::Supersede,
            Transition::Cancel(Reason::Removed),
        ];
        for transition in transitions {
            let change = ExecutionChange::of(ExecutionId(1), token, transition, Timestamp::at(0));
            let rule = change.kind().rule();
            assert!(rule.to.contains(&change.becomes()), "{change:?}");
            let change = Change::from(change);
            assert!(rule.brings().all(|value| change.brings(value) != Datum::Null), "{change:?}");
        }
    }

    #[test]
    #[should_panic = "a change does not bring fresh"]
    fn a_value_that_is_not_brought_is_not_null() {
        let end = NodeEnd { node: NodeId::fresh(), beat: None, now: Timestamp::at(0) };
        Change::End(end).brings(Fresh);
    }
}
