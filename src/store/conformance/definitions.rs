//! Schedules as clients define, find, pause and see them.

use super::*;
use crate::domain::{Cursor, ErrorKind, ExecutionState, JobId, NextFire, ScheduleState};
use crate::store::OnlyIf;
use crate::store::enqueue::{DueAt, EnqueueOrder};
use crate::trigger::{Cron, Fold, Gap};

const SECOND: Duration = Duration::from_secs(1);

fn once(at: &str) -> Trigger {
    Trigger::once(at.parse().unwrap()).unwrap()
}

impl Bench {
    fn ensure(&self, definition: &Definition) -> Ensured {
        self.store.ensure(definition).unwrap()
    }

    fn paused(&self, entry: &Entry) -> bool {
        self.store.pause(entry.id, entry.version, "op", "why").unwrap()
    }
}

pub(crate) fn a_new_schedule_waits_for_its_first_occurrence(db: &Bench) {
    let entry = db.schedule("s");
    assert_eq!(entry.cursor, Cursor { prev: None, next: NextFire::At(db.base) });
    assert_eq!((entry.state, entry.generation), (ScheduleState::Active, 0));
    assert_eq!((&*entry.name, &*entry.job, &*entry.payload), ("s", JOB, "{}"));
    let row = RowKey::Schedule(entry.id);
    assert_eq!((db.number(row, "fence"), db.number(row, "time_triggered")), (0, 0));
}

pub(crate) fn a_new_schedule_does_not_fire_for_the_past(db: &Bench) {
    let start = db.base - 30 * 86_400_000;
    let entry = db.create(&Definition { trigger: every(start, 7_000, -1), ..db.definition("s") });
    let next = entry.cursor.next.at().unwrap();
    assert!(next >= db.now && next <= db.store.now().unwrap() + 7_000, "{next}");
    assert_eq!((next - start) % 7_000, 0);
}

pub(crate) fn a_one_shot_in_the_past_is_left_to_the_misfire_policy(db: &Bench) {
    let trigger = once("2001-02-03T04:05:06Z");
    let entry = db.create(&Definition { trigger, ..db.definition("s") });
    assert_eq!(entry.cursor, Cursor { prev: None, next: NextFire::At(Timestamp::at(981_173_106_000)) });
    assert_eq!(entry.state, ScheduleState::Active);
    assert_eq!(db.overdue(db.now), ["s"]);
}

pub(crate) fn an_equal_definition_writes_nothing(db: &Bench) {
    let cron = Definition { trigger: Trigger::cron("0 0 3 * * ?", "UTC").unwrap(), ..db.definition("cron") };
    let window = Definition {
        start: Some(db.base + 500),
        end: Some(db.base + 60_000),
        trigger: every(db.base, 1_000, 100),
        ..db.definition("window")
    };
    for definition in [db.definition("s"), cron, window] {
        let entry = db.create(&definition);
        let row = db.schedule_row(entry.id);
        assert_eq!(db.ensure(&definition), Ensured::Unchanged);
        assert_eq!((db.entry(&definition.name), db.schedule_row(entry.id)), (entry.clone(), row));
        // Neither does a cursor that has moved on make a difference.
        drop_claimed(db.claim(&db.head(&entry)));
        let moved = db.schedule_row(entry.id);
        assert_eq!(db.ensure(&definition), Ensured::Unchanged);
        assert_eq!(db.schedule_row(entry.id), moved);
    }
}

pub(crate) fn an_unanchored_interval_equals_itself_whenever_it_is_ensured(db: &Bench) {
    let every_hour = Trigger::every(3_600 * SECOND).unwrap();
    let definition = Definition { trigger: every_hour, ..db.definition("s") };
    let entry = db.create(&definition);
    let next = entry.cursor.next.at().unwrap();
    assert!(next >= db.now && next <= db.store.now().unwrap(), "it is anchored at its creation");
    assert_eq!(db.ensure(&definition), Ensured::Unchanged);
    db.set(RowKey::Schedule(entry.id), "start_time", &(next - 86_400_000 - 1).to_string());
    assert_eq!(db.ensure(&definition), Ensured::Unchanged);
    let other = Definition { trigger: Trigger::every(1_800 * SECOND).unwrap(), ..definition };
    assert_eq!(db.ensure(&other), Ensured::Changed);
}

