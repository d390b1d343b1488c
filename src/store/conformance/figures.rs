//! A cluster's figures for dashboards and alarms.

use std::collections::BTreeMap;

use super::*;
use crate::store::enqueue::{DueAt, EnqueueOrder};
use crate::store::figures::{Figures, FiguresQuery, MOST_JOBS, REPAIRED, Waiting};
use crate::store::{NodeEnd, PauseChange};

impl Bench {
    fn figures(&self, now: Timestamp) -> Figures {
        self.store.figures(&FiguresQuery { application: self.app.clone(), now }).unwrap()
    }
}

/// Of all jobs, those that are due, and none of another application.
pub(crate) fn what_waits_is_counted_by_job(db: &Bench) {
    let order = EnqueueOrder { due: DueAt::After(0), ..db.enqueue_order(&["1", "2", "3"]) };
    db.store.enqueue(&order).unwrap();
    db.store.enqueue(&EnqueueOrder { job: job("other"), ..order.clone() }).unwrap();
    let later = EnqueueOrder { due: DueAt::After(600_000), ..order.clone() };
    db.store.enqueue(&later).unwrap();
    db.store.enqueue(&EnqueueOrder { application: fresh_name(), ..order }).unwrap();
    db.create(&db.definition("s"));
    let by_hand = db.ordered(&db.run_order("s"));
    let figures = db.figures(db.now + 60_000);
    let counts: Vec<_> = figures.waiting.iter().map(|(job, of)| (job.as_str(), of.executions)).collect();
    assert_eq!(counts, [("other", 3), (JOB, 4)]);
    let oldest = figures.waiting[JOB].oldest;
    assert!(oldest >= db.now && oldest <= db.execution(by_hand).due, "{oldest:?}");
    assert_eq!(
        db.figures(db.now - 60_000).waiting,
        BTreeMap::<String, Waiting>::new(),
        "nothing is due then"
    );
}

/// A series for each of them would be as many as there are.
pub(crate) fn what_waits_is_counted_for_the_first_thousand_jobs(db: &Bench) {
    let names: Vec<String> = (0..MOST_JOBS + 2).map(|n| format!("x{n:04}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    db.join(NodeId::fresh(), &all);
    let [first, last] = [all[0], all[MOST_JOBS + 1]];
    for name in [first, last] {
        db.create(&Definition { job: job(name), ..db.definition(name) });
        db.ordered(&db.run_order(name));
        let order = EnqueueOrder { due: DueAt::After(0), ..db.enqueue_order(&["1"]) };
        db.store.enqueue(&EnqueueOrder { job: job(name), ..order }).unwrap();
    }
    let figures = db.figures(db.now + 60_000);
    let counts: Vec<_> = figures.waiting.iter().map(|(job, of)| (job.as_str(), of.executions)).collect();
    let jobs = db.store.jobs(&db.app).unwrap().len();
    assert_eq!((counts, figures.jobs_left_out), (vec![(first, 2)], (jobs - MOST_JOBS) as i64));
}

pub(crate) fn schedules_and_nodes_are_counted_by_their_states(db: &Bench) {
    let define = |name: &str| Definition { trigger: every(db.base, 1_000, -1), ..db.definition(name) };
    db.create(&define("active"));
    let mut others = ["paused", "contained"].map(|name| (name, db.create(&define(name))));
    for (name, entry) in &mut others {
        let by = if *name == "paused" { "ann" } else { "firetime" }.to_owned();
        let (reason, until) = (String::new(), None);
        let pause = PauseChange { id: entry.id, version: entry.version, by, reason, until };
        assert!(db.applied(&Change::Pause(pause)));
    }
    db.create(&Definition { job: job("nobodys"), ..define("unrunnable") });
    db.create(&define("removed"));
    db.remove("removed");
    let dead = NodeId::fresh();
    db.join(dead, &[JOB]);
    let beat = db.store.nodes(Some(&db.app)).unwrap().into_iter().find(|node| node.id == dead.to_string());
    let beat = Some(beat.unwrap().beat);
    assert!(db.applied(&Change::End(NodeEnd { node: dead, beat, now: db.now })));

    let figures = db.figures(db.now);
    let states: Vec<_> = figures.schedules_by_state().into_iter().collect();
    assert_eq!(states, [("active", 2), ("contained", 1), ("paused", 1)]);
    assert_eq!((figures.overdue(), figures.unrunnable()), (0, 1));
    assert_eq!(
        (figures.nodes_by_state().into_iter().collect::<Vec<_>>(), figures.died),
        (vec![("active", 1)], 1)
    );
    let late = db.base + 60_000 + REPAIRED + 1;
    let figures = db.figures(late);
    assert_eq!((figures.overdue(), figures.nodes_by_state().get("silent")), (2, Some(&1)));
    assert_eq!(figures.unrunnable(), 2, "a silent node runs nothing");
}

pub(crate) fn the_last_success_of_each_active_schedule_is_found(db: &Bench) {
    let define = |name: &str| Definition { trigger: every(db.base, 1_000, -1), ..db.definition(name) };
    for name in ["a", "b", "c"] {
        db.create(&define(name));
    }
    let succeed = |name: &str| {
        let entry = db.store.find(&db.app, name).unwrap().unwrap();
        let running = db.run_head(&Arc::new(entry));
        let finished = running.finish(Answer::Done, None, db.now + 7);
        assert_eq!(db.settle(&finished), Applied::Done);
    };
    let fail = |name: &str| {
        let entry = db.store.find(&db.app, name).unwrap().unwrap();
        let failed = db.run_head(&Arc::new(entry)).finish(Answer::Failed("no".to_owned()), None, db.now + 9);
        assert_eq!(db.settle(&failed), Applied::Done);
    };
    succeed("a");
    fail("a");
    fail("b");
    succeed("c");
    let entry = db.store.find(&db.app, "c").unwrap().unwrap();
    let (by, reason) = ("ann".to_owned(), String::new());
    let pause = PauseChange { id: entry.id, version: entry.version, by, reason, until: None };
    assert!(db.applied(&Change::Pause(pause)));
    let figures = db.figures(db.now);
    let last: Vec<_> =
        figures.successes.iter().map(|it| (it.schedule.as_str(), it.ended.is_some())).collect();
    assert_eq!((last, figures.left_out), (vec![("a", true), ("b", false)], 0));
}
