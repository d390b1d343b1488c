//! What only a database can hold, written by hand: other types than the columns', texts that are no UTF-8,
//! numbers the in-memory store has no column for.

use std::sync::Arc;

#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::fixture::LIMITS;
use super::fixture::{AT, Database, definition, request};
use crate::domain::shards::Share;
use crate::domain::{Entry, ExecutionId, ExecutionState, NodeId, Timestamp};
use crate::fixtures::{Changes, new_node};
use crate::store::columns::Cell;
use crate::store::conformance::all_broken;
use crate::store::sql::dialect::Dialect;
use crate::store::sql::session::statement::sql;
use crate::store::{
    Claim, Claimed, Definition, ExecutionQuery, Heartbeat, HeartbeatReply, OverdueQuery, Page, PollQuery,
    Purge, Store, UnreadableRow,
};
use crate::trigger::Trigger;

struct Case<'a> {
    database: &'a Database,
    store: Arc<dyn Store>,
    app: String,
    node: NodeId,
}

impl<'a> Case<'a> {
    fn new(database: &'a Database) -> Self {
        let case =
            Self { database, store: database.store(), app: super::application(), node: NodeId::fresh() };
        case.join(case.node);
        case
    }

    fn join(&self, id: NodeId) {
        let jobs = vec![definition(&self.app, "").job];
        self.store.register(&new_node(id, &self.app, jobs, AT)).unwrap();
    }

    fn schedule(&self, name: &str) -> Arc<Entry> {
        self.store.ensure(&definition(&self.app, name)).unwrap();
        Arc::new(self.store.find(&self.app, name).unwrap().unwrap())
    }

    fn run(&self, name: &str) -> Claimed {
        match self.store.claim(&[request(&self.schedule(name), self.node)]).unwrap().pop() {
            Some(Claim::Won(claimed)) => claimed,
            other => panic!("{other:?}"),
        }
    }

    /// Writes past the store; how many rows were changed.
    fn write(&self, text: &str) -> usize {
        self.database.session().execute(&sql(text)).unwrap()
    }

    fn set(&self, table: &str, assignment: &str, condition: &str) {
        let update = format!("UPDATE {table} SET {assignment} WHERE {condition}");
        assert_eq!(self.write(&update), 1, "{update}");
    }

    /// Where claims are noted, they are this node's, whoever made them.
    fn claims_of(&self, node: &str) {
        if self.database.dialect() == Dialect::Postgres {
            self.write(&format!("UPDATE QRTZ_CLAIM SET node = '{node}' WHERE application = '{}'", self.app));
        }
    }

    fn state(&self, name: &str) -> String {
        let rows = self.store.schedules(Some(&self.app)).unwrap();
        rows.into_iter().find(|row| row.name == name).expect("it is shown").state
    }

    fn unreadable(&self) -> Vec<UnreadableRow> {
        all_broken(self.store.as_ref(), &self.app, 10_000, 1_000)
    }

    /// All that nodes, the misfire handler and people ask; every question is answered.
    fn all_goes_on(&self) {
        let application = self.app.clone();
        let beat = Heartbeat {
            node: self.node,
            application,
            lanes: Vec::new(),
            left_alone: Vec::new(),
            withdraw: false,
            drained: false,
            tells: false,
            blocked: Vec::new(),
            now: AT,
        };
        assert!(matches!(self.store.beat(&beat).unwrap(), HeartbeatReply::Alive { .. }));
        let application = self.app.clone();
        let query = PollQuery {
            node: self.node,
            application,
            shares: vec![Share::whole(vec!["work".to_owned()])],
            names: vec!["named".to_owned()],
            listed: vec!["work".to_owned()],
            from: Timestamp::EPOCH,
            pending_from: Timestamp::MIN,
            until: Timestamp::MAX,
            late: Timestamp::MAX,
            page: Page::FIRST,
            limit: 1_000,
            drains: false,
        };
        self.store.poll(&query).unwrap();
        let application = self.app.clone();
        let behind = OverdueQuery {
            application,
            from: Timestamp::EPOCH,
            before: AT + 9_000,
            sections: None,
            limit: 1_000,
        };
        self.store.overdue(&behind).unwrap();
        self.store.stranded(&self.app, ExecutionId(0), 1_000).unwrap();
        self.store.elect(&self.app, AT, 15_000).unwrap();
        for broken in self.unreadable() {
            assert!(self.store.quarantine(&broken).unwrap(), "{broken:?}");
        }
        assert_eq!(self.unreadable(), []);
        self.purged();
        self.store.schedules(Some(&self.app)).unwrap();
        self.store.executions(&ExecutionQuery { limit: 1_000, ..self.executions() }).unwrap();
        self.store.nodes(Some(&self.app)).unwrap();
        self.join(NodeId::fresh());
    }

