//! The table of changes: every guarded change of a row, once.
//!
//! A [`Change`] says which row, as it was seen, becomes what. Its [`Rule`] is the table's entry: the guard,
//! the assignments, whether a row that somebody holds is waited for, and whether a row that is already so
//! counts as changed. The SQL stores and the in-memory store interpret the same entries, so a new change is
//! an entry here and no code there.

use std::sync::Arc;

use self::Brought::{
    Becomes, Error, Fresh, MaxAttempts, MaxTries, Now, Passed, PausedBy, Recover, RetryDelay, ToNext, ToPrev,
    Why,
};
use self::Set::{Clock, EmptyOn, Give, More, NoTime, OneMore, Recount, Word};
use super::columns::Column;
use super::guard::{self, Guard};
use crate::domain::ExecutionState::{Abandoned, Claimed, Failed, Pending, Running, Skipped, Succeeded};
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
    /// The reason.
    Why,
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
            Self::Why => "reason",
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
    NoTime,
    /// What the change brings.
    Give(Brought),
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

impl Rule {
    /// A change that waits for a held row and is made once.
    const fn of(operation: &'static str, table: Table, guard: &'static Guard) -> Self {
        Self {
            operation,
            table,
            guard,
            from: &[],
            to: &[],
            brings: &[],
            sets: &[],
            held: Held::Wait,
            repeats: false,
        }
    }

    const fn leads(self, from: &'static [ExecutionState], to: &'static [ExecutionState]) -> Self {
        Self { from, to, ..self }
    }

    const fn brings(self, brings: &'static [Brought]) -> Self {
        Self { brings, ..self }
    }

    const fn sets(self, sets: &'static [(Column, Set)]) -> Self {
        Self { sets, ..self }
    }

    /// One that leaves held rows alone.
    const fn leaves_held(self) -> Self {
        Self { held: Held::Leave, ..self }
    }

    /// One that may be said twice.
    const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }
}

const START: Rule = Rule::of("settle", Table::Execution, &guard::START)
    .leads(&[Claimed], &[Running])
    .brings(&[Now])
    .sets(&[(Column::State, Word(Running.as_str())), (Column::StartedTime, Give(Now))])
    .repeats();

const FINISH: Rule = Rule::of("settle", Table::Execution, &guard::OUTCOME)
    .leads(&[Running], &[Succeeded, Failed])
    .brings(&[Now, Becomes, Error])
    .sets(&[
        (Column::State, Give(Becomes)),
        (Column::Error, Give(Error)),
        (Column::FinishedTime, Give(Now)),
        (Column::Reason, EmptyOn(Failed, &[Reason::Retry, Reason::Recovery, Reason::GivenBack])),
    ])
    .repeats();

/// Nobody's again: due as it was, under a token that nobody has seen.
const NOBODYS: &[(Column, Set)] = &[
    (Column::State, Word(Pending.as_str())),
    (Column::ClaimToken, Give(Fresh)),
    (Column::Reason, Give(Why)),
    (Column::Node, Word("")),
    (Column::ClaimedTime, NoTime),
    (Column::StartedTime, NoTime),
];

const GIVE_BACK: Rule = Rule::of("settle", Table::Execution, &guard::OUTCOME)
    .leads(&[Claimed, Running], &[Pending])
    .brings(&[Fresh, Why])
    .sets(NOBODYS)
    .repeats();

const TAKE_BACK: Rule = Rule::of("revoke executions", Table::Execution, &guard::REVOKE)
    .leads(&[Claimed], &[Pending])
    .brings(&[Fresh, Why])
    .sets(NOBODYS)
    .leaves_held();

const ABANDON: Rule = Rule::of("revoke executions", Table::Execution, &guard::REVOKE)
    .leads(&[Running], &[Abandoned, Failed])
    .brings(&[Now, Becomes, Why])
    .sets(&[(Column::State, Give(Becomes)), (Column::Reason, Give(Why)), (Column::FinishedTime, Give(Now))])
    .leaves_held();

const SUPERSEDE: Rule = Rule::of("repair schedules", Table::Execution, &guard::SUPERSEDE)
    .leads(&[Pending], &[Skipped])
    .brings(&[Now, Why])
    .sets(&[
        (Column::State, Word(Skipped.as_str())),
        (Column::Reason, Give(Why)),
        (Column::FinishedTime, Give(Now)),
        (Column::ClaimToken, Word("")),
    ]);

