//! Migrations on databases of their own: each test makes one and drops it.
#![allow(clippy::disallowed_methods, reason = "several nodes boot at once")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::store::Definition;
use crate::store::conformance::all_broken;
use crate::trigger::Trigger;

/// Versions that a later firetime might bring; the second needs the first.
const LATER: &[Migration<'_>] = &[
    Migration {
        version: VERSION + 1,
        needs: VERSION + 1,
        name: "a column",
        sqlite: "ALTER TABLE QRTZ_APP ADD COLUMN later BIGINT NOT NULL DEFAULT 7",
        postgres: "ALTER TABLE QRTZ_APP ADD COLUMN IF NOT EXISTS later BIGINT NOT NULL DEFAULT 7",
        mysql: "ALTER TABLE QRTZ_APP ADD COLUMN IF NOT EXISTS later BIGINT NOT NULL DEFAULT 7",
    },
    on_each(
        VERSION + 2,
        "its index",
        "CREATE INDEX IF NOT EXISTS QRTZ_APP_LATER ON QRTZ_APP (later);\n\n\
         UPDATE QRTZ_APP SET later = 8 WHERE later = 7;\n",
    ),
    on_each(VERSION + 3, "nothing", ""),
];

const fn on_each<'a>(version: i64, name: &'a str, text: &'a str) -> Migration<'a> {
    Migration { version, needs: version, name, sqlite: text, postgres: text, mysql: text }
}

/// This build's versions, then the later ones.
fn all() -> Vec<Migration<'static>> {
    [MIGRATIONS, LATER].concat()
}

/// What a run reports that added these.
fn added(migrations: &[Migration<'_>]) -> Vec<(i64, String)> {
    migrations.iter().map(|migration| (migration.version, migration.name.to_owned())).collect()
}

/// A database nobody else uses.
struct Own {
    url: String,
    admin: Option<(String, String)>,
    _dir: Option<tempfile::TempDir>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Own {
    fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("own.db").display());
        Self { url, admin: None, _dir: Some(dir) }
    }

    fn server(admin: String) -> Self {
        let name = format!("ft_migrate_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        run(&admin, &format!("CREATE DATABASE {name}"));
        let (rest, _) = admin.rsplit_once('/').unwrap();
        Self { url: format!("{rest}/{name}"), admin: Some((admin.clone(), name)), _dir: None }
    }

    fn session(&self) -> Box<dyn Session + Send> {
        Target::parse(&self.url).unwrap().connect(LIMITS).unwrap()
    }

    /// The rows of QRTZ_SCHEMA.
    fn versions(&self) -> Vec<(i64, String)> {
        let rows =
            self.session().rows(&sql("SELECT version, name FROM QRTZ_SCHEMA ORDER BY version")).unwrap();
        rows.into_iter().map(|mut row| (row.int().unwrap(), row.text().unwrap())).collect()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some((admin, name)) = &self.admin {
            run(admin, &format!("DROP DATABASE {name}"));
        }
    }
}

fn run(url: &str, text: &str) {
    Target::parse(url).unwrap().connect(LIMITS).unwrap().batch(text).unwrap();
}

fn several_boot_at_once(own: &Own) {
    let applied: Vec<usize> = std::thread::scope(|scope| {
        let boots: Vec<_> =
            (0..6).map(|_| scope.spawn(|| migrate_by(&own.url, &all()).unwrap().applied.len())).collect();
        boots.into_iter().map(|boot| boot.join().unwrap()).collect()
    });
    assert_eq!(applied.iter().sum::<usize>(), all().len(), "{applied:?}");
    assert_eq!(own.versions(), added(&all()));
}

/// Later versions are added in their order, and existing rows are kept.
fn a_schema_is_brought_up_from_where_it_is(own: &Own) {
    assert_eq!(migrate(&own.url).unwrap().applied, added(MIGRATIONS));
    check_schema(&own.url).unwrap();
    run(&own.url, "INSERT INTO QRTZ_APP (application) VALUES ('shop')");
    let report = migrate_by(&own.url, &all()).unwrap();
    assert_eq!(report, MigrationReport { version: VERSION + 3, applied: added(LATER) });
    assert_eq!(single(own.session().rows(&sql("SELECT later FROM QRTZ_APP")).unwrap()).unwrap(), 8);
    assert_eq!(migrate_by(&own.url, &all()).unwrap().applied, []);
    assert_eq!(own.versions(), added(&all()));
}

fn a_missing_schema_is_reported_and_left_missing(own: &Own) {
    for _ in 0..2 {
        let error = check_schema(&own.url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.to_string().contains("firetime migrate"), "{error}");
    }
}

fn a_newer_schema_is_refused_and_left_alone(own: &Own) {
    let newest = migrate_by(&own.url, &all()).unwrap().version;
    for error in [migrate(&own.url).unwrap_err(), check_schema(&own.url).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Schema);
        let said = format!("version {newest}, newer than this firetime's {VERSION}");
        assert!(error.to_string().contains(&said), "{error}");
    }
    assert_eq!(own.versions(), added(&all()));
}