    /// What an operator is told to do with a row in ERROR.
    fn mend(&self, name: &str) {
        let trigger = Trigger::cron("@hourly", "UTC").unwrap();
        self.store.ensure(&Definition { trigger, ..definition(&self.app, name) }).unwrap();
        assert_eq!(self.state(name), "EXECUTING", "{name}");
        assert_eq!(self.unreadable(), [], "{name}");
    }

    fn executions(&self) -> ExecutionQuery {
        ExecutionQuery { application: Some(self.app.clone()), ..ExecutionQuery::default() }
    }

    /// The whole walk; it ends.
    fn purged(&self) {
        let mut after = Some(String::new());
        for _ in 0..100 {
            let Some(from) = after else { return };
            let purge = Purge { application: self.app.clone(), after: from, keep: 3_600_000, limit: 100 };
            after = self.store.purge(&purge).unwrap().next;
        }
        panic!("the walk does not end");
    }
}

/// No poll would look at it, and nobody would say so.
fn a_shard_that_is_none_is_quarantined(database: &Database) {
    let case = Case::new(database);
    for (name, shard) in
        [("a", "16"), ("b", "-1"), ("c", "9223372036854775807"), ("d", "-9223372036854775808")]
    {
        let id = case.schedule(name).id;
        case.set("QRTZ_EXECUTE", &format!("shard = {shard}"), &format!("id = {id}"));
        let broken = case.unreadable();
        assert!(matches!(&broken[..], [it] if it.reason.contains(shard)), "{broken:?}");
        case.all_goes_on();
        assert_eq!(case.state(name), "ERROR");
        case.mend(name);
    }
}

fn a_schedule_without_a_name_is_told_by_its_id(database: &Database) {
    let case = Case::new(database);
    let id = case.schedule("a").id;
    case.set("QRTZ_EXECUTE", "name = ''", &format!("id = {id}"));
    let names: Vec<_> = case.unreadable().into_iter().map(|broken| broken.name.to_string()).collect();
    assert_eq!(names, [format!("id {id}")]);
}

fn attempts_and_fences_at_their_ends_disturb_nobody(database: &Database) {
    let case = Case::new(database);
    for column in ["attempt", "fence", "generation", "occurrences"] {
        for (n, end) in [i64::MIN, i64::MAX, 4_294_967_295].into_iter().enumerate() {
            for state in [ExecutionState::Pending, ExecutionState::Claimed, ExecutionState::Running] {
                let id = case.run(&format!("{column}-{n}-{state:?}")).execution();
                let node = if state == ExecutionState::Pending { "" } else { "gone" };
                let change = format!("state = '{}', node = '{node}', {column} = {end}", state.as_str());
                case.set("QRTZ_RUN", &change, &format!("id = {id}"));
            }
        }
    }
    case.claims_of("gone");
    case.all_goes_on();
    let stranded = case.store.stranded(&case.app, ExecutionId(0), 1_000).unwrap().stranded;
    assert_eq!(stranded.len(), 2 * 4 * 3);
    for stranded in stranded {
        assert!(case.store.revoke(&[crate::repair::recover(stranded, AT, AT)]).is_ok());
    }
    case.all_goes_on();
    drop(case.run("healthy"));
}

