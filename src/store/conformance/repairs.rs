//! Cursor moves by the misfire handler and by a resume, and the rows that call for them.

use super::*;
use crate::domain::{Cursor, ExecutionState, NextFire, Reason, ScheduleState};
use crate::repair::{plan_anew, skip};
use crate::store::{CursorAhead, LedgerRow, Move, PauseRow, Section};

impl Bench {
    /// The schedule's executions as (scheduled, state, reason), by fire time.
    fn rows_of(&self, entry: &Entry) -> Vec<(Timestamp, String, String)> {
        let rows = self.executions().into_iter().filter(|row| *row.schedule == *entry.name);
        let mut rows: Vec<_> = rows.map(|row| (row.scheduled, row.state, row.reason)).collect();
        rows.sort();
        rows
    }
}

/// Three occurrences missed: two skipped, the third to run now.
pub(super) fn fire_once(db: &Bench, entry: &Entry) -> Repair {
    let [first, second, third, fourth] = seconds(db, entry);
    let prev = entry.cursor.prev;
    let to = Cursor { prev: Some(third), next: NextFire::At(fourth) };
    Repair {
        rows: vec![
            LedgerRow::Skipped {
                from: first,
                to: second,
                count: 2,
                prev,
                following: NextFire::At(third),
                reason: Reason::Misfire,
                holder: None,
            },
            LedgerRow::Pending {
                at: third,
                due: db.now,
                prev: Some(second),
                following: NextFire::At(fourth),
                reason: Reason::Misfire,
            },
        ],
        ..Repair::of(entry, to, 3, db.now)
    }
}

/// The entry's next four occurrences.
fn seconds(db: &Bench, entry: &Entry) -> [Timestamp; 4] {
    let first = entry.cursor.next.at().unwrap_or(db.base);
    [first, first + 1_000, first + 2_000, first + 3_000]
}

pub(crate) fn a_repair_moves_the_cursor_and_accounts_for_it(db: &Bench) {
    let entry = db.schedule("s");
    let [first, second, third, fourth] = seconds(db, &entry);
    assert!(db.repaired(&fire_once(db, &entry)));
    let after = db.entry("s");
    assert_eq!(after.cursor, Cursor { prev: Some(third), next: NextFire::At(fourth) });
    assert_eq!((after.version, after.generation), (entry.version + 1, entry.generation));
    assert_eq!(after.state, ScheduleState::Active);
    assert_eq!(db.number(RowKey::Schedule(entry.id), "time_triggered"), 3);

    let rows = db.executions();
    assert_eq!(rows.len(), 2);
    let skipped = rows.iter().find(|row| row.state == "SKIPPED").unwrap();
    assert_eq!((skipped.scheduled, skipped.until, skipped.count), (first, Some(second), 2));
    assert_eq!((skipped.reason.as_str(), skipped.attempt, skipped.origin), ("misfire", 1, 0));
    let key = RowKey::Execution(ExecutionId(skipped.id));
    assert_eq!(db.time(key, "prev_fire_time"), None);
    assert_eq!(db.time(key, "following_fire_time"), Some(third));

    let pendings = db.pendings_of(entry.id);
    let [pending] = &pendings[..] else { panic!("one pending, not {pendings:?}") };
    assert_eq!((pending.scheduled, pending.due, pending.attempt, pending.origin), (third, db.now, 1, 0));
    let key = RowKey::Execution(pending.id);
    assert_eq!(db.time(key, "prev_fire_time"), Some(second));
    assert_eq!(db.time(key, "following_fire_time"), Some(fourth));
    let claimed = won(db.claim(&db.request(Candidate::Pending(pending.clone()))));
    assert_eq!((claimed.scheduled(), claimed.attempt()), (third, 1));
    assert!(!db.repaired(&fire_once(db, &entry)), "its guard has passed");
}

