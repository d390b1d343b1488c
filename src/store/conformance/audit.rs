//! The audit: written with the change, or not at all.

use super::*;
use crate::store::audit::{Attribution, AuditEntry, AuditQuery, AuditRow};
use crate::store::{PauseChange, Purge};

impl Bench {
    fn attribution(&self, reason: &str) -> Attribution {
        Attribution { actor: "ann".to_owned(), reason: reason.to_owned() }
    }

    /// The application's audit, newest first.
    fn audit(&self) -> Vec<AuditRow> {
        self.audit_of(AuditQuery::default())
    }

    fn audit_of(&self, query: AuditQuery) -> Vec<AuditRow> {
        let query = AuditQuery { application: self.app.clone(), limit: 100, ..query };
        self.store.audit(&query).unwrap()
    }

    fn pause_audited(&self, entry: &Entry) -> Applied {
        let (by, reason) = ("ann".to_owned(), "why".to_owned());
        let pause = PauseChange { id: entry.id, version: entry.version, by, reason, until: None };
        let order = self.attribution("stock-taking");
        let names = (self.app.as_str(), &*entry.name);
        let entry = AuditEntry::of_schedule("pause", names, ("active", "paused"), &order);
        self.store.apply_audited(Change::Pause(pause), &entry).unwrap()
    }
}

fn told(row: &AuditRow) -> [&str; 7] {
    let AuditRow { actor, verb, target_type, target, was, became, reason, .. } = row;
    [actor, verb, target_type, target, was, became, reason]
}

pub(crate) fn a_change_is_recorded_if_it_is_made(db: &Bench) {
    let entry = db.schedule("s");
    let before = db.audit().len();
    assert_eq!(db.pause_audited(&entry), Applied::Done);
    assert_eq!(db.pause_audited(&entry), Applied::Lost);
    let rows = db.audit();
    assert_eq!(rows.len(), before + 1, "the second changed nothing");
    assert_eq!(told(&rows[0]), ["ann", "pause", "schedule", "s", "active", "paused", "stock-taking"]);
    assert!((rows[0].made - db.now).abs() < 60_000, "by the database's clock");
}

pub(crate) fn a_definition_is_recorded_if_it_changes_something(db: &Bench) {
    let definition = Definition { by: db.attribution("first"), ..db.definition("s") };
    db.create(&definition);
    db.store.ensure(&definition).unwrap();
    let other = Definition { priority: 7, payload: "1".to_owned(), by: db.attribution("more"), ..definition };
    assert_eq!(db.store.ensure(&other).unwrap(), Ensured::Changed);
    let hourly = Definition { trigger: every(db.base, 3_600_000, -1), ..other };
    assert_eq!(db.store.ensure(&hourly).unwrap(), Ensured::Changed);
    let rows = db.audit();
    let fields: Vec<_> = rows.iter().map(|row| row.fields.text()).collect();
    let of = |text: &str| Some(text.to_owned());
    assert_eq!(fields, [of("trigger"), of("payload,priority"), None]);
    let told: Vec<_> = rows.iter().map(|row| told(row)[4..].to_vec()).collect();
    assert_eq!(
        told,
        [
            ["every 1000 ms", "every 3600000 ms", "more"],
            ["payload={}, priority=0", "payload=1, priority=7", "more"],
            ["", "every 1000 ms, job \"work\"", "first"],
        ]
    );
}

/// Rows of one transaction have the same instant.
pub(crate) fn the_audit_has_pages_without_gaps(db: &Bench) {
    for name in ["a", "b", "c", "d"] {
        let entry = db.create(&Definition { by: db.attribution("x"), ..db.definition(name) });
        db.pause_audited(&entry);
    }
    let whole = db.audit();
    let (mut paged, mut after): (Vec<AuditRow>, Option<(Timestamp, i64)>) = (Vec::new(), None);
    while paged.len() <= whole.len() {
        let query = AuditQuery { application: db.app.clone(), after, limit: 3, ..AuditQuery::default() };
        let page = db.store.audit(&query).unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.made, last.id));
        paged.extend(page);
    }
    assert_eq!((whole.len(), paged), (8, whole.clone()));
    let one = AuditQuery { after, target: Some("a".to_owned()), ..AuditQuery::default() };
    assert!(db.audit_of(one).is_empty(), "nothing follows the last");
    let (made, id) = (whole[0].made, whole[0].id);
    for after in [(made, id), (made, id + 1), (made - 1, i64::MAX), (made + 1, 0)] {
        let behind = db.audit_of(AuditQuery { after: Some(after), ..AuditQuery::default() });
        let expected = whole.iter().filter(|row| (row.made, row.id) < after).count();
        assert_eq!(behind.len(), expected, "{after:?}");
    }
}

pub(crate) fn the_audit_is_asked_for_by_what_it_holds(db: &Bench) {
    for name in ["a", "b"] {
        let entry = db.create(&Definition { by: db.attribution("x"), ..db.definition(name) });
        db.pause_audited(&entry);
    }
    let some = |text: &str| Some(text.to_owned());
    let found = |query| db.audit_of(query).len();
    assert_eq!(db.audit().len(), 4);
    assert_eq!(found(AuditQuery { target: some("a"), ..AuditQuery::default() }), 2);
    assert_eq!(found(AuditQuery { verb: some("pause"), ..AuditQuery::default() }), 2);
    assert_eq!(found(AuditQuery { actor: some("bob"), ..AuditQuery::default() }), 0);
    assert_eq!(found(AuditQuery { since: Some(db.now + 3_600_000), ..AuditQuery::default() }), 0);
    let newest = AuditQuery { application: db.app.clone(), limit: 1, ..AuditQuery::default() };
    let newest = db.store.audit(&newest).unwrap();
    assert_eq!(newest.iter().map(|row| (&*row.verb, &*row.target)).collect::<Vec<_>>(), [("pause", "b")]);
    let elsewhere = AuditQuery { application: fresh_name(), limit: 9, ..AuditQuery::default() };
    assert_eq!(db.store.audit(&elsewhere).unwrap(), []);
}

pub(crate) fn the_audit_is_kept_as_long_as_the_ledger(db: &Bench) {
    db.schedule("s");
    let purge = |keep| {
        let purge = Purge { application: db.app.clone(), after: String::new(), keep, limit: 10 };
        db.store.purge(&purge).unwrap();
        db.audit().len()
    };
    assert_eq!(purge(3_600_000), 1);
    assert_eq!(purge(-3_600_000), 0);
}
