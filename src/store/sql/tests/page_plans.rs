//! Pages of schedules read little more than their rows, however many there are.

use super::fixture::Database;
use super::plans::{START, analyze, filled, read, scans};
use crate::domain::{JobId, ScheduleState};
use crate::store::schedules::{Among, ScheduleKey, ScheduleQuery};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::poll;
use crate::store::sql::session::Session;
use crate::store::sql::session::statement::{single, sql};
use crate::store::sql::views::schedules::{self, Section, Way};

fn of(application: &str, among: Among) -> ScheduleQuery {
    ScheduleQuery {
        application: application.to_owned(),
        among,
        text: None,
        job: None,
        owner: None,
        state: None,
        paused_by: None,
        after: None,
        limit: 50,
        look: 10_000,
    }
}

fn job_of(session: &mut dyn Session, application: &str) -> JobId {
    let id = sql("SELECT MIN(e.pid) AS id FROM QRTZ_EXECUTE e WHERE e.application = ?");
    JobId(single(session.rows(&id.bind(application)).unwrap()).unwrap())
}

/// Of twenty thousand some are paused and a few in error, the last by name.
fn a_page_of_schedules_reads_that_page_alone(database: &Database) {
    let (mut session, application) = filled(database);
    let (session, dialect) = (session.as_mut(), database.dialect());
    for (state, name) in [("PAUSED", "-99%"), ("ERROR", "-998%")] {
        let set = "UPDATE QRTZ_EXECUTE SET state = ? WHERE application = ? AND name LIKE ?";
        let name = format!("{application}{name}");
        session.execute(&sql(set).bind_all((state, application.as_str(), name))).unwrap();
    }
    analyze(session);
    let job = job_of(session, &application);
    let all = of(&application, Among::All);
    let in_state = |state| (of(&application, Among::InState(state)), Way::State(state));
    let [(paused, in_pause), (error, in_error)] = [ScheduleState::Paused, ScheduleState::Error].map(in_state);
    let behind = format!("{application}-5");
    let sections: Vec<Section> = (0..16).map(|shard| Section { head: START, job, shard }).collect();
    let first = schedules::due_in(&application, &sections, ((START, 0), START + 1_000_000), 8);
    let some = sql(
        "SELECT e.id FROM QRTZ_EXECUTE e WHERE e.application = ? ORDER BY e.application, e.name LIMIT 50",
    );
    let rows = session.rows(&some.bind(application.as_str())).unwrap();
    let ids: Vec<i64> = rows.into_iter().map(|mut row| row.int().unwrap()).collect();
    let gathered = Way::Gathered(ids.clone());
    let mut statements = vec![
        ("whole", schedules::whole_rows(dialect, &ids), 1_200),
        ("gathered", schedules::sketches(dialect, &gathered, &all, None, 50), 600),
        ("all", schedules::sketches(dialect, &Way::All, &all, None, 50), 600),
        ("behind", schedules::sketches(dialect, &Way::All, &all, Some(&behind), 50), 600),
        ("due", first, 600),
        ("count", schedules::counting(&application, 100), 1_200),
        ("count by job", schedules::counting_by_job(&application, &[job], 100), 1_200),
        ("unmet", schedules::unmet(&application), 600),
    ];
    if dialect.has_partial_indexes() {
        statements.extend([
            ("paused", schedules::sketches(dialect, &in_pause, &paused, None, 50), 600),
            ("in error", schedules::sketches(dialect, &in_error, &error, None, 50), 600),
        ]);
    }
    for (what, statement, most) in &statements {
        assert_eq!(scans(session, statement), Vec::<String>::new(), "{what}: {}", statement.text);
        let read = if dialect == Dialect::Sqlite { 0 } else { read(session, statement) };
        assert!(read < *most, "{what}: {read} rows: {}", statement.text);
    }
    let heads = poll::heads_between(&application, START, START + 1_000_000);
    assert_eq!(scans(session, &heads), Vec::<String>::new(), "{}", heads.text);
    let active = schedules::active_of(&application, &[job]);
    assert_eq!(scans(session, &active), Vec::<String>::new(), "{}", active.text);
    let (mut names, mut after): (Vec<String>, Option<ScheduleKey>) = (Vec::new(), None);
    loop {
        let query = ScheduleQuery { after, ..of(&application, Among::InState(ScheduleState::Error)) };
        let page = schedules::page(session, &query).unwrap();
        assert!(page.rows.len() <= 50 && page.rows.iter().all(|row| row.state == "ERROR"));
        names.extend(page.rows.into_iter().map(|row| row.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(names.len() >= 10 && names.is_sorted(), "{names:?}");
}

macro_rules! page_plans {
    ($database:ident, $feature:literal, $make:expr) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn a_page_of_schedules_reads_that_page_alone() {
                super::a_page_of_schedules_reads_that_page_alone(&$make);
            }
        }
    };
}

page_plans!(sqlite, "sqlite", Database::sqlite());
page_plans!(postgres, "postgres", Database::postgres());
page_plans!(mariadb, "mysql", Database::mariadb());
