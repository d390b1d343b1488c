//! The table of changes: every guarded change of a row, once.
//!
//! A [`Change`] says which row, as it was seen, becomes what. Its [`Rule`] is the table's entry: the guard,
//! the assignments, whether a row that somebody holds is waited for, and whether a row that is already so
//! counts as changed. The SQL stores and the in-memory store interpret the same entries, so a new change is
//! an entry here and no code there.

use std::sync::Arc;

use super::columns::Column;
use super::guard::{self, Guard};
use crate::domain::{
    Cursor, ExecutionId, ExecutionState, JobPolicy, Millis, NodeId, ScheduleId, ScheduleState, Token,
};
use crate::time::millis;

/// A guarded change of one row, with the rows that its transaction writes because of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Execution(ExecutionChange),
    /// A cursor moves past occurrences, or a pause ends.
    Repair(Repair),
    Pause(Pause),
    Quarantine(Broken),
    Policy(PolicyChange),
    End(NodeEnd),
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// It is so: by this call, or, where the rule says so, by an earlier one whose answer was lost.
    Done,
    /// The row is another than the one that was seen, or somebody holds it: nothing of it was changed.
    Lost,
}

impl Applied {
    pub(crate) fn is_done(self) -> bool {
        self == Self::Done
    }
}

impl From<bool> for Applied {
    fn from(done: bool) -> Self {
        if done { Self::Done } else { Self::Lost }
    }
}

/// The kinds of changes, in the order in which one call makes them: rows are locked in the order of
/// application, node, schedule, execution, and an execution starts before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    /// A node that did not beat is declared dead.
    DeclareDead,
    /// A node says that it has stopped.
    Leave,
    /// A node tells its job's policies.
    SetPolicy,
    /// An active schedule stops being claimed.
    Pause,
    /// A paused schedule's cursor passes occurrences of its pause, which goes on.
    PassPaused,
    /// A pause ends.
    Resume,
    /// An overdue cursor moves towards the present.
    Repair,
    /// A row that cannot be understood goes into ERROR.
    Quarantine,
    /// The handler begins.
    Start,
    /// The handler has ended.
    Finish,
    /// An execution that its node has not begun waits for another.
    GiveBack,
    /// One that a dead node has not begun waits for another.
    TakeBack,
    /// One that a dead node had begun has ended.
    Abandon,
    /// Work that an earlier repair left gives way to a later one's.
    Supersede,
}

impl Verb {
    /// The table's entry.
    pub(crate) fn rule(self) -> &'static Rule {
        match self {
            Self::DeclareDead => &DECLARE_DEAD,
            Self::Leave => &LEAVE,
            Self::SetPolicy => &SET_POLICY,
            Self::Pause => &PAUSE,
            Self::PassPaused => &PASS_PAUSED,
            Self::Resume => &RESUME,
            Self::Repair => &REPAIR,
            Self::Quarantine => &QUARANTINE,
            Self::Start => &START,
            Self::Finish => &FINISH,
            Self::GiveBack => &GIVE_BACK,
            Self::TakeBack => &TAKE_BACK,
            Self::Abandon => &ABANDON,
            Self::Supersede => &SUPERSEDE,
        }
    }
}

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct Rule {
    /// How errors call it.
    pub operation: &'static str,
    pub table: Table,
    pub guard: &'static Guard,
    /// The states of an execution that the guard lets pass; none: the one that was seen.
    pub from: &'static [ExecutionState],
    /// The states that an execution may have afterwards.
    #[cfg_attr(not(test), allow(dead_code, reason = "compared with the state machine by a test"))]
    pub to: &'static [ExecutionState],
    /// The values of the change that the assignments need.
    pub brings: &'static [Brought],
    pub sets: &'static [(Column, Set)],
    pub held: Held,
    /// A row that is already so, under one's own token, counts as changed: its first answer was lost.
    pub repeats: bool,
}

/// A table whose rows change by this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Node,
    Job,
    Schedule,
    Execution,
}

/// What happens to a row that another transaction holds locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// It is waited for.
    Wait,
    /// It is left alone, and its change is lost.
    Leave,
}

/// A value that a change brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    Now,
    /// The state afterwards.
    Becomes,
    Error,
    /// The token of a row that is nobody's.
    Fresh,
    Reason,
    ToPrev,
    ToNext,
    /// How many occurrences a cursor passes.
    Passed,
    PausedBy,
    Recover,
    MaxAttempts,
    MaxTries,
    RetryDelay,
}

