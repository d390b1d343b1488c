//! The protections of the protocol, each switched off in turn: a simulation that does not notice proves
//! nothing.

use super::faults::Faults;
use crate::members::HeartbeatOutput;
use crate::node::route::Output;
use crate::pipeline::dispatch::DispatchOutput;
use crate::pipeline::poll::PollOutput;
use crate::pipeline::start::StartOutput;
use crate::store::columns::Column;
use crate::store::guard::{self, Guard};
use crate::store::memory::MemoryStore;
use crate::store::memory::hooks::{
    BoundsFault, CoversFault, ExpectedFault, MemberFault, OutcomeFault, SlotFault, Touch,
};
use crate::store::rules::ChangeKind;

/// What is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    /// A guard does not compare this column.
    Blind(&'static Guard, Column),
    /// Of an unknown commit, a row held locked by a claim under way counts as lost.
    HeldIsLost,
    /// Nothing is learnt of an unknown commit while somebody holds one of its rows.
    ResolveTogether,
    /// A node that was switched off still makes the claims that it does not know the outcome of.
    ResolveThoughOff,
    /// What is claimed has no seat in the pool yet; without one it is dropped.
    ClaimWithoutPermit,
    /// A lane has seats only while every lane has.
    OneFullLaneIsAll,
    /// What was claimed may start however late.
    NoDeadline,
    /// A lease goes by the boot clock alone.
    BootClockAlone,
    /// An observer whose own heartbeat fails forgets what it has seen.
    ForgetfulObserver,
    /// A node counts as dead by what its row says of the time, not by what was observed.
    ComputedDeath,
    /// Polls do not tell a node that it, or the application, is switched off.
    DeafToSwitches,
    /// Each schedule that fell behind is repaired in a transaction of its own.
    RepairOneByOne,
    /// The database's clock is taken to be read half way between a question and its answer.
    HalfARoundTrip,
    /// A repair's cursor is moved in one transaction, its ledger rows are written in another.
    TornRepair,
    /// The ledger is purged of whatever has ended.
    PurgeAtOnce,
    /// An outcome is stored in one transaction, the attempt that follows in another.
    TornFollowUp,
    /// A poll reads the due rows of all jobs and their payloads in one call.
    UnboundedPolls,
    /// Each batch of claims begins with the job that has been due longest, whoever had the last seat.
    ForgetTurns,
    /// A poll decodes all payloads that are new, however long that takes.
    DecodeAllAtOnce,
    /// Nobody looks for overdue schedules that lie before the beginning of polls.
    NoLook,
    /// Polls begin with the first entry, however long that takes.
    SkipNothing,
    /// Polls that skip begin with the end of the last window in which nothing was due.
    SkipTheWindow,
    /// Cursors that are ahead of the clock stay there.
    StayAhead,
    /// Cursors that are ahead of the clock go back, however briefly it has been so.
    BelieveAnyClock,
    /// Heartbeats do not tell of executions that are asked to end.
    DeafToCancels,
    /// Glances bring no news.
    DeafToNews,
    /// Nodes do not know of groups.
    ForgetGroups,
    /// What a bound held back is left to the polls, unless an execution ends on the node itself.
    TryNothing,
    /// An execution that somebody asked for is run with its schedule's payload.
    ForgetOwnPayloads,
    /// What removed schedules leave PENDING stays so.
    LeaveWithdrawn,
    /// What an edit or a removal withdraws has no row.
    ForgetWithdrawn,
    /// A skip passes whatever is next, not the occurrence that it names.
    SkipTheNext,
    /// An attempt follows one that was cancelled as it ran.
    FollowTheCancelled,
    /// A retry's row does not tell how many attempts before it failed.
    ForgetFailures,
    /// A snoozed execution is due as it was.
    SnoozeForNothing,
    /// Nobody watches time limits.
    NoLimits,
    /// An async handler that is to end is not dropped.
    NeverDrop,
    /// An execution whose async handler was dropped is not handed back.
    ForgetTheInterrupted,
    /// A retry is made with the end of its time, while the handler runs on.
    RetryAtTheLimit,
    /// What ran on as its node died is not looked for.
    KeepTheStuck,
    /// What a job's or the application's pause held back is left to the polls when it ends.
    PassNothing,
    /// No pause ends by itself.
    EndNoPause,
    /// A node that drains runs what waits in its queue.
    KeepTheQueue,
    /// A node that drains says at once that it has.
    DrainedAtOnce,
    /// A node that stops drops the executions in its pool's queue.
    DropTheQueue,
    /// A node that stops says that it has left while its handlers still run.
    LeaveEarly,
    /// A protection of slots.
    Slots(SlotFault),
    /// Claims do not count these bounds.
    Bounds(BoundsFault),
    /// Changes of this kind do not plan what counts from the ends of runs.
    PlanNothing(ChangeKind),
    /// Handlers hear something wrong of what their executions cover.
    Covers(CoversFault),
    /// Nobody counts what failed in a row.
    CountNothing,
    /// Streaks are not counted before a death is stored.
    CountNoDeaths,
    /// A schedule is paused for what was counted before, whatever has happened since.
    CountOnce,
    /// Streaks go back beyond the ends of pauses.
    ForgetResumes,
    /// A protection of what is expected.
    Expected(ExpectedFault),
    /// Outcomes are counted wrongly.
    Outcomes(OutcomeFault),
    /// Nobody looks for jobs that nobody can run.
    SeeNobody,
    /// It is not written that somebody was told that nobody can run a job.
    ForgetTold,
    /// A rerun does not look at earlier ones.
    ForgetReruns,
    /// Unique keys keep nobody away.
    ForgetKeys,
    /// Attempts begin without the checkpoints of those before.
    ForgetCheckpoints,
    /// What members of the database fail to do.
    Members(MemberFault),
    /// Fences begin nowhere anew when a copy takes over.
    NoFloor,
    /// A failure is never retried.
    NoRetries,
    /// What a handler says of its own transaction counts.
    BelieveHandlers,
    /// Nobody asks whether a handler's own transaction was committed.
    NeverConfirm,
    /// Requests of other programs are carried out, whatever their rows say by then.
    CarryOutAgain,
    /// A request does not wait for an earlier one of its subject.
    CarryOutInAnyOrder,
    /// A sync writes although a higher revision is known.
    IgnoreRevisions,
    /// Polls do not tell of requests.
    DeafToRequests,
    /// Outputs of this kind reach nobody.
    Unrouted(Route),
}