/// The views are for people without the program: one row beyond the calendar must not hide all others.
fn the_views_show_rows_beyond_the_calendar(database: &Database) {
    let case = Case::new(database);
    for (n, end) in [i64::MIN, i64::MAX, -2, 99_999_999_999_999_999].into_iter().enumerate() {
        for column in ["scheduled_time", "claimed_time", "started_time", "until_time", "finished_time"] {
            for state in ["RUNNING", "FAILED"] {
                let id = case.run(&format!("{n} {column} {state}")).execution();
                let change = format!("state = '{state}', {column} = {end}");
                case.set("QRTZ_RUN", &change, &format!("id = {id}"));
            }
        }
    }
    for view in ["qrtz_claimed", "qrtz_failed", "qrtz_ledger"] {
        let question = sql(format!("SELECT * FROM {view} WHERE application = ?")).bind(case.app.as_str());
        assert_eq!(case.database.session().rows(&question).unwrap().len(), 20, "{view}");
    }
    case.all_goes_on();
}

macro_rules! edited {
    ($database:ident, $feature:literal, $make:expr) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn a_shard_that_is_none_is_quarantined() {
                super::a_shard_that_is_none_is_quarantined(&$make);
            }

            #[test]
            fn a_schedule_without_a_name_is_told_by_its_id() {
                super::a_schedule_without_a_name_is_told_by_its_id(&$make);
            }

            #[test]
            fn attempts_and_fences_at_their_ends_disturb_nobody() {
                super::attempts_and_fences_at_their_ends_disturb_nobody(&$make);
            }

            #[test]
            fn the_views_show_rows_beyond_the_calendar() {
                super::the_views_show_rows_beyond_the_calendar(&$make);
            }
        }
    };
}

edited!(sqlite, "sqlite", Database::sqlite());
edited!(postgres, "postgres", Database::postgres());
edited!(mariadb, "mysql", Database::mariadb());

/// Texts that are no UTF-8: where PostgreSQL's database has no encoding, where MariaDB's column has none.
mod bytes {
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    use super::super::server;
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    use super::*;
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    use crate::store::sql::{Target, migrate};

    /// A database of its own; the edits follow the making of its tables.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn disturb_nobody(variable: &str, encoding: &str, prepare: &[&str], bytes: &str) {
        let shared = server(variable);
        let (rest, _) = shared.rsplit_once('/').unwrap();
        let name = super::super::application().replace('-', "_");
        let mut admin = Target::parse(&shared).unwrap().connect(LIMITS).unwrap();
        admin.batch(&format!("CREATE DATABASE {name} {encoding}")).unwrap();
        let url = format!("{rest}/{name}");
        migrate(&url).unwrap();
        let database = Database::on(url, None);
        let case = Case::new(&database);
        for statement in prepare {
            database.session().batch(statement).unwrap();
        }
        for column in ["payload", "name", "state", "cron", "reason"] {
            let id = case.schedule(column).id;
            let edit = format!(
                "{column} = {bytes}, job_type = 'CRON', zone_id = 'UTC', next_fire_time = 1700000000000"
            );
            case.set("QRTZ_EXECUTE", &edit, &format!("id = {id}"));
        }
        for column in ["error", "reason", "claim_token"] {
            let id = case.run(&format!("run-{column}")).execution();
            case.set("QRTZ_RUN", &format!("{column} = {bytes}"), &format!("id = {id}"));
        }
        case.all_goes_on();
        drop(case.run("healthy é☕"));
        let rows = case.store.schedules(Some(&case.app)).unwrap();
        assert_eq!(rows.iter().filter(|row| row.state == "ERROR").count(), 5, "{rows:?}");
        assert!(rows.iter().any(|row| row.name == "healthy é☕"));
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn of_a_database_without_an_encoding_disturb_nobody() {
        let encoding = "ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'";
        disturb_nobody("FIRETIME_TEST_POSTGRES_URL", encoding, &[], r"E'66\xff67'");
    }

