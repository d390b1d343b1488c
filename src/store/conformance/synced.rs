//! Schedules that live in code: an owner's become as listed, and nobody else's do.

use super::races::{patiently, race};
use super::*;
use crate::domain::{Difference, ErrorKind, FieldSet, ScheduleField, ScheduleState};
use crate::store::audit::AuditQuery;
use crate::store::columns::Ownership;
use crate::store::sync::{OwnerRow, SyncAnswer, SyncOrder};
use crate::store::{Author, OnlyIf, SyncStep, SyncedSchedule};

impl Bench {
    /// Schedules of [`Bench::definition`] with these priorities.
    fn list(&self, owner: &str, revision: i64, schedules: &[(&str, i32)]) -> SyncOrder {
        let definition = |(name, priority): &(&str, i32)| Definition {
            priority: *priority,
            author: Author::Owner(owner.to_owned()),
            ..self.definition(name)
        };
        SyncOrder {
            application: self.app.clone(),
            owner: owner.to_owned(),
            revision,
            definitions: schedules.iter().map(definition).collect(),
            adopts: false,
            by: crate::store::audit::Attribution::default(),
        }
    }

    /// Syncs as it was planned just before; the names and steps.
    fn synced(&self, order: &SyncOrder) -> Vec<(String, SyncStep)> {
        let planned = self.store.plan_sync(order).unwrap();
        let answer = self.store.sync(order).unwrap();
        assert_eq!(steps(answer.clone()), steps(planned.clone()), "{answer:?} instead of {planned:?}");
        assert_eq!(answer.known, planned.known);
        steps(answer)
    }

    fn owner(&self, owner: &str) -> OwnerRow {
        self.store.owner(&self.app, owner).unwrap().expect("it has synced")
    }

    /// All schedules: name, priority, version, owner and what is by hand.
    fn rows(&self) -> Vec<(String, i64, i64, Ownership)> {
        let rows = self.store.schedules(Some(&self.app)).unwrap().into_iter();
        rows.map(|row| (row.name, row.settings.priority.unwrap(), row.version, row.ownership)).collect()
    }

    /// An operator's edit.
    fn by_hand(&self, definition: Definition, gives_back: &str) -> Ensured {
        let version = self.entry(&definition.name).version;
        let author = Author::Hand { gives_back: FieldSet::read(gives_back) };
        let edit = Definition { only_if: OnlyIf::Version(version), author, ..definition };
        self.store.ensure(&edit).unwrap()
    }

    fn verbs(&self) -> Vec<String> {
        let query = AuditQuery { application: self.app.clone(), limit: 1_000, ..AuditQuery::default() };
        let rows = self.store.audit(&query).unwrap();
        rows.into_iter().rev().map(|row| format!("{} {}", row.verb, row.target)).collect()
    }
}

fn steps(answer: SyncAnswer) -> Vec<(String, SyncStep)> {
    answer.schedules.into_iter().map(|SyncedSchedule { name, step, .. }| (name, step)).collect()
}

fn step(name: &str, step: SyncStep) -> (String, SyncStep) {
    (name.to_owned(), step)
}

fn priority(was: i64, becomes: i64) -> SyncStep {
    let difference = Difference::new("priority", was.to_string(), becomes.to_string());
    SyncStep::Changed { differences: vec![difference] }
}

fn row(name: &str, priority: i64, version: i64, owner: Ownership) -> (String, i64, i64, Ownership) {
    (name.to_owned(), priority, version, owner)
}

pub(crate) fn a_sync_makes_what_is_missing_changes_what_differs_and_removes_the_rest(db: &Bench) {
    let nobodys = db.schedule("z");
    let first = db.list("billing", 1, &[("a", 1), ("b", 1), ("c", 1)]);
    let made = ["a", "b", "c"].map(|name| step(name, SyncStep::Created));
    assert_eq!(db.synced(&first), made);
    let billing = || Ownership::of("billing");
    assert_eq!(db.rows()[..2], [row("a", 1, 0, billing()), row("b", 1, 0, billing())]);
    let second = db.list("billing", 2, &[("c", 1), ("d", 1), ("b", 2)]);
    let expected = [
        step("a", SyncStep::Removed),
        step("b", priority(1, 2)),
        step("c", SyncStep::Unchanged),
        step("d", SyncStep::Created),
    ];
    assert_eq!(db.synced(&second), expected);
    let nobody = row("z", 0, nobodys.version, Ownership::NOBODYS);
    let expected = [row("b", 2, 1, billing()), row("c", 1, 0, billing()), row("d", 1, 0, billing()), nobody];
    assert_eq!(db.rows(), expected);
    assert_eq!(db.entry("a").state, ScheduleState::Removed);
    assert_eq!(db.owner("billing").revision, 2);
    let verbs = db.verbs();
    assert_eq!(verbs[..4], ["ensure z", "sync a", "sync b", "sync c"]);
    assert_eq!(verbs[4..], ["remove a", "sync b", "sync d"]);
    // It comes back as a new one.
    let third = db.list("billing", 3, &[("a", 5), ("b", 2), ("c", 1), ("d", 1)]);
    assert_eq!(db.synced(&third)[0], step("a", SyncStep::Created));
    assert_eq!(db.rows()[0], row("a", 5, 2, billing()));
    drop_claimed(db.claim(&db.head(&db.entry("a"))));
}