/// A cursor moves. An operator waits for it.
const PASS_PAUSED: Rule = Rule::of("repair schedules", Table::Schedule, &guard::REPAIR)
    .brings(&[ToPrev, ToNext, Becomes, Passed])
    .sets(&[
        (Column::PrevFireTime, Give(ToPrev)),
        (Column::NextFireTime, Give(ToNext)),
        (Column::State, Give(Becomes)),
        (Column::Version, OneMore),
        (Column::TimeTriggered, More(Passed)),
    ]);

const REPAIR: Rule = PASS_PAUSED.leaves_held();

const RESUME: Rule = PASS_PAUSED.sets(&[
    (Column::PrevFireTime, Give(ToPrev)),
    (Column::NextFireTime, Give(ToNext)),
    (Column::State, Give(Becomes)),
    (Column::Version, OneMore),
    (Column::TimeTriggered, More(Passed)),
    (Column::Reason, Word("")),
    (Column::PausedBy, Word("")),
    (Column::PausedTime, NoTime),
    (Column::PausedUntil, NoTime),
]);

const PAUSE: Rule =
    Rule::of("pause a schedule", Table::Schedule, &guard::EDIT).brings(&[PausedBy, Why]).sets(&[
        (Column::State, Word(ScheduleState::Paused.as_str())),
        (Column::PausedBy, Give(PausedBy)),
        (Column::Reason, Give(Why)),
        (Column::PausedTime, Clock),
        (Column::Version, OneMore),
    ]);

const QUARANTINE: Rule =
    Rule::of("quarantine a schedule", Table::Schedule, &guard::QUARANTINE).brings(&[Why]).sets(&[
        (Column::State, Word(ScheduleState::Error.as_str())),
        (Column::Reason, Give(Why)),
        (Column::Version, Recount),
    ]);

const SET_POLICY: Rule = Rule::of("register the node", Table::Job, &guard::POLICY)
    .brings(&[Now, Recover, MaxAttempts, MaxTries, RetryDelay])
    .sets(&[
        (Column::Recover, Give(Recover)),
        (Column::MaxAttempts, Give(MaxAttempts)),
        (Column::MaxTries, Give(MaxTries)),
        (Column::RetryDelay, Give(RetryDelay)),
        (Column::UpdateTime, Give(Now)),
    ]);

const DECLARE_DEAD: Rule = Rule::of("declare a node dead", Table::Node, &guard::BEAT)
    .brings(&[Now])
    .sets(&[(Column::EndedTime, Give(Now)), (Column::EndReason, Word("dead"))]);

const LEAVE: Rule = Rule::of("leave", Table::Node, &guard::LEAVE)
    .brings(&[Now])
    .sets(&[(Column::EndedTime, Give(Now)), (Column::EndReason, Word("stopped"))]);

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
            Now => Datum::Number(self.now),
            Becomes => Datum::Text(self.becomes.as_str()),
            Fresh => self.fresh.map_or(Datum::Null, |token| Datum::Uuid(token.0)),
            Why => Datum::Text(self.reason.map_or("", Reason::as_str)),
            Error => Datum::Text(self.error.as_deref().unwrap_or("")),
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
            (Self::Repair(repair), ToPrev) => Datum::time(repair.to.prev),
            (Self::Repair(repair), ToNext) => Datum::time(repair.to.next),
            (Self::Repair(repair), Becomes) => Datum::Text(repair.becomes().as_str()),
            (Self::Repair(repair), Passed) => Datum::Number(i64::try_from(repair.passed).unwrap_or(i64::MAX)),
            (Self::Pause(pause), PausedBy) => Datum::Text(&pause.by),
            (Self::Pause(pause), Why) => Datum::Text(&pause.reason),
            (Self::Quarantine(broken), Why) => Datum::Text(&broken.reason),
            (Self::Policy(change), Now) => Datum::Number(change.now),
            (Self::Policy(change), Recover) => Datum::Number(change.becomes.recover.into()),
            (Self::Policy(change), MaxAttempts) => Datum::Number(change.becomes.max_attempts.into()),
            (Self::Policy(change), MaxTries) => Datum::Number(change.becomes.max_tries.into()),
            (Self::Policy(change), RetryDelay) => Datum::Number(millis(change.becomes.retry_delay)),
            (Self::End(end), Now) => Datum::Number(end.now),
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
                    Give(value) | More(value) => rule.brings.contains(value),
                    EmptyOn(..) => rule.brings.contains(&Becomes),
                    Word(_) | NoTime | Clock | OneMore | Recount => true,
                };
                assert!(brought, "{verb:?} does not bring what {column:?} becomes");
            }
        }
    }

    #[test]
    #[should_panic = "a change does not bring fresh"]
    fn a_value_that_is_not_brought_is_not_null() {
        let end = NodeEnd { node: NodeId::fresh(), beat: None, now: 0 };
        Change::End(end).brings(Fresh);
    }
}
