//! Occurrences in a row that failed for good or killed their nodes, and the pause that they are the reason
//! for.

use super::*;
use crate::domain::{ExecutionState, PauseAfter, ScheduleState};
use crate::repair::{recover, resume, skip};
use crate::store::audit::{Attribution, AuditQuery};
use crate::store::order::{Cancel, ExecutionOrder, Retry};
use crate::store::streak::{Reach, Streak, StreakQuery};

impl Bench {
    fn pausing(&self, name: &str, pause_after: Option<u32>) -> Arc<Entry> {
        let pause_after = PauseAfter::of(pause_after);
        self.create(&Definition { pause_after, ..self.definition(name) })
    }

    /// The streak of the schedule `s`.
    fn streak(&self) -> Option<Streak> {
        self.streak_with(Vec::new())
    }

    fn streak_with(&self, dying: Vec<ExecutionId>) -> Option<Streak> {
        let schedule = self.entry("s").id;
        self.store.streak(&StreakQuery { schedule, dying, reach: Reach::MOST }).unwrap()
    }

    fn contains(&self, streak: &Streak) -> Applied {
        let query = StreakQuery { schedule: streak.schedule, dying: Vec::new(), reach: Reach::MOST };
        self.store.contain(&query, streak).unwrap()
    }

    fn reason(&self) -> Option<String> {
        self.streak().map(|streak| streak.reason)
    }

    /// The next occurrence fails for good.
    fn fails_once(&self) -> ExecutionId {
        self.runs_to_its_end(Answer::Failed("no".to_owned()), None)
    }

    fn runs_to_its_end(&self, answer: Answer, retry: Option<Timestamp>) -> ExecutionId {
        let claimed = self.run_head(&self.entry("s"));
        let id = claimed.execution();
        assert_eq!(self.settle(&claimed.finish(answer, retry, self.now)), Applied::Done);
        id
    }

    /// The next occurrence runs on a node of its own, which dies; it has been given up before.
    fn strands(&self) -> Stranded {
        let node = NodeId::fresh();
        let id =
            won(self.claim(&ClaimRequest { at_once: true, node, ..self.head(&self.entry("s")) })).execution();
        let mut stranded = self.stranded().into_iter().find(|it| it.id == id).expect("its node is missing");
        stranded.policy.max_attempts = 1;
        stranded
    }

    fn dies(&self) {
        let revocation = recover(self.strands(), self.now, self.now);
        assert!(revocation.is_last_death() && self.revoked(&revocation));
    }

    fn order_of(&self, execution: ExecutionId) -> ExecutionOrder {
        ExecutionOrder::new(self.app.clone(), execution, Attribution::default())
    }
}

pub(crate) fn failures_in_a_row_are_a_streak_at_the_limit(db: &Bench) {
    db.pausing("s", Some(3));
    for _ in 0..2 {
        db.fails_once();
        assert_eq!(db.streak(), None);
    }
    db.runs_to_its_end(Answer::GiveUp("no".to_owned()), None);
    let streak = db.streak().expect("three in a row");
    let entry = db.entry("s");
    assert_eq!((streak.schedule, streak.version), (entry.id, entry.version));
    assert_eq!((streak.application.as_str(), &*streak.name), (db.app.as_str(), "s"));
    assert_eq!(streak.reason, "3 occurrences in a row failed");
    assert_eq!(db.contains(&streak), Applied::Done);
    let row = db.schedule_row(entry.id);
    assert_eq!(row.state, ScheduleState::Paused.stored());
    assert_eq!((row.pause.by.as_str(), row.pause.reason.as_str()), ("firetime", streak.reason.as_str()));
    let query = AuditQuery { application: db.app.clone(), limit: 1, ..Default::default() };
    let last = db.store.audit(&query).unwrap().remove(0);
    assert_eq!((last.verb.as_str(), last.actor.as_str(), last.target.as_str()), ("pause", "firetime", "s"));
    assert_eq!((last.was.as_str(), last.became.as_str(), last.reason), ("active", "paused", streak.reason));
}

/// The one that is about to be stored counts already.
pub(crate) fn deaths_are_a_streak_whether_or_not_failures_count(db: &Bench) {
    db.pausing("s", None);
    db.dies();
    db.fails_once();
    db.dies();
    assert_eq!(db.streak(), None, "not in a row");
    let dying = db.strands();
    assert_eq!(db.streak(), None);
    let streak = db.streak_with(vec![dying.id]).expect("two in a row");
    assert_eq!(streak.reason, "2 occurrences in a row killed their nodes");
    assert!(db.revoked(&recover(dying, db.now, db.now)));
    assert_eq!(db.streak(), Some(streak), "it is stored");
    let definition = Definition { pause_after: PauseAfter::Never, ..db.definition("s") };
    assert_eq!(db.store.ensure(&definition).unwrap(), Ensured::Changed);
    assert_eq!(db.streak(), None, "it is not to pause itself");
}