pub(crate) fn an_equal_sync_writes_nothing(db: &Bench) {
    let order = db.list("billing", 7, &[("a", 1), ("b", 1)]);
    db.synced(&order);
    let (rows, verbs, owner) = (db.rows(), db.verbs(), db.owner("billing"));
    let unchanged = ["a", "b"].map(|name| step(name, SyncStep::Unchanged));
    assert_eq!(db.synced(&order), unchanged);
    // A claim is no change.
    drop_claimed(db.claim(&db.head(&db.entry("a"))));
    assert_eq!(db.synced(&order), unchanged);
    assert_eq!((db.rows(), db.verbs(), db.owner("billing")), (rows.clone(), verbs.clone(), owner));
    // Of a higher revision it notes that alone.
    assert_eq!(db.synced(&db.list("billing", 8, &[("a", 1), ("b", 1)])), unchanged);
    assert_eq!((db.rows(), db.verbs()), (rows, verbs));
    assert_eq!(db.owner("billing").revision, 8);
    assert_eq!(db.store.owner(&db.app, "shop").unwrap(), None);
}

pub(crate) fn a_lower_revision_writes_nothing_while_a_higher_one_is_known(db: &Bench) {
    let (old, new) =
        (db.list("billing", 41, &[("a", 1), ("old", 1)]), db.list("billing", 42, &[("a", 2), ("new", 1)]));
    db.synced(&old);
    db.synced(&new);
    let before = (db.rows(), db.verbs(), db.owner("billing"));
    for order in [&old, &db.list("billing", 0, &[])] {
        let answer = db.store.sync(order).unwrap();
        assert_eq!(answer.known, Some(42));
        assert!(order.is_stale(answer.known));
    }
    assert_eq!((db.rows(), db.verbs(), db.owner("billing")), before);
    // Another owner counts for itself.
    assert_eq!(db.synced(&db.list("shop", 1, &[("b", 1)])), [step("b", SyncStep::Created)]);
    assert_eq!((db.owner("billing").revision, db.owner("shop").revision), (42, 1));
}

/// A release that starts once more mends what was removed or given back since.
pub(crate) fn the_same_revision_writes_what_differs(db: &Bench) {
    db.synced(&db.list("billing", 1, &[("a", 1), ("b", 1)]));
    db.remove("a");
    let expected = [step("a", SyncStep::Created), step("b", priority(1, 3))];
    assert_eq!(db.synced(&db.list("billing", 1, &[("a", 1), ("b", 3)])), expected);
    assert_eq!(db.owner("billing").revision, 1);
    let gone = ["a", "b"].map(|name| step(name, SyncStep::Removed));
    assert_eq!(db.synced(&db.list("billing", 1, &[])), gone);
    assert_eq!(db.rows(), []);
}

