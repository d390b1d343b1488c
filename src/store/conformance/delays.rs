//! Schedules whose next fire time counts from the end of their last run.

use super::*;
use crate::domain::{Cause, Cursor, NextFire, ScheduleState};
use crate::repair::{plan_anew, recover};
use crate::store::RemoveChange;
use crate::store::audit::Attribution;
use crate::store::order::{Cancel, ExecutionOrder};
use crate::store::rules::ChangeKind;
use crate::trigger::AWAITED;
use crate::trigger::Delay;

const DELAY: Millis = 60_000;

impl Bench {
    /// Fires first at [`Bench::base`].
    fn delayed(&self, name: &str) -> Arc<Entry> {
        self.create(&self.delayed_by(name, DELAY))
    }

    fn delayed_by(&self, name: &str, delay: Millis) -> Definition {
        let trigger = Trigger::Delay(Delay::new(Some(self.base.millis()), delay).unwrap());
        Definition { trigger, ..self.definition(name) }
    }

    fn cursor(&self) -> Cursor {
        self.entry("s").cursor
    }

    fn next(&self) -> NextFire {
        self.cursor().next
    }

    /// When runs end: after they were due.
    fn end(&self) -> Timestamp {
        self.base + 7_500
    }

    /// What the ledger says of each execution: its fire time, and where the cursor went.
    fn ledger(&self, claimed: ExecutionId) -> Option<Timestamp> {
        self.time(RowKey::Execution(claimed), "following_fire_time")
    }

    fn retry_of(&self, claimed: Claimed) -> ClaimRequest {
        let entry = Arc::clone(claimed.entry());
        let failed = claimed.finish(Answer::Failed("no".to_owned()), Some(self.base), self.end());
        assert_eq!(self.settle(&failed), Applied::Done);
        let retry = self.pendings_of(entry.id).pop().expect("a retry");
        ClaimRequest { at_once: true, ..self.request(Candidate::Pending(retry)) }
    }
}

pub(crate) fn the_end_of_a_run_says_when_the_next_is(db: &Bench) {
    let entry = db.delayed("s");
    assert_eq!(entry.cursor, Cursor { prev: None, next: NextFire::At(db.base) });
    let first = db.run_head(&entry);
    let id = first.execution();
    assert_eq!(db.cursor(), Cursor { prev: Some(db.base), next: NextFire::AfterRun });
    assert_eq!(db.ledger(id), NextFire::AfterRun.column());
    assert!(db.polled(db.base + 86_400_000).is_empty(), "nothing is due while it runs");
    let end = succeeded(first, db.end());
    let next = db.end() + DELAY;
    for _ in 0..2 {
        assert_eq!(db.settle(&end), Applied::Done);
        assert_eq!(db.cursor(), Cursor { prev: Some(db.base), next: NextFire::At(next) });
        assert_eq!(db.ledger(id), Some(next));
    }
    let second = db.run_head(&db.entry("s"));
    assert_eq!((second.scheduled(), db.next()), (next, NextFire::AfterRun));
    assert_eq!(db.settle(&end), Applied::Done, "said once more");
    assert_eq!(db.next(), NextFire::AfterRun, "the end of another run");
}

pub(crate) fn an_attempt_that_follows_belongs_to_the_run(db: &Bench) {
    let retry = db.retry_of(db.run_head(&db.delayed("s")));
    assert_eq!(db.next(), NextFire::AfterRun, "a retry follows");
    let second = won(db.claim(&retry));
    assert_eq!(db.settle(&succeeded(second, db.end() + 5_000)), Applied::Done);
    assert_eq!(db.next(), NextFire::At(db.end() + 5_000 + DELAY));
}

pub(crate) fn what_is_given_back_or_snoozed_goes_on(db: &Bench) {
    let claimed = db.claim_head(&db.delayed("s"));
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Done);
    assert_eq!(db.next(), NextFire::AfterRun);
    let pending = db.pendings_of(db.entry("s").id).remove(0);
    let request = ClaimRequest { at_once: true, ..db.request(Candidate::Pending(pending)) };
    let snoozed = won(db.claim(&request)).finish(Answer::Snooze(Duration::from_secs(9)), None, db.now);
    assert_eq!((db.settle(&snoozed), db.next()), (Applied::Done, NextFire::AfterRun));
}