pub(crate) fn a_success_ends_a_streak(db: &Bench) {
    db.pausing("s", Some(2));
    db.fails_once();
    db.runs_to_its_end(Answer::Done, None);
    db.fails_once();
    assert_eq!(db.streak(), None);
    db.fails_once();
    assert!(db.streak().is_some());
}

pub(crate) fn a_resume_ends_a_streak(db: &Bench) {
    db.pausing("s", Some(2));
    db.fails_once();
    db.fails_once();
    assert_eq!(db.contains(&db.streak().expect("two in a row")), Applied::Done);
    assert_eq!(db.streak(), None, "it is paused");
    // What is left of its plan lies beyond this instant.
    let repair = resume(&db.entry("s"), db.base + 1_500).expect("it is paused");
    assert!(db.repaired(&repair));
    assert_eq!(db.streak(), None);
    db.fails_once();
    assert_eq!(db.streak(), None);
    db.fails_once();
    assert!(db.streak().is_some());
}

pub(crate) fn another_trigger_ends_a_streak(db: &Bench) {
    db.pausing("s", Some(2));
    db.fails_once();
    let trigger = every(db.base + 500, 2_000, -1);
    let definition = Definition { trigger, pause_after: PauseAfter::of(Some(2)), ..db.definition("s") };
    assert_eq!(db.store.ensure(&definition).unwrap(), Ensured::Changed);
    db.fails_once();
    assert_eq!(db.streak(), None);
    let edited = Definition { payload: "1".to_owned(), ..definition };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    db.fails_once();
    assert!(db.streak().is_some(), "another payload does not");
}

pub(crate) fn what_was_cancelled_or_asked_for_belongs_to_no_streak(db: &Bench) {
    db.pausing("s", Some(2));
    db.fails_once();
    db.runs_to_its_end(Answer::Cancelled("no".to_owned()), None);
    let claimed = db.run_head(&db.entry("s"));
    assert!(matches!(db.store.cancel(&db.order_of(claimed.execution())).unwrap(), Cancel::Asked { .. }));
    assert_eq!(db.settle(&claimed.time_out(1, db.now)), Applied::Done);
    assert_eq!(db.settle(&claimed.release(None, db.now)), Applied::Done);
    let entry = db.entry("s");
    assert!(db.repaired(&skip(&entry, entry.cursor.next.at().unwrap(), db.now).unwrap()));
    let ordered = db.ordered(&db.run_order("s"));
    let ordered = db.request(Candidate::Pending(db.find_pending(ordered).unwrap()));
    let ordered = won(db.claim(&ClaimRequest { at_once: true, ..ordered }));
    let failed = ordered.finish(Answer::Failed("no".to_owned()), None, db.now);
    assert_eq!((db.settle(&failed), failed.fails()), (Applied::Done, None));
    assert_eq!(db.streak(), None);
    db.fails_once();
    assert!(db.streak().is_some(), "they do not end it");
}

pub(crate) fn a_retry_by_hand_is_its_occurrences_outcome(db: &Bench) {
    db.pausing("s", Some(2));
    db.fails_once();
    let last = db.fails_once();
    assert!(db.streak().is_some());
    let Retry::Pending(again) = db.store.retry(&db.order_of(last)).unwrap() else { panic!("it failed") };
    assert_eq!(db.streak(), None, "it waits");
    let again = db.request(Candidate::Pending(db.find_pending(again).unwrap()));
    let again = won(db.claim(&ClaimRequest { at_once: true, ..again }));
    assert_eq!(db.settle(&again.finish(Answer::Failed("no".to_owned()), None, db.now)), Applied::Done);
    assert!(db.streak().is_some());
}

pub(crate) fn what_waits_for_its_retry_has_not_failed(db: &Bench) {
    db.pausing("s", Some(1));
    db.runs_to_its_end(Answer::Failed("no".to_owned()), Some(db.now));
    assert_eq!(db.streak(), None);
}

pub(crate) fn a_time_limit_counts_once_the_handler_is_gone(db: &Bench) {
    db.pausing("s", Some(1));
    let claimed = db.run_head(&db.entry("s"));
    assert_eq!(db.settle(&claimed.time_out(1, db.now)), Applied::Done);
    assert_eq!(db.streak(), None);
    let release = claimed.release(None, db.now);
    assert_eq!((db.settle(&release), release.fails()), (Applied::Done, Some(db.entry("s").id)));
    assert_eq!(db.reason().as_deref(), Some("1 occurrence failed"));
    // Another hangs until its node is gone.
    let (node, entry) = (db.another_node(), db.entry("s"));
    let hangs = won(db.claim(&ClaimRequest { at_once: true, node, ..db.head(&entry) }));
    assert_eq!(db.settle(&hangs.time_out(1, db.now)), Applied::Done);
    db.store.leave(node, db.now).unwrap();
    let revocation = recover(db.stranded().remove(0), db.now, db.now);
    assert!(revocation.is_last_death() && db.revoked(&revocation));
    let row = db.execution(hangs.execution());
    assert_eq!((row.state.as_str(), row.reason.as_str()), (ExecutionState::TimedOut.as_str(), "node died"));
    assert_eq!(db.reason().as_deref(), Some("1 occurrence killed its node"));
}