/// A build starts on a newer schema that only adds to its own, unless a still later version needs more.
fn a_newer_schema_that_only_adds_is_worked_on(own: &Own) {
    let adds = Migration { needs: VERSION, ..LATER[0] };
    let newer = [MIGRATIONS, &[adds]].concat();
    assert_eq!(migrate_by(&own.url, &newer).unwrap().version, VERSION + 1);
    check_schema(&own.url).unwrap();
    let report = migrate(&own.url).unwrap();
    assert_eq!(report, MigrationReport { version: VERSION + 1, applied: Vec::new() });
    migrate_by(&own.url, &[MIGRATIONS, &[adds], &LATER[1..]].concat()).unwrap();
    assert_eq!(check_schema(&own.url).unwrap_err().kind(), ErrorKind::Schema);
    assert_eq!(migrate(&own.url).unwrap_err().kind(), ErrorKind::Schema);
}

/// Nodes of a later release write words that this build does not know: it leaves their rows to them.
fn words_of_a_later_release_are_left_to_its_nodes(own: &Own) {
    migrate(&own.url).unwrap();
    let store = Target::parse(&own.url).unwrap().open(LIMITS, Arc::default()).unwrap();
    let hourly = Trigger::cron("@hourly", "UTC").unwrap();
    store
        .ensure(&Definition { application: "shop".to_owned(), ..Definition::new("s", "work", hourly) })
        .unwrap();
    run(&own.url, "UPDATE QRTZ_EXECUTE SET misfire = 'LATER' WHERE name = 's'");
    let broken = || all_broken(store.as_ref(), "shop", 1_000, 10).len();
    assert_eq!(broken(), 1);
    let adds = Migration { needs: VERSION, ..LATER[0] };
    migrate_by(&own.url, &[MIGRATIONS, &[adds]].concat()).unwrap();
    assert_eq!(broken(), 0);
}

fn diesels_own_migrations_are_left_alone(own: &Own) {
    run(&own.url, "CREATE TABLE __diesel_schema_migrations (version VARCHAR(50) PRIMARY KEY, run_on BIGINT)");
    run(&own.url, "INSERT INTO __diesel_schema_migrations VALUES ('00000000000001', 7)");
    migrate(&own.url).unwrap();
    let rows = own.session().rows(&sql("SELECT run_on FROM __diesel_schema_migrations")).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(single(rows).unwrap(), 7);
}

/// Fails after each statement of each version in turn, and before the version's row; the next run mends it.
fn a_crash_between_two_statements_is_mended(make: impl Fn() -> Own) {
    let (dialect, all) = (make().session().dialect(), all());
    for (at, migration) in all.iter().enumerate() {
        let statements: Vec<&str> = migration.statements(dialect).collect();
        assert!(at > 0 || statements.len() >= 9, "{statements:?}");
        for done in 0..=statements.len() {
            let text = [&statements[..done], &["SELECT crashed"]].concat().join(";\n");
            let mut crashing = all.clone();
            crashing[at] = on_each(migration.version, migration.name, &text);
            let own = make();
            let error = migrate_by(&own.url, &crashing).unwrap_err();
            assert!(format!("{error:#}").contains("crashed"), "{error:#}");
            // MariaDB keeps the versions that had ended.
            let kept = if dialect == Dialect::Mysql { at } else { 0 };
            let version = all[..kept].last().map(|migration| migration.version);
            assert_eq!(
                installed(own.session().as_mut()).unwrap().map(|it| it.version),
                version,
                "{} after {done}",
                migration.name
            );
            assert_eq!(migrate_by(&own.url, &all).unwrap().applied, added(&all[kept..]));
            assert_eq!(migrate_by(&own.url, &all).unwrap().applied, []);
            for table in [
                "QRTZ_APP",
                "QRTZ_NODE",
                "QRTZ_JOB",
                "QRTZ_EXECUTE",
                "QRTZ_RUN",
                "qrtz_claimed",
                "qrtz_ledger",
                "qrtz_late",
                "qrtz_handlers",
                "qrtz_failed",
            ] {
                own.session().rows(&sql(format!("SELECT COUNT(*) FROM {table}"))).unwrap();
            }
            own.session().rows(&sql("SELECT later FROM QRTZ_APP")).unwrap();
        }
    }
}

/// A change of a whole ledger takes longer than any other statement may.
fn a_migration_that_takes_longer_than_a_statement_may_is_finished(own: &Own, slow: &'static str) {
    let limits = StoreLimits { call: 500, ..LIMITS };
    let mut session = Target::parse(&own.url).unwrap().connect(limits).unwrap();
    assert!(session.batch(slow).is_err(), "the session has a limit");
    let mut session = Target::parse(&own.url).unwrap().connect(limits).unwrap();
    let with_slow = [MIGRATIONS, &[on_each(VERSION + 1, "slow", slow)]].concat();
    assert_eq!(bring_up(session.as_mut(), &with_slow).unwrap().applied, added(&with_slow));
}