pub(crate) fn the_end_of_a_run_whose_node_died_says_when_the_next_is(db: &Bench) {
    let request = ClaimRequest { at_once: true, node: NodeId::fresh(), ..db.head(&db.delayed("s")) };
    let _ = won(db.claim(&request));
    let mut stranded = db.stranded().remove(0);
    assert_eq!(stranded.delay, Some(DELAY));
    stranded.policy.max_attempts = 2;
    let retried = recover(stranded.clone(), db.base, db.end());
    assert!(retried.transition.next().is_some() && db.revoked(&retried));
    assert_eq!(db.next(), NextFire::AfterRun, "it is run again");
    let again = db.pendings_of(stranded.schedule).remove(0);
    let (at_once, node) = (true, NodeId::fresh());
    let _ = won(db.claim(&ClaimRequest { at_once, node, ..db.request(Candidate::Pending(again)) }));
    let mut stranded = db.stranded().remove(0);
    stranded.policy.max_attempts = 2;
    let given_up = recover(stranded, db.base, db.end());
    assert!(given_up.transition.next().is_none() && db.revoked(&given_up));
    assert_eq!(db.next(), NextFire::At(db.end() + DELAY));
}

pub(crate) fn a_handler_beyond_its_limit_has_not_ended(db: &Bench) {
    let claimed = db.run_head(&db.delayed("s"));
    assert_eq!(db.settle(&claimed.time_out(1, db.end())), Applied::Done);
    assert_eq!(db.next(), NextFire::AfterRun);
    assert_eq!(db.settle(&claimed.release(None, db.end() + 1)), Applied::Done);
    assert_eq!(db.next(), NextFire::At(db.end() + 1 + DELAY));
}

pub(crate) fn a_run_that_is_cancelled_before_it_began_has_ended(db: &Bench) {
    let claimed = db.claim_head(&db.delayed("s"));
    let (application, execution, by) = (db.app.clone(), claimed.execution(), Attribution::default());
    let cancelled = db.store.cancel(&ExecutionOrder::new(application, execution, by)).unwrap();
    assert_eq!(cancelled, Cancel::Done);
    // The database's clock is an hour behind the fire time: the next is behind that, in any case.
    assert_eq!(db.next(), NextFire::At(db.base + 1));
    assert_eq!(db.settle(&claimed.give_back(db.now)), Applied::Lost);
    assert_eq!(db.next(), NextFire::At(db.base + 1));
}

/// Somebody asked to cancel it as it ran: the retry is not made, or is withdrawn.
pub(crate) fn a_run_that_is_withdrawn_has_ended(db: &Bench) {
    let claimed = db.run_head(&db.delayed("s"));
    let (application, execution, by) = (db.app.clone(), claimed.execution(), Attribution::default());
    let asked = db.store.cancel(&ExecutionOrder::new(application, execution, by)).unwrap();
    assert!(matches!(asked, Cancel::Asked { .. }));
    let failed = claimed.finish(Answer::Failed("no".to_owned()), Some(db.base), db.end());
    assert_eq!(db.settle(&failed), Applied::Done);
    assert_eq!((db.executions().len(), db.next()), (1, NextFire::At(db.end() + DELAY)));

    let again = db.run_head(&db.entry("s"));
    let (application, execution, by) = (db.app.clone(), again.execution(), Attribution::default());
    assert!(db.store.cancel(&ExecutionOrder::new(application, execution, by)).is_ok());
    let snoozed = again.finish(Answer::Snooze(Duration::from_secs(9)), None, db.now);
    assert_eq!((db.settle(&snoozed), db.next()), (Applied::Done, NextFire::AfterRun));
    let withdrawn = db.store.withdrawn(&db.app, 10).unwrap().remove(0);
    let end = db.end() + 2 * DELAY;
    assert_eq!(db.settle(&withdrawn.cancel(end)), Applied::Done);
    assert_eq!(db.next(), NextFire::At(end + DELAY));
}