pub(crate) fn another_owners_schedules_are_never_touched(db: &Bench) {
    db.synced(&db.list("shop", 1, &[("a", 1), ("mine", 1)]));
    db.synced(&db.list("billing", 1, &[("b", 1)]));
    db.schedule("nobody's");
    let before = (db.rows(), db.verbs());
    let refused = |order: &SyncOrder, name: &str, taken: SyncStep, word: &str| {
        let planned = steps(db.store.plan_sync(order).unwrap());
        assert!(planned.contains(&step(name, taken)), "{planned:?}");
        let error = db.store.sync(order).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!((&db.rows(), &db.verbs()), (&before.0, &before.1), "nothing is made of the others either");
        assert_eq!(db.owner("billing").revision, 1);
    };
    let of_shop = SyncStep::OfOther { owner: "shop".to_owned() };
    let adopts = |order: SyncOrder| SyncOrder { adopts: true, ..order };
    let named = db.list("billing", 2, &[("a", 9), ("b", 2), ("new", 1)]);
    refused(&named, "a", of_shop.clone(), "\"shop\"");
    refused(&adopts(named), "a", of_shop, "\"shop\"");
    refused(&db.list("billing", 2, &[("nobody's", 9)]), "nobody's", SyncStep::OfNobody, "adopt()");
    // One that it has removed is anybody's.
    db.synced(&db.list("shop", 2, &[("mine", 1)]));
    let a = db.list("billing", 2, &[("a", 4), ("b", 1)]);
    assert_eq!(db.synced(&a), [step("a", SyncStep::Created), step("b", SyncStep::Unchanged)]);
    assert_eq!(db.rows()[0], row("a", 4, 2, Ownership::of("billing")));
}

pub(crate) fn what_is_nobodys_is_adopted_as_it_is(db: &Bench) {
    let entry = db.schedule("a");
    drop_claimed(db.claim(&db.head(&entry)));
    let order = SyncOrder { adopts: true, ..db.list("billing", 1, &[("a", 0), ("b", 1)]) };
    let adopted = SyncStep::Adopted { differences: Vec::new() };
    assert_eq!(db.synced(&order), [step("a", adopted), step("b", SyncStep::Created)]);
    assert_eq!(db.rows()[0], row("a", 0, 1, Ownership::of("billing")));
    let (cursor, generation) = (db.entry("a").cursor, db.entry("a").generation);
    assert_eq!((cursor.prev, generation), (Some(db.base), entry.generation), "its cursor stays");
    assert_eq!(db.synced(&order), ["a", "b"].map(|name| step(name, SyncStep::Unchanged)));
}

pub(crate) fn what_an_operator_changed_stays_until_it_is_given_back(db: &Bench) {
    db.synced(&db.list("billing", 1, &[("a", 1)]));
    let trigger = every(db.base, 5_000, -1);
    let edited = Definition { trigger: trigger.clone(), priority: 7, ..db.definition("a") };
    assert_eq!(db.by_hand(edited.clone(), ""), Ensured::Changed);
    let of = |by_hand: &str| Ownership { by_hand: Some(by_hand.to_owned()), ..Ownership::of("billing") };
    assert_eq!(db.rows(), [row("a", 7, 1, of("trigger,priority"))]);
    assert_eq!(db.by_hand(edited, ""), Ensured::Unchanged);
    // Neither the owner's next release nor an ensure sets them. What the code alone has follows.
    let mut next = db.list("billing", 2, &[("a", 3)]);
    next.definitions[0].description = "of release 2".to_owned();
    let planned = db.store.plan_sync(&next).unwrap();
    let kept: Vec<&str> = planned.schedules[0].kept.iter().map(|kept| kept.field).collect();
    assert_eq!(kept, ["trigger", "priority"]);
    let description = Difference::new("description", String::new(), "of release 2".to_owned());
    assert_eq!(db.synced(&next), [step("a", SyncStep::Changed { differences: vec![description] })]);
    assert_eq!(db.store.ensure(&next.definitions[0]).unwrap(), Ensured::Unchanged);
    let other = Definition { priority: 4, threshold: 61_000, ..db.definition("a") };
    assert_eq!(db.store.ensure(&other).unwrap(), Ensured::Changed);
    let entry = db.entry("a");
    assert_eq!((entry.timing.trigger(), entry.priority, entry.threshold), (&trigger, 7, 61_000));
    assert_eq!(db.rows(), [row("a", 7, 3, of("trigger,priority"))]);
    // Given back, they stay until the next sync.
    let as_it_is = Definition { trigger, priority: 7, threshold: 61_000, ..db.definition("a") };
    assert_eq!(db.by_hand(as_it_is, "priority,overlap"), Ensured::Changed);
    assert_eq!(db.rows(), [row("a", 7, 4, of("trigger"))]);
    assert!(db.store.sync(&db.list("billing", 1, &[("a", 3)])).unwrap().known == Some(2), "it is older");
    assert_eq!(db.rows(), [row("a", 7, 4, of("trigger"))]);
    assert!(matches!(&db.synced(&next)[..], [(_, SyncStep::Changed { .. })]));
    assert_eq!(db.rows(), [row("a", 3, 5, of("trigger"))]);
    // Of one without an owner an edit is nothing but an edit.
    db.schedule("z");
    assert_eq!(db.by_hand(Definition { priority: 8, ..db.definition("z") }, ""), Ensured::Changed);
    assert_eq!(db.rows()[1], row("z", 8, 1, Ownership::NOBODYS));
}