/// Outputs that somebody must act on. Without the others the work goes on, later or with claims lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Planned,
    Offset,
    Won,
    GivenBack,
    Lease,
    Reborn,
}

impl Route {
    const ALL: [Self; 6] =
        [Self::Planned, Self::Offset, Self::Won, Self::GivenBack, Self::Lease, Self::Reborn];

    pub(super) fn of<P>(output: &Output<P>) -> Option<Self> {
        match output {
            Output::Poll(PollOutput::Planned(_)) => Some(Self::Planned),
            Output::Poll(PollOutput::Offset(_)) => Some(Self::Offset),
            Output::Dispatch(DispatchOutput::Won(_)) => Some(Self::Won),
            Output::Dispatch(DispatchOutput::GiveBack(_)) | Output::Start(StartOutput::GiveBack(_)) => {
                Some(Self::GivenBack)
            }
            Output::Heartbeat(HeartbeatOutput::Lease(_)) => Some(Self::Lease),
            Output::Heartbeat(HeartbeatOutput::Reborn(_)) => Some(Self::Reborn),
            _ => None,
        }
    }
}

impl Sabotage {
    /// Every protection of the protocol. Where one column covers for another only both together are missed:
    /// `prev` and `next` of a cursor, `state` and token of what is taken, the token at the start and at the
    /// revocation. A repair's `prev` and `next` are covered by the ledger's key: the row it would write is
    /// there. Beside most edits so is its version, as an edit withdraws from the same occurrence on.
    ///
    /// Each with the kind of misery in which it is missed soonest.
    pub(super) fn protections() -> Vec<(&'static str, Faults, Vec<Self>)> {
        use Column::{Beat, ClaimToken, NextFireTime, PrevFireTime, State, Version};
        const MANY: Faults = Faults::MANY;
        const STARVED: Faults = Faults::STARVED;
        const STORM: Faults = Faults::STORM;
        let completing = Faults {
            completes: 300_000,
            calls: 100_000,
            long_jobs: 10_000,
            snoozes: 900_000,
            ..Faults::NONE
        };
        let saving = Faults { checkpoints: 900_000, calls: 30_000, snoozes: 700_000, ..Faults::NONE };
        let blind = |guard, columns: &[Column]| columns.iter().map(|it| Self::Blind(guard, *it)).collect();
        let mut all = vec![
            ("the claim's guard: state", MANY, blind(&guard::CLAIM, &[State])),
            ("the claim's guard: version", MANY, blind(&guard::CLAIM, &[Version])),
            ("the claim's guard: prev and next", MANY, blind(&guard::CLAIM, &[PrevFireTime, NextFireTime])),
            (
                "the guard of a PENDING claim: state and token",
                MANY,
                blind(&guard::TAKE, &[State, ClaimToken]),
            ),
            ("the start's guard: state", MANY, blind(&guard::START, &[State])),
            (
                "the start's and the revocation's guards: token",
                Faults { completes: 0, edits: 0, hands: 300_000, ..Faults::DYING },
                vec![Self::Blind(&guard::START, ClaimToken), Self::Blind(&guard::REVOKE, ClaimToken)],
            ),
            ("the outcome's guard: state", MANY, blind(&guard::OUTCOME, &[State])),
            ("the outcome's guard: token", STORM, blind(&guard::OUTCOME, &[ClaimToken])),
            ("the guard of a handler's own completion: state", MANY, blind(&guard::COMPLETE, &[State])),
            (
                "the guard of a handler's own completion: token",
                completing,
                blind(&guard::COMPLETE, &[ClaimToken]),
            ),
            ("a checkpoint's guard: state", MANY, blind(&guard::CHECKPOINT, &[State])),
            ("a checkpoint's guard: token", saving, blind(&guard::CHECKPOINT, &[ClaimToken])),
            ("the checkpoint that an attempt begins with", MANY, vec![Self::ForgetCheckpoints]),
            ("the question whether a handler's transaction was committed", MANY, vec![Self::BelieveHandlers]),
            (
                "the question, and the state of what its answer is stored over",
                Faults { completes: 500_000, ..Faults::NONE },
                vec![Self::NeverConfirm, Self::Blind(&guard::OUTCOME, State)],
            ),
            ("the repair's guard: state", STARVED, blind(&guard::REPAIR, &[State])),
            (
                "the repair's guard: next and version",
                Faults::EDITED,
                blind(&guard::REPAIR, &[NextFireTime, Version]),
            ),
            ("the revocation's guard: state", Faults::DYING, blind(&guard::REVOKE, &[State])),
            ("the guard of a death: beat", Faults::FROZEN, blind(&guard::DEATH, &[Beat])),
            ("the doubt about an unknown commit whose row is held", MANY, vec![Self::HeldIsLost]),
            ("the permit before the claim", MANY, vec![Self::ClaimWithoutPermit]),
            (
                "the deadline of what was claimed",
                Faults { stops: 12_000, slow: 300_000, long_jobs: 250_000, ..Faults::NONE },
                vec![Self::NoDeadline],
            ),
            (
                "the wall clock beside the boot clock",
                Faults { freezes: 12_000, long_jobs: 20_000, ..Faults::NONE },
                vec![Self::BootClockAlone],
            ),
            (
                "what was seen before a failed heartbeat",
                Faults { calls: 200_000, kills: 4_000, ..Faults::NONE },
                vec![Self::ForgetfulObserver],
            ),
            ("the death that was observed", MANY, vec![Self::ComputedDeath]),
            ("the switches of application and nodes", Faults::SWITCHED, vec![Self::DeafToSwitches]),
            ("the fire time that a skip names", MANY, vec![Self::SkipTheNext]),
            ("no attempt after a cancel", MANY, vec![Self::FollowTheCancelled]),
            ("the slot, by planned claims", MANY, vec![Self::Slots(SlotFault::ByPlanned)]),
            ("the slot, by PENDING claims", MANY, vec![Self::Slots(SlotFault::ByPending)]),
            ("the slot of what waits for its retry", MANY, vec![Self::Slots(SlotFault::OfRetries)]),
            (
                "the slot of what runs on beyond its limit",
                Faults::OVERDUE,
                vec![Self::Slots(SlotFault::OfTheStuck)],
            ),
            ("the count of a job's executions", MANY, vec![Self::Bounds(BoundsFault::Concurrency)]),
            ("the count of a group's executions", MANY, vec![Self::Bounds(BoundsFault::OfGroups)]),
            ("the count of what begins in time", MANY, vec![Self::Bounds(BoundsFault::Rates)]),
            ("what a run's end plans", MANY, vec![Self::PlanNothing(ChangeKind::Finish)]),
            ("what the end of an abandoned run plans", MANY, vec![Self::PlanNothing(ChangeKind::Abandon)]),
            ("what the end of a cancelled run plans", MANY, vec![Self::PlanNothing(ChangeKind::Cancel)]),
            (
                "what the return of a handler beyond its limit plans",
                Faults::OVERDUE,
                vec![Self::PlanNothing(ChangeKind::Release)],
            ),
            ("the spans of what is left out", MANY, vec![Self::Covers(CoversFault::SpansAsOne)]),
            ("the success from which an execution covers", MANY, vec![Self::Covers(CoversFault::AnyEnd)]),
            ("the success before an edit", Faults::EDITED, vec![Self::Covers(CoversFault::OneGeneration)]),
            ("the success of what was planned", MANY, vec![Self::Covers(CoversFault::OrdersToo)]),
            ("the count of failures", MANY, vec![Self::ForgetFailures]),
            ("the pause of a snooze", MANY, vec![Self::SnoozeForNothing]),
            ("the count of what failed in a row", Faults::FAILING, vec![Self::CountNothing]),
            ("the count before a death is stored", Faults::FAILING, vec![Self::CountNoDeaths]),
            ("the count in the transaction of a pause", MANY, vec![Self::CountOnce]),
            ("the resume that ends a streak", Faults::FAILING, vec![Self::ForgetResumes]),
            ("the time limit", Faults::OVERDUE, vec![Self::NoLimits]),
            ("the grace of an async handler", Faults::OVERDUE, vec![Self::NeverDrop]),
            ("the hand-back of an interrupted execution", Faults::LEAVING, vec![Self::ForgetTheInterrupted]),
            ("the retry that waits for the handler", Faults::OVERDUE, vec![Self::RetryAtTheLimit]),
            ("the end of what runs on with its node", Faults::OVERDUE, vec![Self::KeepTheStuck]),
            ("what a pause held back is passed", Faults::LEVELLED, vec![Self::PassNothing]),
            ("the end of a pause whose time is up", Faults::LEVELLED, vec![Self::EndNoPause]),
            ("the queue handed back by a drain", Faults::LEVELLED, vec![Self::KeepTheQueue]),
            ("the end of what runs before a node has drained", Faults::LEVELLED, vec![Self::DrainedAtOnce]),
            ("the offset that is never too high", STARVED, vec![Self::HalfARoundTrip]),
            ("cursor and rows in one transaction", MANY, vec![Self::TornRepair]),
            ("the span of the retention", Faults::FORGETFUL, vec![Self::PurgeAtOnce]),
            ("an attempt and the next in one transaction", MANY, vec![Self::TornFollowUp]),
            ("the bound of a poll", Faults::CROWDED, vec![Self::UnboundedPolls]),
            ("the look at all overdue schedules", Faults::BELATED, vec![Self::NoLook]),
            ("the queue given back at a stop", Faults::LEAVING, vec![Self::DropTheQueue]),
            ("the end of what runs before a node leaves", Faults::LEAVING, vec![Self::LeaveEarly]),
            ("the retry of a failure", MANY, vec![Self::NoRetries]),
            ("the keys of enqueued executions", MANY, vec![Self::ForgetKeys]),
            ("the earlier reruns of an occurrence", Faults::RERUN, vec![Self::ForgetReruns]),
            ("the guard of a request of another program", Faults::WRITTEN, vec![Self::CarryOutAgain]),
            ("the order of the requests of one subject", Faults::WRITTEN, vec![Self::CarryOutInAnyOrder]),
            ("the poll that tells of requests", Faults::WRITTEN, vec![Self::DeafToRequests]),
            ("the revision of a sync", Faults::RELEASED, vec![Self::IgnoreRevisions]),
            ("an order's own payload", MANY, vec![Self::ForgetOwnPayloads]),
            ("the end of what removed schedules leave", Faults::REMOVED, vec![Self::LeaveWithdrawn]),
            ("the row of what an edit withdraws", Faults::EDITED, vec![Self::ForgetWithdrawn]),
            ("the count of an outcome", MANY, vec![Self::Outcomes(OutcomeFault::CountsNothing)]),
            ("the count of an outcome once", MANY, vec![Self::Outcomes(OutcomeFault::CountsAgain)]),
            ("the end of a count that is added up", MANY, vec![Self::Outcomes(OutcomeFault::AddsTwice)]),
        ];
        all.extend(of_alarms());
        all.extend(of_members());
        all.extend(Route::ALL.map(|route| {
            let faults = if route == Route::Reborn { Faults::FROZEN } else { STORM };
            ("a route", faults, vec![Self::Unrouted(route)])
        }));
        all
    }
}

