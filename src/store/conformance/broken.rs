//! Rows that cannot be understood: each kind is found, disturbs nobody, and is quarantined once.

use super::*;

fn cron(db: &Bench) -> Definition {
    Definition { trigger: Trigger::cron("0 0 3 * * ?", "Europe/Berlin").unwrap(), ..db.definition("broken") }
}

/// Breaks one of two schedules by hand; the reason must name what is wrong.
fn is_quarantined(db: &Bench, definition: Definition, columns: &[(&str, String)], named: &str) {
    let healthy = db.schedule("healthy");
    let id = db.create(&Definition { name: "broken".to_owned(), ..definition }).id;
    let row = RowKey::Schedule(id);
    for (column, value) in columns {
        db.set(row, column, value);
    }
    assert_eq!(db.polled(Timestamp::MAX), ["healthy"]);
    assert!(db.overdue(Timestamp::MAX).iter().all(|name| name == "healthy"));

    let found = db.unreadable();
    let [broken] = &found[..] else { panic!("one broken row, not {found:?}") };
    assert_eq!((broken.seen.id, &*broken.name), (id, "broken"));
    assert!(broken.reason.contains(named), "{:?} does not name {named:?}", broken.reason);
    let older = SeenSchedule { version: broken.seen.version - 1, ..broken.seen.clone() };
    let stale = UnreadableRow { seen: older, ..broken.clone() };
    assert!(!db.store.quarantine(&stale).unwrap());
    assert!(db.store.quarantine(broken).unwrap());
    assert!(!db.store.quarantine(broken).unwrap());

    let shown = db.schedule_row(id);
    assert_eq!((shown.state.as_str(), shown.pause.reason.as_str()), ("ERROR", broken.reason.as_str()));
    assert!(shown.version > broken.seen.version);
    assert!(
        shown.pause.since.is_some_and(|since| (since - db.now).abs() < 60_000),
        "by the database's clock"
    );
    assert_eq!((shown.pause.by.as_str(), shown.pause.until), ("", None));
    assert!(db.unreadable().is_empty());
    assert_eq!(db.polled(Timestamp::MAX), ["healthy"]);
    assert_eq!(*db.entry("healthy"), *healthy);
    drop_claimed(db.claim(&db.head(&healthy)));
}

fn text(value: &str) -> String {
    format!("'{value}'")
}

fn null() -> String {
    "NULL".to_owned()
}

pub(crate) fn an_unknown_state(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("state", text("RUNING"))], "RUNING");
}

pub(crate) fn a_null_state(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("state", null())], "state");
}

pub(crate) fn a_null_job_type(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("job_type", null())], "job_type");
}

pub(crate) fn an_unknown_job_type(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("job_type", text("CALENDAR"))], "CALENDAR");
}

pub(crate) fn a_null_prev_fire_time(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("prev_fire_time", null())], "prev_fire_time");
}

pub(crate) fn a_null_next_fire_time(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("next_fire_time", null())], "next_fire_time");
}

pub(crate) fn a_next_fire_time_not_after_prev(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("prev_fire_time", db.base.to_string())], "prev_fire_time");
}

pub(crate) fn an_active_row_without_a_next(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("next_fire_time", "-1".to_owned())], "next_fire_time");
}

/// SQL cannot parse a cron expression, and a scan that can would look at every row. So such a row need only
/// be found once it is overdue, as it will be: no poll understands it.
fn overdue(db: &Bench) -> (&'static str, String) {
    ("next_fire_time", (db.base - 7_200_000).to_string())
}

pub(crate) fn an_unparsable_cron(db: &Bench) {
    is_quarantined(db, cron(db), &[("cron", text("0 0 25 * * ?")), overdue(db)], "25");
}

pub(crate) fn a_null_cron(db: &Bench) {
    is_quarantined(db, cron(db), &[("cron", null())], "cron");
}

pub(crate) fn an_unknown_zone(db: &Bench) {
    is_quarantined(db, cron(db), &[("zone_id", text("Mars/Olympus")), overdue(db)], "Mars/Olympus");
}

pub(crate) fn an_interval_of_zero(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("repeat_interval", "0".to_owned())], "interval");
}

pub(crate) fn a_negative_interval(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("repeat_interval", "-1000".to_owned())], "interval");
}

pub(crate) fn a_repeat_count_below_minus_one(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("repeat_count", "-2".to_owned())], "repeat count");
}

pub(crate) fn a_null_start(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("start_time", null())], "start_time");
}