pub(crate) fn a_page_of_repairs_makes_those_whose_guards_match(db: &Bench) {
    let [first, claimed, last] = ["first", "claimed", "last"].map(|name| db.schedule(name));
    let once = db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("once") });
    let mut page =
        vec![fire_once(db, &last), db.repair(&once), fire_once(db, &claimed), fire_once(db, &first)];
    drop_claimed(db.claim(&db.head(&claimed)));
    assert_eq!(db.store.repair(&page).unwrap(), [true, true, false, true]);
    for entry in [&first, &last] {
        assert_eq!(db.entry(&entry.name).cursor, page[0].to);
        assert_eq!(db.rows_of(entry).len(), 2);
    }
    assert_eq!(db.schedule_row(once.id).state, "COMPLETE");
    assert_eq!(db.entry("claimed").cursor.prev, Some(db.base));
    assert_eq!(db.rows_of(&claimed).len(), 1);
    let superseding: Vec<Repair> = [&first, &last]
        .map(|entry| Repair { supersede: db.unstarted(entry.id), ..fire_once(db, &db.entry(&entry.name)) })
        .to_vec();
    assert_eq!(db.store.repair(&superseding).unwrap(), [true; 2]);
    for entry in [&first, &last] {
        assert_eq!(db.pendings_of(entry.id).len(), 1, "the earlier one gave way");
    }
    page.clear();
    assert_eq!(db.store.repair(&page).unwrap(), [false; 0]);
}

/// The row may be held for long: those behind it do not wait.
pub(crate) fn a_locked_row_is_left_out_of_a_page_of_repairs(db: &Bench) {
    let entries = ["a", "b", "c"].map(|name| db.schedule(name));
    let page = entries.each_ref().map(|entry| fire_once(db, entry));
    let held = db.lock(entries[1].id);
    assert_eq!(db.store.repair(&page).unwrap(), [true, false, true]);
    drop(held);
    assert_eq!(db.store.repair(&page).unwrap(), [false, true, false]);
}

/// The last of its rows is there already: neither the cursor nor the other rows may stay.
pub(crate) fn a_repair_that_cannot_write_all_rows_changes_nothing(db: &Bench) {
    let entry = db.schedule("s");
    let [_, _, third, _] = seconds(db, &entry);
    let ahead = Cursor { prev: None, next: NextFire::At(third) };
    db.rewind(&Entry { cursor: ahead, ..(*entry).clone() });
    drop_claimed(db.claim(&db.head(&db.entry("s"))));
    db.rewind(&entry);
    let before = (db.executions(), db.schedule_row(entry.id));
    let page = [fire_once(db, &db.schedule("other")), fire_once(db, &entry)];
    let before = (before.0, before.1, db.schedule_row(page[0].id));
    let error = db.store.repair(&page).unwrap_err();
    assert_eq!(error.kind(), crate::domain::ErrorKind::Data, "{error}");
    assert_eq!((db.executions(), db.schedule_row(entry.id), db.schedule_row(page[0].id)), before);
}

pub(crate) fn a_repair_without_a_next_fire_time_completes_the_schedule(db: &Bench) {
    let entry = db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("once") });
    let repair = db.repair(&entry);
    assert_eq!(repair.to, Cursor { prev: Some(db.base), next: NextFire::Never });
    assert!(db.repaired(&repair));
    let row = db.schedule_row(entry.id);
    assert_eq!((row.state.as_str(), row.next, row.prev), ("COMPLETE", None, Some(db.base)));
}

pub(crate) fn a_repair_supersedes_the_unstarted_work_of_earlier_ones(db: &Bench) {
    let entry = db.schedule("s");
    assert!(db.repaired(&fire_once(db, &entry)));
    let seen = db.pendings_of(entry.id).remove(0);
    let later = db.entry("s");
    let [_, _, third, _] = seconds(db, &entry);
    let [_, _, sixth, _] = seconds(db, &later);
    assert!(db.repaired(&Repair { supersede: db.unstarted(entry.id), ..fire_once(db, &later) }));

    let pendings = db.pendings_of(entry.id);
    assert_eq!(pendings.iter().map(|pending| pending.scheduled).collect::<Vec<_>>(), [sixth]);
    let superseded = (third, "SKIPPED".to_owned(), "superseded".to_owned());
    assert!(db.rows_of(&entry).contains(&superseded), "{:?}", db.rows_of(&entry));
    assert!(is_lost(&db.claim(&db.request(Candidate::Pending(seen)))));
}