#[test]
fn an_older_schema_is_refused_with_what_to_do() {
    let installed = |version, needs| Some(Installed { version, needs });
    assert_eq!(fits(installed(2, 2), 2), Ok(()));
    assert_eq!(fits(installed(3, 2), 2), Ok(()));
    assert!(fits(installed(3, 3), 2).unwrap_err().contains("newer than this firetime's 2"));
    let said = fits(installed(1, 1), 2).unwrap_err();
    assert!(said.contains("version 1, this firetime needs 2: run `firetime migrate`"), "{said}");
}

macro_rules! migrations {
    ($database:ident, $feature:literal, $make:expr) => {
        #[cfg(feature = $feature)]
        mod $database {
            use super::*;

            #[test]
            fn several_boot_at_once() {
                super::several_boot_at_once(&$make);
            }

            #[test]
            fn a_schema_is_brought_up_from_where_it_is() {
                super::a_schema_is_brought_up_from_where_it_is(&$make);
            }

            #[test]
            fn a_missing_schema_is_reported_and_left_missing() {
                super::a_missing_schema_is_reported_and_left_missing(&$make);
            }

            #[test]
            fn a_newer_schema_is_refused_and_left_alone() {
                super::a_newer_schema_is_refused_and_left_alone(&$make);
            }

            #[test]
            fn a_newer_schema_that_only_adds_is_worked_on() {
                super::a_newer_schema_that_only_adds_is_worked_on(&$make);
            }

            #[test]
            fn words_of_a_later_release_are_left_to_its_nodes() {
                super::words_of_a_later_release_are_left_to_its_nodes(&$make);
            }

            #[test]
            fn diesels_own_migrations_are_left_alone() {
                super::diesels_own_migrations_are_left_alone(&$make);
            }

            #[test]
            fn a_crash_between_two_statements_is_mended() {
                super::a_crash_between_two_statements_is_mended(|| $make);
            }
        }
    };
}

migrations!(sqlite, "sqlite", Own::sqlite());
migrations!(
    postgres,
    "postgres",
    Own::server(crate::store::sql::tests::server("FIRETIME_TEST_POSTGRES_URL"))
);
migrations!(mariadb, "mysql", Own::server(crate::store::sql::tests::server("FIRETIME_TEST_MARIADB_URL")));

#[cfg(feature = "postgres")]
#[test]
fn a_migration_that_takes_longer_than_a_statement_may_is_finished_on_postgres() {
    let own = Own::server(crate::store::sql::tests::server("FIRETIME_TEST_POSTGRES_URL"));
    a_migration_that_takes_longer_than_a_statement_may_is_finished(&own, "SELECT pg_sleep(0.7)");
}

/// MariaDB counts a statement's limit in seconds.
#[cfg(feature = "mysql")]
#[test]
fn a_migration_that_takes_longer_than_a_statement_may_is_finished_on_mariadb() {
    let own = Own::server(crate::store::sql::tests::server("FIRETIME_TEST_MARIADB_URL"));
    let slow = "SELECT COUNT(*) FROM (SELECT 1 UNION SELECT 2 UNION SELECT 3) AS t WHERE SLEEP(0.7) = 0";
    a_migration_that_takes_longer_than_a_statement_may_is_finished(&own, slow);
}

/// A running node reads a table's row and then changes it, in one transaction, while another node's migration
/// changes the table.
#[cfg(feature = "postgres")]
#[test]
fn a_migration_waits_for_a_running_nodes_transaction() {
    let own = Own::server(crate::store::sql::tests::server("FIRETIME_TEST_POSTGRES_URL"));
    migrate(&own.url).unwrap();
    let (mut running, mut observer) = (own.session(), own.session());
    running.batch("BEGIN; SELECT ledger_from FROM QRTZ_APP").unwrap();
    std::thread::scope(|scope| {
        let migrating = scope.spawn(|| migrate_by(&own.url, &all()));
        let waiting =
            sql("SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'qrtz_app'::regclass");
        while single(observer.rows(&waiting).unwrap()).unwrap() == 0 {
            assert!(!migrating.is_finished(), "it waits for nothing");
        }
        running.batch("UPDATE QRTZ_APP SET ledger_from = 1; COMMIT").unwrap();
        assert_eq!(migrating.join().unwrap().unwrap().applied, added(LATER));
    });
}

#[cfg(feature = "postgres")]
#[test]
fn a_node_that_waits_for_anothers_migration_says_so() {
    let own = Own::server(crate::store::sql::tests::server("FIRETIME_TEST_POSTGRES_URL"));
    let (mut migrating, mut waiting) = (own.session(), own.session());
    Dialect::Postgres.database().lock_schema(migrating.as_mut()).unwrap();
    waiting.batch("SET lock_timeout = 1").unwrap();
    let fault = Dialect::Postgres.database().lock_schema(waiting.as_mut()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Busy);
    assert!(fault.message.contains("another node"), "{}", fault.message);
}
