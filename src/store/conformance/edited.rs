//! Rows written by hand: numbers at their ends, texts nobody expects. Each is quarantined or goes on, its
//! neighbours go on in any case, and what quarantined a row is mended by a definition.

use super::*;
use crate::domain::{ErrorKind, NextFire, ScheduleState};
use crate::pipeline::expand::expand;
use crate::repair::decide;
use crate::time::Window;

const ENDS: [i64; 2] = [i64::MIN, i64::MAX];

/// The columns of a schedule that hold numbers.
const NUMBERS: [&str; 12] = [
    "prev_fire_time",
    "next_fire_time",
    "start_time",
    "end_time",
    "repeat_interval",
    "repeat_count",
    "threshold",
    "priority",
    "version",
    "generation",
    "fence",
    "time_triggered",
];

fn cron(db: &Bench) -> Definition {
    Definition { trigger: Trigger::cron("0 0 3 * * ?", "Europe/Berlin").unwrap(), ..db.definition("") }
}

/// What a node and its misfire handler do with all that is there, and what people look at: nothing of it may
/// fail.
fn all_goes_on(db: &Bench) {
    let least = Window::default().least_threshold();
    for now in [db.now, db.base + 1_000_000] {
        let polled = db.poll(Timestamp::MAX);
        expand(&polled.entries, now, now + 6_000, least);
        for head in polled.entries.iter().filter_map(Occurrence::head) {
            claimed_or_quarantined(db, Candidate::Planned(head));
        }
        for pending in polled.pendings {
            claimed_or_quarantined(db, Candidate::Pending(pending));
        }
        let stalled = db.store.overdue(&db.overdue_query(now)).unwrap();
        for entry in stalled.entries {
            if let Some(repair) = decide(&entry, &stalled.unstarted, now, least) {
                db.repaired(&repair);
            }
        }
        for broken in db.unreadable() {
            assert!(db.store.quarantine(&broken).unwrap(), "{broken:?}");
        }
        assert_eq!(db.unreadable(), []);
        assert!(!db.store.schedules(Some(&db.app)).unwrap().is_empty());
        assert!(!db.store.nodes(Some(&db.app)).unwrap().is_empty());
        db.executions();
        db.stranded();
    }
}

/// As dispatch does: a row that alone makes its claim fail goes into quarantine.
fn claimed_or_quarantined(db: &Bench, candidate: Candidate) {
    let entry = Arc::clone(candidate.entry());
    if let Claim::Failed(error) = db.claim(&db.request(candidate)) {
        let (id, version, state) = (entry.id, entry.version, entry.state.stored().to_owned());
        let (name, reason) = (Arc::clone(&entry.name), format!("{error:#}"));
        let broken = UnreadableRow { seen: SeenSchedule { id, version, state, next: None }, name, reason };
        assert!(db.store.quarantine(&broken).unwrap(), "{broken:?}");
    }
}