pub(crate) fn a_payload_over_256_kib_is_refused(db: &Bench) {
    let of = |bytes: usize| Definition {
        payload: format!("\"{}\"", "é".repeat(bytes / 2 - 1)),
        ..db.definition(&format!("s-{bytes}"))
    };
    let error = db.store.ensure(&of(262_146)).unwrap_err();
    assert_eq!(error.kind(), crate::domain::ErrorKind::Config);
    for word in ["262146", "262144", "s-262146", "key"] {
        assert!(error.to_string().contains(word), "{error} does not name {word}");
    }
    assert_eq!(db.store.find(&db.app, "s-262146").unwrap(), None);
    assert_eq!(db.create(&of(262_144)).payload.len(), 262_144);
}

pub(crate) fn a_changed_payload_leaves_the_cursor(db: &Bench) {
    let definition = db.definition("s");
    let entry = db.create(&definition);
    drop_claimed(db.claim(&db.head(&entry)));
    let before = db.entry("s");
    let changes: [Definition; 6] = [
        Definition { payload: "{\"to\":\"all\"}".to_owned(), ..definition.clone() },
        Definition { priority: 9, ..definition.clone() },
        Definition { misfire: MisfirePolicy::FireAll, ..definition.clone() },
        Definition { threshold: 90_000, ..definition.clone() },
        Definition { description: "for the auditors".to_owned(), ..definition.clone() },
        Definition { job: job("other"), ..definition.clone() },
    ];
    for (at, change) in (1..).zip(changes) {
        // Each differs from the row as it was made in one field alone.
        assert_eq!(db.ensure(&change), Ensured::Changed, "{change:?}");
        let stored = db.schedule_row(entry.id).settings;
        assert_eq!(stored, change.settings(JobId(stored.job.unwrap())));
        let after = db.entry("s");
        assert_eq!((after.version, after.generation), (entry.version + 2 * at - 1, entry.generation));
        assert_eq!((after.cursor, after.state), (before.cursor, before.state));
        assert_eq!(
            (&*after.payload, after.priority, after.misfire),
            (&*change.payload, change.priority, change.misfire)
        );
        assert_eq!((after.threshold, &*after.job), (change.threshold, change.job.name.as_str()));
        assert_eq!(db.ensure(&definition), Ensured::Changed, "{change:?}");
    }
    assert!(is_lost(&db.claim(&db.head(&before))), "a claim in hand is of the old version");
}

pub(crate) fn a_description_is_one_line_of_at_most_500_characters(db: &Bench) {
    let described = |name: &str, description: String| Definition { description, ..db.definition(name) };
    let entry = db.create(&described("s", "ü".repeat(500)));
    assert_eq!(*db.schedule_row(entry.id).settings.description, *"ü".repeat(500));
    assert_eq!(db.ensure(&described("s", String::new())), Ensured::Changed);
    assert_eq!(&*db.schedule_row(entry.id).settings.description, "");
    for (text, problem) in
        [("ü".repeat(501), "501 characters"), ("two\nlines".to_owned(), "control character")]
    {
        let error = db.store.ensure(&described("refused", text)).unwrap_err();
        assert_eq!(error.kind(), crate::domain::ErrorKind::Config);
        for word in ["\"refused\"", "description", problem] {
            assert!(error.to_string().contains(word), "{error} does not name {word}");
        }
    }
    assert_eq!(db.store.find(&db.app, "refused").unwrap(), None);
}

pub(crate) fn a_changed_trigger_plans_anew(db: &Bench) {
    let definition = db.definition("s");
    drop_claimed(db.claim(&db.head(&db.create(&definition))));
    let before = db.entry("s");
    let trigger = every(db.base + 500, 2_000, -1);
    assert_eq!(db.ensure(&Definition { trigger, ..definition }), Ensured::Changed);
    let after = db.entry("s");
    assert_eq!(after.cursor, Cursor { prev: Some(db.base), next: NextFire::At(db.base + 500) });
    assert_eq!((after.version, after.generation), (before.version + 1, before.generation + 1));
    assert_eq!(after.state, ScheduleState::Active);
    assert!(is_lost(&db.claim(&db.head(&before))));
    drop_claimed(db.claim(&db.head(&after)));
}

