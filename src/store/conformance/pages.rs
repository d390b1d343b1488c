//! Pages of schedules.

use super::*;
use crate::domain::ScheduleState;
use crate::store::PauseChange;
use crate::store::schedules::{Among, ScheduleKey, ScheduleQuery};

impl Bench {
    fn of_schedules(&self, among: Among) -> ScheduleQuery {
        ScheduleQuery {
            application: self.app.clone(),
            among,
            text: None,
            job: None,
            owner: None,
            state: None,
            paused_by: None,
            after: None,
            limit: 1_000,
            look: 10_000,
        }
    }

    /// The names of all pages of so many, of which each looks at no more than so many.
    fn paged(&self, query: &ScheduleQuery, (limit, look): (usize, usize)) -> Vec<String> {
        let (mut names, mut after): (Vec<String>, Option<ScheduleKey>) = (Vec::new(), None);
        for _ in 0..100 {
            let query = ScheduleQuery { limit, look, after: after.clone(), ..query.clone() };
            let page = self.store.schedule_page(&query).unwrap();
            assert!(page.rows.len() <= limit, "{query:?}");
            names.extend(page.rows.into_iter().map(|row| row.name));
            assert!(page.next.is_none() || page.next != after, "no way on: {query:?}");
            after = page.next;
            if after.is_none() {
                return names;
            }
        }
        panic!("no end of {query:?}");
    }

    fn is_paged(&self, query: &ScheduleQuery, expected: &[&str]) {
        for bounds in [(1_000, 10_000), (1, 10_000), (2, 3), (1, 1)] {
            assert_eq!(self.paged(query, bounds), expected, "{bounds:?}: {query:?}");
        }
    }
}

/// Nine schedules of two jobs, of which some are paused, in error, complete or overdue.
fn filled(db: &Bench) {
    let of = |name: &str, n: i64, of: &str| {
        let trigger = every(db.base + n * 1_000, 1_000_000, -1);
        let description = if n == 4 { "Sends ÄRGER out".to_owned() } else { String::new() };
        let row = db.create(&Definition { job: job(of), trigger, description, ..db.definition(name) });
        RowKey::Schedule(row.id)
    };
    of("a1", 9, JOB);
    db.set(of("a2", 8, JOB), "state", "'PAUSED'");
    of("a3", 7, "other");
    of("a4", 4, JOB);
    db.set(of("b1", 6, "other"), "state", "'ERROR'");
    db.set(of("b2", 5, JOB), "state", "'PAUSED'");
    db.set(of("b3", 1, JOB), "state", "'COMPLETE'");
    of("b4", 2, "other");
    of("b5", 2, JOB);
    of("gone", 1, JOB);
    db.remove("gone");
    db.store.enqueue(&db.enqueue_order(&["1"])).unwrap();
}

pub(crate) fn schedules_come_in_pages_by_name(db: &Bench) {
    filled(db);
    let all = db.of_schedules(Among::All);
    db.is_paged(&all, &["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4", "b5"]);
    let text = |text: &str| ScheduleQuery { text: Some(text.to_owned()), ..all.clone() };
    db.is_paged(&text("B"), &["b1", "b2", "b3", "b4", "b5"]);
    db.is_paged(&text("ther"), &["a3", "b1", "b4"]);
    db.is_paged(&text("ärger"), &["a4"]);
    db.is_paged(&text("%"), &[]);
    db.is_paged(&ScheduleQuery { job: Some("other".to_owned()), ..all.clone() }, &["a3", "b1", "b4"]);
    db.is_paged(&ScheduleQuery { owner: Some("nobody".to_owned()), ..all.clone() }, &[]);
    db.is_paged(&ScheduleQuery { state: Some(ScheduleState::Complete), ..all }, &["b3"]);
    let paused = db.of_schedules(Among::InState(ScheduleState::Paused));
    db.is_paged(&paused, &["a2", "b2"]);
    db.is_paged(&ScheduleQuery { text: Some("b".to_owned()), ..paused.clone() }, &["b2"]);
    db.is_paged(&db.of_schedules(Among::InState(ScheduleState::Error)), &["b1"]);
    let active = |jobs: &[&str]| Among::ActiveOf(jobs.iter().map(|job| (*job).to_owned()).collect());
    db.is_paged(&db.of_schedules(active(&["other"])), &["a3", "b4"]);
    db.is_paged(&db.of_schedules(active(&["other", JOB])), &["a1", "a3", "a4", "b4", "b5"]);
    db.is_paged(&db.of_schedules(active(&[])), &[]);
    let ids = ["b5", "a1"].map(|name| db.entry(name).id.0).to_vec();
    db.is_paged(&db.of_schedules(Among::Ids(ids)), &["a1", "b5"]);
    let Entry { id, version, .. } = *db.entry("b5");
    let (by, reason, until) = ("firetime".to_owned(), String::new(), None);
    assert!(db.applied(&Change::Pause(PauseChange { id, version, by, reason, until })));
    db.is_paged(&paused, &["a2", "b2", "b5"]);
    db.is_paged(&ScheduleQuery { paused_by: Some("firetime"), ..paused }, &["b5"]);
}