/// Hand-offs, retries, work in progress and other schedules' work stay when a repair supersedes.
pub(crate) fn a_repair_leaves_other_pendings_alone(db: &Bench) {
    let handed_off = db.pending("s");
    let (entry, other) = (db.entry("s"), db.schedule("other"));
    assert!(db.repaired(&fire_once(db, &entry)));
    assert!(db.repaired(&fire_once(db, &other)));
    let misfired = db.pendings_of(entry.id).into_iter().find(|pending| pending.id != handed_off.id).unwrap();
    let started = drop_claimed(db.claim(&db.request(Candidate::Pending(misfired))));
    let later = db.entry("s");
    assert!(db.repaired(&Repair { supersede: db.unstarted(entry.id), ..fire_once(db, &later) }));
    assert_eq!(db.execution(handed_off.id).state, "PENDING");
    assert_eq!(db.execution(started).state, "CLAIMED");
    assert_eq!(db.pendings_of(other.id).len(), 1);
    // Without `supersede` nothing gives way either.
    let unstarted = db.pendings_of(entry.id).len();
    assert!(db.repaired(&fire_once(db, &db.entry("s"))));
    assert_eq!(db.pendings_of(entry.id).len(), unstarted + 1);
}

pub(crate) fn a_resume_ends_a_pause(db: &Bench) {
    let entry = db.schedule("s");
    assert!(db.store.pause(entry.id, entry.version, "op", "why").unwrap());
    let paused = db.entry("s");
    let resume = Repair { how: Move::Resume, ..fire_once(db, &paused) };
    assert_eq!(resume.state, ScheduleState::Paused);
    assert!(db.repaired(&resume));
    let after = db.entry("s");
    assert_eq!(after.state, ScheduleState::Active);
    assert!(after.version > paused.version);
    assert_eq!(after.cursor, resume.to);
    assert_eq!(db.rows_of(&entry).len(), 2);
    assert_eq!(db.schedule_row(entry.id).pause.reason, "");
    assert_eq!(db.polled(Timestamp::MAX), ["s"]);
    drop_claimed(db.claim(&db.head(&after)));
    let row = db.schedule_row(entry.id);
    assert_eq!(row.pause, PauseRow::default());
}

pub(crate) fn a_resume_with_nothing_left_completes_the_schedule(db: &Bench) {
    let entry = db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("once") });
    assert!(db.store.pause(entry.id, entry.version, "op", "why").unwrap());
    let paused = db.entry("once");
    assert!(db.repaired(&Repair { how: Move::Resume, ..db.repair(&paused) }));
    let row = db.schedule_row(entry.id);
    assert_eq!((row.state.as_str(), row.next), ("COMPLETE", None));
}

/// Their cursors went ahead with the database's clock, which has been set back since.
pub(crate) fn cursors_ahead_of_the_clock_are_found_and_planned_anew(db: &Bench) {
    let names = ["ahead", "paused", "beside", "later"];
    let ids = names.map(|name| db.schedule(name).id);
    let ahead = db.now + 24 * 3_600_000;
    for id in [ids[0], ids[1], ids[3]] {
        db.set(RowKey::Schedule(id), "prev_fire_time", &ahead.to_string());
        db.set(RowKey::Schedule(id), "next_fire_time", &(ahead + 1_000).to_string());
    }
    db.set(RowKey::Schedule(ids[1]), "state", "'PAUSED'");
    let found = |ahead| {
        let (mut query, mut found) = (walk(db, ahead), Vec::new());
        loop {
            let page = db.store.unreadable(&query).unwrap();
            assert_eq!(page.broken, []);
            found.extend(page.ahead);
            match page.next {
                Some(next) => query.after = next,
                None => return found,
            }
        }
    };
    // Not of a clock that the caller alone believes in, nor unless it asks.
    for (asked, names) in [
        (None, &[][..]),
        (Some(ahead), &[]),
        (Some(Timestamp::at(0)), &["ahead", "later"]),
        (Some(ahead - 1), &["ahead", "later"]),
    ] {
        assert_eq!(found(asked).iter().map(|it| &*it.entry.name).collect::<Vec<_>>(), names, "{asked:?}");
    }
    for CursorAhead { entry, seen } in found(Some(Timestamp::at(0))) {
        assert!((seen - db.now).abs() < 60_000, "by the database's clock");
        let repair = plan_anew(&entry, db.now).unwrap();
        assert!(db.repaired(&repair));
        assert!(!db.repaired(&repair), "its version has grown");
    }
    assert!(found(Some(Timestamp::at(0))).is_empty());
    let after = db.entry("ahead");
    let seen = (after.cursor, after.generation, after.state);
    assert_eq!(seen, (Cursor { prev: None, next: NextFire::At(db.base) }, 1, ScheduleState::Active));
    drop_claimed(db.claim(&db.head(&after)));
    assert_eq!(db.executions()[0].generation, 1);
}