/// What a reason calls a column.
fn word(column: &'static str) -> &'static str {
    match column {
        "start_time" => "start",
        "repeat_interval" => "interval",
        "repeat_count" => "repeat count",
        other => other,
    }
}

/// One schedule for each number at each of its ends; `broken` lists those that must be quarantined.
fn numbers_at_their_ends(db: &Bench, definition: &Definition, broken: &[(&str, &[i64])]) {
    let healthy = db.schedule("healthy");
    let mut edited = Vec::new();
    for column in NUMBERS {
        for end in ENDS {
            let entry = db.create(&Definition { name: format!("{column} {end}"), ..definition.clone() });
            db.set(RowKey::Schedule(entry.id), column, &end.to_string());
            edited.push((entry.id, column, end));
        }
    }
    all_goes_on(db);
    for (id, column, end) in edited {
        let row = db.schedule_row(id);
        let expected = broken.iter().any(|(name, ends)| *name == column && ends.contains(&end));
        assert_eq!(row.state == "ERROR", expected, "{row:?}");
        assert!(!expected || row.pause.reason.contains(word(column)), "{row:?}");
        assert!(row.version >= 0 && row.version < Millis::MAX, "{row:?}");
    }
    assert!(db.schedule_row(healthy.id).triggered > 0, "the healthy one went on");
}

pub(crate) fn numbers_at_their_ends_disturb_nobody(db: &Bench) {
    let broken: [(&str, &[i64]); 11] = [
        ("prev_fire_time", &ENDS),
        ("next_fire_time", &[i64::MIN]),
        ("start_time", &[i64::MIN]),
        ("end_time", &[i64::MIN]),
        ("repeat_interval", &[i64::MIN]),
        ("repeat_count", &[i64::MIN]),
        ("threshold", &[i64::MIN]),
        ("priority", &ENDS),
        ("version", &ENDS),
        ("generation", &ENDS),
        ("fence", &[i64::MAX]),
    ];
    numbers_at_their_ends(db, &db.definition(""), &broken);
}

pub(crate) fn numbers_of_a_cron_row_at_their_ends_disturb_nobody(db: &Bench) {
    let broken: [(&str, &[i64]); 8] = [
        ("prev_fire_time", &ENDS),
        ("next_fire_time", &[i64::MIN]),
        ("end_time", &[i64::MIN]),
        ("threshold", &[i64::MIN]),
        ("priority", &ENDS),
        ("version", &ENDS),
        ("generation", &ENDS),
        ("fence", &[i64::MAX]),
    ];
    numbers_at_their_ends(db, &cron(db), &broken);
}

/// Each claim of a batch ends for itself, whatever the language in which the database would refuse the
/// overflow.
pub(crate) fn a_fence_that_can_grow_no_more_loses_its_own_claim(db: &Bench) {
    let (first, last) = (db.schedule("first"), db.schedule("last"));
    let (full, pending) = (db.schedule("full"), db.pending("pending"));
    let planned = |entry: &Arc<Entry>| Candidate::Planned(Occurrence::head(entry).unwrap());
    let candidates = [planned(&first), planned(&full), Candidate::Pending(pending.clone()), planned(&last)];
    let requests = candidates.map(|candidate| db.request(candidate));
    for id in [full.id, pending.entry.id] {
        db.set(RowKey::Schedule(id), "fence", &i64::MAX.to_string());
    }
    let claims = db.store.claim(&requests).unwrap();
    assert!(matches!(claims[..], [Claim::Won(_), Claim::Lost, Claim::Lost, Claim::Won(_)]), "{claims:?}");
    claims.into_iter().filter(|claim| !is_lost(claim)).for_each(|claim| _ = drop_claimed(claim));
    assert!(db.polled(Timestamp::MAX).iter().all(|name| name != "full"), "no poll asks for it again");
    let broken = db.unreadable();
    assert!(broken.len() == 2 && broken.iter().all(|it| it.reason.contains("fence")), "{broken:?}");
}

pub(crate) fn a_figure_for_people_does_not_overflow(db: &Bench) {
    let entry = db.schedule("s");
    let row = RowKey::Schedule(entry.id);
    db.set(row, "time_triggered", &i64::MAX.to_string());
    drop_claimed(db.claim(&db.head(&entry)));
    assert!(db.repaired(&db.repair(&db.entry("s"))));
    assert_eq!(db.number(row, "time_triggered"), i64::MAX);
}

pub(crate) fn pending_rows_at_the_ends_of_their_numbers_disturb_nobody(db: &Bench) {
    let healthy = db.pending("healthy");
    for column in ["due_time", "origin", "scheduled_time"] {
        for end in ENDS {
            let pending = db.pending(&format!("{column} {end}"));
            db.set(RowKey::Execution(pending.id), column, &end.to_string());
        }
    }
    all_goes_on(db);
    assert_eq!(db.execution(healthy.id).state, "CLAIMED");
    assert!(db.store.schedules(Some(&db.app)).unwrap().iter().all(|row| row.state == "EXECUTING"));
}

/// A handler is told the fire time: it is not to be told another one.
pub(crate) fn a_pending_row_beyond_the_calendar_is_left_alone(db: &Bench) {
    for end in ENDS {
        let pending = db.pending(&format!("s{end}"));
        db.set(RowKey::Execution(pending.id), "scheduled_time", &end.to_string());
        assert_eq!(db.find_pending(pending.id), None);
        assert_eq!(db.execution(pending.id).state, "PENDING");
    }
}

pub(crate) fn a_payload_nobody_can_decode_comes_as_it_is(db: &Bench) {
    let huge = format!("[{}0]", "0,".repeat(2_500_000));
    for payload in ["", "{", "not json", "\u{1b}[2J\n", &"[".repeat(200_000), &huge] {
        let name = format!("s{}", payload.len());
        let entry = db.schedule(&name);
        db.set(RowKey::Schedule(entry.id), "payload", &format!("'{payload}'"));
        assert!(*db.entry(&name).payload == *payload, "{} bytes", payload.len());
        let polled = db.poll(Timestamp::MAX);
        assert!(polled.entries.iter().any(|it| it.id == entry.id));
        let bytes = polled.large.get(&entry.id).copied();
        assert_eq!(bytes, Some(payload.len()).filter(|bytes| *bytes > SMALL_PAYLOAD));
        assert!(*db.store.payloads(&[entry.id]).unwrap()[0].payload == *payload);
    }
    all_goes_on(db);
    assert!(db.store.schedules(Some(&db.app)).unwrap().iter().all(|row| row.state == "EXECUTING"));
}

/// What an operator is told to do with a row in ERROR.
pub(crate) fn a_quarantined_row_is_mended_by_a_changed_trigger(db: &Bench) {
    let (min, max) = (i64::MIN.to_string(), i64::MAX.to_string());
    let breaks: [(&str, &str); 11] = [
        ("state", "'RUNING'"),
        ("state", "NULL"),
        ("job_type", "NULL"),
        ("pid", "NULL"),
        ("next_fire_time", "NULL"),
        ("prev_fire_time", "NULL"),
        ("prev_fire_time", &max),
        ("version", &min),
        ("version", &max),
        ("priority", &max),
        ("threshold", &min),
    ];
    for (n, (column, value)) in (1..).zip(breaks) {
        let definition = Definition { name: format!("{n} {column} {value}"), ..db.definition("") };
        let id = db.create(&definition).id;
        db.set(RowKey::Schedule(id), column, value);
        let found = db.unreadable();
        assert!(matches!(&found[..], [broken] if db.store.quarantine(broken).unwrap()), "{found:?}");
        let again = Definition { trigger: every(db.base + 500, 2_000, -1), ..definition };
        assert_eq!(db.store.ensure(&again).unwrap(), Ensured::Changed, "{column} {value}");
        let entry = db.entry(&again.name);
        assert_eq!((entry.id, entry.state), (id, ScheduleState::Active));
        let pause = db.schedule_row(id).pause;
        assert_eq!((pause.reason.as_str(), pause.since), ("", None), "{column} {value}");
        assert_eq!(
            (entry.cursor.prev, entry.cursor.next),
            (None, NextFire::At(db.base + 500)),
            "{column} {value}"
        );
        assert_eq!(db.unreadable(), []);
        drop_claimed(db.claim(&db.head(&entry)));
    }
}

/// An operator was told that all was as described, while nothing fired.
pub(crate) fn a_quarantined_row_is_not_called_unchanged(db: &Bench) {
    let entry = db.schedule("s");
    db.set(RowKey::Schedule(entry.id), "state", "'RUNING'");
    assert!(db.store.quarantine(&db.unreadable()[0]).unwrap());
    let row = db.schedule_row(entry.id);
    assert_eq!(db.store.ensure(&db.definition("s")).unwrap(), Ensured::Quarantined);
    assert_eq!(db.schedule_row(entry.id), row, "nothing differed");
    let other = Definition { priority: 9, ..db.definition("s") };
    assert_eq!(db.store.ensure(&other).unwrap(), Ensured::Quarantined);
    let edited = db.schedule_row(entry.id);
    assert_eq!(
        (edited.version, edited.state.as_str()),
        (row.version + 1, "ERROR"),
        "what differs is changed"
    );
}

/// Another generation would begin at a number that is in use, or at none.
pub(crate) fn a_generation_that_cannot_grow_is_left_to_people(db: &Bench) {
    for end in ENDS {
        let definition = Definition { name: format!("s{end}"), ..db.definition("") };
        let row = RowKey::Schedule(db.create(&definition).id);
        db.set(row, "generation", &end.to_string());
        let again = Definition { trigger: every(db.base + 500, 2_000, -1), ..definition };
        let error = db.store.ensure(&again).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data);
        assert!(error.to_string().contains("generation") && error.to_string().contains("by hand"), "{error}");
        assert_eq!(db.number(row, "generation"), end);
    }
}