/// Each field can be an operator's, and only those that differ are.
pub(crate) fn each_field_is_an_operators_by_itself(db: &Bench) {
    type Edit = fn(&mut Definition);
    let edits: [(ScheduleField, Edit); 11] = [
        (ScheduleField::Trigger, |it| it.end = Some(Timestamp::at(4_000_000_000_000))),
        (ScheduleField::Job, |it| it.job = job("other")),
        (ScheduleField::Payload, |it| it.payload = "7".to_owned()),
        (ScheduleField::Description, |it| it.description = "by hand".to_owned()),
        (ScheduleField::Priority, |it| it.priority = 9),
        (ScheduleField::Misfire, |it| it.misfire = MisfirePolicy::FireAll),
        (ScheduleField::MisfireThreshold, |it| it.threshold = 99_000),
        (ScheduleField::TimeLimit, |it| it.time_limit = Some(5)),
        (ScheduleField::Overlap, |it| it.overlap = Some(Overlap::Skip)),
        (ScheduleField::PauseAfter, |it| it.pause_after = crate::domain::PauseAfter::of(Some(3))),
        (ScheduleField::ExpectedBy, |it| it.expected_by = Some(7)),
    ];
    assert_eq!(edits.len(), ScheduleField::ALL.len());
    let names = edits.map(|(field, _)| field.as_str());
    let list = names.map(|name| (name, 1));
    db.synced(&db.list("billing", 1, &list));
    for (field, edit) in edits {
        let mut edited = Definition { priority: 1, ..db.definition(field.as_str()) };
        edit(&mut edited);
        assert_eq!(db.by_hand(edited, ""), Ensured::Changed, "{field}");
    }
    let versions = |db: &Bench| db.rows().into_iter().map(|(_, _, version, _)| version).collect::<Vec<_>>();
    for (name, _, version, ownership) in db.rows() {
        assert_eq!((version, ownership.by_hand), (1, Some(name)));
    }
    let planned = db.store.plan_sync(&db.list("billing", 2, &list)).unwrap();
    for schedule in planned.schedules {
        let [kept] = &schedule.kept[..] else { panic!("{schedule:?}") };
        assert_eq!((kept.part_of().as_str(), schedule.step), (&*schedule.name, SyncStep::Unchanged));
    }
    db.synced(&db.list("billing", 2, &list));
    assert_eq!(versions(db), [1; ScheduleField::ALL.len()], "nothing is written");
}

pub(crate) fn a_pause_survives_a_sync(db: &Bench) {
    db.synced(&db.list("billing", 1, &[("a", 1)]));
    let entry = db.entry("a");
    assert!(db.store.pause(entry.id, entry.version, "op", "stock-taking").unwrap());
    let mut next = db.list("billing", 2, &[("a", 2)]);
    next.definitions[0].trigger = every(db.base, 2_000, -1);
    db.synced(&next);
    let entry = db.entry("a");
    assert_eq!((entry.state, entry.priority, entry.generation), (ScheduleState::Paused, 2, 1));
    assert_eq!(db.schedule_row(entry.id).pause.reason, "stock-taking");
}

pub(crate) fn a_sync_withdraws_what_was_due(db: &Bench) {
    let order = db.list("billing", 1, &[("edited", 0), ("removed", 0), ("same", 0)]);
    db.synced(&order);
    let behind = db.base - 3_600_000 - 10_000;
    for name in ["edited", "removed", "same"] {
        let row = RowKey::Schedule(db.entry(name).id);
        db.set(row, "start_time", &behind.to_string());
        db.set(row, "prev_fire_time", &(behind - 1_000).to_string());
        db.set(row, "next_fire_time", &behind.to_string());
    }
    let mut next = db.list("billing", 2, &[("edited", 0), ("same", 0)]);
    next.definitions[0].trigger = every(db.base, 2_000, -1);
    next.definitions[1].trigger = every(behind, 1_000, -1);
    let answer = db.store.sync(&next).unwrap();
    let withdraws: Vec<bool> = answer.schedules.iter().map(|it| it.withdraws.is_some()).collect();
    assert_eq!(withdraws, [true, true, false], "{answer:?}");
    let mut rows = db.executions();
    rows.sort_by(|one, other| one.schedule.cmp(&other.schedule));
    let rows: Vec<_> = rows.iter().map(|row| (&*row.schedule, &*row.reason, row.scheduled)).collect();
    assert_eq!(rows, [("edited", "edited", behind), ("removed", "removed", behind)]);
    let told = answer.schedules[0].withdraws.unwrap();
    let [row] = <[_; 1]>::try_from(
        db.executions().into_iter().filter(|row| row.schedule == "edited").collect::<Vec<_>>(),
    )
    .unwrap();
    assert_eq!((Some(told.first), told.count as i64), (behind.utc(), row.count));
    assert_eq!(Some(told.last), row.until.and_then(Timestamp::utc));
}

