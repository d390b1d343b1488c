//! The views people look at with any SQL client.

use std::sync::Arc;

use super::count;
use super::fixture::{AT, Database, LIMITS, definition, request, schedules};
use crate::domain::{Answer, NodeId};
use crate::fixtures::{Changes, new_node};
#[cfg(feature = "mysql")]
use crate::store::columns::Cell;
use crate::store::sql::dialect::Dialect;
#[cfg(feature = "mysql")]
use crate::store::sql::session::statement::Statement;
use crate::store::sql::session::statement::sql;
use crate::store::sql::views::inspect;
use crate::store::sql::{SqlStore, open};
use crate::store::{Applied, Change, Claim, NewNode, RemoveChange};
use crate::time::Clock;

fn a_run_is_shown_while_it_runs_and_in_the_ledger_after_it(database: &Database) {
    let store = open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
    let (app, node) = (super::application(), NodeId::fresh());
    let report = definition(&app, "report");
    let (host_ip, host_name) = ("192.0.2.7".to_owned(), "db-host".to_owned());
    let new = NewNode { host_ip, host_name, ..new_node(node, &app, vec![report.job.clone()], AT) };
    store.register(&new).unwrap();
    store.ensure(&report).unwrap();
    let entry = Arc::new(store.find(&app, "report").unwrap().unwrap());
    let claimed = match store.claim(&[request(&entry, node)]).unwrap().pop().unwrap() {
        Claim::Won(claimed) => claimed,
        other => panic!("{other:?}"),
    };
    let mut session = database.session();
    let mut texts = |question: &str| {
        let mut rows = session.rows(&sql(question).bind(app.as_str())).unwrap();
        assert_eq!(rows.len(), 1, "{question}");
        let mut row = rows.pop().unwrap();
        std::iter::from_fn(|| row.next().ok().map(|value| format!("{value:?}"))).collect::<Vec<_>>().join(" ")
    };
    let shown = texts(
        "SELECT schedule, job, state, host_name, scheduled_time, claimed_since, started_since, attempt \
         FROM qrtz_claimed WHERE application = ?",
    );
    assert_eq!(
        shown,
        "Text(\"report\") Text(\"work\") Text(\"RUNNING\") Text(\"db-host\") \
         Text(\"2033-05-18 03:33:20.125\") Text(\"2033-05-18 03:33:20.130\") Text(\"2033-05-18 \
         03:33:20.130\") Int(1)"
    );
    assert_eq!(
        store.settle(&[claimed.finish(Answer::Failed("no".into()), None, AT + 900)]).unwrap(),
        [Applied::Done]
    );
    let ledger = texts(
        "SELECT schedule, generation, origin, scheduled_time, until_time, occurrences, attempt, state, \
         reason, started, finished, error FROM qrtz_ledger WHERE application = ?",
    );
    assert_eq!(
        ledger,
        "Text(\"report\") Int(0) Int(0) Text(\"2033-05-18 03:33:20.125\") Null Int(1) Int(1) \
         Text(\"FAILED\") Text(\"\") Text(\"2033-05-18 03:33:20.130\") Text(\"2033-05-18 03:33:21.025\") \
         Text(\"no\")"
    );
}