pub(crate) fn a_broken_row_is_found_with_its_reason(db: &Bench) {
    let entry = db.schedule("s");
    db.set(RowKey::Schedule(entry.id), "job_type", "'CALENDAR'");
    let error = db.store.find(&db.app, "s").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.to_string().contains("\"s\"") && error.to_string().contains("CALENDAR"), "{error}");
}

/// The row would be quarantined as soon as anybody looked at it.
pub(crate) fn a_definition_nobody_could_understand_again_is_refused(db: &Bench) {
    let long = format!("0 0 0 1{} * ?", ",1".repeat(100));
    let once = |at: &str| Trigger::once(at.parse().unwrap()).unwrap();
    let hourly = || Trigger::cron("@hourly", "UTC").unwrap();
    let cases = [
        (Definition { trigger: once("1970-01-01T00:00:00Z"), ..db.definition("s") }, "1973"),
        (Definition { trigger: once("1972-06-01T00:00:00Z"), ..db.definition("s") }, "1973"),
        (Definition { trigger: hourly(), end: Some(Timestamp::at(-1)), ..db.definition("s") }, "end"),
        (
            Definition { trigger: hourly(), end: Some(Timestamp::at(1_700_000_000)), ..db.definition("s") },
            "seconds",
        ),
        (Definition { trigger: hourly(), end: Some(Timestamp::MIN), ..db.definition("s") }, "end"),
        (
            Definition { trigger: Trigger::cron(&long, "UTC").unwrap(), ..db.definition("s") },
            "200 are allowed",
        ),
    ];
    for (definition, named) in cases {
        let error = db.store.ensure(&definition).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("\"s\"") && error.to_string().contains(named), "{error}");
        assert_eq!(db.store.find(&db.app, "s").unwrap(), None);
    }
    let fits = format!("0 0 0  {}  * ?", ["10"; 63].join(","));
    assert_eq!(fits.len(), 200);
    db.create(&Definition { trigger: Trigger::cron(&fits, "UTC").unwrap(), ..db.definition("s") });
}

pub(crate) fn a_beat_that_can_grow_no_more_ends_the_node(db: &Bench) {
    let node = db.another_node();
    db.set(RowKey::Node(node), "beat", &i64::MAX.to_string());
    let application = db.app.clone();
    let beat = crate::store::Heartbeat {
        node,
        application,
        lanes: Vec::new(),
        left_alone: Vec::new(),
        withdraw: false,
        drained: false,
        tells: false,
        blocked: Vec::new(),
        now: db.now,
    };
    assert!(matches!(db.store.beat(&beat).unwrap(), crate::store::HeartbeatReply::Ended));
    assert_eq!(db.number(RowKey::Node(node), "beat"), i64::MAX);
    assert!(db.store.declare_dead(node, i64::MAX, db.now).unwrap(), "the others end it");
}