/// What keeps operators from hearing something twice, for nothing, or never.
fn of_alarms() -> Vec<(&'static str, Faults, Vec<Sabotage>)> {
    let fault = Sabotage::Expected;
    let unguarded =
        vec![Sabotage::Blind(&guard::NOTE_EXPECTED, Column::UnmetTime), fault(ExpectedFault::SeesNoNote)];
    let alarms = [
        ("the guard of what is unmet, and the look at it beside", unguarded),
        ("the look in the transaction of a note", vec![fault(ExpectedFault::NotesUnseen)]),
        ("the note of what is unmet", vec![fault(ExpectedFault::ForgetsNotes)]),
        ("the excuse of what was skipped by hand or in a pause", vec![fault(ExpectedFault::ExcusesNothing)]),
        ("the pause in which nothing is expected", vec![fault(ExpectedFault::IgnoresPauses)]),
        ("the walk that finds what is expected", vec![fault(ExpectedFault::ExpectsNothing)]),
        ("the success that ends what is unmet", vec![fault(ExpectedFault::NothingIsMet)]),
        ("the look for jobs that nobody can run", vec![Sabotage::SeeNobody]),
        ("the note that nobody can run a job, and that this was told", vec![Sabotage::ForgetTold]),
    ];
    alarms.into_iter().map(|(name, sabotages)| (name, Faults::EXPECTED, sabotages)).collect()
}