impl Brought {
    /// What SQL calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Becomes => "becomes",
            Self::Error => "error",
            Self::Fresh => "fresh",
            Self::Reason => "reason",
            Self::ToPrev => "to_prev",
            Self::ToNext => "to_next",
            Self::Passed => "passed",
            Self::PausedBy => "paused_by",
            Self::Recover => "to_recover",
            Self::MaxAttempts => "to_attempts",
            Self::MaxTries => "to_tries",
            Self::RetryDelay => "to_delay",
        }
    }
}

/// What a column becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    /// This word.
    Word(&'static str),
    /// No instant: -1.
    None,
    /// What the change brings.
    Brought(Brought),
    /// The database's own clock.
    Clock,
    /// One more.
    OneMore,
    /// One more; what is no count that can grow begins anew at 0.
    Recount,
    /// More by what the change brings. A figure for people, which stands still before it overflows.
    More(Brought),
    /// The empty text if the change brings this state and the reason is one of those an attempt is made for:
    /// why a failed attempt was made is not why it failed.
    EmptyOn(ExecutionState, &'static [Reason]),
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Datum<'a> {
    Null,
    Number(i64),
    Text(&'a str),
    Uuid(uuid::Uuid),
}

impl Datum<'_> {
    /// An instant; -1 says none.
    pub(crate) fn time(time: Option<Millis>) -> Self {
        Datum::Number(time.unwrap_or(super::when::NONE))
    }
}

/// How a guard compares a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen<'a> {
    Same(Datum<'a>),
    /// A number of a row that nobody understands: NULL, or what is no number, counts as -1.
    Loosely(i64),
    /// No state of ours, NULL and what is no text included.
    NoState,
}

const WAITED: &[Reason] = &[Reason::Retry, Reason::Recovery, Reason::GivenBack];

const START: Rule = Rule {
    operation: "settle",
    table: Table::Execution,
    guard: &guard::START,
    from: &[ExecutionState::Claimed],
    to: &[ExecutionState::Running],
    brings: &[Brought::Now],
    sets: &[
        (Column::State, Set::Word(ExecutionState::Running.as_str())),
        (Column::StartedTime, Set::Brought(Brought::Now)),
    ],
    held: Held::Wait,
    repeats: true,
};

const FINISH: Rule = Rule {
    operation: "settle",
    table: Table::Execution,
    guard: &guard::OUTCOME,
    from: &[ExecutionState::Running],
    to: &[ExecutionState::Succeeded, ExecutionState::Failed],
    brings: &[Brought::Now, Brought::Becomes, Brought::Error],
    sets: &[
        (Column::State, Set::Brought(Brought::Becomes)),
        (Column::Error, Set::Brought(Brought::Error)),
        (Column::FinishedTime, Set::Brought(Brought::Now)),
        (Column::Reason, Set::EmptyOn(ExecutionState::Failed, WAITED)),
    ],
    held: Held::Wait,
    repeats: true,
};

/// Nobody's again: due as it was, under a token that nobody has seen.
const NOBODYS: &[(Column, Set)] = &[
    (Column::State, Set::Word(ExecutionState::Pending.as_str())),
    (Column::ClaimToken, Set::Brought(Brought::Fresh)),
    (Column::Reason, Set::Brought(Brought::Reason)),
    (Column::Node, Set::Word("")),
    (Column::ClaimedTime, Set::None),
    (Column::StartedTime, Set::None),
];

const GIVE_BACK: Rule = Rule {
    operation: "settle",
    table: Table::Execution,
    guard: &guard::OUTCOME,
    from: &[ExecutionState::Claimed, ExecutionState::Running],
    to: &[ExecutionState::Pending],
    brings: &[Brought::Fresh, Brought::Reason],
    sets: NOBODYS,
    held: Held::Wait,
    repeats: true,
};

const TAKE_BACK: Rule = Rule {
    operation: "revoke executions",
    table: Table::Execution,
    guard: &guard::REVOKE,
    from: &[ExecutionState::Claimed],
    to: &[ExecutionState::Pending],
    brings: &[Brought::Fresh, Brought::Reason],
    sets: NOBODYS,
    held: Held::Leave,
    repeats: false,
};

const ABANDON: Rule = Rule {
    operation: "revoke executions",
    table: Table::Execution,
    guard: &guard::REVOKE,
    from: &[ExecutionState::Running],
    to: &[ExecutionState::Abandoned, ExecutionState::Failed],
    brings: &[Brought::Now, Brought::Becomes, Brought::Reason],
    sets: &[
        (Column::State, Set::Brought(Brought::Becomes)),
        (Column::Reason, Set::Brought(Brought::Reason)),
        (Column::FinishedTime, Set::Brought(Brought::Now)),
    ],
    held: Held::Leave,
    repeats: false,
};

const SUPERSEDE: Rule = Rule {
    operation: "repair schedules",
    table: Table::Execution,
    guard: &guard::SUPERSEDE,
    from: &[ExecutionState::Pending],
    to: &[ExecutionState::Skipped],
    brings: &[Brought::Now, Brought::Reason],
    sets: &[
        (Column::State, Set::Word(ExecutionState::Skipped.as_str())),
        (Column::Reason, Set::Brought(Brought::Reason)),
        (Column::FinishedTime, Set::Brought(Brought::Now)),
        (Column::ClaimToken, Set::Word("")),
    ],
    held: Held::Wait,
    repeats: false,
};

const MOVED: &[Brought] = &[Brought::ToPrev, Brought::ToNext, Brought::Becomes, Brought::Passed];

const MOVE: [(Column, Set); 5] = [
    (Column::PrevFireTime, Set::Brought(Brought::ToPrev)),
    (Column::NextFireTime, Set::Brought(Brought::ToNext)),
    (Column::State, Set::Brought(Brought::Becomes)),
    (Column::Version, Set::OneMore),
    (Column::TimeTriggered, Set::More(Brought::Passed)),
];

const REPAIR: Rule = Rule {
    operation: "repair schedules",
    table: Table::Schedule,
    guard: &guard::REPAIR,
    from: &[],
    to: &[],
    brings: MOVED,
    sets: &MOVE,
    held: Held::Leave,
    repeats: false,
};

/// An operator waits for it.
const PASS_PAUSED: Rule = Rule { held: Held::Wait, ..REPAIR };

const RESUME: Rule = Rule {
    sets: &[
        MOVE[0],
        MOVE[1],
        MOVE[2],
        MOVE[3],
        MOVE[4],
        (Column::Reason, Set::Word("")),
        (Column::PausedBy, Set::Word("")),
        (Column::PausedTime, Set::None),
        (Column::PausedUntil, Set::None),
    ],
    ..PASS_PAUSED
};

const PAUSE: Rule = Rule {
    operation: "pause a schedule",
    table: Table::Schedule,
    guard: &guard::EDIT,
    from: &[],
    to: &[],
    brings: &[Brought::PausedBy, Brought::Reason],
    sets: &[
        (Column::State, Set::Word(ScheduleState::Paused.as_str())),
        (Column::PausedBy, Set::Brought(Brought::PausedBy)),
        (Column::Reason, Set::Brought(Brought::Reason)),
        (Column::PausedTime, Set::Clock),
        (Column::Version, Set::OneMore),
    ],
    held: Held::Wait,
    repeats: false,
};

const QUARANTINE: Rule = Rule {
    operation: "quarantine a schedule",
    table: Table::Schedule,
    guard: &guard::QUARANTINE,
    from: &[],
    to: &[],
    brings: &[Brought::Reason],
    sets: &[
        (Column::State, Set::Word(ScheduleState::Error.as_str())),
        (Column::Reason, Set::Brought(Brought::Reason)),
        (Column::Version, Set::Recount),
    ],
    held: Held::Wait,
    repeats: false,
};

const SET_POLICY: Rule = Rule {
    operation: "register the node",
    table: Table::Job,
    guard: &guard::POLICY,
    from: &[],
    to: &[],
    brings: &[Brought::Now, Brought::Recover, Brought::MaxAttempts, Brought::MaxTries, Brought::RetryDelay],
    sets: &[
        (Column::Recover, Set::Brought(Brought::Recover)),
        (Column::MaxAttempts, Set::Brought(Brought::MaxAttempts)),
        (Column::MaxTries, Set::Brought(Brought::MaxTries)),
        (Column::RetryDelay, Set::Brought(Brought::RetryDelay)),
        (Column::UpdateTime, Set::Brought(Brought::Now)),
    ],
    held: Held::Wait,
    repeats: false,
};

const DECLARE_DEAD: Rule = Rule {
    operation: "declare a node dead",
    table: Table::Node,
    guard: &guard::BEAT,
    from: &[],
    to: &[],
    brings: &[Brought::Now],
    sets: &[(Column::EndedTime, Set::Brought(Brought::Now)), (Column::EndReason, Set::Word("dead"))],
    held: Held::Wait,
    repeats: false,
};

const LEAVE: Rule = Rule {
    operation: "leave",
    guard: &guard::LEAVE,
    sets: &[(Column::EndedTime, Set::Brought(Brought::Now)), (Column::EndReason, Set::Word("stopped"))],
    ..DECLARE_DEAD
};

/// A change of one execution: of one's own, by its claim token, or of one that nobody answers for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExecutionChange {
    pub verb: Verb,
    pub execution: ExecutionId,
    /// The guard: it is under this token
    pub token: Token,
    /// and in this state, where the rule does not name the states.
    pub state: ExecutionState,
    pub becomes: ExecutionState,
    /// The token it has as nobody's.
    pub fresh: Option<Token>,
    pub reason: Option<Reason>,
    pub error: Option<String>,
    /// The attempt that follows it.
    pub next: Option<NextAttempt>,
    pub now: Millis,
}