/// Planned anew, tonight's occurrence would be run although somebody had skipped it.
pub(crate) fn a_cursor_that_a_skip_has_moved_stays_ahead(db: &Bench) {
    let entry = db.schedule("s");
    let at = entry.cursor.next.at().unwrap();
    assert!(at > db.now + 60_000, "it is an hour ahead");
    assert!(db.repaired(&skip(&entry, at, db.now).unwrap()));
    let page = db.store.unreadable(&walk(db, Some(Timestamp::at(0)))).unwrap();
    assert_eq!((page.broken, page.ahead), (Vec::new(), Vec::new()));
    assert_eq!(db.entry("s").cursor, Cursor { prev: Some(at), next: NextFire::At(at + 1_000) });
}

fn walk(db: &Bench, ahead: Option<Timestamp>) -> UnreadableQuery {
    let (application, after, before) = (db.app.clone(), ScheduleId(i64::MIN), Timestamp::MIN);
    UnreadableQuery { application, after, step: 10_000, from: before, before, limit: 1, ahead }
}

pub(crate) fn a_claim_in_hand_loses_to_a_repair(db: &Bench) {
    let entry = db.schedule("s");
    let request = db.head(&entry);
    // Even one that moves the cursor nowhere: the version tells.
    assert!(db.repaired(&Repair { to: entry.cursor, passed: 0, ..db.repair(&entry) }));
    assert!(is_lost(&db.claim(&request)));
    assert!(!db.repaired(&db.repair(&entry)));
    drop_claimed(db.claim(&db.head(&db.entry("s"))));
}

pub(crate) fn a_paused_row_is_not_repaired_as_misfire(db: &Bench) {
    let entry = db.schedule("s");
    let misfire = fire_once(db, &entry);
    assert!(db.store.pause(entry.id, entry.version, "op", "why").unwrap());
    assert!(db.overdue(Timestamp::MAX).is_empty());
    assert!(!db.repaired(&misfire));
    let version = db.entry("s").version;
    assert!(!db.repaired(&Repair { version, ..misfire }), "the state is compared too");
    assert_eq!(db.entry("s").cursor, entry.cursor);
    assert!(db.executions().is_empty());
}

/// Quarantined, then mended by hand in every column but the state: it waits for a person.
pub(crate) fn error_rows_are_not_revived_by_repair(db: &Bench) {
    let entry = db.schedule("s");
    let row = RowKey::Schedule(entry.id);
    db.set(row, "job_type", "'CALENDAR'");
    assert!(db.store.quarantine(&db.unreadable()[0]).unwrap());
    db.set(row, "job_type", "'SIMPLE'");
    let version = db.number(row, "version");

    assert!(db.overdue(Timestamp::MAX).is_empty());
    assert!(db.polled(Timestamp::MAX).is_empty());
    assert!(db.unreadable().is_empty());
    for how in [Move::Repair, Move::Pass, Move::Resume] {
        for state in [ScheduleState::Active, ScheduleState::Paused] {
            assert!(!db.repaired(&Repair { version, state, how, ..fire_once(db, &entry) }));
        }
    }
    let as_now = Arc::new(Entry { version, ..(*entry).clone() });
    assert!(is_lost(&db.claim(&db.head(&as_now))));
    assert!(is_lost(&db.resolve(&db.head(&as_now))));
    assert!(!db.store.pause(entry.id, version, "op", "why").unwrap());
    assert_eq!(db.store.ensure(&db.definition("s")).unwrap(), Ensured::Quarantined);
    assert_eq!(db.get(row, "state").as_deref(), Some(ScheduleState::Error.stored()));
    assert!(db.executions().iter().all(|row| row.state != ExecutionState::Pending.as_str()));
}

