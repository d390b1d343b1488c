//! One case per guard column: everything is as it was seen except this column, and the change must lose.
//! Each case then puts the column back and sees the same change win, so that nothing else was in its way.

use super::*;
use crate::domain::{ExecutionState, JobId, JobSettings, Reason, ScheduleState};
use crate::repair::Revocation;
use crate::store::Completed;
use crate::store::change::{AfterRun, PauseEnd, PolicyChange, WithdrawChange};
use crate::store::columns::{Datum, JobColumn, number};
use crate::store::conformance::repairs::fire_once;
use crate::store::nobody::{NobodyChange, NobodyMark};
use crate::store::said::Said;
use crate::trigger::AWAITED;

/// Far beyond any id a test database hands out.
const NO_ID: i64 = 1 << 50;

/// A column changed by hand, and how it was.
struct Altered<'a> {
    row: RowKey<'a>,
    column: &'static str,
    before: String,
    after: String,
}

impl<'a> Altered<'a> {
    fn text(row: RowKey<'a>, column: &'static str, before: &str, after: &str) -> Self {
        Self { row, column, before: format!("'{before}'"), after: format!("'{after}'") }
    }

    fn number(row: RowKey<'a>, column: &'static str, before: i64, after: i64) -> Self {
        Self { row, column, before: before.to_string(), after: after.to_string() }
    }

    fn null(row: RowKey<'a>, column: &'static str, before: i64) -> Self {
        Self { row, column, before: before.to_string(), after: "NULL".to_owned() }
    }

    /// While the column differs `attempt` must lose (answer false); once it is back it must win.
    fn decides(&self, db: &Bench, mut attempt: impl FnMut() -> bool) {
        db.set(self.row, self.column, &self.after);
        let seen = db.get(self.row, self.column);
        assert!(!attempt(), "{} {} was not compared", self.column, self.after);
        assert_eq!(db.get(self.row, self.column), seen, "the loser wrote");
        db.set(self.row, self.column, &self.before);
        assert!(attempt(), "it was not {} that lost", self.column);
    }
}

fn is_won(claim: Claim) -> bool {
    match claim {
        Claim::Won(claimed) => claimed.execution().get() > 0,
        Claim::Lost => false,
        other => panic!("neither won nor lost: {other:?}"),
    }
}