pub(crate) fn no_run_follows_beyond_the_end(db: &Bench) {
    let entry = db.create(&Definition { end: Some(db.end() + DELAY), ..db.delayed_by("s", DELAY) });
    let first = db.run_head(&entry);
    assert_eq!(db.settle(&succeeded(first, db.end())), Applied::Done);
    let last = db.run_head(&db.entry("s"));
    let id = last.execution();
    assert_eq!(
        (db.next(), db.entry("s").state),
        (NextFire::Never, ScheduleState::Complete),
        "nothing can follow"
    );
    assert_eq!(db.settle(&succeeded(last, db.end() + DELAY)), Applied::Done);
    assert_eq!((db.ledger(id), db.next()), (None, NextFire::Never));

    let entry = db.create(&Definition { end: Some(db.base + DELAY), ..db.delayed_by("late", DELAY) });
    let only = db.run_head(&entry);
    assert_eq!(db.entry("late").cursor.next, NextFire::AfterRun);
    assert_eq!(db.settle(&succeeded(only, db.end())), Applied::Done);
    let late = db.entry("late");
    assert_eq!(
        (late.cursor.next, late.state),
        (NextFire::Never, ScheduleState::Complete),
        "it took too long"
    );
}

pub(crate) fn another_delay_counts_from_the_run_under_way(db: &Bench) {
    let claimed = db.run_head(&db.delayed("s"));
    let id = claimed.execution();
    assert_eq!(db.store.ensure(&db.delayed_by("s", 5_000)).unwrap(), Ensured::Changed);
    assert_eq!(db.cursor(), Cursor { prev: Some(db.base), next: NextFire::AfterRun });
    assert_eq!(db.entry("s").generation, 1);
    assert_eq!(db.settle(&succeeded(claimed, db.end())), Applied::Done);
    let next = Some(db.end() + 5_000);
    assert_eq!((db.next().at(), db.ledger(id)), (next, next));
}

pub(crate) fn another_trigger_does_not_wait_for_the_run_under_way(db: &Bench) {
    let claimed = db.run_head(&db.delayed("s"));
    assert_eq!(db.store.ensure(&db.definition("s")).unwrap(), Ensured::Changed);
    let cursor = db.cursor();
    assert_eq!(cursor.next, NextFire::At(db.base + 1_000));
    assert_eq!(db.settle(&succeeded(claimed, db.end())), Applied::Done);
    assert_eq!(db.cursor(), cursor);
}

pub(crate) fn a_start_that_is_put_off_during_a_run_is_kept(db: &Bench) {
    let claimed = db.run_head(&db.delayed("s"));
    let start = db.base + 86_400_000;
    let trigger = Trigger::Delay(Delay::new(Some(start.millis()), DELAY).unwrap());
    assert_eq!(db.store.ensure(&Definition { trigger, ..db.definition("s") }).unwrap(), Ensured::Changed);
    assert_eq!(db.settle(&succeeded(claimed, db.end())), Applied::Done);
    assert_eq!(db.next(), NextFire::At(start));
}

/// Its last fire time was in order. A cursor that waits for its run is left alone, wherever that was.
pub(crate) fn a_run_that_ended_by_a_clock_ahead_is_planned_anew(db: &Bench) {
    let far = db.base + 86_400_000;
    let found = || {
        let (application, before) = (db.app.clone(), Timestamp::MIN);
        let query = UnreadableQuery {
            application,
            after: ScheduleId(i64::MIN),
            step: 1_000_000,
            from: Timestamp::at(0),
            before,
            limit: 100_000,
            ahead: Some(db.base + 3_600_000),
        };
        let ahead = db.store.unreadable(&query).unwrap().ahead;
        ahead.into_iter().map(|it| it.entry).find(|entry| &*entry.name == "s")
    };
    let entry = db.delayed("s");
    let claimed = db.run_head(&entry);
    assert_eq!(found(), None, "it runs");
    assert_eq!(db.settle(&succeeded(claimed, far)), Applied::Done);
    assert_eq!(db.next(), NextFire::At(far + DELAY));
    let ahead = found().expect("it is a day away, for a delay of a minute");
    let repair = plan_anew(&ahead, db.base + 3_600_000).unwrap();
    assert!(db.repaired(&repair));
    assert_eq!(db.next(), NextFire::At(db.base + 3_600_000 + DELAY));
    assert_eq!(found(), None);
}

