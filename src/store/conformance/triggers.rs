//! The triggers' history, and the ledger as it is verified.

use super::*;
use crate::domain::{Cursor, NextFire};
use crate::store::ledger::{
    LedgerLine, LedgerPage, LedgerSchedule, LinePlace, LineQuery, LinesBy, TriggerEnd, TriggerPeriod,
};
use crate::store::{LedgerRow, Move, Purge};

impl Bench {
    fn ledger_page(&self, after: ScheduleId, limit: usize) -> Vec<LedgerSchedule> {
        let page = LedgerPage { application: self.app.clone(), name: None, after, limit };
        self.store.ledger_schedules(&page).unwrap()
    }

    fn history(&self, id: ScheduleId) -> Vec<TriggerPeriod> {
        let all = self.ledger_page(ScheduleId(i64::MIN), 1_000);
        all.into_iter().find(|schedule| schedule.id == id).map(|it| it.triggers).unwrap_or_default()
    }

    /// The rows of a range, read in pages of so many, whichever way they are found.
    fn lines_within(&self, range: (Timestamp, Timestamp), limit: usize) -> Vec<LedgerLine> {
        let all = (ScheduleId(i64::MIN), ScheduleId(i64::MAX));
        let [by_key, by_time] = [LinesBy::Key, LinesBy::FireTime].map(|by| self.read(by, all, range, limit));
        assert_eq!(by_key, by_time, "pages of {limit}");
        let mut by_schedule = Vec::new();
        for id in by_key.iter().map(|line| line.place.schedule).collect::<std::collections::BTreeSet<_>>() {
            by_schedule.extend(self.read(LinesBy::Key, (ScheduleId(id.0 - 1), id), range, limit));
        }
        assert_eq!(by_key, by_schedule, "pages of {limit}");
        by_key
    }

    /// The rows of the application's schedules, read in pages of so many.
    fn lines(&self, limit: usize) -> Vec<LedgerLine> {
        self.lines_within((Timestamp::MIN, Timestamp::MAX), limit)
    }

    fn read(
        &self,
        by: LinesBy,
        (after, through): (ScheduleId, ScheduleId),
        (from, before): (Timestamp, Timestamp),
        limit: usize,
    ) -> Vec<LedgerLine> {
        let (application, after) = (self.app.clone(), LinePlace::behind(after));
        let mut query = LineQuery { by, application, after, through, from, before, limit };
        let mut lines = Vec::new();
        loop {
            let page = self.store.ledger_lines(&query).unwrap();
            let is_last = page.len() < limit;
            lines.extend(page);
            match lines.last() {
                Some(last) if !is_last => query.after = last.place,
                _ => return lines,
            }
        }
    }

    /// Gives a schedule this interval.
    fn at_interval(&self, name: &str, interval: Millis) {
        let definition = Definition { trigger: every(self.base, interval, -1), ..self.definition(name) };
        assert_eq!(self.store.ensure(&definition).unwrap(), Ensured::Changed);
    }
}

/// The generation, the interval, the first fire time, and how it ended: the last fire time, and the state
/// until then.
type Told<'a> = (i64, i64, Option<Timestamp>, Option<(Option<Timestamp>, &'a str)>);

fn told(period: &TriggerPeriod) -> Told<'_> {
    let end = period.end.as_ref().map(|TriggerEnd { last, state, .. }| (*last, &**state));
    (period.generation, period.when.repeat_interval.unwrap_or_default(), period.first, end)
}

pub(crate) fn each_trigger_of_a_schedule_is_noted(db: &Bench) {
    let id = db.schedule("s").id;
    assert_eq!(db.history(id).iter().map(told).collect::<Vec<_>>(), [(0, 1_000, Some(db.base), None)]);
    // Other settings leave the trigger as it is.
    let settings = Definition { priority: 7, ..db.definition("s") };
    assert_eq!(db.store.ensure(&settings).unwrap(), Ensured::Changed);
    assert_eq!(db.history(id).len(), 1);
    drop_claimed(db.claim(&db.head(&db.entry("s"))));
    db.at_interval("s", 500);
    let entry = db.entry("s");
    let first = entry.cursor.next.at();
    let both = [(0, 1_000, Some(db.base), Some((Some(db.base), "EXECUTING"))), (1, 500, first, None)];
    let history = db.history(id);
    assert_eq!(history.iter().map(told).collect::<Vec<_>>(), both);
    let ended = history[0].end.as_ref().unwrap().at;
    assert!(ended >= history[0].begun && history[1].begun == ended, "{history:?}");
    assert!(db.store.pause(entry.id, entry.version, "op", "").unwrap());
    db.remove("s");
    let last = db.history(id).pop().unwrap();
    assert_eq!(told(&last), (1, 500, first, Some((Some(db.base), "PAUSED"))));
    assert_eq!(last.end.map(|end| end.at), Some(db.now));
    assert_eq!(db.store.ensure(&db.definition("s")).unwrap(), Ensured::Created);
    let history = db.history(id);
    assert_eq!(told(&history[2]), (2, 1_000, db.entry("s").cursor.next.at(), None));
    assert_eq!(told(&history[1]).3, Some((Some(db.base), "PAUSED")), "it had ended");
}

