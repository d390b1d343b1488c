//! The views people look at with any SQL client.

use std::sync::Arc;

use super::fixture::{AT, Database, LIMITS, definition, request};
use crate::clock::Clock;
use crate::model::{NodeId, Outcome};
use crate::store::sql::open;
use crate::store::sql::statement::sql;
use crate::store::{Claim, NewNode, Settled};

fn a_run_is_shown_while_it_runs_and_in_the_ledger_after_it(database: &Database) {
    let store = open(&database.url, LIMITS, Arc::new(Clock::default())).unwrap();
    let (app, node) = (super::application(), NodeId::fresh());
    let report = definition(&app, "report");
    let (host_ip, host_name) = ("192.0.2.7".to_owned(), "db-host".to_owned());
    let jobs = vec![report.job.clone()];
    let new = NewNode { id: node, application: app.clone(), host_ip, host_name, pid: 1, jobs, now: AT };
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
        "Text(\"report\") Text(\"work\") Text(\"RUNNING\") Text(\"db-host\") Text(\"2033-05-18 03:33:20.125\") \
         Text(\"2033-05-18 03:33:20.130\") Text(\"2033-05-18 03:33:20.130\") Int(1)"
    );
    assert_eq!(
        store.settle(&[claimed.finish(Outcome::Failed("no".into()), None, AT + 900)]).unwrap(),
        [Settled::Done]
    );
    let ledger = texts(
        "SELECT schedule, generation, origin, scheduled_time, until_time, occurrences, attempt, state, reason, \
         started, finished, error FROM qrtz_ledger WHERE application = ?",
    );
    assert_eq!(
        ledger,
        "Text(\"report\") Int(0) Int(0) Text(\"2033-05-18 03:33:20.125\") Null Int(1) Int(1) Text(\"FAILED\") \
         Text(\"\") Text(\"2033-05-18 03:33:20.130\") Text(\"2033-05-18 03:33:21.025\") Text(\"no\")"
    );
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
        }
    };
}

views!(sqlite, "sqlite", Database::sqlite());
views!(postgres, "postgres", Database::postgres());
views!(mariadb, "mysql", Database::mariadb());