pub(crate) fn a_changed_trigger_with_nothing_left_completes_the_schedule(db: &Bench) {
    let trigger = Trigger::cron("* * * * * ?", "UTC").unwrap();
    let definition = Definition { trigger, ..db.definition("s") };
    db.create(&definition);
    assert_eq!(db.ensure(&Definition { end: Some(db.now - 1_000), ..definition }), Ensured::Changed);
    let entry = db.entry("s");
    assert_eq!((entry.state, entry.cursor.next), (ScheduleState::Complete, NextFire::Never));
}

/// "Run it now", asked for a second time under the same name.
pub(crate) fn a_one_shot_moved_into_the_past_is_left_to_the_misfire_policy(db: &Bench) {
    let definition = Definition { trigger: every(db.now, 0, 0), ..db.definition("s") };
    drop_claimed(db.claim(&db.head(&db.create(&definition))));
    let before = db.entry("s");
    // Its second instant has passed, too, when it arrives: the caller's clock is behind the database's.
    for (trigger, prev) in [(every(db.now - 500, 0, 0), None), (once("2001-02-03T04:05:06Z"), None)] {
        let next = NextFire::planned(trigger.next_after(0).map(Timestamp::at));
        assert_eq!(db.ensure(&Definition { trigger, ..definition.clone() }), Ensured::Changed);
        let after = db.entry("s");
        assert_eq!((after.state, after.cursor), (ScheduleState::Active, Cursor { prev, next }));
        assert!(after.generation > before.generation);
    }
    assert_eq!(db.overdue(db.now), ["s"]);
    drop_claimed(db.claim(&db.head(&db.entry("s"))));
    assert_eq!(db.entry("s").state, ScheduleState::Complete);
}

/// Once between its last fire time and now: the cursor goes on from there.
pub(crate) fn a_one_shot_moved_behind_its_last_fire_time_keeps_it(db: &Bench) {
    let definition = Definition { trigger: every(db.now - 9_000, 0, 0), ..db.definition("s") };
    drop_claimed(db.claim(&db.head(&db.create(&definition))));
    let trigger = every(db.now - 4_000, 0, 0);
    assert_eq!(db.ensure(&Definition { trigger, ..definition }), Ensured::Changed);
    let cursor = Cursor { prev: Some(db.now - 9_000), next: NextFire::At(db.now - 4_000) };
    assert_eq!(db.entry("s").cursor, cursor);
}

pub(crate) fn a_recurring_trigger_is_not_planned_at_or_before_its_last_fire_time_again(db: &Bench) {
    let start = db.now - 60_000;
    let definition = Definition { trigger: every(start, 1_000, 1), ..db.definition("s") };
    drop_claimed(db.claim(&db.head(&db.create(&definition))));
    // What was planned behind it and missed is left to the misfire policy, as it was.
    let fewer =
        Definition { trigger: every(start, 1_000, 1), end: Some(start + 1_500), ..definition.clone() };
    assert_eq!(db.ensure(&fewer), Ensured::Changed);
    assert_eq!(db.entry("s").cursor, Cursor { prev: Some(start), next: NextFire::At(start + 1_000) });
    for ended in [
        Definition { end: Some(start + 500), ..fewer.clone() },
        Definition { trigger: every(start, 1_000, 0), ..definition },
    ] {
        assert_eq!(db.ensure(&ended), Ensured::Changed);
        let entry = db.entry("s");
        assert_eq!(
            (entry.state, entry.cursor),
            (ScheduleState::Complete, Cursor { prev: Some(start), next: NextFire::Never })
        );
    }
}

pub(crate) fn a_changed_trigger_revives_a_complete_schedule(db: &Bench) {
    let definition = Definition { trigger: every(db.base, 0, 0), ..db.definition("s") };
    drop_claimed(db.claim(&db.head(&db.create(&definition))));
    assert_eq!(db.entry("s").state, ScheduleState::Complete);
    assert_eq!(db.ensure(&definition), Ensured::Unchanged);
    let trigger = every(db.base + 9_000, 0, 0);
    assert_eq!(db.ensure(&Definition { trigger, ..definition }), Ensured::Changed);
    let entry = db.entry("s");
    assert_eq!((entry.state, entry.cursor.next), (ScheduleState::Active, NextFire::At(db.base + 9_000)));
    drop_claimed(db.claim(&db.head(&entry)));
}

