//! Removed schedules: nothing of them is claimed, what waits is cancelled, and the name can be used again.

use super::*;
use crate::domain::{Cursor, NextFire, ScheduleState};
use crate::store::{Purge, RemoveChange, Withdrawn};

impl Bench {
    pub fn removal(&self, name: &str) -> RemoveChange {
        let seen = self.store.seen(&self.app, name).unwrap().expect("the schedule exists");
        RemoveChange { application: self.app.clone(), seen, reason: "why".to_owned(), now: self.now }
    }

    pub(super) fn remove(&self, name: &str) {
        assert!(self.applied(&Change::Remove(self.removal(name))));
    }

    fn state_of(&self, id: ScheduleId) -> Option<String> {
        self.get(RowKey::Schedule(id), "state")
    }

    fn withdrawn(&self) -> Vec<Withdrawn> {
        self.store.withdrawn(&self.app, 100).unwrap()
    }

    /// State and reason of an execution.
    fn ending(&self, id: ExecutionId) -> (String, String) {
        let row = self.execution(id);
        (row.state, row.reason)
    }
}

fn cancelled() -> (String, String) {
    ("CANCELLED".to_owned(), "removed".to_owned())
}

pub(crate) fn nothing_of_a_removed_schedule_is_claimed(db: &Bench) {
    let (entry, pending) = (db.schedule("s"), db.pending("waits"));
    let beside = db.pending("beside");
    let requests = [db.head(&entry), db.request(Candidate::Pending(pending.clone()))];
    db.remove("s");
    db.remove("waits");
    assert!(requests.iter().all(|request| is_lost(&db.claim(request))));
    assert_eq!(db.ending(pending.id), cancelled());
    assert!(db.execution(pending.id).finished.is_some());
    assert_eq!(db.polled(Timestamp::MAX), ["beside"]);
    assert_eq!(names_of(&db.store.schedules(Some(&db.app)).unwrap()), ["beside"]);
    assert_eq!(db.find_pending(beside.id).map(|it| it.token), Some(beside.token), "others are left alone");
    assert!(!db.applied(&Change::Remove(RemoveChange { seen: seen(&entry), ..db.removal("s") })));
}

fn names_of(rows: &[ScheduleRow]) -> Vec<&str> {
    rows.iter().map(|row| row.name.as_str()).collect()
}

fn seen(entry: &Entry) -> SeenSchedule {
    let state = entry.state.stored().to_owned();
    SeenSchedule { id: entry.id, version: entry.version, state, next: entry.cursor.next.at() }
}

/// It ends as it would have; handed back, or retried, it waits for nobody.
pub(crate) fn what_runs_of_a_removed_schedule_ends_and_is_not_run_again(db: &Bench) {
    let ended = db.run_head(&db.schedule("ends"));
    let (failed, back) = (db.run_head(&db.schedule("fails")), db.claim_head(&db.schedule("back")));
    let (ended_id, back_id) = (ended.execution(), back.execution());
    ["ends", "fails", "back"].iter().for_each(|name| db.remove(name));
    assert_eq!(db.settle(&succeeded(ended, db.now)), Applied::Done);
    let failure = failed.finish(Answer::Failed("no".to_owned()), Some(db.now), db.now);
    assert_eq!(db.settle(&failure), Applied::Done);
    assert_eq!(db.settle(&back.give_back(db.now)), Applied::Done);
    assert_eq!(db.execution(ended_id).state, "SUCCEEDED");
    let mut left = db.withdrawn();
    left.sort_by_key(|it| it.attempt.schedule.clone());
    assert_eq!(left.iter().map(|it| &*it.attempt.schedule).collect::<Vec<_>>(), ["back", "fails"]);
    for it in &left {
        assert!(db.applied(&it.cancel(db.now).into()));
        assert!(!db.applied(&it.cancel(db.now).into()), "its token is gone");
        assert_eq!(db.ending(it.attempt.execution), cancelled());
    }
    assert_eq!(left[0].attempt.execution, back_id);
    assert!(db.withdrawn().is_empty());
}

pub(crate) fn a_removed_schedule_that_is_made_again_is_a_new_one(db: &Bench) {
    let definition = db.definition("s");
    let entry = db.create(&definition);
    let first = db.claim_head(&entry);
    let (first_id, fence) = (first.execution(), first.fence());
    db.remove("s");
    assert_eq!(db.settle(&first.give_back(db.now)), Applied::Done);
    let never = Trigger::cron("0 0 0 1 1 ? 2001", "UTC").unwrap();
    let error = db.store.ensure(&Definition { trigger: never, ..definition.clone() }).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Config, "{error}");
    assert_eq!(db.state_of(entry.id).as_deref(), Some("REMOVED"));
    let anew = db.create(&Definition { payload: "7".to_owned(), ..definition });
    assert_eq!((anew.id, anew.generation, anew.state), (entry.id, 1, ScheduleState::Active));
    assert_eq!(
        anew.cursor,
        Cursor { prev: None, next: NextFire::At(db.base) },
        "its first fire time lies ahead"
    );
    assert_eq!(db.schedule_row(anew.id).pause.reason, "");
    assert_eq!(db.ending(first_id), cancelled(), "what was handed back since does not run with its payload");
    assert!(db.claim_head(&anew).fence() > fence);
}

/// Somebody has to be able to get rid of it.
pub(crate) fn a_row_nobody_understands_can_be_removed(db: &Bench) {
    for (name, column, value) in [
        ("a", "job_type", "'CALENDAR'"),
        ("b", "state", "NULL"),
        ("c", "state", "'X'"),
        ("d", "version", "-5"),
    ] {
        let id = db.schedule(name).id;
        db.set(RowKey::Schedule(id), column, value);
        db.remove(name);
        assert_eq!(db.state_of(id).as_deref(), Some("REMOVED"), "{column}");
    }
    assert_eq!(db.unreadable(), []);
}

pub(crate) fn a_removed_schedules_row_stays_until_its_ledger_is_gone(db: &Bench) {
    let (entry, unused) = (db.schedule("s"), db.schedule("unused"));
    let claimed = db.run_head(&entry);
    let id = claimed.execution();
    db.remove("s");
    db.remove("unused");
    assert_eq!(db.settle(&succeeded(claimed, db.now)), Applied::Done);
    db.set(RowKey::Execution(id), "scheduled_time", &(db.now - 7_200_000).to_string());
    let purge = |keep| {
        let purge = Purge { application: db.app.clone(), after: String::new(), keep, limit: 100 };
        db.store.purge(&purge).unwrap().schedules
    };
    // The fences' mark is raised by one walk, for the next.
    assert_eq!([purge(3_600_000), purge(3_600_000)], [1, 0], "the one without a ledger");
    assert_eq!(db.state_of(entry.id).as_deref(), Some("REMOVED"));
    assert_eq!(db.execution(id).schedule, "s", "its executions keep its name");
    purge(-3_600_000);
    assert_eq!(purge(-3_600_000), 1);
    assert!(db.store.seen(&db.app, "s").unwrap().is_none());
    assert!(db.store.seen(&db.app, "unused").unwrap().is_none() && unused.generation == 0);
    assert!(db.claim_head(&db.schedule("s")).fence() > 1, "fences go on");
}