pub(crate) fn stalled_rows_are_those_before_the_threshold(db: &Bench) {
    db.schedule("s");
    let later = every(db.base + 5_000, 1_000, -1);
    db.create(&Definition { trigger: later, ..db.definition("later") });
    assert!(db.overdue(db.base).is_empty());
    assert_eq!(db.overdue(db.base + 1), ["s"]);
    assert_eq!(db.overdue(db.base + 5_001), ["s", "later"]);
    assert_eq!(db.store.overdue(&db.overdue_query(Timestamp::MAX)).unwrap().entries[0], *db.entry("s"));
}

/// The pages of a job's shard come earliest first, and each of the others has its share of each page.
pub(crate) fn stalled_rows_come_earliest_first_page_by_page(db: &Bench) {
    let ids: Vec<_> = (0..5i64)
        .map(|n| {
            let trigger = every(db.base + 9_000 - n * 1_000, 1_000, -1);
            let id = db.create(&Definition { trigger, ..db.definition(&format!("s{n}")) }).id;
            db.set(RowKey::Schedule(id), "shard", if n == 0 { "8" } else { "3" });
            id
        })
        .collect();
    let pages = stalled_pages(db);
    assert_eq!(pages, [vec![ids[4], ids[0]], vec![ids[3], ids[2]], vec![ids[1]]]);
}

/// What pages of two bring, to the last one.
fn stalled_pages(db: &Bench) -> Vec<Vec<ScheduleId>> {
    let (mut pages, mut sections) = (Vec::new(), None);
    while sections.as_ref().is_none_or(|sections: &Vec<Section>| !sections.is_empty()) {
        let query = OverdueQuery { sections, limit: 2, ..db.overdue_query(Timestamp::MAX) };
        let page = db.store.overdue(&query).unwrap();
        pages.push(page.entries.iter().map(|entry| entry.id).collect());
        sections = Some(page.next);
    }
    pages
}

pub(crate) fn broken_rows_do_not_hide_the_stalled_pages_behind_them(db: &Bench) {
    let ids = ["a", "b", "c", "d", "e"].map(|name| db.schedule(name).id);
    ids.iter().for_each(|id| db.set(RowKey::Schedule(*id), "shard", "3"));
    for broken in [ids[0], ids[1], ids[2]] {
        db.set(RowKey::Schedule(broken), "job_type", "'CALENDAR'");
    }
    assert_eq!(stalled_pages(db), [vec![], vec![ids[3]], vec![ids[4]]]);
}

pub(crate) fn repair_leaves_rows_whose_handler_nobody_here_knows_alone(db: &Bench) {
    db.schedule("known");
    let definition = Definition { job: job("other"), ..db.definition("unknown") };
    db.create(&definition);
    assert_eq!(db.overdue(Timestamp::MAX), ["known"]);

    let node = NodeId::fresh();
    db.join(node, &["other"]);
    assert_eq!(db.overdue(Timestamp::MAX), ["known", "unknown"]);
    db.store.leave(node, db.now).unwrap();
    assert_eq!(db.overdue(Timestamp::MAX), ["known"]);

    let elsewhere = db.new_node(NodeId::fresh(), &fresh_name(), &["other"]);
    db.store.register(&elsewhere).unwrap();
    assert_eq!(db.overdue(Timestamp::MAX), ["known"], "a node of another application does not count");
}

pub(crate) fn rows_of_a_disabled_application_are_not_stalled(db: &Bench) {
    db.schedule("s");
    db.set(RowKey::App(&db.app), "state", "'N'");
    assert!(db.overdue(Timestamp::MAX).is_empty());
    db.set(RowKey::App(&db.app), "state", "'Y'");
    assert_eq!(db.overdue(Timestamp::MAX), ["s"]);
}
