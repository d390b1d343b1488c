//! The table of changes: every guarded change of a row, once.
//!
//! A [`Rule`] is an entry: the guard, the assignments, whether a row that somebody holds is waited for, and
//! whether a row that is already so counts as changed. The SQL stores and the in-memory store interpret the
//! same entries, so a new change is an entry here, with its values in `change.rs`.

use self::ChangeValue::{
    Becomes, Due, Error, Fresh, GroupKey, Headers, Lane, Now, Passed, PausedBy, PausedTime, PausedUntil,
    Payload, Priority, Tags, ToNext, ToPrev, Why,
};
use self::Set::{
    Clock, CompleteWithoutNext, EmptyOn, Give, More, NoTime, OneMore, Recount, Tally, Unless, Word,
};
use super::columns::{Column, Datum, JobColumn, NO_PRIORITY, named};
use super::guard::{self, Guard};
use crate::domain::ExecutionState::{
    Abandoned, Cancelled, Claimed, Failed, Pending, Running, Skipped, Succeeded, TimedOut,
};
use crate::domain::{ExecutionState, Reason, ScheduleState};

/// Defines the kinds of changes, each with its entry of the table.
macro_rules! kinds {
    ($(#[$doc:meta])* $Name:ident { $($(#[$kind_doc:meta])* $Kind:ident = $RULE:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum $Name { $($(#[$kind_doc])* $Kind,)* }

        impl $Name {
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$Kind),*];

            /// The table's entry.
            pub(crate) fn rule(self) -> &'static Rule {
                match self { $(Self::$Kind => &$RULE,)* }
            }
        }
    };
}

kinds! {
    /// The kinds of changes, in the order in which one call makes them: applications, nodes, jobs, schedules,
    /// then executions, each kind by id; an execution starts before it ends. All changes of
    /// schedules in a call that waits for held ones are of one kind.
    ChangeKind {
        /// An application is paused or resumed.
        SwitchApp = SWITCH_APP,
        /// None of an application's pauses is over: it notes when the next one is.
        NotePauseEnd = NOTE_PAUSE_END,
        /// A node is paused, drained or resumed.
        SwitchNode = SWITCH_NODE,
        /// A job is paused or resumed.
        SwitchJob = SWITCH_JOB,
        /// A job notes that nobody can run it, that this was told, or that somebody can.
        NoteNobody = NOTE_NOBODY,
        /// A node that did not beat is declared dead.
        DeclareDead = DECLARE_DEAD,
        /// A node says that it has stopped.
        Leave = LEAVE,
        /// A node tells its job's policies.
        SetPolicy = SET_POLICY,
        /// An active schedule stops being claimed.
        Pause = PAUSE,
        /// An active schedule is paused for what failed.
        Contain = CONTAIN,
        /// The first occurrence of a schedule that has not succeeded in time is noted, or that there is none.
        NoteExpected = NOTE_EXPECTED,
        /// A cursor passes an occurrence that would overlap.
        PassOver = PASS_OVER,
        /// A cursor passes occurrences of a pause, or one that somebody skips; a held row is waited for.
        Pass = PASS,
        /// A cursor that waits for the end of a run moves behind it.
        PlanAfterRun = PLAN_AFTER_RUN,
        /// A pause ends.
        Resume = RESUME,
        /// An overdue cursor moves towards the present.
        Repair = REPAIR,
        /// A cursor that is ahead of the clock goes back to the present, in a generation of its own.
        PlanAnew = PLAN_ANEW,
        /// A row that cannot be understood goes into ERROR.
        Quarantine = QUARANTINE,
        /// A schedule is removed; its PENDING executions are cancelled.
        Remove = REMOVE,
        /// The handler begins.
        Start = START,
        /// The handler says how far it has come.
        Checkpoint = CHECKPOINT,
        /// The handler has ended.
        Finish = FINISH,
        /// The handler has ended well, and left a result.
        FinishWith = FINISH_WITH,
        /// The handler's own transaction stores that it has ended well. Not to be said twice: a second
        /// transaction, made because the first one's COMMIT had no answer, must not be committed beside it.
        Complete = COMPLETE,
        /// The same with a result.
        CompleteWith = COMPLETE_WITH,
        /// The handler's transaction may have stored its outcome: that is read, and nothing changes.
        Confirm = CONFIRM,
        /// The handler has ended, and no retry would help.
        GiveUp = GIVE_UP,
        /// The handler wants to go on later.
        Snooze = SNOOZE,
        /// Its payload could not be decoded on its node: it waits for another.
        PassOn = PASS_ON,
        /// Its time limit has passed, and the handler has not returned.
        TimeOut = TIME_OUT,
        /// The handler of one that ran out of time has returned, or its node is gone.
        Release = RELEASE,
        /// An execution that its node has not begun waits for another.
        GiveBack = GIVE_BACK,
        /// One that a dead node has not begun waits for another.
        TakeBack = TAKE_BACK,
        /// One that a dead node had begun has ended.
        Abandon = ABANDON,
        /// Work that an earlier repair left gives way to a later one's.
        Supersede = SUPERSEDE,
        /// An execution that has not begun ends without a run.
        Cancel = CANCEL,
        /// An enqueued execution that waits takes over the request of another with its key.
        Replace = REPLACE,
        /// An execution of a removed schedule that waits ends with it.
        Withdraw = WITHDRAW,
    }
}

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct Rule {
    /// How errors call it.
    pub operation: &'static str,
    pub table: Table,
    pub guard: &'static Guard,
    /// The states of an execution from which this change is allowed; none for other rows.
    pub from: &'static [ExecutionState],
    /// The states that an execution may have afterwards.
    #[cfg_attr(not(test), allow(dead_code, reason = "compared with the state machine by a test"))]
    pub to: &'static [ExecutionState],
    /// What another entry, which this one extends, assigns.
    base: &'static [(Column, Set)],
    sets: &'static [(Column, Set)],
    pub held: HeldRow,
    /// A row that is already so, under one's own token, counts as changed: its first answer was lost.
    pub repeats: bool,
}