/// An outcome is tried again, what repair does is left to its next pass; nothing waits.
pub(crate) fn the_end_of_a_run_does_not_wait_for_a_held_row(db: &Bench) {
    let (mine, theirs) = (db.delayed("mine"), db.delayed("theirs"));
    let claimed = db.run_head(&mine);
    let request = ClaimRequest { at_once: true, node: NodeId::fresh(), ..db.head(&theirs) };
    drop_claimed(db.claim(&request));
    let mut stranded = db.stranded().remove(0);
    stranded.policy.max_attempts = 1;
    let (end, given_up) = (succeeded(claimed, db.end()), recover(stranded, db.base, db.end()));
    let held = [db.lock(mine.id), db.lock(theirs.id)];
    assert_eq!(db.settle(&end), Applied::Held);
    assert!(!db.revoked(&given_up));
    drop(held);
    assert_eq!(db.settle(&end), Applied::Done);
    assert!(db.revoked(&given_up));
    for name in ["mine", "theirs"] {
        assert_eq!(db.entry(name).cursor.next, NextFire::At(db.end() + DELAY));
    }
}

pub(crate) fn a_paused_schedule_is_planned_by_the_end_of_its_run(db: &Bench) {
    let claimed = db.run_head(&db.delayed("s"));
    let entry = db.entry("s");
    assert!(db.store.pause(entry.id, entry.version, "op", "").unwrap());
    assert_eq!(db.settle(&succeeded(claimed, db.end())), Applied::Done);
    let paused = db.entry("s");
    assert_eq!((paused.state, paused.cursor.next), (ScheduleState::Paused, NextFire::At(db.end() + DELAY)));
}

/// Its run was the last before the window's end: that once made it COMPLETE.
pub(crate) fn a_removed_schedule_stays_removed_when_its_run_ends(db: &Bench) {
    let entry = db.create(&Definition { end: Some(db.base + DELAY), ..db.delayed_by("s", DELAY) });
    let claimed = db.run_head(&entry);
    let (seen, application) = (db.store.seen(&db.app, "s").unwrap().unwrap(), db.app.clone());
    let removal = RemoveChange { application, seen, reason: String::new(), now: db.now };
    assert!(db.applied(&Change::Remove(removal)));
    assert_eq!(db.settle(&succeeded(claimed, db.end())), Applied::Done);
    let row = db.get(RowKey::Schedule(entry.id), "state");
    assert_eq!(row.as_deref(), Some(ScheduleState::Removed.stored()));
    assert_eq!(db.number(RowKey::Schedule(entry.id), "next_fire_time"), AWAITED);
}

pub(crate) fn a_run_by_hand_plans_nothing(db: &Bench) {
    let claimed = db.run_head(&db.delayed("s"));
    let (application, schedule) = (db.app.clone(), "s".to_owned());
    let order = crate::store::order::RunOrder {
        application,
        schedule,
        payload: None,
        headers: Default::default(),
        at: Some(db.base),
        by: Attribution::default(),
    };
    db.store.order(&order).unwrap();
    let extra = db.pendings_of(claimed.entry().id).remove(0);
    assert!(matches!(extra.cause, Cause::ByHand { .. }));
    let extra = won(db.claim(&ClaimRequest { at_once: true, ..db.request(Candidate::Pending(extra)) }));
    assert_eq!(db.settle(&succeeded(extra, db.end())), Applied::Done);
    assert_eq!(db.next(), NextFire::AfterRun);
    let end = succeeded(claimed, db.end() + 1);
    assert!(end.kind() == ChangeKind::Finish && db.settle(&end) == Applied::Done);
    assert_eq!(db.next(), NextFire::At(db.end() + 1 + DELAY));
}