/// An attempt that is made with the end of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextAttempt {
    pub due: Millis,
    pub token: Token,
    pub reason: Reason,
}

impl NextAttempt {
    pub(crate) fn new(due: Millis, reason: Reason) -> Self {
        Self { due, token: Token::fresh(), reason }
    }
}

impl ExecutionChange {
    /// The token the execution has afterwards.
    pub(crate) fn token_after(&self) -> Token {
        self.fresh.unwrap_or(self.token)
    }

    fn seen(&self, column: Column) -> Seen<'_> {
        Seen::Same(match column {
            Column::Id => Datum::Number(self.execution.0),
            Column::State => Datum::Text(self.state.as_str()),
            Column::ClaimToken => Datum::Uuid(self.token.0),
            _ => column.absent(Datum::Null),
        })
    }

    fn brings(&self, value: Brought) -> Datum<'_> {
        match value {
            Brought::Now => Datum::Number(self.now),
            Brought::Becomes => Datum::Text(self.becomes.as_str()),
            Brought::Fresh => self.fresh.map_or(Datum::Null, |token| Datum::Uuid(token.0)),
            Brought::Reason => Datum::Text(self.reason.map_or("", Reason::as_str)),
            Brought::Error => Datum::Text(self.error.as_deref().unwrap_or("")),
            _ => value.missing(),
        }
    }
}