/// A table whose rows change by this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Application,
    Node,
    Job,
    Schedule,
    Expected,
    Execution,
}

/// What happens to a row that another transaction holds locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldRow {
    /// It is waited for.
    Wait,
    /// It is left alone, and its change is lost.
    Leave,
}

named! {
    /// A value that a change brings along, in the order in which statements name them.
    ChangeValue, JobColumn::brought {
        Now = "now",
        ToPrev = "to_prev",
        ToNext = "to_next",
        PausedBy = "paused_by",
        PausedTime = "to_paused",
        PausedUntil = "to_until",
        /// The state afterwards.
        Becomes = "becomes",
        Error = "error",
        /// The token of a row that is nobody's.
        Fresh = "fresh",
        /// The reason.
        Why = "reason",
        /// When it may run.
        Due = "due",
        /// How many occurrences a cursor passes.
        Passed = "passed",
        Payload = "to_payload",
        Priority = "to_priority",
        GroupKey = "to_group",
        Lane = "to_lane",
        Tags = "to_tags",
        Headers = "to_headers",
        Checkpoint = "to_checkpoint",
        Result = "to_result",
        NobodySince = "to_nobody",
        NobodyTold = "to_told",
        Unmet = "to_unmet",
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
    Give(ChangeValue),
    /// What the change brings, or NULL if that is this.
    Unless(Datum<'static>, ChangeValue),
    /// The database's own clock.
    Clock,
    /// One more.
    OneMore,
    /// One more than a count whose NULL is 0.
    Tally,
    /// Adds one; a NULL, negative, non-numeric or maximal value becomes 0.
    Recount,
    /// More by what the change brings. A figure for people, which stands still before it overflows.
    More(ChangeValue),
    /// COMPLETE, where the change brings no next fire time and the schedule fires or is paused.
    CompleteWithoutNext,
    /// Clears the reason when the execution enters this state and the reason only said why the attempt was
    /// made.
    EmptyOn(ExecutionState, &'static [Reason]),
}

impl Rule {
    /// A change that waits for a held row and is made once.
    const fn of(operation: &'static str, table: Table, guard: &'static Guard) -> Self {
        let held = HeldRow::Wait;
        Self { operation, table, guard, from: &[], to: &[], base: &[], sets: &[], held, repeats: false }
    }

    const fn leads(self, from: &'static [ExecutionState], to: &'static [ExecutionState]) -> Self {
        assert!(from.len() <= 2, "statements name two states at most");
        Self { from, to, ..self }
    }

    const fn sets(self, sets: &'static [(Column, Set)]) -> Self {
        Self { base: &[], sets, ..self }
    }

    /// Assigns these, too.
    const fn and(self, sets: &'static [(Column, Set)]) -> Self {
        assert!(self.base.is_empty(), "an entry extends one that extends none");
        Self { base: self.sets, sets, ..self }
    }

    pub(crate) fn assignments(&self) -> impl Iterator<Item = &'static (Column, Set)> {
        self.base.iter().chain(self.sets)
    }

    /// One that leaves held rows alone.
    const fn leaves_held(self) -> Self {
        Self { held: HeldRow::Leave, ..self }
    }

    /// Whether it changes nothing: it asks whether a row is already so.
    pub(crate) fn only_asks(&self) -> bool {
        self.assignments().next().is_none()
    }

    /// One that may be said twice.
    const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }

    /// The values of the change that the assignments need, each once.
    #[cfg(any(feature = "sql", feature = "testing", test))]
    pub(crate) fn brings(&self) -> impl Iterator<Item = ChangeValue> {
        let all = ChangeValue::ALL.iter().copied().chain(JobColumn::ALL.map(ChangeValue::Job));
        all.filter(|value| self.assignments().any(|(_, set)| set.needs(*value)))
    }
}

impl Set {
    #[cfg(any(feature = "sql", feature = "testing", test))]
    fn needs(self, value: ChangeValue) -> bool {
        match self {
            Give(brought) | Unless(_, brought) | More(brought) => brought == value,
            EmptyOn(..) => value == Becomes,
            CompleteWithoutNext => value == ToNext,
            Word(_) | NoTime | Clock | OneMore | Tally | Recount => false,
        }
    }
}

const START: Rule = Rule::of("settle", Table::Execution, &guard::START)
    .leads(&[Claimed], &[Running])
    .sets(&[(Column::State, Word(Running.as_str())), (Column::StartedTime, Give(Now))])
    .repeats();

/// Reasons that only say why an execution was run.
const REASONS_OF_RUNS: &[Reason] =
    &[Reason::Retry, Reason::Recovery, Reason::GivenBack, Reason::Interrupted, Reason::Undecodable];

const FINISH: Rule = Rule::of("settle", Table::Execution, &guard::OUTCOME)
    .leads(&[Running], &[Succeeded, Failed, Cancelled])
    .sets(&[
        (Column::State, Give(Becomes)),
        (Column::Error, Give(Error)),
        (Column::FinishedTime, Give(Now)),
        (Column::Reason, EmptyOn(Failed, REASONS_OF_RUNS)),
    ])
    .repeats();

const RESULT: &[(Column, Set)] = &[(Column::Result, Give(ChangeValue::Result))];

const FINISH_WITH: Rule = FINISH.leads(&[Running], &[Succeeded]).and(RESULT);

const CHECKPOINT: Rule = Rule::of("store a checkpoint", Table::Execution, &guard::CHECKPOINT)
    .leads(&[Running], &[Running])
    .sets(&[(Column::Checkpoint, Give(ChangeValue::Checkpoint))]);

const COMPLETE: Rule =
    Rule { guard: &guard::COMPLETE, repeats: false, ..FINISH.leads(&[Running], &[Succeeded]) };

const COMPLETE_WITH: Rule = COMPLETE.and(RESULT);

const CONFIRM: Rule =
    Rule::of("settle", Table::Execution, &guard::OUTCOME).leads(&[], &[Succeeded]).repeats();

const GIVE_UP: Rule = FINISH.leads(&[Running], &[Failed]).sets(&[
    (Column::State, Word(Failed.as_str())),
    (Column::Error, Give(Error)),
    (Column::FinishedTime, Give(Now)),
    (Column::Reason, Give(Why)),
]);

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
    .sets(NOBODYS)
    .repeats();

const SNOOZE: Rule =
    GIVE_BACK.leads(&[Running], &[Pending]).and(&[(Column::DueTime, Give(Due)), (Column::Snoozes, Tally)]);

const PASS_ON: Rule = GIVE_BACK.leads(&[Running], &[Pending]).and(&[(Column::Error, Give(Error))]);

/// It has not finished: retention leaves it while its handler runs on.
const TIME_OUT: Rule = FINISH.leads(&[Running], &[TimedOut]).sets(&[
    (Column::State, Word(TimedOut.as_str())),
    (Column::Error, Give(Error)),
    (Column::Reason, Word("")),
]);

/// The outcome of a timed-out execution stays; the reason says whether its node is gone. The new token makes
/// a second release lose.
const RELEASE: Rule = Rule::of("settle", Table::Execution, &guard::RELEASE)
    .leads(&[TimedOut], &[TimedOut])
    .sets(&[
        (Column::ClaimToken, Give(Fresh)),
        (Column::Reason, Give(Why)),
        (Column::FinishedTime, Give(Now)),
    ])
    .repeats();

const TAKE_BACK: Rule = Rule::of("revoke executions", Table::Execution, &guard::REVOKE)
    .leads(&[Claimed], &[Pending])
    .sets(NOBODYS)
    .leaves_held();

const ABANDON: Rule = Rule::of("revoke executions", Table::Execution, &guard::REVOKE)
    .leads(&[Running], &[Abandoned, Failed])
    .sets(&[(Column::State, Give(Becomes)), (Column::Reason, Give(Why)), (Column::FinishedTime, Give(Now))])
    .leaves_held();

/// What an execution becomes that ends in a state without a run.
const fn unrun(state: ExecutionState) -> [(Column, Set); 4] {
    [
        (Column::State, Word(state.as_str())),
        (Column::Reason, Give(Why)),
        (Column::FinishedTime, Give(Now)),
        (Column::ClaimToken, Word("")),
    ]
}

const SUPERSEDE: Rule = Rule::of("repair schedules", Table::Execution, &guard::SUPERSEDE)
    .leads(&[Pending], &[Skipped])
    .sets(&const { unrun(Skipped) });

const CANCEL: Rule = Rule::of("cancel executions", Table::Execution, &guard::CANCEL)
    .leads(&[Pending, Claimed], &[Cancelled])
    .sets(&const { unrun(Cancelled) });

/// Under another token, a claim that is under way is lost.
const REPLACE: Rule =
    Rule::of("enqueue", Table::Execution, &guard::REPLACE).leads(&[Pending], &[Pending]).sets(&[
        (Column::Payload, Give(Payload)),
        (Column::GroupKey, Unless(Datum::Text(""), GroupKey)),
        (Column::Lane, Unless(Datum::Text(""), Lane)),
        (Column::Tags, Unless(Datum::Text(""), Tags)),
        (Column::Headers, Unless(Datum::Text(""), Headers)),
        (Column::Priority, Unless(Datum::Number(NO_PRIORITY), Priority)),
        (Column::ScheduledTime, Give(Due)),
        (Column::DueTime, Give(Due)),
        (Column::ClaimToken, Give(Fresh)),
    ]);

const WITHDRAW: Rule = Rule { guard: &guard::WITHDRAW, ..CANCEL }.leads(&[Pending], &[Cancelled]);

/// A cursor moves. An operator waits for it.
const PASS: Rule = Rule::of("repair schedules", Table::Schedule, &guard::REPAIR).sets(&[
    (Column::PrevFireTime, Give(ToPrev)),
    (Column::NextFireTime, Give(ToNext)),
    (Column::State, Give(Becomes)),
    (Column::Version, OneMore),
    (Column::TimeTriggered, More(Passed)),
]);

const REPAIR: Rule = PASS.leaves_held();

/// The version stays: the links that other nodes have planned behind it stay valid, as behind a claim.
const PASS_OVER: Rule = REPAIR.sets(&[
    (Column::PrevFireTime, Give(ToPrev)),
    (Column::NextFireTime, Give(ToNext)),
    (Column::State, Give(Becomes)),
    (Column::TimeTriggered, More(Passed)),
]);

const PLAN_AFTER_RUN: Rule = Rule::of("settle", Table::Schedule, &guard::AFTER_RUN)
    .sets(&[(Column::NextFireTime, Give(ToNext)), (Column::State, CompleteWithoutNext)]);

const PLAN_ANEW: Rule = REPAIR.sets(&[
    (Column::PrevFireTime, Give(ToPrev)),
    (Column::NextFireTime, Give(ToNext)),
    (Column::Generation, OneMore),
    (Column::Version, OneMore),
]);

const RESUME: Rule = PASS.and(&[
    (Column::Reason, Word("")),
    (Column::PausedBy, Word("")),
    (Column::PausedTime, NoTime),
    (Column::PausedUntil, NoTime),
    (Column::ResumedTime, Give(Now)),
]);

const PAUSE: Rule = Rule::of("pause a schedule", Table::Schedule, &guard::EDIT).sets(&[
    (Column::State, Word(ScheduleState::Paused.stored())),
    (Column::PausedBy, Give(PausedBy)),
    (Column::Reason, Give(Why)),
    (Column::PausedTime, Clock),
    (Column::PausedUntil, Give(PausedUntil)),
    (Column::Version, OneMore),
]);

/// The misfire handler takes over dead nodes' executions, too, and waits for nobody.
const CONTAIN: Rule = PAUSE.leaves_held();

const NOTE_EXPECTED: Rule = Rule::of("note what was expected", Table::Expected, &guard::NOTE_EXPECTED)
    .sets(&[(Column::UnmetTime, Give(ChangeValue::Unmet))]);

/// What a pause, a drain, or the end of either says of itself.
const SWITCHED: &[(Column, Set)] = &[
    (Column::State, Give(Becomes)),
    (Column::PausedBy, Give(PausedBy)),
    (Column::Reason, Give(Why)),
    (Column::PausedTime, Give(PausedTime)),
    (Column::PausedUntil, Give(PausedUntil)),
];

const SWITCH_APP: Rule =
    Rule::of("switch an application", Table::Application, &guard::SWITCH_APP).sets(SWITCHED);

const NOTE_PAUSE_END: Rule = Rule::of("look for ended pauses", Table::Application, &guard::PAUSE_END)
    .sets(&[(Column::PauseEnds, Give(PausedUntil))]);

const NOTE_NOBODY: Rule = Rule::of("note jobs nobody can run", Table::Job, &guard::NOTE_NOBODY).sets(&[
    (Column::NobodyTime, Give(ChangeValue::NobodySince)),
    (Column::NobodyTold, Give(ChangeValue::NobodyTold)),
]);

const SWITCH_NODE: Rule = Rule::of("switch a node", Table::Node, &guard::SWITCH_NODE).sets(SWITCHED);

const SWITCH_JOB: Rule = Rule::of("switch a job", Table::Job, &guard::SWITCH_JOB).sets(SWITCHED);

const QUARANTINE: Rule = Rule::of("quarantine a schedule", Table::Schedule, &guard::QUARANTINE).sets(&[
    (Column::State, Word(ScheduleState::Error.stored())),
    (Column::Reason, Give(Why)),
    (Column::PausedBy, Word("")),
    (Column::PausedTime, Clock),
    (Column::PausedUntil, NoTime),
    (Column::Version, Recount),
]);

const REMOVE: Rule = Rule::of("remove a schedule", Table::Schedule, &guard::REMOVE).sets(&[
    (Column::State, Word(ScheduleState::Removed.stored())),
    (Column::Reason, Give(Why)),
    (Column::PausedBy, Word("")),
    (Column::PausedTime, NoTime),
    (Column::PausedUntil, NoTime),
    (Column::Version, Recount),
]);

const SET_POLICY: Rule = Rule::of("register the node", Table::Job, &guard::POLICY).sets(&TOLD);

/// All that a policy says, and when it was told.
const TOLD: [(Column, Set); JobColumn::ALL.len() + 1] = {
    let mut sets = [(Column::UpdateTime, Give(Now)); JobColumn::ALL.len() + 1];
    let mut place = 0;
    while place < JobColumn::ALL.len() {
        let column = JobColumn::ALL[place];
        sets[place] = (Column::Job(column), Give(ChangeValue::Job(column)));
        place += 1;
    }
    sets
};

const DECLARE_DEAD: Rule = Rule::of("declare a node dead", Table::Node, &guard::DEATH)
    .sets(&[(Column::EndedTime, Give(Now)), (Column::EndReason, Word("dead"))]);

const LEAVE: Rule = Rule::of("leave", Table::Node, &guard::LEAVE)
    .sets(&[(Column::EndedTime, Give(Now)), (Column::EndReason, Word("stopped"))]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_changes_executions_along_the_arrows_alone() {
        let rules = ChangeKind::ALL.iter().map(|kind| kind.rule());
        let changes = rules.filter(|rule| rule.table == Table::Execution);
        for rule in changes {
            assert!((rule.only_asks() || !rule.from.is_empty()) && !rule.to.is_empty(), "{rule:?}");
            for (from, to) in rule.from.iter().flat_map(|from| rule.to.iter().map(move |to| (from, to))) {
                assert!(
                    from.can_become(*to) || from == to,
                    "{} leads from {from:?} to {to:?}",
                    rule.operation
                );
            }
        }
    }

    /// A row's id alone is no guard: it tells nothing of the row's other values.
    #[test]
    fn no_guard_compares_the_id_alone() {
        for kind in ChangeKind::ALL {
            let seen = kind
                .rule()
                .guard
                .every()
                .filter(|it| !matches!(it, Column::Id | Column::Uuid | Column::Application));
            assert!(seen.count() > 0, "{kind:?}");
            assert!(guard::GUARDS.contains(&kind.rule().guard), "{kind:?}: no test blinds its guard");
        }
    }
}