/// What keeps several members of a database from contradicting one another.
fn of_members() -> Vec<(&'static str, Faults, Vec<Sabotage>)> {
    let touches = MemberFault::Touches;
    let saving =
        Faults { lags: 900_000, moves: 1_000_000, snoozes: 800_000, checkpoints: 900_000, ..Faults::NONE };
    let failing = Faults { lags: 900_000, moves: 300_000, ..Faults::MANY };
    let drained = Faults { levels: 100_000, lags: 1_000_000, moves: 600_000, ..Faults::NONE };
    let snoozed = Faults { snoozes: 300_000, lags: 1_000_000, moves: 1_000_000, ..Faults::NONE };
    let faults = [
        ("the certification of what is written", Faults::BEHIND, MemberFault::Certifies),
        ("the question whether a transaction is still open", Faults::BEHIND, MemberFault::Asks),
        ("the wait before an unknown commit is asked for", Faults::ASKING, MemberFault::Resolves),
        ("the wait before a node has ended", Faults::LAGGING, MemberFault::Ends),
        ("the wait before a change is lost", Faults::LAGGING, MemberFault::Loses),
        ("the wait before a drain ends", drained, MemberFault::Resumes),
        ("the wait before a slot is taken", snoozed, MemberFault::Blocks),
        ("the wait before it is told what is covered", Faults::BEHIND, MemberFault::Covers),
        ("the wait before a schedule is paused", failing, MemberFault::Contains),
        ("the wait before a checkpoint is read", saving, MemberFault::Checkpoints),
        ("the job that a claim touches", Faults::BEHIND, touches(Touch::Bounds)),
        ("the execution that a cancel touches", Faults::CANCELLED, touches(Touch::Cancel)),
        ("the key that a retry touches", Faults::RETRIED, touches(Touch::Key)),
        ("the application that a pause touches", Faults::PAUSED, touches(Touch::PauseEnd)),
    ];
    faults.into_iter().map(|(name, mix, fault)| (name, mix, vec![Sabotage::Members(fault)])).collect()
}