pub(crate) fn a_changed_trigger_leaves_a_pause(db: &Bench) {
    let definition = db.definition("s");
    assert!(db.paused(&db.create(&definition)));
    let trigger = every(db.base + 9_000, 5_000, -1);
    assert_eq!(db.ensure(&Definition { trigger, ..definition }), Ensured::Changed);
    let entry = db.entry("s");
    assert_eq!((entry.state, entry.cursor.next), (ScheduleState::Paused, NextFire::At(db.base + 9_000)));
}

pub(crate) fn a_definition_reads_back_as_it_was_written(db: &Bench) {
    let cron = Cron::parse("0 30 2 ? * MON-FRI", "America/New_York").unwrap();
    let trigger = Trigger::Cron(cron.with_gap(Gap::Skip).with_fold(Fold::Both));
    let payload = "{\"text\":\"it's \\\"ünïcode\\\" 100 %\"}".to_owned();
    let definition = Definition {
        trigger: trigger.clone(),
        start: Some(db.base),
        end: Some(db.base + 400 * 86_400_000),
        payload,
        priority: -3,
        misfire: MisfirePolicy::DoNothing,
        threshold: 123_456,
        ..db.definition("s")
    };
    let entry = db.create(&definition);
    assert_eq!(entry.timing.trigger(), &trigger);
    assert_eq!((entry.timing.start(), entry.timing.end()), (definition.start, definition.end));
    assert_eq!((&*entry.payload, entry.priority), (definition.payload.as_str(), -3));
    assert_eq!((entry.misfire, entry.threshold), (MisfirePolicy::DoNothing, 123_456));
    assert_eq!(entry.cursor.next.at(), entry.timing.next_after(db.base - 1));
    assert_eq!(*db.poll(Timestamp::MAX).entries[0], *entry);
}

pub(crate) fn names_are_apart_by_application(db: &Bench) {
    let entry = db.schedule("s");
    let elsewhere = Definition { application: fresh_name(), payload: "1".to_owned(), ..db.definition("s") };
    assert_eq!(db.ensure(&elsewhere), Ensured::Created);
    assert_eq!(*db.entry("s"), *entry);
    let other = db.store.find(&elsewhere.application, "s").unwrap().unwrap();
    assert_ne!(other.id, entry.id);
    assert_eq!(db.store.schedules(Some(&elsewhere.application)).unwrap().len(), 1);
    let known: Vec<String> = db.store.applications().unwrap().into_iter().map(|it| it.name).collect();
    assert!(known.is_sorted() && [&db.app, &elsewhere.application].iter().all(|it| known.contains(it)));
    assert!(!known.contains(&fresh_name()));
}

pub(crate) fn an_unknown_name_is_not_found(db: &Bench) {
    db.schedule("s");
    assert_eq!(db.store.find(&db.app, "t").unwrap(), None);
    assert_eq!(db.store.find(&fresh_name(), "s").unwrap(), None);
}

pub(crate) fn a_pause_ends_planned_claims(db: &Bench) {
    let entry = db.schedule("s");
    let in_hand = db.head(&entry);
    assert!(db.paused(&entry));
    assert!(is_lost(&db.claim(&in_hand)));
    assert!(is_lost(&db.resolve(&in_hand)));
    let row = db.schedule_row(entry.id);
    assert_eq!((row.state.as_str(), row.next, row.version), ("PAUSED", Some(db.base), entry.version + 1));
    assert_eq!((row.pause.reason.as_str(), row.pause.by.as_str()), ("why", "op"));
    assert!(row.pause.since.is_some_and(|at| (db.now..db.now + 60_000).contains(&at)), "{row:?}");
    assert!(db.polled(Timestamp::MAX).is_empty());
}

pub(crate) fn a_pause_is_not_made_twice(db: &Bench) {
    let entry = db.schedule("s");
    assert!(db.paused(&entry));
    assert!(!db.paused(&entry));
    assert!(!db.paused(&db.entry("s")));
    assert_eq!(db.entry("s").version, entry.version + 1);
}

