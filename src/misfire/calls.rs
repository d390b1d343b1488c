//! The misfire handler's store calls: the only place of this room that touches the store.

use super::batch::Batch;
use crate::domain::{Entry, Event, ExecutionId, Millis, ScheduleId, Timestamp};
use crate::machine::calls::calls;
use crate::store::audit::AuditEntry;
use crate::store::expected::{Expectation, ExpectedPage, ExpectedQuery};
use crate::store::figures::{Figures, FiguresQuery};
use crate::store::nobody::{NobodyQuery, UnservedJob};
use crate::store::outcomes::OutcomeFold;
use crate::store::streak::{Streak, StreakQuery};
use crate::store::switch::{EndedPause, PassedQuery, SeenSwitch};
use crate::store::{
    Applied, Change, OrphanWalk, OverduePage, OverdueQuery, Purge, Purged, PurgedOrphans, PurgedQueues,
    QueueWalk, StrandedPage, UnreadablePage, UnreadableQuery, UnreadableRow, Withdrawn,
};

calls! { []
    elect = Elect {
        "electing the misfire handler", asks (application: String, now: Timestamp, interval: Millis),
        keeps (), brings Applied
    } |store| store.elect(&application, now, interval);
    find_stranded = FindStranded {
        "looking for executions of dead nodes", asks (application: String, after: ExecutionId, limit: usize),
        keeps (), brings StrandedPage
    } |store| store.stranded(&application, after, limit);
    find_withdrawn = FindWithdrawn {
        "looking for executions of removed schedules", asks (application: String, limit: usize),
        keeps (), brings Vec<Withdrawn>
    } |store| store.withdrawn(&application, limit);
    find_ended_pauses = FindEndedPauses {
        "looking for ended pauses", asks (application: String), keeps (), brings Vec<EndedPause>
    } |store| store.ended_pauses(&application);
    /// Looks for the occurrences that the pause of a job or the application has held back.
    find_passed = FindPassed {
        "looking for what a pause held back", asks (query: PassedQuery),
        keeps (PassedQuery, SeenSwitch), brings Vec<Entry>
    } |store| store.passed(&query);
    /// Passes a part of the occurrences that the pause of a schedule has held back.
    pass_on = PassOn { "ending a pause", asks (change: Box<Change>), keeps (), brings () }
        |store| store.apply_one(*change).map(drop);
    end_pause = EndPause {
        "ending a pause", asks (change: Box<Change>, audit: AuditEntry), keeps AuditEntry, brings Applied
    } |store| store.apply_audited(*change, &audit);
    find_expected = FindExpected {
        "looking for what was expected", asks (query: ExpectedQuery), keeps (), brings ExpectedPage
    } |store| store.expected(&query);
    note_expected = NoteExpected {
        "noting what was expected", asks (query: ExpectedQuery, found: Expectation), keeps Expectation,
        brings Applied
    } |store| store.note_expected(&query, &found);
    /// Makes the rows of schedules with an expectation.
    expect = Expect {
        "noting what is expected", asks (schedules: Vec<ScheduleId>), keeps (), brings ()
    } |store| store.expect(&schedules);
    /// Removes the rows of schedules of which nothing is expected any more.
    expect_no_longer = ExpectNoLonger {
        "forgetting what was expected", asks (application: String, schedules: Vec<ScheduleId>),
        keeps (), brings ()
    } |store| store.expect_no_longer(&application, &schedules);
    find_nobody = FindNobody {
        "looking for jobs that nobody can run", asks (query: NobodyQuery), keeps (), brings Vec<UnservedJob>
    } |store| store.nobody(&query);
    /// Notes in a job's row that nobody can run it, or that somebody can; what is told of it is kept.
    note_nobody = NoteNobody {
        "noting jobs that nobody can run", asks (change: Change), keeps Option<Box<Event>>, brings Applied
    } |store| store.apply_one(change);
    count = Count {
        "counting what failed in a row", asks (query: StreakQuery), keeps StreakQuery, brings Option<Streak>
    } |store| store.streak(&query);
    /// Pauses a schedule for its streak.
    contain = Contain {
        "pausing a schedule that fails", asks (query: StreakQuery, streak: Streak),
        keeps (StreakQuery, Streak), brings Applied
    } |store| store.contain(&query, &streak);
    find_overdue = FindOverdue {
        "looking for misfires", asks (query: OverdueQuery), keeps (), brings OverduePage
    } |store| store.overdue(&query);
    repair = Repair { "repairing misfires", asks (changes: Vec<Change>), keeps Batch, brings Vec<Applied> }
        |store| store.apply(&changes);
    take_back = TakeBack {
        "taking executions back from dead nodes", asks (changes: Vec<Change>), keeps Batch, brings Vec<Applied>
    } |store| store.apply(&changes);
    find_unreadable = FindUnreadable {
        "looking for broken rows", asks (query: UnreadableQuery), keeps (), brings UnreadablePage
    } |store| store.unreadable(&query);
    quarantine = Quarantine {
        "putting a broken row into quarantine", asks (row: UnreadableRow), keeps UnreadableRow, brings Applied
    } |store| store.apply_one(Change::Quarantine(row));
    read_figures = ReadFigures {
        "reading the cluster's figures", asks (query: FiguresQuery), keeps (), brings Figures
    } |store| store.figures(&query);
    fold_outcomes = FoldOutcomes {
        "adding up outcomes", asks (fold: OutcomeFold), keeps (), brings bool
    } |store| store.fold_outcomes(&fold);
    purge = Purge { "purging the ledger", asks (purge: Purge), keeps (), brings Purged }
        |store| store.purge(&purge);
    purge_queues = PurgeQueues {
        "purging enqueued executions", asks (walk: QueueWalk), keeps (), brings PurgedQueues
    } |store| store.purge_queues(&walk);
    purge_orphans = PurgeOrphans {
        "purging executions without a schedule", asks (walk: OrphanWalk), keeps (), brings PurgedOrphans
    } |store| store.purge_orphans(&walk);
}

/// A call with what is kept of it.
pub(super) type Call = (Op, Asked);
