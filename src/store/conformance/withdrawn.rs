//! Occurrences that were due and not claimed when their schedule got another trigger or was removed: each has
//! a row, and nothing else has one.

use super::*;
use crate::domain::{NextFire, ScheduleState};
use crate::store::audit::{Attribution, AuditEntry, AuditQuery};

/// How far a schedule is behind, and what it fires by.
const BEHIND: Millis = 10_000;
const INTERVAL: Millis = 1_000;

impl Bench {
    /// The first occurrence of a schedule that has fallen behind.
    fn first_due(&self) -> Timestamp {
        self.base - 3_600_000 - BEHIND
    }

    /// Every second, with its cursor so far behind.
    fn behind(&self, name: &str) -> Arc<Entry> {
        self.planned_at(name, self.first_due())
    }

    /// Every second, with its cursor before this occurrence.
    fn planned_at(&self, name: &str, next: Timestamp) -> Arc<Entry> {
        let trigger = every(self.base - 7_200_000, INTERVAL, -1);
        let row = RowKey::Schedule(self.create(&Definition { trigger, ..self.definition(name) }).id);
        self.set(row, "prev_fire_time", &(next - INTERVAL).to_string());
        self.set(row, "next_fire_time", &next.to_string());
        self.entry(name)
    }

    /// Gives a schedule another trigger, whose first fire time lies ahead.
    fn re_timed(&self, name: &str) -> Ensured {
        self.store
            .ensure(&Definition { trigger: every(self.base, 2_000, -1), ..self.definition(name) })
            .unwrap()
    }

    fn withdrawn_of(&self, name: &str) -> Vec<ExecutionRow> {
        let mut rows = self.executions();
        rows.retain(|row| row.state == "WITHDRAWN" && row.schedule == name);
        rows
    }

    /// The row of a schedule that was withdrawn from the occurrence `from` on.
    fn is_withdrawn(&self, entry: &Entry, from: Timestamp, reason: &str) -> ExecutionRow {
        let [row] = <[_; 1]>::try_from(self.withdrawn_of(&entry.name)).unwrap();
        let ended = row.finished.expect("it has ended");
        let to = from + (ended - from) / INTERVAL * INTERVAL;
        assert_eq!((row.scheduled, row.until), (from, Some(to)));
        assert_eq!(row.count, (to - from) / INTERVAL + 1);
        assert_eq!((row.reason.as_str(), row.generation), (reason, entry.generation));
        assert_eq!((row.origin, row.attempt, row.due, row.fence), (0, 1, from, 0));
        assert_eq!((row.claimed, row.started, row.node.as_str()), (None, None, ""));
        let key = RowKey::Execution(ExecutionId(row.id));
        let cursor = ["prev_fire_time", "following_fire_time"].map(|column| self.time(key, column));
        assert_eq!(cursor, [Some(from - INTERVAL), Some(to + INTERVAL)]);
        row
    }

    /// The verb of the audit's row with this id.
    fn audited(&self, id: Option<i64>) -> Option<String> {
        let query = AuditQuery { application: self.app.clone(), limit: 100, ..AuditQuery::default() };
        let rows = self.store.audit(&query).unwrap();
        rows.into_iter().find(|row| Some(row.id) == id).map(|row| row.verb)
    }
}

pub(crate) fn another_trigger_withdraws_all_that_was_due(db: &Bench) {
    let entry = db.behind("s");
    let head = db.head(&entry);
    assert_eq!(db.re_timed("s"), Ensured::Changed);
    let row = db.is_withdrawn(&entry, db.first_due(), "edited");
    assert!(row.count > BEHIND / INTERVAL, "{row:?}");
    assert_eq!(db.audited(row.holder).as_deref(), Some("ensure"));
    assert!(is_lost(&db.claim(&head)), "it has its row");
    let after = db.entry("s");
    assert_eq!((after.cursor.prev, after.cursor.next), (entry.cursor.prev, NextFire::At(db.base)));
    assert_eq!(after.generation, entry.generation + 1);
    drop_claimed(db.claim(&db.head(&after)));
}

pub(crate) fn a_removal_withdraws_all_that_was_due(db: &Bench) {
    let (plain, audited) = (db.behind("plain"), db.behind("audited"));
    let head = db.head(&plain);
    db.remove("plain");
    let row = db.is_withdrawn(&plain, db.first_due(), "removed");
    assert_eq!((row.finished, row.holder), (Some(db.now), None), "nobody recorded it");
    assert!(is_lost(&db.claim(&head)));
    let by = Attribution::default();
    let record = AuditEntry::of_schedule("remove", (&db.app, "audited"), ("active", "removed"), &by);
    let removal = Change::Remove(db.removal("audited"));
    assert_eq!(db.store.apply_audited(removal.clone(), &record).unwrap(), Applied::Done);
    let row = db.is_withdrawn(&audited, db.first_due(), "removed");
    assert_eq!(db.audited(row.holder).as_deref(), Some("remove"));
    assert_eq!(db.store.apply_audited(removal, &record).unwrap(), Applied::Lost);
    assert_eq!(db.withdrawn_of("audited").len(), 1);
    assert_eq!(db.re_timed("audited"), Ensured::Created);
    assert_eq!(db.withdrawn_of("audited").len(), 1, "a removed schedule plans nothing");
}

