//! Jobs that have something to run, and no node that can run them.

use super::*;
use crate::domain::JobId;
use crate::store::enqueue::{DueAt, EnqueueOrder};
use crate::store::nobody::{MOST_JOBS, NobodyChange, NobodyMark, NobodyQuery, UnservedJob};

impl Bench {
    /// The jobs that nobody can run, as seen a minute from now.
    fn nobodys(&self) -> Vec<UnservedJob> {
        let (application, now) = (self.app.clone(), self.now + 60_000);
        self.store.nobody(&NobodyQuery { application, now }).unwrap()
    }

    /// Of each its name, its active schedules, and its executions that wait.
    fn nobodys_counts(&self) -> Vec<(String, i64, i64)> {
        self.nobodys().iter().map(|it| (it.name.to_string(), it.schedules, it.waiting)).collect()
    }

    fn of_job(&self, name: &str, of: &str) -> Arc<Entry> {
        self.create(&Definition { job: job(of), ..self.definition(name) })
    }

    fn noted(&self, of: &str, seen: NobodyMark, becomes: NobodyMark) -> bool {
        let job = JobId(self.number(RowKey::Job(&self.app, of), "id"));
        self.applied(&Change::Nobody(NobodyChange { job, seen, becomes }))
    }

    fn is_unlisted(&self, listed: &[&str]) -> bool {
        let listed = listed.iter().map(|job| (*job).to_owned()).collect();
        self.store.poll(&PollQuery { listed, ..self.query(self.now) }).unwrap().unlisted
    }
}

pub(crate) fn a_job_that_no_claiming_node_lists_is_found_while_it_has_something_to_run(db: &Bench) {
    db.schedule("s");
    assert_eq!(db.nobodys(), [], "its node lists its job");
    db.of_job("a", "lone");
    db.of_job("b", "lone");
    let found = db.nobodys();
    let id = JobId(db.number(RowKey::Job(&db.app, "lone"), "id"));
    let seen = NobodyMark::default();
    assert_eq!(found, [UnservedJob { id, name: "lone".into(), schedules: 2, waiting: 0, seen }]);
    let node = NodeId::fresh();
    db.join(node, &["lone"]);
    assert_eq!(db.nobodys(), []);
    db.set(RowKey::Node(node), "state", "'N'");
    assert_eq!(db.nobodys_counts(), [("lone".to_owned(), 2, 0)], "it claims nothing");
    db.set(RowKey::Node(node), "state", "'Y'");
    db.set(RowKey::Node(node), "ended_time", "1");
    assert_eq!(db.nobodys_counts(), [("lone".to_owned(), 2, 0)], "it has ended");
    for name in ["a", "b"] {
        db.set(RowKey::Schedule(db.entry(name).id), "state", "'COMPLETE'");
    }
    assert_eq!(db.nobodys(), [], "nothing is to be run");
}

/// Enqueued ones, and those of schedules, active or not; none that is not due.
pub(crate) fn what_waits_for_nobody_is_counted(db: &Bench) {
    let order = EnqueueOrder { job: job("lone"), due: DueAt::After(0), ..db.enqueue_order(&["1", "2", "3"]) };
    db.store.enqueue(&order).unwrap();
    let later = EnqueueOrder { due: DueAt::After(600_000), ..order.clone() };
    db.store.enqueue(&later).unwrap();
    db.store.enqueue(&EnqueueOrder { job: job(JOB), ..order.clone() }).unwrap();
    db.store.enqueue(&EnqueueOrder { application: fresh_name(), ..order }).unwrap();
    let entry = db.of_job("a", "lone");
    db.ordered(&db.run_order("a"));
    db.set(RowKey::Schedule(entry.id), "state", "'COMPLETE'");
    assert_eq!(db.nobodys_counts(), [("lone".to_owned(), 0, 4)]);
}

/// They are of a release that has gone.
pub(crate) fn a_thousand_jobs_without_anything_to_run_hide_none(db: &Bench) {
    let names: Vec<String> = (0..=MOST_JOBS).map(|n| format!("job-{n}")).collect();
    let node = NodeId::fresh();
    db.join(node, &names.iter().map(String::as_str).collect::<Vec<_>>());
    db.set(RowKey::Node(node), "ended_time", "1");
    db.of_job("a", "lone");
    assert_eq!(db.nobodys_counts(), [("lone".to_owned(), 1, 0)]);
}

pub(crate) fn a_paused_job_is_nobodys_no_longer(db: &Bench) {
    db.of_job("a", "lone");
    db.set(RowKey::Job(&db.app, "lone"), "state", "'PAUSED'");
    assert_eq!(db.nobodys(), []);
    assert!(!db.is_unlisted(&[JOB]));
}

/// Listings show it, too.
pub(crate) fn what_a_row_says_is_found_until_it_is_taken_back(db: &Bench) {
    let entry = db.of_job("a", "lone");
    let run = db.ordered(&db.run_order("a"));
    let mark = NobodyMark { since: Some(db.now), told: Some(db.now + 60_000) };
    assert!(db.noted("lone", NobodyMark::default(), mark));
    let shown = |db: &Bench| {
        let job = db.store.jobs(&db.app).unwrap().into_iter().find(|row| row.name == "lone").unwrap();
        [job.nobody, db.schedule_row(entry.id).nobody, db.execution(run).nobody]
    };
    assert_eq!(shown(db), [Some(db.now); 3]);
    assert_eq!(db.nobodys()[0].seen, mark);
    db.join(NodeId::fresh(), &["lone"]);
    let found = db.nobodys();
    assert_eq!((found[0].schedules, found[0].waiting, found[0].seen), (0, 0, mark), "somebody can run it");
    assert!(db.noted("lone", mark, NobodyMark::default()));
    assert_eq!((db.nobodys(), shown(db)), (Vec::new(), [None; 3]));
}

pub(crate) fn a_poll_says_whether_some_job_is_not_listed(db: &Bench) {
    assert!(!db.is_unlisted(&[JOB, "another"]));
    db.of_job("a", "lone");
    assert!(db.is_unlisted(&[JOB]));
    assert!(db.is_unlisted(&["another"]));
    assert!(!db.is_unlisted(&["lone", JOB]));
}

pub(crate) fn of_two_notes_of_one_sight_one_is_made(db: &Bench) {
    db.of_job("a", "lone");
    let mark = |told| NobodyMark { since: Some(db.now), told };
    assert!(db.noted("lone", NobodyMark::default(), mark(None)));
    assert!(db.noted("lone", mark(None), mark(Some(db.now + 1))));
    assert!(!db.noted("lone", mark(None), mark(Some(db.now + 2))), "another node has told of it");
}