    #[test]
    #[cfg(feature = "mysql")]
    fn of_columns_without_an_encoding_disturb_nobody() {
        let columns =
            [("QRTZ_EXECUTE", "payload LONGBLOB NOT NULL"), ("QRTZ_EXECUTE", "name VARBINARY(800) NOT NULL")];
        let others = [
            ("QRTZ_EXECUTE", "state VARBINARY(20)"),
            ("QRTZ_EXECUTE", "cron VARBINARY(800)"),
            ("QRTZ_EXECUTE", "reason VARBINARY(800) NOT NULL DEFAULT ''"),
            ("QRTZ_RUN", "error LONGBLOB"),
            ("QRTZ_RUN", "reason VARBINARY(200) NOT NULL DEFAULT ''"),
            ("QRTZ_RUN", "claim_token VARBINARY(36) NOT NULL DEFAULT ''"),
        ];
        let alter = |(table, column): &(&str, &str)| format!("ALTER TABLE {table} MODIFY {column}");
        let alter: Vec<String> = columns.iter().chain(&others).map(alter).collect();
        let alter: Vec<&str> = alter.iter().map(String::as_str).collect();
        disturb_nobody("FIRETIME_TEST_MARIADB_URL", "", &alter, "x'66ff67'");
    }
}

/// SQLite keeps whatever it is given, in any column.
#[cfg(feature = "sqlite")]
mod sqlite_types {
    use super::*;

    /// A blob, a text that is no UTF-8, a number with a fraction, a text, a number.
    const VALUES: [&str; 5] = ["x'ff00'", "CAST(x'66ff67' AS TEXT)", "1.5", "'word'", "700007"];

    fn columns(case: &Case<'_>, table: &str) -> Vec<String> {
        let question = sql("SELECT name FROM pragma_table_info(?)").bind(table);
        let rows = case.database.session().rows(&question).unwrap();
        let names: Vec<_> = rows.into_iter().map(|mut row| row.text().unwrap()).collect();
        assert!(names.len() > 5, "{names:?}");
        names.into_iter().filter(|name| !["id", "application"].contains(&name.as_str())).collect()
    }

    /// Writes each value into each column of a row of its own, as far as the table's keys let it.
    fn edit(case: &Case<'_>, table: &str, key: impl Fn(&str) -> String) {
        let mut edited = 0;
        for column in columns(case, table) {
            for (n, value) in VALUES.into_iter().enumerate() {
                let condition = key(&format!("{column} {n}"));
                edited +=
                    case.write(&format!("UPDATE OR IGNORE {table} SET {column} = {value} WHERE {condition}"));
            }
        }
        assert!(edited > 20, "{edited} of {table}");
    }

    fn goes_on(case: &Case<'_>) {
        case.all_goes_on();
        case.all_goes_on();
        drop(case.run("healthy"));
        assert_ne!(case.state("healthy"), "ERROR");
    }

    /// Its pause would be lost, and the count begin again.
    #[test]
    fn a_schedule_whose_version_cannot_be_read_has_no_streak() {
        use crate::store::streak::{Reach, StreakQuery};
        let database = Database::sqlite();
        let case = Case::new(&database);
        let schedule = case.schedule("s").id;
        case.write(&format!("UPDATE QRTZ_EXECUTE SET pause_after = 1 WHERE id = {schedule}"));
        case.write(&format!(
            "INSERT INTO QRTZ_RUN (application, execute_id, generation, origin, scheduled_time, attempt, \
             state, due_time, finished_time) SELECT e.application, e.id, e.generation, 0, 7, 1, 'FAILED', \
             7, 7 FROM QRTZ_EXECUTE e WHERE e.id = {schedule}"
        ));
        let query = StreakQuery { schedule, dying: Vec::new(), reach: Reach::MOST };
        assert!(case.store.streak(&query).unwrap().is_some());
        case.write(&format!("UPDATE QRTZ_EXECUTE SET version = 'word' WHERE id = {schedule}"));
        assert_eq!(case.store.streak(&query).unwrap(), None);
    }