/// A pause of an active schedule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pause {
    pub id: ScheduleId,
    /// The guard: the row must still have this version.
    pub version: i64,
    /// Who pauses it, and why: for people.
    pub by: String,
    pub reason: String,
}

/// A job's policies as its node has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PolicyChange {
    pub job: i64,
    /// The guard: the policies that were read.
    pub seen: JobPolicy,
    pub becomes: JobPolicy,
    pub now: Millis,
}

/// The end of a node's row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeEnd {
    pub node: NodeId,
    /// The beat at which another saw it stand still; none if the node itself says that it has stopped.
    pub beat: Option<i64>,
    pub now: Millis,
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
    pub(crate) fn supersede(&self, now: Millis) -> ExecutionChange {
        ExecutionChange {
            verb: Verb::Supersede,
            execution: self.execution,
            token: self.token,
            state: ExecutionState::Pending,
            becomes: ExecutionState::Skipped,
            fresh: None,
            reason: Some(Reason::Superseded),
            error: None,
            next: None,
            now,
        }
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
    /// Where it moves; `next: None` completes the schedule.
    pub to: Cursor,
    /// How many planned occurrences the move passes.
    pub passed: u64,
    pub rows: Vec<LedgerRow>,
    /// These become SKIPPED (superseded), if they are still PENDING under the token seen.
    pub supersede: Vec<Unstarted>,
    /// The move ends a pause: PAUSED becomes active (or complete).
    pub resume: bool,
    pub now: Millis,
}

impl Repair {
    fn verb(&self) -> Verb {
        match self.state {
            _ if self.resume => Verb::Resume,
            ScheduleState::Paused => Verb::PassPaused,
            _ => Verb::Repair,
        }
    }