pub(crate) fn a_schedule_that_is_not_active_has_no_streak(db: &Bench) {
    let entry = db.pausing("s", Some(1));
    db.fails_once();
    assert!(db.streak().is_some());
    for state in ["'COMPLETE'", "'PAUSED'", "'REMOVED'", "'ERROR'", "'?'"] {
        db.set(RowKey::Schedule(entry.id), "state", state);
        let query = StreakQuery { schedule: entry.id, dying: Vec::new(), reach: Reach::MOST };
        assert_eq!(db.store.streak(&query).unwrap(), None, "{state}");
    }
    let query = StreakQuery { schedule: ScheduleId(-7), dying: Vec::new(), reach: Reach::MOST };
    assert_eq!(db.store.streak(&query).unwrap(), None, "there is none");
}

pub(crate) fn the_pause_for_a_streak_loses_against_an_edit(db: &Bench) {
    db.pausing("s", Some(1));
    db.fails_once();
    let streak = db.streak().expect("one is enough");
    let definition = Definition { pause_after: PauseAfter::of(Some(9)), ..db.definition("s") };
    assert_eq!(db.store.ensure(&definition).unwrap(), Ensured::Changed);
    assert_eq!(db.contains(&streak), Applied::Lost);
    let (change, audit) = streak.pause();
    assert_eq!(db.store.apply_audited(change, &audit).unwrap(), Applied::Lost, "an edit behind its count");
    assert_eq!(db.entry("s").state, ScheduleState::Active);
}

/// The process that counted may have been stopped in between.
pub(crate) fn the_pause_for_a_streak_loses_against_a_success(db: &Bench) {
    db.pausing("s", Some(1));
    db.fails_once();
    let streak = db.streak().expect("one is enough");
    db.runs_to_its_end(Answer::Done, None);
    assert_eq!(db.contains(&streak), Applied::Lost);
    assert_eq!(db.entry("s").state, ScheduleState::Active);
    db.fails_once();
    assert_eq!(db.contains(&db.streak().expect("another is enough")), Applied::Done);
}

/// The machine that takes over dead nodes' executions pauses schedules, too.
pub(crate) fn the_pause_for_a_streak_waits_for_nobody_who_holds_the_row(db: &Bench) {
    let id = db.pausing("s", Some(1)).id;
    db.fails_once();
    let streak = db.streak().expect("one is enough");
    let held = db.lock(id);
    assert_eq!(db.contains(&streak), Applied::Lost);
    drop(held);
    assert_eq!(db.contains(&streak), Applied::Done);
}

/// More of them than are read at first.
pub(crate) fn a_streak_reaches_beyond_many_skipped_occurrences(db: &Bench) {
    db.pausing("s", Some(2));
    db.fails_once();
    for _ in 0..120 {
        let entry = db.entry("s");
        assert!(db.repaired(&skip(&entry, entry.cursor.next.at().unwrap(), db.now).unwrap()));
    }
    db.fails_once();
    assert!(db.streak().is_some());
}

/// Rows of what was not run do not use up the rows that are read, but for those that are looked at in all.
pub(crate) fn what_was_not_run_takes_no_place_of_a_failure(db: &Bench) {
    let schedule = db.pausing("s", Some(2)).id;
    db.fails_once();
    for _ in 0..4 {
        let entry = db.entry("s");
        assert!(db.repaired(&skip(&entry, entry.cursor.next.at().unwrap(), db.now).unwrap()));
    }
    db.fails_once();
    let streak = |rows, scanned| {
        let query = StreakQuery { schedule, dying: Vec::new(), reach: Reach { rows, scanned } };
        db.store.streak(&query).unwrap().is_some()
    };
    assert!(streak(2, 6));
    assert!(!streak(2, 5), "the first failure is beyond what is looked at");
    assert!(!streak(1, 6));
}

/// What somebody asked to end does not count, nor does it if its node dies before.
pub(crate) fn what_was_to_be_cancelled_as_its_node_died_is_no_death(db: &Bench) {
    db.pausing("s", None);
    db.dies();
    let dying = db.strands();
    assert!(db.streak_with(vec![dying.id]).is_some());
    assert!(matches!(db.store.cancel(&db.order_of(dying.id)).unwrap(), Cancel::Asked { .. }));
    assert_eq!(db.streak_with(vec![dying.id]), None);
}