/// The earliest first, and of one instant by id.
pub(crate) fn schedules_that_fire_come_in_pages_by_their_fire_times(db: &Bench) {
    filled(db);
    let due = |jobs: &[&str], until| {
        let jobs = jobs.iter().map(|job| (*job).to_owned()).collect();
        db.of_schedules(Among::Due { jobs, from: db.base + 2_000, until: db.base + until })
    };
    db.is_paged(&due(&[JOB, "other"], 9_001), &["b4", "b5", "a4", "a3", "a1"]);
    db.is_paged(&due(&[JOB, "other"], 7_000), &["b4", "b5", "a4"]);
    db.is_paged(&due(&["other"], 9_000), &["b4", "a3"]);
    db.is_paged(&due(&[], 9_000), &[]);
    db.is_paged(&ScheduleQuery { text: Some("a".to_owned()), ..due(&[JOB], 9_001) }, &["a4", "a1"]);
    db.set(RowKey::Job(&db.app, "other"), "state", "'PAUSED'");
    db.is_paged(&due(&[JOB, "other"], 9_001), &["b5", "a4", "a1"]);
}

/// A page is to bring the first of all, whatever shards they are in.
pub(crate) fn the_first_of_many_shards_come_first(db: &Bench) {
    let names: Vec<String> = (0..60).map(|n| format!("s{n:02}")).collect();
    for (name, n) in names.iter().zip(0..) {
        let trigger = every(db.base + n / 2 * 1_000, 1_000_000, -1);
        db.create(&Definition { trigger, ..db.definition(name) });
    }
    let jobs = vec![JOB.to_owned()];
    let due = db.of_schedules(Among::Due { jobs, from: db.base, until: db.base + 1_000_000 });
    assert_eq!(db.paged(&due, (7, 10_000)), names);
}

pub(crate) fn schedules_whose_occurrence_has_not_succeeded_come_in_pages(db: &Bench) {
    filled(db);
    for name in ["a1", "a3", "b5"] {
        let entry = db.store.find(&db.app, name).unwrap().unwrap();
        let expected_by = Some(10_000);
        let definition = match name {
            "a3" => Definition { job: job("other"), ..db.definition(name) },
            _ => db.definition(name),
        };
        db.store.ensure(&Definition { expected_by, ..definition }).unwrap();
        db.store.expect(&[entry.id]).unwrap();
        let unmet = if name == "a3" { "-1".to_owned() } else { db.base.to_string() };
        db.set(RowKey::Expected(entry.id), "unmet_time", &unmet);
    }
    let unmet = db.of_schedules(Among::Unmet);
    db.is_paged(&unmet, &["a1", "b5"]);
    let page = db.store.schedule_page(&unmet).unwrap();
    assert!(page.rows.iter().all(|row| row.unmet == Some(db.base)));
}

/// Counting all of a million would take long.
pub(crate) fn schedules_are_counted_up_to_a_bound(db: &Bench) {
    filled(db);
    let count = |most| db.store.count_schedules(&db.app, most).unwrap();
    assert_eq!((count(100), count(9), count(4)), (9, 9, 4));
    let mut by_job = db.store.count_by_job(&db.app, 2).unwrap();
    by_job.sort();
    assert_eq!(by_job, [("other".to_owned(), 2), (JOB.to_owned(), 2)]);
    let by_job = db.store.count_by_job(&db.app, 100).unwrap();
    assert!(by_job.contains(&(JOB.to_owned(), 3)), "{by_job:?}");
}

/// The newest rows of a long ledger, whole generations of it included.
pub(crate) fn executions_are_counted_among_the_newest(db: &Bench) {
    db.played("++0--+000-+");
    let id = db.entry("s").id;
    let count = |most| db.store.counts(id, most).unwrap();
    let state = |state: &str, count| (state.to_owned(), count);
    assert_eq!(count(100), [state("FAILED", 3), state("SKIPPED", 4), state("SUCCEEDED", 4)]);
    assert_eq!(count(3), [state("FAILED", 1), state("SKIPPED", 3), state("SUCCEEDED", 1)]);
}

/// What strips show: the last attempt at each occurrence, and no run by hand.
pub(crate) fn the_newest_occurrences_of_some_schedules_are_read_at_once(db: &Bench) {
    db.played("++0--+000-+");
    db.ordered(&db.run_order("s"));
    let (s, other) = (db.entry("s").id, db.schedule("other").id);
    let past = |schedules: &[ScheduleId], most| {
        let rows = db.store.past(schedules, most).unwrap();
        let rows =
            rows.into_iter().map(|row| (row.schedule, (row.scheduled - db.second(0)) / 1_000, row.state));
        rows.map(|(id, second, state)| (id, second, state.chars().take(2).collect())).collect::<Vec<_>>()
    };
    let is = |second, state: &str| (s, second, state.to_owned());
    let newest = [is(10, "SU"), is(9, "FA"), is(6, "SK"), is(5, "SU")];
    assert_eq!(past(&[s], 4), newest);
    assert_eq!(past(&[other, s], 4), newest, "the other has none");
    assert_eq!(past(&[other], 4), []);
    assert_eq!(past(&[s], 100).len(), 9);
    let edited = Definition { trigger: every(db.second(30), 1_000, -1), ..db.definition("s") };
    assert_eq!(db.store.ensure(&edited).unwrap(), Ensured::Changed);
    db.ends(Answer::Done);
    let states: Vec<String> = past(&[s], 4).into_iter().map(|(_, _, state)| state).collect();
    assert_eq!(states, ["SU", "WI", "SU", "FA"], "of the trigger before, too");
}