impl Sabotage {
    /// Switches off what the store itself protects.
    pub(super) fn break_store(&self, store: &MemoryStore) {
        match self {
            Self::FollowTheCancelled => store.follow_cancelled(),
            Self::ForgetResumes => store.forget_resumes(),
            Self::ForgetWithdrawn => store.forget_withdrawn(),
            Self::IgnoreRevisions => store.ignore_revisions(),
            Self::Bounds(fault) => store.break_bounds(*fault),
            Self::ForgetKeys => store.forget_keys(),
            Self::ForgetReruns => store.forget_reruns(),
            Self::CarryOutAgain => store.carry_out_again(),
            Self::ForgetCheckpoints => store.forget_checkpoints(),
            Self::PlanNothing(kind) => store.plan_nothing(*kind),
            Self::Slots(fault) => store.break_slots(*fault),
            Self::Covers(fault) => store.break_covers(*fault),
            Self::Expected(fault) => store.break_expected(*fault),
            Self::Outcomes(fault) => store.break_outcomes(*fault),
            Self::Members(fault) => store.break_members(*fault),
            Self::NoFloor => store.remove_floor(),
            _ => {}
        }
    }
}

/// Runs `work` with the guards blinded as the sabotages say.
pub(super) fn during<T>(sabotages: &[Sabotage], work: impl FnOnce() -> T) -> T {
    let blind = |it: &Sabotage| match it {
        Sabotage::Blind(guard, column) => Some((*guard, *column)),
        _ => None,
    };
    guard::blind::to(&sabotages.iter().filter_map(blind).collect::<Vec<_>>(), work)
}