    #[test]
    fn schedules_of_any_type_disturb_nobody() {
        let database = Database::sqlite();
        let case = Case::new(&database);
        edit(&case, "QRTZ_EXECUTE", |name| format!("id = {}", case.schedule(name).id));
        goes_on(&case);
        let rows = case.store.schedules(Some(&case.app)).unwrap();
        let broken: Vec<_> = rows.iter().filter(|row| row.state == "ERROR").collect();
        assert!(
            broken.len() > 40 && broken.iter().all(|row| !row.pause.reason.is_empty()),
            "{}",
            broken.len()
        );
        // A generation is mended by hand alone.
        let mendable = |name: &&str| !name.is_empty() && !name.starts_with("generation");
        for name in broken.iter().map(|row| row.name.as_str()).filter(mendable) {
            case.mend(name);
        }
    }

    /// There is no name to go on from behind a page of them, but each page is gone before the next is read.
    #[test]
    fn a_walk_of_retention_passes_pages_of_one_shots_without_names() {
        let database = Database::sqlite();
        let case = Case::new(&database);
        super::super::fixture::schedules(case.store.as_ref(), &case.app, 1_001);
        case.write(
            "UPDATE QRTZ_EXECUTE SET state = 'COMPLETE', job_type = 'SIMPLE', repeat_count = 0, \
             repeat_interval = 0, prev_fire_time = 1000000000000, next_fire_time = -1, \
             name = CAST(name AS BLOB)",
        );
        case.purged();
        assert_eq!(case.store.schedules(Some(&case.app)).unwrap().len(), 0);
    }

    #[test]
    fn executions_of_any_type_disturb_nobody() {
        let database = Database::sqlite();
        let case = Case::new(&database);
        for state in ["PENDING", "CLAIMED", "RUNNING", "SUCCEEDED"] {
            edit(&case, "QRTZ_RUN", |name| {
                let id = case.run(&format!("{state} {name}")).execution();
                let node = if state == "PENDING" { "" } else { "gone" };
                case.set("QRTZ_RUN", &format!("state = '{state}', node = '{node}'"), &format!("id = {id}"));
                format!("id = {id}")
            });
        }
        goes_on(&case);
        let shown = case.store.executions(&ExecutionQuery { limit: 10_000, ..case.executions() }).unwrap();
        assert!(shown.len() > 300, "{}", shown.len());
    }

    #[test]
    fn nodes_of_any_type_disturb_nobody() {
        let database = Database::sqlite();
        let case = Case::new(&database);
        edit(&case, "QRTZ_NODE", |_| {
            let node = NodeId::fresh();
            case.join(node);
            format!("uuid = '{node}'")
        });
        goes_on(&case);
    }

    #[test]
    fn a_job_and_an_application_of_any_type_disturb_nobody() {
        for (table, key) in [("QRTZ_JOB", "job_class = 'work'"), ("QRTZ_APP", "1 = 1")] {
            let database = Database::sqlite();
            let case = Case::new(&database);
            for column in columns(&case, table).iter().filter(|column| *column != "job_class") {
                for value in VALUES {
                    let before = case.schedule("before");
                    case.write(&format!("UPDATE {table} SET {column} = {value} WHERE {key}"));
                    goes_on(&case);
                    let after = case.schedule("before");
                    // A number is a limit.
                    let before = Entry { bounds: after.bounds, ..(*before).clone() };
                    assert_eq!(*after, before, "{table} {column} {value}");
                }
            }
        }
    }

    #[test]
    fn a_text_that_is_no_utf_8_reads_as_null_and_others_as_they_are() {
        let database = Database::sqlite();
        let question = sql("SELECT CAST(x'66ff67' AS TEXT), 'a\u{fffd}b', x'6162', 1.5, 'é', 3");
        let mut rows = database.session().rows(&question).unwrap();
        let read: Vec<Cell> = (0..6).map(|_| rows[0].next().unwrap()).collect();
        let text = |text: &str| Cell::Text(text.to_owned());
        assert_eq!(read, [Cell::Null, text("a\u{fffd}b"), Cell::Null, Cell::Null, text("é"), Cell::Int(3)]);
    }
}
