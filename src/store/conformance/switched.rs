//! Jobs, nodes and applications that are paused, drained and resumed, and pauses that end by themselves.

use super::*;
use crate::domain::{Activity, ExecutionState, JobId, NextFire, Reason, ScheduleState};
use crate::repair::pass_paused;
use crate::store::audit::{Attribution, AuditEntry, AuditQuery};
use crate::store::switch::{
    EndedPause, PassedQuery, Scope, SeenSwitch, SwitchChange, SwitchOrder, SwitchRow, SwitchVerb, Switched,
};
use crate::store::{Heartbeat, PauseChange};

impl Bench {
    pub(super) fn switch(&self, scope: Scope, verb: SwitchVerb) -> Switched {
        let by = Attribution { actor: "ann".to_owned(), reason: "why".to_owned() };
        self.store.switch(&SwitchOrder { application: self.app.clone(), scope, verb, by }).unwrap()
    }

    fn pause(&self, scope: Scope) -> Switched {
        self.switch(scope, SwitchVerb::Pause { until: None })
    }

    fn resume(&self, scope: Scope) -> Switched {
        self.switch(scope, SwitchVerb::Resume)
    }

    fn job_scope(&self) -> Scope {
        Scope::Job(JOB.to_owned())
    }

    /// A row of each kind as it is, with its key.
    pub(super) fn switches(&self) -> [(RowKey<'_>, SeenSwitch); 3] {
        let job = RowKey::Job(&self.app, JOB);
        let id = self.number(job, "id");
        [
            (job, SwitchRow::Job(JobId(id), JOB.to_owned())),
            (RowKey::Node(self.node), SwitchRow::Node(self.node)),
            (RowKey::App(&self.app), SwitchRow::Application(self.app.clone())),
        ]
        .map(|(key, row)| {
            let state = self.get(key, "state").unwrap();
            let since = self.time(key, "paused_time");
            (key, SeenSwitch { row, state, since })
        })
    }

    fn passed(&self, job: Option<&str>, before: Timestamp) -> Vec<String> {
        let (application, job) = (self.app.clone(), job.map(str::to_owned));
        let entries = self.store.passed(&PassedQuery { application, job, before, limit: 10 }).unwrap();
        let mut names: Vec<String> = entries.iter().map(|entry| entry.name.to_string()).collect();
        names.sort();
        names
    }

    fn ended(&self) -> Vec<EndedPause> {
        self.store.ended_pauses(&self.app).unwrap()
    }

    fn has_ended_pause(&self) -> bool {
        self.poll(Timestamp::MAX).pause_ended
    }
}

pub(crate) fn a_paused_job_brings_nothing_until_it_is_resumed(db: &Bench) {
    db.schedule("s");
    drop(db.pending("waits"));
    let brought = || {
        let polled = db.poll(Timestamp::MAX);
        (polled.entries.len(), polled.pendings.len())
    };
    let before = brought();
    assert_eq!(db.pause(db.job_scope()), Switched::Done);
    assert_eq!(brought(), (0, 0));
    assert_eq!(db.pause(db.job_scope()), Switched::Already(Activity::Paused));
    let rows = db.store.jobs(&db.app).unwrap();
    let row = rows.iter().find(|row| row.name == JOB).unwrap();
    assert_eq!(
        (row.switch, row.pause.by.as_str(), row.pause.reason.as_str()),
        (Activity::Paused, "ann", "why")
    );
    assert!(row.pause.since.is_some() && row.pause.until.is_none());
    assert_eq!(db.resume(db.job_scope()), Switched::Done);
    assert_eq!(brought(), before);
    assert_eq!(db.resume(db.job_scope()), Switched::Already(Activity::Active));
    assert_eq!(db.pause(Scope::Job("nobody's".to_owned())), Switched::Unknown);
    let query = AuditQuery { application: db.app.clone(), limit: 10, ..AuditQuery::default() };
    let audit: Vec<_> =
        db.store.audit(&query).unwrap().into_iter().filter(|it| it.target_type == "job").collect();
    let audit: Vec<_> = audit.iter().map(|it| (&*it.verb, &*it.target, &*it.was, &*it.became)).collect();
    assert_eq!(audit, [("resume", JOB, "paused", "active"), ("pause", JOB, "active", "paused")]);
}

pub(crate) fn a_node_drains_and_says_when_it_has(db: &Bench) {
    let node = || Scope::Node(db.node);
    let state = || {
        let polled = db.poll(Timestamp::MAX);
        let rows = db.store.nodes(Some(&db.app)).unwrap();
        let row = rows.iter().find(|row| row.id == db.node.to_string()).unwrap();
        (row.switch, polled.node_enabled, polled.drains)
    };
    let beat = |drained| {
        let (application, lanes) = (db.app.clone(), Vec::new());
        let beat = Heartbeat {
            node: db.node,
            application,
            lanes,
            left_alone: Vec::new(),
            withdraw: false,
            drained,
            tells: false,
            blocked: Vec::new(),
            now: db.now,
        };
        db.store.beat(&beat).unwrap();
    };
    assert_eq!(state(), (Activity::Active, true, false));
    beat(true);
    assert_eq!(state(), (Activity::Active, true, false), "nobody has told it to");
    assert_eq!(db.pause(node()), Switched::Done);
    assert_eq!(state(), (Activity::Paused, false, false));
    assert_eq!(db.switch(node(), SwitchVerb::Drain), Switched::Done);
    assert_eq!(state(), (Activity::Draining, false, true));
    beat(false);
    assert_eq!(db.switch(node(), SwitchVerb::Drain), Switched::Already(Activity::Draining));
    beat(true);
    assert_eq!(state(), (Activity::Drained, false, true));
    assert_eq!(db.pause(node()), Switched::Already(Activity::Drained));
    assert_eq!(db.resume(node()), Switched::Done);
    assert_eq!(state(), (Activity::Active, true, false));
    let gone = db.another_node();
    db.store.leave(gone, db.now).unwrap();
    for nobody in [gone, NodeId::fresh()] {
        assert_eq!(db.pause(Scope::Node(nobody)), Switched::Unknown);
    }
}

pub(crate) fn a_paused_application_says_so_to_polls(db: &Bench) {
    let is_enabled = || db.poll(Timestamp::MAX).app_enabled;
    assert!(is_enabled());
    assert_eq!(db.pause(Scope::Application), Switched::Done);
    assert!(!is_enabled());
    let row = db.store.applications().unwrap().into_iter().find(|row| row.name == db.app).unwrap();
    assert_eq!((row.switch, row.pause.by.as_str()), (Activity::Paused, "ann"));
    assert_eq!(db.resume(Scope::Application), Switched::Done);
    assert!(is_enabled());
    let row = db.store.applications().unwrap().into_iter().find(|row| row.name == db.app).unwrap();
    assert_eq!((row.switch, row.pause), (Activity::Active, Default::default()));
}

pub(crate) fn an_application_is_paused_before_its_first_node(db: &Bench) {
    let application = fresh_name();
    let by = || Attribution { actor: "ann".to_owned(), reason: "why".to_owned() };
    let switch = |verb| {
        let order =
            SwitchOrder { application: application.clone(), scope: Scope::Application, verb, by: by() };
        db.store.switch(&order).unwrap()
    };
    let known = || db.store.applications().unwrap().into_iter().find(|row| row.name == application);
    let pause = SwitchVerb::Pause { until: Some(db.now + 3_600_000) };
    assert_eq!(switch(pause), Switched::Unknown, "nothing of it exists");
    assert!(known().is_none());
    db.store.ensure(&Definition { application: application.clone(), ..db.definition("s") }).unwrap();
    assert_eq!(switch(pause), Switched::Done);
    db.store.register(&db.new_node(NodeId::fresh(), &application, &[JOB])).unwrap();
    assert_eq!(known().map(|row| row.switch), Some(Activity::Paused));
    let ends = || db.number(RowKey::App(&application), "pause_ends");
    assert_eq!(ends(), (db.now + 3_600_000).millis());
    assert_eq!(switch(SwitchVerb::Resume), Switched::Done);
    let query = AuditQuery { application: application.clone(), limit: 10, ..AuditQuery::default() };
    let verbs: Vec<String> = db.store.audit(&query).unwrap().into_iter().map(|row| row.verb).collect();
    assert_eq!(verbs, ["resume", "pause", "ensure"]);
}

/// Its end would not be noted anywhere else.
pub(crate) fn a_pause_before_the_first_node_ends_by_itself(db: &Bench) {
    let (application, until) = (fresh_name(), Some(db.now - 1_000));
    db.store.ensure(&Definition { application: application.clone(), ..db.definition("s") }).unwrap();
    let entry = db.store.find(&application, "s").unwrap().unwrap();
    let (by, reason) = ("ann".to_owned(), "why".to_owned());
    let pause = PauseChange { id: entry.id, version: entry.version, by, reason, until };
    let names = (application.as_str(), "s");
    let audit = AuditEntry::of_schedule("pause", names, ("active", "paused"), &Attribution::default());
    assert_eq!(db.store.apply_audited(Change::Pause(pause), &audit).unwrap(), Applied::Done);
    db.store.register(&db.new_node(NodeId::fresh(), &application, &[JOB])).unwrap();
    assert_eq!(db.store.ended_pauses(&application).unwrap().len(), 1);
    assert_eq!(db.number(RowKey::App(&application), "pause_ends"), (db.now - 1_000).millis());
}

/// With the row as it is: each change of one loses where only this column differs.
pub(crate) fn a_switch_loses_if_only_one_of_its_values_differs(db: &Bench) {
    for (key, seen) in db.switches() {
        let change = Change::Switch(SwitchChange {
            becomes: Activity::Paused,
            by: "ann".to_owned(),
            reason: "why".to_owned(),
            since: Some(db.now),
            until: None,
            seen: seen.clone(),
        });
        let state = format!("'{}'", seen.state);
        let mut columns =
            vec![("state", "'?'".to_owned(), state), ("paused_time", "7".to_owned(), "-1".to_owned())];
        if matches!(key, RowKey::Node(_)) {
            columns.push(("ended_time", "7".to_owned(), "-1".to_owned()));
        }
        for (column, other, own) in columns {
            db.set(key, column, &other);
            assert!(!db.applied(&change), "{key:?}: {column} was not compared");
            db.set(key, column, &own);
        }
        assert!(db.applied(&change), "{key:?}");
        assert!(!db.applied(&change), "it is paused by now");
    }
}

pub(crate) fn what_a_pause_held_back_is_passed_as_paused(db: &Bench) {
    let (first, until) = (db.schedule("first"), db.base + 5_500);
    db.create(&Definition { job: job("another"), ..db.definition("other") });
    assert_eq!(db.passed(Some(JOB), until), [""; 0], "it is not paused");
    db.pause(db.job_scope());
    assert_eq!(db.passed(Some(JOB), db.base), [""; 0]);
    assert_eq!(db.passed(Some(JOB), until), ["first"]);
    assert_eq!(db.passed(None, until), [""; 0], "the application is not paused");
    db.pause(Scope::Application);
    assert_eq!(db.passed(None, until), ["first", "other"]);
    let repair = pass_paused(&first, until).unwrap();
    assert!(db.repaired(&repair));
    assert!(!db.repaired(&repair), "its cursor has moved");
    assert_eq!(db.entry("first").state, ScheduleState::Active);
    assert_eq!(db.entry("first").cursor.next, NextFire::At(db.base + 6_000));
    assert_eq!(db.passed(Some(JOB), until), [""; 0]);
    let rows = db.executions();
    let row = (rows[0].state.as_str(), rows[0].reason.as_str(), rows[0].scheduled, rows[0].count);
    assert_eq!(row, (ExecutionState::Skipped.as_str(), Reason::Paused.as_str(), db.base, 6));
}

pub(crate) fn pauses_whose_time_is_up_are_found_until_they_have_ended(db: &Bench) {
    let (past, future) = (Some(db.now - 1_000), Some(db.now + 3_600_000));
    let entry = db.schedule("s");
    assert!(!db.has_ended_pause() && db.ended().is_empty());
    db.switch(Scope::Application, SwitchVerb::Pause { until: future });
    assert!(!db.has_ended_pause());
    for scope in [db.job_scope(), Scope::Node(db.node)] {
        assert_eq!(db.switch(scope, SwitchVerb::Pause { until: past }), Switched::Done);
    }
    let (by, reason) = ("ann".to_owned(), "why".to_owned());
    let pause = PauseChange { id: entry.id, version: entry.version, by, reason, until: past };
    let names = (db.app.as_str(), "s");
    let audit = AuditEntry::of_schedule("pause", names, ("active", "paused"), &Attribution::default());
    assert_eq!(db.store.apply_audited(Change::Pause(pause), &audit).unwrap(), Applied::Done);
    assert!(db.has_ended_pause());
    let row = db.schedule_row(entry.id).pause;
    assert_eq!((row.by.as_str(), row.until), ("ann", past));
    let mut found = db.ended();
    assert_eq!(found.len(), 3, "{found:?}");
    for pause in found.drain(..) {
        let change = match pause {
            EndedPause::Schedule(entry) => Change::Repair(crate::repair::resume(&entry, db.now).unwrap()),
            EndedPause::Switch(seen) => Change::Switch(SwitchChange::on(seen)),
        };
        assert!(db.applied(&change));
    }
    assert!(db.has_ended_pause(), "nobody has looked since");
    assert!(db.ended().is_empty());
    assert!(!db.has_ended_pause());
    assert_eq!(db.entry("s").state, ScheduleState::Active);
    assert_eq!(db.number(RowKey::App(&db.app), "pause_ends"), future.unwrap().millis(), "the next");
}