    fn becomes(&self) -> ScheduleState {
        match self.to.next {
            None => ScheduleState::Complete,
            Some(_) if self.resume => ScheduleState::Active,
            Some(_) => self.state,
        }
    }

    /// How many rows it writes.
    pub(crate) fn writes(&self) -> usize {
        1 + self.rows.len() + self.supersede.len()
    }
}

/// A ledger row made by repair.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LedgerRow {
    /// `count` occurrences from `from` to `to` deliberately not run.
    Skipped {
        from: Millis,
        to: Millis,
        count: u64,
        prev: Option<Millis>,
        following: Option<Millis>,
        reason: Reason,
    },
    /// One occurrence to run once it is `due`.
    Pending { at: Millis, due: Millis, prev: Option<Millis>, following: Option<Millis>, reason: Reason },
}

/// A schedule's row that cannot be understood, with the values its guard compares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Broken {
    pub id: ScheduleId,
    /// The schedule's [name or id](super::called).
    pub name: Arc<str>,
    pub version: i64,
    pub state: String,
    pub reason: String,
}

/// Why an execution is in the state it is in (`QRTZ_RUN.reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    Misfire,
    Superseded,
    Paused,
    Recovery,
    Retry,
    /// Claimed but not started in time, or handed back at shutdown.
    GivenBack,
    AttemptsExhausted,
    NodeDied,
}

impl Reason {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Misfire => "misfire",
            Self::Superseded => "superseded",
            Self::Paused => "paused",
            Self::Recovery => "recovery",
            Self::Retry => "retry",
            Self::GivenBack => "given back",
            Self::AttemptsExhausted => "attempts exhausted",
            Self::NodeDied => "node died",
        }
    }
}

impl Brought {
    /// The change's kind does not bring it: its rule is wrong, which a test must see.
    fn missing<'a>(self) -> Datum<'a> {
        let in_a_test = cfg!(test);
        assert!(!in_a_test, "a change does not bring {}", self.name());
        Datum::Null
    }
}

impl Change {
    pub(crate) fn verb(&self) -> Verb {
        match self {
            Self::Execution(change) => change.verb,
            Self::Repair(repair) => repair.verb(),
            Self::Pause(_) => Verb::Pause,
            Self::Quarantine(_) => Verb::Quarantine,
            Self::Policy(_) => Verb::SetPolicy,
            Self::End(NodeEnd { beat: Some(_), .. }) => Verb::DeclareDead,
            Self::End(_) => Verb::Leave,
        }
    }