pub(crate) fn seconds_for_milliseconds(db: &Bench) {
    let seconds = (db.base.millis() / 1_000).to_string();
    is_quarantined(db, db.definition(""), &[("next_fire_time", seconds)], "seconds");
}

pub(crate) fn seconds_for_an_end_in_milliseconds(db: &Bench) {
    let seconds = (db.base.millis() / 1_000 + 86_400).to_string();
    is_quarantined(db, db.definition(""), &[("end_time", seconds)], "end_time");
}

pub(crate) fn an_end_before_the_start(db: &Bench) {
    is_quarantined(
        db,
        cron(db),
        &[("start_time", (db.base + 2).to_string()), ("end_time", (db.base + 1).to_string())],
        "before start",
    );
}

pub(crate) fn an_unknown_misfire_policy(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("misfire", text("FIRE_TWICE"))], "FIRE_TWICE");
}

pub(crate) fn an_unknown_rule_for_a_change_of_the_clocks(db: &Bench) {
    is_quarantined(db, cron(db), &[("dst_gap", text("WAIT")), ("dst_fold", text("SECOND"))], "dst_gap");
}

pub(crate) fn an_orphaned_pid(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("pid", (1i64 << 50).to_string())], "pid");
}

pub(crate) fn a_null_pid(db: &Bench) {
    is_quarantined(db, db.definition(""), &[("pid", null())], "pid");
}

pub(crate) fn healthy_rows_are_not_broken(db: &Bench) {
    db.create(&cron(db));
    let paused = db.schedule("paused");
    assert!(db.store.pause(paused.id, paused.version, "op", "why").unwrap());
    let once = db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("complete") });
    drop_claimed(db.claim(&db.head(&once)));
    let past = Trigger::once("2001-02-03T04:05:06Z".parse().unwrap()).unwrap();
    db.create(&Definition { trigger: past, ..db.definition("past") });
    let epoch =
        Definition { trigger: every(Timestamp::at(0), 60_000, -1), ..db.definition("from the epoch") };
    db.create(&epoch);
    assert_eq!(db.unreadable(), []);
}

pub(crate) fn broken_rows_are_found_page_by_page(db: &Bench) {
    let ids = ["a", "b", "c"].map(|name| {
        let entry = db.schedule(name);
        db.schedule(&format!("behind {name}"));
        db.set(RowKey::Schedule(entry.id), "job_type", "'CALENDAR'");
        entry.id
    });
    for limit in [1, 2, 3, 4] {
        let found = all_broken(db.store.as_ref(), &db.app, 10_000, limit);
        assert_eq!(found.iter().map(|broken| broken.seen.id).collect::<Vec<_>>(), ids, "{limit} at a time");
    }
    assert_eq!(all_broken(db.store.as_ref(), &fresh_name(), 10_000, 10), []);
}

/// A walk over a large table is many looks at a few rows.
pub(crate) fn a_step_looks_no_further_than_its_rows(db: &Bench) {
    let ids = ["a", "b", "c"].map(|name| db.schedule(name).id);
    db.set(RowKey::Schedule(ids[0]), "job_type", "'CALENDAR'");
    db.set(RowKey::Schedule(ids[2]), "job_type", "'CALENDAR'");
    let (application, before) = (db.app.clone(), db.base);
    let mut query = UnreadableQuery {
        application,
        after: ids[0],
        step: 1,
        from: Timestamp::at(0),
        before,
        limit: 1,
        ahead: None,
    };
    let (mut steps, mut found) = (0, Vec::new());
    while query.after < ids[2] {
        let page = db.store.unreadable(&query).unwrap();
        found.extend(page.broken.iter().map(|broken| broken.seen.id));
        let next = page.next.expect("there are rows behind this one");
        assert!(query.after < next);
        (query.after, steps) = (next, steps + 1);
    }
    assert_eq!(found, [ids[2]]);
    assert!(steps >= 2, "{steps} steps of one row");
}

/// Where the walk does not come by.
pub(crate) fn what_is_due_at_the_instant_asked_about_is_not_overdue(db: &Bench) {
    let id = db.schedule("s").id;
    db.set(RowKey::Schedule(id), "job_type", "'CALENDAR'");
    db.set(RowKey::Schedule(id), "next_fire_time", &db.base.to_string());
    for (before, overdue) in [(db.base, 0), (db.base + 1, 1)] {
        let query = UnreadableQuery {
            application: db.app.clone(),
            after: id,
            step: 1,
            from: Timestamp::at(0),
            before,
            limit: 1,
            ahead: None,
        };
        assert_eq!(db.store.unreadable(&query).unwrap().broken.len(), overdue);
    }
}