/// What its pause held back is passed by its end; until then it is due.
pub(crate) fn what_a_pause_held_back_is_withdrawn(db: &Bench) {
    for name in ["edited", "removed"] {
        let entry = db.behind(name);
        assert!(db.store.pause(entry.id, entry.version, "op", "").unwrap());
        match name {
            "edited" => assert_eq!(db.re_timed(name), Ensured::Changed),
            _ => db.remove(name),
        }
        db.is_withdrawn(&entry, db.first_due(), name);
    }
    assert_eq!(db.entry("edited").state, ScheduleState::Paused);
}

/// The last of a schedule, and all that was left of another.
pub(crate) fn nothing_follows_what_was_withdrawn_last(db: &Bench) {
    let first = db.first_due();
    for (name, repeats) in [("one", 0), ("three", 2)] {
        let trigger = every(first, INTERVAL, repeats);
        let entry = db.create(&Definition { trigger, ..db.definition(name) });
        assert_eq!(db.re_timed(name), Ensured::Changed);
        let [row] = <[_; 1]>::try_from(db.withdrawn_of(name)).unwrap();
        let last = first + repeats * INTERVAL;
        assert_eq!((row.scheduled, row.until, row.count), (first, Some(last), repeats + 1), "{name}");
        let key = RowKey::Execution(ExecutionId(row.id));
        assert_eq!((db.time(key, "prev_fire_time"), db.time(key, "following_fire_time")), (None, None));
        assert_eq!(row.generation, entry.generation);
    }
}

pub(crate) fn nothing_is_withdrawn_that_was_not_due(db: &Bench) {
    let ahead = db.schedule("ahead");
    assert_eq!(db.re_timed("ahead"), Ensured::Changed);
    assert_eq!(db.entry("ahead").generation, ahead.generation + 1);
    let _ = db.schedule("removed");
    db.remove("removed");
    let settings = db.behind("settings");
    let trigger = every(db.base - 7_200_000, INTERVAL, -1);
    let edited = Definition { trigger, priority: 7, ..db.definition("settings") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    assert_eq!(db.entry("settings").cursor, settings.cursor, "the trigger stays, and with it the cursor");
    for state in ["INIT", "ERROR", "COMPLETE"] {
        for name in [format!("edited in {state}"), format!("removed in {state}")] {
            let entry = db.behind(&name);
            db.set(RowKey::Schedule(entry.id), "state", &format!("'{state}'"));
            if name.starts_with("edited") {
                assert_eq!(db.re_timed(&name), Ensured::Changed);
            } else {
                db.remove(&name);
            }
        }
    }
    let all: Vec<ExecutionRow> = db.executions().into_iter().filter(|row| row.state == "WITHDRAWN").collect();
    assert_eq!(all, []);
}

/// The run under way says when the next is: nothing is due.
pub(crate) fn nothing_is_withdrawn_while_the_next_fire_time_is_not_known(db: &Bench) {
    for name in ["edited", "removed"] {
        let delay = |span| Trigger::Delay(crate::trigger::Delay::new(Some(db.base.millis()), span).unwrap());
        let definition = Definition { trigger: delay(5_000), ..db.definition(name) };
        drop_claimed(db.claim(&db.head(&db.create(&definition))));
        assert_eq!(db.entry(name).cursor.next, NextFire::AfterRun);
        match name {
            "edited" => {
                let other = Definition { trigger: delay(7_000), ..definition };
                assert_eq!(db.store.ensure(&other).unwrap(), Ensured::Changed);
            }
            _ => db.remove(name),
        }
        assert_eq!(db.withdrawn_of(name), []);
    }
}

/// One was claimed, one skipped by hand: what comes behind them is withdrawn.
pub(crate) fn what_has_a_row_is_not_withdrawn(db: &Bench) {
    let first = db.first_due();
    for name in ["edited", "removed"] {
        let entry = db.behind(name);
        drop_claimed(db.claim(&db.head(&entry)));
        let skip = crate::repair::skip(&db.entry(name), first + INTERVAL, db.now).expect("it is the next");
        assert!(db.repaired(&skip));
        match name {
            "edited" => assert_eq!(db.re_timed(name), Ensured::Changed),
            _ => db.remove(name),
        }
        db.is_withdrawn(&entry, first + 2 * INTERVAL, name);
    }
}

/// A backup was restored: what the cursor leads to has been run.
pub(crate) fn a_cursor_set_back_by_hand_does_not_keep_an_edit_away(db: &Bench) {
    for name in ["edited", "removed"] {
        let entry = db.behind(name);
        drop_claimed(db.claim(&db.head(&entry)));
        db.rewind(&entry);
        match name {
            "edited" => assert_eq!(db.re_timed(name), Ensured::Changed),
            _ => db.remove(name),
        }
        assert_eq!(db.withdrawn_of(name), [], "its row is there");
    }
}

pub(crate) fn an_execution_says_how_many_withdrawn_ones_it_stands_for(db: &Bench) {
    let entry = db.behind("s");
    let (first, from) = (db.run_head(&entry), db.first_due());
    assert_eq!(db.settle(&succeeded(first, db.now)), Applied::Done);
    assert_eq!(db.re_timed("s"), Ensured::Changed);
    let withdrawn = db.is_withdrawn(&entry, from + INTERVAL, "edited");
    let next = db.run_head(&db.entry("s"));
    let covers = db.store.covers(next.execution(), 100).unwrap().expect("it is in the ledger");
    assert_eq!(covers.since.map(|at| at.timestamp_millis()), Some(from.millis()));
    assert_eq!(covers.left_out.withdrawn, withdrawn.count.unsigned_abs());
    assert_eq!(covers.left_out.total(), covers.left_out.withdrawn);
}