/// One statement for a table of any size would meet the limit that each statement has.
fn a_view_of_many_schedules_is_read_in_pages(database: &Database) {
    count::begin();
    let store = SqlStore::open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
    let (app, other) = (super::application(), super::application());
    schedules(&store, &other, 2);
    let mut names: Vec<String> =
        schedules(&store, &app, 7).iter().map(|entry| entry.name.to_string()).collect();
    names.sort();
    let shown = |application: Option<&str>, limit| {
        let before = count::statements();
        let rows = store.schedules_by(application, limit).unwrap();
        let named: Vec<(String, String)> = rows.into_iter().map(|row| (row.application, row.name)).collect();
        (named, count::statements() - before)
    };
    let (rows, statements) = shown(Some(&app), 3);
    assert_eq!(rows.iter().map(|(_, name)| name).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
    assert_eq!(statements, if database.dialect() == Dialect::Sqlite { 1 } else { 3 });
    // In one page: tests beside this one write names that no page can end with.
    let all = shown(None, 100_000).0;
    let these =
        |rows: &[(String, String)]| rows.iter().filter(|row| [&app, &other].contains(&&row.0)).count();
    assert_eq!(these(&all), 9);
}

/// Three runs, and what the operators' question says of them: as they are, one taken out, a cursor moved by
/// hand.
fn the_operators_question_finds_what_the_ledger_lacks(database: &Database) {
    let store = open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
    let (app, node) = (super::application(), NodeId::fresh());
    let hourly = definition(&app, "hourly");
    store.register(&new_node(node, &app, vec![hourly.job.clone()], AT)).unwrap();
    store.ensure(&hourly).unwrap();
    for _ in 0..3 {
        let entry = Arc::new(store.find(&app, "hourly").unwrap().unwrap());
        assert!(matches!(store.claim(&[request(&entry, node)]).unwrap()[..], [Claim::Won(_)]));
    }
    let mut session = database.session();
    let mut found = |change: &str| {
        session.execute(&sql(change).bind(app.as_str())).unwrap();
        let rows = session.rows(&sql(include_str!("../../../../scripts/ops/ledger.sql"))).unwrap();
        let of_ours = rows.into_iter().filter_map(|mut row| {
            let (application, _, _) = (row.text().unwrap(), row.text().unwrap(), row.int().unwrap());
            (application == app).then(|| row.instant().unwrap() - AT)
        });
        of_ours.collect::<Vec<_>>()
    };
    assert_eq!(found("UPDATE QRTZ_APP SET state = 'Y' WHERE application = ?"), [0_i64; 0]);
    let middle = format!("DELETE FROM QRTZ_RUN WHERE application = ? AND scheduled_time = {}", AT + 1_000);
    assert_eq!(found(&middle), [2_000], "a gap before the third");
    let moved = format!("UPDATE QRTZ_EXECUTE SET next_fire_time = {} WHERE application = ?", AT + 9_000);
    assert_eq!(found(&moved), [2_000], "and the cursor is not behind the third either");
    let third = format!("DELETE FROM QRTZ_RUN WHERE application = ? AND scheduled_time = {}", AT + 2_000);
    assert_eq!(found(&third), [0]);
}

/// The schedule was claimed twice, and removed when more was due.
fn the_operators_question_finds_no_gap_behind_what_was_withdrawn(database: &Database) {
    let store = open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
    let (app, node) = (super::application(), NodeId::fresh());
    let wanted = definition(&app, "removed");
    store.register(&new_node(node, &app, vec![wanted.job.clone()], AT)).unwrap();
    store.ensure(&wanted).unwrap();
    for _ in 0..2 {
        let entry = Arc::new(store.find(&app, "removed").unwrap().unwrap());
        assert!(matches!(store.claim(&[request(&entry, node)]).unwrap()[..], [Claim::Won(_)]));
    }
    let (application, seen) = (app.clone(), store.seen(&app, "removed").unwrap().unwrap());
    let removal = RemoveChange { application, seen, reason: String::new(), now: AT + 5_500 };
    assert!(store.apply_one(Change::Remove(removal)).unwrap().is_done());
    let mut session = database.session();
    let mut found = || {
        let rows = session.rows(&sql(include_str!("../../../../scripts/ops/ledger.sql"))).unwrap();
        rows.into_iter().filter_map(|mut row| (row.text().unwrap() == app).then_some(())).count()
    };
    assert_eq!(found(), 0);
    let question = sql("SELECT state, occurrences FROM qrtz_ledger WHERE application = ?");
    let mut withdrawn = database.session().rows(&question.bind(app.as_str())).unwrap().remove(0);
    assert_eq!(withdrawn.text().unwrap(), "WITHDRAWN", "those claimed have not ended");
    assert_eq!(withdrawn.int().unwrap(), 4);
}

/// MariaDB prefers to seek by the application alone, and a late page would read all names before it.
#[cfg(feature = "mysql")]
#[test]
fn a_page_of_schedules_is_sought_by_its_first_name() {
    let database = Database::mariadb();
    let store = SqlStore::open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
    let app = super::application();
    schedules(&store, &app, 20);
    let last = store.schedules_by(Some(&app), 100).unwrap().pop();
    for application in [Some(app.as_str()), None] {
        let page = inspect::schedules_page(Dialect::Mysql, application, last.as_ref(), 5);
        let explained = Statement { text: format!("EXPLAIN {}", page.text), ..page };
        let mut row = database.session().rows(&explained).unwrap().remove(0);
        let [_, _, table, access, _, _, length] = [(); 7].map(|()| row.next().unwrap());
        assert_eq!(table, Cell::Text("e".to_owned()));
        assert_ne!(access, Cell::Text("ref".to_owned()), "by the application alone");
        // In bytes, of 50 and 206 characters.
        assert_eq!(length, Cell::Text("1028".to_owned()), "{application:?}: by the application alone");
    }
}

macro_rules! views {
    ($database:ident, $feature:literal, $make:expr) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn a_run_is_shown_while_it_runs_and_in_the_ledger_after_it() {
                super::a_run_is_shown_while_it_runs_and_in_the_ledger_after_it(&$make);
            }

            #[test]
            fn a_view_of_many_schedules_is_read_in_pages() {
                super::a_view_of_many_schedules_is_read_in_pages(&$make);
            }

            #[test]
            fn the_operators_question_finds_what_the_ledger_lacks() {
                super::the_operators_question_finds_what_the_ledger_lacks(&$make);
            }

            #[test]
            fn the_operators_question_finds_no_gap_behind_what_was_withdrawn() {
                super::the_operators_question_finds_no_gap_behind_what_was_withdrawn(&$make);
            }
        }
    };
}

views!(sqlite, "sqlite", Database::sqlite());
views!(postgres, "postgres", Database::postgres());
views!(mariadb, "mysql", Database::mariadb());