    pub(crate) fn rule(&self) -> &'static Rule {
        self.verb().rule()
    }

    /// The attempt that follows the change of an execution.
    pub(crate) fn next_attempt(&self) -> Option<NextAttempt> {
        if let Self::Execution(change) = self { change.next } else { None }
    }

    /// The schedule whose row it changes, if it is one.
    #[cfg(test)]
    pub(crate) fn schedule(&self) -> Option<ScheduleId> {
        match self {
            Self::Repair(repair) => Some(repair.id),
            Self::Pause(pause) => Some(pause.id),
            Self::Quarantine(broken) => Some(broken.id),
            Self::Execution(_) | Self::Policy(_) | Self::End(_) => None,
        }
    }

    /// The value its guard compares a column with.
    pub(crate) fn seen(&self, column: Column) -> Seen<'_> {
        match self {
            Self::Execution(change) => change.seen(column),
            Self::Repair(repair) => Seen::Same(match column {
                Column::Id => Datum::Number(repair.id.0),
                Column::State => Datum::Text(repair.state.as_str()),
                Column::PrevFireTime => Datum::time(repair.cursor.prev),
                Column::NextFireTime => Datum::time(repair.cursor.next),
                Column::Version => Datum::Number(repair.version),
                _ => column.absent(Datum::Null),
            }),
            Self::Pause(pause) => Seen::Same(match column {
                Column::Id => Datum::Number(pause.id.0),
                Column::State => Datum::Text(ScheduleState::Active.as_str()),
                Column::Version => Datum::Number(pause.version),
                _ => column.absent(Datum::Null),
            }),
            Self::Quarantine(broken) => match column {
                Column::Id => Seen::Same(Datum::Number(broken.id.0)),
                Column::Version => Seen::Loosely(broken.version),
                Column::State if broken.state.parse::<ScheduleState>().is_err() => Seen::NoState,
                Column::State => Seen::Same(Datum::Text(&broken.state)),
                _ => Seen::Same(column.absent(Datum::Null)),
            },
            Self::Policy(change) => Seen::Same(match column {
                Column::Id => Datum::Number(change.job),
                Column::Recover => Datum::Number(change.seen.recover.into()),
                Column::MaxAttempts => Datum::Number(change.seen.max_attempts.into()),
                Column::MaxTries => Datum::Number(change.seen.max_tries.into()),
                Column::RetryDelay => Datum::Number(millis(change.seen.retry_delay)),
                _ => column.absent(Datum::Null),
            }),
            Self::End(end) => Seen::Same(match (column, end.beat) {
                (Column::Uuid, _) => Datum::Uuid(end.node.0),
                (Column::Beat, Some(beat)) => Datum::Number(beat),
                (Column::EndedTime, _) => Datum::time(None),
                _ => column.absent(Datum::Null),
            }),
        }
    }

    /// A value that its assignments need.
    pub(crate) fn brings(&self, value: Brought) -> Datum<'_> {
        match (self, value) {
            (Self::Execution(change), _) => change.brings(value),
            (Self::Repair(repair), Brought::ToPrev) => Datum::time(repair.to.prev),
            (Self::Repair(repair), Brought::ToNext) => Datum::time(repair.to.next),
            (Self::Repair(repair), Brought::Becomes) => Datum::Text(repair.becomes().as_str()),
            (Self::Repair(repair), Brought::Passed) => {
                Datum::Number(i64::try_from(repair.passed).unwrap_or(i64::MAX))
            }
            (Self::Pause(pause), Brought::PausedBy) => Datum::Text(&pause.by),
            (Self::Pause(pause), Brought::Reason) => Datum::Text(&pause.reason),
            (Self::Quarantine(broken), Brought::Reason) => Datum::Text(&broken.reason),
            (Self::Policy(change), Brought::Now) => Datum::Number(change.now),
            (Self::Policy(change), Brought::Recover) => Datum::Number(change.becomes.recover.into()),
            (Self::Policy(change), Brought::MaxAttempts) => Datum::Number(change.becomes.max_attempts.into()),
            (Self::Policy(change), Brought::MaxTries) => Datum::Number(change.becomes.max_tries.into()),
            (Self::Policy(change), Brought::RetryDelay) => Datum::Number(millis(change.becomes.retry_delay)),
            (Self::End(end), Brought::Now) => Datum::Number(end.now),
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

    const ALL: [Verb; 14] = [
        Verb::DeclareDead,
        Verb::Leave,
        Verb::SetPolicy,
        Verb::Pause,
        Verb::PassPaused,
        Verb::Resume,
        Verb::Repair,
        Verb::Quarantine,
        Verb::Start,
        Verb::Finish,
        Verb::GiveBack,
        Verb::TakeBack,
        Verb::Abandon,
        Verb::Supersede,
    ];

    #[test]
    fn the_table_changes_executions_along_the_arrows_alone() {
        let rules = ALL.map(Verb::rule);
        let changes = rules.iter().filter(|rule| rule.table == Table::Execution);
        for rule in changes {
            assert!(!rule.from.is_empty() && !rule.to.is_empty(), "{rule:?}");
            for (from, to) in rule.from.iter().flat_map(|from| rule.to.iter().map(move |to| (from, to))) {
                assert!(from.can_become(*to), "{} leads from {from:?} to {to:?}", rule.operation);
            }
        }
    }

    /// A value that is set and not brought would be NULL on a database.
    #[test]
    fn a_rule_brings_what_it_sets() {
        for verb in ALL {
            let rule = verb.rule();
            for (column, set) in rule.sets {
                let brought = match set {
                    Set::Brought(value) | Set::More(value) => rule.brings.contains(value),
                    Set::EmptyOn(..) => rule.brings.contains(&Brought::Becomes),
                    Set::Word(_) | Set::None | Set::Clock | Set::OneMore | Set::Recount => true,
                };
                assert!(brought, "{verb:?} does not bring what {column:?} becomes");
            }
        }
    }

    #[test]
    #[should_panic = "a change does not bring fresh"]
    fn a_value_that_is_not_brought_is_not_null() {
        let end = NodeEnd { node: NodeId::fresh(), beat: None, now: 0 };
        Change::End(end).brings(Brought::Fresh);
    }
}
