//! Another writes a row after it was read and before it is written: the guard must see that.

use super::fixture::{AT, Database, application, definition};
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::Session;
use crate::store::sql::session::fault::{Fault, FaultKind};
use crate::store::sql::session::statement::{Row, Statement, sql};
use crate::store::sql::{ensure, purge};
use crate::store::{Definition, Purge};
use crate::trigger::{Simple, Trigger};

/// Writes `by_hand` before the first statement that begins with `before`.
struct Between<'a> {
    session: Box<dyn Session + Send>,
    before: &'a str,
    by_hand: Option<String>,
}

impl Session for Between<'_> {
    fn dialect(&self) -> Dialect {
        self.session.dialect()
    }

    fn execute(&mut self, statement: &Statement) -> Result<usize, Fault> {
        if statement.text.starts_with(self.before)
            && let Some(by_hand) = self.by_hand.take()
        {
            assert_eq!(self.session.execute(&sql(by_hand))?, 1);
        }
        self.session.execute(statement)
    }

    fn rows(&mut self, statement: &Statement) -> Result<Vec<Row>, Fault> {
        self.session.rows(statement)
    }

    fn each(
        &mut self,
        question: &Statement,
        see: &mut dyn FnMut(Row) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.session.each(question, see)
    }

    fn batch(&mut self, text: &str) -> Result<(), Fault> {
        self.session.batch(text)
    }
}

struct Case<'a> {
    database: &'a Database,
    application: String,
}

impl<'a> Case<'a> {
    fn new(database: &'a Database) -> Self {
        Self { database, application: application() }
    }

    fn by_hand(&self, assignment: &str) -> String {
        let application = &self.application;
        format!("UPDATE QRTZ_EXECUTE SET {assignment} WHERE application = '{application}' AND name = 's'")
    }

    fn between(&self, before: &'a str, assignment: &str) -> Between<'a> {
        Between { session: self.database.session(), before, by_hand: Some(self.by_hand(assignment)) }
    }

    /// Every second from [`AT`] on.
    fn definition(&self) -> Definition {
        definition(&self.application, "s")
    }
}

/// A client's edit that moves the cursor compares all of it, one that does not only state and version.
fn an_edit_sees_each_column_of_its_guard(database: &Database) {
    let case = Case::new(database);
    database.store().ensure(&case.definition()).unwrap();
    let trigger = Trigger::Simple(Simple::new(Some(AT.millis()), 2_000, -1).unwrap());
    let retimed = Definition { trigger, ..case.definition() };
    let edited = Definition { priority: 9, ..case.definition() };
    let state_and_version = ["state = 'PAUSED'", "version = version + 1"];
    let cursor = ["prev_fire_time = 1000000000000", "next_fire_time = next_fire_time + 1"];
    let cases = state_and_version.iter().flat_map(|it| [(it, &edited), (it, &retimed)]);
    for (assignment, wanted) in cases.chain(cursor.iter().map(|it| (it, &retimed))) {
        let before = database.store().find(&case.application, "s").unwrap();
        let mut session = case.between("UPDATE QRTZ_EXECUTE", assignment);
        session.batch(session.dialect().begin()).unwrap();
        let fault = ensure::ensure(&mut session, wanted, None).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Conflict, "{assignment}: {}", fault.message);
        session.batch("ROLLBACK").unwrap();
        assert_eq!(database.store().find(&case.application, "s").unwrap(), before);
    }
}

/// Another writes the row of a spent one-shot after the purge has read it.
fn a_purge_sees_each_column_of_its_guard(database: &Database) {
    let case = Case::new(database);
    let trigger = Trigger::Simple(Simple::new(Some(AT.millis()), 0, 0).unwrap());
    database.store().ensure(&Definition { trigger, ..case.definition() }).unwrap();
    let spent = "state = 'COMPLETE', prev_fire_time = 1000000000000, next_fire_time = -1";
    database.session().execute(&sql(case.by_hand(spent))).unwrap();
    let walk = Purge { application: case.application.clone(), after: String::new(), keep: 1, limit: 9 };
    for assignment in [
        "state = 'PAUSED'",
        "prev_fire_time = 1000000000001",
        "next_fire_time = 2000000000125",
        "version = version + 1",
    ] {
        let mut session = case.between("DELETE", assignment);
        session.batch(session.dialect().begin()).unwrap();
        let purged = purge::purge(&mut session, &walk).unwrap();
        session.batch("ROLLBACK").unwrap();
        assert_eq!((purged.schedules, session.by_hand), (0, None), "{assignment}");
    }
    assert_eq!(purge::purge(database.session().as_mut(), &walk).unwrap().schedules, 1);
}

macro_rules! between {
    ($database:ident, $feature:literal) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn an_edit_sees_each_column_of_its_guard() {
                super::an_edit_sees_each_column_of_its_guard(&Database::$database());
            }

            #[test]
            fn a_purge_sees_each_column_of_its_guard() {
                super::a_purge_sees_each_column_of_its_guard(&Database::$database());
            }
        }
    };
}

between!(sqlite, "sqlite");
between!(postgres, "postgres");
between!(mariadb, "mysql");