pub(crate) fn a_complete_schedule_cannot_be_paused(db: &Bench) {
    let entry = db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("s") });
    drop_claimed(db.claim(&db.head(&entry)));
    assert!(!db.paused(&entry));
    assert!(!db.paused(&db.entry("s")));
    assert_eq!(db.entry("s").state, ScheduleState::Complete);
}

pub(crate) fn schedules_are_shown(db: &Bench) {
    let cron = Trigger::cron("0 0 3 * * ?", "Europe/Berlin").unwrap();
    let b = db.create(&Definition { trigger: cron, ..db.definition("b") });
    let a = db.create(&Definition { trigger: every(db.base, 5_000, -1), ..db.definition("a") });
    db.create(&Definition { trigger: every(db.base, 0, 0), ..db.definition("c") });
    drop_claimed(db.claim(&db.head(&a)));
    let rows = db.store.schedules(Some(&db.app)).unwrap();
    let shown: Vec<_> = rows.iter().map(|row| format!("{}: {}", row.name, row.when.describe())).collect();
    assert_eq!(shown, ["a: every 5000 ms", "b: cron 0 0 3 * * ? [Europe/Berlin]", "c: once"]);
    assert_eq!((rows[0].id, rows[0].prev, rows[0].next), (a.id.0, Some(db.base), Some(db.base + 5_000)));
    assert_eq!((rows[0].triggered, rows[0].state.as_str(), rows[0].job.as_str()), (1, "EXECUTING", JOB));
    assert_eq!((rows[1].id, rows[1].prev, rows[1].version), (b.id.0, None, b.version));
    assert_eq!(rows[1].application, db.app);
    assert!(db.store.schedules(None).unwrap().len() >= 3);
}