fn a_claim_loses(db: &Bench, altered: impl Fn(RowKey<'static>, &Entry) -> Altered<'static>) {
    let entry = db.schedule("s");
    let row = RowKey::Schedule(entry.id);
    let request = db.head(&entry);
    altered(row, &entry).decides(db, || {
        let won = is_won(db.claim(&request));
        assert_eq!(db.executions().len(), usize::from(won));
        assert_eq!(db.number(row, "fence"), i64::from(won));
        assert_eq!(db.number(row, "time_triggered"), i64::from(won));
        won
    });
}

pub(crate) fn a_claim_loses_if_only_the_id_differs(db: &Bench) {
    let entry = db.schedule("s");
    let other = Arc::new(Entry { id: ScheduleId(NO_ID), ..(*entry).clone() });
    assert!(!is_won(db.claim(&db.head(&other))));
    assert_eq!(db.executions().len(), 0);
    assert_eq!(db.entry("s").cursor, entry.cursor);
    assert!(is_won(db.claim(&db.head(&entry))));
}

pub(crate) fn a_claim_loses_if_only_the_state_differs(db: &Bench) {
    for (at, state) in ScheduleState::ALL.iter().filter(|state| **state != ScheduleState::Active).enumerate()
    {
        let entry = db.schedule(&format!("s{at}"));
        let request = db.head(&entry);
        let altered = Altered::text(RowKey::Schedule(entry.id), "state", "EXECUTING", state.stored());
        altered.decides(db, || is_won(db.claim(&request)));
    }
}

pub(crate) fn a_claim_loses_if_only_prev_differs(db: &Bench) {
    a_claim_loses(db, |row, _| Altered::number(row, "prev_fire_time", -1, (db.base - 1_000).millis()));
}

pub(crate) fn a_claim_loses_if_prev_is_null(db: &Bench) {
    a_claim_loses(db, |row, _| Altered::null(row, "prev_fire_time", -1));
}

pub(crate) fn a_claim_loses_if_only_next_differs(db: &Bench) {
    a_claim_loses(db, |row, _| {
        Altered::number(row, "next_fire_time", db.base.millis(), (db.base + 1_000).millis())
    });
}

pub(crate) fn a_claim_loses_if_next_is_null(db: &Bench) {
    a_claim_loses(db, |row, _| Altered::null(row, "next_fire_time", db.base.millis()));
}

pub(crate) fn a_claim_loses_if_only_the_version_differs(db: &Bench) {
    a_claim_loses(db, |row, entry| Altered::number(row, "version", entry.version, entry.version + 1));
}

pub(crate) fn a_pending_claim_loses_if_only_the_id_differs(db: &Bench) {
    let pending = db.pending("s");
    let other = Pending { id: ExecutionId(NO_ID), ..pending.clone() };
    assert!(!is_won(db.claim(&db.request(Candidate::Pending(other)))));
    assert!(is_won(db.claim(&db.request(Candidate::Pending(pending)))));
}

pub(crate) fn a_pending_claim_loses_if_only_the_state_differs(db: &Bench) {
    for (at, state) in
        ExecutionState::ALL.iter().filter(|state| **state != ExecutionState::Pending).enumerate()
    {
        let pending = db.pending(&format!("s{at}"));
        let row = RowKey::Execution(pending.id);
        let request = db.request(Candidate::Pending(pending));
        Altered::text(row, "state", "PENDING", state.as_str()).decides(db, || is_won(db.claim(&request)));
    }
}

pub(crate) fn a_pending_claim_loses_if_only_the_token_differs(db: &Bench) {
    let pending = db.pending("s");
    let (row, seen, other) = (RowKey::Execution(pending.id), pending.token.to_string(), Token::fresh());
    let request = db.request(Candidate::Pending(pending));
    Altered::text(row, "claim_token", &seen, &other.to_string()).decides(db, || is_won(db.claim(&request)));
}

pub(crate) fn a_pending_claim_loses_if_its_schedule_is_in_error(db: &Bench) {
    let pending = db.pending("s");
    let row = RowKey::Schedule(pending.entry.id);
    let request = db.request(Candidate::Pending(pending));
    Altered::text(row, "state", "EXECUTING", "ERROR").decides(db, || is_won(db.claim(&request)));
}

/// Runs `case` on a fresh execution for each change that its state allows its owner: start or outcome, and
/// give-back.
fn each_settlement(db: &Bench, mut case: impl FnMut(ExecutionId, ExecutionState, ExecutionChange)) {
    for state in [ExecutionState::Claimed, ExecutionState::Running] {
        for gives_back in [false, true] {
            let at_once = state == ExecutionState::Running;
            let entry = db.schedule(&format!("{}-{gives_back}", state.as_str()));
            let claimed = won(db.claim(&ClaimRequest { at_once, ..db.head(&entry) }));
            let execution = claimed.execution();
            let change = match state {
                _ if gives_back => claimed.give_back(db.now),
                ExecutionState::Claimed => claimed.start(db.now),
                _ => succeeded(claimed, db.now),
            };
            case(execution, state, change);
        }
    }
}

pub(crate) fn a_settlement_loses_if_only_the_id_differs(db: &Bench) {
    each_settlement(db, |id, state, settlement| {
        let other = ExecutionChange { execution: ExecutionId(NO_ID), ..settlement.clone() };
        assert_eq!(db.settle(&other), Applied::Lost);
        assert_eq!(db.execution(id).state, state.as_str());
        assert_eq!(db.settle(&settlement), Applied::Done);
    });
}

pub(crate) fn a_settlement_loses_if_only_the_token_differs(db: &Bench) {
    each_settlement(db, |id, state, settlement| {
        let (row, token) = (RowKey::Execution(id), settlement.token.to_string());
        Altered::text(row, "claim_token", &token, &Token::fresh().to_string()).decides(db, || {
            let before = db.execution(id);
            let done = db.settle(&settlement) == Applied::Done;
            assert!(done || db.execution(id) == before, "revoked, and yet {} changed", state.as_str());
            done
        });
    });
}

pub(crate) fn a_settlement_loses_if_only_the_state_differs(db: &Bench) {
    each_settlement(db, |id, state, settlement| {
        let row = RowKey::Execution(id);
        let altered = Altered::text(row, "state", state.as_str(), ExecutionState::Cancelled.as_str());
        altered.decides(db, || db.settle(&settlement) == Applied::Done);
    });
}

fn a_completion_loses(db: &Bench, altered: impl Fn(&ExecutionChange) -> Altered<'static>) {
    let complete = db.run_head(&db.schedule("s")).complete(db.now);
    altered(&complete).decides(db, || db.store.complete(&complete).unwrap() == Completed::Done);
}

pub(crate) fn a_completion_loses_if_only_the_state_differs(db: &Bench) {
    a_completion_loses(db, |it| {
        Altered::text(RowKey::Execution(it.execution), "state", "RUNNING", ExecutionState::TimedOut.as_str())
    });
}

pub(crate) fn a_completion_loses_if_only_the_token_differs(db: &Bench) {
    a_completion_loses(db, |it| {
        let (seen, other) = (it.token.to_string(), Token::fresh().to_string());
        Altered::text(RowKey::Execution(it.execution), "claim_token", &seen, &other)
    });
}

fn a_checkpoint_loses(db: &Bench, altered: impl Fn(&ExecutionChange) -> Altered<'static>) {
    let claimed = db.run_head(&db.schedule("s"));
    let transition = Transition::Checkpoint("1".to_owned());
    let checkpoint = ExecutionChange { transition, ..claimed.complete(db.now) };
    altered(&checkpoint).decides(db, || db.store.checkpoint(&checkpoint).unwrap() == Applied::Done);
}

pub(crate) fn a_checkpoint_loses_if_only_the_state_differs(db: &Bench) {
    a_checkpoint_loses(db, |it| {
        Altered::text(RowKey::Execution(it.execution), "state", "RUNNING", ExecutionState::TimedOut.as_str())
    });
}

pub(crate) fn a_checkpoint_loses_if_only_the_token_differs(db: &Bench) {
    a_checkpoint_loses(db, |it| {
        let (seen, other) = (it.token.to_string(), Token::fresh().to_string());
        Altered::text(RowKey::Execution(it.execution), "claim_token", &seen, &other)
    });
}

fn a_saying_loses(db: &Bench, altered: impl Fn(&Said) -> Altered<'static>) {
    let claimed = db.run_head(&db.schedule("s"));
    let (execution, token, fence) = (claimed.execution(), claimed.token(), claimed.fence());
    let said = Said { execution, token, fence, lines: Vec::new(), progress: None, now: db.now };
    altered(&said).decides(db, || db.store.say(std::slice::from_ref(&said)).unwrap() == [Applied::Done]);
}

pub(crate) fn a_saying_loses_if_only_the_state_differs(db: &Bench) {
    a_saying_loses(db, |it| {
        Altered::text(RowKey::Execution(it.execution), "state", "RUNNING", ExecutionState::Abandoned.as_str())
    });
}

pub(crate) fn a_saying_loses_if_only_the_token_differs(db: &Bench) {
    a_saying_loses(db, |it| {
        let (seen, other) = (it.token.to_string(), Token::fresh().to_string());
        Altered::text(RowKey::Execution(it.execution), "claim_token", &seen, &other)
    });
}

fn a_repair_loses(db: &Bench, altered: impl Fn(RowKey<'static>, &Entry) -> Altered<'static>) {
    let entry = db.schedule("s");
    let row = RowKey::Schedule(entry.id);
    let repair = db.repair(&entry);
    altered(row, &entry).decides(db, || db.repaired(&repair));
}

pub(crate) fn a_repair_loses_if_only_the_id_differs(db: &Bench) {
    let entry = db.schedule("s");
    let repair = db.repair(&entry);
    assert!(!db.repaired(&Repair { id: ScheduleId(NO_ID), ..repair.clone() }));
    assert!(db.repaired(&repair));
}

pub(crate) fn a_repair_loses_if_only_the_state_differs(db: &Bench) {
    a_repair_loses(db, |row, _| Altered::text(row, "state", "EXECUTING", "PAUSED"));
}

pub(crate) fn a_repair_loses_if_only_prev_differs(db: &Bench) {
    a_repair_loses(db, |row, _| Altered::number(row, "prev_fire_time", -1, (db.base - 1_000).millis()));
}

pub(crate) fn a_repair_loses_if_only_next_differs(db: &Bench) {
    a_repair_loses(db, |row, _| {
        Altered::number(row, "next_fire_time", db.base.millis(), (db.base + 1_000).millis())
    });
}

pub(crate) fn a_repair_loses_if_only_the_version_differs(db: &Bench) {
    a_repair_loses(db, |row, entry| Altered::number(row, "version", entry.version, entry.version + 1));
}

/// A CLAIMED and a RUNNING execution, each with the revocation repair would try.
fn each_revocation(db: &Bench, mut case: impl FnMut(Revocation)) {
    for at_once in [false, true] {
        let node = NodeId::fresh();
        let entry = db.schedule(if at_once { "running" } else { "claimed" });
        let id = drop_claimed(db.claim(&ClaimRequest { at_once, node, ..db.head(&entry) }));
        let stranded = db.stranded().into_iter().find(|stranded| stranded.id == id).unwrap();
        let transition = match at_once {
            true => Transition::Abandon(Some(NextAttempt::new(db.now, Reason::Recovery))),
            false => Transition::TakeBack(Token::fresh()),
        };
        case(Revocation { stranded, transition, now: db.now });
    }
}

pub(crate) fn a_revocation_loses_if_only_the_id_differs(db: &Bench) {
    each_revocation(db, |revocation| {
        let stranded = Stranded { id: ExecutionId(NO_ID), ..revocation.stranded.clone() };
        let before = db.executions();
        assert!(!db.revoked(&Revocation { stranded, ..revocation.clone() }));
        assert_eq!(db.executions(), before);
        assert!(db.revoked(&revocation));
    });
}

pub(crate) fn a_revocation_loses_if_only_the_state_differs(db: &Bench) {
    each_revocation(db, |revocation| {
        let row = RowKey::Execution(revocation.stranded.id);
        let state = revocation.stranded.state.as_str();
        let altered = Altered::text(row, "state", state, ExecutionState::Succeeded.as_str());
        altered.decides(db, || db.revoked(&revocation));
    });
}

pub(crate) fn a_revocation_loses_if_only_the_token_differs(db: &Bench) {
    each_revocation(db, |revocation| {
        let row = RowKey::Execution(revocation.stranded.id);
        let token = revocation.stranded.token.to_string();
        let altered = Altered::text(row, "claim_token", &token, &Token::fresh().to_string());
        let before = db.executions().len();
        altered.decides(db, || {
            let won = db.revoked(&revocation);
            assert!(won || db.executions().len() == before, "the loser made a next attempt");
            won
        });
    });
}

/// Changes of executions that are decided in a test of their own: they lose where the id is another's.
pub(crate) fn a_change_of_an_execution_loses_if_only_the_id_differs(db: &Bench) {
    let pending = db.pending("cancelled");
    let cancel = Transition::Cancel(Reason::Cancelled);
    let cancel = ExecutionChange::of(pending.id, pending.token, cancel, db.now);
    let entry = db.schedule("superseded");
    assert!(db.repaired(&fire_once(db, &entry)));
    let [unstarted] = db.unstarted(entry.id)[..] else { panic!("one execution is left") };
    let (_, release) = db.timed_out(db.node, None);
    for change in [cancel, unstarted.supersede(db.now), release] {
        let other = ExecutionChange { execution: ExecutionId(NO_ID), ..change.clone() };
        assert!(!db.applied(&other.into()), "{change:?}");
        assert!(db.applied(&change.clone().into()), "{change:?}");
    }
}

/// The unstarted work of an earlier repair, as a later one would end it.
fn a_superseding_loses(db: &Bench, altered: impl Fn(&Unstarted) -> Altered<'static>) {
    let entry = db.schedule("s");
    assert!(db.repaired(&fire_once(db, &entry)));
    let [unstarted] = db.unstarted(entry.id)[..] else { panic!("one execution is left") };
    let change = Change::from(unstarted.supersede(db.now));
    altered(&unstarted).decides(db, || db.applied(&change));
}

pub(crate) fn a_superseding_loses_if_only_the_state_differs(db: &Bench) {
    let claimed = ExecutionState::Claimed.as_str();
    a_superseding_loses(db, |it| Altered::text(RowKey::Execution(it.execution), "state", "PENDING", claimed));
}

pub(crate) fn a_superseding_loses_if_only_the_token_differs(db: &Bench) {
    a_superseding_loses(db, |it| {
        let (seen, other) = (it.token.to_string(), Token::fresh().to_string());
        Altered::text(RowKey::Execution(it.execution), "claim_token", &seen, &other)
    });
}

fn a_release_loses(db: &Bench, altered: impl Fn(&ExecutionChange) -> Altered<'static>) {
    let (_, release) = db.timed_out(db.node, Some(db.now));
    altered(&release).decides(db, || {
        let done = db.settle(&release) == Applied::Done;
        assert_eq!(db.executions().len(), 1 + usize::from(done));
        done
    });
}

pub(crate) fn a_release_loses_if_only_the_state_differs(db: &Bench) {
    a_release_loses(db, |it| {
        let row = RowKey::Execution(it.execution);
        Altered::text(row, "state", "TIMED_OUT", ExecutionState::Cancelled.as_str())
    });
}

pub(crate) fn a_release_loses_if_only_the_token_differs(db: &Bench) {
    a_release_loses(db, |it| {
        let (row, token) = (RowKey::Execution(it.execution), it.token.to_string());
        Altered::text(row, "claim_token", &token, &Token::fresh().to_string())
    });
}

/// Another node has told its own policy meanwhile.
pub(crate) fn a_policy_loses_if_only_one_of_its_values_differs(db: &Bench) {
    let row = RowKey::Job(&db.app, JOB);
    let (id, becomes) = (db.number(row, "id"), JobPolicy { max_attempts: 9, ..JobPolicy::DEFAULT });
    let (seen, becomes) = (job(JOB).settings, JobSettings::from(becomes));
    let change = |seen: &JobSettings, becomes: &JobSettings| {
        let (seen, becomes) = (seen.clone(), becomes.clone());
        Change::Policy(PolicyChange { job: JobId(id), seen, becomes, now: db.now })
    };
    for column in JobColumn::ALL {
        let altered = match column.value(&seen) {
            Datum::Text(before) => Altered::text(row, column.name(), before, "another"),
            before => {
                let before = number(before);
                Altered::number(row, column.name(), before, 1 - before.min(1))
            }
        };
        altered.decides(db, || db.applied(&change(&seen, &becomes)));
        assert!(db.applied(&change(&becomes, &seen)));
    }
}

pub(crate) fn a_note_that_nobody_can_run_a_job_loses_if_only_one_of_its_values_differs(db: &Bench) {
    let row = RowKey::Job(&db.app, JOB);
    let job = JobId(db.number(row, "id"));
    let seen = NobodyMark { since: Some(db.now), told: Some(db.now + 1) };
    let becomes = NobodyMark { since: Some(db.now), told: Some(db.now + 2) };
    let note = |seen, becomes| Change::Nobody(NobodyChange { job, seen, becomes });
    assert!(db.applied(&note(NobodyMark::default(), seen)));
    for (column, before) in [("nobody_time", db.now), ("nobody_told", db.now + 1)] {
        let altered = Altered::number(row, column, before.millis(), before.millis() - 5);
        altered.decides(db, || db.applied(&note(seen, becomes)));
        assert!(db.applied(&note(becomes, seen)));
    }
}

fn pause(db: &Bench, entry: &Entry) -> bool {
    db.store.pause(entry.id, entry.version, "op", "why").unwrap()
}

pub(crate) fn a_pause_loses_if_only_the_id_differs(db: &Bench) {
    let entry = db.schedule("s");
    assert!(!pause(db, &Entry { id: ScheduleId(NO_ID), ..(*entry).clone() }));
    assert!(pause(db, &entry));
}

pub(crate) fn a_pause_loses_if_only_the_state_differs(db: &Bench) {
    let entry = db.schedule("s");
    let altered = Altered::text(RowKey::Schedule(entry.id), "state", "EXECUTING", "ERROR");
    altered.decides(db, || pause(db, &entry));
}

pub(crate) fn a_pause_loses_if_only_the_version_differs(db: &Bench) {
    let entry = db.schedule("s");
    let (seen, other) = (entry.version, entry.version + 1);
    let altered = Altered::number(RowKey::Schedule(entry.id), "version", seen, other);
    altered.decides(db, || pause(db, &entry));
}

fn a_broken_row(db: &Bench) -> UnreadableRow {
    let entry = db.schedule("s");
    db.set(RowKey::Schedule(entry.id), "job_type", "'CALENDAR'");
    db.unreadable().into_iter().find(|broken| broken.seen.id == entry.id).expect("it cannot be understood")
}

pub(crate) fn a_quarantine_loses_if_only_the_id_differs(db: &Bench) {
    let broken = a_broken_row(db);
    let mut other = broken.clone();
    other.seen.id = ScheduleId(NO_ID);
    assert!(!db.store.quarantine(&other).unwrap() && db.store.quarantine(&broken).unwrap());
}

pub(crate) fn a_quarantine_loses_if_only_the_state_differs(db: &Bench) {
    let broken = a_broken_row(db);
    let altered = Altered::text(RowKey::Schedule(broken.seen.id), "state", "EXECUTING", "PAUSED");
    altered.decides(db, || db.store.quarantine(&broken).unwrap());
}

pub(crate) fn a_quarantine_loses_if_only_the_version_differs(db: &Bench) {
    let broken = a_broken_row(db);
    let (seen, other) = (broken.seen.version, broken.seen.version + 1);
    let altered = Altered::number(RowKey::Schedule(broken.seen.id), "version", seen, other);
    altered.decides(db, || db.store.quarantine(&broken).unwrap());
}

pub(crate) fn a_removal_loses_if_only_the_id_differs(db: &Bench) {
    db.schedule("s");
    let removal = db.removal("s");
    let mut other = removal.clone();
    other.seen.id = ScheduleId(NO_ID);
    assert!(!db.applied(&Change::Remove(other)) && db.applied(&Change::Remove(removal)));
}

pub(crate) fn a_removal_loses_if_only_the_state_differs(db: &Bench) {
    let entry = db.schedule("s");
    let change = Change::Remove(db.removal("s"));
    let altered = Altered::text(RowKey::Schedule(entry.id), "state", "EXECUTING", "PAUSED");
    altered.decides(db, || db.applied(&change));
}

pub(crate) fn a_removal_loses_if_only_the_version_differs(db: &Bench) {
    let entry = db.schedule("s");
    let (change, seen) = (Change::Remove(db.removal("s")), entry.version);
    let altered = Altered::number(RowKey::Schedule(entry.id), "version", seen, seen + 1);
    altered.decides(db, || db.applied(&change));
}

fn a_cancel_loses(db: &Bench, altered: impl Fn(&Pending) -> Altered<'static>) {
    let pending = db.pending("s");
    let cancel = Transition::Cancel(Reason::Cancelled);
    let change = Change::from(ExecutionChange::of(pending.id, pending.token, cancel, db.now));
    altered(&pending).decides(db, || db.applied(&change));
}

pub(crate) fn a_cancel_loses_if_only_the_state_differs(db: &Bench) {
    a_cancel_loses(db, |it| Altered::text(RowKey::Execution(it.id), "state", "PENDING", "RUNNING"));
}

pub(crate) fn a_cancel_loses_if_only_the_token_differs(db: &Bench) {
    a_cancel_loses(db, |it| {
        let (seen, other) = (it.token.to_string(), Token::fresh().to_string());
        Altered::text(RowKey::Execution(it.id), "claim_token", &seen, &other)
    });
}

fn withdrawal(db: &Bench, execution: ExecutionId) -> Change {
    Change::Withdraw(WithdrawChange { execution, now: db.now })
}

pub(crate) fn a_withdrawal_loses_if_only_the_state_differs(db: &Bench) {
    let pending = db.pending("s");
    let change = withdrawal(db, pending.id);
    let altered = Altered::text(RowKey::Execution(pending.id), "state", "PENDING", "RUNNING");
    altered.decides(db, || db.applied(&change));
}

pub(crate) fn a_withdrawal_loses_if_only_the_id_differs(db: &Bench) {
    let pending = db.pending("s");
    assert!(!db.applied(&withdrawal(db, ExecutionId(NO_ID))));
    assert!(db.applied(&withdrawal(db, pending.id)));
}

pub(crate) fn a_note_of_the_next_pause_end_loses_if_only_the_last_one_differs(db: &Bench) {
    let (application, seen, row) = (db.app.clone(), db.now, RowKey::App(&db.app));
    db.set(row, "pause_ends", &seen.to_string());
    let change = Change::PauseEnd(PauseEnd { application, seen, becomes: Some(db.now + 1) });
    Altered::number(row, "pause_ends", seen.millis(), (seen - 1).millis())
        .decides(db, || db.applied(&change));
    assert_eq!(db.number(row, "pause_ends"), (db.now + 1).millis());
}

fn a_replacement_loses(db: &Bench, altered: impl Fn(&Pending) -> Altered<'static>) {
    let pending = db.pending("s");
    let change = Change::Replace(db.enqueue_order(&["2"]).replacing(pending.id, pending.token, db.now));
    altered(&pending).decides(db, || db.applied(&change));
}

pub(crate) fn a_replacement_loses_if_only_the_id_differs(db: &Bench) {
    let pending = db.pending("s");
    let replaces =
        |id| db.applied(&Change::Replace(db.enqueue_order(&["2"]).replacing(id, pending.token, db.now)));
    assert!(!replaces(ExecutionId(NO_ID)) && replaces(pending.id));
}

pub(crate) fn a_replacement_loses_if_only_the_state_differs(db: &Bench) {
    a_replacement_loses(db, |it| Altered::text(RowKey::Execution(it.id), "state", "PENDING", "CANCELLED"));
}

pub(crate) fn a_replacement_loses_if_only_the_token_differs(db: &Bench) {
    a_replacement_loses(db, |it| {
        let (seen, other) = (it.token.to_string(), Token::fresh().to_string());
        Altered::text(RowKey::Execution(it.id), "claim_token", &seen, &other)
    });
}

fn a_plan_loses(db: &Bench, column: &'static str, (before, after): (String, String)) {
    let entry = db.schedule("s");
    let (row, at) = (RowKey::Schedule(entry.id), db.base - 1);
    db.set(row, "prev_fire_time", &at.to_string());
    db.set(row, "next_fire_time", &AWAITED.to_string());
    let plan = AfterRun { schedule: entry.id, at, next: Some(db.base) };
    let elsewhere = AfterRun { schedule: ScheduleId(NO_ID), ..plan.clone() };
    assert!(!db.applied(&Change::AfterRun(elsewhere)));
    Altered { row, column, before, after }.decides(db, || db.applied(&Change::AfterRun(plan.clone())));
    assert_eq!(db.number(row, "next_fire_time"), db.base.millis());
}

pub(crate) fn a_plan_behind_a_run_loses_if_only_the_state_differs(db: &Bench) {
    a_plan_loses(db, "state", ("'EXECUTING'".to_owned(), "'REMOVED'".to_owned()));
}

pub(crate) fn a_plan_behind_a_run_loses_if_only_prev_differs(db: &Bench) {
    a_plan_loses(db, "prev_fire_time", ((db.base - 1).to_string(), db.base.to_string()));
}

pub(crate) fn a_plan_behind_a_run_loses_if_only_next_differs(db: &Bench) {
    a_plan_loses(db, "next_fire_time", (AWAITED.to_string(), db.base.to_string()));
}