pub(crate) fn a_cursor_that_is_planned_anew_begins_another_period(db: &Bench) {
    let entry = db.schedule("s");
    let to = Cursor { prev: None, next: NextFire::At(db.base + 1_000) };
    let anew = Repair { how: Move::Anew, ..Repair::of(&entry, to, 0, db.now) };
    assert!(db.repaired(&anew));
    let history = db.history(entry.id);
    let both =
        [(0, 1_000, Some(db.base), Some((None, "EXECUTING"))), (1, 1_000, Some(db.base + 1_000), None)];
    assert_eq!(history.iter().map(told).collect::<Vec<_>>(), both);
    assert!(!db.repaired(&anew), "it was made");
    assert_eq!(db.history(entry.id).len(), 2);
}

pub(crate) fn old_triggers_go_with_the_ledger(db: &Bench) {
    let (kept, gone) = (db.schedule("kept").id, db.schedule("gone").id);
    db.at_interval("kept", 500);
    db.at_interval("kept", 250);
    db.remove("gone");
    let purge = |keep| Purge { application: db.app.clone(), after: String::new(), keep, limit: 100 };
    assert_eq!((db.history(kept).len(), db.history(gone).len()), (3, 1));
    // A removed schedule goes, with its history.
    db.store.purge(&purge(3_600_000)).unwrap();
    assert_eq!((db.history(kept).len(), db.history(gone).len()), (3, 0));
    // Of the others what ended before.
    db.store.purge(&purge(-3_600_000)).unwrap();
    assert_eq!(db.history(kept).iter().map(|it| it.generation).collect::<Vec<_>>(), [2]);
    assert_eq!(db.store.ensure(&db.definition("gone")).unwrap(), Ensured::Created);
    let again = db.entry("gone").id;
    assert_eq!(db.history(again).len(), 1);
}

/// By schedule, generation, origin, fire time and attempt; whatever the size of a page.
pub(crate) fn the_ledger_is_read_in_order_by_pages(db: &Bench) {
    let (one, two) = (db.schedule("one"), db.schedule("two"));
    let claimed = db.run_head(&one);
    let failed = claimed.execution();
    assert_eq!(db.settle(&claimed.finish(Answer::Failed("no".into()), Some(db.now), db.now)), Applied::Done);
    let entry = db.entry("one");
    let (from, to) = (db.base + 1_000, db.base + 5_000);
    let skipped = LedgerRow::Skipped {
        from,
        to,
        count: 5,
        prev: Some(db.base),
        following: NextFire::At(to + 1_000),
        reason: crate::domain::Reason::Misfire,
        holder: None,
    };
    let cursor = Cursor { prev: Some(to), next: NextFire::At(to + 1_000) };
    assert!(db.repaired(&Repair { rows: vec![skipped], ..Repair::of(&entry, cursor, 5, db.now) }));
    db.at_interval("one", 500);
    drop_claimed(db.claim(&db.head(&db.entry("one"))));
    drop_claimed(db.claim(&db.head(&two)));
    drop_claimed(db.claim(&db.head(&db.entry("two"))));
    let all = db.lines(1_000);
    let places: Vec<_> = all
        .iter()
        .map(|it| (it.place.schedule, it.place.generation, it.place.scheduled, it.place.attempt, &*it.state))
        .collect();
    let again = db.entry("one").cursor.prev.unwrap();
    assert_eq!(
        places,
        [
            (one.id, 0, db.base, 1, "FAILED"),
            (one.id, 0, db.base, 2, "PENDING"),
            (one.id, 0, from, 1, "SKIPPED"),
            (one.id, 1, again, 1, "CLAIMED"),
            (two.id, 0, db.base, 1, "CLAIMED"),
            (two.id, 0, db.base + 1_000, 1, "CLAIMED"),
        ]
    );
    let row = db.execution(failed);
    assert_eq!((all[0].id, &all[0].error), (failed, &row.error));
    assert_eq!((all[0].claimed, all[0].finished, all[0].fence), (row.claimed, row.finished, row.fence));
    assert_eq!((all[2].until, all[2].occurrences, &*all[2].reason), (Some(to), 5, "misfire"));
    for limit in 1..=6 {
        assert_eq!(db.lines(limit), all, "pages of {limit}");
    }
    let within = |from, before| {
        let found = [1, 2, 100].map(|limit| {
            let lines = db.lines_within((from, before), limit).into_iter();
            lines.filter(|it| it.place.schedule == one.id).map(|it| it.place.scheduled).collect::<Vec<_>>()
        });
        assert!(found.iter().all(|it| *it == found[0]), "{found:?}");
        found[0].clone()
    };
    assert_eq!(within(db.base + 3_000, db.base + 5_000), [from], "it reaches there");
    assert_eq!(within(db.base + 6_000, Timestamp::MAX), vec![again; usize::from(again >= db.base + 6_000)]);
    assert_eq!(within(Timestamp::MIN, from), [db.base; 2]);
    assert_eq!(within(db.base + 9_000, db.base + 5_000), [], "it is empty");
    let names: Vec<_> = db.ledger_page(one.id, 10).into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["two"]);
}