pub(crate) fn executions_are_shown_newest_first(db: &Bench) {
    let other = db.another_node();
    let mut ids = vec![db.claim_head(&db.schedule("a")).execution()];
    ids.push(db.run_head(&db.schedule("b")).execution());
    ids.push(drop_claimed(db.claim(&ClaimRequest { node: other, ..db.head(&db.schedule("c")) })));
    let late = db.create(&Definition { trigger: every(db.base + 9_000, 0, 0), ..db.definition("d") });
    ids.push(db.claim_head(&late).execution());
    let ask = |change: &dyn Fn(&mut ExecutionQuery)| {
        let application = Some(db.app.clone());
        let mut query = ExecutionQuery { application, limit: 100, ..Default::default() };
        change(&mut query);
        let rows = db.store.executions(&query).unwrap();
        rows.iter().map(|row| ids.iter().position(|id| id.get() == row.id).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ask(&|_| ()), [3, 2, 1, 0]);
    assert_eq!(ask(&|query| query.limit = 2), [3, 2]);
    let after = db.execution(ids[2]).place();
    assert_eq!(ask(&|query| query.after = Some(after)), [1, 0]);
    assert_eq!(ask(&|query| query.oldest = true), [0, 1, 2, 3]);
    assert_eq!(ask(&|query| query.schedule = Some("b".to_owned())), [1]);
    assert_eq!(ask(&|query| query.schedule = Some("B".to_owned())).len(), 0);
    assert_eq!(ask(&|query| query.states = vec![ExecutionState::Running]), [1]);
    assert_eq!(ask(&|query| query.states = vec![ExecutionState::Running, ExecutionState::Claimed]).len(), 4);
    assert_eq!(ask(&|query| query.node = Some(other.to_string())), [2]);
    assert_eq!(ask(&|query| query.node = Some(other.to_string()[..13].to_owned())), [2]);
    assert_eq!(ask(&|query| query.node = Some("%".to_owned())).len(), 0);
    assert_eq!(ask(&|query| query.since = Some(db.base + 9_000)), [3]);
    assert_eq!(ask(&|query| query.since = Some(db.base + 9_001)).len(), 0);
    assert_eq!(ask(&|query| query.until = Some(db.base + 9_000)), [2, 1, 0]);
    assert_eq!(ask(&|query| query.late = Some(Timestamp::MAX)).len(), 0, "all are claimed");
}

pub(crate) fn late_executions_are_shown_the_longest_due_first(db: &Bench) {
    let due = |at: Timestamp| EnqueueOrder { due: DueAt::Instant(at), ..db.enqueue_order(&["1"]) };
    let [later, first, soon] =
        [2, 1, 3].map(|second| db.store.enqueue(&due(db.base + second * 1_000)).unwrap().remove(0));
    let late = |before: Timestamp, limit| {
        let (application, late) = (Some(db.app.clone()), Some(before));
        let query = ExecutionQuery { application, late, limit, ..ExecutionQuery::default() };
        db.store.executions(&query).unwrap().iter().map(|row| ExecutionId(row.id)).collect::<Vec<_>>()
    };
    assert_eq!(late(db.base + 3_000, 9), [first, later]);
    assert_eq!(late(db.base + 3_001, 9), [first, later, soon]);
    assert_eq!(late(db.base + 3_001, 1), [first]);
    assert_eq!(late(db.base + 1_000, 9), []);
}

/// Neither the row nor its job, which might be mistyped.
pub(crate) fn a_definition_that_asks_for_another_row_changes_nothing(db: &Bench) {
    let definition = db.definition("s");
    let ensure = |definition: &Definition, only_if| {
        db.store.ensure(&Definition { only_if, ..definition.clone() }).unwrap()
    };
    let version = || db.store.schedule(&db.app, "s").unwrap().unwrap().version;
    assert_eq!(ensure(&definition, OnlyIf::Version(0)), Ensured::Differs, "there is none");
    assert!(db.store.schedule(&db.app, "s").unwrap().is_none());
    assert_eq!(ensure(&definition, OnlyIf::New), Ensured::Created);
    let (first, row) = (version(), db.schedule_row(db.entry("s").id));
    for only_if in [OnlyIf::New, OnlyIf::Version(first + 1)] {
        assert_eq!(ensure(&definition, only_if), Ensured::Unchanged, "it is so");
        for other in [
            Definition { priority: 9, ..definition.clone() },
            Definition { job: job("nobody's"), ..definition.clone() },
            Definition { trigger: every(db.base, 7_000, -1), ..definition.clone() },
        ] {
            assert_eq!(ensure(&other, only_if), Ensured::Differs);
        }
    }
    assert_eq!(db.schedule_row(db.entry("s").id), row);
    assert!(db.store.jobs(&db.app).unwrap().iter().all(|job| job.name != "nobody's"));
    let urgent = Definition { priority: 9, ..definition.clone() };
    assert_eq!(ensure(&urgent, OnlyIf::Version(first)), Ensured::Changed);
    assert_eq!(ensure(&definition, OnlyIf::Version(first)), Ensured::Differs, "it was changed since");
    db.remove("s");
    assert_eq!(ensure(&definition, OnlyIf::Version(first + 1)), Ensured::Differs, "it was removed since");
    assert_eq!(ensure(&definition, OnlyIf::New), Ensured::Created);
}

pub(crate) fn one_of_many_new_definitions_of_a_name_makes_it(db: &Bench) {
    let define = |priority| {
        let definition = Definition { priority, only_if: OnlyIf::New, ..db.definition("s") };
        db.store.ensure(&definition).unwrap()
    };
    let answers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|priority| {
                scope.spawn({
                    let define = &define;
                    move || define(priority)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let count = |answer| answers.iter().filter(|it| **it == answer).count();
    assert_eq!((count(Ensured::Created), count(Ensured::Differs)), (1, 3), "{answers:?}");
}

/// Its year has passed, or its end: as a new schedule it would be a row that never fires.
pub(crate) fn a_new_schedule_without_a_fire_time_is_refused(db: &Bench) {
    let over = Trigger::Cron(Cron::parse("0 0 0 1 1 ? 2001", "UTC").unwrap());
    let ended = Definition { end: Some(db.now - 1_000), ..db.definition("s") };
    let ended = Definition { trigger: Trigger::Cron(Cron::parse("0 0 0 * * ?", "UTC").unwrap()), ..ended };
    for definition in [Definition { trigger: over, ..db.definition("s") }, ended] {
        let error = db.store.ensure(&definition).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("no fire time from now on"), "{error}");
        assert!(db.store.find(&db.app, "s").unwrap().is_none());
    }
}