/// All or nothing, whichever of the schedules cannot be written.
pub(crate) fn a_sync_that_cannot_be_made_leaves_nothing(db: &Bench) {
    db.synced(&db.list("billing", 1, &[("a", 1), ("m", 1), ("z", 1)]));
    db.set(RowKey::Schedule(db.entry("m").id), "version", &i64::MAX.to_string());
    let before = (db.rows(), db.verbs());
    let next = db.list("billing", 2, &[("a", 2), ("m", 2), ("new", 1)]);
    let error = db.store.sync(&next).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data, "{error}");
    assert!(error.to_string().contains("\"m\""), "{error}");
    let mut never = db.list("billing", 2, &[("a", 2), ("new", 1)]);
    never.definitions[1].trigger = Trigger::cron("0 0 0 1 1 ? 2001", "UTC").unwrap();
    assert_eq!(db.store.sync(&never).unwrap_err().kind(), ErrorKind::Config);
    assert_eq!((db.rows(), db.verbs(), db.owner("billing").revision), (before.0, before.1, 1));
}

/// Several servers of two releases start at once.
pub(crate) fn of_syncs_at_once_the_higher_revision_stays(db: &Bench) {
    for round in 0..6 {
        let (old, new) = (round * 2 + 1, round * 2 + 2);
        let gone = format!("gone-{round}");
        let orders = [
            db.list("billing", old, &[("a", old as i32), (&gone, 1)]),
            db.list("billing", new, &[("a", new as i32), ("b", new as i32)]),
        ];
        let known = race(4, |number| patiently(|| db.store.sync(&orders[number % 2])).known);
        assert!(known.iter().all(|known| known.is_none_or(|known| known <= new)), "{known:?}");
        let rows: Vec<_> = db.rows().into_iter().map(|(name, priority, ..)| (name, priority)).collect();
        assert_eq!(rows, [("a".to_owned(), new), ("b".to_owned(), new)], "round {round}");
        assert_eq!(db.owner("billing").revision, new);
    }
}

/// Two owners want one name: one of them has it.
pub(crate) fn of_two_owners_at_once_one_has_the_name(db: &Bench) {
    for round in 0..6 {
        let name = format!("s{round}");
        let owners = ["billing", "shop", "billing", "shop"];
        // What an earlier round has left would be removed.
        let fresh = |owner: &str| format!("{owner}-{round}");
        let made = race(4, |number| {
            let order = db.list(&fresh(owners[number]), 1, &[(&name, 1)]);
            db.store.sync(&order).map(|_| owners[number]).map_err(|error| error.kind())
        });
        let row = db.rows().into_iter().find(|row| row.0 == name).unwrap();
        let owner = row.3.owner.unwrap();
        for (answer, of) in made.iter().zip(owners) {
            match answer {
                Ok(_) => assert_eq!(fresh(of), owner, "{made:?}"),
                Err(kind) => assert!(
                    matches!(kind, ErrorKind::Config | ErrorKind::Conflict | ErrorKind::Unavailable),
                    "{made:?}"
                ),
            }
        }
        assert!(made.iter().any(Result::is_ok), "{made:?}");
    }
}

/// Only the rows that it changes.
pub(crate) fn a_sync_waits_for_no_row_that_stays_as_it_is(db: &Bench) {
    db.synced(&db.list("billing", 1, &[("a", 1), ("held", 1)]));
    let held = db.lock(db.entry("held").id);
    let next = db.list("billing", 2, &[("a", 2), ("held", 1), ("new", 1)]);
    let expected =
        [step("a", priority(1, 2)), step("held", SyncStep::Unchanged), step("new", SyncStep::Created)];
    assert_eq!(steps(db.store.sync(&next).unwrap()), expected);
    drop(held);
}
